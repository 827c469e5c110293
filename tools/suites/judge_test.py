# SPDX-License-Identifier: Apache-2.0
"""What `convert --verify`, `compare` and `check --against` say of models whose outputs are picked
(TopK, NonMaxSuppression, ArgMax, comparisons), or become NaN or infinite.
"""

import json
import pathlib
import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite.folder_case import FolderCase, run_cases, save, weight

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
info = helper.make_tensor_value_info


def backbone(nodes: list, weights: dict, layers: int = 4, width: int = 16) -> str:
    """Convolutions over an image: `x` -> features[1, width, 24, 24]."""
    last = "x"
    for i in range(layers):
        channels, scale = (width, 12) if i else (3, 5)
        weights[f"w{i}"] = weight(width, channels, 3, 3, seed=i) / scale
        nodes += [node("Conv", [last, f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1]),
                  node("Tanh", [f"c{i}"], [f"r{i}"], name=f"act{i}")]
        last = f"r{i}"
    return last


def detector(path: pathlib.Path, best: int = 100) -> None:
    """Scores and boxes of 576 places; the `best` by score, then those that do not overlap: rows in
    the order of scores that are nearly the same everywhere."""
    nodes, weights = [], {}
    last = backbone(nodes, weights)
    weights |= {"head": weight(8, 16, 1, 1, seed=9), "flat": np.array([1, 8, -1], np.int64),
                "zero": np.array([0], np.int64), "four": np.array([4], np.int64),
                "five": np.array([5], np.int64), "one": np.array([1], np.int64),
                "two": np.array([2], np.int64), "three": np.array([3], np.int64),
                "k": np.array([best], np.int64), "most": np.int64(50),
                "iou": np.float32(0.5), "least": np.float32(0.3), "size": np.float32(0.2),
                "column": np.array(2, np.int64), "row": np.array([-1], np.int64)}
    nodes += [
        node("Conv", [last, "head"], ["h"], name="head"), node("Reshape", ["h", "flat"], ["f"]),
        node("Transpose", ["f"], ["t"], perm=[0, 2, 1]),
        node("Slice", ["t", "zero", "four", "two"], ["raw"]),
        node("Sigmoid", ["raw"], ["center"]),
        node("Slice", ["center", "zero", "two", "two"], ["low"]),
        node("Add", ["low", "size"], ["high"]), node("Concat", ["low", "high"], ["boxes"], axis=2),
        node("Slice", ["t", "four", "five", "two"], ["s0"]), node("Sigmoid", ["s0"], ["s1"]),
        node("Squeeze", ["s1", "two"], ["scores"]),
        node("TopK", ["scores", "k"], ["top", "index"], name="top_k", axis=1),
        node("Unsqueeze", ["index", "two"], ["index3"]),
        node("Concat", ["index3", "index3", "index3", "index3"], ["index4"], axis=2),
        node("GatherElements", ["boxes", "index4"], ["picked"], axis=1),
        node("Unsqueeze", ["top", "one"], ["top3"]),
        node("NonMaxSuppression", ["picked", "top3", "most", "iou", "least"], ["rows"],
             name="suppress"),
        node("Gather", ["rows", "column"], ["kept"], axis=1),
        node("Gather", ["picked", "kept"], ["final_boxes"], axis=1, name="take_boxes"),
        node("Gather", ["top", "kept"], ["final_scores"], axis=1, name="take_scores"),
        node("Gather", ["index", "kept"], ["places"], axis=1)]
    save(path, nodes, [info("x", FLOAT, [1, 3, 24, 24])],
         [info("final_boxes", FLOAT, [1, None, 4]), info("final_scores", FLOAT, [1, None]),
          info("places", INT64, [1, None])], weights)


class Case(FolderCase):
    def verification(self, name: str, *words: object, code: int = 0) -> dict:
        done = self.demi("convert", name, "-o", "out.onnx", "--json=-", "--quiet", "--verify",
                         "random", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)["verification"]


class Picked(Case):
    def test_a_detector_is_judged_by_what_it_picks(self):
        detector(self.at / "d.onnx")
        found = self.verification("d.onnx")
        self.assertLess(found["error"], 0.02)
        self.assertFalse(any("mismatch" in o for o in found["outputs"]), found["outputs"])
        picks = {p["node"]: p for p in found["picks"]}
        self.assertLess(picks["top_k"]["same"], picks["top_k"]["count"] + 1)
        self.assertLess(picks["top_k"]["margin"], 0.02)
        bounded = self.verification("d.onnx", "--max-error", 0.01)
        self.assertEqual(bounded["kept"], 0)
        self.ok("compare", "d.onnx", "out.onnx")
        self.ok("check", "out.onnx", "--against", "d.onnx", "--random", 2)
        text = self.ok("convert", "d.onnx", "--dry-run", "--verify", "random")
        self.assertRegex(text, r"TopK 'top_k': \d+ of 400 selected the same, the others within")
        errors = [float(e) for e in re.findall(r"verified \w+: off by ([0-9.e-]+) of the largest", text)]
        margins = [float(m) for m in re.findall(r"the others within ([0-9.e-]+) of a tie", text)]
        said = re.fullmatch(r"verified: no output is off by more than ([0-9.e-]+) of its largest magnitude, and selections "
                            r"that differ are within ([0-9.e-]+) of a tie; 'demi compare' shows .*", text.splitlines()[-1])
        self.assertTrue(said, text)
        for one, worst in zip(said.groups(), (max(errors), max(margins))):
            self.assertAlmostEqual(float(one) / worst, 1, 1)

    def test_a_wrong_pick_is_found(self):
        """The other model takes the least instead of the largest, or its scores are others."""
        detector(self.at / "a.onnx")
        model = onnx.load(self.at / "a.onnx")
        for n in model.graph.node:
            if n.name == "top_k":
                n.attribute.append(helper.make_attribute("largest", 0))
        onnx.save(model, self.at / "b.onnx")
        done = self.demi("compare", "a.onnx", "b.onnx")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("'top_k'", done.stdout)
        done = self.demi("check", "b.onnx", "--against", "a.onnx", "--random", 1)
        self.assertEqual(done.returncode, 1, done.stdout)
        for name, value in (("iou", 0.9), ("least", 0.9)):
            model = onnx.load(self.at / "a.onnx")
            threshold = next(i for i in model.graph.initializer if i.name == name)
            threshold.CopyFrom(numpy_helper.from_array(np.float32(value), name))
            onnx.save(model, self.at / "b.onnx")
            done = self.demi("compare", "a.onnx", "b.onnx")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("'suppress'", done.stdout)
        model = onnx.load(self.at / "a.onnx")
        for n in model.graph.node:
            if n.name == "suppress":
                n.attribute.append(helper.make_attribute("center_point_box", 1))
        onnx.save(model, self.at / "b.onnx")
        self.assertEqual(self.demi("compare", "a.onnx", "b.onnx").returncode, 1)
        model = onnx.load(self.at / "a.onnx")
        head = next(i for i in model.graph.initializer if i.name == "head")
        changed = numpy_helper.to_array(head) + 0.2 * weight(8, 16, 1, 1, seed=50)
        head.CopyFrom(numpy_helper.from_array(changed.astype(np.float32), "head"))
        onnx.save(model, self.at / "b.onnx")
        self.assertEqual(self.demi("compare", "a.onnx", "b.onnx", "-e", 0.02).returncode, 1)

    def test_classes_order_and_thresholds(self):
        nodes, weights = [], {}
        last = backbone(nodes, weights)
        weights |= {"n": np.array([24 * 24], np.int64), "flat": np.array([16, -1], np.int64),
                    "half": np.float32(0.25), "ten": np.float32(10)}
        nodes += [node("ArgMax", [last], ["labels"], name="label", axis=1, keepdims=0),
                  node("ArgMin", [last], ["least"], name="least", axis=-1),
                  node("Reshape", [last, "flat"], ["f"]),
                  node("TopK", ["f", "n"], ["sorted", "order"], name="sort", axis=-1),
                  node("Greater", [last, "half"], ["mask"], name="mask"),
                  node("NonZero", ["mask"], ["where"]),
                  node("Mul", [last, "ten"], ["tens"]), node("Cast", ["tens"], ["bins"], to=INT64,
                                                             name="bins")]
        outputs = [info("labels", INT64, None), info("least", INT64, None),
                   info("sorted", FLOAT, None), info("order", INT64, None),
                   info("mask", BOOL, None), info("where", INT64, None), info("bins", INT64, None)]
        save(self.at / "m.onnx", nodes, [info("x", FLOAT, [1, 3, 24, 24])], outputs, weights)
        found = self.verification("m.onnx")
        self.assertLess(found["error"], 0.02)
        self.assertEqual({p["node"] for p in found["picks"]}, {"label", "least", "sort", "mask",
                                                              "bins"})
        for pick in found["picks"]:
            self.assertLess(pick["same"] if pick["node"] != "sort" else 0, pick["count"])
            self.assertLess(pick["margin"], 5e-3, pick)
        self.ok("compare", "m.onnx", "out.onnx")
        self.assertEqual(self.verification("m.onnx", "--max-error", 0.02)["kept"], 0)

    def test_picks_in_loops(self):
        body = helper.make_graph(
            [node("MatMul", ["state", "w"], ["p"]), node("Tanh", ["p"], ["next"]),
             node("ArgMax", ["next"], ["best"], name="inner", axis=1, keepdims=0),
             node("Identity", ["go"], ["go_on"])], "body",
            [info("i", INT64, []), info("go", BOOL, []), info("state", FLOAT, [8, 16])],
            [info("go_on", BOOL, []), info("next", FLOAT, [8, 16]), info("best", INT64, [8])])
        save(self.at / "l.onnx", [node("Loop", ["trips", "true", "x"], ["y", "bests"], body=body)],
             [info("x", FLOAT, [8, 16])], [info("y", FLOAT, None), info("bests", INT64, None)],
             {"w": weight(16, 16) / 3, "trips": np.int64(30), "true": np.bool_(True)})
        found = self.verification("l.onnx", "--sets", 6)
        self.assertTrue(all(p["node"] == "inner" for p in found.get("picks", [])))
        self.assertFalse(any(o.get("special") for o in found["outputs"]))


def unet(path: pathlib.Path, offset: float = 300, levels: int = 3) -> None:
    """Convolutions down and up again with skips, a time embedding, and in the middle a large offset
    that is taken away again: what is rounded there is nearly all that is left."""
    nodes, weights, skips = [], {}, []
    last, width = "x", 3
    for i in range(levels):
        weights[f"d{i}"] = weight(8 << i, width, 3, 3, seed=i) / np.float32(3 * width) ** 0.5
        nodes += [node("Conv", [last, f"d{i}"], [f"dc{i}"], name=f"down{i}", pads=[1, 1, 1, 1]),
                  node("Relu", [f"dc{i}"], [f"dr{i}"], name=f"down_relu{i}"),
                  node("MaxPool", [f"dr{i}"], [f"dp{i}"], name=f"pool{i}", kernel_shape=[2, 2],
                       strides=[2, 2])]
        skips.append((f"dr{i}", 8 << i))
        last, width = f"dp{i}", 8 << i
    weights |= {"offset": np.float32(offset), "mix": weight(width, width, 1, 1, seed=40) / 6,
                "freq": weight(1, width, seed=41), "axes": np.array([2, 3], np.int64),
                "one": np.array([1], np.int64)}
    nodes += [node("Cast", ["t"], ["tf"], to=FLOAT), node("Unsqueeze", ["tf", "one"], ["tu"]),
              node("MatMul", ["tu", "freq"], ["ta"], name="angle"),
              node("Sin", ["ta"], ["ts"], name="sine"),
              node("Unsqueeze", ["ts", "axes"], ["te"]),
              node("Add", [last, "te"], ["timed"], name="timed"),
              node("Conv", ["timed", "mix"], ["mixed"], name="mix"),
              node("Add", ["mixed", "offset"], ["far"], name="far"),
              node("Relu", ["far"], ["far_relu"], name="far_relu"),
              node("Sub", ["far_relu", "offset"], ["near"], name="near")]
    last = "near"
    for i, (skip, size) in reversed(list(enumerate(skips))):
        weights[f"u{i}"] = weight(width, size, 2, 2, seed=20 + i) / np.float32(width) ** 0.5
        weights[f"v{i}"] = weight(size, 2 * size, 3, 3, seed=30 + i) / np.float32(9 * size) ** 0.5
        nodes += [node("ConvTranspose", [last, f"u{i}"], [f"ut{i}"], name=f"up{i}", strides=[2, 2]),
                  node("Concat", [f"ut{i}", skip], [f"uc{i}"], name=f"join{i}", axis=1),
                  node("Conv", [f"uc{i}", f"v{i}"], [f"uv{i}"], name=f"merge{i}",
                       pads=[1, 1, 1, 1]),
                  node("Relu", [f"uv{i}"], [f"ur{i}"], name=f"up_relu{i}")]
        last, width = f"ur{i}", size
    weights["out"] = weight(3, width, 1, 1, seed=50)
    nodes.append(node("Conv", [last, "out"], ["y"], name="out"))
    save(path, nodes, [info("x", FLOAT, [1, 3, "h", "w"]), info("t", INT64, [1])],
         [info("y", FLOAT, [1, 3, "h", "w"])], weights)


class Advice(Case):
    """What `compare` says to keep is enough when it is pasted, and is nothing that is float."""

    def converges(self, name: str, bound: float, *words: object) -> dict:
        convert = [w for w in words if w in ("--to", "bfloat16")]
        report = json.loads(self.ok("convert", name, "-o", "low.onnx", "--json=-", "--quiet",
                                    *convert))
        low = {n["name"] for n in report["nodes"] if "16" in n["dtype"]}
        done = self.demi("compare", name, "low.onnx", "-e", bound, "--json=-", "--quiet",
                         "--keep-out", "keep.json")
        self.assertEqual(done.returncode, 1, "nothing to advise on")
        found = json.loads(done.stdout)
        self.assertEqual(found["advice"], "reaches", done.stderr)
        self.assertTrue(found["keep"])
        for pattern in found["keep"]:
            self.assertIn(pattern.removeprefix("name:").removeprefix("out:"), low)
        arguments = [w for p in found["keep"] for w in ("--keep", p)]
        for keep in (["--policy", "keep.json"], [*arguments, *convert]):
            self.ok("convert", name, "-o", "kept.onnx", *keep, "--quiet")
            again = self.ok("compare", name, "kept.onnx", "-e", bound, "--json=-", "--quiet")
            error = max(o["error"] for o in json.loads(again)["outputs"])
            self.assertLessEqual(error, bound)
            self.assertAlmostEqual(error, found["kept_error"], delta=1e-9)
        return found

    def test_a_unet_and_its_cause(self):
        unet(self.at / "u.onnx", offset=3000)
        found = self.converges("u.onnx", 0.02)
        self.assertIn("far", found["keep"])
        self.assertEqual(found["cause"]["node"], "far")
        low = sum("16" in n["dtype"] for n in json.loads(self.ok(
            "convert", "u.onnx", "-n", "--policy", "keep.json", "--json=-", "--quiet"))["nodes"])
        self.assertGreater(low, 15)

    def test_a_unet_in_bfloat16(self):
        unet(self.at / "u.onnx", offset=3000)
        self.converges("u.onnx", 0.02, "--to", "bfloat16")

    def test_a_bound_that_many_nodes_share(self):
        unet(self.at / "u.onnx", offset=0)
        self.converges("u.onnx", 2e-4)

    def test_a_detector_with_an_offset(self):
        detector(self.at / "d.onnx")
        model = onnx.load(self.at / "d.onnx")
        nodes = model.graph.node
        head = next(i for i, n in enumerate(nodes) if n.name == "head")
        last = nodes[head].input[0]
        nodes[head].input[0] = "near"
        nodes.insert(head, node("Sub", ["far", "offset"], ["near"], name="near"))
        nodes.insert(head, node("Add", [last, "offset"], ["far"], name="far"))
        model.graph.initializer.append(numpy_helper.from_array(np.float32(200), "offset"))
        onnx.save(model, self.at / "d.onnx")
        found = self.converges("d.onnx", 0.02)
        self.assertIn("far", found["keep"])

    def test_a_bound_that_no_choice_reaches(self):
        unet(self.at / "u.onnx")
        self.ok("convert", "u.onnx", "-o", "low.onnx", "--io", "low", "--quiet")
        done = self.demi("compare", "u.onnx", "low.onnx", "-e", "1e-9")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no set of nodes to keep in float32", done.stdout)

    def test_float_models_have_nothing_to_keep(self):
        unet(self.at / "u.onnx", offset=1)
        unet(self.at / "v.onnx", offset=1.5)
        done = self.demi("compare", "u.onnx", "v.onnx", "-e", "1e-5", "--json=-", "--quiet")
        self.assertEqual(done.returncode, 1)
        self.assertEqual((json.loads(done.stdout)["advice"], json.loads(done.stdout)["keep"]),
                         ("none", []))

    def test_units_are_of_the_type_compared(self):
        """A result of float16 that is cast to float is off by units of float16."""
        save(self.at / "m.onnx", [node("MatMul", ["x", "w"], ["y"])], [info("x", FLOAT, [4, 8])],
             [info("y", FLOAT, None)], {"w": weight(8, 8)})
        self.ok("convert", "m.onnx", "-o", "low.onnx", "--quiet")
        report = json.loads(self.ok("compare", "m.onnx", "low.onnx", "--json=-", "--quiet"))
        self.assertLess(report["outputs"][0]["ulp"], 200)
        self.assertEqual(report["outputs"][0]["ulp_type"], "float16")
        same = json.loads(self.ok("compare", "m.onnx", "m.onnx", "--json=-", "--quiet"))
        self.assertEqual(same["outputs"][0]["ulp_type"], "float")


class Broken(Case):
    def breaks(self, name: str, first: str, *words: object) -> str:
        (self.at / "out.onnx").unlink(missing_ok=True)
        done = self.demi("convert", name, "-o", "out.onnx", "--verify", "random", *words)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertFalse((self.at / "out.onnx").exists())
        self.assertIn(f"node '{first}'", done.stderr)
        self.assertIn("--calibrate", done.stderr)
        self.assertIn("(not written)", done.stdout)
        self.assertEqual("--to bfloat16" in done.stderr, "bfloat16" not in words)
        return done.stderr

    def test_an_overflow_between_nodes(self):
        """A product that leaves float16's range, beside a mask that becomes -Inf and does no
        harm."""
        nodes = [node("MatMul", ["x", "w"], ["a"], name="first"),
                 node("MatMul", ["a", "big"], ["b"], name="second"),
                 node("MatMul", ["b", "big"], ["c"], name="third"),
                 node("Mul", ["c", "tiny"], ["d"], name="back"),
                 node("Add", ["d", "mask"], ["e"], name="masked"),
                 node("Softmax", ["e"], ["y"], name="norm"),
                 node("ReduceMean", ["c"], ["z"], name="mean", axes=[1])]
        mask = np.zeros((4, 8), np.float32)
        mask[0, :3] = -3e38
        weights = {"w": np.eye(8, dtype=np.float32), "big": np.eye(8, dtype=np.float32) * 500,
                   "tiny": np.float32(1e-3), "mask": mask}
        save(self.at / "o.onnx", nodes, [info("x", FLOAT, [4, 8])],
             [info("y", FLOAT, None), info("z", FLOAT, None)], weights)
        line = self.breaks("o.onnx", "third")
        self.assertIn("'c'", line)
        self.ok("convert", "o.onnx", "-o", "out.onnx", "--verify", "random", "--calibrate",
                "random")
        self.ok("convert", "o.onnx", "-o", "out.onnx", "--verify", "random", "--to", "bfloat16")
        report = self.verification("o.onnx", "--max-error", 0.02)
        self.assertLessEqual(report["error"], 0.02)

    def test_in_a_body(self):
        body = helper.make_graph(
            [node("MatMul", ["state", "w"], ["next"], name="grow"),
             node("Identity", ["go"], ["go_on"])], "body",
            [info("i", INT64, []), info("go", BOOL, []), info("state", FLOAT, [4, 8])],
            [info("go_on", BOOL, []), info("next", FLOAT, [4, 8])])
        save(self.at / "l.onnx", [node("Loop", ["trips", "true", "x"], ["y"], body=body)],
             [info("x", FLOAT, [4, 8])], [info("y", FLOAT, None)],
             {"w": np.eye(8, dtype=np.float32) * 10, "trips": np.int64(6), "true": np.bool_(True)})
        self.breaks("l.onnx", "grow")

    def test_an_input_that_does_not_fit(self):
        save(self.at / "i.onnx", [node("Mul", ["x", "large"], ["b"], name="scale"),
                                  node("MatMul", ["b", "w"], ["c"], name="product"),
                                  node("Mul", ["c", "small"], ["y"], name="back")],
             [info("x", FLOAT, [4, 8])], [info("y", FLOAT, None)],
             {"large": np.full((1,), 6e4, np.float32), "w": np.eye(8, dtype=np.float32) * 3,
              "small": np.full((1,), 1e-4, np.float32)})
        done = self.demi("convert", "i.onnx", "-o", "out.onnx", "--verify", "random")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"node '(scale|product|b.*|.*cast.*)'")

    def test_what_was_not_verified_says_so(self):
        save(self.at / "m.onnx", [node("MatMul", ["x", "w"], ["y"])], [info("x", FLOAT, [2, 8])],
             [info("y", FLOAT, None)], {"w": weight(8, 8)})
        text = self.ok("convert", "m.onnx", "-o", "out.onnx")
        self.assertEqual(len(re.findall("note: no output was verified.*--verify random", text)), 1)
        text = self.ok("convert", "m.onnx", "-o", "out.onnx", "--verify", "random")
        self.assertNotIn("no output was verified", text)

    def test_what_the_source_has_too_is_no_fault(self):
        save(self.at / "s.onnx", [node("MatMul", ["x", "w"], ["a"]), node("Log", ["a"], ["b"]),
                                  node("MatMul", ["b", "w"], ["y"])], [info("x", FLOAT, [2, 8])],
             [info("y", FLOAT, None)], {"w": np.eye(8, dtype=np.float32)})
        self.ok("convert", "s.onnx", "-o", "out.onnx", "--verify", "random")


if __name__ == "__main__":
    run_cases()
