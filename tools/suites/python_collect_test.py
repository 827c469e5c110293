#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_test with the cycle collector run at every step of the package, so that whatever nobody holds is freed
where it hurts most; and with sessions, bindings and models alive, in cycles, when the interpreter ends. Made for
a library with AddressSanitizer, which ends the process where something is used behind its end.

    DEMI_LIBRARY=build/debug/libdemi.so LD_PRELOAD="libasan.so libubsan.so" \\
        tools/suites/python_collect_test.py [--lines] [unittest's names]

Steps are calls and returns of the package's functions; with --lines every line of theirs.
"""

import gc
import os
import pathlib
import subprocess
import sys
import threading
import types
import unittest

import numpy as np
import python_convert_test
import python_test
from python_test import CONV, DEMI_FOLDER, demi, matmul, unary

LINES = "--lines" in sys.argv
STEPS = [0]


def step(frame: types.FrameType, event: str, _: object):
    """Of the package's own frames; gc.collect within gc.collect does nothing."""
    if not frame.f_code.co_filename.startswith(DEMI_FOLDER):
        return None
    if event in ("call", "return", "line"):
        STEPS[0] += 1
        gc.collect()
    return step


def watch() -> None:
    gc.collect()
    gc.freeze()  # all there is by now is nobody's to free: collections look at what comes later
    for hook in (sys.settrace, threading.settrace) if LINES else (sys.setprofile, threading.setprofile):
        hook(step)


class Ends(unittest.TestCase):
    def test_alive_at_the_end(self) -> None:
        """Of every kind of object one that is alive, in a cycle, when the interpreter ends."""
        done = subprocess.run([sys.executable, __file__, "--end"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "alive\n", ""))


def leave_all_alive() -> None:
    session = demi.Session(CONV, threads=1)
    plan = demi.Session(demi.compile(matmul(8).SerializeToString()), threads=1)  # whose bytes are borrowed
    plan.run(None, {"x": np.ones((1, 8), np.float32)})
    binding, stateful = plan.io_binding(), demi.Session(unary("Relu")).stateful({"y": "x"})
    binding.bind_input("x", np.ones((1, 8), np.float32))
    binding.bind_output("y", np.empty((1, 8), np.float32))
    plan.run_with_iobinding(binding)
    binding.start()
    large = demi.Session(unary("Neg")).run(None, {"x": np.ones((1 << 16, 4), np.float32)})
    kept = types.SimpleNamespace(all=[session, plan, binding, stateful, large, demi.describe(CONV)])
    for thing in (session, plan, binding, stateful, stateful._runner, plan._plan, plan._free[0], session._free[0]):
        thing.itself = kept
    kept.itself = kept
    sys.modules["kept_alive"] = kept  # type: ignore[assignment]
    threading.kept_alive = kept  # type: ignore[attr-defined]
    print("alive", flush=True)


if __name__ == "__main__":
    if "--end" in sys.argv:
        leave_all_alive()
        sys.exit(0)
    words = [word for word in sys.argv[1:] if word != "--lines"]
    loader, suite = unittest.TestLoader(), unittest.TestSuite()
    suite.addTests(loader.loadTestsFromTestCase(Ends))
    for module in [python_test] if words else [python_test, python_convert_test]:
        suite.addTests(loader.loadTestsFromNames(words, module) if words else loader.loadTestsFromModule(module))
    assert os.environ and pathlib
    watch()
    result = unittest.TextTestRunner().run(suite)
    for unhook in (sys.settrace, sys.setprofile, threading.settrace, threading.setprofile):
        unhook(None)
    print(f"python_collect_test: collected at {STEPS[0]} steps")
    sys.exit(0 if result.wasSuccessful() and STEPS[0] > 100 else 1)
