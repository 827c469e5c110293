# SPDX-License-Identifier: Apache-2.0
"""Measures how long the runs of a model take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np

from . import _abi_constants as _codes
from ._arguments import checked
from ._errors import UsageError
from ._models import Model
from ._session import NodeArg, Session
from ._values import STRING, dtype_of


@dataclass(frozen=True)
class Bench:
    """Seconds per run, including the call in Python."""

    runs: int
    mean: float
    median: float
    least: float
    p99: float

    def __str__(self) -> str:
        return (f"{self.runs} runs: median {1e3 * self.median:.3f} ms, mean {1e3 * self.mean:.3f}, "
                f"least {1e3 * self.least:.3f}, p99 {1e3 * self.p99:.3f}; "
                f"{1 / self.mean:.1f} runs/s")


def _random(arg: NodeArg, dims: Mapping[str, int], draw: np.random.Generator) -> Any:
    if arg.kind != _codes.DEMI_DATA_TENSOR_KIND or arg.number == STRING or not arg.has_shape:
        raise UsageError(f"input '{arg.name}' cannot be generated", hint="pass `feeds`")
    shape = [size if isinstance(size, int) else int(dims.get(size or "", 1)) for size in arg.shape]
    dtype = dtype_of(arg.number)
    if dtype.kind in "iu":
        return draw.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "b":
        return draw.integers(0, 2, shape).astype(bool)
    return draw.standard_normal(shape).astype(dtype)


@checked
def bench(model: Model | Session, *, feeds: Mapping[str, Any] | None = None,
          dims: Mapping[str, int] | None = None, warmup: int = 3, runs: int = 0,
          duration: float = 3.0, seed: int = 0, **session: Any) -> Bench:
    """Times `runs` runs of a model, or as many as fit into `duration` seconds, after `warmup` runs.

    Without `feeds`, floats are random, and integers are 0 or 1. `dims` sets dynamic sizes by their
    names, 1 by default. `session` has the options of `Session`. `demi bench` reports more: what limits
    the runs, and how long each node takes."""
    if min(warmup, runs, duration, seed) < 0:
        raise UsageError("warmup, runs, duration, and seed must not be negative")
    running = model if isinstance(model, Session) else Session(model, **session)
    if feeds is None:
        draw = np.random.default_rng(seed)
        feeds = {arg.name: _random(arg, dims or {}, draw) for arg in running.get_inputs()}
    for _ in range(warmup):
        running.run(None, feeds)
    times: list[float] = []
    end = time.perf_counter() + duration
    while len(times) < runs if runs else not times or time.perf_counter() < end:
        start = time.perf_counter()
        running.run(None, feeds)
        times.append(time.perf_counter() - start)
    seconds = np.array(times)
    return Bench(len(times), float(seconds.mean()), float(np.median(seconds)), float(seconds.min()),
                 float(np.percentile(seconds, 99)))


__all__ = ["Bench", "bench"]
