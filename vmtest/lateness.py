#!/usr/bin/python3
"""Measure how late a sleeping process is woken, so that a case can tell a starved machine from a fault.

Sleeps 10 ms at a time; /run/lateness holds the worst delay in milliseconds of each of the last seconds, one line
"MONOTONIC-SECOND WORST-MS" each, newest last.
"""

import os
import time

NAP = 0.010
KEEP = 120


def write(lines):
    with open("/run/lateness.new", "w") as out:
        out.writelines(lines)
    os.rename("/run/lateness.new", "/run/lateness")


def main():
    os.nice(-5)  # of the machine's lateness, not of this process's rank among busy cases
    lines, worst, second = [], 0.0, int(time.monotonic())
    while True:
        start = time.monotonic()
        time.sleep(NAP)
        end = time.monotonic()
        worst = max(worst, end - start - NAP)
        if int(end) != second:
            lines = lines[1 - KEEP :] + [f"{second} {worst * 1000:.1f}\n"]
            write(lines)
            worst, second = 0.0, int(end)


main()
