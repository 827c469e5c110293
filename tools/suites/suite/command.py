# SPDX-License-Identifier: Apache-2.0
"""Runs the `demi` command and reads its reports; the only module here that knows its options."""

import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile

from suite.variants import VARIANTS, Variant

TIMEOUT_S = 600
MEMORY_BYTES = 2 << 30  # free memory that makes a folder in it worthwhile


@dataclasses.dataclass
class Run:
    """What one process did."""

    code: int
    stderr: str
    report: dict | None = None

    def problem(self) -> str:
        first = self.stderr.strip().splitlines()
        return f"exit {self.code}: {first[0] if first else 'nothing on stderr'}"


def work_folder() -> pathlib.Path:
    """A new folder for outputs, in memory where there is room for them (outputs are fsynced)."""
    memory = "/dev/shm"
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_BYTES
    place = memory if roomy else None
    return pathlib.Path(tempfile.mkdtemp(prefix="demi-suite-", dir=place))


def processor_seconds() -> float:
    """Of the commands that have ended: what a busy machine does not change."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Demi:
    """The command under test; outputs go to a scratch folder of this process."""

    def __init__(self, path: str, folder: pathlib.Path) -> None:
        self.path, self.folder = path, folder

    def run(self, *args: str) -> Run:
        try:
            done = subprocess.run([self.path, *args], stdin=subprocess.DEVNULL, timeout=TIMEOUT_S,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        except subprocess.TimeoutExpired:
            return Run(-1, f"no end after {TIMEOUT_S} s")
        return Run(done.returncode, done.stderr.decode(errors="replace"))

    def output(self, *args: str) -> str:
        """The first line that the command prints; "" where it prints none."""
        done = subprocess.run([self.path, *args], stdin=subprocess.DEVNULL, timeout=TIMEOUT_S,
                              capture_output=True, check=False)
        lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
        return lines[0] if lines else ""

    def _take(self, run: Run, out: pathlib.Path) -> tuple[Run, bytes | None]:
        data = out.read_bytes() if run.code == 0 and out.exists() else None
        out.unlink(missing_ok=True)
        if run.code == 0 and data is None:
            run.code, run.stderr = -2, "exit 0 without an output file"
        return run, data

    def opt(self, model: str, passes: str, *extra: str) -> tuple[Run, bytes | None]:
        out = self.folder / "opt.onnx"
        return self._take(self.run("opt", model, "--passes", passes, "-o", str(out), *extra), out)

    def pipeline(self, variant: Variant, *extra: str) -> str:
        """The passes that a conversion stands for, as opt takes them."""
        return subprocess.run([self.path, "convert", "--print-pipeline", "--to", variant.to, "--io",
                               variant.io, *extra], capture_output=True, text=True,
                              check=True).stdout.strip()

    def placed(self, variant: Variant, placement: str, *extra: str) -> str:
        """The same, its casts placed so."""
        plain = re.sub(r"placement=\w+,?", "", self.pipeline(variant, *extra))
        return plain.replace("insert-casts{", f"insert-casts{{placement={placement},")

    def convert(self, model: str, variant: Variant, *extra: str) -> tuple[Run, bytes | None]:
        """Converts; the run's report is the parsed --json file."""
        out, report = self.folder / "out.onnx", self.folder / "report.json"
        report.unlink(missing_ok=True)
        run = self.run("convert", model, "-o", str(out), "--to", variant.to, "--io", variant.io,
                       "--source", "float32", "--json", str(report), "--quiet", *extra)
        if run.code == 0:
            try:
                run.report = json.loads(report.read_bytes())
            except (OSError, ValueError) as error:
                run.code, run.stderr = -3, f"--json: {error}"
        return self._take(run, out)
