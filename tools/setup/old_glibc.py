# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the C library to link with, so that what is linked asks for no newer one than wanted.

    tools/setup/old_glibc.py build/old_glibc --newest 2.28 [--cc cc]

For each library there is made one of the same name, which defines the symbols that the system's has up to
that version, each of the newest version among these, and does nothing. A program that is linked with
`-L build/old_glibc` then runs with any C library from that version on: symbols keep their old versions
there for good. What glibc had no functions for before 2.33 (stat and the like were macros) is in
libglibc_old.a, by the functions that these macros called. Linux on x86-64 and aarch64.
"""

import argparse
import pathlib
import re
import subprocess
import sys

LIBRARIES = {"c": "libc.so.6", "m": "libm.so.6", "pthread": "libpthread.so.0", "dl": "libdl.so.2"}
# Version 1 is that of struct stat on x86-64, 0 on others.
WRAPPERS = """
#include <sys/stat.h>
#ifdef __x86_64__
enum { STAT_VERSION = 1 };
#else
enum { STAT_VERSION = 0 };
#endif
int __xstat(int version, const char *path, struct stat *to);
int __lxstat(int version, const char *path, struct stat *to);
int __fxstat(int version, int fd, struct stat *to);
int __fxstatat(int version, int fd, const char *path, struct stat *to, int flags);
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int stat(const char *path, struct stat *to) { return __xstat(STAT_VERSION, path, to); }
HIDDEN int lstat(const char *path, struct stat *to) { return __lxstat(STAT_VERSION, path, to); }
HIDDEN int fstat(int fd, struct stat *to) { return __fxstat(STAT_VERSION, fd, to); }
HIDDEN int fstatat(int fd, const char *path, struct stat *to, int flags) {
    return __fxstatat(STAT_VERSION, fd, path, to, flags);
}
"""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def symbols_of(path: str, newest: str) -> dict[str, tuple[str, str, int]]:
    """Of each symbol up to that version: version, type and size."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", path], check=True, capture_output=True,
                          text=True).stdout
    found: dict[str, tuple[str, str, int]] = {}
    row = re.compile(r"^\s*\d+: [0-9a-f]+\s+(\w+) (FUNC|IFUNC|OBJECT)\s+(?:GLOBAL|WEAK)\s+DEFAULT\s+"
                     r"(\d+) (\w+)@+GLIBC_([\d.]+)$", re.M)
    for size, kind, _, name, version in row.findall(text):
        if numbers(version) <= numbers(newest) and (
                name not in found or numbers(found[name][0]) < numbers(version)):
            found[name] = (version, kind, int(size, 0))
    return found


def assembly(symbols: dict[str, tuple[str, str, int]]) -> str:
    lines = []
    for i, (name, (version, kind, size)) in enumerate(symbols.items()):
        data = kind == "OBJECT"
        lines += [".data" if data else ".text", f".globl s{i}",
                  f".type s{i}, {'%object' if data else '%function'}", f"s{i}:",
                  f".zero {max(size, 1)}" if data else "ret", f".size s{i}, . - s{i}",
                  f".symver s{i}, {name}@@GLIBC_{version}"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""])


def make(folder: pathlib.Path, name: str, newest: str, compiler: str) -> None:
    soname = LIBRARIES[name]
    path = subprocess.run([compiler, f"-print-file-name={soname}"], check=True, capture_output=True,
                          text=True).stdout.strip()
    symbols = symbols_of(path, newest)
    source, script = folder / f"{name}.s", folder / f"{name}.map"
    source.write_text(assembly(symbols))
    versions = sorted({version for version, _, _ in symbols.values()}, key=numbers)
    script.write_text("".join(f"GLIBC_{version} {{ }};\n" for version in versions))
    made = folder / soname
    subprocess.run([compiler, "-shared", "-nostdlib", f"-Wl,-soname,{soname}",
                    f"-Wl,--version-script={script}", "-o", made, source], check=True)
    link = folder / f"lib{name}.so"
    if name == "c":  # with what is in none of the shared libraries, as the system's has it
        rest = subprocess.run([compiler, "-print-file-name=libc_nonshared.a"], check=True,
                              capture_output=True, text=True).stdout.strip()
        link.write_text(f"GROUP ( {made} {rest} )\n")
    else:
        link.unlink(missing_ok=True)
        link.symlink_to(made.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--newest", default="2.28")
    parser.add_argument("--cc", default="cc")
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        make(folder, name, args.newest, args.cc)
    source = folder / "glibc_old.c"
    source.write_text(WRAPPERS)
    subprocess.run([args.cc, "-O2", "-fPIC", "-c", "-o", source.with_suffix(".o"), source], check=True)
    (folder / "libglibc_old.a").unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", folder / "libglibc_old.a", source.with_suffix(".o")], check=True)


if __name__ == "__main__":
    sys.exit(main())
