#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime's domain com.microsoft, beside that runtime, on random shapes.

Activations, norms, products, and operators of bytes. Each operator's cases are made at random from a
seed, with optional operands there or not, in float and in float16, in fast and in faithful plans, and
one of each is converted (suite/contrib_case.py has the limits). Operators that ONNX Runtime has no
processor's kernel for are held against their formula in numpy. In bfloat16, which its processor's
kernels have of few, results are the float ones, rounded once. What demi does not run of an operator is
refused by name.

    tools/suites/contrib_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from suite.contrib_case import (
    FLOAT, ROUNDS, STEP, Case, ContribCase, Feeds, Random, by_plan, by_session, main,
)
from suite.package import demi


class ContribTest(ContribCase):
    # ---- activations ----

    def test_gelus(self) -> None:
        def shapes(r: Random) -> tuple[int, ...]:
            return tuple(r.size() for _ in range(r.size(4)))
        for op in ("Gelu", "QuickGelu"):
            self.each(lambda r, op=op: Case(op, {"x": r.floats(*shapes(r))}))
        self.each(lambda r: Case("QuickGelu", {"x": r.floats(*shapes(r))}, alpha=0.7))

        def biased(r: Random, op: str, always: bool) -> Case:
            shape = shapes(r)
            bias = r.floats(shape[-1]) if always else r.maybe(shape[-1])
            return Case(op, {"x": r.floats(*shape), "bias": bias})
        self.each(lambda r: biased(r, "BiasGelu", True))
        self.each(lambda r: biased(r, "FastGelu", False))

    def test_split_gelu(self) -> None:
        """By its formula: ONNX Runtime has it for GPUs alone."""
        from math import erf
        for dtype in (np.float32, np.float16):
            r = Random(3, dtype)
            x, bias = r.floats(2, 3, 10), r.floats(10)
            left, right = np.split(x.astype(np.float32) + bias.astype(np.float32), 2, axis=2)
            gate = right * 0.5 * (1 + np.vectorize(erf)(right / np.sqrt(2)))
            self.compare(Case("BiasSplitGelu", {"x": x, "bias": bias}),
                         [(left * gate).astype(dtype)])

    # ---- norms ----

    def test_skip_norms(self) -> None:
        def make(r: Random, simple: bool) -> Case:
            b, s, h = r.size(3), r.size(), 4 * r.size()
            skip = [(b, s, h), (1, s, h), (s, h)][int(r.random.integers(1 if simple else 3))]
            feeds: Feeds = {"x": r.floats(b, s, h), "skip": r.floats(*skip), "gamma": r.floats(h)}
            if not simple:
                feeds["beta"] = r.maybe(h)
            feeds["bias"] = r.maybe(h)
            moments = (False if simple or r.flag() else np.float32, np.float32 if r.flag() else False)
            outputs = (None, *moments, None if r.flag() else False)
            while outputs[-1] is False:
                outputs = outputs[:-1]
            return Case("SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization",
                        feeds, outputs, epsilon=1e-5)
        for simple in (False, True):
            self.each(lambda r, simple=simple: make(r, simple))

    def test_norms_of_the_default_domain(self) -> None:
        """What ONNX Runtime's files have there, at opsets that do not have it."""
        def make(r: Random, op: str) -> Case:
            h = 4 * r.size()
            feeds: Feeds = {"x": r.floats(2, r.size(), h), "scale": r.floats(h)}
            if op == "LayerNormalization":
                feeds["bias"] = r.maybe(h)
            more = (np.float32,) if op != "LayerNormalization" and r.flag() else ()
            return Case(op, feeds, (None, *more), domain="", opset=12, epsilon=1e-5, axis=-1)
        for op in ("SimplifiedLayerNormalization", "LayerNormalization"):
            self.each(lambda r, op=op: make(r, op))

    def test_embeddings(self) -> None:
        def make(r: Random) -> Case:
            b, s, h = r.size(3), r.size(), 4 * r.size()
            segments = r.flag()
            feeds: Feeds = {
                "ids": r.ints(9, b, s), "segments": r.ints(2, b, s) if segments else None,
                "words": r.floats(9, h), "positions": r.floats(8, h),
                "segment_rows": r.floats(2, h) if segments else None, "gamma": r.floats(h),
                "beta": r.floats(h), "mask": r.ints(2, b, s) if r.flag() else None,
                "position_ids": r.ints(8, b, s) if r.flag() else None}
            outputs = (r.dtype, np.int32, r.dtype)[:3 if r.flag() else 2]
            return Case("EmbedLayerNormalization", feeds, outputs, epsilon=1e-5,
                        opset=(12, 17)[r.flag()])
        self.each(make)

    def test_embeddings_of_bytes(self) -> None:
        def make(r: Random, dtype: type) -> Case:
            b, s, h = r.size(3), r.size(), 4 * r.size()
            segments = r.flag()
            tables = {"words": (9, h), "positions": (8, h), "rows": (2, h), "gamma": (h,),
                      "beta": (h,)}
            there = [n for n in tables if segments or n != "rows"]
            feeds: Feeds = {"ids": r.ints(9, b, s), "segments": r.ints(2, b, s) if segments else None}
            feeds |= {n: r.bytes(dtype, *d) if n in there else None for n, d in tables.items()}
            feeds["mask"] = r.ints(2, b, s) if r.flag() else None
            feeds |= {f"{n}_scale": r.scale() if n in there else None for n in tables}
            feeds |= {f"{n}_zero": r.bytes(dtype) if n in there else None for n in tables}
            return Case("QEmbedLayerNormalization", feeds, (np.float32, np.int32),
                        [n for n in feeds if n not in ("ids", "segments", "mask")], epsilon=1e-5)
        for dtype in (np.uint8, np.int8):
            self.each(lambda r, dtype=dtype: make(r, dtype), halves=False, rounds=2 * ROUNDS)

    def test_group_norm(self) -> None:
        """By its formula: ONNX Runtime has it for GPUs alone."""
        for seed in range(8):
            r = Random(seed, (np.float32, np.float16)[seed % 2])
            last, activation, skips = r.flag(), int(r.flag()), seed > 3
            x = r.floats(2, 4, 3, 8)
            gamma, beta = (r.random.standard_normal(8).astype(np.float32) for _ in range(2))
            feeds: Feeds = {"x": x if last else np.moveaxis(x, 3, 1), "gamma": gamma, "beta": beta}
            total = x.astype(np.float32)
            if skips:
                skip, bias = r.floats(2, 8), r.maybe(8)
                feeds |= {"skip": skip, "bias": bias}
                total = total + skip.astype(np.float32)[:, None, None]
                total = total + (0 if bias is None else bias.astype(np.float32))
            parts = total.reshape(2, 12, 2, 4)
            mean, var = (f(parts, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
            y = ((parts - mean) / np.sqrt(var + 1e-5)).reshape(total.shape) * gamma + beta
            y = y / (1 + np.exp(-y)) if activation else y
            want = [a if last else np.moveaxis(a, 3, 1) for a in (y, total)[:1 + skips]]
            with self.subTest(seed=seed):
                self.compare(Case("SkipGroupNorm" if skips else "GroupNorm", feeds,
                                  (r.dtype,) * len(want), groups=2, activation=activation,
                                  channels_last=int(last)), [a.astype(r.dtype) for a in want])

    # ---- products ----

    def test_fused_matmul(self) -> None:
        def make(r: Random, batches: bool) -> Case:
            m, k, n, rank = r.size(), r.size(), r.size(), r.size(3) + 1
            outer = [r.size(3) for _ in range(rank - 2)]
            a, b = r.flag(), r.flag()
            left, right = [(k, m), (n, k)], [(m, k), (k, n)]
            shapes = [[*outer, *(left if turn else right)[i]] for i, turn in enumerate((a, b))]
            turned = [batches and rank > 2 and r.flag() for _ in range(2)]
            shapes = [[s[-2], *s[:-2], s[-1]] if t else s for s, t in zip(shapes, turned)]
            extra = {"transBatchA": int(turned[0]), "transBatchB": int(turned[1])}
            return Case("FusedMatMul" if batches else "TransposeMatMul",
                        {"a": r.floats(*shapes[0]), "b": r.floats(*shapes[1])}, alpha=0.5,
                        transA=int(a), transB=int(b), **(extra if batches else {}))
        self.each(lambda r: make(r, True), rounds=4 * ROUNDS)
        self.each(lambda r: make(r, False))

    def test_weights_of_bitsandbytes(self) -> None:
        def make(r: Random) -> Case:
            n, k = 4 * r.size(4), 8 * r.size(4)
            data = Random(n).bytes(np.uint8, n * k // 2)
            return Case("MatMulBnb4", {
                "a": r.floats(2, r.size(), k), "b": data, "most": np.abs(r.floats(n * k // 16))},
                constants=("b", "most"), N=n, K=k, block_size=16, quant_type=int(r.flag()))
        self.each(make, rounds=3 * ROUNDS)

    def test_fused_gemm(self) -> None:
        ends = [("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"alpha": 0.3}),
                ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Elu", {"alpha": 0.7})]

        def make(r: Random, end: str, params: dict[str, float]) -> Case:
            m, k, n, a, b = r.size(), r.size(), r.size(), r.flag(), r.flag()
            c = [None, r.floats(n), r.floats(m, 1)][int(r.random.integers(3))]
            return Case("FusedGemm", {"a": r.floats(*((k, m) if a else (m, k))),
                                      "b": r.floats(*((n, k) if b else (k, n))), "c": c},
                        transA=int(a), transB=int(b), alpha=0.5, beta=2.0, activation=end,
                        **{f"activation_{name}": value for name, value in params.items()})
        for end, params in ends:
            self.each(lambda r, end=end, params=params: make(r, end, params))

    def test_fused_conv(self) -> None:
        ends = [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.3]),
                ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4])]

        def make(r: Random, end: str, params: list[float]) -> Case:
            group, channels, side = r.size(2), r.size(3), r.size(5) + 3
            filters = group * r.size(3)
            feeds: Feeds = {"x": r.floats(1, group * channels, side, side),
                            "w": r.floats(filters, channels, 3, 3), "b": r.floats(filters)}
            if end == "Relu":
                feeds["z"] = r.floats(1, filters, side, side)
            more = {"activation_params": params} if params else {}
            return Case("FusedConv", feeds, group=group, pads=[1, 1, 1, 1], activation=end, **more)
        for end, params in ends:
            self.each(lambda r, end=end, params=params: make(r, end, params))

    def test_conv_with_channels_last(self) -> None:
        """ONNX's Conv of the same data: ONNX Runtime has it for GPUs alone."""
        for dtype in (np.float32, np.float16):
            r = Random(1, dtype)
            x, w, b = r.floats(1, 4, 6, 6), r.floats(8, 2, 3, 3), r.floats(8)
            plain = Case("Conv", {"x": x, "w": w, "b": b}, domain="", group=2, pads=[1, 1, 1, 1])
            last = Case("NhwcConv", {"x": np.moveaxis(x, 1, 3).copy(),
                                     "w": np.moveaxis(w, 1, 3).copy(), "b": b}, group=2,
                        pads=[1, 1, 1, 1])
            self.compare(last, [np.moveaxis(plain.by_ort()[0], 1, 3)])

    def test_inverse(self) -> None:
        self.each(lambda r: Case("Inverse", {"x": (r.floats(r.size(3), *(n := r.size(),) * 2)
                                                   + 4 * np.eye(n)).astype(r.dtype)}))

    # ---- bytes ----

    def test_quantizing(self) -> None:
        """Also to 16 bits, before ONNX's own have them; with a scale for each index of an axis."""
        for kind in (np.uint8, np.int8, np.uint16, np.int16):
            def make(r: Random, down: bool, kind: type = kind) -> Case:
                shape, axis = (r.size(), r.size(), r.size()), int(r.random.integers(3))
                each = (shape[axis],) if r.flag() else ()
                step = 1 if np.dtype(kind).itemsize == 1 else 1e-2
                scale = np.asarray(r.scale(*each) * step, r.dtype)
                x = r.floats(*shape) if down else r.bytes(kind, *shape)
                return Case("QuantizeLinear" if down else "DequantizeLinear",
                            {"x": x, "scale": scale, "zero": np.asarray(r.bytes(kind, *each) // 4)},
                            (kind if down else r.dtype,), axis=axis)
            self.each(lambda r, make=make: make(r, True), STEP, halves=False)
            self.each(lambda r, make=make: make(r, False), halves=False)

    def test_quantized_pairs(self) -> None:
        def make(r: Random, dtype: type, op: str) -> Case:
            shape = (r.size(3), r.size(), r.size())
            feeds: Feeds = {"a": r.bytes(dtype, *shape), "a_scale": r.scale(),
                            "a_zero": r.bytes(dtype), "b": r.bytes(dtype, 1, *shape[1:]),
                            "b_scale": r.scale(), "b_zero": r.bytes(dtype), "c_scale": r.scale(),
                            "c_zero": r.bytes(dtype)}
            return Case(op, feeds, constants=[n for n in feeds if n not in "ab"])
        for op in ("QLinearAdd", "QLinearMul"):
            self.quantized(lambda r, dtype, op=op: make(r, dtype, op))

    def test_zero_points_that_are_not_there(self) -> None:
        """They are 0, of the data's type, in the result too."""
        for dtype in (np.uint8, np.int8):
            r, zero = Random(1), np.zeros((), dtype)
            feeds: Feeds = {"a": r.bytes(dtype, 9), "as": r.scale(), "az": zero,
                            "b": r.bytes(dtype, 9), "bs": r.scale(), "bz": zero, "cs": r.scale(),
                            "cz": zero}
            want = Case("QLinearAdd", dict(feeds), constants=[n for n in feeds if n not in "ab"])
            feeds |= {"az": None, "bz": None, "cz": None}
            case = Case("QLinearAdd", feeds, constants=[n for n in feeds if n not in "ab"])
            self.compare(case, want.by_ort(), STEP)

    def one_quantized(self, op: str, **attributes: object) -> None:
        def make(r: Random, dtype: type) -> Case:
            feeds: Feeds = {"x": r.bytes(dtype, r.size(2), 3, r.size(4) + 2, r.size(4) + 2),
                            "x_scale": r.scale(), "x_zero": r.bytes(dtype), "y_scale": r.scale(),
                            "y_zero": r.bytes(dtype)}
            return Case(op, feeds, constants=list(feeds)[1:], **attributes)
        self.quantized(make)

    def test_quantized_activations(self) -> None:
        self.one_quantized("QLinearSigmoid")
        self.one_quantized("QLinearLeakyRelu", alpha=0.3)

    def test_quantized_softmax(self) -> None:
        for opset, axis in ((17, -1), (17, 1), (12, 1)):
            for dtype in (np.uint8, np.int8):
                r = Random(opset + axis, np.float32)
                x = r.bytes(dtype, 2, 3, 4)
                constants = [numpy_helper.from_array(np.array(a), n) for n, a in (
                    ("s", np.float32(0.05)), ("z", dtype(3)), ("t", np.float32(1 / 256)),
                    ("w", np.iinfo(dtype).min * np.ones((), dtype)))]
                kind = helper.np_dtype_to_tensor_dtype(x.dtype)
                node = helper.make_node("QLinearSoftmax", ["x", "s", "z", "t", "w"], ["y"],
                                        domain="com.microsoft", axis=axis, opset=opset)
                graph = helper.make_graph(
                    [node], "g", [helper.make_tensor_value_info("x", kind, x.shape)],
                    [helper.make_tensor_value_info("y", kind, None)], constants)
                case = Case("Gelu", {"x": x})
                case.op, case.model = "QLinearSoftmax", helper.make_model(
                    graph, ir_version=8, opset_imports=[
                        helper.make_opsetid("", opset),
                        helper.make_opsetid("com.microsoft", 1)]).SerializeToString()
                with self.subTest(opset=opset, axis=axis, dtype=dtype.__name__):
                    self.compare(case, case.by_ort(), STEP)

    def test_quantized_pools(self) -> None:
        for last in (0, 1):
            self.one_quantized("QLinearGlobalAveragePool", channels_last=last)
            self.one_quantized("QLinearAveragePool", channels_last=last, kernel_shape=[2, 2],
                               pads=[1, 1, 1, 1], strides=[2, 1], count_include_pad=last)
        self.quantized(lambda r, dtype: Case(
            "NhwcMaxPool", {"x": r.bytes(dtype, 1, r.size() + 3, r.size() + 3, r.size())},
            kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1]))

    def test_quantized_moves(self) -> None:
        def joined(r: Random, dtype: type) -> Case:
            feeds: Feeds = {"scale": r.scale(), "zero": r.bytes(dtype)}
            for i in range(r.size(3) + 1):
                feeds |= {f"x{i}": r.bytes(dtype, 2, r.size()), f"s{i}": r.scale(),
                          f"z{i}": r.bytes(dtype)}
            return Case("QLinearConcat", feeds, (dtype,), [n for n in feeds if n[0] != "x"],
                        axis=1)
        self.quantized(joined)

        def chosen(r: Random, dtype: type) -> Case:
            n = r.size()
            feeds: Feeds = {"if": r.ints(2, 2, n).astype(bool), "x": r.bytes(dtype, 2, n),
                            "xs": r.scale(), "xz": r.bytes(dtype), "y": r.bytes(dtype, 1, n),
                            "ys": r.scale(), "yz": r.bytes(dtype), "zs": r.scale(),
                            "zz": r.bytes(dtype)}
            return Case("QLinearWhere", feeds, (dtype,), [n for n in feeds if n[1:] in ("s", "z")])
        self.quantized(chosen)

    def test_quantized_products(self) -> None:
        def gemm(r: Random, dtype: type) -> Case:
            m, k, n, a, b = r.size(), r.size(), r.size(), r.flag(), r.flag()
            other = np.int8 if dtype == np.int8 or r.flag() else np.uint8
            each, floats = r.flag(), r.flag()
            feeds: Feeds = {
                "a": r.bytes(dtype, *((k, m) if a else (m, k))), "as": r.scale(),
                "az": r.bytes(dtype), "b": r.weights(other, *((n, k) if b else (k, n))),
                "bs": r.scale(n) if each else r.scale(),
                "bz": r.weights(other, n) if each else r.weights(other),
                "c": r.ints(200, n) if r.flag() else None, "ys": None if floats else r.scale(),
                "yz": None if floats else r.bytes(dtype)}
            return Case("QGemm", feeds, (np.float32 if floats else dtype,),
                        [n for n in feeds if n != "a"], transA=int(a), transB=int(b))
        self.quantized(gemm)

        def conv(r: Random, dtype: type) -> Case:
            group, channels, filters, last = r.size(2), r.size(3), 2 * r.size(3), r.flag()
            other = np.int8 if dtype == np.int8 or r.flag() else np.uint8
            shape = (1, r.size() + 2, r.size() + 2, group * channels)
            each = r.flag()
            feeds: Feeds = {
                "x": r.bytes(dtype, *(shape if last else (1, *shape[:0:-1]))), "xs": r.scale(),
                "xz": r.bytes(dtype), "w": r.weights(other, group * filters, channels, 3, 3),
                "ws": r.scale(group * filters) if each else r.scale(),
                "wz": np.zeros(group * filters if each else (), other), "ys": r.scale() * 9,
                "yz": r.bytes(dtype),
                "b": r.ints(999, group * filters) if r.flag() else None}
            return Case("QLinearConv", feeds, constants=[n for n in feeds if n != "x"],
                        channels_last=int(last), group=group, pads=[1, 1, 1, 1], strides=[1, 2])
        self.quantized(conv)

        def to_float(r: Random, dtype: type) -> Case:
            k, n = r.size(), r.size()
            other = np.int8 if dtype == np.int8 or r.flag() else np.uint8
            return Case("MatMulIntegerToFloat", {
                "a": r.bytes(dtype, 2, r.size(), k), "b": r.weights(other, k, n), "as": r.scale(),
                "bs": r.scale(n) if r.flag() else r.scale(), "az": r.bytes(dtype),
                "bz": r.weights(other, n) if r.flag() else None, "bias": r.maybe(n)}, (np.float32,))
        self.quantized(to_float)

        def dynamic(r: Random, dtype: type) -> Case:
            k, n = r.size(), r.size()
            return Case("DynamicQuantizeMatMul", {
                "a": r.floats(2, r.size(), k), "b": r.weights(dtype, k, n), "bs": r.scale(),
                "bz": r.weights(dtype) if r.flag() else None, "bias": r.maybe(n)},
                constants=("b", "bs", "bz"))
        self.quantized(dynamic)

    # ---- one rounding ----

    def test_bfloat16(self) -> None:
        """Results are those of float arithmetic on the same numbers, rounded once, to the bit."""
        def feeds(**shapes: tuple[int, ...]) -> Feeds:
            r = Random(len(shapes))
            return {name: r.floats(*shape).astype(ml_dtypes.bfloat16)
                    for name, shape in shapes.items()}
        row, heads = (2, 3, 8), {"num_heads": 4}
        places: Feeds = {**feeds(x=(2, 3, 32)), "places": np.array([1], np.int64),
                         **feeds(cos=(8, 4), sin=(8, 4))}
        for op, given, attributes in (
                ("Gelu", feeds(x=row), {}), ("BiasGelu", feeds(x=row, b=(8,)), {}),
                ("FastGelu", feeds(x=row, b=(8,)), {}), ("QuickGelu", feeds(x=row), {}),
                ("FusedMatMul", feeds(a=(3, 64), b=(64, 5)), {"alpha": 0.3}),
                ("SkipLayerNormalization", feeds(x=row, s=row, g=(8,), b=(8,), c=(8,)), {}),
                ("SkipSimplifiedLayerNormalization", feeds(x=row, s=row, g=(8,), c=(8,)), {}),
                ("MultiHeadAttention", feeds(q=(2, 3, 32), k=(2, 5, 32), v=(2, 5, 32)), heads),
                ("Attention", feeds(x=(2, 3, 16), w=(16, 96), b=(96,)), heads),
                ("GroupQueryAttention", {
                    **feeds(q=(2, 3, 32), k=(2, 3, 16), v=(2, 3, 16)), "pk": None, "pv": None,
                    "lengths": np.full(2, 2, np.int32), "total": np.array(3, np.int32)},
                 {"num_heads": 4, "kv_num_heads": 2}),
                ("RotaryEmbedding", places, {})):
            wide = {n: a.astype(np.float32) if getattr(a, "dtype", 0) == ml_dtypes.bfloat16 else a
                    for n, a in given.items()}
            for numerics in ("fast", "faithful"):
                with self.subTest(op=op, numerics=numerics):
                    want = Case(op, dict(wide), **attributes).by_demi(numerics)[0]
                    got = Case(op, dict(given), **attributes).by_demi(numerics)[0]
                    self.assertEqual(got.tobytes(), want.astype(ml_dtypes.bfloat16).tobytes())

    # ---- in functions ----

    def test_functions(self) -> None:
        """One that calls another, whose attribute it says; of two types in one model."""
        own = [helper.make_opsetid(d, v) for d, v in (("", 17), ("com.microsoft", 1), ("f", 1))]
        reference = helper.make_node("LeakyRelu", ["t"], ["y"])
        reference.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="a",
                                                       type=onnx.AttributeProto.FLOAT))
        inner = helper.make_function("f", "inner", ["x", "b"], ["y"], [
            helper.make_node("BiasGelu", ["x", "b"], ["t"], domain="com.microsoft"), reference],
            own, attributes=["a"])
        outer = helper.make_function("f", "outer", ["x", "b"], ["y", "s"], [
            helper.make_node("Identity", ["x"], ["s"]),
            helper.make_node("inner", ["x", "b"], ["t"], domain="f", a=0.5),
            helper.make_node("QuickGelu", ["t"], ["y"], domain="com.microsoft")], own)
        half, full = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
        nodes = [helper.make_node("outer", ["x", "b"], ["y", "same"], domain="f"),
                 helper.make_node("Cast", ["y"], ["w"], to=half),
                 helper.make_node("Cast", ["b"], ["c"], to=half),
                 helper.make_node("inner", ["w", "c"], ["z"], domain="f", a=2.0)]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info(n, full, d)
                         for n, d in (("x", [3, 8]), ("b", [8]))],
            [helper.make_tensor_value_info(n, t, None)
             for n, t in (("y", full), ("same", full), ("z", half))])
        model = helper.make_model(graph, ir_version=9, functions=[inner, outer],
                                  opset_imports=own).SerializeToString()
        r = Random(1)
        feeds = {"x": r.floats(3, 8), "b": r.floats(8)}
        want = by_session(model, feeds)
        for numerics in ("fast", "faithful"):
            for one, other in zip(by_plan(model, numerics, feeds), want):
                self.assertEqual(one.dtype, other.dtype)
                near = FLOAT if other.dtype == np.float32 else 5e-3
                np.testing.assert_allclose(one.astype(np.float32), other.astype(np.float32),
                                           rtol=0, atol=near)

    # ---- what is missing ----

    def test_refusals(self) -> None:
        r = Random(0)
        x, g = r.floats(2, 3, 8), r.floats(8)
        for case, says in (
                (Case("SkipSimplifiedLayerNormalization", {"x": x, "s": x, "g": g}, (None, np.float32)),
                 "com.microsoft.SkipSimplifiedLayerNormalization with its output 'mean'"),
                (Case("Attention", {"x": x, "w": r.floats(8, 24)}, num_heads=2, do_rotary=1),
                 "com.microsoft.Attention with do_rotary"),
                (Case("FusedConv", {"x": r.floats(1, 2, 4, 4), "w": r.floats(2, 2, 3, 3)},
                      activation="Softplus"), "com.microsoft.FusedConv with this activation"),
                (Case("Attention", {"x": x, "w": r.floats(8, 24), "b": r.floats(24)}, num_heads=2,
                      past_present_share_buffer=1),
                 "com.microsoft.Attention with past_present_share_buffer"),
                (Case("MatMulBnb4", {"a": x, "b": np.zeros(32, np.uint8), "m": r.floats(4)}, N=8,
                      K=8, block_size=16, quant_type=0, transB=0),
                 "com.microsoft.MatMulBnb4 with transB=0"),
                (Case("BiasSoftmax", {"x": x, "b": x}, axis=1, is_inner_broadcast=0),
                 "com.microsoft.BiasSoftmax along an axis other than the last"),
                (Case("PackedAttention", {"x": x}), "com.microsoft.PackedAttention"),
                (Case("PackedMultiHeadAttention", {"x": x}),
                 "com.microsoft.PackedMultiHeadAttention"),
                (Case("LongformerAttention", {"x": x}), "com.microsoft.LongformerAttention"),
                (Case("BertTokenizer", {"x": x}, domain="ai.onnx.contrib"),
                 "ai.onnx.contrib.BertTokenizer")):
            model = onnx.load_from_string(case.model)
            model.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
            with self.assertRaisesRegex(Exception, says):
                demi.compile(model)

    def test_refusals_in_runs(self) -> None:
        """Where what is asked for is a matter of operands, or of kernels."""
        r = Random(0)
        q, x = r.floats(1, 1, 16), r.floats(1, 3, 4)
        names = ("bias", "mask", "scores", "past_key", "past_value", "length")
        heads: Feeds = {"q": q, "k": q, "v": q, **dict.fromkeys(names),
                        "beams": np.zeros((1, 1, 4), np.int32)}
        experts: Feeds = {"x": x, "router": r.floats(3, 2), "w1": r.bytes(np.uint8, 2, 4, 2),
                          "s1": r.scale(2, 4), "b1": None, "w2": r.bytes(np.uint8, 2, 4, 2),
                          "s2": r.scale(2, 4)}
        for case, says in (
                (Case("MultiHeadAttention", heads, num_heads=2), "beam caches are not supported"),
                (Case("CausalConvWithState", {"x": x, "w": r.floats(3, 1, 2)}, (None, None),
                      dilation=2), "state_window, channels_last, ndim, or dilation is not supported"),
                (Case("LinearAttention", {"q": x, "k": x, "v": x}, (None, None), q_num_heads=1,
                      kv_num_heads=1, update_rule="linear", state_window=2),
                 "states of several tokens are not supported"),
                (Case("QMoE", dict(experts), weights_prepacked=1), "weights_prepacked is not supported"),
                (Case("QMoE", dict(experts), quant_type="fp4"), "quant_type is not 'int'"),
                (Case("QMoE", dict(experts), use_sparse_mixer=1), "use_sparse_mixer is not supported")):
            with self.assertRaisesRegex(Exception, f"{case.op}.*{says}"):
                case.by_demi("fast")



if __name__ == "__main__":
    main(__doc__)
