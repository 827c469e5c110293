#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random models of quantized values: computed in integers, beside their definition.

Each is compiled fast, where fuse-quantized and its like put operators on bytes in place of floats
between DequantizeLinear and QuantizeLinear, and with nothing fused, where every operator is what
ONNX says. Bytes that come out differ by one at most, and in few places; what is looked up in tables
or only moves is equal; floats are within FLOAT of the largest. Each case says which operators its
plan has, so that one that is no longer fused is seen.

    tools/suites/quantized_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import argparse
import itertools
import logging
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT = 1e-5      # of the largest float
OFF_BY_ONE = 0.01  # the share of bytes that may be
args = argparse.Namespace()
TYPES = {"u8": (np.uint8, TensorProto.UINT8), "i8": (np.int8, TensorProto.INT8)}


class Model:
    """A graph that is written down step by step; values are their names."""

    def __init__(self, seed: int, opset: int = 17):
        self.random, self.opset = np.random.default_rng(seed), opset
        self.nodes, self.inputs, self.weights, self.feeds = [], [], [], {}

    def constant(self, array) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, *inputs: str, **attributes) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def scale(self, shape=()) -> np.ndarray:
        return np.asarray(self.random.uniform(0.01, 0.05, shape), np.float32)

    def zero(self, kind: str) -> np.ndarray:
        low, high = np.iinfo(TYPES[kind][0]).min, np.iinfo(TYPES[kind][0]).max
        return np.asarray(self.random.integers(low, high + 1), TYPES[kind][0])

    def bytes(self, shape, kind: str) -> np.ndarray:
        info = np.iinfo(TYPES[kind][0])
        return self.random.integers(info.min, info.max + 1, shape).astype(TYPES[kind][0])

    def data(self, shape, kind: str) -> str:
        """Bytes that are an input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[kind][1], shape))
        self.feeds[name] = self.bytes(shape, kind)
        return name

    def params(self, kind: str, scale=None, zero=None) -> tuple[str, str]:
        return (self.constant(self.scale() if scale is None else np.float32(scale)),
                self.constant(self.zero(kind) if zero is None
                              else np.asarray(zero, TYPES[kind][0])))

    def dq(self, value: str, params: tuple[str, ...], **attributes) -> str:
        return self.node("DequantizeLinear", value, *params, **attributes)

    def q(self, value: str, params: tuple[str, ...]) -> str:
        return self.node("QuantizeLinear", value, *params)

    def source(self, shape, kind: str) -> str:
        return self.dq(self.data(shape, kind), self.params(kind))

    def weights_of(self, shape, style: str, axis: int) -> str:
        """Weights in one of the ways that exporters store them."""
        count = shape[axis]
        if style == "channels":
            zeros = np.zeros(count, np.int8)
            return self.dq(self.constant(self.bytes(shape, "i8")),
                           (self.constant(self.scale(count)), self.constant(zeros)), axis=axis)
        if style == "plain":
            return self.dq(self.constant(self.bytes(shape, "i8")), (self.constant(self.scale()),))
        zero = 128 if style == "u8" else 90
        data = self.bytes(shape, "u8")
        if style == "fits":
            data = np.minimum(data, 217)
        return self.dq(self.constant(data), self.params("u8", zero=zero))

    def finish(self, *outputs: str) -> bytes:
        values = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", self.inputs, values, self.weights)
        model = helper.make_model(graph, ir_version=10,
                                  opset_imports=[helper.make_opsetid("", self.opset)])
        return onnx.shape_inference.infer_shapes(model, strict_mode=True,
                                                 data_prop=True).SerializeToString()


def steps(plan: bytes) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.plan")
        path.write_bytes(plan)
        text = subprocess.run([args.demi, "show", path], capture_output=True, text=True,
                              check=True).stdout
    return re.findall(r"(?m)^    [%\d, ]+ = ([\w.]+)-", text)


class Quantized(unittest.TestCase):
    def check(self, m: Model, outputs, has: set[str], lacks=(), exact=False) -> None:
        data = m.finish(*outputs)
        plan = demi.compile(data)
        found = {step.removeprefix("demi.fused.").removesuffix("Last") for step in steps(plan)}
        self.assertLessEqual(has, found)
        self.assertFalse(found & set(lacks), found)
        plain = session(data, numerics="faithful", keep_values=True)
        want, got = (each.run(None, m.feeds) for each in (plain, session(plan)))
        faithful = session(data, numerics="faithful").run(None, m.feeds)
        for a, b, c in zip(want, got, faithful, strict=True):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
            self.assertEqual(a.tobytes(), c.tobytes())
            if exact:
                np.testing.assert_array_equal(a, b)
            elif a.dtype == np.float32:
                np.testing.assert_allclose(b, a, rtol=0, atol=FLOAT * np.max(np.abs(a)))
            else:
                off = np.abs(a.astype(int) - b.astype(int))
                self.assertLessEqual(off.max(initial=0), 1)
                self.assertLessEqual(np.mean(off > 0), OFF_BY_ONE + 1 / off.size)

    def ending(self, m: Model, value: str, seed: int, kind: str) -> str:
        """An activation and a QuantizeLinear, or none."""
        act = seed % 4
        if act == 1:
            value = m.node("Relu", value)
        elif act == 2:
            value = m.node("Clip", value, m.constant(np.float32(-1.3)),
                           m.constant(np.float32(2.9)))
        return value if seed % 5 == 4 else m.q(value, m.params(kind, scale=0.3))

    def bias(self, m: Model, count: int, seed: int) -> list[str]:
        if seed % 3 == 0:
            return []
        if seed % 3 == 1:
            return [m.constant(m.random.standard_normal(count).astype(np.float32))]
        numbers = m.random.integers(-4000, 4000, count).astype(np.int32)
        return [m.dq(m.constant(numbers), (m.constant(np.float32(0.0007)),))]

    def test_convolutions(self):
        shapes = [((1, 3, 11, 9), (7, 3, 3, 3), 1), ((2, 16, 7, 7), (24, 16, 1, 1), 1),
                  ((1, 19, 6, 5), (19, 1, 3, 3), 19), ((1, 8, 9, 9), (12, 4, 3, 2), 2),
                  ((1, 33, 8), (17, 33, 5), 1), ((1, 8, 5, 4), (16, 1, 3, 3), 8)]
        for seed in range(48):
            x_shape, w_shape, group = shapes[seed % len(shapes)]
            style = ("channels", "plain", "u8", "fits")[seed // 6 % 4]
            kind, to = ("u8", "i8")[seed // 2 % 2], ("i8", "u8")[seed // 3 % 2]
            rank = len(w_shape) - 2
            with self.subTest(seed=seed, style=style, kind=kind, to=to):
                m = Model(seed)
                y = m.node("Conv", m.source(x_shape, kind), m.weights_of(w_shape, style, 0),
                           *self.bias(m, w_shape[0], seed), group=group,
                           pads=[seed % 3] * rank + [seed // 2 % 2] * rank,
                           strides=[1 + seed % 2] * rank)
                self.check(m, [self.ending(m, y, seed, to)], {"QConv"}, {"Conv"})

    def test_products(self):
        for seed in range(36):
            style = ("channels", "plain", "u8", "fits")[seed % 4]
            kind, to = ("u8", "i8")[seed // 2 % 2], ("i8", "u8")[seed // 3 % 2]
            form = ("matmul", "gemm", "turned")[seed // 4 % 3]
            turned = form != "matmul"
            k, n = 29 + seed, 5 + 3 * seed
            with self.subTest(seed=seed, style=style, kind=kind, form=form):
                m = Model(seed)
                x = m.source((2, 3, k) if form == "matmul" else (4, k), kind)
                w = m.weights_of((n, k) if turned else (k, n), style, 0 if turned else 1)
                bias = self.bias(m, n, seed)
                if form == "gemm":
                    y = m.node("Gemm", x, w, *bias, transB=1)
                else:
                    y = m.node("MatMul", x, m.node("Transpose", w, perm=[1, 0]) if turned else w)
                    y = m.node("Add", y, *bias) if bias else y
                self.check(m, [self.ending(m, y, seed, to)], {"QMatMul"}, {"MatMul", "Gemm"})

    def test_products_of_data(self):
        m = Model(1)
        a, b = m.source((2, 4, 7, 33), "u8"), m.dq(m.data((2, 4, 33, 9), "i8"),
                                                  m.params("i8", zero=0))
        self.check(m, [m.q(m.node("MatMul", a, b), m.params("u8", scale=0.4))], {"QMatMul"})

    def test_sums(self):
        shapes = [((2, 5, 7, 3), (2, 5, 7, 3)), ((2, 3, 17), (17,)), ((4, 1, 5), (3, 1))]
        for seed in range(24):
            a, b = shapes[seed % 3]
            op, to = ("Add", "Sub")[seed % 2], ("u8", "i8")[seed // 3 % 2]
            with self.subTest(seed=seed):
                m = Model(seed)
                y = m.node(op, m.source(a, ("u8", "i8")[seed // 2 % 2]),
                           m.source(b, ("i8", "u8")[seed // 4 % 2]))
                act = ("Relu", None, "Clip")[seed % 3]
                if act == "Clip":
                    y = m.node("Clip", y, m.constant(np.float32(0)), m.constant(np.float32(6)))
                elif act:
                    y = m.node(act, y)
                self.check(m, [m.q(y, m.params(to, scale=0.07))], {"QAdd"}, {"Add", "Sub"})

    def test_sums_in_convolutions(self):
        """What a convolution makes is rounded as it would be alone, then what is added comes."""
        for seed in range(24):
            kinds = [("u8", "i8")[seed // k % 2] for k in (1, 2, 4)]
            with self.subTest(seed=seed):
                m, size = Model(seed), (1, 20 + seed, 5, 6)
                group = 2 if seed % 3 == 0 and seed % 2 == 0 else 1
                y = m.node("Conv", m.source(size, kinds[0]),
                           m.weights_of((size[1], size[1] // group, 1, 1), "channels", 0),
                           *self.bias(m, size[1], seed), group=group)
                if seed % 5 == 1:
                    y = m.node("Relu", y)
                between = m.params(kinds[1], scale=0.11)
                terms = [m.dq(m.q(y, between), between), m.source(size, kinds[2])]
                op = ("Add", "Sub")[seed % 4 == 3]
                y = m.node(op, *(terms if seed % 3 else terms[::-1]))
                y = m.node("Relu", y) if seed % 2 else y
                self.check(m, [m.q(y, m.params(kinds[0], scale=0.13))], {"QConv"},
                           {"QAdd", "Add", "Sub", "QuantizeLinear"})

    def test_products_by_element(self):
        shapes = [((2, 5, 7, 3), (2, 5, 7, 3)), ((2, 8, 5, 5), (2, 8, 1, 1)), ((4, 17), (17,))]
        for seed in range(24):
            a, b = shapes[seed % 3]
            kinds = [("u8", "i8")[seed // k % 2] for k in (1, 2, 4)]
            with self.subTest(seed=seed):
                m = Model(seed)
                y = m.node("Mul", m.source(a, kinds[0]), m.source(b, kinds[1]))
                y = m.node("Relu", y) if seed % 5 == 0 else y
                self.check(m, [m.q(y, m.params(kinds[2], scale=0.07))], {"QMul"}, {"Mul"})

    def test_means(self):
        ops = [("GlobalAveragePool", None, {}), ("ReduceMean", [2, 3], {"keepdims": 0}),
               ("ReduceMean", [1], {}), ("ReduceMean", [-1, 0], {}), ("ReduceMean", None, {}),
               ("ReduceSum", [3], {})]
        for seed in range(48):
            op, axes, attributes = ops[seed % 6]
            kind, to = ("u8", "i8")[seed // 6 % 2], ("i8", "u8")[seed // 12 % 2]
            with self.subTest(op, axes=axes, kind=kind, to=to):
                m = Model(seed, 18 if seed % 3 == 0 else 17)
                operand = axes and (m.opset == 18 or op == "ReduceSum")
                if axes and not operand:
                    attributes = attributes | {"axes": axes}
                y = m.node(op, m.source((2, 24, 7, 6), kind),
                           *([m.constant(np.int64(axes))] if operand else []), **attributes)
                y = y if seed % 5 == 4 else m.q(y, m.params(to, scale=0.011))
                self.check(m, [y], {"QMean"}, {op, "DequantizeLinear", "QuantizeLinear"})

    def test_quotients(self):
        """Whatever the divisor is, 0 too."""
        shapes = [((2, 5, 7, 3), (2, 5, 7, 3)), ((2, 8, 5, 5), (2, 8, 1, 1)), ((4, 17), (17,))]
        for seed in range(24):
            a, b = shapes[seed % 3]
            kinds = [("u8", "i8")[seed // k % 2] for k in (1, 2, 4)]
            with self.subTest(seed=seed):
                m = Model(seed)
                y = m.node("Div", m.source(a, kinds[0]), m.source(b, kinds[1]))
                relu = seed % 5 == 0
                y = m.node("Relu", y) if relu else y
                self.check(m, [m.q(y, m.params(kinds[2], scale=0.07))],
                           {"Relu"} if relu else {"QDiv"}, {"QDiv"} if relu else {"Div"})

    def test_pools(self):
        windows = [{"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]},
                   {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
                   {"kernel_shape": [3, 2], "dilations": [2, 3], "auto_pad": "SAME_UPPER"},
                   {"kernel_shape": [5, 4], "pads": [2, 3, 1, 0], "strides": [3, 1]},
                   {"kernel_shape": [3], "pads": [1, 2]},
                   {"kernel_shape": [2, 3, 2], "pads": [1, 0, 1, 1, 1, 0], "strides": [1, 2, 2]},
                   {"kernel_shape": [19, 17], "pads": [9, 8, 9, 8]}]
        for seed in range(56):
            window = windows[seed % 7]
            kind, to = ("u8", "i8")[seed // 7 % 2], ("i8", "u8")[seed // 14 % 2]
            with self.subTest(window, kind=kind, to=to, seed=seed):
                m = Model(seed, 22)
                shape = (2, 5, 21, 13, 6)[:2 + len(window["kernel_shape"])]
                y = m.node("AveragePool", m.source(shape, kind), count_include_pad=seed // 28,
                           **window)
                y = m.q(y, m.params(to, scale=0.02))
                self.check(m, [y], {"QAveragePool"},
                           {"AveragePool", "DequantizeLinear", "QuantizeLinear"})

    def test_exact_pools(self):
        """Where the definition rounds nothing in float, the result is the same: sums of multiples
        of nine, halves too, which are rounded to even."""
        for seed in range(4):
            kind = ("u8", "i8")[seed % 2]
            with self.subTest(seed=seed):
                m = Model(seed)
                name = m.data((1, 7, 9, 12), kind)
                m.feeds[name] //= 9
                m.feeds[name] *= 9
                zero = 9 * (seed + 1)
                y = m.node("AveragePool", m.dq(name, m.params(kind, scale=0.125, zero=zero)),
                           kernel_shape=[3, 3], strides=[1, 1 + seed // 2])
                y = m.q(y, m.params(kind, scale=0.25))
                self.check(m, [y], {"QAveragePool"}, exact=True)

    def test_interpolation(self):
        hows = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                "half_pixel_symmetric"]
        scales = [(1, 1, 2, 2), (1, 1, 0.5, 3), (1, 1, 1, 1.6), (1, 1, 4, 1), (1, 2, 1.5, 1)]
        for seed in range(50):
            kind, to = ("u8", "i8")[seed // 2 % 2], ("i8", "u8")[seed // 3 % 2]
            mode = "cubic" if seed % 7 == 6 else "linear"
            with self.subTest(seed=seed, mode=mode, kind=kind, to=to):
                m, shape = Model(seed), (2, 3, 6, 9)
                by = scales[seed // 5 % 5]
                sizes = np.int64([int(n * s) for n, s in zip(shape, by)])
                last = [m.constant(np.float32(by))] if seed % 2 else ["", m.constant(sizes)]
                y = m.node("Resize", m.source(shape, kind), "", *last, mode=mode,
                           coordinate_transformation_mode=hows[seed % 5])
                self.check(m, [m.q(y, m.params(to, scale=0.04))], {"QResize"},
                           {"Resize", "DequantizeLinear", "QuantizeLinear"})

    def test_exact_interpolation(self):
        """By 2 or 4 the weights are exact, and so are ties."""
        for seed in range(8):
            kind = ("u8", "i8")[seed % 2]
            with self.subTest(seed=seed):
                m = Model(seed)
                params = m.params(kind, scale=0.25)
                y = m.node("Resize", m.dq(m.data((1, 3, 5, 7), kind), params), "",
                           m.constant(np.float32([1, 1, 2, 2 + 2 * (seed // 4)])), mode="linear",
                           coordinate_transformation_mode=("half_pixel", "asymmetric")[seed // 2 % 2])
                self.check(m, [m.q(y, params)], {"QResize"}, exact=True)

    def test_nearest(self):
        """Elements move, whatever says which."""
        for how, near in itertools.product(
                ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                 "tf_half_pixel_for_nn", "half_pixel_symmetric"),
                ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")):
            with self.subTest(how, near=near):
                m = Model(5, 19)
                params = m.params("u8")
                y = m.node("Resize", m.dq(m.data((1, 2, 5, 6), "u8"), params), "",
                           m.constant(np.float32([1, 1, 2.3, 0.6])), mode="nearest",
                           coordinate_transformation_mode=how, nearest_mode=near)
                self.check(m, [m.q(y, params)], {"Resize"},
                           {"DequantizeLinear", "QuantizeLinear"}, exact=True)

    def test_transposed_convolutions(self):
        windows = [((2, 2), {"strides": [2, 2]}), ((4, 4), {"strides": [2, 2], "pads": [1] * 4}),
                   ((3, 3), {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
                   ((3, 2), {"strides": [1, 3], "dilations": [2, 2], "pads": [0, 1, 2, 0]}),
                   ((3, 3), {}), ((5,), {"strides": [3], "auto_pad": "SAME_UPPER"}),
                   ((2, 3), {"strides": [3, 4]}), ((4, 4), {"strides": [2, 2], "output_shape": [9, 11]})]
        for seed in range(64):
            taps, attributes = windows[seed % 8]
            style = ("channels", "plain", "u8", "fits")[seed // 8 % 4]
            kind, to = ("u8", "i8")[seed // 2 % 2], ("i8", "u8")[seed // 3 % 2]
            channels, filters = 3 + seed, 1 + 2 * seed
            with self.subTest(seed=seed, taps=taps, style=style, kind=kind, to=to, **attributes):
                m = Model(seed)
                y = m.node("ConvTranspose", m.source((2, channels, 5, 4)[:2 + len(taps)], kind),
                           m.weights_of((channels, filters, *taps), style, 1),
                           *self.bias(m, filters, seed), **attributes)
                self.check(m, [self.ending(m, y, seed, to)], {"QConvTranspose"},
                           {"ConvTranspose"})

    def test_regions(self):
        """Between convolutions all have their channels last. Weights neither add to what there is
        nor take from it, so that what one rounds otherwise stays about a quantum."""
        for seed in range(8):
            kind = ("u8", "i8")[seed % 2]
            with self.subTest(seed=seed):
                m, size = Model(seed), 7 + seed
                params = m.params(kind, scale=0.03, zero=(100, -5)[seed % 2])

                def weights(*shape, axis, m=m):
                    count = shape[axis]
                    scale = 1 / 74 / np.sqrt(np.prod(shape) / count)
                    return m.dq(m.constant(m.bytes(shape, "i8")),
                                (m.constant(np.full(count, scale, np.float32)),
                                 m.constant(np.zeros(count, np.int8))), axis=axis)

                def next_of(op, *inputs, m=m, params=params, **attributes):
                    return m.dq(m.q(m.node(op, *inputs, **attributes), params), params)

                y = next_of("Conv", m.source((2, 4, 40, 40), kind),
                            weights(size, 4, 5, 5, axis=0), pads=[2] * 4)
                y = next_of("AveragePool", y, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
                y = next_of("ConvTranspose", y, weights(size, 8, 2, 2, axis=1), strides=[2, 2])
                other = m.params(kind, scale=0.0213)  # else half of what is between would be ties
                y = next_of("Resize", y, "", m.constant(np.float32([1, 1, 0.5, 2])),
                            params=other, mode="linear")
                y = m.node("Conv", y, weights(6, 8, 5, 5, axis=0), pads=[2] * 4)
                data = m.finish(m.q(y, params))
                plan = demi.compile(data)
                self.assertLessEqual(
                    {"demi.fused.QAveragePoolLast", "demi.fused.QConvTransposeLast",
                     "demi.fused.QResize"}, set(steps(plan)))
                self.assertEqual(steps(plan).count("Transpose"), 2)
                plain = session(data, numerics="faithful", keep_values=True)
                want, got = (each.run(None, m.feeds)[0].astype(int) for each in (plain, session(plan)))
                self.assertGreater(np.std(want), 2)
                self.assertLessEqual(np.max(np.abs(want - got)), 1)
                self.assertLessEqual(np.mean(want != got), 5 * OFF_BY_ONE)  # of five steps

    def test_exact_means(self):
        """Where the definition rounds nothing in float, the result is the same."""
        for seed in range(8):
            kind = ("u8", "i8")[seed % 2]
            with self.subTest(seed=seed):
                m = Model(seed)
                x = m.dq(m.data((2, 12, 4, 8), kind), m.params(kind, scale=0.125))
                y = m.q(m.node("GlobalAveragePool", x), m.params(kind, scale=0.0625))
                self.check(m, [y], {"QMean"}, exact=True)

    def test_tables(self):
        def silu(m, x):
            return m.node("Mul", x, m.node("Sigmoid", x))

        def scaled(m, x):
            number = m.dq(m.constant(np.uint8(200)), m.params("u8"))
            return m.node("Div", m.node("Clip", m.node("Add", x, number), "",
                                        m.constant(np.float32(3))), m.constant(np.float32([7])))

        chains = [lambda m, x: x, silu, scaled, lambda m, x: m.node("Sigmoid", x),
                  lambda m, x: m.node("LeakyRelu", x, alpha=0.1),
                  lambda m, x: m.node("HardSwish", x), lambda m, x: m.node("Relu", x)]
        for seed, chain in enumerate(chains * 4):
            kind, to = ("u8", "i8")[seed // 7 % 2], ("i8", "u8")[seed // 14 % 2]
            with self.subTest(seed=seed):
                m = Model(seed)
                y = m.q(chain(m, m.source((3, 5, 41), kind)), m.params(to, scale=0.02))
                self.check(m, [y], {"QTable"}, {"QuantizeLinear", "DequantizeLinear"}, exact=True)

    def test_tables_of_tables(self):
        """x Sigmoid(x), whose factor is rounded before; either may come first."""
        for seed in range(8):
            kind, to = ("u8", "i8")[seed % 2], ("i8", "u8")[seed // 2 % 2]
            with self.subTest(seed=seed):
                m = Model(seed)
                x = m.source((3, 5, 41), kind)
                between = m.params(to, scale=1 / 200)
                by = m.dq(m.q(m.node(("Sigmoid", "HardSigmoid")[seed % 2], x), between), between)
                y = m.node("Mul", *((x, by) if seed // 4 else (by, x)))
                self.check(m, [m.q(y, m.params(to, scale=0.02))], {"QTable"},
                           {"QMul", "QuantizeLinear", "DequantizeLinear"}, exact=True)
        m = Model(9)
        between = m.params("u8", scale=1 / 200)
        a, b = (m.dq(m.q(m.node("Sigmoid", m.source((3, 41), "u8")), between), between)
                for _ in range(2))
        self.check(m, [m.q(m.node("Mul", a, b), between)], {"QTable", "QMul"})

    def test_extremes(self):
        for seed in range(8):
            op, kind = ("ReduceMax", "ReduceMin")[seed % 2], ("u8", "i8")[seed // 2 % 2]
            with self.subTest(op, kind=kind):
                m = Model(seed)
                params = m.params(kind)
                y = m.node(op, m.dq(m.data((2, 8, 5, 5), kind), params), axes=[2, 3],
                           keepdims=seed // 4)
                self.check(m, [m.q(y, params)], {op}, {"QuantizeLinear", "DequantizeLinear"},
                           exact=True)

    def test_moves(self):
        def ints(*items):
            return lambda m: m.constant(np.int64(items))

        moves = [("MaxPool", (), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
                 ("Reshape", (ints(0, -1),), {}), ("Transpose", (), {"perm": [0, 2, 3, 1]}),
                 ("Slice", (ints(1), ints(3), ints(2)), {}), ("Flatten", (), {}),
                 ("Gather", (ints(2, 0),), {"axis": 1}), ("Expand", (ints(2, 4, 6, 6),), {}),
                 ("DepthToSpace", (), {"blocksize": 2}), ("Unsqueeze", (ints(0),), {}),
                 ("Pad", (ints(0, 0, 1, 2, 0, 0, 0, 1),), {}),
                 ("Pad", (ints(0, 0, 1, 2, 0, 0, 0, 1),), {"mode": "reflect"}),
                 ("Resize", (lambda m: "", lambda m: m.constant(np.float32([1, 1, 2, 2]))),
                  {"mode": "nearest"})]
        for seed, (op, operands, attributes) in enumerate(moves * 4):
            with self.subTest(op, seed=seed):
                m, kind = Model(seed), ("u8", "i8")[seed // 12 % 2]
                params = m.params(kind)
                y = m.node(op, m.dq(m.data((1, 4, 6, 6), kind), params),
                           *(operand(m) for operand in operands), **attributes)
                same = seed < 24
                y = m.q(y, params if same else m.params("u8", scale=0.1))
                self.check(m, [y], set() if same else {"QTable"},
                           {"QuantizeLinear", "DequantizeLinear"}, exact=True)

    def test_concatenations(self):
        for seed in range(8):
            m, kinds = Model(seed), ("u8", ("u8", "i8")[seed % 2])
            params = m.params("u8")
            parts = [m.dq(m.data((1, 2, 3), "u8"), params)]
            parts += [m.source((1, 4, 3), kind) for kind in kinds]
            y = m.q(m.node("Concat", *parts, axis=1), params)
            self.check(m, [y], {"QTable", "Concat"}, {"QuantizeLinear", "DequantizeLinear"},
                       exact=True)

    def test_several_readers(self):
        """A value that several read is bytes for each, and floats for who wants them."""
        m = Model(7)
        params = m.params("u8")
        x = m.dq(m.q(m.node("Relu", m.source((1, 8, 6, 6), "u8")), params), params)
        a = m.node("Conv", x, m.weights_of((8, 8, 1, 1), "channels", 0))
        a = m.dq(m.q(a, params), params)
        y = m.q(m.node("Relu", m.node("Add", a, x)), params)
        self.check(m, [y, m.node("Softmax", x, axis=1)], {"QConv", "QTable"}, {"Conv", "QAdd"})

    def test_dynamic(self):
        for seed in range(6):
            m, n = Model(seed), 13
            m.inputs.append(helper.make_tensor_value_info("f", TensorProto.FLOAT, (2, 5, 40)))
            m.feeds["f"] = m.random.standard_normal((2, 5, 40)).astype(np.float32)
            q = helper.make_node("DynamicQuantizeLinear", ["f"], ["q", "s", "z"])
            m.nodes.append(q)
            kind = ("i8", "u8")[seed % 2]
            zeros = m.constant(np.full(n if seed % 3 else (), 128 * (seed % 2), TYPES[kind][0]))
            sums = m.node("MatMulInteger", "q", m.constant(m.bytes((40, n), kind)), "z", zeros)
            scale = m.node("Mul", "s", m.constant(m.scale(n if seed % 3 else ())))
            y = m.node("Mul", m.node("Cast", sums, to=TensorProto.FLOAT), scale)
            if seed > 2:
                y = m.node("Add", m.constant(m.random.standard_normal(n).astype(np.float32)), y)
            self.check(m, [y], {"QMatMul"}, {"MatMulInteger"})

    def network(self, random: np.random.Generator, how: str) -> onnx.ModelProto:
        """Convolutions of all kinds, a residual, pools, interpolation and a product, of floats."""
        weights, nodes = [numpy_helper.from_array(np.float32([1, 1, 2, 2]), "by")], []

        def layer(op, *inputs, shape=None, **attributes):
            name, operands = f"y{len(nodes)}", list(inputs)
            if shape:
                filters = shape[op == "ConvTranspose"]
                data = random.standard_normal(shape) / np.sqrt(np.prod(shape) / filters)
                for array in (data, random.standard_normal(filters) / 4):
                    weights.append(numpy_helper.from_array(np.float32(array), f"w{len(weights)}"))
                    operands.append(weights[-1].name)
            nodes.append(helper.make_node(op, operands, [name], **attributes))
            return name

        x = layer("Relu", layer("Conv", "x", shape=(24, 3, 3, 3), pads=[1] * 4, strides=[2, 2]))
        x = layer("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        y = layer("Relu", layer("Conv", x, shape=(24, 1, 3, 3), group=24, pads=[1] * 4))
        y = layer("Conv", y, shape=(24, 24, 1, 1))
        y = layer("Relu", layer("Add", y, x))
        y = layer("AveragePool", y, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
        y = layer("ConvTranspose", y, shape=(24, 20, 2, 2), strides=[2, 2])
        y = layer("Resize", y, "", "by", mode="linear", coordinate_transformation_mode=how)
        y = layer("Conv", y, shape=(24, 20, 1, 1))
        y = layer("Flatten", layer("GlobalAveragePool", y))
        y = layer("Gemm", y, shape=(10, 24), transB=1)
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 32, 28))],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, (1, 10))], weights)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])

    def test_quantizer(self):
        """What ONNX Runtime's own quantizer makes, of activations with and without a sign."""
        for kind, channels in itertools.product(("QUInt8", "QInt8"), (False, True)):
            with self.subTest(kind=kind, channels=channels), tempfile.TemporaryDirectory() as at:
                random = np.random.default_rng(3)
                feeds = [{"x": np.float32(random.standard_normal((1, 3, 32, 28)))}
                         for _ in range(4)]
                reader = type("Reader", (quantization.CalibrationDataReader,), {
                    "get_next": lambda _, left=iter(feeds): next(left, None)})()
                path = pathlib.Path(at, "m.onnx")
                quantization.quantize_static(
                    self.network(random, ("half_pixel", "asymmetric")[channels]), str(path), reader, per_channel=channels,
                    activation_type=quantization.QuantType[kind],
                    weight_type=quantization.QuantType.QInt8)
                data = path.read_bytes()
                plan = demi.compile(data)
                found = {step.removeprefix("demi.fused.").removesuffix("Last")
                         for step in steps(plan)}
                self.assertLessEqual({"QConv", "QMatMul", "MaxPool", "QAveragePool",
                                      "QConvTranspose", "QResize"}, found)
                self.assertFalse(found & {"Conv", "Gemm", "Add", "QAdd", "AveragePool", "Resize",
                                          "ConvTranspose"}, found)
                plain = session(data, numerics="faithful", keep_values=True)
                want = plain.run(None, feeds[0])[0]
                got = session(plan).run(None, feeds[0])[0]
                some = 0.02 * np.max(np.abs(want))  # a few quanta, each one off at most
                np.testing.assert_allclose(got, want, rtol=0, atol=some)

    def test_stays_float(self):
        """Weights that are not int8, and scales for each channel of data."""
        m = Model(3)
        data = m.constant(m.bytes((8, 4, 1, 1), "u8"))
        w = m.dq(data, m.params("u8", zero=3))
        y = m.q(m.node("Conv", m.source((1, 4, 5, 5), "u8"), w), m.params("u8", scale=0.3))
        self.check(m, [y], {"QuantizeLinear"}, {"QConv"})
        m = Model(5)
        y = m.node("ConvTranspose", m.source((1, 4, 5, 5), "u8"),
                   m.weights_of((4, 3, 2, 2), "plain", 1), group=2)
        self.check(m, [m.q(y, m.params("u8", scale=0.3))], {"ConvTranspose"}, {"QConvTranspose"})
        m = Model(6)
        y = m.node("Resize", m.source((1, 2, 3, 4), "u8"), "",
                   m.constant(np.float32([1, 2, 1, 2])), mode="linear")
        self.check(m, [m.q(y, m.params("u8", scale=0.03))], {"Resize"}, {"QResize"})
        m = Model(4)
        scales = m.constant(m.scale(6)), m.constant(m.bytes((6,), "u8"))
        y = m.node("Sigmoid", m.dq(m.data((2, 6, 3), "u8"), scales, axis=1))
        self.check(m, [m.q(y, scales)], {"Sigmoid"}, {"QTable"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    logging.disable(logging.WARNING)  # the quantizer's advice
    unittest.main(argv=[sys.argv[0], *rest])
