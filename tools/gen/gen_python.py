#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the public C headers as ctypes has them into tools/python/demi_onnx: _abi_constants.py; _abi.py,
structures and callbacks; _abi_functions.py; and _abi_plugin.py, the structures of demi_plugin.h, which take as long to
make as all others and are wanted by few. They import nothing but ctypes and one another, and load no library.

    tools/gen/gen_python.py            writes them
    tools/gen/gen_python.py --check    exit 1 where one is not what the headers say
    tools/gen/gen_python.py --probe    prints a C program that prints every size, offset and
                                       enumerator: what a test holds the module against

The headers are of a plain kind: typedefs of enums, structs and function pointers, declarations that
begin with DEMI_API, and INIT macros that list a structure's members in order. What is of another kind
is an error here.
"""

import argparse
import pathlib
import re
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ["rewrite/base/demi_error.h", "rewrite/base/demi_dtype.h", "passes/front/demi.h",
           "runtime/demi_runtime.h", "tools/evaluation/demi_trials.h", "tools/search/demi_search.h", "tools/training/demi_train.h",
           "passes/front/demi_plugin.h"]
SETTINGS = ROOT / "passes/policy.def"
OUTPUT = ROOT / "tools/python/demi_onnx/_abi.py"
CONSTANTS_OUTPUT = OUTPUT.with_name("_abi_constants.py")
FUNCTIONS_OUTPUT = OUTPUT.with_name("_abi_functions.py")
PLUGIN_OUTPUT = OUTPUT.with_name("_abi_plugin.py")
PLAIN = {"uint8_t": "c_uint8", "int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64",
         "uint64_t": "c_uint64", "size_t": "c_size_t", "bool": "c_bool", "double": "c_double",
         "float": "c_float", "int": "c_int", "unsigned": "c_uint", "char": "c_char"}
RAW = ("DemiData", "DemiString")  # also with plain addresses for what they point at
PYTHON = {"c_bool": "bool", "c_double": "float", "c_float": "float", "c_char_p": "bytes | None",
          "c_void_p": "int | None"}


@dataclass
class Member:
    name: str
    type: str       # as ctypes spells it
    python: str     # what reading it gives


@dataclass
class Table:
    """What the headers declare."""

    constants: dict[str, int] = field(default_factory=dict)
    enums: dict[str, list[str]] = field(default_factory=dict)
    structs: dict[str, list[Member]] = field(default_factory=dict)
    callbacks: dict[str, list[str]] = field(default_factory=dict)  # the result, then operands
    functions: dict[str, list[str]] = field(default_factory=dict)
    defaults: dict[str, dict[str, str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    plugin: set[str] = field(default_factory=set)  # structures of demi_plugin.h
    choices: dict[str, dict[str, int]] = field(default_factory=dict)  # of DemiConvertOptions
    lists: dict[str, str] = field(default_factory=dict)               # members and their counts


def fail(text: str) -> None:
    sys.exit(f"gen_python: {' '.join(text.split())}: this is of a kind that is not known")


def split_top(text: str, mark: str = ",") -> list[str]:
    """At the marks that are in no parentheses or braces."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "({[") - (c in ")}]")
        if c == mark and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    parts.append(text[last:].strip())
    return [p for p in parts if p]


def ctype_of(table: Table, base: str, stars: int, constant: bool) -> str:
    """A type by its name and how many pointers are around it."""
    if stars == 0:
        if base == "void":
            return "None"
        if base in table.enums:
            return "c_int"
        if base in PLAIN or base in table.structs or base in table.callbacks:
            return PLAIN.get(base, base)
        fail(base)
    if base == "char":
        inner = "c_char_p" if constant or stars == 1 else "c_void_p"
    elif base == "void" or (base not in PLAIN and base not in table.enums
                            and base not in table.structs):
        inner = "c_void_p"  # a handle
    else:
        inner = f"POINTER({ctype_of(table, base, 0, constant)})"
    return "POINTER(" * (stars - 1) + inner + ")" * (stars - 1)


def parse_type(table: Table, text: str) -> str:
    words = re.findall(r"\w+|\*", text)
    base = next(w for w in words if w not in ("const", "struct", "*"))
    return ctype_of(table, base, words.count("*"), "const" in words)


def parse_operand(table: Table, text: str) -> str:
    """An operand of a function, with or without a name."""
    pointer = re.match(r"(.*?)\(\s*\*\s*\w*\s*\)\s*\((.*)\)$", text, re.S)
    if pointer:
        return callback_of(table, pointer.group(1), pointer.group(2))
    array = re.sub(r"(\w+)\s*\[\s*\d*\s*\]$", r"*\1", text)
    words = re.findall(r"\w+|\*", array)
    names = [w for w in words if w not in ("const", "struct", "*")]
    if len(names) > 1:  # the last is the operand's own
        array = re.sub(r"\w+\s*$", "", array)
    return parse_type(table, array)


def operands_of(table: Table, text: str) -> list[str]:
    if text.strip() in ("", "void"):
        return []
    return [parse_operand(table, part) for part in split_top(text) if part != "..."]


def callback_result(table: Table, text: str) -> str:
    """ctypes takes no pointers to structures from callbacks."""
    ctype = parse_type(table, text)
    return "c_void_p" if ctype.startswith("POINTER") else ctype


def callback_of(table: Table, result: str, operands: str) -> str:
    return ("CFUNCTYPE(" + ", ".join([callback_result(table, result), *operands_of(table, operands)])
            + ")")


def python_of(ctype: str) -> str:
    if ctype in PYTHON:
        return PYTHON[ctype]
    if ctype.startswith("c_"):
        return "int"
    return "Any" if "(" in ctype or ctype.endswith("Fn") else ctype


def parse_members(table: Table, text: str) -> list[Member]:
    members = []
    for line in split_top(text, ";"):
        line = re.sub(r"DEMI_PRINTF\([^)]*\)", "", line).strip()
        pointer = re.match(r"(.*?)\(\s*\*\s*(\w+)\s*\)\s*\((.*)\)$", line, re.S)
        if pointer:
            members.append(Member(pointer.group(2), callback_of(table, pointer.group(1),
                                                                pointer.group(3)), "Any"))
            continue
        first, *others = split_top(line)
        head = re.match(r"(.*?)((?:\*\s*(?:const\s*)?)*)(\w+)(\[\d+\])?$", first, re.S)
        if not head:
            fail(line)
        base = head.group(1).strip()
        for declared in [head.group(2) + head.group(3) + (head.group(4) or ""), *others]:
            part = re.match(r"((?:\*\s*(?:const\s*)?)*)(\w+)(?:\[(\d+)\])?$", declared.strip())
            if not part:
                fail(line)
            ctype = parse_type(table, base + " " + part.group(1))
            if part.group(3):
                members.append(Member(part.group(2), f"{ctype} * {part.group(3)}", "bytes"))
            else:
                members.append(Member(part.group(2), ctype, python_of(ctype)))
    return members


def parse_enum(table: Table, name: str, body: str) -> None:
    value = -1
    table.enums.setdefault(name, [])
    for item in split_top(body):
        parts = [p.strip() for p in item.split("=")]
        value = int(parts[1], 0) if len(parts) > 1 else value + 1
        table.constants[parts[0]] = value
        table.enums[name].append(parts[0])


def parse_macros(table: Table, text: str) -> None:
    """Numbers and INIT macros."""
    joined = text.replace("\\\n", " ")
    for name, body in re.findall(r"^#define (DEMI_\w+_INIT|DEMI_DATA_INIT)[ \t]+(\{.*)$", joined,
                                 re.M):
        table.texts[name] = body.strip()
    for name, body in re.findall(r"^#define (DEMI_\w+)[ \t]+(-?\d+)[ \t]*$", joined, re.M):
        table.constants[name] = int(body)


def find_defaults(table: Table) -> None:
    for macro, body in table.texts.items():
        items = split_top(body.strip()[1:-1])
        of = re.match(r"sizeof\((\w+)\)", items[0])
        if not of:
            fail(macro)
        members = table.structs[of.group(1)]
        if len(items) != len(members):
            fail(f"{macro} has {len(items)} items for {len(members)} members")
        given = {}
        for member, item in zip(members[1:], items[1:]):
            if item in ("NULL", "false", '""', "0", "0.0"):
                continue
            if item.startswith("__builtin_nan"):
                given[member.name] = 'float("nan")'
            elif item == "true":
                given[member.name] = "True"
            elif item in table.constants:
                if table.constants[item]:
                    given[member.name] = str(table.constants[item])
            elif re.fullmatch(r"-?[\d.]+", item):
                given[member.name] = item
            else:
                fail(f"{macro}: {item}")
        table.defaults[of.group(1)] = given


def parse_header(table: Table, text: str) -> None:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    parse_macros(table, text)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)
    text = text.replace('extern "C" {', "")
    for name in re.findall(r"^enum(?: \w+)? \{(.*?)\};", text, re.M | re.S):
        parse_enum(table, "", name)
    for name, body in re.findall(r"typedef enum (\w+) \{(.*?)\} \1;", text, re.S):
        parse_enum(table, name, body)
    at = re.compile(r"typedef struct (\w+) \{(.*?)\} \1;|typedef ([^;{}]*?)\(\*(\w+)\)\(([^;]*)\);"
                    r"|struct (\w+) \{(.*?)\n\};", re.S)
    for struct, body, result, callback, operands, bare, bare_body in at.findall(text):
        if callback:
            table.callbacks[callback] = [callback_result(table, result), *operands_of(table, operands)]
        else:
            name = struct or bare
            table.structs[name] = []  # it may refer to itself
            table.structs[name] = parse_members(table, body or bare_body)
    for result, name, operands in re.findall(r"DEMI_API ([\w\s*]*?)(demi_\w+)\((.*?)\);", text, re.S):
        table.functions[name] = [parse_type(table, result), *operands_of(table, operands)]


def read_settings(table: Table, rows: str) -> None:
    """What choices of a conversion are called, and which members are lists."""
    bodies = dict(re.findall(r"^#define CHOICES_(\w+)\(.*?\) \\\n((?:.*\\\n)*.*)\n", rows, re.M))
    for name, member in re.findall(r"^CHOICE_SETTING\((\w+), \w+, \"\w+\", (\w+),", rows, re.M):
        words = re.findall(r'(?:FIRST|NEXT)\((DEMI_\w+), "([\w-]+)", "([^"]*)"', bodies[name])
        table.choices[member] = {w: table.constants[constant] for constant, word, also in words
                                 for w in (word, *also.split())}
    for member, count in re.findall(r"^LIST_SETTING\(\w+, \w+, \"\w+\", (\w+), (\w+),", rows, re.M):
        table.lists[member] = count


def read_headers() -> Table:
    table = Table()
    for path in HEADERS:
        before = set(table.structs)
        parse_header(table, (ROOT / path).read_text())
        if path.endswith("demi_plugin.h"):
            table.plugin = set(table.structs) - before
    find_defaults(table)
    read_settings(table, SETTINGS.read_text())
    return table


# ---- what is written -------------------------------------------------------------------------------

HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""{what}

Written by tools/gen/gen_python.py from the public headers; not to be changed by hand.
"""

from __future__ import annotations

from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double,
                    c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint32, c_uint64,
                    c_void_p, sizeof)
from typing import Any

'''
BASE = '''
class Sized(Structure):
    """A structure that begins with its size, with what its INIT macro says."""

    _defaults: dict[str, Any] = {}

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"size": sizeof(self), **self._defaults})
        for name, value in given.items():
            self.put(name, value)

    def put(self, name: str, value: Any) -> None:
        """Sets a member. ctypes cuts integers without a word, and does not say which member is wrong."""
        from ._errors import UsageError
        try:
            setattr(self, name, value)
        except TypeError as error:
            raise UsageError(f"{name}: {error}", operand=name) from None
        if type(value) is int and type(getattr(self, name)) is int and getattr(self, name) != value:
            raise UsageError(f"{name}: {value} is outside the range of its type", operand=name)

'''
LIBRARY = '''

class Library:
    """The functions of a library, as attributes called as the headers have them. Each gets its types when it
    is first asked for, so that a library that lacks some serves for the others."""

    def __init__(self, path: str) -> None:
        self._typed, self._plain = CDLL(path), CDLL(path)

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(name)
        function = self._typed[name]
        function.restype, function.argtypes = FUNCTIONS[name]
        setattr(self, name, function)
        return function

    def plain(self, name: str) -> Any:
        """The function without types of operands: its caller passes what C wants."""
        return getattr(self._plain, name)
'''


def wrapped(items: list[str], indent: str, end: str) -> list[str]:
    lines, line = [], indent
    for i, item in enumerate(items):
        text = item + ("," if i + 1 < len(items) else end)
        if len(line) + len(text) + 1 > 100 and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += text + " "
    return [*lines, line.rstrip()]


def raw_text(table: Table, name: str) -> str:
    """The structure with addresses in place of pointers, which are quicker to read; nothing in it has a default."""
    members = [m if "c_char_p" not in m.type and "POINTER" not in m.type else
               Member(m.name, "c_void_p", PYTHON["c_void_p"]) for m in table.structs[name]]
    fields = [f'("{m.name}", {m.type})' for m in members]
    return "\n".join(["", f"class Raw{name}(Structure):", *(f"    {m.name}: {m.python}" for m in members),
                      "    _fields_ = [", *wrapped(fields, "        ", "]")]) + "\n\n"


def struct_text(table: Table, name: str) -> list[str]:
    members = table.structs[name]
    sized = members[0].name == "size" and members[0].type == "c_uint32"
    lines = ["", f"class {name}({'Sized' if sized else 'Structure'}):"]
    lines += [f"    {m.name}: {m.python}" for m in members]
    if table.defaults.get(name):
        given = ", ".join(f'"{k}": {v}' for k, v in table.defaults[name].items())
        lines.append(f"    _defaults = {{{given}}}")
    return [*lines, ""]


def fields_text(table: Table, name: str) -> str:
    fields = [f'("{m.name}", {m.type})' for m in table.structs[name]]
    return f"{name}._fields_ = [\n" + "\n".join(wrapped(fields, "    ", "]")) + "\n"


def head_text(what: str, names: list[str] | None = None) -> str:
    """The head of a module that is `what`, and takes these names from _abi."""
    head = HEAD.replace("{what}", what)
    if not names:
        return head
    taken = "\n".join(wrapped(names, "                   ", ")")).lstrip()
    return head.replace("import Any\n", f"import Any\n\nfrom ._abi import ({taken}\n")


def plugin_text(table: Table) -> str:
    names = [name for name in table.structs if name in table.plugin]
    head = head_text("The structures of plug-ins (demi_plugin.h) as ctypes has them.", ["Sized"])
    return head + "".join("\n".join(struct_text(table, name)) + "\n" for name in names) + "\n" \
        + "".join(fields_text(table, name) for name in names)


def functions_text(table: Table) -> str:
    used = set(re.findall(r"\bDemi\w+", " ".join(" ".join(f) for f in table.functions.values())))
    body = [head_text("demi's C functions as ctypes has them.", sorted(used)),
            "# What a function gives, and what it takes.\nFUNCTIONS: dict[str, tuple[Any, list[Any]]] = {\n"]
    for name, (result, *operands) in table.functions.items():
        body.append("\n".join(wrapped([f'"{name}": ({result}', f"[{', '.join(operands)}])"], "    ",
                                      ",")) + "\n")
    return "".join([*body, "}\n", LIBRARY])


def constants_text(table: Table) -> str:
    lines = [f"{name} = {value}" for name, value in table.constants.items()]
    return head_text("The numbers of demi's C interface.").split("\nfrom ctypes")[0] + "\n".join(["", *lines, ""])


def module_text(table: Table) -> str:
    body = [head_text("demi's C interface as ctypes has it: structures and callbacks.").rstrip(), "\n\n", BASE]
    common = [name for name in table.structs if name not in table.plugin]
    for name in common:
        body.append("\n".join(struct_text(table, name)) + "\n")
    body.append("\n")
    for name, types in table.callbacks.items():
        body.append("\n".join(wrapped(types, "    ", ")")).replace("    ", f"{name} = CFUNCTYPE(\n    ",
                                                                    1) + "\n")
    body.append("\n")
    body += [fields_text(table, name) for name in common]
    body.append("\n")
    body += [raw_text(table, name) for name in RAW]
    body[-1] = body[-1][:-1]
    body.append("\n# Of DemiConvertOptions: what choices are called, and lists with their counts.\n")
    body.append("CHOICES: dict[str, dict[str, int]] = {\n")
    for member, words in table.choices.items():
        pairs = [f'"{word}": {value}' for word, value in words.items()]
        body.append(f'    "{member}": {{\n' + "\n".join(wrapped(pairs, "        ", "},")) + "\n")
    body.append("}\nLISTS: dict[str, str] = {\n")
    body.append("\n".join(wrapped([f'"{m}": "{c}"' for m, c in table.lists.items()], "    ", "}"))
                + "\n")
    return "".join(body)


def probe_text(table: Table) -> str:
    names = [pathlib.Path(path).name for path in HEADERS]
    lines = ["#define DEMI_EXPERIMENTAL", "#include <stdio.h>", *[f'#include "{n}"' for n in names],
             "int main(void) {"]
    for name in table.constants:
        lines.append(f'    printf("constant {name} %lld\\n", (long long){name});')
    for said, name in [*((name, name) for name in table.structs), *((f"Raw{name}", name) for name in RAW)]:
        lines.append(f'    printf("size {said} %zu\\n", sizeof({name}));')
        for m in table.structs[name]:
            lines.append(f'    printf("member {said} {m.name} %zu %zu\\n", offsetof({name}, {m.name}), '
                         f'sizeof((({name} *)0)->{m.name}));')
    return "\n".join([*lines, "    return 0;", "}", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--probe", action="store_true")
    args = parser.parse_args()
    table = read_headers()
    if args.probe:
        sys.stdout.write(probe_text(table))
        return
    for path, text in ((CONSTANTS_OUTPUT, constants_text(table)), (OUTPUT, module_text(table)),
                       (FUNCTIONS_OUTPUT, functions_text(table)), (PLUGIN_OUTPUT, plugin_text(table))):
        if not args.check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is not what the headers say: run {sys.argv[0]}")


if __name__ == "__main__":
    main()
