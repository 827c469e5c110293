# SPDX-License-Identifier: Apache-2.0
"""Doing nothing is a failure: every node of the LOW class is low or the report says why not.

The classes are the shipped policies' LOW rows. The report is not taken at its word: the operators
it lists are counted against the source's own nodes, and what it calls low against the types that
strict inference finds in the result.
"""

import collections

import onnx
from onnx import TensorProto

from suite import validity, walk

LOW_BOTH = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Attention", "FlexAttention",
            "CausalConvWithState", "LinearAttention"}
LOW_OPS = {"float16": LOW_BOTH | {"Einsum", "RNN", "LSTM", "GRU"}, "bfloat16": LOW_BOTH}
DOMAINS = {"", "ai.onnx", "ai.onnx.preview"}
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}


def counts(report: dict, to: str) -> tuple[collections.Counter, collections.Counter]:
    """(low, kept with a reason) LOW-class nodes of a report by operator."""
    low, kept = collections.Counter(), collections.Counter()
    for node in report["nodes"]:
        if node["op_type"] in LOW_OPS[to]:
            (low if node["dtype"] == to else kept)[node["op_type"]] += 1
    return low, kept


def _types(model: onnx.ModelProto) -> dict[str, int]:
    """Element type by value name of a model after inference, every graph's values in one table."""
    types: dict[str, int] = {}
    for message in walk.messages(model):
        if isinstance(message, onnx.GraphProto):
            for value in [*message.input, *message.output, *message.value_info]:
                types[value.name] = value.type.tensor_type.elem_type
            for tensor in message.initializer:
                types[tensor.name] = tensor.data_type
    return types


def _low_in_graphs(inferred: onnx.ModelProto | None, to: str) -> collections.Counter | None:
    """LOW-class nodes whose first output has the target type, by operator; None where inference
    can't tell (functions, unknown types)."""
    if inferred is None or inferred.functions or inferred.training_info:
        return None
    types, target, found = _types(inferred), validity.LOW_TYPE[to], collections.Counter()
    for node in walk.model_nodes(inferred):
        if node.op_type not in LOW_OPS[to] or node.domain not in DOMAINS:
            continue
        kind = types.get(next((o for o in node.output if o), ""), 0)
        if not kind:
            return None
        found[node.op_type] += kind == target
    return found


def problems(report: dict, source: onnx.ModelProto, inferred: onnx.ModelProto | None,
             to: str) -> list[str]:
    """LOW nodes that are neither low nor explained, and where the report contradicts the models: the
    source, and the result with the types that strict inference finds, if it can."""
    found = []
    for node in report["nodes"]:
        if node["op_type"] in LOW_OPS[to] and node["dtype"] != to and not node.get("reason"):
            found.append(f"node {node['name']} ({node['op_type']}) is {node['dtype']} "
                         "without a reason")
    listed = collections.Counter(n["op_type"] for n in report["nodes"])
    present = collections.Counter(n.op_type for n in walk.model_nodes(source)
                                  if n.op_type in LOW_OPS[to] and n.domain in DOMAINS)
    for op, number in present.items():
        if listed[op] < number:
            found.append(f"the report lists {listed[op]} of {number} {op} nodes")
    (low, _), after = counts(report, to), _low_in_graphs(inferred, to)
    for op in low | (after or low):
        if after is not None and low[op] != after[op]:
            found.append(f"the report calls {low[op]} {op} low, the model has {after[op]}")
    return found
