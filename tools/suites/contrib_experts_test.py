#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What model builders put around attention, of the domain com.microsoft, beside ONNX Runtime.

Mixtures of experts, tables of few bits, linear attention and gates, on random shapes. See
contrib_test.py.

    tools/suites/contrib_experts_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import ml_dtypes
import numpy as np
from onnx import numpy_helper

from suite.contrib_case import FLOAT, HALF, ROUNDS, Case, ContribCase, Feeds, Random, main


class ContribExpertsTest(ContribCase):
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
        """What MoE is by its formula, SwiGLU of neighboring rows."""
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
        """Gates of a layer of their own, or of a half, are as those of neighboring rows, which alone
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
                    if dtype == np.float32 and feeds["b2"] is None and "swiglu_limit" not in more:
                        made = {t.name: numpy_helper.to_array(t)
                                for t in self.widen(case, want).graph.initializer}
                        for n, layer in layers.items():
                            np.testing.assert_array_equal(made[f"{n}_float"], layer[3])
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
            for seed in range(3 * ROUNDS):
                case = bytes_of(Random(seed, (np.float32, np.float16)[seed % 2]), bits)
                self.widen(case, case.by_ort(), HALF if seed % 2 else 0)

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
            for seed in range(3 * ROUNDS):
                case = fours(Random(seed), kind)
                self.widen(case, case.by_ort(), 0)
        r = Random(1)
        case = Case("GatherBlockQuantized", {
            "data": r.bytes(np.uint8, 3, 8), "index": np.array([5, -1, -4, 1], np.int64),
            "scales": r.scale(3, 1)}, (np.float32,), ("data", "scales"), block_size=16)
        self.compare(case, case.by_ort())


if __name__ == "__main__":
    main(__doc__)
