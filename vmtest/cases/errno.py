#!/usr/bin/python3
# timeout: 600
"""Operations of a process fail with the errno of the rule, exactly as often as asked; its neighbour meets nothing.

Every victim calls the C library directly and tells what it met: "ok", or the errno by name, call by call.
"""
import collections
import ctypes
import errno
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import chaos
import place
from case import alone, check, check_counters, check_equal, check_took, expect, main, only_in_a_guest, part, skip, wait_until
from worker import Worker

TOP = "/run/errno-case"
FILE = TOP + "/models/llama/weights.bin"
HITS, CALLS = 7, 12  # of so many calls, the first ones fail

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.pread.argtypes = libc.pwrite.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long]
PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS = 1, 2, 2, 0x20
MAP_FAILED = ctypes.c_void_p(-1).value
FIONREAD = 0x541B

# operation: errno that it fails with, does its rule name a path?
OPERATIONS = {"open": ("EMFILE", True), "create": ("ENOSPC", True), "read": ("EIO", True), "write": ("ENOSPC", True),
              "mmap": ("ENOMEM", True), "memory": ("ENOMEM", False), "connect": ("ETIMEDOUT", False),
              "send": ("ECONNRESET", False), "receive": ("ECONNRESET", False), "socket": ("EMFILE", False),
              "ioctl": ("ENODEV", True), "fork": ("EAGAIN", False), "thread": ("EAGAIN", False),
              "exec": ("ENOMEM", True)}


def outcome(bad):
    return errno.errorcode.get(ctypes.get_errno(), "?") if bad else "ok"


class Victim:
    """One call at a time, and what came of it. Whatever it needs is there before."""

    def __init__(self):
        self.stopping = threading.Event()
        self.buffer = ctypes.create_string_buffer(64)
        self.made = 0
        self.thread_id = ctypes.c_ulong()
        self.work = ctypes.cast(libc.getppid, ctypes.c_void_p)
        self.fd = os.open(FILE, os.O_RDWR)
        self.near, self.far = socket.socketpair(type=socket.SOCK_DGRAM)
        self.far.setblocking(False)
        self.near.setblocking(False)

    def open(self, path=FILE):
        fd = libc.open(path.encode(), os.O_RDONLY)
        if fd >= 0:
            os.close(fd)
        return outcome(fd < 0)

    def create(self, path=TOP + "/models/new"):
        self.made += 1
        path = f"{path}.{os.getpid()}.{self.made}"
        fd = libc.open(path.encode(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        told = outcome(fd < 0)
        if fd >= 0:
            os.close(fd)
        if os.path.exists(path) != (fd >= 0):
            return f"{told}, but the file is there: {os.path.exists(path)}"
        if fd >= 0:
            os.unlink(path)
        return told

    def mkdir(self, path=TOP + "/models/newdir"):
        self.made += 1
        path = f"{path}.{os.getpid()}.{self.made}"
        told = outcome(libc.mkdir(path.encode(), 0o755))
        if told == "ok":
            os.rmdir(path)
        return told

    def read(self, fd=None):
        return outcome(libc.pread(self.fd if fd is None else fd, self.buffer, 16, 0) < 0)

    def write(self):
        return outcome(libc.pwrite(self.fd, self.buffer, 16, 0) < 0)

    def map(self, size, prot, flags, fd):
        where = libc.mmap(None, size, prot, flags, fd, 0)
        told = outcome(where == MAP_FAILED)
        if told == "ok":
            libc.munmap(where, size)
        return told

    def mmap(self):
        return self.map(4096, PROT_READ, MAP_PRIVATE, self.fd)

    def anonymous(self):
        return self.map(4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1)

    def memory(self):
        return self.map(64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1)

    def connect(self):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            error = sock.connect_ex(("127.0.0.1", 1))
        return "ok" if error == errno.ECONNREFUSED else errno.errorcode[error]

    def send(self):
        told = outcome(libc.send(self.near.fileno(), self.buffer, 8, 0) < 0)
        if told == "ok":
            self.far.recv(8)
        return told

    def receive(self):
        told = outcome(libc.recv(self.near.fileno(), self.buffer, 8, 0) < 0)
        return "ok" if told == "EAGAIN" else told

    def socket(self):
        fd = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
        if fd >= 0:
            os.close(fd)
        return outcome(fd < 0)

    def ioctl(self):
        return outcome(libc.ioctl(self.fd, FIONREAD, self.buffer) < 0)

    def fork(self):
        pid = libc.fork()
        if pid == 0:
            os._exit(0)
        told = outcome(pid < 0)
        if pid > 0:
            os.waitpid(pid, 0)
        return told

    def thread(self):
        error = libc.pthread_create(ctypes.byref(self.thread_id), None, self.work, None)
        if not error:
            libc.pthread_join(self.thread_id, None)
        return errno.errorcode[error] if error else "ok"

    def exec(self, path="/bin/true"):
        pid = os.fork()
        if pid == 0:
            libc.execl(path.encode(), path.encode(), None)
            os._exit(ctypes.get_errno())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return errno.errorcode.get(code, "?") if code else "ok"

    def many(self, operation, count, *args):
        function = getattr(self, operation)
        return [function(*args) for _ in range(count)]

    def until(self, operation, end, pause, *args):
        """Again and again until that time; how often it met what, and when first and last."""
        function, met = getattr(self, operation), {}
        while time.monotonic() < end:
            told = function(*args)
            now = time.monotonic()
            met.setdefault(told, [0, now, now])
            met[told][0] += 1
            met[told][2] = now
            time.sleep(pause)
        return met

    def chroot(self, path):
        os.chroot(path)
        os.chdir("/")

    def pin(self, cpu):
        os.sched_setaffinity(0, {cpu % os.cpu_count()})


neighbour = None
victims = {}


def make_files():
    shutil.rmtree(TOP, ignore_errors=True)
    for path in (FILE, TOP + "/models/llama/config.json", TOP + "/models/list", TOP + "/other/weights.bin"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("x" * 4096)


def setup():
    global neighbour
    make_files()
    place.make_cgroup("case/neighbour")
    neighbour = Worker(Victim, cgroup="case/neighbour", comm="neighbour")
    for operation in [*OPERATIONS, "any"]:
        cgroup = place.make_cgroup("case/" + operation)
        victims[operation] = Worker(Victim, cgroup=cgroup, comm="victim")
    for operation in OPERATIONS:  # what python itself needs for it
        victims[operation].many(operation, 2)


def teardown():
    place.remove_cgroup("case")
    shutil.rmtree(TOP, ignore_errors=True)


def rule(name, operation, error, path=None, match=None, **keys):
    fault = {"operation": operation, "error": error, **({"path": path} if path else {})}
    return chaos.rule(name, match or {"cgroup": "case/any"}, {"errno": fault}, **keys)


def rules():
    paths = {"exec": "/usr/bin/**", "create": TOP + "/models/new*"}
    return [rule(name, name, error, paths.get(name, FILE) if has_path else None, {"cgroup": "case/" + name}, max_hits=HITS)
            for name, (error, has_path) in OPERATIONS.items()]


@part
def every_operation():
    for name, (error, _) in OPERATIONS.items():
        met = victims[name].many(name, CALLS)
        check_equal(met, [error] * HITS + ["ok"] * (CALLS - HITS), f"{name}: what the victim met")
        check_equal(neighbour.many(name, 3), ["ok"] * 3, f"{name}: what the neighbour met")
        state = chaos.status()[name]
        check_equal((state["seen"], state["matched"], state["injected"], state["state"]), (HITS, HITS, HITS, "finished"),
                    f"{name}: counters")
        expect(name, HITS, event={"operation": name, "error": error, "comm": "victim", "pid": victims[name].pid}
               if name != "exec" else {"operation": name, "error": error})


@part
def events_tell_the_file():
    told = {event["operation"]: event.get("file") for event in chaos.events()}
    wanted = {name: "weights.bin" for name, (_, has_path) in OPERATIONS.items() if has_path}
    wanted["exec"] = os.path.basename(os.path.realpath("/bin/true"))
    for name, file in wanted.items():
        if name == "create":
            check((told.get(name) or "").startswith("new."), f"create: file {told.get(name)}")
        else:
            check_equal(told.get(name), file, f"{name}: file")


def outcomes(worker, operation, *paths):
    return [worker.many(operation, 1, path)[0] for path in paths]


@alone
def paths():
    """A path as it is written, names that begin so, all below; the first rule in the file whose path fits decides."""
    victim = victims["any"]
    os.makedirs(TOP + "/models/llama/shards/deep")
    names = ["models/llama/weights.bin", "models/llama/weights.bin.old", "models/llama/weights", "models/llama",
             "models/llama/shards", "models/llama/shards/deep/a", "models/list", "models", "other/weights.bin", "others"]
    for name in names:
        path = f"{TOP}/{name}"
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write("x")
    chaos.load(rule("exact", "open", "EIO", TOP + "/models/llama/weights.bin"),
               rule("star", "open", "EMFILE", TOP + "/models/llama/w*"),
               rule("below", "open", "EACCES", TOP + "/models/llama/**"),
               rule("names", "open", "ENFILE", TOP + "/models/l*"),
               rule("other", "open", "ENOMEM", TOP + "/other/*"),
               rule("later", "open", "EPERM", TOP + "/models/llama/weights.bin"))
    wanted = ["EIO", "EMFILE", "EMFILE", "ENFILE", "EACCES", "EACCES", "ENFILE", "ok", "ENOMEM", "ok"]
    check_equal(dict(zip(names, outcomes(victim, "open", *[f"{TOP}/{name}" for name in names]))),
                dict(zip(names, wanted)), "files by name")
    check_equal(outcomes(neighbour, "open", *[f"{TOP}/{name}" for name in names]), ["ok"] * len(names), "the neighbour")
    for name, hits in {"exact": 1, "star": 2, "below": 2, "names": 2, "other": 1, "later": 0}.items():
        expect(name, hits)
        check_equal(chaos.status()[name]["seen"], hits, f"{name}: seen")
    victim.many("chroot", 1, "/")  # no other root than before; and relative names begin there
    check_equal(outcomes(victim, "open", TOP[1:] + "/models/../models/llama/./weights.bin", TOP + "//models//llama/weights.bin"),
                ["EIO", "EIO"], "however it is written")
    expect("exact", 2)
    with open(TOP + "/models/llama/new", "w") as file:
        file.write("made after the load")
    os.rename(TOP + "/other/weights.bin", TOP + "/models/llama/moved")
    check_equal(outcomes(victim, "open", TOP + "/models/llama/new", TOP + "/models/llama/moved", TOP + "/models/llama/gone"),
                ["EACCES", "EACCES", "ENOENT"], "made, moved in, not there")
    expect("below", 2)
    check_counters()
    make_files()


@alone
def links_and_mounts():
    """What counts is the name by which a file is reached, without symbolic links and as the process's root has it."""
    os.makedirs(TOP + "/elsewhere", exist_ok=True)
    os.makedirs(TOP + "/bound", exist_ok=True)
    os.makedirs(TOP + "/root/models", exist_ok=True)
    os.link(FILE, TOP + "/elsewhere/hard")
    os.symlink(TOP + "/models", TOP + "/soft")
    os.symlink(FILE, TOP + "/elsewhere/soft")
    place.run("mount", "--bind", TOP + "/models", TOP + "/bound")
    place.run("mount", "-t", "tmpfs", "none", TOP + "/root/models")
    try:
        with open(TOP + "/root/models/a", "w") as file:
            file.write("x")
        inside = Worker(Victim, cgroup="case/any", comm="inside")
        chaos.load(rule("models", "open", "EIO", TOP + "/models/**"),
                   rule("linked", "open", "EMFILE", TOP + "/soft/list"),
                   rule("bound", "open", "EACCES", TOP + "/bound/**"),
                   rule("mounted", "open", "ENFILE", TOP + "/root/models/*"),
                   rule("inside", "open", "ENOMEM", "/models/*"))
        victim = victims["any"]
        wanted = {FILE: "EIO", TOP + "/soft/llama/weights.bin": "EIO", TOP + "/elsewhere/soft": "EIO",
                  TOP + "/elsewhere/hard": "ok", TOP + "/bound/llama/weights.bin": "EACCES",
                  TOP + "/root/models/a": "ENFILE"}
        check_equal(dict(zip(wanted, outcomes(victim, "open", *wanted))), wanted, "by way of")
        expect("models", 3)
        expect("bound", 1)
        expect("mounted", 1)
        inside.many("chroot", 1, TOP + "/root")
        check_equal(outcomes(inside, "open", "/models/a"), ["ENOMEM"], "in a root of its own")
        expect("inside", 1)
        checked = chaos.chaos("check", "-", text=chaos.rules_text(rule("linked", "open", "EMFILE", TOP + "/soft/list")))
        check(TOP + "/models/list" in checked.out, f"check names what a link leads to: {checked}")
        check_counters()
        chaos.load(rule("linked", "open", "EMFILE", TOP + "/soft/list"))
        check_equal(outcomes(victim, "open", TOP + "/soft/list", TOP + "/models/list", FILE), ["EMFILE", "EMFILE", "ok"],
                    "a rule whose path is a link")
        inside.kill()
    finally:
        place.run("umount", TOP + "/bound", TOP + "/root/models")
        make_files()


@alone
def each_with_a_path():
    """Of reads, writes, mappings and so on: those of the file, and no others."""
    victim = victims["any"]
    chaos.load(*[rule(name, name, error, TOP + "/models/llama/w*") for name, (error, has_path) in OPERATIONS.items()
                 if has_path and name not in ("exec", "create", "open")],
               rule("create", "create", "ENOSPC", TOP + "/models/llama/*"),
               rule("exec", "exec", "ENOMEM", TOP + "/models/llama/*"))
    shutil.copy("/bin/true", TOP + "/models/llama/true")
    shutil.copy("/bin/true", TOP + "/other/true")
    for name in ("read", "write", "mmap", "ioctl"):
        check_equal(victim.many(name, 3), [OPERATIONS[name][0]] * 3, f"{name}: of the file")
        expect(name, 3)
    check_equal(victim.many("anonymous", 3), ["ok"] * 3, "mmap: of memory")
    check_equal(victim.many("create", 2, TOP + "/models/llama/new"), ["ENOSPC"] * 2, "create: in the directory")
    check_equal(victim.many("mkdir", 2, TOP + "/models/llama/new"), ["ENOSPC"] * 2, "create: a directory")
    check_equal(victim.many("create", 2, TOP + "/models/new") + victim.many("mkdir", 2, TOP + "/models/new"), ["ok"] * 4,
                "create: elsewhere")
    expect("create", 4)
    check_equal(victim.many("exec", 2, TOP + "/models/llama/true"), ["ENOMEM"] * 2, "exec: of the file")
    check_equal(victim.many("exec", 2, TOP + "/other/true"), ["ok"] * 2, "exec: elsewhere")
    expect("exec", 2)
    check_equal(neighbour.many("read", 3) + neighbour.many("exec", 1, TOP + "/models/llama/true"), ["ok"] * 4, "the neighbour")
    check_counters()
    make_files()


@alone
def without_a_path():
    """Mixed with rules that have one: the first whose path fits, or that has none."""
    victim = victims["any"]
    chaos.load(rule("one", "open", "EIO", FILE, max_hits=2), rule("all", "open", "EMFILE", max_hits=5),
               rule("rest", "open", "EACCES", TOP + "/models/**"))
    check_equal(outcomes(victim, "open", FILE, TOP + "/other/weights.bin", FILE, FILE, "/etc/passwd", TOP + "/models/list",
                         FILE, FILE, TOP + "/other/weights.bin"),
                ["EIO", "EMFILE", "EIO", "EMFILE", "EMFILE", "EMFILE", "EMFILE", "EACCES", "ok"], "file by file")
    for name, hits in {"one": 2, "all": 5, "rest": 1}.items():
        expect(name, hits)
    check_equal(victim.many("exec", 1), ["ok"], "to execute is not to open")
    check_counters()


@alone
def percent_and_seed():
    """The same seed picks the same calls of a process."""
    met = []
    for _ in range(2):
        worker = Worker(Victim, cgroup="case/any", comm="victim")
        chaos.load(rule("half", "read", "EIO", FILE, percent=30, seed=7))
        met.append(worker.many("read", 400))
        state = chaos.status()["half"]
        check_equal((state["injected"], state["skipped"]["percent"], state["seen"]),
                    (met[-1].count("EIO"), met[-1].count("ok"), 400), "counters")
        worker.kill()
    check(met[0] == met[1], "the same calls are hit")
    check(60 < met[0].count("EIO") < 180, f"{met[0].count('EIO')} of 400 at 30 %")


@alone
def max_hits_of_many():
    """Exact, with processes on every CPU."""
    crowd = [Worker(Victim, cgroup="case/any", comm=f"victim-{i}") for i in range(4)]
    for i, worker in enumerate(crowd):
        worker.pin(i)
    chaos.load(rule("first", "read", "EIO", FILE, max_hits=333), rule("second", "read", "EAGAIN", max_hits=101))
    for worker in crowd:
        worker.begin("many", "read", 400)
    met = collections.Counter(told for worker in crowd for told in worker.end(stop=False))
    check_equal(met, {"EIO": 333, "EAGAIN": 101, "ok": 1600 - 434}, "what they met together")
    for name, hits in {"first": 333, "second": 101}.items():
        state = chaos.status()[name]
        check_equal((state["injected"], state["state"]), (hits, "finished"), f"{name}: injected, state")
        expect(name, hits, {"max-hits": state["skipped"]["max-hits"]})
        check_equal(crowd[0].many("read", 50), ["ok"] * 50, "after the last hit")
        check_equal(chaos.status()[name], state, f"{name}: after more of the same, all its counters")
    check_counters()
    for worker in crowd:
        worker.kill()


@alone
def max_rate_and_windows():
    victim = victims["any"]
    chaos.load(rule("rate", "read", "EIO", FILE, max_rate="10/s", start_after="2s", duration="3s"))
    begun = time.monotonic()
    met = victim.until("read", begun + 6, 0.01, wait=90)
    state = chaos.status()["rate"]
    check(met["ok"][1] < met["EIO"][1], "the first reads come before the rule")
    check(20 <= met["EIO"][0] <= 40, f"10/s for 3 s: {met}")
    check_equal(state["injected"], met["EIO"][0], "injected")
    check_took(round(1000 * (met["EIO"][1] - begun)), 1000, "until the first", 4000)
    check(met["ok"][2] > met["EIO"][2], "the last reads come after the rule")


@alone
def deadline_without_us():
    """The kernel ends it by itself."""
    only_in_a_guest("kills every chaosbpf process")
    victim = victims["any"]
    chaos.load(rule("short", "open", "EMFILE", duration="15s"), rule("forks", "fork", "EAGAIN", duration="15s"))
    ends = time.monotonic() + min(one["ends_in_s"] for one in chaos.status().all["rules"])
    for pid in place.processes("chaosbpf"):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not place.processes("chaosbpf"), "the end of every chaosbpf process")
    check_equal(victim.many("open", 2) + victim.many("fork", 2), ["EMFILE"] * 2 + ["EAGAIN"] * 2, "with nobody alive")
    wait_until(lambda: victim.many("open", 1) == ["ok"], "the end of the rule", 40)
    check_took(round(1000 * (time.monotonic() - ends)) + 10000, 9000, "until the deadline, ten seconds added", 4000)
    check_equal(victim.many("fork", 1), ["ok"], "fork after the deadline")


@alone
def unload_and_replace():
    victim = victims["any"]
    chaos.load(rule("a", "open", "EIO", FILE), rule("b", "open", "EMFILE"))
    check_equal(outcomes(victim, "open", FILE, "/etc/passwd"), ["EIO", "EMFILE"], "both")
    chaos.chaos("unload", "a", expect=0)
    check_equal(outcomes(victim, "open", FILE, "/etc/passwd"), ["EMFILE", "EMFILE"], "without the first")
    chaos.load(rule("c", "read", "EIO", FILE), options=["--observe"])
    check_equal(outcomes(victim, "open", FILE) + victim.many("read", 3), ["ok"] * 4, "another in its place, only observed")
    check_equal(chaos.status()["c"]["skipped"]["observe"], 3, "observed")


@alone
def red_button():
    """Nearly everything is taken from a root shell and all that it starts: its `chaosbpf stop` works all the same."""
    place.make_cgroup("case/red")
    shell = subprocess.Popen(["/bin/sh", "-c", f"read line; exec {chaos.BINARY} stop"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             preexec_fn=lambda: place.enter_cgroup("case/red"))
    victim = Worker(Victim, cgroup="case/red", comm="victim")
    match = {"user": "root", "cgroup": "case/red"}
    taken = ["open", "create", "socket", "fork", "thread", "ioctl", "write", "mmap", "exec"]
    chaos.load(*[rule(name, name, OPERATIONS[name][0], match=match) for name in taken])
    for name in taken[:-1]:
        check_equal(victim.many(name, 2), [OPERATIONS[name][0]] * 2, f"{name}: what the shell's neighbour meets")
    said = shell.communicate(b"\n", 90)[0]
    check_equal(shell.returncode, 0, f"stop: {said}")
    for name in taken:
        check_equal(victim.many(name, 1), ["ok"], f"{name}: afterwards")
    victim.kill()
    place.remove_cgroup("case/red")


@alone
def all_of_root():
    """A rule that names whatever root does: chaosbpf, threads of the kernel and the first process are let be."""
    only_in_a_guest("hits all that root does")
    shell = subprocess.Popen(["/bin/sh", "-c", f"read line; exec {chaos.BINARY} stop"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    chaos.load(rule("forks", "fork", "EAGAIN", match={"user": "root"}), rule("sockets", "socket", "EMFILE",
                                                                             match={"user": "root"}))
    met = []
    for attempt in (os.fork, socket.socket):
        try:
            attempt()
            met.append("ok")
        except OSError as error:
            met.append(errno.errorcode[error.errno])
    said = shell.communicate(b"\n", 90)[0]
    check_equal(met, ["EAGAIN", "EMFILE"], "what we met ourselves")
    check_equal(shell.returncode, 0, f"stop: {said}")
    hit = [(event["pid"], event["comm"]) for event in chaos.events_now()]
    check(not [pid for pid, _ in hit if pid <= 2 or not os.path.exists(f"/proc/{pid}/exe")], f"who was hit: {hit}")


@alone
def overlays():
    """A file of an overlay is opened once, whatever the kernel opens below it."""
    for name in ("lower", "upper", "work", "merged"):
        os.makedirs(f"{TOP}/{name}", exist_ok=True)
    with open(TOP + "/lower/a", "w") as file:
        file.write("x" * 100)
    try:
        place.run("mount", "-t", "overlay", "overlay", "-o",
                  f"lowerdir={TOP}/lower,upperdir={TOP}/upper,workdir={TOP}/work", TOP + "/merged")
    except RuntimeError as error:
        skip(f"no overlay here: {error}")
    try:
        chaos.load(rule("merged", "open", "EIO", TOP + "/merged/*", percent=0),
                   rule("lower", "open", "EMFILE", TOP + "/lower/*"), rule("all", "open", "ENFILE"))
        check_equal(victims["any"].many("open", 5, TOP + "/merged/a"), ["ok"] * 5, "open")
        state = chaos.status()
        check_equal([state[name]["seen"] for name in ("merged", "lower", "all")], [5, 0, 0], "seen")
    finally:
        place.run("umount", TOP + "/merged")
        make_files()


main(setup, teardown, rules)
