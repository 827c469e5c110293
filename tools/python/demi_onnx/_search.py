# SPDX-License-Identifier: Apache-2.0
"""Mixed-precision search: the cheapest precisions that keep a model accurate enough."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from . import _abi
from . import _abi_constants as _codes
from ._arguments import checked, refuse
from ._convert import ConvertOptions
from ._errors import text_of
from ._lib import Guard, call, encode, lib
from ._models import (Data, Folder, Inputs, Model, Path, Progress, Source, Writer, choice, inputs_how, progress_callback,
                      text_list, texts)
from ._report import finite, plain, table_html, table_text
from ._share import context_options, current

_METRICS = {"sqnr": 0, "cosine": 1, "top1": 2, "accuracy": 3, "error": 4, "score": 5}
_COSTS = {"bitops": 0, "bytes": 1, "latency": 2}
_ALGORITHMS = {"solve": 0, "aimet-binary": 1, "aimet-interpolation": 2, "aimet-brute-force": 3}
_SENSITIVITIES = {"measured": 0, "gradient": 1, "score": 2}
_HOLDOUTS = ("none", "sets", "given", "score")
_OUTCOMES = ("found", "found", "nothing", "so far", "curve", "unconfirmed")


@dataclass(frozen=True)
class Point:
    """An assignment of precisions that was run."""

    score: float
    cost: float
    bitops: float
    activation_bytes: float
    weight_bytes: float
    seconds: float
    measured: float
    boundaries: int
    feasible: bool
    on_front: bool
    score_error: float
    """The standard error of the score because there are few sets; NaN if unknown."""


@dataclass(frozen=True)
class Group:
    """Values and weights that have one precision in common, and that precision in the result."""

    name: str
    node: str
    op_type: str
    candidate: str
    reason: str


@dataclass(frozen=True)
class Holdout:
    """The score of the result on data that was held out from the search, with its confidence interval; NaN if
    nothing was held out. The result was accepted because `low` reaches `target`."""

    score: float
    low: float
    high: float
    target: float
    confidence: float
    samples: int
    tests: int
    """Assignments that were tested on this data, of at most `tests_most`."""
    tests_most: int
    how: str
    """sets (some of those of `data`), given (data of its own), score (`holdout_score`), or none."""


@dataclass(frozen=True)
class Sets:
    """Numbers of sets of inputs by use; without any for calibration, those for selection serve both."""

    calibration: int
    selection: int
    holdout: int


@dataclass(frozen=True)
class SearchResult:
    """The result of a search. `policy`, as an option of `convert`, makes the same model again. `outcome` is found,
    so far (a limit ended the search), curve (no target), nothing (the target is not reached), or unconfirmed
    (not reached on held-out data). `trivial`: the cheapest candidates everywhere reach the target."""

    outcome: str
    policy: str
    best: Point
    float_score: float
    target: float
    evaluations: int
    seconds: float
    assumed: str
    candidates: list[str]
    points: list[Point]
    groups: list[Group]
    trivial: bool
    aim: float
    """The score on the sets for selection from which assignments were tested on held-out data."""
    holdout: Holdout
    sets: Sets
    runtime: str
    """The runtime whose rules the result follows."""
    types: list[tuple[str, str]]
    """Of each candidate: what it stores activations and weights as; float: in the type that they have."""

    def to_dict(self) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]

    def json(self, **how: Any) -> str:
        """Returns everything as JSON. `how` has arguments for json.dumps. Infinity and NaN become null."""
        import json
        return json.dumps(finite(self.to_dict()), **how)

    def _rows(self) -> list[tuple[str, ...]]:
        front = sorted((p for p in self.points if p.on_front), key=lambda p: p.cost)
        return [("cost", "score", ""),
                *[(f"{p.cost:.4g}", f"{p.score:.4g}", "result" if p == self.best else "")
                  for p in front]]

    def __str__(self) -> str:
        held = self.holdout
        on_new = f"; on held-out data {held.score:.4g} ({held.low:.4g} to {held.high:.4g})" if held.tests else ""
        return table_text(self._rows()) + f"\n{self.outcome}: score {self.best.score:.4g} at cost " \
                                          f"{self.best.cost:.4g}{on_new}"

    def _repr_html_(self) -> str:
        return table_html(self._rows())


def _point_of(raw: Any) -> Point:
    return Point(raw.score, raw.cost, raw.bitops, raw.activation_bytes, raw.weight_bytes, raw.seconds,
                 raw.measured, raw.boundaries, bool(raw.feasible), bool(raw.on_front),
                 raw.score_error)


def _types_of(search: ctypes.c_void_p, i: int) -> tuple[str, str]:
    activations, weights = (text_of(lib.demi_search_candidate_type(search, i, of)) for of in (False, True))
    return activations, weights


def _result_of(search: ctypes.c_void_p) -> SearchResult:
    totals = lib.demi_search_totals(search).contents
    candidates = [text_of(lib.demi_search_candidate(search, i))
                  for i in range(lib.demi_search_candidate_count(search))]
    points = [_point_of(lib.demi_search_point(search, i).contents)
              for i in range(lib.demi_search_point_count(search))]
    raw = [lib.demi_search_group(search, i).contents
           for i in range(lib.demi_search_group_count(search))]
    groups = [Group(text_of(g.name), text_of(g.node), text_of(g.op_type), candidates[g.candidate],
                    text_of(g.reason)) for g in raw]
    return SearchResult(_OUTCOMES[totals.outcome], text_of(lib.demi_search_policy(search)),
                        points[totals.best], totals.float_score, totals.target, totals.evaluations,
                        totals.seconds, text_of(totals.assumed), candidates, points, groups,
                        totals.outcome == _codes.DEMI_FOUND_TRIVIAL, totals.aim,
                        Holdout(totals.holdout_score, totals.holdout_low, totals.holdout_high,
                                totals.holdout_target, totals.confidence, totals.holdout_samples, totals.holdout_tests, totals.holdout_tests_most,
                                _HOLDOUTS[totals.holdout]),
                        Sets(totals.calibration_sets, totals.selection_sets, totals.holdout_sets),
                        next(word for word, code in _abi.CHOICES["runtime"].items() if code == totals.runtime),
                        [_types_of(search, i) for i in range(len(candidates))])


def _score_callback(score: Callable[[bytes], float], guard: Guard) -> Any:
    def rate(_: int, model: int, result: Any, __: Any) -> int:
        writer = Writer(guard)
        try:
            status = int(lib.demi_save_callback(model, writer.callback, None, None, None))
        finally:
            lib.demi_free(model)
        if status:
            return status
        result[0] = float(score(writer.bytes()))
        return _codes.DEMI_OK

    return _abi.DemiScoreFn(guard.wrap(rate, _codes.DEMI_ERR_CANCELLED))


def unused_score(made: bytes) -> float:
    """A score that is never asked for: of processes that only measure groups."""
    raise AssertionError


def _share(share: float) -> float:
    """NaN would be the default."""
    if isinstance(share, bool) or not 0 <= share < 1:
        raise refuse("holdout", "data, or a number from 0 to less than 1", share)
    return float(share)


def _other_data(options: Any, data: Mapping[str, Data], inputs: Mapping[str, Any] | None) -> list[Inputs]:
    """Sets the members that have data; what they point to lives as long as the result."""
    kept = []
    for member, sets in data.items():
        if sets is None:
            continue
        kept.append(Inputs(sets, name=member.removesuffix("_inputs"), **inputs_how(inputs)))
        setattr(options, member, kept[-1].pointer)
    return kept


@checked
def search(model: Model, *, data: Data = None, candidates: Sequence[str] | None = None,
           target: float | None = None, drop: float | None = None, most_cost: float | None = None,
           bits: float | None = None,
           metric: str = "sqnr", labels: Sequence[int] | None = None,
           score: Callable[[bytes], float] | None = None, cost: str = "bitops",
           calibration: Data = None, holdout: Data | float | None = None, holdout_labels: Sequence[int] | None = None,
           holdout_score: Callable[[bytes], float] | None = None, quantize_outputs: bool = False,
           algorithm: str = "solve", sensitivity: str = "measured",
           sensitivity_score: Callable[[bytes], float] | None = None, evaluations: int = 0,
           seconds: float = 0.0,
           journal: Path | None = None, score_name: str | None = None, sensitivity_name: str | None = None,
           convert: Mapping[str, Any] | None = None,
           inputs: Mapping[str, Any] | None = None, progress: Progress | None = None,
           data_root: Folder | None = None, **options: Any) -> SearchResult:
    """Finds the cheapest precisions with which the model still reaches `target`, or the score of the float32
    model minus `drop`. Without both, finds the whole curve. `most_cost` reverses the search: it finds the
    best score at this cost, which is relative to that of the float32 model. So does `bits`, by default among w8 and
    w4: it finds the best score with this many bits per weight on average, without scales.

    `cost` is bitops, bytes, or latency. `metric` is sqnr (in dB), cosine, top1, accuracy (with `labels`), or
    error; or `score` is a function of the bytes of the converted model. `candidates` are the precisions,
    such as float, float16, a8w8, or int8:int4. `algorithm` is solve, aimet-binary, aimet-interpolation, or
    aimet-brute-force. The `sensitivity` of groups is measured; or estimated from a gradient, which every
    operator must then have; or found by `sensitivity_score`, a function like `score` that is called once per
    group and candidate. "score" takes `score` for that, too.

    Of 8 sets or more in `data`, a third is held out from the search, and the result must also reach the target on
    these, with the lower end of a confidence interval. `holdout` gives the share, 0 for none, or data of its own
    (with its `holdout_labels`); `calibration` gives data for ranges. With `score`, `holdout_score` is a score on
    other data; at most 3 models are tested by it. The model's outputs are kept in float32 unless `quantize_outputs`.

    `data` and `inputs` are as for `convert`. Further `options` are those of the conversions, such as `runtime`,
    `activations`, `symmetric`, `block`, `rest`, and `keep`; so are those in `convert`. `evaluations` and `seconds`
    limit the search. With a `journal`, a file, a search that was interrupted resumes, and one with another target
    measures only what is missing; `score_name` and `sensitivity_name` say which scores it is of."""
    guard = Guard()
    source, given = Source(model, data_root), Inputs(data, **inputs_how(inputs))
    chosen = ConvertOptions({**(convert or {}), **options})
    if sensitivity_score is not None and sensitivity not in ("measured", "score"):
        raise refuse("sensitivity", "score with `sensitivity_score`", sensitivity)
    told = _abi.DemiSearchOptions(
        convert=ctypes.pointer(chosen.value), inputs=given.pointer, seconds=seconds,
        metric=choice(_METRICS, "score" if score else metric, "metric"), evaluations=evaluations,
        cost=choice(_COSTS, cost, "cost"), algorithm=choice(_ALGORITHMS, algorithm, "algorithm"),
        sensitivity=choice(_SENSITIVITIES, "score" if sensitivity_score else sensitivity, "sensitivity"),
        progress=progress_callback(progress, guard))
    apart = _other_data(told, {"calibration_inputs": calibration}, inputs)
    if isinstance(holdout, (int, float)):
        told.holdout = _share(holdout)
    elif holdout is not None:
        apart += _other_data(told, {"holdout_inputs": holdout}, inputs)
    elif holdout_labels is not None:
        raise refuse("holdout_labels", "data in `holdout` that they are of", holdout)
    told.quantize_outputs = quantize_outputs
    if most_cost is not None and not most_cost > 0:
        raise refuse("most_cost", "a share of the float32 model's cost, more than 0", most_cost)
    for name, value in (("target", target), ("drop", drop), ("most_cost", most_cost), ("bits", bits)):
        if value is not None:
            setattr(told, name, value)
    if candidates is not None:
        names = text_list(candidates, "candidates")
        told.candidates, told.candidate_count = texts(names), len(names)
    if labels is not None:
        told.labels = (ctypes.c_int64 * max(len(labels), 1))(*labels)
        told.label_count = len(labels)
    if holdout_labels is not None:
        told.holdout_labels = (ctypes.c_int64 * max(len(holdout_labels), 1))(*holdout_labels)
        told.holdout_label_count = len(holdout_labels)
    if score is not None:
        told.score = _score_callback(score, guard)
    if holdout_score is not None:
        told.holdout_score = _score_callback(holdout_score, guard)
    if sensitivity_score is not None:
        told.sensitivity_score = _score_callback(sensitivity_score, guard)
    for name, text in (("journal", journal), ("score_name", score_name), ("sensitivity_name", sensitivity_name)):
        if text is not None:
            setattr(told, name, encode(text))
    share = current()
    if share is not None:
        told.context = context_options(0, share)
        share.set_options(told, guard)
    raw = ctypes.c_void_p()
    try:
        call(lib.demi_search_run, source.ref, byref(told), byref(raw), guard=guard)
        return _result_of(raw) if raw else None  # type: ignore[return-value]  # of another process
    finally:
        lib.demi_search_free(raw)


__all__ = ["Group", "Holdout", "Point", "SearchResult", "Sets", "search"]
