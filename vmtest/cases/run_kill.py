#!/usr/bin/python3
# timeout: 1500
"""kill -9 of a `run` at random moments, from its first instruction to its verdict.

Nothing is left, the run is shown as interrupted, the database is whole, and the next run works. KILLS says how often (40).
"""
import ctypes
import os
import random
import time

import chaos
import experiments
import leftovers
import place
from case import alone, check, check_equal, main, wait_until
from experiments import REFUSED, Variant, experiment, history, run

# The last counters of a load that is over stay for `status`, until `stop`.
LEFT = [name for name in leftovers.PARTS if name != "state"]
KILLS = int(os.environ.get("KILLS", "40"))

# Asked so often, by one without a breaker, that the faults are met for sure: a run whose faults hit nothing is an error.
SHORT = {"baseline": "1s", "observe": "2s", "recovery": "{ within: 60s, for: 1s }", "cooldown": "500ms", "during": None,
         "probes": f"[{experiments.probe(every='250ms')}]"}


def integrity(path):
    """What PRAGMA integrity_check says, in the library that the program uses: Python's own is not in every guest."""
    sqlite = ctypes.CDLL("libsqlite3.so.0")
    said = []
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p),
                                ctypes.c_void_p)(lambda _, count, columns, __: said.append(columns[0].decode()) or 0)
    db = ctypes.c_void_p()
    sqlite.sqlite3_open(path.encode(), ctypes.byref(db))
    for pragma in (b"PRAGMA integrity_check", b"PRAGMA foreign_key_check"):
        code = sqlite.sqlite3_exec(db, pragma, callback, None, None)
        if code:
            said.append(f"error {code}")
    sqlite.sqlite3_close(db)
    return said


def kill(path, after):
    """Ends a run like that, unless it has come to its end before."""
    process = chaos.start("run", "--json", path)
    time.sleep(after)
    process.kill()
    process.communicate()


def look(before, database):
    """After each: what the kernel ended by itself, and what the next command finds."""
    wait_until(lambda: not place.processes("chaosbpf-holder"), "the kernel to end the holder of the faults")
    wait_until(lambda: not place.processes(experiments.COMMAND), "the kernel to end the run's commands")
    wait_until(lambda: experiments.answers(experiments.VECTORS), "the database to be reachable again")
    check_equal(chaos.status().all["loaded"], False, "loaded after kill -9")
    leftovers.assert_nothing_left(before, LEFT)
    check_equal(integrity(database), ["ok"], "integrity of the database")


@alone
def at_random_moments():
    method = f"\n  - {{ exec: {experiments.command()}, background: true }}" + REFUSED
    path = experiment("killed", method, **SHORT)
    database = os.environ["CHAOSBPF_DATABASE"]
    before = leftovers.snapshot()
    with Variant("retries"):
        took = time.monotonic()
        check_equal(run(path).code, 0, "exit code of a run that nobody kills")
        took = time.monotonic() - took
        known = len(history())
        for turn in range(KILLS):
            after = random.uniform(0, took)
            kill(path, after)
            look(before, database)
            if turn % 10 == 9:
                print(f"    {turn + 1}: after {after:.2f} of {took:.2f} s", flush=True)
        verdicts = [one["verdict"] for one in history()[:-known]]
        check(set(verdicts) <= {"interrupted", "held"} and len(verdicts) <= KILLS, f"verdicts of runs: {verdicts}")
        check(verdicts.count("interrupted") >= KILLS / 8, f"too few were killed in the middle: {verdicts}")
        check_equal(run(path).code, 0, "exit code of the next run")


main(experiments.begin, experiments.end)
