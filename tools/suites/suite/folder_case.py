# SPDX-License-Identifier: Apache-2.0
"""Test cases that run the command in an empty folder of their own, and may hear its remarks: the
stricter ones, with a model there, are command_case's."""

import pathlib
import subprocess
import tempfile
import unittest


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
