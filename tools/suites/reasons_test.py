# SPDX-License-Identifier: Apache-2.0
"""Crafted models that show each sort of reason why a node stays in fp32 (suite/reasons_cases.py): the
reasons are those that are expected, word for word, and true (suite/reasons.py). The corpus run judges
those of other models (judges/placement.py).
"""

import re
import sys

import onnx

from suite import reasons, reasons_cases
from suite.package import ROOT, demi


def problems(case: reasons_cases.Case) -> list[str]:
    data, _ = demi.run_passes(case.text.encode(), "")
    _, report = demi.convert(data, to=case.variant.to, io=case.variant.io,
                             placement="mincut" if case.mincut else "greedy", check=False, **case.options)
    nodes = [vars(node) for node in report.nodes]
    got = {n["name"]: (n["kind"], n["reason"]) for n in nodes}
    found = [f"node {name}: {got.get(name)}, expected {want}" for name, want in case.want.items()
             if got.get(name) != want]
    graphs = reasons.Graphs(onnx.load_from_string(data))
    return found + reasons.Truth({"nodes": nodes}, graphs, case.variant.to, case.mincut).problems()


def page_problems() -> list[str]:
    """The report page counts reasons by texts of its own: they have to be those that the library gives."""
    page = (ROOT / "tools/command/report_page.html").read_text()
    notes = (ROOT / "passes/placement/node_note.c").read_text()
    known = {"".join(re.findall(r'"([^"]*)"', run)) for run in re.findall(r'"[^"]*"(?:\s*"[^"]*")*', notes)}
    groups = re.findall(r'^  (\w+): \["([^"]+)", "[^"]+"\],$', page, re.M)
    return (["the report page has other groups of reasons"] if len(groups) != 4 else []) + [
        f"the report page: no reason is '{text}'" for _, text in groups if text not in known]


def main() -> None:
    failures = [f"{case.title}: {text}" for case in reasons_cases.CASES for text in problems(case)] + page_problems()
    for text in failures:
        print("FAIL", text[:400])
    print(f"reasons: {len(reasons_cases.CASES)} cases, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
