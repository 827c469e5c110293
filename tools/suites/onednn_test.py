# SPDX-License-Identifier: Apache-2.0
"""Tests of how demi finds oneDNN, from outside: the real library, and made ones that are unusable.

What is unusable costs one line where the user asked for oneDNN, nothing otherwise, and never a
result. Commands that run no plan must not load it: a made library leaves a file behind when loaded.

usage: onednn_test.py --demi DEMI --cc CC [unittest arguments]
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMI, CC = "demi", "cc"
WITHOUT = "demi was built without oneDNN"

FAKE = """
#include <stdio.h>
typedef struct Version { int major, minor, patch; const char *hash; unsigned cpu, gpu; } Version;
const Version *dnnl_version(void);
int dnnl_engine_create(void **engine, int kind, unsigned long index);
const Version *dnnl_version(void) {
    static const Version version = {MAJOR, MINOR, 0, "", CPU, 0};
    return &version;
}
int dnnl_engine_create(void **engine, int kind, unsigned long index) {
    (void)kind, (void)index;
    *engine = 0;
    return 3;
}
__attribute__((constructor)) static void loaded(void) {
    FILE *file = fopen(TRACE, "w");
    if (file) fclose(file);
}
"""
SEQUENTIAL, TBB, SYCL = 1, 4, 512


def conv_model(dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    weights = np.random.default_rng(0).standard_normal((32, 16, 3, 3)).astype(np.float32)
    kept = numpy_helper.from_array(weights.astype(helper.tensor_dtype_to_np_dtype(dtype)), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])], "g",
        [helper.make_tensor_value_info("x", dtype, [1, 16, 30, 30])],
        [helper.make_tensor_value_info("y", dtype, [1, 32, 30, 30])], [kept])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 22)])


class OnednnTest(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.model = str(self.folder / "conv.onnx")
        onnx.save(conv_model(), self.model)
        self.trace = self.folder / "loaded"

    def demi(self, *words: str, library: pathlib.Path | None = None) -> subprocess.CompletedProcess:
        env = dict(os.environ)
        if library:
            env["LD_LIBRARY_PATH"] = str(library)
        done = subprocess.run([DEMI, *words], capture_output=True, text=True, env=env, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def fake(self, major: int = 3, minor: int = 2, cpu: int = SEQUENTIAL,
             missing: str = "") -> pathlib.Path:
        """The folder of a libdnnl.so.3 of that version and build, which gives no engine."""
        folder = self.folder / "fake"
        folder.mkdir()
        header = (ROOT / "kernels/cpu/onednn/onednn_load.h").read_text()
        names = set(re.findall(r"\bX\((\w+)\)", header)) - {"version", "engine_create", missing}
        self.assertGreater(len(names), 20)
        stubs = "".join(f"int dnnl_{n}(void);\nint dnnl_{n}(void) {{ return 1; }}\n"
                        for n in sorted(names))
        source = self.folder / "fake.c"
        source.write_text(FAKE + stubs)
        subprocess.run([CC, "-shared", "-fPIC", "-o", folder / "libdnnl.so.3", source,
                        f"-DMAJOR={major}", f"-DMINOR={minor}", f"-DCPU={cpu}",
                        f'-DTRACE="{self.trace}"'], check=True)
        return folder

    def outputs(self, *words: str, library: pathlib.Path | None = None) -> tuple[np.ndarray, str]:
        out = self.folder / "out"
        done = self.demi("run", self.model, "--random", "1", "--output-dir", str(out), *words,
                         library=library)
        return np.load(out / "y.npy"), done.stderr

    def check_falls_back(self, library: pathlib.Path, reason: str) -> None:
        own, quiet = self.outputs("--kernels", "own")
        self.assertEqual(quiet, "")
        got, said = self.outputs("--kernels", "onednn", library=library)
        self.assertRegex(said, rf"^demi: cannot use oneDNN, running demi's own kernels instead: {reason}\n$")
        np.testing.assert_array_equal(got, own)
        got, said = self.outputs(library=library)
        self.assertEqual(said, "")
        np.testing.assert_array_equal(got, own)

    def test_too_old(self) -> None:
        self.check_falls_back(self.fake(3, 1), r"oneDNN is version 3\.1\.0; demi needs 3\.2 .*")

    def test_another_interface(self) -> None:
        self.check_falls_back(self.fake(4, 0), r"oneDNN is version 4\.0\.0; demi needs 3\.2 .*")

    def test_other_builds(self) -> None:
        self.check_falls_back(self.fake(cpu=SYCL), r"oneDNN 3\.2\.0 was built for SYCL; .*OpenMP")

    def test_no_engine(self) -> None:
        self.check_falls_back(self.fake(), r"oneDNN 3\.2\.0 cannot create a CPU engine \(status 3\)")

    def test_a_function_missing(self) -> None:
        self.check_falls_back(self.fake(missing="primitive_execute"),
                              r"libdnnl\.so\.3 has no dnnl_primitive_execute")

    def test_no_library(self) -> None:
        folder = self.folder / "broken"
        folder.mkdir()
        (folder / "libdnnl.so.3").write_text("no library at all")
        self.check_falls_back(folder, r".*libdnnl\.so\.3.*")

    def test_who_loads_it(self) -> None:
        fake = self.fake()
        bf16 = str(self.folder / "bf16.onnx")
        relu = str(self.folder / "relu.onnxtxt")
        pathlib.Path(relu).write_text(
            '<ir_version: 8, opset_import: ["" : 17]> '
            'g (float[4] x) => (float[4] y) { y = Relu (x) }')
        plan = str(self.folder / "conv.plan")
        for words in (["convert", self.model, "-o", bf16, "--to", "bfloat16"],
                      ["compile", self.model, "-o", plan], ["show", plan], ["check", self.model],
                      ["run", self.model, "--random", "1", "--kernels", "own"],
                      ["run", self.model, "--random", "1"], # own kernels are as fast
                      ["run", relu, "--random", "1"], ["--version"]):
            self.demi(*words, library=fake)
            self.assertFalse(self.trace.exists(), words)
        native = "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
        for words, loads in ((["run", self.model, "--kernels", "onednn"], True),
                             (["run", bf16], native)):
            self.demi(*words, "--random", "1", library=fake)
            self.assertEqual(self.trace.exists(), loads, words)
            self.trace.unlink(missing_ok=True)

    def kernel(self, *words: str) -> str:
        done = self.demi("bench", self.model, "--runs", "1", "--warmup", "0", "--json", "-", *words)
        return json.loads(done.stdout)["steps"][0]["kernel"]

    def test_choice(self) -> None:
        self.assertEqual(self.kernel("--kernels", "own"), "conv")
        self.assertEqual(self.kernel("--kernels", "onednn"), "onednn_conv")

    def test_numerics(self) -> None:
        onnx.save(conv_model(TensorProto.BFLOAT16), self.model)
        self.assertEqual(self.kernel("--numerics", "faithful", "--kernels", "onednn"), "conv")


class WithoutTest(unittest.TestCase):
    def test_says_so(self) -> None:
        self.assertEqual(onednn_problem(), WITHOUT)


def onednn_problem() -> str:
    """What demi says when asked for oneDNN."""
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/conv.onnx"
        onnx.save(conv_model(), model)
        done = subprocess.run([DEMI, "run", model, "--random", "1", "--kernels", "onednn"],
                              capture_output=True, text=True, check=True)
    return done.stderr.rpartition("kernels instead: ")[2].strip()


def main() -> None:
    global DEMI, CC  # noqa: PLW0603
    parser = argparse.ArgumentParser()
    parser.add_argument("--demi", required=True)
    parser.add_argument("--cc", default="cc")
    args, rest = parser.parse_known_args()
    DEMI, CC = args.demi, args.cc
    case = WithoutTest if onednn_problem() == WITHOUT else OnednnTest
    sys.argv[1:] = rest
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
