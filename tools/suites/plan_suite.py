# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's backend tests from plans: each model is compiled, and the runtime's outputs are
compared with the expected ones of the published data, at the suite's own tolerances.

Each model runs three times in one context, and once more after inputs of other shapes where its
inputs leave sizes open: what the runtime remembers of earlier runs must not show.

Shapes and dtypes must be equal, NaN equals NaN. What is excluded, and why, is listed in
suite/plan_exceptions.tsv; a line that excuses nothing is a failure. Exit 1 on any failure.

With --to the model is converted first, its inputs and outputs kept or (--io low) low as well, in
which case inputs are rounded. Tolerances and exceptions are then those of conversions:
suite/metric.py, suite/plan_low_exceptions.tsv. Models that a conversion leaves as they are count as
the same and are not run again.

    tools/suites/plan_suite.py --filter 'test_add*' --verbose
    tools/suites/plan_suite.py --to bfloat16 --io low
"""

import argparse
import collections
import contextlib
import fnmatch
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from suite import engines, metric, runtime, validity, workers

ROOT = pathlib.Path(__file__).resolve().parents[2]
RTOL, ATOL = 1e-3, 1e-7  # onnx.backend.test.runner's defaults
EXCEPTIONS = ROOT / "tools/suites/suite/plan_exceptions.tsv"
LOW_EXCEPTIONS = ROOT / "tools/suites/suite/plan_low_exceptions.tsv"
KINDS = {"operator": "compile", "random": "value", "data": "value", "discontinuous": "value",
         "rounding": "rounding"}


def read_expected(folder: pathlib.Path, model: onnx.ModelProto) -> list[object]:
    files = sorted(folder.glob("output_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
    return [engines.read_value(p, v.type) for p, v in zip(files, model.graph.output)]


def differs(got: object, want: object) -> str:
    """Why two values are not equal, or ""."""
    if isinstance(want, list) or want is None or isinstance(got, list) or got is None:
        if type(got) is not type(want) or (isinstance(want, list) and len(got) != len(want)):
            return f"{type(got).__name__}, expected {type(want).__name__}"
        found = [differs(a, b) for a, b in zip(got or [], want or [])]
        return next((f for f in found if f), "")
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if want.dtype.kind in "OUS":
        same = [str(a) == (b.decode() if isinstance(b, bytes) else str(b))
                for a, b in zip(got.ravel(), want.ravel())]
        return "" if all(same) else "other strings"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    exact = want.dtype.kind in "iub"
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (got, want))
    close = (got == want) if exact else np.isclose(a, b, RTOL, ATOL, equal_nan=True)
    if np.all(close):
        return ""
    where = np.argwhere(~close)[0]
    return f"{np.sum(~close)} of {want.size} differ, first {got[tuple(where)]} at " \
           f"{tuple(map(int, where))}, " \
           f"expected {want[tuple(where)]}"


def differs_low(to: str) -> Callable[[object, object], str]:
    """The same for a converted model: floats within a conversion's tolerance."""
    return lambda got, want: metric.compare(got, want, metric.TOLERANCE[to], "it")[1]


def read_exceptions(variant: str) -> list[tuple[str, str, str]]:
    """(pattern, kind, reason) rows; those of conversions have a column more, for the variant."""
    path = LOW_EXCEPTIONS if variant else EXCEPTIONS
    lines = [l for l in path.read_text().splitlines() if l and not l.startswith("#")]
    rows = [line.split("\t") for line in lines]
    return [(row[0], row[-2], row[-1]) for row in rows
            if not variant or fnmatch.fnmatch(variant, row[1])]


def excuse(name: str, stage: str, rows: list[tuple[str, str, str]]) -> str:
    """The pattern of the row that excuses a failure of that stage, or ""."""
    return next((pattern for pattern, kind, _ in rows
                 if fnmatch.fnmatch(name, pattern) and KINDS[kind] == stage), "")


LOW_NAMES = {number: to for to, number in validity.LOW_TYPE.items()}


def feed(runner: runtime.PlanRunner, feeds: dict[str, object]) -> list[object]:
    """Runs; inputs that a conversion made low are rounded for it."""
    low = {io.name.decode(): LOW_NAMES[io.dtype] for io in runner.inputs() if io.dtype in LOW_NAMES}
    return runner.run({name: metric.to_low(value, low[name]) if name in low else value
                       for name, value in feeds.items()})


def resized(feeds: dict[str, object], runner: runtime.PlanRunner) -> dict[str, object] | None:
    """The feeds with one more of each open axis; None where none is open."""
    open_axes = {io.name.decode(): [axis for axis in range(io.rank) if io.dims[axis] < 0]
                 for io in runner.inputs() if io.has_rank and io.kind == runtime.TENSOR}
    if not any(open_axes.values()):
        return None
    made = dict(feeds)
    for name, value in feeds.items():
        for axis in open_axes.get(name, []) if isinstance(value, np.ndarray) else []:
            if value.shape[axis]:
                made[name] = np.take(made[name], range(value.shape[axis] + 1), axis, mode="wrap")
    return made


def runs(runner: runtime.PlanRunner, feeds: dict[str, object]) -> Iterator[list[object]]:
    """Outputs of several runs of one context."""
    for _ in range(3):
        yield feed(runner, feeds)
    other = resized(feeds, runner)
    if other:
        with contextlib.suppress(runtime.Failed): # the model may not take it
            feed(runner, other)
        yield feed(runner, feeds)
        yield feed(runner, feeds)


class Runner:
    """Runs one model and says what is wrong, and at which stage; one lives in each worker."""

    def __init__(self, libraries: list[str], to: str, io: str, numerics: str,
                 kernels: str, device: str) -> None:
        self.the, self.runs_in = (runtime.LibDemi(library) for library in libraries)
        self.to, self.io, self.device = to, io, device
        self.numerics, self.kernels = "faithful" if to else numerics, kernels
        self.judge = differs_low(to) if to else differs

    def __call__(self, path: pathlib.Path) -> tuple[str, str]:
        data = path.read_bytes()
        model = onnx.load_from_string(data)
        try:
            converted = self.the.convert(data, self.to, self.io) if self.to else None
            if converted == data:
                return "", "same"
            plan = self.the.compile(converted or data, self.numerics,
                                    for_device=self.device != "cpu")
            runner = runtime.PlanRunner(self.runs_in, plan, kernels=self.kernels,
                                        device=self.device)
        except runtime.Failed as error:
            return str(error), "compile"
        for folder in sorted(path.parent.glob("test_data_set_*")):
            feeds = engines.read_feeds(model, folder) or {}
            expected = read_expected(folder, model)
            try:
                for number, got in enumerate(runs(runner, feeds)):
                    text, stage = self.compare(model, got, expected)
                    if not text:
                        continue
                    inherent = self.io == "low" and self.from_rounding(data, feeds, got)
                    return f"run {number}: {text}" if number else text, \
                        "rounding" if inherent else stage
            except runtime.Failed as error:
                return str(error), "run"
        return "", ""

    def compare(self, model: onnx.ModelProto, got: list[object],
                expected: list[object]) -> tuple[str, str]:
        """What is wrong with outputs, and at which stage; empty texts where nothing is."""
        for output, a, b in zip(model.graph.output, got, expected):
            text = self.judge(a, b)
            if text:
                stage = "type" if text.startswith(("shape", "dtype")) else "value"
                return f"{output.name}: {text}", stage
        return "", ""

    def from_rounding(self, data: bytes, feeds: dict[str, object], got: list[object]) -> bool:
        """Does the model as it was give the same once its inputs and outputs are rounded?"""
        source = runtime.PlanRunner(self.the, self.the.compile(data))
        wants = source.run({k: metric.rounded(v, self.to) for k, v in feeds.items()})
        return not any(self.judge(a, metric.rounded(b, self.to)) for a, b in zip(got, wants))


def built_library() -> str:
    """The release build's, where DEMI_SHARED was on."""
    return next((str(p) for p in (ROOT / "build/release").glob("libdemi.s*")), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--libdemi", default=built_library(), help="demi's shared library")
    parser.add_argument("--runtime",
                        help="a library that runs the plans, if another than compiles them")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--filter", default="*", help="glob on the model's name")
    parser.add_argument("--to", choices=["float16", "bfloat16"], default="",
                        help="convert the models to it first")
    parser.add_argument("--io", choices=["keep", "low"], default="keep", help="of --to")
    parser.add_argument("--operator", help="only models that hold this operator")
    parser.add_argument("--numerics", choices=runtime.NUMERICS, default="fast")
    parser.add_argument("--kernels", choices=runtime.KERNELS, default="auto")
    parser.add_argument("--device", default="cpu", help="what the plans run on: cpu, cuda")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    paths = [p for p in sorted(args.data.rglob("model.onnx"))
             if fnmatch.fnmatch(p.parent.name, args.filter)]
    if args.operator:
        paths = [p for p in paths if args.operator in
                 {n.op_type for n in onnx.load(p).graph.node}]
    start, failures, stages = time.monotonic(), [], collections.Counter()
    rows, used = read_exceptions(args.to and f"{args.to}/{args.io}"), set()
    if args.kernels == "onednn" and (problem := runtime.LibDemi(args.libdemi).onednn_problem()):
        sys.exit(f"oneDNN can't be used: {problem}")
    setup = ([args.libdemi, args.runtime or args.libdemi], args.to, args.io, args.numerics,
             args.kernels, args.device)
    for path, result, died in workers.run(paths, Runner, setup, args.processes):
        name, (text, stage) = path.parent.name, result or (died, "run")
        pattern = excuse(name, stage, rows) if text else ""
        used.add(pattern)
        stages["excepted" if pattern else stage or "pass"] += 1
        if text and not pattern:
            failures.append((name, stage, text))
            if args.verbose:
                print(f"FAIL {name}: {stage}: {text}", flush=True)
    reasons = collections.Counter(
        re.sub(r"node '[^']*'", "node", text) for _, stage, text in failures if stage != "value")
    for text, number in reasons.most_common(0 if args.verbose else 40):
        print(f"{number:5} {text}")
    if args.filter == "*" and not args.operator:
        for pattern, kind, _ in rows:
            if pattern not in used and kind != "random":
                failures.append((pattern, "exceptions", "excuses nothing"))
                print(f"FAIL exceptions: {pattern} excuses nothing")
    differ = stages['type'] + stages['value'] + stages['rounding']
    same = f"{stages['same']} stay as they are, " if args.to else ""
    print(f"{stages['pass']} of {len(paths)} pass, {same}{stages['excepted']} are excepted; "
          f"{stages['compile']} do not compile, {stages['run']} do not run, {differ} differ; "
          f"{time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
