# SPDX-License-Identifier: Apache-2.0
"""What a 16-bit operator must give, told apart from demi: float64 arithmetic, rounded.

Faithful means: inputs widened, computed in float32, the result rounded once to nearest even. Where
all float32 steps are exact there is one such result, `rounded` of the exact one. Elsewhere float32
arithmetic leaves its last bits open, so a result passes if it is what a float32 number rounds to
that is within a few units in the last place of the exact result, as many as evaluating the
definition may be off (faithful_formulas.py). NaN equals NaN; zeros have signs.
"""

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

from suite import validity, walk

LOW = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
LARGEST = 32768  # that a made input is, but for infinite ones


def rounded(values: np.ndarray, to: str) -> np.ndarray:
    """float32 to the bits of a 16-bit type, to nearest even, by integers; NaN as 0xffff."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.int64)
    sign, rest = bits >> 31 << 15, bits & 0x7fffffff
    if to == "bfloat16":
        low = rest + 0x7fff + (rest >> 16 & 1) >> 16
    else:
        exponent = rest >> 23
        normal = (rest - (112 << 23)) + 0xfff + (rest >> 13 & 1) >> 13
        shift = np.clip(126 - exponent, 0, 40)  # of a subnormal result's mantissa
        mantissa = (rest & 0x7fffff) | 0x800000
        small = mantissa + (1 << np.maximum(shift - 1, 0)) - 1 + (mantissa >> shift & 1) >> shift
        low = np.where(exponent < 113, np.where(exponent == 0, 0, small), normal)
        low = np.minimum(low, 0x7c00)  # from 65520 on: infinite
    return np.where(rest > 0x7f800000, 0xffff, sign | low).astype(np.uint16)


def bits_of(values: np.ndarray) -> np.ndarray:
    """The bits of 16-bit floats, NaN as 0xffff."""
    bits = np.ascontiguousarray(values).view(np.uint16)
    return np.where(np.isnan(values.astype(np.float32)), np.uint16(0xffff), bits)


def ordered(values: np.ndarray) -> np.ndarray:
    """float32 as integers in their order; neighbors differ by 1, both zeros are 0."""
    bits = values.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7fffffff), bits)


def accepted(got: np.ndarray, exact: np.ndarray, to: str, units: float) -> np.ndarray:
    """Where a result is what some float32 number rounds to that is within so many float32 units in
    the last place of the exact one (float64: that it is rounded itself is of no matter 29 bits
    further down); with 0, where it is what the nearest float32 number rounds to."""
    bits = bits_of(got)
    with np.errstate(all="ignore"):
        near = exact.astype(np.float32)
        good = bits == rounded(near, to)
        spacing = np.abs(np.spacing(near)).astype(np.float64)
        for step in range(1, int(units) + 1):
            for way in (-1, 1):
                order = ordered(near) + way * step
                other = np.where(order < 0, -order | 0x80000000, order).astype(np.uint32)
                other = other.view(np.float32)
                close = np.abs(other.astype(np.float64) - exact) <= units * spacing
                good |= (bits == rounded(other, to)) & close & (exact != 0)
    return good


def accepted_at_scale(got: np.ndarray, exact: np.ndarray, to: str, units: float) -> np.ndarray:
    """The same with units of the largest magnitude in the result: rounding is monotonic, so that
    what the ends of that interval round to bounds it."""
    with np.errstate(all="ignore"):
        top = np.max(np.abs(exact[np.isfinite(exact)]), initial=0)
        slack = units * float(np.spacing(np.float32(top)))
        ends = [rounded((exact + way * slack).astype(np.float32), to) for way in (-1, 1)]
        low, high = (end.view(LOW[to]).astype(np.float64) for end in ends)
        wide = got.astype(np.float64)
        between = (low <= wide) & (wide <= high)
    return between | (bits_of(got) == rounded(exact.astype(np.float32), to))


def retyped(model: onnx.ModelProto, target: int) -> onnx.ModelProto:
    """A copy with another type wherever it says float32."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    dtype = helper.tensor_dtype_to_np_dtype(target)
    for message in walk.messages(result):
        if isinstance(message, TensorProto) and message.data_type == TensorProto.FLOAT:
            with np.errstate(over="ignore"):
                array = coarse(numpy_helper.to_array(message)).astype(dtype)
            message.CopyFrom(numpy_helper.from_array(array, message.name))
        elif isinstance(message, (onnx.TypeProto.Tensor, onnx.TypeProto.SparseTensor)):
            if message.elem_type == TensorProto.FLOAT:
                message.elem_type = target
        elif isinstance(message, onnx.AttributeProto) and message.name in walk.DTYPE_ATTRIBUTES:
            if message.i == TensorProto.FLOAT:
                message.i = target
    return result


def coarse(value: object) -> object:
    """float32 values with 5 bits, all of a tensor in one unit: sums of their products are exact."""
    if isinstance(value, (list, tuple)):
        return [coarse(v) for v in value]
    if not isinstance(value, (np.ndarray, np.floating)) or value.dtype != np.float32:
        return value
    value = np.asarray(value)
    finite = np.abs(value[np.isfinite(value)])
    top = np.max(finite, initial=0)
    unit = 2.0 ** (np.floor(np.log2(top)) - 4) if top > 0 else 1.0
    return np.asarray(np.where(np.isinf(value), value, np.clip(
        np.round(value / unit) * unit, -LARGEST, LARGEST)), np.float32)


def as_low(value: object, to: str) -> object:
    """A float32 input as a 16-bit one of few bits."""
    if isinstance(value, (list, tuple)):
        return [as_low(v, to) for v in value]
    if not isinstance(value, (np.ndarray, np.floating)) or value.dtype != np.float32:
        return value
    with np.errstate(over="ignore"):
        return np.asarray(coarse(value)).astype(LOW[to])


def narrowed(value: object, to: str) -> object:
    """float64 as a 16-bit type."""
    if isinstance(value, list):
        return [narrowed(v, to) for v in value]
    return value.astype(LOW[to]) if value.dtype == np.float64 else value


def widened(value: object, to: str, dtype: np.dtype) -> object:
    """A 16-bit input as a wide one."""
    if isinstance(value, (list, tuple)):
        return [widened(v, to, dtype) for v in value]
    low = isinstance(value, np.ndarray) and value.dtype == LOW[to]
    return value.astype(dtype) if low else value


def takes(node: onnx.NodeProto, opset: int, to: str) -> bool:
    """Does the operator's definition let all that may be float be that type?"""
    try:
        schema = defs.get_schema(node.op_type, opset, node.domain)
    except defs.SchemaError:
        return False
    used = {p.type_str for p in [*schema.inputs, *schema.outputs]}
    lists = [c.allowed_type_strs for c in schema.type_constraints if c.type_param_str in used]
    fixed = any("(float)" in text for text in used)
    floats = [types for types in lists if any("(float)" in t for t in types)]
    return bool(floats) and not fixed and all(
        any(f"({to})" in t for t in types) for types in floats)


def low_type(to: str) -> int:
    return validity.LOW_TYPE[to]
