# SPDX-License-Identifier: Apache-2.0
"""onnx.ModelProtos of more than 2 GB, which protobuf cannot serialize: their weights stay in place.

The library gets the model without the bytes of its tensors. These are external data, which it requests
when it needs them. Its result has the same two parts. On the way in, the weights of only one tensor are
copied at a time; on the way out, weights are copied once.
"""

from __future__ import annotations

import bisect
import ctypes
import importlib
import os
from typing import Any, Iterator

from . import _abi
from ._errors import UsageError

LIMIT = 1 << 30  # bytes of a graph's weights; above, they are set aside. protobuf's own limit is 2 GB
_LEAST = 1 << 10  # bytes of a tensor that is worth it; the library's own bound, too
_FOLDER = "weights-of-a-ModelProto/"  # no file: what the tensors' locations begin with
_EXTERNAL = 1  # TensorProto.EXTERNAL


def is_large(model: Any) -> bool:
    """Returns whether a ModelProto is large. It does not count weights in subgraphs."""
    total = 0
    for tensor in model.graph.initializer:
        total += len(tensor.raw_data)
        if total > LIMIT:
            return True
    return False


def _messages(message: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Yields the fields of a message that are messages: (descriptor, value, whether it is repeated)."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            yield field, value, not hasattr(value, "ListFields")


def _tensors(message: Any) -> Iterator[Any]:
    """Yields all TensorProtos in it, at any depth."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for _, value, several in _messages(message):
        for item in value if several else (value,):
            yield from _tensors(item)


def _is_aside(tensor: Any) -> bool:
    return tensor.HasField("raw_data") and len(tensor.raw_data) >= _LEAST


def _refuse_unknown(message: Any) -> None:
    """Refuses fields that this version of onnx does not know: copying the known fields would lose them."""
    try:
        unknown: Any = importlib.import_module("google.protobuf.unknown_fields").UnknownFieldSet(message)
    except ImportError:  # an older protobuf has a method
        unknown = getattr(message, "UnknownFields", tuple)()
    if len(unknown):
        raise UsageError(f"a {message.DESCRIPTOR.name} of the model, which exceeds 2 GB, has fields that "
                         "this version of onnx does not know",
                         hint="pass the path of a file with external data")


class LargeModel:
    """A ModelProto in two parts. The proto must not change while this object is in use."""

    def __init__(self, model: Any) -> None:
        self._tensors: list[Any] = []  # protos; bytes after unpickling
        shell = type(model)()
        self._copy(model, shell)
        self.shell: bytes = shell.SerializeToString()
        self._prepare()

    def _prepare(self) -> None:
        self._last: tuple[int, bytes] = (-1, b"")
        self._size = _abi.DemiDataSizeFn(self._size_of)
        self._read = _abi.DemiDataReadFn(self._read_of)

    def __getstate__(self) -> dict[str, Any]:
        return {"shell": self.shell, "weights": [self._raw(i) for i in range(len(self._tensors))]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.shell, self._tensors = state["shell"], state["weights"]
        self._prepare()

    def _copy(self, message: Any, to: Any) -> None:
        """Copies all of the message except the bytes of its tensors."""
        if not any(_is_aside(tensor) for tensor in _tensors(message)):
            to.CopyFrom(message)
            return
        _refuse_unknown(message)
        skip = ("raw_data",) if message.DESCRIPTOR.name == "TensorProto" else ()
        for field, value in message.ListFields():
            if field.name in skip:
                continue
            place = getattr(to, field.name)
            if field.message_type is None and hasattr(value, "append"):
                place.extend(value)
            elif field.message_type is None:
                setattr(to, field.name, value)
            elif hasattr(value, "ListFields"):
                self._copy(value, place)
            else:
                for item in value:
                    self._copy(item, place.add())
        if skip:
            self._set_aside(message, to)

    def _set_aside(self, tensor: Any, to: Any) -> None:
        to.data_location = _EXTERNAL
        for key, value in (("location", f"{_FOLDER}{len(self._tensors)}"),
                           ("length", str(len(tensor.raw_data)))):
            to.external_data.add(key=key, value=value)
        self._tensors.append(tensor)

    # -- what the library asks --

    def options(self, options: _abi.DemiLoadOptions) -> None:
        """Makes the library read the weights from this object."""
        options.data_size, options.data_read = self._size, self._read

    def _raw(self, number: int) -> bytes:
        tensor = self._tensors[number]
        return tensor if isinstance(tensor, bytes) else bytes(tensor.raw_data)

    def _number(self, location: bytes | None) -> int:
        text = os.fsdecode(location or b"")
        number = int(text[len(_FOLDER):]) if text.startswith(_FOLDER) else -1
        return number if number < len(self._tensors) else -1

    def _size_of(self, _: Any, location: bytes | None) -> int:
        """Returns -1 for external files: a model in memory has no path where they could be."""
        number = self._number(location)
        return len(self._raw(number)) if number >= 0 else -1

    def _read_of(self, _: Any, location: bytes | None, offset: int, buffer: int, size: int) -> bool:
        number, (last, raw) = self._number(location), self._last  # by any thread
        if number != last:
            raw = self._raw(number)
        whole = offset + size == len(raw)
        self._last = (-1, b"") if whole else (number, raw)  # each byte asked for makes one of them all
        room = memoryview((ctypes.c_char * size).from_address(buffer)).cast("B")
        room[:] = memoryview(raw)[offset:offset + size]
        return True


class Weights:
    """A DemiWriteFn that collects the external data that the library writes, and fills the model with it."""

    name = _FOLDER + "made"

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self._end = 0

    def take(self, _: int, data: int, size: int) -> bool:
        self._pieces.append(ctypes.string_at(data, size))
        self._starts.append(self._end)
        self._end += size
        return True

    def _read(self, offset: int, length: int) -> bytes:
        """Requests come in order: the pieces before this one are released."""
        found, at = [], max(bisect.bisect_right(self._starts, offset) - 1, 0)
        for i in range(at):
            self._pieces[i] = b""
        while length > 0:
            skip = offset - self._starts[at]
            found.append(self._pieces[at][skip:skip + length])
            offset, length, at = offset + len(found[-1]), length - len(found[-1]), at + 1
        return found[0] if len(found) == 1 else b"".join(found)

    def fill(self, model: Any) -> Any:
        """Returns the model, with the bytes of its tensors inside again."""
        places = []
        for tensor in _tensors(model):
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if tensor.data_location == _EXTERNAL and entries.get("location") == self.name:
                places.append((int(entries.get("offset", "0")), int(entries["length"]), tensor))
        for offset, length, tensor in sorted(places, key=lambda place: place[0]):
            tensor.raw_data = self._read(offset, length)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
        return model


__all__ = ["LargeModel", "Weights", "is_large"]
