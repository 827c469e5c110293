#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs that ONNX Runtime's optimizer fuses, at the opsets that it knows, converted in several ways: what loads
there at its default level before does so converted, and gives the same numbers but for precision.

A pattern is a function below: a block of a network as exporters write it, between two products of matrices, so
that casts may come anywhere within it. Opsets are those at which a block is spelt so.

    tools/suites/peer_fusions_test.py [--only WORDS] [--opsets 17,18] [--save FOLDER]
"""

import argparse
import collections
import itertools
import math
import os
import pathlib
import sys
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto

from suite import workers
from suite.made_models import Builder
from suite.package import demi, library_option

BATCH, LENGTH, WIDTH, HEADS = 2, 6, 16, 4
HEAD = WIDTH // HEADS
OPSETS = range(11, 25)
# Ways to convert; ONNX Runtime's processor has float16 kernels of most operators, and no bfloat16 ones.
WAYS: dict[str, dict] = {"default": {}, "io": {"io": "low"}, "greedy": {"placement": "greedy"},
                         "greedy io": {"placement": "greedy", "io": "low"}, "fast": {"policy": "fast"},
                         "kept Mul": {"keep_ops": ["Mul"]}, "kept Add": {"keep_ops": ["Add"]},
                         "kept norms": {"keep_ops": ["Div", "LayerNormalization"]}}
TOLERANCE = 2e-2  # of the largest number
Block = Callable[["Graph", str], str]


class Graph(Builder):
    """A block under construction, in the spelling of one opset."""

    def __init__(self, opset: int) -> None:
        super().__init__(7)
        self.opset = opset

    def reduce(self, op: str, x: str, axis: int) -> str:
        """Keeps the axis; it is an input from opset 18 on, of ReduceSum from 13 on."""
        if self.opset >= (13 if op == "ReduceSum" else 18):
            return self.node(op, x, self.ints(axis), keepdims=1)
        return self.node(op, x, axes=[axis], keepdims=1)

    def dense(self, x: str, rows: int = WIDTH, columns: int = WIDTH, bias: bool = False) -> str:
        made = self.node("MatMul", x, self.weight(self.normal([rows, columns], 1 / math.sqrt(rows))))
        return self.node("Add", made, self.vector(columns, 0, 0.1)) if bias else made

    def vector(self, size: int, mean: float, spread: float) -> str:
        return self.weight(np.float32(mean) + self.normal([size], spread))

    def heads(self, x: str, last: bool = False) -> str:
        """[batch, length, width] as [batch, heads, length, head], or with the last two swapped."""
        split = self.node("Reshape", x, self.ints(0, 0, HEADS, HEAD))
        return self.node("Transpose", split, perm=[0, 2, 3, 1] if last else [0, 2, 1, 3])

    def joined(self, x: str) -> str:
        return self.node("Reshape", self.node("Transpose", x, perm=[0, 2, 1, 3]), self.ints(0, 0, WIDTH))


# ---- normalization ----

def norm_parts(g: Graph, x: str, square: str = "pow", first: bool = False, affine: str = "both",
               inverse: bool = False, twice: bool = False) -> str:
    mean = g.reduce("ReduceMean", x, -1)
    d = g.node("Sub", x, mean)
    e = g.node("Sub", x, mean) if twice else d
    squared = g.node("Mul", e, e) if square == "mul" else g.node("Pow", e, g.constant(2))
    variance = g.reduce("ReduceMean", squared, -1)
    epsilon = g.constant(1e-5)
    root = g.node("Sqrt", g.node("Add", *((epsilon, variance) if first else (variance, epsilon))))
    y = g.node("Mul", d, g.node("Reciprocal", root)) if inverse else g.node("Div", d, root)
    if affine != "none":
        y = g.node("Mul", y, g.vector(WIDTH, 1, 0.2)) if not first else g.node("Mul", g.vector(WIDTH, 1, 0.2), y)
    return g.node("Add", y, g.vector(WIDTH, 0, 0.2)) if affine == "both" else y


def rms_parts(g: Graph, x: str, outer: bool = False) -> str:
    variance = g.reduce("ReduceMean", g.node("Pow", x, g.constant(2)), -1)
    y = g.node("Div", x, g.node("Sqrt", g.node("Add", variance, g.constant(1e-6))))
    if outer:
        variance = g.node("Add", variance, g.constant(1e-6))
        y = g.node("Mul", x, g.node("Reciprocal", g.node("Sqrt", variance)))
    return g.node("Mul", y, g.vector(WIDTH, 1, 0.2)) if not outer else g.node("Mul", g.vector(WIDTH, 1, 0.2), y)


def norm_whole(g: Graph, x: str) -> str:
    return g.node("LayerNormalization", x, g.vector(WIDTH, 1, 0.2), g.vector(WIDTH, 0, 0.2), axis=-1, epsilon=1e-5)


def residual(inner: Block) -> Block:
    """What an Add before is taken along with: x and a product of it, with a bias."""
    return lambda g, x: inner(g, g.node("Add", g.dense(x, bias=True), x))


def both_read(inner: Block) -> Block:
    """The sum is read behind the norm, too."""
    def block(g: Graph, x: str) -> str:
        total = g.node("Add", g.dense(x), x)
        return g.node("Add", g.dense(inner(g, total)), total)
    return block


def group_norm(g: Graph, x: str) -> str:
    """As exporters write it with InstanceNormalization: of channels in groups."""
    flat = g.node("Reshape", x, g.ints(0, 4, -1))
    ones, zeros = g.weight(np.ones(4, np.float32)), g.weight(np.zeros(4, np.float32))
    y = g.node("Reshape", g.node("InstanceNormalization", flat, ones, zeros, epsilon=1e-5),
               g.ints(BATCH, LENGTH, WIDTH))
    return g.node("Add", g.node("Mul", y, g.vector(WIDTH, 1, 0.2)), g.vector(WIDTH, 0, 0.2))


# ---- activations ----

def gelu_erf(g: Graph, x: str, bias: bool = False, last: str = "half") -> str:
    x = g.node("Add", x, g.vector(WIDTH, 0, 0.2)) if bias else x
    erf = g.node("Erf", g.node("Div", x, g.constant(math.sqrt(2))))
    one = g.node("Add", erf, g.constant(1))
    if last == "half":
        return g.node("Mul", g.node("Mul", x, one), g.constant(0.5))
    return g.node("Mul", x, g.node("Mul", one, g.constant(0.5))) if last == "inner" else \
        g.node("Mul", g.node("Mul", x, g.constant(0.5)), one)


def gelu_tanh(g: Graph, x: str) -> str:
    cubed = g.node("Pow", x, g.constant(3))
    inner = g.node("Add", x, g.node("Mul", cubed, g.constant(0.044715)))
    tanh = g.node("Tanh", g.node("Mul", inner, g.constant(math.sqrt(2 / math.pi))))
    return g.node("Mul", g.node("Mul", x, g.constant(0.5)), g.node("Add", tanh, g.constant(1)))


def gelu_quick(g: Graph, x: str) -> str:
    return g.node("Mul", x, g.node("Sigmoid", g.node("Mul", x, g.constant(1.702))))


def swish(g: Graph, x: str) -> str:
    return g.node("Mul", x, g.node("Sigmoid", x))


def gated(g: Graph, x: str) -> str:
    return g.node("Mul", swish(g, g.dense(x)), g.dense(x))


def hard(g: Graph, x: str) -> str:
    clipped = g.node("Clip", g.node("Add", x, g.constant(3)), g.constant(0), g.constant(6))
    return g.node("Div", g.node("Mul", x, clipped), g.constant(6))


# ---- attention ----

def attention(g: Graph, x: str, scale: str = "div", mask: str = "add", bias: bool = True, wide: bool = False) -> str:
    q, k, v = (g.dense(x, bias=bias) for _ in range(3))
    q, k, v = g.heads(q), g.heads(k, last=True), g.heads(v)
    if scale == "first":
        q = g.node("Mul", q, g.constant(1 / math.sqrt(HEAD)))
    scores = g.node("MatMul", q, k)
    if scale == "div":
        scores = g.node("Div", scores, g.constant(math.sqrt(HEAD)))
    elif scale == "mul":
        scores = g.node("Mul", scores, g.constant(1 / math.sqrt(HEAD)))
    allowed = np.tril(np.ones([1, 1, LENGTH, LENGTH]))
    if mask == "add":
        scores = g.node("Add", scores, g.weight(((1 - allowed) * -10000).astype(np.float32)))
    elif mask == "where":
        scores = g.node("Where", g.weight(allowed.astype(bool)), scores, g.constant(-10000))
    if wide:  # as exporters of 16-bit models write it
        scores = g.node("Cast", g.node("Softmax", g.node("Cast", scores, to=TensorProto.FLOAT), axis=-1),
                        to=TensorProto.FLOAT)
    else:
        scores = g.node("Softmax", scores, axis=-1)
    return g.dense(g.joined(g.node("MatMul", scores, v)), bias=bias)


def rotary(g: Graph, x: str) -> str:
    """Halves that are turned by angles of the place, and scores of them."""
    angles = np.outer(np.arange(LENGTH), 10000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2)))
    angles = np.concatenate([angles, angles], 1)[None, None].astype(np.float32)
    q = g.heads(g.dense(x))
    ends = g.ints(0), g.ints(HEAD // 2), g.ints(HEAD), g.ints(3)
    low = g.node("Slice", q, ends[0], ends[1], ends[3])
    high = g.node("Slice", q, ends[1], ends[2], ends[3])
    turned = g.node("Concat", g.node("Neg", high), low, axis=-1)
    q = g.node("Add", g.node("Mul", q, g.weight(np.cos(angles))), g.node("Mul", turned, g.weight(np.sin(angles))))
    return g.joined(q)


# ---- products and convolutions ----

def turned(g: Graph, x: str, perm: list[int]) -> str:
    y = g.node("Transpose", g.node("Reshape", x, g.ints(BATCH, LENGTH, WIDTH)), perm=perm)
    shape = [(BATCH, LENGTH, WIDTH)[p] for p in perm]
    y = g.node("MatMul", y, g.weight(g.normal([shape[-1], shape[-1]], 0.3)))
    return g.node("Reshape", y, g.ints(BATCH, LENGTH, WIDTH))


def scaled(g: Graph, x: str) -> str:
    y = g.node("Mul", g.dense(x), g.constant(0.5))
    return g.node("Div", g.node("MatMul", y, g.node("Transpose", g.node("Mul", x, g.constant(2.0)), perm=[0, 2, 1])),
                  g.constant(4.0))


def widened(g: Graph, x: str) -> str:
    """[batch, length, length] as a block's result."""
    return g.node("MatMul", scaled(g, x), x)


def convolved(after: str) -> Block:
    def block(g: Graph, x: str) -> str:
        image = g.node("Reshape", x, g.ints(BATCH, LENGTH, 4, 4))
        y = g.node("Conv", image, g.weight(g.normal([LENGTH, LENGTH, 3, 3], 0.2)), pads=[1, 1, 1, 1])
        if after == "norm":
            y = g.node("BatchNormalization", y, *(g.vector(LENGTH, m, 0.1) for m in (1, 0, 0)),
                       g.weight(1 + np.abs(g.normal([LENGTH], 0.1))))
        elif after == "sum":
            y = g.node("Relu", g.node("Add", y, image))
        elif after == "affine":
            shape = [LENGTH, 1, 1]
            y = g.node("Add", g.node("Mul", y, g.weight(1 + g.normal(shape, 0.1))), g.weight(g.normal(shape, 0.1)))
        elif after == "pad":
            y = g.node("Conv", g.node("Pad", y, g.ints(0, 0, 1, 1, 0, 0, 1, 1)),
                       g.weight(g.normal([LENGTH, LENGTH, 3, 3], 0.2)))
        elif after == "hard":
            y = hard(g, y)
        else:
            y = g.node(after, y)
        return g.node("Reshape", y, g.ints(BATCH, LENGTH, WIDTH))
    return block


def with_options(block: Callable, **options: object) -> Block:
    return lambda g, x: block(g, x, **options)


PATTERNS: dict[str, Block] = {
    **{f"norm {square} {affine}{' inverse' * inverse}{' first' * first}{' twice' * twice}":
       with_options(norm_parts, square=square, affine=affine, inverse=inverse, first=first, twice=twice)
       for square, affine, inverse, first, twice in (
           ("pow", "both", 0, 0, 0), ("mul", "both", 0, 0, 0), ("pow", "scale", 0, 0, 0), ("pow", "none", 0, 0, 0),
           ("pow", "both", 1, 0, 0), ("pow", "both", 0, 1, 0), ("pow", "both", 0, 0, 1), ("mul", "both", 0, 1, 1))},
    "skip norm": residual(norm_parts), "skip norm read": both_read(norm_parts),
    "rms": rms_parts, "rms inverse": with_options(rms_parts, outer=True), "skip rms": residual(rms_parts),
    "skip rms read": both_read(rms_parts), "norm whole": norm_whole, "skip norm whole": residual(norm_whole),
    "skip norm whole read": both_read(norm_whole), "group norm": group_norm,
    **{f"gelu {last}{' bias' * bias}": with_options(gelu_erf, last=last, bias=bias)
       for last, bias in itertools.product(("half", "inner", "outer"), (False, True))},
    "gelu tanh": gelu_tanh, "gelu quick": gelu_quick, "swish": swish, "gated": gated, "hard swish": hard,
    **{f"attention {scale} {mask}{' plain' * (not bias)}{' wide' * wide}":
       with_options(attention, scale=scale, mask=mask, bias=bias, wide=wide)
       for scale, mask, bias, wide in (("div", "add", 1, 0), ("mul", "where", 1, 0), ("first", "none", 1, 0),
                                       ("div", "none", 0, 0), ("div", "add", 0, 1), ("mul", "add", 1, 1))},
    "rotary": rotary, "scaled products": widened,
    **{f"turned {''.join(map(str, perm))}": with_options(turned, perm=list(perm))
       for perm in ((0, 2, 1), (2, 1, 0), (2, 0, 1))},  # not 1, 0, 2 and 1, 2, 0: passes/placement/peer_fault.h
    **{f"conv {after}": convolved(after)
       for after in ("norm", "sum", "affine", "pad", "Relu", "Sigmoid", "LeakyRelu", "Tanh", "hard")},
}
SINCE = {"norm whole": 17, "skip norm whole": 17, "skip norm whole read": 17}


def build(name: str, opset: int) -> onnx.ModelProto:
    """x, a product, the block, a product."""
    g = Graph(opset)
    x = g.input("x", TensorProto.FLOAT, [BATCH, LENGTH, WIDTH])
    g.output(g.dense(PATTERNS[name](g, g.dense(x))), "y", [BATCH, LENGTH, WIDTH])
    model = g.model("pattern", opset)
    for tensor in list(model.graph.initializer):
        if not any(tensor.name in node.input for node in model.graph.node):
            model.graph.initializer.remove(tensor)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: bytes, x: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    return session.run(None, {given.name: x.astype(np.float16) if "16" in given.type else x})[0].astype(np.float32)


def problem(source: bytes, way: dict, x: np.ndarray, want: np.ndarray) -> str:
    made, _ = demi.convert(source, allow_unmatched=True, **way)
    try:
        got = run(made, x)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"
    error = float(np.max(np.abs(got - want))) / float(np.max(np.abs(want)))
    return "" if error <= TOLERANCE else f"error {error:.3g}"


def make_worker(save: pathlib.Path | None) -> Callable:
    x = np.random.default_rng(3).standard_normal([BATCH, LENGTH, WIDTH], np.float32)

    def work(item: tuple[str, int]) -> list[tuple[str, str]]:
        """(way, what is wrong) of one pattern at one opset."""
        name, opset = item
        source = build(name, opset).SerializeToString()
        want = run(source, x)
        found = [(way, problem(source, how, x, want)) for way, how in WAYS.items()]
        if save and any(text for _, text in found):
            save.mkdir(parents=True, exist_ok=True)
            (save / f"{name} {opset}.onnx".replace(" ", "_")).write_bytes(source)
        return found

    return work


def items(args: argparse.Namespace) -> Iterator[tuple[str, int]]:
    for name in PATTERNS:
        for opset in args.opsets:
            if opset >= SINCE.get(name, 0) and args.only in name:
                yield name, opset


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--only", default="", help="patterns whose name has these words")
    parser.add_argument("--opsets", type=lambda text: list(map(int, text.split(","))), default=list(OPSETS))
    parser.add_argument("--save", type=pathlib.Path, help="folder for the models that fail")
    args = parser.parse_args()
    counts: collections.Counter = collections.Counter()
    for item, found, died in workers.run(list(items(args)), make_worker, (args.save,), os.cpu_count() or 1):
        for way, text in found or [("all", f"the process ended: {died}")]:
            counts["wrong" if text else "right"] += 1
            if text:
                print(f"FAIL {item[0]}, opset {item[1]}, {way}: {text}")
    print(f"{len(PATTERNS)} patterns, {sum(counts.values())} conversions, {counts['wrong']} wrong")
    return 1 if counts["wrong"] or not counts["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
