# SPDX-License-Identifier: Apache-2.0
"""Runs models: ONNX Runtime without and with its optimizations, or ONNX's reference evaluator.

A pair of models is compared in one engine first; where that fails or disagrees, the source's
results in another one count too, since an engine may be wrong about the source's older operators.
Inputs come from a test data set where there is one, else from a seeded generator. An engine that
can't run a model raises CannotRun with the reason.
"""

import pathlib
import re
import warnings
import zlib

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

ort.set_default_logger_severity(4)

# Element types that ONNX Runtime's Python interface takes and gives as numpy arrays.
ORT_TYPES = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BOOL,
    TensorProto.STRING, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}
UNSET_SIZE = 2  # the size given to a dimension that the model leaves open


def features() -> set[str]:
    """What Linux says that the processor has; nothing elsewhere."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return set()
    return set(flags.group(1).split()) if flags else set()


def saturates() -> bool:
    """Whether ONNX Runtime's products of uint8 and int8 are wrong on this processor: on x86 without VNNI it adds
    pairs of them in 16 bits, which saturate. Without its optimizations it computes what is around QuantizeLinear
    and DequantizeLinear in float, anywhere."""
    return "avx2" in features() and not features() & {"avx512_vnni", "avx_vnni"}



class CannotRun(Exception):
    """The engine has no kernel for, can't load, or failed on this model."""


def element_type(proto: onnx.TypeProto) -> int:
    """The element type of a tensor, or of a sequence's or an optional's tensors; 0 if none."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        return getattr(proto, kind).elem_type
    if kind in ("sequence_type", "optional_type"):
        return element_type(getattr(proto, kind).elem_type)
    if kind == "map_type":
        return element_type(proto.map_type.value_type)
    return 0


def fed_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The graph inputs without a default (before IR 4 initializers are listed as inputs too)."""
    given = {t.name for t in model.graph.initializer}
    given |= {t.values.name for t in model.graph.sparse_initializer}
    return [v for v in model.graph.input if v.name not in given]


def read_value(path: pathlib.Path, proto: onnx.TypeProto) -> object:
    """An input_N.pb as the type of its graph input says."""
    data, kind = path.read_bytes(), proto.WhichOneof("value")
    if kind == "sequence_type":
        message = onnx.SequenceProto()
        message.ParseFromString(data)
        return numpy_helper.to_list(message)
    if kind == "optional_type":
        message = onnx.OptionalProto()
        message.ParseFromString(data)
        return numpy_helper.to_optional(message)
    message = onnx.TensorProto()
    message.ParseFromString(data)
    return numpy_helper.to_array(message)


def random_tensor(rng: np.random.Generator, elem: int, shape: list[int]) -> np.ndarray:
    dtype = helper.tensor_dtype_to_np_dtype(elem)
    if elem == TensorProto.STRING:
        return np.array([f"s{i}" for i in range(int(np.prod(shape)))], dtype=object).reshape(shape)
    if elem == TensorProto.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0, 3, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def random_value(rng: np.random.Generator, proto: onnx.TypeProto,
                 sizes: dict[str, int] | None = None) -> object:
    """A random value of a type; open dimensions by name from sizes, else UNSET_SIZE."""
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        return [random_value(rng, proto.sequence_type.elem_type, sizes) for _ in range(2)]
    if kind == "optional_type":
        return random_value(rng, proto.optional_type.elem_type, sizes)
    if kind != "tensor_type":
        raise CannotRun(f"no random values of {kind}")
    shape = [d.dim_value if d.HasField("dim_value") else (sizes or {}).get(d.dim_param, UNSET_SIZE)
             for d in proto.tensor_type.shape.dim]
    return random_tensor(rng, proto.tensor_type.elem_type, shape)


def read_feeds(model: onnx.ModelProto, data: pathlib.Path) -> dict[str, object] | None:
    """The inputs of one test data set; None where their number fits no reading."""
    inputs = fed_inputs(model)
    files = sorted(data.glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
    if len(files) == len(model.graph.input) != len(inputs):  # values for the defaults too
        inputs = list(model.graph.input)
    if len(files) > len(inputs) or (inputs and not files):
        return None  # fewer: trailing optional inputs
    return {v.name: read_value(p, v.type) for v, p in zip(inputs, files)}


def load_feeds(model: onnx.ModelProto, folder: pathlib.Path) -> list[dict[str, object]]:
    """The inputs of every test data set in folder, or one set of seeded random inputs."""
    inputs = fed_inputs(model)
    sets = [read_feeds(model, data) for data in sorted(folder.glob("test_data_set_*"))]
    feeds = [s for s in sets if s is not None]
    if feeds or not inputs:
        return feeds or [{}]
    rng = np.random.default_rng(zlib.crc32(folder.name.encode()))
    return [{v.name: random_value(rng, v.type) for v in inputs}]


class OrtEngine:
    """ONNX Runtime, every optimization off, one thread."""

    name = "onnxruntime"
    level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    entries: dict[str, str] = {}  # of the session's configuration

    def __init__(self, data: bytes, model: onnx.ModelProto) -> None:
        for value in [*model.graph.input, *model.graph.output]:
            if element_type(value.type) not in ORT_TYPES:
                raise CannotRun(f"{value.name}: element type {element_type(value.type)}")
            if value.type.WhichOneof("value") not in ("tensor_type", "sequence_type"):
                raise CannotRun(f"{value.name}: {value.type.WhichOneof('value')}")
        options = ort.SessionOptions()
        options.graph_optimization_level = self.level
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        for key, value in self.entries.items():
            options.add_session_config_entry(key, value)
        try:
            self.session = ort.InferenceSession(data, options, ["CPUExecutionProvider"])
        except Exception as error:
            raise CannotRun(f"load: {first_line(error)}") from error

    def run(self, feeds: dict[str, object]) -> list[object]:
        own = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in feeds.items()}
        try:
            return self.session.run(None, own)  # it may write to its inputs
        except Exception as error:
            raise CannotRun(f"run: {first_line(error)}") from error


class OrtOptimized(OrtEngine):
    """ONNX Runtime as its users start it: with all its optimizations, which is its default."""

    name = "onnxruntime, optimized"
    level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL


class OrtUnpacked(OrtEngine):
    """ONNX Runtime without weights that it packs in advance: it does that to constants alone, and what
    it packs it sums in another order."""

    name = "onnxruntime, unpacked"
    entries = {"session.disable_prepacking": "1"}


def short_domain(model: onnx.ModelProto) -> onnx.ModelProto:
    """The default domain by its short name, the only one that the evaluator knows it by."""
    messages = [model, *model.functions]
    if not any(o.domain == "ai.onnx" for m in messages for o in m.opset_import):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for message in [copy, *copy.functions]:
        for opset in message.opset_import:
            opset.domain = "" if opset.domain == "ai.onnx" else opset.domain
    return copy


class ReferenceEngine:
    """ONNX's own evaluator in numpy: slow, but knows every operator and type."""

    name = "reference"

    def __init__(self, data: bytes, model: onnx.ModelProto) -> None:
        del data
        try:
            self.evaluator = onnx.reference.ReferenceEvaluator(short_domain(model))
        except Exception as error:
            raise CannotRun(f"load: {first_line(error)}") from error

    def run(self, feeds: dict[str, object]) -> list[object]:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return self.evaluator.run(None, dict(feeds))
        except Exception as error:
            raise CannotRun(f"run: {first_line(error)}") from error


ENGINES = [OrtEngine, ReferenceEngine]


def first_line(error: Exception) -> str:
    lines = f"{type(error).__name__}: {error}".splitlines()
    return lines[0][:200]
