# SPDX-License-Identifier: Apache-2.0
"""Small models as exporters write them, with random sizes: a transformer block, a GPT step with its
cache, convolutional networks, a recurrent network, a detection head, an audio front end, a
quantized network, embeddings, an expanded activation, tree and linear models.

`build(seed)` gives a Sample. The styles differ in where constants live (PyTorch: initializers;
older PyTorch and Paddle: Constant nodes; TensorFlow: constants with a transposition around
convolutions).
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from suite.random_graphs import IR_OF, Sample

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Exporter:
    """Collects nodes under exporter-like names; constants as the style has them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.opset = int(rng.choice([11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 24]))
        self.as_nodes = rng.random() < 0.4
        self.scope = str(rng.choice(["/layer.0/", "model/block/", "", "p2o."]))
        self.named = rng.random() < 0.8
        self.dynamic = rng.random() < 0.5
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, object] = {}
        self.jumpy: set[str] = set()

    def input(self, name: str, array: np.ndarray) -> str:
        shape: list = list(array.shape)
        if self.dynamic and shape:
            shape[0] = "batch"
        elem = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, elem, shape))
        self.feeds[name] = array
        return name

    def output(self, value: str, elem: int = FLOAT, jumpy: bool = False) -> None:
        self.outputs.append(helper.make_tensor_value_info(value, elem, None))
        if jumpy:
            self.jumpy.add(value)

    def const(self, array: object, dtype: type = np.float32) -> str:
        tensor = np.asarray(array, dtype)
        name = f"{self.scope}const_{len(self.initializers) + len(self.nodes)}"
        if self.as_nodes or tensor.ndim == 0:
            self.nodes.append(helper.make_node("Constant", [], [name],
                                               value=numpy_helper.from_array(tensor)))
        else:
            self.initializers.append(numpy_helper.from_array(tensor, name))
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def weight(self, *shape: int) -> str:
        fan = max(1, int(np.prod(shape[1:] if len(shape) > 2 else shape[:1])))
        return self.const(self.rng.standard_normal(shape) / np.sqrt(fan))

    def __call__(self, op: str, *operands: str, outputs: int = 1,
                 **attributes: object) -> str | list:
        index = len(self.nodes)
        names = [f"{self.scope}{op}_{index}_output_{i}" for i in range(outputs)]
        node = helper.make_node(op, list(operands), names, **attributes)
        if self.named:
            node.name = f"{self.scope}{op}_{index}"
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    # ---- pieces

    def linear(self, x: str, into: int, out: int) -> str:
        return self("Add", self("MatMul", x, self.weight(into, out)), self.weight(out))

    def mean(self, x: str) -> str:
        if self.opset >= 18:
            return self("ReduceMean", x, self.ints(-1))
        return self("ReduceMean", x, axes=[-1])

    def layer_norm(self, x: str, size: int) -> str:
        scale, bias = self.const(np.ones(size)), self.weight(size)
        if self.opset >= 17 and self.rng.random() < 0.5:
            return self("LayerNormalization", x, scale, bias, epsilon=1e-5)
        centered = self("Sub", x, self.mean(x))
        var = self.mean(self("Pow", centered, self.const(2.0)))
        epsilon = float(self.rng.choice([1e-5, 1e-12, 1e-6]))
        y = self("Div", centered, self("Sqrt", self("Add", var, self.const(epsilon))))
        return self("Add", self("Mul", y, scale), bias)

    def gelu(self, x: str) -> str:
        if self.rng.random() < 0.5:  # by erf
            e = self("Erf", self("Div", x, self.const(1.4142135)))
            return self("Mul", self("Mul", x, self("Add", e, self.const(1.0))), self.const(0.5))
        cube = self("Mul", self("Pow", x, self.const(3.0)), self.const(0.044715))
        t = self("Tanh", self("Mul", self("Add", x, cube), self.const(0.7978846)))
        return self("Mul", self("Mul", self.const(0.5), x), self("Add", self.const(1.0), t))

    def unsqueeze(self, x: str, axis: int) -> str:
        if self.opset >= 13:
            return self("Unsqueeze", x, self.ints(axis))
        return self("Unsqueeze", x, axes=[axis])

    def heads(self, x: str, count: int, size: int) -> str:
        """(batch, seq, size) -> (batch, count, seq, size / count), by the input's own shape."""
        shape = self("Shape", x)
        dims = [self("Gather", shape, self.const(i, np.int64)) for i in (0, 1)]
        parts = [self.unsqueeze(d, 0) for d in dims] + [self.ints(count), self.ints(size // count)]
        split = self("Reshape", x, self("Concat", *parts, axis=0))
        return self("Transpose", split, perm=[0, 2, 1, 3])

    def attention(self, x: str, size: int, mask: str | None, past: tuple | None = None) -> tuple:
        q, k, v = (self.heads(self.linear(x, size, size), 2, size) for _ in range(3))
        if past:
            k, v = self("Concat", past[0], k, axis=2), self("Concat", past[1], v, axis=2)
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Div", scores, self.const(np.sqrt(size / 2)))
        if mask:
            scores = self("Add", scores, mask)
        joined = self("MatMul", self("Softmax", scores, axis=-1 if self.opset >= 13 else 3), v)
        merged = self("Reshape", self("Transpose", joined, perm=[0, 2, 1, 3]),
                      self.ints(0, -1, size))
        return self.linear(merged, size, size), k, v

    def conv(self, x: str, into: int, out: int, **attributes: object) -> str:
        attributes.setdefault("kernel_shape", [3, 3])
        attributes.setdefault("pads", [1, 1, 1, 1])
        group = attributes.get("group", 1)
        weight = self.weight(out, into // group, *attributes["kernel_shape"])
        operands = [x, weight] + ([self.weight(out)] if self.rng.random() < 0.5 else [])
        return self("Conv", *operands, **attributes)

    def bn(self, x: str, size: int) -> str:
        var = np.abs(self.rng.standard_normal(size)) + 0.5
        return self("BatchNormalization", x, self.const(np.ones(size)), self.weight(size),
                    self.weight(size), self.const(var), epsilon=1e-5)

    def upsample(self, x: str) -> str:
        scales = self.const([1, 1, 2, 2])
        way = self.rng.integers(3)
        if way == 0:
            return self("Resize", x, self.const(np.zeros(0)) if self.opset < 13 else "", scales,
                        mode="nearest", coordinate_transformation_mode="asymmetric",
                        nearest_mode="floor")
        if way == 1:
            return self("Resize", x, self.const(np.zeros(0)), scales, mode="linear",
                        coordinate_transformation_mode="half_pixel")
        shape = self("Shape", x)
        head = self("Slice", shape, self.ints(0), self.ints(2), self.ints(0))
        tail = self("Slice", shape, self.ints(2), self.ints(4), self.ints(0))
        as_float = self("Cast", tail, to=FLOAT)
        twice = self("Cast", self("Floor", self("Mul", as_float, self.const([2.0, 2.0]))), to=INT64)
        sizes = self("Concat", head, twice, axis=0)
        empty = self.const(np.zeros(0))
        return self("Resize", x, empty, empty if self.opset < 13 else "", sizes, mode="nearest")


def bert(e: Exporter) -> None:
    size, seq, batch = 8, int(e.rng.integers(2, 6)), 2
    ids = e.input("input_ids", e.rng.integers(0, 10, (batch, seq)))
    given = np.ones((batch, seq), np.int64)
    given[0, -1] = 0
    attention = e.input("attention_mask", given)
    x = e("Gather", e.weight(10, size), ids)
    x = e.layer_norm(e("Add", x, e.weight(1, seq, size)), size)
    keep = e("Cast", e.unsqueeze(e.unsqueeze(attention, 1), 2), to=FLOAT)
    low = float(e.rng.choice([-10000.0, -3.4028234663852886e38, -1e9]))
    mask = e("Mul", e("Sub", e.const(1.0), keep), e.const(low))
    for _ in range(2):
        x = e.layer_norm(e("Add", x, e.attention(x, size, mask)[0]), size)
        x = e.layer_norm(e("Add", x, e.linear(e.gelu(e.linear(x, size, 16)), 16, size)), size)
    e.output(x)
    e.output(e("Tanh", e("Gemm", e("Gather", x, e.const(0, np.int64), axis=1), e.weight(size, size),
                         e.weight(size), transB=1)))


def gpt(e: Exporter) -> None:
    size, past, batch = 8, 3, 1
    ids = e.input("input_ids", e.rng.integers(0, 10, (batch, 2)))
    cache = [e.input(f"past.{k}", e.rng.standard_normal((batch, 2, past, 4)).astype(np.float32))
             for k in ("key", "value")]
    table = e.weight(10, size)
    x = e("Gather", table, ids)
    causal = e("Trilu", e.const(np.ones((1, 1, 8, 8), bool), bool), upper=0) if e.opset >= 14 else \
        e.const(np.tril(np.ones((1, 1, 8, 8), bool)), bool)
    total = past + 2
    rows = e("Slice", causal, e.ints(past), e.ints(total), e.ints(2))
    keep = e("Slice", rows, e.ints(0), e.ints(total), e.ints(3))
    low = float(e.rng.choice([-np.inf, -3.4028234663852886e38, -65504.0]))
    mask = e("Where", keep, e.const(0.0), e.const(low))
    y, k, v = e.attention(e.layer_norm(x, size), size, mask, tuple(cache))
    x = e("Add", x, y)
    gate = e.linear(e.layer_norm(x, size), size, 16)
    x = e("Add", x, e.linear(e("Mul", gate, e("Sigmoid", gate)), 16, size))
    logits = e("MatMul", e.layer_norm(x, size), e("Transpose", table, perm=[1, 0]))
    for value in (logits, k, v):
        e.output(value)
    e.output(e("ArgMax", logits, axis=-1), INT64, True)


def resnet(e: Exporter) -> None:
    x = e.input("image", e.rng.standard_normal((2, 3, 8, 8)).astype(np.float32))
    x = e("Relu", e.bn(e.conv(x, 3, 4), 4))
    y = e.bn(e.conv(e("Relu", e.bn(e.conv(x, 4, 4), 4)), 4, 4, group=2), 4)
    x = e("MaxPool", e("Relu", e("Add", x, y)), kernel_shape=[2, 2], strides=[2, 2])
    gate = e("GlobalAveragePool", x)
    gate = e("HardSigmoid", e.conv(gate, 4, 4, kernel_shape=[1, 1], pads=[0, 0, 0, 0]))
    x = e("Mul", x, gate)
    x = e("Clip", x, e.const(0.0), e.const(6.0))
    e.output(e("Softmax", e("Gemm", e("Flatten", e("GlobalAveragePool", x), axis=1),
                            e.weight(5, 4), e.weight(5), transB=1), axis=1))


def tf_cnn(e: Exporter) -> None:
    x = e.input("serving_default_x:0", e.rng.standard_normal((1, 8, 8, 3)).astype(np.float32))
    x = e("Transpose", x, perm=[0, 3, 1, 2])
    x = e.conv(x, 3, 4)
    x = e("Transpose", e("Relu", x), perm=[0, 2, 3, 1])
    x = e("Add", x, e.weight(4))
    x = e("Pad", x, e.ints(0, 1, 1, 0, 0, 1, 1, 0))
    x = e("Reshape", x, e.ints(-1, 400))
    e.output(e.linear(x, 400, 3))


def unet(e: Exporter) -> None:
    x = e.input("sample", e.rng.standard_normal((1, 2, 8, 8)).astype(np.float32))
    step = e.input("timestep", np.array([3], np.int64))
    freq = e("Exp", e("Mul", e.const(np.arange(2)), e.const(-4.6)))
    angle = e("Mul", e.unsqueeze(e("Cast", step, to=FLOAT), 1), freq)
    emb = e.linear(e("Concat", e("Sin", angle), e("Cos", angle), axis=1), 4, 4)
    a = e.conv(x, 2, 4)
    shaped = e.unsqueeze(e.unsqueeze(emb, 2), 3)
    a = e("Add", a, shaped)
    n = e("InstanceNormalization", e("Reshape", a, e.ints(0, 2, -1)), e.const([1.0, 1.0]),
          e.const([0.0, 0.0]), epsilon=1e-5)
    n = e("Reshape", n, e("Shape", a))
    n = e("Mul", n, e("Sigmoid", n))
    down = e.conv(n, 4, 4, strides=[2, 2])
    up = e.upsample(down)
    e.output(e.conv(e("Concat", up, a, axis=1), 8, 2))


def lstm(e: Exporter) -> None:
    seq, batch, size, hidden = 4, 2, 3, 4
    x = e.input("x", e.rng.standard_normal((seq, batch, size)).astype(np.float32))
    ways = 2 if e.rng.random() < 0.5 else 1
    op, gates = [("LSTM", 4), ("GRU", 3)][e.rng.integers(2)]
    operands = [x, e.weight(ways, gates * hidden, size), e.weight(ways, gates * hidden, hidden),
                e.weight(ways, 2 * gates * hidden)]
    shape = e("Concat", e.ints(ways), e("Slice", e("Shape", x), e.ints(1), e.ints(2)),
              e.ints(hidden), axis=0)
    zero = e("ConstantOfShape", shape, value=helper.make_tensor("", FLOAT, [1], [0.0]))
    operands += [e.const(np.full(batch, seq), np.int32), zero]
    direction = {"direction": "bidirectional"} if ways == 2 else {}
    if op == "LSTM":
        operands += [e.input("c0", np.zeros((ways, batch, hidden), np.float32))]
        y, h, c = e(op, *operands, outputs=3, hidden_size=hidden, **direction)
        e.output(c)
    else:
        y, h = e(op, *operands, outputs=2, hidden_size=hidden, linear_before_reset=1, **direction)
    y = e("Reshape", e("Transpose", y, perm=[0, 2, 1, 3]), e.ints(0, 0, -1))
    e.output(e("LogSoftmax", e.linear(y, ways * hidden, 5), axis=2))
    e.output(h)


def detector(e: Exporter) -> None:
    x = e.input("images", e.rng.standard_normal((1, 3, 8, 8)).astype(np.float32))
    x = e("LeakyRelu", e.bn(e.conv(x, 3, 8, strides=[2, 2]), 8), alpha=0.1)
    head = e.conv(x, 8, 6, kernel_shape=[1, 1], pads=[0, 0, 0, 0])
    flat = e("Transpose", e("Reshape", head, e.ints(1, 6, -1)), perm=[0, 2, 1])
    if e.opset >= 13:
        box, score = e("Split", flat, e.ints(4, 2), outputs=2, axis=2)
    else:
        box, score = e("Split", flat, outputs=2, axis=2, split=[4, 2])
    grid = e.const(np.stack(np.meshgrid(np.arange(4), np.arange(4)), -1).reshape(1, 16, 2))
    center = e("Mul",
               e("Add", e("Sigmoid", e("Slice", box, e.ints(0), e.ints(2), e.ints(2))), grid),
               e.const(2.0))
    size = e("Mul", e("Exp", e("Tanh", e("Slice", box, e.ints(2), e.ints(4), e.ints(2)))),
             e.const([[[10.0, 13.0]]]))
    boxes = e("Concat", center, size, axis=2)
    scores = e("Transpose", e("Sigmoid", score), perm=[0, 2, 1])
    chosen = e("NonMaxSuppression", boxes, scores, e.const([5], np.int64), e.const([0.5]),
               e.const([0.1]), center_point_box=1)
    index = e("Squeeze", e("Slice", chosen, e.ints(2), e.ints(3), e.ints(1)),
              *([e.ints(1)] if e.opset >= 13 else []),
              **({} if e.opset >= 13 else {"axes": [1]}))
    e.output(boxes)
    e.output(chosen, INT64, True)
    e.output(e("Gather", boxes, index, axis=1), FLOAT, True)
    top, where = e("TopK", e("ReduceMax", score, e.ints(2), keepdims=0) if e.opset >= 18 else
                   e("ReduceMax", score, axes=[2], keepdims=0), e.ints(1), outputs=2, axis=-1)
    e.output(top)
    e.output(where, INT64, True)


def audio(e: Exporter) -> None:
    x = e.input("audio", e.rng.standard_normal((1, 64)).astype(np.float32) * 0.1)
    if e.opset >= 17:
        window = e("HannWindow", e.const(16, np.int64))
        spectrum = e("STFT", e.unsqueeze(x, 2), e.const(8, np.int64), window, e.const(16, np.int64))
        power = e("ReduceSumSquare", spectrum, *([e.ints(-1)] if e.opset >= 18 else []),
                  keepdims=0, **({} if e.opset >= 18 else {"axes": [-1]}))
        size = 9
    else:
        kernels = e.const(e.rng.standard_normal((8, 1, 16)))
        power = e("Transpose", e("Abs", e("Conv", e.unsqueeze(x, 1), kernels, strides=[8])),
                  perm=[0, 2, 1])
        size = 8
    mel = e("MatMul", power, e.const(np.abs(e.rng.standard_normal((size, 4)))))
    logs = e("Log", e("Max", mel, e.const(1e-10)))
    e.output(e.linear(logs, 4, 3))


def quantized(e: Exporter) -> None:
    if e.opset < 13:
        e.opset = 13
    x = e.input("input", e.rng.standard_normal((1, 3, 6, 6)).astype(np.float32))
    scale, zero = e.const(0.02), e.const(0, np.int8)
    x = e("DequantizeLinear", e("QuantizeLinear", x, scale, zero), scale, zero)
    weight = e.const(e.rng.integers(-100, 100, (4, 3, 3, 3)), np.int8)
    w = e("DequantizeLinear", weight, e.const(np.full(4, 0.003)), e.const(np.zeros(4), np.int8),
          axis=0)
    y = e("Relu", e("Conv", x, w, e.weight(4), pads=[1, 1, 1, 1]))
    out = e.const(0.05)
    y = e("DequantizeLinear", e("QuantizeLinear", y, out, zero), out, zero)
    e.output(e.linear(e("Flatten", e("GlobalAveragePool", y), axis=1), 4, 2), FLOAT, True)


def recommender(e: Exporter) -> None:
    ids = e.input("ids", e.rng.integers(0, 9, (2, 4)))
    dense = e.input("dense", e.rng.standard_normal((2, 3)).astype(np.float32))
    emb = e("Gather", e.weight(9, 5), ids)
    if e.opset >= 13:
        pooled = e("ReduceSum", emb, e.ints(1), keepdims=0)
    else:
        pooled = e("ReduceSum", emb, axes=[1], keepdims=0)
    flags = e("Cast", e("Greater", dense, e.const(0.0)), to=FLOAT)
    x = e("Concat", pooled, dense, flags, axis=1)
    x = e("PRelu", e("Gemm", x, e.weight(11, 6), e.weight(6)), e.weight(6))
    left = e("Mul", x, e.const(np.where(e.rng.random(6) < 0.3, 1e-9, 1.0)))
    e.output(e("Sigmoid", e("Gemm", left, e.weight(6, 1), e.const([0.1]))), FLOAT, True)


def skl(e: Exporter) -> None:
    x = e.input("float_input", e.rng.standard_normal((3, 4)).astype(np.float32))
    e.nodes.append(helper.make_node("Scaler", [x], ["scaled"], domain="ai.onnx.ml",
                                    offset=[0.1] * 4, scale=[0.5] * 4))
    e.nodes.append(helper.make_node("LinearClassifier", ["scaled"], ["label", "raw"],
                                    domain="ai.onnx.ml", classlabels_ints=[0, 1],
                                    coefficients=e.rng.standard_normal(8).tolist(),
                                    intercepts=[0.1, -0.1], post_transform="SOFTMAX"))
    e.nodes.append(helper.make_node("Normalizer", ["raw"], ["probabilities"], domain="ai.onnx.ml",
                                    norm="L1"))
    e.output("label", INT64, True)
    e.output("probabilities")
    if e.rng.random() < 0.5:
        e.output(e.linear("scaled", 4, 2))


STYLES = [bert, gpt, resnet, tf_cnn, unet, lstm, detector, audio, quantized, recommender, skl]


def declare_ranks(model: onnx.ModelProto, feeds: dict[str, object]) -> None:
    """Ranks of outputs that inference knows nothing of, as they come out."""
    outputs = [v for v in model.graph.output if not v.type.tensor_type.HasField("shape")]
    if not outputs:
        return
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model).run([v.name for v in outputs], feeds)
    for value, result in zip(outputs, found):
        value.type.tensor_type.shape.SetInParent()
        for _ in range(np.asarray(result).ndim):
            value.type.tensor_type.shape.dim.add()


def build(seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    e = Exporter(rng)
    STYLES[seed % len(STYLES)](e)
    graph = helper.make_graph(e.nodes, "main_graph", e.inputs, e.outputs, e.initializers)
    opsets = [helper.make_opsetid("", e.opset)]
    if any(n.domain == "ai.onnx.ml" for n in e.nodes):
        opsets.append(helper.make_opsetid("ai.onnx.ml", 3))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_OF[e.opset],
                              producer_name="pytorch")
    inferred = onnx.shape_inference.infer_shapes(model)
    shapes = {v.name: v for v in [*inferred.graph.value_info, *inferred.graph.output]}
    for value in model.graph.output:  # exporters declare what they know
        value.CopyFrom(shapes[value.name])
    declare_ranks(model, e.feeds)
    if rng.random() < 0.4:
        model.graph.value_info.extend(inferred.graph.value_info)
    return Sample(model, e.feeds, e.jumpy)
