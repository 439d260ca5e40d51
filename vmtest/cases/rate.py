#!/usr/bin/python3
# timeout: 150
"""rate and tokens of what leaves (pace_arriving has the rest): never faster than asked, and not much slower."""
import socket
import threading
import time

import chaos
from case import check, check_equal, check_took, expect, lateness_ms, main, part
from scene import PLACES, VICTIM, Scene
from worker import Worker

UP, DOWN, DATAGRAMS, STREAM, AT_ONCE, FAR = range(8700, 8706)
KBIT, SIZE = 2000, 400_000
TOKENS, EVENTS = 10, 30

scene = slow = fast = None


class Streamer:
    """A server that answers whatever comes with events: each sent by itself, or (without a pause) all at once."""

    def __init__(self):
        self.stopping = threading.Event()

    def serve(self, host, port, events, pause, filler=""):
        sock = socket.socket(socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(8)
        self.sock, self.pause = sock, pause
        self.events = [f"data: {i} {filler}\n\n".encode() for i in range(events)]

    def answer(self):
        sock, _ = self.sock.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.recv(100)
        for event in self.events if self.pause else [b"".join(self.events)]:
            sock.sendall(event)
            time.sleep(self.pause)
        sock.close()

    def listen_to(self, host, port):
        """When each event came, in ms after the server was asked: the first can have left at that moment at the earliest."""
        times, text = [], b""
        with socket.create_connection((host, port), 30) as sock:
            start = time.monotonic()
            sock.sendall(b"go")
            while True:
                more = sock.recv(65536)
                now = time.monotonic()
                if not more:
                    break
                text += more
                times += [now] * (text.count(b"\n\n") - len(times))
        return [round((one - start) * 1000, 1) for one in times]


def setup():
    global scene, slow, fast
    scene = Scene()
    for port in (UP, DOWN, FAR):
        scene.listen(port)
    scene.listen(DATAGRAMS, "udp")
    slow = Worker(Streamer, cgroup="case/server")
    slow.serve("127.0.0.1", STREAM, EVENTS, 0.005)
    fast = Worker(Streamer, cgroup="case/server")
    fast.serve("127.0.0.1", AT_ONCE, EVENTS, 0, "x" * 400)


def rules():
    def rule(name, match, fault):
        return chaos.rule(name, match, fault)

    return [rule("up", {"cgroup": VICTIM, "ports": [UP], "direction": "request"}, {"rate": f"{KBIT}kbit"}),
            rule("down", {"cgroup": "case/server", "ports": [DOWN], "side": "server", "direction": "response"},
                 {"rate": f"{KBIT}kbit"}),
            rule("datagrams", {"cgroup": VICTIM, "ports": [DATAGRAMS], "protocol": "udp"}, {"rate": "100kbps"}),
            rule("stream", {"cgroup": "case/server", "ports": [STREAM, AT_ONCE, FAR], "side": "server", "protocol": "tcp"},
                 {"tokens": f"{TOKENS}/s"})]


HOSTS = ("127.0.0.1", "fd77:1::2")
FLOOR_MS = SIZE * 8 / KBIT


@part
def up():
    """The victim's requests crawl, its neighbour's do not; two connections have the rate each."""
    for host in HOSTS:
        number = scene.victim.open(host, UP)["id"]
        met = scene.victim.request(number, "/echo", body=SIZE, timeout=60)
        check_equal((met["error"], met["bytes"]), (None, SIZE), f"{host}: a large request")
        check_took(met["ms"], FLOOR_MS, f"{host}: {SIZE} bytes up")
        print(f"    {host}: {SIZE * 8 / met['ms']:.0f} kbit/s of {KBIT}", flush=True)
        expect("up", 1)
        other = scene.neighbour.open(host, UP)["id"]
        check(scene.neighbour.request(other, "/echo", body=SIZE, timeout=60)["ms"] < FLOOR_MS, f"{host}: the neighbour is slow")


@part
def down():
    for host in HOSTS:
        number = scene.victim.open(host, DOWN)["id"]
        met = scene.victim.request(number, f"/bytes/{SIZE}", timeout=60)
        check_equal((met["error"], met["bytes"]), (None, SIZE), f"{host}: a large reply")
        check_took(met["ms"], FLOOR_MS, f"{host}: {SIZE} bytes down")
        print(f"    {host}: {SIZE * 8 / met['ms']:.0f} kbit/s of {KBIT}", flush=True)
        met = scene.victim.request(number, "/bytes/10")
        check_took(met["ms"], 0, f"{host}: a small reply after it")
        expect("down", 1)


@part
def datagrams():
    """100 kB/s: 200 datagrams of some 1000 bytes and 28 or 48 of headers take two seconds."""
    for host in HOSTS:
        number = scene.victim.udp_open(host, DATAGRAMS)["id"]
        scene.victim.call_me("x" * 990)
        start = time.monotonic()
        check_equal(scene.victim.udp_many(number, 200, pause_every=0), {}, f"{host}: errors while sending")
        scene.victim.udp_ask(number, "last 1", timeout=20)
        check_took((time.monotonic() - start) * 1000, 200 * 1020 / 100, f"{host}: 200 datagrams")
        expect("datagrams", 1)


def check_times(times, events, what):
    """No event comes before it is due, all come, and none waits for those behind it."""
    check_equal(len(times), events, f"{what}: events")
    early = [i for i, ms in enumerate(times) if ms < i * 1000 / TOKENS - 1]
    check_equal(early, [], f"{what}: events that came early ({times})")
    check_took(times[-1], (events - 1) * 1000 / TOKENS - 20, f"{what}: the last event")
    pause = max(later - earlier for earlier, later in zip(times, times[1:]))
    check(pause < 4 * 1000 / TOKENS + 2 * lateness_ms(), f"{what}: a pause of {pause:.0f} ms ({times})")
    print(f"    {what}: the longest pause is {pause:.0f} ms of {1000 / TOKENS:.0f}", flush=True)
    expect("stream", 1)


def check_events(server, port, what):
    server.begin("answer")
    times = Streamer().listen_to("127.0.0.1", port)
    server.end(stop=False)
    check_times(times, EVENTS, what)


@part
def tokens():
    check_events(slow, STREAM, "one by one")


@part
def tokens_at_once():
    """A server that is faster than the line has many events in one packet, some KB long."""
    check_events(fast, AT_ONCE, "at once")


@part
def tokens_on_a_device():
    """What waits there TCP joins to packets, larger than the device's own."""
    for _, family, host, _ in PLACES:
        if family != "mapped":
            met = scene.neighbour.listen_to(scene.neighbour.open(host, FAR)["id"], f"/stream?tokens={2 * EVENTS}&ms=0")
            check_equal(met["error"], None, host)
            check_times(met["times"], 2 * EVENTS + 1, host)


main(setup, lambda: scene and scene.close(), rules)
