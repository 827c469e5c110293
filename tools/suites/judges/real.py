# SPDX-License-Identifier: Apache-2.0
"""Real models, beyond what every model must: float16 results in ONNX Runtime, without and with its
optimizations, and in demi's runtime lie within 2 % of the source's (suite/metric.py); plans of the
source, fast and faithful, give ONNX Runtime's outputs within 1e-4 of the largest value, twice in a row;
weights shrink to at most 0.55 (the detector, whose large BatchNorm variance stays fp32, 0.6).

The scale of an error is the output's largest value, and at least 1 for probabilities (outputs of
Sigmoid and Softmax): of 6,625 probabilities of characters the 99th percentile is some 1e-4, which
is not a scale to judge the one that counts by. On pictures of digits, which the text models read,
the answers are compared as their users take them: the recognized text and the mask of text pixels.
"""

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper

from judges import Finding
from suite import engines, metric, real_uses, walk
from suite.model import Model
from suite.package import demi
from suite.subject import Subject
from suite.variants import VARIANTS

KINDS = {"real"}
RATIO, RATIO_OF = 0.55, {"ch_PP-OCRv4_det_infer": 0.60}
THREADS = 2
PLAN_LIMIT = 1e-4
PROBABILITIES = {"Sigmoid", "Softmax"}
MASK, MASK_CHANGE = 0.3, 0.005  # the detector's threshold; share of its pixels that may change
Run = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


def characters(scores: np.ndarray) -> list[list[int]]:
    """What a recognizer's users read: the best class of a step, repeats and blanks (0) dropped."""
    return [[int(c) for i, c in enumerate(row) if c and (i == 0 or c != row[i - 1])]
            for row in np.asarray(scores, np.float32).argmax(-1)]


def answers_differ(name: str, got: np.ndarray, want: np.ndarray) -> str:
    """Why the answers to a picture are not the same, or ""."""
    if "_rec_" in name:
        text = characters(want)
        if not all(text):
            return "the source reads nothing in the picture"
        return "" if characters(got) == text else "another text is recognized"
    mask, low = want > MASK, np.asarray(got, np.float32) > MASK
    if not mask.any() or mask.all():
        return "the source finds no text in the picture"
    changed = float(np.mean(mask != low))
    return "" if changed <= MASK_CHANGE else f"{changed:.2%} of the mask's pixels change"


def tensor_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all constants, wherever they are and however they are stored."""
    total = 0
    for message in walk.messages(model):
        if isinstance(message, TensorProto) and message.data_type != TensorProto.STRING:
            total += len(message.raw_data) or sum(
                len(getattr(message, field)) * size for field, size in (
                    ("float_data", 4), ("double_data", 8), ("int64_data", 8), ("uint64_data", 8))
            ) or len(message.int32_data) * helper.tensor_dtype_to_np_dtype(
                message.data_type).itemsize
    return total


def source_plan(subject: Subject, numerics: str) -> Finding:
    """The source in demi's runtime beside ONNX Runtime."""
    found = Finding(f"plan {numerics}", engine="demi")
    session = demi.Session(subject.source.data, threads=THREADS, numerics=numerics)
    for feeds, want in zip(subject.feeds, subject.results(engines.OrtEngine)):
        for got in (session.run(None, feeds), session.run(None, feeds)):
            for y, y0 in zip(got, want):
                error, text = metric.float_error(y, y0, float(np.max(np.abs(y0))))
                found.error, found.problem = max(found.error, error), found.problem or text
    if not found.problem and found.error > PLAN_LIMIT:
        found.problem = f"error {found.error:.3g}, allowed {PLAN_LIMIT}"
    return found


def numbers(subject: Subject, low: Model, what: str, run: Run, judged: bool = True) -> Finding:
    """The conversion in an engine, beside the source in ONNX Runtime. What is not `judged` is told."""
    found = Finding(what, engine=what)
    made_by = {o: n.op_type for n in subject.proto.graph.node for o in n.output}
    halves = {v.name for v in low.proto.graph.input
              if engines.element_type(v.type) == TensorProto.FLOAT16}
    for feeds, want in zip(subject.feeds, subject.results(engines.OrtEngine)):
        got = run({k: metric.to_low(v, "float16") if k in halves else v for k, v in feeds.items()})
        if subject.name in real_uses.PICTURES and feeds is subject.feeds[-1]:
            found.problem = found.problem or answers_differ(subject.name, got[0], want[0])
            continue
        for y, y0, output in zip(got, want, subject.proto.graph.output):
            peak = 1.0 if made_by.get(output.name) in PROBABILITIES else 1e-30
            error, text = metric.float_error(np.asarray(y), np.asarray(y0), peak)
            found.error, found.problem = max(found.error, error), found.problem or text
    limit = metric.TOLERANCE["float16"]
    if not found.problem and found.error > limit:
        found.problem = f"error {found.error:.3g}, allowed {limit}"
    if not judged:
        found.problem, found.skip = "", found.problem or "told, not judged"
    return found


def judge(subject: Subject) -> Iterator[Finding]:
    for numerics in ("fast", "faithful"):
        yield source_plan(subject, numerics)
    for variant in (v for v in VARIANTS if v.to == "float16"):
        low = subject.convert(variant).model
        ratio = tensor_bytes(low.proto) / tensor_bytes(subject.proto)
        much = ratio > RATIO_OF.get(subject.name, RATIO)
        yield Finding(f"{variant} weights", f"they shrink to {ratio:.3f} only" if much else "", error=ratio)
        for engine in (engines.OrtEngine, engines.OrtOptimized):
            yield numbers(subject, low, f"{variant} {engine.name}", low.runner(engine).run)
        for numerics in ("fast", "faithful"):
            # A device that rounds every result is what nodes are chosen for by trial (--max-error).
            session = demi.Session(low.data, threads=THREADS, numerics=numerics)
            yield numbers(subject, low, f"{variant} demi {numerics}",
                          lambda feeds, s=session: s.run(None, feeds), numerics == "fast")
