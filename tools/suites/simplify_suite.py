# SPDX-License-Identifier: Apache-2.0
"""Judges `demi simplify` on ONNX's backend test models and on seeded random ones.

Of every model: it is simplified, checked after every pass; the result is valid by ONNX's full check
where the source is, keeps inputs, outputs and metadata, has no more nodes, is no larger unless a note
says so, computes the very bits that the source computes, and stays as it is when it is simplified
again. With --inexact the numbers need only be near. ONNX Runtime computes both, its optimisations
off and without weights that it packs in advance: it does that to constants alone, and what it packs
it sums in another order. Where it differs on 16-bit floats, ONNX's reference evaluator decides.

Exit 1 on any failure.
"""

import argparse
import collections
import pathlib
import shutil
import sys
import time

import numpy as np
import onnx

from suite import engines, random_entries, random_graphs, random_styles, validity, walk, workers
from suite.command import Demi, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN = 60
TOLERANCE = 1e-3
RANDOM = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
          "Multinomial", "Dropout"}


class Engine(engines.OrtEngine):
    entries = {"session.disable_prepacking": "1"}


def has_half(model: onnx.ModelProto) -> bool:
    """16-bit floats, anywhere: the runtime computes them in float, and which of the casts that it puts
    in for that it leaves out again depends on the nodes around."""
    given = onnx.shape_inference.infer_shapes(model).graph
    return any(engines.element_type(v.type) in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
               for v in [*given.input, *given.output, *given.value_info])


def same_bits(a: object, b: object) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(same_bits(x, y) for x, y in zip(a, b))
    if not isinstance(a, np.ndarray):
        return a == b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes()


def near(a: object, b: object) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(near(x, y) for x, y in zip(a, b))
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        return same_bits(a, b)
    return a.shape == b.shape and np.allclose(a, b, TOLERANCE, TOLERANCE, equal_nan=True)


class Judge:
    """Simplifies and judges one model; each worker has one."""

    def __init__(self, command: str, folder: pathlib.Path, data: pathlib.Path,
                 extra: list[str]) -> None:
        own = folder / str(time.monotonic_ns())
        own.mkdir()
        self.demi, self.folder, self.data, self.extra = Demi(command, own), own, data, extra

    def simplify(self, source: pathlib.Path, out: pathlib.Path) -> str:
        run = self.demi.run("simplify", str(source), "-o", str(out), "-q", "--verify-each", *self.extra)
        self.note = "note:" in run.stderr
        return "" if run.code == 0 else run.problem()

    def numbers(self, before: bytes, after: bytes, feeds: list[dict]) -> str:
        """"" where both give the same, "-" where the source does not run."""
        if any(n.op_type in RANDOM for n in walk.model_nodes(onnx.load_model_from_string(before))):
            return "-"
        found = self.compare(Engine, before, after, feeds)
        if found != "other results" or not has_half(onnx.load_model_from_string(before)):
            return found
        return self.compare(engines.ReferenceEngine, before, after, feeds)

    def compare(self, engine: type, before: bytes, after: bytes, feeds: list[dict]) -> str:
        try:
            source = engine(before, onnx.load_model_from_string(before))
            want = [source.run(f) for f in feeds]
        except engines.CannotRun:
            return "-"
        try:
            result = engine(after, onnx.load_model_from_string(after))
            got = [result.run(f) for f in feeds]
        except engines.CannotRun as error:
            return f"does not run any more: {error}"
        same = near if self.extra else same_bits
        return "" if all(same(a, b) for a, b in zip(want, got)) else "other results"

    def structure(self, before: bytes, after: bytes) -> str:
        a, b = (onnx.load_model_from_string(x) for x in (before, after))
        for kind in ("input", "output", "metadata_props"):
            holder = (a, b) if kind == "metadata_props" else (a.graph, b.graph)
            one, two = ([v.SerializeToString() for v in getattr(h, kind)] for h in holder)
            if one != two:
                return f"another {kind}"
        if len(a.functions) != len(b.functions):
            return "other functions"
        if len(list(walk.model_nodes(b))) > len(list(walk.model_nodes(a))):
            return "more nodes"
        if len(after) > len(before) and not self.note:
            return f"larger by {len(after) - len(before)} bytes"
        if not validity.full_check(before) and (fault := validity.full_check(after)):
            return f"not valid: {fault}"
        return ""

    def __call__(self, item: tuple[str, object]) -> tuple[str, str]:
        kind, what = item
        source, out, again = (self.folder / n for n in ("in.onnx", "out.onnx", "again.onnx"))
        if kind == "backend":
            before = what.read_bytes()
        else:
            made = (random_graphs.build(what) if kind == "graph" else
                    random_styles.build(what) if kind == "style" else
                    random_entries.build(what, self.data))
            if made is None:
                return "none", ""
            before = made.model.SerializeToString()
        source.write_bytes(before)
        problem = self.simplify(source, out)
        if problem:
            return ("refused" if validity.full_check(before) else "failed"), problem
        after = out.read_bytes()
        if after == before:
            return "unchanged", ""
        if problem := self.structure(before, after):
            return "failed", problem
        if problem := self.simplify(out, again):
            return "failed", f"a second time: {problem}"
        if again.read_bytes() != after:
            return "failed", "a second time it changes more"
        feeds = engines.load_feeds(onnx.load_model_from_string(before), what.parent) \
            if kind == "backend" else [made.feeds]
        problem = self.numbers(before, after, feeds)
        return ("changed, not run" if problem == "-" else "failed" if problem else "changed",
                "" if problem == "-" else problem)


def items(args: argparse.Namespace) -> list[tuple[str, object]]:
    models = sorted(args.data.glob("*/*/model.onnx"))
    if len(models) != args.expect_models:
        sys.exit(f"simplify_suite: {len(models)} models under {args.data}, "
                 f"expected {args.expect_models} (tools/test fetches them)")
    first, last = (int(x) for x in args.seeds.split(":"))
    chosen = [("backend", m) for m in models[::args.every] if args.only in m.parent.name]
    return chosen + [(kind, seed) for kind in args.kinds.split(",") if kind
                     for seed in range(first, last)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Judges demi simplify.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--expect-models", type=int, default=1905)
    parser.add_argument("--every", type=int, default=1, help="judge each n-th backend model")
    parser.add_argument("--only", default="", help="backend models whose name contains this")
    parser.add_argument("--kinds", default="graph,style,entries", help="of random models")
    parser.add_argument("--seeds", default="1:100", help="FIRST:END of random models")
    parser.add_argument("--inexact", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    folder, counts, faults = work_folder(), collections.Counter(), []
    try:
        setup = (args.demi, folder, args.data, ["--inexact"] if args.inexact else [])
        for item, result, ended in workers.run(items(args), Judge, setup, args.processes):
            what, problem = result if result else ("failed", ended)
            counts[what] += 1
            if what == "failed":
                name = item[1].parent.name if item[0] == "backend" else f"{item[0]} {item[1]}"
                faults.append(f"{name}: {problem}")
    finally:
        shutil.rmtree(folder)
    print("simplify_suite:", ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    for fault in sorted(faults)[:SHOWN]:
        print(f"  {fault}")
    if not counts["changed"]:
        print("  nothing was changed and run")
    return 1 if faults or not counts["changed"] else 0


if __name__ == "__main__":
    sys.exit(main())
