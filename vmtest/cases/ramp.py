#!/usr/bin/python3
# timeout: 90
"""Values that move while a rule lasts: each delay is the one of its moment, and the last value stays."""
import time

import chaos
from case import check, check_equal, check_took, expect, main, part
from scene import VICTIM, Scene

UP, DOWN, SHARE = 8400, 8401, 8402
FROM_MS, TO_MS, OVER_S = 100, 900, 8

scene = None
began = 0


def setup():
    global scene
    scene = Scene(network=0)
    for port in (UP, DOWN, SHARE):
        scene.listen(port)


def rules():
    def rule(name, port, fault, **keys):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port]}, fault, **keys)

    return [rule("up", UP, {"delay": f"{FROM_MS}ms..{TO_MS}ms over {OVER_S}s"}),
            rule("down", DOWN, {"delay": f"{TO_MS}ms..{FROM_MS}ms over {OVER_S}s"}),
            rule("share", SHARE, {"reset": True}, percent=f"0..100 over {OVER_S}s", per="connection")]


@part
def requests():
    """From the first moment until well after the end."""
    opened = {port: scene.victim.open("127.0.0.1", port)["id"] for port in (UP, DOWN)}
    end = time.monotonic() + OVER_S + 3
    count = 0
    while time.monotonic() < end:
        for port, number in opened.items():
            met = scene.victim.request(number)
            check_equal(met["error"], None, f"port {port}")
        count += 1
    check_took(met["ms"], FROM_MS, "a request when the delay has come down")
    expect("up", count)
    expect("down", count)


@part
def delays_are_those_of_their_moment():
    """By the events: on the line from the first to the last value. The load began a little before the first event."""
    for name, first, last in (("up", FROM_MS, TO_MS), ("down", TO_MS, FROM_MS)):
        delays = [event["delay_ms"] for event in chaos.events() if event["rule"] == name]
        check(len(delays) > 5, f"{name}: {len(delays)} events")
        check_equal(delays, sorted(delays, reverse=last < first), f"{name}: the delays only {'rise' if last > first else 'fall'}")
        check_equal(delays[-1], last, f"{name}: the last value stays")
        check(abs(delays[0] - first) < abs(last - first) / 2, f"{name}: begins near the first value, {delays[0]} ms")


@part
def all_in_the_end():
    """0 % has become 100 %."""
    for _ in range(5):
        check_equal(scene.victim.get("127.0.0.1", SHARE)["error"], "ECONNRESET", "the share that is reset")
        check_equal(scene.neighbour.get("127.0.0.1", SHARE)["error"], None, "the neighbour")
    expect("share", 5)


main(setup, lambda: scene and scene.close(), rules)
