#!/usr/bin/python3
# timeout: 150
"""What a person means by delay: one request, once, whatever carries it; long ones, large ones, with jitter, per packet."""
import chaos
from case import check, check_equal, check_took, expect, main, part
from scene import VICTIM, Scene

DELAY_MS, LONG_MS = 600, 12000
LONG, PLAIN, SECURE, ECHO, EACH, EACH_UDP, JITTER = 8100, 8101, 8102, 8103, 8104, 8105, 8106  # and two after the last
DISTRIBUTIONS = {"uniform": (60, 140), "normal": (0, 260), "pareto": (60, 260)}  # where 100 ms +- 40 ms may lie

scene = patient = None


def setup():
    global scene, patient
    scene = Scene()
    patient = scene.client(cgroup=VICTIM, comm="patient")
    for port in [LONG, PLAIN, EACH] + [JITTER + i for i in range(len(DISTRIBUTIONS))]:
        scene.listen(port)
    scene.listen(ECHO, "echo")
    scene.listen(EACH_UDP, "udp")
    scene.near.listen("127.0.0.1", SECURE, "tls")
    scene.far.listen("fd77:1::2", SECURE, "tls")
    for host in ("127.0.0.1", "fd77:1::2"):
        scene.victim.open(host, SECURE, tls="1.3")  # so that all is warm


def rules():
    def rule(name, ports, fault, **keys):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": ports}, fault, **keys)

    slow = {"delay": f"{DELAY_MS}ms"}
    return [rule("long", [LONG], {"delay": f"{LONG_MS // 1000}s"}), rule("plain", [PLAIN], slow),
            rule("tls", [SECURE], slow), rule("small", [ECHO], slow),
            rule("packets", [EACH, EACH_UDP], {"delay": "300ms"}, per="packet")] + [
        rule(name, [JITTER + i], {"delay": "100ms", "jitter": "40ms", "distribution": name})
        for i, name in enumerate(DISTRIBUTIONS)]


@part
def long_begins():
    """12 s, beyond fq's usual horizon; goes on in the background."""
    patient.begin("requests_together", [patient.open(host, LONG)["id"] for host in ("127.0.0.1", "fd77:1::2", "10.77.1.2")],
                  timeout=60)


@part
def tls():
    """Handshakes are undisturbed; each request is late once, with TLS 1.2 and 1.3, on new and kept-alive connections."""
    for host in ("127.0.0.1", "fd77:1::2"):
        for version in ("1.2", "1.3"):
            opened = scene.victim.open(host, SECURE, tls=version)
            check_equal(opened["error"], None, f"TLS {version} to {host}: handshake")
            for turn, body in (("first", 0), ("second", 0), ("third", 30000)):
                met = scene.victim.request(opened["id"], "/echo" if body else "/bytes/10", body=body)
                check_equal((met["error"], met["status"]), (None, 200), f"TLS {version} to {host}: {turn} request")
                check_took(met["ms"], DELAY_MS, f"TLS {version} to {host}: {turn} request")
                expect("tls", 1)
    other = scene.neighbour.open("127.0.0.1", SECURE, tls="1.3")["id"]
    check(min(scene.neighbour.request(other)["ms"] for _ in range(3)) < DELAY_MS, "the neighbour is slow as well")


@part
def large():
    """50 MB behind a delay come as fast as without, and 300 KB are sent at once after it."""
    size = 50_000_000
    for host in ("127.0.0.1", "10.77.1.2"):
        free, held = scene.neighbour.open(host, PLAIN)["id"], scene.victim.open(host, PLAIN)["id"]
        unfaulted = scene.neighbour.request(free, f"/bytes/{size}", timeout=60)
        met = scene.victim.request(held, f"/bytes/{size}", timeout=60)
        check_equal((met["error"], met["bytes"]), (None, size), f"{host}: 50 MB")
        check_took(met["first_ms"], DELAY_MS, f"{host}: first byte of 50 MB")
        rest, normal = met["ms"] - met["first_ms"], unfaulted["ms"] - unfaulted["first_ms"]
        check(rest <= 4 * normal + 2000, f"{host}: 50 MB took {rest:.0f} ms after the first byte, {normal:.0f} unfaulted")
        for turn in ("first", "second"):
            met = scene.victim.request(held, "/echo", body=300_000)
            check_equal((met["error"], met["bytes"]), (None, 300_000), f"{host}: {turn} POST of 300 KB")
            check_took(met["ms"], DELAY_MS, f"{host}: {turn} POST of 300 KB")
        expect("plain", 3)


@part
def small():
    """A request may be a few bytes, as with Redis."""
    for host in ("127.0.0.1", "fd77:1::2"):
        number = scene.victim.open(host, ECHO)["id"]
        for _ in range(2):
            met = scene.victim.ping(number)
            check_equal(met["error"], None, "a small request")
            check_took(met["ms"], DELAY_MS, "a small request")
            expect("small", 1)


@part
def jitter():
    """Every delay lies where its distribution says; they differ; and each request took as long as its event says."""
    for i, (name, (low, high)) in enumerate(DISTRIBUTIONS.items()):
        opened = [scene.victim.open("127.0.0.1", JITTER + i) for _ in range(20)]
        by_port = {one["local"][1]: [] for one in opened}
        for _ in range(2):
            for one, met in zip(opened, scene.victim.requests_together([one["id"] for one in opened])):
                by_port[one["local"][1]].append(met["ms"])
        told = {(event["local_port"], event["request"]): event["delay_ms"] for event in chaos.events()
                if event["rule"] == name}
        delays = sorted(told.values())
        check_equal(len(delays), 40, f"{name}: events")
        check(low <= delays[0] and delays[-1] <= high, f"{name}: from {delays[0]} to {delays[-1]} ms")
        check(len(set(delays)) > 20, f"{name}: only {len(set(delays))} different delays")
        check(60 <= sum(delays) / len(delays) <= 140, f"{name}: {sum(delays) / len(delays)} ms on average")
        for (port, request), asked in told.items():
            took = by_port[port][request - 1]
            check(took >= asked - 1, f"{name}: request {request} was to take {asked} ms more, took {took}")
        expect(name, 40)


@part
def per_packet():
    """The older behaviour: every packet that leaves, so a new connection pays for its handshake and for its request."""
    for host in ("127.0.0.1", "fd77:1::2"):
        opened = scene.victim.open(host, EACH)
        check_took(opened["ms"], 300, f"{host}: connecting")
        check_took(scene.victim.request(opened["id"])["ms"], 300, f"{host}: the request")
        number = scene.victim.udp_open(host, EACH_UDP)["id"]
        check_took(scene.victim.udp_ask(number, "x 1", timeout=10)["ms"], 300, f"{host}: a datagram")
        check_equal(scene.neighbour.get(host, EACH)["error"], None, f"{host}: the neighbour")
    packets = chaos.status()["packets"]["injected"]
    check(packets >= 2 * 4, f"packets that were delayed: {packets}")


@part
def long_ends():
    for met in patient.end(stop=False):
        check_equal(met["error"], None, "a request of 12 s")
        check_took(met["ms"], LONG_MS, "a request of 12 s", room_ms=3000)
    expect("long", 3)


main(setup, lambda: scene and scene.close(), rules)
