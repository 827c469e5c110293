# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's exceptions and values, under the name of its binary module."""

from ..errors import (EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoaded, NoModel,
                      NoSuchFile, NotImplemented, RuntimeException)
from ..options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, OrtAllocatorType, OrtMemType, RunOptions,
                       SessionOptions)
from ..values import OrtDevice, OrtValue

__all__ = ["EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel",
           "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoaded", "NoModel", "NoSuchFile",
           "NotImplemented", "OrtAllocatorType", "OrtDevice", "OrtMemType", "OrtValue", "RunOptions",
           "RuntimeException", "SessionOptions"]
