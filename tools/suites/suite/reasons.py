# SPDX-License-Identifier: Apache-2.0
"""Is the reason that a report gives for each fp32 node there, and is it true?

Judged against the source model, ONNX's own schemas, rewrite/base/operators and the report's other nodes; the
cost that a "cheaper" reason claims is checked by placement_mincut_test.
"""

import collections
import pathlib
import re

import numpy as np
import onnx
from onnx import defs, numpy_helper

from suite import lowclass, operator_rows, walk

ROOT = pathlib.Path(__file__).resolve().parents[3]
TARGET = {"float16": "tensor(float16)", "bfloat16": "tensor(bfloat16)"}
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}
FP32_KINDS = {"policy", "excluded", "illegal", "value", "precise", "unknown", "fixed", "follows",
              "reads", "tied", "cheaper", "moved", "constant"}
# What a node of the LOW class may say: nothing it reads decides about it.
# Of placement_streams.c, which the greedy placement does without.
STREAMS = {
    "adds to a residual stream, which bfloat16 would round each time",
    "computes a residual stream, which bfloat16 would round each time",
    "only outputs depend on it: bfloat16 would round them once more",
}
LOW_KINDS = {"policy", "excluded", "illegal", "value", "precise", "unknown", "fixed", "tied"}
# Operators with a decision for each of several groups of operands: one may be fp32, others not.
SEVERAL = {"If", "Loop", "Scan", "SequenceMap", "BatchNormalization", "LayerNormalization",
           "Resize",
           "GridSample", "OneHot", "Pow", "Dropout", "LinearAttention", "Cast", "CastLike",
           "FlexAttention", "Attention"}
CONDITIONS = {
    "divides a constant": {"Div"}, "its reduction accumulates": {"ScatterElements", "ScatterND"},
    "converts to or from another kind of type": {"Cast", "CastLike"},
    "computes a square, which may exceed float16's range": {"Mul"},
    "ONNX Runtime 1.31 fails on it in float16": {"Transpose"},
    "quantized": {"DequantizeLinear", "QuantizeLinear"}, "Pow runs in 16-bit only to square": {"Pow"},
    "its masked scores are an output": {"Attention"}, "it reinterprets bits": {"BitCast"}}


def fp32_ops(policy: str) -> set[tuple[str, str]]:
    """(domain, operator) of those that a policy has in class FP32."""
    column = ("float16", "bfloat16", "fast").index(policy)
    found = set()
    for operator, kinds in operator_rows.rows().items():
        classes = re.match(r"CLASS(?:ES)?\(([^)]*)\)", kinds["IS"][0])[1].split(", ")
        if (classes * 3)[column] == "FP32":
            found.add(operator)
    return found


FP32_OPS = {to: fp32_ops(to) for to in TARGET}


class Graphs:
    """The nodes, constants and scopes of a source model, by what a report calls them."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.labels: dict[str, list[onnx.NodeProto]] = collections.defaultdict(list)
        self.producers: dict[str, list[onnx.NodeProto]] = collections.defaultdict(list)
        self.tensors: dict[str, list[onnx.TensorProto]] = collections.defaultdict(list)
        self.formals: set[str] = set()
        self._graph(model.graph)
        for function in model.functions:
            self.formals |= {*function.input}
            self._nodes(function.node)
        self.functions = {(f.domain, f.name) for f in model.functions}
        self.holding = self._float_nodes()
        self.imports = {i.domain: i.version for i in model.opset_import}
        self.imports.setdefault("", self.imports.get("ai.onnx", 0))

    def _graph(self, graph: onnx.GraphProto) -> None:
        self.formals |= {v.name for v in graph.input}
        for tensor in graph.initializer:
            self.tensors[tensor.name].append(tensor)
        self._nodes(graph.node)

    def _nodes(self, nodes: list[onnx.NodeProto]) -> None:
        for node in nodes:
            first = next((o for o in node.output if o), "")
            self.labels[node.name or first].append(node)
            for output in node.output:
                self.producers[output].append(node)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self._graph(attribute.g)
                if attribute.name == "value" and attribute.type == onnx.AttributeProto.TENSOR:
                    self.tensors[first if node.op_type == "Constant" else "value"].append(
                        attribute.t)
                if attribute.name == "value_float":
                    self.tensors[first].append(numpy_helper.from_array(np.float32(attribute.f)))
                if attribute.name == "value_floats":
                    self.tensors[first].append(
                        numpy_helper.from_array(np.array(attribute.floats, np.float32)))


    def _float_nodes(self) -> set[str]:
        """Labels of nodes of the main graph with a float32 operand, as ONNX infers the types."""
        try:
            graph = onnx.shape_inference.infer_shapes(self.model).graph
        except onnx.shape_inference.InferenceError:
            return set()
        floats = {v.name for v in [*graph.input, *graph.output, *graph.value_info]
                  if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT}
        floats |= {t.name for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
        return {n.name or next((o for o in n.output if o), "") for n in graph.node
                if floats & {*n.input, *n.output}}


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _operands(schema: defs.OpSchema) -> list[tuple[str, int, set[str]]]:
    """(input or output, place, types) of the formal operands that may be floats."""
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    return [(kind, i, allowed.get(p.type_str, {p.type_str}))
            for kind, params in (("input", schema.inputs), ("output", schema.outputs))
            for i, p in enumerate(params)
            if any("(float)" in t for t in allowed.get(p.type_str, {p.type_str}))]


def first_legal(op: str, domain: str, opset: int, to: str) -> set[int]:
    """For each float operand that `to` is illegal for: the first newer opset that allows it, 0:
    none."""
    history = sorted((s for s in defs.get_all_schemas_with_history()
                      if s.name == op and s.domain == domain), key=lambda s: s.since_version)
    now = next(s for s in reversed(history) if s.since_version <= opset)
    found = set()
    for kind, place, types in _operands(now):
        wanted = {t.replace("(float)", f"({to})") for t in types if "(float)" in t}
        if not wanted - types:
            continue
        later = [s.since_version for s in history
                 if s.since_version > opset and not s.deprecated and any(
                     k == kind and i == place and wanted & (t - types)
                     for k, i, t in _operands(s))]
        found.add(min(later, default=0))
    return found


class Truth:
    """Judges the reasons of one report; `opset` is that of the result, where it may be raised."""

    def __init__(self, report: dict, graphs: Graphs, to: str, mincut: bool, opset: int = 0) -> None:
        self.graphs, self.to, self.mincut = graphs, to, mincut
        self.imports = graphs.imports | ({"": opset} if opset else {})
        self.nodes = report["nodes"]
        self.by_label: dict[str, list[dict]] = collections.defaultdict(list)
        for node in self.nodes:
            self.by_label[node["name"]].append(node)

    def problems(self) -> list[str]:
        found = []
        for node in self.nodes:
            text = self.problem(node)
            if text:
                found.append(f"node {node['name']} ({node['op_type']}), "
                             f"{node['kind'] or 'no kind'}, "
                             f"'{node['reason']}': {text}")
        return found

    def problem(self, node: dict) -> str:
        kind, reason = node["kind"], node["reason"]
        if not kind or not reason:
            return "no reason"
        if kind == "low":
            return "" if node["dtype"] == self.to else "it is not low"
        if kind == "no float":
            holds = node["name"] in self.graphs.holding and not node.get("graph")
            unique = len(self.by_label[node["name"]]) == 1
            return "it holds float32" if holds and unique else ""
        if kind not in FP32_KINDS:
            return "an unknown kind"
        low_op = (node["op_type"] in lowclass.LOW_OPS[self.to] and
                  node.get("domain", "") in lowclass.DOMAINS and
                  (node.get("domain", ""), node["op_type"]) not in self.graphs.functions)
        if low_op and kind not in LOW_KINDS:
            return "a LOW operator has no such reason"
        check = getattr(self, "_" + kind, None)
        return check(node, reason) if check else ""

    # ---- kinds

    def _policy(self, node: dict, reason: str) -> str:
        op, domain = node["op_type"], node.get("domain", "")
        if reason == f"{op} is an fp32 operator":
            return "" if (domain, op) in FP32_OPS[self.to] else "the policy has it elsewhere"
        if reason == "quantized: it reads DequantizeLinear":
            mine = self.graphs.labels[node["name"]]
            reads = [p.op_type for n in mine for i in n.input for p in self.graphs.producers[i]]
            return "" if "DequantizeLinear" in reads else "it reads none"
        if re.fullmatch(rf"{op} keeps its operand \w+ in float32", reason):
            return ""
        if reason not in CONDITIONS or op not in CONDITIONS[reason]:
            return "not a reason of this operator"
        return ""

    def _illegal(self, node: dict, reason: str) -> str:
        op, domain = node["op_type"], _domain(node.get("domain", ""))
        opset = self.imports.get(domain, 0)
        match = re.fullmatch(rf"{self.to} is illegal for {op} at opset (\d+); "
                             rf"legal from opset (\d+)", reason)
        if self.graphs.model.functions and match:
            opset = int(match[1])  # functions have imports of their own
        if match:
            wanted = int(match[2])
            if int(match[1]) != opset:
                return f"the opset is {opset}"
        elif re.fullmatch(rf"{self.to} is illegal for {op} at every opset", reason):
            wanted = 0
        elif reason.startswith(f"{op} as a 16-bit operator is refused"):
            return "" if op == "MeanVarianceNormalization" else "nobody refuses it"
        elif re.fullmatch(rf"{op} is deprecated at opset \d+", reason):
            return "" if defs.get_schema(op, opset, domain).deprecated else "it is not"
        elif reason == "bfloat16 is illegal for Cast here; legal from opset 13":
            return "" if self.imports[""] < 13 else "it is legal"
        else:
            return "not a reason"
        first = first_legal(op, domain, opset, self.to)
        return "" if wanted in first else f"ONNX's schemas say {sorted(first)}"

    def _precise(self, node: dict, reason: str) -> str:
        match = re.fullmatch(r"feeds only (\w+), and 16 bits are too few for [\w ]+", reason)
        if match:
            asks = {n.op_type for n in walk.model_nodes(self.graphs.model)}
            return "" if match[1] in asks else "the model has no such operator"
        known = ("computes coordinates, and 16 bits are too few for them", "sums over iterations")
        if reason in STREAMS:
            return "" if self.to == "bfloat16" and self.mincut else "of float16, or of greedy placement"
        return "" if reason in known else "not a reason"

    def _value(self, _node: dict, reason: str) -> str:
        match = re.fullmatch(r"constant '(.*)' (holds|is) (\S+), (beyond|zero in) \w+?('s range)?",
                             reason)
        if not match:
            reached = re.fullmatch(r"'.*' reached \S+, near the limit of \w+'s range|"
                                   r"its weights make '.*' about \S+, beyond float16's range", reason)
            return "" if reached else "not a reason"
        for tensor in self.graphs.tensors[match[1]]:
            values = np.abs(numpy_helper.to_array(tensor).astype(np.float64).ravel())
            finite = values[np.isfinite(values)]
            if match[2] == "holds" and finite.size and finite.max() > LARGEST[self.to]:
                same = np.isclose(finite.max(), float(match[3]), rtol=1e-4)
                return "" if same else "another value"
            if match[2] == "is" and values.size == 1 and 0 < values[0] < 1e-7:
                return ""
        return "no such constant holds such a value"

    def _unknown(self, node: dict, reason: str) -> str:
        op, domain = node["op_type"], _domain(node.get("domain", ""))
        if not reason.startswith("type unknown: "):
            return "does not say so"
        if reason == f"type unknown: demi does not know {domain}.{op}":
            return "ONNX knows it" if defs.has(op, domain) else ""
        return ""

    def _source(self, name: str) -> str:
        """Why a value that is said to be fp32 is not."""
        made = self.graphs.producers[name]
        if name in self.graphs.formals or not made:
            return ""
        for node in made:
            if node.op_type in SEVERAL or (node.domain, node.op_type) in self.graphs.functions:
                return ""
            label = node.name or next((o for o in node.output if o), "")
            if any(n["dtype"] not in ("float16", "bfloat16") for n in self.by_label[label]):
                return ""
        return f"what makes '{name}' is low"

    def _follows(self, _node: dict, reason: str) -> str:
        match = re.fullmatch(r"follows '(.*)', which is in float32", reason)
        return self._source(match[1]) if match else "not a reason"

    def _reads(self, _node: dict, reason: str) -> str:
        match = re.fullmatch(r"reads '(.*)', which is in float32", reason)
        return self._source(match[1]) if match else "not a reason"

    def _tied(self, _node: dict, reason: str) -> str:
        if re.match(r"tied: '.*' keeps its type$|tied: \w+ is illegal|tied: kept by|"
                    r"tied: constant '|tied to a value whose type is fixed$", reason):
            return ""
        match = re.match(r"tied to '(.*?)': (.+)", reason)
        if not match:
            return "not a reason"
        others = self.by_label[match[1]]
        if not others:
            return "there is no such node"
        several = any(n["op_type"] in SEVERAL or
                      (n.get("domain", ""), n["op_type"]) in self.graphs.functions for n in others)
        return "" if several or any(n["dtype"] == "float" for n in others) or any(
            n["kind"] != "low" for n in others) else "that is low"

    def _cheaper(self, _node: dict, reason: str) -> str:
        if not self.mincut:
            return "greedy placement does not look at costs"
        return "" if re.fullmatch(r"cheaper in float32: in 16-bit it would cost [1-9]\d* bytes more|"
                                  r"kept in float32: converting it would not help any 16-bit operator",
                                  reason) else "not a reason"
