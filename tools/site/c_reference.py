# SPDX-License-Identifier: Apache-2.0
"""Pages of the C reference, made of the public headers as they are installed.

A header is a row of pieces: comments, lines of the preprocessor, declarations. A comment belongs to the
declaration that follows it at once, or that ends on its line; declarations that follow one another without
an empty line share one. `/* ---- name ---- */` is a heading; a comment that stands alone, text.
What each declaration is becomes a directive of Sphinx's C domain, and so an anchor and a line of the index.
"""

import dataclasses
import pathlib
import re

import plain

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
HEADING = re.compile(r"/\* -{3,} (.*?) -+ \*/$", re.S)
# What says something to compilers and nothing to readers.
NOISE = re.compile(r"\b(?:DEMI_API|DEMI_PLUGIN_EXPORT|extern)\b\s*|\bDEMI_PRINTF\([^)]*\)|__attribute__\s*\(\(.*?\)\)")
SHORT_VALUE = 60


@dataclasses.dataclass
class Piece:
    kind: str  # comment, macro, code
    text: str
    line: int  # where it begins
    last: int  # where it ends
    experimental: bool = False


def comment_text(raw: str) -> str:
    """What a comment says, line by line, without its frame."""
    if raw.startswith("//"):
        return raw[2:].strip()
    lines = raw[2:-2].splitlines()
    rest = [re.sub(r"^\s*\* ?", "", line) for line in lines[1:]]
    if not all(re.match(r"\s*\*", line) for line in lines[1:] if line.strip()):  # beside code: no stars
        rest = [line.strip() for line in lines[1:]]
    return "\n".join([lines[0].strip(), *rest]).strip()


def end_of_code(text: str, at: int) -> int:
    """Behind the `;` that ends the declaration which begins at `at`."""
    depth = 0
    while at < len(text):
        comment = COMMENT.match(text, at)
        if comment:
            at = comment.end()
            continue
        depth += (text[at] in "{(") - (text[at] in "})")
        at += 1
        if text[at - 1] == ";" and depth == 0:
            return at
    raise ValueError("a declaration does not end")


def without_cplusplus(text: str) -> str:
    """Lines that only a C++ compiler sees, emptied; of an #else, those stay."""
    out, skip, inside = [], False, False
    for line in text.splitlines():
        if re.match(r"#\s*ifdef __cplusplus", line):
            skip = inside = True
        elif inside and re.match(r"#\s*(?:else|endif)", line):
            skip, inside = False, "else" in line
        elif not skip:
            out.append(line)
            continue
        out.append("")
    return "\n".join(out) + "\n"


def pieces_of(text: str) -> list[Piece]:
    text, at, found = without_cplusplus(text), 0, []
    experimental = False
    while at < len(text):
        start, line = at, text.count("\n", 0, at) + 1
        comment = COMMENT.match(text, at)
        if text[at].isspace():
            at += 1
            continue
        if comment:
            at, kind = comment.end(), "comment"
        elif text[at] == "#":
            at = re.compile(r"(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*", re.S).match(text, at).end()
            at, kind = text.index("\n", start) if "\\\n" not in text[start:at] else at, "macro"
            word = text[start:at]
            if re.match(r"#\s*ifdef DEMI_EXPERIMENTAL", word):
                experimental = True
            elif re.match(r"#\s*endif", word):
                experimental = False
        else:
            at, kind = end_of_code(text, at), "code"
        found.append(Piece(kind, text[start:at], line, text.count("\n", 0, at) + 1, experimental))
    return found


def bare(code: str) -> str:
    """A declaration in one line, without comments and what is for compilers."""
    return " ".join(NOISE.sub("", COMMENT.sub(" ", code)).split()).rstrip("; ")


def split_top(text: str, by: str) -> list[str]:
    """Parts between `by` that stands in no brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        if char == by and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def each_declarator(code: str) -> list[str]:
    """`int *a, b` -> `int *a`, `int b`."""
    first, *others = split_top(code, ",")
    if not others:
        return [first]
    kind = re.match(r"(.*?)\s*\**\s*\w+(?:\[.*\])?$", first).group(1)
    return [first, *(f"{kind} {other}" for other in others)]


def directive(kind: str, names: list[str], text: str) -> str:
    """A declaration and what is said of it."""
    head = f".. c:{kind}:: "
    # Members are found in the index and by searching; a page's table of contents has what they belong to.
    option = ["   :no-contents-entry:"] if kind in ("member", "enumerator") else []
    rest = "\n".join([head + names[0], *(" " * len(head) + name for name in names[1:]), *option])
    return f"{rest}\n\n{plain.indented(text)}\n"


class Header:
    """One header, as a page."""

    def __init__(self, path: pathlib.Path) -> None:
        self.name, self.pieces = path.name, pieces_of(path.read_text())
        self.out: list[str] = []
        self.macros: set[str] = set()

    def page(self) -> str:
        pieces = [p for p in self.pieces if "SPDX-License" not in p.text]
        self.out = [plain.title(self.name, "="), f".. code-block:: c\n\n   #include <demi/{self.name}>\n"]
        i = 0
        while i < len(pieces):
            i = self._take(pieces, i)
        return "\n".join(self.out)

    def _say(self, text: str) -> None:
        if text:
            self.out.append(text)

    def _take(self, pieces: list[Piece], i: int) -> int:
        """Writes the piece i and what belongs to it; gives the next one."""
        piece = pieces[i]
        heading = HEADING.match(piece.text)
        if heading:
            self._say(plain.title(heading.group(1).strip().capitalize(), "-"))
            return i + 1
        if piece.kind == "comment":
            after = pieces[i + 1] if i + 1 < len(pieces) else None
            if after is None or after.kind == "comment" or after.line > piece.last + 1 or self._is_plumbing(after):
                self._say(plain.paragraphs(comment_text(piece.text), "c"))
                return i + 1
            return self._declare(pieces, i + 1, comment_text(piece.text))
        return self._declare(pieces, i, "")

    def _is_plumbing(self, piece: Piece) -> bool:
        """Of the preprocessor, what defines nothing that a caller uses."""
        return piece.kind == "macro" and not self._macro_name(piece)

    @staticmethod
    def _macro_name(piece: Piece) -> str | None:
        found = re.match(r"#\s*define\s+(\w+(?:\([^)]*\))?)", piece.text)
        return None if not found or re.fullmatch(r"\w+_H", found.group(1)) else found.group(1)

    def _trailing(self, pieces: list[Piece], i: int) -> str:
        """The comment on the line on which piece i ends."""
        after = pieces[i + 1] if i + 1 < len(pieces) else None
        same = after is not None and after.kind == "comment" and after.line == pieces[i].last
        return comment_text(after.text) if same and after else ""

    def _declare(self, pieces: list[Piece], i: int, said: str) -> int:
        piece, beside = pieces[i], self._trailing(pieces, i)
        text = "\n\n".join(part for part in (said, beside) if part)
        if piece.experimental and piece.kind == "code":
            text = f"{text}\n\nExperimental: declared where `DEMI_EXPERIMENTAL` is defined."
        after = i + (2 if beside else 1)
        if piece.kind == "macro":
            name = self._macro_name(piece)
            if name and name not in self.macros:
                self.macros.add(name)
                self._macro(name, piece, text)
            return after
        code = bare(piece.text)
        if re.match(r"(?:typedef )?(?:struct|enum)\b[^;{]*\{", code):
            self._aggregate(piece, code, text)
        elif code.startswith("typedef") or re.fullmatch(r"struct \w+", code):
            self._typedef(code, text)
        else:
            names = [code]
            while not beside and after < len(pieces) and self._goes_on(pieces[after - 1], pieces[after]):
                names.append(bare(pieces[after].text))
                beside = self._trailing(pieces, after)
                after += 1
            if beside and len(names) > 1:
                text, after = f"{text}\n\n{beside}", after + 1
            self._say(directive("function", names, plain.paragraphs(text, "c")))
        return after

    @staticmethod
    def _goes_on(piece: Piece, after: Piece) -> bool:
        """Whether the declaration `after` shares what is said of `piece`."""
        return (after.kind == "code" and after.line == piece.last + 1 and "{" not in after.text
                and not bare(after.text).startswith(("typedef", "struct")))

    def _macro(self, name: str, piece: Piece, text: str) -> None:
        value = re.sub(r"\\\n", " ", piece.text).partition(name)[2]
        value = " ".join(value.split())
        shown = f"Is `{value}`." if value and len(value) < SHORT_VALUE and "`" not in value else ""
        if "{" in value:
            shown = "An initializer." if not text else ""
        self._say(directive("macro", [name], plain.paragraphs(f"{text}\n\n{shown}", "c")))

    def _typedef(self, code: str, text: str) -> None:
        opaque = re.fullmatch(r"(?:typedef )?struct (\w+)(?: (\w+))?", code)
        if opaque and not opaque.group(2):
            return  # said to exist, and declared elsewhere
        body = plain.paragraphs(text, "c")
        if opaque:
            if f"struct {opaque.group(1)} {{" not in " ".join(p.text for p in self.pieces):
                self._say(directive("struct", [opaque.group(1)], body))
        else:
            self._say(directive("type", [code.removeprefix("typedef ")], body))

    def _aggregate(self, piece: Piece, code: str, text: str) -> None:
        kind, name = re.match(r"(?:typedef )?(struct|enum)\s*(\w*)", code).groups()
        name = name or re.search(r"\}\s*(\w*)$", code).group(1)
        inner = piece.text[piece.text.index("{") + 1:piece.text.rindex("}")]
        members = self._members(inner) if kind == "struct" else self._enumerators(inner)
        body = "\n".join([plain.paragraphs(text, "c"), *members])
        if name:
            self._say(directive(kind, [name], body))
        else:  # an enumeration without a name: its constants stand for themselves
            self._say("\n".join([plain.paragraphs(text, "c"), *members]))

    def _members(self, inner: str) -> list[str]:
        out, said = [], ""
        pieces = pieces_of(inner)
        i = 0
        while i < len(pieces):
            piece = pieces[i]
            heading = HEADING.match(piece.text)
            if heading:
                out.append(f".. rubric:: {plain.inline(heading.group(1).strip().capitalize())}\n")
            elif piece.kind == "comment":
                said = comment_text(piece.text)
            else:
                beside = self._trailing(pieces, i)
                text = "\n\n".join(part for part in (said, beside) if part)
                names = each_declarator(bare(piece.text))
                out.append(directive("member", names, plain.paragraphs(text, "c")))
                said, i = "", i + bool(beside)
            i += 1
        return out

    @staticmethod
    def _enumerators(inner: str) -> list[str]:
        """Constants; a comment is that of the constant before it, or of the next where it begins a line."""
        out: list[tuple[str, str]] = []
        said = ""
        for found in re.finditer(r"(?P<comment>/\*.*?\*/)|(?P<item>\w+\s*(?:=(?:[^,/]|/(?!\*))*)?),?", inner, re.S):
            before = inner[:found.start()].rpartition("\n")[2]
            if found["item"]:
                out.append((" ".join(found["item"].split()), said))
                said = ""
            elif before.strip() or (out and out[-1][0].endswith("=")):
                name, text = out[-1] if out else ("", "")
                out[-1] = (name, "\n\n".join(part for part in (text, comment_text(found["comment"])) if part))
            else:
                said = comment_text(found["comment"])
        return [directive("enumerator", [name], plain.paragraphs(text, "c")) for name, text in out]


def write_pages(headers: list[pathlib.Path], folder: pathlib.Path) -> list[str]:
    """A page for each header; gives the pages' names. First those that others do not include, by length."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for path in sorted(headers, key=lambda p: (p.name != "demi.h", p.name)):
        name = path.stem.replace("demi_", "", 1)
        (folder / f"{name}.rst").write_text(Header(path).page())
        names.append(name)
    return names
