#!/usr/bin/python3
# timeout: 300
"""GPU out of memory: exactly the named process is told so, exactly as often as asked, and its library never ran.

Runs on stand-ins for the runtime and the driver (tests/victims). What a caller sees is compared with how often the bodies
of the functions ran, and with the counters.
"""
import os
import shutil
import subprocess
import tempfile
import time

import chaos
import place
from case import alone, check, check_equal, expect, main, part, skip, wait_until
from gpu import DRIVER, MIB, OK, OUT_OF_MEMORY, RUNTIME, STATIC, Gpu
from worker import Worker

FAIL, GOOD = OUT_OF_MEMORY, OK
KINDS = ("cudaMalloc", "cudaMallocManaged", "cudaMallocAsync", "cudaMallocPitch", "cudaMalloc3D", "cuMemAlloc_v2", "cuMemCreate")

victims = {}
neighbour = None


def gpu(cgroup, **where):
    worker = Worker(Gpu, cgroup=cgroup, **where)
    worker.open()
    return worker


def setup():
    global neighbour
    if not chaos.doctor("faults")["gpu-oom"]:
        skip("this kernel cannot do gpu-oom")
    for name in ("all", "small", "row", "seldom", "budget", "ceiling", "late", "neighbour"):
        place.make_cgroup(f"case/{name}")
    for name in ("all", "small", "row", "seldom", "budget", "ceiling"):
        victims[name] = gpu(f"case/{name}")
    neighbour = gpu("case/neighbour")


def teardown():
    place.remove_cgroup("case")


def too_busy_for_the_assist(name):
    """Without a sign of life for a second the assist is not relied on: on a machine that is so busy, calls are skipped."""
    return chaos.status()[name]["skipped"]["assist"]


def rule(name, fault=True, **keys):
    return chaos.rule(name, {"cgroup": f"case/{name}"}, {"gpu-oom": fault}, **keys)


def rules():
    return [rule("all", {"failures": 1}), rule("small", {"min-size": "64MiB", "failures": 1}), rule("row", percent=20, seed=7),
            rule("seldom", {"failures": 1}, percent=30, seed=11), rule("budget", {"failures": 1}, max_hits=37),
            rule("ceiling", {"above": "10MiB", "failures": 1}), rule("late", {"failures": 1})]


@part
def every_function():
    victim = victims["all"]
    before = victim.bodies()
    for kind in KINDS:
        check_equal(victim.allocate(kind, times=5), [FAIL] * 5, kind)
        check_equal(neighbour.allocate(kind, times=5), [GOOD] * 5, f"{kind}: the neighbour")
        expect("all", 5)
    check_equal(victim.bodies(), before, "bodies that ran for calls that failed")


@part
def last_error():
    """Who looks at the last error alone hears of it as well, once."""
    victim = victims["all"]
    victim.errors()
    check_equal(victim.allocate(), [FAIL], "cudaMalloc")
    check_equal(victim.errors(), [FAIL, FAIL, FAIL, GOOD], "peek, peek, get, get")
    check_equal(victim.allocate("cuMemAlloc_v2"), [FAIL], "cuMemAlloc_v2")
    check_equal(victim.errors(), [GOOD] * 4, "the driver keeps no last error")
    check_equal(neighbour.errors(), [GOOD] * 4, "the neighbour's")
    expect("all", 2)


@part
def small_ones_succeed():
    victim = victims["small"]
    check_equal(victim.allocate(size=64 * MIB - 1), [GOOD], "one byte less")
    check_equal(victim.allocate(size=64 * MIB), [FAIL], "64 MiB")
    check_equal(victim.allocate("cudaMallocPitch", size=64 * MIB), [FAIL], "width * height")
    check_equal(victim.allocate("cudaMalloc3D", size=64 * MIB), [FAIL], "width * height * depth")
    check_equal(victim.allocate("cudaMalloc3D", size=32 * MIB), [GOOD], "half of that")
    expect("small", 3)


@part
def three_in_a_row():
    """What a caching allocator that tries again hears of."""
    results = "".join("x" if result else "." for result in victims["row"].allocate(times=600))
    if too_busy_for_the_assist("row"):
        expect("row", (state := chaos.status()["row"])["injected"], state["skipped"])
        skip("the machine is too busy: calls were skipped")
    runs = [run for run in results.rstrip("x").split(".") if run]
    check(all(len(run) % 3 == 0 for run in runs), f"runs of failures: {sorted({len(run) for run in runs})}")
    hits = -(-results.count("x") // 3)  # the last row may not be through
    check(40 <= hits <= 130, f"{hits} of about {600 / (1 / 0.2 + 2):.0f}")
    expect("row", hits, {"percent": results.count(".")})


@part
def percent_by_seed():
    """Many threads; the same seed picks the same calls of a thread again, which seed_again() looks at."""
    good, bad, other = victims["seldom"].many(4, 250)
    check_equal(other, {}, "other results")
    check_equal(good + bad, 1000, "calls")
    check(220 <= bad <= 380, f"{bad} of 1000 at 30 %")
    expect("seldom", bad, {"percent": good})
    check_equal(neighbour.many(4, 250), [1000, 0, {}], "the neighbour")


@part
def budget_is_exact():
    good, bad, other = victims["budget"].many(8, 40)
    check_equal([good, bad, other], [320 - 37, 37, {}], "of 320 calls by eight threads")
    # a thread may come to an empty budget before that is known to all
    expect("budget", 37, {"max-hits": chaos.status()["budget"]["skipped"]["max-hits"]})


@part
def ceiling():
    """What a process holds counts, what it gave back does not, and the library says the same."""
    victim = victims["ceiling"]
    check_equal(victim.allocate(size=4 * MIB, times=3, keep=True), [GOOD, GOOD, FAIL], "4 MiB three times below 10 MiB")
    free, total = victim.memory()
    if chaos.doctor("features").get("write-user"):
        check_equal([free, total], [2 * MIB, 10 * MIB], "cudaMemGetInfo")
    check_equal(victim.allocate(size=2 * MIB, keep=True), [GOOD], "exactly what is left")
    check_equal(victim.allocate(size=1), [FAIL], "one byte more")
    victim.free_all()
    check_equal(victim.allocate(size=10 * MIB, times=2), [GOOD, GOOD], "all of it, given back in between")
    check_equal(neighbour.memory()[1], 80 << 30, "the neighbour's memory")
    expect("ceiling", 2)


@part
def opened_after_the_load():
    """A process that starts, and opens its library, while the rules are loaded."""
    late = gpu("case/late")
    wait_until(lambda: late.allocate()[0] == FAIL, "the library is found", 20)
    child = late.fork()
    wait_until(lambda: child.allocate()[0] == FAIL, "a child's", 20)
    before = chaos.status()["late"]["injected"]
    check_equal(late.many(3, 20), [0, 60, {}], "threads that are new")
    check_equal(child.allocate(times=10), [FAIL] * 10, "the child")
    after = chaos.status()["late"]
    check_equal(after["injected"] - before, 70, "counted")
    expect("late", after["injected"], {"assist": after["skipped"]["assist"]})  # of those before it was traced
    child.kill()
    late.kill()


@part
def files_in_status():
    """Which files are hooked, and what was seen there."""
    files = {os.path.basename(one["file"]): one for one in chaos.status().all["probes"]}
    check({"libcudart.so.12", "libcuda.so.1"} <= set(files), f"files {sorted(files)}")
    check(files["libcudart.so.12"]["functions"] >= 5, f"functions {files['libcudart.so.12']}")
    check(files["libcudart.so.12"]["calls"] > files["libcudart.so.12"]["injected"] > 0, f"{files['libcudart.so.12']}")


def one_rule(**keys):
    chaos.load(chaos.rule("oom", {"cgroup": "case/all"}, {"gpu-oom": {"failures": 1}}, **keys))


@alone
def seed_again():
    victim, results = victims["seldom"], []
    for _ in range(2):
        chaos.load(chaos.rule("oom", {"cgroup": "case/seldom"}, {"gpu-oom": {"failures": 1}}, percent=30, seed=11))
        results.append(victim.allocate(times=200))
        chaos.stop()
    check_equal(results[0], results[1], "the same calls")


@alone
def static_program():
    """The runtime linked into the program: local symbols, hit all the same."""
    place.make_cgroup("case/static")
    program = subprocess.Popen([STATIC, "200", "4"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    place.enter_cgroup("case/static", program.pid)
    chaos.load(chaos.rule("oom", {"cgroup": "case/static"}, {"gpu-oom": {"failures": 1}}, percent=50))
    said = program.communicate("\n")[0].split()
    numbers = dict(zip(said[::2], map(int, said[1::2])))
    hit = chaos.status()["oom"]["injected"]
    check_equal(numbers, {"ok": 800 - hit, "failed": hit, "bodies": 800 - hit}, "what the program saw")
    check(300 <= hit <= 500, f"{hit} of 800 at 50 %")
    place.remove_cgroup("case/static")


@alone
def replaced_file():
    """A library that was upgraded on disk: the process has the old one, which nothing leads to any more."""
    folder = tempfile.mkdtemp(prefix="victims.")
    try:
        for path in (RUNTIME, DRIVER):
            shutil.copy(path, folder)
        victim = Worker(Gpu, cgroup="case/all")
        victim.open(os.path.join(folder, "libcudart.so.12"))
        os.rename(shutil.copy(RUNTIME, folder + "/new"), os.path.join(folder, "libcudart.so.12"))
        os.unlink(os.path.join(folder, "libcuda.so.1"))
        one_rule()
        check_equal(victim.allocate(times=3), [FAIL] * 3, "through the deleted file")
        victim.kill()
    finally:
        shutil.rmtree(folder)


@alone
def end_of_the_rule():
    """The deadline ends it, with nobody there to do so."""
    one_rule(duration="4s")
    check_equal(victims["all"].allocate(times=3), [FAIL] * 3, "before")
    wait_until(lambda: victims["all"].allocate() == [GOOD], "the end", 20)
    check_equal(victims["all"].allocate(times=20), [GOOD] * 20, "after")


@alone
def killed_at_any_time():
    """kill -9 of every process of the load in a tight loop of calls: no hang, no death, no wrong result."""
    victim = victims["all"]
    for _ in range(int(os.environ.get("CASE_KILLS", "10"))):
        one_rule(percent=50)
        victim.begin("until_told")
        time.sleep(0.3)
        for pid in chaos.own_processes():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        time.sleep(0.2)
        good, bad, other = victim.end()
        check(good and not other, f"{good} good, {bad} failed, {other} others")
        chaos.stop()
    check_equal(victim.allocate(times=20), [GOOD] * 20, "after all that")


main(setup, teardown, rules)
