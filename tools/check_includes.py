# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom, and that file names are unique: the layering that the build relies on;
and that what a model may leave out is read through functions that say so.

    tools -> everything            passes -> rewrite (demi.c also proto; lower_plan.c also runtime/plan.h)
    proto -> rewrite               rewrite -> rewrite, rewrite/base
    runtime -> kernels, rewrite/base, rewrite/shape     kernels -> rewrite/base, rewrite/shape
    .cu files include kernel.h alone

Third parties: protobuf-c (with the headers generated from onnx.proto) in proto/, jansson in
passes/policy.c and tools/, cmocka in tests, none in a public header. Every header of ours is
included by its bare name. Attributes' values are read by attr_tensor and the like (graph.h), values'
types by value_type: no pass can take a union for another of its members, or follow a type that is
not known. Structs of operators' attributes, and their layouts, are defined in op_attrs.def alone.
`--self-test` shows that each rule can fail. Exit 1 names every breach.
"""

import argparse
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["proto", "rewrite", "rewrite/base", "rewrite/shape", "passes", "runtime", "kernels",
           "tools"]
REWRITE = {"rewrite", "rewrite/base", "rewrite/shape"}
ALLOWED = {
    "rewrite/base": {"rewrite/base"},
    "rewrite/shape": {"rewrite/shape", "rewrite/base"},
    "rewrite": REWRITE,
    "proto": REWRITE | {"proto"},
    "passes": REWRITE | {"passes"},
    "kernels": {"kernels", "rewrite/base", "rewrite/shape"},
    "runtime": {"runtime", "kernels", "rewrite/base", "rewrite/shape"},
    "tools": set(FOLDERS),
}
EXTRA_FOLDER = {"passes/demi.c": {"proto"}, "passes/demi_test.c": {"proto"}}
EXTRA_FILE = {"passes/lower_plan.c": {"runtime/plan.h"}}
# Third-party headers by pattern, and the files that may include them (path patterns).
THIRD_PARTY = [
    (r"protobuf-c/.*|.*\.pb-c\.h", r"proto/.*|tools/.*"),
    (r"jansson\.h", r"passes/policy(_test)?\.c|tools/.*"),
    (r"cmocka\.h", r".*_test\.[ch]|.*/test_[^/]*|tools/.*"),
    (r"zlib\.h", r"tools/.*"),
    (r"dnnl.*|oneapi/.*", r"kernels/cpu/.*"),
    (r"cuda.*|cublas.*|cudnn.*", r"kernels/cuda/.*|runtime/backend_cuda\.c"),
]
PUBLIC_HEADERS = {"passes/demi.h", "passes/demi_plugin.h", "rewrite/base/demi_dtype.h",
                  "rewrite/base/demi_error.h",
                  "runtime/demi_runtime.h"}
# Programs that use the installed library as anyone's would, by its installed headers.
CLIENTS = re.compile(r"tools/client_[^/]*\.c")
INSTALLED = {"demi/" + path.rsplit("/", 1)[-1] for path in PUBLIC_HEADERS}
# What a freestanding-minded C11 library takes from the C library, POSIX, Linux and the compiler.
SYSTEM = re.compile(
    r"(assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdalign|stdarg|"
    r"stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|time|wchar|"
    r"dirent|dlfcn|fcntl|fnmatch|getopt|glob|libgen|poll|pthread|regex|sched|unistd|"
    r"immintrin|cpuid|malloc|execinfo|elf|alloca|termios)\.h|(sys|linux|asm|arpa|netinet)/.*\.h|"
    r"sanitizer/.*\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
SOURCES = ("*.c", "*.h", "*.def", "*.cu", "*.inc")
# A member of Attr's union, outside of what reads, writes, prints and compares whole attributes; `v`
# of a PlainAttr, which plans and shape functions have, is another structure.
ATTR_MEMBER = re.compile(r"\b(?!plain->|to->|from->|row->)\w+->v\.(?:f|i|s|t|g|sparse|tp|floats|ints|"
                         r"strings|tensors|graphs|sparses|types)\b")
ATTR_WHOLE = {"rewrite/attr.c", "rewrite/model.c", "rewrite/compare.c", "rewrite/text_print.c",
              "rewrite/text_parse_attr.c", "rewrite/test_model.h", "proto/import_node.c",
              "proto/export_node.c", "tools/diff_text.c", "tools/model_diff.c",
              "tools/model_against.c", "tools/show_json.c"}
ATTR_FOLDERS = {"rewrite", "passes", "proto", "tools"}
# A struct whose name says that it holds an operator's attributes, or a layout that fills one.
ATTR_STRUCT = re.compile(r"\bstruct\s+\w*Attrs\s*\{|\}\s*\w*Attrs\s*;|"
                         r"\bAttrLayout\s+(?!op_attrs_)\w+\s*=")
TYPE_MEMBER = re.compile(r"->type->\w+")
# Files that need not be unique: one per folder by convention.
COMMON_NAMES = {"CMakeLists.txt", "README.md", "__init__.py", "model.onnx", ".gitignore"}


def folder_of(path: str) -> str:
    """The layer that a path belongs to: the longest of FOLDERS that holds it."""
    holding = [f for f in FOLDERS if path.startswith(f + "/")]
    return max(holding, key=len) if holding else ""


def third_party_problem(path: str, header: str) -> str:
    for pattern, where in THIRD_PARTY:
        if re.fullmatch(pattern, header):
            if path in PUBLIC_HEADERS:
                return f"a public header includes <{header}>"
            return "" if re.fullmatch(where, path) else f"<{header}> does not belong here"
    if SYSTEM.fullmatch(header):
        return ""
    return f"<{header}> is no header of ours, of the system or of a known third party"


def layer_problem(path: str, target: str) -> str:
    layer, goal = folder_of(path), folder_of(target)
    if path.endswith(".cu"):
        return "" if target.endswith("/kernel.h") else f"a .cu file includes {target}"
    if target in PUBLIC_HEADERS and layer == goal:
        return ""
    allowed = ALLOWED.get(layer, set()) | EXTRA_FOLDER.get(path, set())
    if goal in allowed or target in EXTRA_FILE.get(path, set()):
        return ""
    return f"{layer} must not include {target}"


def include_problems(path: str, text: str, by_name: dict[str, str]) -> list[str]:
    """Breaches of one file; by_name maps the bare names of our headers to their paths."""
    found = []
    for quote, header in INCLUDE.findall(text):
        bare = header.rsplit("/", 1)[-1]
        if CLIENTS.fullmatch(path) and header in INSTALLED:
            continue
        if header.endswith(".pb-c.h") or (quote == "<" and bare not in by_name):
            problem = third_party_problem(path, header)
        elif bare not in by_name:
            problem = "" if header.endswith((".inc", ".gen.h")) else f'"{header}" does not exist'
        elif quote == "<" and header == f"demi/{bare}" and by_name[bare] in PUBLIC_HEADERS:
            problem = ""  # a program of a user's, who has the installed header
        elif header != bare:
            problem = f'"{header}": our headers are included by their bare names'
        else:
            problem = layer_problem(path, by_name[bare])
        if problem:
            found.append(f"{path}: {problem}")
    return found


def read_problems(path: str, text: str) -> list[str]:
    """Attributes and types that are read without asking whether they are there."""
    if folder_of(path) not in ATTR_FOLDERS or "_test." in path:
        return []
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = [f"{path}: {m}: values' types are read by value_type" for m in TYPE_MEMBER.findall(code)]
    if path not in ATTR_WHOLE:
        found += [f"{path}: {m}: attributes are read by attr_int, attr_tensor, …"
                  for m in ATTR_MEMBER.findall(code)]
    return found


def struct_problems(path: str, text: str) -> list[str]:
    """Structs of operators' attributes outside of the one place that defines them."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [f"{path}: {m}: structs of attributes are defined in op_attrs.def"
            for m in ATTR_STRUCT.findall(code)]


def name_problems(paths: list[str]) -> list[str]:
    """File names that occur twice in the tree (testdata aside: its cases are named by folder)."""
    seen: dict[str, str] = {}
    found = []
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        if name in COMMON_NAMES or path.startswith("testdata/"):
            continue
        if name in seen:
            found.append(f"{path}: {seen[name]} has the same name")
        seen[name] = path
    return found


def check(root: pathlib.Path) -> list[str]:
    """Every breach under root."""
    skipped = {"build", ".git", "__pycache__"}
    paths = sorted(str(p.relative_to(root)) for p in root.rglob("*")
                   if p.is_file() and not skipped & set(p.relative_to(root).parts))
    ours = [p for p in paths if folder_of(p) and pathlib.PurePath(p).suffix in
            {s[1:] for s in SOURCES}]
    by_name = {p.rsplit("/", 1)[-1]: p for p in ours}
    found = name_problems([p for p in paths if folder_of(p)])
    for path in ours:
        text = (root / path).read_text(errors="replace")
        found += include_problems(path, text, by_name) + read_problems(path, text)
        found += struct_problems(path, text)
    return found


CASES = [  # (file, text, must be found or None)
    ("rewrite/base/a.c", '#include "g.h"\n', "rewrite/base must not include rewrite/g.h"),
    ("rewrite/g.c", '#include "w.h"\n', "rewrite must not include proto/w.h"),
    ("proto/w.c", '#include "g.h"\n#include <protobuf-c/protobuf-c.h>\n', None),
    ("rewrite/h.c", "#include <protobuf-c/protobuf-c.h>\n", "does not belong here"),
    ("passes/p.c", '#include "w.h"\n', "passes must not include proto/w.h"),
    ("passes/demi.c", '#include "w.h"\n', None),
    ("passes/p2.c", "#include <jansson.h>\n", "does not belong here"),
    ("passes/policy.c", "#include <jansson.h>\n", None),
    ("passes/demi.h", "#include <jansson.h>\n", "public header"),
    ("kernels/k.c", '#include "g.h"\n', "kernels must not include rewrite/g.h"),
    ("runtime/r.c", '#include "a.h"\n#include "kernel.h"\n', None),
    ("kernels/cuda/k2.cu", '#include "a.h"\n', "a .cu file includes"),
    ("tools/t.c", '#include "w.h"\n#include "a.h"\n', None),
    ("tools/client_a.c", '#include "demi/demi.h"\n', None),
    ("tools/t2.c", '#include "base/a.h"\n', "bare names"),
    ("tools/t5.c", "#include <demi/demi.h>\n", None),
    ("tools/t6.c", "#include <demi/a.h>\n", "bare names"),
    ("tools/t3.c", '#include "nowhere.h"\n', "does not exist"),
    ("tools/t4.c", "#include <boost/any.h>\n", "no header of ours"),
    ("tools/a.c", "", "has the same name"),
    ("passes/p3.c", "x = attr->v.t;\n", "attributes are read by"),
    ("passes/p4.c", "plain->v.ints = NULL; /* attr->v.t */\n", None),
    ("rewrite/attr.c", "x = attr->v.t;\n", None),
    ("tools/t7.c", "x = value->type->rank;\n", "by value_type"),
    ("kernels/k3.c", "typedef struct ConvAttrs {\n    int64_t group;\n} X;\n", "op_attrs.def"),
    ("kernels/k4.c", "typedef struct {\n    int64_t group;\n} ConvAttrs;\n", "op_attrs.def"),
    ("kernels/k5.c", "const AttrLayout conv = {0};\n", "op_attrs.def"),
    ("kernels/k6.c", "const ConvAttrs *attrs = call->attrs;\n", None),
]


def self_test() -> int:
    """Each case alone in a small tree: breaches are found, and nothing else is."""
    failures = 0
    for path, text, wanted in CASES:
        with tempfile.TemporaryDirectory() as place:
            root = pathlib.Path(place)
            base = {"rewrite/base/a.h": "", "rewrite/base/a.c": "", "rewrite/g.h": "",
                    "proto/w.h": "", "kernels/kernel.h": "", "passes/demi.h": ""}
            for name, content in {**base, path: text}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            found = check(root)
        good = not found if wanted is None else len(found) == 1 and wanted in found[0]
        if not good:
            print(f"self-test: {path}: found {found}, expected {wanted}")
            failures += 1
    print(f"self-test: {len(CASES)} cases, {failures} failures")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description="Checks the include rules.")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    found = check(args.root)
    for line in found:
        print(line)
    failures = len(found) + (self_test() if args.self_test else 0)
    print(f"check_includes: {failures} breaches")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
