# SPDX-License-Identifier: Apache-2.0
"""demi's runtime from Python, by its C interface: for suites that run thousands of small models.

Values are numpy arrays, lists of them (sequences) or None (empty optionals). Types that numpy lacks
are ml_dtypes'; elements of less than a byte fill one byte each, as in demi_runtime.h.
"""

import ctypes
import pathlib
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, \
    c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np
from onnx import helper


class Failed(Exception):
    """A call's message; status as demi_error.h numbers it."""

    def __init__(self, error: "Error") -> None:
        super().__init__(error.message.decode(errors="replace"))
        self.status = error.status


class Error(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("status", c_int), ("message", c_char * 2048),
                ("hint", c_char * 320), ("file", c_char * 1024), ("graph", c_char * 160),
                ("node", c_char * 160), ("op_type", c_char * 64), ("operand", c_char * 160),
                ("what", c_char * 320), ("expected", c_char * 200), ("actual", c_char * 200)]

    def __init__(self) -> None:
        super().__init__(size=ctypes.sizeof(Error))


class String(ctypes.Structure):
    _fields_ = [("size", c_uint64), ("text", c_void_p)]


class Value(ctypes.Structure):
    pass


Value._fields_ = [("size", c_uint32), ("kind", c_int), ("dtype", c_int32), ("rank", c_uint32),
                  ("dims", POINTER(c_int64)), ("data", c_void_p), ("count", c_size_t),
                  ("items", POINTER(Value))]


class PlanIo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("name", c_char_p), ("kind", c_int), ("optional", c_bool),
                ("dtype", c_int32), ("has_rank", c_bool), ("rank", c_uint32),
                ("dims", POINTER(c_int64))]


class ContextOptions(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("threads", c_uint32), ("memory_budget", c_uint64),
                ("seed", c_uint64), ("step_limit", c_uint64), ("kernels", c_int),
                ("time_limit", c_double), ("small", c_bool), ("device", c_char_p),
                ("go_on", c_void_p), ("go_on_user", c_void_p), ("allocator", c_void_p),
                ("device_memory", c_uint64), ("device_stream", c_void_p), ("device_steps", c_bool),
                ("tf32", c_bool)]


class CompileOptions(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("numerics", c_int), ("keep_values", c_bool),
                ("memory_budget", c_uint64), ("small", c_bool), ("isa", c_int),
                ("for_device", c_bool)]


class ConvertOptions(ctypes.Structure):
    """The beginning of DemiConvertOptions: what is not there has its default."""

    _fields_ = [("size", c_uint32), ("to", c_int), ("io", c_int)]


class DeviceCounts(ctypes.Structure):
    """What a context had its device do; see DemiDeviceCounts."""

    _fields_ = [("size", c_uint32)] + [(name, c_uint64) for name in (
        "launches", "bytes", "uploads", "downloads", "upload_bytes", "download_bytes", "replays", "tf32",
        "memory", "memory_peak", "declined", "without")]


TARGETS = {"float16": 1, "bfloat16": 2}
IO = {"keep": 1, "low": 2}
NONE, TENSOR, SEQUENCE = 0, 1, 2
NUMERICS = ["fast", "faithful"]
ISAS = ["native", "none"]
KERNELS = ["auto", "own", "onednn"]
STRING = 8
WRITE = ctypes.CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t)


def numpy_dtype(number: int) -> np.dtype:
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


class LibDemi:
    """demi's shared library, loaded once."""

    def __init__(self, path: str) -> None:
        self.c = ctypes.CDLL(path)
        for name in ("demi_plan_input_count", "demi_plan_output_count"):
            getattr(self.c, name).restype = c_size_t
            getattr(self.c, name).argtypes = [c_void_p]
        self.c.demi_plan_input.restype = self.c.demi_plan_output.restype = c_bool
        self.c.demi_context_output.restype = POINTER(Value)
        self.c.demi_context_output.argtypes = [c_void_p, c_size_t]

    def check(self, status: int, error: Error) -> None:
        if status:
            raise Failed(error)

    def onednn_problem(self) -> str:
        """Why oneDNN can't be used; empty where it can."""
        error = Error()
        self.c.demi_onednn_version.restype = c_char_p
        return "" if self.c.demi_onednn_version(byref(error)) else str(Failed(error))

    def _loaded(self, model: bytes, use) -> bytes:  # noqa: ANN001
        """What use(handle, write, error) writes of the model."""
        error, handle, pieces = Error(), c_void_p(), []

        def take(_, data, size):  # noqa: ANN001, ANN202
            pieces.append(ctypes.string_at(data, size))
            return True

        self.check(self.c.demi_load_memory(model, c_size_t(len(model)), None, byref(handle),
                                           byref(error)), error)
        try:
            use(handle, WRITE(take), error)
        finally:
            self.c.demi_free(handle)
        return b"".join(pieces)

    def compile(self, model: bytes, numerics: str = "fast", keep_values: bool = False,
                for_device: bool = False, isa: str = "native") -> bytes:
        options = CompileOptions(ctypes.sizeof(CompileOptions), NUMERICS.index(numerics),
                                 keep_values, for_device=for_device, isa=ISAS.index(isa))
        return self._loaded(model, lambda handle, write, error: self.check(
            self.c.demi_compile(handle, byref(options), write, None, byref(error)), error))

    def fault(self, model: bytes) -> str:
        """Why the model is not valid; empty where it is."""
        try:
            self._loaded(model, lambda handle, _, error: self.check(
                self.c.demi_check(handle, byref(error)), error))
        except Failed as failed:
            return str(failed)
        return ""

    def pipeline(self, model: bytes, passes: str) -> bytes:
        """The model that these passes make."""
        def use(handle, write, error) -> None:  # noqa: ANN001
            self.check(self.c.demi_run_pipeline(handle, passes.encode(), None, None,
                                                byref(error)), error)
            self.check(self.c.demi_save_callback(handle, write, None, None, byref(error)), error)

        return self._loaded(model, use)

    def convert(self, model: bytes, to: str, io: str = "keep") -> bytes:
        """To float16 or bfloat16, inputs and outputs kept or low."""
        def use(handle, write, error) -> None:  # noqa: ANN001
            options = ConvertOptions(ctypes.sizeof(ConvertOptions), TARGETS[to], IO[io])
            self.check(self.c.demi_convert(handle, byref(options), None, byref(error)), error)
            self.check(self.c.demi_save_callback(handle, write, None, None, byref(error)), error)

        return self._loaded(model, use)


class PlanRunner:
    """A plan, of bytes or a file, and a context of it; or another context of the plan that a runner has."""

    def __init__(self, library: LibDemi, plan: "bytes | pathlib.Path | PlanRunner", threads: int = 1,
                 memory: int = 1 << 30, kernels: str = "auto", device: str = "cpu",
                 **more: object) -> None:
        self.libdemi, error = library, Error()
        self.plan, self.context, self.bound = c_void_p(), c_void_p(), []
        self.owner = plan if isinstance(plan, PlanRunner) else None
        if self.owner:
            self.plan = self.owner.plan
        elif isinstance(plan, bytes):
            self._from_bytes(plan)
        else:
            library.check(library.c.demi_plan_load(str(plan).encode(), byref(self.plan),
                                                   byref(error)), error)
        options = ContextOptions(ctypes.sizeof(ContextOptions), threads, memory, 0, 0,
                                 KERNELS.index(kernels), device=device.encode(), **more)
        library.check(library.c.demi_context_new(self.plan, byref(options), byref(self.context),
                                                 byref(error)), error)
        self.step_error = Error()
        self.run_plan, self.run_error = library.c.demi_context_run, byref(self.step_error)

    def _from_bytes(self, plan: bytes) -> None:
        error = Error()
        memory_of = np.empty(len(plan) + 64, np.uint8)
        start = -memory_of.ctypes.data % 64
        memory_of[start:start + len(plan)] = np.frombuffer(plan, np.uint8)
        self.bytes = memory_of
        self.libdemi.check(self.libdemi.c.demi_plan_from_memory(
            c_void_p(memory_of.ctypes.data + start), c_size_t(len(plan)), byref(self.plan),
            byref(error)), error)

    def __del__(self) -> None:
        self.libdemi.c.demi_context_free(self.context)
        if not self.owner:
            self.libdemi.c.demi_plan_free(self.plan)

    def _ios(self, count, get) -> list[PlanIo]:  # noqa: ANN001
        found = []
        for i in range(count(self.plan)):
            io = PlanIo(size=ctypes.sizeof(PlanIo))
            get(self.plan, c_size_t(i), byref(io))
            found.append(io)
        return found

    def inputs(self) -> list[PlanIo]:
        return self._ios(self.libdemi.c.demi_plan_input_count, self.libdemi.c.demi_plan_input)

    def outputs(self) -> list[PlanIo]:
        return self._ios(self.libdemi.c.demi_plan_output_count, self.libdemi.c.demi_plan_output)

    def device_counts(self) -> DeviceCounts:
        counts = DeviceCounts(ctypes.sizeof(DeviceCounts))
        self.libdemi.c.demi_context_device_counts.restype = c_bool
        self.libdemi.c.demi_context_device_counts(self.context, byref(counts))
        return counts

    def bind(self, feeds: dict[str, np.ndarray]) -> None:
        """Inputs for `step`, not copied."""
        error = Error()
        for name, value in feeds.items():
            made = to_value(value, 0, self.bound)
            self.libdemi.check(self.libdemi.c.demi_context_borrow_input(
                self.context, name.encode(), byref(made), byref(error)), error)

    def borrow_device(self, feeds: dict[str, np.ndarray], there: dict[str, int]) -> None:
        """Inputs of these types and sizes, which lie at addresses of the device."""
        error = Error()
        for name, value in feeds.items():
            made = to_value(value, 0, self.bound)
            made.data = there[name]
            self.libdemi.check(self.libdemi.c.demi_context_borrow_device_input(
                self.context, name.encode(), byref(made), byref(error)), error)

    def bind_device(self, there: list[int], sizes: list[int]) -> None:
        """Where on the device outputs go."""
        error = Error()
        for io, address, size in zip(self.outputs(), there, sizes):
            self.libdemi.check(self.libdemi.c.demi_context_bind_device_output(
                self.context, io.name, c_void_p(address), c_uint64(size), byref(error)), error)

    def start(self) -> None:
        error = Error()
        self.libdemi.check(self.libdemi.c.demi_context_start(self.context, byref(error)), error)

    def wait(self) -> None:
        error = Error()
        self.libdemi.check(self.libdemi.c.demi_context_wait(self.context, byref(error)), error)

    def carry(self, output: str, source: str) -> None:
        """The output is that input of the next run."""
        error = Error()
        self.libdemi.check(self.libdemi.c.demi_context_carry(
            self.context, output.encode(), source.encode(), byref(error)), error)

    def cut(self, name: str, axis: int, length: int) -> None:
        """Keeps the first slices of a carried input."""
        error = Error()
        self.libdemi.check(self.libdemi.c.demi_context_cut(
            self.context, name.encode(), c_uint32(axis), c_int64(length), byref(error)), error)

    def step(self) -> None:
        """One run on what is bound; the outputs stay where they are. It makes nothing new: small
        models are timed by it."""
        if self.run_plan(self.context, self.run_error):
            raise Failed(self.step_error)

    def run(self, feeds: dict[str, object]) -> list[object]:
        kinds, error = {io.name.decode(): io for io in self.inputs()}, Error()
        for name, value in feeds.items():
            kept: list[object] = []
            made = to_value(value, kinds[name].dtype if name in kinds else 0, kept)
            self.libdemi.check(self.libdemi.c.demi_context_set_input(
                self.context, name.encode(), byref(made), byref(error)), error)
        self.libdemi.check(self.libdemi.c.demi_context_run(self.context, byref(error)), error)
        return self.results()

    def results(self) -> list[object]:
        """Of the last run."""
        return [from_value(self.libdemi.c.demi_context_output(self.context, i).contents)
                for i in range(len(self.outputs()))]


def to_value(value: object, dtype: int, kept: list[object]) -> Value:
    """A Value that stands for it; `kept` holds the memory it points to."""
    made = Value(size=ctypes.sizeof(Value), kind=NONE)
    if value is None:
        return made
    if isinstance(value, list):
        items = (Value * len(value))(*(to_value(v, dtype, kept) for v in value))
        made.kind, made.count, made.items = SEQUENCE, len(value), items
        kept.append(items)
        return made
    array = np.asarray(value)
    number = STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
    array = np.ascontiguousarray(array).reshape(array.shape)
    if number == STRING:
        texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.ravel()]
        buffers = [ctypes.create_string_buffer(t, len(t) + 1) for t in texts]
        data = (String * max(len(texts), 1))(*(
            String(len(t), ctypes.addressof(b)) for t, b in zip(texts, buffers)))
        kept += [buffers, data]
        address = ctypes.addressof(data)
    else:
        kept.append(array)
        address = array.ctypes.data
    dims = (c_int64 * max(array.ndim, 1))(*array.shape)
    kept.append(dims)
    made.kind, made.dtype, made.rank = TENSOR, number, array.ndim
    made.dims, made.data = dims, address
    return made


def from_value(value: Value) -> object:
    if value.kind == NONE:
        return None
    if value.kind == SEQUENCE:
        return [from_value(value.items[i]) for i in range(value.count)]
    shape = tuple(value.dims[i] for i in range(value.rank))
    count = int(np.prod(shape))
    if value.dtype == STRING:
        strings = ctypes.cast(value.data, POINTER(String))
        texts = [ctypes.string_at(strings[i].text, strings[i].size).decode(errors="replace")
                 for i in range(count)]
        return np.array(texts, dtype=object).reshape(shape)
    dtype = numpy_dtype(value.dtype)
    data = ctypes.string_at(value.data, count * dtype.itemsize) if count else b""
    return np.frombuffer(data, dtype).reshape(shape).copy()
