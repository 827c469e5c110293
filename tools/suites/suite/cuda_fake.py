# SPDX-License-Identifier: Apache-2.0
"""What tests of the fake device (tools/fake_cuda) share: small networks, processes of their own, and options."""

import argparse
import collections
import ctypes
import gc
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest
from collections.abc import Callable

import numpy as np
import numpy.testing  # noqa: F401  numpy loads it late, which would be in each child
import onnx
from onnx import parser as onnx_parser

from suite.package import library_option

ROOT = pathlib.Path(__file__).resolve().parents[3]
FAKE = "fake CUDA"
args = argparse.Namespace()

# Products, of a constant and not, convolutions of both kinds, what follows them, steps of the processor in the midst, one of
# which reads an input.
SMALL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,8,9,9] x, float[1,9] z) => (float[1,9] y, float[9] sums)
{
    c = Conv <pads = [1, 1, 1, 1]> (x, w)
    d = Relu (c)
    e = Conv <pads = [1, 1, 1, 1], group = 8> (d, dw)
    f = HardSwish (e)
    p = GlobalAveragePool (f)
    r = Flatten (p)
    m = MatMul (r, b)
    n = Add (m, z)
    o = Transpose (n)
    q = MatMul (n, o)
    v = Add (n, q)
    y = Softmax (v)
    s = Squeeze (y)
    l = MeanVarianceNormalization <axes = [1]> (z)
    t = Squeeze (l)
    u = Add (s, t)
    sums = MeanVarianceNormalization <axes = [0]> (u)
}
"""
# The same without the processor: it is recorded.
WHOLE = re.sub(r", float\[9\] sums\)", ")", SMALL).split("    s = Squeeze")[0] + "}\n"
# And with a step whose operands the device does not take.
LARGE_HEADS = WHOLE.replace('"" : 21', '"" : 24').replace("y = Softmax (v)", """
    often = Constant <value = int64[2] {1, 30}> () heads = Constant <value = int64[4] {1, 1, 1, 270}> ()
    t = Tile (v, often) k = Reshape (t, heads) a = Attention (k, k, k)
    flat = Flatten (a) y = Softmax (flat)""").replace("float[1,9] y", "float[1,270] y")


def small_model(text: str) -> bytes:
    model, rng = onnx_parser.parse_model(text), np.random.default_rng(3)
    for name, shape in (("w", (8, 8, 3, 3)), ("dw", (8, 1, 3, 3)), ("b", (8, 9))):
        array = (rng.standard_normal(shape) * 0.3).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model.SerializeToString()


class Child:
    """What a child process did with a plan on the device."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.errors, self.log = folder, folder / "errors", folder / "log"

    def run(self, work: Callable[[], int], fails: str = "", more: str = "") -> tuple[int, str]:
        """Its exit code, and what it said; it ends as programs do, with what libraries do then. `more`: words of
        FAKE_CUDA."""
        self.log.unlink(missing_ok=True)
        gc.freeze()  # collecting would have the child copy what it shares with this process
        child = os.fork()
        if child == 0:
            code = 70
            gc.disable()
            try:
                with self.errors.open("wb") as errors:
                    os.dup2(errors.fileno(), 2)
                os.environ["FAKE_CUDA"] = f"log={self.log}{',fail=' * bool(fails)}{fails},{more}"
                code = work()
            except BaseException as error:  # noqa: BLE001
                os.write(2, f"{type(error).__name__}: {error}".encode())
            ctypes.CDLL(None).exit(code)
        status = os.waitpid(child, 0)[1]
        return os.waitstatus_to_exitcode(status), self.errors.read_text(errors="replace")

    def read_ahead(self) -> None:
        """Has the kernels that the last run launched in this process, for those that are forked off it."""
        try:
            driver = ctypes.CDLL("libcuda.so.1")
            for kind, name in self.counts():
                if kind in ("launched", "captured"):
                    driver.fake_read_ahead(name.encode())
        except (OSError, AttributeError):  # the one that there is
            return

    def counts(self) -> collections.Counter:
        made = collections.Counter()
        for line in self.log.read_text().splitlines():
            kind, name, count = line.rsplit(" ", 2)
            made[kind, name] = int(count)
        return made


class OnDevice(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.child = Child(self.folder)
        self.counted = self.folder / "counted"

    def tearDown(self) -> None:
        shutil.rmtree(self.folder)


def feeds_for(model: bytes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    return {i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim])
            .astype(np.float32) for i in onnx.load_from_string(model).graph.input}


def main(says: str) -> None:
    parser = argparse.ArgumentParser(description=says.splitlines()[0], parents=[library_option])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--dnn-plans", help="the program of that name")
    parser.add_argument("--full", action="store_true", help="networks of their own sizes")
    parser.add_argument("--verbose", action="store_true", help="say what was counted")
    parser.add_argument("--every", action="store_true",
                        help="each call of driver and libraries fails, not just the first and last of each site")
    parser.parse_known_args(namespace=args)
    rest = parser.parse_known_args()[1]
    unittest.main(argv=[sys.argv[0], *rest])
