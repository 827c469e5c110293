# SPDX-License-Identifier: Apache-2.0
"""Judges `demi` on ONNX's backend test models.

Of every model: an empty pipeline writes the same bytes; a conversion to float16 and bfloat16, with
graph inputs and outputs kept and low, is valid by ONNX's full check and strict inference, keeps the
input/output contract, explains every operator of the LOW class that it leaves alone, and computes
what the source computes (suite/metric.py); everything excluded writes the same bytes; doc strings,
metadata and unknown fields stay. Skips are named in suite/exceptions.tsv.

The table goes to --table, the totals are compared with testdata/backend_totals.json (--update
writes it; review the diff). Exit 1 on any failure.
"""

import argparse
import collections
import json
import pathlib
import random
import shutil
import sys
import time

from suite import exceptions, judge, workers
from suite.command import Demi, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "testdata/backend_totals.json"
SHOWN = 60  # failures printed; the table has all


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judges demi on ONNX's backend test models.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "build/backend_suite.tsv")
    parser.add_argument("--sample", type=int, help="judge only this many models")
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    parser.add_argument("--only", help="judge only models whose name contains this")
    parser.add_argument("--expect-models", type=int, default=1905, help="how many there must be")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--update", action="store_true", help="rewrite the golden totals")
    return parser.parse_args()


def make_judge(command: str, folder: pathlib.Path) -> judge.Judge:
    """In each worker: its own scratch folder below the run's."""
    own = folder / str(time.monotonic_ns())
    own.mkdir()
    return judge.Judge(Demi(command, own))


def pick(args: argparse.Namespace) -> list[pathlib.Path]:
    models = sorted(args.data.glob("*/*/model.onnx"))
    if len(models) != args.expect_models:
        sys.exit(f"backend_suite: {len(models)} models under {args.data}, "
                 f"expected {args.expect_models} (tools/test fetches them)")
    if args.only:
        models = [m for m in models if args.only in m.parent.name]
    if args.sample:
        models = random.Random(args.seed).sample(models, min(args.sample, len(models)))
    return models


def judge_all(models: list[pathlib.Path], args: argparse.Namespace) -> list[judge.Result]:
    folder, results = work_folder(), []
    try:
        for path, result, died in workers.run(models, make_judge, (args.demi, folder),
                                              args.processes):
            if result is None:
                row = judge.Row(path.parent.name, "all", problems=[died])
                result = judge.Result([row], False, set())
            results.append(result)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return sorted(results, key=lambda r: r.rows[0].model)


def write_table(path: pathlib.Path, results: list[judge.Result]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as table:
        table.write("model\twhat\tstatus\tengine\terror\tlow\tkept\tcasts\tdetail\n")
        for row in (r for result in results for r in result.rows):
            low = sum(n for k, n in row.totals.items() if k.startswith("low "))
            kept = sum(n for k, n in row.totals.items() if k.startswith("kept "))
            detail = " | ".join(row.problems) or row.skip
            table.write(f"{row.model}\t{row.what}\t{row.status()}\t{row.engine}\t{row.error:.3g}\t"
                        f"{low}\t{kept}\t{row.totals.get('casts added', 0)}\t"
                        f"{' '.join(detail.split())}\n")


def totals_of(results: list[judge.Result]) -> dict[str, dict[str, int]]:
    """The rows' counts added up by variant."""
    totals: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for row in (r for result in results for r in result.rows):
        if row.totals:
            totals[row.what].update(row.totals)
            totals[row.what]["models"] += 1
    return {what: dict(sorted(counts.items())) for what, counts in sorted(totals.items())}


def summary(results: list[judge.Result], totals: dict[str, dict[str, int]]) -> int:
    """Prints what was judged; returns how many rows failed."""
    by_what: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    failures = []
    for row in (r for result in results for r in result.rows):
        by_what[row.what][row.status()] += 1
        by_what[row.what][row.engine] += row.engine != "-"
        if row.problems:
            failures.append(row)
    print(f"{len(results)} models, {sum(r.float32 for r in results)} with float32")
    print(f"{'':20} {'ok':>6} {'skip':>6} {'FAIL':>6} {'ort':>6} {'ref.':>6}")
    for what, count in by_what.items():
        print(f"{what:20} {count['ok']:6} {count['skip']:6} {count['FAIL']:6} "
              f"{count['onnxruntime']:6} {count['reference']:6}")
    for what, counts in totals.items():
        print(f"{what}: " + ", ".join(f"{k} {n}" for k, n in counts.items()))
    for row in failures[:SHOWN]:
        print(f"FAIL {row.model} {row.what}: {row.problems[0]}")
    if len(failures) > SHOWN:
        print(f"… and {len(failures) - SHOWN} more in the table")
    return len(failures)


def stale_entries(results: list[judge.Result]) -> list[str]:
    """Entries of the list that were not needed; random numbers may agree by chance."""
    used = set().union(*(r.used for r in results))
    return [e.key() for e in exceptions.load()
            if e.key() not in used and e.kind != "nondeterministic"]


def check_golden(totals: dict[str, dict[str, int]], update: bool) -> list[str]:
    """Differences from the checked-in totals, after rewriting them when asked to."""
    if update:
        GOLDEN.write_text(json.dumps(totals, indent=1) + "\n")
    if not GOLDEN.exists():
        return [f"no {GOLDEN.relative_to(ROOT)}: write it with --update"]
    golden = json.loads(GOLDEN.read_text())
    return [f"{what}: {key} {totals.get(what, {}).get(key, 0)}, expected {counts.get(key, 0)}"
            for what, counts in {**totals, **golden}.items()
            for key in sorted({*counts, *totals.get(what, {})})
            if totals.get(what, {}).get(key, 0) != counts.get(key, 0)]


def main() -> None:
    args, start = parse_arguments(), time.monotonic()
    results = judge_all(pick(args), args)
    write_table(args.table, results)
    totals = totals_of(results)
    failed = summary(results, totals)
    if not args.sample and not args.only:
        for text in stale_entries(results):
            print(f"FAIL exceptions.tsv: excuses nothing: {text}")
            failed += 1
        for text in check_golden(totals, args.update):
            print(f"FAIL totals: {text}")
            failed += 1
    print(f"{failed} failures, {time.monotonic() - start:.0f} s, table: {args.table}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
