#!/usr/bin/python3
# timeout: 90
"""UDP: connected and not, with IP_RECVERR; lost like on the wire, refused with an errno, late once for each request."""
import chaos
from case import KERNEL, check, check_equal, check_took, main, part, skip
from scene import VICTIM, Scene

HOSTS = ["127.0.0.1", "::1", "10.77.1.2", "fd77:1::2"]
DELAY_MS = 400
ERRORS = {"refused": "ECONNREFUSED", "timeout": "ETIMEDOUT", "unreachable": "ENETUNREACH", "denied": "EPERM"}

scene = None


def setup():
    global scene
    scene = Scene()
    for port in range(7300, 7310):
        scene.listen(port, "udp")


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


def books(**injected):
    state = chaos.status()
    for problem in chaos.problems_of(state) + chaos.event_problems(state, chaos.events()):
        check(False, problem)
    check_equal({one["name"]: (one["matched"], one["injected"]) for one in state.all["rules"]},
                {name: (n, n) for name, n in injected.items()}, "matched, injected")


@part
def drop():
    """Sending never fails, nothing arrives, no error is queued."""
    chaos.load(chaos.rule("request", {"cgroup": VICTIM, "ports": [7300], "protocol": "udp"}, {"drop": True}),
               chaos.rule("response", {"cgroup": VICTIM, "ports": [7301], "direction": "response", "protocol": "udp"},
                          {"drop": True}))
    for port, arrives in ((7300, 0), (7301, 1)):
        before = heard(port)
        mine = sockets(scene.victim, port)
        for number, to in mine:
            met = scene.victim.udp_ask(number, "x 1", to, timeout=0.1)
            check_equal((met["sent"], met["error"]), (True, "timeout"), f"port {port}, to {to}")
            check_equal(scene.victim.error_queue(number), [], f"port {port}, to {to}: error queue")
        check_equal(heard(port) - before, arrives * len(mine), f"port {port}: datagrams that the server saw")
    for number, to in sockets(scene.neighbour, 7300)[::3]:
        check_equal(scene.neighbour.udp_ask(number, "x 1", to)["error"], None, "the neighbour")
    books(request=len(mine), response=len(mine))
    scene.victim.close_all()
    scene.neighbour.close_all()


@part
def refuse():
    """connect() and sendto() with an address."""
    words = [word for word in ERRORS if KERNEL >= (5, 18) or word == "denied"]
    chaos.load(*[chaos.rule(word, {"cgroup": VICTIM, "ports": [7302 + i], "protocol": "udp"}, {"refuse": word})
                 for i, word in enumerate(words)])
    for i, word in enumerate(words):
        before = heard(7302 + i)
        for host in HOSTS + ["::ffff:127.0.0.1"]:
            check_equal(scene.victim.udp_open(host, 7302 + i)["error"], ERRORS[word], f"{word}: connect to {host}")
            number = scene.victim.udp_open(host, connect=False)["id"]
            met = scene.victim.udp_ask(number, "x 1", [host, 7302 + i])
            check_equal((met["sent"], met["error"]), (False, ERRORS[word]), f"{word}: sendto {host}")
            number = scene.neighbour.udp_open(host, 7302 + i)["id"]
            check_equal(scene.neighbour.udp_ask(number, "y 1")["error"], None, f"{word}: the neighbour to {host}")
        check_equal(heard(7302 + i) - before, len(HOSTS) + 1, f"{word}: datagrams that the server saw")
    books(**{word: 2 * (len(HOSTS) + 1) for word in words})
    scene.victim.close_all()


@part
def refuse_that_cannot_be_had():
    """Where the kernel cannot, nothing is loaded and the reason is told."""
    if KERNEL >= (5, 18):
        skip("this kernel can")
    rule = chaos.rule("refused", {"cgroup": VICTIM, "ports": [7302], "protocol": "udp"}, {"refuse": "refused"})
    result = chaos.load(rule, expect=3)
    check("error" in result, f"no reason: {result}")
    check_equal(chaos.status().all["rules"], [], "rules that are loaded")


@part
def delay():
    """Once for each request, whether the socket is connected or not."""
    chaos.load(chaos.rule("slow", {"cgroup": VICTIM, "ports": [7307], "protocol": "udp"}, {"delay": f"{DELAY_MS}ms"}))
    asked = 0
    for host in HOSTS:
        for connect in (True, False):
            number = scene.victim.udp_open(host, 7307 if connect else 0, connect=connect)["id"]
            to = None if connect else [host, 7307]
            for turn in ("first", "second"):
                met = scene.victim.udp_ask(number, f"x {turn}", to, timeout=10)
                check_equal(met["error"], None, f"{host}, {turn}, connected {connect}")
                check_took(met["ms"], DELAY_MS, f"{host}, {turn}, connected {connect}")
                asked += 1
    number = scene.neighbour.udp_open("127.0.0.1", 7307)["id"]
    check_equal(scene.neighbour.udp_ask(number, "y 1")["error"], None, "the neighbour")
    books(slow=asked)


@part
def one_socket_many_peers():
    """A socket that is not connected: only what goes to the named peer is hit, in turns."""
    chaos.load(chaos.rule("one", {"cgroup": VICTIM, "hosts": ["127.0.0.1"], "ports": [7308], "protocol": "udp"},
                          {"drop": True}, per="packet"))
    number = scene.victim.udp_open("127.0.0.1", connect=False)["id"]
    for turn in range(5):
        met = scene.victim.udp_ask(number, f"x {turn}", ["127.0.0.1", 7308], timeout=0.1)
        check_equal((met["sent"], met["error"]), (True, "timeout"), "to the named peer")
        for to in (["127.0.0.1", 7309], ["10.77.1.2", 7308]):
            check_equal(scene.victim.udp_ask(number, f"x {turn}", to)["error"], None, f"to {to}")
    books(one=5)


@part
def server_side():
    """What a server sends back; its other clients' port is another rule's."""
    chaos.load(chaos.rule("replies", {"cgroup": "case/server", "ports": [7308], "side": "server", "direction": "response",
                                      "protocol": "udp"}, {"drop": True}, per="packet"))
    before = heard(7308)
    for host in HOSTS:
        number = scene.victim.udp_open(host, 7308)["id"]
        check_equal(scene.victim.udp_ask(number, "x 1", timeout=0.1)["error"], "timeout", f"{host}: the reply")
        number = scene.victim.udp_open(host, 7309)["id"]
        check_equal(scene.victim.udp_ask(number, "x 1")["error"], None, f"{host}: the reply on another port")
    check_equal(heard(7308) - before, len(HOSTS), "datagrams that the server saw")
    books(replies=len(HOSTS))


main(setup, lambda: scene and scene.close())
