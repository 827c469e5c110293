# SPDX-License-Identifier: Apache-2.0
"""Exact legality: every version of every operator that knows floats, converted to each 16-bit type.

suite/one_operator.py makes the smallest valid model around each, from ONNX's schemas. It is
converted with the operator in the LOW list and low inputs and outputs, so that whatever may go low
does. Then: the result is valid by ONNX's full check and strict inference; an operand is in 16 bit
exactly where its type constraint at that opset allows it, apart from the facts in STAYS; attributes
that say the precision of a computation, or an output's other type, are what they were; and each
node that stays says why, with the first opset that would do.

FIRST is the other direction: since when an operator can run low, as known facts, beside what
conversions show.
"""

import argparse
import collections
import sys

import onnx
from onnx import defs

from suite import one_operator, reasons, validity, walk
from suite.model import Model
from suite.package import demi

BOTH = ("float16", "bfloat16")
ANY = (1, 99)

# (operator, operands, targets, versions, why): legal by the type constraint, and yet fp32.
STAYS: list[tuple[str, set[str], tuple[str, ...], tuple[int, int], str]] = [
    ("BatchNormalization", {"input_mean", "input_var", "running_mean", "running_var"}, BOTH,
     (14, 99), "statistics"),
    ("BatchNormalization", {"scale", "B"}, ("bfloat16",), (15, 99), "as MXNet's list has it"),
    ("BitCast", {"input"}, BOTH, ANY, "both sides have one width"),
    ("Constant", {"output"}, BOTH, ANY, "data, which its readers' casts convert"),
    ("Dropout", {"ratio"}, BOTH, ANY, "a number"), ("Pow", {"Y"}, BOTH, (12, 99), "a number"),
    ("GridSample", {"grid"}, BOTH, ANY, "coordinates"),
    ("Resize", {"roi"}, BOTH, ANY, "coordinates"),
    ("OneHot", {"indices", "depth"}, BOTH, ANY, "counts"),
    ("LayerNormalization", {"Mean", "InvStdDev"}, BOTH, ANY, "as stash_type says"),
    ("LinearAttention", {"past_state", "present_state"}, BOTH, ANY, "an accumulator"),
    ("MeanVarianceNormalization", {"X", "Y"}, BOTH, ANY, "its body adds a float constant"),
    ("TreeEnsemble", {"X", "Y"}, BOTH, ANY, "its splits are float"),
    ("ZipMap", {"Z"}, BOTH, ANY, "a map to float"),
]
# LinearAttention without past_state: strict inference gives present_state T's type.
TIED_WITHOUT = {"LinearAttention": "past_state"}

# Operator -> first opset with a form in (float16, bfloat16); 0: none. Where float16 begins with the
# operator itself and bfloat16 at 13, or with the operator where that is newer, it is not listed.
FIRST: dict[str, tuple[int, int]] = {
    "CumSum": (14, 14), "IsInf": (20, 20), "QLinearMatMul": (21, 21), "Range": (27, 27),
    "Celu": (28, 28), "QuantizeLinear": (19, 19), "DequantizeLinear": (19, 19), "Equal": (11, 13),
    "BatchNormalization": (1, 14), "If": (1, 16), "Loop": (1, 16), "Scan": (8, 16),
    "Where": (9, 16), "LeakyRelu": (1, 16), "PRelu": (1, 16), "GreaterOrEqual": (12, 16),
    "LessOrEqual": (12, 16), "ConstantOfShape": (9, 20), "TopK": (1, 24),
    "SplitToSequence": (11, 24), "Compress": (9, 28), "Einsum": (12, 28), "OneHot": (9, 28),
    "Optional": (15, 28), "OptionalGetElement": (15, 28), "OptionalHasElement": (15, 28),
    "ReverseSequence": (10, 28), "Unique": (11, 28), "ScatterElements": (11, 13),
    "NonMaxSuppression": (0, 0), "QLinearConv": (0, 0), "TfIdfVectorizer": (0, 0),
    "DynamicQuantizeLinear": (0, 0), "MeanVarianceNormalization": (0, 0),
    "BitCast": (0, 0), "Constant": (0, 0),
    "Shrink": (9, 0), "Scatter": (9, 0), "Upsample": (1, 0), "ConcatFromSequence": (11, 0),
    "SequenceAt": (11, 0), "SequenceConstruct": (11, 0), "SequenceErase": (11, 0),
    "SequenceInsert": (11, 0), "SequenceLength": (11, 0), "SequenceEmpty": (11, 0),
    "SequenceMap": (17, 0),
}
for _op in """Conv ConvTranspose DeformConv AveragePool MaxPool LpPool GlobalAveragePool
        GlobalMaxPool GlobalLpPool MaxRoiPool MaxUnpool RNN LSTM GRU InstanceNormalization
        LpNormalization Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Elu Selu Softplus
        Softsign Mish HardSigmoid HardSwish ThresholdedRelu Round Det GridSample RoiAlign EyeLike
        RandomNormal RandomUniform RandomNormalLike RandomUniformLike Multinomial
        NegativeLogLikelihoodLoss Bernoulli""".split():
    FIRST[_op] = (min(s.since_version for s in defs.get_all_schemas_with_history()
                      if s.name == _op and not s.domain), 22)
# Deviations of single operators from the rule above, whose form in 16 bit is of another date.
EXACT = {"NegativeLogLikelihoodLoss": (12, 22), "Bernoulli": (15, 15)}

REWRITTEN = {("Cast", "to"), ("EyeLike", "dtype"), ("Bernoulli", "dtype"),
             ("RandomNormal", "dtype"), ("RandomUniform", "dtype"), ("RandomNormalLike", "dtype"),
             ("RandomUniformLike", "dtype"), ("SequenceEmpty", "dtype"),
             ("HannWindow", "output_datatype"), ("HammingWindow", "output_datatype"),
             ("BlackmanWindow", "output_datatype"), ("MelWeightMatrix", "output_datatype"),
             ("Optional", "type"),
             ("ConstantOfShape", "value"), ("Attention", "softmax_precision")}


def element(kind: onnx.TypeProto) -> int:
    """The element type of a tensor, or of what holds tensors."""
    while True:
        name = kind.WhichOneof("value")
        if name in ("sequence_type", "optional_type"):
            kind = getattr(kind, name).elem_type
        elif name == "map_type":
            kind = kind.map_type.value_type
        else:
            return kind.tensor_type.elem_type


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    """Element types of the main graph's values, as inference and the casts around have them."""
    _, inferred = validity.strict_inference(model)
    graph = (inferred or model).graph
    types = {v.name: element(v.type) for v in [*graph.input, *graph.output, *graph.value_info]}
    types |= {t.name: t.data_type for t in graph.initializer}
    for node in graph.node:  # what inference does not know, a cast tells
        if node.op_type == "Cast" and node.input[0] not in types:
            cast = types.get(node.output[0], 0)
            types[node.input[0]] = next(iter({1, 10, 16} - {cast, 26 - cast}), 0)
    return types


def formal(params: list, place: int) -> defs.OpSchema.FormalParameter:
    return params[min(place, len(params) - 1)]


def stays(schema: defs.OpSchema, operand: str, target: str) -> bool:
    return any(op == schema.name and operand in operands and target in targets and
               first <= schema.since_version <= last
               for op, operands, targets, (first, last), _ in STAYS)


class Tally:
    def __init__(self) -> None:
        self.failures: list[str] = []
        self.first: dict[tuple[str, str], int] = {}
        self.conversions = self.operands = 0


def attribute_problems(before: onnx.NodeProto, after: onnx.NodeProto) -> list[str]:
    old = {a.name: a.SerializeToString(deterministic=True) for a in before.attribute
           if a.type != onnx.AttributeProto.GRAPH}
    new = {a.name: a.SerializeToString(deterministic=True) for a in after.attribute
           if a.type != onnx.AttributeProto.GRAPH}
    given = {a.name for a in before.attribute}
    return [f"attribute {name} was rewritten" for name in sorted({*old, *new})
            if old.get(name) != new.get(name) and
            ((before.op_type, name) not in REWRITTEN or
             (name == "softmax_precision" and name in given))]


class Case:
    """One version of one operator, with all operands or the required ones."""

    def __init__(self, schema: defs.OpSchema, full: bool) -> None:
        self.schema, self.full = schema, full
        self.model, self.source_problem = one_operator.build(schema, full)
        self.source = Model(self.model.SerializeToString())
        self.types = types_of(self.model)
        self.node = next(n for n in self.model.graph.node if n.name == "it")
        self.allowed = {c.type_param_str: set(c.allowed_type_strs)
                        for c in schema.type_constraints}

    def __str__(self) -> str:
        full = ", all operands" if self.full else ""
        schema = self.schema
        return f"{schema.domain}::{schema.name} of opset {schema.since_version}{full}"

    def legal(self, operand: defs.OpSchema.FormalParameter, target: str, kind: str) -> bool:
        types = self.allowed.get(operand.type_str, {operand.type_str})
        return kind.replace("(float)", f"({target})") in types - {kind}

    def kind_of(self, operand: defs.OpSchema.FormalParameter, name: str) -> str:
        """A value's type, as schemas spell it."""
        types = self.allowed.get(operand.type_str, {operand.type_str})
        value = next((v for v in [*self.model.graph.input, *self.model.graph.output]
                      if v.name == name), None)
        which = value.type.WhichOneof("value") if value else "tensor_type"
        kinds = {"tensor_type": "tensor(", "sequence_type": "seq(", "optional_type": "optional("}
        start = kinds.get(which, "map(")
        return next((t for t in one_operator.FLOAT_TYPES if t in types and t.startswith(start)), "")

    def problems(self, target: str, tally: Tally) -> list[str]:
        schema = self.schema
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        try:
            data, report = demi.convert(self.source.data, to=target, check=False, io="low", low_ops=f"+{name}",
                                        parameters="runtime", opset="keep")
        except demi.DemiError as error:
            return [str(error)]
        made = Model(data)
        result = made.proto
        found = validity.problems(made, self.source)
        after = next((n for n in walk.model_nodes(result) if n.name == "it"), None)
        if after is None:
            return [*found, "the node is gone"]
        found += attribute_problems(self.node, after)
        if not found:
            found += self.operand_problems(after, types_of(result), target, tally)
        graphs = reasons.Graphs(self.model)
        truth = reasons.Truth({"nodes": [vars(n) for n in report.nodes]}, graphs, target, True)
        return found + [t for t in truth.problems() if "is an fp32 operator" not in t]

    def operand_problems(self, after: onnx.NodeProto, types: dict[str, int], target: str,
                         tally: Tally) -> list[str]:
        found, low_type = [], validity.LOW_TYPE[target]
        tied = TIED_WITHOUT.get(self.schema.name)
        names = [formal(list(self.schema.inputs), i).name for i, n in enumerate(self.node.input)
                 if n]
        all_stay = bool(tied) and tied not in names
        for kind, params in (("input", list(self.schema.inputs)),
                             ("output", list(self.schema.outputs))):
            pairs = zip(getattr(self.node, kind), getattr(after, kind))
            for place, (before, now) in enumerate(pairs):
                if not before or self.types.get(before) != onnx.TensorProto.FLOAT:
                    continue
                operand = formal(params, place)
                tally.operands += 1
                want = self.legal(operand, target, self.kind_of(operand, before))
                want = want and not stays(self.schema, operand.name, target) and not all_stay
                got = types.get(now) == low_type
                if got:
                    key = (self.schema.name, target)
                    tally.first[key] = min(tally.first.get(key, 99), self.schema.since_version)
                if got != want:
                    found.append(f"{kind} {operand.name} is {'' if got else 'not '}{target}")
        return found


def first_problems(tally: Tally) -> list[str]:
    """Where the first opset of an operator's 16-bit form is not the known one."""
    born: dict[str, int] = {}
    for schema in one_operator.schemas():
        if not schema.domain:
            born[schema.name] = min(born.get(schema.name, 99), schema.since_version)
    found = []
    for op, since in sorted(born.items()):
        known = EXACT.get(op) or FIRST.get(op) or (since, max(since, 13))
        for target, want in zip(BOTH, known):
            got = tally.first.get((op, target), 0)
            if got != want:
                found.append(f"{op}: {target} since {got or 'never'}, known {want or 'never'}")
    low_ml = sorted({op for (op, _) in tally.first if op not in born} -
                    {"FlexAttention", "Gradient"})
    return found + [f"{op} has a 16-bit form" for op in low_ml]


def main() -> None:
    parser = argparse.ArgumentParser(description="Judges what may go low, opset by opset.")
    parser.add_argument("--only", default="", help="judge only operators of this name")
    args = parser.parse_args()
    tally = Tally()
    used: collections.Counter = collections.Counter()
    for schema in one_operator.schemas():
        if args.only and schema.name != args.only:
            continue
        for full in (False, True):
            case = Case(schema, full)
            if case.source_problem:
                tally.failures.append(f"{case}: the source: {case.source_problem}")
                continue
            for target in BOTH:
                tally.conversions += 1
                tally.failures += [f"{case} to {target}: {p}"
                                   for p in case.problems(target, tally)]
            used.update(op for op, *_ in STAYS if op == schema.name)
    if not args.only:
        tally.failures += first_problems(tally)
        tally.failures += [f"STAYS: no operator {op}" for op, *_ in STAYS if not used[op]]
    for text in tally.failures[:60]:
        print("FAIL", text[:300])
    print(f"legality: {len(one_operator.schemas())} versions, {tally.conversions} conversions, "
          f"{tally.operands} float operands, {len(tally.failures)} failures")
    sys.exit(1 if tally.failures else 0)


if __name__ == "__main__":
    main()
