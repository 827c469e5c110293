# SPDX-License-Identifier: Apache-2.0
"""The list of what `demi check` and ONNX's checks may disagree on, check_reasons.tsv."""

import functools
import pathlib
import re

import onnx

from suite import walk

FILE = pathlib.Path(__file__).resolve().parent / "check_reasons.tsv"
WRONG = ["STFT"]  # whose shapes ONNX infers otherwise than the definition says
ONNX_DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training",
                "ai.onnx.training"}
NESTED = re.compile(r"^(?:\[\w+\] )?(?:Inference error\(s\): )?"
                    r"\(op_type:(\w+)(?:, node name: .*?)?\): ")


class Reason:
    """A row of the list."""

    def __init__(self, line: str) -> None:
        self.side, pattern, self.text = line.rstrip("\n").split("\t")
        self.pattern, self.used = re.compile(pattern), 0


@functools.cache
def load() -> list[Reason]:
    lines = FILE.read_text().splitlines()
    return [Reason(line) for line in lines if line.strip() and not line.startswith("#")]


def find(reasons: list[Reason], side: str, text: str) -> Reason | None:
    return next((r for r in reasons if r.side == side and r.pattern.search(text)), None)


def notes(model: onnx.ModelProto) -> str:
    """What of a model explains a disagreement on values behind it."""
    nodes = list(walk.model_nodes(model))
    own = {(f.domain, f.name) for f in model.functions}
    opsets = {o.domain for o in model.opset_import}
    found = [f" (a model with {name})" for name in WRONG if any(n.op_type == name for n in nodes)]
    if any((n.domain, n.op_type) not in own and n.domain not in ONNX_DOMAINS or
           n.domain not in opsets and n.domain for n in nodes):
        found.append(" (a model with unknown operators)")
    if any(walk.gives_again(graph) for graph in walk.bodies(model)):
        found.append(" (a body that gives a value again)")
    if walk.shadows(model):
        found.append(" (a model with a name in two graphs)")
    return "".join(found)


def cause(text: str) -> str:
    """What ONNX says first, without the nodes around: "If/Conv: Attribute pads ..."."""
    path = []
    while match := NESTED.match(text):
        path.append(match.group(1))
        text = text[match.end():]
    text = re.sub(r"^\[\w+\] ", "", text).split(" (op_type:")[0]
    return f"{'/'.join(path)}: {text}" if path else text
