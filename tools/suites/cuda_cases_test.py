# SPDX-License-Identifier: Apache-2.0
"""Runs random models of an operator or two on a CUDA device and on the processor (suite/cuda_cases.py).

The plan is the same but for where it runs; outputs are equal but for a rounding of their type, and half a
unit of the largest value on the way for each rounding that one side does and the other does not
(Case.between): what follows may make values smaller, but not their errors larger. A
second and a third run, from a recording, give the same bits, and a fourth on other inputs what the
processor gives.

On the fake device (tools/fake_cuda, named in LD_LIBRARY_PATH) some cases run without one of the libraries, so that
demi's own kernels compute products and convolutions, or on a device without clusters; nothing is computed in TF32,
all is given back, and together cases launch each kernel of kernels/cuda.

What runs are the cases of suite/cuda_chosen.tsv: of many random ones few that together come wherever all came, in
kernels and libraries. Written anew where makers or kernels have changed:

    tools/suites/cuda_cases_test.py --libdemi build/release/libdemi.so --choose 0:20000

Random ones, as many as one likes:

    tools/suites/cuda_cases_test.py --libdemi build/release/libdemi.so --seeds 0:20000
"""

import argparse
import collections
import ctypes
import dataclasses
import heapq
import json
import os
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

import ml_dtypes
import numpy as np
import onnx

from suite import cuda_case, cuda_cases, metric
from suite.package import demi, library_option
from suite.runtime import PlanRunner

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHOSEN = ROOT / "tools/suites/suite/cuda_chosen.tsv"
MEMORY = 1 << 30
AGAIN = 6  # one of so many random cases runs once more in each other way
OFTEN = 2  # chosen cases that come to the same, where there are as many
LEAST = 0.9  # of the kinds that they were chosen for, before they have to be chosen anew
PRODUCTS = "matmul gemm einsum conv tiles network mixed recurrent bits few".split()
# Without a library, and on a device without clusters: what the fake device is told, and whose cases.
WAYS = {"plain": ("", []), "no-cudnn": ("fail=cudnnBackendFinalize:0:3000", PRODUCTS),
        "no-cublaslt": ("fail=cublasLtMatmulAlgoGetHeuristic:0:15", PRODUCTS),
        "no-clusters": ("capability=80", "tiles network deep first few".split())}


@dataclasses.dataclass(frozen=True, order=True)
class Which:
    """A case: how it runs, what makes it."""

    way: str
    maker: str
    seed: int


def largest(case: cuda_case.Case) -> float:
    """Of all values on the way, as the model has them."""
    model = case.model()
    ends = {o.name for o in model.graph.output}
    names = [n for node in model.graph.node for n in node.output if n and n not in ends]
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    plan = demi.compile(model, numerics="faithful", keep_values=True)
    made = PlanRunner(plan, memory=MEMORY).run(case.feeds)
    sizes = [np.abs(x.astype(np.float64)) for x in made if metric.is_float(x.dtype)]
    return max((float(np.max(x[np.isfinite(x)], initial=0)) for x in sizes), default=0.0)


def differs(got: np.ndarray, want: np.ndarray, case: cuda_case.Case, on_the_way: float) -> str:
    """Why the two are not the same but for so many roundings; "" where they are."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    if not metric.is_float(want.dtype):
        return "" if np.array_equal(got, want) else f"{np.sum(got != want)} of {want.size} differ"
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "NaN or infinity elsewhere"
    unit = float(ml_dtypes.finfo(want.dtype).eps)
    scale = float(np.max(np.abs(b[finite]), initial=0))
    sums = case.loose * (2.0 ** -20 if want.dtype != np.float64 else 2.0 ** -44)
    coarse = float(ml_dtypes.finfo(case.coarse or want.dtype).eps)
    limit = (1.01 * unit * np.abs(b) + sums * max(scale, case.terms) + 1e-30
             + case.between * (coarse / 2 * on_the_way))
    far = np.zeros(b.shape, bool)
    far[finite] = ~(np.abs(a[finite] - b[finite]) <= limit[finite])
    if not np.any(far):
        return ""
    at = tuple(map(int, np.argwhere(far)[0]))
    return f"{np.sum(far)} of {want.size} differ, first {a[at]:.8g} at {at}, expected {b[at]:.8g}"


def wrong_in(case: cuda_case.Case) -> str:
    """What is wrong in runs of it; "" for nothing."""
    if not case.nodes:
        return ""
    try:
        plan = demi.compile(case.model(), device="cuda")
        processor = PlanRunner(plan, memory=MEMORY)
        runner = PlanRunner(plan, memory=MEMORY, device="cuda")
        got = [runner.run(case.feeds) for _ in range(3)]
        others = {n: x if n in case.kept else np.roll(x.ravel(), 1).reshape(x.shape)
                  for n, x in case.feeds.items()}
        pairs = list(zip(got[0], processor.run(case.feeds)))
        pairs += zip(runner.run(others), processor.run(others))
        declined = runner.device_counts().declined
    except demi.DemiError as error:
        return str(error)
    if declined:
        return f"the device leaves {declined} steps to the processor"
    on_the_way = largest(case) if case.between else 0.0
    for i, (y, y0) in enumerate(pairs):
        text = differs(y, y0, case, on_the_way)
        if text:
            return f"output {i % len(got[0])}: {text}"
    same = all(a.tobytes() == b.tobytes() for other in got[1:] for a, b in zip(other, got[0]))
    return "" if same else "another run gives other bits"


# ---- what cases come to ----

def kinds_of(which: Which, case: cuda_case.Case) -> set[str]:
    """What operators, types, attributes and operands it has, and what is unusual about it."""
    made = {f"{which.maker}: {mark}" for mark in case.marks}
    types = {name: str(array.dtype) for name, array in (case.feeds | case.constants).items()}
    for node in case.nodes:
        dtype = next((types[name] for name in node.input if name in types), "")
        given = "".join("c" if n in case.constants else "f" if n in case.feeds else "n" if n else "-" for n in node.input)
        made |= {f"{node.op_type} {dtype} {mark}" for mark in ("", *case.marks)} | {f"{node.op_type} {given[:6]}"}
        for attribute in node.attribute:
            value = onnx.helper.get_attribute_value(attribute)
            if isinstance(value, list):
                value = f"{len(value)} {'even' if len(set(value)) < 2 else 'uneven'}"
            if not isinstance(value, onnx.TensorProto):
                made.add(f"{node.op_type} {attribute.name} {value}"[:80])
    return made


class Reached:
    """Where kernels and libraries of the fake device came to."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file, self.driver = folder / f"reached{os.getpid()}", ctypes.CDLL("libcuda.so.1")
        self.counts: dict[str, int] = {}

    def take(self) -> set[str]:
        """Since the last time: ways of branches, and kinds of products and convolutions."""
        self.driver.fake_reached(str(self.file).encode())
        made = set()
        for line in self.file.read_text().splitlines():
            what, number = line.rsplit(" ", 1)
            first = what.split(" ", 1)[0]
            if first in ("product", "convolution"):
                if int(number) > self.counts.get(what, 0):
                    made.add(what)
                self.counts[what] = int(number)
            elif first not in ("call", "launched", "captured", "made", "engine"):
                made |= {f"{what} {bit}" for bit in (1, 2, 4, 8) if int(number) & bit}
        return made


def choose(reached: dict[Which, list[str]]) -> list[Which]:
    """Few of them that come to all that all come to, most of it OFTEN: by turns the one that has most that is new,
    of the plain ones first. Each maker's are in that order."""
    found = collections.Counter(kind for kinds in reached.values() for kind in set(kinds))
    left = {kind: min(OFTEN, count) for kind, count in found.items()}
    made = []
    for way in WAYS:
        waiting = [(-len(kinds), which) for which, kinds in reached.items() if which.way == way]
        heapq.heapify(waiting)
        while waiting:
            worth, which = heapq.heappop(waiting)
            now = -sum(left[kind] > 0 for kind in reached[which])
            if now == 0:
                continue
            if now > worth:  # it was worth more before others came
                heapq.heappush(waiting, (now, which))
                continue
            made.append(which)
            for kind in reached[which]:
                left[kind] -= 1
    return sorted(made, key=lambda w: (list(WAYS).index(w.way), w.maker))


def write_chosen(chosen: list[Which], kinds: int) -> None:
    lines = collections.defaultdict(list)
    for which in chosen:
        lines[which.way, which.maker].append(which.seed)
    text = "".join(f"{way}\t{maker}\t{' '.join(map(str, seeds))}\n" for (way, maker), seeds in lines.items())
    CHOSEN.write_text(f"# Written by cuda_cases_test.py --choose: how cases run, what makes them, of which seeds.\n"
                      f"# They come to {kinds} kinds.\n{text}")


def read_chosen() -> tuple[list[Which], int]:
    """And to how many kinds they came when they were chosen. Those of all makers come by turns, what has most that is
    new first, so that most failures come early."""
    text = CHOSEN.read_text()
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    cases = [(at, Which(way, maker, int(seed))) for way, maker, seeds in rows for at, seed in enumerate(seeds.split())]
    return [which for _, which in sorted(cases)], int(re.search(r"come to (\d+) kinds", text)[1])


# ---- processes ----

class Bench:
    """What all processes have: where they tell what they found."""

    def __init__(self, folder: pathlib.Path, first: bool, fake: bool) -> None:
        self.folder = folder
        self.stop = folder / "stop" if first else None
        self.fake = fake

    def work(self, cases: Iterable[Which], to: pathlib.Path) -> int:
        """In a process of its own, whose end is the device's too."""
        failures, reached = 0, Reached(self.folder) if self.fake else None
        with to.open("w") as noted:
            for which in cases:
                if self.stop and self.stop.exists():
                    break
                case = cuda_cases.build(which.maker, which.seed)
                text = wrong_in(case)
                if reached and case.nodes:
                    kinds = reached.take() | (kinds_of(which, case) if which.way == "plain" else set())
                    print(json.dumps([which.way, which.maker, which.seed, list(kinds)]), file=noted)
                if text:
                    failures += 1
                    if self.stop:
                        self.stop.touch()
                    print(f"FAIL {which.maker}, seed {which.seed}, {which.way}: {text}", flush=True)
        return 1 if failures else 0

    def start(self, number: int, way: str, cases: list[Which]) -> int:
        """Of a child that has what this process has read; what ends with it tells what was not given back."""
        child = os.fork()
        if child:
            return child
        code = 70
        try:
            os.environ["FAKE_CUDA"] = f"log={self.folder}/log{number},{WAYS[way][0]}"
            code = self.work(cases, self.folder / f"noted{number}")
            sys.stdout.flush()
        except BaseException as error:  # noqa: BLE001
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        ctypes.CDLL(None).exit(code)
        return 0


def in_processes(start: Callable[[int, str, list[Which]], int], jobs: list[tuple[str, list[Which]]], most: int) -> int:
    """How many of the jobs failed; `most` at once."""
    running, failed, waiting = 0, 0, list(enumerate(jobs))
    while waiting or running:
        while waiting and running < most:
            number, (way, cases) = waiting.pop(0)
            start(number, way, cases)
            running += 1
        failed += os.waitstatus_to_exitcode(os.wait()[1]) != 0
        running -= 1
    return failed


def kernels() -> set[str]:
    """The names of all, as the build's PTX has them; none without a fake device."""
    folder = next((p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":")
                   if pathlib.Path(p, "libcuda.so.1").exists() and p.endswith("fake_cuda")), None)
    if not folder:
        return set()
    files = pathlib.Path(folder).parent.glob("cuda/*.ptx")
    return {name for f in files for name in re.findall(r"\.visible \.entry (\w+)", f.read_text())}


def read_ahead(names: set[str]) -> None:
    """Once for all processes."""
    for name in names:
        ctypes.CDLL("libcuda.so.1").fake_read_ahead(name.encode())


def random_cases(seeds: range, makers: str, there: bool) -> list[Which]:
    of = [Which("plain", cuda_cases.maker_of(seed), seed) for seed in seeds]
    some = [w for w in of if not makers or w.maker in makers.split(",")]
    again = [dataclasses.replace(w, way=way) for way, (_, of) in WAYS.items() for w in some
             if there and w.maker in of and w.seed // len(cuda_cases.MAKERS) % AGAIN == 0]
    return some + again


def split(cases: list[Which], processes: int) -> list[tuple[str, list[Which]]]:
    """What each process does, in one way."""
    jobs = [("plain", [w for w in cases if w.way == "plain"][number::processes]) for number in range(processes)]
    jobs += [(way, [w for w in cases if w.way == way]) for way in WAYS if way != "plain"]
    return [job for job in jobs if job[1]]


def counted(folder: pathlib.Path) -> tuple[collections.Counter, int]:
    """Launches of each kernel in all logs, and what was computed in TF32."""
    launched: collections.Counter = collections.Counter()
    rounded = 0
    for log in folder.glob("log*"):
        for kind, name, count in (line.rsplit(" ", 2) for line in log.read_text().splitlines()):
            launched[name] += int(count) * (kind in ("launched", "captured"))
            rounded += int(count) * ((kind, name) == ("engine", "tf32"))
    return launched, rounded


def reached_in(folder: pathlib.Path) -> dict[Which, list[str]]:
    rows = [json.loads(line) for noted in sorted(folder.glob("noted*")) for line in noted.read_text().splitlines()]
    return {Which(way, maker, seed): kinds for way, maker, seed, kinds in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--seeds", help="FROM:TO, TO not included: random cases rather than the chosen ones")
    parser.add_argument("--choose", metavar="FROM:TO", help="choose of these, and write them down")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", action="store_true", help="end with the first failure")
    parser.add_argument("--makers", default="", help="cases of these alone")
    args, start = parser.parse_args(), time.monotonic()
    names, seeds, known = kernels(), args.choose or args.seeds, 0
    if seeds:
        cases = random_cases(range(*map(int, seeds.split(":"))), args.makers, bool(names))
    else:
        cases, known = read_chosen()
        cases = [w for w in cases if (not args.makers or w.maker in args.makers.split(",")) and (names or w.way == "plain")]
    read_ahead(names)
    with tempfile.TemporaryDirectory() as folder:
        there, jobs = pathlib.Path(folder), split(cases, args.processes)
        failed = in_processes(Bench(there, args.first, bool(names)).start, jobs, args.processes)
        launched, rounded = counted(there)
        reached = reached_in(there)
    found = len({kind for kinds in reached.values() for kind in kinds})
    if args.choose and not failed:
        chosen = choose(reached)
        write_chosen(chosen, found)
        print(f"{len(chosen)} are chosen")
    missing = sorted(n for n in names if not launched[n])
    wrong = f"{rounded} products and convolutions were computed in TF32, which nobody asked for\n" if rounded else ""
    if names and not args.makers and not args.seeds and not (args.first and failed):
        wrong += f"never launched: {', '.join(missing)}\n" if missing else ""
        wrong += f"{found} kinds are reached of {known}: choose anew (--choose)\n" if found < LEAST * known else ""
    for line in wrong.splitlines():
        print(f"FAIL: {line}")
    print(f"{len(cases)} cases, {len(names) - len(missing)} kernels, {found} kinds; {failed} of {len(jobs)} "
          f"processes failed; {time.monotonic() - start:.0f} s")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
