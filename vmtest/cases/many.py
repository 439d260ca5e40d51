#!/usr/bin/python3
# timeout: 90
"""1,000 rules: the right one decides, the first in the file wins, and one file more is refused."""
import chaos
from case import alone, check_equal, expect, main, part
from scene import VICTIM, Scene

HOST, FIRST, COUNT = "127.0.0.1", 20000, 1000

scene = None


def setup():
    global scene
    scene = Scene(network=0)


def port_of(i):
    return FIRST + i


def rules():
    """Each with a port of its own; every seventh also has a process that never runs, every eleventh a network."""
    found = []
    for i in range(COUNT - 1):
        match = {"cgroup": VICTIM, "ports": [port_of(i)], "protocol": "tcp"}
        if i % 7 == 3:
            match["process"] = f"nobody-{i}*" if i < 300 else f"nobody-{i}"
        if i % 11 == 5:
            match["hosts"] = [f"127.{i % 200 + 1}.0.0/16"]
        found.append(chaos.rule(f"r{i}", match, {"refuse": "denied" if i % 2 else "unreachable"}))
    found.append(chaos.rule("last", {"cgroup": VICTIM, "ports": [f"{FIRST}-{FIRST + COUNT}"], "protocol": "tcp"},
                            {"refuse": "denied"}))
    return found


@part
def each_its_own():
    for i in list(range(0, COUNT - 1, 37)) + [3, 5, 63, 64, 65, 127, 128, 511, 512, 998]:
        special = i % 7 == 3 or i % 11 == 5  # these do not match, so the last rule does
        error = "EPERM" if special or i % 2 else "ENETUNREACH"
        check_equal(scene.victim.connects(HOST, port_of(i), 1), [error], f"rule {i}")
        expect("last" if special else f"r{i}", 1)
    check_equal(scene.victim.connects(HOST, port_of(COUNT + 1), 1), ["ECONNREFUSED"], "a port that no rule names")
    check_equal(scene.neighbour.connects(HOST, port_of(0), 1), ["ECONNREFUSED"], "the neighbour")


@alone
def too_many():
    path = chaos.rules_file(*[chaos.rule(f"r{i}", {"ports": [port_of(i)]}, {"reset": True}) for i in range(1025)])
    check_equal(chaos.chaos("load", path).code, 2, "exit code for 1025 rules")


main(setup, lambda: scene and scene.close(), rules)
