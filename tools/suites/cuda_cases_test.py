# SPDX-License-Identifier: Apache-2.0
"""Runs random models of an operator or two on a CUDA device and on the processor (suite/cuda_cases.py).

The plan is the same but for where it runs; outputs are equal but for a rounding of their type, and half a
unit of the largest value on the way for each rounding that one side does and the other does not
(Case.between): what follows may make values smaller, but not their errors larger. A
second and a third run, from a recording, give the same bits, and a fourth on other inputs what the
processor gives. On the fake device (tools/fake_cuda, named in LD_LIBRARY_PATH) some cases run once more without the libraries, so that demi's own kernels
compute products and convolutions; the processes end with what was not given back, and together they
have to launch each kernel of kernels/cuda.

    tools/suites/cuda_cases_test.py --libdemi build/release/libdemi.so --seeds 1:2000
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from concurrent import futures

import ml_dtypes
import numpy as np
import onnx

from suite import cuda_case, cuda_cases, metric
from suite.package import demi, library_option
from suite.runtime import PlanRunner

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMORY = 1 << 30
AGAIN_SEEDS = 3333  # most that run once more in another way
PRODUCTS = "matmul,gemm,einsum,conv,tiles,network,mixed,recurrent,bits"
# Without a library, and on a device without clusters: what the fake device is told, and whose cases.
AGAIN = ((",fail=cudnnBackendFinalize:0:3000", PRODUCTS), (",fail=cublasLtMatmulAlgoGetHeuristic:0:15", PRODUCTS),
         (",capability=80", "tiles,network,deep,first,few"))


def largest(case: cuda_case.Case) -> float:
    """Of all values on the way, as the model has them."""
    model = case.model()
    ends = {o.name for o in model.graph.output}
    names = [n for node in model.graph.node for n in node.output if n and n not in ends]
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    plan = demi.compile(model, numerics="faithful", keep_values=True)
    made = PlanRunner(plan, memory=MEMORY).run(case.feeds)
    sizes = [np.abs(x.astype(np.float64)) for x in made if metric.is_float(x.dtype)]
    return max((float(np.max(x[np.isfinite(x)], initial=0)) for x in sizes), default=0.0)


def differs(got: np.ndarray, want: np.ndarray, case: cuda_case.Case, on_the_way: float) -> str:
    """Why the two are not the same but for so many roundings; "" where they are."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    if not metric.is_float(want.dtype):
        return "" if np.array_equal(got, want) else f"{np.sum(got != want)} of {want.size} differ"
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "NaN or infinity elsewhere"
    unit = float(ml_dtypes.finfo(want.dtype).eps)
    scale = float(np.max(np.abs(b[finite]), initial=0))
    sums = case.loose * (2.0 ** -20 if want.dtype != np.float64 else 2.0 ** -44)
    coarse = float(ml_dtypes.finfo(case.coarse or want.dtype).eps)
    limit = (1.01 * unit * np.abs(b) + sums * max(scale, case.terms) + 1e-30
             + case.between * (coarse / 2 * on_the_way))
    far = np.zeros(b.shape, bool)
    far[finite] = ~(np.abs(a[finite] - b[finite]) <= limit[finite])
    if not np.any(far):
        return ""
    at = tuple(map(int, np.argwhere(far)[0]))
    return f"{np.sum(far)} of {want.size} differ, first {a[at]:.8g} at {at}, expected {b[at]:.8g}"


def run_case(seed: int) -> tuple[str, str]:
    """What it is of, and what is wrong."""
    name, case = cuda_cases.build(seed)
    if not case.nodes:
        return name, ""
    try:
        plan = demi.compile(case.model(), device="cuda")
        processor = PlanRunner(plan, memory=MEMORY)
        runner = PlanRunner(plan, memory=MEMORY, device="cuda")
        got = [runner.run(case.feeds) for _ in range(3)]
        others = {n: x if n in case.kept else np.roll(x.ravel(), 1).reshape(x.shape)
                  for n, x in case.feeds.items()}
        pairs = list(zip(got[0], processor.run(case.feeds)))
        pairs += zip(runner.run(others), processor.run(others))
        declined = runner.device_counts().declined
    except demi.DemiError as error:
        return name, str(error)
    if declined:
        return name, f"the device leaves {declined} steps to the processor"
    on_the_way = largest(case) if case.between else 0.0
    for i, (y, y0) in enumerate(pairs):
        text = differs(y, y0, case, on_the_way)
        if text:
            return name, f"output {i % len(got[0])}: {text}"
    same = all(a.tobytes() == b.tobytes() for other in got[1:] for a, b in zip(other, got[0]))
    return name, "" if same else "another run gives other bits"


def work(seeds: range, makers: str, stop: pathlib.Path | None) -> int:
    """In a process of its own, so that the end is the device's too. `stop` is there when one has failed."""
    failures = 0
    kept = sorted(cuda_cases.KEPT) if not makers and 0 in seeds else []
    for seed in [*seeds, *kept]:
        if makers and cuda_cases.MAKERS[seed % len(cuda_cases.MAKERS)].__name__ not in makers.split(","):
            continue
        if stop and stop.exists():
            break
        name, text = run_case(seed)
        if text:
            failures += 1
            if stop:
                stop.touch()
            print(f"FAIL {name}, seed {seed}: {text}", flush=True)
    return 1 if failures else 0


def kernels() -> set[str]:
    """The names of all, as the build's PTX has them; none without a fake device."""
    folder = next((p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":")
                   if pathlib.Path(p, "libcuda.so.1").exists() and p.endswith("fake_cuda")), None)
    if not folder:
        return set()
    files = pathlib.Path(folder).parent.glob("cuda/*.ptx")
    return {name for f in files for name in re.findall(r"\.visible \.entry (\w+)", f.read_text())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    parser.add_argument("--seeds", default="0:2000", help="FROM:TO, TO not included")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", action="store_true", help="end with the first failure")
    parser.add_argument("--stop", type=pathlib.Path, help="(internal) a file")
    parser.add_argument("--part", help="(internal) N/OF of the seeds")
    parser.add_argument("--makers", default="", help="cases of these alone")
    parser.add_argument("--all-kernels", action="store_true", help="each has to be launched")
    args, start = parser.parse_args(), time.monotonic()
    first, last = map(int, args.seeds.split(":"))
    if args.part:
        number, of = map(int, args.part.split("/"))
        return work(range(first + number, last, of), args.makers, args.stop)
    launched, failed = collections.Counter(), 0
    ways = [("", args.makers)] * args.processes + [(way, makers) for way, makers in AGAIN if kernels() and not args.makers]
    with tempfile.TemporaryDirectory() as folder, futures.ThreadPoolExecutor(args.processes) as pool:

        def run_part(number: int) -> tuple[int, str]:
            (told, makers), log = ways[number], pathlib.Path(folder, str(number))
            few = max(2 * args.processes, (last - first) // AGAIN_SEEDS)
            part = f"0/{few}" if told else f"{number}/{args.processes}"
            stop = ["--stop", pathlib.Path(folder, "stop")] if args.first else []
            done = subprocess.run(
                [sys.executable, "-B", __file__, "--seeds", args.seeds,
                 "--part", part, "--makers", makers, *stop], env=os.environ | {"FAKE_CUDA": f"log={log}{told}"},
                check=False)
            return done.returncode, log.read_text() if log.exists() else ""

        for code, log in pool.map(run_part, range(len(ways))):
            failed += code != 0
            for kind, name, count in (line.rsplit(" ", 2) for line in log.splitlines()):
                launched[name] += int(count) * (kind in ("launched", "captured"))
    missing = sorted(kernels() - {n for n, count in launched.items() if count})
    if missing:
        print(f"{'FAIL' if args.all_kernels else 'note'}: never launched: {', '.join(missing)}")
    print(f"{last - first} cases, {len(kernels()) - len(missing)} kernels; {failed} of {len(ways)} "
          f"processes failed; {time.monotonic() - start:.0f} s")
    return 1 if failed or (missing and args.all_kernels) else 0


if __name__ == "__main__":
    sys.exit(main())
