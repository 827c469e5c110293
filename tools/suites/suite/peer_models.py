# SPDX-License-Identifier: Apache-2.0
"""Models that break converters where what counts is the wire: how a file says something, not what.

Each function of BUILDERS makes one model; its name is the case's. Cases that text can say as well
are in testdata/golden/peers.txt.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite import wire

FLOAT = TensorProto.FLOAT
RNG_SEED = 11
BUILDERS: dict[str, object] = {}


def case(builder: object) -> object:
    BUILDERS[builder.__name__] = builder
    return builder


def values(*shape: int) -> np.ndarray:
    """Weights: the same for the same shape."""
    return np.random.default_rng(RNG_SEED + len(shape)).standard_normal(shape).astype(np.float32)


def raw(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(values(*shape), name)


def typed(name: str, *shape: int) -> TensorProto:
    return helper.make_tensor(name, FLOAT, shape, values(*shape).ravel().tolist())


def info(name: str, *shape: object) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, list(shape))


def node(op: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """Operands are separated by blanks."""
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes: list, inputs: list, outputs: list, weights: list,
          **fields: object) -> onnx.ModelProto:
    """opset=17 and ir=8 unless given; other fields are the graph's."""
    opset, ir = fields.pop("opset", 17), fields.pop("ir", 8)
    functions = fields.pop("functions", [])
    imports = [helper.make_opsetid("", opset), *fields.pop("imports", [])]
    graph = helper.make_graph(nodes, "main", inputs, outputs, weights, **fields)
    return helper.make_model(graph, ir_version=ir, opset_imports=imports, functions=functions)


def dense(**fields: object) -> onnx.ModelProto:
    """y = Relu(x W + b), the base of most cases."""
    return model([node("MatMul", "x w", "h"), node("Add", "h b", "a"), node("Relu", "a", "y")],
                 [info("x", "N", 4)], [info("y", "N", 3)], [raw("w", 4, 3), raw("b", 3)], **fields)


@case
def typed_and_raw_weights() -> onnx.ModelProto:
    """Data in float_data, raw_data, and a float16 constant in int32_data."""
    half = helper.make_tensor("half", TensorProto.FLOAT16, [3], np.float16([1, 2, 3]))
    return model([node("MatMul", "x t", "a"), node("MatMul", "a r", "b"),
                  node("Cast", "half", "c", to=FLOAT), node("Add", "b c", "y")],
                 [info("x", "N", 4)], [info("y", "N", 3)],
                 [typed("t", 4, 4), raw("r", 4, 3), half])


@case
def nodes_with_one_name() -> onnx.ModelProto:
    """Nodes that all have the same name, which is also what a cast would be called."""
    made = dense()
    for each in made.graph.node:
        each.name = "x_to_float16"
    return made


@case
def no_names_at_all() -> onnx.ModelProto:
    """Neither nodes nor weights' graphs are named; names that are not identifiers."""
    return model([node("MatMul", "x w", "1"), node("Exp", "1", "2"),
                  node("MatMul", "2 v", "y/0:1")],
                 [info("x", "N", 4)], [info("y/0:1", "N", 4)], [raw("w", 4, 3), raw("v", 3, 4)])


@case
def names_of_casts_in_sibling_branches() -> onnx.ModelProto:
    """Both branches use the same inner names, and those that casts would take."""
    def branch(op: str) -> onnx.GraphProto:
        return helper.make_graph(
            [node("MatMul", "x w", "h"), node("Exp", "h", "h_to_float"),
             node("MatMul", "h_to_float v", "h_to_float_1"), node(op, "h_to_float_1", "out")],
            "branch", [], [info("out", "N", 4)])
    return model([node("If", "c", "y", then_branch=branch("Relu"), else_branch=branch("Neg"))],
                 [helper.make_tensor_value_info("c", TensorProto.BOOL, []), info("x", "N", 4)],
                 [info("y", "N", 4)], [raw("w", 4, 3), raw("v", 3, 4)])


@case
def initializers_as_inputs_ir3() -> onnx.ModelProto:
    made = dense(opset=8, ir=3)
    made.graph.input.extend([info("w", 4, 3), info("b", 3)])
    return made


@case
def initializers_as_inputs_ir8() -> onnx.ModelProto:
    """From IR 4 on: defaults that a caller may override, beside true constants."""
    made = dense()
    made.graph.input.append(info("w", 4, 3))
    return made


@case
def sparse_initializer() -> onnx.ModelProto:
    made = dense()
    sparse = onnx.SparseTensorProto(
        values=helper.make_tensor("s", FLOAT, [2], [0.5, -2.0]),
        indices=helper.make_tensor("s_indices", TensorProto.INT64, [2], [1, 7]), dims=[4, 3])
    made.graph.sparse_initializer.append(sparse)
    made.graph.node.extend([node("MatMul", "x s", "hs"), node("Add", "hs y", "z")])
    made.graph.output.append(info("z", "N", 3))
    return made


@case
def sparse_constant() -> onnx.ModelProto:
    made = dense()
    sparse = onnx.SparseTensorProto(
        values=helper.make_tensor("", FLOAT, [1], [3.0]),
        indices=helper.make_tensor("", TensorProto.INT64, [1], [2]), dims=[3])
    made.graph.node.extend([node("Constant", "", "k", sparse_value=sparse),
                            node("Mul", "y k", "z")])
    made.graph.output.append(info("z", "N", 3))
    return made


@case
def training_info() -> onnx.ModelProto:
    """The algorithm reads a weight and an activation; the weight that it updates is a master."""
    made = dense(ir=8)
    training = made.training_info.add()
    training.initialization.CopyFrom(helper.make_graph(
        [node("RandomNormal", "", "w0", shape=[4, 3])], "init", [], [info("w0", 4, 3)]))
    training.algorithm.CopyFrom(helper.make_graph(
        [node("Add", "w w", "w2"), node("ReduceSum", "h", "loss", keepdims=0)], "step", [],
        [info("w2", 4, 3), info("loss")]))
    for binding, value in ((training.initialization_binding, "w0"),
                           (training.update_binding, "w2")):
        binding.add(key="w", value=value)
    return made


@case
def quantization_annotation() -> onnx.ModelProto:
    """The scale that an annotation names is not an operand of any node."""
    made = dense()
    made.graph.initializer.append(helper.make_tensor("scale", FLOAT, [], [0.1]))
    annotation = made.graph.quantization_annotation.add(tensor_name="h")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    return made


@case
def metadata_everywhere() -> onnx.ModelProto:
    """Metadata, doc strings and repeated keys; the suite adds unknown fields to every message."""
    made = dense(ir=10)
    made.producer_name, made.producer_version, made.domain = "maker", "1.2", "example"
    made.model_version, made.doc_string = 42, "about"
    for owner in (made, made.graph, made.graph.node[0], made.graph.initializer[0],
                  made.graph.input[0]):
        owner.metadata_props.add(key="key", value="value")
    made.graph.doc_string = "graph"
    made.graph.input[0].type.denotation = "TENSOR"
    made.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return made


@case
def function_value_info() -> onnx.ModelProto:
    """Functions with overloads, metadata, attribute defaults, and value_info of inner values."""
    def function(op: str, overload: str) -> onnx.FunctionProto:
        made = helper.make_function(
            "own", "F", ["in", "w"], ["out"],
            [node("MatMul", "in w", "m"), node("Constant", "", "k"), node("Mul", "m k", "s"),
             node(op, "s", "out")], [helper.make_opsetid("", 17)], overload=overload,
            attribute_protos=[helper.make_attribute("number", 2.0)])
        reference = made.node[1].attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT)
        reference.ref_attr_name = "number"
        made.value_info.extend([info("m", "N", 3), info("s", "N", 3)])
        made.metadata_props.add(key="from", value="test")
        made.doc_string = "a function"
        return made

    first, second = node("F", "x w", "a", domain="own"), node("F", "x w", "b", domain="own")
    first.overload, second.overload = "relu", "exp"
    second.attribute.append(helper.make_attribute("number", 0.5))
    return model([first, second, node("Sub", "a b", "y")], [info("x", "N", 4)], [info("y", "N", 3)],
                 [raw("w", 4, 3)], ir=10, functions=[function("Relu", "relu"),
                                                     function("Exp", "exp")],
                 imports=[helper.make_opsetid("own", 1)])


@case
def nested_functions() -> onnx.ModelProto:
    """A function that calls another, and imports no operators of its own."""
    inner = helper.make_function("own", "Inner", ["in", "w"], ["out"],
                                 [node("MatMul", "in w", "out")], [helper.make_opsetid("", 17)])
    outer = helper.make_function("own", "Outer", ["in", "w"], ["out"],
                                 [node("Inner", "in w", "out", domain="own")],
                                 [helper.make_opsetid("own", 1)])
    return model([node("Outer", "x w", "h", domain="own"), node("Softmax", "h", "y")],
                 [info("x", "N", 4)], [info("y", "N", 3)], [raw("w", 4, 3)],
                 functions=[inner, outer], imports=[helper.make_opsetid("own", 1)])


@case
def stale_value_info() -> onnx.ModelProto:
    """Entries for values that are gone, entries without a shape, entries of every value."""
    made = dense()
    made.graph.value_info.extend([info("gone", 7), info("h", "N", 3),
                                  helper.make_tensor_value_info("a", FLOAT, None)])
    return made


@case
def wrong_value_info() -> onnx.ModelProto:
    """Sizes that are wrong from the start: ONNX refuses the source, its kind must not get worse."""
    made = dense()
    made.graph.value_info.extend([info("h", 99, 98)])
    return made


@case
def more_precise_shapes() -> onnx.ModelProto:
    """Outputs that say less than is known: what they say stays."""
    return model([node("MatMul", "x w", "y"), node("Relu", "y", "z")], [info("x", "batch", 4)],
                 [info("y", None, "channels"), info("z", "other", 3)], [raw("w", 4, 3)])


@case
def output_without_shape() -> onnx.ModelProto:
    """ONNX refuses it, runtimes take it."""
    made = dense()
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, None))
    return made


@case
def imports_twice() -> onnx.ModelProto:
    """The default domain by both of its names."""
    made = dense()
    made.opset_import.add(domain="ai.onnx", version=17)
    return made


@case
def unordered_fields() -> bytes:
    """Fields in no order, split submessages, repeats packed and not."""
    return wire.encode(dense(), "wild", 3)


@case
def nothing_but_weights() -> onnx.ModelProto:
    """No node at all: outputs are inputs and initializers."""
    return model([], [info("x", "N", 4)], [info("x", "N", 4), info("w", 4, 3)], [raw("w", 4, 3)])


@case
def unused_parts() -> onnx.ModelProto:
    """Inputs, weights and values that nobody reads."""
    made = dense()
    made.graph.input.append(info("idle", "N"))
    made.graph.initializer.append(raw("spare", 5))
    made.graph.node.append(node("Exp", "h", "unread"))
    return made


@case
def sharded() -> onnx.ModelProto:
    """Device configurations name operands: inputs, weights, outputs."""
    made = dense(opset=21, ir=11)
    made.configuration.add(name="two", num_devices=2)
    for each in made.graph.node:
        device = each.device_configurations.add(configuration_id="two")
        for name in [*each.input, *each.output]:
            spec = device.sharding_spec.add(tensor_name=name, device=[0, 1])
            dim = spec.sharded_dim.add(axis=0)
            dim.simple_sharding.add(num_shards=2)
    return made


@case
def sequence_map() -> onnx.ModelProto:
    """A body whose formals are an element of the sequence it reads, and a tensor beside it."""
    body = helper.make_graph([node("MatMul", "e v", "m"), node("Relu", "m", "r")], "body",
                             [info("e", "N", 4), info("v", 4, 3)], [info("r", "N", 3)])
    inputs = [helper.make_tensor_sequence_value_info("s", FLOAT, ["N", 4])]
    return model([node("SequenceMap", "s w", "t", body=body),
                  node("ConcatFromSequence", "t", "y", axis=0)], inputs, [info("y", None, 3)],
                 [raw("w", 4, 3)])


@case
def rapidocr_variance() -> onnx.ModelProto:
    """A BatchNormalization variance of 9.79e7 in a Constant, behind a convolution."""
    def constant(name: str, numbers: list[float]) -> onnx.NodeProto:
        return node("Constant", "", name, value=helper.make_tensor("", FLOAT, [2], numbers))
    return model([constant("scale", [1, 2e4]), constant("bias", [0.5, -0.5]),
                  constant("mean", [0.25, 100]), constant("var", [1, 9.79e7]),
                  node("Conv", "x w", "c"),
                  node("BatchNormalization", "c scale bias mean var", "n"),
                  node("Relu", "n", "y")], [info("x", "N", 3, 8, 8)], [info("y", "N", 2, 6, 6)],
                 [raw("w", 2, 3, 3, 3)], opset=12, ir=7)


def build(name: str) -> bytes:
    made = BUILDERS[name]()
    return made if isinstance(made, bytes) else made.SerializeToString()
