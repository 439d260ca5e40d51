#!/usr/bin/python3
# timeout: 90
"""Models of loss over UDP, where every loss shows: exactly each tenth, and bursts that add up to their share."""
import math

import chaos
from case import check, check_equal, expect, main, part
from scene import VICTIM, Scene

HOST, TENTH, BURST, COUNT = "127.0.0.1", 8500, 8501, 4000
LOSS, LENGTH = 0.2, 5

scene = None


def setup():
    global scene
    scene = Scene(network=0)
    for port in (TENTH, BURST):
        scene.near.listen(HOST, port, "udp")
        scene.near.listen(HOST, port)


def rules():
    def rule(name, port, drop):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port], "protocol": "udp", "direction": "request"}, {"drop": drop}, seed=42)

    return [rule("tenth", TENTH, {"every": 10}), rule("burst", BURST, {"burst": {"loss": f"{LOSS:.0%}", "length": LENGTH}})]


def lost(port, who, count):
    """Which datagrams of a new socket did not arrive; the neighbour's all do."""
    number = scene.victim.udp_open(HOST, port)["id"]
    scene.victim.call_me(who)
    check_equal(scene.victim.udp_many(number, count), {}, "errors while sending")
    other = scene.neighbour.udp_open(HOST, port)["id"]
    check_equal(scene.neighbour.udp_ask(other, "flush 1", timeout=20)["error"], None, "what comes after all of them")
    heard = scene.near.heard(who)
    check_equal(len(heard), len(set(heard)), "datagrams that came, none twice")
    return sorted(set(range(count)) - set(heard))


@part
def each_tenth():
    """The 10th, the 20th, ..., of each socket by itself."""
    for who in ("a", "b"):
        gone = lost(TENTH, who, 405)
        check_equal(gone, list(range(9, 405, 10)), "datagrams lost, counted from 0")
        expect("tenth", len(gone), {"percent": 405 - len(gone)})


@part
def bursts():
    """Share and mean length within five standard deviations."""
    gone = set(lost(BURST, "c", COUNT))
    leave = 1 / LENGTH
    memory = 1 - leave - leave * LOSS / (1 - LOSS)
    room = 5 * math.sqrt(COUNT * LOSS * (1 - LOSS) * (1 + memory) / (1 - memory))
    check(abs(len(gone) - COUNT * LOSS) <= room, f"{len(gone)} of {COUNT} lost, {COUNT * LOSS} wanted, within {room:.0f}")
    begun = sum(i - 1 not in gone for i in gone)
    check(abs(len(gone) / begun - LENGTH) <= 5 * math.sqrt(LENGTH * (LENGTH - 1) / begun), f"{len(gone) / begun} in a row")
    expect("burst", len(gone), {"percent": COUNT - len(gone)})


main(setup, lambda: scene and scene.close(), rules)
