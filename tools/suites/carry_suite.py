# SPDX-License-Identifier: Apache-2.0
"""What is carried from run to run (Session.stateful) is what the caller would have fed himself, to
the last bit: of decoders with keys and values in every usual layout, of caches to which attention adds rows, and of
random graphs.

A session and its stateful runs go side by side. One is fed all inputs, the other carries what has the type
and shape of an input, or grows into it. Now and then the carried ones are cut, or begin anew.

    tools/suites/carry_suite.py --number 2000 --from 1000
"""

import argparse
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite import random_graphs
from suite.package import demi, library_option, session

STEPS = 6
VARIANTS = [("", ""), ("float16", "low"), ("float16", "keep"), ("bfloat16", "low")]
# Axes of keys and values as they are kept, by batch, head, row and element.
LAYOUTS = ["bhrs", "brhs", "bhsr", "rbhs"]


class Decoder:
    """One layer's attention on a cache, as exporters write it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.nodes, self.weights = rng, [], []
        self.batch, self.heads, self.size = (int(rng.integers(1, 4)) for _ in range(3))
        self.size = int(rng.choice([1, 4, 8, 17, 32]))
        self.width = self.heads * self.size
        self.keys, self.values = (LAYOUTS[rng.integers(len(LAYOUTS))] for _ in range(2))
        self.masked = rng.random() < 0.4
        self.count = 0

    def add(self, op: str, inputs: list[str], **attributes: object) -> str:
        self.count += 1
        self.nodes.append(helper.make_node(op, inputs, [f"n{self.count}"], **attributes))
        return f"n{self.count}"

    def const(self, array: np.ndarray) -> str:
        self.count += 1
        self.weights.append(numpy_helper.from_array(array, f"c{self.count}"))
        return f"c{self.count}"

    def heads_of(self, x: str) -> str:
        """(batch, rows, width) as (batch, rows, heads, size), behind a product with weights."""
        weights = self.rng.standard_normal((self.width, self.width)).astype(np.float32)
        x = self.add("MatMul", [x, self.const(weights / np.float32(np.sqrt(self.width)))])
        shape = np.array([self.batch, -1, self.heads, self.size], np.int64)
        return self.add("Reshape", [x, self.const(shape)])

    def turned(self, x: str, have: str, want: str) -> str:
        if have == want:
            return x
        return self.add("Transpose", [x], perm=[have.index(axis) for axis in want])

    def cached(self, x: str, name: str, layout: str) -> str:
        """What `past` and x are together, which is an output; its name."""
        new = self.turned(self.heads_of(x), "brhs", layout)
        node = helper.make_node("Concat", [f"past_{name}", new], [f"present_{name}"],
                                axis=layout.index("r") - (4 if self.rng.random() < 0.5 else 0))
        self.nodes.append(node)
        return f"present_{name}"

    def shape(self, layout: str, rows: str | int) -> list[str | int]:
        sizes = {"b": self.batch, "h": self.heads, "r": rows, "s": self.size}
        return [sizes[axis] for axis in layout]

    def build(self) -> onnx.ModelProto:
        k = self.cached("x", "key", self.keys)
        v = self.cached("x", "value", self.values)
        q = self.turned(self.heads_of("x"), "brhs", "bhrs")
        scale = self.const(np.float32(1 / np.sqrt(self.size)))
        scores = self.add("Mul", [self.add("MatMul", [q, self.turned(k, self.keys, "bhsr")]),
                                  scale])
        if self.masked:
            node = helper.make_node("Concat", ["past_mask", "mask"], ["present_mask"], axis=3)
            self.nodes.append(node)
            scores = self.add("Add", [scores, "present_mask"])
        seen = self.add("MatMul", [self.add("Softmax", [scores], axis=-1),
                                   self.turned(v, self.values, "bhrs")])
        flat = self.const(np.array([self.batch, -1, self.width], np.int64))
        y = self.add("Reshape", [self.turned(seen, "bhrs", "brhs"), flat])
        self.nodes.append(helper.make_node("Add", [y, "x"], ["y"]))
        state = self.add("Mul", ["state", self.const(np.float32(0.5))])
        self.nodes.append(helper.make_node("Add", [state, "state"], ["next"]))
        return self.model()

    def model(self) -> onnx.ModelProto:
        def info(name: str, shape: list[str | int]) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        inputs = [info("x", [self.batch, "new", self.width]), info("state", [3])]
        outputs = [info("y", [self.batch, "new", self.width]), info("next", [3])]
        for name, layout in (("key", self.keys), ("value", self.values)):
            inputs.append(info(f"past_{name}", self.shape(layout, "past")))
            outputs.append(info(f"present_{name}", self.shape(layout, "all")))
        if self.masked:
            inputs += [info("past_mask", [self.batch, 1, 1, "past"]),
                       info("mask", [self.batch, 1, 1, "new"])]
            outputs.append(info("present_mask", [self.batch, 1, 1, "all"]))
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def pairs(self) -> dict[str, tuple[str, int]]:
        """Outputs, with the input that each is carried to and the axis along which it grows."""
        found = {"present_key": ("past_key", self.keys.index("r")),
                 "present_value": ("past_value", self.values.index("r")),
                 "next": ("state", -1)}
        if self.masked:
            found["present_mask"] = ("past_mask", 3)
        return found

    def feeds(self, new: int) -> dict[str, np.ndarray]:
        x = self.rng.standard_normal((self.batch, new, self.width)).astype(np.float32)
        found = {"x": x}
        if self.masked:
            found["mask"] = np.where(self.rng.random((self.batch, 1, 1, new)) < 0.2,
                                     np.float32(-1e4), np.float32(0))
        return found

    def start(self, rows: int) -> dict[str, np.ndarray]:
        def drawn(shape: list[int]) -> np.ndarray:
            return self.rng.standard_normal(shape).astype(np.float32)

        found = {"past_key": drawn(self.shape(self.keys, rows)),
                 "past_value": drawn(self.shape(self.values, rows)), "state": drawn([3])}
        if self.masked:
            found["past_mask"] = np.zeros((self.batch, 1, 1, rows), np.float32)
        return found


def same(a: object, b: object) -> bool:
    if isinstance(a, list) or a is None:
        return type(a) is type(b) and (a is None or (
            len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))))
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "OUS":
        return a.shape == b.shape and bool(np.all(a == b))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class Pair:
    """A session that is fed, and runs of it that carry."""

    def __init__(self, fed: demi.Session, carried: dict[str, str]) -> None:
        self.fed, self.kept = fed, fed.stateful(carried)
        self.names = [arg.name for arg in fed.get_outputs()]

    def run(self, fed: dict[str, object], kept: dict[str, object]) -> tuple[str, list[object]]:
        want, have = self.fed.run(self.names, fed), self.kept.run(self.names, kept)
        for name, a, b in zip(self.names, want, have):
            if not same(a, b):
                return f"'{name}' differs", want
        return "", want


def check_decoder(seed: int) -> str:
    rng = np.random.default_rng(seed)
    decoder = Decoder(rng)
    data = decoder.build().SerializeToString()
    to, io = VARIANTS[rng.integers(len(VARIANTS))]
    if to:
        data, _ = demi.convert(data, to=to, io=io)
    numerics = "faithful" if rng.random() < 0.2 else "fast"
    fed, carried = session(data, int(rng.integers(1, 3)), numerics=numerics), decoder.pairs()
    pair = Pair(fed, {output: source for output, (source, _) in carried.items()})
    types = {arg.name: arg.dtype for arg in fed.get_inputs()}

    def typed(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: value.astype(types[name]) for name, value in feeds.items()}

    state = typed(decoder.start(int(rng.integers(0, 40))))
    fresh = True
    for step in range(STEPS + int(rng.integers(0, 40))):
        feeds = typed(decoder.feeds(int(rng.choice([1, 1, 1, 2, 7]))))
        wrong, want = pair.run({**feeds, **state}, {**feeds, **(state if fresh else {})})
        if wrong:
            return f"step {step}: {wrong}"
        got = dict(zip(pair.names, want))
        state = {source: got[output] for output, (source, _) in carried.items()}
        fresh = rng.random() < 0.05
        if fresh:
            state = typed(decoder.start(int(rng.integers(0, 9))))
        elif rng.random() < 0.15:
            length = int(rng.integers(0, state["past_key"].shape[carried["present_key"][1]] + 1))
            for source, axis in carried.values():
                if axis < 0:
                    continue
                state[source] = np.ascontiguousarray(
                    np.take(state[source], range(length), axis))
                pair.kept.cut(source, axis, length)
    return ""


class Groups:
    """A GroupQueryAttention, whose caches grow, or have room for all rows from the beginning."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.batch, self.heads = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        self.size, self.group = int(rng.choice([16, 32])), int(rng.integers(1, 3))
        self.room = int(rng.integers(40, 90)) if rng.random() < 0.5 else 0
        self.bytes = rng.random() < 0.3

    def model(self) -> bytes:
        kind = TensorProto.INT8 if self.bytes else TensorProto.FLOAT
        info = helper.make_tensor_value_info
        width, kept = self.heads * self.size, [self.room or name for name in ("past", "total")]
        inputs = [info("q", 1, [self.batch, "rows", width * self.group]), info("k", 1, [self.batch, "rows", width]),
                  info("v", 1, [self.batch, "rows", width]), info("lengths", TensorProto.INT32, [self.batch]),
                  info("all", TensorProto.INT32, [])]
        inputs += [info(name, kind, [self.batch, self.heads, kept[0], self.size]) for name in ("past_key", "past_value")]
        outputs = [info("y", 1, [self.batch, "rows", width * self.group])]
        outputs += [info(name, kind, [self.batch, self.heads, kept[1], self.size])
                    for name in ("present_key", "present_value")]
        names = ["q", "k", "v", "past_key", "past_value", "lengths", "all"]
        attributes: dict[str, object] = {}
        constants = []
        if self.bytes:
            names += [""] * 5 + ["scale", "scale"]
            constants = [numpy_helper.from_array(np.float32([0.03]), "scale")]
            attributes = {f"{name}_quant_type": "PER_TENSOR" for name in "kv"} | {"kv_cache_bit_width": 8}
        if self.rng.random() < 0.3:
            attributes["local_window_size"] = int(self.rng.integers(1, 20))
        node = helper.make_node("GroupQueryAttention", names, [out.name for out in outputs], domain="com.microsoft",
                                num_heads=self.heads * self.group, kv_num_heads=self.heads, **attributes)
        graph = helper.make_graph([node], "g", inputs, outputs, constants)
        return helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]).SerializeToString()

    def feeds(self, rows: int, lengths: np.ndarray) -> dict[str, np.ndarray]:
        def drawn(width: int) -> np.ndarray:
            return self.rng.standard_normal((self.batch, rows, width * self.size)).astype(np.float32)
        return {"q": drawn(self.heads * self.group), "k": drawn(self.heads), "v": drawn(self.heads),
                "lengths": lengths.astype(np.int32), "all": np.array(lengths.max() + 1, np.int32)}

    def start(self) -> dict[str, np.ndarray]:
        shape = (self.batch, self.heads, self.room, self.size)
        return {name: np.zeros(shape, np.int8 if self.bytes else np.float32) for name in ("past_key", "past_value")}


def check_groups(seed: int) -> str:
    rng = np.random.default_rng(seed)
    groups = Groups(rng)
    pair = Pair(session(groups.model(), int(rng.integers(1, 3))), {"present_*": "past_*"})
    lengths, fresh, state = np.zeros(groups.batch, np.int64), True, groups.start()
    for step in range(STEPS + int(rng.integers(0, 30))):
        rows = 1
        if fresh:  # a prompt, of which the longest sample fills all rows
            rows = int(rng.integers(2, 12))
            lengths = rng.integers(0, rows, groups.batch)
            lengths[rng.integers(groups.batch)] = rows - 1
        else:
            lengths = lengths + 1
        feeds = groups.feeds(rows, lengths)
        wrong, want = pair.run({**feeds, **state}, {**feeds, **(state if fresh and rng.random() < 0.7 or step == 0 else {})}
                               if groups.room else {**feeds, **(state if fresh else {})})
        if wrong:
            return f"step {step}: {wrong}"
        state = dict(zip(("past_key", "past_value"), want[1:]))
        fresh = rng.random() < 0.08 or lengths.max() + 2 > (groups.room or 1000)
        if fresh and not groups.room:
            state = groups.start()
        elif not fresh and not groups.room and rng.random() < 0.1:
            length = int(rng.integers(1, state["past_key"].shape[2] + 1))
            lengths = np.minimum(lengths, length - 1)
            for name in state:
                state[name] = np.ascontiguousarray(state[name][:, :, :length])
                pair.kept.cut(name, 2, length)
    return ""


def alike(runs: demi.Session, feeds: dict[str, object], first: list[object]) -> dict[str, str]:
    """Outputs and inputs of one type and shape, each once."""
    found: dict[str, str] = {}
    for name, value in zip([arg.name for arg in runs.get_outputs()], first):
        for source in [arg.name for arg in runs.get_inputs()]:
            if source in found.values() or source not in feeds or name in found:
                continue
            fed = feeds[source]
            if isinstance(value, np.ndarray) and isinstance(fed, np.ndarray) and \
                    value.dtype == fed.dtype and value.shape == fed.shape and \
                    value.dtype.kind not in "OUS":
                found[name] = source
    return found


def check_graph(seed: int) -> str:
    sample = random_graphs.build(seed)
    if not sample:
        return ""
    rng = np.random.default_rng(seed)
    try:
        fed = session(sample.model, numerics="faithful" if rng.random() < 0.3 else "fast")
        carried = alike(fed, sample.feeds, fed.run(None, sample.feeds))
    except demi.DemiError:
        return ""  # other tests' business
    pair, feeds = Pair(fed, carried), dict(sample.feeds)
    for step in range(STEPS if carried else 0):
        kept = feeds if not step else {k: v for k, v in feeds.items() if k not in carried.values()}
        try:
            wrong, want = pair.run(feeds, kept)
        except demi.DemiError:
            return ""  # values may leave what an operator takes
        if wrong:
            return f"step {step}: {wrong} ({carried})"
        got = dict(zip(pair.names, want))
        feeds.update({source: got[output] for output, source in carried.items()})
    return "" if carried else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description="What is carried, beside what is fed.", parents=[library_option])
    parser.add_argument("--number", type=int, default=300, help="of decoders, and of graphs")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    args = parser.parse_args()
    failures, without = 0, 0
    for seed in range(args.first, args.first + args.number):
        for check in (check_decoder, check_groups, check_graph):
            wrong = check(seed)
            without += wrong == "-"
            if wrong not in ("", "-"):
                failures += 1
                print(f"FAIL {check.__name__} {seed}: {wrong}")
    print(f"carry_suite: {args.number} decoders, as many groups of heads, {args.number - without} graphs, "
          f"{failures} failures")
    sys.exit(1 if failures or without > 0.7 * args.number else 0)


if __name__ == "__main__":
    main()
