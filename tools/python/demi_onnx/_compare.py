# SPDX-License-Identifier: Apache-2.0
"""Compares two models, value by value."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass, fields
from typing import Any, Mapping

from . import _abi
from ._arguments import checked, take_limit
from ._errors import text_of
from ._lib import Guard, call, lib
from ._models import (Data, Folder, Inputs, Model, Path, Progress, Source, inputs_how,
                      progress_callback)
from ._report import OutputError, finite, output_error_of, plain, table_html, table_text


@dataclass(frozen=True)
class ComparedValue:
    """A value that both models have, in order of execution. `beyond`: its error exceeds the limit."""

    name: str
    type: str
    node: str
    op_type: str
    error: float
    max_abs: float
    sqnr: float
    cosine: float
    special: int
    mismatch: str
    beyond: bool


@dataclass(frozen=True)
class Pick:
    """An operator such as TopK or ArgMax whose selection differs from that of the reference."""

    node: str
    op_type: str
    count: int
    same: int
    margin: float


@dataclass(frozen=True)
class Comparison:
    """How far a model is from a reference: outputs, all values, and with `advise`, the nodes to keep in float32."""

    beyond: bool
    limit_error: float
    limit_least: float
    assumed: str
    outputs: list[OutputError]
    picks: list[Pick]
    values: list[ComparedValue]
    first_bad: ComparedValue | None
    keep: list[str]
    policy: str
    sets: int = 1
    set: int = 0  # which of the sets of inputs all this is about: the one that is furthest off

    @property
    def error(self) -> float:
        """The largest error of an output, relative to its largest magnitude."""
        return max((output.error for output in self.outputs), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]

    def json(self, **how: Any) -> str:
        """Returns everything as JSON. `how` has arguments for json.dumps. Infinity and NaN become null."""
        import json
        return json.dumps(finite(self.to_dict()), **how)

    def to_dataframe(self) -> Any:
        """Returns a pandas.DataFrame with one row per value. Raises ImportError without pandas."""
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
        return pandas.DataFrame([plain(value) for value in self.values],
                                columns=[f.name for f in fields(ComparedValue)])

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("output", "error", "max abs", "SNR dB", "cosine")]
        rows += [(o.name, o.mismatch or f"{o.error:.3g}", f"{o.max_abs:.3g}", f"{o.sqnr:.1f}",
                  f"{o.cosine:.6f}") for o in self.outputs]
        return rows

    def _verdict(self) -> str:
        of = f"set {self.set + 1} of {self.sets}, the worst: " if self.sets > 1 else ""
        return of + self._verdict_of_set()

    def _verdict_of_set(self) -> str:
        if self.first_bad is None:
            return f"within {self.limit_error:g} of the largest magnitude"
        return (f"first beyond {self.limit_error:g}: {self.first_bad.name}, of {self.first_bad.node} "
                f"({self.first_bad.op_type}), by {self.first_bad.error:.3g}")

    def __str__(self) -> str:
        return table_text(self._rows()) + "\n" + self._verdict()

    def _repr_html_(self) -> str:
        import html
        return table_html(self._rows()) + f"<p>{html.escape(self._verdict())}</p>"


def _value_of(raw: Any, limit: Any) -> ComparedValue:
    diff = raw.diff
    return ComparedValue(text_of(raw.name), text_of(raw.type), text_of(raw.node), text_of(raw.op_type),
                         diff.error, diff.max_abs, diff.sqnr, diff.cosine, diff.special,
                         text_of(diff.mismatch),
                         bool(lib.demi_limit_beyond(byref(limit), byref(diff))))


def _policy_of(comparison: ctypes.c_void_p) -> str:
    size = lib.demi_comparison_policy(comparison, None, 0, None)
    if not size:
        return ""
    room = ctypes.create_string_buffer(size + 1)
    lib.demi_comparison_policy(comparison, room, size + 1, None)
    return text_of(room.value)


def _gather(comparison: ctypes.c_void_p, advised: bool) -> Comparison:
    totals = lib.demi_comparison_totals(comparison).contents
    limit = totals.limit
    limit.size = ctypes.sizeof(limit)
    outputs = [output_error_of(lib.demi_comparison_output(comparison, i).contents)
               for i in range(lib.demi_comparison_output_count(comparison))]
    raw_picks = [lib.demi_comparison_pick(comparison, i).contents
                 for i in range(lib.demi_comparison_pick_count(comparison))]
    picks = [Pick(text_of(p.node), text_of(p.op_type), p.count, p.same, p.margin) for p in raw_picks]
    values = [_value_of(lib.demi_comparison_value(comparison, i).contents, limit)
              for i in range(lib.demi_comparison_value_count(comparison))]
    first = lib.demi_comparison_first(comparison)
    count = ctypes.c_size_t()
    keep = lib.demi_comparison_keep(comparison, byref(count)) if advised else None
    return Comparison(bool(totals.beyond), limit.error, limit.least, text_of(totals.assumed), outputs,
                      picks, values, _value_of(first.contents, limit) if first else None,
                      [text_of(keep[i]) for i in range(count.value)] if keep else [],
                      _policy_of(comparison) if count.value else "", totals.sets, totals.set)


@checked
def compare(reference: Model, model: Model, *, data: Data = None, max_error: float | None = None,
            advise: bool = False, try_advice: bool = False, inputs: Mapping[str, Any] | None = None,
            progress: Progress | None = None, data_root: Folder | None = None) -> Comparison:
    """Runs both models on the same inputs, and compares every value of `model` with that of `reference`.

    `data` and `inputs` are as for `convert`. If there are several sets of inputs, all of them run, and
    the result is about the worst. `max_error` is the limit for errors. If an output is beyond the limit,
    `advise` finds the nodes that cause the error, and `try_advice` tests whether keeping them in float32
    helps."""
    guard = Guard()
    sources = Source(reference, data_root, "reference"), Source(model, data_root)
    given = Inputs(data, **inputs_how(inputs))
    limit = _abi.DemiLimit()
    if max_error is not None:
        limit.error = take_limit(max_error)
    options = _abi.DemiCompareOptions(inputs=given.pointer, limit=ctypes.pointer(limit),
                                      progress=progress_callback(progress, guard))
    raw = ctypes.c_void_p()
    try:
        call(lib.demi_compare, sources[0].ref, sources[1].ref, byref(options), byref(raw), guard=guard)
        if advise or try_advice:
            call(lib.demi_comparison_advise, raw, try_advice, guard=guard)
        return _gather(raw, advise or try_advice)
    finally:
        lib.demi_comparison_free(raw)


__all__ = ["ComparedValue", "Comparison", "Pick", "compare"]
