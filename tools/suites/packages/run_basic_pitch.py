# SPDX-License-Identifier: Apache-2.0
"""basic-pitch: notes of a chord."""

import pathlib
import tempfile
import wave

import numpy as np
from basic_pitch import ICASSP_2022_MODEL_PATH
from basic_pitch.inference import predict
from drawn import tell, tone

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "tone.wav")
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 22050, 0, "NONE", ""))
        file.writeframes((np.clip(tone(3.0, 22050), -1, 1) * 32767).astype(np.int16).tobytes())
    made, _, notes = predict(path, pathlib.Path(ICASSP_2022_MODEL_PATH).with_suffix(".onnx"))
tell([{name: value.mean(1) for name, value in made.items()}, [note[:4] for note in sorted(notes)]])
