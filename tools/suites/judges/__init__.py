# SPDX-License-Identifier: Apache-2.0
"""The judges of the corpus run (corpus_test.py): each file here is one, found by its name.

A judge has `judge(subject)`, which yields a Finding for each thing that it looked at, and may have
  KINDS           the kinds of subjects that it judges (suite/subject.py); without it all
  EXTRA           True: it runs only where it is asked for by name (--judges)
  end(findings)   what is wrong with all of them together, one line each; called with (subject's name,
                  Finding) pairs of all of END_KINDS (ONNX's models, if it has none), where all were judged
What demi refuses raises DemiError; a judge that expects no refusal lets it through, which is a failure.
"""

import dataclasses
import importlib
import pathlib
import types


@dataclasses.dataclass
class Finding:
    """One thing that was judged of one subject."""

    what: str  # which thing: a variant, a way of running
    problem: str = ""
    skip: str = ""  # why it was not judged
    engine: str = "-"  # what computed the numbers
    error: float = 0.0
    used: str = ""  # the exception that excused it
    totals: dict[str, int] = dataclasses.field(default_factory=dict)

    def status(self) -> str:
        return "FAIL" if self.problem else "skip" if self.skip else "ok"


def names() -> list[str]:
    return sorted(p.stem for p in pathlib.Path(__file__).parent.glob("*.py") if p.stem != "__init__")


def load(name: str) -> types.ModuleType:
    return importlib.import_module(f"judges.{name}")


def first(problems: list[str]) -> str:
    """All problems of one thing as the text of a finding."""
    return " | ".join(problems)
