# SPDX-License-Identifier: Apache-2.0
"""`compare`'s first advice, pasted, reaches the bound: on the networks of suite/unseen_models.py.

Each is converted by default options to float16 and to bfloat16, and asked for a third of the error
that it then has (2 % at most). What `compare --keep-out` writes is given to `convert --policy`; the
result is within the bound and as far off as was said.
"""

import argparse
import json
import pathlib
import shutil
import sys

import onnx

from suite import unseen_models
from suite.command import Demi, work_folder


class Test:
    def __init__(self, demi: Demi, folder: pathlib.Path) -> None:
        self.demi, self.folder, self.failures = demi, folder, 0

    def compare(self, a: pathlib.Path, b: pathlib.Path, *words: str) -> tuple[int, dict]:
        report = self.folder / "report.json"
        done = self.demi.run("compare", str(a), str(b), "--atol", "0", "--quiet", "--json",
                             str(report), *words)
        return done.code, json.loads(report.read_text())

    def problem(self, source: pathlib.Path, to: str) -> str:
        low, kept = self.folder / "low.onnx", self.folder / "kept.onnx"
        policy = self.folder / "keep.json"
        done = self.demi.run("convert", str(source), "-o", str(low), "--to", to, "--quiet")
        if done.code:
            return f"convert: {done.problem()}"
        _, report = self.compare(source, low, "--max-error", "1e9")
        errors = [o.get("error", "inf") for o in report["outputs"]]
        bound = min(0.02, max(1e9 if isinstance(e, str) else e for e in errors) / 3)
        if bound == 0:
            return ""
        code, report = self.compare(source, low, "--max-error", str(bound), "--keep-out",
                                    str(policy))
        if code != 1 or report.get("advice") != "reaches":
            return f"exit code {code}, advice {report.get('advice')} for {bound:.3g}"
        done = self.demi.run("convert", str(source), "-o", str(kept), "--policy", str(policy),
                             "--quiet")
        if done.code:
            return f"convert with the advice: {done.problem()}"
        code, again = self.compare(source, kept, "--max-error", str(bound), "--no-trial")
        error = max(o["error"] for o in again["outputs"])
        print(f"     {source.stem} {to}: {len(report['keep'])} nodes kept for {bound:.2g}, "
              f"off by {error:.2g}", flush=True)
        if code or error > bound:
            return f"the advice leaves {error:.3g}, beyond {bound:.3g}"
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True)
    parser.add_argument("--models", default=",".join(unseen_models.MODELS), help="a comma list")
    args = parser.parse_args()
    folder = work_folder()
    test = Test(Demi(args.demi, folder), folder)
    for name in args.models.split(","):
        source = folder / f"{name}.onnx"
        onnx.save(unseen_models.MODELS[name]()[0], source)
        for to in ("float16", "bfloat16"):
            problem = test.problem(source, to)
            test.failures += bool(problem)
            print(f"{'FAIL' if problem else 'ok  '} {name} {to} {problem}", flush=True)
    shutil.rmtree(folder)
    sys.exit(f"advice_test: {test.failures} failures" if test.failures else 0)


if __name__ == "__main__":
    main()
