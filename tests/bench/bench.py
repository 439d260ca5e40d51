#!/usr/bin/env python3
"""Measure what chaosbpf costs those it does not hit, and how exact it is for those it does.

    bench.py [--tools DIR] [--scale F] [--where WORD] [--only PART...]   measure on this kernel
    bench.py --table FILE...      one table of several kernels, from what they printed

Needs root and nothing else loaded. $CHAOSBPF is the program; DIR has `traffic` and `empty.bpf.o`. Whatever is compared
is measured in turns, so that a busy machine hurts both; of each measurement the lower tenth of a thousand batches counts,
of the turns the best: what the machine does when nobody disturbs it. The table shows ratios: times of one machine say
little about another.
"""
import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHAOSBPF = os.environ.get("CHAOSBPF", os.path.join(HERE, "../../build/chaosbpf"))
SERVE = os.path.join(HERE, "../../tools/serve.py")
PINS = "/sys/fs/bpf/chaosbench"
SINGLE = {"median", "worst"}  # so many operations are timed, not so many ms
PORT = 27000  # of rules that are meant to hit; the others name 20000 and up


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(*command, check=True):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Bench:
    """The program, the traffic and the results so far."""

    def __init__(self, tools, scale):
        self.tools = tools
        self.scale = scale
        self.folder = tempfile.mkdtemp(prefix="chaosbench.")
        self.rows = []
        doctor = json.loads(run(CHAOSBPF, "doctor", "--json", check=False))
        self.can = {fault["name"]: fault["here"] for fault in doctor["faults"]}
        self.cgroup = doctor["cgroup2_mount"]
        self.kernel = doctor["kernel"]
        self.traffic = self.start("traffic")

    def close(self):
        self.traffic.kill()
        run(CHAOSBPF, "stop", check=False)
        self.remove_empty()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name):
        return subprocess.Popen([os.path.join(self.tools, name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words, of=None):
        """What `traffic`, or another program like it, answers to a command."""
        print(*words, file=(of or self.traffic).stdin, flush=True)
        return float((of or self.traffic).stdout.readline())

    def tell(self, *words):
        print(*words, file=self.traffic.stdin, flush=True)

    def row(self, what, value, aim=None, missed_by=None):
        """A line of the table. `missed_by`: how far the value is beyond the aim, not above 0 where it is met."""
        self.rows.append({"what": what, "value": value, "aim": aim, "missed_by": missed_by})
        say(f"{what}: {value}")

    # ---- what is loaded while something is measured

    def rules_file(self, name, count, faults):
        """`count` rules that name ports of loopback nobody uses."""
        lines = ["version: 1", "defaults: { duration: 30m }", "rules:"]
        for i in range(count):
            who = ("", f"process: nobody{i % 50}, ", f"user: {20000 + i % 100}, ")[i % 3]
            lines.append(f"  - {{ name: r{i}, match: {{ {who}hosts: 127.0.0.1, ports: {20000 + i} }}, "
                         f"fault: {{ {faults[i % len(faults)]} }} }}")
        return self.write(name, "\n".join(lines))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text + "\n")
        return path

    @contextlib.contextmanager
    def loaded(self, path):
        run(CHAOSBPF, "load", path)
        try:
            yield
        finally:
            run(CHAOSBPF, "stop")

    @contextlib.contextmanager
    def observed(self, *whom):
        with subprocess.Popen([CHAOSBPF, "observe", "--json", *whom], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as observer:
            try:
                line = observer.stderr.readline()
                if "measuring" not in line:
                    raise RuntimeError(f"observe: {line}{observer.stderr.read()}")
                yield
            finally:
                observer.send_signal(signal.SIGINT)

    @contextlib.contextmanager
    def empty(self):
        """A program that does nothing on both ways of every socket's packets."""
        run("bpftool", "prog", "loadall", os.path.join(self.tools, "empty.bpf.o"), PINS)
        try:
            for way in ("egress", "ingress"):
                run("bpftool", "cgroup", "attach", self.cgroup, f"cgroup_inet_{way}", "pinned", f"{PINS}/empty_{way}", "multi")
            yield
        finally:
            self.remove_empty()

    def remove_empty(self):
        if os.path.isdir(PINS):
            for way in ("egress", "ingress"):
                run("bpftool", "cgroup", "detach", self.cgroup, f"cgroup_inet_{way}", "pinned", f"{PINS}/empty_{way}",
                    check=False)
            shutil.rmtree(PINS)

    def in_turns(self, states, measures, rounds, of=None):
        """{(state, measure): [value of each round]}; `states` maps names to context managers."""
        values = {(state, measure): [] for state in states for measure in measures}
        rounds = max(3, round(rounds * self.scale))
        for i in range(rounds):
            say(f"round {i + 1} of {rounds}: {', '.join(measures)}")
            for state, manager in states.items():
                with manager():
                    for measure in measures:
                        values[state, measure].append(self.ask(measure, 300 if measure not in SINGLE else 5000, of=of))
        return values


def ratio(values, state, other, measure):
    """One state against another."""
    return min(values[state, measure]) / min(values[other, measure])


def added(values, state, measure):
    """What a state costs beyond nothing, in ns."""
    return min(values[state, measure]) - min(values["nothing", measure])


# ---- what it costs


COUNTS = (1, 10, 100, 1000)


def measure_packets(bench):
    """What a packet of an old connection and a new connection cost beside an empty pair of programs, by number of rules."""
    states = {"nothing": contextlib.nullcontext, "empty": bench.empty}
    for count in COUNTS:
        path = bench.rules_file(f"{count}.yaml", count, ["drop: true"])
        states[count] = lambda path=path: bench.loaded(path)
    path = bench.rules_file("reset.yaml", 1000, ["reset: true"])
    states["reset"] = lambda: bench.loaded(path)
    values = bench.in_turns(states, ("known", "new"), 7)
    for measure, what in (("known", "known flow"), ("new", "new flow")):
        baseline = max(added(values, "empty", measure), 1)
        say(f"{what}: nothing {min(values['nothing', measure]):.0f} ns, "
            + ", ".join(f"{state} +{added(values, state, measure):.0f} ns" for state in states if state != "nothing"))
        whole = " ".join(f"{ratio(values, count, 'empty', measure):.2f}" for count in COUNTS)
        bench.row(f"{what}: whole time with 1, 10, 100, 1,000 rules, x empty programs", whole)
        for state, rules in ((1, "one rule"), (1000, "1,000 rules"), ("reset", "1,000 rules with reset")):
            times = added(values, state, measure) / baseline
            bench.row(f"{what}: added by {rules}, x empty programs", f"{times:.1f}",
                      *(("<= 2", times - 2) if measure == "known" else ()))
        for way, steep in (("whole time", ratio(values, 1000, 1, measure)),
                           ("added time", added(values, 1000, measure) / max(added(values, 1, measure), 1))):
            bench.row(f"{what}: 1,000 rules, x one rule, {way}", f"{steep:.2f}", "<= 1.2", steep - 1.2)


def measure_programs(bench):
    """Time inside our programs for a packet of a known flow, by the kernel's own count; its clock takes some of each run."""
    switch = "/proc/sys/kernel/bpf_stats_enabled"
    with open(switch) as file:
        before = file.read()
    states = {"empty": bench.empty}
    for fault in ("drop", "reset"):
        path = bench.rules_file(f"one-{fault}.yaml", 1000, [f"{fault}: true"])
        states[fault] = lambda path=path: bench.loaded(path)
    times = {}
    try:
        with open(switch, "w") as file:
            file.write("1\n")
        for state, manager in states.items():
            with manager():
                bench.ask("known", int(1000 * bench.scale))
                programs = json.loads(run("bpftool", "--json", "prog", "list"))
            runs = {program["name"]: program for program in programs if program.get("run_cnt")
                    and program["name"].startswith("empty_" if state == "empty" else "chaos_")}
            packets = max(program["run_cnt"] for program in runs.values())
            per_packet = {name: program["run_time_ns"] / packets for name, program in runs.items()
                          if program["run_cnt"] > packets / 2}
            times[state] = sum(per_packet.values())
            say(f"in the programs, {state}: " + ", ".join(f"{name} {ns:.0f} ns" for name, ns in per_packet.items()))
    finally:
        with open(switch, "w") as file:
            file.write(before)
    for fault, rules in (("drop", "1,000 rules"), ("reset", "1,000 rules with reset")):
        value = times[fault] / times["empty"]
        bench.row(f"known flow: time in the programs with {rules}, x empty programs", f"{value:.1f}", "<= 2", value - 2)


def measure_bystander(bench):
    late = ["delay: 1s"] if bench.can["delay"] else []
    kinds = {"": ["reset: true", "drop: true", "refuse: refused"] + late,
             ", none of them reset": ["drop: true", "refuse: refused"] + late,
             ", all of them refuse": ["refuse: refused"]}
    states = {"nothing": contextlib.nullcontext}
    for i, (words, faults) in enumerate(kinds.items()):
        path = bench.rules_file(f"bystander{i}.yaml", 1000, faults)
        states[words] = lambda path=path: bench.loaded(path)
    values = bench.in_turns(states, ("rate", "bulk"), 7)
    for measure, what in (("rate", "request rate"), ("bulk", "bulk throughput")):
        for words in kinds:
            part = 1 / ratio(values, words, "nothing", measure)
            bench.row(f"bystander's {what} with 1,000 rules{words}, x unloaded", f"{part:.3f}", ">= 0.98", 0.98 - part)


def measure_observe(bench):
    """What those pay whom `observe` does not measure, and those whom it does."""
    states = {"nothing": contextlib.nullcontext, "another": lambda: bench.observed("--process", "nobody-there"),
              "everybody": bench.observed}
    values = bench.in_turns(states, ("rate", "new", "bulk"), 7)
    for measure, what in (("rate", "request rate"), ("new", "rate of new connections"), ("bulk", "bulk throughput")):
        part = 1 / ratio(values, "another", "nothing", measure)
        bench.row(f"bystander's {what} with observe of another process, x unobserved", f"{part:.3f}", ">= 0.98", 0.98 - part)
        bench.row(f"{what} of a process that observe measures, x unobserved",
                  f"{1 / ratio(values, 'everybody', 'nothing', measure):.3f}")


def measure_names(bench):
    """What rules for host names cost those who talk to other hosts: new connections, TLS's first message, questions."""
    def names(name, below, fault):
        lines = ["version: 1", "defaults: { duration: 30m }", "rules:"]
        lines += [f'  - {{ name: r{i}, match: {{ hosts: "*.n{i}.{below}" }}, fault: {{ {fault} }} }}' for i in range(1000)]
        return bench.write(name, "\n".join(lines))

    by_name, questions = names("names.yaml", "bench.test", "refuse: refused"), names("dns.yaml", "bench.test", "dns: nxdomain")
    unused = bench.write("learn.yaml", "version: 1\nrules:\n  - name: known\n    match: { ports: 1, hosts: '*.bench.test' }\n"
                         "    fault: { refuse: refused }\n    duration: 30m")

    @contextlib.contextmanager
    def learned():
        with bench.loaded(unused):
            bench.ask("learn", 10000)
            yield

    states = {"nothing": contextlib.nullcontext, "1,000 rules for names": lambda: bench.loaded(by_name),
              "10,000 learned addresses": learned, "1,000 dns rules": lambda: bench.loaded(questions)}
    values = bench.in_turns(states, ("new", "hello", "ask"), 5)
    for measure, what in (("new", "new flow"), ("hello", "new flow with a ClientHello"), ("ask", "a DNS question and its answer")):
        times = " ".join(f"{ratio(values, state, 'nothing', measure):.2f}" for state in states if state != "nothing")
        bench.row(f"{what}: whole time with {', '.join(list(states)[1:])}, x unloaded", times)


def measure_load_and_stop(bench):
    path = bench.rules_file("times.yaml", 1000, ["reset: true", "drop: true", "refuse: refused"])
    loads, stops = [], []
    for _ in range(max(3, round(5 * bench.scale))):
        start = time.monotonic()
        run(CHAOSBPF, "load", path)
        loads.append(1000 * (time.monotonic() - start))
        start = time.monotonic()
        run(CHAOSBPF, "stop")
        stops.append(1000 * (time.monotonic() - start))
    bench.row("load of 1,000 rules, whole command", f"{statistics.median(loads):.0f} ms")
    stop = statistics.median(stops)
    bench.row("stop, whole command", f"{stop:.0f} ms", "< 50 ms", stop - 50)


def measure_last_fault(bench):
    """Datagrams are lost without a pause; `stop` is started in the middle of that."""
    path = bench.write("last.yaml", "version: 1\nrules:\n  - name: last\n    match: { protocol: udp, hosts: 127.0.0.1, "
                       f"ports: {PORT} }}\n    fault: {{ drop: true }}\n    duration: 5m")
    times = []
    for _ in range(5):
        with bench.loaded(path):
            bench.tell("until-through", PORT)
            time.sleep(0.3)
            start = time.monotonic_ns()
            run(CHAOSBPF, "stop")
            last = float(bench.traffic.stdout.readline())
            if last == 0:
                raise RuntimeError("no datagram was lost")
            times.append((last - start) / 1e6)
    worst = max(times)
    bench.row("from the start of stop to the last faulted packet", f"{worst:.0f} ms", "< 50 ms", worst - 50)


# ---- how exact it is


def measure_percent(bench):
    count = int(4000 * bench.scale)
    for asked in (1, 10, 50):
        path = bench.write("percent.yaml", f"version: 1\nrules:\n  - name: some\n    match: {{ protocol: tcp, ports: {PORT} }}"
                           f"\n    fault: {{ refuse: refused }}\n    percent: {asked}\n    seed: 1\n    duration: 5m")
        with bench.loaded(path):
            show_percent(bench, "connections refused", asked, bench.ask("refused", PORT, count), count)
    path = bench.write("loss.yaml", f"version: 1\nrules:\n  - name: some\n    match: {{ protocol: udp, ports: {PORT}, "
                       "direction: request }\n    fault: { drop: 10% }\n    seed: 1\n    duration: 5m")
    with bench.loaded(path):
        show_percent(bench, "packets lost", 10, bench.ask("lost", PORT, count), count)


def show_percent(bench, what, asked, got, count):
    """The aim is that of fair dice: within three standard deviations."""
    spread = 300 * (asked / 100 * (1 - asked / 100) / count) ** 0.5
    measured = 100 * got / count
    bench.row(f"{what}, {asked} % asked", f"{measured:.2f} % of {count}", "3 sigma", abs(measured - asked) - spread)


ASKED_MS = 300


class Link:
    """A server in a network namespace of its own, at the other end of a pair of devices."""

    def __enter__(self):
        run("ip", "netns", "add", "chaosbench")
        run("ip", "link", "add", "cb0", "type", "veth", "peer", "name", "cb1", "netns", "chaosbench")
        run("ip", "addr", "add", "10.99.0.1/24", "dev", "cb0")
        run("ip", "-n", "chaosbench", "addr", "add", "10.99.0.2/24", "dev", "cb1")
        run("ip", "link", "set", "cb0", "up")
        run("ip", "-n", "chaosbench", "link", "set", "cb1", "up")
        self.server = subprocess.Popen(["ip", "netns", "exec", "chaosbench", sys.executable, SERVE, "--host", "10.99.0.2",
                                        "--http", str(PORT), "--tls", str(PORT + 1)], stdout=subprocess.PIPE, text=True)
        for _ in range(2):
            self.server.stdout.readline()
        self.context = ssl._create_unverified_context()
        self.kept = self.connection("http")
        self.request(self.kept)
        return self

    def __exit__(self, *_):
        self.server.kill()
        self.server.wait()
        run("ip", "link", "del", "cb0", check=False)
        run("ip", "netns", "del", "chaosbench", check=False)

    def connection(self, kind):
        if kind == "tls":
            return http.client.HTTPSConnection("10.99.0.2", PORT + 1, context=self.context, timeout=60)
        return http.client.HTTPConnection("10.99.0.2", PORT, timeout=60)

    @staticmethod
    def request(connection):
        connection.request("GET", "/bytes/1000")
        connection.getresponse().read()

    def time(self, kind, rounds):
        """Best ms of one request on a connection of that kind, the connecting included."""
        seen = []
        for _ in range(rounds):
            start = time.monotonic()
            connection = self.kept if kind == "kept-alive" else self.connection(kind.lower())
            self.request(connection)
            seen.append(1000 * (time.monotonic() - start))
            if connection is not self.kept:
                connection.close()
        return min(seen)


def injected():
    """Faults done so far by the one rule that is loaded."""
    return json.loads(run(CHAOSBPF, "status", "--json"))["rules"][0]["injected"]


def measure_delay(bench):
    """Milliseconds beyond what the same request takes without a fault, and how many delays each request got."""
    path = bench.write("delay.yaml", "version: 1\nrules:\n  - name: late\n    match: { hosts: 10.99.0.2 }\n"
                       f"    fault: {{ delay: {ASKED_MS}ms }}\n    duration: 20m")
    rounds = max(5, int(11 * bench.scale))
    kinds = ("new", "kept-alive", "TLS")
    ours, held = {}, {}
    with Link() as link:
        usual = {kind: link.time(kind, 2 * rounds) for kind in kinds}
        with bench.loaded(path):
            for kind in kinds:
                before = injected()
                ours[kind] = link.time(kind, rounds)
                held[kind] = (injected() - before) / rounds
        run("tc", "qdisc", "add", "dev", "cb0", "root", "netem", "delay", f"{ASKED_MS}ms")
        theirs = {kind: link.time(kind, rounds) for kind in kinds}
    for kind in kinds:
        got = ours[kind] - usual[kind]
        bench.row(f"delay of one request, {kind}, {ASKED_MS} ms asked", f"{got:.1f} ms", "within 3 ms",
                  abs(got - ASKED_MS) - 3)
        bench.row(f"delays counted for each request, {kind}", f"{held[kind]:.2f}", "1.00", abs(held[kind] - 1))
        bench.row(f"delay of one request, {kind}, by netem on the same link", f"{theirs[kind] - usual[kind]:.1f} ms")


class Called:
    """The program that calls a function of the bench's library all the time, once asked, and the ways to have it fail."""

    def __init__(self, bench, function):
        self.bench = bench
        self.function = function
        self.library = os.path.abspath(os.path.join(bench.tools, "libcudart-bench.so.12"))
        self.program = os.path.join(bench.tools, "calls")
        self.holder = os.path.join(bench.folder, "holder")  # the same program under another name
        shutil.copy(self.program, self.holder)

    @contextlib.contextmanager
    def running(self, program=None, ms=300, **env):
        program = subprocess.Popen([program or self.program, self.library, self.function, str(ms)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
        try:
            yield program
        finally:
            program.communicate()

    def ask(self, program, failed):
        """Nanoseconds of a call; `failed`: how many of a thousand must fail."""
        print(file=program.stdin, flush=True)
        ns, got = program.stdout.readline().split()
        if int(got) != failed:
            raise RuntimeError(f"{got} calls of {self.function} in a thousand failed, {failed} wanted")
        return float(ns)

    def under_rule(self, fault, who="calls", failed=1000):
        path = self.bench.write(f"call-{who}.yaml", f"version: 1\nrules:\n  - name: fails\n    match: {{ process: {who} }}\n"
                                f"    fault: {{ {fault} }}\n    duration: 30m")
        with self.running() as program, self.running(self.holder), self.bench.loaded(path):
            return self.ask(program, failed)

    def plain(self):
        with self.running() as program:
            return self.ask(program, 0)

    def preloaded(self):
        with self.running(LD_PRELOAD=os.path.join(self.bench.tools, "libpreload.so")) as program:
            return self.ask(program, 1000)

    def beside(self, *tool):
        """While `tool` with the program's number behind it traces the program: one batch, as that takes long enough."""
        with self.running(ms=1) as program:
            tracer = subprocess.Popen([*tool, str(program.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            try:
                self.wait_for_tracer(program.pid)
                return self.ask(program, 1000)
            finally:
                tracer.send_signal(signal.SIGTERM)
                try:
                    tracer.wait(5)
                except subprocess.TimeoutExpired:
                    tracer.kill()
                    tracer.wait()

    @staticmethod
    def wait_for_tracer(pid):
        """Until it has attached and let the program go on."""
        for _ in range(300):
            time.sleep(0.1)
            with open(f"/proc/{pid}/status") as file:
                fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            if fields["TracerPid"] != "0" and fields["State"].startswith("S"):
                time.sleep(0.5)
                return
        raise RuntimeError("the tracer does not attach")

    def by_gdb(self):
        script = self.bench.write("gdb", f"set confirm off\nset pagination off\nbreak {self.function}\ncommands\nsilent\n"
                                  "return (int) 2\ncontinue\nend\ncontinue")
        return self.beside("gdb", "-q", "-batch", "-nx", "-x", script, "-p")


def best_of(bench, ways):
    """The least ns of each way to have a call fail, in turns."""
    times = {name: [] for name in ways}
    for i in range(rounds := max(3, round(5 * bench.scale))):
        say(f"round {i + 1} of {rounds}: {', '.join(ways)}")
        for name, way in ways.items():
            times[name].append(way())
    return {name: min(values) for name, values in times.items()}


def measure_calls(bench):
    """A call of a library function: nobody's business, probed for somebody else, failed by us, and by what else there is."""
    called = Called(bench, "cudaMalloc")
    errno = f"call: {{ library: {called.library}, function: cudaMalloc, returns: -1, errno: ENOMEM }}"
    ways = {"plain": called.plain, "other": lambda: called.under_rule("gpu-oom: true", "holder", 0),
            "hit": lambda: called.under_rule("gpu-oom: true"), "errno": lambda: called.under_rule(errno),
            "preload": called.preloaded}
    if shutil.which("gdb"):
        ways["gdb"] = called.by_gdb
    best = best_of(bench, ways)
    bench.row("a call that has a probe and is not hit: added to a plain one", f"{best['other'] - best['plain']:.0f} ns")
    bench.row("a call that is failed", f"{best['hit']:.0f} ns")
    bench.row("a call that is failed with an errno, by the tracing process", f"{best['errno']:.0f} ns")
    bench.row("a call that is failed by LD_PRELOAD, which needs a restart", f"{best['preload']:.1f} ns")
    if "gdb" in best:
        bench.row("a call that is failed by gdb", f"{best['gdb']:.0f} ns")


def measure_operations(bench):
    """A read() that fails with EIO: by us, and by strace; and what others pay for that."""
    called = Called(bench, "readZero")
    fault = "errno: { operation: read, path: /dev/zero, error: EIO }"
    ways = {"plain": called.plain, "other": lambda: called.under_rule(fault, "holder", 0), "hit": lambda: called.under_rule(fault)}
    if shutil.which("strace"):
        ways["strace"] = lambda: called.beside("strace", "-f", "-o", "/dev/null", "-e", "trace=pread64", "-e",
                                               "inject=pread64:error=EIO", "-p")
    best = best_of(bench, ways)
    bench.row("a read() while those of another process fail: added to a plain one", f"{best['other'] - best['plain']:.0f} ns")
    bench.row("a read() that fails, and one that does not", f"{best['hit']:.0f} ns, {best['plain']:.0f} ns")
    if "strace" in best:
        bench.row("a read() that is failed by strace", f"{best['strace']:.0f} ns")


class Proxy:
    """What a user would put in between instead: it passes everything on, and refuses what is asked of /refused itself."""

    HAPROXY = """
        global
            nbthread 1
        defaults
            mode http
            timeout connect 60s
            timeout client 60s
            timeout server 60s
        frontend front
            bind 127.0.0.1:{port}
            http-request return status 503 content-type application/json string '{body}' if {{ path /refused }}
            default_backend back
        backend back
            http-reuse always
            server model 127.0.0.1:{server}
        """
    NGINX = """
        daemon off;
        pid {folder}/nginx.pid;
        error_log stderr crit;
        events {{}}
        http {{
            access_log off;
            upstream model {{ server 127.0.0.1:{server}; keepalive 4; keepalive_requests 1000000000; }}
            server {{
                listen 127.0.0.1:{port};
                keepalive_requests 1000000000;
                location / {{ proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; }}
                location /refused {{ return 503 '{body}'; }}
            }}
        }}
        """

    def __init__(self, bench, name, server):
        body = json.dumps({"error": {"message": "The server is overloaded.", "type": "server_error"}})
        port = PORT + 10 + (name == "nginx")
        path = bench.write(name + ".conf", (self.NGINX if name == "nginx" else self.HAPROXY).format(
            port=port, server=server, folder=bench.folder, body=body))
        command = [name, "-c", path] if name == "nginx" else [name, "-db", "-q", "-f", path]
        self.port = port
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=sys.stderr)
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{name} does not start")

    def close(self):
        self.process.terminate()
        self.process.wait()


def measure_http(bench):
    """What requests of HTTP cost where rules about them are loaded, and by way of a proxy; and what another answer costs."""
    traffic = bench.start("requests")
    port = int(bench.ask("port", of=traffic))
    proxies = {name: Proxy(bench, name, port) for name in ("haproxy", "nginx") if shutil.which(name)}
    for name in {"haproxy", "nginx"} - set(proxies):
        say(f"{name} is not installed: there is no row of it")

    def rules(name, *matches, fault="hang: true"):
        return bench.write(name, "version: 1\ndefaults: { duration: 30m }\nrules:\n" + "\n".join(
            f"  - {{ name: r{i}, match: {{ hosts: 127.0.0.1, ports: {port}, http: {match} }}, fault: {{ {fault} }} }}"
            for i, match in enumerate(matches)))

    @contextlib.contextmanager
    def through(proxy):
        bench.ask("through", proxy.port, of=traffic)
        try:
            yield
        finally:
            bench.ask("direct", of=traffic)

    paths = {"a rule for another path": rules("path.yaml", "{ path: /v1/embeddings }"),
             "12 rules for other models and headers": rules(
                 "models.yaml", *[f'{{ model: "m{i}-*", header: {{ x-tenant: {i} }} }}' for i in range(12)])}
    answered = rules("answered.yaml", "{ path: /v1/chat/completions }", fault="status: 503")
    states = {"nothing": contextlib.nullcontext, "answered": lambda: bench.loaded(answered)}
    states |= {what: lambda path=path: bench.loaded(path) for what, path in paths.items()}
    states |= {name: lambda proxy=proxy: through(proxy) for name, proxy in proxies.items()}
    try:
        values = bench.in_turns(states, ("http", "median", "worst"), 5, of=traffic)
        refused = {}
        for name, proxy in proxies.items():
            with through(proxy):
                refused[name] = min(bench.ask("refused", 300, of=traffic) for _ in range(5))
    finally:
        for proxy in proxies.values():
            proxy.close()
        traffic.kill()
    for what in [*paths, *(f"{name} in between" for name in proxies)]:
        bench.row(f"HTTP request and answer, {what}, x nothing",
                  f"{ratio(values, what.removesuffix(' in between'), 'nothing', 'http'):.2f}")
    if "haproxy" in proxies:
        for measure, which in (("median", "p50"), ("worst", "p99")):
            by = " and ".join(f"{added(values, state, measure) / added(values, 'haproxy', measure):.3f}" for state in paths)
            bench.row(f"latency added at {which} by {' and '.join(paths)}, x haproxy's", by)
    plain = min(values["nothing", "http"])
    both = " ".join([f"{ratio(values, 'answered', 'nothing', 'http'):.2f}"] + [f"{ns / plain:.2f}" for ns in refused.values()])
    bench.row(f"HTTP request answered 503 by {', '.join(['a rule', *refused])}, x answered by the server", both)


PARTS = {"packets": measure_packets, "programs": measure_programs, "bystander": measure_bystander, "observe": measure_observe,
         "names": measure_names, "http": measure_http, "times": measure_load_and_stop, "stop": measure_last_fault, "percent": measure_percent,
         "delay": measure_delay, "calls": measure_calls, "operations": measure_operations}
NEEDS = {"delay": "delay", "http": "status", "calls": "gpu-oom", "operations": "errno"}  # parts that some kernel cannot do, by fault


def measure(options):
    bench = Bench(options.tools, options.scale)
    try:
        status = json.loads(run(CHAOSBPF, "status", "--json"))
        if status["rules"]:
            sys.exit("bench: rules are loaded on this machine; 'chaosbpf stop' ends them")
        for part, work in PARTS.items():
            if part in (options.only or PARTS) and (part not in NEEDS or bench.can[NEEDS[part]]):
                work(bench)
        print("RESULT " + json.dumps({"kernel": bench.kernel, "where": options.where, "rows": bench.rows}), flush=True)
    finally:
        bench.close()


# ---- the table


def verdict(row):
    by = row["missed_by"]
    if by is None:
        return ""
    return "met" if by <= 0 else f"MISSED by {by:.2g}" if by < 10 else f"MISSED by {by:.0f}"


def print_table(paths):
    results = []
    for path in paths:
        with open(path) as file:
            results += [json.loads(line[len("RESULT "):]) for line in file if line.startswith("RESULT ")]
    names = []
    for result in results:
        names += [row["what"] for row in result["rows"] if row["what"] not in names]
    by_kernel = [{row["what"]: row for row in result["rows"]} for result in results]
    heads = [f"{result['kernel'].split('-')[0]} {result['where']}" for result in results]
    print("| what | aim | " + " | ".join(heads) + " |")
    print("|---|---|" + "---|" * len(heads))
    for name in names:
        aim = next(rows[name]["aim"] for rows in by_kernel if name in rows) or ""
        cells = [f"{rows[name]['value']} {verdict(rows[name])}".rstrip() if name in rows else "-" for rows in by_kernel]
        print(f"| {name} | {aim} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=os.path.join(HERE, "../../build/bench"))
    parser.add_argument("--scale", type=float, default=1.0, help="how much longer or shorter to measure")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="measure no more than these")
    parser.add_argument("--where", default="", help="a word for the heading of the table")
    parser.add_argument("--table", nargs="+", metavar="FILE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.table:
        print_table(options.table)
    else:
        measure(options)


if __name__ == "__main__":
    main()
