# SPDX-License-Identifier: Apache-2.0
"""Makes one prefix of oneDNN's two wheels: `unpack_onednn.py DOWNLOADS PREFIX`.

The wheels install to <name>.data/data/: headers and CMake package from one, the library from the
other, which holds three full copies under its three names: the one that the CMake package names is
kept, the soname is a link to it. The prefix appears complete or not at all.
"""

import pathlib
import shutil
import sys
import zipfile

from unpack_wheel import find_wheel

KEPT = ("include/", "lib/cmake/", "share/doc/onednn/")
LIBRARY, SONAME = "lib/libdnnl.so.3.2", "libdnnl.so.3"


def main() -> None:
    downloads, prefix = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    fresh = prefix.with_name(prefix.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    for name in ("onednn-cpu-gomp", "onednn-devel-cpu-gomp"):
        with zipfile.ZipFile(find_wheel(name, downloads)) as wheel:
            for member in wheel.namelist():
                place = member.partition(".data/data/")[2]
                if place.endswith("/") or not (place.startswith(KEPT) or place == LIBRARY):
                    continue
                path = fresh / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(member))
    library = fresh / LIBRARY
    if not library.exists():
        sys.exit(f"unpack_onednn: no {LIBRARY} in the wheel")
    (library.parent / SONAME).symlink_to(library.name)
    shutil.rmtree(prefix, ignore_errors=True)
    fresh.rename(prefix)


if __name__ == "__main__":
    main()
