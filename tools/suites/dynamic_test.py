#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that onnxruntime.quantization.quantize_dynamic wrote, beside ONNX Runtime.

Products, convolutions and LSTMs with weights of int8 and uint8, by channel or not, of 7 or 8 bits.
Values that lie next to the middle between two bytes may become either in each runtime, so outputs
differ by as much as quantizing itself does to few of them: they are within NEAR of the largest
number, and no further from the float model's than ONNX Runtime's are, but for a tenth. Each case
says which operators its plan has, so that one that is no longer fused is seen.

    tools/suites/dynamic_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import argparse
import itertools
import logging
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
import quantized_test
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

from suite.engines import saturates
from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEAR = 0.02
BESIDE = {"Mul", "Transpose", "Reshape"}  # scales, and what turns layouts
args = argparse.Namespace()
KINDS = {"int8": quantization.QuantType.QInt8, "uint8": quantization.QuantType.QUInt8}


def by_ort(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def by_definition(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Where ONNX Runtime's products of bytes saturate: what ONNX's definitions say. An LSTM of bytes is there a float
    one of the same weights, from which rounding of what it reads differs by far less than NEAR."""
    made = onnx.load_model_from_string(model)
    constants = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    for node in made.graph.node:
        if node.op_type != "DynamicQuantizeLSTM":
            continue
        for i, name in ((1, "w"), (2, "r")):
            scale, zero = (constants[node.input[k + 2 * i]].reshape(-1, 1, 1) for k in (6, 7))
            weights = (constants[node.input[i]].astype(np.float32) - zero) * scale
            made.graph.initializer.append(numpy_helper.from_array(weights.transpose(0, 2, 1).copy(), name))
            node.input[i] = name
        node.op_type, node.domain = "LSTM", ""
        del node.input[8:]
    return onnx.reference.ReferenceEvaluator(made).run(None, feeds)


class Float:
    """A float model that is written down step by step."""

    def __init__(self, seed: int, shape: list[int]) -> None:
        self.random, self.shape = np.random.default_rng(seed), shape
        self.nodes, self.constants = [], []
        self.feeds = {"x": self.random.standard_normal(shape).astype(np.float32)}

    def weight(self, *shape: int, size: float = 0.2) -> str:
        return self.constant((self.random.standard_normal(shape) * size).astype(np.float32))

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes) -> str:
        name = f"v{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return name

    def model(self, *outputs: str) -> onnx.ModelProto:
        floats = TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info("x", floats, self.shape)],
            [helper.make_tensor_value_info(n, floats, None) for n in outputs], self.constants)
        return onnx.shape_inference.infer_shapes(helper.make_model(
            graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]))


def dense(seed: int) -> tuple[Float, onnx.ModelProto]:
    """Layers with biases and activations; the last is of one row."""
    m = Float(seed, [1 + seed % 3, 9, 40])
    y = m.node("Add", m.node("MatMul", "x", m.weight(40, 50)), m.weight(50))
    y = m.node("Relu", y)
    y = m.node("Add", m.node("MatMul", y, m.weight(50, 33)), m.weight(33))
    y = m.node("ReduceMax", y, axes=[0, 1], keepdims=0)
    y = m.node("Reshape", y, m.constant(np.array([1, 33])))
    return m, m.model(m.node("Gemm", y, m.weight(20, 33), m.weight(20), transB=1))


def convolutions(seed: int) -> tuple[Float, onnx.ModelProto]:
    """With bias or without, in groups, by channel, normalized, added to what was."""
    m = Float(seed, [1 + seed % 2, 6, 9, 11])
    norm = [m.constant(m.random.uniform(0.5, 1.5, 24).astype(np.float32)) for _ in range(4)]
    y = m.node("Conv", "x", m.weight(24, 6, 3, 3), *[m.weight(24)] * (seed // 2 % 2),
               pads=[1, 1, 1, 1], strides=[1, 2])
    y = before = m.node("Relu", m.node("BatchNormalization", y, *norm))
    y = m.node("Conv", y, m.weight(24, 1, 3, 3), group=24, pads=[1, 1, 1, 1])
    y = m.node("Clip", y, m.constant(np.float32(0)), m.constant(np.float32(6)))
    y = m.node("Add", before, m.node("Conv", y, m.weight(24, 12, 1, 1), m.weight(24), group=2))
    return m, m.model(y)


def lstm(seed: int) -> tuple[Float, onnx.ModelProto]:
    """Both directions or one, one sequence or two."""
    ways, hidden, width, batch = 1 + seed % 2, 24, 20, 1 + seed // 2 % 2
    m = Float(seed, [7, batch, width])
    weights = (m.weight(ways, 4 * hidden, width), m.weight(ways, 4 * hidden, hidden),
               m.weight(ways, 8 * hidden))
    m.node("LSTM", "x", *weights, outputs=3, hidden_size=hidden,
           direction="bidirectional" if ways == 2 else ("forward", "reverse")[seed // 4 % 2])
    return m, m.model("v0", "v0_1", "v0_2")


class Dynamic(unittest.TestCase):
    def quantized(self, model: onnx.ModelProto, kind: str, each: bool, fewer: bool) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, name) for name in ("float.onnx", "bytes.onnx")]
            onnx.save(model, paths[0])
            quantization.quantize_dynamic(*paths, weight_type=KINDS[kind], per_channel=each,
                                          reduce_range=fewer)
            return paths[1].read_bytes()

    def check(self, made: tuple[Float, onnx.ModelProto], way: tuple[str, bool, bool],
              steps: list[str]) -> None:
        source, model = made
        written = self.quantized(model, *way)
        exact = by_ort(model.SerializeToString(), source.feeds)
        peer = by_ort(written, source.feeds)
        want = by_definition(written, source.feeds) if saturates() and not way[2] else peer
        for numerics in ("fast", "faithful"):
            plan = demi.compile(written, numerics=numerics)
            if numerics == "fast":
                found = (s.removeprefix("demi.fused.").removesuffix("Last")
                         for s in quantized_test.steps(plan))
                self.assertEqual([step for step in found if step not in BESIDE], steps)
            outputs = session(plan).run(None, source.feeds)
            for ours, right, theirs, true in zip(outputs, want, peer, exact, strict=True):
                most = float(np.max(np.abs(true)))
                np.testing.assert_allclose(ours, right, rtol=0, atol=NEAR * most)
                error, theirs_error = (np.sqrt(np.mean((a - true)**2)) for a in (ours, theirs))
                self.assertLess(error, 1.1 * theirs_error + 1e-3 * most)

    def test_products(self):
        for seed, way in enumerate(itertools.product(("int8",), (False, True), (False, True))):
            with self.subTest(way=way):
                self.check(dense(seed), way, [
                    *["DynamicQuantizeLinear", "QMatMul"] * 2, "ReduceMax",
                    "DynamicQuantizeLinear", "QMatMul"])

    def test_convolutions(self):
        for seed, way in enumerate(itertools.product(("int8",), (False, True), (False, True))):
            with self.subTest(way=way):
                self.check(convolutions(seed), way,
                           [*["DynamicQuantizeLinear", "QConv"] * 3, "Add"])

    def test_lstms(self):
        for seed, way in enumerate(itertools.product(KINDS, (False,), (False, True))):
            for more in range(2):
                with self.subTest(way=way, more=more):
                    self.check(lstm(2 * seed + more), way,
                               ["com.microsoft.DynamicQuantizeLSTM"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    logging.disable(logging.WARNING)
    quantized_test.args = args
    unittest.main(argv=[sys.argv[0], *rest])
