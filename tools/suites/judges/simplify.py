# SPDX-License-Identifier: Apache-2.0
"""`simplify`: the result is valid by ONNX's full check where the source is, keeps inputs, outputs and
metadata, has no more nodes, is no larger unless a note says so, computes the very bits that the source
computes, and stays as it is when it is simplified again. With --inexact the numbers need only be near.

ONNX Runtime computes both, its optimizations off and without weights that it packs in advance. Where it
differs on 16-bit floats, ONNX's reference evaluator decides.
"""

from collections.abc import Iterator

import numpy as np
import onnx

from judges import Finding
from suite import engines, walk
from suite.model import Model
from suite.package import demi
from suite.subject import Made, Subject, same_bits

TOLERANCE = 1e-3
HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def has_half(model: Model) -> bool:
    """16-bit floats, anywhere: ONNX Runtime computes them in float, and which of the casts that it puts
    in for that it leaves out again depends on the nodes around."""
    given = onnx.shape_inference.infer_shapes(model.proto).graph
    return any(engines.element_type(v.type) in HALVES
               for v in [*given.input, *given.output, *given.value_info])


def near(a: object, b: object) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(near(x, y) for x, y in zip(a, b))
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        return same_bits(a, b)
    return a.shape == b.shape and np.allclose(a, b, TOLERANCE, TOLERANCE, equal_nan=True)


def structure(source: Model, result: Made) -> str:
    made, totals = result.model, result.raw.totals
    a, b = source.proto, made.proto
    for kind in ("input", "output", "metadata_props"):
        one, two = ([v.SerializeToString() for v in getattr(m if kind == "metadata_props" else m.graph, kind)]
                    for m in (a, b))
        if one != two:
            return f"another {kind}"
    if len(a.functions) != len(b.functions):
        return "other functions"
    if len(list(walk.model_nodes(b))) > len(list(walk.model_nodes(a))):
        return "more nodes"
    noted = totals.bytes_after > totals.bytes_before  # the command says so
    if len(made.data) > len(source.data) and not noted:
        return f"larger by {len(made.data) - len(source.data)} bytes"
    return f"not valid: {made.check}" if made.check and not source.check else ""


def compare(subject: Subject, made: Model, engine: type, same: object) -> Finding | None:
    """None where the engine does not run the source."""
    found = Finding("", engine=engine.name)
    try:
        want = subject.results(engine)
    except engines.CannotRun:
        return None
    try:
        got = made.run(engine, subject.feeds)
    except engines.CannotRun as error:
        found.problem = f"does not run any more: {error}"
        return found
    found.problem = "" if all(map(same, want, got)) else "other results"
    return found


def numbers(subject: Subject, made: Model, inexact: bool) -> Finding:
    if subject.draws or any(n.op_type == "Dropout" for n in walk.model_nodes(subject.proto)):
        return Finding("", skip="it draws random numbers")
    same = near if inexact else same_bits
    found = compare(subject, made, engines.OrtUnpacked, same)
    if found and found.problem == "other results" and has_half(subject.source):
        found = compare(subject, made, engines.ReferenceEngine, same)
    return found or Finding("", skip="the source is not run")


def one(subject: Subject, inexact: bool) -> Finding:
    what = "inexact" if inexact else "exact"
    try:
        result = subject.simplify(inexact=inexact)
    except demi.DemiError as error:
        return Finding(what, skip=f"refused: {error}" if subject.source.check else "",
                       problem="" if subject.source.check else str(error))
    made = result.model
    if made is subject.source:
        return Finding(what, engine="identical")
    problem = structure(subject.source, result)
    if not problem and subject.simplify(made, inexact).model is not made:
        problem = "a second time it changes more"
    if problem:
        return Finding(what, problem)
    found = numbers(subject, made, inexact)
    found.what = what
    return found


def judge(subject: Subject) -> Iterator[Finding]:
    yield one(subject, False)
    if subject.number % 3 == 0:
        yield one(subject, True)


def end(findings: list[tuple[str, Finding]]) -> list[str]:
    ran = any(f.engine == engines.OrtUnpacked.name for _, f in findings)
    return [] if ran else ["nothing was changed and run"]
