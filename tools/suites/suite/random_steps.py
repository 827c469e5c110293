# SPDX-License-Identifier: Apache-2.0
"""Single random steps of a graph under construction: one to three nodes of common operators.

Every step is a function of a Scope that adds nodes to it, in the form that the scope's opset wants;
a step that does not suit (operator too new, numbers out of range) adds nothing.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite.random_scope import Scope, Value

LOW = {"float16": TensorProto.FLOAT16, "double": TensorProto.DOUBLE}


def axis_of(s: Scope, value: Value) -> int:
    return int(s.rng.integers(-value.sample.ndim, value.sample.ndim)) if value.sample.ndim else 0


def unary(s: Scope) -> None:
    simple = ["Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Identity", "Erf", "Sin", "Cos", "Softsign",
              "Softplus", "Elu", "Selu", "LeakyRelu", "HardSigmoid", "Floor", "Sign", "Round",
              "Dropout", "ThresholdedRelu", "Atan", "Sinh", "Shrink", "Mish", "HardSwish", "Gelu",
              "Swish", "Celu"]
    s.add(simple[s.rng.integers(len(simple))], [s.pick()])


def positive(s: Scope) -> None:
    """Operators of positive numbers, kept off zero by an epsilon that float16 may lose."""
    x = s.add("Abs", [s.pick()])
    epsilon = [1e-12, 1e-5, 1e-3, 0.5][s.rng.integers(4)]
    if x and (x := s.add("Add", [x[0], s.scalar(epsilon)])):
        s.add(["Sqrt", "Log", "Reciprocal"][s.rng.integers(3)], x)


def binary(s: Scope) -> None:
    op = ["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "Div", "Add", "Mul"][s.rng.integers(10)]
    a = s.pick()
    others = [a, s.scalar(float(s.rng.choice([0.5, 2.0, 1.5, -1.0]))), s.pick(),
              s.const(np.ones(a.shape[-1:], np.float32))]
    b = others[s.rng.integers(len(others))]
    pair = [a, b] if s.rng.random() < 0.7 else [b, a]
    if op in ("Sum", "Mean", "Max", "Min") and s.rng.random() < 0.4:
        pair.append(a)
    s.add(op, pair)


def power(s: Scope) -> None:
    exponent = s.scalar(2.0)
    if s.opset >= 12 and s.rng.random() < 0.4:
        exponent = s.const(np.array(2, np.int64))
    s.add("Pow", [s.pick(), exponent])


def compare(s: Scope) -> None:
    x = s.pick()
    flag = s.add("Greater" if s.opset >= 9 else "Less", [x, s.scalar(0.1)])
    if not flag:
        return
    other = s.scalar(float(s.rng.choice([-1e9, -3.4028234663852886e38, -np.inf, 0.0, -10000.0])))
    if s.rng.random() < 0.5:
        other = s.scalar(1.0)
    node = helper.make_node("Where", [flag[0].name, x.name, other.name],
                            s.outputs(x.name, 1))
    if s.opset < 9:
        return
    if other.sample == 1.0:
        s.add("Where", [flag[0], x, other])
        return
    with np.errstate(all="ignore"):  # a mask: harmless only below Softmax
        masked = s.record(node, [np.where(flag[0].sample, x.sample, other.sample)], False)
        if x.sample.ndim and s.opset >= 13:
            s.add("Softmax", masked, axis=-1)
    s.values.remove(masked[0])


def attention_mask(s: Scope) -> None:
    """softmax(q kᵀ · scale + mask) v with the mask as exporters write it."""
    q = s.pick(2)
    low = float(s.rng.choice([-1e9, -3.4028234663852886e38, -10000.0, -65504.0, -np.inf]))
    k = s.add("Transpose", [q], perm=[1, 0])
    scores = s.add("MatMul", [q, k[0]]) if k else []
    if not scores:
        return
    rows = q.shape[0]
    mask = np.triu(np.full((rows, rows), low, np.float32), 1)
    mask[~np.isfinite(mask) & (np.arange(rows)[:, None] >= np.arange(rows))] = 0
    mask = np.nan_to_num(mask, nan=0.0, neginf=-np.inf)
    m = s.const(mask)
    node = helper.make_node("Add", [scores[0].name, m.name], s.outputs(q.name, 1))
    with np.errstate(all="ignore"):
        total = s.record(node, [scores[0].sample + mask], q.exact)
    p = s.add("Softmax", total, axis=-1 if s.opset >= 13 else 1)
    s.values.remove(total[0])
    if p:
        s.add("MatMul", [p[0], q])


def matmul(s: Scope) -> None:
    x = s.pick(int(s.rng.integers(2, 4)))
    size = int(s.rng.integers(1, 6))
    y = s.add("MatMul", [x, s.weight(x.shape[-1], size)])
    if y and s.rng.random() < 0.7:
        s.add("Add", [y[0], s.weight(size)])


def gemm(s: Scope) -> None:
    x, size = s.pick(2), int(s.rng.integers(1, 6))
    operands: list[Value | None] = [x, s.weight(size, x.shape[1])]
    if s.opset < 11 or s.rng.random() < 0.6:
        operands.append(s.weight(size))
    elif s.rng.random() < 0.3:
        operands.append(None)
    s.add("Gemm", operands, transB=1, alpha=float(s.rng.choice([1.0, 0.5])))


def einsum(s: Scope) -> None:
    x = s.pick(2)
    if s.opset >= 12:
        s.add("Einsum", [x, x], equation="ij,kj->ik")


def to_image(s: Scope) -> Value:
    found = [v for v in s.visible() if v.floats and v.sample.ndim == 4 and v.sample.size]
    if found and s.rng.random() < 0.8:
        return found[s.rng.integers(len(found))]
    x = s.pick()
    shape = s.ints(1, 1, 1, -1) if x.sample.size else s.ints(1, 1, 1, 1)
    y = s.add("Reshape", [x, shape]) if s.opset >= 5 else []
    return y[0] if y else s.const(s.rng.standard_normal((1, 2, 4, 4)).astype(np.float32))


def conv(s: Scope) -> None:
    x, size = to_image(s), int(s.rng.integers(1, 5))
    bias = [s.weight(size)] if s.rng.random() < 0.6 else []
    if s.rng.random() < 0.7:
        y = s.add("Conv", [x, s.weight(size, x.shape[1], 3, 3), *bias], pads=[1, 1, 1, 1])
    else:
        y = s.add("ConvTranspose", [x, s.weight(x.shape[1], size, 2, 2), *bias], strides=[2, 2])
    if y and s.rng.random() < 0.5:
        batch_norm(s, y[0])


def batch_norm(s: Scope, x: Value | None = None) -> None:
    x = x or to_image(s)
    size = x.shape[1]
    var = np.abs(s.rng.standard_normal(size)).astype(np.float32) + 0.5
    if s.rng.random() < 0.15:
        var[0] = 9.8e7
    if s.opset >= 9:
        s.add("BatchNormalization", [x, s.weight(size), s.weight(size), s.weight(size),
                                     s.const(var)])


def pool(s: Scope) -> None:
    x = to_image(s)
    op = ["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LRN", "LpPool",
          "InstanceNormalization"][s.rng.integers(7)]
    if op in ("MaxPool", "AveragePool", "LpPool"):
        s.add(op, [x], kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    elif op == "InstanceNormalization":
        s.add(op, [x, s.weight(x.shape[1]), s.weight(x.shape[1])])
    elif op == "LRN":
        s.add(op, [x], size=3)
    else:
        s.add(op, [x])


def resize(s: Scope) -> None:
    x = to_image(s)
    scales = s.const(np.array([1, 1, 2, 2], np.float32))
    mode = ["nearest", "linear"][s.rng.integers(2)]
    if s.opset < 10:
        s.add("Upsample", [x, scales], mode=mode)
    elif s.opset == 10:
        s.add("Resize", [x, scales], mode=mode)
    else:
        empty = s.const(np.zeros(0, np.float32))
        roi = None if s.opset >= 13 and s.rng.random() < 0.5 else empty
        if s.rng.random() < 0.5:
            s.add("Resize", [x, roi, scales], mode=mode)
        else:
            sizes = s.ints(x.shape[0], x.shape[1], 2 * x.shape[2], x.shape[3] + 1)
            s.add("Resize", [x, roi, None if s.opset >= 13 else empty, sizes], mode=mode)


def pad(s: Scope) -> None:
    x = s.pick(2)
    if s.opset < 11:
        s.add("Pad", [x], pads=[0, 1, 1, 0], value=0.5)
    else:
        value = [s.scalar(float(s.rng.choice([0.0, -1.0])))] if s.rng.random() < 0.6 else []
        s.add("Pad", [x, s.ints(0, 1, 1, 0), *value])


def clip(s: Scope) -> None:
    x = s.pick()
    if s.opset < 11:
        s.add("Clip", [x], min=0.0, max=6.0)
        return
    low = s.scalar(-1.0) if s.rng.random() < 0.6 else None
    high = [s.scalar(float(s.rng.choice([6.0, 3.4028234663852886e38, 1e5])))]
    s.add("Clip", [x, low, *(high if s.rng.random() < 0.6 or low is None else [])])


def moved(s: Scope) -> None:
    """Data movement by shape operands."""
    x = s.pick()
    ndim = x.sample.ndim
    if ndim == 0:
        s.add("Reshape", [x, s.ints(1)])
        return
    ways = [lambda: s.add("Transpose", [x], perm=s.rng.permutation(ndim).tolist()),
            lambda: s.add("Reshape", [x, s.ints(-1)]),
            lambda: s.add("Flatten", [x], axis=1),
            lambda: s.add("Concat", [x, s.pick(), x][::2], axis=axis_of(s, x)),
            lambda: s.add("Tile", [x, s.ints(*[2] + [1] * (ndim - 1))]),
            lambda: s.add("Expand", [x, s.ints(2, *x.shape)]),
            lambda: s.add("Gather", [x, s.ints(0, 0)], axis=axis_of(s, x)),
            lambda: s.add("Slice", [x, s.ints(0), s.ints(1), s.ints(0)]) if s.opset >= 10 else
            s.add("Slice", [x], starts=[0], ends=[1], axes=[0]),
            lambda: unsqueeze(s, x, 0)]
    ways[s.rng.integers(len(ways))]()


def unsqueeze(s: Scope, x: Value, axis: int) -> list[Value]:
    if s.opset >= 13:
        return s.add("Unsqueeze", [x, s.ints(axis)])
    return s.add("Unsqueeze", [x], axes=[axis])


def split(s: Scope) -> None:
    x = s.pick(2)
    if x.shape[1] < 2:
        return
    first = int(s.rng.integers(1, x.shape[1]))
    sizes = [first, x.shape[1] - first]
    if s.opset >= 13:
        s.add("Split", [x, s.ints(*sizes)], 2, axis=1)
    else:
        s.add("Split", [x], 2, axis=1, split=sizes)


def reduce(s: Scope) -> None:
    x = s.pick(int(s.rng.integers(1, 4)))
    op = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceMin", "ArgMax"][
        s.rng.integers(6)]
    keep = int(s.rng.integers(2))
    if op == "ArgMax":
        s.add(op, [x], axis=-1, keepdims=keep)
    elif s.opset >= (13 if op == "ReduceSum" else 18):
        s.add(op, [x, s.ints(-1)] if s.rng.random() < 0.7 else [x], keepdims=keep)
    else:
        s.add(op, [x], axes=[x.sample.ndim - 1], keepdims=keep)


def layer_norm(s: Scope) -> None:
    """Decomposed or as the operator, some with its float outputs used."""
    x = s.pick(int(s.rng.integers(2, 4)))
    scale, bias = s.weight(x.shape[-1]), s.weight(x.shape[-1])
    if s.opset >= 17 and s.rng.random() < 0.6:
        count = int(s.rng.integers(1, 4))
        s.add("LayerNormalization", [x, scale, bias][:2 + int(s.rng.integers(2))], count)
        return
    if s.opset >= 23 and s.rng.random() < 0.5:
        s.add("RMSNormalization", [x, scale])
        return
    axes = {} if s.opset >= 18 else {"axes": [-1] if s.opset >= 11 else [x.sample.ndim - 1]}
    more = [s.ints(-1)] if s.opset >= 18 else []
    centered = (m := s.add("ReduceMean", [x, *more], **axes)) and s.add("Sub", [x, m[0]])
    square = centered and s.add("Pow", [centered[0], s.scalar(2.0)])
    var = square and s.add("ReduceMean", [square[0], *more], **axes)
    root = var and (e := s.add("Add", [var[0], s.scalar(1e-12)])) and s.add("Sqrt", e)
    if root and (y := s.add("Div", [centered[0], root[0]])):
        s.add("Mul", [y[0], scale])


def casts(s: Scope) -> None:
    """Islands in other types, and integers that come from and go to floats."""
    x = s.pick()
    way = s.rng.integers(4)
    if way < 2:
        to = list(LOW.values())[way]
        y = s.add("Cast", [x], to=to)
        if y and s.rng.random() < 0.7:
            y = s.add("Mul", [y[0], y[0]]) or y
        if y:
            s.add("Cast", y, to=TensorProto.FLOAT)
    elif way == 2:
        y = s.add("Cast", [x], to=int(s.rng.choice([TensorProto.INT64, TensorProto.INT32,
                                                     TensorProto.BOOL])))
        if y:
            s.add("Cast", y, to=TensorProto.FLOAT)
    elif s.opset >= 15:
        s.add("CastLike", [s.pick(), x])


def shapes(s: Scope) -> None:
    """Shape arithmetic, and constants of computed shape in the default type."""
    x = s.pick()
    shape = s.add("Shape", [x])
    if not shape or s.opset < 9:
        return
    way = s.rng.integers(3)
    if way == 0:
        filled = s.add("ConstantOfShape", shape)
        more = filled and s.add("Add", [filled[0], x])
    elif way == 1:
        more = s.add("ConstantOfShape", shape,
                     value=helper.make_tensor("", TensorProto.FLOAT, [1], [0.5]))
    else:
        more = s.add("Reshape", [x, shape[0]])
    if more and x.sample.ndim == 2 and s.rng.random() < 0.4:
        s.add("EyeLike", [more[0]])


def quantized(s: Scope) -> None:
    """A quantize/dequantize pair, with or without a zero point, feeding a product."""
    x = s.pick(2)
    if s.opset < 10:
        return
    scale, zero = s.scalar(0.05), s.const(np.array(3, np.int8))
    more = [zero] if s.rng.random() < 0.7 else []
    q = s.add("QuantizeLinear", [x, scale, *more])
    d = q and s.add("DequantizeLinear", [q[0], scale, *more])
    if not d:
        return
    weight = s.const(s.rng.integers(-20, 20, (x.shape[1], 3)).astype(np.int8))
    w = s.add("DequantizeLinear", [weight, s.scalar(0.02), s.const(np.array(0, np.int8))])
    if w:
        s.add("MatMul", [d[0], w[0]])


def recurrent(s: Scope) -> None:
    x = s.pick(3)
    if s.opset < 7 or x.sample.size > 60:
        return
    op, gates = [("LSTM", 4), ("GRU", 3), ("RNN", 1)][s.rng.integers(3)]
    hidden, seq, batch = 3, x.shape[0], x.shape[1]
    operands = [x, s.weight(1, gates * hidden, x.shape[2]), s.weight(1, gates * hidden, hidden)]
    bias = s.weight(1, 2 * gates * hidden) if s.rng.random() < 0.6 else None
    lens = s.const(np.full(batch, seq, np.int32)) if s.rng.random() < 0.3 else None
    state = s.weight(1, batch, hidden) if s.rng.random() < 0.5 else None
    operands += [bias, lens, state]
    if op == "LSTM" and s.rng.random() < 0.5:
        operands.append(s.weight(1, batch, hidden))
        if s.rng.random() < 0.5:
            operands.append(s.weight(1, 3 * hidden))
    while operands[-1] is None:
        operands.pop()
    s.add(op, operands, int(s.rng.integers(1, 4 if op == "LSTM" else 3)), hidden_size=hidden)


def picked(s: Scope) -> None:
    """Operators that choose by data: TopK, scatter, gather, one-hot, accumulate."""
    x = s.pick(2)
    way = s.rng.integers(6)
    if way == 0 and s.opset >= 10:
        s.add("TopK", [x, s.ints(1)], 2)
    elif way == 1 and s.opset >= 11:
        s.add("ScatterND", [x, s.const(np.array([[0]])), s.const(np.ones((1, x.shape[1]),
                                                                         np.float32))])
    elif way == 2 and s.opset >= 11:
        s.add("GatherND", [x, s.const(np.array([[0, 0]]))])
    elif way == 3 and s.opset >= 11:
        s.add("CumSum", [x, s.const(np.array(0, np.int64))])
    elif way == 4 and s.opset >= 9:
        s.add("OneHot", [s.ints(0, 1, 2), s.const(np.array(4, np.int64)),
                         s.const(np.array([0.0, 1.0], np.float32))])
    elif s.opset >= 13:
        axis = s.const(np.array([[0] * x.shape[1]]))
        reduction = {"reduction": "add"} if s.opset >= 16 and s.rng.random() < 0.5 else {}
        s.add("ScatterElements", [x, axis, s.const(np.full((1, x.shape[1]), 0.5, np.float32))],
              **reduction)


def newer(s: Scope) -> None:
    """Operators of recent opsets with several type variables."""
    x = s.pick(4)
    if s.opset >= 23 and s.rng.random() < 0.6:
        operands: list[Value | None] = [x, x, x]
        if s.rng.random() < 0.5:
            seq = x.shape[2]
            mask = np.zeros((seq, seq), np.float32)
            operands.append(s.const(np.triu(mask - 1e9, 1).astype(np.float32)))
        s.add("Attention", operands)
    elif s.opset >= 21:
        s.add("GroupNormalization", [x, s.weight(x.shape[1]), s.weight(x.shape[1])], num_groups=1)
    elif s.opset >= 16:
        grid = s.const(np.clip(s.rng.standard_normal((x.shape[0], 2, 2, 2)) / 3, -1, 1).astype(
            np.float32))
        s.add("GridSample", [x, grid])


def extremes(s: Scope) -> None:
    """Empty tensors and scalars."""
    x = s.pick()
    if s.opset >= 13 and x.sample.ndim:
        if s.rng.random() < 0.5:
            empty = s.add("Slice", [x, s.ints(0), s.ints(0), s.ints(0)])
            if empty:
                s.add("Concat", [empty[0], x], axis=0)
        else:
            one = s.add("ReduceSum", [x], keepdims=0)
            if one:
                s.add("Mul", [one[0], x])


STEPS = [unary, unary, positive, binary, binary, power, compare, attention_mask, matmul, matmul,
         gemm, einsum, conv, conv, batch_norm, pool, resize, pad, clip, moved, moved, split, reduce,
         layer_norm, casts, casts, shapes, quantized, recurrent, picked, newer, extremes]


def step(s: Scope) -> None:
    STEPS[s.rng.integers(len(STEPS))](s)
