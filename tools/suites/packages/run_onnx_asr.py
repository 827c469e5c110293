# SPDX-License-Identifier: Apache-2.0
"""onnx-asr: features of speech models, and other rates."""

import numpy as np
from drawn import tell, tone
from onnx_asr.preprocessors.preprocessor import OnnxPreprocessor
from onnx_asr.preprocessors.resampler import Resampler

waves = np.stack([tone(), tone()[::-1]])
lengths = np.array([waves.shape[1], 20000], np.int64)
answer = {}
for name in ("kaldi", "whisper80", "whisper128", "nemo80", "nemo128", "gigaam_v2", "gigaam_v3"):
    features, sizes = OnnxPreprocessor(name, {})(waves, lengths)
    answer[name] = [list(features.shape), sizes, features.mean(-1), features[0, ..., :5]]
for rate in (8000, 44100, 48000):
    made, sizes = Resampler(16000, {})(waves, lengths, rate)
    answer[rate] = [list(made.shape), sizes, made[:, ::500]]
tell(answer)
