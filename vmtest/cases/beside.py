#!/usr/bin/python3
# timeout: 60
"""Programs of others on the same devices and cgroups go on, see what they saw, and are still there afterwards."""
import os

import chaos
import kernel
import place
from case import check, check_equal, expect, main, part
from scene import VICTIM, Scene

HOST, SLOW, CUT = "10.77.1.2", 8400, 8401

scene = None
programs = []
network = []


def setup():
    """tc filters on clsact, one of them ending the chain (TC_ACT_OK); TCX programs as Cilium attaches them, one of them
    ending it as well; a cgroup program as systemd has it. All before the load."""
    global scene
    scene = Scene()
    for port in (SLOW, CUT):
        scene.listen(port)
    place.run("tc", "qdisc", "add", "dev", "h1", "clsact")
    for side, verdict in (("ingress", -1), ("egress", 0)):
        program = add("tc_" + side, verdict)
        program.pin("/sys/fs/bpf/" + program.name)
        place.run("tc", "filter", "add", "dev", "h1", side, "prio", "10", "bpf", "da", "object-pinned",
                  "/sys/fs/bpf/" + program.name)
    add("cgroup_skb", 1, kind=kernel.CGROUP_SKB, attach_type=kernel.CGROUP_EGRESS).attach_cgroup(VICTIM)
    network.extend(sorted(kernel.network_state()))


def add(name, verdict, **options):
    programs.append(kernel.CountingProgram("their_" + name, verdict, **options))
    return programs[-1]


def teardown():
    for program in programs:
        program.close()
        if os.path.exists("/sys/fs/bpf/" + program.name):
            os.unlink("/sys/fs/bpf/" + program.name)
    if scene:
        scene.close()


def rules():
    return [chaos.rule("slow", {"cgroup": VICTIM, "ports": [SLOW]}, {"delay": "100ms"}),
            chaos.rule("cut", {"cgroup": VICTIM, "ports": [CUT]}, {"reset": True})]


def check_all_see(what, traffic):
    before = [program.count() for program in programs]
    traffic()
    for program, then in zip(programs, before):
        check(program.count() > then, f"{what}: {program.name} saw nothing")


def faulted_traffic():
    met = scene.victim.get(HOST, SLOW)
    check(met["error"] is None and met["ms"] >= 99, f"the slow request: {met}")
    check_equal(scene.victim.get(HOST, CUT)["error"], "ECONNRESET", "the request that is cut")
    check_equal(scene.neighbour.get(HOST, CUT)["error"], None, "the neighbour")
    expect("slow", 1)
    expect("cut", 1)


@part
def attached_before():
    check_all_see("loaded beside them", faulted_traffic)


@part
def attached_after():
    """TCX, newer than ours; on kernels without it, one more filter with the best priority."""
    ends = add("tcx_out", 0)
    try:
        ends.attach_tcx("h1")
        add("tcx_in", 0).attach_tcx("h1", egress=False)
        del programs[:2]  # the filters come after TCX programs, which have just ended the chain
    except OSError:
        ends.close()
        programs.remove(ends)
    check_all_see("attached after the load", faulted_traffic)


def tidy():
    check_equal(sorted(kernel.network_state()), network, "devices, queues and filters after stop")
    check_all_see("after stop", lambda: check_equal(scene.victim.get(HOST, CUT)["error"], None, "a request after stop"))
    while len(programs) > 3 or (programs and programs[-1].name.startswith("their_tcx")):
        programs.pop().close()


main(setup, teardown, rules, tidy)
