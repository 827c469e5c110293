# SPDX-License-Identifier: Apache-2.0
"""Bad input and odd outputs, end to end: what the command does to the user's files.

Whatever goes in, `demi` ends with a documented code and one line, and the destination is complete
and new or untouched, with nothing else left in its folder. Groups: damaged models, external data
that tries to leave its folder (suite/escapes.py), usage errors, odd destinations, interruptions, a
full disk. Run it on the sanitizer build too: a sanitizer's report is a failure of its own.
"""

import argparse
import os
import pathlib
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading

import onnx
from onnx import TensorProto, helper

from suite import escapes, fail_call
from suite.command import work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLD = b"the old output\n"
TIMEOUT_S = 600
ONE_LINE = {1, 3}  # exit codes with one line on stderr; usage errors may say more
SANITIZER = ("Sanitizer", "runtime error:", "==ERROR")


def small_model(rows: int = 4) -> onnx.ModelProto:
    """y = MatMul(x, W) with a W of rows x 4 floats."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["y"], name="matmul")], "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[rows, 4],
                     raw_data=b"\0\0\x80\x3f" * (4 * rows))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def listing(folder: pathlib.Path) -> dict[str, tuple]:
    """Names, kinds and contents of a folder's entries."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = path.read_bytes() if stat.S_ISREG(mode) else (
            os.readlink(path) if stat.S_ISLNK(mode) else None)
        found[str(path.relative_to(folder))] = (stat.S_IFMT(mode), content)
    return found


class Test:
    """Runs the command and counts failures by case."""

    def __init__(self, demi: str, folder: pathlib.Path) -> None:
        self.demi, self.folder, self.cases, self.failures = demi, folder, 0, 0

    def run(self, *args: str, **more: object) -> subprocess.CompletedProcess:
        try:
            return subprocess.run([self.demi, *args], capture_output=True, timeout=TIMEOUT_S,
                                  check=False, **{"stdin": subprocess.DEVNULL, **more})
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(args, 124, b"", b"no end\n")

    def judge(self, what: str, *problems: str) -> None:
        self.cases += 1
        problems = tuple(p for p in problems if p)
        if problems:
            self.failures += 1
            print(f"FAIL {what}: {'; '.join(problems)}")

    def ended(self, done: subprocess.CompletedProcess, codes: set[int]) -> str:
        """Why a run's end is not one of these documented ones, or ""."""
        text = done.stderr.decode(errors="replace")
        if any(word in text for word in SANITIZER):
            return f"sanitizer: {text[:300]}"
        if done.returncode not in codes:
            return f"exit {done.returncode}, expected {sorted(codes)}: {text[:200]!r}"
        lines = [line for line in text.splitlines() if not line.startswith("hint: ")]
        if done.returncode in ONE_LINE and len(lines) != 1:
            return f"stderr is not one line and perhaps a hint: {text[:200]!r}"
        return ""

    def fresh(self) -> pathlib.Path:
        """An empty case folder."""
        place = self.folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def refuse(self, what: str, data: bytes, codes: set[int]) -> None:
        """Converts these bytes over an old output and looks at what is left."""
        place = self.fresh()
        (place / "in.onnx").write_bytes(data)
        (place / "out.onnx").write_bytes(OLD)
        before = listing(place)
        done = self.run("convert", str(place / "in.onnx"), "-o", str(place / "out.onnx"), "--quiet")
        after, problem = listing(place), self.ended(done, codes)
        if done.returncode == 0:
            new = after.pop("out.onnx", (0, b""))[1]
            before.pop("out.onnx")
            self.judge(what, problem, "" if parses(new) else "exit 0, yet no model written",
                       "" if before == after else f"litter: {sorted(after.keys() ^ before.keys())}")
        else:
            self.judge(what, problem, "" if before == after else "the folder changed")


def parses(data: bytes) -> bool:
    try:
        return onnx.load_from_string(data).HasField("graph")
    except Exception:
        return False


def damaged(test: Test, models: list[pathlib.Path], number: int, rng: random.Random) -> None:
    """Truncations and flipped bytes of small models. Exit 2 is for an input whose type is gone:
    the command could be told it."""
    small = [m for m in models if 0 < m.stat().st_size < 4096]
    for _ in range(number):
        path = rng.choice(small)
        data = path.read_bytes()
        cut = rng.randrange(len(data))
        test.refuse(f"{path.parent.name} cut at {cut}", data[:cut], {0, 1, 2})
        flipped, at = bytearray(data), rng.randrange(len(data))
        flipped[at] ^= 1 << rng.randrange(8)
        test.refuse(f"{path.parent.name} flipped at {at}", bytes(flipped), {0, 1, 2})
    test.refuse("empty file", b"", {1})
    test.refuse("text", b"this is not a model\n", {1})
    test.refuse("only a header", onnx.ModelProto(ir_version=8).SerializeToString(), {1})
    deep = b""
    for _ in range(200):  # a graph in an attribute in a node in a graph …
        for number_ in (1, 5, 6):  # graph.node, node.attribute, attribute.g
            deep = bytes([number_ << 3 | 2]) + length(len(deep)) + deep
    test.refuse("depth 600", b"\x08\x08\x3a" + length(len(deep)) + deep, {1})
    test.refuse("tag 0", small_model().SerializeToString() + b"\x00\x00", {1})
    newer = small_model()
    newer.ir_version = 99
    test.refuse("IR 99", newer.SerializeToString(), {1})
    newer = small_model()
    newer.opset_import[0].version = 99
    test.refuse("opset 99", newer.SerializeToString(), {1})


def length(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def external(test: Test) -> None:
    """External data that leaves its folder or lies about itself."""
    for case in escapes.CASES:
        place = test.fresh()
        home = escapes.prepare(place)
        (home / "m.onnx").write_bytes(escapes.model(case, place).SerializeToString())
        (home / "out.onnx").write_bytes(OLD)
        before = listing(place)
        done = test.run("convert", str(home / "m.onnx"), "-o", str(home / "out.onnx"), "--quiet")
        problem = test.ended(done, {0} if case.good else {1})
        if case.good:
            test.judge(f"external data {case.name}", problem)
        else:
            changed = "" if listing(place) == before else "the folder changed"
            test.judge(f"external data {case.name}", problem, changed)


def lost_weights(test: Test) -> None:
    """Weights in a file that is missing, or was cut: the message says what to do."""
    place = test.fresh()
    model = small_model()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    weight.external_data.add(key="length", value="64")
    (place / "m.onnx").write_bytes(model.SerializeToString())
    for data, hint in ((None, b"next to the model"), (bytes(63), b"may be truncated"),
                       (b"", b"may be truncated")):
        if data is not None:
            (place / "w.bin").write_bytes(data)
        done = test.run("check", str(place / "m.onnx"))
        test.judge(f"weights {data!r}", test.ended(done, {1}),
                   "" if hint in done.stderr else f"no hint: {done.stderr!r}")


def usage(test: Test) -> None:
    """Exit 2, something on stderr and nothing on stdout; --help and --version are not errors."""
    place = test.fresh()
    model, out = str(place / "m.onnx"), str(place / "o.onnx")
    (place / "m.onnx").write_bytes(small_model().SerializeToString())
    wrong = [[], ["nonsense"], ["convert"], ["convert", model, "-o", out, "--nonsense"],
             ["convert", model, "-o"], ["convert", model, "-o", out, "--to", "int3"],
             ["convert", model, "-o", out, "--io", "sideways"],
             ["convert", model, "-o", out, "--keep", "no-such-node"],
             ["convert", model, "-o", out, "--keep", "re:("],
             ["convert", model, "-o", out, "--keep-ops", "NoSuchOp"],
             ["opt", model, "--passes", "no-such-pass", "-o", out],
             ["opt", model, "--passes", "insert-casts{", "-o", out],
             ["opt", model, "--passes", "insert-casts{to=float16,nonsense=1}", "-o", out],
             ["show"], ["show", model, "--nonsense"], ["check"]]
    for args in wrong:
        done = test.run(*args)
        test.judge(f"usage {args}", test.ended(done, {2}), "" if done.stderr else "nothing said",
                   "" if not done.stdout else "stdout is not empty",
                   "" if not pathlib.Path(out).exists() else "an output was written")
    for args in (["--help"], ["--version"], ["convert", "--help"], ["opt", "--help"],
                 ["show", "--help"], ["check", "--help"]):
        done = test.run(*args)
        test.judge(f"usage {args}", test.ended(done, {0}), "" if done.stdout else "nothing said")
    done = test.run("convert", str(place / "missing.onnx"), "-o", out)
    test.judge("missing input", test.ended(done, {1, 2, 3}))
    done = test.run("check", model)
    test.judge("check of a good model", test.ended(done, {0}))
    (place / "bad.onnx").write_bytes(b"\x08\x08nonsense")
    for command in (["check"], ["show"]):
        test.judge(f"{command[0]} of a bad model",
                   test.ended(test.run(*command, str(place / "bad.onnx")), {1}))


def destinations(test: Test) -> None:
    """Symlinks, devices, FIFOs, directories, the input itself, streams, file modes."""
    def prepare() -> tuple[pathlib.Path, str]:
        place = test.fresh()
        (place / "m.onnx").write_bytes(small_model().SerializeToString())
        return place, str(place / "m.onnx")

    place, model = prepare()
    (place / "real.onnx").write_bytes(OLD)
    (place / "link.onnx").symlink_to("real.onnx")
    done = test.run("convert", model, "-o", str(place / "link.onnx"), "--quiet")
    test.judge("output is a symlink", test.ended(done, {0}),
               "" if (place / "link.onnx").is_symlink() else "the link was replaced",
               "" if parses((place / "real.onnx").read_bytes()) else "its target was not written")
    place, model = prepare()
    done = test.run("convert", model, "-o", "/dev/null", "--quiet")
    test.judge("output is a device", test.ended(done, {0}),
               "" if stat.S_ISCHR(os.stat("/dev/null").st_mode) else "/dev/null was replaced")
    place, model = prepare()
    os.mkfifo(place / "fifo")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((place / "fifo").read_bytes()), daemon=True)
    reader.start()
    done = test.run("convert", model, "-o", str(place / "fifo"), "--quiet")
    reader.join(TIMEOUT_S)
    test.judge("output is a FIFO", test.ended(done, {0}),
               "" if got and parses(got[0]) else "its reader got no model",
               "" if stat.S_ISFIFO((place / "fifo").lstat().st_mode) else "the FIFO was replaced")
    place, model = prepare()
    (place / "folder").mkdir()
    done = test.run("convert", model, "-o", str(place / "folder"), "--quiet")
    test.judge("output is a directory", test.ended(done, {2}),
               "" if not list((place / "folder").iterdir()) else "litter")
    place, model = prepare()
    done = test.run("convert", model, "-o", model, "--quiet")
    test.judge("output is the input", test.ended(done, {0}),
               "" if listing(place).keys() == {"m.onnx"} else "litter",
               "" if parses(pathlib.Path(model).read_bytes()) else "no model any more")
    for mode in (0o600, 0o640, 0o755):
        place, model = prepare()
        (place / "out.onnx").write_bytes(OLD)
        (place / "out.onnx").chmod(mode)
        done = test.run("convert", model, "-o", str(place / "out.onnx"), "--quiet")
        kept = stat.S_IMODE((place / "out.onnx").stat().st_mode)
        test.judge(f"output of mode {mode:o}", test.ended(done, {0}),
                   "" if kept == mode else f"became {kept:o}")
    place, model = prepare()
    done = test.run("convert", model, "-o", str(place / "none" / "out.onnx"), "--quiet")
    test.judge("output in a missing folder", test.ended(done, {1, 2, 3}))
    done = test.run("convert", "-", "-o", "-", stdin=open(model, "rb"))
    test.judge("stdin to stdout", test.ended(done, {0}),
               "" if parses(done.stdout) else "stdout is not a model")


def interruptions(test: Test) -> None:
    """A signal at a write of a big output, and a reader that goes away."""
    place, shim = test.fresh(), fail_call.build(test.folder)
    model, out, count = place / "big.onnx", place / "out.onnx", test.folder / "count"
    model.write_bytes(small_model(1_000_000).SerializeToString())

    def convert(**settings: object) -> subprocess.CompletedProcess:
        out.write_bytes(OLD)
        return test.run("convert", str(model), "-o", str(out), "--quiet",
                        env=fail_call.environment(shim, FAIL_NAME="write", **settings))

    test.judge("big model", test.ended(convert(FAIL_COUNT=count), {0}))
    writes = count.stat().st_size
    test.judge("big model's writes", "" if writes > 4 else f"only {writes}")
    for number in (signal.SIGTERM, signal.SIGINT):
        for at in (writes // 5 + 1, writes // 2 + 1, writes):
            done = convert(FAIL_AT=at, FAIL_WITH=-int(number))
            names = {p.name for p in place.iterdir()}
            test.judge(f"{number.name} at write {at} of {writes}", test.ended(done, {-number}),
                       "" if names == {"big.onnx", "out.onnx"} else f"litter: {sorted(names)}",
                       "" if out.read_bytes() == OLD else "the output is not the old one")
    filled = place / "wide.onnx"
    wide = small_model()
    for i in range(20_000):
        wide.graph.node.add(op_type="Relu", input=["y"], output=[f"r{i}"], name=f"n{i}")
    filled.write_bytes(wide.SerializeToString())
    process = subprocess.Popen([test.demi, "show", str(filled), "--text"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(1)
    process.stdout.close()
    text = process.stderr.read().decode(errors="replace")
    process.wait()
    test.judge("a reader that goes away", "" if not text else f"said {text[:200]!r}")


def full_disk(test: Test) -> None:
    """No room for the output: exit 3 and the old file, by a file size limit and on a full disk."""
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    place = test.fresh()
    (place / "m.onnx").write_bytes(small_model(100_000).SerializeToString())
    (place / "out.onnx").write_bytes(OLD)
    before = listing(place)
    done = test.run("convert", str(place / "m.onnx"), "-o", str(place / "out.onnx"), "--quiet",
                    preexec_fn=limit)
    test.judge("file size limit", test.ended(done, {3}),
               "" if listing(place) == before else "the folder changed")
    disk = place / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)],
                             capture_output=True, check=False)
    if mounted.returncode:
        print(f"not tested: a full disk (mount: {mounted.stderr.decode().strip()})")
        return
    try:
        (disk / "out.onnx").write_bytes(OLD)
        before = listing(disk)
        done = test.run("convert", str(place / "m.onnx"), "-o", str(disk / "out.onnx"), "--quiet")
        test.judge("full disk", test.ended(done, {3}),
                   "" if listing(disk) == before else "the folder changed")
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Bad input and odd outputs, end to end.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--number", type=int, default=300, help="damaged models of each kind")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    folder = work_folder()
    test = Test(str(pathlib.Path(args.demi).resolve()), folder)
    try:
        models = sorted(args.data.glob("*/*/model.onnx"))
        if not models:
            sys.exit(f"bad_input: no models under {args.data} (tools/test fetches them)")
        damaged(test, models, args.number, random.Random(args.seed))
        external(test)
        lost_weights(test)
        usage(test)
        destinations(test)
        interruptions(test)
        full_disk(test)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"bad_input: {test.cases} cases, {test.failures} failures")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
