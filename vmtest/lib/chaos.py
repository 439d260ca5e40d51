"""The program under test, as a person uses it: rules as text, commands with --json."""
import json
import os
import re
import subprocess
import tempfile
import time

import place

BINARY = os.environ.get("CHAOSBPF") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../build/chaosbpf")


PATIENCE = 90 * place.slowness()  # seconds that a command may take


class Result:
    """Of one command."""

    def __init__(self, command, done):
        self.command = command
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"{' '.join(self.command)}: exit {self.code}\n{self.out}{self.err}"


def chaos(*args, text=None, timeout=None, expect=None, **options):
    """Runs `chaosbpf ARGS`. With `expect` another exit code is an error."""
    command = [BINARY, *[str(arg) for arg in args]]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout or PATIENCE, **options)
    result = Result(command, done)
    if expect is not None and result.code != expect:
        raise AssertionError(f"exit code {expect} wanted: {result}")
    return result


def start(*args, **options):
    """The same in the background: a Popen."""
    return subprocess.Popen([BINARY, *[str(arg) for arg in args]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


def doctor(what):
    """Of "faults" or "features": whether each can be had here, by name."""
    return {one["name"]: one["here"] for one in chaos("doctor", "--json").json[what]}


# ---- rules

def yaml(value):
    """A value in YAML's one-line form."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key.replace('_', '-')}: {yaml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(yaml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/%-]*", value):
        return value
    return json.dumps(value)


def own_processes():
    """Those of the present load: who serves it, and the assist. Not those of somebody else's on the same machine."""
    state = status().all
    found = [state[key] for key in ("owner", "reaper") if state.get(key)]
    for pid in place.processes("chaosbpf"):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent in found:
            found.append(pid)
    return sorted(set(found))


def rule(name, match, fault, **keys):
    """One rule; underscores in keys stand for dashes. Ends after ten minutes unless told otherwise."""
    return {"name": name, "match": match, "fault": fault, **{"duration": "10m", **keys}}


def rules_text(*rules, endpoints=None):
    lines = ["version: 1"]
    if endpoints:
        lines += ["endpoints:"] + [f"  {name}: {yaml(value)}" for name, value in endpoints.items()]
    lines.append("rules:")
    for one in rules:
        lines += [f"  {'-' if i == 0 else ' '} {key.replace('_', '-')}: {yaml(value)}"
                  for i, (key, value) in enumerate(one.items())]
    return "\n".join(lines) + "\n"


def rules_file(*rules, **options):
    """Path of a temporary file with these rules."""
    fd, path = tempfile.mkstemp(prefix="rules.", suffix=".yaml")
    with os.fdopen(fd, "w") as file:
        file.write(rules_text(*rules, **options))
    os.chmod(path, 0o644)
    return path


# ---- commands

def load(*rules, options=(), expect=0, endpoints=None):
    """Loads the rules; what `load --json` said."""
    path = rules_file(*rules, endpoints=endpoints)
    try:
        result = chaos("load", path, "--json", *options)
        if result.code != expect:
            with open(path) as file:
                print(file.read())
            words = chaos("load", path, "--verbose").err.splitlines()  # the kernel's own among them
            print("\n".join([line for line in words if " regs=" not in line and "last_idx" not in line][-40:]))
            raise AssertionError(f"exit code {expect} wanted: {result}")
    finally:
        os.unlink(path)
    return result.json if result.out.strip() else {}


def stop():
    return chaos("stop", "--json", expect=0).json


class Status:
    """`status --json`, rules by name."""

    def __init__(self):
        self.all = chaos("status", "--json", expect=0).json
        self.rules = {one["name"]: one for one in self.all["rules"]}

    def __getitem__(self, name):
        return self.rules[name]


def status():
    return Status()


def events_now():
    """Those of the present load, or of the last one, as far as they have been written."""
    return [json.loads(line) for line in chaos("events", "--json", expect=0).out.splitlines() if line.strip()]


def events(state=None, seconds=20):
    """All of them: whoever writes the log may be behind the counters a little."""
    state = state or Status()
    total = sum(one["injected"] for one in state.all["rules"]) - state.all["events_dropped"]
    end = time.monotonic() + seconds
    while True:
        found = events_now()
        if len(found) >= total or time.monotonic() > end:
            return found
        time.sleep(0.2)


def problems_of(state):
    """What must hold for every rule at any time: a list of what does not."""
    problems = []
    for one in state.all["rules"]:
        name = one["name"]
        skipped = sum(one["skipped"].values())
        if one["matched"] != one["injected"] + skipped:
            problems.append(f"{name}: matched {one['matched']} is not injected {one['injected']} + skipped {skipped}")
        if sum(one["faults"].values()) != one["injected"]:
            problems.append(f"{name}: faults {one['faults']} do not add up to injected {one['injected']}")
        if one["injected"] and not one["seen"]:
            problems.append(f"{name}: injected {one['injected']} but seen nothing")
    return problems


def event_problems(state, happened):
    """Events that were written and those dropped are as many as the faults, rule by rule when none was dropped."""
    problems = []
    faults = [one for one in happened if one.get("kind", "fault") == "fault"]
    total = sum(one["injected"] for one in state.all["rules"])
    dropped = state.all["events_dropped"]
    if len(faults) + dropped != total:
        problems.append(f"{len(faults)} events and {dropped} dropped, but {total} faults")
    if not dropped:
        for one in state.all["rules"]:
            told = sum(event["rule"] == one["name"] for event in faults)
            if told != one["injected"]:
                problems.append(f"{one['name']}: {told} events for {one['injected']} faults")
    return problems
