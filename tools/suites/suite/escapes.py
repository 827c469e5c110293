# SPDX-License-Identifier: Apache-2.0
"""External data that must not be read: paths out of the model's folder, odd files, wrong ranges.

Each case is a folder `home` with a model in it whose one weight (4 x 4 floats) is external, and
beside it a file that nobody may reach; the good cases show that the refusals are not for all.
"""

import dataclasses
import os
import pathlib

import onnx
from onnx import TensorProto, helper

BYTES = 64  # of the weight
SECRET = "secret.bin"


@dataclasses.dataclass(frozen=True)
class Case:
    """The external_data entries of the weight, and whether they are all right."""

    name: str
    entries: tuple[tuple[str, str], ...]
    good: bool = False


def _at(location: str, **more: str) -> tuple[tuple[str, str], ...]:
    return (("location", location), *more.items())


CASES = [
    Case("good", _at("data.bin", offset="64", length="64"), True),
    Case("good, whole file", _at("exact.bin"), True),
    Case("good, in a subfolder", _at("sub/data.bin", offset="0", length="64"), True),
    Case("good, symlink inside", _at("inside", offset="0", length="64"), True),
    Case("parent", _at(f"../{SECRET}")),
    Case("parent through a subfolder", _at(f"sub/../../{SECRET}")),
    Case("absolute", _at("@ROOT@/secret.bin")),
    Case("sibling with the same prefix", _at("../home-sibling/data.bin")),
    Case("empty", _at("")),
    Case("no location", (("offset", "0"), ("length", "64"))),
    Case("dot", _at(".")),
    Case("dot dot", _at("..")),
    Case("NUL", _at("exact.bin\0.txt")),
    Case("trailing slash", _at("exact.bin/")),
    Case("missing", _at("none.bin")),
    Case("symlink out", _at("link")),
    Case("symlink out by absolute path", _at("absolute-link")),
    Case("parent symlink out", _at(f"folder-link/{SECRET}")),
    Case("symlink loop", _at("loop")),
    Case("hard link", _at("hard")),
    Case("FIFO", _at("fifo")),
    Case("directory", _at("sub")),
    Case("/dev/zero", _at("/dev/zero", offset="0", length="64")),
    Case("symlink to /dev/zero", _at("zero", offset="0", length="64")),
    Case("proc", _at("/proc/self/environ")),
    Case("negative offset", _at("data.bin", offset="-64", length="64")),
    Case("offset past the end", _at("data.bin", offset="4096", length="64")),
    Case("huge offset", _at("data.bin", offset=str(2**63 - 1), length="64")),
    Case("offset over 64 bits", _at("data.bin", offset=str(10**30), length="64")),
    Case("offset that wraps", _at("data.bin", offset=str(2**64 - 32), length="64")),
    Case("offset of letters", _at("data.bin", offset="six", length="64")),
    Case("offset with a tail", _at("data.bin", offset="64x", length="64")),
    Case("negative length", _at("data.bin", offset="0", length="-64")),
    Case("length past the end", _at("data.bin", offset="0", length=str(2**40))),
    Case("length that wraps", _at("data.bin", offset="64", length=str(2**64 - 1))),
    Case("length too short", _at("data.bin", offset="0", length="60")),
    Case("length too long", _at("data.bin", offset="0", length="68")),
    Case("file too short", _at("short.bin")),
    Case("two locations", (("location", "exact.bin"), ("location", f"../{SECRET}"))),
]


def prepare(place: pathlib.Path) -> pathlib.Path:
    """Lays out the files around any case; returns the model's folder."""
    home = place / "home"
    for folder in (home / "sub", place / "home-sibling"):
        folder.mkdir(parents=True)
    for path, size in ((place / SECRET, BYTES), (home / "data.bin", 256),
                       (home / "exact.bin", BYTES),
                       (home / "sub/data.bin", BYTES), (home / "short.bin", BYTES - 4),
                       (place / "home-sibling/data.bin", BYTES), (place / "linked.bin", BYTES)):
        path.write_bytes(b"\0\0\x80\x3f" * (size // 4))
    (home / "inside").symlink_to("sub/data.bin")
    (home / "link").symlink_to(f"../{SECRET}")
    (home / "absolute-link").symlink_to(place / SECRET)
    (home / "folder-link").symlink_to("..")
    (home / "loop").symlink_to("loop")
    (home / "zero").symlink_to("/dev/zero")
    os.link(place / "linked.bin", home / "hard")
    os.mkfifo(home / "fifo")
    return home


def model(case: Case, place: pathlib.Path) -> onnx.ModelProto:
    """y = MatMul(x, W) with W where the case says; place is what `prepare` got."""
    weight = TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[4, 4],
                         data_location=TensorProto.EXTERNAL)
    for key, value in case.entries:
        weight.external_data.add(key=key, value=value.replace("@ROOT@", str(place)))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["y"], name="matmul")], "external",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
