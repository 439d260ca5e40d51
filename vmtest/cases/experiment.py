#!/usr/bin/python3
# timeout: 1800
"""`run`: experiments find each classic mistake of a RAG service and pass the good one; every way out ends the faults."""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

import chaos
import place
from case import alone, check, check_equal, main, wait_until

LIB = os.path.dirname(os.path.abspath(chaos.__file__))
KILLS = int(os.environ.get("KILLS", "6"))

SILENT = """
  - rules:
      - { name: silent, match: { hosts: 127.0.0.1, ports: 6333 }, fault: { drop: true } }
"""
CUT = """
  - rules:
      - { name: cut, match: { hosts: 127.0.0.1, ports: 9000 }, fault: { break-after: { bytes: 2KiB, how: reset } }, per: request }
"""
REFUSED = """
  - rules:
      - { name: refused, match: { hosts: 127.0.0.1, ports: 6333 }, fault: { refuse: refused } }
"""

folder = None
running = []


def experiment(name, method, **keys):
    """Path of an experiment of that name; `keys` replace its own."""
    text = {
        "version": "1",
        "experiment": name,
        "environment": "staging",
        "probes": '[{ name: ask, http: "http://127.0.0.1:8080/ask?q=ping", every: 1s, timeout: 12s, '
                  'expect: { status: 200, body-contains: END } }]',
        "steady": '{ ask.success: ">= 99%" }',
        "during": '{ ask.success: ">= 90%", ask.p90: "<= 5s", within: 15s }',
        "recovery": "{ within: 60s, for: 3s }",
        "baseline": "8s",
        "observe": "30s",
        **keys,
        "method": method,
    }
    path = os.path.join(folder, f"{name}.yaml")
    with open(path, "w") as file:
        file.write("".join(f"{key.replace('_', '-')}: {value}\n" for key, value in text.items() if value))
    return path


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as peer:
            peer.settimeout(5)
            peer.sendall(b"GET /ask HTTP/1.1\r\n\r\n")
            return peer.recv(1) == b"H"
    except OSError:
        return False


def start(*words, port):
    process = subprocess.Popen([sys.executable, os.path.join(LIB, "rag.py"), *words], stdin=subprocess.DEVNULL)
    running.append(process)
    wait_until(lambda: answers(port), f"{words} to answer", seconds=60)
    return process


class Variant:
    """The service with one mistake, or none."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.process = start("service", self.name, port=8080)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def setup():
    global folder
    folder = tempfile.mkdtemp(prefix="experiment.")
    os.environ["CHAOSBPF_DATABASE"] = os.path.join(folder, "findings.db")
    start("dependencies", port=9000)


def teardown():
    for process in running:
        process.kill()


def run(path, again=3):
    """A machine that is too busy for the service to be healthy at the start is given another chance."""
    while True:
        result = chaos.chaos("run", "--json", path, timeout=400)
        again -= 1
        if not again or not result.out.strip() or result.json.get("verdict") != "skipped":
            return result
        time.sleep(5)


def failed(said):
    return sorted({f"{one['when']}: {one['measure']}" for one in said["hypotheses"] if one["outcome"] == "failed"})


def history():
    return chaos.chaos("history", "--json", expect=0).json


def finds(variant, method, expected):
    """The experiment on that variant finds the mistake, and blames the hypothesis that it broke."""
    with Variant(variant):
        result = run(experiment(f"rag-{variant}", method))
    if not check_equal(result.code, 4, f"{variant}: exit code of {result}"):
        return
    said = result.json
    check_equal(said["verdict"], "weakness", f"{variant}: verdict")
    check(expected in failed(said), f"{variant}: {failed(said)} blamed, not {expected}")
    check(said["injected"] > 0, f"{variant}: nothing was injected")
    check(all(one["outcome"] == "held" for one in said["hypotheses"] if one["when"] == "steady-before"),
          f"{variant}: steady before: {said['hypotheses']}")


@alone
def good_holds():
    with Variant("good"):
        for name, method in (("silent", SILENT), ("cut", CUT)):
            result = run(experiment(f"rag-good-{name}", method))
            if check_equal(result.code, 0, f"exit code of {result}"):
                said = result.json
                check_equal(said["verdict"], "held", "verdict")
                check(said["injected"] > 0, "something was injected")
                check(said["time_to_recover_ms"] is not None, "time to recover")


@alone
def wrong_exception_is_found():
    finds("wrong-exception", SILENT, "during: ask.success")


@alone
def long_timeout_is_found():
    finds("long-timeout", SILENT, "during: ask.success")


@alone
def retries_are_found():
    finds("retries", SILENT, "during: ask.p90")


@alone
def cut_stream_is_found():
    finds("cut-stream", CUT, "during: ask.success")


@alone
def lazy_breaker_is_found():
    finds("lazy-breaker", SILENT, "during: ask.p90")


@alone
def aborts():
    with Variant("wrong-exception"):
        result = run(experiment("rag-abort", SILENT, abort='{ ask.success: "< 20%", for: 10s }', observe="90s"))
    if check_equal(result.code, 5, f"exit code of {result}"):
        said = result.json
        check_equal(said["verdict"], "aborted", "verdict")
        check("abort: ask.success" in failed(said), f"{failed(said)} blamed")
    check_equal(chaos.status().all["loaded"], False, "loaded after the abort")
    # Its weakness is open: another run is refused until somebody says what was done.
    path = os.path.join(folder, "rag-abort.yaml")
    check_equal(run(path, again=1).code, 2, "a run while the weakness is open")
    chaos.chaos("history", "resolve", said["id"], "--note", "seen", expect=0)
    result = run(path, again=1)  # the service is gone now
    check_equal((result.code, result.json["verdict"]), (0, "skipped"), f"not healthy at the start: {result}")
    check_equal(result.json["injected"], 0, "injected by a run that was skipped")


def begin(name, **keys):
    """A run in the background, once its faults are there."""
    process = chaos.start("run", "--json", experiment(name, REFUSED, observe="300s", baseline="4s", **keys))
    wait_until(lambda: chaos.status().all["loaded"], "the faults of a run", seconds=180)
    return process


@alone
def ctrl_c():
    with Variant("good"):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = begin("rag-signal")
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            check_equal(process.returncode, 5, f"exit code after a signal: {out}{err}")
            check_equal(json.loads(out)["verdict"], "aborted", "verdict")
            check_equal(chaos.status().all["loaded"], False, "loaded after a signal")


@alone
def stop_ends_the_run():
    with Variant("good"):
        process = begin("rag-stop")
        chaos.stop()
        begun = time.monotonic()
        out, err = process.communicate(timeout=60)
        took = time.monotonic() - begun
        check_equal(process.returncode, 5, f"exit code after stop: {out}{err}")
        check(took < 20, f"the run ended {took:.1f} s after stop")
        said = json.loads(out)
        check("from elsewhere" in said["reason"], f"reason: {said['reason']}")


@alone
def each_kind_of_step_and_probe():
    """Steps in order, one set of rules after the other, loads and commands beside them, probes of every kind."""
    flag = os.path.join(folder, "flag")
    method = f"""
  - {{ load: "http://127.0.0.1:8080/health", name: crowd, rate: 4/s, ramp: 2s, for: 6s, rounds: 2, pause: 1s, background: true }}
  - {{ exec: [sleep, "600"], background: true }}
  - {{ http: "http://127.0.0.1:8080/ask", characters: 200000, timeout: 20s }}
  - {{ exec: [touch, "{flag}"] }}
  - rules:
      - {{ name: first, match: {{ hosts: 127.0.0.1, ports: 6333 }}, fault: {{ refuse: refused }} }}
    for: 3s
  - {{ wait: 1s }}
  - rules:
      - {{ name: second, match: {{ hosts: 127.0.0.1, ports: 6333 }}, fault: {{ refuse: denied }} }}
"""
    probes = f"""
  - {{ name: ask, http: "http://127.0.0.1:8080/ask", timeout: 12s }}
  - {{ name: port, tcp: "127.0.0.1:8080" }}
  - {{ name: shut, tcp: "127.0.0.1:1" }}
  - {{ name: touched, exec: [ls, "{flag}"], timeout: 20s }}
  - {{ name: hangs, exec: [sleep, "600"], every: 2s, timeout: 1s }}"""
    with Variant("retries"):  # refused at once, so it never takes long
        result = run(experiment("rag-steps", method, probes=probes, observe="5s", baseline="4s", cooldown="1s",
                                during='{ ask.success: ">= 90%", crowd.success: ">= 90%", crowd.attempts: ">= 10" }'))
    if not check_equal(result.code, 0, f"exit code of {result}"):
        return
    said = result.json
    probes = {one["name"]: one for one in said["probes"]}
    check(probes["ask"]["ok"] and probes["port"]["ok"], f"good answers: {probes}")
    check_equal((probes["shut"]["ok"], probes["hangs"]["ok"]), (0, 0), "answers of nobody")
    check(0 < probes["touched"]["ok"] < probes["touched"]["attempts"], f"the command was run in between: {probes}")
    rules = {one["name"]: one["injected"] for one in said["rules"]}
    check(rules.get("first") and rules.get("second"), f"injected by one after the other: {rules}")
    check_equal([one["phase"] for one in said["phases"]],
                ["baseline", "inject", "observe", "rollback", "recover", "cooldown", "verdict"], "phases")
    check_equal(place.processes("sleep"), [], "commands that outlived the run")


@alone
def a_step_that_fails():
    """Is an error, and what was broken before is rolled back."""
    with Variant("good"):
        result = run(experiment("rag-fails", REFUSED + """  - { exec: ["false"] }\n""", baseline="2s"))
    check_equal(result.code, 1, f"exit code of {result}")
    check_equal(result.json["verdict"], "error", "verdict")
    check("exec false: exit code 1" in result.json["reason"], f"reason: {result.json['reason']}")
    check_equal(chaos.status().all["loaded"], False, "loaded after a step that failed")


@alone
def rules_that_end_early():
    """The last rule ends before the roll back: the run goes on and is judged."""
    method = REFUSED.replace("fault:", "duration: 3s, fault:")
    with Variant("good"):
        result = run(experiment("rag-early", method, observe="20s", baseline="4s", during=None))
    check_equal(result.code, 0, f"exit code of {result}")
    check_equal([rule["name"] for rule in result.json["rules"]], ["refused"], "rules of a load that was over")


@alone
def holder_killed():
    """The process that holds the faults: they end, and the run says so."""
    with Variant("good"):
        process = begin("rag-holder")
        (holder,) = place.processes("chaosbpf-holder")
        os.kill(holder, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    check_equal(process.returncode, 5, f"exit code: {out}{err}")
    check("was killed" in json.loads(out)["reason"], f"reason: {out}")
    check_equal(chaos.status().all["loaded"], False, "loaded afterwards")


@alone
def killed():
    """kill -9 at any moment: nothing is left after the next command, and the run is shown as interrupted."""
    with Variant("good"):
        for _ in range(KILLS):
            process = chaos.start("run", "--json", experiment("rag-killed", REFUSED, observe="120s", baseline="1s"))
            time.sleep(random.uniform(0, 12))
            process.kill()
            process.wait()
            wait_until(lambda: not place.processes("chaosbpf-holder"), "the kernel to end the holder of the faults")
            state = chaos.status().all
            check_equal(state["loaded"], False, f"loaded after kill -9: {state}")
            check(answers(6333), "the database answers again")
    runs = [one for one in history()["runs"] if one["experiment"] == "rag-killed"]
    check({one["verdict"] for one in runs} <= {"interrupted"}, f"verdicts of killed runs: {runs}")
    check(chaos.chaos("history").code == 0, "the database is whole")


main(setup, teardown)
