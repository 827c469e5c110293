# SPDX-License-Identifier: Apache-2.0
"""The command with fail_call.c before the C library: a call that fails, a signal at a counted call, a
clock of its own."""

import os
import pathlib
import shutil
import signal
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "fail_call.c"


def build(folder: pathlib.Path, cc: str = "") -> pathlib.Path:
    """The library, made in this folder."""
    signal.signal(signal.SIGINT, signal.default_int_handler) # both are ignored in a shell's background
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    made = folder / "fail_call.so"
    cc = cc or next(filter(shutil.which, ("cc", "gcc", "clang")))
    subprocess.run([cc, "-shared", "-fPIC", "-O1", "-Wall", "-o", made, SOURCE, "-ldl"], check=True)
    return made


def environment(library: pathlib.Path, **settings: object) -> dict[str, str]:
    """With it, and what the head of fail_call.c lists; a sanitizer's library may come behind it."""
    sanitizer = "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")
    return {**os.environ, "LD_PRELOAD": str(library), "ASAN_OPTIONS": sanitizer,
            **{key: str(value) for key, value in settings.items()}}
