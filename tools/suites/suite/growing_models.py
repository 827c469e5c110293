# SPDX-License-Identifier: Apache-2.0
"""Models of any size: each kind is large in another way. A kind is a function of n that gives a model of
about n nodes whose inputs are float [N, 8], with results of moderate size."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

WIDTH = 8
DEEP = 8  # branches around the innermost node, per nest


def _info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", WIDTH])


def _weights(name: str, seed: int = 0) -> onnx.TensorProto:
    data = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)) / WIDTH**.5
    return helper.make_tensor(name, TensorProto.FLOAT, data.shape, data.ravel())


def _model(nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str],
           weights: Sequence[onnx.TensorProto] = (), functions: Sequence[onnx.FunctionProto] = (),
           ) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "grown", [_info(v) for v in inputs], [_info(v) for v in outputs],
                              weights)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid("own", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def _product(x: str, y: str, weights: str = "w") -> list[onnx.NodeProto]:
    """A matrix product whose result stays as large as x."""
    return [helper.make_node("MatMul", [x, weights], [y + "m"]), helper.make_node("Tanh", [y + "m"], [y])]


def chain(n: int) -> onnx.ModelProto:
    steps = [node for i in range(n // 2) for node in _product(f"v{i}", f"v{i + 1}")]
    return _model(steps, ["v0"], [f"v{n // 2}"], [_weights("w")])


def constants(n: int) -> onnx.ModelProto:
    steps = [node for i in range(n // 2) for node in _product(f"v{i}", f"v{i + 1}", f"w{i}")]
    return _model(steps, ["v0"], [f"v{n // 2}"], [_weights(f"w{i}", i) for i in range(n // 2)])


def fan_out(n: int) -> onnx.ModelProto:
    """One value with n uses; ends in sums of a hundred."""
    nodes = [helper.make_node("Softmax", ["v0"], ["x"])]
    nodes += [helper.make_node("MatMul", ["x", "w"], [f"a{i}"]) for i in range(n)]
    sums = []
    for first in range(0, n, 100):
        sums.append(f"s{first}")
        nodes.append(helper.make_node("Max", [f"a{i}" for i in range(first, min(n, first + 100))], [sums[-1]]))
    return _model([*nodes, helper.make_node("Max", sums, ["y"])], ["v0"], ["y"], [_weights("w")])


def fan_in(n: int) -> onnx.ModelProto:
    """One node that joins n values."""
    nodes = [helper.make_node("MatMul", ["v0", "w"], [f"a{i}"]) for i in range(n)]
    return _model([*nodes, helper.make_node("Max", [f"a{i}" for i in range(n)], ["y"])], ["v0"], ["y"],
                  [_weights("w")])


def residual(n: int) -> onnx.ModelProto:
    nodes = []
    for i in range(n // 3):
        nodes += _product(f"v{i}", f"b{i}")
        nodes.append(helper.make_node("Add", [f"v{i}", f"b{i}"], [f"v{i + 1}"]))
    return _model(nodes, ["v0"], [f"v{n // 3}"], [_weights("w")])


def alive(n: int) -> onnx.ModelProto:
    """Half of the values live until the last one is there."""
    count = n // 3
    nodes = [node for i in range(count) for node in _product(f"v{i}", f"v{i + 1}")]
    total = f"v{count}"
    for i in reversed(range(count)):
        nodes.append(helper.make_node("Max", [total, f"v{i}"], [f"t{i}"]))
        total = f"t{i}"
    return _model(nodes, ["v0"], [total], [_weights("w")])


def ends(n: int) -> onnx.ModelProto:
    """As many inputs and outputs as nodes."""
    return _model([helper.make_node("MatMul", [f"x{i}", "w"], [f"y{i}"]) for i in range(n)],
                  [f"x{i}" for i in range(n)], [f"y{i}" for i in range(n)], [_weights("w")])


def functions(n: int) -> onnx.ModelProto:
    """A function for each two nodes."""
    count = n // 2
    bodies = [helper.make_function("own", f"F{i}", ["x", "w"], ["y"], _product("x", "y"),
                                   [helper.make_opsetid("", 17)]) for i in range(count)]
    calls = [helper.make_node(f"F{i}", [f"v{i}", "w"], [f"v{i + 1}"], domain="own") for i in range(count)]
    return _model(calls, ["v0"], [f"v{count}"], [_weights("w")], bodies)


def _nest(at: int, depth: int) -> onnx.NodeProto:
    """An If whose branches hold one of one level less, which reads a value of the outermost graph."""
    name = f"v{at + 1}" if depth == DEEP else f"n{at}_{depth}"
    branches = {}
    for side in ("then", "else"):
        inner = (_nest_body(at, depth - 1, side) if depth > 1 and side == "then"
                 else [helper.make_node("MatMul", [f"v{at}", "w"], [f"p{at}_{depth}_{side}"])])
        branches[f"{side}_branch"] = helper.make_graph(inner, side, [], [_info(inner[-1].output[0])])
    return helper.make_node("If", ["yes"], [name], **branches)


def _nest_body(at: int, depth: int, side: str) -> list[onnx.NodeProto]:
    inner = _nest(at, depth)
    return [inner, helper.make_node("Tanh", [inner.output[0]], [f"p{at}_{depth + 1}_{side}"])]


def nests(n: int) -> onnx.ModelProto:
    count = max(1, n // (3 * DEEP))
    ask = [helper.make_node("ReduceMax", ["v0"], ["most"], keepdims=0),
           helper.make_node("Less", ["most", "bound"], ["yes"])]
    bound = helper.make_tensor("bound", TensorProto.FLOAT, [], [1e9])
    return _model([*ask, *(_nest(i, DEEP) for i in range(count))], ["v0"], [f"v{count}"],
                  [_weights("w"), bound])


def long_names(n: int) -> onnx.ModelProto:
    """Names of 200 characters that differ at their ends alone."""
    names = [("of_a_module_in_a_module_" * 9)[:192] + f"{i:08}" for i in range(n // 2 + 1)]
    steps = [node for i in range(n // 2) for node in _product(names[i], names[i + 1])]
    for i, node in enumerate(steps):
        node.name = names[0] + f"/{i}"
    return _model(steps, [names[0]], [names[-1]], [_weights("w")])


KINDS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "chain": chain, "constants": constants, "fan-out": fan_out, "fan-in": fan_in, "residual": residual,
    "alive": alive, "ends": ends, "functions": functions, "nests": nests, "long names": long_names}
