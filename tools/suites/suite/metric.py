# SPDX-License-Identifier: Apache-2.0
"""Compares two models' outputs.

Floats: max|y - y0| over the 99th percentile of finite |y0| must stay within the tolerance (absolute
1e-3 where that percentile is 0), with NaN and Inf at the same places. Everything else is equal.
"""

import ml_dtypes
import numpy as np

TOLERANCE = {"float16": 0.02, "bfloat16": 0.10}
ABSOLUTE = 1e-3
LOW = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def is_float(dtype: np.dtype) -> bool:
    """Real and complex floats, the ones that numpy only knows through ml_dtypes included."""
    if dtype.kind in "fc":
        return True
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return dtype.kind not in "iubOSU"


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def float_error(got: np.ndarray, want: np.ndarray, peak: float = 0.0) -> tuple[float, str]:
    """(error, problem): the error by the outputs' scale; where that is 0 the absolute error, which
    the problem "absolute" says; any other problem is a shape, NaN or Inf that differs. With peak
    the scale is the largest finite |y0|, but at least peak."""
    if got.shape != want.shape:
        return np.inf, f"shape {got.shape}, expected {want.shape}"
    if want.size == 0:
        return 0.0, ""
    y, y0 = _wide(got), _wide(want)
    if not np.array_equal(np.isnan(y), np.isnan(y0)):
        return np.inf, f"NaN at {np.isnan(y).sum()} places, expected {np.isnan(y0).sum()}"
    infinite = np.isinf(y0)
    if not np.array_equal(infinite, np.isinf(y)) or np.any(y[infinite] != y0[infinite]):
        return np.inf, f"Inf at {np.isinf(y).sum()} places, expected {infinite.sum()}"
    finite = np.isfinite(y0)
    if not finite.any():
        return 0.0, ""
    error = float(np.max(np.abs(y[finite] - y0[finite])))
    if peak:
        return error / max(peak, float(np.max(np.abs(y0[finite])))), ""
    scale = float(np.percentile(np.abs(y0[finite]), 99))
    return (error / scale, "") if scale > 0 else (error, "absolute")


def compare(got: object, want: object, tolerance: float, name: str) -> tuple[float, str]:
    """(largest float error, first problem or "") of one output: array, sequence or optional."""
    if want is None or got is None:
        return 0.0, "" if got is want else f"{name}: {'empty' if got is None else 'not empty'}"
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return np.inf, f"{name}: a sequence of another length"
        worst, problem = 0.0, ""
        for i, (a, b) in enumerate(zip(got, want)):
            error, text = compare(a, b, tolerance, f"{name}[{i}]")
            worst, problem = max(worst, error), problem or text
        return worst, problem
    if isinstance(want, dict):
        return (0.0, "") if got == want else (np.inf, f"{name}: another map")
    a, b = np.asarray(got), np.asarray(want)
    if is_float(b.dtype) and is_float(a.dtype):
        error, text = float_error(a, b)
        limit = ABSOLUTE if text == "absolute" else tolerance
        if text not in ("", "absolute"):
            return error, f"{name}: {text}"
        return error, "" if error <= limit else f"{name}: error {error:.3g}, allowed {limit:g}"
    if a.dtype != b.dtype and not (a.dtype.kind in "OUS" and b.dtype.kind in "OUS"):
        return np.inf, f"{name}: {a.dtype}, expected {b.dtype}"
    if a.shape != b.shape:
        return np.inf, f"{name}: shape {a.shape}, expected {b.shape}"
    different = int(np.sum(np.asarray(a != b)))
    return 0.0, f"{name}: {different} of {a.size} {b.dtype} values differ" if different else ""


def to_low(value: object, to: str) -> object:
    """A float32 input rounded to the target dtype; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [to_low(v, to) for v in value]
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        with np.errstate(over="ignore", invalid="ignore"):
            return value.astype(LOW[to])
    return value


def rounded(value: object, to: str) -> object:
    """A float32 input after a round trip through the target dtype; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [rounded(v, to) for v in value]
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return to_low(value, to).astype(np.float32)
    return value
