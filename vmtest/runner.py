#!/usr/bin/python3
"""Run the cases of /chaos/cases.list inside the guest, one after another, and report to the host.

The first argument is the results port. One line for each event goes there:

    start NAME
    ok NAME SECONDS | not ok NAME: REASON | skip NAME: REASON

Everything the cases print goes to stdout, which leads to the output port; a line "=== NAME" begins each case. A kernel
message that splats.deny names and splats.allow does not is a failure of its own, after the case that caused it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path("/chaos/vmtest")
CASES = HERE / "cases"
SKIPPED = 77
KEEP_PIDS = {1, os.getpid()}


def case_timeout(path):
    """A case may say `# timeout: SECONDS` on a line of its own; the default is a minute. A busy host gives more."""
    found = re.search(r"^# timeout: *(\d+)", path.read_text(), re.MULTILINE)
    return (int(found.group(1)) if found else 60) * int(Path("/chaos/slow").read_text())


def patterns(name):
    lines = (HERE / name).read_text().splitlines()
    return [re.compile(line, re.IGNORECASE) for line in lines if line and not line.startswith("#")]


class KernelLog:
    """New messages of the kernel since the last look, and which of them are splats."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.deny, self.allow = patterns("splats.deny"), patterns("splats.allow")

    def new(self):
        while True:
            try:
                record = os.read(self.fd, 8192).decode(errors="replace")
            except BlockingIOError:
                return
            except BrokenPipeError:  # the ring buffer overran us: go on with what is left
                continue
            prefix, _, text = record.partition(";")
            facility = int(prefix.split(",")[0]) >> 3
            if facility == 0:  # others were written to /dev/kmsg by programs
                yield text.splitlines()[0]

    def splats(self):
        messages = list(self.new())
        hits = [m for m in messages if self.is_splat(m)]
        return messages, hits

    def is_splat(self, message):
        return any(p.search(message) for p in self.deny) and not any(p.search(message) for p in self.allow)


def processes():
    """Every process of user space but init, this one and the watchdog."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in KEEP_PIDS:
            try:
                if os.readlink(f"/proc/{entry}/exe"):
                    yield int(entry)
            except OSError:  # a kernel thread, or gone
                pass


def clean_up():
    """Give the next case the machine that this one got."""
    for _ in range(20):
        left = list(processes())
        if not left:
            break
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    shutil.rmtree("/sys/fs/bpf/chaosbpf", ignore_errors=True)
    shutil.rmtree("/run/chaosbpf", ignore_errors=True)
    for name in os.listdir("/run/netns"):
        subprocess.run(["ip", "netns", "delete", name], check=False)
    for name in os.listdir("/sys/class/net"):
        if name not in ("lo", "bonding_masters"):
            subprocess.run(["ip", "link", "delete", name], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "clsact"], check=False, stderr=subprocess.DEVNULL)
    for path, dirs, _ in os.walk("/sys/fs/cgroup", topdown=False):
        for name in dirs:
            try:
                os.rmdir(os.path.join(path, name))
            except OSError:  # a hierarchy of its own, or a controller's files
                pass


def run_case(name):
    """Run one case; the verdict is ("ok", None), ("skip", reason) or ("not ok", reason)."""
    path = CASES / f"{name}.py"
    limit = case_timeout(path)
    log = Path("/run/case.log")
    with log.open("wb") as out:
        child = subprocess.Popen(
            ["/usr/bin/python3", str(path)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            status = child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            status = None
    if status is None:
        verdict = ("not ok", f"still running after {limit} s")
        stuck_where(child.pid, log)
        child.kill()
        child.wait()
    else:
        verdict = verdict_of(status, log)
    sys.stdout.buffer.write(log.read_bytes())
    return verdict


def stuck_where(pid, log):
    """For a case that timed out: what runs, and where the kernel keeps it."""
    with log.open("ab") as out:
        out.write(b"\n--- still running:\n")
        out.flush()
        for left in {pid, *processes()}:
            for part in ("cmdline", "wchan", "stack"):
                try:
                    out.write(f"{left} {part}: ".encode() + Path(f"/proc/{left}/{part}").read_bytes() + b"\n")
                except OSError:
                    pass


def verdict_of(status, log):
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = lines[-1].strip()[:300] if lines else ""
    if status == 0:
        return ("ok", None)
    if status == SKIPPED:
        return ("skip", last or "no reason given")
    return ("not ok", last or f"exit status {status}")


def main():
    results = open(sys.argv[1], "w", buffering=1)
    watchdog = subprocess.Popen([sys.executable, str(HERE / "lateness.py")])
    KEEP_PIDS.add(watchdog.pid)
    kernel = KernelLog()
    list(kernel.new())  # what the boot said is the host's to judge, from the console
    for name in Path("/chaos/cases.list").read_text().split():
        print(f"=== {name}", flush=True)
        print(f"start {name}", file=results)
        start = time.monotonic()
        verdict, reason = run_case(name)
        took = time.monotonic() - start
        clean_up()
        messages, hits = kernel.splats()
        if messages:
            print("--- kernel messages:", *messages, sep="\n")
        print(f"--- {verdict} {reason or ''} {took:.1f} s", flush=True)
        print(f"ok {name} {took:.1f}s" if verdict == "ok" else f"{verdict} {name}: {reason}", file=results)
        if hits:
            print(f"not ok {name}-kernel: {hits[0]}", file=results)


main()
