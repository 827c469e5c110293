# SPDX-License-Identifier: Apache-2.0
"""ONNX's own test runner (onnx.backend.test) with demi's backend, demi_onnx.backend.

The cases are the published ones in build/data/backend, which newer onnx packages no longer carry. What
fails must be what suite/exceptions.tsv excuses of plans. Exit 1 otherwise.

    DEMI_LIBRARY=build/release/libdemi.so tools/suites/python_backend_test.py --filter 'test_add*'
"""

import argparse
import fnmatch
import json
import os
import pathlib
import sys
import time
import unittest

from suite import exceptions

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the runner can't judge: it takes the length of a sequence's items, which are scalars here.
UNJUDGED = {"test_loop16_seq_none"}


def read_cases(folder: pathlib.Path, kind: str) -> list:
    """The runner's cases of one kind, of what is there."""
    from onnx.backend.test.case.test_case import TestCase
    cases = []
    for path in sorted((folder / kind).glob("*/model.onnx")):
        said = path.parent / "data.json"
        how = json.loads(said.read_text()) if said.exists() else {}
        cases.append(TestCase(name=path.parent.name, model_name=path.parent.name, url=None,
                              model_dir=str(path.parent), model=None, data_sets=None, kind=kind,
                              rtol=how.get("rtol", 1e-3), atol=how.get("atol", 1e-7)))
    return cases


def find_tests(folder: pathlib.Path, pattern: str) -> list[unittest.TestCase]:
    import onnx.backend.test.runner as runner

    import demi_onnx.backend
    runner.load_model_tests = lambda kind: [case for case in read_cases(folder, kind)
                                            if fnmatch.fnmatch(case.name, pattern)]
    made = runner.Runner(demi_onnx.backend, __name__)
    return [test for test in made.test_suite if not test.id().endswith("_cuda")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--filter", default="*", help="glob on the case's name")
    parser.add_argument("--every", type=int, default=1, help="run every Nth case")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if "DEMI_LIBRARY" in os.environ:
        sys.path.insert(0, str(ROOT / "tools/python"))
    start = time.monotonic()
    tests = find_tests(args.data, args.filter)[::args.every]
    passed, excepted, unjudged, failed = 0, 0, 0, []
    for test in tests:
        name = test.id().rsplit(".", 1)[1].removesuffix("_cpu")
        result = unittest.TestResult()
        test.run(result)
        problems = [text for _, text in result.failures + result.errors]
        if not problems and not result.skipped:
            passed += 1
        elif name in UNJUDGED and "Unable to compare expected type" in problems[0]:
            unjudged += 1
        elif exceptions.find(name, "plans source fast", {"operator", "nondeterministic", "data"}):
            excepted += 1
        else:
            failed.append(name)
            print(f"FAIL {name}: {(problems or ['skipped'])[0].strip().splitlines()[-1]}")
            if args.verbose:
                print("\n".join(problems))
    print(f"{passed} of {len(tests)} pass, {excepted} are excepted, {unjudged} not judged, "
          f"{len(failed)} fail; "
          f"{time.monotonic() - start:.0f} s")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
