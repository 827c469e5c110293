# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions with the fields of the C interface's DemiError."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from . import _abi_constants as _codes

_PARTS = ("hint", "file", "graph", "node", "op_type", "operand", "what", "expected", "actual")


class DemiError(Exception):
    """An error of demi's. `str()` is one line; the parts that it is made of are attributes, empty
    where they do not apply."""

    status = 0

    def __init__(self, message: str, **parts: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = parts.get("hint", "")
        self.file = parts.get("file", "")
        self.graph = parts.get("graph", "")
        self.node = parts.get("node", "")
        self.op_type = parts.get("op_type", "")
        self.operand = parts.get("operand", "")
        self.what = parts.get("what", message)
        self.expected = parts.get("expected", "")
        self.actual = parts.get("actual", "")

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.message, {part: getattr(self, part) for part in _PARTS})


class ModelError(DemiError):
    """The model or its data is at fault."""

    status = _codes.DEMI_ERR_MODEL


class UsageError(DemiError, ValueError):
    """An option, a name, a shape or a type that the call was given is wrong."""

    status = _codes.DEMI_ERR_USAGE


class EnvironmentFailure(DemiError, RuntimeError):
    """Disk, memory, time or a device failed."""

    status = _codes.DEMI_ERR_ENV


class Cancelled(DemiError):
    """A callback, or another thread, asked to stop."""

    status = _codes.DEMI_ERR_CANCELLED


_BY_STATUS: dict[int, type[DemiError]] = {
    kind.status: kind for kind in (ModelError, UsageError, EnvironmentFailure, Cancelled)}


def _again(kind: type[DemiError], message: str, parts: dict[str, str]) -> DemiError:
    return kind(message, **parts)


def text_of(raw: bytes | None) -> str:
    """Text of the library's; a file may hold any bytes."""
    return raw.decode("utf-8", "backslashreplace") if raw else ""


def error_of(status: int, error: _abi.DemiError) -> DemiError:
    """The exception that the library's error is."""
    parts = {part: text_of(getattr(error, part)) for part in _PARTS}
    message = text_of(error.message) or "cancelled"
    return _BY_STATUS.get(status, DemiError)(message, **parts)


def named(error: Exception, operand: str) -> DemiError:
    """The error as one of that operand: a DemiError that names another keeps that, too."""
    if not isinstance(error, DemiError):
        text = str(error) or type(error).__name__
        return UsageError(f"{operand}: {text}", operand=operand, what=text)
    parts = {part: getattr(error, part) for part in _PARTS}
    parts["operand"] = operand
    return type(error)(f"{operand}: {error.message}", **parts)


def take_error(status: int, error: _abi.DemiError) -> DemiError:
    """The same, of a structure that is used again: it is empty afterwards."""
    made = error_of(status, error)
    ctypes.memset(ctypes.byref(error), 0, ctypes.sizeof(error))
    error.size = ctypes.sizeof(error)
    return made
