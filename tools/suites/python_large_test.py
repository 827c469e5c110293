# SPDX-License-Identifier: Apache-2.0
"""The Python package, further: ModelProtos whose weights stay where they are, above 2 GB too, and runs that
go on where the last one ended. As python_test.py, whose helpers these are.

    DEMI_LIBRARY=build/release/libdemi.so tools/suites/python_large_test.py [unittest's options]
"""

import gc
import os
import pickle
import resource
import sys
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from python_test import demi, info, matmul, model_of


def memory(key):
    """Bytes of this process, as the kernel counts them."""
    return 1024 * int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1])


def cached(names=("k", "v")):
    """y = the sum of all rows there have been, by caches that grow along axis 1."""
    nodes, ends = [], []
    for name in names:
        nodes += [helper.make_node("Concat", [f"past.{name}", "x"], [f"present.{name}"], axis=1),
                  helper.make_node("ReduceSum", [f"present.{name}", "axis"], [f"s{name}"], keepdims=0)]
        ends.append(f"s{name}")
    nodes.append(helper.make_node("Sum", ends, ["y"]))
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    return model_of(nodes, [info("x", TensorProto.FLOAT, [1, "new", 8]),
                            *(info(f"past.{n}", TensorProto.FLOAT, [1, f"old_{n}", 8]) for n in names)],
                    [info("y", TensorProto.FLOAT, [1, 8]),
                     *(info(f"present.{n}", TensorProto.FLOAT, [1, f"all_{n}", 8]) for n in names)],
                    [axis])


class Stateful(unittest.TestCase):
    """Outputs that are inputs of the next run."""

    def setUp(self):
        self.session = demi.Session(cached(), threads=1)
        self.none = {f"past.{n}": np.zeros((1, 0, 8), np.float32) for n in "kv"}
        self.rng = np.random.default_rng(3)

    def rows(self, count=1):
        return self.rng.integers(-9, 9, (1, count, 8)).astype(np.float32)

    def test_goes_on(self):
        stream, other = (self.session.stateful({"present.*": "past.*"}) for _ in range(2))
        seen = self.rows(5)
        y, = stream.run(None, {"x": seen, **self.none})
        self.assertEqual(y.tolist(), (2 * seen.sum(1)).tolist())
        other.run(None, {"x": self.rows(), **self.none})
        for count in (1, 1, 3, 1, 40):
            x = self.rows(count)
            y, = stream.run(None, {"x": x})
            seen = np.concatenate([seen, x], 1)
            x[:] = np.nan  # it was read, and is the caller's again
            self.assertEqual(y.tolist(), (2 * seen.sum(1)).tolist())
        kept, = stream.run(["present.k"], {"x": self.rows(0)})
        self.assertEqual(kept.tolist(), seen.tolist())
        kept[:] = 0
        stream.cut("past.k", 1, 5)
        stream.cut("past.v", 1, 0)
        y, kept = stream.run(["y", "present.k"], {"x": self.rows(0)})
        self.assertEqual(y.tolist(), seen[:, :5].sum(1).tolist())
        self.assertEqual(kept.tolist(), seen[:, :5].tolist())
        anew = self.rows(2)
        self.none["past.k"] = anew
        y, = stream.run(None, {"x": self.rows(0), "past.k": anew})
        self.assertEqual(y.tolist(), anew.sum(1).tolist())
        stream.forget()
        with self.assertRaisesRegex(demi.UsageError, "past.k.*not set"):
            stream.run(None, {"x": self.rows()})

    def test_recurrent(self):
        """A state of a fixed shape, which the same array is fed for twice."""
        model = model_of([helper.make_node("Add", ["s", "x"], ["t"])],
                         [info("x", TensorProto.FLOAT, [4]), info("s", TensorProto.FLOAT, [4])],
                         [info("t", TensorProto.FLOAT, [4])])
        session = demi.Session(model, threads=1)
        with self.assertRaisesRegex(demi.UsageError, "no output"):
            session.stateful({"t*t": "s*"})
        stream = session.stateful({"t": "s"})
        ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
        for i in range(1, 5):
            t, = stream.run(["t"], {"x": ones, **({"s": zeros} if i == 1 else {})})
            self.assertEqual(t.tolist(), [i] * 4)
            t[:] = 100
        t, = stream.run(["t"], {"x": ones, "s": zeros})
        self.assertEqual(t.tolist(), [1] * 4)
        self.assertEqual(stream.run(None, {"x": ones}), [])

    def test_wrong(self):
        for carry in ({"nothing": "past.k"}, {"present.k": "nothing"}, {"present.*": "past.k"},
                      {"present.k": "x", "present.v": "x"}, {"*.*": "*.*"}, {"y": "past.*"}):
            with self.subTest(str(carry)), self.assertRaises(demi.UsageError):
                self.session.stateful(carry)
        with self.assertRaises(demi.UsageError):
            self.session.stateful({"present.*": "past.*"}).cut("x", 1, 0)


def apart_models():
    """Models whose weights lie in initializers, in a constant node, in a subgraph, and typed."""
    rng = np.random.default_rng(5)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), name)
               for name in "abc"]
    typed = helper.make_tensor("d", TensorProto.FLOAT, [64], np.linspace(0, 1, 64).tolist())
    branches = [helper.make_graph([helper.make_node("MatMul", ["x", name], [f"{name}y"])], name, [],
                                  [info(f"{name}y", TensorProto.FLOAT, None)], [weight])
                for name, weight in (("b", weights[1]), ("c", weights[2]))]
    nodes = [helper.make_node("Constant", [], ["k"], value=weights[1]),
             helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "k"], ["u"]),
             helper.make_node("Add", ["u", "d"], ["v"]),
             helper.make_node("If", ["q"], ["w"], then_branch=branches[0], else_branch=branches[1]),
             helper.make_node("Add", ["v", "w"], ["y"])]
    model = model_of(nodes, [info("x", TensorProto.FLOAT, ["N", 64]), info("q", TensorProto.BOOL, [])],
                     [info("y", TensorProto.FLOAT, ["N", 64])], [weights[0], typed])
    model.metadata_props.add(key="who", value="me")
    return {"parts": model, "typed": matmul(64)}


class Large(unittest.TestCase):
    """ModelProtos whose weights stay where they are, by a lowered limit; of the real size with
    DEMI_LARGE_MODEL=1, which takes 7 GB and some minutes."""

    def setUp(self):
        self.limit, demi._large.LIMIT = demi._large.LIMIT, 1000

    def tearDown(self):
        demi._large.LIMIT = self.limit

    def test_same_model(self):
        for name, model in apart_models().items():
            before = model.SerializeToString()
            demi._large.LIMIT = 1 << 30
            wanted, report = demi.convert(model)
            simple, _ = demi.simplify(model)
            demi._large.LIMIT = 1000
            made, other = demi.convert(model)
            with self.subTest(name):
                self.assertEqual(made.SerializeToString(deterministic=True),
                                 wanted.SerializeToString(deterministic=True))
                self.assertEqual(report.totals.casts_added, other.totals.casts_added)
                self.assertEqual(demi.simplify(model)[0].SerializeToString(deterministic=True),
                                 simple.SerializeToString(deterministic=True))
                self.assertEqual(model.SerializeToString(), before)
                demi.check(model)
                demi.check(made, against=model)

    def test_session(self):
        model = apart_models()["parts"]
        feeds = {"x": np.random.default_rng(1).random((3, 64), np.float32), "q": np.array(True)}
        demi._large.LIMIT = 1 << 30
        wanted, = demi.Session(model).run(None, feeds)
        demi._large.LIMIT = 1000
        session = demi.Session(model)
        self.assertIsInstance(session._model, demi._large.LargeModel)
        self.assertEqual(session.run(None, feeds)[0].tobytes(), wanted.tobytes())
        again = pickle.loads(pickle.dumps(session))
        del session, model
        self.assertEqual(again.run(None, feeds)[0].tobytes(), wanted.tobytes())

    def test_unknown_fields(self):
        model = apart_models()["parts"]
        model.graph.MergeFromString(bytes([0xc2, 0x3e, 0x02, 0x68, 0x69]))  # field 1000, "hi"
        with self.assertRaises(demi.UsageError):
            demi.convert(model)

    def test_files_beside(self):
        model = apart_models()["parts"]
        other = model.graph.initializer.add(name="z", data_type=TensorProto.FLOAT, dims=[2])
        other.data_location = TensorProto.EXTERNAL
        other.external_data.add(key="location", value="z.bin")
        with self.assertRaisesRegex(demi.DemiError, "z.bin"):
            demi.convert(model)

    @unittest.skipUnless(os.environ.get("DEMI_LARGE_MODEL"), "DEMI_LARGE_MODEL=1: by hand")
    def test_real_size(self):
        demi._large.LIMIT = self.limit
        size, layers = 8192, 9  # 2.4 GB
        rng = np.random.default_rng(1)
        raw = (rng.random(size * size, np.float32) / size).tobytes()
        weights = [TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[size, size], raw_data=raw)
                   for i in range(layers)]
        nodes = [helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(layers)]
        model = model_of(nodes, [info("t0", TensorProto.FLOAT, ["N", size])],
                         [info(f"t{layers}", TensorProto.FLOAT, ["N", size])])
        while weights:
            model.graph.initializer.append(weights.pop(0))
        del raw
        gc.collect()
        held, bound = memory("VmRSS"), sum(len(t.raw_data) for t in model.graph.initializer)
        resource.setrlimit(resource.RLIMIT_AS, (int(memory("VmSize") + 1.5 * bound), -1))
        start = time.monotonic()
        made, report = demi.convert(model)
        took, more = time.monotonic() - start, memory("VmHWM") - held
        print(f"{bound / 1e9:.2f} GB: converted in {took:.1f} s, {more / 1e9:.2f} GB more at most",
              file=sys.stderr)
        self.assertEqual(sum(len(t.raw_data) for t in made.graph.initializer), bound // 2)
        demi.check(model)
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        x = rng.random((1, size), np.float32)
        y, = demi.Session(made, threads=2, small=True).run(None, {"t0": x})
        z, = demi.Session(model, threads=2).run(None, {"t0": x})
        self.assertLess(np.max(np.abs(y - z)), 0.01 * np.max(np.abs(z)))


if __name__ == "__main__":
    unittest.main()
