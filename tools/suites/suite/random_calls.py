# SPDX-License-Identifier: Apache-2.0
"""Random models that are all interface: functions called more than once, calls within calls, outputs that
are a call's, a branch's or a loop's, that are one value under several names, an input or a constant; the
same names within branches beside each other and within functions; sequences and optional values that go
through all of these.

The nodes between are few and exact, so that every number can be told from every other one: what is judged
is which value goes where. `build(seed)` gives a Sample.
"""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite.random_graphs import Sample

SEED = 2_000_000  # apart from the other kinds' models
OPSET, IR = 18, 8
SIZE = 2  # every tensor is FLOAT [2]
DEPTH = 3
TENSOR, SEQUENCE, OPTIONAL = "tensor", "sequence", "optional"
KINDS = [TENSOR] * 6 + [SEQUENCE, OPTIONAL]
FORMAL = [TENSOR] * 6 + [SEQUENCE]  # ONNX Runtime loads no function that is given an optional value
LOCAL = "calls"


def type_of(kind: str) -> onnx.TypeProto:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [SIZE])
    if kind == SEQUENCE:
        return helper.make_sequence_type_proto(tensor)
    return helper.make_optional_type_proto(tensor) if kind == OPTIONAL else tensor


def declared(name: str, kind: str) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, type_of(kind))


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function: its name, the kinds of what goes in and comes out, and whether calls give it a level."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    level: bool


class Body:
    """A graph or a function's body under construction. `values` are (name, kind) that its nodes may read,
    `taken` names that it may not give again: its own and those of the graphs around; `below` those of graphs
    within it, which may share theirs but not with it."""

    def __init__(self, maker: "Maker", outer: "Body | None", inputs: list[tuple[str, str]]) -> None:
        self.maker, self.rng, self.outer = maker, maker.rng, outer
        self.depth = outer.depth + 1 if outer else 0
        self.captured = [*outer.values, *outer.captured] if outer else []
        self.taken = set(outer.taken) if outer else set()
        self.taken |= {name for name, _ in inputs}
        self.below: set[str] = set()
        self.inputs, self.values = inputs, list(inputs)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.is_function = False

    def fresh(self) -> str:
        """Of few names, so that bodies beside each other have the same ones."""
        names = [n for n in ("y", "out", "a", "b", "y1", "y2", "c", "state", "then", "x1")
                 if n not in self.taken | self.below]
        name = names[self.rng.integers(len(names))] if names else f"v{self.maker.count()}"
        self.taken.add(name)
        return name

    def pick(self, kind: str) -> str:
        """A value of this kind, its own ones likelier; made where there is none."""
        own = [n for n, k in self.values if k == kind]
        others = [n for n, k in self.captured if k == kind]
        found = own if own and (not others or self.rng.random() < 0.7) else others
        if found:
            return found[self.rng.integers(len(found))]
        return self.wrap(kind)

    def add(self, op: str, inputs: list[str], kinds: list[str], domain: str = "",
            **attributes: object) -> list[str]:
        made = [self.fresh() for _ in kinds]
        self.nodes.append(helper.make_node(op, inputs, made, domain=domain, **attributes))
        self.values += zip(made, kinds)
        return made

    def constant(self) -> str:
        array = self.rng.integers(-40, 40, SIZE).astype(np.float32) / 4
        if not self.is_function and self.rng.random() < 0.5:
            name = self.fresh()
            self.initializers.append(onnx.numpy_helper.from_array(array, name))
            self.values.append((name, TENSOR))
            return name
        return self.add("Constant", [], [TENSOR], value=onnx.numpy_helper.from_array(array))[0]

    def wrap(self, kind: str) -> str:
        """A value of this kind, made here of tensors."""
        if kind == SEQUENCE:
            parts = [self.pick(TENSOR) for _ in range(int(self.rng.integers(1, 4)))]
            return self.add("SequenceConstruct", parts, [kind])[0]
        if kind == OPTIONAL:
            if self.rng.random() < 0.3:
                return self.add("Optional", [], [kind], type=type_of(TENSOR))[0]
            return self.add("Optional", [self.pick(TENSOR)], [kind])[0]
        return self.constant()

    # ---- steps

    def arithmetic(self) -> None:
        op = ["Add", "Sub", "Max", "Min", "Neg", "Identity"][self.rng.integers(6)]
        count = 1 if op in ("Neg", "Identity") else 2
        self.add(op, [self.pick(TENSOR) for _ in range(count)], [TENSOR])

    def raised(self) -> None:
        """By what a call of this function says."""
        level = self.add("Constant", [], ["scalar"])[0]
        self.nodes[-1].attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="level",
                                                            type=onnx.AttributeProto.FLOAT))
        self.add("Add", [self.pick(TENSOR), level], [TENSOR])

    def again(self) -> None:
        kind = KINDS[self.rng.integers(len(KINDS))]
        self.add("Identity", [self.pick(kind)], [kind])

    def of_sequence(self) -> None:
        sequence = self.pick(SEQUENCE)
        if self.rng.random() < 0.4:
            self.add("SequenceInsert", [sequence, self.pick(TENSOR)], [SEQUENCE])
            return
        place = self.add("Constant", [], ["int"], value_int=int(self.rng.choice([0, -1])))
        self.add("SequenceAt", [sequence, place[0]], [TENSOR])

    def of_optional(self) -> None:
        """What it holds, or where it holds nothing another value."""
        optional = self.pick(OPTIONAL)
        flag = self.add("OptionalHasElement", [optional], ["flag"])[0]
        graphs = {}
        for key in ("then_branch", "else_branch"):
            body = Body(self.maker, self, [])
            made = body.add("OptionalGetElement", [optional], [TENSOR]) if key == "then_branch" else \
                body.add("Identity", [body.pick(TENSOR)], [TENSOR])
            graphs[key] = body.graph(key, [(made[0], TENSOR)])
        self.add("If", [flag], [TENSOR], **graphs)

    def branches(self) -> None:
        kinds = [KINDS[self.rng.integers(len(KINDS))] for _ in range(int(self.rng.integers(1, 4)))]
        flag = self.add("Constant", [], ["flag"],
                        value=helper.make_tensor("", TensorProto.BOOL, [], [bool(self.rng.integers(2))]))[0]
        if self.rng.random() < 0.6:  # nobody can know beforehand
            total = self.add("ReduceSum", [self.pick(TENSOR)], ["scalar"], keepdims=0)[0]
            zero = self.add("Constant", [], ["scalar"], value_float=0.0)[0]
            flag = self.add("Greater", [total, zero], ["flag"])[0]
        graphs = {}
        for key in ("then_branch", "else_branch"):
            body = Body(self.maker, self, [])
            body.fill(int(self.rng.integers(0, 4)))
            graphs[key] = body.graph(key, body.results(kinds))
        self.add("If", [flag], kinds, **graphs)

    def loop(self) -> None:
        """States of any kind but optional, and what each trip gives."""
        kinds = [TENSOR if self.rng.random() < 0.8 else SEQUENCE for _ in range(int(self.rng.integers(1, 3)))]
        scans = int(self.rng.integers(0, 2))
        body = Body(self.maker, self, [])
        formal = [(body.fresh(), "int"), (body.fresh(), "flag"), *((body.fresh(), k) for k in kinds)]
        body.inputs, body.values = formal, list(formal)
        body.fill(int(self.rng.integers(0, 4)))
        keep = body.add("Identity", [formal[1][0]], ["flag"])[0]
        ends = body.results(kinds + [TENSOR] * scans)
        graph = body.graph("body", [(keep, "flag"), *ends])
        trips = self.add("Constant", [], ["int"], value_int=int(self.rng.integers(0, 4)))[0]
        made = self.add("Loop", [trips, "", *(self.pick(k) for k in kinds)], kinds + ["rows"] * scans, body=graph)
        for rows in made[len(kinds):]:
            self.add("ReduceSum", [rows, self.axes()], [TENSOR], keepdims=0)

    def scan(self) -> None:
        """A state and rows, over a value of three."""
        rows = self.add("Concat", [self.pick(TENSOR) for _ in range(3)], ["flat"], axis=0)
        shape = self.add("Constant", [], ["ints"], value_ints=[3, SIZE])
        rows = self.add("Reshape", [rows[0], shape[0]], ["rows"])
        body = Body(self.maker, self, [])
        formal = [(body.fresh(), TENSOR), (body.fresh(), TENSOR)]
        body.inputs, body.values = formal, list(formal)
        body.fill(int(self.rng.integers(0, 3)))
        graph = body.graph("body", body.results([TENSOR, TENSOR]))
        made = self.add("Scan", [self.pick(TENSOR), rows[0]], [TENSOR, "rows"], num_scan_inputs=1, body=graph)
        self.add("ReduceSum", [made[1], self.axes()], [TENSOR], keepdims=0)

    def axes(self) -> str:
        return self.add("Constant", [], ["ints"], value_ints=[0])[0]

    def call(self) -> None:
        """Of a function that there is, or a new one; twice or three times in a row, now and then."""
        if not self.maker.known or self.rng.random() < 0.4:
            self.maker.function(self.depth)
        if not self.maker.known:
            return
        which = self.maker.known[self.rng.integers(len(self.maker.known))]
        for _ in range(int(self.rng.choice([1, 1, 2, 3]))):
            level = {"level": float(self.rng.integers(-9, 9))} if which.level else {}
            self.add(which.name, [self.pick(k) for k in which.inputs], list(which.outputs), LOCAL, **level)

    def fill(self, steps: int) -> None:
        plain = [self.arithmetic, self.arithmetic, self.again, self.of_sequence, self.of_optional, self.call]
        nested = [self.branches, self.branches, self.loop, self.scan]
        for _ in range(steps):
            may_nest = self.depth < DEPTH and self.rng.random() < 0.3
            steps_of = nested if may_nest else plain
            steps_of[self.rng.integers(len(steps_of))]()

    # ---- results

    def results(self, kinds: list[str]) -> list[tuple[str, str]]:
        """Values of these kinds that a body gives: made in it, and each once."""
        found: list[tuple[str, str]] = []
        formal = {name for name, _ in self.inputs} | {t.name for t in self.initializers}
        for kind in kinds:
            own = [v for v in self.values if v[1] == kind and v not in found and v[0] not in formal]
            if own and self.rng.random() < 0.7:
                found.append(own[self.rng.integers(len(own))])
            else:
                found.append((self.add("Identity", [self.pick(kind)], [kind])[0], kind))
        return found

    def graph(self, name: str, results: list[tuple[str, str]]) -> onnx.GraphProto:
        if self.outer:
            self.outer.below |= self.taken - self.outer.taken | self.below
        return helper.make_graph(self.nodes, name, [self.formal(*v) for v in self.inputs],
                                 [self.formal(*v) for v in results], self.initializers)

    def formal(self, name: str, kind: str) -> onnx.ValueInfoProto:
        plain = {"int": TensorProto.INT64, "flag": TensorProto.BOOL}
        return helper.make_tensor_value_info(name, plain[kind], []) if kind in plain else declared(name, kind)


class Maker:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.known: list[Signature] = []
        self.functions: list[onnx.FunctionProto] = []
        self.numbers = 0

    def count(self) -> int:
        self.numbers += 1
        return self.numbers

    def function(self, depth: int) -> None:
        """One more, which may call those before."""
        if len(self.known) >= 4 or depth >= DEPTH:
            return
        inputs, outputs = (tuple(str(self.rng.choice(FORMAL)) for _ in range(int(self.rng.integers(1, 4))))
                           for _ in range(2))
        body = Body(self, None, [])
        body.is_function, body.depth = True, depth + 1
        body.inputs = [(body.fresh(), kind) for kind in inputs]
        body.values = list(body.inputs)
        level = bool(self.rng.random() < 0.5)
        if level:
            body.raised()
        body.fill(int(self.rng.integers(0, 4)))
        ends = body.results(list(outputs))
        signature = Signature(f"F{len(self.known)}", inputs, outputs, level)
        self.known.append(signature)
        self.functions.append(helper.make_function(
            LOCAL, signature.name, [n for n, _ in body.inputs], [n for n, _ in ends], body.nodes,
            [helper.make_opsetid("", OPSET), helper.make_opsetid(LOCAL, 1)], ["level"] * level))

    def outputs(self, body: Body) -> list[tuple[str, str]]:
        """What a model gives: anything that it has, an input or a constant too, each once."""
        wanted = [v for v in dict.fromkeys(body.values) if v[1] in (TENSOR, SEQUENCE)]
        calls = {o for node in body.nodes if node.domain == LOCAL for o in node.output}
        likely = [v for v in wanted if v[0] in calls]
        found = [v for v in likely if self.rng.random() < 0.7] or likely[:1]
        others = [v for v in wanted if v not in found]
        self.rng.shuffle(others)
        found += [(str(n), str(k)) for n, k in others[:int(self.rng.integers(1, 5))]]
        self.rng.shuffle(found)
        return [(str(n), str(k)) for n, k in found]


def build(seed: int) -> Sample:
    rng = np.random.default_rng(SEED + seed)
    maker = Maker(rng)
    main = Body(maker, None, [])
    main.inputs = [(main.fresh(), TENSOR) for _ in range(int(rng.integers(1, 4)))]
    main.values = list(main.inputs)
    main.constant()
    main.call()
    main.fill(int(rng.integers(1, 8)))
    outputs = maker.outputs(main)
    graph = main.graph("calls", outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(LOCAL, 1)],
                              functions=maker.functions, ir_version=IR)
    feeds = {name: (rng.integers(-64, 64, SIZE) / 8).astype(np.float32) for name, _ in main.inputs}
    return Sample(model, feeds, set())
