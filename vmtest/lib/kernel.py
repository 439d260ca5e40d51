"""The kernel's own lists, asked without other programs (starting one takes long under emulation): BPF objects by bpf(2),
queues, filters and devices by netlink. And a program of somebody else's, to live beside."""
import ctypes
import os
import resource
import socket
import struct

import place

libc = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]

MAP_CREATE, MAP_LOOKUP, PROG_LOAD, OBJ_PIN = 0, 1, 5, 6
PROG_NEXT, MAP_NEXT, PROG_FD, MAP_FD, INFO, LINK_CREATE, LINK_FD, LINK_NEXT, LINK_DETACH = (
    11, 12, 13, 14, 15, 28, 30, 31, 34)
ARRAY, SCHED_CLS, CGROUP_SKB, CGROUP_INGRESS, CGROUP_EGRESS, TCX_INGRESS, TCX_EGRESS = 2, 3, 8, 0, 1, 46, 47


# Before 5.11 maps and programs count against it.
try:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except ValueError:
    pass  # not root of everything: outside a guest, on a kernel that does not ask


def bpf(command, attributes):
    """bpf(2); the attributes are packed by the caller. Returns the result and the attributes as they came back."""
    buffer = ctypes.create_string_buffer(attributes, max(len(attributes), 128))
    result = libc.syscall(SYS_BPF, command, buffer, len(buffer))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result, buffer.raw


def address_of(buffer):
    return ctypes.addressof(buffer)


def objects(kind, next_command, fd_command, name_at):
    found = set()
    number = 0
    while True:
        try:
            _, out = bpf(next_command, struct.pack("II", number, 0))
        except OSError:
            return found  # the last, or no such objects on this kernel
        number = struct.unpack_from("II", out)[1]
        name = ""
        if name_at:
            try:
                fd, _ = bpf(fd_command, struct.pack("I", number))
            except OSError:
                continue  # gone meanwhile
            try:
                info = ctypes.create_string_buffer(256)
                bpf(INFO, struct.pack("IIQ", fd, len(info), address_of(info)))
                name = info.raw[name_at:name_at + 16].split(b"\0")[0].decode()
            except OSError:
                pass
            finally:
                os.close(fd)
        found.add(f"{kind} {number} {name}")


def bpf_objects():
    """Programs, maps and links by number and name."""
    return (objects("prog", PROG_NEXT, PROG_FD, 64) | objects("map", MAP_NEXT, MAP_FD, 24)
            | objects("link", LINK_NEXT, LINK_FD, 0))


def numbers(next_command):
    number = 0
    while True:
        try:
            _, out = bpf(next_command, struct.pack("II", number, 0))
        except OSError:
            return
        number = struct.unpack_from("II", out)[1]
        yield number


def info_of(fd):
    info = ctypes.create_string_buffer(256)
    bpf(INFO, struct.pack("IIQ", fd, len(info), address_of(info)))
    return info.raw


def detach(program):
    """Takes off every link of programs whose name begins so, whoever holds it; how many."""
    count = 0
    for number in numbers(LINK_NEXT):
        try:
            link, _ = bpf(LINK_FD, struct.pack("I", number))
        except OSError:
            continue  # gone meanwhile
        try:
            its_program, _ = bpf(PROG_FD, struct.pack("I", struct.unpack_from("III", info_of(link))[2]))
            name = info_of(its_program)[64:80].split(b"\0")[0].decode()
            os.close(its_program)
            if name.startswith(program):
                bpf(LINK_DETACH, struct.pack("I", link))
                count += 1
        except OSError:
            pass  # of a kind that cannot be taken off
        finally:
            os.close(link)
    return count


def pin(fd, path):
    name = ctypes.create_string_buffer(path.encode())
    bpf(OBJ_PIN, struct.pack("QII", address_of(name), fd, 0))


def new_map(name):
    """An array of one counter."""
    return bpf(MAP_CREATE, struct.pack("7I16s", ARRAY, 4, 8, 1, 0, 0, 0, name.encode()[:15]))[0]


def pin_map(path):
    """Pins a map that means nothing."""
    fd = new_map("stranger")
    pin(fd, path)
    os.close(fd)


# ---- netlink

RTM_GETLINK, RTM_GETQDISC, RTM_GETTFILTER = 18, 38, 46
NLMSG_DONE, NLMSG_ERROR, NLM_DUMP = 3, 2, 0x301
INGRESS, EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
TCA_KIND, TCA_OPTIONS, IFLA_IFNAME, IFLA_QDISC = 1, 2, 3, 6


def attributes_of(data):
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3:]
    return found


def dump(sock, request, body):
    """All answers to a dump request: their bodies. A device that vanished meanwhile has none."""
    sock.send(struct.pack("IHHII", 16 + len(body), request, NLM_DUMP, 1, 0) + body)
    answers = []
    while True:
        data = sock.recv(1 << 18)
        while data:
            length, kind = struct.unpack_from("IH", data)
            if kind in (NLMSG_DONE, NLMSG_ERROR):
                return answers
            answers.append(data[16:length])
            data = data[(length + 3) & ~3:]


def word(data):
    return data.split(b"\0")[0].decode() if data else "-"


def network_state(netns=None):
    """Lines for every device, queue and filter of a namespace."""
    where = netns or "host"
    with place.in_netns(netns):
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    lines, names, filtered = [], {}, []
    with sock:
        for answer in dump(sock, RTM_GETLINK, struct.pack("BxHiII", 0, 0, 0, 0, 0)):
            index = struct.unpack_from("BxHi", answer)[2]
            found = attributes_of(answer[16:])
            names[index] = word(found.get(IFLA_IFNAME))
            lines.append(f"{where}: {names[index]} uses {word(found.get(IFLA_QDISC))}")
        for answer in dump(sock, RTM_GETQDISC, struct.pack("BxxxiIII", 0, 0, 0, 0, 0)):
            index, handle, parent = struct.unpack_from("BxxxiII", answer)[1:]
            found = attributes_of(answer[20:])
            kind = word(found.get(TCA_KIND))
            lines.append(f"{where}: {names.get(index, index)} queue {kind} handle {handle:x} parent {parent:x} "
                         f"options {found.get(TCA_OPTIONS, b'').hex()}")
            if kind in ("clsact", "ingress"):
                filtered.append(index)
        for index in filtered:
            for side, parent in (("ingress", INGRESS), ("egress", EGRESS)):
                for answer in dump(sock, RTM_GETTFILTER, struct.pack("BxxxiIII", 0, index, 0, parent, 0)):
                    _, _, handle, _, info = struct.unpack_from("BxxxiIII", answer)
                    found = attributes_of(answer[20:])
                    lines.append(f"{where}: {names.get(index, index)} {side} filter {word(found.get(TCA_KIND))} "
                                 f"handle {handle:x} priority {info >> 16} options {found.get(TCA_OPTIONS, b'').hex()}")
    return lines


def queue_kind(device, netns=None):
    """Kind of the root queue of a device."""
    for line in network_state(netns):
        words = line.split()
        if words[1] == device and words[2] == "uses":
            return words[3]
    return None


# ---- somebody else's tc program

def instruction(code, dst=0, src=0, offset=0, value=0):
    return struct.pack("BBhi", code, dst | src << 4, offset, value)


class CountingProgram:
    """A program that counts packets and returns `verdict`; for tc, -1 lets others go on and 0 does not."""

    def __init__(self, name, verdict=-1, kind=SCHED_CLS, attach_type=0):
        self.name = name
        self.attach_type = attach_type
        self.map = new_map(name)
        code = b"".join([
            instruction(0x62, dst=10, offset=-4, value=0),    # key on the stack = 0
            instruction(0xBF, dst=2, src=10),
            instruction(0x07, dst=2, value=-4),
            instruction(0x18, dst=1, src=1, value=self.map),  # the map
            instruction(0),
            instruction(0x85, value=1),                       # look up
            instruction(0x15, dst=0, offset=2, value=0),
            instruction(0xB7, dst=1, value=1),
            instruction(0xDB, dst=0, src=1),                  # add 1, atomically
            instruction(0xB7, dst=0, value=verdict),
            instruction(0x95),
        ])
        code_buffer, license_buffer = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
        self.fd, _ = bpf(PROG_LOAD, struct.pack("IIQQIIQII16sII", kind, len(code) // 8, address_of(code_buffer),
                                                address_of(license_buffer), 0, 0, 0, 0, 0, name.encode()[:15], 0,
                                                attach_type))
        self.links = []

    def count(self):
        key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(8)
        bpf(MAP_LOOKUP, struct.pack("IxxxxQQQ", self.map, address_of(key), address_of(value), 0))
        return struct.unpack("Q", value.raw[:8])[0]

    def pin(self, path):
        pin(self.fd, path)

    def attach(self, target, attach_type):
        link, _ = bpf(LINK_CREATE, struct.pack("IIIIIIQ", self.fd, target, attach_type, 0, 0, 0, 0))
        self.links.append(link)

    def attach_tcx(self, device, egress=True):
        """OSError (EINVAL) on kernels without TCX."""
        self.attach(socket.if_nametoindex(device), TCX_EGRESS if egress else TCX_INGRESS)

    def attach_cgroup(self, name):
        target = os.open(os.path.join(place.CGROUP, name), os.O_RDONLY)
        try:
            self.attach(target, self.attach_type)
        finally:
            os.close(target)

    def close(self):
        for fd in self.links + [self.fd, self.map]:
            os.close(fd)
