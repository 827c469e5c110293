# SPDX-License-Identifier: Apache-2.0
"""Tests of compile, run, compare and show of plans from outside: values in every file
format, inputs that do not fit, and reports.

usage: run_test.py --demi DEMI [unittest arguments]
"""

import io
import json
import os
import struct
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite import command_case
from suite.command import processor_seconds
from suite.command_case import BACKEND, MODEL, Case

STEPS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x) => (float[4] y)
<float[4] big = {3000, 1, 2, 5}>
{
    ["/mul"] h = Mul (x, big)
    ["/mul2"] e = Mul (h, big)
    ["/abs"] a = Abs (e)
    ["/sqrt"] y = Sqrt (a)
}
"""


def mix(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def random_bits(seed: int, name: str, count: int) -> np.ndarray:
    """The 64 bits of each element, as tools/command/random_values.h defines them."""
    with np.errstate(over="ignore"):
        key = np.uint64(14695981039346656037)
        for byte in name.encode():
            key = (key ^ np.uint64(byte)) * np.uint64(1099511628211)
        key = mix(np.uint64(seed) + key)
        return mix(key + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15))


def random_floats(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    h = random_bits(seed, name, int(np.prod(shape)))
    parts = sum(((h >> np.uint64(16 * i)) & np.uint64(0xffff)).astype(np.float64) for i in range(4))
    return ((parts - 131070.0) / 37837.227).reshape(shape)


X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
N = np.array([1, -2, 1 << 40], np.int64)


class Formats(Case):
    def check(self, x: str, n: str) -> None:
        got = self.outputs(self.model, "--input", f"x={x}", "--input", f"n={n}")
        np.testing.assert_array_equal(got["y"], np.abs(X * np.float32([1, -2, 0.5])))
        np.testing.assert_array_equal(got["m"], -N)

    def test_npy(self) -> None:
        self.check(self.npy("x.npy", X), self.npy("n.npy", N))

    def test_names_with_the_sign(self) -> None:
        x, n = self.npy("a=x.npy", X), self.npy("b=c=n.npy", N)
        self.check(x, n)
        self.ok("compare", self.model, self.model, "--input", f"x={x}", "--input", f"n={n}")

    def test_npy_in_other_orders(self) -> None:
        self.check(self.npy("x.npy", np.asfortranarray(X)), self.npy("n.npy", N.astype(">i8")))

    def test_npy_versions(self) -> None:
        for version in [(1, 0), (2, 0), (3, 0)]:
            with open(self.path("x.npy"), "wb") as file:
                np.lib.format.write_array(file, X, version)
            self.check("x.npy", self.npy("n.npy", N))

    def test_npz(self) -> None:
        np.savez(self.path("both.npz"), x=X, n=N)
        self.check("both.npz", "both.npz")
        got = self.outputs(self.model, "--input", "both.npz")
        np.testing.assert_array_equal(got["m"], -N)
        np.savez(self.path("one.npz"), whatever=X)
        self.check("one.npz", "both.npz")

    def test_pb(self) -> None:
        self.check(self.pb("x.pb", numpy_helper.from_array(X)),
                   self.pb("n.pb", helper.make_tensor("n", TensorProto.INT64, [3], N.tolist())))

    def test_bare_elements(self) -> None:
        self.check(self.write("x.bin", X.tobytes()), self.write("n.raw", N.tobytes()))

    def test_every_dtype_there_and_back(self) -> None:
        every = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
                 "uint16", "uint32", "uint64", "bool"]
        for dtype in every:
            number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            self.there_and_back(number, np.array([[0, 1, 3], [1, 0, 2]]).astype(dtype))
        for dtype in [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
                      ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn]:
            number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            self.there_and_back(number, np.array([[0, 1, 3], [1, 0, 2]]).astype(dtype))
        self.there_and_back(TensorProto.INT4, np.array([-8, 7, -1]).astype(ml_dtypes.int4))
        self.there_and_back(TensorProto.STRING, np.array(["", "a", "längst €😀"], object))
        self.there_and_back(TensorProto.FLOAT, np.zeros((0, 3), np.float32))
        self.there_and_back(TensorProto.FLOAT, np.array(2.5, np.float32))
        self.there_and_back(TensorProto.FLOAT, np.array([np.nan, np.inf, -0.0], np.float32))

    def there_and_back(self, number: int, array: np.ndarray) -> None:
        """Through a model that passes it on, as .npy and as .pb."""
        info = [helper.make_tensor_value_info(n, number, array.shape) for n in "xy"]
        node = helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1)
        shape = numpy_helper.from_array(np.array(array.shape, np.int64), "s")
        graph = helper.make_graph([node], "g", info[:1], info[1:], [shape])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
        path = self.pb("pass.onnx", model)
        files = [self.pb("x.pb", numpy_helper.from_array(array))]
        if number != TensorProto.STRING:
            files.append(self.npy("x.npy", array))
        else:
            files.append(self.npy("x.npy", array.astype("U")))
        for file in files:
            self.ok("run", path, "--input", f"x={file}", "--output-dir", "out")
            tensor = onnx.load_tensor(self.path("out/output_0.pb"))
            self.assertEqual(tensor.data_type, number)
            got = numpy_helper.to_array(tensor)
            self.assertEqual(got.shape, array.shape)
            if number == TensorProto.STRING:
                self.assertEqual([t if isinstance(t, str) else t.decode() for t in got.ravel()],
                                 list(array.ravel()))
                self.assertEqual(list(np.load(self.path("out/y.npy"))), list(array))
                continue
            self.assertEqual(got.tobytes(), array.tobytes())
            saved = np.load(self.path("out/y.npy"))
            if saved.dtype.kind == "V" or array.dtype.itemsize == saved.dtype.itemsize:
                same = saved.tobytes() == array.tobytes()
                narrow = np.array_equal(saved.astype(np.int64), array.astype(np.int64)) \
                    if saved.dtype.kind in "iu" else False
                self.assertTrue(same or narrow, (number, saved, array))

    def test_names_of_files(self) -> None:
        model = self.write("names.onnxtxt", MODEL.replace(" y", ' "a/b:0"'))
        self.ok("run", model, "--random", "1", "--output-dir", "out")
        self.assertIn("a%2Fb%3A0.npy", os.listdir(self.path("out")))


BEHIND = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y)
{
    y = Add (b, x)
    b = Mul (a, a)
    a = Neg (x)
}
"""


class OutOfOrder(Case):
    """Nodes behind those that read them, as ONNX Runtime's float16 converter and quantizers leave
    them: a fault of the file, but no reason not to run or convert it."""

    def test_is_taken(self) -> None:
        model = self.write("behind.onnxtxt", BEHIND)
        self.assertIn("reads a value before it is computed", self.fails(1, "check", model))
        np.save(self.path("x.npy"), np.array([2, -3], np.float32))
        self.ok("compile", model, "-o", "behind.plan")
        self.ok("convert", model, "-o", "ordered.onnx")
        self.ok("check", "ordered.onnx")
        for file in (model, "behind.plan", "ordered.onnx"):
            self.ok("run", file, "--input", "x=" + self.path("x.npy"), "--output-dir", "out")
            self.assertEqual(list(np.load(self.path("out/y.npy"))), [6, 6])

    def test_ring(self) -> None:
        model = self.write("ring.onnxtxt", BEHIND.replace("a = Neg (x)", "a = Sub (x, b)"))
        for words in (["run", model, "--random", "1"], ["compile", model, "-o", "ring.plan"],
                      ["convert", model, "-o", "ring.onnx"]):
            self.assertIn("reads a value before it is computed", self.fails(1, *words))


CACHE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,T] "past.0", float[1,N] x, float[2] count) => (float[1,A] "present.0", float[2] more)
<float[2] one = {1, 1}>
{
    "present.0" = Concat <axis = 1> ("past.0", x)
    more = Add (count, one)
}
"""


class Carried(Case):
    """What a run gives is an input of the next."""

    def setUp(self) -> None:
        super().setUp()
        self.model = self.write("cache.onnxtxt", CACHE)
        for i in range(3):
            os.makedirs(self.path(f"sets/{i}"))
            self.npy(f"sets/{i}/x.npy", np.full((1, i + 1), i, np.float32))
        self.npy("sets/0/past.0.npy", np.zeros((1, 0), np.float32))
        self.npy("sets/0/count.npy", np.zeros(2, np.float32))

    def test_sets(self) -> None:
        self.ok("run", self.model, "--data", "sets", "--output-dir", "out", "--carry",
                "present.*=past.*", "--carry", "more=count", "--quiet")
        want = [0, 1, 1, 2, 2, 2]
        for i, length in enumerate([1, 3, 6]):
            got = np.load(self.path(f"out/{i}/present.0.npy"))
            np.testing.assert_array_equal(got, [want[:length]])
            np.testing.assert_array_equal(np.load(self.path(f"out/{i}/more.npy")), [i + 1] * 2)

    def test_bench_stays_as_long(self) -> None:
        self.ok("bench", self.model, "--data", "sets/0", "--carry", "present.*=past.*", "--runs",
                "20", "--no-peak", "--trace", "trace.json", "--quiet")
        trace = (self.folder / "trace.json").read_text()
        self.assertIn("float[1,0] float[1,1]", trace)  # of the last run's Concat

    def test_no_such_pair(self) -> None:
        for word in ["present.*", "present.*=pest.*", "x=past.0", "*=count", "more=", "=count",
                     "present.0=past.1"]:
            line = self.fails(2, "run", self.model, "--random", "1", "--carry", word)
            self.assertIn("--carry", line)
        line = self.fails(2, "run", self.model, "--random", "1", "--carry", "more=count",
                          "--carry", "present.0=count")
        self.assertIn("'more' is already the state for 'count'", line)


class Inputs(Case):
    """What does not fit is one line that lists the inputs; nothing is written."""

    def bad(self, code: int, *words: str) -> str:
        line = self.fails(code, "run", self.model, *words, "--output-dir", "never")
        return line

    def test_none_given(self) -> None:
        line = self.bad(2)
        self.assertIn("x float[N,3], n int64[M]", line)
        self.assertIn("--random", line)
        self.assertIn("input 'n'", self.bad(2, "--input", f"x={self.npy('x.npy', X)}"))

    def test_unknown_name(self) -> None:
        line = self.bad(2, "--input", f"X={self.npy('x.npy', X)}")
        self.assertIn("did you mean 'x'", line)
        self.bad(2, "--input", "x.npy")
        self.bad(2, "--shape", "q=1x3")

    def test_wrong_type_and_shape(self) -> None:
        line = self.bad(2, "--input", f"x={self.npy('x.npy', X.astype(np.float64))}")
        for part in ["x.npy", "input 'x'", "float[N,3]", "double[2,3]", "n int64[M]"]:
            self.assertIn(part, line)
        self.assertIn("wrong shape", self.bad(2, "--input", f"x={self.npy('x.npy', X.T)}"))
        line = self.bad(2, "--input", f"x={self.npy('x.npy', X)}", "--shape", "x=1x3")
        self.assertIn("float[1,3]", line)
        self.bad(2, "--input", f"x={self.npy('x.npy', X.ravel())}")

    def test_missing_and_unreadable_files(self) -> None:
        self.assertIn("none.npy", self.bad(2, "--input", "x=none.npy"))
        self.bad(2, "--input", f"x={self.folder}")
        self.bad(1, "--input", f"x={self.write('x.npy', '')}")
        self.bad(1, "--input", f"x={self.write('x.npz', 'PK')}")
        if os.geteuid():
            os.chmod(self.npy("x.npy", X), 0)
            self.bad(3, "--input", "x=x.npy")

    def test_broken_npy(self) -> None:
        data = (self.folder / self.npy("x.npy", X)).read_bytes()
        for size in [1, 6, 8, 9, 60, 127, 128, len(data) - 1]:
            self.bad(1, "--input", f"x={self.write('x.npy', data[:size])}")
        self.bad(1, "--input", f"x={self.write('x.npy', data + b'1')}")
        for old, new in [(b"(2, 3)", b"(-2,3)"), (b"(2, 3)", b"(9,9,9"), (b"<f4", b"|O4"),
                         (b"<f4", b"<q4"), (b"False", b"false"), (b"descr", b"desct"),
                         (b"(2, 3), }", b"(99999999999999999999,)}"),
                         (b"(2, 3), }                ", b"(4294967296,4294967296,8),}")]:
            self.assertIn(old, data)
            self.bad(1, "--input", f"x={self.write('x.npy', data.replace(old, new, 1))}")
        np.save(self.path("o.npy"), np.array([{}, None], object), allow_pickle=True)
        self.assertIn("pickled", self.bad(1, "--input", "x=o.npy"))

    def break_archive(self, name: str, times: int) -> None:
        """Cut, and with a bit flipped that many times."""
        data = (self.folder / name).read_bytes()
        for size in [4, 30, 100, len(data) // 2, len(data) - 30, len(data) - 1]:
            self.bad(1, "--input", f"x={self.write('b.npz', data[:size])}")
        rng = np.random.default_rng(1)
        for _ in range(times):
            broken = bytearray(data)
            broken[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            self.write("b.npz", bytes(broken))
            done = self.run_demi("run", self.model, "--input", "b.npz", "--quiet")
            self.assertIn(done.returncode, (0, 1, 2, 3), done.stderr)

    def test_broken_npz(self) -> None:
        np.savez(self.path("a.npz"), x=X, n=N)
        self.break_archive("a.npz", 60)
        self.assertIn("no array 'n'", self.bad(2, "--input", f"n={self.two('two.npz')}"))
        self.assertIn("no input 'y'", self.bad(2, "--input", self.two("two.npz")))

    def test_compressed_npz(self) -> None:
        np.savez_compressed(self.path("c.npz"), x=X, n=N)
        done = self.run_demi("run", self.model, "--input", "c.npz", "--output-dir", "c", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        np.savez(self.path("s.npz"), x=X, n=N)
        self.run_demi("run", self.model, "--input", "s.npz", "--output-dir", "s", "--quiet")
        for file in sorted((self.folder / "s").iterdir()):
            self.assertEqual(file.read_bytes(), (self.folder / "c" / file.name).read_bytes())
        self.break_archive("c.npz", 100)

    def archive(self, name: str, packed: bytes, size: int, method: int, crc: int) -> str:
        """A ZIP archive of one member x.npy that says so of itself."""
        fields = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 0, crc, len(packed), size, 5, 0)
        local = b"PK\3\4" + fields + b"x.npy" + packed
        entry = b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack(
            "<HHHII", 0, 0, 0, 0, 0) + b"x.npy"
        end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)
        return self.write(name, local + entry + end)

    def test_hostile_npz(self) -> None:
        """Deflated members that lie, and one that is only large in memory."""
        file = io.BytesIO()
        np.save(file, X)
        plain, crc = file.getvalue(), zlib.crc32(file.getvalue())

        def deflated(data: bytes) -> bytes:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            return packer.compress(data) + packer.flush()

        good = deflated(plain)
        self.archive("g.npz", good, len(plain), 8, crc)
        self.assertEqual(self.run_demi("run", self.model, "--input", "x=g.npz", "--random", "1",
                                       "--quiet").returncode, 0)
        for size in [0, 1, len(plain) - 1, len(plain) + 1, 1 << 20, (1 << 32) - 2]:
            self.archive("h.npz", good, size, 8, crc)
            self.bad(1, "--input", "x=h.npz")
        for packed, size, method, wrong in [
                (good, len(plain), 8, crc ^ 1), (good[:-1], len(plain), 8, crc),
                (b"", len(plain), 8, crc), (b"\xff" * 50, len(plain), 8, crc),
                (plain, len(plain), 12, crc), (plain, len(plain) + 1, 0, crc)]:
            self.archive("h.npz", packed, size, method, wrong)
            self.bad(1, "--input", "x=h.npz")
        bomb = deflated(plain + bytes(200 << 20))
        before = processor_seconds()
        self.bad(1, "--input", "x=h.npz") # what a refusal takes
        middle = processor_seconds()
        self.archive("h.npz", bomb, len(plain) + (200 << 20), 8, 0)
        self.assertIn("100 times", self.bad(1, "--input", "x=h.npz"))
        self.assertLess(processor_seconds() - middle, 10 * (middle - before) + 0.1)

    def two(self, name: str) -> str:
        np.savez(self.path(name), x=X, y=X)
        return name

    def test_broken_pb(self) -> None:
        data = numpy_helper.from_array(X).SerializeToString()
        for size in [0, 1, 2, len(data) - 1]:
            self.bad(1, "--input", f"x={self.write('x.pb', data[:size])}")
        self.bad(1, "--input", f"x={self.write('x.pb', bytes(50))}")
        tensor = onnx.TensorProto(dims=[2, 3], data_type=1, raw_data=bytes(20))
        self.bad(1, "--input", f"x={self.pb('x.pb', tensor)}")
        tensor = onnx.TensorProto(dims=[1 << 62, 8], data_type=1)
        self.bad(1, "--input", f"x={self.pb('x.pb', tensor)}")
        tensor = onnx.TensorProto(dims=[6], data_type=1, data_location=1)
        tensor.external_data.add(key="location", value="/etc/passwd")
        self.bad(1, "--input", f"x={self.pb('x.pb', tensor)}")

    def test_memory(self) -> None:
        self.ok("run", self.model, "--random", "1", "--memory", "1M", "--quiet")
        line = self.fails(3, "run", self.model, "--random", "1", "--shape", "x=100000x3",
                          "--memory=1M", "--quiet")
        self.assertIn("limit of 1048576 bytes", line)
        for word in ["0", "x", "1T", "M", "-1", "1MB", "99999999999999999999", "99999999999G"]:
            self.fails(2, "run", self.model, "--random", "1", "--memory", word)

    def test_bare_elements_that_do_not_fit(self) -> None:
        line = self.bad(2, "--input", f"x={self.write('x.bin', X.tobytes()[:-1])}")
        self.assertIn("bytes", line)
        self.bad(2, "--input", f"x={self.write('x.bin', X.tobytes())}", "--shape", "x=1x3")

    def test_shapes(self) -> None:
        for spelling in ["x=4x3", "x:4x3", "x:4,3", "x:[4,3]", "x:[4, 3]", "x=4,3"]:
            got = self.outputs(self.model, "--random", "1", "--shape", spelling)
            self.assertEqual(got["y"].shape, (4, 3))
        for wrong in ["x", "x=", "x=4x", "x=4y3", "x=-1x3", "x=[4,3", "x=4x4", "x=4",
                      "x=99999999999999999999x3"]:
            self.bad(2, "--random", "1", "--shape", wrong)
        for large in ["x=9000000000000000000x3", "x=900000000000x3"]:
            self.assertIn("memory", self.bad(2, "--random", "1", "--shape", large))

    def test_numbers(self) -> None:
        for option in ["--random", "--threads"]:
            for wrong in ["-1", "x", "1.5", ""]:
                self.bad(2, f"{option}={wrong}")
        self.bad(2, "--random", "1", "--threads", "0")
        self.bad(2, "--random", "1", "--rtol", "nan")

    def test_an_empty_tensor_and_nan(self) -> None:
        got = self.outputs(self.model, "--input", f"x={self.npy('x.npy', X[:0])}",
                           "--input", f"n={self.npy('n.npy', N[:0])}")
        self.assertEqual((got["y"].shape, got["m"].shape), ((0, 3), (0,)))
        x = np.array([[np.nan, np.inf, -np.inf]], np.float32)
        out = self.ok("run", self.model, "--input", f"x={self.npy('x.npy', x)}", "--random", "1",
                      "--json=-", "--quiet")
        report = json.loads(out)["runs"][0]["outputs"][0]
        self.assertEqual((report["nan"], report["inf"], report["min"]), (1, 2, None))

    def test_folders_that_can_not_be_written(self) -> None:
        self.bad_folder(2, self.write("file", ""))
        self.bad_folder(2, self.path("none/such"))
        if os.geteuid():
            os.mkdir(self.path("closed"), 0o500)
            self.bad_folder(3, self.path("closed/inner"))

    def bad_folder(self, code: int, folder: str) -> None:
        self.fails(code, "run", self.model, "--random", "1", "--output-dir", folder, "--quiet")
        self.fails(code, "run", self.model, "--random", "1", "--save-inputs", folder, "--quiet")


class Random(Case):
    def test_values_are_as_documented(self) -> None:
        self.ok("run", self.model, "--random", "7", "--shape", "x=50x3", "--shape", "n=64",
                "--save-inputs", "in")
        x = numpy_helper.to_array(onnx.load_tensor(self.path("in/input_0.pb")))
        n = numpy_helper.to_array(onnx.load_tensor(self.path("in/input_1.pb")))
        np.testing.assert_array_equal(x, random_floats(7, "x", (50, 3)).astype(np.float32))
        np.testing.assert_array_equal(n, random_bits(7, "n", 64) % np.uint64(3))
        self.assertLess(abs(x.mean()), 0.2)
        self.assertLess(abs(x.std() - 1), 0.2)

    def test_saved_inputs_give_the_same(self) -> None:
        a = self.outputs(self.model, "--random", "3", "--save-inputs", "in")
        b = self.outputs(self.model, "--data", "in")
        c = self.outputs(self.model, "--random", "4")
        np.testing.assert_array_equal(a["y"], b["y"])
        self.assertFalse(np.array_equal(a["y"], c["y"]))

    def test_commands_agree(self) -> None:
        self.ok("run", self.model, "--random", "5", "--save-inputs", "a")
        self.ok("compare", self.model, self.model, "--random", "5", "--save-inputs", "b", "--quiet")
        self.assertEqual((self.folder / "a/input_0.pb").read_bytes(),
                         (self.folder / "b/input_0.pb").read_bytes())


class Data(Case):
    def make(self, folder: str, y: np.ndarray, *more: np.ndarray) -> None:
        os.makedirs(self.path(folder))
        self.pb(f"{folder}/input_0.pb", numpy_helper.from_array(X))
        self.pb(f"{folder}/input_1.pb", numpy_helper.from_array(N))
        for i, array in enumerate([y, *more]):
            self.pb(f"{folder}/output_{i}.pb", numpy_helper.from_array(array))

    def test_expected_outputs(self) -> None:
        want = np.abs(X * np.float32([1, -2, 0.5]))
        self.make("d/test_data_set_0", want)
        self.make("d/test_data_set_10", want, -N)
        self.make("d/test_data_set_2", want * np.float32(1.0005))
        out = self.ok("run", self.model, "--data", "d")
        self.assertEqual([line.split("_")[-1].split(":")[0] for line in out.splitlines()
                          if "test_data_set" in line], ["0", "2", "10"])
        self.ok("run", self.model, "--data", "d/test_data_set_0")
        self.fails(1, "run", self.model, "--data", "d", "--rtol", "1e-4", "--quiet")

    def test_other_outputs(self) -> None:
        want = np.abs(X * np.float32([1, -2, 0.5]))
        wrong = want.copy()
        wrong[1, 2] = np.nan
        self.make("nan", wrong)
        line = self.fails(1, "run", self.model, "--data", "nan", "--quiet")
        self.assertIn("worst at 5: 3, expected nan", line)
        self.make("type", want.astype(np.float64))
        self.assertIn("double[2,3]", self.fails(1, "run", self.model, "--data", "type", "--quiet"))
        self.make("shape", want[:1])
        self.fails(1, "run", self.model, "--data", "shape", "--quiet")
        self.make("int", want, -N + np.array([0, 0, 1]))
        self.fails(1, "run", self.model, "--data", "int", "--quiet")
        self.ok("run", self.model, "--data", "int", "--atol", "1", "--quiet")
        self.make("many", want, -N, N)
        self.fails(1, "run", self.model, "--data", "many", "--quiet")

    def test_no_data(self) -> None:
        os.mkdir(self.path("empty"))
        for folder in ["empty", "none", self.model]:
            self.fails(2, "run", self.model, "--data", folder)

    def test_backend_models(self) -> None:
        """Tensors, sequences, optionals, and models without inputs: as ONNX's own data has them."""
        for name in ["test_abs", "test_add_bcast", "test_identity_sequence", "test_identity_opt",
                     "test_optional_has_element_empty_optional_input", "test_constant",
                     "test_sequence_insert_at_back"]:
            folder = BACKEND / "node" / name
            if not folder.exists():
                self.skipTest("no backend data: tools/test fetches them")
            self.ok("run", folder / "model.onnx", "--data", folder)
            self.ok("run", folder / "model.onnx", "--data", folder, "--output-dir", name, "--quiet")
            kind = onnx.SequenceProto if "sequence" in name else \
                onnx.OptionalProto if name == "test_identity_opt" else onnx.TensorProto
            got, want = kind(), kind()
            want.ParseFromString((folder / "test_data_set_0/output_0.pb").read_bytes())
            got.ParseFromString((self.folder / name / "output_0.pb").read_bytes())
            if kind is onnx.SequenceProto:
                pairs = zip(numpy_helper.to_list(got), numpy_helper.to_list(want), strict=True)
            elif kind is onnx.OptionalProto:
                pairs = zip(numpy_helper.to_optional(got), numpy_helper.to_optional(want),
                            strict=True)
            else:
                pairs = [(numpy_helper.to_array(got), numpy_helper.to_array(want))]
            for a, b in pairs:
                np.testing.assert_array_equal(a, b)


class Plans(Case):
    def test_compile_and_run(self) -> None:
        self.assertIn("model.plan", self.ok("compile", self.model, "-o", "model.plan"))
        self.ok("compile", self.model, "again.plan", "--quiet")
        self.assertEqual((self.folder / "model.plan").read_bytes(),
                         (self.folder / "again.plan").read_bytes())
        a = self.outputs(self.model, "--random", "1")
        b = self.outputs("model.plan", "--random", "1")
        np.testing.assert_array_equal(a["y"], b["y"])
        out = self.ok("show", "model.plan")
        self.assertIn('%3 = Mul-17(%0, %2) "/mul"', out)
        self.assertIn('%2 "w" float[3] = {1, -2, 0.5}', out)
        self.fails(2, "show", "model.plan", "--dot")

    def test_a_plan_knows_its_model(self) -> None:
        model = self.path("source.onnx")
        self.ok("opt", self.model, "--passes", "", "-o", model)
        self.ok("compile", model, "-o", "known.plan")
        self.assertIn("valid plan", self.ok("check", "known.plan", "--against", model))
        self.assertRegex(self.ok("show", "known.plan"), r"(?m)^source [0-9a-f]{32}$")
        data = bytearray((self.folder / "source.onnx").read_bytes())
        data[-1] ^= 1
        other = self.write("other.onnx", bytes(data))
        self.assertIn("compile it again", self.fails(1, "check", "known.plan", "--against", other))
        self.fails(2, "check", "known.plan", "--random", "1")
        damaged = bytearray((self.folder / "known.plan").read_bytes())
        damaged[8] ^= 1
        self.fails(1, "check", self.write("damaged.plan", bytes(damaged)))

    def test_refusals(self) -> None:
        self.fails(2, "compile")
        self.fails(2, "compile", self.model)
        self.fails(2, "compile", self.model, "a.plan", "-o", "b.plan")
        self.fails(2, "compile", self.model, "-o", "a.onnx")
        self.fails(2, "compile", "none.onnx", "-o", "a.plan")
        self.fails(2, "compile", self.model, "-o", self.path("none/a.plan"))
        unknown = self.write("u.onnxtxt", MODEL.replace("Abs", "com.x.Abs").replace(
            '["" : 17]', '["" : 17, "com.x" : 1]'))
        self.assertIn("no such operator", self.fails(1, "compile", unknown, "-o", "a.plan"))
        old = self.write("old.plan", "what was here")
        self.fails(1, "compile", unknown, "-o", old)
        self.assertEqual((self.folder / "old.plan").read_text(), "what was here")

    def test_damaged_plans(self) -> None:
        self.ok("compile", self.model, "-o", "m.plan")
        data = (self.folder / "m.plan").read_bytes()
        for command in [["run", "--random", "1", "--quiet"], ["show"],
                        ["bench", "--runs=1", "--quiet"]]:
            for size in [8, 100, 200, len(data) - 1]:
                self.write("cut.plan", data[:size])
                self.fails(1, command[0], "cut.plan", *command[1:])
        rng = np.random.default_rng(2)
        for _ in range(200):
            broken = bytearray(data)
            broken[int(rng.integers(8, len(data)))] = int(rng.integers(256))
            self.write("b.plan", bytes(broken))
            for words in (["show", "b.plan"], ["run", "b.plan", "--random", "1", "--quiet"]):
                done = self.run_demi(*words)
                self.assertIn(done.returncode, (0, 1, 2, 3), done.stderr)


class Compare(Case):
    def setUp(self) -> None:
        super().setUp()
        self.steps = self.write("steps.onnxtxt", STEPS)

    def low(self, name: str, *words: str) -> str:
        self.ok("convert", self.steps, "-o", name, "--low-ops=+Mul", "--quiet", *words)
        return name

    def test_same(self) -> None:
        out = self.ok("compare", self.model, self.model)
        self.assertIn("3 intermediate values compared, 0 beyond 0.0001", out)

    def test_first_bad_value(self) -> None:
        line = self.fails(1, "compare", self.steps, self.low("low.onnx"), "--quiet")
        self.assertIn("--keep '/mul2'", line)
        done = self.run_demi("compare", self.steps, "low.onnx", "--json=-", "--quiet")
        report = json.loads(done.stdout)
        self.assertEqual(report["first_bad"]["node"], "/mul2")
        self.assertEqual(report["first_bad"]["name"], "e")
        self.assertEqual(report["keep"], ["/mul2"])
        names = [value["name"] for value in report["values"]]
        self.assertEqual(names[:3], ["h", "e", "a"])
        self.assertFalse(report["values"][0]["beyond"])

    def test_what_it_says_to_keep_helps(self) -> None:
        self.ok("compare", self.steps, self.low("kept.onnx", "--keep", "/mul2", "--keep", "/abs",
                                                "--keep", "/sqrt"))

    def test_a_cast_is_not_blamed(self) -> None:
        """The node whose result a conversion renamed, not the Cast that gives the name back."""
        text = STEPS.replace('["/abs"] a = Abs (e)\n    ["/sqrt"] y = Sqrt (a)',
                             '["/last"] y = Mul (e, x)')
        model = self.write("last.onnxtxt", text.replace("3000", "200").replace("h, big", "h, h"))
        self.ok("convert", model, "-o", "last.onnx", "--low-ops=+Mul", "--quiet", "--keep", "/mul2",
                "--keep", "/mul")
        done = self.run_demi("compare", model, "last.onnx", "--max-error", "1e-9", "--atol=0",
                             "--json=-", "--quiet")
        self.assertEqual(json.loads(done.stdout)["first_bad"]["node"], "/last", done.stdout)

    def test_what_it_says_to_keep_is_what_the_model_calls_it(self) -> None:
        """Nodes without names whose outputs were renamed; names that look like patterns."""
        head = '<ir_version: 8, opset_import: ["" : 17]>\ng (float[4] x) => '
        for node, patterns in [('(float[4] y) { y = Mul (x, x) }', ["y"]),
                               ('(float[4] y) { ["re:.*|mul"] y = Mul (x, x) }',
                                ["name:re:.*|mul"]),
                               ('(float[2] y, float[2] z) { z, y = Split (x) }', ["z", "out:y"])]:
            model = self.write("renamed.onnxtxt", head + node)
            words = ["--low-ops=+Mul", "--low-ops=+Split", "--quiet"]
            self.ok("convert", model, "-o", "low.onnx", *words)
            done = self.run_demi("compare", model, "low.onnx", "--max-error", "1e-9", "--atol=0",
                                 "--json=-", "--quiet")
            self.assertEqual(json.loads(done.stdout)["keep"], patterns)
            for pattern in patterns: words += ["--keep", pattern]
            self.ok("convert", model, "-o", "low.onnx", *words)
            self.ok("compare", model, "low.onnx", "--max-error", "1e-9", "--atol=0", "--quiet")

    def test_saved_outputs(self) -> None:
        self.ok("run", self.steps, "--random", "0", "--output-dir", "saved")
        np.save(self.path("saved/e.npy"), np.zeros(4, np.float32))
        for files in [(self.steps, "saved"), ("saved", self.steps)]:
            done = self.run_demi("compare", *files, "--json=-", "--quiet")
            report = json.loads(done.stdout)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([v["name"] for v in report["values"]], ["e", "y"])
            self.assertEqual(report["first_bad"]["name"], "e")
        os.remove(self.path("saved/y.npy"))
        self.ok("compare", self.steps, "saved", "--quiet")  # by output_0.pb
        os.remove(self.path("saved/output_0.pb"))
        self.fails(2, "compare", self.steps, "saved")

    def test_metrics(self) -> None:
        os.mkdir(self.path("saved"))
        got = self.outputs(self.steps, "--random", "0")["y"].astype(np.float64)
        want = (got * np.array([1, 1.01, 1, 0.99])).astype(np.float32)
        np.save(self.path("saved/y.npy"), want)
        done = self.run_demi("compare", self.steps, "saved", "--json=-", "--quiet", "--max-error=1")
        row = json.loads(done.stdout)["outputs"][0]
        w = want.astype(np.float64)
        off = np.abs(got - w)
        self.assertAlmostEqual(row["max_error"], off.max(), 6)
        self.assertAlmostEqual(row["mean_error"], off.mean(), 6)
        self.assertAlmostEqual(row["error"], off.max() / np.abs(w).max(), 6)
        self.assertAlmostEqual(row["sqnr"], 10 * np.log10((w ** 2).sum() / (off ** 2).sum()), 4)
        cosine = (w @ got) / np.linalg.norm(w) / np.linalg.norm(got)
        self.assertAlmostEqual(row["cosine"], cosine, 6)
        places = np.abs(want.view(np.int32) - got.astype(np.float32).view(np.int32))
        self.assertEqual(row["ulp"], places.max())

    def test_what_is_not_finite_is_null(self) -> None:
        """Infinite outputs have no measure, not one of 0; the scale is that of the reference."""
        graph = """<ir_version: 8, opset_import: ["": 17]>
g (float[4] x) => (float[4] y) <float[4] c = {%s}> { y = Div(x, c) }
"""
        names = {"plain": "1, 2, 1, 1", "one": "1, 0, 1, 1", "all": "0, 0, 0, 0"}
        paths = {n: self.write(f"{n}.onnxtxt", graph % c) for n, c in names.items()}
        os.mkdir(self.path("data"))
        np.save(self.path("data/x.npy"), np.array([3, 1, 2, 1], np.float32))

        def compared(a: str, b: str) -> dict:
            return json.loads(self.run_demi("compare", paths[a], paths[b], "--data", "data",
                                            "--json=-", "--quiet").stdout)["outputs"][0]
        measures = ("max_error", "mean_error", "error", "ulp", "sqnr", "cosine")
        for a, b, scale, special in (("plain", "one", 3, 1), ("one", "plain", 3, 1),
                                     ("plain", "all", 3, 4), ("all", "plain", None, 4)):
            row = compared(a, b)
            self.assertEqual([row[key] for key in measures], [None] * len(measures), (a, b))
            self.assertEqual((row["scale"], row["special"], row["beyond"]), (scale, special, True))
        row = compared("all", "all")
        self.assertEqual([row[key] for key in ("max_error", "error", "scale", "sqnr", "special")],
                         [0, 0, None, None, 0])

    def test_tiny_values_may_be_off(self) -> None:
        """What float16 has no precision for is not a fault, unless --atol says so."""
        tiny = self.write("tiny.onnxtxt", STEPS.replace("3000, 1, 2, 5", "1e-3, 2e-4, 1e-4, 3e-4"))
        self.ok("convert", tiny, "-o", "tiny.onnx", "--low-ops=+Mul", "--low-ops=+Sqrt", "--quiet")
        self.ok("compare", tiny, "tiny.onnx", "--max-error", "1")
        report = json.loads(self.run_demi("compare", tiny, "tiny.onnx", "--atol=0", "--json=-",
                                          "--max-error=1e-6", "--quiet").stdout)
        self.assertTrue(report["values"][1]["beyond"])
        report = json.loads(self.run_demi("compare", tiny, "tiny.onnx", "--json=-",
                                          "--max-error=1e-6", "--quiet").stdout)
        self.assertFalse(report["values"][1]["beyond"])

    def test_bodies_are_compared_run_by_run(self) -> None:
        folder = BACKEND / "node/test_loop11"
        if not folder.exists():
            self.skipTest("no backend data: tools/test fetches them")
        model = folder / "model.onnx"
        report = json.loads(self.ok("compare", model, model, "--data", folder, "--json=-",
                                    "--quiet"))
        names = [value["name"] for value in report["values"]]
        self.assertGreater(len(names), len(set(names)))
        self.assertEqual(report["keep"], [])
        self.assertTrue(all(value["max_error"] == 0 for value in report["values"]))

    def test_refusals(self) -> None:
        self.fails(2, "compare", self.steps)
        os.mkdir(self.path("f"))
        self.fails(2, "compare", "f", "f")
        self.fails(2, "compare", self.steps, self.model)
        self.fails(2, "compare", self.steps, self.steps, "--max-error", "-1")
        self.fails(2, "compare", self.steps, "none.onnx")


if __name__ == "__main__":
    command_case.main(__doc__)
