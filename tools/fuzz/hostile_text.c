// SPDX-License-Identifier: Apache-2.0
/* See hostile_text.h. Names mean the same in the main graph and in the function's body: x, w, k and
 * c are inputs, a a product that runs low, e a sum that does not, m the output of an operator that
 * nobody knows, i0, i1, … operands that only this node has. */
#include "hostile_text.h"

#include <stdio.h>
#include <string.h>

#include "fused_ops.h"
#include "text_words.h"
#include "verify.h"

enum { MOST_OPERANDS = 6, MOST_OUTPUTS = 3, MOST_VARS = 64 };

typedef struct Build {
    const HostileNode *node;
    Arena *arena;
    OpType vars[MOST_VARS]; /* of the schema's type variables */
    bool bound[MOST_VARS];
    unsigned inputs, outputs;
    const char *operands[MOST_OPERANDS]; /* "" where left out */
    const char *formals;                 /* ", float[2] i0, …": operands that are inputs */
    const char *names;                   /* ", i0, …" */
} Build;

/* ---- types ----------------------------------------------------------------------------------- */

static unsigned bits(const Build *b, unsigned from, unsigned below) {
    return (unsigned)(b->node->style >> (from % 56)) % below;
}

/* Float tensors where they are allowed, mostly; else what `from` chooses among the set. */
static OpType pick_type(const Build *b, const TypeSet *set, unsigned from) {
    if (type_set_has(set, OPTYPE_TENSOR, DTYPE_FLOAT) && bits(b, from, 4))
        return (OpType){OPTYPE_TENSOR, DTYPE_FLOAT};
    size_t count = type_set_count(set);
    unsigned pick = count ? bits(b, from, (unsigned)count) : 0;
    for (unsigned kind = 0; count && kind < OPTYPE_COUNT; kind++)
        for (unsigned d = 1; d < DTYPE_COUNT; d++)
            if (type_set_has(set, (OpTypeKind)kind, (Dtype)d) && pick-- == 0)
                return (OpType){(OpTypeKind)kind, (Dtype)d};
    return (OpType){OPTYPE_TENSOR, DTYPE_FLOAT};
}

static OpType type_of(Build *b, const OpParam *param, unsigned from) {
    const TypeSet *set = op_param_types(b->node->schema, param);
    bool shared = param->var != OP_NO_VAR && param->var < MOST_VARS &&
                  (param->option != OP_VARIADIC || param->homogeneous);
    if (!shared) return pick_type(b, set, from);
    if (!b->bound[param->var]) b->vars[param->var] = pick_type(b, set, param->var);
    b->bound[param->var] = true;
    return b->vars[param->var];
}

static const char *type_text(Build *b, OpType type) {
    const char *name = dtype_name(type.dtype);
    switch (type.kind) {
    case OPTYPE_TENSOR:
    case OPTYPE_SPARSE:
    case OPTYPE_COUNT: return arena_printf(b->arena, "%s[2,3]", name);
    case OPTYPE_SEQ: return arena_printf(b->arena, "seq(%s[2,3])", name);
    case OPTYPE_OPTIONAL: return arena_printf(b->arena, "optional(%s[2,3])", name);
    case OPTYPE_OPTIONAL_SEQ: return arena_printf(b->arena, "optional(seq(%s[2,3]))", name);
    case OPTYPE_MAP_INT64: return arena_printf(b->arena, "map(int64, %s)", name);
    case OPTYPE_MAP_STRING: return arena_printf(b->arena, "map(string, %s)", name);
    case OPTYPE_SEQ_MAP_INT64: return arena_printf(b->arena, "seq(map(int64, %s))", name);
    case OPTYPE_SEQ_MAP_STRING: return arena_printf(b->arena, "seq(map(string, %s))", name);
    }
    return "float";
}

/* ---- operands -------------------------------------------------------------------------------- */

unsigned hostile_text_operands(const OpSchema *schema) {
    unsigned most = schema->max_input;
    if (most > schema->input_count) most = schema->input_count + 1u; /* a variadic one twice */
    if (most > schema->max_input) most = schema->max_input;
    return most < MOST_OPERANDS ? most : MOST_OPERANDS;
}

static void add_operand(Build *b, unsigned i) {
    static const char *const floats[] = {"a", "x", "e", "w", "k"};
    const OpParam *param = op_schema_input(b->node->schema, i);
    OpType type = param ? type_of(b, param, 3 * i) : (OpType){OPTYPE_TENSOR, DTYPE_FLOAT};
    bool optional = param && param->option == OP_OPTIONAL;
    b->operands[i] = "";
    if ((int)i == b->node->untyped) {
        b->operands[i] = "m";
        return;
    }
    if (optional ? bits(b, 7 + i, 3) == 0 : bits(b, 11 + 5 * i, 40) == 0) return; /* left out */
    if (type.kind == OPTYPE_TENSOR && type.dtype == DTYPE_FLOAT && bits(b, 2 * i, 7) < 5) {
        b->operands[i] = floats[bits(b, 2 * i, 5)];
        return;
    }
    b->operands[i] = arena_printf(b->arena, "i%u", i);
    b->formals = arena_printf(b->arena, "%s, %s i%u", b->formals, type_text(b, type), i);
    b->names = arena_printf(b->arena, "%s, i%u", b->names, i);
}

static const char *operand_list(Build *b) {
    const char *list = "";
    for (unsigned i = 0; i < b->inputs; i++)
        list = arena_printf(b->arena, "%s%s%s", list, i ? ", " : "", b->operands[i]);
    return list;
}

static const char *output_list(Build *b, const char *stem) {
    const char *list = "";
    for (unsigned i = 0; i < b->outputs; i++)
        list = arena_printf(b->arena, "%s%s%s%u", list, i ? ", " : "", stem, i);
    return list;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* A graph with as many inputs and outputs as the operator runs it with. */
static const char *body_text(Build *b) {
    const OpSchema *schema = b->node->schema;
    bool loop = strcmp(schema->name, "Loop") == 0, none = strcmp(schema->name, "If") == 0;
    const char *formals = loop ? "int64 i, bool go" : "", *results = loop ? "bool on" : "";
    const char *lines = loop ? "on = Identity (go)\n" : "";
    unsigned first = loop ? 2 : 0, count = none ? b->outputs : b->inputs;
    for (unsigned i = first; i < count; i++) {
        const char *comma = i ? ", " : "", *more = i > first || loop ? ", " : "";
        if (!none) formals = arena_printf(b->arena, "%s%sv%u", formals, comma, i);
        results = arena_printf(b->arena, "%s%sr%u", results, more, i);
        lines = none ? arena_printf(b->arena, "%sr%u = Relu (x)\n", lines, i)
                     : arena_printf(b->arena, "%sr%u = Identity (v%u)\n", lines, i, i);
    }
    return arena_printf(b->arena, "b (%s) => (%s) { %s}", formals, results, lines);
}

/* What an attribute of that kind holds. */
static const char *payload(AttrType kind) {
    switch (kind) {
    case ATTR_FLOAT: return "1.5";
    case ATTR_INT: return "1";
    case ATTR_STRING: return "\"constant\"";
    case ATTR_TENSOR: return "float[1] {1}";
    case ATTR_GRAPH: return "b () => (float r) { r = Relu (x) }";
    case ATTR_FLOATS: return "[1.5, 2.5]";
    case ATTR_INTS: return "[1, 1]";
    case ATTR_STRINGS: return "[\"a\", \"b\"]";
    case ATTR_TENSORS: return "[float[1] {1}]";
    case ATTR_GRAPHS: return "[b () => (float r) { r = Relu (x) }]";
    case ATTR_SPARSE_TENSOR: return "sparse_tensor[4] {float[1] {1}, int64[1] {3}}";
    case ATTR_SPARSE_TENSORS: return "[sparse_tensor[4] {float[1] {1}, !}]";
    case ATTR_TYPE: return "float[2,3]";
    case ATTR_TYPES: return "[float[2,3]]";
    case ATTR_UNDEFINED: break;
    }
    return "!";
}

static bool is_list(AttrType kind) {
    return (kind >= ATTR_FLOATS && kind <= ATTR_GRAPHS) || kind == ATTR_SPARSE_TENSORS ||
           kind == ATTR_TYPES;
}

const char *hostile_text_value(AttrType says, AttrType holds, Arena *arena) {
    const char *kind = attr_type_name(says), *none = is_list(says) ? "[]" : "!";
    if (says == ATTR_UNDEFINED) {
        if (holds == ATTR_UNDEFINED) return ": ?77 = !";
        return arena_printf(arena, ": ?0 = ! | %s = %s", attr_type_name(holds), payload(holds));
    }
    if (holds == ATTR_UNDEFINED) return arena_printf(arena, ": %s = %s", kind, none);
    if (says == holds) return arena_printf(arena, ": %s = %s", kind, payload(says));
    return arena_printf(arena, ": %s = %s | %s = %s", kind, none, attr_type_name(holds),
                        payload(holds));
}

/* Of a required attribute: something that the operator can work with, where that is easy. */
static const char *proper_value(Build *b, const OpAttr *attr) {
    static const char *const known[][2] = {
        {"equation", "\"ij,ij->ij\""}, {"to", "1"},          {"axis", "0"},
        {"num_scan_inputs", "1"},      {"hidden_size", "3"}, {"mode", "\"constant\""},
        {"upper_bound", "5"},          {"blocksize", "1"},   {"shape", "[2, 3]"}};
    if (strcmp(attr->name, "to") == 0 && attr->type == ATTR_STRING) return "\"FLOAT\"";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(attr->name, known[i][0]) == 0) return known[i][1];
    return attr->type == ATTR_GRAPH ? body_text(b) : payload((AttrType)attr->type);
}

/* "<name: kind = value, …>": what is required, and what is odd. */
static const char *attribute_list(Build *b) {
    const HostileNode *node = b->node;
    const char *list = "";
    bool given = node->place == HOSTILE_FUNCTION && node->value;
    for (uint32_t i = 0; i < node->schema->attr_count; i++) {
        const OpAttr *attr = &node->schema->attrs[i];
        if (!attr->required || (node->odd && strcmp(node->odd, attr->name) == 0)) continue;
        list = arena_printf(b->arena, "%s%s%s: %s = %s", list, list[0] ? ", " : "", attr->name,
                            attr_type_name((AttrType)attr->type), proper_value(b, attr));
    }
    if (!node->odd || !node->value) return list;
    const OpAttr *formal = op_schema_attr(node->schema, node->odd);
    const char *kind = attr_type_name(formal ? (AttrType)formal->type : ATTR_INT);
    return given ? arena_printf(b->arena, "%s%s%s: %s = @p", list, list[0] ? ", " : "", node->odd,
                                kind)
                 : arena_printf(b->arena, "%s%s%s%s", list, list[0] ? ", " : "", node->odd,
                                node->value);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* "[n] y0, y1 = Domain.Op <…> (…)" with what its operands are made of. */
static const char *node_lines(Build *b) {
    const OpSchema *schema = b->node->schema;
    const char *domain = schema->domain, *attributes = attribute_list(b);
    return arena_printf(b->arena,
                        "a = MatMul (x, w)\nm = com.x.Mask (a)\ne = Softmax (x)\n"
                        "[n] %s = %s%s%s %s%s%s (%s)\n",
                        output_list(b, "y"), domain, domain[0] ? "." : "", schema->name,
                        attributes[0] ? "<" : "", attributes, attributes[0] ? ">" : "",
                        operand_list(b));
}

static const char *imports(Build *b) {
    const OpSchema *schema = b->node->schema;
    int64_t newest = ops_latest_opset(""), own = ops_latest_opset(schema->domain);
    if (own == 0) own = 1; /* demi's own domain */
    if (schema->until < own) own = schema->until;
    if (!schema->domain[0]) newest = own;
    if (!schema->domain[0])
        return arena_printf(b->arena, "\"\" : %lld, \"com.x\" : 1", (long long)newest);
    return arena_printf(b->arena, "\"\" : 21, \"com.x\" : 1, \"%s\" : %lld", schema->domain,
                        (long long)own);
}

/* The lines of the main graph that end in y0, y1, …. */
static const char *placed_lines(Build *b) {
    const HostileNode *node = b->node;
    const char *lines = node_lines(b), *ys = output_list(b, "y");
    switch (node->place) {
    case HOSTILE_MAIN:
    case HOSTILE_PLACES: break;
    case HOSTILE_BRANCH: {
        const char *other = "";
        for (unsigned i = 0; i < b->outputs; i++)
            other = arena_printf(b->arena, "%so%u = Relu (x)\n", other, i);
        return arena_printf(b->arena,
                            "[branch] %s = If (c) <then_branch = t () => (%s) { %s}, else_branch = "
                            "f () => (%s) { %s}>\n",
                            output_list(b, "z"), ys, lines, output_list(b, "o"), other);
    }
    case HOSTILE_FUNCTION: {
        const char *given = node->odd && node->value ? node->value : "";
        return arena_printf(b->arena, "%s = com.x.F %s%s%s (x, w, k, c%s)\n", output_list(b, "z"),
                            given[0] ? "<p" : "", given, given[0] ? ">" : "", b->names);
    }
    }
    return lines;
}

static bool is_float(Build *b, unsigned output) {
    const OpParam *param = op_schema_output(b->node->schema, output);
    const TypeSet *set = param ? op_param_types(b->node->schema, param) : NULL;
    if (!set || !type_set_has(set, OPTYPE_TENSOR, DTYPE_FLOAT)) return false;
    bool bound = param->var != OP_NO_VAR && param->var < MOST_VARS && b->bound[param->var];
    return bound ? b->vars[param->var].dtype == DTYPE_FLOAT : type_set_count(set) == 1;
}

/* Readers of the outputs, which run low, and beside an operand of no type. */
static const char *reader_lines(Build *b, const char *stem) {
    const char *lines = "a9 = MatMul (x, w)\nm9 = com.x.Mask (a9)\n";
    for (unsigned i = 0; i < b->outputs; i++) {
        lines = arena_printf(b->arena, "%sq%u = ", lines, i);
        lines = is_float(b, i) ? arena_printf(b->arena, "%sMatMul (%s%u, w)\n", lines, stem, i)
                               : arena_printf(b->arena, "%sIdentity (%s%u)\n", lines, stem, i);
        if (bits(b, 20 + i, 2))
            lines = arena_printf(b->arena, "%ss%u = Where (c, %s%u, m9)\n", lines, i, stem, i);
    }
    return lines;
}

const char *hostile_text(const HostileNode *node, Arena *arena) {
    Build *b = ARENA_NEW(arena, Build);
    const OpSchema *schema = node->schema;
    *b = (Build){.node = node, .arena = arena, .formals = "", .names = ""};
    b->inputs = hostile_text_operands(schema);
    b->outputs = schema->max_output < MOST_OUTPUTS ? schema->max_output : MOST_OUTPUTS;
    if (b->outputs > schema->output_count && !bits(b, 30, 2)) b->outputs = schema->output_count;
    if (b->outputs < schema->min_output) b->outputs = schema->min_output;
    for (unsigned i = 0; i < b->inputs; i++) add_operand(b, i);
    const char *stem = node->place == HOSTILE_MAIN ? "y" : "z", *lines = placed_lines(b);
    const char *function = "", *results = "";
    for (unsigned i = 0; i < b->outputs; i++)
        results = arena_printf(arena, "%s%s%s%u, q%u", results, i ? ", " : "", stem, i, i);
    if (node->place == HOSTILE_FUNCTION)
        function =
            arena_printf(arena,
                         "<domain: \"com.x\", opset_import: [%s]> F %s (x, w, k, c%s) => (%s) "
                         "{\n%s}\n",
                         imports(b), node->odd && node->value ? "<p>" : "", b->names,
                         output_list(b, "y"), node_lines(b));
    return arena_printf(
        arena,
        "<ir_version: 10, opset_import: [%s]>\n"
        "g (float[2,3] x, bool c%s) => (%s) <float[3,3] w = {1, 0, 0, 0, 1, 0, 0, 0, "
        "1}, float[2,3] k = {1, 2, 3, 4, 5, 6}> {\n%s%s}\n%s",
        imports(b), b->formals, results, lines, reader_lines(b, stem), function);
}
