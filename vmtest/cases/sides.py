#!/usr/bin/python3
# timeout: 90
"""Client and server side, request and response: what each end sees, and that the other side is left alone."""
import chaos
import place
from case import KERNEL, check, check_equal, check_took, expect, main, part, skip
from peers import Server
from scene import VICTIM, Scene
from worker import Worker

SERVER = "case/server"
DELAY_MS = 400
HOSTS = ["127.0.0.1", "::1", "10.77.1.2", "fd77:1::2"]
SIDES = [("client", "request"), ("client", "response"), ("server", "request"), ("server", "response")]
RESET, DROP, SLOW, ALONE, SHARED = 7200, 7210, 7220, 7230, 7240  # ports, the first two and three after them

scene = parent = None
old = {}


def setup():
    global scene, parent
    scene = Scene()
    for port in [RESET + i for i in range(4)] + [DROP + i for i in range(4)] + [SLOW, ALONE]:
        scene.listen(port)
    # drop works on old connections here, so that the packet that vanishes is the one that the direction names
    for i in range(4):
        for host in HOSTS:
            old[i, host] = scene.victim.open(host, DROP + i)["id"]
    place.make_cgroup("case/worker")
    parent = Worker(Server, cgroup=SERVER, comm="master")
    for host in ("127.0.0.1", "::1"):
        parent.listen(host, SHARED, accept=False)


def rules():
    def match(side, port, **more):
        return {"cgroup": VICTIM if side == "client" else SERVER, "ports": [port], "side": side, **more}

    found = []
    for i, (side, direction) in enumerate(SIDES):
        found.append(chaos.rule(f"reset-{side}-{direction}", match(side, RESET + i, direction=direction), {"reset": True}))
        found.append(chaos.rule(f"drop-{side}-{direction}", match(side, DROP + i, direction=direction), {"drop": True}))
    return found + [
        chaos.rule("slow", match("server", SLOW), {"delay": f"{DELAY_MS}ms"}),
        chaos.rule("not-as-client", {"cgroup": SERVER, "ports": [ALONE]}, {"reset": True}),
        chaos.rule("not-as-server", {"cgroup": VICTIM, "ports": [ALONE], "side": "server"}, {"reset": True}),
        chaos.rule("worker", {"cgroup": "case/worker", "ports": [SHARED], "side": "server"}, {"delay": f"{DELAY_MS}ms"}),
        chaos.rule("master", {"process": "master", "ports": [SHARED], "side": "server"}, {"reset": True}),
    ]


def server_of(host):
    return scene.near if host in ("127.0.0.1", "::1") else scene.far


@part
def reset():
    for i, (side, direction) in enumerate(SIDES):
        for host in HOSTS:
            server, what = server_of(host), f"{side} {direction} {host}"
            requests, resets = server.count("requests", "victim"), server.count("resets", RESET + i)
            met = scene.victim.get(host, RESET + i)
            check_equal((met["where"], met["error"]), ("request", "ECONNRESET"), f"{what}: the client")
            # the server's socket dies unseen by the client, whose packet is answered by a reset when it is sent again
            check_took(met["ms"], 0, f"{what}: the client", room_ms=20000 if (side, direction) == SIDES[2] else 2000)
            check_equal(server.count("requests", "victim") - requests, 1 if direction == "response" else 0,
                        f"{what}: requests that the server saw")
            if (side, direction) == SIDES[2]:
                check_equal(server.count("resets", RESET + i) - resets, 1, f"{what}: resets that the server saw")
            if side == "client":
                check_equal(scene.neighbour.get(host, RESET + i)["error"], None, f"{what}: the neighbour")
            expect(f"reset-{side}-{direction}", 1)


@part
def drop():
    for (i, host), number in old.items():
        side, direction = SIDES[i]
        server, what = server_of(host), f"{side} {direction} {host}"
        requests = server.count("requests", "victim")
        check_equal(scene.victim.request(number, timeout=0.25)["error"], "timeout", f"{what}: the client")
        check_equal(server.count("requests", "victim") - requests, 1 if direction == "response" else 0,
                    f"{what}: requests that the server saw")
        if side == "client":
            check_equal(scene.neighbour.get(host, DROP + i)["error"], None, f"{what}: the neighbour")
        expect(f"drop-{side}-{direction}", 1)


@part
def delay_by_the_server():
    """Each reply once, to whichever client; connecting is undisturbed."""
    for client in (scene.victim, scene.neighbour):
        opened = [client.open(host, SLOW) for host in HOSTS]
        check(min(one["ms"] for one in opened) < DELAY_MS, f"connecting was slow: {opened}")
        for turn in ("first", "second"):
            for host, met in zip(HOSTS, client.requests_together([one["id"] for one in opened])):
                check_equal(met["error"], None, f"{host}: the {turn} request")
                check_took(met["ms"], DELAY_MS, f"{host}: the {turn} request")
        expect("slow", 2 * len(HOSTS), event={"side": "server"})


@part
def other_side_is_left_alone():
    """A rule about a process as a client says nothing of it as a server, and the other way round."""
    for host in HOSTS:
        check_equal(scene.victim.get(host, ALONE)["error"], None, f"{host}: a request")
    expect("not-as-client", 0)
    expect("not-as-server", 0)


@part
def accepted_by_another():
    """A listener that the parent made, connections that a child in another cgroup accepts."""
    if KERNEL < (5, 11):
        skip("on this kernel an accepted connection belongs to whoever made its listener")
    child = parent.fork(cgroup="case/worker", comm="worker")
    for i, host in enumerate(("127.0.0.1", "::1")):
        child.accept_here(i)
        met = scene.victim.get(host, SHARED)
        check_equal(met["error"], None, f"{host}: the request")
        check_took(met["ms"], DELAY_MS, f"{host}: the request")
    expect("worker", 2, event={"pid": child.pid, "comm": "worker"})
    expect("master", 0)


main(setup, lambda: scene and scene.close(), rules)
