# SPDX-License-Identifier: Apache-2.0
"""Judges that conversions can be repeated and undone, on ONNX's backend models, real ones and
random ones (those of random_models.py).

Of every model, to float16 and bfloat16, with graph inputs and outputs kept and low, and by the
other placement of casts:
  repeat  converting it twice writes the same bytes;
  again   converting what was converted, with the same options, writes the bytes that it read;
  undo    strip-casts after a conversion that keeps the parameters and the opset gives back the
          source's bytes;
  back    strip-casts after a conversion that stores parameters in 16 bit, once or beside the float
          ones, gives a model that ONNX's full check and strict inference take, and, where the opset
          is kept, the source's but for the numbers of its constants.

Exit 1 on any failure.
"""

import argparse
import collections
import pathlib
import shutil
import sys
import time
from collections.abc import Callable

import onnx

from suite import blank, random_graphs, random_operators, random_styles, validity, workers
from suite.command import VARIANTS, Demi, Variant, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN = 60  # failures printed
EXPECTED_MODELS = 1915  # backend and real
RANDOM = {"graph": lambda seed, _: random_graphs.build(seed),
          "operator": random_operators.build,
          "style": lambda seed, _: random_styles.build(seed)}
# As `demi convert --parameters runtime` does it, but for the placement.
GREEDY = ("infer-dtypes,infer-shapes,insert-casts{to=float16,placement=greedy},move-casts,"
          "fuse-casts{own=true}")


class Undo:
    """Judges models with one command: (what, problem or "") for every thing judged."""

    def __init__(self, demi: Demi, data: pathlib.Path) -> None:
        self.demi, self.data = demi, data
        self.converted = demi.folder / "converted.onnx"

    def __call__(self, item: pathlib.Path | tuple[str, int]) -> list[tuple[str, str]]:
        path = item if isinstance(item, pathlib.Path) else self.make(*item)
        if path is None:
            return [("no model", "")]
        source, found = path.read_bytes(), []
        for variant in VARIANTS:
            found += self.repeat_and_again(path, variant)
            found.append((f"{variant} undo", self.undo(path, source, variant)))
            for parameters in ("offline", "both"):
                found.append((f"{variant} {parameters} back",
                              self.back(path, source, variant, parameters)))
        run, low = self.demi.opt(str(path), GREEDY)
        found.append(("greedy again", run.problem() if low is None else
                      self.again(low, lambda: self.demi.opt(str(self.converted), GREEDY))))
        found.append(("greedy undo", run.problem() if low is None else
                      self.strip(path, source, low)))
        return found

    def make(self, kind: str, seed: int) -> pathlib.Path | None:
        sample = RANDOM[kind](seed, self.data / "backend")
        if sample is None:
            return None
        data = sample.model.SerializeToString()
        if validity.full_check(data) or validity.strict_inference(sample.model)[0]:
            return None
        path = self.demi.folder / "random.onnx"
        path.write_bytes(data)
        return path

    def repeat_and_again(self, path: pathlib.Path, variant: Variant) -> list[tuple[str, str]]:
        run, first = self.demi.convert(str(path), variant)
        if first is None:
            return [(f"{variant} repeat", run.problem())]
        _, second = self.demi.convert(str(path), variant)
        again = self.again(first, lambda: self.demi.convert(str(self.converted), variant))
        return [(f"{variant} repeat", "" if first == second else "other bytes than before"),
                (f"{variant} again", again)]

    def again(self, first: bytes, convert: Callable) -> str:
        """What is wrong with converting `first`, which was converted, or ""."""
        self.converted.write_bytes(first)
        run, again = convert()
        if again is None:
            return run.problem()
        return "" if again == first else self.difference(self.converted, again)

    def undo(self, path: pathlib.Path, source: bytes, variant: Variant) -> str:
        run, low = self.demi.convert(str(path), variant, "--parameters", "runtime", "--opset",
                                     "keep")
        return run.problem() if low is None else self.strip(path, source, low)

    def back(self, path: pathlib.Path, source: bytes, variant: Variant, parameters: str) -> str:
        """Opsets are kept for float16 alone: raised ones stay."""
        run, low = self.demi.convert(str(path), variant, "--parameters", parameters)
        if low is None:
            return run.problem()
        self.converted.write_bytes(low)
        run, out = self.demi.opt(str(self.converted), "strip-casts")
        if out is None:
            return run.problem()
        was, now = onnx.load_from_string(source), onnx.load_from_string(out)
        fault = validity.full_check(out) or validity.strict_inference(now)[0]
        if fault and not (validity.full_check(source) or validity.strict_inference(was)[0]):
            return fault
        if variant.to != "float16" or blank.casts_constants(was):
            return ""
        return blank.difference(was, now)

    def strip(self, path: pathlib.Path, source: bytes, low: bytes) -> str:
        self.converted.write_bytes(low)
        run, back = self.demi.opt(str(self.converted), "strip-casts")
        if back is None:
            return run.problem()
        return "" if back == source else self.difference(path, back)

    def difference(self, path: pathlib.Path, data: bytes) -> str:
        """The first thing that differs, for people."""
        other = self.demi.folder / "other.onnx"
        other.write_bytes(data)
        return self.demi.output("diff", "--strict", str(path), str(other))


def make_judge(command: str, folder: pathlib.Path, data: pathlib.Path) -> Undo:
    """In each worker: its own scratch folder below the run's."""
    own = folder / str(time.monotonic_ns())
    own.mkdir()
    return Undo(Demi(command, own), data)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Repeats and undoes conversions.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data")
    parser.add_argument("--every", type=int, default=1, help="judge every Nth model only")
    parser.add_argument("--only", help="judge only models whose path contains this")
    parser.add_argument("--seeds", default="1:60",
                        help="of random models: FROM:TO, TO not included")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def pick(args: argparse.Namespace) -> list:
    models = sorted(args.data.glob("backend/*/*/model.onnx")) + \
        sorted(args.data.glob("models/*/*.onnx"))
    if len(models) != EXPECTED_MODELS:
        sys.exit(f"undo_suite: {len(models)} models under {args.data}, expected "
                 f"{EXPECTED_MODELS} (tools/test fetches them)")
    models = [m for m in models if not args.only or args.only in str(m)][::args.every]
    first, last = map(int, args.seeds.split(":"))
    return models + [(kind, seed) for kind in RANDOM for seed in range(first, last)]


def label(item: pathlib.Path | tuple[str, int]) -> str:
    if isinstance(item, pathlib.Path):
        return f"{item.parent.name}/{item.name}"
    return f"{item[0]}-{item[1]}"


def main() -> None:
    args, start = parse_arguments(), time.monotonic()
    models, folder = pick(args), work_folder()
    counts, failures = collections.Counter(), []
    try:
        for item, found, died in workers.run(models, make_judge, (args.demi, folder, args.data),
                                             args.processes):
            for what, problem in found or [("all", died)]:
                counts[what.split(" ")[-1]] += 1
                if problem:
                    failures.append(f"{label(item)} {what}: {problem}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in sorted(failures)[:SHOWN]:
        print(f"FAIL {line}")
    print(", ".join(f"{what} {n}" for what, n in sorted(counts.items())))
    print(f"undo_suite: {len(models)} models, {len(failures)} failures, "
          f"{time.monotonic() - start:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
