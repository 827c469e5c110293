# SPDX-License-Identifier: Apache-2.0
"""Casts and bytes beside other converters, on real models: part of
`tools/bench/bench_convert --peers`.

Each model gets the input shapes of suite/real_uses.py written into it and goes to every converter that
tools/setup/setup_peers has installed, and to demi under that converter's own rules: its list of
operators that stay float32, everything else low. Of the results the same function counts, over all
graphs:

    casts      Cast nodes that the source does not have
    converted  bytes that these read and write in one run, 6 an element
    weights    bytes of the floating-point constants that something reads

demi's rows have placement=mincut and, behind them, greedy; the last rows are demi's default policy.
The verdict is ONNX's check and strict inference, and ONNX Runtime's results within 2 % of the
source's. A line below the table says where demi's casts, or its converted bytes and weights
together, are above a converter's, what they become where demi too lets constants overflow
(--overflow clamp), as they do, and why: theirs is invalid or wrong; right values have that price;
bytes are fewer in all (a converter that converts less needs fewer casts); or unexplained, which is
a fault of demi.
"""

import argparse
import collections
import dataclasses
import json
import math
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "suites"))
from judges import real
from suite import engines, peers, real_uses, validity, walk
from suite.command import Demi, Variant, work_folder
from suite.model import Model
from suite.subject import Subject

ROOT = pathlib.Path(__file__).resolve().parents[2]
IOS = ("keep", "low")
MEASURES = ("casts", "converted", "weights")
UNKNOWN_DIM, UNKNOWN_RANK = 64, 4096  # as in passes/placement/placement_cost.h
SAME_COUNT = {"Cast", "Flatten", "Identity", "Reshape", "Softmax", "Squeeze", "Transpose",
              "Unsqueeze"}
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}


# ---- measures ----

def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for body in inner:
                yield from graphs_of(body)


def elements_by_name(model: onnx.ModelProto) -> dict[str, int]:
    """Elements of every value whose shape the model says. A name that two branches use counts as
    the larger."""
    sizes: dict[str, int] = {}
    for graph in graphs_of(model.graph):
        for tensor in graph.initializer:
            sizes[tensor.name] = max(sizes.get(tensor.name, 1), math.prod(tensor.dims))
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if not value.type.tensor_type.HasField("shape"):
                continue
            dims = [d.dim_value if d.HasField("dim_value") else UNKNOWN_DIM
                    for d in value.type.tensor_type.shape.dim]
            sizes[value.name] = max(sizes.get(value.name, 1), math.prod(dims))
    return sizes


def float_bytes(model: onnx.ModelProto) -> int:
    kinds, nodes = FLOATS | {TensorProto.DOUBLE}, list(walk.model_nodes(model))
    read = {i for n in nodes for i in n.input}
    read |= {o.name for g in graphs_of(model.graph) for o in g.output}
    tensors = [t for g in graphs_of(model.graph) for t in g.initializer if t.name in read]
    tensors += [a.t for n in nodes for a in n.attribute
                if a.HasField("t") and read.intersection(n.output)]
    return sum(helper.tensor_dtype_to_np_dtype(t.data_type).itemsize * math.prod(t.dims)
               for t in tensors if t.data_type in kinds)


def cast_to(node: onnx.NodeProto) -> int:
    return next((a.i for a in node.attribute if a.name == "to"), 0)


def set_dims(value: onnx.ValueInfoProto, dims: list[int]) -> None:
    for dim, size in zip(value.type.tensor_type.shape.dim, dims):
        dim.dim_value = size


class Source:
    """A model as all converters get it, and what they are measured by."""

    def __init__(self, path: pathlib.Path, demi: Demi) -> None:
        self.name, self.path = path.stem, demi.folder / path.name
        use = real_uses.USES[path.stem][0]
        model = onnx.load(path)
        for value in model.graph.input:
            set_dims(value, use[value.name] if isinstance(use[value.name], list) else [])
        self.model, self.shape = model, use
        feeds = real_uses.feeds_of(path.stem, onnx.load(path))[:1]
        first = Model(model.SerializeToString()).run(engines.OrtEngine, feeds)[0]
        for value, got in zip(model.graph.output, first):
            set_dims(value, got.shape)
        self.data = model.SerializeToString()
        self.path.write_bytes(self.data)
        self.subject = Subject("real", "", self.data, feeds=feeds)  # no name: no pictures
        _, typed = demi.opt(str(self.path), "infer-dtypes,infer-shapes{annotate=true}")
        self.sizes = elements_by_name(onnx.load_from_string(typed))
        casts = [n for n in walk.model_nodes(model) if n.op_type == "Cast"]
        self.cast_count, self.cast_outputs = len(casts), {n.output[0] for n in casts}

    def measure(self, model: onnx.ModelProto) -> dict[str, int]:
        casts = [n for n in walk.model_nodes(model) if n.op_type == "Cast"]
        added = [n for n in casts if n.output[0] not in self.cast_outputs]
        return {"casts": len(added),
                "converted": 6 * sum(self.elements([n for n in added if cast_to(n) in FLOATS],
                                                   model)),
                "weights": float_bytes(model)}

    def elements(self, casts: list[onnx.NodeProto], model: onnx.ModelProto) -> list[int]:
        """Of each cast, known by names: the converters keep most of the source's. What they made
        themselves has as many elements as what it was made from or becomes."""
        same = [n for n in walk.model_nodes(model) if n.op_type in SAME_COUNT]
        near: dict[str, list[str]] = collections.defaultdict(list)
        for node in same:
            near[node.input[0]].append(node.output[0])
            near[node.output[0]].append(node.input[0])
        return [self.count(node.output[0], near) for node in casts]

    def count(self, name: str, near: dict[str, list[str]]) -> int:
        """Breadth first from a value over nodes that keep the number of elements."""
        queue = [name]
        for value in queue:
            if value in self.sizes:
                return self.sizes[value]
            queue += [other for other in near[value] if other not in queue]
        return UNKNOWN_RANK

    def problem(self, data: bytes, model: onnx.ModelProto) -> str:
        """The first thing wrong with a result, or "". An invalid one that runs is still invalid."""
        made = Model(data)
        found, error = validity.problems(made, self.subject.source), math.inf
        try:
            ran = real.numbers(self.subject, made, "", made.runner(engines.OrtEngine).run)
            error, text = ran.error, ran.problem
        except engines.CannotRun as failed:
            text = str(failed)
        found += [text] if text else []
        lost = self.cast_outputs - {o for n in walk.model_nodes(model) for o in n.output}
        note = f"; {len(lost)} of the source's casts removed" if lost else ""
        return (" | ".join(f[:110] for f in found) or f"fine, error {error:.1e}") + note


# ---- conversions ----

def policy_of(peer: peers.Peer, demi: Demi) -> dict:
    """demi's policy that says what the peer's list does: listed operators stay float32, any other
    runs low."""
    done = subprocess.run([demi.path, "convert", "--print-policy"], capture_output=True, check=True)
    policy = json.loads(done.stdout)
    known = {op for key in ("low", "fp32", "follow", "widest") for op in policy[key]}
    fp32 = sorted(op for op in known if op.split(".")[-1] in peer.blocked)
    return policy | {"low": sorted(known - set(fp32)), "fp32": fp32, "follow": [], "widest": [],
                     "conditional": []}


@dataclasses.dataclass
class Row:
    model: str
    io: str
    converter: str
    casts: int | None = None
    converted: int | None = None
    weights: int | None = None
    verdict: str = ""

    def bytes(self) -> int:
        return self.converted + self.weights

    def text(self) -> str:
        figures = "".join(f" {'-' if getattr(self, m) is None else f'{getattr(self, m):,}':>12}"
                          for m in MEASURES)
        return f"{self.model:30.30} {self.io:4} {self.converter:36}{figures}  {self.verdict}"


class Tables:
    """Makes all rows of one model after the other."""

    def __init__(self, demi: Demi, found: list[peers.Peer]) -> None:
        self.demi, self.peers, self.rows = demi, found, []
        self.complaints: list[str] = []
        for peer in self.peers:
            if peer.version:
                self.policy_file(peer).write_text(json.dumps(policy_of(peer, demi)))

    def policy_file(self, peer: peers.Peer) -> pathlib.Path:
        return self.demi.folder / f"{peer.name}.json"

    def by_peer(self, source: Source, peer: peers.Peer, io: str, limit_s: float) -> Row:
        row, out = Row(source.name, io, f"{peer.name} {peer.version}"), self.demi.folder / "p.onnx"
        out.unlink(missing_ok=True)
        if peer.problem:
            row.verdict = peer.problem
            return row
        done = peers.run(peer.command(source.path, out, io), limit_s, self.demi.folder / "stderr")
        if done.problem:
            row.verdict = f"no output: {done.problem[:110]}"
            return row
        return self.judged(row, source, out.read_bytes())

    def by_demi(self, source: Source, io: str, placement: str, peer: peers.Peer | None,
                *extra: str) -> Row:
        rules = f"{peer.name}'s list" if peer else "default policy"
        row = Row(source.name, io, f"demi, {rules}, {placement}")
        extra += ("--policy", str(self.policy_file(peer))) if peer else ()
        run, out = self.demi.opt(str(source.path),
                                 self.demi.placed(Variant("float16", io), placement, *extra))
        if out is None:
            row.verdict = run.problem()
            return row
        return self.judged(row, source, out)

    def judged(self, row: Row, source: Source, data: bytes) -> Row:
        model = onnx.load_from_string(data)
        for measure, figure in source.measure(model).items():
            setattr(row, measure, figure)
        row.verdict = source.problem(data, model)
        return row

    def compare(self, source: Source, theirs: Row, own: Row, peer: peers.Peer) -> None:
        if theirs.casts is None or (own.casts <= theirs.casts and own.bytes() <= theirs.bytes()):
            return
        loose = self.by_demi(source, own.io, "mincut", peer, "--overflow", "clamp")
        if not theirs.verdict.startswith("fine"):
            why = "theirs is not a valid or right result"
        elif loose.casts <= theirs.casts and loose.bytes() <= theirs.bytes():
            why = "the price of right values"
        elif own.bytes() <= theirs.bytes():
            why = "fewer bytes in all"
        else:
            why = "unexplained"
        self.complaints.append(
            f"{own.model} {own.io}: {own.casts} casts, {own.bytes():,} bytes; {theirs.converter} "
            f"{theirs.casts}, {theirs.bytes():,} ({theirs.verdict}); demi with overflow=clamp "
            f"{loose.casts}, {loose.bytes():,}: {why}")

    def model(self, path: pathlib.Path, limit_s: float) -> None:
        source, start = Source(path, self.demi), len(self.rows)
        shapes = ", ".join(f"{k} {v}" for k, v in source.shape.items())
        print(f"{source.name}: {shapes}; source: {source.cast_count} casts, weights "
              f"{float_bytes(source.model):,}")
        for io in IOS:
            for peer in self.peers:
                theirs = self.by_peer(source, peer, io, limit_s)
                self.rows.append(theirs)
                if not peer.version:
                    continue
                for placement in ("mincut", "greedy"):
                    own = self.by_demi(source, io, placement, peer)
                    self.rows.append(own)
                    if placement == "mincut":
                        self.compare(source, theirs, own, peer)
            for placement in ("mincut", "greedy"):
                self.rows.append(self.by_demi(source, io, placement, None))
        print("\n".join(row.text() for row in self.rows[start:]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--real", type=pathlib.Path, default=ROOT / "build/data/models")
    parser.add_argument("--only", default="", help="only models whose name contains this")
    parser.add_argument("--converters", default=",".join(peers.ENVIRONMENTS), help="a comma list")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a conversion")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    np.seterr(all="ignore")  # the judge casts on purpose
    models = [m for m in sorted(args.real.glob("*/*.onnx")) if args.only in m.stem]
    if not models:
        sys.exit("cast_table: no models (tools/test fetches them)")
    folder = work_folder()
    try:
        found = [peers.Peer(name) for name in args.converters.split(",")]
        tables = Tables(Demi(args.demi, folder), found)
        print(f"{'model':30} {'io':4} {'converter':36}" + "".join(f" {m:>12}" for m in MEASURES))
        for path in models:
            tables.model(path, args.limit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("demi above a converter:", *(tables.complaints or ["nowhere"]), sep="\n")
    if args.json:
        args.json.write_text(json.dumps(
            {"rows": [dataclasses.asdict(r) for r in tables.rows],
             "above": tables.complaints}, indent=1) + "\n")


if __name__ == "__main__":
    main()
