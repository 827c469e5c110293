# SPDX-License-Identifier: Apache-2.0
"""Nodes whose gradients gradient_test.py holds against differences, by operator.

Each maker gives cases of one operator from a seeded generator: operands as arrays (floats as double,
which the test narrows), attributes, and how the node is called. Values keep away from kinks, where
there is no derivative to be compared with.
"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from . import unary_functions

Rng = np.random.Generator


@dataclasses.dataclass
class Case:
    op: str
    inputs: list  # arrays; None: omitted
    attrs: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    wants: tuple | None = None  # places of the operands to differentiate; None: all that hold floats
    read: tuple | None = None  # outputs that y is made of; None: all of floats
    bare: bool = False  # outputs that y is not made of are omitted
    opset: int = 21
    open_dims: bool | tuple = False  # dims of operands, or of those at these places, are not known
    open_from: int = 0  # the first such dim
    open_to: int = 9  # the first behind them
    constants: tuple = ()  # places of operands that are initializers
    title: str = ""

    def dims(self, place: int) -> list:
        """What is known of an operand's shape."""
        which = self.open_dims
        is_open = which if isinstance(which, bool) else place in which
        return [f"x{place}_{i}" if is_open and self.open_from <= i < self.open_to else size
                for i, size in enumerate(self.inputs[place].shape)]

    def places(self) -> list[int]:
        if self.wants is not None:
            return list(self.wants)
        return [i for i, v in enumerate(self.inputs)
                if v is not None and v.dtype == np.float64 and i not in self.constants]


MAKERS: dict[str, Callable[[Rng], Iterator[Case]]] = {}


def maker(*ops: str) -> Callable:
    def add(function: Callable) -> Callable:
        for op in ops:
            MAKERS[op] = function
        return function
    return add


def away(rng: Rng, shape: tuple, points: tuple = (0.0,), scale: float = 1.5) -> np.ndarray:
    """Normal values that are not within 0.05 of any of these points."""
    values = rng.standard_normal(shape) * scale
    for point in points:
        near = np.abs(values - point) < 0.05
        values = np.where(near, values + 0.11, values)
    return np.asarray(values)


def between(rng: Rng, low: float, high: float, shape: tuple) -> np.ndarray:
    return np.asarray(rng.uniform(low, high, shape))


def ints(*items: int) -> np.ndarray:
    return np.array(items, dtype=np.int64)


# ---- elementwise -------------------------------------------------------------------------------

UNARY = {
    "Abs": (0.0,), "Asinh": (), "Atan": (), "Cos": (), "Erf": (), "Exp": (), "Identity": (),
    "Neg": (), "Relu": (0.0,), "Selu": (0.0,), "Sigmoid": (), "Sin": (), "Sinh": (), "Cosh": (),
    "Softplus": (), "Softsign": (0.0,), "Tanh": (), "Mish": (), "HardSwish": (-3.0, 3.0),
    "Celu": (0.0,), "Elu": (0.0,), "LeakyRelu": (0.0,),
    "HardSigmoid": (-2.5, 2.5), "ThresholdedRelu": (1.0,), "Shrink": (-0.5, 0.5),
    "Swish": (), "Gelu": (),
}
UNARY |= {op: () for op in unary_functions.operators() if op not in UNARY}
LIMITED = {"Acos": (-0.9, 0.9), "Acosh": (1.2, 3.0), "Asin": (-0.9, 0.9), "Atanh": (-0.9, 0.9),
           "Log": (0.2, 3.0), "Reciprocal": (0.3, 2.0), "Sqrt": (0.2, 3.0), "Tan": (-1.2, 1.2)}
NUMBERS = {"Celu": {"alpha": 1.3}, "Elu": {"alpha": 0.7}, "LeakyRelu": {"alpha": 0.2},
           "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "ThresholdedRelu": {"alpha": 0.6},
           "Shrink": {"lambd": 0.7, "bias": 0.3}, "Selu": {"alpha": 1.1, "gamma": 1.2},
           "Swish": {"alpha": 1.4}, "Gelu": {"approximate": "tanh"}}
OPSETS = {"Swish": 24, "Celu": 28}


def unary(op: str) -> Callable:
    def make(rng: Rng) -> Iterator[Case]:
        points = UNARY.get(op, ())
        if op == "HardSigmoid":
            points = (-2.5, 2.5, -4 / 3, 2.0)
        if op in ("ThresholdedRelu", "Shrink"):
            points = (*points, 0.6, 0.7, -0.7, 1.0)
        for attrs in ({}, NUMBERS.get(op)):
            if attrs is None:
                continue
            shape = tuple(rng.integers(1, 4, rng.integers(0, 4)))
            x = between(rng, *LIMITED[op], shape) if op in LIMITED else away(rng, shape, points, 2)
            yield Case(op, [x], attrs, opset=OPSETS.get(op, 21))
    return make


for name in (*UNARY, *LIMITED):
    MAKERS[name] = unary(name)

PAIRS = [((2, 3), (2, 3)), ((2, 3), (3,)), ((4,), (2, 3, 4)), ((2, 1, 3), (1, 4, 1)), ((), (2, 2)),
         ((1,), (3, 1)), ((2, 3), ())]


def binary(op: str) -> Callable:
    def make(rng: Rng) -> Iterator[Case]:
        for i, (a, b) in enumerate(PAIRS):
            x, y = away(rng, a), away(rng, b, (0.0, 0.2, -0.2))
            attrs = {}
            if op == "Div":
                y = np.sign(y) * (np.abs(y) + 0.3)
            if op == "Pow":
                x = between(rng, 0.3, 2, a)
            if op == "Mod":
                x, y, attrs = between(rng, 3.2, 3.8, a), between(rng, 1.1, 1.4, b), {"fmod": 1}
            if op == "PRelu":
                if np.broadcast_shapes(a, b) != a:
                    continue
            yield Case(op, [x, y], attrs, open_dims=i % 2 == 1)
    return make


for name in ("Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu"):
    MAKERS[name] = binary(name)


def many(op: str) -> Callable:
    def make(rng: Rng) -> Iterator[Case]:
        yield Case(op, [away(rng, (2, 3)), away(rng, (3,)), away(rng, (2, 1))])
        yield Case(op, [away(rng, (2, 3))])
        yield Case(op, [away(rng, (2, 3)), away(rng, (1, 3))], open_dims=True)
    return make


for name in ("Max", "Min", "Sum", "Mean"):
    MAKERS[name] = many(name)


@maker("Clip")
def clip(rng: Rng) -> Iterator[Case]:
    x = away(rng, (3, 4), (-0.6, 0.9), 1.2)
    yield Case("Clip", [x, np.array(-0.6), np.array(0.9)])
    yield Case("Clip", [x, None, np.array(0.9)])
    yield Case("Clip", [x, np.array(-0.6)], opset=12)
    yield Case("Clip", [x])


@maker("Where")
def where(rng: Rng) -> Iterator[Case]:
    for shapes in (((2, 3), (2, 3), (2, 3)), ((2, 1), (3,), ()), ((), (2, 3), (2, 1))):
        yield Case("Where", [rng.integers(0, 2, shapes[0]).astype(bool), away(rng, shapes[1]),
                             away(rng, shapes[2])])


@maker("Dropout")
def dropout(rng: Rng) -> Iterator[Case]:
    yield Case("Dropout", [away(rng, (2, 3))])
    yield Case("Dropout", [away(rng, (2, 3)), np.array(0.3)], outputs=2, wants=(0,), read=(0,))


# ---- products ----------------------------------------------------------------------------------

@maker("MatMul")
def matmul(rng: Rng) -> Iterator[Case]:
    for i, (a, b) in enumerate((((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)),
                                ((2, 2, 3), (3, 4)), ((2, 3), (5, 3, 2)), ((2, 1, 2, 3), (3, 3, 4)),
                                ((3,), (2, 3, 4)), ((2, 2, 3), (3,)))):
        yield Case("MatMul", [away(rng, a), away(rng, b)])
        yield Case("MatMul", [away(rng, a), away(rng, b)], open_dims=True)
        if i == 0:
            yield Case("MatMul", [away(rng, a), away(rng, b)], opset=9)


@maker("Gemm")
def gemm(rng: Rng) -> Iterator[Case]:
    for ta in (0, 1):
        for tb in (0, 1):
            a, b = away(rng, (3, 2) if ta else (2, 3)), away(rng, (4, 3) if tb else (3, 4))
            c = [None, away(rng, (4,)), away(rng, (2, 1)), away(rng, ())][2 * ta + tb]
            attrs = {"transA": ta, "transB": tb, "alpha": 0.7, "beta": 1.3}
            yield Case("Gemm", [a, b] if c is None else [a, b, c], attrs)


@maker("Einsum")
def einsum(rng: Rng) -> Iterator[Case]:
    for text, shapes in (("ij,jk->ik", ((2, 3), (3, 4))), ("bij,bjk->bik", ((2, 2, 3), (2, 3, 2))),
                         ("ij->i", ((2, 3),)), ("ij,kl->il", ((2, 3), (2, 3))), ("ij->ji", ((2, 3),)),
                         ("ij,jk", ((2, 3), (3, 4))), ("i,j,k->kij", ((2,), (3,), (2,))),
                         ("bhqd,bhkd->bhqk", ((1, 2, 3, 2), (1, 2, 4, 2))), ("ij->", ((2, 3),))):
        yield Case("Einsum", [away(rng, s) for s in shapes], {"equation": text})


# ---- reductions --------------------------------------------------------------------------------

def reduction(op: str) -> Callable:
    def make(rng: Rng) -> Iterator[Case]:
        def x(shape: tuple = (2, 3, 4)) -> np.ndarray:
            if op in ("ReduceLogSum", "ReduceProd"):
                return between(rng, 0.4, 1.6, shape)
            return away(rng, shape)
        for keep in (0, 1):
            for axes in ([1], [0, -1]):
                yield Case(op, [x(), ints(*axes)], {"keepdims": keep}, constants=(1,))
                if op != "ReduceSum":
                    yield Case(op, [x()], {"keepdims": keep, "axes": axes}, opset=13)
            yield Case(op, [x()], {"keepdims": keep})
        yield Case(op, [x(), ints(1)], {"keepdims": 0}, open_dims=True)
        yield Case(op, [x()], {"noop_with_empty_axes": 1})
        if op in ("ReduceL1", "ReduceL2"):  # of zeros it is the middle of what it is beside them
            yield Case(op, [x((3, 4)) * [[0], [1], [0]], ints(1)], {"keepdims": 0})
    return make


for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
             "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"):
    MAKERS[name] = reduction(name)


@maker("CumSum")
def cumsum(rng: Rng) -> Iterator[Case]:
    for exclusive in (0, 1):
        for reverse in (0, 1):
            yield Case("CumSum", [away(rng, (3, 4)), np.array(1, dtype=np.int64)],
                       {"exclusive": exclusive, "reverse": reverse})


def softmax(op: str) -> Callable:
    def make(rng: Rng) -> Iterator[Case]:
        for axis in (-1, 0, 1):
            yield Case(op, [away(rng, (2, 3, 4))], {"axis": axis})
        yield Case(op, [away(rng, (2, 5))], open_dims=True)
    return make


MAKERS["Softmax"] = softmax("Softmax")
MAKERS["LogSoftmax"] = softmax("LogSoftmax")


@maker("LpNormalization")
def lp_normalization(rng: Rng) -> Iterator[Case]:
    for p in (1, 2):
        # the reference evaluator's 1-norm adds up the numbers themselves
        sign = np.abs if p == 1 else np.array
        yield Case("LpNormalization", [sign(away(rng, (2, 3)))], {"axis": -1, "p": p})
        yield Case("LpNormalization", [sign(away(rng, (2, 3, 2)))], {"axis": 1, "p": p})


# ---- movement ----------------------------------------------------------------------------------

@maker("Transpose")
def transpose(rng: Rng) -> Iterator[Case]:
    yield Case("Transpose", [away(rng, (2, 3, 4))], {"perm": [1, 2, 0]})
    yield Case("Transpose", [away(rng, (2, 3, 4))])


@maker("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile")
def reshape(rng: Rng) -> Iterator[Case]:
    for open_dims in (False, True):
        yield Case("Reshape", [away(rng, (2, 6)), ints(3, -1)], open_dims=open_dims)
        yield Case("Flatten", [away(rng, (2, 3, 2))], {"axis": 2}, open_dims=open_dims)
        yield Case("Squeeze", [away(rng, (2, 1, 3, 1)), ints(1)], open_dims=open_dims)
        yield Case("Unsqueeze", [away(rng, (2, 3)), ints(0, -1)], open_dims=open_dims)
        yield Case("Expand", [away(rng, (3, 1)), ints(2, 1, 4)], open_dims=open_dims,
                   constants=(1,))
        yield Case("Expand", [away(rng, (3, 1)), ints(2, 1, 4)], open_dims=open_dims)
        yield Case("Tile", [away(rng, (2, 3)), ints(2, 3)], open_dims=open_dims)


@maker("Concat", "Split")
def concat(rng: Rng) -> Iterator[Case]:
    parts = [away(rng, (2, 3)), away(rng, (2, 1)), away(rng, (2, 2))]
    yield Case("Concat", parts, {"axis": 1})
    yield Case("Concat", parts, {"axis": -1}, wants=(0, 2))
    yield Case("Concat", parts, {"axis": 1}, open_dims=True)
    yield Case("Concat", parts[:1], {"axis": 0})
    yield Case("Split", [away(rng, (2, 6)), ints(1, 2, 3)], {"axis": 1}, outputs=3)
    yield Case("Split", [away(rng, (2, 6)), ints(1, 2, 3)], {"axis": 1}, outputs=3, read=(0, 2))
    yield Case("Split", [away(rng, (4, 3))], {"num_outputs": 2}, outputs=2)


@maker("Slice", "Compress", "ReverseSequence", "Trilu")
def slices(rng: Rng) -> Iterator[Case]:
    x = away(rng, (4, 5))
    yield Case("Slice", [x, ints(1), ints(4), ints(1)])
    yield Case("Slice", [x, ints(-1, 0), ints(-9, 5), ints(0, 1), ints(-2, 2)])
    yield Case("Slice", [x, ints(1, 1), ints(3, 2)], open_dims=True)
    yield Case("Compress", [x, np.array([True, False, True])], {"axis": 0})
    yield Case("Compress", [x, np.array([True, False, True, True])])
    yield Case("ReverseSequence", [x, ints(1, 3, 2, 4, 1)])
    yield Case("ReverseSequence", [x, ints(1, 3, 5, 2)], {"batch_axis": 0, "time_axis": 1})
    yield Case("Trilu", [x])
    yield Case("Trilu", [x, np.array(1, dtype=np.int64)], {"upper": 0})


@maker("Pad")
def pad(rng: Rng) -> Iterator[Case]:
    x = away(rng, (3, 4))
    yield Case("Pad", [x, ints(1, 0, 2, 1)])
    yield Case("Pad", [x, ints(1, 0, 2, 1), np.array(0.7)])
    yield Case("Pad", [x, ints(2, 1), None, ints(1)], constants=(1, 3))
    yield Case("Pad", [x, ints(1, 0, 2, 1), np.array(0.7)], constants=(1,), opset=16)
    for mode in ("reflect", "edge", "wrap"):
        yield Case("Pad", [x, ints(1, 2, 2, 1)], {"mode": mode})


@maker("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "TopK")
def gathers(rng: Rng) -> Iterator[Case]:
    x = away(rng, (4, 3))
    yield Case("Gather", [x, ints(1, 1, -1)])
    yield Case("Gather", [x, np.array(2, dtype=np.int64)], open_dims=True)
    yield Case("Gather", [x, np.array([[0, 2], [2, 2]], dtype=np.int64)], {"axis": 1})
    yield Case("GatherElements", [x, np.array([[0, 1, 1], [3, 1, -2]], dtype=np.int64)])
    yield Case("GatherElements", [x, np.array([[0, 2], [1, 1], [0, 0], [2, 0]], dtype=np.int64)],
               {"axis": 1})
    yield Case("GatherND", [x, np.array([[0, 1], [3, 2], [0, 1]], dtype=np.int64)])
    yield Case("GatherND", [x, np.array([[2], [2]], dtype=np.int64)])
    yield Case("GatherND", [away(rng, (2, 3, 2)), np.array([[1], [2]], dtype=np.int64)],
               {"batch_dims": 1})
    places = np.array([[0, 1, 2], [3, 2, 1]], dtype=np.int64)
    yield Case("ScatterElements", [x, places, away(rng, (2, 3))])
    yield Case("ScatterElements", [x, np.array([[0, 2], [1, 1], [2, 0], [0, 0]]), away(rng, (4, 2))],
               {"axis": 1, "reduction": "add"})
    yield Case("ScatterND", [x, np.array([[1], [3]], dtype=np.int64), away(rng, (2, 3))])
    yield Case("ScatterND", [x, np.array([[1, 1], [1, 1]], dtype=np.int64), away(rng, (2,))],
               {"reduction": "add"})
    yield Case("TopK", [rng.permutation(12).reshape(3, 4) * 0.3, ints(2)], outputs=2)
    yield Case("TopK", [rng.permutation(12).reshape(3, 4) * 0.3, ints(2)],
               {"axis": 0, "largest": 0}, outputs=2)


@maker("DepthToSpace", "SpaceToDepth")
def blocks(rng: Rng) -> Iterator[Case]:
    for mode in ("DCR", "CRD"):
        yield Case("DepthToSpace", [away(rng, (2, 8, 2, 1))], {"blocksize": 2, "mode": mode})
        yield Case("DepthToSpace", [away(rng, (2, 8, 2, 3))], {"blocksize": 2, "mode": mode},
                   open_dims=True, open_from=2)
    yield Case("SpaceToDepth", [away(rng, (2, 1, 4, 2))], {"blocksize": 2})


# ---- windows -----------------------------------------------------------------------------------

WINDOWS = [  # spatial sizes, kernel, attributes
    ((5,), (3,), {}),
    ((7,), (3,), {"strides": [2], "pads": [1, 0]}),
    ((6,), (3,), {"strides": [2]}),
    ((9,), (2,), {"strides": [3], "dilations": [2], "pads": [0, 1]}),
    ((5, 4), (3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((6, 5), (2, 3), {"strides": [3, 2], "dilations": [2, 1]}),
    ((5, 6), (3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((5, 6), (2, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    ((3, 4, 3), (2, 2, 2), {"pads": [1, 0, 0, 0, 1, 0]}),
]


@maker("Conv")
def conv(rng: Rng) -> Iterator[Case]:
    for i, (sizes, kernel, attrs) in enumerate(WINDOWS):
        group = (1, 2)[i % 2]
        x, w = away(rng, (2, 4, *sizes)), away(rng, (4, 4 // group, *kernel))
        bias = [away(rng, (4,))] if i % 3 else []
        yield Case("Conv", [x, w, *bias], {**attrs, "group": group})
    for i, (sizes, kernel, attrs) in enumerate(WINDOWS):
        group = (2, 1)[i % 2]
        x, w = away(rng, (2, 4, *sizes)), away(rng, (4, 4 // group, *kernel))
        yield Case("Conv", [x, w, away(rng, (4,))], {**attrs, "group": group}, open_dims=True,
                   constants=(1,))
        yield Case("Conv", [x, w], {**attrs, "group": group}, open_dims=(0,))
    yield Case("Conv", [away(rng, (2, 3, 4, 4)), away(rng, (6, 1, 3, 3))], {"group": 3})
    yield Case("Conv", [away(rng, (1, 2, 4)), away(rng, (3, 2, 1))], opset=9)


@maker("ConvTranspose")
def conv_transpose(rng: Rng) -> Iterator[Case]:
    for i, (sizes, kernel, attrs) in enumerate(WINDOWS):
        group = (2, 1)[i % 2]
        x, w = away(rng, (2, 4, *sizes)), away(rng, (4, 3, *kernel))
        if "auto_pad" in attrs or len(sizes) > 2:
            continue
        bias = [away(rng, (3 * group,))] if i % 3 else []
        yield Case("ConvTranspose", [x, w, *bias], {**attrs, "group": group})
        yield Case("ConvTranspose", [x, w], {**attrs, "group": group}, open_dims=(0,))
    x, w = away(rng, (1, 2, 3, 3)), away(rng, (2, 2, 3, 2))
    for open_dims in ((), (0,)):
        yield Case("ConvTranspose", [x, w], {"strides": [2, 2], "output_padding": [1, 1]},
                   open_dims=open_dims)
        yield Case("ConvTranspose", [x, w], {"strides": [2, 3], "output_padding": [1, 2],
                                             "pads": [1, 0, 1, 1]}, open_dims=open_dims)


@maker("AveragePool", "MaxPool", "LpPool")
def pools(rng: Rng) -> Iterator[Case]:
    for sizes, kernel, attrs in WINDOWS:
        count = int(np.prod((2, 2, *sizes)))
        x = rng.permutation(count).reshape(2, 2, *sizes) * 0.13 - count * 0.06
        given = {**attrs, "kernel_shape": list(kernel)}
        yield Case("MaxPool", [x], given, outputs=1)
        yield Case("MaxPool", [x], given, open_dims=True)
        for open_dims in (False, True):
            if "dilations" not in attrs:
                yield Case("AveragePool", [x], given, open_dims=open_dims)
                yield Case("AveragePool", [x], {**given, "count_include_pad": 1},
                           open_dims=open_dims)
            if len(sizes) == 1 and "dilations" not in attrs:
                yield Case("LpPool", [away(rng, x.shape)], {**given, "p": 3}, open_dims=open_dims)
    x = away(rng, (1, 2, 5, 5), scale=3)
    ceil = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}
    for open_dims in (False, True):
        yield Case("AveragePool", [x], ceil, open_dims=open_dims)
        yield Case("MaxPool", [x], ceil, open_dims=open_dims)
    yield Case("MaxPool", [x], ceil, outputs=2)
    yield Case("LpPool", [x], {"kernel_shape": [3, 2]})


@maker("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "MaxUnpool")
def global_pools(rng: Rng) -> Iterator[Case]:
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        attrs = {"p": 2} if op == "GlobalLpPool" else {}
        yield Case(op, [away(rng, (2, 3, 4, 3))], attrs)
        yield Case(op, [away(rng, (2, 3, 4))], attrs, open_dims=True)
    places = np.array([[[[5, 7], [13, 15]]]], dtype=np.int64)
    yield Case("MaxUnpool", [away(rng, (1, 1, 2, 2)), places],
               {"kernel_shape": [2, 2], "strides": [2, 2]})


# ---- normalizations ----------------------------------------------------------------------------

@maker("BatchNormalization")
def batch_normalization(rng: Rng) -> Iterator[Case]:
    for shape in ((3, 2, 4), (2, 3, 2, 2), (4, 3)):
        c = shape[1]
        operands = [away(rng, shape), away(rng, (c,)), away(rng, (c,)), away(rng, (c,)),
                    between(rng, 0.4, 2, (c,))]
        yield Case("BatchNormalization", operands, {"epsilon": 0.01})
        yield Case("BatchNormalization", operands, {"training_mode": 1, "epsilon": 0.01},
                   outputs=3, read=(0,), wants=(0, 1, 2))
    yield Case("BatchNormalization", operands, opset=14)


@maker("LayerNormalization", "RMSNormalization")
def layer_normalization(rng: Rng) -> Iterator[Case]:
    x = away(rng, (2, 3, 4))
    for axis, shape in ((-1, (4,)), (1, (3, 4)), (-2, (3, 4))):
        yield Case("LayerNormalization", [x, away(rng, shape), away(rng, shape)], {"axis": axis})
        yield Case("RMSNormalization", [x, away(rng, shape)], {"axis": axis}, opset=23)
    yield Case("LayerNormalization", [x, away(rng, (4,))], {"epsilon": 0.1}, outputs=3,
               read=(0,))
    yield Case("LayerNormalization", [x, away(rng, (4,))], open_dims=True)


@maker("InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization", "LRN")
def sample_norms(rng: Rng) -> Iterator[Case]:
    for shape in ((2, 4, 5), (2, 4, 2, 3)):
        c = (shape[1],)
        yield Case("InstanceNormalization", [away(rng, shape), away(rng, c), away(rng, c)])
        yield Case("GroupNormalization", [away(rng, shape), away(rng, c), away(rng, c)],
                   {"num_groups": 2})
    yield Case("MeanVarianceNormalization", [away(rng, (2, 3, 2, 2))])
    yield Case("MeanVarianceNormalization", [away(rng, (2, 3, 4))], {"axes": [1, 2]})
    for size in (3, 2):
        yield Case("LRN", [away(rng, (2, 5, 2, 2))],
                   {"size": size, "alpha": 0.3, "beta": 0.6, "bias": 1.2})


# ---- losses ------------------------------------------------------------------------------------

@maker("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def losses(rng: Rng) -> Iterator[Case]:
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        for shape in ((5, 3), (2, 3, 4)):
            labels = rng.integers(0, 3, (shape[0], *shape[2:]))
            for reduction in ("none", "sum", "mean"):
                attrs = {"reduction": reduction}
                yield Case(op, [away(rng, shape), labels], attrs)
                yield Case(op, [away(rng, shape), labels, between(rng, 0.3, 2, (3,))],
                           {**attrs, "ignore_index": 1})
        yield Case(op, [away(rng, (4, 3)), np.array([0, -100, 2, 1])], {"ignore_index": -100})
    yield Case("SoftmaxCrossEntropyLoss", [away(rng, (4, 3)), rng.integers(0, 3, (4,))], outputs=2)


# ---- recurrent layers --------------------------------------------------------------------------

def recurrent(op: str, gates: int) -> Callable:
    def make(rng: Rng) -> Iterator[Case]:
        t, n, i, h = 3, 2, 2, 2
        for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            x, w = away(rng, (t, n, i)), away(rng, (d, gates * h, i))
            r, b = away(rng, (d, gates * h, h)), away(rng, (d, 2 * gates * h))
            state = [away(rng, (d, n, h))] * (2 if op == "LSTM" else 1)
            attrs = {"direction": direction, "hidden_size": h}
            outputs = 3 if op == "LSTM" else 2
            yield Case(op, [x, w, r], attrs, outputs=outputs)
            yield Case(op, [x, w, r, b, None, *state], attrs, outputs=outputs)
            lengths = np.array([2, 3], dtype=np.int32)
            yield Case(op, [x, w, r, b, lengths, *state], attrs, outputs=outputs)
            yield Case(op, [x, w, r, b], attrs, outputs=outputs, read=(1,), bare=True)
            yield Case(op, [x, w, r, b], attrs, outputs=outputs, open_dims=(0,), open_from=1)
            yield Case(op, [x, w, r, b], attrs, outputs=outputs, open_dims=(0,))
            yield Case(op, [x, w, r, None, lengths, *state], attrs, outputs=outputs, open_dims=(0,))
        if op == "LSTM":
            yield Case(op, [x[:, :, :], w[:1], r[:1], b[:1], None, state[0][:1], state[0][:1],
                            away(rng, (1, 3 * h))], {"hidden_size": h}, outputs=3)
            yield Case(op, [x, w[:1], r[:1]], {"hidden_size": h, "input_forget": 1})
        if op == "GRU":
            yield Case(op, [x, w[:1], r[:1], b[:1]], {"hidden_size": h, "linear_before_reset": 1})
        names = {"RNN": ["Relu"], "GRU": ["Softsign", "Tanh"], "LSTM": ["Sigmoid", "Softsign", "Tanh"]}
        yield Case(op, [x, w[:1], r[:1]], {"hidden_size": h, "activations": names[op]})
    return make


MAKERS["RNN"] = recurrent("RNN", 1)
MAKERS["GRU"] = recurrent("GRU", 3)
MAKERS["LSTM"] = recurrent("LSTM", 4)


# ---- attention ---------------------------------------------------------------------------------

@maker("Attention")
def attention(rng: Rng) -> Iterator[Case]:
    q, k, v = away(rng, (2, 2, 3, 4)), away(rng, (2, 2, 5, 4)), away(rng, (2, 2, 5, 3))
    yield Case("Attention", [q, k, v], opset=23)
    yield Case("Attention", [q, k, v], {"is_causal": 1, "scale": 0.3}, opset=23)
    yield Case("Attention", [q, k, v, away(rng, (3, 5))], {"softcap": 1.5}, opset=24)
    mask = np.array([[True, False, True, True, False]] * 2 + [[False, True, True, True, True]])
    yield Case("Attention", [q, k, v, mask], opset=23)
    wide = away(rng, (2, 4, 3, 4))
    yield Case("Attention", [wide, k, v], opset=23, title="groups")
    flat = {"q_num_heads": 4, "kv_num_heads": 2}
    yield Case("Attention", [away(rng, (2, 3, 8)), away(rng, (2, 5, 4)), away(rng, (2, 5, 6))], flat,
               opset=23)
    past = [away(rng, (2, 2, 2, 4)), away(rng, (2, 2, 2, 3))]
    yield Case("Attention", [q, k, v, None, *past], {"is_causal": 1}, outputs=3, opset=23)


@maker("RotaryEmbedding", "SwiGLU")
def rotary(rng: Rng) -> Iterator[Case]:
    x, flat, ids = away(rng, (2, 3, 4, 6)), away(rng, (2, 4, 12)), rng.integers(0, 5, (2, 4))
    for pairs in (0, 1):
        tables = [away(rng, (5, 3)), away(rng, (5, 3))]
        yield Case("RotaryEmbedding", [x, *tables, ids], {"interleaved": pairs}, opset=23)
        yield Case("RotaryEmbedding", [flat, *tables, ids],
                   {"interleaved": pairs, "num_heads": 2}, opset=23)
    tables = [away(rng, (2, 4, 2)), away(rng, (2, 4, 2))]
    yield Case("RotaryEmbedding", [x, *tables], {"rotary_embedding_dim": 4}, opset=23)
    for alpha in (1.0, 1.3):
        yield Case("SwiGLU", [away(rng, (2, 3)), away(rng, (2, 3))], {"alpha": alpha}, opset=28)


# ---- resizing, numbers -------------------------------------------------------------------------

@maker("Resize")
def resize(rng: Rng) -> Iterator[Case]:
    x = away(rng, (1, 2, 3, 4))
    scales = np.array([1, 1, 2, 1.5], dtype=np.float32)
    yield Case("Resize", [x, None, scales], {"mode": "nearest"})
    yield Case("Resize", [x, None, scales], {"mode": "linear"})
    yield Case("Resize", [x, None, scales], {"mode": "linear",
                                             "coordinate_transformation_mode": "align_corners"})
    yield Case("Resize", [x, None, scales], {"mode": "cubic"})
    yield Case("Resize", [x, None, None, ints(1, 2, 2, 6)],
               {"mode": "linear", "coordinate_transformation_mode": "asymmetric"})
    yield Case("Resize", [x, None, None, ints(1, 2, 5, 3)], {"mode": "nearest"})
    yield Case("Resize", [x, None, scales], {"mode": "linear"}, open_dims=(0,), open_from=2)
    yield Case("Resize", [x, None, None, ints(1, 2, 5, 3)], {"mode": "nearest"}, open_dims=(0,),
               open_from=2)
    yield Case("Resize", [x[0, 0], None, scales[2:]], {"mode": "linear"})


@maker("Range", "OneHot")
def numbers(rng: Rng) -> Iterator[Case]:
    yield Case("Range", [np.array(0.3), np.array(2.9), np.array(0.7)], wants=(0, 2))
    yield Case("OneHot", [ints(1, 0, -1), np.array(4, dtype=np.int64), away(rng, (2,))])
    yield Case("OneHot", [ints(1, 0, 2), np.array(4, dtype=np.int64), away(rng, (2,))], {"axis": 0})
