# SPDX-License-Identifier: Apache-2.0
"""Files of a library may call each other in one direction: what each object file takes of others,
by nm, has no cycles, but for those of LOOPS, which are as they are for a reason.

    tools/suites/cycles_test.py build/release/libdemi_*.a

An entry of LOOPS that excuses nothing is a failure. `--self-test` shows that cycles are found.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

NESTED = "nodes hold attributes, which hold graphs of nodes"
LOOPS = {
    ("export_graph", "export_node"): NESTED,
    ("import_graph", "import_node"): NESTED,
    ("text_parse_attr", "text_parse_graph"): NESTED,
    ("policy", "policy_text"): "a base may be a file; what a file says is named as options are",
}
SYMBOL = re.compile(r".*:([^:]+)\.c\.o:\s*[0-9a-f]*\s+(\w) (\S+)")


def links_of(lines: list[str]) -> dict[str, set[str]]:
    """Which files each file takes symbols of, from the lines of `nm -A`."""
    defined, wanted = {}, collections.defaultdict(set)
    for match in filter(None, map(SYMBOL.fullmatch, lines)):
        name, kind, symbol = match.groups()
        if kind == "U":
            wanted[name].add(symbol)
        elif kind.isupper():
            defined[symbol] = name
    return {name: {defined[s] for s in symbols if s in defined} - {name}
            for name, symbols in wanted.items()}


def reached(links: dict[str, set[str]], start: str) -> set[str]:
    seen, open_ = set(), [start]
    while open_:
        for name in links.get(open_.pop(), ()):
            if name not in seen:
                seen.add(name)
                open_.append(name)
    return seen


def cycles(links: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Files that reach each other, as sorted groups."""
    reach = {name: reached(links, name) for name in links}
    return {tuple(sorted(other for other in reach[name] if name in reach.get(other, ())))
            for name in links if name in reach[name]}


def self_test() -> list[str]:
    lines = ["l.a:a.c.o:0000000000000000 T fa", "l.a:a.c.o:                 U fb",
             "l.a:b.c.o:0000000000000000 T fb", "l.a:b.c.o:                 U fc",
             "l.a:c.c.o:0000000000000010 T fc", "l.a:c.c.o:0000000000000000 t fb",
             "l.a:d.c.o:                 U fa"]
    wrong = [] if cycles(links_of(lines)) == set() else ["self-test: a cycle where none is"]
    found = cycles(links_of([*lines, "l.a:c.c.o:                 U fa"]))
    return wrong if found == {("a", "b", "c")} else [*wrong, f"self-test: found {found}"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Looks for files that call each other.")
    parser.add_argument("archives", nargs="+", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    found, files, failures = set(), 0, self_test() if args.self_test else []
    for archive in args.archives:
        lines = subprocess.run(["nm", "-A", archive], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        links = links_of(lines)
        files += len(links)
        found |= cycles(links)
    failures += [f"these call each other: {' '.join(group)}" for group in sorted(found - set(LOOPS))]
    failures += [f"no longer call each other: {' '.join(group)}"
                 for group in sorted(set(LOOPS) - found)]
    print(*failures, f"cycles_test: {files} files, {len(failures)} failures", sep="\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
