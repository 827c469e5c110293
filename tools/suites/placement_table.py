# SPDX-License-Identifier: Apache-2.0
"""Greedy placement of casts beside the exact one, on ONNX's backend models and the real ones.

Every model is converted in memory to float16 and bfloat16, with graph inputs and outputs kept and
low, by the pipeline of `demi convert` with placement=greedy and with placement=mincut. The table
has what the report's "placement" says of the results: inserted casts, bytes that they
convert in a run, bytes given in float32, and their cost (passes/placement/placement_cost.h), summed
by variant. Listed below it is every model whose cost mincut raises (that fails: exit 1), and every
one with more casts. Models that neither converts (newer than demi, of no float32) count as skipped;
one that only one of both converts fails.
"""

import argparse
import json
import pathlib
import re
import shutil
import sys
import time

from suite import workers
from suite.command import VARIANTS, Demi, Variant, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACEMENTS = ("greedy", "mincut")
MEASURES = ("casts", "bytes_converted", "bytes_fp32", "cost")
Costs = dict[str, int]


def with_placement(pipeline: str, placement: str) -> str:
    """A pipeline whose insert-casts places by that solver."""
    bare = re.sub(r"placement=\w+,?", "", pipeline)
    return bare.replace("insert-casts{", f"insert-casts{{placement={placement},", 1)


class Table:
    """Converts one model in all ways; in each worker one, with a folder of its own."""

    def __init__(self, demi: Demi) -> None:
        self.demi, self.report = demi, demi.folder / "report.json"
        self.pipelines = {v: demi.pipeline(v) for v in VARIANTS}

    def costs(self, path: pathlib.Path, variant: Variant, placement: str) -> Costs | None:
        """None where demi refuses the model."""
        passes = with_placement(self.pipelines[variant], placement)
        run = self.demi.run("opt", str(path), "--passes", passes, "--quiet", "--json",
                            str(self.report))
        return json.loads(self.report.read_bytes())["placement"] if run.code == 0 else None

    def __call__(self, path: pathlib.Path) -> dict[str, list[Costs | None]]:
        return {str(v): [self.costs(path, v, p) for p in PLACEMENTS] for v in VARIANTS}


def make_table(command: str, folder: pathlib.Path) -> Table:
    own = folder / str(time.monotonic_ns())
    own.mkdir()
    return Table(Demi(command, own))


class Summary:
    """Sums by variant, and the rows worth a line."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], list[Costs]] = {}
        self.dearer: list[str] = []
        self.more_casts: list[str] = []
        self.failures: list[str] = []
        self.skipped = 0

    def add(self, kind: str, name: str, variant: str, both: list[Costs | None]) -> None:
        if None in both:
            self.skipped += 1
            if both[0] != both[1]:
                self.failures.append(f"{name} {variant}: one placement alone converts it")
            return
        sums = self.sums.setdefault((kind, variant), [dict.fromkeys(MEASURES, 0) for _ in both])
        for own, costs in zip(sums, both):
            for measure in MEASURES:
                own[measure] += costs[measure]
        greedy, mincut = both
        line = f"  {name} {variant}: " + ", ".join(
            f"{m} {greedy[m]:,} -> {mincut[m]:,}" for m in MEASURES)
        if mincut["cost"] > greedy["cost"]:
            self.dearer.append(line)
        if mincut["casts"] > greedy["casts"]:
            self.more_casts.append(line)

    def lines(self) -> list[str]:
        head = f"{'models':>8} {'variant':>14}" + "".join(
            f" {p + ' ' + m.replace('bytes_', ''):>17}" for m in MEASURES for p in PLACEMENTS)
        out = [head]
        for (kind, variant), both in sorted(self.sums.items()):
            out.append(f"{kind:>8} {variant:>14}" + "".join(
                f" {own[m]:>17,}" for m in MEASURES for own in both))
        return out


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--backend", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--real", type=pathlib.Path, default=ROOT / "build/data/models")
    parser.add_argument("--every", type=int, default=1, help="only every Nth backend model")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path, help="write every model's figures")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    real = sorted(args.real.glob("*/*.onnx"))
    models = real + sorted(args.backend.glob("*/*/model.onnx"))[:: args.every]
    if len(models) == len(real) or not real:
        sys.exit("placement_table: no models (tools/test fetches them)")
    summary, figures, folder = Summary(), {}, work_folder()
    try:
        found = workers.run(models, make_table, (args.demi, folder), args.processes)
        for path, result, died in sorted(found, key=lambda f: str(f[0])):
            kind = "real" if path in real else "backend"
            name = path.stem if kind == "real" else path.parent.name
            figures[name] = result
            if result is None:
                summary.failures.append(f"{name}: {died}")
            for variant, both in (result or {}).items():
                summary.add(kind, name, variant, both)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(summary.lines()))
    print(f"{len(models)} models, {summary.skipped} conversions skipped")
    print("more casts, at no higher cost:", *(summary.more_casts or ["none"]), sep="\n")
    print("higher cost:", *(summary.dearer or ["none"]), *summary.failures, sep="\n")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(1 if summary.dearer or summary.failures else 0)


if __name__ == "__main__":
    main()
