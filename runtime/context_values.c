// SPDX-License-Identifier: Apache-2.0
/* Values as callers see them, and whether a model takes them; see context.h. */
#include "context.h"

#include <stdio.h>

static bool wrong_type(const DemiPlanIo *io, const DemiData *value, Err *err) {
    err_set(err, ERR_USAGE, "wrong type");
    err_expected(err, "%s", dtype_name((Dtype)io->dtype));
    err_actual(err, "%s", dtype_name((Dtype)value->dtype));
    return false;
}

enum { SHAPE_TEXT = 200 };

/* "[2,?,3]"; cut where it is longer than that. */
static void put_shape(uint32_t rank, const int64_t *dims, char text[SHAPE_TEXT]) {
    size_t at = 0;
    text[at++] = '[';
    for (uint32_t i = 0; i < rank && at + 24 < SHAPE_TEXT; i++)
        at += (size_t)(dims[i] < 0 ? snprintf(text + at, SHAPE_TEXT - at, "%s?", i ? "," : "")
                                   : snprintf(text + at, SHAPE_TEXT - at, "%s%lld", i ? "," : "",
                                              (long long)dims[i]));
    snprintf(text + at, SHAPE_TEXT - at, "]");
}

static bool wrong_shape(const DemiPlanIo *io, const DemiData *value, Err *err) {
    char expected[SHAPE_TEXT], actual[SHAPE_TEXT];
    put_shape(io->rank, io->dims, expected);
    put_shape(value->rank, value->dims, actual);
    err_set(err, ERR_USAGE, "wrong shape");
    err_expected(err, "%s", expected);
    err_actual(err, "%s", actual);
    return false;
}

static bool items_fit(const DemiPlanIo *io, const DemiData *value, Err *err) {
    for (size_t i = 0; i < value->count; i++)
        if (value->items[i].kind == DEMI_DATA_TENSOR_KIND && value->items[i].dtype != io->dtype)
            return wrong_type(io, &value->items[i], err);
    return true;
}

bool context_fits(const DemiPlanIo *io, const DemiData *value, Err *err) {
    if (value->kind == DEMI_DATA_NONE) {
        if (io->optional) return true;
        return err_set(err, ERR_USAGE, "it is not an optional, so it needs a value");
    }
    if (value->kind != io->kind) {
        err_set(err, ERR_USAGE, "wrong kind of value");
        err_expected(err, io->kind == DEMI_DATA_SEQUENCE_KIND ? "a sequence" : "a tensor");
        return false;
    }
    if (value->kind == DEMI_DATA_SEQUENCE_KIND) return items_fit(io, value, err);
    if (value->dtype != io->dtype) return wrong_type(io, value, err);
    bool same = !io->has_rank || value->rank == io->rank;
    for (uint32_t i = 0; same && io->has_rank && i < io->rank; i++)
        same = io->dims[i] < 0 || value->dims[i] == io->dims[i];
    return same || wrong_shape(io, value, err);
}

static DemiData give_tensor(const RtTensor *tensor) {
    const KernelTensor *t = &tensor->tensor;
    DemiData value = DEMI_DATA_TENSOR((int32_t)t->dtype, t->rank, t->dims, t->data);
    return value;
}

DemiData context_give(Arena *arena, const RtValue *value) {
    DemiData given = DEMI_DATA_INIT;
    if (value->state == RT_TENSOR) return give_tensor(value->tensor);
    if (value->state != RT_LIST) return given;
    DemiData *items = ARENA_ARRAY(arena, DemiData, value->list->count);
    for (uint32_t i = 0; i < value->list->count; i++)
        items[i] = context_give(arena, &value->list->items[i]);
    given.kind = DEMI_DATA_SEQUENCE_KIND;
    given.count = value->list->count;
    given.items = items;
    return given;
}

bool context_has_text(const RtValue *value) {
    if (value->state == RT_TENSOR) return value->tensor->tensor.dtype == DTYPE_STRING;
    for (uint32_t i = 0; value->state == RT_LIST && i < value->list->count; i++)
        if (context_has_text(&value->list->items[i])) return true;
    return false;
}
