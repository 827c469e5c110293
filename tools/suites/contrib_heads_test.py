#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention of ONNX Runtime's domain com.microsoft, beside that runtime, on random shapes.

Masks, biases, scores that are shown, caches that grow, are shared, slide, or have 8 and 4 bits; what
that runtime has for GPUs alone by its formula, or against the same said otherwise. See contrib_test.py.

    tools/suites/contrib_heads_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import numpy as np

from suite.contrib_case import FLOAT, HALF, ROUNDS, Case, ContribCase, Feeds, Random, main


class ContribHeadsTest(ContribCase):
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
                "x": r.bytes(np.uint8, b, s, width), "w": r.weights(other, width, wide),
                "bias": r.floats(wide), "xs": np.asarray(r.scale() / 4),
                "ws": np.asarray((r.scale(wide) if each else r.scale()) / 4), "mask": mask,
                "xz": r.bytes(np.uint8), "wz": r.weights(other) if r.flag() else None,
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

    def test_caches_of_another_layer(self) -> None:
        """There are no new keys: the past has them all, those of the queries' rows too."""
        for dtype in (np.float32, np.float16):
            for seed in range(3 * ROUNDS):
                r = Random(seed, dtype)
                k, size, rows = r.size(2), 16, r.size(4)
                n, total = 2 * k, rows + (0 if r.flag() else r.size())
                room, more = total + int(r.random.integers(0, 3)), {}
                feeds: Feeds = {
                    "q": r.floats(1, rows, n * size), "k": r.floats(1, 0, k * size),
                    "v": r.floats(1, 0, k * size), "past_key": r.floats(1, k, room, size),
                    "past_value": r.floats(1, k, room, size),
                    "lengths": np.array([total - 1], np.int32), "total": np.array(total, np.int32),
                    **dict.fromkeys(("cos", "sin", "positions", "scores", "sink"))}
                kind = self.quantize_caches(r, feeds, k, size, more)
                case = Case("GroupQueryAttention", feeds, (r.dtype, kind, kind), num_heads=n,
                            kv_num_heads=k, **more)
                with self.subTest(dtype=dtype.__name__, seed=seed, attributes=more):
                    want = case.by_ort()
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


if __name__ == "__main__":
    main(__doc__)
