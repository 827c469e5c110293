# SPDX-License-Identifier: Apache-2.0
"""Does a conversion keep what it does not understand?

`mark` writes a doc string, a metadata entry, a denotation and an unknown field into every message
of a model that can hold them, each with the message's own number; after a conversion `lost` looks
each number up again. A Cast that the conversion removed may take its marks along, nothing else may.
"""

import dataclasses

import onnx
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from suite import opsets, walk

FIELD = 19_500  # a field number that no ONNX message uses; varint
KEY = "test.mark"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _marked(message: Message) -> bool:
    """Messages that get a mark; entries of key/value lists are marked by their owner."""
    return not isinstance(message, (onnx.StringStringEntryProto, onnx.TypeProto.Map,
                                    onnx.OperatorSetIdProto))


def mark(model: onnx.ModelProto) -> None:
    """Marks every message, in place."""
    for number, message in enumerate([m for m in walk.messages(model) if _marked(m)], 1):
        fields = message.DESCRIPTOR.fields_by_name
        if "doc_string" in fields and not message.doc_string:
            message.doc_string = f"doc {number}"
        if "metadata_props" in fields:
            message.metadata_props.add(key=KEY, value=str(number))
        if isinstance(message, onnx.TypeProto) and not message.denotation:
            message.denotation = f"TYPE_{number}"
        message.MergeFromString(_varint(FIELD << 3) + _varint(number))


def unknown_of(message: Message) -> list[tuple[int, object]]:
    """(number, data) of a message's own unknown fields."""
    return [(f.field_number, f.data) for f in UnknownFieldSet(message)]


def number_of(message: Message) -> int | None:
    return next((data for number, data in unknown_of(message) if number == FIELD), None)


@dataclasses.dataclass(frozen=True)
class Mark:
    """What one message must still say."""

    kind: str
    name: str
    doc: str
    props: frozenset
    denotation: str
    unknown: tuple


def _describe(message: Message) -> Mark:
    fields = message.DESCRIPTOR.fields_by_name
    props = message.metadata_props if "metadata_props" in fields else []
    return Mark(type(message).__name__, getattr(message, "name", "") or getattr(
        message, "op_type", ""), getattr(message, "doc_string", ""),
        frozenset((p.key, p.value) for p in props), getattr(message, "denotation", ""),
        tuple(sorted(map(str, unknown_of(message)))))


def _marks(model: onnx.ModelProto) -> dict[int, Mark]:
    found: dict[int, Mark] = {}
    for message in walk.messages(model):
        number = number_of(message)
        if number is not None and number not in found:
            found[number] = _describe(message)
    return found


def _excused(source: onnx.ModelProto, result: onnx.ModelProto) -> set[int]:
    """Numbers that may be gone: all inside removed Casts, and the value_info of values that no
    node of the result makes any more."""
    kept = {number_of(n) for n in walk.model_nodes(result)}
    made = {o for n in walk.model_nodes(result) for o in n.output}
    gone: list[Message] = [n for n in walk.model_nodes(source)
                           if n.op_type == "Cast" and number_of(n) not in kept]
    for message in walk.messages(source):
        if isinstance(message, onnx.GraphProto):
            gone += [v for v in message.value_info if v.name not in made]
    return {n for g in gone for m in walk.messages(g) if (n := number_of(m)) is not None}


def lost(source: onnx.ModelProto, result: onnx.ModelProto) -> list[str]:
    """What a marked source said and its conversion no longer says."""
    want, got, excused = _marks(source), _marks(result), _excused(source, result)
    found = []
    for number, a in want.items():
        b = got.get(number)
        if b is None:
            if number not in excused:
                found.append(f"{a.kind} {a.name}: unknown field (or the message) lost")
            continue
        if a.kind != b.kind:
            found.append(f"{a.kind} {a.name}: its unknown field went to a {b.kind}")
        if a.doc != b.doc:
            found.append(f"{a.kind} {a.name}: doc string {b.doc!r}, expected {a.doc!r}")
        if not a.props <= b.props:
            found.append(f"{a.kind} {a.name}: metadata_props lost")
        if a.unknown != b.unknown:
            found.append(f"{a.kind} {a.name}: unknown fields {b.unknown}, expected {a.unknown}")
        if a.denotation != b.denotation:
            found.append(f"{a.kind} {a.name}: denotation lost")
    return found + header(source, result)


def header(source: onnx.ModelProto, result: onnx.ModelProto, to: str = "") -> list[str]:
    """Model-level fields that must stay, and opset imports that may only gain domains. A conversion
    to bfloat16 may raise the default domain's opset, no further than one of its operators needs."""
    raised = opsets.raised(source, result) if to == "bfloat16" else None
    found = opsets.problems(source, result) if raised else []
    found += [f"{name}: {getattr(result, name)!r}, expected {getattr(source, name)!r}"
              for name in ("ir_version", "producer_name", "producer_version", "domain",
                           "model_version")
              if getattr(source, name) != getattr(result, name)
              and not (raised and name == "ir_version")]
    want = {(o.domain, raised if raised and o.domain in opsets.DEFAULT else o.version)
            for o in source.opset_import}
    got = {(o.domain, o.version) for o in result.opset_import}
    if not want <= got:
        found.append(f"opset imports {sorted(got)}, expected {sorted(want)}")
    props = {(p.key, p.value) for p in source.metadata_props}
    if not props <= {(p.key, p.value) for p in result.metadata_props}:
        found.append("the model's metadata_props lost")
    return found
