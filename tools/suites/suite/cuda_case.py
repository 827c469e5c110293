# SPDX-License-Identifier: Apache-2.0
"""A random model in the making, for makers of suite/cuda_cases.py and beside it."""

import dataclasses

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)
NUMBERS = FLOATS + (np.float64, np.int32, np.int64)
BYTES = NUMBERS + (np.int8, np.uint8, np.int16, np.bool_)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 256, 257)
LARGEST = 6000  # elements of an operand
OPSET = 23


@dataclasses.dataclass
class Case:
    """A model in the making."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = dataclasses.field(default_factory=list)
    feeds: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    constants: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    loose: float = 1.0  # how far float sums and functions may be apart, in units of 2^-20
    terms: float = 0.0  # the largest that is summed up, where sums may cancel to less
    between: int = 0  # roundings on the way to a result that one side does, and the other does not
    coarse: type | None = None  # the type that they have, if not the result's
    opset: int = OPSET
    kept: set[str] = dataclasses.field(default_factory=set)  # inputs that other values would not do for
    marks: set[str] = dataclasses.field(default_factory=set)  # what is unusual about it
    count: int = 0

    def chance(self, of: int) -> bool:
        return self.rng.integers(of) == 0

    def pick(self, items: tuple | list) -> object:
        return items[self.rng.integers(len(items))]

    def size(self, most: int = LARGEST) -> int:
        return int(self.pick([s for s in SIZES if s <= max(most, 1)]))

    def shape(self, rank: int, largest: int = LARGEST, empty: bool = True) -> list[int]:
        made: list[int] = []
        for _ in range(rank):
            made.append(self.size(largest // max(int(np.prod(made)), 1)))
        self.rng.shuffle(made)
        if made and empty and self.chance(40):
            made[self.rng.integers(rank)] = 0
        return made

    def values(self, shape: list[int], dtype: type, scale: float = 1.0) -> np.ndarray:
        kind = np.dtype(dtype).kind
        if kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if kind in "iu":
            return self.rng.integers(0 if kind == "u" else -9, 10, shape).astype(dtype)
        return np.asarray(self.rng.standard_normal(shape) * scale).astype(dtype)

    def mark(self, what: str, of: int) -> bool:
        """Once of so many times: it is unusual in that."""
        if not self.chance(of):
            return False
        self.marks.add(what)
        return True

    def spoilt(self, array: np.ndarray, infinite: bool = True, of: int = 5) -> np.ndarray:
        """Now and then with a few elements that are no numbers, and infinite ones."""
        if not array.size or not self.mark("not finite", of):
            return array
        made, odd = np.array(array), (np.nan, np.inf, -np.inf) if infinite else (np.nan,)
        for _ in range(int(self.rng.integers(1, 4))):
            made.ravel()[self.rng.integers(array.size)] = self.pick(odd)
        return made

    def per_axis(self, axes: int, choices: tuple, what: str) -> list[int]:
        """One for all axes, or each its own."""
        if self.mark(f"unequal {what}", 3):
            return [int(self.pick(choices)) for _ in range(axes)]
        return [int(self.pick(choices))] * axes

    def operand(self, array: np.ndarray, constant: bool | None = None) -> str:
        """A name for it, of an input or a constant."""
        self.count += 1
        name = f"x{self.count}"
        fixed = self.chance(3) if constant is None else constant
        (self.constants if fixed and self.feeds else self.feeds)[name] = np.asarray(array)
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, wanted: list[bool] | None = None,
             **attributes: object) -> str | list[str]:
        """`wanted`: of each output, whether it has a name."""
        self.count += 1
        names = [f"y{self.count}_{i}" if not wanted or wanted[i] else "" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"n{self.count}", **attributes))
        return names if outputs > 1 else names[0]

    def ints(self, *items: int) -> str:
        return self.operand(np.array(items, np.int64), True)

    def model(self) -> onnx.ModelProto:
        def info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

        read = {name for node in self.nodes for name in node.input}
        ends = [n for node in self.nodes for n in node.output if n and n not in read]
        graph = helper.make_graph(
            self.nodes, "g", [info(n, a) for n, a in self.feeds.items()],
            [onnx.ValueInfoProto(name=n) for n in ends],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()])
        model = helper.make_model(graph, ir_version=10,
                                  opset_imports=[helper.make_opsetid("", self.opset),
                                                 helper.make_opsetid("com.microsoft", 1)])
        return onnx.shape_inference.infer_shapes(model)
