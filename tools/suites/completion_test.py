#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completions in real shells: bash and zsh behind a terminal, and fish (zsh and fish where they are installed).

What is typed is followed by a tab; the line that the shell then has is what is looked at.
usage: completion_test.py DEMI [unittest arguments]
"""
import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

DEMI = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "demi"
PATIENCE_S = 300
TIOCGPTN = 0x80045430  # ptsname, which Python 3.13 has

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y)
{
    ["/enc/layer one/mm"] a = Abs (x)
    ["/enc/layer one/it's"] b = Neg (a)
    ["model:0/conv=1"] c = Abs (b)
    ["$HOME*[x]"] d = Sqrt (c)
    ["evil\\x1b[31m"] e = Abs (d)
    ["zlast"] y = Relu (e)
}
"""
# Names that are commands where a shell reads them as text of its own: each has another first letter.
HOSTILE = ["a$(touch pwned)", "b`touch pwned`", "c\"; touch pwned; \"", "d'; touch pwned; '", "e!!", "f!touch\"",
           "g\\", "h;touch pwned", "i&touch pwned", "j|tee pwned", "k>pwned", "l{x,y}", "m~", "n#n", "o*", "p?[a-z]",
           "q$HOME", "r\\\\$(touch pwned)", "s\\\"; touch pwned; \"", "t'$(touch pwned)'", "u'!'", "v&&touch pwned",
           "w (x)", "x=y:z", "y\\'", "z%1^2"]
# Typed before the tab, and the line after it. The model is m.onnxtxt.
UNIQUE = [
    ("demi conv", "demi convert "),
    ("demi help bea", "demi help bea"),
    ("demi help benc", "demi help bench "),
    ("demi convert --to=nvf", "demi convert --to=nvfp4-weights "),
    ("demi convert --to nvf", "demi convert --to nvfp4-weights "),
    ("demi convert --keep-op", "demi convert --keep-ops "),
    ("demi convert m.onnxtxt --keep zl", "demi convert m.onnxtxt --keep zlast "),
    ("demi convert m.onnxtxt --keep=zl", "demi convert m.onnxtxt --keep=zlast "),
    ("demi convert m.onnxtxt --why mod", "demi convert m.onnxtxt --why model:0/conv=1 "),
    ("demi convert m.onnxtxt --why model:0/c", "demi convert m.onnxtxt --why model:0/conv=1 "),
    ("demi convert m.onnxtxt --keep-ops Sq", "demi convert m.onnxtxt --keep-ops Sqrt "),
    ("demi convert 'my mod", "demi convert 'my model.onnx' "),
    ("demi show m.o", "demi show m.onnxtxt "),
]


class Terminal:
    """A shell behind a pseudo-terminal; Control-G writes its line to a file."""

    def __init__(self, words, folder, setup):
        self.folder, self.line = folder, os.path.join(folder, "line")
        environment = {"PATH": f"{os.path.dirname(DEMI)}:{os.environ['PATH']}", "TERM": "dumb",
                       "HOME": folder, "LC_ALL": "C.UTF-8", "INPUTRC": "/dev/null"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, environment)
        number, = struct.unpack("i", fcntl.ioctl(self.fd, TIOCGPTN, bytes(4)))
        self.tty = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)
        self.send(setup.format(line=self.line, script=os.path.join(folder, "script")) + "\n")
        self.send(f"echo ready > '{self.line}'\n")
        self.wait()

    def drain(self):
        """Whether the shell has printed something."""
        some = False
        while select.select([self.fd], [], [], 0)[0]:
            try:
                if not os.read(self.fd, 4096):
                    break
                some = True
            except OSError:
                break
        return some

    def send(self, text):
        os.write(self.fd, text.encode())

    def until(self, holds):
        """Waits for a state; what never comes is a failure."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            self.drain()
            if time.monotonic() > end:
                raise AssertionError("the shell does not answer")
            time.sleep(0.001)

    def is_idle(self):
        """It sleeps at its prompt: no command runs, and nothing that was typed is left to read."""
        raw = not termios.tcgetattr(self.tty)[3] & termios.ICANON
        left, = struct.unpack("i", fcntl.ioctl(self.tty, termios.FIONREAD, bytes(4)))
        process = f"/proc/{self.pid}"
        with open(f"{process}/stat") as stat, open(f"{process}/task/{self.pid}/children") as children:
            return (raw and not left and stat.read().rpartition(")")[2].split()[0] == "S"
                    and not children.read())

    def has_line(self):
        """Whether it is written, to its end."""
        try:
            with open(self.line) as file:
                return file.read().endswith("\n")
        except FileNotFoundError:
            return False

    def wait(self):
        """The line, once it was written; taking the file away."""
        self.until(self.has_line)
        with open(self.line) as file:
            text = file.read()
        os.remove(self.line)
        self.until(self.is_idle)
        return text.rstrip("\n")

    def complete(self, typed):
        self.drain()
        self.send("\x15" + typed + "\t")
        self.until(self.drain) # its echo
        self.until(self.is_idle)
        self.send("\x07")
        return self.wait()

    def run_of(self, typed):
        """The last argument of what the completed line runs."""
        self.complete(typed)
        self.send("\x01args \x05\n")
        return self.wait()

    def close(self):
        self.send("\x15exit\n")
        os.close(self.tty)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Completions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("m.onnxtxt", "my model.onnx"):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(MODEL)
        with open(os.path.join(self.folder, "hostile.onnxtxt"), "w") as file:
            nodes = "".join(f"[{json.dumps(name)}] v{i + 1} = Abs (v{i})\n" for i, name in enumerate(HOSTILE))
            file.write(f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] v0) => (float[2] v{len(HOSTILE)}) {{{nodes}}}')
        os.mkdir(os.path.join(self.folder, "data"))

    def run_hostile(self, terminal, quotes):
        """What is completed is what the command is given, and nothing of it has run."""
        for name in HOSTILE:
            for quote in quotes:
                with self.subTest(name=name, quote=quote):
                    self.assertEqual(terminal.run_of(f"demi convert hostile.onnxtxt --why {quote}{name[0]}"), name)
                    self.assertNotIn("pwned", os.listdir(self.folder))

    def script(self, shell):
        path = os.path.join(self.folder, "script")
        with open(path, "wb") as file:
            subprocess.run([DEMI, "help", "--completion", shell], stdout=file, check=True)
        return path

    def type_all(self, terminal, cases):
        for typed, line in cases:
            with self.subTest(typed=typed):
                self.assertEqual(terminal.complete(typed), line)
        terminal.close()

    def test_bash_terminal(self):
        self.script("bash")
        terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], self.folder,
                            "bind -x '\"\\C-g\": printf \"%s\\n\" \"$READLINE_LINE\" > {line}'; "
                            "bind 'set bell-style none'; source {script}; "
                            "args() {{ printf \"%s\\n\" \"${{!#}}\" > {line}; }}")
        self.run_hostile(terminal, ["", '"', "'"])
        more = [
            ("demi convert m.onnxtxt --keep /enc/layer\\ one/m",
             "demi convert m.onnxtxt --keep /enc/layer\\ one/mm "),
            ("demi convert m.onnxtxt --keep '/enc/layer one/m",
             "demi convert m.onnxtxt --keep '/enc/layer one/mm' "),
            ("demi convert m.onnxtxt --keep /enc/layer\\ one/i",
             "demi convert m.onnxtxt --keep /enc/layer\\ one/it\\'s "),
            ("demi convert m.onnxtxt --keep \\$H",
             "demi convert m.onnxtxt --keep \\$HOME\\*\\[x\\] "),
            ("demi convert my\\ model.onnx --keep zl",
             "demi convert my\\ model.onnx --keep zlast "),
            ("demi convert my\\ m", "demi convert my\\ model.onnx "),
            ("demi run m.onnxtxt --data da", "demi run m.onnxtxt --data data/"),
        ]
        self.type_all(terminal, UNIQUE + more)

    def replies(self, *words):
        """COMPREPLY of bash for these words, the last one being completed."""
        program = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; '
                   'COMP_LINE=${COMP_LINE// = /=}; COMP_LINE=${COMP_LINE/% =/=}; '
                   'COMP_POINT=${#COMP_LINE}; cd "$(dirname "$0")"; _demi; '
                   'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", program, self.script("bash"), DEMI, *words],
                              capture_output=True)
        self.assertEqual(done.stderr, b"")
        return set(done.stdout.decode().split("\n")) - {""}

    def test_bash_lists(self):
        commands = self.replies("")
        self.assertLessEqual({"convert", "help", "--version", "-V"}, commands)
        self.assertEqual(self.replies("help", ""), commands - {"--help", "-h", "--version", "-V"})
        both = {"float16", "bfloat16", "fp16", "half", "bf16", "int8", "int8-dynamic", "int8-weights", "int4-weights",
                "int2-weights", "fp8", "fp8-weights", "mxfp8-weights", "mxfp4-weights", "nvfp4-weights", "float32", "float", "fp32",
                "float16-weights", "fp16-weights", "bfloat16-weights", "bf16-weights"}
        self.assertEqual(self.replies("convert", "--to", ""), both)
        self.assertEqual(self.replies("convert", "--to", "="), both)  # as readline divides it
        self.assertLessEqual({"-o", "--output", "-n", "-h", "-q"}, self.replies("convert", "-"))
        self.assertEqual(self.replies("convert", "m.onnxtxt", "--keep-ops", ""),
                         {"Abs", "Neg", "Relu", "Sqrt"})
        nodes = self.replies("convert", "m.onnxtxt", "--keep", "")
        self.assertEqual(len(nodes), 5)  # one can't be shown
        self.assertEqual(self.replies("convert", "--keep", ""), set())  # of no model
        self.assertIn("m.onnxtxt", self.replies("convert", "-o", ""))
        self.assertEqual(self.replies("run", "m.onnxtxt", "--output-dir", ""), {"data"})
        self.assertEqual(self.replies("show", "m.onnxtxt", "--text", "=", "f"), {"full"})
        self.assertIn("m.onnxtxt", self.replies("show", "--text", ""))

    def test_every_command_and_shell(self):
        for shell in ("bash", "zsh", "fish"):
            if not shutil.which(shell):
                continue
            done = subprocess.run([shell, "-n", self.script(shell)], capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_terminal(self):
        self.script("zsh")
        terminal = Terminal(["zsh", "-f", "-i"], self.folder,
                            "bindkey -e; autoload -U compinit; compinit -u -D; unsetopt beep; "
                            "dump() {{ print -r -- \"$BUFFER\" > {line} }}; zle -N dump; "
                            "bindkey '^G' dump; source {script}; "
                            "args() {{ print -r -- \"$@[-1]\" > {line} }}")
        self.run_hostile(terminal, ["", '"', "'"])
        # Where a value may follow '=' or a space, zsh chooses the former.
        cases = [(typed, line.replace("keep-ops ", "keep-ops=") if typed.endswith("-op") else line)
                 for typed, line in UNIQUE] + [
            ("demi convert m.onnxtxt --keep /enc/layer\\ one/m",
             "demi convert m.onnxtxt --keep /enc/layer\\ one/mm "),
            ("demi convert m.onnxtxt -n --keep zl", "demi convert m.onnxtxt -n --keep zlast ")]
        self.type_all(terminal, cases)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        script = self.script("fish")
        environment = {**os.environ, "HOME": self.folder,
                       "PATH": f"{os.path.dirname(DEMI)}:{os.environ['PATH']}"}

        def offers(line):
            done = subprocess.run(["fish", "-N", "-c", f'source "{script}"; complete -C "{line}"'],
                                  capture_output=True, cwd=self.folder, env=environment)
            self.assertEqual(done.stderr, b"")
            return {row.split("\t")[0] for row in done.stdout.decode().splitlines()}
        self.assertIn("convert", offers("demi conv"))
        self.assertEqual(offers("demi help ben"), {"bench"})
        self.assertEqual(offers("demi convert --to=nvf"), {"--to=nvfp4-weights"})
        self.assertEqual(offers("demi convert --to nvf"), {"nvfp4-weights"})
        self.assertEqual(offers("demi convert m.onnxtxt --keep zl"), {"zlast"})
        self.assertIn("/enc/layer one/mm", offers("demi convert m.onnxtxt --keep "))
        self.assertEqual(offers("demi convert m.onnxtxt --keep-ops Sq"), {"Sqrt"})
        self.assertIn("-o", offers("demi convert -"))
        self.assertLessEqual(set(HOSTILE), offers("demi convert hostile.onnxtxt --why "))
        self.assertNotIn("pwned", os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
