#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of --load-pass: the example plug-in, and shared objects that are none or are faulty.

usage: plugin_cli_test.py DEMI PLUGIN_EXAMPLE C_COMPILER INCLUDE_DIR [unittest arguments]
What the functions that a plug-in calls do is tested by passes/front/plugin_test.c.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

DEMI, EXAMPLE = (os.path.abspath(word) for word in sys.argv[1:3])
CC, INCLUDE = sys.argv[3:5]

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x) => (float[N,3] y)
<float[3,3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}, bool off = {0}, bool on = {1}>
{
    ["/mm"] h = MatMul (x, w)
    ["/drop"] d, m = Dropout (h)
    ["/off"] e = Dropout (d, "", off)
    ["/on"] f = Dropout (e, "", on)
    ["/id"] i = Identity (f)
    ["/masked"] j, k = Dropout (i)
    ["/not"] l = Not (k)
    ["/where"] s = Where (l, j, x)
    ["/last"] y = Dropout (s)
}
"""

PLUGIN = """#include <demi/demi_plugin.h>
#include <stdlib.h>
static bool run(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    (void)api; (void)run; (void)graph;
    %(body)s
}
static const DemiPluginPass passes[] = {{DEMI_PLUGIN_PASS_INIT, .name = "%(name)s", .run = run}};
static const DemiPlugin plugin = {DEMI_PLUGIN_INIT, .passes = passes, .pass_count = 1};
DEMI_PLUGIN_EXPORT const DemiPlugin *demi_plugin_v1(const DemiApi *api) {
    (void)api;
    return &plugin;
}
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = os.path.join(self.folder, "model.onnxtxt")
        with open(self.model, "w") as file:
            file.write(MODEL)

    def run_demi(self, *words):
        return subprocess.run([DEMI, *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=600)

    def ok(self, *words):
        done = self.run_demi(*words)
        self.assertEqual((done.returncode, done.stderr if done.returncode else ""), (0, ""))
        return done.stdout

    def refused(self, *words, code=2):
        done = self.run_demi(*words)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (code, 1), done.stderr)
        return done.stderr

    def built(self, source, name="p.so"):
        path = os.path.join(self.folder, name)
        subprocess.run([CC, "-shared", "-fPIC", "-Wall", "-Werror", "-I", INCLUDE, "-x", "c", "-o",
                        path, "-"], input=source.encode(), check=True, timeout=600)
        return path

    def plugin(self, body="return true;", name="mine", file="p.so"):
        return self.built(PLUGIN % {"body": body, "name": name}, file)


class Example(Case):
    def opt(self, pipeline, *words):
        return self.ok("opt", "model.onnxtxt", "--load-pass", EXAMPLE, "--passes", pipeline, *words)

    def test_dropouts_go_unless_they_may_do_something(self):
        out = self.opt("bypass-ops,print")
        for line in ['f = Dropout (h, "", on)', "i = Identity (f)", "j, k = Dropout (i)",
                     "y = Where (l, j, x)"]:
            self.assertIn(line, out)
        self.assertEqual(out.count("Dropout"), 2)

    def test_option(self):
        out = self.opt("bypass-ops{ops=[Identity]},print")
        self.assertIn("j, k = Dropout (f)", out)
        self.assertEqual(out.count("Dropout"), 5)

    def test_written_models_are_valid(self):
        self.opt("bypass-ops,infer-dtypes,infer-shapes", "-o", "out.onnx")
        self.ok("check", "out.onnx")

    def test_counts_are_printed_and_rewrites_reported(self):
        self.assertEqual(self.opt("count-ops").split("\n")[:2], ["MatMul 1", "Dropout 5"])
        out = self.opt("bypass-ops", "--time-passes")
        self.assertRegex(out, r"bypass-ops +[\d.]+ ms +3 rewrites")

    def test_listed(self):
        out = self.ok("opt", "--list-passes", "--load-pass", EXAMPLE)
        self.assertIn("\nbypass-ops: take out operators that do nothing\n    ops=[TEXT,...]", out)
        self.assertNotIn("bypass-ops", self.ok("opt", "--list-passes"))

    def test_convert_runs_passes_before_and_after(self):
        words = ["model.onnxtxt", "--load-pass", EXAMPLE, "--before", "bypass-ops", "--after",
                 "count-ops"]
        out = self.ok("convert", *words, "-o", "out.onnx")
        self.assertIn("Dropout 2\n", out)
        pipeline = self.ok("convert", "--print-pipeline", *words)
        self.assertTrue(pipeline.startswith("bypass-ops,infer-dtypes,"))
        self.assertTrue(pipeline.endswith(",count-ops\n"))
        self.opt(pipeline.strip(), "-o", "same.onnx")
        with open(self.folder + "/out.onnx", "rb") as one, \
                open(self.folder + "/same.onnx", "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_before_needs_no_plugin(self):
        self.ok("convert", "model.onnxtxt", "-o", "o.onnx", "--before", "eliminate-dead-code")
        self.assertIn("unknown pass 'mine'",
                      self.refused("convert", "model.onnxtxt", "-o", "o.onnx", "--after", "mine"))


class Faults(Case):
    def load(self, path, *more, passes="print"):
        return self.refused("opt", "model.onnxtxt", "--load-pass", path, *more, "--passes", passes)

    def test_files(self):
        self.assertIn("nope.so: cannot load: No such file", self.load("nope.so"))
        self.assertIn("model.onnxtxt: cannot load: ", self.load("model.onnxtxt"))
        self.assertIn(".: cannot load: not a regular file", self.load("."))
        empty = self.built("int nothing;\n")
        self.assertIn("p.so: not a plug-in: it does not export 'demi_plugin_v1'", self.load(empty))

    def test_missing_symbols_are_named(self):
        path = self.built("int absent(void); int demi_plugin_v1(void); \n"
                          "int demi_plugin_v1(void) { return absent(); }\n")
        self.assertIn("undefined symbol: absent", self.load(path))

    def test_other_versions(self):
        later = self.built("int demi_plugin_v3(void); int demi_plugin_v3(void) { return 0; }\n")
        self.assertIn("a plug-in for interface 3; this demi (", self.load(later))
        newer = self.built(PLUGIN.replace(
            "DEMI_PLUGIN_INIT,", ".size = sizeof(DemiPlugin), .api_size = 100000,") %
            {"body": "return true;", "name": "mine"})
        self.assertIn("was built for a newer demi", self.load(newer))

    def test_names(self):
        one = self.plugin(file="one.so")
        two = self.plugin(file="two.so")
        self.assertIn("two.so: pass 'mine' already exists: from ",
                      self.load(one, "--load-pass", two))
        self.assertIn("pass 'print' already exists: demi has one",
                      self.load(self.plugin(name="print")))
        self.assertIn("unknown pass 'nine'; hint: did you mean 'mine'?",
                      self.load(one, passes="nine"))

    def test_a_name_without_slash_is_a_file_here(self):
        self.plugin(file="here.so")
        self.ok("opt", "model.onnxtxt", "--load-pass", "here.so", "--passes", "mine")

    def test_failing_passes(self):
        path = self.plugin("return api->fail(run, DEMI_ERR_MODEL, api->graph_first(graph), "
                           "\"not %d\", 7);")
        words = ["opt", "model.onnxtxt", "--load-pass", path, "--passes", "mine"]
        self.assertIn("model.onnxtxt: node '/mm' (MatMul): pass 'mine': not 7\n",
                      self.refused(*words, code=1))
        said = self.refused(*words, "--reproducer", "again.txt", code=1)
        self.assertIn("'demi opt again.txt' with the same --load-pass repeats this", said)
        self.assertIn("pass 'mine': not 7",
                      self.refused("opt", "again.txt", "--load-pass", path, code=1))

    def test_broken_models_name_the_pass_and_are_not_written(self):
        path = self.plugin("return api->node_move(run, api->graph_last(graph), "
                           "api->graph_first(graph));")
        said = self.refused("opt", "model.onnxtxt", "--load-pass", path, "--passes", "mine", "-o",
                            "out.onnx", code=1)
        self.assertIn("pass 'mine' left the model invalid: reads a value before", said)
        self.assertIn("hint: the fault is in " + path, said)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "out.onnx")))

    def test_running_out_of_memory(self):
        path = self.plugin("void *own = malloc(10); bool ok = api->alloc(run, (size_t)-1);\n"
                           "free(own); return ok;")
        self.assertIn("pass 'mine': out of memory",
                      self.refused("opt", "model.onnxtxt", "--load-pass", path, "--passes", "mine",
                                   code=3))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
