#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cross-layer equalization (passes/equalize.c), in ONNX Runtime and in demi.

The pass changes no bit of what a model gives, however layers are arranged, and a second run changes nothing. Where
channels of very different size share a scale, `convert --to int8` loses much less by it, on inputs that were not
calibrated with; where they are alike, the model stays as it is.

    tools/suites/equalize_test.py --demi build/release/demi
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

args = argparse.Namespace()
C = 24  # channels of most values


def model_of(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    made.graph.initializer.extend(numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items())
    return made


def apart(rng: np.random.Generator, shape: tuple[int, ...], axis: int, decades: float = 3) -> np.ndarray:
    """Weights whose channels along the axis are so many decades apart."""
    sizes = 10.0 ** (decades * rng.permutation(np.linspace(-0.5, 0.5, shape[axis])))
    return rng.standard_normal(shape) * sizes.reshape([-1 if i == axis else 1 for i in range(len(shape))])


def undone(rng: np.random.Generator, shape: tuple[int, ...], axis: int, of: np.ndarray, along: int) -> np.ndarray:
    """Weights that multiply such channels by as much less."""
    sizes = np.moveaxis(np.abs(of), along, 0).reshape(of.shape[along], -1).max(axis=1)
    return rng.standard_normal(shape) / sizes.reshape([-1 if i == axis else 1 for i in range(len(shape))])


def models(rng: np.random.Generator) -> dict[str, tuple[onnx.ModelProto, tuple[int, ...]]]:
    """Each with the shape of its input; all have channels far apart that the next layer evens out."""
    dense, point, line = apart(rng, (C, 3, 3, 3), 0), apart(rng, (C, C, 1, 1), 0), apart(rng, (C, C), 1)
    depth, bias = apart(rng, (C, 1, 3, 3), 0), apart(rng, (C,), 0)
    image, rows = (2, 3, 12, 12), (2, 7, C)
    return {
        "convolutions": (model_of(
            """g (float[2,3,12,12] x) => (float[n,c,h,w] y) {
               h = Conv (x, w, b)  r = Relu (h)  y = Conv (r, v) }""",
            w=dense, b=bias, v=undone(rng, (5, C, 3, 3), 1, dense, 0)), image),
        "depthwise": (model_of(
            f"""g (float[2,{C},12,12] x) => (float[n,c,h,w] y) {{
               h = Conv <group = {C}, pads = [1, 1, 1, 1]> (x, w, b)  r = LeakyRelu (h)
               p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)  y = Conv (p, v) }}""",
            w=depth, b=bias, v=undone(rng, (9, C, 1, 1), 1, depth, 0)), (2, C, 12, 12)),
        "into_depthwise": (model_of(
            f"""g (float[2,{C},12,12] x) => (float[n,c,h,w] y) {{
               h = Conv (x, w)  r = Relu (h)  d = Conv <group = {C}> (r, m)  s = PRelu (d, a)  y = Conv (s, v) }}""",
            w=point, m=undone(rng, (C, 1, 3, 3), 0, point, 0), a=np.full((C, 1, 1), 0.2),
            v=rng.standard_normal((6, C, 1, 1))), (2, C, 12, 12)),
        "groups": (model_of(
            """g (float[2,3,12,12] x) => (float[n,c,h,w] y) {
               h = Conv (x, w)  r = Relu (h)  y = Conv <group = 3> (r, v) }""",
            w=dense, v=undone(rng, (6, C // 3, 3, 3), 1, dense[:C // 3], 0)), image),
        "products": (model_of(
            f"""g (float[2,7,{C}] x) => (float[n,s,c] y, float[n,s,d] z) {{
               h = MatMul (x, w)  a = Add (b, h)  r = Relu (a)  y = MatMul (r, v)  z = MatMul (r, u) }}""",
            w=line, b=bias, v=undone(rng, (C, 8), 0, line, 1), u=undone(rng, (C, 5), 0, line, 1)), rows),
        "gemm": (model_of(
            f"""g (float[14,{C}] x) => (float[n,c] y) {{
               h = Gemm <transB = 1, alpha = 0.5, beta = 2.0> (x, w, b)  r = Relu (h)  y = Gemm (r, v) }}""",
            w=line.T, b=bias, v=undone(rng, (C, 8), 0, line, 1)), (14, C)),
        "norm": (model_of(
            f"""g (float[2,7,{C}] x) => (float[n,s,c] y) {{
               h = LayerNormalization (x, s, b)  m = Mul (h, k)  y = MatMul (m, v) }}""",
            s=np.abs(apart(rng, (C,), 0)) + 1e-4, b=0.1 * bias, k=np.full((C,), -0.3),
            v=undone(rng, (C, 8), 0, line, 1)), rows),
        "batch_norm": (model_of(
            f"""g (float[2,{C},9,9] x) => (float[n,c,h,w] y) {{
               h = BatchNormalization (x, s, b, m, q)  r = Abs (h)  g = GlobalAveragePool (r)  y = Conv (g, v) }}""",
            s=bias, b=0.1 * bias, m=np.zeros(C), q=np.ones(C), v=undone(rng, (5, C, 1, 1), 1, bias, 0)), (2, C, 9, 9)),
        "branch": (model_of(
            """g (float[2,3,12,12] x, bool c) => (float[n,c,h,w] y) {
               y = If (c) <then_branch = t () => (float[n,c,h,w] o) { h = Conv (x, w)  r = Relu (h)  o = Conv (r, v) },
                           else_branch = e () => (float[n,c,h,w] p) { i = Conv (x, w2)  q = Relu (i)  p = Conv (q, v2) }> }""",
            w=dense, v=undone(rng, (5, C, 3, 3), 1, dense, 0), w2=dense, v2=undone(rng, (5, C, 3, 3), 1, dense, 0)),
            image),
    }


# What keeps channels from being scaled: each is the first of them, in parts.
LEFT = {
    "an output": "g (float[2,3,12,12] x) => (float[n,c,h,w] y, float[n,c,h,w] r) { h = Conv (x, w)  r = Relu (h)  y = Conv (r, v) }",
    "a sum": "g (float[2,3,12,12] x) => (float[n,c,h,w] y, float[n,c,h,w] z) { h = Conv (x, w)  r = Relu (h)  y = Conv (r, v)  z = Add (r, one) }",
    "no factor": "g (float[2,3,12,12] x) => (float[n,c,h,w] y) { h = Conv (x, w)  r = Sigmoid (h)  y = Conv (r, v) }",
    "a bound": "g (float[2,3,12,12] x) => (float[n,c,h,w] y) { h = Conv (x, w)  r = Clip (h, zero, one)  y = Conv (r, v) }",
    "twice": "g (float[2,3,12,12] x) => (float[n,c,h,w] y, float[n,c,h,w] z) { h = Conv (x, w)  r = Relu (h)  y = Conv (r, v)  z = Conv (x, w) }",
    "a branch": """g (float[2,3,12,12] x, bool b) => (float[n,c,h,w] y) { h = Conv (x, w)
        y = If (b) <then_branch = t () => (float[n,c,h,w] o) { o = Conv (h, v) }, else_branch = e () => (float[n,c,h,w] p) { p = Conv (h, v) }> }""",
}


def demi(*words: object) -> subprocess.CompletedProcess:
    done = subprocess.run([str(args.demi), *map(str, words)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"demi {' '.join(map(str, words))}: {done.stderr}")
    return done


def runs(model: pathlib.Path, values: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return session.run(None, values)


def sqnr(want: np.ndarray, have: np.ndarray) -> float:
    return float(10 * np.log10((want.astype(np.float64) ** 2).sum() / ((want - have).astype(np.float64) ** 2).sum()))


class Equalize(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, model: onnx.ModelProto) -> pathlib.Path:
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        return path

    def equalized(self, path: pathlib.Path) -> pathlib.Path:
        out = path.with_suffix(".equal.onnx")
        demi("opt", path, "-o", out, "--passes", "infer-dtypes,infer-shapes,equalize")
        return out

    def changed(self, a: pathlib.Path, b: pathlib.Path) -> list[str]:
        """Names of initializers that differ; nothing else may."""
        ours, theirs = onnx.load(a).graph, onnx.load(b).graph
        self.assertEqual(ours.node, theirs.node)
        pairs = zip(ours.initializer, theirs.initializer, strict=True)
        return [p.name for p, q in pairs if not np.array_equal(numpy_helper.to_array(p), numpy_helper.to_array(q))]

    def test_bits(self) -> None:
        rng = np.random.default_rng(3)
        for name, (model, shape) in models(rng).items():
            with self.subTest(name):
                path = self.write(model)
                out = self.equalized(path)
                self.assertGreaterEqual(len(self.changed(path, out)), 2)
                self.assertEqual(out.read_bytes(), self.equalized(out).read_bytes())
                for flag in (True, False) if name == "branch" else (True,):
                    values = {"x": rng.standard_normal(shape).astype(np.float32)}
                    if name == "branch":
                        values["c"] = np.array(flag)
                    for a, b in zip(runs(path, values), runs(out, values), strict=True):
                        self.assertEqual(a.tobytes(), b.tobytes())

    def test_int8(self) -> None:
        rng = np.random.default_rng(4)
        for name, (model, shape) in models(rng).items():
            if name in ("branch", "into_depthwise"):  # a condition is random; the middle layer's own scales suffice
                continue
            with self.subTest(name):
                path, low = self.write(model), self.folder / "low.onnx"
                values = {"x": rng.standard_normal(shape).astype(np.float32)}
                want, scores = runs(path, values)[0], {}
                for word in ("never", "data"):
                    demi("convert", path, "-o", low, "--to", "int8", "--calibrate", "random", "--equalize", word)
                    scores[word] = sqnr(want, runs(low, values)[0])
                self.assertGreater(scores["data"], scores["never"] + 3, scores)
                self.assertGreater(scores["data"], 28, scores)

    def smooth(self, path: pathlib.Path, *words: object) -> tuple[pathlib.Path, str, str]:
        """int8, what was said, and the channel scales as a pipeline has them."""
        low = self.folder / "low.onnx"
        call = ("convert", path, "-o", low, "--to", "int8", "--calibrate", self.folder / "data", *words)
        said = demi(*call).stdout
        policy = self.folder / "policy.json"
        policy.write_text(demi(*call, "--print-policy").stdout)
        scales = json.loads(policy.read_text()).get("channel_scales", {})
        return low, said, json.dumps([f"{name}={exponents}" for name, exponents in scales.items()])

    def test_values(self) -> None:
        """What others read, too, is multiplied before products: SmoothQuant."""
        rng = np.random.default_rng(8)
        sizes = apart(rng, (C,), 0, 2.5)
        plain = {"s": np.abs(sizes) + 1e-3, "b": 0.1 * sizes}
        line = plain["s"].reshape(1, C)
        for name, text, weights, shape, word, gain in (
            ("products", f"""g (float[n,7,{C}] x) => (float[n,s,c] y, float[n,s,d] z, float[n,7,{C}] r) {{
                h = LayerNormalization (x, s, b)  y = MatMul (h, v)  z = MatMul (h, u)  r = Add (h, x) }}""",
             plain | {"v": undone(rng, (C, 8), 0, line, 1), "u": undone(rng, (C, 5), 0, line, 1)}, (2, 7, C), "data", 6),
            ("convolution", f"""g (float[n,{C},9,9] x) => (float[n,c,h,w] y) {{
                m = Mul (x, k)  h = Softplus (m)  y = Conv (h, v) }}""",
             {"k": np.full((C, 1, 1), 1), "v": undone(rng, (6, C, 3, 3), 1, line, 1)}, (2, C, 9, 9), "all", 6)):
            with self.subTest(name):
                path = self.write(model_of(text, **weights))
                shutil.rmtree(self.folder / "data", ignore_errors=True)
                (self.folder / "data").mkdir()
                scale = line.reshape(1, C, 1, 1) if name == "convolution" else 1
                make = lambda: (np.abs(rng.standard_normal(shape)) * scale).astype(np.float32)
                for i in range(8):
                    np.savez(self.folder / f"data/{i}.npz", x=make())
                values, scores = {"x": make()}, {}
                want = runs(path, values)
                for how in ("never", word):
                    low, said, scales = self.smooth(path, "--equalize", how)
                    scores[how] = sqnr(want[0], runs(low, values)[0])
                    self.assertEqual("SmoothQuant" in said, how != "never", said)
                self.assertGreater(scores[word], scores["never"] + gain, scores)
                out = self.folder / "equal.onnx"
                demi("opt", path, "-o", out, "--passes", f"infer-dtypes,infer-shapes,equalize{{scales={scales}"
                     f"{',convolutions=true' if word == 'all' else ''}}}")
                self.assertEqual([n.op_type for n in onnx.load(out).graph.node].count("Mul"), 1 + (name == "convolution"))
                for a, b in zip(want, runs(out, values), strict=True):
                    self.assertEqual(a.tobytes(), b.tobytes())
                _, said, _ = self.smooth(path, "--equalize", word, "--keep-ops", "MatMul" if word == "data" else "Conv")
                self.assertNotIn("SmoothQuant", said)
        _, said, _ = self.smooth(path)  # convolutions only if asked for
        self.assertNotIn("SmoothQuant", said)

    def test_not_finite(self) -> None:
        """Channels that are not finite on some set stay; a conversion that went without them goes on."""
        rng = np.random.default_rng(7)
        model, shape = models(rng)["convolutions"]
        path, data, said = self.write(model), self.folder / "data", []
        data.mkdir()
        for fill in (None, np.inf):
            x = rng.standard_normal(shape).astype(np.float32)
            if fill:
                x[0, 0, 0, 0] = fill
            np.savez(data / f"{len(said)}.npz", x=x)
            done = subprocess.run([str(args.demi), "convert", path, "-o", self.folder / "o.onnx", "--to", "int8",
                                   "--calibrate", data, "--calibration", "percentile"], capture_output=True, text=True)
            said.append(done.stdout + done.stderr)
        self.assertIn("scaled the channels", said[0])
        self.assertNotIn("scaled", said[1])

    def test_left_alone(self) -> None:
        rng = np.random.default_rng(5)
        dense = apart(rng, (C, 3, 3, 3), 0)
        for why, text in LEFT.items():
            with self.subTest(why):
                path = self.write(model_of(text, w=dense, v=undone(rng, (5, C, 3, 3), 1, dense, 0),
                                           one=np.array(1), zero=np.array(0)))
                self.assertEqual(self.changed(path, self.equalized(path)), [])
        alike = self.write(model_of("g (float[2,3,12,12] x) => (float[n,c,h,w] y) { h = Conv (x, w)  y = Conv (h, v) }",
                                    w=rng.standard_normal((C, 3, 3, 3)), v=rng.standard_normal((5, C, 3, 3))))
        self.assertEqual(self.changed(alike, self.equalized(alike)), [])

    def test_tiny_numbers(self) -> None:
        """Where a power of two would not be exact, the channel stays."""
        rng = np.random.default_rng(6)
        dense = apart(rng, (C, 3, 3, 3), 0)
        v = undone(rng, (5, C, 3, 3), 1, dense, 0)
        dense[3, 0, 0, 0], v[0, 5, 0, 0] = 1e-41, 1e30
        path = self.write(model_of("g (float[2,3,12,12] x) => (float[n,c,h,w] y) { h = Conv (x, w)  y = Conv (h, v) }",
                                   w=dense, v=v))
        out = onnx.load(self.equalized(path)).graph.initializer
        for which, channels in ((0, [3, 5]), (1, [3, 5])):
            a = np.moveaxis(numpy_helper.to_array(onnx.load(path).graph.initializer[which]), which, 0)
            b = np.moveaxis(numpy_helper.to_array(out[which]), which, 0)
            self.assertEqual([i for i in range(C) if np.array_equal(a[i], b[i]) and i in channels], channels)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demi", type=pathlib.Path, required=True)
    args, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=1)
