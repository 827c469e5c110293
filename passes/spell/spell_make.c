// SPDX-License-Identifier: Apache-2.0
/* What recipes ask and make; see spell.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "make_node.h"
#include "spell.h"

/* ---- refusing -------------------------------------------------------------------------------- */

bool spell_refuse(Spell *spell, const char *format, ...) {
    char why[160];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    const char *domain = sym_text(spell->node->domain);
    return node_error(spell->node, spell->err, ERR_MODEL, "demi does not run %s%s%s %s", domain,
                      *domain ? "." : "", sym_text(spell->node->op_type), why);
}

bool spell_needs(Spell *spell, int64_t least) {
    if (spell->opset >= least) return true;
    return spell_refuse(spell, "beside opset %lld of ai.onnx: it is spelt in operators of %lld",
                        (long long)spell->opset, (long long)least);
}

bool spell_wants(const Spell *spell, uint32_t output) {
    const Node *node = spell->node;
    return output < node->output_count && node->outputs[output] &&
           (node->outputs[output]->uses || node->outputs[output]->referenced);
}

bool spell_lacks(Spell *spell, uint32_t output, const char *what) {
    return !spell_wants(spell, output) || spell_refuse(spell, "with its output '%s'", what);
}

bool spell_takes(Spell *spell, const Value *value) {
    if (fuse_takes(value)) return true;
    return spell_refuse(spell, "of this type");
}

/* ---- operands -------------------------------------------------------------------------------- */

Value *spell_input(const Spell *spell, uint32_t i) {
    return fuse_input(spell->node, i);
}

static bool is_narrow(Dtype dtype) {
    return dtype_is_reduced(dtype);
}

Value *spell_wide(Spell *spell, uint32_t i) {
    Value *value = spell_input(spell, i);
    return value && is_narrow(type_dtype(value->type)) ? spell_cast(spell, value, DTYPE_FLOAT)
                                                       : value;
}

int64_t spell_int(const Spell *spell, const char *name, int64_t otherwise) {
    return node_attr_int(spell->node, name, otherwise);
}

float spell_real(const Spell *spell, const char *name, float otherwise) {
    float number;
    fuse_attr_float(spell->node, name, otherwise, &number);
    return number;
}

/* ---- making ---------------------------------------------------------------------------------- */

static Make make_of(Spell *spell) {
    return (Make){spell->fuse.ctx, spell->node, node_label(spell->node)};
}

Value *spell_output(Spell *spell, Node *node, Dtype dtype) {
    const Make make = make_of(spell);
    return make_output(&make, node, dtype);
}

static Node *new_node(Spell *spell, const char *op, Sym domain, uint32_t inputs, Dtype dtype) {
    const Make make = make_of(spell);
    Node *node = make_node(&make, op, domain, inputs);
    make_output(&make, node, dtype);
    return node;
}

Node *spell_plain(Spell *spell, const char *op, uint32_t inputs, Dtype dtype) {
    return new_node(spell, op, NULL, inputs, dtype);
}

Node *spell_own(Spell *spell, const char *op, uint32_t inputs, Dtype dtype) {
    return new_node(spell, op, spell->node->domain, inputs, dtype);
}

Node *spell_fused(Spell *spell, const char *op, uint32_t inputs, Dtype dtype) {
    Node *node = fuse_new(&spell->fuse, spell->node, op, spell->node, inputs);
    node_resize_outputs(node, 0);
    spell_output(spell, node, dtype);
    return node;
}

Value *spell_make(Spell *spell, const char *op, Value *const operands[3], Dtype dtype) {
    const Make make = make_of(spell);
    return make_op(&make, op, operands, operands[2] ? 3 : operands[1] ? 2 : 1, dtype);
}

Value *spell_constant(Spell *spell, const Tensor *tensor) {
    const Make make = make_of(spell);
    return make_constant(&make, tensor);
}

Value *spell_ints(Spell *spell, const int64_t *items, uint32_t count) {
    return fuse_new_ints(&spell->fuse, spell->node->graph, items, count);
}

Value *spell_floats(Spell *spell, float number, int64_t count) {
    Arena *arena = &spell->fuse.ctx->model->arena;
    float *items = ARENA_ARRAY(arena, float, (size_t)count + 1);
    for (int64_t i = 0; i <= count; i++) items[i] = number;
    return spell_constant(spell, tensor_new_raw(arena, DTYPE_FLOAT, &count, count ? 1 : 0, items,
                                                (uint64_t)(count ? count : 1) * sizeof *items));
}

Value *spell_zero(Spell *spell, Dtype dtype) {
    static const uint64_t zero;
    uint64_t size;
    Arena *arena = &spell->fuse.ctx->model->arena;
    if (!dtype_bytes(dtype, 1, &size) || size > sizeof zero) size = 1;
    return spell_constant(spell, tensor_new_raw(arena, dtype, NULL, 0, &zero, size));
}

Value *spell_transpose(Spell *spell, Value *x, const int64_t *perm, uint32_t rank) {
    Value *y = SPELL(spell, "Transpose", type_dtype(x->type), x);
    node_set_attr_ints(y->producer, "perm", perm, rank);
    return y;
}

Value *spell_cast(Spell *spell, Value *x, Dtype to) {
    Value *y = SPELL(spell, "Cast", to, x);
    node_set_attr_int(y->producer, "to", to);
    return y;
}

Value *spell_channels(Spell *spell, Value *x, uint32_t rank, bool first) {
    int64_t *perm = ARENA_ARRAY(spell->fuse.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) {
        if (first)
            perm[i] = i == 0 ? 0 : i == 1 ? (int64_t)rank - 1 : (int64_t)i - 1;
        else
            perm[i] = i == 0 ? 0 : i + 1 == rank ? 1 : (int64_t)i + 1;
    }
    return spell_transpose(spell, x, perm, rank);
}

bool spell_keep_attrs(Spell *spell, Node *made, const char *const *names) {
    for (; *names; names++) {
        const Attr *attr = node_attr(spell->node, *names);
        int64_t number;
        uint32_t count;
        Bytes text;
        if (!attr) continue;
        if (attr_int(attr, &number)) {
            node_set_attr_int(made, *names, number);
        } else if (attr_string(attr, &text)) {
            node_set_attr_string(made, *names,
                                 arena_printf(spell->fuse.ctx->scratch, "%.*s", (int)text.size,
                                              (const char *)text.data));
        } else if (attr_ints(attr, &count)) {
            const int64_t *ints = attr_ints(attr, &count);
            node_set_attr_ints(made, *names, ints, count);
        } else {
            return spell_refuse(spell, "with this '%s'", *names);
        }
    }
    return true;
}

const char *const spell_window_attrs[] = {"auto_pad",  "ceil_mode", "count_include_pad",
                                          "dilations", "group",     "kernel_shape",
                                          "pads",      "strides",   NULL};

void spell_give(Spell *spell, uint32_t output, Value *value) {
    Node *node = spell->node;
    if (output >= node->output_count || !node->outputs[output]) return;
    Value *result = node->outputs[output];
    const Dtype to = type_dtype(result->type);
    if (type_dtype(value->type) != to) value = spell_cast(spell, value, to);
    Node *from = value->producer;
    const uint32_t place = value->output_index;
    node_set_output(node, output, NULL);
    node_set_output(from, place, result);
    value_replace_uses(value, result);
}
