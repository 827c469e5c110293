# SPDX-License-Identifier: Apache-2.0
"""Both placements of casts, greedy and exact (mincut), to every variant: the exact one costs no more
(passes/placement/placement_cost.h), and every node that stays in fp32 has one reason, which is true
(suite/reasons.py). Greedy placement may be cheaper where it lowers an operator that is to follow its
first operand, by another one, as MXNet did. What the exact one alone keeps for bfloat16's sake (residual
streams) is kept by name for the comparison.
"""

from collections.abc import Iterator

from judges import Finding, first
from suite import opsets, reasons
from suite.subject import Subject
from suite.variants import VARIANTS

KINDS = {"backend", "real", "style", "graph", "operator"}
PLACEMENTS = ("greedy", "mincut")


def judge(subject: Subject) -> Iterator[Finding]:
    graphs = reasons.Graphs(subject.proto)
    for variant in VARIANTS:
        costs, nodes = {}, {}
        for placement in PLACEMENTS:
            made = subject.convert(variant, placement=placement)
            report, opset = made.report, opsets.default_opset(made.model.proto.opset_import)
            truth = reasons.Truth(report, graphs, variant.to, placement == "mincut", opset)
            yield Finding(f"{variant} {placement} reasons", first(truth.problems()))
            costs[placement], nodes[placement] = report["placement"], report["nodes"]
        kept = tuple(f"name:{node['name']}" for node in nodes["mincut"] if node["reason"] in reasons.STREAMS)
        if kept:
            made = subject.convert(variant, placement="greedy", keep=kept)
            costs["greedy"], nodes["greedy"] = made.report["placement"], made.report["nodes"]
        dearer = costs["mincut"]["cost"] > costs["greedy"]["cost"]
        loose = any(a["dtype"] == variant.to and b["kind"] == "follows"
                    for a, b in zip(nodes["greedy"], nodes["mincut"]))
        yield Finding(f"{variant} cost", f"{costs}" if dearer and not loose else "",
                      totals={f"{p} {key}": n for p in PLACEMENTS for key, n in costs[p].items()})
