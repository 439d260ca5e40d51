#!/usr/bin/python3
# timeout: 200
"""What `observe` counts is what was done: by whom, to whom, how often and how long; beside faults, and it leaves nothing."""
import ctypes
import errno
import os
import signal
import socket
import urllib.request

import chaos
import leftovers
import place
from case import alone, check, check_equal, expect, main, part, skip, wait_until
from observed import Observed
from scene import NEIGHBOUR, VICTIM, Scene

PLAIN, SECURE, ECHO, SLOW, SLOW_SECURE, REFUSED, CLOSED, STREAM = 8300, 8301, 8302, 8303, 8304, 8305, 8306, 8307
DELAY_MS, ERROR = 700, 0.0313

scene = None


def setup():
    global scene
    scene = Scene()
    for port in (PLAIN, SLOW, REFUSED, STREAM):
        scene.listen(port)
    scene.listen(ECHO, "echo")
    for port in (SECURE, SLOW_SECURE):
        scene.near.listen("127.0.0.1", port, "tls")
        scene.far.listen("fd77:1::2", port, "tls")
    for host in ("127.0.0.1", "fd77:1::2"):
        scene.victim.open(host, SECURE, tls="1.3")  # so that all is warm


def rules():
    slow = {"delay": f"{DELAY_MS}ms"}
    return [chaos.rule("slow", {"cgroup": VICTIM, "ports": [SLOW, SLOW_SECURE]}, slow),
            chaos.rule("refuse", {"cgroup": VICTIM, "ports": [REFUSED]}, {"refuse": "refused"})]


def ask(client, host, port, times, path="/bytes/10", **how):
    """So many requests on one connection, which stays open."""
    number = client.open(host, port, **how)["id"]
    for _ in range(times):
        check_equal(client.request(number, path)["error"], None, f"a request to {host}:{port}")
    return number


def text(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_row(row, requests, connections, what):
    check_equal({key: row[key] for key in ("requests", "responses", "unanswered", "connections")},
                {"requests": requests, "responses": requests, "unanswered": 0, "connections": connections}, what)
    check_equal(row["response_ms"]["count"], requests, f"{what}: response times")


# ---- beside faults

@part
def delayed():
    """With a delay loaded the client's response times rise by it, kept alive, on new connections and under TLS."""
    for host in ("127.0.0.1", "fd77:1::2"):
        for port, other, how in ((SLOW, PLAIN, {}), (SLOW_SECURE, SECURE, {"tls": "1.3"}),
                                 (SLOW_SECURE, SECURE, {"tls": "1.2"})):
            what = f"{host}:{port} {how}"
            with Observed("--cgroup", VICTIM, "--side", "client") as seen:
                ask(scene.victim, host, other, 5, **how)
                ask(scene.victim, host, port, 3, **how)
                ask(scene.victim, host, port, 2, **how)
            expect("slow", 5)
            before, row = (seen.row(endpoint=text(host, which)) for which in (other, port))
            check_row(before, 5, 1, f"{what}: without the delay")
            check_row(row, 5, 2, what)
            rise = row["response_ms"]["p50"] - before["response_ms"]["p50"]
            check(row["response_ms"]["p50"] >= DELAY_MS * (1 - ERROR), f"{what}: p50 is {row['response_ms']['p50']}")
            check(rise <= DELAY_MS + 8000, f"{what}: p50 rises by {rise} ms")
            check(before["response_ms"]["p50"] < row["response_ms"]["p50"], f"{what}: p50 does not rise: {rise}")


@part
def refused_by_a_rule():
    """connect() that a rule refuses is a connection that was not made, whatever the kernel lets us know of the reason."""
    with Observed("--cgroup", VICTIM) as seen:
        for _ in range(4):
            check_equal(scene.victim.open("127.0.0.1", REFUSED)["error"], "ECONNREFUSED", "connect()")
    expect("refuse", 4)
    # Where a rule refuses by another destination, that is the endpoint that is seen.
    check_equal(sum(sum(row["failures"].values()) for row in seen.rows), 4, f"connections that were not made: {seen.rows}")
    check_equal((seen.sum("connections"), seen.sum("requests")), (0, 0), "and none was")


@part
def loaded_later_or_earlier():
    """An observer and a neighbour's one beside the faults do not see each other's."""
    with Observed("--cgroup", NEIGHBOUR) as other, Observed("--cgroup", VICTIM) as seen:
        ask(scene.victim, "127.0.0.1", PLAIN, 3)
        ask(scene.neighbour, "127.0.0.1", SLOW, 2)
    check_equal(seen.sum("requests"), 3, "the victim's requests")
    check_equal(other.sum("requests"), 2, "the neighbour's requests")
    check_equal({row["process"] for row in seen.rows}, {"victim"}, "processes")


# ---- alone

@alone
def exact():
    """N requests by real clients are N, on both sides, for the named ones only."""
    with Observed("--cgroup", VICTIM) as client, Observed("--cgroup", "case/server", "--port", PLAIN) as server:
        for host in ("127.0.0.1", "::1", "10.77.1.2", "fd77:1::2"):
            ask(scene.victim, host, PLAIN, 20)
            ask(scene.neighbour, host, PLAIN, 7)
        ask(scene.victim, "127.0.0.1", PLAIN, 1, path="/nothing-there")
    for host in ("::1", "10.77.1.2", "fd77:1::2"):
        row = client.row(endpoint=text(host, PLAIN))
        check_row(row, 20, 1, f"client of {host}")
        check_equal(row["status"]["2xx"], 20, f"client of {host}: status")
        check_equal((row["side"], row["process"], row["cgroup"]), ("client", "victim", VICTIM), "whose row it is")
        check(row["bytes_received"] > 20 * 10, f"bytes: {row['bytes_received']}")
    check_row(client.row(endpoint=text("127.0.0.1", PLAIN)), 21, 2, "client of 127.0.0.1")
    check_equal(client.sum("status.4xx"), 1, "404")
    check_equal(client.sum("requests"), 81, "all of the victim")
    check_equal(server.sum("requests", side="server"), 109, "all that was served")
    check_equal(server.sum("connections", side="server"), 9, "connections that were served")
    check_equal(server.sum("requests", side="client"), 0, "the servers call nobody")


@alone
def secure():
    """TLS 1.2 and 1.3, kept alive: handshakes are no requests, on either side."""
    for host in ("127.0.0.1", "fd77:1::2"):
        for version in ("1.2", "1.3"):
            with Observed("--port", SECURE) as seen:
                ask(scene.victim, host, SECURE, 6, tls=version)
            check_row(seen.row(side="client"), 6, 1, f"TLS {version} to {host}")
            row = seen.row(side="server")
            check_equal((row["requests"], row["connections"]), (6, 1), f"TLS {version} at {host}")
            check_equal(row["status"]["none"], 6, "nothing can be read of it")


TOKENS, EVERY_MS = 10, 150


@alone
def streams():
    """The pauses of an event stream, on both sides; an answer that is none, and what is inside TLS, have none."""
    for host in ("127.0.0.1", "fd77:1::2"):
        with Observed("--port", STREAM) as seen, Observed("--port", f"{PLAIN},{SECURE}") as others:
            number = scene.victim.open(host, STREAM)["id"]
            times = scene.victim.listen_to(number, f"/stream?tokens={TOKENS}&ms={EVERY_MS}")["times"]
            ask(scene.victim, host, PLAIN, 2, path="/bytes/300000")
            number = scene.victim.open(host, SECURE, tls="1.3")["id"]
            check_equal(scene.victim.listen_to(number, f"/stream?tokens=3&ms={EVERY_MS}")["error"], None, "inside TLS")
        for side in ("client", "server"):
            row = seen.row(side=side)
            gap = row["gap_ms"]
            what = f"{side} of {host}: {gap} of {times}"
            check_equal((row["requests"], row["status"]["2xx"]), (1, 1), f"{what}: the request")
            # From the head to the last event: what came at once may have come in one packet.
            check(TOKENS - 1 <= gap["count"] <= TOKENS + 2, what)
            check(gap["count"] * gap["mean"] >= (TOKENS - 1) * EVERY_MS * (1 - ERROR), what)
            check(gap["max"] >= EVERY_MS * (1 - ERROR), what)
            check(row["response_ms"]["max"] < gap["count"] * gap["mean"], f"{what}: answered when it began: {row['response_ms']}")
        check_equal([row["gap_ms"]["count"] for row in others.rows], [0] * len(others.rows), "pauses of what is no stream")
        check(others.sum("requests") >= 6, f"but it was seen: {others.rows}")


@alone
def other_protocols():
    """A request of a few bytes counts, and one of many segments once."""
    with Observed("--cgroup", VICTIM) as seen:
        number = scene.victim.open("127.0.0.1", ECHO)["id"]
        for _ in range(9):
            check_equal(scene.victim.ping(number)["error"], None, "echo")
        number = scene.victim.open("fd77:1::2", PLAIN)["id"]
        for _ in range(3):
            check_equal(scene.victim.request(number, "/echo", body=300_000)["error"], None, "POST")
    check_row(seen.row(endpoint=f"127.0.0.1:{ECHO}"), 9, 1, "echo")
    row = seen.row(endpoint=f"[fd77:1::2]:{PLAIN}")
    check_row(row, 3, 1, "POST of 300 KB")
    check(row["bytes_sent"] >= 900_000, f"{row['bytes_sent']} bytes sent")


@alone
def failures():
    """What cannot be had is counted with its reason, and so are resets."""
    with Observed("--cgroup", VICTIM) as seen:
        for _ in range(3):
            check_equal(scene.victim.open("127.0.0.1", CLOSED)["error"], "ECONNREFUSED", "a closed port")
        number = ask(scene.victim, "127.0.0.1", PLAIN, 1)
        scene.victim.abort(number)
    row = seen.row(endpoint=f"127.0.0.1:{CLOSED}")
    check_equal(row["failures"]["refused"], 3, f"refused: {row['failures']}")
    check_equal(sum(row["failures"].values()), 3, f"nothing else: {row['failures']}")
    check_equal(seen.row(endpoint=f"127.0.0.1:{PLAIN}")["resets_sent"], 1, "resets")


@alone
def there_before():
    """Connections that were open before anybody looked count as they are used, on the right side."""
    number = ask(scene.victim, "10.77.1.2", PLAIN, 2)
    other = ask(scene.neighbour, "10.77.1.2", PLAIN, 2)
    with Observed("--cgroup", VICTIM) as seen, Observed("--port", PLAIN, "--side", "server") as server:
        for one, client in ((number, scene.victim), (number, scene.victim), (number, scene.victim),
                            (other, scene.neighbour)):
            check_equal(client.request(one)["error"], None, "a request")
    check_row(seen.row(endpoint=f"10.77.1.2:{PLAIN}"), 3, 0, "an old connection")
    check_row(server.row(side="server"), 4, 0, "old connections at the server")


@alone
def by_pid_and_name():
    with Observed("--pid", scene.victim.pid) as pid, Observed("--process", "vict*") as name:
        ask(scene.victim, "127.0.0.1", PLAIN, 4)
        ask(scene.neighbour, "127.0.0.1", PLAIN, 4)
    for seen in (pid, name):
        check_equal((seen.sum("requests"), len(seen.rows)), (4, 1), f"{seen.options}")


@alone
def killed():
    """kill -9 leaves nothing: what measures lives by descriptors alone."""
    before = leftovers.snapshot()
    with Observed("--cgroup", VICTIM) as seen:
        pass
    process = chaos.start("observe", "--json")
    check("measuring" in process.stderr.readline(), "it measures")
    check(leftovers.bpf_count("chaos_obs") > 0, "its programs are there")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    wait_until(lambda: leftovers.bpf_count("chaos_obs") == 0, "its programs are gone")
    leftovers.assert_nothing_left(before)
    check_equal(seen.rows, [], "and nobody did anything")


@alone
def prometheus():
    """The collector's file is whole, private, and says what was done."""
    path = "/run/observe.prom"
    with Observed("--cgroup", VICTIM, "--prometheus", path):
        ask(scene.victim, "127.0.0.1", PLAIN, 5)
    with open(path) as file:
        lines = file.read().splitlines()
    check_equal(os.stat(path).st_mode & 0o777, 0o600, "its mode")
    os.unlink(path)
    wanted = f'side="client",process="victim",cgroup="{VICTIM}",endpoint="127.0.0.1:{PLAIN}"'
    check(f"chaosbpf_observe_requests_total{{{wanted}}} 5" in lines, "\n".join(lines))
    check(f"chaosbpf_observe_response_seconds_count{{{wanted}}} 5" in lines, "and their times")


@alone
def metrics():
    """Its own /metrics, on loopback alone, with the same numbers."""
    try:
        ctypes.CDLL("libmicrohttpd.so.12")
    except OSError:
        skip("libmicrohttpd is not here")
    wanted = f'side="client",process="victim",cgroup="{VICTIM}",endpoint="127.0.0.1:{PLAIN}"'
    line = f"chaosbpf_observe_requests_total{{{wanted}}} 5"
    said = ""
    with Observed("--cgroup", VICTIM, "--listen"):
        ask(scene.victim, "127.0.0.1", PLAIN, 5)

        def told():
            nonlocal said
            with urllib.request.urlopen("http://127.0.0.1:9469/metrics", timeout=20) as answer:
                said = answer.read().decode()
            return line in said.splitlines()

        wait_until(told, "the numbers to be told", seconds=30, pause=0.2)
        for family, address in ((socket.AF_INET, "10.77.1.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as sock:
                check_equal(sock.connect_ex((address, 9469)), errno.ECONNREFUSED, f"/metrics at {address}")
    check("# TYPE chaosbpf_observe_requests_total counter" in said, "as Prometheus reads it")


@alone
def told_apart_and_together():
    """By process, by cgroup and by endpoint: the same requests, summed up otherwise."""
    rows = {}
    with Observed("--side", "client", "--port", f"{PLAIN},{ECHO}", "--by", "process") as process, \
            Observed("--side", "client", "--port", f"{PLAIN},{ECHO}", "--by", "cgroup") as cgroup, \
            Observed("--side", "client", "--port", f"{PLAIN},{ECHO}", "--by", "endpoint") as endpoint:
        for host in ("127.0.0.1", "10.77.1.2"):
            ask(scene.victim, host, PLAIN, 4)
            ask(scene.neighbour, host, PLAIN, 3)
        number = scene.victim.open("127.0.0.1", ECHO)["id"]
        for _ in range(2):
            check_equal(scene.victim.ping(number)["error"], None, "echo")
    for name, seen in (("process", process), ("cgroup", cgroup), ("endpoint", endpoint)):
        rows[name] = {row[name]: row["requests"] for row in seen.rows}
        check_equal(len(rows[name]), len(seen.rows), f"one line for each {name}: {seen.rows}")
    check_equal(rows, {"process": {"victim": 10, "neighbour": 6}, "cgroup": {VICTIM: 10, NEIGHBOUR: 6},
                       "endpoint": {f"127.0.0.1:{PLAIN}": 7, f"10.77.1.2:{PLAIN}": 7, f"127.0.0.1:{ECHO}": 2}}, "requests")


def teardown():
    scene.close()


if __name__ == "__main__":
    assert place.CGROUP
    main(setup, teardown, rules)
