# SPDX-License-Identifier: Apache-2.0
"""Plans that one library compiled run in another: libdemi_runtime_only.so, which has neither graphs nor the
file format. By the C functions alone, on copies of the inputs: what the Python package binds, and does not
copy, gives the same bits (judges/plans.py).
"""

import functools
import os
import pathlib
from collections.abc import Iterator

from demi_onnx._abi_functions import Library

from judges import Finding
from judges.plans import cases_of
from suite.package import demi, session
from suite.runtime import PlanRunner
from suite.subject import Subject, same_bits

KINDS = {"backend"}
EXTRA = True


@functools.cache
def library() -> Library:
    return Library(str(pathlib.Path(os.environ["DEMI_LIBRARY"]).with_name("libdemi_runtime_only.so")))


def judge(subject: Subject) -> Iterator[Finding]:
    try:
        plan = demi.compile(subject.source.data)
    except demi.DemiError:  # judges/plans.py's matter
        return
    if subject.draws:
        return
    for feeds, _ in cases_of(subject):
        got = PlanRunner(plan, library=library()).run(feeds)
        same = same_bits(got, session(subject.source.data).run(None, feeds))
        yield Finding("run", "" if same else "other results than with the whole library")
