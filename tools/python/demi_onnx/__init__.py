# SPDX-License-Identifier: Apache-2.0
"""demi converts ONNX models to mixed precision, and runs them.

    import demi_onnx
    report = demi_onnx.convert("model.onnx", "model.fp16.onnx")
    print(report)
    print(demi_onnx.compare("model.onnx", "model.fp16.onnx"))
    y, = demi_onnx.Session("model.fp16.onnx").run(None, {"x": x})

A model is a path, bytes, or an onnx.ModelProto. Every error is a DemiError, with its parts as attributes.
"""

from ._bench import Bench, bench
from ._compare import ComparedValue, Comparison, Pick, compare
from ._convert import (Difference, Pipeline, check, compile, convert, convert_pipeline, convert_policy,
                       describe, diff, run_passes, show, simplify)
from ._device import DeviceArray, DeviceCounts
from ._errors import Cancelled, DemiError, EnvironmentFailure, ModelError, UsageError
from ._lib import lib as _library, onednn_version
from ._passes import Graph, Node, PassError, Value, list_passes, load_passes, register_pass
from ._report import Report, Verdict
from ._search import SearchResult, search
from ._session import IoBinding, NodeArg, Session
from ._train import Trained, TrainStep, make_training, train

__version__: str = _library.demi_version().decode()

InferenceSession = Session  # as onnxruntime calls it

__all__ = ["Bench", "Cancelled", "ComparedValue", "Comparison", "DemiError", "DeviceArray",
           "DeviceCounts", "Difference",
           "EnvironmentFailure", "Graph", "InferenceSession", "IoBinding", "ModelError", "Node", "NodeArg",
           "PassError", "Pick", "Pipeline", "Report", "SearchResult", "Session", "TrainStep", "Trained",
           "UsageError", "Value", "Verdict", "bench", "check", "compare", "compile", "convert",
           "convert_pipeline", "convert_policy", "describe", "diff", "list_passes", "load_passes",
           "make_training", "onednn_version", "register_pass", "run_passes", "search", "show", "simplify", "train"]
