# SPDX-License-Identifier: Apache-2.0
"""Test cases that run the command in a folder of their own: what run_test and bench_test share."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
BACKEND = ROOT / "build/data/backend"

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x, int64[M] n) => (float[N,3] y, int64[M] m)
<float[3] w = {1, -2, 0.5}>
{
    ["/mul"] h = Mul (x, w)
    ["/act"] y = Abs (h)
    ["/neg"] m = Neg (n)
}
"""


class Case(unittest.TestCase):
    demi = "demi"

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.model = self.write("model.onnxtxt", MODEL)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, data: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    def npy(self, name: str, array: np.ndarray) -> str:
        np.save(self.path(name), array)
        return self.path(name)

    def pb(self, name: str, message) -> str:  # noqa: ANN001
        return self.write(name, message.SerializeToString())

    def run_demi(self, *words: str, **more: object) -> subprocess.CompletedProcess:
        return subprocess.run([self.demi, *map(str, words)], capture_output=True, timeout=600,
                              cwd=self.folder, text=True, errors="replace", **more)

    def ok(self, *words: str) -> str:
        done = self.run_demi(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def fails(self, code: int, *words: str) -> str:
        """Expects the exit code, one line of error, and no file left behind."""
        before = sorted(os.listdir(self.folder))
        done = self.run_demi(*words)
        lines = done.stderr.splitlines()
        self.assertEqual((done.returncode, len(lines)), (code, 1), done.stderr)
        self.assertTrue(lines[0].startswith("demi: "), lines)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return lines[0]

    def outputs(self, *words: str) -> dict[str, np.ndarray]:
        """Runs with --output-dir and reads NAME.npy."""
        out = self.folder / "outputs"
        shutil.rmtree(out, ignore_errors=True)
        self.ok("run", *words, "--output-dir", str(out))
        return {p.stem: np.load(p) for p in out.glob("*.npy")}


def main(doc: str) -> None:
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    Case.demi = os.path.abspath(args.demi)
    unittest.main(argv=[sys.argv[0], *rest])
