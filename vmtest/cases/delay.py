#!/usr/bin/python3
# timeout: 150
"""What a person means by delay: one request, once, whatever carries it; long ones, large ones, with jitter, per packet."""
import chaos
from case import check, check_equal, check_took, main, part
from scene import VICTIM, Scene

DELAY_MS = 600

scene = None


def setup():
    global scene
    scene = Scene()
    scene.listen(8100)
    scene.near.listen("127.0.0.1", 8143, "tls")
    scene.far.listen("fd77:1::2", 8143, "tls")
    scene.listen(8101, "echo")
    scene.listen(8102, "udp")


def rule(ports, fault, name="slow", **keys):
    return chaos.rule(name, {"cgroup": VICTIM, "ports": ports}, fault, **keys)


def books(injected, name="slow"):
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    check_equal((state[name]["matched"], state[name]["injected"]), (injected, injected), "matched, injected")


@part
def tls():
    """Handshakes are undisturbed; each request is late once, with TLS 1.2 and 1.3, on new and kept-alive connections."""
    for client in (scene.victim, scene.neighbour):  # so that certificates and modules are warm
        client.open("127.0.0.1", 8143, tls="1.3")
    chaos.load(rule([8143], {"delay": f"{DELAY_MS}ms"}))
    asked = 0
    for host in ("127.0.0.1", "fd77:1::2"):
        for version in ("1.2", "1.3"):
            opened = scene.victim.open(host, 8143, tls=version)
            check_equal(opened["error"], None, f"TLS {version} to {host}: handshake")
            for turn in ("first", "second", "third"):
                met = scene.victim.request(opened["id"], "/echo" if turn == "third" else "/bytes/10",
                                           body=30000 if turn == "third" else 0)
                check_equal(met["error"], None, f"TLS {version} to {host}: {turn} request")
                check_took(met["ms"], DELAY_MS, f"TLS {version} to {host}: {turn} request")
                asked += 1
    other = scene.neighbour.open("127.0.0.1", 8143, tls="1.3")["id"]
    check(min(scene.neighbour.request(other)["ms"] for _ in range(3)) < DELAY_MS, "the neighbour is slow as well")
    books(asked)


@part
def twelve_seconds():
    """Beyond fq's usual horizon: nothing is lost. Meanwhile a connection whose client goes away."""
    chaos.load(rule([8100], {"delay": "12s"}))
    numbers = [scene.victim.open(host, 8100)["id"] for host in ("127.0.0.1", "fd77:1::2", "10.77.1.2")]
    for met in scene.victim.requests_together(numbers, timeout=40):
        check_equal(met["error"], None, "a request of 12 s")
        check_took(met["ms"], 12000, "a request of 12 s", room_ms=3000)
    books(3)


@part
def large():
    """50 MB behind a delay come as fast as without, and 300 KB are sent at once after it."""
    chaos.load(rule([8100], {"delay": f"{DELAY_MS}ms"}))
    for host in ("127.0.0.1", "10.77.1.2"):
        free, held = scene.neighbour.open(host, 8100)["id"], scene.victim.open(host, 8100)["id"]
        size = 50_000_000
        unfaulted = scene.neighbour.request(free, f"/bytes/{size}", timeout=60)
        met = scene.victim.request(held, f"/bytes/{size}", timeout=60)
        check_equal((met["error"], met["bytes"]), (None, size), f"{host}: 50 MB")
        check_took(met["first_ms"], DELAY_MS, f"{host}: first byte of 50 MB")
        rest, normal = met["ms"] - met["first_ms"], unfaulted["ms"] - unfaulted["first_ms"]
        check(rest <= 4 * normal + 2000, f"{host}: 50 MB took {rest:.0f} ms after the first byte, {normal:.0f} without a delay")
        for turn in ("first", "second"):
            met = scene.victim.request(held, "/echo", body=300_000)
            check_equal((met["error"], met["bytes"]), (None, 300_000), f"{host}: {turn} POST of 300 KB")
            check_took(met["ms"], DELAY_MS, f"{host}: {turn} POST of 300 KB")
    books(6)


@part
def small():
    """A request may be a few bytes, as with Redis."""
    chaos.load(rule([8101], {"delay": f"{DELAY_MS}ms"}))
    number = scene.victim.open("127.0.0.1", 8101)["id"]
    for _ in range(2):
        met = scene.victim.ping(number)
        check_equal(met["error"], None, "a small request")
        check_took(met["ms"], DELAY_MS, "a small request")
    books(2)


@part
def jitter():
    """Every delay lies where its distribution says; and they differ."""
    asked, jittered = 100, 40
    chaos.load(*[rule([8100 + 20 + i], {"delay": f"{asked}ms", "jitter": f"{jittered}ms", "distribution": name}, name)
                 for i, name in enumerate(("uniform", "normal", "pareto"))])
    limits = {"uniform": (60, 140), "normal": (0, 260), "pareto": (60, 260)}
    numbers = []
    for i in range(3):
        scene.near.listen("127.0.0.1", 8120 + i)
        numbers.append([scene.victim.open("127.0.0.1", 8120 + i)["id"] for _ in range(20)])
    times = {}
    for name, some in zip(limits, numbers):
        for _ in range(2):
            for met in scene.victim.requests_together(some):
                times.setdefault(name, []).append(met["ms"])
    told = {name: sorted(event["delay_ms"] for event in chaos.events() if event["rule"] == name) for name in limits}
    for name, (low, high) in limits.items():
        check_equal(len(told[name]), 40, f"{name}: events")
        check(low <= told[name][0] and told[name][-1] <= high, f"{name}: from {told[name][0]} to {told[name][-1]} ms")
        check(len(set(told[name])) > 20, f"{name}: only {len(set(told[name]))} different delays")
        middle = sum(told[name]) / len(told[name])
        check(asked - jittered <= middle <= asked + jittered, f"{name}: {middle} ms on average")
        check(all(took >= asked_for - 1 for took, asked_for in zip(sorted(times[name]), told[name])),
              f"{name}: asked for {told[name]}, took {sorted(times[name])}")


@part
def per_packet():
    """The older behaviour: every packet that leaves, so a new connection pays for its handshake and its request."""
    chaos.load(rule([8100, 8102], {"delay": "300ms"}, per="packet"))
    for host in ("127.0.0.1", "fd77:1::2"):
        opened = scene.victim.open(host, 8100)
        check_took(opened["ms"], 300, f"{host}: connecting")
        check_took(scene.victim.request(opened["id"])["ms"], 300, f"{host}: the request")
        number = scene.victim.udp_open(host, 8102)["id"]
        check_took(scene.victim.udp_ask(number, "x 1", timeout=10)["ms"], 300, f"{host}: a datagram")
        check_equal(scene.neighbour.get(host, 8100)["error"], None, f"{host}: the neighbour")
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    check(state["slow"]["injected"] >= 8, f"packets that were delayed: {state['slow']}")


main(setup, lambda: scene and scene.close())
