# SPDX-License-Identifier: Apache-2.0
"""The OPERATOR blocks of rewrite/base/operators/, as text: what is known of operators and written by
hand."""

import collections
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "rewrite/base/operators"
DOMAINS = {"onnx": "", "ml": "ai.onnx.ml", "preview": "ai.onnx.preview",
           "training": "ai.onnx.preview.training", "microsoft": "com.microsoft", "fused": "demi.fused"}
BLOCK = re.compile(r"^OPERATOR\((\w+), (\w+),\n(.*?)\)\n(?=\n|\Z)", re.M | re.S)
ROW = re.compile(r"^    ([A-Z_]+)\(", re.M)


def rows() -> dict[tuple[str, str], dict[str, list[str]]]:
    """By (domain, operator) and kind of row, in order: the row's arguments."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for path in sorted(FOLDER.glob("*.def")):
        for domain, name, text in BLOCK.findall(path.read_text()):
            kinds = found[DOMAINS[domain], name] = collections.defaultdict(list)
            begins = [*ROW.finditer(text)]
            for row, after in zip(begins, [*begins[1:], None]):
                whole = text[row.end():after.start() if after else len(text)].strip()
                kinds[row[1]].append(re.sub(r"\n\s*", " ", whole.removesuffix(")")))
    return dict(sorted(found.items()))
