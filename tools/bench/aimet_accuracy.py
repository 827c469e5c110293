# SPDX-License-Identifier: Apache-2.0
"""AIMET's choose_mixed_precision for an accuracy, for bench_accuracy: run by the Python of an environment of its
own, which has aimet-onnx. Prints one line of JSON.

    aimet_accuracy.py MODEL DATA.npz CANDIDATES DROP RESULT_FOLDER

DATA.npz has rows, labels and the batch to search with, new_rows to score the result on, and the name of the
input; the labels are those of each row of the first output. CANDIDATES are as demi's: a16w8,a8w8. All rows
calibrate and score (phase 2); phase 1 has the signal to noise of some of them, as AIMET's manual advises: the
accuracy of one group alone is the same for most. Scores are the simulator's.
"""
import json
import logging
import re
import sys
import time

import numpy as np
import onnx
import onnxruntime
from aimet_onnx.common.defs import CallbackFunc, QuantizationDataType
from aimet_onnx.mixed_precision import choose_mixed_precision
from aimet_onnx.quantsim import QuantizationSimModel
from aimet_search import Score

PHASE_1_ROWS = 32


def candidates_of(text: str) -> list:
    bits = [map(int, re.fullmatch(r"a(\d+)w(\d+)", word).groups()) for word in text.split(",")]
    return [((a, QuantizationDataType.int), (w, QuantizationDataType.int)) for a, w in bits]


def batches(name: str, rows: np.ndarray, count: int) -> list[dict[str, np.ndarray]]:
    return [{name: rows[i:i + count]} for i in range(0, len(rows), count)]


def of_sizes(path: str, values: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The model with known sizes of inputs, which AIMET needs where they are -1."""
    model = onnx.load(path)
    for value in model.graph.input:
        if value.name in values:
            for dim, size in zip(value.type.tensor_type.shape.dim, values[value.name].shape):
                dim.dim_value = size
    return model


def largest(session: onnxruntime.InferenceSession, sets: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Of each row of the first output."""
    return np.concatenate([session.run(None, values)[0].argmax(-1).ravel() for values in sets])


def bitops_of(found: list | None, score: float, candidates: list) -> float:
    """Relative to the widest candidate, as AIMET has them; without a list, it took the best or the cheapest."""
    if found is not None:
        return min((place[0] for place in found if place[1] == score), default=1.0)
    widest, least = (a[0] * w[0] for a, w in (candidates[0], candidates[-1]))
    return least / widest


def main() -> None:
    logging.disable(logging.CRITICAL)
    path, data, words, drop, folder = sys.argv[1:6]
    data, candidates = np.load(data), candidates_of(words)
    name, labels, batch = str(data["name"]), data["labels"], int(data["batch"])
    sets = batches(name, data["rows"], batch)
    plain = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    some = sets[:PHASE_1_ROWS // batch]
    alone = Score(some, [plain.run(None, values) for values in some])

    began, evaluations = time.monotonic(), 0
    (wide, _), (weights, _) = candidates[0]
    sim = QuantizationSimModel(of_sizes(path, sets[0]), param_type=f"int{weights}", activation_type=f"int{wide}",
                               dummy_input=sets[0], providers=["CPUExecutionProvider"])

    def calibrate(session, *_) -> None:  # noqa: ANN001
        for values in sets:
            session.run(None, values)

    def accuracy(session, *_) -> float:  # noqa: ANN001
        nonlocal evaluations
        evaluations += 1
        return float((largest(session, sets) == labels).mean())

    sim.compute_encodings(calibrate)
    found = choose_mixed_precision(sim, candidates, CallbackFunc(alone), CallbackFunc(accuracy), float(drop), folder,
                                   True, CallbackFunc(calibrate))
    seconds = time.monotonic() - began
    before, score = float((largest(plain, sets) == labels).mean()), accuracy(sim.session)
    reached = before - score <= float(drop) + 1e-9
    print(json.dumps({
        "evaluations": evaluations + alone.count, "seconds": seconds, "claimed": score - before, "reached": reached,
        "bitops": bitops_of(found, score, candidates) if reached else 1.0,
        "new": largest(sim.session, batches(name, data["new_rows"], batch)).tolist()}))


if __name__ == "__main__":
    main()
