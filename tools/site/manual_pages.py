# SPDX-License-Identifier: Apache-2.0
"""The manual's Markdown files as pages of the site: the same text, with links that lead to pages.

FOLDER/README.md is the page FOLDER, README.md the first one. A link to another of these files becomes one to
its page, one to a public header one to its page of the reference; any other file of the tree is named and not
linked, unless `source` says where the tree can be read. A link to nothing is an error.
"""

import os
import pathlib
import re
import shutil
import subprocess

NAMES = {"README.md": "index", ".github/CONTRIBUTING.md": "contributing", "tools/glossary.md": "glossary"}
FENCE = re.compile(r"(^(?P<mark>```+|~~~+)[^\n]*\n.*?^(?P=mark)[^\n]*$)", re.S | re.M)
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
# A link, or code, in which there is none. The text of a link may hold a picture.
LINK = re.compile(r"(?P<code>(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
                  r"|(?<!!)\[(?P<text>[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\((?P<to>[^)\s]+)\)", re.S)


class BrokenLink(Exception):
    """A link to what is not there."""


def page_name(path: str) -> str:
    """`passes/README.md` -> `passes`."""
    if path in NAMES:
        return NAMES[path]
    folder, _, name = path.rpartition("/")
    return folder if name == "README.md" else path.removesuffix(".md")


class Manual:
    """All Markdown files of the tree."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path, source: str | None) -> None:
        self.root, self.folder, self.source = root, folder, source
        self.pages = {path: page_name(path) for path in self._files()}
        self.headers: dict[str, str] = {}  # of a public header: its page

    def _files(self) -> list[str]:
        """Those that git has or would add; in a tree without git, all."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.md"], cwd=self.root,
                                capture_output=True, text=True, check=False)
        found = listed.stdout.split("\n")[:-1] if listed.returncode == 0 else [
            str(path.relative_to(self.root)) for path in self.root.rglob("*.md")]
        return sorted(path for path in found if not path.startswith(("build/", "tools/site/"))
                      and (self.root / path).is_file())

    def write_pages(self) -> None:
        for path, name in self.pages.items():
            text = self._with_links(path, (self.root / path).read_text())
            if name == "glossary":
                text = glossary(text)
            target = self.folder / f"{name}.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    def _with_links(self, path: str, text: str) -> str:
        parts = FENCE.split(text)  # text, block, its mark, text, …
        for i in range(0, len(parts), 3):
            parts[i] = PICTURE.sub(lambda found: self._picture(path, found), parts[i])
            parts[i] = LINK.sub(lambda found: self._link(path, found), parts[i])
        return "".join(part for i, part in enumerate(parts) if i % 3 != 2)

    def _target(self, path: str, link: str) -> str:
        """What a link leads to, from the root."""
        target = os.path.normpath(os.path.join(os.path.dirname(path), link)) if link else path
        if not (self.root / target).exists() or target.startswith(".."):
            raise BrokenLink(f"{path}: a link to nothing: {link}")
        return target

    def _picture(self, path: str, found: re.Match[str]) -> str:
        if re.match(r"\w+:", found[2]):
            raise BrokenLink(f"{path}: a picture that is not in the tree: {found[2]}")
        target = self._target(path, found[2])
        (self.folder / "pictures").mkdir(exist_ok=True)
        shutil.copy(self.root / target, self.folder / "pictures" / os.path.basename(target))
        return f"![{found[1]}](/pictures/{os.path.basename(target)})"

    def _link(self, path: str, found: re.Match[str]) -> str:
        if found["code"] or re.match(r"[a-z]+:", found["to"]):
            return found[0]
        link, mark, anchor = found["to"].partition("#")
        target = self._target(path, link)
        text = PICTURE.sub(lambda inner: inner[0], found["text"])
        if target in self.pages:
            return f"[{text}](/{self.pages[target]}.md{mark}{anchor})" if link else f"[{text}]({mark}{anchor})"
        header = self.headers.get(os.path.basename(target))
        if header:
            return f"[{text}](/{header}.rst)"
        if self.source:
            return f"[{text}]({self.source.rstrip('/')}/{target})"
        return f'<span class="in-tree" title="{target}">{text}</span>'


def glossary(text: str) -> str:
    """Terms with anchors of their own: of rows `| term | what it is |`, or of a definition list."""
    entries: list[tuple[str, str]] = []
    rest = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("|") and len(cells) == 2:
            below = lines[i + 1] if i + 1 < len(lines) else ""
            if not re.fullmatch(r"[|\s:-]+", line) and not re.fullmatch(r"\|[|\s:-]+", below):
                entries.append((cells[0], cells[1]))
        elif line.startswith(": ") and i:
            entries.append((lines[i - 1].strip(), line[2:].strip()))
        elif entries and re.match(r"\s+\S", line):
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
        elif not (i + 1 < len(lines) and lines[i + 1].startswith(": ")):
            rest.append(line)
    if not entries:
        raise BrokenLink("tools/glossary.md explains no terms: a table of two columns, or a definition list")
    terms = "\n\n".join(f"{re.sub(r'[*`]', '', term)}\n   {said}" for term, said in entries)
    return "\n".join([*rest, "", "````{glossary}", terms, "````", ""])
