#!/usr/bin/python3
# timeout: 200
"""The real CUDA runtime, where one is installed: what is not injected answers as ever (35 without a driver), what is answers 2.

No GPU is needed. The runtime is looked for in $CUDART, in the usual folders, and where run.sh has put the host's.
"""
import ctypes
import glob
import os
import shutil
import subprocess
import tempfile
import threading

import chaos
import place
from case import alone, check, check_equal, expect, main, part, skip, wait_until
from worker import Worker

OUT_OF_MEMORY = 2
PLAIN = (0, 35)  # with a driver and a GPU; without a driver
FOLDERS = ("/chaos/cuda", "/usr/local/cuda*/lib64", "/usr/local/cuda*/lib", "/usr/lib/x86_64-linux-gnu", "/opt/cuda/lib64")
KINDS = ("cudaMalloc", "cudaMallocManaged", "cudaMallocAsync", "cudaMallocHost", "cudaMallocPitch")

victim = neighbour = None
runtime = ""

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int cudaMalloc(void **, size_t);
int main(int argc, char **argv)
{
	int results[64] = { 0 };
	puts("ready"), fflush(stdout), getchar();
	for (int i = 0, n = atoi(argv[argc - 1]); i < n; i++) {
		void *out = NULL;
		results[cudaMalloc(&out, 1 << 20) & 63]++;
	}
	printf("%d %d %d\\n", results[0], results[2], results[35]);
}
"""


def find(name):
    for folder in [os.path.dirname(os.environ.get("CUDART", "")) or "/nowhere", *FOLDERS]:
        found = sorted(glob.glob(f"{folder}/{name}"))
        if found:
            return found[-1]
    return None


class Cuda:
    """Calls the runtime as Python's own GPU libraries do."""

    def __init__(self):
        self.stopping = threading.Event()
        self.library = None

    def open(self, path):
        self.library = ctypes.CDLL(path)

    def allocate(self, kind="cudaMalloc", times=1):
        """Results; what a failed call did to the pointer is told as well."""
        results = []
        for _ in range(times):
            out, size, pitch = ctypes.c_void_p(0x5A5A), ctypes.c_size_t(1 << 20), ctypes.c_size_t()
            more = {"cudaMallocManaged": (1,), "cudaMallocAsync": (ctypes.c_void_p(),)}.get(kind, ())
            if kind == "cudaMallocPitch":
                result = self.library.cudaMallocPitch(ctypes.byref(out), ctypes.byref(pitch), size, ctypes.c_size_t(4))
            else:
                result = getattr(self.library, kind)(ctypes.byref(out), size, *more)
            results.append(result if not result or out.value == 0x5A5A else "the pointer was touched")
        return results

    def errors(self):
        return [self.library.cudaPeekAtLastError(), self.library.cudaGetLastError(), self.library.cudaGetLastError()]

    def many(self, threads, times):
        counts, lock = {}, threading.Lock()

        def run():
            for result in self.allocate(times=times):
                with lock:
                    counts[str(result)] = counts.get(str(result), 0) + 1

        running = [threading.Thread(target=run) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return counts


def setup():
    global victim, neighbour, runtime
    if not chaos.doctor("faults")["gpu-oom"]:
        skip("this kernel cannot do gpu-oom")
    runtime = find("libcudart.so.[0-9]*") or os.environ.get("CUDART")
    if not runtime:
        skip("no CUDA runtime is installed: $CUDART can name one")
    for name in ("victim", "neighbour", "half", "static"):
        place.make_cgroup(f"case/{name}")
    victim, neighbour = (Worker(Cuda, cgroup=f"case/{name}") for name in ("victim", "neighbour"))
    for worker in (victim, neighbour):
        worker.open(runtime)
    plain = neighbour.allocate()
    check(plain[0] in PLAIN, f"{runtime} answers {plain}")
    print(f"{runtime} answers {plain}", flush=True)


def teardown():
    place.remove_cgroup("case")


def rule(name, cgroup, **keys):
    return chaos.rule(name, {"cgroup": f"case/{cgroup}"}, {"gpu-oom": {"failures": 1}}, **keys)


def rules():
    return [rule("all", "victim"), rule("half", "half", percent=50, seed=3)]


@part
def every_function():
    for kind in KINDS:
        check_equal(victim.allocate(kind, 4), [OUT_OF_MEMORY] * 4, kind)
        check(all(result in PLAIN for result in neighbour.allocate(kind, 2)), f"{kind}: the neighbour")
        expect("all", 4)


@part
def last_error():
    """Ours once; afterwards what the runtime says itself."""
    check_equal(victim.allocate(), [OUT_OF_MEMORY], "cudaMalloc")
    told = victim.errors()
    check_equal(told[:2], [OUT_OF_MEMORY] * 2, "peek and get")
    check(told[2] in PLAIN, f"and then {told[2]}")
    expect("all", 1)


@part
def threads_at_half():
    """Every call is either ours or the runtime's own answer, as often as the counters say."""
    half = Worker(Cuda, cgroup="case/half")
    half.open(runtime)
    wait_until(lambda: chaos.status()["half"]["seen"] or half.allocate(), "its calls are seen", 20)
    wait_until(lambda: (before := chaos.status()["half"])["skipped"]["assist"] == 0 or half.allocate()
               and chaos.status()["half"]["skipped"]["assist"] == before["skipped"]["assist"], "it is traced, if it must be", 20)
    before = chaos.status()["half"]
    counts = half.many(4, 100)
    after = chaos.status()["half"]
    hit = after["injected"] - before["injected"]
    check_equal(counts.get(str(OUT_OF_MEMORY), 0), hit, f"of {counts}")
    check_equal(sum(counts.get(str(plain), 0) for plain in PLAIN), 400 - hit, f"of {counts}")
    check(100 <= hit <= 300, f"{hit} of 400 at 50 %")
    expect("half", after["injected"], {why: n for why, n in after["skipped"].items() if n})
    half.kill()


@alone
def static_runtime():
    """As nvcc links it by default: local symbols in the program's own file."""
    archive = find("libcudart_static.a")
    if not archive or not shutil.which("cc"):
        skip("no libcudart_static.a, or no compiler")
    folder = tempfile.mkdtemp(prefix="cuda.")
    try:
        with open(folder + "/p.c", "w") as file:
            file.write(PROGRAM)
        place.run("cc", "-O1", "-o", folder + "/program", folder + "/p.c", archive, "-lpthread", "-ldl", "-lrt")
        program = subprocess.Popen([folder + "/program", "50"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        program.stdout.readline()
        place.enter_cgroup("case/static", program.pid)
        chaos.load(chaos.rule("oom", {"cgroup": "case/static"}, {"gpu-oom": {"failures": 1}}, max_hits=20))
        said = [int(word) for word in program.communicate("\n")[0].split()]
        state = chaos.status()["oom"]
        check_equal((said[1], said[0] + said[2]), (20, 30), "out of memory, and the runtime's own answer")
        check_equal(state["injected"], 20, "injected")
    finally:
        shutil.rmtree(folder)


main(setup, teardown, rules)
