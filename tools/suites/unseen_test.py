# SPDX-License-Identifier: Apache-2.0
"""Converts kinds of network that the converter was not built on (suite/unseen_models.py), by
default options, and holds the results to what a first try must give.

In float16 and in bfloat16: a file that ONNX's full check takes; no NaN; outputs within 2 % and 10 %
of the float32 model's, which ONNX Runtime computes, in demi's runtime and, float16, in ONNX Runtime
too; weights at most 0.52 of their original size, or, but for those that always halve, a note that names those
that stay. Rows that a score selects are held against the row nearest to each: which of two equals comes first is not an error.
Networks of angles also with weights of 8 bits, within 5 %.
"""

import argparse
import json
import pathlib
import shutil
import sys

import numpy as np
import onnx
import onnxruntime as ort

from suite import metric, unseen_models
from suite.command import Demi, work_folder
from suite.package import library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = {"float16": 0.02, "bfloat16": 0.10, "int8-weights": 0.05}
ANGLES = ("rotary", "fourier")  # whose angles 8 bits would leave nothing of
MOST_WEIGHTS = 0.52
UNMATCHED = 0.05  # of the selected rows: scores at the threshold
MEMORY = 4 << 30
SEEDS = (1, 2)


def session_of(path: pathlib.Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def selected_error(got: np.ndarray, want: np.ndarray) -> float:
    """The error by scale that all but UNMATCHED of the rows, of either side, stay below."""
    got, want = (a.reshape(-1, a.shape[-1] if a.ndim > 1 else 1) for a in (got, want))
    if not len(got) or not len(want):
        return float(len(got) != len(want))
    distance = np.abs(got[:, None] - want[None]).max(-1) / np.abs(want).max()
    return float(max(np.quantile(distance.min(1), 1 - UNMATCHED),
                     np.quantile(distance.min(0), 1 - UNMATCHED)))


class Test:
    def __init__(self, demi: Demi) -> None:
        self.demi, self.failures = demi, 0

    def judge(self, what: str, problems: list[str]) -> None:
        self.failures += bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {what} {'; '.join(problems)[:400]}", flush=True)

    def errors(self, name: str, got: list[np.ndarray], want: list[np.ndarray],
               limit: float) -> list[str]:
        problems = []
        for y, y0 in zip(got, want, strict=True):
            if not np.all(np.isfinite(y)):
                problems.append("NaN or Inf")
            elif name in unseen_models.SELECTING:
                error = selected_error(np.asarray(y, np.float64), np.asarray(y0, np.float64))
                problems += [f"selected rows off by {error:.2g}"] if error > limit else []
            else:
                error, text = metric.compare(y, y0, limit, "")
                problems += [f"off by {error:.2g} {text}"] if text else []
        return problems

    def convert(self, name: str, source: pathlib.Path, low: pathlib.Path, to: str) -> list[str]:
        report = self.demi.folder / "report.json"
        run = self.demi.run("convert", str(source), "-o", str(low), "--to", to, "--quiet", "--json",
                            str(report))
        if run.code:
            return [run.problem()]
        try:
            onnx.checker.check_model(low, full_check=True)
        except Exception as error:  # noqa: BLE001 whatever it raises, the file is invalid
            return [f"invalid: {error}"]
        made = json.loads(report.read_text())
        before, after = (sum(row[when] for kind, row in made["weights"].items() if "float" in kind)
                         for when in ("before", "after"))
        said = any("of their original size" in note or "already int8" in note for note in made["notes"])
        if after > MOST_WEIGHTS * before and name in unseen_models.HALVED:
            return [f"weights {after / before:.3f} of their original size"]
        if after > MOST_WEIGHTS * before and not said:
            return [f"weights {after / before:.3f} of their original size, and no note says why"]
        return []

    def run(self, low: pathlib.Path, feeds: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
        plan = low.with_suffix(".plan")
        run = self.demi.run("compile", str(low), "-o", str(plan), "--quiet")
        if run.code:
            sys.exit(f"unseen_test: compile: {run.problem()}")
        runner = session(plan, 2, MEMORY)
        return [runner.run(None, feed) for feed in feeds]

    def model(self, name: str) -> None:
        model, feeds_of = unseen_models.MODELS[name]()
        source = self.demi.folder / f"{name}.onnx"
        onnx.save(model, source)
        feeds = [feeds_of(seed) for seed in SEEDS]
        wants = [session_of(source).run(None, feed) for feed in feeds]
        for to, limit in LIMIT.items():
            if to == "int8-weights" and not name.startswith(ANGLES):
                continue
            low = self.demi.folder / f"{name}.{to}.onnx"
            problems = self.convert(name, source, low, to)
            if not problems:
                gots = self.run(low, feeds)
                if to == "float16":
                    gots += [session_of(low).run(None, feed) for feed in feeds]
                for got, want in zip(gots, wants * 2, strict=False):
                    problems += self.errors(name, got, want, limit)
            self.judge(f"{name} {to}", problems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--models", default=",".join(unseen_models.MODELS), help="a comma list")
    args = parser.parse_args()
    folder = work_folder()
    try:
        test = Test(Demi(args.demi, folder))
        for name in filter(None, args.models.split(",")):
            test.model(name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
