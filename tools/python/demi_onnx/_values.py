# SPDX-License-Identifier: Apache-2.0
"""Converts numpy arrays to the library's values, and back.

A tensor is an array, a sequence is a list of arrays, and an empty optional is None. Types that numpy
lacks are those of ml_dtypes; if that is not installed, their elements are unsigned integers of the same
size. Elements of less than a byte take one byte each. Strings are arrays of objects (str).
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from . import _abi
from . import _abi_constants as _codes
from ._errors import UsageError

STRING = _codes.DEMI_STRING
_PLAIN = {_codes.DEMI_FLOAT: "float32", _codes.DEMI_UINT8: "uint8", _codes.DEMI_INT8: "int8",
          _codes.DEMI_UINT16: "uint16", _codes.DEMI_INT16: "int16", _codes.DEMI_INT32: "int32",
          _codes.DEMI_INT64: "int64", _codes.DEMI_BOOL: "bool", _codes.DEMI_FLOAT16: "float16",
          _codes.DEMI_DOUBLE: "float64", _codes.DEMI_UINT32: "uint32", _codes.DEMI_UINT64: "uint64",
          _codes.DEMI_COMPLEX64: "complex64", _codes.DEMI_COMPLEX128: "complex128"}
_EXTENDED = {_codes.DEMI_BFLOAT16: "bfloat16", _codes.DEMI_FLOAT8E4M3FN: "float8_e4m3fn",
             _codes.DEMI_FLOAT8E4M3FNUZ: "float8_e4m3fnuz", _codes.DEMI_FLOAT8E5M2: "float8_e5m2",
             _codes.DEMI_FLOAT8E5M2FNUZ: "float8_e5m2fnuz", _codes.DEMI_UINT4: "uint4",
             _codes.DEMI_INT4: "int4", _codes.DEMI_FLOAT4E2M1: "float4_e2m1fn",
             _codes.DEMI_FLOAT8E8M0: "float8_e8m0fnu", _codes.DEMI_UINT2: "uint2",
             _codes.DEMI_INT2: "int2", _codes.DEMI_FLOAT6E2M3: "float6_e2m3fn",
             _codes.DEMI_FLOAT6E3M2: "float6_e3m2fn"}
# As onnxruntime calls element types.
NAMES = {_codes.DEMI_FLOAT: "float", _codes.DEMI_DOUBLE: "double", STRING: "string",
         **{number: name for number, name in _PLAIN.items()
            if number not in (_codes.DEMI_FLOAT, _codes.DEMI_DOUBLE)},
         **{number: name.replace("_", "") for number, name in _EXTENDED.items()}}


_found: dict[int, np.dtype[Any]] = {}


def dtype_of(number: int) -> np.dtype[Any]:
    """Returns the numpy type for the number of an element type."""
    known = _found.get(number)
    if known is None:
        known = _found[number] = _make_dtype(number)
    return known


def _make_dtype(number: int) -> np.dtype[Any]:
    if number in _PLAIN:
        return np.dtype(_PLAIN[number])
    if number in (STRING, _codes.DEMI_UNDEFINED):
        return np.dtype(object)
    try:
        import ml_dtypes
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _EXTENDED[number]))
        return found
    except (ImportError, AttributeError):
        return np.dtype(np.uint16 if number == _codes.DEMI_BFLOAT16 else np.uint8)


def number_of(dtype: np.dtype[Any], wanted: int) -> int:
    """Returns the number of the element type; `wanted` if that is one of several possible ones."""
    if wanted and dtype == dtype_of(wanted):
        return wanted
    if dtype.kind in "OUS":
        return STRING
    for number in (*_PLAIN, *_EXTENDED):
        if dtype_of(number) == dtype:
            return number
    raise UsageError(f"models do not support arrays of type {dtype}")


class Holder:
    """A value for the library, and what it points to."""

    def __init__(self) -> None:
        self.data = _abi.DemiData()
        self.kept: list[Any] = []


def _unmasked(value: Any) -> Any:
    """Returns a masked array without its mask, which must hide nothing: models do not support masks."""
    if np.any(value.mask):
        raise UsageError("the array has masked elements, which models do not support",
                         expected="an array without a mask", hint="pass its filled()")
    return value.data


def array_of(value: Any, wanted: int) -> np.ndarray[Any, Any]:
    """Returns a tensor as a contiguous and aligned array, with as few copies as possible: arrays and objects
    with __dlpack__ are used in place."""
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__"):
            if hasattr(value, "detach"):  # torch's tensors that gradients flow to give no memory
                value = value.detach()
            value = np.from_dlpack(value)
        else:
            value = np.asarray(value, dtype=dtype_of(wanted) if wanted else None)
    if type(value) is not np.ndarray and hasattr(value, "mask"):
        value = _unmasked(value)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    if not value.flags.c_contiguous or not value.flags.aligned:
        # ascontiguousarray makes one axis of none
        value = np.array(value, order="C", copy=True)
    return value  # type: ignore[no-any-return]


def _text(item: Any) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode("utf-8", "surrogateescape")
    raise UsageError(f"an element of a string tensor is a {type(item).__name__}")


def _set_strings(holder: Holder, array: np.ndarray[Any, Any]) -> None:
    texts = [_text(item) for item in array.ravel().tolist()]
    strings = (_abi.DemiString * max(len(texts), 1))()
    for string, text in zip(strings, texts):
        string.size, string.text = len(text), text
    holder.kept += [texts, strings]
    holder.data.data = ctypes.addressof(strings)


def set_dims(holder: Holder, shape: tuple[int, ...], number: int) -> None:
    """Sets everything of a tensor except its data."""
    dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    data = holder.data
    data.kind, data.rank = _codes.DEMI_DATA_TENSOR_KIND, len(shape)
    data.dtype, data.dims = number, dims
    holder.kept.append(dims)


def _set_tensor(holder: Holder, value: Any, wanted: int) -> None:
    array = array_of(value, wanted)
    data = holder.data
    holder.kept.append(array)
    set_dims(holder, array.shape, number_of(array.dtype, wanted))
    if data.dtype == STRING:
        _set_strings(holder, array)
    else:
        data.data = array.ctypes.data


def value_of(value: Any, wanted: int) -> Holder:
    """Returns the library's form of a value, which borrows from what the holder keeps."""
    holder = Holder()
    if value is None:
        return holder
    if not isinstance(value, (list, tuple)):
        _set_tensor(holder, value, wanted)
        return holder
    parts = [value_of(item, wanted) for item in value]
    items = (_abi.DemiData * max(len(parts), 1))(*[part.data for part in parts])
    holder.kept += [parts, items]
    holder.data.kind, holder.data.count = _codes.DEMI_DATA_SEQUENCE_KIND, len(parts)
    holder.data.items = ctypes.cast(items, ctypes.POINTER(_abi.DemiData))
    return holder


def shape_of(data: _abi.DemiData) -> tuple[int, ...]:
    return tuple(data.dims[: data.rank]) if data.rank else ()


def _strings_from(data: _abi.DemiData, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = math.prod(shape)
    strings = ctypes.cast(data.data or 0, ctypes.POINTER(_abi.RawDemiString))  # texts may hold NULs
    array = np.empty(count, dtype=object)
    for i in range(count):
        text = ctypes.string_at(strings[i].text or 0, strings[i].size) if strings[i].size else b""
        array[i] = text.decode("utf-8", "surrogateescape")
    return array.reshape(shape)


def view_of(data: _abi.DemiData) -> np.ndarray[Any, Any]:
    """Returns the tensor's own memory as an array, which must not outlive it. Not for strings."""
    shape, dtype = shape_of(data), dtype_of(data.dtype)
    count = math.prod(shape)
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(data.data or 0)
    array: np.ndarray[Any, Any] = np.frombuffer(memoryview(memory), dtype)
    return array.reshape(shape)


def copy_of(data: _abi.DemiData) -> Any:
    """Returns a copy of the value in memory that Python owns."""
    if data.kind == _codes.DEMI_DATA_NONE:
        return None
    if data.kind == _codes.DEMI_DATA_SEQUENCE_KIND:
        return [copy_of(data.items[i]) for i in range(data.count)]
    if data.dtype == STRING:
        return _strings_from(data, shape_of(data))
    return view_of(data).copy()
