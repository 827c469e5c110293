# SPDX-License-Identifier: Apache-2.0
"""Reports on conversions, as attributes, JSON, tables, and text for terminals and notebooks."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Iterable, TypeVar

from . import _abi_constants as _codes
from ._arguments import checked
from ._errors import text_of
from ._lib import lib

_Kind = TypeVar("_Kind")
_FATES = {_codes.DEMI_TENSOR_STORED: "stored", _codes.DEMI_TENSOR_CLAMPED: "clamped",
          _codes.DEMI_TENSOR_KEPT: "kept"}


@dataclass(frozen=True)
class Node:
    """A node of the model as it is now, with its precision and the reason for it."""

    name: str
    op_type: str
    domain: str
    graph: str
    dtype: str
    reason: str
    kind: str


@dataclass(frozen=True)
class Tensor:
    """A constant with elements that the target type cannot hold."""

    name: str
    fate: str
    count: int
    overflow: int
    underflow: int
    subnormal: int
    max_abs: float
    min_abs: float


@dataclass(frozen=True)
class Row:
    """A row of a list: before and after, as numbers or text."""

    name: str
    text_before: str
    text_after: str
    before: int
    after: int
    seconds: float


@dataclass(frozen=True)
class Totals:
    """DemiReportTotals: counts for the whole model, before and after."""

    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int
    casts_added: int
    casts_removed: int
    casts_fused: int
    casts_remaining: int
    overflow: int
    underflow: int
    subnormal: int
    rewrites: int
    seconds: float
    ir_before: int
    ir_after: int
    run_bytes_converted: int
    run_bytes_fp32: int
    run_cost: int
    run_bytes_stored: int


@dataclass(frozen=True)
class OutputError:
    """The error of an output compared with the reference: the worst over all sets of inputs."""

    name: str
    set: str
    error: float
    max_abs: float
    mean_abs: float
    sqnr: float
    cosine: float
    ulp: float
    special: int
    mismatch: str


def output_error_of(raw: Any) -> OutputError:
    diff = raw.diff
    return OutputError(text_of(raw.name), text_of(raw.set), diff.error, diff.max_abs, diff.mean_abs,
                       diff.sqnr, diff.cosine, diff.ulp, diff.special, text_of(diff.mismatch))


@dataclass(frozen=True)
class Verdict:
    """The result of running the model and its conversion on the same inputs."""

    error: float
    broken: bool
    sets: int
    assumed: str
    outputs: list[OutputError]
    kept: list[str]


def _bytes_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def table_text(rows: Iterable[tuple[str, ...]]) -> str:
    """Formats columns: the first aligned to the left, and the others to the right."""
    lines = list(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))] if lines else []
    return "\n".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(line, widths))).rstrip()
                     for line in lines)


def table_html(rows: Iterable[tuple[str, ...]]) -> str:
    import html
    head, *others = rows
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>"
                   for line in others)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Report:
    """The report on a conversion, or on a model as it is (`describe`), in which before and after are the same.
    `uneven` lists 16-bit products with sizes that are not multiples of 8. `training` lists what a
    training_info reads, returns, and updates. `remarks` lists what demi found and did in addition to what
    was requested, such as repairs of the model."""

    totals: Totals
    nodes: list[Node]
    tensors: list[Tensor]
    operators: list[Row]
    weights: list[Row]
    reasons: list[Row]
    inputs: list[Row]
    outputs: list[Row]
    opsets: list[Row]
    passes: list[Row]
    advice: list[str]
    uneven: list[Row]
    training: list[Row]
    remarks: list[str]
    verdict: Verdict | None = field(default=None)

    @checked
    def why(self, name: str) -> str:
        """Returns why the node of that name has its precision. Raises KeyError if there is no such node."""
        for node in self.nodes:
            if node.name == name:
                return f"{node.name} ({node.op_type}): {node.dtype}: {node.reason or 'no pass decided'}"
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]

    def json(self, **how: Any) -> str:
        """Returns everything as JSON. `how` has arguments for json.dumps. Infinity and NaN become null."""
        import json
        return json.dumps(finite(self.to_dict()), **how)

    def to_dataframe(self) -> Any:
        """Returns a pandas.DataFrame with one row per node. Raises ImportError without pandas."""
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
        return pandas.DataFrame([plain(node) for node in self.nodes],
                                columns=[f.name for f in fields(Node)])

    def _rows(self) -> list[tuple[str, ...]]:
        totals = self.totals
        low = sum(1 for node in self.nodes if node.kind == "low")
        rows: list[tuple[str, ...]] = [
                ("", "before", "after"),
                ("nodes", f"{totals.nodes_before:,}", f"{totals.nodes_after:,}"),
                ("weights", _bytes_text(totals.bytes_before), _bytes_text(totals.bytes_after)),
                ("nodes in reduced precision by rule", "", f"{low:,}"),
                ("casts", "", f"{totals.casts_remaining:,}")]
        rows += [(f"float32: {row.name}", "", f"{row.after:,}") for row in self.reasons[:8]]
        if self.verdict is not None:
            rows.append(("largest error of outputs", "", f"{self.verdict.error:.3g}"))
        return rows

    def __str__(self) -> str:
        return "\n".join([table_text(self._rows()), *self.advice])

    def _repr_html_(self) -> str:
        import html
        advice = "".join(f"<p>{html.escape(line)}</p>" for line in self.advice)
        return table_html(self._rows()) + advice


def plain(value: Any) -> Any:
    """Converts nested dataclasses and lists to dicts. dataclasses.asdict also copies each scalar, which takes
    five times as long."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(item) for name, item in vars(value).items()}
    return value


def finite(value: Any) -> Any:
    """Returns the value with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def _make(kind: type[_Kind], values: Iterable[Any]) -> _Kind:
    """Makes a frozen dataclass from the values of its fields: there are thousands, and its __init__ is slow."""
    made = object.__new__(kind)
    vars(made).update(zip(kind.__dataclass_fields__, values))  # type: ignore[attr-defined]
    return made


def _rows_of(report: ctypes.c_void_p, number: int) -> list[Row]:
    rows = []
    for i in range(lib.demi_report_row_count(report, number)):
        raw = lib.demi_report_row(report, number, i).contents
        rows.append(_make(Row, (text_of(raw.name), text_of(raw.text_before), text_of(raw.text_after),
                                raw.before, raw.after, raw.seconds)))
    return rows


_node_parts = attrgetter(*(f.name for f in fields(Node)))
_total_parts = attrgetter(*(f.name for f in fields(Totals)))


def _node_of(raw: Any) -> Node:
    return _make(Node, map(text_of, _node_parts(raw)))


def _tensor_of(raw: Any) -> Tensor:
    return Tensor(text_of(raw.name), _FATES.get(raw.fate, ""), raw.count, raw.overflow, raw.underflow,
                  raw.subnormal, raw.max_abs, raw.min_abs)


def report_of(report: ctypes.c_void_p, verdict: Verdict | None = None) -> Report:
    """Returns everything in the library's report, which may be freed afterward."""
    totals = lib.demi_report_totals(report).contents
    nodes = [_node_of(lib.demi_report_node(report, i).contents)
             for i in range(lib.demi_report_node_count(report))]
    tensors = [_tensor_of(lib.demi_report_tensor(report, i).contents)
               for i in range(lib.demi_report_tensor_count(report))]
    return Report(
        _make(Totals, _total_parts(totals)), nodes, tensors,
        _rows_of(report, _codes.DEMI_REPORT_OPERATORS), _rows_of(report, _codes.DEMI_REPORT_WEIGHTS),
        _rows_of(report, _codes.DEMI_REPORT_REASONS), _rows_of(report, _codes.DEMI_REPORT_INPUTS),
        _rows_of(report, _codes.DEMI_REPORT_OUTPUTS), _rows_of(report, _codes.DEMI_REPORT_OPSETS),
        _rows_of(report, _codes.DEMI_REPORT_PASSES),
        [row.name for row in _rows_of(report, _codes.DEMI_REPORT_ADVICE)],
        _rows_of(report, _codes.DEMI_REPORT_UNEVEN), _rows_of(report, _codes.DEMI_REPORT_TRAINING),
        [row.name for row in _rows_of(report, _codes.DEMI_REPORT_REMARKS)],
        verdict)


def verdict_of(verdict: ctypes.c_void_p) -> Verdict:
    totals = lib.demi_verdict_totals(verdict).contents
    outputs = [output_error_of(lib.demi_verdict_output(verdict, i).contents)
               for i in range(lib.demi_verdict_output_count(verdict))]
    kept = [text_of(lib.demi_verdict_kept(verdict, i))
            for i in range(lib.demi_verdict_kept_count(verdict))]
    return Verdict(totals.error, bool(totals.broken), totals.sets, text_of(totals.assumed), outputs,
                   kept)
