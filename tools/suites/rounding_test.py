#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights that `convert --calibrate` rounds by GPTQ, in ONNX Runtime, on inputs that were not calibrated with.

Layers of all kinds whose inputs depend on each other lose less than rounding to nearest costs, in files of the same
form and size; on the calibration data no product loses more. Neither threads, nor memory that makes several passes over
the data necessary, nor a run before (--verify) change a byte. What can't be done is one line.

    tools/suites/rounding_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from suite.package import demi, library_option

args = argparse.Namespace()
DEPTH, SETS = 48, 6


def model_of(text: str, opset: int = 21, **weights: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')
    made.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return made


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def inputs(rng: np.random.Generator, shape: list[int], axis: int, mix: np.ndarray) -> dict[str, np.ndarray]:
    """Vectors along the axis that lie near a few directions, as activations do."""
    x = np.moveaxis(normal(rng, *shape), axis, -1)
    return {"x": np.ascontiguousarray(np.moveaxis(x @ mix[:x.shape[-1], :x.shape[-1]], -1, axis))}


def runs(model: onnx.ModelProto | pathlib.Path, sets: list[dict]) -> list[np.ndarray]:
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4 # y's shape is left open
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return [session.run(None, values)[0] for values in sets]


def noise(want: list[np.ndarray], have: list[np.ndarray]) -> float:
    return float(sum(((a - b).astype(np.float64) ** 2).sum() for a, b in zip(want, have)))


D = DEPTH
LAYERS = {  # nodes, shape of x, shape of w, the axis that is summed over in x
    "matmul": ("y = MatMul (x, w)", [2, 30, D], (D, 20), -1),
    "gemm": ("y = Gemm <alpha = 0.5> (x, w)", [60, D], (D, 20), -1),
    "gemm_b": ("y = Gemm <transB = 1> (x, w)", [60, D], (20, D), -1),
    "gemm_a": ("y = Gemm <transA = 1> (x, w)", [D, 60], (D, 20), 0),
    "turned": ("t = Transpose <perm = [1, 0]> (w)\ny = MatMul (x, t)", [60, D], (20, D), -1),
    "shared": ("a = MatMul (x, w)\nr = Relu (x)\nb = MatMul (r, w)\ny = Sub (a, b)", [60, D], (D, 20), -1),
    "loop": ("n = Constant <value_ints = [3]> ()\nm = Squeeze (n)\nc = Constant <value = bool {1}> ()\n"
             "z, s = Loop (m, c, x) <body = b (int64 i, bool d, float[60, 48] h) => (bool e, float[60, 48] g, float[60, 20] v) "
             "{ e = Identity (d)\nv = MatMul (h, w)\ng = Neg (h) }>\ny = Identity (s)", [60, D], (D, 20), -1),
}
CONVOLUTIONS = {
    "point": ("y = Conv (x, w)", [1, D, 9, 8], (20, D, 1, 1), 1),
    "dense": ("y = Conv <pads = [1, 1, 1, 1], strides = [2, 1]> (x, w)", [2, 12, 11, 9], (10, 12, 3, 3), 1),
    "same": ('y = Conv <auto_pad = "SAME_UPPER", strides = [2, 1]> (x, w)', [1, 12, 11, 9], (10, 12, 3, 2), 1),
    "groups": ("y = Conv <group = 3> (x, w)", [1, 12, 11, 9], (9, 4, 3, 3), 1),
    "depthwise": ("y = Conv <group = 12, pads = [1, 1, 1, 1]> (x, w)", [1, 12, 15, 15], (12, 1, 5, 5), -1),
    "line": ("y = Conv <pads = [2, 2]> (x, w)", [2, 12, 40], (10, 12, 5), 1),
}


class Layer:
    """A model of one layer, and its data, in a folder."""

    def __init__(self, at: pathlib.Path, layer: tuple, seed: int = 0) -> None:
        nodes, shape, weights, axis = layer
        rng = np.random.default_rng(seed)
        self.at, self.path = at, at / "model.onnx"
        self.model = model_of(f"g (float[{', '.join(map(str, shape))}] x) => (float y) {{\n{nodes}\n}}",
                              w=normal(rng, *weights) / 4)
        mix = normal(rng, DEPTH, 6) @ normal(rng, 6, DEPTH) / 2 + np.eye(DEPTH, dtype=np.float32) / 4
        self.sets = [inputs(rng, shape, axis, mix) for _ in range(SETS)]
        self.fresh = [inputs(rng, shape, axis, mix) for _ in range(4)]
        onnx.save(self.model, self.path)
        (at / "data").mkdir(exist_ok=True)
        for i, values in enumerate(self.sets):
            np.savez(at / "data" / f"{i}.npz", **values)

    def demi(self, *words: object) -> subprocess.CompletedProcess:
        return subprocess.run([str(args.demi), *map(str, words)], cwd=self.at, capture_output=True, text=True, check=False)

    def convert(self, out: str, *words: object) -> pathlib.Path:
        done = self.demi("convert", "model.onnx", "-o", out, "--quiet", *words)
        if done.returncode:
            raise AssertionError(done.stderr)
        return self.at / out


class Rounding(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def check_layer(self, layer: tuple, *words: str, most: float) -> None:
        made = Layer(self.at, layer)
        near, ours = made.convert("near.onnx", *words), made.convert("ours.onnx", *words, "--calibrate", "data")
        onnx.checker.check_model(str(ours), full_check=True)
        a, b = onnx.load(near), onnx.load(ours)
        self.assertEqual([(t.name, t.data_type, t.dims) for t in a.graph.initializer],
                         [(t.name, t.data_type, t.dims) for t in b.graph.initializer])
        self.assertEqual([n.op_type for n in a.graph.node], [n.op_type for n in b.graph.node])
        for sets, limit in ((made.fresh, most), (made.sets, most)):
            want = runs(made.model, sets)
            self.assertLess(noise(want, runs(ours, sets)), limit * noise(want, runs(near, sets)))

    def test_matrices_lose_less(self) -> None:
        for name, layer in LAYERS.items():
            for words in (["int4-weights"], ["int4-weights", "--block", "20"], ["int8-weights"], ["fp8-weights"],
                          ["int8-weights", "--block", "16"]):
                with self.subTest(layer=name, to=words):
                    self.check_layer(layer, "--to", *words, most=0.6)

    def test_convolutions_lose_less(self) -> None:
        for name, layer in CONVOLUTIONS.items():
            with self.subTest(layer=name):
                self.check_layer(layer, "--to", "int8-weights", most=0.97 if name == "depthwise" else 0.9)

    def test_models_in_float16(self) -> None:
        made = Layer(self.at, LAYERS["matmul"])
        made.convert("half.onnx", "--to", "float16", "--io", "low")
        (self.at / "half.onnx").rename(made.path)
        half = lambda sets: [{"x": values["x"].astype(np.float16)} for values in sets]
        for i, values in enumerate(half(made.sets)):
            np.savez(self.at / "data" / f"{i}.npz", **values)
        near, ours = made.convert("near.onnx", "--to", "int4-weights"), made.convert("ours.onnx", "--to", "int4-weights", "--calibrate", "data")
        want = runs(made.path, half(made.fresh))
        self.assertLess(noise(want, runs(ours, half(made.fresh))), 0.7 * noise(want, runs(near, half(made.fresh))))

    def test_nothing_else_changes_a_byte(self) -> None:
        """Of several products, whose moments take 360 KB each: in half of 4 MB there is room for one of them and its factor."""
        rng = np.random.default_rng(5)
        made = Layer(self.at, LAYERS["matmul"])
        text = "\n".join(f"h{i + 1} = MatMul (h{i}, w{i})" for i in range(4))
        model = model_of(f"g (float[30, 300] x) => (float[30, 300] y) {{\nh0 = Relu (x)\n{text}\ny = Relu (h4)\n}}",
                         **{f"w{i}": normal(rng, 300, 300) / 17 for i in range(4)})
        onnx.save(model, made.path)
        for i in range(SETS):
            np.savez(self.at / "data" / f"{i}.npz", x=normal(rng, 30, 300))
        words = ["--to", "int4-weights", "--calibrate", "data"]
        want = made.convert("a.onnx", *words, "--threads", "1").read_bytes()
        for i, more in enumerate((["--threads", "3"], ["--memory", "4M"], ["--verify", "data"], ["--rounding", "gptq"])):
            with self.subTest(more=more):
                self.assertEqual(made.convert(f"b{i}.onnx", *words, *more).read_bytes(), want)
        again, _ = demi.convert(str(made.path), to="int4-weights", calibrate=str(self.at / "data"))
        self.assertEqual(again if isinstance(again, bytes) else again.SerializeToString(), want)
        near = [demi.convert(str(made.path), to="int4-weights", calibrate=data, policy=policy)[0]
                for data, policy in ((str(self.at / "data"), '{"rounding": "nearest"}'), (None, None))]
        self.assertEqual(*near)
        done = made.demi("convert", "model.onnx", "-o", "c.onnx", *words, "--memory", "900K")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("--memory", done.stderr)

    def test_inputs_that_are_0_or_unused(self) -> None:
        made = Layer(self.at, LAYERS["matmul"])
        for i, values in enumerate(made.sets):
            values["x"][..., ::3] = 0
            np.savez(self.at / "data" / f"{i}.npz", **values)
        near = made.convert("near.onnx", "--to", "int8-weights")
        ours = made.convert("ours.onnx", "--to", "int8-weights", "--calibrate", "data")
        a, b = (next(numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.data_type == onnx.TensorProto.INT8
                     and t.dims) for path in (near, ours))
        self.assertTrue((a[::3] == b[::3]).all() and (a != b).any())
        for i in range(SETS):
            np.savez(self.at / "data" / f"{i}.npz", x=np.zeros_like(made.sets[0]["x"]))
        self.assertEqual(made.convert("none.onnx", "--to", "int8-weights", "--calibrate", "data").read_bytes(),
                         near.read_bytes())

    def test_numbers_that_are_none(self) -> None:
        made = Layer(self.at, LAYERS["matmul"])
        made.sets[3]["x"][0, 4, 7] = np.nan
        np.savez(self.at / "data" / "3.npz", **made.sets[3])
        done = made.demi("convert", "model.onnx", "-o", "out.onnx", "--to", "int4-weights", "--calibrate", "data")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("'x' has NaN or infinite numbers on the calibration data", done.stderr)
        self.assertIn("3.npz", done.stderr)
        self.assertFalse((self.at / "out.onnx").exists())

    def test_what_is_asked_for(self) -> None:
        made = Layer(self.at, LAYERS["matmul"])
        near = made.convert("near.onnx", "--to", "int4-weights").read_bytes()
        random = made.demi("convert", "model.onnx", "-o", "o.onnx", "--to", "int4-weights", "--calibrate", "random")
        self.assertEqual(random.returncode, 2)
        self.assertIn("--rounding gptq", random.stderr)
        (self.at / "nearest.json").write_text('{"rounding": "nearest"}')
        for words in (["--calibrate", "data", "--rounding", "nearest"], ["--rounding", "gptq"],
                      ["--calibrate", "data", "--policy", "nearest.json"]):
            done = made.demi("convert", "model.onnx", "-o", "o.onnx", "--to", "int4-weights", *words)
            self.assertEqual(done.returncode, 2, done.stderr)
        done = made.demi("convert", "model.onnx", "-o", "o.onnx", "--to", "int8", "--calibrate", "data", "--rounding", "gptq")
        self.assertEqual(done.returncode, 2, done.stderr)
        drawn = made.convert("drawn.onnx", "--to", "int4-weights", "--calibrate", "random", "--rounding", "gptq")
        self.assertNotEqual(drawn.read_bytes(), near)

    def test_pipelines_say_that_data_is_needed(self) -> None:
        made = Layer(self.at, LAYERS["matmul"])
        done = made.demi("convert", "model.onnx", "--to", "int4-weights", "--calibrate", "data", "--print-pipeline")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rounding=gptq", done.stdout)
        self.assertIn("needs calibration data", done.stderr)
        done = made.demi("opt", "model.onnx", "-o", "o.onnx", "--passes", done.stdout.strip())
        self.assertEqual(done.returncode, 2)
        self.assertIn("needs calibration data", done.stderr)

    def test_report(self) -> None:
        made = Layer(self.at, LAYERS["matmul"])
        done = made.demi("convert", "model.onnx", "-o", "o.onnx", "--to", "int4-weights", "--calibrate", "data", "--json=-")
        report = json.loads(done.stdout)["calibration"]
        self.assertEqual((report["sets"], report["rounding"], report["rounded"]), (SETS, "gptq", 1))
        self.assertGreater(report["rounding_gain_db"], 3)
        self.assertIn("rounded 1 weight by GPTQ", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[library_option])
    parser.add_argument("--demi", type=pathlib.Path, required=True)
    args, rest = parser.parse_known_args(namespace=args)
    args.demi = args.demi.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
