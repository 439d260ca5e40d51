#!/usr/bin/python3
# timeout: 90
"""UDP: connected and not, with IP_RECVERR; lost like on the wire, refused with an errno, late once for each request."""
import chaos
from case import KERNEL, alone, check, check_equal, check_took, expect, main, part, skip
from scene import VICTIM, Scene

HOSTS = ["127.0.0.1", "::1", "10.77.1.2", "fd77:1::2"]
DELAY_MS = 400
ERRORS = {"denied": "EPERM", "refused": "ECONNREFUSED", "timeout": "ETIMEDOUT", "unreachable": "ENETUNREACH"}
WORDS = list(ERRORS) if KERNEL >= (5, 18) else ["denied"]
LOST, UNHEARD, SLOW, ONE, MUTE, FREE, REFUSED = 7300, 7301, 7302, 7303, 7304, 7305, 7306

scene = None


def setup():
    global scene
    scene = Scene()
    for port in range(LOST, REFUSED + len(WORDS)):
        scene.listen(port, "udp")


def rules():
    def rule(name, port, fault, more=None, **keys):
        return chaos.rule(name, {"cgroup": VICTIM, "ports": [port], "protocol": "udp", **(more or {})}, fault, **keys)

    return [
        rule("lost", LOST, {"drop": True}),
        rule("unheard", UNHEARD, {"drop": True}, {"direction": "response"}),
        rule("slow", SLOW, {"delay": f"{DELAY_MS}ms"}),
        rule("one", ONE, {"drop": True}, {"hosts": ["127.0.0.1"]}, per="packet"),
        rule("mute", MUTE, {"drop": True}, {"cgroup": "case/server", "side": "server", "direction": "response"},
             per="packet"),
    ] + [rule(word, REFUSED + i, {"refuse": word}) for i, word in enumerate(WORDS)]


def heard(port):
    return sum(server.count("datagrams", port) for server in scene.servers())


def sockets(client, port):
    """(number, where to send) connected and not, each with and without IP_RECVERR, for every host."""
    found = []
    for host in HOSTS:
        for errors in (False, True):
            found.append((client.udp_open(host, port, receive_errors=errors)["id"], None))
            found.append((client.udp_open(host, connect=False, receive_errors=errors)["id"], [host, port]))
    return found


@part
def drop():
    """Sending never fails, nothing arrives, no error is queued."""
    for name, port, arrives in (("lost", LOST, 0), ("unheard", UNHEARD, 1)):
        before = heard(port)
        mine = sockets(scene.victim, port)
        for number, to in mine:
            met = scene.victim.udp_ask(number, "x 1", to, timeout=0.1)
            check_equal((met["sent"], met["error"]), (True, "timeout"), f"port {port}, to {to}")
        for number, to in mine:
            check_equal(scene.victim.error_queue(number), [], f"port {port}, to {to}: error queue")
        check_equal(heard(port) - before, arrives * len(mine), f"port {port}: datagrams that the server saw")
        expect(name, len(mine), event={"protocol": "udp", "peer_port": port})
    for number, to in sockets(scene.neighbour, LOST)[::3]:
        check_equal(scene.neighbour.udp_ask(number, "x 1", to)["error"], None, "the neighbour")
    scene.victim.close_all()


@part
def refuse():
    """connect() and sendto() with an address."""
    for i, word in enumerate(WORDS):
        before = heard(REFUSED + i)
        for host in HOSTS + ["::ffff:127.0.0.1"]:
            check_equal(scene.victim.udp_open(host, REFUSED + i)["error"], ERRORS[word], f"{word}: connect to {host}")
            number = scene.victim.udp_open(host, connect=False)["id"]
            met = scene.victim.udp_ask(number, "x 1", [host, REFUSED + i])
            check_equal((met["sent"], met["error"]), (False, ERRORS[word]), f"{word}: sendto {host}")
            number = scene.neighbour.udp_open(host, REFUSED + i)["id"]
            check_equal(scene.neighbour.udp_ask(number, "y 1")["error"], None, f"{word}: the neighbour to {host}")
        check_equal(heard(REFUSED + i) - before, len(HOSTS) + 1, f"{word}: datagrams that the server saw")
        expect(word, 2 * (len(HOSTS) + 1), event={"error": ERRORS[word]})
    scene.victim.close_all()


@part
def delay():
    """Once for each request, whether the socket is connected or not."""
    for host in HOSTS:
        for connect in (True, False):
            number = scene.victim.udp_open(host, SLOW if connect else 0, connect=connect)["id"]
            to = None if connect else [host, SLOW]
            for turn in ("first", "second"):
                met = scene.victim.udp_ask(number, f"x {turn}", to, timeout=10)
                check_equal(met["error"], None, f"{host}, {turn}, connected {connect}")
                check_took(met["ms"], DELAY_MS, f"{host}, {turn}, connected {connect}")
                expect("slow", 1)
    number = scene.neighbour.udp_open("127.0.0.1", SLOW)["id"]
    check_equal(scene.neighbour.udp_ask(number, "y 1")["error"], None, "the neighbour")


@part
def one_socket_many_peers():
    """A socket that is not connected: only what goes to the named peer is hit, in turns."""
    number = scene.victim.udp_open("127.0.0.1", connect=False)["id"]
    for turn in range(5):
        met = scene.victim.udp_ask(number, f"x {turn}", ["127.0.0.1", ONE], timeout=0.1)
        check_equal((met["sent"], met["error"]), (True, "timeout"), "to the named peer")
        for to in (["127.0.0.1", FREE], ["10.77.1.2", ONE]):
            check_equal(scene.victim.udp_ask(number, f"x {turn}", to)["error"], None, f"to {to}")
        expect("one", 1, event={"peer": "127.0.0.1", "peer_port": ONE})


@part
def server_side():
    """What a server sends back is lost; what it sends from another port is not."""
    before = heard(MUTE)
    for host in HOSTS:
        number = scene.victim.udp_open(host, MUTE)["id"]
        check_equal(scene.victim.udp_ask(number, "x 1", timeout=0.1)["error"], "timeout", f"{host}: the reply")
        number = scene.victim.udp_open(host, FREE)["id"]
        check_equal(scene.victim.udp_ask(number, "x 1")["error"], None, f"{host}: the reply on another port")
    check_equal(heard(MUTE) - before, len(HOSTS), "datagrams that the server saw")
    expect("mute", len(HOSTS), event={"side": "server"})


@alone
def refuse_that_cannot_be_had():
    """Where the kernel cannot, nothing is loaded and the reason is told."""
    if KERNEL >= (5, 18):
        skip("this kernel can")
    rule = chaos.rule("refused", {"cgroup": VICTIM, "ports": [REFUSED], "protocol": "udp"}, {"refuse": "refused"})
    result = chaos.load(rule, expect=3)
    check("error" in result, f"no reason: {result}")
    check_equal(chaos.status().all["rules"], [], "rules that are loaded")


main(setup, lambda: scene and scene.close(), rules)
