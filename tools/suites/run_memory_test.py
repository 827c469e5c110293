# SPDX-License-Identifier: Apache-2.0
"""Memory of commands that run models: --memory is what all of it may come to, and a large file of inputs is taken
in parts.

Processes are held to so much private memory by the system, which is --memory and what a process has anyway: that
everything else fits is what the limit shows. And what files, sets and values are more of must not be held.
"""

import json
import pathlib
import resource
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite import command_case
from suite.command_case import Case

MIB = 1 << 20
OWN = 56 * MIB  # a process for a model of a few nodes: two threads' stacks, tables, files
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))
"""


def large_values(channels: int = 64) -> onnx.ModelProto:
    """Convolutions whose values are 1 MiB a sample of [3, 64, 64]."""
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for i, size in enumerate((3, channels, channels)):
        shape = (channels, size, 3, 3)
        weights.append(helper.make_tensor(f"w{i}", TensorProto.FLOAT, shape,
                                          (rng.standard_normal(shape) / (9 * size)**.5).ravel()))
        nodes += [helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], pads=[1] * 4),
                  helper.make_node("Sigmoid", [f"c{i}"], [f"s{i}"])]
        value = f"s{i}"
    nodes += [helper.make_node("GlobalAveragePool", [value], ["p"]), helper.make_node("Flatten", ["p"], ["y"])]
    return model(nodes, [("x", ["N", 3, 64, 64])], [("y", ["N", channels])], weights)


def model(nodes: list, inputs: list, outputs: list, weights: list) -> onnx.ModelProto:
    def info(rows: list) -> list:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in rows]
    graph = helper.make_graph(nodes, "g", info(inputs), info(outputs), weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class MemoryCase(Case):
    def save(self, made: onnx.ModelProto, name: str = "model.onnx") -> str:
        onnx.save(made, self.path(name))
        return self.path(name)

    def peak(self, *words: object) -> int:
        """Most bytes that the command had in memory."""
        done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, self.demi, *map(str, words)],
                              capture_output=True, text=True, check=True, cwd=self.folder)
        size, code = done.stdout.split()[-2:]
        self.assertEqual(code, "0", done.stderr)
        return int(size)


class Limited(MemoryCase):
    """Each command has a limit that is too low for two of its runs' memory beside each other, or for its sets."""

    def limited(self, most: int, *words: object) -> subprocess.CompletedProcess:
        return self.run_demi(*words, "--memory", f"{most // MIB}M", "--threads", "2",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (OWN + most,) * 2))

    def holds(self, most: int, *words: object) -> None:
        done = self.limited(most, *words)
        self.assertEqual(done.returncode, 0, (words, done.stderr))

    def setUp(self) -> None:
        super().setUp()
        self.save(large_values())
        self.half = self.path("half.onnx")
        self.ok("convert", "model.onnx", "-o", self.half, "--quiet")

    def test_runs(self) -> None:
        for words in (("run", "model.onnx", "--random", 1, "--quiet"),
                      ("bench", "model.onnx", "--random", 1, "--runs", 2, "--no-peak")):
            self.holds(40 * MIB, *words, "--dim", "N=8")

    def test_verified(self) -> None:
        """The model and its conversion have all values each, and inputs and outputs of sets are kept."""
        for words in (("convert", "model.onnx", "-o", "out.onnx", "--verify", "random", "--sets", 4),
                      ("convert", "model.onnx", "-o", "out.onnx", "--to", "int8", "--calibrate", "random", "--sets", 4),
                      ("convert", "model.onnx", "-o", "out.onnx", "--max-error", "1e-2", "--verify", "random"),
                      ("check", self.half, "--against", "model.onnx", "--random", 1, "--max-error", 1),
                      ("search", "model.onnx", "-o", "found.onnx", "--sets", 2, "--target", 60, "--cost", "latency")):
            self.holds(48 * MIB, *words, "--dim", "N=4", "--quiet")
        self.holds(80 * MIB, "search", "model.onnx", "-o", "found.onnx", "--sets", 2, "--target", 60, "--sensitivity",
                   "gradient", "--dim", "N=4", "--quiet")

    def test_trained(self) -> None:
        """Samples are read as batches take them; what a step holds counts."""
        self.ok("make-training", "model.onnx", "-o", "train.onnx", "--loss", "mse", "--optimizer", "sgd", "--quiet")
        rng = np.random.default_rng(2)
        np.savez(self.path("data.npz"), x=rng.standard_normal((32, 3, 64, 64)).astype(np.float32),
                 labels=rng.standard_normal((32, 64)).astype(np.float32))
        words = ("train", "train.onnx", "-o", "trained.onnx", "--data", "data.npz", "--batch", 4, "--quiet")
        self.holds(128 * MIB, *words)
        done = self.limited(16 * MIB, *words)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("memory", done.stderr)

    def test_compared(self) -> None:
        """Values of the one are kept for the other."""
        words = ("compare", "model.onnx", self.half, "--random", 1, "--dim", "N=8", "--quiet")
        self.holds(192 * MIB, *words)
        done = self.limited(80 * MIB, *words)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("memory", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)


class Many(MemoryCase):
    def bytes_of(self, large: int, small: int, method: str) -> float:
        """What int8's calibration takes for each value of a chain of small ones."""
        def chain(n: int) -> str:
            nodes = []
            for i in range(n // 2):
                nodes += [helper.make_node("MatMul", [f"v{i}", "w"], [f"m{i}"]),
                          helper.make_node("Tanh", [f"m{i}"], [f"v{i + 1}"])]
            w = np.random.default_rng(0).standard_normal((8, 8)) / 8**.5
            weights = [helper.make_tensor("w", TensorProto.FLOAT, (8, 8), w.ravel())]
            return self.save(model(nodes, [("v0", [1, 8])], [(f"v{n // 2}", [1, 8])], weights), f"{n}.onnx")

        def peak(n: int) -> int:
            return self.peak("convert", chain(n), "-o", "out.onnx", "--to", "int8", "--calibrate", "random",
                             "--calibration", method, "--quiet", "--threads", 2)
        return (peak(large) - peak(small)) / (large - small)

    def test_small_values(self) -> None:
        """What is counted of small values is about as large as they are."""
        counted, ends = (self.bytes_of(4000, 400, method) for method in ("mse", "minmax"))
        self.assertLess(counted, ends + 1500)  # bytes a value; 4,096 counts are 32,768

    def test_trials(self) -> None:
        """A conversion that is tried has its graph, or its plan, or its contexts, and beside it the reference and
        what was counted; not all of them at once, and nothing of the one before."""
        best, ends = (self.bytes_of(8000, 800, method) for method in ("best", "minmax"))
        self.assertLess(best, 3.5 * ends)

    def test_refused(self) -> None:
        """More counts than --memory has room for are refused, and ends alone need none."""
        self.save(large_values(8))
        words = ("convert", "model.onnx", "-o", "out.onnx", "--to", "int8", "--calibrate", "random", "--quiet",
                 "--memory", "500K", "--dim", "N=1", "--threads", "1")
        line = self.fails(3, *words, "--calibration", "mse")
        self.assertIn("memory", line)
        self.ok(*words, "--calibration", "minmax")


class Parts(MemoryCase):
    ROWS, WIDTH = 96, 1 << 15  # 128 KiB a row, so that a part has 8

    def setUp(self) -> None:
        super().setUp()
        rng = np.random.default_rng(1)
        w = rng.standard_normal((self.WIDTH, 4)).astype(np.float32) / self.WIDTH**.5
        self.weights = [onnx.numpy_helper.from_array(w, "w")]
        self.x = rng.standard_normal((self.ROWS, self.WIDTH)).astype(np.float32)
        self.x *= np.linspace(1, 2, self.ROWS, dtype=np.float32)[:, None]
        self.save(self.product("N", "N"))

    def product(self, rows: object, results: object) -> onnx.ModelProto:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
        return model(nodes, [("x", [rows, self.WIDTH])], [("y", [results, 4])], self.weights)

    def converted(self, data: str, name: str = "model.onnx") -> tuple[bytes, dict]:
        self.ok("convert", name, "-o", "out.onnx", "--to", "int8", "--calibrate", data, "--calibration", "mse",
                "--verify", data, "--max-error", "1", "--quiet", "--json", "report.json")
        return (self.folder / "out.onnx").read_bytes(), json.loads((self.folder / "report.json").read_text())

    def test_as_parts(self) -> None:
        """In whatever form it is, a large file is what its parts are as files of their own."""
        folder = self.folder / "sets"
        folder.mkdir()
        for i in range(0, self.ROWS, 8):
            np.savez(folder / f"{i:03}.npz", x=self.x[i:i + 8])
        want, _ = self.converted("sets")
        np.savez(self.path("stored.npz"), x=self.x)
        np.savez_compressed(self.path("deflated.npz"), x=self.x)
        np.save(self.path("single.npy"), self.x)
        (self.folder / "named").mkdir()
        np.save(self.folder / "named/x.npy", self.x)
        (self.folder / "columns").mkdir()
        np.save(self.folder / "columns/x.npy", np.asfortranarray(self.x))
        for data in ("stored.npz", "deflated.npz", "single.npy", "named", "columns"):
            with self.subTest(data):
                have, told = self.converted(data)
                self.assertEqual(have, want)
                self.assertEqual(told["verification"]["sets"], self.ROWS // 8)
        self.ok("convert", "model.onnx", "-o", "half.onnx", "--quiet")
        told = self.ok("check", "half.onnx", "--against", "model.onnx", "--data", "deflated.npz", "--quiet", "--json", "-")
        self.assertRegex(told, r"deflated.npz, rows \d+ to \d+")

    def test_not_held(self) -> None:
        """A file that is four times as large takes no more memory."""
        peaks = []
        for times in (1, 4):
            np.savez(self.path("data.npz"), x=np.tile(self.x, (times, 1)))
            np.savez_compressed(self.path("packed.npz"), x=np.tile(self.x, (times, 1)))
            peaks.append([self.peak("convert", "model.onnx", "-o", "out.onnx", "--to", "int8", "--calibrate", data,
                                    "--calibration", "minmax", "--quiet") for data in ("data.npz", "packed.npz")])
        for small, large in zip(*peaks, strict=True):
            self.assertLess(large - small, self.x.nbytes)

    def test_whole(self) -> None:
        """What is small, or has an axis that is no count of samples, is run whole."""
        for rows, results, data in ((self.ROWS, self.ROWS, self.x), ("N", "M", self.x), ("N", "N", self.x[:8])):
            self.save(self.product(rows, results), "whole.onnx")
            np.savez(self.path("data.npz"), x=data)
            self.assertEqual(self.converted("data.npz", "whole.onnx")[1]["verification"]["sets"], 1)
            said = self.ok("convert", "whole.onnx", "-o", "out.onnx", "--verify", "data.npz")
            self.assertEqual("data.npz (12.6 MB of inputs) was run as one batch" in said, len(data) > 8, said)

    def test_wrong(self) -> None:
        """Names, types and damage are told as those of any file."""
        np.savez(self.path("data.npz"), x=self.x, z=self.x)
        words = ("convert", "model.onnx", "-o", "out.onnx", "--quiet", "--verify", "data.npz")
        self.assertIn("no input 'z'", self.fails(2, *words))
        np.savez(self.path("data.npz"), x=self.x.astype(np.float64))
        self.assertIn("wrong type", self.fails(2, *words))
        np.savez(self.path("data.npz"), x=self.x[:, :-1])
        self.assertIn("wrong shape", self.fails(2, *words))
        np.savez_compressed(self.path("data.npz"), x=self.x)
        damaged = bytearray(pathlib.Path(self.path("data.npz")).read_bytes())
        damaged[len(damaged) // 2] ^= 0x40
        self.write("data.npz", bytes(damaged))
        self.assertIn("damaged", self.fails(1, *words))


if __name__ == "__main__":
    command_case.main(__doc__)
