# SPDX-License-Identifier: Apache-2.0
"""Judges `demi` on real models (build/data/models, fetched by tools/test).

Of every model: an empty pipeline writes the same bytes; a conversion to float16 and bfloat16 with
graph I/O kept and low is valid by ONNX's full check and strict inference and keeps the contract and
all metadata; the float16 result runs in ONNX Runtime and its outputs lie within 2 % of the source's
on seeded random inputs (suite/metric.py), and so do those of its plan in demi's runtime; plans of
the source, fast and faithful, give ONNX Runtime's outputs within 1e-4 of the largest value, twice
in a row; weights shrink to at most 0.55 (the detector, whose large
BatchNorm variance stays fp32, 0.6); and converting the text recogniser takes under 100 ms.

The scale of an error is the output's largest value, and at least 1 for probabilities (outputs of
Sigmoid and Softmax): of 6,625 probabilities of characters the 99th percentile is some 1e-4, which
is not a scale to judge the one that counts by. On pictures of digits, which the text models read,
the answers are compared as their users take them: the recognised text and the mask of text pixels.
"""

import argparse
import pathlib
import shutil
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite import digits, engines, lowclass, metric, preserve, runtime, validity, walk
from suite.command import VARIANTS, Demi, Variant, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPECTED_MODELS = 10
RATIO, RATIO_OF = 0.55, {"ch_PP-OCRv4_det_infer": 0.60}
TIMED, LIMIT_MS, RUNS = "ch_PP-OCRv4_rec_infer", 100.0, 9
THREADS = 2

PLAN_LIMIT = 1e-4

PROBABILITIES = {"Sigmoid", "Softmax"}
PICTURES = {"ch_PP-OCRv4_det_infer": [1, 3, 320, 320], "ch_PP-OCRv4_rec_infer": [2, 3, 48, 320]}
MASK, MASK_CHANGE = 0.3, 0.005  # the detector's threshold; share of its pixels that may change

# The shapes that each model is used with: {input: shape}, several sets where branches differ.
# Integers: ("sr", value) is a scalar input's value.
AUDIO = {16_000: 576, 8_000: 288}  # samples with context, by rate


def silero(rates: list[int], with_rate: bool) -> list[dict]:
    return [{"input": [2, AUDIO[r]], "state": [2, 2, 128]} | ({"sr": r} if with_rate else {})
            for r in rates]


USES: dict[str, list[dict]] = {
    "ch_PP-OCRv4_det_infer": [{"x": [1, 3, 160, 224]}],
    "ch_PP-OCRv4_rec_infer": [{"x": [2, 3, 48, 320]}],
    "ch_ppocr_mobile_v2.0_cls_infer": [{"x": [2, 3, 48, 192]}],
    "model": [{"bytes": [3, 2048]}],
    "silero_vad": silero([16_000, 8_000], True),
    "silero_vad_16k_op15": silero([16_000], True),
    "silero_vad_half": silero([16_000], False),
    "silero_vad_op18_ifless": silero([16_000, 8_000], True),
    "silero_vad_openvino_16k": [{"input": [1, 576], "state": [2, 1, 128]}],
    "silero_vad_16k_sequence": [{"input": [7, 576], "h": [1, 1, 128], "c": [1, 1, 128]}],
}


def fill(name: str, model: onnx.ModelProto, use: dict,
         rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs of these shapes: audio-sized amplitudes for audio, byte values for bytes."""
    scale, feeds = 0.1 if name.startswith("silero") else 1.0, {}
    for value in engines.fed_inputs(model):
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = use[value.name]
        if isinstance(shape, int):
            feeds[value.name] = np.array(shape, dtype)
        elif dtype.kind == "i":
            feeds[value.name] = rng.integers(0, 257, shape).astype(dtype)
        else:
            feeds[value.name] = (rng.standard_normal(shape) * scale).astype(dtype)
    return feeds


def feeds_of(name: str, model: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    """Seeded random inputs."""
    rng = np.random.default_rng(7)
    sets = [fill(name, model, use, rng) for use in USES[name]]
    if name in PICTURES:  # the last set
        sets.append({model.graph.input[0].name: digits.picture(rng, PICTURES[name], 4)})
    return sets


def characters(scores: np.ndarray) -> list[list[int]]:
    """What a recogniser's users read: the best class a step, repeats and blanks (0) dropped."""
    return [[int(c) for i, c in enumerate(row) if c and (i == 0 or c != row[i - 1])]
            for row in np.asarray(scores, np.float32).argmax(-1)]


def answers_differ(name: str, got: np.ndarray, want: np.ndarray) -> str:
    """Why the answers to a picture are not the same, or ""."""
    if "_rec_" in name:
        text = characters(want)
        if not all(text):
            return "the source reads nothing in the picture"
        return "" if characters(got) == text else "another text is recognised"
    mask, low = want > MASK, np.asarray(got, np.float32) > MASK
    if not mask.any() or mask.all():
        return "the source finds no text in the picture"
    changed = float(np.mean(mask != low))
    return "" if changed <= MASK_CHANGE else f"{changed:.2%} of the mask's pixels change"


def tensor_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all constants, wherever they are and however they are stored."""
    total = 0
    for message in walk.messages(model):
        if isinstance(message, TensorProto) and message.data_type != TensorProto.STRING:
            total += len(message.raw_data) or sum(
                len(getattr(message, field)) * size for field, size in (
                    ("float_data", 4), ("double_data", 8), ("int64_data", 8), ("uint64_data", 8))
            ) or len(message.int32_data) * helper.tensor_dtype_to_np_dtype(
                message.data_type).itemsize
    return total


class Test:
    """Judges one model after the other and counts failures."""

    def __init__(self, demi: Demi, library: runtime.LibDemi | None = None) -> None:
        self.demi, self.libdemi, self.cases, self.failures = demi, library, 0, 0

    def judge(self, what: str, problems: list[str], detail: str = "") -> None:
        self.cases += 1
        self.failures += bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {what}: {detail}{' | '.join(problems)[:400]}")

    def model(self, path: pathlib.Path) -> None:
        data = path.read_bytes()
        model = onnx.load_from_string(data)
        run, out = self.demi.opt(str(path), "")
        self.judge(f"{path.stem} round trip", [run.problem()] if run.code else
                   [] if out == data else ["other bytes than the input's"])
        verdict = validity.Verdict(data, model)
        results = engines.SourceResults(data, model, feeds_of(path.stem, model))
        for numerics in runtime.NUMERICS if self.libdemi else []:
            self.plan(path.stem, data, results, numerics)
        for variant in VARIANTS:
            self.conversion(path, model, verdict, results, variant)

    def plan(self, name: str, data: bytes, results: engines.SourceResults, numerics: str) -> None:
        """The source in demi's runtime beside ONNX Runtime."""
        worst, problem = 0.0, ""
        try:
            runner = runtime.PlanRunner(self.libdemi, self.libdemi.compile(data, numerics), THREADS)
            for feeds, want in zip(results.feeds, results.of(engines.OrtEngine)):
                for got in (runner.run(feeds), runner.run(feeds)):
                    for y, y0 in zip(got, want):
                        error, text = metric.float_error(y, y0, float(np.max(np.abs(y0))))
                        worst, problem = max(worst, error), problem or text
        except runtime.Failed as error:
            problem = str(error)
        if worst > PLAN_LIMIT:
            problem = problem or f"allowed {PLAN_LIMIT}"
        self.judge(f"{name} plan {numerics}", [problem] if problem else [], f"error {worst:.2e} ")

    def conversion(self, path: pathlib.Path, source: onnx.ModelProto, verdict: validity.Verdict,
                   results: engines.SourceResults, variant: Variant) -> None:
        what = f"{path.stem} {variant}"
        run, out = self.demi.convert(str(path), variant)
        if run.code or out is None or run.report is None:
            self.judge(what, [run.problem()])
            return
        model = onnx.load_from_string(out)
        found = validity.problems(out, model, verdict)
        found += validity.contract(model, source, variant)
        found += preserve.header(source, model, variant.to)
        found += lowclass.problems(run.report, source, model, variant.to)
        ratio = tensor_bytes(model) / tensor_bytes(source)
        low, kept = lowclass.counts(run.report, variant.to)
        detail = (f"weights {ratio:.3f}, LOW operators {low.total()} low {kept.total()} kept, "
                  f"casts {run.report['casts']['remaining']} ")
        if variant.to == "float16":
            if ratio > RATIO_OF.get(path.stem, RATIO):
                found.append(f"weights shrink to {ratio:.3f} only")
            error, text = self.numbers(path.stem, lambda: engines.OrtEngine(out, model), model,
                                       results)
            found += [text] if text else []
            detail += f"error {error:.2e} "
            if self.libdemi:
                found += self.converted_plans(path.stem, out, model, results)
        self.judge(what, found, detail)

    def converted_plans(self, name: str, out: bytes, model: onnx.ModelProto,
                        results: engines.SourceResults) -> list[str]:
        """The conversion in demi's runtime. What a device would give that rounds every result is
        told, not judged: it is what a choice of nodes by trial (convert --max-error) is for."""
        errors, found = {}, []
        for numerics in runtime.NUMERICS:
            errors[numerics], text = self.numbers(name, lambda: runtime.PlanRunner(
                self.libdemi, self.libdemi.compile(out, numerics), THREADS), model, results)
            found += [f"in demi's runtime: {text}"] if text and numerics == "fast" else []
        print("     in demi's runtime:",
              ", ".join(f"{k} {error:.2e}" for k, error in errors.items()))
        return found

    def numbers(self, name: str, make: Callable[[], engines.OrtEngine | runtime.PlanRunner],
                model: onnx.ModelProto, results: engines.SourceResults) -> tuple[float, str]:
        """The largest error in the engine that is made, and the first problem."""
        worst, problem = 0.0, ""
        made_by = {o: n.op_type for n in results.model.graph.node for o in n.output}
        low = {v.name for v in model.graph.input
               if engines.element_type(v.type) == TensorProto.FLOAT16}
        try:
            runner = make()
            for feeds, want in zip(results.feeds, results.of(engines.OrtEngine)):
                fed = {k: metric.to_low(v, "float16") if k in low else v for k, v in feeds.items()}
                got = runner.run(fed)
                if name in PICTURES and feeds is results.feeds[-1]:
                    problem = problem or answers_differ(name, got[0], want[0])
                    continue
                for y, y0, output in zip(got, want, results.model.graph.output):
                    peak = 1.0 if made_by.get(output.name) in PROBABILITIES else 1e-30
                    error, text = metric.float_error(np.asarray(y), np.asarray(y0), peak)
                    worst, problem = max(worst, error), problem or text
        except (engines.CannotRun, runtime.Failed) as error:
            return worst, str(error)
        limit = metric.TOLERANCE["float16"]
        return worst, problem or ("" if worst <= limit else f"error {worst:.3g}, allowed {limit}")

    def speed(self, path: pathlib.Path) -> None:
        """The whole process, without the report."""
        times, out = [], self.demi.folder / "timed.onnx"
        for _ in range(RUNS):
            start = time.perf_counter()
            run = self.demi.run("convert", str(path), "-o", str(out), "--quiet")
            times.append((time.perf_counter() - start) * 1000)
            if run.code:
                self.judge(f"{path.stem} speed", [run.problem()])
                return
        median = statistics.median(times)
        self.judge(f"{path.stem} speed", [] if median < LIMIT_MS else [f"allowed {LIMIT_MS} ms"],
                   f"{median:.1f} ms (median of {RUNS}) ")


def main() -> None:
    parser = argparse.ArgumentParser(description="Judges demi on real models.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/models")
    parser.add_argument("--libdemi", help="demi's shared library: plans are run, too")
    args = parser.parse_args()
    models = sorted(args.data.glob("*/*.onnx"))
    if len(models) != EXPECTED_MODELS:
        sys.exit(f"real_models: {len(models)} models under {args.data}, expected "
                 f"{EXPECTED_MODELS} (tools/test fetches them)")
    folder = work_folder()
    try:
        library = runtime.LibDemi(args.libdemi) if args.libdemi else None
        test = Test(Demi(args.demi, folder), library)
        for path in models:
            test.model(path)
            if path.stem == TIMED:
                test.speed(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"real_models: {test.cases} cases, {test.failures} failures")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
