# SPDX-License-Identifier: Apache-2.0
"""The command under mpirun: the same bytes for any number of processes, one message where something is wrong, and nothing
left behind.

usage: ranks_test.py --demi DEMI [--ranks 3] [unittest arguments]
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import numpy as np
import onnx

from search_test import network
from suite import command_case
from suite.command_case import Case

MPIRUN = shutil.which("mpirun")
SETS = 21
RANKS = [3]  # numbers of processes
OWN = {"ASAN_OPTIONS": "detect_leaks=0",  # Open MPI's
       "HWLOC_HIDE_ERRORS": "2"}  # it says where there is no /sys


@unittest.skipUnless(MPIRUN, "no mpirun")
class Ranks(Case):
    def setUp(self) -> None:
        super().setUp()
        self.net = self.path("net.onnx")
        onnx.save(network(batch="n"), self.net)
        self.data = self.path("data")
        os.mkdir(self.data)
        random = np.random.default_rng(5)
        for i in range(SETS):  # each on a scale of its own, so that sums depend on their order
            array = random.standard_normal((3, 3, 12, 12)) * random.uniform(0.2, 3)
            np.savez(f"{self.data}/s{i}.npz", x=array.astype(np.float32))

    def command(self, ranks: int, *words: str) -> list[str]:
        return [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), self.demi, *words, "--threads", "1",
                "--color", "never"]  # mpirun's standard output is a terminal

    def ranks(self, ranks: int, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(ranks, *words), capture_output=True, text=True, timeout=300, check=False,
                              cwd=self.folder, env=os.environ | OWN)

    def wrong(self, done: subprocess.CompletedProcess, code: int, what: str) -> None:
        """One line of demi's, beside mpirun's own."""
        said = [line for line in done.stderr.splitlines() if line.startswith("demi: ")]
        self.assertEqual((done.returncode, len(said)), (code, 1), done.stderr)
        self.assertIn(what, said[0])
        self.assertEqual(done.stdout, "")

    def same(self, *words: str, out: str = "out.onnx") -> str:
        """The same bytes and words for any number of processes, one without mpirun among them."""
        said = self.ok(*words, "-o", "alone.onnx", "--threads", "1").replace("alone", "out")
        made = pathlib.Path(self.path("alone.onnx")).read_bytes()
        for ranks in RANKS:
            done = self.ranks(ranks, *words, "-o", out)
            self.assertEqual((done.returncode, done.stderr), (0, ""), ranks)
            self.assertEqual(pathlib.Path(self.path(out)).read_bytes(), made, ranks)
            self.assertEqual(self.words(done.stdout), self.words(said), ranks)
        return said

    @staticmethod
    def words(text: str) -> list[str]:
        """Without seconds."""
        return [line for line in text.splitlines() if " s" not in line or "set" in line]

    def test_calibration(self) -> None:
        self.same("convert", self.net, "--to", "int8", "--calibrate", self.data, "--verify", self.data)

    def test_weights_are_rounded(self) -> None:
        said = self.same("convert", self.net, "--to", "int4-weights", "--calibrate", self.data)
        self.assertIn(f"by GPTQ on {SETS} sets", said)

    def test_nodes_are_kept(self) -> None:
        self.same("convert", self.net, "--to", "bfloat16", "--verify", self.data, "--max-error", "2e-3")

    def test_random_sizes(self) -> None:
        """Sizes of other processes' sets are said, too."""
        said = self.same("convert", self.net, "--verify", "random", "--sets", "5")
        self.assertIn("sizes assumed", said)

    def test_policy(self) -> None:
        words = ("convert", self.net, "--to", "int8", "--calibrate", self.data, "--print-policy")
        self.assertEqual(self.ranks(3, *words).stdout, self.ok(*words))

    def test_search(self) -> None:
        folders = {}
        for ranks in (1, *RANKS):
            done = self.ranks(ranks, "search", self.net, "--data", self.data, "-c", "float,a16w16,a8w8", "--target",
                              "30", "--journal", self.path(f"journal{ranks}"), "--output-dir",
                              self.path(f"folder{ranks}"), "--quiet")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), ranks)
            folders[ranks] = {path.name: path.read_bytes() for path in self.folder.glob(f"folder{ranks}/*")
                              if path.name not in ("result.json", "report.html")}  # which have seconds
            folders[ranks]["journal"] = pathlib.Path(self.path(f"journal{ranks}")).read_bytes()
            self.assertGreater(len(folders[ranks]), 5)
        for ranks in RANKS:
            self.assertEqual(folders[1], folders[ranks], ranks)

    def test_wrong_words(self) -> None:
        self.wrong(self.ranks(3, "convert", self.net, "-o", "out.onnx", "--calibrate", "nowhere"), 2, "no such file")
        self.wrong(self.ranks(3, "convert", self.net, "--calibrate", self.data), 2, "an output")
        self.wrong(self.ranks(2, "search", self.net, "--data", self.data, "--tarjet", "3"), 2, "tarjet")
        self.wrong(self.ranks(2, "search", self.net, "--data", self.data, "--journal", "/"), 3, "")
        self.assertFalse(os.path.exists(self.path("out.onnx")))

    def test_bad_set(self) -> None:
        """Which one process has: not a number, or not an array."""
        before = sorted(os.listdir(self.folder))
        bad = f"{self.data}/s{SETS - 1}.npz"
        np.savez(bad, x=np.full((3, 3, 12, 12), np.nan, np.float32))
        words = ("convert", self.net, "-o", "out.onnx", "--to", "int4-weights", "--calibrate", self.data)
        for ranks in RANKS:
            self.wrong(self.ranks(ranks, *words), 1, "has NaN or infinite numbers")
        self.wrong(self.ranks(3, "search", self.net, "--data", self.data, "--target", "30", "-o", "out.onnx"), 1,
                   "all NaN or infinite")
        pathlib.Path(bad).write_bytes(b"PK\3\4 torn")
        for ranks in RANKS:
            self.wrong(self.ranks(ranks, *words), 1, os.path.basename(bad))
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_set_is_missing(self) -> None:
        """In the folder that one process sees: another one's of that name."""
        os.mkdir(self.path("there"))
        shutil.copytree(self.data, self.path("there/data"))
        os.remove(self.path("there/data/s3.npz"))
        program = self.write("program.sh", f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && cd there\n'
                                           f'exec {self.demi} "$@"\n')
        os.chmod(program, 0o755)
        done = subprocess.run([MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", "3", program, "convert", self.net,
                               "-o", "out.onnx", "--to", "int8", "--calibrate", "data"],
                              capture_output=True, text=True, timeout=300, check=False, cwd=self.folder,
                              env=os.environ | OWN)
        self.wrong(done, 2, "process 1 found other sets of inputs than process 0")
        self.assertIn("expected 21, got 20", done.stderr)

    def test_killed(self) -> None:
        """All end, and after the next conversion nothing is left but what was there and its result.

        Open MPI sends SIGTERM to those that remain, and SIGKILL once the first of them has ended, which may be before
        another one could remove its temporary file.
        """
        before = sorted(os.listdir(self.folder))
        command = self.command(3, "convert", self.net, "-o", "out.onnx", "--to", "int8", "--calibrate", "random",
                               "--dim", "n=64", "--sets", "9999")
        for number in (signal.SIGKILL, signal.SIGTERM):
            with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=os.environ | OWN) as process:
                children = self.children(process.pid, 3)
                time.sleep(0.5)
                os.kill(children[1], number)
                process.communicate(timeout=60)
            self.assertNotEqual(process.returncode, 0)
            self.gone(children)
            self.assertFalse(os.path.exists(self.path("out.onnx")))
            self.ok("convert", self.net, "-o", "out.onnx", "--to", "float16")
            os.remove(self.path("out.onnx"))
            self.assertEqual(sorted(os.listdir(self.folder)), before)

    def gone(self, children: list[int]) -> None:
        for _ in range(100):
            left = [child for child in children if os.path.exists(f"/proc/{child}")]
            if not left:
                return
            time.sleep(0.1)
        self.fail(left)

    def children(self, parent: int, count: int) -> list[int]:
        for _ in range(600):
            found = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            if len(found) == count:
                return [int(child) for child in found]
            time.sleep(0.1)
        raise AssertionError("mpirun has not started its processes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--ranks", default="3")
    given, sys.argv[1:] = parser.parse_known_args()
    RANKS = [int(number) for number in given.ranks.split(",")]
    command_case.main(__doc__)
