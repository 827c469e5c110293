# SPDX-License-Identifier: Apache-2.0
"""Single steps on the fake device (tools/fake_cuda, named in LD_LIBRARY_PATH): operands that nobody may trust,
those that no kernel of the device takes, weights of few bits, branches and loops, casts.

Each has what the processor gives, in a context that runs several times.
"""

import os
import re
import subprocess

import ml_dtypes
import numpy as np
import onnx
from onnx import parser as onnx_parser

from suite import made_models
from suite.cuda_driver import Driver
from suite.cuda_fake import SMALL, WHOLE, OnDevice, args, main, small_model
from suite.package import demi
from suite.runtime import DeviceCounts, PlanRunner


class OneContext(OnDevice):
    def shows(self, plan: bytes, known: int, why: str) -> str:
        """What `show` says of the plan without a device: so many steps are declined, as `why` says."""
        path = self.folder / "m.plan"
        path.write_bytes(plan)
        plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        text = subprocess.run([args.demi, "show", path, "--device", "cuda"], capture_output=True, text=True,
                              check=True, env=plain).stdout
        said = re.findall(r"; CPU: declined, because (.*)", text)
        self.assertEqual(said, [why] * known, text)
        placed = re.search(r"placement: (\d+) steps on the device, (\d+) on the CPU, \d+ copies; (.*)", text)
        self.assertEqual(text.count("; device"), int(placed[1]))
        self.assertEqual(text.count("; CPU: "), int(placed[2]))
        if known:
            self.assertIn(f"    CPU: {known} steps: declined by the device's kernels", text)
            self.assertIn("not recorded", placed[3])
        else:
            self.assertNotIn("declined", text)
        return text

    def counted_runs(self, plan: bytes, feeds: dict[str, np.ndarray], want: list[np.ndarray], limit: float
                     ) -> DeviceCounts:
        """What three runs did, which give what is wanted."""
        def work() -> int:
            runner = PlanRunner(plan, device="cuda")
            for _ in range(3):
                for y, y0 in zip(runner.run(feeds), want, strict=True):
                    np.testing.assert_allclose(y.astype(np.float32), y0.astype(np.float32), limit, limit)
            self.counted.write_bytes(bytes(runner.device_counts()))
            del runner
            return 0

        self.assertEqual(self.child.run(work), (0, ""))
        return DeviceCounts.from_buffer_copy(self.counted.read_bytes())

    def follows(self, text: str, inputs: list[dict[str, np.ndarray]], want: list | None = None,
                keep_values: bool = False) -> None:
        """One context runs these one after the other, and gives `want` or what the processor gives."""
        plan = demi.compile(onnx_parser.parse_model(text), device="cuda",
                               keep_values=keep_values)
        processor = PlanRunner(plan)
        expected = [[want] if want else processor.run(feeds) for feeds in inputs]
        self.shows(plan, 0, "")

        def work() -> int:
            runner = PlanRunner(plan, device="cuda")
            for feeds, y in zip(inputs, expected):
                for got, y0 in zip(runner.run(feeds), y):
                    np.testing.assert_allclose(got, y0, 0 if want else 1e-5)
            del runner
            return 0

        self.assertEqual(self.child.run(work), (0, ""))


class Operands(OneContext):
    def gives(self, text: str, feeds: dict[str, np.ndarray], want: list) -> None:
        self.follows(text, [feeds] * 3, want)

    def test_indices_out_of_range(self) -> None:
        """A slice that there is none of is 0; nothing beside the operand is read."""
        x, at = np.arange(1, 13, dtype=np.float32).reshape(3, 4), np.array([2, -1, 3, -4, 1 << 40])
        self.gives("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[3,4] x, int64[5] i) => (float[5,4] y) { y = Gather (x, i) }""",
                   {"x": x, "i": at}, [x[2], x[2], [0] * 4, [0] * 4, [0] * 4])

    def test_puts_out_of_range(self) -> None:
        """Nothing is put anywhere."""
        x, u = np.zeros((3, 4), np.float32), np.ones((2, 4), np.float32)
        at = np.array([[1, -4, 3, 1 << 40], [2, 0, -1, 7]])
        want = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]], np.float32)
        for how in ("none", "add"):
            self.gives(f"""<ir_version: 10, opset_import: ["" : 21]>
                g (float[3,4] x, int64[2,4] i, float[2,4] u) => (float[3,4] y) {{
                y = ScatterElements <reduction = "{how}"> (x, i, u) }}""", {"x": x, "i": at, "u": u}, want.tolist())
        at = np.array([[2], [-4], [3], [1 << 40]])
        self.gives("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[3,4] x, int64[4,1] i, float[4,4] u) => (float[3,4] y) { y = ScatterND (x, i, u) }""",
                   {"x": x, "i": at, "u": np.ones((4, 4), np.float32)}, [[0] * 4, [0] * 4, [1] * 4])

    def test_host_operand_that_the_device_makes(self) -> None:
        """A bound that the host reads, of a shape that is not known before."""
        self.gives("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[4] x, float[1] s, int64[r] shape) => (float[4] y) {
                t = Abs (s) m = Reshape (t, shape) y = Clip (x, m) }""",
                   {"x": np.array([-3, 1, 2, 5], np.float32), "s": np.array([-2], np.float32),
                    "shape": np.zeros(0, np.int64)}, [2, 2, 2, 5])

    def test_no_channels(self) -> None:
        """Sums of nothing, of weights that lie nowhere: biases are left."""
        for kind, bias in (("float", "1, 2"), ("float16", "15360, 16384")):  # the parser takes bits of these
            x = np.zeros((1, 0, 8, 8), np.float32 if kind == "float" else np.float16)
            self.gives(f"""<ir_version: 10, opset_import: ["" : 21]>
                g ({kind}[1,0,8,8] x) => ({kind}[1,2,1,1] y)
                    <{kind}[2,0,3,3] w = {{}}, {kind}[2] b = {{{bias}}}> {{
                    a = Conv (x, w, b) y = GlobalAveragePool (a) }}""", {"x": x}, [[[[1]], [[2]]]])

    def test_what_is_not_finite(self) -> None:
        """GELU has -infinity times 0; Shrink gives 0 where it is beyond neither bound."""
        x = np.array([-np.inf, np.inf, np.nan, 0], np.float32)
        for op, want in (("Gelu", [np.nan, np.inf, np.nan, 0]), ("Shrink", [-np.inf, np.inf, 0, 0])):
            self.gives(f"""<ir_version: 10, opset_import: ["" : 21]>
                g (float[4] x) => (float[4] y) {{ y = {op} (x) }}""", {"x": x}, want)

    def test_what_is_not_finite_behind_products(self) -> None:
        """NaN stays NaN where a kernel does what the library leaves to do."""
        x, w = np.arange(128, dtype=np.float32).reshape(16, 8) - 64, np.eye(8, dtype=np.float32)
        x[1, 3] = np.nan
        self.follows("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[16,8] x, float[8,8] w) => (float[16,8] y) <float low = {-1}, float high = {6}> {
                a = MatMul (x, w) y = Clip (a, low, high) }""", [{"x": x, "w": w}] * 3)

    def test_means_that_are_large(self) -> None:
        """A variance is not a difference of large squares, in packed rows and in others."""
        for size in (254, 256):
            x = np.float32(10000) + np.array([[1, -1] * (size // 2)], np.float32)
            self.follows(f"""<ir_version: 10, opset_import: ["" : 21]>
                g (float[1,{size}] x, float[{size}] s) => (float[1,{size}] y) {{ y = LayerNormalization (x, s) }}""",
                         [{"x": x, "s": np.ones(size, np.float32)}] * 3)

    def test_host_operand_that_is_an_input(self) -> None:
        """There is nothing to read while the plan is only shown."""
        self.gives("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[4] x, float s) => (float[4] y) { a = Neg (x) y = Clip (a, s) }""",
                   {"x": np.array([-3, 1, 2, 5], np.float32), "s": np.array(-2, np.float32)}, [3, -1, -2, -2])

    def test_sizes_that_change(self) -> None:
        """A recording goes with the memory that it knows."""
        self.follows("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[n,4] x) => (float[m,4] y) {
                a = Relu (x) b = Softmax (a) c = Add (a, b) y = Concat <axis = 0> (c, a) }""",
                     [{"x": np.arange(4 * n, dtype=np.float32).reshape(n, 4) / n}
                      for n in (16, 16, 16, 900, 900, 900, 16, 900, 16)])

    def test_inputs_that_are_handed_on(self) -> None:
        """A recording reads them anew behind an Identity, too, which plans have whose values are watched."""
        for body in ("a = Identity (x) y = Abs (a)", "a = Identity (x) b = Identity (a) y = Add (b, x)"):
            with self.subTest(body):
                self.follows('<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) {'
                             + body + "}",
                             [{"x": np.arange(4, dtype=np.float32) - k} for k in range(5)], keep_values=True)


class Declined(OneContext):
    """Operands that no kernel of the device takes: the processor computes the step, and the others stay
    there. Results are the processor's, step by step, recorded or not, with casts that steps do themselves,
    in graphs within graphs, and where the result would lie in an operand. Of sizes that the plan knows, `show`
    says so without a device."""

    def declines(self, text: str, feeds: dict[str, np.ndarray] | list[dict[str, np.ndarray]],
                 steps: int, why: str, known: int = 1, opset: int = 21) -> None:
        """`steps` of all runs are the processor's; three runs of the same inputs, or one of each. Of those in the
        plan `known` are said to be, and why."""
        model = onnx_parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')
        inputs = feeds if isinstance(feeds, list) else [feeds] * 3
        plan = demi.compile(model, device="cuda")
        processor = PlanRunner(plan)
        expected = [processor.run(x) for x in inputs]
        self.shows(plan, known, why)

        def work() -> int:
            for by_step in (False, True):
                runner = PlanRunner(plan, device="cuda", device_steps=by_step)
                for x, want in zip(inputs, expected):
                    for got, y in zip(runner.run(x), want, strict=True):
                        assert got.dtype == y.dtype
                        np.testing.assert_allclose(got.astype(np.float32), y.astype(np.float32), 1e-3, 1e-5)
                counts = runner.device_counts()
                assert counts.declined == steps, (counts.declined, steps)
                assert counts.launches > 0
                del runner
            return 0

        self.assertEqual(self.child.run(work), (0, ""))

    def test_sizes_that_are_open(self) -> None:
        """What is declined whatever they are, is known; nothing else."""
        for elements, known in (("300", 1), ("h", 0), ("16", 0)):
            self.shows(demi.compile(onnx_parser.parse_model(
                f'<ir_version: 10, opset_import: ["" : 24]> g (float[n,2,m,{elements}] x) => (float[n,2,m,{elements}] y)'
                "{ q = Relu (x) z = Attention (q, x, x) y = Abs (z) }"), device="cuda"),
                       known, "the device does not support such large heads")

    @staticmethod
    def floats(*shape: int, dtype: type = np.float32) -> np.ndarray:
        return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)

    def test_large_heads(self) -> None:
        for dtype, name in ((np.float32, "float"), (np.float16, "float16")):
            self.declines(f"g ({name}[1,2,3,300] x) => ({name}[1,2,3,300] y) {{ q = Relu (x)"
                          "z = Attention (q, x, x) y = Abs (z) }", {"x": self.floats(1, 2, 3, 300, dtype=dtype)},
                          3, "the device does not support such large heads", opset=24)

    def test_other_inputs(self) -> None:
        """Each run has its own."""
        self.declines("g (float[1,2,3,300] x) => (float[1,2,3,300] y) { q = Relu (x) z = Attention (q, x, x) y = Abs (z) }",
                      [{"x": self.floats(1, 2, 3, 300) * k} for k in (1, -2, 0.5)], 3,
                      "the device does not support such large heads", opset=24)

    def test_masks_of_integers(self) -> None:
        self.declines("g (float[1,2,3,16] x, int64[3,3] m) => (float[1,2,3,16] y) { q = Relu (x)"
                      "z = Attention (q, x, x, m) y = Abs (z) }",
                      {"x": self.floats(1, 2, 3, 16), "m": np.array([[1, 0, 0], [2, 1, 0], [3, 2, 1]])}, 3,
                      "the device does not support integer masks", opset=24)

    def test_many_axes(self) -> None:
        """A convolution, which gets ready before it runs, and what does not."""
        self.declines("g (float[1,2,3,3,3,3] x, float[2,2,2,2,2,2] w) => (float[1,2,2,2,2,2] y) {"
                      "a = Relu (x) z = Conv (a, w) y = Abs (z) }",
                      {"x": self.floats(1, 2, 3, 3, 3, 3), "w": self.floats(2, 2, 2, 2, 2, 2)}, 3,
                      "the device does not support convolutions over so many axes")
        self.declines("g (float[1,1,3,3,3,3] x, float[1,2,2,2,2,4] at) => (float[1,1,2,2,2,2] y) {"
                      "a = Relu (x) z = GridSample (a, at) y = Abs (z) }",
                      {"x": self.floats(1, 1, 3, 3, 3, 3), "at": self.floats(1, 2, 2, 2, 2, 4)}, 3, "the device does not support so many axes")

    def test_casts_that_steps_do(self) -> None:
        self.declines("g (float16[1,1,3,3,3,3] x, float[1,2,2,2,2,4] at) => (float16[1,1,2,2,2,2] y) {"
                      "a = Relu (x) b = Cast <to = 1> (a) c = GridSample (b, at) z = Cast <to = 10> (c)"
                      "y = Abs (z) }",
                      {"x": self.floats(1, 1, 3, 3, 3, 3, dtype=np.float16),
                       "at": self.floats(1, 2, 2, 2, 2, 4)}, 3, "the device does not support so many axes")

    WIDE, THIN = (2, 1) * 5, (1, 2) * 5

    def test_in_an_operand(self) -> None:
        dims = ",".join(map(str, self.WIDE)), ",".join(map(str, self.THIN)), ",".join("2" * 10)
        self.declines(f"g (float[{dims[0]}] x, float[{dims[1]}] z, float[{dims[2]}] u) => (float[{dims[2]}] y) {{"
                      "a = Abs (x) b = Relu (u) c = Sub (b, a) y = Add (c, z) }",
                      {"x": self.floats(*self.WIDE), "z": self.floats(*self.THIN), "u": self.floats(*[2] * 10)}, 6,
                      "the device does not support operands with so many axes", 2)

    def test_some_sizes(self) -> None:
        """Other sizes are the device's, and recorded."""
        names = ",".join("abcdefghij")
        few = {"x": self.floats(*[2] * 10), "z": self.floats(*[2] * 10)}
        many = {"x": self.floats(*self.WIDE), "z": self.floats(*self.THIN)}
        self.declines(f"g (float[{names}] x, float[{names.upper()}] z) => (float[{'k,' * 9}k] y) {{"
                      "a = Abs (x) b = Add (a, z) y = Relu (b) }", [few, few, many, few, many, many, many, few], 4, "", 0)

    def test_within_graphs(self) -> None:
        at = "float[1,2,2,2,2,4] at"
        body = "b = GridSample (s, at) c = Abs (b)"
        feeds = {"x": self.floats(1, 1, 3, 3, 3, 3), "at": self.floats(1, 2, 2, 2, 2, 4)}
        self.declines(f"g (float[1,1,3,3,3,3] x, {at}, bool p) => (float[1,1,2,2,2,2] y) {{ s = Relu (x)"
                      f"d = If (p) <then_branch = t () => (c) {{ {body} }},"
                      "else_branch = e () => (f) { f = Neg (s) }> y = Exp (d) }",
                      feeds | {"p": np.array(True)}, 3, "the device does not support so many axes")
        self.declines(f"g (float[1,1,3,3,3,3] x, {at}, int64 n) => (float[k,1,1,2,2,2,2] y) {{ s = Relu (x)"
                      "go = Constant <value = bool {1}> ()"
                      f"d = Loop (n, go) <body = l (int64 i, bool on) => (same, c) {{ same = Identity (on) {body} }}>"
                      "y = Exp (d) }", feeds | {"n": np.array(2)}, 6, "the device does not support so many axes")

    def test_budget(self) -> None:
        """What the processor takes for it counts in the context's memory."""
        plan = demi.compile(onnx_parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 24]> g (float[1,2,64,300] x) => (float[1,2,64,300] y) {'
            "q = Relu (x) z = Attention (q, x, x) y = Abs (z) }"), device="cuda")
        feeds = {"x": self.floats(1, 2, 64, 300)}

        def work() -> int:
            few = PlanRunner(plan, device="cuda", memory=500_000)
            for _ in range(2):
                try:
                    few.run(feeds)
                    return 1
                except demi.DemiError as error:
                    assert "memory" in str(error), error
            enough = PlanRunner(plan, device="cuda", memory=4_000_000)
            for _ in range(5):
                enough.run(feeds)
            del few, enough
            return 0

        self.assertEqual(self.child.run(work), (0, ""))


class FewBits(OneContext):
    """Products have their weights of 4 and 8 bits as they are, with what follows them, in plans for a processor,
    too; what else reads such weights has them made floats on the device."""

    def test_gpt(self) -> None:
        """A network whose weights were converted: nothing of it is the processor's, and of more than eight rows
        a product by few bits is a launch more."""
        model = made_models.MODELS["gpt2"](**made_models.SMALL["gpt2"])
        feeds, paths = made_models.feeds_of(model), [self.folder / f"{name}.onnx" for name in ("m", "bits")]
        paths[0].write_bytes(model.SerializeToString())
        for low, limit in ((False, 1e-4), (True, 2e-2)):
            launches = 0
            for to in ("", "int4-weights", "int8-weights"):
                data = model.SerializeToString()
                if to:
                    paths[0].write_bytes(data)
                    subprocess.run([args.demi, "convert", paths[0], "--to", to, "-o", paths[1]], check=True,
                                   capture_output=True)
                    data = paths[1].read_bytes()
                data = demi.convert(data)[0] if low else data
                want = PlanRunner(demi.compile(data, numerics="faithful")).run(feeds)  # rows are not rounded
                plan = demi.compile(data, device="cuda")
                counts = self.counted_runs(plan, feeds, want, limit)
                shown = self.shows(plan, 0, "")
                self.assertIn(" 0 on the CPU", shown)
                self.assertNotIn("DequantizeLinear", shown)
                self.assertEqual("MatMulBits" in shown, bool(to))
                self.assertEqual((counts.declined, counts.replays, counts.uploads, counts.downloads),
                                 (0, 2, 3 * len(feeds), 3 * len(want)))
                launches = launches or counts.launches
                self.assertLessEqual(counts.launches, launches + 3 * shown.count("MatMulBits"), (low, to))

    def test_tables(self) -> None:
        """Weights by blocks that no product reads, too many to be floats in the plan."""
        rng = np.random.default_rng(6)
        for dtype in (ml_dtypes.int4, ml_dtypes.uint4, np.int8):
            model = onnx_parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
                g (float[1000,800] x) => (float[1000,800] y) {
                    q = DequantizeLinear <axis = 1, block_size = 32> (w, s, z) a = Mul (x, q) y = Relu (a) }""")
            least = 0 if dtype is ml_dtypes.uint4 else -8
            for name, array in (("w", rng.integers(least, least + 16, (1000, 800)).astype(dtype)),
                                ("z", rng.integers(least, least + 16, (1000, 25)).astype(dtype)),
                                ("s", rng.uniform(0.01, 0.05, (1000, 25)).astype(np.float32))):
                model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            plan = demi.compile(model, device="cuda")
            feeds = {"x": rng.standard_normal((1000, 800)).astype(np.float32)}
            want = PlanRunner(plan).run(feeds)
            counts = self.counted_runs(plan, feeds, want, 1e-6)
            self.assertRegex(self.shows(plan, 0, ""), r"= DequantizeLinear-21.*; device")
            self.assertEqual((counts.declined, counts.replays, counts.uploads, counts.downloads), (0, 2, 3, 3))

    def test_fused(self) -> None:
        rng = np.random.default_rng(5)
        for rows, bits in ((1, 4), (6, 8), (30, 4)):
            model = onnx_parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
                g (float[{rows},64] x, float[{rows},48] r) => (float[{rows},48] y) {{
                    q = DequantizeLinear <axis = 0, block_size = 32> (w, s, z) a = MatMul (x, q) b = Add (a, bias)
                    c = Add (b, r) y = Relu (c) }}""")
            low, high = -(1 << (bits - 1)), 1 << (bits - 1)
            dtype = ml_dtypes.int4 if bits == 4 else np.int8
            weights = {n: rng.integers(low, high, shape).astype(dtype) for n, shape in
                       (("w", (64, 48)), ("z", (2, 48)))}
            for name, array in {**weights, "s": rng.uniform(0.01, 0.05, (2, 48)).astype(np.float32),
                                "bias": rng.standard_normal(48).astype(np.float32)}.items():
                model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            feeds = {"x": rng.standard_normal((rows, 64)).astype(np.float32),
                     "r": rng.standard_normal((rows, 48)).astype(np.float32)}
            plan = demi.compile(model)
            want = PlanRunner(demi.compile(model, numerics="faithful")).run(feeds)[0]  # rows are not rounded

            def work() -> int:
                runner = PlanRunner(plan, device="cuda")
                for _ in range(3):
                    np.testing.assert_allclose(runner.run(feeds)[0], want, 1e-4, 1e-4)
                counts = runner.device_counts()
                assert (counts.declined, counts.replays) == (0, 2), bytes(counts)
                assert (counts.uploads, counts.downloads) == (6, 3), bytes(counts)
                del runner
                return 0

            self.assertEqual(self.child.run(work), (0, ""))
            self.assertEqual(self.child.counts()["launched", f"multiply_bits_{1 if rows == 1 else 8}_f32"],
                             0 if rows > 8 else 1)

    def test_other_orders(self) -> None:
        """Orders of the depth are left to the processor, which wants them constant, and says so."""
        model = onnx_parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
            g (float[2,32] x, uint8[8,1,16] w, float[8] s, int32[32] order) => (y) {
                y = com.microsoft.MatMulNBits <K = 32, N = 8, bits = 4, block_size = 32> (x, w, s, , order) }""")
        plan = demi.compile(model, device="cuda")
        feeds = {"x": np.ones((2, 32), np.float32), "w": np.zeros((8, 1, 16), np.uint8),
                 "s": np.ones(8, np.float32), "order": np.arange(32, dtype=np.int32)}

        def work() -> int:
            try:
                PlanRunner(plan, device="cuda").run(feeds)
            except demi.DemiError as error:
                assert "g_idx" in str(error), error
                return 0
            return 1

        self.assertEqual(self.child.run(work), (0, ""))


class Affine(OneContext):
    """A batch normalization that no convolution takes is one launch with its activation, and has its channels
    where convolutions beside it have theirs."""

    def normalized(self, body: str, activation: str, dtype: str = "float", shape: tuple = (2, 8, 7, 5)) -> tuple[str, DeviceCounts]:
        """The plan, and what three runs did."""
        model, rng = onnx_parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
            g ({dtype}[{','.join(map(str, shape))}] x) => ({dtype}[n,c,h,w] y) {{ {body} }}"""), np.random.default_rng(7)
        type_ = np.float16 if dtype == "float16" else np.float32
        n = shape[1]
        for name, size in (("scale", [n]), ("bias", [n]), ("mean", [n]), ("var", [n]), ("k", [n, n, 3, 3])):
            array = rng.standard_normal(size) / (n if name == "k" else 1)
            array = (np.abs(array) + 0.5 if name == "var" else array * 0.3).astype(type_)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        feeds = {"x": rng.standard_normal(shape).astype(type_)}
        want = PlanRunner(demi.compile(model)).run(feeds)
        plan = demi.compile(model, device="cuda")
        counts = self.counted_runs(plan, feeds, want, 1e-2 if dtype == "float16" else 1e-4)
        self.assertEqual((counts.declined, counts.uploads, counts.downloads), (0, 3, 3))
        shown = self.shows(plan, 0, "")
        self.assertEqual(shown.count("Affine"), 1, (body, shown))
        self.assertNotIn(f"= {activation}-", shown)
        return shown, counts

    def test_alone(self) -> None:
        for dtype in ("float", "float16"):
            for activation in ("Relu (b)", "LeakyRelu <alpha = 0.2> (b)", "HardSwish (b)"):
                counts = self.normalized(f"a = Abs (x) b = BatchNormalization (a, scale, bias, mean, var) y = {activation}",
                                         activation.split()[0], dtype)[1]
                self.assertEqual(counts.launches, 3 * 2)

    def test_between_convolutions(self) -> None:
        shown = self.normalized("""o = Conv (x, k) p = Sigmoid (o) a = Conv (p, k) r = Tanh (a)
            b = BatchNormalization (r, scale, bias, mean, var) c = Relu (b) d = Conv (c, k) e = Sigmoid (d)
            y = Conv (e, k)""", "Relu", shape=(1, 64, 20, 20))[0]
        self.assertLessEqual(len(re.findall("= Transpose-", shown)), 2, shown)
        self.assertEqual(len(re.findall("= demi.fused.ConvLast-", shown)), 4, shown)


class Devices(OneContext):
    """Two devices in one process, the second of which has no clusters: memory, constants, streams, kernels and what
    libraries keep are each one's own."""

    SHARED = """<ir_version: 10, opset_import: ["" : 21]>
        g (float16[1,128,5,5] x) => (float16[1,64,5,5] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w) b = Sigmoid (a)
            c = Conv <pads = [1, 1, 1, 1]> (b, v) y = Sigmoid (c) }"""

    def shared(self) -> bytes:
        """Deep convolutions, whose blocks share sums in clusters where there are any."""
        model, rng = onnx_parser.parse_model(self.SHARED), np.random.default_rng(5)
        for name, inner in (("w", 128), ("v", 64)):
            array = rng.standard_normal((64, inner, 3, 3)) / np.sqrt(9 * inner)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float16), name))
        return model.SerializeToString()

    def on_both(self, model: bytes, limit: float, repeats: bool = True) -> None:
        """Contexts of one plan and of another one, by turns, and at once; one device ends before the other."""
        plan, rng = demi.compile(model, device="cuda"), np.random.default_rng(6)
        inputs = [{i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(
            np.float16 if i.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 else np.float32)
            for i in onnx.load_from_string(model).graph.input} for _ in range(2)]
        processor = PlanRunner(plan)
        want = [processor.run(feeds) for feeds in inputs]

        def same(got: list, which: int) -> None:
            for y, y0 in zip(got, want[which], strict=True):
                np.testing.assert_allclose(y.astype(np.float32), y0.astype(np.float32), limit, limit)

        def work() -> int:
            first = PlanRunner(plan, device="cuda:0")
            both = [first, PlanRunner(first, device="cuda:1"),
                    PlanRunner(plan, device="cuda:1")]
            for turn in range(4):
                for number, runner in enumerate(both):
                    same(runner.run(inputs[(turn + number) % 2]), (turn + number) % 2)
            for runner in both:
                assert (runner.device_counts().replays > 0) == repeats
            for number, runner in enumerate(both):
                runner.bind(inputs[number % 2])
                runner.start()
            for number, runner in reversed(list(enumerate(both))):
                runner.wait()
                same(runner.results(), number % 2)
            third = both.pop()
            both.clear()
            del first, runner
            same(third.run(inputs[1]), 1)
            del third
            return 0

        self.assertEqual(self.child.run(work, more="second=80"), (0, ""))

    def test_libraries(self) -> None:
        self.on_both(small_model(WHOLE), 1e-4)

    def test_with_the_processor(self) -> None:
        self.on_both(small_model(SMALL), 1e-4, False)

    def test_clusters(self) -> None:
        self.on_both(self.shared(), 1e-2)
        launched = {name for kind, name in self.child.counts() if kind == "launched"}
        self.assertTrue(any(name.startswith("tile_") for name in launched), launched)

    def test_memory_of_each(self) -> None:
        """A run is at memory of its own device, the first that was opened or not; memory of another one is refused."""
        plan = demi.compile(onnx_parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[64] x) => (float[64] y) { a = Neg (x) y = Abs (a) }"""), device="cuda")
        x = np.arange(64, dtype=np.float32)

        def work(memory: int, device: int) -> int:
            driver = Driver(memory)
            first = PlanRunner(plan, device="cuda:0")
            runner = PlanRunner(first, device=f"cuda:{device}")  # of the same plan
            there = driver.room(x.nbytes)
            driver.send(there, x)
            driver.call("cuStreamSynchronize", driver.stream)
            try:
                runner.bind({"x": x}, {"x": there})
                np.testing.assert_array_equal(runner.run({})[0], x)
            except demi.DemiError as error:
                os.write(2, str(error).encode())
            del runner, first
            driver.end()
            return 0

        for number in (0, 1):
            self.assertEqual(self.child.run(lambda number=number: work(number, number)), (0, ""))
        code, said = self.child.run(lambda: work(1, 0))
        self.assertEqual(code, 0, said)
        self.assertRegex(said, "'x': its memory is not on the session.s device: expected memory of cuda:0, got memory of cuda:1")


class Choices(OneContext):
    """Which kernel computes a product or a convolution: the library what is large, tiles what is small, and more of
    it where the library leaves something to do, the kernel for few rows what has few. Nothing is computed."""

    SIDES, ROWS = (4, 16, 32, 64), (1, 4, 5, 64, 256, 1024)
    TYPES = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}

    def way(self, text: str, weights: dict[str, tuple[int, ...]], dtype: type) -> str:
        """By the library, tiles, or the kernel for few rows; by several where there are several."""
        model, rng = onnx_parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}'), np.random.default_rng(5)
        for name, shape in weights.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(dtype), name))
        plan = demi.compile(model, device="cuda")
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]

        def work() -> int:
            PlanRunner(plan, device="cuda").run({"x": np.zeros(shape, dtype)})
            return 0

        self.assertEqual(self.child.run(work, more="idle"), (0, ""))
        kinds = {"library" if kind in ("product", "convolution") else name.split("_")[0]
                 for kind, name in self.child.counts() if kind in ("product", "convolution", "launched")}
        return " ".join(sorted(kinds & {"library", "tile", "few", "gemm", "direct"}))

    def convolutions(self, kind: str, after: str) -> list[str]:
        return [self.way(f"""g ({kind}[1,64,{side},{side}] x) => ({kind}[n,c,h,w] y) {{
            a = Conv <pads = [1, 1, 1, 1]> (x, k, b) c = {after} (a)
            d = Conv <pads = [1, 1, 1, 1]> (c, k, b) y = {after} (d) }}""", {"k": (64, 64, 3, 3), "b": (64,)}, self.TYPES[kind])
                for side in self.SIDES]

    def products(self, kind: str, after: str, depth: int = 256) -> list[str]:
        return [self.way(f"g ({kind}[{rows},{depth}] x) => ({kind}[n,m] y) {{ a = MatMul (x, k) c = Add (a, b) y = {after} (c) }}",
                         {"k": (depth, 64), "b": (64,)}, self.TYPES[kind]) for rows in self.ROWS]

    def goes(self, ways: list[str], order: list[str]) -> None:
        """From the first to the last in the order, each of which is there."""
        self.assertEqual((sorted(ways, key=order.index), set(ways)), (ways, set(order)))

    def test_convolutions(self) -> None:
        for kind in ("float16", "bfloat16"):
            whole, left = self.convolutions(kind, "Relu"), self.convolutions(kind, "Sigmoid")
            for ways in (whole, left):
                self.goes(ways, ["tile", "library"])
            self.assertLess(whole.count("tile"), left.count("tile"))
        self.goes(self.convolutions("float", "Sigmoid"), ["library"])

    def test_products(self) -> None:
        for kind in ("float16", "bfloat16"):
            whole, left = self.products(kind, "Relu"), self.products(kind, "Sigmoid")
            for ways in (whole, left):
                self.goes(ways, ["few", "tile", "library"])
                self.assertEqual(ways.count("few"), 2)
            self.assertLess(whole.count("tile"), left.count("tile"))
        self.assertEqual(self.products("float", "Sigmoid"), ["few"] * 2 + ["library"] * 4)
        for kind, depth in (("float16", 260), ("float", 258)):  # rows that do not all begin at 16 bytes
            self.assertEqual(self.products(kind, "Sigmoid", depth), ["library"] * 6)


class Branches(OneContext):
    """What an If gives stays on the device, whatever its branches give: what they compute, a constant,
    what is outside of them, another If's; and in which branch the runs before were."""

    def branches(self, outputs: str, then: str, otherwise: str, after: str, also: str = "") -> None:
        text = f"""<ir_version: 10, opset_import: ["" : 21]>
            g (float[4] x, bool c, bool d) => (float[4] y{also}) {{
                a = Relu (x) k = Neg (a)
                {outputs} = If (c) <then_branch = t () => ({then}, else_branch = e () => ({otherwise}>
                {after} }}"""
        runs = [(True, True), (False, True), (True, False), (False, False), (True, True), (False, True)]
        self.follows(text, [{"x": np.arange(4, dtype=np.float32) - i, "c": np.array(c), "d": np.array(d)}
                            for i, (c, d) in enumerate(runs)])

    def test_computed(self) -> None:
        self.branches("r", "float[4] t0) { t0 = Exp (a) }", "float[4] e0) { e0 = Add (a, k) }",
                      "y = Abs (r)")

    def test_constant(self) -> None:
        """The same constant in both: each branch has a copy of its own."""
        one = "Constant <value = float[4] {1, 2, 3, 4}> ()"
        self.branches("r, s", "float[4] t0, float[4] t1) { t0 = Exp (a) t1 = " + one + " }",
                      "float[4] e0, float[4] e1) { e0 = " + one + " e1 = Exp (k) }",
                      "y = Sub (r, s)")

    def test_outside(self) -> None:
        """Values of the graph around it, and its inputs, which the processor has."""
        self.branches("r, s", "float[4] t0, float[4] t1) { t0 = Identity (a) t1 = Exp (a) }",
                      "float[4] e0, float[4] e1) { e0 = Identity (k) e1 = Identity (x) }",
                      "y = Sub (r, s)")

    def test_within(self) -> None:
        self.branches("r", """float[4] t0) { t0 = If (d) <
                          then_branch = u () => (float[4] u0) { u0 = Exp (k) },
                          else_branch = v () => (float[4] v0) { v0 = Identity (x) }> }""",
                      "float[4] e0) { e0 = Add (a, k) }", "y = Neg (r)")

    def test_to_both_sides(self) -> None:
        """What a branch gives is an output and read on; the model gives what the branch does, too."""
        self.branches("r", "float[4] t0) { t0 = Identity (a) }", "float[4] e0) { e0 = Exp (k) }",
                      "y = Identity (r) z = Add (r, a) v = Identity (a)", ", float[4] z, float[4] v")

    def test_shapes(self) -> None:
        """Sizes that a branch computes are the processor's."""
        text = """<ir_version: 10, opset_import: ["" : 21]>
            g (float[n,m] x, bool c) => (float[p,q] y) {
                a = Relu (x)
                s = If (c) <then_branch = t () => (int64[2] t0) { t0 = Shape (a) },
                            else_branch = e () => (int64[2] e0) { e0 = Constant <value = int64[2] {6, 1}> () }>
                b = Reshape (a, s) y = Neg (b) }"""
        self.follows(text, [{"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2, "c": np.array(c)}
                            for c in (True, False, True, False)])


class Turns(OneContext):
    """What loops hand from turn to turn, take apart and collect stays on the device: what is copied is inputs
    and outputs, and what the processor and the device tell each other in the body."""

    def turns(self, inputs: str, outputs: str, body: str, feeds: dict[str, np.ndarray], copies: tuple[int, int],
              repeats: bool = True) -> None:
        """Of each of three runs: so many copies to the device, and from it; whether they are recorded."""
        model = onnx_parser.parse_model(
            f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => ({outputs}) {{ {body} }}')
        plan = demi.compile(model, device="cuda")
        want = PlanRunner(demi.compile(model)).run(feeds)
        counts = self.counted_runs(plan, feeds, want, 1e-5)
        self.assertEqual(counts.declined, 0)
        shown = self.shows(plan, 0, "")
        self.assertEqual((counts.uploads / 3, counts.downloads / 3), copies, shown)
        self.assertEqual(counts.replays, 2 if repeats else 0, shown)
        self.assertEqual("replayed from a recording" in shown, repeats, shown)

    X = {"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}
    M = "m = Constant <value = int64 {5}> () go = Constant <value = bool {1}> ()"

    def test_states(self) -> None:
        """Of an input, of a constant, that change places, that are handed on, and that are read within."""
        state = "float[3,4] a, float[3,4] b"
        self.turns("float[3,4] x", "float[3,4] y", self.M + """ y = Loop (m, go, x) <body = l (int64 i, bool c, float[3,4] s)
            => (c, t) { u = Mul (s, s) t = Sub (u, x) }>""", self.X, (1, 1))
        self.turns("float[3,4] x", "float[3,4] y", self.M + """ k = Constant <value = float[3,4] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}> ()
            a = Relu (x) z = Loop (m, go, k) <body = l (int64 i, bool c, float[3,4] s) => (c, t) { u = Tanh (s) t = Add (u, a) }>
            y = Neg (z)""", self.X, (2, 1))
        self.turns("float[3,4] x", "float[3,4] y, float[3,4] z", self.M + f""" a0 = Relu (x) b0 = Neg (x)
            y, z = Loop (m, go, a0, b0) <body = l (int64 i, bool c, {state}) => (c, t, a) {{ u = Tanh (b) t = Add (u, a) }}>""",
                   self.X, (1, 2))
        self.turns("float[3,4] x", "float[3,4] y, float[3,4] z", self.M + f"""
            y, z = Loop (m, go, x, x) <body = l (int64 i, bool c, {state}) => (c, t, b) {{ t = Tanh (a) }}>""",
                   self.X, (1, 1), False)
        self.turns("float[3,4] x", "float[3,4] y", self.M + f"""
            y, z = Loop (m, go, x, x) <body = l (int64 i, bool c, {state}) => (c, t, d) {{
                t = Tanh (a) d = MeanVarianceNormalization <axes = [1]> (a) }}>""", self.X, (1, 6), False)

    def test_turns(self) -> None:
        """None at all; as many as an input says; until an input's number is reached."""
        body = "<body = l (int64 i, bool c, float[3,4] s) => (c, t, v) { t = Tanh (s) v = Exp (t) }>"
        for n in (0, 1, 4):
            self.turns("float[3,4] x, int64 n", "float[3,4] y, float[k,3,4] z", f"go = Constant <value = bool {{1}}> ()"
                       f"a = Relu (x) y, w = Loop (n, go, a) {body} z = Neg (w)",
                       self.X | {"n": np.array(n)}, (1, 2 if n else 1), False)
        self.turns("float[3,4] x, int64 n", "float[3,4] y", """y = Loop (, , x) <body = l (int64 i, bool c, float[3,4] s)
            => (d, t) { t = Tanh (s) d = Less (i, n) }>""", self.X | {"n": np.array(3)}, (1, 1), False)

    def test_collected(self) -> None:
        self.turns("float[3,4] x", "float[k,3,4] y", self.M + """ z, w = Loop (m, go, x) <body = l (int64 i, bool c, float[3,4] s)
            => (c, t, v) { t = Tanh (s) v = Mul (t, t) }> y = Neg (w)""", self.X, (1, 1))
        self.turns("float[3,4] x", "int64[k] y, float[3,4] z", self.M + """ z, y = Loop (m, go, x) <body = l (int64 i, bool c, float[3,4] s)
            => (c, t, i) { t = Tanh (s) }>""", self.X, (1, 1), False)

    def test_recorded(self) -> None:
        """A repeated run has its own inputs, and in each turn what was the processor's of it then."""
        text = """<ir_version: 10, opset_import: ["" : 21]>
            g (float[3,4] x, float[3,4] z) => (float[3,4] y) {
                m = Constant <value = int64 {3}> () go = Constant <value = bool {1}> ()
                a, w = Loop (m, go, x) <body = l (int64 i, bool c, float[3,4] s) => (c, t, i) {
                    r = Gather <axis = 0> (z, i) t = Add (s, r) }>
                y = Gather <axis = 0> (a, w) }"""
        self.follows(text, [{"x": self.X["x"] - k, "z": self.X["x"] * k} for k in range(6)])
        self.turns("float[3,4] x, float[3,4] z", "float[3,4] y", text.split("y) {")[1][:-1],
                   {"x": self.X["x"], "z": self.X["x"] * 3}, (6, 1))

    def test_long_loop(self) -> None:
        """What would be a recording without bounds is none."""
        model = onnx_parser.parse_model(
            """<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) {
                m = Constant <value = int64 {16385}> () go = Constant <value = bool {1}> ()
                y = Loop (m, go, x) <body = l (int64 i, bool c, float[4] s) => (c, t) { t = Neg (s) }> }""")
        x = np.arange(4, dtype=np.float32)
        counts = self.counted_runs(demi.compile(model, device="cuda"), {"x": x}, [-x], 0)
        self.assertEqual((counts.replays, counts.launches), (0, 3 * 16385))

    def test_within(self) -> None:
        """A branch in the body, and a loop."""
        self.turns("float[3,4] x, bool p", "float[3,4] y", self.M + """ y = Loop (m, go, x) <body = l (int64 i, bool c, float[3,4] s)
            => (c, t) { t = If (p) <then_branch = u () => (e) { e = Tanh (s) }, else_branch = v () => (f) { f = Identity (s) }> }>""",
                   self.X | {"p": np.array(True)}, (1, 1), False)
        self.turns("float[3,4] x", "float[3,4] y", self.M + """ y = Loop (m, go, x) <body = l (int64 i, bool c, float[3,4] s)
            => (c, t) { t = Loop (m, c, s) <body = o (int64 j, bool d, float[3,4] r) => (d, q) { q = Tanh (r) }> }>""",
                   self.X, (1, 1))

    def test_constant_in_branches(self) -> None:
        """A constant that becomes a state in one branch and is what the other one gives: each has a copy of its own."""
        for p in (True, False):
            self.turns("float[3,4] x, bool p", "float[3,4] y", self.M + """ a = Relu (x)
                k = Constant <value = float[3,4] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}> ()
                r = If (p) <then_branch = u () => (e) {
                                e = Loop (m, go, k) <body = l (int64 i, bool c, float[3,4] s) => (c, t) { t = Add (s, a) }> },
                            else_branch = w () => (k) { n = Neg (a) }>
                y = Add (a, r)""", self.X | {"p": np.array(p)}, (2, 1), False)

    def test_scan(self) -> None:
        """Forwards and backwards; along another axis slices are the processor's."""
        x = {"x": np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 6), "h": np.ones(6, np.float32)}
        body = "<body = l (float[6] s, float[6] v) => (t, o) { u = Add (s, v) t = Tanh (u) o = Mul (t, v) }, num_scan_inputs = 1"
        for more in ("", ", scan_input_directions = [1]", ", scan_output_directions = [1]"):
            self.turns("float[5,6] x, float[6] h", "float[6] y, float[5,6] z",
                       f"a = Neg (x) y, w = Scan (h, a) {body}{more}> z = Exp (w)", x, (2, 2))
        self.turns("float[6,5] x, float[6] h", "float[6] y, float[5,6] z",
                   f"a = Neg (x) y, w = Scan (h, a) {body}, scan_input_axes = [1]> z = Exp (w)",
                   x | {"x": x["x"].reshape(6, 5)}, (7, 3), False)
        self.turns("float[5,6] x, float[6] h", "float[6] y, float[6,5] z",
                   f"a = Neg (x) y, w = Scan (h, a) {body}, scan_output_axes = [1]> z = Exp (w)", x, (3, 7), False)
        self.turns("float[5,6] x, float[6] h", "float[6] y", f"y, w = Scan (h, x) {body}>", x, (2, 1))


class Casts(OneContext):
    """Steps load and store what casts beside them would make; where somebody else wants that, casts stay."""

    def left(self, body: str, casts: int, more: str = "") -> None:
        text = f"""<ir_version: 10, opset_import: ["" : 21]>
            g (bfloat16[3,4] x) => (float16[3,4] y{more}) {{ {body} }}"""
        x = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16) - np.asarray(5, ml_dtypes.bfloat16)
        self.follows(text, [{"x": x}] * 3)
        plan = self.folder / "m.plan"
        plan.write_bytes(demi.compile(onnx_parser.parse_model(text), device="cuda"))
        shown = subprocess.run([args.demi, "show", plan, "--device", "cuda"], capture_output=True,
                               text=True, check=True).stdout
        self.assertEqual(len(re.findall(r"= Cast-\d+.*; device", shown)), casts, shown)

    def test_around(self) -> None:
        self.left("a = Cast <to = 1> (x) b = Softmax (a) y = Cast <to = 10> (b)", 0)

    def test_of_two_types(self) -> None:
        self.left("a = Cast <to = 1> (x) b = Exp (a) c = Mul (b, a) y = Cast <to = 10> (c)", 0)

    def test_that_others_read(self) -> None:
        """A step that takes one type alone, and an output of the model."""
        self.left("a = Cast <to = 1> (x) b = Exp (a) c = Sum (b, a) d = Abs (c) y = Cast <to = 10> (d)", 1)
        self.left("a = Cast <to = 1> (x) b = Exp (a) z = Identity (a) y = Cast <to = 10> (b)", 1,
                  ", float[3,4] z")

    def test_of_a_result_that_is_read_on(self) -> None:
        self.left("a = Cast <to = 1> (x) b = Exp (a) z = Neg (b) y = Cast <to = 10> (b)", 1,
                  ", float[3,4] z")

    def test_that_round_an_operand(self) -> None:
        """What it computes would not be rounded any more."""
        self.left("a = Cast <to = 1> (x) b = Exp (a) c = Identity (b) d = Cast <to = 10> (b) y = Neg (d)"
                  " z = Neg (c)", 1, ", float[3,4] z")

    def test_into_branches(self) -> None:
        self.left("""a = Cast <to = 1> (x) k = ReduceSum <keepdims = 0> (x) n = Cast <to = 1> (k)
            q = Constant <value = float {0.}> () c = Less (n, q)
            b = If (c) <then_branch = t () => (float[3,4] t0) { t0 = Exp (a) },
                        else_branch = e () => (float[3,4] e0) { e0 = Neg (a) }>
            y = Cast <to = 10> (b)""", 1)


if __name__ == "__main__":
    main(__doc__)
