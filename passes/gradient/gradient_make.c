// SPDX-License-Identifier: Apache-2.0
/* What rules ask and make; see gradient_rule.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "constants.h"
#include "dtype.h"
#include "fuse_graph.h"
#include "gradient_rule.h"

/* ---- questions ------------------------------------------------------------------------------- */

Value *grad_in(const Grad *g, uint32_t i) {
    return fuse_input(g->node, i);
}

Value *grad_out(const Grad *g, uint32_t i) {
    return i < g->node->output_count ? g->node->outputs[i] : NULL;
}

void grad_refuse(Grad *g, const char *format, ...) {
    if (g->failed) return;
    char why[200];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    node_error(g->node, g->err, ERR_MODEL, "no gradient: %s", why);
    g->failed = true;
}

typedef struct Captures {
    Arena *arena;
    const Graph *home;
    VEC(Value *) values;
} Captures;

static void collect_captures(Graph *graph, void *data) {
    Captures *captures = data;
    for (Node *node = graph->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->input_count; i++) {
            Value *value = node->inputs[i].value;
            if (value && graph_is_within(captures->home, value->graph))
                VEC_PUSH(captures->arena, &captures->values, value);
        }
        node_each_graph(node, collect_captures, captures);
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        Value *value = graph->outputs.items[i]->use.value;
        if (graph_is_within(captures->home, value->graph))
            VEC_PUSH(captures->arena, &captures->values, value);
    }
}

Value **gradient_reads(const Node *node, Arena *arena, uint32_t *count) {
    Captures captures = {.arena = arena, .home = node->graph};
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value) VEC_PUSH(arena, &captures.values, node->inputs[i].value);
    node_each_graph(node, collect_captures, &captures);
    *count = (uint32_t)captures.values.count;
    return captures.values.items;
}

Value **grad_captures(Grad *g, uint32_t *count) {
    uint32_t reads, own = 0;
    Value **values = gradient_reads(g->node, g->make.ctx->scratch, &reads);
    *count = 0;
    for (uint32_t i = 0; i < g->node->input_count; i++) own += grad_in(g, i) != NULL;
    for (uint32_t i = own; i < reads; i++) {
        Value *value = values[i];
        bool known = !g->walk->varies[value->id];
        for (uint32_t k = 0; k < *count; k++) known = known || values[k] == value;
        if (known) continue;
        if (value_type(value)->kind != TYPE_TENSOR)
            grad_refuse(g, "its graphs read '%s', which is not a tensor", sym_text(value->name));
        values[(*count)++] = value;
    }
    return values;
}

uint32_t grad_rank(Grad *g, const Value *value) {
    const int64_t rank = fuse_rank(value);
    if (rank < 0) grad_refuse(g, "the rank of '%s' is not known", sym_text(value->name));
    return rank < 0 ? 0 : (uint32_t)rank;
}

int64_t grad_size(Grad *g, const Value *value, int64_t axis) {
    const int64_t size = fuse_dim(value, axis);
    if (size < 0)
        grad_refuse(g, "the size of axis %lld of '%s' is not known", (long long)axis,
                    sym_text(value->name));
    return size < 0 ? 1 : size;
}

bool grad_same_dim(const Value *a, const Value *b, uint32_t i) {
    const Type *one = value_shaped_type(a), *other = value_shaped_type(b);
    if (!one || !other || i >= one->rank || i >= other->rank) return false;
    return dim_same(&one->dims[i], &other->dims[i]);
}

bool grad_known_ints(Grad *g, const Value *value, int64_t **items, uint64_t *count) {
    enum { MOST = 1 << 12 };
    Arena *scratch = g->make.ctx->scratch;
    const Tensor *tensor = value_is_constant(value) ? constant_tensor(value, scratch) : NULL;
    return tensor && tensor_check(tensor, NULL) &&
           tensor_read_ints(tensor, scratch, MOST, items, count);
}

static const OpAttr *formal_of(const Grad *g, const char *name, AttrType type) {
    const OpAttr *formal = op_schema_attr(g->schema, name);
    return formal && formal->has_default && formal->type == (uint8_t)type ? formal : NULL;
}

int64_t grad_int(const Grad *g, const char *name) {
    int64_t number;
    if (attr_int(node_attr(g->node, name), &number)) return number;
    const OpAttr *formal = formal_of(g, name, ATTR_INT);
    return formal ? formal->value.i : 0;
}

double grad_real(const Grad *g, const char *name) {
    float number;
    if (attr_float(node_attr(g->node, name), &number)) return (double)number;
    const OpAttr *formal = formal_of(g, name, ATTR_FLOAT);
    return formal ? (double)(float)formal->value.f : 0;
}

const int64_t *grad_list(const Grad *g, const char *name, uint32_t *count) {
    const Attr *attr = node_attr(g->node, name);
    *count = 0;
    return attr ? attr_ints(attr, count) : NULL;
}

bool grad_is(const Grad *g, const char *name, const char *text) {
    const Attr *attr = node_attr(g->node, name);
    if (attr) return attr_is_text(attr, text);
    const OpAttr *formal = formal_of(g, name, ATTR_STRING);
    return formal && strcmp(formal->value.s, text) == 0;
}

int64_t grad_axis(Grad *g, int64_t axis, uint32_t rank) {
    const int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
    if (at >= 0 && at < (int64_t)rank) return at;
    grad_refuse(g, "there is no axis %lld", (long long)axis);
    return 0;
}

/* ---- making ---------------------------------------------------------------------------------- */

Value *grad_make(Grad *g, const char *op, Dtype dtype, Value *const *operands, size_t count) {
    while (count && !operands[count - 1]) count--;
    if (!dtype) dtype = type_dtype(operands[0]->type);
    return make_op(&g->make, op, operands, (uint32_t)count, dtype);
}

static Value *number_of(Grad *g, double number, Dtype dtype, uint32_t rank) {
    static const int64_t one = 1;
    uint64_t bits = 0, size = 0;
    if (!dtype_from_double(dtype, number, &bits) || !dtype_bytes(dtype, 1, &size) || size > 8) {
        grad_refuse(g, "of this type");
        size = 1;
    }
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(bits >> (8 * i));
    return make_constant(
        &g->make, tensor_new_raw(&g->make.ctx->model->arena, dtype, &one, rank, bytes, size));
}

Value *grad_number(Grad *g, double number, const Value *like) {
    return number_of(g, number, type_dtype(like->type), 0);
}

Value *grad_ints(Grad *g, const int64_t *items, uint32_t count) {
    return make_ints(&g->make, items, count);
}

Value *grad_int_table(Grad *g, const int64_t *items, int64_t rows, int64_t columns) {
    const int64_t dims[] = {rows, columns};
    const uint64_t size = 8 * (uint64_t)rows * (uint64_t)columns;
    return make_constant(
        &g->make, tensor_new_raw(&g->make.ctx->model->arena, DTYPE_INT64, dims, 2, items, size));
}

Value *grad_int_list(Grad *g, int64_t item) {
    return grad_ints(g, &item, 1);
}

Value *grad_int_number(Grad *g, int64_t item) {
    Arena *arena = &g->make.ctx->model->arena;
    return make_constant(&g->make, tensor_new_raw(arena, DTYPE_INT64, NULL, 0, &item, 8));
}

Value *grad_cast(Grad *g, Value *value, Dtype to) {
    if (type_dtype(value->type) == to) return value;
    Value *cast = GRAD_AS(g, "Cast", to, value);
    node_set_attr_int(cast->producer, "to", to);
    return cast;
}

Value *grad_transpose(Grad *g, Value *value, const int64_t *perm, uint32_t rank) {
    Value *turned = GRAD(g, "Transpose", value);
    node_set_attr_ints(turned->producer, "perm", perm, rank);
    return turned;
}

Value *grad_turn(Grad *g, Value *value, uint32_t rank) {
    int64_t *perm = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    if (rank >= 2) {
        perm[rank - 1] = rank - 2;
        perm[rank - 2] = rank - 1;
    }
    return grad_transpose(g, value, perm, rank);
}

/* The dims, where all are known; else NULL. */
static const int64_t *known_dims(Grad *g, const Value *value, uint32_t *rank) {
    const Type *type = value_shaped_type(value);
    if (!type) return NULL;
    int64_t *dims = ARENA_ARRAY(g->make.ctx->scratch, int64_t, type->rank + 1);
    for (uint32_t i = 0; i < type->rank; i++)
        if ((dims[i] = fuse_dim(value, i)) < 0) return NULL;
    *rank = type->rank;
    return dims;
}

Value *grad_shape(Grad *g, Value *value) {
    uint32_t rank;
    const int64_t *dims = known_dims(g, value, &rank);
    return dims ? grad_ints(g, dims, rank) : GRAD_AS(g, "Shape", DTYPE_INT64, value);
}

Value *grad_dim(Grad *g, Value *value, int64_t axis) {
    const int64_t size = fuse_dim(value, axis);
    if (size >= 0) return grad_int_list(g, size);
    return GRAD(g, "Gather", grad_shape(g, value), grad_int_list(g, axis));
}

Value *grad_list_of(Grad *g, Value *const *lists, size_t count) {
    Value *all = grad_make(g, "Concat", DTYPE_INT64, lists, count);
    node_set_attr_int(all->producer, "axis", 0);
    return all;
}

Value *grad_reshape_like(Grad *g, Value *value, Value *like) {
    Value *shaped = GRAD(g, "Reshape", value, grad_shape(g, like));
    if (g->opset >= 14) node_set_attr_int(shaped->producer, "allowzero", 1);
    return shaped;
}

Value *grad_fill(Grad *g, double number, Value *like) {
    const Dtype dtype = type_dtype(like->type);
    if (fuse_rank(like) == 0) return grad_number(g, number, like);
    Value *filled = GRAD_AS(g, "ConstantOfShape", dtype, grad_shape(g, like));
    uint64_t bits = 0, size = 0;
    static const int64_t one = 1;
    if (!dtype_from_double(dtype, number, &bits) || !dtype_bytes(dtype, 1, &size) || size > 8) {
        grad_refuse(g, "of this type");
        size = 1;
    }
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(bits >> (8 * i));
    node_set_attr_tensor(filled->producer, "value",
                         tensor_new_raw(&g->make.ctx->model->arena, dtype, &one, 1, bytes, size));
    return filled;
}

/* op(value) with axes as an attribute, or as an operand, as the opset has it. */
Value *grad_axes(Grad *g, const char *op, Value *value, GradAxes axes) {
    if (!axes.count) return value;
    const OpSchema *schema = ops_find("", op, g->opset);
    if (!schema || !op_schema_attr(schema, "axes"))
        return GRAD(g, op, value, grad_ints(g, axes.items, axes.count));
    Value *made = GRAD(g, op, value);
    node_set_attr_ints(made->producer, "axes", axes.items, axes.count);
    return made;
}

Value *grad_reduce(Grad *g, const char *op, Value *value, GradAxes axes) {
    if (!axes.count) return value;
    Value *sum = grad_axes(g, op, value, axes);
    node_set_attr_int(sum->producer, "keepdims", 1);
    return sum;
}

Value *grad_reduce_away(Grad *g, const char *op, Value *value, GradAxes axes) {
    if (!axes.count) return value;
    Value *sum = grad_axes(g, op, value, axes);
    node_set_attr_int(sum->producer, "keepdims", 0);
    return sum;
}

void grad_keep_attrs(Grad *g, Node *made) {
    Arena *arena = &g->make.ctx->model->arena;
    Attr **last = &made->attrs;
    for (const Attr *attr = g->node->attrs; attr; attr = attr->next) {
        uint32_t count;
        attr_held_graphs(attr, &count);
        if (count) grad_refuse(g, "with a subgraph");
        Attr *copy = arena_copy(arena, attr, sizeof *attr);
        copy->next = NULL;
        *last = copy;
        last = &copy->next;
    }
}

/* ---- what was broadcast ---------------------------------------------------------------------- */

/* As grad_sum_to, where only running can tell along which axes: those whose sizes differ. */
static Value *sum_at_run(Grad *g, Value *value, Value *like) {
    if (g->opset < 13) {
        grad_refuse(g, "before opset 13, broadcast shapes must be known");
        return value;
    }
    Value *have = GRAD_AS(g, "Shape", DTYPE_INT64, value);
    Value *want = GRAD_AS(g, "Shape", DTYPE_INT64, like);
    Value *more = GRAD(g, "Sub", GRAD_AS(g, "Shape", DTYPE_INT64, have),
                       GRAD_AS(g, "Shape", DTYPE_INT64, want));
    static const int64_t one = 1;
    Value *ones = GRAD(g, "ConstantOfShape", more);
    node_set_attr_tensor(ones->producer, "value",
                         tensor_new_raw(&g->make.ctx->model->arena, DTYPE_INT64, &one, 1, &one, 8));
    Value *same = GRAD_AS(g, "Equal", DTYPE_BOOL, have, GRAD_LIST(g, ones, want));
    Value *places = GRAD_AS(g, "NonZero", DTYPE_INT64, GRAD(g, "Not", same));
    Value *axes = GRAD(g, "Reshape", places, grad_int_list(g, -1));
    Value *sum = GRAD(g, "ReduceSum", value, axes);
    node_set_attr_int(sum->producer, "keepdims", 1);
    node_set_attr_int(sum->producer, "noop_with_empty_axes", 1);
    Value *shaped = GRAD(g, "Reshape", sum, want);
    if (g->opset >= 14) node_set_attr_int(shaped->producer, "allowzero", 1);
    return shaped;
}

typedef enum Along { ALONG_NOT, ALONG_YES, ALONG_UNKNOWN } Along;

static Along is_along(const Dim *have, const Dim *want) {
    const bool one = have->kind == DIM_KNOWN && have->size == 1;
    if (one || (want->kind == DIM_KNOWN && want->size != 1)) return ALONG_NOT;
    if (want->kind == DIM_KNOWN) return ALONG_YES;
    return dim_same(have, want) ? ALONG_NOT : ALONG_UNKNOWN;
}

Value *grad_sum_to(Grad *g, Value *value, const Type *shape, Value *like) {
    const Type *want = value_shaped_type(like);
    if (!shape || !shape->has_shape || !want || want->rank > shape->rank)
        return sum_at_run(g, value, like);
    const uint32_t more = shape->rank - want->rank;
    int64_t *axes = ARENA_ARRAY(g->make.ctx->scratch, int64_t, shape->rank + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < want->rank; i++) {
        const Along along = is_along(&shape->dims[more + i], &want->dims[i]);
        if (along == ALONG_UNKNOWN) return sum_at_run(g, value, like);
        if (along == ALONG_YES) axes[count++] = i;
    }
    int64_t *leading = ARENA_ARRAY(g->make.ctx->scratch, int64_t, more + 1);
    for (uint32_t i = 0; i < more; i++) leading[i] = i;
    value = grad_reduce_away(g, "ReduceSum", value, (GradAxes){leading, more});
    return grad_reduce(g, "ReduceSum", value, (GradAxes){axes, count});
}

void grad_give_sum(Grad *g, uint32_t i, Value *value) {
    grad_give(g, i, grad_sum_to(g, value, value_type(grad_out(g, 0)), grad_in(g, i)));
}

/* ---- flows ----------------------------------------------------------------------------------- */

bool grad_wants(const Grad *g, uint32_t i) {
    const Value *value = grad_in(g, i);
    return value && g->walk->varies[value->id];
}

void grad_give(Grad *g, uint32_t i, Value *value) {
    grad_give_value(g, grad_in(g, i), value);
}

void grad_give_value(Grad *g, const Value *to, Value *value) {
    VEC_PUSH(g->make.ctx->scratch, &g->walk->flows[to->id], value);
}

Value *grad_total(Grad *g, const Value *value) {
    Flows *flows = &g->walk->flows[value->id];
    if (!flows->count) return NULL;
    if (flows->count > 1) {
        Value *sum = grad_make(g, flows->count == 2 ? "Add" : "Sum", DTYPE_UNDEFINED, flows->items,
                               flows->count);
        flows->items[0] = sum;
        flows->count = 1;
    }
    return flows->items[0];
}

Value *grad_flow(Grad *g, uint32_t i) {
    const Value *value = grad_out(g, i);
    return value ? grad_total(g, value) : NULL;
}

/* ---- tidying -------------------------------------------------------------------------------- */

static bool is_unused(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && (node->outputs[i]->uses || node->outputs[i]->referenced))
            return false;
    return true;
}

void gradient_sweep(PassCtx *ctx, const Node *before, Node *at) {
    model_batch_removals(ctx->model);
    for (Node *node = at->prev, *next; node && node != before; node = next) {
        next = node->prev;
        if (!is_unused(node)) continue;
        const uint32_t count = node->input_count;
        Value **reads = ARENA_ARRAY(ctx->scratch, Value *, count + 1);
        for (uint32_t i = 0; i < count; i++) reads[i] = node->inputs[i].value;
        node_remove_unswept(node);
        for (uint32_t i = 0; i < count; i++) {
            Value *value = reads[i];
            if (value && value->init && !value->uses && !value->referenced && !value->input)
                graph_remove_initializer(value);
        }
    }
    model_sweep(ctx->model, ctx->scratch);
}
