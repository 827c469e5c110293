# SPDX-License-Identifier: Apache-2.0
"""Other float16 converters as processes: which are there, what they are, and timed runs of them.

Needs nothing but Python, like tools/bench/bench_convert, whose runs of `demi` are measured by the
same function. Each converter lies in an environment of its own that tools/setup/setup_peers makes.
"""

import dataclasses
import json
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tools/bench/peer_convert.py"
ENVIRONMENTS = {"onnxconverter-common": "peers", "onnxruntime": "peers",
                "modelopt": "peers-modelopt"}
MISSING = 4
SAMPLE_S = 0.002
DESCRIBE_LIMIT_S = 120


@dataclasses.dataclass
class Outcome:
    """One process: its seconds and peaks of memory in bytes, or why there is no result."""

    seconds: float
    anonymous: int = 0
    resident: int = 0
    problem: str = ""


def last_line(text: bytes) -> str:
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "nothing on stderr"


def run(command: list[str], limit_s: float, errors: pathlib.Path) -> Outcome:
    """Runs a command, its stderr in `errors`. Memory is what the kernel says of the process, asked
    every few milliseconds: getrusage would count this Python's own pages from before the exec."""
    start, peaks = time.perf_counter(), {"RssAnon": 0, "VmHWM": 0}
    with errors.open("wb") as sink:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=sink)
    while process.poll() is None:
        if time.perf_counter() - start > limit_s:
            process.kill()
            process.wait()
            return Outcome(limit_s, *peaks.values(), f">{limit_s:g} s")
        try:
            lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name = line.split(":")[0]
            if name in peaks:
                peaks[name] = max(peaks[name], int(line.split()[1]) * 1024)
        time.sleep(SAMPLE_S)
    seconds = time.perf_counter() - start
    problem = "" if process.returncode == 0 else last_line(errors.read_bytes())
    return Outcome(seconds, *peaks.values(), problem)


class Peer:
    """One converter; `version` is "" and `problem` says why where it can't be used."""

    def __init__(self, name: str, build: pathlib.Path = ROOT / "build") -> None:
        self.name = name
        self.python = build / ENVIRONMENTS[name] / "bin/python"
        self.version, self.problem, self.blocked = "", "", []
        if not self.python.exists():
            self.problem = "not installed"
            return
        self._describe()

    def _describe(self) -> None:
        done = subprocess.run([str(self.python), "-W", "ignore", str(SCRIPT), self.name,
                               "--describe"], capture_output=True, check=False,
                              timeout=DESCRIBE_LIMIT_S)
        if done.returncode == MISSING:
            self.problem = "not installed"
        elif done.returncode:
            self.problem = last_line(done.stderr)
        else:
            about = json.loads(done.stdout.splitlines()[-1])
            self.version, self.blocked = about["version"], about["blocked"]

    def command(self, source: pathlib.Path, out: pathlib.Path, io: str = "keep") -> list[str]:
        return [str(self.python), "-W", "ignore", str(SCRIPT), self.name, str(source), str(out),
                "--io", io]


def all_peers(build: pathlib.Path = ROOT / "build") -> list[Peer]:
    return [Peer(name, build) for name in ENVIRONMENTS]
