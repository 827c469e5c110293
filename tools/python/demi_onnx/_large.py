# SPDX-License-Identifier: Apache-2.0
"""onnx.ModelProtos of more than protobuf writes at once, 2 GB: their weights stay where they are.

The library is given the model without the bytes of its tensors, as external data that it asks for when
it needs them; what it makes comes back in the same two parts. So no weights are copied on the way in, but
one tensor's at a time, and on the way out once.
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
    """Of a ModelProto. One whose weights are all in subgraphs is not noticed here."""
    total = 0
    for tensor in model.graph.initializer:
        total += len(tensor.raw_data)
        if total > LIMIT:
            return True
    return False


def _messages(message: Any) -> Iterator[tuple[Any, Any, bool]]:
    """The fields of a message that are messages: (descriptor, value, whether there are several)."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            yield field, value, not hasattr(value, "ListFields")


def _tensors(message: Any) -> Iterator[Any]:
    """All TensorProtos in it, wherever they are."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for _, value, several in _messages(message):
        for item in value if several else (value,):
            yield from _tensors(item)


def _is_aside(tensor: Any) -> bool:
    return tensor.HasField("raw_data") and len(tensor.raw_data) >= _LEAST


def _refuse_unknown(message: Any) -> None:
    """Fields that this onnx does not know are not seen by what copies the known ones."""
    try:
        unknown: Any = importlib.import_module("google.protobuf.unknown_fields").UnknownFieldSet(message)
    except ImportError:  # an older protobuf has a method
        unknown = getattr(message, "UnknownFields", tuple)()
    if len(unknown):
        raise UsageError(f"a {message.DESCRIPTOR.name} of the model, which is above 2 GB, has fields that "
                         "this version of onnx does not know",
                         hint="give the path of a file with external data")


class LargeModel:
    """A ModelProto in two parts. The proto must stay as it is as long as this is in use."""

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
        """All of the message but the bytes of its tensors."""
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
        """Has the library read the weights from here."""
        options.data_size, options.data_read = self._size, self._read

    def _raw(self, number: int) -> bytes:
        tensor = self._tensors[number]
        return tensor if isinstance(tensor, bytes) else bytes(tensor.raw_data)

    def _number(self, location: bytes | None) -> int:
        text = os.fsdecode(location or b"")
        number = int(text[len(_FOLDER):]) if text.startswith(_FOLDER) else -1
        return number if number < len(self._tensors) else -1

    def _size_of(self, _: Any, location: bytes | None) -> int:
        """Files beside a model of more than 2 GB in memory are not looked for: there is no path."""
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
    """A DemiWriteFn that gathers what the library writes beside a model, and fills the model with it."""

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
        """What it is asked for comes in order: what lies before is let go."""
        found, at = [], max(bisect.bisect_right(self._starts, offset) - 1, 0)
        for i in range(at):
            self._pieces[i] = b""
        while length > 0:
            skip = offset - self._starts[at]
            found.append(self._pieces[at][skip:skip + length])
            offset, length, at = offset + len(found[-1]), length - len(found[-1]), at + 1
        return found[0] if len(found) == 1 else b"".join(found)

    def fill(self, model: Any) -> Any:
        """The model, whose tensors' bytes are inside again."""
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
