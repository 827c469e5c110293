#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`convert --to int8-dynamic`: rows of activations quantized when the model runs, beside numpy's arithmetic.

numpy quantizes each row by its own least and greatest number and multiplies by the weights as they were stored. demi
(fused, and operator by operator), ONNX Runtime with its default options, and ONNX's reference evaluator give the same,
within few roundings, for products of all forms, in 32 and 16 bits, and for rows of zeros, infinities, and NaN. Each case
says which steps demi's plan has. Converting again changes nothing, and `--to float32` leads back.

    tools/suites/dynamic_rows_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import onnxruntime
import quantized_test
from onnx import TensorProto, helper, numpy_helper

from suite.engines import saturates
from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
args = argparse.Namespace()
TO = "int8-dynamic"
LEAST = np.float32(2.0**-126)
NEAR = 2e-5


def model_of(text: str, opset: int = 21, ir: int = 10, **weights: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n{text}')
    made.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return made


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def run(words: list[str], folder: pathlib.Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)


def rounded(x: np.ndarray) -> np.ndarray:
    """What the rows are after they were quantized, in double; rows that are not finite are NaN."""
    with np.errstate(all="ignore"):
        low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
        scale = np.maximum((high - low) * np.float32(1 / 255), LEAST) + x.sum(-1, keepdims=True) * np.float32(0)
        return low.astype(float) + scale.astype(float) * np.rint((x - low) / scale)


def by_ort(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def by_reference(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore") # of NaN cast to integers
        return onnx.reference.ReferenceEvaluator(onnx.load_model_from_string(model)).run(None, feeds)


def steps(model: bytes) -> collections.Counter:
    found = (step.removeprefix("demi.fused.") for step in quantized_test.steps(demi.compile(model)))
    return collections.Counter(found)


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The weights as int8-weights stores them, as floats."""
    stored = demi.convert(model.SerializeToString(), to="int8-weights")[0]
    plain = onnx.load_model_from_string(demi.convert(stored, to="float32")[0])
    constants = {t.name: numpy_helper.to_array(t).astype(float) for t in plain.graph.initializer}
    return constants | {n.output[0]: numpy_helper.to_array(n.attribute[0].t).astype(float)
                        for n in plain.graph.node if n.op_type == "Constant" and n.attribute[0].name == "value"}


RNG = np.random.default_rng(7)
D, N = 70, 33
W, V, B = normal(RNG, D, N) / 8, normal(RNG, D, N + 8) / 8, normal(RNG, N)
CASES = {  # text, weights, what numpy makes of x and the stored weights, steps of the plan
    "matrix": ("g (float[9, 70] x) => (float[9, 33] y) { y = MatMul (x, w) }", {"w": W}, lambda x, c: rounded(x) @ c["w"],
               {"QuantizeRows": 1, "QMatMul": 1}),
    "batch": ("g (float[2, 5, 70] x) => (float[2, 5, 33] y) { z = MatMul (x, w) \n a = Add (b, z) \n y = Relu (a) }",
              {"w": W, "b": B}, lambda x, c: np.maximum(rounded(x) @ c["w"] + B, 0), {"QuantizeRows": 1, "QMatMul": 1}),
    "rank 4": ("g (float[2, 3, 4, 70] x) => (float[2, 3, 4, 33] y) { y = MatMul (x, w) }", {"w": W},
               lambda x, c: rounded(x) @ c["w"], {"QuantizeRows": 1, "QMatMul": 1}),
    "vector": ("g (float[70] x) => (float[33] y) { y = MatMul (x, w) }", {"w": W}, lambda x, c: rounded(x) @ c["w"],
               {"QuantizeRows": 1, "QMatMul": 1}),
    "one row": ("g (float[1, 1, 70] x) => (float[1, 1, 33] y) { y = MatMul (x, w) }", {"w": W},
                lambda x, c: rounded(x) @ c["w"], {"QuantizeRows": 1, "QMatMul": 1}),
    "open": ("g (float[n, m, 70] x) => (float[n, m, 33] y) { y = MatMul (x, w) }", {"w": W},
             lambda x, c: rounded(x) @ c["w"], {"QuantizeRows": 1, "QMatMul": 1}),
    "gemm": ("g (float[9, 70] x) => (float[9, 33] y) { y = Gemm <alpha = 0.5, beta = 2.0> (x, w, b) }", {"w": W, "b": B},
             lambda x, c: rounded(x) @ c["w"] / 2 + 2 * B.astype(float), {"QuantizeRows": 1, "QMatMul": 1}),
    "gemm turned": ("g (float[9, 70] x) => (float[9, 33] y) { y = Gemm <transB = 1> (x, w, b) }",
                    {"w": np.ascontiguousarray(W.T), "b": B}, lambda x, c: rounded(x) @ c["w"].T + B,
                    {"QuantizeRows": 1, "QMatMul": 1}),
    "no bias": ("g (float[9, 70] x) => (float[9, 33] y) { y = Gemm <transB = 1, beta = 3.0> (x, w) }",
                {"w": np.ascontiguousarray(W.T)}, lambda x, c: rounded(x) @ c["w"].T, {"QuantizeRows": 1, "QMatMul": 1}),
    "rows together": ("g (float[9, 70] x) => (float[9, 33] y, float[9, 41] z) { y = MatMul (x, w) \n z = MatMul (x, v) }",
                      {"w": W, "v": V}, lambda x, c: (rounded(x) @ c["w"], rounded(x) @ c["v"]),
                      {"QuantizeRows": 1, "QMatMul": 2}),
    "weights together": ("g (float[9, 70] x) => (float[9, 33] y, float[9, 33] z) "
                         "{ r = Relu (x) \n y = MatMul (x, w) \n z = Gemm (r, w, b) }", {"w": W, "b": B},
                         lambda x, c: (rounded(x) @ c["w"], rounded(np.maximum(x, 0)) @ c["w"] + B),
                         {"QuantizeRows": 2, "QMatMul": 2}),
    "both ways": ("g (float[9, 70] x) => (float[9, 70] y) { h = MatMul (x, w) \n t = Transpose <perm = [1, 0]> (w) \n "
                  "r = Identity (h) \n y = MatMul (r, t) }", {"w": W}, None, None),
    "branch": ("g (float[9, 70] x, bool c) => (float[9, 33] y) { y = If (c) <then_branch = t () => (float[9, 33] a) "
               "{ a = MatMul (x, w) }, else_branch = e () => (float[9, 33] b) { n = Neg (x) \n b = MatMul (n, w) }> }", {"w": W},
               lambda x, c: rounded(x) @ c["w"], None),
}
STAYS = {  # what is not quantized by rows, and why
    "left": ("g (float[70, 9] x) => (float[33, 9] y) { y = MatMul (w, x) }", {"w": np.ascontiguousarray(W.T)}, "computed"),
    "gemm a": ("g (float[70, 9] x) => (float[9, 33] y) { y = Gemm <transA = 1> (x, w) }", {"w": W}, "Gemm transposes its data"),
    "matrices": ("g (float[2, 9, 70] x) => (float[2, 9, 33] y) { y = MatMul (x, w) }", {"w": np.stack([W, -W])},
                 "several matrices"),
    "conv": ("g (float[1, 3, 9, 9] x) => (float[1, 8, 7, 7] y) { y = Conv (x, w) }", {"w": normal(RNG, 8, 3, 3, 3)},
             "convolutions have no rows"),
}
HOSTILE = [0, 1e-42, 3.5, np.nan, np.inf, -np.inf, 1e30]


class Rows(unittest.TestCase):
    def feeds(self, model: onnx.ModelProto, dtype: type = np.float32) -> dict[str, np.ndarray]:
        found, rng = {}, np.random.default_rng(3)
        for value in model.graph.input:
            kind = value.type.tensor_type
            shape = [d.dim_value or 3 for d in kind.shape.dim]
            found[value.name] = np.array(True) if kind.elem_type == TensorProto.BOOL else (
                normal(rng, *shape) * rng.uniform(0.1, 9, (*shape[:-1], 1)) + rng.uniform(-2, 2)).astype(dtype)
        return found

    def engines(self, made: bytes, feeds: dict[str, np.ndarray], reference: bool = True) -> dict[str, list[np.ndarray]]:
        found = {numerics: session(made, numerics=numerics).run(None, feeds) for numerics in ("fast", "faithful")}
        if reference:
            found["reference"] = by_reference(made, feeds)
        if not saturates():
            found["ONNX Runtime"] = by_ort(made, feeds)
        return found

    def test_products(self):
        for name, (text, weights, formula, wanted) in CASES.items():
            with self.subTest(name):
                model = model_of(text, **weights)
                made, report = demi.convert(model.SerializeToString(), to=TO)
                onnx.checker.check_model(onnx.load_model_from_string(made), full_check=True)
                feeds = self.feeds(model)
                found = self.engines(made, feeds)
                want = found["reference"]
                if formula:
                    want = formula(feeds["x"], weights_of(model))
                    want = list(want) if isinstance(want, tuple) else [want]
                for engine, outputs in found.items():
                    for ours, right in zip(outputs, want, strict=True):
                        np.testing.assert_allclose(ours, right, rtol=0, atol=NEAR * np.abs(right).max(), err_msg=engine)
                if wanted:
                    have = steps(made)
                    self.assertEqual({step: have[step] for step in wanted}, wanted)
                    self.assertFalse({"MatMul", "MatMulInteger", "ReduceMax", "Round"} & set(have), have)
                self.assertEqual(demi.convert(made, to=TO)[0], made)

    def test_back(self):
        """The float model comes back, with its operators, and the rounding of its weights."""
        for name, (text, weights, *_) in CASES.items():
            with self.subTest(name):
                model = model_of(text, **weights)
                made = demi.convert(model.SerializeToString(), to=TO)[0]
                back = onnx.load_model_from_string(demi.convert(made, to="float32")[0])
                inner = {n.op_type for n in back.graph.node}
                self.assertFalse(inner & {"MatMulInteger", "ReduceMax", "Round", "DequantizeLinear", "Cast"}, inner)
                feeds = self.feeds(model)
                stored = demi.convert(model.SerializeToString(), to="int8-weights")[0] # whose activations ONNX Runtime rounds
                for ours, right in zip(by_reference(back.SerializeToString(), feeds), by_reference(stored, feeds), strict=True):
                    np.testing.assert_allclose(ours, right, rtol=0, atol=NEAR * np.abs(right).max())

    def test_stays(self):
        for name, (text, weights, why) in STAYS.items():
            with self.subTest(name):
                model = model_of(text, **weights)
                made, report = demi.convert(model.SerializeToString(), to=TO)
                self.assertNotIn("MatMulInteger", steps(made))
                self.assertIn(why, "".join(node.reason for node in report.nodes))
                self.assertEqual(demi.convert(made, to=TO)[0], made)

    def test_shared(self):
        """Weights are stored once, whatever reads them."""
        text, weights, *_ = CASES["weights together"]
        made = onnx.load_model_from_string(demi.convert(model_of(text, **weights).SerializeToString(), to=TO)[0])
        self.assertEqual([t.data_type for t in made.graph.initializer].count(TensorProto.INT8), 1)
        self.assertEqual(len({n.input[1] for n in made.graph.node if n.op_type == "MatMulInteger"}), 1)

    def test_hostile_rows(self):
        """A row that is not finite gives NaN, and others do not mind; zeros give zeros."""
        rows = np.tile(normal(np.random.default_rng(1), 1, D), (len(HOSTILE) + 1, 1))
        for i, number in enumerate(HOSTILE):
            rows[i, 5 * i:] = number
        rows[0] = 0
        model = model_of(f"g (float[{len(rows)}, 70] x) => (float[{len(rows)}, 33] y) {{ y = MatMul (x, w) }}", w=W)
        made = demi.convert(model.SerializeToString(), to=TO)[0]
        want = rounded(rows) @ weights_of(model)["w"]
        bad = [i for i, number in enumerate(HOSTILE) if not np.isfinite(number)]
        for engine, (y,) in self.engines(made, {"x": rows}).items():
            with self.subTest(engine):
                self.assertTrue(np.isnan(y[bad]).all())
                self.assertFalse(y[0].any())
                for i in set(range(len(rows))) - set(bad):
                    np.testing.assert_allclose(y[i], want[i], rtol=0, atol=NEAR * max(np.abs(want[i]).max(), 1e-30))

    def test_lone_nan(self):
        """Wherever it is in a row, of any length."""
        for depth in (1, 7, 16, 63, 384):
            weights = normal(np.random.default_rng(depth), depth, 64) / 8
            model = model_of(f"g (float[n, {depth}] x) => (float[n, 64] y) {{ y = MatMul (x, w) }}", w=weights)
            made = demi.convert(model.SerializeToString(), to=TO)[0]
            x = normal(np.random.default_rng(2), depth + 1, depth)
            x[np.arange(depth), np.arange(depth)] = np.nan
            for engine, (y,) in self.engines(made, {"x": x}).items():
                with self.subTest(engine=engine, depth=depth):
                    self.assertTrue(np.isnan(y[:depth]).all())
                    self.assertTrue(np.isfinite(y[depth]).all())

    def test_16_bits(self):
        """The model's own type, or that of the rest, is around products; scales are found in float32."""
        text, weights, *_ = CASES["batch"]
        for name, dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
            own = text.replace("float[", f"{name}[")
            model = model_of(own, 22, **{k: v.astype(dtype) for k, v in weights.items()})
            made = demi.convert(model.SerializeToString(), to=TO)[0]
            x = self.feeds(model, dtype)["x"]
            stored = weights_of(model)
            want = np.maximum(rounded(x.astype(np.float32)) @ stored["w"] + stored["b"], 0)
            with self.subTest(name):
                onnx.checker.check_model(onnx.load_model_from_string(made), full_check=True)
                self.assertEqual(steps(made)["QMatMul"], 1)
                self.assertEqual(demi.convert(made, to=TO)[0], made)
                for numerics in ("fast", "faithful"):
                    y, = session(made, numerics=numerics).run(None, {"x": x})
                    np.testing.assert_allclose(y.astype(float), want, rtol=0, atol=0.02 * want.max())
            with self.subTest(rest=name):
                made = demi.convert(model_of(text, 22, **weights).SerializeToString(), to=TO, rest=name)[0]
                self.assertEqual(steps(made)["QMatMul"], 1)
                self.assertEqual(demi.convert(made, to=TO, rest=name)[0], made)
                y, = session(made).run(None, {"x": x.astype(np.float32)})
                np.testing.assert_allclose(y, want, rtol=0, atol=0.02 * want.max())

    def test_mixed(self):
        """Beside convolutions of 16 bits, what scales rows stays in float32 when the model is converted again."""
        text = ("g (float[1, 3, 9, 9] x) => (float[1, 8, 7, 33] y) { a = Conv (x, k) \n b = Conv (a, l) \n c = Relu (b) \n "
                "y = MatMul (c, w) }")
        weights = {"k": normal(RNG, 6, 3, 1, 1), "l": normal(RNG, 8, 6, 3, 3), "w": normal(RNG, 7, N)}
        model = model_of(text, **weights)
        made = demi.convert(model.SerializeToString(), to=TO, rest="float16")[0]
        self.assertEqual(steps(made)["QMatMul"], 1)
        self.assertEqual(demi.convert(made, to=TO, rest="float16")[0], made)
        for placement in ("mincut", "greedy"):
            again = demi.convert(demi.convert(model.SerializeToString(), to=TO)[0], to="float16", placement=placement)[0]
            self.assertEqual(steps(again)["QMatMul"], 1)

    def test_opsets(self):
        """Reductions have their axes where the opset wants them; constants before IR version 4 are nodes."""
        text, weights, formula, _ = CASES["rows together"]
        for opset, ir in ((13, 3), (13, 7), (17, 8), (18, 8), (23, 11)):
            with self.subTest(opset=opset, ir=ir):
                model = model_of(text, opset, ir, **({} if ir < 4 else weights))
                for k, v in weights.items() if ir < 4 else ():
                    model.graph.node.insert(0, helper.make_node("Constant", [], [k], value=numpy_helper.from_array(v)))
                made = demi.convert(model.SerializeToString(), to=TO)[0]
                onnx.checker.check_model(onnx.load_model_from_string(made), full_check=True)
                feeds = {"x": self.feeds(model)["x"]}
                for engine, outputs in self.engines(made, feeds).items():
                    for ours, right in zip(outputs, formula(feeds["x"], weights_of(model)), strict=True):
                        np.testing.assert_allclose(ours, right, rtol=0, atol=NEAR * np.abs(right).max(), err_msg=engine)

    def test_choices(self):
        """Nodes that are kept, tables, and what has no effect."""
        text, weights, *_ = CASES["rows together"]
        model = model_of(text, **weights)
        for node, name in zip(model.graph.node, ("first", "second"), strict=True):
            node.name = name
        made, report = demi.convert(model.SerializeToString(), to=TO, keep=["first"])
        self.assertEqual(steps(made)["QMatMul"], 1)
        self.assertIn("kept by name", report.why("first"))
        self.assertIn("uint8 activations by rows, int8 weights", report.why("second"))
        stored = demi.convert(model.SerializeToString(), to="int8-weights")[0]
        self.assertEqual(steps(demi.convert(stored, to=TO, keep=["first"])[0])["QMatMul"], 1)
        self.assertEqual(demi.convert(stored, to=TO)[0], demi.convert(model.SerializeToString(), to=TO)[0])
        table = model_of("g (int64[4] i) => (float[4, 33] y) { r = Gather (t, i) \n y = MatMul (r, w) }",
                         t=normal(RNG, 500, D), w=W)
        sizes = [t.data_type for t in onnx.load_model_from_string(
            demi.convert(table.SerializeToString(), to=TO)[0]).graph.initializer]
        self.assertEqual(sizes.count(TensorProto.INT8), 2)
        for options, why in (({"block": 32}, "'block' has no effect for int8-dynamic"),
                             ({"runtime": "tensorrt"}, "tensorrt does not take uint8 activations that are quantized by rows"),
                             ({"runtime": "qnn"}, "qnn does not"), ({"runtime": "openvino"}, "openvino does not"),
                             ({"activations": "int8"}, "'activations' only has an effect"),
                             ({"rest": "int8-weights"}, "only has an effect")):
            with self.assertRaisesRegex(demi.UsageError, why):
                demi.convert(model.SerializeToString(), to=TO, **options)

    def test_command(self):
        """GPTQ on data; compare and check know what was quantized."""
        text, weights, *_ = CASES["batch"]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            model = model_of(text, **weights)
            onnx.save(model, folder / "model.onnx")
            (folder / "data").mkdir()
            rng = np.random.default_rng(5)
            mix = normal(rng, D, 6) @ normal(rng, 6, D)
            sets = [{"x": (normal(rng, 2, 5, D) @ mix).astype(np.float32)} for _ in range(12)]
            for i, feeds in enumerate(sets[:8]):
                np.savez(folder / "data" / f"{i}.npz", **feeds)
            errors = {}
            for rounding in ("nearest", "gptq"):
                words = ["--rounding", rounding, *(["--calibrate", "data"] if rounding == "gptq" else [])]
                run([args.demi, "convert", "model.onnx", "-o", f"{rounding}.onnx", "--to", TO, "--quiet", *words], folder)
                written = (folder / f"{rounding}.onnx").read_bytes()
                errors[rounding] = sum(((session(written).run(None, f)[0] - by_ort(model.SerializeToString(), f)[0])**2).sum()
                                       for f in sets[8:])
            self.assertLess(errors["gptq"], errors["nearest"])
            run([args.demi, "compare", "model.onnx", "nearest.onnx", "--data", "data"], folder)
            run([args.demi, "check", "nearest.onnx"], folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    args.demi = str(pathlib.Path(args.demi).resolve())
    quantized_test.args = args
    unittest.main(argv=[sys.argv[0], *rest])
