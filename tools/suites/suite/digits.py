# SPDX-License-Identifier: Apache-2.0
"""Pictures of seeded random digits: what text models are made for, drawn without any font file.

Noise is not an input for a text detector or recognizer: their answers to it lie on decision
boundaries, where rounding the weights alone moves them by as much as a fault would.
"""

import numpy as np

GLYPHS = {  # 5 x 7 dots a digit, rows from the top, bits from the left
    "0": (14, 17, 19, 21, 25, 17, 14), "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 2, 4, 8, 31), "3": (31, 2, 4, 2, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2), "5": (31, 16, 30, 1, 1, 17, 14),
    "6": (6, 8, 16, 30, 17, 17, 14), "7": (31, 1, 2, 4, 8, 8, 8),
    "8": (14, 17, 17, 14, 17, 17, 14), "9": (14, 17, 17, 15, 1, 2, 12),
}


def line(digits: str, dot: int) -> np.ndarray:
    """Ink (0 to 1) of a line of digits, dot pixels a dot, edges softened."""
    ink = np.zeros((7, 6 * len(digits)))
    for i, digit in enumerate(digits):
        for y, row in enumerate(GLYPHS[digit]):
            for x in range(5):
                ink[y, 6 * i + x] = row >> (4 - x) & 1
    ink = np.pad(np.kron(ink, np.ones((dot, dot))), dot)
    for axis in (0, 1):
        ink = (np.roll(ink, 1, axis) + 2 * ink + np.roll(ink, -1, axis)) / 4
    return ink


def picture(rng: np.random.Generator, shape: list[int], dot: int) -> np.ndarray:
    """A batch of pictures (N, 3, H, W) in [-1, 1]: dark digits on a light ground."""
    result = np.ones(shape)
    count, _, height, width = shape
    for i in range(count):
        y = max(0, (height % (10 * dot)) // 2)
        while y + 9 * dot <= height:
            number = max(1, width // (6 * dot) - 2)
            ink = line("".join(map(str, rng.integers(0, 10, number))), dot)
            ink = ink[:, :width - 2 * dot]
            result[i, :, y:y + ink.shape[0], dot:dot + ink.shape[1]] -= 1.8 * ink
            y += 14 * dot
    return result.astype(np.float32)
