#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the demi command says of files that are missing, cut, or no models, and in which colors.

usage: messages_test.py DEMI [unittest arguments]
"""
import bz2
import gzip
import io
import lzma
import os
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

from cli_test import DEMI, MODEL, Case, run, text


class Messages(Case):
    def test_missing_files_differ_from_nothing(self):
        """A file that is missing, or cannot be read, is not what exit code 1 says of a model."""
        none = self.path("none.onnx")
        for words in (["check", none], ["diff", none, self.model], ["diff", self.model, none],
                      ["compare", self.model, none], ["compare", none, self.model],
                      ["check", self.model, "--against", none], ["show", none],
                      ["convert", none, "-o", "o"], ["run", none], ["bench", none],
                      ["compile", none, "-o", "o"], ["opt", none, "-p", "print"],
                      ["check", self.folder], ["diff", self.model, self.folder],
                      ["check", os.path.join(self.model, "x")],
                      ["run", self.model, "--data", none], ["run", self.model, "-i", "x=" + none],
                      ["convert", self.model, "-n", "--verify", none],
                      ["convert", self.model, "-n", "--calibrate", none]):
            self.fails(2, *words)
        plan = self.path("p.plan")
        self.ok("compile", self.model, "-o", plan)
        self.fails(2, "check", plan, "--against", none)
        if os.geteuid() != 0:
            return
        shutil.copy(self.model, none)
        os.chmod(none, 0)
        os.chmod(self.folder, 0o755)
        for words in (["check", none], ["diff", self.model, none], ["compare", none, self.model],
                      ["check", self.model, "--against", none]):
            done = run(*words, user=65534)
            self.assertEqual(done.returncode, 3, text(done.stderr))

    def test_second_input_is_looked_for_first(self):
        """Before the first model is read, which is not a model here."""
        bad, none = self.path("bad.onnx"), self.path("none")
        with open(bad, "w") as file:
            file.write("garbage")
        for words in (["diff", bad, none], ["compare", bad, none],
                      ["check", bad, "--against", none], ["run", bad, "--data", none], ["run", bad, "--input", "x=" + none],
                      ["convert", bad, "-n", "--verify", none],
                      ["convert", bad, "-n", "--calibrate", none]):
            self.assertIn("none", self.fails(2, *words))

    def test_other_formats_are_named(self):
        """What a file is that cannot be read, by its contents, and how a model is made of it."""
        def archive(*names):
            data = io.BytesIO()
            with zipfile.ZipFile(data, "w") as file:
                for name in names:
                    file.writestr(name, b"x" * 5000)
            return data.getvalue()
        graph_def = b"\x0a\x16\x0a\x05input\x12\x0bPlaceholder" + bytes(40)
        saved = b"\x08\x01\x12\x80\x01" + b"\x0a\x10" + bytes(126)
        tensors = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        files = {
            "empty": (b"", "the file is empty"),
            "pt": (archive("m/data.pkl", "m/data/0"), "PyTorch file", "torch.onnx.export"),
            "pt2": (archive("m/archive_format", "m/models/m.json"), ".pt2", "torch.onnx.export"),
            "script": (archive("m/constants.pkl", "m/data.pkl"), "TorchScript", "torch.onnx"),
            "keras": (archive("config.json", "model.weights.h5"), "Keras", "onnx"),
            "zip": (archive("a.onnx"), "ZIP archive", "unpack"),
            "npz": (archive("x.npy"), ".npz"),
            "pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(50), "PyTorch"),
            "pickle": (b"\x80\x04\x95" + bytes(50), "pickle"),
            "safetensors": (len(tensors).to_bytes(8, "little") + tensors + bytes(4), "safetensors",
                            "optimum-cli"),
            "tflite": (b"\x1c\0\0\0TFL3" + bytes(50), "TensorFlow Lite", "tf2onnx"),
            "gguf": (b"GGUF\x03\0\0\0" + bytes(50), "GGUF"),
            "h5": (b"\x89HDF\r\n\x1a\n" + bytes(50), "HDF5", "tf2onnx"),
            "frozen.pb": (graph_def, "frozen TensorFlow", "--graphdef"),
            "saved_model.pb": (saved, "SavedModel", "--saved-model"),
            "ort": (b"\x18\0\0\0ORTM" + bytes(50), ".ort"),
            "engine": (b"ftrt" + bytes(50), "TensorRT"),
            "pdmodel": (b"\x0a\x40\x08\0\x10\xff\xff\xff\xff\x0f" + bytes(90), "Paddle"),
            "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
                    "Git LFS pointer", "git lfs pull"),
            "html": (b"\n <!doctype HTML>\n<html></html>", "web page", "download"),
            "page": (b"\xef\xbb\xbf<HTML></html>", "web page"),
            "gz": (gzip.compress(b"x"), "gzip"), "xz": (lzma.compress(b"x"), "xz"),
            "zst": (b"(\xb5/\xfd" + bytes(20), "zstd"), "bz2": (bz2.compress(b"x"), "bzip2"),
            "tar": (bytes(257) + b"ustar" + bytes(500), "tar archive"),
        }
        for name, (content, *says) in files.items():
            path = self.path(f"{name}.onnx")  # the name says nothing
            with open(path, "wb") as file:
                file.write(content)
            for command in ["check", "run", "convert"]:
                more = ["-n"] if command == "convert" else []
                error = self.fails(1, command, path, *more)
                for word in says:
                    self.assertIn(word, error, name)
            self.assertIn(says[0], text(run("check", "-", stdin=content).stderr), name)

    def test_cut_models(self):
        """A download that ended early is said to have, and how much is missing."""
        whole = self.path("whole.onnx")
        self.ok("opt", self.model, "--passes", "infer-dtypes", "-o", whole, "--quiet")
        with open(whole, "rb") as file:
            data = file.read()
        for cut in range(40, len(data) - 20, 7):
            path = self.path("cut.onnx")
            with open(path, "wb") as file:
                file.write(data[:cut])
            done = run("check", path)
            if done.returncode:
                error = text(done.stderr)
                self.assertRegex(error, f"truncated: [1-9][0-9]* bytes are missing after its {cut} b")
                self.assertIn("download", error)

    def test_colors(self):
        """On a terminal, unless NO_COLOR or --color says otherwise; never in a file."""
        def on_terminal(*words, **environment):
            ours, theirs = os.openpty()
            base = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            done = subprocess.run([DEMI, *words], stdout=theirs, stderr=theirs, timeout=600,
                                  env={**base, "TERM": "xterm", **environment})
            os.close(theirs)
            said = b""
            try:
                while piece := os.read(ours, 4096):
                    said += piece
            except OSError:
                pass
            os.close(ours)
            return done.returncode, said
        none, escape = self.path("none"), b"\x1b["
        for words in (["check", self.model], ["check", none], ["convert", self.model, "-n"]):
            self.assertIn(escape, on_terminal(*words)[1], words)
            self.assertNotIn(escape, on_terminal(*words, NO_COLOR="1")[1])
            self.assertNotIn(escape, on_terminal(*words, TERM="dumb")[1])
            self.assertNotIn(escape, on_terminal(*words, "--color=never")[1])
            self.assertIn(escape, on_terminal(*words, "--color", "always", NO_COLOR="1")[1])
            self.assertIn(escape, on_terminal(*words, NO_COLOR="")[1])
            done = run(*words)
            self.assertNotIn(escape, done.stdout + done.stderr)
            done = run(*words, "--color=always")
            self.assertIn(escape, done.stdout + done.stderr)
            for plain in (done.stdout + done.stderr, on_terminal(*words)[1]):
                self.assertEqual(len(re.findall(rb"\x1b\[(?!0m)", plain)),
                                 plain.count(b"\x1b[0m"))  # all end
        self.fails(2, "check", self.model, "--color", "sometimes")

    def test_a_file_that_is_no_model(self):
        bad = self.path("bad.onnx")
        for content in [b"\xff" * 100, b"\x08", b"PK\x03\x04 zip", b"\n" * 9]:
            with open(bad, "wb") as file:
                file.write(content)
            self.assertIn("bad.onnx", self.fails(1, "show", bad))
            self.fails(1, "convert", bad, "-o", self.path("out.onnx"))
            self.assertFalse(os.path.exists(self.path("out.onnx")))
        with open(bad, "w") as file:
            file.write(MODEL.replace("MatMul", "("))
        self.fails(1, "check", bad)

    def test_files_that_are_no_models(self):
        for content, hint in [(b"version https://git-lfs.github.com/spec/v1\noid x\n", "git lfs"),
                              (b"<!DOCTYPE html><html></html>", "web page"),
                              (b"PK\x03\x04\x14\x00", "ZIP")]:
            with open(self.path("not.onnx"), "wb") as file:
                file.write(content)
            self.assertIn(hint, self.fails(1, "show", self.path("not.onnx")))
            with open(self.path("not.onnx"), "rb") as file:
                done = subprocess.run([DEMI, "show", "-"], stdin=file, capture_output=True,
                                      check=False)
            self.assertIn(hint, text(done.stderr))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
