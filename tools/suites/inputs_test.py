# SPDX-License-Identifier: Apache-2.0
"""Inputs of `run`, `bench`, `compare`, `check` and `convert --verify`: random ones that every model
can work with, sizes by name, and files and folders of arrays.

Each model below fails, or says nothing, on integers that are drawn blindly: an index beyond its
table, a mask that hides everything, a length beyond the sequence.
"""

import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite.folder_case import FolderCase, run_cases, save, weight

FLOAT, INT64, INT32, BOOL = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32,
                             TensorProto.BOOL)
node = helper.make_node
info = helper.make_tensor_value_info


def encoder(path: pathlib.Path, rows: int = 500, positions: int = 64, width: int = 16,
            mask: str = "attention_mask") -> pathlib.Path:
    """The input side and one attention of an encoder with token types, as exporters write it."""
    shape = ["batch", "seq_len"]
    nodes = [
        node("Gather", ["words", "input_ids"], ["e0"], name="words_of"),
        node("Gather", ["types", "token_type_ids"], ["e1"], name="types_of"),
        node("Gather", ["places", "position_ids"], ["e2"], name="places_of"),
        node("Add", ["e0", "e1"], ["e01"]), node("Add", ["e01", "e2"], ["e"]),
        node("Unsqueeze", [mask, "axes"], ["m0"]), node("Cast", ["m0"], ["m1"], to=FLOAT),
        node("Sub", ["one", "m1"], ["m2"]), node("Mul", ["m2", "large"], ["m"]),
        node("MatMul", ["e", "wq"], ["q"]), node("MatMul", ["e", "wk"], ["k"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["s"]),
        node("Add", ["s", "m"], ["sm"]), node("Softmax", ["sm"], ["p"], axis=-1),
        node("MatMul", ["p", "e"], ["y"])]
    inputs = [info(n, INT64, shape) for n in ("input_ids", "token_type_ids", "position_ids", mask)]
    weights = {"words": weight(rows, width), "types": weight(2, width),
               "places": weight(positions, width), "wq": weight(width, width) / 8,
               "wk": weight(width, width) / 8, "one": np.float32(1), "large": np.float32(-1e4),
               "axes": np.array([1], np.int64)}
    return save(path, nodes, inputs, [info("y", FLOAT, [*shape, width])], weights)


class Case(FolderCase):
    def inputs(self, model: object, *words: object) -> dict[str, np.ndarray]:
        """What `run --random` gave the inputs."""
        self.ok("run", model, "--random", 1, "--save-inputs", "made", "--quiet", *words)
        names = [i.name for i in onnx.load(self.at / pathlib.Path(model).with_suffix(".onnx"))
                 .graph.input]
        made = {}
        for i, name in enumerate(names):
            tensor = onnx.TensorProto()
            tensor.ParseFromString((self.at / "made" / f"input_{i}.pb").read_bytes())
            made[name] = numpy_helper.to_array(tensor)
        return made


class Random(Case):
    """Every reader that limits what an input may be."""

    def made(self, nodes: list, inputs: list, weights: dict, *words: object, opset: int = 17,
             outputs: list | None = None) -> dict[str, np.ndarray]:
        outputs = outputs or [info("y", FLOAT, None)]
        save(self.at / "m.onnx", nodes, inputs, outputs, weights, opset)
        values = self.inputs("m.onnx", *words)
        self.ok("compile", "m.onnx", "-o", "m.plan")
        for name, value in self.inputs("m.plan", *words).items():
            np.testing.assert_array_equal(value, values[name])
        return values

    def test_every_command_runs_an_encoder_with_token_types(self):
        encoder(self.at / "b.onnx")
        values = self.inputs("b.onnx")
        self.assertEqual(values["input_ids"].shape, (1, 16))
        self.assertGreater(values["input_ids"].max(), 2)
        self.assertEqual(set(np.unique(values["token_type_ids"])), {0, 1})
        np.testing.assert_array_equal(values["attention_mask"], 1)
        np.testing.assert_array_equal(values["position_ids"], [np.arange(16)])
        self.ok("bench", "b.onnx", "--runs", 1, "--warmup", 0, "--no-peak")
        self.ok("convert", "b.onnx", "-o", "h.onnx", "--verify", "random", "--quiet")
        self.ok("compare", "b.onnx", "h.onnx")
        self.ok("check", "h.onnx", "--against", "b.onnx", "--random", 3)
        self.ok("compile", "b.onnx", "-o", "b.plan")
        for other in ("h.onnx", "b.plan"):
            for name, value in values.items():
                again = self.inputs("b.onnx") if other == "h.onnx" else None
                np.testing.assert_array_equal((again or values)[name], value)
        self.ok("run", "b.plan", "--random", 1, "--save-inputs", "p", "--quiet")
        for i, value in enumerate(values.values()):
            tensor = onnx.TensorProto()
            tensor.ParseFromString((self.at / "p" / f"input_{i}.pb").read_bytes())
            np.testing.assert_array_equal(numpy_helper.to_array(tensor), value)

    def test_more_tokens_than_positions_are_not_assumed(self):
        encoder(self.at / "b.onnx", positions=5)
        values = self.inputs("b.onnx")
        self.assertLessEqual(values["position_ids"].max(), 4)

    def test_masks_in_other_words(self):
        """What lets everything through, whichever way round it is written."""
        scores, low = info("s", FLOAT, [1, 4]), np.float32(-1e9)
        where = [node("Where", ["c", "s", "low"], ["m"]), node("Softmax", ["m"], ["y"])]
        swapped = [node("Where", ["c", "low", "s"], ["m"]), node("Softmax", ["m"], ["y"])]
        cases = [
            (where, info("c", BOOL, [1, 4]), {}, 1), (swapped, info("c", BOOL, [1, 4]), {}, 0),
            ([node("Not", ["b"], ["c"]), *swapped], info("b", BOOL, [1, 4]), {}, 1),
            ([node("Equal", ["i", "zero"], ["c"]), *swapped], info("i", INT64, [1, 4]), {}, 1),
            ([node("Greater", ["i", "zero"], ["c"]), *where], info("i", INT64, [1, 4]), {}, 1),
            ([node("Cast", ["i"], ["f"], to=FLOAT), node("Sub", ["one", "f"], ["g"]),
              node("Cast", ["g"], ["c"], to=BOOL), *swapped], info("i", INT32, [1, 4]), {}, 1),
            ([node("Cast", ["i"], ["c"], to=BOOL),
              node("Expand", ["low", "shape"], ["lows"]),
              node("Where", ["c", "s", "lows"], ["m"]), node("Softmax", ["m"], ["y"])],
             info("i", INT64, [1, 4]), {"shape": np.array([1, 4], np.int64)}, 1)]
        for nodes, mask, more, want in cases:
            weights = {"low": low, "zero": np.int64(0), "one": np.float32(1), **more}
            read = {name for n in nodes for name in n.input}
            values = self.made(nodes, [scores, mask], {n: w for n, w in weights.items()
                                                       if n in read})
            np.testing.assert_array_equal(values[mask.name].astype(int), want, str(nodes))

    def test_indices_stay_within_their_tables(self):
        table = {"t": weight(7, 3, 5)}
        index = info("i", INT64, [64])
        cases = [
            ([node("Gather", ["t", "i"], ["y"], axis=0)], 7),
            ([node("Gather", ["t", "i"], ["y"], axis=1)], 3),
            ([node("Gather", ["t", "i"], ["y"], axis=-1)], 5),
            ([node("Add", ["i", "two"], ["j"]), node("Gather", ["t", "j"], ["y"], axis=0)], 5),
            ([node("Cast", ["i"], ["j"], to=INT32), node("Reshape", ["j", "s"], ["k"]),
              node("Gather", ["t", "k"], ["y"], axis=0)], 7),
            ([node("OneHot", ["i", "depth", "v"], ["y"])], 4),
            ([node("Gather", ["t", "i"], ["a"], axis=0), node("Gather", ["t", "i"], ["b"], axis=1),
              node("ReduceSum", ["a"], ["c"], keepdims=0), node("ReduceSum", ["b"], ["d"],
                                                                keepdims=0),
              node("Add", ["c", "d"], ["y"])], 3)]
        weights = {**table, "two": np.int64(2), "s": np.array([8, 8], np.int64),
                   "depth": np.int64(4), "v": np.array([0, 1], np.float32)}
        for nodes, rows in cases:
            read = {name for n in nodes for name in n.input}
            values = self.made(nodes, [index],
                               {n: w for n, w in weights.items() if n in read})["i"]
            least = -2 if rows == 5 and nodes[0].op_type == "Add" else 0
            self.assertTrue(least <= values.min() and values.max() < rows, (rows, values))
            self.assertGreater(len(np.unique(values)), 1)

    def test_coordinates_lengths_and_counts(self):
        x = info("x", FLOAT, ["T", 2, 3])
        values = self.made([node("GatherND", ["t", "i"], ["y"])], [info("i", INT64, [9, 2])],
                           {"t": weight(4, 6, 2)})
        self.assertLess(values["i"].max(), 4)
        lstm = {"w": weight(1, 16, 3), "r": weight(1, 16, 4)}
        values = self.made([node("LSTM", ["x", "w", "r", "", "n"], ["y"], hidden_size=4)],
                           [x, info("n", INT32, [2])], lstm)
        np.testing.assert_array_equal(values["n"], values["x"].shape[0])
        values = self.made([node("LSTM", ["x", "w", "r", "", "n"], ["y"], hidden_size=4)],
                           [x, info("n", INT32, [2])], lstm, "--dim", "T=5")
        np.testing.assert_array_equal(values["n"], 5)
        values = self.made([node("TopK", ["a", "k"], ["y", "j"])],
                           [info("a", FLOAT, [3, 2]), info("k", INT64, [1])], {})
        np.testing.assert_array_equal(values["k"], 1)
        values = self.made([node("Split", ["a", "s"], ["y", "z"], axis=1)],
                           [info("a", FLOAT, [3, 7]), info("s", INT64, [2])], {})
        self.assertEqual(values["s"].sum(), 7)

    def test_shapes_axes_and_ends(self):
        a = info("a", FLOAT, [2, 3, 4])
        for nodes, shape in (([node("Reshape", ["a", "i"], ["y"])], [4]),
                             ([node("Expand", ["a", "i"], ["y"])], [3]),
                             ([node("Tile", ["a", "i"], ["y"])], [3]),
                             ([node("ReduceSum", ["a", "i"], ["y"])], [2]),
                             ([node("Unsqueeze", ["a", "i"], ["y"])], [2]),
                             ([node("Slice", ["a", "z", "i"], ["y"])], [1]),
                             ([node("ConstantOfShape", ["i"], ["y"])], [3]),
                             ([node("Range", ["f", "i", "d"], ["j"]),
                               node("Cast", ["j"], ["y"], to=FLOAT)], [])):
            read = {name for n in nodes for name in n.input}
            weights = {"z": np.array([0], np.int64), "f": np.int64(0), "d": np.int64(1)}
            inputs = [v for v in (a, info("i", INT64, shape)) if v.name in read]
            self.made(nodes, inputs, {n: w for n, w in weights.items() if n in read})

    def test_positions_of_rotary_embeddings_ascend(self):
        nodes = [node("Cast", ["p"], ["f"], to=FLOAT), node("Unsqueeze", ["f", "axes"], ["u"]),
                 node("MatMul", ["u", "freq"], ["a"]), node("Cos", ["a"], ["y"])]
        values = self.made(nodes, [info("p", INT64, ["seq"])],
                           {"axes": np.array([1], np.int64), "freq": weight(1, 4)})
        np.testing.assert_array_equal(values["p"], np.arange(16))

    def test_time_steps_are_not_all_near_zero(self):
        nodes = [node("Mul", ["timestep", "freq"], ["a"]), node("Sin", ["a"], ["y"])]
        values = self.made(nodes, [info("timestep", FLOAT, [16, 1])], {"freq": weight(1, 4)})
        t = values["timestep"]
        self.assertTrue(100 < t.max() < 1000 and t.min() >= 0, t)
        np.testing.assert_array_equal(t, np.floor(t))
        nodes[0].input[0] = "coordinates"
        values = self.made(nodes, [info("coordinates", FLOAT, [16, 1])], {"freq": weight(1, 4)})
        self.assertLess(np.abs(values["coordinates"]).max(), 4)

    def test_bodies_of_loops_count(self):
        body = helper.make_graph(
            [node("Gather", ["t", "idx"], ["row"]), node("ReduceSum", ["row"], ["r"], keepdims=0),
             node("Add", ["acc", "r"], ["acc2"]), node("Identity", ["go"], ["go2"])], "body",
            [info("n", INT64, []), info("go", BOOL, []), info("acc", FLOAT, [])],
            [info("go2", BOOL, []), info("acc2", FLOAT, [])])
        values = self.made([node("Loop", ["trips", "go0", "zero"], ["y"], body=body)],
                           [info("trips", INT64, []), info("idx", INT64, [3])],
                           {"t": weight(9, 2), "go0": np.bool_(True), "zero": np.float32(0)})
        self.assertEqual(values["trips"], 3)
        self.assertLess(values["idx"].max(), 9)

    def test_what_reads_the_iteration_asks_nothing_of_the_trips(self):
        body = helper.make_graph(
            [node("Add", ["n", "one"], ["next"]), node("Unsqueeze", ["next", "axes"], ["end"]),
             node("Slice", ["t", "axes", "end"], ["part"]),
             node("ReduceSum", ["part"], ["r"], keepdims=0), node("Add", ["acc", "r"], ["acc2"]),
             node("Identity", ["go"], ["go2"])], "body",
            [info("n", INT64, []), info("go", BOOL, []), info("acc", FLOAT, [])],
            [info("go2", BOOL, []), info("acc2", FLOAT, [])])
        values = self.made([node("Loop", ["trips", "go0", "zero"], ["y"], body=body)],
                           [info("trips", INT64, [])],
                           {"t": weight(9), "one": np.int64(1), "axes": np.array([0]),
                            "go0": np.bool_(True), "zero": np.float32(0)})
        self.assertEqual(values["trips"], 3)

    def test_lengths_by_name(self):
        nodes = [node("Shape", ["x"], ["s"], start=1, end=2), node("Squeeze", ["s"], ["n"]),
                 node("Range", ["zero", "n", "one"], ["r"]),
                 node("Unsqueeze", ["input_lengths", "axes"], ["l"]),
                 node("Less", ["r", "l"], ["c"]),
                 node("Cast", ["c"], ["f"], to=FLOAT), node("Mul", ["x", "f"], ["y"])]
        inputs = [info("x", FLOAT, ["b", "t"]), info("input_lengths", INT64, ["b"])]
        values = self.made(nodes, inputs,
                           {"zero": np.int64(0), "one": np.int64(1), "axes": np.array([1])})
        np.testing.assert_array_equal(values["input_lengths"], 16)

    def test_a_branch_for_one_value_is_taken(self):
        def branch(op: str) -> onnx.GraphProto:
            return helper.make_graph([node(op, ["x"], [f"{op}_y"])], op, [],
                                     [info(f"{op}_y", FLOAT, [2, 3])])
        values = self.made([node("Equal", ["rate", "usual"], ["c"]),
                            node("If", ["c"], ["y"], then_branch=branch("Relu"),
                                 else_branch=branch("Abs"))],
                           [info("x", FLOAT, [2, 3]), info("rate", INT64, [])],
                           {"usual": np.int64(16000)})
        self.assertEqual(values["rate"], 16000)

    def test_unnamed_sizes_and_states(self):
        nodes = [node("LSTM", ["x", "w", "r", "", "", "h0"], ["y"], hidden_size=4),
                 node("ReduceSum", ["z", "axes"], ["q"])]
        values = self.made(nodes, [info("x", FLOAT, ["?", 1, 3]), info("h0", FLOAT, [1, "?", 4]),
                                   info("z", FLOAT, ["?", "?", "?"])],
                           {"w": weight(1, 16, 3), "r": weight(1, 16, 4),
                            "axes": np.array([1], np.int64)},
                           outputs=[info("y", FLOAT, None), info("q", FLOAT, None)])
        self.assertEqual(values["h0"].shape[1], 1)

    def test_the_hint_names_the_input_and_the_operator(self):
        nodes = [node("ReduceProd", ["i"], ["j"], keepdims=1),
                 node("Gather", ["t", "j"], ["y"], name="lookup")]
        save(self.at / "m.onnx", nodes, [info("i", INT64, [40]), info("x", FLOAT, [1])],
             [info("y", FLOAT, None)], {"t": weight(2, 3)})
        for seed in range(20):
            done = self.demi("run", "m.onnx", "--random", seed)
            if done.returncode:
                break
        nodes[0] = node("Add", ["i", "big"], ["j"])
        save(self.at / "m.onnx", [node("Mul", ["i", "big"], ["k"]), node("Add", ["k", "big"],
                                                                         ["j"]), nodes[1]],
             [info("i", INT64, [40]), info("x", FLOAT, [1])], [info("y", FLOAT, None)],
             {"t": weight(2, 3), "big": np.int64(1000)})
        line = self.fails(1, "run", "m.onnx", "--random", 0)
        for part in ("lookup", "'i'", "--input i=FILE"):
            self.assertIn(part, line)


class Sizes(Case):
    def setUp(self) -> None:
        super().setUp()
        encoder(self.at / "b.onnx")

    def test_a_name_binds_everywhere(self):
        for words in (["--dim", "seq_len=7"], ["--shape", "input_ids=1x7"]):
            values = self.inputs("b.onnx", *words)
            self.assertEqual({v.shape for v in values.values()}, {(1, 7)})
        np.save(self.at / "ids.npy", np.zeros((2, 9), np.int64))
        values = self.inputs("b.onnx", "--input", "token_type_ids=ids.npy")
        self.assertEqual({v.shape for v in values.values()}, {(2, 9)})

    def test_messages_name_symbols(self):
        self.assertIn("int64[batch,seq_len]", self.fails(2, "run", "b.onnx"))
        line = self.fails(2, "run", "b.onnx", "--random", 1, "--dim", "seqlen=3")
        self.assertIn("did you mean 'seq_len'", line)
        self.assertIn("--dim NAME=N", self.fails(2, "run", "b.onnx", "--random", 1, "--dim", "x"))
        self.assertIn("1,seq_len", self.fails(2, "run", "b.onnx", "--random", 1, "--dim",
                                              "batch=1", "--shape", "input_ids=2x3"))

    def test_sizes_that_the_model_takes_are_found(self):
        """Halvings that have to come out even, and a window longer than a sentence."""
        nodes = [node("Reshape", ["x", "s"], ["y"])]
        save(self.at / "i.onnx", nodes, [info("x", FLOAT, ["n", 3, "h", "w"])],
             [info("y", FLOAT, None)], {"s": np.array([1, 3, 7, 32, -1], np.int64)})
        self.assertEqual(self.inputs("i.onnx")["x"].shape, (1, 3, 224, 224))
        save(self.at / "a.onnx", [node("Conv", ["x", "w"], ["y"], strides=[160])],
             [info("x", FLOAT, ["b", 1, "samples"])], [info("y", FLOAT, None)],
             {"w": weight(2, 1, 400)})
        self.assertGreaterEqual(self.inputs("a.onnx")["x"].shape[2], 400)
        save(self.at / "o.onnx", [node("Add", ["x", "z"], ["t"]),
                                  node("Reshape", ["t", "s"], ["y"])],
             [info("x", FLOAT, ["n", "m"])], [info("y", FLOAT, None)],
             {"z": weight(1, 1), "s": np.array([1], np.int64)})
        self.assertEqual(self.inputs("o.onnx")["x"].shape, (1, 1))

    def test_assumed_sizes_are_told(self):
        text = self.ok("run", "b.onnx", "--random", 1)
        self.assertIn("sizes assumed: batch 1, seq_len 16", text.splitlines()[0])
        self.assertIn("sizes assumed: batch 1, seq_len 16", self.ok("compare", "b.onnx", "b.onnx"))
        self.assertNotIn("assumed", self.ok("run", "b.onnx", "--random", 1, "--shape",
                                            "input_ids=2x5"))

    def test_sums_of_sizes(self):
        save(self.at / "d.onnx", [node("Concat", ["past", "x"], ["c"], axis=1),
                                  node("Mul", ["c", "mask"], ["y"])],
             [info("x", FLOAT, [1, "sequence_length"]), info("past", FLOAT, [1, "past_length"]),
              info("mask", FLOAT, [1, "past_length + sequence_length"])], [info("y", FLOAT, None)],
             {})
        values = self.inputs("d.onnx")
        self.assertEqual(values["mask"].shape[1], values["x"].shape[1] + values["past"].shape[1])


class Sets(Case):
    """--data, --calibrate and --verify take whatever `run` takes inputs from."""

    def setUp(self) -> None:
        super().setUp()
        encoder(self.at / "b.onnx")
        rng = np.random.default_rng(3)
        self.sets = [{"input_ids": rng.integers(0, 500, (1, n)),
                      "token_type_ids": rng.integers(0, 2, (1, n)),
                      "position_ids": np.arange(n)[None], "attention_mask": np.ones((1, n), int)}
                     for n in (4, 11)]
        save(self.at / "one.onnx", [node("MatMul", ["x", "w"], ["y"])],
             [info("x", FLOAT, ["N", 4])], [info("y", FLOAT, ["N", 4])], {"w": weight(4, 4)})

    def check(self, data: str, count: int, model: str = "b.onnx") -> None:
        out = self.ok("run", model, "--data", data, "--json=-", "--quiet")
        self.assertEqual(len(json.loads(out)["runs"]), count)
        self.ok("bench", model, "--data", data, "--runs", 1, "--warmup", 0, "--no-peak")
        out = self.ok("convert", model, "-o", "h.onnx", "--verify", data, "--calibrate", data,
                      "--json=-", "--quiet")
        self.assertEqual(json.loads(out)["verification"]["sets"], count)
        self.assertEqual(json.loads(out)["calibration"]["sets"], count)
        self.ok("compare", model, "h.onnx", "--data", data)
        self.ok("check", "h.onnx", "--against", model, "--data", data)

    def test_an_archive(self):
        np.savez(self.at / "a.npz", **self.sets[0])
        self.check("a.npz", 1)
        np.savez(self.at / "out.npz", **self.sets[0], y=np.zeros(3))
        self.check("out.npz", 1)

    def test_archives_in_a_folder(self):
        (self.at / "sets").mkdir()
        for i, values in enumerate(self.sets):
            np.savez(self.at / "sets" / f"{i}.npz", **values)
        self.check("sets", 2)
        self.ok("run", "b.onnx", "--data", "sets", "--output-dir", "out")
        self.assertTrue((self.at / "out" / "1" / "output_0.pb").exists())

    def test_arrays_in_folders(self):
        for i, values in enumerate(self.sets):
            (self.at / "sets" / f"s{i}").mkdir(parents=True)
            for name, value in values.items():
                np.save(self.at / "sets" / f"s{i}" / f"{name}.npy", value)
        self.check("sets/s0", 1)
        self.check("sets", 2)

    def test_single_arrays(self):
        (self.at / "many").mkdir()
        for i in range(3):
            np.save(self.at / "many" / f"image{i}.npy", weight(i + 1, 4))
        self.check("many/image1.npy", 1, "one.onnx")
        self.check("many", 3, "one.onnx")

    def test_refusals(self):
        np.savez(self.at / "odd.npz", **self.sets[0], extra=np.zeros(3))
        self.assertIn("'extra'", self.fails(2, "run", "b.onnx", "--data", "odd.npz"))
        np.savez(self.at / "few.npz", input_ids=self.sets[0]["input_ids"])
        self.assertIn("'token_type_ids'", self.fails(2, "run", "b.onnx", "--data", "few.npz"))
        np.save(self.at / "a.npy", weight(1, 4))
        self.assertIn("one array", self.fails(2, "run", "b.onnx", "--data", "a.npy"))
        (self.at / "empty").mkdir()
        self.assertIn("no inputs", self.fails(2, "run", "b.onnx", "--data", "empty"))
        self.assertIn("no such", self.fails(2, "convert", "b.onnx", "-o", "h.onnx", "--verify",
                                            "nowhere"))


if __name__ == "__main__":
    run_cases()
