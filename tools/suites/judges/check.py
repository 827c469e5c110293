# SPDX-License-Identifier: Apache-2.0
"""`demi check` beside ONNX's full check and strict inference, on models that are right and wrong: the
subject or a conversion of it, and mutants (suite/mutate.py: types, dims, attributes, operands, branches,
names, opsets, …). Where one refuses what the other takes, suite/check_reasons.tsv has to say why; what it
does not is a failure, and so is a valid source that demi refuses.

ONNX's checks may end the process; then the subject comes once more, `alone`, and only demi is asked.

Passes are not silent about it: of a model that demi refuses they write a valid one, which they have
repaired, or nothing.

Mutants of conversions are also held against their source: what `check --against` lets pass is a valid
model that computes what the conversion does.
"""

import zlib
from collections.abc import Iterator

import numpy as np
import onnx

from judges import Finding
from suite import check_reasons, mutate, validity
from suite.model import Model
from suite.package import demi
from suite.subject import Subject
from suite.variants import VARIANTS

KINDS = {"backend", "graph", "operator", "style"}
MUTANTS, TRIES = 8, 32  # of a subject; not every change suits every model
NEWEST = onnx.defs.onnx_opset_version()
TWICE = 0.15  # how many of them are changed in two places
SMALL = 100_000  # bytes of a subject
# A cast more, or a weight in the other 16-bit type, is a matter of precision.
PRECISION = {"cast_added", "body_cast", "tensor_retyped", "declared_element"}


def fault(model: Model, against: Model | None = None) -> str:
    """What demi's check says, or ""."""
    try:
        found = demi.check(model.data, against=against and against.data)
    except demi.DemiError as error:
        return str(error)
    return found[0] if found else ""


def both(what: str, model: Model) -> Finding:
    """Both verdicts on a model."""
    said, other = fault(model), check_reasons.cause(model.fault)
    if bool(other) == bool(said):
        return Finding("both refuse" if said else "both take")
    notes = check_reasons.notes(model.proto)
    side, text = ("ONNX", other + notes) if other else ("demi", said + notes)
    found = Finding(f"{side} alone refuses")
    sound = what == "none" and side == "demi"  # a source that ONNX takes: nothing excuses that
    if sound or not check_reasons.find(check_reasons.load(), side, text):
        found.problem = f"{what}: {side} alone refuses: {text}"
    return found


TAKEN = ("without type or shape", "deprecated", "newer than this demi supports")  # what passes mind less
PASSES = {"convert": lambda data: demi.convert(data, to="bfloat16"), "simplify": demi.simplify,
          "casts": lambda data: demi.run_passes(data, "strip-casts"),
          "quantize": lambda data: demi.convert(data, to="int8-weights")}


def silence(what: str, model: Model) -> Finding:
    """What passes make of a model that demi refuses."""
    which = list(PASSES)[zlib.crc32(model.data) % len(PASSES)]
    try:
        made, report = PASSES[which](model.data)
    except demi.DemiError:
        return Finding("refused by passes")
    found = Finding("repaired by passes")
    if (left := fault(Model(made))) and not any(word in left for word in TAKEN):
        found.problem = f"{what}: {which} writes what check refuses: {left}"
    return found


def against(what: str, mutant: Model, low: Model, source: Model) -> Finding:
    """A mutant of a conversion that passes for one of the source."""
    if fault(mutant, source):
        return Finding("against: refused")
    other = check_reasons.cause(mutant.fault)
    found = Finding("against: passes")
    if other and not check_reasons.find(check_reasons.load(), "ONNX",
                                        other + check_reasons.notes(mutant.proto)):
        found.problem = f"{what}: passes for a conversion, and ONNX says: {other}"
    elif not other and what not in PRECISION:
        try:
            beyond = demi.compare(low.data, mutant.data, inputs={"seed": 1}, max_error=0).beyond
        except demi.DemiError:
            beyond = 0
        found.problem = f"{what}: passes for a conversion, and computes something else" if beyond else ""
    return found


def mutants(rng: np.random.Generator, model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    made = 0
    for _ in range(TRIES):
        if made == MUTANTS:
            return
        one = mutate.mutant(rng, model)
        if one and rng.random() < TWICE and (more := mutate.mutant(rng, one[1])):
            one = (f"{one[0]}+{more[0]}", more[1])
        if one:
            made += 1
            yield one


def judge(subject: Subject) -> Iterator[Finding]:
    if len(subject.source.data) > SMALL:
        return
    rng, base = np.random.default_rng(subject.number), subject.source
    if rng.random() < 0.5:
        base = subject.convert(VARIANTS[rng.integers(len(VARIANTS))]).model
    yield both("none", base)
    for what, proto in mutants(rng, base.proto):
        mutant = Model(proto.SerializeToString())
        if subject.alone:
            fault(mutant)
            continue
        yield (verdict := both(what, mutant))
        newer = any(o.version > NEWEST for o in proto.opset_import)  # its operators are not known
        if verdict.what in ("both refuse", "demi alone refuses") and not newer:
            yield silence(what, mutant)
        if base is not subject.source and not base.fault and mutant.data != base.data:
            yield against(what, mutant, base, subject.source)


def end(findings: list[tuple[str, Finding]]) -> list[str]:
    seen = {f.what for _, f in findings}
    return [f"no mutant is of the sort '{what}'" for what in
            ("both refuse", "both take", "refused by passes", "repaired by passes", "against: refused",
             "against: passes") if what not in seen]
