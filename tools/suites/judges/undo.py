# SPDX-License-Identifier: Apache-2.0
"""Conversions can be repeated and undone, to every variant and by the other placement of casts:
  repeat  converting twice writes the same bytes;
  again   converting what was converted, with the same options, writes the bytes that it read;
  undo    strip-casts after a conversion that keeps the parameters and the opset gives back the
          source's bytes;
  back    strip-casts after a conversion that stores parameters in 16 bit, once or beside the float
          ones, gives a model that ONNX's full check and strict inference take, and, where the opset
          is kept, the source's but for the numbers of its constants.
"""

from collections.abc import Iterator

from judges import Finding
from suite import blank
from suite.model import Model
from suite.package import demi
from suite.subject import Subject
from suite.variants import VARIANTS

# As `demi convert --parameters runtime` does it, but for the placement.
GREEDY = ("infer-dtypes,infer-shapes,insert-casts{to=float16,placement=greedy},move-casts,"
          "fuse-casts{own=true}")


def difference(want: Model, got: Model) -> str:
    """The first thing that differs, or ""."""
    if got is want:
        return ""
    found = demi.diff(want.data, got.data, strict=True)
    return f"{found[0]}" if found else "other bytes, of the same model"


def back(subject: Subject, low: Model, to: str) -> str:
    stripped, source = subject.passes("strip-casts", low).model, subject.source
    if stripped.fault and not source.fault:
        return stripped.fault
    if to != "float16" or blank.casts_constants(source.proto):  # raised opsets stay
        return ""
    return blank.difference(source.proto, stripped.proto)


def judge(subject: Subject) -> Iterator[Finding]:
    strip = "strip-casts"
    for variant in VARIANTS:
        low = subject.convert(variant).model
        twice, _ = demi.convert(subject.source.data, to=variant.to, io=variant.io, source="float32")
        yield Finding(f"{variant} repeat", "" if twice == low.data else "other bytes than before")
        yield Finding(f"{variant} again", difference(low, subject.convert(variant, low).model))
        low = subject.convert(variant, parameters="runtime", opset="keep").model
        yield Finding(f"{variant} undo", difference(subject.source, subject.passes(strip, low).model))
        for parameters in ("offline", "both"):
            low = subject.convert(variant, parameters=parameters).model
            yield Finding(f"{variant} {parameters} back", back(subject, low, variant.to))
    low = subject.passes(GREEDY).model
    yield Finding("greedy again", difference(low, subject.passes(GREEDY, low).model))
    yield Finding("greedy undo", difference(subject.source, subject.passes(strip, low).model))
