#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges `convert --to int8` and the weights' types on seeded random models, as the corpus run does the
16-bit types.

Each model (suite/random_styles.py, random_graphs.py) is measured on its own inputs and converted in every
way of WAYS. Then:
  - the file passes ONNX's full check, and is the same bytes with one thread and with two;
  - ONNX Runtime runs it, without optimizations, and is as near to demi's own run as both are to the
    float model: what two runtimes round differently is at most a part of what quantizing lost;
  - what each way loses is, in the middle of all models, no more than LEAST says;
  - strip-qdq leaves no pair that the source had not, and results no further from the source than
    weights can be that were rounded once.

Excluded: sources that ONNX's check refuses or ONNX Runtime can't run, or whose outputs are not finite; numbers of outputs that
rounding makes jump (Sample.jumpy, operators of random_scope.JUMPS); types that ONNX Runtime has no
kernels for, which are counted. The same seed makes the same model again; --save keeps failing ones.

    tools/suites/quantize_suite.py --seeds 1:200 [--kinds style,graph] [--save DIR]
"""

import argparse
import collections
import math
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

from suite import random_graphs, random_scope, random_styles, walk
from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILDERS = {"style": random_styles.build, "graph": random_graphs.build}
CALIBRATED = [["--to", "int8"],
              ["--to", "int8", "--activations", "int8", "--symmetric", "--calibration", "minmax"],
              ["--to", "int8", "--activations", "uint16", "--calibration", "percentile"],
              ["--to", "int8", "--calibration", "entropy"]]
WEIGHTS = [["--to", "int8-weights"], ["--to", "int4-weights"],
           ["--to", "int4-weights", "--block", "16"], ["--to", "fp8-weights"]]
# dB that the middle one of at least FEW models keeps, of those that something was quantized in: 3 to 5 less
# than was measured.
LEAST = dict(zip((" ".join(way) for way in [*CALIBRATED, *WEIGHTS]), [43, 41, 44, 34, 44, 27, 27, 33]))
FEW = 20
PAIRS = {"QuantizeLinear", "DequantizeLinear"}
SHARE = 0.5  # of what quantizing lost, that runtimes may differ by
EXACT = 1e-5  # of the values: what they differ by in float


class Failure(Exception):
    """What is wrong."""


class Missing(Exception):
    """ONNX Runtime has no kernel for it."""


def command(*words: object) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"exit {done.returncode}: {done.stderr.strip().splitlines()[0][:200]}")


def by_onnxruntime(path: pathlib.Path, feeds: dict) -> list:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        made = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return made.run(None, feeds)
    except Exception as error:  # ONNX Runtime's own kinds
        text = str(error)
        known = ("NOT_IMPLEMENTED", "Could not find an implementation", "is not a registered function/op",
                 "is under development")
        raise (Missing if any(word in text for word in known) else Failure)(text[:300]) from None


def check(path: pathlib.Path) -> None:
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise Failure(f"ONNX's check: {error}") from None


def off(have: object, want: object) -> tuple[float, float]:
    """Roots of the sums of squares: of the difference, and of what is wanted."""
    a, b = np.asarray(have, np.float64), np.asarray(want, np.float64)
    return float(np.linalg.norm(a - b)), float(np.linalg.norm(b))


class Model:
    """One source: its file, its inputs and what ONNX Runtime makes of them."""

    def __init__(self, kind: str, seed: int, work: pathlib.Path) -> None:
        self.sample, self.work = BUILDERS[kind](seed), work
        self.path, self.data = work / "source.onnx", work / "data"
        onnx.save(self.sample.model, self.path)
        check(self.path)
        feeds = self.sample.feeds
        if not all(isinstance(value, np.ndarray) for value in feeds.values()):
            raise Missing("inputs that are no tensors")
        self.data.mkdir()
        np.savez(self.data / "0.npz", **feeds)
        self.want = by_onnxruntime(self.path, feeds)
        jumps = any(n.op_type in random_scope.JUMPS for n in walk.model_nodes(self.sample.model))
        names = [output.name for output in self.sample.model.graph.output]
        self.counts = [] if jumps else [
            i for i, value in enumerate(self.want)
            if isinstance(value, np.ndarray) and value.dtype == np.float32 and value.size and
            names[i] not in self.sample.jumpy]
        if not all(np.isfinite(self.want[i]).all() for i in self.counts):
            raise Missing("outputs that are not finite")

    def pairs(self, model: onnx.ModelProto) -> int:
        return sum(n.op_type in PAIRS for n in walk.model_nodes(model))


class Suite:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.counts = collections.Counter()
        self.scores = collections.defaultdict(list)

    def convert(self, model: Model, way: list[str], threads: int) -> pathlib.Path:
        out = model.work / f"{threads}.onnx"
        out.unlink(missing_ok=True)
        calibrates = ["--calibrate", model.data, "-t", threads] if way in CALIBRATED else []
        command(self.args.demi, "convert", model.path, "-o", out, "-q", *way, *calibrates)
        return out

    def mine(self, path: pathlib.Path, feeds: dict) -> list:
        return session(path).run(None, feeds)

    def near(self, model: Model, have: list, other: list) -> None:
        for i in model.counts:
            lost, size = off(have[i], model.want[i])
            apart, _ = off(have[i], other[i])
            if apart <= SHARE * lost + EXACT * size + 1e-7:
                continue
            source = self.mine(model.path, model.sample.feeds) # which may be far off itself
            if not apart <= SHARE * lost + 2 * off(source[i], model.want[i])[0]:
                raise Failure(f"demi and ONNX Runtime: output {i} is {apart:.3g} apart, quantizing "
                              f"lost {lost:.3g} of {size:.3g}")

    def stripped(self, model: Model, path: pathlib.Path, lost: list) -> None:
        out = model.work / "stripped.onnx"
        command(self.args.demi, "opt", path, "-o", out, "-q", "--passes", "infer-dtypes,strip-qdq")
        if model.pairs(onnx.load(out)) > model.pairs(model.sample.model):
            raise Failure("strip-qdq leaves pairs")
        have = by_onnxruntime(out, model.sample.feeds)
        for i in model.counts:
            left, size = off(have[i], model.want[i])
            if not left <= 2 * off(lost[i], model.want[i])[0] + 0.02 * size + 1e-6:
                raise Failure(f"strip-qdq: output {i} is {left:.3g} off, of {size:.3g}")

    def judge(self, model: Model, way: list[str]) -> None:
        path = self.convert(model, way, 1)
        if way in CALIBRATED and path.read_bytes() != self.convert(model, way, 2).read_bytes():
            raise Failure("two threads make another file")
        check(path)
        quantized = onnx.load(path)
        if model.pairs(quantized) == model.pairs(model.sample.model):
            self.counts["nothing quantized"] += 1
        have = by_onnxruntime(path, model.sample.feeds)
        self.near(model, have, self.mine(path, model.sample.feeds))
        self.stripped(model, path, have)
        self.note(way, [off(have[i], model.want[i]) for i in model.counts])
        self.counts["judged"] += 1

    def note(self, way: list[str], errors: list[tuple[float, float]]) -> None:
        """How many dB the worst output is off that was quantized at all."""
        found = [20 * math.log10(size / lost) for lost, size in errors if lost > EXACT * size > 0]
        if found:
            self.scores[" ".join(way)].append(min(found))

    def too_low(self) -> int:
        failed = 0
        for way, least in LEAST.items():
            scores = self.scores[way]
            middle = statistics.median(scores) if scores else math.inf
            low = len(scores) >= FEW and middle < least
            print(f"{'FAIL' if low else 'ok  '} {way}: {middle:.1f} dB in the middle of {len(scores)}")
            failed += low
        return failed

    def run(self, kind: str, seed: int) -> int:
        failed = 0
        with tempfile.TemporaryDirectory() as folder:
            try:
                model = Model(kind, seed, pathlib.Path(folder))
            except (Missing, Failure):
                self.counts["sources left out"] += 1
                return 0
            for way in [*CALIBRATED, *WEIGHTS]:
                try:
                    self.judge(model, way)
                except Missing:
                    self.counts["no kernel in ONNX Runtime"] += 1
                except (Failure, demi.DemiError) as problem:
                    failed += 1
                    print(f"FAIL {kind} {seed} {' '.join(way)}: {' '.join(str(problem).split())[:300]}",
                          flush=True)
                    if self.args.save:
                        shutil.copytree(folder, self.args.save / f"{kind}-{seed}", dirs_exist_ok=True)
        return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--seeds", default="1:60")
    parser.add_argument("--kinds", default="style,graph")
    parser.add_argument("--save", type=pathlib.Path)
    args = parser.parse_args()
    first, end = (int(number) for number in args.seeds.split(":"))
    suite, failed = Suite(args), 0
    for kind in args.kinds.split(","):
        for seed in range(first, end):
            failed += suite.run(kind, seed)
    failed += suite.too_low()
    print(", ".join(f"{count} {what}" for what, count in sorted(suite.counts.items())), f"; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
