#!/usr/bin/python3
# timeout: 900
"""Experiments without a probe: what is promised of the service, and of what it calls, is measured from the kernel alone.

Somebody asks the service all the time. The good one answers without its vector database; with a mistake it fails, or is slow.
"""
import chaos
import experiments
from case import alone, check, check_equal, main
from experiments import GROUP, REFUSED, SILENT, Asked, experiment, failed, run

PROMISED = {
    "service": f"{{ cgroup: {GROUP} }}",
    "endpoints": f"{{ vectors: {{ hosts: 127.0.0.1, ports: {experiments.VECTORS} }} }}",
    "probes": None,
    "steady": '{ service.success: ">= 99%", service.attempts: ">= 5", vectors.success: ">= 99%" }',
    "during": '{ service.success: ">= 90%", service.p90: "<= 4s", service.attempts: ">= 5", within: 5s }',
    "baseline": "8s",
    "observe": "20s",
}


def check_measured(said, asked):
    """Each question once, as one of the service; what it asks itself is of the endpoint."""
    attempts = {one["name"]: one["attempts"] for one in said["probes"]}
    check_equal(set(attempts), {"service", "vectors"}, "what was measured")
    check(20 <= attempts["service"] <= asked, f"{attempts} of {asked} questions")
    check(attempts["vectors"] >= 5, f"calls: {attempts}")
    kept = chaos.chaos("report", "--json", said["id"], expect=0).json
    measures = {one["measure"] for one in kept["points"]}
    check({"service.success", "service.p99", "service.rate", "vectors.success"} <= measures, f"curves: {measures}")
    check_equal(kept["samples"], [], "answers of probes")


@alone
def held():
    with Asked("good") as service:
        result = run(experiment("watched-good", REFUSED, **PROMISED))
    if not check_equal(result.code, 0, f"exit code of {result}"):
        return
    said = result.json
    check_equal(said["verdict"], "held", f"verdict: {said['reason']}")
    check(said["injected"], f"injected: {said['rules']}")
    check(said["time_to_recover_ms"] is not None, "it recovered")
    actual = {(one["when"], one["measure"]): one["actual"] for one in said["hypotheses"]}
    check(actual["during", "service.success"] >= 90 and actual["steady-before", "vectors.success"] >= 99, f"{actual}")
    check_measured(said, service.asked)


@alone
def fails():
    """Errors of its own: a status of 500, told by the kernel."""
    with Asked("wrong-exception") as service:
        result = run(experiment("watched-fails", SILENT, **PROMISED))
    if check_equal(result.code, 4, f"exit code of {result}"):
        check("during: service.success" in failed(result.json), f"blamed: {failed(result.json)}")
        check_measured(result.json, service.asked)


@alone
def slow():
    """Every answer is right, and late."""
    with Asked("retries") as service:
        result = run(experiment("watched-slow", SILENT, **PROMISED))
    if check_equal(result.code, 4, f"exit code of {result}"):
        check("during: service.p90" in failed(result.json), f"blamed: {failed(result.json)}")
        check_measured(result.json, service.asked)


@alone
def aborts():
    """The limit to abort at may be one of the kernel's measures, too."""
    with Asked("wrong-exception"):
        result = run(experiment("watched-aborts", SILENT, **{**PROMISED, "observe": "120s",
                                                             "abort": '{ service.success: "< 20%", for: 10s }'}))
    check_equal(result.code, 5, f"exit code of {result}")
    check("abort: service.success" in failed(result.json), f"blamed: {failed(result.json)}")
    check_equal(chaos.status().all["loaded"], False, "loaded after the abort")


main(experiments.begin_watched, experiments.end_watched)
