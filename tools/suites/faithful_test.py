# SPDX-License-Identifier: Apache-2.0
"""Is what demi computes in 16 bits what the definition says, rounded once?

Every operator that may take float16 or bfloat16 is run by demi's runtime and held, bit by bit,
against arithmetic of another origin (suite/faithful.py says what passes):
  - elementwise ones of one operand on all 65,536 patterns of each type, of two on 75,000 pairs,
    against numpy formulas;
  - all others on ONNX's one-node test models, with 5-bit inputs so that sums of products are exact
    in float32, against ONNX's evaluator in float64.
An operator that none of these judges and that suite/faithful_formulas.py does not name with a
reason is a failure.

    tools/suites/faithful_test.py --libdemi build/release/libdemi.so --only Gelu
"""

import argparse
import collections
import functools
import os
import pathlib
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite import (engines, faithful, faithful_formulas as formulas, metric, one_operator,
                   operator_rows, walk, workers)
from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = ["float16", "bfloat16"]
SPECIAL = [0, -0.0, 1, -1, 2, -2, .5, 3, np.inf, -np.inf, np.nan, 1e-7, 1e-5, 6e4, -6e4]
COMPARISONS = {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}
Found = collections.namedtuple("Found", "op to text")


def first_wrong(good: np.ndarray, got: np.ndarray, exact: np.ndarray) -> str:
    if np.all(good):
        return ""
    where = tuple(int(i) for i in np.argwhere(~good)[0])
    return f"{np.sum(~good)} of {good.size}: {got[where]!s} at {where}, exact {exact[where]!s}"


def judged(op: str, got: np.ndarray, exact: np.ndarray, to: str, units: float) -> np.ndarray:
    if op in formulas.SCALE_UNITS:
        good = faithful.accepted_at_scale(got, exact, to, formulas.SCALE_UNITS[op])
    else:
        good = faithful.accepted(got, exact, to, units)
    with np.errstate(all="ignore"):
        zero = (got.astype(np.float64) == 0) & (exact.astype(np.float32) == 0)
    return good | zero if op in formulas.ZEROS else good


# ---- elementwise ---------------------------------------------------------------------------------


def one_node(name: str, row: tuple, to: str, operands: int, result: int = 0) -> demi.Session:
    low, make = faithful.low_type(to), helper.make_tensor_value_info
    names = [f"x{i}" for i in range(operands)]
    node = helper.make_node(name.split()[0], names, ["y"], **row[1])
    graph = helper.make_graph([node], "one", [make(n, low, [None]) for n in names],
                              [make("y", result or low, [None])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", row[0])], ir_version=10)
    return session(model, numerics="faithful")


def unary(name: str, to: str) -> str:
    row = formulas.UNARY[name]
    x = np.arange(1 << 16).astype(np.uint16).view(faithful.LOW[to])
    got = one_node(name, row, to, 1).run(None, {"x0": x})[0]
    with np.errstate(all="ignore"):
        exact = np.asarray(row[3](x.astype(np.float64)), np.float64)
        good = judged(name, got, exact, to, row[2])
        if name in formulas.STEPS:
            steps = formulas.STEPS[name](x.astype(np.float32))
            good |= faithful.accepted(got, steps.astype(np.float64), to, 1)
    wrong = first_wrong(good, got, exact)
    return f"{wrong} (x {x[np.argmin(good)]!s})" if wrong else ""


def pair(name: str, to: str) -> str:
    row, low = formulas.PAIRS[name], faithful.LOW[to]
    drawn = np.random.default_rng(1).integers(0, 1 << 16, 260).astype(np.uint16).view(low)
    with np.errstate(over="ignore"):
        values = np.concatenate([drawn, np.array(SPECIAL, np.float32).astype(low)])
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    result = TensorProto.BOOL if name in COMPARISONS else 0
    got = one_node(name, row, to, 2, result).run(None, {"x0": a, "x1": b})[0]
    with np.errstate(all="ignore"):
        exact = row[2](a.astype(np.float32), b.astype(np.float32))
        good = got == exact if result else \
            judged(name, got, exact.astype(np.float64), to, formulas.PAIRS_UNITS.get(name, 0))
        if name in formulas.PAIRS_STEPS:
            steps = formulas.PAIRS_STEPS[name](a.astype(np.float32), b.astype(np.float32))
            good |= faithful.accepted(got, steps.astype(np.float64), to, 1)
    i = int(np.argmin(good))
    wrong = first_wrong(good, got, exact)
    return f"{wrong} (of {a[i]!s} and {b[i]!s})" if wrong else ""


def made(index: int, to: str) -> str:
    """One of the made cases."""
    name, opset, attributes, values, units, formula = formulas.MADE[index]
    low, make = faithful.low_type(to), helper.make_tensor_value_info
    feeds = {f"x{i}": faithful.narrowed(v, to) for i, v in enumerate(values)}
    exact = formula(*values)
    kind = low if exact.dtype == np.float64 else TensorProto.INT64
    inputs = [helper.make_tensor_sequence_value_info(n, low, None) if isinstance(v, list) else
              make(n, low if v.dtype == faithful.LOW[to] else TensorProto.INT64, v.shape)
              for n, v in feeds.items()]
    node = helper.make_node(name, list(feeds), ["y"], **attributes)
    graph = helper.make_graph([node], "one", inputs, [make("y", kind, exact.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    got = session(model, numerics="faithful").run(None, feeds)[0]
    if got.shape != exact.shape:
        return f"shape {got.shape}, expected {exact.shape}"
    good = judged(name, got, exact, to, units) if kind == low else got == exact
    return first_wrong(np.asarray(good), got, exact)


# ---- ONNX's models -------------------------------------------------------------------------------


def flat(value: object) -> list[object]:
    return [y for x in value for y in flat(x)] if isinstance(value, (list, tuple)) else [value]


def compare(op: str, got: object, want: object, to: str) -> str:
    """One output's; what stays float32 or double must be right to float32's last bits."""
    if got is None or want is None:
        return "" if got is want else "an optional is empty in one of both"
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype == faithful.LOW[to]:
        exact = want.astype(np.float64)
        units = formulas.STEPS_UNITS.get(op, formulas.UNARY.get(op, (0, 0, 0))[2])
        return first_wrong(judged(op, got, exact, to, units), got, exact)
    if not metric.is_float(got.dtype):
        return first_wrong(np.asarray(got == want), got, want)
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(got.dtype).astype(np.float64)
        top = np.max(np.abs(b[np.isfinite(b)]), initial=0)
        slack = 2 * float(np.spacing(np.float32(top))) if got.dtype.itemsize > 2 else 0
        good = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= slack)
    return first_wrong(good, got, want)


def run_model(path: pathlib.Path, to: str) -> tuple[str, str]:
    """(what was found against a one-node model, or why it is not judged)."""
    model = onnx.load(path)
    node = model.graph.node[0]
    if node.op_type in formulas.RAISED:
        model.opset_import[0].version = formulas.RAISED[node.op_type]
    low = faithful.retyped(model, faithful.low_type(to))
    kind = TensorProto.FLOAT if node.op_type in formulas.IN_FLOAT else TensorProto.DOUBLE
    wide, wide_type = faithful.retyped(model, kind), helper.tensor_dtype_to_np_dtype(kind)
    for folder in sorted(path.parent.glob("test_data_set_*")):
        feeds = {name: faithful.as_low(value, to)
                 for name, value in (engines.read_feeds(model, folder) or {}).items()}
        try:
            want = engines.ReferenceEngine(b"", wide).run(
                {name: faithful.widened(value, to, wide_type) for name, value in feeds.items()})
        except engines.CannotRun as error:
            return "", f"the evaluator: {error}"
        try:
            got = session(low, numerics="faithful").run(None, feeds)
        except demi.DemiError as error:
            return str(error), ""
        for a, b in zip(flat(got), flat(list(want))):
            text = compare(node.op_type, a, b, to)
            if text:
                return text, ""
    return "", ""


def judge(item: tuple) -> tuple[str, str]:
    what, name, to = item
    try:
        if what == "model":
            return run_model(name, to)
        return {"unary": unary, "pair": pair, "made": made}[what](name, to), ""
    except demi.DemiError as error:
        return str(error), ""


# ---- what there is to judge ----------------------------------------------------------------------


def opset_of(model: onnx.ModelProto, node: onnx.NodeProto) -> int:
    return next((o.version for o in model.opset_import
                 if o.domain.replace("ai.onnx", "") == node.domain or o.domain == node.domain), 0)


@functools.cache
def one_node_models() -> list[tuple[pathlib.Path, onnx.NodeProto, int]]:
    found = []
    for path in sorted((ROOT / "build/data/backend").rglob("model.onnx")):
        model = onnx.load(path)
        if len(model.graph.node) == 1 and walk.has_float32(model) and not model.functions:
            node = model.graph.node[0]
            runs = any(a.HasField("g") for a in node.attribute)
            unjudged = formulas.UNJUDGED.get(node.op_type) or (runs and
                                                               node.op_type == "FlexAttention")
            if not unjudged:
                found.append((path, node, formulas.RAISED.get(node.op_type, opset_of(model, node))))
    return found


def operators(to: str) -> set[str]:
    """Operators with a precision class that may take the type."""
    found = set()
    for (domain, name), kinds in operator_rows.rows().items():
        if kinds["IS"][0].startswith("CLASS(NONE)"):
            continue
        node = onnx.NodeProto(op_type=name, domain=domain)
        if faithful.takes(node, one_operator.NEWEST[domain], to):
            found.add(name)
    return found


def items(only: str) -> list[tuple]:
    tables = {"unary": formulas.UNARY, "pair": formulas.PAIRS}
    made = [(what, name, to) for what, table in tables.items() for name in table for to in TYPES]
    made += [("made", i, to) for i, row in enumerate(formulas.MADE) for to in TYPES
             if faithful.takes(onnx.NodeProto(op_type=row[0]), row[1], to)]
    for path, node, opset in one_node_models():
        made += [("model", path, to) for to in TYPES if faithful.takes(node, opset, to)]
    return [item for item in made if not only or only == op_of(item)]


def op_of(item: tuple) -> str:
    what, name, _ = item
    if what == "made":
        return formulas.MADE[name][0]
    return models()[name] if what == "model" else name.split()[0]


@functools.cache
def models() -> dict[pathlib.Path, str]:
    return {path: node.op_type for path, node, _ in one_node_models()}


def check_rounding() -> list[str]:
    """The rounding here against numpy's and ml_dtypes'."""
    bits = np.random.default_rng(2).integers(0, 1 << 32, 1 << 20, np.uint32)
    edges = np.arange(1 << 16, dtype=np.uint32) << 16
    values = np.concatenate([bits, edges, edges | 0x8000, edges | 0x7fff]).view(np.float32)
    with np.errstate(all="ignore"):
        return [f"FAIL rounding to {to} differs from numpy's" for to in TYPES if not np.array_equal(
            faithful.rounded(values, to), faithful.bits_of(values.astype(faithful.LOW[to])))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--only", default="", help="an operator")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    failures, judged_of, unable = check_rounding(), collections.defaultdict(set), {}
    work = items(args.only)
    for item, result, died in workers.run(work, lambda: judge, (), args.processes):
        text, why = result or (died, "")
        what, name, to = item
        op = op_of(item)
        label = name.parent.name if what == "model" else f"{what} {name}"
        if text:
            failures.append(f"FAIL {op}: {label} in {to}: {text}")
        if why:
            unable[op] = f"{label}: {why}"
        else:
            judged_of[to].add(op)
    for to in TYPES if not args.only else []:
        for op in sorted(operators(to) - judged_of[to] - set(formulas.UNJUDGED)):
            failures.append(f"FAIL {op} is not judged in {to} ({unable.get(op, 'no model')})")
        failures += [f"FAIL UNJUDGED names {op}, which is judged"
                     for op in formulas.UNJUDGED if op in judged_of[to]]
    for line in failures[:200]:
        print(line)
    counts = ", ".join(f"{len(judged_of[to])} operators in {to}" for to in TYPES)
    print(f"{len(work)} cases, {counts}, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
