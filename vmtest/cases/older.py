#!/usr/bin/python3
# timeout: 90
"""Connections that are older than the load: a client's pool, accepted ones, UDP sockets; matched by every kind of owner."""
import chaos
import place
from case import check, check_equal, check_took, main, part
from peers import Server
from scene import VICTIM, Scene
from worker import Worker

DELAY_MS = 500
USER = 1000

scene = None
plain = None  # a client of a user of its own


def setup():
    global scene, plain
    scene = Scene()
    plain = scene.client(user=USER, comm="plain-user")
    for port in (7001, 7002, 7003):
        scene.listen(port)
    scene.listen(7004, "udp")


def books():
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    return state


def pool(worker, port, hosts=("127.0.0.1", "::1", "10.77.1.2", "fd77:1::2", "::ffff:10.77.1.2")):
    """Kept-alive connections with a request behind them; their numbers."""
    opened = [worker.open(host, port)["id"] for host in hosts]
    for number in opened:
        check_equal(worker.request(number)["error"], None, "a request before the load")
    return opened


@part
def client_pools():
    """One rule for each way to name the owner; every pool is older than the load, and so is the neighbour's."""
    worker_pid = scene.client(comm="by-pid")
    worker_comm = scene.client(comm="gunicorn-7")
    pools = {"pid": (worker_pid, pool(worker_pid, 7001)), "process": (worker_comm, pool(worker_comm, 7001)),
             "user": (plain, pool(plain, 7001)), "cgroup": (scene.victim, pool(scene.victim, 7001))}
    others = pool(scene.neighbour, 7001)
    names = {"pid": worker_pid.pid, "process": "gunicorn*", "user": USER, "cgroup": VICTIM}
    loaded = chaos.load(*[chaos.rule("by-" + key, {key: name, "ports": [7001]}, {"delay": f"{DELAY_MS}ms"})
                          for key, name in names.items()])
    check(loaded["sockets"] >= 4 * len(others), f"sockets that were given their owner: {loaded['sockets']}")
    for key, (worker, numbers) in pools.items():
        worker.begin("requests_together", numbers)
    for number in others:
        check_equal(scene.neighbour.request(number)["error"], None, "the neighbour's request")
    for key, (worker, numbers) in pools.items():
        for met in worker.end(stop=False):
            check_equal(met["error"], None, f"by {key}")
            check_took(met["ms"], DELAY_MS, f"by {key}")
    state = books()
    for key, (worker, numbers) in pools.items():
        check_equal(state["by-" + key]["injected"], len(numbers), f"by {key}: injected")
    for event in chaos.events():
        check_equal(event["pid"], pools[event["rule"][3:]][0].pid, f"pid in an event of {event['rule']}")
    for worker in (worker_pid, worker_comm):
        worker.kill()


@part
def dropped_and_reset():
    """An old connection goes silent, and comes back when the load ends; another is reset at once."""
    silent, hit = pool(scene.victim, 7002), pool(scene.victim, 7003)
    others = pool(scene.neighbour, 7002) + pool(scene.neighbour, 7003)
    sent_before = [server.count("requests", "victim") for server in scene.servers()]
    chaos.load(chaos.rule("silent", {"cgroup": VICTIM, "ports": [7002]}, {"drop": True}),
               chaos.rule("hit", {"cgroup": VICTIM, "ports": [7003]}, {"reset": True}))
    for number in hit:
        met = scene.victim.request(number)
        check_equal(met["error"], "ECONNRESET", "reset of an old connection")
        check_took(met["ms"], 0, "reset of an old connection")
    for number in silent:
        check_equal(scene.victim.request(number, timeout=0.3)["error"], "timeout", "an old connection under drop")
    for number in others:
        check_equal(scene.neighbour.request(number)["error"], None, "the neighbour's request")
    check_equal([server.count("requests", "victim") for server in scene.servers()], sent_before,
                "requests of the victim that arrived")
    state = books()
    for name in ("silent", "hit"):
        check_equal((state[name]["matched"], state[name]["injected"]), (len(hit), len(hit)), f"{name}: matched, injected")
    chaos.stop()
    for number in silent:  # TCP sends again what was lost
        met = scene.victim.receive(number, timeout=30)
        check(met["error"] is None and met["bytes"], f"the answer after stop: {met}")


@part
def accepted():
    """side: server, connections that were accepted before the load; the other server on that port is left alone."""
    place.make_cgroup("case/server2")
    other_server = Worker(Server, cgroup="case/server2", comm="other-server")
    try:
        scene.near.listen("127.0.0.3", 7005)
        scene.near.listen("::", 7006)
        other_server.listen("127.0.0.4", 7005)
        mine = pool(scene.victim, 7005, ["127.0.0.3"]) + pool(scene.victim, 7006, ["127.0.0.1", "::1"])
        others = pool(scene.victim, 7005, ["127.0.0.4"])
        chaos.load(chaos.rule("serve-slowly", {"cgroup": "case/server", "ports": ["7005-7006"], "side": "server"},
                              {"delay": f"{DELAY_MS}ms"}))
        for met in scene.victim.requests_together(mine):
            check_equal(met["error"], None, "request to the slow server")
            check_took(met["ms"], DELAY_MS, "request to the slow server")
        for number in others:
            check_equal(scene.victim.request(number)["error"], None, "request to the other server")
        state = books()
        check_equal(state["serve-slowly"]["injected"], len(mine), "injected")
        for event in chaos.events():
            check_equal((event["side"], event["pid"]), ("server", scene.near.pid), "owner in the event")
    finally:
        other_server.kill()
        place.remove_cgroup("case/server2")


@part
def datagrams():
    """UDP sockets that are older, connected and not."""
    targets = ["127.0.0.1", "::1", "10.77.1.2", "fd77:1::2"]
    sockets = [(scene.victim.udp_open(host, 7004)["id"], None) for host in targets]
    sockets += [(scene.victim.udp_open(host, connect=False)["id"], [host, 7004]) for host in targets]
    other = scene.neighbour.udp_open("127.0.0.1", 7004)["id"]
    for number, to in sockets:
        check_equal(scene.victim.udp_ask(number, "before", to)["error"], None, "a datagram before the load")
    chaos.load(chaos.rule("silent", {"cgroup": VICTIM, "ports": [7004], "protocol": "udp"}, {"drop": True}))
    heard = [server.count("datagrams", 7004) for server in scene.servers()]
    for number, to in sockets:
        met = scene.victim.udp_ask(number, "during", to, timeout=0.2)
        check_equal((met["sent"], met["error"]), (True, "timeout"), f"a datagram under drop, to {to}")
    check_equal([server.count("datagrams", 7004) for server in scene.servers()], heard, "datagrams that arrived")
    check_equal(scene.neighbour.udp_ask(other, "other")["error"], None, "the neighbour's datagram")
    state = books()
    check_equal(state["silent"]["injected"], len(sockets), "injected")


main(setup, lambda: scene and scene.close())
