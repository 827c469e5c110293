# SPDX-License-Identifier: Apache-2.0
"""nudenet: what its detector makes of a page, found and before it is sifted."""

import numpy as np
from drawn import page, tell
from nudenet import NudeDetector

detector = NudeDetector()
found = detector.detect(page())
session = detector.onnx_session
name, size = session.get_inputs()[0].name, detector.input_width
raw, = session.run(None, {name: np.random.default_rng(0).random((1, 3, size, size), np.float32)})
tell([found, list(raw.shape), raw[0, :4].mean(1), raw[0, 4:].max(1)])
