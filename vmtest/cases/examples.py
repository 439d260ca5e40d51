#!/usr/bin/python3
# timeout: 480
"""Each rules file that comes with the program can be checked and loaded."""
import glob
import os
import re

import chaos
import place
from case import alone, check, check_equal, main, skip

RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../rules")

made = []


def make_cgroups(text):
    """Those that the file names."""
    for name in re.findall(r"\bcgroup: *([^\s,}]+)", text):
        if not os.path.isdir(os.path.join(place.CGROUP, name)):
            made.append(place.make_cgroup(name))


def teardown():
    for name in made:
        top = name.split("/")[0]
        if os.path.isdir(os.path.join(place.CGROUP, top)):
            place.remove_cgroup(top)


def setup():
    for path in sorted(glob.glob(RULES + "/*.yaml")):
        with open(path) as file:
            make_cgroups(file.read())


@alone
def load_each():
    """One in place of the other."""
    files = sorted(glob.glob(RULES + "/*.yaml"))
    if not files:
        skip("no rules files here")
    for path in files:
        name = os.path.basename(path)
        with open(path) as file:
            named = re.findall(r"^ *- name: *(\S+)", file.read(), re.MULTILINE)
        result = chaos.chaos("check", path)
        check_equal(result.code, 0, f"{name}: check: {result}")
        result = chaos.chaos("load", path, "--json")
        if check_equal(result.code, 0, f"{name}: load: {result}"):
            state = chaos.status()
            check_equal([rule["name"] for rule in state.all["rules"]], named, f"{name}: rules in status")
            check({rule["state"] for rule in state.all["rules"]} <= {"waiting", "active"}, f"{name}: {state.all['rules']}")


main(setup, teardown)
