# SPDX-License-Identifier: Apache-2.0
"""What was carried: plans, inputs, and what they are to be held against."""

import json
import math
import pathlib
import random
import struct
import zipfile

from gpu_runtime import BFLOAT16, FLOAT, FLOAT16, UNIT, SIZE, Tensor

PATTERN = 8191  # elements of a weight before they come again: a prime, so that rows differ
LOOSE = 2.0 ** -20


class Carried:
    def __init__(self, path: pathlib.Path) -> None:
        self.zip = zipfile.ZipFile(path)
        self.manifest = json.loads(self.zip.read("manifest.json"))

    def data(self, name: str) -> bytes:
        return self.zip.read(name)

    def feeds(self, feeds: dict[str, dict]) -> dict[str, Tensor]:
        return {name: Tensor(t["dtype"], t["dims"], self.data(t["data"])) for name, t in feeds.items()}


def encoded(numbers: list[float], dtype: int) -> bytes:
    if dtype == FLOAT16:
        return struct.pack(f"<{len(numbers)}e", *numbers)
    wide = struct.pack(f"<{len(numbers)}f", *numbers)
    if dtype == FLOAT:
        return wide
    assert dtype == BFLOAT16
    made = bytearray(len(wide) // 2)
    made[0::2], made[1::2] = wide[2::4], wide[3::4]
    return bytes(made)


def filled(plan: bytes, fills: list) -> bytearray:
    """The plan with weights in their places, as large as those that it was made of."""
    made, rng = bytearray(plan), random.Random(7)
    normal = [max(-4.0, min(4.0, rng.gauss(0, 1))) for _ in range(PATTERN)]
    patterns: dict[tuple[int, float], bytes] = {}
    for at, dtype, count, deviation in fills:
        key = (dtype, deviation)
        if key not in patterns:
            patterns[key] = encoded([x * deviation for x in normal], dtype)
        size, pattern = count * SIZE[dtype], patterns[key]
        made[at:at + size] = (pattern * (size // len(pattern) + 1))[:size]
    return made


def made_up(feeds: dict[str, dict]) -> dict[str, Tensor]:
    """Inputs of these shapes; integers from 0 to the largest that there was."""
    made, rng = {}, random.Random(3)
    for name, t in feeds.items():
        count = math.prod(t["dims"])
        if t["most"] is not None:
            numbers = [rng.randint(0, t["most"]) for _ in range(min(count, PATTERN))]
            data = struct.pack(f"<{len(numbers)}q", *numbers)
        else:
            data = encoded([rng.gauss(0, 1) for _ in range(min(count, PATTERN))], t["dtype"])
        size = count * SIZE[t["dtype"]]
        made[name] = Tensor(t["dtype"], t["dims"], (data * (size // max(len(data), 1) + 1))[:size])
    return made


# ---- comparing -------------------------------------------------------------------------------------

def apart(got: Tensor, want: Tensor, tolerance: dict, between: float) -> tuple[float, str]:
    """How much of what is allowed the two are apart, at most, and what is wrong ("": nothing)."""
    if (got.dtype, got.dims) != (want.dtype, want.dims):
        return math.inf, f"type {got.dtype} of {got.dims}, expected {want.dtype} of {want.dims}"
    if want.dtype not in UNIT:
        return (0.0, "") if got.data == want.data else (math.inf, "integers differ")
    a, b, unit = got.numbers(), want.numbers(), UNIT[want.dtype]
    scale = max((abs(y) for y in b if math.isfinite(y)), default=0.0)
    loose = tolerance["loose"] * (LOOSE if unit > 2.0 ** -40 else 2.0 ** -44)
    fixed = loose * max(scale, tolerance["terms"]) + between * tolerance["coarse"] / 2 * tolerance["way"] + 1e-30
    worst, text = 0.0, ""
    for i, (x, y) in enumerate(zip(a, b)):
        if not math.isfinite(y):
            if x == y or (x != x and y != y):
                continue
            return math.inf, f"{x} at {i}, expected {y}"
        share = abs(x - y) / (1.01 * unit * abs(y) + fixed) if math.isfinite(x) else math.inf
        if share > worst:
            worst, text = share, f"{x:.8g} at {i}, expected {y:.8g}"
    return worst, text if worst > 1 else ""


def far(got: list[float], want: list[float]) -> float:
    """The largest difference, of the largest value: for whole networks."""
    scale = max((abs(y) for y in want), default=0.0) or 1.0
    if len(got) != len(want) or not all(map(math.isfinite, got)):
        return math.inf
    return max((abs(x - y) for x, y in zip(got, want)), default=0.0) / scale
