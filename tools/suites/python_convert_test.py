# SPDX-License-Identifier: Apache-2.0
"""The Python package demi_onnx: conversions, searches, what is simplified, and other tools beside it. As
python_test.py, whose helpers these are.

    DEMI_LIBRARY=build/release/libdemi.so tools/suites/python_convert_test.py [unittest's options]
"""

import ast
import contextlib
import importlib.util
import io
import json
import os
import pickle
import random
import shutil
import signal
import tempfile
import unittest

import numpy as np
import onnx
from onnx import helper
from python_test import CONV, ROOT, demi, info, interrupted, matmul, model_of, unary


class Conversions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.folder.name, "out.onnx")

    def tearDown(self):
        self.folder.cleanup()

    def test_kinds(self):
        """A path, bytes and a ModelProto give the same; what is given stays as it is."""
        data = open(CONV, "rb").read()
        proto = onnx.load(CONV)
        before = proto.SerializeToString()
        report = demi.convert(CONV, self.out, to="fp16")
        written = open(self.out, "rb").read()
        of_bytes, of_report = demi.convert(data, to="float16")
        of_proto, _ = demi.convert(proto, to="half")
        self.assertEqual(written, of_bytes)
        self.assertIsInstance(of_proto, onnx.ModelProto)
        self.assertEqual(of_proto, onnx.load_from_string(written))
        self.assertEqual(proto.SerializeToString(), before)
        self.assertEqual(report.totals.nodes_after, of_report.totals.nodes_after)

    def test_report(self):
        report = demi.convert(CONV, self.out, keep=["relu"], verify="random")
        self.assertIn("kept", report.why("relu"))
        with self.assertRaises(KeyError):
            report.why("nobody")
        self.assertEqual(len(json.loads(report.json())["nodes"]), len(report.nodes))
        self.assertIn("nodes", str(report))
        self.assertIn("<table>", report._repr_html_())
        self.assertLess(report.verdict.error, 0.01)
        if importlib.util.find_spec("pandas"):
            self.assertEqual(len(report.to_dataframe()), len(report.nodes))

    def test_decided_by_runs(self):
        data = {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)}
        quantized, _ = demi.convert(CONV, to="int8", calibrate=data, calibration="minmax")
        self.assertIn(b"QuantizeLinear", quantized)
        demi.convert(CONV, calibrate=data)  # the default method, of a 16-bit type
        _, report = demi.convert(CONV, max_error=1e-3, verify=[data, data])
        self.assertLessEqual(report.verdict.error, 1e-3)
        self.assertEqual(report.verdict.sets, 2)

    def test_compare(self):
        demi.convert(CONV, self.out)
        found = demi.compare(CONV, self.out)
        self.assertFalse(found.beyond)
        self.assertIsNone(found.first_bad)
        self.assertIn("within", str(found))
        worse = demi.compare(CONV, self.out, max_error=1e-7, advise=True)
        self.assertTrue(worse.beyond and worse.first_bad.node)
        self.assertTrue(json.loads(worse.json())["values"])

    def test_compare_sets(self):
        ones = np.ones((1, 4), np.float32)
        sets = [{"x": ones}, {"x": -ones}, {"x": 2 * ones}]
        found = demi.compare(unary("Relu"), unary("Identity"), data=sets)
        self.assertTrue(found.beyond)
        self.assertEqual((found.sets, found.set), (3, 1))
        self.assertIn("set 2 of 3", str(found))
        one = demi.compare(unary("Relu"), unary("Identity"), data=sets[2])
        self.assertEqual((one.beyond, one.sets, one.set), (False, 1, 0))
        with self.assertRaises(demi.Cancelled):
            demi.compare(unary("Relu"), unary("Identity"), data=sets,
                         progress=lambda what, done, total: what != "comparing")

    def test_looking(self):
        demi.convert(CONV, self.out)
        self.assertEqual(demi.check(CONV), [])
        self.assertEqual(demi.check(self.out, against=CONV), [])
        self.assertTrue(demi.check(self.out, against=matmul()))
        self.assertEqual(demi.check(self.out, against=CONV, made_by={"to": "float16"}), [])
        self.assertIn("by the policy: ", demi.check(self.out, against=CONV, made_by={"to": "bf16"})[0])
        for wrong in ({"made_by": {}}, {"against": CONV, "made_by": {"to": "nothing"}}):
            self.assertRaises(demi.UsageError, demi.check, self.out, **wrong)
        self.assertIn("weight", {d.kind for d in demi.diff(CONV, self.out)})
        self.assertIn("Conv", demi.show(CONV))
        self.assertGreater(len(demi.show(CONV, full=True)), len(demi.show(CONV)))
        self.assertEqual(demi.convert_policy(to="bfloat16")[0], "{")
        self.assertIn("insert-casts", demi.convert_pipeline())
        policy = demi.convert_policy(to="bf16", range_margin=3, fold=True, keep="relu", opset="auto",
                                     overflow="clamp", low_ops=["+Softmax"])
        for words in ('"range_margin": 3', '"fold": true', '"relu"', '"auto"', '"clamp"', '"Softmax"'):
            self.assertIn(words, policy)
        for wrong in ({"range_margin": "x"}, {"policy": 5}, {"symmetric": object()}, {"size": 3},
                      {"keep_count": 1}, {"run": None, "to": 7}):
            with self.assertRaises(demi.UsageError, msg=str(wrong)):
                demi.convert_policy(**wrong)
        self.assertIn("insert-casts", demi.list_passes())
        with self.assertRaises(demi.ModelError):
            demi.check(model_of([helper.make_node("Nothing", ["x"], ["y"])],
                                [info("x", 1, [1])], [info("y", 1, [1])]))

    def test_search(self):
        found = demi.search(matmul(16), target=30, evaluations=20, inputs={"dims": {"N": 3}})
        self.assertGreaterEqual(found.best.score, 30)
        made, _ = demi.convert(matmul(16), policy=found.policy)
        self.assertIsInstance(made, onnx.ModelProto)
        estimated = demi.search(matmul(16), target=50, sensitivity="gradient", inputs={"dims": {"N": 3}})
        self.assertGreaterEqual(estimated.best.score, 50)
        seen = []

        def score(model):
            seen.append(len(model))
            return 1.0

        demi.search(matmul(16), score=score, target=0.5, evaluations=3)
        self.assertTrue(seen)

    def test_search_options(self):
        """Options of conversions, scores of groups, and a journal that serves another target."""
        common = {"candidates": ["float", "a8w8"], "inputs": {"dims": {"N": 3}}, "target": 10}
        found = demi.search(matmul(16), runtime="tensorrt", **common)
        self.assertEqual((found.runtime, found.types[1], found.holdout.how), ("tensorrt", ("int8", "int8"), "none"))
        same = demi.search(matmul(16), convert={"runtime": "tensorrt"}, **common)
        self.assertEqual(same.policy, found.policy)
        pair = demi.search(matmul(32), **{**common, "candidates": ["float", "int8:int4"]})
        self.assertEqual(pair.candidates, ["float", "int8:int4"])
        asked = []

        def score(model):
            asked.append(len(model))
            return 1.0

        groups = demi.search(matmul(16), sensitivity_score=score, **{**common, "target": 45})
        self.assertGreater(len(asked), 2)
        self.assertGreaterEqual(groups.best.score, 45)
        with tempfile.TemporaryDirectory() as folder:
            journal = {"journal": f"{folder}/journal", "sensitivity": "score", "score": score, "score_name": "ones"}
            demi.search(matmul(16), **{**common, "target": 0.5}, **journal)
            count = len(asked)
            demi.search(matmul(16), **{**common, "target": 0.25}, **journal)
            self.assertLess(len(asked) - count, 2)
            with self.assertRaises(demi.UsageError):
                demi.search(matmul(16), **{**common, "target": 0.5}, **{**journal, "score_name": "others"})
        for bad in ({"runtime": "dream"}, {"nothing": 1}, {"sensitivity": "gradient", "sensitivity_score": score},
                    {"sensitivity": "score"}, {"symmetric": True, "candidates": ["float", "w8"]}):
            with self.assertRaises(demi.UsageError, msg=str(bad)):
                demi.search(matmul(16), **{**common, **bad})

    def test_search_holds_out(self):
        random = np.random.default_rng(3)
        x, other = (random.standard_normal((60, 16), dtype=np.float32) for _ in range(2))
        common = {"candidates": ["float", "a8w8"], "target": 25}
        found = demi.search(matmul(16), data={"x": x}, **common)  # one set of 60 rows
        self.assertEqual((found.sets.calibration, found.sets.selection, found.sets.holdout), (20, 20, 20))
        self.assertTrue(25 <= found.holdout.low <= found.holdout.score <= found.holdout.high)
        self.assertEqual((found.outcome, found.trivial, found.holdout.samples), ("found", False, 20))
        self.assertIn("on held-out data", str(found))
        none = demi.search(matmul(16), data={"x": x}, holdout=0, **common)
        self.assertEqual((none.sets.selection, none.sets.holdout, none.holdout.tests), (1, 0, 0))
        apart = demi.search(matmul(16), data={"x": x}, holdout={"x": other}, calibration=[{"x": x}, {"x": other}],
                            **common)
        self.assertEqual((apart.sets.calibration, apart.sets.selection, apart.sets.holdout), (2, 60, 60))
        far = demi.search(matmul(16), data={"x": x}, holdout={"x": 50 * other}, candidates=["a16w16", "a8w8"], target=25)
        self.assertEqual(far.outcome, "unconfirmed")
        asked = []
        demi.search(matmul(16), score=len, target=1, evaluations=3, holdout_score=lambda model: asked.append(1) or 2.0)
        self.assertEqual(len(asked), 1)
        for bad in ({"holdout": 1.0}, {"holdout": -1}, {"holdout": float("nan")}, {"holdout": "nowhere"},
                    {"holdout_labels": [1]}, {"holdout_score": len}, {"calibration": {"y": x}}):
            with self.assertRaises(demi.UsageError):
                demi.search(matmul(16), data={"x": x}, **common, **bad)

    def test_bench(self):
        self.assertGreater(demi.bench(CONV, runs=3, warmup=1).median, 0)

    def test_progress(self):
        seen = []
        demi.convert(CONV, progress=lambda *what: seen.append(what))
        self.assertEqual(seen[-1][1], seen[-1][2])

        def fail(*_):
            raise LookupError("enough")

        for call in (lambda: demi.convert(CONV, progress=fail),
                     lambda: demi.convert(CONV, verify="random", progress=fail),
                     lambda: demi.search(CONV, progress=fail)):
            with self.assertRaisesRegex(LookupError, "enough"):
                call()
        with self.assertRaises(demi.Cancelled):
            demi.convert(CONV, self.out, progress=lambda *_: False)
        self.assertFalse(os.path.exists(self.out))

    def test_interrupt(self):
        """Ctrl-C ends a call as itself, wherever it comes."""
        for computed in (0.05, 0.15, 0.3):
            with self.assertRaises(KeyboardInterrupt), interrupted(computed):
                while True:
                    demi.search(CONV, evaluations=200)

    def test_errors(self):
        with self.assertRaises(demi.UsageError) as caught:
            demi.convert(CONV, keep=["nothing*"])
        self.assertIn("nothing*", caught.exception.what)
        self.assertIsInstance(caught.exception, ValueError)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((str(again), again.hint), (str(caught.exception), caught.exception.hint))
        with self.assertRaises(demi.UsageError) as caught:
            demi.Session("/nowhere/model.onnx")
        self.assertEqual(caught.exception.file, "/nowhere/model.onnx")
        with self.assertRaises(demi.UsageError) as caught:
            demi.Session(CONV).run(None, {"x": np.ones((1, 3, 8, 8))})
        self.assertEqual((caught.exception.expected, caught.exception.actual), ("float", "double"))
        with self.assertRaises(demi.UsageError) as caught:
            demi.Session(CONV).run(None, {"y": np.ones(1)})
        self.assertIn("x tensor(float)", caught.exception.hint)
        with self.assertRaises(demi.ModelError) as caught:  # bytes that are no text are told apart
            demi.check(unary("Rolu", name="node").SerializeToString().replace(b"node", b"no\xff\xfe"))
        self.assertEqual(caught.exception.node, "no\\xff\\xfe")


class Simplified(unittest.TestCase):
    def model(self):
        nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Identity", ["x"], ["i"]),
                 helper.make_node("Reshape", ["i", "s"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
        return model_of(nodes, [info("x", 1, ["N", 4])], [info("y", 1, ["N", 4])])

    def test_sizes(self):
        for how in ({"dims": {"N": 3}}, {"shapes": {"x": [3, 4]}}):
            made, report = demi.simplify(self.model(), **how)
            self.assertEqual([n.op_type for n in made.graph.node], ["Neg"])
            self.assertEqual((report.totals.nodes_before, report.totals.nodes_after), (4, 1))
            self.assertEqual(made.graph.input[0].type.tensor_type.shape.dim[0].dim_value, 3)

    def test_kinds(self):
        exact, _ = demi.simplify(CONV)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.onnx")
            report = demi.simplify(CONV, path, inexact=True)
            with open(path, "rb") as file:
                data = file.read()
        self.assertLess(report.totals.nodes_after, report.totals.nodes_before)
        self.assertEqual(data, demi.simplify(CONV, inexact=True)[0])
        self.assertLess(report.totals.nodes_after, demi.describe(exact).totals.nodes_after)

    def test_wrong(self):
        with self.assertRaisesRegex(demi.UsageError, "M"):
            demi.simplify(self.model(), dims={"M": 3})
        with self.assertRaises(demi.Cancelled):
            demi.simplify(self.model(), progress=lambda *_: False)


class Others(unittest.TestCase):
    """Names of other converters, and the notebook."""

    def test_onnxconverter_common(self):
        from demi_onnx.compat.float16 import (convert_float_to_float16,
                                              convert_float_to_float16_model_path)
        model = onnx.load(CONV)
        for keep, want in ((False, (10, 10)), (True, (1, 1)), (["x"], (1, 10)), (["y"], (10, 1))):
            made = convert_float_to_float16(model, keep_io_types=keep, disable_shape_infer=True)
            types = tuple(v[0].type.tensor_type.elem_type for v in (made.graph.input, made.graph.output))
            self.assertEqual(types, want, keep)
        kept = convert_float_to_float16(model, keep_io_types=True, node_block_list=["conv"],
                                        op_block_list=["Nothing", "Gemm"])
        report = demi.describe(kept)
        self.assertTrue(report.why("conv").startswith("conv (Conv): float:"))
        with self.assertRaises(ValueError):
            convert_float_to_float16(convert_float_to_float16(model))
        convert_float_to_float16(convert_float_to_float16(model), check_fp16_ready=False)
        for name in ("min_positive_val", "max_finite_val"):
            with self.assertRaisesRegex(demi.UsageError, name):
                convert_float_to_float16(model, **{name: 1e-3})
        self.assertIsInstance(convert_float_to_float16_model_path(CONV), onnx.ModelProto)

    def test_notebook(self):
        """Its cells run as they are written, one after the other; what a cell ends with can be shown."""
        cells = json.loads((ROOT / "tools/python/first_five_minutes.ipynb").read_text())["cells"]
        here, names = os.getcwd(), {}
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(CONV, os.path.join(folder, "model.onnx"))
            os.chdir(folder)
            try:
                for cell in cells:
                    if cell["cell_type"] != "code":
                        continue
                    *body, last = ast.parse("".join(cell["source"])).body
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(ast.Module(body, []), "cell", "exec"), names)
                        if isinstance(last, ast.Expr):
                            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
                            self.assertTrue(getattr(shown, "_repr_html_", lambda: "-")())
                        else:
                            exec(compile(ast.Module([last], []), "cell", "exec"), names)
            finally:
                os.chdir(here)
        self.assertEqual(names["y"].shape, (2, 4))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
    unittest.main()
