# SPDX-License-Identifier: Apache-2.0
"""demi's runtime by its C interface, with nothing but Python's own library.

Tensors are bytes with a dtype (demi_dtype.h's numbers) and dims.
"""

import array
import ctypes
import dataclasses
import pathlib
import struct
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, \
    c_uint32, c_uint64, c_void_p

FLOAT, INT32, INT64, FLOAT16, DOUBLE, BFLOAT16 = 1, 6, 7, 10, 11, 16
UNIT = {FLOAT: 2.0 ** -23, FLOAT16: 2.0 ** -10, DOUBLE: 2.0 ** -52, BFLOAT16: 2.0 ** -7}
SIZE = {FLOAT: 4, FLOAT16: 2, DOUBLE: 8, BFLOAT16: 2, 2: 1, 3: 1, 4: 2, 5: 2, INT32: 4, INT64: 8, 9: 1,
        12: 4, 13: 8}


class Failed(Exception):
    """A call's message."""


class Error(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("status", c_int), ("message", c_char * 2048), ("hint", c_char * 320),
                ("file", c_char * 1024), ("graph", c_char * 160), ("node", c_char * 160),
                ("op_type", c_char * 64), ("operand", c_char * 160), ("what", c_char * 320),
                ("expected", c_char * 200), ("actual", c_char * 200)]

    def __init__(self) -> None:
        super().__init__(size=ctypes.sizeof(Error))


class Data(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("kind", c_int), ("dtype", c_int32), ("rank", c_uint32),
                ("dims", POINTER(c_int64)), ("data", c_void_p), ("count", c_size_t), ("items", c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("threads", c_uint32), ("memory_budget", c_uint64), ("seed", c_uint64),
                ("step_limit", c_uint64), ("kernels", c_int), ("time_limit", c_double), ("small", c_bool),
                ("device", c_char_p), ("go_on", c_void_p), ("go_on_user", c_void_p), ("allocator", c_void_p),
                ("device_memory", c_uint64), ("device_stream", c_void_p), ("device_steps", c_bool),
                ("tf32", c_bool)]


class Io(ctypes.Structure):
    """Of a plan's outputs, what comes before their shapes."""
    _fields_ = [("size", c_uint32), ("name", c_char_p)]


class Counts(ctypes.Structure):
    _fields_ = [("size", c_uint32)] + [(name, c_uint64) for name in (
        "launches", "bytes", "uploads", "downloads", "upload_bytes", "download_bytes", "replays", "tf32")]


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


class Runtime:
    """The library, loaded once."""

    def __init__(self, path: pathlib.Path) -> None:
        self.c = ctypes.CDLL(str(path))
        self.c.demi_context_output.restype = POINTER(Data)
        self.c.demi_context_output.argtypes = [c_void_p, c_size_t]
        self.c.demi_plan_output_count.restype = c_size_t
        self.c.demi_plan_output_count.argtypes = [c_void_p]
        self.c.demi_context_device_counts.restype = c_bool
        self.c.demi_plan_output.restype = c_bool
        self.c.demi_plan_output.argtypes = [c_void_p, c_size_t, POINTER(Io)]

    def check(self, status: int, error: Error) -> None:
        if status:
            raise Failed(error.message.decode(errors="replace"))


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

    def __init__(self, runtime: Runtime, plan: bytes | pathlib.Path, device: str = "cpu", threads: int = 0,
                 tf32: bool = False, steps: bool = False) -> None:
        self.runtime, error = runtime, Error()
        self.plan, self.context = c_void_p(), c_void_p()
        if isinstance(plan, pathlib.Path):
            runtime.check(runtime.c.demi_plan_load(str(plan).encode(), byref(self.plan), byref(error)), error)
        else:
            self.memory = ctypes.create_string_buffer(len(plan) + 64)
            start = -ctypes.addressof(self.memory) % 64
            ctypes.memmove(ctypes.addressof(self.memory) + start, plan, len(plan))
            runtime.check(runtime.c.demi_plan_from_memory(
                c_void_p(ctypes.addressof(self.memory) + start), c_size_t(len(plan)), byref(self.plan),
                byref(error)), error)
        options = Options(ctypes.sizeof(Options), threads, 0, 0, 0, 0, device=device.encode(), tf32=tf32,
                          device_steps=steps)
        if runtime.c.demi_context_new(self.plan, byref(options), byref(self.context), byref(error)):
            self.close()
            raise Failed(error.message.decode(errors="replace"))

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.runtime.c.demi_context_free(self.context)
        self.runtime.c.demi_plan_free(self.plan)
        self.context, self.plan = c_void_p(), c_void_p()

    def set(self, feeds: dict[str, Tensor]) -> None:
        error = Error()
        for name, tensor in feeds.items():
            dims = (c_int64 * max(len(tensor.dims), 1))(*tensor.dims)
            held = ctypes.create_string_buffer(tensor.data, max(len(tensor.data), 1))
            data = Data(ctypes.sizeof(Data), 1, tensor.dtype, len(tensor.dims), dims,
                        ctypes.addressof(held), 0, None)
            self.runtime.check(self.runtime.c.demi_context_set_input(
                self.context, name.encode(), byref(data), byref(error)), error)

    def lay(self, feeds: dict[str, Tensor], memory: Memory) -> None:
        """Inputs and outputs in the device's memory, of sizes that a first run tells."""
        sizes, error = [len(y.data) for y in self.run(feeds)], Error()
        for name, tensor in feeds.items():
            dims = (c_int64 * max(len(tensor.dims), 1))(*tensor.dims)
            data = Data(ctypes.sizeof(Data), 1, tensor.dtype, len(tensor.dims), dims,
                        memory.take(len(tensor.data), tensor.data), 0, None)
            self.runtime.check(self.runtime.c.demi_context_borrow_device_input(
                self.context, name.encode(), byref(data), byref(error)), error)
        for i, size in enumerate(sizes):
            io = Io(ctypes.sizeof(Io))
            self.runtime.c.demi_plan_output(self.plan, i, byref(io))
            self.runtime.check(self.runtime.c.demi_context_bind_device_output(
                self.context, io.name, c_void_p(memory.take(size)), c_uint64(size), byref(error)), error)

    def step(self) -> None:
        error = Error()
        self.runtime.check(self.runtime.c.demi_context_run(self.context, byref(error)), error)

    def outputs(self) -> list[Tensor]:
        made = []
        for i in range(self.runtime.c.demi_plan_output_count(self.plan)):
            data = self.runtime.c.demi_context_output(self.context, i).contents
            dims = [data.dims[k] for k in range(data.rank)]
            count = 1
            for dim in dims:
                count *= dim
            made.append(Tensor(data.dtype, dims, ctypes.string_at(data.data, count * SIZE[data.dtype])
                               if count else b""))
        return made

    def run(self, feeds: dict[str, Tensor]) -> list[Tensor]:
        self.set(feeds)
        self.step()
        return self.outputs()

    def counts(self) -> Counts:
        counts = Counts(ctypes.sizeof(Counts))
        self.runtime.c.demi_context_device_counts(self.context, byref(counts))
        return counts
