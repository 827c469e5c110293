# SPDX-License-Identifier: Apache-2.0
"""CUDA without a GPU: what is said where something is missing, and, on the fake device
(tools/fake_cuda, named in LD_LIBRARY_PATH), every call of driver and libraries that fails once, and
what whole networks make of the device.

A call that fails ends the run with an error, or does not matter; in either case the runs after it, in
the same context, are right, and nothing is left behind at the end. Networks give what they give on the
processor, all on the device, and move inputs and outputs alone; from the second run on a recording is
repeated. In 16 bit they launch no more than in float, read and write 0.6 of its bytes at most, and cast
nothing by itself.
"""

import collections
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from concurrent import futures

import numpy as np
import onnx
from onnx import parser as onnx_parser

from suite import made_models, metric
from suite.command import processor_seconds
from suite.cuda_driver import Driver
from suite.cuda_fake import FAKE, LARGE_HEADS, ROOT, SMALL, WHOLE, OnDevice, args, feeds_for, main, small_model
from suite.package import demi
from suite.runtime import DeviceCounts, PlanRunner

MODEL = ROOT / "testdata/models/conv_net.onnx"
SOON_S = 0.1 # of the processor
BYTES = 0.6  # that a network in 16 bit reads and writes on the device, at most, of those in float
def settings(text: str) -> dict[str, str]:
    return os.environ | {"FAKE_CUDA": text}


class Refusals(unittest.TestCase):
    """One line, exit 3, nothing left behind."""

    def refused(self, environment: dict[str, str], expected: str, device: str = "cuda",
                model: str | os.PathLike = MODEL) -> float:
        start = processor_seconds()
        done = subprocess.run([args.demi, "run", model, "--random", "1", "--device", device],
                              env=environment, capture_output=True, text=True, check=False)
        took = processor_seconds() - start
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (3, 1), done.stderr)
        self.assertRegex(done.stderr, expected)
        self.assertNotIn(FAKE, done.stderr)
        self.assertEqual(done.stdout, "")
        return took

    def test_no_driver(self) -> None:
        """What is missing, at once, and nothing is computed by the processor instead."""
        plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        try:
            ctypes.CDLL("libcuda.so.1")
            found = "fake_cuda" not in os.environ.get("LD_LIBRARY_PATH", "")
        except OSError:
            found = False
        if found:
            self.skipTest("there is a driver")
        took = self.refused(plain, r"cannot load the CUDA driver: libcuda\.so\.1")
        self.assertLess(took, SOON_S)

    def test_before_a_model_is_compiled(self) -> None:
        """Large ones take seconds; this one can't be."""
        with tempfile.NamedTemporaryFile("w", suffix=".onnxtxt") as model:
            model.write('<ir_version: 10, opset_import: ["" : 21]> '
                        "g (float[4] x) => (float[4] y) { y = NoSuchOperator (x) }")
            model.flush()
            self.refused(settings("no-device"), "there is no CUDA device\n", model=model.name)

    def test_no_device(self) -> None:
        self.refused(settings("no-device"), "there is no CUDA device\n")
        self.refused(settings(""), "there is no CUDA device 9", "cuda:9")

    def test_too_old(self) -> None:
        self.refused(settings("driver=12080"), r"driver is too old.*13\.0 or later.*12\.8")
        self.refused(settings("capability=75"), r"too old for demi's kernels.*8\.0 or later.*7\.5")

    def test_other_architecture(self) -> None:
        for code in (209, 222):
            self.refused(settings(f"fail=cuModuleLoadData:1:{code}"),
                         "were not built for Fake device.*DEMI_CUDA_ARCHITECTURES=90")

    def test_wheels(self) -> None:
        """Libraries where pip puts them: in $VIRTUAL_ENV, and in the environment that demi is installed in."""
        found = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcublasLt.so.13')"], check=False,
                               env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}, capture_output=True)
        if not found.returncode or glob.glob("/usr/local/cuda/lib*/libcublasLt.so.13"):
            self.skipTest("the system has the libraries")
        fakes = next(p for f in os.environ["LD_LIBRARY_PATH"].split(":") for p in [pathlib.Path(f)]
                     if (p / "libcuda.so.1").exists())
        with tempfile.TemporaryDirectory() as folder:
            driver, environment = pathlib.Path(folder) / "driver", pathlib.Path(folder) / "env [1]"
            packages = environment / "lib/python3.99/site-packages/nvidia"
            for there, name in ((driver, "libcuda.so.1"), (packages / "cublas/lib", "libcublasLt.so.13"),
                                (packages / "cudnn/lib", "libcudnn.so.9"), (environment / "bin", args.demi)):
                there.mkdir(parents=True)
                shutil.copy(fakes / name, there)
            model = pathlib.Path(folder) / "product.onnxtxt"
            model.write_text('<ir_version: 8, opset_import: ["" : 17]> g (float[64,32] x, float[32,48] w) => (float[64,48] y) '
                             "{ y = MatMul (x, w) }")
            plain = settings("") | {"LD_LIBRARY_PATH": str(driver)}
            plain["PATH"] = f"{environment / 'bin'}:{plain['PATH']}"
            for demi, active, there in ((args.demi, "", False), (args.demi, driver, False), (args.demi, environment, True),
                                        (environment / "bin/demi", "", True), ("demi", "", True)):
                done = subprocess.run([demi, "run", model, "--random", "1", "--device", "cuda"], capture_output=True,
                                      env=plain | {"VIRTUAL_ENV": str(active), "LD_DEBUG": "libs"}, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual("nvidia/cublas/lib/libcublasLt.so.13" in done.stderr, there, (demi, active))
                self.assertEqual("; 1 steps with slower kernels, because libcublasLt or libcudnn is missing" in done.stdout, not there,
                                 done.stdout)

    def test_other_cudnn(self) -> None:
        for version in (8907, 89999, 100000):
            self.refused(settings(f"cudnn={version}"),
                         rf"libcudnn\.so\.9 is not cuDNN 9: expected a version of 90000 to 99999, got {version}; hint")

    def test_no_memory(self) -> None:
        self.refused(settings("memory=1000"), r"(not have \d+ bytes left|no room)")

    def test_lost(self) -> None:
        for at in (1, 2, 3):
            self.refused(settings(f"fail=cuStreamSynchronize:{at}:719"),
                         "unspecified launch failure")

    def test_limited_memory(self) -> None:
        for words in (["--device-memory", "2K"], ["--device-memory", "2048"]):
            done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", "cuda", *words],
                                  env=settings(""), capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (3, 1), done.stderr)
            self.assertRegex(done.stderr, "the run needs more device memory than the limit of 2048 bytes")
        done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", "cuda",
                               "--device-memory", "2T"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("a number of bytes such as 500M or 2G", done.stderr)

    def test_tf32(self) -> None:
        """Off unless it is asked for, and said where it is on."""
        for words, said in (([], False), (["--tf32", "off"], False), (["--tf32", "on"], True)):
            done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", "cuda", *words],
                                  env=settings(""), capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual("of them may be in TF32" in done.stdout, said, done.stdout)

    def test_graph(self) -> None:
        """Runs are replayed from a recording unless that is off."""
        for words, off in (([], False), (["--device-graph", "on"], False), (["--device-graph", "off"], True)):
            done = subprocess.run([args.demi, "bench", MODEL, "--random", "1", "--device", "cuda", "--runs", "3",
                                   "--json", "-", *words], env=settings(""), capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["device"]["replays"] == 0, off, done.stdout)

    def test_second_device(self) -> None:
        done = subprocess.run([args.demi, "run", MODEL, "--random", "1", "--device", "cuda:1"],
                              env=settings(""), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Size(unittest.TestCase):
    MOST = 2_000_000  # bytes that CUDA adds to a program: kernels' images and the host's code
    HOST = ("cuda_", "exec_device", "exec_here", "exec_record", "step_place", "step_casts", "context_device",
            "plan_devices", "place_declined")

    def test_growth(self) -> None:
        folder, total = pathlib.Path(args.libdemi).parent, 0
        for library in ("libdemi_kernels.a", "libdemi_runtime.a"):
            done = subprocess.run(["size", folder / library], capture_output=True, text=True, check=True)
            members = [line.split() for line in done.stdout.splitlines()[1:]]
            total += sum(int(m[0]) + int(m[1]) for m in members if m[5].startswith(self.HOST))
        self.assertGreater(total, self.MOST // 2)
        self.assertLess(total, self.MOST)


class Failures(OnDevice):
    """Calls of driver and libraries fail, one in each life of contexts: at each site, by the whole way of functions
    that leads to it, the first and the last, and with --every all. Sites are those of opening the device, loading and finding kernels, libraries' handles, plans and algorithms, memory of the device and
    pinned memory, constants, copies to, from and on the device, launches, waits, recording, repeating,
    forgetting a recording, streams of the caller's, contexts that share a plan, the end. There are no other
    kinds of calls: recordings are never updated, and devices do not talk to each other. The two that tell
    what an error means only follow one."""

    RUNS = 5
    NEVER = "cuGetError"
    QUIET = ("cuCtxPop", "cuThread")  # around all others, so many times: their failures change nothing
    tried_out: set[tuple[str, str]] = set()  # sites of all sweeps: a way that failed in one does not in the next

    def made(self, text: str) -> tuple[bytes, dict, list]:
        """A plan, inputs of it, and what the processor makes of them."""
        model = small_model(text)
        feeds = feeds_for(model)
        plan = demi.compile(model, device="cuda")
        return plan, feeds, PlanRunner(plan).run(feeds)

    def tell(self, error: Exception) -> None:
        os.write(2, f"{error}\n".encode())

    def tried(self, run: Callable[[], list], want: list) -> int:
        """1 where the run failed, and said so; 0 where it gave what is wanted."""
        try:
            got = run()
        except demi.DemiError as error:
            self.tell(error)
            return 1
        for y, y0 in zip(got, want, strict=True):
            np.testing.assert_allclose(y, y0, *((1e-4, 1e-5) if y0.dtype == np.float32 else (5e-3, 5e-3)))
        return 0

    def opened(self, plan: bytes, **more: object) -> PlanRunner | None:
        try:
            return PlanRunner(plan, device="cuda", **more)
        except demi.DemiError as error:
            self.tell(error)
            return None

    def sweep(self, work: Callable[[], int], least: int, quiet: bool = False, more: str = "") -> None:
        """`work` gives how often something failed: not more than once, as what is behind it goes well. `more`:
        words of FAKE_CUDA."""
        def told() -> int:
            failed = work()
            return 0 if failed == 0 else 3 if failed == 1 else 4

        code, said = self.child.run(told, more=f"sites,{more}")
        self.assertEqual((code, said), (0, ""))
        failing = self.failing(least, quiet)
        self.child.read_ahead()
        for name, at in failing:
            code, said = self.child.run(told, f"{name}:{at}:999", more)
            where = f"call {at} of {name}: exit {code}: {said}"
            self.assertIn(code, (0, 3), where)
            self.assertTrue(code == 0 or said.strip(), where)
            self.assertNotIn(FAKE, said, where)
            if code:
                self.assertRegex(said, "CUDA|cuBLASLt|cuDNN", where)

    def failing(self, least: int, quiet: bool) -> list[tuple[str, int]]:
        """Which calls of which functions are to fail, of those of the last run, which are so many at least."""
        counts = {key: count for key, count in self.child.counts().items()
                  if not key[1].startswith(self.NEVER) and (quiet or not key[1].startswith(self.QUIET))}
        calls = [(name, at) for (kind, name), count in counts.items() if kind == "call" for at in range(1, count + 1)]
        self.assertGreater(len(calls), least)
        if args.every:
            return calls
        sites = {(name, way): {int(first), int(last)} for kind, what in counts if kind == "site"
                 for name, way, first, last in [what.split(":")] if (name, way) not in self.tried_out}
        self.tried_out.update(sites)
        return [(name, at) for (name, _), some in sites.items() for at in sorted(some)]

    def sweep_runs(self, text: str, least: int, quiet: bool = False) -> None:
        plan, feeds, want = self.made(text)

        def work() -> int:
            runner = self.opened(plan)
            return sum(self.tried(lambda: runner.run(feeds), want) for _ in range(self.RUNS)) if runner else 1

        self.sweep(work, least, quiet)

    def test_recorded(self) -> None:
        self.sweep_runs(WHOLE, 600, quiet=True)

    def test_with_the_processor(self) -> None:
        self.sweep_runs(SMALL, 500)

    def test_declined(self) -> None:
        self.sweep_runs(LARGE_HEADS, 500)

    def test_turns(self) -> None:
        """Copies on the device: of what a scan takes apart and collects; recorded, and step by step."""
        plan = demi.compile(onnx_parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[3,4] x, float[4] h) => (float[4] y, float[3,4] z) {
                a = Neg (x)
                y, w = Scan (h, a) <body = l (float[4] s, float[4] v) => (t, o) {
                    u = Add (s, v) t = Tanh (u) o = Mul (t, v) }, num_scan_inputs = 1>
                z = Exp (w) }"""), device="cuda")
        feeds = {"x": np.arange(12, dtype=np.float32).reshape(3, 4) / 12, "h": np.ones(4, np.float32)}
        want = PlanRunner(plan).run(feeds)

        def work(by_step: bool) -> int:
            runner = self.opened(plan, device_steps=by_step)
            return sum(self.tried(lambda: runner.run(feeds), want) for _ in range(3)) if runner else 1

        for by_step, least in ((False, 150), (True, 200)):
            self.sweep(lambda by_step=by_step: work(by_step), least)

    def test_shared_sums(self) -> None:
        """Blocks that share a tile of a deep convolution, and what they count by where there are no clusters."""
        model = onnx_parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
            g (float16[1,128,5,5] x) => (float16[1,64,5,5] y) {
                a = Conv <pads = [1, 1, 1, 1]> (x, w) b = Sigmoid (a)
                c = Conv <pads = [1, 1, 1, 1]> (b, v) y = Sigmoid (c) }""")
        rng = np.random.default_rng(5)
        for name, inner in (("w", 128), ("v", 64)):
            array = rng.standard_normal((64, inner, 3, 3)) / np.sqrt(9 * inner)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float16), name))
        feeds = {"x": rng.standard_normal((1, 128, 5, 5)).astype(np.float16)}
        plan = demi.compile(model, device="cuda")
        want = PlanRunner(plan).run(feeds)

        def work() -> int:
            first = self.opened(plan)
            second = first and self.opened(plan)
            failed = (first is None) + (first is not None and second is None)
            for _ in range(3):
                failed += sum(self.tried(lambda one=one: one.run(feeds), want) for one in (first, second) if one)
            return failed

        self.sweep(work, 100, more="capability=80")
        self.assertIn("tile_32x32_f16", {name for _, name in self.child.counts()})

    def test_sizes_that_change(self) -> None:
        """Recordings are forgotten when memory is given back; contexts after each other, one of two at once."""
        plan = demi.compile(onnx_parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[n,4] x) => (float[n,3] y) {
                w = Constant <value = float[4,3] {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6}> ()
                a = Softmax (x) b = MatMul (a, w) y = Relu (b) }"""), device="cuda")
        processor = PlanRunner(plan)
        inputs = [{"x": np.arange(4 * n, dtype=np.float32).reshape(n, 4) / n} for n in (3, 300)]
        want = [processor.run(feeds) for feeds in inputs]

        def work() -> int:
            failed, kept = 0, self.opened(plan)
            for sizes in ((0, 0, 0, 1, 1, 1), (1, 1, 0, 0)):
                runner = self.opened(plan)
                failed += runner is None or kept is None
                for which in sizes:
                    for one in (runner, kept):
                        failed += one is not None and self.tried(lambda one=one, k=which: one.run(inputs[k]), want[which])
                del runner
                if kept is None:
                    return failed
            return failed

        self.sweep(work, 300)

    def test_memory_of_the_caller(self) -> None:
        """A stream and memory of the caller's, whose own calls may fail, too."""
        plan, feeds, want = self.made(WHOLE)

        def run(driver: Driver, runner: PlanRunner, there: dict, results: list) -> list:
            runner.bind(feeds, there)
            runner.bind_outputs(results, [y.nbytes for y in want])
            for name, x in feeds.items():
                driver.send(there[name], x)
            runner.start()
            runner.wait()
            return [driver.fetch(np.empty_like(y), address) for y, address in zip(want, results)]

        def use(driver: Driver) -> int:
            runner = self.opened(plan, device_stream=driver.stream)
            if not runner:
                return 1
            there, results = {n: driver.room(x.nbytes, 4) for n, x in feeds.items()}, [driver.room(y.nbytes) for y in want]
            return sum(self.tried(lambda: run(driver, runner, there, results), want) for _ in range(self.RUNS))

        def work() -> int:
            driver, failed = None, 0
            try:
                driver = Driver()
                failed = use(driver)
            except Driver.Failed as error:
                self.tell(error)
                failed = 1
            try:
                if driver:
                    driver.end()
            except Driver.Failed as error:
                self.tell(error)
                failed += 1
            return failed

        self.sweep(work, 300)


class BadDevices(OnDevice):
    """Each run that a device or library spoils ends with one line that says what is wrong with it. The host's
    state is whole: contexts of the processor, before and after, compute as ever, the same context does as
    soon as the device is as it should be, and all is given back."""

    RUNS = 4

    def work(self, text: str) -> Callable[[], int]:
        """What goes wrong in the runs of one context is said, a line each; all else is right."""
        model = small_model(text)
        feeds = feeds_for(model)
        plan = demi.compile(model, device="cuda")
        want = PlanRunner(plan).run(feeds)

        def work() -> int:
            processor = PlanRunner(plan)
            runner = PlanRunner(plan, device="cuda")
            for _ in range(self.RUNS):
                try:
                    got = runner.run(feeds)
                except demi.DemiError as error:
                    os.write(2, f"{error.message}\n".encode())
                    got = processor.run(feeds)
                for y, y0 in zip(got, want, strict=True):
                    np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
            del runner
            for y, y0 in zip(PlanRunner(plan).run(feeds), want, strict=True):
                np.testing.assert_array_equal(y, y0)
            return 0

        return work

    def spoilt(self, expected: str, fails: str = "", more: str = "", text: str = WHOLE) -> int:
        """How many runs say what is expected: they say nothing else."""
        code, said = self.child.run(self.work(text), fails, more)
        self.assertEqual(code, 0, (fails, more, said))
        for line in said.splitlines():
            self.assertRegex(line, expected, (fails, more))
        return len(said.splitlines())

    def calls(self, name: str, text: str = WHOLE) -> range:
        """Of a device that is as it should be."""
        self.assertEqual(self.child.run(self.work(text)), (0, ""))
        return range(1, self.child.counts()["call", name] + 1)

    def test_refused(self) -> None:
        """A device that there is none of, or that is too old, is not opened."""
        plan = demi.compile(small_model(WHOLE), device="cuda")

        def work(expected: str) -> int:
            try:
                PlanRunner(plan, device="cuda")
            except demi.EnvironmentFailure as error:
                assert re.search(expected, str(error)), error
                return 0
            return 1

        for told, expected in (("no-device", "there is no CUDA device$"), ("driver=12080", "driver is too old.*13.0.*12.8"),
                               ("capability=75", "too old for demi's kernels.*8.0.*7.5")):
            self.assertEqual(self.child.run(lambda expected=expected: work(expected), more=told), (0, ""), told)

    def test_no_memory(self) -> None:
        """Where it is short always, and where it is for once, wherever that is: then a run may do without."""
        for text in (WHOLE, SMALL, LARGE_HEADS):
            self.assertEqual(self.spoilt(r"not have \d+ bytes left", more="memory=1000", text=text), self.RUNS)
        for name, expected in (("cuMemAlloc_v2", r"not have \d+ bytes left"),
                               ("cuMemHostAlloc", "pinned memory: .*2, CUDA_ERROR_OUT_OF_MEMORY")):
            said = [self.spoilt(expected, f"{name}:{at}:2") for at in self.calls(name)]
            self.assertLessEqual(max(said), 1)
            self.assertTrue(sum(said) > len(said) // 2 or name != "cuMemAlloc_v2", said)

    def test_lost(self) -> None:
        """It stays so; the last wait is that of the context's end."""
        for text in (WHOLE, SMALL):
            said = [self.spoilt("unspecified launch failure", f"cuStreamSynchronize:{at}:719", text=text)
                    for at in self.calls("cuStreamSynchronize", text)[:-1]]
            self.assertEqual(said, sorted(said, reverse=True))
            self.assertEqual(said[0], self.RUNS)
            self.assertIn(1, said)

    def test_waits(self) -> None:
        """Copies that could not be waited for end before what they write to is given back: of the last run at its
        context's end, which waits for them, and for what else there is as ever."""
        calls, waits = self.calls("cuStreamSynchronize"), 0
        for at in calls:
            if self.spoilt("work on the device", f"cuStreamSynchronize:{at}:999"):
                waits = self.child.counts()["call", "cuStreamSynchronize"]
        self.assertEqual(waits, calls[-1] + 1)
        for text in (SMALL, LARGE_HEADS):
            for at in self.calls("cuStreamSynchronize", text):
                said = self.spoilt("work on the device: no explanation|device's context",
                                   f"cuStreamSynchronize:{at}:999", text=text)
                self.assertLessEqual(said, 1)

    def test_other_architecture(self) -> None:
        expected = r"^node '\w+' \(\w+\): demi's CUDA kernels were not built for Fake device$"
        self.assertEqual(self.spoilt(expected, "cuModuleLoadData:0:209"), self.RUNS)
        for at in self.calls("cuModuleLoadData"):
            self.assertEqual(self.spoilt(expected, f"cuModuleLoadData:{at}:222"), 1)

    def test_errors(self) -> None:
        """What an error is, is said by its number and what the driver calls it; of a library by its status."""
        for code, name in ((1, "CUDA_ERROR_INVALID_VALUE"), (2, "CUDA_ERROR_OUT_OF_MEMORY"), (201, "CUDA_ERROR_INVALID_CONTEXT"), (400, "CUDA_ERROR_INVALID_HANDLE"), (999, "unknown")):
            for function, what in (("cuMemcpyHtoDAsync_v2", "a copy to the device"), ("cuMemHostAlloc", "pinned memory"),
                                   ("cuLaunchKernelEx", r"\w+"), ("cuStreamSynchronize", "work on the device")):
                said = self.spoilt(rf"CUDA: {what}: .* \({code}, {name}\)|{name}", f"{function}:1:{code}")
                self.assertEqual(said > 0, function != "cuMemHostAlloc", (function, code))  # which recordings do without
        for function, said in (("cublasLtMatmul", r"cuBLASLt: the product: status 14$"), ("cublasLtCreate", "a handle: status 14$"),
                               ("cudnnBackendExecute", r"cuDNN: a convolution: status 14$"), ("cudnnCreate", "a handle: status 14$")):
            self.assertEqual(self.spoilt(rf"^node '\w+' \(\w+\): .*{said}", f"{function}:1:14"), 1, function)

    def test_other_cudnn(self) -> None:
        for version in (0, 8907, 89999, 100000):
            self.assertEqual(self.spoilt(rf"^node '\w+' \(\w+\): libcudnn\.so\.9 is not cuDNN 9: expected .*, got {version}$",
                                         more=f"cudnn={version}"), self.RUNS)
        for version in (90000, 99999):
            self.assertEqual(self.spoilt("", more=f"cudnn={version}"), 0)

    def test_parts_of_cudnn(self) -> None:
        """They are of another version, or missing, which shows when cuDNN looks for them. A run that is being
        recorded then goes step by step, and says nothing."""
        for status, text in ((1002, "its libraries have different versions"),
                             (1008, "cannot load one of its libraries")):
            for name in ("cudnnCreate", "cudnnBackendFinalize"):
                said = [self.spoilt(rf"^node '\w+' \(\w+\): cuDNN: {text}$", f"{name}:{at}:{status}")
                        for at in self.calls(name)]
                ran = sum(said)
                self.assertEqual(said, [1] * ran + [0] * (len(said) - ran))
                self.assertLessEqual(len(said) - ran, 2)


class Callers(OnDevice):
    """What is the caller's: a stream, memory on the device, when to wait, how much there may be."""

    RUNS = 5

    def ran(self, text: str, use: Callable[[Driver, bytes, dict, list], None]) -> None:
        """`use` of a plan, its inputs and what a processor makes of these, in a process of its own."""
        model = small_model(text)
        feeds = feeds_for(model)
        plan = demi.compile(model, device="cuda")
        want = [np.asarray(y) for y in PlanRunner(plan).run(feeds)]

        def work() -> int:
            driver = Driver()
            use(driver, plan, feeds, want)
            driver.end()
            return 0

        self.assertEqual(self.child.run(work), (0, ""))

    def steered(self, at: int, more: dict, text: str = WHOLE,
                moves: tuple[int, ...] = ()) -> DeviceCounts:
        """Runs that are started in the caller's stream, on the caller's memory, of which inputs are written
        and outputs read by work in that stream alone; `at` bytes behind what is aligned. The counts of
        all runs; before those of `moves` the memory becomes another."""
        counts = self.folder / "told"

        def use(driver: Driver, plan: bytes, feeds: dict, want: list) -> None:
            runner = PlanRunner(plan, device="cuda", device_stream=driver.stream, **more)
            for run in range(self.RUNS):
                if run == 0 or run in moves:
                    there = {n: driver.room(x.nbytes, at) for n, x in feeds.items()}
                    results = [driver.room(y.nbytes, at) for y in want]
                runner.bind(feeds, there)
                runner.bind_outputs(results, [y.nbytes for y in want])
                for name, x in feeds.items():
                    driver.send(there[name], np.zeros_like(x) if run == 2 else x)
                runner.start()
                for y, address in zip(want, results):
                    got = driver.fetch(np.empty_like(y), address)
                    if run != 2:
                        np.testing.assert_allclose(got, y, 1e-4, 1e-5)
                    for name, x in feeds.items():
                        np.testing.assert_array_equal(driver.fetch(np.empty_like(x), there[name]),
                                                      np.zeros_like(x) if run == 2 else x)
                runner.wait()
            counts.write_bytes(bytes(runner.device_counts()))
            del runner

        self.ran(text, use)
        return DeviceCounts.from_buffer_copy(counts.read_bytes())

    def test_memory(self) -> None:
        """Nothing is copied, and from the second run on a recording is repeated."""
        counts = self.steered(0, {})
        self.assertEqual((counts.uploads, counts.downloads, counts.replays), (0, 0, self.RUNS - 1))

    def test_start_after_start(self) -> None:
        """A run that began before the last one ended has its own inputs, of the processor's memory: what that
        one reads of them, recorded or not, is not overwritten."""
        def use(driver: Driver, plan: bytes, feeds: dict, want: list) -> None:
            runner = PlanRunner(plan, device="cuda", device_stream=driver.stream)
            made = driver.room(want[0].nbytes)
            kept = [driver.room(want[0].nbytes) for _ in range(2 * self.RUNS)]
            inputs = [feeds, {n: np.zeros_like(x) for n, x in feeds.items()}]
            results = [want[0], np.asarray(PlanRunner(plan).run(inputs[1])[0])]
            assert np.abs(results[0] - results[1]).max() > 1e-3
            runner.bind_outputs([made], [want[0].nbytes])
            for run, address in enumerate(kept):
                runner.bind(inputs[run % 2])
                runner.start()
                driver.copy(address, made, want[0].nbytes)
            for run, address in enumerate(kept):
                got = driver.fetch(np.empty_like(want[0]), address)
                np.testing.assert_allclose(got, results[run % 2], 1e-4, 1e-5)
            runner.wait()
            assert runner.device_counts().replays > 0
            del runner

        self.ran(WHOLE, use)

    def test_memory_that_moves(self) -> None:
        """A recording knows its memory; where it moves in every run, none is made."""
        for moves, replays in ((range(self.RUNS), 0), ((3,), self.RUNS - 2)):
            counts = self.steered(0, {}, moves=tuple(moves))
            self.assertEqual((counts.uploads, counts.downloads, counts.replays), (0, 0, replays))

    def test_memory_that_is_not_aligned(self) -> None:
        counts = self.steered(4, {})
        self.assertEqual((counts.uploads, counts.downloads, counts.replays), (0, 0, self.RUNS - 1))

    def test_memory_that_the_processor_reads(self) -> None:
        """An output that it makes, of a value that it reads of the device."""
        self.steered(0, {}, SMALL)

    def test_steps(self) -> None:
        self.assertEqual(self.steered(0, {"device_steps": True}).replays, 0)

    def test_start(self) -> None:
        """Of memory of the host's: outputs are there when it was waited for."""
        def use(_: Driver, plan: bytes, feeds: dict, want: list) -> None:
            runner = PlanRunner(plan, device="cuda")
            runner.bind(feeds)
            for run in range(self.RUNS):
                runner.start()
                assert not runner.c.demi_context_output(runner.context, 0)
                if run == 3:
                    runner.start()  # waits for the other one
                runner.wait()
                for y, y0 in zip(runner.results(), want):
                    np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
            runner.start()  # and is forgotten by a run
            for y, y0 in zip(runner.run(feeds), want):
                np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
            runner.start()
            del runner

        self.ran(SMALL, use)

    def test_limit(self) -> None:
        """As much as it needs does, a little less is refused in one line, and a context goes on."""
        peak = self.folder / "peak"

        def measure(_: Driver, plan: bytes, feeds: dict, want: list) -> None:
            runner = PlanRunner(plan, device="cuda")
            for _ in range(3):
                runner.run(feeds)
            peak.write_text(str(runner.device_counts().memory_peak))
            del runner

        def use(_: Driver, plan: bytes, feeds: dict, want: list) -> None:
            most = int(peak.read_text())
            for limit in (most + (1 << 16), most // 2, most // 4, 1000, 1):
                runner, made = PlanRunner(plan, device="cuda", device_memory=limit), 0
                for _ in range(self.RUNS):
                    try:
                        for y, y0 in zip(runner.run(feeds), want):
                            np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
                        made += 1
                    except demi.DemiError as error:
                        assert f"the limit of {limit} bytes" in str(error), error
                        assert "\n" not in error.message, error
                    assert runner.device_counts().memory <= limit, limit
                assert made == self.RUNS or limit < most, limit
                assert made == 0 or limit > 1000, limit
                del runner

        for text in (WHOLE, SMALL):
            self.ran(text, measure)
            self.ran(text, use)

    def test_tf32(self) -> None:
        """Only where it is asked for, and then it is counted: as often as libraries say that they take it, which are
        asked in two runs of three."""
        def use(tf32: bool, plan: bytes, feeds: dict, want: list) -> None:
            runner = PlanRunner(plan, device="cuda", tf32=tf32)
            for _ in range(3):
                for y, y0 in zip(runner.run(feeds), want):
                    np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
            self.counted.write_text(str(runner.device_counts().tf32))
            del runner

        for tf32 in (False, True):
            self.ran(WHOLE, lambda _, *given, tf32=tf32: use(tf32, *given))
            chosen = self.child.counts()["engine", "tf32"]
            self.assertEqual((chosen > 0, chosen * 3), (tf32, int(self.counted.read_text()) * 2))

    def test_as_it_was(self) -> None:
        """The thread's context, and what it said of others' captures, are the caller's again behind every call,
        of one that fails, too."""
        def use(driver: Driver, plan: bytes, feeds: dict, want: list) -> None:
            def same(mode: int) -> None:
                assert driver.current() == driver.context.value
                assert driver.capture_mode(mode) == mode, mode

            for mode in (1, 2, 0):
                driver.capture_mode(mode)
                runner = PlanRunner(plan, device="cuda")
                same(mode)
                for _ in range(self.RUNS):
                    np.testing.assert_allclose(runner.run(feeds)[0], want[0], 1e-4, 1e-5)
                    same(mode)
                del runner
                same(mode)
                short = PlanRunner(plan, device="cuda", device_memory=1)
                try:
                    short.run(feeds)
                    raise AssertionError("it ran")
                except demi.DemiError:
                    same(mode)
                del short
                same(mode)

        self.ran(WHOLE, use)

    def test_capture(self) -> None:
        """While the caller captures the stream, a run is refused, and the capture is whole; a capture of
        another stream, for all threads, goes on beside runs."""
        def use(driver: Driver, plan: bytes, feeds: dict, want: list) -> None:
            for stream in (driver.stream, None):
                runner = PlanRunner(plan, device="cuda", device_stream=stream)
                if stream:
                    runner.run(feeds)
                driver.call("cuStreamBeginCapture_v2", driver.stream, 0)
                for _ in range(3):
                    try:
                        runner.run(feeds)
                        assert not stream, "it ran"
                    except demi.DemiError as error:
                        assert stream and "is being captured" in str(error), error
                del runner
                driver.call("cuGraphDestroy", driver.made_of_capture())

        self.ran(WHOLE, use)


class Threads(OnDevice):
    """Several contexts at once, some of one plan, whose constants they share."""

    THREADS, ROUNDS = 6, 4

    def test_contexts(self) -> None:
        models = [small_model(text) for text in (WHOLE, SMALL)]
        plans = [demi.compile(model, device="cuda") for model in models]
        feeds = [[{n: x * (k + 1) for n, x in feeds_for(model).items()} for k in range(self.THREADS)]
                 for model in models]
        want = []
        for plan, given in zip(plans, feeds):
            processor = PlanRunner(plan)
            want.append([processor.run(f) for f in given])

        def work() -> int:
            kept = [PlanRunner(plan, device="cuda") for plan in plans]
            start = threading.Barrier(self.THREADS)

            def one(number: int) -> None:
                which = number % len(plans)
                start.wait()
                for _ in range(self.ROUNDS):  # made anew: constants come and go beside others' runs
                    runner = PlanRunner(plans[which], device="cuda")
                    for _ in range(self.ROUNDS):
                        for y, y0 in zip(runner.run(feeds[which][number]), want[which][number]):
                            np.testing.assert_allclose(y, y0, 1e-4, 1e-5)
                    del runner

            with futures.ThreadPoolExecutor(self.THREADS) as pool:
                for done in [pool.submit(one, number) for number in range(self.THREADS)]:
                    done.result()
            del kept
            return 0

        self.assertEqual(self.child.run(work), (0, ""))


class Models(OnDevice):
    """Trained ones, with what of them the processor has to do."""

    def test_tune(self) -> None:
        """It says what is tuned, and asks for the device, which it measures on."""
        plan = self.folder / "tuned.plan"
        words = [args.demi, "compile", MODEL, "--device", "cuda", "--tune=1", "--threads", "1", "-o", plan]
        done = subprocess.run(words, env=settings(""), capture_output=True, text=True, check=False)
        self.assertRegex(done.stdout, "^tuned the steps that the CPU runs besides cuda, for 1 thread in .*: "
                                      "none of them has variants, nothing changed\n")
        done = subprocess.run(words, env=settings("no-device"), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("no CUDA", done.stderr)

    def outputs(self, model: pathlib.Path, device: str) -> dict[str, np.ndarray]:
        folder = self.folder / model.stem / device
        folder.mkdir(parents=True)
        done = subprocess.run([args.demi, "run", model, "--random", "1", "--device", device, "-o", folder],
                              env=settings(""), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("on the CPU, because the device", done.stdout)
        return {path.name: np.load(path) for path in folder.glob("*.npy")}

    def test_models(self) -> None:
        for model in sorted((ROOT / "build/data/models").rglob("*.onnx")):
            with self.subTest(model.name):
                want, got = self.outputs(model, "cpu"), self.outputs(model, "cuda")
                self.assertEqual(got.keys(), want.keys())
                for name, y0 in want.items():
                    error, text = metric.float_error(got[name], y0, 1e-3)
                    self.assertEqual(text, "")
                    self.assertLess(error, 1e-4, name)
                self.all_there(model)

    def all_there(self, model: pathlib.Path) -> None:
        """The processor has shapes and control flow alone, and nothing is copied but inputs and outputs."""
        plan = self.folder / "m.plan"
        subprocess.run([args.demi, "compile", model, "--device", "cuda", "-o", plan], check=True,
                       capture_output=True)
        text = subprocess.run([args.demi, "show", plan, "--device", "cuda"], capture_output=True,
                              text=True, check=True).stdout
        graph = onnx.load(model, load_external_data=False).graph
        copies = int(re.search(r"placement: .* (\d+) copies", text)[1])
        self.assertLessEqual(copies, len(graph.input) + len(graph.output))
        reasons = set(re.findall(r"; CPU: (.*)", text))
        self.assertLessEqual(reasons, {"control flow", "shapes depend on it", "it reads only constants",
                                       "its data is in host memory"})


class Networks(OnDevice):
    """Those of known shapes, in float, float16 and bfloat16: small ones, and with their own sizes, and two layers
    where they are transformers, of which (but with --full) what is put into the queue is only counted."""

    RUNS = 3

    def show(self, plan: bytes) -> str:
        path = self.folder / "m.plan"
        path.write_bytes(plan)
        return subprocess.run([args.demi, "show", path, "--device", "cuda"], capture_output=True,
                              text=True, check=True).stdout

    def run_one(self, model: onnx.ModelProto, to: str, idle: bool) -> tuple[collections.Counter, str, tuple]:
        """What was called in all runs, the plan, and what the context counted: launches, and bytes."""
        feeds = made_models.feeds_of(model)
        data = model.SerializeToString()
        want = [] if idle else PlanRunner(demi.compile(data)).run(feeds)
        data = demi.convert(data, to=to, io="low")[0] if to else data
        plan = demi.compile(data, device="cuda")
        limit = metric.TOLERANCE[to] if to else 1e-4
        given = {name: metric.to_low(x, to) if to and x.dtype == np.float32 else x
                 for name, x in feeds.items()}

        def work() -> int:
            runner = PlanRunner(plan, device="cuda")
            for _ in range(self.RUNS):
                for y, y0 in zip(runner.run(given), want):
                    text = metric.compare(y, y0, limit, "it")[1]
                    assert not text, text
            counts = runner.device_counts()
            self.counted.write_bytes(struct.pack("3Q", counts.launches, counts.bytes, counts.replays))
            del runner
            return 0

        code, said = self.child.run(work, more="idle" if idle else "")
        self.assertEqual((code, said), (0, ""))
        launches, moved, replays = struct.unpack("3Q", self.counted.read_bytes())
        self.assertEqual(replays, self.RUNS - 1)
        self.assertEqual((launches % self.RUNS, moved % self.RUNS), (0, 0))
        return self.child.counts(), self.show(plan), (launches // self.RUNS, moved // self.RUNS)

    def launches(self, counts: collections.Counter) -> int:
        """Of one run: all were put into the queue twice, and then repeated."""
        own = sum(n for (kind, _), n in counts.items() if kind in ("launched", "captured"))
        of_libraries = counts["call", "cublasLtMatmul"] + counts["call", "cudnnBackendExecute"]
        self.assertEqual((own + of_libraries) % 2, 0)
        return (own + of_libraries) // 2

    def times(self, model: onnx.ModelProto) -> int:
        """Steps in time of all recurrent layers, each of which is a launch."""
        length = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
        return length * sum(n.op_type == "LSTM" for n in model.graph.node)

    def network(self, name: str) -> None:
        layers = {"layers": 2, "words": 5000} if name in ("bert", "gpt2") else {}  # more words take their time alone
        self.counted_one(name, made_models.MODELS[name](**made_models.SMALL[name]), False)
        self.counted_one(name, made_models.MODELS[name](**layers), not args.full)

    def counted_one(self, name: str, model: onnx.ModelProto, idle: bool) -> None:
        made, casts, moved = [], [], []
        for to in ("", "float16", "bfloat16"):
            counts, plan, told = self.run_one(model, to, idle)
            made.append(self.launches(counts))
            moved.append(told[1])
            self.assertEqual(told[0], made[-1])
            placed = re.search(r"placement: (\d+) steps on the device, (\d+) on the CPU, (\d+)",
                               plan)
            steps, others, copies = map(int, placed.groups())
            ends = len(model.graph.input) + len(model.graph.output)
            self.assertEqual((others, copies), (0, ends), plan)
            self.assertEqual(counts["call", "cuGraphLaunch"], self.RUNS - 1)
            self.assertLessEqual(made[-1], steps * 2 + self.times(model))
            self.assertEqual(counts["engine", "compiled"], 0)
            casts.append(len(re.findall(r"= Cast-", plan)))
        text = f"{name}: {made} launches, {moved} bytes, {casts} casts in float, float16 and bfloat16"
        if args.verbose:
            print(text, flush=True)
        for low in (1, 2):
            self.assertLessEqual(made[low], made[0], text)
            self.assertLessEqual(moved[low], BYTES * moved[0], text)
            self.assertLessEqual(casts[low], casts[0], text)  # the model's own

    def test_resnet(self) -> None:
        self.network("resnet50")

    def test_mobilenet(self) -> None:
        self.network("mobilenetv2")

    def test_bert(self) -> None:
        self.network("bert")

    def test_lstm(self) -> None:
        self.network("lstm")

    def test_gpt(self) -> None:
        self.network("gpt2")


class RealPlans(OnDevice):
    """What the fake cuDNN says it has ready-made engines for, cuDNN itself has, where it is: it plans for
    an H100 that is only described."""

    WHERE = "/usr/local/cuda*/lib*/libcudnn.so.9", "build/venv/lib/python*/site-packages/nvidia/cudnn/lib/libcudnn.so.9"

    def cudnn(self) -> str:
        found = [p for where in self.WHERE for p in sorted(glob.glob(str(ROOT / where)))]
        if not found or not args.dnn_plans:
            self.skipTest("there is no cuDNN")
        return found[0]

    def asked(self, lines: list[str]) -> subprocess.CompletedProcess:
        """In a process without the fakes, whose names cuDNN would take for others'."""
        plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        done = subprocess.run([args.dnn_plans, self.cudnn()], input="".join(lines), env=plain,
                              capture_output=True, text=True, check=False)
        if done.returncode == 77:
            self.skipTest(done.stderr)
        return done

    def planned(self, name: str, to: str) -> list[str]:
        """The convolutions of a network of its own size, all planned before the first result is copied,
        which fails: nothing is computed."""
        plans, plan = self.folder / "plans", self.folder / "m.plan"
        data = made_models.MODELS[name]().SerializeToString()
        data = demi.convert(data, to=to, io="low")[0] if to else data
        plan.write_bytes(demi.compile(data, device="cuda"))
        done = subprocess.run([args.demi, "run", plan, "--random", "1", "--device", "cuda"],
                              env=settings(f"plans={plans},fail=cuMemcpyDtoHAsync_v2:1:719"),
                              capture_output=True, text=True, check=False)
        self.assertIn("a copy from the device", done.stderr)
        return sorted(set(plans.read_text().splitlines(keepends=True)))

    def test_networks(self) -> None:
        self.cudnn()
        for name, least in (("resnet50", 20), ("mobilenetv2", 20)):
            for to in ("", "float16", "bfloat16"):
                with self.subTest(name, to=to):
                    lines = self.planned(name, to)
                    done = self.asked(lines)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                    self.assertIn(f"{len(lines)} convolutions are planned, 0 lack", done.stdout)
                    self.assertGreaterEqual(len(lines), least)

    def test_what_there_is_none_for(self) -> None:
        """A result of another size than it has."""
        self.cudnn()
        lines = [line.split(" ") for line in self.planned("resnet50", "float16")[:3]]
        high = 4 + 2 * 5 + 2  # of y, behind what DnnLine has before it
        for numbers in lines:
            numbers[high] = str(int(numbers[high]) + 1)
        done = self.asked([" ".join(numbers) for numbers in lines])
        self.assertIn("0 convolutions are planned, 3 lack", done.stdout)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    main(__doc__)
