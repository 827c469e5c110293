# SPDX-License-Identifier: Apache-2.0
"""Walks over a ModelProto: every graph, node and message of it, branches and functions included."""

from collections.abc import Iterator

import onnx
from google.protobuf.message import Message
from onnx import TensorProto


def nodes_of(nodes: list[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """These nodes and those of their attributes' graphs, in order."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.HasField("g") else []
            for graph in [*graphs, *attribute.graphs]:
                yield from nodes_of(graph.node)


def model_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a model: main graph, branches, functions, training graphs."""
    yield from nodes_of(model.graph.node)
    for function in model.functions:
        yield from nodes_of(function.node)
    for training in model.training_info:
        yield from nodes_of(training.initialization.node)
        yield from nodes_of(training.algorithm.node)


def bodies(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graphs of all nodes' attributes."""
    for node in model_nodes(model):
        for attribute in node.attribute:
            yield from [attribute.g] if attribute.HasField("g") else []
            yield from attribute.graphs


def gives_again(graph: onnx.GraphProto) -> bool:
    """Whether it gives a value twice, an input back, or what value_info names, too."""
    names = [value.name for value in graph.output]
    others = [*graph.input, *graph.value_info]
    return len(set(names)) < len(names) or any(value.name in names for value in others)


def shadows(model: onnx.ModelProto) -> bool:
    """Whether nodes of two graphs give values of one name."""
    names = [name for node in model_nodes(model) for name in node.output if name]
    return len(set(names)) < len(names)


def messages(message: Message) -> Iterator[Message]:
    """A message and every message inside it, outermost first."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for child in [value] if isinstance(value, Message) else value:
            yield from messages(child)


# Attributes that hold a data type by number.
DTYPE_ATTRIBUTES = {"to", "dtype", "output_dtype", "output_datatype"}
FLOAT_VALUES = {"value_float", "value_floats"}


def has_float32(model: onnx.ModelProto) -> bool:
    """Does any type, tensor or dtype attribute of a model say float32?"""
    for message in messages(model):
        if isinstance(message, TensorProto) and message.data_type == TensorProto.FLOAT:
            return True
        if (isinstance(message, (onnx.TypeProto.Tensor, onnx.TypeProto.SparseTensor)) and
                message.elem_type == TensorProto.FLOAT):
            return True
        if isinstance(message, onnx.AttributeProto):
            if message.name in FLOAT_VALUES:
                return True
            if message.name in DTYPE_ATTRIBUTES and message.i == TensorProto.FLOAT:
                return True
    return any(node.op_type in ("ConstantOfShape", "EyeLike") and not node.attribute
               for node in model_nodes(model))
