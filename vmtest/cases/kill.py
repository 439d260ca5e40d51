#!/usr/bin/python3
# timeout: 480
"""kill -9 of every chaosbpf process at random moments of load, exec, inject, unload and stop.

Whatever was left half done: the neighbour never meets an error, no fault outlives its deadline, and in the end one
`stop` leaves nothing. CASE_KILLS says how often (40; over the five kernels that makes 200 moments).
"""
import os
import random
import signal
import time

import chaos
import leftovers
import place
from case import alone, check, check_equal, main, only_in_a_guest, wait_until
from scene import VICTIM, Scene

HOST, PORT = "127.0.0.1", 7800
KILLS = int(os.environ.get("CASE_KILLS", "40"))
DURATION_S = 3
AWAITED = "awaited"  # a rule for what does not run

scene = None
files = {}


def setup():
    global scene
    scene = Scene(network=1)
    scene.listen(PORT)
    match = {"cgroup": VICTIM, "ports": [PORT]}
    for name, fault in {"refuse": {"refuse": "refused"}, "drop": {"drop": True}, "delay": {"delay": "50ms"},
                        "reset": {"reset": True}, "rate": {"rate": "100mbit"},
                        "break": {"break_after": {"bytes": 4000, "how": "close"}}, "status": {"status": 503},
                        "garble": {"garble": True}, "grpc": {"grpc": "internal"}, "tokens": {"tokens": "50/s"}}.items():
        files[name] = chaos.rules_file(chaos.rule(name, dict(match, protocol="tcp"), fault, duration=f"{DURATION_S}s"))
    rule = chaos.rule(AWAITED, {"container": "nobody", "ports": [PORT]}, {"drop": True}, duration=f"{DURATION_S}s")
    files[AWAITED] = chaos.rules_file(rule)


def teardown():
    for path in files.values():
        os.unlink(path)
    if scene:
        scene.close()


def commands():
    path = random.choice([path for name, path in files.items() if name != AWAITED])
    return random.choice([
        ["load", path], ["load", path], ["load", path, "--foreground"], ["load", files[AWAITED], "--wait"],
        ["exec", path, "--", "sleep", "1"],
        ["inject", "delay=50ms", "--cgroup", VICTIM, "--port", str(PORT), "--for", f"{DURATION_S}s"],
        ["unload"], ["stop"], ["status"],
    ])


def kill_all():
    """Every chaosbpf process there is, reapers included, and the processes that only wait to be reaped are no more."""
    for pid in place.processes("chaosbpf"):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


@alone
def at_random_moments():
    only_in_a_guest("kills every chaosbpf process")
    scene.neighbour.begin("hammer", HOST, PORT, "request", pause=0.05)
    took = time.monotonic()
    chaos.chaos("load", files["delay"], expect=0)
    took = time.monotonic() - took
    for turn in range(KILLS):
        args = commands()
        process = chaos.start(*args)
        time.sleep(random.uniform(0, 1.2 * took))
        while place.processes("chaosbpf"):
            kill_all()
            time.sleep(0.005)
        process.communicate()
        if turn % 10 == 9:
            print(f"    {turn + 1}: {' '.join(args)}", flush=True)
    # whatever is loaded now has no process that would end it
    begun = time.monotonic()
    wait_until(lambda: scene.victim.get(HOST, PORT, timeout=2)["error"] is None, "the victim to be left alone",
               seconds=DURATION_S + 5)
    while time.monotonic() < begun + DURATION_S + 1:
        time.sleep(0.1)
    quick = min(scene.victim.get(HOST, PORT)["ms"] for _ in range(20))
    runs = scene.neighbour.end()
    usual = min(shortest for *_, shortest in runs)
    check(quick < 50 + usual, f"after the deadline a request still takes {quick} ms, the neighbour's {usual}")
    check_equal([met for met, *_ in runs], [None], f"what the neighbour met: {runs}")
    chaos.stop()
    # the kernel frees them behind the last one that let go
    wait_until(lambda: leftovers.bpf_count("chaos_") == 0, "programs and maps to be gone after stop", seconds=5)


main(setup, teardown)
