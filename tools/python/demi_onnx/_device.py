# SPDX-License-Identifier: Apache-2.0
"""Tensors in a CUDA device's memory, streams, and what a device was made to do.

Nothing here touches the device: memory and streams are the caller's, of whatever library he has them
from, and are handed to demi as addresses.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple, Sequence

import numpy as np

from . import _abi
from ._errors import UsageError
from ._values import Holder, dtype_of, number_of, set_dims

_CUDA, _CUDA_MANAGED = 2, 13  # of DLPack's devices
_LEGACY = 1  # the default stream, where 0 would stand for no stream at all
_NO_WAIT = -1  # DLPack's word for: put nothing into any stream
# DLPack's kinds of elements, with numpy's letters; those that numpy lacks by name and bits.
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
_BFLOAT = 4


class DeviceCounts(NamedTuple):
    """What a device was made to do. Bytes are those that launches read and write in its memory, uploads and
    downloads are copies from and to the processor's, replays runs that repeated a recording, `tf32` the
    launches that may round to TF32; memory is what is in use now, and was at most; `declined` the steps that
    ran on the processor, as the device's kernels do not take the operands that they had; `without` those that were
    prepared without a library of the device's, as it is missing."""

    launches: int = 0
    bytes: int = 0
    uploads: int = 0
    downloads: int = 0
    upload_bytes: int = 0
    download_bytes: int = 0
    replays: int = 0
    tf32: int = 0
    memory: int = 0
    memory_peak: int = 0
    declined: int = 0
    without: int = 0

    @classmethod
    def of(cls, counts: _abi.DemiDeviceCounts) -> "DeviceCounts":
        return cls(*(getattr(counts, name) for name in cls._fields))

    def plus(self, other: "DeviceCounts") -> "DeviceCounts":
        return DeviceCounts(*(a + b for a, b in zip(self, other)))


class DeviceArray:
    """A tensor in a CUDA device's memory: contiguous, from the address `pointer` on. `dtype` is numpy's, or
    a name such as "bfloat16"; `owner` is kept as long as this is."""

    def __init__(self, pointer: int, shape: Sequence[int], dtype: Any, owner: Any = None) -> None:
        self.pointer, self.shape = int(pointer), tuple(int(size) for size in shape)
        self.dtype: np.dtype[Any] = _dtype_of(dtype)
        self.owner = owner
        if self.pointer < 0 or any(size < 0 for size in self.shape):
            raise UsageError("an address and sizes are not negative")

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.kind not in "biufc":
            raise AttributeError(f"the interface has no {self.dtype}")
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "strides": None,
                "data": (self.pointer, False), "stream": None}

    def __repr__(self) -> str:
        return f"DeviceArray({self.pointer:#x}, shape={self.shape}, dtype={self.dtype})"


def _dtype_of(dtype: Any) -> np.dtype[Any]:
    """Also of names that numpy has with ml_dtypes alone."""
    try:
        plain: np.dtype[Any] = np.dtype(dtype)
        return plain
    except TypeError:
        pass
    try:
        import ml_dtypes
        named: np.dtype[Any] = np.dtype(getattr(ml_dtypes, str(dtype)))
        return named
    except (ImportError, AttributeError, TypeError):
        raise UsageError(f"{dtype!r} is no type of elements") from None


def stream_of(stream: Any) -> int | None:
    """The handle of a stream: a number, or what has one (torch's, cupy's, `__cuda_stream__`)."""
    if stream is None:
        return None
    if hasattr(stream, "__cuda_stream__"):
        stream = stream.__cuda_stream__()[1]
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    try:
        return int(stream) or _LEGACY
    except (TypeError, ValueError):
        raise UsageError(f"{stream!r} is no CUDA stream", expected="its handle, or what has one") from None


class _DLTensor(ctypes.Structure):
    data: int | None
    kind: int
    rank: int
    code: int
    bits: int
    lanes: int
    shape: Any
    strides: Any
    offset: int
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("device", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


def _refuse_strided(shape: Sequence[int], strides: Sequence[int] | None, unit: int) -> None:
    step = unit
    for size, stride in zip(reversed(shape), reversed(strides or ())):
        if size > 1 and stride != step and 0 not in shape:
            raise UsageError("a tensor on a device has to be contiguous", expected="contiguous memory",
                             hint="make it so where it comes from")
        step *= size


def _of_dlpack(value: Any, stream: int | None) -> DeviceArray:
    """The capsule stays unused, so that its own end gives the tensor back."""
    if hasattr(value, "detach"):  # torch's tensors that gradients flow to give no memory
        value = value.detach()
    capsule = value.__dlpack__(stream=_NO_WAIT if stream is None else stream)
    try:
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    except AttributeError:
        raise UsageError("this Python has no capsules", hint="give a DeviceArray") from None
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer_of(capsule, b"dltensor"))
    shape = tensor.shape[:tensor.rank] if tensor.rank else []
    _refuse_strided(shape, tensor.strides[:tensor.rank] if tensor.rank and tensor.strides else None, 1)
    kind = _KINDS.get(tensor.code)
    if tensor.lanes != 1 or (kind is None and (tensor.code, tensor.bits) != (_BFLOAT, 16)):
        raise UsageError("elements of that kind are no values of models")
    dtype = "bfloat16" if kind is None else f"{kind}{tensor.bits // 8}"
    return DeviceArray((tensor.data or 0) + tensor.offset, shape, dtype, capsule)


def _of_interface(value: Any, stream: int | None) -> DeviceArray:
    said = value.__cuda_array_interface__
    dtype, others = np.dtype(said["typestr"]), said.get("stream")
    if others is not None and others != stream:
        raise UsageError("its memory is being worked on in another stream",
                         expected="a tensor of the session's device_stream", actual=str(others),
                         hint="give that stream to the session, or wait and give a DeviceArray")
    _refuse_strided(said["shape"], said.get("strides"), dtype.itemsize)
    return DeviceArray(said["data"][0], said["shape"], dtype, value)


def device_array(value: Any, stream: int | None) -> DeviceArray | None:
    """What lies on a CUDA device, of anything that says so; None: it is the processor's. What others
    put into streams of theirs is ordered with `stream` as DLPack has it."""
    if isinstance(value, (np.ndarray, DeviceArray)) or value is None:
        return value if isinstance(value, DeviceArray) else None
    if hasattr(value, "__dlpack_device__"):
        if value.__dlpack_device__()[0] in (_CUDA, _CUDA_MANAGED):
            return _of_dlpack(value, stream)
        return None
    return _of_interface(value, stream) if hasattr(value, "__cuda_array_interface__") else None


def value_there(array: DeviceArray, wanted: int) -> Holder:
    """The library's form of it."""
    if not array.pointer:
        raise UsageError("a tensor on a device has no memory")
    holder = Holder()
    set_dims(holder, array.shape, number_of(array.dtype, wanted))
    holder.data.data = array.pointer
    holder.kept.append(array)
    return holder


def is_of(array: DeviceArray, number: int) -> bool:
    """Whether its elements are of the type of that number."""
    return array.dtype == dtype_of(number)


__all__ = ["DeviceArray", "DeviceCounts"]
