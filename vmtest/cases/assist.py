#!/usr/bin/python3
# processors: in turn
# timeout: 300
"""The process that sets results where a probe cannot (user/inside/assist*.c), on this kernel: the tests of tests/bpf that are its.

Among them: 200 times kill -9 in a tight loop of calls, with every register that a function must keep, the stack pointer and
the flags looked at after each call; and one that is stuck is killed by its owner within two seconds.
"""
import os
import re
import subprocess
import sys

TESTS = os.path.join(os.path.dirname(os.environ.get("CHAOSBPF", "/chaos/build/chaosbpf")), "assist-tests")
MUST_RUN = ("assist_end::killed_in_a_tight_loop_of_calls", "assist_end::one_that_is_stuck_is_killed")

if not os.path.exists(TESTS):
    print("build/assist-tests is not there: it needs Criterion")
    sys.exit(77)
done = subprocess.run([TESTS, "-j1"], env={**os.environ, "CRITERION_VERBOSITY_LEVEL": "1"}, stdout=subprocess.PIPE,
                      stderr=subprocess.STDOUT, text=True, check=False, cwd="/tmp")
print("\n".join(line for line in done.stdout.splitlines() if not line.startswith("[RUN ]")))
missing = [name for name in MUST_RUN if f"[PASS] {name}" not in done.stdout]
sums = re.search(r"Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)", done.stdout)
if done.returncode or missing or not sums or sums[1] != sums[2]:
    bad = re.findall(r"\[(?:FAIL|CRASH)[^\]]*\] (\S+):", done.stdout)
    print(f"exit {done.returncode}, failed: {bad}, not passed: {missing}")
    sys.exit(1)
print(f"{sums[2]} tests")
