# SPDX-License-Identifier: Apache-2.0
"""Data and files that are no use, through each option that takes some: one line that names the file, the exit code that
the manual has, and nothing written, no .part left. What is bad is a row, and so is each option.

usage: hostile_data_test.py --demi DEMI [unittest arguments]
"""

import os
import pathlib
import shutil
import tempfile
import unittest
from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from suite.folder_case import FolderCase, run_cases, save, weight
from suite.package import demi

from demi_onnx import distributed

X = weight(4, 8, seed=1)
ONE_COLUMN = np.arange(8) == 3
LABELS = np.arange(32) % 5
FAULT, USAGE, SYSTEM = 1, 2, 3


def archives(folder: pathlib.Path, *sets: np.ndarray | bytes, name: str = "x") -> None:
    folder.mkdir()
    for i, one in enumerate(sets):
        if isinstance(one, bytes):
            (folder / f"{i}.npz").write_bytes(one)
        else:
            np.savez(folder / f"{i}.npz", **{name: one})


def torn(folder: pathlib.Path) -> None:
    archives(folder, X, X)
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-60])


def other(folder: pathlib.Path) -> None:
    folder.mkdir()
    (folder / "readme.txt").write_text("x")
    (folder / "0.npz").mkdir()


# What sets of inputs are: how they are made, the exit code, and what the line says beside the name of the folder.
DATA: dict[str, tuple[Callable[[pathlib.Path], None], int, str]] = {
    "nans": (lambda f: archives(f, X, X, np.where(ONE_COLUMN, np.float32(np.nan), X)), FAULT, "NaN or infinit?"),
    "infs": (lambda f: archives(f, np.where(ONE_COLUMN, np.float32(np.inf), X), X), FAULT, "NaN or infinit?"),
    "nothing": (lambda f: archives(f, X[:0], X[:0]), FAULT, "no elements on any set"),
    "shape": (lambda f: archives(f, X[:, :3]), USAGE, "input 'x': wrong shape"),
    "rank": (lambda f: archives(f, X[None]), USAGE, "input 'x': wrong shape"),
    "type": (lambda f: archives(f, X.astype(np.int32)), USAGE, "input 'x': wrong type"),
    "name": (lambda f: archives(f, X, name="z"), USAGE, "the model has no input 'z'"),
    "empty": (lambda f: f.mkdir(), USAGE, "the folder has no inputs"),
    "missing": (lambda f: None, USAGE, "no such file or folder"),
    "other": (other, USAGE, "the folder has no inputs"),
    "text": (lambda f: archives(f, b"not an archive"), FAULT, "not an .npz archive"),
    "zero": (lambda f: archives(f, b""), FAULT, "not an .npz archive"),
    "torn": (torn, FAULT, "not an .npz archive, or damaged"),
    "objects": (lambda f: archives(f, np.array([{}], dtype=object)), FAULT, "its objects are pickled"),
}

CONVERT = ("convert", "m.onnx", "-o", "out.onnx", "--quiet")
SEARCH = ("search", "m.onnx", "-o", "out.onnx", "--quiet", "-c", "float,a8w8", "--target", "5")
READERS = {
    "int8": (*CONVERT, "--to", "int8", "--calibrate"),
    "int8, minmax": (*CONVERT, "--to", "int8", "--calibration", "minmax", "--calibrate"),
    "fp8": (*CONVERT, "--to", "fp8", "--calibrate"),
    "float16": (*CONVERT, "--to", "float16", "--calibrate"),
    "gptq": (*CONVERT, "--to", "int4-weights", "--rounding", "gptq", "--calibrate"),
    "int8-dynamic": (*CONVERT, "--to", "int8-dynamic", "--calibrate"),
    "equalize": (*CONVERT, "--to", "int8", "--equalize", "data", "--calibrate"),
    "data": (*SEARCH, "--data"),
    "calibration": (*SEARCH, "--data", "good", "--calibrate"),
    "holdout": (*SEARCH, "--data", "good", "--holdout"),
    "probes": (*SEARCH, "--data", "good", "--probe-data"),
}

# What labels are, and what is said of them.
ARRAYS: dict[str, tuple[object, int, str]] = {
    "few": (LABELS[:9], USAGE, "expected 32, got 9"),
    "none": (LABELS[:0], USAGE, "expected 32, got 0"),
    "outside": (LABELS + 9, USAGE, "32 of 32 labels are not classes"),
    "negative": (LABELS - 1, USAGE, "7 of 32 labels are not classes"),
    "floats": (LABELS * 1.5, USAGE, "floats.npy: labels must be integers"),
    "nans": (LABELS * np.nan, USAGE, "nans.npy: labels must be integers"),
    "objects": (np.array([{}], dtype=object), FAULT, "objects.npy: its objects are pickled"),
    "text": (b"hello", FAULT, "text.npy: not a .npy file"),
    "zero": (b"", FAULT, "zero.npy: not a .npy file"),
    "torn": (None, FAULT, "torn.npy: the .npy file's length does not fit its shape"),
    "missing": (None, USAGE, "missing.npy: No such file"),
    "folder": (None, USAGE, "folder.npy: Is a directory"),
}
ACCURACY = ("search", "m.onnx", "-o", "out.onnx", "--quiet", "-c", "float,a8w8", "--metric", "accuracy", "--target", "0",
            "--data", "good", "--labels")

# What a file of text is, and what is said where a policy, a list of kernels, or a journal is expected.
TEXTS = {"text": b"hello\n", "bytes": b"\0\1\2", "list": b"[]\n", "deep": b"[" * 100000, "keys": b'{"a": 1}\n'}
FILES = {
    "policy": ((*CONVERT, "--policy"), ("text", "bytes", "list", "deep", "keys"), USAGE),
    "policy of a search": ((*SEARCH, "--data", "good", "--policy"), ("text", "bytes", "list", "deep", "keys"), USAGE),
    "kernels": ((*SEARCH, "--data", "good", "--supported"), ("text", "bytes", "list", "deep"), USAGE),  # other keys pass
    "journal": ((*SEARCH, "--data", "good", "--journal"), ("text", "bytes", "list", "deep", "keys"), USAGE),
}

SCORES = {"exit 3 #": "failed with exit code 3", "true": "printed no number", "echo nan": "printed no number",
          "echo 1e999": "printed no number", "echo word": "printed no number", "kill -9 $$ #": "was ended by a signal"}
NUMBERS = ("nan", "inf", "1e999", "x", "", "-1", "0")
EVALUATED = ("search", "m.onnx", "-o", "out.onnx", "--quiet", "-c", "float,a8w8", "--data", "good")


def network(folder: pathlib.Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("MatMul", ["b", "v"], ["y"])]
    save(folder / "m.onnx", nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
         [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])], {"w": weight(8, 64), "v": weight(64, 5, seed=2)},
         opset=21)
    archives(folder / "good", *(X + i for i in range(8)))


class Hostile(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        network(self.at)

    def refused(self, code: int, says: str, *words: str) -> None:
        before = sorted(str(path) for path in self.at.rglob("*"))
        self.assertRegex(self.fails(code, *words), says)
        self.assertEqual(sorted(str(path) for path in self.at.rglob("*")), before)

    def test_good(self) -> None:
        """The rows' commands are right."""
        for words in READERS.values():
            self.ok(*words, "good")
        np.save(self.at / "ok.npy", LABELS)
        self.ok(*ACCURACY, "ok.npy")

    def test_data(self) -> None:
        for bad, (make, code, says) in DATA.items():
            make(self.at / bad)
            for reader, words in READERS.items():
                with self.subTest(bad=bad, reader=reader):
                    self.refused(code, f"(?s)(?=.*{says})(?=.*{bad})", *words, bad)

    def test_labels(self) -> None:
        np.save(self.at / "ok.npy", LABELS)
        (self.at / "torn.npy").write_bytes((self.at / "ok.npy").read_bytes()[:-7])
        (self.at / "folder.npy").mkdir()
        for bad, (made, code, says) in ARRAYS.items():
            path = self.at / f"{bad}.npy"
            if isinstance(made, bytes):
                path.write_bytes(made)
            elif made is not None:
                np.save(path, made)
            for words in ((), ("ok.npy", "--holdout", "good", "--holdout-labels")):
                with self.subTest(bad=bad, words=words):
                    self.refused(code, says, *ACCURACY, *words, path.name)

    def test_files(self) -> None:
        for name, text in TEXTS.items():
            (self.at / name).write_bytes(text)
        (self.at / "folder").mkdir()
        for option, (words, bad, code) in FILES.items():
            for name in (*bad, "folder"):
                with self.subTest(option=option, file=name):
                    system = option == "journal" and name == "folder"
                    self.refused(SYSTEM if system else code, f"demi: {name}: ", *words, name)
            if option != "journal":
                self.refused(USAGE, "demi: missing: No such file", *words, "missing")
        self.refused(USAGE, "none/j: cannot open its folder", *FILES["journal"][0], "none/j")

    def test_scores(self) -> None:
        always = ("--eval", "echo 1; #")
        for command, says in SCORES.items():
            for option, words in (("--eval", ("--target", "1")), ("--eval-holdout", ("--target", "1", *always)),
                                  ("--eval-sensitivity", ("--sensitivity", "eval", *always))):
                with self.subTest(option=option, command=command):
                    self.refused(USAGE, f"the command of '{option}' {says}", *EVALUATED, *words, option, command)

    def test_numbers(self) -> None:
        for option in ("--bits", "--max-cost"):
            for number in NUMBERS:
                with self.subTest(option=option, number=number):
                    self.refused(USAGE, "(bits|cost)", *EVALUATED, option, number)
        for option in ("--target", "--drop"):
            for number in NUMBERS[:-2]:
                self.refused(USAGE, f"bad value of option '{option}'", *EVALUATED, option, number)


class Distributed(unittest.TestCase):
    """The same from Python, where other processes read the data: DemiError names the file."""

    def setUp(self) -> None:
        self.at = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.at)
        network(self.at)
        self.model = str(self.at / "m.onnx")

    def test_data(self) -> None:
        how = {"workers": 1, "over": "processes", "threads": 1}
        calls = {
            "convert": lambda data: distributed.convert(self.model, str(self.at / "out.onnx"), to="int8", calibrate=data, **how),
            "calibrate": lambda data: distributed.calibrate(self.model, data, **how),
            "search": lambda data: distributed.search(self.model, data=data, candidates=["float", "a8w8"], target=5, **how),
            "map": lambda data: list(distributed.map(self.model, data, **how)),
        }
        for bad in ("nans", "shape", "missing", "torn"):
            make, _, says = DATA[bad]
            make(self.at / bad)
            for name, call in calls.items():
                if (name, bad) == ("map", "nans"):
                    continue  # runs what it gets
                with self.subTest(call=name, bad=bad), self.assertRaisesRegex(demi.DemiError, f"(?s){bad}") as caught:
                    call(str(self.at / bad))
                if name != "map":
                    self.assertRegex(str(caught.exception), says)
        self.assertEqual(sorted(os.listdir(self.at)), ["good", "m.onnx", "nans", "shape", "torn"])


if __name__ == "__main__":
    run_cases()
