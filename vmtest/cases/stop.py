#!/usr/bin/python3
# timeout: 240
"""The red button: during heavy traffic, twice, and whatever state of chaosbpf's is found."""
import fcntl
import os
import shutil
import signal

import chaos
import kernel
import leftovers
import place
from case import alone, check, check_equal, main, only_in_a_guest, wait_until
from scene import VICTIM, Scene

HOST = "127.0.0.1"
PINS, STATE = "/sys/fs/bpf/chaosbpf", "/run/chaosbpf"

scene = None


def setup():
    global scene
    scene = Scene()
    scene.listen(7900)
    scene.listen(7901, "udp")
    scene.listen(7902)


def rules():
    return [chaos.rule("slow", {"cgroup": VICTIM, "ports": [7900]}, {"delay": "200ms"}),
            chaos.rule("lossy", {"cgroup": VICTIM, "ports": [7901], "protocol": "udp"}, {"drop": "30%"}),
            chaos.rule("cut", {"cgroup": VICTIM, "ports": [7902]}, {"reset": True}),
            chaos.rule("closed", {"cgroup": VICTIM, "ports": [7903], "protocol": "tcp"}, {"refuse": "denied"})]


@alone
def during_heavy_traffic():
    """No request fails because of it, and afterwards nothing is slow, lost or refused."""
    workers = [scene.client(cgroup=VICTIM, comm=f"victim-{i}") for i in range(3)]
    chaos.load(*rules())
    for worker, host in zip(workers, (HOST, "10.77.1.2", "fd77:1::2")):
        worker.begin("hammer", host, 7900, worker.open(host, 7900)["id"])
    scene.neighbour.begin("hammer", "10.77.1.2", 7900, "request")
    number = scene.victim.udp_open(HOST, 7901)["id"]
    scene.victim.begin("udp_hammer", number)
    wait_until(lambda: chaos.status()["slow"]["injected"] >= 6, "requests to be slow", pause=0.2)
    result = chaos.stop()
    check(result["was_loaded"], f"stop said {result}")
    check(scene.victim.end()["problems"] == {}, "a datagram could not be sent")
    for worker in workers:
        runs = worker.end()
        check_equal([met for met, *_ in runs], [None], "a victim's outcomes")
    check_equal([met for met, *_ in scene.neighbour.end()], [None], "the neighbour's outcomes")
    before = sum(server.count("datagrams", 7901) for server in scene.servers())
    check_equal(scene.victim.udp_many(number, 200), {}, "errors while sending")
    wait_until(lambda: sum(server.count("datagrams", 7901) for server in scene.servers()) - before >= 200,
               "all of 200 datagrams to arrive after stop", seconds=5)
    check(min(worker.get(HOST, 7900)["ms"] for worker in workers) < 200, "requests are still slow")
    check_equal(scene.victim.get(HOST, 7902)["error"], None, "a request that was reset before")
    check_equal(scene.victim.connects(HOST, 7903, 1), ["ECONNREFUSED"], "a connect that was denied before")
    for worker in workers:
        worker.kill()


@alone
def with_nothing_loaded():
    for _ in range(2):
        check_equal(chaos.stop()["was_loaded"], False, "was anything loaded?")
    check_equal(chaos.status().all["rules"], [], "rules")


def kill_reaper():
    only_in_a_guest("kills every chaosbpf process")
    for pid in place.processes("chaosbpf"):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not place.processes("chaosbpf"), "the reaper to be gone")


def state_files():
    paths = [os.path.join(STATE, name) for name in os.listdir(STATE)]
    return [path for path in paths if os.path.isfile(path)]


DAMAGE = {
    "no state directory": lambda: shutil.rmtree(STATE),
    "garbage in every state file": lambda: [open(path, "wb").write(b"\0\xff{]garbage" * 50) for path in state_files()],
    "half of every state file": lambda: [os.truncate(path, os.path.getsize(path) // 2) for path in state_files()],
    "no control map": lambda: os.unlink(PINS + "/chaos_control"),
    "no pins at all": lambda: shutil.rmtree(PINS),
    "foreign pins": lambda: [os.mkdir(PINS + "/gen-77"), kernel.pin_map(PINS + "/gen-77/stranger"),
                             kernel.pin_map(PINS + "/stranger")],
}


@alone
def broken_state():
    """Twice after each damage: the first leaves nothing, the second finds nothing."""
    for what, damage in DAMAGE.items():
        chaos.load(*rules())
        kill_reaper()
        damage()
        for turn in ("first", "second"):
            result = chaos.chaos("stop")
            check_equal(result.code, 0, f"{what}: exit code of the {turn} stop: {result.err}")
        wait_until(lambda: not leftovers.bpf_count("chaos_"), f"{what}: programs and maps to go: {kernel.bpf_objects()}",
                   seconds=10)
        check_equal(kernel.queue_kind("lo"), "noqueue", f"{what}: queue of lo")
        check_equal(scene.victim.connects(HOST, 7903, 1), ["ECONNREFUSED"], f"{what}: connect after stop")
        check_equal(scene.victim.get(HOST, 7902)["error"], None, f"{what}: request after stop")
    chaos.load(*rules())  # and all can be had again
    check_equal(scene.victim.get(HOST, 7902)["error"], "ECONNRESET", "a load after all this")


@alone
def while_another_command_holds_the_lock():
    """One that hangs must not keep the red button from working."""
    chaos.load(*rules())
    with open(STATE + "/lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = chaos.chaos("stop", timeout=30)
    check_equal(result.code, 0, f"exit code of stop: {result}")
    check_equal(scene.victim.get(HOST, 7902)["error"], None, "a request after stop")


main(setup, lambda: scene and scene.close())
