# SPDX-License-Identifier: Apache-2.0
"""Tests of search from outside: options of conversions, pairs of types, scores of one's own, and journals that serve
another search.

usage: search_options_test.py --demi DEMI [unittest arguments]
"""

import filecmp
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

from search_test import SearchCase, chain, network
from suite import command_case

TYPES = {TensorProto.UINT8: "uint8", TensorProto.INT8: "int8", TensorProto.UINT16: "uint16", TensorProto.INT16: "int16",
         TensorProto.INT4: "int4", TensorProto.UINT4: "uint4", TensorProto.FLOAT8E4M3FN: "fp8", TensorProto.INT32: "int32"}


class Quantized:
    """What a model's quantizers are."""

    def __init__(self, path: str) -> None:
        self.model = onnx.load(path)
        onnx.checker.check_model(self.model, full_check=True)
        self.constants = {t.name: t for t in self.model.graph.initializer}
        self.values = [n for n in self.model.graph.node if n.op_type == "QuantizeLinear"]
        self.weights = [n for n in self.model.graph.node
                        if n.op_type == "DequantizeLinear" and n.input[0] in self.constants]

    def array(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(self.constants[name])

    def value_types(self) -> set[str]:
        return {TYPES[self.constants[n.input[2]].data_type] for n in self.values}

    def weight_types(self) -> set[str]:
        return {TYPES[self.constants[n.input[0]].data_type] for n in self.weights}

    def zeros(self) -> set[int]:
        return {int(self.array(n.input[2]).reshape(-1)[0]) for n in self.values}

    def blocks(self) -> set[int]:
        return {a.i for n in self.weights for a in n.attribute if a.name == "block_size"}

    def stored(self, weights: str) -> str:
        """The type of one of the weights."""
        node = next(n for n in self.weights if n.output[0].startswith(weights) or n.input[0].startswith(weights))
        return TYPES[self.constants[node.input[0]].data_type]


class OptionsCase(SearchCase):
    def found(self, model: str, *words: str) -> tuple[dict, Quantized]:
        """A search that ends with the cheapest candidates; its policy gives the same model."""
        out = self.path("found")
        result = self.search(0, model, *words, "--output-dir", out)
        self.ok("convert", model, "-o", self.path("again.onnx"), "--quiet", "--policy", f"{out}/policy.json")
        self.assertTrue(filecmp.cmp(f"{out}/model.onnx", self.path("again.onnx"), False), words)
        return result, Quantized(f"{out}/model.onnx")


class Conversions(OptionsCase):
    def test_tensorrt(self) -> None:
        """Signed and symmetric, without zero points, and biases as they are."""
        for candidates in ("float,a8w8", "float,float16,a8w8", "a8w8,w8"):
            result, made = self.found(self.net, "-c", candidates, "--for", "tensorrt", "--target", "10")
            self.assertEqual(result["runtime"], "tensorrt")
            self.assertEqual(made.value_types(), {"int8"}, candidates)
            self.assertEqual(made.zeros(), {0})
            self.assertEqual(made.weight_types(), {"int8"})
        self.assertEqual(result["types"][0], {"activations": "int8", "weights": "int8"})
        model = self.write("chain.onnx", chain(1, 1, width=128).SerializeToString())
        _, made = self.found(model, "-c", "float,a8w4", "--for", "tensorrt", "--target", "5")
        self.assertEqual((made.weight_types(), made.blocks()), ({"int4"}, {128}))

    def test_bits(self) -> None:
        """The best score for a number of bits per weight: neither more bits, nor a score below the next fewer's."""
        model, scores = self.write("chain.onnx", chain(*[1] * 6, width=64).SerializeToString()), []
        for bits in ("4", "5", "6.5", "8"):
            result, made = self.found(model, "--bits", bits, "--holdout", "0")
            self.assertEqual((result["candidates"], result["objectives"]), (["w8", "w4"], ["score", "bytes"]))
            mean = np.mean([8 if made.stored(n.output[0]) == "int8" else 4 for n in made.weights])  # all are alike
            self.assertLessEqual(mean, float(bits))
            self.assertGreater(mean, float(bits) - 1.5)
            scores.append(self.best(result)["score"])
        self.assertEqual(scores, sorted(scores))
        self.assertGreater(scores[-1], scores[0] + 6)
        for wrong in ("0", "40", "x"):
            self.fails(2, "search", model, "-o", self.path("o.onnx"), "--bits", wrong)
        self.assertIn("take the place", self.fails(2, "search", model, "-o", self.path("o.onnx"), "--bits", "5", "--target", "9"))

    def test_sensitivities_know_the_runtime(self) -> None:
        """What a group does alone is measured as the runtime stores it."""
        noise = {}
        for runtime in ("any", "tensorrt"):
            result = self.search(0, self.net, "-c", "float,a8w8", "--for", runtime, "--target", "48")
            noise[runtime] = {g["name"]: g["noise"][1] for g in result["groups"]}
        self.assertGreater(noise["tensorrt"]["r1"], 1.2 * noise["any"]["r1"])  # of a Relu: one bit less

    def test_other_runtimes(self) -> None:
        _, made = self.found(self.net, "-c", "float,a8w8", "--for", "qnn", "--target", "10")
        scales = {n.input[0][:2]: made.array(n.input[1]).size for n in made.weights}
        self.assertEqual((made.value_types(), scales["w1"], scales["w4"]), ({"uint8"}, 8, 1))
        model = self.write("chain.onnx", chain(1, 1, width=48).SerializeToString())
        _, made = self.found(model, "-c", "float,w4", "--for", "openvino", "--target", "5")
        self.assertEqual(made.blocks(), {16})  # 32 does not divide 48
        result, made = self.found(self.net, "-c", "float16,a8w8", "--for", "openvino", "--target", "10")
        self.assertEqual(result["runtime"], "openvino")

    def test_options_of_quantization(self) -> None:
        common = [self.net, "--target", "10", "-c"]
        _, made = self.found(*common, "float,a8w8", "--symmetric")
        self.assertEqual((made.zeros(), made.value_types()), ({128}, {"uint8"}))
        result, made = self.found(*common, "float,a8w8", "--activations", "int8")
        self.assertEqual((made.value_types(), result["candidates"][1]), ({"int8"}, "a8w8"))
        result, made = self.found(*common, "float,a16w8,a8w8", "--activations", "int16")
        self.assertEqual([t["activations"] for t in result["types"]], ["float", "int16", "uint8"])
        model = self.write("chain.onnx", chain(1, 1, width=64).SerializeToString())
        _, made = self.found(model, "-c", "float,w8", "--block", "16", "--target", "10")
        self.assertEqual(made.blocks(), {16})
        _, made = self.found(self.net, "-c", "float,a8w8", "--opset", "20", "--simplify", "--target", "10")
        self.assertEqual(made.model.opset_import[0].version, 20)
        uneven = network()
        for tensor, axis in ((uneven.graph.initializer[2], 0), (uneven.graph.initializer[3], 1)):  # w2, w3
            factors = np.float32(2) ** np.arange(-6, 10, 2) if axis == 0 else np.float32(2) ** -np.arange(-6, 10, 2)
            array = numpy_helper.to_array(tensor) * factors.reshape([-1 if i == axis else 1 for i in range(4)])
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))
        path, scores = self.write("uneven.onnx", uneven.SerializeToString()), []
        for how in ("never", "weights"):
            result, _ = self.found(path, "-c", "float,a8w8", "--equalize", how, "--target", "1")
            scores.append(self.best(result)["score"])
        self.assertGreater(scores[1], scores[0] + 6)
        _, made = self.found(*common, "float,a16w8", "--opset", "auto")
        self.assertEqual(made.model.opset_import[0].version, 21)
        self.assertIn("opset 17", self.fails(2, "search", *common, "float,a16w8", "--opset", "keep"))
        result, made = self.found(model, "-c", "float,w8", "--simplify", "--target", "10")
        self.assertNotIn("Identity", {n.op_type for n in made.model.graph.node})
        self.assertEqual([g["name"] for g in result["groups"]], ["x", "m0", "y"])
        _, made = self.found(*common, "float,a8w8", "--range", "x=-3:5")
        scale = next(made.array(n.input[1]) for n in made.values if n.input[0] == "x")
        self.assertAlmostEqual(float(scale), 8 / 255, places=6)

    def test_nodes_that_stay(self) -> None:
        common = [self.net, "-c", "float,a8w8", "--target", "10"]
        for words, floats in ((["--keep", "out:c2"], {"r1"}), (["--keep-ops", "Gemm"], {"mean"}),
                              (["--only", "out:c3"], {"x", "r1", "sum", "mean"})):
            result, made = self.found(*common, *words)
            which = {g["name"]: g["candidate"] for g in result["groups"]}
            self.assertTrue(all(which[name] == "float" for name in floats), (words, which))
            self.assertEqual(which["r2"], "a8w8")
            reasons = {g["reason"] for g in result["groups"] if g["name"] in floats}
            self.assertEqual(reasons, {"a node that reads it is kept in float32"})
            self.assertFalse(floats & {n.input[0] for n in made.values})
        for candidates in ("a16w16,a8w8,float", "float,a16w16,a8w8"):  # the widest is no float: it is none of theirs
            result, made = self.found(self.net, "-c", candidates, "--target", "10", "--keep", "out:c2")
            self.assertEqual(next(g["candidate"] for g in result["groups"] if g["name"] == "r1"), "float")
        self.assertIn("add the candidate 'float'", self.fails(
            2, "search", self.net, "-c", "a16w16,a8w8", "--target", "10", "--keep", "out:c2"))
        result, made = self.found(self.net, "-c", "float,float16", "--target", "40", "--keep-ops", "Conv")
        self.assertEqual({made.constants[n].data_type for n in ("w1", "w2", "w3")}, {TensorProto.FLOAT})

    def test_rest(self) -> None:
        model = self.write("chain.onnx", chain(1, 1, 1, width=64).SerializeToString())
        result, made = self.found(model, "-c", "float,a8w8,w8", "--rest", "float16", "--target", "10")
        self.assertEqual(result["candidates"], ["float16", "a8w8", "float16:int8"])
        result = self.search(0, self.net, "--rest", "float16", "--target", "10")
        self.assertEqual(result["candidates"], ["float16", "a8w8"])
        result, made = self.found(self.net, "-c", "float,a8w4", "--rest", "int8-weights", "--target", "5")
        self.assertEqual({name: made.stored(name) for name in ("w1", "w2", "w4")},
                         {"w1": "int8", "w2": "int8", "w4": "int4"})
        eight = self.search(0, self.net, "-c", "float,a8w8", "--target", "5")
        sizes = [self.best(r)["weight_bytes"] for r in (result, eight)]
        self.assertEqual(sizes[1] - sizes[0], 8 * 5 / 2)  # w4 alone has half a byte less each

    def test_pairs_of_types(self) -> None:
        model = self.write("chain.onnx", chain(1, 1, 1, width=64).SerializeToString())
        x = np.random.default_rng(2).standard_normal((4, 64), dtype=np.float32)
        want = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
        for pair, values, weights, name in (
                ("int8:int4", {"int8"}, {"int4"}, "int8:int4"), ("uint8:int8", {"uint8"}, {"int8"}, "a8w8"),
                ("int16:int8", {"int16"}, {"int8"}, "int16:int8"), ("float:int4", set(), {"int4"}, "w4"),
                ("float:uint4", set(), {"uint4"}, "float:uint4"), ("float:fp8", set(), {"fp8"}, "float:fp8"),
                ("uint16:uint4", {"uint16"}, {"uint4"}, "uint16:uint4"), ("int8:float", {"int8"}, set(), "int8:float"),
                ("a8w16", {"uint8"}, {"int16"}, "a8w16"), ("float16:int8", set(), {"int8"}, "float16:int8")):
            result, made = self.found(model, "-c", f"float,{pair}", "--target", "3", "--sets", "2")
            self.assertEqual(result["candidates"], ["float", name])
            self.assertEqual((made.value_types(), made.weight_types()), (values, weights), pair)
            have = onnxruntime.InferenceSession(made.model.SerializeToString()).run(None, {"x": x})[0]
            self.assertLess(np.square(have - want).sum() / np.square(want).sum(), 0.1, pair)
        result = self.search(0, model, "-c", "float,int8:int4,a8w4,float:fp8", "--target", "25", "--report",
                             self.path("r.html"), "--output-dir", self.path("all"))
        page = pathlib.Path(self.path("all"), "sensitivity.svg").read_text()
        for used in set(re.findall('fill-([^"{ ]+)"', page)):
            self.assertIn(f".fill-{used}{{", page)  # each has a color

    def test_weights_rounded_on_data(self) -> None:
        """By the sets for calibration, from which convert makes the same file again."""
        random = np.random.default_rng(0)
        mix = random.standard_normal((64, 64)) * np.logspace(0, -2, 64)[:, None]
        for name, count in (("calibration", 6), ("data", 4)):
            self.sets(name, [(random.standard_normal((32, 64)) @ mix).astype(np.float32) for _ in range(count)])
        model = self.write("chain.onnx", chain(1, 1, 1, width=64).SerializeToString())
        scores, out = [], self.path("out")
        for rounding in ("nearest", "gptq"):
            result = self.search(0, model, "-c", "float,a8w4", "--data", self.path("data"), "--calibrate",
                                 self.path("calibration"), "--target", "5", "--rounding", rounding, "--output-dir", out)
            scores.append(self.best(result)["score"])
        self.assertGreater(scores[1], scores[0] + 1)
        self.ok("convert", model, "-o", self.path("again.onnx"), "--quiet", "--policy", f"{out}/policy.json",
                "--calibrate", self.path("calibration"))
        self.assertTrue(filecmp.cmp(f"{out}/model.onnx", self.path("again.onnx"), False))
        self.assertIn("needs calibration data", self.fails(2, "convert", model, "-n", "--policy", f"{out}/policy.json"))

    def test_measured_noise_is_that_of_the_model(self) -> None:
        """In each way of storing: the noise of the one group that is not float."""
        model = self.write("one.onnx", chain(1, width=64).SerializeToString())
        hint = self.fails(2, "search", model, "-c", "float,nothing")  # which lists all types
        values, weights = (words.split("|") for words in re.search(r"of (\S+) and (\S+)$", hint).groups())
        self.assertTrue({"uint8", "int16"} <= set(values) and {"int8", "uint4", "fp8"} <= set(weights))
        for pair, *words in (*((f"float:{word}",) for word in weights), *((f"{word}:float",) for word in values),
                             ("w8", "--block", "16"), ("w4", "--for", "tensorrt"), ("a8w8", "--symmetric"),
                             ("int8:int4",), ("a8w8", "--for", "tensorrt"), ("a8w8", "--for", "qnn")):
            result = self.search(0, model, "-c", f"float,{pair}", "--target", "95", "--sets", "4", "--probe-sets", "4", *words)
            noise = next(g["noise"][1] for g in result["groups"] if g["noise"][1])
            score = min(p["score"] for p in result["points"])
            self.assertAlmostEqual(-10 * np.log10(noise), score, delta=0.05, msg=(pair, words))


class Scores(OptionsCase):
    def test_scores_of_groups(self) -> None:
        """A command is asked once for each group and candidate, and the losses are what groups do."""
        asked = self.path("count")
        command = self.scorer("print(1 - 1e-3 * (4035 - size) / 4035)\n")  # smaller is worse
        for algorithm, more in (("solve", []), ("aimet-binary", ["--output-dir", self.path("aimet")])):
            pathlib.Path(asked).unlink(missing_ok=True)
            result = self.search(0, self.net, "-c", "float,w8", "--target", "50", "--algorithm", algorithm,
                                 "--eval-sensitivity", command, *more)
            count = len(pathlib.Path(asked).read_text())
            self.assertEqual(count, result["partial_runs"] + 1)  # and the float model
            noise = {g["name"]: g["noise"][1] for g in result["groups"]}
            self.assertGreater(noise["r1"], noise["r2"])  # w2 is larger than w3
            self.assertLess(noise["r1"], 1e-3)
        entries = json.loads(pathlib.Path(self.path("aimet"), "accuracy_list.json").read_text())
        self.assertTrue(all(0.99 < entry[2] < 1.01 for entry in entries), "scores of the command")

    def test_one_command_for_both(self) -> None:
        command = self.scorer("print(size / 4035)\n")
        result = self.search(0, self.net, "-c", "float,w8", "--target", "0.8", "--eval", command, "--sensitivity",
                             "eval", "--algorithm", "aimet-bruteforce")
        self.assertGreater(result["partial_runs"], 3)
        command = self.scorer("print(2 - size / 4035)\n")
        result = self.search(0, self.net, "-c", "float,a16w16,a8w8", "--target", "0.99", "--eval", command,
                             "--sensitivity", "eval")
        noise = np.array([g["noise"][1:] for g in result["groups"]])
        self.assertGreater((noise[:, 1] > 0).sum(), 4)
        self.assertTrue((noise[:, 0] > noise[:, 1] / 100)[noise[:, 1] > 0].all())  # 16 bits are asked for, too

    def test_same_for_any_ranks(self) -> None:
        mpirun = shutil.which("mpirun")
        if not mpirun:
            self.skipTest("no mpirun")
        command = f"{sys.executable} {self.write('size.py', 'import os, sys; print(os.stat(sys.argv[-1]).st_size / -4035)')}"
        found = []
        for ranks in ("1", "2"):
            out = self.path(f"{ranks}.json")
            done = subprocess.run(
                [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", ranks, self.demi, "search", self.net, "--random",
                 "1", "-c", "float,a8w8", "--target", "50", "--eval-sensitivity", command, "--threads", "1", "--quiet",
                 f"--json={out}"], capture_output=True, text=True, timeout=600, check=False,
                env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"})  # Open MPI's
            self.assertEqual(done.returncode, 0, done.stderr)
            found.append(json.loads(pathlib.Path(out).read_text()))
        self.assertEqual(found[0], found[1])

    def test_scores_that_are_no_numbers(self) -> None:
        command = self.scorer("print('nan' if n % 2 == 0 else 1)\n")
        result = self.search(0, self.net, "-c", "float,w8", "--target", "50", "--eval-sensitivity", command)
        self.assertGreaterEqual(self.best(result)["score"], 50)
        self.assertIn(None, [g["noise"][1] for g in result["groups"]])
        command = self.scorer("print('nan')\n")
        self.assertIn("is not a number", self.fails(1, "search", self.net, "--random", "1", "-c", "float,w8", "--target",
                                                    "50", "--eval-sensitivity", command))


class Journals(OptionsCase):
    def lines(self) -> int:
        return pathlib.Path(self.path("journal")).read_bytes().count(b"\n")

    def test_serves_another_target(self) -> None:
        """Higher, lower, a drop, another cost or algorithm: all that a search without it finds, for less."""
        common = ["-c", "float,a16w16,a8w8"]
        journal = ["--journal", self.path("journal")]
        self.search(0, self.net, *common, "--target", "40", *journal)
        first = self.lines()
        for number, words in enumerate((["--target", "30"], ["--target", "50"], ["--drop", "55"], ["--target", "5"], [],
                                        ["--max-cost", "0.5"], ["--target", "50", "--cost", "bytes"],
                                        ["--target", "45", "--algorithm", "aimet-binary"], ["--target", "40"])):
            before = self.lines()
            self.search(0, self.net, *common, *words, *journal, "--output-dir", self.path(f"with{number}"))
            more = self.lines() - before
            self.search(0, self.net, *common, *words, "--output-dir", self.path(f"alone{number}"))
            for name in sorted(os.listdir(self.path(f"alone{number}"))):
                texts = [pathlib.Path(self.path(f + str(number)), name).read_bytes().replace(
                    (f + str(number)).encode(), b"FOLDER") for f in ("with", "alone")]
                self.assertEqual(texts[0], texts[1], (words, name))
            if words == ["--target", "40"]:
                self.assertEqual(more, 0)
            if words == ["--target", "30"]:
                self.assertLess(more, first / 2)

    def test_scores_are_not_asked_again(self) -> None:
        command = self.scorer("print(size / 4035)\n")
        asked = pathlib.Path(self.path("count"))
        common = ["-c", "float,float16,w8", "--eval", command, "--sensitivity", "eval", "--journal", self.path("journal")]
        counts = []
        for target in ("0.8", "0.7"):
            before = len(asked.read_text()) if asked.exists() else 0
            self.search(0, self.net, *common, "--target", target)
            counts.append(len(asked.read_text()) - before)
        self.assertLess(counts[1], counts[0] / 2, counts)

    def test_refuses_what_differs(self) -> None:
        command = self.scorer("print(1)\n")
        common = ["search", self.net, "--random", "1", "--journal", self.path("journal"), "--target", "20"]
        self.ok(*common, "-c", "float,a8w8", "--quiet")
        for words, field in ((["-c", "float,w8"], "'candidates' differs"),
                             (["-c", "float,a8w8", "--for", "tensorrt"], "'runtime' differs"),
                             (["-c", "float,a8w8", "--activations", "int8"], "'candidates' differs"),
                             (["-c", "float,a8w8", "--symmetric"], "'policy' differs"),
                             (["-c", "float,a8w8", "--metric", "cosine"], "'metric' differs"),
                             (["-c", "float,a8w8", "--eval", command], "'metric' differs"),
                             (["-c", "float,a8w8", "--eval-sensitivity", command], "'sensitivity' differs"),
                             (["-c", "float,a8w8", "--sets", "9"], "'acceptance' differs"),
                             (["-c", "float,a8w8", "--sets", "5"], "'model and data' differs"),
                             (["-c", "float,a8w8", "--keep-ops", "Gemm"], "'policy' differs")):
            error = self.fails(2, *common, *words)
            self.assertIn(field, error)
            self.assertNotIn("\n", error)
        journal = self.path("scores")
        common = ["search", self.net, "--random", "1", "--journal", journal, "--target", "0.5", "-c", "float,a8w8"]
        self.ok(*common, "--eval", command, "--quiet")
        other = self.write("other.py", "print(2)\n")
        self.assertIn("other.py", self.fails(2, *common, "--eval", f"{sys.executable} {other}"))


class Refusals(OptionsCase):
    def test_one_line_each(self) -> None:
        command = self.scorer("print(1)\n")
        word = f"{sys.executable} {self.write('word.py', 'print(chr(120))')}"
        ints = ["-c", "float,a8w8"]
        for words, says in (
                (["-c", "float,a16w8", "--for", "tensorrt"], "candidate 'a16w8': tensorrt does not take 16-bit"),
                (["-c", "float,uint8:int8", "--for", "tensorrt"], "'uint8:int8': tensorrt does not take uint8"),
                (["-c", "float,a8w16", "--for", "tensorrt"], "'a8w16': tensorrt does not take int16 weights"),
                (["-c", "float,float:uint4", "--for", "tensorrt"], "does not take uint4 weights"),
                (["-c", "float,int8:int8", "--for", "qnn"], "qnn does not take int8 activations"),
                ([*ints, "--for", "tensorrt", "--activations", "uint8"], "tensorrt does not take uint8"),
                ([*ints, "--for", "dream"], "dream"), ([*ints, "--activations", "int3"], "int3"),
                ([*ints, "--activations", "int16"], "'activations' has no effect"),
                (["-c", "float,w8", "--symmetric"], "'symmetric' has no effect"),
                (["-c", "float,float16", "--block", "32"], "'block' has no effect"),
                (["-c", "float,float16", "--for", "tensorrt"], "'runtime' has no effect"),
                (["-c", "float,float16", "--rounding", "gptq"], "'rounding' has no effect"),
                ([*ints, "--equalize", "data"], "a search cannot '--equalize data'"), ([*ints, "--equalize", "x"], "--equalize"),
                ([*ints, "--rounding", "up"], "up"), ([*ints, "--rest", "int8-weights"], "'rest' has no effect"),
                (["-c", "a16w16,a8w8", "--rest", "float16"], "'rest' has no effect"),
                (["-c", "float,float16,a8w8", "--rest", "float16"], "duplicate candidate 'float16'"),
                (["-c", "float16,a8w8", "--rest", "bfloat16"], "'rest' has no effect"),
                ([*ints, "--block", "-1"], "--block"), ([*ints, "--block", "x"], "--block"),
                ([*ints, "--opset", "99"], "--opset"), ([*ints, "--keep", "nothing"], "nothing"),
                ([*ints, "--keep-ops", "Nothing"], "Nothing"), ([*ints, "--only", "nothing"], "nothing"),
                ([*ints, "--range", "x"], "'x'"), ([*ints, "--rest", "int3"], "int3"),
                (["-c", "float,a9w8"], "unknown precision 'a9w8'"), (["-c", "float,a8w"], "unknown precision"),
                (["-c", "float,a8w8x"], "unknown precision"), (["-c", "float,w0"], "unknown precision"),
                (["-c", "float,a99999999999w8"], "unknown precision"), (["-c", "float,:"], "unknown precision"),
                (["-c", "float,int8:"], "unknown precision"), (["-c", "float,int8:int8:int8"], "unknown precision"),
                (["-c", "float,int4:int8"], "unknown precision"), (["-c", "float,float:float16"], "same type"),
                (["-c", "float,uint8:int8,a8w8"], "duplicate candidate 'a8w8'"),
                (["-c", "float," + "x" * 500], "unknown precision"),
                ([*ints, "--sensitivity", "eval"], "'--eval-sensitivity' or '--eval'"),
                ([*ints, "--sensitivity", "gradient", "--eval-sensitivity", command], "not both"),
                ([*ints, "--eval-sensitivity", command, "--probe-sets", "2"], "--probe-sets"),
                ([*ints, "--eval-sensitivity", "false"], "the command of '--eval-sensitivity' failed"),
                ([*ints, "--eval-sensitivity", word], "the command of '--eval-sensitivity' printed no number")):
            error = self.fails(2, "search", self.net, "--random", "1", "--target", "50", *words)
            self.assertIn(says, error)
            self.assertNotIn("\n", error)

    def test_policies(self) -> None:
        """Files say the same as options do, which override them."""
        policy = self.write("policy.json", json.dumps({"runtime": "tensorrt", "to": "float16", "keep_ops": ["Gemm"]}))
        result, made = self.found(self.net, "-c", "float,a8w8", "--policy", policy, "--target", "10")
        self.assertEqual((result["runtime"], made.value_types()), ("tensorrt", {"int8"}))
        self.assertNotIn("mean", {n.input[0] for n in made.values})
        result = self.search(0, self.net, "-c", "float,a16w8", "--policy", policy, "--for", "any", "--target", "10")
        self.assertEqual(result["runtime"], "any")


if __name__ == "__main__":
    command_case.main(__doc__)
