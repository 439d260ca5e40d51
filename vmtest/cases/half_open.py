#!/usr/bin/python3
# timeout: 150
"""half-open: after a pause nothing of a connection comes through any more, and neither end is told."""
import time

import chaos
from case import alone, check_equal, check_took, expect, main, part
from scene import PLACES, VICTIM, Scene

IDLE_MS = 3000
POOL, BUSY, SERVED, LATER, RESET = range(7700, 7705)
HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]

scene = None
old = {}


def setup():
    global scene
    scene = Scene()
    for port in (POOL, BUSY, SERVED, LATER, RESET):
        scene.listen(port, "echo")
    for host in HOSTS:
        old[host] = scene.victim.open(host, POOL)["id"]
        check_equal(scene.victim.ping(old[host])["error"], None, f"{host}: before the load")


def rules():
    fault = {"half_open": {"idle": f"{IDLE_MS}ms"}}
    return [chaos.rule("pool", {"cgroup": VICTIM, "ports": [POOL]}, fault),
            chaos.rule("reset", {"cgroup": VICTIM, "ports": [RESET]}, {"half_open": {"idle": f"{IDLE_MS}ms", "how": "reset"}}),
            chaos.rule("busy", {"cgroup": VICTIM, "ports": [BUSY]}, fault),
            chaos.rule("served", {"cgroup": "case/server", "ports": [SERVED], "side": "server"}, fault)]


def pause(ms=IDLE_MS + 200):
    time.sleep(ms / 1000)


@part
def a_pool_after_a_pause():
    """Connections of before the load and new ones; those of the neighbour go on."""
    used = {host: scene.victim.open(host, POOL)["id"] for host in HOSTS}
    other = {host: scene.neighbour.open(host, POOL)["id"] for host in HOSTS}
    served = {host: scene.victim.open(host, SERVED)["id"] for host in HOSTS}
    for host in HOSTS:
        for number in (used[host], served[host]):
            check_equal(scene.victim.ping(number)["error"], None, f"{host}: before the pause")
        check_equal(scene.neighbour.ping(other[host])["error"], None, f"{host}: the neighbour before the pause")
    pause()
    for host in HOSTS:
        check_equal(scene.neighbour.ping(other[host])["error"], None, f"{host}: the neighbour after the pause")
        for number in (used[host], old[host], served[host]):
            check_equal(scene.victim.ping(number, timeout=0.3)["error"], "timeout", f"{host}: after the pause")
        check_equal(scene.victim.ping(scene.victim.open(host, POOL)["id"])["error"], None, f"{host}: a new connection")
        expect("pool", 2, event={"fault": "half-open", "comm": "victim"})
        expect("served", 1, event={"side": "server"})


@part
def reset_after_a_pause():
    """The first use of a connection that was idle too long is answered by a reset; those that were used are left alone."""
    idle, used, other = ({host: client.open(host, RESET)["id"] for host in HOSTS}
                         for client in (scene.victim, scene.victim, scene.neighbour))
    for _ in range(3):
        pause(IDLE_MS * 0.4)
        for host in HOSTS:
            check_equal(scene.victim.ping(used[host])["error"], None, f"{host}: in use")
    for host in HOSTS:
        met = scene.victim.ping(idle[host], timeout=10)
        check_equal(met["error"], "ECONNRESET", f"{host}: after the pause")
        check_took(met["ms"], 0, f"{host}: after the pause")
        check_equal(scene.neighbour.ping(other[host])["error"], None, f"{host}: the neighbour after the pause")
        check_equal(scene.victim.ping(scene.victim.open(host, RESET)["id"])["error"], None, f"{host}: a new connection")
        expect("reset", 1, event={"fault": "half-open", "comm": "victim"})


@part
def a_connection_in_use():
    """Shorter pauses do nothing, however long it lasts."""
    number = scene.victim.open("127.0.0.1", BUSY)["id"]
    for _ in range(6):
        check_equal(scene.victim.ping(number)["error"], None, "in use")
        pause(IDLE_MS / 4)
    expect("busy", 0)


@part
def keepalive():
    """Inside the pause it keeps a connection alive; a later one finds that it is dead."""
    alive = scene.victim.open("127.0.0.1", BUSY, keepalive=1)["id"]
    dead = scene.victim.open("127.0.0.1", BUSY, keepalive=IDLE_MS // 1000 + 1)["id"]
    met = scene.victim.receive(dead, timeout=30)
    check_equal(met["error"], "ETIMEDOUT", "keepalive after the pause")
    check_took(met["ms"], IDLE_MS, "keepalive after the pause", room_ms=10000)
    check_equal(scene.victim.ping(alive)["error"], None, "keepalive within the pause")
    expect("busy", 1)


@alone
def afterwards_it_goes_on():
    chaos.load(chaos.rule("pool", {"cgroup": VICTIM, "ports": [LATER]}, {"half_open": "500ms"}))
    numbers = [scene.victim.open(host, LATER)["id"] for host in HOSTS]
    pause(1000)
    for number in numbers:
        check_equal(scene.victim.ping(number, timeout=0.3)["error"], "timeout", "after the pause")
    chaos.stop()
    for number in numbers:
        check_equal(scene.victim.receive(number)["bytes"], len("PING\r\n"), "after the end")


main(setup, lambda: scene and scene.close(), rules)
