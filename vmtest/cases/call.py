#!/usr/bin/python3
# timeout: 240
"""Functions of libraries return what the rule says: curl's own, zlib's through ctypes, in processes old and new."""
import os
import subprocess

import chaos
import place
from case import alone, check, check_equal, expect, main, part, skip, wait_until
from worker import Worker
from zlib_calls import Zlib

URL = "file://" + os.path.abspath(__file__)


TRUE_CRC = 0x9F6F8CD3  # of b"chaos"; looked at in setup()

victim = neighbour = None


def curl(cgroup):
    """Exit code of a curl that was started there."""
    return subprocess.run(["sh", "-c", f"echo $$ > {place.CGROUP}/{cgroup}/cgroup.procs; exec curl -s -o /dev/null {URL}"],
                          check=False).returncode


def zlib(cgroup):
    worker = Worker(Zlib, cgroup=cgroup)
    worker.open()
    return worker


def setup():
    global victim, neighbour, TRUE_CRC
    if not chaos.doctor("faults")["call"]:
        skip("this kernel cannot do call")
    for name in ("victim", "neighbour", "curl"):
        place.make_cgroup(f"case/{name}")
    victim, neighbour = zlib("case/victim"), zlib("case/neighbour")
    TRUE_CRC = neighbour.crc()[0]
    check_equal(curl("case/curl"), 0, "curl before")


def teardown():
    place.remove_cgroup("case")


def rule(name, cgroup, library, function, returns, **keys):
    return chaos.rule(name, {"cgroup": f"case/{cgroup}"},
                      {"call": {"library": library, "function": function, "returns": returns}}, **keys)


def rules():
    return [rule("pointer", "victim", "libz.so.1", "zlibVersion", "null"),
            rule("number", "victim", "libz", "crc32", -5, max_hits=7),
            rule("curl", "curl", "libcurl.so.4", "curl_easy_perform", 28)]


@part
def pointer_and_number():
    check_equal(victim.version(3), [False] * 3, "a pointer that is NULL")
    expect("pointer", 3)
    wrong = (1 << 64) - 5
    check_equal(victim.crc(10), [wrong] * 7 + [TRUE_CRC] * 3, "64 bits, seven times")
    expect("number", 7)
    check_equal(neighbour.version(3) + neighbour.crc(3), [True] * 3 + [TRUE_CRC] * 3, "the neighbour")


@part
def real_curl():
    """A program that begins after the load."""
    check_equal([curl("case/curl") for _ in range(3)], [28] * 3, "exit codes")
    check_equal([curl("case/neighbour") for _ in range(2)], [0] * 2, "the neighbour's")
    expect("curl", 3)


@alone
def command_under_rules():
    path = chaos.rules_file(rule("curl", "curl", "libcurl.so.4", "curl_easy_perform", 28))
    result = chaos.chaos("exec", path, "--", "curl", "-s", "-o", "/dev/null", URL)
    check_equal(result.code, 28, f"exec: {result}")


@alone
def what_cannot_be():
    """Said before anything is loaded, with the place in the file."""
    for library, function, code, words in (
            ("libz.so.1", "zlibVersoin", 2, "zlibVersion"), ("libnothere.so.3", "f", 2, "libnothere.so.3"),
            ("libc.so.6", "memcpy", 3, "IFUNC")):
        path = chaos.rules_file(rule("wrong", "victim", library, function, 1))
        result = chaos.chaos("load", path)
        check_equal(result.code, code, f"{library} {function}: {result}")
        check(words in result.err and path in result.err, f"{library} {function}: {result}")
    check_equal(chaos.status().all["rules"], [], "nothing is loaded")
    check_equal(victim.crc(), [TRUE_CRC], "nothing is hit")


@alone
def percent_and_seed():
    seen = []
    for _ in range(2):
        chaos.load(rule("half", "victim", "libz.so.1", "crc32", 1, percent=50, seed=5))
        seen.append(victim.crc(100))
        chaos.stop()
    check_equal(seen[0], seen[1], "the same calls with the same seed")
    check(30 <= seen[0].count(1) <= 70, f"{seen[0].count(1)} of 100 at 50 %")


@alone
def unload_ends_it():
    chaos.load(rule("one", "victim", "libz.so.1", "crc32", 1), rule("other", "victim", "libz.so.1", "zlibVersion", "null"))
    check_equal(victim.crc(), [1], "both are there")
    chaos.chaos("unload", "one", expect=0)
    wait_until(lambda: victim.crc() == [TRUE_CRC], "its end")
    check_equal(victim.version(), [False], "the other goes on")


main(setup, teardown, rules)
