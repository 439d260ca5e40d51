#!/usr/bin/python3
# timeout: 240
"""A second load takes the place of the first while traffic flows: every connect and request is under one or the other."""
import chaos
from case import alone, check, check_equal, main
from scene import VICTIM, Scene

HOST, CLOSED = "127.0.0.1", 7700
ERRORS = {"unreachable": "ENETUNREACH", "denied": "EPERM"}

scene = None
crowd = []


def setup():
    global scene
    scene = Scene(network=0)
    scene.near.listen(HOST, 7701)
    for cpu in range(2):
        crowd.append(scene.client(cgroup=VICTIM, comm=f"victim-{cpu}"))
        crowd[-1].pin(cpu)


def load(word):
    chaos.load(chaos.rule(word, {"cgroup": VICTIM, "ports": [CLOSED], "protocol": "tcp"}, {"refuse": word}))


@alone
def refusals():
    """No connect is without a fault, and none is under a rule that was replaced already."""
    words = ["unreachable", "denied"] * 2
    load(words[0])
    for worker in crowd:
        worker.begin("hammer", HOST, CLOSED, "connect", pause=0.005)
    scene.neighbour.begin("hammer", HOST, 7701, "request", pause=0.05)
    for word in words[1:]:
        load(word)
    last = chaos.status()[words[-1]]["injected"]
    runs = [worker.end() for worker in crowd]
    for run in runs:
        check_equal([met for met, *_ in run], [ERRORS[word] for word in words], "what a process met, in order")
    check_equal([run[0] for run in scene.neighbour.end()], [None], "what the neighbour met")
    state = chaos.status()
    for problem in chaos.problems_of(state):
        check(False, problem)
    check_equal(state[words[-1]]["injected"], sum(run[-1][1] for run in runs), "injected by the last load")
    check(last > 0, "nothing was injected by the last load")


@alone
def delays():
    """Requests that are held while the load is replaced take their time once, and then the new rule's."""
    def slow(ms):
        return chaos.rule("slow", {"cgroup": VICTIM, "ports": [7701]}, {"delay": f"{ms}ms"})

    chaos.load(slow(300))
    for worker in crowd:
        worker.begin("hammer", HOST, 7701, worker.open(HOST, 7701)["id"])
    for ms in (400, 300):
        chaos.load(slow(ms))
    for worker in crowd:
        run = worker.end()
        check_equal([met for met, *_ in run], [None], "outcomes")
        check(run[0][3] >= 299, f"the fastest request took {run[0][3]} ms")


@alone
def a_load_that_fails_changes_nothing():
    load("denied")
    crowd[0].begin("hammer", HOST, CLOSED, "connect")
    no_such_pid = chaos.rules_text(chaos.rule("x", {"pid": 4194303}, {"drop": True}))
    for bad in ("version: 1\nrules: [", no_such_pid):
        result = chaos.chaos("load", "-", text=bad)
        check_equal(result.code, 2, f"exit code of a bad load: {result}")
    check_equal([met for met, *_ in crowd[0].end()], ["EPERM"], "what the victim met")
    check_equal([one["name"] for one in chaos.status().all["rules"]], ["denied"], "rules that are loaded")


main(setup, lambda: scene and scene.close())
