#!/usr/bin/python3
# timeout: 120
"""Rules that name a container, a pod or a unit, in cgroup v2 with systemd's layout."""
import contained
import place
from case import alone, main

here = None


def setup():
    global here
    here = contained.Place("v2", place.CGROUP)


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
