# SPDX-License-Identifier: Apache-2.0
"""`convert --calibrate`, `--verify` and `--max-error`: what a run of the model decides about it.

One model has a product that leaves float16's range between nodes, for certain inputs only; another
is deep and ill-conditioned, so that what is kept in float matters.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import pty
import re
import signal
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite import fail_call

DEMI = ""


def save(path: pathlib.Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray],
         shape: list[object], out: list[object]) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, shape)],
                              [info("y", TensorProto.FLOAT, out)],
                              [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]),
              path)


def overflowing(path: pathlib.Path) -> None:
    """y = (x W) V, where x W reaches 1e6 though no constant is large."""
    eye = np.eye(8, dtype=np.float32)
    save(path, [helper.make_node("MatMul", ["x", "w"], ["t"], name="up"),
                helper.make_node("MatMul", ["t", "v"], ["u"], name="down"),
                helper.make_node("MatMul", ["u", "i"], ["y"], name="last")],
         {"w": eye * 1000, "v": eye / 1000, "i": eye}, ["N", 8], ["N", 8])


def deep(path: pathlib.Path, product: str = "mm{}", tanh: str = "tanh{}") -> None:
    """24 products, one of them with a difference of nearly equal halves in front of it."""
    rng, width = np.random.default_rng(7), 32
    weights, nodes, last = {}, [], "x"
    for i in range(24):
        weights[f"w{i}"] = (rng.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"t{i}"], name=product.format(i)))
        nodes.append(helper.make_node("Tanh", [f"t{i}"], [f"a{i}"], name=tanh.format(i)))
        last = f"a{i}"
    weights["big"] = np.float32(30) * np.ones((width, width), np.float32)
    nodes += [helper.make_node("MatMul", [last, "big"], ["s"], name="sum"),
              helper.make_node("MatMul", ["s", "w0"], ["y"], name="end")]
    save(path, nodes, weights, ["N", width], ["N", width])


class Verify(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        overflowing(self.at / "over.onnx")
        deep(self.at / "deep.onnx")

    def run_demi(self, *words: object, **more: object) -> subprocess.CompletedProcess:
        return subprocess.run([DEMI, *map(str, words)], cwd=self.at, capture_output=True, text=True,
                              check=False, **more)

    def convert(self, name: str, *words: object) -> dict:
        done = self.run_demi("convert", name, "-o", "out.onnx", "--json=-", "--quiet", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def fails(self, code: int, text: str, *words: object) -> None:
        (self.at / "out.onnx").unlink(missing_ok=True)
        done = self.run_demi("convert", *words, "-o", "out.onnx")
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        self.assertIn(text, done.stderr)
        self.assertFalse((self.at / "out.onnx").exists())

    def data(self, name: str, *values: np.ndarray) -> str:
        for i, value in enumerate(values):
            folder = self.at / name / f"test_data_set_{i}"
            folder.mkdir(parents=True)
            tensor = numpy_helper.from_array(value.astype(np.float32), "x")
            (folder / "input_0.pb").write_bytes(tensor.SerializeToString())
        return name

    def test_measured_ranges_pin(self):
        large = self.data("large", np.ones((1, 8)), np.full((2, 8), 1000))
        report = self.convert("over.onnx", "--calibrate", large, "--verify", large)
        nodes = {n["name"]: n for n in report["nodes"]}
        self.assertEqual(nodes["up"]["dtype"], "float")
        self.assertIn("'t' reached 1e+06", nodes["up"]["reason"])
        self.assertEqual(nodes["last"]["dtype"], "float16")
        self.assertEqual(report["calibration"]["sets"], 2)
        self.assertLess(report["verification"]["error"], 2e-3)
        # without the ranges the same inputs overflow
        (self.at / "out.onnx").unlink()
        done = self.run_demi("convert", "over.onnx", "-o", "out.onnx", "--json=-", "--quiet",
                             "--verify", large)
        self.assertEqual(done.returncode, 1)
        found = json.loads(done.stdout)["verification"]
        self.assertTrue(found["outputs"][0]["special"])
        self.assertEqual(found["broken"], {"node": "up", "op_type": "MatMul", "value": "t",
                                           "nan": False})
        self.assertFalse((self.at / "out.onnx").exists())

    def test_the_processor_is_judged_where_something_runs_on_it(self):
        """A conversion alone may be for any machine."""
        lacks = "avx512_fp16" not in pathlib.Path("/proc/cpuinfo").read_text()
        lacks = lacks and platform.machine() == "x86_64"
        for words, here in (([], False), (["--verify", "random"], True), (["--calibrate", "random"], True)):
            notes = " ".join(self.convert("deep.onnx", *words)["notes"])
            self.assertEqual("has no float16 arithmetic" in notes, here and lacks, words)

    def test_errors_name_the_set_at_fault(self):
        """Of several sets, by the file; what a node refuses, too."""
        (self.at / "pick.onnxtxt").write_text("""<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x, int64[1] i) => (float[1] y) { r = Mul(x, x)
    y = Gather(r, i) }
""")
        good, x = {"x": np.ones(4, np.float32), "i": np.zeros(1, np.int64)}, np.ones(4, np.float32)
        bad = {"shape": ({**good, "x": x[:3]}, "shape/b.npz: input 'x': wrong shape"),
               "type": ({**good, "x": x.astype(np.int32)}, "type/b.npz: input 'x': wrong type"),
               "name": ({**good, "z": x}, "name/b.npz: the model has no input 'z'"),
               "index": ({**good, "i": np.full(1, 9)}, "its inputs are those of 'index/b.npz'")}
        for name, (arrays, text) in bad.items():
            (self.at / name).mkdir()
            np.savez(self.at / name / "a.npz", **good)
            np.savez(self.at / name / "b.npz", **arrays)
            for words in (["--to=int8", "--calibrate"], ["--calibrate"], ["--verify"]):
                done = self.run_demi("convert", "pick.onnxtxt", "-n", "-q", *words, name)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(text, done.stderr)

    def test_small_inputs_pin_nothing(self):
        small = self.data("small", np.ones((1, 8)))
        report = self.convert("over.onnx", "--calibrate", small)
        self.assertEqual({n["dtype"] for n in report["nodes"]}, {"float16"})

    def test_the_error_of_a_bounded_conversion_is_what_compare_says(self):
        free = self.convert("deep.onnx", "--verify", "random", "--random", 3,
                            "--sets", 1)["verification"]
        bound = free["error"] / 4
        report = self.convert("deep.onnx", "--verify", "random", "--random=3", "--sets=1",
                              "--max-error", bound)
        found = report["verification"]
        self.assertLessEqual(found["error"], bound)
        self.assertGreater(found["kept"], 0)
        low = sum(n["dtype"] == "float16" for n in report["nodes"])
        self.assertGreater(low, 0)
        done = self.run_demi("compare", "deep.onnx", "out.onnx", "--random", 3, "--json=-",
                             "--quiet", "--max-error", 1)
        error = json.loads(done.stdout)["outputs"][0]["error"]
        self.assertAlmostEqual(error, found["error"], delta=1e-9)

    def test_few_nodes_bring_most_of_the_error(self):
        """Of 50, a third of the error takes a few, which are found in the trials that there are."""
        words = ["deep.onnx", "--verify=random", "--random=3"]
        bound = self.convert(*words)["verification"]["error"] / 3
        found = self.convert(*words, "--max-error", bound)["verification"]
        self.assertLessEqual(found["error"], bound)
        self.assertLess(found["kept"], 9)
        self.assertLessEqual(found["trials"], 64)
        # as many are looked for where nothing helps but nearly all
        found = self.convert(*words, "--max-error", bound / 100)["verification"]
        self.assertGreater(found["kept"], 30)
        self.assertLessEqual(found["trials"], 64)

    def test_names_that_look_like_patterns_mean_themselves(self):
        def kept(name: str) -> list[int]:
            report = self.convert(name, "--verify=random", "--random=3", "--max-error", bound)
            self.assertLessEqual(report["verification"]["error"], bound)
            names = {n["name"] for n in report["nodes"] if "kept by" in n["reason"]}
            return [i for i, n in enumerate(onnx.load(self.at / name).graph.node)
                    if (n.name or n.output[0]) in names]
        bound = self.convert("deep.onnx", "--verify=random",
                             "--random=3")["verification"]["error"] / 4
        plain = kept("deep.onnx")
        self.assertGreater(len(plain), 0)
        for i, words in enumerate((("re:.*|{}", "from:x,to:t{}"), ("out:a*{}", "name:{}"),
                                   ("*{}", "?{}"), ("re:[{}", "from:x{}"), ("", ""))):
            deep(self.at / f"named{i}.onnx", *words)
            self.assertEqual(kept(f"named{i}.onnx"), plain, words)

    def test_bfloat16_by_policy_at_an_old_opset(self):
        for name in ("deep", "over"):
            model = onnx.load(self.at / f"{name}.onnx")
            model.opset_import[0].version = 11
            onnx.save(model, self.at / f"{name}11.onnx")
        (self.at / "policy.json").write_text('{"to": "bfloat16"}')
        words = ["deep11.onnx", "--policy", "policy.json", "--verify", "random"]
        bound = self.convert(*words)["verification"]["error"] / 3
        self.assertGreater(bound, 0)
        report = self.convert(*words, "--max-error", bound)
        self.assertLessEqual(report["verification"]["error"], bound)
        self.assertIn("bfloat16", {n["dtype"] for n in report["nodes"]})
        large = self.data("large", np.full((2, 8), 1000))
        self.convert("over11.onnx", "--to", "bfloat16", "--calibrate", large)
        self.fails(2, "nosuch", "over11.onnx", "--calibrate", large, "--keep", "nosuch")

    def test_a_loose_bound_keeps_nothing(self):
        report = self.convert("deep.onnx", "--verify", "random", "--max-error", 1)
        self.assertEqual((report["verification"]["kept"], report["verification"]["trials"]), (0, 1))
        self.convert("deep.onnx")
        plain = (self.at / "out.onnx").read_bytes()
        self.convert("deep.onnx", "--verify", "random")
        self.assertEqual(plain, (self.at / "out.onnx").read_bytes())

    def test_text(self):
        done = self.run_demi("convert", "deep.onnx", "--dry-run", "--verify", "random")
        self.assertRegex(done.stdout, r"verified y: off by [0-9.e-]+ of the largest magnitude")
        self.assertIn("on 4 sets of random inputs; sizes assumed: N 1", done.stdout)
        done = self.run_demi("convert", "deep.onnx", "--dry-run", "--verify", "random", "--sets=1")
        self.assertIn("on 1 set of random inputs", done.stdout)
        self.assertFalse((self.at / "out.onnx").exists())

    def test_the_verdict_comes_last_and_only_of_what_holds(self):
        """Also where no cast is added. Of broken outputs the error is the verdict."""
        for words in ([], ["--to=int8", "--calibrate=random"], ["--to=int8-weights"]):
            done = self.run_demi("convert", "deep.onnx", "-o", "out.onnx", "--verify=random", *words)
            self.assertRegex(done.stdout.splitlines()[-1], "^verified: no output is off by more than", words)
        done = self.run_demi("convert", "deep.onnx", "-o", "out.onnx", "--to=int8-weights")
        self.assertNotIn("verified", done.stdout)
        large = self.data("large", np.full((2, 8), 1000))
        for words in (["-o", "out.onnx"], ["--dry-run"]):
            done = self.run_demi("convert", "over.onnx", *words, "--verify", large)
            self.assertEqual(done.returncode, 1)
            self.assertIn("y: 16 of 16 elements are NaN or infinite", done.stdout)
            self.assertNotIn("verified: ", done.stdout)
            self.assertIn("hint: nothing was written", done.stderr)

    def test_the_kept_nodes_are_named_under_one_reason(self):
        bound = self.convert("deep.onnx", "--verify=random")["verification"]["error"] / 4
        done = self.run_demi("convert", "deep.onnx", "--dry-run", "--verify=random", "--max-error",
                             bound, "--json=report.json")
        found = json.loads((self.at / "report.json").read_text())
        kept = found["verification"]["kept_nodes"]
        self.assertEqual(len(kept), found["verification"]["kept"])
        self.assertIn(f"{len(kept)} nodes kept in float32 for --max-error", done.stdout)
        for name in kept[:24]:
            self.assertIn(name, done.stdout)
        reasons = {n["reason"] for n in found["nodes"] if n["name"] in kept}
        self.assertEqual(len(reasons), 1, reasons)

    def test_an_interrupted_search_keeps_its_best(self):
        """Ctrl-C at each time that the search looks for one: an error until there is a choice that is
        good enough, and from then on that choice."""
        bound = self.convert("deep.onnx", "--verify=random")["verification"]["error"] / 4
        words = ["convert", "deep.onnx", "-o", "cut.onnx", "--verify=random", "--threads=1",
                 "--max-error", bound, "--json=cut.json"]
        shim = fail_call.build(self.at)

        def looks(**settings: object) -> subprocess.CompletedProcess:
            return self.run_demi(*words, env=fail_call.environment(
                shim, FAIL_NAME="sigpending", **settings))

        self.assertEqual(looks(FAIL_COUNT=self.at / "count").returncode, 0)
        (self.at / "cut.onnx").unlink()
        count, codes = (self.at / "count").stat().st_size, []
        for at in range(1, count, 3):
            done = looks(FAIL_AT=at, FAIL_WITH=-int(signal.SIGINT))
            codes.append(done.returncode)
            if done.returncode:
                self.assertIn("interrupted", done.stderr)
                self.assertFalse((self.at / "cut.onnx").exists())
                continue
            found = json.loads((self.at / "cut.json").read_text())["verification"]
            self.assertTrue(found["interrupted"], found["trials"])
            self.assertIn("interrupted, fewer may suffice", done.stdout)
            self.assertLessEqual(found["error"], bound)
            self.assertTrue((self.at / "cut.onnx").exists())
        self.assertEqual(set(codes), {0, 3})
        self.assertEqual(codes, sorted(codes, reverse=True))

    def test_progress_tells_what_is_left(self):
        """By a clock that is a second later each time that it is asked: the line is drawn without a pause."""
        own = fail_call.environment(fail_call.build(self.at), CLOCK_MS=1000)
        master, end = pty.openpty()
        with subprocess.Popen([DEMI, "convert", "deep.onnx", "--dry-run", "--verify=random",
                               "--threads=1", "--max-error=1e-4"], cwd=self.at, env=own,
                              stdout=subprocess.DEVNULL, stderr=end):
            os.close(end)
            text = b""
            with contextlib.suppress(OSError): # so it ends
                while piece := os.read(master, 4096):
                    text += piece
        os.close(master)
        lines = text.decode().split("\r\x1b[K")
        self.assertEqual((lines[0], lines[-1]), ("", ""))
        found = [re.match(r"\[(\d+)/64\] finding nodes to keep.*?(, about \d+ (?:s|min) left)?$", line)
                 for line in lines]
        told = [(int(line[1]), bool(line[2])) for line in found if line]
        self.assertEqual(told, sorted(told, key=lambda line: line[0]))
        self.assertGreater(len({done for done, _ in told}), 1)
        self.assertTrue(any(left for _, left in told), told)

    def test_refusals(self):
        self.fails(1, "no set of nodes", "deep.onnx", "--io", "low", "--verify", "random",
                   "--max-error", "1e-9")
        self.fails(2, "--verify", "deep.onnx", "--max-error", "0.1")
        self.fails(2, "not negative", "deep.onnx", "--verify", "random", "--max-error", "-1")
        self.fails(2, "must be a file", "-", "--verify", "random")
        self.fails(2, "folder", "deep.onnx", "--verify", "nowhere")
        self.fails(2, "folder", "deep.onnx", "--calibrate", "nowhere")
        self.data("odd", np.ones((1, 5)))
        self.fails(2, "input 'x'", "deep.onnx", "--calibrate", "odd")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--demi", required=True)
    args, rest = parser.parse_known_args()
    DEMI = str(pathlib.Path(args.demi).resolve())
    unittest.main(argv=["verify_test", *rest])
