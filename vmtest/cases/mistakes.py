#!/usr/bin/python3
# timeout: 2400
"""Experiments on a RAG service: each finds its classic mistake and blames the right hypothesis, and all pass the good one.

Nothing here is near a limit: what is good is faster than allowed by seconds, what is wrong slower by seconds or broken
for good (see lib/rag.py).
"""
import sys

import experiments
from case import alone_as, check, check_equal, main
from experiments import CUT, GROUP, SILENT, Watched, experiment, model_step, probe, run


def load(name, path, rate, seconds, **keys):
    """A load beside the other steps, measured under that name."""
    more = "".join(f", {key.replace('_', '-')}: {value}" for key, value in keys.items())
    return (f'\n  - {{ load: "http://127.0.0.1:8080{path}", name: {name}, rate: {rate}/s, for: {seconds}s, '
            f'background: true{more} }}\n')


CROWDED = '{ crowd.success: ">= 90%", crowd.p90: "<= 4s", ask.success: ">= 90%", within: 5s }'
BOMBED = '{ ask.success: ">= 90%", bombs.success: "== 100%", bombs.attempts: ">= 5", within: 5s }'
FLUSHED = '{ crowd.success: ">= 90%", popular.success: ">= 80%", within: 5s }'
WHOLE = "{ status: 200, body-contains: END }"
REFUSED = "{ status: [400, 413, 422] }"

# Four questions a second for ten seconds: not much more than one request for each.
COUNTED = {
    "service": f"{{ cgroup: {GROUP} }}",
    "endpoints": f"{{ model: {{ hosts: 127.0.0.1, ports: {experiments.MODEL} }} }}",
    "probes": f"[{probe(every='250ms')}]",
    "during": '{ ask.success: ">= 90%", model.attempts: "<= 100", within: 5s }',
}

# name: the method, and what else the experiment says differently
DRILLS = {
    "silent": (SILENT, {}),
    "cut": (CUT, {}),
    "clean": (model_step("clean", {"break-after": {"chunks": 2, "how": "clean"}}), {}),
    "error": (model_step("error", {"status": 500, "as": "vllm"}, percent=50, seed=7), {}),
    "limit": (model_step("limit", {"status": 429, "as": "openai", "retry-after": "20s"}), COUNTED),
    "quota": (model_step("quota", {"status": 429, "as": "openai-quota"}), {}),
    "garbage": (model_step("garbage", {"body": "garbage"}), {}),
    "empty": (model_step("empty", {"body": "empty"}), {}),
    "crowd": (load("crowd", "/ask", 4, 20, timeout="8s", expect=WHOLE) + SILENT, {"during": CROWDED}),
    "bombs": (load("bombs", "/ask", 2, 25, timeout="30s", characters=400000, at_once=40, expect=REFUSED),
              {"during": BOMBED, "probes": f"[{probe(timeout='4s')}]", "observe": "20s"}),
    "flush": (load("crowd", "/popular", 8, 18, timeout="8s", at_once=32, expect=WHOLE) + f"""
  - wait: 2s
  - exec: [{sys.executable}, {experiments.RAG}, flush]
""", {"during": FLUSHED, "probes": f"[{probe('popular', '/popular')}]", "steady": '{ popular.success: ">= 99%" }'}),
}
# mistake: the drill that finds it, and what it breaks
FOUND = {
    "wrong-exception": ("silent", "during: ask.success"),
    "lazy-breaker": ("silent", "during: ask.p90"),
    "long-timeout": ("silent", "during: ask.success"),
    "retries": ("silent", "during: ask.p90"),
    "slow-fallback": ("crowd", "during: crowd.p90"),
    "cut-stream": ("cut", "during: ask.success"),
    "half-answer": ("clean", "during: ask.success"),
    "no-second-try": ("error", "during: ask.success"),
    "retry-storm": ("limit", "during: model.attempts"),
    "waits-for-quota": ("quota", "during: ask.success"),
    "garbage-in": ("garbage", "during: ask.success"),
    "blank-page": ("empty", "during: ask.success"),
    "long-prompt": ("bombs", "during: ask.success"),
    "flush-storm": ("flush", "during: crowd.success"),
}


def injects(drill):
    return "rules:" in DRILLS[drill][0]


def drilled(drill, mistake):
    method, keys = DRILLS[drill]
    with Watched(mistake):
        return run(experiment(f"{mistake}-{drill}", method, **keys))


def passes(drill):
    result = drilled(drill, "good")
    if not check_equal(result.code, 0, f"good: exit code of {result}"):
        return
    said = result.json
    check_equal(said["verdict"], "held", f"good: verdict of {drill}")
    check(said["time_to_recover_ms"] is not None, f"good: time to recover of {drill}")
    check(said["injected"] or not injects(drill), f"good: {drill} injected nothing")


def finds(mistake):
    drill, blamed = FOUND[mistake]
    result = drilled(drill, mistake)
    if not check_equal(result.code, 4, f"{mistake}: exit code of {result}"):
        return
    said = result.json
    check_equal(said["verdict"], "weakness", f"{mistake}: verdict")
    check(blamed in experiments.failed(said), f"{mistake}: {experiments.failed(said)} blamed, not {blamed}")
    check(said["injected"] or not injects(drill), f"{mistake}: nothing was injected")
    check(all(one["outcome"] == "held" for one in said["hypotheses"] if one["when"] == "steady-before"),
          f"{mistake}: steady before: {said['hypotheses']}")


for one in DRILLS:
    alone_as(f"good_passes_{one}", passes, one)
for one in FOUND:
    alone_as(f"{one}_is_found", finds, one)

main(experiments.begin_watched, experiments.end_watched)
