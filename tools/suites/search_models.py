# SPDX-License-Identifier: Apache-2.0
"""Searches on real models (build/data/models, fetched by tools/test), from end to end: what is found
and written is valid, reaches the target in ONNX Runtime too, as the report says, and is what `convert` makes of the
policy, to the byte. Where sets are held out, the score on new data lies in the interval that is said. Of one, what gradients estimate groups to do has the order of
what is measured.

usage: search_models.py --demi DEMI
"""

import argparse
import filecmp
import json
import math
import pathlib
import shutil
import sys

import numpy as np
import onnx
import onnxruntime

from suite import digits
from suite.command import Demi, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVALUATIONS = "24"
# Runtimes sum in other orders, and values between two steps fall to either side: by what the target may
# be missed, and the score be another.
NEAR_DB, SPREAD_DB = 0.5, 2
DOTS = 4
NEW = 200  # sets that a search never sees
# The one with gradients that is searched with integers alone; Spearman's coefficient of its groups is .87.
ORDERED = "rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer"
ALIKE = 0.8
FOUND = (0, 11)

# Of each: inputs, candidates, decibels, sets: as many as make some 50 numbers, or a few that lie between
# two steps are what the score is of; and whether they are pictures of digits: of noise the detector makes
# nothing, to some 1e-5, which two runtimes compute differently in float. The classifier, which is sure of
# pictures, gives the tails of a softmax there.
MODELS = {
    "rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer": ({"x": [1, 3, 48, 192]}, "a16w16,a8w8", 30, 96,
                                                             False),
    "rapidocr-onnxruntime/ch_PP-OCRv4_det_infer": ({"x": [1, 3, 96, 160]}, "float,float16,a8w8", 35, 3, True),
    "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer": ({"x": [1, 3, 48, 160]}, "float,a8w8", 30, 3, True),
    "silero-vad/silero_vad_16k_op15": ({"input": [1, 576], "state": [2, 1, 128], "sr": []},
                                       "float,float16,w8", 50, 3, False),
}


def made(rng: np.random.Generator, shape: list[int], pictures: bool) -> np.ndarray:
    if not shape:
        return np.array(16000, np.int64)
    if pictures:
        return digits.picture(rng, shape, DOTS).astype(np.float32)
    return rng.standard_normal(shape, dtype=np.float32)


def outputs(path: pathlib.Path, sets: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """As the file says it: fused kernels of integers round elsewhere, by a decibel."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    return [session.run(None, {n: v for n, v in values.items() if n in names}) for values in sets]


def decibels(want: list[list[np.ndarray]], have: list[list[np.ndarray]]) -> float:
    worst = 100.0
    for i in range(len(want[0])):
        signal = sum(float(np.square(w[i], dtype=np.float64).sum()) for w in want)
        noise = sum(float(np.square(h[i].astype(np.float64) - w[i]).sum())
                    for w, h in zip(want, have))
        worst = min(worst, 10 * math.log10(signal / noise) if noise else 100)
    return worst


def ranks(numbers: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(numbers))


def order_problem(demi: Demi, folder: pathlib.Path) -> str:
    """Of the sets that are there."""
    noise = {}
    for how in ("measured", "gradient"):
        result = folder / f"{how}.json"
        done = demi.run("search", str(ROOT / f"build/data/models/{ORDERED}.onnx"), "--data",
                        str(folder / "data"), "-c", MODELS[ORDERED][1], "--target", str(MODELS[ORDERED][2]),
                        "--holdout", "0", "--evaluations", "3", "--sensitivity", how, "--quiet", "--json", str(result))
        if done.code not in FOUND:
            return f"search: {done.problem()}"
        noise[how] = np.array([g["noise"] for g in json.loads(result.read_text())["groups"]])
    found = [float(np.corrcoef(*(ranks(noise[how][:, c]) for how in noise))[0, 1]) for c in range(2)]
    print(f"     order of estimates and measurements: {found[0]:.3f} and {found[1]:.3f}", flush=True)
    return "" if min(found) >= ALIKE else "gradients order groups otherwise than measurements"


def used(sets: list, held: int) -> list:
    """Those that are not held out, which are spread evenly."""
    count = len(sets)
    return [one for i, one in enumerate(sets) if (i + 1) * held // count == i * held // count]


def new_data_problem(held: dict, source: pathlib.Path, out: pathlib.Path, new: list) -> str:
    if not held["tests"]:
        return ""
    score = decibels(outputs(source, new), outputs(out, new))
    print(f"     held out {held['score']:.2f}, {held['low']:.2f} to {held['high']:.2f}; on new data {score:.2f} dB",
          flush=True)
    return "" if held["low"] <= score <= held["high"] else "the interval does not hold on new data"


def problem(demi: Demi, folder: pathlib.Path, name: str) -> str:
    shapes, candidates, target, count, pictures = MODELS[name]
    source = ROOT / f"build/data/models/{name}.onnx"
    rng = np.random.default_rng(11)
    sets = [{n: made(rng, shape, pictures) for n, shape in shapes.items()} for _ in range(count)]
    data, out, again = folder / "data", folder / "out.onnx", folder / "again.onnx"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    for i, values in enumerate(sets):
        np.savez(data / f"{i}.npz", **values)
    done = demi.run("search", str(source), "--data", str(data), "-c", candidates, "--target",
                    str(target), "--evaluations", EVALUATIONS, "-o", str(out), "--policy-out",
                    str(folder / "policy.json"), "--quiet", "--json", str(folder / "result.json"))
    if done.code not in FOUND:
        return f"search: {done.problem()}"
    result = json.loads((folder / "result.json").read_text())
    best = result["points"][result["best"]]
    onnx.checker.check_model(str(out), full_check=True)
    mine = used(sets, result["sets"]["holdout"])
    score = decibels(outputs(source, mine), outputs(out, mine))
    print(f"     {best['score']:.2f} dB said, {score:.2f} in ONNX Runtime, to be {target}; "
          f"cost {best['cost']:.3f}, {result['evaluations']} evaluations", flush=True)
    if best["score"] < target or score < max(target - NEAR_DB, best["score"] - SPREAD_DB):
        return "ONNX Runtime gets less than is said, or is to be"
    if not best["cost"] < 1:
        return "nothing was saved"
    done = demi.run("convert", str(source), "-o", str(again), "--policy",
                    str(folder / "policy.json"), "--quiet")
    if done.code or not filecmp.cmp(out, again, shallow=False):
        return f"the policy makes another file: {done.problem() if done.code else ''}"
    new = [{n: made(rng, shape, pictures) for n, shape in shapes.items()} for _ in range(NEW)]
    return new_data_problem(result["holdout"], source, out, new) or (
        order_problem(demi, folder) if name == ORDERED else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True)
    parser.add_argument("--models", default=",".join(MODELS), help="a comma list")
    args = parser.parse_args()
    folder = work_folder()
    failures = 0
    for name in args.models.split(","):
        found = problem(Demi(args.demi, folder), folder, name)
        failures += bool(found)
        print(f"{'FAIL' if found else 'ok  '} {name} {found}", flush=True)
    shutil.rmtree(folder)
    sys.exit(f"search_models: {failures} failures" if failures else 0)


if __name__ == "__main__":
    main()
