# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check as a whole, on the fake device (tools/fake_cuda, named in LD_LIBRARY_PATH): what is made
runs, a wrong result is seen, and what is missing is said.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOVING = ("transpose", "concat", "expand", "slices", "tiled")  # cases that are the same to the bit
args = argparse.Namespace()


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.carried = cls.folder / "carried.zip"
        subprocess.run([sys.executable, "-B", ROOT / "tools/gpu_check", "make", cls.folder, "--cases", "70",
                        "--tiny", "lstm,mobilenetv2", "--libdemi", args.libdemi, "--demi", args.demi],
                       check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.folder)

    def check(self, carried: pathlib.Path, environment: dict[str, str]) -> tuple[int, str, dict]:
        """By the carried script, in Python's own library alone; exit code, messages, report."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", self.folder / "tools/gpu_check", "run", carried, "--library",
             args.runtime, "--patience", "10", "--rounds", "1", "--runs", "1", "--json", report, "--text",
             self.folder / "report.txt"], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr, json.loads(report.read_text()) if report.exists() else {}

    def test_all(self) -> None:
        code, said, report = self.check(self.carried, dict(os.environ))
        self.assertEqual((code, said), (0, ""), json.dumps(report)[:3000])
        self.assertGreater(len(report["kernels"]["kernels"]), 50)
        self.assertEqual([r["wrong"] for r in report["networks"]["rows"]], [""] * 6)
        self.assertGreater(report["times"]["rows"][0]["float16_bytes"], 0)

    def test_one(self) -> None:
        """What a profiler is given; and a network that was not carried."""
        for network, code, said in (("lstm", 3, "gpu_check: no float16 lstm of batch 1 was carried\n"),
                                    ("mobilenetv2", 0, "")):
            done = subprocess.run([sys.executable, "-I", "-S", "-B", self.folder / "tools/gpu_check", "one", self.carried,
                                   "--library", args.runtime, "--network", network, "--runs", "1"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (code, said))

    def test_wrong_result(self) -> None:
        """Another output of the emulator's than the device gives."""
        spoilt = self.folder / "spoilt.zip"
        with zipfile.ZipFile(self.carried) as old, zipfile.ZipFile(spoilt, "w") as new:
            manifest = json.loads(old.read("manifest.json"))
            case = next(c for c in manifest["cases"] if c["what"] in MOVING)
            manifest |= {"cases": [case], "networks": [], "timed": []}
            for name in old.namelist():
                data = old.read(name)
                new.writestr(name, json.dumps(manifest) if name == "manifest.json"
                             else bytes(255 - b for b in data) if name in case["emulator"] else data)
        code, said, report = self.check(spoilt, dict(os.environ))
        self.assertEqual((code, said), (1, ""))
        self.assertIn("beside the emulator", report["kernels"]["failed"][0]["wrong"])

    def test_missing(self) -> None:
        code, said, _ = self.check(self.carried, os.environ | {"FAKE_CUDA": "no-device"})
        self.assertEqual((code, said), (3, "gpu_check: there is no CUDA device\n"))
        code, said, _ = self.check(self.folder / "nothing.zip", dict(os.environ))
        self.assertEqual(code, 3)
        self.assertIn("there is no ", said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True)
    parser.add_argument("--libdemi", required=True, help="demi's shared library")
    parser.add_argument("--runtime", required=True, help="the library that runs plans alone")
    parser.parse_known_args(namespace=args)
    unittest.main(argv=[sys.argv[0], *parser.parse_known_args()[1]])


if __name__ == "__main__":
    main()
