# SPDX-License-Identifier: Apache-2.0
"""Errors, as exceptions with the members of the C interface's DemiError."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from . import _abi_constants as _codes

_PARTS = ("hint", "file", "graph", "node", "op_type", "operand", "what", "expected", "actual")


class DemiError(Exception):
    """An error of demi. `str()` is one line, and a second one with the hint if there is one. Attributes have
    the parts of the message; those that do not apply are empty."""

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
    """An argument of the call is wrong: an option, name, shape, or type."""

    status = _codes.DEMI_ERR_USAGE


class EnvironmentFailure(DemiError, RuntimeError):
    """A failure of disk, memory, time, or a device."""

    status = _codes.DEMI_ERR_ENV


class Cancelled(DemiError):
    """A callback or another thread ended the call."""

    status = _codes.DEMI_ERR_CANCELLED


_BY_STATUS: dict[int, type[DemiError]] = {
    kind.status: kind for kind in (ModelError, UsageError, EnvironmentFailure, Cancelled)}


def _again(kind: type[DemiError], message: str, parts: dict[str, str]) -> DemiError:
    return kind(message, **parts)


def text_of(raw: bytes | None) -> str:
    """Decodes text from the library; a file may contain any bytes."""
    return raw.decode("utf-8", "backslashreplace") if raw else ""


def error_of(status: int, error: _abi.DemiError) -> DemiError:
    """Returns the library's error as an exception."""
    parts = {part: text_of(getattr(error, part)) for part in _PARTS}
    message = text_of(error.message) or "cancelled"
    if " memory than the limit of " in message:  # --memory of the command has another name here
        message += " (memory_budget)"
    return _BY_STATUS.get(status, DemiError)(message, **parts)


def named(error: Exception, operand: str) -> DemiError:
    """Returns the error as one of that operand. The message of a DemiError that names another operand keeps it."""
    if not isinstance(error, DemiError):
        text = str(error) or type(error).__name__
        return UsageError(f"{operand}: {text}", operand=operand, what=text)
    parts = {part: getattr(error, part) for part in _PARTS}
    parts["operand"] = operand
    return type(error)(f"{operand}: {error.message}", **parts)


def take_error(status: int, error: _abi.DemiError) -> DemiError:
    """The same as error_of for a structure that is reused: clears it."""
    made = error_of(status, error)
    ctypes.memset(ctypes.byref(error), 0, ctypes.sizeof(error))
    error.size = ctypes.sizeof(error)
    return made
