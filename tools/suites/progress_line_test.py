# SPDX-License-Identifier: Apache-2.0
"""What commands say of long work on a terminal, while it lasts.

usage: progress_line_test.py DEMI [unittest arguments]
"""
import os
import pty
import signal
import subprocess
import sys
import time
import unittest

import cli_test
from cli_test import DEMI, MODEL

PATIENCE = 1.0  # seconds of a command before it says what it is at


class ProgressLine(cli_test.Case):
    """What a command says of long work on a terminal. The work is a model that does not come: the command reads it
    from a pipe."""

    def setUp(self):
        super().setUp()
        self.pipe, self.out = self.path("pipe.onnxtxt"), self.path("made/out.onnx")
        os.mkdir(self.path("made"))
        os.mkfifo(self.pipe)

    def begin(self, *words):
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.execv(DEMI, [DEMI, *words])
        self.addCleanup(os.close, self.terminal)
        self.writer = os.open(self.pipe, os.O_WRONLY)
        return pid

    def read(self, until=None):
        """What it says, up to that text or to its end."""
        said = b""
        while until is None or until not in said:
            try:
                some = os.read(self.terminal, 4096)
            except OSError:
                some = b""
            if not some:
                break
            said += some
        return said

    def give(self, bytes_=MODEL.encode()):
        os.write(self.writer, bytes_)
        os.close(self.writer)

    @staticmethod
    def code(pid):
        return os.waitpid(pid, 0)[1]

    def test_shows_progress_and_is_erased(self):
        for words in (("convert", self.pipe, "-o", self.out), ("simplify", self.pipe, "-o", self.out),
                      ("compile", self.pipe, "-o", self.path("made/plan")), ("check", self.pipe),
                      ("run", self.pipe, "--random", "1"), ("show", self.pipe), ("diff", self.pipe, self.model),
                      ("bench", self.pipe, "--runs", "2", "--no-peak")):
            with self.subTest(words[0]):
                pid = self.begin(*words)
                said = self.read(b"reading the model")
                self.assertEqual(said, b"\r\x1b[Kreading the model")
                self.give()
                rest = self.read()
                self.assertEqual(self.code(pid), 0, rest)
                last = max(rest.rfind(b"\r\x1b[K"), 0)
                self.assertTrue(rest.startswith(b"\r\x1b[K"), rest)
                self.assertNotIn(b"reading the model", rest[last:])

    def test_silent_where_nobody_looks(self):
        for words in (("--quiet",), ()):
            with self.subTest(words):
                if words:
                    pid = self.begin("convert", self.pipe, "-o", self.out, *words)
                    time.sleep(2 * PATIENCE)
                    self.give()
                    said = self.read()
                    self.assertEqual((self.code(pid), said), (0, b""))
                    continue
                process = subprocess.Popen([DEMI, "convert", self.pipe, "-o", self.out], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
                self.writer = os.open(self.pipe, os.O_WRONLY)
                time.sleep(2 * PATIENCE)
                self.give()
                said, errors = process.communicate()
                self.assertEqual((process.returncode, errors), (0, b""))
                self.assertNotIn(b"\r", said)

    def test_interrupted(self):
        """The line is gone, and so is every file."""
        pid = self.begin("convert", self.pipe, "-o", self.out)
        self.read(b"reading the model")
        os.write(self.terminal, b"\x03")
        rest = self.read()
        self.assertEqual(os.WTERMSIG(self.code(pid)), signal.SIGINT)
        self.assertTrue(rest.endswith(b"\r\x1b[K"), rest)
        os.close(self.writer)
        self.assertEqual(os.listdir(self.path("made")), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
