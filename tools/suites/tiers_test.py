# SPDX-License-Identifier: Apache-2.0
"""No test is lost: every *_test.c, every script of tools/suites, every fuzzer and every list of mutants is
in tests.tsv, and the tier `commit` has a run of each, or a row says why not; what --quick runs is a part of
that. And ctest has of this build just what the table says.

`--self-test` shows that each fault is found.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from suite import tiers
from suite.tiers import BUILDS, TIERS, Row

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITES = ROOT / "tools/suites"
# Scripts that compiled tests run, named there.
OF_PROGRAMS = {"client_verify.sh": "client_verify", "link_test.sh": "link", "runtime_only.sh": "runtime_only"}
# Those of tools/suites/*.c, which are compiled tests with names of their own.
OF_SUITES = {"golden_test.c": "golden", "long_context_test.c": "long_context", "op_attrs_test.c": "op_attrs",
             "threads_test.c": "threads"}


def wanted() -> dict[str, str]:
    """What must have rows: a compiled test's name, or a script's -> where it is."""
    found = {}
    for path in sorted(ROOT.rglob("*_test.c")):
        if "build" not in path.relative_to(ROOT).parts:
            found[OF_SUITES.get(path.name, path.stem)] = str(path.relative_to(ROOT))
    for path in sorted(SUITES.glob("*.py")) + sorted(SUITES.glob("*.sh")):
        found[OF_PROGRAMS.get(path.name, path.name)] = str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tools/fuzz").glob("fuzz_*.c")):
        if "LLVMFuzzerTestOneInput" in path.read_text():
            found[f"replay_{path.stem.removeprefix('fuzz_')}"] = str(path.relative_to(ROOT))
    for name in ("hostile_operators", "hostile_models"):
        found[f"={name}"] = f"tools/fuzz/{name}.c"
    return found


def table_problems(rows: list[Row], things: dict[str, str]) -> list[str]:
    found = []
    for row in rows:
        if not set(row.tiers) <= set(TIERS) or not set(row.builds) <= set(BUILDS):
            found.append(f"{row.name}: unknown tier or build")
        if row.program and row.program[0] != "=" and not (SUITES / row.program).exists():
            found.append(f"{row.name}: there is no {row.program}")
    for name, place in things.items():
        mine = [r for r in rows if name == r.program or not r.program and any(
            r.covers(name, build) for build in r.builds)]
        tested = {tier for row in mine for tier in row.tiers}
        if not mine:
            found.append(f"{place} is in no row of tests.tsv")
        elif "commit" not in tested and not any(row.why for row in mine):
            found.append(f"{place} has no run in the tier commit, and no row says why")
        elif "quick" in tested and "commit" not in tested:
            found.append(f"{place} is in quick and not in commit")
        if mine and "nightly" not in tested:
            found.append(f"{place} has no run in the tier nightly")
    return found


def registered(build: pathlib.Path) -> dict[str, set[str]]:
    """ctest's tests and their labels."""
    shown = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                           capture_output=True, check=True).stdout
    return {test["name"]: set(next((p["value"] for p in test.get("properties", [])
                                    if p["name"] == "LABELS"), []))
            for test in json.loads(shown)["tests"]}


def build_problems(rows: list[Row], build: str, tests: dict[str, set[str]], has: set[str]) -> list[str]:
    """Where ctest has something else than the table."""
    found = []
    for name, labels in tests.items():
        row = next((r for r in rows if r.covers(name, build)), None)
        want = set(row.tiers) if row else set()
        if labels & set(TIERS) != want:
            found.append(f"ctest has {name} in {sorted(labels & set(TIERS))}, the table in {sorted(want)}")
    for row in rows:
        there = any(row.covers(name, build) for name in tests)
        if build in row.builds and not there and row.needs in has:
            found.append(f"ctest has no test {row.name} in {build}")
    return found


def preset_problems(rows: list[Row]) -> list[str]:
    """The thread sanitizer's build makes the programs that its rows run, and no others."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    chosen = next(p for p in presets if p["name"] == "tsan")["cacheVariables"]["DEMI_UNIT_TESTS"]
    built = {f"{name}_test" for name in chosen.split("|")} | {"threads"}
    run = {row.name for row in rows if "tsan" in row.builds}
    return [f"the preset tsan builds {sorted(built)}, rows run {sorted(run)}"] if built != run else []


def self_test(rows: list[Row], things: dict[str, str]) -> list[str]:
    """Faults that must be found."""
    name = "gradient_test.py"
    quick = [r if r.program != name else Row(r.name, ("quick",), *list(vars(r).values())[2:]) for r in rows]
    none = [r for r in rows if r.program != name]
    faults = [("a label that leaves commit out", table_problems(quick, things)),
              ("a script without a row", table_problems(none, things)),
              ("a new test program", table_problems(rows, things | {"new_program": "x/new_program.c"})),
              ("a label of ctest's own", build_problems(rows, "release", {"gradient": {"quick"}}, set()))]
    return [f"self-test: {what} is not found" for what, found in faults if not found]


def main() -> None:
    parser = argparse.ArgumentParser(description="Is every test in a tier?")
    parser.add_argument("--build", type=pathlib.Path, help="a configured release build")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    rows, things = tiers.read(tiers.PATH.read_text()), wanted()
    found = table_problems(rows, things) + preset_problems(rows)
    if args.build:
        has = {"plain", "-", "shared"} | ({"fake"} if (args.build / "fake_cuda").exists() else set())
        found += build_problems(rows, "release", registered(args.build), has)
    if args.self_test:
        found += self_test(rows, things)
    for text in found:
        print("FAIL", text)
    print(f"tiers: {len(rows)} rows, {len(things)} tests, {len(found)} failures")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
