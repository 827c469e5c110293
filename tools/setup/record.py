# SPDX-License-Identifier: Apache-2.0
"""What a run of tools/test did and how long it took: build/record.tsv, and the minutes of tools/README.md.

The shell writes a line for each stage as it ends (setup.sh). `finish` adds those of every test, of every
judge of the corpus run and of the twenty slowest tests, and compares stages with the manual's: where a run
from a clean clone on two cores is off by more than a factor of FACTOR, it fails. Machines differ, so the
run's own speed, the median over its stages, is taken out first. Downloads are not compared, nor fuzzers;
and nothing is of a run beside which others kept the processors busy, or whose compiler had a cache.

    tools/setup/record.py finish        # what tools/test does at its end
    tools/setup/record.py update        # writes the last run's minutes into the manual
"""

import os
import pathlib
import re
import statistics
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORD, MANUAL = ROOT / "build/record.tsv", ROOT / "tools/README.md"
BEGIN, END = "<!-- minutes -->\n", "<!-- end of minutes -->\n"
FACTOR, SLACK_S, SLOWEST = 2.0, 60.0, 20
OTHERS = 25  # percent of the processors' time
TIMED = {"set-up", "tests fuzz"}  # downloads, and what lasts as long as it is told to (nightly)
CORES = "2"


def lines(kind: str, text: str) -> list[list[str]]:
    return [line.split("\t")[1:] for line in text.splitlines() if line.startswith(kind + "\t")]


def stages(text: str) -> dict[str, float]:
    return {name: float(seconds) for name, seconds, _ in lines("stage", text)}


def others(text: str) -> int:
    """The most that something else had of the processors' time in a stage, in percent of it."""
    shares = [100 - int(own) for name, _, own in lines("stage", text) if name not in TIMED]
    return max(shares, default=0)


def manual_stages(text: str) -> dict[str, float]:
    """Seconds of the stages as the manual has them, in minutes."""
    table = text.partition(BEGIN)[2].partition(END)[0]
    return {name: 60 * float(minutes)
            for name, minutes in re.findall(r"^\| ([a-z -]+) \| ([\d.]+) \|$", table, re.M)}


def tests_of(path: pathlib.Path) -> list[tuple[str, str, float]]:
    """(name, status, seconds) of each test of ctest's record."""
    found = []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        found.append((case.get("name"), case.get("status"), float(case.get("time"))))
    return found


def off(found: dict[str, float], said: dict[str, float]) -> list[str]:
    """Stages that are off, relative to the speed of this machine."""
    both = [name for name in found if name in said and name not in TIMED]
    if not both:
        return []
    speed = statistics.median(found[name] / said[name] for name in both if said[name])
    return [f"{name} took {found[name] / 60:.1f} minutes; {said[name] * speed / 60:.1f} are expected here"
            for name in both if found[name] > FACTOR * said[name] * speed + SLACK_S
            or said[name] * speed > FACTOR * found[name] + SLACK_S]


def finish() -> int:
    text = RECORD.read_text()
    slow = []
    with RECORD.open("a") as record:
        for path in sorted(ROOT.glob("build/record-*.xml")):
            build = path.stem.removeprefix("record-")
            for name, status, seconds in tests_of(path):
                record.write(f"test\t{build}\t{name}\t{status}\t{seconds:.1f}\n")
                slow.append((seconds, build, name))
        corpus = ROOT / "build/corpus.tsv"
        for name, seconds in re.findall(r"^# seconds\t(\w+)\t([\d.]+)$",
                                        corpus.read_text() if corpus.exists() else "", re.M):
            record.write(f"judge\t{name}\t{seconds}\n")
        for seconds, build, name in sorted(slow, reverse=True)[:SLOWEST]:
            record.write(f"slowest\t{build}\t{name}\t{seconds:.1f}\n")
    tier, cores, fresh, _ = lines("run", text)[0]
    if (tier, cores, fresh) != ("commit", CORES, "fresh"):
        return 0
    if "CMAKE_C_COMPILER_LAUNCHER" in os.environ:
        print("test: minutes are not compared with tools/README.md's: the compiler is called by another program")
        return 0
    if others(text) > OTHERS:
        print(f"test: minutes are not compared with tools/README.md's: other processes had {others(text)} % of "
              "the processors' time")
        return 0
    found = off(stages(text), manual_stages(MANUAL.read_text()))
    for what in found:
        print(f"test: tools/README.md's minutes are not right: {what} (tools/setup/record.py update)")
    return 1 if found else 0


def update() -> int:
    found = stages(RECORD.read_text())
    rows = [*found.items(), ("in all", sum(found.values()))]
    table = "| stage | minutes |\n|---|---|\n" + "".join(f"| {n} | {s / 60:.1f} |\n" for n, s in rows)
    text = MANUAL.read_text()
    head, _, rest = text.partition(BEGIN)
    MANUAL.write_text(head + BEGIN + table + END + rest.partition(END)[2])
    return 0


def self_test() -> int:
    said = {"set-up": 60.0, "build release": 150.0, "tests debug": 300.0, "tests release": 600.0}
    slow = {name: 1.9 * seconds for name, seconds in said.items()}
    cases = [("as it is said", said, 0), ("a slow machine", slow, 0),
             ("tests that grew", said | {"tests release": 1500.0}, 1),
             ("tests that vanished", said | {"tests debug": 30.0}, 1),
             ("slow downloads", said | {"set-up": 600.0}, 0)]
    wrong = [what for what, found, count in cases if len(off(found, said)) != count]
    if others("stage\tset-up\t9\t3\nstage\tbuild tsan\t60\t97\nstage\ttests tsan\t60\t50\n") != 50:
        wrong.append("a busy machine")
    for what in wrong:
        print(f"FAIL {what}")
    print(f"record: {len(cases) + 1} cases, {len(wrong)} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit({"finish": finish, "update": update, "--self-test": self_test}[sys.argv[1]]())
