#!/usr/bin/python3
# timeout: 180
"""Questions for names: answered in the kernel or lost, for the victim only, over UDP and TCP, on loopback and veth."""
import os
import shutil
import tempfile

import chaos
import place
from case import check, check_equal, expect, main, only_in_a_guest, part, skip
from nameserver import NameServer
from peers import Client
from scene import VICTIM, Scene
from worker import Worker

DOCKER, MOVED = "127.0.0.11", 35353
NEAR, FAR, FAR6 = "127.0.0.53", "10.77.1.2", "fd77:1::2"
RCODES = {"nxdomain": 3, "servfail": 2, "empty": 0}
ADDRESSES = {"nxdomain": "127.0.9.1", "servfail": "127.0.9.2", "empty": "127.0.9.3", "timeout": "127.0.9.4",
             "third": "127.0.9.5", "other": "127.0.9.6", "asked": "127.0.9.7"}

scene = None
servers = {}


def setup():
    global scene
    scene = Scene(network=1)
    near = Worker(NameServer, cgroup="case/server", comm="names")
    far = Worker(NameServer, netns="ns1", cgroup="case/server", comm="names")
    near.listen(NEAR)
    near.listen(DOCKER, MOVED)
    near.listen("127.0.0.1", MOVED)
    far.listen(FAR)
    far.listen(FAR6)
    servers.update({NEAR: near, FAR: far, FAR6: far})
    for server in (near, far):
        for word, address in ADDRESSES.items():
            server.tell(f"api.{word}.test", [address, "::1"], chain=[f"cdn.{word}.test"])


def rules():
    def rule(name, hosts, fault, **keys):
        return chaos.rule(name, {"hosts": hosts, "cgroup": VICTIM}, fault, **keys)

    asked = chaos.rule("asked", {"hosts": ["*.asked.test"], "cgroup": VICTIM, "resolver": True}, {"dns": "nxdomain"})
    return [asked] + [rule(word, [f"*.{word}.test"], {"dns": word}) for word in (*RCODES, "timeout")] + \
           [rule("third", ["*.third.test"], {"dns": "nxdomain"}, percent=30, seed=7),
            chaos.rule("connections", {"hosts": ["*.empty.test"], "cgroup": VICTIM, "ports": [7999], "protocol": "tcp"},
                       {"refuse": "unreachable"})]


@part
def answers():
    """The rcode, no address, a message that holds together; the server never hears of it over UDP."""
    for where, server in servers.items():
        for tcp in (False, True):
            for word, rcode in RCODES.items():
                what = f"{word} from {where}, {'TCP' if tcp else 'UDP'}"
                name = f"API.{word}.test"
                server.take_asked()
                got = scene.victim.ask_name(where, name, tcp=tcp)
                check_equal((got["error"], got.get("rcode"), got.get("addresses")), (None, rcode, []), what)
                check_equal(server.take_asked(), [name] if tcp else [], f"{what}: what the server heard")
                expect(word, 1, event={"pid": scene.victim.pid, "peer_port": 53, "answer": word})
                got = scene.neighbour.ask_name(where, name, tcp=tcp)
                check_equal(got.get("addresses"), [ADDRESSES[word]], f"{what}: the neighbour")
                got = scene.victim.ask_name(where, "api.other.test", tcp=tcp)
                check_equal(got.get("addresses"), [ADDRESSES["other"]], f"{what}: another name")


@part
def the_length_alone():
    """Over TCP, a question whose length has a segment of its own, twice on one name server."""
    for where in servers:
        for word, rcode in RCODES.items():
            got = scene.victim.ask_name(where, f"api.{word}.test", tcp=True, length_alone=True)
            check_equal((got["error"], got.get("rcode"), got.get("addresses")), (None, rcode, []), f"{word} from {where}")
            expect(word, 1)
            got = scene.neighbour.ask_name(where, f"api.{word}.test", tcp=True, length_alone=True)
            check_equal(got.get("addresses"), [ADDRESSES[word]], f"{word} from {where}: the neighbour")


@part
def silence():
    for where, server in servers.items():
        server.take_asked()
        check_equal(scene.victim.ask_name(where, "api.timeout.test", timeout=0.5)["error"], "timeout", f"UDP, {where}")
        check_equal(server.take_asked(), [], f"{where}: what the server heard")
        check_equal(scene.neighbour.ask_name(where, "api.timeout.test")["error"], None, f"{where}: the neighbour")
        expect("timeout", 1)


@part
def some_of_them():
    """Each question is decided by itself."""
    lost = sum(scene.victim.ask_name(NEAR, "api.third.test")["rcode"] == 3 for _ in range(300))
    check(50 <= lost <= 130, f"{lost} of 300 questions, 30 % wanted")
    expect("third", lost, {"percent": 300 - lost})


@part
def by_the_resolver():
    """A resolver asks in the place of others: that counts where the rule says so, and for names of the rule only."""
    for comm in ("dnsmasq", "systemd-resolve"):
        resolver = Worker(Client, cgroup="case/server", comm=comm)
        check_equal(resolver.ask_name(NEAR, "api.asked.test")["rcode"], 3, comm)
        expect("asked", 1)
        check_equal(resolver.ask_name(NEAR, "api.other.test")["rcode"], 0, f"{comm}, another name")
        check_equal(resolver.ask_name(NEAR, "api.nxdomain.test")["rcode"], 0, f"{comm}, a rule without resolver")
    check_equal(scene.victim.ask_name(NEAR, "api.asked.test")["rcode"], 3, "the victim itself")
    expect("asked", 1)
    check_equal(scene.neighbour.ask_name(NEAR, "api.asked.test")["rcode"], 0, "the neighbour")


@part
def rules_for_connections_stand_beside():
    """A rule about questions takes no connection from the rule below it: its names still have addresses."""
    scene.neighbour.ask_name(NEAR, "api.empty.test")
    check_equal(scene.victim.connects(ADDRESSES["empty"], 7999, 1), ["ENETUNREACH"], "a connection to the address")
    expect("connections", 1)


def send_on(table):
    """As Docker does for 127.0.0.11, and as hosts that have a local resolver asked whatever the address."""
    if not shutil.which("nft"):
        skip("no nft here")
    rules = "".join(f"add rule ip {table} output ip daddr {DOCKER} {kind} dport 53 dnat to {DOCKER}:{MOVED}\n"
                    f"add rule ip {table} output ip daddr {FAR} {kind} dport 53 redirect to :{MOVED}\n"
                    for kind in ("udp", "tcp"))
    try:
        place.run("nft", "-f", "-", stdin=f"add table ip {table}\nadd chain ip {table} output "
                  f"{{ type nat hook output priority -100; }}\n{rules}")
    except RuntimeError as error:
        skip(f"no address translation here: {error}")


@part
def sent_on_by_netfilter():
    """The name server's port is another one on the wire: the answer comes from where it was asked for all the same."""
    send_on("chaostest")
    try:
        for where in (DOCKER, FAR):
            for how in ({}, {"tcp": True}) + (({"connected": False},) if where == DOCKER else ()):
                servers[NEAR].take_asked()
                for word, rcode in RCODES.items():
                    what = f"{word} from {where}, {how}"
                    got = scene.victim.ask_name(where, f"api.{word}.test", **how)
                    check_equal((got["error"], got.get("rcode"), got.get("addresses")), (None, rcode, []), what)
                    expect(word, 1, event={"pid": scene.victim.pid, "peer_port": 53, "answer": word})
                check_equal(len(servers[NEAR].take_asked()), 3, f"{where}, {how}: what the server heard")
                for worker, name in ((scene.neighbour, "api.empty.test"), (scene.victim, "api.other.test")):
                    got = worker.ask_name(where, name, **how)
                    check_equal(got.get("addresses"), [ADDRESSES[name.split(".")[1]]], f"{name} from {where}, {how}")
    finally:
        place.run("nft", "delete", "table", "ip", "chaostest")


@part
def by_getaddrinfo():
    """What the C library makes of it, which asks for IPv4 and IPv6 at once on one socket."""
    only_in_a_guest("changes /etc/resolv.conf")
    send_on("chaostest")
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        os.chmod(conf.name, 0o644)
        open("/etc/resolv.conf", "a").close()
        place.run("mount", "--bind", conf.name, "/etc/resolv.conf")
        try:
            for where in (NEAR, DOCKER):
                conf.seek(0)
                conf.write(f"nameserver {where}\noptions timeout:1 attempts:1\n")
                conf.truncate()
                conf.flush()
                for word, met in (("nxdomain", "EAI_NONAME"), ("servfail", "EAI_AGAIN"), ("empty", "EAI_NODATA"),
                                  ("timeout", "EAI_AGAIN")):
                    check_equal(scene.victim.resolve(f"api.{word}.test"), met, f"{word} from {where}")
                    expect(word, 2)
                    check_equal(sorted(scene.neighbour.resolve(f"api.{word}.test")), sorted([ADDRESSES[word], "::1"]),
                                f"{word} from {where}: the neighbour")
                check_equal(sorted(scene.victim.resolve("api.other.test")), sorted([ADDRESSES["other"], "::1"]), where)
        finally:
            place.run("umount", "/etc/resolv.conf")
            place.run("nft", "delete", "table", "ip", "chaostest")


main(setup, lambda: scene and scene.close(), rules)
