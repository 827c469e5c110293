# SPDX-License-Identifier: Apache-2.0
"""Backend test models in random surroundings: every operator with neighbors that go low.

A seed picks a backend model and changes it at random: another opset; its float inputs behind a
product with the identity (which runs low and changes nothing), stored as constants of every form,
or cast from other types; its outputs in front of such a product, or cast, or read twice; the whole
of it in a branch, a loop or a function. `build(seed, folder)` gives a Sample or None.
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite import engines
from suite.random_graphs import Sample

LARGEST_MODEL = 100_000  # bytes
WIDEST = 128  # of an identity
_models: dict[pathlib.Path, list[pathlib.Path]] = {}


def models_of(folder: pathlib.Path) -> list[pathlib.Path]:
    if folder not in _models:
        found = sorted(folder.glob("*/*/model.onnx"))
        _models[folder] = [p for p in found if p.stat().st_size < LARGEST_MODEL]
    return _models[folder]


class Surround:
    """One backend model being surrounded."""

    def __init__(self, rng: np.random.Generator, model: onnx.ModelProto,
                 feeds: dict[str, object]) -> None:
        self.rng, self.model, self.given = rng, model, feeds
        self.before: list[onnx.NodeProto] = []
        self.after: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.feeds: dict[str, object] = {}

    def info(self, name: str, elem: int, shape: list[int] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, elem, shape)

    def input(self, value: onnx.ValueInfoProto) -> None:
        """Decides where one input's value comes from."""
        sample, name = self.given[value.name], value.name
        is_array = isinstance(sample, np.ndarray)
        floats = is_array and sample.dtype == np.float32
        way = self.rng.integers(7)
        if is_array and sample.dtype.kind in "fiub" and way in (1, 2) and sample.size < 5000:
            tensor = numpy_helper.from_array(sample, name)
            if way == 1:
                self.initializers.append(tensor)
            else:
                self.before.append(helper.make_node("Constant", [], [name], value=tensor))
        elif floats and way in (3, 4) and sample.ndim and sample.shape[-1] <= WIDEST:
            self.product(name + "_in", name, sample.shape[-1], self.before)
            self.inputs.append(self.info(name + "_in", TensorProto.FLOAT, list(sample.shape)))
            self.feeds[name + "_in"] = sample
        elif floats and way == 5:
            kind = [np.float16, np.float64][self.rng.integers(2)]
            narrow = sample.astype(kind)
            self.before.append(helper.make_node("Cast", [name + "_in"], [name],
                                                to=TensorProto.FLOAT))
            elem = helper.np_dtype_to_tensor_dtype(narrow.dtype)
            self.inputs.append(self.info(name + "_in", elem, list(sample.shape)))
            self.feeds[name + "_in"] = narrow
        else:
            self.inputs.append(value)
            self.feeds[name] = sample

    def product(self, source: str, result: str, size: int, nodes: list) -> None:
        """result = source · identity."""
        eye = numpy_helper.from_array(np.eye(size, dtype=np.float32), result + "_eye")
        self.initializers.append(eye)
        nodes.append(helper.make_node("MatMul", [source, result + "_eye"], [result]))

    def output(self, value: onnx.ValueInfoProto) -> None:
        kind, way = value.type, self.rng.integers(5)
        tensor = kind.tensor_type
        floats = kind.HasField("tensor_type") and tensor.elem_type == TensorProto.FLOAT
        sizes = [d.dim_value for d in tensor.shape.dim] if floats else []
        self.outputs.append(value)
        if floats and sizes and 0 < sizes[-1] <= WIDEST and way < 2:
            self.product(value.name, value.name + "_out", sizes[-1], self.after)
            self.outputs.append(self.info(value.name + "_out", TensorProto.FLOAT, sizes))
            if way == 0:
                self.outputs.remove(value)
        elif floats and way == 2:
            self.after.append(helper.make_node("Cast", [value.name], [value.name + "_out"],
                                               to=TensorProto.DOUBLE))
            self.outputs.append(self.info(value.name + "_out", TensorProto.DOUBLE, sizes or None))

    def core(self) -> tuple[list[onnx.NodeProto], list[onnx.FunctionProto]]:
        """The model's nodes, perhaps as a branch, a loop's body or a function."""
        graph, way = self.model.graph, self.rng.integers(8)
        if way < 3:
            self.initializers += graph.initializer
            return list(graph.node), []
        if way == 3 and not graph.sparse_initializer:
            return self.function()
        if way >= 6:
            return self.looped()
        return self.branch()

    def branch(self) -> tuple[list[onnx.NodeProto], list[onnx.FunctionProto]]:
        graph = self.model.graph
        flag = numpy_helper.from_array(np.array(bool(self.rng.integers(2))), "the_flag")
        self.initializers.append(flag)
        attributes = {key: self.renamed(graph, key) for key in ("then_branch", "else_branch")}
        node = helper.make_node("If", ["the_flag"], [o.name for o in graph.output], **attributes)
        return [node], []

    def renamed(self, graph: onnx.GraphProto, key: str) -> onnx.GraphProto:
        """The graph without inputs, its outputs' names made its own."""
        body = onnx.GraphProto(name=key)
        body.initializer.extend(graph.initializer)
        body.node.extend(graph.node)
        made = {o for n in graph.node for o in n.output} | {t.name for t in graph.initializer}
        for value in graph.output:
            out = body.output.add()
            out.CopyFrom(value)
            out.name = f"{value.name}_{key}"
            body.node.append(helper.make_node("Identity", [value.name], [out.name]))
        for node in body.node:  # what the branch makes must not hide the outer results
            node.output[:] = [f"{o}_in_{key}" if o in made and o else o for o in node.output]
            node.input[:] = [f"{i}_in_{key}" if i in made and i else i for i in node.input]
        for tensor in body.initializer:
            tensor.name = f"{tensor.name}_in_{key}"
        return body

    def looped(self) -> tuple[list[onnx.NodeProto], list[onnx.FunctionProto]]:
        graph = self.model.graph
        body = self.renamed(graph, "body")
        body.input.extend([helper.make_tensor_value_info("step", TensorProto.INT64, []),
                           helper.make_tensor_value_info("go", TensorProto.BOOL, [])])
        body.node.append(helper.make_node("Identity", ["go"], ["went"]))
        body.output.insert(0, helper.make_tensor_value_info("went", TensorProto.BOOL, []))
        self.initializers.append(numpy_helper.from_array(np.array(2), "trips"))
        node = helper.make_node("Loop", ["trips", ""], [o.name + "_all" for o in graph.output],
                                body=body)
        nodes = [node]
        self.initializers.append(numpy_helper.from_array(np.array(1), "second"))
        for value in graph.output:  # one trip's outputs
            nodes.append(helper.make_node("Gather", [value.name + "_all", "second"], [value.name],
                                          axis=0))
        return nodes, []

    def function(self) -> tuple[list[onnx.NodeProto], list[onnx.FunctionProto]]:
        graph = self.model.graph
        stored = {t.name for t in graph.initializer}
        formals = [v.name for v in graph.input if v.name not in stored]
        constants = [helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer]
        proto = helper.make_function("local", "Whole", formals, [o.name for o in graph.output],
                                     [*constants, *graph.node],
                                     [o for o in self.model.opset_import if o.domain != "local"])
        calls = []
        for suffix in ["", "_again"][:1 + self.rng.integers(2)]:
            calls.append(helper.make_node("Whole", formals, [o.name + suffix for o in graph.output],
                                          domain="local"))
        return calls, [proto]

    def build(self) -> Sample:
        for value in engines.fed_inputs(self.model):
            self.input(value)
        for value in self.model.graph.output:
            self.output(value)
        nodes, functions = self.core()
        graph = helper.make_graph([*self.before, *nodes, *self.after], "surrounded", self.inputs,
                                  self.outputs, self.initializers)
        graph.sparse_initializer.extend(self.model.graph.sparse_initializer)
        opsets = list(self.model.opset_import)
        if functions:
            opsets.append(helper.make_opsetid("local", 1))
        if not any(o.domain in ("", "ai.onnx") for o in opsets):
            opsets.append(helper.make_opsetid("", 21))
        model = helper.make_model(graph, opset_imports=opsets,
                                  functions=[*self.model.functions, *functions],
                                  ir_version=max(10, self.model.ir_version))
        return Sample(model, self.feeds, set())


def other_opset(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """Another version of the default domain, where the nodes' form suits it."""
    for opset in model.opset_import:
        if opset.domain:
            continue
        before = opset.version
        opset.version = int(rng.integers(7, 29))
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception:
            opset.version = before


def build(seed: int, folder: pathlib.Path) -> Sample | None:
    rng, paths = np.random.default_rng(seed), models_of(folder)
    path = paths[rng.integers(len(paths))]
    model = onnx.load(path)
    try:
        feeds = engines.load_feeds(model, path.parent)[0]
    except Exception:
        return None
    if not all(isinstance(v, np.ndarray) for v in feeds.values()):
        return None
    if rng.random() < 0.5:
        other_opset(rng, model)
    sample = Surround(rng, model, feeds).build()
    sample.model.doc_string = path.parent.name
    return sample
