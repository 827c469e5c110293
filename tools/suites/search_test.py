# SPDX-License-Identifier: Apache-2.0
"""Tests of search from outside: what it finds, writes and refuses, and that nothing breaks it.

usage: search_test.py --demi DEMI [unittest arguments]
"""

import filecmp
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from suite import command_case, fail_call
from suite.command_case import Case

NO_TARGET = 1
INTERRUPTED = 3
SO_FAR = 11
CURVE = 0


def network(seed: int = 0, batch: int | str = 2) -> onnx.ModelProto:
    """Convolutions with a sum of two branches, a pool and a product."""
    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> TensorProto:
        array = random.standard_normal(shape, dtype=np.float32) / math.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array(array.astype(np.float32), name)

    nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4),
             helper.make_node("Relu", ["c1"], ["r1"]),
             helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4),
             helper.make_node("Relu", ["c2"], ["r2"]),
             helper.make_node("Conv", ["r2", "w3"], ["c3"]),
             helper.make_node("Add", ["c3", "r1"], ["sum"]),
             helper.make_node("GlobalAveragePool", ["sum"], ["mean"]),
             helper.make_node("Flatten", ["mean"], ["flat"]),
             helper.make_node("Gemm", ["flat", "w4", "b4"], ["y"])]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
        [weights("w1", 8, 3, 3, 3), weights("b1", 8), weights("w2", 8, 8, 3, 3),
         weights("w3", 8, 8, 1, 1), weights("w4", 8, 5), weights("b4", 5)])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def chain(*scales: float, width: int = 16) -> onnx.ModelProto:
    """Matrix products whose weights are as much larger, each with the inverse behind it."""
    random = np.random.default_rng(3)
    nodes, weights, last = [], [], "x"
    for i, scale in enumerate(scales):
        array = random.standard_normal((width, width)) * scale / math.sqrt(width)
        weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"], name=f"product{i}"))
        last = f"m{i}"
        if scale != 1:
            inverse = np.float32(1 / scale).reshape(())
            weights.append(numpy_helper.from_array(inverse, f"s{i}"))
            nodes.append(helper.make_node("Mul", [last, f"s{i}"], [f"v{i}"]))
            last = f"v{i}"
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", width])], weights)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def decibels(model: str, other: str, sets: list[np.ndarray], plain: bool = False) -> float:
    """Signal to noise of the other one in ONNX Runtime, at its default settings, or plainly as the file says: its
    fused kernels of integers round elsewhere, by a decibel."""
    options = onnxruntime.SessionOptions()
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    want, have = ([session.run(None, {"x": x})[0].astype(np.float64) for x in sets] for session in
                  (onnxruntime.InferenceSession(path, options) for path in (model, other)))
    noise = sum(np.sum((a - b) ** 2) for a, b in zip(want, have))
    return 10 * math.log10(sum(np.sum(a ** 2) for a in want) / noise)


class SearchCase(Case):
    def setUp(self) -> None:
        super().setUp()
        self.net = self.write("net.onnx", network().SerializeToString())

    def search(self, code: int, model: str, *words: str) -> dict:
        """The result, as JSON."""
        done = self.run_demi("search", model, "--random", "1", *words, "--quiet", "--json=-")
        self.assertEqual((done.returncode, done.stderr), (code, ""))
        return json.loads(done.stdout)

    def trivial(self, model: str, *words: str) -> dict:
        """The result of a search that ends with the cheapest candidates."""
        result = self.search(0, model, *words)
        self.assertEqual((result["outcome"], result["trivial"]), ("found", True))
        return result

    def sets(self, name: str, arrays: list[np.ndarray]) -> str:
        """A folder of sets of x, in this order."""
        os.mkdir(self.path(name))
        for i, array in enumerate(arrays):
            np.savez(self.path(f"{name}/{i:03}.npz"), x=array)
        return self.path(name)

    def random_sets(self, name: str, count: int, seed: int, scale: float = 1, batch: int = 2) -> str:
        random = np.random.default_rng(seed)
        return self.sets(name, [scale * random.standard_normal((batch, 3, 12, 12), dtype=np.float32)
                                for _ in range(count)])

    def best(self, result: dict) -> dict:
        return result["points"][result["best"]]

    def same_folders(self, one: str, other: str) -> None:
        names = sorted(os.listdir(self.path(one)))
        self.assertEqual(names, sorted(os.listdir(self.path(other))))
        for name in names:
            texts = [pathlib.Path(self.path(f), name).read_bytes().replace(f.encode(), b"FOLDER")
                     for f in (one, other)]
            self.assertEqual(texts[0], texts[1], name)

    def scorer(self, body: str) -> str:
        """A command that is called with a model's path behind; `n` is its turn, from 1."""
        text = (f"import pathlib, sys\ncount = pathlib.Path({self.path('count')!r})\n"
                "n = len(count.read_text()) + 1 if count.exists() else 1\n"
                "count.write_text('x' * n)\nsize = pathlib.Path(sys.argv[-1]).stat().st_size\n")
        return f"{sys.executable} {self.write('score.py', text + body)}"


class Search(SearchCase):
    # ---- what is found ----

    def test_result_is_what_is_written(self) -> None:
        for candidates in ("float,float16,a8w8", "a16w16,a8w8", "float,a8w8"):
            out = self.path(candidates)
            result = self.search(0, self.net, "-c", candidates, "--target", "50", "--output-dir", out)
            best = self.best(result)
            self.assertTrue(best["feasible"] and best["front"])
            self.assertGreaterEqual(best["score"], 50)
            onnx.checker.check_model(f"{out}/model.onnx", full_check=True)
            self.ok("convert", self.net, "-o", self.path("again.onnx"), "--quiet", "--policy",
                    f"{out}/policy.json")
            self.assertTrue(filecmp.cmp(f"{out}/model.onnx", self.path("again.onnx"), False))
            self.assertEqual(sorted(os.listdir(out)),
                             ["model.onnx", "model.plan", "pareto.json", "pareto.svg",
                              "policy.json", "report.html", "result.json", "sensitivity.svg"])
            for point in result["points"]:
                if point["feasible"] and point["cost"] < best["cost"]:
                    self.fail("a cheaper one was good enough")

    def test_pages_have_one_color_for_one_precision(self) -> None:
        """Of reports and searches: one list of colors, and no color beside it."""
        page = self.path("search.html")
        self.search(0, self.net, "-c", "float,float16", "--evaluations", "4", "--report", page)
        self.ok("convert", self.net, "-n", "--quiet", "--report", self.path("convert.html"))
        texts = [pathlib.Path(path).read_text() for path in (page, self.path("convert.html"))]
        lists = [re.findall(r":root \{\n(.*?)\}", text, re.S) for text in texts]
        self.assertEqual(lists[0], lists[1])
        self.assertEqual(len(lists[0]), 2, "light and dark")
        for colors in lists[0]:
            names = re.findall(r"--(\w+): #[0-9a-f]{6};", colors)
            for name in ("float", "float16", "bfloat16", "a16w16", "a16w8", "a16w4", "a8w16", "a8w8", "a8w4", "w8",
                         "w4", "other"):
                self.assertIn(name, names)
            values = re.findall(r"#[0-9a-f]{6}", colors)
            self.assertEqual(len(values), len(set(values)))
        for text in texts:
            self.assertNotRegex(text, "@[A-Z]+@")
            rest = re.sub(r":root \{.*?\}|\.fill-\w+\{fill:(#\w+)\}\.stroke-\w+\{stroke:\1\}", "", text,
                          flags=re.S)
            self.assertEqual(re.findall(r"#[0-9a-f]{6}\b", rest), [])

    def test_front_says_its_objectives(self) -> None:
        wanted = {"bitops": ["score", "bitops", "activation_bytes"],
                  "latency": ["score", "latency", "bytes"], "bytes": ["score", "bytes"]}
        for cost, names in wanted.items():
            result = self.search(0, self.net, "-c", "float,a8w8", "--evaluations", "3", "--cost", cost)
            self.assertEqual(result["objectives"], names)

    def test_drawing_leaves_out_what_names_have_in_common(self) -> None:
        model = chain(1, 2, 4, 1)
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = [f"/net/block/{n}" if re.match("[mv][0-9]", n) else n for n in names]
        path = self.write("names.onnx", model.SerializeToString())
        self.search(0, path, "-c", "float,a8w8", "--evaluations", "6", "--output-dir", self.path("d"))
        svg = pathlib.Path(self.path("d"), "sensitivity.svg").read_text()
        self.assertIn(">\u2026 stands for /net/block/<", svg)
        self.assertIn(">\u2026m1<", svg)
        self.assertNotIn("/net/block/m1", svg)

    def test_score_is_onnxruntimes_too(self) -> None:
        data = self.random_sets("data", 45, 5)
        sets = [np.load(f"{data}/{i:03}.npz")["x"] for i in range(45)]
        out = self.path("out.onnx")
        result = self.search(0, self.net, "-c", "float,a16w16,a8w8", "--target", "36", "--data", data, "-o", out)
        self.assertEqual(result["sets"], {"calibration": 0, "selection": 30, "holdout": 15})
        held = sets[2::3]  # every third one
        self.assertLess(abs(decibels(self.net, out, held, True) - result["holdout"]["score"]), 0.2)
        self.assertGreaterEqual(decibels(self.net, out, held), result["holdout"]["low"])
        rest = [x for i, x in enumerate(sets) if i % 3 != 2]
        self.assertLess(abs(decibels(self.net, out, rest, True) - self.best(result)["score"]), 0.2)
        self.assertLess(abs(decibels(self.net, out, rest) - self.best(result)["score"]), 2)

    def test_never_worse_than_aimet_or_uniform(self) -> None:
        for seed in (0, 2, 4):
            model = self.write("m.onnx", network(seed).SerializeToString())
            common = ["-c", "float,a16w16,a8w8", "--target", "50"]
            cost = self.best(self.search(0, model, *common))["cost"]
            for how in ("binary", "interpolation", "bruteforce"):
                for more in ([], ["--reverse"], ["--fewer-conversions"]):
                    found = self.search(0, model, *common, "--algorithm", f"aimet-{how}", *more)
                    if self.best(found)["feasible"]:
                        self.assertLessEqual(cost, self.best(found)["cost"] * (1 + 1e-12))
            for one in ("a16w16", "a8w8"):
                point = self.search(0, model, "-c", f"float,{one}", "--evaluations", "3")["points"]
                uniform = [p for p in point if p["groups"][0] <= 1 and p["score"] >= 50]  # the output
                self.assertTrue(uniform or one == "a8w8")
                self.assertTrue(all(cost <= p["bitops"] for p in uniform))

    def test_aimets_lists(self) -> None:
        out = self.path("aimet")
        self.search(0, self.net, "-c", "a16w16,a8w8", "--target", "50", "--algorithm",
                    "aimet-bruteforce", "--output-dir", out)
        entries = json.loads(pathlib.Path(out, "accuracy_list.json").read_text())
        places = json.loads(pathlib.Path(out, "pareto_list.json").read_text())
        eight = "((8, <QuantizationDataType.int: 1>), (8, <QuantizationDataType.int: 1>))"
        self.assertTrue(all(e[1] == eight for e in entries))
        self.assertIn(["weight", "w1"], [pair for e in entries for pair in e[0]])
        self.assertEqual([e[2] for e in entries], sorted((e[2] for e in entries), reverse=True))
        relative = [p[0] for p in places]
        self.assertEqual(relative, sorted(relative, reverse=True))
        self.assertEqual([p[2] for p in places], [e[0] for e in entries[:len(places)]])

    def test_the_planted_layer_is_the_one_kept(self) -> None:
        model = self.write("chain.onnx", chain(1, 1, 1e5, 1, width=64).SerializeToString())
        out = self.path("out.onnx")
        result = self.search(0, model, "-c", "float,float16", "--target", "50", "-o", out)
        kept = [g["name"] for g in result["groups"] if g["candidate"] == "float"]
        self.assertEqual(kept, ["m1", "m2"], "what the product that overflows reads and makes")
        self.assertIn("infinite", next(g["reason"] for g in result["groups"] if g["name"] == "m2"))

    def test_small_groups_are_measured_together(self) -> None:
        """And on their own where one of them breaks an output: the others' answers are theirs then."""
        random = np.random.default_rng(5)
        array = (random.standard_normal((256, 256)) / 16).astype(np.float32)
        factors = [1.5, 0.5, 2.5, 0.75, 1.25, 3000, 3000, 1 / 3000, 1 / 3000, 1.25]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="wide"),
                 helper.make_node("ReduceMean", ["m"], ["e"], axes=[1])]
        weights, last = [numpy_helper.from_array(array, "w")], "e"
        for i, factor in enumerate(factors):
            weights.append(numpy_helper.from_array(np.float32([[factor]]), f"f{i}"))
            nodes.append(helper.make_node("MatMul", [last, f"f{i}"], [f"e{i}"]))
            last = f"e{i}"
        nodes.append(helper.make_node("Add", ["m", last], ["y"]))
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "small", [info("x", TensorProto.FLOAT, [4, 256])],
                                  [info("y", TensorProto.FLOAT, [4, 256])], weights)
        model = self.write("small.onnx", helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
        result = self.search(0, model, "-c", "float,float16", "--target", "50")
        lowest = {g["name"]: g["candidate"] for g in result["groups"]}
        self.assertEqual(lowest["e6"], "float")
        self.assertEqual(lowest["x"], "float16")
        noise = {g["name"]: g["noise"][1] for g in result["groups"]}
        self.assertGreater(sum(isinstance(n, float) and n < 1e-3 for n in noise.values()), 8, noise)
        # without what overflows it is bundles alone, of 8 groups at most
        for i in range(5, 9):
            graph.initializer[i + 1].CopyFrom(
                numpy_helper.from_array(np.float32([[1]]), f"f{i}"))
        calm = self.write("calm.onnx", helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
        less = self.search(0, calm, "-c", "float,float16", "--target", "72")
        self.assertEqual(len(less["groups"]), len(result["groups"]))
        self.assertLess(less["partial_runs"], 4 * 6, "4 sets of 3 groups and 2 bundles")
        self.assertGreater(less["partial_runs"], 0)

    def test_only_products_and_open_shapes(self) -> None:
        model = self.write("chain.onnx", chain(1, 1, 1).SerializeToString())
        for batch in ("3", "1", "17"):
            result = self.search(0, model, "-c", "float,a16w16,a8w8", "--target", "40", "--dim",
                                 f"n={batch}")
            self.assertLess(self.best(result)["cost"], 1)

    def test_groups_are_measured_on_data_of_their_own(self) -> None:
        """Which decides what groups are thought to do; scores are of the other."""
        random = np.random.default_rng(8)
        for name, scale in (("near", 1), ("far", 50)):
            os.mkdir(self.path(name))
            for i in range(3):
                np.savez(self.path(f"{name}/{i}.npz"),
                         x=scale * random.standard_normal((2, 3, 12, 12), dtype=np.float32))
        common = ["search", self.net, "--data", self.path("near"), "-c", "float,a8w8", "--target",
                  "50", "--quiet", "--json=-"]
        found = [json.loads(self.ok(*common, *words)) for words in
                 ([], ["--probe-data", self.path("near")], ["--probe-data", self.path("far")])]
        self.assertEqual(found[0], found[1])
        noise = [[g["noise"][1] for g in result["groups"]] for result in found]
        self.assertNotEqual(noise[0], noise[2])
        self.assertEqual(found[0]["points"][0]["score"], found[2]["points"][0]["score"])
        self.assertGreaterEqual(self.best(found[2])["score"], 50)
        journal = ["--journal", self.path("journal")]
        self.ok(*common, *journal)
        self.assertIn("data", self.fails(2, *common, *journal, "--probe-data", self.path("far")))

    # ---- by gradients ----

    def noises(self, model: str, *words: str) -> dict[str, np.ndarray]:
        """What measured and estimated groups do: [groups][candidates]."""
        found = {}
        for how in ("measured", "gradient"):
            groups = self.search(0, model, *words, "--sensitivity", how)["groups"]
            found[how] = np.array([[math.inf if n is None else n for n in group["noise"]] for group in groups])
        return found

    def test_estimated_noise_is_the_measured_one(self) -> None:
        """Of small errors in what is smooth. Rounding is no random number, so each group may differ."""
        random = np.random.default_rng(4)
        size = 24
        nodes, weights, last = [], [], "x"
        for i in range(6):
            array = random.standard_normal((size, size)) * 3 ** (i % 3 - 1) / math.sqrt(size)
            weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{i}"))
            nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]),
                      helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]),
                      helper.make_node("Add", [f"t{i}", last], [f"s{i}"])]
            last = f"s{i}"
        nodes.append(helper.make_node("ReduceMean", [last], ["y"], axes=[1], keepdims=0))
        graph = helper.make_graph(
            nodes, "smooth", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", size])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"]),
             helper.make_tensor_value_info("s2", TensorProto.FLOAT, ["n", size])], weights)
        model = self.write("smooth.onnx", helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
        found = self.noises(model, "-c", "float,float16,a8w8,w8", "--target", "50", "--dim", "n=32",
                            "--sets", "8", "--probe-sets", "8")
        for candidate in (1, 2, 3):
            measured, estimated = (found[how][:, candidate] for how in ("measured", "gradient"))
            some = measured > 1e-13
            self.assertGreater(some.sum(), 5)
            ratio = np.log10(estimated[some] / measured[some])
            self.assertLess(abs(np.median(ratio)), 0.15)
            self.assertLess(np.abs(ratio).max(), 0.7)

    def test_estimates_do_not_depend_on_threads(self) -> None:
        results = [self.search(0, self.net, "-c", "float,float16,a8w8", "--target", "50", "--sensitivity",
                               "gradient", "--threads", threads) for threads in ("1", "2", "3")]
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0], results[2])
        self.assertEqual(results[0]["partial_runs"], 8)
        self.assertGreaterEqual(self.best(results[0])["score"], 50)

    def test_estimates_see_what_no_candidate_holds(self) -> None:
        """A product whose numbers float16 has not, and what comes back from there."""
        model = self.write("wide.onnx", chain(1, 1, 1e5, 1, width=64).SerializeToString())
        found = self.noises(model, "-c", "float,float16", "--target", "40", "--dim", "n=4")
        broken = ~np.isfinite(found["measured"][:, 1])
        self.assertTrue(broken.any() and not broken.all())
        self.assertTrue((broken == ~np.isfinite(found["gradient"][:, 1])).all())

    def test_what_has_no_gradient_is_named(self) -> None:
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["m"]),
             helper.make_node("Det", ["m"], ["y"], name="volume")], "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [33, 33])],  # Det's rule ends at 32
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
            [numpy_helper.from_array(np.eye(33, dtype=np.float32), "w")])
        model = self.write("det.onnx", helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
        common = ["search", model, "--random", "1", "-c", "float,a8w8", "--target", "60", "--quiet"]
        error = self.fails(1, *common, "--sensitivity", "gradient")
        self.assertIn("volume", error)
        self.assertIn("--sensitivity measured", error)
        self.ok(*common)

    def test_estimates_are_noted(self) -> None:
        """A journal of measured groups is none of estimated ones."""
        common = ["search", self.net, "--random", "1", "-c", "float,a8w8", "--target", "50", "--quiet", "--json=-",
                  "--journal", self.path("journal")]
        first = self.ok(*common, "--sensitivity", "gradient")
        self.assertEqual(first, self.ok(*common, "--sensitivity", "gradient"))
        self.assertIn("sensitivity", self.fails(2, *common))

    def test_integers_of_any_widths(self) -> None:
        """Everywhere, as onnxruntime has the file: wider is better, and weights count less."""
        random = np.random.default_rng(6)
        data = random.standard_normal((2, 3, 12, 12), dtype=np.float32)
        want = onnxruntime.InferenceSession(self.net).run(None, {"x": data})[0]
        noise = {}
        for name in ("a16w16", "a16w8", "a8w16", "a8w8"):
            out = self.path(name + ".onnx")
            result = self.trivial(self.net, "-c", f"float,{name}", "--target", "5", "-o", out)
            self.assertEqual(self.best(result)["groups"][0], 1, "the output")
            result = self.trivial(self.net, "-c", f"float,{name}", "--target", "5", "-o", out,
                                  "--quantize-outputs")
            self.assertEqual(self.best(result)["groups"][0], 0)
            onnx.checker.check_model(out, full_check=True)
            have = onnxruntime.InferenceSession(out).run(None, {"x": data})[0]
            noise[name] = float(np.square(have - want).sum() / np.square(want).sum())
        self.assertLess(noise["a16w16"], noise["a16w8"])
        self.assertLess(noise["a16w16"], noise["a8w16"])
        self.assertLess(noise["a16w8"], 2 * noise["a8w8"])
        self.assertLess(noise["a8w16"], 1.2 * noise["a8w8"])
        self.assertLess(noise["a8w8"], 1e-2)

    def test_four_bit_weights(self) -> None:
        """Of matrices, with integers for activations: fewer bytes than 8 bits, in ONNX Runtime, too."""
        model = self.write("chain.onnx", chain(1, 1, 1, width=64).SerializeToString())
        data = self.sets("x", [np.random.default_rng(i).standard_normal((4, 64), dtype=np.float32) for i in range(6)])
        sizes, new = {}, [np.random.default_rng(9).standard_normal((4, 64), dtype=np.float32)]
        for name in ("a16w4", "a16w8", "a8w4", "a8w8"):
            out = self.path(name + ".onnx")
            best = self.best(self.trivial(model, "-c", f"float,{name}", "--target", "5", "-o", out, "--data", data))
            sizes[name] = best["weight_bytes"], best["activation_bytes"], best["bitops"]
            onnx.checker.check_model(out, full_check=True)
            self.assertGreater(decibels(model, out, new), 10)
        for four, eight in (("a16w4", "a16w8"), ("a8w4", "a8w8")):
            self.assertEqual(sizes[four][0] * 2, sizes[eight][0])
            self.assertEqual(sizes[four][1], sizes[eight][1])
            self.assertLess(sizes[four][2], sizes[eight][2])

    def test_weights_alone(self) -> None:
        out = self.path("out.onnx")
        result = self.search(0, self.net, "-c", "float,bfloat16,w8,w4", "--cost", "bytes", "--target",
                             "40", "-o", out)
        self.assertLess(self.best(result)["cost"], 0.6)
        onnx.checker.check_model(out, full_check=True)

    def test_exits(self) -> None:
        out = self.path("out.onnx")
        trivial = (["--target", "5"], ["--drop", "95"], ["--metric", "top1", "--target", "0"])
        for code, words in ((NO_TARGET, ["--target", "101"]), (CURVE, []), (0, ["--max-cost", "0.3"]),
                            *((0, words) for words in trivial)):
            result = self.search(code, self.net, "-c", "float,a16w16,a8w8", "-o", out, *words)
            self.assertEqual(result["trivial"], words in trivial)
            best = self.best(result)
            self.assertTrue(math.isfinite(best["score"]))
            self.assertEqual(os.path.exists(out), code != NO_TARGET)
            pathlib.Path(out).unlink(missing_ok=True)
            if code == NO_TARGET:
                self.assertEqual(best["groups"][1:], [0, 0])
                self.assertEqual(result["partial_runs"], 0)  # there is nothing to search
            if words in trivial:
                self.assertEqual(best["groups"][1], 0)
                self.assertGreater(best["groups"][2], 3)
            if "--max-cost" in words:
                self.assertLessEqual(best["cost"], 0.3)
                self.assertGreater(best["score"], 20)

    def test_budgets_leave_the_best_so_far(self) -> None:
        for count in range(1, 12):
            result = self.search(SO_FAR, self.net, "-c", "a16w16,a8w8", "--target", "50",
                                 "--evaluations", str(count))
            self.assertLessEqual(result["evaluations"], count)
            best = self.best(result)
            feasible = [p["cost"] for p in result["points"] if p["feasible"]]
            self.assertEqual(best["cost"], min(feasible))
        self.search(SO_FAR, self.net, "-c", "a16w16,a8w8", "--target", "50", "--seconds", "0.000001")

    def test_seconds_are_those_of_all_phases(self) -> None:
        for words in (["--cost", "latency", "--target", "20"], ["--target", "50"]):
            begun = time.monotonic()
            done = self.run_demi("search", self.net, "--random", "1", "-c", "float,float16,a8w8", *words,
                                 "--seconds", "0.5", "--quiet", "-o", self.path("out.onnx"))
            self.assertIn(done.returncode, (0, SO_FAR), done.stderr)
            self.assertLess(time.monotonic() - begun, 3)

    def test_a_journal_is_not_believed(self) -> None:
        journal, out = self.path("journal.jsonl"), self.path("out.onnx")
        words = ("search", self.net, "--random", "1", "-c", "a16w16,a8w8", "--target", "50",
                 "--journal", journal, "--quiet", "-o", out)
        self.assertEqual(self.run_demi(*words).returncode, 0)
        self.assertEqual(self.run_demi(*words).returncode, 0)
        pathlib.Path(out).unlink()
        text = pathlib.Path(journal).read_text()
        changed = re.sub(r'("key":"(?:faithful )?[01]+","is":)\[[^,]*', r"\1[77.5", text)
        self.assertNotEqual(changed, text)
        pathlib.Path(journal).write_text(changed)
        done = self.run_demi(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("journal", done.stderr)
        self.assertFalse(os.path.exists(out))

    def test_supported(self) -> None:
        sixteen = {"activation": {"bitwidth": 16, "dtype": "int"},
                   "param": {"bitwidth": 16, "dtype": "int"}}
        eight = {"activation": {"bitwidth": 8, "dtype": "int"},
                 "param": {"bitwidth": 8, "dtype": "int"}}
        config = {"defaults": {"supported_kernels": [sixteen, eight]},
                  "op_type": {"Gemm": {"supported_kernels": [sixteen]}}}
        path = self.write("kernels.json", json.dumps(config))
        common = ["-c", "a16w16,a8w8", "--target", "10", "--supported", path]
        result = self.trivial(self.net, *common)
        which = {g["name"]: g["candidate"] for g in result["groups"]}
        self.assertEqual((which["mean"], which["r1"]), ("a16w16", "a8w8"))
        result = self.trivial(self.net, *common, "--use-all-candidates")
        which = {g["name"]: g["candidate"] for g in result["groups"]}
        self.assertEqual((which["mean"], which["r1"]), ("a8w8", "a8w8"))
        for text, says in (("{", "supported_kernels: line 1"), ("[]", "must be an object"),
                           ('{"defaults": {"supported_kernels": [{}]}}', "bitwidth"),
                           ('{"defaults": {"supported_kernels": []}}', "no candidate")):
            bad = self.write("bad.json", text)
            self.assertIn(says, self.fails(2, "search", self.net, "-c", "a16w16,a8w8", "--target",
                                           "10", "--supported", bad))

    def test_latency(self) -> None:
        done = self.run_demi("search", self.net, "--random", "1", "-c", "float,a8w8", "--target",
                             "50", "--cost", "latency", "--quiet", "--json=-")
        self.assertEqual(done.returncode, 0)
        result = json.loads(done.stdout)
        best = self.best(result)
        self.assertGreater(best["seconds"], 0)
        self.assertGreater(best["measured"], 0)
        self.assertGreater(result["float_seconds"], 0)

    # ---- the same again ----

    def test_same_for_any_threads(self) -> None:
        for threads in "123":
            self.search(0, self.net, "-c", "float,a16w16,a8w8", "--target", "50", "--threads",
                        threads, "--output-dir", self.path("folder-t" + threads))
        self.same_folders("folder-t1", "folder-t2")
        self.same_folders("folder-t1", "folder-t3")

    def test_same_for_any_ranks(self) -> None:
        mpirun = shutil.which("mpirun")
        if not mpirun:
            self.skipTest("no mpirun")
        own = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # Open MPI's
        for how in ("measured", "gradient"):
            for ranks in ("1", "2", "4"):
                done = subprocess.run(
                    [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", ranks, self.demi, "search",
                     self.net, "--random", "1", "-c", "float,a16w16,a8w8", "--target", "50",
                     "--sensitivity", how, "--threads", "1", "--quiet", "--output-dir",
                     self.path(f"folder-{how}{ranks}")],
                    capture_output=True, text=True, timeout=600, check=False, env=own)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.same_folders(f"folder-{how}1", f"folder-{how}2")
            self.same_folders(f"folder-{how}1", f"folder-{how}4")
        done = subprocess.run([mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2",
                               self.demi, "search", self.net, "--journal", "/", "--target", "3"],
                              capture_output=True, text=True, timeout=600, check=False, env=own)
        self.assertIn(done.returncode, (2, 3))

    def test_journal_goes_on_anywhere(self) -> None:
        common = ["-c", "float,a8w8", "--target", "50"]
        journal = self.path("journal")
        self.search(0, self.net, *common, "--journal", journal, "--output-dir", self.path("folder-whole"))
        whole = pathlib.Path(journal).read_bytes()
        lines = whole.splitlines(keepends=True)
        self.assertGreater(len(lines), 8)
        for keep in range(len(lines) + 1):
            for torn in (0, len(lines[keep]) // 2 if keep < len(lines) else 0):
                cut = b"".join(lines[:keep]) + (lines[keep][:torn] if torn else b"")
                pathlib.Path(journal).write_bytes(cut)
                shutil.rmtree(self.path("folder-again"), ignore_errors=True)
                self.search(0, self.net, *common, "--journal", journal, "--output-dir",
                            self.path("folder-again"))
                self.same_folders("folder-whole", "folder-again")
                self.assertEqual(pathlib.Path(journal).read_bytes(), whole)

    def test_killed(self) -> None:
        """At each line of the journal: before it is written, and before it is certain to stay."""
        words = ["search", self.net, "--random", "1", "-c", "float,a16w16,a8w8", "--target", "50",
                 "--quiet", "--journal", self.path("journal"), "--output-dir"]
        shim = fail_call.build(self.folder)
        self.ok(*words, self.path("folder-whole"))
        lines = pathlib.Path(self.path("journal")).read_bytes().count(b"\n")
        self.assertGreater(lines, 8)
        os.unlink(self.path("journal"))
        kills, code = 0, -signal.SIGKILL
        while code and kills < lines: # each of these goes on with a line or two more
            done = self.run_demi(*words, self.path("folder-killed"), env=fail_call.environment(
                shim, FAIL_NAME=("pwrite", "fsync")[kills % 2], FAIL_AT=2, FAIL_WITH=-signal.SIGKILL))
            code = done.returncode
            self.assertIn(code, (0, -signal.SIGKILL), done.stderr)
            kills += code != 0
        self.assertEqual(code, 0)
        self.assertGreater(kills, lines // 2 - 2)
        self.same_folders("folder-whole", "folder-killed")

    def test_journal_of_another_search(self) -> None:
        journal = self.path("journal")
        common = ["search", self.net, "--random", "1", "--target", "50", "--journal", journal]
        self.ok(*common, "-c", "float,a8w8", "--quiet")
        for words, field in ((["-c", "float,a16w16"], "candidates"),
                             (["-c", "float,a8w8", "--metric", "cosine"], "metric"),
                             (["-c", "float,a8w8", "--random", "2"], "data")):
            self.assertIn(field, self.fails(2, *common, *words))
        other = self.write("other.onnx", network(7).SerializeToString())
        self.assertIn("model", self.fails(2, *["search", other, *common[2:]], "-c", "float,a8w8"))
        self.write("journal", "not a journal\n{}\n")
        self.assertIn("journal", self.fails(2, *common, "-c", "float,a8w8"))

    # ---- what scores may be ----

    def test_nan_never_ships(self) -> None:
        for turn in range(1, 10):
            for bad in ("nan", "inf", "-inf"):
                pathlib.Path(self.path("count")).unlink(missing_ok=True)
                command = self.scorer(f"print('{bad}' if n == {turn} else 1 / size)\n")
                done = self.run_demi("search", self.net, "--random", "1", "-c", "float,a8w8",
                                     "--eval", command, "--target", "0.00001", "--quiet",
                                     "--json=-", "-o", self.path("out.onnx"))
                self.assertIn(done.returncode, (0, NO_TARGET), done.stderr)
                result = json.loads(done.stdout)
                best = self.best(result)
                if done.returncode != NO_TARGET:
                    self.assertTrue(best["feasible"] and math.isfinite(best["score"]))

    def test_scores_with_ties(self) -> None:
        command = self.scorer("print(round(min(1, size / 4000), 1))\n")
        words = ["-c", "float,a16w16,a8w8", "--eval", command, "--target", "0.9"]
        found = [self.trivial(self.net, *words) for _ in range(2)]
        self.assertEqual(found[0], found[1])
        self.assertTrue(self.best(found[0])["feasible"])

    def test_commands_that_fail(self) -> None:
        for body, says in (("print('hello')\n", "printed no number"), ("sys.exit(3)\n", "code 3"),
                           ("import os; os.kill(os.getpid(), 9)\n", "137")):
            command = self.scorer(body)
            self.assertIn(says, self.run_demi("search", self.net, "--random", "1", "--eval",
                                              command, "--target", "1").stderr)

        said = self.fails(1, "search", self.net, "--random", "1", "--eval", self.scorer("print('nan')\n"), "--drop", "1")
        self.assertIn("is not a number", said)

    def test_interrupted(self) -> None:
        """What was best until then is written, once there is one."""
        shim, count, out = fail_call.build(self.folder), self.path("asked"), self.path("out.onnx")
        words = ["search", self.net, "--random", "1", "--eval", self.scorer("print(size)\n"), "--target",
                 "1000", "-o", out, "--quiet"]

        def run(**settings: object) -> int:
            return self.run_demi(*words, env=fail_call.environment(
                shim, FAIL_NAME="sigpending", **settings)).returncode

        self.assertEqual(run(FAIL_COUNT=count), 0)
        codes = []
        for at in range(1, os.path.getsize(count) + 1):
            pathlib.Path(out).unlink(missing_ok=True)
            codes.append(run(FAIL_AT=at, FAIL_WITH=-signal.SIGINT))
            self.assertEqual(os.path.exists(out), codes[-1] != INTERRUPTED)
            if os.path.exists(out):
                onnx.checker.check_model(out)
        self.assertEqual(set(codes), {INTERRUPTED, SO_FAR, 0})

    # ---- what is refused ----

    def test_refusals(self) -> None:
        for words, says in ((["-c", "float"], "2 to 8"), (["-c", "float,float"], "duplicate"),
                            (["-c", "float,int3"], "unknown precision 'int3'"),
                            (["-c", "float16,bfloat16"], "float16 and bfloat16"),
                            (["--metric", "accuracy"], "labels"),
                            (["--target", "1", "--drop", "1"], "'--target' or '--drop'"),
                            (["--target", "x"], "target"),
                            (["--algorithm", "magic"], "magic")):
            self.assertIn(says, self.fails(2, "search", self.net, *words))
        same = self.path("same.onnx")
        self.assertIn("same file", self.fails(2, "search", self.net, "--random", "1", "--target", "5", "-o", same,
                                              "--journal", same))
        self.assertFalse(os.path.exists(same))
        for labels, says in (([0] * 3, "number of labels differs"), ([0] * 5000, "number of labels differs")):
            np.save(self.path("labels.npy"), np.array(labels))
            self.assertIn(says, self.fails(2, "search", self.net, "--metric", "accuracy", "--labels",
                                           self.path("labels.npy"), "--target", "0.5"))
        integers = self.write("i.onnxtxt", '<ir_version: 8, opset_import: ["" : 17]>\n'
                              "g (int64[2] x) => (int64[2] y) { y = Neg (x) }\n")
        self.assertIn("no floating-point", self.fails(1, "search", integers, "--target", "1"))


if __name__ == "__main__":
    command_case.main(__doc__)
