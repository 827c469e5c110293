# SPDX-License-Identifier: Apache-2.0
"""Weights that are mapped, of plans and of models that run without one: what of them is in the process's
own memory, and files that change, while they are in use, and on disk before they are checked.

A large file (weights are mapped, all else is read) is cut or overwritten under a running command:
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
from suite.package import library_option, session
from suite.runtime import PlanRunner

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEVER_DONE = 1 << 40
LOOKS = 100 # at the clock: a few loops
COLUMNS = 1 << 21 # 8 MiB of weights: more than what is read whole
WEIGHTS, SESSIONS = 4 * COLUMNS, 30
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


KEPT = MODEL.replace("Slice (w,", "Slice (x,").replace("Gather (w,", "Gather (sum,")  # nothing is known in advance

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


def model(text: str = MODEL) -> onnx.ModelProto:
    made = onnx.parser.parse_model(text)
    random = np.random.default_rng(2)
    weights = {"w": random.standard_normal(COLUMNS, np.float32), "zero": np.array([0]),
               "eight": np.array([8]), "shape": np.array([8]),
               "many": random.integers(0, 3, 2000), "far": random.integers(0, 2000, 3000),
               "names": np.array(["alpha", "be", "c"], object)}
    for name, value in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def save_aligned(made: onnx.ModelProto, path: pathlib.Path, name: str, rest: int) -> None:
    """Has the initializer's bytes begin at a multiple of 8, and `rest`, of the file: the producer's name, which
    comes before them, is as long as it takes. (Its length, and the graph's, have as many bytes as before.)"""
    data = next(t.raw_data for t in made.graph.initializer if t.name == name)
    made.producer_name = "p" * 8
    made.producer_name = "p" * (8 + (rest - made.SerializeToString().index(data)) % 8)
    assert made.SerializeToString().index(data) % 8 == rest
    onnx.save(made, path)


def save_outside(made: onnx.ModelProto, path: pathlib.Path, first: int = 0) -> pathlib.Path:
    """Its initializers in a file beside it, one behind the other, from byte `first` on."""
    beside, at = path.with_suffix(".bin"), first
    with beside.open("wb") as file:
        file.write(bytes(first))
        for tensor in made.graph.initializer:
            if not tensor.raw_data:
                continue
            file.write(tensor.raw_data)
            onnx.external_data_helper.set_external_data(tensor, beside.name, at, len(tensor.raw_data))
            tensor.data_location = onnx.TensorProto.EXTERNAL
            at += len(tensor.raw_data)
            tensor.ClearField("raw_data")
    onnx.save(made, path)
    return beside


# What reads constants as they are stored: tables, operands of elements, what is normalized by, of all widths; and
# products and convolutions, whose weights are packed, some of which read them in other ways, too.
READERS = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
g (int64[n] i, float[n,96] x, float[1,96,16,16] p)
  => (float[n,k] a, float[n,l] b, float16[n,m] h, float[n,96] c, float[n,o] e, float[n,q] f, float[1,r,s,t] v,
      double[n,u] w, uint8[n,y] z, float[n,d] nb) {
    a = Gather (table, i)
    h = Gather (halves, i)
    w = Gather (doubles, i)
    z = Gather (bytes, i)
    b0 = MatMul (x, weights)
    b = Add (b0, more)
    c0 = LayerNormalization <axis = -1> (x, scale, shift)
    c1 = Mul (c0, factors)
    c = PRelu (c1, scale)
    e = Gemm <transB = 1> (x, turned)
    dq = DequantizeLinear <axis = 1> (int8s, scales)
    f = MatMul (x, dq)
    v = Conv <pads = [1,1,1,1]> (p, taps)
    nb = com.microsoft.MatMulNBits <K = 96, N = 300, bits = 4, block_size = 32> (x, nibbles, steps)
}"""


def readers_model() -> onnx.ModelProto:
    made = onnx.parser.parse_model(READERS)
    random = np.random.default_rng(6)
    shapes = {"table": (9000, 130), "weights": (96, 1500), "more": (1500,), "scale": (96,), "shift": (96,),
              "factors": (1, 96), "turned": (1300, 96), "scales": (1100,), "taps": (70, 96, 3, 3), "steps": (900,)}
    weights = {n: random.standard_normal(s, np.float32) for n, s in shapes.items()}
    weights |= {"halves": random.standard_normal((300, 77)).astype(np.float16),
                "doubles": random.standard_normal((300, 33)),
                "bytes": random.integers(0, 256, (3000, 31)).astype(np.uint8),
                "int8s": random.integers(-128, 128, (96, 1100)).astype(np.int8),
                "nibbles": random.integers(0, 256, (300, 3, 16)).astype(np.uint8)}
    for name, value in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def own_memory(pid: int | str = "self") -> int:
    """Bytes that no file has."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text().split()
    return int(status[status.index("RssAnon:") + 1]) << 10


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

    def running(self, path: pathlib.Path, change, threads: int, trips: int,  # noqa: ANN001
                mapped: pathlib.Path | None = None) -> tuple[int, str]:
        """Exit code and stderr of a run of the plan or model, of which `mapped` (else itself) is changed while it
        stands still: a run that has a limit of time looks at the clock before each step, and at one of these
        looks it is stopped."""
        np.save(self.folder / "trips.npy", np.array(trips, np.int64))
        process = subprocess.Popen(
            [args.demi, "run", path, "--input", f"x={self.folder / 'x.npy'}", "--input",
             f"trips={self.folder / 'trips.npy'}", "--threads", str(threads), "--time", "1e6"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=fail_call.environment(
                self.shim, FAIL_NAME="clock_gettime", FAIL_AT=LOOKS, FAIL_WITH=-signal.SIGSTOP))
        ended = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.assertEqual(ended.si_code, os.CLD_STOPPED, "the run ended before anything was changed")
        self.assertIn(str(mapped or path), pathlib.Path(f"/proc/{process.pid}/maps").read_text())
        change(process.pid)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate()
        return process.returncode, errors

    def places(self, text: str = MODEL) -> dict[pathlib.Path, pathlib.Path]:
        """What is run, and the file that has its weights: a plan, a model that has them itself, where elements are
        aligned, and one that has them beside it."""
        made, outside = model(text), self.folder / "outside.onnx"
        save_aligned(made, self.model, "w", 4)
        return {self.plan: self.plan, self.model: self.model, outside: save_outside(made, outside, 4)}

    def test_cut(self):
        for path, file in self.places().items():
            for threads, size in ((1, 0), (1, 4096), (2, 0), (2, file.stat().st_size // 2)):
                data = file.read_bytes()
                code, errors = self.running(path, lambda _, f=file, s=size: os.truncate(f, s), threads, NEVER_DONE,
                                            file)
                with self.subTest(file.name, threads=threads, size=size):
                    self.assertEqual((code, errors.count("\n")), (3, 1), errors)
                    self.assertIn("truncated", errors)
                file.unlink()
                file.write_bytes(data)

    def test_overwritten(self):
        for path, file in self.places().items():
            size = file.stat().st_size
            for filler in (b"\xff", b"\x00", bytes(range(255))):
                data = file.read_bytes()

                def change(_: int, file: pathlib.Path = file, text: bytes = filler * (size // len(filler))) -> None:
                    with file.open("r+b") as opened:
                        opened.write(text)

                code, errors = self.running(path, change, 2, LOOKS, file)
                with self.subTest(file.name, filler=filler[:1]):
                    self.assertEqual((code, errors), (0, ""))
                file.write_bytes(data)

    def test_replaced(self):
        """By a file of the same name, as programs should: the run goes on with the old one."""
        for path, file in self.places().items():
            def change(_: int, file: pathlib.Path = file) -> None:
                other = self.folder / "other"
                other.write_bytes(b"\xff" * 100)
                other.rename(file)
            with self.subTest(file.name):
                self.assertEqual(self.running(path, change, 2, LOOKS, file), (0, ""))

    def test_own_memory(self):
        """Of 8 MiB of weights nothing is copied that kernels read where it is. (What is computed of them in
        advance is read for that.)"""
        found: dict[pathlib.Path, int] = {}

        def look(pid: int) -> None:
            found[path] = own_memory(pid)

        for path, file in self.places(KEPT).items():
            self.assertEqual(self.running(path, look, 1, LOOKS, file), (0, ""))
        for path, size in found.items():
            with self.subTest(path.name):
                self.assertLess(size, found[self.plan] + WEIGHTS // 2)

    def test_sessions(self):
        """Sessions of one model, opened apart, have its weights in memory once, whatever becomes of the file's name."""
        path = next(iter(list(self.places())[1:]))
        before, sessions = own_memory(), []
        for _ in range(SESSIONS):
            sessions.append(session(str(path)))
        self.assertLess(own_memory() - before, SESSIONS * WEIGHTS // 8)
        path.unlink()
        feeds = {"x": np.arange(8, dtype=np.float32), "trips": np.array(1)}
        first, *rest = (s.run(["y"], feeds)[0] for s in sessions)
        for one in rest:
            np.testing.assert_array_equal(one, first)

    def test_readers(self):
        """However a model's file has its weights, results are its plan's, to the bit."""
        made = readers_model()
        random = np.random.default_rng(7)
        feeds = {"i": np.arange(0, 300, 7), "x": random.standard_normal((43, 96), np.float32),
                 "p": random.standard_normal((1, 96, 16, 16), np.float32)}
        onnx.save(made, self.model)
        self.assertEqual(demi("compile", self.model, "-o", self.plan).returncode, 0)
        expected = session(str(self.plan)).run(None, feeds)
        for first in range(9):
            rest = first % 8
            if first < 8:
                save_outside(readers_model(), self.model, first)
            else:
                save_aligned(made, self.model, "table", rest)
            for threads in (1, 2):
                with self.subTest(first=first, threads=threads):
                    for one, other in zip(session(str(self.model), threads=threads).run(None, feeds), expected,
                                          strict=True):
                        np.testing.assert_array_equal(one, other)

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
        self.assertIn("a different plan", done.stderr)

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
            self.assertEqual(f"packed for {isa}: {packs[isa]}, 1 of them also for Winograd\n" in shown,
                             isa not in ("none", "native"))
            self.assertEqual(shown.count(", with "), int(isa != "none"))
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
