#!/usr/bin/python3
# timeout: 450
"""duplicate, corrupt and reorder: what the application gets, over loopback and veth, IPv4 and IPv6, TCP and UDP; the victim's
neighbour gets what was sent."""
import math
import socket

import chaos
from case import check, check_counters, check_equal, expect, main, alone
from scene import NEIGHBOUR, VICTIM, Scene
from worker import Worker

PLACES = [("127.0.0.1", "near"), ("::1", "near"), ("10.77.1.2", "far"), ("fd77:1::2", "far")]
PORT, COUNT = 8600, 1000
DUPLICATE, CORRUPT = 0.2, 0.3
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33

scene = near = far = victim = neighbour = None


def pattern(i, size):
    """Text that is another one for each number; UTF-8 shows damage as nothing else does, so compare bytes."""
    return (f"{i} " * size).encode()[:size]


class Peer:
    """Both ends, byte for byte."""

    def __init__(self):
        self.sockets = {}

    def serve_udp(self, host, port):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)  # all of them, before the first is read
        sock.bind((host, port))
        sock.settimeout(1)
        self.sockets[host] = sock

    def answer_datagrams(self, host):
        """Each comes back as it is to whoever sent it."""
        sock = self.sockets[host]
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
        count = 0
        while True:
            try:
                data, peer = sock.recvfrom(4096)
            except TimeoutError:
                return count
            sock.sendto(data, peer)
            count += 1

    def ask_datagrams(self, host, port, count, size):
        """One socket for all, connected or not, which is asked for what has come when all have been answered."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        sock.settimeout(1)
        if size % 2:
            sock.connect((host, port))
        for i in range(count):
            sock.sendto(pattern(i, size), (host, port)) if not size % 2 else sock.send(pattern(i, size))
        self.sockets["asked " + host] = sock

    def hear_datagrams(self, host):
        got = self.datagrams("asked " + host)
        self.sockets.pop("asked " + host).close()
        return got

    def datagrams(self, host):
        """All that came, until nothing comes for a second."""
        got = []
        while True:
            try:
                got.append(self.sockets[host].recv(4096).decode("latin-1"))
            except TimeoutError:
                return got

    def send_datagrams(self, host, port, count, size):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((host, port))
            for i in range(count):
                sock.send(pattern(i, size))
        return count

    def serve_tcp(self, host, port):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(8)
        self.sockets["tcp " + host] = sock

    def connect(self, host, port):
        self.keep(host, socket.create_connection((host, port), 20))

    def accept(self, host):
        sock, _ = self.sockets["tcp " + host].accept()
        self.keep(host, sock)

    def keep(self, host, sock):
        sock.settimeout(20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A message is said before the other end begins to read it.
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
        self.sockets["to " + host] = sock

    def say(self, host, text):
        self.sockets["to " + host].sendall(text.encode("latin-1"))

    def hear(self, host, size):
        """So many bytes, whatever they are."""
        got = b""
        while len(got) < size:
            more = self.sockets["to " + host].recv(size - len(got))
            if not more:
                break
            got += more
        return got.decode("latin-1")


def setup():
    global scene, near, far, victim, neighbour
    scene = Scene()
    near, far = Worker(Peer, cgroup="case/server"), Worker(Peer, netns="ns1", cgroup="case/server")
    victim, neighbour = Worker(Peer, cgroup=VICTIM), Worker(Peer, cgroup=NEIGHBOUR)
    for host, where in PLACES:
        server = near if where == "near" else far
        server.serve_udp(host, PORT)
        server.serve_tcp(host, PORT)


def places():
    return [(host, near if where == "near" else far) for host, where in PLACES]


def load(fault, **keys):
    from case import wanted

    wanted.clear()
    chaos.load(chaos.rule("it", {"cgroup": VICTIM, "ports": [PORT], **keys.pop("match", {})}, fault, seed=42, **keys))


def check_share(hits, trials, share, what):
    room = 5 * math.sqrt(trials * share * (1 - share))
    check(abs(hits - trials * share) <= room, f"{what}: {hits} of {trials}, {share:.0%} wanted, within {room:.0f}")


def send_udp(server, host, who, size):
    who.send_datagrams(host, PORT, COUNT, size)
    return server.datagrams(host)


def plain(size):
    return [pattern(i, size).decode() for i in range(COUNT)]


@alone
def duplicates():
    """UDP: so many come twice, all come once at least. TCP: nobody can tell."""
    load({"duplicate": f"{DUPLICATE:.0%}"}, match={"protocol": "udp"})
    total = 0
    for host, server in places():
        got = send_udp(server, host, victim, 60)
        check_equal(sorted(set(got)), sorted(plain(60)), f"{host}: all have come")
        check(max(got.count(one) for one in set(got)) == 2, f"{host}: none three times")
        check_share(len(got) - COUNT, COUNT, DUPLICATE, f"{host}: twice")
        total += len(got) - COUNT
        check_equal(sorted(send_udp(server, host, neighbour, 60)), sorted(plain(60)), f"{host}: the neighbour's")
    expect("it", total, {"percent": COUNT * len(PLACES) - total})
    check_counters()
    load({"duplicate": True}, match={"protocol": "tcp"})
    for host, server in places():
        victim.connect(host, PORT)
        server.accept(host)
        for i in range(20):
            victim.say(host, f"{i:100}")
            check_equal(server.hear(host, 100), f"{i:100}", f"{host}: TCP, each packet twice")
    check(chaos.status()["it"]["injected"] > 20 * len(PLACES), "duplicates of a TCP connection")


@alone
def corruption():
    """One byte of a datagram, its length and its way unchanged; checksums hold where they are looked at."""
    load({"corrupt": f"{CORRUPT:.0%}"}, match={"protocol": "udp"})
    hit = 0
    for host, server in places():
        for size in (61, 1):
            got, here = send_udp(server, host, victim, size), 0
            check_equal(len(got), COUNT, f"{host}: datagrams of {size} bytes that came")
            for was, now in zip(plain(size), got):
                differs = sum(a != b for a, b in zip(was, now))
                check(len(now) == size and differs <= 1, f"{host}: {differs} of {len(now)} bytes differ")
                here += differs
            check_share(here, COUNT, CORRUPT, f"{host}: damaged datagrams of {size} bytes")
            hit += here
        check_equal(sorted(send_udp(server, host, neighbour, 61)), sorted(plain(61)), f"{host}: the neighbour's")
    expect("it", hit, {"percent": 2 * COUNT * len(PLACES) - hit})
    check_counters()


def ask(server, host, who, size):
    """What comes back of COUNT datagrams that all arrive at the server: what it says is damaged, or not, where it arrives."""
    who.ask_datagrams(host, PORT, COUNT, size)
    check_equal(server.answer_datagrams(host), COUNT, f"{host}: datagrams that reached the server")
    return who.hear_datagrams(host)


def damage_of(host, got, size):
    differing = 0
    for was, now in zip(plain(size), got):
        differs = sum(a != b for a, b in zip(was, now))
        check(len(now) == size and differs <= 1, f"{host}: {differs} of {len(now)} bytes differ")
        differing += differs
    return differing


@alone
def what_arrives_damaged():
    """Datagrams at the client, whose socket may be connected or not."""
    load({"corrupt": f"{CORRUPT:.0%}"}, match={"protocol": "udp", "direction": "response"})
    hit = 0
    for host, server in places():
        for size in (60, 61):
            got = ask(server, host, victim, size)
            check_equal(len(got), COUNT, f"{host}: datagrams of {size} bytes that came back")
            here = damage_of(host, got, size)
            check_share(here, COUNT, CORRUPT, f"{host}: damaged datagrams of {size} bytes")
            hit += here
            check_equal(ask(server, host, neighbour, size), plain(size), f"{host}: the neighbour's")
    expect("it", hit, {"percent": 2 * COUNT * len(PLACES) - hit}, event={"side": "client"})
    check_counters()


@alone
def what_arrives_damaged_at_a_server():
    load({"corrupt": f"{CORRUPT:.0%}"}, match={"cgroup": "case/server", "protocol": "udp", "side": "server",
                                               "direction": "request"})
    hit = 0
    for host, server in places():
        here = damage_of(host, send_udp(server, host, neighbour, 61), 61)
        check_share(here, COUNT, CORRUPT, f"{host}: damaged datagrams")
        hit += here
    expect("it", hit, {"percent": COUNT * len(PLACES) - hit}, event={"side": "server"})
    check_counters()


@alone
def what_arrives_twice():
    load({"duplicate": f"{DUPLICATE:.0%}"}, match={"protocol": "udp", "direction": "response"})
    total = 0
    for host, server in places():
        got = ask(server, host, victim, 60)
        check_equal(sorted(set(got)), sorted(plain(60)), f"{host}: all have come")
        check(max(got.count(one) for one in set(got)) == 2, f"{host}: none three times")
        check_share(len(got) - COUNT, COUNT, DUPLICATE, f"{host}: twice")
        total += len(got) - COUNT
        check_equal(sorted(ask(server, host, neighbour, 60)), sorted(plain(60)), f"{host}: the neighbour's")
    expect("it", total, {"percent": COUNT * len(PLACES) - total})
    check_counters()
    load({"duplicate": True}, match={"protocol": "tcp", "direction": "response"})
    for host, server in places():
        victim.connect(host, PORT)
        server.accept(host)
        for size in (100, 200_000):
            check_equal(exchange(host, server, size), [0, 0], f"{host}: TCP, each packet twice, {size} bytes")
    check(chaos.status()["it"]["injected"] > 2 * len(PLACES), "duplicates of a TCP connection")


@alone
def what_arrives_late():
    """Of what arrives at once, what is held back comes last; nothing is lost or doubled."""
    load({"reorder": {"percent": 20, "by": "300ms"}}, match={"protocol": "udp", "direction": "response"})
    for host, server in places():
        got = ask(server, host, victim, 60)
        check_equal(sorted(got), sorted(plain(60)), f"{host}: all have come, once")
        order = [int(text.split()[0]) for text in got]
        late = sum(i < max(order[:at] or [0]) for at, i in enumerate(order))
        check_share(late, COUNT, 0.2, f"{host}: overtaken")
        check_equal(ask(server, host, neighbour, 60), plain(60), f"{host}: the neighbour's, in order")
    load({"reorder": "10%"}, match={"protocol": "tcp", "direction": "response"})
    for host, server in places():
        victim.connect(host, PORT)
        server.accept(host)
        check_equal(exchange(host, server, 400_000), [0, 0], f"{host}: a stream is whole all the same")
    check(chaos.status()["it"]["injected"] > 0, "packets of streams that were held back")


def exchange(host, server, size):
    """One message each way: how many bytes differ in what the server and what the client heard."""
    victim.say(host, pattern(3, size).decode())
    there = server.hear(host, size)
    server.say(host, pattern(4, size).decode())
    back = victim.hear(host, size)
    return [sum(a != b for a, b in zip(pattern(i, size).decode(), heard)) for i, heard in ((3, there), (4, back))]


@alone
def corruption_of_streams():
    """Both directions, one, the other; large segments as well. The victim is the client."""
    for direction, expected in (("both", (1, 1)), ("request", (1, 0)), ("response", (0, 1))):
        load({"corrupt": True}, match={"protocol": "tcp", "direction": direction})
        hits = 0
        for host, server in places():
            victim.connect(host, PORT)
            server.accept(host)
            for size in (1, 100, 1001):
                check_equal(exchange(host, server, size), list(expected), f"{host}, {direction}: bytes damaged of {size}")
                hits += sum(expected)
            differ = exchange(host, server, 300_000)
            state = chaos.status()["it"]
            # What TCP sends again because of a slow machine is damaged as well, and thrown away.
            check(sum(differ) <= state["injected"] - hits, f"{host}, {direction}: {differ} bytes damaged of 300,000")
            hits = state["injected"]
            check([bool(n) for n in differ] == [bool(n) for n in expected], f"{host}, {direction}: {differ}")
        check_counters()


@alone
def reordering():
    """Of what is sent at once, what was held back comes last, and nothing is lost or doubled."""
    load({"reorder": {"percent": 20, "by": "300ms"}}, match={"protocol": "udp"})
    for host, server in places():
        got = send_udp(server, host, victim, 60)
        check_equal(sorted(got), sorted(plain(60)), f"{host}: all have come, once")
        order = [int(text.split()[0]) for text in got]
        late = sum(i < max(order[:at] or [0]) for at, i in enumerate(order))
        check_share(late, COUNT, 0.2, f"{host}: overtaken")
        check_equal(sorted(send_udp(server, host, neighbour, 60)), sorted(plain(60)), f"{host}: the neighbour's")
    load({"reorder": "10%"}, match={"protocol": "tcp"})
    for host, server in places():
        victim.connect(host, PORT)
        server.accept(host)
        check_equal(exchange(host, server, 400_000), [0, 0], f"{host}: a stream is whole all the same")
    check(chaos.status()["it"]["injected"] > 0, "packets of streams that were held back")


main(setup, lambda: scene and scene.close())
