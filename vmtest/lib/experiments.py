"""Experiments on the small RAG service (rag.py): their files, the service with a mistake, runs and their findings."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import chaos
import place
from case import wait_until

COMMAND = "run-command"  # a name of a process that nobody else has
RAG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rag.py")
SERVICE, VECTORS, MODEL = 8080, 6333, 9000
GROUP = "case/service"  # of the service, where it is to have one: begin_watched()

folder = None
running = []


# ---- files

def rules_step(name, port, fault, http=None, **keys):
    """A step of the method with one rule for a port of loopback."""
    match = {"hosts": "127.0.0.1", "ports": port, **({"http": http} if http else {})}
    return f"""
  - rules:
      - {chaos.yaml(dict({"name": name, "match": match, "fault": fault}, **keys))}
"""


def model_step(name, fault, **keys):
    """The same, for questions to the model."""
    return rules_step(name, MODEL, fault, http={"method": "POST", "path": "/v1/*"}, **keys)


SILENT = rules_step("silent", VECTORS, {"drop": True})
REFUSED = rules_step("refused", VECTORS, {"refuse": "refused"})
CUT = rules_step("cut", MODEL, {"break-after": {"bytes": "2KiB", "how": "reset"}}, per="request")


def command():
    """One that takes ten minutes, as a step or a probe has it."""
    return f'["{shutil.copy(shutil.which("sleep"), os.path.join(folder, COMMAND))}", "600"]'


def probe(name="ask", path="/ask?q=ping", every="1s", timeout="8s"):
    return (f'{{ name: {name}, http: "http://127.0.0.1:{SERVICE}{path}", every: {every}, timeout: {timeout}, '
            'expect: { status: 200, body-contains: END } }')


def experiment(name, method, **keys):
    """Path of an experiment of that name; `keys` replace its own, None removes them."""
    text = {
        "version": "1",
        "experiment": name,
        "environment": "staging",
        "probes": f"[{probe()}]",
        "steady": '{ ask.success: ">= 99%" }',
        "during": '{ ask.success: ">= 90%", ask.p90: "<= 4s", within: 5s }',
        "recovery": "{ within: 60s, for: 2s }",
        "baseline": "4s",
        "observe": "15s",
        **keys,
        "method": method,
    }
    path = os.path.join(folder, f"{name}.yaml")
    with open(path, "w") as file:
        file.write("".join(f"{key.replace('_', '-')}: {value}\n" for key, value in text.items() if value))
    return path


# ---- the service, and what it stands on

def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as peer:
            peer.settimeout(10)
            peer.sendall(b"GET /popular HTTP/1.1\r\n\r\n")
            return peer.recv(12).endswith(b" 200")
    except OSError:
        return False


def start(*words, port):
    process = subprocess.Popen([sys.executable, RAG, *words], stdin=subprocess.DEVNULL)
    running.append(process)
    wait_until(lambda: answers(port), f"{words} to answer", seconds=60)
    return process


class Variant:
    """The service with one mistake, or the good one."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.process = start("service", self.name, port=SERVICE)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Watched(Variant):
    """The service in a cgroup of its own."""

    def __enter__(self):
        super().__enter__()
        place.enter_cgroup(GROUP, self.process.pid)


class Asked(Watched):
    """And somebody who asks it some times a second, whatever becomes of that."""

    def __enter__(self):
        super().__enter__()
        self.asked, self.enough = 0, threading.Event()
        self.asking = threading.Thread(target=self.ask_on)
        self.asking.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.asking.join()
        super().__exit__()

    def ask_on(self):
        while not self.enough.wait(0.25):
            self.asked += 1
            threading.Thread(target=self.ask, daemon=True).start()

    @staticmethod
    def ask():
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{SERVICE}/ask?q=ping", timeout=12).read()
        except OSError:
            pass


def begin(dependencies=True):
    """Once, before the first run."""
    global folder
    folder = tempfile.mkdtemp(prefix="experiment.")
    os.environ["CHAOSBPF_DATABASE"] = os.path.join(folder, "findings.db")
    if dependencies:
        start("dependencies", port=VECTORS)


def end():
    for process in running:
        process.kill()


def begin_watched():
    """begin(), where the service has a cgroup of its own."""
    begin()
    place.make_cgroup(GROUP)


def end_watched():
    end()
    place.remove_cgroup("case")


# ---- runs

def run(path, again=3):
    """A machine that is too busy for the service to be healthy at the start is given another chance."""
    while True:
        result = chaos.chaos("run", "--json", path, timeout=600)
        again -= 1
        if not again or not result.out.strip() or result.json.get("verdict") != "skipped":
            return result
        time.sleep(5)


def failed(said):
    """What did not hold, as "during: ask.success"."""
    return sorted({f"{one['when']}: {one['measure']}" for one in said["hypotheses"] if one["outcome"] == "failed"})


def history():
    return chaos.chaos("history", "--json", expect=0).json["runs"]
