#!/usr/bin/python3
# timeout: 420
"""rate and tokens of what arrives: never faster than asked, whole, and nothing but the chosen connections goes through the ifb."""
import os
import random
import signal
import socket
import struct
import time

import chaos
import place
from case import alone, check, check_equal, check_took, expect, lateness_ms, main, only_in_a_guest, part, wait_until
from scene import PLACES, VICTIM, Scene

DOWN, UP, BOTH, STREAM, TIMED, TLS = range(8710, 8716)
KBIT, SIZE = 2000, 300_000
TOKENS, EVENTS = 10, 25
HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]
FLOOR_MS = SIZE * 8 / KBIT
KILLS = int(os.environ.get("CASE_KILLS", "12"))
IFB = "chaos_ifb"
SO_TIMESTAMPNS = 35

scene = None
old = {}


def setup():
    global scene
    scene = Scene()
    for port in (DOWN, UP, BOTH, STREAM, TIMED):
        scene.listen(port)
    scene.listen(TLS, "tls")
    for host in HOSTS:  # connections that are older than the load
        for port in (DOWN, STREAM):
            old[host, port] = scene.victim.open(host, port)["id"]
            check_equal(scene.victim.request(old[host, port])["error"], None, f"{host}: a request before the load")


def rules():
    return [chaos.rule("down", {"cgroup": VICTIM, "ports": [DOWN], "direction": "response"}, {"rate": f"{KBIT}kbit"}),
            chaos.rule("up", {"cgroup": "case/server", "ports": [UP], "side": "server", "direction": "request"},
                       {"rate": f"{KBIT}kbit"}),
            chaos.rule("both", {"cgroup": VICTIM, "ports": [BOTH]}, {"rate": f"{KBIT}kbit"}),
            chaos.rule("stream", {"cgroup": VICTIM, "ports": [STREAM]}, {"tokens": f"{TOKENS}/s"}),
            chaos.rule("tls", {"cgroup": VICTIM, "ports": [TLS]}, {"tokens": f"{TOKENS}/s"}),
            chaos.rule("timed", {"cgroup": VICTIM, "ports": [TIMED], "direction": "response"}, {"rate": "8mbit"})]


def through_ifb():
    """Packets that went through the ifb of this namespace."""
    with open(f"/sys/class/net/{IFB}/statistics/tx_packets") as file:
        return int(file.read())


def is_slow(met, what, floor=FLOOR_MS, size=SIZE):
    check_equal((met["error"], met["bytes"]), (None, size), what)
    check_took(met["ms"], floor, what)
    print(f"    {what}: {size * 8 / met['ms']:.0f} kbit/s", flush=True)


def is_quick(met, what):
    check(met["error"] is None and met["ms"] < FLOOR_MS + 2 * lateness_ms(), f"{what}: {met}")


@part
def the_neighbour():
    """Nothing of it goes through the ifb, on the same port of the same server."""
    before = through_ifb()
    for host in HOSTS:
        for port in (DOWN, BOTH):
            is_quick(scene.neighbour.get(host, port, f"/bytes/{SIZE}"), f"{host} {port}: the neighbour")
        number = scene.neighbour.open(host, STREAM)["id"]
        check_equal(scene.neighbour.listen_to(number, "/stream?tokens=5&ms=1")["error"], None, f"{host}: its stream")
    check_equal(through_ifb() - before, 0, "packets of the neighbour that were held")


@part
def down():
    for host in HOSTS:
        for number, age in ((scene.victim.open(host, DOWN)["id"], "new"), (old[host, DOWN], "old")):
            is_slow(scene.victim.request(number, f"/bytes/{SIZE}", timeout=60), f"{host}: a large reply, {age}")
            check_took(scene.victim.request(number, "/bytes/10")["ms"], 0, f"{host}: a small one after it")
            expect("down", 1, event={"fault": "rate", "comm": "victim", "side": "client"})


@part
def the_other_direction():
    """Acknowledgements that arrive are not held: what is sent on a connection whose replies are slow is quick."""
    for host in HOSTS:
        number = scene.victim.open(host, DOWN)["id"]
        is_quick(scene.victim.request(number, "/bytes/10"), f"{host}: a small reply")
        before = through_ifb()
        met = scene.victim.request(number, "/nothing", body=SIZE, timeout=60)
        print(f"    {host}: sent in {met['ms']} ms, {through_ifb() - before} packets held", flush=True)
        check(through_ifb() - before < 10, f"{host}: {through_ifb() - before} packets were held")
        expect("down", 1)


@part
def up():
    """At the server: what its clients send. All of them are clients of the named server."""
    for host in HOSTS:
        number = scene.neighbour.open(host, UP)["id"]
        is_slow(scene.neighbour.request(number, "/echo", body=SIZE, timeout=60), f"{host}: a large request")
        expect("up", 1, event={"side": "server"})


@part
def both():
    """Each direction has the whole rate, and both together are one fault."""
    for host in HOSTS:
        number = scene.victim.open(host, BOTH)["id"]
        is_slow(scene.victim.request(number, "/echo", body=SIZE, timeout=60), f"{host}: up and down", 2 * FLOOR_MS)
        expect("both", 1)


def parts_what_was_joined():
    """Whether this kernel's tc can send copies to an ifb."""
    here = {one["name"]: str(one) for one in chaos.chaos("doctor", "--json").json["faults"]}
    return "act_mirred" not in here["tokens"]


def check_stream(met, what, parted=False):
    """No event before it is due; all come; `parted`: and none waits for those behind it."""
    times = met["times"]
    check_equal((met["error"], len(times)), (None, EVENTS + 1), f"{what}: events, with the one that says it is done")
    early = [i for i, ms in enumerate(times) if ms < i * 1000 / TOKENS - 1]
    check_equal(early, [], f"{what}: events that came early ({times})")
    check_took(times[-1], EVENTS * 1000 / TOKENS, f"{what}: the last event")
    pause = max(later - earlier for earlier, later in zip(times, times[1:]))
    print(f"    {what}: the longest pause is {pause:.0f} ms of {1000 / TOKENS:.0f}", flush=True)
    if parted:
        check(pause < 4 * 1000 / TOKENS + 2 * lateness_ms(), f"{what}: a pause of {pause:.0f} ms ({times})")


@part
def tokens():
    """One by one, also where TCP has joined several in a packet: but for kernels whose tc does not reach an ifb by itself."""
    parted = parts_what_was_joined()
    for host in HOSTS:
        path = f"/stream?tokens={EVENTS}&ms=0"
        for number, age in ((scene.victim.open(host, STREAM)["id"], "new"), (old[host, STREAM], "old")):
            check_stream(scene.victim.listen_to(number, path), f"{host}: a stream, {age}", parted)
            expect("stream", 1, event={"fault": "tokens"})


@part
def tokens_inside_tls():
    """A record is an event, however many TCP sends at once; the second answer on a connection is no faster."""
    parted = parts_what_was_joined()
    for host, version in ((HOSTS[0], "1.3"), (HOSTS[3], "1.2")):
        number = scene.victim.open(host, TLS, tls=version)["id"]
        for _ in range(2):
            met = scene.victim.listen_to(number, f"/stream?tokens={EVENTS}&ms=2")
            check_stream(met, f"{host}: a stream in TLS {version}", parted)
        expect("tls", 1)


@part
def times_of_arrival():
    """The stamp by which a packet waits is no time of its arrival (SO_TIMESTAMPNS)."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        here = os.getpid()
        place.enter_cgroup(VICTIM, here)
        try:
            sock.connect(("127.0.0.1", TIMED))
            sock.sendall(b"GET /bytes/100000 HTTP/1.1\r\nHost: a\r\n\r\n")
            got = 0
            while got < 100000:
                data, control, _, _ = sock.recvmsg(65536, 256)
                got += len(data)
                for _, kind, value in control:
                    if kind == SO_TIMESTAMPNS:
                        seconds = struct.unpack_from("q", value)[0]
                        check(abs(seconds - time.time()) < 20, f"received at {seconds} s, now is {time.time()}")
        finally:
            with open(os.path.join(place.CGROUP, "cgroup.procs"), "w") as procs:
                procs.write(str(here))
    expect("timed", 1)


# ---- the end

def slow_rule(rate="800kbit", port=DOWN, **keys):
    return chaos.rule("slow", {"cgroup": VICTIM, "ports": [port], "direction": "response"}, {"rate": rate}, **keys)


@alone
def the_deadline():
    """The rule ends in the middle of a reply: what is held goes on, the rest is quick, and the reaper cleans up."""
    for host in (HOSTS[0], HOSTS[2]):
        chaos.load(slow_rule(duration="3s"))
        number = scene.victim.open(host, DOWN)["id"]
        met = scene.victim.request(number, "/bytes/2000000", timeout=60)  # 20 s at that rate
        check_equal((met["error"], met["bytes"]), (None, 2000000), f"{host}: a reply over the deadline")
        check_took(met["ms"], 1000, f"{host}: a reply over the deadline", room_ms=6000)
        wait_until(lambda: not os.path.exists("/sys/class/net/" + IFB), "the reaper to take the ifb away", 30)


@alone
def unload_and_stop():
    """Held packets go on at their time after `unload`; `stop` loses them, and TCP sends them again."""
    for host in (HOSTS[1], HOSTS[3]):
        for command in ("unload", "stop"):
            chaos.load(slow_rule())
            number = scene.victim.open(host, DOWN)["id"]
            scene.victim.begin("request", number, "/bytes/1000000", timeout=60)  # 10 s at that rate
            time.sleep(1)
            begun = time.monotonic()
            chaos.chaos(command, expect=0)
            print(f"    {host}: {command} took {(time.monotonic() - begun) * 1000:.0f} ms", flush=True)
            check(not os.path.exists("/sys/class/net/" + IFB), f"the ifb is there after {command}")
            met = scene.victim.end(stop=False)
            check_equal((met["error"], met["bytes"]), (None, 1000000), f"{host}: a reply over {command}")
            print(f"    {host}: the reply took {met['ms']:.0f} ms", flush=True)


@alone
def another_load():
    """In its place: the ifb stays as long as some load is there, and goes with the last."""
    chaos.load(slow_rule())
    chaos.load(slow_rule(rate=f"{KBIT}kbit"))
    is_slow(scene.victim.get(HOSTS[0], DOWN, f"/bytes/{SIZE}", timeout=60), "under the second load")
    chaos.load(chaos.rule("gone", {"cgroup": VICTIM, "ports": [UP]}, {"drop": True}))
    is_quick(scene.victim.get(HOSTS[0], DOWN, f"/bytes/{SIZE}"), "under the third load")


@alone
def without_the_journal():
    chaos.load(slow_rule())
    os.unlink("/run/chaosbpf/journal")


@alone
def strangers():
    """Devices of others stay; one that has our name is a reason to say no, as are others' programs on the way in."""
    place.run("ip", "link", "add", "ifb7", "type", "ifb")
    chaos.load(slow_rule())
    chaos.stop()
    place.run("ip", "link", "add", IFB, "type", "ifb")  # of another group
    result = chaos.chaos("load", chaos.rules_file(slow_rule()))
    check_equal(result.code, 3, f"with a stranger named {IFB}: {result}")
    chaos.stop()
    check("ifb7" in os.listdir("/sys/class/net") and IFB in os.listdir("/sys/class/net"), "strangers' devices are gone")
    place.run("ip", "link", "delete", IFB)
    place.run("ip", "link", "delete", "ifb7")
    place.run("tc", "qdisc", "add", "dev", "lo", "clsact")
    place.run("tc", "filter", "add", "dev", "lo", "ingress", "matchall", "action", "ok")
    result = chaos.chaos("load", chaos.rules_file(slow_rule()))
    check_equal(result.code, 3, f"with a stranger's filter: {result}")
    result = chaos.chaos("check", chaos.rules_file(slow_rule()))
    check_equal(result.code, 3, f"check, with a stranger's filter: {result}")
    place.run("tc", "qdisc", "delete", "dev", "lo", "clsact")


@alone
def killed():
    """kill -9 at random moments of a load: one `stop` leaves nothing, and the neighbour never notices."""
    only_in_a_guest("kills every chaosbpf process")
    path = chaos.rules_file(slow_rule(duration="20s"))
    scene.neighbour.begin("hammer", HOSTS[0], DOWN, "request", pause=0.05)
    took = time.monotonic()
    chaos.chaos("load", path, expect=0)
    took = time.monotonic() - took
    for _ in range(KILLS):
        process = chaos.start(*random.choice([["load", path], ["load", path, "--foreground"], ["stop"], ["status"]]))
        time.sleep(random.uniform(0, 1.2 * took))
        while place.processes("chaosbpf"):
            for pid in place.processes("chaosbpf"):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.005)
        process.communicate()
    os.unlink(path)
    runs = scene.neighbour.end()
    check_equal([met for met, *_ in runs], [None], f"what the neighbour met: {runs}")


def teardown():
    if scene:
        scene.close()


main(setup, teardown, rules)
