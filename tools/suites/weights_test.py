#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random products by weights of 4 and 8 bits, beside ONNX Runtime without its optimizations.

Scales for all, by column and in blocks along the depth, with and without zero points, of float and
float16, weights either way round, behind Transpose and Cast, in MatMul and Gemm with what follows;
few rows and many. Each plan must have demi.fused's MatMulBits, must not have the weights as floats,
and gives what ONNX Runtime does within FLOAT of the largest number, of rows that are rounded as such products round
them. Faithful plans give the bits of plans in which nothing is fused.

    tools/suites/weights_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import argparse
import pathlib
import sys
import unittest

import numpy as np
import onnx
import onnxruntime as ort
import quantized_test
from onnx import TensorProto, helper, numpy_helper

from suite.package import demi, library_option, session
from suite.rounded_rows import LEAST_BLOCK, rounded_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT, HALF = 2e-6, 2e-3  # of the largest; HALF where float16 rounds weights or results
args = argparse.Namespace()
LOW = {TensorProto.INT4: -8, TensorProto.UINT4: 0, TensorProto.INT8: -128, TensorProto.UINT8: 0}


def tensor(name: str, kind: int, numbers: np.ndarray) -> onnx.TensorProto:
    return helper.make_tensor(name, kind, numbers.shape, numbers.reshape(-1).tolist())


class Weights:
    """A model of one product, which `seed` decides."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.kind = list(LOW)[seed % 4]
        self.style = ("blocks", "columns", "one")[seed // 4 % 3]
        self.half = seed % 5 == 4
        self.depth, self.columns = (int(self.random.integers(*r)) for r in ((1, 150), (16, 150)))
        self.rows = int(self.random.choice([1, 2, 3, 5, 8, 9, 60, 159, 160, 200]))
        self.block = int(self.random.choice([1, 2, 5, 16, 32, 64]))
        self.nodes, self.constants = [], []
        self.zeros = bool(seed // 3 % 2)

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, *inputs: str, **attributes) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def numbers(self, shape) -> np.ndarray:
        low = LOW[self.kind]
        few = self.kind in (TensorProto.INT4, TensorProto.UINT4)
        return self.random.integers(low, low + (16 if few else 256), shape)

    def dequantized(self, turned: bool) -> str:
        """The matrix [depth, columns], or turned."""
        shape = (self.columns, self.depth) if turned else (self.depth, self.columns)
        axis, attributes = int(turned), {}
        scales: tuple[int, ...] = ()
        if self.style == "columns":
            scales, attributes = (self.columns,), {"axis": 1 - axis}
        elif self.style == "blocks":
            count = -(-self.depth // self.block)
            scales = (self.columns, count) if turned else (count, self.columns)
            attributes = {"axis": axis, "block_size": self.block}
        dtype = np.float16 if self.half else np.float32
        self.constants.append(tensor("q", self.kind, self.numbers(shape)))
        inputs = ["q", self.constant("s", self.random.uniform(0.01, 0.05, scales).astype(dtype))]
        if self.zeros:
            self.constants.append(tensor("z", self.kind, self.numbers(scales)))
            inputs.append("z")
        value = self.node("DequantizeLinear", *inputs, **attributes)
        return self.node("Cast", value, to=TensorProto.FLOAT) if self.half else value

    def rounds(self) -> bool:
        few = self.kind in (TensorProto.INT4, TensorProto.UINT4)
        return few and self.style == "blocks" and min(self.block, self.depth) >= LEAST_BLOCK

    def product(self) -> str:
        turned, gemm = bool(self.random.integers(2)), bool(self.random.integers(2))
        value = self.dequantized(turned)
        bias = self.constant("b", self.random.standard_normal(self.columns).astype(np.float32))
        if gemm:
            more = [bias] if self.random.integers(2) else []
            return self.node("Gemm", "x", value, *more, transB=int(turned), alpha=0.5)
        if turned:
            value = self.node("Transpose", value, perm=[1, 0])
        return self.node("Add", self.node("MatMul", "x", value), bias)

    def model(self) -> bytes:
        y = self.product()
        if self.random.integers(2):
            y = self.node("Relu", y)
        data = helper.make_tensor_value_info("x", TensorProto.FLOAT, (self.rows, self.depth))
        result = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [data], [result], self.constants)
        return helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 21)]).SerializeToString()


def by_ort(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return ort.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, feeds)


class Products(unittest.TestCase):
    def test_products(self):
        for seed in range(180):
            w = Weights(seed)
            with self.subTest(seed=seed, style=w.style, kind=w.kind, half=w.half, rows=w.rows,
                              depth=w.depth, columns=w.columns, block=w.block):
                self.check(w)

    def check(self, w: Weights) -> None:
        model = w.model()
        feeds = {"x": w.random.standard_normal((w.rows, w.depth)).astype(np.float32)}
        plan = demi.compile(model)
        self.assertEqual(quantized_test.steps(plan), ["demi.fused.MatMulBits"])
        got = session(plan).run(None, feeds)[0]
        want = by_ort(model, {"x": rounded_rows(feeds["x"], w.block)} if w.rounds() else feeds)[0]
        self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
        np.testing.assert_allclose(got, want, rtol=0, atol=(HALF if w.half else FLOAT)
                                   * max(1.0, float(np.max(np.abs(want)))))
        plain, faithful = (session(model, numerics="faithful", keep_values=keep).run(None, feeds)[0]
                           for keep in (True, False))
        self.assertEqual(plain.tobytes(), faithful.tobytes())

    def test_nbits(self):
        """com.microsoft's operator."""
        for seed in range(24):
            random, bits = np.random.default_rng(seed), (4, 8)[seed % 2]
            rows, depth, columns = int(random.choice([1, 3, 30])), 32 * (1 + seed % 5), 48
            block = (16, 32, 64, 128)[seed // 2 % 4]
            blocks = -(-depth // block)
            shapes = {"w": (columns, blocks, block * bits // 8),
                      "z": (columns * -(-blocks * bits // 8),)}
            parts = {n: random.integers(0, 256, s).astype(np.uint8) for n, s in shapes.items()}
            parts["s"] = random.uniform(0.01, 0.05, columns * blocks).astype(np.float32)
            node = helper.make_node("MatMulNBits", ["x", "w", "s", *["z"] * (seed // 4 % 2)], ["y"],
                                    domain="com.microsoft", K=depth, N=columns, bits=bits,
                                    block_size=block)
            names = (("x", (rows, depth)), ("y", (rows, columns)))
            data, result = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
                            for n, s in names)
            graph = helper.make_graph([node], "g", [data], [result], [
                numpy_helper.from_array(a, n) for n, a in parts.items()])
            model = helper.make_model(graph, ir_version=10, opset_imports=[
                helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
            feeds = {"x": random.standard_normal((rows, depth)).astype(np.float32)}
            with self.subTest(seed=seed):
                want = by_ort(model.SerializeToString(), feeds)[0]
                most = float(np.max(np.abs(want)))
                for numerics in ("fast", "faithful"):
                    got = session(model, numerics=numerics).run(None, feeds)[0]
                    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * most)

    def test_bytes(self):
        """A plan is not much larger than its weights and scales."""
        for kind, share in ((TensorProto.INT4, 0.5), (TensorProto.UINT8, 1.0)):
            w = Weights(1)
            w.kind, w.style, w.half, w.block = kind, "blocks", False, 32
            w.depth, w.columns, w.zeros = 256, 512, False
            w.nodes, w.constants = [], []
            size = len(demi.compile(w.model()))
            least = 256 * 512 * (share + 4 / 32)
            self.assertLess(size, least * 1.05 + (512 * 8 * 4 if share == 1 else 0) + 4096)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    quantized_test.args = args
    unittest.main(argv=[sys.argv[0], *rest])
