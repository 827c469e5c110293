# SPDX-License-Identifier: Apache-2.0
"""The checked-in list of comparisons that are not made, each by name with its reason.

exceptions.tsv has four columns: model and what is judged (glob patterns; the latter is the judge's name
and the variant, such as "numbers float16/low"), class, reason. Classes:
  no-engine         neither engine runs the source (the judge checks that this is so)
  nondeterministic  the operator draws random numbers, so that outputs can't be compared
  rounding          with low I/O the source itself, its inputs and outputs rounded the same way,
                    gives what the converted model gives (the judge checks that this is so)
  discontinuous     the outputs jump where an inner value is rounded, so that an integer, a
                    comparison or an index may differ without a fault
  engine            the engine's own kernel is at fault; the reason says how
  data              the published output is wrong; the reason says how
  operator          demi does not run the operator
An entry that excuses nothing is a failure too, so that the list can't outlive its causes; but for
those of random numbers, which may agree by chance.
"""

import dataclasses
import fnmatch
import functools
import pathlib

CLASSES = {"no-engine", "rounding", "nondeterministic", "discontinuous", "engine", "data", "operator"}
PATH = pathlib.Path(__file__).with_name("exceptions.tsv")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of the list."""

    model: str
    what: str
    kind: str
    reason: str

    def key(self) -> str:
        return f"{self.model} {self.what} {self.kind}"


@functools.cache
def load() -> list[Entry]:
    """The entries; lines that begin with # are comments."""
    lines = [line for line in PATH.read_text().splitlines() if line and not line.startswith("#")]
    entries = [Entry(*line.split("\t")) for line in lines]
    for entry in entries:
        if entry.kind not in CLASSES or not entry.reason:
            raise ValueError(f"exceptions.tsv: {entry}: unknown class or no reason")
    return entries


def find(model: str, what: str, kinds: set[str]) -> Entry | None:
    """The first entry of one of these classes that covers it."""
    return next((e for e in load() if e.kind in kinds and fnmatch.fnmatchcase(model, e.model) and
                 fnmatch.fnmatchcase(what, e.what)), None)


def stale(used: set[str], judges: set[str]) -> list[str]:
    """Entries for these judges that excused nothing. One for any judge is for `numbers` and `plans`."""
    def is_for(entry: Entry) -> bool:
        name = entry.what.split()[0]
        return {"numbers", "plans"} <= judges if name == "*" else name in judges

    return [f"exceptions.tsv: excuses nothing: {e.key()}" for e in load()
            if e.key() not in used and e.kind != "nondeterministic" and is_for(e)]
