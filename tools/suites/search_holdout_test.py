# SPDX-License-Identifier: Apache-2.0
"""Tests of search from outside: what it claims holds on data that it did not use, and sets have their uses.

usage: search_holdout_test.py --demi DEMI [unittest arguments]
"""

import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime

from search_test import NO_TARGET, SearchCase, decibels, network
from suite import command_case

TESTDATA = pathlib.Path(__file__).resolve().parents[2] / "testdata/search"


class Holdout(SearchCase):
    def digits(self) -> tuple[str, str, list[np.ndarray]]:
        """A trained network, 32 sets to search with, and 240 other pictures."""
        pictures = (np.load(TESTDATA / "digits.npz")["x"] / np.float32(50) - 2).astype(np.float32)
        return (str(TESTDATA / "digits.onnx"), self.sets("digits", list(pictures[:32, None])),
                list(pictures[32:, None]))

    def test_result_holds_on_new_data(self) -> None:
        model, data, new = self.digits()
        out = self.path("out.onnx")
        for target in (30, 32, 34):
            result = self.search(0, model, "--data", data, "--target", str(target), "-o", out)
            held, best = result["holdout"], self.best(result)
            self.assertGreaterEqual(held["low"], target)
            self.assertLessEqual(held["low"], held["score"])
            self.assertLess(best["cost"], 1)
            score = decibels(model, out, new)
            self.assertGreaterEqual(score, target)
            self.assertTrue(held["low"] <= score <= held["high"], (score, held))
        without = self.search(0, model, "--data", data, "--target", "32", "--holdout", "0", "-o", out)
        self.assertEqual(without["sets"], {"calibration": 0, "selection": 32, "holdout": 0})
        self.assertEqual((without["holdout"]["tests"], without["holdout"]["score"]), (0, None))

    def test_sets_are_divided(self) -> None:
        """By name, and the same for all commands; what was not asked to be held out is said."""
        for count, sets in ((7, (0, 7, 0)), (8, (0, 4, 4)), (12, (0, 8, 4)), (24, (0, 16, 8)),
                            (50, (17, 17, 16))):
            data = self.random_sets(f"d{count}", count, count, batch=2)
            result = self.search(0, self.net, "-c", "float,a8w8", "--target", "25", "--data", data)
            self.assertEqual(tuple(result["sets"].values()), sets, count)
            self.assertEqual(result["holdout"]["tests"] > 0, sets[2] > 0)
        said = self.ok("search", self.net, "-c", "float,a8w8", "--target", "25", "--data", self.path("d7"))
        self.assertIn("none held out: the score may be lower on new data", said)
        said = self.ok("search", self.net, "-c", "float,a8w8", "--target", "25", "--data", self.path("d24"))
        self.assertRegex(said, r"16 for calibration and selection, 8 held out; [123] of at most 3 acceptance tests")
        self.assertRegex(said, r"on held-out data, [0-9.]+ to [0-9.]+ with 95 % confidence, target 25")

    def test_random_sets_differ(self) -> None:
        """What is held out is none of what the search has, so that the rest is not the first ones."""
        common = [self.net, "-c", "float,a8w8", "--target", "25", "--evaluations", "2"]
        first = self.search(0, *common, "--sets", "8", "--holdout", "0")
        rest = self.search(0, *common, "--sets", "12")
        self.assertEqual(rest["sets"], {"calibration": 0, "selection": 8, "holdout": 4})
        self.assertNotEqual(first["points"][1]["score"], rest["points"][1]["score"])

    def test_few_sets_are_cut_into_rows(self) -> None:
        """Where the model leaves the first axis open; else rows of what is held out are samples."""
        model = self.write("open.onnx", network(batch="n").SerializeToString())
        data = self.random_sets("one", 1, 3, batch=60)
        result = self.search(0, model, "-c", "float,a8w8", "--target", "25", "--data", data)
        self.assertEqual(tuple(result["sets"].values()), (20, 20, 20))
        result = self.search(0, model, "-c", "float,a8w8", "--target", "25", "--data", data, "--holdout", "0")
        self.assertEqual(tuple(result["sets"].values()), (0, 1, 0))
        fixed = self.write("fixed.onnx", network(batch=6).SerializeToString())
        data = self.random_sets("six", 9, 3, batch=6)
        result = self.search(0, fixed, "-c", "float,a8w8", "--target", "25", "--data", data)
        self.assertEqual((result["holdout"]["of"], result["holdout"]["samples"]), ("rows", 24))

    def test_each_step_has_its_data(self) -> None:
        near, far = self.random_sets("near", 6, 1), self.random_sets("far", 6, 2, scale=20)
        other = self.random_sets("other", 6, 3)
        common = [self.net, "-c", "float,a8w8", "--target", "30", "--data", near]
        plain, wide, held = self.path("plain"), self.path("wide"), self.path("held")
        self.search(0, *common, "--output-dir", plain)
        result = self.search(0, *common, "--holdout", other, "--output-dir", held)
        self.assertEqual(tuple(result["sets"].values()), (0, 6, 6))
        score = decibels(self.net, f"{held}/model.onnx", [np.load(f"{other}/{i:03}.npz")["x"] for i in range(6)])
        self.assertLess(abs(score - result["holdout"]["score"]), 1)
        result = self.search(0, *common, "--calibrate", far, "--output-dir", wide)
        self.assertEqual(tuple(result["sets"].values()), (6, 6, 0))

        def widest(folder: str) -> float:
            ranges = json.loads(pathlib.Path(folder, "policy.json").read_text())["ranges"]
            return max(ends[1] for ends in ranges.values())

        self.assertGreater(widest(wide), 4 * widest(plain))

    def test_what_does_not_hold_is_not_written(self) -> None:
        """Ranges of these sets clip the others: nothing but float would do there, which is no candidate."""
        near, far = self.random_sets("near", 6, 1), self.random_sets("far", 6, 2, scale=20)
        out = self.path("out.onnx")
        common = [self.net, "-c", "a16w16,a8w8", "--target", "30", "--data", near, "-o", out]
        result = self.search(NO_TARGET, *common, "--holdout", far)
        self.assertEqual(result["outcome"], "unconfirmed")
        self.assertLess(result["holdout"]["low"], 30)
        self.assertLessEqual(result["holdout"]["tests"], 3)
        self.assertIn("not confirmed", result["says"])
        self.assertFalse(os.path.exists(out))
        self.search(0, *common, "--holdout", near)
        self.assertTrue(os.path.exists(out))

    def test_outputs_stay_float(self) -> None:
        for candidates in ("float,a8w8", "a16w16,a8w8"):
            for words, quantized in ([], False), (["--quantize-outputs"], True):
                out = self.path("out.onnx")
                self.search(0, self.net, "-c", candidates, "--target", "10", "-o", out, *words)
                graph = onnx.load(out).graph
                last = next(n for n in graph.node if graph.output[0].name in n.output)
                self.assertEqual(last.op_type == "DequantizeLinear", quantized, (candidates, words))

    def test_shares(self) -> None:
        """Wilson's intervals; of a drop, that of the change on the same rows."""
        model = self.write("open.onnx", network(batch="n").SerializeToString())
        random = np.random.default_rng(2)
        x = random.standard_normal((300, 3, 12, 12), dtype=np.float32)
        data = self.sets("rows", [x])
        common = [model, "-c", "float,a16w16,a8w8", "--data", data]
        result = self.search(0, *common, "--metric", "top1", "--target", "0.85")
        held = result["holdout"]
        n, z = 96, 2.39398  # 0.05 / 3, two-sided; a third of 50 parts of 6 rows
        share = held["score"]
        self.assertAlmostEqual(share * n, round(share * n), places=6)
        low = (share + z * z / 2 / n - z * math.sqrt(share * (1 - share) / n + (z / 2 / n) ** 2)) / (1 + z * z / n)
        self.assertAlmostEqual(held["low"], low, places=4)
        labels = onnxruntime.InferenceSession(model).run(None, {"x": x})[0].argmax(1)
        labels[::4] = (labels[::4] + 1) % 5  # the float model is right of three quarters
        np.save(self.path("labels.npy"), labels)
        accuracy = [*common, "--metric", "accuracy", "--labels", self.path("labels.npy")]
        result = self.search(0, *accuracy, "--drop", "0.1")
        self.assertGreaterEqual(result["holdout"]["low"], result["holdout"]["target"])
        right = np.load(self.path("labels.npy")) == onnxruntime.InferenceSession(model).run(None, {"x": x})[0].argmax(1)
        parts = [right[i:i + 6] for i in range(0, 300, 6)]
        held = np.concatenate([part for i, part in enumerate(parts) if (i + 1) * 16 // 50 > i * 16 // 50])
        self.assertAlmostEqual(result["holdout"]["target"], held.mean() - 0.1, places=6)
        done = self.run_demi("search", *accuracy, "--target", "0.75")
        self.assertEqual(done.returncode, 1)
        self.assertIn("too few rows are held out", done.stderr)

    def test_commands_that_accept(self) -> None:
        """The second command is asked at most three times, and decides."""
        command = self.scorer("print(size)\n")
        asked = self.path("asked")
        for body, code, times in (("print(2000)\n", 0, 1), ("print(0)\n", 1, 3), ("print('nan')\n", 1, 3)):
            other = self.write("other.py", f"open({asked!r}, 'a').write('x')\n{body}")
            result = self.search(code, self.net, "-c", "float,a8w8", "--eval", command, "--target", "1000",
                                 "--eval-holdout", f"{sys.executable} {other}")
            self.assertEqual(result["holdout"]["tests"], os.path.getsize(asked))
            self.assertLessEqual(os.path.getsize(asked), times)
            self.assertEqual(result["outcome"], "unconfirmed" if code else "found")
            os.unlink(asked)

    def test_safest_is_tested_before_giving_up(self) -> None:
        """Where all scores of the search are alike, the widest candidates are left once the cheapest have failed."""
        body = """import sys, onnx
nodes = onnx.load(sys.argv[-1]).graph.node
print(0 if any(n.op_type == "QuantizeLinear" for n in nodes) else 2000)
"""
        result = self.search(0, self.net, "-c", "float,a8w8", "--eval", self.scorer("print(1000)\n"), "--target",
                             "1000", "--eval-holdout", f"{sys.executable} {self.write('held.py', body)}")
        self.assertEqual((result["outcome"], result["holdout"]["tests"], self.best(result)["cost"]), ("found", 2, 1))

    def test_data_that_is_no_use(self) -> None:
        """Sets that do not go with each other or with other options; what is bad by itself is in hostile_data_test."""
        good = self.random_sets("good", 6, 1)
        x = np.zeros((2, 3, 12, 12), np.float32)
        one = self.sets("one", [x[:1] + 1])
        single = self.write("single.onnx", network(batch=1).SerializeToString())
        for words, says in ((["--holdout", one], "at least 2 sets that are held out"),
                            (["--holdout", "1"], "0 to less than 1"), (["--holdout", "-0.1"], "0 to less than 1"),
                            (["--holdout", "nan"], "0 to less than 1"), (["--holdout", "inf"], "0 to less than 1"),
                            (["--holdout", "0.1"], "share of 0.1 of 1 set"),
                            (["--eval-holdout", "true"], "needs '--eval'"),
                            (["--eval", "true", "--holdout", "0.5"], "give '--eval-holdout'"),
                            (["--holdout-labels", "x.npy"], "x.npy")):
            self.assertIn(says, self.fails(2, "search", single, "-c", "float,a8w8", "--target", "20", "--data",
                                           one, *words))
        self.assertIn("needs a target", self.fails(2, "search", self.net, "--data", good, "--holdout", "0.5"))

    def test_labels_that_are_no_use(self) -> None:
        good, other = self.random_sets("good", 6, 1), self.random_sets("other", 5, 1)
        common = ["search", self.net, "-c", "float,a8w8", "--metric", "accuracy", "--target", "0", "--data", good,
                  "--quiet", "--labels", self.npy("labels.npy", np.arange(12) % 5)]
        self.ok(*common)
        self.assertIn("need labels of their own", self.fails(2, *common, "--holdout", other))
        path = self.npy("held.npy", np.arange(10) % 5)
        self.ok(*common, "--holdout", other, "--holdout-labels", path)
        self.assertIn("need holdout sets", self.fails(2, *common, "--holdout-labels", path))

    def test_acceptance_is_the_same_again(self) -> None:
        """For any threads and ranks, and from any line of the journal; what it says is not believed."""
        data = self.random_sets("data", 24, 9)
        common = [self.net, "-c", "float,a16w16,a8w8", "--target", "44", "--data", data]
        for threads in "123":
            self.search(0, *common, "--threads", threads, "--output-dir", self.path("folder-t" + threads))
        self.same_folders("folder-t1", "folder-t2")
        self.same_folders("folder-t1", "folder-t3")
        mpirun = shutil.which("mpirun")
        if mpirun:
            done = subprocess.run(
                [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", self.demi, "search", *common, "--random",
                 "1", "--threads", "1", "--quiet", "--output-dir", self.path("folder-r2")], capture_output=True,
                text=True, timeout=600, check=False, env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.same_folders("folder-t1", "folder-r2")
        journal = self.path("journal")
        self.search(0, *common, "--journal", journal, "--output-dir", self.path("folder-whole"))
        self.same_folders("folder-t1", "folder-whole")
        whole = pathlib.Path(journal).read_bytes()
        lines = whole.splitlines(keepends=True)
        for keep in range(1, len(lines) + 1, 3):
            pathlib.Path(journal).write_bytes(b"".join(lines[:keep]))
            shutil.rmtree(self.path("folder-again"), ignore_errors=True)
            self.search(0, *common, "--journal", journal, "--output-dir", self.path("folder-again"))
            self.same_folders("folder-whole", "folder-again")
            self.assertEqual(pathlib.Path(journal).read_bytes(), whole)
        text = whole.decode()
        changed = re.sub(r'("key":"held out [0-9]+","is":)\[[^\]]*', r"\1[77.5,1,70,80", text)
        self.assertNotEqual(changed, text)
        pathlib.Path(journal).write_text(changed)
        self.assertIn("journal", self.fails(2, "search", *common, "--random", "1", "--journal", journal))
        pathlib.Path(journal).write_bytes(whole)
        self.assertIn("acceptance", self.fails(2, "search", *common, "--random", "1", "--journal", journal, "--holdout", "0"))


if __name__ == "__main__":
    command_case.main(__doc__)
