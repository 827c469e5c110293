# SPDX-License-Identifier: Apache-2.0
"""Judges `demi` on real models (build/data/models, fetched by tools/test).

Of every model: an empty pipeline writes the same bytes; a conversion to float16 and bfloat16 with
graph I/O kept and low is valid by ONNX's full check and strict inference and keeps the contract and
all metadata; the float16 result runs in ONNX Runtime and its outputs lie within 2 % of the source's
on seeded random inputs (suite/metric.py); weights shrink to at most 0.55 (the detector, whose large
BatchNorm variance stays fp32, 0.6); and converting the text recogniser takes under 100 ms.
"""

import argparse
import pathlib
import shutil
import statistics
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite import engines, lowclass, metric, preserve, validity, walk
from suite.command import VARIANTS, Demi, Variant, work_folder

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXPECTED_MODELS = 10
RATIO, RATIO_OF = 0.55, {"ch_PP-OCRv4_det_infer": 0.60}
TIMED, LIMIT_MS, RUNS = "ch_PP-OCRv4_rec_infer", 100.0, 9

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


def feeds_of(name: str, model: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    """Seeded random inputs: audio-sized amplitudes for audio, byte values for bytes."""
    rng = np.random.default_rng(7)
    scale = 0.1 if name.startswith("silero") else 1.0
    sets = []
    for use in USES[name]:
        feeds = {}
        for value in engines.fed_inputs(model):
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            shape = use[value.name]
            if isinstance(shape, int):
                feeds[value.name] = np.array(shape, dtype)
            elif dtype.kind == "i":
                feeds[value.name] = rng.integers(0, 257, shape).astype(dtype)
            else:
                feeds[value.name] = (rng.standard_normal(shape) * scale).astype(dtype)
        sets.append(feeds)
    return sets


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

    def __init__(self, demi: Demi) -> None:
        self.demi, self.cases, self.failures = demi, 0, 0

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
        for variant in VARIANTS:
            self.conversion(path, model, verdict, results, variant)

    def conversion(self, path: pathlib.Path, source: onnx.ModelProto, verdict: validity.Verdict,
                   results: engines.SourceResults, variant: Variant) -> None:
        what = f"{path.stem} {variant}"
        run, out = self.demi.convert(str(path), variant)
        if run.code or out is None or run.report is None:
            self.judge(what, [run.problem()])
            return
        model = onnx.load_from_string(out)
        found = validity.problems(out, model, verdict)
        found += validity.contract(model.graph, source.graph, variant)
        found += preserve.header(source, model)
        found += lowclass.problems(run.report, source, model, variant.to)
        ratio = tensor_bytes(model) / tensor_bytes(source)
        low, kept = lowclass.counts(run.report, variant.to)
        detail = (f"weights {ratio:.3f}, LOW operators {low.total()} low {kept.total()} kept, "
                  f"casts {run.report['casts']['remaining']} ")
        if variant.to == "float16":
            if ratio > RATIO_OF.get(path.stem, RATIO):
                found.append(f"weights shrink to {ratio:.3f} only")
            error, text = self.numbers(out, model, results)
            found += [text] if text else []
            detail += f"error {error:.2e} "
        self.judge(what, found, detail)

    def numbers(self, out: bytes, model: onnx.ModelProto,
                results: engines.SourceResults) -> tuple[float, str]:
        """The largest error in ONNX Runtime and the first problem."""
        worst, problem = 0.0, ""
        low = {v.name for v in model.graph.input
               if engines.element_type(v.type) == TensorProto.FLOAT16}
        try:
            runner = engines.OrtEngine(out, model)
            for feeds, want in zip(results.feeds, results.of(engines.OrtEngine)):
                fed = {k: metric.to_low(v, "float16") if k in low else v for k, v in feeds.items()}
                for y, y0, o in zip(runner.run(fed), want, model.graph.output):
                    error, text = metric.compare(y, y0, metric.TOLERANCE["float16"], o.name)
                    worst, problem = max(worst, error), problem or text
        except engines.CannotRun as error:
            return worst, str(error)
        return worst, problem

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
    args = parser.parse_args()
    models = sorted(args.data.glob("*/*.onnx"))
    if len(models) != EXPECTED_MODELS:
        sys.exit(f"real_models: {len(models)} models under {args.data}, expected "
                 f"{EXPECTED_MODELS} (tools/test fetches them)")
    folder = work_folder()
    try:
        test = Test(Demi(args.demi, folder))
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
