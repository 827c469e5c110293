# SPDX-License-Identifier: Apache-2.0
"""Raised opsets: no further than an operator worth bfloat16 needs, and the IR version with them."""

import onnx
from onnx import helper

from suite import lowclass, walk

DEFAULT = ("", "ai.onnx")
BFLOAT16 = "tensor(bfloat16)"


def default_opset(imports: list[onnx.OperatorSetIdProto]) -> int:
    """The default domain's version, 0 where it is not imported."""
    return max((o.version for o in imports if o.domain in DEFAULT), default=0)


def raised(source: onnx.ModelProto, result: onnx.ModelProto) -> int:
    """The result's default opset where it is newer than the source's; else 0."""
    before, after = default_opset(source.opset_import), default_opset(result.opset_import)
    return after if after > before > 0 else 0


def first_opset(op: str, opset: int) -> int:
    """The first opset from this one on at which the operator's first input may be bfloat16; 0:
    none."""
    for version in range(opset, onnx.defs.onnx_opset_version() + 1):
        try:
            schema = onnx.defs.get_schema(op, version, "")
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated and schema.inputs and BFLOAT16 in schema.inputs[0].types:
            return version
    return 0


def holder_opsets(nodes: list[onnx.NodeProto], opset: int) -> set[int]:
    """Those at which what holds a LOW operator in a body may give bfloat16."""
    found = set()
    for node in nodes:
        bodies = [a.g for a in node.attribute if a.HasField("g")]
        inner = [n for body in bodies for n in walk.nodes_of(body.node)]
        if any(n.op_type in lowclass.LOW_OPS["bfloat16"] for n in inner):
            found |= {s.since_version for s in onnx.defs.get_all_schemas_with_history()
                      if s.name == node.op_type and s.domain in DEFAULT and
                      s.since_version > opset and BFLOAT16 in s.outputs[0].types}
            for body in bodies:
                found |= holder_opsets(body.node, opset)
    return found


def problems(source: onnx.ModelProto, result: onnx.ModelProto) -> list[str]:
    """What is wrong with a raised opset: another one than an operator's first, or IR too far."""
    found, now = [], default_opset(source.opset_import)
    owns = [now] + [default_opset(f.opset_import) for f in source.functions]
    firsts = {first_opset(node.op_type, own) for node in walk.model_nodes(source)
              for own in owns if own and node.op_type in lowclass.LOW_OPS["bfloat16"]
              and node.domain in DEFAULT}
    firsts |= holder_opsets(source.graph.node, now)
    new = raised(source, result)
    if new not in firsts:
        found.append(f"raised to opset {new}, operators need one of {sorted(firsts)}")
    published = helper.find_min_ir_version_for([helper.make_opsetid("", new)])
    if result.ir_version != max(source.ir_version, published):
        found.append(f"raised to IR version {result.ir_version}, opset {new} needs {published}")
    return found
