#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes kernels/kernel_signatures.def: which operands of an operator have one type, as the
definitions of the onnx package say. The runtime checks a plan's values against it before a kernel
sees them, since a plan file is untrusted and kernels rely on it.

    tools/gen/gen_kernel_signatures.py [OUT]

A row is KERNEL_SIGNATURE(domain, operator, since, "inputs>outputs"), one item a formal operand:
  A..Z    a type variable: all operands with that letter have one element type
  a..     a fixed element type: 'a' + its number
:X      the operand may be omitted
  *X, ~X  X stands for all operands from there on; with ~ each has a type of its own
  ?       anything (a sequence, an optional, a map)
"""
import argparse
import pathlib

import onnx.defs

import contrib_ops
import gen_ops


def item(schema, formal, letters):
    variable = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    types = sorted(variable.get(formal.type_str, [formal.type_str]))
    kinds = [gen_ops.TYPES.get(t, (None, 0)) for t in types]
    if any(kind != 0 for kind, _ in kinds):
        text = "?"
    elif len(kinds) == 1:
        text = chr(ord("a") + kinds[0][1])
    else:
        text = letters.setdefault(formal.type_str, chr(ord("A") + len(letters)))
    option = onnx.defs.OpSchema.FormalParameterOption
    if formal.option == option.Variadic:
        text = ("*" if formal.is_homogeneous else "~") + text
    may_miss = formal.option == option.Optional or (
        formal.option == option.Variadic and formal.min_arity == 0)
    return (":" if may_miss else "") + text


def rows():
    found = {}
    for schema in [*onnx.defs.get_all_schemas_with_history(), *contrib_ops.schemas()]:
        if schema.domain not in gen_ops.NEWEST or (schema.deprecated and not schema.inputs):
            continue
        letters = {}
        text = "".join(item(schema, f, letters) for f in schema.inputs) + ">"
        text += "".join(item(schema, f, letters) for f in schema.outputs)
        found[schema.domain, schema.name, schema.since_version] = text
    last = {}
    for (domain, name, since), text in sorted(found.items()):
        if last.get((domain, name)) != text: # else as the version before it
            last[domain, name] = text
            yield f'KERNEL_SIGNATURE("{domain}", "{name}", {since}, "{text}")'


def generate():
    head = ("/* Which operands have one type. Written by tools/gen/gen_kernel_signatures.py from the "
            f"definitions\n * in the onnx package, version {gen_ops.ONNX_VERSION}; do not edit. "
            "That file says what the letters are. */\n\n/* clang-format off */\n\n")
    return head + "\n".join(rows()) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] /
                        "kernels/kernel_signatures.def")
    parser.parse_args().out.write_text(generate(), encoding="ascii")


if __name__ == "__main__":
    main()
