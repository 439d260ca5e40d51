#!/usr/bin/python3
# timeout: 240
"""Calls of gRPC in clear that end otherwise than the server says: real clients and a real server, in processes of their own."""
import collections
import json
import subprocess
import sys
import time

import chaos
import place
from case import alone, check, check_counters, check_equal, expect, main, part, skip
from scene import NEIGHBOUR, VICTIM

STATUSES = {"unavailable": "UNAVAILABLE", "resource-exhausted": "RESOURCE_EXHAUSTED", "cancelled": "CANCELLED",
            "internal": "INTERNAL", "permission-denied": "PERMISSION_DENIED"}
PORTS = {name: 8300 + i for i, name in enumerate([*STATUSES, "share", "open", "clear"])}

# "many COUNT SIZE" and "stream COUNT": what so many calls met, in order: OK and the bytes that came, or the status.
CLIENT = """
import json, sys, grpc
channel = grpc.insecure_channel(sys.argv[1])
def met(call):
    try:
        return ["OK", call()]
    except grpc.RpcError as error:
        return [error.code().name, 0]
print("ready", flush=True)
for line in sys.stdin:
    what, count, size = line.split()
    method = "/t/Many" if what == "many" else "/t/Stream"
    call = (channel.unary_unary if what == "many" else channel.unary_stream)(method)
    asked = b"x" * int(size)
    def one():
        answer = call(asked, timeout=60)
        return len(answer) if what == "many" else sum(len(part) for part in answer)
    print(json.dumps([met(one) for _ in range(int(count))]), flush=True)
"""
SERVER = """
import sys, grpc
from concurrent import futures
class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/t/Many":
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request)
        return grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request] * 5))
server = grpc.server(futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((Handler(),))
for address in sys.argv[1:]:
    server.add_insecure_port(address)
server.start()
print("ready", flush=True)
server.wait_for_termination()
"""

CGROUPS = ("case/server", VICTIM, NEIGHBOUR)

server = None
clients = []


class Process:
    """A program that says "ready", in a cgroup, and ends with the case."""

    def __init__(self, cgroup, program, *words):
        def prepare():
            place.settle(cgroup=cgroup)
            place.die_with_parent()
        self.child = subprocess.Popen([sys.executable, "-c", program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, bufsize=1, preexec_fn=prepare)
        self.cgroup = cgroup
        check_equal(self.child.stdout.readline().strip(), "ready", f"in {cgroup}")

    def ask(self, what, count, size):
        self.child.stdin.write(f"{what} {count} {size}\n")
        return [tuple(met) for met in json.loads(self.child.stdout.readline())]

    def end(self):
        self.child.kill()
        self.child.wait()


def client(cgroup, name, family=4):
    clients.append(Process(cgroup, CLIENT, f"127.0.0.1:{PORTS[name]}" if family == 4 else f"[::1]:{PORTS[name]}"))
    return clients[-1]


def setup():
    global server
    try:
        import grpc  # noqa: F401 # pylint: disable=unused-import,import-outside-toplevel
    except ImportError as problem:
        skip(f"no gRPC for Python here: {problem}")
    for cgroup in CGROUPS:
        place.make_cgroup(cgroup)
    server = Process("case/server", SERVER, *[f"{host}:{port}" for host in ("127.0.0.1", "[::1]") for port in PORTS.values()])


def teardown():
    for one in [*clients, *([server] if server else [])]:
        one.end()
    place.remove_cgroup("case")


def rules():
    return [chaos.rule(name, {"cgroup": VICTIM, "ports": [PORTS[name]]}, {"grpc": name}) for name in STATUSES] + \
           [chaos.rule("share", {"cgroup": VICTIM, "ports": [PORTS["share"]]}, {"grpc": "unavailable"}, percent=30, seed=9)]


@part
def each_status():
    """Of single answers and of streams; small and large ones; and what the clients beside it get is the server's."""
    for name, status in STATUSES.items():
        for family in (4, 6) if name == "unavailable" else (4,):
            victim, neighbour = client(VICTIM, name, family), client(NEIGHBOUR, name, family)
            for what, count, size in (("many", 5, 100), ("stream", 3, 50), ("many", 3, 70000), ("many", 2, 8)):
                check_equal(victim.ask(what, count, size), [(status, 0)] * count, f"{name}: {what} of {size}")
                sums = size * (1 if what == "many" else 5)
                check_equal(neighbour.ask(what, count, size), [("OK", sums)] * count, f"{name}: the neighbour")
                expect(name, count, event={"fault": "grpc", "grpc": name, "side": "client"})
            check_equal(victim.ask("many", 2, 7), [("OK", 7)] * 2, f"{name}: too short")
            expect(name, 0, {"no-room": 2})


@part
def a_share_of_them():
    """On one channel: those of which events tell by number, and the others are the server's."""
    met = client(VICTIM, "share").ask("many", 400, 200)
    numbers = {i for i, (status, _) in enumerate(met, 1) if status == "UNAVAILABLE"}
    check_equal(collections.Counter(status for status, _ in met).keys(), {"OK", "UNAVAILABLE"}, "what they met")
    check(80 < len(numbers) < 160, f"{len(numbers)} of 400 at 30 %")
    told = [event["request"] for event in chaos.events() if event["rule"] == "share"]
    check_equal(sorted(told), sorted(numbers), "what events tell of")
    expect("share", len(numbers), {"percent": 400 - len(numbers)})
    check_counters()


@alone
def a_channel_that_is_open():
    """It is older than the rule, and lives on behind it."""
    victim = client(VICTIM, "open")
    check_equal(victim.ask("many", 3, 100), [("OK", 100)] * 3, "before the load")
    chaos.load(chaos.rule("open", {"cgroup": VICTIM, "ports": [PORTS["open"]]}, {"grpc": "unavailable"}))
    met = victim.ask("many", 6, 100)
    check(met[1:] == [("UNAVAILABLE", 0)] * 5, f"from the second call on at the latest: {met}")
    expect("open", [status for status, _ in met].count("UNAVAILABLE"))
    check_counters()
    chaos.stop()
    check_equal(victim.ask("many", 3, 100), [("OK", 100)] * 3, "afterwards")


@alone
def over_a_line_that_loses_and_reorders():
    """What is sent again is changed again. A call may hang for a while, and is never torn."""
    victim = client(VICTIM, "clear")
    try:
        with place.poor_line(None, "lo"):
            chaos.load(chaos.rule("clear", {"cgroup": VICTIM, "ports": [PORTS["clear"]]}, {"grpc": "unavailable"}, percent=50))
            met = collections.Counter(status for status, _ in victim.ask("many", 60, 3000))
    except place.NoNetem as problem:
        skip(f"no netem: {problem}")
    check(set(met) == {"OK", "UNAVAILABLE"}, f"what they met: {met}")
    time.sleep(0.1)
    status = chaos.status()["clear"]
    check_equal(status["injected"], met["UNAVAILABLE"], f"of {met}")
    expect("clear", met["UNAVAILABLE"], {"percent": met["OK"]})
    check_counters()


main(setup, teardown, rules)
