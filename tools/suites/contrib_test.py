#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime's domain com.microsoft, beside that runtime, on random shapes.

Each operator's cases are made at random from a seed, with optional operands there or not, in float
and in float16: what demi computes, in fast and in faithful plans, is within FLOAT or HALF of the
largest number of what ONNX Runtime computes, and quantized results are within one step. One case of
each is converted to float16: its node has a reason, ONNX Runtime runs the file, and results are
within LOWERED. Operators that ONNX Runtime has no processor's kernel for are held against their
formula in numpy. In bfloat16, which its processor's kernels have of few, results are the float ones,
rounded once. What demi does not run of an operator is refused by name.

    tools/suites/contrib_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from suite import runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT, HALF, LOWERED, STEP = 2e-5, 3e-3, 1e-2, 1
ROUNDS = 4
args = argparse.Namespace()
library: runtime.LibDemi
Feeds = dict[str, np.ndarray | None]


class Case:
    """A model of one node: operands are inputs, or constants where `constants` names them."""

    def __init__(self, op: str, feeds: Feeds, outputs: Sequence[object] = (None,),
                 constants: Sequence[str] = (), opset: int = 17, domain: str = "com.microsoft",
                 **attributes: object) -> None:
        self.op, self.attributes = op, attributes
        while feeds and list(feeds.values())[-1] is None:
            feeds.popitem()
        given = {name: a for name, a in feeds.items() if a is not None}
        self.feeds = {n: a for n, a in given.items() if n not in constants}
        first = next(iter(given.values())).dtype
        names = ["" if kind is False else f"y{i}" for i, kind in enumerate(outputs)]
        node = helper.make_node(op, [n if a is not None else "" for n, a in feeds.items()], names,
                                name="it", domain=domain, **attributes)
        results = [helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(kind or first)), None)
            for name, kind in zip(names, outputs) if name]
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in self.feeds.items()], results,
            [numpy_helper.from_array(given[n], n) for n in constants if n in given])
        self.model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)],
        ).SerializeToString()

    def by_demi(self, numerics: str) -> list[np.ndarray]:
        return runtime.PlanRunner(library, library.compile(self.model, numerics)).run(self.feeds)

    def by_ort(self, model: bytes = b"") -> list[np.ndarray]:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = ort.InferenceSession(model or self.model, options, ["CPUExecutionProvider"])
        return session.run(None, self.feeds)

    def converted(self) -> tuple[bytes, list[dict[str, str]]]:
        """The model in float16, and what is said of its nodes."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "m.onnx"), pathlib.Path(folder, "low.onnx")
            source.write_bytes(self.model)
            done = subprocess.run([args.demi, "convert", source, "-o", target, "--json=-"],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                raise AssertionError(done.stderr)
            return target.read_bytes(), json.loads(done.stdout)["nodes"]


class Random:
    def __init__(self, seed: int, dtype: type = np.float32) -> None:
        self.random, self.dtype = np.random.default_rng(seed), np.dtype(dtype)
        self.half = dtype == np.float16

    def size(self, most: int = 7) -> int:
        return int(self.random.integers(1, most + 1))

    def flag(self) -> bool:
        return bool(self.random.integers(2))

    def floats(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(self.dtype)

    def maybe(self, *shape: int) -> np.ndarray | None:
        return self.floats(*shape) if self.flag() else None

    def ints(self, most: int, *shape: int, dtype: type = np.int32) -> np.ndarray:
        return self.random.integers(0, most, shape).astype(dtype)

    def mask(self, *shape: int) -> np.ndarray:
        """Zeros and ones, but for the first key: of rows without ones, to which -10000 is added
        as a whole, rounding leaves little."""
        made = self.ints(2, *shape)
        made[..., 0] = 1
        return made

    def bytes(self, dtype: type, *shape: int) -> np.ndarray:
        ends = np.iinfo(dtype)
        return self.random.integers(ends.min, ends.max + 1, shape).astype(dtype)

    def scale(self, *shape: int) -> np.ndarray:
        return self.random.uniform(0.01, 0.09, shape).astype(np.float32)


class ContribTest(unittest.TestCase):
    def compare(self, case: Case, want: list[np.ndarray], step: float = 0) -> None:
        half = any(a.dtype == np.float16 for a in want)
        for numerics in ("fast", "faithful"):
            got = case.by_demi(numerics)
            self.assertEqual([(g.dtype, g.shape) for g in got], [(w.dtype, w.shape) for w in want])
            for one, other in zip(got, want):
                most = float(np.max(np.abs(other.astype(np.float64)), initial=1))
                near = step if other.dtype.kind in "iu" else (HALF if half else FLOAT) * most
                np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64),
                                           rtol=0, atol=near, err_msg=f"{case.op} {numerics}")

    def each(self, make: Callable[[Random], Case], step: float = 0, halves: bool = True,
             rounds: int = ROUNDS) -> None:
        for dtype in (np.float32, np.float16) if halves else (np.float32,):
            for seed in range(rounds):
                case = make(Random(seed, dtype))
                with self.subTest(op=case.op, seed=seed, dtype=dtype.__name__,
                                  attributes=case.attributes):
                    want = case.by_ort()
                    self.compare(case, want, step)
                    if seed == 0 and dtype == np.float32:
                        self.convert(case, want, step)

    def convert(self, case: Case, want: list[np.ndarray], step: float) -> None:
        model, nodes = case.converted()
        for node in nodes:
            self.assertTrue(node["reason"] and "unknown" not in node["reason"], node)
        for one, other in zip(case.by_ort(model), want):
            most = float(np.max(np.abs(other.astype(np.float64)), initial=1))
            near = step if other.dtype.kind in "iu" else LOWERED * most
            np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol=0,
                                       atol=near, err_msg=f"{case.op} converted")

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

    # ---- attention ----

    def test_multi_head_attention(self) -> None:
        def make(r: Random, past: bool) -> Case:
            b, s, n, h, p = r.size(3), r.size(), r.size(4), 4 * r.size(4), r.size()
            rows = s if past else r.size()
            keys, value = rows + p * past, h if past else 4 * r.size(4)
            masks = [None, r.mask(b, keys), r.mask(b, s, keys),
                     r.random.integers(1, keys + 1, b).astype(np.int32)]
            feeds: Feeds = {
                "q": r.floats(b, s, n * h), "k": r.floats(b, rows, n * h),
                "v": r.floats(b, rows, n * value), "bias": r.maybe(n * (2 * h + value)),
                "mask": masks[int(r.random.integers(4))],
                "scores": r.maybe(*[(b, n), (1, n), (b, 1)][int(r.random.integers(3))], s, keys),
                "past_key": r.floats(b, n, p, h) if past else None,
                "past_value": r.floats(b, n, p, h) if past else None}
            more = {"scale": 0.3} if r.flag() else {}
            return Case("MultiHeadAttention", feeds, (r.dtype,) * (3 if past else 1), num_heads=n,
                        unidirectional=int(past and r.flag()), **more)
        for past in (False, True):
            self.each(lambda r, past=past: make(r, past), rounds=4 * ROUNDS)

    def test_scores_that_are_shown(self) -> None:
        """What later queries' keys have is the lowest there is, of which nothing is said here."""
        def make(r: Random, past: bool) -> Case:
            b, s, n, h, p = r.size(3), r.size(), r.size(4), 4 * r.size(4), r.size()
            keys = s + p * past
            return Case("MultiHeadAttention", {
                "q": r.floats(b, s, n * h), "k": r.floats(b, s, n * h), "v": r.floats(b, s, n * h),
                "bias": r.maybe(3 * n * h), "mask": r.mask(b, keys) if r.flag() else None,
                "scores": r.maybe(b, [1, n][r.flag()], s, keys),
                "past_key": r.floats(b, n, p, h) if past else None,
                "past_value": r.floats(b, n, p, h) if past else None},
                (r.dtype,) * 4 if past or r.flag() else (r.dtype, False, False, r.dtype),
                num_heads=n, mask_filter_value=-50.0)
        for past in (False, True):
            self.each(lambda r, past=past: make(r, past), rounds=2 * ROUNDS)
        r = Random(1)
        q = r.floats(2, 4, 16)
        case = Case("MultiHeadAttention", {"q": q, "k": q, "v": q}, (None, False, False, None),
                    num_heads=2, unidirectional=1)
        want, lowest = case.by_ort()[1], np.finfo(np.float32).min
        for numerics in ("fast", "faithful"):
            got = case.by_demi(numerics)[1]
            np.testing.assert_array_equal(got == lowest, want == lowest)
            np.testing.assert_allclose(got[got != lowest], want[got != lowest], atol=FLOAT * 9)

    def test_shared_caches(self) -> None:
        """One row goes behind those that past_sequence_length counts; what is behind it stays."""
        def make(r: Random) -> Case:
            b, n, h, room = r.size(3), r.size(4), 4 * r.size(4), 1 + r.size()
            before = int(r.random.integers(1, room))
            return Case("MultiHeadAttention", {
                "q": r.floats(b, 1, n * h), "k": r.floats(b, 1, n * h), "v": r.floats(b, 1, n * h),
                "bias": r.maybe(3 * n * h), "mask": None, "scores": None,
                "past_key": r.floats(b, n, room, h), "past_value": r.floats(b, n, room, h),
                "before": np.array([before], np.int32)}, (r.dtype,) * 3, num_heads=n)
        for dtype in (np.float32, np.float16):
            for seed in range(2 * ROUNDS):
                case = make(Random(seed, dtype))
                keys = {n: case.feeds[n] for n in ("past_key", "past_value")}
                before, want = int(case.feeds["before"][0]), case.by_ort()[0]
                for got in (case.by_demi(n) for n in ("fast", "faithful")):
                    with self.subTest(dtype=dtype.__name__, seed=seed):
                        near = HALF * 3 if dtype == np.float16 else FLOAT * 9
                        np.testing.assert_allclose(got[0], want, rtol=0, atol=near)
                        for one, past in zip(got[1:], keys.values()):
                            for part in (np.s_[:, :, :before], np.s_[:, :, before + 1:]):
                                np.testing.assert_array_equal(one[part], past[part])

    def test_square_masks(self) -> None:
        """As the rows of a mask for each query: ONNX Runtime's processor's kernel has them not."""
        def make(r: Random, mask: np.ndarray, p: int) -> Case:
            b, s, n, h = 2, 3, 2, 8
            return Case("Attention", {
                "x": r.floats(b, s, 8), "w": r.floats(8, 3 * n * h), "bias": r.floats(3 * n * h),
                "mask": mask, "past": r.floats(2, b, n, p, h) if p else None},
                (r.dtype,) * (2 if p else 1), num_heads=n)
        for dtype in (np.float32, np.float16):
            for p in (0, 2):
                square = Random(p).mask(2, 1, 6, 6)
                rows = np.ascontiguousarray(square[:, 0, p:p + 3, :p + 3])
                self.compare(make(Random(4, dtype), square, p),
                             make(Random(4, dtype), rows, p).by_ort())

    def test_keys_of_another_sequence(self) -> None:
        def make(r: Random) -> Case:
            b, s, rows, n, h = r.size(3), r.size(), r.size(), r.size(4), 4 * r.size(4)
            return Case("MultiHeadAttention", {
                "q": r.floats(b, s, n * h), "k": r.floats(b, n, rows, h),
                "v": r.floats(b, n, rows, h), "bias": r.maybe(3 * n * h)}, num_heads=n)
        self.each(make)

    def test_all_keys_masked(self) -> None:
        """mask_filter_value is added, so that what is excluded as a whole still counts."""
        r = Random(2)
        q, mask = r.floats(2, 3, 8), np.zeros((2, 3), np.int32)
        mask[1, 2] = 1
        case = Case("MultiHeadAttention", {"q": q, "k": q, "v": q, "bias": None, "mask": mask},
                    num_heads=2, mask_filter_value=-3.0)
        self.compare(case, case.by_ort())

    def test_packed_heads(self) -> None:
        """Against operands that are apart: ONNX Runtime's processor's kernel does not take them."""
        for dtype in (np.float32, np.float16):
            r = Random(5, dtype)
            parts = r.floats(2, 3, 4, 3, 8)
            q, k, v = (np.ascontiguousarray(parts[:, :, :, i]).reshape(2, 3, 32) for i in range(3))
            want = Case("MultiHeadAttention", {"q": q, "k": k, "v": v}, num_heads=4).by_ort()
            for feeds in ({"q": parts}, {"q": q, "k": np.ascontiguousarray(parts[:, :, :, 1:])}):
                self.compare(Case("MultiHeadAttention", dict(feeds), num_heads=4), want)

    def test_attention(self) -> None:
        def make(r: Random) -> Case:
            b, s, n, h, p = r.size(3), r.size(), r.size(4), 4 * r.size(4), r.size()
            past, width = r.flag(), 4 * r.size(4)
            keys, value = s + p * past, h if past or r.flag() else 4 * r.size(4)
            ends = np.concatenate([r.random.integers(1, keys + 1, b), np.zeros(b)])
            starts = np.concatenate([ends[:b], np.arange(2 * b + 2)])
            masks = [None, r.mask(b, keys), r.mask(b, s, keys), ends[:b], ends, starts,
                     np.zeros((r.random.choice([1, b]), 1))]
            mask = masks[int(r.random.integers(7))]
            feeds: Feeds = {
                "x": r.floats(b, s, width), "w": r.floats(width, n * (2 * h + value)),
                "bias": r.floats(n * (2 * h + value)),
                "mask": None if mask is None else mask.astype(np.int32),
                "past": r.floats(2, b, n, p, h) if past else None,
                "scores": None if past else r.maybe(b, n, s, keys)}
            more = {} if value == h else {"qkv_hidden_sizes": [n * h, n * h, n * value]}
            return Case("Attention", feeds, (r.dtype,) * (2 if past else 1),
                        ("w", "bias") if r.flag() else (), opset=(12, 17, 20)[r.size(3) - 1],
                        num_heads=n, unidirectional=int(r.flag()), **more)
        self.each(make, rounds=6 * ROUNDS)

    def test_quantized_attention(self) -> None:
        def make(r: Random) -> Case:
            b, s, n, h, p = r.size(3), r.size(), r.size(4), 4 * r.size(4), r.size()
            past, width, each = r.flag(), 4 * r.size(4), r.flag()
            other, wide = (np.uint8, np.int8)[r.flag()], 3 * n * h
            mask = r.mask(b, s + p * past) if r.flag() else None
            feeds: Feeds = {
                "x": r.bytes(np.uint8, b, s, width), "w": r.bytes(other, width, wide),
                "bias": r.floats(wide), "xs": np.asarray(r.scale() / 4),
                "ws": np.asarray((r.scale(wide) if each else r.scale()) / 4), "mask": mask,
                "xz": r.bytes(np.uint8), "wz": r.bytes(other) if r.flag() else None,
                "past": r.floats(2, b, n, p, h) if past else None}
            if each and feeds["wz"] is not None:
                feeds["wz"] = np.repeat(feeds["wz"], wide)
            return Case("QAttention", feeds, (r.dtype,) * (2 if past else 1),
                        ("w", "ws", "xz", "wz"), num_heads=n, unidirectional=int(r.flag()))
        self.each(make, halves=False, rounds=4 * ROUNDS)

    def test_rotary_embedding(self) -> None:
        def make(r: Random) -> Case:
            b, s, n, half = r.size(3), r.size(), r.size(4), 4 * r.size(4)
            partly = r.flag()
            size = 2 * half * (2 if partly else 1)
            angles = r.random.uniform(0, 6, (12, half))
            shape = (b, n, s, size) if r.flag() else (b, s, n * size)
            places = r.ints(12, b, s, dtype=np.int64) if r.flag() else np.array([3], np.int64)
            more = {"rotary_embedding_dim": 2 * half, "num_heads": n} if partly else {}
            return Case("RotaryEmbedding", {
                "x": r.floats(*shape), "places": places, "cos": np.cos(angles).astype(r.dtype),
                "sin": np.sin(angles).astype(r.dtype)}, interleaved=int(r.flag()), **more)
        self.each(make, rounds=2 * ROUNDS)

    def group_query(self, r: Random, state: str) -> Case:
        k, group, size = r.size(3), r.size(3), 16 * r.size(2)
        n, b = k * group, 1 if state == "chunk" else r.size(3)
        rows = {"prompt": r.size(), "step": 1, "chunk": 1 + r.size(4)}[state]
        total = rows + (0 if state == "prompt" else r.size())
        lengths = np.full(b, total - 1)
        if state == "step":
            lengths = r.random.integers(0, total, b)
            lengths[0] = total - 1
        room = None if state == "prompt" and r.flag() else total + int(r.random.integers(0, 3))
        packed, turn = r.flag(), r.flag()
        angles = r.random.uniform(0, 6, (16, size // 2))
        sink = r.maybe(n)
        feeds: Feeds = {
            "q": r.floats(b, rows, (n + 2 * k if packed else n) * size),
            "k": None if packed else r.floats(b, rows, k * size),
            "v": None if packed else r.floats(b, rows, k * size),
            "past_key": None if room is None else r.floats(b, k, room, size),
            "past_value": None if room is None else r.floats(b, k, room, size),
            "lengths": lengths.astype(np.int32), "total": np.array(total, np.int32),
            "cos": np.cos(angles).astype(r.dtype) if turn else None,
            "sin": np.sin(angles).astype(r.dtype) if turn else None, "positions": None,
            "scores": r.maybe([1, b][r.flag()], [1, n][r.flag()], rows, total), "sink": sink}
        more: dict[str, object] = {"softcap": 2.0} if r.flag() else {"scale": 0.3}
        if r.flag():
            more["local_window_size"] = r.size()
        if sink is None and r.flag():
            more["smooth_softmax"] = 1
        kind = self.quantize_caches(r, feeds, k, size, more) if room and state != "prompt" else r.dtype
        shown = int(r.random.integers(3))
        if shown:
            more["qk_output"] = shown
        return Case("GroupQueryAttention", feeds, (r.dtype, kind, kind, r.dtype)[:4 if shown else 3],
                    ("total",), num_heads=n, kv_num_heads=k, do_rotary=int(turn),
                    rotary_interleaved=int(turn and r.flag()), **more)

    def quantize_caches(self, r: Random, feeds: Feeds, k: int, size: int,
                        more: dict[str, object]) -> type:
        """Caches of 8 or of 4 bits in place of what is there, now and then; their type."""
        half, each, kind = r.flag(), r.flag(), (np.uint8, np.int8)
        if r.flag():
            return r.dtype
        for name in ("past_key", "past_value"):
            shape = feeds[name].shape
            feeds[name] = r.bytes(kind[not half], *shape[:3], shape[3] // (1 + half))
        more |= {f"{name}_quant_type": "PER_CHANNEL" if each else "PER_TENSOR" for name in "kv"}
        more["kv_cache_bit_width"] = 4 if half else 8
        for name in ("k_scale", "v_scale"):
            scale = r.scale(1, k, 1, size) if each else r.scale(1)
            feeds[name] = scale * (5 if half else 0.5)
        return kind[not half]

    def test_group_query_attention(self) -> None:
        """Rows of caches behind a sample's keys say nothing, nor do the scores of such keys."""
        for state in ("prompt", "step", "chunk"):
            for dtype in (np.float32, np.float16):
                for seed in range(6 * ROUNDS):
                    case = self.group_query(Random(seed, dtype), state)
                    with self.subTest(state=state, dtype=dtype.__name__, seed=seed,
                                      attributes=case.attributes):
                        want = case.by_ort()
                        if state == "prompt" and dtype == np.float32:
                            self.convert(case, [want[0]], 0)
                        for numerics in ("fast", "faithful"):
                            self.check_group(case, want, case.by_demi(numerics))

    def test_caches_that_slide(self) -> None:
        """Steps of any length through one cache: what it holds is a matter of the keys so far."""
        for dtype in (np.float32, np.float16):
            for seed in range(4 * ROUNDS):
                with self.subTest(dtype=dtype.__name__, seed=seed):
                    self.slide(Random(seed, dtype))

    def slide(self, r: Random) -> None:
        k, group, size, turn, packed = r.size(2), r.size(2), 32, r.flag(), r.flag()
        n, window = k * group, r.size(5)
        room, total, caches = window + int(r.random.integers(0, 4)), 0, {}
        more: dict[str, object] = {"softcap": 2.0} if r.flag() else {}
        for name in ("past_key", "past_value"):
            caches[name] = r.floats(1, k, room, size)
        extra: Feeds = dict.fromkeys(("k_scale", "v_scale"))
        filled: Feeds = dict(caches)
        kind = self.quantize_caches(r, filled, k, size, more)
        extra |= {n: filled[n] for n in extra if n in filled}
        caches = {n: filled[n] for n in caches}
        angles = r.random.uniform(0, 6, (40, size // 2))
        for _ in range(6):
            rows = int(r.random.integers(1, 3 if total else 8))
            total += rows
            feeds: Feeds = {
                "q": r.floats(1, rows, (n + 2 * k if packed else n) * size),
                "k": None if packed else r.floats(1, rows, k * size),
                "v": None if packed else r.floats(1, rows, k * size), **caches,
                "lengths": np.array([total - 1], np.int32), "total": np.array(total, np.int32),
                "cos": np.cos(angles).astype(r.dtype) if turn else None,
                "sin": np.sin(angles).astype(r.dtype) if turn else None, "positions": None,
                "scores": r.maybe(1, [1, n][r.flag()], rows, total), "sink": r.maybe(n), **extra}
            case = Case("GroupQueryAttention", feeds, (r.dtype, kind, kind), num_heads=n,
                        kv_num_heads=k, do_rotary=int(turn), local_window_size=window,
                        sliding_window_cache=1, **more)
            want, leave = case.by_ort(), room - window + 1
            held = total if total <= room else total - leave * -(-(total - room) // leave)
            for numerics in ("fast", "faithful"):
                got = case.by_demi(numerics)
                for cache in (1, 2):
                    got[cache][:, :, held:] = want[cache][:, :, held:]
                self.check_group(case, want, got)
            caches = dict(zip(caches, want[1:]))

    def check_group(self, case: Case, want: list[np.ndarray], got: list[np.ndarray]) -> None:
        lengths = case.feeds["lengths"]
        self.assertEqual([(a.dtype, a.shape) for a in got], [(a.dtype, a.shape) for a in want])
        for cache in (1, 2):
            for b, length in enumerate(lengths):
                got[cache][b, :, length + 1:] = want[cache][b, :, length + 1:]
        for a, w in zip(got, want):
            if w.dtype.kind in "iu": # what was rounded is a step of its scale away at most
                bits = np.unpackbits((a.view(np.uint8) ^ w.view(np.uint8)).reshape(-1))
                self.assertLessEqual(int(np.count_nonzero(bits)), max(8, bits.size // 200))
                continue
            if len(want) > 3 and w is want[3]:
                for b, length in enumerate(lengths):
                    a[b, ..., length + 1:] = w[b, ..., length + 1:]
            np.testing.assert_allclose(
                a.astype(np.float32), w.astype(np.float32), rtol=0,
                atol=HALF * 3 if w.dtype == np.float16 else FLOAT)

    def test_linear_attention(self) -> None:
        def make(r: Random) -> Case:
            b, t, k, group, d, e = r.size(2), r.size(), r.size(3), r.size(2), 4 * r.size(2), 4 * r.size(2)
            rule = ("linear", "gated", "delta", "gated_delta")[int(r.random.integers(4))]
            decay = r.floats(b, t, k * (d if r.flag() else 1))
            feeds: Feeds = {
                "q": r.floats(b, t, k * group * d), "k": r.floats(b, t, k * d) / d,
                "v": r.floats(b, t, k * e), "past": r.maybe(b, k, d, e),
                "decay": -np.abs(decay) if "gated" in rule else None,
                "beta": np.abs(r.floats(b, t, r.size(2) > 1 and k or 1)) if "delta" in rule else None}
            return Case("LinearAttention", feeds, (r.dtype,) * 2, q_num_heads=k * group,
                        kv_num_heads=k, update_rule=rule, scale=0.0 if r.flag() else 0.4)
        self.each(make, rounds=4 * ROUNDS)

        def causal(r: Random) -> Case:
            b, c, t, k = r.size(3), r.size(5), r.size(), r.size(3) + 1
            return Case("CausalConvWithState", {
                "x": r.floats(b, c, t), "w": r.floats(c, 1, k), "bias": r.maybe(c),
                "past": r.maybe(b, c, k - 1)}, (r.dtype,) * 2,
                activation=("silu", "none")[r.flag()])
        self.each(causal, rounds=2 * ROUNDS)

    def test_gates(self) -> None:
        def added(r: Random) -> Case:
            shape = (r.size(3), r.size(), r.size())
            return Case("GatedAdd", {"x": r.floats(*shape), "y": r.floats(*shape),
                                     "gate": r.floats(*shape[:2], 1)})
        self.each(added)

        def normed(r: Random) -> Case:
            size, parts = 4 * r.size(), r.size(3)
            shape = (r.size(3), r.size(), size * parts)
            kind = ("silu", "swish", "sigmoid")[int(r.random.integers(3))]
            return Case("GatedRMSNorm", {"x": r.floats(*shape), "scale": r.floats(size),
                                         "gate": r.floats(*shape)}, activation=kind, epsilon=1e-3)
        self.each(normed, rounds=2 * ROUNDS)

        def decays(r: Random) -> Case:
            shape, plain = (r.size(3), r.size(), r.size(4)), Random(r.size(9))
            feeds: Feeds = {"a": r.floats(*shape), "bias": plain.floats(shape[2]),
                            "scale": plain.floats(shape[2]), "b": r.maybe(*shape)}
            return Case("LinearAttentionGate", feeds, (r.dtype,) * (1 if feeds["b"] is None else 2))
        self.each(decays, rounds=2 * ROUNDS)

    def test_bias_softmax(self) -> None:
        """By its formula: ONNX Runtime has it for GPUs alone."""
        for dtype in (np.float32, np.float16):
            r = Random(1, dtype)
            x, bias = r.floats(2, 3, 4, 5), r.floats(2, 1, 1, 5)
            scores = np.exp(x.astype(np.float32) + bias.astype(np.float32))
            self.compare(Case("BiasSoftmax", {"x": x, "bias": bias}, axis=3, is_inner_broadcast=1),
                         [(scores / np.sum(scores, axis=3, keepdims=True)).astype(dtype)])

    # ---- experts ----

    def experts(self, r: Random, kind: str, more: dict[str, object]) -> tuple[Feeds, int, int]:
        """What goes into MoE: the layers' rows, and inputs, of SwiGLU as ONNX Runtime has it."""
        t, h, i, e = r.size(5), 16 * r.size(2), 16 * r.size(2), r.size(4) + 1
        rows, scale = i * (2 if kind == "swiglu" else 1), 0.3
        more |= {"k": r.size(2), "normalize_routing_weights": int(r.flag()),
                 "activation_type": kind}
        if kind == "swiglu":
            more |= {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 0.5}
            if r.flag():
                more["swiglu_limit"] = 0.7
        shape = (t, h) if r.flag() else (1, t, h)
        return {"x": r.floats(*shape), "router": r.floats(t, e),
                "w1": r.floats(e, rows, h) * r.dtype.type(scale), "b1": r.maybe(e, rows),
                "w2": r.floats(e, h, i) * r.dtype.type(scale), "b2": r.maybe(e, h)}, e, i

    def mixed(self, feeds: Feeds, more: dict[str, object]) -> list[np.ndarray]:
        """What MoE is by its formula, SwiGLU of neighbouring rows."""
        given = {n: None if a is None else a.astype(np.float64) for n, a in feeds.items()}
        x = given["x"].reshape(-1, given["x"].shape[-1])
        y, kind, limit = np.zeros_like(x), more["activation_type"], more.get("swiglu_limit", np.inf)
        for row, router, to in zip(x, given["router"], y):
            shares = np.exp(router - np.max(router))
            shares, best = shares / np.sum(shares), np.argsort(-router)[:more["k"]]
            if more["normalize_routing_weights"]:
                shares = shares / np.sum(shares[best])
            for e in best:
                h = given["w1"][e] @ row + (0 if given["b1"] is None else given["b1"][e])
                if kind == "swiglu":
                    gate, line = np.minimum(h[::2], limit), np.clip(h[1::2], -limit, limit)
                    h = gate / (1 + np.exp(-1.7 * gate)) * (line + 0.5)
                elif kind == "silu":
                    h = h / (1 + np.exp(-h))
                elif kind == "gelu":
                    h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h ** 3)))
                elif kind == "relu":
                    h = np.maximum(h, 0)
                to += shares[e] * (given["w2"][e] @ h + (0 if given["b2"] is None else given["b2"][e]))
        return [y.reshape(feeds["x"].shape).astype(feeds["x"].dtype)]

    def test_experts(self) -> None:
        """ONNX Runtime 1.31's own results are others for the same numbers in another type, or in
        another run, where the last layer has biases or gates have a limit: most of all are as here."""
        same = []
        for kind in ("relu", "gelu", "silu", "identity", "swiglu"):
            for dtype in (np.float32, np.float16):
                for seed in range(2 * ROUNDS):
                    more: dict[str, object] = {}
                    feeds = self.experts(Random(seed, dtype), kind, more)[0]
                    case = Case("MoE", dict(feeds), **more)
                    with self.subTest(dtype=dtype.__name__, seed=seed, attributes=more):
                        want = self.mixed(feeds, more)
                        self.compare(case, want)
                        if feeds["b2"] is None and "swiglu_limit" not in more:
                            self.compare(case, case.by_ort())
                            if dtype == np.float32:
                                self.convert(case, want, 0)
                            continue
                        near = (HALF if dtype == np.float16 else FLOAT) * np.max(np.abs(want[0]))
                        same.append(np.max(np.abs(case.by_ort()[0] - want[0])) < near)
        self.assertGreater(sum(same), len(same) / 2)

    def test_layers_of_experts(self) -> None:
        """Gates of a layer of their own, or of a half, are as those of neighbouring rows, which alone
        ONNX Runtime's processor's kernel has."""
        for dtype in (np.float32, np.float16):
            for seed in range(ROUNDS):
                more: dict[str, object] = {}
                feeds = self.experts(Random(seed, dtype), "swiglu", more)[0]
                want = self.mixed(feeds, more)
                w1, b1 = feeds["w1"], feeds["b1"]
                gates, lines = (np.ascontiguousarray(w1[:, i::2]) for i in (0, 1))
                b_gates, b_lines = (None if b1 is None else np.ascontiguousarray(b1[:, i::2])
                                    for i in (0, 1))
                both = None if b1 is None else np.concatenate([b_gates, b_lines], axis=1)
                halves = {**feeds, "w1": np.concatenate([gates, lines], axis=1), "b1": both}
                apart = {**feeds, "w1": gates, "b1": b_gates, "w3": lines, "b3": b_lines}
                for made, fusion in ((halves, 2), (apart, 0)):
                    with self.subTest(dtype=dtype.__name__, seed=seed, fusion=fusion):
                        self.compare(Case("MoE", made, **more | {"swiglu_fusion": fusion}), want)

    def pack(self, numbers: np.ndarray, bits: int) -> np.ndarray:
        """Along the last axis, the first in the lowest bits."""
        each = 8 // bits
        room = -(-numbers.shape[-1] // each) * each
        wide = np.zeros((*numbers.shape[:-1], room), np.uint8)
        wide[..., :numbers.shape[-1]] = numbers
        parts = wide.reshape(*numbers.shape[:-1], room // each, each)
        return np.bitwise_or.reduce(parts << (np.arange(each, dtype=np.uint8) * bits), axis=-1)

    def quantize_layer(self, r: Random, w: np.ndarray, bits: int, block: int,
                       zeros: bool) -> tuple[np.ndarray, ...]:
        """Bytes, scales and zero points instead of weights, and the weights that they are."""
        e, rows, columns = w.shape
        blocks = columns // block if block else 1
        numbers = r.random.integers(0, 1 << bits, w.shape).astype(np.uint8)
        scales = (r.random.uniform(0.5, 1.5, (e, rows, blocks)) / (1 << bits)).astype(r.dtype)
        zero = r.random.integers(0, 1 << bits, scales.shape).astype(np.uint8)
        middle = zero if zeros else np.full_like(zero, 1 << (bits - 1))
        wide = numbers.reshape(e, rows, blocks, -1) - middle[..., None].astype(np.float32)
        wide = (wide * scales[..., None].astype(np.float32)).reshape(w.shape)
        packed = self.pack(zero if block else zero[..., 0], bits) if zeros else None
        return self.pack(numbers, bits), scales if block else scales[..., 0], packed, wide

    def test_quantized_experts(self) -> None:
        """As MoE of the weights that bytes stand for."""
        for dtype in (np.float32, np.float16):
            for seed in range(6 * ROUNDS):
                r = Random(seed, dtype)
                more: dict[str, object] = {}
                feeds = self.experts(r, ("silu", "swiglu")[r.flag()], more)[0]
                bits, block, zeros = (2, 4, 8)[seed % 3], (0, 16)[r.flag()], r.flag()
                layers = {n: self.quantize_layer(r, feeds[n], bits, block, zeros)
                          for n in ("w1", "w2")}
                plain = {n: a if a is None else a.astype(np.float32) for n, a in feeds.items()}
                plain |= {n: layer[3] for n, layer in layers.items()}
                want = [a.astype(dtype) for a in self.mixed(plain, more)]
                given: Feeds = {"x": feeds["x"], "router": feeds["router"]}
                for i in ("1", "2"):
                    given |= {f"w{i}": layers[f"w{i}"][0], f"s{i}": layers[f"w{i}"][1],
                              f"b{i}": feeds[f"b{i}"]}
                given |= {"w3": None, "s3": None, "b3": None, "z1": layers["w1"][2],
                          "z2": layers["w2"][2]}
                if block:
                    more["block_size"] = block
                case = Case("QMoE", given, constants=[n for n in given if n[0] in "wsz"],
                            expert_weight_bits=bits, **more)
                with self.subTest(dtype=dtype.__name__, seed=seed, attributes=case.attributes):
                    self.compare(case, want)
                    if bits == 4 and dtype == np.float32 and feeds["b2"] is None and (
                            "swiglu_limit" not in more):
                        for got, one in zip(case.by_ort(), want):  # whose rows may be rounded
                            self.assertLess(np.max(np.abs(got - one)), 0.05 * np.max(np.abs(one)))
                        self.convert(case, want, 0)

    def test_shares_of_experts(self) -> None:
        for seed in range(ROUNDS):
            r, more = Random(seed), {}
            feeds = self.experts(r, "silu", more)[0]
            layers = {n: self.quantize_layer(r, feeds[n], 4, 16, False) for n in ("w1", "w2")}
            given: Feeds = {"x": feeds["x"], "router": feeds["router"]}
            for i in ("1", "2"):
                given |= {f"w{i}": layers[f"w{i}"][0], f"s{i}": layers[f"w{i}"][1], f"b{i}": None}
            given |= dict.fromkeys(("w3", "s3", "b3", "z1", "z2", "z3"))
            given["shares"] = np.abs(r.floats(*feeds["router"].shape))
            case = Case("QMoE", given, expert_weight_bits=4, block_size=16, **more)
            with self.subTest(seed=seed, attributes=case.attributes):
                self.compare(case, case.by_ort())

    # ---- tables ----

    def test_rows_of_tables(self) -> None:
        """Where an index is out of range, zeros."""
        def bytes_of(r: Random, bits: int) -> Case:
            rows, block = r.size(), 16
            width = block * r.size(3) - (8 // bits) * int(r.random.integers(2))
            blocks, each = -(-width // block), 8 // bits
            zeros = r.bytes(np.uint8, rows, -(-blocks // each)) if r.flag() else None
            shape = (r.size(3), r.size(4))[:r.size(2)]
            index = r.ints(rows, *shape, dtype=(np.int32, np.int64)[r.flag()])
            return Case("GatherBlockQuantized", {
                "data": r.bytes(np.uint8, rows, width // each), "index": index,
                "scales": r.scale(rows, blocks).astype(r.dtype), "zeros": zeros}, (r.dtype,),
                ("data", "scales", "zeros"), bits=bits, block_size=block, gather_axis=0,
                quantize_axis=-1 if r.flag() else 1)
        for bits in (2, 4, 8):
            self.each(lambda r, bits=bits: bytes_of(r, bits), rounds=3 * ROUNDS)

        def fours(r: Random, kind: type) -> Case:
            shape, along, axis = [r.size(), 32, r.size()], 1, int(r.random.integers(3))
            if r.flag():
                shape, along = [r.size(), r.size(), 20], 2
            lines = [*shape]
            lines[along] = -(-shape[along] // 16)
            numbers = r.random.integers(0, 8, shape).astype(kind)
            return Case("GatherBlockQuantized", {
                "data": numbers, "index": r.ints(shape[axis], r.size(3), dtype=np.int64),
                "scales": r.scale(*lines).astype(r.dtype),
                "zeros": r.random.integers(0, 8, lines).astype(kind) if r.flag() else None},
                (r.dtype,), ("data", "scales", "zeros"), block_size=16, gather_axis=axis,
                quantize_axis=along)
        for kind in (ml_dtypes.int4, ml_dtypes.uint4):
            self.each(lambda r, kind=kind: fours(r, kind), rounds=3 * ROUNDS)
        r = Random(1)
        case = Case("GatherBlockQuantized", {
            "data": r.bytes(np.uint8, 3, 8), "index": np.array([5, -1, -4, 1], np.int64),
            "scales": r.scale(3, 1)}, (np.float32,), ("data", "scales"), block_size=16)
        self.compare(case, case.by_ort())

    def test_norms_of_heads(self) -> None:
        """By their formula: ONNX Runtime has them for GPUs alone."""
        for dtype in (np.float32, np.float16):
            r = Random(7, dtype)
            feeds: Feeds = {
                "q": r.floats(2, 3, 32), "k": r.floats(2, 3, 16), "v": r.floats(2, 3, 16),
                "past_key": None, "past_value": None, "lengths": np.full(2, 2, np.int32),
                "total": np.array(3, np.int32)}
            weights = {name: r.floats(8) for name in ("q", "k")}

            def normal(name: str, feeds: Feeds = feeds, weights: dict = weights) -> np.ndarray:
                x = feeds[name].astype(np.float32).reshape(2, 3, -1, 8)
                x = x / np.sqrt(np.mean(x * x, axis=3, keepdims=True) + 1e-3)
                return (x * weights[name]).astype(np.float32).reshape(2, 3, -1)
            want = Case("GroupQueryAttention", {
                **feeds, "q": normal("q"), "k": normal("k"), "v": feeds["v"].astype(np.float32)},
                (np.float32,) * 3, num_heads=4, kv_num_heads=2).by_ort()
            feeds |= dict.fromkeys(("cos", "sin", "at", "scores", "sink", "ks", "vs"))
            case = Case("GroupQueryAttention",
                        {**feeds, "qn": weights["q"], "kn": weights["k"]}, (dtype,) * 3,
                        num_heads=4, kv_num_heads=2, qk_norm_epsilon=1e-3)
            self.compare(case, [a.astype(dtype) for a in want])

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

    def quantized(self, make: Callable[[Random, type], Case], step: float = STEP) -> None:
        for dtype in (np.uint8, np.int8):
            self.each(lambda r, dtype=dtype: make(r, dtype), step, halves=False)

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
                "az": r.bytes(dtype), "b": r.bytes(other, *((n, k) if b else (k, n))),
                "bs": r.scale(n) if each else r.scale(),
                "bz": r.bytes(other, n) if each else r.bytes(other),
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
                "xz": r.bytes(dtype), "w": r.bytes(other, group * filters, channels, 3, 3),
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
                "a": r.bytes(dtype, 2, r.size(), k), "b": r.bytes(other, k, n), "as": r.scale(),
                "bs": r.scale(n) if r.flag() else r.scale(), "az": r.bytes(dtype),
                "bz": r.bytes(other, n) if r.flag() else None, "bias": r.maybe(n)}, (np.float32,))
        self.quantized(to_float)

        def dynamic(r: Random, dtype: type) -> Case:
            k, n = r.size(), r.size()
            return Case("DynamicQuantizeMatMul", {
                "a": r.floats(2, r.size(), k), "b": r.bytes(dtype, k, n), "bs": r.scale(),
                "bz": r.bytes(dtype) if r.flag() else None, "bias": r.maybe(n)},
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

    # ---- what is not there ----

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
                 "com.microsoft.BiasSoftmax along another axis than the last"),
                (Case("PackedAttention", {"x": x}), "com.microsoft.PackedAttention"),
                (Case("PackedMultiHeadAttention", {"x": x}),
                 "com.microsoft.PackedMultiHeadAttention"),
                (Case("LongformerAttention", {"x": x}), "com.microsoft.LongformerAttention"),
                (Case("BertTokenizer", {"x": x}, domain="ai.onnx.contrib"),
                 "ai.onnx.contrib.BertTokenizer")):
            model = onnx.load_from_string(case.model)
            model.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
            with self.assertRaisesRegex(Exception, says):
                library.compile(model.SerializeToString(), "fast")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--libdemi", default=str(ROOT / "build/release/libdemi.so"))
    args, rest = parser.parse_known_args()
    library = runtime.LibDemi(args.libdemi)
    unittest.main(argv=[sys.argv[0], *rest])
