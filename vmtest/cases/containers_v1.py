#!/usr/bin/python3
# timeout: 120
# cgroup: hybrid
"""Rules that name a container, a pod or a unit, in cgroup v1 hierarchies with the plain layout."""
import os

import contained
from case import alone, main, skip
from runtimes import V1

here = None


def setup():
    global here
    if not os.path.isdir(V1):
        skip("no cgroup v1 hierarchy in this guest")
    here = contained.Place("v1", V1)


def teardown():
    if here:
        here.close()


@alone
def by_name():
    contained.by_name(here)


@alone
def comes_again():
    contained.comes_again(here)


@alone
def is_awaited():
    contained.is_awaited(here)


@alone
def is_two():
    contained.is_two(here)


main(setup, teardown)
