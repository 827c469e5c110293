# SPDX-License-Identifier: Apache-2.0
"""What plans need at most while they run: in float16 and bfloat16 no more than in float.

Networks of suite/made_models.py at their sizes (transformers of two layers), compiled to plans,
each run in a process of its own; compared is the most memory that the process had, mapped weights
included. The table goes to stdout.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

from suite import made_models

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {"resnet50": {}, "mobilenetv2": {}, "bert": {"layers": 2}, "detector": {}}


def demi(program: str, *words: object) -> str:
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"memory_test: {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def most(program: str, plan: pathlib.Path, inputs: list[object]) -> int:
    """Bytes of the process that runs the plan."""
    text = demi(program, "bench", plan, "--runs", 2, "--warmup", 1, "--threads", 1, "--json", "-",
                *inputs)
    return json.loads(text)["peak_rss_bytes"]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, failed = options.parse_args(), 0
    for name, sizes in MODELS.items():
        with tempfile.TemporaryDirectory() as text:
            folder, found, inputs = pathlib.Path(text), {}, []
            model = made_models.MODELS[name](**sizes)
            onnx.save(model, folder / "float.onnx")
            for value, array in made_models.feeds_of(model).items():
                np.save(folder / f"{value}.npy", array)
                inputs += ["--input", f"{value}={folder / value}.npy"]
            for to in ("float", "float16", "bfloat16"):
                source, plan = folder / f"{to}.onnx", folder / f"{to}.plan"
                if to != "float":
                    demi(args.demi, "convert", folder / "float.onnx", "-o", source, "--to", to,
                         "-q")
                demi(args.demi, "compile", source, "-o", plan)
                found[to] = most(args.demi, plan, inputs)
        bad = [to for to in found if found[to] > found["float"]]
        failed += bool(bad)
        line = "  ".join(f"{to} {size / 1e6:.0f}" for to, size in found.items())
        print(f"{'FAIL' if bad else 'ok  '} {name:12} {line} MB", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
