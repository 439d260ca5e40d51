#!/usr/bin/python3
# userland: real
# timeout: 3000
"""The RAG service of `mistakes` on real servers: Chroma, llama-server that streams, Redis. Experiments find the mistakes that
are about them, and pass the good service.

A model on an emulated processor takes seconds for an answer, so all patience is four times as long as in `mistakes`.
"""
import http.client
import json
import os

import experiments
import place
import real
from case import alone_as, check, check_equal, main, skip
from experiments import Variant, experiment, failed, probe, rules_step, run

GROUP = "case/server"
CHROMA, MODEL, SLOW = 8000, 8081, 4
COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"
QUESTION = {"model": "tiny", "stream": True, "max_tokens": 48, "messages": [{"role": "user", "content": "ping"}]}

SILENT = rules_step("silent", CHROMA, {"drop": True})
CUT = rules_step("cut", MODEL, {"break-after": {"bytes": "2KiB", "how": "reset"}}, per="request")
CHAT = {"method": "POST", "path": "/v1/*"}
CLEAN = rules_step("clean", MODEL, {"break-after": {"chunks": 5, "how": "clean"}}, http=CHAT)
ERROR = rules_step("error", MODEL, {"status": 500, "as": "llama-server"}, http=CHAT, percent=50, seed=7)
KEYS = {
    "probes": f"[{probe(every='3s', timeout='40s')}]",
    "during": '{ ask.success: ">= 90%", ask.p90: "<= 16s", within: 10s }',
    "recovery": "{ within: 180s, for: 5s }",
    "baseline": "12s",
    "observe": "45s",
}
FOUND = {
    "wrong-exception": (SILENT, "during: ask.success"),
    "long-timeout": (SILENT, "during: ask.p90"),  # answered at last, once the silence is over
    "lazy-breaker": (SILENT, "during: ask.p90"),
    "retries": (SILENT, "during: ask.p90"),
    "cut-stream": (CUT, "during: ask.success"),
    "half-answer": (CLEAN, "during: ask.success"),
    "no-second-try": (ERROR, "during: ask.success"),
}


def chroma(path, body):
    connection = http.client.HTTPConnection("127.0.0.1", CHROMA, timeout=real.PATIENCE)
    connection.request("POST", COLLECTIONS + path, json.dumps(body), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read() or "null")


def fill():
    """A collection with three documents; its path."""
    path = "/" + chroma("", {"name": "documents", "get_or_create": True})["id"]
    chroma(path + "/add", {"ids": ["a", "b", "c"], "documents": ["one", "two", "three"],
                           "embeddings": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]})
    return path


def setup():
    if not real.is_here():
        skip("the userland with real servers is not here")
    place.make_cgroup(GROUP)
    model = real.start([*real.LLAMA, "--port", str(MODEL), "-np", "4"], GROUP, name="model")
    database = real.start(real.CHROMA, GROUP, name="chroma")
    cache = real.start(real.REDIS, GROUP, name="redis")
    real.wait_for("redis", cache, real.REDIS_PORT, None)
    real.wait_for("model", model, MODEL, "/health")
    real.wait_for("chroma", database, CHROMA, "/api/v2/heartbeat")
    os.environ["RAG_PLACES"] = json.dumps({
        "vectors": [CHROMA, f"{COLLECTIONS}{fill()}/query", {"query_embeddings": [[1, 0, 0]], "n_results": 2}],
        "model": [MODEL, "/v1/chat/completions", QUESTION],
        "cache": [real.REDIS_PORT],
    })
    os.environ["RAG_SLOW"] = str(SLOW)
    experiments.begin(dependencies=False)


def teardown():
    experiments.end()
    real.stop_all()
    place.remove_cgroup("case")


def drilled(mistake, name, method):
    with Variant(mistake):
        return run(experiment(f"{mistake}-{name}", method, **KEYS))


def passes(name, method):
    result = drilled("good", name, method)
    if check_equal(result.code, 0, f"good: exit code of {result}"):
        check_equal(result.json["verdict"], "held", f"good: verdict of {name}")
        check(result.json["injected"], f"good: {name} injected nothing")


def finds(mistake):
    method, blamed = FOUND[mistake]
    result = drilled(mistake, "real", method)
    if check_equal(result.code, 4, f"{mistake}: exit code of {result}"):
        check(blamed in failed(result.json), f"{mistake}: {failed(result.json)} blamed, not {blamed}")
        check(result.json["injected"], f"{mistake}: nothing was injected")


for each, steps in {"silent": SILENT, "cut": CUT, "clean": CLEAN, "error": ERROR}.items():
    alone_as(f"good_passes_{each}", passes, each, steps)
for each in FOUND:
    alone_as(f"{each}_is_found", finds, each)

main(setup, teardown)
