# SPDX-License-Identifier: Apache-2.0
"""Are two models the same but for the numbers of their float constants, and how those are written?
"""

import onnx
from onnx import AttributeProto, TensorProto


def casts_constants(model: onnx.ModelProto) -> bool:
    """Does a Cast to float read a float constant? It is folded where that is stored in 16 bit."""
    def visit(graph: onnx.GraphProto, known: set[str]) -> bool:
        known = known | {t.name for t in graph.initializer if t.data_type == TensorProto.FLOAT}
        known |= {n.output[0] for n in graph.node if n.op_type == "Constant"}
        return any(n.op_type in ("Cast", "CastLike") and n.input[0] in known or
                   any(visit(a.g, known) for a in n.attribute if a.type == AttributeProto.GRAPH)
                   for n in graph.node)
    return visit(model.graph, set())


def difference(a: onnx.ModelProto, b: onnx.ModelProto) -> str:
    """The first field that differs, or ""."""
    a, b = (onnx.ModelProto.FromString(model.SerializeToString()) for model in (a, b))
    for model in (a, b):
        _graph(model.graph)
        for function in model.functions:
            for node in function.node:
                _node(node)
    return _first(a, b, "")


def _tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        for field in ("raw_data", "float_data", "data_location", "external_data"):
            tensor.ClearField(field)


def _graph(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _tensor(tensor)
    for sparse in graph.sparse_initializer:
        _tensor(sparse.values)
    for node in graph.node:
        _node(node)


def _node(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            tensor = TensorProto(data_type=TensorProto.FLOAT)
            if attribute.name == "value_floats":
                tensor.dims.append(len(attribute.floats))
            attribute.Clear()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(tensor)
        elif attribute.type == AttributeProto.TENSOR:
            if node.op_type == "Constant":
                attribute.t.ClearField("name")
            _tensor(attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            _graph(attribute.g)


def _first(a, b, path: str) -> str:  # noqa: ANN001
    """Depth first, by field."""
    if not hasattr(a, "ListFields"):
        return "" if a == b else f"{path}: {str(a)[:60]} became {str(b)[:60]}"
    was, now = ({f.name: v for f, v in m.ListFields()} for m in (a, b))
    for name in sorted(was.keys() | now.keys()):
        where = f"{path}.{name}"
        if name not in was or name not in now:
            return f"{where} is {'lost' if name in was else 'new'}"
        x, y = was[name], now[name]
        if isinstance(x, (str, bytes, int, float)) or hasattr(x, "ListFields"):
            x, y = [x], [y]
        if len(x) != len(y):
            return f"{where}: {len(x)} became {len(y)}"
        for i, (one, other) in enumerate(zip(x, y)):
            found = _first(one, other, f"{where}[{i}]")
            if found:
                return found
    return ""
