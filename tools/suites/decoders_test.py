#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models as ONNX Runtime GenAI's model builder writes them, beside ONNX Runtime, step by step.

A prompt and then single tokens, each runtime reading the caches that it wrote: of each model of
KINDS demi's plans, fast and faithful, give the logits and the caches that ONNX Runtime gives, within
FLOAT of the largest number, of models in float16 within HALF. Models in float are converted to
float16: products and attention are in 16 bit, ONNX Runtime runs the file, and both give what the
model gave within LOWERED. Where caches have 4 bits, a number in 16 bit may become the next one of 16,
and results are within STEP.

    tools/suites/decoders_test.py --demi build/release/demi --libdemi build/release/libdemi.so
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

import numpy as np
import onnxruntime as ort

from suite import decoder_models
from suite.decoder_models import Decoder
from suite.package import library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT, HALF, LOWERED, STEP, STEPS, PROMPT = 2e-5, 1e-2, 2e-2, 5e-2, 4, 5
LOW = {"MatMulNBits", "GroupQueryAttention", "QMoE"}
KINDS = {
    "llama": Decoder(),
    "llama, shared caches": Decoder(room=16),
    "packed": Decoder(packed=True, room=16),
    "tied": Decoder(tied=True, zeros=True),
    "8 bits": Decoder(bits=8, tied=True),
    "qwen": Decoder(norms=True, room=12),
    "gemma": Decoder(room=16, attention={"local_window_size": 4, "softcap": 5.0}),
    "gemma, caches that slide": Decoder(
        room=6, attention={"local_window_size": 4, "sliding_window_cache": 1}),
    "gpt-oss": Decoder(sinks=True, packed=True, attention={"local_window_size": 3}),
    "experts": Decoder(experts=True, room=16),
    "caches of 8 bits": Decoder(cache_bits=8, room=16),
    "caches of 4 bits": Decoder(cache_bits=4, room=16, packed=True),
}
args = argparse.Namespace()
Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], dict[str, np.ndarray]]


def by_ort(model: bytes) -> Run:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, feeds)))


def by_demi(model: bytes, numerics: str, names: list[str]) -> Run:
    plan = session(model, numerics=numerics)
    return lambda feeds: dict(zip(names, plan.run(None, feeds)))


def steps_of(kind: Decoder, run: Run, batch: int) -> list[dict[str, np.ndarray]]:
    """What comes out of each step; of caches the rows that count."""
    rng, caches, outs, total = np.random.default_rng(3), kind.caches(batch), [], 0
    for step in range(1 + STEPS):
        new = PROMPT if step == 0 else 1
        total += new
        feeds = {"input_ids": rng.integers(0, decoder_models.WORDS, (batch, new)),
                 "attention_mask": np.ones((batch, total), np.int64)}
        out = run(feeds | caches)
        caches = {name.replace("present", "past_key_values"): a for name, a in out.items()
                  if name.startswith("present")}
        held = kind.held(total)
        outs.append({n: a if n == "logits" else a[:, :, :held] for n, a in out.items()})
    return outs


class DecodersTest(unittest.TestCase):
    def near(self, got: list[dict[str, np.ndarray]], want: list[dict[str, np.ndarray]],
             limit: float) -> None:
        for step, (one, other) in enumerate(zip(got, want, strict=True)):
            for name, w in other.items():
                g = one[name]
                self.assertEqual(g.shape, w.shape, name)
                if w.dtype.kind in "iu":
                    if limit == FLOAT:  # elsewhere what is rounded is another number
                        self.assertLess(np.mean(g != w), 0.01, name)
                    continue
                g, w = g.astype(np.float64), w.astype(np.float64)
                most = max(1.0, float(np.max(np.abs(w))))
                self.assertLessEqual(float(np.max(np.abs(g - w))) / most, limit, (step, name))

    def test_steps(self) -> None:
        for name, kind in KINDS.items():
            for half in (False, True):
                kind.half = half
                model = kind.model()
                names, text = [o.name for o in model.graph.output], model.SerializeToString()
                for batch in (1, 2):
                    want = steps_of(kind, by_ort(text), batch)
                    for numerics in ("fast", "faithful"):
                        with self.subTest(kind=name, half=half, batch=batch, numerics=numerics):
                            got = steps_of(kind, by_demi(text, numerics, names), batch)
                            step = STEP if kind.cache_bits == 4 else HALF
                            self.near(got, want, step if half else FLOAT)

    def test_converted(self) -> None:
        for name, kind in KINDS.items():
            kind.half = False
            model = kind.model()
            names, text = [o.name for o in model.graph.output], model.SerializeToString()
            want = steps_of(kind, by_ort(text), 1)
            with self.subTest(kind=name), tempfile.TemporaryDirectory() as folder:
                source, target = pathlib.Path(folder, "m.onnx"), pathlib.Path(folder, "low.onnx")
                source.write_bytes(text)
                done = subprocess.run([args.demi, "convert", source, "-o", target, "--json=-"],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                for node in json.loads(done.stdout)["nodes"]:
                    self.assertTrue(node["reason"] and "unknown" not in node["reason"], node)
                    if node["op_type"] in LOW:
                        self.assertEqual(node["dtype"], "float16", node)
                low, limit = target.read_bytes(), STEP if kind.cache_bits == 4 else LOWERED
                for run in (by_ort(low), by_demi(low, "faithful", names)):
                    self.near(steps_of(kind, run, 1), want, limit)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
