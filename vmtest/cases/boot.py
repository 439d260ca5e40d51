#!/usr/bin/python3
"""The guest is what the other cases rely on: the right kernel, cgroup2, BTF, bpffs, fq, a loopback that works."""

import os
import socket
import subprocess

wanted = os.environ["KERNEL"]
release = os.uname().release
assert release.startswith(wanted + "."), f"asked for kernel {wanted}, got {release}"

assert os.path.exists("/sys/fs/cgroup/cgroup.procs"), "no cgroup2 at /sys/fs/cgroup"
assert os.path.exists("/sys/kernel/btf/vmlinux"), "the kernel has no BTF"
assert os.path.ismount("/sys/fs/bpf"), "no bpffs"

subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "fq", "nopacing"], check=True)
shown = subprocess.run(["tc", "qdisc", "show", "dev", "lo"], check=True, capture_output=True, text=True).stdout
assert "fq" in shown, f"no fq on lo: {shown}"
subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)

subprocess.run(["ip", "link", "add", "here", "type", "veth", "peer", "name", "there"], check=True)

for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    with socket.create_server((address, 0), family=family) as server:
        with socket.create_connection(server.getsockname()[:2], timeout=5) as client:
            client.sendall(b"hello")
            peer, _ = server.accept()
            assert peer.recv(5) == b"hello"
            peer.close()

print(f"{release}, {os.cpu_count()} processors")
