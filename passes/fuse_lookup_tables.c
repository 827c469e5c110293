// SPDX-License-Identifier: Apache-2.0
/* fuse-lookup-tables: what is computed of a quantized value alone is looked up, for plans.
 *
 *   Q(f(DQ(X)))  ->  demi.fused.QTable(X, Q(f(DQ(all 256 bytes))))
 *
 * Q is QuantizeLinear and DQ DequantizeLinear, of int8 and uint8, with one scale and zero point for
 * all. f are elementwise operators whose other operands are constants of one element, quantized or
 * not: also none (another scale), or several branches (x Sigmoid(x)). A branch may have been rounded
 * before: of bytes that are X looked up, as DQ(Q(Sigmoid(x))) is in x DQ(Q(Sigmoid(x))), the table is
 * what that table makes. The table is made by the
 * operators themselves, when the plan is folded, so the result is the same to the bit; faithful
 * plans have nothing of this all the same. Q(DQ(X)) of one scale and zero point is X.
 */
#include "constants.h"
#include "quantized_value.h"

enum { NODES_MOST = 16, BYTES = 256 };

typedef struct Chain {
    Fuse *fuse;
    Node *root;           /* the Q */
    Quantized source;     /* of all that is read; no node while there is none */
    Value *bytes;         /* its bytes, or what they are looked up by; NULL while there are none */
    uint32_t count, open; /* done; being collected around the one at hand */
    const Value *old[NODES_MOST + 1];
    Value *made[NODES_MOST + 1];
} Chain;

/* ---- what it is computed of ------------------------------------------------------------------ */

/* One element, of at most the rank of what the table is for. */
static bool is_constant(const Chain *c, const Value *value) {
    Quantized number;
    const bool stored =
        value_is_constant(value) ||
        (quantized_source(c->fuse, value, &number) && value_is_constant(number.bytes) &&
         value_is_constant(number.scale) && (!number.zero || value_is_constant(number.zero)));
    return stored && quantized_is_number(value) &&
           fuse_rank(value) <= fuse_rank(c->root->outputs[0]);
}

/* The table of a value that is looked up by `bytes`; NULL where it is not. */
static Value *table_by(const Value *bytes, const Value *value) {
    const Node *node = value->producer;
    const bool looked_up = node && sym_equals(node->domain, FUSED_DOMAIN) &&
                           sym_equals(node->op_type, "QTable") && node->inputs[0].value == bytes;
    return looked_up ? node->inputs[1].value : NULL;
}

/* What both values are or are looked up by; NULL where there is nothing. */
static Value *common_bytes(Value *a, Value *b) {
    if (a == b || table_by(a, b)) return a;
    if (table_by(b, a)) return b;
    const Node *node = a->producer;
    Value *by = node && node->input_count ? node->inputs[0].value : NULL;
    return by && table_by(by, a) && table_by(by, b) ? by : NULL;
}

/* Every value that was taken before must be what the new common bytes are, or looked up by them. */
static bool takes_source(Chain *c, const Quantized *found) {
    Quantized before;
    if (!found->single) return false;
    if (!c->source.node) {
        c->source = *found;
        c->bytes = found->bytes;
    }
    Value *bytes = common_bytes(c->bytes, found->bytes);
    if (bytes == c->bytes) return true;
    for (uint32_t i = 0; bytes && i < c->count; i++)
        if (quantized_source(c->fuse, c->old[i], &before) && before.bytes != bytes &&
            !table_by(bytes, before.bytes))
            return false;
    c->bytes = bytes;
    return bytes;
}

static bool is_step(const Node *node) {
    const OpRecord *record = fuse_record(node);
    if (!record || record->layout != LAYOUT_EACH || op_record_has(record, OP_RANDOM) ||
        op_record_has(record, OP_RANDOM_TRAINING))
        return false;
    for (uint32_t i = 0; i < node->output_count; i++)
        if ((i > 0 && node->outputs[i]) ||
            (node->outputs[i] && value_type(node->outputs[i])->kind != TYPE_TENSOR))
            return false;
    return true;
}

static bool knows(const Chain *c, const Value *value) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->old[i] == value) return true;
    return false;
}

static bool collect(Chain *c, const Value *value);

/* What a step computes with. What is open will be done, so both are bounded together: a row of steps
 * without a quantized value in it is not walked to its end for each Q behind it. */
static bool collect_operands(Chain *c, const Node *node) {
    if (c->count + c->open == NODES_MOST) return false;
    c->open++;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && !collect(c, node->inputs[i].value)) return false;
    c->open--;
    return true;
}

/* Whether a table of `value` can be made; adds what it is computed of, operands first. */
static bool collect(Chain *c, const Value *value) {
    Quantized found;
    if (knows(c, value) || is_constant(c, value)) return true;
    if (quantized_source(c->fuse, value, &found)) {
        if (!takes_source(c, &found)) return false;
    } else {
        const Node *node = value->producer;
        if (!is_step(node) || node->graph != c->root->graph || !collect_operands(c, node))
            return false;
    }
    if (c->count == NODES_MOST) return false;
    c->old[c->count++] = value;
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

static Value *in_table(const Chain *c, Value *value) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->old[i] == value) return c->made[i];
    return value;
}

/* 256 elements, behind as many axes of 1 as constants among the operands have more. */
static const Type *table_type(Chain *c, const Node *made, Dtype dtype) {
    Arena *arena = &c->fuse->ctx->model->arena;
    uint32_t rank = 1;
    for (uint32_t i = 0; i < made->input_count; i++) {
        const int64_t has = made->inputs[i].value ? fuse_rank(made->inputs[i].value) : 0;
        if (has > rank) rank = (uint32_t)has;
    }
    const Type **known = &c->fuse->tables.types[dtype];
    if (rank == 1 && *known) return *known;
    Dim *dims = ARENA_ARRAY(arena, Dim, rank);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = (Dim){.kind = DIM_KNOWN, .size = i + 1 == rank ? BYTES : 1};
    const Type *type = type_new_shaped(arena, dtype, dims, rank);
    if (rank == 1) *known = type;
    return type;
}

/* The node, of the table's values, before the root. */
static Value *repeat(Chain *c, Node *node, Value *first) {
    Model *model = c->fuse->ctx->model;
    Node *made = node_new(c->root->graph, c->root, node->op_type, node->domain);
    node_share_lists(made, node);
    node_resize_inputs(made, node->input_count);
    node_resize_outputs(made, 1);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value) node_set_input(made, i, in_table(c, node->inputs[i].value));
    if (first) node_set_input(made, 0, first);
    const char *stem = arena_printf(c->fuse->ctx->scratch, "%s_table", node_label(c->root));
    Value *value = value_new(c->root->graph, sym_fresh(&model->syms, stem));
    value_set_type(value, table_type(c, made, type_dtype(node->outputs[0]->type)));
    node_set_output(made, 0, value);
    return value;
}

static Value *every_byte(Chain *c) {
    uint8_t bytes[BYTES];
    Arena *arena = &c->fuse->ctx->model->arena;
    const Value **known = &c->fuse->tables.bytes[type_dtype(c->bytes->type) == DTYPE_INT8];
    if (*known) return quantized_new_like(c->fuse, c->root->graph, *known);
    Dim *dims = ARENA_NEW(arena, Dim);
    *dims = (Dim){.kind = DIM_KNOWN, .size = BYTES};
    for (unsigned i = 0; i < BYTES; i++) bytes[i] = (uint8_t)i;
    const Type *type = type_new_shaped(arena, type_dtype(c->bytes->type), dims, 1);
    Value *all = quantized_new_bytes(c->fuse, c->root->graph, type, bytes);
    *known = all;
    return all;
}

static Value *make_table(Chain *c) {
    Value *all = every_byte(c);
    Quantized found;
    for (uint32_t i = 0; i < c->count; i++) {
        Value *first = quantized_source(c->fuse, c->old[i], &found) ? all : NULL;
        if (first && found.bytes != c->bytes) first = table_by(c->bytes, found.bytes);
        c->made[i] = repeat(c, c->old[i]->producer, first);
    }
    return repeat(c, c->root, NULL);
}

static bool is_inner(const Value *value) {
    return fuse_is_inner(value) && value->uses;
}

static void visit(Fuse *fuse, Node *node) {
    Quantized to;
    Chain c = {.fuse = fuse, .root = node};
    if (fuse->faithful || !quantized_target(fuse, node, &to) || !to.single) return;
    if (!collect(&c, fuse_input(node, 0)) || !c.source.node) return;
    Value *x = c.bytes;
    if (value_is_constant(x) || fuse_rank(x) < 0 || fuse_rank(x) != fuse_rank(to.bytes)) return;
    if (c.count == 1 && quantized_alike(&c.source, &to) && is_inner(to.bytes)) {
        value_replace_uses(to.bytes, c.source.bytes);
        node_remove_unswept(node);
        if (!c.source.node->outputs[0]->uses && !c.source.node->outputs[0]->referenced)
            node_remove_unswept(c.source.node);
        fuse->ctx->counts->rewrites++;
        return;
    }
    Value *table = make_table(&c);
    Node *made = fuse_new(fuse, node, "QTable", node, 2);
    node_set_input(made, 0, x);
    node_set_input(made, 1, table);
    if (to.dtype != type_dtype(x->type)) node_set_attr_int(made, "to", to.dtype);
    fuse_replace_root(fuse, made, node);
}

FUSE_PASS(fuse_lookup_tables, "fuse-lookup-tables",
          "replace functions of one quantized value by lookup tables, for plans", visit);
