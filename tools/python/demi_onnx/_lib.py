# SPDX-License-Identifier: Apache-2.0
"""The shared library, which is found and loaded once, and calls into it.

Calls release the global interpreter lock while they run. Exceptions must not leave Python code that they
call back (progress, scores, passes). `Guard` keeps them until the call is over, which then raises them
instead of the library's own error.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from typing import Any, Callable, Iterator

from . import _abi
from ._abi_functions import Library
from ._errors import Cancelled, DemiError, EnvironmentFailure, error_of

_HERE = os.path.dirname(os.path.abspath(__file__))


def library_path() -> str:
    """Returns the path of this package's library, or of the one that DEMI_LIBRARY names."""
    return os.environ.get("DEMI_LIBRARY") or os.path.join(_HERE, "libdemi.so")


def _load() -> Library:
    try:
        return Library(library_path())
    except OSError as error:
        raise ImportError(f"cannot load demi's library: {error}") from error


lib = _load()
raised = threading.local()  # .error: what ended a pass in this thread, until the call that ran it is over


class Guard:
    """Keeps the first exception of callbacks until the end of a call."""

    def __init__(self) -> None:
        self.caught: BaseException | None = None
        self._functions: list[Any] = []

    def wrap(self, function: Callable[..., Any], failed: Any) -> Callable[..., Any]:
        """Returns the function, which then returns `failed` if it raises."""

        def guarded(*operands: Any) -> Any:
            if self.caught is not None:  # before its `try`: ctypes then returns whatever there was
                return failed
            try:
                return function(*operands)
            except BaseException as error:  # whatever it is goes on later
                self._keep(error)
                return failed

        self._functions.append(guarded)
        return guarded

    def _keep(self, error: BaseException | None) -> None:
        if self.caught is None:
            self.caught = error

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Also keeps what is raised before a callback's `try`: Ctrl-C may come at its very first step, which
        ctypes can only pass to sys.unraisablehook. That happens only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        others = sys.unraisablehook

        def hook(raised: Any) -> None:
            if any(raised.object is function for function in self._functions):
                self._keep(raised.exc_value)
            else:
                others(raised)

        sys.unraisablehook = hook
        try:
            yield
        finally:
            sys.unraisablehook = others


def call(function: Callable[..., int], *operands: Any, guard: Guard | None = None) -> None:
    """Calls a function whose last operand is a DemiError, and raises its error, or what a callback raised
    in the meantime."""
    error = _abi.DemiError()
    with contextlib.nullcontext() if guard is None else guard.watch():
        status = function(*operands, ctypes.byref(error))
    if guard is not None and guard.caught is not None:
        raise guard.caught
    cause = getattr(raised, "error", None)
    if cause is not None:
        raised.error = None
    if status and cause is not None and not isinstance(cause, Exception):
        raise cause  # Ctrl-C, and what else is not for those who handle errors
    if status:
        raise error_of(status, error) from cause


def encode(text: str | os.PathLike[str]) -> bytes:
    """Encodes text for C. Raises a UsageError if it contains a NUL character, which C cannot represent."""
    raw = os.fsencode(text)
    if b"\0" in raw:
        from ._errors import UsageError
        raise UsageError("a name or path contains a NUL character")
    return raw


def find_onednn() -> None:
    """Before the first run, loads oneDNN from its Python package, so that the library finds it by name. This
    takes a while, so programs that only convert do not do it."""
    global _looked_for_onednn
    if not _looked_for_onednn:
        _looked_for_onednn = True
        path = os.path.join(sys.prefix, "lib", "libdnnl.so.3")
        if os.path.exists(path):
            try:
                ctypes.CDLL(path)
            except OSError:
                pass  # demi's own kernels do


_looked_for_onednn = False


def onednn_version() -> str | None:
    """Returns the version of oneDNN that runs can use; None if there is none."""
    find_onednn()
    version = lib.demi_onednn_version(None)
    return version.decode() if version else None


__all__ = ["Cancelled", "DemiError", "EnvironmentFailure", "Guard", "call", "encode", "find_onednn",
           "lib", "library_path", "onednn_version"]
