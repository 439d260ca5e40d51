"""Real Python clients, and curl, told what to do: the same lines as clients.js, each call in a thread of its own.

Run by the Python of the userland with real software. Every call is a new client with the defaults of its library, but for
the timeout that it is given; `keep` asks for one that lives on with its connection, `secure` for TLS, whatever the certificate.
"""
import errno
import json
import subprocess
import sys
import threading
import time

ASK = {"model": "tiny", "messages": [{"role": "user", "content": "what is a vector database"}], "max_tokens": 6,
       "temperature": 0}


KEPT = {}  # clients by kind and address


def chat(todo):
    return f"{'https' if todo.get('secure') else 'http'}://{todo['at']}:{8443 if todo.get('secure') else 8080}/v1/chat/completions"


def options(todo):
    """As keywords, or nothing: then it is the library's own timeout."""
    return {**({"timeout": todo["timeout"]} if todo.get("timeout") else {}), **({"verify": False} if todo.get("secure") else {})}


def kept(todo, make):
    """The client of an earlier call, when this one asks for it."""
    if not todo.get("keep"):
        return make()
    key = todo["do"], todo["at"]
    if key not in KEPT:
        KEPT[key] = make()
    return KEPT[key]


def words_of(reply):
    return len(reply["choices"][0]["message"]["content"].split())


class Cut(Exception):
    """A stream that ended by an error: what had come until then goes with it."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen


def follow(lines):
    """The events of a stream: how many words, why it ended, whether the last line was there."""
    seen = {"words": 0, "end": None, "done": False}
    start = time.monotonic()
    try:
        for line in lines:
            if line == "data: [DONE]":
                seen["done"] = True
            elif line.startswith("data: "):
                choice = json.loads(line[6:])["choices"][0]
                if choice["delta"].get("content"):
                    seen.setdefault("first_ms", (time.monotonic() - start) * 1000)
                    seen["words"] += 1
                seen["end"] = choice["finish_reason"] or seen["end"]
    except Exception as error:
        raise Cut(seen) from error
    return seen


def httpx(todo):
    import httpx as library

    return words_of(library.post(chat(todo), json=ASK, **options(todo)).json())


def httpx_async(todo):
    """As the SDKs for Python do it when they are used with `await`: anyio writes to sockets apart from TLS."""
    import asyncio

    import httpx as library

    async def ask():
        async with library.AsyncClient(**options(todo)) as client:
            return words_of((await client.post(chat(todo), json=ASK)).json())
    return asyncio.run(ask())


def httpx_stream(todo):
    import httpx as library

    body = {**ASK, "max_tokens": todo["words"], "stream": True}
    with library.stream("POST", chat(todo), json=body, **options(todo)) as reply:
        return follow(reply.iter_lines())


def requests(todo):
    import requests as library

    return words_of(library.post(chat(todo), json=ASK, **options(todo)).json())


def requests_stream(todo):
    import requests as library

    body = {**ASK, "max_tokens": todo["words"], "stream": True}
    reply = library.post(chat(todo), json=body, stream=True, **options(todo))
    return follow(reply.iter_lines(decode_unicode=True))


def psycopg(todo):
    import psycopg as library

    connection = kept(todo, lambda: library.connect(host=todo["at"], user="postgres", dbname="postgres", autocommit=True,
                                                    **todo.get("options", {})))
    try:
        rows = connection.execute("select id from papers order by v <=> '[1,3,9]' limit 2").fetchall()
    finally:
        if not todo.get("keep"):
            connection.close()
    return [row[0] for row in rows]


def psycopg_fill(todo):
    import psycopg as library

    with library.connect(host=todo["at"], user="postgres", dbname="postgres") as connection:
        connection.execute("create extension vector")
        connection.execute("create table papers (id int, v vector(3))")
        connection.execute("insert into papers select i, format('[1,%%s,%%s]', i, i * i)::vector from generate_series(0, %s) i",
                           [todo["count"] - 1])
        return connection.execute("select count(*) from papers").fetchone()[0]


def redis(todo):
    import redis as library

    value = kept(todo, lambda: library.Redis(host=todo["at"], **todo.get("options", {}))).get("greeting")
    return value.decode() if value else value


def redis_fill(todo):
    import redis as library

    return library.Redis(host=todo["at"]).set("greeting", "hello")


class Curl(Exception):
    """What curl ended with."""

    def __init__(self, code, message, seen):
        super().__init__(message)
        self.code, self.seen = code, seen


def run_curl(todo, body, *more):
    # With its own protocol version it would speak HTTP/1.1 here, too.
    limit = ["--max-time", str(todo["timeout"])] if todo.get("timeout") else []
    if todo.get("secure"):
        limit.append("--insecure")
    done = subprocess.run(["/usr/bin/curl", "--silent", "--show-error", "--no-buffer", *limit, *more, "--json",
                           json.dumps(body), chat(todo)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Curl(done.returncode, done.stderr.strip(), {"words": done.stdout.count('"content":"')})
    return done.stdout


def curl(todo):
    return words_of(json.loads(run_curl(todo, ASK)))


def curl_stream(todo):
    more = ["--http1.0"] if todo.get("old") else []
    return follow(run_curl(todo, {**ASK, "max_tokens": todo["words"], "stream": True}, *more).splitlines())


def load(_):
    for name in ("httpx", "requests", "psycopg", "redis"):
        __import__(name)
    return sys.version.split()[0]


def words_of_error(error):
    words = {"classes": [], "codes": [], "message": str(error)[:200]}
    if isinstance(error, Cut):
        words["seen"], error = error.seen, error.__cause__
        words["message"] = str(error)[:200]
    elif isinstance(error, Curl):
        words["seen"] = error.seen
    while error and len(words["classes"]) < 12:
        words["classes"].append(type(error).__name__)
        code = getattr(error, "code", None) if isinstance(error, Curl) else \
            errno.errorcode.get(getattr(error, "errno", None)) if isinstance(error, OSError) else None
        if code:
            words["codes"].append(code)
        error = error.__cause__ or error.__context__
    return words


OUTPUT = threading.Lock()


def run(todo):
    answer, start = {"id": todo["id"]}, time.monotonic()
    try:
        answer["value"] = globals()[todo["do"]](todo)
    except Exception as error:  # pylint: disable=broad-except # it is what was asked for
        answer["error"] = words_of_error(error)
    answer["ms"] = round((time.monotonic() - start) * 1000)
    with OUTPUT:
        print(json.dumps(answer), flush=True)


for text in sys.stdin:
    threading.Thread(target=run, args=(json.loads(text),), daemon=True).start()
