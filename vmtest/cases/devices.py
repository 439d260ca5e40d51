#!/usr/bin/python3
# timeout: 90
"""Devices and network namespaces that vanish or appear while rules are loaded."""
import chaos
import kernel
import place
from case import check, check_equal, check_took, expect, main, part, wait_until
from peers import Server
from scene import Scene
from worker import Worker

DELAY_MS = 300
SLOW, CUT = 8000, 8001

scene = app = None


def setup():
    global scene, app
    scene = Scene()
    for port in (SLOW, CUT):
        scene.listen(port)
    place.make_cgroup("case/app")
    app = scene.client(cgroup="case/app", comm="app")


def teardown():
    if scene:
        place.run("ip", "netns", "delete", "ns9", check=False)
        for i in (5, 6):
            place.run("ip", "link", "delete", f"h{i}", check=False)
        scene.close()


def rules():
    """Delay needs a queue and reset a tc program on the device; a cgroup may open sockets anywhere. h5 will vanish."""
    add_pair(5, "ns1")
    scene.far.listen("10.77.5.2", SLOW)
    return [chaos.rule("slow", {"cgroup": "case/app", "ports": [SLOW]}, {"delay": f"{DELAY_MS}ms"}),
            chaos.rule("cut", {"cgroup": "case/app", "ports": [CUT]}, {"reset": True})]


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


def wait_prepared(device, netns=None):
    wait_until(lambda: kernel.queue_kind(device, netns) == "fq", f"{device} to be prepared")


def check_slow(client, host):
    met = client.get(host, SLOW)
    check_equal(met["error"], None, f"{host}: a slow request")
    check_took(met["ms"], DELAY_MS, f"{host}: a slow request")
    expect("slow", 1)


def check_cut(client, host):
    check_equal(client.get(host, CUT)["error"], "ECONNRESET", f"{host}: a request that is cut")
    expect("cut", 1)


@part
def that_vanish():
    """With a request held on it; the rules go on elsewhere, and stop is as clean as ever."""
    number = app.open("10.77.5.2", SLOW)["id"]
    check_took(app.request(number)["ms"], DELAY_MS, "before the device goes")
    before = chaos.status()["slow"]["injected"]
    app.begin("request", number, timeout=1)
    wait_until(lambda: chaos.status()["slow"]["injected"] > before, "a request to be held", pause=0)
    place.run("ip", "link", "delete", "h5")
    app.end(stop=False)  # whether it got through in time or not
    check_equal(app.request(number, timeout=0.5)["error"], "timeout", "a request over a device that is gone")
    expect("slow", chaos.status()["slow"]["injected"])
    for host in ("127.0.0.1", "10.77.1.2"):
        check_slow(app, host)


@part
def that_appear():
    """A new device in a namespace that was there, with a process that was there as well."""
    add_pair(6, "ns1")
    wait_prepared("h6")
    for host in ("10.77.6.2", "fd77:6::2"):
        scene.far.listen(host, SLOW)
        scene.far.listen(host, CUT)
        check_slow(app, host)
        check_cut(app, host)
        check_equal(scene.neighbour.get(host, CUT)["error"], None, f"{host}: the neighbour")


@part
def namespaces_that_appear():
    """A container that starts after the load: its processes are in the cgroup, its namespace is new."""
    place.run("ip", "netns", "add", "ns9")
    add_pair(9, "ns9")
    client = scene.client(cgroup="case/app", netns="ns9", comm="app")
    server = Worker(Server, netns="ns9", comm="server")
    server.listen("127.0.0.1", SLOW)
    for port in (SLOW, CUT):
        scene.near.listen("10.77.9.1", port)
    skipped = chaos.status()["slow"]["skipped"]["device"]
    met = client.get("10.77.9.1", SLOW)  # who comes first may find the namespace not prepared: that is counted
    check_equal(met["error"], None, "the first request in a new namespace")
    wait_prepared("s9", "ns9")
    wait_prepared("lo", "ns9")
    too_early = chaos.status()["slow"]["skipped"]["device"] - skipped
    check(met["ms"] >= DELAY_MS - 1 or too_early == 1, f"the first request took {met['ms']} ms, {too_early} were skipped")
    expect("slow", 1 - too_early, {"device": skipped + too_early})
    for host in ("10.77.9.1", "127.0.0.1"):
        check_slow(client, host)
    check_cut(client, "10.77.9.1")
    for worker in (client, server):
        worker.kill()


def tidy():
    """The new namespace got back what it had."""
    for device in ("s9", "lo"):
        check_equal(kernel.queue_kind(device, "ns9"), "noqueue", f"queue of {device} in the new namespace after stop")
    place.run("ip", "netns", "delete", "ns9")
    place.run("ip", "link", "delete", "h6")
    wait_until(lambda: kernel.queue_kind("h9") is None, "the pair to go")


main(setup, teardown, rules, tidy)
