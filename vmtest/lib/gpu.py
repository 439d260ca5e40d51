"""A process that allocates on a GPU that is not there: the stand-ins of tests/victims, called through ctypes as Python's own
GPU libraries are called, from one thread or many."""
import ctypes
import os
import threading

HERE = os.environ.get("VICTIMS") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/victims")
RUNTIME, DRIVER, STATIC = (os.path.join(HERE, name) for name in ("libcudart.so.12", "libcuda.so.1", "static-gpu"))

OK, OUT_OF_MEMORY = 0, 2
MIB = 1 << 20


class Extent(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t)]


class Pitched(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("pitch", ctypes.c_size_t), ("x", ctypes.c_size_t), ("y", ctypes.c_size_t)]


class Gpu:
    """What a worker of this kind can be told."""

    def __init__(self):
        self.stopping = threading.Event()
        self.driver = self.runtime = None
        self.blocks = []

    def open(self, runtime=RUNTIME):
        self.runtime = ctypes.CDLL(runtime)
        self.driver = ctypes.CDLL(DRIVER if runtime == RUNTIME else os.path.join(os.path.dirname(runtime), "libcuda.so.1"))
        self.driver.standin_bodies.restype = ctypes.c_ulong

    def bodies(self):
        """Allocations that the driver really made or refused."""
        return self.driver.standin_bodies()

    def once(self, function, size, out):
        """One call of an allocating function; `out` receives the address."""
        size_t, null = ctypes.c_size_t, ctypes.c_void_p()
        pointer = ctypes.byref(out)
        if function == "cudaMallocPitch":
            return self.runtime.cudaMallocPitch(pointer, ctypes.byref(size_t()), size_t(size // 16), size_t(16))
        if function == "cudaMalloc3D":
            pitched = Pitched()
            error = self.runtime.cudaMalloc3D(ctypes.byref(pitched), Extent(size // 64, 8, 8))
            out.value = pitched.address
            return error
        if function == "cudaMallocManaged":
            return self.runtime.cudaMallocManaged(pointer, size_t(size), 1)
        if function == "cudaMallocAsync":
            return self.runtime.cudaMallocAsync(pointer, size_t(size), null)
        if function == "cuMemCreate":
            return self.driver.cuMemCreate(pointer, size_t(size), null, ctypes.c_ulonglong(0))
        library = self.driver if function.startswith("cu") and not function.startswith("cuda") else self.runtime
        return getattr(library, function)(pointer, size_t(size))

    def allocate(self, function="cudaMalloc", size=MIB, times=1, keep=False):
        """Results, in order; a failed call must leave the pointer alone."""
        results = []
        for _ in range(times):
            out = ctypes.c_void_p(0x5A5A)
            error = self.once(function, size, out)
            if error and function != "cudaMalloc3D" and out.value != 0x5A5A:
                return ["the pointer was touched"]
            results.append(error)
            if not error and keep:
                self.blocks.append(out.value)
            elif not error:
                self.runtime.cudaFree(out)
        return results

    def free_all(self):
        for block in self.blocks:
            self.runtime.cudaFree(ctypes.c_void_p(block))
        self.blocks = []

    def errors(self):
        """What PyTorch asks after a failure: the last error twice without taking it, taken, and what is left."""
        return [self.runtime.cudaPeekAtLastError(), self.runtime.cudaPeekAtLastError(), self.runtime.cudaGetLastError(),
                self.runtime.cudaGetLastError()]

    def memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
        return [free.value, total.value]

    def many(self, threads, times, function="cudaMalloc", size=MIB):
        """Failures that all threads met together, and results that are neither."""
        counts = {OK: 0, OUT_OF_MEMORY: 0}
        lock = threading.Lock()

        def run():
            results = self.allocate(function, size, times)
            with lock:
                for result in results:
                    counts[result] = counts.get(result, 0) + 1

        running = [threading.Thread(target=run) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return [counts.pop(OK), counts.pop(OUT_OF_MEMORY), counts]

    def until_told(self, function="cudaMalloc", size=MIB):
        """Allocates in a loop; counts [good, failed, other]."""
        counts = [0, 0, 0]
        while not self.stopping.is_set():
            for result in self.allocate(function, size, 20):
                counts[0 if result == OK else 1 if result == OUT_OF_MEMORY else 2] += 1
        return counts
