# SPDX-License-Identifier: Apache-2.0
"""Random models of rows of Reshapes, Squeezes, Unsqueezes, Flattens and Transposes, of Slices that are all
of a value together or nearly, and of Gathers of all places of an axis or nearly: what `simplify` writes in
fewer nodes. The first size may be a name. `build(seed)` gives a Sample.

Every element of the input is another number, so that one in a wrong place is seen.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from suite.random_graphs import Sample

SEED = 3_000_000  # apart from the other kinds' models
IR, OPSETS = 8, (13, 14, 17, 18, 21)
SIZES = (1, 1, 2, 2, 3, 4, 6)


class Row:
    """A graph under construction: `at` is the value that the next node reads, `shape` its shape, `open` the
    axis whose size is a name, or None."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(SEED + seed)
        self.shape = [int(n) for n in self.rng.choice(SIZES, self.rng.integers(2, 5))]
        self.open = 0 if self.rng.random() < 0.4 else None
        self.at, self.nodes, self.weights, self.outputs = "x", [], [], []
        self.given = list(self.shape)

    def ints(self, *items: int) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(items, np.int64), name))
        return name

    def put(self, op: str, *more: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.at, *more], [name], name, **attributes))
        return name

    def give(self, name: str, shape: list[int], axis: int | None) -> None:
        declared = ["n" if i == axis else size for i, size in enumerate(shape)]
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, declared))

    # ---- what moves elements

    def transpose(self) -> None:
        order = self.rng.permutation(len(self.shape)).tolist()
        self.at = self.put("Transpose", perm=order)
        self.shape = [self.shape[i] for i in order]
        self.open = None if self.open is None else order.index(self.open)

    def unsqueeze(self) -> None:
        axis = int(self.rng.integers(len(self.shape) + 1))
        self.at = self.put("Unsqueeze", self.ints(axis))
        self.shape.insert(axis, 1)
        self.open = self.open + 1 if self.open is not None and axis <= self.open else self.open

    def squeeze(self) -> None:
        ones = [i for i, size in enumerate(self.shape) if size == 1 and i != self.open]
        if ones and len(self.shape) > 1:
            axis = int(self.rng.choice(ones))
            self.at = self.put("Squeeze", self.ints(axis))
            del self.shape[axis]
            self.open = self.open - 1 if self.open is not None and axis < self.open else self.open

    def factors(self, size: int) -> list[int]:
        found = [n for n in range(1, size + 1) if size % n == 0]
        first = int(self.rng.choice(found))
        return [first, size // first]

    def reshape(self) -> None:
        """Axes are cut in two, or two become one; the open one stays, or ends what is asked for as -1."""
        axis = int(self.rng.integers(len(self.shape)))
        if self.rng.random() < 0.5 and axis != self.open:
            shape = self.shape[:axis] + self.factors(self.shape[axis]) + self.shape[axis + 1:]
            moved = 1
        elif axis + 1 < len(self.shape) and self.open not in (axis, axis + 1):
            shape = [*self.shape[:axis], self.shape[axis] * self.shape[axis + 1], *self.shape[axis + 2:]]
            moved = -1
        else:
            return
        if self.open is not None and axis < self.open:
            self.open += moved
        asked = [-1 if i == self.open else size for i, size in enumerate(shape)]
        if self.open is None and self.rng.random() < 0.3:
            asked[int(self.rng.integers(len(asked)))] = -1
        self.at = self.put("Reshape", self.ints(*asked))
        self.shape = shape

    # ---- what takes all there is, or nearly

    def slices(self) -> None:
        axis = int(self.rng.integers(len(self.shape)))
        size = self.shape[axis]
        if axis == self.open or size < 2:
            return
        cut, shift = int(self.rng.integers(1, size)), int(self.rng.random() < 0.2)
        ends = [(0, cut), (cut - shift, [size, 2**62, size + 5][self.rng.integers(3)])]
        parts = [self.put("Slice", self.ints(a), self.ints(b), self.ints(axis)) for a, b in ends]
        shape = [*self.shape[:axis], size - cut + shift, *self.shape[axis + 1:]]
        self.at, other = parts[::-1]
        self.nodes.append(helper.make_node("Neg", [other], [f"{other}_out"]))
        self.give(f"{other}_out", [*self.shape[:axis], cut, *self.shape[axis + 1:]], self.open)
        self.shape = shape

    def gather(self) -> None:
        axis = int(self.rng.integers(len(self.shape)))
        if axis == self.open:
            return
        places = list(range(self.shape[axis]))
        if self.rng.random() < 0.3:
            self.rng.shuffle(places)
        self.at = self.put("Gather", self.ints(*places), axis=axis)


def build(seed: int) -> Sample:
    row = Row(seed)
    ways = [row.transpose] * 4 + [row.reshape] * 4 + [row.unsqueeze, row.squeeze, row.slices, row.gather]
    for _ in range(int(row.rng.integers(3, 9))):
        ways[row.rng.integers(len(ways))]()
    last = row.put("Neg")
    row.give(last, row.shape, row.open)
    declared = ["n", *row.given[1:]] if row.open is not None else row.given
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, declared)
    graph = helper.make_graph(row.nodes, "rows", [x], row.outputs, row.weights)
    opset = int(row.rng.choice(OPSETS))
    model = helper.make_model(graph, ir_version=IR, opset_imports=[helper.make_opsetid("", opset)])
    count = int(np.prod(row.given))
    return Sample(model, {"x": np.arange(1, count + 1, dtype=np.float32).reshape(row.given)}, set())
