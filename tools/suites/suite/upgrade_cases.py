# SPDX-License-Identifier: Apache-2.0
"""Small models of old opsets, one a kind of step between operator versions, with what they compute.

The backend data has few models of each old version. Where an engine runs the old version, its
results are what counts; `want` is for versions that no engine runs and says, in numpy, what the
definition of that version says.
"""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@dataclasses.dataclass
class Made:
    """A model, its inputs, and its outputs where no engine can tell."""

    name: str
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    want: list[np.ndarray] | None = None


def data(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape) * 7 + len(shape))
    return rng.standard_normal(shape).astype(np.float32)


def made(name: str, opset: int, nodes: list[onnx.NodeProto], feeds: dict[str, np.ndarray],
         outputs: list[str], want: list[np.ndarray] | None = None,
         constants: dict[str, np.ndarray] | None = None,
         out_types: dict[str, int] | None = None, shapes: bool = True) -> Made:
    ir = 3 if opset < 9 else 8
    inputs = [helper.make_tensor_value_info(
        k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape if shapes else [f"{k}{i}" for i in
                                                                            range(v.ndim)])
        for k, v in feeds.items()]
    tensors = [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()]
    if ir < 4:
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    results = [helper.make_tensor_value_info(o, (out_types or {}).get(o, FLOAT), None)
               for o in outputs]
    graph = helper.make_graph(nodes, name, inputs, results, tensors)
    model = helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", opset)])
    return Made(name, model, feeds, want)


def flat(function, x: np.ndarray, axis: int) -> np.ndarray:
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    return function(rows).reshape(x.shape)


def softmax(rows: np.ndarray) -> np.ndarray:
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def hardmax(rows: np.ndarray) -> np.ndarray:
    return np.eye(rows.shape[1], dtype=rows.dtype)[rows.argmax(axis=1)]


def softmaxes() -> list[Made]:
    cases = []
    for op, function in [("Softmax", softmax), ("LogSoftmax", lambda r: np.log(softmax(r))),
                         ("Hardmax", hardmax)]:
        for axis in (None, 0, 1, 2, 3, -1, -2):
            for shapes in (True, False):
                x, attrs = data(2, 3, 4, 5), {} if axis is None else {"axis": axis}
                node = helper.make_node(op, ["x"], ["y"], **attrs)
                real = 1 if axis is None else axis % 4
                cases.append(made(f"{op}_{axis}_{shapes}", 11, [node], {"x": x}, ["y"],
                                  [flat(function, x, real)], shapes=shapes))
        node = helper.make_node(op, ["x"], ["y"], axis=1)
        cases.append(made(f"{op}_ones", 9, [node], {"x": data(2, 3, 1, 1)}, ["y"]))
    return cases


def broadcasts() -> list[Made]:
    x, c, last = data(2, 3, 4, 5), data(3, 4), data(4, 5)
    cases = []
    for op, function in [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply),
                         ("Div", np.divide)]:
        for axis in (1, -3):
            node = helper.make_node(op, ["x", "c"], ["y"], broadcast=1, axis=axis)
            cases.append(made(f"{op}_axis{axis}", 6, [node], {"x": x, "c": c}, ["y"],
                              [function(x, c[..., None])]))
        node = helper.make_node(op, ["x", "l"], ["y"], broadcast=1)
        cases.append(made(f"{op}_suffix", 6, [node], {"x": x, "l": last}, ["y"],
                          [function(x, last)]))
    node = helper.make_node("Greater", ["x", "c"], ["y"], broadcast=1, axis=1)
    cases.append(made("Greater_axis", 1, [node], {"x": x, "c": c}, ["y"], [x > c[..., None]],
                      out_types={"y": BOOL}))
    slope = data(3)
    node = helper.make_node("PRelu", ["x", "s"], ["y"])
    cases.append(made("PRelu_channels", 6, [node], {"x": x, "s": slope}, ["y"],
                      [np.where(x < 0, x * slope[:, None, None], x)]))
    a, b, bias = data(2, 3), data(3, 4), data(4)
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], broadcast=1)
    cases.append(made("Gemm_broadcast", 6, [node], {"a": a, "b": b, "c": bias}, ["y"],
                      [a @ b + bias]))
    return cases


def resizes() -> list[Made]:
    cases, x = [], data(1, 2, 7, 6)
    for mode in ("nearest", "linear"):
        for h, w in ((2, 3), (1.7, 2.3)):
            scales = np.array([1, 1, h, w], np.float32)
            node = helper.make_node("Upsample", ["x", "s"], ["y"], mode=mode)
            cases.append(made(f"Upsample9_{mode}_{h}", 9, [node], {"x": x}, ["y"],
                              constants={"s": scales}))
            cases.append(made(f"Upsample9_{mode}_{h}_fed", 9, [node], {"x": x, "s": scales}, ["y"]))
            node = helper.make_node("Upsample", ["x"], ["y"], mode=mode, scales=[1.0, 1.0, h, w])
            cases.append(made(f"Upsample7_{mode}_{h}", 7, [node], {"x": x}, ["y"]))
        for h, w in ((2, 3), (0.6, 0.5), (0.6, 1.0), (2.0, 0.6), (0.7, 3.0)):
            scales = np.array([1, 1, h, w], np.float32)
            node = helper.make_node("Resize", ["x", "s"], ["y"], mode=mode)
            cases.append(made(f"Resize10_{mode}_{h}_{w}", 10, [node], {"x": x}, ["y"],
                              constants={"s": scales}))
            cases.append(made(f"Resize10_{mode}_{h}_{w}_fed", 10, [node],
                              {"x": x, "s": scales}, ["y"]))
    none, sizes = np.zeros(0, np.float32), np.array([1, 2, 3, 9], np.int64)
    for how in ("half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn"):
        for nearest in ("floor", "round_prefer_floor", "ceil"):
            if how == "tf_half_pixel_for_nn" and nearest == "ceil":
                continue
            node = helper.make_node("Resize", ["x", "none", "none", "sizes"], ["y"],
                                    coordinate_transformation_mode=how, nearest_mode=nearest)
            cases.append(made(f"Resize11_{how}_{nearest}", 11, [node], {"x": x}, ["y"],
                              constants={"none": none, "sizes": sizes}))
    node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0,
                            mode="nearest")
    cases.append(made("Upsample1", 1, [node], {"x": x}, ["y"],
                      [x.repeat(2, axis=2).repeat(3, axis=3)]))
    return cases


def norms() -> list[Made]:
    cases, x = [], data(2, 4, 3, 3)
    scale, bias, mean = data(4), data(4) * 2, data(4) / 2
    var = np.abs(data(4)) + 0.5
    stats = {"s": scale, "b": bias, "m": mean, "v": var}
    shape = (1, 4, 1, 1)
    tested = ((x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5) *
              scale.reshape(shape) + bias.reshape(shape))
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], is_test=1,
                            spatial=1)
    cases.append(made("BatchNormalization6_test", 6, [node], {"x": x, **stats}, ["y"], [tested]))
    now, spread = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    trained = ((x - now.reshape(shape)) / np.sqrt(spread.reshape(shape) + 1e-5) *
               scale.reshape(shape) + bias.reshape(shape))
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])
    cases.append(made("BatchNormalization6_train", 6, [node], {"x": x, **stats}, ["y"], [trained]))
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"],
                            ["y", "rm", "rv", "sm", "sv"])
    cases.append(made("BatchNormalization9_train", 9, [node], {"x": x, **stats},
                      ["y", "rm", "rv"], [trained, mean * 0.9 + now * 0.1,
                                          var * 0.9 + spread * 0.1]))
    two, shift = data(2), data(2) + 1
    grouped = x.reshape(2, 2, -1)
    grouped = ((grouped - grouped.mean(axis=2, keepdims=True)) /
               np.sqrt(grouped.var(axis=2, keepdims=True) + 1e-5))
    want = (grouped * two[:, None] + shift[:, None]).reshape(x.shape)
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    for shapes in (True, False):
        cases.append(made(f"GroupNormalization18_{shapes}", 18, [node],
                          {"x": x, "s": two, "b": shift}, ["y"], [want], shapes=shapes))
    for opset in (1, 6):
        node = helper.make_node("Dropout", ["x"], ["y", "mask"], is_test=1, ratio=0.3)
        cases.append(made(f"Dropout{opset}_test", opset, [node], {"x": x}, ["y"], [x]))
    node = helper.make_node("Dropout", ["x"], ["y", "mask"], ratio=0.3)
    cases.append(made("Dropout7", 7, [node], {"x": x}, ["y"], [x]))
    return cases


def moves() -> list[Made]:
    x, cases = data(1, 4, 6), []
    one = helper.make_node

    def add(name, opset, node, feeds=None, outputs=("y",), want=None, types=None, constants=None):
        cases.append(made(name, opset, [node], feeds or {"x": x}, list(outputs), want, constants,
                          types))
    for opset in (1, 7, 9):
        add(f"Slice{opset}", opset, one("Slice", ["x"], ["y"], starts=[1, -3], ends=[3, 100],
                                        axes=[1, 2]), want=[x[:, 1:3, -3:]])
        add(f"Slice{opset}_noaxes", opset, one("Slice", ["x"], ["y"], starts=[0, 1],
                                               ends=[1, -1]), want=[x[0:1, 1:-1]])
    add("Squeeze", 11, one("Squeeze", ["x"], ["y"], axes=[0]))
    add("Squeeze_all", 11, one("Squeeze", ["x"], ["y"]))
    add("Unsqueeze", 11, one("Unsqueeze", ["x"], ["y"], axes=[0, -1]))
    for op in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split():
        positive = {"x": np.abs(x) + 0.1}
        for opset in (7, 11, 12):
            add(f"Reduce{op}{opset}", opset, one(f"Reduce{op}", ["x"], ["y"], axes=[1]), positive)
            add(f"Reduce{op}{opset}_all", opset, one(f"Reduce{op}", ["x"], ["y"], keepdims=0),
                positive)
    add("Clip", 6, one("Clip", ["x"], ["y"], min=-0.5, max=0.25), want=[np.clip(x, -0.5, 0.25)])
    add("Clip_max", 7, one("Clip", ["x"], ["y"], max=0.25))
    half = x.astype(np.float16)
    add("Clip_half", 7, one("Clip", ["x"], ["y"], max=0.25), {"x": half},
        want=[np.minimum(half, np.float16(0.25))], types={"y": TensorProto.FLOAT16})
    for mode in ("constant", "edge", "reflect"):
        add(f"Pad_{mode}", 7, one("Pad", ["x"], ["y"], pads=[0, 1, 2, 0, 1, 0], mode=mode,
                                  value=1.5))
    add("Pad1", 1, one("Pad", ["x"], ["y"], paddings=[0, 1, 2, 0, 1, 0], value=1.5),
        want=[np.pad(x, ((0, 0), (1, 1), (2, 0)), constant_values=1.5)])
    add("TopK", 7, one("TopK", ["x"], ["y", "i"], k=3), outputs=("y", "i"), types={"i": INT64})
    add("Split", 7, one("Split", ["x"], ["y", "z"], axis=1, split=[1, 3]), outputs=("y", "z"))
    add("Split_equal", 7, one("Split", ["x"], ["y", "z"], axis=2), outputs=("y", "z"))
    add("Split1", 1, one("Split", ["x"], ["y", "z"], axis=1, split=[1, 3]), outputs=("y", "z"),
        want=[x[:, :1], x[:, 1:]])
    add("Reshape1", 1, one("Reshape", ["x"], ["y"], shape=[0, -1]), want=[x.reshape(1, -1)])
    add("Concat1", 1, one("Concat", ["x", "x"], ["y"]), want=[np.concatenate([x, x], axis=1)])
    add("Cast1", 1, one("Cast", ["x"], ["y"], to="INT64"), want=[x.astype(np.int64)],
        types={"y": INT64})
    add("Selu1", 1, one("Selu", ["x"], ["y"]),
        want=[1.0507 * np.where(x > 0, x, 1.6732 * (np.exp(x) - 1))])
    add("DFT", 17, one("DFT", ["x"], ["y"]), {"x": data(2, 8, 1)})
    add("DFT_axis", 17, one("DFT", ["x"], ["y"], axis=2), {"x": data(2, 8, 4, 1)})
    grid = np.tanh(data(1, 3, 3, 2))
    for mode in ("bilinear", "bicubic", "nearest", None):
        attrs = {"mode": mode} if mode else {}
        add(f"GridSample_{mode}", 16, one("GridSample", ["x", "g"], ["y"], **attrs),
            {"x": data(1, 2, 5, 5), "g": grid})
    boxes = np.array([[0, 0, 6, 6], [1, 2, 5, 5]], np.float32)
    add("RoiAlign", 10, one("RoiAlign", ["x", "r", "i"], ["y"], output_height=2, output_width=2,
                            sampling_ratio=2),
        {"x": data(1, 2, 7, 7), "r": boxes, "i": np.zeros(2, np.int64)})
    indices = np.array([[1, 0, 2]], np.int64)
    add("Scatter", 9, one("Scatter", ["x", "i", "u"], ["y"], axis=0),
        {"x": data(3, 3), "i": indices, "u": data(1, 3)})
    onehot = np.zeros((4, 3), np.float32)
    onehot[1, 2] = 1
    for dtype in (np.int64, np.int32, np.float32):
        add(f"OneHot_{np.dtype(dtype)}", 9, one("OneHot", ["i", "d", "v"], ["y"]),
            {"i": np.array([-1, 2, 3, -3], dtype)}, want=[onehot],
            constants={"d": np.array(3, np.int64), "v": np.array([0, 1], np.float32)})
    add("LpPool1", 1, one("LpPool", ["x"], ["y"], p=2.0, kernel_shape=[2]))
    return cases


def scans() -> list[Made]:
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["o"])],
        "body", [helper.make_tensor_value_info(n, FLOAT, [2]) for n in ("s", "e")],
        [helper.make_tensor_value_info(n, FLOAT, [2]) for n in ("t", "o")])
    cases, start, x = [], data(3, 2), data(3, 4, 2)
    for reverse in (0, 1):
        node = helper.make_node("Scan", ["", "i", "x"], ["y", "z"], body=body, num_scan_inputs=1,
                                directions=[reverse])
        steps = x[:, ::-1] if reverse else x
        sums = start[:, None] + np.cumsum(steps, axis=1)
        cases.append(made(f"Scan8_{reverse}", 8, [node], {"i": start, "x": x}, ["y", "z"],
                          [sums[:, -1], sums]))
    return cases


def all_cases() -> list[Made]:
    return [*softmaxes(), *broadcasts(), *resizes(), *norms(), *moves(), *scans()]
