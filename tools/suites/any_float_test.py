# SPDX-License-Identifier: Apache-2.0
"""Any float in, any precision out: models in float32, float16, bfloat16 and double are converted to every target, with
every rest, and what comes is valid, loads in ONNX Runtime at its default level (but for bfloat16, which its CPU
provider has no kernels of) and computes what the source does. (judges/sources.py looks at types alone, of many
models.)"""

import itertools
import sys
import unittest

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from suite.engines import saturates
from suite.package import demi, session

NUMPY = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.DOUBLE: np.float64,
         TensorProto.BFLOAT16: ml_dtypes.bfloat16}
SIXTEEN = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
# Of the largest output, what a target may be off by. Small networks of random weights: averages help little.
LIMITS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2, "int8-weights": 2e-2, "int4-weights": .15,
          "fp8-weights": 8e-2, "int8": .15, "float16-weights": 2e-3, "bfloat16-weights": 2e-2}
WITHOUT_REST = ("float32", "float16", "bfloat16", "float16-weights", "bfloat16-weights")
ROUNDED = {TensorProto.FLOAT: 0, TensorProto.DOUBLE: 0, TensorProto.FLOAT16: 2e-3, TensorProto.BFLOAT16: 2e-2}
WORDS, WIDTH = 600, 32


def graph(dtype: int, nodes: list, weights: dict[str, np.ndarray], x: list, y: list, opset: int) -> onnx.ModelProto:
    def typed(name: str, dims: list) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.INT64 if name == "i" else dtype, dims)
    tensors = [numpy_helper.from_array(w.astype(NUMPY[dtype]), name) for name, w in weights.items()]
    made = helper.make_graph(nodes, "g", [typed(*x)], [typed(*y)], tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def network(dtype: int) -> onnx.ModelProto:
    """Products, a bias, a norm and a Softmax."""
    r = np.random.default_rng(0)
    weights = {"w": r.standard_normal((64, 96)) / 8, "b": r.standard_normal(96) / 8, "v": r.standard_normal((96, 32)) / 10,
               "g": np.ones(32), "z": np.zeros(32), "s": np.array(.5)}
    nodes = [helper.make_node(*n) for n in (("MatMul", ["x", "w"], ["a"]), ("Add", ["a", "b"], ["c"]),
                                             ("Relu", ["c"], ["d"]), ("MatMul", ["d", "v"], ["e"]),
                                             ("LayerNormalization", ["e", "g", "z"], ["f"]),
                                             ("Mul", ["f", "s"], ["h"]), ("Softmax", ["h"], ["y"]))]
    return graph(dtype, nodes, weights, ("x", ["B", 64]), ("y", ["B", 32]), 17)


def filters(dtype: int) -> onnx.ModelProto:
    """Convolutions, which have bfloat16 from opset 22 on."""
    r = np.random.default_rng(0)
    weights = {"w": r.standard_normal((8, 3, 3, 3)) / 5, "b": r.standard_normal(8) / 5,
               "d": r.standard_normal((8, 1, 3, 3)) / 3, "m": r.standard_normal((10, 8)) / 3, "c": r.standard_normal(10)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["e"], pads=[1] * 4), helper.make_node("Relu", ["e"], ["f"]),
             helper.make_node("Conv", ["f", "d"], ["h"], group=8, pads=[1] * 4),
             helper.make_node("GlobalAveragePool", ["h"], ["k"]), helper.make_node("Flatten", ["k"], ["l"]),
             helper.make_node("Gemm", ["l", "m", "c"], ["y"], transB=1)]
    return graph(dtype, nodes, weights, ("x", ["B", 3, 16, 16]), ("y", ["B", 10]), 22 if dtype == TensorProto.BFLOAT16 else 17)


def table(dtype: int) -> onnx.ModelProto:
    """Rows of a table, and a product."""
    r = np.random.default_rng(0)
    weights = {"t": r.standard_normal((WORDS, WIDTH)), "w": r.standard_normal((WIDTH, WIDTH)) / 6}
    nodes = [helper.make_node("Gather", ["t", "i"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["y"])]
    return graph(dtype, nodes, weights, ("i", ["B", "S"]), ("y", ["B", "S", WIDTH]), 17)


INPUTS = {network: (4, 64), filters: (2, 3, 16, 16), table: (2, 5)}


def value(make, dtype: int) -> tuple[str, np.ndarray]:  # noqa: ANN001
    r = np.random.default_rng(1)
    if make is table:
        return "i", r.integers(0, WORDS, INPUTS[make])
    return "x", r.standard_normal(INPUTS[make]).astype(NUMPY[dtype])


def has_bfloat16(model: onnx.ModelProto) -> bool:
    inferred = onnx.shape_inference.infer_shapes(model).graph
    return any(t.data_type == TensorProto.BFLOAT16 for t in inferred.initializer) or any(
        v.type.tensor_type.elem_type == TensorProto.BFLOAT16
        for v in [*inferred.input, *inferred.output, *inferred.value_info])


def run(model: onnx.ModelProto, name: str, x: np.ndarray) -> np.ndarray:
    data = model.SerializeToString()
    if has_bfloat16(model):
        return np.asarray(session(data).run(None, {name: x})[0]).astype(np.float64)
    options = onnxruntime.SessionOptions()
    if saturates():
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    runs = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return runs.run(None, {name: x})[0].astype(np.float64)


def casts(model: onnx.ModelProto) -> int:
    return sum(n.op_type == "Cast" for n in model.graph.node)


class AnyFloat(unittest.TestCase):
    def convert(self, model: onnx.ModelProto, **how: object) -> onnx.ModelProto:
        made = demi.convert(model, **how)[0]
        onnx.checker.check_model(made, full_check=True)
        return made

    def test_matrix(self) -> None:
        """Every source to every target with every rest."""
        for make, dtype in itertools.product(INPUTS, NUMPY):
            source, (name, x) = make(dtype), value(make, dtype)
            want = run(make(TensorProto.FLOAT), name, value(make, TensorProto.FLOAT)[1])
            for to, rest in itertools.product(LIMITS, ("", "float32", "float16", "bfloat16")):
                if rest and to in WITHOUT_REST:
                    continue
                how = {"to": to} | ({"rest": rest} if rest else {}) | ({"calibrate": "random"} if to == "int8" else {})
                with self.subTest(make=make.__name__, source=TensorProto.DataType.Name(dtype), **how):
                    made = self.convert(source, **how)
                    limit = LIMITS[to] + ROUNDED[dtype] + LIMITS.get(rest, 0)
                    self.assertLessEqual(np.abs(run(made, name, x) - want).max(), limit * np.abs(want).max())
                    weights = {t.data_type for t in made.graph.initializer} & set(NUMPY)
                    self.assertNotIn(TensorProto.DOUBLE, weights)
                    if (rest or to) == "float32":
                        self.assertLessEqual(weights, {TensorProto.FLOAT})
                    for kind in ("input", "output"):  # keep their types
                        self.assertEqual([v.type.tensor_type.elem_type for v in getattr(made.graph, kind)],
                                         [v.type.tensor_type.elem_type for v in getattr(source.graph, kind)])

    def test_same_type(self) -> None:
        """What is in the target already is written as it was."""
        for to, dtype in SIXTEEN.items():
            source = network(dtype)
            del source.graph.node[4:]  # LayerNormalization and Softmax would be float32
            source.graph.output[0].name = "e"
            self.assertEqual(demi.convert(source, to=to)[0], source)
            self.assertEqual(casts(self.convert(source, to="int8-weights")), 0)

    def test_scales_follow(self) -> None:
        """No cast stands between quantized values and a rest in 16 bits, but those at inputs and outputs."""
        for opset in (19, 21, 23):
            model = filters(TensorProto.FLOAT)
            model.opset_import[0].version = opset
            made = self.convert(model, to="int8", rest="float16", calibrate="random")
            self.assertLessEqual(casts(made), 1, opset)
            scales = {n.input[1] for n in made.graph.node if n.op_type == "DequantizeLinear"}
            kinds = {t.name: t.data_type for t in made.graph.initializer}
            self.assertIn(TensorProto.FLOAT16, {kinds[s] for s in scales})
            run(made, *value(filters, TensorProto.FLOAT))
        folded = filters(TensorProto.FLOAT)  # a value that was measured is gone
        folded.graph.node[0].output[0] = "p"
        folded.graph.node.insert(1, helper.make_node("BatchNormalization", ["p", *"ghkl"], ["e"]))
        for name, ones in zip("ghkl", (1, 0, 0, 1)):
            folded.graph.initializer.append(numpy_helper.from_array(np.full(8, ones, np.float32), f"n{name}"))
            folded.graph.node[1].input["ghkl".index(name) + 1] = f"n{name}"
        run(self.convert(folded, to="int8", rest="float16", calibrate="random"), *value(filters, TensorProto.FLOAT))

    def test_joins(self) -> None:
        """ONNX Runtime makes a QLinearConcat of a Concat between quantizers, whose scales must then be float32."""
        random = np.random.default_rng(8)
        nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["r"]),
                 helper.make_node("Conv", ["r", "v"], ["b"]), helper.make_node("Concat", ["r", "b"], ["c"], axis=1),
                 helper.make_node("Conv", ["c", "u"], ["y"])]
        weights = {"w": random.standard_normal((8, 3, 1, 1)), "v": random.standard_normal((8, 8, 1, 1)),
                   "u": random.standard_normal((4, 16, 1, 1))}
        x = random.standard_normal((1, 3, 8, 8)).astype(np.float32)
        for dtype in (TensorProto.FLOAT, TensorProto.FLOAT16):
            model = graph(dtype, nodes, weights, ("x", [1, 3, 8, 8]), ("y", [1, 4, 8, 8]), 21)
            for rest in ("keep", "float16"):
                made = self.convert(model, to="int8", rest=rest, calibrate="random")
                value = x.astype(NUMPY[dtype])
                joined = {n.output[0] for n in made.graph.node if n.op_type == "Concat"}
                quantized = any(n.op_type == "QuantizeLinear" and n.input[0] in joined for n in made.graph.node)
                self.assertTrue(quantized)
                want = run(model, "x", value)
                self.assertLess(np.square(run(made, "x", value) - want).sum(), 0.02 * np.square(want).sum())

    def test_quantized_source(self) -> None:
        """Quantized weights get 16 bits around them, or go back to float32."""
        for to in ("int8-weights", "int4-weights"):
            quantized = self.convert(network(TensorProto.FLOAT), to=to, opset=21)
            low = self.convert(quantized, to="float16")
            self.assertNotIn(TensorProto.FLOAT, {t.data_type for t in low.graph.initializer if len(t.dims) and t.dims[0] > 32})
            back = self.convert(quantized, to="float32")
            self.assertNotIn("DequantizeLinear", {n.op_type for n in back.graph.node})
            name, x = value(network, TensorProto.FLOAT)
            now, was = (session(m.SerializeToString(), numerics="faithful").run(None, {name: x})[0]
                        for m in (back, quantized))
            np.testing.assert_allclose(now, was, rtol=1e-4, atol=1e-5)

    def test_quantized_weights_with_activations(self) -> None:
        """Weights that are quantized alone are quantized anew beside activations: once."""
        name, x = value(network, TensorProto.FLOAT)
        for weights, to in itertools.product(("int8-weights", "int4-weights"), ("int8", "fp8")):
            source = self.convert(network(TensorProto.FLOAT), to=weights, opset=21)
            how = {"to": to, "calibrate": "random"}
            made = self.convert(source, **how)
            types = [t.data_type for t in made.graph.initializer if len(t.dims) == 2]
            self.assertEqual(types, [TensorProto.INT8 if to == "int8" else TensorProto.FLOAT8E4M3FN] * 2)
            was, now = (session(m.SerializeToString()).run(None, {name: x})[0] for m in (source, made))
            self.assertLess(np.abs(now - was).max(), LIMITS["int8"] * np.abs(was).max())
            self.assertEqual(self.convert(made, **how), made)
            kept = self.convert(source, **how, keep_ops=["MatMul"])
            self.assertEqual([t for t in kept.graph.initializer if t.name == "w_quantized"],
                             [t for t in source.graph.initializer if t.name == "w_quantized"])

    def test_tables(self) -> None:
        """A table is 8 bits an element, or 4, and rows alone become float; back again, and not where a product reads it."""
        model = table(TensorProto.FLOAT)
        name, i = value(table, TensorProto.FLOAT)
        for to, last, most in (("int8-weights", "Mul", 1.5), ("int4-weights", "Reshape", .9)):
            made = self.convert(model, to=to)
            self.assertLess(made.ByteSize(), most * WORDS * WIDTH)
            self.assertEqual([n.op_type for n in made.graph.node if "e" in n.output], [last])
            self.assertEqual(self.convert(made, to=to), made)
            back = self.convert(made, to="float32")
            self.assertEqual([n.op_type for n in back.graph.node], ["Gather", "MatMul"])
            now, was = (session(m.SerializeToString(), numerics="faithful").run(None, {name: i})[0] for m in (back, made))
            np.testing.assert_allclose(now, was, rtol=1e-4, atol=1e-5)
        for rest, most in (("keep", 5), ("int8-weights", 1.5)):
            made = self.convert(model, to="int8", rest=rest, calibrate="random")
            self.assertLess(made.ByteSize(), most * WORDS * WIDTH)
        tied = table(TensorProto.FLOAT)
        tied.graph.node.append(helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0]))
        tied.graph.node.append(helper.make_node("MatMul", ["y", "u"], ["z"]))
        tied.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["B", "S", WORDS]))
        run(self.convert(tied, to="int8-weights"), *value(table, TensorProto.FLOAT))

    def test_packed_tables(self) -> None:
        """Two elements in a byte have the bits that ONNX Runtime's operator reads, in any type, and streamed alike."""
        r = np.random.default_rng(2)
        some = r.standard_normal((WORDS, 272))  # 17 blocks of 16
        for dtype, times in ((TensorProto.FLOAT, 1), (TensorProto.FLOAT16, 1), (TensorProto.FLOAT16, 220)):
            model, rows = table(dtype), times * WORDS
            floats = np.tile(some.astype(NUMPY[dtype]), (times, 1))
            model.graph.initializer[0].CopyFrom(numpy_helper.from_array(floats, "t"))
            del model.graph.node[1], model.graph.output[:]
            model.graph.output.append(helper.make_tensor_value_info("e", dtype, ["B", "S", 272]))
            model.opset_import[0].version = 21
            made = self.convert(model, to="int4-weights")
            own = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
            numbers, scales, zeros = (own[f"t_{part}"] for part in ("quantized", "scale", "zero_point"))
            self.assertEqual((numbers.shape, scales.shape, zeros.shape), ((rows, 17, 8, 1), *[(rows, 17, 1, 1)] * 2))
            self.assertEqual((numbers.dtype, scales.dtype, zeros.dtype), (np.uint8, NUMPY[dtype], np.uint8))
            i = r.integers(-rows, rows, (3, 4))
            pairs = np.concatenate([numbers & 15, numbers >> 4], axis=-1)[i].astype(np.float32)
            want = ((pairs - zeros[i]).astype(NUMPY[dtype]) * scales[i]).reshape(3, 4, 272)
            np.testing.assert_array_equal(run(made, "i", i), want)
            np.testing.assert_array_equal(ReferenceEvaluator(made).run(None, {"i": i})[0], want)
            np.testing.assert_array_equal(session(made.SerializeToString(), numerics="faithful").run(None, {"i": i})[0], want)
            off = (floats[i] - want).astype(np.float64)
            self.assertLess((off ** 2).mean(), .01)  # of numbers of variance 1: 20 dB

    def test_tables_that_are_not_packed(self) -> None:
        """Rows without whole blocks, indices of unknown rank, and an opset without BitwiseAnd: 8 bits. Told so: float."""
        def last(model: onnx.ModelProto, **how: object) -> str:
            made = demi.convert(model, to="int4-weights", **how)[0]
            return next(n.op_type for n in made.graph.node if "e" in n.output)
        model = table(TensorProto.FLOAT)
        self.assertEqual(last(model, runtime="openvino"), "Reshape")
        self.assertEqual(last(model, rest="keep"), "Reshape")
        self.assertEqual(last(model, opset="keep"), "Mul")
        self.assertEqual(last(model, runtime="qnn"), "Mul")
        self.assertEqual(last(model, runtime="tensorrt"), "Gather")
        self.assertEqual(last(model, keep_ops=["Gather"]), "Gather")
        model.graph.input[0].type.tensor_type.ClearField("shape")
        model.graph.output[0].type.tensor_type.ClearField("shape")
        self.assertEqual(last(model), "Mul")
        model = table(TensorProto.FLOAT)
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((WORDS, 24), np.float32), "t"))
        model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones((24, WIDTH), np.float32), "w"))
        self.assertEqual(last(model), "Mul")

    def test_source_option(self) -> None:
        """Other types stay where float32 alone is asked for."""
        model = network(TensorProto.DOUBLE)
        self.assertEqual(demi.convert(model, source="float32")[0], model)

    def test_rules_of_runtimes(self) -> None:
        """What a runtime does not take is not there."""
        model = filters(TensorProto.FLOAT)
        made = self.convert(model, to="int8", runtime="tensorrt", calibrate="random")
        tensors = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
        for node in [n for n in made.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]:
            self.assertFalse(tensors[node.input[2]].any(), node.name)
            self.assertEqual(tensors[node.input[2]].dtype, np.int8)
        made = self.convert(model, to="int8", runtime="qnn", calibrate="random")
        scales = {n.input[0]: n.input[1] for n in made.graph.node if n.op_type == "DequantizeLinear"}
        sizes = {t.name: tuple(t.dims) for t in made.graph.initializer}
        self.assertEqual([sizes[scales[f"{w}_quantized"]] for w in "wdm"], [(8,), (8,), ()])
        for runtime, blocks in (("tensorrt", {64}), ("openvino", {32})):
            made = self.convert(network(TensorProto.FLOAT), to="int4-weights", runtime=runtime)
            kinds = {t.name: t.data_type for t in made.graph.initializer}
            found = {a.i for n in made.graph.node for a in n.attribute if a.name == "block_size"}
            self.assertEqual(found, blocks)
            self.assertEqual(TensorProto.UINT4 in kinds.values(), runtime == "openvino")

    def test_uniform_norms(self) -> None:
        """OpenVINO takes statistics of the data's type alone."""
        r = np.random.default_rng(0)
        weights = {"w": r.standard_normal((8, 3, 3, 3)) / 5, **{n: r.random(8) + 1 for n in "gbmv"}}
        nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Conv", ["a", "w"], ["c"], pads=[1] * 4),
                 helper.make_node("Relu", ["c"], ["d"]), helper.make_node("BatchNormalization", ["d", *"gbmv"], ["y"])]
        model = graph(TensorProto.FLOAT, nodes, weights, ("x", ["B", 3, 16, 16]), ("y", ["B", 8, 16, 16]), 17)
        for how, types in (({}, {TensorProto.FLOAT, TensorProto.FLOAT16}), ({"runtime": "openvino"}, {TensorProto.FLOAT16})):
            made = self.convert(model, **how)
            self.assertEqual({t.data_type for t in made.graph.initializer}, types)

    def test_tables_of_4_bits(self) -> None:
        """By ONNX Runtime's operator, and back."""
        name, i = value(table, TensorProto.FLOAT)
        made = demi.convert(table(TensorProto.FLOAT), to="int4-weights", runtime="onnxruntime")[0]
        self.assertIn("GatherBlockQuantized", [n.op_type for n in made.graph.node])
        self.assertLess(made.ByteSize(), .9 * WORDS * WIDTH)
        want = run(table(TensorProto.FLOAT), name, i)
        self.assertLess(np.abs(run(made, name, i) - want).max(), .2 * np.abs(want).max())
        back = self.convert(made, to="float32")
        self.assertEqual([n.op_type for n in back.graph.node], ["Gather", "MatMul"])
        now, was = (session(m.SerializeToString(), numerics="faithful").run(None, {name: i})[0] for m in (back, made))
        np.testing.assert_allclose(now, was, rtol=1e-4, atol=1e-5)

    def test_refusals(self) -> None:
        for how, text in (({"rest": "float16"}, "'rest' only has an effect with quantization"),
                          ({"to": "float32", "rest": "float16"}, "'rest' only has an effect with quantization"),
                          ({"to": "int8-weights", "rest": "int8-weights"},
                           "rest 'int8-weights' only has an effect for int8, fp8, and weights that have blocks, such as int4-weights"),
                          ({"to": "float32", "placement": "greedy"}, "only has an effect for float16"),
                          ({"to": "int8-weights", "rest": "int2"}, "int2"),
                          ({"runtime": "tensorrt"}, "'runtime' tensorrt only has an effect with quantization"),
                          ({"to": "int8", "runtime": "tensorrt", "activations": "uint8"},
                           "tensorrt does not take uint8 activations: expected int8")):
            with self.subTest(**how), self.assertRaisesRegex((demi.UsageError, ValueError), text):
                demi.convert(network(TensorProto.FLOAT), **how)


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(3)
    sys.exit(not unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful())
