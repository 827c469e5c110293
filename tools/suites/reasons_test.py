# SPDX-License-Identifier: Apache-2.0
"""Every node that stays in fp32 has one reason, and it is true (suite/reasons.py).

All backend models are converted to both 16-bit types, with graph inputs and outputs kept and low,
by both placements; nothing is written but the report. Crafted models below show each sort of
reason.
"""

import argparse
import collections
import pathlib
import random
import shutil
import sys
import time

import onnx

from suite import reasons, reasons_cases, workers
from suite.command import VARIANTS, Demi, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACEMENTS = ("greedy", "mincut")
SHOWN = 40


class Judge:
    def __init__(self, demi: Demi) -> None:
        self.demi = demi
        self.pipelines = [(v, p, demi.placed(v, p)) for p in PLACEMENTS for v in VARIANTS]

    def __call__(self, path: pathlib.Path) -> tuple[list[str], dict[str, int]]:
        graphs = reasons.Graphs(onnx.load(str(path), load_external_data=False))
        found, kinds = [], collections.Counter()
        for variant, placement, passes in self.pipelines:
            run = self.demi.explain(str(path), passes)
            what = f"{variant}/{placement}"
            if run.report is None:
                found.append(f"{what}: {run.problem()}")
                continue
            truth = reasons.Truth(run.report, graphs, variant.to, placement == "mincut")
            found += [f"{what}: {p}" for p in truth.problems()]
            kinds.update(n["kind"] for n in run.report["nodes"])
        return found, dict(kinds)


def make_judge(command: str, folder: pathlib.Path) -> Judge:
    own = folder / str(time.monotonic_ns())
    own.mkdir()
    return Judge(Demi(command, own))


def judge_cases(demi: Demi) -> list[str]:
    """Each crafted model's reasons are those that are expected, word for word, and true."""
    found = []
    for case in reasons_cases.CASES:
        path = demi.folder / "case.onnx"
        source = demi.folder / "case.onnxtxt"
        source.write_text(case.text)
        made = demi.run("opt", str(source), "--passes", "", "-o", str(path))
        if made.code:
            found.append(f"{case.title}: {made.problem()}")
            continue
        model = onnx.load(str(path))
        placement = "mincut" if case.mincut else "greedy"
        run = demi.explain(str(path), demi.placed(case.variant, placement, *case.options))
        if run.report is None:
            found.append(f"{case.title}: {run.problem()}")
            continue
        got = {n["name"]: (n["kind"], n["reason"]) for n in run.report["nodes"]}
        for name, want in case.want.items():
            if got.get(name) != want:
                found.append(f"{case.title}: node {name}: {got.get(name)}, expected {want}")
        truth = reasons.Truth(run.report, reasons.Graphs(model), case.variant.to, case.mincut)
        found += [f"{case.title}: {p}" for p in truth.problems()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Judges the reasons that demi gives.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--sample", type=int, help="judge only this many models")
    parser.add_argument("--only", help="judge only models whose name contains this")
    parser.add_argument("--processes", type=int, default=2)
    args, start = parser.parse_args(), time.monotonic()
    models = sorted(args.data.glob("*/*/model.onnx"))
    if not models:
        sys.exit(f"reasons_test: no models under {args.data}")
    if args.only:
        models = [m for m in models if args.only in m.parent.name]
    if args.sample:
        models = random.Random(1).sample(models, min(args.sample, len(models)))
    folder, failures, kinds = work_folder(), [], collections.Counter()
    try:
        if not args.only:
            failures += judge_cases(make_judge(args.demi, folder).demi)
        for path, result, died in workers.run(models, make_judge, (args.demi, folder),
                                              args.processes):
            found, counts = result if result is not None else ([died], {})
            failures += [f"{path.parent.name} {text}" for text in found]
            kinds.update(counts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for text in failures[:SHOWN]:
        print("FAIL", text[:400])
    print(f"reasons: {len(models)} models, {len(reasons_cases.CASES)} cases, "
          f"{sum(kinds.values())} nodes {dict(kinds.most_common())}, {len(failures)} failures, "
          f"{time.monotonic() - start:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
