# SPDX-License-Identifier: Apache-2.0
"""Compares proto/onnx.proto with the installed onnx package's descriptors.

Every message, field (name, number, type, label, packing, default, oneof) and enum value must be the
published one; ours may add the data messages (SequenceProto, MapProto, OptionalProto) in the same
file, nothing else. Exit 1 names every difference. `--self-test` shows that differences are found.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import onnx
import onnx.onnx_data_pb2
from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parents[2]
Field = descriptor_pb2.FieldDescriptorProto


def compile_proto(path: pathlib.Path, compiler: str) -> descriptor_pb2.FileDescriptorProto:
    """The descriptor of a .proto file, by protobuf-c's own compiler."""
    with tempfile.TemporaryDirectory() as place:
        out = pathlib.Path(place) / "set"
        subprocess.run([compiler, f"-I{path.parent}", "-I/usr/include",
                        f"--descriptor_set_out={out}", str(path)], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return files.file[0]


def describe_field(field: Field, message: descriptor_pb2.DescriptorProto) -> tuple:
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""
    return (field.name, Field.Type.Name(field.type), Field.Label.Name(field.label),
            field.type_name.lstrip("."), f"packed={field.options.packed}",
            f"default={field.default_value}", f"oneof={oneof}")


def describe(file: descriptor_pb2.FileDescriptorProto) -> dict[str, tuple]:
    """Everything the wire and the generated names depend on, by its full name."""
    facts: dict[str, tuple] = {}

    def enums(prefix: str, items: list[descriptor_pb2.EnumDescriptorProto]) -> None:
        for enum in items:
            for value in enum.value:
                facts[f"{prefix}{enum.name}.{value.name}"] = (value.number,)

    def message(prefix: str, item: descriptor_pb2.DescriptorProto) -> None:
        name = f"{prefix}{item.name}"
        facts[name] = ("message",)
        for field in item.field:
            facts[f"{name} field {field.number}"] = describe_field(field, item)
        enums(name + ".", item.enum_type)
        for inner in item.nested_type:
            message(name + ".", inner)

    enums("", file.enum_type)
    for item in file.message_type:
        message("", item)
    facts["package"] = (file.package,)
    return facts


def published() -> tuple[dict[str, tuple], dict[str, tuple]]:
    """(what must be there, what may be there) by the installed onnx package."""
    models, data = descriptor_pb2.FileDescriptorProto(), descriptor_pb2.FileDescriptorProto()
    onnx.ModelProto.DESCRIPTOR.file.CopyToProto(models)
    onnx.onnx_data_pb2.DESCRIPTOR.CopyToProto(data)
    return describe(models), describe(data)


def differences(ours: dict[str, tuple], must: dict[str, tuple], may: dict[str, tuple]) -> list[str]:
    found = []
    for name, fact in must.items():
        if name not in ours:
            found.append(f"{name}: missing, published as {fact}")
        elif ours[name] != fact:
            found.append(f"{name}: {ours[name]}, published as {fact}")
    for name, fact in ours.items():
        if name not in must and may.get(name) != fact:
            found.append(f"{name}: {fact} is not published")
    return found


def self_test() -> int:
    """Every kind of change to the published file must be found."""
    must, may = published()
    changes = {
        "nothing": lambda f: None,
        "name": lambda f: setattr(f.message_type[0].field[0], "name", "nom"),
        "number": lambda f: setattr(f.message_type[0].field[1], "number", 99),
        "type": lambda f: setattr(f.message_type[0].field[0], "type", Field.TYPE_BYTES),
        "label": lambda f: setattr(f.message_type[0].field[0], "label", Field.LABEL_REPEATED),
        "packed": lambda f: setattr(next(x for m in f.message_type for x in m.field
                                         if x.options.packed).options, "packed", False),
        "enum": lambda f: setattr(f.enum_type[0].value[1], "number", 77),
        "message": lambda f: f.message_type[3].Clear(),
        "extra": lambda f: f.message_type.add(name="ExtraProto"),
    }
    failures = 0
    for what, change in changes.items():
        file = descriptor_pb2.FileDescriptorProto()
        onnx.ModelProto.DESCRIPTOR.file.CopyToProto(file)
        change(file)
        if bool(differences(describe(file), must, may)) == (what == "nothing"):
            print(f"self-test: {what}: not judged right")
            failures += 1
    print(f"self-test: {len(changes)} cases, {failures} failures")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares onnx.proto with the published one.")
    parser.add_argument("--proto", type=pathlib.Path, default=ROOT / "proto/onnx.proto")
    parser.add_argument("--compiler", default="protoc-c")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    failures = self_test() if args.self_test else 0
    ours = describe(compile_proto(args.proto, args.compiler))
    must, may = published()
    found = differences(ours, must, may)
    for line in found:
        print(line)
    print(f"proto_check: {len(ours)} facts, {len(found)} differences")
    sys.exit(1 if found or failures else 0)


if __name__ == "__main__":
    main()
