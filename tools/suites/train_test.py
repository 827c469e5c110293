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
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, reference

args = argparse.Namespace()
PASSES = "infer-dtypes,infer-shapes,expand-gradient,join-training,infer-dtypes,infer-shapes"
SAMPLES, BATCH = 160, 16


def demi(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([args.demi, *map(str, words)], capture_output=True, text=True, check=False)


def mlp(rng: np.random.Generator) -> onnx.ModelProto:
    weights = {"w1": rng.normal(0, 0.3, (8, 12)), "b1": np.zeros(12), "w2": rng.normal(0, 0.3, (12, 4)),
               "b2": np.zeros(4)}
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "w2", "b2"], ["z"]),
             helper.make_node("Softmax", ["z"], ["p"], axis=-1)]
    return model_of(nodes, ["N", 8], ["N", 4], weights)


def lenet(rng: np.random.Generator, norm: bool) -> onnx.ModelProto:
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


def model_of(nodes: list, x: list, y: list, weights: dict) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(np.asarray(w, np.float32), name) for name, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples(shape: tuple, rng: np.random.Generator) -> dict:
    labels = rng.integers(0, 4, SAMPLES)
    centres = rng.normal(0, 1, (4, *shape))
    x = centres[labels] + rng.normal(0, 0.5, (SAMPLES, *shape))
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
        train = self.make(model, options)
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

    def test_low(self) -> None:
        """Masters stay float, and what is learnt in 16 bit is what float learns."""
        data = self.save(samples((1, 8, 8), self.rng))
        train = self.make(lenet(self.rng, norm=False), 'rate="0.1"')
        wanted = self.losses(train, data, "--steps", 60)
        for to in ("float16", "bfloat16"):
            low = self.scaled(train, "", to)
            for tensor in onnx.load(low).graph.initializer:
                if tensor.name in ("w", "k"):
                    self.assertEqual(tensor.data_type, TensorProto.FLOAT)
            step = self.step_model(low)
            self.assertIn("Cast", {n.op_type for n in step.graph.node})
            losses = self.losses(low, data, "--steps", 60, "--numerics", "faithful")
            self.assertLess(abs(losses[-1] - wanted[-1]), 0.1)

    # ---- going on --------------------------------------------------------------------------------

    def run_for(self, out: str, steps: int, *words: object) -> bytes:
        done = demi("train", self.path("train.onnx"), "-o", self.path(out), "-q", "--data",
                    self.path("data.npz"), "--steps", steps, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(out).read_bytes()

    def test_goes_on(self) -> None:
        self.make(mlp(self.rng), "optimizer=adam")
        self.save(samples((8,), self.rng))
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
        whole, checkpoint = self.run_for("whole.onnx", 3000), self.path("now.onnx")
        words = [args.demi, "train", self.path("train.onnx"), "-o", self.path("out.onnx"), "-q", "--data",
                 self.path("data.npz"), "--steps", "3000", "--checkpoint", checkpoint, "--every", "20"]
        for kill in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
            with subprocess.Popen(list(map(str, words))) as running:
                deadline = time.monotonic() + 20
                old = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
                while time.monotonic() < deadline and running.poll() is None:
                    if checkpoint.exists() and checkpoint.stat().st_mtime_ns != old:
                        break
                running.send_signal(kill)
            onnx.load(checkpoint)
        self.assertEqual(self.run_for("rest.onnx", 3000, "--checkpoint", checkpoint), whole)
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
        self.refused(2, "data 'x' is float[160,7]", train, *data(x=x[:, :7]))
        self.refused(2, "no data for input 'labels'", train, *data(labels=None))
        self.refused(2, "data 'labels' is float[160]", train, *data(labels=labels.astype(np.float32)))
        self.refused(2, "has 100 samples", train, *data(labels=labels[:100]))
        self.refused(2, "data 'z' are no input's", train, *data(z=labels))
        self.refused(2, "less than a batch", train, *data(), "--batch", 161)
        self.refused(2, "'--every' is for", train, *data(), "--every", 3)
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
        self.assertEqual(checkpoint.read_bytes(), before)

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
