#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds expand-gradient against differences of the forward pass.

Every case of suite/gradient_cases.py and suite/gradient_signal_cases.py is a node whose outputs are
multiplied by random numbers, with a Gradient of that with respect to the node's operands. Expanded,
it must pass ONNX's full check and strict inference; its gradients, computed in double by ONNX's
reference evaluator, agree with central differences to 1e-5, along random directions or (--elements) each, and in float by demi and by ONNX
Runtime, with optimizations off, with those in double. Every GRADIENT row of rewrite/base/operators has a case.
Others show what a Gradient's names mean: values that are substituted, gradients of gradients,
training graphs, and each error.

    tools/suites/gradient_test.py [--only OPERATOR] [--elements] [--verbose]
        [--update]
"""

import argparse
import dataclasses
import pathlib
import re
import sys
import time
import unittest
import warnings
import zlib
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper, reference

from suite import (engines, gradient_cases, gradient_models, gradient_ops, operator_rows,
                   gradient_signal_cases)
from suite.gradient_cases import Case, ints
from suite.package import demi

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE, FLOAT_TOLERANCE = 1e-5, 2e-4
STEP = 1e-5
DIRECTIONS = 3
PASSES = "infer-dtypes,expand-gradient"
TRAINING = "ai.onnx.preview.training"
args = argparse.Namespace()


def opsets(version: int) -> list[onnx.OperatorSetIdProto]:
    return [helper.make_opsetid("", version), helper.make_opsetid(TRAINING, 1)]


def value_info(name: str, array: np.ndarray, elem: int, shape: list) -> onnx.ValueInfoProto:
    kind = elem if array.dtype == np.float64 else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, shape)


def typed(array: np.ndarray, elem: int) -> np.ndarray:
    single = elem == TensorProto.FLOAT and array.dtype == np.float64
    return np.asarray(array, dtype=np.float32 if single else array.dtype)


class Built:
    """A case as a model of one element type, forward alone or with its gradients."""

    def __init__(self, case: Case, weights: dict[int, np.ndarray] | None, elem: int) -> None:
        self.case, self.elem = case, elem
        names = [f"x{i}" if v is not None else "" for i, v in enumerate(case.inputs)]
        outputs = [f"o{k}" for k in range(case.outputs)]
        if case.bare and weights is not None:
            outputs = [o if k in weights else "" for k, o in enumerate(outputs)]
        nodes = [helper.make_node(case.op, names, outputs, **case.attrs)]
        self.feeds = {n: typed(v, elem) for i, (n, v) in enumerate(zip(names, case.inputs))
                      if v is not None and i not in case.constants}
        made = [value_info(n, v, elem, case.dims(i))
                for i, (n, v) in enumerate(zip(names, case.inputs))
                if v is not None and i not in case.constants]
        constants = [numpy_helper.from_array(typed(case.inputs[i], elem), names[i])
                     for i in case.constants]
        results = [helper.make_empty_tensor_value_info(o) for o in outputs]
        if weights is not None:
            self.wanted = [names[i] for i in case.places()]
            constants += [numpy_helper.from_array(typed(w, elem), f"w{k}")
                          for k, w in weights.items()]
            nodes += [helper.make_node("Mul", [f"o{k}", f"w{k}"], [f"m{k}"]) for k in weights]
            nodes += [helper.make_node("ReduceSum", [f"m{k}"], [f"s{k}"], keepdims=0)
                      for k in weights]
            nodes.append(helper.make_node("Sum", [f"s{k}" for k in weights], ["y"]))
            nodes.append(helper.make_node(
                "Gradient", self.wanted, [f"d_{n}" for n in self.wanted], domain=TRAINING,
                xs=self.wanted, y="y"))
            results = [helper.make_tensor_value_info(f"d_{names[i]}", elem, made_shape(m))
                       for i, m in zip(range(len(names)), list_of(made, names)) if i in case.places()]
        graph = helper.make_graph(nodes, "case", made, results, constants)
        plain = helper.make_graph([n for n in nodes if n.op_type != "Gradient"], "forward", made,
                                  [helper.make_tensor_value_info("y", elem, [])], constants)
        self.forward = helper.make_model(plain, opset_imports=opsets(case.opset), ir_version=8)
        self.model = helper.make_model(graph, opset_imports=opsets(case.opset), ir_version=8)


def list_of(made: list, names: list[str]) -> list:
    by_name = {m.name: m for m in made}
    return [by_name.get(n) for n in names]


def made_shape(info: onnx.ValueInfoProto | None) -> list:
    return [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim] if info else []


def evaluator(model: onnx.ModelProto) -> reference.ReferenceEvaluator:
    return reference.ReferenceEvaluator(model, new_ops=gradient_ops.OPERATORS)


def evaluate(model: onnx.ModelProto, feeds: dict) -> list:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return evaluator(model).run(None, feeds)


class Forward:
    """The weighted sum of a case's outputs, as a function of its operands."""

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.case = case
        self.built = Built(case, None, TensorProto.DOUBLE)
        self.runner = evaluator(self.built.model)
        first = self.run(self.built.feeds)
        read = case.read if case.read is not None else range(case.outputs)
        self.weights = {k: rng.standard_normal(np.shape(first[k])) for k in read
                        if np.asarray(first[k]).dtype == np.float64}

    def run(self, feeds: dict) -> list:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return self.runner.run(None, feeds)

    def __call__(self, feeds: dict) -> float:
        outputs = self.run(feeds)
        return float(sum((outputs[k] * w).sum() for k, w in self.weights.items()))

    def differences(self, place: int) -> np.ndarray:
        name = f"x{place}"
        x = self.built.feeds[name]
        found = np.zeros(x.shape)
        for index in np.ndindex(x.shape):
            high, low = np.array(x), np.array(x)
            high[index] += STEP
            low[index] -= STEP
            found[index] = (self({**self.built.feeds, name: high}) -
                            self({**self.built.feeds, name: low})) / (2 * STEP)
        return found

    def along(self, place: int, way: np.ndarray) -> float:
        """The derivative along a direction of that operand, by a central difference."""
        name = f"x{place}"
        x = self.built.feeds[name]
        high, low = ({**self.built.feeds, name: x + sign * STEP * way} for sign in (1, -1))
        return (self(high) - self(low)) / (2 * STEP)

    def error(self, place: int, got: np.ndarray) -> float:
        """How far a gradient is off, as `distance` has it: along a few directions, in which every element
        moves, or element by element (--elements)."""
        if args.elements or got.shape != self.built.feeds[f"x{place}"].shape:
            return distance(got, self.differences(place))
        rng, scale = np.random.default_rng(place), max(1.0, float(np.max(np.abs(got), initial=0)))
        worst = 0.0
        for _ in range(DIRECTIONS if got.size else 0):
            way = rng.uniform(0.7, 1, got.shape) * rng.choice([-1, 1], got.shape)
            error = abs(self.along(place, way) - float(np.sum(got * way))) / scale
            worst = max(worst, error if np.isfinite(error) else np.inf)
        return worst


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """The largest error, as a share of the largest value, or of 1."""
    if got.shape != want.shape:
        return float("inf")
    if not want.size:
        return 0.0
    error = np.abs(got.astype(np.float64) - want)
    return float(np.max(np.where(np.isfinite(error), error, np.inf)) /
                 max(1.0, float(np.max(np.abs(want)))))


def expanded(model: onnx.ModelProto, passes: str = PASSES) -> onnx.ModelProto:
    return demi.run_passes(model, passes, check=False)[0]


def refusal(model: onnx.ModelProto) -> str:
    try:
        demi.run_passes(model, PASSES, check=False)
    except demi.DemiError as error:
        return str(error)
    raise AssertionError("it was expanded")


def check_valid(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    assert not any(n.op_type == "Gradient" for n in model.graph.node)


def is_valid(model: onnx.ModelProto) -> bool:
    try:
        check_valid(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def check_as_source(model: onnx.ModelProto, forward: onnx.ModelProto) -> None:
    """ONNX refuses some functions' bodies that it brings itself: of double, or without attributes."""
    if is_valid(forward):
        check_valid(model)


def run_ort(model: onnx.ModelProto, feeds: dict) -> list | str:
    try:
        return engines.OrtEngine(model.SerializeToString(), model).run(feeds)
    except Exception as error:
        return engines.first_line(error)


def run_demi(model: onnx.ModelProto, feeds: dict) -> list | str:
    try:
        return demi.Session(model, threads=1).run(None, feeds)
    except demi.DemiError as error:
        return str(error)


def judge(case: Case, rng: np.random.Generator) -> str:
    """What is wrong with a case, or nothing; then why ONNX Runtime did not run it, behind "ort: "."""
    forward = Forward(case, rng)
    double = Built(case, forward.weights, TensorProto.DOUBLE)
    model = expanded(double.model)
    check_as_source(model, double.forward)
    gradients = evaluate(model, double.feeds)
    for place, got in zip(case.places(), gradients):
        error = forward.error(place, np.asarray(got))
        if not error <= TOLERANCE:
            return f"operand {place}: off by {error:.3g}"
    single = Built(case, forward.weights, TensorProto.FLOAT)
    model = expanded(single.model)
    check_as_source(model, single.forward)
    alone = ""
    for name, results in (("demi", run_demi(model, single.feeds)),
                          ("ONNX Runtime", run_ort(model, single.feeds))):
        if isinstance(results, str):
            if name == "demi":
                return results
            alone = f"ort: {results}"
            continue
        for place, got, want in zip(case.places(), results, gradients):
            error = distance(np.asarray(got), np.asarray(want))
            if not error <= FLOAT_TOLERANCE:
                return f"operand {place}: that of {name} is off by {error:.3g}"
    return alone


README = ROOT / "passes/gradient/README.md"
KINDS = {"FORMULA": "a formula", "RULE": "a rule", "BODY": "by a body of other operators",
         "NONE": "nothing flows", "REFUSED": "refused"}


def gradient_rows() -> list[tuple[str, str]]:
    """(operator, its GRADIENT row)"""
    return [(op, row) for (_, op), kinds in operator_rows.rows().items() for row in kinds["GRADIENT"]]


def readme_table() -> str:
    """What the GRADIENT rows of operators say, as the manual has it."""
    rows: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for op, row in gradient_rows():
        kind, rest = row.split(", ", 1)
        if kind in ("NONE", "REFUSED"):
            why = rest.strip('"')
            rows[kind].append(f"{op} ({why})")
        else:
            rows[kind].append(op)
    lines = [f"| {KINDS[kind]} | {len(ops)} | {', '.join(ops)} |" for kind, ops in rows.items() if ops]
    return "| gradient | rows | operators |\n|---|---|---|\n" + "\n".join(lines) + "\n"


def readme_with(table: str) -> str:
    return re.sub(r"(<!-- gradients: [^\n]*-->\n)[\s\S]*?(<!-- end -->)",
                  lambda m: m[1] + table + m[2], README.read_text())


def float_operators() -> set[str]:
    """Of ai.onnx, those of which the newest version may give floats that it computes from some."""
    found = set()
    for schema in onnx.defs.get_all_schemas():
        if schema.domain or schema.deprecated:
            continue
        types = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        if all(any("float)" in t or "double" in t for t in
                   (t for p in side for t in types.get(p.type_str, [p.type_str])))
               for side in (schema.inputs, schema.outputs)):
            found.add(schema.name)
    return found


def table_rows() -> dict[str, str]:
    """Operator -> kind of its GRADIENT row."""
    return {op: row.split(", ", 1)[0] for op, row in gradient_rows()}


class Rules(unittest.TestCase):
    def test_every_rule_agrees_with_differences(self) -> None:
        ran = alone = 0
        for op, make in sorted(gradient_cases.MAKERS.items()):
            if args.only and op != args.only:
                continue
            rng = np.random.default_rng(zlib.crc32(op.encode()))
            for i, case in enumerate(c for c in make(rng) if c.op == op):
                with self.subTest(f"{op} {i} {case.attrs} {case.title}"):
                    begun = time.monotonic()
                    problem = judge(case, rng)
                    ran += 1
                    spent = time.monotonic() - begun
                    if args.verbose and spent > 0.5:
                        print(op, i, f"{spent:.1f} s")
                    if problem.startswith("ort: "):
                        alone += 1
                        if args.verbose:
                            print(op, i, problem)
                        problem = ""
                    self.assertEqual(problem, "")
        print(f"{ran} cases, {ran - alone} also in ONNX Runtime")

    def test_older_and_newer_opsets(self) -> None:
        """Where the node itself is valid there, it is refused, or its gradients are the same."""
        same = refused = 0
        for op, make in sorted(gradient_cases.MAKERS.items()):
            if args.only and op != args.only:
                continue
            rng = np.random.default_rng(zlib.crc32(op.encode()))
            case = next(c for c in make(rng) if c.op == op)
            weights = Forward(case, rng).weights
            own = Built(case, weights, TensorProto.FLOAT)
            want = run_ort(expanded(own.model), own.feeds)
            for opset in (9, 11, 13, 16, 18, 20, 23):
                built = Built(dataclasses.replace(case, opset=opset), weights, TensorProto.FLOAT)
                if isinstance(want, str) or not is_valid(built.forward):
                    continue
                with self.subTest(f"{op} at {opset}"):
                    try:
                        model = expanded(built.model)
                    except demi.DemiError as error:
                        self.assertRegex(str(error), r"no gradient: .*opset")
                        refused += 1
                        continue
                    check_valid(model)
                    got = run_ort(model, built.feeds)
                    if isinstance(got, str):
                        continue
                    same += 1
                    for a, b in zip(got, want):
                        self.assertLessEqual(distance(a, b), FLOAT_TOLERANCE)
        print(f"at other opsets {same} are the same, {refused} are refused")

    def test_every_rule_has_a_case(self) -> None:
        rows = table_rows()
        without = [op for op, kind in rows.items()
                   if kind in ("RULE", "BODY", "FORMULA") and op not in gradient_cases.MAKERS
                   and op not in ELSEWHERE]
        self.assertEqual(without, [])

    def test_every_operator_has_a_row(self) -> None:
        self.assertEqual(sorted(float_operators() - set(table_rows())), [])

    def test_rows_are_sorted_and_the_manual_has_them(self) -> None:
        self.assertEqual(list(table_rows()), sorted(table_rows()))
        self.assertEqual(README.read_text(), readme_with(readme_table()),
                         "tools/suites/gradient_test.py --update renews it")


def parsed(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "{TRAINING}" : 1]>\n' + text)


class Meaning(unittest.TestCase):
    """What xs, zs, y and the operands of a Gradient mean."""

    x = np.array([0.3, -0.7, 1.1])
    z = np.array([1.5, 0.2, -0.4])

    def gradients(self, text: str, feeds: dict, passes: str = PASSES) -> list:
        model = expanded(parsed(text), passes)
        check_valid(model)
        results = run_ort(model, {k: v.astype(np.float64) for k, v in feeds.items()})
        self.assertNotIsInstance(results, str)
        return results

    def near(self, got: np.ndarray, want: np.ndarray) -> None:
        self.assertLessEqual(distance(np.asarray(got), np.asarray(want)), 1e-12)

    def test_other_values_than_the_named_ones(self) -> None:
        """d(h sin(z + h)) at h = z, z = x, where both names are read."""
        h, z = self.z, self.x
        got = self.gradients("""
            g (double[3] h, double[3] z) => (double[3] dh) {
              s = Add (z, h)
              t = Sin (s)
              y = Mul (h, t)
              dh = ai.onnx.preview.training.Gradient <xs = ["h"], zs = ["z"], y = "y"> (z, h)
            }""", {"h": self.x, "z": self.z})
        self.near(got[0], np.sin(z + h) + h * np.cos(z + h))

    def test_one_value_for_two_names(self) -> None:
        got = self.gradients("""
            g (double[3] a, double[3] b) => (double[3] da, double[3] db) {
              y = Mul (a, b)
              da, db = ai.onnx.preview.training.Gradient <xs = ["a", "b"], y = "y"> (a, a)
            }""", {"a": self.x, "b": self.z})
        self.near(got[0], self.x)
        self.near(got[1], self.x)

    def test_an_inner_value_cuts(self) -> None:
        got = self.gradients("""
            g (double[3] x) => (double[3] dh, double[3] dx) {
              h = Exp (x)
              y = Mul (h, x)
              dh, dx = ai.onnx.preview.training.Gradient <xs = ["h", "x"], y = "y"> (h, x)
            }""", {"x": self.x})
        self.near(got[0], self.x)
        self.near(got[1], np.exp(self.x))

    def test_zs_cut(self) -> None:
        got = self.gradients("""
            g (double[3] x) => (double[3] dx) {
              z = Exp (x)
              y = Mul (z, x)
              dx = ai.onnx.preview.training.Gradient <xs = ["x"], zs = ["z"], y = "y"> (x, z)
            }""", {"x": self.x})
        self.near(got[0], np.exp(self.x))

    def test_gradients_of_gradients(self) -> None:
        """The second derivative of the sum of x^3, whose first is no operand of the second."""
        got = self.gradients("""
            g (double[3] x) => (double[3] d, double[3] dd) {
              d = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)
              s = Mul (x, x)
              y = Mul (s, x)
              dd = ai.onnx.preview.training.Gradient <xs = ["x"], y = "d"> (x)
            }""", {"x": self.x})
        self.near(got[0], 3 * self.x ** 2)
        self.near(got[1], 6 * self.x)

    def test_a_y_that_only_its_name_keeps(self) -> None:
        got = self.gradients("""
            g (double[3] x) => (double[3] dx) {
              y = Sin (x)
              dx = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)
            }""", {"x": self.x}, "eliminate-dead-code," + PASSES)
        self.near(got[0], np.cos(self.x))

    def test_outputs_that_are_omitted_and_xs_without_a_path(self) -> None:
        got = self.gradients("""
            g (double[3] x, double[3] w, double[2] o) => (double[3] dw, double[2] do) {
              y = Mul (x, w)
              , dw, do = ai.onnx.preview.training.Gradient <xs = ["x", "w", "o"], y = "y"> (x, w, o)
            }""", {"x": self.x, "w": self.z, "o": self.x[:2]})
        self.near(got[0], self.x)
        self.near(got[1], np.zeros(2))

    def test_casts_round_what_flows(self) -> None:
        got = self.gradients("""
            g (double[3] x) => (double[3] dx) {
              f = Cast <to = 1> (x)
              i = Cast <to = 6> (x)
              k = CastLike (i, x)
              e = Exp (f)
              l = CastLike (e, x)
              y = Add (l, k)
              dx = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)
            }""", {"x": self.x})
        self.assertLessEqual(distance(got[0], np.exp(self.x)), 1e-6)

    def test_operands_that_a_conversion_casts(self) -> None:
        text = """
            g (float16[3] x) => (float16[3] dx) {
              [c] w = Cast <to = 1> (x) @meta{"demi.inserted": "cast"}
              y = Mul (x, x)
              dw = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (w)
              dx = Cast <to = 10> (dw)
            }"""
        model = parsed(text.replace(' @meta{"demi.inserted": "cast"}', ""))
        model.graph.node[0].metadata_props.add(key="demi.inserted", value="cast")
        result = expanded(model)
        check_valid(result)
        x = self.x.astype(np.float16)
        self.assertLessEqual(distance(evaluate(result, {"x": x})[0], 2 * x), 1e-3)
        self.assertNotIn("Identity", [n.op_type for n in result.graph.node])

    def test_statistics_of_a_layer_normalization(self) -> None:
        """What flows from its mean, and from the inverse of its deviation, which are floats."""
        model = parsed("""
            g (float[1, 4] x, float[4] s) => (float[1, 4] dx) {
              n, m, i = LayerNormalization <epsilon = 0.0> (x, s)
              p = Mul (m, i)
              y = Add (n, p)
              dx = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)
            }""")
        result = expanded(model)
        check_valid(result)
        x, s = np.array([[0.3, -1.1, 2.0, 0.7]]), np.array([1.0, -0.5, 2.0, 0.3])

        def y(x: np.ndarray) -> float:
            m, d = x.mean(), x.std()
            return float(((x - m) / d * s + m / d).sum())
        want = np.zeros((1, 4))
        for k in range(4):
            step = np.eye(4)[k:k + 1] * STEP
            want[0, k] = (y(x + step) - y(x - step)) / (2 * STEP)
        got = run_ort(result, {"x": x.astype(np.float32), "s": s.astype(np.float32)})
        self.assertLessEqual(distance(got[0], want), 1e-5)

    def test_branches(self) -> None:
        """One that captures x twice and a constant of its own, and one that does not use w."""
        text = """
            g (double[3] x, double[3] w, bool c) => (double[3] dx, double[3] dw) {
              s = Sin (x)
              p, q = If (c) <
                then_branch = t () => (double[3] tp, double[3] tq) <double[3] k = {2, 3, 4}> {
                  u = Mul (s, x)
                  tp = Mul (u, k)
                  tq = Mul (w, s)
                },
                else_branch = e () => (double[3] ep, double[3] eq) {
                  ep = Exp (s)
                  eq = Identity (x)
                }>
              y = Mul (p, q)
              dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], y = "y"> (x, w)
            }"""
        x, w, k = self.x, self.z, np.array([2.0, 3.0, 4.0])
        for taken in (True, False):
            def y(x: np.ndarray, w: np.ndarray) -> np.ndarray:
                s = np.sin(x)
                return s * x * k * w * s if taken else np.exp(s) * x
            feeds = {"x": x, "w": w, "c": np.array(taken)}
            model = expanded(parsed(text))
            check_valid(model)
            got = run_ort(model, feeds)
            self.assertNotIsInstance(got, str, got)
            again = expanded(parsed(text.replace("> (x, w)", "> (w, x)")))  # each for the other
            check_valid(again)
            other = run_ort(again, {**feeds, "x": w, "w": x})
            self.assertNotIsInstance(other, str, other)
            for a, b in zip(got, other):
                self.near(a, b)
            for place, value in enumerate(got):
                step = [np.zeros(3), np.zeros(3)]
                step[place] = np.full(3, STEP)
                want = (y(x + step[0], w + step[1]) - y(x - step[0], w - step[1])) / (2 * STEP)
                self.assertLessEqual(distance(value, want), 1e-6)

    def test_a_window_over_what_rank_is_not_known(self) -> None:
        """The weights say it, and the sizes are computed."""
        model = parsed("""
            g (double[24] x, int64[R] shape, double[1, 2, 2, 2] w) => (double[24] dx, double[1, 2, 2, 2] dw) {
              s = Reshape (x, shape)
              c = Conv <strides = [2, 1]> (s, w)
              y = Mul (c, c)
              dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], zs = ["shape"], y = "y">
                  (x, w, shape)
            }""")
        rng = np.random.default_rng(4)
        x, w = rng.standard_normal(24), rng.standard_normal((1, 2, 2, 2))
        made = expanded(model, "infer-dtypes,infer-shapes,expand-gradient")
        check_valid(made)
        feeds = {"x": x, "w": w, "shape": ints(1, 2, 3, 4)}
        got = evaluate(made, feeds)

        def y(feeds: dict) -> float:
            s, total = feeds["x"].reshape(2, 3, 4), 0.0
            for k in range(3):
                total += float((s[:, :2, k:k + 2] * feeds["w"][0]).sum()) ** 2
            return total
        for name, value in zip(("x", "w"), got):
            along = rng.standard_normal(feeds[name].shape)
            high, low = ({**feeds, name: feeds[name] + sign * STEP * along} for sign in (1, -1))
            want = np.array((y(high) - y(low)) / (2 * STEP))
            self.assertLessEqual(distance(np.array((value * along).sum()), want), 1e-6, name)

    def near_differences(self, model: onnx.ModelProto, y: object, feeds: dict, names: list,
                         run: Callable = run_ort) -> None:
        made = expanded(model)
        check_valid(made)
        got = run(made, feeds)
        self.assertNotIsInstance(got, str, got)
        for name, value in zip(names, got):
            want = np.zeros(feeds[name].shape)
            for index in np.ndindex(want.shape):
                high, low = np.array(feeds[name]), np.array(feeds[name])
                high[index] += STEP
                low[index] -= STEP
                want[index] = (y({**feeds, name: high}) - y({**feeds, name: low})) / (2 * STEP)
            self.assertLessEqual(distance(value, want), 1e-6, name)

    def test_layers_in_branches_and_bodies(self) -> None:
        """What they are made again of is known there as it is outside."""
        model = parsed("""
            g (double[3, 2, 2] x, double[1, 3, 2] w, double[1, 3, 3] r, bool c)
                => (double[3, 2, 2] dx, double[1, 3, 2] dw, double[1, 3, 3] dr) {
              p = If (c) <
                then_branch = t () => (double[3, 1, 2, 3] tp) {
                  tp, th = RNN <hidden_size = 3> (x, w, r)
                },
                else_branch = e () => (double[3, 1, 2, 3] ep) {
                  last, ep = Scan <num_scan_inputs = 1, body = b (double[1, 2, 3] hi, double[2, 2] xi)
                      => (double[1, 2, 3] ho, double[1, 2, 3] yo) {
                    one = Constant <value = int64[1] {0}> ()
                    xs = Unsqueeze (xi, one)
                    yb, ho = RNN <hidden_size = 3> (xs, w, r, , , hi)
                    yo = Squeeze (yb, one)
                  }> (zero, x)
                }>
              y = Mul (p, p)
              dx, dw, dr = ai.onnx.preview.training.Gradient <xs = ["x", "w", "r"], zs = ["c"], y = "y">
                  (x, w, r, c)
            }""")
        model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 2, 3)), "zero"))
        rng = np.random.default_rng(6)
        feeds = {"x": rng.standard_normal((3, 2, 2)), "w": rng.standard_normal((1, 3, 2)),
                 "r": rng.standard_normal((1, 3, 3))}

        def y(feeds: dict) -> float:
            h, total = np.zeros((2, 3)), 0.0
            for row in feeds["x"]:
                h = np.tanh(row @ feeds["w"][0].T + h @ feeds["r"][0].T)
                total += float((h * h).sum())
            return total
        for taken in (True, False):
            self.near_differences(model, y, {**feeds, "c": np.array(taken)}, ["x", "w", "r"], evaluate)

    def test_scans(self) -> None:
        """A state, what is read and given step by step, and a weight that the body captures."""
        model = parsed("""
            g (double[2] h, double[3, 2] x, double[2, 2] w)
                => (double[2] dh, double[3, 2] dx, double[2, 2] dw) {
              last, all = Scan <num_scan_inputs = 1, body = b (double[2] hi, double[2] xi)
                  => (double[2] ho, double[2] yo) {
                m = MatMul (hi, w)
                s = Add (m, xi)
                ho = Tanh (s)
                yo = Mul (ho, hi)
              }> (h, x)
              sq = Mul (all, all)
              one = ReduceSum <keepdims = 0> (sq)
              two = ReduceSum <keepdims = 0> (last)
              y = Add (one, two)
              dh, dx, dw = ai.onnx.preview.training.Gradient <xs = ["h", "x", "w"], y = "y">
                  (h, x, w)
            }""")
        rng = np.random.default_rng(3)

        def y(feeds: dict) -> float:
            h, total = feeds["h"], 0.0
            for row in feeds["x"]:
                new = np.tanh(h @ feeds["w"] + row)
                total += ((new * h) ** 2).sum()
                h = new
            return float(total + h.sum())
        self.near_differences(model, y, {"h": rng.standard_normal(2),
                                         "x": rng.standard_normal((3, 2)),
                                         "w": rng.standard_normal((2, 2))}, ["h", "x", "w"])

    def test_loops(self) -> None:
        """A state of floats and one that counts, an output of each step, and a captured weight."""
        model = parsed("""
            g (double[2] h, double[2] w, int64 n) => (double[2] dh, double[2] dw)
              <bool go = {1}, int64 start = {1}> {
              last, count, all = Loop <body = b (int64 i, bool c, double[2] hi, int64 ki)
                  => (bool co, double[2] ho, int64 ko, double[2] yo) {
                co = Identity (c)
                kd = Cast <to = 11> (ki)
                m = Mul (hi, w)
                d = Div (m, kd)
                ho = Sin (d)
                yo = Mul (ho, w)
                ko = Add (ki, i)
              }> (n, go, h, start)
              one = ReduceSum <keepdims = 0> (all)
              two = ReduceSum <keepdims = 0> (last)
              y = Mul (one, two)
              dh, dw = ai.onnx.preview.training.Gradient <xs = ["h", "w"], y = "y"> (h, w)
            }""")

        def y(feeds: dict) -> float:
            h, k, total = feeds["h"], 1, 0.0
            for i in range(int(feeds["n"])):
                h = np.sin(h * feeds["w"] / k)
                total += (h * feeds["w"]).sum()
                k += i
            return float(total * h.sum())
        self.near_differences(model, y, {"h": self.x[:2], "w": self.z[:2],
                                         "n": np.array(4, dtype=np.int64)}, ["h", "w"])

    def test_functions_are_looked_into(self) -> None:
        """With an attribute, an operand that is left out, and a function within."""
        text = f"""<ir_version: 8, opset_import: ["" : 17, "{TRAINING}" : 1, "own" : 1]>
            g (double[3] x, double[3] w, double low) => (double[3] dx, double[3] dw) {{
              h = own.outer <alpha = 0.3> (x, low)
              k = own.outer (h)
              y = Mul (k, w)
              dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], y = "y"> (x, w)
            }}
            <domain: "own", opset_import: ["" : 17, "own" : 1]>
            outer <alpha: float = 0.5> (a, b) => (c) {{
              l = LeakyRelu <alpha: float = @alpha> (a)
              c = own.inner (l, b)
            }}
            <domain: "own", opset_import: ["" : 17]>
            inner (a, b) => (c) {{
              s = Sin (a)
              c = Clip (s, b)
            }}"""
        x, w, low = self.x, self.z, np.array(-0.15)

        def y(x: np.ndarray, w: np.ndarray) -> np.ndarray:
            h = np.maximum(np.sin(np.where(x > 0, x, 0.3 * x)), low)
            return np.sin(np.where(h > 0, h, 0.5 * h)) * w
        model = onnx.parser.parse_model(text)
        result = expanded(model)
        check_valid(result)
        got = run_ort(result, {"x": x, "w": w, "low": low})
        self.assertNotIsInstance(got, str, got)
        for place, value in enumerate(got):
            step = [np.zeros(3), np.zeros(3)]
            step[place] = np.full(3, STEP)
            want = (y(x + step[0], w + step[1]) - y(x - step[0], w - step[1])) / (2 * STEP)
            self.assertLessEqual(distance(value, want), 1e-6)

    def test_onnx_own_models(self) -> None:
        """test_gradient_of_add and test_gradient_of_add_and_mul, as ONNX has them."""
        add = helper.make_node("Add", ["a", "b"], ["c"])
        mul = helper.make_node("Mul", ["c", "a"], ["d"])
        for nodes, y, want in (([add], "c", (1.0, 1.0)), ([add, mul], "d", (2 * 0.5 + 2.0, 0.5))):
            node = helper.make_node("Gradient", ["a", "b"], ["da", "db"], domain=TRAINING,
                                    xs=["a", "b"], y=y)
            infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [])
                     for n in ("a", "b", "da", "db")}
            graph = helper.make_graph([*nodes, node], "g", [infos["a"], infos["b"]],
                                      [infos["da"], infos["db"]])
            model = expanded(helper.make_model(graph, opset_imports=opsets(12), ir_version=7))
            check_valid(model)
            feeds = {"a": np.array(0.5, np.float32), "b": np.array(2.0, np.float32)}
            results = run_ort(model, feeds)
            self.assertNotIsInstance(results, str)
            self.assertEqual(tuple(float(r) for r in results), want)

    def test_a_training_graph_sees_the_main_graph(self) -> None:
        """Gradient in an algorithm graph; what else the model says stays."""
        model = parsed("""
            g (float[2, 3] x, float[2, 2] t) => (float[2, 2] p) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
              p = MatMul (x, w)
            }""")
        algorithm = helper.make_graph(
            [helper.make_node("Sub", ["p", "t"], ["e"]), helper.make_node("Mul", ["e", "e"], ["q"]),
             helper.make_node("ReduceSum", ["q"], ["loss"], keepdims=0),
             helper.make_node("Gradient", ["w", "x", "t"], ["dw"], domain=TRAINING, xs=["w"],
                              zs=["x", "t"], y="loss"),
             helper.make_node("Sub", ["w", "dw"], ["w_new"])], "step", [],
            [helper.make_tensor_value_info("w_new", TensorProto.FLOAT, [3, 2])])
        training = model.training_info.add()
        training.algorithm.CopyFrom(algorithm)
        binding = training.update_binding.add()
        binding.key, binding.value = "w", "w_new"
        result = expanded(model)
        onnx.checker.check_model(result, full_check=True)
        self.assertEqual(result.graph, model.graph)
        self.assertEqual(list(result.training_info[0].update_binding),
                         list(training.update_binding))
        step = result.training_info[0].algorithm
        self.assertNotIn("Gradient", [n.op_type for n in step.node])
        joined = helper.make_graph(
            [*result.graph.node, *step.node], "joined", result.graph.input, step.output,
            [*result.graph.initializer, *step.initializer])
        whole = helper.make_model(joined, opset_imports=opsets(17), ir_version=8)
        check_valid(whole)
        x, t = np.arange(6, dtype=np.float32).reshape(2, 3) / 5, np.ones((2, 2), np.float32)
        w = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        got = run_ort(whole, {"x": x, "t": t})
        self.assertLessEqual(distance(got[0], w - 2 * x.T @ (x @ w - t)), 1e-5)

    def test_errors_name_the_node(self) -> None:
        gradient = 'dx = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)'
        for body, why in (
                ("y = Exp (x)\n" + gradient.replace('["x"]', '["u"]'), "its xs name 'u'"),
                ("y = Exp (x)\n" + gradient.replace('y = "y"', 'y = "u"'), "its y names 'u'"),
                ("y = Exp (x)\n" + gradient.replace('["x"]', '["x", "x"]').replace("(x)", "(x, x)"),
                 "it names 'x' twice"),
                ("y = Exp (x)\n" + gradient.replace('["x"]', '["x", "y"]'), "1 inputs and 1 outputs"),
                ("y = Exp (w)\n" + gradient, "'y' depends on none of its xs"),
                ("y = Floor (x)\n" + gradient, "'y' depends on none of its xs"),
                ("y = Cast <to = 7> (x)\n" + gradient, "'y' is not floating-point"),
                (gradient + "\ny = Add (dx, x)", "is computed from its own output"),
                ("y = custom.Unknown (x)\n" + gradient, "the type of 'y' is not known"),
                ("q = Cast <to = 3> (x)\ny = DequantizeLinear (q, x)\n" + gradient,
                 "(DequantizeLinear): no gradient: of quantized values"),
                ("y = Exp (x)\ndx = ai.onnx.preview.training.Gradient <xs = [\"x\"]> (x)", "'y'"),
                ("y = Exp (x)\n" + gradient.replace('y = "y"', "y = 3"), "'y'"),
                ("a = Constant <value_ints = [0]> ()\nh = Unsqueeze (x, a)\n"
                 "y = Attention <q_num_heads = 1, kv_num_heads = 2> (h, h, h)\n" + gradient,
                 "with this number of heads"),
                ("y = Exp (x)\n" + gradient.replace("(x)", '("")'), "input 0 is omitted")):
            with self.subTest(body):
                model = parsed(f"g (float[2, 2] x, float[2, 2] w) => (float[2, 2] dx) {{\n{body}\n}}", 23)
                model.opset_import.add(domain="custom", version=1)
                self.assertIn(why, refusal(model))


# Operators whose cases are in Meaning, which a node alone does not show.
ELSEWHERE = {"Cast", "CastLike", "If", "Loop", "Scan"}


class Models(unittest.TestCase):
    """Whole models, whose batch is open, or whose images are of any size: every parameter's gradient,
    and what training with them does."""

    def build(self, text: str, shapes: dict, fixed: dict, elem: int) -> tuple:
        rng = np.random.default_rng(5)
        model = parsed(text, 21)
        if elem == TensorProto.FLOAT:
            model = parsed(text.replace("double", "float"), 21)
        params = {n: typed(rng.standard_normal(s) * 0.4, elem) for n, s in shapes.items()}
        for name, value in {**params, **{k: typed(v, elem) for k, v in fixed.items()}}.items():
            model.graph.initializer.append(numpy_helper.from_array(value, name))
        names = list(shapes)
        model.graph.node.append(helper.make_node(
            "Gradient", names, [f"d_{n}" for n in names], domain=TRAINING, xs=names, y="loss"))
        for name in names:
            model.graph.output.append(
                helper.make_tensor_value_info(f"d_{name}", elem, shapes[name]))
        if "training_mode" in text:  # the running statistics are outputs, too
            [node] = [n for n in model.graph.node if n.op_type == "BatchNormalization"]
            node.output.extend(["running_mean", "running_var"])
        return model, params

    def steps(self, text: str, shapes: dict, fixed: dict, feeds: dict) -> None:
        double, params = self.build(text, shapes, fixed, TensorProto.DOUBLE)
        made = expanded(double)
        check_valid(made)
        named = {i.name: i for i in made.graph.initializer}
        for name in shapes:  # fed, so that they can be changed
            made.graph.input.append(helper.make_tensor_value_info(
                name, TensorProto.DOUBLE, shapes[name]))
            made.graph.initializer.remove(named[name])
        runner = evaluator(made)

        def run(values: dict) -> list:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return runner.run(None, {**feeds, **values})
        gradients = run(params)[1:]
        rng = np.random.default_rng(6)
        for (name, value), got in zip(params.items(), gradients):
            for _ in range(3):
                along = rng.standard_normal(value.shape)
                high, low = ({**params, name: value + sign * STEP * along} for sign in (1, -1))
                want = (run(high)[0] - run(low)[0]) / (2 * STEP)
                self.assertLessEqual(abs(float((got * along).sum() - want)),
                                     TOLERANCE * max(1.0, abs(float(want))), name)
        self.train(text, shapes, fixed, feeds, gradients)

    def train(self, text: str, shapes: dict, fixed: dict, feeds: dict, want: list) -> None:
        """ONNX Runtime agrees in float, and steps along the gradients make the loss less."""
        single, params = self.build(text, shapes, fixed, TensorProto.FLOAT)
        made = expanded(single)
        check_valid(made)
        for name in shapes:
            made.graph.input.append(helper.make_tensor_value_info(
                name, TensorProto.FLOAT, shapes[name]))
        engine = engines.OrtEngine(made.SerializeToString(), made)
        feeds = {k: typed(v, TensorProto.FLOAT) for k, v in feeds.items()}
        losses = []
        for step in range(30):
            loss, *gradients = engine.run({**feeds, **params})
            losses.append(float(loss))
            if step == 0:
                for a, b in zip(gradients, want):
                    self.assertLessEqual(distance(a, b), FLOAT_TOLERANCE)
            params = {n: v - np.float32(0.3) * g
                      for (n, v), g in zip(params.items(), gradients)}
        self.assertLess(losses[-1], 0.5 * losses[0], losses)

    def test_convolutional(self) -> None:
        rng = np.random.default_rng(1)
        self.steps(gradient_models.LENET, gradient_models.LENET_SHAPES,
                   {"mean": np.zeros(4), "var": np.ones(4)},
                   {"image": rng.standard_normal((6, 1, 10, 10)), "label": np.arange(6) % 5})

    def test_detector(self) -> None:
        """Height and width are open, as a text detector's."""
        rng = np.random.default_rng(3)
        image = rng.standard_normal((3, 2, 12, 8))
        self.steps(gradient_models.DETECTOR, gradient_models.DETECTOR_SHAPES,
                   {"scales": np.array([1, 1, 2, 2], dtype=np.float32), "weight": np.array(20.0)},
                   {"image": image, "target": (image[:, :1] > 0) * 1.0})

    def test_transformer(self) -> None:
        rng = np.random.default_rng(2)
        causal = np.where(np.tri(4) > 0, 0.0, -1e9)
        self.steps(gradient_models.TRANSFORMER, gradient_models.TRANSFORMER_SHAPES,
                   {"heads": ints(0, 0, 2, 3), "flat": ints(0, 0, 6), "causal": causal},
                   {"token": rng.integers(0, 7, (3, 4)), "label": rng.integers(0, 7, (3, 4))})


def spoilt(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """With something of one node, or of an input, that is not as it was."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    nodes = [n for n in made.graph.node if n.op_type != "Sum"]
    node = nodes[rng.integers(len(nodes))] if rng.integers(4) else made.graph.node[0]
    kind = rng.integers(6)
    if kind == 0 and node.input:
        node.input[rng.integers(len(node.input))] = ""
    elif kind == 1 and node.attribute:
        attr = node.attribute[rng.integers(len(node.attribute))]
        number = int(rng.choice([-1, 0, 1, 3, 17, -2**63, 2**63 - 1]))
        if attr.ints:
            attr.ints[rng.integers(len(attr.ints))] = number
        elif attr.strings:
            attr.strings[0] = bytes(rng.integers(0, 256, 3, dtype=np.uint8))
        else:
            attr.i, attr.type = number, onnx.AttributeProto.INT
    elif kind == 2 and node.attribute:
        del node.attribute[rng.integers(len(node.attribute))]
    elif kind == 3 and made.graph.input:
        shape = made.graph.input[rng.integers(len(made.graph.input))].type.tensor_type.shape
        if shape.dim:
            shape.dim[rng.integers(len(shape.dim))].dim_value = int(rng.choice([0, 1, 7, 2**40]))
        else:
            shape.dim.add(dim_value=3)
    elif kind == 4 and node.input:
        del node.input[rng.integers(len(node.input))]
    else:
        names = [i for n in made.graph.node for i in n.input]
        if node.input and names:
            node.input[rng.integers(len(node.input))] = names[rng.integers(len(names))]
    return made


class Spoilt(unittest.TestCase):
    def test_one_line_for_each(self) -> None:
        """What is wrong in a model is an error of one line, if it is not expanded as it is."""
        refused = 0
        for op, make in sorted(gradient_cases.MAKERS.items()):
            if args.only and op != args.only:
                continue
            rng = np.random.default_rng(zlib.crc32(op.encode()) + 1)
            case = next(c for c in make(rng) if c.op == op)
            model = Built(case, Forward(case, rng).weights, TensorProto.FLOAT).model
            for _ in range(args.spoilt):
                with self.subTest(op):
                    try:
                        expanded(spoilt(model, rng))
                    except demi.ModelError as error:
                        refused += 1
                        self.assertEqual(len(str(error).strip().splitlines()), 1, str(error))
        print(f"{refused} spoilt models are refused")


def main() -> int:
    global args
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--spoilt", type=int, default=8, help="of each operator, how many")
    parser.add_argument("--elements", action="store_true", help="differences by each element: slow")
    parser.add_argument("--update", action="store_true", help="renew the manual's table")
    args, rest = parser.parse_known_args()
    if args.update:
        README.write_text(readme_with(readme_table()))
        return 0
    return not unittest.main(argv=[sys.argv[0], *rest], exit=False).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
