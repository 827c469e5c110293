# SPDX-License-Identifier: Apache-2.0
"""The stages of a check, each within its share of the time; each returns what it found, as JSON."""

import json
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent import futures

from gpu_carried import Carried, apart, far, filled, made_up
from gpu_runtime import Context, Failed, Library, Memory

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORK_LIMIT = {"float": 1e-3, "float16": 0.02, "bfloat16": 0.10} # of the largest output
BYTES = 0.6 # of float's, that 16 bit may read and write
SANITIZED = 12 # cases
BUILT = "libdemi_runtime_only.so"
LONGEST = 0.4  # seconds that a plan's runs of one round may take
ORDER = (1, 32, 8, 128, 16, 4, 2)  # of batches, as the time may not do for all
BESIDE = (1, 32)  # batches that TF32 and the host's memory are tried at
COMPILING = 0.4 # of the time for times, that is waited for torch.compile


class Missing(Exception):
    """What the machine lacks."""


class Clock:
    """A share of the time."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return max(self.end - time.monotonic(), 0.0)


# ---- the library -----------------------------------------------------------------------------------

def find_tools(environment: dict[str, str]) -> dict[str, str]:
    """What a build needs."""
    tools = {}
    for name, others in (("cmake", ()), ("cc", ("gcc", "clang")), ("nvcc", ("/usr/local/cuda/bin/nvcc",))):
        path = next((p for p in map(shutil.which, (name, *others)) if p), None)
        if not path:
            raise Missing(f"there is no {name}")
        tools[name] = path
    text = subprocess.run([tools["nvcc"], "--version"], capture_output=True, text=True, check=False,
                          env=environment).stdout
    if "release 13." not in text:
        raise Missing(f"{tools['nvcc']} is not of CUDA 13")
    return tools


def build(folder: pathlib.Path, clock: Clock, jobs: int) -> pathlib.Path:
    """The runtime alone; what is made already is not made again."""
    tools = find_tools(dict(os.environ))
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    settings = ["-DCMAKE_BUILD_TYPE=Release", "-DDEMI_RUNTIME_ONLY=ON", "-DDEMI_CUDA=ON",
                f"-DDEMI_NVCC={tools['nvcc']}"]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "build.log").open("w") as log:
        for words in (["cmake", "-S", ROOT, "-B", folder, *generator, *settings],
                      ["cmake", "--build", folder, "-j", str(jobs), "--target", "demi_runtime_only"]):
            try:
                done = subprocess.run(list(map(str, words)), stdout=log, stderr=log, check=False,
                                      timeout=clock.left() or 1)
            except subprocess.TimeoutExpired:
                raise Missing(f"the build took too long; {log.name}") from None
            if done.returncode:
                raise Missing(f"the build failed; {log.name} says why")
    return folder / BUILT


def emulate(folder: pathlib.Path) -> None:
    """For the fake device: the PTX of this build's kernels beside their images, where it looks for them."""
    nvcc, images = find_tools(dict(os.environ))["nvcc"], folder / "cuda"
    for image in images.glob("*.fatbin"):
        ptx, source = image.with_suffix(".ptx"), ROOT / "kernels/cuda" / f"{image.stem}.cu"
        if ptx.exists() and ptx.stat().st_mtime > image.stat().st_mtime:
            continue
        folders = [f"-I{folder}" for folder in (ROOT / "rewrite/base", ROOT / "kernels", source.parent)]
        subprocess.run([nvcc, "-ptx", "-arch=compute_90", "-std=c++17", "-O3", *folders, "-o", ptx, source],
                       check=True)
    os.environ["FAKE_CUDA_FOLDER"] = str(images)


def describe(environment: dict[str, str]) -> dict[str, str]:
    """The GPU and its driver, as its own tool says it."""
    words = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    except OSError:
        return {"gpu": "unknown: there is no nvidia-smi"}
    return {"gpu": done.stdout.strip() or done.stderr.strip()}


# ---- kernels ---------------------------------------------------------------------------------------

def check_case(library: Library, carried: Carried, case: dict, device: str) -> dict:
    feeds, tolerance = carried.feeds(case["feeds"]), case["tolerance"]
    with Context(library, carried.data(case["faithful"])) as processor:
        want = processor.run(feeds)
    with Context(library, carried.data(case["plan"]), device) as context:
        got = [context.run(feeds) for _ in range(3)]
    shares, texts = [0.0], []
    for y, y0, of_emulator in zip(got[0], want, case["emulator"]):
        share, text = apart(y, y0, tolerance, tolerance["faithful"])
        texts += [f"beside the processor: {text}"] * bool(text)
        emulated = type(y)(y.dtype, y.dims, carried.data(of_emulator))
        near, text = apart(y, emulated, tolerance, tolerance["between"])
        shares.append(near)
        texts += [f"beside the emulator: {text}"] * bool(text)
        texts += [f"beside the processor: {share}"] * (share == float("inf") and not text)
    if any(a.data != b.data for other in got[1:] for a, b in zip(other, got[0])):
        texts.append("a recorded run gives other bits")
    return {"what": case["what"], "seed": case["seed"], "apart": max(shares), "wrong": "; ".join(texts)}


def kernels(library: Library, carried: Carried, device: str, clock: Clock) -> dict:
    """Every case; by kernel, how much of what is allowed device and emulator are apart."""
    by_kernel: dict[str, dict] = {}
    failed, ran = [], 0
    for case in carried.manifest["cases"]:
        if not clock.left():
            break
        ran += 1
        try:
            found = check_case(library, carried, case, device)
        except Failed as error:
            found = {"what": case["what"], "seed": case["seed"], "apart": 0.0, "wrong": str(error)}
        if found["wrong"]:
            failed.append(found)
        for name in case["kernels"]:
            row = by_kernel.setdefault(name, {"cases": 0, "failed": 0, "apart": 0.0})
            row["cases"] += 1
            row["failed"] += bool(found["wrong"])
            row["apart"] = max(row["apart"], found["apart"])
    return {"cases": len(carried.manifest["cases"]), "ran": ran, "failed": failed, "kernels": by_kernel,
            "ok": not failed and ran == len(carried.manifest["cases"])}


# ---- networks --------------------------------------------------------------------------------------

def check_network(library: Library, carried: Carried, network: dict, device: str) -> dict:
    feeds = carried.feeds(network["feeds"])
    with Context(library, carried.data(network["faithful"])) as processor:
        want = [y.numbers() for y in processor.run(feeds)]
    worst = 0.0
    with Context(library, carried.data(network["plan"]), device) as context:
        for _ in range(3):
            worst = max([worst, *(far(y.numbers(), y0) for y, y0 in zip(context.run(feeds), want))])
        counts = context.counts()
    return {"what": network["what"], "type": network["type"], "difference": worst,
            "excepted": network["excepted"],
            "launches": counts.launches // 3, "bytes": counts.bytes // 3, "replays": counts.replays,
            "wrong": "" if worst <= NETWORK_LIMIT[network["type"]] else f"{worst:.3g} of the largest output"}


def networks(library: Library, carried: Carried, device: str, clock: Clock) -> dict:
    rows = []
    for network in carried.manifest["networks"]:
        if not clock.left():
            break
        try:
            rows.append(check_network(library, carried, network, device))
        except Failed as error:
            rows.append({"what": network["what"], "type": network["type"], "wrong": str(error)})
    floats = {r["what"]: r for r in rows if r["type"] == "float" and "launches" in r}
    for row in rows:
        first = floats.get(row["what"])
        if not first or row["type"] == "float" or row["wrong"] or row["excepted"]:
            continue
        if row["launches"] > first["launches"]:
            row["wrong"] = f"{row['launches']} launches, {first['launches']} in float"
        elif row["bytes"] > BYTES * first["bytes"]:
            row["wrong"] = f"{row['bytes']} bytes, {first['bytes']} in float"
        elif not row["replays"]:
            row["wrong"] = "it was not recorded"
    return {"networks": len(carried.manifest["networks"]), "rows": rows,
            "ok": len(rows) == len(carried.manifest["networks"]) and not any(r["wrong"] for r in rows)}


# ---- compute-sanitizer -----------------------------------------------------------------------------

def sanitize(library: pathlib.Path, carried: pathlib.Path, device: str, clock: Clock) -> dict:
    """Some cases once more under each of its tools, where the machine has it."""
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not tool:
        return {"ok": True, "left_out": "there is no compute-sanitizer"}
    found: dict[str, object] = {"ok": True}
    for name in ("memcheck", "racecheck", "synccheck", "initcheck"):
        words = [tool, "--tool", name, "--error-exitcode", "9", sys.executable, str(ROOT / "tools/gpu_check"),
                 "cases", str(carried), "--library", str(library), "--device", device, "--most", str(SANITIZED)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=clock.left() / 2 or 1)
        except subprocess.TimeoutExpired:
            found[name] = "not enough time"
            continue
        text = (done.stdout + done.stderr).strip()
        refused = "not supported" in text or "Unable to" in text
        found[name] = "clean" if done.returncode == 0 else text[-400:]
        found["ok"] = bool(found["ok"]) and (done.returncode == 0 or refused)
    return found


# ---- times -----------------------------------------------------------------------------------------

class Torch:
    """PyTorch in a process of its own, which is asked for one time after the other."""

    def __init__(self, **environment: str) -> None:
        self.process = subprocess.Popen([sys.executable, str(ROOT / "tools/bench/bench_torch_gpu.py"), "--serve"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env={**os.environ, **environment})
        line = self.process.stdout.readline()
        self.version = json.loads(line)["torch"] if line else ""

    def time(self, model: str, batch: int, ways: list[str]) -> dict[str, float]:
        try:
            self.process.stdin.write(json.dumps({"model": model, "batch": batch, "ways": ways}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        return json.loads(line) if line else {"error": "it ended"}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Compiled:
    """torch.compile of each network at each batch size, each in a process of its own that then waits for its time
    to be asked: it takes half a minute and more, and is done beside the stages that take no times."""

    def __init__(self, groups: list[list[dict]], jobs: int) -> None:
        self.pool, self.begun, self.ready, self.over = futures.ThreadPoolExecutor(max(jobs // 2, 1)), [], {}, False
        self.here = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode == 0
        self.made = [self.pool.submit(self.make, plans[0]["what"], plans[0]["batch"])
                     for plans in groups if self.here]

    def make(self, model: str, batch: int) -> None:
        if self.over:
            return
        peer = Torch(TORCHINDUCTOR_COMPILE_THREADS="1")
        self.begun.append(peer)
        if not self.over:
            answer = peer.time(model, batch, ["ready"])
            self.ready[model, batch] = (peer, answer) # an error, if there was one

    def wait(self, seconds: float) -> None:
        """Ends what is not ready then, so that nothing is at work beside times."""
        futures.wait(self.made, seconds)
        self.over = True
        kept = [peer for peer, _ in self.ready.values()]
        for peer in self.begun[:]:
            if peer not in kept:
                peer.process.kill()
        self.pool.shutdown()

    def time(self, model: str, batch: int) -> dict[str, float]:
        peer, answer = self.ready.get((model, batch), (None, {}))
        return answer if not peer or "error" in answer else peer.time(model, batch, ["kept"])

    def close(self) -> None:
        self.wait(0)
        for peer in self.begun:
            peer.close()


def write_plan(carried: pathlib.Path, plan: dict, to: pathlib.Path) -> pathlib.Path:
    """A plan with its weights in their places."""
    to.write_bytes(filled(Carried(carried).data(plan["plan"]), plan["fills"]))
    return to


class Plans:
    """Plans whose times are taken, as files that processes of their own write meanwhile. It is made before
    anything of the device is opened."""

    def __init__(self, path: pathlib.Path, carried: Carried, jobs: int) -> None:
        self.folder, groups = tempfile.TemporaryDirectory(), {}
        self.pool = futures.ProcessPoolExecutor(max(jobs // 2, 1), multiprocessing.get_context("fork"))
        for plan in carried.manifest["timed"]:
            groups.setdefault((plan["what"], plan["batch"]), []).append(plan)
        self.groups = sorted(groups.values(), key=lambda plans: (ORDER + (plans[0]["batch"],)).index(plans[0]["batch"]))
        self.files = {plan["plan"]: self.pool.submit(write_plan, path, plan, pathlib.Path(self.folder.name, plan["plan"]))
                      for plans in self.groups for plan in plans}

    def file(self, plan: dict) -> pathlib.Path:
        return self.files[plan["plan"]].result()

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        self.folder.cleanup()


def time_plan(context: Context, runs: int) -> float:
    """Milliseconds of a run, inputs set before; the median, of fewer where they take long."""
    times, end = [], time.monotonic() + LONGEST
    while len(times) < runs and (len(times) < 3 or time.monotonic() < end):
        start = time.perf_counter()
        context.step()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def time_group(library: Library, files: Plans, plans: list[dict], how: tuple[str, int, int]) -> dict:
    """All types of a network at one batch, by turns: inputs and outputs in the device's memory, as PyTorch has
    them; "host": float16 with both in the processor's; and TF32."""
    device, rounds, runs = how
    contexts, medians, row = {}, {}, {"what": plans[0]["what"], "batch": plans[0]["batch"]}
    memory = Memory(device)
    try:
        for plan in plans:
            file, feeds = files.file(plan), made_up(plan["feeds"])
            beside = {"float": ["tf32"], "float16": ["host"]}.get(plan["type"], [])
            for name in [plan["type"], *beside * (plan["batch"] in BESIDE)]:
                contexts[name] = context = Context(library, file, device, tf32=name == "tf32")
                if name == "host":
                    context.set(feeds)
                else:
                    context.lay(feeds, memory)
                for _ in range(3):
                    context.step()
        for _ in range(rounds):
            for name, context in contexts.items():
                before = context.counts()
                medians.setdefault(name, []).append(time_plan(context, runs))
                after = context.counts()
                ran = max(after.replays - before.replays, 1)
                row[f"{name}_bytes"] = (after.bytes - before.bytes) // ran
                row[f"{name}_launches"] = (after.launches - before.launches) // ran
    except Failed as error:
        row["wrong"] = str(error)
    for context in contexts.values():
        context.close()
    memory.close()
    for plan in plans:
        files.file(plan).unlink()
    for name, values in medians.items():
        row[name] = statistics.median(values)
    return row


def times(library: Library, files: Plans, compiled: Compiled, how: tuple[str, int, int, bool], clock: Clock) -> dict:
    """Each network at each batch size: float, TF32, float16, bfloat16, and PyTorch's three ways after each."""
    rows, groups, tiny = [], files.groups, how[3]
    compiled.wait(COMPILING * clock.left())
    torch = Torch() if compiled.here else None
    for plans in groups:
        if not clock.left():
            break
        begin = time.monotonic()
        row = time_group(library, files, plans, how[:3])
        row["seconds"] = time.monotonic() - begin
        if torch and torch.version:
            row["torch"] = {**compiled.time(row["what"], row["batch"]),
                            **torch.time(row["what"], row["batch"], ["eager", "graph"])}
        if "float" in row and "wrong" not in row:
            slower = [t for t in ("float16", "bfloat16") if row[t] > row["float"]]
            row["wrong"] = f"{', '.join(slower)} slower than float" if slower and not tiny else ""
        rows.append(row)
    if torch:
        torch.close()
    return {"groups": len(groups), "rows": rows, "torch": torch.version if torch else "not here",
            "ok": len(rows) == len(groups) and not any(r.get("wrong") for r in rows)}


def run_one(library: Library, carried: Carried, which: tuple[str, str, int], how: tuple[str, int]) -> None:
    """One of these networks so many times, step by step: for a profiler."""
    device, runs = how
    for plan in carried.manifest["timed"]:
        if (plan["what"], plan["type"], plan["batch"]) == which:
            memory = Memory(device)
            data = bytes(filled(carried.data(plan["plan"]), plan["fills"]))
            with Context(library, data, device, steps=True) as context:
                context.lay(made_up(plan["feeds"]), memory)
                for _ in range(runs):
                    context.step()
            memory.close()
            return
    raise Missing(f"no {which[1]} {which[0]} of batch {which[2]} was carried")
