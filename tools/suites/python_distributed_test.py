# SPDX-License-Identifier: Apache-2.0
"""demi_onnx.distributed: the same results as without workers, errors of workers in one line, and nothing left of them.

    tools/suites/python_distributed_test.py --libdemi build/release/libdemi.so [--over ray] [unittest arguments]

With `--over ray`, workers are tasks of a local Ray cluster of two CPUs; Ray, which is not among the tests' packages, is
installed into a folder of its own, as tools/suites/python_packages_test.py does it for other packages.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np
import onnx

from search_test import network
from suite.package import demi, library_option

from demi_onnx import distributed

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETS = 17
OVER = "processes"


def children() -> list[int]:
    """This process's, but not Ray's."""
    found = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(child) for child in found
            if b"demi_onnx._worker" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()]


def kill_worker(number: int) -> None:
    """Kills a worker once it works."""
    def work() -> None:
        for _ in range(200):
            workers = children() if OVER == "processes" else ray_workers()
            if len(workers) == 2:
                time.sleep(0.5)
                os.kill(workers[number], signal.SIGKILL)
                return
            time.sleep(0.05)
    threading.Thread(target=work, daemon=True).start()


def ray_workers() -> list[int]:
    """Processes of the tasks that run."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes().startswith(b"ray::_connect"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


class Distributed(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.model = self.folder / "net.onnx"
        onnx.save(network(batch="n"), self.model)
        random = np.random.default_rng(5)
        self.data = self.folder / "data"
        self.data.mkdir()
        self.sets = [{"x": (random.standard_normal((3, 3, 12, 12)) * random.uniform(0.2, 3)).astype(np.float32)}
                     for _ in range(SETS)]
        for i, feeds in enumerate(self.sets):
            np.savez(self.data / f"s{i:02}.npz", **feeds)

    def tearDown(self) -> None:
        self.assertEqual(children(), [])

    def how(self, workers: int = 2) -> dict:
        return {"workers": workers, "over": OVER}

    def fails(self, kind: type, what: str, function: object, *given: object, **how: object) -> None:
        with self.assertRaises(kind) as caught:
            function(*given, **how)
        self.assertIn(what, caught.exception.message)
        self.assertNotIn("\n", caught.exception.message)

    def test_convert(self) -> None:
        options = {"to": "int8", "calibrate": self.data, "verify": self.sets}
        made, report = demi.convert(self.model, **options)
        told = []
        again, other = distributed.convert(self.model, **options, **self.how(), progress=lambda *what: told.append(what))
        self.assertTrue(told)
        self.assertEqual(again, made)
        self.assertEqual(other.verdict, report.verdict)
        out = self.folder / "out.onnx"
        self.assertIsInstance(distributed.convert(self.model, out, **options, **self.how(1)), demi.Report)
        self.assertEqual(out.read_bytes(), made)

    def test_weights_are_rounded(self) -> None:
        """Of a model in memory, on arrays."""
        model = self.model.read_bytes()
        options = {"to": "int4-weights", "calibrate": self.sets}
        self.assertEqual(distributed.convert(model, **options, **self.how())[0], demi.convert(model, **options)[0])

    def test_calibrate(self) -> None:
        ranges = distributed.calibrate(self.model, self.data, **self.how())
        self.assertEqual(ranges, distributed.calibrate(self.model, self.data, workers=0))
        self.assertEqual(demi.convert(self.model, to="int8", ranges=ranges)[0],
                         demi.convert(self.model, to="int8", calibrate=self.data, equalize="never")[0])

    def test_search(self) -> None:
        options = {"data": self.data, "candidates": ["float", "a16w16", "a8w8"], "target": 30}
        told = []
        result = distributed.search(self.model, **options, **self.how(), progress=lambda *what: told.append(what))
        alone = demi.search(self.model, **options)
        self.assertEqual(result.policy, alone.policy)
        self.assertEqual([p.score for p in result.points], [p.score for p in alone.points])
        self.assertEqual(result.holdout, alone.holdout)
        self.assertTrue(told)

    def test_search_with_a_score(self) -> None:
        def score(made: bytes) -> float:
            return float(len(made))
        result = distributed.search(self.model, data=self.data, candidates=["float", "a8w8"], target=1, score=score,
                                    evaluations=4, **self.how(1))
        self.assertEqual(result.outcome, "found")

    def test_map(self) -> None:
        session = demi.Session(self.model, threads=1)
        want = [session.run(None, feeds) for feeds in self.sets]
        for model, data in ((session, self.sets), (self.model, self.data), (demi.compile(self.model), iter(self.sets)),
                            (self.model, [str(path) for path in sorted(self.data.iterdir())])):
            got = list(distributed.map(model, data, **self.how()))
            self.assertEqual(len(got), SETS)
            for mine, other in zip(got, want):
                np.testing.assert_array_equal(mine[0], other[0])

    def test_map_takes_as_it_goes(self) -> None:
        """Of endless data, and ends where its results are not wanted."""
        taken = []

        def endless() -> object:
            while True:
                taken.append(len(taken))
                yield self.sets[0]

        results = distributed.map(self.model, endless(), outputs=["y"], **self.how())
        for _ in range(10):
            next(results)
        results.close()
        self.assertLess(len(taken), 20)

    def test_errors(self) -> None:
        bad = {"x": np.full((3, 3, 12, 12), np.nan, np.float32)}
        self.fails(demi.ModelError, "has NaN or infinite numbers", distributed.convert, self.model, to="int4-weights",
                   calibrate=[*self.sets[:2], bad], **self.how())
        self.fails(demi.ModelError, "has NaN or infinite numbers", distributed.convert, self.model, to="int4-weights",
                   calibrate=[bad, *self.sets[:2]], **self.how())
        (self.data / "s04.npz").write_bytes(b"PK\3\4 torn")
        self.fails(demi.DemiError, "s04.npz", distributed.calibrate, self.model, self.data, **self.how())
        with self.assertRaises(demi.UsageError) as caught:
            list(distributed.map(self.model, self.data, **self.how()))
        self.assertIn("s04.npz", caught.exception.message)
        self.fails(demi.UsageError, "no such file", distributed.calibrate, self.model, self.folder / "none", **self.how())
        self.fails(demi.UsageError, "nowhere", distributed.calibrate, self.model, self.sets, over="nowhere")
        self.fails(demi.UsageError, "workers", distributed.calibrate, self.model, self.sets, workers=-1)
        self.fails(demi.UsageError, "workers", distributed.map, self.model, self.sets, workers=0)
        self.fails(demi.UsageError, "candidate", distributed.search, self.model, candidate=["float"], **self.how())

    def test_progress_ends_it(self) -> None:
        with self.assertRaises(demi.Cancelled):
            distributed.search(self.model, data=self.data, target=30, progress=lambda what, done, _: done < 2,
                               **self.how())

    def test_a_worker_is_killed(self) -> None:
        many = [*self.sets] * 400
        kill_worker(0)
        self.fails(demi.EnvironmentFailure, "before its work was done", distributed.calibrate, self.model, many,
                   **self.how())
        kill_worker(1)
        with self.assertRaises(demi.EnvironmentFailure):
            list(distributed.map(self.model, many * 10, **self.how()))

    def test_no_ray(self) -> None:
        if OVER == "ray":
            self.fails(demi.UsageError, "the Ray cluster has 2 CPUs", distributed.calibrate, self.model, self.sets,
                       workers=3, over="ray")
            return
        try:
            import ray  # noqa: F401
        except ImportError:
            with self.assertRaises(demi.EnvironmentFailure) as caught:
                distributed.calibrate(self.model, self.sets, over="ray")
            self.assertEqual(caught.exception.hint, "pip install ray")


def over_ray(words: list[str]) -> int:
    """Runs this script again where Ray is installed, without touching the tests' own packages."""
    folder = ROOT / "build/ray"
    if not (folder / "ray").is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "ray"], check=True)
    paths = os.pathsep.join([str(ROOT / "tools/python"), str(ROOT / "tools/suites"), str(folder)])
    with tempfile.TemporaryDirectory() as home:  # where it keeps files of its own
        return subprocess.run([sys.executable, __file__, *words], check=False, env=os.environ | {
            "PYTHONPATH": paths, "HOME": home, "RAY_TMPDIR": home, "DEMI_RAY": "1", "RAY_USAGE_STATS_ENABLED": "0"}).returncode


def main() -> None:
    global OVER
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], parents=[library_option])
    parser.add_argument("--over", default="processes", choices=("processes", "ray"))
    args, rest = parser.parse_known_args()
    OVER = args.over
    if OVER == "ray":
        if "DEMI_RAY" not in os.environ:
            sys.exit(over_ray(sys.argv[1:]))
        import ray
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
