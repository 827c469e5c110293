# SPDX-License-Identifier: Apache-2.0
"""Writes protobuf messages in legal but unusual ways, which every reader must take alike.

`encode` walks a Python message (unknown fields included) and lets a random generator choose per
record: packed or not, one record or two for a submessage, the order of fields (records of one
field stay in order, so that the meaning stays), an overridden scalar before the real one, varints
that are longer than need be.
"""

import dataclasses
import random
import struct

from google.protobuf.descriptor import FieldDescriptor as FD
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED = {FD.TYPE_DOUBLE: ("<d", FIXED64), FD.TYPE_FLOAT: ("<f", FIXED32)}


@dataclasses.dataclass(frozen=True)
class Style:
    """Chances, per record, of each oddity."""

    repack: float = 0.0    # the other packing than the declared one, or both in one field
    split: float = 0.0     # a submessage in two records
    shuffle: float = 0.0   # a message's fields in random order
    override: float = 0.0  # a singular scalar twice, the first time with another value
    overlong: float = 0.0  # varints with needless bytes


STYLES = {
    "canonical": Style(),
    "repacked": Style(repack=0.6),
    "split": Style(split=0.4),
    "shuffled": Style(shuffle=1.0),
    "overridden": Style(override=0.4),
    "overlong": Style(overlong=0.3),
    "wild": Style(0.4, 0.2, 0.7, 0.2, 0.1),
}


class Writer:
    """Encodes messages in one style; deterministic for a seed."""

    def __init__(self, style: Style, seed: int) -> None:
        self.style, self.rng = style, random.Random(seed)

    def odd(self, chance: float) -> bool:
        return chance > 0 and self.rng.random() < chance

    def varint(self, value: int, limit: int = 10) -> bytes:
        """limit: the most bytes that readers take (5 for tags and lengths)."""
        value &= (1 << 64) - 1
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        if self.odd(self.style.overlong) and len(out) < limit:
            spare = self.rng.randrange(1, limit - len(out) + 1)
            out[-1] |= 0x80
            out += b"\x80" * (spare - 1) + b"\x00"
        return bytes(out)

    def record(self, number: int, wire: int, payload: bytes) -> bytes:
        tag = self.varint(number << 3 | wire, 5)
        return tag + (self.varint(len(payload), 5) if wire == BYTES else b"") + payload

    def scalar(self, field: FD, value: object) -> tuple[int, bytes]:
        """(wire type, payload) of one scalar."""
        if field.type in FIXED:
            code, wire = FIXED[field.type]
            return wire, struct.pack(code, value)
        if field.type == FD.TYPE_STRING:
            return BYTES, value.encode()
        if field.type == FD.TYPE_BYTES:
            return BYTES, value
        return VARINT, self.varint(int(value))

    def repeated(self, field: FD, values: list) -> list[bytes]:
        """Records of a repeated scalar: declared packing, the other one, or both."""
        items = [self.scalar(field, v) for v in values]
        plain = [self.record(field.number, w, p) for w, p in items]
        if field.type in (FD.TYPE_STRING, FD.TYPE_BYTES):
            return plain
        packed = bool(field.GetOptions().packed)
        if self.odd(self.style.repack):
            cut = self.rng.choice([0, len(items), len(items) // 2])
        else:
            cut = len(items) if packed else 0
        front = b"".join(p for _, p in items[:cut])
        return ([self.record(field.number, BYTES, front)] if cut else []) + plain[cut:]

    def submessage(self, number: int, child: Message, may_split: bool) -> list[bytes]:
        records = self.records(child)
        if may_split and len(records) > 1 and self.odd(self.style.split):
            cut = self.rng.randrange(1, len(records))
            return [self.record(number, BYTES, b"".join(records[:cut])),
                    self.record(number, BYTES, b"".join(records[cut:]))]
        return [self.record(number, BYTES, b"".join(records))]

    def overridden(self, field: FD, value: object) -> list[bytes]:
        """A singular scalar, perhaps after another value that it overrides."""
        out = []
        if self.odd(self.style.override) and field.type != FD.TYPE_ENUM:
            other = {str: "overridden", bytes: b"overridden", float: 0.5}.get(type(value), 1)
            out.append(self.record(field.number, *self.scalar(field, other)))
        return out + [self.record(field.number, *self.scalar(field, value))]

    def records(self, message: Message) -> list[bytes]:
        """A message's records in the order in which they are written."""
        groups: list[list[bytes]] = []
        for field, value in message.ListFields():
            many = field.is_repeated
            if field.message_type is None:
                groups.append(self.repeated(field, list(value)) if many
                              else self.overridden(field, value))
            else:
                groups.append([r for child in (value if many else [value])
                               for r in self.submessage(field.number, child, not many)])
        unknown: dict[int, list[bytes]] = {}
        for item in UnknownFieldSet(message):
            unknown.setdefault(item.field_number, []).append(self.unknown(item))
        groups += unknown.values()
        if not self.odd(self.style.shuffle):
            return [r for group in groups for r in group]
        order = [i for i, group in enumerate(groups) for _ in group]
        self.rng.shuffle(order)
        queues = [iter(group) for group in groups]
        return [next(queues[i]) for i in order]

    def unknown(self, item: object) -> bytes:
        wire, data = item.wire_type, item.data
        if wire == VARINT:
            return self.record(item.field_number, wire, self.varint(data))
        if wire in (FIXED32, FIXED64):
            return self.record(item.field_number, wire,
                               struct.pack("<I" if wire == FIXED32 else "<Q", data))
        return self.record(item.field_number, wire, data)


def encode(message: Message, style: str, seed: int) -> bytes:
    """The message's bytes in a style of STYLES."""
    return b"".join(Writer(STYLES[style], seed).records(message))


def plain(message: Message) -> tuple:
    """A message as nested tuples, unknown fields included: equal iff nothing differs."""
    fields = []
    for field, value in message.ListFields():
        items = list(value) if field.is_repeated else [value]
        if field.message_type is not None:
            items = [plain(v) for v in items]
        elif field.type in FIXED:
            items = [struct.pack(FIXED[field.type][0], v) for v in items]
        fields.append((field.name, tuple(items)))
    unknown = sorted((f.field_number, f.wire_type, f.data) for f in UnknownFieldSet(message))
    return (message.DESCRIPTOR.name, tuple(fields), tuple(map(str, unknown)))
