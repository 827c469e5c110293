# SPDX-License-Identifier: Apache-2.0
"""Both placements of casts, greedy and exact (mincut), to every variant: the exact one costs no more
(passes/placement/placement_cost.h), and every node that stays in fp32 has one reason, which is true
(suite/reasons.py).
"""

from collections.abc import Iterator

from judges import Finding, first
from suite import opsets, reasons
from suite.subject import Subject
from suite.variants import VARIANTS

KINDS = {"backend", "real"}
PLACEMENTS = ("greedy", "mincut")


def judge(subject: Subject) -> Iterator[Finding]:
    graphs = reasons.Graphs(subject.proto)
    for variant in VARIANTS:
        costs = {}
        for placement in PLACEMENTS:
            made = subject.convert(variant, placement=placement)
            report, opset = made.report, opsets.default_opset(made.model.proto.opset_import)
            truth = reasons.Truth(report, graphs, variant.to, placement == "mincut", opset)
            yield Finding(f"{variant} {placement} reasons", first(truth.problems()))
            costs[placement] = report["placement"]
        dearer = costs["mincut"]["cost"] > costs["greedy"]["cost"]
        yield Finding(f"{variant} cost", f"{costs}" if dearer else "",
                      totals={f"{p} {key}": n for p in PLACEMENTS for key, n in costs[p].items()})
