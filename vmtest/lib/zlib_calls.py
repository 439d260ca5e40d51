"""A process that calls zlib as a program that has linked it would: what the function returned, errno behind it, the time."""
import ctypes
import errno
import threading
import time


class Zlib:
    """What a worker of this kind can be told."""

    def __init__(self):
        self.stopping = threading.Event()
        self.library = None

    def open(self):
        self.library = ctypes.CDLL("libz.so.1", use_errno=True)
        self.library.zlibVersion.restype = ctypes.c_char_p
        self.library.crc32.restype = ctypes.c_ulong
        self.library.crc32.argtypes = [ctypes.c_ulong, ctypes.c_char_p, ctypes.c_uint]

    def version(self, times=1):
        return [self.library.zlibVersion() is not None for _ in range(times)]

    def crc(self, times=1):
        return [self.library.crc32(0, b"chaos", 5) for _ in range(times)]

    def crc_with_errno(self, times=1):
        """[result, name of errno or 0] of each call; errno is 0 before."""
        told = []
        for _ in range(times):
            ctypes.set_errno(0)
            result = self.library.crc32(0, b"chaos", 5)
            told.append([result, errno.errorcode.get(ctypes.get_errno(), 0)])
        return told

    def libc_with_errno(self):
        """[result, name of errno or 0] of a call of the C library itself."""
        libc, loads = ctypes.CDLL(None, use_errno=True), (ctypes.c_double * 3)()
        ctypes.set_errno(0)
        result = libc.getloadavg(loads, 3)
        return [result, errno.errorcode.get(ctypes.get_errno(), 0)]

    def crc_of_many(self, threads, times):
        """How often what was met, by all threads together, as "result errno"."""
        met, lock = {}, threading.Lock()

        def run():
            for told in self.crc_with_errno(times):
                with lock:
                    key = f"{told[0]} {told[1]}"
                    met[key] = met.get(key, 0) + 1

        running = [threading.Thread(target=run) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return met

    def crc_timed(self):
        """[result, name of errno or 0, milliseconds] of one call."""
        begun = time.monotonic()
        result, error = self.crc_with_errno()[0]
        return [result, error, round(1000 * (time.monotonic() - begun))]

    def beside(self, seconds):
        """One call in a thread of its own, while this one looks at the clock: [call as crc_timed(), longest gap in ms]."""
        told = []
        thread = threading.Thread(target=lambda: told.append(self.crc_timed()))
        thread.start()
        last, longest, end = time.monotonic(), 0, time.monotonic() + seconds
        while time.monotonic() < end or thread.is_alive():
            time.sleep(0.01)
            longest = max(longest, time.monotonic() - last)
            last = time.monotonic()
        thread.join()
        return [told[0], round(1000 * longest)]
