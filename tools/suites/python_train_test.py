# SPDX-License-Identifier: Apache-2.0
"""The Python package's training: the same bits as the command's, what is given back, and what is refused.

    DEMI_LIBRARY=build/release/libdemi.so tools/suites/python_train_test.py [unittest's options]
"""

import pathlib
import tempfile
import unittest

import numpy as np
import onnx

import train_test
from python_test import demi


class Train(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(7)
        self.data = train_test.samples((8,), rng)
        pipeline = demi.Pipeline("infer-dtypes", "infer-shapes", ("make-training", {"optimizer": "adam"}))
        self.model, self.report = pipeline(train_test.mlp(rng).SerializeToString())
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def test_kinds(self):
        made, trained = demi.train(self.model, self.data, epochs=2, batch=16)
        self.assertIsInstance(made, bytes)
        self.assertEqual(trained.steps, 20)
        self.assertFalse(onnx.load_from_string(made).training_info)
        proto, _ = demi.train(onnx.load_from_string(self.model), self.data, epochs=2, batch=16)
        self.assertEqual(proto.SerializeToString(), onnx.load_from_string(made).SerializeToString())
        path = self.folder / "model.onnx"
        path.write_bytes(self.model)
        self.assertIsInstance(demi.train(path, self.data, self.folder / "out.onnx", epochs=2, batch=16),
                              demi.Trained)
        self.assertEqual((self.folder / "out.onnx").read_bytes(), made)

    def test_told(self):
        """The report tells what is trained."""
        self.assertEqual(self.report.remarks, ["trained: 4 tensors, 160 elements"])

    def test_made(self):
        """The function makes what the pass does."""
        rng = np.random.default_rng(7)
        train_test.samples((8,), rng)
        model = train_test.mlp(rng).SerializeToString()
        self.assertEqual(demi.make_training(model, optimizer="adam"), self.model)
        path = self.folder / "made.onnx"
        self.assertIsNone(demi.make_training(model, path, optimizer="adam"))
        self.assertEqual(path.read_bytes(), self.model)
        proto = demi.make_training(onnx.load_from_string(model), optimizer="momentum", momentum=0.5, rate=0.1,
                                   decay=0.25, scale="dynamic", freeze=["b1"], decompose=True)
        self.assertEqual(demi.make_training(model, optimizer="adam", spelled=True),  # its former name
                         demi.make_training(model, optimizer="adam", decompose=True))
        self.assertNotIn("ai.onnx.preview.training", [n.domain for n in proto.training_info[0].algorithm.node
                                                      if n.op_type != "Gradient"])
        self.assertNotIn("b1", [b.key for b in proto.training_info[0].update_binding])
        self.assertIn("loss_scale", [b.key for b in proto.training_info[0].update_binding])
        for wrong in ({"loss": "l1"}, {"optimizer": "lion"}, {"scale": 0.5}, {"output": "none"}, {"freeze": ["none"]}):
            with self.assertRaises(demi.UsageError):
                demi.make_training(model, **wrong)

    def test_goes_on(self):
        whole, _ = demi.train(self.model, self.data, steps=30)
        part, _ = demi.train(self.model, self.data, steps=11, training=True)
        self.assertEqual(demi.train(part, self.data, steps=30)[0], whole)
        checkpoint = self.folder / "now.onnx"
        demi.train(self.model, self.data, steps=11, checkpoint=checkpoint)
        self.assertEqual(demi.train(checkpoint.read_bytes(), self.data, steps=30)[0], whole)

    def test_progress(self):
        steps = []
        _, trained = demi.train(self.model, self.data, steps=9, progress=steps.append)
        self.assertEqual([s.step for s in steps], list(range(1, 10)))
        self.assertEqual(steps[-1].loss, trained.loss)
        _, trained = demi.train(self.model, self.data, steps=9, progress=lambda s: s.step < 4)
        self.assertTrue(trained.ended_early)
        self.assertEqual(trained.steps, 4)

        def fail(_):
            raise KeyError("mine")
        with self.assertRaises(KeyError):
            demi.train(self.model, self.data, progress=fail)

    def test_refused(self):
        for data, how in (({"x": self.data["x"]}, {}), (self.data, {"batch": 1000}),
                          (self.data, {"numerics": "exact"}), (self.data | {"z": self.data["x"]}, {})):
            with self.assertRaises(demi.UsageError):
                demi.train(self.model, data, **how)
        with self.assertRaises(demi.ModelError):
            demi.train(demi.train(self.model, self.data)[0], self.data)
        with self.assertRaisesRegex(demi.UsageError, "cannot open its folder"):
            demi.train(self.model, self.data, checkpoint=self.folder / "none" / "now.onnx")


if __name__ == "__main__":
    unittest.main()
