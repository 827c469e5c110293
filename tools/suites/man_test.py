# SPDX-License-Identifier: Apache-2.0
"""Manual pages: one for each command, for policies and for pipelines, built as `demi help --man`
prints them; each option, key, choice and pass is on its page with what help says of it; what a page
refers to is there; groff and mandoc have no complaint (where they are installed)."""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ESCAPES = {"\\:": "", "\\-": "-", "\\(aq": "'", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~", "\\(dq": '"',
           "\\&": "", "\\fB": "", "\\fR": "", "\\fI": "", "\\e": "\\"}
LINTERS = [["groff", "-man", "-Tutf8", "-ww", "-z"], ["mandoc", "-T", "lint", "-W", "warning"]]


def plain(page: str) -> str:
    """The words of a page: without roff's escapes, requests and line breaks."""
    lines = [re.sub(r"^\.SS ", "", line) for line in page.splitlines()]
    lines = [line for line in lines if not re.match(r"\.[A-Za-z]", line)]
    text = re.sub(r"\\(?:\(..|f.|.)", lambda m: ESCAPES[m[0]], "\n".join(lines))
    return " ".join(text.split())


def entries(text: str) -> list[str]:
    """Heads and explanations of a help text, one after another, each in one line."""
    found: list[str] = []
    for line in text.split("\nExamples:")[0].splitlines():
        if re.match(r"  \S", line):
            found += [part for part in re.split(r"  +", line.strip(), maxsplit=1) if part]
            whole = len(line) > 26 and line[24:26] != "  "
            if whole or len(line) <= 26:
                found.append("")
        elif line.startswith(" " * 26):
            found[-1] = f"{found[-1]} {line.strip()}".strip()
    return [entry for entry in found if entry]


class Pages:
    def __init__(self, demi: str, folder: pathlib.Path) -> None:
        self.demi, self.folder, self.problems = demi, folder, []
        self.commands = re.findall(r"^  ([\w-]+)  ", self.say("--help").split("Commands:")[1], re.M)
        self.commands = [name for name in self.commands if not name.isdigit()]

    def say(self, *words: str) -> str:
        return subprocess.run([self.demi, *words], capture_output=True, check=True).stdout.decode()

    def has(self, page: str, texts: list[str]) -> None:
        path = self.folder / page
        words = plain(path.read_text()) if path.exists() else "" # built() has said so
        self.problems += [f"{page} lacks: {text}" for text in texts if text not in words]

    def built(self) -> list[str]:
        """All pages that there have to be are, and are what the command prints."""
        want = ["demi.1", "demi-policy.5", "demi-pipeline.7"]
        want += [f"demi-{command}.1" for command in self.commands]
        have = sorted(path.name for path in self.folder.glob("*.[157]"))
        self.problems += [f"{page} is {'missing' if page in want else 'too many'}"
                          for page in sorted(set(want) ^ set(have))]
        for page in sorted(set(want) & set(have)):
            if (self.folder / page).read_text() != self.say("help", page[:-2], "--man"):
                self.problems.append(f"{page} is not what 'demi help {page[:-2]} --man' prints")
        return sorted(set(want) & set(have))

    def contents(self) -> None:
        self.has("demi.1", [f"demi {command}" for command in self.commands])
        for command in self.commands:
            help_text = self.say("help", command)
            if len(entries(help_text)) < 2 * help_text.count("\n  --"):
                self.problems.append(f"entries of 'demi help {command}' are not understood")
            self.has(f"demi-{command}.1", entries(help_text))
        keys = json.loads(self.say("convert", "--print-policy"))
        self.has("demi-policy.5", [f'"{key}": ' for key in keys])
        help_text = self.say("help", "policy")
        self.has("demi-policy.5", entries(help_text))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(help_text.split("\nExamples:\n")[1])
            file.flush()
            self.say("convert", "--print-policy", "--policy", file.name)
        for line in self.say("opt", "--list-passes").splitlines():
            head, text = line.strip().split(": ", 1)
            default = re.fullmatch(r"(.*) (\(default .*\))", head)
            self.has("demi-pipeline.7", [default[1], text, default[2]] if default else
                     [head, text[1:]])

    def references(self, pages: list[str]) -> None:
        for page in pages:
            for name, section in re.findall(r"^\.BR (\S+) \((\d)\)", (self.folder / page).read_text(),
                                            re.M):
                if f"{plain(name)}.{section}" not in pages:
                    self.problems.append(f"{page} refers to {plain(name)}({section})")

    def lint(self, pages: list[str]) -> None:
        for words in LINTERS:
            for page in pages if shutil.which(words[0]) else []:
                done = subprocess.run([*words, self.folder / page], capture_output=True, check=False)
                said = (done.stdout + done.stderr).decode().splitlines()
                # The same sources give the same pages: they have no date.
                self.problems += [line for line in said if "missing date" not in line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True)
    parser.add_argument("--pages", type=pathlib.Path, required=True)
    args = parser.parse_args()
    pages = Pages(args.demi, args.pages)
    built = pages.built()
    pages.contents()
    pages.references(built)
    pages.lint(built)
    for problem in pages.problems:
        print(f"FAIL {problem}")
    print(f"man_test: {len(built)} pages, {len(pages.problems)} problems")
    sys.exit(1 if pages.problems else 0)


if __name__ == "__main__":
    main()
