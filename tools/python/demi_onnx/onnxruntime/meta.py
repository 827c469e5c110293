# SPDX-License-Identifier: Apache-2.0
"""A model's description of itself: the fields of a ModelProto that are onnxruntime's ModelMetadata, read from
the file without the rest of it."""

from __future__ import annotations

import mmap
import os
from typing import Any, Iterator, Union

_PRODUCER, _DOMAIN, _VERSION, _DOC, _GRAPH, _METADATA = 2, 4, 5, 6, 7, 14  # of ModelProto
_GRAPH_NAME, _GRAPH_DOC = 2, 10  # of GraphProto
_Bytes = Union[bytes, memoryview]


def _varint(data: _Bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


def _fields(data: _Bytes) -> Iterator[tuple[int, Any]]:
    """Yields (number, content) of a message's fields. Content of other wire types is skipped."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        content: Any = None
        if kind == 0:
            content, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            content, at = data[at:at + size], at + size
        else:
            at += {1: 8, 5: 4}[kind]
        yield tag >> 3, content


def _text(content: _Bytes) -> str:
    return bytes(content).decode("utf-8", "replace")


class ModelMetadata:
    """The result of onnxruntime's get_modelmeta."""

    def __init__(self) -> None:
        self.producer_name = self.domain = self.description = ""
        self.graph_name = self.graph_description = ""
        self.version = 0
        self.custom_metadata_map: dict[str, str] = {}

    def _take(self, data: _Bytes) -> None:
        for number, content in _fields(data):
            if number == _PRODUCER:
                self.producer_name = _text(content)
            elif number == _DOMAIN:
                self.domain = _text(content)
            elif number == _VERSION:
                self.version = content - (1 << 64) if content >> 63 else content
            elif number == _DOC:
                self.description = _text(content)
            elif number == _METADATA:
                entry = dict(_fields(content))
                self.custom_metadata_map[_text(entry.get(1, b""))] = _text(entry.get(2, b""))
            elif number == _GRAPH:
                for inner, text in _fields(content):
                    if inner == _GRAPH_NAME:
                        self.graph_name = _text(text)
                    elif inner == _GRAPH_DOC:
                        self.graph_description = _text(text)


def metadata_of(model: Any) -> ModelMetadata:
    """Returns the metadata of a path or a model's bytes. It is empty for anything but a ModelProto."""
    made = ModelMetadata()
    try:
        if isinstance(model, bytes):
            made._take(memoryview(model))
        else:
            with open(os.fspath(model), "rb") as file, \
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
                made._take(view)
    except (OSError, ValueError, IndexError, KeyError, TypeError):
        return ModelMetadata()
    return made
