# SPDX-License-Identifier: Apache-2.0
"""Checks that the manual (README.md, the folders' README files, CONTRIBUTING.md) says what is so.

Every block of code carries a mark: shell blocks after `<!-- run -->` run as they are written, in a
folder with a model, and so do Python's, with the library that was built; the C blocks compile, link with the built libdemi and convert, or run a plan; the
plug-in compiles and runs; pictures of the terminal are what the program prints (where the real models
are there), times and notes aside; a block that is not run says why. The passes, settings, formats, exit codes, JSON
fields, options and folders are those of the program and the tree; links, anchors and named paths
resolve; every page can be reached from README.md, which stays short; and CONTRIBUTING's tour can be
walked. --update rewrites pictures and tables.
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
CONTRIBUTING = ROOT / ".github/CONTRIBUTING.md"
MODEL = ROOT / "testdata/models/conv_net.onnx"
README_LINES, TOUR_CLICKS = 160, 10
COMMANDS = ["convert", "simplify", "opt", "show", "check", "diff", "compile", "run", "bench", "compare", "search", "make-training", "train", "help"]
# Options in the manual that are other programs'; those of scripts are looked up in the script.
FOREIGN = {"--fp16", "--bf16", "--layerPrecisions", "--inputIOFormats", "--onnx", "--preset",
           "--build", "--install", "--prefix", "--cflags", "--libs", "--no-deps", "--target"}
# What CONTRIBUTING calls the files of a pass that is still to be written.
PLACEHOLDERS = {"passes/my_pass.c", "testdata/golden/my-pass.txt"}
MARKS = r"run(?: \w+)?|c(?: \w+)?|python data|output: \w+|not run: .+"
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.S | re.M)


def output_of(*words: str, code: int = 0, cwd: pathlib.Path = ROOT) -> str:
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
                          check=False)
    if done.returncode != code:
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()


def anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class Page:
    """One file of the manual."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.text = path, path.read_text()
        self.name = str(path.relative_to(ROOT))
        self.prose = FENCE.sub("", self.text)
        self.anchors = {anchor(h) for h in re.findall(r"^#+ (.*)$", self.prose, re.M)}

    def links(self) -> list[tuple[pathlib.Path, str]]:
        """(file, anchor) of every link to this tree."""
        found = re.findall(r"\]\(((?!https?:)[^)\s]*)\)", self.prose)
        return [(self.target(link), link.partition("#")[2]) for link in found]

    def target(self, link: str) -> pathlib.Path:
        path = link.partition("#")[0]
        return pathlib.Path(os.path.normpath(self.path.parent / path)) if path else self.path


def all_pages() -> list[Page]:
    """README.md first."""
    rooms = [p for p in ROOT.iterdir() if p.is_dir() and p.name != "build" and p.name[0] != "."]
    folders = sorted(path for room in rooms for path in room.rglob("README.md"))
    return [Page(path) for path in [ROOT / "README.md", *folders, CONTRIBUTING]]


class Manual:
    """The pages' parts, found by the comments before them."""

    def __init__(self, demi: str, pages: list[Page]) -> None:
        self.demi, self.pages, self.problems = demi, pages, []
        self.text = "\n".join(page.text for page in pages)

    def fences(self, mark: str) -> list[str]:
        return re.findall(rf"<!-- {mark} -->\n```\w*\n(.*?)```\n", self.text, re.S)

    def table(self, mark: str) -> str:
        found = re.findall(rf"<!-- {mark} -->\n((?:\|.*\n)+)", self.text)
        if len(found) != 1:
            self.problems.append(f"{len(found)} tables are marked {mark}, expected 1")
        return found[0] if found else ""

    def same(self, what: str, got: str, want: str) -> None:
        if got.strip() != want.strip():
            self.problems.append(f"{what} differ:\n{got.strip()}\nexpected:\n{want.strip()}")

    def marks(self) -> None:
        """Every block says what is done with it."""
        for page in self.pages:
            for found in FENCE.finditer(page.text):
                before = page.text[:found.start()].rstrip("\n").rpartition("\n")[2]
                if not re.fullmatch(rf"<!-- (?:{MARKS}) -->", before):
                    self.problems.append(f"{page.name}: a block without a mark:\n{found.group(1)}")

    def run_blocks(self, folder: pathlib.Path) -> None:
        blocks = self.fences("run")
        if not blocks:
            self.problems.append("no block is marked to be run")
        for i, block in enumerate(blocks):
            self.run_block(block, folder / str(i), {})
        sets = "demi run model.onnx --random 1 --save-inputs samples --quiet\n"
        for i, block in enumerate(self.fences("run data")):
            self.run_block(sets + block, folder / f"data{i}", {})

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

    def run_python(self, folder: pathlib.Path) -> None:
        """Python blocks, with the package of this tree and the library that was built."""
        library = pathlib.Path(self.demi).resolve().parent / "libdemi.so"
        blocks = self.fences("python data") if library.exists() else []
        for i, block in enumerate(blocks):
            words = f"PYTHONPATH={ROOT / 'tools/python'} DEMI_LIBRARY={library} {sys.executable} -B"
            self.run_block(f"{words} block.py", folder / f"python{i}", {"block.py": block})

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
        """Options are the command's, other programs', or those of a script that the line names."""
        known = set(FOREIGN)
        for command in COMMANDS:
            known |= set(re.findall(r"--[a-z][\w-]*", output_of(self.demi, command, "--help")))
        for line in self.text.splitlines():
            scripts = [ROOT / name for name in re.findall(r"\btools/[\w/.]+\w", line)]
            for program in re.findall(r"\bbuild/\w+/(\w+) ", line):
                scripts += (ROOT / "tools").rglob(f"{program}.c")
            theirs = "".join(p.read_text() for p in scripts if p.is_file())
            for option in re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", line):
                if option not in known and option not in theirs and "<!--" not in line:
                    self.problems.append(f"unknown option {option} in: {line}")

    def tree(self) -> None:
        """Folders and paths that are named are there, and every folder is named."""
        named = re.findall(r"^\| `([\w/]+)/`", self.table("tree"), re.M)
        have = [p.name for p in ROOT.iterdir() if p.is_dir() and p.name[0] != "."]
        for name in sorted(set(have) - set(named) - {"build"}):
            self.problems.append(f"folder {name}/ has no line")
        for page in self.pages[1:-1]:
            self.rooms(page)
        rooms = "|".join(named)
        for page in self.pages:
            for path in re.findall(rf"(?<![\w/.-])((?:{rooms})/[\w./-]*\w)", page.prose):
                if path in PLACEHOLDERS:
                    continue
                if not (ROOT / path).exists() and not (page.path.parent / path).exists():
                    self.problems.append(f"{page.name}: no such path: {path}")

    def rooms(self, page: Page) -> None:
        """A folder's page names its rooms, or the rooms of these."""
        table = re.search(r"<!-- rooms -->\n((?:\|.*\n)+)", page.text)
        cells = re.findall(r"^\|([^|]*)", table.group(1) if table else "", re.M)
        named = {name for cell in cells for name in re.findall(r"`([\w/]+)/`", cell)}
        folder = page.path.parent
        for name in sorted(n for n in named if not (folder / n).is_dir()):
            self.problems.append(f"{page.name}: there is no room {name}/")
        for within in sorted({str(pathlib.PurePath(name).parent) for name in named} | {"."}):
            have = [str((pathlib.PurePath(within) / p.name)) for p in (folder / within).iterdir()
                    if p.is_dir() and p.name[0] not in "._"]
            self.problems += [f"{page.name}: the room {name}/ has no line" for name in sorted(have)
                              if not any(n == name or n.startswith(name + "/") for n in named)]

    def links(self) -> None:
        """Links and anchors resolve, and every page can be reached from the first."""
        pages, reached = {page.path: page for page in self.pages}, {self.pages[0].path}
        for page in self.pages:
            for path, at in page.links():
                if not path.exists():
                    self.problems.append(f"{page.name}: a link to nothing: {path}")
                elif at and path in pages and at not in pages[path].anchors:
                    self.problems.append(f"{page.name}: no heading #{at} in {pages[path].name}")
        fresh = reached
        while fresh:
            fresh = {path for at in fresh for path, _ in pages[at].links() if path in pages} - reached
            reached |= fresh
        self.problems += [f"no link leads to {page.name}" for page in self.pages
                          if page.path not in reached]

    def tour(self) -> None:
        """Each line begins at README.md, and each stop is a link on the page before."""
        page = next(page for page in self.pages if page.path == CONTRIBUTING)
        found = re.search(r"^## A tour\n(.*?)^## ", page.prose, re.S | re.M)
        pages, clicks = {page.path: page for page in self.pages}, 0
        for line in re.findall(r"^- .*(?:\n  .*)*", found.group(1) if found else "", re.M):
            first, *stops = [page.target(link) for link in re.findall(r"\]\(([^)]*)\)", line)]
            if first != self.pages[0].path or len(stops) < 2:
                self.problems.append(f"the tour: no way from README.md: {line}")
            for here, there in zip([first, *stops], stops):
                clicks += 1
                if here not in pages or there not in [path for path, _ in pages[here].links()]:
                    self.problems.append(f"the tour: {here.relative_to(ROOT)} has no link to "
                                         f"{there.relative_to(ROOT)}")
        if not 0 < clicks < TOUR_CLICKS:
            self.problems.append(f"the tour has {clicks} clicks, expected 1 to {TOUR_CLICKS - 1}")

    def short(self) -> None:
        lines = self.pages[0].text.count("\n")
        if lines > README_LINES:
            self.problems.append(f"README.md has {lines} lines, more than {README_LINES}")


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


def columns(path: str, row: str) -> list[list[str]]:
    """What the rows of a table of the sources have between their commas."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.S)
    for name, value in re.findall(r"^#define (\w+) +(\".*)$", text, re.M):
        text = text.replace(name, value)
    found = re.findall(rf"^{row}\((.*)\)$", text, re.M)
    return [[cell.strip().replace('" "', "").strip('"') for cell in re.split(r",(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", cells)]
            for cells in found]


def formats_table() -> str:
    """Targets of quantization, what they store, and the runtimes that take it."""
    formats = {row[1]: row for row in columns("rewrite/base/formats.def", "QUANTIZED")}
    runtimes = [(row[0].lower(), row[1].split(), row[2].split(), row[4] == "true") for row in columns("passes/front/runtimes.def", "RUNTIME")]
    targets = re.findall(r'\(DEMI_TO_\w+, "([\w-]+)",[^()]*?(VALUES|WEIGHTS|ROWS), (\w+)\)',
                         (ROOT / "passes/policy.def").read_text(encoding="utf-8"))
    lines = "| `--to` | weights | scales | blocks | runtimes |\n|---|---|---|---|---|\n"
    for to, kind, word in targets:
        dtype, _, _, block, zeros, scales, levels = formats[word]
        said = {"UNDEFINED": "that of the model"}.get(scales, scales.lower()) + (" times one float32" if levels == "2" else "")
        taken = [name for name, values, weights, rows in runtimes if name != "any"
                 and (word in weights or (zeros == "ZEROS" and word[1:] in weights))
                 and (kind == "WEIGHTS" or (kind == "ROWS" and rows) or kind == "VALUES" and any((v == "fp8") == (word == "fp8") for v in values))]
        lines += (f"| `{to}` | {dtype.lower()}{' with zero points' if zeros == 'ZEROS' else ''} | {said} | "
                  f"{block if block != '0' else 'per channel'} | {', '.join(taken)} |\n")
    return lines


def exits_table(demi: str) -> str:
    found = re.findall(r"^  (\d+) +(.*)$", output_of(demi, "--help"), re.M)
    return "| code | meaning |\n|---|---|\n" + "".join(f"| {c} | {text} |\n" for c, text in found)


def picture(demi: str, old: str, folder: pathlib.Path) -> str | None:
    """What the command of a picture prints now; None where its model is missing."""
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
                        ("exit codes", exits_table(demi)), ("formats", formats_table())):
        text = re.sub(rf"(<!-- {mark} -->\n)(?:.+\n)+", lambda m, t=table: m.group(1) + t, text)
    return text


def check(manual: Manual, folder: pathlib.Path, args: argparse.Namespace) -> None:
    manual.short()
    manual.marks()
    manual.links()
    manual.tour()
    manual.tree()
    manual.options()
    manual.run_blocks(folder)
    manual.run_python(folder)
    manual.plugin(folder)
    manual.json_fields()
    manual.same("passes", manual.table("passes"), passes_table(manual.demi))
    manual.same("settings", manual.table("settings"), settings_table(manual.demi))
    manual.same("exit codes", manual.table("exit codes"), exits_table(manual.demi))
    manual.same("formats", manual.table("formats"), formats_table())
    for old in manual.fences(r"output: \w+"):
        shown = picture(manual.demi, old, folder)
        if shown:
            manual.same("pictures", lasting(old), lasting(shown))
    if args.build:
        manual.compile_c(folder, args)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--build", type=pathlib.Path, help="where libdemi.a is; else no C is built")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    args.demi = str(pathlib.Path(args.demi).resolve())
    args.build = args.build and args.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        for page in all_pages() if args.update else []:
            page.path.write_text(updated(page.text, args.demi, pathlib.Path(name)))
        manual = Manual(args.demi, all_pages())
        check(manual, pathlib.Path(name), args)
    for problem in manual.problems:
        print(f"FAIL {problem}")
    print(f"readme_test: {len(manual.pages)} pages, {len(manual.problems)} problems")
    sys.exit(1 if manual.problems else 0)


if __name__ == "__main__":
    main()
