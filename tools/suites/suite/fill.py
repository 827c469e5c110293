# SPDX-License-Identifier: Apache-2.0
"""Builds models that fill every message and field of the IR with random values.

The models hang together (names refer to something, tensors have as much data as their shape says,
types are known), so that a reader has no reason to refuse them, and every field that is free of
meaning for a reader (doc strings, denotations, metadata, unknown fields, …) is random. Around the
filler, most of whose operators are of a domain nobody knows, lies a small computation that a
conversion changes: y = MatMul(x, W), and a pair of marked casts that strip-casts removes.
"""

import random
import string

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, TensorProto, helper

from suite import walk, wire

DOMAIN = "test.fill"
EXTERNAL = "fill_model.weights"  # the external data file's name, beside the model
EXTERNAL_BYTES = 256
INSERTED = ("demi.inserted", "cast")

ELEMENT_BITS = {  # element types with raw data, by bits an element
    "FLOAT": 32, "UINT8": 8, "INT8": 8, "UINT16": 16, "INT16": 16, "INT32": 32, "INT64": 64,
    "BOOL": 8, "FLOAT16": 16, "DOUBLE": 64, "UINT32": 32, "UINT64": 64, "COMPLEX64": 64,
    "COMPLEX128": 128, "BFLOAT16": 16, "FLOAT8E4M3FN": 8, "FLOAT8E4M3FNUZ": 8, "FLOAT8E5M2": 8,
    "FLOAT8E5M2FNUZ": 8, "UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "FLOAT8E8M0": 8, "UINT2": 2,
    "INT2": 2,
}
# Typed data: field, and values an element; the sub-byte types pack several into one int32.
TYPED = {"FLOAT": ("float_data", 1), "COMPLEX64": ("float_data", 2), "DOUBLE": ("double_data", 1),
         "COMPLEX128": ("double_data", 2), "INT64": ("int64_data", 1), "INT32": ("int32_data", 1),
         "UINT32": ("uint64_data", 1), "UINT64": ("uint64_data", 1), "BOOL": ("int32_data", 1),
         "FLOAT16": ("int32_data", 1), "BFLOAT16": ("int32_data", 1), "UINT8": ("int32_data", 1)}
ALPHABET = string.ascii_letters + string.digits + " _/:.%\"\\'\t\n{}[]()<>=,é漢🜨\x01\x00"


class Filler:
    """Makes the parts of one model; deterministic for a seed."""

    def __init__(self, seed: int) -> None:
        self.rng, self.names = random.Random(seed), 0

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}_{self.names}"

    def text(self) -> str:
        return "".join(self.rng.choices(ALPHABET, k=self.rng.randrange(0, 24)))

    def integer(self, bits: int = 64) -> int:
        edge = 1 << (bits - 1)
        return self.rng.choice([0, 1, -1, 127, 128, -128, edge - 1, -edge,
                                self.rng.randrange(-edge, edge)])

    def real(self) -> float:
        return self.rng.choice([0.0, -0.0, 1.5, -2.25, float("inf"), -float("inf"),
                                float(self.rng.randrange(-1000, 1000)) / 8])

    def tensor(self, name: str, kind: str | None = None) -> TensorProto:
        """A small tensor with raw or typed data."""
        kind = kind or self.rng.choice([*ELEMENT_BITS, "STRING"])
        tensor = TensorProto(name=name, data_type=getattr(TensorProto, kind))
        tensor.dims.extend(self.rng.choices([0, 1, 2, 3, 5], k=self.rng.randrange(0, 4)))
        count = 1
        for dim in tensor.dims:
            count *= dim
        if kind == "STRING":
            tensor.string_data.extend(self.rng.randbytes(self.rng.randrange(4))
                                      for _ in range(count))
        elif kind in TYPED and self.rng.random() < 0.5:
            field, each = TYPED[kind]
            values = ([self.real() for _ in range(count * each)] if field in
                      ("float_data", "double_data")
                      else [self.rng.randrange(0, 2) for _ in range(count * each)])
            getattr(tensor, field).extend(values)
        else:
            tensor.raw_data = self.rng.randbytes((count * ELEMENT_BITS[kind] + 7) // 8)
            if kind == "BOOL":
                tensor.raw_data = bytes(b & 1 for b in tensor.raw_data)
        return tensor

    def external(self, name: str) -> TensorProto:
        """A tensor whose data lies in EXTERNAL."""
        tensor = TensorProto(name=name, data_type=TensorProto.INT16, dims=[4, 3],
                             data_location=TensorProto.EXTERNAL)
        for key, value in (("location", EXTERNAL), ("offset", "64"), ("length", "24")):
            tensor.external_data.add(key=key, value=value)
        return tensor

    def sparse(self, name: str) -> onnx.SparseTensorProto:
        values = helper.make_tensor(name, TensorProto.FLOAT, [2], [1.0, 2.0])
        indices = helper.make_tensor("", TensorProto.INT64, [2], [1, 5])
        return onnx.SparseTensorProto(values=values, indices=indices, dims=[2, 4])

    def shape(self) -> onnx.TensorShapeProto:
        shape = onnx.TensorShapeProto()
        for _ in range(self.rng.randrange(0, 4)):
            dim = shape.dim.add(denotation=self.text())
            kind = self.rng.randrange(3)
            if kind == 0:
                dim.dim_value = self.rng.randrange(0, 1 << 40)
            elif kind == 1:
                dim.dim_param = self.name("N")
        return shape

    def type(self, kind: int | None = None, depth: int = 0) -> onnx.TypeProto:
        """A type of any kind: tensor, sparse tensor, sequence, optional, map, opaque."""
        kind = self.rng.randrange(6) if kind is None else kind
        element = self.rng.choice([TensorProto.INT64, TensorProto.STRING, TensorProto.FLOAT8E5M2,
                                   TensorProto.UINT4, TensorProto.BOOL])
        proto = onnx.TypeProto(denotation=self.text())
        inner = 0 if depth > 1 else None
        if kind == 0:
            proto.tensor_type.elem_type = element
            proto.tensor_type.shape.CopyFrom(self.shape())
        elif kind == 1:
            proto.sparse_tensor_type.elem_type = element
            proto.sparse_tensor_type.shape.CopyFrom(self.shape())
        elif kind == 2:
            proto.sequence_type.elem_type.CopyFrom(self.type(inner, depth + 1))
        elif kind == 3:
            proto.optional_type.elem_type.CopyFrom(self.type(inner, depth + 1))
        elif kind == 4:
            proto.map_type.key_type = TensorProto.INT64
            proto.map_type.value_type.CopyFrom(self.type(inner, depth + 1))
        else:
            proto.opaque_type.domain = self.text()
            proto.opaque_type.name = self.text()
        return proto

    def value(self, name: str, kind: int | None = None) -> onnx.ValueInfoProto:
        return onnx.ValueInfoProto(name=name, type=self.type(kind))

    def attributes(self, depth: int, reads: str) -> list[AttributeProto]:
        """One attribute of each type; graphs only while depth lasts."""
        made = []

        def add(kind: str, field: str, value: object, many: bool = False) -> None:
            attribute = AttributeProto(name=self.name("attr"), type=getattr(AttributeProto, kind))
            target = getattr(attribute, field)
            if many:
                target.extend(value)
            elif isinstance(value, Message):
                target.CopyFrom(value)
            else:
                setattr(attribute, field, value)
            made.append(attribute)

        add("FLOAT", "f", self.real())
        add("INT", "i", self.integer())
        add("STRING", "s", self.rng.randbytes(9))
        add("TENSOR", "t", self.tensor(""))
        add("FLOATS", "floats", [self.real() for _ in range(3)], True)
        add("INTS", "ints", [self.integer() for _ in range(3)], True)
        add("STRINGS", "strings", [self.rng.randbytes(3), b""], True)
        add("TENSORS", "tensors", [self.tensor(self.text()), self.tensor("")], True)
        add("SPARSE_TENSOR", "sparse_tensor", self.sparse(""))
        add("SPARSE_TENSORS", "sparse_tensors", [self.sparse("")], True)
        add("TYPE_PROTO", "tp", self.type())
        add("TYPE_PROTOS", "type_protos", [self.type(), self.type()], True)
        if depth > 0:
            add("GRAPH", "g", self.graph(depth - 1, reads))
            add("GRAPHS", "graphs", [self.graph(depth - 1, reads)], True)
        self.rng.shuffle(made)
        return made

    def node(self, inputs: list[str], outputs: list[str], depth: int) -> onnx.NodeProto:
        """An operator that nobody knows, with every field filled."""
        node = onnx.NodeProto(input=inputs, output=outputs, name=self.name("node"),
                              op_type="Fill", domain=DOMAIN, overload=self.text())
        node.attribute.extend(self.attributes(depth, inputs[0]))
        device = node.device_configurations.add(configuration_id="cfg", pipeline_stage=2)
        spec = device.sharding_spec.add(tensor_name=inputs[0], device=[0, -1])
        spec.index_to_device_group_map.add(key=-1, value=[0, 1])
        sharded = spec.sharded_dim.add(axis=self.rng.randrange(2))
        sharded.simple_sharding.add(dim_value=2, num_shards=2)
        sharded.simple_sharding.add(dim_param="N", num_shards=3)
        return node

    def graph(self, depth: int, reads: str) -> onnx.GraphProto:
        """A branch that captures `reads`, with initializers of all kinds."""
        inner, out, made = self.name("w"), self.name("out"), self.name("inner")
        graph = onnx.GraphProto(name=self.name("graph"))
        graph.node.append(self.node([reads, inner, ""], [made], depth))
        graph.node.append(self.node([made], [out], 0))
        graph.initializer.append(self.tensor(inner))
        graph.sparse_initializer.append(self.sparse(self.name("sparse")))
        graph.output.append(self.value(out, 0))
        graph.value_info.append(self.value(made))
        annotation = graph.quantization_annotation.add(tensor_name=made)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=inner)
        return graph

    def function(self) -> onnx.FunctionProto:
        function = onnx.FunctionProto(
            name="Call", domain=DOMAIN, overload="o", input=["a"], output=["b"],
            attribute=["required"])
        function.attribute_proto.extend(self.attributes(0, "a"))
        function.opset_import.add(domain=DOMAIN, version=1)
        function.opset_import.add(domain="", version=21)
        node = self.node(["a"], ["b"], 1)
        reference = node.attribute.add(name="ref", type=AttributeProto.INT)
        reference.ref_attr_name = "required"
        function.node.append(node)
        function.value_info.append(self.value("b"))
        return function

    def main_graph(self, external: bool) -> onnx.GraphProto:
        """The computation that conversions touch, with filler around it."""
        tensor = helper.make_tensor_value_info
        graph = onnx.GraphProto(name="main")
        graph.input.extend([tensor("x", TensorProto.FLOAT, ["N", 4]), self.value("other", 0)])
        weights = [self.rng.randrange(-64, 64) / 16 for _ in range(16)]
        graph.initializer.append(helper.make_tensor("W", TensorProto.FLOAT, [4, 4], weights))
        graph.initializer.extend([self.tensor(self.name("init")) for _ in range(4)])
        segmented = self.tensor(self.name("segmented"), "INT64")
        segmented.segment.begin, segmented.segment.end = 0, self.integer()
        if external:
            graph.initializer.append(self.external(self.name("external")))
        graph.sparse_initializer.append(self.sparse(self.name("sparse")))
        graph.node.append(helper.make_node("MatMul", ["x", "W"], ["y"], name="matmul"))
        graph.node.append(helper.make_node("Cast", ["y"], ["y16"], name="down",
                                           to=TensorProto.FLOAT16))
        graph.node.append(helper.make_node("Cast", ["y16"], ["y32"], name="up",
                                           to=TensorProto.FLOAT))
        for node in graph.node[1:]:
            node.metadata_props.add(key=INSERTED[0], value=INSERTED[1])
        graph.node.append(self.node(["other", "y32"], ["made"], 2))
        graph.node[-1].attribute.add(name="seg", type=AttributeProto.TENSOR).t.CopyFrom(segmented)
        call = onnx.NodeProto(input=["made"], output=["called"], op_type="Call", domain=DOMAIN,
                              overload="o", name="call")
        call.attribute.add(name="required", type=AttributeProto.INT, i=3)
        graph.node.append(call)
        graph.value_info.extend([tensor("y32", TensorProto.FLOAT, ["N", 4]), self.value("made")])
        graph.output.extend([tensor("y", TensorProto.FLOAT, ["N", 4]), self.value("called")])
        annotation = graph.quantization_annotation.add(tensor_name="y")
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="W")
        return graph

    def training(self) -> onnx.TrainingInfoProto:
        info = onnx.TrainingInfoProto()
        for graph in (info.initialization, info.algorithm):
            made = self.name("trained")
            graph.name = self.name("training")
            graph.node.append(self.node(["W"], [made], 0))
            graph.output.append(self.value(made, 0))
        info.initialization_binding.add(key="W", value=info.initialization.output[0].name)
        info.update_binding.add(key="W", value=info.algorithm.output[0].name)
        return info

    def decorate(self, model: onnx.ModelProto) -> None:
        """Random texts and unknown fields in every message that can hold them."""
        for message in list(walk.messages(model)):
            fields = message.DESCRIPTOR.fields_by_name
            if "doc_string" in fields and not message.doc_string:
                message.doc_string = self.text()
            if "metadata_props" in fields:
                for _ in range(self.rng.randrange(1, 3)):
                    message.metadata_props.add(key=self.name("key"), value=self.text())
        for message in list(walk.messages(model)):
            if self.rng.random() < 0.7:
                message.MergeFromString(self.unknown())

    def unknown(self) -> bytes:
        """A few records of fields that no message has, of every wire type but groups."""
        writer, out = wire.Writer(wire.Style(), 0), b""
        for _ in range(self.rng.randrange(1, 4)):
            number = self.rng.choice([100, 2047, 2048, 19_000, 536_870_911])
            kind = self.rng.choice([wire.VARINT, wire.FIXED64, wire.BYTES, wire.FIXED32])
            payload = {wire.VARINT: writer.varint(self.rng.getrandbits(64)),
                       wire.FIXED64: self.rng.randbytes(8), wire.FIXED32: self.rng.randbytes(4),
                       wire.BYTES: self.rng.randbytes(self.rng.randrange(5))}[kind]
            out += writer.record(number, kind, payload)
        return out

    def model(self, external: bool) -> onnx.ModelProto:
        model = onnx.ModelProto(
            ir_version=14, producer_name=self.text(), producer_version=self.text(),
            domain=self.text(), model_version=self.integer())
        model.opset_import.add(domain="", version=21)
        model.opset_import.add(domain=DOMAIN, version=1)
        model.graph.CopyFrom(self.main_graph(external))
        model.training_info.append(self.training())
        model.functions.append(self.function())
        model.configuration.add(name="cfg", num_devices=2, device=["cpu", self.text()])
        self.decorate(model)
        return model


def build(seed: int, external: bool = False) -> onnx.ModelProto:
    """The model of a seed; with external, one tensor's data is in the file EXTERNAL."""
    return Filler(seed).model(external)


def external_bytes() -> bytes:
    return bytes(i & 0xFF for i in range(EXTERNAL_BYTES))
