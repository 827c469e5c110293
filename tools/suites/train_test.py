#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training from outside: what make-training, join-training and `demi train` do.

Losses of `demi train` are those of the same step in ONNX Runtime, run in its place with the same
batches; optimizers are held against their formulas in double, running statistics against numpy. What
ends a training leaves nothing behind, and what goes on gives the bits of training at once, killed or
not.

    tools/suites/train_test.py --demi build/release/demi [unittest arguments]
"""

import argparse
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, reference

from suite import fail_call

args = argparse.Namespace()
PASSES = "infer-dtypes,infer-shapes,expand-gradient,join-training,infer-dtypes,infer-shapes"
SAMPLES, BATCH = 160, 16


def demi(*words: object, **more: object) -> subprocess.CompletedProcess:
    return subprocess.run([args.demi, *map(str, words)], capture_output=True, text=True, check=False,
                          **more)


def mlp(rng: np.random.Generator) -> onnx.ModelProto:
    weights = {"w1": rng.normal(0, 0.3, (8, 12)), "b1": np.zeros(12), "w2": rng.normal(0, 0.3, (12, 4)),
               "b2": np.zeros(4)}
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "w2", "b2"], ["z"]),
             helper.make_node("Softmax", ["z"], ["p"], axis=-1)]
    return model_of(nodes, ["N", 8], ["N", 4], weights)


def called(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same, whose layers are calls of a function with a call within."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    body = [helper.make_node("Gemm", ["a", "w", "b"], ["g"])]
    inner = helper.make_function("f", "Inner", ["a", "w", "b"], ["g"], body, imports[:1])
    outer = helper.make_function("f", "Layer", ["a", "w", "b"], ["y"], [
        helper.make_node("Inner", ["a", "w", "b"], ["y"], domain="f")], imports)
    model.functions.extend([inner, outer])
    model.opset_import.append(imports[1])
    for node in model.graph.node:
        if node.op_type == "Gemm":
            node.op_type, node.domain = "Layer", "f"
    return model


def lenet(rng: np.random.Generator, norm: bool, dropout: bool = False) -> onnx.ModelProto:
    weights = {"k": rng.normal(0, 0.3, (4, 1, 3, 3)), "kb": np.zeros(4),
               "w": rng.normal(0, 0.3, (64, 4)), "b": np.zeros(4)}
    nodes = [helper.make_node("Conv", ["x", "k", "kb"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["m"], ["f"]), helper.make_node("Gemm", ["f", "w", "b"], ["z"]),
             helper.make_node("Softmax", ["z"], ["p"], axis=-1)]
    if norm:
        weights |= {"scale": np.ones(4), "shift": np.zeros(4), "mean": np.zeros(4), "var": np.ones(4)}
        nodes[1].input[0] = "n"
        nodes.insert(1, helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"],
                                         ["n"]))
    if dropout:  # as exporters write it: no mask is asked for
        weights["ratio"] = np.float32(0.1)
        nodes[-2].input[0] = "d"
        nodes.insert(len(nodes) - 2, helper.make_node("Dropout", ["f", "ratio"], ["d"]))
    return model_of(nodes, ["N", 1, 8, 8], ["N", 4], weights)


def branched(rng: np.random.Generator, constants: bool) -> onnx.ModelProto:
    """Two layers, each in a branch with weights of its own, whose names both branches have."""
    branches = []
    for activation in ("Relu", "Tanh"):
        weights = {"w": rng.normal(0, 0.3, (8, 12)), "b": np.zeros(12), "v": rng.normal(0, 0.3, (12, 4))}
        held = [numpy_helper.from_array(w.astype(np.float32), f"{n}" if n != "v" else f"v_{activation}")
                for n, w in weights.items()]
        nodes = [helper.make_node("Constant", [], [t.name], value=t) for t in held if constants]
        nodes += [helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
                  helper.make_node(activation, ["h"], ["r"]),
                  helper.make_node("MatMul", ["r", f"v_{activation}"], [f"z_{activation}"])]
        out = helper.make_tensor_value_info(f"z_{activation}", TensorProto.FLOAT, ["N", 4])
        branches.append(helper.make_graph(nodes, activation, [], [out], [] if constants else held))
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
             helper.make_node("Greater", ["s", "zero"], ["c"]),
             helper.make_node("If", ["c"], ["z"], then_branch=branches[0], else_branch=branches[1]),
             helper.make_node("Softmax", ["z"], ["p"], axis=-1)]
    return model_of(nodes, ["N", 8], ["N", 4], {"zero": np.array(0)})


HIDDEN = 5


def exported(rng: np.random.Generator, moved: bool) -> onnx.ModelProto:
    """A recurrent layer and a dense one; `moved`: with weights as an exporter of PyTorch's writes them, its
    order of gates (i, f, g, o) and its matrices turned, in nodes that move them to where ONNX has them."""
    theirs = {"w_ih": rng.normal(0, 0.4, (4 * HIDDEN, 3)), "w_hh": rng.normal(0, 0.4, (4 * HIDDEN, HIDDEN)),
              "b_ih": rng.normal(0, 0.1, 4 * HIDDEN), "b_hh": rng.normal(0, 0.1, 4 * HIDDEN),
              "fc": rng.normal(0, 0.4, (4, HIDDEN)), "fb": rng.normal(0, 0.1, 4)}
    nodes = [helper.make_node("LSTM", ["x", "W", "R", "B"], ["", "hs"], hidden_size=HIDDEN),
             helper.make_node("Squeeze", ["hs", "zero"], ["h"]), helper.make_node("MatMul", ["h", "fct"], ["m"]),
             helper.make_node("Add", ["m", "fb"], ["z"]), helper.make_node("Softmax", ["z"], ["p"], axis=-1)]
    if moved:
        first = []
        for name in ("w_ih", "w_hh", "b_ih", "b_hh"):
            parts = []
            for gate, (low, high) in {"i": (0, 1), "o": (3, 4), "fg": (1, 3)}.items():
                parts.append(f"{name}_{gate}")
                first.append(helper.make_node("Slice", [name, f"at{low}", f"at{high}", "zero"], [parts[-1]]))
            first.append(helper.make_node("Concat", parts, [f"{name}_iofc"], axis=0))
        first += [helper.make_node("Unsqueeze", ["w_ih_iofc", "zero"], ["W"]),
                  helper.make_node("Unsqueeze", ["w_hh_iofc", "zero"], ["R"]),
                  helper.make_node("Concat", ["b_ih_iofc", "b_hh_iofc"], ["B_flat"], axis=0),
                  helper.make_node("Unsqueeze", ["B_flat", "zero"], ["B"]),
                  helper.make_node("Transpose", ["fc"], ["fct"], perm=[1, 0])]
        nodes, weights = first + nodes, theirs
    else:
        weights = onnx_layout(theirs)
    model = model_of(nodes, [6, "N", 3], ["N", 4], weights)
    places = {"zero": 0} | {f"at{i}": i * HIDDEN for i in (0, 1, 3, 4)}
    model.graph.initializer.extend(numpy_helper.from_array(np.array([at]), name) for name, at in places.items()
                                   if moved or name == "zero")
    return model


def onnx_layout(theirs: dict) -> dict:
    """The weights of exported(…, True) as those of exported(…, False)."""
    order = np.concatenate([np.arange(HIDDEN) + HIDDEN * gate for gate in (0, 3, 1, 2)])
    return {"W": theirs["w_ih"][order][None], "R": theirs["w_hh"][order][None],
            "B": np.concatenate([theirs["b_ih"][order], theirs["b_hh"][order]])[None],
            "fct": theirs["fc"].T, "fb": theirs["fb"]}


def twin_layers(rng: np.random.Generator, merged: bool) -> onnx.ModelProto:
    """Two convolutions with normalizations; `merged`: equal constants are one initializer."""
    weights = {"k1": rng.normal(0, 0.3, (4, 1, 3, 3)), "k2": rng.normal(0, 0.3, (4, 4, 3, 3)),
               "w": rng.normal(0, 0.1, (256, 4)), "b": np.zeros(4)}
    nodes, x = [], "x"
    for i in (1, 2):
        own = {f"{what}{i}": value * np.ones(4) for what, value in
               (("kb", 0), ("scale", 1), ("shift", 0), ("mean", 0), ("var", 1))}
        names = [f"const{int(array[0])}" for array in own.values()] if merged else list(own)
        weights |= dict(zip(names, own.values(), strict=True))
        nodes += [helper.make_node("Conv", [x, f"k{i}", names[0]], [f"c{i}"], pads=[1, 1, 1, 1]),
                  helper.make_node("BatchNormalization", [f"c{i}", *names[1:]], [f"n{i}"]),
                  helper.make_node("Relu", [f"n{i}"], [f"r{i}"])]
        x = f"r{i}"
    nodes += [helper.make_node("Flatten", [x], ["f"]), helper.make_node("Gemm", ["f", "w", "b"], ["z"]),
              helper.make_node("Softmax", ["z"], ["p"], axis=-1)]
    return model_of(nodes, ["N", 1, 8, 8], ["N", 4], weights)


def model_of(nodes: list, x: list, y: list, weights: dict) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(np.asarray(w, np.float32), name) for name, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples(shape: tuple, rng: np.random.Generator) -> dict:
    labels = rng.integers(0, 4, SAMPLES)
    centers = rng.normal(0, 1, (4, *shape))
    x = centers[labels] + rng.normal(0, 0.5, (SAMPLES, *shape))
    return {"x": x.astype(np.float32), "labels": labels.astype(np.int64)}


class Training(unittest.TestCase):
    def setUp(self) -> None:
        self.rng = np.random.default_rng(7)
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def path(self, name: str) -> pathlib.Path:
        return self.folder / name

    def make(self, model: onnx.ModelProto, options: str) -> pathlib.Path:
        onnx.save(model, self.path("model.onnx"))
        done = demi("opt", self.path("model.onnx"), "-q", "-o", self.path("train.onnx"), "--passes",
                    f"infer-dtypes,infer-shapes,make-training{{{options}}}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path("train.onnx")

    def step_model(self, train: pathlib.Path) -> onnx.ModelProto:
        done = demi("opt", train, "-q", "-o", self.path("step.onnx"), "--passes", PASSES)
        self.assertEqual(done.returncode, 0, done.stderr)
        model = onnx.load(self.path("step.onnx"))
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        return model

    def save(self, data: dict) -> pathlib.Path:
        np.savez(self.path("data.npz"), **data)
        return self.path("data.npz")

    def losses(self, train: pathlib.Path, data: pathlib.Path, *words: object) -> list[float]:
        done = demi("train", train, "-o", self.path("out.onnx"), "--data", data, "--batch", BATCH,
                    "--in-order", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [float(text) for text in re.findall(r"^step .*loss (\S+)", done.stdout, re.M)]

    def trained(self) -> dict[str, np.ndarray]:
        model = onnx.load(self.path("out.onnx"))
        onnx.checker.check_model(model, full_check=True)
        self.assertFalse(model.training_info)
        return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}

    def follow(self, run, model: onnx.ModelProto, data: dict, steps: int) -> list[float]:  # noqa: ANN001
        """The losses of a step that somebody else runs, each with the updates of the one before."""
        state = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer
                 if t.name in {i.name for i in model.graph.input}}
        losses, outputs = [], [o.name for o in model.graph.output]
        for step in range(steps):
            first = step * BATCH % (SAMPLES // BATCH * BATCH)
            batch = {name: array[first:first + BATCH] for name, array in data.items()}
            results = run(outputs, batch | state)
            losses.append(float(results[0]))
            state = dict(zip(state, results[1:], strict=True))
        self.state = state
        return losses

    def against_onnxruntime(self, model: onnx.ModelProto, data: dict, options: str, steps: int) -> None:
        self.against_runtime(self.make(model, options), data, steps)

    def against_runtime(self, train: pathlib.Path, data: dict, steps: int) -> None:
        step = self.step_model(train)
        self.assertFalse([o for o in step.opset_import if o.domain])
        # inputs in the order of outputs, as join-training has them
        order = [i.name for i in step.graph.input if i.name not in data]
        step.graph.initializer.sort(key=lambda t: order.index(t.name) if t.name in order else -1)
        session = session_of(step)
        theirs = self.follow(session.run, step, data, steps)
        ours = [*self.losses(train, self.save(data), "--steps", steps)]
        np.testing.assert_allclose(ours, [theirs[i] for i in shown(steps)], rtol=1e-4, atol=1e-5)
        for name, array in self.trained().items():
            if name in self.state:
                np.testing.assert_allclose(array, self.state[name], rtol=1e-3, atol=1e-4)
        self.assertLess(theirs[-1], 0.7 * theirs[0])

    def test_losses_of_products(self) -> None:
        data = samples((8,), self.rng)
        self.against_onnxruntime(mlp(self.rng), data, 'rate="0.2",decay="0.001"', 50)

    def test_losses_of_convolutions(self) -> None:
        data = samples((1, 8, 8), self.rng)
        self.against_onnxruntime(lenet(self.rng, norm=False), data, 'rate="0.1"', 50)

    def test_losses_of_branches(self) -> None:
        """What branches hold is trained, be it initializers or Constant nodes."""
        data = samples((8,), self.rng)
        data["x"] -= data["x"].mean()
        sums = data["x"].reshape(SAMPLES // BATCH, -1).sum(1)
        self.assertTrue((sums > 0).any() and (sums < 0).any())
        for constants in (False, True):
            self.against_onnxruntime(branched(self.rng, constants), data, 'rate="0.2"', 50)
            trained = self.trained()
            self.assertEqual(len([n for n in trained if n != "zero"]), 6, list(trained))
            self.assertLessEqual({"v_Relu", "v_Tanh"}, set(trained))

    def test_behind_moves(self) -> None:
        """What an exporter moves to its place is trained as if it was there: the same losses, and the same
        weights in the end."""
        data, ends = samples((6, 3), self.rng), {}
        for moved in (True, False):
            model = exported(np.random.default_rng(3), moved)
            # samples are along the first axis
            model.graph.node.insert(0, helper.make_node("Transpose", ["x"], ["xt"], perm=[1, 0, 2]))
            for node in model.graph.node[1:]:
                node.input[:] = ["xt" if name == "x" else name for name in node.input]
            model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6, 3]))
            train = self.make(model, 'rate="0.5"')
            losses = self.losses(train, self.save(data), "--steps", 40)
            ends[moved] = losses, self.trained()
            if not moved:
                continue
            self.against_runtime(train, data, 40)
            for words in (["simplify"], ["simplify", "--inexact"]):  # which fold none of it
                done = demi(words[0], train, "-o", self.path("other.onnx"), "-q", *words[1:])
                self.assertEqual(done.returncode, 0, done.stderr)
                np.testing.assert_allclose(self.losses(self.path("other.onnx"), self.save(data), "--steps", 40),
                                           losses, rtol=1e-5)
        np.testing.assert_allclose(ends[True][0], ends[False][0], rtol=1e-4)
        self.assertLess(ends[True][0][-1], 0.7 * ends[True][0][0])
        for name, array in onnx_layout(ends[True][1]).items():
            np.testing.assert_allclose(array, ends[False][1][name], rtol=1e-3, atol=1e-4, err_msg=name)

    def test_merged_constants(self) -> None:
        """Layers that an exporter gave one tensor of zeros, or of ones, are trained as if each had its own."""
        data, ends = samples((1, 8, 8), self.rng), {}
        for merged in (False, True):
            train = self.make(twin_layers(np.random.default_rng(3), merged), 'rate="0.1"')
            ends[merged] = self.losses(train, self.save(data), "--steps", 20), self.trained()
        self.assertEqual(ends[True][0], ends[False][0])
        np.testing.assert_array_equal(ends[True][1]["k2"], ends[False][1]["k2"])
        outputs = [session_of(onnx.load(self.path("out.onnx"))).run(None, {"x": data["x"]})[0]]
        self.losses(self.make(twin_layers(np.random.default_rng(3), False), 'rate="0.1"'), self.save(data),
                    "--steps", 20)
        outputs.append(session_of(onnx.load(self.path("out.onnx"))).run(None, {"x": data["x"]})[0])
        np.testing.assert_array_equal(*outputs)  # running statistics, too

    def told(self, model: onnx.ModelProto, *words: object) -> list[str]:
        onnx.save(model, self.path("model.onnx"))
        done = demi("make-training", self.path("model.onnx"), "-o", self.path("train.onnx"), *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual([line[:6] for line in lines], ["note: "] * len(lines))
        return [line[6:] for line in lines]

    def test_told(self) -> None:
        """What is trained, and what is not and why; `train` counts what its steps update."""
        self.assertEqual(self.told(mlp(self.rng)), ["trained: 4 tensors, 160 elements"])
        self.assertEqual(self.told(mlp(self.rng), "-q"), [])
        self.assertEqual(self.told(lenet(self.rng, norm=True, dropout=True), "--freeze", "kb"), [
            "trained: 5 tensors, 304 elements",
            "not trained: 2 tensors, 8 elements (running statistics, which follow the batches): 'mean', 'var'",
            "not trained: 1 tensor, 4 elements (frozen): 'kb'",
            "not trained: 1 tensor, 1 element (single numbers in a formula): 'ratio'"])
        done = demi("train", self.path("train.onnx"), "-o", self.path("out.onnx"), "--data",
                    self.save(samples((1, 8, 8), self.rng)), "--steps", 1)
        self.assertEqual(done.stdout.splitlines()[0], "updates 7 tensors, 312 elements; does not update 2 floating-point tensors, 5 elements")
        moved = exported(self.rng, True)
        told = ["trained: 6 tensors, 224 elements",
                "not trained: 5 tensors, 5 elements (not floating-point): 'zero', 'at0', 'at1' and more"]
        self.assertEqual(self.told(moved), told)
        done = demi("opt", self.path("model.onnx"), "-o", self.path("train.onnx"), "--passes",
                    "infer-dtypes,infer-shapes,make-training")
        self.assertEqual([line for line in (done.stdout + done.stderr).splitlines() if "trained" in line],
                         [f"note: {line}" for line in told])

    def test_behind_calls(self) -> None:
        """Layers that are calls of a model's functions are trained as if they stood there."""
        data, losses = samples((8,), self.rng), []
        for make in (lambda model: model, called):
            self.assertEqual(self.told(make(mlp(np.random.default_rng(3)))), ["trained: 4 tensors, 160 elements"])
            onnx.checker.check_model(onnx.load(self.path("train.onnx")))
            losses.append([*self.losses(self.path("train.onnx"), self.save(data), "--steps", 20)])
        self.assertEqual(*losses)
        done = demi("opt", self.path("model.onnx"), "-o", self.path("other.onnx"), "--passes",
                    "infer-dtypes,infer-shapes,make-training")
        self.assertEqual(done.returncode, 1)
        self.assertIn("hint: run the pass inline-calls first", done.stderr)

    def test_told_why(self) -> None:
        """Behind what has no gradient, a mask, where no parameter is, and what the output does not need."""
        weights = {"w": self.rng.normal(0, 0.3, (8, 4)), "v": self.rng.normal(0, 0.3, (8, 4)),
                   "mask": np.array([0, -np.inf, 0, 0]), "power": np.array([1, 2, 1, 2]), "idle": np.ones(3)}
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Pow", ["h", "power"], ["g"]),
                 helper.make_node("MatMul", ["x", "v"], ["k"]), helper.make_node("Round", ["k"], ["r"]),
                 helper.make_node("Add", ["g", "r"], ["s"]), helper.make_node("Add", ["s", "mask"], ["z"]),
                 helper.make_node("Softmax", ["z"], ["p"], axis=-1),
                 helper.make_node("Add", ["idle", "idle"], ["nothing"])]
        told = self.told(model_of(nodes, ["N", 8], ["N", 4], weights))
        self.assertEqual(told, [
            "trained: 1 tensor, 32 elements",
            "not trained: 1 tensor, 32 elements ('r' (Round) has no gradient): 'v'",
            "not trained: 1 tensor, 4 elements (a mask): 'mask'",
            "not trained: 1 tensor, 3 elements ('z' is not computed from them): 'idle'",
            "not trained: 1 tensor, 4 elements (Pow takes no parameters there): 'power'"])

    def test_folder(self) -> None:
        """Arrays of a folder are those of an archive."""
        data = samples((8,), self.rng)
        train = self.make(mlp(self.rng), 'rate="0.1"')
        folder = self.path("samples")
        folder.mkdir()
        for name, array in data.items():
            np.save(folder / f"{name}.npy", array)
        (folder / "notes.txt").write_text("no array")
        self.assertEqual(self.losses(train, folder, "--steps", 5), self.losses(train, self.save(data), "--steps", 5))
        (folder / "labels.npy").write_bytes(b"nothing")
        self.refused(1, "labels.npy", train, "--data", folder)
        (self.path("none")).mkdir()
        self.refused(2, "the folder has no NAME.npy", train, "--data", self.path("none"))

    def test_squares(self) -> None:
        data = samples((8,), self.rng)
        data["labels"] = np.eye(4, dtype=np.float32)[data["labels"]]
        self.against_onnxruntime(mlp(self.rng), data, 'rate="0.5",loss=mse', 50)

    def test_running_statistics(self) -> None:
        """Batch statistics in training, and running ones that follow them."""
        data = samples((1, 8, 8), self.rng)
        train = self.make(lenet(self.rng, norm=True), 'rate="0.1"')
        step = self.step_model(train)
        order = [i.name for i in step.graph.input if i.name not in data]
        step.graph.initializer.sort(key=lambda t: order.index(t.name) if t.name in order else -1)
        theirs = self.follow(reference.ReferenceEvaluator(step).run, step, data, 10)
        ours = self.losses(train, self.save(data), "--steps", 10)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
        trained = self.trained()
        for name in ("mean", "var"):
            np.testing.assert_allclose(trained[name], self.state[name], rtol=1e-3, atol=1e-5)
        self.assertGreater(np.abs(trained["mean"]).max(), 0.01)

    def test_optimizers(self) -> None:
        """Adam, Momentum and Adagrad by their formulas in double."""
        data = samples((8,), self.rng)
        model = mlp(self.rng)
        # gradients of a step by sgd with rate 1: what is subtracted
        plain = self.step_model(self.make(model, 'rate="1"'))
        session = session_of(plain)
        outputs = [o.name for o in plain.graph.output]

        def gradients(x: dict, step: int) -> dict:
            first = step * BATCH % SAMPLES
            feeds = {name: a.astype(np.float32) for name, a in x.items()}
            feeds |= {name: a[first:first + BATCH] for name, a in data.items()}
            results = dict(zip(outputs, session.run(outputs, feeds), strict=True))
            return {name: x[name] - results[f"{name}_updated"].astype(float) for name in x}

        for optimizer in ("adam", "momentum", "adagrad"):
            with self.subTest(optimizer):
                train = self.make(model, f'rate="0.01",optimizer={optimizer}')
                self.losses(train, self.save(data), "--steps", 12)
                x = {t.name: numpy_helper.to_array(t).astype(float) for t in model.graph.initializer}
                v = {name: np.zeros_like(a) for name, a in x.items()}
                h = {name: np.zeros_like(a) for name, a in x.items()}
                for step in range(12):
                    for name, g in gradients(x, step).items():
                        if optimizer == "momentum":
                            v[name] = 0.9 * v[name] + g
                            x[name] = x[name] - 0.01 * v[name]
                        elif optimizer == "adagrad":
                            h[name] = h[name] + g * g
                            x[name] = x[name] - 0.01 * g / (np.sqrt(h[name]) + 1e-6)
                        else:
                            t = step + 1
                            v[name] = 0.9 * v[name] + 0.1 * g
                            h[name] = 0.999 * h[name] + 0.001 * g * g
                            rate = 0.01 * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
                            x[name] = x[name] - rate * v[name] / (np.sqrt(h[name]) + 1e-6)
                for name, array in self.trained().items():
                    np.testing.assert_allclose(array, x[name], rtol=2e-3, atol=2e-4)

    def test_optimizers_spelled(self) -> None:
        """The optimizers in standard operators: ONNX Runtime's losses and the kernels' are the same."""
        data = samples((8,), self.rng)
        model = mlp(self.rng)
        for optimizer in ("adam", "momentum", "adagrad"):
            with self.subTest(optimizer):
                options = f'rate="0.02",decay="0.001",optimizer={optimizer}'
                kernels = self.losses(self.make(model, options), self.save(data), "--steps", 50)
                onnx.save(model, self.path("model.onnx"))
                done = demi("make-training", self.path("model.onnx"), "-o", self.path("train.onnx"), "--optimizer",
                            optimizer, "--rate", "0.02", "--decay", "0.001", "--decompose")
                self.assertEqual(done.returncode, 0, done.stderr)
                train = self.path("train.onnx")
                self.against_runtime(train, data, 50)
                np.testing.assert_allclose(self.losses(train, self.save(data), "--steps", 50), kernels, rtol=1e-4)

    # ---- several, and what is before the first step ------------------------------------------------

    def two_trainings(self) -> pathlib.Path:
        """One updates w1 and b1 by the loss, the other one w2 and b2, as they are computed with these."""
        first = onnx.load(self.make(mlp(self.rng), 'rate="0.2",freeze=[w2,b2]'))
        second = onnx.load(self.make(mlp(np.random.default_rng(7)), 'rate="0.1",freeze=[w1,b1]'))
        first.training_info.append(second.training_info[0])
        onnx.save(first, self.path("two.onnx"))
        done = demi("opt", self.path("two.onnx"), "-q", "-o", self.path("train.onnx"), "--passes",
                    "infer-dtypes,infer-shapes,expand-gradient")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path("two.onnx")

    def test_several(self) -> None:
        """A step is one of each, the later ones with what the earlier ones updated."""
        data = samples((8,), self.rng)
        two = self.two_trainings()
        model = onnx.load(two)
        parts = []
        for i in range(2):
            alone = onnx.ModelProto()
            alone.CopyFrom(model)
            del alone.training_info[1 - i]
            onnx.save(alone, self.path(f"alone{i}.onnx"))
            parts.append(self.step_model(self.path(f"alone{i}.onnx")))
        state = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        wanted = []
        for step in range(12):
            batch = {n: a[step * BATCH % SAMPLES:][:BATCH] for n, a in data.items()}
            for part in parts:
                for tensor in part.graph.initializer:
                    if tensor.name in state:  # frozen ones too, which the other part updates
                        tensor.CopyFrom(numpy_helper.from_array(state[tensor.name], tensor.name))
                outputs = [o.name for o in part.graph.output]
                results = session_of(part).run(outputs, batch)
                wanted.append(float(results[0]))
                state |= {o.removesuffix("_updated"): r for o, r in zip(outputs[1:], results[1:], strict=True)}
        done = demi("train", two, "-o", self.path("out.onnx"), "--data", self.save(data), "--batch", BATCH,
                    "--in-order", "--steps", 12)
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [float(t) for pair in re.findall(r"^step .*loss (\S+), (\S+)", done.stdout, re.M) for t in pair]
        np.testing.assert_allclose(losses, wanted, rtol=1e-4)
        model.training_info.append(model.training_info[0])  # it updates what the first one does
        onnx.save(model, self.path("again.onnx"))
        again = demi("train", self.path("again.onnx"), "-o", self.path("twice.onnx"), "--data", self.path("data.npz"),
                     "--steps", 2)
        self.assertEqual(again.returncode, 0, again.stderr)
        for name, array in self.trained().items():
            np.testing.assert_allclose(array, state[name], rtol=1e-3, atol=1e-5)

    def initialized(self) -> pathlib.Path:
        model = onnx.load(self.make(mlp(self.rng), 'rate="0.1"'))
        nodes = [helper.make_node("RandomNormal", [], ["w1_first"], shape=[8, 12], scale=0.3),
                 helper.make_node("RandomUniform", [], ["w2_first"], shape=[12, 4], high=0.5, low=-0.5, seed=3.0)]
        outputs = [helper.make_tensor_value_info(f"{n}_first", TensorProto.FLOAT, s)
                   for n, s in (("w1", [8, 12]), ("w2", [12, 4]))]
        info = model.training_info[0]
        info.initialization.CopyFrom(helper.make_graph(nodes, "begin", [], outputs))
        for name in ("w1", "w2"):
            entry = info.initialization_binding.add()
            entry.key, entry.value = name, f"{name}_first"
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, self.path("train.onnx"))
        return self.path("train.onnx")

    def test_initialization(self) -> None:
        """Weights are what it gives, by the seed; not where a training goes on, or they are to be kept."""
        train, data = self.initialized(), self.save(samples((8,), self.rng))
        first = self.losses(train, data, "--steps", 1, "--rate", 0)[0]
        drawn = self.trained()
        self.assertLessEqual(np.abs(drawn["w2"]).max(), 0.5)
        self.assertLess(abs(drawn["w1"].std() - 0.3), 0.1)
        model = onnx.load(train)
        before = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.assertGreater(np.abs(drawn["w1"] - before["w1"]).max(), 0.1)
        np.testing.assert_array_equal(drawn["b1"], before["b1"])
        other = self.losses(train, data, "--steps", 1, "--rate", 0, "--seed", 1)[0]
        self.assertNotEqual(first, other)
        np.testing.assert_array_equal(self.trained()["w2"], drawn["w2"])  # which has a seed
        self.losses(train, data, "--steps", 1, "--rate", 0, "--keep-weights")
        for name, array in self.trained().items():
            np.testing.assert_array_equal(array, before[name])

    def test_initialization_goes_on(self) -> None:
        self.initialized()
        self.save(samples((8,), self.rng))
        whole, checkpoint = self.run_for("whole.onnx", 20), self.path("now.onnx")
        self.run_for("part.onnx", 8, "--checkpoint", checkpoint)
        self.assertEqual(self.run_for("rest.onnx", 20, "--checkpoint", checkpoint), whole)

    def test_rewritten(self) -> None:
        """What is done to the model before takes no copy of what training updates."""
        train = self.make(lenet(self.rng, norm=True), 'rate="0.1"')
        data = samples((1, 8, 8), self.rng)
        losses = self.losses(train, self.save(data), "--steps", 20)
        wanted = session_of(onnx.load(self.path("out.onnx"))).run(None, {"x": data["x"]})[0]
        for words in (["simplify"], ["simplify", "--inexact"], ["convert", "--to", "int8-weights"],
                      ["opt", "--passes", "infer-dtypes,infer-shapes,fold-batch-norm{store=true},fold-constants"]):
            other = self.path("other.onnx")
            done = demi(words[0], train, "-o", other, "-q", *words[1:])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.losses(other, self.save(data), "--steps", 20), losses)
            results = session_of(onnx.load(self.path("out.onnx"))).run(None, {"x": data["x"]})[0]
            np.testing.assert_allclose(results, wanted, atol=1e-6, err_msg=" ".join(words))

    # ---- scaled ---------------------------------------------------------------------------------

    def scaled(self, train: pathlib.Path, options: str, to: str | None = None) -> pathlib.Path:
        done = demi("opt", train, "-q", "-o", self.path("scaled.onnx"), "--passes",
                    f"infer-dtypes,infer-shapes,scale-loss{{{options}}}")
        self.assertEqual(done.returncode, 0, done.stderr)
        if not to:
            return self.path("scaled.onnx")
        done = demi("convert", self.path("scaled.onnx"), "-q", "-o", self.path("low.onnx"), "--to", to)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path("low.onnx")

    def test_scale_changes_nothing(self) -> None:
        """In float, where powers of two are exact."""
        data = self.save(samples((8,), self.rng))
        train = self.make(mlp(self.rng), 'rate="0.1"')
        plain = self.losses(train, data, "--steps", 20)
        before = self.trained()
        for options in ('scale="1024"', 'first="8",interval=4'):
            self.assertEqual(self.losses(self.scaled(train, options), data, "--steps", 20), plain)
            for name, array in self.trained().items():
                np.testing.assert_array_equal(array, before[name])

    def test_scale_follows(self) -> None:
        """A step whose gradients overflow updates nothing and halves the scale; some without double it."""
        data = samples((8,), self.rng)
        data["x"][48:64] *= 3e38 / np.abs(data["x"][48:64]).max()  # the fourth step's products are finite
        model = mlp(self.rng)
        for tensor in model.graph.initializer:
            if tensor.name == "w1":  # so that the loss is, too
                array = numpy_helper.to_array(tensor) * 1e-30
                tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), "w1"))
        train = self.scaled(self.make(model, 'rate="1e-40"'), 'first="65536",interval=3')
        done = demi("train", train, "-o", self.path("out.onnx"), "--data", self.save(data), "--batch", BATCH,
                    "--in-order", "--steps", 8, "--checkpoint", self.path("now.onnx"))
        self.assertEqual(done.returncode, 0, done.stderr)
        scales = [float(text) for text in re.findall(r"scale (\S+)", done.stdout)]
        self.assertEqual(scales, [65536, 65536, 131072, 65536, 65536, 65536, 131072, 131072])
        for tensor in onnx.load(self.path("now.onnx")).graph.initializer:
            self.assertTrue(np.isfinite(numpy_helper.to_array(tensor)).all(), tensor.name)

    def test_small_gradients(self) -> None:
        """In float16 a loss that is a small part of itself has no gradients, unless it is scaled."""
        data = samples((8,), self.rng)
        model = mlp(self.rng)
        float_model = self.make(model, 'rate="4e6"')
        text = onnx.load(float_model)
        algorithm = text.training_info[0].algorithm
        algorithm.initializer.append(numpy_helper.from_array(np.float32(1e-7), "part"))
        loss = next(n for n in algorithm.node if n.op_type == "SoftmaxCrossEntropyLoss")
        place = list(algorithm.node).index(loss)
        loss.output[0] = "whole"
        algorithm.node.insert(place + 1, helper.make_node("Mul", ["whole", "part"], ["loss"]))
        onnx.save(text, self.path("small.onnx"))
        losses = {}
        for name, options in (("plain", None), ("scaled", "")):
            if options is None:
                done = demi("convert", self.path("small.onnx"), "-q", "-o", self.path("low.onnx"))
                self.assertEqual(done.returncode, 0, done.stderr)
            else:
                self.scaled(self.path("small.onnx"), options, "float16")
            losses[name] = self.losses(self.path("low.onnx"), self.save(data), "--steps", 40,
                                       "--numerics", "faithful")
        self.assertGreater(losses["plain"][-1], 0.9 * losses["plain"][0])
        self.assertLess(losses["scaled"][-1], 0.5 * losses["scaled"][0])

    def low_learns(self, train: pathlib.Path, to: str, data: pathlib.Path, wanted: float) -> onnx.ModelProto:
        """Masters and statistics stay float, and what is learnt is what float learns; the step."""
        low = self.scaled(train, "", to)
        for tensor in onnx.load(low).graph.initializer:
            if tensor.name in ("w", "k", "mean", "var"):
                self.assertEqual(tensor.data_type, TensorProto.FLOAT)
        step = self.step_model(low)
        losses = self.losses(low, data, "--steps", 60, "--numerics", "faithful")
        self.assertLess(abs(losses[-1] - wanted), 0.1)
        return step

    def test_low(self) -> None:
        data = self.save(samples((1, 8, 8), self.rng))
        train = self.make(lenet(self.rng, norm=False), 'rate="0.1"')
        wanted = self.losses(train, data, "--steps", 60)[-1]
        for to in ("float16", "bfloat16"):
            self.low_learns(train, to, data, wanted)

    def test_low_statistics(self) -> None:
        """The algorithm's own nodes are converted, too; sums of a normalization stay float."""
        data = self.save(samples((1, 8, 8), self.rng))
        train = self.make(lenet(self.rng, norm=True, dropout=True), 'rate="0.1"')
        wanted = self.losses(train, data, "--steps", 60)[-1]
        for to, number in (("float16", TensorProto.FLOAT16), ("bfloat16", TensorProto.BFLOAT16)):
            step = self.low_learns(train, to, data, wanted)
            types = {v.name: v.type.tensor_type.elem_type
                     for v in onnx.shape_inference.infer_shapes(step).graph.value_info}
            by_op = {op: [types[n.input[0]] for n in step.graph.node if n.op_type == op and n.input[0] in types]
                     for op in ("Conv", "ReduceMean", "BatchNormalization")}
            self.assertIn(number, by_op["Conv"])
            self.assertEqual(set(by_op["ReduceMean"]), {TensorProto.FLOAT})
            self.assertEqual(set(by_op["BatchNormalization"]), {number})

    def test_low_undone(self) -> None:
        """Converting again changes nothing, and strip-casts gives back what was converted."""
        train = self.make(lenet(self.rng, norm=True, dropout=True), 'optimizer=adam,rate="0.01"')
        one, two, back = (self.path(f"{name}.onnx") for name in ("one", "two", "back"))
        for words in (("convert", train, "-o", one), ("convert", one, "-o", two),
                      ("opt", one, "-o", back, "--passes", "infer-dtypes,strip-casts")):
            done = demi(*words, "-q")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(one.read_bytes(), two.read_bytes())
        self.assertEqual(demi("diff", train, back).stdout, demi("diff", train, train).stdout)

    # ---- going on --------------------------------------------------------------------------------

    def run_for(self, out: str, steps: int, *words: object) -> bytes:
        done = demi("train", self.path("train.onnx"), "-o", self.path(out), "-q", "--data",
                    self.path("data.npz"), "--steps", steps, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(out).read_bytes()

    def test_goes_on(self) -> None:
        self.goes_on(mlp(self.rng), (8,))

    def test_dropouts_go_on(self) -> None:
        """What a dropout draws is the step's, whichever process makes it."""
        self.goes_on(lenet(self.rng, norm=True, dropout=True), (1, 8, 8))

    def goes_on(self, model: onnx.ModelProto, shape: tuple) -> None:
        self.make(model, "optimizer=adam")
        self.save(samples(shape, self.rng))
        whole = self.run_for("whole.onnx", 23)
        for part in (1, 9, 22):
            checkpoint = self.path(f"at{part}.onnx")
            self.run_for("part.onnx", part, "--checkpoint", checkpoint, "--every", 4)
            onnx.checker.check_model(onnx.load(checkpoint), full_check=True)
            self.assertEqual(self.run_for("rest.onnx", 23, "--checkpoint", checkpoint), whole)
        self.assertEqual(self.run_for("threads.onnx", 23, "--threads", 1), whole)
        self.assertNotEqual(self.run_for("seed.onnx", 23, "--seed", 1), whole)

    def test_killed(self) -> None:
        """Whenever it is: the checkpoint is whole, nothing else is left, and the bits are the same."""
        self.make(mlp(self.rng), "optimizer=adam")
        self.save(samples((8,), self.rng))
        checkpoint, count, steps = self.path("now.onnx"), self.path("count"), 200
        shim = fail_call.build(self.folder)
        words = ["train", self.path("train.onnx"), "-o", self.path("out.onnx"), "-q", "--data",
                 self.path("data.npz"), "--steps", steps, "--checkpoint", checkpoint, "--every", 10]

        def run(**settings: object) -> int:
            return demi(*words, env=fail_call.environment(shim, **settings)).returncode

        self.assertEqual(run(FAIL_COUNT=count), 0)
        calls, whole = count.stat().st_size, self.path("out.onnx").read_bytes()
        self.assertGreater(calls, 100)
        for first in (3, 4, 5): # of eights of them; what goes on from there has the fewer
            checkpoint.unlink()
            for at in (calls * first // 8, calls // 5):
                self.assertEqual(run(FAIL_AT=at, FAIL_WITH=-signal.SIGKILL), -signal.SIGKILL)
                onnx.load(checkpoint)
            self.assertEqual(run(FAIL_AT=20, FAIL_WITH=-signal.SIGINT, FAIL_NAME="sigpending"), 0)
            self.assertNotEqual(self.path("out.onnx").read_bytes(), whole)
            self.assertEqual(self.run_for("rest.onnx", steps, "--checkpoint", checkpoint), whole)
            self.assertFalse([p for p in self.folder.iterdir() if p.name.startswith(".demi")])

    # ---- what is refused -------------------------------------------------------------------------

    def refused(self, code: int, text: str, *words: object) -> None:
        out = self.path("none.onnx")
        done = demi("train", *words, "-o", out, "-q")
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertFalse(out.exists())

    def test_refused(self) -> None:
        good = samples((8,), self.rng)
        train = self.make(mlp(self.rng), 'rate="0.1"')

        def data(**other: np.ndarray) -> list:
            named = {k: v for k, v in (good | other).items() if v is not None}
            return ["--data", self.save(named)]

        x, labels = good["x"], good["labels"]
        wild = np.where(np.arange(SAMPLES) == 3, 4, labels)
        nan = np.where(np.arange(SAMPLES)[:, None] == 3, np.nan, x).astype(np.float32)
        self.refused(1, "target 4 of 4 classes", train, *data(labels=wild))
        self.refused(1, "target -1 of 4 classes", train, *data(labels=np.where(wild > 3, -1, labels)))
        self.refused(1, "is NaN", train, *data(x=nan))
        self.refused(2, "array 'x' is float[160,7]", train, *data(x=x[:, :7]))
        self.refused(2, "no data for input 'labels'", train, *data(labels=None))
        self.refused(2, "array 'labels' is float[160]", train, *data(labels=labels.astype(np.float32)))
        self.refused(2, "has 100 samples", train, *data(labels=labels[:100]))
        self.refused(2, "array 'z' matches no input", train, *data(z=labels))
        self.refused(2, "fewer than a batch", train, *data(), "--batch", 161)
        self.refused(2, "'--every' requires", train, *data(), "--every", 3)
        self.refused(1, "it has no training_info", self.path("model.onnx"), *data())
        self.refused(2, "--data FILE.npz", train)
        model = onnx.load(train)
        del model.training_info[0].update_binding[:]
        onnx.save(model, self.path("idle.onnx"))
        self.refused(1, "updates nothing (update_binding)", self.path("idle.onnx"), *data())

    def test_other_runs(self) -> None:
        """A checkpoint of other samples, or of another order, is refused by name."""
        self.make(mlp(self.rng), "optimizer=adam")
        self.save(samples((8,), self.rng))
        checkpoint = self.path("now.onnx")
        self.run_for("out.onnx", 5, "--checkpoint", checkpoint)
        before = checkpoint.read_bytes()
        for words, text in ((["--batch", 16], "batch 16"), (["--seed", 3], "seed 3"),
                            (["--in-order"], "in order")):
            self.refused(2, text, self.path("train.onnx"), "--data", self.path("data.npz"),
                         "--checkpoint", checkpoint, *words)
        other = samples((8,), self.rng)
        self.save(other)
        self.refused(2, "data", self.path("train.onnx"), "--data", self.path("data.npz"), "--checkpoint", checkpoint)
        self.make(mlp(self.rng), "optimizer=adam")
        self.refused(2, "is of another model than", self.path("train.onnx"), "--data", self.path("data.npz"),
                     "--checkpoint", checkpoint)
        self.assertEqual(checkpoint.read_bytes(), before)
        shutil.copy(self.path("train.onnx"), checkpoint)
        self.refused(2, "not a training checkpoint", self.path("train.onnx"), "--data", self.path("data.npz"),
                     "--checkpoint", checkpoint)

    def test_weights_that_overflow_are_not_written(self) -> None:
        """The last step's gradient is seen in what it leaves, not in a loss."""
        self.make(mlp(self.rng), "rate=\"0.1\"")
        self.save(samples((8,), self.rng))
        checkpoint = self.path("now.onnx")
        self.refused(1, "are not finite", self.path("train.onnx"), "--data", self.path("data.npz"),
                     "--steps", 1, "--rate", "1e39", "--checkpoint", checkpoint)
        self.assertFalse(checkpoint.exists())

    def overflowing(self) -> pathlib.Path:
        """A training whose gradient of u is NaN, and no other, where a sample is all zeros."""
        weights = {"w": self.rng.normal(0, 0.3, (8, 4)), "b": np.zeros(4), "u": self.rng.normal(0, 0.3, (8, 4))}
        nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("MatMul", ["x", "u"], ["m"]),
                 helper.make_node("Abs", ["m"], ["a"]), helper.make_node("Sqrt", ["a"], ["s"]),
                 helper.make_node("Add", ["h", "s"], ["z"]), helper.make_node("Softmax", ["z"], ["p"], axis=-1)]
        data = samples((8,), self.rng)
        data["x"][149] = 0
        self.save(data)
        return self.make(model_of(nodes, ["N", 8], ["N", 4], weights), 'rate="0.01",optimizer=adam')

    def test_first_gradient(self) -> None:
        """The error names the first gradient that is not finite, and its step: by the loss that follows, by
        what is to be written, from the beginning, from what is kept and from a checkpoint."""
        train, data = self.overflowing(), ["--data", self.path("data.npz"), "--in-order", "--batch", 1]
        named = "the first gradient that is not finite is that of 'u', in step 150 (32 of 32 values)"
        self.refused(1, f"the loss of step 151 is NaN; hint: {named}", train, *data)
        self.refused(1, f"after 150 steps 32 of 32 values of 'u' are not finite; hint: {named}", train, *data,
                     "--steps", 150)
        checkpoint = self.path("now.onnx")
        self.refused(1, f"the loss of step 151 is NaN; hint: {named}", train, *data, "--checkpoint", checkpoint,
                     "--every", 70)
        self.refused(1, f"the loss of step 151 is NaN; hint: {named}", train, *data, "--checkpoint", checkpoint)
        self.assertIn("140", [p.value for p in onnx.load(checkpoint).metadata_props])

    def test_first_gradient_by_weights(self) -> None:
        """Steps are made again with the weights that they had: v counts down to 0, where its gradient is NaN."""
        train = self.path("count.onnxtxt")
        train.write_text("""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>
            g (float[N, 1] x) => (float[N, 1] y) <float[1] w = {1}, float[1] v = {150}> { y = Mul (x, w) }
            @training <algorithm: step () => (float loss) <float one = {1}> {
                m = ReduceMean <keepdims = 0> (y) a = Mul (v, v) r = Sqrt (a) s = ReduceSum <keepdims = 0> (r)
                loss = Add (m, s)
                gv = ai.onnx.preview.training.Gradient <xs = ["v"], zs = ["x"], y = "loss"> (v, x)
                nw = Sub (w, gv)
                nv = Sub (v, one)
            }, update_binding: ["w": "nw", "v": "nv"]>""")
        np.savez(self.path("x.npz"), x=np.ones((400, 1), np.float32))
        words, checkpoint = [train, "--data", self.path("x.npz"), "--batch", 1], self.path("now.onnx")
        named = "the first gradient that is not finite is that of 'v', in step 151 (1 of 1 values)"
        self.refused(1, f"the loss of step 152 is NaN; hint: {named}", *words)
        for every in (400, 60, 60):  # what is kept in between, and a checkpoint, which is gone on from, too
            self.refused(1, f"the loss of step 152 is NaN; hint: {named}", *words, "--checkpoint", checkpoint,
                         "--every", every)

    def test_spoiled(self) -> None:
        """A model with weights that are not finite is named before the first step; an update that overflows
        although gradients do not."""
        self.make(mlp(self.rng), 'rate="0.1"')
        data = ["--data", self.save(samples((8,), self.rng))]
        self.refused(1, "gradients are finite, but step 1 makes 96 of 96 values of 'w1' infinite or NaN",
                     self.path("train.onnx"), *data, "--rate", "1e39", "--steps", 1)
        model = onnx.load(self.path("train.onnx"))
        tensor = next(t for t in model.graph.initializer if t.name == "w2")
        array = numpy_helper.to_array(tensor).copy()
        array[1, 2] = np.inf
        tensor.CopyFrom(numpy_helper.from_array(array, "w2"))
        onnx.save(model, self.path("spoiled.onnx"))
        self.refused(1, "1 of 48 values of 'w2' are not finite before the first step", self.path("spoiled.onnx"), *data)

    def test_failing_keeps_checkpoint(self) -> None:
        data = samples((8,), self.rng)
        data["x"][100] = np.nan
        self.make(mlp(self.rng), "optimizer=adam")
        self.save(data)
        checkpoint = self.path("now.onnx")
        self.refused(1, "step 7 is NaN", self.path("train.onnx"), "--data", self.path("data.npz"),
                     "--in-order", "--batch", BATCH, "--checkpoint", checkpoint, "--every", 2)
        kept = onnx.load(checkpoint)
        self.assertIn("6", [p.value for p in kept.metadata_props if p.key == "demi.training.steps"])
        for tensor in kept.graph.initializer:
            self.assertTrue(np.isfinite(numpy_helper.to_array(tensor)).all())


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def shown(steps: int) -> list[int]:
    """The steps, from 0 on, whose losses the command prints."""
    each = steps // 20 if steps > 20 else 1
    return [i for i in range(steps) if (i + 1) % each == 0 or i in (0, steps - 1)]


def main() -> int:
    global args
    parser = argparse.ArgumentParser()
    parser.add_argument("--demi", default="build/release/demi")
    args, rest = parser.parse_known_args()
    args.demi = str(pathlib.Path(args.demi).resolve())
    return not unittest.main(argv=[sys.argv[0], *rest], exit=False).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
