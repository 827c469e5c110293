# SPDX-License-Identifier: Apache-2.0
"""Data larger than memory: what the command needs at most does not grow with the number of sets of inputs, and no file stays open.

Sets are many names of a few files, and --memory makes the part of them small that is kept for the next run. A model whose
inputs have another type than the data's is among those that run, as values are converted for it.

usage: large_data_test.py --demi DEMI [unittest arguments]
"""

import os
import resource

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite import command_case
from suite.command_case import Case

SIDE = 384  # of pictures: 1.8 MB each
FEW, MANY = 24, 72


def model() -> onnx.ModelProto:
    random = np.random.default_rng(1)

    def weights(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 9, name)

    nodes = [helper.make_node("Conv", ["x", "w1"], ["c"], strides=[4, 4]),
             helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Conv", ["r", "w2"], ["d"], strides=[4, 4]),
             helper.make_node("GlobalAveragePool", ["d"], ["m"]),
             helper.make_node("Flatten", ["m"], ["f"]),
             helper.make_node("Gemm", ["f", "w3"], ["y"])]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
                              [weights("w1", 8, 3, 4, 4), weights("w2", 8, 8, 4, 4), weights("w3", 8, 5)])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


class LargeData(Case):
    def setUp(self) -> None:
        super().setUp()
        self.net = self.path("net.onnx")
        onnx.save(model(), self.net)
        random = np.random.default_rng(2)
        self.arrays = [random.standard_normal((1, 3, SIDE, SIDE)).astype(np.float32) for _ in range(3)]

    def folder_of(self, count: int, ending: str) -> str:
        """Hard links to three files."""
        folder = self.path(f"{ending}{count}")
        os.mkdir(folder)
        for i in range(count):
            name = f"{folder}/s{i}.{ending}"
            if i < len(self.arrays) and ending == "npz":
                np.savez(name, x=self.arrays[i])
            elif i < len(self.arrays):
                np.save(name, self.arrays[i])
            else:
                os.link(f"{folder}/s{i % len(self.arrays)}.{ending}", name)
        return folder

    def peak(self, *words: str) -> int:
        """The most memory that the command had, in bytes."""
        pid = os.posix_spawn(self.demi, [self.demi, *words, "-o", self.path("out.onnx"), "--quiet", "--threads", "2",
                                         "--memory", "120M"], os.environ)
        _, status, used = os.wait4(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, words)
        return used.ru_maxrss * 1024

    def test_memory_does_not_grow(self) -> None:
        few, many = self.folder_of(FEW, "npz"), self.folder_of(MANY, "npz")
        for words in (("convert", self.net, "--to", "int8", "--calibration", "percentile", "--calibrate"),
                      ("convert", self.net, "--to", "int8-weights", "--calibrate"),
                      ("convert", self.net, "--verify"), ("convert", self.net, "--io", "low", "--verify"),
                      ("search", self.net, "-c", "float,a8w8", "--target", "20", "--evaluations", "4", "--data")):
            least, most = self.peak(*words, few), self.peak(*words, many)
            self.assertLess(most, least + 12 * self.arrays[0].nbytes, words)

    def test_files_are_closed(self) -> None:
        """Many sets that are kept, where few files may be open."""
        folder = self.folder_of(MANY, "npy")
        done = self.run_demi("convert", self.net, "-o", "out.onnx", "--verify", folder,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    command_case.main(__doc__)
