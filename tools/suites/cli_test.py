#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the demi command from outside: help, options, exit codes, streams, reports.

usage: cli_test.py DEMI [unittest arguments]
Models are written as text, so that nothing but the command itself is needed.
"""
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

DEMI = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "demi"
COMMANDS = ["convert", "simplify", "opt", "show", "check", "diff", "compile", "run", "bench", "compare", "search",
            "make-training", "train", "help"]

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x) => (float[N,3] y)
<float[3,3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}>
{
    ["/mm"] h = MatMul (x, w)
    ["/act"] y = Relu (h)
}
"""


def run(*words, stdin=None, **more):
    return subprocess.run([DEMI, *words], input=stdin, capture_output=True, timeout=600, **more)


def text(data):
    return data.decode()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = self.path("model.onnxtxt")
        with open(self.model, "w") as file:
            file.write(MODEL)

    def path(self, name):
        return os.path.join(self.folder, name)

    def ok(self, *words, **more):
        done = run(*words, **more)
        self.assertEqual((done.returncode, text(done.stderr) if done.returncode else ""), (0, ""))
        return done

    def fails(self, code, *words, **more):
        """Runs, expects the exit code and one line (and perhaps a hint) on standard error."""
        done = run(*words, **more)
        lines = text(done.stderr).splitlines()
        self.assertEqual(done.returncode, code, lines)
        self.assertTrue(lines and lines[0].startswith("demi: "), lines)
        self.assertLessEqual(len(lines), 2, lines)
        if len(lines) == 2:
            self.assertTrue(lines[1].startswith("hint: "), lines)
        return text(done.stderr)

    def converted(self):
        out = self.path("out.onnx")
        self.ok("convert", self.model, "-o", out, "--quiet")
        return out


class Help(Case):
    def test_overview_names_every_command(self):
        out = text(self.ok("--help").stdout)
        for command in COMMANDS:
            self.assertRegex(out, rf"(?m)^  {command} ")
        self.assertEqual(out, text(self.ok("help").stdout))

    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            out = text(self.ok(command, "--help").stdout)
            self.assertEqual(out, text(self.ok("help", command).stdout))
            self.assertIn(f"Usage: demi {command}", out)
            self.assertIn("Examples:", out)
            wide = [line for line in out.split("Examples:")[0].splitlines() if len(line) > 80]
            self.assertEqual(wide, [])

    def test_every_option_of_help_is_accepted(self):
        for command in COMMANDS:
            out = text(run(command, "--help").stdout)
            for name in re.findall(r"(?m)^  (?:-., )?(--[a-z0-9-]+)", out):
                error = text(run(command, f"{name}=x", "--help").stderr)
                self.assertNotIn("unknown option", error)

    def test_short_help(self):
        """-h fits on a screen and gives an example; --help has all, under headings."""
        for command in COMMANDS:
            short, long = (text(self.ok(command, word).stdout) for word in ("-h", "--help"))
            options = re.findall(r"^  (?:-\w, )?--[\w-]+", short, re.M)
            self.assertLessEqual(len(options), 15, command)
            self.assertLess(len(short.splitlines()), 50, command)
            self.assertIn("Example", short)
            self.assertRegex(short, f"\n  demi {command} |demi help")
            self.assertLessEqual(len(short), len(long))
            self.assertLessEqual(set(options),
                                 set(re.findall(r"^  (?:-\w, )?--[\w-]+", long, re.M)))
        headings = re.findall(r"^(\w[\w ,]*):$", text(self.ok("convert", "--help").stdout), re.M)
        self.assertLessEqual({"Result", "Nodes to keep in float32", "Policy", "Reports"}, set(headings))
        self.assertEqual(self.ok("-V").stdout, self.ok("--version").stdout)

    def test_version(self):
        self.assertRegex(text(self.ok("--version").stdout), r"^demi \d+\.\d+\.\d+\n$")

    def test_no_command(self):
        done = run()
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn("Usage:", text(done.stderr))

    def test_man_page_renders(self):
        page = self.ok("help", "--man").stdout
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        done = subprocess.run(["groff", "-man", "-Tascii", "-P-c"], input=page,
                              capture_output=True)
        for command in COMMANDS:
            self.assertIn(f"demi {command}", text(done.stdout))

    def test_completions_parse(self):
        for shell in ["bash", "zsh", "fish"]:
            script = self.ok("help", "--completion", shell).stdout
            self.assertIn(b"keep-ops", script)
            if not shutil.which(shell):
                continue
            done = subprocess.run([shell, "-n"], input=script, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.fails(2, "help", "--completion", "csh")

    def complete(self, *words):
        script = self.path("demi.bash")
        with open(script, "wb") as file:
            file.write(run("help", "--completion", "bash").stdout)
        program = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; '
                   'COMP_POINT=${#COMP_LINE}; _demi; '
                   'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", program, script, *words], capture_output=True)
        self.assertEqual(done.stderr, b"")
        return text(done.stdout).split()

    def test_bash_completes(self):
        self.assertEqual(self.complete("demi", "con"), ["convert"])
        self.assertEqual(self.complete("demi", "convert", "--keep-"), ["--keep-ops"])
        self.assertEqual(self.complete("demi", "convert", "--io", "l"), ["low"])


class Options(Case):
    def test_unknown_ones_name_the_nearest(self):
        self.assertIn("did you mean '--keep-ops'", self.fails(2, "convert", "--kep-ops", "x"))
        self.assertIn("did you mean 'demi convert'", self.fails(2, "konvert"))
        for word, command in (("quantize", "convert --to int8"), ("inspect", "show"), ("optimize", "simplify")):
            self.assertIn(f"use 'demi {command}'", self.fails(2, word, "x"))
        self.assertIn("did you mean 'show'", self.fails(2, "help", "shwo"))
        self.assertIn("--help", self.fails(2, "show", "--xyzzyxyzzy"))
        self.fails(2, "show", "-Z")
        self.fails(2, "--nonsense")

    def test_bad_values(self):
        self.assertIn("float16 bfloat16", self.fails(2, "convert", self.model, "--to", "int3"))
        self.fails(2, "convert", self.model, "o", "--io", "LOW")
        self.fails(2, "convert", self.model, "o", "--io", "lo")
        self.assertIn("needs a value", self.fails(2, "convert", "a", "b", "--to"))
        self.assertIn("needs a value", self.fails(2, "convert", "a", "b", "--to", "--io", "low"))
        self.assertIn("needs a value", self.fails(2, "convert", "a", "b", "--to="))
        self.assertIn("takes no value", self.fails(2, "convert", "a", "b", "--dry-run=yes"))

    def test_missing_and_needless_arguments(self):
        self.fails(2, "convert")
        self.fails(2, "convert", self.model)
        self.fails(2, "convert", self.model, "a", "b")
        self.fails(2, "convert", self.model, "a", "-o", "b")
        self.fails(2, "opt", self.model)
        self.fails(2, "show")
        self.fails(2, "check")

    def pipeline(self, *words):
        return text(self.ok("convert", "--print-pipeline", *words).stdout)

    def test_pipeline_says_what_the_options_say(self):
        self.assertIn("to=float16,io=keep", self.pipeline())
        out = self.pipeline("--to", "bfloat16", "--io=low", "--keep", "/a/*", "--keep", 'q"\\',
                            "--keep-ops", "Add,Mul", "--keep-ops", "Sub", "--allow-unmatched",
                            "--input-dtype", "x=float")
        self.assertIn("to=bfloat16,io=low", out)
        self.assertIn('keep=["/a/*","q\\"\\\\"]', out)
        self.assertIn('keep-ops=["Add","Mul","Sub"]', out)
        self.assertEqual(self.pipeline("--low-ops", "+Add,+Mul"),
                         self.pipeline("--low-ops", "+Add", "--low-ops", "+Mul"))
        self.assertIn("allow-unmatched=true", out)
        self.assertIn('infer-dtypes{inputs=["x=float"]}', out)

    def test_simplify_is_a_pipeline(self):
        source, out, same = (self.path(n) for n in ("in.onnxtxt", "out.onnx", "same.onnx"))
        with open(source, "w") as file:
            file.write(MODEL.replace("y = Relu (h)", "i = Identity (h)  y = Relu (i)"))
        passes = text(self.ok("simplify", "--print-pipeline").stdout).strip()
        self.ok("simplify", source, out, "-q", "--json", self.path("report.json"))
        self.ok("opt", source, "--passes", passes, "-o", same)
        with open(out, "rb") as a, open(same, "rb") as b:
            self.assertEqual(a.read(), b.read())
        with open(self.path("report.json")) as file:
            self.assertEqual(json.load(file)["node_count"], {"before": 3, "after": 2})
        self.assertTrue(self.pipeline("--simplify").startswith(passes + ","))
        sized = self.ok("simplify", source, "-o", "-", "--shape", "x=4x3").stdout
        self.assertIn("float[4,3]", text(self.ok("show", "-", "--text", stdin=sized).stdout))
        named = text(self.ok("simplify", "--print-pipeline", "--dim", 'N"=2', "--inexact").stdout)
        self.assertTrue(named.startswith('set-shapes{dims=["N\\"=2"]},'))
        self.assertIn("fold-constants{inexact=true}", named)
        self.assertIn("'M'", self.fails(2, "simplify", source, "--dim", "M=2"))
        self.assertIn("fixed size", self.fails(2, "simplify", source, "--shape", "x=4x4"))
        self.assertIn("two outputs", self.fails(2, "simplify", source, "a", "-o", "b"))

    def test_opset(self):
        self.assertEqual(self.pipeline("--opset", "keep"), self.pipeline())
        self.assertTrue(self.pipeline("--opset", "21").startswith("upgrade-opset{to=21},infer"))
        self.assertTrue(self.pipeline("--opset=auto", "--to", "bf16")
                        .startswith("upgrade-opset{for=bfloat16},infer"))
        for wrong in ["0", "99", "latest", "21x", "", "-1"]:
            self.assertIn("--opset", self.fails(2, "convert", "--print-pipeline",
                                                f"--opset={wrong}"))

    def test_former_names(self):
        """Names of an earlier version are accepted, and neither printed nor shown."""
        rows = re.findall(r'FORMERLY\("([^"]+)", "([^"]+)"\)', (pathlib.Path(__file__).resolve().parents[2] / "passes/former_names.def").read_text())
        listed = [line.split(":")[0] for line in text(self.ok("opt", "--list-passes").stdout).splitlines() if line[0] != " "]
        self.assertGreater(len(rows), 10)
        for former, name in rows:
            self.assertIn(name, listed)
            self.assertNotIn(former, listed)
            self.assertNotIn("unknown pass", text(run("opt", self.model, "--passes", former).stderr))
        for command, former, name in (("simplify", "strip-notes", "strip-doc-strings"),
                                      ("make-training", "spelled", "decompose")):
            self.assertNotIn("unknown option", text(run(command, self.model, "-o", self.path("o.onnx"),
                                                        f"--{former}").stderr))
            shown = text(self.ok("help", command).stdout)
            self.assertIn(f"--{name}", shown)
            self.assertNotIn(f"--{former}", shown)

    def test_other_spellings(self):
        for to in ["fp16", "half"]:
            self.assertEqual(self.pipeline("--to", to), self.pipeline())
        self.assertEqual(self.pipeline("--to", "bf16"), self.pipeline("--to", "bfloat16"))
        self.assertEqual(self.pipeline("--io", "low", "--keep_io_types"), self.pipeline())
        self.assertEqual(self.pipeline("--op_block_list", "Add"),
                         self.pipeline("--keep-ops", "Add"))
        self.assertEqual(self.pipeline("--node-block-list=/a"), self.pipeline("--keep", "/a"))
        self.assertEqual(self.pipeline("--op_types_to_exclude=Add"),
                         self.pipeline("--keep_ops=Add"))
        self.assertEqual(self.pipeline("--nodes-to-exclude", "/a"), self.pipeline("--keep", "/a"))

    def test_value_beside_a_letter(self):
        for word in ["-o={}", "-o{}"]:
            out = self.path("beside.onnx")
            self.ok("convert", self.model, word.format(out), "-q")
            os.remove(out)

    def test_other_tools_lines(self):
        """Lists without commas, True and False, as Model-Optimizer and onnxconverter-common have
        them; a model ends a list."""
        self.assertEqual(self.pipeline("--half"), self.pipeline())
        self.assertEqual(self.pipeline("--fp16"), self.pipeline())
        self.assertEqual(self.pipeline("--bf16"), self.pipeline("--to", "bfloat16"))
        for value, to in [("fp16", "float16"), ("bf16", "bfloat16")]:
            self.assertEqual(self.pipeline("--low_precision_type", value),
                             self.pipeline("--to", to))
        two = self.pipeline("--keep", "/a", "--keep", "/b")
        for name in ["nodes_to_exclude", "nodes-to-exclude", "node_block_list"]:
            self.assertEqual(self.pipeline(f"--{name}", "/a", "/b"), two)
            self.assertEqual(self.pipeline(f"--{name}", "/a", "/b", "--quiet"), two)
        ops = self.pipeline("--keep-ops", "Add,Mul")
        for name in ["op_types_to_exclude", "op_block_list"]:
            self.assertEqual(self.pipeline(f"--{name}", "Add", "Mul"), ops)
            self.assertEqual(self.pipeline(f"--{name}", "Add", "--op_block_list=Mul"), ops)
        low = self.pipeline("--io", "low")
        for name in ["--keep_io_types", "--keep-io-types"]:
            for true in [[name], [name, "True"], [name, "true"], [name, "1"], [name + "=True"]]:
                self.assertEqual(self.pipeline("--io", "low", *true), self.pipeline())
            for false in [[name, "False"], [name, "0"], [name + "=False"]]:
                self.assertEqual(self.pipeline(*false), low)
            self.assertIn("True or False", self.fails(2, "convert", self.model, f"{name}=maybe"))
        out = self.path("o.onnx")
        self.ok("convert", "--nodes_to_exclude", "/mm", "/act", self.model, "--output_path", out)
        self.ok("convert", "--op_block_list", "Relu", self.model, out)
        self.ok("convert", "--keep_io_types", self.model, out)
        self.assertIn("needs a value", self.fails(2, "convert", self.model, "--nodes_to_exclude"))

    def test_nearest_name_of_a_glob(self):
        for pattern in ["/mn*", "*/m", "/ac?s", "out:hh*"]:
            said = self.fails(2, "convert", self.model, "-n", "--keep", pattern)
            self.assertIn("the nearest name is '", said, pattern)

    def test_double_dash_ends_options(self):
        os.rename(self.model, self.path("-m.onnxtxt"))
        done = run("show", "--", "-m.onnxtxt", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_pipeline_runs_alike(self):
        out, again = self.converted(), self.path("again.onnx")
        self.ok("opt", self.model, "--passes", self.pipeline().strip(), "-o", again)
        with open(out, "rb") as a, open(again, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_list_passes(self):
        out = text(self.ok("opt", "--list-passes").stdout)
        for name in ["infer-dtypes", "insert-casts", "cast-params", "fuse-casts", "eliminate-dead-code"]:
            self.assertRegex(out, rf"(?m)^{name}: ")
        self.assertRegex(out, r"(?m)^    to=float16\|bfloat16")


class Refusals(Case):
    def test_files(self):
        self.assertIn("nowhere.onnx: ", self.fails(2, "show", self.path("nowhere.onnx")))
        self.fails(2, "show", self.folder)
        self.fails(2, "convert", self.model, "-o", self.path("no/folder/out.onnx"))
        self.fails(2, "convert", self.model, "-o", self.folder)

    def test_newer_versions(self):
        for old, new, says in [('"" : 17', '"" : 29', "29"),
                               ("ir_version: 8", "ir_version: 15", "15")]:
            newer = self.path("newer.onnxtxt")
            with open(newer, "w") as file:
                file.write(MODEL.replace(old, new))
            error = self.fails(1, "convert", newer, "-o", self.path("out.onnx"))
            for word in [says, "28", "14"]:
                self.assertIn(word, error)
            self.ok("show", newer)
            self.ok("opt", newer, "--passes", "eliminate-dead-code", "-o", self.path("out.onnx"))

    def test_pipelines(self):
        for passes in ["nonsense", "insert-casts{to=float16}", "infer-dtypes{",
                       "infer-dtypes{x=1}"]:
            self.fails(2, "opt", self.model, "--passes", passes)

    def test_patterns_that_match_nothing(self):
        self.assertIn("nope", self.fails(2, "convert", self.model, "x.onnx", "--keep", "nope"))
        self.ok("convert", self.model, "-n", "--keep", "nope", "--allow-unmatched")
        self.fails(2, "convert", self.model, "--why", "/mn")
        self.assertIn("'/mm'", self.fails(2, "convert", self.model, "--why", "/mn"))

    def test_plans_are_not_models(self):
        plan = self.path("model.plan")
        self.ok("compile", self.model, "-o", plan)
        for words in (["convert", "-n"], ["simplify", "-o", self.path("x")], ["diff", self.model]):
            self.assertIn("this is an execution plan", self.fails(1, *words, plan))

    def test_invalid_model(self):
        bad = self.path("bad.onnxtxt")
        with open(bad, "w") as file:
            file.write(MODEL.replace("Relu (h)", "Relu (h, x)"))
        error = self.fails(1, "check", bad, "--json", self.path("r.json"))
        self.assertIn("'/act' (Relu)", error)
        with open(self.path("r.json")) as file:
            result = json.load(file)
        self.assertFalse(result["valid"])
        self.assertEqual(result["fault"]["node"], "/act")

    def test_casts_that_give_another_type_than_declared(self):
        source, out = self.path("casts.onnxtxt"), self.path("casts_out.onnxtxt")
        model = """<ir_version: 8, opset_import: ["" : 13]>
            g (float16[2] x, bool[2] i) => (float16[2] y, float[2] z) <DECLARED[2] m, float16[2] k> {
              m = Cast <to: int = 1> (i) y = Mul (x, m) k = Cast <to: int = 1> (i) z = Relu (k) }"""
        for declared, fits in (("float16", True), ("double", False), ("int64", False)):
            with open(source, "w") as file:
                file.write(model.replace("DECLARED", declared))
            self.assertIn("'B' ('m')", self.fails(1, "check", source))
            if not fits:
                self.assertIn("'B' ('m')", self.fails(1, "simplify", source, "-o", out))
                continue
            said = text(self.ok("simplify", source, "-o", out).stdout)
            self.assertIn("1 Cast gives a type other than the declared one, such as 'm' (float),", said)
            self.assertIn("contradict its operators, such as that of 'k': corrected", said)
            self.ok("check", out)
            with open(out) as file:
                written = file.read()
            self.assertIn("m = Cast <to = 10> (i)", written)
            self.assertIn("k = Cast <to = 1> (i)", written)
        with open(source, "w") as file:  # in a branch
            file.write("""<ir_version: 8, opset_import: ["" : 13]> g (float16[2] x, bool[2] i, bool c) => (float16[2] y) {
                y = If (c) <then_branch = t () => (float16[2] p) <float16[2] m> {
                      m = Cast <to: int = 1> (i) p = Mul (x, m) },
                    else_branch = e () => (float16[2] q) { q = Neg (x) }> }""")
        self.assertIn("1 Cast gives a type other than the declared one",
                      text(self.ok("convert", source, "-o", self.path("branch.onnx")).stdout))
        self.ok("check", self.path("branch.onnx"))


    def test_int8_already(self):
        source = self.path("integers.onnxtxt")
        with open(source, "w") as file:
            file.write("""<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x) => (float[2,4] y)
                <uint8[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, float[4] b = {1, 2, 3, 4}> {
                  q, scale, zero = DynamicQuantizeLinear (x) p = MatMulInteger (q, w, zero) f = Cast <to = 1> (p)
                  m = Mul (f, scale) a = Add (m, b) k = Transpose (a) v = MatMul (a, k) y = MatMul (v, a) }""")
        for to in ("float16", "bfloat16"):
            said = text(self.ok("convert", source, "-n", "--to", to).stdout)
            notes = [line for line in said.splitlines() if line.startswith("note: ")]
            self.assertEqual(len(notes), 1, notes)
            self.assertIn("already int8: 1 of 1 products with weights multiply integers", notes[0])
            self.assertNotIn("already int8",
                             text(self.ok("convert", source, "-n", "--to", to, "--only", "v").stdout))


class Policies(Case):
    def policy(self, value):
        path = self.path("policy.json")
        with open(path, "w") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return path

    def pipeline(self, *words):
        return text(self.ok("convert", "--print-pipeline", *words).stdout)

    def refused(self, value, *says):
        error = self.fails(2, "convert", self.model, "-n", "--policy", self.policy(value))
        for word in says:
            self.assertIn(word, error)

    def test_every_key_is_an_option_too(self):
        path = self.policy({
            "policy": "fast", "to": "bfloat16", "low": {"add": ["Softmax"]},
            "fp32": {"add": ["Relu"]}, "follow": {"add": ["Log"], "remove": ["Abs"]},
            "widest": {"add": ["Where"]}, "keep": ["/mm", "a*"], "keep_ops": ["Sin", "Cos"],
            "only": ["/act"], "inputs": {"x": "float"}, "io": {"inputs": ["x"], "outputs": ["y"]},
            "conditional": [{"operator": "Resize", "attribute": "mode", "values": ["cubic"]},
                            {"operator": "Softmax", "attribute": "axis", "values": [1, -1]},
                            {"operator": "Transpose", "attribute": "perm", "values": [[1, 0]]}],
            "parameters": "both", "overflow": "inf", "allow_unmatched": True, "opset": "auto",
            "schemas": ["com.x.Op(T) -> T; T = float|float16"]})
        self.assertEqual(self.pipeline("--policy", path), self.pipeline(
            "--policy", "fast", "--to", "bf16", "--low-ops", "+Softmax", "--fp32-ops", "+Relu",
            "--follow-ops", "+Log", "--follow-ops", "-Abs", "--widest-ops", "+Where",
            "--keep", "/mm", "--keep", "a*", "--keep-ops", "Sin,Cos", "--only", "/act",
            "--input-dtype", "x=float", "--low-input", "x", "--low-output", "y",
            "--fp32-when", "Resize.mode=cubic", "--fp32-when", "Softmax.axis=1",
            "--fp32-when", "Softmax.axis=-1", "--fp32-when", "Transpose.perm=1,0",
            "--parameters", "both", "--overflow", "inf", "--allow-unmatched", "--opset", "auto",
            "--declare-op", "com.x.Op(T) -> T; T = float|float16"))

    def test_printed_policies_mean_the_same(self):
        for words in [[], ["--to", "bf16"], ["--policy", "fast"],
                      ["--policy", "fast", "--to", "bfloat16", "--io", "low"],
                      ["--low-ops", "+Softmax", "--fp32-ops", "-Exp", "--keep", 'a"\\\n'],
                      ["--fp32-when", "Resize.mode=cubic", "--overflow", "clamp"],
                      ["--opset", "21"], ["--opset", "auto"],
                      ["--low-input", "x", "--input-dtype", "x=float", "--parameters", "runtime"],
                      ["--policy", self.policy({"widest": []})],
                      ["--declare-op", "a.B(T) -> T; T = float", "--low-ops", "+a.B"]]:
            printed = self.path("printed.json")
            with open(printed, "wb") as file:
                file.write(self.ok("convert", "--print-policy", *words).stdout)
            self.assertEqual(self.pipeline("--policy", printed), self.pipeline(*words))
            with open(printed, "rb") as file:
                again = self.ok("convert", "--print-policy", "--policy", printed).stdout
                self.assertEqual(file.read(), again)

    def test_shipped_policies_differ_where_they_should(self):
        printed = {name: json.loads(self.ok("convert", "--print-policy", "--policy", name).stdout)
                   for name in ["float16", "bfloat16", "fast"]}
        self.assertIn("Softmax", printed["float16"]["fp32"])
        self.assertIn("Softmax", printed["fast"]["follow"])
        self.assertIn("LSTM", printed["bfloat16"]["fp32"])
        lists = [printed["fast"][name] for name in ["low", "fp32", "follow", "widest"]]
        self.assertEqual(len(sum(lists, [])), len(set(sum(lists, []))))

    def test_a_policy_decides(self):
        out = text(self.ok("convert", self.model, "--why", "/mm", "--policy",
                           self.policy({"fp32": {"add": ["MatMul"]}})).stdout)
        self.assertEqual(out, "/mm (MatMul): fp32: MatMul is an fp32 operator\n")
        out = text(self.ok("convert", self.model, "--why", "/act", "--only", "/mm").stdout)
        self.assertEqual(out, "/act (Relu): fp32: not selected by --only\n")

    def test_options_override_a_policy(self):
        path = self.policy({"to": "bfloat16", "io": "low", "overflow": "inf", "keep": ["/mm"]})
        out = self.pipeline("--policy", path, "--to", "fp16", "--io", "keep", "--overflow", "pin",
                            "--keep", "/act")
        self.assertEqual(out, self.pipeline("--keep", "/mm", "--keep", "/act"))

    def test_parameters(self):
        self.assertNotIn("cast-params", self.pipeline("--parameters", "runtime"))
        self.assertIn("own=true,both=true", self.pipeline("--parameters", "both"))
        self.assertIn("offline", self.fails(2, "convert", "--print-pipeline", "--parameters",
                                            "runtime", "--overflow", "clamp"))

    def test_choices_go_together(self):
        """Whatever two options choose, the passes know what the pipeline tells them."""
        choices = {"--to": ["float16", "bfloat16"], "--io": ["keep", "low"],
                   "--parameters": ["offline", "runtime", "both"],
                   "--placement": ["mincut", "greedy"], "--opset": ["keep", "auto", "28"],
                   "--policy": ["float16", "fast"]}
        for values in itertools.product(*choices.values()):
            words = [word for pair in zip(choices, values) for word in pair]
            with self.subTest(words=words):
                self.ok("convert", self.model, "-n", "--quiet", *words)

    def test_faults_are_named(self):
        self.refused({"keeep": []}, "'keeep'", "'keep'")
        self.refused({"low": ["Sofmax"]}, "'Sofmax'", "'Softmax'")
        self.refused({"low": ["MatMul"], "fp32": {"add": ["MatMul"]}}, "'MatMul'", "low", "fp32")
        self.refused({"fp32": ["Add"]}, "'Add'", "widest")
        self.refused({"low": {"ad": []}}, "'ad'", "'add'")
        self.refused({"low": "MatMul"}, "'low'", "list")
        self.refused({"to": "int3"}, "'int3'", "float16 or bfloat16")
        self.refused({"io": "lo"}, "keep or low")
        self.refused({"opset": "newest"}, "auto")
        self.refused({"opset": 99}, "28")
        self.refused({"conditional": [{"operator": "Relu", "attribute": "axis", "values": [1]}]},
                     "'Relu'", "'axis'")
        self.refused({"conditional": [{"operator": "Relu"}]}, "conditional")
        self.refused({"schemas": ["nonsense"]}, "nonsense")
        self.refused({"low": {"add": ["com.x.Op"]}}, "com.x.Op")
        self.refused({"io": {"inputs": ["z"]}}, "'z'", "'x'")
        self.refused({"only": ["/mn"]}, "'/mn'", "'/mm'")
        self.refused("{", "line 1")
        self.refused('{"to": "float16", "to": "bfloat16"}', "to")
        self.refused("[]", "object")
        self.assertIn("fast", self.fails(2, "convert", self.model, "-n", "--policy", "fest"))
        self.fails(2, "convert", self.model, "-n", "--policy", self.folder)


class Debugging(Case):
    def failing(self):
        with open(self.model, "w") as file:
            file.write(MODEL.replace("{1, 0,", "{1e5, 0,"))

    def test_reproducer_repeats_the_failure(self):
        self.failing()
        path = self.path("repro.onnxtxt")
        words = ["convert", self.model, "-n", "--overflow", "error", "--keep", 'a\n"b"', "-q",
                 "--allow-unmatched", "--reproducer", path]
        error = self.fails(1, *words)
        self.assertIn(f"demi opt {path}", error)
        again = self.fails(1, "opt", path)
        self.assertEqual(error.split("node")[1].split(";")[0], again.split("node")[1].split(";")[0])
        with open(path) as file:
            self.assertIn("# pipeline: infer-dtypes", file.read())
        self.ok("show", path)

    def test_no_reproducer_without_a_failing_pass(self):
        path = self.path("repro.onnxtxt")
        self.ok("convert", self.model, "-n", "-q", "--reproducer", path)
        self.fails(2, "convert", self.model, "-n", "--keep", "nope", "--reproducer", path)
        self.assertFalse(os.path.exists(path))
        self.fails(2, "opt", self.model)

    def test_no_reproducer_of_standard_input(self):
        self.failing()
        with open(self.model, "rb") as file:
            error = self.fails(1, "convert", "-", "-n", "--overflow", "error", "--reproducer",
                               self.path("r"), stdin=file.read())
        self.assertIn("no reproducer was written", error)

    def test_print_after(self):
        passes = "infer-dtypes,insert-casts{to=float16},fuse-casts"
        done = self.ok("opt", self.model, "--passes", passes, "--print-after", "insert-casts")
        self.assertTrue(done.stdout.startswith(b"# after insert-casts\n<ir_version"))
        self.assertEqual(done.stdout.count(b"# after"), 1)
        done = self.ok("opt", self.model, "--passes", passes, "--print-after", "all")
        self.assertEqual(done.stdout.count(b"# after"), 3)
        error = self.fails(2, "opt", self.model, "--passes", passes, "--print-after", "insert-cast")
        self.assertIn("'insert-casts'", error)


class Diffs(Case):
    def other(self, *changes):
        changed = MODEL
        for old, new in changes:
            self.assertIn(old, changed)
            changed = changed.replace(old, new)
        path = self.path("other.onnxtxt")
        with open(path, "w") as file:
            file.write(changed)
        return path

    def lines(self, *changes, words=()):
        done = run("diff", self.model, self.other(*changes), *words)
        self.assertEqual(done.returncode, 1, done.stderr)
        return text(done.stdout).splitlines()

    def test_same(self):
        self.assertEqual(self.ok("diff", self.model, self.model).stdout, b"same\n")
        out = self.path("copy.onnx")
        self.ok("opt", self.model, "--passes", "", "-o", out)
        self.ok("diff", self.model, out, "--strict", "-q")

    def test_each_kind(self):
        for change, line in [
                (("ir_version: 8", "ir_version: 9"), "~ model IR version: 8 -> 9"),
                (('"" : 17', '"" : 18'), "~ model opset of ai.onnx: 17 -> 18"),
                (("float[N,3] x", "float[M,3] x"), "~ input 'x': float[N,3] -> float[M,3]"),
                (("float[N,3] y", "float[2,3] y"), "~ output 'y': float[N,3] -> float[2,3]"),
                (("{1, 0", "{1.5, 0"), "~ weight 'w', 1 of 9 values, by at most 0.5"),
                (("Relu (h)", "Elu (h)"), "~ node '/act' (Relu), operator: Relu -> Elu"),
                (("Relu (h)", "Relu (x)"), "~ node '/act' (Relu), input 0: h -> x")]:
            self.assertIn(line, self.lines(change))
        lines = self.lines(("Relu (h)", "LeakyRelu <alpha = 0.1> (h)"))
        self.assertIn("~ node '/act' (Relu), attribute alpha: absent -> 0.100000001", lines)
        lines = self.lines(('["/mm"]', '["/m"]'))
        self.assertEqual(lines, ["- node '/mm' (MatMul)", "+ node '/m' (MatMul)",
                                 "2 differences: 1 node removed, 1 node added"])

    def test_a_conversion(self):
        out = self.converted()
        done = run("diff", self.model, out, "--json", "-q")
        self.assertEqual((done.returncode, done.stderr), (1, b""))
        result = json.loads(done.stdout)
        self.assertFalse(result["same"])
        self.assertEqual(result["count"], len(result["differences"]))
        weight = [row for row in result["differences"] if row["kind"] == "weight"]
        self.assertEqual(weight, [{"kind": "weight", "change": "changed", "name": "w",
                                   "a": "float[3,3]", "b": "float16[3,3]"}])

    def test_subgraphs_are_compared(self):
        model = """<ir_version: 8, opset_import: ["" : 17]>
g (bool c, float[2] x) => (float[2] y) {
    ["/if"] y = If (c) <
        then_branch = t () => (float[2] a) { ["/in"] a = Relu (x) },
        else_branch = e () => (float[2] b) { b = Neg (x) }>
}
"""
        paths = [self.path("1.onnxtxt"), self.path("2.onnxtxt")]
        for path, operator in zip(paths, ["Relu", "Abs"]):
            with open(path, "w") as file:
                file.write(model.replace("Relu", operator))
        done = run("diff", *paths)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("~ node '/in' (Relu) in '/if/then_branch', operator: Relu -> Abs",
                      text(done.stdout))

    def test_order_and_documentation_count_only_strictly(self):
        other = self.other(("g (float", "other (float"))
        self.ok("diff", self.model, other)
        done = run("diff", self.model, other, "--strict", "--json", "-q")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["count"], 1)
        self.assertEqual(len(json.loads(done.stdout)["differences"]), 1)

    def test_limit(self):
        lines = self.lines(("ir_version: 8", "ir_version: 9"), ('"" : 17', '"" : 18'),
                           words=["--limit", "1"])
        self.assertEqual(len(lines), 3)
        self.assertIn("(1 more; --limit 0 prints all)", lines)
        self.assertEqual(len(self.lines(("ir_version: 8", "ir_version: 9"), words=["--limit", "1"])), 2)
        self.fails(2, "diff", self.model, self.model, "--limit", "x")

    def test_faults(self):
        self.fails(2, "diff", self.model)
        self.fails(2, "diff", "-", "-")
        self.fails(2, "diff", self.model, self.path("nowhere.onnx"))


class Values(Case):
    def setUp(self):
        super().setUp()
        with open(self.model, "w") as file:
            file.write(MODEL.replace("{1, 0, 0, 0, 1, 0, 0, 0, 1}",
                                     "{1e5, 1e-6, 1e-9, 0, 1, 0, 0, 0, -1e5}"))

    def tensors(self, *words):
        done = self.ok("convert", self.model, "-n", "--json", "-q", *words)
        return json.loads(done.stdout)["values"]["tensors"]

    def test_tensors_are_listed_with_what_became_of_them(self):
        row = {"name": "w", "count": 9, "overflow": 2, "underflow": 1, "subnormal": 1}
        for words, fate in [([], "kept"), (["--overflow", "inf"], "stored"),
                            (["--overflow", "clamp"], "clamped")]:
            tensors = self.tensors(*words)
            self.assertEqual(len(tensors), 1)
            self.assertLessEqual(dict(row, fate=fate).items(), tensors[0].items())
            self.assertAlmostEqual(tensors[0]["max_abs"], 1e5)
        self.assertEqual(self.tensors("--keep", "/mm"), [])

    def test_clamped_values_are_written(self):
        out = self.path("out.onnx")
        self.ok("convert", self.model, "-o", out, "-q", "--overflow", "clamp")
        self.assertIn(b"65504v", self.ok("show", out, "--text=full").stdout)

    def test_error_names_the_tensor(self):
        error = self.fails(1, "convert", self.model, "-n", "--overflow", "error")
        self.assertIn("'w'", error)
        self.assertIn("'/mm'", error)


class Reports(Case):
    def test_table(self):
        out = text(self.ok("convert", self.model, "-o", self.path("out.onnx")).stdout)
        self.assertLessEqual(len(out.splitlines()), 30)
        for word in ["before", "after", "nodes", "weights", "casts", "time", "float16"]:
            self.assertIn(word, out)
        self.assertRegex(out, r"weights +36 B +18 B")

    def test_no_line_ends_in_a_space(self):
        for words in [["convert", self.model, "-n"], ["convert", self.model, "-n", "--to", "bf16"],
                      ["show", self.model], ["check", self.model], ["opt", "--list-passes"]]:
            self.assertNotRegex(text(self.ok(*words).stdout), r"(?m) +$")

    def test_quiet_leaves_what_a_pass_prints(self):
        done = self.ok("opt", self.model, "--passes", "print", "-q")
        self.assertIn(b"MatMul", done.stdout)
        self.assertEqual(done.stderr, b"")

    def test_terminal_gets_no_model(self):
        master, terminal = os.openpty()
        done = subprocess.run([DEMI, "convert", self.model, "-o", "-"], stdin=subprocess.DEVNULL,
                              stdout=terminal, stderr=subprocess.PIPE, check=False)
        os.close(terminal)
        os.close(master)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"terminal", done.stderr)

    def test_bfloat16_is_told_of_runtimes(self):
        out = text(self.ok("convert", self.model, "--to", "bf16", "--dry-run").stdout)
        self.assertIn("ONNX Runtime", out)
        self.assertIn("not written", out)

    def test_json_to_a_file(self):
        report = self.path("report.json")
        done = self.ok("convert", self.model, self.path("out.onnx"), "--json", report)
        self.assertIn(b"before", done.stdout)
        with open(report) as file:
            result = json.load(file)
        self.assertEqual(result["bytes"], {"before": 36, "after": 18})
        self.assertEqual(set(result["casts"]), {"added", "removed", "fused", "remaining"})
        self.assertEqual(set(result["values"]),
                         {"overflow", "underflow", "subnormal", "tensors"})
        nodes = {node["name"]: node for node in result["nodes"]}
        self.assertEqual(nodes["/mm"]["op_type"], "MatMul")
        self.assertEqual(nodes["/mm"]["dtype"], "float16")
        self.assertTrue(nodes["/mm"]["reason"])

    def test_bare_json_goes_to_standard_output(self):
        out = self.path("out.onnx")
        for words in [["--json"], ["--json", "--io", "keep"], ["--json", "-"], ["--json=-"]]:
            done = self.ok("convert", self.model, "-o", out, *words)
            json.loads(done.stdout)
            self.assertIn(b"before", done.stderr)
        done = self.ok("convert", self.model, "-o", out, "--json", "--quiet")
        json.loads(done.stdout)
        self.assertEqual(done.stderr, b"")

    def test_json_does_not_overwrite_models(self):
        self.fails(2, "show", "--json", self.model)
        for name in ["new.onnx", "new.onnxtxt"]:
            self.assertIn("would overwrite a model", self.fails(2, "check", self.model, "--json", self.path(name)))
        with open(self.model) as file:
            self.assertEqual(file.read(), MODEL)

    def test_model_on_standard_output_moves_reports(self):
        done = self.ok("convert", self.model, "-o", "-", "--json")
        self.assertNotIn(b"before", done.stdout)
        self.assertIn(b"before", done.stderr)
        self.assertIn(b'"casts"', done.stderr)
        self.ok("show", "-", stdin=done.stdout)

    def page(self, model=None, *words):
        path = self.path("report.html")
        self.ok("convert", model or self.model, "-n", "-q", "--report", path, *words)
        with open(path) as file:
            return file.read()

    def page_data(self, page):
        data = page.split('<script type="application/json" id="data">')[1].split("</script>")[0]
        return json.loads(data)

    def test_page_holds_the_report_and_needs_nothing_else(self):
        page = self.page()
        self.assertTrue(page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n"))
        outside = r"""(?:src|href|url)\s*[=(]|https?:|@import|fetch\("""
        self.assertEqual(re.findall(outside, page), [])
        data = self.page_data(page)
        self.assertEqual({node["name"] for node in data["nodes"]}, {"/mm", "/act"})
        self.assertEqual(data["bytes"], {"before": 36, "after": 18})

    def test_page_has_the_graph(self):
        """The drawing's data: every node of the converted model, and what it reads."""
        page = self.page()
        self.assertNotRegex(page, "@[A-Z]+@")
        data = self.page_data(page)
        graph = data["graph"]
        op, dtype, row, reads = ([int(word) for word in graph[key].split()]
                                 for key in ("op", "dtype", "row", "reads"))
        self.assertEqual([graph["ops"][i] for i in op], ["Cast", "MatMul", "Relu", "Cast"])
        self.assertEqual([graph["dtypes"][i] for i in dtype],
                         ["float16", "float16", "float16", "float"])
        self.assertEqual([data["nodes"][i - 1]["name"] if i else None for i in row],
                         [None, "/mm", "/act", None])
        self.assertEqual(reads, [0, 1, 1, 1, 1, 1, 1])  # of each: how many, how far back

    def test_page_shows_what_runs_have_shown(self):
        page = self.path("runs.html")
        self.ok("convert", self.model, "-n", "--report", page, "--verify", "random", "--quiet")
        with open(page) as file:
            data = self.page_data(file.read())
        self.assertEqual([row["name"] for row in data["verification"]["outputs"]], ["y"])

    def test_page_is_safe_from_names(self):
        model = self.path("evil.onnxtxt")
        with open(model, "w") as file:
            file.write(MODEL.replace("/act", "</script><script>alert(1)</script><!-- <b>"))
        page = self.page(model)
        self.assertEqual(page.count("<script"), 3)
        names = [node["name"] for node in self.page_data(page)["nodes"]]
        self.assertIn("</script><script>alert(1)</script><!-- <b>", names)

    def test_page_does_not_overwrite_models(self):
        self.fails(2, "convert", self.model, "-n", "--report", self.model)
        self.fails(2, "convert", self.model, "-n", "--report", self.path("no/where.html"))

    def test_dry_run_writes_nothing(self):
        out = self.path("out.onnx")
        self.ok("convert", self.model, "-o", out, "--dry-run")
        self.assertFalse(os.path.exists(out))

    def test_why(self):
        out = text(self.ok("convert", self.model, "--why", "/mm").stdout)
        self.assertRegex(out, r"^/mm \(MatMul\): float16: .+\n$")
        out = text(self.ok("convert", self.model, "--why", "/mm", "--keep", "/mm").stdout)
        self.assertRegex(out, r"^/mm \(MatMul\): fp32: .+\n$")

    def test_names_of_any_bytes(self):
        """Invalid UTF-8 still gives valid JSON; control characters do not reach the terminal."""
        odd = self.path("odd.onnxtxt")
        with open(odd, "w") as file:
            text_of = MODEL.replace('"/mm"', r'"a\xffb\xed\xa0\x80\u001b[2Jc"')
            file.write(text_of.replace("float[N", r'float["\u0007"'))
        for words in [["show", odd, "--json"], ["convert", odd, "-n", "--json"]]:
            done = self.ok(*words)
            names = str(json.loads(done.stdout)).replace("\\x1b", "\x1b")
            self.assertIn("a\ufffdb\ufffd\ufffd\ufffd\u001b[2Jc", names)
            self.assertNotRegex(done.stderr, rb"[\x00-\x09\x0b-\x1f]")
        for words in [["show", odd], ["check", odd], ["convert", odd, "-n"]]:
            self.assertNotRegex(self.ok(*words).stdout, rb"[\x00-\x09\x0b-\x1f]")

    def test_time_passes(self):
        out = text(self.ok("convert", self.model, "-n", "--time-passes").stdout)
        self.assertRegex(out, r"(?m)^insert-casts +[\d.]+ ms")

    def test_quiet(self):
        done = self.ok("convert", self.model, "-o", self.path("out.onnx"), "-q")
        self.assertEqual((done.stdout, done.stderr), (b"", b""))

    def test_show(self):
        out = text(self.ok("show", self.model).stdout)
        self.assertRegex(out, r"(?m)^  MatMul +1$")
        self.assertIn("float[N,3]", out)
        result = json.loads(self.ok("show", self.model, "--json").stdout)
        self.assertEqual([node["op_type"] for node in result["graph"]["nodes"]], ["MatMul", "Relu"])
        self.assertEqual(result["opsets"], {"ai.onnx": 17})
        self.assertIn("digraph", text(self.ok("show", self.model, "--dot").stdout))
        self.assertIn("MatMul", text(self.ok("show", self.model, "--text").stdout))

    def test_show_of_a_plan_on_a_device(self):
        """Where steps run is known without one; an operator that it lacks stays, between copies."""
        source, plan = self.path("placed.onnxtxt"), self.path("placed.plan")
        with open(source, "w") as file:
            file.write(MODEL.replace("Relu (h)", "Hardmax (h)"))
        self.ok("compile", source, "--device", "cuda", "-o", plan, "-q")
        out = text(self.ok("show", plan, "--device", "cuda").stdout)
        self.assertIn("placement: 1 steps on the device, 1 on the CPU, 2 copies;", out)
        self.assertRegex(out, r'MatMul-\d+\(.*\) "/mm" ; device\n')
        self.assertIn("; CPU: the device has no kernel for it\n", out)
        self.assertNotIn("placed:", text(self.ok("show", plan, "--device", "cpu").stdout))
        self.assertIn("unknown device 'gpu'", self.fails(2, "show", plan, "--device", "gpu"))
        self.assertIn("requires a plan", self.fails(2, "show", self.model, "--device", "cuda"))

    def test_dot_is_read_by_graphviz(self):
        if not shutil.which("dot"):
            self.skipTest("Graphviz is not installed")
        drawing = self.ok("show", self.model, "--dot").stdout
        done = subprocess.run(["dot", "-Tplain"], input=drawing, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_check(self):
        out = text(self.ok("check", self.model).stdout)
        self.assertTrue(out.startswith("valid\n"))
        self.assertIn("ai.onnx 17", out)
        self.assertTrue(json.loads(self.ok("check", self.model, "--json").stdout)["valid"])


class Streams(Case):
    def test_chain(self):
        first = self.ok("opt", "-", "--passes", "infer-dtypes", "-o", "-", stdin=MODEL.encode())
        out = text(self.ok("show", "-", stdin=first.stdout).stdout)
        self.assertRegex(out, r"(?m)^  MatMul +1$")

    def test_text_round_trip(self):
        full = self.ok("show", self.converted(), "--text=full").stdout
        again = self.path("again.onnxtxt")
        self.ok("opt", "-", "--passes", "eliminate-dead-code", "-o", again, stdin=full)
        with open(again, "rb") as file:
            self.assertEqual(file.read(), full)

    def test_print_goes_where_reports_go(self):
        passes = "infer-dtypes,print"
        done = self.ok("opt", self.model, "--passes", passes)
        self.assertIn(b"MatMul", done.stdout)
        done = self.ok("opt", self.model, "--passes", passes, "-o", "-")
        self.assertIn(b"MatMul", done.stderr)

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            for words in [["show", self.model], ["convert", self.model, "-o", "-"]]:
                done = subprocess.run([DEMI, *words], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 3)
                self.assertIn(b"standard output", done.stderr)

    def test_reader_that_goes_away(self):
        reading, writing = os.pipe()
        os.close(reading)
        for words in [["show", self.model], ["convert", self.model, "-o", "-", "-q"]]:
            done = subprocess.run([DEMI, *words], stdout=writing, stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
        os.close(writing)

    def test_verdicts_reach_scripts_whoever_reads(self):
        """Each command, and what it ends with, beside readers that leave at once or early."""
        other, long, bad = (self.path(n) for n in ("other.onnxtxt", "long.onnxtxt", "bad.onnx"))
        with open(other, "w") as file:
            file.write(MODEL.replace("Relu", "Tanh"))
        nodes = "\n".join(f"v{i} = {{}} (v{i - 1})" for i in range(1, 6000))
        for path, op in ((long, "Neg"), (bad, "Abs")):
            with open(path, "w") as file:
                file.write(MODEL.replace("y = Relu (h)", "v0 = Neg (h)").replace(
                    "}\n", nodes.format(*[op] * 5999) + "\n y = Relu (v5999)\n}\n"))
        os.rename(bad, self.path("abs.onnxtxt"))
        with open(bad, "w") as file:
            file.write("no model")
        many = ["diff", long, self.path("abs.onnxtxt"), "--limit", "0"]
        expected = [(1, many), (1, [*many, "--json"]), (1, ["check", other, "--against", self.model]),
                    (1, ["compare", self.model, other, "--random", "1"]), (1, ["check", bad]), (1, ["convert", bad, "-n"]),
                    (1, ["simplify", bad, "-o", "-"]), (1, ["show", bad]), (1, ["opt", bad, "-p", "infer-dtypes", "-o", "-"]),
                    (1, ["run", bad, "--random", "1"]), (1, ["bench", bad]), (1, ["compile", bad, "-o", self.path("p")]),
                    (1, ["search", bad, "--data", self.folder, "--target", "20", "-o", self.path("s.onnx")]),
                    (1, ["make-training", bad, "-o", self.path("t")]), (2, ["show", "--kind"]), (2, ["help", "nothing"]),
                    (2, ["check", self.path("none")]), (3, ["convert", self.model, "-o", "/dev/full"]),
                    (0, ["show", long, "--text"]), (0, ["check", self.model]), (0, ["help", "convert"]),
                    (0, ["show", long, "--json"]), (0, ["run", self.model, "--random", "1", "--dim", "N=2"]),
                    (0, ["opt", long, "-p", "print", "-o", self.path("printed.onnx")]),
                    (0, ["convert", self.model, "-n", "--json"]), (0, ["convert", long, "-o", "-"])]
        for code, words in expected:
            self.assertEqual(run(*words).returncode, code, words)
            for reader in ["true", "head -1", "head -c 70000"]:
                script = f'"$@" | {reader} >/dev/null; exit ${{PIPESTATUS[0]}}'
                for _ in range(2):
                    done = subprocess.run(["bash", "-c", script, "-", DEMI, *words], capture_output=True)
                    self.assertEqual(done.returncode, code, (reader, words, done.stderr))

    def test_input_equals_output(self):
        for words in [["simplify"], ["opt", "--passes", "eliminate-dead-code"], ["convert"]]:
            self.ok(*words, self.model, "-o", self.model, "-q")
            self.ok("check", self.model)
            self.assertEqual(os.listdir(self.folder), ["model.onnxtxt"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
