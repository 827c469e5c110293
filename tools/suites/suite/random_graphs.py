# SPDX-License-Identifier: Apache-2.0
"""Random whole models: nested control flow, sequences, optionals, functions, odd interfaces.

`build(seed)` gives a Sample: a model, sample inputs, and the outputs whose numbers mean nothing
because rounding makes them jump.
"""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite import random_steps
from suite.random_scope import Names, Scope, Value

OPSETS = [7, 8, 9, 10, 11, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 21, 22, 23, 24, 25,
          26, 27, 28]
DEPTH = 3
IR_OF = {7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9,
         20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13, 27: 13, 28: 13}


@dataclasses.dataclass
class Sample:
    """A model to judge, its inputs, and the names of outputs that are not compared."""

    model: onnx.ModelProto
    feeds: dict[str, object]
    jumpy: set[str]


def alike(s: Scope, shape: tuple[int, ...]) -> Value:
    """A value of this scope with this shape, adapted where there is none."""
    found = [v for v in s.visible() if v.floats and v.shape == shape]
    own = [v for v in found if v in s.values] or found
    if own and s.rng.random() < 0.9:
        return own[s.rng.integers(len(own))]
    return s.const(s.rng.standard_normal(shape).astype(np.float32))


def same(s: Scope, value: Value) -> Value:
    """The value again, made in this graph, whatever its size and numbers."""
    node = helper.make_node("Identity", [value.name], s.outputs("", 1))
    return s.record(node, [value.sample], value.exact)[0]


def body_of(s: Scope) -> Scope:
    return Scope(s.rng, s.names, s.opset, s)


def fill(s: Scope, steps: int) -> None:
    for _ in range(steps):
        if s.rng.random() < 0.18 and s.depth < DEPTH and not s.closed:
            CONTROL[s.rng.integers(len(CONTROL))](s)
        else:
            random_steps.step(s)


def inner_steps(s: Scope) -> int:
    return int(s.rng.integers(0, 5))


def branches(s: Scope) -> None:
    """If with one or two outputs; a branch may give back a captured value or a constant."""
    shapes = [s.pick().shape for _ in range(int(s.rng.integers(1, 3)))]
    flags = [v for v in s.visible() if isinstance(v.sample, np.ndarray) and v.exact and
             v.sample.dtype == bool and v.sample.size == 1]
    flag = flags[-1] if flags else s.const(np.array(bool(s.rng.integers(2))))
    graphs, results, exact = {}, {}, True
    for key in ("then_branch", "else_branch"):
        body = body_of(s)
        fill(body, inner_steps(s))
        outs = [alike(body, shape) for shape in shapes]
        for i, value in enumerate(outs):
            if value not in body.values or value in outs[:i]:  # not made in this graph
                outs[i] = same(body, value)
        graphs[key], results[key] = body.graph(key, outs, open_dim(s)), outs
    chosen = results["then_branch" if flag.sample.item() else "else_branch"]
    exact = flag.exact
    node = helper.make_node("If", [flag.name], s.outputs("", len(shapes)), **graphs)
    found = s.record(node, [v.sample for v in chosen], exact)
    for value, made in zip(chosen, found):
        made.exact = made.exact and value.exact


def open_dim(s: Scope) -> str:
    return "?" if s.rng.random() < 0.2 else ""


def update(body: Scope, state: Value) -> Value:
    """What a loop makes of its state: contracts, so that numbers stay in range."""
    other = alike(body, state.shape)
    ways = [("Mul", [state, body.scalar(0.5)]), ("Tanh", [state]), ("Max", [state, other]),
            ("Identity", [state]), ("Min", [state, other])]
    op, operands = ways[body.rng.integers(len(ways))]
    made = body.add(op, operands)
    return made[0] if made else same(body, state)


def loop(s: Scope) -> None:
    """Loop with a float state, an integer state now and then, and perhaps a scan output."""
    init = s.pick()
    body = body_of(s)
    body.input(np.array(0, np.int64))
    keep = body.input(np.array(True))
    state = body.input(init.sample, False)
    fill(body, inner_steps(s))
    outs = [body.add("Identity", [keep])[0], update(body, state)]
    scan = s.rng.random() < 0.5
    if scan:
        outs += body.add("Identity", [body.pick()])
    trips = 1
    node = helper.make_node("Loop", [s.const(np.array(trips, np.int64)).name, "", init.name],
                            s.outputs(init.name, len(outs) - 1), body=body.graph("b", outs))
    samples = [outs[1].sample] + [o.sample[None] for o in outs[2:]]
    found = s.record(node, samples, False)
    for made, out in zip(found, outs[1:]):
        made.exact = init.exact and out.exact or "Mul" in str(out) and init.exact


def scan(s: Scope) -> None:
    """Scan over the first axis with a float state."""
    x = s.pick(2)
    if s.opset < 9:
        return
    body = body_of(s)
    init = s.const(np.zeros(x.shape[1], np.float32))
    state, element = body.input(init.sample), body.input(x.sample[0], x.exact)
    fill(body, inner_steps(s))
    outs = body.add("Identity", [state]) + body.add("Tanh", [element])
    if len(outs) < 2:
        return
    node = helper.make_node("Scan", [init.name, x.name], s.outputs(x.name, 2), num_scan_inputs=1,
                            body=body.graph("scan", outs))
    s.record(node, [init.sample, np.tanh(x.sample)], x.exact)


def sequence(s: Scope) -> None:
    """A sequence made, extended in a loop, and taken apart."""
    if s.opset < 13:
        return
    x = s.pick()
    made = s.add("SequenceConstruct", [x, x])
    if not made:
        return
    if s.rng.random() < 0.5:
        body = body_of(s)
        body.input(np.array(0, np.int64))
        keep = body.input(np.array(True))
        state = body.input(made[0].sample, x.exact)
        more = body.add("SequenceInsert", [state, x])
        outs = body.add("Identity", [keep]) + more
        node = helper.make_node("Loop", [s.const(np.array(1, np.int64)).name, "", made[0].name],
                                s.outputs("", 1), body=body.graph("b", outs))
        made = s.record(node, [more[0].sample], x.exact)
    if s.rng.random() < 0.5:
        s.add("ConcatFromSequence", made, axis=0, new_axis=1)
    else:
        s.add("SequenceAt", [made[0], s.const(np.array(-1, np.int64))])


def optional(s: Scope) -> None:
    if s.opset < 18:
        return
    x = s.pick()
    node = helper.make_node("Optional", [x.name], s.outputs("", 1))
    s.nodes.append(node)
    got = helper.make_node("OptionalGetElement", [node.output[0]], s.outputs(x.name, 1))
    s.record(got, [x.sample], x.exact)


def mapped(s: Scope) -> None:
    """SequenceMap with a capture-free body."""
    if s.opset < 17:
        return
    x = s.pick()
    made = s.add("SequenceConstruct", [x, x])
    body = body_of(s)
    element = body.input(x.sample, x.exact)
    out = body.add("Tanh", [element])
    if not made or not out:
        return
    node = helper.make_node("SequenceMap", [made[0].name], s.outputs("", 1),
                            body=body.graph("map", out))
    result = s.record(node, [[out[0].sample] * 2], x.exact)
    s.add("SequenceAt", [result[0], s.const(np.array(0, np.int64))])


def function(s: Scope) -> None:
    """A model-local function called two or three times, perhaps from a branch or in double too."""
    if s.opset < 10:
        return
    x = s.pick(2)
    body = Scope(s.rng, Names(s.rng), s.opset, s)
    body.closed = True
    formal = body.input(x.sample, x.exact)
    generic = s.rng.random() < 0.3
    if generic:
        body.add("Identity", [formal])
        made = body.add("Mul", [formal, formal])
    else:
        fill(body, 1 + inner_steps(s))
        made = body.add("Tanh", [body.pick(2)])
    if not made:
        return
    if s.rng.random() < 0.5:  # an attribute of the call reaches a node of the body
        leaky = helper.make_node("LeakyRelu", [made[0].name], body.outputs("", 1))
        leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope",
                                                   type=onnx.AttributeProto.FLOAT))
        with np.errstate(all="ignore"):
            y = made[0].sample
            made = body.record(leaky, [np.where(y < 0, y * y.dtype.type(0.25), y)], made[0].exact)
        attributes = {"slope": 0.25}
    else:
        attributes = {}
    name = f"F{len(s.functions)}"
    proto = helper.make_function("local", name, [formal.name], [made[0].name], body.nodes,
                                 [helper.make_opsetid("", s.opset),
                                  helper.make_opsetid("local", 1)], list(attributes))
    s.functions.append(proto)
    for _ in range(int(s.rng.integers(1, 4))):
        call = helper.make_node(name, [x.name], s.outputs(x.name, 1), domain="local", **attributes)
        s.record(call, [made[0].sample], made[0].exact)
    if generic:
        wide = s.add("Cast", [x], to=TensorProto.DOUBLE)
        call = helper.make_node(name, [wide[0].name], s.outputs("", 1), domain="local",
                                **attributes)
        s.record(call, [made[0].sample.astype(np.float64)], made[0].exact)


CONTROL = [branches, branches, loop, loop, scan, sequence, optional, function, function, mapped]


def interface(s: Scope, rng: np.random.Generator) -> list[Value]:
    """The outputs: last values mostly, sometimes an inner one, an input or a constant."""
    def can(v: Value) -> bool:
        return isinstance(v.sample, np.ndarray) and v.sample.size > 0

    def made(v: Value) -> bool:
        return can(v) and v not in s.inputs and not v.constant

    candidates = [v for v in s.values if made(v)]
    if not candidates:
        return []
    outputs = candidates[-int(rng.integers(1, 4)):]
    inner = candidates[rng.integers(len(candidates))]
    if inner not in outputs and rng.random() < 0.5:
        outputs.append(inner)
    if rng.random() < 0.1:
        outputs.append(s.inputs[0])
    constants = [v for v in s.values if v.constant and can(v)]
    if constants and rng.random() < 0.15:
        outputs.append(constants[rng.integers(len(constants))])
    sequences = [v for v in s.values if isinstance(v.sample, list)]
    if sequences and rng.random() < 0.3:
        outputs.append(sequences[-1])
    return outputs


def extras(model: onnx.ModelProto, s: Scope, rng: np.random.Generator) -> None:
    """value_info of some values (and of one that does not exist), metadata, doc strings."""
    known = {v.name for v in [*model.graph.input, *model.graph.output]}
    for value in s.values:
        if value.name not in known and not value.constant and rng.random() < 0.3:
            kind = str(rng.choice(["", "?"]))
            model.graph.value_info.append(value.proto(kind))
    if rng.random() < 0.2:
        model.graph.value_info.append(helper.make_tensor_value_info("gone", TensorProto.FLOAT, [1]))
    if rng.random() < 0.2:
        model.metadata_props.add(key="author", value="nobody")
    if rng.random() < 0.2 and model.graph.node:
        model.graph.node[0].doc_string = "first"
    if rng.random() < 0.2:
        model.opset_import.add(domain="ai.onnx.ml", version=3)
    if rng.random() < 0.1:
        for opset in model.opset_import:
            if not opset.domain:
                opset.domain = "ai.onnx"


def build(seed: int) -> Sample | None:
    rng = np.random.default_rng(seed)
    opset = OPSETS[rng.integers(len(OPSETS))]
    s = Scope(rng, Names(rng), opset)
    for _ in range(int(rng.integers(1, 4))):
        rank = int(rng.choice([0, 1, 2, 2, 2, 3, 4]))
        shape = tuple(int(d) for d in rng.integers(1, 5, rank))
        kind = rng.choice([np.float32, np.float32, np.float32, np.float32, np.float16, np.float64])
        s.input(rng.standard_normal(shape).astype(kind))
    fill(s, int(rng.integers(2, 16)))
    outputs = interface(s, rng)
    if not outputs:
        return None
    graph = s.graph("main", outputs)
    ir = IR_OF[opset] if not s.functions else max(8, IR_OF[opset])
    if ir == 3 or rng.random() < 0.15:  # a default that callers may replace
        listed = {v.name for v in graph.input}
        for tensor in graph.initializer:
            if tensor.name not in listed and (ir == 3 or rng.random() < 0.5):
                graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type,
                                                                 list(tensor.dims)))
    opsets = [helper.make_opsetid("", opset)]
    if s.functions:
        opsets.append(helper.make_opsetid("local", 1))
    model = helper.make_model(graph, opset_imports=opsets, functions=s.functions, ir_version=ir)
    if rng.random() < 0.5:
        extras(model, s, rng)
    return Sample(model, {v.name: v.sample for v in s.inputs},
                  {v.name for v in outputs if not v.exact})
