# SPDX-License-Identifier: Apache-2.0
"""Holds demi's runtime against ONNX Runtime on whole networks.

The networks of suite/made_models.py, small (default) or as they are (--full), on seeded inputs: a
plan's outputs lie within 1e-4 of ONNX Runtime's by the outputs' scale (suite/metric.py), those of
the model converted to float16 with kept I/O within 2 %. And silero-vad over 50 steps, each with the
state that the step before it gave.
"""

import argparse
import pathlib
import shutil
import sys

import numpy as np
import onnx
import onnxruntime as ort

from suite import made_models, metric
from suite.command import Demi, work_folder
from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT_LIMIT = 1e-4
VAD_STEPS, VAD_WINDOW = 50, 576
MEMORY = 4 << 30


def session_of(path: pathlib.Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, ["CPUExecutionProvider"])


class Test:
    def __init__(self, command: Demi) -> None:
        self.demi, self.failures = command, 0

    def judge(self, what: str, problem: str, error: float = 0) -> None:
        self.failures += bool(problem)
        print(f"{'FAIL' if problem else 'ok  '} {what}: error {error:.1e} {problem[:300]}",
              flush=True)

    def runner(self, path: pathlib.Path) -> demi.Session:
        plan = path.with_suffix(".plan")
        run = self.demi.run("compile", str(path), "-o", str(plan))
        if run.code:
            sys.exit(f"made_models_test: compile: {run.problem()}")
        return session(plan, 2, MEMORY)

    def compare(self, what: str, runner: demi.Session, feeds: dict[str, np.ndarray],
                want: list[np.ndarray], limit: float) -> None:
        worst, problem = 0.0, ""
        got = runner.run(None, feeds)
        for io, y, y0 in zip(runner.get_outputs(), got, want, strict=True):
            error, text = metric.compare(y, y0, limit, io.name)
            worst, problem = max(worst, error), problem or text
            if not np.all(np.isfinite(y0)) or not np.any(y0):
                problem = problem or "the reference's output is not a measure"
        self.judge(what, problem, worst)

    def model(self, what: str, model: onnx.ModelProto) -> None:
        source, low = self.demi.folder / "source.onnx", self.demi.folder / "low.onnx"
        onnx.save(model, source)
        feeds = made_models.feeds_of(model)
        want = session_of(source).run(None, feeds)
        self.compare(f"{what} float", self.runner(source), feeds, want, FLOAT_LIMIT)
        run = self.demi.run("convert", str(source), "-o", str(low), "--to", "float16", "--quiet")
        if run.code:
            self.judge(f"{what} float16", run.problem())
            return
        limit = metric.TOLERANCE["float16"]
        self.compare(f"{what} float16", self.runner(low), feeds, want, limit)

    def voice(self, path: pathlib.Path) -> None:
        """Outputs of each step; the state goes its own way in each runtime."""
        source, rng = self.demi.folder / "vad.onnx", np.random.default_rng(5)
        shutil.copy(path, source)
        theirs_session, runner = session_of(source), self.runner(source)
        ours = theirs = np.zeros((2, 1, 128), np.float32)
        worst, problem, rate = 0.0, "", {"sr": np.array(16000, np.int64)}
        for step in range(VAD_STEPS):
            sound = (rng.standard_normal((1, VAD_WINDOW)) * 0.1).astype(np.float32)
            y0, theirs = theirs_session.run(None, {"input": sound, "state": theirs} | rate)
            y, ours = runner.run(None, {"input": sound, "state": ours} | rate)
            for got, want, name in ((y, y0, "output"), (ours, theirs, "state")):
                error, text = metric.compare(got, want, FLOAT_LIMIT, f"step {step} {name}")
                worst, problem = max(worst, error), problem or text
        self.judge(f"{path.stem}, {VAD_STEPS} steps", problem, worst)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--full", action="store_true", help="the networks' own sizes")
    parser.add_argument("--models", default=",".join(made_models.MODELS), help="a comma list")
    args = parser.parse_args()
    folder = work_folder()
    try:
        test = Test(Demi(args.demi, folder))
        for name in filter(None, args.models.split(",")):
            sizes = {} if args.full else made_models.SMALL[name]
            test.model(name, made_models.MODELS[name](**sizes))
            if name == "bert":
                test.model("bert, one operator a norm", made_models.bert(
                    fused_norm=True, **made_models.SMALL[name]))
        test.voice(ROOT / "build/data/models/silero-vad/silero_vad.onnx")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
