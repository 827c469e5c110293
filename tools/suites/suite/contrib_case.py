# SPDX-License-Identifier: Apache-2.0
"""Models of one operator of ONNX Runtime's domain com.microsoft, at random from a seed, and how what
demi makes of them is held against what that runtime does: for the suites contrib*_test.py.

Results in float are within FLOAT of the largest number, in float16 within HALF, of integers within a
step; of a case that is converted to float16 each node has a reason, ONNX Runtime runs the file, and
results are within LOWERED."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from suite.engines import saturates
from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[3]
FLOAT, HALF, LOWERED, STEP = 2e-5, 3e-3, 1e-2, 1
ROUNDS = 4
args = argparse.Namespace()
Feeds = dict[str, np.ndarray | None]


def by_plan(model: bytes, numerics: str, feeds: Feeds) -> list[np.ndarray]:
    return session(model, numerics=numerics).run(None, feeds)


def by_session(model: bytes, feeds: Feeds) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    return session.run(None, feeds)


class Case:
    """A model of one node: operands are inputs, or constants where `constants` names them."""

    def __init__(self, op: str, feeds: Feeds, outputs: Sequence[object] = (None,),
                 constants: Sequence[str] = (), opset: int = 17, domain: str = "com.microsoft",
                 **attributes: object) -> None:
        self.op, self.attributes = op, attributes
        while feeds and list(feeds.values())[-1] is None:
            feeds.popitem()
        given = {name: a for name, a in feeds.items() if a is not None}
        self.feeds = {n: a for n, a in given.items() if n not in constants}
        first = next(iter(given.values())).dtype
        names = ["" if kind is False else f"y{i}" for i, kind in enumerate(outputs)]
        node = helper.make_node(op, [n if a is not None else "" for n, a in feeds.items()], names,
                                name="it", domain=domain, **attributes)
        results = [helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(kind or first)), None)
            for name, kind in zip(names, outputs) if name]
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in self.feeds.items()], results,
            [numpy_helper.from_array(given[n], n) for n in constants if n in given])
        self.model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)],
        ).SerializeToString()

    def by_demi(self, numerics: str) -> list[np.ndarray]:
        return by_plan(self.model, numerics, self.feeds)

    def by_ort(self, model: bytes = b"") -> list[np.ndarray]:
        return by_session(model or self.model, self.feeds)

    def converted(self) -> tuple[bytes, list[dict[str, str]]]:
        """The model in float16, and what is said of its nodes."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "m.onnx"), pathlib.Path(folder, "low.onnx")
            source.write_bytes(self.model)
            done = subprocess.run([args.demi, "convert", source, "-o", target, "--json=-"],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                raise AssertionError(done.stderr)
            return target.read_bytes(), json.loads(done.stdout)["nodes"]


class Random:
    def __init__(self, seed: int, dtype: type = np.float32) -> None:
        self.random, self.dtype = np.random.default_rng(seed), np.dtype(dtype)
        self.half = dtype == np.float16

    def size(self, most: int = 7) -> int:
        return int(self.random.integers(1, most + 1))

    def flag(self) -> bool:
        return bool(self.random.integers(2))

    def floats(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(self.dtype)

    def maybe(self, *shape: int) -> np.ndarray | None:
        return self.floats(*shape) if self.flag() else None

    def ints(self, most: int, *shape: int, dtype: type = np.int32) -> np.ndarray:
        return self.random.integers(0, most, shape).astype(dtype)

    def mask(self, *shape: int) -> np.ndarray:
        """Zeros and ones, but for the first key: of rows without ones, to which -10000 is added
        as a whole, rounding leaves little."""
        made = self.ints(2, *shape)
        made[..., 0] = 1
        return made

    def bytes(self, dtype: type, *shape: int, less: int = 1) -> np.ndarray:
        ends = np.iinfo(dtype)
        return self.random.integers(ends.min // less, ends.max // less + 1, shape).astype(dtype)

    def weights(self, dtype: type, *shape: int) -> np.ndarray:
        """Of 7 bits where sums of two products of more would saturate in ONNX Runtime."""
        return self.bytes(dtype, *shape, less=2 if dtype == np.int8 and saturates() else 1)

    def scale(self, *shape: int) -> np.ndarray:
        return self.random.uniform(0.01, 0.09, shape).astype(np.float32)


class ContribCase(unittest.TestCase):
    def compare(self, case: Case, want: list[np.ndarray], step: float = 0) -> None:
        half = any(a.dtype == np.float16 for a in want)
        for numerics in ("fast", "faithful"):
            got = case.by_demi(numerics)
            self.assertEqual([(g.dtype, g.shape) for g in got], [(w.dtype, w.shape) for w in want])
            for one, other in zip(got, want):
                most = float(np.max(np.abs(other.astype(np.float64)), initial=1))
                near = step if other.dtype.kind in "iu" else (HALF if half else FLOAT) * most
                np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64),
                                           rtol=0, atol=near, err_msg=f"{case.op} {numerics}")

    def each(self, make: Callable[[Random], Case], step: float = 0, halves: bool = True,
             rounds: int = ROUNDS) -> None:
        for dtype in (np.float32, np.float16) if halves else (np.float32,):
            for seed in range(rounds):
                case = make(Random(seed, dtype))
                with self.subTest(op=case.op, seed=seed, dtype=dtype.__name__,
                                  attributes=case.attributes):
                    want = case.by_ort()
                    self.compare(case, want, step)
                    if seed == 0 and dtype == np.float32:
                        self.convert(case, want, step)

    def convert(self, case: Case, want: list[np.ndarray], step: float) -> None:
        model, nodes = case.converted()
        for node in nodes:
            self.assertTrue(node["reason"] and "unknown" not in node["reason"], node)
        for one, other in zip(case.by_ort(model), want):
            most = float(np.max(np.abs(other.astype(np.float64)), initial=1))
            near = step if other.dtype.kind in "iu" else LOWERED * most
            np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol=0,
                                       atol=near, err_msg=f"{case.op} converted")

    def widen(self, case: Case, want: list[np.ndarray], near: float = FLOAT) -> onnx.ModelProto:
        """To float32: no node has quantized weights, and results are the same, in ONNX Runtime too."""
        made = demi.convert(onnx.load_model_from_string(case.model), to="float32")[0]
        self.assertNotIn(case.op, [n.op_type for n in made.graph.node])
        data = made.SerializeToString()
        for got in (by_plan(data, "faithful", case.feeds), case.by_ort(data)):
            for one, other in zip(got, want, strict=True):
                most = float(np.max(np.abs(other.astype(np.float64)), initial=1))
                np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol=0,
                                           atol=near * most, err_msg=f"{case.op} in float32")
        return made

    def quantized(self, make: Callable[[Random, type], Case], step: float = STEP) -> None:
        for dtype in (np.uint8, np.int8):
            self.each(lambda r, dtype=dtype: make(r, dtype), step, halves=False)


def main(doc: str) -> None:
    parser = argparse.ArgumentParser(description=doc.splitlines()[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    _, rest = parser.parse_known_args(namespace=args)
    unittest.main(argv=[sys.argv[0], *rest])
