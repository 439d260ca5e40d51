"""A case: its parts, its checks, and the way it ends.

    @part
    def name():                             runs while the case's own rules are loaded (see main)
        check(x == 3, "three of them")      notes a failure and goes on
        expect("rule", injected=3)          what the counters must say in the end
        skip("no fq on this kernel")        leaves this part

    @alone
    def name():                             begins with nothing loaded, and may load what it likes

    main(setup, teardown, rules)            exit code 0, 1, or 77 when every part was skipped

Loading takes long under emulation, so parts share one load where they can: rules() gives its rules. After them the
counters and events are compared with what the parts expect, and after `stop` and after each lone part nothing may be
left (see leftovers.py).
"""
import fnmatch
import os
import random
import re
import sys
import time
import traceback

import chaos
import leftovers
import worker

SEED = int(os.environ.get("CASE_SEED", "0") or 0) or random.SystemRandom().randrange(1, 1 << 31)
KERNEL = tuple(int(n) for n in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
SLACK_MS = 1  # of the clock

random.seed(SEED)

shared, lone = [], []
failures = []
wanted = {}  # name of a rule: what its counters must be
owners = {}  # name of a rule: what its events must hold


class Skip(Exception):
    """Why a part cannot be had here."""


def part(function):
    shared.append(function)
    return function


def alone(function):
    lone.append(function)
    return function


def alone_as(name, function, *args):
    """One of several parts that differ in what they are given; with a name of its own, so that PART=name runs it alone."""
    def one():
        function(*args)
    one.__name__ = name.replace("-", "_")
    alone(one)


def skip(reason):
    raise Skip(reason)


def only_in_a_guest(what):
    if not os.path.isdir("/chaos"):
        skip(f"{what}: only in a guest")


# ---- checks

def check(good, message):
    """Notes a failure with the line that found it; returns whether it held."""
    if not good:
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__ or frame.f_code.co_name.startswith("check"):
            frame = frame.f_back
        failures.append(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: {message}")
        print("    not so:", failures[-1], flush=True)
    return bool(good)


def check_equal(got, expected, what):
    return check(got == expected, f"{what}: got {got!r}, wanted {expected!r}")


def lateness_ms():
    """How late a sleeper was at most of late, as the watchdog of the guest saw it; 0 without one."""
    try:
        with open("/run/lateness") as file:
            return max([float(line.split()[1]) for line in file.readlines()[-30:]] or [0])
    except OSError:
        return 0


def check_took(ms, floor_ms, what, room_ms=8000):
    """A time is held to a floor, and to a ceiling so generous that only a wrong program misses it."""
    check(ms >= floor_ms - SLACK_MS, f"{what}: took {ms} ms, never less than {floor_ms} wanted")
    ceiling = floor_ms * 1.3 + room_ms + 2 * lateness_ms()
    check(ms <= ceiling, f"{what}: took {ms} ms, asked were {floor_ms} (ceiling {ceiling:.0f})")


def wait_until(true, what, seconds=15, pause=0.02):
    """Waits for a condition; its value. Fails the part when it does not come."""
    end = time.monotonic() + seconds
    while True:
        value = true()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for: {what}")
        time.sleep(pause)


# ---- counters

def expect(name, injected, skipped=None, event=None):
    """Adds to what the counters of a rule must say: faults done, and those that were not, by reason.

    `event` holds what every event of that rule must hold."""
    sum_ = wanted.setdefault(name, {"injected": 0, "skipped": {}})
    sum_["injected"] += injected
    for reason, times in (skipped or {}).items():
        sum_["skipped"][reason] = sum_["skipped"].get(reason, 0) + times
    if event:
        owners.setdefault(name, {}).update(event)


def check_counters(state=None, happened=None):
    """The counters agree with themselves, with the events, and with what was expected."""
    state = state or chaos.status()
    happened = chaos.events(state) if happened is None else happened
    for problem in chaos.problems_of(state) + chaos.event_problems(state, happened):
        check(False, problem)
    for name, sums in wanted.items():
        rule = state[name]
        good = check_equal({"injected": rule["injected"], "skipped": {why: n for why, n in rule["skipped"].items() if n}},
                           {"injected": sums["injected"], "skipped": {why: n for why, n in sums["skipped"].items() if n}},
                           f"rule {name}: {rule['matched']} matched")
        if not good:
            for event in [event for event in happened if event["rule"] == name][:40]:
                print("       ", " ".join(f"{key}={value}" for key, value in event.items() if key != "rule"))
    for event in happened:
        for key, value in owners.get(event["rule"], {}).items():
            check_equal(event.get(key), value, f"event of {event['rule']}: {key}")


def counters_and_events():
    check_counters()


# ---- running

class Outcome:
    """Sums up the parts."""

    def __init__(self):
        self.good, self.bad, self.skipped = 0, [], []

    def run(self, name, function):
        """Runs one part; False when it failed."""
        del failures[:]
        start = time.monotonic()
        problem = None
        try:
            function()
        except Skip as reason:
            self.skipped.append(f"{name}: {reason}")
            print("skip", self.skipped[-1], flush=True)
            return True
        except Exception as error:  # pylint: disable=broad-except # reported
            traceback.print_exc(file=sys.stdout)
            problem = f"{type(error).__name__}: {error}"
        problem = failures[0] if failures else problem
        took = time.monotonic() - start
        if problem:
            self.bad.append(f"{name}: {problem}")
            print(f"FAIL {self.bad[-1]} ({took:.1f} s)", flush=True)
        else:
            self.good += 1
            print(f"ok {name} ({took:.1f} s)", flush=True)
        return not problem

    def finish(self):
        if self.bad:
            print(f"{len(self.bad)} of {len(self.bad) + self.good} parts failed:", "; ".join(self.bad))
            return 1
        if not self.good:
            print("; ".join(self.skipped) or "no part ran")
            return 77
        if self.skipped:
            print("left out:", "; ".join(self.skipped))
        return 0


def nothing_left(before, tidy=None):
    chaos.stop()
    if tidy:
        tidy()
    leftovers.assert_nothing_left(before)


def run_shared(outcome, parts, rules, before, tidy):
    loaded = outcome.run("load", lambda: chaos.load(*rules()))
    for function in parts if loaded else []:
        outcome.run(function.__name__, function)
    if loaded:
        outcome.run("counters and events", counters_and_events)
    outcome.run("stop leaves nothing", lambda: nothing_left(before, tidy))


def run_alone(outcome, function, before):
    wanted.clear()
    owners.clear()
    outcome.run(function.__name__, function)
    outcome.run(f"{function.__name__}: stop leaves nothing", lambda: nothing_left(before))


def main(setup=None, teardown=None, rules=None, tidy=None):
    """`rules` gives the rules that the parts share; `tidy` removes what they made, between `stop` and the last look.

    PART=name (a glob) runs some parts only."""
    def chosen(functions):
        return [function for function in functions if fnmatch.fnmatch(function.__name__, os.environ.get("PART", "*"))]

    outcome = Outcome()
    print(f"seed {SEED}", flush=True)
    try:
        if setup:
            setup()
        before = leftovers.snapshot()
        if chosen(shared):
            run_shared(outcome, chosen(shared), rules, before, tidy)
        for function in chosen(lone):
            run_alone(outcome, function, before)
    except Skip as reason:
        outcome.skipped.append(str(reason))
    finally:
        worker.kill_all()
        if teardown:
            teardown()
    sys.exit(outcome.finish())
