#!/usr/bin/python3
# timeout: 300
"""kill -9 of every chaosbpf process in a tight loop of calls that fail: nobody hangs, nobody dies, and every register is right.

The victim is a program in C that looks, after each call, at what a function must keep for its caller: registers, the stack pointer,
flags. CASE_KILLS says how often (40; over the five kernels that makes 200).
"""
import os
import random
import select
import signal
import subprocess
import time

import chaos
import place
from case import alone, check, check_equal, main, skip, wait_until
from gpu import HERE

KILLS = int(os.environ.get("CASE_KILLS", "40"))

victim = neighbour = None


class Tight:
    """It allocates as fast as it can, in so many threads, while it is let go."""

    def __init__(self, cgroup, threads):
        self.running = subprocess.Popen([os.path.join(HERE, "registers"), str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        place.enter_cgroup(cgroup, self.running.pid)

    def told(self, do=""):
        self.running.stdin.write(do + "\n")
        if not select.select([self.running.stdout], [], [], 60)[0]:
            raise AssertionError(f"process {self.running.pid} hangs")
        words = self.running.stdout.readline().split()
        return dict(zip(words[::2], map(int, words[1::2])))

    def goes_on(self, what, more):
        """Until it has made so many more calls, or met so many more failures."""
        before = self.told()[what]
        wait_until(lambda: self.told()[what] >= before + more, f"{more} more {what}", 60)

    def end(self):
        self.running.communicate()
        return self.running.returncode


def setup():
    global victim, neighbour
    if not chaos.doctor("faults")["gpu-oom"]:
        skip("this kernel cannot do gpu-oom")
    for name in ("victim", "neighbour"):
        place.make_cgroup(f"case/{name}")
    victim, neighbour = Tight("case/victim", 2), Tight("case/neighbour", 1)


def teardown():
    for program in (victim, neighbour):
        if program:
            program.running.kill()
            program.end()
    place.remove_cgroup("case")


@alone
def in_a_tight_loop():
    for turn in range(KILLS):
        chaos.load(chaos.rule("oom", {"cgroup": "case/victim"}, {"gpu-oom": {"failures": 1}}, percent=50))
        pids = chaos.own_processes()
        victim.told("g")
        neighbour.told("g")
        victim.goes_on("failed", 1)
        time.sleep(random.uniform(0, 0.05))
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        victim.goes_on("calls", 100)
        victim.told("s")
        neighbour.told("s")
        chaos.stop()
        if turn % 10 == 9:
            print(f"    {turn + 1}: {victim.told()}, the neighbour {neighbour.told()}", flush=True)
    victim.told("g")
    before = victim.told()["failed"]
    victim.goes_on("calls", 100)
    told, other = victim.told("s"), neighbour.told()
    check_equal([told["failed"] - before, told["other"], told["registers"]], [0, 0, 0], f"in the end, of {told}")
    check(told["failed"] >= KILLS, f"{told['failed']} failures")
    check_equal([other["failed"], other["other"], other["registers"]], [0, 0, 0], f"the neighbour, of {other}")
    check_equal([victim.end(), neighbour.end()], [0, 0], "exit codes")


main(setup, teardown)
