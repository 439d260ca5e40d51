#!/usr/bin/python3
# timeout: 300
"""Calls that fail with an errno, and calls that take their time: exactly those, in that thread, once, and not for longer
than the rule lasts."""
import errno
import os
import signal
import subprocess
import time

import chaos
import place
from case import alone, check, check_equal, check_took, expect, main, part, skip, wait_until
from gpu import HERE
from worker import Lost, Worker
from zlib_calls import Zlib

CEILING = 20000  # ms, of what is to happen at once: an emulated machine that is busy with others

victim = slow = neighbour = None
TRUE_CRC = 0  # looked at in setup()
WRONG = (1 << 64) - 1


def zlib(cgroup):
    worker = Worker(Zlib, cgroup=cgroup)
    worker.open()
    return worker


def setup():
    global victim, slow, neighbour, TRUE_CRC
    if not chaos.doctor("faults")["call"]:
        skip("this kernel cannot do call")
    for name in ("victim", "slow", "neighbour", "program"):
        place.make_cgroup(f"case/{name}")
    victim, slow, neighbour = zlib("case/victim"), zlib("case/slow"), zlib("case/neighbour")
    TRUE_CRC = neighbour.crc()[0]


def teardown():
    place.remove_cgroup("case")


def rule(name, cgroup, call, **keys):
    return chaos.rule(name, {"cgroup": f"case/{cgroup}"}, {"call": {"library": "libz.so.1", "function": "crc32", **call}}, **keys)


def rules():
    return [rule("disk", "victim", {"returns": -1, "errno": "ENOSPC"}, max_hits=7), rule("late", "slow", {"delay": "1s"}, max_hits=2)]


@part
def errno_is_set():
    """In the calling thread, with the result; and not when the call is not hit."""
    told = victim.crc_with_errno(10)
    check_equal(told, [[WRONG, "ENOSPC"]] * 7 + [[TRUE_CRC, 0]] * 3, "seven of ten")
    check_equal(neighbour.crc_with_errno(3), [[TRUE_CRC, 0]] * 3, "the neighbour")
    expect("disk", 7, event={"function": "crc32", "error": "ENOSPC"})


@part
def a_call_takes_time():
    """The function runs afterwards; nobody else waits: no thread beside it, no other process."""
    told, gap = slow.beside(0.2)
    check_equal(told[:2], [TRUE_CRC, 0], "result and errno")
    check_took(told[2], 1000, "the call", CEILING)
    check(gap < 700, f"a thread beside it was held up for {gap} ms")
    result, error, took = slow.crc_timed()
    check_equal([result, error], [TRUE_CRC, 0], "result and errno of the second")
    check_took(took, 1000, "the second", CEILING)
    check(slow.crc_timed()[2] < 900, "the third is not hit")
    check(neighbour.crc_timed()[2] < 900, "the neighbour")
    expect("late", 2, event={"function": "crc32", "delay_ms": 1000})


@alone
def the_c_library_itself():
    chaos.load(chaos.rule("load", {"cgroup": "case/victim"}, {"call": {"library": "libc.so.6", "function": "getloadavg", "returns": -1,
                                                                      "errno": "EACCES"}}, max_hits=1))
    check_equal([victim.libc_with_errno(), victim.libc_with_errno()[1]], [[-1, "EACCES"], 0], "once")
    check_equal(neighbour.libc_with_errno()[1], 0, "the neighbour")


@alone
def two_wait_at_once():
    """One waits, and another process of the rule, and calls of other rules are served meanwhile."""
    chaos.load(rule("late", "slow", {"delay": "4s"}, max_hits=1), rule("soon", "victim", {"returns": 5, "errno": "EIO"}))
    slow.begin("crc_timed")
    wait_until(lambda: chaos.status()["late"]["injected"] == 1, "one waits")
    begun = time.monotonic()
    check_equal(victim.crc_with_errno(20), [[5, "EIO"]] * 20, "others")
    others = time.monotonic() - begun
    result, error, took = slow.end()
    check_equal([result, error], [TRUE_CRC, 0], "result and errno")
    check_took(took, 4000, "the call", CEILING + 4000)
    check(1000 * others < took, "others did not wait for it")
    check_equal(chaos.status()["late"]["injected"], 1, "once")


@alone
def slow_and_failing():
    chaos.load(rule("both", "slow", {"delay": "700ms", "returns": "null", "errno": "ETIMEDOUT"}, max_hits=1))
    result, error, took = slow.crc_timed()
    check_equal([result, error], [0, "ETIMEDOUT"], "result and errno")
    check_took(took, 700, "the call", CEILING)
    check_equal(slow.crc_with_errno(), [[TRUE_CRC, 0]], "the next")


@alone
def many_threads():
    """Exact with all threads at once; of those that are held, each function runs once."""
    chaos.load(rule("some", "victim", {"returns": -1, "errno": "EIO"}, percent=50), rule("late", "slow", {"delay": "2ms"}))
    met = victim.crc_of_many(4, 50)
    state = chaos.status()["some"]
    skipped = state["skipped"]["assist"]
    hit = met.get(f"{WRONG} EIO", 0)
    check_equal(met, {f"{WRONG} EIO": hit, f"{TRUE_CRC} 0": 200 - hit}, "what they met")
    check_equal((state["seen"], state["injected"], state["skipped"]["percent"]), (200, hit, 200 - hit - skipped), "counters")
    check(40 <= hit + skipped <= 160, f"{hit} of 200 at 50 %")
    check_equal(slow.crc_of_many(4, 50), {f"{TRUE_CRC} 0": 200}, "those that were held")
    state = chaos.status()["late"]
    check_equal((state["seen"], state["injected"] + state["skipped"]["assist"]), (200, 200), "counters of those")


@alone
def static_and_dynamic_programs():
    """Where the program brings its errno along, and where libc.so has it; a function that is not exported."""
    for program in ("errno-program", "static-errno"):
        path = os.path.join(HERE, program)
        running = subprocess.Popen([path, "100", "4"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.stdout.readline()
        place.enter_cgroup("case/program", running.pid)
        chaos.load(chaos.rule("fetch", {"cgroup": "case/program"}, {"call": {"library": path, "function": "fetch", "returns": -1,
                                                                           "errno": "ENODATA"}}, percent=50))
        said = running.communicate("\n")[0].split()
        numbers = dict(zip(said[::2], map(int, said[1::2])))
        state = chaos.status()["fetch"]
        check_equal(numbers, {"ok": 400 - state["injected"], "failed": state["injected"], "other": 0, "errno": errno.ENODATA},
                    f"{program}: what it saw")
        check(100 <= state["injected"] + state["skipped"]["assist"] <= 300, f"{program}: {state['injected']} of 400 at 50 %")
        chaos.stop()


@alone
def a_program_that_begins_later():
    """Its C library is found when the first call is stopped."""
    path = os.path.join(HERE, "errno-program")
    chaos.load(chaos.rule("fetch", {"cgroup": "case/program"}, {"call": {"library": path, "function": "fetch", "returns": -1,
                                                                       "errno": "ENODATA"}}))
    running = subprocess.Popen(["sh", "-c", f"echo $$ > {place.CGROUP}/case/program/cgroup.procs; exec {path} 20 2"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    running.stdout.readline()
    wait_until(lambda: "TracerPid:\t0\n" not in open(f"/proc/{running.pid}/status").read(), "it is traced", 20)
    said = running.communicate("\n")[0].split()
    state = chaos.status()["fetch"]
    check_equal(said, ["ok", str(40 - state["injected"]), "failed", str(state["injected"]), "other", "0", "errno",
                       str(errno.ENODATA)], "what it saw")
    check(state["injected"] > 0, "none was hit")
    check_equal(state["injected"] + state["skipped"]["assist"], 40, "injected and skipped")


def held(*rules_, of=None):
    """A call of the victim that waits; begun after these rules were loaded."""
    chaos.load(*rules_)
    (of or slow).begin("crc_timed")
    wait_until(lambda: chaos.status()["late"]["injected"] == 1, "it waits")


def ends_well(what, ceiling=CEILING):
    result, error, took = slow.end(wait=120)
    check_equal([result, error], [TRUE_CRC, 0], f"{what}: result and errno")
    check(took < ceiling, f"{what}: the call took {took} ms")


@alone
def ends_with_stop():
    held(rule("late", "slow", {"delay": "90s"}))
    chaos.stop()
    ends_well("stop")


@alone
def ends_with_its_rule():
    """At its deadline, and when it is unloaded; another rule goes on."""
    begun = time.monotonic()
    held(rule("late", "slow", {"delay": "90s"}, duration="5s"), rule("other", "victim", {"returns": 3}))
    ends_well("deadline", CEILING + 5000)
    check(time.monotonic() - begun > 4, "not before the deadline")
    check_equal(victim.crc(), [3], "the other rule")
    held(rule("late", "slow", {"delay": "90s"}), rule("other", "victim", {"returns": 3}))
    chaos.chaos("unload", "late", expect=0)
    ends_well("unload")
    check_equal(victim.crc(), [3], "the other rule")


@alone
def ends_with_another_load():
    held(rule("late", "slow", {"delay": "90s"}))
    chaos.load(rule("other", "victim", {"returns": 3}))
    ends_well("another load")
    check_equal(victim.crc() + slow.crc(), [3, TRUE_CRC], "the other rules")


@alone
def ends_with_kill_9():
    for _ in range(int(os.environ.get("CASE_KILLS", "3"))):
        held(rule("late", "slow", {"delay": "90s"}))
        for pid in chaos.own_processes():
            os.kill(pid, signal.SIGKILL)
        ends_well("kill -9")
        check_equal(slow.crc_with_errno(3), [[TRUE_CRC, 0]] * 3, "calls with nobody there")
        chaos.stop()


@alone
def one_that_waits_can_be_killed():
    other = zlib("case/slow")
    held(rule("late", "slow", {"delay": "90s"}), of=other)
    begun = time.monotonic()
    other.kill()
    check(time.monotonic() - begun < CEILING / 1000, "its end")
    chaos.stop()
    check_equal(slow.crc(), [TRUE_CRC], "another of the rule's")


@alone
def what_cannot_be():
    for call, words in (({"returns": -1, "errno": "ENOTREAL"}, "unknown errno 'ENOTREAL'"), ({"errno": "EIO", "delay": "1s"}, "returns"),
                        ({}, "'returns' or 'delay'"), ({"delay": "20m"}, "delay")):
        result = chaos.chaos("load", chaos.rules_file(rule("wrong", "victim", call)))
        check_equal(result.code, 2, f"{call}: {result}")
        check(words in result.err, f"{call}: {result}")


main(setup, teardown, rules)
