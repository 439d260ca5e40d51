#!/usr/bin/python3
# timeout: 900
"""`deps test`: the dependency that a service has a fallback for is weak, the one that it fails without is strong.

The service asks both for each question: without documents it answers from keywords, without the model it fails.
"""
import json
import os
import signal
import time

import chaos
import experiments
import place
from case import alone, check, check_equal, main, wait_until
from experiments import GROUP, Asked

VECTORS, MODEL = experiments.VECTORS, experiments.MODEL


def deps_test(*options, **keys):
    return chaos.chaos("deps", "test", "--json", "--cgroup", GROUP, "--baseline", "20s", "--each", "12s", "--gap", "6s",
                       "--delay", "3s", *options, timeout=400, **keys)


def strengths(result):
    return {one["port"]: one["strength"] for one in result.json["dependencies"]}


def check_kept(result, verdict, strengths):
    """It stands in the findings like a run: what came of each, how it was measured, and what was injected."""
    run = chaos.chaos("report", "--json", result.json["id"], expect=0).json
    check_equal((run["experiment"], run["verdict"]), ("deps-case-service", verdict), "what history has")
    check_equal({one["port"]: (one["strength"], one["worse"]) for one in run["dependencies"]}, strengths, "strengths")
    check_equal(run["dependencies"], result.json["dependencies"], "what was told and what is kept")
    check(any(one["measure"] == "service.success" for one in run["points"]), "no curve of the service")
    check(all(one["injected"] for one in run["rules"] if one["rule"].endswith(" down")), f"counters: {run['rules']}")
    check_equal([one["text"] for one in run["timeline"] if one["kind"] == "phase"], ["baseline", "inject", "verdict"],
                "phases")


@alone
def strong_and_weak():
    """Then a weak one becomes strong, because the service has a mistake now."""
    known = os.path.join(experiments.folder, "known.json")
    with Asked("model-or-nothing"):
        result = deps_test("--save", known)
    if not check_equal(result.code, 0, f"exit code of {result}"):
        return
    check_equal(strengths(result), {VECTORS: "weak", MODEL: "strong"}, f"strengths: {result}")
    down = {one["port"]: one["down"] for one in result.json["dependencies"]}
    check(all(one["injected"] for one in down.values()), f"both were broken: {down}")
    check_equal((down[VECTORS]["change"], down[MODEL]["change"]), ("same", "fails"), "what came of it")
    check(result.json["normal"]["requests"] > 20, f"normal: {result.json['normal']}")
    check_kept(result, "held", {VECTORS: ("weak", None), MODEL: ("strong", None)})
    with Asked("wrong-exception"):
        result = deps_test("--compare", known)
    check_equal(result.code, 4, f"a weak one has become strong: {result}")
    check_equal({one["port"]: one["worse"] for one in result.json["dependencies"] if one["worse"]}, {VECTORS: "was weak"},
                "what is worse")
    check_kept(result, "weakness", {VECTORS: ("strong", "was weak"), MODEL: ("strong", None)})
    table = chaos.chaos("report", "last", expect=0).out
    check("DEPENDENCY" in table and "was weak" in table, f"the table for people: {table}")
    check("❌ strong" in chaos.chaos("report", "--markdown", "last", expect=0).out, "the report says what is worse")
    check_equal(chaos.status().all["loaded"], False, "loaded afterwards")


@alone
def ways_out():
    """Ctrl-C, `stop` and kill -9 end the faults; `stop` and Ctrl-C are told."""
    with Asked("good"):
        for how in (signal.SIGINT, signal.SIGKILL, "stop"):
            process = chaos.start("deps", "test", "--json", "--cgroup", GROUP, "--baseline", "12s", "--each", "12s")
            wait_until(lambda: chaos.status().all["loaded"], "its faults", seconds=180)
            if how == "stop":
                chaos.stop()
            else:
                process.send_signal(how)
            out, err = process.communicate(timeout=60)
            if how == signal.SIGKILL:
                wait_until(lambda: not place.processes("chaosbpf-holder"), "the kernel to end the holder")
            else:
                check_equal(process.returncode, 5, f"exit code: {out}{err}")
                check("aborted" in json.loads(out)["failed"], f"said: {out}")
            kept = chaos.chaos("report", "--json", "last", expect=0).json
            check_equal(kept["verdict"], "interrupted" if how == signal.SIGKILL else "aborted", f"kept after {how}")
            check_equal(chaos.status().all["loaded"], False, f"loaded after {how}")


@alone
def refused():
    check_equal(chaos.chaos("deps", "test").code, 2, "of nobody")
    check_equal(chaos.chaos("deps", "test", "--cgroup", GROUP, "--each", "1s").code, 2, "too short")
    check_equal(deps_test("--compare", "/nowhere").code, 2, "a file that is not there")
    begun = time.monotonic()
    result = chaos.chaos("deps", "test", "--cgroup", GROUP, "--baseline", "6s", "--each", "6s")
    check_equal(result.code, 1, f"nobody asks the service: {result}")
    check("asked nothing" in result.err and time.monotonic() - begun < 60, f"the reason: {result}")


main(experiments.begin_watched, experiments.end_watched)
