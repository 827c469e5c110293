# SPDX-License-Identifier: Apache-2.0
"""Lists of operators stand in tables (.def), not in code: what an operator is would else be said in
as many places as ask. What a rewrite looks for by name (an Erf, a Mul behind it) is its own matter.

    tools/suites/operator_names_test.py --self-test

Looks through the code of all folders, tests aside, for
  - initializers with the names of two operators or more;
  - statements that compare with the names of more than three.
Exit 1 names each.
"""

import argparse
import pathlib
import re
import sys

from suite import operator_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["rewrite", "proto", "passes", "runtime", "kernels", "tools"]
SUFFIXES = {".c", ".h", ".inc"}
MOST_COMPARED = 3
# Lists whose words only look like operators: file, and why.
EXCEPTIONS = {
    "hostile_values.c": "words that attributes may have, activations of recurrent layers among them",
}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SCHEMA = re.compile(r'^ {4}\{"[^"]*", "(\w+)", \d+,', re.M)
BEGIN = re.compile(r"(?:=|\)|return)\s*\{")


def operators() -> set[str]:
    fused = {name for domain, name in operator_rows.rows() if domain == "demi.fused"}
    return set(SCHEMA.findall((ROOT / "rewrite/ops/ops.def").read_text())) | fused


def plain(text: str) -> str:
    """Without comments; lines stay where they are."""
    return COMMENT.sub(lambda m: "\n" * m.group(0).count("\n"), text)


def end_of(code: str, begin: int) -> int:
    """Behind the brace that closes the one at `begin`; braces in literals don't count."""
    depth = 0
    for m in re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|[{}]').finditer(code, begin):
        depth += {"{": 1, "}": -1}.get(m.group(0), 0)
        if depth == 0:
            return m.end()
    return len(code)


def is_body(code: str, brace: int) -> bool:
    """A function's or statement's body rather than an initializer: it has statements."""
    return re.search(r";", LITERAL.sub('""', code[brace:end_of(code, brace)])) is not None


def problems(name: str, text: str, names: set[str]) -> list[str]:
    code, found = plain(text), []
    for m in BEGIN.finditer(code):
        brace = m.end() - 1
        listed = {w for w in LITERAL.findall(code[brace:end_of(code, brace)]) if w in names}
        if len(listed) > 1 and not is_body(code, brace):
            line = code.count("\n", 0, brace) + 1
            found.append(f"{name}:{line}: a list of operators ({', '.join(sorted(listed))}): it "
                         "belongs into rewrite/base/operators, or a table of its own")
    for m in re.finditer(r"[^;{}]+", code):
        compared = {w for w in LITERAL.findall(m.group(0)) if w in names}
        if len(compared) > MOST_COMPARED and re.search(r"\|\||&&", m.group(0)):
            line = code.count("\n", 0, m.start()) + 1
            found.append(f"{name}:{line}: compares with {', '.join(sorted(compared))}: a fact about "
                         "them belongs into rewrite/base/operators")
    return found


def check(root: pathlib.Path, names: set[str]) -> list[str]:
    found, excused = [], set()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or re.search(r"_test\.|_reference\.h|/test_", str(path)):
                continue
            own = problems(str(path.relative_to(root)), path.read_text(), names)
            if path.name in EXCEPTIONS:
                excused |= {path.name} if own else set()
            else:
                found += own
    return found + [f"{name} needs no exception" for name in sorted(EXCEPTIONS.keys() - excused)]


CASES = [  # (text, what must be found, or None)
    ('static const char *const heavy[] = {"Conv", "MatMul"};', "Conv, MatMul"),
    ('static const Row rows[] = {\n    {"Conv", 1}, /* one */\n    {"Gemm", 2},\n};', "Conv, Gemm"),
    ('f((const char *[]){"Add", "Mul"});', "Add, Mul"),
    ('static const char *const one[] = {"Conv", "strides"};', None),
    ('/* {"Conv", "MatMul"} */ int x[] = {1};', None),
    ('bool f(void) { return is(n, "Add") || is(n, "Mul") || is(n, "Sub"); }', None),
    ('bool f(void) { return is(n, "Add") || is(n, "Mul") || is(n, "Sub") || is(n, "Div"); }',
     "compares with Add, Div, Mul, Sub"),
    ('void f(void) { make("Add"); make("Mul"); make("Sub"); make("Div"); make("Abs"); }', None),
    ('static const char *const braces[] = {"}", "Conv", "Gemm"};', "Conv, Gemm"),
]


def self_test(names: set[str]) -> int:
    failures = 0
    for text, wanted in CASES:
        found = problems("x.c", text, names)
        if not (not found if wanted is None else len(found) == 1 and wanted in found[0]):
            print(f"self-test: {text}: found {found}, expected {wanted}")
            failures += 1
    print(f"self-test: {len(CASES)} cases, {failures} failures")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    names = operators()
    assert len(names) > 200, "ops.def has another form than is looked for here"
    found = check(args.root, names)
    for line in found:
        print(line)
    failures = len(found) + (self_test(names) if args.self_test else 0)
    print(f"{len(names)} operators, {len(found)} lists of them in code")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
