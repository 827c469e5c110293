# SPDX-License-Identifier: Apache-2.0
"""The Python package of this tree, as `demi`, with the library that DEMI_LIBRARY names or the release
build's: the way suites call the library in process.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("DEMI_LIBRARY", str(ROOT / "build/release/libdemi.so"))
if str(ROOT / "tools/python") not in sys.path:
    sys.path.insert(0, str(ROOT / "tools/python"))

import demi_onnx as demi  # noqa: E402

__all__ = ["ROOT", "demi"]
