# SPDX-License-Identifier: Apache-2.0
"""Checks a wheel of demi_onnx: which libraries and which of their versions what is in it asks for, its size,
its tags, and that it holds what it has to. auditwheel is asked as well, where it is installed. Exit 1 names
what is wrong.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2",
           "ld-linux-aarch64.so.1", "libc.so"}  # the last one is musl
MOST_BYTES = 8 << 20
NEEDED = ["demi_onnx/libdemi.so", "demi_onnx/py.typed", "demi_onnx/_abi.py", ".data/scripts/demi",
          "licenses/LICENSE", "NOTICE"]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def binary_problems(path: pathlib.Path, newest: str | None) -> list[str]:
    text = subprocess.run(["readelf", "-W", "-d", "--dyn-syms", path], check=True, capture_output=True,
                          text=True).stdout
    problems = [f"{path.name} needs {library}" for library in
                sorted(set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)) - ALLOWED)]
    if "RUNPATH" in text or "RPATH" in text:
        problems.append(f"{path.name} has a path of this machine")
    versions = set(re.findall(r"UND (\w+)@GLIBC_([\d.]+)", text))
    if newest:
        problems += [f"{path.name} asks for {name} of {version}" for name, version in sorted(versions)
                     if numbers(version) > numbers(newest)]
    most = max((version for _, version in versions), key=numbers, default=None)
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, " + (f"glibc from {most}" if most else "musl"))
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--newest", help="the C library's version that is to do")
    args = parser.parse_args()
    problems = []
    with zipfile.ZipFile(args.wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        problems += [f"there is no {end}" for end in NEEDED if not any(n.endswith(end) for n in names)]
        for name in names:
            if name.endswith((".so", "/demi")):
                problems += binary_problems(pathlib.Path(archive.extract(name, folder)), args.newest)
    if "-py3-none-" not in args.wheel.name:
        problems.append("it is not for every Python 3")
    if args.wheel.stat().st_size > MOST_BYTES:
        problems.append(f"it has {args.wheel.stat().st_size} bytes")
    audit = pathlib.Path(sys.executable).with_name("auditwheel")
    if args.newest and os.access(audit, os.X_OK):
        said = subprocess.run([audit, "show", args.wheel], check=False, capture_output=True, text=True)
        tag = re.search(r'platform\s+tag:\s+"(\w+)"', said.stdout)
        print(f"auditwheel: {tag.group(1) if tag else said.stdout + said.stderr}")
        if not tag or not tag.group(1).startswith("manylinux"):
            problems.append("auditwheel does not find it consistent with a manylinux tag")
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
