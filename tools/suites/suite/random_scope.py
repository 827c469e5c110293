# SPDX-License-Identifier: Apache-2.0
"""Builds random graphs node by node, each node run at once on sample values.

A Scope is a graph under construction: the main graph, a branch, a loop's or a function's body.
Every value carries the array that it has for the sample inputs, so that shapes and types are known
without an inference of our own, a node that cannot run is dropped, and numbers stay in a range
where 16-bit floats are accurate. A value is `exact` while rounding cannot make it jump.
"""

import dataclasses

import numpy as np
import onnx
import onnx.reference
from onnx import TensorProto, helper, numpy_helper

FLOAT = np.dtype(np.float32)
LARGEST = 30.0  # of a float that a node may produce

# Their results jump where an operand is rounded.
ALIKE = {"Max", "Mean", "Min", "Sum"}  # before opset 8 their operands have one shape
JUMPS = {"Floor", "Ceil", "Round", "Sign", "Equal", "Greater", "Less", "GreaterOrEqual",
         "LessOrEqual", "ArgMax", "ArgMin", "TopK", "NonZero", "Unique", "Hardmax", "Mod", "IsInf",
         "IsNaN", "QuantizeLinear", "DynamicQuantizeLinear", "ThresholdedRelu", "Shrink",
         "Compress",
         "NonMaxSuppression", "RoiAlign", "MaxRoiPool", "Bernoulli", "Multinomial", "QLinearMatMul",
         "QLinearConv", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike",
         "TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier"}


@dataclasses.dataclass
class Value:
    """A value of a graph with its sample: an array, or a list of arrays for a sequence."""

    name: str
    sample: object
    exact: bool = True
    constant: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sample.shape

    @property
    def floats(self) -> bool:
        return isinstance(self.sample, np.ndarray) and self.sample.dtype == FLOAT

    def proto(self, open_dims: str = "") -> onnx.ValueInfoProto:
        """Its declaration; the letters of open_dims: `n` first dimension named, `?` no shape."""
        if isinstance(self.sample, list):
            elem = helper.np_dtype_to_tensor_dtype(self.sample[0].dtype)
            kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(elem, None))
            return helper.make_value_info(self.name, kind)
        shape: list | None = list(self.shape)
        if "?" in open_dims:
            shape = None
        elif "n" in open_dims and shape:
            shape[0] = "batch"
        elem = helper.np_dtype_to_tensor_dtype(self.sample.dtype)
        return helper.make_tensor_value_info(self.name, elem, shape)


class Names:
    """Fresh names, some of them such as converters make themselves."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.used, self.count = rng, set(), 0

    def fresh(self, near: str = "") -> str:
        self.count += 1
        forms = [f"v{self.count}", f"/block.{self.count}/Conv_output_0", f"{self.count}",
                 f"x{self.count}:0", f"t {self.count}"]
        if near:
            forms += [f"{near}_to_float16", f"{near}_float16", f"{near}_to_float", f"{near}_cast",
                      f"{near}_to_bfloat16", f"{near}_f16"]
        name = forms[self.rng.integers(len(forms))]
        while name in self.used:
            name += "_1"
        self.used.add(name)
        return name


def run_node(node: onnx.NodeProto, operands: dict[str, object], opset: int) -> list[object]:
    """The outputs of one node in ONNX's reference evaluator; raises where it has none."""
    graph = helper.make_graph([node], "one", [Value(n, v).proto() for n, v in operands.items()],
                              [onnx.ValueInfoProto(name=n) for n in node.output if n])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with np.errstate(all="ignore"):
        return onnx.reference.ReferenceEvaluator(model).run(None, dict(operands))


class Scope:
    """One graph under construction; `outer` scopes' values can be captured."""

    def __init__(self, rng: np.random.Generator, names: Names, opset: int,
                 outer: "Scope | None" = None) -> None:
        self.rng, self.names, self.opset, self.outer = rng, names, opset, outer
        self.depth = outer.depth + 1 if outer else 0
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.functions: list[onnx.FunctionProto] = outer.functions if outer else []
        self.closed = False  # a function's body: no captures, no initializers

    # ---- values

    def visible(self) -> list[Value]:
        captured = self.outer.visible() if self.outer and not self.closed else []
        return [*self.values, *captured]

    def input(self, sample: object, exact: bool = True) -> Value:
        value = Value(self.names.fresh(), sample, exact)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def pick(self, rank: int | None = None) -> Value:
        """A float value (of this rank), recent ones likelier; made where there is none."""
        found = [v for v in self.visible() if v.floats and v.sample.size and not v.constant and
                 (rank is None or v.sample.ndim == rank)]
        own = [v for v in found if v in self.values][-6:]
        if own and self.rng.random() < 0.8:
            found = own
        if found:
            return found[self.rng.integers(len(found))]
        shape = self.rng.integers(1, 5, 2 if rank is None else rank)
        return self.const(self.rng.standard_normal(shape).astype(np.float32))

    def tensor(self, array: np.ndarray, name: str) -> onnx.TensorProto:
        if array.dtype == FLOAT and self.rng.random() < 0.3:  # float_data instead of raw_data
            return helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.ravel().tolist())
        return numpy_helper.from_array(array, name)

    def const(self, array: np.ndarray) -> Value:
        """A constant in one of its forms; an equal one is shared now and then."""
        array = np.asarray(array)
        if self.rng.random() < 0.5:
            for value in self.visible():
                if (value.constant and value.sample.dtype == array.dtype and
                        np.array_equal(value.sample, array)):
                    return value
        home = self
        while home.outer and not home.closed and self.rng.random() < 0.3:
            home = home.outer
        value = Value(self.names.fresh(), array, True, True)
        if not home.closed and (home is not self or self.rng.random() < 0.6):
            home.initializers.append(self.tensor(array, value.name))
        else:
            node = helper.make_node("Constant", [], [value.name])
            node.attribute.append(self.constant_attribute(array, value.name))
            home.nodes.append(node)
        home.values.append(value)
        return value

    def constant_attribute(self, array: np.ndarray, name: str) -> onnx.AttributeProto:
        short = self.opset >= 12 and self.rng.random() < 0.6
        kinds = {FLOAT: "value_float", np.dtype(np.int64): "value_int"}
        if short and array.dtype in kinds and array.ndim == 0:
            return helper.make_attribute(kinds[array.dtype], array.item())
        if short and array.dtype in kinds and array.ndim == 1 and array.size:
            return helper.make_attribute(kinds[array.dtype] + "s", array.tolist())
        if self.opset >= 11 and array.dtype == FLOAT and array.ndim == 1 and np.all(array) and \
                array.size and self.rng.random() < 0.2:
            places = np.arange(array.size, dtype=np.int64)
            sparse = helper.make_sparse_tensor(numpy_helper.from_array(array, name),
                                               numpy_helper.from_array(places), array.shape)
            return helper.make_attribute("sparse_value", sparse)
        return helper.make_attribute("value", self.tensor(array, ""))

    def ints(self, *values: int) -> Value:
        return self.const(np.array(values, np.int64))

    def scalar(self, value: float) -> Value:
        return self.const(np.array(value, np.float32))

    def weight(self, *shape: int) -> Value:
        count = max(1, int(np.prod(shape[:-1])))
        return self.const((self.rng.standard_normal(shape) / np.sqrt(count)).astype(np.float32))

    # ---- nodes

    def record(self, node: onnx.NodeProto, samples: list[object], exact: bool) -> list[Value]:
        """Adds a node whose results are known."""
        kept = [n for n in node.output if n]
        found = [Value(n, s, exact) for n, s in zip(kept, samples)]
        if self.rng.random() < 0.5:
            node.name = self.names.fresh()
        self.nodes.append(node)
        self.values += found
        return found

    def outputs(self, near: str, count: int) -> list[str]:
        return [self.names.fresh(near) for _ in range(count)]

    def add(self, op: str, operands: list[Value | None], count: int = 1,
            **attributes: object) -> list[Value]:
        """Adds a node; none where it does not run or its numbers leave the range."""
        near = next((v.name for v in operands if v), "")
        node = helper.make_node(op, [v.name if v else "" for v in operands],
                                self.outputs(near, count), **attributes)
        given = {v.name: v.sample for v in operands if v}
        if op in ALIKE and self.opset < 8 and len({v.shape for v in operands}) > 1:
            return []  # the reference evaluator broadcasts at any version
        try:
            samples = run_node(node, given, self.opset)
        except Exception:
            return []
        if not all(self.fits(s) for s in samples):
            return []
        exact = all(v.exact for v in operands if v)
        jumps = op in JUMPS or (op == "Cast" and samples[0].dtype.kind in "iub")
        fed = any(v and v.floats and not v.constant for v in operands)
        return self.record(node, samples, exact and not (jumps and fed))

    def fits(self, sample: object) -> bool:
        if isinstance(sample, list):
            return bool(sample) and all(self.fits(s) for s in sample)
        if not isinstance(sample, np.ndarray) or sample.size > 4096:
            return False
        if sample.dtype.kind != "f" or not sample.size:
            return True
        top = float(np.max(np.abs(sample)))
        return np.isfinite(top) and top <= LARGEST and (top == 0 or top > 1e-2)

    def graph(self, name: str, outputs: list[Value], open_dims: str = "") -> onnx.GraphProto:
        return helper.make_graph(self.nodes, name, [v.proto(open_dims) for v in self.inputs],
                                 [v.proto(open_dims) for v in outputs], self.initializers)
