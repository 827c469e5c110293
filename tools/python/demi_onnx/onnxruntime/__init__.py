# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's interface, implemented by demi, for programs that were written for onnxruntime.

    import demi_onnx.onnxruntime as ort
    session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])

Programs that cannot be changed, and packages that they use, get it with `install()`, called before they
import onnxruntime, or from the command line:

    python -m demi_onnx.onnxruntime program.py arguments

Everything here does what it does in onnxruntime, or raises an error that names what demi lacks. Errors are
subclasses of onnxruntime's, demi's, and Python's exceptions: a missing file is a NoSuchFile and a
FileNotFoundError.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .._errors import DemiError
from .._session import NodeArg, Session
from . import capi
from .capi import onnxruntime_pybind11_state
from .errors import (EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoaded, NoModel,
                     NoSuchFile, NotImplemented, RuntimeException)
from .meta import ModelMetadata
from .options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, OrtAllocatorType, OrtMemType, RunOptions,
                      SessionOptions)
from .session import ALL_PROVIDERS, InferenceSession
from .values import IOBinding, OrtDevice, OrtValue

__version__ = "1.23.0"  # of onnxruntime, whose interface this is

# y = Neg(x): what tells whether there is a device.
_SMALL = bytes.fromhex("08083a320a0b0a017812017922034e65671201675a0f0a0178120a0a08080112040a020801620f0a0179120a0a08"
                       "080112040a02080142040a00100d")


def _has_cuda() -> bool:
    try:
        Session(_SMALL, device="cuda", threads=1)
    except DemiError:
        return False
    return True


def get_all_providers() -> list[str]:
    return list(ALL_PROVIDERS)


def get_available_providers() -> list[str]:
    return list(ALL_PROVIDERS) if _has_cuda() else ["CPUExecutionProvider"]


def get_device() -> str:
    return "GPU" if _has_cuda() else "CPU"


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    from .. import __version__ as own
    return f"demi {own}"


def set_default_logger_severity(severity: int) -> None:
    """Does nothing: demi does not log."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Does nothing: demi does not log."""


def enable_telemetry_events() -> None:
    """Does nothing: demi has no telemetry."""


def disable_telemetry_events() -> None:
    """Does nothing: demi has no telemetry."""


def set_seed(seed: int) -> None:
    """Not supported: use `seed` of demi_onnx.Session."""
    raise NotImplemented("set_seed", hint="demi_onnx.Session takes a seed")


def has_collective_ops() -> bool:
    return False


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None) -> None:
    """Does nothing: libraries of the device are found where the system has them."""


def install() -> ModuleType:
    """Makes `import onnxruntime` import this module from now on. Raises an error if onnxruntime was imported before."""
    me = sys.modules[__name__]
    there = sys.modules.get("onnxruntime")
    if there is not None and there is not me:
        raise NotImplemented("onnxruntime was already imported")
    for name, module in list(sys.modules.items()):
        if name == __name__ or name.startswith(__name__ + "."):
            sys.modules["onnxruntime" + name[len(__name__):]] = module
    return me


__all__ = ["EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel", "IOBinding",
           "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoaded", "ModelMetadata",
           "NoModel", "NoSuchFile", "NodeArg", "NotImplemented", "OrtAllocatorType", "OrtDevice", "OrtMemType",
           "OrtValue", "RunOptions", "RuntimeException", "SessionOptions", "capi", "disable_telemetry_events",
           "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info", "get_device",
           "get_version_string", "has_collective_ops", "install", "onnxruntime_pybind11_state", "preload_dlls",
           "set_default_logger_severity", "set_default_logger_verbosity", "set_seed"]
