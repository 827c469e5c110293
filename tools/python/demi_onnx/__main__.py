# SPDX-License-Identifier: Apache-2.0
"""`python -m demi_onnx …` runs the command demi, which is installed with the package."""

import os
import shutil
import sys
import sysconfig


def main() -> None:
    beside = os.path.join(sysconfig.get_path("scripts"), "demi")
    command = beside if os.path.exists(beside) else shutil.which("demi")
    if not command:
        sys.exit("demi_onnx: the command demi is not installed")
    os.execv(command, ["demi", *sys.argv[1:]])


main()
