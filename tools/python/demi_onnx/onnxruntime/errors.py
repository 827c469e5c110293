# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's exceptions, which are subclasses of demi's and Python's: programs can catch either."""

from __future__ import annotations

from typing import Any

from .._arguments import checking
from .._errors import Cancelled, DemiError, EnvironmentFailure, ModelError, UsageError


class Fail(EnvironmentFailure):
    """A failure of disk, memory, time, or a device; or a run was ended."""


class RuntimeException(EnvironmentFailure):
    """A run failed."""


class EPFail(EnvironmentFailure):
    """A device failed."""


class InvalidArgument(UsageError):
    """An argument is wrong: a name, shape, or type."""


checked = checking(InvalidArgument)


class NoSuchFile(UsageError, FileNotFoundError):
    """The model file does not exist."""


class InvalidGraph(ModelError):
    """The model is not valid."""


class InvalidProtobuf(ModelError):
    """The file is not a model."""


class NotImplemented(UsageError, NotImplementedError):  # noqa: A001: onnxruntime's name
    """A feature of onnxruntime that demi does not have."""


class NoModel(ModelError):
    """The model is missing."""


class ModelLoaded(UsageError):
    """A model is already loaded."""


class EngineError(EnvironmentFailure):
    """The runtime failed."""


class ModelRequiresCompilation(ModelError):
    """For providers that demi does not have; never raised."""


_PARTS = ("hint", "file", "graph", "node", "op_type", "operand", "what", "expected", "actual")


def _kind_of(error: DemiError, loading: bool) -> type[DemiError]:
    text = str(error)
    if isinstance(error, UsageError):
        missing = "No such file" in text or "no such file" in text
        return NoSuchFile if loading and missing else InvalidArgument
    if isinstance(error, Cancelled):
        return Fail
    if isinstance(error, EnvironmentFailure):
        return Fail if loading else RuntimeException
    if not loading:
        return RuntimeException
    if "protobuf" in text:
        return InvalidProtobuf
    return _NoKernel if "has no such operator" in text else InvalidGraph


class _NoKernel(ModelError, NotImplemented):
    """The model has an operator that demi's runtime does not have."""


_NoKernel.__name__ = _NoKernel.__qualname__ = "NotImplemented"


def as_onnxruntime(error: DemiError, loading: bool) -> DemiError:
    """Returns demi's error as the one that programs for onnxruntime expect, with all its parts."""
    parts: dict[str, Any] = {part: getattr(error, part) for part in _PARTS}
    return _kind_of(error, loading)(error.message, **parts)
