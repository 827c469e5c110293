# SPDX-License-Identifier: Apache-2.0
"""Pages of commands, policies and passes, made of the manual pages that `demi help NAME --man` prints.

What is read is the roff that tools/command/help_page.c writes, and nothing else of it. An entry is, by the form
of its head: an option (--to TYPE), a key of a policy ("to": …), an option of the pass whose heading it stands
under (to=…), or a name.
"""

import dataclasses
import pathlib
import re
import subprocess

import plain

ESCAPES = {"\\:": "", "\\-": "-", "\\(aq": "'", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~", "\\(dq": '"', "\\&": "", "\\e": "\\"}


@dataclasses.dataclass
class Part:
    """Of a page: a heading (section, subsection), a text, an entry, or lines as they are."""

    kind: str
    head: str = ""
    text: str = ""
    again: bool = False  # an entry of the same key stands before


def unescaped(line: str) -> str:
    line = re.sub(r"\\f[BIR]", "", line)
    return re.sub(r"\\(?:\(..|.)", lambda found: ESCAPES[found[0]], line)


class Roff:
    """The parts of a page, in order."""

    def __init__(self, source: str) -> None:
        self.name, self.section = re.search(r'^\.TH (\S+) (\d)', source, re.M).groups()
        self.parts: list[Part] = []
        self.as_is = self.entry = False
        for line in source.splitlines():
            self._line(line)

    def _line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word in (".SH", ".SS"):
            self.parts.append(Part("section" if word == ".SH" else "subsection", unescaped(rest)))
        elif word == ".TP":
            self.parts.append(Part("entry"))
            self.entry = True
        elif word == ".PP":
            self.parts.append(Part("text"))
        elif word in (".nf", ".fi"):
            self.as_is = word == ".nf"
            if self.as_is:
                self.parts.append(Part("lines"))
        elif word in (".B", ".I"):
            self._add(unescaped(rest))
        elif word not in (".TH", ".nh", ".ad", ".RS", ".RE", ".BR"):
            self._add(unescaped(line))

    def _add(self, line: str) -> None:
        last = self.parts[-1] if self.parts else Part("")
        if self.entry:  # the line after .TP
            last.head, self.entry = line, False
            last.again = any(p.head.partition(": ")[0] == line.partition(": ")[0] for p in self.parts[:-1])
        elif self.as_is:
            last.text += line + "\n"
        elif last.kind in ("text", "entry"):
            last.text = f"{last.text} {line}".strip()
        else:
            self.parts.append(Part("text", text=line))

    def sections(self) -> dict[str, list[Part]]:
        """By the section's name, as it is printed."""
        found: dict[str, list[Part]] = {}
        here: list[Part] = []
        for part in self.parts:
            if part.kind == "section":
                here = found.setdefault(part.head, [])
            else:
                here.append(part)
        return found


def first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def entry(part: Part, owner: str) -> str:
    """One entry as a directive; `owner` is the pass under whose heading it stands."""
    text = plain.indented(plain.paragraphs(part.text, "none"))
    command = re.fullmatch(r"demi-([\w-]+)\(1\)", part.head)
    if command:
        summary = first_upper(part.text.partition(": ")[2])
        return f":doc:`demi {command.group(1)} <demi-{command.group(1)}>`\n   {plain.inline(summary)}\n"
    if part.head.startswith("-"):
        return f".. option:: {part.head}\n\n{text}\n"
    if part.head.startswith('"'):
        again = "   :no-index:\n" if part.again else ""
        return f".. policy-key:: {part.head}\n{again}\n{text}\n"
    if owner and "=" in part.head:
        return f".. option:: {part.head}\n\n{text}\n"
    return f"{plain.literal(part.head).strip(chr(92) + ' ')}\n{text}\n"


def body(parts: list[Part], passes: bool) -> str:
    out, owner = [], ""
    for part in parts:
        if part.kind == "subsection":
            if passes:
                owner = part.head
                out.append(f".. _pass-{owner}:\n\n{plain.title(owner, '~')}\n.. program:: {owner}\n")
            else:
                out.append(plain.title(part.head, "~"))
        elif part.kind == "text":
            out.append(plain.paragraphs(part.text, "none"))
        elif part.kind == "lines":
            language = "json" if part.text.startswith("{") else "sh"
            out.append(plain.code(part.text, language))
        else:
            out.append(entry(part, owner))
    return "\n".join(out)


def page(source: str, title: str, program: str) -> str:
    """A manual page. NAME becomes the title and its first line; what follows SEE ALSO is the site's own."""
    roff = Roff(source)
    sections = roff.sections()
    name = sections.pop("NAME")[0].text
    out = [plain.title(title, "="), plain.paragraphs(first_upper(name.partition(" - ")[2]) + ".", "none"),
           f".. program:: {program}\n" if program else ""]
    synopsis = sections.pop("SYNOPSIS", [])
    if synopsis:
        out.append(plain.code(" ".join(part.text for part in synopsis), "none"))
    sections.pop("SEE ALSO", None)
    for head, parts in sections.items():
        if parts:
            out += [plain.title(head.capitalize(), "-"), body(parts, passes=roff.section == "7")]
    return "\n".join(out)


def say(demi: pathlib.Path, *words: str) -> str:
    return subprocess.run([demi, *words], capture_output=True, check=True).stdout.decode()


def write_pages(demi: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """demi(1) with all commands below it, and a page for each topic. Gives the names of the topics' pages."""
    folder.mkdir(parents=True, exist_ok=True)
    source = say(demi, "help", "demi", "--man")
    commands = [part.head.partition("(")[0] for part in Roff(source).parts
                if part.kind == "entry" and re.fullmatch(r"demi-[\w-]+\(1\)", part.head)]
    topics = re.findall(r"\.BR demi\\-([\w\\-]+) \([57]\)", source)
    tree = "\n".join([".. toctree::", "   :hidden:", "", *(f"   {name}" for name in commands)])
    (folder / "commands.rst").write_text(f"{page(source, 'Commands and options', 'demi')}\n\n{tree}\n")
    for name in commands:
        text = page(say(demi, "help", name, "--man"), name.replace("-", " ", 1), name.replace("-", " ", 1))
        (folder / f"{name}.rst").write_text(text)
    for topic in (name.replace("\\-", "-") for name in topics):
        title = {"policy": "Policies", "pipeline": "Passes and pipelines"}.get(topic, topic.capitalize())
        (folder / f"{topic}.rst").write_text(page(say(demi, "help", topic, "--man"), title, ""))
    return topics
