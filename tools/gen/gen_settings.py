#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what demi.h names of the settings of a conversion: the choices of each, as the rows of
policy.def have them, behind the DEMI_…_DEFAULT = 0 of their enumeration.

    tools/gen/gen_settings.py            writes
    tools/gen/gen_settings.py --check    says where it is not what it would write; exit 1
"""
import argparse
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = ROOT / "passes/policy.def"
HEADER = ROOT / "passes/front/demi.h"
WIDTH = 100

STRINGS = r'((?:"(?:[^"\\]|\\.)*"[\s\\]*)+)'
CHOICE = re.compile(rf'(?:FIRST|NEXT)\((DEMI_\w+), "([\w-]+)", "[^"]*",[\s\\]*{STRINGS}(?:,\s*\w+)*\)')


def text_of(literals: str) -> str:
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))


def choices(rows: str) -> dict[str, list[tuple[str, str]]]:
    """By id of the setting: constants and what they do, the default's marked."""
    found = {}
    for name, body in re.findall(r"^#define CHOICES_(\w+)\(.*?\) \\\n((?:.*\\\n)*.*)\n", rows, re.M):
        default = re.search(rf"^CHOICE_SETTING\({name}, \w+, \"\w+\", \w+, (\w+),", rows, re.M)
        if default: # others are not demi.h's
            found[name] = [(constant, ("default: " if constant == default[1] else "") + text_of(says))
                           for constant, _, says in CHOICE.findall(body)]
    return found


def enumerators(items: list[tuple[str, str]]) -> str:
    """One a line, the comments in a column."""
    heads = [f"    {constant} = {i}," for i, (constant, _) in enumerate(items, 1)]
    column = max(map(len, heads)) + 1
    lines = []
    for head, (_, says) in zip(heads, items):
        wrapped = textwrap.wrap(f"/* {says}@*/", WIDTH - column, break_on_hyphens=False,
                                subsequent_indent="   ") # @: a space that no line ends at
        lines.append(f"{head:{column}}" + f"\n{'':{column}}".join(wrapped).replace("@", " ") + "\n")
    return "".join(lines)


def generate(rows: str, header: str) -> str:
    for name, items in choices(rows).items():
        header, count = re.subn(rf"(    DEMI_{name}_DEFAULT = 0,.*\n)(?:.*\n)*?(\}} Demi)",
                                lambda m, new=enumerators(items): m[1] + new + m[2], header)
        if count != 1:
            raise SystemExit(f"{HEADER.name}: no enumeration begins with DEMI_{name}_DEFAULT = 0")
    return header


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    have = HEADER.read_text(encoding="utf-8")
    want = generate(ROWS.read_text(encoding="utf-8"), have)
    if not args.check:
        HEADER.write_text(want, encoding="utf-8")
    elif want != have:
        sys.exit(f"FAIL {HEADER.name} is not what tools/gen/gen_settings.py writes from {ROWS.name}")


if __name__ == "__main__":
    main()
