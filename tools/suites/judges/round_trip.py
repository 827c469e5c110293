# SPDX-License-Identifier: Apache-2.0
"""What nothing changed is written as it was read: an empty pipeline, and a conversion with every node
excluded, give the same bytes, but for what demi repairs first. Doc strings, metadata and unknown fields of
every message survive a conversion.
"""

from collections.abc import Iterator

import onnx

from judges import Finding, first
from suite import preserve
from suite.package import demi
from suite.subject import Subject
from suite.variants import Variant


def judge(subject: Subject) -> Iterator[Finding]:
    same = subject.passes("").model is subject.source
    yield Finding("empty pipeline", "" if same else "other bytes than the input's")
    _, report = demi.run_passes(subject.source.data, "eliminate-dead-code")
    if any(remark.endswith(", before the passes") for remark in report.remarks):
        return
    for to in ("float16", "bfloat16"):
        made = subject.convert(Variant(to, "keep"), keep="*", allow_unmatched=True)
        yield Finding(f"excluded {to}", "" if made.model is subject.source else
                      "everything is excluded, yet the bytes differ from the input's")
    marked = onnx.ModelProto()
    marked.CopyFrom(subject.proto)
    preserve.mark(marked)
    data, _ = demi.convert(marked.SerializeToString(), to="float16")
    yield Finding("preserved", first(preserve.lost(marked, onnx.load_from_string(data))))
