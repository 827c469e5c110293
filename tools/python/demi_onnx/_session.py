# SPDX-License-Identifier: Apache-2.0
"""Runs models, with the interface of onnxruntime's InferenceSession.

A session has one plan, and as many contexts (`_Runner`) as threads run it at the same time: a run takes a
free context, or makes one. Runs do little in Python. Contiguous inputs are read in place. A small output
of known shape is written to memory that is bound once, and copied out of it; a large one is written to a
new array. Outputs of unknown shape are copied, or if they are large, taken out of the context. Every
result therefore belongs only to the caller.
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
import sys
import threading
from ctypes import addressof, byref, c_char
from typing import TYPE_CHECKING, Any, Generator, Mapping, Sequence, Union

import numpy as np

from . import _abi
from . import _abi_constants as _codes
from ._arguments import checked, refuse
from ._device import (DeviceArray, DeviceCounts, device_array, is_of, number_of_device, stream_of,
                      value_there)
from ._errors import Cancelled, DemiError, UsageError, named, take_error
from ._lib import call, encode, find_onednn, lib
from ._models import Folder, Model, Path, Source, choice, held, is_path
from ._values import (NAMES, STRING, Holder, array_of, copy_of, dtype_of, shape_of, value_of, view_of)

if TYPE_CHECKING:
    from ._stateful import Stateful

# Without checks of operands, which here are of the right types already: those of every run.
_run = lib.plain("demi_context_run")
_start = lib.plain("demi_context_start")
_borrow = lib.plain("demi_context_borrow_input")
_MAGIC = b"DEMIPLAN"  # what plans begin with (runtime/plan.h)
_GoOn: Any = type(_abi.DemiContextOptions().go_on)
_SMALL = 1 << 16  # bytes of an output that is copied rather than made anew
_Place = Union["np.ndarray[Any, Any]", DeviceArray]  # where an output is to be
# What objects raise that are asked for their elements in vain.
_NOT_A_VALUE = (TypeError, ValueError, OverflowError, RuntimeError, BufferError, AttributeError)
_Array = np.ndarray  # the type's own identity is looked at in every run
NUMERICS = {"fast": _codes.DEMI_NUMERICS_FAST, "faithful": _codes.DEMI_NUMERICS_FAITHFUL}
KERNELS = {"auto": _codes.DEMI_KERNELS_AUTO, "own": _codes.DEMI_KERNELS_OWN,
           "onednn": _codes.DEMI_KERNELS_ONEDNN}
_PROVIDERS = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda"}


class NodeArg:
    """An input or output: its name, its shape (a name or None for a dynamic size), and its type."""

    def __init__(self, io: _abi.DemiPlanIo) -> None:
        if not isinstance(io, _abi.DemiPlanIo):
            raise refuse("io", "a session's description of an input or output", io)
        self.name: str = (io.name or b"").decode("utf-8", "surrogateescape")
        self.shape: list[int | str | None] = []
        self.has_shape: bool = bool(io.has_rank)
        self.optional: bool = bool(io.optional)
        self.has_default: bool = bool(io.has_default)
        self.kind: int = io.kind
        self.number: int = io.dtype
        for i in range(io.rank if io.has_rank else 0):
            name = io.dim_names[i] if io.dim_names else None
            size = io.dims[i]
            self.shape.append(size if size >= 0 else name.decode(errors="replace") if name else None)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of its elements; that of ml_dtypes if numpy has none, and object if unknown."""
        return dtype_of(self.number)

    @property
    def type(self) -> str:
        """The type in onnxruntime's notation: tensor(float), seq(tensor(int64)), optional(tensor(float))."""
        text = f"tensor({NAMES.get(self.number, 'undefined')})"
        if self.kind == _codes.DEMI_DATA_SEQUENCE_KIND:
            text = f"seq({text})"
        return f"optional({text})" if self.optional else text

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class _Input:
    """An input of a context, and what it is set to: only an address, which is used only while a run holds
    the array."""

    __slots__ = ("arg", "name", "c_name", "dtype", "mask", "shape", "at", "raw", "ref", "kept",
                 "is_set")

    def __init__(self, arg: NodeArg) -> None:
        self.arg, self.name = arg, arg.name
        self.c_name = ctypes.c_char_p(arg.name.encode("utf-8", "surrogateescape"))
        self.dtype = dtype_of(arg.number)
        self.mask = min(max(self.dtype.itemsize, 1), 8) - 1
        self.shape: tuple[int, ...] | None = None  # None: the quick way is not for it
        self.at: int | None = None
        self.raw = _abi.RawDemiData()
        self.ref = byref(self.raw)
        self.kept: Any = None
        self.is_set = False


class _Output:
    """An output of a context, and where it is written."""

    __slots__ = ("arg", "number", "c_name", "dtype", "shape", "dims", "bytes", "small", "raw", "place",
                 "bound", "there")

    def __init__(self, arg: NodeArg, number: int) -> None:
        self.arg, self.number = arg, number
        self.c_name = ctypes.c_char_p(arg.name.encode("utf-8", "surrogateescape"))
        self.dtype = dtype_of(arg.number)
        self.raw: _abi.RawDemiData | None = None
        self.place: np.ndarray[Any, Any] | None = None  # of small ones, bound for good
        self.bound = self.there = False  # there: in the device's memory
        sizes = [size for size in arg.shape if isinstance(size, int)]
        self.bytes = 0  # 0: its shape is not known, it is looked at after the run
        if (arg.has_shape and len(sizes) == len(arg.shape) and arg.number != STRING
                and arg.number and arg.kind == _codes.DEMI_DATA_TENSOR_KIND and not arg.optional):
            size = math.prod(sizes) * self.dtype.itemsize
            self.bytes = size if size <= sys.maxsize else 0
        self.shape = tuple(sizes)
        self.dims = struct.pack(f"={len(sizes)}q", *sizes)
        self.small = 0 < self.bytes <= _SMALL


class _Taken:
    """An output that was taken out of its context, as memory for numpy arrays."""

    def __init__(self, taken: Any) -> None:
        self._taken = taken
        data = taken.contents
        dtype = dtype_of(data.dtype)
        self.shape, self.dtype = shape_of(data), dtype
        # ml_dtypes' types are not known to the array interface: their bytes are, and a view is made
        self.__array_interface__ = {"version": 3, "shape": (math.prod(self.shape) * dtype.itemsize,),
                                    "typestr": "|u1", "data": (data.data, False)}

    def __del__(self, free: Any = lib.demi_data_free) -> None:
        free(self._taken)

    def array(self) -> np.ndarray[Any, Any]:
        return np.asarray(self).view(self.dtype).reshape(self.shape)


class _Interrupt:
    """Lets Python run its signal handlers during long runs. What they raise ends the run, and is kept until
    then. The callback is the `send` of a generator, so everything is raised inside its `try`: nothing can
    escape into C."""

    def __init__(self) -> None:
        self.caught: BaseException | None = None
        loop = self._loop()
        next(loop)
        self.callback = _GoOn(loop.send)

    def _loop(self) -> Generator[bool, Any, None]:
        go_on = True
        while True:
            try:
                yield go_on
                go_on = True
            except GeneratorExit:
                return
            except BaseException as error:
                self.caught, go_on = error, False

    def take(self) -> BaseException | None:
        caught, self.caught = self.caught, None
        return caught


class _Runner:
    """A context: the inputs and outputs of one run at a time."""

    def __init__(self, plan: "_Plan") -> None:
        self._plan = plan  # whose memory the context reads
        self._interrupt = _Interrupt()
        self._context = ctypes.c_void_p()
        with plan.lock:  # contexts share the options
            plan.options.go_on = self._interrupt.callback
            call(lib.demi_context_new, plan.pointer, byref(plan.options), byref(self._context))
        self._error = _abi.DemiError()
        self._error_ref = byref(self._error)
        self._inputs = [_Input(arg) for arg in plan.inputs]
        self._outputs = [_Output(arg, i) for i, arg in enumerate(plan.outputs)]
        self._working: list[Any] = []  # what a run that was started works on

    def __del__(self, free: Any = lib.demi_context_free) -> None:
        if getattr(self, "_context", None):
            free(self._context)

    # -- errors --

    def _fail(self, status: int) -> DemiError:
        return take_error(status, self._error)

    def _check(self, status: int) -> None:
        if status:
            raise self._fail(status)

    # -- inputs --

    def _set(self, slot: _Input, value: Any) -> Any:
        """Sets any value, in the slow way. Returns what must stay during the run. Errors name the input, as
        those of the library already do."""
        slot.shape = None
        try:
            there, holder = self._form_of(slot, value)
        except _NOT_A_VALUE as error:
            raise named(error, f"input '{slot.name}'") from (error.__cause__ or error)
        borrow = lib.demi_context_borrow_device_input if there else lib.demi_context_borrow_input
        self._check(borrow(self._context, slot.c_name, byref(holder.data), self._error_ref))
        slot.is_set = True
        if not there and len(holder.kept) == 2 and isinstance(value, _Array) and value is holder.kept[0]:
            dims = holder.kept[1]
            raw = slot.raw
            raw.size, raw.kind = ctypes.sizeof(_abi.RawDemiData), _codes.DEMI_DATA_TENSOR_KIND
            raw.dtype, raw.rank = holder.data.dtype, value.ndim
            raw.dims, raw.data = addressof(dims), holder.data.data
            slot.kept = dims
            slot.shape, slot.at = value.shape, holder.data.data
        return holder

    def _form_of(self, slot: _Input, value: Any) -> tuple[bool, Holder]:
        """Returns whether the value is on the device, and the library's form of it."""
        there = device_array(value, self._plan.stream, self._plan.device)
        if there is not None:
            return True, value_there(there, slot.arg.number)
        if isinstance(value, (list, tuple)) and slot.arg.kind == _codes.DEMI_DATA_TENSOR_KIND:
            value = np.asarray(value, dtype=slot.dtype)
        if value is not None and not isinstance(value, (list, tuple)):
            value = array_of(value, slot.arg.number)
        return False, value_of(value, slot.arg.number)

    def _miss(self, slot: _Input, feeds: Mapping[str, Any]) -> None:
        """Handles an input without a value."""
        self._check_names(feeds)
        if not (slot.arg.optional or slot.arg.has_default):
            raise UsageError(f"input '{slot.name}': it is not set", operand=f"input '{slot.name}'",
                             what="it is not set", hint=self._plan.say_inputs())
        if slot.is_set:
            self._check(lib.demi_context_unset_input(self._context, slot.c_name, self._error_ref))
        slot.is_set, slot.shape = False, None

    def _check_names(self, feeds: Mapping[str, Any]) -> None:
        known = {slot.name for slot in self._inputs}
        for name in feeds:
            if name not in known:
                raise UsageError(f"the model has no input {name!r}", what="the model has no such input",
                                 hint=self._plan.say_inputs())

    # -- outputs --

    def _bind(self, slot: _Output) -> np.ndarray[Any, Any] | None:
        """Before a run: returns a new array for a large output, or the fixed place of a small one."""
        if slot.small and slot.bound:
            return slot.place
        array: np.ndarray[Any, Any] = np.empty(slot.shape, slot.dtype)
        self._check(lib.demi_context_bind_output(self._context, slot.c_name, array.ctypes.data,
                                                 slot.bytes, self._error_ref))
        slot.bound = True
        if slot.small:
            slot.place = array
        return array

    def _unbind(self, slot: _Output) -> None:
        """This run does not return the output, and the array of the last run belongs to its caller."""
        if slot.bound and not slot.small:
            self._check(lib.demi_context_bind_output(self._context, slot.c_name, None, 0,
                                                     self._error_ref))
            slot.bound = False

    def _look(self, slot: _Output) -> Any:
        """After a run: returns an output whose shape was not known before."""
        output = lib.demi_context_output(self._context, slot.number)
        if not output:
            raise UsageError(f"output '{slot.arg.name}' cannot be copied within the memory budget")
        data = output.contents
        if data.kind != _codes.DEMI_DATA_TENSOR_KIND or data.dtype == STRING:
            return copy_of(data)
        array = view_of(data)
        if array.nbytes <= _SMALL:
            return array.copy()
        taken = ctypes.POINTER(_abi.DemiData)()
        self._check(lib.demi_context_take_output(self._context, slot.number, byref(taken),
                                                 self._error_ref))
        return _Taken(taken).array()

    def _is_as_declared(self, slot: _Output) -> bool:
        raw = slot.raw
        if raw is None:  # where it lies does not change
            output = lib.demi_context_output(self._context, slot.number)
            raw = slot.raw = _abi.RawDemiData.from_address(addressof(output.contents))
        size = 8 * raw.rank
        return size == len(slot.dims) and (
            not size or bytes((c_char * size).from_address(raw.dims or 0)) == slot.dims)

    def _give_up_shape(self, slot: _Output) -> Any:
        """The output does not have the shape that the model declares: from now on, reads it after each run."""
        output = lib.demi_context_output(self._context, slot.number).contents
        made = copy_of(output)
        self._check(lib.demi_context_bind_output(self._context, slot.c_name, None, 0,
                                                 self._error_ref))
        slot.bytes, slot.small, slot.bound = 0, False, False
        return made

    # -- the run --

    def _feed(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Sets the inputs. Returns what must stay during the run."""
        held: list[Any] = []
        for slot in self._inputs:
            try:
                x = feeds[slot.name]
            except Exception as error:  # a KeyError, of what is a mapping
                self._refuse_feeds(feeds)
                if not isinstance(error, (KeyError, TypeError)):
                    raise
                self._miss(slot, feeds)
                continue
            held.append(x)
            if (type(x) is _Array and x.dtype is slot.dtype and x.shape == slot.shape
                    and x.flags.c_contiguous):
                try:
                    at = addressof(c_char.from_buffer(x))  # type: ignore[arg-type, unused-ignore]
                except (TypeError, ValueError):  # read-only, empty, or of a type without buffers
                    at = x.ctypes.data
                if at == slot.at:
                    continue
                if not at & slot.mask:
                    slot.raw.data = slot.at = at
                    status = _borrow(self._context, slot.c_name, slot.ref, self._error_ref)
                    if status:
                        slot.shape = None
                        raise self._fail(status)
                    continue
            held.append(self._set(slot, x))
        if len(feeds) > len(self._inputs):
            self._check_names(feeds)
        return held

    def run(self, wanted: Sequence[int] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Returns the outputs with these numbers, or all."""
        held = self._feed(feeds)  # until outputs are read: strings of theirs may be these
        outputs = self._outputs
        if wanted is not None:
            for slot in outputs:
                if slot.number not in wanted:
                    self._unbind(slot)
            outputs = [outputs[i] for i in wanted]
        places = [self._bind(out) if out.bytes else None for out in outputs]
        status = _run(self._context, self._error_ref)
        if status:
            raise self._end(status)
        return [self._look(out) if place is None
                else (place.copy() if out.small else place) if self._is_as_declared(out)
                else self._give_up_shape(out) for out, place in zip(outputs, places)]

    def _bind_given(self, out: _Output, place: _Place | None) -> None:
        there = place if isinstance(place, DeviceArray) else None
        here = place if isinstance(place, _Array) else None
        if there or out.there:  # with None: there no more
            self._check(lib.demi_context_bind_device_output(
                self._context, out.c_name, there.pointer if there else None, there.nbytes if there else 0,
                self._error_ref))
            out.there = there is not None
        if not there:
            self._check(lib.demi_context_bind_output(
                self._context, out.c_name, None if here is None else here.ctypes.data,
                0 if here is None else here.nbytes, self._error_ref))

    def start_bound(self, wanted: Sequence[int], feeds: Mapping[str, Any],
                    given: Mapping[str, _Place], run: Any) -> None:
        """Runs with outputs in the caller's memory, if it has given any. `run` is demi_context_run or
        demi_context_start. What the run works on stays until `finish_bound`."""
        for name, place in given.items():
            if any(isinstance(x, _Array) and isinstance(place, _Array) and np.may_share_memory(x, place)
                   for x in feeds.values()):
                raise UsageError(f"output '{name}' is bound to the memory of an input")
        self._working = [self._feed(feeds), given]
        for out in self._outputs:
            self._bind_given(out, given.get(out.arg.name) if out.number in wanted else None)
        status = run(self._context, self._error_ref)
        if status:
            raise self._end(status)

    def finish_bound(self, wanted: Sequence[int], given: Mapping[str, _Place]) -> list[Any]:
        working, self._working = self._working, []  # until outputs are read: strings of theirs may be these
        status = lib.demi_context_wait(self._context, self._error_ref)
        if status:
            raise self._end(status)
        made = [self._in_place(out, given[out.arg.name]) if out.arg.name in given
                else self._look(out) for out in (self._outputs[i] for i in wanted)]
        del working
        return made

    def peak(self) -> int:
        return int(lib.demi_context_peak(self._context))

    def device_counts(self) -> DeviceCounts:
        counts = _abi.DemiDeviceCounts()
        lib.demi_context_device_counts(self._context, byref(counts))
        return DeviceCounts._of(counts)

    def _in_place(self, out: _Output, array: _Place) -> Any:
        shape = shape_of(lib.demi_context_output(self._context, out.number).contents)
        if shape == array.shape:
            return array.owner if isinstance(array, DeviceArray) and array.owner is not None else array
        raise UsageError(f"output '{out.arg.name}' has shape {shape}, but is bound to an array of "
                         f"shape {array.shape}")

    def _refuse_feeds(self, feeds: Any) -> None:
        if not isinstance(feeds, Mapping):
            raise refuse("input_feed", "a mapping of input names to arrays", feeds, hint=self._plan.say_inputs())

    def _end(self, status: int) -> BaseException:
        """Returns the exception of a failed run. Keeps nothing that it was given."""
        for slot in self._inputs:
            slot.shape = slot.at = None
        failed = self._fail(status)
        caught = self._interrupt.take()
        return caught if caught is not None and isinstance(failed, Cancelled) else failed

    def cancel(self) -> None:
        lib.demi_context_cancel(self._context)


def aligned(plan: bytes) -> np.ndarray[Any, Any]:
    """Copies the bytes to where the library accepts plans: a multiple of 64."""
    room: np.ndarray[Any, Any] = np.empty(len(plan) + 64, np.uint8)
    start = -room.ctypes.data % 64
    made = room[start:start + len(plan)]
    made[:] = np.frombuffer(plan, np.uint8)
    return made


class _Plan:
    """A plan, and the options of its contexts."""

    def __init__(self, model: Any, data_root: Folder | None, compile_options: _abi.DemiCompileOptions,
                 options: _abi.DemiContextOptions, device: str) -> None:
        self.pointer = ctypes.c_void_p()
        self.options = options
        self.stream: int | None = options.device_stream
        self.device = number_of_device(device)
        self.lock = threading.Lock()
        if isinstance(model, bytes) and model.startswith(_MAGIC):
            find_onednn()
            self._bytes = aligned(model)  # borrowed
            call(lib.demi_plan_from_memory, self._bytes.ctypes.data, len(model), byref(self.pointer))
        else:
            call(lib.demi_plan_open, Source(model, data_root).ref, byref(compile_options),
                 byref(self.pointer))
        self.inputs = args_of(self.pointer, lib.demi_plan_input_count, lib.demi_plan_input)
        self.outputs = args_of(self.pointer, lib.demi_plan_output_count, lib.demi_plan_output)
        self._numbers = {arg.name: i for i, arg in enumerate(self.outputs)}

    def __del__(self, free: Any = lib.demi_plan_free) -> None:
        if getattr(self, "pointer", None):  # contexts hold it: whichever of them goes first
            free(self.pointer)

    def say_inputs(self) -> str:
        if not self.inputs:
            return "the model has no inputs"
        return "the inputs are: " + ", ".join(f"{arg.name} {arg.type}" for arg in self.inputs)

    def wanted(self, names: Sequence[str]) -> list[int]:
        """Returns the numbers of these outputs."""
        if isinstance(names, str):
            raise refuse("output_names", "a list of names", names)
        try:
            return [self._numbers[name] for name in names]
        except Exception:
            raise refuse("output_names", "names of outputs", names,
                         hint=f"the outputs are: {', '.join(self._numbers)}") from None


class Session:
    """A model to run.

    `model` is the path or the bytes of a model or of a plan (`compile`), or an onnx.ModelProto.
    `threads` is the number of threads of a run (None: all CPUs). `numerics` is "fast" or "faithful" (each
    16-bit result is rounded as if nothing were fused). `device` is "cpu" or "cuda[:N]". `kernels` is "auto",
    "own", or "onednn". `seed` is the seed of random operators that have none. Limits of a run are
    `memory_budget` in bytes, `time_limit` in seconds, and `step_limit` in operators, where each iteration
    of a loop counts. `small` keeps weights in 16-bit in memory. `keep_values` fuses nothing.

    On a device, `device_memory` is the most bytes of device memory. `tf32` lets float32 products round
    their factors to TF32. `device_graph=False` never records and replays runs. `device_stream` is the caller's
    stream, which all work goes through: a handle, or a stream of torch or cupy.

    `sess_options` and `providers` are interpreted like onnxruntime's, for the number of threads, and for CPU
    or CUDA.

    Inputs may be in device memory: objects with `__dlpack__` or `__cuda_array_interface__` (torch, cupy,
    numba), or a DeviceArray. A run reads them after the earlier work in `device_stream`. Without that stream,
    the caller must wait for what writes them.

    Any number of threads may call `run` at the same time. Pickling a session stores what it was made of; a
    path is stored as a path.
    """

    @checked
    def __init__(self, model: Model, sess_options: Any = None,
                 providers: Sequence[Any] | None = None, provider_options: Any = None, *,
                 threads: int | None = None, numerics: str = "fast", kernels: str = "auto",
                 device: str | None = None, memory_budget: int = 0, time_limit: float = 0.0,
                 seed: int = 0, small: bool = False, keep_values: bool = False,
                 data_root: Folder | None = None, device_memory: int = 0, tf32: bool = False,
                 device_stream: Any = None, device_graph: bool = True, step_limit: int = 0) -> None:
        del provider_options
        if threads is None:
            threads = _threads_of(sess_options)
        if device is None:
            device = _device_of(providers)
        self._model = model if is_path(model) else held(model)
        self._how = {"threads": threads, "numerics": numerics, "kernels": kernels, "device": device,
                     "memory_budget": memory_budget, "time_limit": time_limit, "seed": seed,
                     "small": small, "keep_values": keep_values, "data_root": data_root,
                     "device_memory": device_memory, "tf32": tf32, "device_graph": device_graph,
                     "step_limit": step_limit}
        self._device = encode(device)
        self._plan = _Plan(
            self._model, data_root,
            _abi.DemiCompileOptions(numerics=choice(NUMERICS, numerics, "numerics"), small=small,
                                    keep_values=keep_values, for_device=device != "cpu"),
            _abi.DemiContextOptions(threads=threads, kernels=choice(KERNELS, kernels, "kernels"),
                                    seed=seed, small=small, memory_budget=memory_budget,
                                    time_limit=time_limit, step_limit=step_limit, device=self._device,
                                    device_memory=device_memory, tf32=tf32,
                                    device_stream=stream_of(device_stream), device_steps=not device_graph), device)
        self._free: list[_Runner] = [_Runner(self._plan)]

    def __getstate__(self) -> dict[str, Any]:
        model = self._model
        return {"model": os.fspath(model) if is_path(model) else model,  # type: ignore[arg-type]
                "how": self._how}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["model"], **state["how"])  # type: ignore[misc]

    def __repr__(self) -> str:
        name = os.fspath(self._model) if is_path(self._model) else "model"  # type: ignore[arg-type]
        return f"<demi_onnx.Session of {name}>"

    def get_inputs(self) -> list[NodeArg]:
        return list(self._plan.inputs)

    def get_outputs(self) -> list[NodeArg]:
        return list(self._plan.outputs)

    def get_providers(self) -> list[str]:
        """Returns what the session runs on, as onnxruntime does."""
        cuda = ["CUDAExecutionProvider"] if self._device.startswith(b"cuda") else []
        return [*cuda, "CPUExecutionProvider"]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: Any = None) -> list[Any]:
        """Returns the outputs of these names (None: all) for arrays by the names of the inputs. Outputs are
        arrays that belong to the caller. A sequence is a list of arrays, and an empty optional is None."""
        try:
            runner = self._free.pop()
        except IndexError:
            runner = _Runner(self._plan)
        try:
            return runner.run(None if output_names is None else self._plan.wanted(output_names),
                              input_feed)
        finally:
            self._free.append(runner)

    def __call__(self, **feeds: Any) -> list[Any]:
        """Returns all outputs for inputs given by their names."""
        return self.run(None, feeds)

    async def run_async(self, output_names: Sequence[str] | None,
                        input_feed: Mapping[str, Any]) -> list[Any]:
        """The same as `run`, in a thread of the event loop. Cancelling the task also ends the run."""
        import asyncio  # who awaits has it already; others need not wait for it
        try:
            runner = self._free.pop()
        except IndexError:
            runner = _Runner(self._plan)
        wanted = None if output_names is None else self._plan.wanted(output_names)
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(None, runner.run, wanted, input_feed)
        try:
            made = await asyncio.shield(future)
        except asyncio.CancelledError:
            runner.cancel()  # and is given up: it may have been over before
            future.add_done_callback(lambda done: done.exception())
            raise
        except BaseException:
            self._free.append(runner)
            raise
        self._free.append(runner)
        return made

    def memory_peak(self) -> int:
        """Returns the most bytes that the last run used: for values, workspace, and what it remembers. If
        several threads run the session, returns the largest of their last runs."""
        return max((runner.peak() for runner in list(self._free)), default=0)

    def device_counts(self) -> DeviceCounts:
        """Returns what `run` did on the device so far, without runs that are active in other threads now."""
        total = DeviceCounts()
        for runner in list(self._free):
            total = total._plus(runner.device_counts())
        return total

    @checked
    def stateful(self, carry: Mapping[str, str]) -> "Stateful":
        """Returns runs whose outputs are inputs of the next: {"present.*": "past.*"} maps the names of outputs
        to those of inputs, where '*' in both is any text. Caches grow in place, and are never copied. Any
        number of these may be active at the same time, also while `run` is used."""
        from ._stateful import Stateful
        return Stateful(self._plan, carry)

    def io_binding(self) -> "IoBinding":
        """Returns a binding: inputs and outputs in memory that stays the same for many runs."""
        return IoBinding(self)

    @checked
    def run_with_iobinding(self, binding: "IoBinding", run_options: Any = None) -> None:
        binding._run(self)


class IoBinding:
    """Memory that runs read inputs from and write outputs to, without a copy: arrays, or tensors on the
    session's device."""

    @checked
    def __init__(self, session: Session) -> None:
        self._plan = session._plan
        self._runner = _Runner(self._plan)
        self._inputs: dict[str, Any] = {}
        self._given: dict[str, _Place] = {}
        self._wanted: list[int] = []
        self._started: tuple[list[int], dict[str, _Place]] | None = None
        self._outputs: list[Any] = []

    @checked
    def bind_input(self, name: str, array: Any) -> None:
        """Binds an input to an array, which runs read as it is at that time. An array that is not contiguous
        is copied in every run; on a device, it must be contiguous."""
        if name not in (arg.name for arg in self._plan.inputs):
            raise UsageError(f"the model has no input {name!r}", hint=self._plan.say_inputs())
        self._inputs[name] = array

    @checked
    def bind_output(self, name: str, array: Any = None) -> None:
        """Binds an output to an array, or a tensor on the device, to which runs write. It must be contiguous
        and have the type of the output. None: runs write to new arrays."""
        number = self._plan.wanted([name])[0]
        if array is not None:
            self._given[name] = self._place_of(self._plan.outputs[number], array)
        else:
            self._given.pop(name, None)
        if number not in self._wanted:
            self._wanted.append(number)

    def _place_of(self, arg: NodeArg, array: Any) -> _Place:
        try:
            there = device_array(array, self._plan.stream, self._plan.device)
        except _NOT_A_VALUE as error:
            raise named(error, f"output '{arg.name}'") from (error.__cause__ or error)
        if there is not None:
            if is_of(there, arg.number) and there.writable:
                return DeviceArray(there.pointer, there.shape, there.dtype, array)
        elif (isinstance(array, np.ndarray) and not hasattr(array, "mask") and array.flags.c_contiguous and array.flags.writeable
              and array.dtype == dtype_of(arg.number)):
            return array
        raise refuse(f"output '{arg.name}'", f"a contiguous, writable array of {dtype_of(arg.number)}", array)

    def get_outputs(self) -> list[Any]:
        """Returns the outputs of the last run in the order in which they were bound: the bound objects themselves."""
        return list(self._outputs)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The same under onnxruntime's name. Outputs that are bound to device memory are not copied."""
        return self.get_outputs()

    def _begin(self, run: Any) -> None:
        self.wait()
        self._outputs = []
        wanted, given = list(self._wanted), dict(self._given)
        self._runner.start_bound(wanted, self._inputs, given, run)
        self._started = wanted, given

    def _run(self, session: Session) -> None:
        if session._plan is not self._plan:
            raise UsageError("the binding belongs to a different session")
        self._begin(_run)
        self.wait()

    def start(self) -> None:
        """Puts a run into the device's stream and returns. Later work in that stream can use outputs on the
        device; other outputs are ready after `wait`. Inputs and outputs must not change until then. First
        waits for a run that was started before. On the CPU, the run has ended when this returns."""
        self._begin(_start)

    def wait(self) -> None:
        """Waits for the run that `start` began, and raises its errors."""
        if self._started is not None:
            (wanted, given), self._started = self._started, None
            self._outputs = self._runner.finish_bound(wanted, given)

    def device_counts(self) -> DeviceCounts:
        """Returns what runs of this binding did on the device; call `wait` first."""
        return self._runner.device_counts()


def _threads_of(options: Any) -> int:
    """Returns the number of threads of onnxruntime's SessionOptions."""
    threads = getattr(options, "intra_op_num_threads", 0)
    if not isinstance(threads, int):
        raise refuse("sess_options", "an integer as intra_op_num_threads", threads)
    return threads


def _device_of(providers: Sequence[Any] | None) -> str:
    """Returns the device of the first of onnxruntime's providers that demi has."""
    for provider in providers or ["CPUExecutionProvider"]:
        name = provider[0] if isinstance(provider, (tuple, list)) and provider else provider
        if isinstance(name, str) and name in _PROVIDERS:
            return _PROVIDERS[name]
    raise refuse("providers", "at least one that demi has", providers,
                 hint=f"the providers are: {', '.join(_PROVIDERS)}")


def args_of(plan: ctypes.c_void_p, count: Any, get: Any) -> list[NodeArg]:
    args, io = [], _abi.DemiPlanIo()
    for i in range(count(plan)):
        get(plan, i, byref(io))
        args.append(NodeArg(io))
    return args


__all__ = ["IoBinding", "NodeArg", "Session"]
