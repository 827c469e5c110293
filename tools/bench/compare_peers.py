# SPDX-License-Identifier: Apache-2.0
"""Other float16 converters on the models that demi is judged on: README.md's table of peers.

Each converter gets the float32 models of ONNX's backend tests and the real models, as float16 with
graph inputs and outputs kept and low, its own options at their defaults. The verdicts are those of
backend_suite.py and real_models.py: ONNX's full check and strict inference, the input/output
contract, metadata, results within 2 %. What they say of demi's own report is left out, so all are
judged alike. Not a test. Needs what tools/test sets up; run it with the Python of
tools/setup/setup_peers, build/peers/bin/python.
"""

import argparse
import collections
import functools
import importlib
import pathlib
import shutil
import sys
import time

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "suites"))
import real_models
from suite import engines, judge, preserve, validity, walk, workers
from suite.command import Demi, Run, Variant, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
VARIANTS = [Variant("float16", "keep"), Variant("float16", "low")]
PEERS = {"onnxconverter-common": "onnxconverter_common.float16",
         "onnxruntime": "onnxruntime.transformers.float16"}
# How a problem begins that is no matter of validity; the rest of the classes follow the judge.
CLASSES = {"exit": "no output", "full check": "invalid", "strict inference": "invalid",
           "protobuf": "invalid", "no engine": "does not run", "onnxruntime": "other results",
           "reference": "other results"}


class Peer:
    """A Python converter with the interface of Demi that the judges use."""

    def __init__(self, module: str) -> None:
        self.module = importlib.import_module(module)

    def convert(self, path: str, variant: Variant, *_: str) -> tuple[Run, bytes | None]:
        try:
            made = self.module.convert_float_to_float16(onnx.load(path),
                                                        keep_io_types=variant.io == "keep")
            return Run(0, "", {}), made.SerializeToString()
        except Exception as error:  # whatever it raises is its result
            return Run(1, f"{type(error).__name__}: {error}"), None


class PeerJudge(judge.Judge):
    """The judge of conversions alone, without what only demi reports."""

    def __call__(self, path: pathlib.Path) -> judge.Result:
        self.used: set[str] = set()
        source = judge.Source(path)
        if not walk.has_float32(source.model):
            return judge.Result([], False, set())
        return judge.Result([self.conversion(source, v) for v in VARIANTS], True, self.used)

    def conversion(self, source: judge.Source, variant: Variant) -> judge.Row:
        """An invalid model's results too: engines run some that ONNX's check refuses."""
        row = super().conversion(source, variant)
        if row.problems and kind_of(row.problems[0]) == "invalid":
            again = judge.Row(source.name, str(variant))
            _, out = self.demi.convert(str(source.path), variant)
            try:
                self.numbers(source, out, onnx.load_from_string(out), variant, again)
                row.totals["runs, same results"] = not again.problems
            except Exception:  # what no engine can even load
                pass
        return row

    def report(self, *_: object) -> list[str]:
        return []


def converter(name: str, demi: str, folder: pathlib.Path) -> Demi | Peer:
    return Demi(demi, folder) if name == "demi" else Peer(PEERS[name])


def make_judge(name: str, demi: str, folder: pathlib.Path) -> PeerJudge:
    own = folder / str(time.monotonic_ns())
    own.mkdir()
    return PeerJudge(converter(name, demi, own))


def kind_of(problem: str) -> str:
    return next((to for start, to in CLASSES.items() if problem.startswith(start)),
                "contract broken")


def judge_backend(name: str, args: argparse.Namespace, folder: pathlib.Path) -> None:
    models = sorted(args.backend.glob("*/*/model.onnx"))[:: args.every]
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for path, result, died in workers.run(models, make_judge, (name, args.demi, folder), 2):
        if result is None:
            counts["float16/keep"]["no output"] += 1
            print(f"  {path.parent.name}: {died}")
        for row in result.rows if result else []:
            counts[row.what]["models"] += 1
            if row.problems:
                counts[row.what]["failed"] += 1
                counts[row.what][kind_of(row.problems[0])] += 1
                counts[row.what]["invalid yet right"] += row.totals.get("runs, same results", 0)
            if row.problems and args.verbose:
                print(f"  {row.model} {row.what}: {row.problems[0]}")
    for what, count in counts.items():
        print(f"{name:22} backend {what:14} " +
              ", ".join(f"{n} {kind}" for kind, n in count.most_common()), flush=True)


def judge_real(name: str, args: argparse.Namespace, folder: pathlib.Path) -> None:
    test = real_models.Test(converter(name, args.demi, folder))
    for path in sorted(args.real.glob("*/*.onnx")):
        data, variant = path.read_bytes(), VARIANTS[0]
        source = onnx.load_from_string(data)
        results = engines.SourceResults(data, source, real_models.feeds_of(path.stem, source))
        start = time.monotonic()
        run, out = test.demi.convert(str(path), variant)
        seconds = time.monotonic() - start
        detail, found = "", [run.problem()]
        if out is not None:
            model = onnx.load_from_string(out)
            found = validity.problems(out, model, validity.Verdict(data, source))
            found += validity.contract(model, source, variant)
            found += preserve.header(source, model)
            error, text = test.numbers(path.stem, functools.partial(
                engines.OrtEngine, out, model), model, results)
            found += [text] if text else []
            share = real_models.tensor_bytes(model) / real_models.tensor_bytes(source)
            detail = f"weights {share:.2f}, error {error:.1e}, "
        verdict = "fails: " + found[0][:120] if found else "fine"
        print(f"{name:22} {path.stem:32} {detail}{seconds:.2f} s, {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--backend", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--real", type=pathlib.Path, default=ROOT / "build/data/models")
    parser.add_argument("--every", type=int, default=1, help="judge every Nth backend model")
    parser.add_argument("--only", choices=["demi", *PEERS], help="judge this converter alone")
    parser.add_argument("--verbose", action="store_true", help="print every failure")
    args = parser.parse_args()
    for name in [args.only] if args.only else ["demi", *PEERS]:
        folder = work_folder()
        try:
            judge_real(name, args, folder)
            judge_backend(name, args, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
