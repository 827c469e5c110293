# SPDX-License-Identifier: Apache-2.0
"""Runs a program with this module in place of onnxruntime: a file, or -m and a module."""

import runpy
import sys

from . import install

if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help") or sys.argv[1:] == ["-m"]:
    sys.exit("usage: python -m demi_onnx.onnxruntime [-m MODULE | PROGRAM.py] [ARGUMENTS]")
install()
if sys.argv[1] == "-m":
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    del sys.argv[:1]
    sys.path.insert(0, str(__import__("pathlib").Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
