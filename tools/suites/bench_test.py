# SPDX-License-Identifier: Apache-2.0
"""Tests of bench from outside: figures, formats and traces.

usage: bench_test.py --demi DEMI [unittest arguments]
"""

import csv
import io
import json
import re

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
            self.assertEqual(step["bound"], "memory")
            least = step["bytes"] / report["machine_bytes_per_s"]
            self.assertAlmostEqual(step["of_peak"] * step["ms"] / 1e3 / least, 1, places=4)
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
            self.assertEqual(row["bound"], "memory")
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
