# SPDX-License-Identifier: Apache-2.0
"""Plans run by the C functions alone, for what a session does not do: plans in another library than the one that
compiled them, inputs that are copied, outputs that stay where the runtime makes them, a run that costs nothing in
Python.
"""

import functools
import os
import pathlib
from ctypes import byref, c_void_p

import numpy as np

from suite.package import MEMORY  # it finds demi_onnx

from demi_onnx import _abi
from demi_onnx._abi_constants import DEMI_FLOAT
from demi_onnx._abi_functions import Library
from demi_onnx._errors import take_error
from demi_onnx._lib import lib
from demi_onnx._session import KERNELS, NodeArg, aligned, args_of
from demi_onnx._values import Holder, copy_of, value_of

DeviceCounts = _abi.DemiDeviceCounts


class PlanRunner:
    """A plan, of bytes or a file, and a context of it, by the C functions alone; or another context of the plan
    that a runner has."""

    def __init__(self, plan: "bytes | pathlib.Path | PlanRunner", threads: int = 1, memory: int = MEMORY, *,
                 library: Library = lib, kernels: str = "auto", device: str = "cpu", whole: bool = False,
                 **more: object) -> None:
        """`whole`: a file is read as a whole, not mapped."""
        self.c, self.plan, self.context = library, c_void_p(), c_void_p()
        self.error, self.bound = _abi.DemiError(), {}
        self.told, self.run_plan = byref(self.error), library.plain("demi_context_run")
        self.owner = plan if isinstance(plan, PlanRunner) else None
        if self.owner:
            self.plan = self.owner.plan
        elif isinstance(plan, bytes):
            self.bytes = aligned(plan)
            self.check(library.demi_plan_from_memory(self.bytes.ctypes.data, len(plan), byref(self.plan), self.told))
        else:
            load = library.demi_plan_read if whole else library.demi_plan_load
            self.check(load(os.fsencode(plan), byref(self.plan), self.told))
        how = _abi.DemiContextOptions(threads=threads, memory_budget=memory, kernels=KERNELS[kernels],
                                      device=device.encode(), **more)
        self.check(library.demi_context_new(self.plan, byref(how), byref(self.context), self.told))
        self.count = library.demi_plan_output_count(self.plan)

    @functools.cached_property
    def inputs(self) -> list[NodeArg]:
        return args_of(self.plan, self.c.demi_plan_input_count, self.c.demi_plan_input)

    @functools.cached_property
    def outputs(self) -> list[NodeArg]:
        return args_of(self.plan, self.c.demi_plan_output_count, self.c.demi_plan_output)

    def __del__(self) -> None:
        self.c.demi_context_free(self.context)
        if not self.owner:
            self.c.demi_plan_free(self.plan)

    def check(self, status: int) -> None:
        if status:
            raise take_error(status, self.error)

    def holder(self, name: str, value: object) -> Holder:
        if isinstance(value, np.ndarray):
            return value_of(value, DEMI_FLOAT)
        return value_of(value, next((arg.number for arg in self.inputs if arg.name == name), DEMI_FLOAT))

    def verify(self) -> None:
        """Its bytes are those that were written."""
        self.check(self.c.demi_plan_verify(self.plan, self.told))

    def bind(self, feeds: dict[str, np.ndarray], there: dict[str, int] | None = None) -> None:
        """Inputs for `step`, not copied; `there`: their values lie at these addresses of the device."""
        borrow = self.c.demi_context_borrow_device_input if there else self.c.demi_context_borrow_input
        for name, value in feeds.items():
            holder = self.bound[name] = self.holder(name, value)
            if there:
                holder.data.data = there[name]
            self.check(borrow(self.context, name.encode(), byref(holder.data), self.told))

    def bind_outputs(self, there: list[int], sizes: list[int]) -> None:
        """Where on the device outputs go."""
        for arg, address, size in zip(self.outputs, there, sizes):
            self.check(self.c.demi_context_bind_device_output(self.context, arg.name.encode(), address, size,
                                                              self.told))

    def start(self) -> None:
        self.check(self.c.demi_context_start(self.context, self.told))

    def wait(self) -> None:
        self.check(self.c.demi_context_wait(self.context, self.told))

    def carry(self, output: str, source: str) -> None:
        """The output is that input of the next run."""
        self.check(self.c.demi_context_carry(self.context, output.encode(), source.encode(), self.told))

    def cut(self, name: str, axis: int, length: int) -> None:
        """Keeps the first slices of a carried input."""
        self.check(self.c.demi_context_cut(self.context, name.encode(), axis, length, self.told))

    def step(self) -> None:
        """One run on what is bound; the outputs stay where they are. It makes nothing new: small models are
        timed by it."""
        if status := self.run_plan(self.context, self.told):
            raise take_error(status, self.error)

    def run(self, feeds: dict[str, object]) -> list[object]:
        """On copies of these inputs, and others as they were."""
        for name, value in feeds.items():
            holder = self.holder(name, value)
            self.check(self.c.demi_context_set_input(self.context, name.encode(), byref(holder.data), self.told))
        self.check(self.c.demi_context_run(self.context, self.told))
        return self.results()

    def results(self) -> list[object]:
        """Of the last run."""
        return [copy_of(self.c.demi_context_output(self.context, i).contents) for i in range(self.count)]

    def device_counts(self) -> DeviceCounts:
        counts = DeviceCounts()
        self.c.demi_context_device_counts(self.context, byref(counts))
        return counts
