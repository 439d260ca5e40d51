#!/usr/bin/env python3
"""The scenes of `make demo-ai`: a real RAG program, written twice, meets faults that AI services meet.

Real SDKs (openai, chromadb) talk to a real model server, an embedding server and a vector database, in the userland that
vmtest/real.sh makes. The naive program leaves the SDKs as they come; the careful one has deadlines and falls back. Each scene
loads a file of rules/ and shows what both their users saw. $CHAOSBPF is the program.
"""
import json
import os
import queue
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../vmtest/lib"))

import chaos  # noqa: E402
import place  # noqa: E402
import real  # noqa: E402
from nameserver import NameServer  # noqa: E402
from worker import Worker, kill_all  # noqa: E402

SERVICE = "system.slice/rag.service"  # the cgroup that rules/provider-dark.yaml names
PATIENCE = 20  # seconds that a user waits
LOCAL, PROVIDER = ["local", "provider"], ["provider", "local"]

# rules file, what happens, which model is asked first, seconds to wait after the load
SCENES = [
    ("creeping-latency", "embeddings and the local model grow slower, second by second", PROVIDER, 35),
    ("mute-databases", "the vector database takes connections and says nothing", LOCAL, 0),
    ("cut-stream", "every second answer of the local model is reset after 4 KiB", LOCAL, 0),
    ("storm-429", "three questions in ten to the local model are answered 429, with Retry-After: 20", LOCAL, 0),
    ("clean-cut", "three streams in ten of the local model are over after twenty events, as if that were all", LOCAL, 0),
    ("error-first-event", "a third of the local model's streams are nothing but an error", LOCAL, 0),
    ("provider-dark", "the provider cannot be reached by this service", PROVIDER, 0),
    ("names-expire", "the provider's name does not resolve", PROVIDER, 0),
]
QUESTIONS = {"cut-stream": 3, "storm-429": 3, "clean-cut": 3, "error-first-event": 3}  # the others: one

SERVERS = {"local": [*real.LLAMA, "--port", "11434"], "provider": [*real.LLAMA, "--port", "443"],
           "embedder": [*real.LLAMA, "--port", "7997", "--embeddings", "--pooling", "mean"], "chroma": real.CHROMA}
HEALTH = {"local": (11434, "/health"), "provider": (443, "/health"), "embedder": (7997, "/health"),
          "chroma": (8000, "/api/v2/heartbeat")}


class App:
    """One of the two programs."""

    def __init__(self, kind):
        self.kind, self.asked = kind, 0
        self.child = real.start([*real.NODE, real.bring(HERE + "/demo-ai-app.js"), kind], SERVICE, name=kind,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.said = queue.Queue()
        threading.Thread(target=lambda: [self.said.put(json.loads(line)) for line in self.child.stdout], daemon=True).start()

    def ask(self, models):
        self.asked += 1
        self.child.stdin.write(json.dumps({"number": self.asked, "models": models}) + "\n")

    def answer(self, until):
        """What the last user saw, or None when that one has left; what earlier ones see so late is nobody's any more."""
        try:
            while True:
                said = self.said.get(timeout=max(0.1, until - time.monotonic()))
                if said["number"] == self.asked:
                    return said
        except queue.Empty:
            return None


def sight(seen):
    """What a user saw, in words."""
    if seen is None:
        return f"nothing for {PATIENCE} s, the user has left"
    first = f"first word after {seen['first_ms'] / 1000:.1f} s" if "first_ms" in seen else "no word"
    text = f"{seen['words']}/{seen['of']} words, {first}, over after {seen['ms'] / 1000:.1f} s"
    if seen["fallbacks"]:
        text += "; fell back to " + ", ".join(seen["fallbacks"])
    if "error" in seen:
        text += f"; then {seen['error']}"
    return text


def ask_both(apps, models):
    """The same question at the same time."""
    until = time.monotonic() + PATIENCE
    for app in apps:
        app.ask(models)
    return [app.answer(until) for app in apps]


def play(apps, models):
    for app, seen in zip(apps, ask_both(apps, models)):
        print(f"  {app.kind:8} {sight(seen)}", flush=True)


def begin(kind):
    app = App(kind)
    ready = app.answer(time.monotonic() + real.PATIENCE)
    if not ready or "ready" not in ready:
        sys.exit(f"demo-ai: the {kind} program did not start: {ready}: {real.words(app.child)}")
    return app


def scene(name, text, models, wait, apps):
    print(f"\n== {name}.yaml: {text}", flush=True)
    loaded = chaos.chaos("load", os.path.join(HERE, "../rules", name + ".yaml"))
    if loaded.code:
        print("  left out: " + loaded.err.strip())
        return
    time.sleep(wait)
    for _ in range(QUESTIONS.get(name, 1)):
        play(apps, models)
    for rule in chaos.status().all["rules"]:
        print(f"  chaosbpf {rule['name']}: {rule['matched']} matched, {rule['injected']} faults", flush=True)
    chaos.stop()


def start_servers():
    names = Worker(NameServer, comm="names")
    names.listen("127.0.0.53")
    names.tell("api.openai.com", ["127.0.0.1"])
    with open(f"{real.ROOT}/etc/resolv.conf", "w") as file:
        file.write("nameserver 127.0.0.53\n")
    children = {name: real.start(command, "case/server", name=name) for name, command in SERVERS.items()}
    for name, child in children.items():
        real.wait_for(name, child, *HEALTH[name])


def main():
    if not real.is_here():
        sys.exit("demo-ai: the userland with real servers is not here: `make demo-ai` starts a guest that has it")
    start = time.monotonic()
    place.make_cgroup("case/server")
    place.make_cgroup(SERVICE)
    try:
        start_servers()
        apps = [begin("naive"), begin("careful")]
        ask_both(apps, LOCAL)  # the first one of a fresh process is slow
        print(f"servers and programs are up after {time.monotonic() - start:.0f} s\n\n== no fault", flush=True)
        play(apps, LOCAL)
        play(apps, PROVIDER)
        for name, text, models, wait in SCENES:
            scene(name, text, models, wait, apps)
        print("\n== stopped: no fault", flush=True)
        time.sleep(1)
        play(apps, LOCAL)
        print(f"\n{time.monotonic() - start:.0f} s in all")
    finally:
        chaos.stop()
        real.stop_all()
        kill_all()


if __name__ == "__main__":
    main()
