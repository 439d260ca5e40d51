#!/usr/bin/python3
# timeout: 90
"""Client and server side, request and response: what each end sees, and that the other side is left alone."""
import chaos
import place
from case import KERNEL, check, check_equal, check_took, main, part, skip
from peers import Server
from scene import VICTIM, Scene
from worker import Worker

SERVER = "case/server"
DELAY_MS = 400
HOSTS = ["127.0.0.1", "::1", "10.77.1.2", "fd77:1::2"]

scene = None


def setup():
    global scene
    scene = Scene()


def rule(name, side, direction, fault, port):
    scene.listen(port)
    return chaos.rule(name, {"cgroup": VICTIM if side == "client" else SERVER, "ports": [port], "side": side,
                             "direction": direction}, fault)


def server_of(host):
    return scene.near if host in ("127.0.0.1", "::1") else scene.far


def books(**injected):
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    check_equal({one["name"]: (one["matched"], one["injected"]) for one in state.all["rules"]},
                {name.replace("_", "-"): (n, n) for name, n in injected.items()}, "matched, injected")


SIDES = [("client", "request"), ("client", "response"), ("server", "request"), ("server", "response")]


@part
def reset():
    names = [f"{side}-{direction}" for side, direction in SIDES]
    chaos.load(*[rule(name, *name.split("-"), {"reset": True}, 7200 + i) for i, name in enumerate(names)])
    for i, (side, direction) in enumerate(SIDES):
        for host in HOSTS:
            server, what = server_of(host), f"{side} {direction} {host}"
            requests, resets = server.count("requests", "victim"), server.count("errors", "ECONNRESET")
            met = scene.victim.get(host, 7200 + i)
            # the server's socket dies unseen by the client, whose packet is then answered by a reset
            room = 20000 if (side, direction) == ("server", "request") else 2000
            check_equal((met["where"], met["error"]), ("request", "ECONNRESET"), f"{what}: the client")
            check_took(met["ms"], 0, f"{what}: the client", room_ms=room)
            arrived = server.count("requests", "victim") - requests
            check_equal(arrived, 1 if direction == "response" else 0, f"{what}: requests that the server saw")
            if (side, direction) == ("server", "request"):
                check_equal(server.count("errors", "ECONNRESET") - resets, 1, f"{what}: resets that the server saw")
            if side == "client":
                check_equal(scene.neighbour.get(host, 7200 + i)["error"], None, f"{what}: the neighbour")
    books(**{name.replace("-", "_"): len(HOSTS) for name in names})


@part
def drop():
    """On old connections, so that the packet that vanishes is the one that the direction names."""
    names = [f"{side}-{direction}" for side, direction in SIDES]
    rules = [rule(name, *name.split("-"), {"drop": True}, 7210 + i) for i, name in enumerate(names)]
    opened = {(i, host): scene.victim.open(host, 7210 + i)["id"] for i in range(4) for host in HOSTS}
    chaos.load(*rules)
    for (i, host), number in opened.items():
        side, direction = SIDES[i]
        server, what = server_of(host), f"{side} {direction} {host}"
        requests = server.count("requests", "victim")
        check_equal(scene.victim.request(number, timeout=0.25)["error"], "timeout", f"{what}: the client")
        check_equal(server.count("requests", "victim") - requests, 1 if direction == "response" else 0,
                    f"{what}: requests that the server saw")
        if side == "client":
            check_equal(scene.neighbour.get(host, 7210 + i)["error"], None, f"{what}: the neighbour")
    books(**{name.replace("-", "_"): len(HOSTS) for name in names})


@part
def delay_by_the_server():
    """Each reply once, to whichever client; connecting is undisturbed."""
    chaos.load(rule("slow", "server", "both", {"delay": f"{DELAY_MS}ms"}, 7220))
    for client in (scene.victim, scene.neighbour):
        opened = [client.open(host, 7220) for host in HOSTS]
        check(all(one["ms"] < DELAY_MS for one in opened), f"connecting was slow: {opened}")
        for turn in ("first", "second"):
            for host, met in zip(HOSTS, client.requests_together([one["id"] for one in opened])):
                check_equal(met["error"], None, f"{host}: the {turn} request")
                check_took(met["ms"], DELAY_MS, f"{host}: the {turn} request")
    books(slow=4 * len(HOSTS))


@part
def other_side_is_left_alone():
    """A rule about a process as a client says nothing of it as a server, and the other way round."""
    scene.listen(7230)
    chaos.load(chaos.rule("client", {"cgroup": SERVER, "ports": [7230]}, {"reset": True}),
               chaos.rule("server", {"cgroup": VICTIM, "ports": [7230], "side": "server"}, {"reset": True}))
    for host in HOSTS:
        check_equal(scene.victim.get(host, 7230)["error"], None, f"{host}: a request")
    books(client=0, server=0)


@part
def accepted_by_another():
    """A listener that the parent made, connections that a child in another cgroup accepts."""
    if KERNEL < (5, 11):
        skip("on this kernel an accepted connection belongs to whoever made its listener")
    place.make_cgroup("case/worker")
    parent = Worker(Server, cgroup=SERVER, comm="master")
    try:
        parent.listen("127.0.0.1", 7240, accept=False)
        parent.listen("::1", 7240, accept=False)
        child = parent.fork(cgroup="case/worker", comm="worker")
        child.accept_here(0)
        child.accept_here(1)
        chaos.load(chaos.rule("worker", {"cgroup": "case/worker", "ports": [7240], "side": "server"},
                              {"delay": f"{DELAY_MS}ms"}),
                   chaos.rule("master", {"pid": parent.pid, "process": "master", "ports": [7240], "side": "server"},
                              {"reset": True}))
        for host in ("127.0.0.1", "::1"):
            met = scene.victim.get(host, 7240)
            check_equal(met["error"], None, f"{host}: the request")
            check_took(met["ms"], DELAY_MS, f"{host}: the request")
        books(worker=2, master=0)
        child.kill()
    finally:
        parent.kill()
        place.remove_cgroup("case/worker")


main(setup, lambda: scene and scene.close())
