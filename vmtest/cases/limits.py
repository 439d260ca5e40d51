#!/usr/bin/python3
# timeout: 90
"""max-hits is exact with processes on every CPU; max-rate is never exceeded in any second."""
import datetime
import os

import chaos
from case import check, check_equal, lateness_ms, main, part, skip, wait_until
from scene import VICTIM, Scene

HOST, CLOSED = "127.0.0.1", 7500

scene = None
crowd = []


def setup():
    global scene
    scene = Scene(network=0)
    scene.near.listen(HOST, 7501, "udp")
    scene.near.listen(HOST, 7502)
    for cpu in range(min(4, os.cpu_count())):
        crowd.append(scene.client(cgroup=VICTIM, comm=f"victim-{cpu}"))
        crowd[-1].pin(cpu)


def check_books():
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    return state


@part
def max_hits_of_connections():
    """The rule finishes at its last hit, then the next one takes over, then nobody is hit."""
    if len(crowd) < 2:
        skip("one CPU only")
    match = {"cgroup": VICTIM, "ports": [CLOSED], "protocol": "tcp"}
    chaos.load(chaos.rule("first", match, {"refuse": "unreachable"}, max_hits=137),
               chaos.rule("second", match, {"refuse": "denied"}, max_hits=61))
    for worker in crowd:
        worker.begin("connects", HOST, CLOSED, 200)
    met = [outcome for worker in crowd for outcome in worker.end(stop=False)]
    count = {outcome: met.count(outcome) for outcome in set(met)}
    check_equal(count, {"ENETUNREACH": 137, "EPERM": 61, "ECONNREFUSED": len(met) - 137 - 61}, "outcomes")
    state = check_books()
    check_equal((state["first"]["injected"], state["second"]["injected"]), (137, 61), "injected")
    check_equal((state["first"]["state"], state["second"]["state"]), ("finished", "finished"), "states")
    check_equal({event["comm"] for event in chaos.events()}, {f"victim-{cpu}" for cpu in range(len(crowd))},
                "processes that were hit")


@part
def max_hits_of_packets():
    chaos.load(chaos.rule("some", {"cgroup": VICTIM, "ports": [7501], "protocol": "udp"}, {"drop": True}, per="packet",
                          max_hits=333))
    before = scene.near.count("datagrams", 7501)
    for worker in crowd:
        worker.begin("udp_many", worker.udp_open(HOST, 7501)["id"], 400)
    for worker in crowd:
        check_equal(worker.end(stop=False), {}, "errors while sending")
    wanted = 400 * len(crowd) - 333
    wait_until(lambda: scene.near.count("datagrams", 7501) - before >= wanted, f"{wanted} datagrams to arrive", seconds=5)
    check_equal(scene.near.count("datagrams", 7501) - before, wanted, "datagrams that arrived")
    check_equal(check_books()["some"]["injected"], 333, "injected")


@part
def max_hits_of_requests():
    chaos.load(chaos.rule("some", {"cgroup": VICTIM, "ports": [7502]}, {"delay": "30ms"}, max_hits=25))
    for worker in crowd:
        worker.begin("requests", worker.open(HOST, 7502)["id"], 25)
    times = [took for worker in crowd for took in worker.end(stop=False)]
    check(all(isinstance(took, float) for took in times), f"a request failed: {times}")
    check(sum(took >= 29 for took in times) >= 25, f"25 slow requests wanted: {sorted(times)}")
    state = check_books()
    check_equal((state["some"]["injected"], state["some"]["state"]), (25, "finished"), "injected, state")


@part
def max_rate():
    """As many as the rate allows, and in no second more."""
    for rate, seconds in (("10/s", 1), ("100/s", 1)):
        wanted = int(rate.split("/")[0])
        chaos.load(chaos.rule("some", {"cgroup": VICTIM, "ports": [CLOSED], "protocol": "tcp"}, {"refuse": "unreachable"},
                              max_rate=rate))
        for worker in crowd:
            worker.begin("hammer", HOST, CLOSED, "connect")
        start = chaos.status()["some"]["injected"]
        wait_until(lambda: chaos.status()["some"]["injected"] >= start + 2 * wanted, "faults of more than two seconds", 30, 0.3)
        runs = [run for worker in crowd for run in worker.end()]
        met = sum(n for outcome, n, *_ in runs if outcome == "ENETUNREACH")
        check_equal({run[0] for run in runs}, {"ENETUNREACH", "ECONNREFUSED"}, "outcomes")
        state = check_books()
        check_equal(state["some"]["injected"], met, f"{rate}: injected")
        check(state["some"]["skipped"]["max-rate"] > 0, f"{rate}: nothing was skipped")
        times = sorted(datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%fZ").timestamp()
                       for event in chaos.events())
        shortest = min(later - earlier for earlier, later in zip(times, times[wanted:]))
        slack = 0.02 + lateness_ms() / 1000  # between the decision and the event
        check(shortest >= seconds - slack, f"{rate}: {wanted + 1} faults within {shortest:.3f} s")


main(setup, lambda: scene and scene.close())
