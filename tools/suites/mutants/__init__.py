# SPDX-License-Identifier: Apache-2.0
"""Lists of mutants, AREA_mutants.py each: changes that a careful programmer might make by mistake. Each is
one that compiles without a warning and that some test has to see; ../mutants.py makes and tries them.

`old` is in the file exactly once. `tests` is a hint: names of the tests (of ctest) that are expected to see
it, which are tried first: those of the tier. They may have wildcards: corpus* is each tier's run of it.
"""

import dataclasses
import importlib
import pathlib

END = "_mutants"
AREAS = tuple(sorted(path.stem.removesuffix(END) for path in pathlib.Path(__file__).parent.glob(f"*{END}.py")))


@dataclasses.dataclass(frozen=True)
class Mutant:
    what: str
    file: str
    old: str
    new: str
    tests: str = ""
    sanitizer: bool = False  # a sanitizer has to see it: it is tried with the debug build
    families: str = ""  # of a header of kernels/cuda: the kernels that include it


def mutants_of(area: str) -> tuple[Mutant, ...]:
    return importlib.import_module(f"mutants.{area}{END}").MUTANTS
