"""The two ends of a connection, to be run in a Worker: a server, and a client that tells exactly what it met.

An outcome is the name of an errno (ECONNREFUSED), "timeout" (our own patience is over, the kernel said nothing),
"eof" (closed before the answer was whole), or None when all went well.
"""
import errno
import http.client
import os
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import nameserver  # noqa: E402
import serve  # noqa: E402

IP_RECVERR, IPV6_RECVERR = 11, 25
TCP_SYNCNT, TCP_USER_TIMEOUT = 7, 18


def outcome(error):
    """The word for an exception."""
    number = getattr(error, "errno", None)
    if number in errno.errorcode:
        return errno.errorcode[number]
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, serve.Gone):
        return "eof"
    return f"{type(error).__name__}: {error}"


def ms_since(start):
    return round((time.monotonic() - start) * 1000, 3)


def family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class Server(serve.Server):
    """serve.Server, driven from afar."""

    def __init__(self):
        super().__init__()
        self.stopping = threading.Event()

    def stats(self):
        return self.counts.take()

    def count(self, kind, key):
        return self.counts.take().get(kind, {}).get(str(key), 0)

    def wait_for(self, kind, key, count, seconds=15):
        """Waits until something was counted so often."""
        end = time.monotonic() + seconds
        while self.count(kind, key) < count:
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s for {kind} {key}: {self.count(kind, key)} of {count}")
            time.sleep(0.02)

    def heard(self, who):
        """Numbers of the datagrams of one client, in the order in which they came."""
        return [number for name, number in self.datagrams if name == who]

    def set_comm(self, name):
        serve.set_comm(name)

    def accept_here(self, index=0, kind="http"):
        """Starts accepting on a listener that was made by the parent (listen(..., accept=False))."""
        sock = self.sockets[index]
        self.start(self.accept, sock, sock.getsockname()[1], kind)

    def send_to_all(self, text):
        """Sends on every connection that is open, unasked. Outcomes."""
        with self.lock:
            open_now = list(self.connections)
        results = []
        for sock in open_now:
            try:
                sock.sendall(text.encode())
                results.append(None)
            except OSError as error:
                results.append(outcome(error))
        return results


class Client:
    """Connections by number; every method returns plain values."""

    def __init__(self):
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.open_sockets = {}
        self.streams = {}
        self.last = 0
        self.name = "client"

    def call_me(self, name):
        self.name = name

    def set_comm(self, name):
        serve.set_comm(name)

    def getpid(self):
        return os.getpid()

    def pin(self, cpu):
        os.sched_setaffinity(0, {cpu})

    def enter_cgroup(self, name):
        import place

        place.enter_cgroup(name)

    def keep(self, sock):
        with self.lock:
            self.last += 1
            self.open_sockets[self.last] = sock
            self.streams[self.last] = serve.Stream(sock)
            return self.last

    def close(self, number):
        with self.lock:
            self.streams.pop(number, None)
            self.open_sockets.pop(number).close()

    def abort(self, number):
        """Closes with a reset, as a process does that has not read everything."""
        self.open_sockets[number].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close(number)

    def close_all(self):
        for number in list(self.open_sockets):
            self.close(number)

    # ---- TCP

    def new_socket(self, host, bind=None, user_timeout=0, syn_count=0, keepalive=0):
        sock = socket.socket(family_of(host), socket.SOCK_STREAM)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if user_timeout:
            sock.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout)
        if syn_count:
            sock.setsockopt(socket.IPPROTO_TCP, TCP_SYNCNT, syn_count)
        if keepalive:  # seconds; two probes, a second apart
            for option, value in ((socket.TCP_KEEPIDLE, keepalive), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2)):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if bind:
            sock.bind((bind, 0))
        return sock

    def open(self, host, port, timeout=20, blocking=False, tls=None, server_name=None, **options):
        """Connects. {"id", "error", "ms", "connect_error"}: the last is what connect() itself said when not blocking.

        blocking=True waits in connect() as long as the kernel does, else `timeout` seconds. tls: "1.2" or "1.3", with
        server_name in the ClientHello.
        """
        sock = self.new_socket(host, **options)
        start = time.monotonic()
        said = None
        try:
            if blocking:
                sock.connect((host, port))
            else:
                sock.setblocking(False)
                code = sock.connect_ex((host, port))
                said = errno.errorcode.get(code)
                sock.settimeout(timeout)
                if code == errno.EINPROGRESS:
                    self.finish_connect(sock, timeout)
                elif code:
                    raise OSError(code, "connect")
            sock.settimeout(timeout)
            if tls:
                sock = self.wrap(sock, tls, server_name)
        except OSError as error:
            sock.close()
            return {"error": outcome(error), "ms": ms_since(start), "connect_error": said}
        return {"id": self.keep(sock), "error": None, "ms": ms_since(start), "connect_error": said,
                "local": sock.getsockname()[:2]}

    @staticmethod
    def finish_connect(sock, timeout):
        import select

        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        if not poll.poll(timeout * 1000):
            raise TimeoutError()
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "connect")

    @classmethod
    def wrap(cls, sock, version, server_name=None):
        return cls.context(version).wrap_socket(sock, server_hostname=server_name)

    @staticmethod
    def context(version):
        """Of TLS, for servers whose certificate nobody knows."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = context.maximum_version = {
            "1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[version]
        return context

    def request(self, number, path="/bytes/10", body=0, timeout=20):
        """One request on an open connection: {"error", "status", "bytes", "first_ms", "ms"}."""
        stream = self.streams[number]
        sock = stream.sock
        sock.settimeout(timeout)
        method = "POST" if body else "GET"
        head = f"{method} {path} HTTP/1.1\r\nHost: model.test\r\nUser-Agent: {self.name}\r\nAccept: */*\r\n"
        if body:
            head += f"Content-Length: {body}\r\n"
        result = {"error": None, "status": 0, "bytes": 0}
        start = time.monotonic()
        try:
            sock.sendall(head.encode() + b"\r\n" + b"x" * body)
            result["sent_ms"] = ms_since(start)
            if not stream.buffer:
                stream.more()
            result["first_ms"] = ms_since(start)
            reply = stream.until(b"\r\n\r\n").decode("latin-1")
            result["status"] = int(reply.split(" ", 2)[1])
            length = int(reply.lower().partition("content-length:")[2].split("\r\n")[0])
            while result["bytes"] < length:
                if not stream.buffer:
                    stream.more()
                result["bytes"] += len(stream.buffer)
                stream.buffer = b""
        except (OSError, serve.Gone) as error:
            result["error"] = outcome(error)
        result["ms"] = ms_since(start)
        return result

    def requests_together(self, numbers, path="/bytes/10", timeout=20):
        """One request on each of these connections, all begun before any is answered; results in that order."""
        threads, results = [], {}
        for number in numbers:
            threads.append(threading.Thread(
                target=lambda n=number: results.update({n: self.request(n, path, timeout=timeout)})))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return [results[number] for number in numbers]

    def get(self, host, port, path="/bytes/10", **options):
        """Connect, one request, close. "where" tells what failed; otherwise as request()."""
        opened = self.open(host, port, **options)
        if opened["error"]:
            return dict(opened, where="connect")
        result = self.request(opened["id"], path, timeout=options.get("timeout", 20))
        result.update(where="request", connect_ms=opened["ms"])
        self.close(opened["id"])
        return result

    def ping(self, number, text="PING\r\n", timeout=20):
        """A few bytes to a raw echo server and back."""
        sock = self.open_sockets[number]
        sock.settimeout(timeout)
        start = time.monotonic()
        error = None
        try:
            sock.sendall(text.encode())
            got = 0
            while got < len(text):
                data = sock.recv(65536)
                if not data:
                    raise serve.Gone()
                got += len(data)
        except (OSError, serve.Gone) as problem:
            error = outcome(problem)
        return {"error": error, "ms": ms_since(start)}

    def send_pieces(self, number, pieces, timeout=20):
        """Bytes, as hexadecimal digits, in a segment for each piece, to a raw echo server and back. The outcome."""
        sock = self.open_sockets[number]
        sock.settimeout(timeout)
        try:
            for piece in pieces:
                data = bytes.fromhex(piece)
                sock.sendall(data)
                while data:  # what came back was in a segment of its own
                    got = sock.recv(len(data))
                    if not got:
                        raise serve.Gone()
                    data = data[len(got):]
        except (OSError, serve.Gone) as error:
            return outcome(error)
        return None

    def send(self, number, text, timeout=20):
        sock = self.open_sockets[number]
        sock.settimeout(timeout)
        try:
            sock.sendall(text.encode())
        except OSError as error:
            return outcome(error)
        return None

    def drain(self, number, text, timeout=20, pieces=()):
        """Sends, and takes what comes until that ends: {"error", "bytes", "ms"}. `pieces` follow one by one."""
        sock = self.open_sockets[number]
        sock.settimeout(timeout)
        start = time.monotonic()
        got = 0
        try:
            sock.sendall(text.encode())
            for piece in pieces:
                time.sleep(0.03)
                sock.sendall(piece.encode())
            while True:
                data = sock.recv(1 << 18)
                if not data:
                    raise serve.Gone()
                got += len(data)
        except (OSError, serve.Gone) as problem:
            return {"error": outcome(problem), "bytes": got, "ms": ms_since(start)}

    def exchange(self, number, pieces, method="GET", timeout=20):
        """One request in so many segments, and its answer as Python's own parser takes it:
        {"error", "status", "headers", "body", "closes", "ms"}."""
        sock = self.open_sockets[number]
        sock.settimeout(timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start = time.monotonic()
        try:
            for i, piece in enumerate(pieces):
                if i:
                    time.sleep(0.02)
                sock.sendall(piece.encode())
            answer = http.client.HTTPResponse(sock, method=method)
            answer.begin()
            body = answer.read().decode("latin-1")
            return {"error": None, "status": answer.status, "headers": {k.lower(): v for k, v in answer.getheaders()},
                    "body": body, "closes": answer.will_close, "ms": ms_since(start)}
        except http.client.HTTPException as error:
            return {"error": type(error).__name__, "ms": ms_since(start)}
        except OSError as error:
            return {"error": outcome(error), "ms": ms_since(start)}

    def exchange_many(self, host, port, paths, tls=None):
        """One request after the other on one connection: its own port, and what each met: a status and a length, or an error."""
        sock = self.new_socket(host)
        sock.settimeout(60)
        sock.connect((host, port))
        if tls:
            sock = self.wrap(sock, tls)
        met = []
        try:
            for path in paths:
                sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: {self.name}\r\n\r\n".encode())
                answer = http.client.HTTPResponse(sock)
                answer.begin()
                met.append((answer.status, len(answer.read())))
        except (OSError, http.client.HTTPException) as problem:
            met.append(outcome(problem) if isinstance(problem, OSError) else type(problem).__name__)
        ours = sock.getsockname()[1]
        sock.close()
        return ours, met

    def exchange_at_once(self, host, port, many, tls):
        """As exchange_many() for each list of paths of `many`, all at once in one event loop, which encrypts in memory and
        writes to sockets by itself."""
        import asyncio

        async def one(paths):
            reader, writer = await asyncio.open_connection(host, port, ssl=self.context(tls))
            met = []
            try:
                for path in paths:
                    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: {self.name}\r\n\r\n".encode())
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                    length = int(head.lower().partition("content-length:")[2].split("\r\n")[0])
                    met.append((int(head.split(" ", 2)[1]), len(await reader.readexactly(length))))
            except (OSError, asyncio.IncompleteReadError) as problem:
                met.append(type(problem).__name__)
            ours = writer.get_extra_info("sockname")[1]
            writer.transport.abort()
            return ours, met

        async def everything():
            return await asyncio.wait_for(asyncio.gather(*[one(paths) for paths in many]), 120)
        return asyncio.run(everything())

    def listen_to(self, number, path, end="[DONE]", mark="data: ", timeout=60):
        """Asks for a stream: when each mark came, in ms after the request was sent, until `end` is read: {"error", "times"}."""
        sock = self.open_sockets[number]
        sock.settimeout(timeout)
        times, text, start = [], "", time.monotonic()
        try:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: model.test\r\nUser-Agent: {self.name}\r\n\r\n".encode())
            while end not in text:
                more = sock.recv(1 << 18)
                if not more:
                    raise serve.Gone()
                text += more.decode("latin-1")
                times += [ms_since(start)] * (text.count(mark) - len(times))
        except (OSError, serve.Gone) as problem:
            return {"error": outcome(problem), "times": times}
        return {"error": None, "times": times}

    def receive(self, number, timeout=20):
        """What comes next: {"error", "bytes", "ms"}."""
        sock = self.open_sockets[number]
        sock.settimeout(timeout)
        start = time.monotonic()
        try:
            data = sock.recv(65536)
            return {"error": None if data else "eof", "bytes": len(data), "ms": ms_since(start)}
        except OSError as error:
            return {"error": outcome(error), "bytes": 0, "ms": ms_since(start)}

    def connects(self, host, port, count, timeout=20, pause=0):
        """`count` connects one after the other; the list of outcomes."""
        results = []
        for _ in range(count):
            sock = self.new_socket(host)
            sock.settimeout(timeout)
            try:
                sock.connect((host, port))
                results.append(None)
            except OSError as error:
                results.append(outcome(error))
            sock.close()
            if pause:
                time.sleep(pause)
        return results

    def hammer(self, host, port, what="connect", pause=0, timeout=20, path="/bytes/10"):
        """Until told to stop: connects, or whole requests. Outcomes in order as [[outcome, times, longest ms], ...]."""
        runs = []
        while not self.stopping.is_set():
            start = time.monotonic()
            if what == "connect":
                result = self.connects(host, port, 1, timeout)[0]
            elif what == "request":
                result = self.get(host, port, path, timeout=timeout)["error"]
            else:  # the number of an open connection
                result = self.request(what, path, timeout=timeout)["error"]
            took = ms_since(start)
            if runs and runs[-1][0] == result:
                runs[-1][1] += 1
                runs[-1][2] = max(runs[-1][2], took)
                runs[-1][3] = min(runs[-1][3], took)
            else:
                runs.append([result, 1, took, took])
            if result and not isinstance(what, str):
                break
            if pause:
                time.sleep(pause)
        return runs

    def requests(self, number, count, path="/bytes/10", timeout=20):
        """Many requests on one connection: their times in ms, or the outcome of the one that failed."""
        times = []
        for _ in range(count):
            result = self.request(number, path, timeout=timeout)
            times.append(result["error"] or result["ms"])
            if result["error"]:
                break
        return times

    # ---- names

    def ask_name(self, server, name, kind="A", tcp=False, timeout=5, connected=True, length_alone=False):
        """One question to the name server: read_reply(), or {"error"}. glibc connects its sockets for UDP, musl does not."""
        message = nameserver.question(name, kind)
        sock = socket.socket(family_of(server), socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
        sock.settimeout(timeout)
        try:
            if connected or tcp:
                sock.connect((server, 53))
                if length_alone:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.sendall(nameserver.framed(message)[:2])
                    time.sleep(0.02)
                sock.sendall(nameserver.framed(message) if tcp and not length_alone else message)
                reply = nameserver.read_framed(sock) if tcp else sock.recv(4096)
            else:
                sock.sendto(message, (server, 53))
                reply, where = sock.recvfrom(4096)
                if where[:2] != (server, 53):
                    return {"error": f"an answer from {where}"}
            return {"error": None, **nameserver.read_reply(reply)}
        except (OSError, EOFError) as error:
            return {"error": outcome(error)}
        finally:
            sock.close()

    def resolve(self, name):
        """The addresses by getaddrinfo(), or the name of its error."""
        try:
            return [found[4][0] for found in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)]
        except socket.gaierror as error:
            names = {number: word for word, number in vars(socket).items() if word.startswith("EAI_")}
            return names.get(error.errno, str(error))

    # ---- UDP

    def udp_open(self, host, port=0, connect=True, receive_errors=False):
        """A UDP socket; with connect=False `port` is ignored. {"id", "error"}"""
        sock = socket.socket(family_of(host), socket.SOCK_DGRAM)
        if receive_errors:
            if family_of(host) == socket.AF_INET:
                sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
            else:
                sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        try:
            if connect:
                sock.connect((host, port))
        except OSError as error:
            sock.close()
            return {"error": outcome(error)}
        return {"id": self.keep(sock), "error": None}

    def udp_ask(self, number, text, to=None, timeout=2):
        """Sends one datagram and waits for it to come back: {"error", "ms", "sent"}."""
        sock = self.open_sockets[number]
        sock.settimeout(timeout)
        start = time.monotonic()
        sent = False
        try:
            if to:
                sock.sendto(text.encode(), tuple(to))
            else:
                sock.send(text.encode())
            sent = True
            while sock.recv(65536).decode() != text:
                pass  # an answer to an earlier one
            error = None
        except OSError as problem:
            error = outcome(problem)
        return {"error": error, "ms": ms_since(start), "sent": sent}

    def udp_many(self, number, count, to=None, first=0, pause_every=50):
        """Sends "name number quiet" `count` times; outcomes other than None, by count."""
        sock = self.open_sockets[number]
        sock.settimeout(5)
        problems = {}
        for i in range(first, first + count):
            text = f"{self.name} {i} quiet".encode()
            try:
                if to:
                    sock.sendto(text, tuple(to))
                else:
                    sock.send(text)
            except OSError as error:
                name = outcome(error)
                problems[name] = problems.get(name, 0) + 1
            if pause_every and i % pause_every == pause_every - 1:
                time.sleep(0.002)  # let the server read
        return problems

    def udp_hammer(self, number, pause=0.001):
        """Datagrams until told to stop: how many, and the problems."""
        sent = 0
        problems = {}
        while not self.stopping.is_set():
            for name, n in self.udp_many(number, 1, first=sent, pause_every=0).items():
                problems[name] = problems.get(name, 0) + n
            sent += 1
            time.sleep(pause)
        return {"sent": sent, "problems": problems}

    def error_queue(self, number):
        """Names of the errors that wait in the socket's error queue (IP_RECVERR)."""
        names = []
        while True:
            try:
                _, control, _, _ = self.open_sockets[number].recvmsg(2000, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            except OSError:
                return names
            for _, _, data in control:
                if len(data) >= 4:
                    names.append(errno.errorcode.get(struct.unpack_from("I", data)[0], "?"))
