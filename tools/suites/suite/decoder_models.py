# SPDX-License-Identifier: Apache-2.0
"""Small language models as ONNX Runtime GenAI's model builder writes them: Llama's layers, of
com.microsoft's operators, with caches that go in and come out.

Weights of products are of 4 or 8 bits (MatMulNBits) and random, of about the size that keeps
activations at order 1. A Decoder says what differs between the families and the builder's options."""

import dataclasses
import math

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite.made_models import Builder

MS = "com.microsoft"
WORDS, LAYERS, HEADS, GROUPS, HEAD, MOST = 96, 2, 4, 2, 16, 32
WIDTH, INNER, BLOCK, EXPERTS = HEADS * HEAD, 96, 32, 4


@dataclasses.dataclass
class Decoder:
    half: bool = False     # float16 throughout
    packed: bool = False   # queries, keys and values by one product
    room: int = 0          # rows of caches that are shared; 0: they grow
    bits: int = 4          # of weights
    zeros: bool = False    # which have zero points
    tied: bool = False     # embeddings are the last product's weights
    norms: bool = False    # of each head of queries and keys, as Qwen has them
    experts: bool = False  # in place of a layer's products, as Mixtral has them
    cache_bits: int = 0    # of caches; 0: they are of the model's type
    attention: dict[str, object] = dataclasses.field(default_factory=dict)
    sinks: bool = False

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float16 if self.half else np.float32)

    @property
    def cache(self) -> tuple[np.dtype, int]:
        """Its type, and elements of a row."""
        if self.cache_bits == 4:
            return np.dtype(np.uint8), HEAD // 2
        return np.dtype(np.int8) if self.cache_bits else self.dtype, HEAD

    def held(self, keys: int) -> int:
        """How many of so many keys a cache has; one that slides lets go of so many at once that its
        window less one stays."""
        if not self.attention.get("sliding_window_cache") or keys <= self.room:
            return keys
        leave = self.room - self.attention["local_window_size"] + 1
        return keys - leave * -(-(keys - self.room) // leave)

    def caches(self, batch: int) -> dict[str, np.ndarray]:
        """What they are before the prompt."""
        dtype, size = self.cache
        return {f"past_key_values.{i}.{kind}": np.zeros((batch, GROUPS, self.room, size), dtype)
                for i in range(LAYERS) for kind in ("key", "value")}

    def model(self) -> onnx.ModelProto:
        return _Writer(self).model()


class _Writer(Builder):
    def __init__(self, kind: Decoder) -> None:
        super().__init__(23)
        self.kind, self.elem = kind, helper.np_dtype_to_tensor_dtype(kind.dtype)

    # ---- parts ----

    def floats(self, shape: list[int], scale: float, mean: float = 0) -> str:
        return self.weight((mean + self.normal(shape, scale)).astype(self.kind.dtype))

    def own(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        return self.node(op, *inputs, outputs=outputs, domain=MS, **attributes)

    def quantized(self, rows: int, columns: int, lists: tuple[int, ...] = ()) -> list[str]:
        """Bytes, scales, and zero points or nothing, of weights (rows, columns)."""
        each, blocks = 8 // self.kind.bits, columns // BLOCK
        data = self.rng.integers(0, 256, (*lists, rows, blocks, BLOCK // each)).astype(np.uint8)
        size = 1 / (math.sqrt(columns) * (1 << self.kind.bits) * 0.29)
        scales = self.rng.uniform(0.7 * size, 1.3 * size, (*lists, rows * blocks))
        zeros = self.rng.integers(0, 256, (*lists, rows * (-(-blocks // each)))).astype(np.uint8)
        zeros = np.full_like(zeros, 0x88 if each == 2 else 0x80) + (zeros & 1)
        made = [self.weight(data), self.weight(scales.astype(self.kind.dtype))]
        return made + ([self.weight(zeros)] if self.kind.zeros else [])

    def product(self, x: str, columns: int, rows: int, weights: list[str] | None = None) -> str:
        return self.own("MatMulNBits", x, *(weights or self.quantized(rows, columns)), K=columns,
                        N=rows, bits=self.kind.bits, block_size=BLOCK, accuracy_level=0)

    def norm(self, x: str, size: int = WIDTH) -> str:
        return self.node("SimplifiedLayerNormalization", x, self.floats([size], 0.1, 1), axis=-1,
                         epsilon=1e-5, stash_type=1)

    def skip_norm(self, x: str, skip: str, last: bool = False) -> tuple[str, str]:
        """What is normalized, and the sum."""
        self.count += 1
        names = [f"norm_{self.count}", "", "", f"sum_{self.count}"][:1 if last else 4]
        self.nodes.append(helper.make_node(
            "SkipSimplifiedLayerNormalization", [x, skip, self.floats([WIDTH], 0.1, 1)], names,
            f"/SkipNorm_{self.count}", domain=MS, epsilon=1e-5))
        return names[0], names[-1]

    def heads_norm(self, x: str, heads: int) -> str:
        x = self.norm(self.node("Reshape", x, self.ints(0, -1, HEAD)), HEAD)
        return self.node("Reshape", x, self.ints(0, -1, heads * HEAD))

    # ---- layers ----

    def counts(self) -> tuple[str, str]:
        """The keys of each sample less one, and of all at most, of the mask."""
        mask = self.input("attention_mask", TensorProto.INT64, ["B", "T"])
        each = self.node("Sub", self.node("ReduceSum", mask, self.ints(1), keepdims=0),
                         self.ints(1))
        most = self.node("Gather", self.node("Shape", mask), self.constant(1, dtype=np.int64),
                         axis=0)
        return tuple(self.node("Cast", x, to=TensorProto.INT32) for x in (each, most))

    def cache_scales(self) -> list[str]:
        if not self.kind.cache_bits:
            return []
        size = 0.5 if self.kind.cache_bits == 4 else 0.03
        return [self.weight(self.rng.uniform(size, 2 * size, (1, GROUPS, 1, HEAD))
                            .astype(np.float32)) for _ in range(2)]

    def attention(self, x: str, layer: int, counts: tuple[str, str],
                  angles: tuple[str, str]) -> str:
        kind, (cache, size) = self.kind, self.kind.cache
        elem = helper.np_dtype_to_tensor_dtype(cache)
        width = GROUPS * HEAD
        parts = ([self.product(x, WIDTH, WIDTH + 2 * width), "", ""] if kind.packed else
                 [self.product(x, WIDTH, n) for n in (WIDTH, width, width)])
        if kind.norms:
            parts[:2] = [self.heads_norm(parts[0], HEADS), self.heads_norm(parts[1], GROUPS)]
        past = [self.input(f"past_key_values.{layer}.{name}", elem, ["B", GROUPS, "P", size])
                for name in ("key", "value")]
        sinks = self.floats([HEADS], 0.5) if kind.sinks else ""
        more = ["", "", sinks, *self.cache_scales()]
        while more and not more[-1]:
            more.pop()
        quantized = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL",
                     "kv_cache_bit_width": kind.cache_bits} if kind.cache_bits else {}
        y, *present = self.own(
            "GroupQueryAttention", *parts, *past, *counts, *angles, *more, outputs=3,
            num_heads=HEADS, kv_num_heads=GROUPS, scale=1 / math.sqrt(HEAD), do_rotary=1,
            rotary_interleaved=0, **{"local_window_size": -1, "softcap": 0.0, **kind.attention},
            **quantized)
        for name, made in zip(("key", "value"), present):
            self.nodes.append(helper.make_node("Identity", [made], [f"present.{layer}.{name}"]))
            self.outputs.append(helper.make_tensor_value_info(
                f"present.{layer}.{name}", elem, ["B", GROUPS, "R", size]))
        return self.product(y, WIDTH, WIDTH)

    def dense(self, x: str) -> str:
        gate, line = (self.product(x, WIDTH, INNER) for _ in range(2))
        gate = self.node("Mul", gate, self.node("Sigmoid", gate))
        return self.product(self.node("Mul", gate, line), INNER, WIDTH)

    def experts(self, x: str) -> str:
        router = self.product(x, WIDTH, EXPERTS)
        router = self.node("Reshape", router, self.ints(-1, EXPERTS))
        layers = []
        for rows, columns in ((2 * INNER, WIDTH), (WIDTH, INNER)):
            data, scales, *_ = self.quantized(rows, columns, (EXPERTS,))
            dims = [(EXPERTS, rows, columns * self.kind.bits // 8), (EXPERTS, rows, columns // BLOCK)]
            layers += [self.node("Reshape", a, self.ints(*d)) for a, d in zip((data, scales), dims)]
            layers.append("")
        return self.own("QMoE", x, router, *layers[:5], k=2, activation_type="swiglu",
                        swiglu_fusion=1, activation_alpha=1.0, activation_beta=0.0,
                        normalize_routing_weights=1, expert_weight_bits=self.kind.bits,
                        block_size=BLOCK)

    def embedded(self, ids: str, last: list[str]) -> str:
        if not self.kind.tied:
            return self.node("Gather", self.floats([WORDS, WIDTH], 1), ids)
        table = self.node("Reshape", last[0], self.ints(WORDS, WIDTH * self.kind.bits // 8))
        shapes = [self.ints(WORDS, WIDTH // BLOCK), self.ints(WORDS, -1)]
        more = [self.node("Reshape", a, d) for a, d in zip(last[1:], shapes)]
        return self.own("GatherBlockQuantized", table, ids, *more, bits=self.kind.bits,
                        block_size=BLOCK, gather_axis=0, quantize_axis=1)

    # ---- the model ----

    def angles(self) -> tuple[str, str]:
        turns = np.arange(MOST)[:, None] * 10000.0 ** (-np.arange(HEAD // 2) * 2 / HEAD)
        return tuple(self.weight(f(turns).astype(self.kind.dtype)) for f in (np.cos, np.sin))

    def model(self) -> onnx.ModelProto:
        ids = self.input("input_ids", TensorProto.INT64, ["B", "S"])
        counts, angles, last = self.counts(), self.angles(), self.quantized(WORDS, WIDTH)
        x = self.embedded(ids, last)
        y = self.norm(x)
        for layer in range(LAYERS):
            y, x = self.skip_norm(x, self.attention(y, layer, counts, angles))
            y = self.experts(y) if self.kind.experts else self.dense(y)
            y, x = self.skip_norm(x, y, layer + 1 == LAYERS)
        logits = self.product(y, WIDTH, WORDS, last)
        self.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
        self.outputs.insert(0, helper.make_tensor_value_info("logits", self.elem, ["B", "S", WORDS]))
        graph = helper.make_graph(self._without_identities(), "decoder", self.inputs, self.outputs,
                                  self.weights)
        return helper.make_model(graph, ir_version=10, producer_name="decoder_models",
                                 opset_imports=[helper.make_opsetid("", 21),
                                                helper.make_opsetid(MS, 1)])
