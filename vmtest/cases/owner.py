#!/usr/bin/python3
# timeout: 90
"""Who is hit: a pid and its descendants, a cgroup and all below it, a process name, a user; and nobody else.

Every rule refuses connections to a port of its own, so a process is hit by a rule exactly when connect() says so.
"""
import os

import chaos
import place
from case import check, check_equal, main, part
from scene import Scene

HOST = "127.0.0.1"
REFUSED = "ECONNREFUSED"

scene = None
PORTS = {name: 7100 + i for i, name in enumerate(("pid", "cgroup", "later", "exact", "star", "middle", "user", "both"))}


def setup():
    global scene
    scene = Scene(network=0)
    for port in PORTS.values():
        scene.near.listen(HOST, port, "hangup")


def refused_at(worker):
    """The rules that hit this process."""
    return {name for name, port in PORTS.items() if worker.connects(HOST, port, 1)[0] == REFUSED}


def rule(name, **match):
    return chaos.rule(name, {"ports": [PORTS[name]], "protocol": "tcp", **match}, {"refuse": "refused"})


def check_events(**injected):
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    check_equal({one["name"]: one["injected"] for one in state.all["rules"]}, injected, "injected")


@part
def pid_and_descendants():
    parent = scene.client(comm="parent")
    before = parent.fork()
    grandchild_before = before.fork()
    orphan = parent.fork()
    sibling = scene.client(comm="sibling")
    chaos.load(rule("pid", pid=parent.pid))
    after = parent.fork()
    grandchild_after = after.fork()
    renewed = before.fork(execute=True)  # a new program
    family = {"the process": parent, "a child from before": before, "its child": grandchild_before,
              "a child from after": after, "its child from after": grandchild_after, "another program": renewed,
              "a second child": orphan}
    for what, worker in family.items():
        check_equal(refused_at(worker), {"pid"}, what)
    for what, worker in {"a sibling": sibling, "the neighbour": scene.neighbour, "the victim": scene.victim}.items():
        check_equal(refused_at(worker), set(), what)
    check_events(pid=len(family))
    parent.kill()  # its children go on, and so does the rule
    check_equal(refused_at(after), {"pid"}, "a child of a process that ended")
    sibling.kill()
    for worker in list(family.values())[1:]:
        worker.kill()


@part
def cgroup_and_below():
    for name in ("case/app", "case/app/worker", "case/app2", "case/other"):
        place.make_cgroup(name)
    inside, below, alike, outside = (scene.client(cgroup=name) for name in (
        "case/app", "case/app/worker", "case/app2", "case/other"))
    moved = scene.client(cgroup="case/app")
    chaos.load(rule("cgroup", cgroup="case/app"))
    place.make_cgroup("case/app/later/still")
    later = scene.client(cgroup="case/app/later/still")
    for what, worker in {"inside": inside, "below": below, "in one made later": later}.items():
        check_equal(refused_at(worker), {"cgroup"}, what)
    for what, worker in {"in one with a similar name": alike, "outside": outside}.items():
        check_equal(refused_at(worker), set(), what)
    place.enter_cgroup("case/other", moved.pid)
    check_equal(refused_at(moved), set(), "after it was moved out")
    place.enter_cgroup("case/app", moved.pid)
    check_equal(refused_at(moved), {"cgroup"}, "after it was moved in again")
    check_events(cgroup=4)
    for worker in (inside, below, alike, outside, moved, later):
        worker.kill()
    for name in ("case/app", "case/app2", "case/other"):
        place.remove_cgroup(name)


@part
def process_names():
    """comm, exactly or with `*`; a name that changes counts from then on."""
    chaos.load(rule("exact", process="model-gateway"), rule("star", process="gunicorn*"),
               rule("middle", process="rag*-w?rk*er"))
    wanted = {"model-gateway": {"exact"}, "model-gatewa": set(), "model-gateway2": set(), "gunicorn": {"star"},
              "gunicorn: w1": {"star"}, "a-gunicorn": set(), "rag-w?rker": {"middle"}, "rag-api-w?rkxer": {"middle"},
              "rag-work": set(), "other": set()}
    worker = scene.client(comm="first")
    for name, rules in wanted.items():
        worker.set_comm(name)
        check_equal(refused_at(worker), rules, f"a process called '{name}'")
    child = worker.fork(comm="gunicorn")
    check_equal(refused_at(child), {"star"}, "a child with a name of its own")
    check_events(exact=1, star=3, middle=2)
    child.kill()
    worker.kill()


@part
def users():
    chaos.load(rule("user", user="www-data"), rule("both", user=1000, process="both*"))
    by_name, by_number = scene.client(user=33, comm="a"), scene.client(user=1000, comm="both-hold")
    half, other_half = scene.client(user=1000, comm="no"), scene.client(comm="both-hold")
    check_equal(refused_at(by_name), {"user"}, "the user that was named")
    check_equal(refused_at(by_number), {"both"}, "user and process")
    check_equal(refused_at(half), set(), "the user, but not the process")
    check_equal(refused_at(other_half), set(), "the process, but not the user")
    check_equal(refused_at(scene.neighbour), set(), "root")
    check_events(user=1, both=1)
    for event in chaos.events():
        check_equal((event["uid"], event["comm"]), {"user": (33, "a"), "both": (1000, "both-hold")}[event["rule"]],
                    "owner in the event")
    for worker in (by_name, by_number, half, other_half):
        worker.kill()


@part
def names_that_do_not_resolve():
    """An error with its place, never 'everything', and nothing is loaded."""
    gone = os.fork()
    if not gone:
        os._exit(0)
    os.waitpid(gone, 0)
    for what, match in {"a pid that is gone": {"pid": gone}, "an unknown user": {"user": "nobody-of-that-name"}}.items():
        path = chaos.rules_file(rule("pid", **match))
        result = chaos.chaos("load", path)
        os.unlink(path)
        check(result.code == 2 and "yaml:4:" in result.err, f"{what}: {result}")
    check_equal(chaos.status().all["rules"], [], "rules that are loaded")
    check_equal(refused_at(scene.neighbour), set(), "anybody")


main(setup, lambda: scene and scene.close())
