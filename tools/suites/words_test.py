#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the words that users read: help, messages, manuals, installed headers, pages, and Python's docstrings.

A term that only demi used is refused, with the field's term for it; so are former names of passes and options, and
sentences of more than 30 words in the manuals and in help. The glossary (tools/glossary.md) has to define each term
of the field that a newcomer may search for. --self-test shows that each check can fail; --list prints every text.

    tools/suites/words_test.py --demi build/release/demi
"""

import argparse
import ast
import html
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_WORDS = 30
PRODUCT = ("rewrite", "proto", "passes", "runtime", "kernels", "tools/command", "tools/evaluation", "tools/search",
           "tools/training")
HEADERS = ("passes/front/demi.h", "passes/front/demi_plugin.h", "runtime/demi_runtime.h",
           "tools/evaluation/demi_trials.h", "tools/search/demi_search.h", "tools/training/demi_train.h",
           "rewrite/base/demi_dtype.h", "rewrite/base/demi_error.h")
MANUALS = ("README.md", ".github/CONTRIBUTING.md", "tools/glossary.md")

# What only demi said, and what the field says.
TERMS = [
    (r"census(?:es)?", "statistics"),
    (r"wish(?:es)?", "configuration"),
    (r"pick(?:s|ed)?", "select, top-k"),
    (r"spel(?:t|ls|led) (?:in|out)", "decompose"),
    (r"beside", "next to, compared with, in addition to"),
    (r"(?:run|runs|go|goes|is|are|be|stay|stays) low", "reduced precision"),
    (r"lower(?:ed|ing) (?:node|operator|model|input|output)s?", "convert"),
    (r"nodes? (?:is|are|was|were) lowered", "convert"),
    (r"stays? (?:in )?(?:fp32|float)(?!\w)", "is kept in float32"),
    (r"(?:is|are|be|was|were|has|have) no(?:ne)? (?:longer |known )?"
     r"(?!(?:longer|gradient|input|output|effect|kernel|need|room|default|name|value|way|more|data|upper)\b)(?:[a-z-]+ )?"
     r"(?:tensor|float|floats|scalar|matrix|plan|regular|whole|of|a|an|model)\b", "is not a"),
    (r"a line each", "one line per"),
    (r"(?:one|scale|element|number|file|row|line)s? a (?:channel|column|row|line|node|batch|step|second|vector|group)",
     "one per"),
    (r"by turns", "interleaved, alternating"),
    (r"anew", "again"),
    (r"held against", "compared with"),
    (r"heed(?:s|ed)?", "take effect, use"),
    (r"what is to (?:be|stay)", "cost, metric"),
    (r"(?:off|open) sizes?", "dynamic size"),
    (r"inner values?", "intermediate value"),
    (r"laid out (?:anew|for)", "packed"),
    (r"calls? of functions", "function calls"),
    (r"for a minute or some", "about a minute"),
    (r"(?:not|none) for the device", "the device does not support"),
    (r"in 16 bit", "in 16-bit"),
    (r"(?:of|with) other dims", "different dims"),
    (r"no such thing", "does not exist"),
    (r"lies? (?:in|with|beside|behind)", "is in, is next to"),
]
# What a newcomer searches for: the glossary has it.
FIELD = ["common subexpression elimination", "dead code elimination", "canonicalization", "KV cache", "bias correction",
         "weight-only quantization", "loss scaling", "lookup table", "block size", "group size", "decompose", "in-place",
         "im2col", "micro-kernel", "throughput", "calibration", "opset", "constant folding", "fusion", "epilogue",
         "mixed precision", "top-k", "tiling", "Pareto front", "zero point", "Q/DQ", "QKV fusion"]

STRINGS = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*(?:PRI\w+\s*)?"((?:[^"\\\n]|\\.)*)")*')
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)

Text = tuple[str, str]  # where it stands, and what it says


def without_comments(source: str) -> str:
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|/\*.*?\*/|//[^\n]*',
                  lambda m: m[0] if m[0][0] == '"' else "", source, flags=re.S)


def messages(root: pathlib.Path) -> Iterator[Text]:
    """String literals of the product that are sentences or phrases."""
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".c", ".h", ".inc", ".def"} or path.stem.endswith("_test"):
                continue
            if path.name in {"ops.def", "unit_test.h", "test_locale.h", "former_names.def"}:
                continue
            for run in STRINGS.finditer(without_comments(path.read_text())):
                text = "".join(STRING.findall(run[0])).replace("\\n", "\n").replace('\\"', '"')
                if " " in text and re.search(r"[a-z]{2} [a-z]", text):
                    yield str(path.relative_to(root)), text


def comments(root: pathlib.Path) -> Iterator[Text]:
    for name in HEADERS:
        for found in COMMENT.finditer((root / name).read_text()):
            text = re.sub(r"\n\s*\*", "\n", found[0]).strip("/* \n")
            yield name, " ".join(text.split())


def prose(text: str) -> str:
    """Markdown without code, comments, tables' rules and links' targets."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    text = re.sub(r"<!-- gradients:.*?<!-- end -->", "", text, flags=re.S)  # lists of operators, made of the table
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^ {4,}\S.*$", "", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"`[^`]*`", "CODE", text)


def manuals(root: pathlib.Path) -> Iterator[Text]:
    pages = [root / name for name in MANUALS] + sorted(p for p in root.rglob("README.md")
                                                       if "build" not in p.relative_to(root).parts)
    for page in dict.fromkeys(pages):
        yield str(page.relative_to(root)), prose(page.read_text())


def pages(root: pathlib.Path) -> Iterator[Text]:
    for path in sorted((root / "tools/command").glob("*.html")):
        text = re.sub(r"<style.*?</style>|<script.*?</script>", "", path.read_text(), flags=re.S)
        yield str(path.relative_to(root)), html.unescape(re.sub(r"<[^>]+>", " ", text))
    for path in sorted(p for p in (root / "tools/command").iterdir() if p.suffix in {".js", ".html"}):
        script = path.read_text().partition("<script>")[2] if path.suffix == ".html" else path.read_text()
        for text in re.findall(r"\"([^\"\n]* [^\"\n]*)\"|`([^`]* [^`]*)`", script):
            yield str(path.relative_to(root)), text[0] or re.sub(r"\$\{[^}]*\}", "X", text[1])


def docstrings(root: pathlib.Path) -> Iterator[Text]:
    for path in sorted((root / "tools/python/demi_onnx").rglob("*.py")):
        name = str(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
                yield name, ast.get_docstring(node) or ""
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield name, node.value


def helps(demi: str) -> Iterator[Text]:
    def run(*words: str) -> str:
        return subprocess.run([demi, *words], check=True, capture_output=True, text=True).stdout
    top = run("--help")
    yield "demi --help", top
    for command in re.findall(r"^  ([a-z-]+)  +\S", top.split("Commands:")[1].split("\n\n")[0], re.M):
        yield f"demi help {command}", run("help", command)
    for topic in ("policy", "pipeline"):
        yield f"demi help {topic}", run("help", topic)


def former_names(root: pathlib.Path) -> list[tuple[str, str]]:
    found = re.findall(r'FORMERLY\("([^"]+)", "([^"]+)"\)', (root / "passes/former_names.def").read_text())
    for path in (root / "tools/command").glob("cmd_*.c"):
        found += [(f"--{former}", f"--{name}")
                  for former, name in re.findall(r'OPTION_FORMER\("([^"]+)", "([^"]+)"\)', path.read_text())]
    return found


def terms(root: pathlib.Path) -> list[tuple[re.Pattern[str], str]]:
    rows = [(re.compile(rf"(?<![\w-])(?:{term})(?![\w-])", re.I), says) for term, says in TERMS]
    rows += [(re.compile(rf"(?<![\w-]){re.escape(former)}(?![\w-])"), says) for former, says in former_names(root)]
    return rows


def private_terms(texts: list[Text], rows: list[tuple[re.Pattern[str], str]]) -> list[str]:
    problems = []
    for where, text in texts:
        for pattern, says in rows:
            for found in pattern.finditer(text):
                around = " ".join(text[max(0, found.start() - 40):found.end() + 30].split())
                problems.append(f"{where}: '{found[0]}' (say: {says}): ...{around}...")
    return problems


def sentences(text: str) -> Iterator[str]:
    """Sentences of prose: paragraphs, list items and table cells are cut at their ends."""
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) |\n#+ |\n?\s*\|\s*", text):
        flat = " ".join(block.split())
        yield from re.split(r"(?<=[.!?:;])(?:\*\*)?\s+(?=[A-Z`*\[(\"'0-9]|CODE)|(?<=[;:])\s", flat)


def long_sentences(texts: list[Text]) -> list[str]:
    return [f"{where}: {len(words)} words: {' '.join(words[:12])} ..." for where, text in texts
            for sentence in sentences(text)
            if len(words := [w for w in sentence.split() if re.search(r"\w", w)]) > MOST_WORDS]


def undefined(glossary: str) -> list[str]:
    return [f"tools/glossary.md: no '{term}'" for term in FIELD if term.lower() not in glossary.lower()]


def all_texts(demi: str) -> tuple[list[Text], list[Text]]:
    """All texts, and those of which sentences are measured."""
    said = list(messages(ROOT))
    measured = [*manuals(ROOT), *(row for row in said if not re.match(r"demi |#|<", row[1]))]
    return [*manuals(ROOT), *said, *helps(demi), *comments(ROOT), *pages(ROOT), *docstrings(ROOT)], measured


def self_test() -> list[str]:
    rows = terms(ROOT)
    bad = ["a census of values", "run merge-equal first", "'x' is no tensor", "nodes that stay fp32", "one scale a channel"]
    good = ["statistics of values", "run canonicalize first", "'x' is not a tensor", "nodes kept in float32",
            "one scale per channel", "there is no kernel"]
    problems = [f"not refused: {text}" for text in bad if not private_terms([("", text)], rows)]
    problems += [f"refused: {text}" for text in good if private_terms([("", text)], rows)]
    problems += [] if long_sentences([("", "word " * 31)]) else ["a long sentence passes"]
    problems += ["two short sentences do not"] if long_sentences([("", "Word " + "word " * 20 + "end. Word " * 2)]) else []
    problems += [] if undefined("nothing") else ["an empty glossary passes"]
    return [f"self-test: {problem}" for problem in problems]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    texts, measured = all_texts(args.demi)
    if args.list:
        for where, text in texts:
            print(f"{where}\t{' '.join(text.split())}")
        return
    problems = self_test() + private_terms(texts, terms(ROOT)) + long_sentences(measured)
    problems += undefined((ROOT / "tools/glossary.md").read_text())
    for problem in dict.fromkeys(problems):
        print("FAIL", problem)
    print(f"words_test: {len(texts)} texts, {len(set(problems))} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
