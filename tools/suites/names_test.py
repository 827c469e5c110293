# SPDX-License-Identifier: Apache-2.0
"""Names that would steer a terminal, through every command.

A model has control characters (C0 with an escape sequence and a line break, C1 as UTF-8 and as bare
bytes), bidirectional controls, separators and bytes that are not UTF-8 in every string that it
holds; so has its path. Nothing that any command prints may hold one of these as it is, nor begin a
line with what follows the line break in a name.

usage: names_test.py --demi DEMI [--kinds csi,raw] [unittest arguments]
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import onnx
from onnx import TensorProto, helper

from suite.command import work_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMI, KINDS = "demi", []
EVIL = {
    "csi": "a\x1b[31mb\x07", "line": "a\nINJECTED valid", "delete": "a\x7f\rb",
    "c1": "a\u009b31mb\u0085c", "bidi": "a\u202egnp.exe\u2066\u2069\u200f\u061cb",
    "separator": "a\u2028b\u2029c\ufeff", "plain": "stra\u00dfe \u540d\u524d",
}
RAW = b"a\x9b31mb\x85\xff"  # put into the bytes in place of this:
PLACE = "RAWRAWR"


def hostile(character: str) -> bool:
    code = ord(character)
    return (code < 0x20 and character != "\n" or 0x7f <= code <= 0x9f or code == 0x61c
            or 0x200b <= code <= 0x200f or 0x2028 <= code <= 0x202e or 0x2060 <= code <= 0x206f
            or code == 0xfeff or 0xdc80 <= code <= 0xdcff)  # the last: bytes that are not UTF-8


def make_model(evil: str, custom: bool) -> bytes:
    """Every string field holds it. `custom`: with an operator and a function of that name, too."""
    def name(what: str) -> str:
        return f"{what}{evil}"
    x = helper.make_tensor_value_info(name("x"), TensorProto.FLOAT, [name("N"), 4])
    y = helper.make_tensor_value_info(name("y"), TensorProto.FLOAT, [name("N"), 4])
    h = helper.make_tensor_value_info(name("h"), TensorProto.FLOAT, [name("N"), 4])
    for info in (x, y):
        info.doc_string = evil
    branch = helper.make_graph([helper.make_node("Identity", [name("h")], [name("t")],
                                                 name=name("in"))], name("then"), [],
                               [helper.make_tensor_value_info(name("t"), TensorProto.FLOAT, None)])
    nodes = [helper.make_node("MatMul", [name("x"), name("w")], [name("h")], name=name("mm"),
                              doc_string=evil),
             helper.make_node("If", [name("c")], [name("i")], name=name("if"),
                              then_branch=branch, else_branch=branch),
             helper.make_node("Softmax", [name("i")], [name("s")], name=name("sm")),
             helper.make_node("Relu", [name("s")], [name("y")])]
    functions = []
    if custom:
        nodes[-1].output[0] = name("r")
        nodes.append(helper.make_node("Op" + evil, [name("r")], [name("o")], domain=evil,
                                      **{"attr" + evil: evil}))
        nodes.append(helper.make_node("F" + evil, [name("o")], [name("y")], domain="f" + evil))
        functions.append(helper.make_function(
            "f" + evil, "F" + evil, [name("a")], [name("b")],
            [helper.make_node("Neg", [name("a")], [name("b")], name=name("neg"))],
            [helper.make_opsetid("", 17)]))
    w = helper.make_tensor(name("w"), TensorProto.FLOAT, [4, 4], [1e9] + [1e-9] * 15)
    graph = helper.make_graph(nodes, name("g"), [x], [y], [
        w, helper.make_tensor(name("c"), TensorProto.BOOL, [], [True])], doc_string=evil,
        value_info=[h])
    opsets = [helper.make_opsetid("", 17)]
    if custom:
        opsets += [helper.make_opsetid(evil, 1), helper.make_opsetid("f" + evil, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions,
                              producer_name=evil, domain=evil, doc_string=evil)
    helper.set_model_props(model, {evil: evil})
    data = model.SerializeToString()
    return data.replace(PLACE.encode(), RAW)


def make_invalid(evil: str) -> dict[str, bytes]:
    """Faults that name what is at fault."""
    x = helper.make_tensor_value_info("x" + evil, TensorProto.FLOAT, [4])
    def model(*nodes: onnx.NodeProto) -> bytes:
        graph = helper.make_graph(nodes, "g" + evil, [x], [x])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return made.SerializeToString().replace(PLACE.encode(), RAW)
    external = TensorProto(name="w" + evil, data_type=TensorProto.FLOAT, dims=[4],
                           data_location=TensorProto.EXTERNAL)
    external.external_data.add(key="location", value=evil or "w")
    lost = helper.make_model(helper.make_graph([], "g", [x], [x], [external]), ir_version=8)
    return {
        "undefined": model(helper.make_node("Relu", ["u" + evil], ["r" + evil], name="n" + evil)),
        "twice": model(helper.make_node("Relu", ["x" + evil], ["x" + evil], name="n" + evil)),
        "operator": model(helper.make_node("No" + evil, ["x" + evil], ["r"], name="n" + evil)),
        "attribute": model(helper.make_node("Relu", ["x" + evil], ["r"], **{"a" + evil: evil})),
        "data": lost.SerializeToString().replace(PLACE.encode(), RAW),
    }


class Names(unittest.TestCase):
    def setUp(self) -> None:
        self.place = work_folder()
        self.addCleanup(shutil.rmtree, self.place)

    def check(self, *words: str | bytes, codes: tuple[int, ...] = (0, 1, 2)) -> str:
        done = subprocess.run([DEMI, *words], capture_output=True, cwd=self.place, check=False,
                              stdin=subprocess.DEVNULL, timeout=600)
        for stream in (done.stdout, done.stderr):
            said = stream.decode(errors="surrogateescape")
            found = [f"{ord(c):x} in {said[max(0, i - 40):i + 20]!r}" for i, c in enumerate(said)
                     if hostile(c)]
            with self.subTest(words=words):
                self.assertEqual(found[:2], [])
                self.assertNotIn("\nINJECTED", said)
                self.assertIn(done.returncode, codes, said)
        return done.stdout.decode(errors="surrogateescape")

    def every_command(self, model: str, other: str, evil: str) -> None:
        check = self.check
        for to in ("float16", "bfloat16"):
            check("convert", model, "-o", "out.onnx", "--to", to, "--json", "-")
            check("convert", model, "-n", "--to", to, "--time-passes")
        check("convert", model, "-n", "--why", "mm" + evil, "--why", "no" + evil)
        check("convert", model, "-n", "--keep", "no" + evil, "--keep-ops", "no" + evil)
        check("convert", model, "-n", "--keep", "mm" + evil, "--print-policy")
        if "\udc9b" not in evil:  # a pipeline has no way to say a byte that is not UTF-8
            check("convert", model, "-n", "--keep", "mm" + evil, "--print-pipeline")
        check("convert", model, "-n", "--range", evil + "=1", "--low-input", "x" + evil)
        check("convert", model, "-n", "--report", "-", "--overflow", "error")
        check("convert", model, "-o", "out.onnx", "--report", "-", "--quiet")
        check("convert", model, "-o", "fp16.onnx", "--overflow", "inf")
        check("convert", model, "-o", "v.onnx", "--verify", "random", "--max-error", "1e-9")
        check("opt", model, "-p", "infer-dtypes,print", "--json", "-")
        check("opt", model, "-p", "infer-shapes", "--print-after", "all")
        for form in ("--stats", "--text", "--text=full", "--json", "--dot"):
            check("show", model, form)
        check("show", "fp16.onnx", "--text=full")
        check("check", model, "--json", "-")
        check("check", "fp16.onnx", "--against", model, "--random", "1")
        check("check", other, "--against", model)
        check("check", "fp16.onnx", "--against", model, "--policy", "bfloat16")
        check("diff", model, "fp16.onnx")
        check("diff", model, other)
        check("diff", other, model, "--json", "-")
        check("diff", model, "out.onnx", "--strict")
        check("run", model)
        check("run", model, "--random", "1", "--json", "-", "--output-dir", "d")
        check("run", model, "--random", "1", "--shape", "x" + evil + "=2x4")
        check("run", model, "--random", "1", "--shape", "x" + evil + "=2x5")
        check("run", model, "--input", "no" + evil + "=a")
        check("compare", model, "fp16.onnx", "--max-error", "1e-9")
        check("compare", model, "fp16.onnx", "--max-error", "1e-9", "--json", "-")
        check("compile", model, "-o", "m.plan")
        if (self.place / "m.plan").exists():
            check("show", "m.plan")
            check("check", "m.plan", "--against", other)
        for form in ("text", "markdown", "csv"):
            check("bench", model, "--runs", "1", "--no-peak", "--format", form)
        check("bench", model, "--runs", "1", "--no-peak", "--json", "-", "--trace", "t.json")

    def test_every_command(self) -> None:
        for kind, evil in {**EVIL, "raw": PLACE}.items():
            if KINDS and kind not in KINDS:
                continue
            for custom in (False, True):
                for name, custom_too in (("m.onnx", custom), ("other.onnx", not custom)):
                    (self.place / name).write_bytes(make_model(evil, custom_too))
                with self.subTest(kind=kind, custom=custom):
                    shown = RAW.decode(errors="surrogateescape") if evil == PLACE else evil
                    self.every_command("m.onnx", "other.onnx", shown)

    def test_faults(self) -> None:
        for evil in [*EVIL.values(), PLACE]:
            for data in make_invalid(evil).values():
                (self.place / "bad.onnx").write_bytes(data)
                for words in (["check"], ["convert", "-n"], ["show"], ["run", "--random", "1"],
                              ["opt", "-p", "infer-shapes"], ["compile", "-o", "p.plan"],
                              ["check", "--json", "-"], ["diff", "bad.onnx", "--strict"]):
                    self.check(*words, "bad.onnx")

    def test_paths(self) -> None:
        for evil in [*EVIL.values(), os.fsdecode(RAW)]:
            path = evil.replace("/", "") + ".onnx"
            (self.place / os.fsencode(path).decode(errors="surrogateescape")).write_bytes(
                make_model("", False))
            for words in (["check"], ["show"], ["convert", "-n"], ["run", "--random", "1"],
                          ["bench", "--runs", "1", "--no-peak"], ["compare", path],
                          ["diff", path], ["check", "--against", path], ["run"],
                          ["opt", "-p", "infer-dtypes", "-o", "no/" + path]):
                self.check(*words, path)
            self.check("compile", path, path + ".plan")
            self.check("show", path + ".plan")
            self.check("run", path + ".plan", "--random", "1")
            for command in ("check", "show", "convert", "diff", "run", "compare", "bench", "opt",
                            "compile"):
                self.check(command, "no" + path, "no" + path, codes=(1, 2, 3))
                self.check(command, "--no" + path, codes=(2,))
            self.check("no" + path, codes=(2,))
            self.check("help", "no" + path, codes=(2,))

    def test_names_are_kept(self) -> None:
        """Escaped where they are shown, they stay what they were in what is read by programs."""
        for kind, evil in EVIL.items():
            (self.place / "m.onnx").write_bytes(make_model(evil, True))
            shown = json.loads(self.check("show", "m.onnx", "--json", "-", codes=(0,)))
            with self.subTest(kind=kind):
                self.assertIn("x" + evil, [row["name"] for row in shown["inputs"]])
                text = self.check("show", "m.onnx", "--text=full", codes=(0,))
                (self.place / "m.onnxtxt").write_text(text)
                self.check("diff", "m.onnx", "m.onnxtxt", codes=(0,))
                policy = self.check("convert", "m.onnx", "-n", "--keep", "mm" + evil,
                                    "--print-policy", codes=(0,))
                self.assertEqual(json.loads(policy)["keep"], ["mm" + evil])
                (self.place / "policy.json").write_text(policy)
                self.check("convert", "m.onnx", "-n", "--policy", "policy.json", codes=(0,))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--kinds", default="", help="of names, for test_every_command")
    options, rest = parser.parse_known_args()
    KINDS = options.kinds.split(",") if options.kinds else []
    DEMI = str(pathlib.Path(options.demi).resolve())
    unittest.main(argv=[sys.argv[0], *rest])
