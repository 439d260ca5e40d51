#!/usr/bin/python3
# timeout: 1500
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
        "probes": '[{ name: ask, http: "http://127.0.0.1:8080/ask?q=ping", every: 500ms, timeout: 4s, '
                  'expect: { status: 200, body-contains: END } }]',
        "steady": '{ ask.success: ">= 99%" }',
        "during": '{ ask.success: ">= 90%", ask.p90: "<= 1500ms", within: 8s }',
        "recovery": "{ within: 60s, for: 3s }",
        "baseline": "6s",
        "observe": "20s",
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


def run(path, **options):
    return chaos.chaos("run", "--json", path, timeout=300, **options)


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
        result = run(experiment("rag-abort", SILENT, abort='{ ask.success: "< 20%", for: 4s }', observe="60s"))
    if check_equal(result.code, 5, f"exit code of {result}"):
        said = result.json
        check_equal(said["verdict"], "aborted", "verdict")
        check("abort: ask.success" in failed(said), f"{failed(said)} blamed")
    check_equal(chaos.status().all["loaded"], False, "loaded after the abort")
    # Its weakness is open: another run is refused until somebody says what was done.
    path = os.path.join(folder, "rag-abort.yaml")
    check_equal(run(path).code, 2, "a run while the weakness is open")
    chaos.chaos("history", "resolve", said["id"], "--note", "seen", expect=0)
    result = run(path)  # the service is gone now
    check_equal((result.code, result.json["verdict"]), (0, "skipped"), f"not healthy at the start: {result}")
    check_equal(result.json["injected"], 0, "injected by a run that was skipped")


def begin(name, **keys):
    """A run in the background, once its faults are there."""
    process = chaos.start("run", "--json", experiment(name, REFUSED, observe="120s", baseline="2s", **keys))
    wait_until(lambda: chaos.status().all["loaded"], "the faults of a run", seconds=60)
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
def rules_that_end_early():
    """The last rule ends before the roll back: the run goes on and is judged."""
    method = REFUSED.replace("fault:", "duration: 3s, fault:")
    with Variant("good"):
        result = run(experiment("rag-early", method, observe="10s", baseline="3s"))
    check_equal(result.code, 0, f"exit code of {result}")
    check_equal([rule["name"] for rule in result.json["rules"]], ["refused"], "rules of a load that was over")


@alone
def killed():
    """kill -9 at any moment: nothing is left after the next command, and the run is shown as interrupted."""
    with Variant("good"):
        for _ in range(KILLS):
            process = chaos.start("run", "--json", experiment("rag-killed", REFUSED, observe="120s", baseline="1s"))
            time.sleep(random.uniform(0, 12))
            process.kill()
            process.wait()
            state = chaos.status().all
            check_equal(state["loaded"], False, f"loaded after kill -9: {state}")
            check(answers(6333), "the database answers again")
    runs = [one for one in history()["runs"] if one["experiment"] == "rag-killed"]
    check({one["verdict"] for one in runs} <= {"interrupted"}, f"verdicts of killed runs: {runs}")
    check(chaos.chaos("history").code == 0, "the database is whole")


main(setup, teardown)
