#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Narrow formats: float8, MXFP8, MXFP4, NVFP4, int2. DequantizeLinear and QuantizeLinear of every type that ONNX has
for them, by tensor, by channel and in blocks, give the bits of ONNX's reference. What convert writes passes ONNX's full
checker; its weights, as the reference makes them float, are those that demi runs, that --to float32 stores and, within
what a format can hold, those of the source. Each runtime takes a format, or is refused by name.

    tools/suites/formats_test.py --libdemi build/release/libdemi.so
"""

import itertools
import sys
import unittest

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from suite.package import demi, library_option, session

FLOATS8 = {TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
           TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz}
INTEGERS = {TensorProto.INT2: ml_dtypes.int2, TensorProto.UINT2: ml_dtypes.uint2, TensorProto.INT4: ml_dtypes.int4,
            TensorProto.UINT4: ml_dtypes.uint4, TensorProto.INT8: np.int8, TensorProto.UINT8: np.uint8}
SMALL = {TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn, TensorProto.FLOAT6E2M3: ml_dtypes.float6_e2m3fn,
         TensorProto.FLOAT6E3M2: ml_dtypes.float6_e3m2fn}
ROWS, COLUMNS, BLOCK = 24, 40, 16
OPSET = 28
# By --to: type of the numbers and of their scales, block, least opset, and the least SQNR of weights of a bell, in dB.
WEIGHTS = {
    "fp8-weights": (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT, 0, 19, 31),
    "mxfp8-weights": (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E8M0, 32, 24, 31),
    "mxfp4-weights": (TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E8M0, 32, 24, 18),
    "nvfp4-weights": (TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E4M3FN, 16, 23, 20),
    "int2-weights": (TensorProto.UINT2, TensorProto.FLOAT, 32, 25, 8),
}
TAKEN = {  # as passes/front/runtimes.def says
    "fp8": {"openvino", "tensorrt", "demi"}, "fp8-weights": {"onnxruntime", "openvino", "tensorrt", "demi"},
    "mxfp8-weights": {"openvino", "demi"}, "mxfp4-weights": {"openvino", "demi"},
    "nvfp4-weights": {"openvino", "tensorrt", "demi"}, "int2-weights": {"onnxruntime", "demi"},
    "int8-dynamic": {"onnxruntime", "demi"},
}
RUNTIMES = ("onnxruntime", "openvino", "tensorrt", "qnn", "demi")


def sizes_of_scales(layout: str) -> tuple[list[int], dict[str, int]]:
    """Of a matrix: the scale's shape, and the attributes."""
    if layout == "tensor":
        return [], {}
    if layout.startswith("channel"):
        axis = int(layout[-1])
        return [(ROWS, COLUMNS)[axis]], {"axis": axis}
    axis = int(layout[-1])
    shape = [ROWS, COLUMNS]
    shape[axis] = -(-shape[axis] // BLOCK)
    return shape, {"axis": axis, "block_size": BLOCK}


LAYOUTS = ("tensor", "channel 0", "channel 1", "block 0", "block 1")


def model_of(node: onnx.NodeProto, constants: dict[str, np.ndarray], output: int, inputs: tuple | list = ()) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", list(inputs),
                              [helper.make_tensor_value_info("y", output, [ROWS, COLUMNS])], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=14)
    onnx.checker.check_model(made, full_check=True)
    return made


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def codes(rng: np.random.Generator, dtype: type) -> np.ndarray:
    """Every number of the type."""
    width = ml_dtypes.iinfo(dtype).bits if dtype in INTEGERS.values() else ml_dtypes.finfo(dtype).bits
    every = rng.integers(0, 1 << width, (ROWS, COLUMNS)).astype(np.uint8)
    if dtype in (np.int8, np.uint8):
        return every.view(dtype)
    if dtype in INTEGERS.values():
        low = ml_dtypes.iinfo(dtype).min
        return (every.astype(np.int32) + int(low)).astype(dtype)
    return every.view(dtype)


class Reads(unittest.TestCase):
    """One operator each."""

    def check(self, model: onnx.ModelProto, feeds: dict[str, np.ndarray] | None = None) -> None:
        want, = ReferenceEvaluator(model).run(None, feeds or {})
        for numerics in ("fast", "faithful"):
            have, = session(model, numerics=numerics).run(None, feeds or {})
            have = np.asarray(have)
            self.assertEqual(have.shape, want.shape)
            numbers = ~np.isnan(want.astype(np.float32))
            self.assertTrue((np.isnan(have.astype(np.float32)) == ~numbers).all())
            self.assertEqual(bits(have.astype(np.float32)[numbers]), bits(want.astype(np.float32)[numbers]))

    def test_dequantize(self) -> None:
        rng = np.random.default_rng(0)
        kinds = FLOATS8 | INTEGERS | SMALL
        for (kind, dtype), layout, scales in itertools.product(kinds.items(), LAYOUTS,
                                                               (np.float32, np.float16, ml_dtypes.float8_e8m0fnu)):
            shape, attributes = sizes_of_scales(layout)
            scale = np.exp2(rng.uniform(-6, 3, shape)).astype(scales)
            constants = {"x": codes(rng, dtype), "s": scale}
            names = ["x", "s"]
            if kind in INTEGERS:
                low, high = (int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max))
                constants["z"] = rng.integers(low, high + 1, shape).astype(dtype)
                names.append("z")
            output = {np.float16: TensorProto.FLOAT16}.get(scales, TensorProto.FLOAT)
            if scales is ml_dtypes.float8_e8m0fnu:
                attributes["output_dtype"] = output
            with self.subTest(type=TensorProto.DataType.Name(kind), layout=layout, scales=scales.__name__):
                self.check(model_of(helper.make_node("DequantizeLinear", names, ["y"], **attributes), constants, output))

    def test_quantize(self) -> None:
        rng = np.random.default_rng(1)
        x = (rng.standard_normal((ROWS, COLUMNS)) * np.exp2(rng.uniform(-8, 8, (ROWS, COLUMNS)))).astype(np.float32)
        x[0, :6] = 0, -0.0, 1e6, -1e6, 448, 464
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
        for (kind, dtype), layout, scales in itertools.product((FLOATS8 | INTEGERS | SMALL).items(), LAYOUTS,
                                                               (np.float32, ml_dtypes.float8_e8m0fnu)):
            shape, attributes = sizes_of_scales(layout)
            scale = np.exp2(rng.uniform(-4, 2, shape)).astype(scales)
            node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=kind, **attributes)
            if scales is ml_dtypes.float8_e8m0fnu:  # the reference has no such division
                node.attribute.append(helper.make_attribute("precision", TensorProto.FLOAT))
            with self.subTest(type=TensorProto.DataType.Name(kind), layout=layout, scales=scales.__name__):
                self.check(model_of(node, {"s": scale}, kind, given), {"x": x})

    def test_two_levels(self) -> None:
        """Scales of blocks that are quantized themselves: folded, and stored with the result's type."""
        rng = np.random.default_rng(2)
        shape, attributes = sizes_of_scales("block 0")
        constants = {"x": codes(rng, ml_dtypes.float4_e2m1fn), "whole": np.float32(3e-3),
                     "t": np.exp2(rng.uniform(-6, 8, shape)).astype(ml_dtypes.float8_e4m3fn)}
        model = model_of(helper.make_node("DequantizeLinear", ["x", "s"], ["y"], **attributes),
                         constants | {"s": np.ones(shape, np.float32)}, TensorProto.FLOAT)
        del model.graph.initializer[-1]
        model.graph.node.insert(0, helper.make_node("DequantizeLinear", ["t", "whole"], ["s"]))
        self.check(model)
        self.check(demi.simplify(model)[0])


def network() -> onnx.ModelProto:
    """Two products, one of which has a bias, a filter, and a table."""
    rng = np.random.default_rng(3)
    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)
    weights = {"w": normal(64, 96) / 8, "b": normal(96) / 8, "v": normal(48, 96) / 10, "c": normal(8, 3, 3, 3) / 5}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "b"], ["d"]),
             helper.make_node("Relu", ["d"], ["r"]), helper.make_node("Gemm", ["r", "v"], ["y"], transB=1),
             helper.make_node("Conv", ["i", "c"], ["z"], pads=[1] * 4)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [4, 64]), value("i", 1, [1, 3, 8, 8])],
                              [value("y", 1, [4, 48]), value("z", 1, [1, 8, 8, 8])],
                              [numpy_helper.from_array(w, name) for name, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feeds_of(seed: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((4, 64)).astype(np.float32), "i": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)}


def tensors(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    return {t.name: t for t in model.graph.initializer}


def only_weights(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """What makes that weight float."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    nodes = [n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in tensors(model)]
    del made.graph.node[:], made.graph.input[:], made.graph.output[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return made


def weights_of(model: onnx.ModelProto, name: str) -> np.ndarray:
    return ReferenceEvaluator(only_weights(model, name)).run([name], {})[0]


def sqnr(want: np.ndarray, have: np.ndarray) -> float:
    return float(10 * np.log10((want.astype(np.float64) ** 2).sum() / ((want - have).astype(np.float64) ** 2).sum()))


class Writes(unittest.TestCase):
    def convert(self, model: onnx.ModelProto, **how: object) -> onnx.ModelProto:
        made = demi.convert(model, **how)[0]
        onnx.checker.check_model(made, full_check=True)
        return made

    def test_weights(self) -> None:
        source = network()
        for to, (numbers, scales, block, opset, least) in WEIGHTS.items():
            made = self.convert(source, to=to)
            stored = tensors(made)
            back = tensors(demi.convert(made, to="float32")[0])
            self.assertEqual(made.opset_import[0].version, opset)
            for name in "wv":
                with self.subTest(to=to, weights=name):
                    node = next(n for n in made.graph.node if name in n.output)
                    scale = next((n.input[0] for n in made.graph.node if node.input[1] in n.output), node.input[1])
                    axis = helper.get_attribute_value(next(a for a in node.attribute if a.name == "axis"))
                    self.assertEqual(stored[node.input[0]].data_type, numbers)
                    self.assertEqual(stored[scale].data_type, scales)
                    sizes = list(numpy_helper.to_array(tensors(source)[name]).shape)
                    if block:
                        sizes[axis] = -(-sizes[axis] // block)
                    self.assertEqual(list(stored[scale].dims), sizes if block else [sizes[axis]])
                    want = weights_of(made, name)
                    have, = session(only_weights(made, name), numerics="faithful").run(None, {})
                    self.assertEqual(bits(have), bits(want))
                    self.assertEqual(bits(numpy_helper.to_array(back[name])), bits(want))
                    self.assertGreater(sqnr(numpy_helper.to_array(tensors(source)[name]), want), least)
            feeds = feeds_of()
            want = ReferenceEvaluator(made).run(None, feeds)
            for numerics in ("fast", "faithful"):
                for a, b in zip(session(made, numerics=numerics).run(None, feeds), want):
                    if numerics == "fast" and to == "int2-weights" and a.ndim == 2:  # rows of products are rounded, too
                        self.assertGreater(sqnr(b, a), 35)
                    else:
                        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * np.abs(b).max())

    def test_rests(self) -> None:
        """Scales of their own stay so; what is dequantized has the type of the rest."""
        source, feeds = network(), feeds_of()
        want = session(source).run(None, feeds)
        for to, rest in itertools.product([*WEIGHTS, "fp8"], ("float16", "bfloat16")):
            made = self.convert(source, to=to, rest=rest, **({"calibrate": feeds} if to == "fp8" else {}))
            with self.subTest(to=to, rest=rest):
                casts = sum(n.op_type == "Cast" for n in made.graph.node)
                self.assertLessEqual(casts, 4)  # of inputs and outputs
                for a, b in zip(session(made).run(None, feeds), want):
                    self.assertGreater(sqnr(b, a), 6)

    def test_gptq(self) -> None:
        """Rounded on data, weights have the same form, and what the product gives is closer."""
        source = network()
        rng = np.random.default_rng(5)
        mixed = rng.standard_normal((64, 64)).astype(np.float32) / 4
        sets = [{"x": (feeds_of(s)["x"] @ mixed).astype(np.float32), "i": feeds_of(s)["i"]} for s in range(40)]
        fresh = {"x": np.concatenate([(feeds_of(s)["x"] @ mixed).astype(np.float32) for s in range(50, 51)]), "i": feeds_of()["i"]}
        want = session(source).run(["y"], fresh)[0]
        for to in WEIGHTS:
            with self.subTest(to=to):
                near, ours = self.convert(source, to=to), self.convert(source, to=to, calibrate=sets)
                self.assertEqual([(t.name, t.data_type, t.dims) for t in near.graph.initializer],
                                 [(t.name, t.data_type, t.dims) for t in ours.graph.initializer])
                self.assertGreater(sqnr(want, session(ours).run(["y"], fresh)[0]),
                                   sqnr(want, session(near).run(["y"], fresh)[0]) + .5)

    def test_fp8(self) -> None:
        source, feeds = network(), feeds_of()
        made = self.convert(source, to="fp8", calibrate=feeds, calibration="minmax")
        stored = tensors(made)
        self.assertEqual(made.opset_import[0].version, 19)
        quantizers = {n.input[0]: n for n in made.graph.node if n.op_type == "QuantizeLinear"}
        self.assertEqual(set(quantizers), {"x", "r", "i"})  # what products read
        most = {"x": np.abs(feeds["x"]).max(), "i": np.abs(feeds["i"]).max()}
        for name, node in quantizers.items():
            scale, zero = (stored[n] for n in node.input[1:])
            self.assertEqual((zero.data_type, list(zero.dims)), (TensorProto.FLOAT8E4M3FN, []))
            if name in most:
                self.assertAlmostEqual(float(numpy_helper.to_array(scale)), float(most[name]) / 448, places=7)
        for name, axis in (("w", 1), ("v", 0), ("c", 0)):
            node = next(n for n in made.graph.node if name in n.output)
            self.assertEqual(list(stored[node.input[1]].dims), [numpy_helper.to_array(tensors(source)[name]).shape[axis]])
        self.assertEqual(stored["b"].data_type, TensorProto.FLOAT)
        reference = ReferenceEvaluator(made).run(None, feeds)
        for a, b, c in zip(session(made).run(None, feeds), reference, session(source).run(None, feeds)):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-2 * np.abs(b).max())
            self.assertGreater(sqnr(c, a), 24)
        whole = demi.run_passes(source, "infer-dtypes,upgrade-opset{to=19},infer-dtypes,infer-shapes,insert-qdq{weights=fp8,per-tensor=true}")[0]
        node = next(n for n in whole.graph.node if "w" in n.output)
        self.assertEqual(list(tensors(whole)[node.input[1]].dims), [])
        stripped = demi.convert(made, to="float32")[0]
        self.assertEqual([n.op_type for n in stripped.graph.node], [n.op_type for n in source.graph.node])

    def test_named(self) -> None:
        """Values and weights of a policy."""
        made = self.convert(network(), to="float32", opset=25, policy='{"values": {"x": "fp8"}, "ranges": {"x": [-3, 2]}, '
                            '"weights": {"w": "nvfp4", "v": "mxfp8"}}')
        kinds = {t.name: t.data_type for t in made.graph.initializer}
        self.assertEqual({kinds[n.input[0]] for n in made.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in kinds},
                         {TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E4M3FN})
        self.assertEqual([n.input[0] for n in made.graph.node if n.op_type == "QuantizeLinear"], ["x"])

    def test_runtimes(self) -> None:
        source, feeds = network(), feeds_of()
        for to, runtime in itertools.product(TAKEN, RUNTIMES):
            how = {"to": to, "runtime": runtime} | ({"calibrate": feeds} if to == "fp8" else {})
            with self.subTest(**{k: how[k] for k in ("to", "runtime")}):
                if runtime in TAKEN[to]:
                    self.convert(source, **how)
                    continue
                with self.assertRaisesRegex(demi.UsageError, f"{runtime} does not take \\w+ (weights|activations)"):
                    self.convert(source, **how)

    def test_onnxruntime(self) -> None:
        """What it is said to take it runs at its default level."""
        feeds = feeds_of()
        for to in (to for to in WEIGHTS if "onnxruntime" in TAKEN[to]):
            made = self.convert(network(), to=to, runtime="onnxruntime")
            runs = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
            with self.subTest(to=to):
                for a, b in zip(runs.run(None, feeds), ReferenceEvaluator(made).run(None, feeds)):
                    np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * np.abs(b).max())

    def test_tensorrt(self) -> None:
        """One scale for a tensor of float8, which int8 has by channels."""
        for to, count in (("fp8", 0), ("fp8-weights", 0), ("int8-weights", 1)):
            how = {"calibrate": feeds_of()} if to == "fp8" else {}
            made = self.convert(network(), to=to, runtime="tensorrt", **how)
            node = next(n for n in made.graph.node if "w" in n.output)
            with self.subTest(to=to):
                self.assertEqual(len(tensors(made)[node.input[1]].dims), count)

    def test_wrong(self) -> None:
        for how, says in (({"to": "mxfp4-weights", "block": 16}, "'block' has no effect for mxfp4, whose blocks are of 32"),
                          ({"to": "fp8", "activations": "int8"}, "int8 activations do not go with fp8 weights"),
                          ({"to": "int8", "activations": "fp8"}, "fp8 activations do not go with int8 weights"),
                          ({"to": "fp8", "symmetric": True}, "'symmetric' only has an effect for int8")):
            with self.subTest(**how), self.assertRaisesRegex(demi.UsageError, says):
                demi.convert(network(), **how)


if __name__ == "__main__":
    library_option.parse_known_args()
    unittest.main(argv=[sys.argv[0], *library_option.parse_known_args()[1]])
