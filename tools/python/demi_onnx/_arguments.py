# SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of public functions before anything uses them.

`checked` reads the annotations of a function's parameters. A wrong argument raises a UsageError that
names it. Numbers reach the library as Python's own types, which ctypes does not truncate silently.
Annotations are read as text, since the oldest supported Python cannot evaluate all of them.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
from typing import Any, Callable, Mapping, TypeVar

from ._errors import UsageError
from ._large import LargeModel

_F = TypeVar("_F", bound=Callable[..., Any])
_Reader = Callable[[Any], Any]  # gives the argument as it is handed on; raises _Wrong


class _Wrong(Exception):
    """Says what was expected instead."""


def shown(value: Any) -> str:
    """Returns the value as an error quotes it, even if its own repr fails."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse(name: str, expected: str, value: Any, hint: str = "",
           kind: type[UsageError] = UsageError) -> UsageError:
    """Returns the error for an argument that is not what is expected."""
    actual = shown(value)
    return kind(f"{name}: expected {expected}, got {actual}", operand=name, expected=expected,
                actual=actual, what="a wrong argument", hint=hint)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong("text")
    _encoded(value)
    return value


def _encoded(value: str | bytes) -> None:
    try:
        raw = os.fsencode(value)
    except UnicodeEncodeError:
        raise _Wrong("text that can be encoded in UTF-8") from None
    if b"\0" in raw:
        raise _Wrong("text without a NUL character")


def _folder(value: Any) -> Any:
    """Accepts an empty path, which is the current folder, as os.path.dirname returns it."""
    try:
        plain = os.fspath(value)
    except Exception:
        raise _Wrong("a path") from None
    _encoded(plain)
    return value if isinstance(value, os.PathLike) else plain


def _path(value: Any) -> Any:
    made = _folder(value)
    if os.fspath(made) in ("", b""):
        raise _Wrong("a path that is not empty")
    return made


def _model(value: Any) -> Any:
    if isinstance(value, (str, os.PathLike)):
        return _path(value)
    if isinstance(value, (bytes, bytearray, memoryview, LargeModel)) or hasattr(value, "SerializeToString"):
        return value
    raise _Wrong("a path, the bytes of a model, or an onnx.ModelProto")


def _within(value: Any, bits: int) -> int:
    try:
        number = operator.index(value)
    except Exception:
        raise _Wrong("an integer") from None
    if not -(1 << 63) <= number < 1 << bits:
        raise _Wrong("a 64-bit integer")
    return number


def _integer(value: Any) -> int:
    return _within(value, 64)


def _int64(value: Any) -> int:
    return _within(value, 63)


def _real(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise _Wrong("a number")
    try:
        return float(value)
    except Exception:
        raise _Wrong("a number") from None


def _limit(value: Any) -> float:
    """Accepts a number that counts or measures something: NaN is never a limit."""
    number = _real(value)
    if math.isnan(number):
        raise _Wrong("a number")
    return number


def _truth(value: Any) -> bool:
    if isinstance(value, (bool, int)) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise _Wrong("True or False")


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _Wrong("a mapping of names")
    for name in value:
        if not isinstance(name, str):
            raise _Wrong("a mapping of names")
        _encoded(name)
    return value


def _texts(value: Any) -> Any:
    if isinstance(value, (str, bytes)):
        raise _Wrong("a list of texts")
    try:
        items = list(value)
    except Exception:
        raise _Wrong("a list of texts") from None
    for item in items:
        if not isinstance(item, str):
            raise _Wrong("a list of texts")
        _encoded(item)
    return items


def _integers(value: Any) -> list[int]:
    try:
        items = list(value)
    except Exception:
        raise _Wrong("a list of integers") from None
    return [_within(item, 63) for item in items]


def _items(value: Any) -> list[Any]:
    if isinstance(value, (str, bytes)):
        raise _Wrong("a list")
    try:
        return list(value)
    except Exception:
        raise _Wrong("a list") from None


def _callable(value: Any) -> Any:
    if not callable(value):
        raise _Wrong("a function")
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise _Wrong("None")


_READERS: dict[str, _Reader] = {
    "str": _text, "int": _integer, "int64": _int64, "float": _limit, "real": _real, "bool": _truth, "Path": _path, "Folder": _folder, "Model": _model,
    "Sequence[str]": _texts, "Sequence[int]": _integers, "Sequence": _items, "Mapping": _mapping, "Feeds": _mapping,
    "Callable": _callable, "Progress": _callable, "None": _none}


def _parts_of(annotation: str) -> list[str]:
    """Returns the members of a union."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and depth == 0:
            parts.append(annotation[start:i])
            start = i + 1
    return [part.strip().strip("\"'") for part in [*parts, annotation[start:]]]


def _reader_of_class(name: str, known: Mapping[str, Any]) -> _Reader | None:
    first, *more = name.split(".")
    kind = known.get(first)
    for part in more:
        kind = getattr(kind, part, None)
    if not isinstance(kind, type) or kind is Any:  # a class since Python 3.11
        return None

    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _Wrong(f"a {name}")
        return value

    return read


def _reader_of(annotation: Any, known: Mapping[str, Any]) -> _Reader | None:
    """Returns the reader for values of that annotation; None if it has nothing that can be checked."""
    if not isinstance(annotation, str):
        return None
    annotation = annotation.strip("\"'")
    readers: list[_Reader] = []
    for part in _parts_of(annotation):
        words = part.removeprefix("Literal") if hasattr(part, "removeprefix") else part
        reader = _READERS.get(part) or _READERS.get(part.partition("[")[0])
        if reader is None and words.startswith("[") and words != part:
            reader = _text
        reader = reader or _reader_of_class(part, known)
        if reader is None:
            return None
        readers.append(reader)
    # a number is looked for first: None, True and 1 are told apart by who takes them
    if len(readers) == 1:
        return readers[0]

    def read(value: Any) -> Any:
        expected = []
        for reader in readers:
            try:
                return reader(value)
            except _Wrong as wrong:
                expected.append(str(wrong))
        raise _Wrong(" or ".join(expected))

    return read


def take(name: str, annotation: str, value: Any) -> Any:
    """Checks the value of an argument with that annotation, and returns it as it is passed on."""
    reader = _READERS[annotation]
    try:
        return reader(value)
    except _Wrong as wrong:
        raise refuse(name, str(wrong), value) from None


def take_limit(value: float) -> float:
    """Checks `max_error`, whose negative values have a different meaning in the library."""
    if value < 0:
        raise refuse("max_error", "a number that is not negative", value)
    return value


def checking(kind: type[UsageError]) -> Callable[[_F], _F]:
    """The same as `checked`, with errors of that class."""
    return lambda function: _check(function, kind)


# Names of parameters in an earlier version: accepted, not documented.
_FORMER = {"strip_notes": "strip_doc_strings", "spelled": "decompose"}


def checked(function: _F) -> _F:
    """Returns the function, which then checks its arguments first."""
    return _check(function, UsageError)


def _check(function: _F, kind: type[UsageError]) -> _F:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    known = function.__globals__
    readers: dict[str, _Reader | None] = {}

    def look(name: str, annotation: Any, value: Any) -> Any:
        if name not in readers:  # when it is first given: classes may be defined later than the function
            readers[name] = _reader_of(annotation, known)
        reader = readers[name]
        if reader is None:
            return value
        try:
            return reader(value)
        except _Wrong as wrong:
            raise refuse(name, str(wrong), value, kind=kind) from None

    former = {old: new for old, new in _FORMER.items() if new in signature.parameters}
    by_name = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    in_order = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        given = tuple(look(p.name, p.annotation, value) if p.default is p.empty or value is not p.default else value
                      for p, value in zip(in_order, given)) + given[len(in_order):]
        for old in former.keys() & named.keys():
            named.setdefault(former[old], named.pop(old))
        for name, value in named.items():
            p = by_name.get(name)
            if p is not None and value is not p.default:
                named[name] = look(name, p.annotation, value)
        return function(*given, **named)

    return call  # type: ignore[return-value]


__all__ = ["checked", "checking", "refuse", "shown", "take", "take_limit"]
