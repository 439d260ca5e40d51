#!/usr/bin/python3
# timeout: 300
"""Streams of a model whose events are changed: what a client's own parser reads of them, and its neighbour's."""
import json
import re

import chaos
import place
from case import alone, check, check_equal, check_took, expect, main, part, skip
from scene import INSIDE, PLACES, VERSIONS, VICTIM, Scene, needs_memory

HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]
FAR = HOSTS[2:]
CLEAN, ERROR, SHORT, DONE, GARBLED, SHARE, LATE = range(8200, 8207)
TOKENS, CHUNKS, EVERY, DELAY = 12, 5, 4, 300

scene = None


def setup():
    global scene
    scene = Scene()
    for port in (CLEAN, ERROR, SHORT, DONE, GARBLED, SHARE, LATE):
        scene.listen(port)
        scene.listen(port + INSIDE, "tls")


def rules():
    def rule(name, port, fault, **more):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port, port + INSIDE]}, fault, **more)

    return [rule("clean", CLEAN, {"break_after": {"chunks": CHUNKS, "how": "clean"}}),
            rule("error", ERROR, {"error_event": {"type": "rate-limit", "chunks": CHUNKS}}),
            rule("short", SHORT, {"error_event": "overloaded"}),
            rule("done", DONE, {"drop_done": True}),
            rule("garbled", GARBLED, {"garble": {"every": EVERY}}),
            rule("share", SHARE, {"break_after": {"chunks": 2, "how": "clean"}}, percent=40, seed=3),
            rule("late", LATE, {"drop_done": True, "delay": f"{DELAY}ms"})]


def request(tokens, ms):
    return f"GET /stream?tokens={tokens}&ms={ms} HTTP/1.1\r\nHost: a\r\nUser-Agent: {VICTIM}\r\n\r\n"


def ask(client, host, port, ms=3, tokens=TOKENS, number=None, tls=None):
    """One stream, and the connection it came on."""
    number = number or client.open(host, port + (INSIDE if tls else 0), tls=tls)["id"]
    met = client.exchange(number, [request(tokens, ms)])
    check_equal((met["error"], met.get("status")), (None, 200), f"{host}:{port}: {met}")
    return met, number


def words(body):
    """What a client makes of it: the words, and what else there is."""
    told, other = [], []
    for event in filter(None, re.split(r"\n\n+", body)):
        lines = [line for line in event.split("\n") if line and not line.startswith(":")]
        data = "\n".join(line[5:].lstrip() for line in lines if line.startswith("data:"))
        try:
            told.append(json.loads(data)["choices"][0]["delta"]["content"].strip())
        except (ValueError, KeyError, TypeError):
            other += lines
    return told, other


ALL = [f"word{i}" for i in range(TOKENS)]


def check_neighbour(host, port, tls=None):
    for _ in range(2):
        met, number = ask(scene.neighbour, host, port, tls=tls)
        check_equal((*words(met["body"]), met["closes"]), (ALL, ["data: [DONE]"], False), f"{host}:{port}: the neighbour")
        scene.neighbour.close(number)


def end_follows(client, number):
    return client.receive(number, 5)


def check_no_more_requests(number):
    """Inside TLS the connection ends with the next packet; what had come before is no answer."""
    met = scene.victim.exchange(number, [request(1, 1)])
    check(met["error"] not in (None, "timeout"), f"the next request: {met}")
    expect("clean", 0, {"unread": 1})


def check_clean(host, tls=None):
    met, number = ask(scene.victim, host, CLEAN, tls=tls)
    check_equal(words(met["body"]), (ALL[:CHUNKS], []), f"{host}: a stream that ends early")
    if tls:
        check_no_more_requests(number)
    else:
        rest = end_follows(scene.victim, number)
        check(rest["bytes"] == 0 and rest["error"] != "timeout", f"{host}: and then the connection: {rest}")
    expect("clean", 1, event={"fault": "break-after", "how": "clean", "comm": "victim"})


@part
def ends_as_if_that_were_all():
    for host in HOSTS:
        for _ in range(3):
            check_clean(host)
        check_neighbour(host, CLEAN)


def check_error(host, ms, tls=None):
    met, _ = ask(scene.victim, host, ERROR, ms, tls=tls)
    told, other = words(met["body"])
    check_equal(told, ALL[:CHUNKS], f"{host}: words before the error")
    check_equal([json.loads(line[5:])["error"]["code"] for line in other], ["rate_limit_exceeded"], f"{host}: the error")
    expect("error", 1, event={"fault": "error-event"})


@part
def ends_in_an_error():
    """In the place of an event: in as many words as there is room for, by itself or with a stream behind it that is faster."""
    for host in HOSTS:
        for ms in (3, 0):
            check_error(host, ms)
        check_neighbour(host, ERROR)


def check_without_room(host, tls=None):
    met, _ = ask(scene.victim, host, SHORT, tls=tls)
    check_equal(words(met["body"]), (ALL, ["data: [DONE]"]), f"{host}: its own")
    expect("short", 0, {"no-room": 1})


@part
def without_room_for_the_error():
    for host in HOSTS:
        check_without_room(host)


def check_never_over(host, tls=None):
    """And the connection is used again."""
    number = None
    for i in range(3):
        met, number = ask(scene.victim, host, DONE, number=number, tls=tls)
        check_equal(words(met["body"]), (ALL, []), f"{host}: stream {i}")
        expect("done", 1, event={"fault": "drop-done"})


@part
def never_says_that_it_is_over():
    for host in HOSTS:
        check_never_over(host)
        check_neighbour(host, DONE)


def check_garbled(host, ms, tls=None):
    met, _ = ask(scene.victim, host, GARBLED, ms, tls=tls)
    told, other = words(met["body"])
    hit = [i for i in range(TOKENS) if (i + 1) % EVERY == 0]
    check_equal(told, [word for i, word in enumerate(ALL) if i not in hit], f"{host}: what can be read")
    check_equal([line[:7] for line in other], ["data: #"] * len(hit) + ["data: ["], f"{host}: what cannot")
    expect("garbled", 1, event={"fault": "garble"})


@part
def garbled():
    for host in HOSTS:
        for ms in (3, 0):
            check_garbled(host, ms)
        check_neighbour(host, GARBLED)


@part
def inside_tls():
    """The same where a record is read, in each version of it."""
    needs_memory()
    for host, tls in zip(HOSTS, VERSIONS * 2):
        for ms in (3, 0):
            check_clean(host, tls)
            check_error(host, ms, tls)
            check_garbled(host, ms, tls)
        check_without_room(host, tls)
        check_never_over(host, tls)
        for port in (CLEAN, ERROR, GARBLED, DONE):
            check_neighbour(host, port, tls)


@part
def a_request_behind_the_end_inside_tls():
    """The server streams on: what comes is nobody's answer, and the connection ends."""
    needs_memory()
    for tls in VERSIONS:
        met, number = ask(scene.victim, HOSTS[0], CLEAN, 1500, CHUNKS + 4, tls=tls)
        check_equal(words(met["body"]), (ALL[:CHUNKS], []), "a stream that ends early")
        check_no_more_requests(number)
        expect("clean", 1)


@part
def a_share_of_many():
    hits = 0
    for i in range(100):
        met, number = ask(scene.victim, HOSTS[i % len(HOSTS)], SHARE, 0, 4)
        told, _ = words(met["body"])
        if not check(told in (ALL[:2], ALL[:4]), f"stream {i}: {met['body']}"):
            return
        hits += told == ALL[:2]
        scene.victim.close(number)
    check(20 <= hits <= 60, f"{hits} of 100 at 40 %")
    expect("share", hits, {"percent": 100 - hits})


@part
def late_as_well():
    for host in HOSTS:
        met, _ = ask(scene.victim, host, LATE)
        check_equal(words(met["body"]), (ALL, []), host)
        check_took(met["ms"], DELAY, host, 4000)
        expect("late", 2)


@part
def where_checksums_are_looked_at():
    place.without_checksum_offload("ns1", "s1")
    for host in FAR:
        check_clean(host)
        met, _ = ask(scene.victim, host, DONE)
        check_equal(words(met["body"]), (ALL, []), f"{host}: no end")
        expect("done", 1)
        met, _ = ask(scene.victim, host, GARBLED, 0)
        check_equal(len(words(met["body"])[0]), TOKENS - TOKENS // EVERY, f"{host}: garbled")
        expect("garbled", 1)


@part
def over_a_line_that_loses_and_reorders():
    """What is sent again, and what overtakes, is changed to the same bytes."""
    try:
        with place.poor_line("ns1", "s1"):
            for host in FAR:
                for _ in range(8):
                    check_clean(host)
                met, _ = ask(scene.victim, host, GARBLED, 0)
                check_equal(len(words(met["body"])[0]), TOKENS - TOKENS // EVERY, f"{host}: garbled")
                expect("garbled", 1)
    except place.NoNetem as problem:
        skip(f"no netem: {problem}")


@alone
def not_beyond_the_rules_time():
    """Of a stream that goes on, while the load does."""
    for tls in (None, "1.3"):
        if tls and not chaos.doctor("features")["write-user"]:
            break
        match = {"cgroup": VICTIM, "ports": [GARBLED, GARBLED + INSIDE]}
        chaos.load(chaos.rule("short", match, {"garble": True}, duration="6s"),
                   chaos.rule("long", {"cgroup": VICTIM, "ports": [CLEAN]}, {"garble": True}, duration="60s"))
        met, _ = ask(scene.victim, HOSTS[0], GARBLED, 250, 48, tls=tls)
        told, other = words(met["body"])
        check(other[0].startswith("data: #"), f"TLS {tls}: the first event: {met['body'][:200]}")
        check_equal(told[-16:], [f"word{i}" for i in range(32, 48)], f"TLS {tls}: the last events")
        chaos.stop()


main(setup, lambda: scene and scene.close(), rules)
