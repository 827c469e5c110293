#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regenerates the tables made of the operators' definitions and compares them byte for byte.

    tools/suites/ops_def_test.py [--allow-missing]

Exit 0: equal. 1: they differ (the first differing lines are shown), or the onnx package is absent
or of another version. 77, only with --allow-missing: the package is absent, nothing was compared.
"""
import difflib
import importlib.util
import itertools
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
GENERATED = [("tools/gen/gen_ops.py", "rewrite/ops/ops.def"),
             ("tools/gen/gen_kernel_signatures.py", "kernels/kernel_signatures.def")]


def main():
    if sys.argv[1:] not in ([], ["--allow-missing"]):
        sys.exit(__doc__)
    if importlib.util.find_spec("onnx") is None:
        print("ops_def_test.py: the onnx package is not installed; nothing compared",
              file=sys.stderr)
        return SKIPPED if sys.argv[1:] else 1
    same = [is_current(*pair) for pair in GENERATED]
    return 0 if all(same) else 1


def is_current(generator, kept):
    """Does the generator still write the file that is kept?"""
    with tempfile.TemporaryDirectory() as folder:
        # Another hash seed each time: the text must not depend on the order of sets.
        fresh = pathlib.Path(folder) / "fresh.def"
        made = subprocess.run([sys.executable, "-R", ROOT / generator, fresh])
        if made.returncode:
            return False
        if fresh.read_bytes() == (ROOT / kept).read_bytes():
            print(f"{kept}: {fresh.stat().st_size} bytes, as generated")
            return True
        lines = difflib.unified_diff((ROOT / kept).read_text().splitlines(),
                                     fresh.read_text().splitlines(), kept, "regenerated",
                                     lineterm="", n=0)
        print("\n".join(itertools.islice(lines, 20)))
        print(f"{kept} is not what {generator} writes")
        return False


if __name__ == "__main__":
    sys.exit(main())
