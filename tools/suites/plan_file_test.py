# SPDX-License-Identifier: Apache-2.0
"""Plan files that change: while they are in use, and on disk before they are checked.

A large plan (weights are mapped, all else is read) is cut or overwritten under a running command:
it ends with exit code 3 and one line, or with other numbers, and by no signal. Bits of weights that
flipped on disk are found by `check`, in the plan by default, in the model's external data by
--full.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx.parser
from onnx import numpy_helper

from suite import fail_call
from suite.package import library_option
from suite.runtime import PlanRunner

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEVER_DONE = 1 << 40
LOOKS = 100 # at the clock: a few loops
COLUMNS = 1 << 21 # 8 MiB of weights: more than what is read whole
args = argparse.Namespace()

# Constants of every kind that something else is looked up by: shapes, indices, text; small and not.
MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[8] x, int64 trips) => (float[a] y, string[b] z, int64[c] k) {
    one = Constant <value_int = 1> ()
    part = Slice (w, zero, eight)
    yes = Constant <value = bool {1}> ()
    s = Loop (trips, yes, x) <body = b (int64 i, bool go, float[8] v) => (bool on, float[8] u) {
        on = Identity (go)
        sum = Add (w, v0)
        v0 = Gather (v, zero)
        most = ReduceMax <keepdims = 0> (sum, zero)
        rows = Gather (w, far)
        few = Slice (rows, zero, eight)
        m = Add (v, few)
        u = Min (m, most)
    }>
    shaped = Reshape (s, shape)
    y = Add (shaped, part)
    t = Gather (names, many)
    z = StringConcat (t, t)
    k = Gather (many, far)
}""".replace("sum = Add (w, v0)\n        v0 = Gather (v, zero)",
             "v0 = Gather (v, zero)\n        sum = Add (w, v0)")


# Kernels that read packed weights: convolutions, by channel, in groups and by tiles, too, and
# products; of floats and of bytes.
PACKED = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,3,24,24] x, float[n,80] r) => (float[1,d,e,f] y, float[n,70] z, float[1,d2,e2,f2] t) {
    s = Constant <value_float = 0.05> ()
    i = Constant <value = int8 {3}> ()
    o = Constant <value = int8 {0}> ()
    a = Conv <pads = [1,1,1,1]> (x, w0)
    b = Relu (a)
    c = Conv <pads = [1,1,1,1], group = 160> (b, w1)
    d0 = Conv <group = 4> (c, w2)
    e0 = Relu (d0)
    y0 = Conv <pads = [1,1,1,1], strides = [2,2]> (e0, w3)
    t = Conv <pads = [1,1,1,1]> (y0, w5)
    qy = QuantizeLinear (t, s, i)
    dy = DequantizeLinear (qy, s, i)
    dw = DequantizeLinear (w4, s, o)
    y1 = Conv <pads = [1,1,1,1]> (dy, dw)
    q1 = QuantizeLinear (y1, s, i)
    y = DequantizeLinear (q1, s, i)
    p = MatMul (r, v0)
    qp = QuantizeLinear (p, s, i)
    dp = DequantizeLinear (qp, s, i)
    dv = DequantizeLinear (v1, s, o)
    m = MatMul (dp, dv)
    qm = QuantizeLinear (m, s, i)
    z = DequantizeLinear (qm, s, i)
}"""
FLOATS = {"w0": (160, 3, 3, 3), "w1": (160, 1, 3, 3), "w2": (160, 40, 1, 1), "w3": (48, 160, 3, 3),
          "v0": (80, 90), "w5": (48, 48, 3, 3)}
BYTES = {"w4": (50, 48, 3, 3), "v1": (90, 70)}


def packed_model() -> onnx.ModelProto:
    made = onnx.parser.parse_model(PACKED)
    random = np.random.default_rng(4)
    weights = {n: random.standard_normal(s, np.float32) / 8 for n, s in FLOATS.items()}
    weights |= {n: random.integers(-128, 128, s).astype(np.int8) for n, s in BYTES.items()}
    for name, value in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def model() -> onnx.ModelProto:
    made = onnx.parser.parse_model(MODEL)
    random = np.random.default_rng(2)
    weights = {"w": random.standard_normal(COLUMNS, np.float32), "zero": np.array([0]),
               "eight": np.array([8]), "shape": np.array([8]),
               "many": random.integers(0, 3, 2000), "far": random.integers(0, 2000, 3000),
               "names": np.array(["alpha", "be", "c"], object)}
    for name, value in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def demi(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([args.demi, *map(str, words)], capture_output=True, text=True,
                          check=False)


class PlanFiles(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model, self.plan = self.folder / "m.onnx", self.folder / "m.plan"
        onnx.save(model(), self.model)
        self.assertEqual(demi("compile", self.model, "-o", self.plan).returncode, 0)
        np.save(self.folder / "x.npy", np.arange(8, dtype=np.float32))
        self.shim = fail_call.build(self.folder)

    def running(self, change, threads: int, trips: int) -> tuple[int, str]:  # noqa: ANN001
        """Exit code and stderr of a run whose plan is changed while it stands still: a run that has a
        limit of time looks at the clock before each step, and at one of these looks it is stopped."""
        np.save(self.folder / "trips.npy", np.array(trips, np.int64))
        process = subprocess.Popen(
            [args.demi, "run", self.plan, "--input", f"x={self.folder / 'x.npy'}", "--input",
             f"trips={self.folder / 'trips.npy'}", "--threads", str(threads), "--time", "1e6"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=fail_call.environment(
                self.shim, FAIL_NAME="clock_gettime", FAIL_AT=LOOKS, FAIL_WITH=-signal.SIGSTOP))
        ended = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.assertEqual(ended.si_code, os.CLD_STOPPED, "the run ended before anything was changed")
        self.assertIn(str(self.plan), pathlib.Path(f"/proc/{process.pid}/maps").read_text())
        change()
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate()
        return process.returncode, errors

    def test_cut(self):
        for threads in (1, 2):
            for size in (0, 4096, self.plan.stat().st_size // 2):
                data = self.plan.read_bytes()
                code, errors = self.running(lambda s=size: os.truncate(self.plan, s), threads,
                                            NEVER_DONE)
                with self.subTest(threads=threads, size=size):
                    self.assertEqual((code, errors.count("\n")), (3, 1), errors)
                    self.assertIn("became shorter", errors)
                self.plan.unlink()
                self.plan.write_bytes(data)

    def test_overwritten(self):
        size = self.plan.stat().st_size
        for filler in (b"\xff", b"\x00", bytes(range(255))):
            data = self.plan.read_bytes()

            def change(text: bytes = filler * (size // len(filler))) -> None:
                with self.plan.open("r+b") as file:
                    file.write(text)

            code, errors = self.running(change, 2, LOOKS)
            with self.subTest(filler=filler[:1]):
                self.assertEqual((code, errors), (0, ""))
            self.plan.write_bytes(data)

    def test_read_whole(self):
        """demi_plan_read: the file may go."""
        runner = PlanRunner(self.plan, whole=True)
        os.truncate(self.plan, 0)
        runner.verify()

    def test_flipped(self):
        """Wherever a bit flips, check says so; run and show may or may not."""
        data = bytearray(self.plan.read_bytes())
        self.assertEqual(demi("check", self.plan).returncode, 0)
        for at in (9, 100, 700, len(data) // 3, len(data) - 200, len(data) - 60, len(data) - 50):
            data[at] ^= 4
            self.plan.write_bytes(data)
            with self.subTest(at=at):
                for words in ((), ("--against", self.model), ("--against", self.model, "--full")):
                    done = demi("check", self.plan, *words)
                    self.assertEqual(done.returncode, 1, done.stderr)
            data[at] ^= 4

    def test_external_data(self):
        onnx.save(model(), self.model, save_as_external_data=True, location="m.bin",
                  size_threshold=1024)
        self.assertEqual(demi("compile", self.model, "-o", self.plan).returncode, 0)
        full = ("check", self.plan, "--against", self.model, "--full")
        self.assertEqual(demi(*full).returncode, 0, demi(*full).stderr)
        weights = self.folder / "m.bin"
        data = bytearray(weights.read_bytes())
        data[len(data) // 2] ^= 1
        weights.write_bytes(data)
        self.assertEqual(demi(*full[:-1]).returncode, 0)
        done = demi(*full)
        self.assertEqual(done.returncode, 1)
        self.assertIn("another plan", done.stderr)

    def test_full(self):
        for numerics in ("fast", "faithful"):
            with self.subTest(numerics):
                words = ("compile", self.model, "-o", self.plan, "--numerics", numerics)
                self.assertEqual(demi(*words).returncode, 0)
                done = demi("check", self.plan, "--against", self.model, "--full")
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(demi("check", self.plan, "--full").returncode, 2)

    def test_packed(self):
        """Whatever instruction set weights are packed for, results are the same, to the bit, also
        where tiles of a convolution spoil them, and so is what the model compiles to again; the file
        is no larger than a vector's padding and the points of tiles make it."""
        onnx.save(packed_model(), self.model)
        random = np.random.default_rng(5)
        strange, rows = random.standard_normal((1, 3, 24, 24)), random.standard_normal((5, 80))
        strange[0, :, 3, 4] = 1e9
        strange[0, 1, 20, 9] = np.nan
        np.savez(self.folder / "strange.npz", x=np.float32(strange), r=np.float32(rows))
        inputs = (("--random", "1", "--dim", "n=5"), ("--input", self.folder / "strange.npz"))
        size = 4 * int(np.prod(FLOATS["w5"])) * 16 // 9
        size += sum(4 * int(np.prod(s)) for s in FLOATS.values())
        size += sum(int(np.prod(s)) for s in BYTES.values())
        found, packs, names = {}, {}, ("y.npy", "z.npy", "t.npy")
        for isa in ("none", "portable", "avx2", "avx512", "native"):
            out = self.folder / isa
            words = ("compile", self.model, "-o", self.plan, "--isa", isa)
            self.assertEqual(demi(*words).returncode, 0, isa)
            shown = demi("show", self.plan).stdout
            packs[isa] = shown.count("packed as")
            self.assertEqual(f"laid out for {isa}: {packs[isa]}, beside 1 of them tiles\n" in shown,
                             isa not in ("none", "native"))
            self.assertEqual(shown.count(", beside it "), int(isa != "none"))
            found[isa] = []
            for words in inputs:
                done = demi("run", self.plan, *words, "--output-dir", out)
                self.assertEqual(done.returncode, 0, done.stderr)
                found[isa] += [np.load(out / name) for name in names]
            done = demi("check", self.plan, "--against", self.model, "--full")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLess(self.plan.stat().st_size, 1.6 * size)
        for isa, values in found.items():
            with self.subTest(isa):
                self.assertEqual(packs[isa], 0 if isa == "none" else len(FLOATS | BYTES))
                for one, other in zip(values, found["none"], strict=True):
                    self.assertTrue(np.array_equal(one, other, equal_nan=True))
                    self.assertGreater(len(np.unique(one)), 20)
        self.assertEqual(demi("compile", self.model, "-o", self.plan, "--isa", "mmx").returncode, 2)

    def test_small(self):
        """--memory small keeps 16-bit values; what it is compiled to again does, too."""
        low = self.folder / "low.onnx"
        made = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
            g (float16[3,64] x) => (float16[3,64] y) { m = MatMul (x, w) n = Neg (m)
            y = MatMul (n, w) }""")
        weights = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float16)
        made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        onnx.save(made, low)
        for memory in ((), ("--memory", "small"), ("--memory", "small,1G")):
            done = demi("compile", low, "-o", self.plan, *memory)
            self.assertEqual(done.returncode, 0, done.stderr)
            shown = demi("show", self.plan).stdout
            self.assertEqual("fast, small" in shown, bool(memory))
            self.assertEqual("stored as float16" in shown, not memory)
            self.assertLess(self.plan.stat().st_size, 1.5 * weights.nbytes)
            done = demi("check", self.plan, "--against", low, "--full")
            self.assertEqual(done.returncode, 0, done.stderr)
            done = demi("run", self.plan, "--random", "1", *memory)
            self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("smaller", "small2G", "small,", "small,x"):
            self.assertEqual(demi("compile", low, "-o", self.plan, "--memory", word).returncode, 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
