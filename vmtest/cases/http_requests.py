#!/usr/bin/python3
# timeout: 500
"""Rules about requests of HTTP: of a kept-alive connection those are hit that they name, and no others; in clear, and inside
TLS, where each piece of a request is a record of its own."""
import json
import random

import chaos
from case import check, check_counters, check_equal, check_took, expect, main, part
from scene import INSIDE, PLACES, VERSIONS, VICTIM, Scene

HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]
MIXED, SPLIT, GONE, OTHER, HALF = range(7900, 7905)
DELAY = 150
LARGE = 70000

scene = None


def setup():
    global scene
    scene = Scene()
    for port in (MIXED, SPLIT, GONE, HALF):
        scene.listen(port)
        scene.listen(port + INSIDE, "tls")
    scene.listen(OTHER, "echo")


def rules():
    def rule(name, port, http, fault, **more):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port, port + INSIDE], "http": http}, fault, **more)

    slow = {"delay": f"{DELAY}ms"}
    return [rule("path", MIXED, {"path": "/bytes/1*", "method": "GET"}, slow),
            rule("model", MIXED, {"model": "qwen-*", "header": {"x-chaos": "1"}}, slow),
            rule("text", MIXED, {"body_contains": "needle"}, slow),
            rule("large", MIXED, {"min_size": LARGE}, slow),
            chaos.rule("rest", {"cgroup": VICTIM, "ports": [MIXED, MIXED + INSIDE]}, slow, per="request", max_hits=3),
            rule("split", SPLIT, {"path": "/bytes/7", "header": {"x-chaos": "yes"}}, slow),
            rule("silent", GONE, {"path": "/bytes/1"}, {"drop": True}),
            rule("reset", GONE, {"path": "/bytes/2"}, {"reset": True}),
            rule("cut", GONE, {"path": "/bytes/50000"}, {"break_after": {"bytes": "1000", "how": "close"}}),
            rule("other", OTHER, {"path": "/"}, slow),
            rule("half", HALF, {"path": "/bytes/3"}, {"reset": True}, percent=50, seed=7)]


def get(path, *headers):
    return f"GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: {VICTIM}\r\n" + "".join(f"{h}\r\n" for h in headers) + "\r\n"


def post(body, *headers, chunked=False):
    head = "POST /echo HTTP/1.1\r\nHost: a\r\n" + "".join(f"{h}\r\n" for h in headers)
    if not chunked:
        return head + f"Content-Length: {len(body)}\r\n\r\n" + body
    return head + "Transfer-Encoding: chunked\r\n\r\n" + f"{len(body):x}\r\n{body}\r\n0\r\n\r\n"


def chat(model):
    bait = '"model": "qwen-7b", GET /bytes/1 HTTP/1.1\r\n'
    return json.dumps({"messages": [{"content": bait + "x" * random.randrange(4000), "model": "qwen-7b"}], "model": model})


# what is sent, and the rule that it is for
KINDS = [
    (lambda: get("/bytes/1000"), "path"),
    (lambda: get("/bytes/1?x=y"), "path"),
    (lambda: get("/bytes/20?/bytes/1"), None),
    (lambda: get("/bytes/200000"), None),
    (lambda: post(chat("qwen-7b"), "X-Chaos: 1"), "model"),
    (lambda: post(chat("qwen-7b")), None),
    (lambda: post(chat("gpt-4o"), "X-Chaos: 1"), None),
    (lambda: post("hay" * random.randrange(3000) + "needle"), "text"),
    (lambda: post("hay" * 20000 + "needle"), None),  # too far
    (lambda: post("x" * LARGE), "large"),
    (lambda: post("x" * (LARGE - 1)), None),
    (lambda: post("x" * LARGE, chunked=True), None),  # of unknown length
]


def in_pieces(text, count):
    """So many segments, cut anywhere."""
    cuts = sorted(random.sample(range(1, len(text)), count - 1))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]


# Python's ssl takes a reset in the middle for the end of the stream.
RESET = {"ECONNRESET"}
RESET_INSIDE = RESET | {"RemoteDisconnected"}


def connect(client, host, port, tls=None):
    opened = client.open(host, port + (INSIDE if tls else 0), tls=tls)
    check_equal(opened["error"], None, f"{host}: connects, TLS {tls}")
    return opened["id"]


rest = 3  # requests that the rule behind those about requests has for those that they do not name


def check_mixed(host, tls=None):
    """Those that no rule about requests names are for the rule behind; it has three, and after that there is none."""
    global rest
    number = connect(scene.victim, host, MIXED, tls)
    for i in range(27):
        make, due = KINDS[i % len(KINDS)] if i < len(KINDS) else random.choice(KINDS)
        met = scene.victim.exchange(number, in_pieces(make(), random.choice([1, 1, 2, 4])))
        what = f"{host}, TLS {tls}: request {i} for {due}"
        if not check_equal((met["error"], met.get("status")), (None, 200), what):
            return
        if due is None and rest:
            rest, due = rest - 1, "rest"
        if due:
            check_took(met["ms"], DELAY, what)
            expect(due, 1, event={"fault": "delay", "comm": "victim", "side": "client"})
    met = scene.neighbour.exchange(connect(scene.neighbour, host, MIXED, tls), [get("/bytes/1")])
    check_equal(met["error"], None, f"{host}, TLS {tls}: the neighbour")


def check_cut(host, tls=None, step=5):
    text = get("/bytes/7", "X-Chaos:  yes ")
    number = connect(scene.victim, host, SPLIT, tls)
    for at in range(1, len(text), step):
        met = scene.victim.exchange(number, [text[:at], text[at:]])
        check_equal((met["error"], met.get("body")), (None, "0123456"), f"TLS {tls}, cut at {at}")
        check_took(met["ms"], DELAY, f"TLS {tls}, cut at {at}")
        expect("split", 1)
        met = scene.victim.exchange(number, [text[:at].replace("7", "8"), text[at:].replace("7", "8")])
        check_equal(met["error"], None, f"TLS {tls}, another one, cut at {at}")


def check_others(host, tls=None):
    """A record that is cut short is nothing that a client could read."""
    for path, rule, errors in (("/bytes/1", "silent", {"timeout"}), ("/bytes/2", "reset", RESET_INSIDE if tls else RESET),
                               ("/bytes/50000", "cut", {"SSLEOFError", "RemoteDisconnected"} if tls else {"IncompleteRead"})):
        number = connect(scene.victim, host, GONE, tls)
        for _ in range(3):
            check_equal(scene.victim.exchange(number, [get("/bytes/5")])["error"], None, f"{host}, TLS {tls}: before {rule}")
        met = scene.victim.exchange(number, [get(path)], timeout=1.5 if rule == "silent" else 20)
        check((met["error"] or "").partition(":")[0] in errors, f"{host}, TLS {tls}: {rule}: {met}")
        scene.victim.close(number)
        expect(rule, 1)


def check_share(host, times, tls=None):
    """The dice are thrown for each request that the rule names, on whatever connection, and for no other."""
    number, hits = None, 0
    for i in range(times):
        if number is None:
            number = connect(scene.victim, host, HALF, tls)
        check_equal(scene.victim.exchange(number, [get("/bytes/4")])["error"], None, f"TLS {tls}: another one, {i}")
        error = scene.victim.exchange(number, in_pieces(get("/bytes/3"), 2))["error"]
        if error:
            check(error in (RESET_INSIDE if tls else RESET), f"TLS {tls}: request {i}: {error}")
            scene.victim.close(number)
            number, hits = None, hits + 1
        number_of_neighbour = connect(scene.neighbour, host, HALF, tls)
        check_equal(scene.neighbour.exchange(number_of_neighbour, [get("/bytes/3")])["error"], None,
                    f"TLS {tls}: the neighbour, {i}")
        scene.neighbour.close(number_of_neighbour)
    check(times / 8 <= hits <= times * 7 / 8, f"{hits} of {times} requests were hit, half of them were to be")
    expect("half", hits, {"percent": times - hits})


@part
def those_and_no_others():
    for host in HOSTS:
        check_mixed(host)
    check_counters()


@part
def those_and_no_others_inside_tls():
    for host, tls in zip(HOSTS, VERSIONS * 2):
        check_mixed(host, tls)
    check_counters()


@part
def cut_at_each_place():
    check_cut(HOSTS[0])


@part
def cut_at_each_place_inside_tls():
    for tls in VERSIONS:
        check_cut(HOSTS[0], tls, step=11)


@part
def other_faults():
    for host in HOSTS:
        check_others(host)


@part
def other_faults_inside_tls():
    for host, tls in zip(HOSTS, VERSIONS * 2):
        check_others(host, tls)


@part
def a_share_of_them():
    check_share(HOSTS[0], 40)


@part
def a_share_of_them_inside_tls():
    check_share(HOSTS[0], 24, "1.3")


@part
def what_cannot_be_read():
    """Left alone, and counted once for each connection."""
    host = HOSTS[0]
    number = scene.victim.open(host, OTHER)["id"]
    for _ in range(3):
        check_equal(scene.victim.ping(number, "*1\r\n$4\r\nPING\r\n")["error"], None, "not HTTP")
    expect("other", 0, {"unread": 1})
    number = scene.victim.open(host, SPLIT)["id"]
    alone = scene.victim.drain(number, get("/bytes/9"), 1)["bytes"]
    for _ in range(2):
        met = scene.victim.drain(number, get("/bytes/7", "x-chaos: yes") * 3, 1)
        check_equal((met["error"], met["bytes"]), ("timeout", 3 * alone - 6), "three at once")
    expect("split", 0, {"unread": 1})
    for tls in VERSIONS:
        number = connect(scene.victim, host, SPLIT, tls)
        for _ in range(2):
            met = scene.victim.drain(number, get("/bytes/7", "x-chaos: yes") * 3, 1)
            check_equal((met["error"], met["bytes"]), ("timeout", 3 * alone - 6), f"three at once inside TLS {tls}")
        expect("split", 0, {"unread": 1})


main(setup, lambda: scene and scene.close(), rules)
