#!/usr/bin/python3
# timeout: 240
"""`deps discover`: what a service talks to, under the names that DNS and TLS tell, and nothing of its neighbour's."""
import json
import os
import signal
import time

import chaos
from case import alone, check, check_equal, main, wait_until
from nameserver import NameServer
from scene import VICTIM, Scene
from worker import Worker

SERVER = "127.0.0.53"
PLAIN, TLS, SILENT, OTHER = 7901, 7902, 7903, 7904

scene = names = None


def setup():
    global scene, names
    scene = Scene(network=1)
    names = Worker(NameServer, cgroup="case/server", comm="names")
    names.listen(SERVER)
    names.tell("vectors.test", ["127.0.10.1", "127.0.10.2"])
    for host in ("127.0.10.1", "127.0.10.2"):
        scene.near.listen(host, PLAIN)
    scene.near.listen("127.0.10.3", TLS, "tls")
    scene.listen(PLAIN)
    scene.listen(OTHER)


def teardown():
    if scene:
        scene.close()


def discover(talk, *whom):
    """What is found while talk() talks, by (name, port)."""
    process = chaos.start("deps", "discover", "--json", "--for", "300s", *whom)
    try:
        # It begins to listen when its programs are there.
        wait_until(lambda: attached(process.pid), "the observer to be attached", seconds=60)
        time.sleep(0.5)
        talk()
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    check_equal(process.returncode, 0, f"exit code: {err}")
    return {(one["name"], one["port"]): one for one in json.loads(out)["dependencies"]}


def attached(pid):
    """The packet socket is opened before the programs are attached; these are the last."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return sum("bpf_link" in one or "bpf-link" in one for one in links) >= 2


def talk():
    scene.victim.ask_name(SERVER, "vectors.test")
    for host in ("127.0.10.1", "127.0.10.2"):
        for _ in range(2):
            check_equal(scene.victim.get(host, PLAIN)["error"], None, f"{host}: a request")
    got = scene.victim.open("127.0.10.3", TLS, tls="1.3", server_name="Model.test")
    check_equal(got["error"], None, "TLS")
    check_equal(scene.victim.request(got["id"])["error"], None, "a request under TLS")
    check_equal(scene.victim.get("10.77.1.2", PLAIN)["error"], None, "a request to another machine")
    check_equal(scene.victim.connects("127.0.10.1", SILENT, 1)[0], "ECONNREFUSED", "a port that nobody serves")
    check_equal(scene.neighbour.get("10.77.1.2", OTHER)["error"], None, "the neighbour")


@alone
def names_and_addresses():
    found = discover(talk, "--cgroup", VICTIM)
    check_equal(sorted(found), [("10.77.1.2", PLAIN), ("model.test", TLS), ("vectors.test", PLAIN),
                                ("vectors.test", SILENT)], "what the victim talked to")
    vectors, model = found["vectors.test", PLAIN], found["model.test", TLS]
    check_equal((vectors["named"], sorted(vectors["addresses"])), ("dns", ["127.0.10.1", "127.0.10.2"]), "by DNS")
    check_equal((vectors["requests"], vectors["connections"], vectors["failed"]), (4, 4, 0), "two addresses are one")
    check_equal((model["named"], model["requests"]), ("tls", 1), "by TLS")
    check_equal(found["10.77.1.2", PLAIN]["named"], "address", "without a name")
    check_equal((found["vectors.test", SILENT]["not_made"], found["vectors.test", SILENT]["requests"]), (1, 0),
                "a connection that could not be had")
    check(all(one["p50_ms"] is not None and one["p50_ms"] > 0 for one in found.values() if one["requests"]), "times")


@alone
def of_everybody():
    found = discover(talk)
    check(("10.77.1.2", OTHER) in found and ("vectors.test", PLAIN) in found, f"of everybody: {sorted(found)}")


@alone
def words():
    check_equal(chaos.chaos("deps").code, 2, "without a word")
    result = chaos.chaos("deps", "discover", "--cgroup", "no/such")
    check_equal(result.code, 2, f"a cgroup that is not there: {result}")
    result = chaos.chaos("deps", "discover", "--cgroup", VICTIM, "--for", "1s")
    check_equal((result.code, result.out), (0, "it has talked to nobody\n"), f"silence: {result}")


main(setup, teardown)
