#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Looks at the HTML report in a real browser: is the verdict seen, is the fault shaded where it was, does it fit.

tests/browser/run.py, with build/chaosbpf (or $CHAOSBPF). The findings are those of tests/data/findings-1.sql, whose run 2
has its fault from 10 to 30 of 40 seconds. KEEP=DIRECTORY keeps the pictures. Needs chromium; says so when there is none.
"""
import collections
import html.parser
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("CHAOSBPF", str(HERE.parent.parent / "build/chaosbpf"))
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VOID = {"meta", "br", "link", "img", "input"}

# Of user/findings/report_style.c.
LIGHT = {"ground": (255, 255, 255), "bad": (0xCF, 0x22, 0x2E), "success": (0x1A, 0x7F, 0x37), "p99": (0x82, 0x50, 0xDF)}
DARK_GROUND = (0x12, 0x16, 0x1C)
FAULT_ALPHA = 0x1F / 255


class Failed(Exception):
    pass


class NoBrowser(Exception):
    """It is there and does not come up: nothing can be said of the page."""


def expect(truth, words):
    if not truth:
        raise Failed(words)


def near(a, b, by=3):
    return all(abs(x - y) <= by for x, y in zip(a, b))


class Picture:
    """A PNG of eight bits a channel, as Chromium writes it."""

    def __init__(self, path):
        data = path.read_bytes()
        expect(data[:8] == b"\x89PNG\r\n\x1a\n", "the browser wrote no PNG")
        self.width, self.height, depth, colour = struct.unpack(">IIBB", data[16:26])
        self.channels = {2: 3, 6: 4}[colour]
        expect(depth == 8, "not eight bits a channel")
        packed, at = b"", 8
        while at < len(data):
            size, kind = struct.unpack(">I4s", data[at:at + 8])
            if kind == b"IDAT":
                packed += data[at + 8:at + 8 + size]
            at += 12 + size
        self.rows = self.unfilter(zlib.decompress(packed))

    def unfilter(self, raw):
        n, stride = self.channels, self.width * self.channels
        rows, above, at = [], bytearray(stride), 0
        for _ in range(self.height):
            kind, row = raw[at], bytearray(raw[at + 1:at + 1 + stride])
            at += 1 + stride
            if kind == 1:
                for i in range(n, stride):
                    row[i] = (row[i] + row[i - n]) & 255
            elif kind == 2:
                row = bytearray((a + b) & 255 for a, b in zip(row, above))
            elif kind == 3:
                for i in range(stride):
                    left = row[i - n] if i >= n else 0
                    row[i] = (row[i] + (left + above[i]) // 2) & 255
            elif kind == 4:
                for i in range(stride):
                    left, corner = (row[i - n], above[i - n]) if i >= n else (0, 0)
                    guess = left + above[i] - corner
                    far = abs(guess - left), abs(guess - above[i]), abs(guess - corner)
                    best = left if far[0] <= far[1] and far[0] <= far[2] else above[i] if far[1] <= far[2] else corner
                    row[i] = (row[i] + best) & 255
            rows.append(row)
            above = row
        return rows

    def at(self, x, y):
        i = x * self.channels
        return tuple(self.rows[y][i:i + 3])

    def count(self, colour, by=3):
        return sum(near(self.at(x, y), colour, by) for y in range(0, self.height, 2) for x in range(0, self.width, 2)) * 4

    def longest_run(self, y, colour):
        """The longest piece of row `y` in that colour: its first and last column, or None."""
        best, start = None, None
        for x in range(self.width + 1):
            if x < self.width and near(self.at(x, y), colour):
                start = x if start is None else start
            elif start is not None:
                if not best or x - start > best[1] - best[0] + 1:
                    best = (start, x - 1)
                start = None
        return best


class Page(html.parser.HTMLParser):
    """Refuses what would be fetched, and tags that are not closed."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "link", "img", "iframe", "object", "embed"):
            self.wrong.append(f"<{tag}>")
        self.wrong += [f"{name}={value}" for name, value in attrs if name in ("src", "href", "srcset", "xlink:href", "style")
                       or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")


def shoot(browser, work, page, name, width, height, *options):
    picture = work / f"{name}.png"
    command = [browser, "--headless=new", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
               f"--user-data-dir={work}/browser", f"--window-size={width},{height}", f"--screenshot={picture}", *options]
    if os.geteuid() == 0:
        command.append("--no-sandbox")
    try:
        done = subprocess.run([*command, page.as_uri()], capture_output=True, timeout=120)
    except subprocess.TimeoutExpired as late:
        raise NoBrowser(f"{browser} made no picture within {late.timeout:.0f} s") from late
    if not picture.exists():
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoBrowser(f"{browser} made no picture: {words[-1] if words else done.returncode}")
    return Picture(picture)


def tint(colour, ground, alpha):
    return tuple(round(g + (c - g) * alpha) for c, g in zip(colour, ground))


def look_at_light(picture):
    expect(picture.count(LIGHT["ground"]) > picture.width * picture.height / 3, "the page is not light")
    bar = [x for x in range(60) if sum(near(picture.at(x, y), LIGHT["bad"]) for y in range(200)) > 60]
    expect(len(bar) >= 6, "no red bar at the verdict")
    expect(picture.count(LIGHT["success"], 12) > 400, "no curve of the success rate")
    expect(picture.count(LIGHT["p99"], 12) > 400, "no curve of p99")


def look_at_shade(picture):
    """The fault was at work from a quarter to three quarters of the time; the axis gives the width of the whole."""
    shade = tint(LIGHT["bad"], LIGHT["ground"], FAULT_ALPHA)
    runs = [run for y in range(picture.height) if (run := picture.longest_run(y, shade)) and run[1] - run[0] > 150]
    # Curves cross it, and a row of the table has the same colour: what most rows say is the chart's.
    expect(len(runs) > 60, f"the fault is not shaded: {len(runs)} rows")
    left = collections.Counter(run[0] for run in runs).most_common(1)[0][0]
    right = collections.Counter(run[1] for run in runs).most_common(1)[0][0]
    width = picture.width - 2 * 20 if picture.width < 960 else 960 - 2 * 20
    margin = (picture.width - width) / 2
    scale = width / 880  # the charts' own units, see report_svg.c
    start, end = margin + 64 * scale, margin + (880 - 22) * scale
    for what, x, share in (("begins", left, 0.25), ("ends", right, 0.75)):
        is_at = (x - start) / (end - start)
        expect(abs(is_at - share) < 0.01, f"the shade {what} at {is_at:.3f} of the time, not {share}")


def look_at_narrow(picture):
    """What is too wide would reach the edge."""
    for y in range(picture.height):
        expect(all(near(picture.at(x, y), LIGHT["ground"]) for x in range(picture.width - 8, picture.width)),
               f"row {y} reaches the right edge")


def make_page(work, run="2"):
    database, page = work / "f.db", work / "page.html"
    connection = sqlite3.connect(database)
    connection.executescript((HERE.parent / "data/findings-1.sql").read_text())
    connection.close()
    subprocess.run([PROGRAM, "report", run, "--database", database, "--html", page], check=True)
    return page


def look(browser, work):
    page = make_page(work)
    reader = Page()
    reader.feed(page.read_text())
    expect(not reader.wrong and not reader.open, f"not self-contained or not well-formed: {reader.wrong} {reader.open}")
    light = shoot(browser, work, page, "light", 1000, 1500)
    look_at_light(light)
    look_at_shade(light)
    dark = shoot(browser, work, page, "dark", 1000, 800, "--blink-settings=preferredColorScheme=0")
    expect(dark.count(DARK_GROUND) > dark.width * dark.height / 3, "the page is not dark where dark is preferred")
    look_at_narrow(shoot(browser, work, page, "narrow", 500, 2500))


def main():
    browser = next((b for b in BROWSERS if shutil.which(b)), None)
    if not browser:
        print("skip browser/report: no chromium here")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        try:
            look(browser, work)
            print("ok browser/report")
            return 0
        except NoBrowser as why:
            print(f"skip browser/report: {why}")
            return 0
        except (Failed, subprocess.SubprocessError) as why:
            print(f"not ok browser/report: {why}")
            return 1
        finally:
            if os.environ.get("KEEP"):
                for picture in work.glob("*.png"):
                    shutil.copy(picture, os.environ["KEEP"])


if __name__ == "__main__":
    sys.exit(main())
