#!/usr/bin/python3
# timeout: 180
"""Percentages: of connections, packets and requests, over thousands of trials; and the same seed picks the same again."""
import math

import chaos
from case import alone, check, check_counters, check_equal, expect, main
from scene import VICTIM, Scene

HOST, CLOSED = "127.0.0.1", 7400  # nobody listens there: what is not hit is refused by the kernel itself
PARTIAL, PACKETS, REQUESTS, WHOLE = 7401, 7402, 7403, 7404
DELAY_MS = 25

scene = None


def setup():
    global scene
    scene = Scene(network=0)
    for port in (PARTIAL, PACKETS):
        scene.near.listen(HOST, port, "udp")
    for port in (REQUESTS, WHOLE):
        scene.near.listen(HOST, port)


def load(seed):
    def rule(name, port, protocol, fault, percent, **keys):
        match = {"cgroup": VICTIM, "ports": [port], "protocol": protocol}
        return chaos.rule(name, match, fault, percent=percent, seed=seed, **keys)

    chaos.load(rule("connections", CLOSED, "tcp", {"refuse": "unreachable"}, 30),
               rule("partial", PARTIAL, "udp", {"drop": "20%"}, 100),
               rule("packets", PACKETS, "udp", {"drop": True}, 20, per="packet"),
               rule("requests", REQUESTS, "tcp", {"delay": f"{DELAY_MS}ms"}, 30, per="request"),
               rule("whole", WHOLE, "tcp", {"delay": "10ms"}, 50))


def check_share(hits, trials, percent, what):
    """Within five standard deviations: a right program fails once in 1.7 million times."""
    p = percent / 100
    room = 5 * math.sqrt(trials * p * (1 - p))
    check(abs(hits - trials * p) <= room, f"{what}: {hits} of {trials}, {percent} % wanted, within {room:.0f}")


def counted(name, trials, hits):
    expect(name, hits, {"percent": trials - hits})
    return hits


def refused(count):
    """Which of so many connects were refused by the rule."""
    met = scene.victim.connects(HOST, CLOSED, count)
    check_equal(set(met), {"ENETUNREACH", "ECONNREFUSED"}, "outcomes of connects")
    hits = [i for i, outcome in enumerate(met) if outcome == "ENETUNREACH"]
    counted("connections", count, len(hits))
    return hits


def lost(name, port, count, who):
    """Which of so many datagrams did not arrive."""
    number = scene.victim.udp_open(HOST, port)["id"]
    scene.victim.call_me(who)
    check_equal(scene.victim.udp_many(number, count), {}, f"{name}: errors while sending")
    other = scene.neighbour.udp_open(HOST, port)["id"]
    check_equal(scene.neighbour.udp_ask(other, "flush 1", timeout=20)["error"], None, "what comes after all of them")
    heard = scene.near.heard(who)  # in any order: a sender that changes processors overtakes itself on lo
    check_equal(len(heard), len(set(heard)), f"{name}: datagrams that came, none twice")
    gone = sorted(set(range(count)) - set(heard))
    counted(name, count, len(gone))
    return gone


def held(connections, each):
    """Times of requests on kept-alive connections, by (connection, request); the events tell later which were held."""
    times = {}
    for index in range(1, connections + 1):
        opened = scene.victim.open(HOST, REQUESTS)
        for turn, took in enumerate(scene.victim.requests(opened["id"], each), 1):
            times[index, turn] = opened["local"][1], took
    scene.victim.close_all()
    return times


def check_held(times):
    told = {(event["local_port"], event["request"]): event["connection"] for event in chaos.events()
            if event["rule"] == "requests"}
    hits = {one for one, (port, _) in times.items() if (port, one[1]) in told}
    check_equal(len(hits), len(told), "events that belong to a request")
    for one in hits:
        check_equal(told[times[one][0], one[1]], one[0], "number of the connection in the event")
        check(times[one][1] >= DELAY_MS - 1, f"request {one} was held, but took {times[one][1]} ms")
    quick = sorted(took for one, (_, took) in times.items() if one not in hits)
    check(quick[len(quick) // 10] < DELAY_MS, f"requests that were not held took {quick[len(quick) // 10]} ms and more")
    counted("requests", len(times), len(hits))
    return sorted(hits)


def whole(connections):
    """All requests of a connection, or none."""
    ports = []
    for _ in range(connections):
        opened = scene.victim.open(HOST, WHOLE)
        ports.append(opened["local"][1])
        scene.victim.requests(opened["id"], 3)
    scene.victim.close_all()  # what an old connection sends under the next load would count as well
    told = [event["local_port"] for event in chaos.events() if event["rule"] == "whole"]
    per_connection = [told.count(port) for port in ports]
    check_equal(set(per_connection), {0, 3}, "requests that were held on a connection")
    counted("whole", 3 * connections, sum(per_connection))
    return [i for i, n in enumerate(per_connection) if n]


@alone
def thousands_and_the_same_seed():
    load(42)
    connects = refused(2000)
    check_share(len(connects), 2000, 30, "connections that were refused")
    gone = lost("partial", PARTIAL, 2000, "a")
    check_share(len(gone), 2000, 20, "datagrams lost under drop: 20%")
    check_share(len(lost("packets", PACKETS, 2000, "b")), 2000, 20, "datagrams lost under percent: 20, per: packet")
    slow = check_held(held(12, 40))
    check_share(len(slow), 12 * 40, 30, "requests that were held")
    connections = whole(60)
    check_share(len(connections), 60, 50, "connections that were slow")
    check_counters()

    from case import wanted

    wanted.clear()
    load(42)
    check_equal(refused(300), [i for i in connects if i < 300], "the same connections with the same seed")
    check_equal(lost("partial", PARTIAL, 300, "c"), [i for i in gone if i < 300], "the same datagrams with the same seed")
    check_equal(check_held(held(12, 10)), [one for one in slow if one[1] <= 10], "the same requests with the same seed")
    check_equal(whole(20), [i for i in connections if i < 20], "the same connections to be slow with the same seed")
    check_counters()

    wanted.clear()
    load(43)
    check(refused(300) != [i for i in connects if i < 300], "another seed picked the same connections")
    check_counters()


main(setup, lambda: scene and scene.close())
