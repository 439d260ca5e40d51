#!/usr/bin/python3
# timeout: 300
"""GPU out of memory wherever the library lies: in another mount namespace, without symbols, in a program that was executed. And
what is said where nothing can be done."""
import ctypes
import os
import shutil
import subprocess

import chaos
import place
from case import alone, check, check_equal, main, skip, wait_until
from gpu import DRIVER, HERE, OK, OUT_OF_MEMORY, RUNTIME, STATIC, Gpu
from worker import Worker

CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = 0x44000
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
FAIL, GOOD = OUT_OF_MEMORY, OK
ELSEWHERE = "/run/gpu-case"

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
by_probe = False  # registers are written by the probe: nobody is traced


class Inside(Gpu):
    """One with a mount namespace of its own, and the libraries where nobody else has a file."""

    def move(self):
        if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None):
            raise OSError(ctypes.get_errno(), "unshare")
        if libc.mount(b"tmpfs", ELSEWHERE.encode(), b"tmpfs", 0, None):
            raise OSError(ctypes.get_errno(), "mount")
        for path in (RUNTIME, DRIVER):
            shutil.copy(path, ELSEWHERE)

    def open_here(self):
        self.open(ELSEWHERE + "/libcudart.so.12")


def setup():
    global by_probe
    if not chaos.doctor("faults")["gpu-oom"]:
        skip("this kernel cannot do gpu-oom")
    by_probe = chaos.doctor("features")["probe-registers"]
    os.makedirs(ELSEWHERE, exist_ok=True)
    for name in ("victim", "neighbour"):
        place.make_cgroup(f"case/{name}")


def teardown():
    place.remove_cgroup("case")
    shutil.rmtree(ELSEWHERE, ignore_errors=True)


def oom(**keys):
    return chaos.rule("oom", {"cgroup": "case/victim"}, {"gpu-oom": {"failures": 1}}, **keys)


@alone
def second_mount_namespace():
    """The same path leads nowhere from here. A neighbour in that namespace has the same file open."""
    victim = Worker(Inside, cgroup="case/victim")
    victim.move()
    neighbour, late = victim.fork(cgroup="case/neighbour"), victim.fork(cgroup="case/victim")
    for worker in (victim, neighbour):
        worker.open_here()
    check(not os.path.exists(ELSEWHERE + "/libcudart.so.12"), "the file is there for us, too")
    chaos.load(oom())
    check_equal(victim.allocate(times=5), [FAIL] * 5, "the victim")
    check_equal(neighbour.allocate(times=5), [GOOD] * 5, "the neighbour")
    check_equal(chaos.status()["oom"]["injected"], 5, "injected")
    late.open_here()
    wait_until(lambda: late.allocate() == [FAIL], "one that opens it after the load", 20)
    check_equal(neighbour.allocate(times=5), [GOOD] * 5, "the neighbour, still")
    for worker in (late, neighbour, victim):
        worker.kill()


@alone
def stripped_library():
    """What it exports is enough."""
    victim, neighbour = Worker(Gpu, cgroup="case/victim"), Worker(Gpu, cgroup="case/neighbour")
    for worker in (victim, neighbour):
        worker.open(os.path.join(HERE, "stripped/libcudart.so.12"))
    chaos.load(oom())
    check_equal(victim.allocate(times=5) + victim.allocate("cuMemCreate", times=2), [FAIL] * 7, "the victim")
    check_equal(neighbour.allocate(times=5), [GOOD] * 5, "the neighbour")
    check_equal(chaos.status()["oom"]["injected"], 7, "injected")
    for worker in (victim, neighbour):
        worker.kill()


def begin(path, count, *more):
    """A static program in the victim's cgroup, that waits for a byte."""
    running = subprocess.Popen([path, str(count), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    running.stdout.readline()
    place.enter_cgroup("case/victim", running.pid)
    return running


@alone
def stripped_program():
    """With the runtime inside, and no symbols: nothing leads to its functions. `status` says that no call was seen."""
    running = begin(os.path.join(HERE, "static-stripped"), 20)
    chaos.load(oom())
    check_equal(running.communicate("\n")[0].split(), ["ok", "20", "failed", "0", "bodies", "20"], "what it saw")
    check_equal(chaos.status()["oom"]["injected"], 0, "injected")
    said = chaos.chaos("status").out
    check("no file with such functions is open so far" in said, f"status: {said}")
    chaos.stop()
    known = begin(STATIC, 1)
    chaos.load(oom())
    said = chaos.chaos("status").out
    check("probes on 1 function, no calls so far" in said, f"status: {said}")
    known.communicate("\n")
    check("1 calls, 1 of them changed by us" in chaos.chaos("status").out, f"status: {said}")


@alone
def executed():
    """A shell of the rule that becomes the program: the process is the same, all that it has mapped is new."""
    shell = subprocess.Popen(["/bin/sh", "-c", f"echo ready; read line; exec {STATIC} 50 2"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, bufsize=1)
    check_equal(shell.stdout.readline(), "ready\n", "the shell")
    place.enter_cgroup("case/victim", shell.pid)
    known = begin(STATIC, 1)  # the file is known then
    chaos.load(oom())
    shell.stdin.write("go\n")
    check_equal(shell.stdout.readline(), "ready\n", "the program")
    said = shell.communicate("\n")[0].split()
    hit = chaos.status()["oom"]["injected"]
    check_equal(said, ["ok", str(100 - hit), "failed", str(hit), "bodies", str(100 - hit)], "what it saw")
    check_equal(hit + chaos.status()["oom"]["skipped"]["assist"], 100, "injected and skipped")
    check(hit > 0, "none was hit")
    known.communicate("\n")


@alone
def traced_by_somebody():
    """Where it has to be traced: refused, with whose it is. Where not, a tracer is no hindrance."""
    victim = Worker(Gpu, cgroup="case/victim")
    victim.open()
    if libc.ptrace(PTRACE_SEIZE, victim.pid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
    try:
        path = chaos.rules_file(oom())
        result = chaos.chaos("load", path)
        if by_probe:
            check_equal(result.code, 0, f"load: {result}")
            check_equal(victim.allocate(times=3), [FAIL] * 3, "traced and hit")
            chaos.stop()
            call = {"call": {"library": RUNTIME, "function": "cudaFree", "delay": "1s"}}
            path = chaos.rules_file(chaos.rule("late", {"cgroup": "case/victim"}, call))
            result = chaos.chaos("load", path)
        check_equal(result.code, 1, f"load: {result}")
        check(f"process {victim.pid} is already traced by process {os.getpid()}" in result.err, f"load: {result}")
        check_equal(chaos.status().all["rules"], [], "nothing is loaded")
        check_equal(victim.allocate(times=3), [GOOD] * 3, "nothing is hit")
    finally:
        libc.ptrace(PTRACE_INTERRUPT, victim.pid, None, None)
        os.waitpid(victim.pid, 0x40000000)
        libc.ptrace(PTRACE_DETACH, victim.pid, None, None)
    chaos.load(oom())
    check_equal(victim.allocate(times=3), [FAIL] * 3, "when it has been let go")
    victim.kill()


@alone
def check_names_the_way():
    """Which mechanism it will be, and what that costs."""
    plan = chaos.chaos("check", "-", "--json", text=chaos.rules_text(oom())).json["rules"][0]
    words = "sends it back at once" if by_probe else "a process that traces it sends it back"
    check(words in plan["mechanism"], f"check: {plan}")
    check("costs" in plan["note"] and ("other tracer" in plan["note"]) != by_probe, f"check: {plan}")


main(setup, teardown)
