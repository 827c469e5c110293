# SPDX-License-Identifier: Apache-2.0
"""No function of the libraries goes without a caller: by nm, each that is not static is wanted by
another file of the build (its tests count), or it is public.

    tools/suites/unused_test.py --build build/release build/release/libdemi_*.a

What only its own file calls should be static, what nobody calls should go. TABLES lists functions
that a table of their own file holds. `--self-test` shows that both are found. The build has to be
whole: callers that were not compiled are not seen.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLIC = re.compile(r"demi_\w+")
# exec_operators.h declares what the EXEC rows of operators list, in whichever file it is.
TABLES = re.compile(r"exec_\w+")
SYMBOL = re.compile(r"(.*):\s*[0-9a-f]*\s+(\w) (\S+)")
BATCH = 200


def symbols(lines: list[str]) -> tuple[dict[str, str], set[str]]:
    """(file by function defined, functions wanted of other files) from the lines of `nm -A`."""
    defined, wanted = {}, set()
    for match in filter(None, map(SYMBOL.fullmatch, lines)):
        place, kind, symbol = match.groups()
        if kind == "T":
            defined[symbol] = place.rpartition("/")[2]
        elif kind == "U":
            wanted.add(symbol)
    return defined, wanted


def unused(defined: dict[str, str], wanted: set[str]) -> list[str]:
    return [f"{place}: no other file calls {name}" for name, place in sorted(defined.items())
            if name not in wanted and not PUBLIC.fullmatch(name) and not TABLES.fullmatch(name)]


def nm(files: list[pathlib.Path]) -> list[str]:
    lines: list[str] = []
    for i in range(0, len(files), BATCH):
        lines += subprocess.run(["nm", "-A", *files[i:i + BATCH]], check=True,
                                capture_output=True, text=True).stdout.splitlines()
    return lines


def callers(build: pathlib.Path) -> list[pathlib.Path]:
    """The build's object files, but for those whose source is there no more."""
    def source(path: pathlib.Path) -> str:
        return str(path).partition(".dir/")[2].removesuffix(".o")
    return [path for path in sorted(build.rglob("*.o"))
            if (ROOT / source(path)).is_file() or (build / source(path)).is_file()]


def self_test() -> list[str]:
    lines = ["l.a:a.c.o:0000000000000000 T fa", "l.a:a.c.o:0000000000000010 T fb",
             "l.a:a.c.o:0000000000000020 t own", "l.a:a.c.o:0000000000000030 T demi_open",
             "l.a:b.c.o:                 U fa"]
    found = unused(*symbols(lines))
    return [] if found == ["l.a:a.c.o: no other file calls fb"] else [f"self-test: found {found}"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Looks for functions that nobody calls.")
    parser.add_argument("archives", nargs="+", type=pathlib.Path, help="whose functions")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where callers are")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    defined, _ = symbols(nm(args.archives))
    _, wanted = symbols(nm(callers(args.build)))
    failures = unused(defined, wanted) + (self_test() if args.self_test else [])
    print(*failures, f"unused_test: {len(defined)} functions, {len(failures)} failures", sep="\n")
    sys.exit(1 if failures or not wanted else 0)


if __name__ == "__main__":
    main()
