#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Public packages that run a model of their own with onnxruntime do the same on demi: each program of packages/
is run as it is on onnxruntime, and by `python -m demi_onnx.onnxruntime`, and the answers are equal: texts and
whole numbers exactly, others as near as two runtimes are.

The packages (packages/requirements.txt) are installed by pip, from wherever that takes them, into an environment
of their own in the build folder, anew when the list changes. Only packages with a model inside are of use: nothing
else is asked for.

    tools/suites/python_packages_test.py --build build/release --libdemi build/release/libdemi.so [NAME...]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tools/suites/packages"
LIST = PROGRAMS / "requirements.txt"
WITHOUT_OTHERS = ["basic-pitch==0.4.0"]  # what it depends on has no place here; the list has what it uses
LEAST = 10  # packages
PATIENCE_S = 600
NEAR = 2e-3  # of a number, or of 1 where that is more


def environment(folder: pathlib.Path) -> pathlib.Path:
    """The Python that has the packages."""
    python, stamp = folder / "bin/python", folder / "installed.txt"
    wanted = LIST.read_text() + "\n".join(WITHOUT_OTHERS)
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    venv.create(folder, clear=True, with_pip=True)
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", LIST], check=True)
    subprocess.run([*pip, "--no-deps", *WITHOUT_OTHERS], check=True)
    stamp.write_text(wanted)
    return python


def answer_of(python: pathlib.Path, program: pathlib.Path, libdemi: str) -> tuple[object, str]:
    """What the program says, with this library or, without, onnxruntime's; and what went wrong."""
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tools/python"),
                              "DEMI_LIBRARY": libdemi, "CUDA_VISIBLE_DEVICES": ""}
    words = ["-m", "demi_onnx.onnxruntime"] if libdemi else []
    try:
        done = subprocess.run([python, "-B", "-W", "ignore", *words, program], env=variables, capture_output=True,
                              text=True, check=False, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return None, f"does not end within {PATIENCE_S} s"
    if done.returncode:
        return None, (done.stderr or done.stdout)[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    by = "demi_onnx.onnxruntime" if libdemi else "onnxruntime"
    return said["answer"], "" if said["by"] == by else f"it was run by {said['by']}"


def difference(a: object, b: object, where: str = "") -> str:
    """Where two answers differ; "": nowhere."""
    if isinstance(a, float) or isinstance(b, float):
        if isinstance(a, (int, float)) and isinstance(b, (int, float)) and abs(a - b) <= NEAR * max(1, abs(a)):
            return ""
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((found for i, (x, y) in enumerate(zip(a, b)) if (found := difference(x, y, f"{where}[{i}]"))), "")
    elif isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next((found for key in a if (found := difference(a[key], b[key], f"{where}.{key}"))), "")
    elif a == b:
        return ""
    return f"{where}: {str(a)[:200]} by onnxruntime, {str(b)[:200]} by demi"


def is_empty(answer: object) -> bool:
    """Whether there is nothing in it that could differ."""
    if isinstance(answer, (list, dict)):
        return all(is_empty(item) for item in (answer.values() if isinstance(answer, dict) else answer))
    return answer is None or answer == ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the environment is made")
    parser.add_argument("--libdemi", required=True)
    parser.add_argument("names", nargs="*", help="of packages, as their programs are called")
    args = parser.parse_args()
    python = environment((args.build / "packages").resolve())
    programs = [p for p in sorted(PROGRAMS.glob("run_*.py")) if not args.names or p.stem[4:] in args.names]
    failures = 0
    for program in programs:
        theirs, wrong = answer_of(python, program, "")
        if not wrong and is_empty(theirs):
            wrong = "an answer without content shows nothing"
        if not wrong:
            mine, wrong = answer_of(python, program, str(pathlib.Path(args.libdemi).resolve()))
            wrong = wrong or difference(theirs, mine)
        failures += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {program.stem[4:]}{': ' if wrong else ''}{wrong}", flush=True)
    if not args.names and len(programs) < LEAST:
        failures += 1
    print(f"python_packages_test: {len(programs)} packages, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
