# SPDX-License-Identifier: Apache-2.0
"""Models run from plans: ONNX's backend tests give the published outputs, at the suite's own tolerances,
random models what ONNX Runtime and ONNX's reference evaluator give (where the two do not agree, either
may be right). In every way of WAYS, and converted to every variant (faithful; tolerances are then those of
conversions).

Each model runs three times in one context, and again after inputs of other sizes where its inputs
leave sizes open: what the runtime remembers of earlier runs must not show. Two new contexts give the
same bits, with one and with three threads. Faithful plans give the bits of plans in which nothing is fused.
Shapes and dtypes are equal, NaN equals NaN.
"""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import onnx

from judges import Finding
from suite import engines, exceptions, metric, validity, walk
from suite.model import Model
from suite.package import demi, session
from suite.subject import Subject, same_bits
from suite.variants import VARIANTS, Variant

KINDS = {"backend", "graph", "operator", "style", "call"}  # `entries` is of no concern to plans
RTOL, ATOL = 1e-3, 1e-7  # onnx.backend.test.runner's defaults
LIMIT, LIMIT_LOW = 1e-4, 5e-3  # of random models: ONNX Runtime drops pairs of casts to 16 bit and back
WAYS = {"fast": {}, "threads": {"threads": 3}, "faithful": {"numerics": "faithful"},
        "onednn": {"kernels": "onednn"}}
Differs = Callable[[object, object], str]
STAGES = {"operator": "compile", "nondeterministic": "value", "data": "value",
          "discontinuous": "value", "rounding": "rounding"}
LOW_NAMES = {number: to for to, number in validity.LOW_TYPE.items()}


# ---- comparing


def differs(got: object, want: object) -> str:
    """Why a value is not the published one, or ""."""
    if isinstance(want, list) or want is None or isinstance(got, list) or got is None:
        if type(got) is not type(want) or (isinstance(want, list) and len(got) != len(want)):
            return f"{type(got).__name__}, expected {type(want).__name__}"
        found = [differs(a, b) for a, b in zip(got or [], want or [])]
        return next((f for f in found if f), "")
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if want.dtype.kind in "OUS":
        same = [str(a) == (b.decode() if isinstance(b, bytes) else str(b))
                for a, b in zip(got.ravel(), want.ravel())]
        return "" if all(same) else "other strings"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    exact = want.dtype.kind in "iub"
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (got, want))
    close = (got == want) if exact else np.isclose(a, b, RTOL, ATOL, equal_nan=True)
    if np.all(close):
        return ""
    where = np.argwhere(~close)[0]
    return f"{np.sum(~close)} of {want.size} differ, first {got[tuple(where)]} at " \
           f"{tuple(map(int, where))}, expected {want[tuple(where)]}"


def differs_low(to: str) -> Differs:
    """The same for a converted model: floats within a conversion's tolerance."""
    return lambda got, want: metric.compare(got, want, metric.TOLERANCE[to], "it")[1]


def differs_by(limit: float) -> Differs:
    """The same within a part of the largest value."""
    def differs_at(got: object, want: object) -> str:
        if isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)) and len(got) == len(want):
            return next((text for pair in zip(got, want) if (text := differs_at(*pair))), "")
        if isinstance(got, np.ndarray) and got.dtype.kind == "f" and isinstance(want, np.ndarray):
            finite = np.abs(want[np.isfinite(want)])
            error, text = metric.float_error(got, want, float(finite.max(initial=0)) or 1.0)
            return text or ("" if error <= limit else f"error {error:.3g}")
        return metric.compare(got, want, limit, "it")[1]

    return differs_at


# ---- running


def feed(opened: demi.Session, feeds: dict[str, object], names: list[str] | None = None) -> list[object]:
    """Runs, for all outputs or those of these names; inputs that a conversion made low are rounded for it."""
    low = {io.name: LOW_NAMES[io.number] for io in opened.get_inputs() if io.number in LOW_NAMES}
    return opened.run(names, {name: metric.to_low(value, low[name]) if name in low else value
                              for name, value in feeds.items()})


def resized(feeds: dict[str, object], opened: demi.Session) -> dict[str, object] | None:
    """The feeds with one more of each open axis; None where none is open."""
    open_axes = {io.name: [axis for axis, size in enumerate(io.shape) if not isinstance(size, int)]
                 for io in opened.get_inputs()}
    if not any(open_axes.values()):
        return None
    made = dict(feeds)
    for name, value in feeds.items():
        for axis in open_axes.get(name, []) if isinstance(value, np.ndarray) else []:
            if value.shape[axis]:
                made[name] = np.take(made[name], range(value.shape[axis] + 1), axis, mode="wrap")
    return made


def runs(opened: demi.Session, feeds: dict[str, object]) -> Iterator[list[object]]:
    """Outputs of several runs of one context."""
    for _ in range(3):
        yield feed(opened, feeds)
    other = resized(feeds, opened)
    if other:
        with contextlib.suppress(demi.DemiError):  # the model may not take it
            feed(opened, other)
        yield feed(opened, feeds)
        yield feed(opened, feeds)


def cases_of(subject: Subject) -> list[tuple[dict[str, object], list[list[object]]]]:
    """(inputs, outputs of which any may be right) of each set."""
    if subject.kind == "backend":
        return [(feeds, [outputs]) for feeds, outputs in subject.tests]
    wants = []
    # Of models that are all interface the reference takes one value for another: names of branches leak.
    for engine in (engines.OrtEngine, engines.ReferenceEngine)[:1 if subject.kind == "call" else 2]:
        with contextlib.suppress(engines.CannotRun):
            wants.append(subject.results(engine)[0])
    return [(subject.feeds[0], wants)] if wants else []


def has_low(model: Model) -> bool:
    """Does it cast to float16 or bfloat16, or hold either?"""
    low = set(LOW_NAMES)
    return any(a.name == "to" and a.i in low for n in walk.model_nodes(model.proto)
               for a in n.attribute) or any(
        isinstance(m, onnx.TensorProto) and m.data_type in low for m in walk.messages(model.proto))


def misnamed(opened: demi.Session, model: Model, feeds: dict[str, object], got: list[object]) -> str:
    """What is wrong with outputs that are asked for by their names, in another order; or ""."""
    names = [o.name for o in model.proto.graph.output]
    if [o.name for o in opened.get_outputs()] != names:
        return f"outputs are called {[o.name for o in opened.get_outputs()]}, expected {names}"
    again = feed(opened, feeds, names[::-1])
    return "" if same_bits(again, got[::-1]) else "outputs asked for by name are other values"


class Way:
    """One way of running a subject: `model` is its source, or a conversion of it."""

    def __init__(self, subject: Subject, model: Model, same: Differs, variant: Variant | None = None,
                 **how: object) -> None:
        self.subject, self.model, self.same, self.variant, self.how = subject, model, same, variant, how

    def problem(self) -> tuple[str, str]:
        """(what is wrong, the stage at which it was seen); empty texts where nothing is."""
        try:
            opened = session(self.model.data, **self.how)
        except demi.DemiError as error:
            return str(error), "compile"
        for feeds, wants in cases_of(self.subject):
            try:
                for number, got in enumerate(runs(opened, feeds)):
                    text, stage = self.compare(got, wants)
                    if text and self.from_rounding(feeds, got):
                        stage = "rounding"
                    if text:
                        return f"run {number}: {text}" if number else text, stage
                if text := misnamed(opened, self.model, feeds, got):
                    return text, "value"
            except demi.DemiError as error:
                return str(error), "run"
        return "", ""

    def compare(self, got: list[object], wants: list[list[object]]) -> tuple[str, str]:
        for i, output in enumerate(self.subject.proto.graph.output):
            texts = [self.same(got[i], want[i]) for want in wants]
            if output.name not in self.subject.jumpy and "" not in texts:
                stage = "type" if texts[0].startswith(("shape", "dtype")) else "value"
                return f"{output.name}: {texts[0]}", stage
        return "", ""

    def from_rounding(self, feeds: dict[str, object], got: list[object]) -> bool:
        """Does the model as it was give the same once its inputs and outputs are rounded?"""
        if self.variant is None or self.variant.io != "low":
            return False
        wants = session(self.subject.source.data).run(None, {k: metric.rounded(v, self.variant.to) for k, v in feeds.items()})
        return not any(self.same(a, metric.rounded(b, self.variant.to)) for a, b in zip(got, wants))

    def finding(self, what: str) -> Finding:
        text, stage = self.problem()
        kinds = {kind for kind, its in STAGES.items() if its == stage}
        if entry := exceptions.find(self.subject.name, f"plans {what}", kinds):
            return Finding(what, skip=f"{entry.kind}: {entry.reason}", used=entry.key())
        return Finding(what, f"{stage}: {text}" if text else "")


def repeats(subject: Subject) -> Iterator[Finding]:
    """The same bits from new contexts, and from a faithful plan whether it is fused or not."""
    for feeds, _ in cases_of(subject):
        for threads in (1, 3):
            one, two = (session(subject.source.data, threads=threads).run(None, feeds) for _ in range(2))
            yield Finding(f"repeat {threads} threads", "" if same_bits(one, two) else
                          "two new contexts differ")
        fused, plain = (session(subject.source.data, numerics="faithful", keep_values=keep).run(None, feeds)
                        for keep in (False, True))
        yield Finding("fused", "" if same_bits(fused, plain) else
                      "a faithful plan with fusions differs from one without")


def judge(subject: Subject) -> Iterator[Finding]:
    backend = subject.kind == "backend"
    if not backend and (subject.draws or not cases_of(subject)):  # no engine runs it
        return
    same = differs if backend else differs_by(LIMIT_LOW if has_low(subject.source) else LIMIT)
    found = [Way(subject, subject.source, same, **how).finding(f"source {way}")
             for way, how in WAYS.items()]
    yield from found
    if any(f.problem or f.used for f in found):
        return
    yield from repeats(subject)
    for variant in VARIANTS if backend else []:
        made = subject.convert(variant).model
        if made is not subject.source:
            yield Way(subject, made, differs_low(variant.to), variant,
                      numerics="faithful").finding(str(variant))
