# SPDX-License-Identifier: Apache-2.0
"""Measures the power of the tests: makes the mutants of mutants/, one at a time, and says which test sees each.

A mutant is made in a worktree of its own, build/mutants/NAME, of the last commit of --source, with builds of
its own in there (release; debug for those that a sanitizer has to see). Only what the tests at hand need is
built. First the tests that are expected to see it run, then the rest of the tier, until one fails. A test counts
if it passes without a change. The file is restored whatever happens. A kernel of the device is compiled to PTX
alone, which the fake device reads instead of the library's.

    tools/suites/mutants.py --check                        # whether each can be made, and its tests exist
    tools/suites/mutants.py --area proto,passes            # one after the other: takes hours
    tools/suites/mutants.py --days 7                       # a seventh of all, another one each day
    tools/suites/mutants.py --only 'a batch' --hints       # nothing but the tests that are expected to see it
    tools/suites/mutants.py --source ../older --tier quick # the same changes of another checkout
"""

import argparse
import collections
import datetime
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

from mutants import AREAS, Mutant, mutants_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINKS = ("venv", "data", "onednn", "downloads")
DEVICE = (".cu", ".cuh")
OF_TEXT = "^(format|check_includes|operator_names|ops_def|unused|mutants_check)$"
BESIDE = {"libdemi.so": "libdemi_runtime_only.so", "fake_cuda": "cuda"}  # what tests find by the name of another


def run(*words: object, cwd: pathlib.Path, **more: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, check=False,
                          errors="replace", **more)


def must(*words: object, cwd: pathlib.Path, **more: object) -> str:
    done = run(*words, cwd=cwd, **more)
    if done.returncode:
        sys.exit(f"mutants: {' '.join(map(str, words))}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def make_tree(source: pathlib.Path) -> pathlib.Path:
    """A worktree of the source's last commit, what was built in it before included."""
    tree = ROOT / "build/mutants" / source.name
    commit = must("git", "rev-parse", "HEAD", cwd=source).strip()
    if not (tree / ".git").exists():
        must("git", "worktree", "prune", cwd=source)
        must("git", "worktree", "add", "--detach", "--force", tree, commit, cwd=source)
    must("git", "checkout", "--quiet", "--detach", "--force", commit, cwd=tree)
    (tree / "build").mkdir(exist_ok=True)
    for name in LINKS:
        old, new = source / "build" / name, tree / "build" / name
        if old.exists() and not new.is_symlink():
            new.symlink_to(old.resolve())
    return tree


class Build:
    """One build folder of the tree: what its tests need, and which of them fail."""

    def __init__(self, tree: pathlib.Path, preset: str, args: argparse.Namespace) -> None:
        self.tree, self.folder, self.args = tree, tree / "build" / preset, args
        self.good: set[str] = set()  # tests that pass without a change
        self.bad: set[str] = set()
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        must("cmake", "--preset", preset, f"-DDEMI_WERROR={'OFF' if preset == 'debug' else 'ON'}", "-DDEMI_TESTS=ON", "-DDEMI_SHARED=ON",
             f"-DDEMI_PYTHON={tree}/build/venv/bin/python", *launcher,
             *(f"-D{define}" for define in args.define), cwd=tree)
        text = (self.folder / "CTestTestfile.cmake").read_text()
        self.needs = collections.defaultdict(set)  # paths in the folder that a test's lines name
        self.tier: set[str] = set()
        for kind, name, rest in re.findall(r"^(add_test|set_tests_properties)\(\[=\[(.*?)\]=\](.*)\)$", text, re.M):
            self.needs[name] |= set(re.findall(re.escape(str(self.folder)) + r'[^";: ]*', rest))
            labels = re.search(r' LABELS "([^"]*)"', rest)
            if kind != "add_test" and labels and any(re.search(args.tier, label) for label in labels[1].split(";")):
                self.tier.add(name)
        if not self.tier and not args.hints:
            sys.exit(f"mutants: no test has a label {args.tier}: say --tier, or --hints")
        outputs = must("ninja", "-t", "targets", "all", cwd=self.folder)
        self.outputs = [line.rsplit(":", 1)[0] for line in outputs.splitlines() if not line.endswith(": phony")]

    def targets_of(self, tests: set[str]) -> list[str]:
        """What has to be built for them: files that they name, or that lie in folders that they name."""
        named = {os.path.relpath(path, self.folder) for test in tests for path in self.needs[test]}
        named |= {beside for name in named for key, beside in BESIDE.items() if name.startswith(key)}
        if "." in named:
            return ["all"]
        return sorted(o for o in self.outputs if o in named or any(o.startswith(n + "/") for n in named))

    def make(self, tests: set[str]) -> str:
        """Why they can't be built, or ""."""
        targets = self.targets_of(tests)
        if not targets:
            return ""
        done = run("ninja", f"-j{self.args.jobs}", *targets, cwd=self.folder)
        lines = (done.stdout + done.stderr).splitlines()
        return "" if done.returncode == 0 else next((x for x in lines if "error:" in x), lines[-1])

    def must_make(self, tests: set[str]) -> None:
        if problem := self.make(tests):
            sys.exit(f"mutants: {problem}")

    def tests_of(self, mutant: Mutant) -> list[set[str]]:
        """In the order in which they are tried: those that are expected to see it, then the rest of the tier."""
        known = {name for name in self.tier or self.needs if not re.search(self.args.without, name)} - self.bad
        hinted = [set(fnmatch.filter(known, hint)) for hint in mutant.tests.split()]
        return hinted if self.args.hints else [*hinted, known & self.tier]

    def failing(self, tests: set[str], stop: bool, environment: dict[str, str]) -> list[str]:
        """Which of the tests fail; with `stop`, until one does."""
        if not tests:
            return []
        told = self.folder / "mutants.xml"
        told.unlink(missing_ok=True)
        names = "|".join(map(re.escape, sorted(tests)))
        run("ctest", "--test-dir", self.folder, "-R", f"^({names})$", "-j", self.args.jobs, "--timeout",
            self.args.timeout, "--output-junit", told, *["--stop-on-failure"] * stop, cwd=self.tree,
            env=os.environ | environment)
        cases = xml.etree.ElementTree.parse(told).getroot().iter("testcase")
        return [case.get("name", "") for case in cases if case.get("status") == "fail"]

    def know(self, tests: set[str]) -> None:
        """Finds out which of them pass without a change."""
        unknown = tests - self.good - self.bad
        self.must_make(unknown)
        self.bad |= set(self.failing(unknown, False, {}))
        self.good |= unknown - self.bad


def ptx_of(build: Build, mutant: Mutant) -> dict[str, str]:
    """The environment in which the fake device reads the changed kernels."""
    made, source = build.folder / "mutant_ptx", build.tree / mutant.file
    cache = (build.folder / "CMakeCache.txt").read_text()
    nvcc = re.search(r"^DEMI_NVCC:FILEPATH=(.*)", cache, re.M)
    if not nvcc:
        return {}
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    for path in (build.folder / "cuda").glob("*.*"):
        if path.suffix in (".ptx", ".fatbin"):
            (made / path.name).symlink_to(path)
    for family in mutant.families.split() or [source.stem]:
        output = made / f"{family}.ptx"
        output.unlink()
        done = run(nvcc[1], "-ptx", "-arch=compute_90", "-std=c++17", "-O3", f"-I{source.parent}",
                   f"-I{build.tree / 'rewrite/base'}", "-o", output, source.parent / f"{family}.cu", cwd=build.tree)
        if done.returncode:
            return {}
    return {"FAKE_CUDA_FOLDER": str(made)}


def seen_by(build: Build, mutant: Mutant) -> str:
    """The first test that fails with the change in place, "" where none does, or why it can't be built."""
    environment = ptx_of(build, mutant) if mutant.file.endswith(DEVICE) else {}
    if mutant.file.endswith(DEVICE) and not environment:
        return "does not build"
    tried: set[str] = set()
    for tests in build.tests_of(mutant):
        if not mutant.file.endswith(DEVICE) and (problem := build.make(tests - tried)):
            return f"does not build: {problem}"
        if failed := build.failing(tests - tried, True, environment):
            return failed[0]
        tried |= tests
    return ""


def tried_out(build: Build, mutant: Mutant) -> str:
    """The same, of tests that pass without the change; the file is as it was then."""
    path = build.tree / mutant.file
    text, status = path.read_text(), path.stat()
    if mutant.file.endswith(DEVICE):  # what is built now is without the change, and without the last mutant's
        build.must_make(set().union(*build.tests_of(mutant)))
    while True:
        try:
            path.write_text(text.replace(mutant.old, mutant.new))
            found = seen_by(build, mutant)
        finally:
            path.write_text(text)
            if mutant.file.endswith(DEVICE):  # nothing was built of it, and nothing need be
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        if found not in build.needs or found in build.good:
            return found
        build.know({found})


def count_of(mutant: Mutant, source: pathlib.Path) -> int:
    path = source / mutant.file
    return path.read_text().count(mutant.old) if path.exists() else 0


def names_of(source: pathlib.Path) -> list[str]:
    """The tests that there are, or may be: compiled ones, and the table's."""
    found = must("git", "ls-files", "*_test.c", "tools/fuzz/fuzz_*.c", cwd=source).splitlines()
    stems = [pathlib.Path(path).stem for path in found]
    table = (source / "tools/suites/tests.tsv").read_text().splitlines()
    return [*stems, *(stem.replace("fuzz_", "replay_") for stem in stems), *(line.split("\t")[0] for line in table)]


def check(chosen: list[tuple[str, Mutant]], source: pathlib.Path) -> int:
    """Whether each can be made, and is told apart from the others."""
    wrong = [f"{m.what}: {m.file} has {n} times {m.old!r}" for _, m in chosen if (n := count_of(m, source)) != 1]
    names = collections.Counter(m.what for _, m in chosen)
    wrong += [f"{what}: there are {n} of that name" for what, n in names.items() if n > 1]
    wrong += [f"{m.what}: it changes nothing" for _, m in chosen if m.old == m.new]
    if (source / "tools/suites/tests.tsv").exists():
        known = names_of(source)
        wrong += [f"{m.what}: there is no test {hint}" for _, m in chosen for hint in m.tests.split()
                  if not fnmatch.filter(known, hint)]
    print(*wrong, f"{len(chosen)} mutants, {len(wrong)} of them are wrong", sep="\n")
    return 1 if wrong else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="only whether each can be made, and its tests exist")
    parser.add_argument("--only", default="", help="mutants with these words, or of this file")
    parser.add_argument("--area", default=",".join(AREAS), help="of " + ", ".join(AREAS))
    parser.add_argument("--days", type=int, default=1, help="in how many days all are made, a part each day")
    parser.add_argument("--tier", default="^commit$", help="label of the tests that run (default: %(default)s)")
    parser.add_argument("--without", default=OF_TEXT, help="tests that look at texts (default: %(default)s)")
    parser.add_argument("--hints", action="store_true", help="only the tests that are expected to see it")
    parser.add_argument("--source", type=pathlib.Path, default=ROOT, help="another checkout of the sources")
    parser.add_argument("--define", action="append", default=[], help="for cmake, as DEMI_CUDA=OFF")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=600, help="seconds of a test that says none itself")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    args.source = args.source.resolve()
    chosen = [(area, m) for area in args.area.split(",") for m in mutants_of(area)
              if args.only in m.what or m.file.endswith("/" + args.only)]
    if args.check:
        return check(chosen, args.source)
    chosen = chosen[datetime.date.today().toordinal() % args.days::args.days]
    os.environ.setdefault("CCACHE_BASEDIR", str(args.source.parent))
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    tree, builds, counts = make_tree(args.source), {}, collections.Counter()
    for area, mutant in chosen:
        begin, preset = time.monotonic(), "debug" if mutant.sanitizer else "release"
        if count_of(mutant, tree) != 1:
            found = "can't be made"
        else:
            build = builds[preset] = builds.get(preset) or Build(tree, preset, args)
            build.know(set().union(*build.tests_of(mutant)[:1]))
            found = tried_out(build, mutant)
        verdict = "SEEN" if preset in builds and found in builds[preset].needs else "BROKEN" if found else "MISSED"
        counts[verdict] += 1
        print(f"{verdict:7}{area:9}{mutant.what} ({time.monotonic() - begin:.0f} s){': ' * bool(found)}{found}",
              flush=True)
    for preset, build in builds.items():
        if build.bad:
            print(f"{preset}: fail without a change, and do not count: {', '.join(sorted(build.bad))}")
    print(", ".join(f"{counts[v]} {v.lower()}" for v in ("SEEN", "MISSED", "BROKEN")))
    return 0 if counts["SEEN"] == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
