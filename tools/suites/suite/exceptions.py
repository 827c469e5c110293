# SPDX-License-Identifier: Apache-2.0
"""The checked-in list of comparisons that are not made, each by name with its reason.

exceptions.tsv has four columns: model, variant (`to/io`, * matches any), class, reason. Classes:
  no-engine         neither engine runs the source (the suite checks that this is so)
  nondeterministic  the operator draws random numbers, so that outputs can't be compared
  rounding          with low I/O the source itself, its inputs and outputs rounded the same way,
                    gives what the converted model gives (the suite checks that this is so)
  discontinuous     the outputs jump where an inner value is rounded, so that an integer, a
                    comparison or an index may differ without a fault
  engine            the engine's own kernel is at fault; the reason says how
An entry that excuses nothing is a failure too, so that the list can't outlive its causes.
"""

import fnmatch
import pathlib

CLASSES = {"no-engine", "rounding", "nondeterministic", "discontinuous", "engine"}
PATH = pathlib.Path(__file__).with_name("exceptions.tsv")


class Entry:
    """One line of the list; used is set once it excused something."""

    def __init__(self, line: str) -> None:
        self.model, self.variant, self.kind, self.reason = line.rstrip("\n").split("\t")
        if self.kind not in CLASSES or not self.reason:
            raise ValueError(f"exceptions.tsv: {line!r}: unknown class or no reason")

    def key(self) -> str:
        return f"{self.model}\t{self.variant}\t{self.kind}"

    def covers(self, model: str, variant: str) -> bool:
        return model == self.model and fnmatch.fnmatchcase(variant, self.variant)


def load(path: pathlib.Path = PATH) -> list[Entry]:
    """The entries; lines that begin with # are comments."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [Entry(line) for line in lines if line and not line.startswith("#")]
