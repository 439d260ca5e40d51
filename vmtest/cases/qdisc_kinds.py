#!/usr/bin/python3
# timeout: 180
"""Queues that somebody configured come back with every parameter; those that could not are refused and not touched."""
import chaos
import kernel
import place
from case import alone, check, check_equal, main, part, skip
from scene import VICTIM, Scene

PORT = 8500

# What follows `tc qdisc add dev X root`. None: the kernel's own choice.
KINDS = [
    None,
    "handle 1: pfifo limit 77",
    "handle 1: bfifo limit 54321",
    "handle 1: pfifo_fast",
    "handle 1: noqueue",
    "fq limit 777 flow_limit 33 maxrate 5mbit horizon 3s horizon_cap",
    "fq_codel limit 777 flows 64 target 1234us interval 98765us noecn",
    "codel limit 99 target 3ms interval 33ms ecn",
    "cake bandwidth 10mbit rtt 33ms diffserv8",
    "sfq perturb 10 quantum 1600 limit 100",
    "tbf rate 333kbit burst 1514 latency 50ms",
    "tbf rate 20gbit burst 64kb limit 900000",
    "netem delay 33ms loss 3% limit 500",
]
REFUSED = "prio"  # not htb: its dump has a counter of packets among the options

devices = []


def add_device(number, queues, queue):
    """False when this kernel has no such queue."""
    name = f"q{number}"
    place.run("ip", "-batch", "-", stdin=f"""link add {name} numtxqueues {queues} type ifb
addr add 10.99.{number}.1/24 dev {name}
link set {name} up
""")
    try:
        if queue:
            place.run("tc", "qdisc", "add", "dev", name, "root", *queue.split())
    except RuntimeError as error:
        print(f"left out: {queue}: {error}")
        place.run("ip", "link", "delete", name)
        return False
    devices.append(name)
    return True


def setup():
    place.make_cgroup(VICTIM)
    Scene.client(cgroup=VICTIM, comm="victim")  # without a process to be hit no device is prepared
    try:
        add_device(0, 4, None)  # an mq with four queues below it
    except RuntimeError as error:
        skip(f"no ifb: {error}")
    for number, queue in enumerate(KINDS, 1):
        add_device(number, 1, queue)


def teardown():
    for name in devices:
        place.run("ip", "link", "delete", name, check=False)
    place.remove_cgroup("case")


def rules():
    return [chaos.rule("slow", {"cgroup": VICTIM, "ports": [PORT]}, {"delay": "100ms"})]


@part
def replaced():
    """What the load put there instead; leftovers.py compares what there is after stop, options included."""
    lines = kernel.network_state()
    check(any(line.startswith("host: q0 queue mq handle c4a00000") for line in lines), "no mq of ours on q0")
    check_equal(sum(line.startswith("host: q0 queue fq handle c4a") for line in lines), 4, "queues below q0's mq")
    for name in devices[1:]:
        check(any(line.startswith(f"host: {name} queue fq handle c4a00000") for line in lines), f"no fq on {name}")


@alone
def refused():
    if not add_device(50, 1, REFUSED):
        skip("no " + REFUSED)
    name = devices.pop()
    before = set(kernel.network_state())
    result = chaos.chaos("load", "-", "--json", text=chaos.rules_text(*rules()))
    check_equal(result.code, 3, f"exit code with {REFUSED}")
    check(name in result.out + result.err, f"the device is not named: {result}")
    check_equal(set(kernel.network_state()) ^ before, set(), f"what changed though {name} was refused")
    place.run("ip", "link", "delete", name)


main(setup, teardown, rules)
