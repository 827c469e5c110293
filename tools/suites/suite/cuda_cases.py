# SPDX-License-Identifier: Apache-2.0
"""Random models of an operator or two, for what a device has kernels of: sizes with tails, packs, no
elements and one, broadcast axes, odd strides; operands that are inputs or constants.

`build(maker, seed)` gives a model and its inputs. Every maker of MAKERS takes a Case and adds nodes; which
CUDA rows of rewrite/base/operators it comes to is for the plan to decide.
"""

from collections.abc import Callable

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

from . import unary_functions
from .cuda_case import BYTES, FLOATS, NUMBERS, Case
from .cuda_heads_cases import heads, turned_heads

# ---- element by element ----

UNARY = ("Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos",
         "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Sigmoid", "Tanh",
         "Softplus", "Softsign", "Relu", "LeakyRelu", "Elu", "Celu", "Selu", "ThresholdedRelu",
         "HardSigmoid", "HardSwish", "Mish", "Gelu", "Shrink", "Identity")
UNARY = (*UNARY, *(op for op in unary_functions.operators() if op not in UNARY))
DOMAIN = {"Sqrt": np.abs, "Log": np.abs, "Acosh": lambda x: 1 + np.abs(x), "Asin": np.tanh,
          "Acos": np.tanh, "Atanh": lambda x: np.tanh(x) / 2}
# Where a unit of the operand is many of the result, or the two sides have other formulas.
STEEP = {"Tan", "Atanh", "Acosh", "Reciprocal", "Log", "Sinh", "Cosh", "Exp"}


def unary(case: Case) -> None:
    op, dtype = case.pick(UNARY), case.pick(FLOATS)
    if op == "Celu":
        dtype = np.float32
    array = case.values(case.shape(case.rng.integers(0, 4)), np.float64)
    array = case.spoilt(DOMAIN.get(op, lambda x: x)(array).astype(dtype))
    attributes = {"approximate": case.pick(["none", "tanh"])} if op == "Gelu" else {}
    if op == "LeakyRelu":
        attributes["alpha"] = 0.2
    case.loose = 20 if op in STEEP else 4
    made = case.node(op, case.operand(array), **attributes)
    if case.chance(3):
        case.node("Abs", made)


def cast(case: Case) -> None:
    source, target = case.pick(BYTES), case.pick(BYTES)
    array = np.abs(case.values(case.shape(case.rng.integers(0, 3)), source))
    made = case.operand(array)
    if case.chance(2) and source in FLOATS:
        made = case.node("Neg", case.node("Neg", made))
    case.node("Cast", made, to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


def broadcast(case: Case, count: int, dtype: type) -> list[np.ndarray]:
    whole = case.shape(case.rng.integers(1, 5))
    made = []
    for k in range(count):
        shape = [1 if k and case.chance(3) else size for size in whole]
        made.append(case.values(shape[int(case.rng.integers(len(shape))) * (k and case.chance(3)):],
                                dtype))
    return made


def binary(case: Case) -> None:
    op = case.pick(("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Pow", "Mod", "Mean", "Sum"))
    dtype = case.pick(FLOATS if op in ("Mean", "Sum", "Pow") else NUMBERS)
    a, b = broadcast(case, 2, dtype)
    if op == "Pow":
        a, b = np.abs(a) + np.asarray(0.5, dtype), np.clip(b, -2, 2)
        b = b.astype(case.pick((dtype, dtype, np.int32, np.int64, np.float32)))
    if op in ("Div", "Mod"):
        b = np.where(b == 0, np.asarray(3, dtype), b).astype(dtype)
    fmod = {"fmod": 1} if op == "Mod" and np.dtype(dtype).kind not in "iu" else {}
    if op == "PRelu" and b.ndim > a.ndim:
        a, b = b, a
    if op in ("Add", "Mul", "Sub") and case.chance(2):
        a, b = b, a
    case.loose = 400 if op in ("Pow", "Mod") else 4
    if op in ("Mod",) and fmod:
        a, b = np.abs(a).astype(dtype), (np.abs(b) + np.asarray(1, dtype)).astype(dtype)
    operands = [a, b]
    if op in ("Max", "Min", "Sum", "Mean") and case.chance(2):
        operands.append(case.values(list(a.shape), dtype))
        case.between = 1
    try:
        np.broadcast_shapes(*(x.shape for x in operands))
    except ValueError:
        return
    case.node(op, *(case.operand(x if op == "Pow" else x.astype(dtype)) for x in operands), **fmod)


def compare(case: Case) -> None:
    op = case.pick(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"))
    dtype = np.bool_ if op in ("And", "Or", "Xor") else case.pick(NUMBERS)
    made = case.node(op, *(case.operand(x) for x in broadcast(case, 2, dtype)))
    if case.chance(2):
        case.node("Not", made)


def where(case: Case) -> None:
    a, b, c = broadcast(case, 3, case.pick(BYTES))
    case.node("Where", case.operand(case.values(list(c.shape), np.bool_)), case.operand(a),
              case.operand(b))


def clip(case: Case) -> None:
    dtype = case.pick(FLOATS)
    x = case.operand(case.spoilt(case.values(case.shape(2), dtype)))
    case.node("Clip", x, case.operand(np.asarray(-0.5, dtype), True),
              case.operand(np.asarray(0.75, dtype), True))


# ---- moving data ----

def transpose(case: Case) -> None:
    rank = int(case.rng.integers(1, 6))
    x = case.operand(case.values(case.shape(rank), case.pick(BYTES)))
    case.node("Transpose", x, perm=list(map(int, case.rng.permutation(rank))))


def concat(case: Case) -> None:
    rank, dtype = int(case.rng.integers(1, 4)), case.pick(BYTES)
    shape, axis = case.shape(rank), int(case.rng.integers(rank))
    parts = [shape[:axis] + [case.size(40)] + shape[axis + 1:] for _ in range(case.rng.integers(1, 5))]
    case.node("Concat", *(case.operand(case.values(p, dtype)) for p in parts), axis=axis)


def split(case: Case) -> None:
    rank = int(case.rng.integers(1, 4))
    shape, axis = case.shape(rank, empty=False), int(case.rng.integers(rank))
    first = int(case.rng.integers(shape[axis] + 1))
    case.node("Split", case.operand(case.values(shape, case.pick(BYTES))),
              case.ints(first, shape[axis] - first), outputs=2, axis=axis)


def slices(case: Case) -> None:
    rank = int(case.rng.integers(1, 4))
    shape = case.shape(rank)
    axis, step = int(case.rng.integers(rank)), int(case.pick((1, 1, 2, 3, -1, -2)))
    ends = (0, shape[axis]) if step > 0 else (shape[axis] - 1, -shape[axis] - 1)
    start = ends[0] + int(case.rng.integers(3)) * (1 if step > 0 else -1)
    case.node("Slice", case.operand(case.values(shape, case.pick(BYTES))), case.ints(start),
              case.ints(ends[1]), case.ints(axis), case.ints(step))


def gather(case: Case) -> None:
    rank = int(case.rng.integers(1, 4))
    shape, axis = case.shape(rank, empty=False), int(case.rng.integers(rank))
    at = case.rng.integers(-shape[axis], shape[axis], case.shape(case.rng.integers(0, 3), 64))
    x = case.operand(case.values(shape, case.pick(BYTES)))
    case.node("Gather", x, case.operand(np.asarray(at, case.pick((np.int32, np.int64)))), axis=axis)


def expand(case: Case) -> None:
    whole = case.shape(int(case.rng.integers(1, 4)))
    shape = [1 if case.chance(2) else size for size in whole]
    x = case.operand(case.values(shape, case.pick(BYTES)))
    case.node("Expand", x, case.ints(*whole))


def pad(case: Case) -> None:
    rank, dtype = int(case.rng.integers(1, 5)), case.pick(BYTES)
    shape = case.shape(rank, 2000, empty=False)
    mode = case.pick(("constant", "constant", "reflect", "edge", "wrap"))
    least = 0 if mode == "constant" else 1  # that is left of an axis
    pads = [int(case.rng.integers(-min(size - least, 2) // 2, 4 if mode == "constant" else max(size // 2, 1)))
            for size in shape * 2]
    if any(p + q + s < least or s + min(p, 0) + min(q, 0) < least
           for p, q, s in zip(pads, pads[rank:], shape)):
        return
    value = [case.operand(case.values([], dtype), True)] if mode == "constant" and case.chance(2) else []
    case.node("Pad", case.operand(case.values(shape, dtype)), case.ints(*pads), *value, mode=mode)


def tiled(case: Case) -> None:
    """Data that is moved by blocks: repeated, or channels that become pixels and back."""
    dtype = case.pick(BYTES)
    op = case.pick(("Tile", "DepthToSpace", "SpaceToDepth", "Trilu"))
    if op == "Tile":
        shape = case.shape(int(case.rng.integers(1, 4)), 400)
        case.node(op, case.operand(case.values(shape, dtype)),
                  case.ints(*(int(case.rng.integers(0 if case.chance(20) else 1, 4)) for _ in shape)))
    elif op == "Trilu":
        shape = case.shape(int(case.rng.integers(2, 5)))
        x = case.operand(case.values(shape, dtype))
        k = [case.operand(case.rng.integers(-9, 10, []), True)] if case.chance(2) else []
        case.node(op, x, *k, upper=int(case.rng.integers(2)))
    else:
        block, images, channels = int(case.pick((1, 2, 3))), int(case.pick((1, 2))), case.size(9)
        high, wide = case.size(9), case.size(9)
        attributes = {"blocksize": block}
        shape = [images, channels * block ** 2, high, wide]
        if op == "SpaceToDepth":
            shape = [images, channels, high * block, wide * block]
        else:
            attributes["mode"] = case.pick(("DCR", "CRD"))
        case.node(op, case.operand(case.values(shape, dtype)), **attributes)


def indexed(case: Case) -> None:
    """Elements and blocks picked and put by indices; of those put at one place, none counts alone."""
    op = case.pick(("GatherElements", "GatherND", "ScatterElements", "ScatterND"))
    rank = int(case.rng.integers(1, 5))
    how = str(case.pick(("none", "add", "mul", "min", "max"))) if op[0] == "S" else ""
    dtype = case.pick(NUMBERS if how else BYTES)
    shape = case.shape(rank, 1500, empty=False)
    axis = int(case.rng.integers(rank))
    kind = case.pick((np.int32, np.int64)) if op.endswith("Elements") else np.int64
    more = {"reduction": how} if how else {}
    x = case.operand(case.values(shape, dtype))
    case.loose, case.between = 8, 8
    if op.endswith("Elements"):
        sizes = [int(case.rng.integers(1, size + 1)) for size in shape]
        at = case.rng.integers(0, shape[axis], sizes)
        if how == "none":
            at = np.argsort(case.rng.random(shape), axis)[tuple(slice(n) for n in sizes)]
        at = np.where(case.rng.random(at.shape) < 0.3, at - shape[axis], at).astype(kind)
        updates = [case.operand(case.values(list(at.shape), dtype))] if how else []
        index = case.operand(at)
        case.kept.add(index)
        case.node(op, x, index, *updates, axis=axis, **more)
        return
    depth = int(case.rng.integers(1, rank + 1))
    batch = int(case.rng.integers(depth)) if op == "GatherND" and case.chance(3) else 0
    places = np.stack(np.unravel_index(case.rng.permutation(int(np.prod(shape[batch:depth]))),
                                       shape[batch:depth]), -1)
    count = int(case.rng.integers(1, min(len(places), 40) + 1))
    at = places[:count] if how in ("", "none") else places[case.rng.integers(0, len(places), count)]
    at = np.broadcast_to(at, [*shape[:batch], *at.shape]).astype(kind)
    updates = [case.operand(case.values([count, *shape[depth:]], dtype))] if how else []
    if op == "GatherND":
        more["batch_dims"] = batch
    index = case.operand(at)
    case.kept.add(index)
    case.node(op, x, index, *updates, **more)


def marked(case: Case) -> None:
    """OneHot: indices of any type, some of them out of range, along any axis."""
    shape, depth = case.shape(int(case.rng.integers(0, 4)), 300), case.size(20)
    kind = case.pick((np.int32, np.int64, np.float32, np.uint8, np.int8, np.float16))
    low = 0 if np.dtype(kind).kind == "u" else -depth - 2
    at = case.operand(np.asarray(case.rng.integers(low, depth + 2, shape)).astype(kind))
    values = case.operand(case.values([2], case.pick(BYTES)))
    axis = int(case.rng.integers(-len(shape) - 1, len(shape) + 1))
    case.node("OneHot", at, case.operand(np.asarray(depth, case.pick((np.int64, np.float32))), True), values,
              axis=axis)


def found(case: Case) -> None:
    """Which elements are NaN, or infinite."""
    array = case.values(case.shape(int(case.rng.integers(0, 4))), np.float64)
    some = case.rng.random(array.shape)
    array = np.where(some < 0.2, np.nan, np.where(some < 0.4, np.inf, np.where(some < 0.6, -np.inf, array)))
    x = case.operand(np.asarray(array).astype(case.pick((*FLOATS, np.float64))))
    if case.chance(2):
        case.node("IsNaN", x)
    else:
        case.node("IsInf", x, **{name: int(case.rng.integers(2)) for name in ("detect_negative", "detect_positive")})


def along(case: Case) -> None:
    """The best of a line, with equal ones, and running sums."""
    op = case.pick(("ArgMax", "ArgMin", "TopK", "CumSum"))
    rank, dtype = int(case.rng.integers(1, 4)), case.pick(NUMBERS)
    shape = case.shape(rank, 2500, empty=op == "CumSum")
    axis = int(case.rng.integers(rank))
    x = case.values(shape, dtype)
    if np.dtype(dtype).kind not in "iu" and op != "CumSum" and case.chance(2):
        x = np.where(case.rng.random(shape) < 0.1, np.asarray(np.nan, dtype), np.round(x.astype(np.float32)))
    x = case.operand(x.astype(dtype))
    case.loose, case.terms = 4, 100
    if op == "CumSum":
        at = case.operand(np.asarray(axis, np.int64), True)
        case.node(op, x, at, exclusive=int(case.rng.integers(2)), reverse=int(case.rng.integers(2)))
    elif op == "TopK":
        k = case.ints(int(case.rng.integers(1, min(shape[axis], 12) + 1)))
        case.node(op, x, k, outputs=2, axis=axis, largest=int(case.rng.integers(2)))
    else:
        case.node(op, x, axis=axis, keepdims=int(case.rng.integers(2)),
                  select_last_index=int(case.rng.integers(2)))


def quantized(case: Case) -> None:
    """To 8 and 16 bits and back, with scales of a tensor, an axis or blocks."""
    dtype, to = case.pick(FLOATS), case.pick((np.int8, np.uint8, np.int16, np.uint16))
    shape = case.shape(int(case.rng.integers(1, 4)), 1500, empty=False)
    axis, attributes = int(case.rng.integers(len(shape))), {}
    sizes: list[int] = []
    if case.chance(2):
        sizes, attributes["axis"] = [shape[axis]], axis
    elif case.chance(2):
        block = int(case.pick((2, 3, 8)))
        attributes |= {"axis": axis, "block_size": block}
        sizes = [*shape[:axis], -(-shape[axis] // block), *shape[axis + 1:]]
    values = case.operand(case.values(shape, dtype, 3))
    scale = case.operand((np.abs(case.values(sizes, np.float32)) * 0.1 + 0.02).astype(dtype), True)
    zero = case.operand(case.values(sizes, to), True)
    made = case.node("QuantizeLinear", values, scale, zero, **attributes)
    case.node("DequantizeLinear", made, scale, zero, **attributes)
    if case.chance(2):
        few = case.pick((ml_dtypes.int4, ml_dtypes.uint4))
        least = -8 if few is ml_dtypes.int4 else 0
        small, none = (case.operand(case.rng.integers(least, least + 16, s).astype(few)) for s in (shape, sizes))
        case.node("DequantizeLinear", small, scale, *([none] if case.chance(2) else []), **attributes)
    if case.chance(4):
        case.node("DequantizeLinear", case.operand(case.rng.integers(-10 ** 6, 10 ** 6, shape).astype(np.int32)),
                  scale, **attributes)


def resize(case: Case) -> None:
    dtype, spatial = case.pick(FLOATS), int(case.pick((1, 2, 2, 2, 3)))
    mode = case.pick(("nearest", "linear", "cubic"))
    where = case.pick(("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                       "asymmetric", "tf_crop_and_resize"))
    shape = [int(case.pick((1, 2))), case.size(5), *(case.size(9) for _ in range(spatial))]
    attributes: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": where}
    if mode == "nearest":
        attributes["nearest_mode"] = case.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    else:
        attributes["antialias"] = int(case.chance(3))
        attributes["exclude_outside"] = int(mode == "cubic" and case.chance(3))
        attributes["cubic_coeff_a"] = case.pick((-0.75, -0.5))
    scales = [float(case.pick((0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.6, 4.0))) for _ in range(spatial)]
    values = case.values(shape, dtype)
    x, region, kept = case.operand(values), "", shape[:2]
    if where == "tf_crop_and_resize":
        ends = [0.0, 0.0, *(-0.2 + case.rng.random(spatial)), 1.0, 1.0, *(0.5 + case.rng.random(spatial))]
        region = case.operand(np.array(ends, np.float32), True)
        attributes["extrapolation_value"] = 0.5
    case.loose, case.terms = 16, float(np.max(np.abs(values.astype(np.float64)))) * 4
    if region or case.chance(2):  # with a region, sizes do not follow from scales
        sizes = [max(int(size * scale), 1) for size, scale in zip(shape[2:], scales)]
        case.node("Resize", x, region, "", case.ints(*kept, *sizes), **attributes)
    elif all(int(size * scale) for size, scale in zip(shape[2:], scales)):
        case.node("Resize", x, region, case.operand(np.array([1, 1, *scales], np.float32), True),
                  **attributes)


def filled(case: Case) -> None:
    dtype = case.pick(BYTES)
    value = numpy_helper.from_array(np.asarray(case.values([1], dtype)))
    x = case.operand(case.values(case.shape(int(case.rng.integers(1, 4))), np.float32), False)
    case.node("Abs", x)
    case.node("ConstantOfShape", case.node("Shape", x), value=value)


# ---- rows ----

def softmax(case: Case) -> None:
    rank = int(case.rng.integers(1, 5))
    values = case.values(case.shape(rank), case.pick(FLOATS), 100 if case.mark("large", 3) else 3)
    x = case.operand(case.spoilt(values))
    case.loose = 4
    case.node(case.pick(("Softmax", "LogSoftmax")), x, axis=int(case.rng.integers(-rank, rank)))


def reduce(case: Case) -> None:
    op = case.pick(("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"))
    rank = int(case.rng.integers(1, 5))
    axes = list(map(int, case.rng.permutation(rank)[:case.rng.integers(1, rank + 1)]))
    large = op in ("LogSumExp", "Max", "Min", "Mean") and case.mark("large", 2)
    x = case.values(case.shape(rank, empty=False), case.pick(FLOATS), 100 if large else 1)
    if op in ("LogSum", "Prod"):
        x = (np.abs(x) * 0.5 + 0.75).astype(x.dtype)
    elif op != "LogSumExp":
        x = case.spoilt(x)
    case.loose = 40 if op in ("Prod", "LogSum") else 8
    case.node(f"Reduce{op}", case.operand(x), case.ints(*axes), keepdims=int(case.rng.integers(2)))


def far(case: Case, array: np.ndarray) -> np.ndarray:
    """Now and then with a mean that is a thousand times what elements differ by."""
    if not case.mark("far from 0", 3):
        return array
    case.terms = 1e3
    return (array.astype(np.float64) + 1000 * case.pick((-1, 1))).astype(array.dtype)


def norm(case: Case) -> None:
    op = case.pick(("LayerNormalization", "RMSNormalization", "GroupNormalization",
                    "InstanceNormalization", "BatchNormalization", "skip"))
    dtype = case.pick(FLOATS)
    case.loose = 8
    if op in ("LayerNormalization", "RMSNormalization", "skip"):
        shape = case.shape(int(case.rng.integers(1, 4)), empty=False)
        if case.chance(8): # rows that shared memory has no room for
            shape = [2, int(case.pick((5000, 12500, 13001)))]
        x, n = case.operand(case.spoilt(far(case, case.values(shape, dtype)), of=8)), shape[-1]
        if op == "skip":
            x = case.node("Add", x, case.operand(case.values(shape, dtype)))
        weights = [case.operand(case.values([n], dtype), True)
                   for _ in range(1 if op[0] == "R" else case.rng.integers(1, 3))]
        case.node("LayerNormalization" if op == "skip" else op, x, *weights, axis=-1)
        return
    groups = int(case.pick((1, 2, 4)))
    shape = [case.size(3), groups * case.size(6)] + case.shape(case.rng.integers(1, 3), 400, False)
    values, n = case.values(shape, dtype), shape[1]
    x = case.operand(case.spoilt(far(case, values), of=8))
    fixed = True if op[0] == "B" and case.chance(2) else None  # with an activation that is one step then
    weights = [case.operand(case.values([n], dtype), fixed) for _ in range(2)]
    if op == "GroupNormalization":
        case.node(op, x, *weights, num_groups=groups)
    elif op == "InstanceNormalization":
        case.node(op, x, *weights)
    else:
        means = case.values([n], np.float64) + (np.mean(values) if values.size else 0)
        mean = case.operand(means.astype(dtype), True)
        variance = case.operand((np.abs(case.values([n], np.float32)) + 0.5).astype(dtype), True)
        made = case.node(op, x, *weights, mean, variance)
        if case.chance(2):
            case.between += 2
            case.node(case.pick(ACTIVATIONS), made)


# ---- products ----

ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "HardSigmoid", "Gelu")


def follow(case: Case, made: str, shape: list[int], dtype: type, channel: int) -> None:
    """A bias, a residual, an activation: what a product's kernel may do itself."""
    case.between += 2
    if case.chance(2):
        bias = [shape[channel]] + [1] * (len(shape) - 1 - channel)
        made = case.node("Add", made, case.operand(case.values(bias, dtype), True))
    if case.chance(3):
        made = case.node("Add", made, case.operand(case.spoilt(case.values(shape, dtype), of=3)))
    if case.chance(2):
        case.node(case.pick(ACTIVATIONS), made)


def matmul(case: Case) -> None:
    dtype = case.pick(FLOATS * 3 + (np.float64, np.int32, np.int64))
    m, k, n = case.size(100), case.size(130), case.size(100)
    if case.chance(3):
        k = 8 * max(k // 8, 1)
    batch = case.shape(int(case.rng.integers(0, 3)), 6)
    a_batch = [1 if case.chance(4) else size for size in batch]
    b_batch = [] if case.chance(2) else [1 if case.chance(3) else size for size in batch]
    a = case.operand(case.values([*a_batch, m, k], dtype, 0.5))
    b = case.operand(case.values([*b_batch, k, n], dtype, 0.5), case.chance(2))
    case.loose = 16
    out = list(np.broadcast_shapes(tuple(a_batch), tuple(b_batch)))
    made = case.node("MatMul", a, b)
    if dtype in FLOATS:
        follow(case, made, [*out, m, n], dtype, len(out) + 1)


def einsum(case: Case) -> None:
    """Products by letters: batches, sums, diagonals, axes of one, ellipses, one operand to three."""
    equation = str(case.pick(("ij,jk->ik", "bij,bjk->bik", "bhid,bhjd->bhij", "bhij,bjhd->bihd", "ij->ji", "ii->i",
                              "ijk->j", "...ij,...jk->...ik", "i,j->ij", "bij,bij->b", "ij,jk,kl->il", "bd,dk", "ibj,kj->bki",
                              "abc,cd,ad->bd", "ijj,jk->ik", "bi,bi->", "ij,k->ik")))
    dtype, terms, most = case.pick(FLOATS), equation.split("->")[0].split(","), 9 if "abc" in equation else 20
    dims = {letter: case.size(most) for letter in "abcdefghijklmn"}
    dots, names = [case.size(3) for _ in range(int(case.rng.integers(3)))], []
    for term in terms:
        shape = [] if "..." not in term else list(dots)
        shape += [dims[letter] for letter in term.replace("...", "")]
        if len(set(term)) == len(term) and case.chance(8) and shape:
            shape[int(case.rng.integers(len(shape)))] = 1
        names.append(case.operand(case.values(shape, dtype, 0.3)))
    case.loose, case.between, case.terms = 64, 4, 4.0
    case.node("Einsum", *names, equation=equation)


def gemm(case: Case) -> None:
    dtype = case.pick(FLOATS)
    m, k, n = case.size(100), case.size(130), case.size(100)
    turned = [int(case.rng.integers(2)), int(case.rng.integers(2))]
    a = case.operand(case.values([k, m] if turned[0] else [m, k], dtype, 0.5))
    b = case.operand(case.values([n, k] if turned[1] else [k, n], dtype, 0.5))
    c = [case.operand(case.values(case.pick(([n], [1], [m, n], [m, 1], [1, n], [])), dtype))]
    case.loose, case.between = 16, 2
    made = case.node("Gemm", a, b, *c[:case.rng.integers(2)], transA=turned[0], transB=turned[1],
                     alpha=float(case.pick((1.0, 0.5))), beta=float(case.pick((1.0, 2.0))))
    follow(case, made, [m, n], dtype, 1)


def few(case: Case) -> None:
    """A row or a few, by constant weights."""
    dtype, m, n = case.pick(FLOATS), int(case.rng.integers(1, 6)), case.size(100)
    k = int(case.pick((8, 64, 264, 600, 5, 12, 20, 63, 100, 265)))
    gemm, turned = case.chance(2), int(case.rng.integers(2))
    a = case.operand(case.values([m, k], dtype, 0.5))
    b = case.operand(case.values([n, k] if gemm and turned else [k, n], dtype, 0.5), True)
    case.loose, case.between = 16, 2
    made = case.node("Gemm", a, b, transB=turned, alpha=float(case.pick((1.0, 0.5)))) if gemm else case.node("MatMul", a, b)
    follow(case, made, [m, n], dtype, 1)


def bits(case: Case) -> None:
    """Weights of 4 and 8 bits: few rows, which read them as they are, and many; blocks of any size, the last
    one not full; scales as matrices and lists; zero points packed, as numbers, and none."""
    dtype, width = case.pick(FLOATS), int(case.pick((4, 4, 8)))
    rows, depth, columns = int(case.pick((1, 1, 1, 2, 3, 5, 8, 9, 17, 40))), case.size(300), case.size(100)
    if not case.chance(4):
        depth = 4 * max(depth // 4, 1)
    block = int(case.pick((16, 32, 32, 64, 128, 8, 4, 12, 5)))
    blocks, least = -(-depth // block), -(-block * width // 8)
    x = case.values([1, rows, depth] if case.chance(3) else [rows, depth], dtype, 0.5)
    weights = case.rng.integers(0, 256, (columns, blocks, least)).astype(np.uint8)
    scale = case.rng.uniform(0.01, 0.05, (columns, blocks)).astype(dtype)
    packed = case.rng.integers(0, 256, (columns, -(-blocks * width // 8))).astype(np.uint8)
    number = case.rng.uniform(0, 2 ** width, (columns, blocks)).astype(dtype)
    zero = case.pick((None, packed, packed, number))
    flat, fixed = case.chance(2), not case.chance(3)
    names = [case.operand(x, False)] + [case.operand(a, fixed) for a in (
        weights, scale.ravel() if flat else scale)]
    names.append("" if zero is None else case.operand(zero.ravel() if flat else zero, fixed))
    if case.chance(2):
        names += ["", case.operand(case.values([columns], dtype))]
    few = rows <= 8 and block % (32 // width) == 0 and depth % 4 == 0
    case.loose = 16 if few or dtype == np.float32 else 300 if dtype == np.float16 else 2400
    case.terms = float(np.max(np.sum(np.abs(x.astype(np.float64)), -1), initial=0)) * 0.05 * 2 ** width
    case.node("MatMulNBits", *names, domain="com.microsoft", K=depth, N=columns, bits=width, block_size=block)


def table(case: Case) -> None:
    """Rows of tables of few bits, several in a byte; indices from the end and out of range."""
    width, block, blocks, rows = int(case.pick((2, 4, 4, 8))), int(case.pick((16, 32))), case.size(9), case.size(50)
    numbers = case.rng.integers(0, 256, (rows, blocks * block * width // 8)).astype(np.uint8)
    zeros = case.rng.integers(0, 256, (rows, -(-blocks * width // 8))).astype(np.uint8)
    indices = case.rng.integers(-rows, rows, case.shape(int(case.rng.integers(1, 4)))).astype(
        case.pick((np.int32, np.int64)))
    scales = case.rng.uniform(0.01, 0.05, (rows, blocks)).astype(np.float32)
    names = [case.operand(numbers, True), case.operand(indices), case.operand(scales, True)]
    if case.chance(2):
        names.append(case.operand(zeros, True))
    case.node("GatherBlockQuantized", *names, domain="com.microsoft", gather_axis=0, quantize_axis=1, bits=width,
              block_size=block)


def window(case: Case, spatial: int) -> tuple[list[int], dict[str, list[int]]]:
    taps = [int(case.pick((1, 2, 3, 3, 5))) for _ in range(spatial)]
    if case.chance(2):
        taps = [int(case.pick((1, 3, 5)))] * spatial
    attributes = {"kernel_shape": taps, "strides": case.per_axis(spatial, (1, 1, 2), "strides"),
                  "pads": [int(case.rng.integers(t // 2 + 1)) for t in taps * 2]}
    return taps, attributes


def conv(case: Case) -> None:
    dtype, spatial = case.pick(FLOATS), int(case.pick((1, 2, 2, 2, 3)))
    taps, attributes = window(case, spatial)
    attributes["dilations"] = case.per_axis(spatial, (1, 1, 1, 2), "dilations")
    groups = int(case.pick((1, 1, 2, 4)))
    inner, outer = case.size(32), case.size(40)
    if case.chance(3): # by channel
        groups, inner, outer = case.size(40), 1, int(case.pick((1, 1, 2)))
    sizes = [d * (t - 1) + 1 + int(case.rng.integers(1, 8))
             for t, d in zip(taps, attributes["dilations"])]
    shape = [int(case.pick((1, 1, 2, 3))), groups * inner, *sizes]
    w = case.values([groups * outer, inner, *taps], dtype, 1 / np.sqrt(inner * np.prod(taps)))
    x = case.operand(case.values(shape, dtype))
    w = case.operand(w, not case.chance(4))
    bias = [case.operand(case.values([groups * outer], dtype), True)] if case.chance(2) else []
    case.loose = 16
    if case.chance(2):
        x = case.node("Relu", x)
    made = case.node("Conv", x, w, *bias, group=groups, **attributes)
    out = [(s + attributes["pads"][i] + attributes["pads"][i + spatial] - d * (t - 1) - 1) // step + 1
           for i, (s, t, d, step) in enumerate(zip(sizes, taps, attributes["dilations"],
                                                   attributes["strides"]))]
    case.between = 2
    if bias and case.chance(2):
        case.node(case.pick(ACTIVATIONS), made)
    elif case.chance(2):
        follow(case, made, [shape[0], groups * outer, *out], dtype, 1)


def plain(case: Case, x: str, inner: int, outer: int, bias: str, w: str = "") -> str:
    """A convolution of two axes whose windows are not the same along both, now and then, and which may add what
    is no number."""
    dtype, taps, steps, gaps = case.constants[bias].dtype, [3, 3], [1, 1], [1, 1]
    if case.mark("unequal axes", 2):
        taps = taps if w else [int(case.pick((1, 3, 5))), int(case.pick((1, 3, 5)))]
        steps, gaps = ([int(case.pick((1, 2))), int(case.pick((1, 2)))] for _ in range(2))
    w = w or case.operand(case.values([outer, inner, *taps], dtype, 1 / np.sqrt(taps[0] * taps[1] * inner)), True)
    case.constants[bias] = case.spoilt(case.constants[bias], of=6)
    reach = [(t - 1) * g for t, g in zip(taps, gaps)]  # so many pads leave as many pixels, and one more does not
    pads = [(r + int(case.rng.integers(2))) // 2 for r in reach * 2]
    return case.node("Conv", x, w, bias, pads=pads, strides=steps, dilations=gaps)


def tiles(case: Case) -> None:
    """What has many pixels or filters: blocks of all sizes, and what no library does behind them; and so few channels
    that groups of warps have no step, beside another branch."""
    dtype = case.pick(FLOATS[1:])
    side, inner = int(case.pick((5, 12, 24))), 8 * int(case.rng.integers(1, 4))
    case.loose, case.between = 32, 4  # of each convolution its sums, and what the activation reads
    x = case.operand(case.values([int(case.pick((1, 3))), inner, side, side], dtype))
    for outer in (8 * int(case.rng.integers(1, 9)), case.size(70)):
        x = plain(case, x, inner, outer, case.operand(case.values([outer], dtype), True))
        x = case.node(case.pick(("Sigmoid", "HardSwish", "LeakyRelu")), x)
        inner = outer
    if not case.chance(2):
        return
    case.between += 4
    narrow, wide = 8 * int(case.rng.integers(1, 25)), 8 * int(case.rng.integers(1, 9))
    w = case.operand(case.values([narrow, inner, 1, 1], dtype, 1 / np.sqrt(inner)), True)
    x = case.node("Relu", case.node("Conv", x, w))
    sides = [case.node("Conv", x, case.operand(case.values([wide, narrow, 1, 1], dtype, 1 / np.sqrt(narrow)), True))
             for _ in range(2)]
    x = case.node("Add", *sides)
    if case.chance(2):
        case.node(case.pick(("Relu", "Sigmoid")), x)


def deep(case: Case) -> None:
    """Few pixels and so many channels that blocks share their sums; some weights are computed."""
    dtype, inner, side = case.pick(FLOATS[1:]), int(case.pick((96, 128, 160))), int(case.pick((4, 5, 9)))
    case.loose, case.between = 32, 4
    x = case.operand(case.values([1, inner, side, side], dtype))
    for outer in (8 * int(case.rng.integers(1, 9)), case.size(70)):
        computed, w = case.chance(4), ""
        if computed:
            w = case.node("Relu", case.operand(case.values([outer, inner, 3, 3], dtype, 1 / np.sqrt(9 * inner)), False))
        x = plain(case, x, inner, outer, case.operand(case.values([outer], dtype), True), w)
        x = case.node(case.pick(("Sigmoid", "HardSwish", "Relu")), x)
        inner = outer


def first(case: Case) -> None:
    """First layers: so few channels that a pixel is less than 16 bytes; a pixel that is not a number is one for
    those alone that see it."""
    dtype, channels = case.pick(FLOATS[1:]), int(case.pick((1, 2, 3, 3, 3, 4)))
    taps, steps = [int(case.pick((1, 3, 3, 5, 7))) for _ in range(2)], [int(case.pick((1, 2, 2, 3))), int(case.pick((1, 2, 2, 2, 4)))]
    usual = case.chance(2) # as networks have them, with enough to do to be turned to channels-last
    if usual:
        channels, taps, steps[1] = 3, [int(case.pick((5, 7))), int(case.pick((5, 7)))], 2
    pads, apart = [int(case.rng.integers(t)) for t in taps * 2], [int(case.pick((1, 1, 2))), 1]
    sides = [t * a + case.size(40) for t, a in zip(taps, apart)]
    if usual:
        sides = [sides[0] + 8, sides[1] // 2 * 2 + 8]
    values = case.values([int(case.pick((1, 2))), channels, *sides], dtype)
    if dtype == np.float16 and case.chance(2): # oneDNN's bfloat16 convolutions multiply those beside by 0
        values[0, 0, case.rng.integers(sides[0]), case.rng.integers(sides[1])] = np.nan
    case.loose, case.between = 32, 4
    x = case.operand(values)
    outer = int(case.pick((16, 24, 32, 64, 72, 20)))
    w = case.values([outer, channels, *taps], dtype, 1 / np.sqrt(channels * taps[0] * taps[1]))
    x = case.node("Conv", x, case.operand(w, True), case.operand(case.values([outer], dtype), True), strides=steps, pads=pads,
                  dilations=apart)
    x = case.node(case.pick(("Relu", "Sigmoid")), x)
    w = case.values([16, outer, 1, 1], dtype, 1 / np.sqrt(outer))
    case.node("Conv", x, case.operand(w, True))


def pooled(case: Case) -> None:
    """Pools between convolutions that are turned to channels-last."""
    dtype, channels, side = case.pick(FLOATS), int(case.pick((48, 64, 52, 53))), 2 + case.size(9)
    case.loose, case.between = 32, 8
    x = case.operand(case.values([int(case.pick((1, 2))), channels, side, side], dtype))
    for _ in range(2):
        w = case.operand(case.values([channels, channels, 3, 3], dtype, 1 / np.sqrt(9 * channels)), True)
        x = case.node("Conv", x, w, pads=[1, 1, 1, 1])
        x = case.node(case.pick(("MaxPool", "AveragePool")), x, kernel_shape=[3, 2], pads=[1, 0, 1, 1],
                      strides=[int(case.pick((1, 2))), 1])
    case.node("Conv", x, w, pads=[1, 1, 1, 1])


def network(case: Case) -> None:
    """Convolutions that are turned to channels-last together, some of them by channel."""
    dtype = case.pick(FLOATS)
    inner, middle, side = case.size(33), int(case.pick((8, 16, 24, 20, 12, 7))), case.size(12)
    case.loose, case.between = 32, 10  # as of tiles
    shape = [int(case.pick((1, 2))), inner, side, side]
    x = case.operand(case.values(shape, dtype))
    for channels, taps, groups in ((middle, 3, 1), (middle, int(case.pick((3, 5, 1, 7))), middle),
                                   (2 * middle, 1, 1), (2 * middle, 3, 2 * middle), (16, 3, 1)):
        w = case.values([channels, inner // groups, taps, taps], dtype,
                        1 / np.sqrt(taps * taps * (inner // groups)))
        bias = case.operand(case.values([channels], dtype), True)
        steps = [1, int(case.pick((1, 2)))] if groups > 1 and case.mark("unequal strides", 3) else [1, 1]
        x = case.node("Conv", x, case.operand(w, True), bias, group=groups, strides=steps,
                      pads=[taps // 2] * 4, kernel_shape=[taps, taps])
        x = case.node(case.pick(("Relu", "HardSwish", "Sigmoid")), x) if case.chance(2) else x
        inner = channels
    if case.chance(2):
        case.node("GlobalAveragePool", x)


def sampled(case: Case) -> None:
    """Where a grid says, some of it beyond the borders."""
    dtype, spatial, batch = case.pick(FLOATS), int(case.pick((1, 2, 2, 3))), int(case.pick((1, 2)))
    x = case.operand(case.values([batch, case.size(5), *(case.size(9) for _ in range(spatial))], dtype))
    grid = case.rng.random([batch, *(case.size(9) for _ in range(spatial)), spatial]) * 2.8 - 1.4
    case.loose = 32
    at = case.operand(grid.astype(case.pick(FLOATS)))
    case.node("GridSample", x, at, mode=case.pick(("linear", "nearest", "cubic")), align_corners=int(case.rng.integers(2)),
              padding_mode=case.pick(("zeros", "border", "reflection")))


def transposed(case: Case) -> None:
    """Transposed convolutions: steps, gaps, padding on either side, groups."""
    spatial, dtype, groups = int(case.pick((1, 2, 2, 3))), case.pick(FLOATS), int(case.pick((1, 1, 2, 3)))
    inner, outer = groups * case.size(9), case.size(9)
    taps, steps, gaps = ([int(case.rng.integers(1, 4)) for _ in range(spatial)] for _ in range(3))
    sizes = [case.size(9 if spatial < 3 else 4) for _ in range(spatial)]
    reach = [(t - 1) * d + 1 for t, d in zip(taps, gaps)]
    pads = [int(case.rng.integers(0, r)) for r in reach] + [int(case.rng.integers(0, r)) for r in reach]
    more = [int(case.rng.integers(0, max(s, d))) for s, d in zip(steps, gaps)]
    if any((n - 1) * s + r + m - p - q < 1 for n, s, r, m, p, q in
           zip(sizes, steps, reach, more, pads, pads[spatial:])):
        return
    x = case.operand(case.values([int(case.pick((1, 2))), inner, *sizes], dtype))
    w = case.operand(case.values([inner, outer, *taps], dtype, 1 / np.sqrt(inner)))
    bias = [case.operand(case.values([outer * groups], dtype))] if case.chance(2) else []
    case.loose, case.between = 32, 2
    case.node("ConvTranspose", x, w, *bias, strides=steps, dilations=gaps, pads=pads, group=groups,
              output_padding=more)


def pool(case: Case) -> None:
    spatial, dtype = int(case.rng.integers(1, 4)), case.pick(FLOATS)
    op = case.pick(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    taps, attributes = window(case, spatial)
    shape = [case.size(2), case.size(16), *(t + int(case.rng.integers(1, 8)) for t in taps)]
    if op == "AveragePool":
        attributes["count_include_pad"] = int(case.rng.integers(2))
    values = case.values(shape, dtype)
    x = case.operand(case.spoilt(values))
    case.loose, case.terms = 4, float(np.max(np.abs(values.astype(np.float64))))
    case.node(op, x, **({} if op.startswith("Global") else attributes))


# ---- attention ----

def neighbors(case: Case) -> None:
    """Over squares of the channels beside it, and over what a line sums up to."""
    dtype, rank = case.pick(FLOATS), int(case.rng.integers(2, 5))
    case.loose = 32
    x = case.operand(case.values(case.shape(rank, 3000), dtype) * np.asarray(case.pick((1, 0, 8)), dtype))
    if case.chance(2):
        case.node("LRN", x, size=int(case.rng.integers(1, 9)), alpha=0.5, beta=float(case.pick((0.75, 0.5, 1.0))),
                  bias=float(case.pick((1.0, 2.0))))
    else:
        case.node("LpNormalization", x, axis=int(case.rng.integers(-rank, rank)), p=int(case.rng.integers(1, 3)))


def attention(case: Case) -> None:
    """Scores, a mask, softmax, a sum of values, as exporters write it."""
    dtype = case.pick(FLOATS)
    size = int(case.pick((8, 16, 32, 40, 64, 96, 128, 33, 130, 256, 12, 20, 36, 66)))
    batch, heads = int(case.pick((1, 2))), int(case.pick((1, 2, 3)))
    rows = int(case.pick((1, 1, 2, 5, 8, 33, 70)))
    keys = int(case.pick((1, 7, 64, 65, 100)))
    far_apart = 10 if case.mark("large", 4) else 1  # scores of hundreds
    q = case.operand(case.values([batch, heads, rows, size], dtype, far_apart))
    k = case.operand(case.values([batch, heads, keys, size], dtype, far_apart), False)
    v = case.operand(case.values([batch, heads, keys, size], dtype), False)
    turned = case.node("Transpose", k, perm=[0, 1, 3, 2])
    scale = case.operand(np.asarray(1 / np.sqrt(size), dtype), True)
    scores = case.node("Mul", case.node("MatMul", q, turned), scale)
    if case.chance(2):
        mask = case.values([case.pick((1, batch)), 1, case.pick((1, rows)), keys], dtype)
        scores = case.node("Add", scores, case.operand(mask))
    elif case.chance(2):
        mask = case.values([case.pick((1, batch)), 1, case.pick((1, rows)), keys], np.bool_)
        mask[..., 0] = True
        low = case.operand(np.asarray(-100, dtype), True)
        scores = case.node("Where", case.operand(mask), scores, low)
    case.loose, case.between = 32, 2
    made = case.node("MatMul", case.node("Softmax", scores, axis=-1), v)
    if case.chance(2):
        case.node("Transpose", made, perm=[0, 2, 1, 3])


def rotary(case: Case) -> None:
    """The halves of rows, turned by angles."""
    dtype = case.pick(FLOATS)
    half = case.size(40)
    shape = [*case.shape(2, 40), 2 * half]
    x = case.operand(case.values(shape, dtype))
    c, s = (case.operand(case.values(case.pick((shape, shape[1:], shape[2:])), dtype))
            for _ in range(2))
    first, second = case.node("Split", x, case.ints(half, half), outputs=2, axis=2)
    turned = case.node("Concat", case.node("Neg", second), first, axis=2)
    case.loose, case.between = 4, 2
    case.node("Add", case.node("Mul", x, c), case.node("Mul", turned, s))


def mixed(case: Case) -> None:
    """Casts between float types in front of an operator and behind it."""
    source, middle, target = (case.pick(FLOATS) for _ in range(3))
    m, n = case.size(64), case.size(64)

    def given(array: np.ndarray, constant: bool | None = None) -> str:
        made = case.operand(np.asarray(array).astype(source), constant)
        return case.node("Cast", made, to=helper.np_dtype_to_tensor_dtype(np.dtype(middle)))

    case.loose, case.between = 16, 4  # both operands, the result, and a sum with it
    case.coarse = max(source, middle, target, key=lambda t: float(ml_dtypes.finfo(t).eps))
    x = given(case.values([m, n], np.float32, 0.5))
    op = case.pick(("Sigmoid", "Relu", "MatMul", "Add", "Sub", "Pow", "Softmax", "ReduceSum", "Conv",
                    "LayerNormalization", "BatchNormalization", "GRU"))
    if op == "MatMul":
        made = case.node(op, x, given(case.values([n, 16], np.float32, 0.2)))
        if case.chance(2):
            made = case.node("Add", made, given(case.values([16], np.float32)))
    elif op == "Conv":
        image = case.node("Unsqueeze", x, case.ints(0, 3))
        w = given(case.values([8, m, 1, 1], np.float32, 0.2), True)
        made = case.node(op, image, w)
    elif op in ("Add", "Sub", "Pow"):
        if op == "Pow":
            x = case.node("Abs", x)
        made = case.node(op, x, given(case.values([m, n], np.float32) + (2 if op == "Pow" else 0)))
    elif op == "LayerNormalization":
        made = case.node(op, x, given(case.values([n], np.float32)), given(case.values([n], np.float32)))
    elif op == "BatchNormalization":
        made = case.node(op, x, *(given(np.abs(case.values([n], np.float32)) + 0.5) for _ in range(4)))
    elif op == "GRU":
        hidden = case.size(20)
        sizes = ([1, 3 * hidden, n], [1, 3 * hidden, hidden], [1, 6 * hidden])
        made = case.node("Unsqueeze", x, case.ints(0))
        made, last = case.node(op, made, *(given(case.values(s, np.float32, 0.2)) for s in sizes),
                               outputs=2, hidden_size=hidden, layout=1)
        case.node("Cast", last, to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))
    else:
        made = case.node(op, x)
    case.node("Cast", made, to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


def residual(case: Case) -> None:
    """A sum in 16 bit that a norm widens, whose result is read in float and in 16 bit; a product of that,
    with an activation in float."""
    low = case.pick(FLOATS[1:])
    rows, n, k = case.size(40), case.size(200), case.size(60)
    to_float = {"to": helper.np_dtype_to_tensor_dtype(np.dtype(np.float32))}
    to_low = {"to": helper.np_dtype_to_tensor_dtype(np.dtype(low))}
    case.loose, case.between, case.coarse = 16, 4, low
    summed = case.node("Add", case.operand(case.values([rows, n], low)),
                       case.operand(case.values([rows, n], low), False))
    if case.chance(2):
        case.node("Cast", case.node("Neg", summed), **to_float)
    factors = [case.operand(case.values([n], np.float32), True) for _ in range(2)]
    made = case.node("LayerNormalization", case.node("Cast", summed, **to_float), *factors)
    if case.chance(2):
        case.node("Add", made, case.operand(case.values([rows, n], np.float32)))
    weights = case.operand(case.values([n, k], low, 1 / np.sqrt(n)), True)
    product = case.node("MatMul", case.node("Cast", made, **to_low), weights)
    if case.chance(2):
        product = (case.node("Transpose", product) if case.chance(2) else
                   case.node("Reshape", product, case.ints(k, rows)))
    made = case.node(case.pick(("Gelu", "Sigmoid", "Relu")), case.node("Cast", product, **to_float))
    case.node("Cast", made, **to_low)


def recurrent(case: Case) -> None:
    """A layer of every kind, with what of its attributes and operands there may be."""
    op, dtype = case.pick(("RNN", "GRU", "LSTM")), case.pick(FLOATS)
    gates, acts = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}[op]
    direction = case.pick(("forward", "reverse", "bidirectional"))
    ways, layout = 1 + (direction == "bidirectional"), int(case.rng.integers(2))
    length, batch = int(case.pick((0, 1, 2, 5, 9))), int(case.pick((1, 1, 2, 4, 5, 9)))
    inner, hidden = case.size(40), case.size(70)
    scale = 1 / np.sqrt(hidden)
    attributes: dict[str, object] = {"direction": direction, "layout": layout, "hidden_size": hidden}
    if case.chance(3):
        names = ("Tanh", "Sigmoid", "HardSigmoid", "LeakyRelu", "Affine", "ScaledTanh", "Softsign",
                 "Elu", "Relu", "ThresholdedRelu", "Softplus")
        attributes["activations"] = [str(case.pick(names[:-1])) for _ in range(ways * acts)]
        attributes["activations"][0] = str(case.pick(names))
        attributes["activation_alpha"] = [0.5] * int(case.rng.integers(1, 4))
    if case.chance(3):
        attributes["clip"] = 0.75
    if op == "GRU":
        attributes["linear_before_reset"] = int(case.rng.integers(2))
    if op == "LSTM":
        attributes["input_forget"] = int(case.chance(4))
    turned = [batch, length] if layout else [length, batch]
    state = [batch, ways, hidden] if layout else [ways, batch, hidden]
    names = [case.operand(case.values([*turned, inner], dtype), False),
             case.operand(case.values([ways, gates * hidden, inner], dtype, 1 / np.sqrt(inner)), not case.chance(4)),
             case.operand(case.values([ways, gates * hidden, hidden], dtype, scale), not case.chance(4))]
    lengths = case.rng.integers(0, length + 1, batch).astype(np.int32)
    more = [case.operand(case.values([ways, 2 * gates * hidden], dtype, scale), True), case.operand(lengths),
            case.operand(case.values(state, dtype, 0.5))]
    if op == "LSTM":
        more += [case.operand(case.values(state, dtype, 0.5)),
                 case.operand(case.values([ways, 3 * hidden], dtype, 0.3), True)]
    given = [name if case.chance(2) else "" for name in more]
    for name in set(more) - set(given):
        case.feeds.pop(name, None)
        case.constants.pop(name, None)
    case.loose = 64
    case.node(op, *names, *given, outputs=3 if op == "LSTM" else 2, **attributes)


MAKERS: tuple[Callable[[Case], None], ...] = (
    unary, unary, cast, binary, binary, compare, where, clip, transpose, concat, split, slices, gather,
    expand, softmax, reduce, norm, first, matmul, gemm, conv, conv, tiles, pool, attention, attention, network, rotary, mixed,
    residual, recurrent, pad, filled, tiled, indexed, along, resize, sampled, transposed,
    quantized, einsum, bits, bits, marked, found, neighbors, heads, heads, turned_heads, few, deep, pooled, table)
# What once went beyond the tolerance, or what few mutants show in, by seeds that maker_of gives to others now.
KEPT: dict[str, tuple[int, ...]] = {}
BY_NAME = {maker.__name__: maker for maker in MAKERS}


def maker_of(seed: int) -> str:
    """Of random cases: the makers by turns."""
    return MAKERS[seed % len(MAKERS)].__name__


def build(maker: str, seed: int) -> Case:
    """What it makes; without nodes where there is no such model."""
    case = Case(np.random.default_rng([seed, 17]))
    BY_NAME[maker](case)
    return case
