#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that ONNX Runtime has optimized, which hold operators of its own.

BERT, GPT-2, ViT, ResNet and others, small, as its sessions write them at level `extended`, and
as its onnxruntime.transformers does. Of each:
  - demi's plans, fast and faithful, give what the model gave that was optimized, within FLOAT of the
    largest number;
  - converted, every node has a reason, none of them that demi does not know it; operators of 16 bit
    are in 16 bit; in float16 ONNX Runtime runs the file, and both give results within HALF. (In
    bfloat16 its processor's kernels do not run any model.)
Models that demi quantized become operators of bytes, with channels last at the level above; plans
give what the models gave within QUANTA, some quanta of their outputs.

    tools/suites/optimized_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import argparse
import json
import logging
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto

from suite import made_models
from suite.engines import saturates
from suite.made_models import HEAD, HEADS, WIDTH, Builder
from suite.package import library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT, HALF, BFLOAT, QUANTA = 2e-5, 5e-3, 5e-2, 0.03
FLOAT_TYPE, INT64 = TensorProto.FLOAT, TensorProto.INT64
LOW = {"Attention", "Conv", "FusedConv", "FusedGemm", "FusedMatMul", "Gemm", "MatMul"}
args = argparse.Namespace()


# ---- models that are spelt as the optimizers look for them ----

def dense(b: Builder, x: str, shape: list[int]) -> str:
    product = b.node("MatMul", x, b.weight(b.normal(shape, 1 / math.sqrt(shape[0]))))
    return b.node("Add", product, b.weight(b.normal(shape[1:], 0.05)))


def norm(b: Builder, x: str) -> str:
    return b.node("LayerNormalization", x, b.weight(1 + b.normal([WIDTH], 0.1)),
                  b.weight(b.normal([WIDTH], 0.05)), axis=-1, epsilon=1e-12)


def gelu(b: Builder, x: str) -> str:
    erf = b.node("Erf", b.node("Div", x, b.constant(math.sqrt(2))))
    return b.node("Mul", b.node("Mul", x, b.node("Add", erf, b.constant(1))), b.constant(0.5))


def attention(b: Builder, x: str, mask: str = "") -> str:
    q, k, v = (b.node("Transpose", b.node("Reshape", dense(b, x, [WIDTH, WIDTH]),
                                          b.ints(0, 0, HEADS, HEAD)), perm=order)
               for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = b.node("Div", b.node("MatMul", q, k), b.constant(math.sqrt(HEAD)))
    scores = b.node("Add", scores, mask) if mask else scores
    mixed = b.node("MatMul", b.node("Softmax", scores, axis=-1), v)
    mixed = b.node("Reshape", b.node("Transpose", mixed, perm=[0, 2, 1, 3]), b.ints(0, 0, WIDTH))
    return dense(b, mixed, [WIDTH, WIDTH])


def bert() -> onnx.ModelProto:
    b, length = Builder(12), 16
    ids, mask, kinds = (b.input(name, INT64, [1, length])
                        for name in ("input_ids", "attention_mask", "token_type_ids"))
    mask = b.node("Unsqueeze", b.node("Unsqueeze", mask, b.ints(1)), b.ints(2))
    mask = b.node("Mul", b.node("Sub", b.constant(1), b.node("Cast", mask, to=FLOAT_TYPE)),
                  b.constant(-10000))
    x = b.node("Add", b.node("Gather", b.weight(b.normal([500, WIDTH], 0.5)), ids),
               b.node("Gather", b.weight(b.normal([2, WIDTH], 0.2)), kinds))
    places = b.weight(np.arange(length, dtype=np.int64)[None])
    x = b.node("Add", x, b.node("Gather", b.weight(b.normal([64, WIDTH], 0.2)), places))
    x = norm(b, x)
    for _ in range(2):
        x = norm(b, b.node("Add", attention(b, x, mask), x))
        y = gelu(b, dense(b, x, [WIDTH, 4 * WIDTH]))
        x = norm(b, b.node("Add", dense(b, y, [4 * WIDTH, WIDTH]), x))
    b.output(x, "last_hidden_state", [1, length, WIDTH])
    return b.model("bert", 17)


def vit() -> onnx.ModelProto:
    b, patches = Builder(5), 9
    x = b.node("Conv", b.input("pixels", FLOAT_TYPE, [1, 3, 48, 48]),
               b.weight(b.normal([WIDTH, 3, 16, 16], 1 / math.sqrt(768))),
               b.weight(b.normal([WIDTH], 0.05)), kernel_shape=[16, 16], strides=[16, 16])
    x = b.node("Transpose", b.node("Reshape", x, b.ints(1, WIDTH, patches)), perm=[0, 2, 1])
    x = b.node("Concat", b.weight(b.normal([1, 1, WIDTH], 0.2)), x, axis=1)
    x = b.node("Add", x, b.weight(b.normal([1, patches + 1, WIDTH], 0.2)))
    for _ in range(2):
        x = b.node("Add", attention(b, norm(b, x)), x)
        y = gelu(b, dense(b, norm(b, x), [WIDTH, 4 * WIDTH]))
        x = b.node("Add", dense(b, y, [4 * WIDTH, WIDTH]), x)
    first = b.node("Gather", norm(b, x), b.constant(0, dtype=np.int64), axis=1)
    b.output(b.node("Gemm", first, b.weight(b.normal([1000, WIDTH], 0.03)),
                    b.weight(b.normal([1000], 0.05)), transB=1), "logits", [1, 1000])
    return b.model("vit", 17)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "bert": bert,
    "bert of parts": lambda: made_models.bert(1, 16, words=500),
    "gpt2": lambda: made_models.gpt2(2, past=7, words=500),
    "gpt2, a prompt": lambda: made_models.gpt2(2, past=0, fused_norm=True, words=500, tokens=5),
    "vit": vit,
    "resnet": lambda: made_models.resnet50(1, 64),
    "mobilenet": lambda: made_models.mobilenetv2(1, 64),
    "detector": lambda: made_models.detector(1, 64),
}
# What the optimizers are known to make of them.
EXTENDED = {"bert": "SkipLayerNormalization", "bert of parts": "FusedGemm", "gpt2": "FastGelu",
            "gpt2, a prompt": "FastGelu", "vit": "FusedMatMul", "resnet": "FusedConv",
            "mobilenet": "FusedConv", "detector": "QuickGelu"}


def by_ort(model: bytes, feeds: dict[str, np.ndarray], **options: object) -> list[np.ndarray]:
    chosen = ort.SessionOptions()
    chosen.log_severity_level = 4
    for name, value in options.items():
        setattr(chosen, name, value)
    return ort.InferenceSession(model, chosen, ["CPUExecutionProvider"]).run(None, feeds)


def distance(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    return max(float(np.max(np.abs(g - w)) / max(1.0, float(np.max(np.abs(w)))))
               for g, w in zip(got, want, strict=True))


class OptimizedTest(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def check(self, path: pathlib.Path, feeds: dict[str, np.ndarray],
              want: list[np.ndarray]) -> None:
        optimized = path.read_bytes()
        for numerics in ("fast", "faithful"):
            plan = session(optimized, numerics=numerics)
            self.assertLessEqual(distance(plan.run(None, feeds), want), FLOAT, numerics)
        for to, limit in (("float16", HALF), ("bfloat16", BFLOAT)):
            low = path.with_suffix(f".{to}.onnx")
            done = subprocess.run([args.demi, "convert", path, "-o", low, "--to", to, "--json=-"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            for node in json.loads(done.stdout)["nodes"]:
                self.assertTrue(node["reason"] and "unknown" not in node["reason"], node)
                if node["op_type"] in LOW and to == "float16":
                    self.assertEqual(node["dtype"], to, node)
            converted = low.read_bytes()
            plan = session(converted, numerics="faithful")
            self.assertLessEqual(distance(plan.run(None, feeds), want), limit, to)
            if to == "float16":
                self.assertLessEqual(distance(by_ort(converted, feeds), want), limit)

    def test_extended(self) -> None:
        for name, make in MODELS.items():
            model = make()
            feeds, text = made_models.feeds_of(model), model.SerializeToString()
            path = self.folder / "extended.onnx"
            with self.subTest(model=name):
                want = by_ort(text, feeds, optimized_model_filepath=str(path),
                              graph_optimization_level=ort.GraphOptimizationLevel
                              .ORT_ENABLE_EXTENDED)
                ops = {node.op_type for node in onnx.load(path).graph.node}
                self.assertIn(EXTENDED[name], ops)
                self.check(path, feeds, want)

    def test_quantized(self) -> None:
        levels = ort.GraphOptimizationLevel
        for name, op in (("resnet", "QGemm"), ("mobilenet", "QLinearGlobalAveragePool"),
                         ("detector", "QLinearConcat"), ("bert", "SkipLayerNormalization")):
            model = MODELS[name]()
            feeds, source = made_models.feeds_of(model), self.folder / "source.onnx"
            onnx.save(model, source)
            np.savez(self.folder / "samples.npz", **feeds)
            quantized = self.folder / "int8.onnx"
            subprocess.run([args.demi, "convert", source, "-o", quantized, "--to", "int8",
                            "--calibrate", self.folder / "samples.npz", "--quiet"], check=True)
            for level in (levels.ORT_ENABLE_EXTENDED, levels.ORT_ENABLE_ALL):
                path = self.folder / "optimized.onnx"
                with self.subTest(model=name, level=level.name):
                    want = by_ort(quantized.read_bytes(), feeds, graph_optimization_level=level,
                                  optimized_model_filepath=str(path))
                    self.assertIn(op, {node.op_type for node in onnx.load(path).graph.node})
                    if saturates():
                        want = by_ort(quantized.read_bytes(), feeds, graph_optimization_level=levels.ORT_DISABLE_ALL)
                    for numerics in ("fast", "faithful"):
                        plan = session(path.read_bytes(), numerics=numerics)
                        self.assertLessEqual(distance(plan.run(None, feeds), want), QUANTA, numerics)

    def test_transformers(self) -> None:
        """The Python package's own fusions, which make Attention."""
        try:
            import sympy  # noqa: F401 (the package needs it)
            from onnxruntime.transformers import optimizer
        except ImportError as problem:
            self.skipTest(f"onnxruntime.transformers can't be had: {problem}")
        logging.disable(logging.CRITICAL)
        for name, make in (("bert", bert), ("vit", vit)):
            model = make()
            feeds, source = made_models.feeds_of(model), self.folder / "source.onnx"
            path = self.folder / "fused.onnx"
            onnx.save(model, source)
            with self.subTest(model=name):
                made = optimizer.optimize_model(str(source), model_type=name, num_heads=HEADS,
                                                hidden_size=WIDTH, opt_level=0)
                made.save_model_to_file(str(path))
                ops = {node.op_type for node in onnx.load(path).graph.node}
                self.assertLessEqual({"Attention", "BiasGelu", "SkipLayerNormalization"}, ops)
                self.check(path, feeds, by_ort(model.SerializeToString(), feeds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
