# SPDX-License-Identifier: Apache-2.0
"""Models that show each sort of reason, and what their nodes say."""

import dataclasses

from suite.command import Variant


@dataclasses.dataclass(frozen=True)
class Case:
    title: str
    text: str
    want: dict[str, tuple[str, str]]  # node -> (kind, reason)
    variant: Variant = Variant("float16", "keep")
    options: tuple[str, ...] = ()
    mincut: bool = False


CASES: list[Case] = []
