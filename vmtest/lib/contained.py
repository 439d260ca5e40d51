"""The parts of the cases containers and containers_v1: whom a rule hits that names a container, a pod or a unit.

A rule refuses connections to a port of its own, so a process is hit by it exactly when connect() says so.
"""
import functools
import os
import time

import chaos
import place
from case import alone, check, check_counters, check_equal, expect, main, skip, wait_until
from runtimes import Runtimes, new_id, new_uid
from scene import Scene

HOST, FAR = "127.0.0.1", "10.77.1.2"
PORTS = {name: 7200 + i for i, name in enumerate(("docker", "id", "podman", "pod", "app", "unit"))}
SLOW, COMES = 7210, 7211

# Where runtimes put them; systemd's layout and the plain one.
LAYOUTS = {"v2": {"docker": "system.slice/docker-{}.scope", "podman": "machine.slice/libpod-{}.scope",
                  "pod": "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
                  "app": "cri-containerd-{}.scope"},
           "v1": {"docker": "docker/{}", "podman": "libpod_parent/libpod-{}", "pod": "kubepods/burstable/pod{}", "app": "{}"}}


class Place:
    """The scene, and one process in each kind of container: in a network namespace of its own, as they are."""

    def __init__(self, layout, hierarchy):
        self.layout, self.v2 = LAYOUTS[layout], layout == "v2"
        self.scene = Scene(network=2)
        for port in (*PORTS.values(), SLOW, COMES):
            self.scene.listen(port)
        self.runtimes = Runtimes(hierarchy)

    def path(self, kind, name):
        return self.layout[kind].format(name)

    def run(self, path, comm):
        """A process in that cgroup, which is made."""
        self.runtimes.make(path)
        worker = self.scene.client(netns="ns2", comm=comm)
        self.runtimes.enter(path, worker.pid)
        return worker

    def end(self, worker, path):
        """The process and its cgroup."""
        worker.kill()
        wait_until(lambda: not self.members(path), f"{path} is empty")
        self.runtimes.remove(path)

    def members(self, path):
        with open(f"{self.runtimes.hierarchy}/{path}/cgroup.procs") as procs:
            return procs.read().split()

    def close(self):
        self.runtimes.close()
        self.scene.close()


def rule(name, **match):
    return chaos.rule(name, {"ports": [PORTS[name]], "protocol": "tcp", **match}, {"refuse": "denied"})


def is_hit(worker, port):
    said = worker.connects(FAR, port, 1)[0]
    check(said in (None, "EPERM"), f"port {port}: {said}")
    return said == "EPERM"


def check_hit(worker, by, what):
    check_equal({name for name, port in PORTS.items() if is_hit(worker, port)}, by, what)
    for name in by:
        expect(name, 1)


def by_name(here):
    """Each kind of name hits what it names: not the neighbour, not another container of the same runtime."""
    runtimes, uid = here.runtimes, new_uid()
    docker, other, podman, app, side = (new_id() for _ in range(5))
    runtimes.docker(docker, "rag-api")
    runtimes.docker(other, "rag-db")
    runtimes.podman(podman, "reranker")
    runtimes.kubernetes(app, "app", "rag-0", uid)
    runtimes.kubernetes(side, "side", "rag-0", uid)
    pod = here.path("pod", uid.replace("-", "_") if here.v2 else uid)
    places = {"docker": here.path("docker", docker), "other": here.path("docker", other),
              "podman": here.path("podman", podman), "app": f"{pod}/{here.path('app', app)}",
              "side": f"{pod}/{here.path('app', side)}", "unit": "system.slice/rag.service"}
    workers = {name: here.run(path, name) for name, path in places.items()}
    chaos.load(rule("docker", container="rag-api"), rule("id", container=other[:12]), rule("podman", container="reranker"),
               rule("app", pod="default/rag-0", container="app"), rule("pod", pod="default/rag-0"), rule("unit", unit="rag"))
    check_hit(workers["docker"], {"docker"}, "docker")
    check_hit(workers["other"], {"id"}, "by the beginning of its id")
    check_hit(workers["podman"], {"podman"}, "podman")
    check_hit(workers["app"], {"app", "pod"}, "a container of a pod")
    check_hit(workers["side"], {"pod"}, "another of that pod")
    check_hit(workers["unit"], {"unit"}, "a unit")
    check_hit(here.scene.neighbour, set(), "the neighbour")
    check_counters()
    chaos.stop()
    for name, worker in workers.items():
        here.end(worker, places[name])


def comes_again(here):
    """Restarted under another id: found again, and a connection that was opened before it was found is hit as well."""
    runtimes, first, second = here.runtimes, new_id(), new_id()
    runtimes.docker(first, "rag-api")
    worker = here.run(here.path("docker", first), "first")
    chaos.load(chaos.rule("comes", {"container": "rag-api", "ports": [COMES]}, {"refuse": "denied"}),
               chaos.rule("cut", {"container": "rag-api", "ports": [SLOW]}, {"reset": True}))
    check(is_hit(worker, COMES), "the first")
    here.end(worker, here.path("docker", first))
    runtimes.docker_forgets(first)
    worker = here.run(here.path("docker", second), "second")
    old = worker.open(FAR, SLOW)["id"]
    check_equal(worker.request(old)["error"], None, "nobody knows yet what it is called")
    start = time.monotonic()
    runtimes.docker(second, "rag-api")
    wait_until(lambda: is_hit(worker, COMES), "the second", seconds=20)
    print(f"    found {time.monotonic() - start:.3f} s after its name was written")
    check_equal(worker.request(old)["error"], "ECONNRESET", "a connection from before it was found")
    check(not is_hit(here.scene.neighbour, COMES), "the neighbour")
    state = chaos.status()
    check_counters(state)
    check(state["comes"]["injected"] == 2 and state["cut"]["injected"] == 1, f"counters: {state.all}")
    chaos.stop()
    here.end(worker, here.path("docker", second))


def awaited():
    return {rule["name"]: rule["awaits"] for rule in chaos.status().all["rules"] if rule.get("awaits")}


def is_awaited(here):
    """Not there: an error, unless --wait is given; then it is hit from its start on."""
    rules = [chaos.rule("comes", {"container": "later", "ports": [COMES]}, {"refuse": "denied"}),
             chaos.rule("unit", {"unit": "later", "ports": [SLOW]}, {"refuse": "denied"})]
    path = chaos.rules_file(*rules)
    result = chaos.chaos("load", path, expect=2)
    check("no container 'later' is running here" in result.err, str(result))
    result = chaos.chaos("check", path, expect=0)
    check("no container 'later' is running here: load needs --wait" in result.out, str(result))
    chaos.load(*rules, options=["--wait"])
    check_equal(awaited(), {"comes": "container later", "unit": "unit later"}, "what status says is awaited")
    check("comes: waits for container later" in chaos.chaos("status").out, "and in words")
    check(not is_hit(here.scene.neighbour, COMES), "nobody is hit while it is awaited")
    check(not is_hit(here.scene.victim, SLOW), "nobody is hit while it is awaited")
    id_ = new_id()
    here.runtimes.docker(id_, "later")
    places = {COMES: here.path("docker", id_), SLOW: "system.slice/later.service"}
    start = time.monotonic()
    for port, where in places.items():
        worker = here.run(where, "later")
        wait_until(lambda: is_hit(worker, port), f"{where} is hit", seconds=20)
        print(f"    {where[:30]} is hit {time.monotonic() - start:.3f} s after it was begun")
        check(not is_hit(here.scene.neighbour, port), "the neighbour")
        check(("comes" if port == COMES else "unit") not in awaited(), "what has come is awaited no more")
        here.end(worker, where)
    check_counters()
    chaos.stop()


def is_two(here):
    """Two of that name: refused, and both are named."""
    ids = sorted(new_id() for _ in range(2))
    for id_ in ids:
        here.runtimes.docker(id_, "twin")
        here.runtimes.make(here.path("docker", id_))
    result = chaos.chaos("load", chaos.rules_file(chaos.rule("twin", {"container": "twin"}, {"drop": True})), expect=2)
    check("container 'twin' could be 2: " in result.err and all(id_[:12] in result.err for id_ in ids), str(result))
    for id_ in ids:
        here.runtimes.remove(here.path("docker", id_))
        here.runtimes.docker_forgets(id_)


def main_at(version, mount):
    """The case for one layout: "v2", or "v1" for hierarchies below `mount`."""
    here = []

    def setup():
        if not os.path.ismount(mount):
            skip(f"no cgroup {version} hierarchy in this guest")
        here.append(Place(version, mount))

    for function in (by_name, comes_again, is_awaited, is_two):
        alone(functools.wraps(function)(lambda function=function: function(here[0])))
    main(setup, lambda: here and here[0].close())
