#!/usr/bin/python3
# guest: own
# timeout: 120
"""Hosts that forbid: what can still be done there is done, and all else is refused before it begins, with the reason.

Neither of the two locks can be opened again before the machine starts anew.
"""
import errno
import os

import chaos
import place
from case import alone, check, check_counters, check_equal, expect, main, skip
from scene import VICTIM, Scene
from worker import Worker
from zlib_calls import Zlib

SCOPE, LOCK = "/proc/sys/kernel/yama/ptrace_scope", "/sys/kernel/security/lockdown"
HOST, PORT, SECURE = "127.0.0.1", 8600, 8601

scene = zlib = files = None


class Files:
    """Its method runs where the worker is."""

    @staticmethod
    def opened(count):
        """Which error so many open() had, or None."""
        met = []
        for _ in range(count):
            try:
                os.close(os.open("/etc/hosts", os.O_RDONLY))
                met.append(None)
            except OSError as error:
                met.append(errno.errorcode[error.errno])
        return met


def setup():
    global scene, zlib, files
    scene = Scene(network=0)
    scene.near.listen(HOST, PORT)
    scene.near.listen(HOST, SECURE, "tls")
    zlib = Worker(Zlib, cgroup=VICTIM)
    zlib.open()
    files = Worker(Files, cgroup=VICTIM)


def write(path, word):
    if not os.path.exists(path):
        skip(f"this kernel has no {path}")
    with open(path, "w") as file:
        file.write(word)


def lock(level):
    """Downwards only, and to each level once."""
    if os.path.exists(LOCK) and f"[{level}]" in open(LOCK, encoding="ascii").read():
        return
    write(LOCK, level)


def call(**result):
    return chaos.rule("call", {"cgroup": VICTIM}, {"call": {"library": "libz.so.1", "function": "crc32", **result}}, max_hits=3)


def network():
    """One fault of each kind that asks nothing of the process."""
    return [chaos.rule("refuse", {"cgroup": VICTIM, "ports": [PORT]}, {"refuse": "refused"}),
            chaos.rule("errno", {"cgroup": VICTIM}, {"errno": {"operation": "open", "path": "/etc/hosts", "error": "EIO"}}, max_hits=2)]


def check_network():
    chaos.load(*network())
    check_equal(files.opened(3), ["EIO"] * 2 + [None], "files")
    expect("errno", 2)
    check_equal(scene.victim.connects(HOST, PORT, 3), ["ECONNREFUSED"] * 3, "connects")
    expect("refuse", 3)
    check_equal(scene.neighbour.connects(HOST, PORT, 2), [None] * 2, "the neighbour")
    check_counters()
    chaos.stop()


def check_refused(rule, words):
    """By check and by load, in the same words; and nothing is loaded."""
    path = chaos.rules_file(rule)
    for command in ("check", "load"):
        result = chaos.chaos(command, path)
        check_equal(result.code, 3, f"{command}: {result}")
        check(words in result.out + result.err, f"{command} says '{words}': {result}")
    os.unlink(path)
    check_equal(chaos.status().all["rules"], [], "rules that are loaded")


@alone
def nobody_may_be_traced():
    if not chaos.doctor("faults")["call"]:
        skip("this kernel cannot do call")
    write(SCOPE, "3")
    check_refused(call(returns=-1, errno="ENOSPC"), "kernel.yama.ptrace_scope is 3")
    check_network()


@alone
def nobody_may_be_traced_and_a_program_may_write():
    """A plain result needs nobody to be traced where a program may write registers; elsewhere it is refused."""
    path = chaos.rules_file(call(returns=5))
    possible = chaos.chaos("check", path).code == 0
    os.unlink(path)
    if not possible:
        check_refused(call(returns=5), "kernel.yama.ptrace_scope is 3")
        return
    chaos.load(call(returns=5))
    check_equal([zlib.crc()[0] for _ in range(3)], [5] * 3, "results")
    expect("call", 3)
    check_counters()
    chaos.stop()


@alone
def integrity():
    """Programs may not write into processes."""
    lock("integrity")
    check_equal(chaos.doctor("features")["write-user"], False, "what doctor says")
    check_network()


@alone
def integrity_inside_tls():
    """Requests are read there, and what is done to the connection is done; another answer would be written into the process."""
    def rule(name, path, fault):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [SECURE], "http": {"path": path}}, fault)

    lock("integrity")
    rules = [rule("reset", "/bytes/1", {"reset": True}), rule("status", "/bytes/2", {"status": 503})]
    path = chaos.rules_file(*rules)
    said = chaos.chaos("check", path, expect=0).out
    os.unlink(path)
    check("may not write the memory of processes here (lockdown)" in said, f"check: {said}")
    chaos.load(*rules)
    met = [scene.victim.get(HOST, SECURE, f"/bytes/{size}", tls="1.3") for size in (1, 2, 3)]
    check(met[0]["error"], f"the one that is reset: {met}")
    check_equal([(one["error"], one["status"]) for one in met[1:]], [(None, 200)] * 2, "the others")
    expect("reset", 1)
    expect("status", 0, {"encrypted": 1})
    check_counters()
    chaos.stop()


@alone
def confidentiality():
    """Nor read the kernel's memory, which every program of ours does."""
    lock("confidentiality")
    told = chaos.chaos("doctor", "--json")
    check(told.code != 0 and not any(one["here"] for one in told.json["faults"]), f"doctor: {told}")
    for rule in network():
        check_refused(rule, "locked down (confidentiality)")
    check_equal(scene.victim.connects(HOST, PORT, 2), [None] * 2, "connects")


main(setup, lambda: scene and scene.close())
