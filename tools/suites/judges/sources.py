# SPDX-License-Identifier: Apache-2.0
"""Any float in: models in float16, bfloat16 and double are converted to float32 and to the other 16-bit type.

The sources are the model itself, where it holds such types, and what demi makes of it in both 16-bit types with
low inputs and outputs. Of each conversion: ONNX's full check and strict inference take it where they take its
source; inputs and outputs keep their types, or have the target; `check --against` finds nothing but precision
(of models of others without quantized values, which float32 has none of); to float32, no node computes in another type unless a remark says so; and what is in float32 already is written as
it was read by a second conversion.
"""

import dataclasses
from collections.abc import Iterator

import onnx
from onnx import TensorProto

from judges import Finding, first
from suite import validity
from suite.model import Model
from suite.package import demi
from suite.subject import Subject
from suite.variants import Variant

TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
OTHERS = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
FLOATS = OTHERS | {TensorProto.FLOAT}
OWN = [("float32", "keep"), ("float16", "keep"), ("bfloat16", "low")]
LOW = {"float16": [("float32", "keep"), ("bfloat16", "low")], "bfloat16": [("float32", "low"), ("float16", "keep")]}


@dataclasses.dataclass(frozen=True)
class Way:
    to: str
    io: str
    model: Model
    remarks: list[str]


def elements(value: onnx.ValueInfoProto) -> onnx.TypeProto.Tensor | None:
    return value.type.tensor_type if value.type.HasField("tensor_type") else None


def interface(way: Way, source: Model) -> list[str]:
    """Inputs and outputs whose types are not what they should be."""
    found = []
    doubles = not any(t in FLOATS - {TensorProto.DOUBLE} for t in types_of(source))
    for field in ("input", "output"):
        for now, was in zip(getattr(way.model.proto.graph, field), getattr(source.proto.graph, field)):
            new, old = elements(now), elements(was)
            if not new or not old or old.elem_type not in FLOATS:
                continue
            narrows = old.elem_type != TensorProto.DOUBLE or doubles or way.to == "float32"
            allowed = {old.elem_type, TYPES[way.to]} if way.io == "low" and narrows else {old.elem_type}
            if way.io == "low" and way.to != "float32":
                allowed.add(TensorProto.FLOAT)  # what the policy keeps
            if new.elem_type not in allowed:
                found.append(f"{field} {now.name}: element type {new.elem_type}, was {old.elem_type}")
    return found


def types_of(model: Model) -> set[int]:
    """Element types of everything in the model, as ONNX infers them."""
    graph = (model.inferred or model.proto).graph
    found = {t.data_type for t in graph.initializer}
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if tensor := elements(value):
            found.add(tensor.elem_type)
    return found


def left(way: Way) -> str:
    """A node that still computes in another type than float32, though nothing says so."""
    model = way.model.inferred
    if way.to != "float32" or model is None or way.remarks:
        return ""
    calls = {(f.domain, f.name) for f in model.functions}
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.value_info if elements(v)}
    for node in model.graph.node:
        if node.op_type in ("Cast", "CastLike", "Constant") or (node.domain, node.op_type) in calls:
            continue
        for name in node.output:
            if kinds.get(name) in OTHERS:
                return f"node {node.name or name} ({node.op_type}) computes in type {kinds[name]}"
    return ""


def again(way: Way) -> str:
    """The same conversion of its own result changes nothing (beside calls, casts may fuse once more)."""
    if way.to != "float32" or way.model.proto.functions:
        return ""
    data, _ = demi.convert(way.model.data, to="float32", io=way.io)
    return "" if data == way.model.data else "a second conversion to float32 writes other bytes"


def problems(way: Way, source: Model, own: bool) -> list[str]:
    found = validity.problems(way.model, source) + interface(way, source)
    if own and not (way.to == "float32" and b"DequantizeLinear" in source.data):
        found += demi.check(way.model.data, against=source.data)
    return found + [text for text in (left(way), again(way)) if text]


def convert(subject: Subject, source: Model, to: str, io: str) -> Way:
    data, report = demi.convert(source.data, to=to, io=io)
    return Way(to, io, subject.model(data), report.remarks)


def judge(subject: Subject) -> Iterator[Finding]:
    sources = [("own", subject.source, OWN)] if types_of(subject.source) & OTHERS else []
    sources += [(kind, subject.convert(Variant(kind, "low")).model, ways) for kind, ways in LOW.items()]
    for kind, source, ways in sources:
        for to, io in ways:
            way = convert(subject, source, to, io)
            yield Finding(f"{kind} to {to}/{io}", first(problems(way, source, kind == "own")))
