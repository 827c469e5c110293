# SPDX-License-Identifier: Apache-2.0
"""Judges that conversions can be repeated and undone, on ONNX's backend models and real ones.

Of every model, to float16 and bfloat16, with graph inputs and outputs kept and low:
  repeat  converting it twice writes the same bytes;
  again   converting what was converted, with the same options, writes the bytes that it read;
  undo    strip-casts after a conversion that keeps the parameters gives back the source: its very
          bytes, or, where another program had written the same fields in another order, a file
          that `demi diff --strict` finds equal to it.

Exit 1 on any failure.
"""

import argparse
import collections
import pathlib
import shutil
import sys
import time

from suite import workers
from suite.command import VARIANTS, Demi, Variant, work_folder

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = 60  # failures printed
EXPECTED_MODELS = 1915  # backend and real


class Undo:
    """Judges models with one command: (what, problem or "") for every thing judged."""

    def __init__(self, demi: Demi) -> None:
        self.demi = demi
        self.converted = str(demi.folder / "converted.onnx")

    def __call__(self, path: pathlib.Path) -> list[tuple[str, str]]:
        source = path.read_bytes()
        found = []
        for variant in VARIANTS:
            for what in (self.repeat_and_again, self.undo):
                found += [(f"{variant} {k}", v) for k, v in what(path, source, variant).items()]
        return found

    def repeat_and_again(self, path: pathlib.Path, _: bytes, variant: Variant) -> dict[str, str]:
        run, first = self.demi.convert(str(path), variant)
        if first is None:
            return {"repeat": run.problem()}
        _, second = self.demi.convert(str(path), variant)
        pathlib.Path(self.converted).write_bytes(first)
        run, again = self.demi.convert(self.converted, variant)
        return {"repeat": "" if first == second else "other bytes than before",
                "again": run.problem() if again is None else
                "" if again == first else self.difference(self.converted, again)}

    def undo(self, path: pathlib.Path, source: bytes, variant: Variant) -> dict[str, str]:
        run, low = self.demi.convert(str(path), variant, "--parameters", "runtime")
        if low is None:
            return {"undo": run.problem()}
        pathlib.Path(self.converted).write_bytes(low)
        run, back = self.demi.opt(self.converted, "strip-casts")
        if back is None:
            return {"undo": run.problem()}
        if back == source:
            return {"undo": ""}
        return {"undo": self.difference(str(path), back)} if self.differs(path, back) else \
            {"undo": "", "undo, in another order": ""}

    def differs(self, path: pathlib.Path, data: bytes) -> bool:
        other = self.demi.folder / "other.onnx"
        other.write_bytes(data)
        return self.demi.run("diff", "--strict", "--quiet", str(path), str(other)).code != 0

    def difference(self, path: str, data: bytes) -> str:
        """The first thing that differs, for people."""
        other = self.demi.folder / "other.onnx"
        other.write_bytes(data)
        return self.demi.output("diff", "--strict", path, str(other)) or "the order of fields"


def make_judge(command: str, folder: pathlib.Path) -> Undo:
    """In each worker: its own scratch folder below the run's."""
    own = folder / str(time.monotonic_ns())
    own.mkdir()
    return Undo(Demi(command, own))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Repeats and undoes conversions.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data")
    parser.add_argument("--every", type=int, default=1, help="judge every Nth model only")
    parser.add_argument("--only", help="judge only models whose path contains this")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def pick(args: argparse.Namespace) -> list[pathlib.Path]:
    models = sorted(args.data.glob("backend/*/*/model.onnx")) + \
        sorted(args.data.glob("models/*/*.onnx"))
    if len(models) != EXPECTED_MODELS:
        sys.exit(f"undo_suite: {len(models)} models under {args.data}, expected "
                 f"{EXPECTED_MODELS} (tools/test fetches them)")
    return [m for m in models if not args.only or args.only in str(m)][::args.every]


def main() -> None:
    args, start = parse_arguments(), time.monotonic()
    models, folder = pick(args), work_folder()
    counts, failures = collections.Counter(), []
    try:
        for path, found, died in workers.run(models, make_judge, (args.demi, folder),
                                             args.processes):
            for what, problem in found or [("all", died)]:
                counts[what.split(" ", 1)[-1]] += 1
                if problem:
                    failures.append(f"{path.parent.name}/{path.name} {what}: {problem}")
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
