# SPDX-License-Identifier: Apache-2.0
"""Quantized in, quantized out: weights that are quantized already, in any format, are quantized to another one.

What comes is what widening the weights first gives, number for number; where they have the target's type and blocks
already, the model computes with the very weights that it had. Activations that are quantized stay, with the weights of
their products. Converting a second time with the same options changes no byte."""

import itertools
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from contrib_weights_test import pack
from suite.package import demi, session

WORDS, WIDTH, DEPTH = 600, 64, 128
# The element type of a target's weights, and how many numbers of a scale are one block; 0: a channel.
TARGETS = {"int8-weights": (TensorProto.INT8, 0), "int4-weights": (TensorProto.UINT4, 32),
           "int2-weights": (TensorProto.UINT2, 32), "fp8-weights": (TensorProto.FLOAT8E4M3FN, 0),
           "mxfp8-weights": (TensorProto.FLOAT8E4M3FN, 32), "mxfp4-weights": (TensorProto.FLOAT4E2M1, 32),
           "nvfp4-weights": (TensorProto.FLOAT4E2M1, 16)}
RESTS = ("", "keep", "float32", "float16", "bfloat16", "int8-weights")
IN_ORT = ("int8-weights", "int4-weights", "fp8-weights", "int8-dynamic")  # no kernels of the others
FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def numbers(dtype: int = FLOAT) -> dict[str, np.ndarray]:
    r = np.random.default_rng(0)
    made = {"t": r.standard_normal((WORDS, WIDTH)), "w": r.standard_normal((WIDTH, DEPTH)) / 8,
            "v": r.standard_normal((DEPTH, WIDTH)) / 10, "u": r.standard_normal((WIDTH, WIDTH)) / 8}
    return {name: a.astype(helper.tensor_dtype_to_np_dtype(dtype)) for name, a in made.items()}


def model(nodes: list, tensors: list, dtype: int = FLOAT, opset: int = 21) -> onnx.ModelProto:
    made = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("i", TensorProto.INT64, ["B"])],
                             [helper.make_tensor_value_info("y", dtype, ["B", WIDTH])], tensors)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=imports, ir_version=10)


def layers(weights: tuple[str, str, str]) -> list:
    """Rows of a table, and products of them: the names of their weights may be those of dequantized ones."""
    w, v, u = weights
    return [helper.make_node("MatMul", ["e", w], ["a"], "first"), helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", v], ["c"], "second"),
            helper.make_node("Gemm", ["c", u], ["y"], "last", transB=1)]


def floats(dtype: int = FLOAT, opset: int = 17) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(a, name) for name, a in numbers(dtype).items()]
    return model([helper.make_node("Gather", ["t", "i"], ["e"]), *layers(("w", "v", "u"))], tensors, dtype, opset)


def dequantized(kind: int, block: int, zeros: bool, scalar: bool = False, opset: int = 21) -> onnx.ModelProto:
    """All weights, and the table, behind a DequantizeLinear."""
    tensors, nodes = [], []
    for name, a in numbers().items():
        axis = int(name in "tu")  # what is summed; rows of the table
        step = block or a.shape[axis]
        cut = np.moveaxis(a, axis, 0).reshape(-1, step, a.shape[1 - axis])
        if scalar:
            cut = a.reshape(1, a.size, 1)
        low, high = cut.min(1), cut.max(1)
        least, most = {TensorProto.UINT8: (0, 255), TensorProto.INT8: (-127, 127), TensorProto.UINT4: (0, 15),
                       TensorProto.INT4: (-7, 7), TensorProto.FLOAT8E4M3FN: (-448, 448)}[kind]
        scale = ((high - low) / (most - least) if zeros else np.maximum(high, -low) / most).astype(np.float32)
        zero = np.clip(np.rint(-low / scale), least, most) if zeros else np.zeros_like(scale)
        whole = cut / scale[:, None] + zero[:, None]
        if kind != TensorProto.FLOAT8E4M3FN:
            whole = np.rint(whole)
        whole = np.clip(whole, least, most).reshape(a.shape if scalar else (a.shape[axis], -1))
        whole = whole if scalar else np.moveaxis(whole.reshape(a.shape[axis], a.shape[1 - axis]), 0, axis)
        shape = [-1] if not block else list(a.shape)
        if block:
            shape[axis] //= block
            scale, zero = (np.moveaxis(s, 0, axis).reshape(shape) for s in (scale, zero))
        scale, zero = (s.reshape(() if scalar else shape) for s in (scale, zero))
        tensors += [helper.make_tensor(f"{name}_q", kind, a.shape, whole.ravel()),
                    numpy_helper.from_array(scale, f"{name}_s"),
                    helper.make_tensor(f"{name}_z", kind, scale.shape, zero.ravel())]
        how = {"block_size": block, "axis": axis} if block else {} if scalar else {"axis": 1 - axis}
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [f"{name}_d"], **how))
    return model([*nodes, helper.make_node("Gather", ["t_d", "i"], ["e"]), *layers(("w_d", "v_d", "u_d"))], tensors,
                 opset=opset)


def packed(bits: int, block: int, zeros: bool, dtype: int = FLOAT) -> onnx.ModelProto:
    """ONNX Runtime's MatMulNBits and GatherBlockQuantized."""
    kind, tensors, nodes = helper.tensor_dtype_to_np_dtype(dtype), [], []
    for name, a in numbers().items():
        rows = a if name in "tu" else a.T
        cut = rows.reshape(len(rows), -1, block)
        low, high, most = cut.min(2), cut.max(2), (1 << bits) - 1
        scale = ((high - low) / most if zeros else np.maximum(high, -low) / (most // 2 + .5)).astype(kind)
        zero = np.clip(np.rint(-low / scale), 0, most) if zeros else np.full_like(scale, 1 << (bits - 1))
        whole = np.clip(np.rint(cut / scale[..., None] + zero[..., None]), 0, most).astype(np.uint8)
        codes = pack(whole if name != "t" else whole.reshape(len(rows), -1), bits)
        tensors += [numpy_helper.from_array(codes, f"{name}_q"), numpy_helper.from_array(scale, f"{name}_s")]
        if zeros:
            tensors.append(numpy_helper.from_array(pack(zero.astype(np.uint8), bits), f"{name}_z"))
        given = [f"{name}_q", f"{name}_s", *([f"{name}_z"] if zeros else [])]
        x, y = {"t": ("i", "e"), "w": ("e", "a"), "v": ("b", "c"), "u": ("c", "y")}[name]
        if name == "t":
            nodes.append(helper.make_node("GatherBlockQuantized", [given[0], x, *given[1:]], [y], domain="com.microsoft",
                                          bits=bits, block_size=block, gather_axis=0, quantize_axis=1))
            continue
        nodes.append(helper.make_node("MatMulNBits", [x, *given], [y], name, domain="com.microsoft", bits=bits,
                                      block_size=block, K=rows.shape[1], N=len(rows)))
        if name == "w":
            nodes.append(helper.make_node("Relu", ["a"], ["b"]))
    return model(nodes, tensors, dtype, opset=17)


SOURCES = {
    "uint8 with zero points": lambda: dequantized(TensorProto.UINT8, 0, True, opset=13),
    "uint8, one scale": lambda: dequantized(TensorProto.UINT8, 0, True, scalar=True, opset=11),
    "int8": lambda: dequantized(TensorProto.INT8, 0, False, opset=17),
    "int8, one scale": lambda: dequantized(TensorProto.INT8, 0, False, scalar=True, opset=17),
    "int8 in blocks": lambda: dequantized(TensorProto.INT8, 32, False),
    "uint4": lambda: dequantized(TensorProto.UINT4, 32, True),
    "int4": lambda: dequantized(TensorProto.INT4, 32, False),
    "int4, longer blocks": lambda: dequantized(TensorProto.UINT4, 64, True),
    "float8": lambda: dequantized(TensorProto.FLOAT8E4M3FN, 0, False, opset=19),
    **{f"MatMulNBits {bits}, zero points {zeros}": lambda b=bits, z=zeros: packed(b, 32, z)
       for bits in (2, 4, 8) for zeros in (False, True)},
    "MatMulNBits 4 in blocks of 16": lambda: packed(4, 16, True),
}


def rows() -> np.ndarray:
    return np.random.default_rng(1).integers(0, WORDS, 40)


def results(made: onnx.ModelProto) -> np.ndarray:
    return session(made.SerializeToString(), numerics="faithful").run(None, {"i": rows()})[0].astype(np.float64)


def by_ort(made: onnx.ModelProto) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    run = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return run.run(None, {"i": rows()})[0].astype(np.float64)


def error(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.sqrt(np.square(got - want).mean() / np.square(want).mean()))


def types(made: onnx.ModelProto) -> list[int]:
    """Of what products read as weights, in their order."""
    kinds = {t.name: t.data_type for t in made.graph.initializer}
    kinds |= {n.output[0]: n.attribute[0].t.data_type for n in made.graph.node if n.op_type == "Constant"}
    by = {o: n for n in made.graph.node for o in n.output}
    found = []
    for node in made.graph.node:
        if node.op_type in ("MatMul", "Gemm", "MatMulNBits"):
            name = node.input[1]
            while name in by and by[name].op_type in ("Transpose", "DequantizeLinear"):
                name = by[name].input[0]
            found.append(kinds[name])
    return found


class Requantize(unittest.TestCase):
    def convert(self, source: onnx.ModelProto, **how: object) -> tuple[onnx.ModelProto, str]:
        made, report = demi.convert(source, **how)
        onnx.checker.check_model(made, full_check=True)
        return made, " ".join(report.remarks)

    def again(self, made: onnx.ModelProto, **how: object) -> None:
        self.assertEqual(demi.convert(made, **how)[0].SerializeToString(), made.SerializeToString())

    def test_sources(self) -> None:
        """As if the weights had been float, but where they are as wanted."""
        limits = {to: error(results(self.convert(floats(), to=to)[0]), results(floats())) for to in TARGETS}
        for name, make in SOURCES.items():
            source = make()
            wide = self.convert(source, to="float32")[0]
            was = results(wide)
            for to, (kind, _) in TARGETS.items():
                with self.subTest(source=name, to=to):
                    made, _ = self.convert(source, to=to)
                    wanted = {kind} | ({TensorProto.INT4} if kind == TensorProto.UINT4 and name == "int4" else set())
                    self.assertLessEqual(set(types(made)), wanted)
                    self.again(made, to=to)
                    got, exact = results(made), kind == TensorProto.UINT4 and ("4" in name and "16" not in name)
                    if exact or (to == "int8-weights" and name.startswith("int8") and "blocks" not in name):
                        np.testing.assert_allclose(got, was, rtol=1e-4, atol=1e-5)
                    else:
                        self.assertLess(error(got, was), 1.25 * limits[to] + .01)
                    if to in IN_ORT:
                        self.assertLess(error(by_ort(made), got), .01)  # which quantizes rows of activations

    def test_said(self) -> None:
        """The report tells what stayed, and that numbers were not rounded again."""
        source = self.convert(floats(), to="int4-weights")[0]
        made, said = self.convert(source, to="int4-weights")
        self.assertEqual(made, source)
        self.assertIn("4 constants stay as stored: they are uint4 already", said)
        self.assertIn("4 weights had the same type and blocks before", self.convert(packed(4, 32, True), to="int4-weights")[1])
        self.assertNotIn("had the same type", self.convert(packed(4, 16, True), to="int4-weights")[1])
        report = demi.convert(source, to="int4-weights")[1]
        self.assertIn("its weights are uint4 already", report.why("first"))

    def test_noise(self) -> None:
        """From another quantized format, little is worse than from float."""
        want = results(floats())
        steps = {to: error(results(self.convert(floats(), to=to)[0]), want) for to in TARGETS}
        for first, then in itertools.permutations(TARGETS, 2):
            got = results(self.convert(self.convert(floats(), to=first)[0], to=then)[0])
            with self.subTest(first=first, then=then):
                self.assertLess(error(got, want), 1.1 * np.hypot(steps[first], steps[then]))

    def test_sixteen_bits(self) -> None:
        """Weights of a model in float16 are those that it computes with, whatever the rest becomes."""
        sources = [packed(bits, 32, True, HALF) for bits in (2, 4, 8)]
        sources += [self.convert(floats(HALF, 21), to=to)[0] for to in ("int8-weights", "int4-weights", "nvfp4-weights")]
        for source, (to, (kind, _)), rest in itertools.product(sources, TARGETS.items(), ("keep", "float32", "float16")):
            want = results(self.convert(source, to="float32")[0])
            with self.subTest(source=source.graph.node[0].op_type, to=to, rest=rest):
                made, _ = self.convert(source, to=to, rest=rest)
                self.assertEqual(set(types(made)), {kind})
                limit = {2: .6, 4: .2, 8: .06}[{TensorProto.UINT2: 2, TensorProto.INT8: 8}.get(kind, 4)]
                self.assertLess(error(results(made), want), limit)
                self.again(made, to=to, rest=rest)

    def test_dynamic(self) -> None:
        """Rows of activations go with weights of int8 from any source, and are taken back for other weights."""
        for name in ("uint8 with zero points", "uint4", "MatMulNBits 4, zero points True", "float8"):
            source = SOURCES[name]()
            made, _ = self.convert(source, to="int8-dynamic")
            self.assertEqual(sum(n.op_type == "MatMulInteger" for n in made.graph.node), 3, name)
            self.assertLess(error(results(made), results(self.convert(source, to="float32")[0])), .03)
            self.assertLess(error(by_ort(made), results(made)), 1e-3)
            self.again(made, to="int8-dynamic")
            for to, (kind, _) in TARGETS.items():
                back, _ = self.convert(made, to=to)
                self.assertEqual(types(back), [kind] * 3, (name, to))

    def test_activations(self) -> None:
        """Weights of products whose activations are quantized stay, and others do not."""
        for to in ("int8", "fp8"):
            source = self.convert(floats(opset=21), to=to, calibrate="random", keep=["last"])[0]
            weights = types(source)
            made, said = self.convert(source, to="int4-weights")
            self.assertEqual(types(made)[:2], weights[:2])
            self.assertEqual(types(made)[2], TensorProto.UINT4)
            self.assertIn("2 constants stay as stored: the activations of their products are quantized, too", said)
            self.assertEqual(types(self.convert(self.convert(source, to="float32")[0], to="int4-weights")[0]),
                             [TensorProto.UINT4] * 3)

    def test_choice(self) -> None:
        """What is kept by name, or by what the runtime takes."""
        made = self.convert(dequantized(TensorProto.INT8, 0, False), to="int4-weights", keep=["second"])[0]
        self.assertEqual(types(made), [TensorProto.UINT4, TensorProto.INT8, TensorProto.UINT4])
        made = self.convert(packed(4, 32, True), to="int4-weights", only=["v"])[0]
        self.assertEqual(types(made), [TensorProto.UINT8, TensorProto.UINT4, TensorProto.UINT8])
        source = self.convert(floats(), to="int4-weights")[0]
        made = self.convert(source, to="int4-weights", runtime="tensorrt", block=64)[0]
        self.assertEqual(types(made), [TensorProto.INT4] * 3)
        made = self.convert(source, to="int4-weights", runtime="onnxruntime")[0]
        self.assertIn("GatherBlockQuantized", {n.op_type for n in made.graph.node})
        np.testing.assert_array_equal(results(made), results(source))
        self.assertEqual(self.convert(made, to="int4-weights", runtime="onnxruntime")[0], made)

    def test_twice(self) -> None:
        """All targets with all rests, of a model with a table that is long enough for its scales to be one."""
        source = floats()
        big = np.random.default_rng(2).standard_normal((4200, WIDTH)).astype(np.float32)
        source.graph.initializer[0].CopyFrom(numpy_helper.from_array(big, "t"))
        for to, rest in itertools.product((*TARGETS, "int8-dynamic", "int8", "fp8", "float32", "float16", "bfloat16",
                                           "float16-weights", "bfloat16-weights"), RESTS):
            if rest and ("weights" not in to and to not in ("int8-dynamic", "int8", "fp8") or "float" in to):
                continue
            if rest == "int8-weights" and to in ("int8-weights", "fp8-weights", "int8-dynamic"):
                continue
            how = {"to": to} | ({"rest": rest} if rest else {}) | ({"calibrate": "random"} if to in ("int8", "fp8") else {})
            with self.subTest(**how):
                self.again(self.convert(source, **how)[0], **how)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
