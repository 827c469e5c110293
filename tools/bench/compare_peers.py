# SPDX-License-Identifier: Apache-2.0
"""Other float16 converters on the models that demi is judged on: README.md's table of peers.

Each converter gets the float32 models of ONNX's backend tests and the real models, as float16 with
graph inputs and outputs kept and low, its own options at their defaults; and all of it again by a
policy that keeps no operator in float32 (demi: every operator of its policy in `low`; the others: an
empty op_block_list). The verdicts are those of backend_suite.py and real_models.py: ONNX's full check
and strict inference, the input/output contract, metadata, results within 2 %. What they say of demi's
own report is left out, so all are judged alike. A conversion that does nothing breaks nothing:
`changed` counts the models in which it lowered at least one node, by the types of the result.

Not a test. Needs what tools/test sets up; run it with the Python of tools/setup/setup_peers,
build/peers/bin/python.
"""

import argparse
import collections
import functools
import importlib
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import time
import warnings

import onnx
from onnx import TensorProto

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


# Nodes that hold or convert a value and compute nothing.
CARRIERS = {"Cast", "Constant"}


class Peer:
    """A Python converter with the interface of Demi that the judges use."""

    def __init__(self, module: str, everything: bool) -> None:
        self.module = importlib.import_module(module)
        self.options = {"op_block_list": []} if everything else {}

    def convert(self, path: str, variant: Variant, *_: str) -> tuple[Run, bytes | None]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one for each constant
                made = self.module.convert_float_to_float16(
                    onnx.load(path), keep_io_types=variant.io == "keep", **self.options)
            return Run(0, "", {}), made.SerializeToString()
        except Exception as error:  # whatever it raises is its result
            return Run(1, f"{type(error).__name__}: {error}"), None


class Lowered(Demi):
    """demi by a policy that has every operator in `low`, and no node that an attribute keeps."""

    def __init__(self, path: str, folder: pathlib.Path) -> None:
        super().__init__(path, folder)
        printed = subprocess.run([path, "convert", "--print-policy"], capture_output=True,
                                 check=True).stdout
        policy = json.loads(printed)
        names = [policy.pop(key) for key in ("low", "fp32", "follow", "widest")]
        policy |= {"low": sorted(set().union(*names)), "fp32": [], "follow": [], "widest": [],
                   "conditional": []}
        self.policy = folder / "everything_low.json"
        self.policy.write_text(json.dumps(policy))

    def convert(self, model: str, variant: Variant, *extra: str) -> tuple[Run, bytes | None]:
        return super().convert(model, variant, "--policy", str(self.policy), *extra)


class Remembering:
    """A converter whose last result can be looked at again."""

    def __init__(self, of: Demi | Peer) -> None:
        self.of, self.last = of, None

    def convert(self, path: str, variant: Variant, *extra: str) -> tuple[Run, bytes | None]:
        run, self.last = self.of.convert(path, variant, *extra)
        return run, self.last


def low_nodes(model: onnx.ModelProto) -> int:
    """Nodes that compute on float16 values, as far as inference can tell (in invalid models too)."""
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except Exception:  # what it can't read; the model's own types are left
        pass
    low = set()
    for message in walk.messages(model):
        if isinstance(message, onnx.GraphProto):
            low |= {v.name for v in [*message.input, *message.output, *message.value_info]
                    if engines.element_type(v.type) == TensorProto.FLOAT16}
            low |= {t.name for t in message.initializer if t.data_type == TensorProto.FLOAT16}
    low.discard("")
    return sum(node.op_type not in CARRIERS and not low.isdisjoint([*node.input, *node.output])
               for node in walk.model_nodes(model))


def changed(source: onnx.ModelProto, out: bytes | None) -> bool:
    """Whether a conversion lowered at least one node."""
    try:
        return out is not None and low_nodes(onnx.load_from_string(out)) > low_nodes(source)
    except Exception:  # not a model
        return False


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
        out = self.demi.last
        row.totals["changed"] = changed(source.model, out)
        if row.problems and kind_of(row.problems[0]) == "invalid":
            again = judge.Row(source.name, str(variant))
            try:
                self.numbers(source, out, onnx.load_from_string(out), variant, again)
                row.totals["runs, same results"] = not again.problems
            except Exception:  # what no engine can even load
                pass
        return row

    def report(self, *_: object) -> list[str]:
        return []


def converter(name: str, everything: bool, demi: str, folder: pathlib.Path) -> Remembering:
    if name == "demi":
        return Remembering((Lowered if everything else Demi)(demi, folder))
    return Remembering(Peer(PEERS[name], everything))


def make_judge(name: str, everything: bool, demi: str, folder: pathlib.Path) -> PeerJudge:
    own = folder / str(time.monotonic_ns())
    own.mkdir()
    return PeerJudge(converter(name, everything, demi, own))


def kind_of(problem: str) -> str:
    return next((to for start, to in CLASSES.items() if problem.startswith(start)),
                "contract broken")


def title(name: str, everything: bool) -> str:
    return f"{name}{', all low' if everything else ''}"


def judge_backend(name: str, everything: bool, args: argparse.Namespace,
                  folder: pathlib.Path) -> None:
    models = sorted(args.backend.glob("*/*/model.onnx"))[:: args.every]
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for path, result, died in workers.run(models, make_judge,
                                          (name, everything, args.demi, folder), 2):
        if result is None:
            counts["float16/keep"]["no output"] += 1
            print(f"  {path.parent.name}: {died}")
        for row in result.rows if result else []:
            counts[row.what]["models"] += 1
            counts[row.what]["changed"] += row.totals.get("changed", 0)
            if row.problems:
                counts[row.what]["failed"] += 1
                counts[row.what][kind_of(row.problems[0])] += 1
                counts[row.what]["invalid yet right"] += row.totals.get("runs, same results", 0)
            if row.problems and args.verbose:
                print(f"  {row.model} {row.what}: {row.problems[0]}")
    for what, count in counts.items():
        print(f"{title(name, everything):31} backend {what:14} " +
              ", ".join(f"{n} {kind}" for kind, n in count.most_common()), flush=True)


def judge_real(name: str, everything: bool, args: argparse.Namespace,
               folder: pathlib.Path) -> None:
    test = real_models.Test(converter(name, everything, args.demi, folder))
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
            detail = f"{'' if changed(source, out) else 'unchanged, '}weights {share:.2f}, "
            detail += f"error {error:.1e}, "
        verdict = "fails: " + found[0][:120] if found else "fine"
        print(f"{title(name, everything):31} {path.stem:32} {detail}{seconds:.2f} s, {verdict}",
              flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--backend", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--real", type=pathlib.Path, default=ROOT / "build/data/models")
    parser.add_argument("--every", type=int, default=1, help="judge every Nth backend model")
    parser.add_argument("--only", choices=["demi", *PEERS], help="judge this converter alone")
    parser.add_argument("--verbose", action="store_true", help="print every failure")
    args = parser.parse_args()
    for name, everything in itertools.product([args.only] if args.only else ["demi", *PEERS],
                                              [False, True]):
        folder = work_folder()
        try:
            judge_real(name, everything, args, folder)
            judge_backend(name, everything, args, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
