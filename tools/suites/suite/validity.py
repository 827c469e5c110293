# SPDX-License-Identifier: Apache-2.0
"""Is a converted model valid, and does it keep the source's input/output contract?

Validity is what ONNX itself says: the full check and strict inference. Only a failure that the
source does not have counts.
"""

import onnx
from onnx import TensorProto

from suite.variants import Variant

LOW_TYPE = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


def full_check(data: bytes) -> str:
    """What ONNX's full check says against a model, or ""."""
    try:
        onnx.checker.check_model(data, full_check=True)
    except Exception as error:
        return one_line(error)
    return ""


def strict_inference(model: onnx.ModelProto) -> tuple[str, onnx.ModelProto | None]:
    """(what strict inference says against a model or "", the model with inferred types)."""
    for data_prop in (True, False):
        try:
            return "", onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True,
                                                         data_prop=data_prop)
        except Exception as error:
            text = one_line(error)
            if "already exists" not in str(error):  # it takes a name of branches beside each other for one value
                break
    return text, None


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def problems(model: "Model", source: "Model") -> list[str]:
    """What ONNX says against a converted model and not against its source (suite/model.py)."""
    found = []
    if model.check and not source.check:
        found.append(f"full check: {model.check}")
    if model.inference and not source.inference:
        found.append(f"strict inference: {model.inference}")
    return found


def shape_problem(got: onnx.TensorShapeProto, want: onnx.TensorShapeProto) -> str:
    """Why a shape is not a refinement of the source's: known sizes and names stay, rank too."""
    if len(got.dim) != len(want.dim):
        return f"rank {len(got.dim)}, expected {len(want.dim)}"
    for i, (a, b) in enumerate(zip(got.dim, want.dim)):
        kind = b.WhichOneof("value")
        if kind is None or (kind == "dim_param" and not b.dim_param):
            continue
        if a.WhichOneof("value") != kind or getattr(a, kind) != getattr(b, kind):
            value = a.WhichOneof("value")
            return f"dim {i} is {getattr(a, value) if value else '?'}, expected {getattr(b, kind)}"
    return ""


def type_problem(got: onnx.TypeProto, want: onnx.TypeProto, low: int) -> str:
    """Why a type breaks the contract; low is the element type that float32 may become, or 0."""
    kind = want.WhichOneof("value")
    if got.WhichOneof("value") != kind:
        return f"{got.WhichOneof('value')}, expected {kind}"
    if kind is None:
        return ""
    a, b = getattr(got, kind), getattr(want, kind)
    if kind in ("sequence_type", "optional_type"):
        return type_problem(a.elem_type, b.elem_type, low)
    if kind == "map_type":
        return "" if a == b else "another map type"
    if kind == "opaque_type":
        return "" if a == b else "another opaque type"
    if a.elem_type != b.elem_type and not (b.elem_type == TensorProto.FLOAT and
                                           low and a.elem_type == low):
        return f"element type {a.elem_type}, expected {b.elem_type}"
    if not b.HasField("shape"):
        return ""
    return shape_problem(a.shape, b.shape) if a.HasField("shape") else "shape lost"


def operators_give(model: onnx.ModelProto, output: onnx.ValueInfoProto) -> bool:
    """Does ONNX infer that output's shape where the model does not declare it?"""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    place = [v.name for v in model.graph.output].index(output.name)
    bare.graph.output[place].type.tensor_type.ClearField("shape")
    try:
        given = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph.output[place]
    except onnx.shape_inference.InferenceError:
        return False
    return (given.type.tensor_type.HasField("shape") and
            not shape_problem(output.type.tensor_type.shape, given.type.tensor_type.shape))


def contract(result: onnx.ModelProto, source: onnx.ModelProto, variant: Variant) -> list[str]:
    """Breaches of the input/output contract: names, order, types, shapes. Where the opset was
    raised, an output's shape may be another than the source's that is wrong."""
    low, found = (LOW_TYPE[variant.to] if variant.io == "low" else 0), []
    raised = result.opset_import != source.opset_import
    for field in ("input", "output"):
        a, b = getattr(result.graph, field), getattr(source.graph, field)
        if [v.name for v in a] != [v.name for v in b]:
            found.append(f"{field}s {[v.name for v in a]}, expected {[v.name for v in b]}")
            continue
        for x, y in zip(a, b):
            text = type_problem(x.type, y.type, low)
            if text and not (raised and field == "output" and "element" not in text and
                             operators_give(result, x)):
                found.append(f"{field} {x.name}: {text}")
    return found


def float_tensors(graph: onnx.GraphProto) -> int:
    """How many graph inputs and outputs are float32 tensors."""
    return sum(v.type.tensor_type.elem_type == TensorProto.FLOAT
               for v in [*graph.input, *graph.output])
