#!/usr/bin/python3
# timeout: 90
"""max-hits is exact with processes on every CPU; max-rate is never exceeded in any second."""
import datetime
import os

import chaos
from case import check, check_equal, expect, lateness_ms, main, part, skip, wait_until
from scene import VICTIM, Scene

HOST, CLOSED, DATAGRAMS, REQUESTS, RATES = "127.0.0.1", 7500, 7501, 7502, {"10/s": 7503, "100/s": 7504}

scene = None
crowd = []


def setup():
    global scene
    scene = Scene(network=0)
    scene.near.listen(HOST, DATAGRAMS, "udp")
    scene.near.listen(HOST, REQUESTS)
    for cpu in range(min(4, os.cpu_count())):
        crowd.append(scene.client(cgroup=VICTIM, comm=f"victim-{cpu}"))
        crowd[-1].pin(cpu)


def rules():
    def rule(name, port, fault, protocol="tcp", **keys):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port], "protocol": protocol}, fault, **keys)

    return [rule("first", CLOSED, {"refuse": "unreachable"}, max_hits=137),
            rule("second", CLOSED, {"refuse": "denied"}, max_hits=61),
            rule("packets", DATAGRAMS, {"drop": True}, "udp", per="packet", max_hits=333),
            rule("requests", REQUESTS, {"delay": "30ms"}, max_hits=25),
            rule("10-s", RATES["10/s"], {"refuse": "unreachable"}, max_rate="10/s"),
            rule("100-s", RATES["100/s"], {"refuse": "unreachable"}, max_rate="100/s")]


def check_finished(name, hits, again):
    """Exactly so many. What came up in the very moment of the last one was skipped; what comes `again` is not even seen."""
    rule = chaos.status()[name]
    check_equal((rule["injected"], rule["state"]), (hits, "finished"), f"{name}: injected, state")
    expect(name, hits, {"max-hits": rule["skipped"]["max-hits"]})
    again()
    check_equal(chaos.status()[name], rule, f"{name}: after more of the same, all its counters")


@part
def max_hits_of_connections():
    """The rule finishes at its last hit, then the next one takes over, then nobody is hit."""
    if len(crowd) < 2:
        skip("one CPU only")
    for worker in crowd:
        worker.begin("connects", HOST, CLOSED, 200)
    met = [outcome for worker in crowd for outcome in worker.end(stop=False)]
    first, second = met.count("ENETUNREACH"), met.count("EPERM")
    check_equal((first, second), (137, 61), "connects under the first rule and the second")
    check_equal(met.count("ECONNREFUSED"), len(met) - 137 - 61, "connects under none")
    check_finished("first", 137, lambda: crowd[0].connects(HOST, CLOSED, 50))
    check_finished("second", 61, lambda: crowd[1].connects(HOST, CLOSED, 50))
    hit = {event["comm"] for event in chaos.events() if event["rule"] in ("first", "second")}
    check(hit and hit <= {f"victim-{cpu}" for cpu in range(len(crowd))}, f"processes that were hit: {sorted(hit)}")


@part
def max_hits_of_packets():
    before = scene.near.count("datagrams", DATAGRAMS)
    for worker in crowd:
        worker.begin("udp_many", worker.udp_open(HOST, DATAGRAMS)["id"], 400)
    for worker in crowd:
        check_equal(worker.end(stop=False), {}, "errors while sending")
    arrive = 400 * len(crowd) - 333
    wait_until(lambda: scene.near.count("datagrams", DATAGRAMS) - before >= arrive, f"{arrive} datagrams to arrive", 20)
    check_equal(scene.near.count("datagrams", DATAGRAMS) - before, arrive, "datagrams that arrived")
    check_finished("packets", 333, lambda: crowd[0].udp_many(crowd[0].udp_open(HOST, DATAGRAMS)["id"], 50))


@part
def max_hits_of_requests():
    for worker in crowd:
        worker.begin("requests", worker.open(HOST, REQUESTS)["id"], 25)
    times = [took for worker in crowd for took in worker.end(stop=False)]
    check(all(isinstance(took, float) for took in times), f"a request failed: {times}")
    check(sum(took >= 29 for took in times) >= 25, f"25 slow requests wanted: {sorted(times)}")
    check_finished("requests", 25, lambda: crowd[0].requests(crowd[0].open(HOST, REQUESTS)["id"], 25))


def check_rate(rate):
    """As many as the rate allows, and in no second more."""
    name, limit = rate.replace("/", "-"), int(rate.split("/")[0])
    for worker in crowd:
        worker.begin("hammer", HOST, RATES[rate], "connect")
    wait_until(lambda: chaos.status()[name]["injected"] > 2 * limit, "faults of more than two seconds", 30, 0.5)
    met = [run for worker in crowd for run in worker.end()]
    if {run[0] for run in met} == {"ENETUNREACH"} and lateness_ms() > 100:
        skip(f"this machine is too slow for more than {rate}")
    check_equal({run[0] for run in met}, {"ENETUNREACH", "ECONNREFUSED"}, f"{rate}: outcomes")
    done = sum(n for outcome, n, *_ in met if outcome == "ENETUNREACH")
    expect(name, done, {"max-rate": sum(n for outcome, n, *_ in met if outcome == "ECONNREFUSED")})
    times = sorted(datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%fZ").timestamp()
                   for event in chaos.events() if event["rule"] == name)
    check_equal(len(times), done, f"{rate}: events")
    shortest = min(later - earlier for earlier, later in zip(times, times[limit:]))
    slack = 0.02 + lateness_ms() / 1000  # between the decision and the event
    check(shortest >= 1 - slack, f"{rate}: {limit + 1} faults within {shortest:.3f} s")


@part
def max_rate_of_ten():
    check_rate("10/s")


@part
def max_rate_of_a_hundred():
    check_rate("100/s")


main(setup, lambda: scene and scene.close(), rules)
