# SPDX-License-Identifier: Apache-2.0
"""Random models with value_info entries of every sort that a valid file may have.

The models of random_graphs.py and random_operators.py, with what inference finds written into them:
some entries are left out, some repeated, some given to a subgraph for a value that it captures, some to
the main graph for a value of a subgraph; outputs may be declared twice. ONNX's inference believes them
all, so that each has to follow its value. `build(seed, folder)` gives a Sample or None.
"""

import pathlib

import numpy as np
import onnx

from suite import random_graphs, random_operators, walk

SEED = 1_000_000  # apart from the other kinds' models


def subgraphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """Those that the graph's own nodes hold."""
    return [g for node in graph.node for a in node.attribute
            for g in ([a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs)]


def defined(graph: onnx.GraphProto) -> set[str]:
    return {v.name for v in graph.input} | {t.name for t in graph.initializer} | \
        {o for node in graph.node for o in node.output}


def read(graph: onnx.GraphProto) -> list[str]:
    """Names that its own nodes read, in their order."""
    return list(dict.fromkeys(i for node in graph.node for i in node.input if i))


class Entries:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def chosen(self, values: list, share: float) -> list:
        return [v for v in values if self.rng.random() < share]

    def thin(self, graph: onnx.GraphProto) -> None:
        """Leaves some entries out, repeats others."""
        kept = self.chosen(list(graph.value_info), 0.7)
        kept += self.chosen(kept, 0.2)
        del graph.value_info[:]
        graph.value_info.extend(kept)

    def captured(self, graph: onnx.GraphProto, outer: dict[str, onnx.ValueInfoProto]) -> None:
        """Gives subgraphs entries for what they read of the graphs around."""
        typed = outer | {v.name: v for v in [*graph.input, *graph.output, *graph.value_info]}
        for inner in subgraphs(graph):
            own = defined(inner)
            names = [n for n in read(inner) if n in typed and n not in own]
            self.captured(inner, typed)
            inner.value_info.extend(typed[n] for n in self.chosen(names, 0.5))

    def inner(self, graph: onnx.GraphProto) -> None:
        """Gives the main graph entries for values of subgraphs whose names are theirs alone."""
        graphs = [g for g in walk.messages(graph) if isinstance(g, onnx.GraphProto)]
        counts: dict[str, int] = {}
        for each in graphs:
            for name in defined(each):
                counts[name] = counts.get(name, 0) + 1
        own = defined(graph)
        found = [v for g in graphs if g is not graph for v in g.value_info
                 if counts.get(v.name) == 1 and v.name not in own]
        graph.value_info.extend(self.chosen(found, 0.3))


def build(seed: int, folder: pathlib.Path) -> random_graphs.Sample | None:
    rng = np.random.default_rng(SEED + seed)
    sample = random_graphs.build(SEED + seed) if rng.random() < 0.6 else \
        random_operators.build(SEED + seed, folder)
    if sample is None:
        return None
    try:
        model = onnx.shape_inference.infer_shapes(sample.model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return None
    entries = Entries(rng)
    entries.captured(model.graph, {})
    entries.inner(model.graph)
    for message in list(walk.messages(model.graph)):
        if isinstance(message, onnx.GraphProto):
            entries.thin(message)
    model.graph.output.extend(entries.chosen(list(model.graph.output), 0.2))
    return random_graphs.Sample(model, sample.feeds, sample.jumpy)
