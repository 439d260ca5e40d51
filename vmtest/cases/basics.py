#!/usr/bin/python3
# timeout: 120
"""Every fault over loopback and veth, IPv4, IPv6 and v4-mapped: the victim gets exactly that, its neighbour nothing.

One load holds a rule for each combination, each with a port of its own, so that the counters of each stand alone.
"""
import chaos
from case import KERNEL, check, check_equal, check_took, main, part
from scene import PLACES, VICTIM, Scene

REFUSALS = {"refused": "ECONNREFUSED", "unreachable": "ENETUNREACH", "denied": "EPERM", "timeout": "ETIMEDOUT"}
DELAY_MS = 700

scene = None
ports = {}  # name of a rule to its port


def setup():
    global scene
    scene = Scene()


def every(fault):
    """(rule name, port, where the client connects to, its server) of each place for one fault."""
    for path, family, host, _ in PLACES:
        name = f"{fault}-{path}-{family}"
        yield name, ports[name], host, scene.server_of(path)


def rules_for(fault, what, **match):
    rules = []
    for path, family, _, host in PLACES:
        name = f"{fault}-{path}-{family}"
        if name not in ports:
            ports[name] = 7000 + len(ports)
            scene.listen(ports[name])
        rules.append(chaos.rule(name, {"hosts": [host], "ports": [ports[name]], "cgroup": VICTIM, **match}, what))
    return rules


def check_books(injected):
    """Counters and events agree with what the clients met: `injected` faults for each rule, by the victim alone."""
    state = chaos.status()
    for problem in chaos.problems_of(state):
        check(False, problem)
    for name, wanted in injected.items():
        rule = state[name]
        check_equal(rule["injected"], wanted, f"{name}: injected")
        check_equal(rule["matched"], wanted, f"{name}: matched")
        check_equal(rule["state"], "active", f"{name}: state")
        check_equal({fault: n for fault, n in rule["faults"].items() if n},
                    {name.split("-")[0]: wanted} if wanted else {}, f"{name}: faults")
    happened = chaos.events()
    for problem in chaos.event_problems(state, happened):
        check(False, problem)
    for event in happened:
        check_equal((event["pid"], event["comm"]), (scene.victim.pid, "victim"), f"owner in the event of {event['rule']}")
        path, family = event["rule"].split("-")[-2:]
        host = next(rule_host for p, f, _, rule_host in PLACES if (p, f) == (path, family))
        check_equal((event["peer"], event["peer_port"]), (host, ports[event["rule"]]), f"peer of {event['rule']}")


@part
def refuse():
    words = [word for word in REFUSALS if word != "timeout"]
    chaos.load(*[rule for word in words
                 for rule in rules_for(f"refuse-{word}", {"refuse": word}, protocol="tcp")])
    for word in words:
        for i, (name, port, host, _) in enumerate(every(f"refuse-{word}")):
            met = scene.victim.open(host, port, blocking=i % 2 == 0)
            check_equal(met["error"], REFUSALS[word], f"{name}: the victim's connect")
            check_equal(scene.neighbour.get(host, port)["error"], None, f"{name}: the neighbour's request")
    check_books({name: 1 for word in words for name, *_ in every(f"refuse-{word}")})
    chaos.stop()
    for name, port, host, _ in every("refuse-refused"):
        check_equal(scene.victim.get(host, port)["error"], None, f"{name}: after stop")


@part
def refuse_with_timeout():
    chaos.load(*rules_for("refuse-timeout", {"refuse": "timeout"}, protocol="tcp"))
    late = KERNEL < (5, 18)  # there the kernel itself waits, and slowly: two places will do
    tried = [one for one in every("refuse-timeout") if not late or one[0].endswith(("lo-4", "veth-6"))]
    for name, port, host, _ in tried:
        met = scene.victim.open(host, port, blocking=True)
        check_equal(met["error"], "ETIMEDOUT", f"{name}: the victim's connect")
        check_took(met["ms"], 0, f"{name}: the victim's connect", room_ms=10000 if late else 2000)
        check_equal(scene.neighbour.get(host, port)["error"], None, f"{name}: the neighbour's request")
    check_books({name: 1 for name, *_ in tried})


@part
def drop_new():
    """A connection that is opened while the rule is in force: its first packet vanishes, and nobody is told."""
    chaos.load(*rules_for("drop", {"drop": True}))
    for name, port, host, server in every("drop"):
        before = server.count("connections", port)
        met = scene.victim.open(host, port, timeout=0.3)
        check_equal(met["error"], "timeout", f"{name}: the victim's connect")
        check_equal(scene.neighbour.get(host, port)["error"], None, f"{name}: the neighbour's request")
        check_equal(server.count("connections", port) - before, 1, f"{name}: connections that the server saw")
    check_books({name: 1 for name, *_ in every("drop")})


@part
def reset():
    chaos.load(*rules_for("reset", {"reset": True}))
    for name, port, host, server in every("reset"):
        before = server.count("requests", "victim"), server.count("requests", "neighbour")
        met = scene.victim.get(host, port)
        check_equal((met["where"], met["error"]), ("request", "ECONNRESET"), f"{name}: the victim's request")
        check_took(met["ms"], 0, f"{name}: the victim's request")
        check_equal(scene.neighbour.get(host, port)["error"], None, f"{name}: the neighbour's request")
        check_equal((server.count("requests", "victim") - before[0], server.count("requests", "neighbour") - before[1]),
                    (0, 1), f"{name}: requests of victim and neighbour that arrived")
    check_books({name: 1 for name, *_ in every("reset")})


@part
def delay():
    """Each request once, on connections that are kept alive; connecting is not slower."""
    chaos.load(*rules_for("delay", {"delay": f"{DELAY_MS}ms"}))
    opened = {}
    for name, port, host, _ in every("delay"):
        met = scene.victim.open(host, port)
        check(met["error"] is None and met["ms"] < DELAY_MS, f"{name}: connecting was not undisturbed: {met}")
        opened[name] = met["id"], scene.neighbour.open(host, port)["id"]
    for turn in ("first", "second"):
        # all at once, so that the case is short
        scene.victim.begin("requests_together", [ids[0] for ids in opened.values()])
        others = [scene.neighbour.request(ids[1]) for ids in opened.values()]
        check_equal([other["error"] for other in others], [None] * len(PLACES), "the neighbour's requests")
        check(min(other["ms"] for other in others) < DELAY_MS, f"the neighbour was slow as well: {others}")
        mets = scene.victim.end(stop=False)
        for name, met in zip(opened, mets):
            check_equal(met["error"], None, f"{name}: the victim's {turn} request")
            check_took(met["ms"], DELAY_MS, f"{name}: the victim's {turn} request")
    check_books({name: 2 for name, *_ in every("delay")})
    for event in chaos.events():
        check_equal(event["delay_ms"], DELAY_MS, f"{event['rule']}: delay in the event")
    check_equal(sorted({event["request"] for event in chaos.events()}), [1, 2], "requests are numbered")


main(setup, lambda: scene and scene.close())
