# SPDX-License-Identifier: Apache-2.0
"""clang has nothing to say of any C file of the tree: each is parsed with the options that the build
has for it, warnings as errors, and no code is made.

    tools/suites/clang_warnings.py --build build/release [--clang clang] [--self-test]

The build has to be there, as headers are made in it, by whichever compiler. A file that it does not
compile has the options of one beside it. `--self-test` shows that a warning is found, with its line.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = re.compile(r"-(?:[IDUWm]|std=|f(?!sanitize)).*")
WITH_WORD = {"-isystem", "-include"}


def options_of(command: str) -> list[str]:
    """What of a compiler's command says how a file is to be read, and which warnings are wanted."""
    words = shlex.split(command)
    found = [w for w in words if OPTIONS.fullmatch(w)]
    for i, word in enumerate(words):
        if word in WITH_WORD:
            found += words[i:i + 2]
    return found


def all_options(build: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """The options for each C file of the tree."""
    compiled: dict[pathlib.Path, list[str]] = {}
    beside: dict[pathlib.Path, list[str]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        compiled[path] = options_of(entry["command"])
        beside.setdefault(path.parent, compiled[path])
    tops = [p for p in sorted(ROOT.iterdir()) if p.is_dir() and p.name != "build" and p.name[0] != "."]
    return {path: compiled.get(path) or beside[path.parent]
            for top in tops for path in sorted(top.rglob("*.c"))}


def warnings(clang: str, path: pathlib.Path, options: list[str]) -> list[str]:
    done = subprocess.run([clang, "-fsyntax-only", "-fno-caret-diagnostics", *options, "-Werror", str(path)],
                          check=False, capture_output=True, text=True, cwd=ROOT)
    said = [line for line in done.stderr.splitlines() if re.search(r": (fatal )?error: ", line)]
    said = said or ([f"{path}: {clang}: {done.stderr}"] if done.returncode else [])
    return [line.replace(f"{ROOT}/", "") for line in said]


def self_test(clang: str, options: list[str]) -> list[str]:
    """With the options of one of the tree's files."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "wrong.c"
        path.write_text("int half(long x);\n\nint half(long x) {\n    return x / 2;\n}\n")
        found = warnings(clang, path, options)
    seen = len(found) == 1 and f"{path}:4:" in found[0] and "-Wshorten-64-to-32" in found[0]
    return [] if seen else [f"self-test: found {found}"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Looks for warnings of clang's.")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="whose options, and headers")
    parser.add_argument("--clang", default="clang")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    files = all_options(args.build.resolve())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda item: warnings(args.clang, *item), files.items())
        failures = [line for lines in found for line in lines]
    if args.self_test:
        failures += self_test(args.clang, files[ROOT / "rewrite/base/arena.c"])
    print(*failures, f"clang_warnings: {len(files)} files, {len(failures)} failures", sep="\n")
    sys.exit(1 if failures or not files else 0)


if __name__ == "__main__":
    main()
