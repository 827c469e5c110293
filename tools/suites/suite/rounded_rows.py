# SPDX-License-Identifier: Apache-2.0
"""What products by 4-bit weights in blocks make of their rows in fast plans: int8 with a scale for each block, or for
each 128 elements of a longer one (kernels/cpu/quantized/weight_bytes.h)."""

import numpy as np

PART, LEAST_BLOCK = 128, 16


def rounded_rows(x: np.ndarray, block: int) -> np.ndarray:
    """x by way of int8."""
    out = np.empty_like(x, dtype=np.float32)
    for begin in range(0, x.shape[-1], block):
        end = min(begin + block, x.shape[-1])
        for first in range(begin, end, PART):
            part = x[..., first:min(first + PART, end)].astype(np.float32)
            peak = np.abs(part).max(-1, keepdims=True)
            factor = np.float32(127) / np.where(peak > 0, peak, np.float32(1))
            out[..., first:first + part.shape[-1]] = np.rint(part * factor) * (peak / np.float32(127))
    return out
