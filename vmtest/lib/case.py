"""A case: its parts, its checks, and the way it ends.

    @part
    def name():
        check(x == 3, "three of them")      notes a failure and goes on
        skip("no fq on this kernel")        leaves this part

    main()                                  runs the parts; exit code 0, 1, or 77 when every part was skipped

Each part begins with nothing loaded and ends with nothing left (chaos.stop, leftovers), which is checked as well.
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


class Skip(Exception):
    """Why a part cannot be had here."""


parts = []
failures = []


def part(function):
    parts.append(function)
    return function


def skip(reason):
    raise Skip(reason)


def only_in_a_guest(what):
    if not os.path.isdir("/chaos"):
        skip(f"{what}: only in a guest")


def check(good, message):
    """Notes a failure with the line that found it; returns whether it held."""
    if not good:
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__ or frame.f_code.co_name.startswith("check"):
            frame = frame.f_back
        failures.append(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: {message}")
        print("    not so:", failures[-1], flush=True)
    return bool(good)


def check_equal(got, wanted, what):
    return check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


def lateness_ms():
    """How late a sleeper was at most of late, as the watchdog of the guest saw it; 0 without one."""
    try:
        with open("/run/lateness") as file:
            return max([float(line.split()[1]) for line in file.readlines()[-30:]] or [0])
    except OSError:
        return 0


def check_took(ms, floor_ms, what, room_ms=2000):
    """A time is held to a floor, and to a ceiling so generous that only a wrong program misses it."""
    check(ms >= floor_ms - SLACK_MS, f"{what}: took {ms} ms, never less than {floor_ms} wanted")
    ceiling = floor_ms * 1.3 + room_ms + lateness_ms()
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


def run_part(function, before):
    """None when it went well, else what was wrong; Skip passes through."""
    del failures[:]
    start = time.monotonic()
    problem = None
    try:
        function()
    except Skip:
        raise
    except Exception as error:  # pylint: disable=broad-except # reported
        traceback.print_exc(file=sys.stdout)
        problem = f"{type(error).__name__}: {error}"
    finally:
        clean = clean_up(before)
    print(f"    {function.__name__}: {time.monotonic() - start:.1f} s", flush=True)
    return problem or (failures[0] if failures else None) or clean


def clean_up(before):
    """Stops what is loaded; what is left over is a failure."""
    try:
        chaos.stop()
        leftovers.assert_nothing_left(before)
    except Exception as error:  # pylint: disable=broad-except # reported
        print("    not so:", error, flush=True)
        return str(error)
    return None


def main(setup=None, teardown=None):
    wanted = os.environ.get("PART", "*")
    print(f"seed {SEED}", flush=True)
    bad, skipped, good = [], [], 0
    try:
        if setup:
            setup()
        before = leftovers.snapshot()
        for function in parts:
            if not fnmatch.fnmatch(function.__name__, wanted):
                continue
            try:
                problem = run_part(function, before)
            except Skip as reason:
                clean_up(before)
                skipped.append(f"{function.__name__}: {reason}")
                print("skip", skipped[-1], flush=True)
                continue
            if problem:
                bad.append(f"{function.__name__}: {problem}")
                print("FAIL", bad[-1], flush=True)
            else:
                good += 1
                print("ok", function.__name__, flush=True)
    except Skip as reason:
        skipped.append(str(reason))
    finally:
        worker.kill_all()
        if teardown:
            teardown()
    if bad:
        print(f"{len(bad)} of {len(bad) + good} parts failed:", "; ".join(bad))
        sys.exit(1)
    if not good:
        print("; ".join(skipped) or "no part ran")
        sys.exit(77)
    if skipped:
        print("left out:", "; ".join(skipped))
    sys.exit(0)
