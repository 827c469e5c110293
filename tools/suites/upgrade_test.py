# SPDX-License-Identifier: Apache-2.0
"""upgrade-opset on models made here (suite/upgrade_cases.py), for every kind of step between operator
versions: the result is valid by ONNX's full check and strict inference wherever the source is, and
computes what the old version does, in ONNX Runtime, else in ONNX's reference evaluator. The corpus run
raises ONNX's models (judges/upgrade.py). Every opset comes with the IR version that ONNX published it with.
"""

import argparse
import sys

import onnx
from onnx import helper

from judges.upgrade import NEWEST, ORT_NEWEST, TOLERANCE
from suite import engines, metric, opsets, upgrade_cases, validity
from suite.model import Model
from suite.package import demi

TO = (13, 18, ORT_NEWEST, NEWEST)


def run_best(model: Model, feeds: dict) -> list[object]:
    """The outputs, from ONNX Runtime where it can, else from the reference evaluator."""
    reasons = []
    for engine in engines.ENGINES:
        try:
            own = {k: v.copy() for k, v in feeds.items()}  # ONNX Runtime may write to them
            return model.runner(engine).run(own)
        except engines.CannotRun as error:
            reasons.append(f"{engine.name}: {error}")
    raise engines.CannotRun(" / ".join(reasons))


def problem(case: upgrade_cases.Made, to: int) -> str:
    source = Model(case.model.SerializeToString())
    try:
        raised = Model(demi.run_passes(source.data, f"upgrade-opset{{to={to}}}")[0])
    except demi.DemiError as error:
        return str(error)
    if found := validity.problems(raised, source):
        return " | ".join(found)
    try:
        want = run_best(source, case.feeds) if case.want is None else case.want
        got = run_best(raised, case.feeds)
    except engines.CannotRun as error:
        return str(error) if to <= ORT_NEWEST else ""
    texts = [metric.compare(a, b, TOLERANCE, v.name)[1]
             for a, b, v in zip(got, want, case.model.graph.output)]
    return next((text for text in texts if text), "")


def wrong_ir_versions() -> list[str]:
    source = onnx.parser.parse_model('<ir_version: 3, opset_import: ["": 7]> g (float[2] x) => (float[2] y) '
                                     "{ y = Relu (x) }").SerializeToString()
    found = {to: onnx.load_from_string(demi.run_passes(source, f"upgrade-opset{{to={to}}}")[0]).ir_version
             for to in range(8, NEWEST + 1)}
    return [f"opset {to} has IR version {ir}" for to, ir in found.items()
            if ir != helper.OP_SET_ID_VERSION_MAP["ai.onnx", to]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Judges upgrade-opset on models made here.")
    parser.add_argument("--only", default="", help="judge only models whose name contains this")
    args, count, failures = parser.parse_args(), 0, wrong_ir_versions()
    for case in (c for c in upgrade_cases.all_cases() if args.only in c.name):
        for to in (n for n in TO if n > opsets.default_opset(case.model.opset_import)):
            count += 1
            if text := problem(case, to):
                failures.append(f"{case.name} to {to}: {text}")
    for text in failures:
        print("FAIL", text[:300])
    print(f"upgrade: {count} steps, {len(failures)} failures")
    sys.exit(1 if failures or not count else 0)


if __name__ == "__main__":
    main()
