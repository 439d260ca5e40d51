#!/usr/bin/python3
# timeout: 90
"""Devices and network namespaces that vanish or appear while rules are loaded."""
import chaos
import kernel
import place
from case import check, check_equal, check_took, main, part, wait_until
from peers import Server
from scene import VICTIM, Scene
from worker import Worker

DELAY_MS = 300

scene = None


def setup():
    global scene
    scene = Scene()
    scene.listen(8000)
    place.make_cgroup("case/app")


def rules():
    """Delay needs a queue and reset a tc program on the device; a cgroup may open sockets anywhere."""
    return [chaos.rule("slow", {"cgroup": "case/app", "ports": [8000]}, {"delay": f"{DELAY_MS}ms"}),
            chaos.rule("cut", {"cgroup": "case/app", "ports": [8001]}, {"reset": True})]


def add_pair(i, netns):
    place.run("ip", "-batch", "-", stdin=f"""link add h{i} type veth peer name s{i} netns {netns}
addr add 10.77.{i}.1/24 dev h{i}
addr add fd77:{i}::1/64 dev h{i} nodad
link set h{i} up
""")
    place.run("ip", "-n", netns, "-batch", "-", stdin=f"""link set lo up
addr add 10.77.{i}.2/24 dev s{i}
addr add fd77:{i}::2/64 dev s{i} nodad
link set s{i} up
""")


def prepared(device, netns=None):
    wait_until(lambda: kernel.queue_kind(device, netns) == "fq", f"{device} to be prepared")


@part
def that_vanish():
    """With packets held on it; the rules go on elsewhere, and stop is as clean as ever."""
    add_pair(5, "ns1")
    scene.far.listen("10.77.5.2", 8000)
    client = scene.client(cgroup="case/app", comm="app")
    chaos.load(*rules())
    number = client.open("10.77.5.2", 8000)["id"]
    check_took(client.request(number)["ms"], DELAY_MS, "before the device goes")
    client.begin("request", number, timeout=1)
    wait_until(lambda: chaos.status()["slow"]["injected"] == 2, "a request to be held", pause=0)
    place.run("ip", "link", "delete", "h5")
    met = client.end(stop=False)["error"]
    check(met is not None, f"a request over a device that is gone went well")
    for host in ("127.0.0.1", "10.77.1.2"):
        met = client.get(host, 8000)
        check_equal(met["error"], None, f"{host}: another device")
        check_took(met["ms"], DELAY_MS, f"{host}: another device")
    for problem in chaos.problems_of(chaos.status()):
        check(False, problem)
    client.kill()


@part
def that_appear():
    """A new device in a namespace that was there, with a process that was there as well."""
    client = scene.client(cgroup="case/app", comm="app")
    chaos.load(*rules())
    add_pair(6, "ns1")
    try:
        prepared("h6")
        for host in ("10.77.6.2", "fd77:6::2"):
            scene.far.listen(host, 8000)
            scene.far.listen(host, 8001)
            met = client.get(host, 8000)
            check_equal(met["error"], None, f"{host}: request")
            check_took(met["ms"], DELAY_MS, f"{host}: request")
            check_equal(client.get(host, 8001)["error"], "ECONNRESET", f"{host}: request that is cut")
            check_equal(scene.neighbour.get(host, 8000)["error"], None, f"{host}: the neighbour")
        state = chaos.status()
        check_equal((state["slow"]["injected"], state["cut"]["injected"]), (2, 2), "injected")
    finally:
        place.run("ip", "link", "delete", "h6")
        client.kill()


@part
def namespaces_that_appear():
    """A container that starts after the load: its processes are in the cgroup, its namespace is new."""
    chaos.load(*rules())
    place.run("ip", "netns", "add", "ns9")
    client = server = None
    try:
        add_pair(9, "ns9")
        client = scene.client(cgroup="case/app", netns="ns9", comm="app")
        server = Worker(Server, netns="ns9", comm="server")
        for host in ("127.0.0.1", "10.77.9.2"):
            server.listen(host, 8000)
        scene.near.listen("10.77.9.1", 8000)
        scene.near.listen("10.77.9.1", 8001)
        client.get("10.77.9.1", 8000)  # who comes first may find the namespace not prepared: that is counted
        prepared("s9", "ns9")
        prepared("lo", "ns9")
        for host in ("10.77.9.1", "127.0.0.1"):
            met = client.get(host, 8000)
            check_equal(met["error"], None, f"{host}: request")
            check_took(met["ms"], DELAY_MS, f"{host}: request")
        check_equal(client.get("10.77.9.1", 8001)["error"], "ECONNRESET", "request that is cut")
        state = chaos.status()
        for problem in chaos.problems_of(state):
            check(False, problem)
        check_equal(state["slow"]["injected"] + state["slow"]["skipped"]["device"], 3, "requests that came up")
        chaos.stop()
        check_equal(kernel.queue_kind("s9", "ns9"), "noqueue", "queue of the new device after stop")
    finally:
        for worker in (client, server):
            if worker:
                worker.kill()
        place.run("ip", "netns", "delete", "ns9")
        wait_until(lambda: kernel.queue_kind("h9") is None, "the pair to go")


main(setup, lambda: scene and scene.close())
