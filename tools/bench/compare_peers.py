# SPDX-License-Identifier: Apache-2.0
"""Other float16 converters on the models that demi is judged on: README.md's table of peers.

Each converter gets the float32 models of ONNX's backend tests and the real models, as float16 with
graph inputs and outputs kept and low, its own options at their defaults; and all of it again by a
policy that keeps no operator in float32 (demi: every operator of its policy in `low`; the others: an
empty op_block_list). The verdicts are those of the corpus run (suites/judges): ONNX's full check
and strict inference, the input/output contract, metadata, results within 2 %. What they say of demi's
own report is left out, so all are judged alike. A conversion that does nothing breaks nothing:
`changed` counts the models in which it lowered at least one node, by the types of the result.

Not a test. Needs what tools/test sets up; run it with the Python of tools/setup/setup_peers,
build/peers/bin/python.
"""

import argparse
import collections
import dataclasses
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
from judges import numbers, real
from suite import engines, preserve, real_uses, validity, walk, workers
from suite.command import Demi, Run, work_folder
from suite.model import Model
from suite.subject import Subject
from suite.variants import Variant

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


@dataclasses.dataclass
class Row:
    """What came of one conversion of one model."""

    model: str
    what: str
    problem: str = ""
    changed: bool = False
    right: bool = False  # it is invalid, and gives the same results all the same


class PeerJudge:
    """Judges conversions, without what only demi reports."""

    def __init__(self, converter: "Demi | Peer") -> None:
        self.converter = converter

    def __call__(self, path: pathlib.Path) -> list[Row]:
        subject = Subject("backend", path.parent.name, path.read_bytes(), folder=path.parent)
        return [self.conversion(subject, path, v) for v in VARIANTS] if walk.has_float32(
            subject.proto) else []

    def conversion(self, subject: Subject, path: pathlib.Path, variant: Variant) -> Row:
        """An invalid model's results too: engines run some that ONNX's check refuses."""
        row = Row(subject.name, str(variant))
        run, out = self.converter.convert(str(path), variant)
        if out is None:
            row.problem = run.problem()
            return row
        row.changed, made = changed(subject.proto, out), subject.model(out)
        try:
            found = validity.problems(made, subject.source)
            found += validity.contract(made.proto, subject.proto, variant)
            found += preserve.header(subject.proto, made.proto, variant.to)
            ran = numbers.Comparison(subject, made, variant).judge().problem
        except Exception as error:  # what is not even a model
            row.problem = f"protobuf: {engines.first_line(error)}"
            return row
        row.problem = (found + [ran])[0]
        row.right = kind_of(row.problem) == "invalid" and not ran
        return row


def converter(name: str, everything: bool, demi: str, folder: pathlib.Path) -> Demi | Peer:
    if name == "demi":
        return (Lowered if everything else Demi)(demi, folder)
    return Peer(PEERS[name], everything)


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
        for row in result or []:
            counts[row.what]["models"] += 1
            counts[row.what]["changed"] += row.changed
            if row.problem:
                counts[row.what]["failed"] += 1
                counts[row.what][kind_of(row.problem)] += 1
                counts[row.what]["invalid yet right"] += row.right
            if row.problem and args.verbose:
                print(f"  {row.model} {row.what}: {row.problem}")
    for what, count in counts.items():
        print(f"{title(name, everything):31} backend {what:14} " +
              ", ".join(f"{n} {kind}" for kind, n in count.most_common()), flush=True)


def judge_real(name: str, everything: bool, args: argparse.Namespace,
               folder: pathlib.Path) -> None:
    convert = converter(name, everything, args.demi, folder).convert
    for path in sorted(args.real.glob("*/*.onnx")):
        data, variant = path.read_bytes(), VARIANTS[0]
        feeds = real_uses.feeds_of(path.stem, onnx.load_from_string(data))
        subject = Subject("real", path.stem, data, feeds=feeds)
        start = time.monotonic()
        run, out = convert(str(path), variant)
        seconds = time.monotonic() - start
        detail, found = "", [run.problem()]
        if out is not None:
            made = Model(out)
            found = validity.problems(made, subject.source)
            found += validity.contract(made.proto, subject.proto, variant)
            found += preserve.header(subject.proto, made.proto)
            try:
                ran = real.numbers(subject, made, "", made.runner(engines.OrtEngine).run)
            except engines.CannotRun as error:
                ran = real.Finding("", str(error))
            found += [ran.problem] if ran.problem else []
            share = real.tensor_bytes(made.proto) / real.tensor_bytes(subject.proto)
            detail = f"{'' if changed(subject.proto, out) else 'unchanged, '}weights {share:.2f}, "
            detail += f"error {ran.error:.1e}, "
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
