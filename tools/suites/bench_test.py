# SPDX-License-Identifier: Apache-2.0
"""Tests of bench from outside: figures, formats and traces.

usage: bench_test.py --demi DEMI [unittest arguments]
"""

import csv
import io
import json
import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from suite import command_case
from suite.command_case import BACKEND, MODEL, Case


class Bench(Case):
    def test_json_has_the_fields(self) -> None:
        report = json.loads(self.ok("bench", self.model, "--runs", "5", "--quiet", "--json=-"))
        self.assertEqual(set(report["latency_ms"]), {"min", "mean", "p50", "p90", "p99", "max"})
        latency = report["latency_ms"]
        self.assertTrue(0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"]
                        <= latency["max"])
        self.assertEqual(report["runs"], 5)
        for key in ["throughput_per_s", "peak_rss_bytes", "threads", "isa"]:
            self.assertTrue(report[key])
        self.assertEqual([s["name"] for s in report["steps"]], ["/mul", "/act", "/neg"])
        self.assertEqual(report["steps"][0]["bytes"], 4 * (3 + 3 + 3))
        for step in report["steps"]:
            self.assertEqual(set(step), {"name", "op_type", "kernel", "ms", "flops", "bytes",
                                         "calls", "bound", "of_peak"})
            cached = report["working_set_bytes"] <= (report["cache_bytes"] or 0)
            self.assertEqual(step["bound"], "cache" if cached else "memory")
            rate = report["machine_cached_bytes_per_s" if cached else "machine_bytes_per_s"]
            least = step["bytes"] / rate
            self.assertAlmostEqual(step["of_peak"] * step["ms"] / 1e3 / least, 1, places=4)
        self.assertEqual(set(report["machine_flops_by_type"]), {"float", "double", "bfloat16", "int8"})
        self.assertGreater(report["machine_flops_per_s"], 1e9)
        self.assertIsInstance(report["advice"], list)
        report = json.loads(self.ok("bench", self.model, "--runs=1", "--quiet", "--no-peak",
                                    "--json=-"))
        self.assertNotIn("machine_flops_per_s", report)
        self.assertNotIn("bound", report["steps"][0])

    def test_flops(self) -> None:
        for name, flops in [("test_matmul_2d", 2 * 3 * 4 * 3),
                            ("test_basic_conv_with_padding", 2 * 25 * 9)]:
            folder = BACKEND / "node" / name
            if not folder.exists():
                self.skipTest("no backend data: tools/test fetches them")
            report = json.loads(self.ok("bench", folder / "model.onnx", "--data", folder,
                                        "--runs=1", "--quiet", "--json=-"))
            self.assertEqual(report["steps"][0]["flops"], flops)

    def test_memory_bounds_what_no_cache_holds(self) -> None:
        """Never a run whose operands and results fit the last-level cache."""
        text = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x) => (float[N] y) {
    a = Neg(x)
    y = Abs(a)
}
"""
        model = self.write("wide.onnxtxt", text)

        def bench(count: int) -> dict:
            return json.loads(self.ok("bench", model, "--shape", f"x={count}", "--runs=1", "--warmup=0",
                                      "--numerics=faithful", "--quiet", "--json=-"))
        small = bench(1000)
        self.assertTrue(4 * 2000 <= small["working_set_bytes"] <= 4 * 3000 + 256)
        cache = small["cache_bytes"]
        if cache is None or cache > 256 << 20:
            self.skipTest("no cache that is known and small enough to exceed")
        wide = bench(cache // 4)  # twice the cache, or three times
        for report, bound in ((small, "cache"), (wide, "memory")):
            self.assertEqual({s["bound"] for s in report["steps"]}, {bound})
            other = "memory" if bound == "cache" else "the cache"
            self.assertFalse([a for a in report["advice"] if f"bound by {other}" in a])

    def save(self, graph: onnx.GraphProto) -> str:
        path = self.path("made.onnx")
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    def flops(self, model: str) -> dict[str, float]:
        report = json.loads(self.ok("bench", model, "--runs=1", "--quiet", "--json=-"))
        return {s["op_type"]: s["flops"] for s in report["steps"] if s["flops"]}

    def test_flops_of_a_separable_convolution(self) -> None:
        """All three of its parts, the first at the places of what it reads."""
        shapes = {"v": (64, 16, 1, 1), "w": (64, 1, 3, 3), "u": (24, 64, 1, 1)}
        random = np.random.default_rng(1)
        weights = [numpy_helper.from_array(random.standard_normal(shape, np.float32), name)
                   for name, shape in shapes.items()]
        nodes = [helper.make_node("Transpose", ["last"], ["x"], perm=[0, 3, 1, 2]),
                 helper.make_node("Conv", ["x", "v"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
                 helper.make_node("Conv", ["b", "w"], ["c"], group=64, pads=[1] * 4, strides=[2, 2]),
                 helper.make_node("Relu", ["c"], ["d"]), helper.make_node("Conv", ["d", "u"], ["e"]),
                 helper.make_node("Transpose", ["e"], ["y"], perm=[0, 2, 3, 1])]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [info("last", TensorProto.FLOAT, [1, 56, 56, 16])],
                                  [info("y", TensorProto.FLOAT, [1, 28, 28, 24])], weights)
        self.assertEqual(self.flops(self.save(graph)), {
            "SeparableConvLast": 2 * (56 * 56 * 64 * 16 + 28 * 28 * 64 * (9 + 24))})

    def test_flops_of_fused_attention(self) -> None:
        """Of heads in any order of axes: scores, and what they weigh."""
        text = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,5,3,8] q, float[2,7,3,8] k, float[2,7,3,8] v) => (float[2,5,3,8] y) {
    qt = Transpose <perm: ints = [0, 2, 1, 3]> (q)
    kt = Transpose <perm: ints = [0, 2, 3, 1]> (k)
    vt = Transpose <perm: ints = [0, 2, 1, 3]> (v)
    s = MatMul(qt, kt)
    p = Softmax(s)
    o = MatMul(p, vt)
    y = Transpose <perm: ints = [0, 2, 1, 3]> (o)
}
"""
        self.assertEqual(self.flops(self.write("f.onnxtxt", text)), {"Attention": 2 * 2 * 3 * 5 * 7 * (8 + 8)})

    def test_peaks_are_by_type(self) -> None:
        text = """<ir_version: 8, opset_import: ["" : 17]>
g (uint8[256,256] a, int8[256,256] b) => (int32[256,256] y) {
    y = MatMulInteger(a, b)
}
"""
        report = json.loads(self.ok("bench", self.write("i.onnxtxt", text), "--runs=3", "--quiet",
                                    "--json=-"))
        peaks, (step, *_) = report["machine_flops_by_type"], report["steps"]
        self.assertEqual(step["flops"], 2 * 256 ** 3)
        if peaks["int8"] is None:  # of a processor with tiles
            self.assertNotIn("bound", step)
            return
        self.assertGreaterEqual(peaks["int8"], peaks["float"])
        self.assertGreater(peaks["float"], peaks["double"])
        if step["bound"] == "arithmetic":
            least = step["flops"] / peaks["int8"]
            self.assertAlmostEqual(step["of_peak"] * step["ms"] / 1e3 / least, 1, places=4)

    def test_names_stay_text_in_tables(self) -> None:
        """Markdown's characters, what spreadsheets take for formulas, and what would end a line."""
        names = ["=1+1", "+a", "-b", "@c", "a|b`c`", "<b>d</b>", "__e__", "f_g", "h\ni", 'j"k', "[l](m)"]
        nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"], name=name)
                 for i, name in enumerate(names)]
        info = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [4]) for v in ("v0", f"v{len(names)}")]
        graph = helper.make_graph(nodes, "g", info[:1], info[1:])
        common = ("bench", self.save(graph), "--runs=1", "--numerics=faithful", "--no-peak", "--steps=20", "--format")
        rows = list(csv.DictReader(io.StringIO(self.ok(*common, "csv"))))
        self.assertEqual({r["name"] for r in rows}, {
            "'=1+1", "'+a", "'-b", "'@c", "a|b`c`", "<b>d</b>", "__e__", "f_g", "h\\x0ai", 'j"k', "[l](m)"})
        lines = self.ok(*common, "markdown").split("\n\n")[1].splitlines()[2:]
        self.assertEqual({re.split(r"(?<!\\) \| ", line[2:])[0] for line in lines}, {
            "=1+1", "+a", "-b", "@c", "a\\|b\\`c\\`", "\\<b\\>d\\</b\\>", "\\_\\_e\\_\\_", "f_g",
            "h\\x0ai", 'j"k', "\\[l\\](m)"})

    def test_text_and_other_spellings(self) -> None:
        out = self.ok("bench", self.model, "--iterations=3", "--warmUp=1", "--threads", "1",
                      "--shape", "x=2x3", "--steps", "2")
        for part in ["1 thread,", "3 runs", "input       x float[2,3]", "p99", "runs/s",
                     "all others"]:
            self.assertIn(part, out)

    def test_formats(self) -> None:
        rows = list(csv.DictReader(io.StringIO(self.ok(
            "bench", self.model, "--runs=2", "--format", "csv"))))
        self.assertEqual({r["name"] for r in rows}, {"/mul", "/act", "/neg"})
        self.assertAlmostEqual(sum(float(r["share"]) for r in rows), 1, places=3)
        for row in rows:
            self.assertIn(row["bound"], ("cache", "memory"))
            self.assertGreater(float(row["bytes_per_s"]), 0)
        odd = self.write("odd.onnxtxt", MODEL.replace("/mul", 'a|"b,c'.replace('"', '\\"')))
        names = [r["name"] for r in csv.DictReader(io.StringIO(self.ok(
            "bench", odd, "--runs=2", "--format", "csv")))]
        self.assertIn('a|"b,c', names)
        out = self.ok("bench", odd, "--runs=2", "--format=markdown")
        tables = [t.strip().splitlines() for t in out.split("\n\n")][:2]
        for table in tables:
            cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
            self.assertEqual(len(cells), 1, table)
        self.assertEqual(len(tables[1]), 2 + 3)
        self.fails(2, "bench", self.model, "--format=xml")

    def test_attention_and_transposed_flops(self) -> None:
        """Queries of 2 x 3 x 8, 5 keys: 2 (2 3 8) 5 for scores and as many for what they weigh."""
        text = """<ir_version: 10, opset_import: ["" : 23]>
g (float[2,3,8] q, float[2,5,8] k) => (float[2,3,8] y) {
    y = Attention <q_num_heads: int = 2, kv_num_heads: int = 2> (q, k, k)
}
"""
        report = json.loads(self.ok("bench", self.write("a.onnxtxt", text), "--runs=1",
                                    "--numerics=faithful", "--quiet", "--json=-"))
        self.assertEqual(report["steps"][0]["flops"], 2 * (48 * 5 + 48 * 5))

    def test_duration(self) -> None:
        report = json.loads(self.ok("bench", self.model, "--duration", "0.05", "--quiet",
                                    "--json=-"))
        self.assertGreaterEqual(report["runs"], 10)

    def test_trace(self) -> None:
        self.ok("bench", self.model, "--runs", "2", "--trace", "t.json", "--quiet")
        with open(self.path("t.json")) as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual([e["name"] for e in events], ["/mul", "/act", "/neg"])
        ends = 0
        for event in events:  # what the format asks of a complete event
            self.assertEqual(event["ph"], "X")
            for key, kind in {"name": str, "cat": str, "ts": (int, float), "dur": (int, float),
                              "pid": int, "tid": int, "args": dict}.items():
                self.assertIsInstance(event[key], kind)
            self.assertGreaterEqual(event["ts"], ends)
            ends = event["ts"] + event["dur"]
        self.fails(2, "bench", self.model, "--trace", "t.onnx")


if __name__ == "__main__":
    command_case.main(__doc__)
