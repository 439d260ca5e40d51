#!/usr/bin/python3
# timeout: 240
"""Hosts by name: what DNS teaches, what /etc/hosts said at load, and the name in a TLS ClientHello."""
import os
import tempfile

import chaos
import hello
import place
from case import alone, check_counters, check_equal, expect, main, only_in_a_guest, part
from nameserver import NameServer
from scene import VICTIM, Scene
from worker import Worker

SERVER = "127.0.0.53"
LEARN, SHARED, TLS, PLAIN, RAW, QUIET = 7301, 7302, 7303, 7304, 7305, 7306
HIT = "ENETUNREACH"

scene = names = None


def setup():
    global scene, names
    scene = Scene(network=0)
    names = Worker(NameServer, cgroup="case/server", comm="names")
    names.listen(SERVER)
    for host in ("127.0.9.1", "127.0.9.2", "127.0.9.3", "127.0.9.4", "127.0.9.5", "127.0.9.6", "127.0.9.8"):
        for port in (LEARN, SHARED, PLAIN):
            scene.near.listen(host, port)
    scene.near.listen("::1", LEARN)
    scene.near.listen("127.0.9.7", TLS, "tls")
    scene.near.listen("127.0.9.7", RAW, "echo")
    scene.near.listen("127.0.9.7", QUIET, "echo")
    names.tell("a.learn.test", ["127.0.9.1", "::1"])
    names.tell("deep.er.learn.test", ["127.0.9.2"], chain=["x.cdn.test", "y.cdn.test"])
    names.tell("plain.learn.test", ["127.0.9.3"], compress=False)
    names.tell("tcp.learn.test", ["127.0.9.4"])
    names.tell("alone.learn.test", ["127.0.9.8"], length_alone=True)
    names.tell("learn.test", ["127.0.9.5"])
    names.tell("notlearn.test", ["127.0.9.5"])
    names.tell("one.shared.test", ["127.0.9.6"])
    names.tell("other.test", ["127.0.9.6"])
    names.tell("behind.tls.test", ["127.0.9.7"])
    names.tell("front.test", ["127.0.9.7"])


def by_name(name, hosts, port, fault, **keys):
    return chaos.rule(name, {"hosts": hosts, "ports": [port], "cgroup": VICTIM, "protocol": "tcp"}, fault, **keys)


def rules():
    return [by_name("learn", ["*.learn.test"], LEARN, {"refuse": "unreachable"}),
            by_name("shared", ["*.shared.test"], SHARED, {"refuse": "unreachable"}),
            by_name("tls", ["*.wide.test", "*.tls.test"], TLS, {"reset": True}),
            by_name("raw", ["*.wide.test", "*.tls.test"], RAW, {"reset": True}),
            by_name("quiet", ["*.tls.test"], QUIET, {"tls-stall": True}),
            by_name("mixed", ["*.nobody.test", "127.0.9.1"], PLAIN, {"refuse": "unreachable"})]


def connect(worker, host, port):
    return worker.connects(host, port, 1)[0]


@part
def answers_teach():
    """A wildcard has no address before somebody asks; UDP, TCP, IPv6, chains, with and without compression."""
    for host, name, kind, tcp in (("127.0.9.1", "A.Learn.test", "A", False), ("::1", "a.learn.test", "AAAA", False),
                                  ("127.0.9.2", "deep.er.learn.test", "A", False),
                                  ("127.0.9.3", "plain.learn.test", "A", False),
                                  ("127.0.9.4", "tcp.learn.test", "A", True),
                                  ("127.0.9.8", "alone.learn.test", "A", True)):
        check_equal(connect(scene.victim, host, LEARN), None, f"{name}: before it was asked for")
        answer = scene.victim.ask_name(SERVER, name, kind, tcp)
        check_equal(answer.get("addresses"), [host], f"{name}: the answer")
        check_equal(connect(scene.victim, host, LEARN), HIT, f"{name}: after the answer")
        check_equal(connect(scene.neighbour, host, LEARN), None, f"{name}: the neighbour")
        expect("learn", 1)


@part
def status_tells():
    """What each name stands for at present."""
    stands = {one["name"]: one["addresses"] for one in chaos.status().all["names"]}
    check_equal(sorted(stands), ["*.learn.test", "*.nobody.test", "*.shared.test", "*.tls.test", "*.wide.test"], "names")
    check_equal(sorted(stands["*.learn.test"]), ["127.0.9.1", "127.0.9.2", "127.0.9.3", "127.0.9.4", "127.0.9.8", "::1"],
                "what *.learn.test stands for")


@part
def only_below():
    """`*.learn.test` is neither learn.test itself nor notlearn.test."""
    for name in ("learn.test", "notlearn.test"):
        check_equal(scene.victim.ask_name(SERVER, name)["addresses"], ["127.0.9.5"], f"{name}: the answer")
        check_equal(connect(scene.victim, "127.0.9.5", LEARN), None, name)


@part
def whoever_asked():
    """What somebody else asked for counts as well: a resolver is a process of its own."""
    scene.neighbour.ask_name(SERVER, "one.shared.test")
    check_equal(connect(scene.victim, "127.0.9.6", SHARED), HIT, "the victim, which did not ask itself")
    expect("shared", 1)


@part
def the_name_asked_for_last():
    """Two names of one address: the one that this process asked for last is meant."""
    for name, met in (("one.shared.test", HIT), ("other.test", None), ("one.shared.test", HIT)):
        scene.victim.ask_name(SERVER, name)
        check_equal(connect(scene.victim, "127.0.9.6", SHARED), met, name)
        if met:
            expect("shared", 1)


@part
def client_hello():
    """One address, several hosts: the name that TLS asks for decides, whatever DNS said."""
    for version in ("1.2", "1.3"):
        for name, met in (("api.tls.test", "ECONNRESET"), ("A.B.wide.test", "ECONNRESET"), ("other.test", None),
                          ("tls.test", None), (None, None)):
            got = scene.victim.open("127.0.9.7", TLS, tls=version, server_name=name)
            check_equal(got["error"], met, f"TLS {version}, {name}: the victim")
            if met:
                expect("tls", 1)
            else:
                check_equal(scene.victim.request(got["id"])["error"], None, f"TLS {version}, {name}: a request")
        check_equal(scene.neighbour.open("127.0.9.7", TLS, tls=version, server_name="api.tls.test")["error"], None,
                    f"TLS {version}: the neighbour")


def pieces(data, *cuts):
    """As hexadecimal digits, cut at these places."""
    ends = list(cuts) + [len(data)]
    return [data[start:end].hex() for start, end in zip([0] + ends, ends)]


def say(worker, port, parts):
    opened = worker.open("127.0.9.7", port)
    met = worker.send_pieces(opened["id"], parts, timeout=2)
    worker.close(opened["id"])
    return met


SHAPES = {"small": {}, "a large key share": {"large": True}, "the name behind a large key share": {"large": True, "last": True}}
CUTS = {"whole": (), "in the middle": (100,), "in the record's head": (3,), "three pieces": (80, 1000), "before its end": (-1,)}


@part
def hello_in_pieces():
    """Whatever the order of the extensions, and however the segments fall."""
    for shape, options in SHAPES.items():
        for name, met in (("api.tls.test", "ECONNRESET"), ("other.test", None)):
            for where, cuts in CUTS.items():
                data = hello.client_hello(name, **options)
                parts = pieces(data, *[cut % len(data) for cut in cuts if cut < len(data)])
                check_equal(say(scene.victim, RAW, parts), met, f"{shape}, {where}, {name}")
                check_equal(say(scene.neighbour, RAW, parts), None, f"{shape}, {where}, {name}: the neighbour")
                if met:
                    expect("raw", 1)


RECORDS = {"two": (200,), "one of one byte": (1,), "three small ones": (2, 3, 4), "twenty": (10,) * 19, "four": (60, 80, 20)}


@part
def hello_in_records():
    """A ClientHello may lie in any number of TLS records, and those in any segments."""
    for records, sizes in RECORDS.items():
        for name, met in (("api.tls.test", "ECONNRESET"), ("other.test", None)):
            for where, cuts in CUTS.items():
                data = hello.in_records(hello.client_hello(name, large=True, last=True), *sizes)
                parts = pieces(data, *[cut % len(data) for cut in cuts])
                check_equal(say(scene.victim, RAW, parts), met, f"{records} records, {where}, {name}")
                if met:
                    expect("raw", 1)
    check_equal(say(scene.neighbour, RAW, pieces(data)), None, "the neighbour")
    met = say(scene.victim, QUIET, pieces(hello.in_records(hello.client_hello("api.tls.test"), 1)))
    check_equal(met, "timeout", "a handshake of two records, where the fault is about the handshake")
    expect("quiet", 1)


@part
def hello_in_too_many_records():
    """More of them than are read in one segment, and what is no handshake in between: no fault, and no harm."""
    scene.victim.ask_name(SERVER, "front.test")
    data = hello.client_hello("api.tls.test", large=True, last=True)
    check_equal(say(scene.victim, RAW, pieces(hello.in_records(data, *[5] * 100))), None, "a hundred records")
    check_equal(say(scene.victim, RAW, pieces(hello.in_records(data, 50)[:55] + b"\x17\x03\x01\0\5hello")), None, "data")


@part
def hello_in_pieces_stalls():
    """What ends a ClientHello is part of the handshake, where the fault is about the handshake."""
    for name, met in (("api.tls.test", "timeout"), ("other.test", None)):
        data = hello.client_hello(name, large=True, last=True)
        check_equal(say(scene.victim, QUIET, pieces(data, 600)), met, name)
        if met:
            expect("quiet", 1)


@part
def hidden_names():
    """The outer name of an encrypted ClientHello is not the host's: unless a rule names it, the address decides."""
    scene.victim.ask_name(SERVER, "behind.tls.test")
    for name, met in (("front.test", "ECONNRESET"), ("front.tls.test", "ECONNRESET")):
        for cuts in ((), (200,)):
            check_equal(say(scene.victim, RAW, pieces(hello.client_hello(name, encrypted=True), *cuts)), met, f"{name} {cuts}")
            expect("raw", 1)
    check_equal(say(scene.victim, RAW, pieces(hello.client_hello("front.test"))), None, "a name that hides nothing")


@part
def half_a_hello():
    """Half of it, and then nothing or something else: no fault, and no harm."""
    scene.victim.ask_name(SERVER, "front.test")
    data = hello.client_hello("api.tls.test", large=True, last=True)
    check_equal(say(scene.victim, RAW, [data[:500].hex()]), None, "half")
    check_equal(say(scene.victim, RAW, [b"\x16\x03".hex(), b"no hello at all".hex()]), None, "no hello")
    for _ in range(300):  # more than are remembered
        check_equal(say(scene.victim, RAW, [data[:500].hex()]), None, "one of many halves")
    check_equal(say(scene.victim, RAW, pieces(data, 500)), "ECONNRESET", "a whole one after many halves")
    expect("raw", 1)


@part
def names_and_addresses():
    """A rule with both: the address counts without any name."""
    check_equal(connect(scene.victim, "127.0.9.1", PLAIN), HIT, "the address")
    check_equal(connect(scene.victim, "127.0.9.2", PLAIN), None, "another address")
    expect("mixed", 1)


@alone
def after_a_replacement():
    """What a connection said under one load is not taken for a name of the next."""
    chaos.load(by_name("first", ["*.tls.test"], TLS, {"reset": True}, percent=0))
    opened = scene.victim.open("127.0.9.7", TLS, tls="1.3", server_name="api.tls.test")
    check_equal(scene.victim.request(opened["id"])["error"], None, "a request under the first load")
    chaos.load(by_name("second", ["*.wide.test"], TLS, {"reset": True}))
    check_equal(scene.victim.request(opened["id"])["error"], None, "a request under the second load")
    got = scene.victim.open("127.0.9.7", TLS, tls="1.3", server_name="a.wide.test")
    check_equal(got["error"], "ECONNRESET", "a connection to a host of the second load")


@alone
def without_an_address():
    """With --wait a name may have none yet: it is learned like any other, by whoever asks. A question needs none."""
    names.tell("service", ["127.0.9.2"])
    rule = by_name("later", ["service"], LEARN, {"refuse": "unreachable"})
    chaos.load(rule, expect=1)
    check_equal(chaos.status().all["rules"], [], "rules after a name that does not resolve")
    chaos.load(rule, options=("--wait",))
    check_equal(connect(scene.victim, "127.0.9.2", LEARN), None, "before anybody asked")
    scene.victim.ask_name(SERVER, "service")
    check_equal(connect(scene.victim, "127.0.9.2", LEARN), HIT, "after the answer")
    check_equal(connect(scene.neighbour, "127.0.9.2", LEARN), None, "the neighbour")
    expect("later", 1)
    check_counters()
    chaos.stop()
    chaos.load(chaos.rule("asked", {"hosts": ["service"], "cgroup": VICTIM}, {"dns": "nxdomain"}))
    check_equal(scene.victim.ask_name(SERVER, "service")["rcode"], 3, "a question")


@alone
def resolved_at_load():
    """/etc/hosts is asked when the rules are loaded; a name that it lacks is an error, and nothing is loaded."""
    only_in_a_guest("changes /etc/hosts")
    with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
        hosts.write("127.0.0.1 localhost\n127.0.9.2 fixed.test\n::1 fixed6.test\n")
        hosts.flush()
        os.chmod(hosts.name, 0o644)
        open("/etc/hosts", "a").close()
        place.run("mount", "--bind", hosts.name, "/etc/hosts")
        try:
            chaos.load(by_name("fixed", ["fixed.test", "fixed6.test"], LEARN, {"refuse": "unreachable"}))
            for host, met in (("127.0.9.2", HIT), ("::1", HIT), ("127.0.9.4", None)):
                check_equal(connect(scene.victim, host, LEARN), met, host)
            expect("fixed", 2)
            check_equal(chaos.status().all["names"], [{"name": "fixed.test", "addresses": ["127.0.9.2"]},
                                                    {"name": "fixed6.test", "addresses": ["::1"]}],
                        "names in status")
            check_counters()
            chaos.stop()
            chaos.load(by_name("lost", ["missing.fixed.test"], LEARN, {"refuse": "unreachable"}), expect=1)
            check_equal(chaos.status().all["rules"], [], "rules after a name that does not resolve")
        finally:
            place.run("umount", "/etc/hosts")


main(setup, lambda: scene and scene.close(), rules)
