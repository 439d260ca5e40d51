#!/usr/bin/python3
# timeout: 90
"""Who is hit: a pid and its descendants, a cgroup and all below it, a process name, a user; and nobody else.

Every rule refuses connections to a port of its own, so a process is hit by a rule exactly when connect() says so.
"""
import os

import chaos
import place
from case import alone, check, check_counters, check_equal, expect, main, part
from scene import Scene

HOST = "127.0.0.1"
PORTS = {name: 7100 + i for i, name in enumerate(("pid", "cgroup", "exact", "star", "middle", "user", "both"))}

scene = parent = before = orphan = grandchild_before = moved = inside = None


def setup():
    global scene, parent, before, orphan, grandchild_before, moved, inside
    scene = Scene(network=0)
    for port in PORTS.values():
        scene.near.listen(HOST, port, "hangup")
    parent = scene.client(comm="parent")
    before = parent.fork()
    grandchild_before = before.fork()
    orphan = parent.fork()
    for name in ("case/app", "case/app/worker", "case/app2", "case/other"):
        place.make_cgroup(name)
    inside, moved = scene.client(cgroup="case/app"), scene.client(cgroup="case/app")


def rule(name, **match):
    return chaos.rule(name, {"ports": [PORTS[name]], "protocol": "tcp", **match}, {"refuse": "refused"})


def rules():
    return [rule("pid", pid=parent.pid), rule("cgroup", cgroup="case/app"), rule("exact", process="model-gateway"),
            rule("star", process="gunicorn*"), rule("middle", process="rag*-w?rk*er"), rule("user", user="www-data"),
            rule("both", user=1000, process="both*")]


def check_hit(worker, by, what, **event):
    """The rules that hit this process are exactly these."""
    met = {name for name, port in PORTS.items() if worker.connects(HOST, port, 1)[0] == "ECONNREFUSED"}
    check_equal(met, by, what)
    for name in by:
        expect(name, 1, event=event)


@part
def pid_and_descendants():
    after = parent.fork()
    grandchild_after = after.fork()
    family = {"the process": parent, "a child from before": before, "its child": grandchild_before,
              "a child from after": after, "its child from after": grandchild_after,
              "another program": before.fork(execute=True), "a second child": orphan}
    for what, worker in family.items():
        check_hit(worker, {"pid"}, what)
    for what, worker in {"the neighbour": scene.neighbour, "the victim": scene.victim}.items():
        check_hit(worker, set(), what)
    parent.kill()  # its children go on, and so does the rule
    check_hit(orphan, {"pid"}, "a child of a process that ended")
    check_hit(orphan.fork(), {"pid"}, "a child of that")


@part
def cgroup_and_below():
    place.make_cgroup("case/app/later/still")
    for name, by in {"case/app": {"cgroup"}, "case/app/worker": {"cgroup"}, "case/app/later/still": {"cgroup"},
                     "case/app2": set(), "case/other": set()}.items():
        worker = scene.client(cgroup=name)
        check_hit(worker, by, f"in {name}")
        worker.kill()
    check_hit(inside, {"cgroup"}, "inside since before the load")
    place.enter_cgroup("case/other", moved.pid)
    check_hit(moved, set(), "after it was moved out")
    place.enter_cgroup("case/app/worker", moved.pid)
    check_hit(moved, {"cgroup"}, "after it was moved in again")


@part
def process_names():
    """comm, exactly or with `*`; a name that changes counts from then on."""
    worker = scene.client(comm="first")
    for name, by in {"model-gateway": {"exact"}, "model-gatewa": set(), "model-gateway2": set(), "gunicorn": {"star"},
                     "gunicorn: w1": {"star"}, "a-gunicorn": set(), "rag-w?rker": {"middle"},
                     "rag-api-w?rkxer": {"middle"}, "rag-work": set(), "rag-w?rke": set(), "other": set()}.items():
        worker.set_comm(name)
        check_hit(worker, by, f"a process called '{name}'")
    child = worker.fork(comm="gunicorn")
    check_hit(child, {"star"}, "a child with a name of its own")


@part
def users():
    check_hit(scene.client(user=33, comm="a"), {"user"}, "the user that was named", uid=33, comm="a")
    check_hit(scene.client(user=1000, comm="both-hold"), {"both"}, "user and process", uid=1000, comm="both-hold")
    check_hit(scene.client(user=1000, comm="no"), set(), "the user, but not the process")
    check_hit(scene.client(comm="both-hold"), set(), "the process, but not the user")


@alone
def names_that_do_not_resolve():
    """An error with its place, never 'everything', and nothing is loaded."""
    gone = os.fork()
    if not gone:
        os._exit(0)
    os.waitpid(gone, 0)
    for what, match in {"a pid that is gone": {"pid": gone}, "an unknown user": {"user": "nobody-of-that-name"},
                        "an unknown cgroup": {"cgroup": "no/such/cgroup"}}.items():
        path = chaos.rules_file(rule("pid", **match))
        result = chaos.chaos("load", path)
        os.unlink(path)
        check(result.code == 2 and "yaml:4:" in result.err, f"{what}: {result}")
    check_equal(chaos.status().all["rules"], [], "rules that are loaded")
    check_hit(scene.neighbour, set(), "anybody")


@alone
def mount_point_that_is_hidden():
    """The first mount of cgroup v2 lies under the second: its path leads into a cgroup that happens to have the name."""
    hidden, folder = place.make_cgroup("case/point"), "/tmp/case-mounts"
    os.makedirs(folder + "/case/point", exist_ok=True)
    path = chaos.rules_file(rule("cgroup", cgroup="case/app"))
    script = f"""umount -l "{place.CGROUP}" && mount -t cgroup2 none {folder}/{hidden} && mount -t cgroup2 none {folder} &&
                 exec "{chaos.BINARY}" load {path}"""
    place.run("unshare", "-m", "--propagation", "private", "sh", "-c", script)
    os.unlink(path)
    check_hit(inside, {"cgroup"}, "in the cgroup")
    check_hit(moved, {"cgroup"}, "in the cgroup")
    check_hit(scene.neighbour, set(), "anybody else")
    check_counters()
    place.remove_cgroup(hidden)


main(setup, lambda: scene and scene.close(), rules, lambda: place.remove_cgroup("case/app/later"))
