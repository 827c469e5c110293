#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products of ONNX Runtime's domain with weights of a few bits (MatMulNBits), converted to float32.

On random shapes, with and without zero points, packed or floats, groups of rows, biases, blocks that the depth ends
in, of 2, 4 and 8 bits. The float weights are those of the operator's formula, bit for bit, and results those of ONNX
Runtime. What stays quantized is said, with its reason.

    tools/suites/contrib_weights_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite.contrib_case import FLOAT, HALF, Case, ContribCase, Feeds, Random, by_plan, main
from suite.package import demi


def pack(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Along the last axis, the first in the lowest bits, from a whole byte on."""
    planes = (numbers[..., None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(planes.reshape(*numbers.shape[:-1], -1), axis=-1, bitorder="little")


class Product:
    """A product that `seed` decides, and the weights that it has."""

    def __init__(self, seed: int, dtype: type = np.float32, groups: bool = False, scale: int = 1) -> None:
        r = Random(seed, dtype)
        self.bits, block = (2, 4, 8)[seed % 3], (16, 32, 64)[seed // 3 % 3]
        n, k = scale * (r.size() + 1), scale * block * r.size(3) - 8 * int(r.random.integers(2))
        blocks = -(-k // block)
        numbers = r.random.integers(0, 1 << self.bits, (n, blocks * block)).astype(np.uint8)
        scales, middle = r.scale(n, blocks).astype(dtype), np.full((n, blocks), 1 << (self.bits - 1), np.float32)
        kind, zeros = seed % 4, None
        if kind == 1:
            whole = r.random.integers(0, 1 << self.bits, (n, blocks)).astype(np.uint8)
            middle, zeros = whole.astype(np.float32), pack(whole, self.bits)
        elif kind == 2:
            zeros = (r.random.uniform(0, (1 << self.bits) - 1, (n, blocks))).astype(dtype)
            middle = zeros.astype(np.float32)
        order = np.arange(k) // block
        if groups:
            order = r.random.permutation(order)
        self.weights = ((numbers[:, :k] - middle[:, order]) * scales[:, order].astype(np.float32)).T
        lead = (r.size(3), r.size(4))[:r.size(2)]
        feeds: Feeds = {"a": r.floats(*lead, k), "b": pack(numbers, self.bits).reshape(n, blocks, -1),
                        "s": scales if r.flag() else scales.reshape(-1), "z": zeros,
                        "g": order.astype(np.int32) if groups else None, "bias": r.maybe(n)}
        self.case = Case("MatMulNBits", feeds, constants=("b", "s", "z", "g", "bias"), K=k, N=n, bits=self.bits,
                         block_size=block)


    def constants(self) -> dict[str, np.ndarray]:
        model = onnx.load_model_from_string(self.case.model)
        return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}

    def results(self) -> list[np.ndarray]:
        """By the formula."""
        a = self.case.feeds["a"]
        y = a.astype(np.float32) @ self.weights + self.constants().get("bias", np.float32(0))
        return [y.astype(a.dtype)]


class ContribWeightsTest(ContribCase):
    def test_products(self) -> None:
        for seed in range(36):
            for dtype in (np.float32, np.float16):
                product = Product(seed, dtype)
                with self.subTest(seed=seed, dtype=dtype.__name__, attributes=product.case.attributes):
                    want = product.results()
                    if product.bits != 8 or seed % 4 != 2:  # zero points of floats: 2 and 4 bits, says ONNX Runtime
                        want = product.case.by_ort()
                    made = self.widen(product.case, want, HALF if dtype == np.float16 else FLOAT)
                    made.graph.output[0].type.tensor_type.shape.CopyFrom(
                        helper.make_tensor_value_info("", 1, want[0].shape).type.tensor_type.shape)
                    onnx.checker.check_model(made, full_check=True)
                    weights = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
                    np.testing.assert_array_equal(weights.pop("b_float"), product.weights)
                    self.assertLessEqual(set(weights), {"bias"})

    def test_groups(self) -> None:
        """Rows of the depth in another order than their blocks. ONNX Runtime 1.31 has them of 4 bits, and reads 8 for
        every zero point that is packed then."""
        for seed in range(12):
            product = Product(seed, groups=True)
            with self.subTest(seed=seed, attributes=product.case.attributes):
                self.widen(product.case, product.results())
                if product.bits == 4 and seed % 4 != 1:
                    self.widen(product.case, product.case.by_ort())

    def test_large(self) -> None:
        """Weights that are made as they are written, and shared by two products."""
        product = Product(4, scale=24)
        self.assertGreater(product.weights.size, 1 << 18)
        model = onnx.load_model_from_string(product.case.model)
        again = model.graph.node.add()
        again.CopyFrom(model.graph.node[0])
        again.output[0], again.name = "other", "again"
        model.graph.output.append(helper.make_tensor_value_info("other", 1, None))
        made = demi.convert(model, to="float32")[0]
        big = [t for t in made.graph.initializer if len(t.dims) == 2]
        self.assertEqual(len(big), 1)
        np.testing.assert_array_equal(numpy_helper.to_array(big[0]), product.weights)

    def test_sources(self) -> None:
        """To float16, weights stay what they are; beside quantized activations they are quantized anew."""
        case = Product(1).case
        model, want = onnx.load_model_from_string(case.model), case.by_ort()
        low = demi.convert(model, to="float16")[0]
        self.assertIn("MatMulNBits", [n.op_type for n in low.graph.node])
        for got, one in zip(case.by_ort(low.SerializeToString()), want, strict=True):
            self.assertLess(np.max(np.abs(got - one)), 1e-2 * np.max(np.abs(one)))
        for to, kind in (("int8", TensorProto.INT8), ("fp8", TensorProto.FLOAT8E4M3FN)):
            made = demi.convert(model, to=to, calibrate="random")[0]
            self.assertEqual([t.data_type for t in made.graph.initializer if len(t.dims) == 2], [kind])
            got = by_plan(made.SerializeToString(), "fast", case.feeds)[0]
            self.assertLess(np.max(np.abs(got - want[0])), .2 * np.max(np.abs(want[0])))

    def test_what_stays(self) -> None:
        """Is said."""
        def said(case: Case) -> str:
            made, report = demi.convert(onnx.load_model_from_string(case.model), to="float32")
            self.assertEqual([n.op_type for n in made.graph.node], [case.op])
            return " ".join(report.remarks)
        product = Product(4)
        feeds, attributes = dict(product.case.feeds), product.case.attributes
        feeds |= {n: product.constants().get(n) for n in ("b", "s", "z")}
        self.assertRegex(said(Case("MatMulNBits", feeds, constants=("s", "z"), **attributes)),
                         r"1 node keeps its quantized weights, such as 'it' .MatMulNBits.: its weights are not constant")
        self.assertIn("do not have the dims", said(
            Case("MatMulNBits", feeds, constants=("b", "s", "z"), **attributes | {"block_size": 128})))
        self.assertIn("of one device", said(
            Case("MatMulNBits", feeds, constants=("b", "s", "z"), **attributes, weight_prepacked=1)))


if __name__ == "__main__":
    main(__doc__)
