# SPDX-License-Identifier: Apache-2.0
"""Checks that README.md says what is so.

Shell blocks after `<!-- run -->` run as they are written, in a folder with a model; the C blocks
compile, link with the built libdemi and convert, or run a plan; the plug-in compiles and runs; the
passes, settings, exit codes, JSON fields, options and folders are those of the program and the tree; pictures of
the terminal are what the program prints (where the real models are there), times and notes aside.
--update rewrites pictures and tables.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
MODEL = ROOT / "testdata/models/conv_net.onnx"
COMMANDS = ["convert", "opt", "show", "check", "diff", "compile", "run", "bench", "compare", "help"]
# Options in README.md that are other programs', or those of scripts.
FOREIGN = {"--fp16", "--bf16", "--layerPrecisions", "--inputIOFormats", "--onnx", "--preset",
           "--build", "--install", "--prefix", "--cflags", "--libs", "--no-deps", "--target",
           "--verbose", "--quick", "--help", "--modelopt", "--peers", "--cold"}


def output_of(*words: str, code: int = 0, cwd: pathlib.Path = ROOT) -> str:
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
                          check=False)
    if done.returncode != code:
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()


class Readme:
    """The file's parts, found by the comments before them."""

    def __init__(self, demi: str, text: str) -> None:
        self.demi, self.text, self.problems = demi, text, []

    def fences(self, mark: str) -> list[str]:
        return re.findall(rf"<!-- {mark} -->\n```\w*\n(.*?)```\n", self.text, re.S)

    def table(self, mark: str) -> str:
        found = re.search(rf"<!-- {mark} -->\n((?:\|.*\n)+)", self.text)
        return found.group(1) if found else ""

    def same(self, what: str, got: str, want: str) -> None:
        if got.strip() != want.strip():
            self.problems.append(f"{what} differ:\n{got.strip()}\nexpected:\n{want.strip()}")

    def run_blocks(self, folder: pathlib.Path) -> None:
        blocks = self.fences("run")
        if not blocks:
            self.problems.append("no block is marked to be run")
        for i, block in enumerate(blocks):
            self.run_block(block, folder / str(i), {})

    def run_block(self, block: str, place: pathlib.Path, files: dict[str, str]) -> None:
        """Runs a block in a new folder that holds a model and these files."""
        build = pathlib.Path(self.demi).resolve().parent
        environment = os.environ | {"PATH": f"{build}:{os.environ['PATH']}",
                                    "CPATH": str(build / "include")}
        place.mkdir()
        shutil.copy(MODEL, place / "model.onnx")
        for name, text in files.items():
            (place / name).write_text(text)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=place, check=False,
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            self.problems.append(f"exit {done.returncode} of:\n{block}{done.stderr.decode()}")

    def plugin(self, folder: pathlib.Path) -> None:
        sources, blocks = self.fences("c plugin"), self.fences("run plugin")
        if len(sources) != 1 or len(blocks) != 1:
            self.problems.append("the plug-in is one C block and one block that runs it")
            return
        self.run_block(blocks[0], folder / "plugin", {"name_nodes.c": sources[0]})

    def build_c(self, mark: str, folder: pathlib.Path, args: argparse.Namespace) -> str:
        """The program that the block of that mark is."""
        blocks = self.fences(mark)
        if len(blocks) != 1:
            raise RuntimeError(f"{len(blocks)} blocks of {mark}, expected 1")
        program = folder / mark.replace(" ", "_")
        program.with_suffix(".c").write_text(blocks[0])
        output_of(args.cc, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{args.build / 'include'}",
                  str(program.with_suffix(".c")), str(args.build / "libdemi.a"), "-pthread", "-lm",
                  "-o", str(program))
        return str(program)

    def converter(self, program: str, folder: pathlib.Path) -> None:
        output_of(program, str(MODEL), "out.onnx", cwd=folder)
        output_of(self.demi, "convert", str(MODEL), "-o", "same.onnx", cwd=folder)
        if (folder / "out.onnx").read_bytes() != (folder / "same.onnx").read_bytes():
            self.problems.append("the C program writes another model than the command")

    def runner(self, program: str, folder: pathlib.Path) -> None:
        pixels = [(i % 7) / 8 for i in range(2 * 3 * 8 * 8)]
        np.save(folder / "x.npy", np.array(pixels, np.float32).reshape(2, 3, 8, 8))
        output_of(self.demi, "compile", str(MODEL), "-o", "model.plan", cwd=folder)
        output_of(self.demi, "run", "model.plan", "--input", "x=x.npy", "--threads", "1",
                  "--output-dir", "out", cwd=folder)
        got = [float(line) for line in output_of(program, "model.plan", cwd=folder).split()]
        if not np.array_equal(np.array(got, np.float32), np.load(folder / "out/y.npy").ravel()):
            self.problems.append("the C program computes other outputs than the command")

    def compile_c(self, folder: pathlib.Path, args: argparse.Namespace) -> None:
        try:
            self.converter(self.build_c("c", folder, args), folder)
            self.runner(self.build_c("c runtime", folder, args), folder)
        except RuntimeError as error:
            self.problems.append(str(error))

    def json_fields(self) -> None:
        report = json.loads(output_of(self.demi, "convert", str(MODEL), "-n", "--json=-", "-q"))
        named = re.findall(r"`(\w+)`", "\n".join(
            row.split("|")[1] for row in self.table("json").splitlines()))
        self.same("JSON fields", " ".join(sorted(named)), " ".join(sorted([*report, "output"])))

    def options(self) -> None:
        known = set(FOREIGN)
        for command in COMMANDS:
            known |= set(re.findall(r"--[a-z][\w-]*", output_of(self.demi, command, "--help")))
        for option in sorted(set(re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", self.text)) - known):
            if not re.search(rf"^\s*<!-- .*{option}", self.text, re.M):
                self.problems.append(f"unknown option {option}")

    def tree(self) -> None:
        named = re.findall(r"^\| `([\w/]+)/`", self.table("tree"), re.M)
        have = [p.name for p in ROOT.iterdir() if p.is_dir() and p.name[0] != "."]
        for name in sorted(set(have) - set(named) - {"build"}):
            self.problems.append(f"folder {name}/ has no line")
        paths = named + re.findall(r"`((?:tools|passes|rewrite|testdata)/[\w./]+)`", self.text)
        paths += re.findall(r"\]\(((?!http)[\w./]+)\)", self.text)
        self.problems += [f"no such path: {p}" for p in paths if not (ROOT / p).exists()]
        anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-")
                   for h in re.findall(r"^## (.*)$", self.text, re.M)}
        linked = re.findall(r"\]\(#([\w-]+)\)", self.text)
        self.problems += [f"no such heading: #{a}" for a in linked if a not in anchors]


def passes_table(demi: str) -> str:
    lines, rows = output_of(demi, "opt", "--list-passes").splitlines(), []
    for line in lines:
        if line.startswith(" "):
            head, text = line.strip().split(": ", 1)
            name, default = (re.match(r"(\S+)(?: \((.*)\))?$", head).groups())
            text = f"{text} ({default})" if default else text
            rows[-1][2].append(f"`{name}`: {text}".replace("|", "\\|"))
        else:
            rows.append([*line.split(": ", 1), []])
    return "| pass | what it does | options |\n|---|---|---|\n" + "".join(
        f"| `{name}` | {text} | {'<br>'.join(options)} |\n" for name, text, options in rows)


def settings_table(demi: str) -> str:
    keys = output_of(demi, "help", "policy").split("\nKeys:\n")[1].split("\n\n")[0]
    rows: list[list[str]] = []
    for line in keys.splitlines():
        head = re.match(r"  (\S.*?)(?:  +(.*))?$", line)
        if head:
            rows.append([head[1], head[2] or ""])
        else:
            rows[-1][1] += " " + line.strip()
    table = "| key | option | says |\n|---|---|---|\n"
    for key, text in rows:
        says, _, option = text.strip().partition(" Option ")
        option = f"`{option[:-1]}`" if option else ""
        cells = [f"`{key}`", option, says]
        table += f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"
    return table


def exits_table(demi: str) -> str:
    found = re.findall(r"^  (\d)  (.*)$", output_of(demi, "--help"), re.M)
    return "| code | meaning |\n|---|---|\n" + "".join(f"| {c} | {text} |\n" for c, text in found)


def picture(demi: str, old: str, folder: pathlib.Path) -> str | None:
    """What the command of a picture prints now; None where its model is not there."""
    words = old.splitlines()[0].split()[2:]
    if not (ROOT / words[1]).exists():
        return None
    out = words[words.index("-o") + 1] if "-o" in words else ""
    real = [str(folder / "out.onnx") if w == out else w for w in words]
    shown = output_of(demi, *real).replace(str(folder / "out.onnx"), out)
    return f"$ demi {' '.join(words)}\n{shown}"


def lasting(text: str) -> str:
    """Without what differs from run to run and machine to machine."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(("time ", "note:")))


def updated(text: str, demi: str, folder: pathlib.Path) -> str:
    text = re.sub(r"(<!-- output: \w+ -->\n```\n)(.*?)(```\n)",
                  lambda m: m[1] + (picture(demi, m[2], folder) or m[2]) + m[3], text, flags=re.S)
    for mark, table in (("passes", passes_table(demi)), ("settings", settings_table(demi)),
                        ("exit codes", exits_table(demi))):
        text = re.sub(rf"(<!-- {mark} -->\n)(?:.+\n)+", lambda m, t=table: m.group(1) + t, text)
    return text


def check(readme: Readme, folder: pathlib.Path, args: argparse.Namespace) -> None:
    readme.run_blocks(folder)
    readme.plugin(folder)
    readme.json_fields()
    readme.options()
    readme.tree()
    readme.same("passes", readme.table("passes"), passes_table(readme.demi))
    readme.same("settings", readme.table("settings"), settings_table(readme.demi))
    readme.same("exit codes", readme.table("exit codes"), exits_table(readme.demi))
    for old in readme.fences(r"output: \w+"):
        shown = picture(readme.demi, old, folder)
        if shown:
            readme.same("pictures", lasting(old), lasting(shown))
    if args.build:
        readme.compile_c(folder, args)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--build", type=pathlib.Path, help="where libdemi.a is; else no C is built")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    args.demi = str(pathlib.Path(args.demi).resolve())
    args.build = args.build and args.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        if args.update:
            README.write_text(updated(README.read_text(), args.demi, pathlib.Path(name)))
        readme = Readme(args.demi, README.read_text())
        check(readme, pathlib.Path(name), args)
    for problem in readme.problems:
        print(f"FAIL {problem}")
    print(f"readme_test: {len(readme.problems)} problems")
    sys.exit(1 if readme.problems else 0)


if __name__ == "__main__":
    main()
