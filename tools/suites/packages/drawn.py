# SPDX-License-Identifier: Apache-2.0
"""What the programs here are given: a page of text, a tone, and how they say what they found."""

import json
import sys

import cv2
import numpy as np

LINES = ("Mixed precision", "runs 2.5 times faster", "on 16 bit hardware", "Total: 1,024.00")
RATE = 16000


def page(height: int = 320, width: int = 640) -> np.ndarray:
    """Dark text on white, a ruled box and a filled one."""
    image = np.full((height, width, 3), 255, np.uint8)
    for i, line in enumerate(LINES):
        cv2.putText(image, line, (30, 50 + 45 * i), cv2.FONT_HERSHEY_SIMPLEX, 1.1, (20, 20, 20), 2, cv2.LINE_AA)
    cv2.rectangle(image, (30, 215), (300, 300), (0, 0, 0), 2)
    cv2.rectangle(image, (340, 215), (600, 300), (90, 140, 200), -1)
    return image


def tone(seconds: float = 2.0, rate: int = RATE) -> np.ndarray:
    """A chord that grows, over a little noise."""
    t = np.arange(int(seconds * rate)) / rate
    wave = sum(np.sin(2 * np.pi * f * t) / (i + 1) for i, f in enumerate((220.0, 440.0, 659.25)))
    noise = np.random.default_rng(1).standard_normal(t.size) / 50
    return (0.3 * wave * np.minimum(1, t) + noise).astype(np.float32)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def tell(answer: object) -> None:
    """The program's last line is its answer, and which module was onnxruntime for its package."""
    print(json.dumps({"by": sys.modules["onnxruntime"].__name__, "answer": _plain(answer)}))
