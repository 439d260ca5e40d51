#!/usr/bin/python3
# timeout: 400
"""Answers of HTTP that take the place of the server's: what the client's own parser makes of them, and no others'."""
import concurrent.futures
import json
import random
import subprocess

import chaos
import place
from case import alone, check, check_counters, check_equal, check_took, expect, main, part, skip
from scene import NEIGHBOUR, PLACES, VICTIM, Scene

HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]
FAR = HOSTS[2:]
LIMITED, STREAM, GONE, CURL, SHARE, SLOW, TLS = range(8100, 8107)
BODIES = {"html": 8110, "garbage": 8111, "truncated": 8112, "empty": 8113}
RETRY_AFTER, DELAY = 20, 300

scene = None


def setup():
    global scene
    scene = Scene()
    for port in (LIMITED, STREAM, GONE, CURL, SHARE, SLOW, *BODIES.values()):
        scene.listen(port)
    scene.listen(TLS, "tls")


def rules():
    def rule(name, port, fault, path=None, **more):
        http = {"http": {"path": path}} if path else {}
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port], **http}, fault, **more)

    limited = {"status": 429, "retry_after": f"{RETRY_AFTER}s", "as": "openai"}
    return [rule("limited", LIMITED, limited, "/bytes/*0"),
            rule("stream", STREAM, {"status": 503}, "/stream"),
            rule("gone", GONE, {"hang": True}, "/bytes/1000"),
            rule("curl", CURL, {"status": 529, "as": "anthropic"}, "/bytes/*0"),
            rule("share", SHARE, {"status": 500}, "/bytes/400", percent=30, seed=5),
            rule("tls", TLS, {"status": 503})] + [
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


def check_kept_alive(client, host, times):
    number = client.open(host, LIMITED)["id"]
    for i in range(times):
        length = random.choice([300, 1400, 20, 40000, 150, 151, 7, 333333])
        met = ask(client, number, f"/bytes/{length}")
        if client is scene.victim and length % 10 == 0:
            check_limited(met, length, f"{host}: request {i} for {length}")
            expect("limited", 1, event={"fault": "status", "comm": "victim", "side": "client"})
        else:
            check_equal((met["error"], met.get("status"), len(met.get("body", ""))), (None, 200, length),
                        f"{host}: request {i} for {length}: its own")
        if met.get("closes"):
            client.close(number)
            number = client.open(host, LIMITED)["id"]
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


@part
def bodies():
    for body, port in BODIES.items():
        for host in HOSTS:
            number = scene.victim.open(host, port)["id"]
            met = ask(scene.victim, number, "/bytes/900")
            status = 503 if body == "html" else 200
            check_equal((met["error"], met.get("status")), (None, status), f"{host}: {body}")
            try:
                json.loads(met["body"])
                check(False, f"{host}: {body} is JSON: {met['body']}")
            except ValueError:
                pass
            check_equal((body == "html", body == "empty"), ("<html>" in met["body"], met["body"] == ""), f"{host}: {body}")
            expect(f"body-{body}", 1)
            if body != "empty":
                check_equal(len(ask(scene.victim, number, "/bytes/33")["body"]), 33, f"{host}: {body}, and another one behind")


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


@part
def those_of_ten_thousand_that_were_drawn():
    """Eight clients with a kept-alive connection each, at once: those requests are answered otherwise of which events tell, and
    they are answers to what the rule names; all others are the server's, byte for byte as long."""
    clients = [scene.client(cgroup=VICTIM) for _ in range(8)]
    paths = [[f"/bytes/{random.choice([399, 400, 400, 401])}" for _ in range(1250)] for _ in clients]
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        met = list(pool.map(lambda client, asked: client.exchange_many(HOSTS[0], SHARE, asked), clients, paths))
    changed = set()
    for asked, (port, answers) in zip(paths, met):
        for i, (path, answer) in enumerate(zip(asked, answers), 1):
            if path == "/bytes/400" and answer[0] == 500:
                changed.add((port, i))
            elif not check_equal(tuple(answer), (200, int(path[7:])), f"request {i} for {path}"):
                return
        check_equal(len(answers), len(asked), "answers")
    named = sum(asked.count("/bytes/400") for asked in paths)
    check(abs(len(changed) - 0.3 * named) < 5 * (named * 0.21) ** 0.5, f"{len(changed)} of {named} at 30 %")
    told = [(event["local_port"], event["request"]) for event in chaos.events() if event["rule"] == "share"]
    check_equal(sorted(told), sorted(changed), "what events tell of")
    expect("share", len(changed), {"percent": named - len(changed)})


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


@part
def what_is_encrypted_is_left_alone():
    met = scene.victim.get(HOSTS[0], TLS, tls="1.3")
    check_equal(met["error"], None, "TLS")
    expect("tls", 0, {"encrypted": 1})


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
