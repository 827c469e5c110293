# SPDX-License-Identifier: Apache-2.0
"""Kinds of network that the converter was not built on: what breaks a 16-bit conversion that holds
for convolutional networks and BERT.

Each function gives a model and a function that makes its inputs for a seed. Where exporters write
the same thing in several ways, a parameter chooses one. Weights are seeded and scaled so that the
float model's values stay of order 1 but where the kind is about those that do not: angles of
100,000, pixels of a thousand, scores beyond 65504 before they are scaled.
"""

import math
from collections.abc import Callable

import numpy as np
import onnx

from suite.made_models import FLOAT, INT64, Builder

Feeds = Callable[[int], dict[str, np.ndarray]]
Made = tuple[onnx.ModelProto, Feeds]


def _linear(b: Builder, x: str, shape: list[int], gain: float = 1.0, bias: bool = True) -> str:
    made = b.node("MatMul", x, b.weight(b.normal(shape, gain / math.sqrt(shape[0]))))
    return b.node("Add", made, b.weight(b.normal(shape[1:], 0.05))) if bias else made


def _silu(b: Builder, x: str) -> str:
    return b.node("Mul", x, b.node("Sigmoid", x))


def _rms_norm(b: Builder, x: str, width: int) -> str:
    square = b.node("ReduceMean", b.node("Pow", x, b.constant(2)), axes=[-1])
    root = b.node("Sqrt", b.node("Add", square, b.constant(1e-6)))
    normed = b.node("Mul", x, b.node("Reciprocal", root))
    return b.node("Mul", b.weight(1 + b.normal([width], 0.1)), normed)


# ---- weights that the model computes ----

def normed(width: int = 64, steps: int = 40) -> Made:
    """Weight norms that an exporter has left in the model, and a recurrent layer whose gates it puts
    into their order when the model runs."""
    b = Builder(9)
    x = b.input("mel", FLOAT, [1, width, steps])
    for _ in range(2):
        v = b.weight(b.normal([width, width, 3], 1))
        norm = b.node("ReduceL2", v, b.ints(1, 2), keepdims=1)
        gain = b.node("Div", b.weight(1 + b.normal([width, 1, 1], 0.1)), norm)
        x = b.node("Tanh", b.node("Conv", x, b.node("Mul", v, gain), kernel_shape=[3],
                                  pads=[1, 1]))
    gates = []
    for _ in range(2):
        rows = b.weight(b.normal([4 * width, width], 1 / math.sqrt(width)))
        parts = [b.node("Slice", rows, b.ints(i * width), b.ints((i + 1) * width), b.ints(0))
                 for i in (0, 3, 1, 2)]
        gates.append(b.node("Unsqueeze", b.node("Concat", *parts, axis=0), b.ints(0)))
    x = b.node("Transpose", x, perm=[2, 0, 1])
    y = b.node("LSTM", x, *gates, hidden_size=width, outputs=3)[0]
    b.output(y, "hidden", [steps, 1, 1, width])

    def feeds(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {"mel": rng.standard_normal([1, width, steps]).astype(np.float32)}
    return b.model("normed", 18), feeds


# ---- angles ----

def _rotary_angles(b: Builder, places: str, way: str, head: int) -> str:
    """[1, tokens, head]: the product of positions and frequencies, as Llama and others write it."""
    frequencies = 10000.0 ** (-np.arange(0, head, 2) / head)
    x = b.node("Cast", places, to=FLOAT)
    if way == "matmul":
        column = b.weight(frequencies.reshape(1, -1, 1).astype(np.float32))
        product = b.node("MatMul", column, b.node("Unsqueeze", x, b.ints(1)))
        freqs = b.node("Transpose", product, perm=[0, 2, 1])
    elif way == "einsum":
        freqs = b.node("Einsum", x, b.weight(frequencies.astype(np.float32)), equation="bi,j->bij")
    else:
        row = b.weight(frequencies.reshape(1, 1, -1).astype(np.float32))
        freqs = b.node("Mul", b.node("Unsqueeze", x, b.ints(2)), row)
    return b.node("Concat", freqs, freqs, axis=-1)


def _rotate(b: Builder, x: str, cos: str, sin: str, head: int) -> str:
    first, second = b.node("Split", x, b.ints(head // 2, head // 2), outputs=2, axis=3)
    turned = b.node("Concat", b.node("Neg", second), first, axis=-1)
    return b.node("Add", b.node("Mul", x, cos), b.node("Mul", turned, sin))


def rotary(way: str = "matmul", layers: int = 2, most: int = 100_000, words: int = 1000) -> Made:
    """A decoder with rotary position embedding, RMS norms and gated layers."""
    heads, head, tokens = 4, 32, 24
    width = heads * head
    b = Builder(1)
    ids, places = (b.input(name, INT64, [1, tokens]) for name in ("input_ids", "position_ids"))
    x = b.node("Gather", b.weight(b.normal([words, width], 1)), ids)
    angles = b.node("Unsqueeze", _rotary_angles(b, places, way, head), b.ints(1))
    cos, sin = b.node("Cos", angles), b.node("Sin", angles)
    future = np.triu(np.full((1, 1, tokens, tokens), np.finfo(np.float32).min, np.float32), 1)
    mask = b.weight(future)
    for _ in range(layers):
        y = _rms_norm(b, x, width)
        q, k, v = (b.node("Transpose", b.node("Reshape", _linear(b, y, [width, width], 1.5, False),
                                              b.ints(0, 0, heads, head)), perm=[0, 2, 1, 3])
                   for _ in range(3))
        q, k = (_rotate(b, t, cos, sin, head) for t in (q, k))
        scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.node("Add", b.node("Mul", scores, b.constant(head ** -0.5)), mask)
        mixed = b.node("MatMul", b.node("Softmax", scores, axis=-1), v)
        mixed = b.node("Reshape", b.node("Transpose", mixed, perm=[0, 2, 1, 3]),
                       b.ints(0, 0, width))
        x = b.node("Add", x, _linear(b, mixed, [width, width], 1, False))
        y = _rms_norm(b, x, width)
        gate = b.node("Mul", _silu(b, _linear(b, y, [width, 2 * width], 1, False)),
                      _linear(b, y, [width, 2 * width], 1, False))
        x = b.node("Add", x, _linear(b, gate, [2 * width, width], 1, False))
    b.output(_linear(b, _rms_norm(b, x, width), [width, words], 1, False), "logits",
             [1, tokens, words])

    def feeds(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {"input_ids": rng.integers(0, words, [1, tokens]),
                "position_ids": most - tokens + np.arange(tokens, dtype=np.int64)[None]}
    return b.model("rotary", 13), feeds


def fourier(way: str = "octaves") -> Made:
    """A field over coordinates: octaves of each (NeRF), random projections, or SIREN's layers."""
    b = Builder(2)
    x, width = b.input("coordinates", FLOAT, [256, 3]), 128
    if way == "octaves":
        scale = b.weight((2.0 ** np.arange(10) * math.pi).astype(np.float32).reshape(1, 1, 10))
        angles = b.node("Reshape", b.node("Mul", b.node("Unsqueeze", x, b.ints(2)), scale),
                        b.ints(256, 30))
        y = b.node("Concat", x, b.node("Sin", angles), b.node("Cos", angles), axis=1)
        size = 63
    elif way == "gaussian":
        angles = b.node("MatMul", b.node("Mul", x, b.constant(2 * math.pi)),
                        b.weight(b.normal([3, 64], 10)))
        y, size = b.node("Concat", b.node("Sin", angles), b.node("Cos", angles), axis=1), 128
    else:
        y, size = x, 3
        for _ in range(3):
            inner = b.node("Gemm", y, b.weight(b.rng.uniform(
                -1, 1, [size, width]).astype(np.float32) * (1 / 3 if size == 3 else 6 ** 0.5
                                                            / size ** 0.5 / 30)))
            y, size = b.node("Sin", b.node("Mul", inner, b.constant(30))), width
    for _ in range(2):
        y, size = b.node("Relu", _linear(b, y, [size, width], math.sqrt(2))), width
    b.output(_linear(b, y, [width, 4]), "field", [256, 4])

    def feeds(seed: int) -> dict[str, np.ndarray]:
        return {"coordinates":
                np.random.default_rng(seed).uniform(-1, 1, [256, 3]).astype(np.float32)}
    return b.model("fourier", 13), feeds


def vocoder() -> Made:
    """A harmonic source (frequencies are summed to phases), snakes, and a spectrum of magnitudes
    and phases."""
    frames, hop, width = 16, 64, 64
    b = Builder(3)
    mel = b.input("mel", FLOAT, [1, width, frames])
    pitch = b.input("pitch", FLOAT, [1, 1, frames])
    per_sample = b.node("Resize", pitch, "", b.weight(np.array([1, 1, hop], np.float32)),
                        mode="nearest")
    harmonics = b.node("Mul", per_sample,
                       b.weight(np.arange(1, 9, dtype=np.float32).reshape(1, 8, 1)))
    phase = b.node("CumSum", b.node("Div", harmonics, b.constant(24000)),
                   b.constant(2, dtype=np.int64))
    source = b.node("Sin", b.node("Mul", phase, b.constant(2 * math.pi)))
    x = b.node("Conv", mel, b.weight(b.normal([width, width, 3], (3 * width) ** -0.5)),
               kernel_shape=[3], pads=[1, 1])
    x = b.node("ConvTranspose", x, b.weight(b.normal([width, width, hop], width ** -0.5)),
               kernel_shape=[hop], strides=[hop])
    x = b.node("Add", x, b.node("Conv", source, b.weight(b.normal([width, 8, 3], 24 ** -0.5)),
                                kernel_shape=[3], pads=[1, 1]))
    for _ in range(2):
        rate = b.weight(b.rng.uniform(0.5, 3, [1, width, 1]).astype(np.float32))
        wave = b.node("Pow", b.node("Sin", b.node("Mul", x, rate)), b.constant(2))
        x = b.node("Add", x, b.node("Mul", wave, b.node("Reciprocal", rate)))
        x = b.node("Conv", x, b.weight(b.normal([width, width, 3], (3 * width) ** -0.5)),
                   kernel_shape=[3], pads=[1, 1])
    made = b.node("Conv", x, b.weight(b.normal([66, width, 1], 2 * width ** -0.5)),
                  kernel_shape=[1])
    logs, angles = b.node("Split", made, b.ints(33, 33), outputs=2, axis=1)
    size = b.node("Exp", b.node("Clip", logs, "", b.constant(3)))
    for name, wave in (("real", "Cos"), ("imaginary", "Sin")):
        b.output(b.node("Mul", size, b.node(wave, angles)), name, [1, 33, frames * hop])

    def feeds(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {"mel": rng.standard_normal([1, width, frames]).astype(np.float32),
                "pitch": rng.uniform(80, 400, [1, 1, frames]).astype(np.float32)}
    return b.model("vocoder", 13), feeds


# ---- ranges ----

def _group_norm(b: Builder, x: str, channels: int, groups: int = 8) -> str:
    """As torch exports it: over a reshaped tensor, by InstanceNormalization."""
    ones, zeros = b.weight(np.ones(groups, np.float32)), b.weight(np.zeros(groups, np.float32))
    flat = b.node("Reshape", x, b.ints(0, groups, -1))
    normed = b.node("Reshape", b.node("InstanceNormalization", flat, ones, zeros, epsilon=1e-5),
                    b.node("Shape", x))
    scale, shift = (b.weight(np.asarray(a, np.float32).reshape(channels, 1, 1)) for a in
                    (1 + b.normal([channels], 0.1), b.normal([channels], 0.05)))
    return b.node("Add", b.node("Mul", normed, scale), shift)


def _conv(b: Builder, x: str, shape: list[int], gain: float = 1.0, **attributes: object) -> str:
    weights = b.normal(shape, gain * (shape[1] * shape[2] * shape[3]) ** -0.5)
    return b.node("Conv", x, b.weight(weights), b.weight(b.normal(shape[:1], 0.05)),
                  kernel_shape=shape[2:], pads=[shape[2] // 2] * 4, **attributes)


def _residual(b: Builder, x: str, time: str, before: int, after: int) -> str:
    y = _conv(b, _silu(b, _group_norm(b, x, before)), [after, before, 3, 3], 1.4)
    shift = _linear(b, _silu(b, time), [128, after])
    y = b.node("Add", y, b.node("Unsqueeze", shift, b.ints(2, 3)))
    y = _conv(b, _silu(b, _group_norm(b, y, after)), [after, after, 3, 3])
    return b.node("Add", y, x if before == after else _conv(b, x, [after, before, 1, 1]))


def _attend(b: Builder, x: str, width: int, size: int, loud: float) -> str:
    """Self-attention over pixels. The scores are `loud`^2 times as large as usual, and are scaled
    when they are there."""
    y = b.node("Reshape", _group_norm(b, x, width), b.ints(1, width, size * size))
    y = b.node("Transpose", y, perm=[0, 2, 1])
    q, k, v = (_linear(b, y, [width, width], gain) for gain in (loud, loud, 1))
    scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 2, 1]))
    shares = b.node("Softmax", b.node("Mul", scores, b.constant(width ** -0.5 / loud ** 2)),
                    axis=-1)
    mixed = _linear(b, b.node("MatMul", shares, v), [width, width], 0.5)
    mixed = b.node("Reshape", b.node("Transpose", mixed, perm=[0, 2, 1]),
                   b.ints(1, width, size, size))
    return b.node("Add", x, mixed)


def unet(loud: float = 1.0) -> Made:
    """A denoiser with a time embedding. With loud=60 float16 overflows on every input."""
    size, width = 16, 32
    b = Builder(4)
    x = b.input("sample", FLOAT, [1, 4, size, size])
    step = b.input("timestep", FLOAT, [1])
    ramp = b.node("Range", b.constant(0), b.constant(64), b.constant(1))
    rates = b.node("Exp", b.node("Mul", ramp, b.constant(-math.log(10000) / 64)))
    angles = b.node("Mul", b.node("Unsqueeze", step, b.ints(1)), rates)
    time = b.node("Concat", b.node("Cos", angles), b.node("Sin", angles), axis=-1)
    time = _linear(b, _silu(b, _linear(b, time, [128, 128])), [128, 128])
    x = _conv(b, x, [width, 4, 3, 3])
    skip = x = _residual(b, x, time, width, width)
    x = _conv(b, x, [2 * width, width, 3, 3], strides=[2, 2])
    x = _residual(b, x, time, 2 * width, 2 * width)
    x = _residual(b, _attend(b, x, 2 * width, size // 2, loud), time, 2 * width, 2 * width)
    x = b.node("Resize", x, "", b.weight(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    x = b.node("Concat", _conv(b, x, [2 * width, 2 * width, 3, 3]), skip, axis=1)
    x = _residual(b, x, time, 3 * width, width)
    b.output(_conv(b, _silu(b, _group_norm(b, x, width)), [4, width, 3, 3]), "noise",
             [1, 4, size, size])

    def feeds(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {"sample": rng.standard_normal([1, 4, size, size]).astype(np.float32),
                "timestep": rng.uniform(1, 1000, [1]).astype(np.float32)}
    return b.model("unet", 13), feeds


def loud_unet() -> Made:
    return unet(60.0)


# ---- tables and recurrent layers ----

def _layer_norm(b: Builder, x: str, width: int) -> str:
    return b.node("LayerNormalization", x, b.weight(1 + b.normal([width], 0.1)),
                  b.weight(b.normal([width], 0.05)), axis=-1, epsilon=1e-12)


def _encoder_inputs(b: Builder, words: int, width: int) -> str:
    shape = ["batch", "sequence"]
    ids, kinds = (b.input(name, INT64, shape) for name in ("input_ids", "token_type_ids"))
    places = b.node("Slice", b.weight(np.arange(512, dtype=np.int64).reshape(1, 512)), b.ints(0),
                    b.node("Slice", b.node("Shape", ids), b.ints(1), b.ints(2), b.ints(0)),
                    b.ints(1))
    tables = [b.weight(b.normal([rows, width], 0.5)) for rows in (words, 2, 512)]
    x = b.node("Add", b.node("Gather", tables[0], ids), b.node("Gather", tables[1], kinds))
    return _layer_norm(b, b.node("Add", x, b.node("Gather", tables[2], places)), width)


def _attention(b: Builder, x: str, width: int, dense: Callable[..., str]) -> str:
    heads = width // 32
    q, k, v = (b.node("Transpose", b.node("Reshape", dense(b, x, [width, width]),
                                          b.ints(0, 0, heads, 32)), perm=order)
               for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    mask = b.node("Unsqueeze", b.node("Cast", b.input("attention_mask", INT64,
                                                      ["batch", "sequence"]), to=FLOAT),
                  b.ints(1, 2)) if not any(i.name == "attention_mask" for i in b.inputs) else None
    scores = b.node("Div", b.node("MatMul", q, k), b.constant(32 ** 0.5))
    if mask:
        b.mask = b.node("Mul", b.node("Sub", b.constant(1), mask),
                        b.constant(float(np.finfo(np.float32).min)))
    shares = b.node("Softmax", b.node("Add", scores, b.mask), axis=-1)
    mixed = b.node("Transpose", b.node("MatMul", shares, v), perm=[0, 2, 1, 3])
    return dense(b, b.node("Reshape", mixed, b.ints(0, 0, width)), [width, width])


def _token_feeds(words: int) -> Feeds:
    def feeds(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {"input_ids": rng.integers(0, words, [2, 20]),
                "token_type_ids": rng.integers(0, 2, [2, 20]),
                "attention_mask": np.tile(np.arange(20) < 17, (2, 1)).astype(np.int64)}
    return feeds


def _encoder(name: str, dense: Callable[..., str], words: int = 8000, layers: int = 1) -> Made:
    width = 128
    b = Builder(5)
    x = _encoder_inputs(b, words, width)
    for _ in range(layers):
        x = _layer_norm(b, b.node("Add", x, _attention(b, x, width, dense)), width)
        y = dense(b, x, [width, 2 * width])
        gelu = b.node("Mul", b.node("Mul", y, b.constant(0.5)), b.node("Add", b.node(
            "Erf", b.node("Mul", y, b.constant(2 ** -0.5))), b.constant(1)))
        x = _layer_norm(b, b.node("Add", x, dense(b, gelu, [2 * width, width])), width)
    b.output(x, "last_hidden_state", ["batch", "sequence", width])
    return b.model(name, 17), _token_feeds(words)


def encoder() -> Made:
    """BERT's: tables of words, kinds and places, whose sum is normalized at once."""
    return _encoder("encoder", _linear)


def _int8(b: Builder, shape: list[int], gain: float) -> tuple[str, str]:
    array = b.normal(shape, gain / math.sqrt(shape[0]))
    scale = float(np.abs(array).max() / 127)
    return b.weight(np.round(array / scale).astype(np.int8)), b.constant(scale)


def _dynamic(b: Builder, x: str, shape: list[int], gain: float = 1.0) -> str:
    """A dense layer as ONNX Runtime's dynamic quantization writes it."""
    weights, scale = _int8(b, shape, gain)
    q, scale_x, zero = b.node("DynamicQuantizeLinear", x, outputs=3)
    product = b.node("Cast", b.node("MatMulInteger", q, weights, zero,
                                    b.constant(0, dtype=np.int8)), to=FLOAT)
    product = b.node("Mul", product, b.node("Mul", scale_x, scale))
    return b.node("Add", product, b.weight(b.normal(shape[1:], 0.05)))


def _weight_only(b: Builder, x: str, shape: list[int], gain: float = 1.0) -> str:
    weights, scale = _int8(b, shape, gain)
    made = b.node("MatMul", x, b.node("DequantizeLinear", weights, scale))
    return b.node("Add", made, b.weight(b.normal(shape[1:], 0.05)))


def int8_dynamic() -> Made:
    return _encoder("int8_dynamic", _dynamic)


def int8_weights() -> Made:
    return _encoder("int8_weights", _weight_only)


def recurrent(cell: str = "GRU") -> Made:
    """Words, two recurrent layers of both directions, and their last states."""
    words, width, hidden = 4000, 96, 64
    b = Builder(6)
    ids = b.input("tokens", INT64, ["batch", "time"])
    x = b.node("Transpose", b.node("Gather", b.weight(b.normal([words, width], 1)), ids),
               perm=[1, 0, 2])
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[cell]
    for _ in range(2):
        y = b.node(cell, x, b.weight(b.normal([2, gates * hidden, width], width ** -0.5)),
                   b.weight(b.normal([2, gates * hidden, hidden], hidden ** -0.5)),
                   b.weight(b.normal([2, 2 * gates * hidden], 0.1)),
                   outputs=3 if cell == "LSTM" else 2, hidden_size=hidden,
                   direction="bidirectional")
        width = 2 * hidden
        x = b.node("Reshape", b.node("Transpose", y[0], perm=[0, 2, 1, 3]), b.ints(0, 0, width))
    b.output(_linear(b, x, [width, 32]), "states", ["time", "batch", 32])

    def feeds(seed: int) -> dict[str, np.ndarray]:
        return {"tokens": np.random.default_rng(seed).integers(0, words, [2, 50])}
    return b.model(cell.lower(), 14), feeds


def _gates_anew(b: Builder, weight: np.ndarray, order: list[int]) -> str:
    """The framework's order of gates to ONNX's, when the model runs."""
    whole, size = b.weight(weight), len(weight) // len(order)
    parts = [b.node("Slice", whole, b.ints(g * size), b.ints((g + 1) * size), b.ints(0)) for g in order]
    return b.node("Unsqueeze", b.node("Concat", *parts, axis=0), b.ints(0))


def exported_recurrent(cell: str = "GRU") -> Made:
    """A recurrent layer alone, as PyTorch's exporter writes it."""
    width, hidden = 96, 64
    order = {"GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2]}[cell]
    b = Builder(16)
    x = b.input("x", FLOAT, ["time", "batch", width])
    rows = len(order) * hidden
    y = b.node(cell, x, _gates_anew(b, b.normal([rows, width], width ** -0.5), order),
               _gates_anew(b, b.normal([rows, hidden], hidden ** -0.5), order),
               b.weight(b.normal([1, 2 * rows], 0.1)), outputs=2, hidden_size=hidden)
    b.output(b.node("Squeeze", y[0], b.ints(1)), "y", ["time", "batch", hidden])

    def feeds(seed: int) -> dict[str, np.ndarray]:
        return {"x": np.random.default_rng(seed).standard_normal([20, 2, width], np.float32)}
    return b.model(f"exported_{cell.lower()}", 18), feeds


# ---- coordinates ----

def _grid(b: Builder, sizes: list[int], stride: list[int]) -> tuple[str, str]:
    """Centers and strides of all cells, [1, 2, cells] and [1, 1, cells]."""
    centers, strides = [], []
    for size, step in zip(sizes, stride, strict=True):
        y, x = np.meshgrid(np.arange(size) + 0.5, np.arange(size) + 0.5, indexing="ij")
        centers.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full(size * size, step))
    return (b.weight(np.concatenate(centers, 1)[None].astype(np.float32)),
            b.weight(np.concatenate(strides)[None, None].astype(np.float32)))


def detector(select: str = "nms") -> Made:
    """Boxes in pixels: as they are (none), the best hundred (topk), or what non-maximum
    suppression leaves (nms)."""
    size, classes, width = 256, 12, 32
    b = Builder(7)
    x = b.input("image", FLOAT, [1, 3, size, size])
    maps, before = [], 3
    for level, filters in enumerate((width, width, 2 * width, 2 * width)):
        x = _silu(b, _conv(b, x, [filters, before, 3, 3], 1.6, strides=[2, 2]))
        before = filters
        if level >= 2:
            head = _conv(b, _silu(b, _conv(b, x, [width, filters, 3, 3], 1.6)),
                         [4 + classes, width, 1, 1], 0.7)
            maps.append(b.node("Reshape", head, b.ints(1, 4 + classes, -1)))
    x = b.node("Concat", *maps, axis=2)
    near, far, scores = b.node("Split", x, b.ints(2, 2, classes), outputs=3, axis=1)
    centers, strides = _grid(b, [size // 8, size // 16], [8, 16])
    first = b.node("Sub", centers, b.node("Exp", near))
    last = b.node("Add", centers, b.node("Exp", far))
    boxes = b.node("Mul", b.node("Concat", first, last, axis=1), strides)
    scores = b.node("Sigmoid", scores)
    feeds = lambda seed: {"image": np.random.default_rng(seed).standard_normal(  # noqa: E731
        [1, 3, size, size]).astype(np.float32)}
    if select == "none":
        b.output(b.node("Concat", boxes, scores, axis=1), "predictions", [1, 4 + classes, 1280])
        return b.model("detector", 13), feeds
    rows = b.node("Transpose", boxes, perm=[0, 2, 1])
    if select == "nms":
        picked = b.node("NonMaxSuppression", rows, scores, b.constant(20, dtype=np.int64),
                        b.constant(0.5), b.constant(0.55))
        which = b.node("Squeeze", b.node("Slice", picked, b.ints(2), b.ints(3), b.ints(1)),
                       b.ints(1))
        b.output(b.node("Gather", b.node("Squeeze", rows, b.ints(0)), which), "boxes", ["n", 4])
        b.output(b.node("GatherND", b.node("Transpose", scores, perm=[0, 2, 1]), b.node(
            "Gather", picked, b.ints(0, 2, 1), axis=1)), "scores", ["n"])
    else:
        best = b.node("ReduceMax", scores, axes=[1], keepdims=0)
        top, which = b.node("TopK", best, b.ints(100), outputs=2, axis=1)
        index = b.node("Expand", b.node("Unsqueeze", which, b.ints(2)), b.ints(1, 100, 4))
        b.output(b.node("GatherElements", rows, index, axis=1), "boxes", [1, 100, 4])
        b.output(top, "scores", [1, 100])
    return b.model("detector", 13), feeds


def sampler() -> Made:
    """Pixels from where a matrix says: a grid of coordinates, moved, and read there; and rows that
    a rounded-down place chooses."""
    size = 512
    b = Builder(8)
    x = b.input("image", FLOAT, [1, 3, size, size])
    turn = b.input("matrix", FLOAT, [1, 3, 2])
    ys, xs = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size), indexing="ij")
    grid = np.stack([xs.ravel(), ys.ravel(), np.ones(size * size)], 1)[None].astype(np.float32)
    where = b.node("Reshape", b.node("MatMul", b.weight(grid), turn), b.ints(1, size, size, 2))
    y = b.node("GridSample", _conv(b, x, [4, 3, 3, 3]), where, align_corners=1, mode="bilinear")
    place = b.input("place", FLOAT, [7])
    row = b.node("Cast", b.node("Floor", b.node("Mul", b.node("Sigmoid", b.node(
        "Gemm", b.node("Unsqueeze", place, b.ints(0)), b.weight(np.eye(7, dtype=np.float32)))),
        b.constant(4095))), to=INT64)
    table = b.weight((np.arange(4096)[:, None] / 4096 + b.normal([4096, 4], 1e-3)).astype(
        np.float32))
    b.output(_conv(b, y, [4, 4, 3, 3]), "seen", [1, 4, size, size])
    b.output(b.node("Gather", table, row), "rows", [1, 7, 4])

    def feeds(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        turn = np.array([[0.8, -0.5], [0.5, 0.8], [0.05, -0.1]], np.float32)[None]
        smooth = np.add.outer(np.sin(np.arange(size) / 20), np.cos(np.arange(size) / 33))
        noise = rng.standard_normal([1, 3, 1, 1])
        return {"image": (smooth * noise).astype(np.float32), "matrix": turn,
                "place": rng.standard_normal(7).astype(np.float32)}
    return b.model("sampler", 16), feeds


MODELS: dict[str, Callable[[], Made]] = {
    "rotary": rotary,
    "rotary_einsum": lambda: rotary("einsum"),
    "rotary_mul": lambda: rotary("mul"),
    "fourier": fourier,
    "fourier_gaussian": lambda: fourier("gaussian"),
    "fourier_siren": lambda: fourier("siren"),
    "vocoder": vocoder,
    "unet": unet,
    "unet_loud": loud_unet,
    "encoder": encoder,
    "int8_dynamic": int8_dynamic,
    "int8_weights": int8_weights,
    "gru": recurrent,
    "lstm": lambda: recurrent("LSTM"),
    "rnn": lambda: recurrent("RNN"),
    "exported_gru": exported_recurrent,
    "exported_lstm": lambda: exported_recurrent("LSTM"),
    "detector": lambda: detector("none"),
    "detector_topk": lambda: detector("topk"),
    "detector_nms": detector,
    "sampler": sampler,
    "normed": normed,
}
# Those whose weights are half as large whatever a note says.
HALVED = {"normed"}
# Those whose outputs' rows a score selects and orders.
SELECTING = {"detector_topk", "detector_nms"}
