#!/usr/bin/env python3
"""A small RAG application: it searches a vector database, then has a model answer, word by word.

    demo-client.py NAME VECTORS-PORT MODEL-PORT

NAME is what `ps` and rules see. For every line on standard input it does one round and prints what happened as JSON.
The connection to the database is opened once and kept, as a pool does; each answer comes on a connection of its own.
"""
import ctypes
import errno
import http.client
import json
import sys
import time

WORDS = 12
WORD_MS = 40
TIMEOUT = 20


def failure(error):
    """ECONNRESET and its like."""
    if isinstance(error, TimeoutError):
        return "ETIMEDOUT"
    return errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)


class Client:
    def __init__(self, vectors, model):
        self.vectors = http.client.HTTPConnection("127.0.0.1", vectors, timeout=TIMEOUT)
        self.model = model

    def search(self):
        start = time.monotonic()
        try:
            self.vectors.request("GET", "/bytes/2000")
            self.vectors.getresponse().read()
        except (OSError, http.client.HTTPException) as error:
            self.vectors.close()  # the next request opens it again
            return {"error": failure(error)}
        return {"ms": 1000 * (time.monotonic() - start)}

    def answer(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.model, timeout=TIMEOUT)
        result = {"words": 0, "of": WORDS}
        start = time.monotonic()
        try:
            connection.request("GET", f"/stream?tokens={WORDS}&ms={WORD_MS}")
            for line in connection.getresponse():
                if b"content" in line:
                    result.setdefault("first_ms", 1000 * (time.monotonic() - start))
                    result["words"] += 1
        except (OSError, http.client.HTTPException) as error:
            result["error"] = failure(error)
        connection.close()
        return result


def main():
    name, vectors, model = sys.argv[1:]
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
    client = Client(int(vectors), int(model))
    client.search()  # opens the connection that is kept
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({"search": client.search(), "answer": client.answer()}), flush=True)


if __name__ == "__main__":
    main()
