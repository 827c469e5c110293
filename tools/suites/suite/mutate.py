# SPDX-License-Identifier: Apache-2.0
"""Mutants of models: one small change each, of a kind that a wrong converter or a hand could make.

`mutant(rng, model)` changes a copy and says what was changed, or gives None where the change that
was drawn does not suit the model. Half of what comes out is not a valid model; which half, the
caller asks others.
"""

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

ELEMENTS = [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE,
            TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.STRING,
            TensorProto.UINT8]
COMMON = ["Relu", "Add", "Mul", "MatMul", "Softmax", "Concat", "Reshape", "Transpose", "Cast",
          "Identity", "Shape", "Gather", "ReduceSum", "Squeeze", "Split", "Where", "Conv", "Loop",
          "If", "Equal", "Not", "Exp", "TopK", "SequenceConstruct", "Gelu", "Upsample", "Nothing"]
Rng = np.random.Generator


class Site:
    """A model taken apart: its graphs, and their nodes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.graphs: list[onnx.GraphProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.lists: list = []  # of nodes: those of graphs and functions
        self._walk(model.graph)
        for function in model.functions:
            self._take(function.node)

    def _walk(self, graph: onnx.GraphProto) -> None:
        self.graphs.append(graph)
        self._take(graph.node)

    def _take(self, nodes) -> None:  # noqa: ANN001
        self.lists.append(nodes)
        for node in nodes:
            self.nodes.append(node)
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    self._walk(attribute.g)

    def declared(self) -> list[onnx.ValueInfoProto]:
        return [v for g in self.graphs for v in [*g.input, *g.output, *g.value_info]]

    def names(self) -> list[str]:
        found = [v.name for g in self.graphs for v in [*g.input, *g.initializer]]
        return found + [o for n in self.nodes for o in n.output if o]


def pick(rng: Rng, items):  # noqa: ANN001, ANN201
    return items[rng.integers(len(items))] if len(items) else None


def tensor_types(site: Site) -> list:
    """Tensor types of declarations, those of sequences and optionals too."""
    found = []
    for value in site.declared():
        kind = value.type
        while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        if kind.WhichOneof("value") == "tensor_type":
            found.append(kind.tensor_type)
    return found


# ---- declarations


def declared_element(rng: Rng, site: Site) -> bool:
    kind = pick(rng, tensor_types(site))
    if kind is None:
        return False
    kind.elem_type = int(pick(rng, ELEMENTS))
    return True


def declared_kind(rng: Rng, site: Site) -> bool:
    value = pick(rng, site.declared())
    if value is None:
        return False
    was = onnx.TypeProto()
    was.CopyFrom(value.type)
    if rng.random() < 0.5:
        value.type.sequence_type.elem_type.CopyFrom(was)
    else:
        value.type.optional_type.elem_type.CopyFrom(was)
    return True


def declared_dim(rng: Rng, site: Site) -> bool:
    kind = pick(rng, [t for t in tensor_types(site) if t.HasField("shape") and t.shape.dim])
    if kind is None:
        return False
    dim = pick(rng, kind.shape.dim)
    way = rng.integers(4)
    if way == 0:
        dim.dim_value = max(0, int(dim.dim_value + pick(rng, [-1, 1, 7])))
    elif way == 1:
        dim.dim_param = str(pick(rng, ["N", "batch", "other"]))
    elif way == 2:
        dim.Clear()
    else:
        dim.dim_value = int(rng.integers(0, 6))
    return True


def declared_rank(rng: Rng, site: Site) -> bool:
    kind = pick(rng, tensor_types(site))
    if kind is None:
        return False
    way = rng.integers(3)
    if way == 0:
        kind.ClearField("shape")
    elif way == 1:
        kind.shape.dim.add(dim_value=int(rng.integers(1, 4)))
    elif kind.HasField("shape") and kind.shape.dim:
        kind.shape.dim.pop()
    else:
        return False
    return True


def declared_lost(rng: Rng, site: Site) -> bool:
    graph = pick(rng, site.graphs)
    field = pick(rng, [graph.input, graph.output, graph.value_info])
    if not field:
        return False
    field.pop(int(rng.integers(len(field))))
    return True


def declared_type_lost(rng: Rng, site: Site) -> bool:
    value = pick(rng, site.declared())
    if value is None:
        return False
    value.ClearField("type")
    return True


def declared_name(rng: Rng, site: Site) -> bool:
    value = pick(rng, site.declared())
    if value is None:
        return False
    value.name = str(pick(rng, ["", "nowhere", *site.names()]))
    return True


def declared_twice(rng: Rng, site: Site) -> bool:
    graph = pick(rng, site.graphs)
    field = pick(rng, [graph.input, graph.output, graph.value_info])
    if not field:
        return False
    field.add().CopyFrom(pick(rng, field))
    return True


def info_added(rng: Rng, site: Site) -> bool:
    """A value_info entry of some value, right or wrong."""
    graph = pick(rng, site.graphs)
    names = [o for n in graph.node for o in n.output if o]
    if not names:
        return False
    shape = pick(rng, [None, [], [2], [2, 3], [1, 1, 1], ["N", 4]])
    graph.value_info.append(helper.make_tensor_value_info(
        str(pick(rng, names)), int(pick(rng, ELEMENTS[:5])), shape))
    return True


# ---- tensors


def tensors(site: Site) -> list[onnx.TensorProto]:
    found = [t for g in site.graphs for t in g.initializer]
    return found + [a.t for n in site.nodes for a in n.attribute
                    if a.type == AttributeProto.TENSOR]


def tensor_retyped(rng: Rng, site: Site) -> bool:
    """Its values in another type."""
    tensor = pick(rng, tensors(site))
    if tensor is None or tensor.data_type in (TensorProto.STRING, TensorProto.UNDEFINED):
        return False
    to = int(pick(rng, [t for t in ELEMENTS if t != TensorProto.STRING]))
    try:
        array = onnx.numpy_helper.to_array(tensor)
        made = onnx.numpy_helper.from_array(
            array.astype(helper.tensor_dtype_to_np_dtype(to)), tensor.name)
    except Exception:
        return False
    tensor.CopyFrom(made)
    return True


def tensor_number(rng: Rng, site: Site) -> bool:
    """Its type's number alone."""
    tensor = pick(rng, tensors(site))
    if tensor is None:
        return False
    tensor.data_type = int(pick(rng, [0, *ELEMENTS, 99]))
    return True


def tensor_dims(rng: Rng, site: Site) -> bool:
    tensor = pick(rng, tensors(site))
    if tensor is None:
        return False
    way = rng.integers(4)
    if way == 0:
        tensor.dims.append(1)
    elif way == 1 and len(tensor.dims) > 1:
        tensor.dims[:] = [tensor.dims[1], tensor.dims[0], *tensor.dims[2:]]
    elif way == 2 and tensor.dims:
        tensor.dims[int(rng.integers(len(tensor.dims)))] += int(pick(rng, [-1, 1]))
    elif way == 3 and tensor.dims:
        tensor.dims.pop()
    else:
        return False
    return True


def tensor_lost(rng: Rng, site: Site) -> bool:
    graph = pick(rng, site.graphs)
    if not graph.initializer:
        return False
    graph.initializer.pop(int(rng.integers(len(graph.initializer))))
    return True


def tensor_name(rng: Rng, site: Site) -> bool:
    graph = pick(rng, site.graphs)
    if not graph.initializer:
        return False
    pick(rng, graph.initializer).name = str(pick(rng, ["", "new", *site.names()]))
    return True


def tensor_as_input(rng: Rng, site: Site) -> bool:
    """An initializer listed as an input too, rightly or not."""
    tensor = pick(rng, site.model.graph.initializer)
    if tensor is None:
        return False
    dims: list = list(tensor.dims)
    way = rng.integers(4)
    if way == 0:
        dims.append(1)
    elif way == 1 and dims:
        dims[0] += 1
    elem = tensor.data_type if way != 2 else int(pick(rng, ELEMENTS[:5]))
    site.model.graph.input.append(helper.make_tensor_value_info(tensor.name, elem, dims))
    return True


# ---- attributes


def attributes(site: Site) -> list[tuple[onnx.NodeProto, AttributeProto]]:
    return [(n, a) for n in site.nodes for a in n.attribute]


def attribute_int(rng: Rng, site: Site) -> bool:
    found = [a for _, a in attributes(site)
             if a.type in (AttributeProto.INT, AttributeProto.INTS)]
    attribute = pick(rng, found)
    if attribute is None:
        return False
    if attribute.type == AttributeProto.INT:
        attribute.i = int(pick(rng, [attribute.i + 1, attribute.i - 1, 0, 1, 10, 16, 99, -9]))
    elif attribute.ints:
        at = int(rng.integers(len(attribute.ints)))
        attribute.ints[at] = int(pick(rng, [attribute.ints[at] + 1, -1, 0, 1, 9]))
    return True


def attribute_list(rng: Rng, site: Site) -> bool:
    found = [a for _, a in attributes(site) if a.type == AttributeProto.INTS]
    attribute = pick(rng, found)
    if attribute is None:
        return False
    if rng.random() < 0.5:
        attribute.ints.append(int(rng.integers(0, 3)))
    elif attribute.ints:
        attribute.ints.pop()
    return True


def attribute_text(rng: Rng, site: Site) -> bool:
    found = [a for _, a in attributes(site) if a.type == AttributeProto.STRING]
    attribute = pick(rng, found)
    if attribute is None:
        return False
    attribute.s = pick(rng, [b"", b"nothing", b"SAME_UPPER", b"add", b"ij,jk->ik", b"DCR"])
    return True


def attribute_lost(rng: Rng, site: Site) -> bool:
    node = pick(rng, [n for n in site.nodes if n.attribute])
    if node is None:
        return False
    node.attribute.pop(int(rng.integers(len(node.attribute))))
    return True


def attribute_added(rng: Rng, site: Site) -> bool:
    node = pick(rng, site.nodes)
    if node is None:
        return False
    name = str(pick(rng, ["axis", "axes", "to", "alpha", "keepdims", "perm", "nothing", "body"]))
    node.attribute.append(helper.make_attribute(name, pick(rng, [0, 1, 0.5, [0, 1], "text"])))
    return True


def attribute_kind(rng: Rng, site: Site) -> bool:
    """Another kind, with what it had, or without a value, or with another's."""
    found = attributes(site)
    if not found:
        return False
    _, attribute = pick(rng, found)
    way = rng.integers(3)
    if way == 0:
        attribute.type = int(rng.integers(0, 15))
    elif way == 1:
        name, kind = attribute.name, attribute.type
        attribute.Clear()
        attribute.name, attribute.type = name, kind
    else:
        made = helper.make_attribute(attribute.name, pick(rng, [1, 2.0, "text", [1, 2], [0.5]]))
        attribute.CopyFrom(made)
    return True


def attribute_reference(rng: Rng, site: Site) -> bool:
    found = attributes(site)
    if not found:
        return False
    _, attribute = pick(rng, found)
    attribute.ref_attr_name = str(pick(rng, ["slope", "nothing", "axis"]))
    return True


# ---- operands


def operand_other(rng: Rng, site: Site) -> bool:
    node, names = pick(rng, [n for n in site.nodes if n.input]), site.names()
    if node is None or not names:
        return False
    node.input[int(rng.integers(len(node.input)))] = str(pick(rng, names))
    return True


def operands_swapped(rng: Rng, site: Site) -> bool:
    node = pick(rng, [n for n in site.nodes if len(n.input) > 1])
    if node is None:
        return False
    a, b = (int(rng.integers(len(node.input))) for _ in range(2))
    node.input[a], node.input[b] = node.input[b], node.input[a]
    return a != b


def operand_omitted(rng: Rng, site: Site) -> bool:
    node = pick(rng, [n for n in site.nodes if n.input])
    if node is None:
        return False
    at = int(rng.integers(len(node.input)))
    if rng.random() < 0.5:
        node.input[at] = ""
    else:
        del node.input[at]
    return True


def operand_added(rng: Rng, site: Site) -> bool:
    node, names = pick(rng, site.nodes), site.names()
    if node is None or not names:
        return False
    node.input.append(str(pick(rng, ["", *names])))
    return True


def output_changed(rng: Rng, site: Site) -> bool:
    node = pick(rng, [n for n in site.nodes if n.output])
    if node is None:
        return False
    at, way = int(rng.integers(len(node.output))), rng.integers(4)
    if way == 0:
        node.output[at] = ""
    elif way == 1:
        del node.output[at]
    elif way == 2:
        node.output.append(str(pick(rng, ["", "more"])))
    else:
        node.output[at] = str(pick(rng, ["fresh", *site.names()]))
    return True


# ---- nodes


def node_operator(rng: Rng, site: Site) -> bool:
    node = pick(rng, site.nodes)
    if node is None:
        return False
    node.op_type = str(pick(rng, COMMON))
    return True


def node_domain(rng: Rng, site: Site) -> bool:
    node = pick(rng, site.nodes)
    if node is None:
        return False
    node.domain = str(pick(rng, ["", "ai.onnx", "ai.onnx.ml", "com.x", "local"]))
    return True


def node_lost(rng: Rng, site: Site) -> bool:
    nodes = pick(rng, site.lists)
    if not nodes:
        return False
    nodes.pop(int(rng.integers(len(nodes))))
    return True


def nodes_moved(rng: Rng, site: Site) -> bool:
    nodes = pick(rng, site.lists)
    if len(nodes) < 2:
        return False
    a, b = (int(rng.integers(len(nodes))) for _ in range(2))
    was = onnx.NodeProto()
    was.CopyFrom(nodes[a])
    nodes[a].CopyFrom(nodes[b])
    nodes[b].CopyFrom(was)
    return a != b


def cast_added(rng: Rng, site: Site) -> bool:
    """A Cast before one operand, or one that is there changed."""
    nodes = pick(rng, site.lists)
    readers = [i for i, n in enumerate(nodes) if n.input and n.input[0]]
    if not readers:
        return False
    at = int(pick(rng, readers))
    node = nodes[at]
    place = int(rng.integers(len(node.input)))
    if not node.input[place]:
        return False
    cast = helper.make_node("Cast", [node.input[place]], ["the_cast"],
                            to=int(pick(rng, ELEMENTS)))
    node.input[place] = "the_cast"
    nodes.insert(at, cast)
    return True


# ---- models


def opset(rng: Rng, site: Site) -> bool:
    lists = [site.model.opset_import, *(f.opset_import for f in site.model.functions)]
    imports = pick(rng, lists)
    if not imports:
        return False
    one, way = pick(rng, imports), rng.integers(5)
    if way == 0:
        one.version = int(rng.integers(1, 29))
    elif way == 1:
        one.version += int(pick(rng, [-1, 1]))
    elif way == 2:
        one.version = int(pick(rng, [0, -1, 99]))
    elif way == 3:
        imports.remove(one)
    else:
        imports.add(domain=str(pick(rng, ["", "ai.onnx", "com.x", "ai.onnx.ml"])),
                    version=int(rng.integers(1, 25)))
    return True


def header(rng: Rng, site: Site) -> bool:
    model, way = site.model, rng.integers(6)
    if way == 0:
        model.ir_version = int(pick(rng, [0, 1, 2, 3, 4, 7, 8, 13, 14, 99]))
    elif way == 1:
        model.ClearField("ir_version")
    elif way == 2:
        model.graph.name = ""
    elif way == 3:
        model.metadata_props.add(key="a", value="b")
        model.metadata_props.add(key="a", value="c")
    elif way == 4 and model.functions:
        model.functions.add().CopyFrom(model.functions[0])
    elif way == 5 and model.functions:
        model.functions.pop()
    else:
        return False
    return True


def function_changed(rng: Rng, site: Site) -> bool:
    function, way = pick(rng, site.model.functions), rng.integers(6)
    if function is None:
        return False
    if way == 0 and function.input:
        function.input.pop()
    elif way == 1:
        function.input.append("more")
    elif way == 2 and function.output:
        function.output.pop()
    elif way == 3:
        function.output.append("nowhere")
    elif way == 4:
        function.name = str(pick(rng, ["", "other", "Relu"]))
    else:
        function.attribute.append("slope")
    return True


# ---- subgraphs


def body_output(rng: Rng, site: Site) -> bool:
    """A branch's or a body's outputs: one less, one more, another one, another order."""
    bodies = site.graphs[1:]
    graph = pick(rng, bodies)
    if graph is None:
        return False
    way = rng.integers(4)
    if way == 0 and graph.output:
        graph.output.pop(int(rng.integers(len(graph.output))))
    elif way == 1 and graph.output:
        graph.output.add().CopyFrom(pick(rng, graph.output))
    elif way == 2 and graph.output:
        pick(rng, graph.output).name = str(pick(rng, site.names()))
    elif len(graph.output) > 1:
        first = onnx.ValueInfoProto()
        first.CopyFrom(graph.output[0])
        del graph.output[0]
        graph.output.append(first)
    else:
        return False
    return True


def body_input(rng: Rng, site: Site) -> bool:
    graph = pick(rng, [g for g in site.graphs[1:] if g.input])
    if graph is None:
        return False
    if rng.random() < 0.5:
        graph.input.pop(int(rng.integers(len(graph.input))))
    else:
        graph.input.append(helper.make_tensor_value_info("extra", TensorProto.FLOAT, None))
    return True


def body_cast(rng: Rng, site: Site) -> bool:
    """What a body gives is cast first: branches and states of two types."""
    graph = pick(rng, [g for g in site.graphs[1:] if g.output])
    if graph is None:
        return False
    output = pick(rng, graph.output)
    to = int(pick(rng, ELEMENTS[:5]))
    graph.node.append(helper.make_node("Cast", [output.name], ["the_cast"], to=to))
    output.name = "the_cast"
    if rng.random() < 0.5 and output.type.HasField("tensor_type"):
        output.type.tensor_type.elem_type = to
    return True


MUTATIONS = [declared_element, declared_element, declared_kind, declared_dim, declared_dim,
             declared_rank, declared_lost, declared_type_lost, declared_name, declared_twice,
             info_added, info_added, tensor_retyped, tensor_retyped, tensor_number, tensor_dims,
             tensor_lost, tensor_name, tensor_as_input, attribute_int, attribute_int,
             attribute_list, attribute_text, attribute_lost, attribute_added, attribute_kind,
             attribute_reference, operand_other, operand_other, operands_swapped, operand_omitted,
             operand_added, output_changed, node_operator, node_domain, node_lost, nodes_moved,
             cast_added, cast_added, opset, opset, header, function_changed, body_output,
             body_output, body_input, body_cast, body_cast]


def mutant(rng: Rng, model: onnx.ModelProto) -> tuple[str, onnx.ModelProto] | None:
    """(what was done, the mutant); None where nothing could be done."""
    change = MUTATIONS[rng.integers(len(MUTATIONS))]
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return (change.__name__, made) if change(rng, Site(made)) else None
