#!/usr/bin/python3
# timeout: 1500
"""The drills of rules/experiments that answer in the model's place, as they stand there: the good service passes each, and a
service with the mistake that a drill is about does not.

Only times are others, and who the service is: four questions a second for forty seconds instead of one for two or three
minutes, but one for a minute where each may become ten. The model is at a port that the rules name.
"""
import json
import os
import re

import experiments
from case import alone_as, check, check_equal, main
from experiments import GROUP, Watched, failed, run

RULES = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../rules"))
MODEL = 11434
# drill: the mistake that it is about, and which of its promises does not hold then
DRILLS = {
    "model-500": ("no-second-try", "during: ask.success"),
    "storm-429": ("retry-storm", "during: model.attempts"),
    "quota-gone": ("waits-for-quota", "during: ask.success"),
    "garbage-answer": ("garbage-in", "during: honest.success"),
    "empty-answer": ("blank-page", "during: honest.success"),
    "clean-cut": ("half-answer", "during: honest.success"),
}
OTHER = {
    r"system\.slice/rag\.service": GROUP,
    r"\.\./": RULES + "/",
    r"within: 30s }\nrecovery": "within: 10s }\nrecovery",
    r"^environment": "baseline: 5s\nenvironment",
}


def drill(name, mistake):
    """Its file with those words replaced, run."""
    with open(os.path.join(RULES, "experiments", name + ".yaml")) as file:
        text = file.read()
    every, observe = ("1s", "1m") if name == "storm-429" else ("250ms", "40s")
    for old, new in {**OTHER, "every: 1s": f"every: {every}", "observe: [23]m": f"observe: {observe}"}.items():
        text = re.sub(old, new, text, flags=re.MULTILINE)
    path = os.path.join(experiments.folder, f"{name}.yaml")
    with open(path, "w") as file:
        file.write(re.sub("^experiment: .*", f"experiment: {name}-{mistake}", text, flags=re.MULTILINE))
    with Watched(mistake):
        return run(path)


def passes(name):
    result = drill(name, "good")
    if check_equal(result.code, 0, f"good: exit code of {result}"):
        check_equal(result.json["verdict"], "held", f"verdict: {result.json['reason']}")
        check(result.json["injected"], "something was injected")


def finds(name):
    mistake, blamed = DRILLS[name]
    result = drill(name, mistake)
    if check_equal(result.code, 4, f"{mistake}: exit code of {result}"):
        check(blamed in failed(result.json), f"{mistake}: {failed(result.json)} blamed, not {blamed}")


for each in DRILLS:
    alone_as(f"good_passes_{each}", passes, each)
    alone_as(f"{each}_finds", finds, each)


def setup():
    os.environ.update(RAG_JSON="1", RAG_WORDS="30")
    os.environ["RAG_PLACES"] = json.dumps({"model": [MODEL, "/v1/chat/completions", {"stream": True}]})
    experiments.begin_watched()


main(setup, experiments.end_watched)
