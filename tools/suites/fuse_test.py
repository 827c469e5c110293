#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs models with and without the fusions of plans, and looks at plans as text.

The models are those of the fusing passes' golden cases, positive and refused ones. Each is compiled
with nothing fused, fast, and faithful, and run on the same random inputs: faithful outputs are
bit-equal to the unfused ones, fast ones within TOLERANCE of the output's largest value (a few
roundings of the narrowest float type in the model). Plans of the first case of each pass are
compared with testdata/plans/PASS.txt; --update writes these. A last test emulates a float16
convolution with a residual and Relu, operator by operator and fused, and expects faithful and fast
to be just these.

    tools/suites/fuse_test.py --demi build/release/demi --libdemi build/release/libdemi.so \
        [--update]
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx.parser
from onnx import numpy_helper

from suite.engines import features
from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSES = ["choose-layouts", "fold-batch-norm", "fuse-attention", "fuse-conv", "fuse-gelu",
          "fuse-kernel-casts", "fuse-layer-norm", "fuse-matmul", "fuse-one-hot", "fuse-quantized",
          "fuse-rotary", "fuse-separable", "fuse-lookup-tables", "gather-before-cast", "fuse-qkv", "move-dequantize",
          "read-kv-cache", "widen-values"]
TURNING = {"choose-layouts", "fuse-separable"}  # turn data: that is more steps, if faster ones
TOLERANCE = {"bfloat16": 4e-2, "float16": 5e-3, "float": 2e-5}
FLOATS = {1, 10, 11, 16}
NUMERICS = ("fast", "faithful")
TABLE = (4096, 256)
OPEN_SIZE = 4  # of dims that a model leaves open; known ones of the cases fit it
args = argparse.Namespace()


def cases(name: str) -> list[tuple[str, str, bool]]:
    """(title, model text, is anything fused) of a golden file."""
    text = (ROOT / f"testdata/golden/{name}.txt").read_text()
    found = []
    for part in re.split(r"(?m)^=== ", text)[1:]:
        title, rest = part.split("\n", 1)
        rest = rest.split("\n", 1)[1]  # after the line of the pass
        model, expected = re.split(r"(?m)^--- ", rest, maxsplit=1)
        found.append((title, model, "demi.fused" in expected))
    return found


def command(*words: object) -> str:
    done = subprocess.run([args.demi, *map(str, words)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def onnx_bytes(model: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "m.onnxtxt"), pathlib.Path(folder, "m.onnx")
        source.write_text(model)
        command("opt", source, "--passes", "infer-dtypes", "--no-check", "-o", target, "-q")
        return target.read_bytes()


def feeds(runner: demi.Session, seed: int) -> dict[str, object]:
    random, made = np.random.default_rng(seed), {}
    for arg in runner.get_inputs():
        shape = [size if isinstance(size, int) else OPEN_SIZE for size in arg.shape]
        drawn = random.standard_normal(shape) if arg.number in FLOATS else random.integers(0, 2, shape)
        made[arg.name] = drawn.astype(arg.dtype)
    return made


def tolerance(model: str) -> float:
    return next(limit for name, limit in TOLERANCE.items() if re.search(rf"\b{name}\b", model))


def show(plan: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.plan")
        path.write_bytes(plan)
        return command("show", path)


def step_count(plan: bytes) -> int:
    return int(re.search(r"(\d+) steps", show(plan)).group(1))


class Fusions(unittest.TestCase):
    def check(self, model: str) -> None:
        data = onnx_bytes(model)
        plain = session(data, numerics="faithful", keep_values=True)
        fast = session(data)
        faithful = session(data, numerics="faithful")
        limit = tolerance(model)
        for seed in range(3):
            given = feeds(plain, seed)
            try:
                want = plain.run(None, given)
            except demi.DemiError:  # shapes that do not fit, where a case is about what might be
                self.assertRaises(demi.DemiError, fast.run, None, given)
                self.assertRaises(demi.DemiError, faithful.run, None, given)
                continue
            for a, b in zip(want, faithful.run(None, given), strict=True):
                self.assertEqual(a.dtype, b.dtype)
                self.assertEqual(a.tobytes(), b.tobytes())
            for a, b in zip(want, fast.run(None, given), strict=True):
                self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                wide, close = a.astype(np.float64), b.astype(np.float64)
                finite = np.isfinite(wide)
                np.testing.assert_array_equal(wide[~finite], close[~finite])
                error = np.max(np.abs(wide[finite] - close[finite]), initial=0)
                self.assertLessEqual(error, limit * np.max(np.abs(wide[finite]), initial=1))

    def test_fused_against_unfused(self):
        for name in PASSES:
            for title, model, _ in cases(name):
                with self.subTest(name, case=title):
                    self.check(model)

    def test_steps_are_saved(self):
        for name in [p for p in PASSES if p not in TURNING]:
            for title, model, fused in cases(name):
                if not fused or "faithful" in title or "author" in title:
                    continue
                with self.subTest(name, case=title):
                    data = onnx_bytes(model)
                    plain = step_count(demi.compile(data, keep_values=True))
                    # below AVX-512 16-bit values are widened first, by Casts, but in small plans
                    small = title.startswith("16 bit") and not features() & {"avx512f"}
                    self.assertLess(step_count(demi.compile(data, small=small)), plain)

    def test_plans(self):
        for name in PASSES:
            title, model, _ = cases(name)[0]
            data = onnx_bytes(model)
            text = f"# {name}: {title}; fast, then faithful\n"
            for numerics in NUMERICS:
                text += "\n" + re.sub(r"(?m)^source .*\n", "", show(demi.compile(data, numerics=numerics)))
            path = ROOT / f"testdata/plans/{name}.txt"
            if args.update:
                path.write_text(text)
            with self.subTest(name):
                self.assertEqual(path.read_text(), text)

    def test_tables(self):
        """Rows of a large table are converted and nothing else, to the same bits."""
        random, (rows, width) = np.random.default_rng(3), TABLE
        table = {"int8": random.integers(-128, 128, TABLE, np.int8),
                 "float16": random.standard_normal(TABLE).astype(np.float16)}
        scales = {"all": (np.float32(0.01), np.int8(3)),
                  "rows": (random.random(rows, np.float32), random.integers(-9, 9, rows, np.int8)),
                  "columns": (random.random(width, np.float32),
                              random.integers(-9, 9, width, np.int8)),
                  "blocks": (random.random((rows, width // 32), np.float32).astype(np.float16),
                             random.integers(-9, 9, (rows, width // 32), np.int8))}
        axes = {"rows": "<axis = 0>", "columns": "<axis = -1>", "blocks": "<axis=1,block_size=32>"}
        for kind, (scale, zero) in scales.items():
            to = "float16" if kind == "blocks" else "float"
            self.check_table(f"{to}[n,s,{width}] y", f"x = DequantizeLinear {axes.get(kind, '')}"
                             " (t, s, z) y = Gather (x, i)",
                             {"t": table["int8"], "s": scale, "z": zero})
        self.check_table(f"float[n,s,{width}] y", "x = Cast <to = 1> (t) y = Gather (x, i)",
                         {"t": table["float16"]})
        self.check_table(f"float[n,s,{width}] y",
                         "x = DequantizeLinear (t, s) h = Cast <to = 10> (x) v = Cast <to = 1> (h)"
                         " y = Gather (v, i)", {"t": table["int8"], "s": np.float32(0.01)})

    def check_table(self, output: str, body: str, weights: dict[str, np.ndarray]) -> None:
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>'
                                        f" g (int64[n,s] i) => ({output}) {{ {body} }}")
        for name, value in weights.items():
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        data, size = model.SerializeToString(), weights["t"].nbytes
        plain = session(data, numerics="faithful", keep_values=True)
        for numerics in NUMERICS:
            plan = demi.compile(data, numerics=numerics)
            self.assertLess(len(plan), size * 1.2)
            runner = session(plan)
            for indices in ([[0, -1, 7]], [[5]], [[1, 2], [3, -4]]):
                want, got = (each.run(None, {"i": np.array(indices)})[0] for each in (plain, runner))
                self.assertEqual((want.dtype, want.shape), (got.dtype, got.shape))
                self.assertEqual(want.tobytes(), got.tobytes())
            self.assertLess(runner.memory_peak(), size / 2)

    def test_shared_tables(self):
        """A quantized table that a product reads, too, is not made of floats for the rows."""
        random, (rows, width) = np.random.default_rng(4), TABLE
        model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
            g (int64[n] i, float[m,{width}] v) => (float[n,{width}] a, float[m,{rows}] b)
            <float c = {{0.05}}, uint8 o = {{128}}>
            {{
                x = DequantizeLinear <axis = 0> (t, s, z)
                a = Gather (x, i)
                q = QuantizeLinear (v, c, o)
                d = DequantizeLinear (q, c, o)
                g = Gemm <transB = 1> (d, x)
                h = QuantizeLinear (g, c, o)
                b = DequantizeLinear (h, c, o)
            }}""")
        for name, value in {"t": random.integers(-128, 128, TABLE, np.int8),
                            "s": random.random(rows, np.float32) / 1000,
                            "z": np.zeros(rows, np.int8)}.items():
            model.graph.initializer.append(numpy_helper.from_array(value, name))
        data = model.SerializeToString()
        plain = session(data, numerics="faithful", keep_values=True)
        plan = demi.compile(data)
        self.assertNotIn(f"float[{rows},{width}]", show(plan))
        given = {"i": np.array([7, -1, 7]), "v": random.standard_normal((2, width), np.float32)}
        want, got = plain.run(None, given), session(plan).run(None, given)
        self.assertEqual(want[0].tobytes(), got[0].tobytes())
        self.assertLessEqual(np.max(np.abs(want[1] - got[1])), 0.0501)

    def test_one_hot(self):
        """Places far beyond the weights' rows pick zeros, and negative ones as they are counted."""
        places = [0, 2, 3, 1, -1, -3, -4, 2**31 - 1, -2**31, 7]
        w = np.random.default_rng(5).standard_normal((3, 20), np.float32)
        for dtype, far in (("int32", []), ("int64", [2**40, -2**63, 2**63 - 1])):
            x = np.array(places + far, dtype)
            for shape, body in (((len(x), 1), "e = Equal (x, k) r = Cast <to = 1> (e)"),
                                ((len(x), 1), "e = Equal (k, x) r = Cast <to = 1> (e)"),
                                ((len(x),), "r = OneHot (x, d, v)")):
                data = onnx_bytes(f"""<ir_version: 8, opset_import: ["" : 15]>
                    g ({dtype}{list(shape)} x) => (float[{len(x)},20] y)
                    <{dtype}[3] k = {{0, 1, 2}}, {dtype}[1] d = {{3}}, float[2] v = {{0, 1}},
                     float[3,20] w = {{{", ".join(map(str, w.ravel()))}}}>
                    {{ {body} y = MatMul (r, w) }}""")
                plan = demi.compile(data)
                want, got = (each.run(None, {"x": x.reshape(shape)})[0]
                             for each in (session(data, numerics="faithful"), session(plan)))
                self.assertIn("= Gather-", show(plan))
                self.assertNotRegex(show(plan), "= (Equal|OneHot)-")
                np.testing.assert_array_equal(got, want)

    def test_folding(self):
        """Constants are computed, but not what grows, is random, or fails."""
        data = onnx_bytes("""<ir_version: 8, opset_import: ["" : 17]>
            g (float[2] x) => (float[2] y, float z, float r, float[2] f)
            <float[2] a = {1, 2}, float[2] b = {3, 4}, int64[2] big = {1024, 1024},
             int64[1] far = {7}>
            {
                s = Add (a, b)
                k = Exp (s)
                y = Mul (x, k)
                e = Expand (a, big)
                z = ReduceSum <keepdims = 0> (e)
                n = RandomNormal <shape = [4]> ()
                r = ReduceSum <keepdims = 0> (n)
                t = Gather (a, far)
                f = Add (x, t)
            }""".replace("{1024, 1024}", "{262144, 2}"))
        text = show(demi.compile(data))
        steps = re.findall(r"(?m)^    [%\d, ]+ = (\w+)-", text)
        self.assertEqual(steps, ["Mul", "Expand", "ReduceSum", "RandomNormal", "ReduceSum",
                                 "Gather", "Add"])
        self.assertIn('"k" float[2] = {54.5981', text)
        self.assertNotIn('"s"', text)

    def test_folding_in_bodies(self):
        """Bodies' constants are computed, too, be they of an outer graph or what a body gives."""
        data = onnx_bytes("""<ir_version: 8, opset_import: ["" : 17]>
            g (float[2] x, bool c, int64 n) => (float[2] y, float[2] z)
            <float[2] a = {1, 2}, float[2] b = {3, 4}>
            {
                s = Add (a, b)
                y = If (c) <then_branch = t () => (float[2] p) {
                    k = Mul (s, a)
                    p = If (c) <then_branch = tt () => (float[2] pp) {
                        kk = Sub (k, b)
                        pp = Mul (x, kk)
                    }, else_branch = te () => (float[2] pe) { pe = Neg (x) }>
                }, else_branch = e () => (float[2] q) { q = Div (s, a) }>
                z = Loop (n, c, x) <body = l (int64 i, bool go, float[2] v)
                    => (bool on, float[2] w) {
                    on = Identity (go)
                    d = Sub (b, a)
                    w = Add (v, d)
                }>
            }""")
        for numerics in NUMERICS:
            plan = demi.compile(data, numerics=numerics)
            steps = re.findall(r"(?m)^    [%\d, ]+ = (\w+)-", show(plan))
            self.assertEqual(sorted(steps), ["Add", "Identity", "If", "If", "Loop", "Mul", "Neg"])
            runner, x = session(plan), np.float32([5, 7])
            for c in (True, False, True):
                y, z = runner.run(None, {"x": x, "c": np.array(c), "n": np.array(3)})
                np.testing.assert_array_equal(y, x * [1, 8] if c else [4, 3])
                np.testing.assert_array_equal(z, x + [6, 6] if c else x)

    def test_numerics_differ(self):
        model = """<ir_version: 8, opset_import: ["" : 17]>
            g (float16[1,2,8,8] x, float16[1,2,8,8] z) => (float16[1,2,8,8] y)
            <float16[2,2,1,1] w = {1.5v, -2.25v, 0.75v, 3.5v}>
            { c = Conv (x, w)  s = Add (c, z)  y = Relu (s) }"""
        data, random = onnx_bytes(model), np.random.default_rng(5)
        # few bits, so that sums of products are exact in float32 whatever their order
        x, z = (np.float16(random.integers(-2047, 2048, (1, 2, 8, 8)) / d) for d in (64, 1024))
        w = np.float32([[1.5, -2.25], [0.75, 3.5]])
        conv = np.einsum("oc,nchw->nohw", w, x.astype(np.float32))
        each = np.maximum(np.float16(np.float16(conv).astype(np.float32) + z), np.float16(0))
        once = np.float16(np.maximum(conv + z.astype(np.float32), 0))
        self.assertTrue(np.any(each != once))
        for numerics, want in (("faithful", each), ("fast", once)):
            np.testing.assert_array_equal(session(data, numerics=numerics).run(None, {"x": x, "z": z})[0], want)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--update", action="store_true")
    args, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
