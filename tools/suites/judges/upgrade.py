# SPDX-License-Identifier: Apache-2.0
"""upgrade-opset raises every model below the newest opset to that, to the newest one that ONNX Runtime
runs, and by `for=bfloat16`. The result is valid by ONNX's full check and strict inference wherever the
source is, keeps inputs and outputs, and computes what the source computes: in ONNX Runtime where it
runs both models, else in the reference evaluator. A conversion to bfloat16 with --opset auto is valid.
(upgrade_test.py has models for every kind of step between operator versions.)
"""

from collections.abc import Iterator

import onnx

from judges import Finding, first
from suite import engines, metric, opsets, validity
from suite.model import Model
from suite.package import demi
from suite.subject import Subject, same_bits
from suite.variants import Variant

KINDS = {"backend", "real"}
NEWEST, ORT_NEWEST = 28, 26
TOLERANCE = 1e-5


def same_interface(got: onnx.ModelProto, want: onnx.ModelProto) -> str:
    for kind in ("input", "output"):
        a, b = getattr(got.graph, kind), getattr(want.graph, kind)
        if [v.SerializeToString() for v in a] != [v.SerializeToString() for v in b]:
            return f"another {kind}"
    return ""


def numbers(subject: Subject, raised: Model, found: Finding) -> None:
    """The results, in the first engine that runs both. Real models run in demi: ONNX's evaluator is
    wrong about some of their older operators."""
    if subject.kind == "real":
        found.engine = "demi"
        same = same_bits(*([demi.Session(model.data).run(None, feeds) for feeds in subject.feeds]
                           for model in (subject.source, raised)))
        found.problem = "" if same else "other results"
        return
    reasons = []
    for engine in engines.ENGINES:
        try:
            want, got = subject.results(engine), raised.run(engine, subject.feeds)
        except engines.CannotRun as error:
            reasons.append(f"{engine.name}: {error}")
            continue
        found.engine = engine.name
        for a, b in zip(got, want):
            for x, y, value in zip(a, b, subject.proto.graph.output):
                error, text = metric.compare(x, y, TOLERANCE, value.name)
                found.error, found.problem = max(found.error, error), found.problem or text
        return
    found.skip = "; ".join(reasons)


def one(subject: Subject, wanted: str) -> Finding:
    raised = subject.passes(f"upgrade-opset{{{wanted}}}").model
    problems = validity.problems(raised, subject.source)
    problems += [text] if (text := same_interface(raised.proto, subject.proto)) else []
    found = Finding(wanted, first(problems))
    if not problems and raised is not subject.source and not subject.draws:
        numbers(subject, raised, found)
    return found


def judge(subject: Subject) -> Iterator[Finding]:
    opset = opsets.default_opset(subject.proto.opset_import)
    if not 0 < opset < NEWEST:
        return
    for wanted in [f"to={n}" for n in (ORT_NEWEST, NEWEST) if n > opset] + ["for=bfloat16"]:
        yield one(subject, wanted)
    made = subject.convert(Variant("bfloat16", "keep"), opset="auto").model
    yield Finding("convert auto", first(validity.problems(made, subject.source)))
