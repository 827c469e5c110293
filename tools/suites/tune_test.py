# SPDX-License-Identifier: Apache-2.0
"""`compile --tune`: what it says is what the plan holds, results stay, without it nothing changes.

Which ways are fast is the machine's to say, so that plans that come out differ; those whose choices
have to be certain are made by plan_tune_test.c.
"""

import re

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from suite.command_case import ROOT, Case, main

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[n,3,40,40] x) => (float[n,1000] y) {
    a = Conv <pads = [1,1,1,1], strides = [2,2]> (x, w0)
    b = Relu (a)
    c = Conv <pads = [1,1,1,1]> (b, w1)
    d = Relu (c)
    e = Conv (d, w2)
    f = GlobalAveragePool (e)
    h = Flatten (f)
    y = MatMul (h, w3)
}"""
WEIGHTS = {"w0": (48, 3, 3, 3), "w1": (64, 48, 3, 3), "w2": (256, 64, 1, 1), "w3": (256, 1000)}
TUNED = re.compile(r"tuned for (\d+) threads? in [\d.]+ s: (?:(\d+) kinds of steps timed, "
                   r"(nothing is faster|(\d+) changed \((\d+) steps\), a run takes ([\d.]+) of the "
                   r"time, [\d.e+-]+ ms for [\d.e+-]+)|not enough time, nothing changed)\n")


class Tune(Case):
    def setUp(self) -> None:
        super().setUp()
        made = onnx.parser.parse_model(MODEL)
        random = np.random.default_rng(1)
        for name, shape in WEIGHTS.items():
            value = random.standard_normal(shape, np.float32) / 16
            made.graph.initializer.append(numpy_helper.from_array(value, name))
        self.model = self.path("m.onnx")
        onnx.save(made, self.model)

    def results(self, plan: str, threads: int) -> np.ndarray:
        return self.outputs(plan, "--input", f"x={self.path('x.npy')}", "--threads", threads)["y"]

    def test_tunes(self) -> None:
        self.npy("x.npy", np.random.default_rng(2).standard_normal((2, 3, 40, 40), np.float32))
        self.ok("compile", self.model, "-o", "plain.plan")
        plain = (self.folder / "plain.plan").read_bytes()
        for threads in (1, 2):
            said = self.ok("compile", self.model, "-o", "t.plan", "--tune=1", "--threads", threads,
                           "--shape", "x=2x3x40x40")
            found = TUNED.match(said)
            self.assertTrue(found, said)
            self.assertEqual(int(found[1]), threads)
            shown = self.ok("show", "t.plan")
            choices = shown.count("chosen for")
            self.assertEqual(choices, int(found[5] or 0))
            if choices:
                level = f"for {threads} threads: {choices} choices"
                self.assertIn(level, shown)
                self.assertLess(float(found[6]), 1.005)
            else:
                self.assertNotIn("tuned on", shown)
                self.assertEqual((self.folder / "t.plan").read_bytes(), plain)
            self.ok("check", "t.plan", "--against", self.model, "--full")
            for run_threads in (1, 2): # with others than it was tuned for, too
                expected = self.results("plain.plan", run_threads)
                np.testing.assert_allclose(self.results("t.plan", run_threads), expected, rtol=1e-4,
                                           atol=1e-5 * float(np.abs(expected).max()))

    def test_no_time(self) -> None:
        said = self.ok("compile", self.model, "-o", "t.plan", "--tune=0.000001")
        self.assertIn("not enough time, nothing changed", said)
        self.ok("compile", self.model, "-o", "plain.plan")
        self.assertEqual((self.folder / "t.plan").read_bytes(),
                         (self.folder / "plain.plan").read_bytes())

    def test_show(self) -> None:
        shown = self.ok("show", str(ROOT / "testdata/fuzz/plan/tuned-product-avx512"))
        self.assertIn("tuned on avx512 for 1 threads: 8 choices", shown)
        self.assertIn("      chosen for bb5de37822b9a1cd: kernel 1, choice 6, one thread\n", shown)
        self.assertIn("      chosen for 5aaed63dc41705b2: one thread\n", shown)

    def test_refused(self) -> None:
        for words, reason in (
                (["--threads", "2"], "'--threads' requires '--tune'"),
                (["--shape", "x=1x3x40x40"], "'--shape' requires '--tune'"),
                (["--tune", "--numerics", "faithful"], "no variants to tune"),
                (["--tune=soon"], "bad value of option '--tune'"),
                (["--tune", "--threads", "0"], "bad value of option '--threads'")):
            self.assertIn(reason, self.fails(2, "compile", self.model, "-o", "t.plan", *words))


if __name__ == "__main__":
    main(__doc__)
