// SPDX-License-Identifier: Apache-2.0
/* Constants in a narrower type; see constant_store.h. */
#include "constant_store.h"

#include "constants.h"
#include "tensor_statistics.h"

const Tensor *constant_storable(const Value *value) {
    if (value->referenced || !value_is_constant(value)) return NULL;
    const Tensor *tensor = constant_tensor(value, &value->graph->model->arena);
    bool is_float = tensor && dtype_is_working(tensor->dtype);
    return is_float && tensor_check(tensor, NULL) ? tensor : NULL;
}

bool constant_count_loss(ConstantStore *store, const Value *value, const Tensor *tensor, Dtype to,
                         Err *err) {
    PassCounts *counts = store->ctx->counts;
    ValueStatistics statistics;
    if (!tensor_statistics(store->ctx->statistics, tensor, to, &statistics, err)) return false;
    counts->overflow += statistics.overflow;
    counts->underflow += statistics.underflow;
    counts->subnormal += statistics.subnormal;
    if (!statistics_loses(&statistics)) return true;
    LossFate fate = store->clamp && statistics.overflow ? LOSS_CLAMPED : LOSS_STORED;
    pass_note_loss(
        counts, &store->ctx->model->arena,
        (TensorLoss){.name = sym_text(value->name), .fate = fate, .statistics = statistics});
    return true;
}

const Tensor *constant_as(ConstantStore *store, const Tensor *tensor, Dtype to) {
    Arena *arena = &store->ctx->model->arena;
    return store->clamp ? tensor_new_cast_clamped(arena, tensor, to)
                        : tensor_new_cast(arena, tensor, to);
}

void constant_note(Node *node, Dtype to) {
    NodeNote *note = ARENA_NEW(&node->graph->model->arena, NodeNote);
    if (node->note) *note = *node->note;
    note->dtype = to;
    note->kind = NOTE_CONSTANT;
    note->reason = "a constant that is stored in 16-bit";
    node->note = note;
}

void constant_store(ConstantStore *store, Value *value, const Tensor *tensor, Dtype to) {
    Arena *arena = &value->graph->model->arena;
    constant_replace(value, constant_as(store, tensor, to));
    value_set_type(value, type_memo_with_dtype(&store->types, arena, value->type, to));
    value_sync_info(value);
    if (value->producer && value->producer->note) constant_note(value->producer, to);
}
