# SPDX-License-Identifier: Apache-2.0
"""Tensors in the memory of a CUDA device, streams, and counts of what a device did.

Nothing here uses the device itself. Memory and streams belong to the caller, from any library, and are
passed to demi as addresses.
"""

from __future__ import annotations

import ctypes
import math
import operator
from typing import Any, NamedTuple, Sequence

import numpy as np

from . import _abi
from ._arguments import refuse, shown
from ._errors import UsageError
from ._values import Holder, dtype_of, number_of, set_dims

_CUDA, _CUDA_MANAGED = 2, 13  # of DLPack's devices
_LEGACY = 1  # the default stream, where 0 would stand for no stream at all
_NO_WAIT = -1  # DLPack's word for: put nothing into any stream
# DLPack's kinds of elements, with numpy's letters; those that numpy lacks by name and bits.
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
_BFLOAT = 4


class DeviceCounts(NamedTuple):
    """What a device did. `launches` are those of kernels and libraries, and `bytes` those that they read and
    wrote in device memory. `uploads` and `downloads` are copies to and from the device, with
    `upload_bytes` and `download_bytes`. `replays` are runs that replayed a recording, and `tf32` launches
    that may round to TF32. `memory` is the number of bytes of device memory in use now, and `memory_peak`
    the largest so far. `declined` are steps that ran on the CPU because the device's kernels do not take
    their operands. `without` are steps that slower kernels run because a library of the device is
    missing."""

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
    def _of(cls, counts: _abi.DemiDeviceCounts) -> "DeviceCounts":
        return cls(*(getattr(counts, name) for name in cls._fields))

    def _plus(self, other: "DeviceCounts") -> "DeviceCounts":
        return DeviceCounts(*(a + b for a, b in zip(self, other)))


class DeviceArray:
    """A contiguous tensor in the memory of a CUDA device, which begins at the address `pointer`. `dtype` is a
    numpy type, or a name such as "bfloat16". The array keeps a reference to `owner`."""

    def __init__(self, pointer: int, shape: Sequence[int], dtype: Any, owner: Any = None) -> None:
        self.pointer, self.shape = _address_of(pointer), sizes_of(shape)
        self.dtype: np.dtype[Any] = _dtype_of(dtype)
        self.owner = owner
        self.writable = True
        self.device: int | None = None  # its number, where that is known

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.kind not in "biufc":
            raise AttributeError(f"__cuda_array_interface__ does not support {self.dtype}")
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "strides": None,
                "data": (self.pointer, False), "stream": None}

    def __repr__(self) -> str:
        return f"DeviceArray({self.pointer:#x}, shape={self.shape}, dtype={self.dtype})"


def _address_of(pointer: Any) -> int:
    try:
        address = operator.index(pointer)
    except Exception:
        address = -1
    if not 0 <= address < 1 << 64:
        raise refuse("pointer", "an address", pointer)
    return address


def sizes_of(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except Exception:
        sizes = (-1,)
    if any(size < 0 for size in sizes) or math.prod(sizes) >= 1 << 60:
        raise refuse("shape", "sizes that are not negative", shape)
    return sizes


def _dtype_of(dtype: Any) -> np.dtype[Any]:
    """Also accepts names that numpy has only with ml_dtypes."""
    try:
        plain: np.dtype[Any] = np.dtype(dtype)
        if dtype is not None:  # numpy's word for double
            return plain
    except Exception:  # whatever it is asked for
        pass
    try:
        import ml_dtypes
        named: np.dtype[Any] = np.dtype(getattr(ml_dtypes, str(dtype)))
        return named
    except Exception:
        raise refuse("dtype", "an element type", dtype) from None


def stream_of(stream: Any) -> int | None:
    """Returns the handle of a stream: a number, or an object with one (torch, cupy, `__cuda_stream__`)."""
    if stream is None:
        return None
    try:
        handle = stream.__cuda_stream__()[1] if hasattr(stream, "__cuda_stream__") else stream
        for name in ("cuda_stream", "ptr"):
            handle = getattr(handle, name, handle)
        handle = operator.index(handle)
    except Exception:  # whatever it is asked for
        handle = -1
    if not 0 <= handle < 1 << 64:
        raise refuse("device_stream", "the handle of a CUDA stream, or an object with one", stream)
    return handle or _LEGACY


def number_of_device(device: str) -> int | None:
    """Returns the 1 of "cuda:1"; None for the CPU, and for names that the library will refuse."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        return None
    return int(number or "0")


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


class _Versioned(ctypes.Structure):
    """A capsule of DLPack 1.0 or later, up to its flags; the tensor follows."""

    flags: int
    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64)]


_READ_ONLY, _IS_COPIED = 1, 2  # its flags


def _refuse_strided(shape: Sequence[int], strides: Sequence[int] | None, unit: int) -> None:
    step = unit
    for size, stride in zip(reversed(shape), reversed(strides or ())):
        if size > 1 and stride != step and 0 not in shape:
            raise UsageError("a tensor on a device must be contiguous", expected="contiguous memory",
                             actual=f"strides of {tuple(strides or ())}", hint="make it contiguous before passing it")
        step *= size


ANY_DEVICE = -1


def _refuse_other(number: int, session: int | None) -> None:
    """Refuses a tensor of a different device: nothing would copy it."""
    if session == ANY_DEVICE:
        return
    if session is None:
        raise UsageError(f"the tensor is on cuda:{number}, but the session runs on the CPU",
                         expected="a tensor in host memory", actual=f"one on cuda:{number}",
                         hint=f"copy it, or make the session with device='cuda:{number}'")
    if number != session:
        raise UsageError(f"the tensor is on cuda:{number}, but the session is on cuda:{session}",
                         expected=f"a tensor on cuda:{session}", actual=f"one on cuda:{number}",
                         hint="copy it to the session's device, or make the session on the tensor's device")


def _capsule_of(value: Any, stream: int | None) -> tuple[Any, Any, int]:
    """Returns the capsule, its tensor, and its flags. Libraries that predate DLPack 1.0 return the older form."""
    given = _NO_WAIT if stream is None else stream
    try:
        capsule = value.__dlpack__(stream=given, max_version=(1, 0))
    except TypeError:
        capsule = value.__dlpack__(stream=given)
    try:
        is_valid, pointer_of = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    except AttributeError:
        raise UsageError("this Python has no capsules", hint="pass a DeviceArray") from None
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for name in (b"dltensor_versioned", b"dltensor"):
        if not is_valid(capsule, name):
            continue
        address, flags = pointer_of(capsule, name), 0
        if name == b"dltensor_versioned":
            flags = _Versioned.from_address(address).flags
            address += ctypes.sizeof(_Versioned)
        return capsule, _DLTensor.from_address(address), flags
    raise UsageError(f"__dlpack__ returned {shown(capsule)}, which is not a DLPack capsule")


def _of_dlpack(value: Any, stream: int | None, number: int | None) -> DeviceArray:
    """Leaves the capsule unused, so that deleting it releases the tensor."""
    if hasattr(value, "detach"):  # torch's tensors that gradients flow to give no memory
        value = value.detach()
    capsule, tensor, flags = _capsule_of(value, stream)
    if tensor.kind != _CUDA_MANAGED:  # the capsule counts: what the object says may be something else
        _refuse_other(tensor.device, number)
    shape = tensor.shape[:tensor.rank] if tensor.rank else []
    _refuse_strided(shape, tensor.strides[:tensor.rank] if tensor.rank and tensor.strides else None, 1)
    kind = _KINDS.get(tensor.code)
    if tensor.lanes != 1 or (kind is None and (tensor.code, tensor.bits) != (_BFLOAT, 16)):
        raise UsageError("models do not support elements of this type")
    dtype = "bfloat16" if kind is None else f"{kind}{tensor.bits // 8}"
    made = DeviceArray((tensor.data or 0) + tensor.offset, shape, dtype, capsule)
    made.writable = not flags & (_READ_ONLY | _IS_COPIED)
    made.device = tensor.device if tensor.kind == _CUDA else None
    return made


def _of_interface(value: Any, stream: int | None) -> DeviceArray:
    try:
        said = value.__cuda_array_interface__
        dtype, others = np.dtype(said["typestr"]), said.get("stream")
        (pointer, read_only), shape, strides = said["data"], said["shape"], said.get("strides")
        mask = said.get("mask")
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"its __cuda_array_interface__ is not valid: {error}") from error
    if mask is not None:
        raise UsageError("its __cuda_array_interface__ has a mask, which models do not support",
                         expected="a tensor without a mask", hint="fill the masked elements first")
    if others is not None and others != stream:
        raise UsageError("its memory is in use on a different stream",
                         expected="a tensor on the session's device_stream", actual=str(others),
                         hint="pass that stream to the session, or wait for it and pass a DeviceArray")
    _refuse_strided(shape, strides, dtype.itemsize)
    made = DeviceArray(pointer or 0, shape, dtype, value)
    made.writable = not read_only
    return made


def _refuse_here() -> UsageError:
    return UsageError("the tensor is on a device, but the session runs on the CPU",
                      expected="a tensor in host memory",
                      hint="copy it, or make the session with device='cuda'")


def device_array(value: Any, stream: int | None, number: int | None) -> DeviceArray | None:
    """Returns a value in the memory of a CUDA device as a DeviceArray; None if it is in host memory. `number`
    is the session's device, where the value must be; None for the CPU; ANY_DEVICE for no check. Work
    that other libraries put into their streams is ordered with `stream` as DLPack defines it."""
    if isinstance(value, np.ndarray) or value is None:
        return None
    if isinstance(value, DeviceArray):
        if number is None:
            raise _refuse_here()
        if value.device is not None:
            _refuse_other(value.device, number)
        return value
    if hasattr(value, "__dlpack_device__"):
        kind, there = value.__dlpack_device__()
        if kind in (_CUDA, _CUDA_MANAGED):
            if kind == _CUDA or number is None:  # before it is asked to wait for a stream of another device
                _refuse_other(there, number)
            return _of_dlpack(value, stream, number)
        return None
    if not hasattr(value, "__cuda_array_interface__"):
        return None
    if number is None:
        raise _refuse_here()
    return _of_interface(value, stream)


def value_there(array: DeviceArray, wanted: int) -> Holder:
    """Returns the library's form of the array."""
    if not array.pointer and array.nbytes:
        raise UsageError("a tensor on a device has no memory")
    holder = Holder()
    set_dims(holder, array.shape, number_of(array.dtype, wanted))
    holder.data.data = array.pointer
    holder.kept.append(array)
    return holder


def is_of(array: DeviceArray, number: int) -> bool:
    """Returns whether its elements have the type with that number."""
    return array.dtype == dtype_of(number)


__all__ = ["DeviceArray", "DeviceCounts"]
