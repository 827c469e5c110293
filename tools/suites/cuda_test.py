# SPDX-License-Identifier: Apache-2.0
"""CUDA without a GPU: what is said where something is missing, and, on the fake device
(tools/fake_cuda, named in LD_LIBRARY_PATH), every call of driver and libraries that fails once, and
what whole networks make of the device.

A call that fails ends the run with an error, or does not matter; in either case the runs after it, in
the same context, are right, and nothing is left behind at the end. Networks give what they give on the
processor, all on the device, and move inputs and outputs alone; from the second run on a recording is
repeated. In 16 bit they launch no more than in float, read and write 0.6 of its bytes at most, and cast
nothing by itself.
"""

import argparse
import collections
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from concurrent import futures

import ml_dtypes
import numpy as np
import onnx
from onnx import parser as onnx_parser

from suite import made_models, metric, runtime
from suite.cuda_driver import Driver

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "testdata/models/conv_net.onnx"
FAKE = "fake CUDA"
SOON_S = 0.1
BYTES = 0.6  # that a network in 16 bit reads and writes on the device, at most, of those in float
args = argparse.Namespace()

# Products, convolutions of both kinds, what follows them, steps of the processor in the midst, one of
# which reads an input.
SMALL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,8,9,9] x, float[1,9] z) => (float[1,9] y, float[9] sums)
{
    c = Conv <pads = [1, 1, 1, 1]> (x, w)
    d = Relu (c)
    e = Conv <pads = [1, 1, 1, 1], group = 8> (d, dw)
    f = HardSwish (e)
    p = GlobalAveragePool (f)
    r = Flatten (p)
    m = MatMul (r, b)
    n = Add (m, z)
    y = Softmax (n)
    s = Squeeze (y)
    l = MeanVarianceNormalization <axes = [1]> (z)
    t = Squeeze (l)
    u = Add (s, t)
    sums = MeanVarianceNormalization <axes = [0]> (u)
}
"""
# The same without the processor: it is recorded.
WHOLE = re.sub(r", float\[9\] sums\)", ")", SMALL).split("    s = Squeeze")[0] + "}\n"
# And with a step whose operands the device does not take.
LARGE_HEADS = WHOLE.replace('"" : 21', '"" : 24').replace("y = Softmax (n)", """
    often = Constant <value = int64[2] {1, 30}> () heads = Constant <value = int64[4] {1, 1, 1, 270}> ()
    t = Tile (n, often) q = Reshape (t, heads) a = Attention (q, q, q)
    flat = Flatten (a) y = Softmax (flat)""").replace("float[1,9] y", "float[1,270] y")


def small_model(text: str) -> bytes:
    model, rng = onnx_parser.parse_model(text), np.random.default_rng(3)
    for name, shape in (("w", (8, 8, 3, 3)), ("dw", (8, 1, 3, 3)), ("b", (8, 9))):
        array = (rng.standard_normal(shape) * 0.3).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model.SerializeToString()


def settings(text: str) -> dict[str, str]:
    return os.environ | {"FAKE_CUDA": text}


class Refusals(unittest.TestCase):
    """One line, exit 3, nothing left behind."""

    def refused(self, environment: dict[str, str], expected: str, device: str = "cuda") -> float:
        start = time.monotonic()
        done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", device],
                              env=environment, capture_output=True, text=True, check=False)
        took = time.monotonic() - start
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, expected)
        self.assertNotIn(FAKE, done.stderr)
        self.assertEqual(done.stdout, "")
        return took

    def test_no_driver(self) -> None:
        """What is missing, at once, and nothing is computed by the processor instead."""
        plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        try:
            ctypes.CDLL("libcuda.so.1")
            found = "fake_cuda" not in os.environ.get("LD_LIBRARY_PATH", "")
        except OSError:
            found = False
        if found:
            self.skipTest("there is a driver")
        took = [self.refused(plain, r"the CUDA driver can't be loaded: libcuda\.so\.1")
                for _ in range(3)]
        self.assertLess(min(took), SOON_S)

    def test_no_device(self) -> None:
        self.refused(settings("no-device"), "there is no CUDA device\n")
        self.refused(settings(""), "there is no CUDA device 9", "cuda:9")

    def test_too_old(self) -> None:
        self.refused(settings("driver=12080"), r"driver is too old.*13\.0 or later.*12\.8")
        self.refused(settings("capability=75"), r"too old for demi's kernels.*8\.0 or later.*7\.5")

    def test_other_architecture(self) -> None:
        for code in (209, 222):
            self.refused(settings(f"fail=cuModuleLoadData:1:{code}"),
                         "were not built for Fake device.*DEMI_CUDA_ARCHITECTURES=90")

    def test_no_memory(self) -> None:
        self.refused(settings("memory=1000"), r"(no \d+ bytes left|no room)")

    def test_lost(self) -> None:
        for at in (1, 2, 3):
            self.refused(settings(f"fail=cuStreamSynchronize:{at}:719"),
                         "unspecified launch failure")

    def test_limited_memory(self) -> None:
        for words in (["--device-memory", "2K"], ["--device-memory", "2048"]):
            done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", "cuda", *words],
                                  env=settings(""), capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (3, 1), done.stderr)
            self.assertRegex(done.stderr, "more of the device's memory is needed than the limit of 2048 bytes")
        done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", "cuda",
                               "--device-memory", "2T"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("a number of bytes, as 500M or 2G", done.stderr)

    def test_tf32(self) -> None:
        """Off unless it is asked for, and said where it is on."""
        for words, said in (([], False), (["--tf32", "off"], False), (["--tf32", "on"], True)):
            done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", "cuda", *words],
                                  env=settings(""), capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual("of them may be in TF32" in done.stdout, said, done.stdout)

    def test_graph(self) -> None:
        """Runs are repeated from a recording unless that is off."""
        for words, off in (([], False), (["--device-graph", "on"], False), (["--device-graph", "off"], True)):
            done = subprocess.run([args.demi, "bench", MODEL, "--random", "1", "--device", "cuda", "--runs", "3",
                                   "--json", "-", *words], env=settings(""), capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["device"]["replays"] == 0, off, done.stdout)

    def test_second_device(self) -> None:
        done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", "cuda:1"],
                              env=settings(""), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Size(unittest.TestCase):
    MOST = 2_000_000  # bytes that CUDA adds to a program: kernels' images and the host's code
    HOST = ("cuda_", "exec_device", "exec_here", "exec_record", "step_place", "step_casts", "context_device",
            "plan_devices")

    def test_growth(self) -> None:
        folder, total = pathlib.Path(args.libdemi).parent, 0
        for library in ("libdemi_kernels.a", "libdemi_runtime.a"):
            done = subprocess.run(["size", folder / library], capture_output=True, text=True, check=True)
            members = [line.split() for line in done.stdout.splitlines()[1:]]
            total += sum(int(m[0]) + int(m[1]) for m in members if m[5].startswith(self.HOST))
        self.assertGreater(total, self.MOST // 2)
        self.assertLess(total, self.MOST)


class Child:
    """What a child process did with a plan on the device."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.errors, self.log = folder, folder / "errors", folder / "log"

    def run(self, work: Callable[[], int], fails: str = "") -> tuple[int, str]:
        """Its exit code, and what it said; it ends as programs do, with what libraries do then."""
        self.log.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            code = 70
            try:
                with self.errors.open("wb") as errors:
                    os.dup2(errors.fileno(), 2)
                os.environ["FAKE_CUDA"] = f"log={self.log}{',fail=' * bool(fails)}{fails}"
                code = work()
            except BaseException as error:  # noqa: BLE001
                os.write(2, f"{type(error).__name__}: {error}".encode())
            ctypes.CDLL(None).exit(code)
        status = os.waitpid(child, 0)[1]
        return os.waitstatus_to_exitcode(status), self.errors.read_text(errors="replace")

    def counts(self) -> collections.Counter:
        made = collections.Counter()
        for line in self.log.read_text().splitlines():
            kind, name, count = line.rsplit(" ", 2)
            made[kind, name] = int(count)
        return made


class OnDevice(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.child = Child(self.folder)
        self.counted = self.folder / "counted"

    def tearDown(self) -> None:
        shutil.rmtree(self.folder)


def feeds_for(model: bytes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    return {i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim])
            .astype(np.float32) for i in onnx.load_from_string(model).graph.input}


class Failures(OnDevice):
    """Each call fails once, at each position."""

    RUNS = 5

    def sweep(self, text: str) -> None:
        model = small_model(text)
        library, feeds = runtime.LibDemi(args.libdemi), feeds_for(model)
        plan = library.compile(model, for_device=True)
        want = runtime.PlanRunner(library, plan).run(feeds)

        def work() -> int:
            failed = 0
            try:
                runner = runtime.PlanRunner(library, plan, device="cuda")
            except runtime.Failed as error:
                os.write(2, f"{error}\n".encode())
                return 3
            for _ in range(self.RUNS):
                try:
                    got = runner.run(feeds)
                except runtime.Failed as error:
                    os.write(2, f"{error}\n".encode())
                    failed += 1
                    continue
                for y, y0 in zip(got, want):
                    np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
            del runner
            return 0 if failed == 0 else 3 if failed == 1 else 4

        code, said = self.child.run(work)
        self.assertEqual((code, said), (0, ""))
        calls = {name: count for (kind, name), count in self.child.counts().items()
                 if kind == "call" and not name.startswith(("cuGetError", "cuCtxPop", "cuThread"))}
        positions = 0
        for name, count in calls.items():
            for at in range(1, count + 1):
                if at > args.most and at % 7:
                    continue
                positions += 1
                code, said = self.child.run(work, f"{name}:{at}:999")
                where = f"call {at} of {name}: exit {code}: {said}"
                self.assertIn(code, (0, 3), where)
                self.assertTrue(code == 0 or said.strip(), where)
                self.assertNotIn(FAKE, said, where)
                if code:
                    self.assertRegex(said, "CUDA|cuBLASLt|cuDNN", where)
        self.assertGreater(positions, 100)

    def test_recorded(self) -> None:
        self.sweep(WHOLE)

    def test_with_the_processor(self) -> None:
        self.sweep(SMALL)

    def test_declined(self) -> None:
        self.sweep(LARGE_HEADS)


class OneContext(OnDevice):
    def follows(self, text: str, inputs: list[dict[str, np.ndarray]], want: list | None = None) -> None:
        """One context runs these one after the other, and gives `want` or what the processor gives."""
        library = runtime.LibDemi(args.libdemi)
        plan = library.compile(onnx_parser.parse_model(text).SerializeToString(), for_device=True)
        processor = runtime.PlanRunner(library, plan)
        expected = [[want] if want else processor.run(feeds) for feeds in inputs]

        def work() -> int:
            runner = runtime.PlanRunner(library, plan, device="cuda")
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

    def test_sizes_that_change(self) -> None:
        """A recording goes with the memory that it knows."""
        self.follows("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[n,4] x) => (float[m,4] y) {
                a = Relu (x) b = Softmax (a) c = Add (a, b) y = Concat <axis = 0> (c, a) }""",
                     [{"x": np.arange(4 * n, dtype=np.float32).reshape(n, 4) / n}
                      for n in (16, 16, 16, 900, 900, 900, 16, 900, 16)])

    def test_inputs_that_are_handed_on(self) -> None:
        """A recording reads them anew behind an Identity, too."""
        for body in ("a = Identity (x) y = Abs (a)", "a = Identity (x) b = Identity (a) y = Add (b, x)"):
            with self.subTest(body):
                self.follows('<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) {'
                             + body + "}",
                             [{"x": np.arange(4, dtype=np.float32) - k} for k in range(5)])


class Declined(OneContext):
    """Operands that no kernel of the device takes: the processor computes the step, and the others stay
    there. Results are the processor's, step by step, recorded or not, with casts that steps do themselves,
    in graphs within graphs, and where the result would lie in an operand."""

    def declines(self, text: str, feeds: dict[str, np.ndarray] | list[dict[str, np.ndarray]],
                 steps: int, opset: int = 21) -> None:
        """`steps` of all runs are the processor's; three runs of the same inputs, or one of each."""
        model = onnx_parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')
        inputs = feeds if isinstance(feeds, list) else [feeds] * 3
        library = runtime.LibDemi(args.libdemi)
        plan = library.compile(model.SerializeToString(), for_device=True)
        processor = runtime.PlanRunner(library, plan)
        expected = [processor.run(x) for x in inputs]

        def work() -> int:
            for by_step in (False, True):
                runner = runtime.PlanRunner(library, plan, device="cuda", device_steps=by_step)
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

    @staticmethod
    def floats(*shape: int, dtype: type = np.float32) -> np.ndarray:
        return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)

    def test_large_heads(self) -> None:
        for dtype, name in ((np.float32, "float"), (np.float16, "float16")):
            self.declines(f"g ({name}[1,2,3,300] x) => ({name}[1,2,3,300] y) {{ q = Relu (x)"
                          "z = Attention (q, x, x) y = Abs (z) }", {"x": self.floats(1, 2, 3, 300, dtype=dtype)},
                          3, opset=24)

    def test_masks_of_integers(self) -> None:
        self.declines("g (float[1,2,3,16] x, int64[3,3] m) => (float[1,2,3,16] y) { q = Relu (x)"
                      "z = Attention (q, x, x, m) y = Abs (z) }",
                      {"x": self.floats(1, 2, 3, 16), "m": np.array([[1, 0, 0], [2, 1, 0], [3, 2, 1]])}, 3, opset=24)

    def test_many_axes(self) -> None:
        """A convolution, which gets ready before it runs, and what does not."""
        self.declines("g (float[1,2,3,3,3,3] x, float[2,2,2,2,2,2] w) => (float[1,2,2,2,2,2] y) {"
                      "a = Relu (x) z = Conv (a, w) y = Abs (z) }",
                      {"x": self.floats(1, 2, 3, 3, 3, 3), "w": self.floats(2, 2, 2, 2, 2, 2)}, 3)
        self.declines("g (float[1,1,3,3,3,3] x, float[1,2,2,2,2,4] at) => (float[1,1,2,2,2,2] y) {"
                      "a = Relu (x) z = GridSample (a, at) y = Abs (z) }",
                      {"x": self.floats(1, 1, 3, 3, 3, 3), "at": self.floats(1, 2, 2, 2, 2, 4)}, 3)

    def test_casts_that_steps_do(self) -> None:
        self.declines("g (float16[1,1,3,3,3,3] x, float[1,2,2,2,2,4] at) => (float16[1,1,2,2,2,2] y) {"
                      "a = Relu (x) b = Cast <to = 1> (a) c = GridSample (b, at) z = Cast <to = 10> (c)"
                      "y = Abs (z) }",
                      {"x": self.floats(1, 1, 3, 3, 3, 3, dtype=np.float16),
                       "at": self.floats(1, 2, 2, 2, 2, 4)}, 3)

    WIDE, THIN = (2, 1) * 5, (1, 2) * 5

    def test_in_an_operand(self) -> None:
        dims = ",".join(map(str, self.WIDE)), ",".join(map(str, self.THIN)), ",".join("2" * 10)
        self.declines(f"g (float[{dims[0]}] x, float[{dims[1]}] z, float[{dims[2]}] u) => (float[{dims[2]}] y) {{"
                      "a = Abs (x) b = Relu (u) c = Sub (b, a) y = Add (c, z) }",
                      {"x": self.floats(*self.WIDE), "z": self.floats(*self.THIN), "u": self.floats(*[2] * 10)}, 6)

    def test_some_sizes(self) -> None:
        """Other sizes are the device's, and recorded."""
        names = ",".join("abcdefghij")
        few = {"x": self.floats(*[2] * 10), "z": self.floats(*[2] * 10)}
        many = {"x": self.floats(*self.WIDE), "z": self.floats(*self.THIN)}
        self.declines(f"g (float[{names}] x, float[{names.upper()}] z) => (float[{'k,' * 9}k] y) {{"
                      "a = Abs (x) b = Add (a, z) y = Relu (b) }", [few, few, many, few, many, many, many, few], 4)

    def test_within_graphs(self) -> None:
        at = "float[1,2,2,2,2,4] at"
        body = "b = GridSample (s, at) c = Abs (b)"
        feeds = {"x": self.floats(1, 1, 3, 3, 3, 3), "at": self.floats(1, 2, 2, 2, 2, 4)}
        self.declines(f"g (float[1,1,3,3,3,3] x, {at}, bool p) => (float[1,1,2,2,2,2] y) {{ s = Relu (x)"
                      f"d = If (p) <then_branch = t () => (c) {{ {body} }},"
                      "else_branch = e () => (f) { f = Neg (s) }> y = Exp (d) }",
                      feeds | {"p": np.array(True)}, 3)
        self.declines(f"g (float[1,1,3,3,3,3] x, {at}, int64 n) => (float[k,1,1,2,2,2,2] y) {{ s = Relu (x)"
                      "go = Constant <value = bool {1}> ()"
                      f"d = Loop (n, go) <body = l (int64 i, bool on) => (same, c) {{ same = Identity (on) {body} }}>"
                      "y = Exp (d) }", feeds | {"n": np.array(2)}, 6)

    def test_budget(self) -> None:
        """What the processor takes for it counts in the context's memory."""
        library = runtime.LibDemi(args.libdemi)
        plan = library.compile(onnx_parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 24]> g (float[1,2,64,300] x) => (float[1,2,64,300] y) {'
            "q = Relu (x) z = Attention (q, x, x) y = Abs (z) }").SerializeToString(), for_device=True)
        feeds = {"x": self.floats(1, 2, 64, 300)}

        def work() -> int:
            few = runtime.PlanRunner(library, plan, device="cuda", memory=500_000)
            for _ in range(2):
                try:
                    few.run(feeds)
                    return 1
                except runtime.Failed as error:
                    assert "memory" in str(error), error
            enough = runtime.PlanRunner(library, plan, device="cuda", memory=4_000_000)
            for _ in range(5):
                enough.run(feeds)
            del few, enough
            return 0

        self.assertEqual(self.child.run(work), (0, ""))


class FewBits(OneContext):
    """Plans for a processor, in which products have their weights of 4 and 8 bits: they run on the device, too,
    with what follows them."""

    def test_fused(self) -> None:
        rng, library = np.random.default_rng(5), runtime.LibDemi(args.libdemi)
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
            plan = library.compile(model.SerializeToString())
            want = runtime.PlanRunner(library, plan).run(feeds)[0]

            def work() -> int:
                runner = runtime.PlanRunner(library, plan, device="cuda")
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
        """Orders of the depth are left to the processor, which has none either, and says so."""
        model = onnx_parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
            g (float[2,32] x, uint8[8,1,16] w, float[8] s, int32[32] order) => (y) {
                y = com.microsoft.MatMulNBits <K = 32, N = 8, bits = 4, block_size = 32> (x, w, s, , order) }""")
        library = runtime.LibDemi(args.libdemi)
        plan = library.compile(model.SerializeToString(), for_device=True)
        feeds = {"x": np.ones((2, 32), np.float32), "w": np.zeros((8, 1, 16), np.uint8),
                 "s": np.ones(8, np.float32), "order": np.arange(32, dtype=np.int32)}

        def work() -> int:
            try:
                runtime.PlanRunner(library, plan, device="cuda").run(feeds)
            except runtime.Failed as error:
                assert "g_idx" in str(error), error
                return 0
            return 1

        self.assertEqual(self.child.run(work), (0, ""))


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


class Casts(OneContext):
    """Steps load and store what casts beside them would make; where somebody else wants that, casts stay."""

    def left(self, body: str, casts: int, more: str = "") -> None:
        text = f"""<ir_version: 10, opset_import: ["" : 21]>
            g (bfloat16[3,4] x) => (float16[3,4] y{more}) {{ {body} }}"""
        x = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16) - np.asarray(5, ml_dtypes.bfloat16)
        self.follows(text, [{"x": x}] * 3)
        plan = self.folder / "m.plan"
        plan.write_bytes(runtime.LibDemi(args.libdemi).compile(
            onnx_parser.parse_model(text).SerializeToString(), for_device=True))
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


class Callers(OnDevice):
    """What is the caller's: a stream, memory on the device, when to wait, how much there may be."""

    RUNS = 5

    def ran(self, text: str, use: Callable[[Driver, runtime.LibDemi, bytes, dict, list], None]) -> None:
        """`use` of a plan, its inputs and what a processor makes of these, in a process of its own."""
        model = small_model(text)
        library, feeds = runtime.LibDemi(args.libdemi), feeds_for(model)
        plan = library.compile(model, for_device=True)
        want = [np.asarray(y) for y in runtime.PlanRunner(library, plan).run(feeds)]

        def work() -> int:
            driver = Driver()
            use(driver, library, plan, feeds, want)
            driver.end()
            return 0

        self.assertEqual(self.child.run(work), (0, ""))

    def steered(self, at: int, more: dict, text: str = WHOLE,
                moves: tuple[int, ...] = ()) -> runtime.DeviceCounts:
        """Runs that are started in the caller's stream, on the caller's memory, of which inputs are written
        and outputs read by work in that stream alone; `at` bytes behind what is aligned. The counts of
        all runs; before those of `moves` the memory becomes another."""
        counts = self.folder / "told"

        def use(driver: Driver, library: runtime.LibDemi, plan: bytes, feeds: dict, want: list) -> None:
            runner = runtime.PlanRunner(library, plan, device="cuda", device_stream=driver.stream, **more)
            for run in range(self.RUNS):
                if run == 0 or run in moves:
                    there = {n: driver.room(x.nbytes, at) for n, x in feeds.items()}
                    results = [driver.room(y.nbytes, at) for y in want]
                runner.borrow_device(feeds, there)
                runner.bind_device(results, [y.nbytes for y in want])
                for name, x in feeds.items():
                    driver.send(there[name], np.zeros_like(x) if run == 2 else x)
                runner.start()
                for y, address in zip(want, results):
                    got = driver.fetch(np.empty_like(y), address)
                    if run != 2:
                        np.testing.assert_allclose(got, y, 1e-4, 1e-5)
                    for name, x in feeds.items():
                        np.testing.assert_array_equal(driver.fetch(np.empty_like(x), there[name]),
                                                      np.zeros_like(x) if run == 2 else x)
                runner.wait()
            counts.write_bytes(bytes(runner.device_counts()))
            del runner

        self.ran(text, use)
        return runtime.DeviceCounts.from_buffer_copy(counts.read_bytes())

    def test_memory(self) -> None:
        """Nothing is copied, and from the second run on a recording is repeated."""
        counts = self.steered(0, {})
        self.assertEqual((counts.uploads, counts.downloads, counts.replays), (0, 0, self.RUNS - 1))

    def test_memory_that_moves(self) -> None:
        """A recording knows its memory; where it moves in every run, none is made."""
        for moves, replays in ((range(self.RUNS), 0), ((3,), self.RUNS - 2)):
            counts = self.steered(0, {}, moves=tuple(moves))
            self.assertEqual((counts.uploads, counts.downloads, counts.replays), (0, 0, replays))

    def test_memory_that_is_not_aligned(self) -> None:
        counts = self.steered(4, {})
        self.assertEqual((counts.uploads, counts.downloads, counts.replays), (0, 0, self.RUNS - 1))

    def test_memory_that_the_processor_reads(self) -> None:
        """An output that it makes, of a value that it reads of the device."""
        self.steered(0, {}, SMALL)

    def test_steps(self) -> None:
        self.assertEqual(self.steered(0, {"device_steps": True}).replays, 0)

    def test_start(self) -> None:
        """Of memory of the host's: outputs are there when it was waited for."""
        def use(_: Driver, library: runtime.LibDemi, plan: bytes, feeds: dict, want: list) -> None:
            runner = runtime.PlanRunner(library, plan, device="cuda")
            runner.bind(feeds)
            for run in range(self.RUNS):
                runner.start()
                assert not library.c.demi_context_output(runner.context, 0)
                if run == 3:
                    runner.start()  # waits for the other one
                runner.wait()
                for y, y0 in zip(runner.results(), want):
                    np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
            runner.start()  # and is forgotten by a run
            for y, y0 in zip(runner.run(feeds), want):
                np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
            runner.start()
            del runner

        self.ran(SMALL, use)

    def test_limit(self) -> None:
        """As much as it needs does, a little less is refused in one line, and a context goes on."""
        peak = self.folder / "peak"

        def measure(_: Driver, library: runtime.LibDemi, plan: bytes, feeds: dict, want: list) -> None:
            runner = runtime.PlanRunner(library, plan, device="cuda")
            for _ in range(3):
                runner.run(feeds)
            peak.write_text(str(runner.device_counts().memory_peak))
            del runner

        def use(_: Driver, library: runtime.LibDemi, plan: bytes, feeds: dict, want: list) -> None:
            most = int(peak.read_text())
            for limit in (most + (1 << 16), most // 2, most // 4, 1000, 1):
                runner, made = runtime.PlanRunner(library, plan, device="cuda", device_memory=limit), 0
                for _ in range(self.RUNS):
                    try:
                        for y, y0 in zip(runner.run(feeds), want):
                            np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
                        made += 1
                    except runtime.Failed as error:
                        assert f"the limit of {limit} bytes" in str(error), error
                        assert "\n" not in str(error), error
                    assert runner.device_counts().memory <= limit, limit
                assert made == self.RUNS or limit < most, limit
                assert made == 0 or limit > 1000, limit
                del runner

        for text in (WHOLE, SMALL):
            self.ran(text, measure)
            self.ran(text, use)

    def test_tf32(self) -> None:
        """Only where it is asked for, and then it is counted."""
        def use(_: Driver, library: runtime.LibDemi, plan: bytes, feeds: dict, want: list) -> None:
            for tf32 in (False, True):
                runner = runtime.PlanRunner(library, plan, device="cuda", tf32=tf32)
                for _ in range(3):
                    for y, y0 in zip(runner.run(feeds), want):
                        np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
                counts = runner.device_counts()
                assert (counts.tf32 > 0) == tf32 and counts.tf32 % 3 == 0, counts.tf32
                del runner

        self.ran(WHOLE, use)

    def test_capture(self) -> None:
        """While the caller captures the stream, a run is refused, and the capture is whole; a capture of
        another stream, for all threads, goes on beside runs."""
        def use(driver: Driver, library: runtime.LibDemi, plan: bytes, feeds: dict, want: list) -> None:
            for stream in (driver.stream, None):
                runner = runtime.PlanRunner(library, plan, device="cuda", device_stream=stream)
                if stream:
                    runner.run(feeds)
                driver.call("cuStreamBeginCapture_v2", driver.stream, 0)
                for _ in range(3):
                    try:
                        runner.run(feeds)
                        assert not stream, "it ran"
                    except runtime.Failed as error:
                        assert stream and "is being captured" in str(error), error
                del runner
                driver.call("cuGraphDestroy", driver.made_of_capture())

        self.ran(WHOLE, use)


class Threads(OnDevice):
    """Several contexts at once, some of one plan, whose constants they share."""

    THREADS, ROUNDS = 6, 4

    def test_contexts(self) -> None:
        library = runtime.LibDemi(args.libdemi)
        models = [small_model(text) for text in (WHOLE, SMALL)]
        plans = [library.compile(model, for_device=True) for model in models]
        feeds = [[{n: x * (k + 1) for n, x in feeds_for(model).items()} for k in range(self.THREADS)]
                 for model in models]
        want = []
        for plan, given in zip(plans, feeds):
            processor = runtime.PlanRunner(library, plan)
            want.append([processor.run(f) for f in given])

        def work() -> int:
            kept = [runtime.PlanRunner(library, plan, device="cuda") for plan in plans]
            start = threading.Barrier(self.THREADS)

            def one(number: int) -> None:
                which = number % len(plans)
                start.wait()
                for _ in range(self.ROUNDS):  # made anew: constants come and go beside others' runs
                    runner = runtime.PlanRunner(library, plans[which], device="cuda")
                    for _ in range(self.ROUNDS):
                        for y, y0 in zip(runner.run(feeds[which][number]), want[which][number]):
                            np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
                    del runner

            with futures.ThreadPoolExecutor(self.THREADS) as pool:
                for done in [pool.submit(one, number) for number in range(self.THREADS)]:
                    done.result()
            del kept
            return 0

        self.assertEqual(self.child.run(work), (0, ""))


class Models(OnDevice):
    """Trained ones, with what of them the processor has to do."""

    def outputs(self, model: pathlib.Path, device: str) -> dict[str, np.ndarray]:
        folder = self.folder / model.stem / device
        folder.mkdir(parents=True)
        done = subprocess.run([args.demi, "run", model, "--random", "1", "--device", device, "-o", folder],
                              env=settings(""), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("by the processor, whose operands", done.stdout)
        return {path.name: np.load(path) for path in folder.glob("*.npy")}

    def test_models(self) -> None:
        for model in sorted((ROOT / "build/data/models").rglob("*.onnx")):
            with self.subTest(model.name):
                want, got = self.outputs(model, "cpu"), self.outputs(model, "cuda")
                self.assertEqual(got.keys(), want.keys())
                for name, y0 in want.items():
                    error, text = metric.float_error(got[name], y0, 1e-3)
                    self.assertEqual(text, "")
                    self.assertLess(error, 1e-4, name)
                self.all_there(model)

    def all_there(self, model: pathlib.Path) -> None:
        """The processor has shapes and control flow alone, and nothing is copied but inputs and outputs."""
        plan = self.folder / "m.plan"
        subprocess.run([args.demi, "compile", model, "--device", "cuda", "-o", plan], check=True,
                       capture_output=True)
        text = subprocess.run([args.demi, "show", plan, "--device", "cuda"], capture_output=True,
                              text=True, check=True).stdout
        graph = onnx.load(model, load_external_data=False).graph
        copies = int(re.search(r"placed: .* (\d+) copies", text)[1])
        self.assertLessEqual(copies, len(graph.input) + len(graph.output))
        reasons = set(re.findall(r"; processor: (.*)", text))
        self.assertLessEqual(reasons, {"control flow", "shapes follow from it", "it reads constants alone",
                                       "its data is in the processor's memory"})


class Networks(OnDevice):
    """Those of known shapes, in float, float16 and bfloat16; small, or (--full) with their own sizes and two
    layers where they are transformers."""

    RUNS = 3

    def show(self, plan: bytes) -> str:
        path = self.folder / "m.plan"
        path.write_bytes(plan)
        return subprocess.run([args.demi, "show", path, "--device", "cuda"], capture_output=True,
                              text=True, check=True).stdout

    def run_one(self, model: onnx.ModelProto, to: str) -> tuple[collections.Counter, str, tuple]:
        """What was called in all runs, the plan, and what the context counted: launches, and bytes."""
        library, feeds = runtime.LibDemi(args.libdemi), made_models.feeds_of(model)
        data = model.SerializeToString()
        want = runtime.PlanRunner(library, library.compile(data)).run(feeds)
        data = library.convert(data, to, "low") if to else data
        plan = library.compile(data, for_device=True)
        limit = metric.TOLERANCE[to] if to else 1e-4
        given = {name: metric.to_low(x, to) if to and x.dtype == np.float32 else x
                 for name, x in feeds.items()}

        def work() -> int:
            runner = runtime.PlanRunner(library, plan, device="cuda")
            for _ in range(self.RUNS):
                for y, y0 in zip(runner.run(given), want):
                    text = metric.compare(y, y0, limit, "it")[1]
                    assert not text, text
            counts = runner.device_counts()
            self.counted.write_bytes(struct.pack("3Q", counts.launches, counts.bytes, counts.replays))
            del runner
            return 0

        code, said = self.child.run(work)
        self.assertEqual((code, said), (0, ""))
        launches, moved, replays = struct.unpack("3Q", self.counted.read_bytes())
        self.assertEqual(replays, self.RUNS - 1)
        self.assertEqual((launches % self.RUNS, moved % self.RUNS), (0, 0))
        return self.child.counts(), self.show(plan), (launches // self.RUNS, moved // self.RUNS)

    def launches(self, counts: collections.Counter) -> int:
        """Of one run: all were put into the queue twice, and then repeated."""
        own = sum(n for (kind, _), n in counts.items() if kind in ("launched", "captured"))
        of_libraries = counts["call", "cublasLtMatmul"] + counts["call", "cudnnBackendExecute"]
        self.assertEqual((own + of_libraries) % 2, 0)
        return (own + of_libraries) // 2

    def times(self, model: onnx.ModelProto) -> int:
        """Steps in time of all recurrent layers, each of which is a launch."""
        length = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
        return length * sum(n.op_type == "LSTM" for n in model.graph.node)

    def network(self, name: str) -> None:
        layers = {"layers": 2} if name in ("bert", "gpt2") else {}
        model = made_models.MODELS[name](**(layers if args.full else made_models.SMALL[name]))
        made, casts, moved = [], [], []
        for to in ("", "float16", "bfloat16"):
            counts, plan, told = self.run_one(model, to)
            made.append(self.launches(counts))
            moved.append(told[1])
            self.assertEqual(told[0], made[-1])
            placed = re.search(r"placed: (\d+) steps on the device, (\d+) on the processor, (\d+)",
                               plan)
            steps, others, copies = map(int, placed.groups())
            ends = len(model.graph.input) + len(model.graph.output)
            self.assertEqual((others, copies), (0, ends), plan)
            self.assertEqual(counts["call", "cuGraphLaunch"], self.RUNS - 1)
            self.assertLessEqual(made[-1], steps * 2 + self.times(model))
            self.assertEqual(counts["engine", "compiled"], 0)
            casts.append(len(re.findall(r"= Cast-", plan)))
        text = f"{name}: {made} launches, {moved} bytes, {casts} casts in float, float16 and bfloat16"
        if args.verbose:
            print(text, flush=True)
        for low in (1, 2):
            self.assertLessEqual(made[low], made[0], text)
            self.assertLessEqual(moved[low], BYTES * moved[0], text)
            self.assertLessEqual(casts[low], casts[0], text)  # the model's own

    def test_resnet(self) -> None:
        self.network("resnet50")

    def test_mobilenet(self) -> None:
        self.network("mobilenetv2")

    def test_bert(self) -> None:
        self.network("bert")

    def test_lstm(self) -> None:
        self.network("lstm")

    def test_gpt(self) -> None:
        self.network("gpt2")


class RealPlans(OnDevice):
    """What the fake cuDNN says it has ready-made engines for, cuDNN itself has, where it is: it plans for
    an H100 that is only described."""

    WHERE = "/usr/local/cuda*/lib*/libcudnn.so.9", "build/venv/lib/python*/site-packages/nvidia/cudnn/lib/libcudnn.so.9"

    def cudnn(self) -> str:
        found = [p for where in self.WHERE for p in sorted(glob.glob(str(ROOT / where)))]
        if not found or not args.dnn_plans:
            self.skipTest("there is no cuDNN")
        return found[0]

    def asked(self, lines: list[str]) -> subprocess.CompletedProcess:
        """In a process without the fakes, whose names cuDNN would take for others'."""
        plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        done = subprocess.run([args.dnn_plans, self.cudnn()], input="".join(lines), env=plain,
                              capture_output=True, text=True, check=False)
        if done.returncode == 77:
            self.skipTest(done.stderr)
        return done

    def planned(self, name: str, to: str) -> list[str]:
        """The convolutions of a network of its own size, all planned before the first result is copied,
        which fails: nothing is computed."""
        library, plans, plan = runtime.LibDemi(args.libdemi), self.folder / "plans", self.folder / "m.plan"
        data = made_models.MODELS[name]().SerializeToString()
        data = library.convert(data, to, "low") if to else data
        plan.write_bytes(library.compile(data, for_device=True))
        done = subprocess.run([args.demi, "run", plan, "--random", "1", "--device", "cuda"],
                              env=settings(f"plans={plans},fail=cuMemcpyDtoHAsync_v2:1:719"),
                              capture_output=True, text=True, check=False)
        self.assertIn("a copy from the device", done.stderr)
        return sorted(set(plans.read_text().splitlines(keepends=True)))

    def test_networks(self) -> None:
        self.cudnn()
        for name, least in (("resnet50", 20), ("mobilenetv2", 20)):
            for to in ("", "float16", "bfloat16"):
                with self.subTest(name, to=to):
                    lines = self.planned(name, to)
                    done = self.asked(lines)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                    self.assertIn(f"{len(lines)} convolutions are planned, 0 lack", done.stdout)
                    self.assertGreaterEqual(len(lines), least)

    def test_what_there_is_none_for(self) -> None:
        """A result of another size than it has."""
        self.cudnn()
        lines = [line.split(" ") for line in self.planned("resnet50", "float16")[:3]]
        high = 4 + 2 * 5 + 2  # of y, behind what DnnLine has before it
        for numbers in lines:
            numbers[high] = str(int(numbers[high]) + 1)
        done = self.asked([" ".join(numbers) for numbers in lines])
        self.assertIn("0 convolutions are planned, 3 lack", done.stdout)
        self.assertEqual(done.returncode, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--libdemi", required=True, help="demi's shared library")
    parser.add_argument("--dnn-plans", help="the program of that name")
    parser.add_argument("--full", action="store_true", help="networks of their own sizes")
    parser.add_argument("--verbose", action="store_true", help="say what was counted")
    parser.add_argument("--most", type=int, default=1000,
                        help="positions of a call that fail, all; behind them each seventh")
    parser.parse_known_args(namespace=args)
    rest = parser.parse_known_args()[1]
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
