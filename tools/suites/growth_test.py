# SPDX-License-Identifier: Apache-2.0
"""Cost grows with the work and no faster: models of ten kinds (suite/growing_models.py), at n and 4 n nodes,
through demi's commands and in sessions. Four times the work may take less than six times the processor's
time and less than five times the memory, which leaves room for caches that no longer hold it; a list that
is walked for each node takes sixteen. No bound is in seconds or bytes.

What other processes cost, in caches above all, lasts for more than one measurement: a ratio is that of two
which follow each other, and the least of as many tries as it takes to be within the bound, up to TRIES, and
again with models four times as large. Of commands a cost is all of the process beyond what one needs for a
model of a few nodes; of sessions (demi_onnx) it is that of a run: the first, the second and third with the same
shapes, and the same with new ones. The third run may be no dearer than the first.

The table goes to stdout. --whole takes larger models, at which a list that is walked for each node shows
where it is cheap at first.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

from suite import growing_models

TIME, MEMORY, TRIES = 6, 5, 5
FEW = 24  # nodes of the model that shows what a process needs anyway
LEAST_SECONDS, LEAST_BYTES = .004, 4 << 20  # differences below are noise: they count as this much

COMMANDS = {
    "float16": ["convert", "IN", "-o", "OUT", "--quiet"],
    "bfloat16": ["convert", "IN", "-o", "OUT", "--quiet", "--to", "bfloat16"],
    "int8-weights": ["convert", "IN", "-o", "OUT", "--quiet", "--to", "int8-weights"],
    "int4-weights": ["convert", "IN", "-o", "OUT", "--quiet", "--to", "int4-weights"],
    "simplify": ["simplify", "IN", "-o", "OUT", "--quiet"],
    "check": ["check", "IN"],
    "compile": ["compile", "IN", "-o", "PLAN", "--quiet"],
    "verify": ["convert", "IN", "-o", "OUT", "--quiet", "--verify", "random"],
    "int8": ["convert", "IN", "-o", "OUT", "--quiet", "--to", "int8", "--calibrate", "random"],
}
# Nodes of the smaller model. One that caches hold, beside a larger one that they do not, says little: of
# commands on some kinds it has more.
NODES, WHOLE = {"functions": 4000, "nests": 4000}, 16000
OTHERS = 1500
# A model that the processor's caches hold is cheaper a node than one that they do not: where that comes between
# the two, both are taken four times as large.
TIMES = (1, 4)
PARTS = {"verify": 4, "int8": 8}  # of the nodes, for commands that run the model several times


# In a small process of its own: what a process had before exec counts as its own memory, too.
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))
"""


def cost(command: list[str]) -> tuple[float, int]:
    """Seconds of the processor, and most bytes in memory."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, *command], capture_output=True, text=True,
                          check=True)
    seconds, size, code = done.stdout.split()[-3:]
    if int(code):
        sys.exit(f"growth_test: {' '.join(command)}: exit {code}: {done.stderr}")
    return float(seconds), int(size)


class Growth:
    """What n and 4 n cost, beyond nothing."""

    def __init__(self, measure, nothing: tuple[float, int]) -> None:  # noqa: ANN001
        self.measure, self.nothing = measure, nothing
        self.costs = [[float("inf")] * 2] * 2  # of small and large: the least seconds, the least bytes
        self.ratios = [float("inf")] * 2  # of seconds, of bytes

    def beyond(self, i: int) -> list[float]:
        return [max(least, value - base) for least, value, base
                in zip((LEAST_SECONDS, LEAST_BYTES), self.measure(i), self.nothing, strict=True)]

    def look(self) -> None:
        now = [self.beyond(0), self.beyond(1)]
        self.costs = [list(map(min, least, cost)) for least, cost in zip(self.costs, now, strict=True)]
        self.ratios = [min(ratio, large / small) for ratio, small, large in zip(self.ratios, *now, strict=True)]

    def holds(self) -> bool:
        return self.ratios[0] < TIME and self.ratios[1] < MEMORY


def commands(args: argparse.Namespace, folder: pathlib.Path, kind: str, sizes: list[int]) -> list[str]:
    failures: list[str] = []
    files: dict[int, pathlib.Path] = {}

    def model(n: int) -> str:
        if n not in files:
            files[n] = folder / f"{n}.onnx"
            onnx.save(growing_models.KINDS[kind](n), files[n])
        return str(files[n])
    words = {"OUT": str(folder / "out.onnx"), "PLAN": str(folder / "out.plan")}
    for name, command in COMMANDS.items():
        if name == "int8" and kind in ("functions", "nests"):
            continue  # values of subgraphs are not calibrated

        def run(n: int, command: list[str] = command) -> tuple[float, int]:
            return cost([str(args.demi), *({**words, "IN": model(n)}.get(w, w) for w in command)])
        nothing = run(FEW)
        for times in TIMES:
            nodes = [n * times // PARTS.get(name, 1) for n in sizes]
            growth = Growth(lambda i, run=run, nodes=nodes: run(nodes[i]), nothing)
            for _ in range(TRIES):
                growth.look()
                if growth.holds():
                    break
            if growth.holds():
                break
        small, large = growth.costs
        times, memory = growth.ratios
        print(f"{kind:11} {name:13} {small[0] * 1e3:7.0f} {large[0] * 1e3:7.0f} ms {times:5.1f}   "
              f"{small[1] / 1e6:7.1f} {large[1] / 1e6:7.1f} MB {memory:5.1f}", flush=True)
        if not growth.holds():
            failures.append(f"{kind}: {name} takes {times:.1f} times the time and {memory:.1f} times the memory")
    return failures


RUNS = ("first run", "second", "third", "first of a new shape", "second of it", "third of it")


def session(demi_onnx, model: onnx.ModelProto) -> list[float]:  # noqa: ANN001
    """Seconds of the processor of each of RUNS."""
    runs = demi_onnx.Session(model.SerializeToString(), threads=1)
    times = []
    for rows in (2, 2, 2, 3, 3, 3):
        feeds = {v.name: np.full((rows, growing_models.WIDTH), .5, np.float32) for v in model.graph.input}
        began = time.process_time()
        runs.run(None, feeds)
        times.append(time.process_time() - began)
    return times


def sessions(demi_onnx, kind: str, sizes: list[int]) -> list[str]:  # noqa: ANN001
    models = [growing_models.KINDS[kind](n) for n in sizes]
    least = [[float("inf")] * len(RUNS) for _ in models]
    ratios = least[0]
    wrong: list[str] = []
    for _ in range(2 * TRIES):
        now = [session(demi_onnx, model) for model in models]
        least = [list(map(min, a, b)) for a, b in zip(least, now, strict=True)]
        ratios = [min(ratio, large / max(small, LEAST_SECONDS / 2)) for ratio, small, large
                  in zip(ratios, *now, strict=True)]
        wrong = [f"{kind}: the {name} takes {ratio:.1f} times the time"
                 for name, ratio in zip(RUNS, ratios, strict=True) if ratio >= TIME]
        if least[1][2] > least[1][0]:
            wrong.append(f"{kind}: the third run takes {least[1][2] / least[1][0]:.1f} times the first")
        if not wrong:
            break
    print(f"{kind:11} " + "   ".join(f"{name} {small * 1e3:.1f} {large * 1e3:.1f}" for name, small, large
                                     in zip(RUNS, *least, strict=True)), "ms", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demi", type=pathlib.Path, required=True)
    parser.add_argument("--libdemi", type=pathlib.Path, required=True)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    args = parser.parse_args()
    os.environ["DEMI_LIBRARY"] = str(args.libdemi)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
    import demi_onnx
    failures = []
    for kind in args.kinds or growing_models.KINDS:
        n = WHOLE if args.whole else NODES.get(kind, OTHERS)
        with tempfile.TemporaryDirectory() as folder:
            failures += commands(args, pathlib.Path(folder), kind, [n, 4 * n])
        n = WHOLE if args.whole else OTHERS
        failures += sessions(demi_onnx, kind, [n, 4 * n])
    for failure in failures:
        print("growth_test:", failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
