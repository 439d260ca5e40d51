#!/usr/bin/python3
# timeout: 90
"""inject, unload RULE, load --observe, --foreground and --duration, status and events, SSH, and what needs root."""
import json
import os
import signal

import chaos
import place
from case import check, check_equal, check_took, main, part, wait_until
from scene import VICTIM, Scene

HOST, CLOSED, OPEN = "127.0.0.1", 8300, 8301

scene = None


def setup():
    global scene
    scene = Scene(network=0)
    scene.near.listen(HOST, OPEN)
    scene.near.listen(HOST, 8302)


def refusal(name, port=CLOSED, **keys):
    return chaos.rule(name, {"cgroup": VICTIM, "ports": [port], "protocol": "tcp"}, {"refuse": "denied"}, **keys)


def met(port=CLOSED):
    return scene.victim.connects(HOST, port, 1)[0]


def books():
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    return state


@part
def inject():
    words = ["delay=300ms", "--to", f"{HOST}:{OPEN}", "--pid", str(scene.victim.pid), "--for", "1m"]
    chaos.chaos("inject", *words, "--json", expect=0)
    check_took(scene.victim.get(HOST, OPEN)["ms"], 300, "the victim's request")
    check(min(scene.neighbour.get(HOST, OPEN)["ms"] for _ in range(3)) < 300, "the neighbour is slow as well")
    state = books()
    check_equal((state.all["command"], state["inject"]["injected"]), ("inject", 1), "command, injected")
    printed = chaos.chaos("inject", *words, "--print", expect=0).out
    check_equal(chaos.chaos("check", "-", text=printed).code, 0, f"what --print printed is no rules file: {printed}")


@part
def unload_one_rule():
    """Its faults end, those of the others do not, and what came after it in the file takes over."""
    chaos.load(refusal("first"), chaos.rule("second", {"cgroup": VICTIM, "ports": [CLOSED], "protocol": "tcp"},
                                            {"refuse": "unreachable"}),
               chaos.rule("third", {"cgroup": VICTIM, "ports": [OPEN]}, {"delay": "300ms"}))
    number = scene.victim.open(HOST, OPEN)["id"]
    check_equal(met(), "EPERM", "before")
    chaos.chaos("unload", "first", expect=0)
    check_equal(met(), "ENETUNREACH", "after the first was unloaded")
    check_took(scene.victim.request(number)["ms"], 300, "a request under the third rule")
    chaos.chaos("unload", "third", expect=0)
    check(min(scene.victim.request(number)["ms"] for _ in range(3)) < 300, "a request after the third was unloaded")
    state = books()
    check_equal([(name, state[name]["state"], state[name]["unloaded"], state[name]["injected"]) for name in state.rules],
                [("first", "finished", True, 1), ("second", "active", False, 1), ("third", "finished", True, 1)], "status")
    check_equal(chaos.chaos("unload", "nonsense").code == 0, False, "unloading a rule that is not there went well")
    check_equal(met(), "ENETUNREACH", "after a mistaken unload")


@part
def unload_all():
    """Held requests go on at their time; the command waits for them."""
    chaos.load(refusal("closed"), chaos.rule("slow", {"cgroup": VICTIM, "ports": [OPEN]}, {"delay": "2s"}))
    number = scene.victim.open(HOST, OPEN)["id"]
    scene.victim.begin("request", number)
    wait_until(lambda: chaos.status()["slow"]["injected"] == 1, "the request to be held")
    chaos.chaos("unload", expect=0)
    result = scene.victim.end(stop=False)
    check_equal(result["error"], None, "the request that was held")
    check_took(result["ms"], 2000, "the request that was held")
    check_equal(met(), "ECONNREFUSED", "after unload")


@part
def observe():
    """Counts what would be hit, injects nothing."""
    chaos.load(refusal("closed", port=8302), chaos.rule("slow", {"cgroup": VICTIM, "ports": [OPEN]}, {"delay": "5s"}),
               options=["--observe"])
    check_equal([met(8302) for _ in range(3)], [None] * 3, "connects")
    number = scene.victim.open(HOST, OPEN)["id"]
    for _ in range(2):
        check(scene.victim.request(number)["ms"] < 5000, "a request that is only observed was slow")
    state = books()
    for name, times in (("closed", 3), ("slow", 2)):
        rule = state[name]
        check_equal((rule["state"], rule["matched"], rule["injected"], rule["skipped"]["observe"]),
                    ("observing", times, 0, times), f"{name}: state, matched, injected, skipped to observe")
    check_equal(chaos.events(), [], "events")


@part
def foreground():
    """The faults live as long as the process; SIGKILL ends them as well."""
    path = chaos.rules_file(refusal("closed"))
    for number, code in ((signal.SIGINT, 0), (signal.SIGKILL, -9)):
        process = chaos.start("load", path, "--foreground")
        try:
            wait_until(lambda: met() == "EPERM", "the fault", seconds=30)
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
            check_equal(process.returncode, code, f"exit code after signal {number}: {err}")
        finally:
            process.kill()
            process.wait()
        wait_until(lambda: met() == "ECONNREFUSED", f"the fault to end after signal {number}", seconds=10)
        check_equal(chaos.status().all["rules"], [], f"rules after signal {number}")
    os.unlink(path)


@part
def duration_of_the_command_line():
    chaos.load(refusal("closed", duration="1h"), options=["--duration", "2s"])
    check(0 < chaos.status()["closed"]["ends_in_s"] <= 2, "the rule's end is not that of --duration")
    wait_until(lambda: met() == "ECONNREFUSED", "the end", seconds=10)


@part
def follow():
    """`events --follow` tells each fault when it happens, and ends with the load."""
    chaos.load(refusal("closed"))
    process = chaos.start("events", "--follow", "--json")
    try:
        for turn in range(3):
            met()
            event = json.loads(process.stdout.readline())
            check_equal((event["rule"], event["error"], event["pid"]), ("closed", "EPERM", scene.victim.pid), f"event {turn}")
        chaos.stop()
        process.wait(timeout=20)
        check_equal(process.returncode, 0, "exit code of events --follow")
    finally:
        process.kill()
        process.wait()


@part
def ssh_is_spared():
    """Port 22, unless the rule says so in words."""
    for port in (22, 8303):
        scene.near.listen(HOST, port)
    rule = chaos.rule("all", {"cgroup": VICTIM, "hosts": [HOST], "protocol": "tcp"}, {"reset": True})
    chaos.load(rule)
    check_equal(scene.victim.get(HOST, 22)["error"], None, "port 22")
    check_equal(scene.victim.get(HOST, 8303)["error"], "ECONNRESET", "another port")
    state = books()
    check_equal((state["all"]["injected"], state["all"]["skipped"]["ssh"]), (1, 1), "injected, skipped for SSH")
    rule["match"]["include-ssh"] = True
    chaos.load(rule)
    check_equal(scene.victim.get(HOST, 22)["error"], "ECONNRESET", "port 22 with include-ssh")


@part
def without_root():
    """Every command says so and fails."""
    path = chaos.rules_file(refusal("closed"))
    chaos.load(refusal("closed"))
    for args in (["load", path], ["stop"], ["unload"], ["inject", "drop", "--port", "80", "--for", "1m"],
                 ["exec", path, "--", "true"], ["status"], ["events"]):
        result = chaos.chaos(*args, user=1000, group=1000, extra_groups=[])
        check(result.code != 0 and "root" in result.err, f"without root: {result}")
    check_equal(met(), "EPERM", "the rule after all these")
    os.unlink(path)


@part
def two_at_once():
    """Loads that are begun together are done one after the other."""
    path = chaos.rules_file(refusal("closed"))
    processes = [chaos.start("load", path, "--json") for _ in range(3)]
    said = [process.communicate(timeout=60) for process in processes]
    check_equal([process.returncode for process in processes], [0] * 3, f"exit codes: {said}")
    check_equal(len({json.loads(out)["generation"] for out, _ in said}), 3, "generations")
    check_equal(met(), "EPERM", "a connect")
    check_equal(chaos.status()["closed"]["injected"], 1, "injected")
    check_equal(len(place.processes("chaosbpf")), 1, "processes that are left: one reaper")
    os.unlink(path)


main(setup, lambda: scene and scene.close())
