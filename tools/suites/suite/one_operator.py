# SPDX-License-Identifier: Apache-2.0
"""The smallest valid model around each version of each operator, made from the published schemas.

`build(schema, target, full)` gives a model whose one node of interest is called "it": every operand
that can be a float is one, a graph input or output of its own, without a shape. `full` gives the
optional operands too. Attributes without which an operator is invalid are in ATTRIBUTES; subgraphs
are made here. A schema's type constraints are the only source of what is legal.
"""

import functools

import onnx
from onnx import TensorProto, defs, helper

from suite import validity

FLOAT_TYPES = ["tensor(float)", "seq(tensor(float))", "optional(tensor(float))",
               "optional(seq(tensor(float)))"]
OTHER_TYPES = ["tensor(int64)", "tensor(int32)", "tensor(uint8)", "tensor(bool)", "tensor(string)",
               "seq(tensor(int64))"]
NEWEST = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1,
          "com.microsoft": 1}
ELEMENTS = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16,
            "bfloat16": TensorProto.BFLOAT16, "double": TensorProto.DOUBLE,
            "int64": TensorProto.INT64, "int32": TensorProto.INT32, "uint8": TensorProto.UINT8,
            "int8": TensorProto.INT8, "bool": TensorProto.BOOL, "string": TensorProto.STRING,
            "uint64": TensorProto.UINT64, "uint32": TensorProto.UINT32}
# How many a variadic operand gets, where it is not one; operands that exclude others.
ARITY = {"Adagrad": 3, "Adam": 4, "Momentum": 3, "SequenceMap": 0}
OUTPUT_ARITY = {"Adagrad": 2, "Adam": 3, "Momentum": 2}
LEAST_INPUTS = {"Resize": 3}
OMITTED = {"Attention": {"nonpad_kv_seqlen"}, "LinearAttention": {"decay", "beta"},
           "Resize": {"sizes"}}
_TREE = {"leaf_targetids": [0], "nodes_falseleafs": [1], "nodes_falsenodeids": [0],
         "nodes_featureids": [0], "nodes_trueleafs": [1], "nodes_truenodeids": [0],
         "tree_roots": [0],
         "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]),
         "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0]),
         "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [1], [0])}
# Beyond what is required: what a node of that name is not valid without.
ATTRIBUTES: dict[str, dict[str, object]] = {
    "Einsum": {"equation": "i->i"}, "TreeEnsemble": _TREE,
    "Gradient": {"xs": ["x0"], "y": "x0"}, "Momentum": {"mode": "standard"},
    "TfIdfVectorizer": {"mode": "TF", "ngram_counts": [0], "ngram_indexes": [0],
                        "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
                        "pool_int64s": [1]},
    "LabelEncoder": {"keys_floats": [1.0], "values_floats": [1.0]},
    "CategoryMapper": {"cats_int64s": [1], "cats_strings": ["a"]},
    "DictVectorizer": {"string_vocabulary": ["a"]},
    "Imputer": {"imputed_value_floats": [1.0]}, "OneHotEncoder": {"cats_int64s": [1]},
    "FeatureVectorizer": {"inputdimensions": [1]}, "ZipMap": {"classlabels_int64s": [1]},
    "BatchNormalization": {"consumed_inputs": [0, 0, 0, 1, 1]},
    "Constant": {"value": helper.make_tensor("c", TensorProto.FLOAT, [1], [0.5])},
    "LinearAttention": {"update_rule": "linear"}, "MeanVarianceNormalization": {"axes": [0]},
    "MaxUnpool": {"kernel_shape": [1, 1]}, "MaxRoiPool": {"pooled_shape": [1, 1]},
    "Pad": {"pads": [0, 0], "paddings": [0, 0]},
    "TreeEnsembleClassifier": {"classlabels_int64s": [1]},
    "RotaryEmbedding": {"num_heads": 1, "rotary_embedding_dim": 2},
    "LSTM": {"hidden_size": 1}, "GRU": {"hidden_size": 1},
    "RNN": {"hidden_size": 1}, "Split": {"num_outputs": 1},
}
# Element types in attributes that are never rewritten, given where all operands are.
PRECISIONS = {"stash_type": 1, "softmax_precision": 1, "precision": 1}
KEPT_DTYPES = {"Multinomial": {"dtype": TensorProto.INT32},
               "QuantizeLinear": {"output_dtype": TensorProto.UINT8}}


# Operands that differ in rank; the last number stands for all from there on.
SPECIAL_RANKS: dict[str, list[int]] = {
    "Attention": [4], "CausalConvWithState": [3, 3, 1, 3], "Col2Im": [3, 1],
    "LinearAttention": [3, 3, 3, 4], "MaxRoiPool": [4, 2], "MaxUnpool": [4, 4, 1],
    "NegativeLogLikelihoodLoss": [2, 1],
    "Resize": [1], "ReverseSequence": [2, 1], "RoiAlign": [4, 2, 1], "TensorScatter": [3, 3, 1],
    "TreeEnsembleClassifier": [2],
}


def choose(types: list[str]) -> str:
    """The type an operand gets: a float where that is allowed."""
    for wanted in FLOAT_TYPES + OTHER_TYPES:
        if wanted in types:
            return wanted
    return sorted(types)[0]


def lowered(type_text: str, target: str) -> str:
    return type_text.replace("(float)", f"({target})").replace(",float)", f",{target})")


def type_proto(text: str, rank: int = 1) -> onnx.TypeProto:
    """The type a schema spells so, its tensors of that rank and of no known size."""
    kind, _, rest = text.partition("(")
    inner = rest.removesuffix(")")
    if kind == "tensor":
        return helper.make_tensor_type_proto(ELEMENTS[inner], [None] * rank)
    if kind == "seq":
        return helper.make_sequence_type_proto(type_proto(inner, rank))
    if kind == "optional":
        return helper.make_optional_type_proto(type_proto(inner, rank))
    key, _, value = inner.partition(",")
    value = value if "(" in value else f"tensor({value.strip()})"
    return helper.make_map_type_proto(ELEMENTS[key], type_proto(value, 0))


def _constraints(schema: defs.OpSchema) -> dict[str, list[str]]:
    return {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}


@functools.cache
def schemas() -> list[defs.OpSchema]:
    """Every version of every operator that takes, gives or holds floats and may still be used."""
    found = []
    for schema in defs.get_all_schemas_with_history():
        texts = [t for c in schema.type_constraints for t in c.allowed_type_strs]
        texts += [p.type_str for p in [*schema.inputs, *schema.outputs]]
        if any("(float)" in t or ",float)" in t for t in texts) and not schema.deprecated:
            found.append(schema)
    return sorted(found, key=lambda s: (s.domain, s.name, s.since_version))


def opset_of(schema: defs.OpSchema) -> list[onnx.OperatorSetIdProto]:
    imports = [helper.make_opsetid(schema.domain, schema.since_version)]
    if schema.domain:
        imports.append(helper.make_opsetid("", NEWEST[""]))
    return imports


class Builder:
    def __init__(self, schema: defs.OpSchema, full: bool, ranks: list[int]) -> None:
        self.schema, self.full, self.ranks = schema, full, ranks
        self.constraints = _constraints(schema)
        self.bound: dict[str, str] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.leading: dict[int, str] = {}
        self.nodes: list[onnx.NodeProto] = []

    def operand(self, param: defs.OpSchema.FormalParameter) -> str:
        """The type of one operand."""
        text = param.type_str
        if text not in self.constraints:
            return text
        if text not in self.bound:
            self.bound[text] = choose(self.constraints[text])
        return self.bound[text]

    def count(self, params: list, index: int, least: int) -> int:
        """How many actual operands a formal one gets."""
        name, inputs = self.schema.name, params is self.formal_inputs
        needed = max(self.schema.min_input, LEAST_INPUTS.get(name, 0)) if inputs else \
            self.schema.min_output
        option = params[index].option
        if option == defs.OpSchema.FormalParameterOption.Variadic:
            return (ARITY if inputs else OUTPUT_ARITY).get(name, max(least, 1))
        if option == defs.OpSchema.FormalParameterOption.Optional:
            omitted = params[index].name in OMITTED.get(name, ())
            return int((self.full or index < needed) and not omitted)
        return 1

    def names(self, params: list, prefix: str) -> list[tuple[str, str]]:
        """(name, type) of the actual operands; an omitted one has an empty name."""
        found: list[tuple[str, str]] = []
        for i, param in enumerate(params):
            number = self.count(params, i, param.min_arity)
            for _ in range(number):
                found.append((f"{prefix}{len(found)}", self.operand(param)))
            if number == 0 and self.full:
                found.append(("", ""))
        while found and not found[-1][0]:
            found.pop()
        return found

    def attributes(self) -> dict[str, object]:
        given = dict(ATTRIBUTES.get(self.schema.name, {}))
        given = {k: v for k, v in given.items() if k in self.schema.attributes}
        kinds = defs.OpSchema.AttrType
        plain = {kinds.INT: 1, kinds.INTS: [1], kinds.FLOAT: 1.0, kinds.FLOATS: [1.0],
                 kinds.STRING: "a", kinds.STRINGS: ["a"],
                 kinds.TENSOR: helper.make_tensor("t", TensorProto.FLOAT, [1], [0.5])}
        for name, attribute in self.schema.attributes.items():
            if attribute.required and name not in given and attribute.type in plain:
                given[name] = plain[attribute.type]
        if self.schema.name == "Cast" and self.schema.since_version < 6:
            given["to"] = "FLOAT"
        if self.schema.name == "BitCast":
            given["to"] = TensorProto.INT32
        if self.schema.name == "BatchNormalization" and "training_mode" in self.schema.attributes:
            given["training_mode"] = int(self.full)
        if self.schema.name == "Optional" and not self.full:
            given["type"] = type_proto("tensor(float)")
        kept = PRECISIONS | KEPT_DTYPES.get(self.schema.name, {}) if self.full else {}
        given |= {k: v for k, v in kept.items() if k in self.schema.attributes}
        return given | bodies(self.schema)

    def node(self) -> onnx.NodeProto:
        schema = self.schema
        self.formal_inputs = list(schema.inputs)
        inputs = self.names(self.formal_inputs, "x")
        if schema.name == "Loop":  # trip count, condition, state
            inputs = inputs[:2] + [("x2", "tensor(float)")] if self.full else \
                [("", ""), ("", ""), ("x2", "tensor(float)")]
        if schema.name == "Scan":  # a state and what is scanned
            lengths = [("", "")] if schema.since_version == 8 else []
            inputs = lengths + [("x1", "tensor(float)"), ("x2", "tensor(float)")]
        outputs = self.names(list(schema.outputs), "y")
        if schema.name == "Scan":
            outputs = [("y0", "tensor(float)"), ("y1", "tensor(float)")]
            self.ranks = [0, 2, 3] if schema.since_version == 8 else [1, 2]
        if schema.name in ("If", "Loop", "SequenceMap"):
            outputs = outputs[:1]
        for i, (name, text) in enumerate(inputs):
            rank = self.ranks[min(i, len(self.ranks) - 1)]
            if name:
                self.inputs.append(helper.make_value_info(name, type_proto(text, rank)))
        if schema.name == "If":
            self.inputs.append(helper.make_value_info("captured", type_proto("tensor(float)")))
        self.output_names = [name for name, _ in outputs]
        self.output_types = dict(outputs)
        return helper.make_node(schema.name, [n for n, _ in inputs], self.output_names, name="it",
                                domain=schema.domain, **self.attributes())

    def model(self) -> onnx.ModelProto:
        node = self.node()
        outputs = [onnx.ValueInfoProto(name=n) for n in self.output_names]
        graph = helper.make_graph([node], "one", self.inputs, outputs)
        model = helper.make_model(graph, opset_imports=opset_of(self.schema), ir_version=13)
        inferred = onnx.shape_inference.infer_shapes(model)
        for got, value in zip(inferred.graph.output, graph.output):
            known = got.type.WhichOneof("value")
            text = self.output_types[value.name]
            kind = got.type if known else type_proto(text)
            value.CopyFrom(helper.make_value_info(value.name, with_shape(kind)))
        result = helper.make_model(graph, opset_imports=opset_of(self.schema), ir_version=13)
        return result


def with_shape(kind: onnx.TypeProto) -> onnx.TypeProto:
    """A rank where inference knows none: the checker wants one, and then any will do."""
    plain = onnx.TypeProto()
    plain.CopyFrom(kind)
    inner = plain
    while inner.WhichOneof("value") in ("sequence_type", "optional_type"):
        inner = getattr(inner, inner.WhichOneof("value")).elem_type
    if inner.WhichOneof("value") == "tensor_type" and not inner.tensor_type.HasField("shape"):
        inner.tensor_type.shape.dim.add()
    return plain


def _value(name: str, elem: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem, [] if elem == TensorProto.BOOL else [None])


def bodies(schema: defs.OpSchema) -> dict[str, onnx.GraphProto]:
    """Subgraphs that pass their operands on."""
    make, node = helper.make_graph, helper.make_node
    if schema.name == "If":
        return {name: make([node("Identity", ["captured"], [f"{name}_out"])], name, [],
                           [_value(f"{name}_out")]) for name in ("then_branch", "else_branch")}
    if schema.name == "Loop":
        return {"body": make([node("Identity", ["go"], ["go_on"]), node("Identity", ["s"], ["s2"])],
                             "body", [_value("i", TensorProto.INT64),
                                      _value("go", TensorProto.BOOL), _value("s")],
                             [_value("go_on", TensorProto.BOOL), _value("s2")])}
    if schema.name == "Scan":
        return {"num_scan_inputs": 1, "body": make(
            [node("Identity", ["s"], ["s2"]), node("Identity", ["e"], ["e2"])], "body",
            [_value("s"), _value("e")], [_value("s2"), _value("e2")])}
    if schema.name == "SequenceMap":
        return {"body": make([node("Identity", ["e"], ["e2"])], "body", [_value("e")],
                             [_value("e2")])}
    return {}


RANKS = ([1], [2], [3], [4], [0], [5])


def build(schema: defs.OpSchema, full: bool) -> tuple[onnx.ModelProto, str]:
    """(the model, what ONNX says against it or ""): all inputs have one rank, the first that
    does."""
    first: tuple[onnx.ModelProto, str] | None = None
    for ranks in [SPECIAL_RANKS[schema.name]] if schema.name in SPECIAL_RANKS else RANKS:
        model = Builder(schema, full, ranks).model()
        text = validity.full_check(model.SerializeToString()) or validity.strict_inference(model)[0]
        if not text:
            return model, ""
        first = first or (model, text)
    return first
