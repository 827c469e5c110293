# SPDX-License-Identifier: Apache-2.0
"""Reads tools/suites/tests.tsv, whose head says what its columns are."""

import dataclasses
import fnmatch
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[1] / "tests.tsv"
TIERS = ("quick", "commit", "nightly")
BUILDS = ("release", "debug", "fuzz", "tsan")


@dataclasses.dataclass(frozen=True)
class Row:
    """One line. `program` is "" for compiled tests, whose `name` is a glob."""

    name: str
    tiers: tuple[str, ...]
    builds: tuple[str, ...]
    needs: str
    program: str
    arguments: str
    why: str

    def covers(self, test: str, build: str) -> bool:
        return build in self.builds and fnmatch.fnmatchcase(test, self.name)


def read(text: str) -> list[Row]:
    rows = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, tiers, builds, needs, _, _, program, arguments, *why = line.split("\t")
            rows.append(Row(name, tuple(tiers.split(",")), tuple(builds.split(",")), needs,
                            "" if program == "-" else program, arguments, why[0] if why else ""))
    return rows
