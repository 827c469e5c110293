# SPDX-License-Identifier: Apache-2.0
"""`demi check` beside ONNX's full check and strict inference, on models that are right and wrong.

Backend models and random ones, half of them converted, and mutants of each (suite/mutate.py: types,
dims, attributes, operands, branches, names, opsets, ...) are given to both, in process. Where one
refuses what the other takes, tools/suites/suite/check_reasons.tsv has to say why; what it does not
is a failure, and so is a valid model of the sources that demi refuses.

    tools/suites/check_suite.py --number 200000        # ten times as many, other seeds: --from 1000
"""

import argparse
import collections
import pathlib
import sys
import time

import numpy as np
import onnx

from suite import check_reasons, mutate, random_graphs, random_operators, random_styles, runtime, \
    validity, workers

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = 20  # of a model, the model itself among them
TRIES = 4 * MUTANTS  # not every change suits every model
TWICE = 0.15  # how many of them are changed in two places
SMALL = 100_000  # bytes of a backend model
SHOWN = 30
KINDS = ["backend", "graph", "operator", "style"]
VARIANTS = [(to, io) for to in runtime.TARGETS for io in runtime.IO]


class Judge:
    """Both verdicts on the mutants of one source."""

    def __init__(self, libdemi: str, data: pathlib.Path, onnx_too: bool) -> None:
        self.demi, self.data, self.onnx_too = runtime.LibDemi(libdemi), data, onnx_too
        found = sorted(data.glob("*/*/model.onnx"))
        self.paths = [p for p in found if p.stat().st_size < SMALL]

    def source(self, kind: str, seed: int) -> onnx.ModelProto | None:
        if kind == "backend":
            return onnx.load(self.paths[seed * 7 % len(self.paths)])
        if kind == "operator":
            sample = random_operators.build(seed, self.data)
        else:
            sample = (random_graphs if kind == "graph" else random_styles).build(seed)
        return sample.model if sample else None

    def __call__(self, item: tuple[str, int]) -> list[tuple[str, str, str]]:
        """(what was done, what ONNX says, what demi says) of each."""
        kind, seed = item
        model = self.source(kind, seed)
        if model is None:
            return []
        rng = np.random.default_rng([KINDS.index(kind), seed])
        if rng.random() < 0.5:
            try:
                to, io = VARIANTS[rng.integers(len(VARIANTS))]
                model = onnx.load_from_string(self.demi.convert(model.SerializeToString(), to, io))
            except runtime.Failed:
                pass
        found = [self.both("none", model)]
        for _ in range(TRIES):
            if len(found) == MUTANTS:
                break
            made = mutate.mutant(rng, model)
            if made and rng.random() < TWICE and (more := mutate.mutant(rng, made[1])):
                made = (f"{made[0]}+{more[0]}", more[1])
            if made:
                found.append(self.both(*made))
        return found

    def both(self, what: str, model: onnx.ModelProto) -> tuple[str, str, str]:
        data = model.SerializeToString()
        said = self.demi.fault(data)
        if not self.onnx_too:
            return what, "", said
        other = validity.full_check(data) or validity.strict_inference(model)[0]
        other = check_reasons.cause(other)
        if bool(other) != bool(said):
            noted = check_reasons.notes(model)
            other, said = other and other + noted, said and said + noted
        return what, other, said


class Tally:
    """Counts, and what no reason explains."""

    def __init__(self) -> None:
        self.reasons = check_reasons.load()
        self.counts, self.failures = collections.Counter(), []

    def take(self, item: tuple[str, int], index: int, found: tuple[str, str, str]) -> None:
        what, other, said = found
        self.counts["models"] += 1
        if bool(other) == bool(said):
            self.counts["both refuse" if said else "both take"] += 1
            return
        side, text = ("ONNX", other) if other else ("demi", said)
        self.counts[f"{side} alone refuses"] += 1
        sound = what == "none" and side == "demi"  # a source that ONNX takes: nothing excuses that
        reason = None if sound else check_reasons.find(self.reasons, side, text)
        if reason:
            reason.used += 1
            return
        self.failures.append(f"{item[0]} {item[1]}, mutant {index} ({what}): {side} alone refuses: "
                             f"{text[:300]}")

    def report(self, verbose: bool) -> None:
        for line in self.failures[:SHOWN]:
            print("FAIL", line)
        for reason in self.reasons if verbose else []:
            print(f"{reason.used:6} {reason.side} alone: {reason.text}")
        print(", ".join(f"{what} {n}" for what, n in sorted(self.counts.items())))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="demi check beside ONNX's checks, on mutants.")
    parser.add_argument("--libdemi", default=str(ROOT / "build/release/libdemi.so"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--number", type=int, default=20_000, help="of models, about")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of " + ", ".join(KINDS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="how often each reason was needed")
    return parser.parse_args()


def main() -> None:
    args, start = parse_arguments(), time.monotonic()
    kinds, tally, dead = args.kinds.split(","), Tally(), []
    seeds = range(args.first, args.first + max(1, args.number // (MUTANTS * len(kinds))))
    items = [(kind, seed) for seed in seeds for kind in kinds]
    for item, found, _ in workers.run(items, Judge, (args.libdemi, args.data, True),
                                      args.processes):
        if found is None:
            dead.append(item)  # ONNX's checker, mostly: demi is asked again alone
        for index, one in enumerate(found or []):
            tally.take(item, index, one)
    for item, found, died in workers.run(dead, Judge, (args.libdemi, args.data, False), 1):
        if found is None:
            tally.failures.append(f"{item[0]} {item[1]}: demi: {died}")
        else:
            tally.counts["sources that ONNX's checker died of"] += 1
    tally.report(args.verbose)
    print(f"check_suite: {len(tally.failures)} failures, {time.monotonic() - start:.0f} s")
    sys.exit(1 if tally.failures or not tally.counts["both refuse"] else 0)


if __name__ == "__main__":
    main()
