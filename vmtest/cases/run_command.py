#!/usr/bin/python3
# timeout: 90
"""`exec`: faults that hit one command and its children, with its user, exit code and summary, and gone when it ends."""
import json
import os
import signal
import sys
import time

import chaos
import place
from case import alone, check, check_equal, main, wait_until
from scene import Scene

HOST, CLOSED, OPEN = "127.0.0.1", 8200, 8201

# Connects and says what it met; children as well. Small, since it is a new python each time.
PROBE = """
import errno, os, socket, sys
def met(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError as error:
        return errno.errorcode.get(error.errno)
print(met(%d), os.getuid(), open("/proc/self/cgroup").read().split("0::")[1].strip(), flush=True)
if os.fork() == 0:
    print(met(%d), flush=True)
    os._exit(0)
os.wait()
""" % (CLOSED, CLOSED)

scene = None
path = None


def setup():
    global scene, path
    scene = Scene(network=0)
    scene.near.listen(HOST, OPEN)
    path = chaos.rules_file(chaos.rule("closed", {"ports": [CLOSED], "protocol": "tcp"}, {"refuse": "denied"}),
                            chaos.rule("slow", {"ports": [OPEN]}, {"delay": "300ms"}))


def teardown():
    if path:
        os.unlink(path)
    if scene:
        scene.close()


def exec_(*command, **options):
    return chaos.chaos("exec", "--json", path, "--", *command, **options)


def summary(result):
    """The JSON on standard error."""
    return json.loads(result.err[result.err.index("{"):])


@alone
def command_and_children():
    """As the user who called sudo; its exit code is ours."""
    env = dict(os.environ, SUDO_UID="1000", SUDO_GID="1000", SUDO_USER="user")
    result = exec_("sh", "-c", 'echo $(id -u) $(id -g) $(id -G) $HOME $USER "[$SUDO_UID]"; "$@"; exit 7', "sh",
                   sys.executable, "-c", PROBE, env=env)
    words = result.out.split()
    check_equal(words[:6], ["1000", "1000", "1000", "/tmp", "user", "[]"], f"who it was: {result}")
    check_equal(result.code, 7, f"exit code: {result}")
    check_equal((words[6], words[7], words[9]), ("EPERM", "1000", "EPERM"), f"what a command and its child met: {result}")
    check(words[8].startswith("/chaosbpf-exec-"), f"cgroup {words[8]}")
    said = summary(result)
    rule = said["status"]["rules"][0]
    check_equal((rule["matched"], rule["injected"]), (2, 2), "matched, injected")
    check_equal(said["exit"], 7, "exit code in the summary")
    check_equal(chaos.status().all["loaded"], False, "loaded after it ended")
    check_equal(scene.neighbour.connects(HOST, CLOSED, 1), ["ECONNREFUSED"], "the neighbour")


@alone
def exit_codes():
    check_equal(exec_("sh", "-c", "kill -9 $$").code, 128 + 9, "killed by signal 9")
    check_equal(exec_("/no/such/program").code, 127, "not found")
    check_equal(chaos.chaos("exec", path).code, 2, "no command")


@alone
def neighbours_meanwhile():
    """Others are not hit while it runs; faults are gone at once when the command ends; a signal reaches it."""
    process = chaos.start("exec", path, "--", "sleep", "30")
    try:
        wait_until(lambda: place.processes("sleep"), "the command to run", seconds=30)
        check_equal(scene.neighbour.connects(HOST, CLOSED, 3), ["ECONNREFUSED"] * 3, "the neighbour meanwhile")
        check_equal(scene.neighbour.get(HOST, OPEN)["error"], None, "the neighbour's request")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        check_equal(process.returncode, 128 + signal.SIGTERM, f"exit code after a signal: {err}")
    finally:
        process.kill()
        process.wait()
    check_equal(chaos.status().all["loaded"], False, "loaded after it ended")


@alone
def killed():
    """kill -9 of exec itself: its faults end with it, what it ran goes on without."""
    program = f"print('runs', flush=True); import time; time.sleep(3); {PROBE}"
    process = chaos.start("exec", path, "--", sys.executable, "-c", program)
    try:
        check_equal(process.stdout.readline().strip(), "runs", "the command")
        process.kill()
        begun = time.monotonic()
        out, _ = process.communicate(timeout=60)
        if time.monotonic() - begun < 2:
            check(False, f"the command did not go on: {out}")
        words = out.split()
        check_equal(words[:1], ["ECONNREFUSED"], f"what the command met after exec was killed: {out}")
    finally:
        process.kill()
    check_equal(chaos.status().all["loaded"], False, "loaded after exec was killed")


main(setup, teardown)
