#!/usr/bin/python3
"""A small RAG service that experiments are run on, with a fallback that works or one of the classic mistakes.

    rag.py dependencies            a vector database on 6333, a model on 9000 that streams its answer
    rag.py service VARIANT         asks both for each GET /ask on 8080; GET /health asks nobody

The variants, each with one mistake:

    good              a second for the database, a breaker that opens after two failures, keyword search behind it; a
                      stream without its end is asked for again, then answered from what was found
    wrong-exception   expects ConnectionRefusedError alone: silence is a TimeoutError
    long-timeout      waits 60 s for the database, longer than anybody waits for the service
    retries           asks three times, 3 s each, for every question
    cut-stream        takes what came of a stream as the whole answer
    lazy-breaker      a breaker that needs 20 failures, 8 s each

A whole answer ends with "END".
"""
import socket
import sys
import threading
import time

VECTORS, MODEL, SERVICE = 6333, 9000, 8080


class Cut(Exception):
    """A stream without its end."""


# ---- HTTP, as little of it as it takes

def read_head(peer):
    data = b""
    while b"\r\n\r\n" not in data:
        got = peer.recv(4096)
        if not got:
            raise ConnectionError("closed without a request")
        data += got
    return data.partition(b"\r\n\r\n")


def respond(peer, status, body):
    body = body.encode()
    peer.sendall(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body)


def get(port, timeout):
    """The whole body, or as much as came before the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout) as peer:
        peer.settimeout(timeout)
        peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        _, _, body = read_head(peer)
        while True:
            try:
                got = peer.recv(4096)
            except ConnectionResetError:
                break
            if not got:
                break
            body += got
    return body.decode()


def serve(port, answer):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(256)

    def one(peer):
        with peer:
            try:
                head, _, _ = read_head(peer)
                answer(peer, head.split(b" ")[1].decode())
            except OSError:
                pass

    while True:
        peer, _ = listener.accept()
        threading.Thread(target=one, args=(peer,), daemon=True).start()


# ---- what it depends on

def stream(peer, _path):
    peer.sendall(b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\n")
    for word in range(4):
        peer.sendall(b"data: word%d %s\n\n" % (word, b"x" * 1000))
    peer.sendall(b"data: [DONE]\n\n")


def dependencies():
    threading.Thread(target=serve, args=(VECTORS, lambda peer, path: respond(peer, 200, "three documents")),
                     daemon=True).start()
    serve(MODEL, stream)


# ---- the service

class Breaker:
    def __init__(self, failures):
        self.limit, self.failures, self.again = failures, 0, 0

    def allows(self):
        return self.failures < self.limit or time.monotonic() >= self.again

    def failed(self):
        self.failures += 1
        self.again = time.monotonic() + 10

    def worked(self):
        self.failures = 0


class Service:
    def __init__(self, variant):
        self.variant = variant
        self.breaker = Breaker(20 if variant == "lazy-breaker" else 2)
        self.timeout = {"long-timeout": 60, "retries": 3, "lazy-breaker": 8}.get(variant, 1)

    def documents(self):
        if self.variant == "retries":
            for _ in range(3):
                try:
                    return get(VECTORS, self.timeout)
                except OSError:
                    pass
            return "keywords"
        if self.variant == "wrong-exception":
            try:
                return get(VECTORS, self.timeout)
            except ConnectionRefusedError:
                return "keywords"
        if not self.breaker.allows():
            return "keywords"
        try:
            found = get(VECTORS, self.timeout)
            self.breaker.worked()
            return found
        except OSError:
            self.breaker.failed()
            return "keywords"

    def words(self):
        body = get(MODEL, 10)
        if self.variant != "cut-stream" and "[DONE]" not in body:
            raise Cut
        return body.replace("[DONE]", "END")

    def ask(self):
        found = self.documents()
        for _ in range(2):
            try:
                return f"answer from {found}: {self.words()}"
            except (Cut, OSError):
                pass
        return f"answer from {found} alone END"

    def answer(self, peer, path):
        if path.startswith("/health"):
            respond(peer, 200, "ok")
            return
        try:
            respond(peer, 200, self.ask())
        except Exception as error:  # pylint: disable=broad-except # as frameworks do
            respond(peer, 500, type(error).__name__)


if __name__ == "__main__":
    if sys.argv[1] == "dependencies":
        dependencies()
    serve(SERVICE, Service(sys.argv[2]).answer)
