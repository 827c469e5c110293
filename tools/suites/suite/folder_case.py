# SPDX-License-Identifier: Apache-2.0
"""Test cases that run the command in an empty folder of their own, and may hear its remarks, and the
models that they put there: the stricter ones, with a model there, are command_case's."""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper


def weight(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def save(path: pathlib.Path, nodes: list, inputs: list, outputs: list, weights: dict,
         opset: int = 17) -> pathlib.Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(np.asarray(w), n)
                               for n, w in weights.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])
    onnx.save(model, path)
    return path


class FolderCase(unittest.TestCase):
    """`command` is the path of demi: set it before the tests run."""

    command = ""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def demi(self, *words: object) -> subprocess.CompletedProcess:
        return subprocess.run([FolderCase.command, *map(str, words)], cwd=self.at,
                              capture_output=True, text=True, check=False)

    def ok(self, *words: object) -> str:
        done = self.demi(*words)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout

    def fails(self, code: int, *words: object) -> str:
        """The one line that it says."""
        done = self.demi(*words)
        self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr


def run_cases() -> None:
    """The script's cases, with the command that --demi names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--demi", required=True)
    args, rest = parser.parse_known_args()
    FolderCase.command = str(pathlib.Path(args.demi).resolve())
    unittest.main(argv=[sys.argv[0], *rest])
