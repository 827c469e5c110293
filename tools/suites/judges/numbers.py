# SPDX-License-Identifier: Apache-2.0
"""A conversion computes what its source computes (suite/metric.py), in the first engine that runs both
models: ONNX Runtime without optimizations, else ONNX's reference evaluator. Where that disagrees, the
source's results in the other engine count too, since an engine may be wrong about the source.

Where the source loads in ONNX Runtime as its users start it, with its optimizations on, the conversion
does too, and gives the same there. OPEN lists the faults that are known of this.

Random models amplify roundings: SLACK. Those with operators that jump, or that differ as much once
their own floats are rounded, are not compared. Where no engine has the kernels of a 16-bit type, the
conversion runs with float32 in its place, which shows at least that everything is wired as it should be.
"""

from collections.abc import Iterator

from judges import Finding
from suite import engines, exceptions, metric, opsets, validity, widen
from suite.model import Model
from suite.package import demi
from suite.subject import Subject
from suite.variants import VARIANTS, Variant

KINDS = {"backend", "graph", "operator", "style", "entries"}  # real ones: real.py
SLACK = 2.5
# What ONNX Runtime's optimizer says of valid conversions that it can't load: known, and open.
OPEN = {"fuse_initializers_transformer": "it loses a Cast of a constant that CastLike reads"}
Results = list[list[object]]  # of each set of inputs


def low_names(values: list) -> dict[str, str]:
    """Those of a graph's inputs or outputs that have a 16-bit float type, with the type's name."""
    names = {kind: to for to, kind in validity.LOW_TYPE.items()}
    kinds = {v.name: engines.element_type(v.type) for v in values}
    return {name: names[kind] for name, kind in kinds.items() if kind in names}


class Comparison:
    """One conversion beside its source; its exceptions are those of `judge`."""

    def __init__(self, subject: Subject, model: Model, variant: Variant, judge: str = "numbers") -> None:
        self.subject, self.model, self.variant, self.what = subject, model, variant, f"{judge} {variant}"
        self.low = low_names(self.model.proto.graph.input)

    def compare(self, got: Results, want: Results) -> tuple[float, str]:
        """(largest error, first problem)."""
        limit = metric.TOLERANCE[self.variant.to] * (SLACK if self.subject.is_random else 1)
        worst, problem = 0.0, ""
        for a, b in zip(got, want):
            for value, x, y in zip(self.subject.proto.graph.output, a, b):
                if value.name not in self.subject.jumpy:
                    error, text = metric.compare(x, y, limit, value.name)
                    worst, problem = max(worst, error), problem or text
        return worst, problem

    def run(self, engine: type) -> Results:
        """The conversion's outputs; inputs that became low are rounded for it."""
        return self.model.run(engine, [
            {k: metric.to_low(v, self.low[k]) if k in self.low else v for k, v in feeds.items()}
            for feeds in self.subject.feeds])

    def others(self, engine: type) -> Iterator[Results]:
        """The source's results in other engines."""
        for other in engines.ENGINES:
            if other is not engine:
                try:
                    yield self.subject.results(other)
                except engines.CannotRun:
                    continue

    def judge(self) -> Finding:
        what, reasons = str(self.variant), []
        if self.model is self.subject.source:
            return Finding(what, engine="identical")
        for engine in engines.ENGINES:
            try:
                found = self.in_engine(engine)
            except engines.CannotRun as error:
                reasons.append(f"{engine.name}: {error}")
                continue
            return found
        return self.without_engine("; ".join(reasons))

    def in_engine(self, engine: type) -> Finding:
        self.subject.feeds  # noqa: B018: may raise CannotRun
        try:
            want = self.subject.results(engine)
        except engines.CannotRun:  # the other engine's results do, where there are any
            want = next(self.others(engine), None)
            if want is None:
                raise
        got = self.run(engine)
        error, text = self.compare(got, want)
        for want in self.others(engine) if text else []:
            other, problem = self.compare(got, want)
            if not problem:
                error, text = other, ""
        found = Finding(str(self.variant), engine=engine.name, error=error)
        return self.excuse(found, engine, got, text) if text else found

    def excuse(self, found: Finding, engine: type, got: Results, text: str) -> Finding:
        """A difference is a failure unless it comes from what was rounded, and the list says so."""
        if self.subject.is_random:
            if not self.subject.jumps and not self.from_rounding(engine, got):
                found.problem = f"{engine.name}: {text}"
            return found
        inherent = self.variant.io == "low" and self.from_rounding(engine, got)
        kinds = {"nondeterministic", "discontinuous", "engine"} | ({"rounding"} if inherent else set())
        if entry := exceptions.find(self.subject.name, self.what, kinds):
            found.skip, found.used = f"{entry.kind}: {entry.reason}", entry.key()
        else:
            hint = " (the source says the same with rounded inputs, outputs)" if inherent else ""
            found.problem = f"{engine.name}: {text}{hint}"
        return found

    def from_rounding(self, engine: type, got: Results) -> bool:
        """Do the results agree with the source's own, inputs and outputs rounded the same way? All
        floats of random models: the neighbors of an operator round what is kept, too."""
        subject, to = self.subject, self.variant.to
        low_out = low_names(self.model.proto.graph.output)
        try:
            want = subject.source.run(engine, [
                {k: metric.rounded(v, to) if subject.is_random or k in self.low else v
                 for k, v in feeds.items()} for feeds in subject.feeds])
        except engines.CannotRun:
            return False
        want = [[metric.rounded(v, to) if subject.is_random or o.name in low_out else v
                 for o, v in zip(subject.proto.graph.output, values)] for values in want]
        return not self.compare(got, want)[1]

    # ---- no engine

    def without_engine(self, reasons: str) -> Finding:
        found = Finding(str(self.variant))
        if self.subject.is_random:
            return self.widened(found)
        if entry := exceptions.find(self.subject.name, self.what, {"no-engine", "engine"}):
            found.skip, found.used = f"{entry.kind}: {entry.reason}", entry.key()
        else:
            found.problem = f"no engine runs it: {reasons}"
        return found

    def widened(self, found: Finding) -> Finding:
        wide = widen.widened(self.model.proto, validity.LOW_TYPE[self.variant.to])
        model, skips = Model(wide.SerializeToString()), []
        for engine in engines.ENGINES:
            try:
                want = self.subject.results(engine)
                got = model.run(engine, [widen.fed(f, self.variant.to) for f in self.subject.feeds])
            except engines.CannotRun as error:
                skips.append(f"{engine.name}: {error}")
                continue
            found.engine = f"{engine.name}, widened"
            found.error, text = self.compare(got, want)
            found.problem = f"widened: {text}" if text else ""
            return found
        found.skip = "; ".join(skips)
        if self.source_runs() and self.raised_runs():
            found.problem = f"widened: {found.skip}"
        return found

    def source_runs(self) -> bool:
        return next(self.others(type(None)), None) is not None

    def raised_runs(self) -> bool:
        """False where no engine runs even the unconverted source at the opset it was raised to."""
        opset = opsets.raised(self.subject.proto, self.model.proto)
        if not opset:
            return True
        try:
            raised = self.subject.passes(f"upgrade-opset{{to={opset}}}").model
        except demi.DemiError:
            return True
        for engine in engines.ENGINES:
            try:
                raised.run(engine, self.subject.feeds)
                return True
            except engines.CannotRun:
                continue
        return False

    # ---- optimizations on

    def optimized(self, plain: Finding) -> Finding:
        found, engine = Finding(f"{self.variant} optimized", engine=engines.OrtOptimized.name), engines.OrtOptimized
        try:
            if plain.engine != engines.OrtEngine.name:
                raise engines.CannotRun(f"judged in {plain.engine}")
            want = self.subject.results(engine)
        except engines.CannotRun as error:
            found.skip = str(error)
            return found
        try:
            got = self.run(engine)
        except engines.CannotRun as error:
            why = next((why for text, why in OPEN.items() if text in str(error)), "")
            found.skip, found.problem = (f"open: {why}", "") if why else ("", str(error))
            return found
        found.error, text = self.compare(got, want)
        if text and any(not self.compare(got, other)[1] for other in self.others(engine)):
            text = ""
        if text and not plain.skip and not (self.subject.is_random and (
                self.subject.jumps or self.from_rounding(engine, got))):
            found.problem = text
        return found


def judge(subject: Subject) -> Iterator[Finding]:
    for variant in VARIANTS:
        comparison = Comparison(subject, subject.convert(variant).model, variant)
        found = comparison.judge()
        yield found
        if found.engine != "identical" and not found.problem:
            yield comparison.optimized(found)
