// SPDX-License-Identifier: Apache-2.0
/* Batches of samples; see batches.h. The order of an epoch is a function of the seed and its number
 * alone, so that training goes on in any process where another one ended. */
#include "batches.h"

#include <string.h>

#include "checked.h"
#include "dtype.h"
#include "value_io.h"

/* ---- arrays ---------------------------------------------------------------------------------- */

static bool fits(const DemiData *data, const DemiPlanIo *io) {
    if (data->rank < 1 || data->rank != io->rank) return false;
    for (size_t i = 1; i < data->rank; i++)
        if (io->dims[i] >= 0 && io->dims[i] != data->dims[i]) return false;
    return true;
}

/* The same elements as int64, float or double. */
static bool as_type(Arena *arena, const DemiData *data, int32_t dtype, DemiData *made) {
    *made = *data;
    if (data->dtype == dtype) return true;
    if (dtype_is_float((Dtype)dtype) && dtype_is_float((Dtype)data->dtype)) {
        *made = value_convert(arena, data, dtype);
        return true;
    }
    if (!dtype_is_integer((Dtype)data->dtype) && data->dtype != DTYPE_BOOL)
        return false; /* floats are no labels */
    const uint64_t count = value_count(data);
    int64_t *numbers = dtype == DTYPE_INT64 ? ARENA_ARRAY(arena, int64_t, count + 1) : NULL;
    float *floats = dtype == DTYPE_FLOAT ? ARENA_ARRAY(arena, float, count + 1) : NULL;
    double *doubles = dtype == DTYPE_DOUBLE ? ARENA_ARRAY(arena, double, count + 1) : NULL;
    if (!numbers && !floats && !doubles) return false;
    for (uint64_t i = 0; i < count; i++) {
        const double item = value_item(data, i);
        if (numbers) numbers[i] = (int64_t)item;
        if (floats) floats[i] = (float)item;
        if (doubles) doubles[i] = item;
    }
    made->dtype = dtype;
    made->data = numbers ? (void *)numbers : floats ? (void *)floats : (void *)doubles;
    return true;
}

bool batches_add(Batches *b, const char *name, const DemiData *data, const DemiPlanIo *io,
                 Err *err) {
    BatchData item = {.name = name};
    if (data->kind != DEMI_DATA_TENSOR_KIND || !fits(data, io) ||
        !as_type(b->arena, data, io->dtype, &item.all))
        return err_set(err, ERR_USAGE, "array '%s' is %s, but samples of the model's %s are needed",
                       name, value_type_text(b->arena, data), value_io_text(b->arena, io));
    const uint64_t samples = (uint64_t)data->dims[0];
    if (b->count && samples != b->samples)
        return err_set(err, ERR_USAGE, "array '%s' has %llu samples, but '%s' has %llu", name,
                       (unsigned long long)samples, b->items[0].name,
                       (unsigned long long)b->samples);
    b->samples = samples;
    BatchData *items = ARENA_ARRAY(b->arena, BatchData, b->count + 1);
    if (b->count) memcpy(items, b->items, b->count * sizeof *items);
    items[b->count++] = item;
    b->items = items;
    return true;
}

bool batches_begin(Batches *b, Err *err) {
    if (!b->count) return err_set(err, ERR_USAGE, "there is no data to train on");
    if (b->samples < b->batch)
        return err_set(err, ERR_USAGE, "there are %llu samples, fewer than a batch of %llu",
                       (unsigned long long)b->samples, (unsigned long long)b->batch);
    for (size_t i = 0; i < b->count; i++) {
        BatchData *item = &b->items[i];
        int64_t *dims = arena_copy(b->arena, item->all.dims, item->all.rank * sizeof *dims);
        const uint64_t elements = value_count(&item->all) / b->samples;
        uint64_t size;
        if (!dtype_bytes((Dtype)item->all.dtype, elements, &item->sample) ||
            !checked_mul(item->sample, b->batch, &size))
            return err_set(err, ERR_ENV, "a batch of '%s' is too large", item->name);
        dims[0] = (int64_t)b->batch;
        item->batch = item->all;
        item->batch.dims = dims;
        item->batch.data = arena_alloc(b->arena, (size_t)size + 1);
    }
    b->order = ARENA_ARRAY(b->arena, uint64_t, b->samples);
    b->epoch = UINT64_MAX;
    return true;
}

uint64_t batches_steps(const Batches *b) {
    return b->samples / b->batch;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Steele, Lea and Flood's SplitMix64 (2014). */
static uint64_t next_number(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Fisher and Yates's. The remainder's bias is below the samples' share of 2^64. */
static void shuffle(Batches *b, uint64_t epoch) {
    uint64_t state = b->seed;
    state = next_number(&state) ^ epoch;
    for (uint64_t i = 0; i < b->samples; i++) b->order[i] = i;
    for (uint64_t i = b->samples - 1; i > 0 && !b->in_order; i--) {
        const uint64_t k = next_number(&state) % (i + 1), kept = b->order[i];
        b->order[i] = b->order[k];
        b->order[k] = kept;
    }
    b->epoch = epoch;
}

void batches_fill(Batches *b, uint64_t step) {
    const uint64_t epoch = step / batches_steps(b), first = step % batches_steps(b) * b->batch;
    if (b->epoch != epoch) shuffle(b, epoch);
    for (size_t i = 0; i < b->count; i++) {
        const BatchData *item = &b->items[i];
        char *to = (char *)(uintptr_t)item->batch.data;
        const char *from = item->all.data;
        for (uint64_t k = 0; k < b->batch; k++, to += item->sample)
            memcpy(to, from + b->order[first + k] * item->sample, (size_t)item->sample);
    }
}
