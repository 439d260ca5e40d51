#!/usr/bin/python3
# timeout: 400
"""break-after: a response, or a request, stops at a byte, by a reset, an end or silence; the neighbour's is whole."""
import fcntl
import socket
import struct

import chaos
import place
from case import alone, check, check_equal, check_took, expect, main, part
from scene import PLACES, VICTIM, Scene

HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]
SIZES = [10, 1001, 70000, 300001]
HOWS = {"reset": "ECONNRESET", "close": "eof", "stall": "timeout"}
BODY = 400000
KEPT, TIMED, TLS, BARE, LATER, CHUNKS, SHORT, TLS_CHUNKS, SERVED, SERVED_CHUNKS, ASKED = range(7790, 7801)
SERVER = "case/server"
REQUEST = f"GET /bytes/{BODY} HTTP/1.1\r\nHost: a\r\nUser-Agent: breaking\r\n\r\n"
PORTS = {(how, size): 7750 + 4 * i + k for i, how in enumerate(HOWS) for k, size in enumerate(SIZES)}
SERVED_PORTS = {(how, size): 7810 + 4 * i + k for i, how in enumerate(HOWS) for k, size in enumerate(SIZES)}
ASKED_PORTS = {(how, end): 7830 + 2 * i + k for i, how in enumerate(HOWS) for k, end in enumerate(("client", "server"))}
UPLOAD = 150000

scene = None


def setup():
    global scene
    scene = Scene()
    for port in [*PORTS.values(), *SERVED_PORTS.values(), *ASKED_PORTS.values(), KEPT, TIMED, BARE, LATER, SERVED, ASKED]:
        scene.listen(port)
    scene.listen(TLS, "tls")
    scene.listen(TLS_CHUNKS, "tls")
    scene.listen(CHUNKS, "echo")
    scene.listen(SERVED_CHUNKS, "echo")
    scene.listen(SHORT, "echo")


def rules():
    def rule(name, port, what, **more):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port]}, {"break_after": what}, **more)

    return [rule(f"{how}-{size}", port, {"bytes": size, "how": how}) for (how, size), port in PORTS.items()] + [
        rule("kept", KEPT, {"bytes": "1KB"}, per="request"),
        rule("timed", TIMED, {"time": "700ms", "how": "close"}),
        rule("tls", TLS, {"bytes": "16KiB", "how": "close"}),
        rule("chunks", CHUNKS, {"chunks": 3, "how": "close"}),
        rule("short", SHORT, {"chunks": 3}, per="request"),
        rule("tls-chunks", TLS_CHUNKS, {"chunks": 1}),
        rule("bare", BARE, {"bytes": 2001})] + [
        chaos.rule(f"served-{how}-{size}", {"cgroup": SERVER, "side": "server", "ports": [port]},
                   {"break_after": {"bytes": size, "how": how}}) for (how, size), port in SERVED_PORTS.items()] + [
        chaos.rule(f"asked-{how}-{end}", {"cgroup": VICTIM if end == "client" else SERVER, "side": end, "ports": [port],
                                          "direction": "request"},
                   {"break_after": {"bytes": UPLOAD, "how": how}}) for (how, end), port in ASKED_PORTS.items()] + [
        chaos.rule("served-kept", {"cgroup": SERVER, "side": "server", "ports": [SERVED]}, {"break_after": "1KB"},
                   per="request"),
        chaos.rule("served-chunks", {"cgroup": SERVER, "side": "server", "ports": [SERVED_CHUNKS]},
                   {"break_after": {"chunks": 3, "how": "close"}})]


def drain(client, host, port, timeout=3):
    return client.drain(client.open(host, port)["id"], REQUEST, timeout)


@part
def exact_to_the_byte():
    for (how, size), port in PORTS.items():
        for host in HOSTS:
            met = drain(scene.victim, host, port, 1 if how == "stall" else 20)
            check_equal((met["bytes"], met["error"]), (size, HOWS[how]), f"{host}: {how} after {size}")
            if size == SIZES[1]:
                met = drain(scene.neighbour, host, port, 1)
                check(met["bytes"] > BODY and met["error"] == "timeout", f"{host}: the neighbour: {met}")
            expect(f"{how}-{size}", 1, event={"fault": "break-after", "comm": "victim", "side": "client"})


@part
def at_the_server():
    """What it says leaves it no longer than that, whoever asks; the same server is whole on other ports."""
    for (how, size), port in SERVED_PORTS.items():
        for host in HOSTS:
            met = drain(scene.neighbour, host, port, 3 if how == "stall" else 20)
            check_equal((met["bytes"], met["error"]), (size, HOWS[how]), f"{host}: {how} after {size}")
            expect(f"served-{how}-{size}", 1, event={"fault": "break-after", "side": "server"})
    for host in HOSTS:
        met = scene.neighbour.get(host, ASKED, f"/bytes/{BODY}")
        check_equal((met["error"], met["bytes"]), (None, BODY), f"{host}: another port of it")


@part
def each_response_of_a_server():
    for host in HOSTS:
        number = scene.neighbour.open(host, SERVED)["id"]
        for _ in range(4):
            check_equal(scene.neighbour.request(number, "/bytes/800")["error"], None, f"{host}: a short response")
        met = scene.neighbour.drain(number, REQUEST)
        check_equal((met["bytes"], met["error"]), (1000, "ECONNRESET"), f"{host}: a long one")
        expect("served-kept", 1)


@part
def requests():
    """An upload ends in the middle: where it leaves its client, or where it arrives at the server."""
    for (how, end), port in ASKED_PORTS.items():
        for host in HOSTS:
            number = scene.victim.open(host, port)["id"]
            met = scene.victim.request(number, "/nothing", body=4 * UPLOAD, timeout=4)
            wanted = {"reset": ("ECONNRESET", "EPIPE"), "close": ("ECONNRESET", "EPIPE", "eof"), "stall": ("timeout",)}[how]
            check(met["error"] in wanted, f"{host}: {how} at the {end}: {met}")
            expect(f"asked-{how}-{end}", 1, event={"side": end})
            if end == "client":
                met = scene.neighbour.request(scene.neighbour.open(host, port)["id"], "/nothing", body=4 * UPLOAD)
                check_equal(met["error"], None, f"{host}: the neighbour's upload")


@part
def each_response_of_a_kept_alive_connection():
    for host in HOSTS:
        number = scene.victim.open(host, KEPT)["id"]
        for _ in range(4):
            check_equal(scene.victim.request(number, "/bytes/800")["error"], None, f"{host}: a short response")
        met = scene.victim.drain(number, REQUEST)
        check_equal((met["bytes"], met["error"]), (1000, "ECONNRESET"), f"{host}: a long one")
        expect("kept", 1)


@part
def after_a_time():
    """A stream of tokens ends in the middle, as if that were all."""
    for host in HOSTS:
        number = scene.victim.open(host, TIMED)["id"]
        met = scene.victim.drain(number, "GET /stream?tokens=100&ms=100 HTTP/1.1\r\nHost: a\r\n\r\n")
        check_equal(met["error"], "eof", f"{host}: the stream")
        check(200 < met["bytes"] < 3000, f"{host}: {met}")
        check_took(met["ms"], 700, f"{host}: the stream")
        expect("timed", 1)


HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ndata-set: data: none\r\n\r\n"


def events(count, end="\n\n", filling=20):
    return [f"data: {{\"n\": {i}, \"text\": \"{'data: ' * filling}\"}}{end}" for i in range(count)]


def chunked(pieces):
    return [f"{len(piece):x}\r\n{piece}\r\n" for piece in pieces]


STREAMS = {
    "events": (HEAD, events(6)),
    "events that end with CRLF": (HEAD, events(6, "\r\n\r\n")),
    "events in chunks": (HEAD, chunked(events(6))),
    "events with names": (HEAD, [f"event: delta\n{event}" for event in events(6)]),
    "events of several lines": (HEAD, [f"data: one\ndata: two\nid: 7\n: a remark\n\n{'' if i else ': data: alive'}\n\n"
                                       for i in range(6)]),
    "large events": (HEAD, events(6, filling=20000)),
    "lines of JSON": (HEAD, [f"{{\"response\": \"{i}\", \"done\": false}}\n" for i in range(6)]),
}


def end_of(stream, count):
    """Where the chunk of that number ends: at the last line end that belongs to it."""
    head, chunks = stream
    last = chunks[count - 1]
    if last.endswith("}\n\n\r\n"):
        last = last[:-2]  # the end of HTTP's chunk is not the event's
    if ": data: alive" in "".join(chunks):
        last = last[:last.index("\n\n") + 2]
    return len(head) + len("".join(chunks[:count - 1])) + len(last)


@part
def chunks():
    """So many events or lines, whatever the segments: at once, one by one, and cut at each place of an event."""
    for what, (head, stream) in STREAMS.items():
        text, end = head + "".join(stream), end_of((head, stream), 3)
        ways = {"at once": (text, []), "one by one": (head, stream)}
        start = len(head) + len("".join(stream[:2]))
        for at in (1, 3, 5, end - start - 2, end - start - 1, end - start):
            ways[f"cut {at} bytes into an event"] = (text[:start + at], [text[start + at:]])
        for way, (first, rest) in ways.items():
            host = HOSTS[len(way) % len(HOSTS)]
            met = scene.victim.drain(scene.victim.open(host, CHUNKS)["id"], first, 5, rest)
            check_equal((met["bytes"], met["error"]), (end, "eof"), f"{host}: {what}, {way}")
            expect("chunks", 1)


@part
def chunks_at_the_server():
    for what, (head, stream) in STREAMS.items():
        end = end_of((head, stream), 3)
        host = HOSTS[len(what) % len(HOSTS)]
        met = scene.neighbour.drain(scene.neighbour.open(host, SERVED_CHUNKS)["id"], head, 5, stream)
        check_equal((met["bytes"], met["error"]), (end, "eof"), f"{host}: {what}")
        expect("served-chunks", 1)


@part
def fewer_chunks():
    """A stream that is no longer is whole and counts for nothing; each response of a connection begins anew."""
    number = scene.victim.open(HOSTS[0], SHORT)["id"]
    for _ in range(3):
        text = HEAD + "".join(events(3))
        check_equal(scene.victim.ping(number, text)["error"], None, "three of three")
    text = HEAD + "".join(events(4))
    met = scene.victim.drain(number, text)
    check_equal((met["bytes"], met["error"]), (end_of((HEAD, events(4)), 3), "ECONNRESET"), "four")
    expect("short", 1)


@part
def chunks_inside_tls():
    """They cannot be counted: skipped, and counted as that."""
    number = scene.victim.open(HOSTS[0], TLS_CHUNKS, tls="1.3")["id"]
    check_equal(scene.victim.request(number, "/bytes/1000")["error"], None, "a request inside TLS")
    expect("tls-chunks", 0, {"encrypted": 1})


@part
def inside_tls():
    """The bytes are those of the wire; TLS notices an end that is none."""
    for host in HOSTS:
        number = scene.victim.open(host, TLS, tls="1.3")["id"]
        check(scene.victim.request(number, f"/bytes/{BODY}")["error"] is not None, f"{host}: a request")
        expect("tls", 1)


@part
def checksums_that_are_looked_at():
    place.without_checksum_offload("ns1", "s1")
    for host in HOSTS:
        met = drain(scene.victim, host, BARE, 20)
        check_equal((met["bytes"], met["error"]), (2001, "ECONNRESET"), f"{host}: without offload")
        expect("bare", 1)
        met = scene.neighbour.drain(scene.neighbour.open(host, SERVED)["id"], REQUEST, 20)
        check_equal((met["bytes"], met["error"]), (1000, "ECONNRESET"), f"{host}: cut where it leaves, without offload")
        expect("served-kept", 1)


@alone
def a_stalled_response_goes_on_afterwards():
    chaos.load(chaos.rule("stall", {"cgroup": VICTIM, "ports": [LATER]}, {"break_after": {"bytes": 5000, "how": "stall"}}))
    stalled = {host: scene.victim.open(host, LATER)["id"] for host in HOSTS}
    came = {host: scene.victim.drain(number, REQUEST, 1)["bytes"] for host, number in stalled.items()}
    chaos.stop()
    for host, number in stalled.items():
        check_equal(came[host], 5000, f"{host}: under the rule")
        rest = scene.victim.drain(number, "", 5)
        check(came[host] + rest["bytes"] > BODY, f"{host}: after the end: {rest}")


main(setup, lambda: scene and scene.close(), rules)
