#!/usr/bin/python3
# timeout: 200
"""reset: { inside: true }: the process is told that its connection was reset, and the connection knows nothing of it.

Its own end and the other one stay as they are: what the server says meanwhile is there when the rule has ended, and both go on.
"""
import subprocess

import chaos
import place
from case import alone, check, check_counters, check_equal, expect, main, part, skip, wait_until
from scene import NEIGHBOUR, PLACES, VICTIM, Scene

ALL, OLD, ANSWER, FEW, SERVED, HTTP, TLS = range(7800, 7807)
HOSTS = [host for _, _, host, _ in PLACES]

scene = None
old = {}


def setup():
    global scene
    if not chaos.doctor("faults")["errno"]:
        skip("this kernel has no programs in security hooks")
    scene = Scene()
    for port in (ALL, OLD, ANSWER, FEW, SERVED):
        scene.listen(port, "echo")
    scene.listen(HTTP)
    scene.listen(TLS, "tls")
    for host in HOSTS:
        old[host] = scene.victim.open(host, OLD)["id"]
        check_equal(scene.victim.ping(old[host])["error"], None, f"{host}: before the load")


def teardown():
    scene.close()


def rule(name, ports, fault=None, match=None, **keys):
    return chaos.rule(name, {"cgroup": VICTIM, "ports": ports, **(match or {})}, {"reset": {"inside": True}, **(fault or {})}, **keys)


def rules():
    return [rule("all", [ALL, OLD]), rule("answer", [ANSWER], match={"direction": "response"}), rule("few", [FEW], max_hits=3),
            chaos.rule("served", {"cgroup": "case/server", "ports": [SERVED], "side": "server"}, {"reset": {"inside": True}}),
            rule("http", [HTTP, TLS])]


def resets_sent():
    """By either end: of the host and of the far namespace."""
    total = 0
    for prefix in ([], ["ip", "netns", "exec", "ns1"]):
        lines = [line.split() for line in place.run(*prefix, "cat", "/proc/net/snmp").splitlines() if line.startswith("Tcp:")]
        total += int(dict(zip(*lines))["OutRsts"])
    return total


@part
def the_process_alone():
    """Connections of before the load and new ones: every call on them fails, nothing is sent for it."""
    before = resets_sent()
    for host in HOSTS:
        new, other = scene.victim.open(host, ALL)["id"], scene.neighbour.open(host, ALL)["id"]
        for number in (old[host], new):
            check_equal(scene.victim.ping(number)["error"], "ECONNRESET", f"{host}: what the victim meets")
            check_equal(scene.victim.send(number, "PING\r\n"), "ECONNRESET", f"{host}: sending")
            check_equal(scene.victim.receive(number)["error"], "ECONNRESET", f"{host}: receiving")
            expect("all", 1, event={"fault": "reset", "error": "ECONNRESET", "comm": "victim", "pid": scene.victim.pid})
        check_equal(scene.neighbour.ping(other)["error"], None, f"{host}: the neighbour")
    check_equal(resets_sent(), before, "resets on the wire")


@part
def in_the_middle_of_an_answer():
    """The request leaves and the first of the answer is read or not; then the connection is gone."""
    for host in HOSTS:
        number, other = scene.victim.open(host, ANSWER)["id"], scene.neighbour.open(host, ANSWER)["id"]
        check_equal(scene.victim.send(number, "PING\r\n"), None, f"{host}: sending")
        wait_until(lambda: scene.victim.send(number, "x") == "ECONNRESET", f"{host}: the answer has come")
        check_equal(scene.neighbour.ping(other)["error"], None, f"{host}: the neighbour")
        expect("answer", 1)


@part
def as_often_as_asked():
    """max-hits ends no fault that is under way."""
    numbers = [scene.victim.open("127.0.0.1", FEW)["id"] for _ in range(5)]
    check_equal([scene.victim.ping(number)["error"] for number in numbers], ["ECONNRESET"] * 3 + [None] * 2, "five connections")
    check_equal(scene.victim.ping(numbers[0])["error"], "ECONNRESET", "the first, later")
    expect("few", 3, {"max-hits": 2})


@part
def at_the_server():
    """Its client sees what a server does that was reset: it closes."""
    for host in HOSTS:
        met = scene.neighbour.ping(scene.neighbour.open(host, SERVED)["id"])
        check(met["error"] in (None, "eof", "ECONNRESET"), f"{host}: {met}")
        expect("served", 1, event={"side": "server", "error": "ECONNRESET"})


def curl(cgroup, url):
    return subprocess.run(["sh", "-c", f"echo $$ > {place.CGROUP}/{cgroup}/cgroup.procs; exec curl -sk -m 60 -o /dev/null {url}"],
                          check=False).returncode


@part
def real_curl():
    """In clear, and where the bytes are encrypted: curl's exit codes for 'failure when receiving' (56) and in TLS's handshake (35)."""
    for url, codes in ((f"http://127.0.0.1:{HTTP}/bytes/1000", (56,)), (f"https://127.0.0.1:{TLS}/bytes/1000", (35, 56))):
        code = curl(VICTIM, url)
        check(code in codes, f"{url}: exit code {code}")
        check_equal(curl(NEIGHBOUR, url), 0, f"{url}: the neighbour's")
        expect("http", 1)


@alone
def the_connection_stays():
    """It goes on when the rule has ended, by stop and by itself; what came meanwhile is there."""
    numbers = {host: scene.victim.open(host, ALL)["id"] for host in HOSTS}
    for keys in ({}, {"duration": "6s"}):
        chaos.load(rule("all", [ALL], **keys))
        for host in HOSTS:
            check_equal(scene.victim.ping(numbers[host])["error"], "ECONNRESET", f"{host}: under the rule")
        if keys:
            wait_until(lambda: scene.victim.receive(numbers[HOSTS[0]], 0.2)["error"] != "ECONNRESET", "the end", 60)
        else:
            check_equal(scene.victim.receive(numbers[HOSTS[0]], 0.2)["error"], "ECONNRESET", "before stop")
            chaos.stop()
        for host in HOSTS[1 if keys else 0:]:
            got = scene.victim.receive(numbers[host])
            check_equal((got["error"], got["bytes"]), (None, 6), f"{host}: the answer of meanwhile")
        for host in HOSTS:
            check_equal(scene.victim.ping(numbers[host])["error"], None, f"{host}: it goes on")
        chaos.stop()


@alone
def unload_and_others():
    """Another rule, that resets on the wire, is another thing; a rule that is unloaded lets its connections go on."""
    inside, wire, both = (scene.victim.open("127.0.0.1", port)["id"] for port in (ALL, ANSWER, FEW))
    chaos.load(rule("inside", [ALL, FEW]), chaos.rule("wire", {"cgroup": VICTIM, "ports": [ANSWER]}, {"reset": True}),
               chaos.rule("errno", {"cgroup": VICTIM}, {"errno": {"operation": "send", "error": "EPERM"}}, max_hits=1))
    check_equal(scene.victim.ping(inside)["error"], "EPERM", "a rule for the operation")
    for number in (inside, wire, both):
        check_equal(scene.victim.ping(number)["error"], "ECONNRESET", "reset, here and there")
    state = chaos.status()
    check_equal([state[name]["injected"] for name in ("inside", "wire", "errno")], [2, 1, 1], "counted")
    chaos.chaos("unload", "inside", expect=0)
    check_equal(scene.victim.receive(inside)["bytes"], 6, "its answer")
    check_equal(scene.victim.ping(inside)["error"], None, "inside, afterwards")
    check(scene.victim.ping(wire)["error"] in ("EPIPE", "ECONNRESET", "eof"), "on the wire, afterwards")
    check_counters()


@alone
def chances():
    """Every second connection or so, the same ones with the same seed; observed only."""
    for options, hit in ((None, "ECONNRESET"), (["--observe"], None)):
        chaos.load(rule("half", [ALL], percent=50, seed=3), **({"options": options} if options else {}))
        met = [scene.victim.ping(scene.victim.open("127.0.0.1", ALL)["id"])["error"] for _ in range(40)]
        state = chaos.status()["half"]
        counted = state["injected"] if hit else state["skipped"]["observe"]
        check_equal(state["skipped"]["percent"], 40 - counted, "counters")
        check_equal(met.count("ECONNRESET"), counted if hit else 0, "connections")
        check(8 <= counted <= 32, f"{counted} of 40 at 50 %")
        chaos.stop()


main(setup, teardown, rules)
