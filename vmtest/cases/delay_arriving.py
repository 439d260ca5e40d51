#!/usr/bin/python3
# timeout: 240
"""A delay with `direction: response` at the client: the request goes at once, its answer waits, once, whatever carries it."""
import http.server
import socket
import threading
import time

import chaos
from case import alone, check, check_equal, check_took, expect, main, part, wait_until
from scene import PLACES, VICTIM, Scene
from worker import Worker

DELAY_MS, PATIENCE_S = 800, 5
PLAIN, SECURE, HALF, HASTY, LATE = range(8720, 8725)
HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]

scene = None
old = {}


class Impatient:
    """A server that closes a connection on which no request comes for PATIENCE_S, as uvicorn, node and llama-server do."""

    stopping = threading.Event()

    def listen(self, host, *ports):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version, timeout = "HTTP/1.1", PATIENCE_S

            def do_GET(self):  # pylint: disable=invalid-name
                self.send_response(200)
                self.send_header("Content-Length", "10")
                self.end_headers()
                self.wfile.write(b"x" * 10)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        for port in ports:
            server = http.server.ThreadingHTTPServer((host, port), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()


def setup():
    global scene
    scene = Scene()
    for port in (PLAIN, HALF):
        scene.listen(port)
    scene.listen(SECURE, "tls")
    Worker(Impatient, cgroup="case/server", comm="impatient").listen("127.0.0.1", HASTY, LATE)
    for host in HOSTS:  # older than the load
        old[host] = scene.victim.open(host, PLAIN)["id"]
        check_equal(scene.victim.request(old[host])["error"], None, f"{host}: a request before the load")


def rules():
    def rule(name, port, delay=f"{DELAY_MS}ms", direction="response", **keys):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port], "direction": direction}, {"delay": delay}, **keys)

    return [rule("plain", PLAIN), rule("tls", SECURE), rule("half", HALF, percent=50, per="request"),
            rule("answers", HASTY, f"{2 * PATIENCE_S}s"), rule("requests", LATE, f"{2 * PATIENCE_S}s", "request")]


def server_has_heard(host, name):
    server = scene.far if host in ("10.77.1.2", "fd77:1::2") else scene.near
    return server.count("requests", name)


def is_late(met, what, size=10):
    check_equal((met["error"], met["status"], met["bytes"]), (None, 200, size), what)
    check_took(met["first_ms"], DELAY_MS, what)
    expect("plain", 1, event={"fault": "delay", "comm": "victim", "side": "client"})


@part
def answers():
    """New connections, old ones, several requests on one; the server hears of each at once."""
    for host in HOSTS:
        for number, age in ((scene.victim.open(host, PLAIN)["id"], "new"), (old[host], "old")):
            for turn in ("first", "second"):
                is_late(scene.victim.request(number), f"{host}: {age}, {turn} request")
        before = server_has_heard(host, "victim")
        scene.victim.begin("request", old[host])
        asked = time.monotonic()
        wait_until(lambda: server_has_heard(host, "victim") > before, "the request at the server")
        heard_ms = (time.monotonic() - asked) * 1000
        is_late(scene.victim.end(stop=False), f"{host}: a request that is watched")
        print(f"    {host}: the server heard of it after {heard_ms:.0f} ms", flush=True)


@part
def the_neighbour():
    for host in HOSTS:
        number = scene.neighbour.open(host, PLAIN)["id"]
        quickest = min(scene.neighbour.request(number)["ms"] for _ in range(5))
        check(quickest < DELAY_MS, f"{host}: the neighbour's quickest took {quickest} ms")


@part
def large():
    """All of it, after the delay; and a large request, whose acknowledgements do not wait."""
    size = 5_000_000
    for host in HOSTS:
        met = scene.victim.request(old[host], f"/bytes/{size}", timeout=60)
        is_late(met, f"{host}: 5 MB", size)
        met = scene.victim.request(old[host], "/echo", body=300_000, timeout=60)
        is_late(met, f"{host}: 300 KB there and back", 300_000)
        is_late(scene.victim.request(old[host]), f"{host}: a small one after them")


@part
def tls():
    for host, version in ((HOSTS[0], "1.2"), (HOSTS[0], "1.3"), (HOSTS[3], "1.3")):
        opened = scene.victim.open(host, SECURE, tls=version)
        check_equal(opened["error"], None, f"TLS {version} to {host}: handshake")
        for turn in ("first", "second"):
            met = scene.victim.request(opened["id"])
            check_equal((met["error"], met["status"]), (None, 200), f"TLS {version} to {host}: {turn} request")
            check_took(met["ms"], DELAY_MS, f"TLS {version} to {host}: {turn} request")
            expect("tls", 1)


@part
def half_of_the_requests():
    """As many are late as the counters say, the others are not."""
    number, late = scene.victim.open("127.0.0.1", HALF)["id"], 0
    took = [scene.victim.request(number)["ms"] for _ in range(20)]
    hit = [event["request"] for event in chaos.events() if event["rule"] == "half"]
    for request, ms in enumerate(took, 1):
        late += request in hit
        check(ms >= DELAY_MS - 1 or request not in hit, f"request {request} took {ms} ms")
    check(min(took) < DELAY_MS, f"every request was late: {took}")
    check(0 < late < 20, f"{late} of 20 were chosen")
    expect("half", late, {"percent": 20 - late})


@part
def impatient_servers():
    """They close a connection whose request is late, which is no slow answer. One whose answer waits they close behind it."""
    met = scene.victim.get("127.0.0.1", HASTY, timeout=60)
    check_equal((met["error"], met["status"]), (None, 200), "an answer that is late")
    check_took(met["ms"], 2000 * PATIENCE_S, "an answer that is late")
    expect("answers", 1)
    met = scene.victim.request(scene.victim.open("127.0.0.1", LATE)["id"], timeout=60)
    check(met["error"] in ("eof", "ECONNRESET"), f"a request that is late: {met}")
    expect("requests", 1)


# ---- the end

def one_rule(**keys):
    return chaos.rule("one", {"cgroup": VICTIM, "ports": [PLAIN], "direction": "response"}, {"delay": "4s"}, **keys)


def ask_us(listener, delay):
    """The victim's request, taken by ourselves: our end of the connection."""
    port = listener.getsockname()[1]
    chaos.load(chaos.rule("one", {"cgroup": VICTIM, "ports": [port], "direction": "response"}, {"delay": delay}))
    scene.victim.begin("request", scene.victim.open("127.0.0.1", port)["id"], timeout=60)
    taken = listener.accept()[0]
    taken.recv(1000)
    return taken


@alone
def closed_instead():
    """A server that closes without a word is heard of as late as one that answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ask_us(listener, "2s").close()
        met = scene.victim.end(stop=False)
        check_equal(met["error"], "eof", "closed by the server")
        check_took(met["ms"], 2000, "closed by the server")
    check_equal(chaos.status()["one"]["injected"], 1, "injected")


@alone
def ends_meanwhile():
    """An answer that waits comes when the rule is unloaded, or when everything is stopped; and the next one is quick."""
    for command in ("unload", "stop"):
        chaos.load(one_rule())
        scene.victim.begin("request", old[HOSTS[0]], timeout=60)
        wait_until(lambda: chaos.status()["one"]["injected"] == 1, "the request")
        chaos.chaos(command, expect=0)
        met = scene.victim.end(stop=False)
        check_equal((met["error"], met["status"]), (None, 200), f"an answer over {command}")
        check(min(scene.victim.request(old[HOSTS[0]])["ms"] for _ in range(3)) < 4000, f"answers after {command}")


@alone
def another_rule_meanwhile():
    """What the load before has decided of a request is forgotten when another takes its place before the answer comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = ask_us(listener, "10m")
        chaos.load(one_rule(), chaos.rule("two", {"cgroup": VICTIM, "ports": list(listener.getsockname()[1:]),
                                                  "direction": "response"}, {"delay": "10m"}))
        taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        met = scene.victim.end(stop=False)
        check_equal((met["error"], met["status"]), (None, 200), "the answer under the second load")
        check_equal(chaos.status()["two"]["injected"], 0, "injected by the second")
        taken.close()


main(setup, lambda: scene and scene.close(), rules)
