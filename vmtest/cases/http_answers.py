#!/usr/bin/python3
# timeout: 700
"""Answers of HTTP that take the place of the server's: what the client's own parser makes of them, and no others'."""
import concurrent.futures
import json
import random
import subprocess

import chaos
import place
from case import alone, check, check_counters, check_equal, check_took, expect, main, part, skip, wait_until
from scene import INSIDE, NEIGHBOUR, PLACES, VERSIONS, VICTIM, Scene, needs_memory

HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]
FAR = HOSTS[2:]
LIMITED, STREAM, GONE, CURL, SHARE, SLOW = range(8100, 8106)
BODIES = {"html": 8110, "garbage": 8111, "truncated": 8112, "empty": 8113}
RETRY_AFTER, DELAY = 20, 300

scene = None


def setup():
    global scene
    scene = Scene()
    for port in (LIMITED, STREAM, GONE, CURL, SHARE, SLOW, *BODIES.values()):
        scene.listen(port)
        scene.listen(port + INSIDE, "tls")


def rules():
    def rule(name, port, fault, path=None, **more):
        http = {"http": {"path": path}} if path else {}
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port, port + INSIDE], **http}, fault, **more)

    limited = {"status": 429, "retry_after": f"{RETRY_AFTER}s", "as": "openai"}
    return [rule("limited", LIMITED, limited, "/bytes/*0"),
            rule("stream", STREAM, {"status": 503}, "/stream"),
            rule("gone", GONE, {"hang": True}, "/bytes/1000"),
            rule("curl", CURL, {"status": 529, "as": "anthropic"}, "/bytes/*0"),
            rule("share", SHARE, {"status": 500}, "/bytes/400", percent=30, seed=5)] + [
        rule(f"body-{body}", port, {"status": 503, "body": body} if body == "html" else {"body": body}, "/bytes/900")
        for body, port in BODIES.items()]


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: {VICTIM}\r\n\r\n"


def ask(client, number, path, **more):
    return client.exchange(number, [get(path)], **more)


def check_limited(met, length, what):
    """As much of it as there is room for in the server's answer, whose head takes 80 bytes."""
    check_equal((met["error"], met.get("status"), met["headers"].get("retry-after")), (None, 429, str(RETRY_AFTER)), what)
    check_equal(met["closes"], length < 100, what)
    check_equal(json.loads(met["body"])["error"]["code"], 429 if length < 200 else "rate_limit_exceeded", what)
    if not met["closes"]:
        check_equal(int(met["headers"]["content-length"]), len(met["body"]), what)
        check(len(met["body"]) < length + 100, f"{what}: {len(met['body'])} bytes in the place of {length}")


def connect(client, host, port, tls=None):
    opened = client.open(host, port + (INSIDE if tls else 0), tls=tls)
    check_equal(opened["error"], None, f"{host}: connects, TLS {tls}")
    return opened["id"]


def check_kept_alive(client, host, times, tls=None):
    number = connect(client, host, LIMITED, tls)
    for i in range(times):
        length = random.choice([300, 1400, 20, 40000, 150, 151, 7, 333333])
        met = ask(client, number, f"/bytes/{length}")
        if client is scene.victim and length % 10 == 0:
            (check_limited_inside if tls else check_limited)(met, length, f"{host}, TLS {tls}: request {i} for {length}")
            expect("limited", 1, event={"fault": "status", "comm": "victim", "side": "client"})
        else:
            check_equal((met["error"], met.get("status"), len(met.get("body", ""))), (None, 200, length),
                        f"{host}, TLS {tls}: request {i} for {length}: its own")
        if met.get("closes"):
            client.close(number)
            number = connect(client, host, LIMITED, tls)
    client.close(number)


@part
def those_and_no_others():
    """On kept-alive connections, as long as the server's answer, so that the next one begins where it does."""
    for host in HOSTS:
        check_kept_alive(scene.victim, host, 25)
        check_kept_alive(scene.neighbour, host, 5)
    check_counters()


@part
def where_checksums_are_looked_at():
    place.without_checksum_offload("ns1", "s1")
    for host in FAR:
        check_kept_alive(scene.victim, host, 10)


@part
def over_a_line_that_loses_and_reorders():
    """What is sent again, and what overtakes, is changed to the same bytes."""
    try:
        with place.poor_line("ns1", "s1"):
            for host in FAR:
                check_kept_alive(scene.victim, host, 12)
    except place.NoNetem as problem:
        skip(f"no netem: {problem}")


@part
def of_unknown_length():
    """A stream: the made-up answer is all there is, and the connection ends behind it."""
    for host in HOSTS:
        met = ask(scene.victim, scene.victim.open(host, STREAM)["id"], "/stream?tokens=20&ms=5")
        check_equal((met["error"], met.get("status"), met.get("closes")), (None, 503, True), host)
        check_equal(json.loads(met["body"])["error"]["code"], 503, host)
        expect("stream", 1)
        met = ask(scene.neighbour, scene.neighbour.open(host, STREAM)["id"], "/stream?tokens=5&ms=5")
        check_equal((met["error"], met.get("status"), met["body"].count("data:")), (None, 200, 6), f"{host}: the neighbour")


def check_body(body, host, tls=None):
    number = connect(scene.victim, host, BODIES[body], tls)
    met = ask(scene.victim, number, "/bytes/900")
    what = f"{host}: {body}, TLS {tls}"
    check_equal((met["error"], met.get("status")), (None, 503 if body == "html" else 200), what)
    try:
        json.loads(met["body"])
        check(False, f"{what} is JSON: {met['body']}")
    except ValueError:
        pass
    check_equal((body == "html", body == "empty"), ("<html>" in met["body"], met["body"] == ""), what)
    expect(f"body-{body}", 1)
    if body != "empty":
        check_equal(len(ask(scene.victim, number, "/bytes/33")["body"]), 33, f"{what}, and another one behind")


@part
def bodies():
    for body in BODIES:
        for host in HOSTS:
            check_body(body, host)


@part
def never_answered():
    for host in HOSTS:
        number = scene.victim.open(host, GONE)["id"]
        check_equal(len(ask(scene.victim, number, "/bytes/7")["body"]), 7, f"{host}: before")
        check_equal(ask(scene.victim, number, "/bytes/1000", timeout=1)["error"], "timeout", f"{host}: hangs")
        scene.victim.close(number)
        met = ask(scene.neighbour, scene.neighbour.open(host, GONE)["id"], "/bytes/1000")
        check_equal((met["error"], len(met.get("body", ""))), (None, 1000), f"{host}: the neighbour")
        expect("gone", 1, event={"fault": "hang"})


def draw(clients, times):
    return [[f"/bytes/{random.choice([399, 400, 400, 401])}" for _ in range(times)] for _ in range(clients)]


def check_drawn(port, paths, met):
    """Those requests are answered otherwise of which events tell, and they are answers to what the rule names; all others are the
    server's, byte for byte as long. `met`: for each connection its port, and what each request met."""
    changed = set()
    for asked, (ours, answers) in zip(paths, met):
        check_equal(len(answers), len(asked), "answers")
        for i, (path, answer) in enumerate(zip(asked, answers), 1):
            if path == "/bytes/400" and answer[0] == 500:
                changed.add((ours, i))
            elif not check_equal(tuple(answer), (200, int(path[7:])), f"request {i} for {path}"):
                return
    named, ports = sum(asked.count("/bytes/400") for asked in paths), {ours for ours, _ in met}
    check(abs(len(changed) - 0.3 * named) < 5 * (named * 0.21) ** 0.5, f"{len(changed)} of {named} at 30 %")
    told = [(event["local_port"], event["request"]) for event in chaos.events()
            if event["rule"] == "share" and event["peer_port"] == port and event["local_port"] in ports]
    check_equal(sorted(told), sorted(changed), "what events tell of")
    expect("share", len(changed), {"percent": named - len(changed)})


def ask_many(clients, port, times, tls=None):
    """Clients with a kept-alive connection each, at once."""
    paths = draw(len(clients), times)
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        met = list(pool.map(lambda client, asked: client.call("exchange_many", HOSTS[0], port, asked, tls, wait=240),
                            clients, paths))
    check_drawn(port, paths, met)


@part
def those_of_ten_thousand_that_were_drawn():
    ask_many([scene.client(cgroup=VICTIM) for _ in range(8)], SHARE, 1250)


def curl(cgroup, *words):
    done = subprocess.run(["curl", "-sS", "--max-time", "20", *words], capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: place.enter_cgroup(cgroup))
    return done.returncode, done.stdout, done.stderr


@part
def of_curl():
    """Which knows nothing of the test: statuses and connections, whether it goes on, what --retry makes of it."""
    url = f"http://{HOSTS[0]}:{CURL}/bytes/"
    told = ["-o", "/dev/null", "-w", "%{http_code} %{num_connects}\\n"]
    words = [word for length in ("500", "501", "510") for word in (*told[:2], url + length)]
    check_equal(curl(VICTIM, *words, *told[2:]), (0, "529 1\n200 0\n529 0\n", ""), "three on one connection")
    check_equal(curl(NEIGHBOUR, *words, *told[2:]), (0, "200 1\n200 0\n200 0\n", ""), "the neighbour's")
    for _ in range(2):
        expect("curl", 1, event={"fault": "status", "comm": "curl"})
    code, out, err = curl(VICTIM, "--fail", url + "500")
    check_equal((code, out), (22, ""), err)
    code, out, err = curl(VICTIM, url + "700")
    check_equal((code, json.loads(out)["error"]["type"]), (0, "overloaded_error"), err)
    expect("curl", 1, event={"fault": "status", "comm": "curl"})
    expect("curl", 1, event={"fault": "status", "comm": "curl"})


@part
def doctor_tells_of_it():
    here = chaos.doctor("faults")
    check_equal([here.get(fault) for fault in ("status", "body", "hang")], [True] * 3, "what doctor says")


# ---- inside TLS

def check_limited_inside(met, length, what):
    """The server's answer is one write, head and body, up to 16 KiB."""
    check_equal((met["error"], met.get("status")), (None, 429), what)
    if length > 100:
        check_equal(met["headers"].get("retry-after"), str(RETRY_AFTER), what)
        check_equal(json.loads(met["body"])["error"]["code"], 429 if length < 200 else "rate_limit_exceeded", what)
        check_equal(int(met["headers"]["content-length"]), len(met["body"]), what)


@part
def those_and_no_others_inside_tls():
    needs_memory()
    for host, tls in zip(HOSTS, VERSIONS * 2):
        check_kept_alive(scene.victim, host, 25, tls)
        check_kept_alive(scene.neighbour, host, 5, tls)
    check_counters()


@part
def streams_inside_tls():
    needs_memory()
    for tls in VERSIONS:
        met = ask(scene.victim, connect(scene.victim, HOSTS[0], STREAM, tls), "/stream?tokens=20&ms=5")
        check_equal((met["error"], met.get("status")), (None, 503), f"TLS {tls}")
        expect("stream", 1)
        met = ask(scene.neighbour, connect(scene.neighbour, HOSTS[0], STREAM, tls), "/stream?tokens=5&ms=5")
        check_equal((met["error"], met.get("status"), met["body"].count("data:")), (None, 200, 6), "the neighbour")


@part
def bodies_inside_tls():
    needs_memory()
    for body in BODIES:
        for tls in VERSIONS:
            check_body(body, HOSTS[0], tls)


@part
def never_answered_inside_tls():
    for tls in VERSIONS:
        number = connect(scene.victim, HOSTS[0], GONE, tls)
        check_equal(len(ask(scene.victim, number, "/bytes/7")["body"]), 7, "before")
        check_equal(ask(scene.victim, number, "/bytes/1000", timeout=1)["error"], "timeout", f"TLS {tls} hangs")
        scene.victim.close(number)
        expect("gone", 1, event={"fault": "hang"})


@part
def many_at_once_inside_tls():
    """Processes with a connection each, and one with eight in an event loop, where sockets are written apart from TLS."""
    needs_memory()
    ask_many([scene.client(cgroup=VICTIM) for _ in range(4)], SHARE + INSIDE, 400, "1.3")
    for tls in VERSIONS:
        paths = draw(8, 100)
        check_drawn(SHARE + INSIDE, paths,
                    scene.victim.call("exchange_at_once", HOSTS[0], SHARE + INSIDE, paths, tls, wait=150))


@part
def of_curl_inside_tls():
    needs_memory()
    url = f"https://{HOSTS[0]}:{CURL + INSIDE}/bytes/"
    told = ["-k", "-o", "/dev/null", "-w", "%{http_code} %{num_connects}\\n"]
    words = [word for length in ("500", "501", "510") for word in (*told[1:3], url + length)]
    check_equal(curl(VICTIM, "-k", *words, *told[3:]), (0, "529 1\n200 0\n529 0\n", ""), "three on one connection")
    check_equal(curl(NEIGHBOUR, "-k", *words, *told[3:]), (0, "200 1\n200 0\n200 0\n", ""), "the neighbour's")
    for _ in range(2):
        expect("curl", 1, event={"fault": "status", "comm": "curl"})


@alone
def a_connection_that_was_there_before():
    """And a process that had the library before the probes."""
    needs_memory()
    number = connect(scene.victim, HOSTS[0], LIMITED, "1.3")
    check_equal(len(ask(scene.victim, number, "/bytes/1000")["body"]), 1000, "before")
    chaos.load(chaos.rule("limited", {"cgroup": VICTIM, "ports": [LIMITED + INSIDE]}, {"status": 429}))
    for _ in range(3):
        check_equal(ask(scene.victim, number, "/bytes/1000")["status"], 429, "with the rule")
        expect("limited", 1)
    check_counters()
    chaos.stop()
    check_equal(len(ask(scene.victim, number, "/bytes/1000")["body"]), 1000, "afterwards")
    scene.victim.close(number)


@alone
def the_last_of_max_hits_inside_tls():
    """It is counted when its request leaves, and made when the answer comes, however late; then the load is over."""
    needs_memory()
    chaos.load(chaos.rule("limited", {"cgroup": VICTIM, "ports": [LIMITED + INSIDE]}, {"status": 503}, max_hits=2))
    number = connect(scene.victim, HOSTS[0], LIMITED, "1.3")
    for _ in range(2):
        check_equal(ask(scene.victim, number, "/bytes/1000?wait=1500").get("status"), 503, "an answer that comes late")
    wait_until(lambda: not chaos.status().all["loaded"], "the load is over")
    check_equal(ask(scene.victim, number, "/bytes/1000").get("status"), 200, "the one behind them")


@alone
def a_hanging_answer_comes_when_the_rule_is_over():
    chaos.load(chaos.rule("gone", {"cgroup": VICTIM, "ports": [GONE]}, {"hang": True}))
    hanging = {}
    for host in HOSTS:
        hanging[host] = scene.victim.open(host, GONE)["id"]
        check_equal(ask(scene.victim, hanging[host], "/bytes/3000", timeout=1)["error"], "timeout", host)
    chaos.stop()
    for host, number in hanging.items():
        rest = scene.victim.drain(number, "", 5)
        check(rest["bytes"] > 3000, f"{host}: {rest}")


@alone
def late_and_failing():
    chaos.load(chaos.rule("slow", {"cgroup": VICTIM, "ports": [SLOW]}, {"status": 502, "delay": f"{DELAY}ms"}))
    for host in HOSTS:
        met = ask(scene.victim, scene.victim.open(host, SLOW)["id"], "/bytes/300")
        check_equal((met["error"], met.get("status")), (None, 502), host)
        check_took(met["ms"], DELAY, host)
        expect("slow", 2)
    check_counters()


main(setup, lambda: scene and scene.close(), rules)
