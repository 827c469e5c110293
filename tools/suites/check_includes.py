# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom, and that file names are unique: the layering that the build relies on;
and that what a model may leave out is read through functions that say so.

    tools -> everything            passes -> rewrite (passes/front also proto; lower_plan.c also
    proto -> rewrite               runtime/plan.h)
    runtime -> kernels, rewrite/base, rewrite/shape     kernels -> rewrite/base, rewrite/shape
    tools/evaluation -> tools/search/solve, passes/front, runtime, kernels, rewrite
    tools/search, tools/training -> tools/evaluation and these     tools/search/solve -> rewrite/base
    kernels/cuda's .cu and .cuh files, which nvcc compiles as C++, include *.cuh, *_args.h,
    formulas.h, unary.def, and demi_dtype.h alone; what includes an *_args.h in turn is C and C++

A folder is a room; ROOMS says which others each may include. A folder of kernels/cpu without a line
there is a family of operators: loops and the contract, nothing else. Tests may include what lies in
their own top folder and what any room of it may.

Third parties: protobuf-c (with the headers generated from onnx.proto) in proto/, jansson in
passes/front/policy.c and tools/search/journal.c, zlib in tools/evaluation/values/npz.c, oneDNN in kernels/cpu/onednn,
cmocka in tests, none in a public header; a processor's intrinsics in rewrite/base/simd. Every header of ours is included by its bare name. Attributes'
values are read by attr_tensor and the like (graph.h), values' types by value_type: no pass can take a
union for another of its members, or follow a type that is not known. Structs of operators' attributes,
and their layouts, are defined in rewrite/base/operators alone, and no two headers define one type. `--self-test` shows that each rule can fail. Exit 1
names every breach.
"""

import argparse
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("kernels", "passes", "proto", "rewrite", "runtime", "tools")
BASE = {"rewrite/base", "rewrite/base/operators", "rewrite/base/simd"}
SHAPE = BASE | {"rewrite/shape"}
GRAPH = BASE | {"rewrite", "rewrite/ops"}
LIBRARIES = SHAPE | GRAPH | {"rewrite/text", "proto", "kernels", "runtime", "passes",
                             "passes/front", "passes/placement", "passes/check",
                             "tools/evaluation", "tools/evaluation/diff", "tools/evaluation/sessions", "tools/evaluation/values",
                             "tools/search", "tools/search/solve", "tools/training"}
FAMILY = SHAPE | {"kernels", "kernels/cpu/loops"}
PRODUCTS = FAMILY | {"kernels/cpu/gemm"}
# The rooms that each room may include beside itself.
ROOMS = {
    "rewrite/base": BASE,
    "rewrite/base/operators": set(),
    "rewrite/base/simd": set(),
    "rewrite/shape": BASE,
    "rewrite/ops": BASE,
    "rewrite": SHAPE | GRAPH,
    "rewrite/text": GRAPH,
    "proto": GRAPH,
    "passes": GRAPH | {"rewrite/text", "passes/casts", "passes/check", "passes/fusion",
                       "passes/gradient",
                       "passes/layout", "passes/placement", "passes/quantize", "passes/simplify",
                       "passes/decompose", "passes/training", "passes/upgrade"},
    "passes/casts": GRAPH | {"passes/placement"},
    "passes/check": GRAPH,
    "passes/front": GRAPH | {"rewrite/text", "proto", "passes/check", "passes/placement"},
    "passes/fusion": GRAPH,
    "passes/gradient": GRAPH | {"passes/fusion"},
    "passes/layout": GRAPH | {"passes/fusion", "passes/placement"},
    "passes/placement": GRAPH | {"rewrite/text"},
    "passes/quantize": GRAPH | {"passes/placement"},
    "passes/simplify": GRAPH | {"passes/fusion"},
    "passes/decompose": GRAPH | {"passes/fusion"},
    "passes/training": GRAPH | {"passes/gradient", "passes/simplify"},
    "passes/upgrade": GRAPH,
    "kernels": SHAPE,
    "kernels/cuda": SHAPE | {"kernels"},
    "kernels/cpu/loops": FAMILY,
    "kernels/cpu/gemm": FAMILY,
    "kernels/cpu/attention": PRODUCTS,
    "kernels/cpu/recurrent": PRODUCTS,
    "kernels/cpu/window": PRODUCTS,
    "kernels/cpu/product": PRODUCTS | {"kernels/cpu/window"},
    "kernels/cpu/quantized": PRODUCTS | {"kernels/cpu/window"},
    "kernels/cpu/onednn": PRODUCTS | {"kernels/cpu/product", "kernels/cpu/quantized"},
    "runtime": SHAPE | {"kernels"},
    "tools/evaluation": SHAPE | GRAPH | {"kernels", "runtime", "passes/front", "passes/placement",
                                   "passes/quantize", "tools/search/solve", "tools/evaluation/diff",
                                   "tools/evaluation/sessions", "tools/evaluation/values"},
    "tools/evaluation/diff": GRAPH,
    "tools/evaluation/sessions": SHAPE | {"kernels", "runtime", "tools/evaluation/values"},
    "tools/evaluation/values": SHAPE | {"kernels", "kernels/cpu/loops", "runtime"},
    "tools/search": SHAPE | GRAPH | {"kernels", "kernels/cpu/loops", "runtime", "passes/front",
                                   "passes/gradient", "passes/placement", "passes/quantize",
                                   "passes/training", "tools/evaluation", "tools/evaluation/sessions",
                                   "tools/evaluation/values", "tools/search/solve"},
    "tools/search/solve": BASE,
    "tools/training": SHAPE | GRAPH | {"kernels", "runtime", "passes/front", "tools/evaluation",
                                     "tools/evaluation/sessions", "tools/evaluation/values"},
    "tools/command": LIBRARIES,
    "tools/examples": set(),
    "tools/fake_cuda": SHAPE | {"kernels", "kernels/cuda"},
    "tools/fuzz": LIBRARIES,
    "tools/suites": LIBRARIES | {"passes/casts", "passes/fusion", "passes/quantize", "passes/upgrade"},
}
# Single headers that a room, or a file, may include beside those rooms.
EXTRA = {
    "rewrite/ops": {"rewrite/graph.h", "rewrite/pass.h"},
    "passes/check": {"passes/infer_dtypes.h", "passes/infer_shapes.h"},
    "passes/front": {"passes/passes.h", "passes/policy.def", "passes/setting_names.h", "passes/convert_target.h"},
    "tools/search": {"passes/convert_target.h"},
    "passes/fusion": {"passes/passes.h"},
    "passes/gradient": {"passes/passes.h", "passes/infer_dtypes.h", "passes/infer_shapes.h"},
    "passes/upgrade": {"passes/passes.h", "passes/infer_dtypes.h"},
    "passes/lower_plan.c": {"runtime/plan.h"},
    "passes/placement/operators_test.c": {"kernels/kernel.h", "rewrite/shape/shape.h",
                                          "runtime/exec.h"},
    "tools/evaluation/diff": {"tools/evaluation/demi_trials.h"},
    "tools/evaluation/sessions": {"tools/evaluation/demi_trials.h"},
    "tools/evaluation/values": {"tools/evaluation/demi_trials.h"},
    "tools/evaluation/sessions/model_plan.c": {"passes/front/demi_front.h"},
    "tools/evaluation/values/value_pb.c": {"proto/onnx_import.h", "proto/wire_read.h", "rewrite/graph.h"},
    "tools/fuzz/hostile_commands.c": {"tools/command/commands.h", "tools/command/console.h",
                                      "tools/command/outputs.h"},
}
# Third-party headers by pattern, and the files that may include them (path patterns).
THIRD_PARTY = [
    (r"protobuf-c/.*|.*\.pb-c\.h", r"proto/.*|tools/.*"),
    (r"jansson\.h", r"passes/front/policy(_test)?\.c|tools/search/(journal|supported)\.c"),
    (r"cmocka\.h", r".*_test\.[ch]|.*/test_[^/]*|tools/.*"),
    (r"zlib\.h", r"tools/evaluation/values/npz\.c"),
    (r"dnnl.*|oneapi/.*", r"kernels/cpu/onednn/.*"),
    (r"cuda_(bf16|fp16)\.h", r"kernels/cuda/\w+\.(cu|cuh)"),
    (r"\w*mmintrin\.h", r"rewrite/base/simd/.*"),
]
PUBLIC_HEADERS = {"passes/front/demi.h", "passes/front/demi_plugin.h", "rewrite/base/demi_dtype.h",
                  "rewrite/base/demi_error.h",
                  "runtime/demi_runtime.h", "tools/search/demi_search.h", "tools/training/demi_train.h",
                  "tools/evaluation/demi_trials.h"}
# Programs that use the installed library as anyone's would, by its installed headers.
CLIENTS = re.compile(r"tools/examples/[^/]*\.c")
INSTALLED = {"demi/" + path.rsplit("/", 1)[-1] for path in PUBLIC_HEADERS}
# What a freestanding-minded C11 library takes from the C library, POSIX, Linux and the compiler.
SYSTEM = re.compile(
    r"(assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdalign|stdarg|"
    r"stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|time|wchar|"
    r"dirent|dlfcn|fcntl|fnmatch|getopt|glob|libgen|poll|pthread|regex|sched|unistd|"
    r"cpuid|malloc|execinfo|elf|alloca|termios)\.h|(sys|linux|asm|arpa|netinet)/.*\.h|"
    r"sanitizer/.*\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
SOURCES = ("*.c", "*.h", "*.def", "*.cu", "*.cuh", "*.inc")
# A member of Attr's union, outside of what reads, writes, prints and compares whole attributes; `v`
# of a PlainAttr, which plans and shape functions have, is another structure.
ATTR_MEMBER = re.compile(r"\b(?!plain->|to->|from->|row->)\w+->v\.(?:f|i|s|t|g|sparse|tp|floats|ints|"
                         r"strings|tensors|graphs|sparses|types)\b")
ATTR_WHOLE = {"rewrite/attr.c", "rewrite/model.c", "rewrite/compare.c", "rewrite/text/text_print.c",
              "rewrite/text/text_parse_attr.c", "rewrite/test_model.h", "proto/import_node.c",
              "proto/export_node.c", "tools/evaluation/diff/diff_text.c", "tools/evaluation/diff/model_diff.c",
              "tools/evaluation/diff/model_against.c", "tools/command/show_json.c"}
ATTR_TOPS = ("passes/", "proto/", "rewrite/", "tools/", "tools/evaluation/")
ATTR_OTHERS = ("rewrite/base/", "rewrite/shape/")  # no graph there
# A struct whose name says that it holds an operator's attributes, or a layout that fills one.
TYPE = re.compile(r"^typedef (?:struct|enum|union) (\w+) \{", re.MULTILINE)
ATTR_STRUCT = re.compile(r"\bstruct\s+\w*Attrs\s*\{|\}\s*\w*Attrs\s*;|"
                         r"\bAttrLayout\s+(?!op_attrs_)\w+\s*=")
TYPE_MEMBER = re.compile(r"->type->\w+")
# What a file that nvcc compiles may include.
FOR_NVCC = re.compile(r"kernels/cuda/(\w+\.cuh|\w+_args\.h)|rewrite/base/demi_dtype\.h|kernels/formulas\.h|kernels/unary\.def")
# An instruction set's vectors: a body is compiled behind one of them, and all define the same names.
SIMD_HEADER = re.compile(r"rewrite/base/simd/simd_\w+\.h")
# Files that need not be unique: one per folder by convention.
COMMON_NAMES = {"CMakeLists.txt", "README.md", "__init__.py", "__main__.py", "model.onnx", ".gitignore"}


# Folders of tools that are library code, as the top folders are.
ON_TOP = ("tools/evaluation/", "tools/search/", "tools/training/")
# Tests and what they share.
TEST = re.compile(r".*_test\.[ch]|.*/test_[^/]*")


def room_of(path: str) -> str:
    """The room that a path of our tree belongs to; "" outside of it."""
    return path.rsplit("/", 1)[0] if path.startswith(tuple(t + "/" for t in TOPS)) else ""


def top_of(path: str) -> str:
    """The folder whose tests a file is among; in tools, that of a library on top, or all of tools."""
    return "/".join(path.split("/", 2)[:2]) if path.startswith(ON_TOP) else path.split("/", 1)[0]


def rooms_of(path: str) -> set[str] | None:
    """The rooms that a file may include; None where ROOMS lacks its own."""
    room, top = room_of(path), top_of(path)
    if TEST.fullmatch(path):
        return {room}.union(*(may for r, may in ROOMS.items() if top_of(r + "/") == top))
    if room in ROOMS:
        return ROOMS[room] | {room}
    return FAMILY | {room} if room.startswith("kernels/cpu/") else None


def third_party_problem(path: str, header: str) -> str:
    for pattern, where in THIRD_PARTY:
        if re.fullmatch(pattern, header):
            if path in PUBLIC_HEADERS:
                return f"a public header includes <{header}>"
            return "" if re.fullmatch(where, path) else f"<{header}> does not belong here"
    if SYSTEM.fullmatch(header):
        return ""
    return f"<{header}> is not a header of ours, of the system or of a known third party"


def layer_problem(path: str, target: str) -> str:
    room, goal = room_of(path), room_of(target)
    if path.endswith((".cu", ".cuh")):
        return "" if FOR_NVCC.fullmatch(target) else f"a file of nvcc's includes {target}"
    if TEST.fullmatch(path) and top_of(target) == top_of(path):
        return ""
    allowed = rooms_of(path)
    if allowed is None:
        return f"{room} is not in ROOMS"
    if goal in allowed or target in EXTRA.get(room, set()) | EXTRA.get(path, set()):
        return ""
    return f"{room} must not include {target}"


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
    if not path.startswith(ATTR_TOPS) or path.startswith(ATTR_OTHERS) or "_test." in path:
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
    return [f"{path}: {m}: structs of attributes are defined in rewrite/base/operators"
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


def type_problems(path: str, text: str, seen: dict[str, str]) -> list[str]:
    """Types of headers that another header defines, too: no file could include both, and readers take one for
    the other. `seen` has those of the files before."""
    if not path.endswith(".h") or SIMD_HEADER.fullmatch(path):
        return []
    found = [f"{path}: {name} is a type of {seen[name]}, too" for name in TYPE.findall(text) if name in seen]
    seen.update(dict.fromkeys(TYPE.findall(text), path))
    return found


def check(root: pathlib.Path) -> list[str]:
    """Every breach under root."""
    skipped = {"build", ".git", "__pycache__"}
    paths = sorted(str(p.relative_to(root)) for p in root.rglob("*")
                   if p.is_file() and not skipped & set(p.relative_to(root).parts))
    ours = [p for p in paths if room_of(p) and pathlib.PurePath(p).suffix in
            {s[1:] for s in SOURCES}]
    by_name = {p.rsplit("/", 1)[-1]: p for p in ours}
    found = name_problems([p for p in paths if room_of(p)])
    types: dict[str, str] = {}
    for path in ours:
        text = (root / path).read_text(errors="replace")
        found += include_problems(path, text, by_name) + read_problems(path, text)
        found += struct_problems(path, text) + type_problems(path, text, types)
    return found


CASES = [  # (file, text, must be found or None)
    ("rewrite/base/a.c", '#include "g.h"\n', "rewrite/base must not include rewrite/g.h"),
    ("rewrite/g.c", '#include "w.h"\n', "rewrite must not include proto/w.h"),
    ("rewrite/ops/o.c", '#include "graph.h"\n', None),
    ("rewrite/ops/o2.c", '#include "g.h"\n', "rewrite/ops must not include rewrite/g.h"),
    ("proto/w.c", '#include "g.h"\n#include <protobuf-c/protobuf-c.h>\n', None),
    ("rewrite/h.c", "#include <protobuf-c/protobuf-c.h>\n", "does not belong here"),
    ("passes/p.c", '#include "w.h"\n', "passes must not include proto/w.h"),
    ("passes/p5.c", '#include "place.h"\n', None),
    ("passes/p6.c", '#include "demi.h"\n', "passes must not include passes/front/demi.h"),
    ("passes/placement/p7.c", '#include "demi.h"\n',
     "passes/placement must not include passes/front/demi.h"),
    ("passes/placement/p8.c", '#include "passes.h"\n',
     "passes/placement must not include passes/passes.h"),
    ("passes/placement/p8_test.c", '#include "passes.h"\n', None),
    ("passes/placement/p9_test.c", '#include "kernel.h"\n',
     "passes/placement must not include kernels/kernel.h"),
    ("passes/fusion/f.c", '#include "passes.h"\n', None),
    ("passes/fusion/f2.c", '#include "place.h"\n', "passes/fusion must not include"),
    ("passes/attic/x.c", '#include "g.h"\n', "passes/attic is not in ROOMS"),
    ("passes/front/demi.c", '#include "w.h"\n', None),
    ("passes/p2.c", "#include <jansson.h>\n", "does not belong here"),
    ("passes/front/policy.c", "#include <jansson.h>\n", None),
    ("passes/front/demi.h", "#include <jansson.h>\n", "public header"),
    ("kernels/k.c", '#include "g.h"\n', "kernels must not include rewrite/g.h"),
    ("kernels/k3.c", '#include "rows.h"\n', "kernels must not include kernels/cpu/loops/rows.h"),
    ("kernels/cpu/loops/l.c", '#include "kernel.h"\n#include "gemm.h"\n',
     "kernels/cpu/loops must not include kernels/cpu/gemm/gemm.h"),
    ("kernels/cpu/new/n.c", '#include "kernel.h"\n#include "rows.h"\n', None),
    ("kernels/cpu/new/n_test.c", '#include "win.h"\n', None),
    ("kernels/cpu/new/n2.c", '#include "gemm.h"\n', "kernels/cpu/new must not include"),
    ("kernels/cpu/window/v.c", '#include "gemm.h"\n', None),
    ("kernels/cpu/gemm/g2.c", '#include "win.h"\n',
     "kernels/cpu/gemm must not include kernels/cpu/window/win.h"),
    ("kernels/cpu/window/v2.c", "#include <dnnl.h>\n", "does not belong here"),
    ("kernels/cpu/window/v3.c", "#include <immintrin.h>\n", "does not belong here"),
    ("runtime/r.c", '#include "a.h"\n#include "kernel.h"\n', None),
    ("runtime/r2.c", '#include "rows.h"\n', "runtime must not include kernels/cpu/loops/rows.h"),
    ("kernels/cuda/k2.cu", '#include "a.h"\n', "a file of nvcc's includes"),
    ("kernels/cuda/k3.cu", '#include "t.cuh"\n#include <cuda_fp16.h>\n', None),
    ("kernels/cuda/k4.c", "#include <cuda.h>\n", "not a header of ours"),
    ("tools/evaluation/t8.c", '#include "kernel.h"\n#include "g.h"\n#include "demi.h"\n', None),
    ("tools/evaluation/t9.c", '#include "w.h"\n', "tools/evaluation must not include proto/w.h"),
    ("runtime/r2.c", '#include "trials.h"\n', "runtime must not include tools/evaluation/trials.h"),
    ("tools/command/t.c", '#include "w.h"\n#include "a.h"\n', None),
    ("tools/fuzz/z.c", '#include "cmd.h"\n', "tools/fuzz must not include tools/command/cmd.h"),
    ("tools/examples/e.c", '#include "demi/demi.h"\n', None),
    ("tools/examples/e2.c", '#include "a.h"\n', "tools/examples must not include"),
    ("tools/suites/t2.c", '#include "base/a.h"\n', "bare names"),
    ("tools/suites/t5.c", "#include <demi/demi.h>\n", None),
    ("tools/suites/t6.c", "#include <demi/a.h>\n", "bare names"),
    ("tools/suites/t3.c", '#include "nowhere.h"\n', "does not exist"),
    ("tools/suites/t4.c", "#include <boost/any.h>\n", "not a header of ours"),
    ("tools/suites/a.c", "", "has the same name"),
    ("passes/p3.c", "x = attr->v.t;\n", "attributes are read by"),
    ("passes/p4.c", "plain->v.ints = NULL; /* attr->v.t */\n", None),
    ("rewrite/attr.c", "x = attr->v.t;\n", None),
    ("tools/command/t7.c", "x = value->type->rank;\n", "by value_type"),
    ("kernels/k3.c", "typedef struct ConvAttrs {\n    int64_t group;\n} X;\n", "rewrite/base/operators"),
    ("kernels/k4.c", "typedef struct {\n    int64_t group;\n} ConvAttrs;\n", "rewrite/base/operators"),
    ("kernels/k5.c", "const AttrLayout conv = {0};\n", "rewrite/base/operators"),
    ("kernels/k7.h", "typedef struct Graph {\n    int x;\n} Graph;\n", "Graph is a type of"),
    ("kernels/k8.h", "typedef struct Graph Graph;\n", None),
    ("kernels/k9.c", "typedef struct Graph {\n    int x;\n} Graph;\n", None),
    ("kernels/k6.c", "const ConvAttrs *attrs = call->attrs;\n", None),
    ("kernels/k5.c", "const AttrLayout conv = {0};\n", "rewrite/base/operators"),
]


SMALL_TREE = ("rewrite/base/a.h", "rewrite/base/a.c", "rewrite/g.h", "rewrite/graph.h", "proto/w.h",
              "kernels/kernel.h", "kernels/cpu/loops/rows.h", "kernels/cpu/gemm/gemm.h",
              "kernels/cpu/window/win.h", "kernels/cuda/t.cuh", "tools/evaluation/trials.h", "passes/passes.h", "passes/placement/place.h",
              "passes/front/demi.h", "tools/command/cmd.h")


GRAPH_TYPE = "typedef struct Graph {\n    int nodes;\n} Graph;\n"


def self_test() -> int:
    """Each case alone in a small tree: breaches are found, and nothing else is."""
    failures = 0
    for path, text, wanted in CASES:
        with tempfile.TemporaryDirectory() as place:
            root = pathlib.Path(place)
            for name, content in {**dict.fromkeys(SMALL_TREE, ""), "rewrite/graph.h": GRAPH_TYPE, path: text}.items():
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
