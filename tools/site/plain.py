# SPDX-License-Identifier: Apache-2.0
"""Plain text as comments of headers, docstrings and help have it -> reStructuredText.

Paragraphs are separated by empty lines; "- " begins an item; what is indented by four or more, or is all a
paragraph beside one that ends in a colon, is code. `words` in backquotes, 'demi COMMAND …', options and names of the C interface
become literals, which conf.py links to what they name. All else is taken as it is: no character means anything.
"""

import re
import textwrap

# What is shown as code within a line: `words`, --option, demi_function, DEMI_CONSTANT, DemiType, "VAR.member".
LITERAL = re.compile(r"(?P<open>`+)(?P<text>[^`]+)(?P=open)"
                     r"|(?<!\w)'(?P<command>demi [^'\n]+)'(?!\w)"
                     r"|(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w-])"
                     r"|\b(?:demi_\w+|DEMI_\w+|Demi[A-Z]\w+)(?:\.\w+|\(\))?")


def escaped(text: str) -> str:
    """Text that reStructuredText gives back as it is."""
    return re.sub(r"([^\w\s,;()=/'\"!?%&+.~-])", r"\\\1", text)


def literal(text: str) -> str:
    """Code within a line. Its ends may touch words: \\ separates, and is nothing."""
    text = " ".join(text.split())
    if not text:
        return ""
    # A literal can neither begin nor end with a backquote or a backslash.
    return f"\\ ``{text}``\\ " if not re.search(r"^`|[`\\]$", text) else escaped(text)


def inline(text: str) -> str:
    """One line of a paragraph."""
    out, at = [], 0
    text = " ".join(text.split())
    for found in LITERAL.finditer(text):
        out += [escaped(text[at:found.start()]), literal(found["text"] or found["command"] or found[0])]
        at = found.end()
    line = "".join([*out, escaped(text[at:])])
    line = re.sub(r"^\\ ", "", re.sub(r"\\ $", "", line))
    line = re.sub(r"(?<=\s)\\ (?=``)|(?<=``)\\ (?=\s)", "", line)
    # "1. ", "- ", "(a) " at the beginning would be a list.
    return re.sub(r"^(?=(?:[-+*.\"'=~_]|\w{1,3}[.)]|\(\w{1,3}\))(?:\s|$))", r"\\", line)


def indented(text: str, by: int = 3) -> str:
    return textwrap.indent(text, " " * by)


def code(text: str, language: str) -> str:
    return f".. code-block:: {language}\n\n{indented(textwrap.dedent(text).strip(chr(10)))}\n"


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _blocks(text: str) -> list[list[str]]:
    """Lines between empty ones; a list's items are blocks of their own."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        bare = line.strip()
        if not bare:
            found.append([])
        elif found[-1] and (re.match(r"- ", bare) and _margin(line) < 4
                            or (_margin(line) >= 4) != (_margin(found[-1][-1]) >= 4)
                            and not re.match(r"- ", found[-1][0].strip())):
            found.append([line])
        else:
            found[-1].append(line)
    return [block for block in found if block]


def paragraphs(text: str, language: str) -> str:
    """All of it."""
    out: list[str] = []
    for block in _blocks(textwrap.dedent(text)):
        if _margin(block[0]) >= 4:
            before = out[-1] if out else ""
            if before.startswith(".. code-block::"):  # an empty line within code
                out[-1] = f"{before.rstrip()}\n\n{indented(textwrap.dedent(chr(10).join(block)))}\n"
            else:
                out.append(code("\n".join(block), language))
        elif re.match(r"- ", block[0].strip()):
            out.append(f"- {inline(' '.join(block).strip()[2:])}\n")
        else:
            out.append(f"{inline(' '.join(block))}\n")
    return "\n".join(out)


def title(text: str, under: str) -> str:
    line = escaped(text)
    return f"{line}\n{under * len(line)}\n"
