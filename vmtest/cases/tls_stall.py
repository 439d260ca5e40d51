#!/usr/bin/python3
# timeout: 90
"""tls-stall: TCP connects, the handshake never finishes; clear text and connections that are up are left alone."""
import chaos
from case import alone, check_equal, expect, main, part
from scene import PLACES, VICTIM, Scene

SERVER = "case/server"
TLS, CLEAR, SERVED, LATER = 7650, 7651, 7652, 7653
HOSTS = [host for _, family, host, _ in PLACES if family != "mapped"]

scene = None
up, idle = {}, {}


def setup():
    global scene
    scene = Scene()
    for port in (TLS, SERVED, LATER):
        scene.listen(port, "tls")
    scene.listen(CLEAR)
    for host in HOSTS:
        up[host] = scene.victim.open(host, TLS, tls="1.3")["id"]
        check_equal(scene.victim.request(up[host])["error"], None, f"{host}: before the load")
        idle[host] = scene.victim.open(host, CLEAR)["id"]


def rules():
    return [chaos.rule("stall", {"cgroup": VICTIM, "ports": [TLS, CLEAR]}, {"tls_stall": True}),
            chaos.rule("served", {"cgroup": SERVER, "ports": [SERVED], "side": "server"}, {"tls_stall": True})]


@part
def handshakes():
    for host in HOSTS:
        for version in ("1.2", "1.3"):
            met = scene.victim.open(host, TLS, tls=version, timeout=0.7)
            check_equal((met["error"], met["connect_error"]), ("timeout", "EINPROGRESS"), f"{host}: TLS {version}")
            check_equal(scene.neighbour.open(host, TLS, tls=version)["error"], None, f"{host}: the neighbour's {version}")
            expect("stall", 1, event={"fault": "tls-stall", "comm": "victim", "side": "client"})


@part
def what_is_up_goes_on():
    for host in HOSTS:
        for _ in range(3):
            check_equal(scene.victim.request(up[host])["error"], None, f"{host}: a request inside TLS")


@part
def clear_text_goes_on():
    for host in HOSTS:
        check_equal(scene.victim.request(idle[host])["error"], None, f"{host}: on an older connection")
        check_equal(scene.victim.get(host, CLEAR)["error"], None, f"{host}: on a new one")


@part
def at_the_server():
    for host in HOSTS:
        for client in (scene.victim, scene.neighbour):
            check_equal(client.open(host, SERVED, tls="1.3", timeout=0.5)["error"], "timeout", f"{host}: the handshake")
            expect("served", 1, event={"side": "server"})


@alone
def afterwards_it_goes_on():
    """A handshake that hangs when the rule ends is finished by TCP's next try."""
    chaos.load(chaos.rule("stall", {"cgroup": VICTIM, "ports": [LATER]}, {"tls_stall": True}, duration="2s"))
    for host in HOSTS:
        met = scene.victim.open(host, LATER, tls="1.3", timeout=20)
        check_equal(met["error"], None, f"{host}: the handshake")


main(setup, lambda: scene and scene.close(), rules)
