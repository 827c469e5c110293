# SPDX-License-Identifier: Apache-2.0
"""Makes one prefix of the wheels that nvcc comes in: `unpack_nvcc.py DOWNLOADS PREFIX`.

Each has a part of nvidia/cu13: the programs, the compiler behind them, headers. Libraries are left out:
kernels are compiled here, and nothing is linked. The prefix appears complete or not at all.
"""

import pathlib
import shutil
import sys
import zipfile

from unpack_wheel import find_wheel

NAMES = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-cuda-cccl")
INSIDE = "nvidia/cu13/"
KEPT = ("bin/", "include/", "nvvm/bin/", "nvvm/libdevice/")


def main() -> None:
    downloads, prefix = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    fresh = prefix.with_name(prefix.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    for name in NAMES:
        with zipfile.ZipFile(find_wheel(name, downloads)) as wheel:
            for member in wheel.namelist():
                place = member.partition(INSIDE)[2]
                if not place.startswith(KEPT) or place.endswith("/"):
                    continue
                path = fresh / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(member))
                if "bin" in path.parts[-3:]:
                    path.chmod(0o755)
    if not (fresh / "bin/nvcc").exists():
        sys.exit("unpack_nvcc: no bin/nvcc in the wheels")
    shutil.rmtree(prefix, ignore_errors=True)
    fresh.rename(prefix)


if __name__ == "__main__":
    main()
