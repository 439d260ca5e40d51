#!/usr/bin/env python3
"""The scenes of the demo: one application is broken, its neighbour is not.

    demo-scenes.py [--color] [--rounds N]

Starts a vector database and a model server (serve.py) and two clients (demo-client.py), the victim and the neighbour, all on
loopback. Then rules are loaded that name the victim; the table shows what each client saw in each round. In the end the
machine is compared with before: BPF programs, pinned objects, queueing disciplines. $CHAOSBPF is the program.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CHAOSBPF = os.path.abspath(os.environ.get("CHAOSBPF", os.path.join(HERE, "../build/chaosbpf")))
NAMES = ("victim", "neighbour")


def free_port(*ports):
    """The first of these on which nothing listens yet."""
    for port in ports:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    sys.exit(f"demo: ports {ports} of loopback are all taken")


VECTORS = free_port(6333, 26333, 36333)  # Qdrant's
MODEL = free_port(11434, 21434, 31434)  # Ollama's

SLOW = f"""\
version: 1
rules:
  - name: slow-vectors
    match: {{ process: victim, hosts: 127.0.0.1, ports: {VECTORS} }}
    fault: {{ delay: 1500ms }}
    duration: 2m
"""
REFUSED = f"""\
version: 1
rules:
  - name: model-refuses
    match: {{ process: victim, hosts: 127.0.0.1, ports: {MODEL} }}
    fault: {{ refuse: refused }}
    duration: 2m
"""
CUT = f"""\
version: 1
rules:
  - name: stream-is-cut
    match: {{ process: victim, ports: {MODEL}, direction: response }}
    fault: {{ reset: true }}
    per: packet
    percent: 20
    seed: 7
    duration: 2m
"""


def run(*command):
    """Exit code and output of a program; None and nothing when it is not installed."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return None, ""
    return done.returncode, done.stdout


def chaosbpf(*words, last=0):
    """Runs it and shows it, or the last lines of it, as a person would see it. Returns the exit code."""
    print(paint(f"\n  # chaosbpf {' '.join(words)}" + (f" | tail -{last}" if last else ""), "bold"))
    code, output = run(CHAOSBPF, *words)
    print("".join(f"  {line}\n" for line in output.splitlines()[-last:]), end="", flush=True)
    return code


colored = False


def paint(text, how):
    codes = {"red": "31", "green": "32", "bold": "1"}
    return f"\033[{codes[how]}m{text}\033[0m" if colored else text


# ---- the applications


def start(*command, **options):
    # In a session of its own, so that Ctrl-C is for the demo alone; it ends them.
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, start_new_session=True, **options)


def start_server():
    """Returns when it listens."""
    server = start(f"{HERE}/serve.py", "--http", str(VECTORS), "--http", str(MODEL), "--comm", "model-server")
    for _ in range(2):
        if not server.stdout.readline():
            sys.exit(f"demo: cannot listen on ports {VECTORS} and {MODEL} of loopback: see above")
    return server


def start_client(name):
    client = start(f"{HERE}/demo-client.py", name, str(VECTORS), str(MODEL), stdin=subprocess.PIPE)
    client.stdout.readline()
    return client


def play_round(clients):
    """Both do the same at the same time; what each saw."""
    for client in clients:
        print(file=client.stdin, flush=True)
    return [json.loads(client.stdout.readline()) for client in clients]


# ---- the table


def cells(seen, usual):
    """Search, first word and words of one client, each with whether it is as usual."""
    search, answer = seen["search"], seen["answer"]
    late = usual + 500
    first = answer.get("first_ms")
    return [
        (f"{search['ms']:.0f} ms" if "ms" in search else search["error"], search.get("ms", late) < late),
        (f"{first:.0f} ms" if first else "-", first is not None and first < late),
        (f"{answer['words']}/{answer['of']} {answer.get('error', '')}".rstrip(), "error" not in answer),
    ]


WIDTHS = (11, 12, 18)


def print_head():
    words = "".join(title.ljust(width) for title, width in zip(("search", "first word", "words"), WIDTHS))
    print("\n  " + "| ".join(name.upper().ljust(sum(WIDTHS)) for name in NAMES))
    print("  " + "| ".join([words] * 2))


def play(clients, rounds, usual):
    print_head()
    seen = []
    for _ in range(rounds):
        both = play_round(clients)
        row = []
        for one in both:
            row.append("".join(paint(text.ljust(width), "green" if good else "red")
                               for (text, good), width in zip(cells(one, usual), WIDTHS)))
        print("  " + "| ".join(row).rstrip(), flush=True)
        seen.append(both)
    return seen


# ---- what must be as before in the end


def leftovers():
    """The parts of the machine that a fault injector might leave behind."""
    programs = [line for line in run("bpftool", "prog", "list")[1].splitlines() if "name chaos_" in line]
    pins = os.listdir("/sys/fs/bpf/chaosbpf") if os.path.isdir("/sys/fs/bpf/chaosbpf") else []
    queues = run("tc", "qdisc", "show")[1].splitlines()
    return {"BPF programs of chaosbpf": sorted(programs), "pinned objects": sorted(pins), "queueing disciplines": queues}


def compare(before, after):
    same = True
    for what, old in before.items():
        good = old == after[what]
        same = same and good
        print(f"  {what:26}{len(old):4} before {len(after[what]):4} after   "
              + (paint("same", "green") if good else paint(f"DIFFERENT: {after[what]}", "red")))
    return same


def middle(rounds, who):
    """Median search time of a client over some rounds, in ms."""
    times = [both[who]["search"]["ms"] for both in rounds if "ms" in both[who]["search"]]
    return statistics.median(times) if times else float("nan")


def untouched(seen):
    """Rounds of the neighbour that went wrong: there should be none."""
    return [both[1] for both in seen if "error" in both[1]["search"] or "error" in both[1]["answer"]]


# ---- the scenes


def title(text):
    print("\n" + paint(f"== {text}", "bold"), flush=True)


def scene(text, rules, clients, rounds, usual):
    """Load, look, show the counters. A fault that this kernel cannot do is said and left out."""
    title(text)
    print("\n" + "".join(f"    {line}\n" for line in rules.splitlines()), end="")
    name = rules.split("name: ")[1].split("\n")[0]
    with open(f"{name}.yaml", "w") as file:
        file.write(rules)
    if chaosbpf("load", f"{name}.yaml"):
        return []
    seen = play(clients, rounds, usual)
    chaosbpf("status")
    return seen


def show(clients, rounds):
    before = leftovers()
    play_round(clients)  # the first one of a fresh process is slow
    title("before: two applications, each with a kept-alive connection to a vector database and a model that streams words")
    usual_rounds = play(clients, rounds, 1000)
    usual = middle(usual_rounds, 0)
    seen = []
    seen += scene("slow: each search of the victim takes 1.5 s longer, on the connection that is already open",
                  SLOW, clients, rounds, usual)
    seen += scene("refused: the victim cannot connect to the model", REFUSED, clients, rounds, usual)
    seen += scene("cut: the model's answer to the victim breaks off in the middle", CUT, clients, rounds, usual)
    chaosbpf("events", last=3)
    title("stop: all is as before")
    chaosbpf("stop")
    after_rounds = play(clients, rounds, usual)
    print()
    same = compare(before, leftovers())
    print(f"  the victim's search         {usual:4.0f} ms before {middle(after_rounds, 0):4.0f} ms after")
    hurt = untouched(seen)
    print(f"  the neighbour's rounds      {len(seen)} under faults, {len(hurt)} of them disturbed")
    return same and not hurt


def main():
    global colored
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--color", action="store_true")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    colored = options.color
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    code, status = run(CHAOSBPF, "status", "--json")
    if code or json.loads(status)["rules"]:
        sys.exit("demo: rules are loaded on this machine already; 'chaosbpf stop' ends them")
    folder = tempfile.mkdtemp(prefix="chaosbpf-demo.")
    os.chdir(folder)
    processes = []
    try:
        processes.append(start_server())
        for name in NAMES:
            processes.append(start_client(name))
        return 0 if show(processes[1:], options.rounds) else 1
    except KeyboardInterrupt:
        return 130
    finally:
        run(CHAOSBPF, "stop")
        for process in processes:
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
