# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's backend tests from plans: each model is compiled, and the runtime's outputs are compared
with the expected ones of the published data, at the suite's own tolerances.

Shapes and dtypes must be equal, NaN equals NaN. What is excluded, and why, is listed in
suite/plan_exceptions.tsv; a line that excuses nothing is a failure. Exit 1 on any failure.

    tools/plan_suite.py --filter 'test_add*' --verbose
"""

import argparse
import collections
import fnmatch
import os
import pathlib
import re
import sys
import time

import numpy as np
import onnx
from onnx import numpy_helper

from suite import engines, runtime, workers

ROOT = pathlib.Path(__file__).resolve().parent.parent
RTOL, ATOL = 1e-3, 1e-7  # onnx.backend.test.runner's defaults
EXCEPTIONS = ROOT / "tools/suite/plan_exceptions.tsv"


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
    return f"{np.sum(~close)} of {want.size} differ, first {got[tuple(where)]} at {tuple(map(int, where))}, " \
           f"expected {want[tuple(where)]}"


def read_exceptions() -> list[tuple[str, str, str]]:
    """(pattern, kind, reason) rows."""
    lines = [l for l in EXCEPTIONS.read_text().splitlines() if l and not l.startswith("#")]
    return [tuple(line.split("\t")) for line in lines]


def excuse(name: str, stage: str, rows: list[tuple[str, str, str]]) -> str:
    """The pattern of the row that excuses a failure of that stage, or ""."""
    stages = {"operator": "compile", "random": "value", "data": "value"}
    return next((pattern for pattern, kind, _ in rows
                 if fnmatch.fnmatch(name, pattern) and stages[kind] == stage), "")


def make_runner(library: str, numerics: str):  # noqa: ANN201
    """In each worker: the function that runs one model and says what is wrong, and at which stage."""
    the = runtime.Library(library)

    def work(path: pathlib.Path) -> tuple[str, str]:
        data = path.read_bytes()
        model = onnx.load_from_string(data)
        try:
            runner = runtime.PlanRunner(the, the.compile(data, numerics))
        except runtime.Failed as error:
            return str(error), "compile"
        for folder in sorted(path.parent.glob("test_data_set_*")):
            feeds = engines.read_feeds(model, folder)
            try:
                got = runner.run(feeds or {})
            except runtime.Failed as error:
                return str(error), "run"
            for output, a, b in zip(model.graph.output, got, read_expected(folder, model)):
                text = differs(a, b)
                if text:
                    stage = "type" if text.startswith(("shape", "dtype")) else "value"
                    return f"{output.name}: {text}", stage
        return "", ""

    return work


def built_library() -> str:
    """The release build's, where DEMI_SHARED was on."""
    return next((str(p) for p in (ROOT / "build/release").glob("libdemi.s*")), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=built_library(), help="demi's shared library")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--filter", default="*", help="glob on the model's name")
    parser.add_argument("--operator", help="only models that hold this operator")
    parser.add_argument("--numerics", choices=runtime.NUMERICS, default="fast")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    paths = [p for p in sorted(args.data.rglob("model.onnx"))
             if fnmatch.fnmatch(p.parent.name, args.filter)]
    if args.operator:
        paths = [p for p in paths if args.operator in
                 {n.op_type for n in onnx.load(p).graph.node}]
    start, failures, stages = time.monotonic(), [], collections.Counter()
    rows, used = read_exceptions(), set()
    for path, result, died in workers.run(paths, make_runner, (args.library, args.numerics), args.processes):
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
        for pattern, _, _ in rows:
            if pattern not in used:
                failures.append((pattern, "exceptions", "excuses nothing"))
                print(f"FAIL {EXCEPTIONS.name}: {pattern} excuses nothing")
    print(f"{stages['pass']} of {len(paths)} pass, {stages['excepted']} are excepted; {stages['compile']} do not compile, "
          f"{stages['run']} do not run, {stages['type'] + stages['value']} differ; {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
