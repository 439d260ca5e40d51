#!/usr/bin/python3
"""A small RAG service that experiments are run on, with fallbacks that work or with one of the classic mistakes.

    rag.py dependencies        stand-ins: a vector database on 6333, a model on 9000, a cache on 6379
    rag.py service MISTAKE     on 8080, with those that PLACES names
    rag.py flush               empties the cache

GET or POST /ask looks for documents in the vector database and has the model write from them; a whole answer ends with
"END". GET /popular is the same for everybody: it comes from the cache, and from a large query to the database when it is not
there. GET /health asks nobody. Eight workers serve /ask.

    good              a second for the database, a breaker that opens after two failures, keyword search behind it; an error
                      of the model, and an answer that is empty, no answer or without its end, is asked for again as far as
                      there is a budget for that, a 429 never; then it answers from what was found; questions that are too
                      long are refused at the door; one query fills the cache, however many wait for it
    wrong-exception   expects ConnectionRefusedError alone: silence is a TimeoutError
    lazy-breaker      a breaker that needs 20 failures, 6 s each
    long-timeout      waits 60 s for the database, when the breaker that would help and whoever asks have long given up
    retries           asks three times, 2 s each, for every question
    slow-fallback     a keyword search that does one question after the other: good for one user, not for all
    cut-stream        takes what came of a stream as the whole answer
    half-answer       sees a connection that breaks, and no stream that ends properly and too early
    no-second-try     gives the model's error to whoever asks
    retry-storm       asks ten times, at once, whatever the model says
    waits-for-quota   takes an empty account for a rate limit, and waits for it to pass
    garbage-in        gives whatever came with status 200
    blank-page        takes an answer without a word for one
    long-prompt       reads a question of any length with one of its eight workers
    flush-storm       whoever does not find it in the cache asks the database

and model-or-nothing, which has no fallback for the model.
"""
import collections
import contextlib
import http.client
import json
import os
import socket
import sys
import threading
import time

SERVICE = 8080
# Where they are and what they are asked; real servers have other ports and want other requests.
PLACES = {"vectors": [6333, "/query", {}], "model": [9000, "/v1/chat/completions", {"stream": True}], "cache": [6379],
          **json.loads(os.environ.get("RAG_PLACES", "{}"))}
# Answers as JSON, with `complete` for a whole one, and an honest 503: what the drills of rules/experiments expect.
JSON = "RAG_JSON" in os.environ
WORDS = int(os.environ.get("RAG_WORDS", "4"))  # of the stand-in of a model
SLOW = float(os.environ.get("RAG_SLOW", "1"))  # times as patient
MISTAKES = ("wrong-exception", "lazy-breaker", "long-timeout", "retries", "slow-fallback", "cut-stream", "half-answer",
            "no-second-try", "retry-storm", "waits-for-quota", "garbage-in", "blank-page", "long-prompt", "flush-storm")
WORKERS = 8
LONGEST = 20000  # characters of a question; reading so many takes a second
KEY = "popular"


class Cut(Exception):
    """A stream without its end, or no answer at all."""


class Denied(Exception):
    """A status other than 200."""


Answer = collections.namedtuple("Answer", "status text whole")


# ---- HTTP, as little of it as it takes

def read_head(peer):
    """Head and beginning of the body."""
    data = b""
    while b"\r\n\r\n" not in data:
        got = peer.recv(4096)
        if not got:
            raise ConnectionError("closed without a request")
        data += got
    return data.partition(b"\r\n\r\n")[::2]


def read_request(peer):
    """Path and how long the body is, all of which has been read."""
    head, body = read_head(peer)
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    have = len(body)
    while have < length:
        got = peer.recv(65536)
        if not got:
            raise ConnectionError("closed in the middle of a request")
        have += len(got)
    return head.split(b" ")[1].decode(), length


def respond(peer, status, body):
    body = body.encode()
    peer.sendall(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body)


def post(name, timeout):
    """The answer, or as much of it as came before the end of the connection."""
    port, path, question = PLACES[name]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    text, whole = b"", True
    try:
        connection.request("POST", path, json.dumps(question), {"Content-Type": "application/json", "Connection": "close"})
        answer = connection.getresponse()
        with contextlib.suppress(ConnectionResetError, http.client.IncompleteRead):
            whole = False
            while got := answer.read1(4096):
                text += got
            whole = True
    except http.client.HTTPException as error:
        raise OSError(type(error).__name__) from error
    finally:
        connection.close()
    return Answer(answer.status, text.decode(errors="replace"), whole)


def fetch(name, timeout):
    """What it says; an OSError for any other status than 200."""
    answer = post(name, timeout)
    if answer.status != 200:
        raise OSError(answer.status)
    return answer.text


def events(text):
    """What the whole ones of an event stream hold."""
    return [line[5:].strip() for event in text.replace("\r", "").split("\n\n")[:-1] for line in event.split("\n")
            if line.startswith("data:")]


def gone(peer):
    """Has whoever asked left?"""
    try:
        return peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def serve(port, answer):
    """One thread for each connection."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(256)

    def one(peer):
        with contextlib.suppress(OSError), peer:
            answer(peer)

    while True:
        peer, _ = listener.accept()
        threading.Thread(target=one, args=(peer,), daemon=True).start()


# ---- a cache: what Redis says to GET, SET and FLUSHDB

def read_line(file):
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("closed")
    return line[1:-2]


def read_bulk(file):
    length = int(read_line(file))
    return None if length < 0 else file.read(length + 2)[:-2]


def cache(*words):
    """One command; what comes of GET, else None. A cache that is gone has nothing."""
    command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
    try:
        with socket.create_connection(("127.0.0.1", PLACES["cache"][0]), 1) as peer:
            peer.sendall(command)
            with peer.makefile("rb") as file:
                found = read_bulk(file) if words[0] == "GET" else read_line(file)
                return found.decode() if found and words[0] == "GET" else None
    except OSError:
        return None


def answer_cache(store):
    def answer(peer):
        with peer.makefile("rb") as file:
            while True:
                words = [read_bulk(file) for _ in range(int(read_line(file)))]
                if words[0] == b"GET":
                    found = store.get(words[1])
                    peer.sendall(b"$-1\r\n" if found is None else b"$%d\r\n%s\r\n" % (len(found), found))
                    continue
                if words[0] == b"SET":
                    store[words[1]] = words[2]
                else:
                    store.clear()
                peer.sendall(b"+OK\r\n")
    return answer


# ---- what else it depends on

class Database:
    """Answers a question at once; a large query takes a second of the whole machine, which all that are under way share."""

    def __init__(self):
        self.under_way, self.lock = 0, threading.Lock()

    def large(self, peer):
        with self.lock:
            self.under_way += 1
        done, last = 0, time.monotonic()
        while done < 1 and not gone(peer):
            time.sleep(0.05)
            now = time.monotonic()
            done, last = done + (now - last) / self.under_way, now
        with self.lock:
            self.under_way -= 1

    def answer(self, peer):
        path, _ = read_request(peer)
        if path.startswith("/large"):
            self.large(peer)
        respond(peer, 200, "three documents")


# As llama-server's: what is sent in its place has as much room as it takes.
STREAM_HEAD = (b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nAccess-Control-Allow-Origin: \r\nContent-Type: text/event-stream\r\n"
               b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")


def stream(peer):
    read_request(peer)
    peer.sendall(STREAM_HEAD)
    words = [json.dumps({"choices": [{"delta": {"content": f"word{word} {'x' * 1000} "}}]}) for word in range(WORDS)]
    for data in (*words, "[DONE]"):
        event = f"data: {data}\n\n".encode()
        peer.sendall(b"%x\r\n%s\r\n" % (len(event), event))
    peer.sendall(b"0\r\n\r\n")


def dependencies():
    for port, answer in ((PLACES["vectors"][0], Database().answer), (PLACES["cache"][0], answer_cache({}))):
        threading.Thread(target=serve, args=(port, answer), daemon=True).start()
    serve(PLACES["model"][0], stream)


# ---- the service

def told(answer):
    """What /ask says."""
    words = answer.rpartition(": ")[2]  # without what they were made from
    whole = {"complete": True} if words.endswith("END") else {}
    return json.dumps({"answer": words, **whole}) if JSON else answer


def failed(error):
    """Status and body for what went wrong."""
    return (503, json.dumps({"error": "no answer"})) if JSON else (500, type(error).__name__)


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


class Budget:
    """Of second tries: five, and one more for every five questions."""

    def __init__(self):
        self.left, self.lock = 5, threading.Lock()

    def earn(self):
        with self.lock:
            self.left = min(5, self.left + 0.2)

    def spend(self):
        with self.lock:
            enough = self.left >= 1
            self.left -= enough
            return enough


class Service:
    def __init__(self, mistake):
        self.mistake = mistake
        self.breaker = Breaker(20 if mistake == "lazy-breaker" else 2)
        self.timeout = SLOW * {"long-timeout": 60, "retries": 2, "lazy-breaker": 6}.get(mistake, 1)
        self.workers = threading.Semaphore(WORKERS)
        self.budget = Budget()
        self.index = threading.Lock()
        self.filling = threading.Lock()

    # -- documents

    def keywords(self):
        if self.mistake == "slow-fallback":
            with self.index:
                time.sleep(0.5)
        return "keywords"

    def documents(self):
        if self.mistake == "retries":
            for _ in range(3):
                with contextlib.suppress(OSError):
                    return fetch("vectors", self.timeout)
            return self.keywords()
        if self.mistake == "wrong-exception":
            try:
                return fetch("vectors", self.timeout)
            except ConnectionRefusedError:
                return self.keywords()
        if not self.breaker.allows():
            return self.keywords()
        try:
            found = fetch("vectors", self.timeout)
            self.breaker.worked()
            return found
        except OSError:
            self.breaker.failed()
            return self.keywords()

    # -- answers

    def words(self):
        answer = post("model", 30 * SLOW)
        if answer.status != 200:
            raise Denied(answer.status)
        told = events(answer.text)
        if not answer.text and self.mistake == "blank-page" or not told and self.mistake == "garbage-in":
            return answer.text
        if not answer.whole and self.mistake != "cut-stream" or not told:
            raise Cut
        if "[DONE]" not in told and self.mistake not in ("cut-stream", "half-answer"):
            raise Cut
        parts = [json.loads(one)["choices"] for one in told if one != "[DONE]"]
        words = "".join(part[0]["delta"].get("content") or "" for part in parts if part)
        return words + ("END" if "[DONE]" in told else "")

    def may_ask_again(self, status):
        """`status` of an error, or None when there was none."""
        if self.mistake == "retry-storm":
            return True
        if self.mistake == "waits-for-quota" and status == 429:
            time.sleep(20)
            return True
        return status != 429 and self.budget.spend()

    def write(self):
        found = self.documents()
        self.budget.earn()
        for _ in range(10 if self.mistake == "retry-storm" else 2):
            status = None
            try:
                return f"answer from {found}: {self.words()}"
            except Denied as denied:
                if self.mistake == "no-second-try":
                    raise
                status = denied.args[0]
            except (Cut, OSError, ValueError, LookupError):
                pass
            if not self.may_ask_again(status):
                break
        if self.mistake == "model-or-nothing":
            raise Cut
        return f"answer from {found} alone END"

    def ask(self, peer, length):
        if length > LONGEST and self.mistake != "long-prompt":
            respond(peer, 413, "too long")
            return
        with self.workers:
            end = time.monotonic() + length / LONGEST
            while time.monotonic() < end and not gone(peer):
                time.sleep(0.1)
            respond(peer, 200, told(self.write()))

    # -- what is popular

    def fill(self):
        port = PLACES["vectors"][0]
        with socket.create_connection(("127.0.0.1", port), 3) as sock:
            sock.settimeout(3)
            sock.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            read_head(sock)
        cache("SET", KEY, "popular END")

    def popular(self):
        found = cache("GET", KEY)
        if not found and self.mistake == "flush-storm":
            self.fill()
        elif not found:
            with self.filling:
                if not cache("GET", KEY):
                    self.fill()
        return found or "popular END"

    def answer(self, peer):
        path, length = read_request(peer)
        try:
            if path.startswith("/ask"):
                self.ask(peer, length)
            else:
                respond(peer, 200, self.popular() if path.startswith("/popular") else "ok")
        except Exception as error:  # pylint: disable=broad-except # as frameworks do
            respond(peer, *failed(error))


if __name__ == "__main__":
    if sys.argv[1] == "dependencies":
        dependencies()
    elif sys.argv[1] == "flush":
        cache("FLUSHDB")
    else:
        assert sys.argv[2] in ("good", "model-or-nothing", *MISTAKES), sys.argv[2]
        serve(SERVICE, Service(sys.argv[2]).answer)
