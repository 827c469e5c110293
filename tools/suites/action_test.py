#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The GitHub Action's script, run as a workflow would: what it exits with, annotates and sums up; and that
action.yml gives it what it reads.

    tools/suites/action_test.py [--demi build/release/demi] [unittest's options]
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACTION = ROOT / "tools/packaging/action"
DEMI = ""


class Action(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(ROOT / "testdata/models/conv_net.onnx", self.folder / "model.onnx")
        self.convert("model.onnx", "half.onnx")

    def convert(self, source, out):
        subprocess.run([DEMI, "convert", f"./{source}", "-o", f"./{out}", "--quiet"], check=True,
                       cwd=self.folder)

    def check(self, **given):
        summary = self.folder / "summary.md"
        summary.unlink(missing_ok=True)
        inputs = {"model": "half.onnx", "against": "model.onnx", "command": DEMI} | given
        env = {f"DEMI_{name.upper()}": value for name, value in inputs.items()}
        done = subprocess.run([ACTION / "check"], cwd=self.folder, capture_output=True, text=True,
                              check=False, env={"PATH": os.environ["PATH"],
                                                "GITHUB_STEP_SUMMARY": str(summary)} | env)
        self.assertEqual(done.stderr, "")
        token = re.search(r"^::stop-commands::([0-9a-f]{32})$", done.stdout, re.M)
        heard = done.stdout
        if token:
            before, _, rest = done.stdout.partition(token[0])
            heard = before + rest.split(f"\n::{token[1]}::\n")[1]
        errors = [line for line in heard.splitlines() if line.startswith("::error")]
        return done.returncode, errors, summary.read_text() if summary.exists() else ""

    def test_fine(self):
        code, errors, summary = self.check(max_error="0.01")
        self.assertEqual((code, errors), (0, []))
        self.assertIn("### demi check: passed", summary)
        self.assertIn("0 of 1 outputs beyond 0.01", summary)

    def test_beyond(self):
        code, errors, summary = self.check(max_error="1e-9")
        self.assertEqual(code, 1)
        self.assertRegex(errors[0], r"^::error title=demi check,file=half.onnx::1 of 1 outputs beyond")
        self.assertEqual(len(errors), 1)
        self.assertIn("### demi check: failed", summary)

    def test_wrong(self):
        for given, code, says in (({"model": ""}, 2, "'model' and 'against' are needed"),
                                  ({"against": ""}, 2, "'model' and 'against' are needed"),
                                  ({"model": "none.onnx"}, 2, "none.onnx: no such file"),
                                  ({"max_error": "x"}, 2, "'--max-error'"),
                                  ({"data": "none"}, 2, "none"),
                                  ({"policy": "none"}, 2, "none"),
                                  ({"command": "/none/demi"}, 3, "there is no command '/none/demi'"),
                                  ({"against": "half.onnx", "model": "model.onnx"}, 1, "")):
            with self.subTest(given):
                found, errors, _ = self.check(**given)
                self.assertEqual((found, len(errors)), (code, 1), errors)
                self.assertIn(says, errors[0])

    def test_its_own_command(self):
        """Without one it builds that of its own checkout, and asks no registry of Python packages."""
        checkout, programs = self.folder / "checkout", self.folder / "programs"
        for name in ("tools/packaging/action/check", "tools/setup/setup.sh"):
            (checkout / name).parent.mkdir(parents=True)
            shutil.copy(ROOT / name, checkout / name)
        programs.mkdir()
        stubs = {"cmake": 'case "$*" in --build*) ln -sf "$DEMI_BUILT" build/release/demi ;; esac; echo "$*" >> cmake.log',
                 "dpkg-query": "echo installed", "apt-get": "exit 1", "python3": "exit 1", "pip": "exit 1"}
        for name, does in stubs.items():
            (programs / name).write_text(f"#!/bin/sh\n{does}\n")
            (programs / name).chmod(0o755)
        env = {"PATH": f"{programs}:{os.environ['PATH']}", "DEMI_MODEL": "half.onnx", "DEMI_AGAINST": "model.onnx"}
        for built, code in ((DEMI, 0), ("/none/demi", 3)):
            done = subprocess.run([checkout / "tools/packaging/action/check"], cwd=self.folder, capture_output=True, text=True,
                                  check=False, env=env | {"DEMI_BUILT": built})
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn("--preset release", (checkout / "cmake.log").read_text())

    def test_names_are_no_commands(self):
        name = "-a,b:c%\n::error::d.onnx"
        self.convert("model.onnx", name)
        code, errors, _ = self.check(model=name, max_error="1e-9")
        self.assertEqual(code, 1)
        self.assertTrue(errors[0].startswith("::error title=demi check,file=-a%2Cb%3Ac%25%0A"), errors)
        self.assertEqual(len(errors), 1)

    def test_inputs(self):
        text = (ACTION / "action.yml").read_text()
        given = set(re.findall(r"^        (DEMI_\w+): \$\{\{ inputs\.", text, re.M))
        read = set(re.findall(r"\$\{?(DEMI_\w+)", (ACTION / "check").read_text()))
        self.assertEqual(given, read)
        inputs = set(re.findall(r"^  ([\w-]+):$", text.split("inputs:")[1].split("runs:")[0], re.M))
        self.assertEqual(inputs, set(re.findall(r"\{\{ inputs\.([\w-]+) \}\}", text)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, rest = parser.parse_known_args()
    DEMI = str(pathlib.Path(args.demi).resolve())
    unittest.main(argv=[sys.argv[0], *rest])
