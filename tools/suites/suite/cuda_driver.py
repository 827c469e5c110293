# SPDX-License-Identifier: Apache-2.0
"""CUDA's driver by ctypes, for tests of what programs share with demi: a stream, memory on the device.

Of the fake device (tools/fake_cuda), or of the one that there is.
"""

import ctypes

import numpy as np


class Driver:
    """The driver, as a program that shares its device with demi uses it."""

    class Failed(Exception):
        """A call of the program's own."""

    def __init__(self, number: int = 0) -> None:
        self.c, device, self.context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), number)
        self.memory: list[ctypes.c_void_p] = []
        self.ends: list[tuple] = []  # what undoes calls so far
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.ends.append(("cuDevicePrimaryCtxRelease_v2", number))
        try:
            self.call("cuCtxPushCurrent_v2", self.context)
            self.ends.append(("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p())))
            self.stream = self.made("cuStreamCreate", 1)
            self.ends.append(("cuStreamDestroy_v2", self.stream))
        except Driver.Failed:
            self.end()
            raise

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.c, name)(*arguments)
        if code:
            raise Driver.Failed(f"CUDA: {name}: {code}")

    def made(self, name: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def current(self) -> int | None:
        """The thread's context."""
        return self.made("cuCtxGetCurrent").value

    def capture_mode(self, mode: int) -> int:
        """What the thread said of others' captures before it says this."""
        said = ctypes.c_int(mode)
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(said))
        return said.value

    def room(self, size: int, at: int = 0) -> int:
        """An address, `at` bytes behind one that is aligned to 256."""
        self.memory.append(self.made("cuMemAlloc_v2", ctypes.c_size_t(size + at)))
        return self.memory[-1].value + at

    def send(self, to: int, array: np.ndarray) -> None:
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(to), ctypes.c_void_p(array.ctypes.data),
                  ctypes.c_size_t(array.nbytes), self.stream)

    def copy(self, to: int, address: int, size: int) -> None:
        self.call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(to), ctypes.c_uint64(address),
                  ctypes.c_size_t(size), self.stream)

    def fetch(self, array: np.ndarray, address: int) -> np.ndarray:
        """What lies there when all is done that the stream has."""
        self.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(address),
                  ctypes.c_size_t(array.nbytes), self.stream)
        self.call("cuStreamSynchronize", self.stream)
        return array

    def made_of_capture(self) -> ctypes.c_void_p:
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        return graph

    def end(self) -> None:
        """Of all, whatever of it fails."""
        failed = None
        for name, *arguments in [*(("cuMemFree_v2", m) for m in self.memory), *reversed(self.ends)]:
            try:
                self.call(name, *arguments)
            except Driver.Failed as error:
                failed = error
        if failed:
            raise failed
