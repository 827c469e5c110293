# SPDX-License-Identifier: Apache-2.0
"""Round trips of generated models that fill every message and field of the IR (suite/fill.py).

With --out writes one model. Otherwise the test: for every seed and every way of writing it
(suite/wire.py), an empty pipeline gives the same bytes; strip-casts takes out the two marked casts
and nothing else; a conversion keeps every doc string, metadata entry, denotation and unknown field.
First it shows that the models together fill every field of the published descriptors.
"""

import argparse
import pathlib
import shutil
import sys

import onnx
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from suite import fill, preserve, walk, wire
from suite.command import Demi, Variant, work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]


def published_fields() -> set[str]:
    """Every field of every message that a ModelProto can hold."""
    found: set[str] = set()

    def visit(descriptor: Descriptor) -> None:
        for field in descriptor.fields:
            if field.full_name not in found:
                found.add(field.full_name)
                if field.message_type is not None:
                    visit(field.message_type)

    visit(onnx.ModelProto.DESCRIPTOR)
    return found


def filled_fields(model: Message) -> set[str]:
    return {f.full_name for m in walk.messages(model) for f, _ in m.ListFields()}


def without_casts(model: onnx.ModelProto) -> onnx.ModelProto:
    """What strip-casts must leave: the marked casts gone, their readers on the source."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph, source = result.graph, {}
    for node in list(graph.node):
        if node.op_type == "Cast":
            source[node.output[0]] = source.get(node.input[0], node.input[0])
            graph.node.remove(node)
    for message in walk.messages(result):
        if isinstance(message, onnx.NodeProto):
            for i, name in enumerate(message.input):
                message.input[i] = source.get(name, name)
        if isinstance(message, onnx.ShardingSpecProto) and message.tensor_name in source:
            message.tensor_name = source[message.tensor_name]
    for value in [v for v in graph.value_info if v.name in source]:
        graph.value_info.remove(value)
    return result


def first_difference(a: tuple, b: tuple, path: str = "") -> str:
    """Where two `wire.plain` tuples differ."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return f"{path}: {a!r:.80} became {b!r:.80}"
    if len(a) != len(b):
        return f"{path}: {len(a)} parts became {len(b)}"
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            step = x[0] if isinstance(x, tuple) and x and isinstance(x[0], str) else str(i)
            return first_difference(x, y, f"{path}/{step}")
    return ""


def is_external(data: bytes) -> bool:
    return any(isinstance(m, onnx.TensorProto) and m.data_location == onnx.TensorProto.EXTERNAL
               for m in walk.messages(onnx.load_from_string(data)))


class Test:
    """Counts what fails, naming the seed and the style."""

    def __init__(self, demi: Demi, folder: pathlib.Path) -> None:
        self.demi, self.folder, self.failures, self.cases = demi, folder, 0, 0

    def judge(self, what: str, problem: str) -> None:
        self.cases += 1
        if problem:
            self.failures += 1
            print(f"FAIL {what}: {problem}")

    def inlined(self, data: bytes) -> tuple:
        """A model with its external data read in: a copy may keep it in a file of its own."""
        model = onnx.load_from_string(data)
        for tensor in [m for m in walk.messages(model) if isinstance(m, onnx.TensorProto)]:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                entry = {e.key: e.value for e in tensor.external_data}
                start = int(entry.get("offset", 0))
                file = (self.folder / entry["location"]).read_bytes()
                tensor.raw_data = file[start:start + int(entry.get("length", len(file)))]
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
        return wire.plain(model)

    def unchanged(self, path: pathlib.Path, what: str, external: bool) -> None:
        run, out = self.demi.opt(str(path), "")
        same = out == path.read_bytes() or (out is not None and external and
                                            self.inlined(out) == self.inlined(path.read_bytes()))
        problem = run.problem() if run.code else "" if same else "other bytes than the input's"
        if out and external and not is_external(out):
            problem = "its external data became part of the model"
        self.judge(f"{what} unchanged", problem)

    def stripped(self, path: pathlib.Path, model: onnx.ModelProto, what: str) -> None:
        run, out = self.demi.opt(str(path), "infer-dtypes,strip-casts", "--no-check")
        if run.code or out is None:
            self.judge(f"{what} strip-casts", run.problem())
            return
        want = self.inlined(without_casts(model).SerializeToString())
        got = self.inlined(out)
        self.judge(f"{what} strip-casts", "" if want == got else first_difference(want, got))

    def converted(self, path: pathlib.Path, model: onnx.ModelProto, what: str) -> None:
        marked = onnx.ModelProto()
        marked.CopyFrom(model)
        preserve.mark(marked)
        path.write_bytes(marked.SerializeToString())
        run, out = self.demi.convert(str(path), Variant("float16", "keep"), "--no-check")
        lost = [run.problem()] if run.code or out is None else preserve.lost(
            marked, onnx.load_from_string(out))
        if not lost and out == path.read_bytes():
            lost = ["nothing was converted"]
        self.judge(f"{what} convert", lost[0] if lost else "")

    def seed(self, seed: int) -> None:
        model = fill.build(seed, external=seed % 4 == 3)
        path = self.folder / "fill.onnx"
        for style in wire.STYLES:
            what = f"seed {seed} {style}"
            data = wire.encode(model, style, seed)
            if wire.plain(onnx.load_from_string(data)) != wire.plain(model):
                self.judge(what, "the writer changed the model")
                continue
            path.write_bytes(data)
            self.unchanged(path, what, seed % 4 == 3)
            self.stripped(path, model, what)
        self.converted(path, model, f"seed {seed}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Round trips of models that fill every field.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--style", choices=list(wire.STYLES), default="canonical")
    parser.add_argument("--out", type=pathlib.Path, help="write this seed's model and stop")
    args = parser.parse_args()
    if args.out:
        model = fill.build(args.seed, external=args.seed % 4 == 3)
        args.out.write_bytes(wire.encode(model, args.style, args.seed))
        args.out.with_name(fill.EXTERNAL).write_bytes(fill.external_bytes())
        return
    folder = work_folder()
    test = Test(Demi(args.demi, folder), folder)
    seeds = range(args.seed, args.seed + args.seeds)
    empty = published_fields() - set().union(
        *(filled_fields(fill.build(s, external=s % 4 == 3)) for s in seeds))
    test.judge("the generator", f"never fills {sorted(empty)}" if empty else "")
    (folder / fill.EXTERNAL).write_bytes(fill.external_bytes())
    try:
        for seed in seeds:
            test.seed(seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"fill_model: {test.cases} cases, {test.failures} failures")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
