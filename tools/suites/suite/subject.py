# SPDX-License-Identifier: Apache-2.0
"""What the corpus run hands to its judges: a model with inputs, what is known of its outputs, and
everything that demi makes of it. Each thing is made once, when the first judge asks for it.

Kinds of subjects:
  backend   ONNX's backend tests, with published inputs and outputs
  real      trained models from PyPI packages (suite/real_uses.py has their inputs)
  graph     random models of operators, constants, control flow, functions and names
  operator  a backend model in random surroundings
  style     small models as exporters write them
  entries   either of the first two random kinds, with every sort of value_info entry
  call      random models that are all interface: functions, branches and loops whose values go anywhere
A random subject is named KIND-SEED; the same seed makes the same model again.
"""

import dataclasses
import functools
import pathlib
import zlib

import numpy as np
import onnx

from suite import engines, random_calls, random_entries, random_graphs, random_operators, random_rows, \
    random_scope, random_styles, real_uses, walk
from suite.model import Model
from suite.package import ROOT, demi
from suite.variants import Variant

DATA = ROOT / "build/data"
BUILDERS = {"graph": lambda seed: random_graphs.build(seed),
            "operator": lambda seed: random_operators.build(seed, DATA / "backend"),
            "style": lambda seed: random_styles.build(seed),
            "entries": lambda seed: random_entries.build(seed, DATA / "backend"),
            "call": lambda seed: random_calls.build(seed),
            "row": lambda seed: random_rows.build(seed)}
RANDOM_OPERATORS = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                    "RandomUniformLike"}


@dataclasses.dataclass(frozen=True)
class Made:
    """A model that demi wrote, and its report in the form of the command's --json."""

    model: Model
    raw: object

    @functools.cached_property
    def report(self) -> dict:
        totals = self.raw.totals
        return {"nodes": [vars(node) for node in self.raw.nodes],
                "casts": {key: getattr(totals, f"casts_{key}")
                          for key in ("added", "removed", "fused", "remaining")},
                "bytes": {"before": totals.bytes_before, "after": totals.bytes_after},
                "values": {"overflow": totals.overflow, "underflow": totals.underflow,
                           "subnormal": totals.subnormal},
                "placement": {"casts": totals.casts_remaining,
                              "bytes_converted": totals.run_bytes_converted,
                              "bytes_fp32": totals.run_bytes_fp32, "cost": totals.run_cost}}


class Subject:
    """A model to judge. `expected` has the published outputs of each set of inputs, or is None;
    `jumpy` names outputs that rounding makes jump, which are not compared."""

    def __init__(self, kind: str, name: str, data: bytes, *, folder: pathlib.Path | None = None,
                 feeds: list[dict] | None = None, jumpy: set[str] = frozenset()) -> None:
        self.kind, self.name, self.folder, self.jumpy = kind, name, folder, jumpy
        self.alone = False  # what others say of mutants ended the process: they are not asked again
        self._models = {data: Model(data)}
        self.source = self._models[data]
        self._made: dict[object, Made | demi.DemiError] = {}
        self._results: dict[type, object] = {}
        self._feeds = feeds

    @property
    def proto(self) -> onnx.ModelProto:
        return self.source.proto

    @property
    def is_random(self) -> bool:
        return self.kind in BUILDERS

    @property
    def number(self) -> int:
        """A number that is always the same for the same name, to choose samples by."""
        return zlib.crc32(f"{self.kind} {self.name}".encode())

    @functools.cached_property
    def draws(self) -> bool:
        """Has it operators that draw random numbers?"""
        return any(n.op_type in RANDOM_OPERATORS for n in walk.model_nodes(self.proto)) or any(
            n.op_type == "Dropout" and "training" in self.proto.graph.name
            for n in walk.model_nodes(self.proto))

    @functools.cached_property
    def jumps(self) -> bool:
        """Has it operators whose results jump where their operands are rounded?"""
        return any(n.op_type in random_scope.JUMPS for n in walk.model_nodes(self.proto))

    @functools.cached_property
    def feeds(self) -> list[dict[str, object]]:
        """Sets of inputs. CannotRun where a type of input has no random values."""
        return engines.load_feeds(self.proto, self.folder) if self._feeds is None else self._feeds

    @functools.cached_property
    def tests(self) -> list[tuple[dict[str, object], list[object]]]:
        """(inputs, published outputs) of a backend model's data sets."""
        found = []
        for data in sorted(self.folder.glob("test_data_set_*")):
            files = sorted(data.glob("output_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
            found.append((engines.read_feeds(self.proto, data) or {},
                          [engines.read_value(p, v.type)
                           for p, v in zip(files, self.proto.graph.output)]))
        return found

    def results(self, engine: type) -> list[list[object]]:
        """The source's outputs in an engine. CannotRun where it has none."""
        if engine not in self._results:
            try:
                self._results[engine] = self.source.run(engine, self.feeds)
            except engines.CannotRun as error:
                self._results[engine] = error
        found = self._results[engine]
        if isinstance(found, engines.CannotRun):
            raise found
        return found

    def model(self, data: bytes) -> Model:
        """The model of these bytes: the one that is there, where they were made before."""
        return self._models.setdefault(data, Model(data))

    def _make(self, key: object, make: object) -> Made:
        if key not in self._made:
            try:
                data, report = make()
                self._made[key] = Made(self.model(data), report)
            except demi.DemiError as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, demi.DemiError):
            raise found
        return found

    def convert(self, variant: Variant, of: Model | None = None, **options: object) -> Made:
        """What `demi convert` makes of the float32 values of the source, or of another model of it."""
        of = of or self.source
        options.setdefault("source", "float32")
        key = ("convert", id(of), variant, tuple(sorted(options.items())))
        return self._make(key, lambda: demi.convert(of.data, to=variant.to, io=variant.io, **options))

    def passes(self, pipeline: str, of: Model | None = None) -> Made:
        """What `demi opt --passes` makes."""
        of = of or self.source
        return self._make(("passes", id(of), pipeline), lambda: demi.run_passes(of.data, pipeline))

    def simplify(self, of: Model | None = None, inexact: bool = False) -> Made:
        of = of or self.source
        return self._make(("simplify", id(of), inexact),
                          lambda: demi.simplify(of.data, inexact=inexact, verify_each=True))


def make(kind: str, which: str) -> Subject | str:
    """The subject of a kind: `which` is a path below DATA, or a seed. Or why there is none: a seed
    that gives no valid model."""
    if kind == "backend":
        path = DATA / which
        return Subject(kind, path.parent.name, frozen(path.read_bytes()), folder=path.parent)
    if kind == "real":
        path = DATA / which
        data = path.read_bytes()
        feeds = real_uses.feeds_of(path.stem, onnx.load_from_string(data))
        return Subject(kind, path.stem, frozen(data), folder=path.parent, feeds=feeds)
    sample = BUILDERS[kind](int(which))
    if sample is None:
        return "no model"
    data = frozen(sample.model.SerializeToString())
    left = {value.name for value in onnx.load_from_string(data).graph.input}
    feeds = {name: value for name, value in sample.feeds.items() if name in left}
    made = Subject(kind, f"{kind}-{which}", data, feeds=[feeds], jumpy=sample.jumpy)
    return f"invalid source: {made.source.fault}" if made.source.fault else made


def frozen(data: bytes) -> bytes:
    """Before IR version 4 weights are inputs, which conversions make constants: that is no judge's business."""
    model = onnx.load_from_string(data)
    given = {t.name for t in model.graph.initializer}
    old = model.ir_version < 4 and any(i.name in given for i in model.graph.input)
    try:
        return demi.run_passes(data, "freeze-inputs", check=False)[0] if old else data
    except demi.ModelError:  # a seed that gives no valid model
        return data


def same_bits(a: object, b: object) -> bool:
    """Are two values the same, types and shapes included, to the last bit?"""
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same_bits, a, b))
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return type(a) is type(b) and a == b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes()
