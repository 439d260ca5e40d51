"""A name server to run in a Worker, and the questions that a client asks it: just enough of DNS (RFC 1035)."""
import ipaddress
import os
import socket
import struct
import threading
import time

A, CNAME, AAAA, TXT = 1, 5, 28, 16
TYPES = {"A": A, "AAAA": AAAA}
RESPONSE, RECURSION = 0x8000, 0x0180
NXDOMAIN = 3


def labels(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def read_name(message, at):
    """The dotted name at `at`, and what follows it."""
    parts, end = [], None
    while message[at]:
        if message[at] >= 0xc0:
            end = end or at + 2
            at = struct.unpack_from("!H", message, at)[0] & 0x3fff
            continue
        parts.append(message[at + 1:at + 1 + message[at]].decode())
        at += 1 + message[at]
    return ".".join(parts), end or at + 1


def question(name, kind, number=None):
    number = int.from_bytes(os.urandom(2), "big") if number is None else number
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels(name) + struct.pack("!HH", TYPES[kind], 1)


def read_reply(message):
    """{"rcode", "addresses", "counts"}"""
    _, flags, questions, answers, *others = struct.unpack_from("!6H", message)
    at, addresses = 12, []
    for _ in range(questions):
        _, at = read_name(message, at)
        at += 4
    for _ in range(answers):
        _, at = read_name(message, at)
        kind, _, _, length = struct.unpack_from("!HHIH", message, at)
        data = message[at + 10:at + 10 + length]
        if kind in (A, AAAA):
            addresses.append(str(ipaddress.ip_address(data)))
        at += 10 + length
    return {"rcode": flags & 15, "addresses": addresses, "counts": [questions, answers, *others]}


def exactly(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def framed(message):
    return struct.pack("!H", len(message)) + message


def read_framed(sock):
    return exactly(sock, struct.unpack("!H", exactly(sock, 2))[0])


class NameServer:
    """Over UDP and TCP; names that it does not know do not exist."""

    def __init__(self):
        self.stopping = threading.Event()
        self.names = {}
        self.asked = []
        self.alone = set()

    def tell(self, name, addresses, chain=(), ttl=30, compress=True, length_alone=False):
        """`chain`: the CNAMEs between the name and its addresses. `length_alone`: over TCP, in a segment of its own."""
        self.names[name] = addresses, chain, ttl, compress
        if length_alone:
            self.alone.add(name)

    def take_asked(self):
        asked, self.asked = self.asked, []
        return asked

    def listen(self, host, port=53):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        udp = socket.socket(family, socket.SOCK_DGRAM)
        udp.bind((host, port))
        tcp = socket.create_server((host, port), family=family)
        for run, sock in ((self.serve_udp, udp), (self.serve_tcp, tcp)):
            threading.Thread(target=run, args=(sock,), daemon=True).start()

    def serve_udp(self, sock):
        while True:
            message, who = sock.recvfrom(4096)
            sock.sendto(self.answer(message), who)

    def serve_tcp(self, listener):
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=self.serve_one, args=(sock,), daemon=True).start()

    def serve_one(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                question = read_framed(sock)
                answer = framed(self.answer(question))
                first = 2 if read_name(question, 12)[0].lower() in self.alone else len(answer)
                sock.sendall(answer[:first])
                time.sleep(0.02 if answer[first:] else 0)
                sock.sendall(answer[first:])
        except (EOFError, OSError):
            sock.close()

    def answer(self, message):
        number, = struct.unpack_from("!H", message)
        name, at = read_name(message, 12)
        kind, = struct.unpack_from("!H", message, at)
        self.asked.append(name)
        asked = message[12:at + 4]
        if name.lower() not in self.names:
            return struct.pack("!6H", number, RESPONSE | RECURSION | NXDOMAIN, 1, 0, 0, 0) + asked
        addresses, chain, ttl, compress = self.names[name.lower()]
        records, owner = [], b"\xc0\x0c" if compress else labels(name)
        for step in chain:
            data = labels(step)
            records.append(owner + struct.pack("!HHIH", CNAME, 1, ttl, len(data)) + data)
            owner = data
        for address in addresses:
            packed = ipaddress.ip_address(address).packed
            if {4: A, 16: AAAA}[len(packed)] == kind:
                records.append(owner + struct.pack("!HHIH", kind, 1, ttl, len(packed)) + packed)
        head = struct.pack("!6H", number, RESPONSE | RECURSION, 1, len(records), 0, 0)
        return head + asked + b"".join(records)
