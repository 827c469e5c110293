# SPDX-License-Identifier: Apache-2.0
"""A process of its own for each runtime, model and number of threads that bench_runtime measures.

Commands and answers are lines of JSON: {"samples": n, "repeat": k} times n samples of k runs each,
on inputs that are bound once; "outputs" saves what the last run gave; "memory" says how much larger
the process has been than before it loaded the runtime and the model.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMORY = 8 << 30


class DemiWorker:
    def __init__(self, args: dict, feeds: dict[str, np.ndarray]) -> None:
        sys.path.insert(0, str(ROOT / "tools/suites"))
        os.environ["DEMI_LIBRARY"] = args["library"]
        self.start = resident("VmRSS")
        from suite.runtime import PlanRunner
        self.runner = PlanRunner(pathlib.Path(args["file"]), args["threads"], MEMORY)
        self.runner.bind(feeds)
        self.step, self.cuts = self.runner.step, []
        if args["carry"]:
            self.carry(feeds)

    def carry(self, feeds: dict[str, np.ndarray]) -> None:
        """Each `present` becomes its `past`, cut to what that was at first."""
        for arg in self.runner.outputs:
            name = arg.name
            source = name.replace("present", "past", 1)
            if source == name or source not in feeds:
                continue
            self.runner.carry(name, source)
            self.cuts += [(source, axis, length)
                          for axis, length in enumerate(feeds[source].shape)
                          if arg.shape[axis] != length]

        def step() -> None:
            self.runner.step()
            self.rewind()

        self.step = step

    def rewind(self) -> None:
        for cut in self.cuts:
            self.runner.cut(*cut)

    def outputs(self) -> list[np.ndarray]:
        found = self.runner.run({})
        self.rewind()
        return found


class OrtWorker:
    def __init__(self, args: dict, feeds: dict[str, np.ndarray]) -> None:
        self.start = resident("VmRSS")
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = args["threads"], 1
        options.log_severity_level = 4
        self.session = ort.InferenceSession(args["file"], options, ["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        for name, value in feeds.items():
            self.binding.bind_cpu_input(name, value)
        for value in self.session.get_outputs():
            self.binding.bind_output(value.name)
        self.step = lambda: self.session.run_with_iobinding(self.binding)

    def outputs(self) -> list[np.ndarray]:
        return self.binding.copy_outputs_to_cpu()


def resident(which: str) -> int:
    """Bytes in memory, now (VmRSS) or at most so far (VmHWM)."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(rf"{which}:\s*(\d+)", status)[1]) << 10


def samples(step, count: int, repeat: int) -> dict[str, list[float]]:  # noqa: ANN001
    """Seconds a run: on the clock, and of all threads together."""
    step()
    wall, cpu = [], []
    for _ in range(count):
        start, used = time.perf_counter(), time.process_time()
        for _ in range(repeat):
            step()
        cpu.append((time.process_time() - used) / repeat)
        wall.append((time.perf_counter() - start) / repeat)
    return {"wall": wall, "cpu": cpu}


def work(args: dict) -> None:
    with np.load(args["feeds"]) as file:
        feeds = {name: file[name] for name in file.files}
    worker = (OrtWorker if args["runtime"] == "onnxruntime" else DemiWorker)(args, feeds)
    worker.step()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command, answer = json.loads(line), None
        if command == "outputs":
            found = worker.outputs()
            for i, array in enumerate(found):
                np.save(f"{args['outputs']}.{i}.npy", array)
            answer = len(found)
        elif command == "memory":
            answer = resident("VmHWM") - worker.start
        else:
            answer = samples(worker.step, command["samples"], command["repeat"])
        print(json.dumps(answer), flush=True)


class Runner:
    """A worker's process."""

    def __init__(self, **args: object) -> None:
        self.args = args
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, json.dumps(args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self) -> object:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.args['runtime']} fails on {self.args['file']}")
        return json.loads(line)

    def ask(self, command: object) -> object:
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def outputs(self) -> list[np.ndarray]:
        names = [f"{self.args['outputs']}.{i}.npy" for i in range(self.ask("outputs"))]
        found = [np.load(name) for name in names]
        for name in names:
            pathlib.Path(name).unlink()
        return found

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    work(json.loads(sys.argv[1]))
