#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regenerates the tables made of the operators' definitions and compares them byte for byte, and
holds what is written down of ONNX Runtime's operators against that runtime, where it is installed.

    tools/suites/ops_def_test.py [--allow-missing]

Exit 0: equal. 1: they differ (the first differing lines are shown), or the onnx package is absent
or of another version. 77, only with --allow-missing: the package is absent, nothing was compared.
"""
import difflib
import importlib.util
import itertools
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
GENERATED = [("tools/gen/gen_ops.py", "rewrite/ops/ops.def"),
             ("tools/gen/gen_kernel_signatures.py", "kernels/kernel_signatures.def")]


def main():
    if sys.argv[1:] not in ([], ["--allow-missing"]):
        sys.exit(__doc__)
    if importlib.util.find_spec("onnx") is None:
        print("ops_def_test.py: the onnx package is not installed; nothing compared",
              file=sys.stderr)
        return SKIPPED if sys.argv[1:] else 1
    same = [is_current(*pair) for pair in GENERATED] + [contrib_is_current()]
    return 0 if all(same) else 1


def described(schema, option, default):
    """What a definition says, in an order of its own; both packages' have the same members."""
    def operand(formal):
        kind = {option.Optional: "?", option.Variadic: "*"}.get(formal.option, "")
        return formal.name, getattr(formal, "type_str", None) or formal.typeStr, kind
    return ([operand(p) for p in schema.inputs], [operand(p) for p in schema.outputs],
            sorted((c.type_param_str, tuple(sorted(c.allowed_type_strs)))
                   for c in schema.type_constraints),
            sorted((n, str(a.type).rpartition(".")[2], a.required, default(a))
                   for n, a in schema.attributes.items()))


def contrib_is_current():
    """Is contrib_ops.py what ONNX Runtime says?"""
    if importlib.util.find_spec("onnxruntime") is None:
        print("contrib_ops.py: onnxruntime is not installed; not compared")
        return True
    import onnx
    from onnxruntime.capi import onnxruntime_pybind11_state as state
    sys.path.insert(0, str(ROOT / "tools/gen"))
    import contrib_ops

    def parsed(attribute):
        made = onnx.AttributeProto()
        made.ParseFromString(attribute._default_value)
        return made.SerializeToString() if made.type else b""
    theirs = {(s.domain, s.name, s.since_version): described(
        s, state.schemadef.OpSchema.FormalParameterOption, parsed)
        for s in state.get_all_operator_schema()}
    same = True
    for schema in contrib_ops.schemas():
        ours = described(schema, onnx.defs.OpSchema.FormalParameterOption,
                         lambda a: a.default_value.SerializeToString())
        key = schema.domain, schema.name, schema.since_version
        if theirs.get(key) != ours:
            print(f"contrib_ops.py: {schema.name}: ONNX Runtime has {theirs.get(key)}, not {ours}")
            same = False
    print(f"contrib_ops.py: {len(contrib_ops.schemas())} definitions, as ONNX Runtime's" * same)
    return same


def is_current(generator, kept):
    """Does the generator still write the file that is kept?"""
    with tempfile.TemporaryDirectory() as folder:
        # Another hash seed each time: the text must not depend on the order of sets.
        fresh = pathlib.Path(folder) / "fresh.def"
        made = subprocess.run([sys.executable, "-R", ROOT / generator, fresh])
        if made.returncode:
            return False
        if fresh.read_bytes() == (ROOT / kept).read_bytes():
            print(f"{kept}: {fresh.stat().st_size} bytes, as generated")
            return True
        lines = difflib.unified_diff((ROOT / kept).read_text().splitlines(),
                                     fresh.read_text().splitlines(), kept, "regenerated",
                                     lineterm="", n=0)
        print("\n".join(itertools.islice(lines, 20)))
        print(f"{kept} is not what {generator} writes")
        return False


if __name__ == "__main__":
    sys.exit(main())
