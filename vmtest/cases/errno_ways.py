#!/usr/bin/python3
# timeout: 400
"""Many system calls do the same thing: which of them an operation of `errno` stands for, and which pass.

Every way is gone by twice, by the victim and by a neighbour of it, who meets nothing. What passes is no accident but what
the documentation says; where kernels differ it stands here.
"""
import ctypes
import errno
import mmap
import os
import select
import shutil
import socket
import struct
import subprocess
import threading

import chaos
import place
from case import KERNEL, check, check_equal, expect, main, part
from gpu import HERE
from worker import Worker

TOP = "/run/errno-ways"
FILE = TOP + "/program/file"
PROGRAM = TOP + "/program/true"
OK = "ok"
OPEN_TMPFILE = 0o20200000
KERNEL_SENDS = OK if KERNEL < (6, 12) else "ECONNRESET"  # what the kernel itself sends, without a call for it

libc = ctypes.CDLL(None, use_errno=True)

# A program in C. Cgroup: operation, error, does the rule name a path?; the ways that fail; those that pass.
PROGRAMS = {
    "open": ("open", "EMFILE", FILE, ["open"], ["read", "write", "mmap", "ioctl", "create"]),
    "create": ("create", "ENOSPC", FILE + ".*", ["create"], ["open"]),
    "read": ("read", "EIO", FILE, ["read", "sendfile"], ["open", "write", "mmap"]),
    "write": ("write", "ENOSPC", FILE, ["write"], ["open", "read", "mmap", "create"]),
    "ioctl": ("ioctl", "ENODEV", FILE, ["ioctl"], ["read"]),
    "mmap": ("mmap", "ENOMEM", None, ["mmap", "memory", "unreserved", "untouchable"], ["brk", "malloc"]),
    "memory": ("memory", "ENOMEM", None, ["memory", "malloc", "brk", "mprotect", "fork"], ["mmap", "unreserved", "untouchable"]),
    "socket": ("socket", "EMFILE", None, ["socket", "socketpair"], ["accept", "eventfd", "open"]),
    "connect": ("connect", "ETIMEDOUT", None, ["connect", "connect-datagram", "connect-unix"], ["sendto", "socket"]),
    "later": ("connect", "EINPROGRESS", None, [], []),
    "send": ("send", "ECONNRESET", None, ["send", "send-write", "send-writev", "sendmsg", "sendmmsg", "sendto"], ["receive"]),
    "pipe": ("send", "EPIPE", None, ["send-signal"], []),
    "receive": ("receive", "ECONNRESET", None, ["receive", "receive-read", "receive-readv", "recvmsg", "recvmmsg"],
                ["receive-splice", "connect"]),
    "fork": ("fork", "EAGAIN", None, ["fork", "vfork", "clone", "spawn"], ["thread"]),
    "thread": ("thread", "EAGAIN", None, ["thread"], ["fork", "vfork", "spawn"]),
    "exec": ("exec", "EACCES", TOP + "/program/t*", ["exec", "fexecve", "spawn"], ["fork", "open"]),
}
SEVERAL = ("mmap", "memory")  # where the C library asks again in another way: more faults than failures


class Program:
    """The program in C, in that cgroup."""

    def __init__(self, cgroup):
        self.running = subprocess.Popen([os.path.join(HERE, "operations"), FILE, PROGRAM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.goes("read")  # it has begun
        place.enter_cgroup(cgroup, self.running.pid)

    def goes(self, way):
        self.running.stdin.write(way + "\n")
        if not select.select([self.running.stdout], [], [], 60)[0]:
            return "nothing for a minute"
        told = self.running.stdout.readline()
        return OK if told == "0\n" else errno.errorcode.get(int(told or -1), told or "its end")

    def end(self):
        self.running.communicate()


# ---- ways of Python, and of nobody but the kernel

class Ring:
    """io_uring, one request at a time."""

    READ, WRITE, OPENAT = 22, 23, 18
    ASYNC = 16  # by a worker of the kernel's, not at once

    def __init__(self):
        params = ctypes.create_string_buffer(120)
        self.fd = libc.syscall(425, 4, params)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "io_uring_setup")
        words = struct.unpack("30I", params.raw)
        self.sq, self.cq = words[10:18], words[20:28]
        self.ring = mmap.mmap(self.fd, max(self.sq[6] + 4 * words[0], self.cq[5] + 16 * words[1]), offset=0)
        self.entries = mmap.mmap(self.fd, 64 * words[0], offset=0x10000000)

    def word(self, at, value=None):
        if value is not None:
            struct.pack_into("I", self.ring, at, value)
        return struct.unpack_from("I", self.ring, at)[0]

    def ask(self, opcode, fd, address, size, flags=0, open_flags=0):
        tail = self.word(self.sq[1])
        index = tail & self.word(self.sq[2])
        struct.pack_into("BBHiQQII32x", self.entries, 64 * index, opcode, flags, 0, fd, 0, address, size, open_flags)
        self.word(self.sq[6] + 4 * index, index)
        self.word(self.sq[1], tail + 1)
        if libc.syscall(426, self.fd, 1, 1, 1, None, 0) < 0:
            raise OSError(ctypes.get_errno(), "io_uring_enter")
        head = self.word(self.cq[0])
        result = struct.unpack_from("Qi", self.ring, self.cq[5] + 16 * (head & self.word(self.cq[2])))[1]
        self.word(self.cq[0], head + 1)
        if result < 0:
            raise OSError(-result, "io_uring")
        return result


class Files:
    """One call at a time that matters; whatever it needs beside it is of no rule."""

    def __init__(self):
        self.stopping = threading.Event()
        self.made = 0
        self.fds = {name: os.open(f"{TOP}/{name}/file", os.O_RDWR) for name in ("read", "write", "other", "ioctl")}
        self.map = {name: mmap.mmap(self.fds[name], 4096) for name in ("read", "write")}
        self.pipe = os.pipe2(os.O_NONBLOCK)
        self.buffer = ctypes.create_string_buffer(4096)
        self.ring = self.aio = None

    def goes(self, way, *args):
        try:
            getattr(self, way)(*args)
        except OSError as problem:
            return errno.errorcode.get(problem.errno, str(problem))
        return OK

    def result(self, value):
        if value < 0:
            raise OSError(ctypes.get_errno(), "")
        return value

    def new(self, name):
        self.made += 1
        return f"{TOP}/{name}/new.{os.getpid()}.{self.made}"

    # -- one file to another, and through a pipe

    def sendfile(self, here, there):
        os.sendfile(self.fds[there], self.fds[here], 0, 16)

    def copy_file_range(self, here, there):
        os.copy_file_range(self.fds[here], self.fds[there], 16, 0, 0)

    def splice_from(self, name):
        os.splice(self.fds[name], self.pipe[1], 1, offset_src=0)
        os.read(self.pipe[0], 1)

    def splice_into(self, name):
        os.write(self.pipe[1], b"x")
        try:
            os.splice(self.pipe[0], self.fds[name], 1, offset_dst=0)
        except OSError:
            os.read(self.pipe[0], 1)
            raise

    # -- asynchronous

    def asynchronous(self, opcode, name):
        """io_submit() and what came of it."""
        if self.aio is None:
            self.aio = ctypes.c_ulong()
            self.result(libc.syscall(206, 1, ctypes.byref(self.aio)))
        block = struct.pack("QIIHhIQQqQII", 0, 0, 0, opcode, 0, self.fds[name], ctypes.addressof(self.buffer), 16, 0, 0, 0, 0)
        block = ctypes.create_string_buffer(block, 64)
        pointer, event = ctypes.pointer(block), ctypes.create_string_buffer(32)
        self.result(libc.syscall(209, self.aio, 1, ctypes.byref(pointer)))
        self.result(libc.syscall(208, self.aio, 1, 1, event, None))
        result = struct.unpack("QQqq", event.raw)[2]
        if result < 0:
            raise OSError(-result, "aio")

    def uring(self, opcode, name, flags=0):
        self.ring = self.ring or Ring()
        self.ring.ask(opcode, self.fds[name], ctypes.addressof(self.buffer), 16, flags)

    def uring_open(self, path, flags=0):
        self.ring = self.ring or Ring()
        path = ctypes.create_string_buffer(path.encode())
        os.close(self.ring.ask(Ring.OPENAT, -100, ctypes.addressof(path), 0, flags, os.O_RDONLY))

    # -- reading

    def read(self, name):
        os.lseek(self.fds[name], 0, os.SEEK_SET)
        os.read(self.fds[name], 16)

    def pread(self, name):
        os.pread(self.fds[name], 16, 0)

    def readv(self, name):
        os.readv(self.fds[name], [bytearray(16)])

    def preadv(self, name):
        os.preadv(self.fds[name], [bytearray(16)], 0)

    def list(self, path):
        os.listdir(path)

    def mapped_read(self, name):
        return self.map[name][0]

    def stat(self, path):
        os.stat(path)
        os.access(path, os.R_OK)

    # -- writing

    def write(self, name):
        os.lseek(self.fds[name], 0, os.SEEK_SET)
        os.write(self.fds[name], b"x" * 16)

    def pwrite(self, name):
        os.pwrite(self.fds[name], b"x" * 16, 0)

    def writev(self, name):
        os.lseek(self.fds[name], 0, os.SEEK_SET)
        os.writev(self.fds[name], [b"x" * 16])

    def pwritev(self, name):
        os.pwritev(self.fds[name], [b"x" * 16], 0)

    def fallocate(self, name):
        os.posix_fallocate(self.fds[name], 0, 4096)

    def mapped_write(self, name):
        self.map[name][0] = 1
        self.map[name].flush()

    def fsync(self, name):
        os.fsync(self.fds[name])

    def ftruncate(self, name):
        os.ftruncate(self.fds[name], 4096)

    def truncate(self, path):
        os.truncate(path, 4096)

    # -- opening and making

    def open(self, path, flags):
        os.close(os.open(path, flags, 0o644))

    def open_made(self, name):
        """A file that is not there yet: it is made, whether it can be opened or not."""
        path = self.new(name)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        finally:
            os.unlink(path)  # fails when it is not there

    def open_truncating(self, path):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
        except OSError:
            if os.stat(path).st_size != 4096:
                raise OSError(errno.EDOM, "it was cut") from None
            raise
        finally:
            os.truncate(path, 4096)

    def open_again(self, name):
        """By way of a descriptor, as /dev/stdin is."""
        os.close(os.open(f"/proc/self/fd/{self.fds[name]}", os.O_RDONLY))

    def open_here(self, path):
        """By a descriptor of its directory."""
        folder = os.open(os.path.dirname(path), os.O_PATH)
        try:
            os.close(os.open(os.path.basename(path), os.O_RDONLY, dir_fd=folder))
        finally:
            os.close(folder)

    def make(self, name):
        path = self.new(name)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except OSError:
            if os.path.exists(path):
                raise OSError(errno.EDOM, "it was made") from None
            raise
        os.unlink(path)

    def make_directory(self, name):
        path = self.new(name)
        os.mkdir(path)
        os.rmdir(path)

    def make_fifo(self, name):
        path = self.new(name)
        os.mkfifo(path)
        os.unlink(path)

    def make_socket(self, name):
        path = self.new(name)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path)
        os.unlink(path)

    def make_link(self, name):
        path = self.new(name)
        os.link(f"{TOP}/other/file", path)
        os.unlink(path)

    def make_symlink(self, name):
        path = self.new(name)
        os.symlink("nowhere", path)
        os.unlink(path)

    def move(self, name):
        path, there = self.new("other"), self.new(name)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        os.rename(path, there)
        os.unlink(there)

    def make_without_a_name(self, name):
        os.close(os.open(f"{TOP}/{name}", OPEN_TMPFILE | os.O_RDWR, 0o644))

    # -- the rest

    def map_file(self, path):
        fd = os.open(path, os.O_RDWR)
        try:
            mmap.mmap(fd, 4096).close()
        finally:
            os.close(fd)

    def load_library(self, path):
        """The dynamic linker says no more than that it cannot."""
        try:
            ctypes.CDLL(path)
        except OSError as problem:
            raise OSError(errno.ENOMEM if "cannot" in str(problem) or "failed" in str(problem) else 0, "") from None

    def tty(self, name):
        try:
            os.get_terminal_size(self.fds[name])
        except OSError as problem:
            if problem.errno != errno.ENOTTY:
                raise

    def execute(self, *command):
        """Its error, or that it ended well."""
        pid = os.fork()
        if pid == 0:
            try:
                os.execv(command[0], command)
            except OSError as problem:
                os._exit(problem.errno)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise OSError(code, "")


# The ways of Python that fail, and those that pass: of one rule each, for the files below TOP/<its operation>.
def files():
    flags = os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY, os.O_RDWR | os.O_CREAT
    reading = [(way, "read") for way in ("read", "pread", "readv", "preadv", "splice_from")]
    writing = [(way, "write") for way in ("write", "pwrite", "writev", "pwritev", "splice_into", "fallocate")]
    path = {name: f"{TOP}/{name}/file" for name in ("read", "write", "open", "other", "mmap", "create")}
    making = [(way, "create") for way in ("make", "make_directory", "make_fifo", "make_socket")]
    linker = [line.split()[-1] for line in open("/proc/self/maps") if "/ld-linux" in line or "/ld-2" in line][0]
    return {
        "read": ("EIO", [*reading, ("sendfile", "read", "other"), ("copy_file_range", "read", "other"),
                         ("asynchronous", 0, "read"), ("uring", Ring.READ, "read"), ("list", TOP + "/read/folder")],
                 [("mapped_read", "read"), ("stat", path["read"]), ("open", path["read"], os.O_RDWR), ("pwrite", "read"),
                  ("list", TOP + "/read")]),
        "write": ("ENOSPC", [*writing, ("sendfile", "other", "write"), ("copy_file_range", "other", "write"),
                             ("asynchronous", 1, "write"), ("uring", Ring.WRITE, "write")],
                  [("mapped_write", "write"), ("fsync", "write"), ("ftruncate", "write"), ("truncate", path["write"]),
                   ("pread", "write"), ("make", "write")]),
        "open": ("EMFILE", [("open", path["open"], flags[0]), ("open", TOP + "/open/folder", flags[1]),
                            ("open", path["open"], flags[2]), ("open_made", "open"), ("open_truncating", path["open"]),
                            ("open_here", path["open"]), ("list", TOP + "/open/folder"), ("make_without_a_name", "open")],
                 [("open", path["open"], os.O_PATH), ("stat", path["open"]), ("truncate", path["open"]), ("make_link", "open"),
                  ("move", "open"), ("make_directory", "open"), ("open_again", "other")]),
        "create": ("ENOSPC", making, [("open", path["create"], flags[2]), ("make_link", "create"), ("make_symlink", "create"),
                                      ("move", "create"), ("make_without_a_name", "create")]),
        "mmap": ("ENOMEM", [("map_file", path["mmap"]), ("load_library", TOP + "/mmap/libz.so")],
                 [("open", path["mmap"], flags[0])]),
        "ioctl": ("ENODEV", [("tty", "ioctl")], [("pread", "ioctl")]),
        "exec": ("EACCES", [("execute", TOP + "/exec/true"), ("execute", TOP + "/exec/script")],
                 [("execute", TOP + "/other/script"), ("execute", linker, TOP + "/exec/true"), ("open", TOP + "/exec/true", flags[0]),
                  ("execute", "/bin/sh", TOP + "/exec/script")]),
    }


programs = {}
neighbour = victim = beside = None
ways = {}


def make_files():
    shutil.rmtree(TOP, ignore_errors=True)
    for name in ("read", "write", "open", "create", "mmap", "ioctl", "other", "program"):
        os.makedirs(f"{TOP}/{name}/folder")
        with open(f"{TOP}/{name}/file", "w") as file:
            file.write("x" * 4096)
    os.makedirs(TOP + "/exec")
    for path in (PROGRAM, TOP + "/exec/true"):
        shutil.copy(os.path.join(HERE, "operations"), path)
    shutil.copy("/bin/sh", TOP + "/exec/sh")
    for path, interpreter in ((TOP + "/exec/script", "/bin/sh"), (TOP + "/other/script", TOP + "/exec/sh")):
        with open(path, "w") as file:
            file.write(f"#!{interpreter}\nexit 0\n")
        os.chmod(path, 0o755)
    with open("/proc/self/maps") as maps:
        library = [line.split()[-1] for line in maps if "libz" in line or "libm.so" in line or "libexpat" in line]
    shutil.copy(library[0], TOP + "/mmap/libz.so")


def setup():
    global neighbour, victim, beside, ways
    make_files()
    ways = files()
    for name in [*PROGRAMS, "neighbour", "files"]:
        place.make_cgroup("case/" + name)
    for name in PROGRAMS:
        programs[name] = Program("case/" + name)
    neighbour = Program("case/neighbour")
    victim, beside = (Worker(Files, cgroup="case/" + cgroup) for cgroup in ("files", "neighbour"))


def teardown():
    for program in [*programs.values(), *([neighbour] if neighbour else [])]:
        program.end()
    place.remove_cgroup("case")
    shutil.rmtree(TOP, ignore_errors=True)


def rule(name, cgroup, operation, error, path=None):
    return chaos.rule(name, {"cgroup": cgroup}, {"errno": {"operation": operation, "error": error, **({"path": path} if path else {})}})


def rules():
    return [*[rule(name, "case/" + name, operation, error, path) for name, (operation, error, path, *_) in PROGRAMS.items()],
            *[rule(f"py-{name}", "case/files", name, error, f"{TOP}/{name}/**") for name, (error, *_) in ways.items()]]


def met_by(name, wanted):
    """What a program meets, way by way, twice each."""
    got = {way: [programs[name].goes(way) for _ in range(2)] for way in wanted}
    check_equal(got, {way: [outcome] * 2 for way, outcome in wanted.items()}, f"{name}: what the victim met")
    check_equal({way: neighbour.goes(way) for way in wanted if way != "connect-later"},
                {way: OK for way in wanted if way != "connect-later"}, f"{name}: what the neighbour met")
    return sum(outcomes.count(outcome) for outcomes in got.values() for outcome in set(outcomes) - {OK})


@part
def in_c():
    for name, (_, error, _, failing, passing) in PROGRAMS.items():
        hits = met_by(name, {**{way: error for way in failing}, **{way: OK for way in passing}})
        if name in SEVERAL:
            asked = chaos.status()[name]["injected"]
            check(hits <= asked <= 8 * hits, f"{name}: {asked} faults for {hits} failures")
            hits = asked
        expect(name, hits)


@part
def by_the_kernel_itself():
    """From a file or a pipe to a socket: up to 6.1 no hook is asked; and from a socket to a pipe, on no kernel."""
    expect("send", met_by("send", {"sendfile": KERNEL_SENDS, "send-splice": KERNEL_SENDS}))


@part
def under_way():
    """A connection of which it is said that it is being made. It is not: who waits is told that it is ready, and then not."""
    met_by("later", {"connect-later": "ENOTCONN"})
    expect("later", 2)


@part
def in_python():
    for name, (error, failing, passing) in ways.items():
        for outcome, some in ((error, failing), (OK, passing)):
            for way in some:
                told = " ".join(str(word) for word in way)
                check_equal([victim.goes(*way) for _ in range(2)], [outcome] * 2, f"{name}: {told}")
                check_equal(beside.goes(*way), OK, f"{name}: {told}: the neighbour")
                expect(f"py-{name}", 2 if outcome != OK else 0)


@part
def by_workers_of_the_kernel():
    """io_uring, where it hands what is asked to a worker."""
    for way in (("uring", Ring.READ, "read", Ring.ASYNC), ("uring", Ring.WRITE, "write", Ring.ASYNC),
                ("uring_open", TOP + "/open/file"), ("uring_open", TOP + "/open/file", Ring.ASYNC)):
        told = " ".join(str(word) for word in way)
        name = "open" if way[0] == "uring_open" else way[2]
        check_equal([victim.goes(*way) for _ in range(2)], [ways[name][0]] * 2, told)
        check_equal(beside.goes(*way), OK, f"{told}: the neighbour")
        expect(f"py-{name}", 2)


NOTES = (("open", "EMFILE", ("is made first", "O_PATH", "to execute a file")), ("create", "ENOSPC", ("O_TMPFILE", "link()", "rename()")),
         ("read", "EIO", ("mmap", "directories")), ("write", "ENOSPC", ("mmap", "fsync()")), ("mmap", "ENOMEM", ("brk()", "'memory'")),
         ("memory", "ENOMEM", ("MAP_NORESERVE", "PROT_NONE")), ("memory", "EPERM", ("6.1", "ENOMEM")),
         ("connect", "EINPROGRESS", ("nothing is under way", "ENOTCONN")), ("send", "EPIPE", ("SIGPIPE", "sendfile()", "6.1")),
         ("send", "EIO", ("sendfile()", "splice()", "6.1")), ("receive", "ECONNRESET", ("splice()", "is not woken")),
         ("exec", "EACCES", ("interpreter",)), ("socket", "EMFILE", ("accept()",)))


@part
def check_says_so():
    """What passes although one could think otherwise, in words."""
    text = chaos.rules_text(*[rule(f"{operation}-{error}", "case/files", operation, error) for operation, error, _ in NOTES])
    said = {one["name"]: one.get("note", "") for one in chaos.chaos("check", "-", "--json", text=text).json["rules"]}
    for operation, error, words in NOTES:
        note = said[f"{operation}-{error}"]
        check(all(word in note for word in words), f"{operation}: {words} are not all in: {note}")


main(setup, teardown, rules)
