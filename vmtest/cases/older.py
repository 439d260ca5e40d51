#!/usr/bin/python3
# timeout: 90
"""Connections that are older than the load: a client's pool, accepted ones, UDP sockets; matched by every kind of owner."""
import chaos
import place
from case import check, check_equal, check_took, expect, main, part
from peers import Server
from scene import VICTIM, Scene
from worker import Worker

DELAY_MS = 500
USER = 1000
HOSTS = ("127.0.0.1", "::1", "10.77.1.2", "fd77:1::2", "::ffff:10.77.1.2")

scene = other_server = None
clients, pools = {}, {}


def setup():
    """Everything is opened here, before the load."""
    global scene, other_server
    scene = Scene()
    for port in (7001, 7002, 7003):
        scene.listen(port)
    scene.listen(7004, "udp")
    clients.update({"pid": scene.client(comm="by-pid"), "process": scene.client(comm="gunicorn-7"),
                    "user": scene.client(user=USER, comm="plain-user"), "cgroup": scene.victim})
    for key, client in clients.items():
        pools[key] = pool(client, 7001)
    pools["others"] = pool(scene.neighbour, 7001) + pool(scene.neighbour, 7002) + pool(scene.neighbour, 7003)
    pools["silent"], pools["hit"] = pool(scene.victim, 7002), pool(scene.victim, 7003)
    place.make_cgroup("case/server2")
    other_server = Worker(Server, cgroup="case/server2", comm="other-server")
    scene.near.listen("127.0.0.3", 7005)
    scene.near.listen("::", 7006)
    other_server.listen("127.0.0.4", 7005)
    pools["accepted"] = pool(scene.neighbour, 7005, ["127.0.0.3"]) + pool(scene.neighbour, 7006, ["127.0.0.1", "::1"])
    pools["accepted by another"] = pool(scene.neighbour, 7005, ["127.0.0.4"])
    pools["datagrams"] = [(scene.victim.udp_open(host, 7004)["id"], None) for host in HOSTS]
    pools["datagrams"] += [(scene.victim.udp_open(host, connect=False)["id"], [host, 7004]) for host in HOSTS]
    pools["other datagrams"] = [(scene.neighbour.udp_open("127.0.0.1", 7004)["id"], None)]
    for client, numbers in ((scene.victim, pools["datagrams"]), (scene.neighbour, pools["other datagrams"])):
        for number, to in numbers:
            check_equal(client.udp_ask(number, "before", to)["error"], None, "a datagram before the load")


def pool(client, port, hosts=HOSTS):
    """Kept-alive connections with a request behind them; their numbers."""
    opened = [client.open(host, port)["id"] for host in hosts]
    for number in opened:
        check_equal(client.request(number)["error"], None, "a request before the load")
    return opened


def rules():
    names = {"pid": clients["pid"].pid, "process": "gunicorn*", "user": USER, "cgroup": VICTIM}
    return [chaos.rule("by-" + key, {key: name, "ports": [7001]}, {"delay": f"{DELAY_MS}ms"})
            for key, name in names.items()] + [
        chaos.rule("silent", {"cgroup": VICTIM, "ports": [7002]}, {"drop": True}),
        chaos.rule("hit", {"cgroup": VICTIM, "ports": [7003]}, {"reset": True}),
        chaos.rule("datagrams", {"cgroup": VICTIM, "ports": [7004], "protocol": "udp"}, {"drop": True}),
        chaos.rule("accepted", {"cgroup": "case/server", "ports": ["7005-7006"], "side": "server"},
                   {"delay": f"{DELAY_MS}ms"}),
    ]


@part
def client_pools():
    """One rule for each way to name the owner."""
    for key, client in clients.items():
        client.begin("requests_together", pools[key])
    for number in pools["others"]:
        check_equal(scene.neighbour.request(number)["error"], None, "the neighbour's request")
    for key, client in clients.items():
        for met in client.end(stop=False):
            check_equal(met["error"], None, f"by {key}")
            check_took(met["ms"], DELAY_MS, f"by {key}")
        expect("by-" + key, len(pools[key]), event={"pid": client.pid, "side": "client"})


@part
def reset():
    for number in pools["hit"]:
        met = scene.victim.request(number)
        check_equal(met["error"], "ECONNRESET", "an old connection under reset")
        check_took(met["ms"], 0, "an old connection under reset")
    expect("hit", len(pools["hit"]), event={"pid": scene.victim.pid})


@part
def drop():
    """An old connection goes silent, and nothing of it reaches the server."""
    before = [server.count("requests", "victim") for server in scene.servers()]
    for number in pools["silent"]:
        check_equal(scene.victim.request(number, timeout=0.3)["error"], "timeout", "an old connection under drop")
    check_equal([server.count("requests", "victim") for server in scene.servers()], before,
                "requests of the victim that arrived")
    expect("silent", len(pools["silent"]))


@part
def accepted():
    """side: server, connections that were accepted before the load; the other server on that port is left alone."""
    for met in scene.neighbour.requests_together(pools["accepted"]):
        check_equal(met["error"], None, "request to the slow server")
        check_took(met["ms"], DELAY_MS, "request to the slow server")
    for number in pools["accepted by another"]:
        check_equal(scene.neighbour.request(number)["error"], None, "request to the other server")
    expect("accepted", len(pools["accepted"]), event={"pid": scene.near.pid, "side": "server"})


@part
def datagrams():
    """UDP sockets that are older, connected and not."""
    before = [server.count("datagrams", 7004) for server in scene.servers()]
    for number, to in pools["datagrams"]:
        met = scene.victim.udp_ask(number, "during", to, timeout=0.2)
        check_equal((met["sent"], met["error"]), (True, "timeout"), f"a datagram under drop, to {to}")
    check_equal([server.count("datagrams", 7004) for server in scene.servers()], before, "datagrams that arrived")
    for number, to in pools["other datagrams"]:
        check_equal(scene.neighbour.udp_ask(number, "other", to)["error"], None, "the neighbour's datagram")
    expect("datagrams", len(pools["datagrams"]))


@part
def silence_ends():
    """What was lost is sent again by TCP once the rule is over."""
    chaos.chaos("unload", "silent", expect=0)
    for number in pools["silent"]:
        met = scene.victim.receive(number, timeout=30)
        check(met["error"] is None and met["bytes"], f"the answer after unload: {met}")


def teardown():
    if scene:
        scene.close()


main(setup, teardown, rules)
