# SPDX-License-Identifier: Apache-2.0
"""The types of tools/python/demi_onnx: mypy --strict, as pyproject.toml has it, finds no fault; every file
is of Python 3.9's syntax; and what a program would write is typed: a wrong call is noticed. Exit 1
otherwise.

    pip install basedpyright && tools/suites/python_types_test.py --pyright basedpyright
"""

import argparse
import ast
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLDEST = (3, 9)
# A program, and what mypy says of it.
PROGRAM = '''
import demi_onnx
report = demi_onnx.convert("a.onnx", "b.onnx")
reveal_type(report.totals.seconds)
model, other = demi_onnx.convert(b"")
reveal_type(model)
reveal_type(demi_onnx.compare("a", "b").first_bad)
demi_onnx.Session(5)
'''
SAID = ['"float"', '"bytes"', 'ComparedValue', 'incompatible type "int"']


def mypy(*words: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", cache, "--config-file",
                               str(ROOT / "pyproject.toml"), *words], cwd=ROOT, check=False,
                              env=os.environ | {"MYPYPATH": str(ROOT / "tools/python")},
                              capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def pyright(program: str) -> list[str]:
    """What that program, pyright or basedpyright, finds in the package; as pyproject.toml has it."""
    done = subprocess.run([program, "--pythonpath", sys.executable], cwd=ROOT, check=False,
                          capture_output=True, text=True)
    print(done.stdout.splitlines()[-1] if done.stdout else done.stderr)
    return [done.stdout + done.stderr] if done.returncode else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pyright", help="also what this program says, which the set-up has not")
    args = parser.parse_args()
    problems = pyright(args.pyright) if args.pyright else []
    for path in sorted((ROOT / "tools/python").rglob("*.py")):
        try:
            ast.parse(path.read_text(), feature_version=OLDEST)
        except SyntaxError as error:
            problems.append(f"{path.name}: {error}")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "program.py")
        program.write_text(PROGRAM)
        code, text = mypy("-p", "demi_onnx")
        if code:
            problems.append(text)
        code, text = mypy(str(program))
        problems += [f"mypy does not say {words}:\n{text}" for words in SAID if words not in text]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"python_types_test: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
