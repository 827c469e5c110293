# SPDX-License-Identifier: Apache-2.0
"""Judges everything about one model: round trip, exclusion, and each variant's conversion.

One Judge lives in each worker process; its verdicts are plain data that travel back to the suite.
"""

import dataclasses
import pathlib

import onnx

from suite import engines, exceptions, lowclass, metric, preserve, validity, walk
from suite.command import VARIANTS, Demi, Variant


@dataclasses.dataclass
class Row:
    """One line of the table: one thing that was judged about one model."""

    model: str
    what: str
    engine: str = "-"
    error: float = 0.0
    problems: list[str] = dataclasses.field(default_factory=list)
    skip: str = ""
    totals: dict[str, int] = dataclasses.field(default_factory=dict)

    def status(self) -> str:
        return "FAIL" if self.problems else "skip" if self.skip else "ok"


@dataclasses.dataclass
class Result:
    """All rows of a model, and which entries of the list of exceptions it needed."""

    rows: list[Row]
    float32: bool
    used: set[str]


class Source:
    """A source model with what every variant needs of it."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.name = path, path.parent.name
        self.data = path.read_bytes()
        self.model = onnx.load_from_string(self.data)
        self.verdict = validity.Verdict(self.data, self.model)
        self.results: engines.SourceResults | None = None
        self.feeds_problem = ""
        try:
            feeds = engines.load_feeds(self.model, path.parent)
            self.results = engines.SourceResults(self.data, self.model, feeds)
        except Exception as error:
            self.feeds_problem = engines.first_line(error)


def low_names(values: list[onnx.ValueInfoProto]) -> dict[str, str]:
    """Those of a graph's inputs or outputs that have a 16-bit float type, with the type's name."""
    names = {kind: to for to, kind in validity.LOW_TYPE.items()}
    kinds = {v.name: engines.element_type(v.type) for v in values}
    return {name: names[kind] for name, kind in kinds.items() if kind in names}


class Judge:
    """Judges models with one command; knows the list of exceptions."""

    def __init__(self, demi: Demi) -> None:
        self.demi, self.entries = demi, exceptions.load()

    def __call__(self, path: pathlib.Path) -> Result:
        self.used: set[str] = set()
        source = Source(path)
        rows = [self.round_trip(source)]
        for variant in VARIANTS:
            rows.append(self.conversion(source, variant))
        for to in ("float16", "bfloat16"):
            rows.append(self.excluded(source, Variant(to, "keep")))
        rows.append(self.preserved(source))
        return Result(rows, walk.has_float32(source.model), self.used)

    def entry(self, model: str, variant: str) -> exceptions.Entry | None:
        return next((e for e in self.entries if e.covers(model, variant)), None)

    def round_trip(self, source: Source) -> Row:
        """An empty pipeline writes the input's own bytes."""
        run, out = self.demi.opt(str(source.path), "")
        row = Row(source.name, "round-trip")
        if run.code != 0:
            row.problems.append(run.problem())
        elif out != source.data:
            row.problems.append("other bytes than the input's")
        return row

    def excluded(self, source: Source, variant: Variant) -> Row:
        """With every node excluded nothing changes."""
        run, out = self.demi.convert(str(source.path), variant, "--keep", "*", "--allow-unmatched")
        row = Row(source.name, f"excluded/{variant.to}")
        if run.code != 0:
            row.problems.append(run.problem())
        elif out != source.data:
            row.problems.append("everything excluded, yet other bytes than the input's")
        return row

    def preserved(self, source: Source) -> Row:
        """Doc strings, metadata and unknown fields in every message survive a conversion."""
        row, marked = Row(source.name, "preserved"), onnx.ModelProto()
        marked.CopyFrom(source.model)
        preserve.mark(marked)
        path = self.demi.folder / "marked.onnx"
        path.write_bytes(marked.SerializeToString())
        run, out = self.demi.convert(str(path), Variant("float16", "keep"))
        if run.code != 0 or out is None:
            row.problems.append(run.problem())
        else:
            row.problems += preserve.lost(marked, onnx.load_from_string(out))
        return row

    def conversion(self, source: Source, variant: Variant) -> Row:
        """One variant's conversion: validity, contract, report, numbers."""
        row = Row(source.name, str(variant))
        run, out = self.demi.convert(str(source.path), variant)
        if run.code != 0 or out is None or run.report is None:
            row.problems.append(run.problem())
            return row
        try:
            model = onnx.load_from_string(out)
        except Exception as error:
            row.problems.append(f"protobuf: {engines.first_line(error)}")
            return row
        row.problems += validity.problems(out, model, source.verdict)
        row.problems += validity.contract(model, source.model, variant)
        row.problems += preserve.header(source.model, model, variant.to)
        row.problems += self.report(source, model, run.report, variant, row)
        if out == source.data:
            row.engine = "identical"
        elif not row.problems:
            self.numbers(source, out, model, variant, row)
        return row

    def report(self, source: Source, model: onnx.ModelProto, report: dict, variant: Variant,
               row: Row) -> list[str]:
        """The report's own claims; its totals go to the row."""
        try:
            low, kept = lowclass.counts(report, variant.to)
            row.totals = {f"low {op}": n for op, n in low.items()}
            row.totals |= {f"kept {op}": n for op, n in kept.items()}
            row.totals |= {f"casts {k}": report["casts"][k]
                           for k in ("added", "removed", "fused", "remaining")}
            row.totals |= {f"bytes {k}": report["bytes"][k] for k in ("before", "after")}
            row.totals |= {f"values {k}": report["values"][k]
                           for k in ("overflow", "underflow", "subnormal")}
            row.totals["io left float32"] = validity.float_tensors(model.graph)
            return lowclass.problems(report, source.model, model, variant.to)
        except (KeyError, TypeError) as error:
            return [f"--json lacks {error}"]

    def numbers(self, source: Source, out: bytes, model: onnx.ModelProto, variant: Variant,
                row: Row) -> None:
        """The outputs against the source's, in the first engine that runs both models."""
        entry = self.entry(source.name, str(variant))
        reasons = [source.feeds_problem] if source.feeds_problem else []
        for engine in engines.ENGINES if source.results else []:
            try:
                wants = source.results.all_from(engine)
                got = self.low_results(engine, source, out, model)
            except engines.CannotRun as error:
                reasons.append(f"{engine.name}: {error}")
                continue
            row.engine = engine.name
            row.error, text = self.compare(source, got, wants[0], variant)
            for want in wants[1:] if text else []:
                error, other = self.compare(source, got, want, variant)
                if not other:
                    row.error, text = error, ""
            if text:
                self.explain(source, engine, got, text, entry, model, variant, row)
            return
        if entry and entry.kind in ("no-engine", "engine"):
            row.skip = f"{entry.kind}: {entry.reason}"
            self.used.add(entry.key())
        else:
            row.problems.append("no engine runs it: " + "; ".join(reasons))

    def explain(self, source: Source, engine: type, got: list[list[object]], text: str,
                entry: exceptions.Entry | None, model: onnx.ModelProto, variant: Variant,
                row: Row) -> None:
        """A difference is a failure unless the list names it and what it says holds."""
        inherent = variant.io == "low" and self.from_rounding(source, engine, got, model, variant)
        if entry and entry.kind != "no-engine" and (inherent or entry.kind != "rounding"):
            row.skip = f"{entry.kind}: {entry.reason}"
            self.used.add(entry.key())
        else:
            hint = " (the source says the same with rounded inputs, outputs)" if inherent else ""
            row.problems.append(f"{engine.name}: {text}{hint}")

    def from_rounding(self, source: Source, engine: type, got: list[list[object]],
                      model: onnx.ModelProto, variant: Variant) -> bool:
        """Do the results agree with the source's own, inputs and outputs rounded the same way?"""
        runner, low = engine(source.data, source.model), low_names(model.graph.input)
        names, low_out = [o.name for o in model.graph.output], low_names(model.graph.output)
        try:
            want = [runner.run({k: metric.rounded(v, variant.to) if k in low else v
                                for k, v in feeds.items()}) for feeds in source.results.feeds]
        except engines.CannotRun:
            return False
        want = [[metric.rounded(v, variant.to) if n in low_out else v
                 for n, v in zip(names, values)]
                for values in want]
        return not self.compare(source, got, want, variant)[1]

    def low_results(self, engine: type, source: Source, out: bytes,
                    model: onnx.ModelProto) -> list[list[object]]:
        """The converted model's outputs; inputs that became low are rounded for it."""
        runner, low = engine(out, model), low_names(model.graph.input)
        return [runner.run({k: metric.to_low(v, low[k]) if k in low else v
                            for k, v in feeds.items()}) for feeds in source.results.feeds]

    def compare(self, source: Source, got: list[list[object]], want: list[list[object]],
                variant: Variant) -> tuple[float, str]:
        names, worst, problem = [o.name for o in source.model.graph.output], 0.0, ""
        for a, b in zip(got, want):
            for name, x, y in zip(names, a, b):
                error, text = metric.compare(x, y, metric.TOLERANCE[variant.to], name)
                worst, problem = max(worst, error), problem or text
        return worst, problem
