# SPDX-License-Identifier: Apache-2.0
"""One context, many shapes: what the runtime remembers of earlier runs must never show in a result,
and must not grow.

Each case's model runs in one context on inputs of changing shapes and contents, in random order,
more kinds than a context remembers; every result is compared with onnx's reference evaluator. Then
1,000 changes of shape, in the last 800 of which the process gets no larger than in the first. (That new
contexts give the same bits is judged on ONNX's models: judges/plans.py.)
"""

import argparse
import os
import pathlib
import random
import sys

import numpy as np
import onnx
from onnx import parser
from onnx.reference import ReferenceEvaluator

from suite.package import demi, library_option, session

RNG = np.random.default_rng(7)


def f32(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


def i64(*items: int) -> np.ndarray:
    return np.array(items, np.int64)


# name -> (signature and body of a model of opset 21, feeds of run n)
CASES = {
    "reshape": ("(float[n] x, int64[3] shape) => (float[a,b,c] y) {"
                " t = Reshape (x, shape) y = Relu (t) }",
                lambda n: {"x": f32(24), "shape": i64(*[(2, 3, 4), (4, 6, 1), (24, 1, 1),
                                                        (1, 2, 12),
                                                        (3, 8, 1), (2, 2, 6), (6, 4, 1), (1, 1, 24),
                                                        (8, 3, 1), (12, 2, 1)][n % 10])}),
    # in order or not, as sizes of 1 say: of an input, of what is written over, of what is an output too
    "transposes": ("(float[a,b,c] x) => (float[d,e,f] y, float[g,h,i] z, float[j,k,l] w, float[a,b,c] v) {"
                   " t = Transpose <perm = [1, 0, 2]> (x) r = Neg (t) q = Exp (r) y = Add (q, t)"
                   " z = Transpose <perm = [1, 0, 2]> (x) v = Relu (x)"
                   " s = Transpose <perm = [0, 2, 1]> (v) u = Transpose <perm = [2, 1, 0]> (s) w = Neg (u) }",
                   lambda n: {"x": f32(*[(1, 5, 4), (3, 1, 4), (2, 3, 4), (1, 1, 6), (3, 5, 1), (1, 7, 1),
                                         (0, 1, 3)][n % 7])}),
    "reshape of integers": ("(int64[6] x, int64[2] shape) => (int64[a,b] y) "
                            "{ y = Reshape (x, shape) }",
                            lambda n: {"x": RNG.integers(0, 9, 6), "shape": i64(2, 3) if n % 2
                                       else i64(3, 2)}),
    "range": ("(float start, float limit, float delta) => (float[n] y) {"
              " r = Range (start, limit, delta) y = Neg (r) }",
              lambda n: {"start": np.float32(n % 3), "limit": np.float32(4 + n % 5),
                         "delta": np.float32(0.5 + n % 2)}),
    "slice": ("(float[a,b] x, int64[2] starts, int64[2] ends) => (float[c,d] y) {"
              " s = Slice (x, starts, ends) t = Exp (s) y = Add (t, s) }",
              lambda n: {"x": f32(6, 7), "starts": i64(n % 3, n % 4), "ends": i64(4 + n % 3, 7)}),
    "expand, tile and pad": ("(float[a] x, int64[2] to, int64[2] repeats, int64[4] pads)"
                             " => (float[c,d] y) { e = Expand (x, to) t = Tile (e, repeats)"
                             " y = Pad (t, pads) }",
                             lambda n: {"x": f32(3), "to": i64(1 + n % 4, 3),
                                        "repeats": i64(1 + n % 2, 1 + n % 3),
                                        "pads": i64(n % 2, 0, 1, n % 3)}),
    "what is not zero": ("(float[a] x) => (int64[b] y, float[c] z) { n = NonZero (x)"
                         " axes = Constant <value_ints = [0]> () s = Shape (n)"
                         " y = Mul (s, s) c = Greater (x, zero) z = Compress (x, c) }"
                         .replace("zero", "x2").replace("{ n", "{ x2 = Neg (x) n"),
                         lambda n: {"x": (RNG.random(5 + n % 3) > 0.5).astype(np.float32)}),
    "top": ("(float[a,b] x, int64[1] k) => (float[a,c] y, int64[a,c] z) { y, z = TopK (x, k) }",
            lambda n: {"x": f32(2 + n % 3, 8), "k": i64(1 + n % 7)}),
    "branches": ("(bool c, float[a,b] x) => (float[d,e] y) { t = Relu (x) u = Add (t, x)"
                 " y = If (c) <then_branch = g () => (float[p,q] v) { v = Transpose (t) },"
                 " else_branch = h () => (float[p,q] w) { w = Identity (u) }> }",
                 lambda n: {"c": np.array(n % 3 == 0), "x": f32(1 + n % 4, 5)}),
    "a growing loop": ("(int64 trips, float[a] x) => (float[b] y, float[t,c] z) {"
                       " yes = Constant <value = bool {1}> () s = Neg (x)"
                       " y, z0 = Loop (trips, yes, s)"
                       " <body = g (int64 i, bool go, float[d] v) =>"
                       " (bool on, float[e] w, float[f] p)"
                       " { on = Identity (go) q = Abs (v) w = Concat <axis = 0> (q, x)"
                       " p = Mul (x, x) }> z = Neg (z0) }",
                       lambda n: {"trips": np.array(1 + n % 5), "x": f32(1 + n % 3)}),
    "two states that change places": ("(int64 trips, float[a] x, float[a] w) => (float[a] y, float[a] z) {"
                                      " yes = Constant <value = bool {1}> () y, z = Loop (trips, yes, x, w)"
                                      " <body = g (int64 i, bool go, float[a] p, float[a] q) =>"
                                      " (bool on, float[a] q, float[a] p) { on = Identity (go) }> }",
                                      lambda n: {"trips": np.array(n % 4), "x": f32(3), "w": f32(3)}),
    # that lies, or does not, where another value is to lie when its sizes were seen before
    "one of three": ("(float[a,b] x, int64 at) => (float[c,b] y, float[a,b] z) { p = Relu (x) q = Neg (x)"
                     " r = Exp (x) s = SequenceConstruct (p, q, r) t = SequenceAt (s, at)"
                     " v = Concat <axis = 0> (x, x) u = Abs (v) y = Mul (u, v) z = Add (t, x) }",
                     lambda n: {"x": f32(1 + n % 5, 16), "at": np.array(n // 5 % 3)}),
    "lengths of 1": ("(float[a,b] x, int64[n] lengths) => (float[c,d,e] y) {"
                     " s = SplitToSequence <axis = 0, keepdims = 0> (x, lengths)"
                     " y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }",
                     lambda n: {"x": f32(1 + n % 5, 4), "lengths": i64(*[1] * (1 + n % 5))}),
    "a sequence": ("(float[a,b] x, int64 at) => (float[c,b] y, float[a,b] z) { p = Relu (x)"
                   " q = Neg (x) s = SequenceConstruct (p, q, x) r = Exp (q)"
                   " t = SequenceInsert (s, r, at)"
                   " y = ConcatFromSequence <axis = 0> (t) u = SequenceAt (t, at) z = Add (u, x) }",
                   lambda n: {"x": f32(1 + n % 9, 4), "at": np.array(n % 3)}),
    "views and residuals": ("(float[n,a,b] x) => (float[n,c] y, float[n,a,b] z) {"
                            " p = Exp (x) f = Flatten (p) q = Mul (p, x) g = Flatten (q)"
                            " y = Add (f, g) r = Neg (q) i = Identity (r) z = Mul (i, r) }",
                            lambda n: {"x": f32(1 + n % 10, 3, 4)}),
    "one value twice": ("(float[n] x) => (float[n] y, float[n] z) { a = Neg (x) y = Mul (a, a)"
                        " b = Abs (x) c = Identity (b) z = Sub (b, c) }",
                        lambda n: {"x": f32(1 + n % 10)}),
    "small and large": ("(float[n,m] x) => (float[n,m] y) { a = Sigmoid (x) s = ReduceSum (a)"
                        " b = Div (a, s) c = Softmax (b) d = MatMul (c, w) y = Add (d, a) }",
                        lambda n: {"x": f32(1 + (n * 7) % 60, 16)}),
    "sizes from shapes": ("(float[n,m] x) => (float[k] y) { s = Shape (x)"
                          " p = ReduceProd <keepdims = 1>"
                          " (s) r = Reshape (x, p) o = ConstantOfShape <value = float[1] {2}> (p)"
                          " y = Add (r, o) }",
                          lambda n: {"x": f32(1 + n % 5, 1 + n % 7)}),
}
WEIGHTS = {"small and large": {"w": f32(16, 16)}}


def build(name: str) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 21]> m {CASES[name][0]}')
    for weight, value in WEIGHTS.get(name, {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, weight))
    return model


def same(got: np.ndarray, want: np.ndarray) -> bool:
    want = np.asarray(want)
    return got.shape == want.shape and np.allclose(got, want, 1e-5, 1e-6, equal_nan=True)


def check_case(name: str) -> str:
    """Why a case fails, or ""."""
    model = build(name)
    oracle, runner = ReferenceEvaluator(model), session(model)
    order = [n for n in range(30) for _ in range(3)]
    random.Random(3).shuffle(order)
    for n in order:
        feeds = CASES[name][1](n)
        try:
            outputs = runner.run(None, feeds)
        except demi.DemiError as error:
            return f"run {n}: {error}"
        for output, got, want in zip(model.graph.output, outputs, oracle.run(None, feeds)):
            if not same(got, want):
                return f"run {n}: {output.name} is {got}, expected {want}"
    return ""


def resident() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def check_growth(changes: int) -> str:
    """A network of convolutions on 1,000 inputs of other sizes, large ones early."""
    text = ("(float[n,3,h,w] x) => (float[n,4] y) { a = Conv <pads = [1,1,1,1]> (x, k) b = Relu (a)"
            " c = Conv <pads = [1,1,1,1]> (b, l) d = Add (b, c) e = GlobalAveragePool (d)"
            " y = Flatten (e) }")
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 21]> m {text}')
    for weight, dims in (("k", (4, 3, 3, 3)), ("l", (4, 4, 3, 3))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(f32(*dims), weight))
    runner = session(model)
    sizes = random.Random(5)
    image, sizes_seen, peaks = f32(4, 3, 160, 160), set(), set()
    most = [0, 0] # bytes of the process: in the first fifth of the runs, and later
    for change in range(changes):
        n, h, w = sizes.randint(1, 4), sizes.randint(8, 160), sizes.randint(8, 160)
        sizes_seen.add((n, h, w))
        runner.run(None, {"x": image[:n, :, :h, :w]})
        if change % 50 == 49: # the same sizes each time, twice: the second run is a planned one
            runner.run(None, {"x": image})
            runner.run(None, {"x": image})
            peaks.add(runner.memory_peak())
        if change == changes - 1:
            for _ in range(3): # the second has a piece of its own
                runner.run(None, {"x": image[:1, :, :8, :8]})
            if runner.memory_peak() * 8 > max(peaks):
                return f"a small input needed {runner.memory_peak()} bytes, and a large one {max(peaks)}"
        part = change > changes // 5
        most[part] = max(most[part], resident())
    grown = most[1] - most[0]
    if len(peaks) != 1:
        return f"the same inputs needed at most {sorted(peaks)} bytes"
    return f"{len(sizes_seen)} shapes made it {grown} bytes larger" if grown > 4 << 20 else ""


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    args.add_argument("--changes", type=int, default=1000)
    args = args.parse_args()
    problems = [f"{name}: {text}" for name in CASES if (text := check_case(name))]
    text = check_growth(args.changes)
    problems += [f"growth: {text}"] if text else []
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"reuse_test: {len(CASES)} models, {args.changes} changes of shape: "
          f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
