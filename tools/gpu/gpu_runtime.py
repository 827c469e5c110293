# SPDX-License-Identifier: Apache-2.0
"""demi's runtime by its C interface, with nothing but Python's own library: the functions and structures that
tools/python/demi_onnx has of the headers.

Tensors are bytes with a dtype (demi_dtype.h's numbers) and dims.
"""

import array
import ctypes
import dataclasses
import math
import pathlib
import struct
import sys
import types
from collections.abc import Callable
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p

# A package of those modules alone: demi_onnx itself needs numpy.
INTERFACE = types.ModuleType("demi_interface")
INTERFACE.__path__ = [str(pathlib.Path(__file__).resolve().parents[1] / "python/demi_onnx")]
sys.modules["demi_interface"] = INTERFACE

from demi_interface import _abi_constants as codes  # noqa: E402
from demi_interface._abi import DemiContextOptions, DemiData, DemiDeviceCounts, DemiError, DemiPlanIo  # noqa: E402
from demi_interface._abi_functions import Library  # noqa: E402
from demi_interface._errors import DemiError as Failed, take_error  # noqa: E402

FLOAT, INT32, INT64 = codes.DEMI_FLOAT, codes.DEMI_INT32, codes.DEMI_INT64
FLOAT16, DOUBLE, BFLOAT16 = codes.DEMI_FLOAT16, codes.DEMI_DOUBLE, codes.DEMI_BFLOAT16
UNIT = {FLOAT: 2.0 ** -23, FLOAT16: 2.0 ** -10, DOUBLE: 2.0 ** -52, BFLOAT16: 2.0 ** -7}
SIZE = {FLOAT: 4, FLOAT16: 2, DOUBLE: 8, BFLOAT16: 2, 2: 1, 3: 1, 4: 2, 5: 2, INT32: 4, INT64: 8, 9: 1,
        12: 4, 13: 8}


@dataclasses.dataclass
class Tensor:
    dtype: int
    dims: list[int]
    data: bytes

    def numbers(self) -> list[float]:
        """Elements as Python's numbers; floats of 16 bit are widened."""
        if self.dtype == FLOAT16:
            return list(struct.unpack(f"<{len(self.data) // 2}e", self.data))
        if self.dtype == BFLOAT16:
            wide = bytearray(2 * len(self.data))
            wide[2::4], wide[3::4] = self.data[0::2], self.data[1::2]
            return list(array.array("f", bytes(wide)))
        kinds = {FLOAT: "f", DOUBLE: "d", INT32: "i", INT64: "q", 2: "B", 3: "b", 4: "H", 5: "h", 9: "B"}
        return list(array.array(kinds[self.dtype], self.data))


class Memory:
    """Memory of a device, by the driver's own functions."""

    def __init__(self, device: str) -> None:
        self.c, number, self.primary = ctypes.CDLL("libcuda.so.1"), c_int(), c_void_p()
        self.check(self.c.cuInit(0))
        self.check(self.c.cuDeviceGet(byref(number), int(device.partition(":")[2] or 0)))
        self.check(self.c.cuDevicePrimaryCtxRetain(byref(self.primary), number))
        self.number, self.taken = number, []

    def check(self, status: int) -> None:
        if status:
            raise Failed(f"the driver's error {status}")

    def take(self, size: int, data: bytes = b"") -> int:
        """Its address; `data` is copied there."""
        address = c_void_p()
        self.check(self.c.cuCtxPushCurrent_v2(self.primary))
        try:
            self.check(self.c.cuMemAlloc_v2(byref(address), c_size_t(max(size, 256))))
            self.taken.append(address)
            if data:
                stream = c_void_p()
                self.check(self.c.cuStreamCreate(byref(stream), 1))
                self.check(self.c.cuMemcpyHtoDAsync_v2(address, data, c_size_t(len(data)), stream))
                self.check(self.c.cuStreamSynchronize(stream))
                self.check(self.c.cuStreamDestroy_v2(stream))
        finally:
            self.c.cuCtxPopCurrent_v2(byref(c_void_p()))
        return address.value

    def close(self) -> None:
        self.c.cuCtxPushCurrent_v2(self.primary)
        for address in self.taken:
            self.c.cuMemFree_v2(address)
        self.c.cuCtxPopCurrent_v2(byref(c_void_p()))
        self.c.cuDevicePrimaryCtxRelease_v2(self.number)
        self.taken = []


class Context:
    """A plan, of bytes or a file, and a context of it."""

    def __init__(self, library: Library, plan: bytes | pathlib.Path, device: str = "cpu", threads: int = 0,
                 tf32: bool = False, steps: bool = False) -> None:
        self.c, self.plan, self.context, self.error = library, c_void_p(), c_void_p(), DemiError()
        self.told = byref(self.error)
        if isinstance(plan, pathlib.Path):
            self.check(library.demi_plan_load(str(plan).encode(), byref(self.plan), self.told))
        else:
            self.memory = ctypes.create_string_buffer(len(plan) + 64)
            start = ctypes.addressof(self.memory) + -ctypes.addressof(self.memory) % 64
            ctypes.memmove(start, plan, len(plan))
            self.check(library.demi_plan_from_memory(start, len(plan), byref(self.plan), self.told))
        options = DemiContextOptions(threads=threads, device=device.encode(), tf32=tf32, device_steps=steps)
        try:
            self.check(library.demi_context_new(self.plan, byref(options), byref(self.context), self.told))
        except Failed:
            self.close()
            raise

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.c.demi_context_free(self.context)
        self.c.demi_plan_free(self.plan)
        self.context, self.plan = c_void_p(), c_void_p()

    def check(self, status: int) -> None:
        if status:
            raise take_error(status, self.error)

    def give(self, function: Callable, name: str, tensor: Tensor, address: int) -> None:
        """An input, whose elements lie there."""
        dims = (c_int64 * max(len(tensor.dims), 1))(*tensor.dims)
        data = DemiData(kind=codes.DEMI_DATA_TENSOR_KIND, dtype=tensor.dtype, rank=len(tensor.dims), dims=dims, data=address)
        self.check(function(self.context, name.encode(), byref(data), self.told))

    def set(self, feeds: dict[str, Tensor]) -> None:
        for name, tensor in feeds.items():
            held = ctypes.create_string_buffer(tensor.data, max(len(tensor.data), 1))
            self.give(self.c.demi_context_set_input, name, tensor, ctypes.addressof(held))

    def lay(self, feeds: dict[str, Tensor], memory: Memory) -> None:
        """Inputs and outputs in the device's memory, of sizes that a first run tells."""
        sizes = [len(y.data) for y in self.run(feeds)]
        for name, tensor in feeds.items():
            self.give(self.c.demi_context_borrow_device_input, name, tensor,
                      memory.take(len(tensor.data), tensor.data))
        for i, size in enumerate(sizes):
            io = DemiPlanIo()
            self.c.demi_plan_output(self.plan, i, byref(io))
            self.check(self.c.demi_context_bind_device_output(self.context, io.name, memory.take(size), size,
                                                              self.told))

    def step(self) -> None:
        self.check(self.c.demi_context_run(self.context, self.told))

    def outputs(self) -> list[Tensor]:
        made = []
        for i in range(self.c.demi_plan_output_count(self.plan)):
            data = self.c.demi_context_output(self.context, i).contents
            dims = data.dims[:data.rank] if data.rank else []
            size = math.prod(dims) * SIZE[data.dtype]
            made.append(Tensor(data.dtype, dims, ctypes.string_at(data.data, size) if size else b""))
        return made

    def run(self, feeds: dict[str, Tensor]) -> list[Tensor]:
        self.set(feeds)
        self.step()
        return self.outputs()

    def counts(self) -> DemiDeviceCounts:
        counts = DemiDeviceCounts()
        self.c.demi_context_device_counts(self.context, byref(counts))
        return counts
