// SPDX-License-Identifier: Apache-2.0
/* move-dequantize: data moves as the bytes that it is quantized to, for plans.
 *
 *   move(DQ(X))                    ->  DQ(move(X))
 *   Q(Concat(DQ(A), DQ(B)))        ->  Q(DQ(Concat(Q(DQ(A)), Q(DQ(B)))))
 *
 * DQ is DequantizeLinear of int8 or uint8 with one scale and zero point for all, Q a QuantizeLinear
 * likewise. What moves data gives elements of its first operand: reshapes, slices, transpositions;
 * MaxPool and the largest or smallest over axes, as scales are positive; Pad by 0, which becomes the zero point, and Resize of nearest
 * neighbors. What makes more elements than it reads moves only where a Q follows. Concat's operands
 * are brought to its Q's scale where there is one, or have one scale already. Q(DQ(X)) is then left
 * to fuse-lookup-tables. The operator must take bytes at the model's version. What only constants are moved
 * to is folded anyway and stays. All is exact; faithful plans have nothing of this all the same.
 */
#include "constants.h"
#include "op_facts.h"
#include "quantized_value.h"

enum { PAD_VALUE = 2, PAD_MODE_OPSET = 11 };

typedef struct Move {
    Fuse *fuse;
    Node *node;
    Quantized from;    /* of operand 0, and of what comes out */
    uint32_t operands; /* that are moved: 1, or all of a Concat */
    bool pads;
} Move;

/* ---- what moves ------------------------------------------------------------------------------ */

static bool takes_bytes(const Node *node, Dtype dtype) {
    const OpSchema *schema = node_schema(node);
    const OpParam *in = schema ? op_schema_input(schema, 0) : NULL;
    for (uint32_t i = 0; in && i < node->output_count; i++) {
        const OpParam *out = op_schema_output(schema, i);
        if (node->outputs[i] && (!out || out->var != in->var || in->var == OP_NO_VAR)) return false;
    }
    return in && type_set_has(op_param_types(schema, in), OPTYPE_TENSOR, dtype);
}

static bool reads_quantized(const Fuse *fuse, const Value *value) {
    Quantized to;
    if (!value->uses || !fuse_is_inner(value)) return false;
    for (const Use *use = value->uses; use; use = use->next)
        if (!quantized_target(fuse, use->node, &to) || !to.single) return false;
    return true;
}

/* Of one moved operand, whose elements it gives and no others. */
static bool moves_plainly(const Fuse *fuse, const Node *node) {
    const OpSchema *schema = node_schema(node); /* NULL for operators that nobody knows */
    const OpFlags *flags = schema ? op_flags(schema) : NULL;
    const unsigned counts = OP_KEEPS_COUNT | OP_SHRINKS | OP_GROWS;
    if (!flags || !(flags->flags & OP_MOVES) || flags->moved != 1 || flags->unless_attr ||
        fuse_is(node, "Trilu"))
        return false;
    if (flags->flags & OP_GROWS) return reads_quantized(fuse, node->outputs[0]);
    return flags->flags & counts || op_record_has(fuse_record(node), OP_SELECTS);
}

/* The largest or smallest of what there is: over nothing it would be infinite. */
static bool is_extreme(const Node *node) {
    const Value *x = fuse_input(node, 0);
    const OpRecord *record = fuse_record(node);
    if (record->layout != LAYOUT_AXES || !op_record_gives(record, 0) || fuse_rank(x) < 0)
        return false;
    for (int64_t i = 0; i < fuse_rank(x); i++)
        if (fuse_dim(x, i) < 1) return false;
    return true;
}

static bool is_nearest(const Node *node) {
    return fuse_is(node, "Resize") && fuse_attr_is(node, "mode", "nearest", true) &&
           !fuse_attr_is(node, "coordinate_transformation_mode", "tf_crop_and_resize", false);
}

static bool is_pad(const Node *node) {
    const Value *fill = fuse_input(node, PAD_VALUE);
    float number;
    if (!fuse_is(node, "Pad") || fuse_opset(node) < PAD_MODE_OPSET) return false;
    return !fill || (constant_scalar(fill, &number) && number == 0);
}

static bool find_move(Move *m) {
    const Node *node = m->node;
    m->operands = 1;
    if (!node->output_count || !node->outputs[0] || !fuse_input(node, 0)) return false;
    if (!fuse_record(node) || !fuse_takes(node->outputs[0])) return false;
    m->pads = is_pad(node);
    if (fuse_is(node, "Concat")) {
        m->operands = node->input_count;
        return true;
    }
    if (fuse_is(node, "MaxPool")) return node->output_count == 1 || !node->outputs[1];
    return m->pads || is_extreme(node) || moves_plainly(m->fuse, node) ||
           (is_nearest(node) && reads_quantized(m->fuse, node->outputs[0]));
}

/* ---- moving ---------------------------------------------------------------------------------- */

static Value *new_value(const Move *m, const Value *like, Dtype dtype) {
    Model *model = m->fuse->ctx->model;
    const char *stem = arena_printf(m->fuse->ctx->scratch, "%s_bytes", sym_text(like->name));
    Value *value = value_new(m->node->graph, sym_fresh(&model->syms, stem));
    const Type *type = like->type ? like->type : type_plain_tensor(dtype);
    value_set_type(value, type_with_dtype(&model->arena, type, dtype));
    return value;
}

/* A QuantizeLinear or DequantizeLinear before `at` (at the end where it is NULL), of `from`. */
static Node *convert(const Move *m, Node *at, const char *op, Value *from) {
    const Quantized *q = &m->from;
    Node *made =
        node_new(m->node->graph, at, sym_intern_cstr(&m->fuse->ctx->model->syms, op), NULL);
    node_resize_inputs(made, q->zero ? 3 : 2);
    node_resize_outputs(made, 1);
    node_set_input(made, 0, from);
    node_set_input(made, 1, q->scale);
    if (q->zero) node_set_input(made, 2, q->zero);
    return made;
}

/* Operand i as bytes of m->from. */
static void move_operand(const Move *m, uint32_t i) {
    Value *value = m->node->inputs[i].value;
    Node *source = value->producer;
    Quantized from;
    quantized_source(m->fuse, value, &from);
    Value *bytes = from.bytes;
    if (!quantized_alike(&from, &m->from)) {
        Node *made = convert(m, m->node, "QuantizeLinear", value);
        bytes = new_value(m, value, m->from.dtype);
        node_set_output(made, 0, bytes);
    }
    node_set_input(m->node, i, bytes);
    if (!value->uses && !value->referenced) node_remove_unswept(source);
}

static void move_output(const Move *m, uint32_t i) {
    Value *value = m->node->outputs[i];
    if (!value) return;
    Value *bytes = new_value(m, value, m->from.dtype);
    node_set_output(m->node, i, NULL);
    Node *made = convert(m, m->node->next, "DequantizeLinear", bytes);
    node_set_output(m->node, i, bytes);
    node_set_output(made, 0, value);
}

/* What a Concat's operands are brought to: what its one reader makes of it, or what they are. */
static bool find_common(Move *m) {
    Quantized to, each;
    bool alike = true;
    for (uint32_t i = 0; i < m->operands; i++) {
        const Value *value = fuse_input(m->node, i);
        if (!quantized_source(m->fuse, value, &each) || !each.single) return false;
        alike = alike && quantized_alike(&each, &m->from);
    }
    if (alike) return true;
    if (!quantized_target(m->fuse, fuse_reader(m->node->outputs[0]), &to) || !to.single)
        return false;
    /* a QuantizeLinear without zero point makes uint8, and a DequantizeLinear takes what it gets */
    if (!to.zero && to.dtype != DTYPE_UINT8) return false;
    m->from = to;
    return true;
}

static void visit(Fuse *fuse, Node *node) {
    Move m = {.fuse = fuse, .node = node};
    if (fuse->faithful || !find_move(&m) ||
        !quantized_source(fuse, node->inputs[0].value, &m.from) || !m.from.single)
        return;
    if (m.operands == 1 ? value_is_constant(m.from.bytes) : !find_common(&m)) return;
    if (!takes_bytes(node, m.from.dtype)) return;
    for (uint32_t i = 0; i < m.operands; i++) move_operand(&m, i);
    for (uint32_t i = 0; i < node->output_count; i++) move_output(&m, i);
    if (m.pads && fuse_attr_is(node, "mode", "constant", true)) {
        if (node->input_count <= PAD_VALUE) node_resize_inputs(node, PAD_VALUE + 1);
        node_set_input(node, PAD_VALUE,
                       quantized_new_byte(fuse, node->graph, m.from.dtype, m.from.offset));
    } else if (m.pads && fuse_input(node, PAD_VALUE)) {
        node_set_input(node, PAD_VALUE, NULL);
    }
    fuse->ctx->counts->rewrites++;
}

FUSE_PASS(move_dequantize, "move-dequantize",
          "move DequantizeLinear behind data movement, which then moves quantized data, for plans",
          visit);
