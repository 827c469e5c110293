# SPDX-License-Identifier: Apache-2.0
"""All files that a command writes appear, or none.

Every command with several outputs is run with each of its calls for files failing in turn, with a
signal at each of them, and killed at each (fail_call.c, preloaded). Then every destination is what
it was before or all are new; nothing else is left, and what a killed run leaves goes with the next.
And every pair of outputs, and of an output and a file that is read, is refused where both are one
file.

usage: outputs_test.py --demi DEMI --cc CC [--every N] [unittest arguments]
"""

import argparse
import errno
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import numpy_helper

from suite import fail_call
from suite.command import work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMI, CC, EVERY = "demi", "cc", 1
OLD = b"the old one\n"
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (float[2,3] y, float[2,3] z)
<float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}>
{ h = MatMul (x, w) y = Relu (h) z = Sigmoid (h) }
"""
IN_PLACE = b"its folder cannot be synced"
SIGNALS = [signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGXCPU, signal.SIGALRM,
           signal.SIGHUP, signal.SIGTERM, signal.SIGUSR2, signal.SIGVTALRM, signal.SIGPROF,
           signal.SIGIO, signal.SIGRTMIN, signal.SIGRTMAX]


class Scene:
    """A folder with models and old outputs, and a command that writes there."""

    def __init__(self, place: pathlib.Path, words: list[str], outputs: list[str]) -> None:
        self.place, self.words, self.outputs = place, words, outputs

    def fresh(self) -> dict[str, bytes]:
        """Every second output is there already. All contents by name."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(SOURCES, self.place)
        for name in self.outputs[::2]:
            (self.place / name).parent.mkdir(exist_ok=True)
            (self.place / name).write_bytes(OLD)
        return self.contents()

    def contents(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.place)): path.read_bytes()
                for path in sorted(self.place.rglob("*")) if path.is_file()}

    def folders(self) -> set[str]:
        return {str(p.relative_to(self.place)) for p in self.place.rglob("*") if p.is_dir()}

    def run(self, stdout: object = subprocess.DEVNULL, **env: object) -> tuple[int, bytes]:
        done = subprocess.run([DEMI, *self.words], cwd=self.place, stdout=stdout,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False,
                              timeout=600, env=fail_call.environment(SHIM, **env))
        return done.returncode, done.stderr


def convert(*more: str) -> list[str]:
    return ["convert", "ext.onnx", "-o", "out.onnx", "--report", "r.html", "--json", "r.json",
            *more]


# Words, and the outputs besides those that are named by content.
SCENES = {
    "convert": (convert("--quiet"), ["out.onnx", "r.html", "r.json"]),
    "convert, no report": (["convert", "m.onnx", "-o", "out.onnx"], ["out.onnx"]),
    "convert in other folders": (
        ["convert", "m.onnx", "-o", "a/out.onnx", "--report", "b/r.html", "--json", "a/r.json"],
        ["a/out.onnx", "a/r.json", "b/r.html"]),
    "convert to text": (["convert", "m.onnx", "out.onnxtxt", "--json", "r.json"],
                        ["out.onnxtxt", "r.json"]),
    "opt": (["opt", "ext.onnx", "-p", "infer-dtypes", "-o", "out.onnx", "--json", "r.json"],
            ["r.json", "out.onnx"]),
    "compile": (["compile", "m.onnx", "-o", "out.plan"], ["out.plan"]),
    "run": (["run", "m.onnx", "--random", "1", "--output-dir", "d", "--save-inputs", "e", "--json",
             "r.json"],
            ["d/output_0.pb", "d/y.npy", "d/output_1.pb", "d/z.npy", "r.json", "e/input_0.pb"]),
    "bench": (["bench", "m.onnx", "--runs", "1", "--warmup", "0", "--no-peak", "--kernels", "own",
               "--trace", "t.json", "--json", "r.json"], ["t.json", "r.json"]),
    "compare": (["compare", "m.onnx", "m.onnx", "--json", "r.json", "--save-inputs", "d"],
                ["r.json", "d/input_0.pb"]),
    "check": (["check", "m.onnx", "--json", "r.json"], ["r.json"]),
    "diff": (["diff", "m.onnx", "m.onnx", "--json", "r.json"], ["r.json"]),
    "show": (["show", "m.onnx", "--json", "r.json"], ["r.json"]),
}


class Failing(unittest.TestCase):
    def scenes(self) -> list[tuple[str, Scene]]:
        for name, (words, outputs) in SCENES.items():
            yield name, Scene(WORK / "scene", words, outputs)

    def calls(self, scene: Scene, **env: object) -> int:
        count = WORK / "count"
        count.unlink(missing_ok=True)
        scene.fresh()
        scene.run(FAIL_AT=0, FAIL_COUNT=count, **env)
        return count.stat().st_size if count.exists() else 0

    def judge(self, scene: Scene, before: dict[str, bytes], code: int, said: bytes) -> bool:
        """All new, or all old; True for new. Files named by content come and go with out.onnx."""
        after = scene.contents()
        litter = [n for n in after if ".demi-" in n]
        self.assertEqual(litter, [])
        data = {n for n in after if n.startswith("out.onnx.") and n.endswith(".data")}
        for name in set(before) - set(scene.outputs):
            self.assertEqual(before[name], after.get(name), f"{name} was touched")
        new = [after.get(name) not in (None, OLD) for name in scene.outputs]
        done = code == 0 or IN_PLACE in said
        self.assertEqual(new, [done] * len(new), f"exit {code}: {said!r}, new: {new}")
        if not done:
            self.assertEqual(after, before)
            self.assertFalse(data)
        return done

    def test_every_call_fails(self) -> None:
        total = 0
        for name, scene in self.scenes():
            number = self.calls(scene)
            self.assertGreater(number, 10)
            synced = self.calls(scene, FAIL_NAME="fsync")
            data = sum(n.startswith("out.onnx.") for n in scene.contents())
            self.assertGreater(synced, len(scene.outputs) + 2 * data,
                               f"{name}: each file, their folder, and that once more behind data")
            for at in range(1, number + 1, EVERY):
                code_ = errno.ENOSPC if at % 2 else errno.EIO
                before, folders = scene.fresh(), scene.folders()
                code, said = scene.run(FAIL_AT=at, FAIL_WITH=code_)
                with self.subTest(scene=name, call=at):
                    if not self.judge(scene, before, code, said):
                        self.assertEqual(scene.folders(), folders)
                        self.assertIn(code, (1, 2, 3))
                        self.assertTrue(said.startswith(b"demi: "), said)
                total += 1
        print(f"{total} failing calls", file=sys.stderr)

    def test_without_swapping(self) -> None:
        """A file system that can't swap names: what it can't take back it names."""
        without = {"FAIL_ALWAYS": "renameat2", "FAIL_ALWAYS_WITH": errno.EINVAL}
        for name, scene in self.scenes():
            before = scene.fresh()
            with self.subTest(scene=name):
                self.assertTrue(self.judge(scene, before, *scene.run(**without)))
            for at in range(1, self.calls(scene, FAIL_NAME="renameat", **without) + 1):
                before = scene.fresh()
                code, said = scene.run(FAIL_AT=at, FAIL_WITH=errno.EIO, FAIL_NAME="renameat",
                                       **without)
                after = scene.contents()
                with self.subTest(scene=name, rename=at):
                    self.assertEqual(code, 3)
                    for path in scene.outputs:
                        new = after.get(path) not in (None, OLD)
                        self.assertTrue(not new or (path in before and b"was replaced nevertheless" in said),
                                        said)
                    self.assertEqual(after.get("out.onnx"), before.get("out.onnx"))
                    self.assertFalse([p for p in after if ".demi-" in p])

    def test_signals(self) -> None:
        """Nothing is left, and outputs are of one run, whichever call a signal arrives at."""
        numbers = itertools.cycle(SIGNALS)
        for name, scene in self.scenes():
            for at in range(1, self.calls(scene) + 1, EVERY):
                before, number = scene.fresh(), next(numbers)
                code, said = scene.run(FAIL_AT=at, FAIL_WITH=-int(number))
                with self.subTest(scene=name, call=at, signal=number):
                    self.assertEqual(code, -int(number))
                    after = scene.contents()
                    new = {after.get(p) not in (None, OLD) for p in scene.outputs}
                    self.assertEqual(len(new), 1, f"{said!r}: {after.keys()}")
                    self.assertFalse([p for p in after if ".demi-" in p])
                    if new == {False}:
                        self.assertEqual(after, before)

    def test_killed(self) -> None:
        """Each file is whole, and the next run takes away what was left."""
        for name, scene in self.scenes():
            for at in range(1, self.calls(scene) + 1, 4 * EVERY):
                scene.fresh()
                code, _ = scene.run(FAIL_AT=at, FAIL_WITH=-int(signal.SIGKILL))
                with self.subTest(scene=name, call=at):
                    self.assertEqual(code, -9)
                    code, said = scene.run()
                    self.assertEqual(code, 0, said)
                    self.assertFalse([p for p in scene.contents() if ".demi-" in p])

    def test_killed_at_names(self) -> None:
        """A model that has its name has its data, whichever name is given last."""
        scene = Scene(WORK / "scene", *SCENES["convert"])
        for at in range(1, self.calls(scene, FAIL_NAME="renameat2") + 1):
            scene.fresh()
            scene.run(FAIL_NAME="renameat2", FAIL_AT=at, FAIL_WITH=-int(signal.SIGKILL))
            made = scene.place / "out.onnx"
            if made.read_bytes() != OLD:
                onnx.load(made)  # with its data

    def test_full_standard_output(self) -> None:
        """Text that can't be printed is a failure like any other; that nobody reads it is none."""
        for name, scene in self.scenes():
            if "--quiet" in scene.words:
                scene.words = [word for word in scene.words if word != "--quiet"]
            if name in ("opt", "show"):
                continue  # with --json FILE they print nothing
            with self.subTest(scene=name), open("/dev/full", "wb") as full:
                before = scene.fresh()
                code, said = scene.run(stdout=full)
                self.assertEqual(code, 3)
                self.assertFalse(self.judge(scene, before, code, said))
            with self.subTest(scene=name, gone=True):
                before = scene.fresh()
                read_end, write_end = os.pipe()
                os.close(read_end)
                code, said = scene.run(stdout=write_end)
                os.close(write_end)
                self.assertTrue(self.judge(scene, before, code, said))
                self.assertEqual(said, b"")

    def test_closed_standard_output(self) -> None:
        """Then no file may get its number, and the text with it."""
        scene = Scene(WORK / "scene", ["convert", "m.onnx", "-o", "out.onnx"], ["out.onnx"])
        before = scene.fresh()
        command = f"exec {DEMI} convert m.onnx -o out.onnx >&- 2>err"
        code = subprocess.run(["sh", "-c", command], cwd=scene.place, check=False).returncode
        said = (scene.place / "err").read_bytes()
        (scene.place / "err").unlink()
        self.assertEqual(code, 3)
        self.assertFalse(self.judge(scene, before, code, said))


class Places(unittest.TestCase):
    def test_weights_beside_and_inside(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            def demi(*words: str) -> tuple[int, str]:
                done = subprocess.run([DEMI, *words, "-q"], cwd=folder, capture_output=True, text=True, check=False)
                return done.returncode, done.stderr

            place = pathlib.Path(folder)
            numbers = ", ".join(map(str, range(1600)))
            (place / "m.onnxtxt").write_text(f"""<ir_version: 8, opset_import: ["" : 17]>
                g (float[2,40] x) => (float[2,40] y) <float[40,40] w = {{{numbers}}}> {{ y = MatMul (x, w) }}""")
            self.assertEqual(demi("convert", "m.onnxtxt", "-o", "in.onnx"), (0, ""))
            self.assertEqual(demi("convert", "m.onnxtxt", "-o", "out.onnx", "--external"), (0, ""))
            data, = place.glob("out.onnx.*.data")
            self.assertGreaterEqual(data.stat().st_size, 3200)
            self.assertLess((place / "out.onnx").stat().st_size, 2000)
            onnx.checker.check_model(str(place / "out.onnx"))
            self.assertEqual(demi("opt", "out.onnx", "--passes", "eliminate-dead-code", "-o", "one.onnx", "--one-file"),
                             (0, ""))
            self.assertFalse(list(place.glob("one.onnx.*.data")))
            self.assertEqual((place / "one.onnx").read_bytes(), (place / "in.onnx").read_bytes())
            for words, why in ((("-o", "a.onnx", "--one-file"), "not both"), (("-o", "-"), "needs an output file")):
                for where in (("--external",), ("--data-name", "d")):
                    code, text = demi("convert", "m.onnxtxt", *words, *where)
                    self.assertEqual(code, 2)
                    self.assertIn(why, text)

    def test_names_of_data(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            def convert(out: str, name: str, *more: str) -> tuple[int, str]:
                words = [DEMI, "convert", "m.onnxtxt", "-q", "-o", out, "--data-name", name, *more]
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
                return done.returncode, done.stderr

            place = pathlib.Path(folder)
            numbers = ", ".join(str(i % 7) for i in range(1600))
            (place / "m.onnxtxt").write_text(f"""<ir_version: 8, opset_import: ["" : 17]>
                g (float[2,40] x) => (float[2,40] y) <float[40,40] w = {{{numbers}}}> {{ y = MatMul (x, w) }}""")
            self.assertEqual(convert("a.onnx", "weights"), (0, ""))
            self.assertEqual((place / "weights").stat().st_size, 3200)
            onnx.checker.check_model(str(place / "a.onnx"))
            self.assertEqual(convert("a.onnx", "weights", "--to", "bfloat16"), (0, ""))  # its own
            onnx.checker.check_model(str(place / "a.onnx"))
            self.assertEqual(convert("b.onnx", "weights", "--to", "bfloat16"), (0, ""))  # equal
            (place / "notes").write_text("of somebody's")
            before = {path.name: path.read_bytes() for path in place.iterdir()}
            for out, name, why in (("a.onnx", "weights", "is not this model's own data file"),
                                   ("c.onnx", "weights", "is not this model's own data file"),
                                   ("c.onnx", "notes", "is not this model's own data file"),
                                   ("c.onnx", "c.onnx", "same file"), ("c.onnx", "m.onnxtxt", "overwrite"),
                                   ("c.onnx", "../w", "not a plain file name"), ("c.onnx", "", "not a plain file name")):
                with self.subTest(out=out, name=name):
                    code, text = convert(out, name)
                    self.assertEqual(code, 2, text)
                    self.assertIn(why, text)
                    self.assertEqual({path.name: path.read_bytes() for path in place.iterdir()}, before)


class SameFile(unittest.TestCase):
    """One file under two names, in every way that it can be spelled."""

    def setUp(self) -> None:
        self.scene = Scene(WORK / "scene", [], [])
        self.scene.fresh()
        self.place = self.scene.place
        (self.place / "here").symlink_to(".")

    def spell(self, name: str) -> list[str]:
        """The same file: another path, through a folder's link, as a link."""
        link = self.place / f"link-{name}"
        if not link.is_symlink():
            link.symlink_to(name)
        return [name, f"./{name}", f"here/{name}", str(self.place / name), link.name]

    def refused(self, words: list[str]) -> None:
        before = self.scene.contents()
        self.scene.words = words
        code, said = self.scene.run()
        with self.subTest(words=words):
            self.assertEqual(code, 2, said)
            self.assertIn(b"same file" if b"same file" in said else b"overwrite", said)
            self.assertEqual(self.scene.contents(), before)

    def test_pairs_of_outputs(self) -> None:
        pairs = [(["convert", "m.onnx"], ["-o", "--report", "--json", "--reproducer"]),
                 (["opt", "m.onnx", "-p", "infer-dtypes"], ["-o", "--json", "--reproducer"]),
                 (["bench", "m.onnx", "--runs", "1"], ["--trace", "--json"])]
        for words, options in pairs:
            for one, two in itertools.combinations(options, 2):
                for exists in (False, True):
                    if exists:
                        (self.place / "same").write_bytes(OLD)
                    for spelled in self.spell("same"):
                        more = [] if "-o" in (one, two) or words[0] != "convert" else ["-n"]
                        self.refused([*words, *more, one, "same", two, spelled])
                (self.place / "same").unlink()
                (self.place / "link-same").unlink()

    def test_output_is_read(self) -> None:
        (self.place / "policy").write_text("{}")
        for name in ("x.raw", "a=b.raw"):
            (self.place / name).write_bytes(bytes(24))
        shutil.copy(self.place / "m.onnx", self.place / "model")
        for path in self.spell("policy"):
            self.refused(["convert", "m.onnx", "-n", "--policy", "policy", "--json", path])
            self.refused(["convert", "m.onnx", "--policy", "policy", "-o", path])
        for path in self.spell("model"):
            for words in (["show", "model"], ["check", "model"], ["bench", "model"],
                          ["diff", "model", "m.onnx"], ["compare", "m.onnx", "model"],
                          ["check", "m.onnx", "--against", "model"], ["convert", "-n", "model"]):
                self.refused([*words, "--json", path])
            self.refused(["compile", "model", "-o", path])
            self.refused(["convert", "-n", "model", "--report", path])
            self.refused(["bench", "model", "--trace", path])
        for given, name in (("x=x.raw", "x.raw"), ("a=b=x.raw", "x.raw"), ("x=a=b.raw", "a=b.raw")):
            for path in self.spell(name):
                self.refused(["run", "m.onnx", "--input", given, "--json", path])

    def test_output_is_a_set_of_inputs(self) -> None:
        np.savez(self.place / "sets.npz", x=np.zeros((2, 3), np.float32))
        (self.place / "sets/s0").mkdir(parents=True)
        for name in ("sets/a.npz", "sets/s0/x.npz"):
            shutil.copy(self.place / "sets.npz", self.place / name)
        for path in ("sets/a.npz", "here/sets/a.npz"):
            self.refused(["convert", "m.onnx", "--to", "int8", "--calibrate", "sets", "-o", path])
            self.refused(["convert", "m.onnx", "-n", "--verify", "sets", "--json", path])
            self.refused(["run", "m.onnx", "--data", "sets", "--json", path])
            self.refused(["compare", "m.onnx", "m.onnx", "--data", "sets", "--json", path])

    def test_output_is_data_of_the_input(self) -> None:
        for path in self.spell("weights.bin"):
            for words in (["convert", "ext.onnx", "-o", path],
                          ["convert", "ext.onnx", "-n", "--json", path],
                          ["convert", "ext.onnx", "-n", "--report", path],
                          ["opt", "ext.onnx", "-p", "infer-dtypes", "-o", path],
                          ["opt", "ext.onnx", "-p", "infer-dtypes", "--json", path],
                          ["compile", "ext.onnx", "-o", path], ["show", "ext.onnx", "--json", path],
                          ["check", "ext.onnx", "--json", path],
                          ["check", "m.onnx", "--against", "ext.onnx", "--json", path],
                          ["diff", "m.onnx", "ext.onnx", "--json", path],
                          ["compare", "m.onnx", "ext.onnx", "--json", path],
                          ["bench", "ext.onnx", "--trace", path],
                          ["run", "ext.onnx", "--random", "1", "--json", path]):
                self.refused(words)

    def test_saved_values_are_data_of_the_input(self) -> None:
        (self.place / "weights.bin").rename(self.place / "output_0.pb")
        model = (self.place / "ext.onnx").read_bytes()
        (self.place / "ext.onnx").write_bytes(model.replace(b"weights.bin", b"output_0.pb"))
        self.refused(["run", "ext.onnx", "--random", "1", "--output-dir", "."])

    def test_standard_output_is_an_output(self) -> None:
        scene = self.scene
        scene.words = ["convert", "m.onnx", "-o", "out.onnx", "--json", "text"]
        with open(self.place / "text", "wb") as text:
            code, said = scene.run(stdout=text)
        self.assertEqual(code, 2, said)
        self.assertFalse((self.place / "out.onnx").exists())

    def test_output_may_be_the_input(self) -> None:
        for words in (["convert", "m.onnx", "-o", "here/m.onnx"],
                      ["opt", "m.onnx", "-p", "infer-dtypes", "-o", "m.onnx"]):
            self.scene.words = words
            code, said = self.scene.run()
            self.assertEqual(code, 0, said)

    def test_devices_are_not_one_file(self) -> None:
        self.scene.words = ["convert", "m.onnx", "-o", "/dev/null", "--json", "/dev/null",
                            "--report", "/dev/null"]
        self.assertEqual(self.scene.run()[0], 0)

    def test_the_destination_is_tried_first(self) -> None:
        """Before the model is read: one that is missing would be noticed first otherwise."""
        for words in (["convert", "none.onnx", "-o", "no/out.onnx"],
                      ["convert", "none.onnx", "-n", "--report", "no/r.html"],
                      ["convert", "none.onnx", "-n", "--json", "no/r.json"],
                      ["convert", "none.onnx", "-n", "--reproducer", "no/r.txt"],
                      ["opt", "none.onnx", "-p", "print", "-o", "no/out.onnx"],
                      ["compile", "none.onnx", "-o", "no/out.plan"],
                      ["bench", "none.onnx", "--trace", "no/t.json"],
                      ["run", "none.onnx", "--random", "1", "--output-dir", "no/out"],
                      ["run", "none.onnx", "--random", "1", "--save-inputs", "no/in"],
                      ["compare", "none.onnx", "m.onnx", "--save-inputs", "no/in"],
                      ["check", "none.onnx", "--json", "no/r.json"]):
            self.scene.words = words
            code, said = self.scene.run()
            with self.subTest(words=words):
                self.assertEqual(code, 2)
                self.assertIn(b"no/", said)
                self.assertNotIn(b"none.onnx", said)


def make_sources() -> None:
    (SOURCES / "m.txt").write_text(MODEL)
    subprocess.run([DEMI, "opt", "m.txt", "-p", "infer-dtypes", "-o", "m.onnx", "--quiet"],
                   cwd=SOURCES, check=True)
    model = onnx.load(SOURCES / "m.onnx")
    for tensor in model.graph.initializer: # only raw data goes into a file
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save_model(model, SOURCES / "ext.onnx", save_as_external_data=True, size_threshold=0,
                    location="weights.bin")
    (SOURCES / "m.txt").unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--every", type=int, default=1, help="of the calls, only each N-th")
    options, rest = parser.parse_known_args()
    DEMI, CC, EVERY = str(pathlib.Path(options.demi).resolve()), options.cc, options.every
    WORK = work_folder()
    try:
        SOURCES, SHIM = WORK / "sources", fail_call.build(WORK, CC)
        SOURCES.mkdir()
        make_sources()
        unittest.main(argv=[sys.argv[0], *rest], verbosity=1)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
