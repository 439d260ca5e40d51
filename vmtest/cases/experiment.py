#!/usr/bin/python3
# timeout: 1200
"""`run`: every way out ends the faults, and says what it was; steps and probes of every kind."""
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

import chaos
import experiments
import kernel
import place
from case import alone, check, check_equal, main, skip, wait_until
from experiments import REFUSED, SILENT, Variant, experiment, failed, run


@alone
def aborts():
    with Variant("wrong-exception"):
        result = run(experiment("rag-abort", SILENT, abort='{ ask.success: "< 20%", for: 10s }', observe="90s"))
    if check_equal(result.code, 5, f"exit code of {result}"):
        said = result.json
        check_equal(said["verdict"], "aborted", "verdict")
        check("abort: ask.success" in failed(said), f"{failed(said)} blamed")
    check_equal(chaos.status().all["loaded"], False, "loaded after the abort")
    # Its weakness is open: another run is refused until somebody says what was done.
    path = os.path.join(experiments.folder, "rag-abort.yaml")
    check_equal(run(path, again=1).code, 2, "a run while the weakness is open")
    chaos.chaos("history", "resolve", said["id"], "--note", "seen", expect=0)
    result = run(path, again=1)  # the service is gone now
    check_equal((result.code, result.json["verdict"]), (0, "skipped"), f"not healthy at the start: {result}")
    check_equal(result.json["injected"], 0, "injected by a run that was skipped")


def begin(name, method=REFUSED, **keys):
    """A run in the background, once its faults are there."""
    process = chaos.start("run", "--json", experiment(name, method, observe="300s", baseline="4s", **keys))
    wait_until(lambda: chaos.status().all["loaded"], "the faults of a run", seconds=180)
    return process


@alone
def ctrl_c():
    with Variant("good"):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = begin("rag-signal")
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            check_equal(process.returncode, 5, f"exit code after a signal: {out}{err}")
            check_equal(json.loads(out)["verdict"], "aborted", "verdict")
            check_equal(chaos.status().all["loaded"], False, "loaded after a signal")


@alone
def stop_ends_the_run():
    with Variant("good"):
        process = begin("rag-stop")
        stopped = chaos.stop()
        begun = time.monotonic()
        out, err = process.communicate(timeout=60)
        took = time.monotonic() - begun
        check_equal(process.returncode, 5, f"exit code after stop: {out}{err}")
        check(took < 20, f"the run ended {took:.1f} s after stop")
        said = json.loads(out)
        check("chaosbpf stop" in said["reason"], f"reason: {said['reason']}")
        check((stopped["was_loaded"], stopped["experiment_told"]) == (True, True), f"what stop found: {stopped}")


@alone
def stop_is_at_once():
    """Under 100 ms from the command to the last fault, from any terminal, whatever the run does: the best of five times,
    as a machine that is busy may be late."""
    took = []
    with Variant("good"):
        for _ in range(5):
            process = begin("rag-at-once")
            stopped = chaos.stop()
            process.communicate(timeout=60)
            took.append((stopped["disarmed_ms"], stopped["took_ms"]))
    check(min(disarmed for disarmed, _ in took) < 100, f"until the faults had ended, and all was as before, in ms: {took}")
    print(f"    stop: {took}")


PRESS = """import os, socket
os.setuid(65534)
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0chaosbpf-stop")"""


@alone
def stop_ends_a_run_that_has_broken_nothing_yet():
    """In its baseline nothing is loaded: it ends all the same, and nothing is loaded afterwards. Only root is listened to."""
    with Variant("good"):
        process = chaos.start("run", "--json", experiment("rag-early-stop", REFUSED, baseline="300s"))
        wait_until(lambda: subprocess.run([sys.executable, "-c", PRESS], check=False, stderr=subprocess.DEVNULL).returncode == 0,
                   "the run to listen", seconds=120)
        time.sleep(1)
        check_equal(process.poll(), None, "the run goes on, whoever else presses the button")
        stopped = chaos.chaos("stop", "--json").json
        check_equal((stopped["was_loaded"], stopped["experiment_told"]), (False, True), "what stop found")
        out, err = process.communicate(timeout=60)
        check_equal(process.returncode, 5, f"exit code after stop: {out}{err}")
        check("chaosbpf stop" in json.loads(out)["reason"], f"reason: {out}")
        check_equal(chaos.status().all["loaded"], False, "loaded after a run that was stopped")
    check_equal(chaos.chaos("stop", "--json").json["experiment_told"], False, "nobody listens any more")


class Prometheus(http.server.BaseHTTPRequestHandler):
    """Of the only query that it knows it says 5 and 3 by turns."""
    asked = 0

    def do_GET(self):
        Prometheus.asked += 1
        known = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("query") == ["queue_length{app='rag'}"]
        result = [{"metric": {}, "value": [time.time(), "5" if Prometheus.asked % 2 else "3"]}] if known else []
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@alone
def asked_of_prometheus():
    """A measure that is somebody else's: its value is promised like any other, and may be what fails."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 9090), Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    query = """query: "queue_length{app='rag'}", every: 500ms, timeout: 10s"""
    probes = f"""
  - {{ name: ask, http: "http://127.0.0.1:8080/ask", timeout: 12s }}
  - {{ name: queue, prometheus: "http://127.0.0.1:9090", {query} }}
  - {{ name: short, prometheus: "http://127.0.0.1:9090", {query}, expect: {{ value: "< 4" }} }}
  - {{ name: unknown, prometheus: "http://127.0.0.1:9090", query: nothing, every: 500ms, timeout: 10s }}"""
    promised = '{ queue.success: "== 100%", queue.value: ">= 3", unknown.success: "== 0%" }'
    try:
        with Variant("retries"):
            result = run(experiment("rag-queue-holds", REFUSED, probes=probes, during=promised, observe="8s"))
            check_equal(result.code, 0, f"exit code of {result}")
            ok = {one["name"]: (one["ok"], one["attempts"]) for one in result.json["probes"]}
            check(0 < ok["short"][0] < ok["short"][1], f"3 is as expected, and 5 is not: {ok}")
            result = run(experiment("rag-queue-long", REFUSED, probes=probes, during='{ queue.value: "< 3" }', observe="8s"))
            check_equal(result.code, 4, f"exit code of {result}")
            check_equal(failed(result.json), ["during: queue.value"], "blamed")
    finally:
        server.shutdown()
        server.server_close()


@alone
def each_kind_of_step_and_probe():
    """Steps in order, one set of rules after the other, loads and commands beside them, probes of every kind."""
    flag = os.path.join(experiments.folder, "flag")
    method = f"""
  - {{ load: "http://127.0.0.1:8080/health", name: crowd, rate: 4/s, ramp: 2s, for: 90s, rounds: 2, pause: 1s, background: true }}
  - {{ exec: {experiments.command()}, background: true }}
  - {{ http: "http://127.0.0.1:8080/ask", characters: 200000, timeout: 20s }}
  - {{ exec: [touch, "{flag}"] }}
  - rules:
      - {{ name: first, match: {{ hosts: 127.0.0.1, ports: 6333 }}, fault: {{ refuse: refused }} }}
    for: 3s
  - {{ wait: 1s }}
  - rules:
      - {{ name: second, match: {{ hosts: 127.0.0.1, ports: 6333 }}, fault: {{ refuse: denied }} }}
"""
    probes = f"""
  - {{ name: ask, http: "http://127.0.0.1:8080/ask", timeout: 12s }}
  - {{ name: port, tcp: "127.0.0.1:8080" }}
  - {{ name: shut, tcp: "127.0.0.1:1" }}
  - {{ name: touched, exec: [ls, "{flag}"], timeout: 20s }}
  - {{ name: hangs, exec: {experiments.command()}, every: 2s, timeout: 1s }}"""
    with Variant("retries"):  # refused at once, so it never takes long
        result = run(experiment("rag-steps", method, probes=probes, observe="5s", baseline="4s", cooldown="1s",
                                during='{ ask.success: ">= 90%", crowd.success: ">= 90%", crowd.attempts: ">= 5" }'))
    if not check_equal(result.code, 0, f"exit code of {result}"):
        return
    said = result.json
    probes = {one["name"]: one for one in said["probes"]}
    check(probes["ask"]["ok"] and probes["port"]["ok"], f"good answers: {probes}")
    check_equal((probes["shut"]["ok"], probes["hangs"]["ok"]), (0, 0), "answers of nobody")
    check(0 < probes["touched"]["ok"] < probes["touched"]["attempts"], f"the command was run in between: {probes}")
    rules = {one["name"]: one["injected"] for one in said["rules"]}
    check(rules.get("first") and rules.get("second"), f"injected by one after the other: {rules}")
    check_equal([one["phase"] for one in said["phases"]],
                ["baseline", "inject", "observe", "rollback", "recover", "cooldown", "verdict"], "phases")
    check_equal(place.processes(experiments.COMMAND), [], "commands that outlived the run")


@alone
def a_step_that_fails():
    """Is an error, and what was broken before is rolled back."""
    with Variant("good"):
        result = run(experiment("rag-fails", REFUSED + """  - { exec: ["false"] }\n""", baseline="2s"))
    check_equal(result.code, 1, f"exit code of {result}")
    check_equal(result.json["verdict"], "error", "verdict")
    check("exec false: exit code 1" in result.json["reason"], f"reason: {result.json['reason']}")
    check_equal(chaos.status().all["loaded"], False, "loaded after a step that failed")


@alone
def rules_that_end_early():
    """The last rule ends before the roll back: the run goes on and is judged."""
    method = REFUSED.replace("fault:", "duration: 3s, fault:")
    with Variant("good"):
        result = run(experiment("rag-early", method, observe="20s", baseline="4s", during=None))
    check_equal(result.code, 0, f"exit code of {result}")
    check_equal([rule["name"] for rule in result.json["rules"]], ["refused"], "rules of a load that was over")


def check_lost(said, why):
    """Never as held: the verdict is that nothing is proven. It was rolled back, and recovery was waited for."""
    check_equal(said["verdict"], "error", f"verdict: {said['reason']}")
    check(why in said["reason"] and "after the faults began" in said["reason"], f"reason: {said['reason']}")
    phases = [one["phase"] for one in said["phases"]]
    check("rollback" in phases and "recover" in phases, f"phases: {phases}")
    check(said["time_to_recover_ms"] is not None, "it recovered")


CUT_OFF = experiments.rules_step("reset", experiments.VECTORS, {"reset": True})


@alone
def parts_taken_away():
    """Programs that somebody detaches, filters that he removes, a rule that he unloads: each is noticed, and said."""
    def off_the_cgroups():
        check(kernel.detach("chaos_egress"), "a program to take off")

    def off_the_device():
        if not kernel.detach("chaos_tc_out"):
            place.run("tc", "qdisc", "del", "dev", "lo", "clsact")

    def one_rule():
        chaos.chaos("unload", "refused", expect=0)

    two = REFUSED + f"""      - {{ name: other, match: {{ hosts: 127.0.0.1, ports: {experiments.MODEL} }}, fault: {{ drop: true }}, percent: 0.001 }}
"""
    for method, how, why in ((CUT_OFF, off_the_cgroups, "detached program chaos_egress"),
                             (CUT_OFF, off_the_device, "at what leaves by device lo"),
                             (two, one_rule, "unloaded rule 'refused'")):
        with Variant("good"):
            process = begin("rag-parts", method=method)
            how()
            out, err = process.communicate(timeout=120)
        check_equal(process.returncode, 1, f"exit code after {how.__name__}: {out}{err}")
        check_lost(json.loads(out), why)
        check_equal(chaos.status().all["loaded"], False, f"loaded after {how.__name__}")


TAKE_OFF = (f"import os, sys; sys.path.insert(0, {os.path.dirname(kernel.__file__)!r}); import kernel; "
            "os._exit(0 if kernel.detach('chaos_egress') else 1)")


@alone
def taken_away_at_the_very_end():
    """Just before the roll back, when nobody would look again for a second: the end has a look of its own."""
    two = REFUSED + f"""      - {{ name: other, match: {{ hosts: 127.0.0.1, ports: {experiments.MODEL} }}, fault: {{ drop: true }}, percent: 0.001 }}
"""
    for method, command, why in ((CUT_OFF, [sys.executable, "-c", TAKE_OFF], "detached program chaos_egress"),
                                 (two, [chaos.BINARY, "unload", "refused"], "unloaded rule 'refused'")):
        steps = method + f"""  - wait: 4s\n  - {{ exec: {json.dumps(command)}, timeout: 60s }}\n"""
        with Variant("good"):
            result = run(experiment("rag-late", steps, observe="0s", baseline="4s", during=None))
        if check_equal(result.code, 1, f"exit code after {why}: {result}"):
            check_lost(result.json, why)
        check_equal(chaos.status().all["loaded"], False, f"loaded after {why}")


@alone
def queue_replaced():
    """The queue that holds what is delayed: as long as it is there all is well."""
    if not chaos.doctor("features")["fq"]:
        skip("this kernel has no fq")
    method = experiments.rules_step("slow", experiments.VECTORS, {"delay": "100ms"})
    with Variant("good"):
        result = run(experiment("rag-queue", method, observe="10s"))
        check_equal(result.code, 0, f"exit code of {result}")
        process = begin("rag-queue", method=method)
        place.run("tc", "qdisc", "replace", "dev", "lo", "root", "pfifo")
        out, err = process.communicate(timeout=120)
        place.run("tc", "qdisc", "del", "dev", "lo", "root", "pfifo")
    check_equal(process.returncode, 1, f"exit code: {out}{err}")
    check_lost(json.loads(out), "replaced the queue of device lo")


@alone
def nothing_hit():
    """All is well, and nothing was broken: that is no promise held."""
    with Variant("good"):
        result = run(experiment("rag-missed", experiments.rules_step("missed", 1, {"drop": True}), observe="8s"))
    check_equal(result.code, 1, f"exit code of {result}")
    check_equal(result.json["verdict"], "error", "verdict")
    check("nothing was injected" in result.json["reason"], f"reason: {result.json['reason']}")
    check_equal((failed(result.json), result.json["injected"]), ([], 0), "what failed, and injected")


@alone
def holder_killed():
    """The process that holds the faults: they end, and the run says so."""
    with Variant("good"):
        process = begin("rag-holder")
        (holder,) = place.processes("chaosbpf-holder")
        os.kill(holder, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    check_equal(process.returncode, 1, f"exit code: {out}{err}")
    check_lost(json.loads(out), "was killed")
    check_equal(chaos.status().all["loaded"], False, "loaded afterwards")


main(experiments.begin, experiments.end)
