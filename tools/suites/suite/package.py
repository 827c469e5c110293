# SPDX-License-Identifier: Apache-2.0
"""The Python package of this tree, as `demi`, with the library that `--libdemi PATH` on a script's command line names,
else DEMI_LIBRARY in the environment, else the release build's: the way suites call the library in process.

    from suite.package import demi, session
    made, report = demi.convert(model, to="float16")
    y, = session(made, numerics="faithful").run(None, {"x": x})
"""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
library_option = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # a parent of the scripts' own
library_option.add_argument("--libdemi", help="demi's shared library",
                            default=os.environ.get("DEMI_LIBRARY") or str(ROOT / "build/release/libdemi.so"))
os.environ["DEMI_LIBRARY"] = library_option.parse_known_args()[0].libdemi
if str(ROOT / "tools/python") not in sys.path:
    sys.path.insert(0, str(ROOT / "tools/python"))

import demi_onnx as demi  # noqa: E402

MEMORY = 1 << 30


def session(model: object, threads: int = 1, memory_budget: int = MEMORY, **how: object) -> demi.Session:
    """Of small models: one thread, and memory that no run of theirs should need."""
    return demi.Session(model, threads=threads, memory_budget=memory_budget, **how)


__all__ = ["MEMORY", "ROOT", "demi", "library_option", "session"]
