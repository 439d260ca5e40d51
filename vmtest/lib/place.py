"""Where a process runs: its network namespace, cgroup, user and name. And making such places."""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG, PR_SET_NAME, SIGKILL = 1, 15, 9


def run(*command, check=True, stdin=None, timeout=60):
    """A command's standard output; what it said goes into the exception when it fails."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


# ---- cgroups

def cgroup_mount():
    with open("/proc/self/mounts") as mounts:
        for line in mounts:
            _, where, kind, *_ = line.split()
            if kind == "cgroup2":
                return where
    raise RuntimeError("no cgroup v2 hierarchy is mounted")


CGROUP = cgroup_mount()


def make_cgroup(name):
    """Makes a cgroup (v2) and those above it; returns its name, as a rule writes it."""
    os.makedirs(os.path.join(CGROUP, name), exist_ok=True)
    return name


def slowness():
    """How many times as long everything may take here: the runner of the guest knows whether the host is busy."""
    try:
        with open("/chaos/slow") as file:
            return int(file.read())
    except OSError:
        return 1


def remove_cgroup(name):
    """Removes an empty cgroup and all below it."""
    top = os.path.join(CGROUP, name)
    for folder, _, _ in os.walk(top, topdown=False):
        os.rmdir(folder)


def cgroup_id(name):
    return os.stat(os.path.join(CGROUP, name)).st_ino


def members(name):
    """The processes in that very cgroup."""
    with open(os.path.join(CGROUP, name, "cgroup.procs")) as procs:
        return procs.read().split()


def enter_cgroup(name, pid=0):
    with open(os.path.join(CGROUP, name, "cgroup.procs"), "w") as procs:
        procs.write(str(pid or os.getpid()))


# ---- network namespaces

def enter_netns(name):
    """The calling thread only; None stays where it is."""
    if name is None:
        return
    fd = os.open("/proc/1/ns/net" if name == "host" else "/run/netns/" + name, os.O_RDONLY)
    try:
        if libc.setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns " + name)
    finally:
        os.close(fd)


class in_netns:
    """with in_netns("ns1"): what is done here happens there."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        enter_netns(self.name)

    def __exit__(self, *_):
        if libc.setns(self.back, CLONE_NEWNET):
            os.abort()
        os.close(self.back)


def netns_names():
    return sorted(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else []


def sysctl(path, value, netns=None):
    with in_netns(netns), open("/proc/sys/" + path, "w") as file:
        file.write(str(value))


class Network:
    """Two namespaces, each with a veth pair to the root namespace, which forwards between them.

        ns1 [s1 10.77.1.2, fd77:1::2] -- [h1 10.77.1.1, fd77:1::1] root
        ns2 [s2 10.77.2.2, fd77:2::2] -- [h2 10.77.2.1, fd77:2::1] root
    """

    names = ("ns1", "ns2")

    def __init__(self, count=2):
        self.names = self.names[:count]
        os.makedirs("/run/netns", exist_ok=True)
        for name in self.names:
            run("ip", "netns", "add", name)
        lines = []
        for i, name in enumerate(self.names, 1):
            lines += [f"link add h{i} type veth peer name s{i} netns {name}",
                      f"addr add 10.77.{i}.1/24 dev h{i}", f"addr add fd77:{i}::1/64 dev h{i} nodad",
                      f"link set h{i} up"]
        run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")
        for i, name in enumerate(self.names, 1):
            run("ip", "-n", name, "-batch", "-", stdin=f"""
                link set lo up
                addr add 10.77.{i}.2/24 dev s{i}
                addr add fd77:{i}::2/64 dev s{i} nodad
                link set s{i} up
                route add default via 10.77.{i}.1
                route add default via fd77:{i}::1
                """.replace("                ", ""))
        sysctl("net/ipv4/ip_forward", 1)
        sysctl("net/ipv6/conf/all/forwarding", 1)

    def close(self):
        for name in self.names:
            run("ip", "netns", "delete", name, check=False)
        for i in range(1, len(self.names) + 1):
            run("ip", "link", "delete", f"h{i}", check=False)


# ---- processes

def without_checksum_offload(netns, device):
    """ethtool -K DEVICE tx off: the receiver then looks at every checksum."""
    with in_netns(netns), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        value = struct.pack("II", 0x17, 0)  # ETHTOOL_STXCSUM
        buffer = ctypes.create_string_buffer(value, len(value))
        fcntl.ioctl(sock, 0x8946, struct.pack("16sP", device.encode(), ctypes.addressof(buffer)))  # SIOCETHTOOL


class NoNetem(Exception):
    """This kernel has no queue that makes a line poor."""


@contextlib.contextmanager
def poor_line(netns, device):
    """A device that loses three packets in a hundred, and lets some overtake others."""
    with in_netns(netns):
        try:
            run("tc", "qdisc", "replace", "dev", device, "root", "netem", "delay", "3ms", "2ms", "loss", "3%")
        except RuntimeError as problem:
            raise NoNetem(problem) from None
    try:
        yield
    finally:
        with in_netns(netns):
            run("tc", "qdisc", "del", "dev", device, "root")


def set_comm(name):
    libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def settle(netns=None, cgroup=None, user=None, comm=None):
    """Brings the calling process to its place. The user comes last: the rest needs root."""
    if cgroup is not None:
        enter_cgroup(cgroup)
    enter_netns(netns)
    if comm:
        set_comm(comm)
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)


def processes(comm):
    """Thread groups of that name that run (not those that only wait to be reaped)."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as stat:
                text = stat.read()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        if name == comm and text[text.rindex(")") + 2] not in "ZX":
            found.append(int(entry))
    return found
