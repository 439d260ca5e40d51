"""Everything that must be the same before a load and after `stop`."""
import os
import time

import kernel
import place

PIN_ROOT = "/sys/fs/bpf"
STATE = "/run/chaosbpf"
# May stay: the lock file, and the log of the last load, which `events` shows until the next one.
STATE_MAY_KEEP = {"lock", "events"}


def bpf_count(prefix):
    """How many programs and maps there are whose names begin so."""
    return sum(one.split(" ")[2].startswith(prefix) for one in kernel.bpf_objects())


def files_below(top):
    found = set()
    for folder, folders, files in os.walk(top):
        found.update(os.path.join(folder, name) for name in folders + files)
    return found


def state_files():
    return {path for path in files_below(STATE) if os.path.relpath(path, STATE) not in STATE_MAY_KEEP}


def network():
    found = set(kernel.network_state())
    for netns in place.netns_names():
        found.update(kernel.network_state(netns))
    return found


def cgroups():
    return {os.path.join(folder, name) for folder, folders, _ in os.walk(place.CGROUP) for name in folders}


def processes():
    return {f"{pid} chaosbpf" for pid in place.processes("chaosbpf")}


PARTS = {"bpf": kernel.bpf_objects, "pins": lambda: files_below(PIN_ROOT), "state": state_files, "network": network,
         "cgroups": cgroups, "processes": processes}


def snapshot(seconds=10):
    """Waits a little for what commands of before (`doctor` tries programs) have let go, and the kernel has not freed yet."""
    end = time.monotonic() + seconds
    while bpf_count("chaos_") and time.monotonic() < end:
        time.sleep(0.1)
    return {name: part() for name, part in PARTS.items()}


def difference(before, names=None):
    """What is there now and was not, and the other way round, as lines."""
    lines = []
    for name in names or PARTS:
        now = PARTS[name]()
        lines += [f"left over: {name}: {item}" for item in sorted(now - before[name])]
        lines += [f"gone: {name}: {item}" for item in sorted(before[name] - now)]
    return lines


def assert_nothing_left(before, names=None, seconds=10):
    """Waits a little: the kernel frees programs and maps after a grace period."""
    end = time.monotonic() + seconds
    names = list(names or PARTS)
    while True:
        names = [name for name in names if difference(before, [name])]
        if not names:
            return
        if time.monotonic() > end:
            raise AssertionError("not as before:\n" + "\n".join(difference(before, names)))
        time.sleep(0.1)
