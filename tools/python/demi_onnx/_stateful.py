# SPDX-License-Identifier: Apache-2.0
"""Runs that continue where the last one ended: an output of one run is an input of the next.

The KV cache of a language model thus grows in place in the library, and never passes through Python.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ._arguments import checked, refuse, take
from ._errors import UsageError
from ._lib import lib
from ._session import _Input, _Output, _Plan, _Runner
from ._values import copy_of


def _pairs_of(plan: _Plan, carry: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns pairs of output and input names; a '*' in both is any text."""
    found: list[tuple[str, str]] = []
    for output, name in take("carry", "Mapping", carry).items():
        take("carry", "str", name)
        if output.count("*") != name.count("*") or "*" in output.replace("*", "", 1):
            raise UsageError(f"carry: {output!r} and {name!r} must both contain one '*', or none")
        before, star, after = output.partition("*")
        names = [arg.name for arg in plan.outputs
                 if (len(arg.name) >= len(before + after) and arg.name.startswith(before)
                     and arg.name.endswith(after) if star else arg.name == output)]
        if not names:
            raise UsageError(f"carry: the model has no output {output!r}",
                             hint="the outputs are: " + ", ".join(arg.name for arg in plan.outputs))
        found += [(made, name.replace("*", made[len(before):len(made) - len(after)]))
                  for made in names]
    return found


class _Carrier(_Runner):
    """A context with carried inputs."""

    def __init__(self, plan: _Plan, pairs: Sequence[tuple[str, str]]) -> None:
        super().__init__(plan)
        self._into = [slot for slot in self._inputs if slot.name in {name for _, name in pairs}]
        self.carried = {output for output, _ in pairs}
        self._held: set[str] = set()  # inputs that a run has set
        for output, name in pairs:
            self._check(lib.demi_context_carry(self._context, output.encode("utf-8", "surrogateescape"),
                                               name.encode("utf-8", "surrogateescape"),
                                               self._error_ref))
        for out in self._outputs:
            if out.arg.name in self.carried:
                out.bytes, out.small = 0, False  # the library's own memory, which is never lent

    def _miss(self, slot: _Input, feeds: Mapping[str, Any]) -> None:
        if slot.name not in self._held:
            super()._miss(slot, feeds)

    def _look(self, slot: _Output) -> Any:
        if slot.arg.name not in self.carried:
            return super()._look(slot)
        output = lib.demi_context_output(self._context, slot.number)
        if not output:
            raise UsageError(f"output '{slot.arg.name}' cannot be copied within the memory budget")
        return copy_of(output.contents)

    def run(self, wanted: Sequence[int] | None, feeds: Mapping[str, Any]) -> list[Any]:
        made = super().run(wanted, feeds)
        for slot in self._into:
            slot.shape, slot.at, slot.is_set = None, None, True
            self._held.add(slot.name)
        return made

    def cut(self, name: str, axis: int, length: int) -> None:
        if not 0 <= axis < 1 << 32:
            raise refuse("axis", "the index of an axis", axis)
        if not 0 <= length < 1 << 63:
            raise refuse("length", "a number of slices", length)
        self._check(lib.demi_context_cut(self._context, name.encode("utf-8", "surrogateescape"), axis,
                                         length, self._error_ref))

    def forget(self) -> None:
        for slot in self._into:
            if slot.name in self._held:
                self._check(lib.demi_context_unset_input(self._context, slot.c_name, self._error_ref))
            slot.shape, slot.at, slot.is_set = None, None, False
        self._held.clear()


class Stateful:
    """Consecutive runs of a session, by one thread at a time (`Session.stateful`)."""

    def __init__(self, plan: _Plan, carry: Mapping[str, str]) -> None:
        pairs = _pairs_of(plan, carry)
        self._plan = plan
        self._runner = _Carrier(plan, pairs)
        self._others = [i for i, arg in enumerate(plan.outputs) if arg.name not in self._runner.carried]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[Any]:
        """The same as Session.run. A carried input is required only in the first run; passing it later starts
        again from that value. `output_names` None returns the outputs that are not carried. A carried output
        that is requested by its name is copied."""
        wanted = self._others if output_names is None else self._plan.wanted(output_names)
        return self._runner.run(wanted, input_feed)

    def __call__(self, **feeds: Any) -> list[Any]:
        return self.run(None, feeds)

    @checked
    def cut(self, name: str, axis: int, length: int) -> None:
        """Shortens a carried input to its first `length` slices along that axis, which returns to the time
        when the cache had that many."""
        self._runner.cut(name, axis, length)

    def forget(self) -> None:
        """Clears the state: carried inputs must be passed again."""
        self._runner.forget()


__all__ = ["Stateful"]
