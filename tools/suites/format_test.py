# SPDX-License-Identifier: Apache-2.0
"""Checks how sources look: C as clang-format 14 writes it, what a file is for at its top, and American spelling.

clang-format is that of Debian 12 (other versions break lines elsewhere); tools/test installs it. A
source begins with its SPDX line and a comment or docstring, a generated table with the comment that
says what wrote it. --fix formats instead of checking; --self-test shows that each check can fail.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "14"
FORMATTED = {".c", ".h"}
SPDX = "SPDX-License-Identifier: Apache-2.0"
GENERATED = r"/\* (?:(?!\*/).)*do not edit"
HEADS = {kind: re.compile(rf"// {SPDX}\n/\* \S|{GENERATED}", re.S)
         for kind in (".c", ".h", ".inc", ".def", ".js")}
HEADS[".py"] = re.compile(rf"(?:#!.*\n)?# {SPDX}\n\"\"\"\S")
HEADS[".sh"] = re.compile(rf"(?:#!.*\n)?# {SPDX}\n# \S")
BATCH = 24
BRITISH = re.compile(  # of words that occur here; as stems, so that names of functions count, too
    "(?:normal|optim|recogn|initial|minim|maxim|special|canonical|serial|synchron|summar)is(?:[aei]|$)|quantis[aei]|"
    "realis[ei]|neighb" "our|behavi" "our|fav" "our|col" "our|cent" "red|cent" "re(?![a-z])|judge" "ment|(?:mod|lab)elled", re.I)
SPELLED = {*HEADS, ".md", ".tsv", ".txt", ".cu", ".cuh", ".cmake"}


def sources(root: pathlib.Path) -> list[pathlib.Path]:
    """All files of ours; not what is built, or made for tests."""
    rooms = [p for p in sorted(root.iterdir())
             if p.is_dir() and p.name not in {"build", "testdata"} and p.name[0] != "."]
    return [p for room in rooms for p in sorted(room.rglob("*")) if p.suffix in HEADS]


def texts(root: pathlib.Path) -> list[pathlib.Path]:
    """All that people wrote."""
    rooms = [root / "README.md", root / "CMakeLists.txt", root / ".github", root / ".ci",
             *(root / name for name in ("kernels", "passes", "proto", "rewrite", "runtime", "tools", "testdata/golden"))]
    found = [p for room in rooms for p in ([room] if room.is_file() else sorted(room.rglob("*")))]
    return [p for p in found if p.suffix in SPELLED]


def find_program() -> str:
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if program and f"version {VERSION}." in subprocess.run(
                [program, "--version"], capture_output=True, text=True, check=True).stdout:
            return program
    sys.exit(f"format_test: needs clang-format {VERSION} (Debian: clang-format-{VERSION})")


def clang_format(files: list[pathlib.Path], fix: bool) -> list[str]:
    """One line for each place that clang-format would change."""
    words = [find_program(), f"--style=file:{ROOT / '.clang-format'}"]
    words += ["-i"] if fix else ["--dry-run", "--Werror"]
    batches = [files[i:i + BATCH] for i in range(0, len(files), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda batch: subprocess.run([*words, *map(str, batch)], check=False,
                                                     capture_output=True, text=True).stderr, batches)
    return [line for text in said for line in text.splitlines() if " error: " in line]


def headless(files: list[pathlib.Path]) -> list[str]:
    return [f"{path}: does not begin with its SPDX line and what it is for" for path in files
            if path.stat().st_size and not HEADS[path.suffix].match(path.read_text())]


def british(files: list[pathlib.Path]) -> list[str]:
    return [f"{path}:{number}: '{found[0]}' is not spelled as Americans do" for path in files
            for number, line in enumerate(path.read_text().splitlines(), 1) if (found := BRITISH.search(line))]


def self_test() -> list[str]:
    good = f"// {SPDX}\n/* A number. */\nint number(void);\n"
    python = f'# {SPDX}\n"""A number."""\n'
    cases = [("good.h", good, 0), ("good.py", python, 0), ("made.def", "/* Rows; do not edit. */\n", 0),
             ("plain.h", f"// {SPDX}\nint number(void);\n", 1), ("none.def", "ROW(1)\n", 1),
             ("code.py", f"# {SPDX}\nimport sys\n", 1), ("word.py", python.replace("number", "norm" "alised"), 1),
             ("wide.c", good.replace("(void)", "( void )"), 1)]
    failed = []
    with tempfile.TemporaryDirectory() as name:
        for file, text, wrong in cases:
            path = pathlib.Path(name) / file
            path.write_text(text)
            found = headless([path]) + british([path])
            found += clang_format([path], False) if path.suffix in FORMATTED else []
            if bool(found) != bool(wrong):
                failed.append(f"self-test: {file}: {found}")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--fix", action="store_true", help="format the files")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    files = sources(ROOT)
    problems = clang_format([p for p in files if p.suffix in FORMATTED], args.fix)
    problems += headless(files) + british(texts(ROOT)) + (self_test() if args.self_test else [])
    for problem in problems:
        print(f"FAIL {problem}")
    print(f"format_test: {len(files)} files, {len(problems)} problems"
          + ("; --fix formats" if problems else ""))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
