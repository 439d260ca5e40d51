#!/usr/bin/python3
# timeout: 120
"""Percentages: of connections, packets and requests, over thousands of trials; and the same seed picks the same again."""
import math

import chaos
from case import check, check_equal, main, part
from scene import VICTIM, Scene

HOST, CLOSED = "127.0.0.1", 7400  # nobody listens there: what is not hit is refused by the kernel itself
DELAY_MS = 25

scene = None


def setup():
    global scene
    scene = Scene(network=0)
    for port in (7401, 7402):
        scene.near.listen(HOST, port, "udp")
    for port in (7403, 7404):
        scene.near.listen(HOST, port)


def check_share(hits, trials, percent, what):
    """Within five standard deviations: a right program fails once in 1.7 million times."""
    p = percent / 100
    room = 5 * math.sqrt(trials * p * (1 - p))
    check(abs(hits - trials * p) <= room, f"{what}: {hits} of {trials}, {percent} % wanted, within {room:.0f}")


def check_books(name, trials, hits):
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    rule = state[name]
    check_equal((rule["matched"], rule["injected"], rule["skipped"]["percent"]), (trials, hits, trials - hits),
                f"{name}: matched, injected, skipped for the percentage")


@part
def connections_and_seed():
    def run(seed, count):
        chaos.load(chaos.rule("some", {"cgroup": VICTIM, "ports": [CLOSED], "protocol": "tcp"},
                              {"refuse": "unreachable"}, percent=30, seed=seed))
        met = scene.victim.connects(HOST, CLOSED, count)
        check_equal(set(met), {"ENETUNREACH", "ECONNREFUSED"}, "outcomes")
        hits = met.count("ENETUNREACH")
        check_books("some", count, hits)
        return met, hits

    first, hits = run(42, 2000)
    check_share(hits, 2000, 30, "connections that were refused")
    again, _ = run(42, 300)
    check_equal(again, first[:300], "the same connections with the same seed")
    other, _ = run(43, 300)
    check(other != first[:300], "another seed picked the same connections")


@part
def packets():
    """`drop: 20%` and `percent: 20, per: packet` mean the same; what did not arrive was counted, one by one."""
    count = 2000
    chaos.load(chaos.rule("partial", {"cgroup": VICTIM, "ports": [7401], "protocol": "udp"}, {"drop": "20%"}, seed=7),
               chaos.rule("percent", {"cgroup": VICTIM, "ports": [7402], "protocol": "udp"}, {"drop": True}, percent=20,
                          per="packet", seed=7))
    for name, port in (("partial", 7401), ("percent", 7402)):
        number = scene.victim.udp_open(HOST, port)["id"]
        scene.victim.call_me(name)
        check_equal(scene.victim.udp_many(number, count), {}, f"{name}: errors while sending")
        other = scene.neighbour.udp_open(HOST, port)["id"]
        scene.neighbour.udp_ask(other, "flush 1")  # comes after all of them
        heard = scene.near.heard(name)
        lost = count - len(heard)
        check_equal(heard, sorted(set(heard)), f"{name}: datagrams in order, none twice")
        check_share(lost, count, 20, f"{name}: datagrams that were lost")
        check_books(name, count, lost)
    scene.victim.call_me("victim")


@part
def requests():
    """Of each request on kept-alive connections; the events name exactly those that were slow."""
    connections, each = 12, 40

    def run(count):
        chaos.load(chaos.rule("some", {"cgroup": VICTIM, "ports": [7403]}, {"delay": f"{DELAY_MS}ms"}, percent=30,
                              per="request", seed=9))
        times, local = {}, {}
        for index in range(1, connections + 1):
            opened = scene.victim.open(HOST, 7403)
            local[opened["local"][1]] = index
            for turn, took in enumerate(scene.victim.requests(opened["id"], count), 1):
                times[index, turn] = took
        told = {(local[event["local_port"]], event["request"]) for event in chaos.events()}
        check_equal([event["connection"] for event in chaos.events() if event["connection"] != local[event["local_port"]]],
                    [], "connections are numbered in order")
        for one in told:
            check(times[one] >= DELAY_MS - 1, f"request {one} was held, but took {times[one]} ms")
        quick = sorted(took for one, took in times.items() if one not in told)
        check(quick[len(quick) // 2] < DELAY_MS, f"half of the requests that were not held took {quick[len(quick) // 2]} ms")
        check_books("some", connections * count, len(told))
        scene.victim.close_all()
        return told

    told = run(each)
    check_share(len(told), connections * each, 30, "requests that were held")
    check_equal(run(10), {one for one in told if one[1] <= 10}, "the same requests with the same seed")


@part
def whole_connections():
    """per: connection: all requests of a connection, or none."""
    connections = 60
    chaos.load(chaos.rule("some", {"cgroup": VICTIM, "ports": [7404]}, {"delay": "10ms"}, percent=50, seed=3))
    ports = []
    for _ in range(connections):
        opened = scene.victim.open(HOST, 7404)
        ports.append(opened["local"][1])
        scene.victim.requests(opened["id"], 3)
    events = chaos.events()
    told = {port: sum(event["local_port"] == port for event in events) for port in ports}
    check_equal({n for n in told.values()}, {0, 3}, "requests held on a connection")
    check_share(sum(n == 3 for n in told.values()), connections, 50, "connections that were slow")
    check_books("some", 3 * connections, len(events))


main(setup, lambda: scene and scene.close())
