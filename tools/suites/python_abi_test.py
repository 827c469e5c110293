# SPDX-License-Identifier: Apache-2.0
"""tools/python/demi_onnx/_abi*.py are what the public headers say: as tools/gen/gen_python.py writes them,
and as the compiler lays out every structure, numbers every enumerator and gives every INIT macro's
members. --self-test shows that a wrong offset is noticed. Exit 1 names what differs.
"""

import argparse
import ctypes
import importlib
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "tools/gen/gen_python.py"
HEADERS = ["passes/front", "runtime", "tools/evaluation", "tools/search", "tools/training", "rewrite/base"]


def load_module(path: pathlib.Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def compiled(compiler: str, program: str) -> list[list[str]]:
    """The words of each line that the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = pathlib.Path(folder, "probe.c"), pathlib.Path(folder, "probe")
        source.write_text(program)
        includes = [f"-I{ROOT / folder}" for folder in HEADERS]
        subprocess.run([compiler, *includes, "-o", made, source], check=True)
        lines = subprocess.run([made], check=True, capture_output=True, text=True).stdout
    return [line.split() for line in lines.splitlines()]


def differences(abi: object, said: list[list[str]]) -> list[str]:
    found = []
    for kind, name, *words in said:
        have = getattr(abi, name)
        if kind == "constant":
            same = have == int(words[0])
        elif kind == "size":
            same = ctypes.sizeof(have) == int(words[0])
        else:
            member = getattr(have, words[0])
            same = [member.offset, member.size] == [int(words[1]), int(words[2])]
        if not same:
            found.append(f"{kind} {name} {' '.join(words)}")
    return found


def load_abi(folder: pathlib.Path) -> object:
    """What the modules define, without the package that they are of: it would load the library."""
    package = types.ModuleType("probed")
    package.__path__ = [str(folder)]
    sys.modules["probed"] = package
    made = types.SimpleNamespace()
    for name in ("_abi_constants", "_abi", "_abi_functions", "_abi_plugin"):
        vars(made).update(vars(importlib.import_module(f"probed.{name}")))
    return made


def init_program(generator: object, table: object) -> str:
    """Prints the bytes of every structure that its INIT macro fills."""
    lines = ["#include <stdio.h>", "#include <string.h>",
             *[f'#include "{pathlib.Path(path).name}"' for path in generator.HEADERS],
             "static void show(const char *name, const void *of, size_t size) {",
             '    printf("init %s ", name);',
             '    for (size_t i = 0; i < size; i++) printf("%02x", ((const unsigned char *)of)[i]);',
             '    printf("\\n");', "}", "int main(void) {"]
    for macro, body in table.texts.items():
        name = body.split("sizeof(")[1].split(")")[0]
        lines.append(f"    {{ static {name} v = {macro}; show(\"{name}\", &v, sizeof v); }}")
    return "\n".join([*lines, "    return 0;", "}", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    subprocess.run([sys.executable, GENERATOR, "--check"], check=True)
    generator = load_module(GENERATOR)
    abi = load_abi(generator.OUTPUT.parent)
    table = generator.read_headers()
    said = compiled(args.cc, generator.probe_text(table))
    found = differences(abi, said)
    for _, name, text in compiled(args.cc, init_program(generator, table)):
        if bytes(getattr(abi, name)()).hex() != text:
            found.append(f"defaults of {name}")
    if args.self_test:
        wrong = [[kind, name, *words[:-1], str(int(words[-1]) + 1)] for kind, name, *words in said]
        if len(differences(abi, wrong)) != len(said):
            found.append("the self-test: a wrong number passes")
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(said)} sizes, offsets and numbers, {len(table.texts)} INIT macros, "
          f"{len(found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
