#!/usr/bin/python3
# timeout: 60
# cgroup: hybrid
"""Hosts with cgroup v1 hierarchies and cgroup v2 beside them."""
import os

import chaos
from case import alone, check, check_counters, check_took, expect, main, skip
from scene import VICTIM, Scene

HOST, CLOSED, SLOW, OLD = "127.0.0.1", 8500, 8501, 8502
# Newer kernels have no v1 memory controller; a hierarchy without a controller can be had on all.
V1 = next((path for path in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd") if os.path.ismount(path)), None)
NET_CLS = "/sys/fs/cgroup/net_cls,net_prio"
DELAY_MS = 300

scene = old = inside = None


def v1(path, pid):
    os.makedirs(f"{V1}/{path}", exist_ok=True)
    with open(f"{V1}/{path}/cgroup.procs", "w") as procs:
        procs.write(str(pid))


def setup():
    global scene, old, inside
    if not V1:
        skip("no cgroup v1 hierarchy in this guest")
    scene = Scene(network=0)
    for port in (CLOSED, SLOW, OLD):
        scene.near.listen(HOST, port)
    old = scene.victim.open(HOST, OLD)["id"]
    inside = scene.client(comm="inside")
    v1("app-v1", inside.pid)
    # in use, it takes the place of the v2 cgroup in each new socket on 5.10
    if os.path.ismount(NET_CLS):
        os.makedirs(f"{NET_CLS}/tagged", exist_ok=True)
        with open(f"{NET_CLS}/tagged/net_cls.classid", "w") as file:
            file.write("0x100001")
        with open(f"{NET_CLS}/tagged/cgroup.procs", "w") as file:
            file.write(str(scene.victim.pid))


def teardown():
    if scene:
        scene.close()
        for path in (f"{V1}/app-v1/below", f"{V1}/app-v1", f"{NET_CLS}/tagged"):
            if os.path.isdir(path):
                os.rmdir(path)


def refused(worker):
    return worker.connects(HOST, CLOSED, 1) == ["EPERM"]


@alone
def both_kinds():
    """A v2 cgroup while net_cls is in use; and a cgroup that only a v1 hierarchy has, with who enters it later."""
    chaos.load(chaos.rule("v2", {"cgroup": VICTIM, "ports": [SLOW, OLD]}, {"delay": f"{DELAY_MS}ms"}),
               chaos.rule("v1", {"cgroup": "app-v1", "ports": [CLOSED], "protocol": "tcp"}, {"refuse": "denied"}))
    check_took(scene.victim.get(HOST, SLOW)["ms"], DELAY_MS, "a new connection of the v2 cgroup")
    check_took(scene.victim.request(old)["ms"], DELAY_MS, "an old connection of the v2 cgroup")
    check(min(scene.neighbour.get(HOST, SLOW)["ms"] for _ in range(3)) < DELAY_MS, "the neighbour is slow as well")
    expect("v2", 2, event={"pid": scene.victim.pid})
    check(refused(inside), "a process of the v1 cgroup was not refused")
    check(refused(inside.fork()), "a child of that was not refused")
    late = scene.client(comm="late")
    check(not refused(late), "a process outside of the v1 cgroup was refused")
    v1("app-v1/below", late.pid)
    check(refused(late), "a process that entered a cgroup below it was not refused")
    check(not refused(scene.neighbour), "the neighbour was refused")
    expect("v1", 3)
    check_counters()


main(setup, teardown)
