# SPDX-License-Identifier: Apache-2.0
"""int8 where its errors have a direction: what biases make up for, what must not be rounded, and which ranges are best.

Layers of all kinds get inputs whose channels differ in their means by a hundred times; what ONNX Runtime computes of
the quantized one is then off by nothing on average, in any channel. Routers of mixtures of experts stay float, and
the experts' weights, batches of matrices among them, are stored in a form that ONNX Runtime runs. `best` is the best,
with ranges as a whole, too, where what makes no difference is better not cut off.
Weights that are inputs are weights.
"""

import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from suite.engines import saturates
from suite.package import demi, session

CHANNELS, SETS = 12, 5


def model_of(text: str, opset: int = 17, **weights: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    made.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return made


def runs(model: onnx.ModelProto, sets: list[dict]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    if saturates():
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    ort = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [ort.run(None, values)[0] for values in sets]


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def even(rng: np.random.Generator, shape: list[int], axis: int) -> dict[str, np.ndarray]:
    """A number for each place along the axis, of means from -0.1 to 10."""
    form = [1] * len(shape)
    form[axis] = shape[axis]
    mean = np.linspace(-0.1, 10, shape[axis]) * (1 + 0.1 * rng.standard_normal(shape[axis]))
    return {"x": np.broadcast_to(mean.reshape(form), shape).astype(np.float32)}


def conv(shape: str, weights: tuple[int, ...], attributes: str) -> tuple:
    return (f"y = Conv <{attributes}> (x, w, b)", shape, weights, 0, 1)


LAYERS = {  # node, shape of x, shape of w, axis of w's channels, axis of x's
    "depthwise": conv("1, 12, 9, 8", (12, 1, 3, 3), "group = 12, pads = [1, 1, 1, 1]"),
    "groups": conv("2, 12, 9, 8", (6, 4, 3, 2), "group = 3, pads = [0, 1, 2, 0], strides = [2, 1]"),
    "dense": conv("1, 12, 11, 8", (7, 12, 3, 3), "dilations = [3, 2], pads = [3, 2, 3, 2]"),
    "same": conv("1, 12, 10, 7", (7, 12, 4, 4), 'auto_pad = "SAME_UPPER", strides = [3, 2]'),
    "same_lower": conv("1, 12, 10, 7", (7, 12, 4, 4), 'auto_pad = "SAME_LOWER"'),
    "line": conv("2, 12, 20", (7, 12, 5), "pads = [4, 4]"),
    "point": conv("1, 12, 5, 5", (300, 12, 1, 1), "strides = [1, 1]"),
    "matmul": ("p = MatMul (x, w)\ny = Add (p, b)", "2, 5, 12", (12, 9), 1, -1),
    "gemm": ("y = Gemm (x, w, b)", "5, 12", (12, 9), 1, -1),
    "gemm_b": ("y = Gemm <transB = 1> (x, w, b)", "5, 12", (9, 12), 0, -1),
    "gemm_a": ("y = Gemm <transA = 1> (x, w, b)", "12, 5", (12, 9), 1, 0),
    "turned": ("t = Transpose <perm = [1, 0]> (w)\np = MatMul (x, t)\ny = Add (p, b)", "5, 12", (9, 12), 0, -1),
}

ROUTERS = {
    "softmax": "g = Gemm (x, r, rb)\ns = Softmax (g)\nv, i = TopK (s, two)",
    "sigmoid": "g0 = MatMul (x, r)\ng = Add (g0, rb)\ns = Sigmoid (g)\nv, i = TopK (s, two)",
    "scores": "g = Gemm (x, r, rb)\nv0, i = TopK (g, two)\nv = Softmax (v0)",
    "shifted": "g = Gemm (x, r, rb)\ns = Sigmoid (g)\nt = Add (s, rb)\nv, i = TopK (t, two)",
    "class": "g = Gemm (x, r, rb)\ns = Softmax (g)\ni0 = ArgMax <axis = 1> (s)\ni = Concat <axis = 1> (i0, i0)\n"
             "v = GatherElements <axis = 1> (s, i)",
}
EXPERTS = {
    "einsum": ('h = Einsum <equation = "nd,edh->neh"> (x, w)', (4, CHANNELS, 6)),
    "first": ('h = Einsum <equation = " edh , nd -> neh "> (w, x)', (4, CHANNELS, 6)),
    "implicit": ('h = Einsum <equation = "ad,dbc"> (x, w)', (CHANNELS, 4, 6)),
    "batched": ("u = Unsqueeze (x, zero)\nm = MatMul (u, w)\nh = Transpose <perm = [1, 0, 2]> (m)", (4, CHANNELS, 6)),
}


class Biases(unittest.TestCase):
    def test_no_channel_is_off_on_average(self) -> None:
        for seed, (name, (node, shape, weights, axis, channels)) in enumerate(LAYERS.items()):
            rng = np.random.default_rng(seed)
            w, b = normal(rng, *weights), normal(rng, weights[axis])
            sizes = [int(size) for size in shape.split(",")]
            model = model_of(f"g (float[{shape}] x) => (float y) {{\n{node}\n}}", w=w, b=b)
            sets = [even(rng, sizes, channels) for _ in range(SETS)]
            for calibration in ("mse", "minmax"):
                with self.subTest(layer=name, calibration=calibration):
                    made, _ = demi.convert(model, to="int8", calibrate=sets, calibration=calibration)
                    scales = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
                    step = scales[next(n.input[1] for n in made.graph.node
                                       if n.op_type == "DequantizeLinear" and n.output[0] == "b")]
                    off = np.array(runs(made, sets)) - np.array(runs(model, sets))
                    last = 2 if node.startswith("y = Conv") else off.ndim - 1
                    mean = np.abs(off.mean(tuple(i for i in range(off.ndim) if i != last)))
                    self.assertLess((mean / step).max(), 1.5, mean)

    def test_each_product_of_shared_weights_has_its_own(self) -> None:
        rng = np.random.default_rng(1)
        model = model_of("g (float[5, 12] x) => (float z) {\nt = Softplus (x)\np = MatMul (x, w)\nq = MatMul (t, w)\n"
                         "a = Add (p, b)\nc = Add (q, b)\nz = Concat <axis = 1> (a, c)\n}",
                         w=normal(rng, 12, 9), b=normal(rng, 9))
        sets = [even(rng, [5, 12], 1) for _ in range(SETS)]
        made, _ = demi.convert(model, to="int8", calibrate=sets)
        off = np.array(runs(made, sets)) - np.array(runs(model, sets))
        self.assertLess(np.abs(off.mean((0, 1))).max(), 0.01)

    def test_best_is_the_best(self) -> None:
        rng = np.random.default_rng(2)
        for seed in range(6):
            weights = {f"w{i}": normal(rng, *shape) / 4 for i, shape in
                       enumerate([(12, 12, 3, 3), (12, 1, 3, 3), (12, 12, 1, 1)])}
            biases = {f"b{i}": normal(rng, 12) for i in range(3)}
            model = model_of(
                "g (float[1, 12, 9, 8] x) => (float y) {\nc = Conv (x, w0, b0)\nd = HardSwish (c)\n"
                "e = Conv <group = 12, pads = [1, 1, 1, 1]> (d, w1, b1)\nf = Relu (e)\ny = Conv (f, w2, b2)\n}",
                **weights, **biases)
            sets = [{"x": normal(rng, 1, 12, 9, 8) ** 3} for _ in range(SETS)]
            noise = noise_by_method(model, sets)
            with self.subTest(seed=seed):
                self.assertLessEqual(noise["best"], 1.001 * min(noise.values()), noise)

    def test_best_is_the_best_of_large_values(self) -> None:
        """Of more than 300,000 elements, all of which count for each method, by name or tried."""
        for seed in (1, 6, 7):
            rng = np.random.default_rng(seed)
            weights = {"w0": normal(rng, 8, 3, 3, 3) / 4, "w1": normal(rng, 8, 1, 3, 3) / 3, "w2": normal(rng, 4, 8, 1, 1) / 3,
                       "b0": normal(rng, 8), "b1": normal(rng, 8), "b2": normal(rng, 4)}
            model = model_of("g (float[1, 3, 200, 200] x) => (float[1, 4, 200, 200] y) {\n"
                             "c = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)\nd = HardSwish (c)\n"
                             "e = Conv <group = 8, pads = [1, 1, 1, 1]> (d, w1, b1)\nf = Relu (e)\ny = Conv (f, w2, b2)\n}",
                             **weights)
            sets = [{"x": normal(rng, 1, 3, 200, 200) ** 3} for _ in range(2)]
            noise = noise_by_method(model, sets)
            with self.subTest(seed=seed):
                self.assertLessEqual(noise["best"], 1.001 * min(noise.values()), noise)

    def test_best_takes_whole_ranges_where_they_are_clearly_better(self) -> None:
        """In some chains of HardSwishes it costs more to cut off what lies below -3 than its levels are worth: by 2.4 dB
        and more in three, by less than 0.4 in the others, which is not clear."""
        for seed, whole in ((2, True), (17, True), (21, True), (0, False), (1, False)):
            model, sets = chain(np.random.default_rng(seed))
            want, noise, least = runs(model, sets), {}, 0.0
            for calibration in ("best", "minmax", "percentile", "mse"):
                made, _ = demi.convert(model, to="int8", calibrate=sets, calibration=calibration)
                runtime = session(made)
                noise[calibration] = sum(((runtime.run(None, s)[0] - y) ** 2).sum() for s, y in zip(sets, want))
                if calibration == "best":
                    least = lowest(made)
            with self.subTest(seed=seed):
                if whole:
                    self.assertLess(noise["best"], 0.8 * min(noise[k] for k in noise if k != "best"), noise)
                    self.assertLess(least, -3.5)
                else:
                    self.assertGreater(least, -3.1)


def noise_by_method(model: onnx.ModelProto, sets: list[dict]) -> dict[str, float]:
    """The squared error of what each method's conversion makes of the sets that it was calibrated by."""
    want, noise = runs(model, sets), {}
    for calibration in ("best", "minmax", "percentile", "mse"):
        made, _ = demi.convert(model, to="int8", calibrate=sets, calibration=calibration)
        runtime = session(made)
        noise[calibration] = sum(((runtime.run(None, s)[0] - y) ** 2).sum() for s, y in zip(sets, want))
    return noise


def chain(rng: np.random.Generator) -> tuple[onnx.ModelProto, list[dict]]:
    """Eight layers with HardSwish, whose Convs' outputs are c0 to c7."""
    text, weights, x = "", {}, "x"
    for i in range(8):
        weights |= {f"w{i}": normal(rng, 12, 12, 1, 1) / 3, f"b{i}": normal(rng, 12) - 1}
        text += f"c{i} = Conv ({x}, w{i}, b{i})\nd{i} = HardSwish (c{i})\n"
        x = f"d{i}"
    model = model_of(f"g (float[1, 12, 9, 8] x) => (float y) {{\n{text}y = Conv ({x}, w0, b0)\n}}", **weights)
    return model, [{"x": normal(rng, 1, 12, 9, 8)} for _ in range(SETS)]


def lowest(made: onnx.ModelProto) -> float:
    """The least number that a Conv's output in a chain may be once it is quantized."""
    values = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    return min(float((np.iinfo(zero.dtype).min - zero.astype(int)) * values[node.input[1]])
               for node in made.graph.node
               if node.op_type == "QuantizeLinear" and node.input[0].startswith("c")
               for zero in [values[node.input[2]]])


def mixture(router: str, experts: str) -> tuple[onnx.ModelProto, list[dict]]:
    rng = np.random.default_rng(3)
    node, shape = EXPERTS[experts]
    model = model_of(f"g (float[n, 12] x) => (float[n, 2, 6] y) {{\n{ROUTERS[router]}\n{node}\n"
                     "j = Unsqueeze (i, two)\nk = Expand (j, form)\n"
                     "c = GatherElements <axis = 1> (h, k)\nu2 = Unsqueeze (v, two)\ny = Mul (c, u2)\n}",
                     r=normal(rng, 12, 4), rb=normal(rng, 4), w=normal(rng, *shape), two=np.array([2]),
                     zero=np.array([0]), form=np.array([1, 1, 6]))
    return model, [{"x": normal(rng, 40, 12)} for _ in range(SETS)]


class Mixtures(unittest.TestCase):
    def test_routers_stay_float_and_experts_do_not(self) -> None:
        for router in ROUTERS:
            for experts in EXPERTS:
                for to in ("int8", "int8-weights"):
                    model, sets = mixture(router, experts)
                    with self.subTest(router=router, experts=experts, to=to):
                        made, _ = demi.convert(model, to=to, **({"calibrate": sets} if to == "int8" else {}))
                        kinds = {t.name: t.data_type for t in made.graph.initializer}
                        self.assertEqual(kinds.get("r"), onnx.TensorProto.FLOAT)
                        self.assertNotIn("w", kinds)
                        self.assertIn(onnx.TensorProto.INT8, kinds.values())
                        want, have = np.array(runs(model, sets)), np.array(runs(made, sets))
                        self.assertLess(np.abs(have - want).max(), 0.05 * np.abs(want).max())

    def test_a_batch_of_matrices_has_a_scale_that_runs(self) -> None:
        model, sets = mixture("softmax", "batched")
        for to, count in (("int8", 1), ("int8-weights", 6)):
            made, _ = demi.convert(model, to=to, **({"calibrate": sets} if to == "int8" else {}))
            node = next(n for n in made.graph.node if n.output[0] == "w")
            scale = next(t for t in made.graph.initializer if t.name == node.input[1])
            self.assertEqual(int(np.prod(scale.dims)), count)


class Frozen(unittest.TestCase):
    def test_weights_that_are_inputs(self) -> None:
        """Before IR version 4, as ONNX Runtime takes them; from there on where it is asked for."""
        rng = np.random.default_rng(4)
        for ir in (3, 8):
            model = model_of("g (float[5, 12] x, float[12, 9] w) => (float y) {\ny = MatMul (x, w)\n}",
                             9 if ir == 3 else 17, w=normal(rng, 12, 9))
            model.ir_version = ir
            sets = [{"x": normal(rng, 5, 12)} for _ in range(SETS)]
            for to in ("float16", "int8", "int4-weights"):
                for more in ({}, {"freeze_inputs": True}, {"freeze_inputs": True, "fed": ["w"]}):
                    with self.subTest(ir=ir, to=to, **more):
                        data = {"calibrate": sets} if to == "int8" else {}
                        made, report = demi.convert(model, to=to, **data, **more)
                        frozen = ir == 3 or more
                        self.assertEqual([i.name for i in made.graph.input],
                                         ["x"] if frozen and "fed" not in more else ["x", "w"])
                        names = {t.name for t in made.graph.initializer}
                        self.assertEqual("w" in names, "fed" in more or not frozen or to == "float16", names)
                        told = [*report.remarks, *(row.name for row in report.reasons)]
                        if "fed" not in more:
                            word = "became a constant" if frozen else "freeze-inputs"
                            self.assertTrue(any(word in text for text in told), told)
                        off = np.abs(np.array(runs(made, sets)) - np.array(runs(model, sets))).max()
                        self.assertLess(off, 1 if to.startswith("int4") else 0.2)
            session(model).run(None, sets[0])


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(3)
    sys.exit(not unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful())
