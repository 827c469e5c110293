# SPDX-License-Identifier: Apache-2.0
"""The operators whose kernels are rows of kernels/unary.def: tests that take every elementwise operator add these to
their lists, so that a new one needs no line there."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]


def operators() -> list[str]:
    """Names of the operators with a KERNEL row of such a function, in the order of the rows."""
    functions = re.findall(r"^UNARY_FUNCTION\((\w+),", (ROOT / "kernels/unary.def").read_text(), re.M)
    blocks = [block for path in sorted((ROOT / "rewrite/base/operators").glob("*.def"))
              for block in re.split(r"\nOPERATOR\(\w+, ", path.read_text())[1:]]
    owner = {kernel: re.match(r"\w+", block)[0] for block in blocks  # type: ignore[index]
             for kernel in re.findall(r"KERNEL\(\d+, (\w+)", block)}
    return [owner[function] for function in functions if function in owner]
