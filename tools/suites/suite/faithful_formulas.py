# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators in numpy, from their definitions: float64 in, float64 out.

Where the textbook form loses digits (1 - tanh, 1 + erf, log(1 + e^x)) an equal one is used that
does not, so that these are right to more than float32's last bit everywhere. STEPS are definitions
whose own float32 steps count as well: they end in a difference of rounded numbers, into which a
runtime may or may not fuse the multiplication, or an exponential of theirs overflows where the
result does not.
"""

import math
from collections.abc import Callable

import numpy as np

Function = Callable[..., np.ndarray]
F = np.float32


def attribute(value: float) -> float:
    """As a model holds it."""
    return float(F(value))


erf, erfc = (np.vectorize(f, otypes=[np.float64]) for f in (math.erf, math.erfc))
ALPHA, GAMMA = attribute(1.67326319217681884765625), attribute(1.05070102214813232421875)


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))


def shrink(x: np.ndarray) -> np.ndarray:
    return np.where(x < -0.5, x + 0.25, np.where(x > 0.5, x - 0.25, 0))


def sigmoid_steps(x: np.ndarray) -> np.ndarray:
    return F(1) / (F(1) + np.exp(-x))


def swiglu(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * sigmoid(1.5 * a) * b


# name: (opset, attributes, float32 units in the last place that evaluating the definition may be
# off, formula). Each step is good for half a unit, a transcendental function for one; 0: one step
# rounds.
UNARY: dict[str, tuple[int, dict, int, Function]] = {
    "Abs": (13, {}, 0, np.abs), "Ceil": (13, {}, 0, np.ceil), "Floor": (13, {}, 0, np.floor),
    "Neg": (13, {}, 0, np.negative), "Round": (22, {}, 0, np.rint), "Sign": (13, {}, 0, np.sign),
    "Identity": (13, {}, 0, lambda x: x), "Sqrt": (13, {}, 0, np.sqrt),
    "Reciprocal": (13, {}, 0, lambda x: 1 / x),
    "LeakyRelu": (16, {"alpha": 0.3}, 0, lambda x: np.where(x < 0, attribute(0.3) * x, x)),
    "ThresholdedRelu": (22, {"alpha": 0.5}, 0, lambda x: np.where(x > 0.5, x, 0)),
    "Shrink": (9, {"lambd": 0.5, "bias": 0.25}, 0, shrink),
    "Relu": (14, {}, 0, lambda x: np.where(np.isnan(x) | (x > 0), x, 0)),
    "Acos": (22, {}, 1, np.arccos), "Acosh": (22, {}, 1, np.arccosh),
    "Asin": (22, {}, 1, np.arcsin), "Asinh": (22, {}, 1, np.arcsinh),
    "Atan": (22, {}, 1, np.arctan), "Atanh": (22, {}, 1, np.arctanh),
    "Cos": (22, {}, 1, np.cos), "Cosh": (22, {}, 1, np.cosh), "Erf": (13, {}, 1, erf),
    "Exp": (13, {}, 1, np.exp), "Log": (13, {}, 1, np.log), "Sin": (22, {}, 1, np.sin),
    "Sinh": (22, {}, 1, np.sinh), "Tan": (22, {}, 1, np.tan), "Tanh": (13, {}, 1, np.tanh),
    "Softsign": (22, {}, 1, lambda x: np.where(np.isinf(x), np.nan, x / (1 + np.abs(x)))),
    "Sigmoid": (13, {}, 2, sigmoid), "Softplus": (22, {}, 3, softplus),
    "Mish": (22, {}, 4, lambda x: x * np.tanh(softplus(x))),
    "Elu": (22, {"alpha": 0.7}, 2, lambda x: np.where(x < 0, attribute(0.7) * np.expm1(x), x)),
    "Selu": (22, {}, 3, lambda x: GAMMA * np.where(x < 0, ALPHA * np.expm1(x), x)),
    "Celu": (28, {"alpha": 0.5}, 2, lambda x: np.where(x < 0, 0.5 * np.expm1(x / 0.5), x)),
    "Swish": (24, {"alpha": 1.5}, 3, lambda x: x * sigmoid(1.5 * x)),
    "Gelu": (20, {}, 3, lambda x: 0.5 * x * erfc(-x / math.sqrt(2))),
    "Gelu tanh": (20, {"approximate": "tanh"}, 4, gelu_tanh),
    "HardSigmoid": (22, {"alpha": 0.3, "beta": 0.6}, 1, lambda x: np.clip(
        attribute(0.3) * x + attribute(0.6), 0, 1)),
    "HardSwish": (22, {}, 1, lambda x: x * np.clip(x * attribute(1 / 6) + 0.5, 0, 1)),
}
STEPS: dict[str, Function] = {
    "HardSigmoid": lambda x: np.clip(F(0.3) * x + F(0.6), F(0), F(1)),
    "HardSwish": lambda x: x * np.clip(x * F(1 / 6) + F(0.5), F(0), F(1)),
    "Sigmoid": sigmoid_steps,
    "Swish": lambda x: x * sigmoid_steps(F(1.5) * x),
    "Gelu tanh": lambda x: F(0.5) * x * (
        F(1) + np.tanh(F(math.sqrt(2 / math.pi)) * (x + F(0.044715) * x * x * x))),
}
# Of two operands, in float32: numpy's operations round once each, as the definition's do.
PAIRS: dict[str, tuple[int, dict, Function]] = {
    "Add": (14, {}, np.add), "Sub": (14, {}, np.subtract), "Mul": (14, {}, np.multiply),
    "Div": (14, {}, np.divide), "Mod": (13, {"fmod": 1}, np.fmod), "Sum": (13, {}, np.add),
    "Mean": (13, {}, lambda a, b: (a + b) / F(2)), "Max": (13, {}, np.maximum),
    "Min": (13, {}, np.minimum), "PRelu": (16, {}, lambda a, b: np.where(a < 0, a * b, a)),
    "Equal": (13, {}, np.equal), "Less": (13, {}, np.less), "Greater": (13, {}, np.greater),
    "LessOrEqual": (16, {}, np.less_equal), "GreaterOrEqual": (16, {}, np.greater_equal),
    "Pow": (15, {}, lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64))),
    "SwiGLU": (28, {"alpha": 1.5}, lambda a, b: swiglu(a.astype(np.float64), b.astype(np.float64))),
}
PAIRS_UNITS = {"Pow": 1, "SwiGLU": 4}
PAIRS_STEPS = {"SwiGLU": lambda a, b: a * sigmoid_steps(F(1.5) * a) * b}
# Operators whose definition leaves the sign of a zero open: they pick one of two equal numbers, or
# add up what cancels.
ZEROS = {"Max", "Min", "Relu", "Clip", "MaxPool", "PRelu", "ReduceMax", "ReduceMin",
         "GlobalMaxPool", "ThresholdedRelu", "Shrink", "HardSwish", "Celu", "DFT", "STFT"}

# ---- operators that are judged on ONNX's test models ---------------------------------------------

# Those of several steps: units as above, of the result (STEPS_UNITS) or of the largest magnitude in
# the result (SCALE_UNITS: what is added up may cancel). All others must be exact.
STEPS_UNITS = {"BatchNormalization": 3, "InstanceNormalization": 4, "GroupNormalization": 4,
               "LayerNormalization": 4, "RMSNormalization": 4, "MeanVarianceNormalization": 4,
               "LpNormalization": 2, "LRN": 4, "Softmax": 4, "LogSoftmax": 4, "ReduceMean": 1,
               "ReduceLogSum": 1, "ReduceLogSumExp": 3, "AveragePool": 1, "GlobalAveragePool": 1,
               "LpPool": 2, "GlobalLpPool": 2, "Det": 4, "ReduceL2": 1, "SwiGLU": 4,
               "SoftmaxCrossEntropyLoss": 4, "NegativeLogLikelihoodLoss": 2, "Pow": 1,
               "Hardmax": 0}
SCALE_UNITS = {"Attention": 2, "LinearAttention": 2, "FlexAttention": 2, "CausalConvWithState": 2,
               "GRU": 2, "LSTM": 2, "RNN": 2, "DFT": 2, "STFT": 2, "Resize": 2, "GridSample": 2,
               "RoiAlign": 2, "DeformConv": 2, "AffineGrid": 2, "RotaryEmbedding": 1,
               "Upsample": 1}
# Where a rounded quotient is cut to a step, float32's own one is the right one.
IN_FLOAT = {"QuantizeLinear", "DequantizeLinear"}
# Their 16-bit types came after ONNX's models of them, which say the same in this opset.
RAISED = {"Compress": 28, "ReverseSequence": 28, "Unique": 28, "CumSum": 28}
MOVES = "hands tensors on as they are"
WINDOW = "reads an integer; 16 bits are only what output_datatype rounds to"
DRAWS = "draws random numbers"
# Not judged, and why.
UNJUDGED = {
    "BitCast": "reinterprets bits: nothing is widened",
    "Bernoulli": DRAWS, "Multinomial": DRAWS, "RandomNormal": DRAWS, "RandomNormalLike": DRAWS,
    "RandomUniform": DRAWS, "RandomUniformLike": DRAWS,
    "HammingWindow": WINDOW, "HannWindow": WINDOW, "BlackmanWindow": WINDOW,
    "Scan": "runs a graph, whose operators are judged",
    "SequenceMap": "runs a graph, whose operators are judged",
    "Optional": MOVES, "OptionalGetElement": MOVES, "OptionalHasElement": MOVES,
    "SequenceAt": MOVES, "SequenceConstruct": MOVES, "SequenceEmpty": MOVES,
    "SequenceErase": MOVES, "SequenceInsert": MOVES, "SequenceLength": MOVES,
    "DynamicQuantizeLSTM": "none of ONNX's: dynamic_test has it beside ONNX Runtime",
    "MatMulNBits": "none of ONNX's: weights_test has it beside ONNX Runtime",
    "Gradient": "the backward graph runs in its place: gradient_test",
}


def mvn(x: np.ndarray) -> np.ndarray:
    axes = (0, 2, 3)
    mean = x.mean(axes, keepdims=True)
    spread = np.sqrt((x ** 2).mean(axes, keepdims=True) - mean ** 2)
    return (x - mean) / (spread + 1e-9)


IMAGE = np.arange(-8, 24, dtype=np.float64).reshape(2, 1, 4, 4) / 4
ROWS = np.arange(12, dtype=np.float64).reshape(3, 4) / 2 - 3
# name, opset, attributes, inputs (float64 ones are of the 16-bit type), units, formula: what no
# model of ONNX's shows in one node.
MADE: list[tuple[str, int, dict, list[np.ndarray], int, Function]] = [
    ("Trilu", 14, {"upper": 1}, [ROWS, np.array(1)], 0, lambda x, k: np.triu(x, 1)),
    ("Trilu", 14, {"upper": 0}, [ROWS], 0, np.tril),
    ("NonZero", 13, {}, [ROWS], 0, lambda x: np.array(np.nonzero(x))),
    ("GlobalLpPool", 22, {"p": 2}, [IMAGE], 2,
     lambda x: np.sqrt((x ** 2).sum((2, 3), keepdims=True))),
    ("GlobalLpPool", 22, {"p": 1}, [IMAGE], 0, lambda x: np.abs(x).sum((2, 3), keepdims=True)),
    ("MeanVarianceNormalization", 13, {}, [IMAGE], 4, mvn),
    ("MaxRoiPool", 22, {"pooled_shape": [2, 2]},
     [IMAGE, np.array([[0, 0, 0, 3, 3], [1, 2, 0, 3, 1]], np.float64)], 0,
     lambda x, rois: np.array([x[0, 0, [1, 1, 3, 3], [1, 3, 1, 3]].reshape(1, 2, 2),
                               x[1, 0, [0, 0, 1, 1], [2, 3, 2, 3]].reshape(1, 2, 2)])),
    ("Scatter", 10, {"axis": 1}, [ROWS, np.array([[1, 0]]), np.array([[9.0, 8.0]])], 0,
     lambda x, i, u: np.concatenate([[[8.0, 9.0, -2.0, -1.5]], x[1:]])),
    ("CumProd", 26, {}, [ROWS, np.array(1)], 0, lambda x, axis: np.cumprod(x, 1)),
    ("CumSum", 14, {}, [ROWS, np.array(1)], 0, lambda x, axis: np.cumsum(x, 1)),
    ("Einsum", 28, {"equation": "ij,kj->ik"}, [ROWS, ROWS], 0, lambda x, y: x @ y.T),
    ("ConcatFromSequence", 28, {"axis": 0}, [[ROWS, -ROWS]], 0, np.concatenate),
]
