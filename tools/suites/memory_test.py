# SPDX-License-Identifier: Apache-2.0
"""What plans need at most while they run: in float16 and bfloat16 no more than in float, with
--memory small less. Mobile networks are excluded from the latter: what is largest in them is made in
bands of rows (passes/fuse_separable.c), of float or bfloat16, which takes less than 16-bit values
that are whole.

Networks of suite/made_models.py at their sizes (transformers of two layers), compiled to plans,
each run in processes of its own; compared is the most memory that the process had, mapped weights
included. Plans that need the same differ by what any two runs differ by: where one seems to need
more, both are run again, and the least that it took is held against the most that the other did.

Linux counts the pages of a process on each processor and adds them up once there are a batch of
them: max(32, twice the processors), of pages of files and of others (mm/mmap.c and
lib/percpu_counter.c, since 6.2). Two processes whose figures are nearer than that are not known to
differ. The table goes to stdout.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

from suite import made_models

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = 6
CPUS = os.cpu_count() or 1
RESOLUTION = 2 * max(32, 2 * CPUS) * CPUS * os.sysconf("SC_PAGE_SIZE")  # bytes
SMALL = ["--memory", "small"]
IN_BANDS = {"mobilenetv2"}
MODELS = {"resnet50": {}, "mobilenetv2": {}, "bert": {"layers": 2}, "detector": {}}


def demi(program: str, *words: object) -> str:
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"memory_test: {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


class Plan:
    """A plan, and the bytes of each process that ran it."""

    def __init__(self, program: str, path: pathlib.Path, words: list[object]) -> None:
        self.command = (program, "bench", path, "--runs", 2, "--warmup", 1, "--threads", 1,
                        "--json", "-", *words)
        self.peaks: list[int] = []
        self.run()

    def run(self) -> None:
        self.peaks.append(json.loads(demi(*self.command))["peak_rss_bytes"])


def seems_more(plan: Plan, other: Plan) -> bool:
    return min(plan.peaks) > max(other.peaks) + RESOLUTION


def needs_more(plan: Plan, other: Plan) -> bool:
    while seems_more(plan, other) and len(plan.peaks) < RUNS:
        plan.run()
        other.run()
    return seems_more(plan, other)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, failed = options.parse_args(), 0
    for name, sizes in MODELS.items():
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as text:  # on a disk: what is mapped counts
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
                found[to] = Plan(args.demi, plan, inputs)
            plan = folder / "small.plan"
            demi(args.demi, "compile", folder / "float16.onnx", "-o", plan, *SMALL)
            found["small"] = Plan(args.demi, plan, inputs + SMALL)
            bad = [to for to in ("float16", "bfloat16") if needs_more(found[to], found["float"])]
            if name not in IN_BANDS and min(found["float16"].peaks) <= max(found["small"].peaks):
                bad.append("small")
        failed += bool(bad)
        line = "  ".join(f"{to} {min(plan.peaks) / 1e6:.1f}" for to, plan in found.items())
        print(f"{'FAIL' if bad else 'ok  '} {name:12} {line} MB", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
