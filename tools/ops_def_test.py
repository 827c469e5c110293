#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regenerates the operator schemas and compares them with rewrite/ops.def byte for byte.

    tools/ops_def_test.py [--allow-missing]

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

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKIPPED = 77


def main():
    if sys.argv[1:] not in ([], ["--allow-missing"]):
        sys.exit(__doc__)
    if importlib.util.find_spec("onnx") is None:
        print("ops_def_test.py: the onnx package is not installed; nothing compared", file=sys.stderr)
        return SKIPPED if sys.argv[1:] else 1
    with tempfile.TemporaryDirectory() as folder:
        # Another hash seed each time: the text must not depend on the order of sets.
        fresh = pathlib.Path(folder) / "ops.def"
        made = subprocess.run([sys.executable, "-R", ROOT / "tools" / "gen_ops.py", fresh])
        if made.returncode:
            return 1
        kept = ROOT / "rewrite" / "ops.def"
        if fresh.read_bytes() == kept.read_bytes():
            print(f"{kept.relative_to(ROOT)}: {kept.stat().st_size} bytes, as generated")
            return 0
        lines = difflib.unified_diff(kept.read_text().splitlines(), fresh.read_text().splitlines(),
                                     "rewrite/ops.def", "regenerated", lineterm="", n=0)
        print("\n".join(itertools.islice(lines, 20)))
        print("rewrite/ops.def is not what tools/gen_ops.py writes")
        return 1


if __name__ == "__main__":
    sys.exit(main())
