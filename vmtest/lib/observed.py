"""`chaosbpf observe` beside a case: started, measuring, and what it said in the end."""
import json
import signal

import chaos
from case import check, check_equal


class Observed:
    """with Observed("--cgroup", "x") as seen: ... ; then seen.rows."""

    def __init__(self, *options):
        self.options = options
        self.rows = []

    def __enter__(self):
        self.process = chaos.start("observe", "--json", *self.options)
        line = self.process.stderr.readline()
        if "measuring" not in line:
            self.process.kill()
            raise AssertionError(f"observe: {line}{self.process.stderr.read()}{self.process.stdout.read()}")
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        if kind is None:
            check_equal(self.process.returncode, 0, f"observe ends: {err}")
            self.rows = json.loads(out)["rows"]

    def sum(self, key, **where):
        """Of all rows that hold these; `key` may be a path: "failures.refused"."""
        total = 0
        for row in self.rows:
            if all(row[name] == value for name, value in where.items()):
                value = row
                for part in key.split("."):
                    value = value[part]
                total += value
        return total

    def row(self, **where):
        """The only row that holds these."""
        found = [row for row in self.rows if all(row[name] == value for name, value in where.items())]
        if not check(len(found) == 1, f"{len(found)} rows for {where}: {self.rows}"):
            raise AssertionError("no single row")
        return found[0]
