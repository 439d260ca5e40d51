#!/usr/bin/env python3
"""A small model-like server to break: HTTP with kept-alive connections, TLS, raw echo, UDP, all counted.

    serve.py [--host HOST] [--http PORT] [--tls PORT] [--udp PORT] [--echo PORT] [--comm NAME]

    GET  /bytes/N                  N bytes
    GET  /stream?tokens=N&ms=M     N tokens as server-sent events, M milliseconds apart
    POST /echo                     the body again
    GET  /stats                    what was seen so far, as JSON

HOST may be given several times and be IPv4 or IPv6 ('::' takes both). The User-Agent of a request is whom it is counted
for. The certificate is self-made by openssl, in a folder of its own that goes with the server.
"""
import argparse
import collections
import ctypes
import errno
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

SO_RCVBUFFORCE = 33
HEAD_LIMIT = 65536
BLOCK = b"0123456789abcdef" * 4096


def error_name(error):
    """ECONNRESET and its like; the words of the exception when it has no number."""
    return errno.errorcode.get(getattr(error, "errno", None), str(error) or type(error).__name__)


def set_comm(name):
    ctypes.CDLL(None).prctl(15, name.encode()[:15], 0, 0, 0)  # PR_SET_NAME


def make_certificate(folder):
    """A key and a certificate of its own that nobody trusts; their paths."""
    key, certificate = folder + "/key.pem", folder + "/cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost"],
        check=True, capture_output=True)
    return key, certificate


class Counts:
    """Counters by kind and key, safe from any thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.by_kind = collections.defaultdict(collections.Counter)

    def add(self, kind, key, n=1):
        with self.lock:
            self.by_kind[kind][str(key)] += n

    def take(self):
        with self.lock:
            return {kind: dict(counter) for kind, counter in self.by_kind.items()}


class Gone(Exception):
    """The client closed the connection."""


class Stream:
    """Buffered reading from one connection."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b""

    def more(self):
        data = self.sock.recv(1 << 18)
        if not data:
            raise Gone()
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            if len(self.buffer) > HEAD_LIMIT:
                raise Gone()
            self.more()
        head, self.buffer = self.buffer.split(mark, 1)
        return head

    def exactly(self, n):
        while len(self.buffer) < n:
            self.more()
        body, self.buffer = self.buffer[:n], self.buffer[n:]
        return body

    def chunks(self):
        body = b""
        while size := int(self.until(b"\r\n"), 16):
            body += self.exactly(size)
            self.until(b"\r\n")
        self.until(b"\r\n")
        return body


def parse_head(head):
    """Method, path, query and headers of a request."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    path, _, query = target.partition("?")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return method, path, dict(pair.partition("=")[::2] for pair in query.split("&") if pair), headers


class Server:
    """Listens on any number of addresses; one thread for each listener and each connection."""

    def __init__(self):
        self.counts = Counts()
        self.sockets = []
        self.lock = threading.Lock()
        self.connections = set()
        self.datagrams = []  # (who, number) of every datagram that came
        self.context = None
        self.folder = None

    # ---- listening

    @staticmethod
    def make_room(sock):
        """For thousands of datagrams that wait: what the receiver loses nobody counts. Only root gets above rmem_max."""
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)

    def listen(self, host, port, kind="http", backlog=512, accept=True):
        """`kind`: http, tls, echo, greet (echo after a greeting), hangup (closes what it accepts) or udp. The port."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        sock.bind((host, port))
        self.sockets.append(sock)
        port = sock.getsockname()[1]
        if kind == "tls" and not self.context:
            self.context = self.make_context()
        if kind == "udp":
            self.make_room(sock)
            self.start(self.serve_udp, sock, port)
        else:
            sock.listen(backlog)
            if accept:
                self.start(self.accept, sock, port, kind)
        return port

    @staticmethod
    def start(target, *args):
        threading.Thread(target=target, args=args, daemon=True).start()

    def make_context(self):
        import ssl

        self.folder = tempfile.mkdtemp(prefix="serve.")
        key, certificate = make_certificate(self.folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    def close(self):
        for sock in self.sockets:
            sock.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- connections

    def accept(self, listener, port, kind):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self.counts.add("connections", port)
            if kind == "hangup":
                sock.close()
            else:
                self.start(self.serve, sock, port, kind)

    def serve(self, sock, port, kind):
        with self.lock:
            self.connections.add(sock)
        raw = sock
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if kind == "tls":
                sock = self.context.wrap_socket(sock, server_side=True)
            stream = Stream(sock)
            if kind == "greet":
                sock.sendall(b"220 hello\r\n")
            while True:
                if kind in ("echo", "greet"):
                    stream.more()
                    self.counts.add("echoed", "bytes", len(stream.buffer))
                    sock.sendall(stream.buffer)
                    stream.buffer = b""
                else:
                    self.answer(stream)
        except Gone:
            self.counts.add("closed", "eof")
        except (OSError, ValueError) as error:
            self.counts.add("errors", error_name(error))
            if isinstance(error, ConnectionResetError):
                self.counts.add("resets", port)
        finally:
            with self.lock:
                self.connections.discard(raw)
            sock.close()

    def answer(self, stream):
        method, path, query, headers = parse_head(stream.until(b"\r\n\r\n"))
        if headers.get("expect", "").lower() == "100-continue":
            stream.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        body = stream.chunks() if chunked else stream.exactly(int(headers.get("content-length", 0)))
        if path == "/stats":
            self.reply(stream.sock, json.dumps(self.counts.take()).encode(), kind="application/json")
            return
        self.counts.add("requests", headers.get("user-agent", "-"))
        self.counts.add("bytes", headers.get("user-agent", "-"), len(body))
        if path.startswith("/bytes/"):
            time.sleep(int(query.get("wait", 0)) / 1000)
            self.reply_bytes(stream.sock, int(path[len("/bytes/"):]))
        elif path == "/stream":
            self.reply_stream(stream.sock, int(query.get("tokens", 10)), int(query.get("ms", 20)))
        elif path == "/echo" and method == "POST":
            self.reply(stream.sock, body)
        else:
            self.reply(stream.sock, b"no such thing\n", status="404 Not Found")
        if headers.get("connection", "").lower() == "close":
            raise Gone()

    @staticmethod
    def reply(sock, body, status="200 OK", kind="application/octet-stream"):
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)

    def reply_bytes(self, sock, n):
        if n <= len(BLOCK):
            self.reply(sock, BLOCK[:n])
            return
        sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {n}\r\n\r\n".encode())
        while n > 0:
            sock.sendall(BLOCK[:n])
            n -= len(BLOCK)

    def reply_stream(self, sock, tokens, ms):
        """Chunks, as a model endpoint streams them."""
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(tokens):
            if i:
                time.sleep(ms / 1000)
            self.chunk(sock, "data: " + json.dumps({"choices": [{"delta": {"content": f"word{i} "}}]}) + "\n\n")
        self.chunk(sock, "data: [DONE]\n\n")
        sock.sendall(b"0\r\n\r\n")

    @staticmethod
    def chunk(sock, text):
        sock.sendall(b"%x\r\n%s\r\n" % (len(text), text.encode()))

    # ---- datagrams

    def serve_udp(self, sock, port):
        """Sends every datagram back. One that reads 'who number ...' is also listed in self.datagrams."""
        while True:
            try:
                data, peer = sock.recvfrom(65536)
            except OSError:
                return
            self.counts.add("datagrams", port)
            words = data[:80].split()
            if len(words) >= 2 and words[1].isdigit():
                self.datagrams.append((words[0].decode(), int(words[1])))
            try:
                if not data.endswith(b" quiet"):
                    sock.sendto(data, peer)
            except OSError as error:
                self.counts.add("errors", error_name(error))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="append", default=[], help="address to listen on (127.0.0.1)")
    for kind in ("http", "tls", "udp", "echo"):
        parser.add_argument("--" + kind, action="append", type=int, default=[], metavar="PORT")
    parser.add_argument("--comm", help="name that `ps` and rules see")
    options = parser.parse_args()
    if options.comm:
        set_comm(options.comm)
    server = Server()
    ports = [(kind, port) for kind in ("http", "tls", "udp", "echo") for port in getattr(options, kind)]
    for host in options.host or ["127.0.0.1"]:
        for kind, port in ports or [("http", 8000)]:
            print(f"{kind} on {host} port {server.listen(host, port, kind)}", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print(json.dumps(server.counts.take()))
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
