# SPDX-License-Identifier: Apache-2.0
"""AIMET's choose_mixed_precision on one model, for bench_search: run by the Python of an environment of
its own, which has aimet-onnx. Prints one line of JSON.

    aimet_search.py MODEL SETS.npz TARGET_DB RESULT_FOLDER [--fold]

SETS.npz has each input stacked over the sets. Candidates are int16/int16 and int8/int8; scores are
the signal to noise over all sets in dB, at most 100, by the float model's outputs, as demi's sqnr.
"""
import json
import logging
import math
import resource
import sys
import time

import numpy as np
import onnx
from aimet_onnx.common.defs import QuantizationDataType
from aimet_onnx.mixed_precision import choose_mixed_precision
from aimet_onnx.common.defs import CallbackFunc
from aimet_onnx.quantsim import QuantizationSimModel

MOST = 100.0
CANDIDATES = [((bits, QuantizationDataType.int), (bits, QuantizationDataType.int)) for bits in (16, 8)]


def load_sets(path: str) -> list[dict[str, np.ndarray]]:
    stacked = dict(np.load(path))
    count = len(next(iter(stacked.values())))
    return [{name: items[i] for name, items in stacked.items()} for i in range(count)]


class Score:
    """Signal to noise by what a session made first, which is the float model's."""

    def __init__(self, sets: list[dict[str, np.ndarray]], want: list[list[np.ndarray]]) -> None:
        self.sets, self.want, self.count = sets, want, 0

    def __call__(self, session, *_) -> float:
        self.count += 1
        signal, noise = [0.0] * len(self.want[0]), [0.0] * len(self.want[0])
        for values, want in zip(self.sets, self.want):
            for i, (y, was) in enumerate(zip(session.run(None, values), want)):
                signal[i] += float(np.sum(np.square(was, dtype=np.float64)))
                noise[i] += float(np.sum(np.square(y.astype(np.float64) - was)))
        ratios = [s / n if n else math.inf for s, n in zip(signal, noise)]
        return min(MOST, *(10 * math.log10(r) if 0 < r < math.inf else MOST for r in ratios))


def bits_of(sim, name: str) -> int | None:
    quantizer = sim.qc_quantize_op_dict.get(name)
    return quantizer.bitwidth if quantizer and quantizer.enabled else None


def sizes_of(session_outputs: dict[str, np.ndarray], sim) -> float:
    """Bytes of all quantized activations."""
    return sum(array.size * (bits_of(sim, name) or 32) / 8
               for name, array in session_outputs.items() if name in sim.activation_names)


def main() -> None:
    logging.disable(logging.CRITICAL)
    path, data, target, folder = sys.argv[1:5]
    import onnxruntime

    sets = load_sets(data)
    plain = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    want = [plain.run(None, values) for values in sets]
    model = onnx.load(path)
    watched = onnx.load(path)
    names = {name for node in watched.graph.node for name in node.output if name}
    have = {output.name for output in watched.graph.output}
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names - have))
    arrays = {}
    try:
        probe = onnxruntime.InferenceSession(watched.SerializeToString(),
                                             providers=["CPUExecutionProvider"])
        arrays = dict(zip((o.name for o in probe.get_outputs()), probe.run(None, sets[0])))
    except Exception:  # no sizes, then
        pass
    if "--fold" in sys.argv:
        from aimet_onnx.batch_norm_fold import fold_all_batch_norms_to_weight
        fold_all_batch_norms_to_weight(model)
    began = time.monotonic()
    sim = QuantizationSimModel(model, param_type="int16", activation_type="int16",
                               dummy_input=sets[0], providers=["CPUExecutionProvider"])
    one, two = Score(sets, want), Score(sets, want)

    def calibrate(session, *_):
        for values in sets:
            session.run(None, values)

    sim.compute_encodings(calibrate)
    found = choose_mixed_precision(
        sim, CANDIDATES, CallbackFunc(one), CallbackFunc(two), MOST - float(target), folder, True,
        CallbackFunc(calibrate))
    seconds = time.monotonic() - began
    final = two(sim.session)
    shipped = [place[0] for place in found or [] if place[1] == final]
    wide = sum(a.size * 2 for n, a in arrays.items() if n in sim.activation_names) or math.nan
    print(json.dumps({
        "evaluations": one.count + two.count - 1, "seconds": seconds, "score": final,
        "bitops": min(shipped) if shipped else None,
        "activations": sizes_of(arrays, sim) / wide,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
