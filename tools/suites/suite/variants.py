# SPDX-License-Identifier: Apache-2.0
"""The ways of converting that suites try: to either 16-bit type, with the types of the graph's inputs
and outputs kept or low."""

import dataclasses


@dataclasses.dataclass(frozen=True, order=True)
class Variant:
    """One way to convert: the target dtype and whether graph I/O keeps its types."""

    to: str
    io: str

    def __str__(self) -> str:
        return f"{self.to}/{self.io}"


VARIANTS = [Variant(to, io) for to in ("float16", "bfloat16") for io in ("keep", "low")]
