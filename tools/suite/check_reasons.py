# SPDX-License-Identifier: Apache-2.0
"""The list of what `demi check` and ONNX's checks may disagree on, check_reasons.tsv."""

import pathlib
import re

import onnx

from suite import walk

FILE = pathlib.Path(__file__).resolve().parent / "check_reasons.tsv"
WRONG = ["STFT"]  # whose shapes ONNX infers otherwise than the definition says
NESTED = re.compile(r"^(?:\[\w+\] )?(?:Inference error\(s\): )?"
                    r"\(op_type:(\w+)(?:, node name: .*?)?\): ")


class Reason:
    """A row of the list."""

    def __init__(self, line: str) -> None:
        self.side, pattern, self.text = line.rstrip("\n").split("\t")
        self.pattern, self.used = re.compile(pattern), 0


def load() -> list[Reason]:
    lines = FILE.read_text().splitlines()
    return [Reason(line) for line in lines if line.strip() and not line.startswith("#")]


def find(reasons: list[Reason], side: str, text: str) -> Reason | None:
    return next((r for r in reasons if r.side == side and r.pattern.search(text)), None)


def cause(text: str, model: onnx.ModelProto) -> str:
    """What ONNX says first, without the nodes around: "If/Conv: Attribute pads ...". Where it finds
    a wrong shape behind an operator that it infers wrongly, that operator is named, too."""
    path = []
    while match := NESTED.match(text):
        path.append(match.group(1))
        text = text[match.end():]
    text = re.sub(r"^\[\w+\] ", "", text).split(" (op_type:")[0]
    text = f"{'/'.join(path)}: {text}" if path else text
    if not text:
        return text
    operators = {node.op_type for node in walk.model_nodes(model)}
    return text + "".join(f" (a model with {name})" for name in WRONG if name in operators)
