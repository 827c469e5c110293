// SPDX-License-Identifier: Apache-2.0
/* What is known of quantized values, and constants for operators on bytes; see quantized_value.h. */
#include "quantized_value.h"

#include <math.h>

#include "constants.h"

enum { SCALE = 1, ZERO = 2 };

/* ---- questions ------------------------------------------------------------------------------- */

bool quantized_is_number(const Value *value) {
    const int64_t rank = fuse_rank(value);
    for (int64_t i = 0; i < rank; i++)
        if (fuse_dim(value, i) != 1) return false;
    return rank >= 0;
}

static bool is_float(const Value *value) {
    return fuse_takes(value) && type_dtype(value->type) == DTYPE_FLOAT;
}

static bool read_zero(const Fuse *fuse, const Value *zero, int32_t *number) {
    int64_t *numbers;
    uint64_t count;
    *number = 0;
    if (!zero) return true;
    const Tensor *tensor = constant_tensor(zero, fuse->ctx->scratch);
    if (!tensor || !tensor_check(tensor, NULL) ||
        !tensor_read_ints(tensor, fuse->ctx->scratch, 1, &numbers, &count) || count != 1)
        return false;
    *number = (int32_t)numbers[0];
    return true;
}

static void read_single(const Fuse *fuse, Quantized *found) {
    found->single = quantized_is_number(found->scale) &&
                    constant_scalar(found->scale, &found->step) && found->step >= QUANTIZED_LEAST &&
                    found->step <= QUANTIZED_MOST && read_zero(fuse, found->zero, &found->offset);
}

static bool is_narrow(const Value *value) {
    return fuse_takes_bytes(value);
}

/* 16 bits, too: no kernel computes with these, but they can be rounded to. */
static bool is_integer(const Value *value) {
    const Type *type = value_type(value);
    if (!type || type->kind != TYPE_TENSOR) return false;
    return fuse_takes_bytes(value) || type->dtype == DTYPE_INT16 || type->dtype == DTYPE_UINT16;
}

/* What is left to say of a node whose bytes are set, which `takes` must hold of. */
static bool read_node(const Fuse *fuse, Node *node, bool (*takes)(const Value *),
                      Quantized *found) {
    const Attr *axis = node_attr(node, "axis"), *block = node_attr(node, "block_size");
    const Attr *precision = node_attr(node, "precision");
    found->node = node;
    found->scale = fuse_input(node, SCALE);
    found->zero = fuse_input(node, ZERO);
    if (!found->bytes || !takes(found->bytes) || !found->scale || !is_float(found->scale) ||
        (axis && axis->ref) || (block && (block->ref || node_attr_int(node, "block_size", 0))) ||
        precision)
        return false;
    found->dtype = type_dtype(found->bytes->type);
    if (found->zero && (!takes(found->zero) || type_dtype(found->zero->type) != found->dtype))
        return false;
    read_single(fuse, found);
    const int64_t rank = fuse_rank(found->bytes);
    found->axis = node_attr_int(node, "axis", 1);
    if (found->axis < 0) found->axis += rank;
    return true;
}

static bool read_source(const Fuse *fuse, const Value *value, bool (*takes)(const Value *),
                        Quantized *found) {
    *found = (Quantized){0};
    if (!value || !fuse_is(value->producer, "DequantizeLinear") || !is_float(value)) return false;
    found->bytes = fuse_input(value->producer, 0);
    return read_node(fuse, value->producer, takes, found);
}

static bool read_target(const Fuse *fuse, Node *node, bool (*takes)(const Value *),
                        Quantized *found) {
    *found = (Quantized){0};
    if (!fuse_is(node, "QuantizeLinear")) return false;
    const Value *from = fuse_input(node, 0);
    if (!from || !is_float(from)) return false;
    found->bytes = node->outputs[0];
    return read_node(fuse, node, takes, found);
}

bool quantized_source(const Fuse *fuse, const Value *value, Quantized *found) {
    return read_source(fuse, value, is_narrow, found);
}

bool quantized_target(const Fuse *fuse, Node *node, Quantized *found) {
    return read_target(fuse, node, is_narrow, found);
}

bool quantized_rounding(const Fuse *fuse, const Value *value, Quantized *found) {
    Quantized back;
    return read_source(fuse, value, is_integer, &back) && fuse_reader(back.bytes) &&
           back.bytes->producer && read_target(fuse, back.bytes->producer, is_integer, found) &&
           quantized_alike(&back, found);
}

bool quantized_alike(const Quantized *a, const Quantized *b) {
    return a->single && b->single && a->dtype == b->dtype && a->step == b->step &&
           a->offset == b->offset;
}

/* ---- constants ------------------------------------------------------------------------------- */

static Value *new_constant(Fuse *fuse, Graph *graph, const Type *type, const Tensor *tensor) {
    Value *value = value_new(graph, sym_fresh(&fuse->ctx->model->syms, "quantized"));
    value_set_type(value, type);
    value_set_init(value, tensor);
    return value;
}

Value *quantized_new_float(Fuse *fuse, Graph *graph, float number) {
    Arena *arena = &fuse->ctx->model->arena;
    return new_constant(fuse, graph, type_new_shaped(arena, DTYPE_FLOAT, NULL, 0),
                        tensor_new_raw(arena, DTYPE_FLOAT, NULL, 0, &number, sizeof number));
}

Value *quantized_new_channels(Fuse *fuse, Graph *graph, const float *items,
                              const Channels *channels) {
    Arena *arena = &fuse->ctx->model->arena;
    const uint32_t rank = (uint32_t)channels->rank, axis = rank > 1;
    int64_t *dims = ARENA_ARRAY(arena, int64_t, rank);
    Dim *shape = ARENA_ARRAY(arena, Dim, rank);
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == axis ? (int64_t)channels->count : 1;
        shape[i] = (Dim){.kind = DIM_KNOWN, .size = dims[i]};
    }
    return new_constant(
        fuse, graph, type_new_shaped(arena, DTYPE_FLOAT, shape, rank),
        tensor_new_raw(arena, DTYPE_FLOAT, dims, rank, items, channels->count * sizeof *items));
}

Value *quantized_new_byte(Fuse *fuse, Graph *graph, Dtype dtype, int32_t number) {
    const uint8_t byte = (uint8_t)number;
    const Type *type = type_new_shaped(&fuse->ctx->model->arena, dtype, NULL, 0);
    return quantized_new_bytes(fuse, graph, type, &byte);
}

Value *quantized_new_bytes(Fuse *fuse, Graph *graph, const Type *type, const void *bytes) {
    Arena *arena = &fuse->ctx->model->arena;
    int64_t *dims = ARENA_ARRAY(arena, int64_t, type->rank + 1);
    uint64_t size = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i].size;
        size *= (uint64_t)dims[i];
    }
    return new_constant(fuse, graph, type,
                        tensor_new_raw(arena, type_dtype(type), dims, type->rank, bytes, size));
}

Value *quantized_new_like(Fuse *fuse, Graph *graph, const Value *constant) {
    return new_constant(fuse, graph, constant->type, constant->init);
}

Value *quantized_zero(const Quantized *quantized) {
    return quantized->offset ? quantized->zero : NULL;
}

/* ---- results --------------------------------------------------------------------------------- */

bool quantized_find_bounds(const Fuse *fuse, const Value *value, FuseActivation *found) {
    const Node *reader = fuse_reader(value);
    const bool bounds = fuse_is(reader, "Relu") || fuse_is(reader, "Clip");
    *found = (FuseActivation){0};
    if (bounds && !fuse_find_activation(fuse, value, found)) *found = (FuseActivation){0};
    if (!found->name) return false;
    if (fuse_is(reader, "Relu")) {
        found->params[0] = 0;
        found->params[1] = HUGE_VALF;
    }
    if (found->node_count == 1 && found->params[0] <= found->params[1]) return true;
    *found = (FuseActivation){0};
    return false;
}

void quantized_set_result(Fuse *fuse, Node *made, const QuantizedResult *result,
                          const uint32_t places[2]) {
    const Quantized *to = result->to;
    const FuseActivation *activation = result->activation;
    for (uint32_t i = 0; activation->name && i < 2; i++)
        if (isfinite(activation->params[i]))
            node_set_input(made, places[QUANTIZED_LOW] + i,
                           quantized_new_float(fuse, made->graph,
                                               activation->params[i] / (to ? to->step : 1)));
    if (to)
        node_set_input(made, places[QUANTIZED_ZERO],
                       to->zero ? to->zero : quantized_new_byte(fuse, made->graph, to->dtype, 0));
    const Dtype dtype = to ? to->dtype : DTYPE_FLOAT;
    if (dtype != type_dtype(made->inputs[0].value->type)) node_set_attr_int(made, "to", dtype);
}
