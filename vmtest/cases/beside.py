#!/usr/bin/python3
# timeout: 60
"""Programs of others on the same device go on, see what they saw, and are still there afterwards."""
import os

import chaos
import kernel
import place
from case import check, check_equal, main, part, skip
from scene import VICTIM, Scene

HOST = "10.77.1.2"

scene = None


def setup():
    global scene
    scene = Scene()
    scene.listen(8400)
    scene.listen(8401)


def rules():
    return [chaos.rule("slow", {"cgroup": VICTIM, "ports": [8400]}, {"delay": "100ms"}),
            chaos.rule("cut", {"cgroup": VICTIM, "ports": [8401]}, {"reset": True})]


def check_faults_and(programs, what):
    """Faults work, and each of the others' programs counts packets."""
    before = [program.count() for program in programs]
    met = scene.victim.get(HOST, 8400)
    check(met["error"] is None and met["ms"] >= 99, f"{what}: the slow request: {met}")
    check_equal(scene.victim.get(HOST, 8401)["error"], "ECONNRESET", f"{what}: the request that is cut")
    check_equal(scene.neighbour.get(HOST, 8401)["error"], None, f"{what}: the neighbour")
    for program, then in zip(programs, before):
        check(program.count() > then, f"{what}: program {program.name} saw nothing")


@part
def tc_filters():
    """On clsact, in both directions; one of them ends the chain (TC_ACT_OK)."""
    place.run("tc", "qdisc", "add", "dev", "h1", "clsact")
    programs = [kernel.CountingProgram("their_in"), kernel.CountingProgram("their_out", verdict=0)]
    try:
        for program, side in zip(programs, ("ingress", "egress")):
            program.pin("/sys/fs/bpf/" + program.name)
            place.run("tc", "filter", "add", "dev", "h1", side, "prio", "10", "bpf", "da", "object-pinned",
                      "/sys/fs/bpf/" + program.name)
        before = sorted(kernel.network_state())
        chaos.load(*rules())
        check_faults_and(programs, "loaded beside them")
        chaos.load(*rules())
        check_faults_and(programs, "loaded again")
        chaos.stop()
        check_equal(sorted(kernel.network_state()), before, "devices, queues and filters after stop")
        then = [program.count() for program in programs]
        scene.victim.get(HOST, 8400)
        check(all(program.count() > n for program, n in zip(programs, then)), "a program saw nothing after stop")
    finally:
        place.run("tc", "qdisc", "delete", "dev", "h1", "clsact")
        for program in programs:
            program.close()
            os.unlink("/sys/fs/bpf/" + program.name)


@part
def tcx_programs():
    """As Cilium attaches them: before ours and after ours, one ending the chain."""
    programs = [kernel.CountingProgram("early_out"), kernel.CountingProgram("early_in", verdict=0)]
    late = kernel.CountingProgram("late_out", verdict=0)
    try:
        try:
            programs[0].attach_tcx("h1")
        except OSError as error:
            skip(f"no TCX here: {error}")
        programs[1].attach_tcx("h1", egress=False)
        chaos.load(*rules())
        check_faults_and(programs, "attached before the load")
        late.attach_tcx("h1")
        check_faults_and(programs + [late], "attached after the load")
        chaos.stop()
        then = [program.count() for program in programs + [late]]
        scene.victim.get(HOST, 8400)
        check(all(program.count() > n for program, n in zip(programs + [late], then)), "a program saw nothing after stop")
    finally:
        for program in programs + [late]:
            program.close()


@part
def cgroup_programs():
    """A cgroup_skb program of systemd's kind on the victim's cgroup, attached before and found again afterwards."""
    program = kernel.CountingProgram("their_skb", verdict=1, kind=kernel.CGROUP_SKB, attach_type=kernel.CGROUP_EGRESS)
    try:
        program.attach_cgroup(VICTIM)
        chaos.load(*rules())
        check_faults_and([program], "beside a cgroup program")
        chaos.stop()
        then = program.count()
        scene.victim.get(HOST, 8400)
        check(program.count() > then, "the cgroup program saw nothing after stop")
    finally:
        program.close()


main(setup, lambda: scene and scene.close())
