# SPDX-License-Identifier: Apache-2.0
"""Networks of well-known shapes with seeded weights: what speed and accuracy are measured on where
trained ones would be hundreds of megabytes to fetch.

The graphs are what exporters write. Weights are scaled so that activations stay of order 1 at any
depth: convolutions by He's rule, with the BatchNorm statistics that follow from the moments of what
comes in; dense layers by 1/sqrt of their inputs. Each function takes `layers`, which cuts the
network down: at most so many blocks a stage, layers of a transformer, or LSTMs.
"""

import dataclasses
import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Builder:
    """Collects a graph; every method returns the name of its result."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs, self.count = [], [], [], [], 0
        self.constants: dict[bytes, str] = {}

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        self.count += 1
        made = [f"{op.lower()}_{self.count}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, f"/{op}_{self.count}", **attributes))
        return made[0] if outputs == 1 else made

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def constant(self, *values: float, dtype: type = np.float32, scalar: bool = True) -> str:
        """A small tensor, made once: a scalar, or a vector."""
        array = np.array(values[0] if scalar else values, dtype)
        key = array.tobytes() + str((array.dtype, array.shape)).encode()
        if key not in self.constants:
            self.constants[key] = self.weight(array)
        return self.constants[key]

    def ints(self, *values: int) -> str:
        return self.constant(*values, dtype=np.int64, scalar=False)

    def normal(self, shape: list[int], scale: float) -> np.ndarray:
        return self.rng.standard_normal(shape, np.float32) * np.float32(scale)

    def input(self, name: str, elem: int, shape: list[int]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, elem, shape))
        return name

    def output(self, made: str, name: str, shape: list[int]) -> None:
        self.nodes.append(helper.make_node("Identity", [made], [name], f"/{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, FLOAT, shape))

    def model(self, name: str, opset: int) -> onnx.ModelProto:
        graph = helper.make_graph(self._without_identities(), name, self.inputs, self.outputs,
                                  self.weights)
        return helper.make_model(graph, ir_version=8, producer_name="made_models",
                                 opset_imports=[helper.make_opsetid("", opset)])

    def _without_identities(self) -> list[onnx.NodeProto]:
        """An output's Identity goes: the node that made its input gives it its name."""
        names = {n.input[0]: n.output[0] for n in self.nodes if n.op_type == "Identity"}
        kept = [n for n in self.nodes if n.op_type != "Identity"]
        for node in kept:
            for field in (node.input, node.output):
                for i, value in enumerate(field):
                    field[i] = names.get(value, value)
        return kept


# ---- convolutional networks ----

@dataclasses.dataclass
class Feature:
    """A value and the moments of its channels."""

    name: str
    mean: np.ndarray
    variance: np.ndarray
    size: int  # height and width


def _normal_cdf(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def _relu(b: Builder, x: Feature, most: float | None = None) -> Feature:
    """Relu, or Clip to [0, most]; the moments are those of a normal distribution cut at 0."""
    if most is None:
        name = b.node("Relu", x.name)
    else:
        name = b.node("Clip", x.name, b.constant(0), b.constant(most))
    deviation = np.sqrt(x.variance)
    ratio = x.mean / deviation
    above, density = _normal_cdf(ratio), np.exp(-ratio**2 / 2) / math.sqrt(2 * math.pi)
    mean = x.mean * above + deviation * density
    square = (x.mean**2 + x.variance) * above + x.mean * deviation * density
    return Feature(name, mean, np.maximum(square - mean**2, 1e-3), x.size)


@dataclasses.dataclass
class Conv:
    filters: int
    kernel: int = 1
    stride: int = 1
    depthwise: bool = False
    gain: float = 1.0  # of the BatchNorm after it, and what it shifts by
    shift: float = 0.0


def _conv(b: Builder, x: Feature, c: Conv) -> Feature:
    """Conv and BatchNormalization, whose statistics are the ones its input's moments lead to."""
    channels = len(x.mean)
    fan_in = c.kernel**2 * (1 if c.depthwise else channels)
    weights = b.normal([c.filters, 1 if c.depthwise else channels, c.kernel, c.kernel],
                       math.sqrt(2 / fan_in))
    pad, size = c.kernel // 2, (x.size - 1) // c.stride + 1
    name = b.node("Conv", x.name, b.weight(weights), kernel_shape=[c.kernel] * 2,
                  strides=[c.stride] * 2, pads=[pad] * 4, group=channels if c.depthwise else 1)
    total, squares = weights.sum((2, 3)), np.square(weights).sum((2, 3))
    if c.depthwise:
        mean, variance = total[:, 0] * x.mean, squares[:, 0] * x.variance
    else:
        mean, variance = total @ x.mean, squares @ x.variance
    gain = b.rng.uniform(0.8, 1.2, c.filters) * c.gain
    shift = b.rng.normal(c.shift, 0.2, c.filters)
    name = b.node("BatchNormalization", name, *(
        b.weight(np.asarray(a, np.float32)) for a in (gain, shift, mean, variance)), epsilon=1e-5)
    return Feature(name, shift, gain**2, size)


def _add(b: Builder, x: Feature, y: Feature) -> Feature:
    return Feature(b.node("Add", x.name, y.name), x.mean + y.mean, x.variance + y.variance, x.size)


def _classifier(b: Builder, x: Feature, classes: int) -> None:
    pooled = b.node("Flatten", b.node("GlobalAveragePool", x.name), axis=1)
    scale = 1 / math.sqrt(float(np.sum(x.mean**2)))
    logits = b.node("Gemm", pooled, b.weight(b.normal([classes, len(x.mean)], scale)),
                    b.weight(b.normal([classes], 0.1)), transB=1)
    b.output(logits, "logits", [1, classes])


def _image(b: Builder, size: int) -> Feature:
    return Feature(b.input("image", FLOAT, [1, 3, size, size]), np.zeros(3), np.ones(3), size)


def _resnet(name: str, depths: list[int], layers: int | None, size: int) -> onnx.ModelProto:
    b = Builder(50)
    x = _relu(b, _conv(b, _image(b, size), Conv(64, 7, 2)))
    x = Feature(b.node("MaxPool", x.name, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
                x.mean + np.sqrt(x.variance), x.variance, (x.size - 1) // 2 + 1)
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for block in range(min(depth, layers or depth)):
            stride = 2 if stage and not block else 1
            shortcut = x if block else _conv(b, x, Conv(4 * width, 1, stride))
            y = _relu(b, _conv(b, x, Conv(width)))
            y = _relu(b, _conv(b, y, Conv(width, 3, stride)))
            y = _conv(b, y, Conv(4 * width, gain=0.5))
            x = _relu(b, _add(b, y, shortcut))
    _classifier(b, x, 1000)
    return b.model(name, 13)


def resnet50(layers: int | None = None, size: int = 224) -> onnx.ModelProto:
    """The one with the stride in the 3x3 convolution."""
    return _resnet("resnet50", [3, 4, 6, 3], layers, size)


def resnet152(layers: int | None = None, size: int = 224) -> onnx.ModelProto:
    return _resnet("resnet152", [3, 8, 36, 3], layers, size)


def mobilenetv2(layers: int | None = None, size: int = 224) -> onnx.ModelProto:
    """Most activations lie between Relu6's bounds: random weights with as many beyond them make
    each layer's error some times the last one's, which no trained network would."""
    b = Builder(2)
    x = _relu(b, _conv(b, _image(b, size), Conv(32, 3, 2, shift=1)), 6)
    for expand, filters, depth, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                           (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                           (6, 320, 1, 1)]:
        for block in range(min(depth, layers or depth)):
            y, wide = x, expand * len(x.mean)
            if expand > 1:
                y = _relu(b, _conv(b, y, Conv(wide, shift=1)), 6)
            deep = Conv(wide, 3, 1 if block else stride, depthwise=True, shift=1)
            y = _conv(b, _relu(b, _conv(b, y, deep), 6), Conv(filters, gain=0.5))
            x = _add(b, y, x) if block else y
    _classifier(b, _relu(b, _conv(b, x, Conv(1280)), 6), 1000)
    return b.model("mobilenetv2", 13)


# ---- a detector ----

def _silu_conv(b: Builder, x: str, shape: list[int], stride: int = 1) -> str:
    """Convolution, bias, x * sigmoid(x): as a detector is exported, its BatchNorm folded."""
    depth = shape[1] * shape[2] * shape[3]
    y = b.node("Conv", x, b.weight(b.normal(shape, math.sqrt(2 / depth))),
               b.weight(b.normal(shape[:1], 0.1)), strides=[stride] * 2,
               pads=[shape[2] // 2] * 4)
    return b.node("Mul", y, b.node("Sigmoid", y))


def _stage(b: Builder, x: str, channels: int, blocks: int) -> str:
    """Halves of the channels, one of which goes through residual blocks; all halves together."""
    half = channels // 2
    y = _silu_conv(b, x, [channels, channels, 1, 1])
    kept = b.node("Split", y, b.ints(half, half), outputs=2, axis=1)
    for _ in range(blocks):
        inner = _silu_conv(b, kept[-1], [half, half, 3, 3])
        kept.append(b.node("Add", kept[-1], _silu_conv(b, inner, [half, half, 3, 3])))
    joined = b.node("Concat", *kept, axis=1)
    return _silu_conv(b, joined, [channels, half * len(kept), 1, 1])


def detector(layers: int | None = None, size: int = 320) -> onnx.ModelProto:
    """A detector of one pass over the image at three scales, in the manner of YOLO."""
    b = Builder(8)
    x = _silu_conv(b, b.input("images", FLOAT, [1, 3, size, size]), [32, 3, 3, 3], 2)
    scales, before = [], 32
    for channels, blocks in ((64, 1), (128, 2), (256, 2), (512, 1)):
        x = _silu_conv(b, x, [channels, before, 3, 3], 2)
        x = _stage(b, x, channels, min(blocks, layers or blocks))
        scales, before = [*scales, x], channels
    heads = []
    for channels, y in zip((512, 256, 128), reversed(scales), strict=False):
        if heads:
            larger = b.node("Resize", x, "", b.constant(1, 1, 2, 2, scalar=False), mode="nearest")
            x = _silu_conv(b, b.node("Concat", larger, y, axis=1), [channels, 3 * channels, 1, 1])
        heads.append(b.node("Conv", _silu_conv(b, x, [channels, channels, 3, 3]),
                            b.weight(b.normal([84, channels, 1, 1], 1 / math.sqrt(channels)))))
    flat = [b.node("Reshape", head, b.ints(1, 84, -1)) for head in heads]
    boxes = sum((size // s) ** 2 for s in (32, 16, 8))
    b.output(b.node("Sigmoid", b.node("Concat", *flat, axis=2)), "boxes", [1, 84, boxes])
    return b.model("detector", 17)


# ---- transformers ----

HEADS, HEAD, WIDTH = 12, 64, 768


def _dense(b: Builder, x: str, shape: list[int], gain: float = 1.0) -> str:
    """x times a matrix, plus a bias, as exporters write layers of more than two dimensions."""
    product = b.node("MatMul", x, b.weight(b.normal(shape, gain / math.sqrt(shape[0]))))
    return b.node("Add", b.weight(b.normal(shape[1:], 0.05)), product)


def _layer_norm(b: Builder, x: str, epsilon: float, fused: bool) -> str:
    scale = b.weight(1 + b.normal([WIDTH], 0.1))
    shift = b.weight(b.normal([WIDTH], 0.05))
    if fused:
        return b.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)
    centered = b.node("Sub", x, b.node("ReduceMean", x, axes=[-1]))
    square = b.node("ReduceMean", b.node("Pow", centered, b.constant(2)), axes=[-1])
    deviation = b.node("Sqrt", b.node("Add", square, b.constant(epsilon)))
    return b.node("Add", b.node("Mul", b.node("Div", centered, deviation), scale), shift)


def _gelu(b: Builder, x: str) -> str:
    erf = b.node("Erf", b.node("Div", x, b.constant(math.sqrt(2))))
    return b.node("Mul", b.node("Mul", x, b.node("Add", erf, b.constant(1))), b.constant(0.5))


def _gelu_tanh(b: Builder, x: str) -> str:
    cube = b.node("Mul", b.node("Pow", x, b.constant(3)), b.constant(0.044715))
    inner = b.node("Mul", b.node("Add", x, cube), b.constant(math.sqrt(2 / math.pi)))
    half = b.node("Mul", x, b.constant(0.5))
    return b.node("Mul", half, b.node("Add", b.node("Tanh", inner), b.constant(1)))


def _heads(b: Builder, x: str, order: list[int]) -> str:
    return b.node("Transpose", b.node("Reshape", x, b.ints(0, 0, HEADS, HEAD)), perm=order)


def _bert_layer(b: Builder, x: str, mask: str, fused: bool, gain: float = 1.0) -> str:
    q = _heads(b, _dense(b, x, [WIDTH, WIDTH]), [0, 2, 1, 3])
    k = _heads(b, _dense(b, x, [WIDTH, WIDTH]), [0, 2, 3, 1])
    v = _heads(b, _dense(b, x, [WIDTH, WIDTH]), [0, 2, 1, 3])
    scores = b.node("Div", b.node("MatMul", q, k), b.constant(math.sqrt(HEAD)))
    shares = b.node("Softmax", b.node("Add", scores, mask), axis=-1)
    mixed = b.node("Transpose", b.node("MatMul", shares, v), perm=[0, 2, 1, 3])
    mixed = _dense(b, b.node("Reshape", mixed, b.ints(0, 0, WIDTH)), [WIDTH, WIDTH], gain)
    x = _layer_norm(b, b.node("Add", mixed, x), 1e-12, fused)
    y = _gelu(b, _dense(b, x, [WIDTH, 4 * WIDTH]))
    return _layer_norm(b, b.node("Add", _dense(b, y, [4 * WIDTH, WIDTH], gain), x), 1e-12, fused)


def _bert_body(b: Builder, sizes: tuple[int, int, int], fused: bool,
               gain: float) -> tuple[str, str]:
    """What so many layers make of so many tokens, of so many words; and the table of these."""
    layers, length, words = sizes
    ids, mask, kinds = (b.input(name, INT64, [1, length])
                        for name in ("input_ids", "attention_mask", "token_type_ids"))
    mask = b.node("Unsqueeze", mask, b.ints(1, 2))
    mask = b.node("Mul", b.node("Sub", b.constant(1), b.node("Cast", mask, to=FLOAT)),
                  b.constant(-10000))
    table = b.weight(b.normal([words, WIDTH], 0.5))
    x = b.node("Add", b.node("Gather", table, ids),
               b.node("Gather", b.weight(b.normal([2, WIDTH], 0.2)), kinds))
    x = b.node("Add", x, b.weight(b.normal([1, length, WIDTH], 0.2)))
    x = _layer_norm(b, x, 1e-12, fused)
    for _ in range(layers):
        x = _bert_layer(b, x, mask, fused, gain)
    return x, table


def bert(layers: int | None = None, length: int = 128, fused_norm: bool = False,
         words: int = 30522) -> onnx.ModelProto:
    """BERT-base. With fused_norm LayerNormalization is one operator, as from opset 17 on."""
    b = Builder(12)
    x, _ = _bert_body(b, (layers or 12, length, words), fused_norm, 1)
    first = b.node("Gather", x, b.constant(0, dtype=np.int64), axis=1)
    pooled = b.node("Tanh", b.node("Gemm", first, b.weight(b.normal([WIDTH, WIDTH], 0.03)),
                                   b.weight(b.normal([WIDTH], 0.05)), transB=1))
    b.output(x, "last_hidden_state", [1, length, WIDTH])
    b.output(pooled, "pooler_output", [1, WIDTH])
    return b.model("bert", 17 if fused_norm else 13)


def bert_words(layers: int | None = None, length: int = 128, fused_norm: bool = False,
               words: int = 30522) -> onnx.ModelProto:
    """BERT-base with the head that it is trained with: a score for each word at each place, by the table
    that words are looked up in. Random layers make all tokens alike, and which score is the largest is
    chance then. Here what a layer adds is small beside what it is added to, as GPT-2 begins, so that
    tokens stay what they are, and the word that is there has the largest score, which is what a trained
    one says of words that are not masked. For what decides by the largest score, as top-1 agreement."""
    b = Builder(12)
    count = layers or 12
    x, table = _bert_body(b, (count, length, words), fused_norm, 1 / math.sqrt(2 * count))
    scores = b.node("MatMul", x, b.node("Transpose", table, perm=[1, 0]))
    b.output(scores, "scores", [1, length, words])
    return b.model("bert_words", 17 if fused_norm else 13)


@dataclasses.dataclass
class Decode:
    """What a run of GPT-2 is given: so many new tokens behind so many kept ones."""

    past: int
    tokens: int
    unmasked: str = ""  # which scores count, where there are several tokens


def _gpt_dense(b: Builder, x: str, shape: list[int], gain: float = 1.0) -> str:
    """A layer of GPT-2: Gemm between Reshapes."""
    flat = b.node("Reshape", x, b.ints(-1, shape[0]))
    made = b.node("Gemm", flat, b.weight(b.normal(shape, gain / math.sqrt(shape[0]))),
                  b.weight(b.normal(shape[1:], 0.05)))
    return b.node("Reshape", made, b.ints(1, -1, shape[1]))


def _gpt_layer(b: Builder, x: str, layer: int, run: Decode, fused: bool) -> str:
    y = _gpt_dense(b, _layer_norm(b, x, 1e-5, fused), [WIDTH, 3 * WIDTH])
    q, k, v = b.node("Split", y, b.ints(WIDTH, WIDTH, WIDTH), outputs=3, axis=2)
    q, k, v = (_heads(b, t, [0, 2, 1, 3]) for t in (q, k, v))
    if run.past:
        shape = [1, HEADS, run.past, HEAD]
        k = b.node("Concat", b.input(f"past.{layer}.key", FLOAT, shape), k, axis=2)
        v = b.node("Concat", b.input(f"past.{layer}.value", FLOAT, shape), v, axis=2)
    scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b.node("Div", scores, b.constant(math.sqrt(HEAD)))
    if run.unmasked:
        scores = b.node("Where", run.unmasked, scores, b.constant(-10000))
    shares = b.node("Softmax", scores, axis=-1)
    mixed = b.node("Transpose", b.node("MatMul", shares, v), perm=[0, 2, 1, 3])
    mixed = _gpt_dense(b, b.node("Reshape", mixed, b.ints(0, 0, WIDTH)), [WIDTH, WIDTH], 0.5)
    x = b.node("Add", x, mixed)
    y = _gelu_tanh(b, _gpt_dense(b, _layer_norm(b, x, 1e-5, fused), [WIDTH, 4 * WIDTH]))
    for made, name in ((k, "key"), (v, "value")):
        b.output(made, f"present.{layer}.{name}", [1, HEADS, run.past + run.tokens, HEAD])
    return b.node("Add", x, _gpt_dense(b, y, [4 * WIDTH, WIDTH], 0.5))


def gpt2(layers: int | None = None, past: int = 255, fused_norm: bool = False,
         words: int = 50257, tokens: int = 1) -> onnx.ModelProto:
    """A decode step of GPT-2 small: one token, with keys and values of `past` ones; or, with past 0
    and more tokens, the run that reads a prompt."""
    b = Builder(117)
    ids, place = (b.input(name, INT64, [1, tokens]) for name in ("input_ids", "position_ids"))
    run = Decode(past, tokens)
    if tokens > 1:
        run.unmasked = b.weight(np.tri(tokens, past + tokens, past, bool)[None, None])
    table = b.weight(b.normal([words, WIDTH], 1 / math.sqrt(WIDTH)))
    x = b.node("Add", b.node("Gather", table, ids),
               b.node("Gather", b.weight(b.normal([1024, WIDTH], 0.3)), place))
    for layer in range(layers or 12):
        x = _gpt_layer(b, x, layer, run, fused_norm)
    x = b.node("Reshape", _layer_norm(b, x, 1e-5, fused_norm), b.ints(tokens, WIDTH))
    b.output(b.node("Gemm", x, table, transB=1), "logits", [tokens, words])
    return b.model("gpt2", 17 if fused_norm else 13)


# ---- recurrent ----

def lstm(layers: int | None = None, steps: int = 64, inputs: int = 256,
         hidden: int = 512) -> onnx.ModelProto:
    """LSTMs one after the other, the first of both directions, and a dense layer."""
    b = Builder(9)
    x, width = b.input("x", FLOAT, [steps, 1, inputs]), inputs
    for layer in range(layers or 2):
        ways = 1 if layer else 2
        y, _, _ = b.node("LSTM", x, b.weight(b.normal([ways, 4 * hidden, width], width**-0.5)),
                         b.weight(b.normal([ways, 4 * hidden, hidden], hidden**-0.5)),
                         b.weight(b.normal([ways, 8 * hidden], 0.1)), outputs=3,
                         hidden_size=hidden, direction="forward" if layer else "bidirectional")
        width = ways * hidden
        x = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1, 3]), b.ints(0, 0, -1))
    b.output(_dense(b, x, [width, inputs], 2), "y", [steps, 1, inputs])
    return b.model("lstm", 13)


# ---- all of them ----

MODELS = {"resnet50": resnet50, "resnet152": resnet152, "mobilenetv2": mobilenetv2, "bert": bert,
          "bert_words": bert_words, "gpt2": gpt2, "lstm": lstm, "detector": detector}
# Sizes at which each takes a moment and still has every kind of layer.
SMALL = {"resnet50": {"layers": 2, "size": 64}, "resnet152": {"layers": 3, "size": 64},
         "mobilenetv2": {"layers": 2, "size": 96}, "bert": {"layers": 1, "words": 500}, "bert_words": {"layers": 2, "words": 500},
         "gpt2": {"layers": 1, "words": 500, "past": 17}, "lstm": {"steps": 5, "hidden": 96},
         "detector": {"layers": 1, "size": 64}}


def batched(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """The same model for `batch` images or sentences: nothing in those says that it is one."""
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    return model


def feeds_of(model: onnx.ModelProto, seed: int = 1) -> dict[str, np.ndarray]:
    """Seeded inputs: tokens the tables have, a mask without gaps, the place after the past."""
    rng, shapes = np.random.default_rng(seed), {}
    for value in model.graph.input:
        shapes[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
    words = next((t.dims[0] for t in model.graph.initializer if len(t.dims) == 2), 0)
    made = {}
    for name, shape in shapes.items():
        if name == "input_ids":
            made[name] = rng.integers(0, words, shape)
        elif name == "attention_mask":
            made[name] = np.ones(shape, np.int64)
        elif name == "token_type_ids":
            made[name] = rng.integers(0, 2, shape)
        elif name == "position_ids":
            past = shapes.get("past.0.key", [0, 0, 0])[2]
            made[name] = np.arange(past, past + shape[1], dtype=np.int64)[None]
        else:
            made[name] = rng.standard_normal(shape, np.float32)
    return made
