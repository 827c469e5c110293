#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes rewrite/ops/ops.def, the operator schemas, from the definitions that the onnx package
holds, and contrib_ops.py.

    tools/gen/gen_ops.py [OUT]      OUT defaults to rewrite/ops/ops.def

The output depends on the package's version alone: whatever the package hands out in hash order is
sorted here. Lists of parameters, type variables and attributes that versions of operators share are
written once; rows refer to them by their place. rewrite/ops/ops.h declares the structures.
"""
import argparse
import collections
import pathlib
import sys

ONNX_VERSION = "1.23.2"
NEWEST = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1,
          "com.microsoft": 1}

DTYPES = """undefined float uint8 int8 uint16 int16 int32 int64 string bool float16 double uint32
uint64 complex64 complex128 bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4
int4 float4e2m1 float8e8m0 uint2 int2 float6e2m3 float6e3m2""".split()

# In the order of OpTypeKind. Maps are spelt with a bare and with a wrapped value type.
KINDS = [
    "tensor({})", "seq(tensor({}))", "optional(tensor({}))", "optional(seq(tensor({})))",
    "sparse_tensor({})", "map(int64,{})", "map(string,{})", "seq(map(int64,{}))",
    "seq(map(string,{}))",
]
KIND_MACROS = [
    "TENSOR", "SEQ", "OPTIONAL", "OPTIONAL_SEQ", "SPARSE", "MAP_INT64", "MAP_STRING",
    "SEQ_MAP_INT64", "SEQ_MAP_STRING",
]
TYPES = {kind.format(dtype): (k, d) for k, kind in enumerate(KINDS)
         for d, dtype in enumerate(DTYPES) if d}
TYPES.update({kind.format(f"tensor({dtype})"): (k, d)
              for k, kind in enumerate(KINDS) if "map" in kind
              for d, dtype in enumerate(DTYPES) if d})

FNV_PRIME, FNV_BASIS = 16777619, 2166136261
HASH_SLOTS = 1024  # a power of two, at least twice the number of operators


def fnv1a(text):
    """The hash that ops.c computes of an operator's name."""
    value = FNV_BASIS
    for byte in text.encode():
        value = (value ^ byte) * FNV_PRIME & 0xFFFFFFFF
    return value


def quote(text):
    assert text.isascii() and text.isprintable() and not set(text) & set('"\\?'), text
    return f'"{text}"'


class Pool:
    """Rows of one C array; a list of rows that is there already is not written again."""

    def __init__(self, ctype, name):
        self.ctype, self.name, self.rows, self.places = ctype, name, [], {}

    def add(self, rows):
        key = tuple(rows)
        if not key:
            return 0
        if key not in self.places:
            self.places[key] = len(self.rows)
            self.rows += key
        return self.places[key]

    def write(self, out):
        out.append(f"static const {self.ctype} {self.name}[] = {{")
        out += [f"    {row}, /* {place} */" for place, row in enumerate(self.rows)]
        out.append("};\n")


class Tables:
    def __init__(self):
        self.type_sets = Pool("TypeSet", "type_sets")
        self.params = Pool("OpParam", "param_rows")
        self.vars = Pool("OpTypeVar", "var_rows")
        self.attrs = Pool("OpAttr", "attr_rows")
        self.int_lists = Pool("int64_t", "int_lists")
        self.string_lists = Pool("char *const", "string_lists")
        self.schemas = []
        self.families = []

    def type_set(self, types):
        masks = collections.defaultdict(int)
        for text in types:
            kind, dtype = TYPES[text.replace(", ", ",")]
            masks[kind] |= 1 << dtype
        row = ", ".join(f"[OPTYPE_{KIND_MACROS[k]}] = 0x{masks[k]:X}" for k in sorted(masks))
        return self.type_sets.add([f"{{{{{row}}}}}"])

    def param(self, param, names):
        option = param.option.name.upper()
        assert option in ("SINGLE", "OPTIONAL", "VARIADIC"), option
        if param.type_str in names:
            typed = f"VAR({names.index(param.type_str)})"
        else:
            assert len(param.types) == 1, param.types
            typed = f"FIXED({self.type_set(param.types)})"
        arity = param.min_arity if option == "VARIADIC" else 0
        many = "false" if option == "VARIADIC" and not param.is_homogeneous else "true"
        return f"{{{quote(param.name)}, {typed}, OP_{option}, {many}, {arity}}}"

    def param_list(self, params, names):
        assert all(p.option.name.upper() != "VARIADIC" for p in params[:-1])
        return self.params.add([self.param(p, names) for p in params])

    def default(self, attr):
        """The C text of (count, value) of an attribute's default, or None."""
        proto = attr.default_value
        kind = proto.type and attr.type.name
        if not kind:
            return None
        if kind == "INT":
            return 0, f".i = {proto.i}"
        if kind == "FLOAT":
            return 0, f".f = {float(proto.f).hex()}"
        if kind == "STRING":
            return 0, f".s = {quote(proto.s.decode())}"
        if kind == "INTS":
            return len(proto.ints), f".ints = INTS({self.int_lists.add(map(str, proto.ints))})"
        if kind == "STRINGS":
            place = self.string_lists.add(quote(s.decode()) for s in proto.strings)
            return len(proto.strings), f".strings = STRINGS({place})"
        raise ValueError(f"default of kind {kind}")

    def attr(self, attr):
        default = self.default(attr)
        required = "true" if attr.required else "false"
        kind = attr.type.name.replace("TYPE_PROTO", "TYPE")
        head = f"{quote(attr.name)}, ATTR_{kind}, {required}"
        if not default:
            return f"{{{head}, false, 0, {{0}}}}"
        return f"{{{head}, true, {default[0]}, {{{default[1]}}}}}"

    def schema(self, schema, until):
        names = [c.type_param_str for c in schema.type_constraints]
        assert len(set(names)) == len(names)
        type_vars = self.vars.add(
            f"{{{quote(c.type_param_str)}, &type_sets[{self.type_set(c.allowed_type_strs)}]}}"
            for c in schema.type_constraints)
        attrs = sorted(schema.attributes.values(), key=lambda a: a.name)
        bounds = [str(n) if n < 0xFFFF else "OP_UNBOUNDED" for n in
                  (schema.min_input, schema.max_input, schema.min_output, schema.max_output)]
        body = ("CONTEXT" if schema.has_context_dependent_function else
                "FUNCTION" if schema.has_function else "NONE")
        deterministic = {"Deterministic": "OP_DETERMINISTIC",
                         "NonDeterministic": "OP_NONDETERMINISTIC",
                         "Unknown": "OP_DETERMINISM_UNKNOWN"}[schema.node_determinism.name]
        lists = [
            f"{len(schema.inputs)}, {len(schema.outputs)}, {len(names)}, {len(attrs)}",
            f"&param_rows[{self.param_list(schema.inputs, names)}]",
            f"&param_rows[{self.param_list(schema.outputs, names)}]",
            f"&var_rows[{type_vars}]",
            f"&attr_rows[{self.attrs.add(map(self.attr, attrs))}]",
        ]
        flags = ["true" if flag else "false" for flag in
                 (schema.deprecated, schema.support_level.name == "EXPERIMENTAL")]
        self.schemas.append(
            f"{{{quote(schema.domain)}, {quote(schema.name)}, {schema.since_version}, {until}, "
            f"{', '.join(flags)},\n     OP_BODY_{body}, {deterministic}, {', '.join(bounds)},\n"
            f"     {', '.join(lists)}}}")

    def fill(self, schemas):
        groups = collections.defaultdict(list)
        for schema in schemas:
            if schema.domain in NEWEST and schema.since_version <= NEWEST[schema.domain]:
                groups[schema.domain, schema.name].append(schema)
        for key in sorted(groups):
            versions = sorted(groups[key], key=lambda s: s.since_version)
            self.families.append((key, len(self.schemas), len(versions)))
            for schema, later in zip(versions, versions[1:] + [None]):
                self.schema(schema, later.since_version - 1 if later else "INT32_MAX")

    def slots(self):
        """Open addressing by name: each slot holds 1 + the place of a family, or 0."""
        assert HASH_SLOTS >= 2 * len(self.families)
        slots = [0] * HASH_SLOTS
        for place, (key, _, _) in enumerate(self.families):
            slot = fnv1a(key[1]) % HASH_SLOTS
            while slots[slot]:
                slot = (slot + 1) % HASH_SLOTS
            slots[slot] = place + 1
        return slots

    def text(self):
        out = [
            "/* Operator schemas. Written by tools/gen/gen_ops.py from the definitions in the onnx "
            "package,",
            f" * version {ONNX_VERSION}; do not edit. Included by ops.c alone, which says what the "
            "macros", " * are. Rows name other rows by their place. */\n",
            "/* clang-format off */\n",
        ]
        for pool in (self.type_sets, self.int_lists, self.string_lists, self.vars, self.params,
                     self.attrs):
            pool.write(out)
        out.append("static const OpSchema schemas[] = {")
        out += [f"    {row},"  for row in self.schemas]
        out.append("};\n")
        out.append("/* An operator: its first schema, and how many versions follow each other "
                   "there. */")
        out.append("static const OpFamily families[] = {")
        out += [f"    {{{first}, {count}}}, /* {place}: {key[0] or 'ai.onnx'} {key[1]} */"
                for place, (key, first, count) in enumerate(self.families)]
        out.append("};\n")
        out.append("/* By hash of the name: 1 + the place of the operator, or 0; linear "
                   "probing. */")
        out.append(f"static const uint16_t slots[{HASH_SLOTS}] = {{")
        slots = self.slots()
        out += ["    " + " ".join(f"{slot}," for slot in slots[i:i + 16])
                for i in range(0, HASH_SLOTS, 16)]
        out.append("};\n")
        out.append("/* clang-format on */\n")
        return "\n".join(out)


def generate():
    """The text of ops.def."""
    import contrib_ops
    import onnx
    import onnx.defs
    if onnx.__version__ != ONNX_VERSION:
        sys.exit(f"gen_ops.py: the onnx package is {onnx.__version__}, the schemas are those of "
                 f"{ONNX_VERSION}")
    numbers = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}
    assert numbers == {name: number for number, name in enumerate(DTYPES)}, numbers
    tables = Tables()
    tables.fill([*onnx.defs.get_all_schemas_with_history(), *contrib_ops.schemas()])
    return tables.text()


def main():
    parser = argparse.ArgumentParser(description="Write the operator schemas.")
    parser.add_argument("out", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / "rewrite/ops/ops.def")
    parser.parse_args().out.write_text(generate(), encoding="ascii")


if __name__ == "__main__":
    main()
