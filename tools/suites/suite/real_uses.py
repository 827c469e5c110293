# SPDX-License-Identifier: Apache-2.0
"""How the real models of build/data/models are used: shapes and inputs like those that their packages
feed."""

import numpy as np
import onnx
from onnx import helper

from suite import digits, engines

# Inputs of pictures with digits, which the text models read: the last set of feeds.
PICTURES = {"ch_PP-OCRv4_det_infer": [1, 3, 320, 320], "ch_PP-OCRv4_rec_infer": [2, 3, 48, 320]}

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
