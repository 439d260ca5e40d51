#!/usr/bin/python3
# timeout: 240
"""start-after, duration, between and days are kept by the kernel alone, with every chaosbpf process killed."""
import calendar
import os
import signal
import time

import chaos
import leftovers
import place
from case import alone, check, check_equal, main, only_in_a_guest, wait_until
from scene import VICTIM, Scene

HOST, CLOSED, OPEN = "127.0.0.1", 7600, 7601
MATCH = {"cgroup": VICTIM, "ports": [CLOSED], "protocol": "tcp"}
UNREACHABLE, DENIED, NOBODY = "ENETUNREACH", "EPERM", "ECONNREFUSED"  # the last: the port is closed

scene = None


def setup():
    global scene
    scene = Scene(network=0)
    scene.near.listen(HOST, OPEN)


def kill_everything():
    """kill -9 of every chaosbpf process, until there is none."""
    only_in_a_guest("kills every chaosbpf process")

    def again():
        found = place.processes("chaosbpf")
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not found
    wait_until(again, "every chaosbpf process to be gone")


def timeline(until):
    """Connects all the time: [outcome, when it was first met]."""
    changes = []
    while time.monotonic() < until:
        before = time.monotonic()
        met = scene.victim.connects(HOST, CLOSED, 1)[0]
        if not changes or changes[-1][0] != met:
            changes.append([met, before])
    return changes


@alone
def one_after_the_other():
    """The first rule waits and ends, the second fills in before, after and until its own end; all without a process.

    A third keeps an old connection silent: it goes on by itself."""
    start = time.monotonic()
    chaos.load(chaos.rule("before", MATCH, {"refuse": "denied"}))
    unit = min(10, max(1, round(2 * (time.monotonic() - start))))  # seconds; a slow machine needs longer ones
    chaos.stop()
    old = scene.victim.open(HOST, OPEN)["id"]
    began = time.monotonic()
    chaos.load(chaos.rule("late", MATCH, {"refuse": "unreachable"}, start_after=f"{4 * unit}s",
                          duration=f"{2 * unit}s"),
               chaos.rule("long", MATCH, {"refuse": "denied"}, duration=f"{8 * unit}s"),
               chaos.rule("silent", {"cgroup": VICTIM, "ports": [OPEN]}, {"drop": True},
                          duration=f"{2 * unit}s"))  # TCP tries again when twice that time has passed, at the latest
    armed = time.monotonic()
    kill_everything()
    state = chaos.status()
    check_equal((state["late"]["state"], state["long"]["state"]), ("waiting", "active"), "states at first")
    check(0 < state["late"]["starts_in_s"] <= 4 * unit < state["late"]["ends_in_s"] <= 6 * unit
          and 6 * unit < state["long"]["ends_in_s"] + unit <= 9 * unit, f"times in status: {state.all['rules']}")
    scene.victim.begin("request", old, timeout=60)
    changes = timeline(armed + 8 * unit + 2)
    check_equal([met for met, _ in changes], [DENIED, UNREACHABLE, DENIED, NOBODY], "what was met, in order")
    for times, (met, at) in zip((4, 6, 8), changes[1:]):
        check(began + times * unit <= at <= armed + times * unit + 2,
              f"{met} came {at - began:.2f} s after load began, {at - armed:.2f} s after it ended, at {times * unit} s wanted")
    met = scene.victim.end(stop=False)
    check_equal(met["error"], None, "the request on the old connection")
    check(met["ms"] > 1000, f"the request on the old connection took {met['ms']} ms only")
    check(leftovers.bpf_count("chaos_") > 0, "without a process nothing cleans up, yet all is gone")
    state = chaos.status()  # the next command of any kind cleans up, and the last counters stay to be read
    check_equal({one["name"]: one["state"] for one in state.all["rules"]},
                {"late": "finished", "long": "finished", "silent": "finished"}, "states after the end")
    check(all(one["injected"] for one in state.all["rules"]), f"the counters are gone: {state.all['rules']}")
    wait_until(lambda: not leftovers.bpf_count("chaos_"), "programs and maps to go", seconds=10)


@alone
def the_reaper_cleans_up():
    """At the last deadline everything goes by itself."""
    chaos.load(chaos.rule("short", MATCH, {"refuse": "denied"}, duration="2s"))
    wait_until(lambda: not leftovers.bpf_count("chaos_") and not place.processes("chaosbpf"),
               "everything to go without a command", seconds=20, pause=0.2)


class at_clock:
    """with at_clock("2031-03-04 01:59:57"): the wall clock is set to that, and put right afterwards. UTC."""

    def __init__(self, text):
        self.to = calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S"))

    def __enter__(self):
        only_in_a_guest("sets the clock")
        self.was, self.since = time.time(), time.monotonic()
        time.clock_settime(time.CLOCK_REALTIME, self.to)

    def __exit__(self, *_):
        time.clock_settime(time.CLOCK_REALTIME, self.was + time.monotonic() - self.since)


def met_now():
    return scene.victim.connects(HOST, CLOSED, 1)[0]


@alone
def between_times():
    """2031-03-04 is a Tuesday. A window ends, the next begins, with no process alive; and a wrong day never does."""
    with at_clock("2031-03-04 01:59:20"):
        hour = {"between": "02:00-02:01", "duration": "48h"}
        chaos.load(chaos.rule("ends", MATCH, {"refuse": "denied"}, between="01:00-02:00", duration="48h"),
                   chaos.rule("never", MATCH, {"refuse": "refused"}, days=["mon", "wed"], **hour),
                   chaos.rule("begins", MATCH, {"refuse": "unreachable"}, days=["tue"], **hour))
        kill_everything()
        check_equal(met_now(), DENIED, "before the hour")
        state = chaos.status()
        check_equal([state[name]["state"] for name in ("ends", "begins", "never")], ["active", "waiting", "waiting"],
                    "states before the hour")
        check_equal(time.gmtime().tm_hour, 1, "the hour by now: this machine is too slow")
        wait_until(lambda: time.gmtime().tm_hour == 2, "the hour", seconds=60)
        check_equal(met_now(), UNREACHABLE, "after the hour")


@alone
def between_over_midnight():
    """A window belongs to the day on which it begins."""
    with at_clock("2031-03-04 00:30:00"):
        night = {"between": "23:00-01:00", "duration": "24h"}
        chaos.load(chaos.rule("tonight", MATCH, {"refuse": "denied"}, days=["tue"], **night),
                   chaos.rule("last-night", MATCH, {"refuse": "unreachable"}, days=["mon"], **night))
        check_equal(met_now(), UNREACHABLE, "half past midnight")
        check_equal(chaos.status()["tonight"]["state"], "waiting", "the window that begins this evening")


main(setup, lambda: scene and scene.close())
