#!/usr/bin/python3
# timeout: 90
"""accept-silence: connections are accepted and nothing is said; others go on, and so do these once it is over."""
import chaos
import place
from case import alone, check, check_equal, expect, main, part
from scene import PLACES, VICTIM, Scene

SERVER = "case/server"
NEW, OLD, SERVED, SOME, TLS, HELLO, LATER = 7600, 7601, 7602, 7603, 7604, 7605, 7606
HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]
RULE_HOSTS = [host for _, family, _, host in PLACES if family != "mapped"]

scene = None
old, talking = {}, {}


def server_of(host):
    return scene.near if host in ("127.0.0.1", "::1") else scene.far


def setup():
    global scene
    scene = Scene()
    for port in (NEW, OLD, SERVED, SOME, LATER):
        scene.listen(port)
    scene.listen(TLS, "tls")
    scene.listen(HELLO, "greet")
    for host in HOSTS:
        old[host] = scene.victim.open(host, OLD)["id"]
        check_equal(scene.victim.request(old[host])["error"], None, f"{host}: before the load")
        talking[host] = scene.victim.open(host, HELLO)["id"]


def rules():
    def rule(name, port, **more):
        match = {"cgroup": VICTIM, "ports": [port], **more.pop("match", {})}
        return chaos.rule(name, match, {"accept_silence": True}, **more)

    return [rule("new", NEW), rule("old", OLD), rule("tls", TLS), rule("hello", HELLO),
            rule("served", SERVED, match={"cgroup": SERVER, "side": "server"}),
            rule("some", SOME, percent=50, seed=3, max_hits=3)]


@part
def new_connections():
    for host in HOSTS:
        seen = server_of(host).count("requests", "victim")
        opened = scene.victim.open(host, NEW)
        check_equal(opened["error"], None, f"{host}: connecting")
        met = scene.victim.request(opened["id"], timeout=1)
        check_equal((met["error"], met["bytes"]), ("timeout", 0), f"{host}: the request")
        check_equal(scene.victim.request(opened["id"], timeout=0.3)["error"], "timeout", f"{host}: one more")
        check_equal(server_of(host).count("requests", "victim"), seen, f"{host}: requests that the server saw")
        check_equal(scene.neighbour.get(host, NEW)["error"], None, f"{host}: the neighbour")
        expect("new", 1, event={"fault": "accept-silence", "comm": "victim", "side": "client"})


@part
def a_kept_alive_connection():
    """From its next request on, decided once."""
    for host in HOSTS:
        for _ in range(2):
            check_equal(scene.victim.request(old[host], timeout=0.5)["error"], "timeout", f"{host}: the request")
        expect("old", 1)


@part
def closing_before_anything_is_said():
    """Nothing came up for decision, and the server sees the end."""
    for host in HOSTS:
        ended = server_of(host).count("closed", "eof")
        scene.victim.close(scene.victim.open(host, NEW)["id"])
        server_of(host).wait_for("closed", "eof", ended + 1)


@part
def giving_up_with_a_reset():
    for host in HOSTS:
        number = scene.victim.open(host, NEW)["id"]
        check_equal(scene.victim.request(number, timeout=0.3)["error"], "timeout", f"{host}: the request")
        resets = server_of(host).count("errors", "ECONNRESET")
        scene.victim.abort(number)
        server_of(host).wait_for("errors", "ECONNRESET", resets + 1)
        expect("new", 1)


@part
def tls():
    for host in HOSTS:
        check_equal(scene.victim.open(host, TLS, tls="1.3", timeout=1)["error"], "timeout", f"{host}: the handshake")
        check_equal(scene.neighbour.open(host, TLS, tls="1.3")["error"], None, f"{host}: the neighbour's")
        expect("tls", 1)


@part
def a_server_that_speaks_first():
    """Opened under the rule it is not heard; what was open before goes silent when its client speaks."""
    for host in HOSTS:
        number = scene.victim.open(host, HELLO)["id"]
        check_equal(scene.victim.receive(number, timeout=0.5)["error"], "timeout", f"{host}: the greeting")
        other = scene.neighbour.open(host, HELLO)["id"]
        check(scene.neighbour.receive(other)["bytes"] > 0, f"{host}: the neighbour's greeting")
        check(scene.victim.receive(talking[host])["bytes"] > 0, f"{host}: a greeting from before the load")
        check_equal(scene.victim.ping(talking[host], timeout=0.5)["error"], "timeout", f"{host}: an older connection")
        expect("hello", 2)


@part
def at_the_server():
    """Whoever its clients are."""
    for host in HOSTS:
        for client in (scene.victim, scene.neighbour):
            opened = client.open(host, SERVED)
            check_equal(opened["error"], None, f"{host}: connecting")
            check_equal(client.request(opened["id"], timeout=0.5)["error"], "timeout", f"{host}: the request")
            expect("served", 1, event={"side": "server"})


@part
def percent_and_max_hits():
    """Each connection is silent or whole; the last of max-hits is as silent as the others, and none is after it."""
    outcomes = []
    while outcomes.count("timeout") < 3 and len(outcomes) < 60:
        outcomes.append(scene.victim.get("127.0.0.1", SOME, timeout=1)["error"])
    check_equal(outcomes.count("timeout"), 3, f"{outcomes}")
    check_equal(outcomes.count(None), len(outcomes) - 3, f"{outcomes}")
    for _ in range(4):
        check_equal(scene.victim.get("127.0.0.1", SOME)["error"], None, "after max-hits")
    rule = chaos.status()["some"]
    check_equal(rule["injected"], 3, "silent connections")
    check_equal(rule["matched"], len(outcomes) + 4, "connections that came up")
    expect("some", 3, {why: n for why, n in rule["skipped"].items() if why in ("percent", "max-hits")})


@alone
def afterwards_it_goes_on():
    """What was lost is sent again by TCP: the request that hung is answered, the greeting is heard."""
    chaos.load(chaos.rule("all", {"cgroup": VICTIM, "ports": [LATER, HELLO]}, {"accept_silence": True}))
    asked = {host: scene.victim.open(host, LATER)["id"] for host in HOSTS}
    greeted = {host: scene.victim.open(host, HELLO)["id"] for host in HOSTS}
    for host, number in asked.items():
        check_equal(scene.victim.send(number, "GET /bytes/10 HTTP/1.1\r\nHost: a\r\n\r\n"), None, f"{host}: the request")
        check_equal(scene.victim.receive(number, timeout=0.3)["error"], "timeout", f"{host}: its answer")
    chaos.stop()
    for host in HOSTS:
        check(scene.victim.receive(asked[host])["bytes"] > 0, f"{host}: the answer after the end")
        check(scene.victim.receive(greeted[host])["bytes"] > 0, f"{host}: the greeting after the end")


main(setup, lambda: scene and scene.close(), rules)
