#!/usr/bin/python3
# timeout: 120
"""Every fault over loopback and veth, IPv4, IPv6 and v4-mapped: the victim gets exactly that, its neighbour nothing.

One load holds a rule for each combination, each with a port of its own, so that the counters of each stand alone.
"""
import chaos
from case import KERNEL, check, check_equal, check_took, expect, main, part
from scene import PLACES, VICTIM, Scene

REFUSALS = {"refused": "ECONNREFUSED", "unreachable": "ENETUNREACH", "denied": "EPERM", "timeout": "ETIMEDOUT"}
FAULTS = {"drop": {"drop": True}, "reset": {"reset": True}, "delay": {"delay": "700ms"}}
FAULTS.update({"refuse-" + word: {"refuse": word} for word in REFUSALS})
DELAY_MS = 700

scene = None
ports = {}  # name of a rule to its port


def setup():
    global scene
    scene = Scene()
    for fault in FAULTS:
        for path, family, *_ in PLACES:
            port = ports[f"{fault}-{path}-{family}"] = 7000 + len(ports)
            scene.listen(port)


def rules():
    return [chaos.rule(name, {"hosts": [host], "ports": [ports[name]], "cgroup": VICTIM, "protocol": "tcp"}, fault)
            for word, fault in FAULTS.items() for name, host in
            ((f"{word}-{path}-{family}", host) for path, family, _, host in PLACES)]


def every(fault):
    """(rule name, port, where the client connects to, its server) of each place for one fault."""
    for path, family, host, _ in PLACES:
        name = f"{fault}-{path}-{family}"
        yield name, ports[name], host, scene.server_of(path)


def hit(name, times=1, **event):
    """The victim was hit so often, and events tell by whom and for whom."""
    host = next(rule_host for path, family, _, rule_host in PLACES if name.endswith(f"-{path}-{family}"))
    expect(name, times, event={"pid": scene.victim.pid, "comm": "victim", "uid": 0, "peer": host,
                               "peer_port": ports[name], "side": "client", "protocol": "tcp", **event})


@part
def refuse():
    for word, error in REFUSALS.items():
        for i, (name, port, host, _) in enumerate(every(f"refuse-{word}")):
            late = word == "timeout" and KERNEL < (5, 18)  # there the kernel itself waits: two places will do
            if late and not name.endswith(("lo-4", "veth-6")):
                continue
            met = scene.victim.open(host, port, blocking=i % 2 == 0)
            check_equal(met["error"], error, f"{name}: the victim's connect")
            check_took(met["ms"], 0, f"{name}: the victim's connect", room_ms=10000 if late else 2000)
            check_equal(scene.neighbour.open(host, port)["error"], None, f"{name}: the neighbour's connect")
            hit(name, error=error)


@part
def drop():
    """A connection that is opened while the rule is in force: its first packet vanishes, and nobody is told."""
    for name, port, host, server in every("drop"):
        before = server.count("connections", port)
        met = scene.victim.open(host, port, timeout=0.3)
        check_equal(met["error"], "timeout", f"{name}: the victim's connect")
        check_equal(scene.neighbour.get(host, port)["error"], None, f"{name}: the neighbour's request")
        check_equal(server.count("connections", port) - before, 1, f"{name}: connections that the server saw")
        hit(name)


@part
def reset():
    for name, port, host, server in every("reset"):
        before = server.count("requests", "victim"), server.count("requests", "neighbour")
        met = scene.victim.get(host, port)
        check_equal((met["where"], met["error"]), ("request", "ECONNRESET"), f"{name}: the victim's request")
        check_took(met["ms"], 0, f"{name}: the victim's request")
        check_equal(scene.neighbour.get(host, port)["error"], None, f"{name}: the neighbour's request")
        check_equal((server.count("requests", "victim") - before[0], server.count("requests", "neighbour") - before[1]),
                    (0, 1), f"{name}: requests of victim and neighbour that arrived")
        hit(name)


@part
def delay():
    """Each request once, on connections that are kept alive; connecting is not slower."""
    opened, connects = {}, []
    for name, port, host, _ in every("delay"):
        met = scene.victim.open(host, port)
        check_equal(met["error"], None, f"{name}: the victim's connect")
        opened[name] = met["id"], scene.neighbour.open(host, port)["id"]
        connects.append(met["ms"])
    check(min(connects) < DELAY_MS, f"connecting was slow: {connects}")
    for turn in ("first", "second"):
        # all at once, so that the case is short
        scene.victim.begin("requests_together", [ids[0] for ids in opened.values()])
        others = [scene.neighbour.request(ids[1]) for ids in opened.values()]
        check_equal([other["error"] for other in others], [None] * len(PLACES), "the neighbour's requests")
        check(min(other["ms"] for other in others) < DELAY_MS, f"the neighbour was slow as well: {others}")
        for name, met in zip(opened, scene.victim.end(stop=False)):
            check_equal(met["error"], None, f"{name}: the victim's {turn} request")
            check_took(met["ms"], DELAY_MS, f"{name}: the victim's {turn} request")
    for name in opened:
        hit(name, 2, delay_ms=DELAY_MS)


main(setup, lambda: scene and scene.close(), rules)
