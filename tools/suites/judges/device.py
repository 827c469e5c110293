# SPDX-License-Identifier: Apache-2.0
"""Backend models on a CUDA device, as judges/plans.py runs them on the processor: as they are, and
converted to either 16-bit type with low inputs and outputs. With tools/fake_cuda in LD_LIBRARY_PATH what
runs are the kernels' instructions. Where there is no device, that is a failure: the run is asked for it.
"""

from collections.abc import Iterator

from judges import Finding
from judges.plans import Way, differs, differs_low
from suite.subject import Subject
from suite.variants import Variant

KINDS = {"backend"}
EXTRA = True


def judge(subject: Subject) -> Iterator[Finding]:
    yield Way(subject, subject.source, differs, device="cuda").finding("source device")
    for to in ("float16", "bfloat16"):
        variant = Variant(to, "low")
        made = subject.convert(variant).model
        if made is not subject.source:
            yield Way(subject, made, differs_low(to), variant, numerics="faithful",
                      device="cuda").finding(str(variant))
