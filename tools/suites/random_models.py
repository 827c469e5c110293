# SPDX-License-Identifier: Apache-2.0
"""Judges `demi` on seeded random models: what hand-written cases did not think of.

Kinds (suite/random_*.py): `graph`, whole models of random operators, constants, control flow,
functions and names; `operator`, a backend test model in random surroundings; `style`, small models as
exporters write them; `entries`, either of the first two with every sort of value_info entry that a file
may have. Each valid one is converted in both types and both I/O modes and
judged as the backend models are (suite/judge.py); a seed that gives no valid model is
counted and left out. Failing models stay in --save with their inputs; the same seed makes the same
model again:

    tools/suites/random_models.py --kinds graph --seeds 100:400 --save /tmp/failing

Numbers are compared where rounding cannot make them jump, and a difference that
the source shows too once its own inputs are rounded is none. Exit 1 on any failure.
"""

import argparse
import collections
import os
import pathlib
import shutil
import sys
import time

import onnx
from onnx import numpy_helper

from suite import judge, metric, opsets, random_entries, random_graphs, random_operators, random_scope, random_styles, \
    validity, widen, workers
from suite.command import VARIANTS, Demi, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILDERS = {"graph": lambda seed, _: random_graphs.build(seed),
            "operator": random_operators.build,
            "style": lambda seed, _: random_styles.build(seed),
            "entries": random_entries.build}
SLACK = 2.5  # random graphs amplify rounding: allowed multiple of the suite's tolerances


class RandomJudge(judge.Judge):
    """Judges a generated model; outputs that jump are compared by type and shape alone."""

    jumpy: set[str] = set()

    def compare(self, source, got, want, variant):  # noqa: ANN001, ANN201 (as the base class)
        names, worst, problem = [o.name for o in source.model.graph.output], 0.0, ""
        for a, b in zip(got, want):
            for name, x, y in zip(names, a, b):
                if name in self.jumpy:
                    continue
                error, text = metric.compare(x, y, SLACK * metric.TOLERANCE[variant.to], name)
                worst, problem = max(worst, error), problem or text
        return worst, problem

    def softer(self, source) -> bool:  # noqa: ANN001
        return any(n.op_type in random_scope.JUMPS for n in judge.walk.model_nodes(source.model))

    def explain(self, source, engine, got, text, entry, model, variant, row):  # noqa: ANN001
        if not self.softer(source) and not self.from_rounding(source, engine, got, model, variant):
            row.problems.append(f"{engine.name}: {text}")

    def from_rounding(self, source, engine, got, model, variant):  # noqa: ANN001, ANN201
        """As the base class, but every float input is rounded, kept ones too: the neighbours of an
        operator round them."""
        runner, to = engine(source.data, source.model), variant.to
        try:
            want = [[metric.rounded(value, to) for value in runner.run(
                {k: metric.rounded(v, to) for k, v in feeds.items()})]
                for feeds in source.results.feeds]
        except judge.engines.CannotRun:
            return False
        return not self.compare(source, got, want, variant)[1]

    def numbers(self, source, out, model, variant, row):  # noqa: ANN001
        super().numbers(source, out, model, variant, row)
        none = [p for p in row.problems if p.startswith("no engine runs it")]
        if not none:
            return
        row.problems.clear()
        self.numbers_widened(source, model, variant, row)

    def numbers_widened(self, source, model, variant, row):  # noqa: ANN001
        """Neither engine has all kernels of 16-bit types: float32 takes their place, which shows
        at least that everything is wired and typed as it should be."""
        wide = widen.widened(model, validity.LOW_TYPE[variant.to])
        for engine in judge.engines.ENGINES if source.results else []:
            try:
                want = source.results.of(engine)
                runner = engine(wide.SerializeToString(), wide)
                got = [runner.run(widen.fed(feeds, variant.to)) for feeds in source.results.feeds]
            except judge.engines.CannotRun as error:
                row.skip += f" {engine.name}: {error}"
                continue
            row.engine, row.skip = f"{engine.name}, widened", ""
            row.error, text = self.compare(source, got, want, variant)
            row.problems += [f"widened: {text}"] if text else []
            return
        if self.source_runs(source) and self.raised_runs(source, model):
            row.problems.append(f"widened: {row.skip}")

    def raised_runs(self, source: judge.Source, model: onnx.ModelProto) -> bool:
        """False where no engine runs even the unconverted source at the opset it was raised to."""
        opset = opsets.raised(source.model, model)
        if not opset:
            return True
        run, out = self.demi.opt(str(source.path), f"upgrade-opset{{to={opset}}}")
        if run.code or out is None:
            return True
        raised = onnx.load_from_string(out)
        for engine in judge.engines.ENGINES:
            try:
                engine(out, raised).run(source.results.feeds[0])
                return True
            except judge.engines.CannotRun:
                continue
        return False

    def source_runs(self, source: judge.Source) -> bool:
        for engine in judge.engines.ENGINES if source.results else []:
            try:
                source.results.of(engine)
                return True
            except judge.engines.CannotRun:
                continue
        return False


def write_sample(sample: random_graphs.Sample, folder: pathlib.Path) -> pathlib.Path:
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(sample.model.SerializeToString())
    given = [v.name for v in judge.engines.fed_inputs(sample.model)]
    for i, name in enumerate(given):
        tensor = numpy_helper.from_array(sample.feeds[name], name)
        (data / f"input_{i}.pb").write_bytes(tensor.SerializeToString())
    return path


def make_judge(command: str, folder: pathlib.Path, save: str | None,
               data: pathlib.Path):
    """In each worker: the function that builds and judges one (kind, seed)."""
    own = folder / f"{os.getpid()}-{time.monotonic_ns()}"
    own.mkdir()
    the = RandomJudge(Demi(command, own))

    def work(item: tuple[str, int]) -> tuple[str, list[judge.Row]]:
        kind, seed = item
        sample = BUILDERS[kind](seed, data)
        if sample is None:
            return "no model", []
        fault = validity.full_check(sample.model.SerializeToString())
        fault = fault or validity.strict_inference(sample.model)[0]
        if fault:
            return f"invalid source: {fault}", []
        place = own / f"{kind}-{seed}"
        path, the.jumpy = write_sample(sample, place), sample.jumpy
        rows = the(path).rows
        if save and any(r.problems for r in rows):
            shutil.copytree(place, pathlib.Path(save) / place.name, dirs_exist_ok=True)
        shutil.rmtree(place)
        return "judged", rows

    return work


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judges demi on seeded random models.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--kinds", default=",".join(BUILDERS), help="of " + ", ".join(BUILDERS))
    parser.add_argument("--seeds", default="1:60", help="FROM:TO, TO not included")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--save", help="folder for the models that fail")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="also say why seeds were left out")
    return parser.parse_args()


def main() -> None:
    args, start = parse_arguments(), time.monotonic()
    first, last = map(int, args.seeds.split(":"))
    items = [(kind, seed) for kind in args.kinds.split(",") for seed in range(first, last)]
    folder, counts, failures = work_folder(), collections.Counter(), []
    engines_used = collections.Counter()
    try:
        for (kind, seed), result, died in workers.run(items, make_judge,
                                                      (args.demi, folder, args.save, args.data),
                                                      args.processes):
            what, rows = result or (died, [])
            counts[what.split(":")[0]] += 1
            if result is None:
                failures.append(f"{kind}-{seed}: {died}")
                print("FAIL", failures[-1], flush=True)
            elif args.verbose and what != "judged":
                print(f"{kind}-{seed}: {what[:250]}")
            for row in rows:
                engines_used[row.engine if not row.skip else "skipped"] += 1
                if row.problems:
                    failures.append(f"{kind}-{seed} {row.what}: {row.problems[0]}")
                    print("FAIL", failures[-1], flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    print("conversions and round trips by engine:", dict(engines_used))
    judged = counts["judged"]
    print(f"{judged} models, {len(failures)} failures, {time.monotonic() - start:.0f} s")
    if judged * 2 < len(items):
        failures.append("fewer than half the seeds give a valid model")
        print("FAIL", failures[-1])
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
