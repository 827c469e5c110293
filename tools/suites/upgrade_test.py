# SPDX-License-Identifier: Apache-2.0
"""Judges upgrade-opset on ONNX's backend test models.

Every model below opset 28 is raised to 28, to the newest opset that ONNX Runtime runs, and by
`for=bfloat16`. The result must be valid by ONNX's full check and strict inference wherever the
source is, keep inputs and outputs, and compute what the source computes: in ONNX Runtime where it
runs both models, else in the reference evaluator. A refusal is a failure unless REFUSED names the
model. A conversion to bfloat16 with --opset auto must be valid. Models made here
(suite/upgrade_cases.py) go through every kind of step between operator versions, with results from
the old version.
"""

import argparse
import collections
import pathlib
import random
import shutil
import sys
import time

import onnx

from suite import engines, metric, upgrade_cases, validity, workers
from suite.command import Demi, Variant, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEWEST = 28
ORT_NEWEST = 26
MADE_TO = (13, 18, ORT_NEWEST, NEWEST)
TOLERANCE = 1e-5
SHOWN = 80

# Models that can't be upgraded, with what the refusal says.
REFUSED: dict[str, str] = {}
RANDOM_OPS = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform",
              "RandomUniformLike", "Multinomial"}


def own_opset(model: onnx.ModelProto) -> int:
    return next((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), 0)


def is_random(model: onnx.ModelProto) -> bool:
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    return any(n.op_type in RANDOM_OPS for n in nodes) or any(
        n.op_type == "Dropout" and "training" in model.graph.name for n in nodes)


def same_interface(got: onnx.ModelProto, want: onnx.ModelProto) -> str:
    for kind in ("input", "output"):
        a, b = getattr(got.graph, kind), getattr(want.graph, kind)
        if [v.SerializeToString() for v in a] != [v.SerializeToString() for v in b]:
            return f"another {kind}"
    return ""


class Engines:
    """Runs source and result in one engine: ONNX Runtime, else the reference evaluator."""

    def __init__(self, data: bytes, model: onnx.ModelProto, folder: pathlib.Path) -> None:
        self.data, self.model = data, model
        self.feeds = engines.load_feeds(model, folder)
        self.results: dict[str, object] = {}

    def source(self, engine: type) -> object:
        """The source's outputs, or why it can't run."""
        if engine.name not in self.results:
            try:
                made = engine(self.data, self.model)
                self.results[engine.name] = [made.run(f) for f in self.feeds]
            except Exception as error:
                self.results[engine.name] = engines.CannotRun(engines.first_line(error))
        return self.results[engine.name]

    def compare(self, data: bytes, model: onnx.ModelProto) -> tuple[str, float, str]:
        """(engine or "", largest error, first problem)."""
        reasons = []
        for engine in (engines.OrtEngine, engines.ReferenceEngine):
            want = self.source(engine)
            if isinstance(want, Exception):
                reasons.append(f"{engine.name}: source: {want}")
                continue
            try:
                made = engine(data, model)
                got = [made.run(f) for f in self.feeds]
            except Exception as error:
                reasons.append(f"{engine.name}: {engines.first_line(error)}")
                continue
            worst, problem = 0.0, ""
            names = [v.name for v in self.model.graph.output]
            for a, b in zip(got, want):
                for x, y, name in zip(a, b, names):
                    error, text = metric.compare(x, y, TOLERANCE, name)
                    worst, problem = max(worst, error), problem or text
            return engine.name, worst, problem
        return "", 0.0, " / ".join(reasons)


class Judge:
    def __init__(self, demi: Demi) -> None:
        self.demi = demi

    def __call__(self, path: pathlib.Path) -> list[tuple[str, str, str, str]]:
        """Rows (what, status, engine, detail)."""
        data = path.read_bytes()
        model = onnx.load_from_string(data)
        opset = own_opset(model)
        if not 0 < opset < NEWEST:
            return []
        verdict, runs = validity.Verdict(data, model), Engines(data, model, path.parent)
        wanted = [f"to={n}" for n in (ORT_NEWEST, NEWEST) if n > opset] + ["for=bfloat16"]
        rows = [(w, *self.one(path, model, w, verdict, runs)) for w in wanted]
        return [*rows, ("convert auto", *self.convert(path, verdict))]

    def convert(self, path: pathlib.Path, verdict: validity.Verdict) -> tuple[str, str, str]:
        """A conversion that raises the opset itself is valid."""
        run, out = self.demi.convert(str(path), Variant("bfloat16", "keep"), "--opset", "auto")
        if run.code != 0 or out is None:
            return "FAIL", "", run.problem()
        problems = validity.problems(out, onnx.load_from_string(out), verdict)
        return "FAIL" if problems else "ok", "", " | ".join(problems)

    def one(self, path: pathlib.Path, model: onnx.ModelProto, wanted: str,
            verdict: validity.Verdict, runs: Engines) -> tuple[str, str, str]:
        run, out = self.demi.opt(str(path), f"upgrade-opset{{{wanted}}}")
        if run.code != 0 or out is None:
            known = REFUSED.get(path.parent.name)
            good = known is not None and known in run.stderr
            return ("refused" if good else "FAIL"), "", run.problem()
        result = onnx.load_from_string(out)
        problems = validity.problems(out, result, verdict)
        changed = same_interface(result, model)
        if changed:
            problems.append(changed)
        if problems:
            return "FAIL", "", " | ".join(problems)
        if out == runs.data:
            return "same", "", ""
        if is_random(model):
            return "ok", "", "random: not compared"
        engine, error, problem = runs.compare(out, result)
        if not engine:
            return "unrun", "", problem
        return ("FAIL" if problem else "ok"), engine, problem or f"{error:.3g}"


def run_best(data: bytes, model: onnx.ModelProto, feeds: dict) -> tuple[str, list[object]]:
    """The outputs, from ONNX Runtime where it can, else from the reference evaluator."""
    reasons = []
    for engine in (engines.OrtEngine, engines.ReferenceEngine):
        try:
            own = {k: v.copy() for k, v in feeds.items()}  # ONNX Runtime may write to them
            return engine.name, engine(data, model).run(own)
        except Exception as error:
            reasons.append(f"{engine.name}: {engines.first_line(error)}")
    raise engines.CannotRun(" / ".join(reasons))


def judge_made(case: upgrade_cases.Made, demi: Demi, to: int) -> tuple[str, str, str]:
    """Row of a made model (status, engine, detail): valid, and computes what it did."""
    path, data = demi.folder / "made.onnx", case.model.SerializeToString()
    path.write_bytes(data)
    run, out = demi.opt(str(path), f"upgrade-opset{{to={to}}}")
    if run.code != 0 or out is None:
        return "FAIL", "", run.problem()
    result = onnx.load_from_string(out)
    problems = validity.problems(out, result, validity.Verdict(data, case.model))
    if problems:
        return "FAIL", "", " | ".join(problems)
    try:
        want = case.want
        if want is None:
            before, want = run_best(data, case.model, case.feeds)
        else:
            before = "numpy"
        engine, got = run_best(out, result, case.feeds)
    except engines.CannotRun as error:
        return "FAIL" if to <= ORT_NEWEST else "unrun", "", str(error)
    found = [metric.compare(a, b, TOLERANCE, v.name)
             for a, b, v in zip(got, want, case.model.graph.output)]
    problem = next((text for _, text in found if text), "")
    return "FAIL" if problem else "ok", f"{before} -> {engine}", problem


def judge_all_made(command: str, only: str | None) -> list[tuple[str, ...]]:
    folder, rows = work_folder(), []
    try:
        for case in upgrade_cases.all_cases():
            if only and only not in case.name:
                continue
            for to in (n for n in MADE_TO if n > own_opset(case.model)):
                rows.append((case.name, f"made to={to}",
                             *judge_made(case, Demi(command, folder), to)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def make_judge(command: str, folder: pathlib.Path) -> Judge:
    own = folder / str(time.monotonic_ns())
    own.mkdir()
    return Judge(Demi(command, own))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judges upgrade-opset on ONNX's backend models.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "build/upgrade_test.tsv")
    parser.add_argument("--made", action="store_true", help="judge only the models made here")
    parser.add_argument("--only", help="judge only models whose name contains this")
    parser.add_argument("--sample", type=int, help="judge only this many models")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    args, start = parse_arguments(), time.monotonic()
    models = sorted(args.data.glob("*/*/model.onnx"))
    if args.only:
        models = [m for m in models if args.only in m.parent.name]
    if args.sample:
        models = random.Random(1).sample(models, min(args.sample, len(models)))
    if args.made:
        models = []
    elif not models and not args.only:
        sys.exit(f"upgrade_test: no models under {args.data}")
    folder, rows = work_folder(), judge_all_made(args.demi, args.only)
    try:
        for path, result, died in workers.run(models, make_judge, (args.demi, folder),
                                              args.processes):
            for row in result if result is not None else [("all", "FAIL", "", died)]:
                rows.append((path.parent.name, *row))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows.sort()
    args.table.parent.mkdir(parents=True, exist_ok=True)
    args.table.write_text("".join("\t".join(r) + "\n" for r in rows))
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row[1]][row[2]] += 1
        counts[row[1]][row[3] or "-"] += 1
    for what, count in sorted(counts.items()):
        print(f"{what}: {dict(count)}")
    failures = [r for r in rows if r[2] == "FAIL"]
    for row in failures[:SHOWN]:
        print("FAIL", row[0], row[1], row[4][:200])
    print(f"{len(models)} models, {len(failures)} failures, {time.monotonic() - start:.0f} s, "
          f"table: {args.table}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
