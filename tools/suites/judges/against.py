# SPDX-License-Identifier: Apache-2.0
"""`check --against`: a conversion is its source but for precision, opsets raised where that helps.
(against_test.py shows that it finds what is more.)"""

from collections.abc import Iterator

from judges import Finding, first
from suite.package import demi
from suite.subject import Subject
from suite.variants import VARIANTS


def judge(subject: Subject) -> Iterator[Finding]:
    for variant in VARIANTS:
        made = subject.convert(variant).model
        yield Finding(str(variant), first(demi.check(made.data, against=subject.source.data)))
