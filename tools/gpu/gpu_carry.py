# SPDX-License-Identifier: Apache-2.0
"""Makes what is carried to a machine with a GPU: models of tools/suites as plans, for the device and for
the processor in faithful numerics, with inputs, tolerances, and what the fake device gives for them.

Weights of large networks, which only times are taken of, are not carried: their places in the plan hold
zeros, and a list says what to fill them with.
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/suites"))

import cuda_cases_test  # noqa: E402
from suite import cuda_case, cuda_cases, made_models  # noqa: E402
from suite.package import demi  # noqa: E402
from suite.runtime import PlanRunner  # noqa: E402

SOURCES = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "kernels", "runtime", "rewrite/base",
           "rewrite/shape", "tools/cmake", "tools/gpu_check", "tools/gpu", "tools/bench/bench_torch_gpu.py",
           *(f"tools/python/demi_onnx/{name}.py" for name in ("_abi", "_abi_constants", "_abi_functions", "_errors")))
TYPES = ("float", "float16", "bfloat16")
NETWORKS = ("resnet50", "mobilenetv2", "bert", "gpt2", "lstm")
# Those that may launch and move more than in float.
EXCEPTED = {("lstm", "bfloat16"): "ONNX's LSTM takes no bfloat16 before opset 22: it stays float, between casts"}
SPARSE = 0.02        # of them that are not 0: then they take little room
LARGE = 1 << 12      # bytes of a constant from which on it is filled on the machine
IMAGES, SENTENCES = (1, 2, 4, 8, 16, 32, 128), (1, 8, 32)
TIMED = (("resnet50", {}, IMAGES), ("resnet152", {}, IMAGES), ("mobilenetv2", {}, IMAGES),
         ("bert", {}, SENTENCES), ("gpt2", {}, (1,)))
PLAN_DATA, SECTIONS = 12, 56  # number of the section; where the table of them begins (runtime/plan.h)


class Carry:
    """The archive in the making."""

    def __init__(self, path: pathlib.Path) -> None:
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self.manifest: dict[str, object] = {"cases": [], "networks": [], "timed": []}
        self.count = 0

    def put(self, data: bytes) -> str:
        self.count += 1
        name = f"{self.count:05d}"
        self.zip.writestr(name, data)
        return name

    def tensor(self, array: np.ndarray) -> dict:
        array = np.asarray(array)
        return {"dtype": int(helper.np_dtype_to_tensor_dtype(array.dtype)), "dims": list(array.shape),
                "data": self.put(array.tobytes())}

    def feeds(self, feeds: dict[str, np.ndarray]) -> dict[str, dict]:
        return {name: self.tensor(array) for name, array in feeds.items()}

    def close(self) -> None:
        self.zip.writestr("manifest.json", json.dumps(self.manifest))
        self.zip.close()


# ---- cases of kernels ----

def on_fake(plan: bytes, feeds: dict[str, np.ndarray]) -> tuple[list[bytes], list[str]]:
    """What the fake device gives, and the kernels that it launched; in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        log, made = pathlib.Path(folder, "log"), pathlib.Path(folder, "made")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.environ["FAKE_CUDA"] = f"log={log}"
                runner = PlanRunner(plan, device="cuda")
                outputs = [np.asarray(y).tobytes() for y in runner.run(feeds)]
                made.write_bytes(b"".join(struct.pack("<Q", len(y)) + y for y in outputs))
                del runner
                code = 0
            finally:
                import ctypes
                ctypes.CDLL(None).exit(code)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not made.exists():
            return [], []
        data, outputs = made.read_bytes(), []
        while data:
            size = struct.unpack_from("<Q", data)[0]
            outputs.append(data[8:8 + size])
            data = data[8 + size:]
        lines = [line.rsplit(" ", 2) for line in log.read_text().splitlines()]
    return outputs, sorted(name for kind, name, count in lines if kind in ("launched", "captured") and int(count))


def tolerance_of(case: cuda_case.Case) -> dict:
    """As cuda_cases_test has it, and for faithful numerics, which round each node's result."""
    low = case.coarse or next((a.dtype.type for a in case.feeds.values() if a.dtype.itemsize == 2), None)
    rounding = sum(len(node.output) for node in case.nodes) if low else 0
    coarse = float(ml_dtypes.finfo(low).eps) if low and low not in (np.int16,) else 0.0
    return {"loose": case.loose, "terms": case.terms, "between": case.between,
            "faithful": case.between + rounding, "coarse": coarse,
            "way": cuda_cases_test.largest(case) if case.between or rounding else 0.0}


def add_cases(carry: Carry, args: argparse.Namespace) -> int:
    """So many, and among the first seeds, of each kernel one at least."""
    most, covered, wanted = args.cases, set(), cuda_cases_test.kernels()
    for seed in range(most if args.tiny else 16 * most):
        name = cuda_cases.maker_of(seed)
        case = cuda_cases.build(name, seed)
        if len(carry.manifest["cases"]) >= most and covered >= wanted:
            break
        if not case.nodes:
            continue
        data = case.model().SerializeToString()
        plan = demi.compile(data, device="cuda")
        outputs, launched = on_fake(plan, case.feeds)
        if not launched or (len(carry.manifest["cases"]) >= most and not set(launched) - covered):
            continue
        covered |= set(launched)
        carry.manifest["cases"].append({
            "what": name, "seed": seed, "kernels": launched, "plan": carry.put(plan),
            "faithful": carry.put(demi.compile(data, numerics="faithful", isa="none")),
            "feeds": carry.feeds(case.feeds), "emulator": [carry.put(y) for y in outputs],
            "tolerance": tolerance_of(case)})
    return len(wanted - covered)


# ---- networks ----

def thin(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with large weights of few values, which take little room."""
    rng = np.random.default_rng(5)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.size < 4096:
            continue
        signs = rng.integers(0, 2, array.shape) * 2 - 1
        kept = rng.random(array.shape) < SPARSE
        scale = np.float32(np.sqrt(np.mean(np.square(array)) / SPARSE))
        tensor.CopyFrom(numpy_helper.from_array((signs * kept).astype(np.float32) * scale, tensor.name))
    return model


def converted(model: onnx.ModelProto, to: str) -> bytes:
    data = model.SerializeToString()
    return data if to == "float" else demi.convert(data, to=to, io="low")[0]


def low_feeds(feeds: dict[str, np.ndarray], to: str) -> dict[str, np.ndarray]:
    dtype = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[to]
    return {n: x.astype(dtype) if x.dtype == np.float32 else x for n, x in feeds.items()}


def add_networks(carry: Carry, names: list[str]) -> None:
    for name in names:
        model = thin(made_models.MODELS[name](**made_models.SMALL[name]))
        feeds = made_models.feeds_of(model)
        for to in TYPES:
            data = converted(model, to)
            carry.manifest["networks"].append({
                "what": name, "type": to, "excepted": EXCEPTED.get((name, to), ""),
                "feeds": carry.feeds(low_feeds(feeds, to)),
                "plan": carry.put(demi.compile(data, device="cuda")),
                "faithful": carry.put(demi.compile(data, numerics="faithful", isa="none"))})


# ---- networks whose times are taken ----

def constants(plan: bytes) -> int:
    """Where the plan's constants begin."""
    return struct.unpack_from("<QQ", plan, SECTIONS + 16 * PLAN_DATA)[0]


def hollow(plan: bytes, show: str) -> tuple[bytes, list]:
    """The plan without its large constants, and what they were like: place, dtype, count, deviation."""
    made, fills, begin = bytearray(plan), [], constants(plan)
    kinds = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    for line in show.splitlines():
        words = line.split()
        if len(words) < 6 or words[-2] != "at" or not words[0].startswith("%"):
            continue
        size, at = int(words[-4]), begin + int(words[-1])
        kind = next((w.split("[")[0] for w in words if w.split("[")[0] in kinds), None)
        if size < LARGE or kind is None:
            continue
        array = np.frombuffer(plan, kinds[kind], size // np.dtype(kinds[kind]).itemsize, at)
        deviation = float(np.std(array[:65536].astype(np.float32)))
        fills.append([at, int(helper.np_dtype_to_tensor_dtype(np.dtype(kinds[kind]))), array.size, deviation])
        made[at:at + size] = bytes(size)
    return bytes(made), fills


def add_timed(carry: Carry, command: str, only: list[str] | None) -> None:
    for name, sizes, batches in TIMED:
        if only is not None and name not in only:
            continue
        if only is not None:
            sizes, batches = made_models.SMALL[name], batches[:1]
        for to in TYPES:
            for batch in batches:
                model = made_models.MODELS[name](**sizes)
                if name != "gpt2":
                    model = made_models.batched(model, batch)
                feeds = low_feeds(made_models.feeds_of(model), to)
                plan = demi.compile(converted(model, to), device="cuda")
                with tempfile.NamedTemporaryFile(suffix=".plan") as file:
                    file.write(plan)
                    file.flush()
                    show = subprocess.run([command, "show", file.name], capture_output=True, text=True,
                                          check=True).stdout
                small, fills = hollow(plan, show)
                carry.manifest["timed"].append({
                    "what": name, "type": to, "batch": batch, "plan": carry.put(small), "fills": fills,
                    "feeds": {n: {"dtype": int(helper.np_dtype_to_tensor_dtype(x.dtype)), "dims": list(x.shape),
                                  "most": int(x.max()) if x.dtype.kind == "i" else None}
                              for n, x in feeds.items()}})
                print(f"{name} {to} batch {batch}", flush=True)


# ---- all ----

def add_sources(folder: pathlib.Path) -> None:
    done = subprocess.run(["git", "-C", ROOT, "archive", "--format=tar", "HEAD", *SOURCES],
                          capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=done.stdout, check=True)


def make(args: argparse.Namespace) -> int:
    """The folder to carry; `args.tiny`: these networks alone, and small, to try it on the fake device."""
    folder, only = args.folder, args.tiny.split(",") if args.tiny else None
    if not cuda_cases_test.kernels():
        print("gpu_check: LD_LIBRARY_PATH has to name build/release/fake_cuda", file=sys.stderr)
        return 3
    folder.mkdir(parents=True, exist_ok=True)
    add_sources(folder)
    carry = Carry(folder / "carried.zip")
    head = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True,
                          text=True, check=True).stdout.strip()
    carry.manifest["commit"], carry.manifest["tiny"] = head, only is not None
    missing = add_cases(carry, args)
    add_networks(carry, [n for n in NETWORKS if only is None or n in only])
    add_timed(carry, args.demi, only)
    carry.close()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {len(carry.manifest['cases'])} cases ({missing} kernels without one), "
          f"{len(carry.manifest['networks'])} networks, {len(carry.manifest['timed'])} to be timed; "
          f"{size / 2 ** 20:.1f} MiB")
    return 0 if size < 60 * 2 ** 20 else 1
