# SPDX-License-Identifier: Apache-2.0
"""Work that several processes share: which part of it is this process's, for the calls that can be shared."""

from __future__ import annotations

import contextlib
import ctypes
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import numpy as np

from . import _abi
from ._lib import Guard


@dataclass(frozen=True)
class Share:
    """Part `part` of `parts`. `combine` makes words the bitwise or of those of all processes, in place."""

    part: int
    parts: int
    combine: Callable[[Any], None]
    threads: int

    def set_options(self, options: Any, guard: Guard) -> None:
        """Sets the members that DemiTrialOptions and DemiSearchOptions have for it."""

        def combine(_: int, words: Any, count: int) -> bool:
            self.combine(np.ctypeslib.as_array(words, shape=(count,)))
            return True

        options.part, options.parts = self.part, self.parts
        options.combine = _abi.DemiCombineFn(guard.wrap(combine, False))


_now: ContextVar[Share | None] = ContextVar("demi_share", default=None)


def current() -> Share | None:
    """Returns the share of the calls that are made now; None if they are not shared."""
    return _now.get()


@contextlib.contextmanager
def sharing(share: Share) -> Iterator[None]:
    """Makes the calls within a `with` statement shared ones."""
    token = _now.set(share)
    try:
        yield
    finally:
        _now.reset(token)


def context_options(threads: int, share: Share | None) -> Any:
    """Makes the options of contexts with that number of threads; if it is 0, with that of the share."""
    return ctypes.pointer(_abi.DemiContextOptions(threads=threads or (share.threads if share else 0)))
