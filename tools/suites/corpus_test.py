# SPDX-License-Identifier: Apache-2.0
"""The corpus run: ONNX's 1,905 backend models, real models and seeded random ones, each loaded once,
converted once in every way, in process, and handed to every judge (judges/, a file each).

A failure names the judge, the model and what was judged; --only and --judges repeat it alone, --save keeps
the model and its inputs. Everything that was judged goes to --table; what each judge took is printed and
goes to the table's last lines. Where all of ONNX's models are judged, their totals and the list of
exceptions (suite/exceptions.tsv) must be what was found, too. Exit 1 on any failure.

    tools/suites/corpus_test.py --only test_add --judges numbers,undo
    tools/suites/corpus_test.py --kinds graph,style --seeds 1000:2000 --save /tmp/failing
"""

import argparse
import collections
import os
import pathlib
import random
import sys
import time

import onnx

import judges
from suite import exceptions, subject as subjects, workers
from suite.package import ROOT, demi, library_option
from suite.subject import BUILDERS, DATA, Subject

EXPECTED = {"backend": 1905, "real": 10}
SHOWN = 60  # failures printed; the table has all
Item = tuple[str, str, bool]  # kind, which, alone (suite/subject.py)


class Result:
    """What came of one item: the subject's name, or why there is none, and its findings by judge."""

    def __init__(self, name: str, none: str = "") -> None:
        self.name, self.none = name, none
        self.findings: list[tuple[str, judges.Finding]] = []
        self.seconds: dict[str, float] = {}


def judge_one(name: str, subject: Subject) -> list[judges.Finding]:
    found = []
    try:
        found.extend(judges.load(name).judge(subject))
    except Exception as error:  # noqa: BLE001: of any kind, it is this model's failure
        what = "" if isinstance(error, demi.DemiError) else f"{type(error).__name__}: "
        found.append(judges.Finding("refused", f"{what}{error}"))
    return found


def make_worker(names: list[str], save: pathlib.Path | None):  # noqa: ANN201
    """In each worker: the function that makes a subject and has it judged."""
    modules = {name: judges.load(name) for name in names}

    def work(item: Item) -> Result:
        kind, which, alone = item
        subject = subjects.make(kind, which)
        if isinstance(subject, str):
            return Result(f"{kind}-{which}", subject)
        subject.alone = alone
        result = Result(subject.name)
        for name, module in modules.items():
            if kind in getattr(module, "KINDS", {kind}):
                start = time.process_time()
                result.findings += [(name, found) for found in judge_one(name, subject)]
                result.seconds[name] = time.process_time() - start
        if save and any(found.problem for _, found in result.findings):
            save_subject(subject, save)
        return result

    return work


def save_subject(subject: Subject, folder: pathlib.Path) -> None:
    """As ONNX's test data: model.onnx, test_data_set_0/input_N.pb."""
    from onnx import numpy_helper

    from suite.engines import fed_inputs
    data = folder / subject.name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (data.parent / "model.onnx").write_bytes(subject.source.data)
    for i, value in enumerate(fed_inputs(subject.proto) if subject.is_random else []):
        tensor = numpy_helper.from_array(subject.feeds[0][value.name], value.name)
        (data / f"input_{i}.pb").write_bytes(tensor.SerializeToString())


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judges demi on ONNX's, real and random models.",
                                     parents=[library_option])
    parser.add_argument("--judges", default="", help="of these alone; else all but extra ones")
    parser.add_argument("--extra", default="", help="extra judges, beside all others")
    parser.add_argument("--kinds", default=",".join([*EXPECTED, *BUILDERS]))
    parser.add_argument("--every", type=int, default=1, help="every Nth of ONNX's models")
    parser.add_argument("--seeds", default="1:61", help="of random models: FROM:TO, TO not included")
    parser.add_argument("--only", default="", help="only subjects whose name contains this")
    parser.add_argument("--operator", help="only ONNX's models that hold this operator")
    parser.add_argument("--save", type=pathlib.Path, help="folder for the models that fail")
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "build/corpus.tsv")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--update", action="store_true", help="rewrite the totals of testdata/")
    parser.add_argument("--verbose", action="store_true", help="also say why seeds give no model")
    return parser.parse_args()


def holds(path: pathlib.Path, operator: str) -> bool:
    return any(node.op_type == operator for node in onnx.load(path).graph.node)


def pick(args: argparse.Namespace) -> list[Item]:
    """All that is to be judged: large models first, so that no worker is left with one."""
    items: list[Item] = []
    kinds = args.kinds.split(",")
    for kind, pattern in (("real", "models/*/*.onnx"), ("backend", "backend/*/*/model.onnx")):
        found = sorted(DATA.glob(pattern)) if kind in kinds else []
        if kind in kinds and len(found) != EXPECTED[kind]:
            sys.exit(f"corpus_test: {len(found)} {kind} models under {DATA}, expected {EXPECTED[kind]} "
                     "(tools/test fetches them)")
        found = [p for p in found if args.only in (p.stem if kind == "real" else p.parent.name)]
        if kind == "backend" and args.every > 1:
            found = random.Random(1).sample(found, len(found) // args.every)
        if args.operator:
            found = [p for p in found if kind == "backend" and holds(p, args.operator)]
        items += [(kind, str(p.relative_to(DATA)), False) for p in found]
    seeds = range(*map(int, args.seeds.split(":"))) if not args.operator else []
    return items + [(kind, str(seed), False) for kind in BUILDERS if kind in kinds
                    for seed in seeds if args.only in f"{kind}-{seed}"]


def judge_all(items: list[Item], names: list[str], args: argparse.Namespace) -> dict[Item, Result]:
    """Of every item; what ended its process comes once more, alone."""
    results: dict[Item, Result] = {}
    dead = []
    setup = (names, args.save)
    for item, result, _ in workers.run(items, make_worker, setup, args.processes):
        if result is None:
            dead.append((item[0], item[1], True))
        else:
            results[item] = result
    for item, result, died in workers.run(dead, make_worker, setup, args.processes):
        if result is None:
            result = Result(f"{item[0]} {item[1]}")
            result.findings.append(("all", judges.Finding("process", died)))
        results[item] = result
    if dead:
        print(f"{len(dead)} subjects came twice, as a process ended at them")
    return results


def write_table(path: pathlib.Path, results: list[Result], seconds: collections.Counter) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as table:
        table.write("judge\tmodel\twhat\tstatus\tengine\terror\tdetail\n")
        for result in results:
            for name, found in result.findings:
                detail = " ".join((found.problem or found.skip).split())
                table.write(f"{name}\t{result.name}\t{found.what}\t{found.status()}\t{found.engine}\t"
                            f"{found.error:.3g}\t{detail}\n")
        for name, spent in seconds.most_common():
            table.write(f"# seconds\t{name}\t{spent:.1f}\n")


def at_the_end(names: list[str], results: dict[Item, Result], update: bool) -> list[str]:
    """What is wrong with all findings of a judge together, where all of its kinds were judged."""
    if update:
        os.environ["DEMI_UPDATE"] = "1"
    kinds = {kind for kind, _, _ in results}
    used = {f.used for result in results.values() for _, f in result.findings}
    found = exceptions.stale(used, set(names)) if "backend" in kinds else []
    for name in names:
        module = judges.load(name)
        mine = getattr(module, "END_KINDS", {"backend"})
        if hasattr(module, "end") and mine <= kinds:
            found += [f"{name}: {text}" for text in module.end(
                [(result.name, f) for (kind, _, _), result in results.items() if kind in mine
                 for judge, f in result.findings if judge == name])]
    return found


def summarize(results: list[Result], seconds: collections.Counter) -> list[str]:
    """Prints counts by judge; returns the failures."""
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    failures = []
    for result in results:
        for name, found in result.findings:
            counts[name][found.status()] += 1
            if found.problem:
                failures.append(f"{name} {result.name} {found.what}: {found.problem}")
    print(f"{'judge':12} {'ok':>7} {'skip':>6} {'FAIL':>6} {'cpu s':>7}")
    for name, count in sorted(counts.items()):
        print(f"{name:12} {count['ok']:7} {count['skip']:6} {count['FAIL']:6} {seconds[name]:7.1f}")
    return failures


def main() -> None:
    args, start = parse_arguments(), time.monotonic()
    standard = [n for n in judges.names() if not getattr(judges.load(n), "EXTRA", False)]
    names = [n for n in (args.judges or ",".join(standard) + "," + args.extra).split(",") if n]
    items = pick(args)
    found = judge_all(items, names, args)
    results = sorted(found.values(), key=lambda r: r.name)
    seconds: collections.Counter = collections.Counter()
    for result in results:
        seconds.update(result.seconds)
    write_table(args.table, results, seconds)
    failures = summarize(results, seconds)
    opened = collections.Counter(f"{name}: {f.skip}" for r in results for name, f in r.findings
                                 if f.skip.startswith("open: "))
    for what, count in opened.items():
        print(f"{count} findings of a known fault, {what}")
    none = [r for r in results if r.none]
    for result in none if args.verbose else []:
        print(f"{result.name}: {result.none[:250]}")
    if not args.only and not args.operator and args.every == 1:
        failures += at_the_end(names, found, args.update)
    drawn = sum(kind in BUILDERS for kind, _, _ in items)
    if len(none) * 2 > drawn > 0:
        failures.append("fewer than half the seeds give a valid model")
    for text in failures[:SHOWN]:
        print("FAIL", text[:500])
    print(f"{len(results) - len(none)} models, {len(none)} seeds without one, {len(failures)} failures, "
          f"{time.monotonic() - start:.0f} s, table: {args.table}")
    sys.exit(1 if failures or not results else 0)


if __name__ == "__main__":
    main()
