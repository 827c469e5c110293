// SPDX-License-Identifier: Apache-2.0
/* See value_sums.h. */
#include "value_sums.h"

#include <math.h>

#include "dtype.h"
#include "value_io.h"

bool value_is_floats(const DemiData *value) {
    return value->kind == DEMI_DATA_TENSOR_KIND && dtype_is_float((Dtype)value->dtype);
}

bool value_count_finite(const DemiData *value, uint64_t *all, uint64_t *finite) {
    if (!value_is_floats(value) || value->dtype != DEMI_FLOAT) return false;
    const float *items = value->data;
    const uint64_t count = value_count(value);
    *all += count;
    for (uint64_t i = 0; i < count; i++) *finite += isfinite(items[i]) != 0;
    return true;
}

bool value_same_shape(const DemiData *a, const DemiData *b) {
    bool same = a->kind == b->kind && a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    return same;
}

static void add_floats(ValueSums *o, const float *want, const float *have, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        const double y = want[i], z = have[i], off = fabs(z - y);
        if (!isfinite(y)) continue;
        o->broken = o->broken || !isfinite(z);
        o->signal += y * y;
        o->size += z * z;
        o->product += y * z;
        o->noise += off * off;
        if (off > o->most) o->most = off;
        if (fabs(y) > o->largest) o->largest = fabs(y);
    }
}

void value_sums_add(ValueSums *sums, const DemiData *want, const DemiData *have) {
    if (want->kind == DEMI_DATA_SEQUENCE_KIND && have->kind == want->kind &&
        have->count == want->count) {
        for (size_t k = 0; k < want->count; k++)
            value_sums_add(sums, &want->items[k], &have->items[k]);
        return;
    }
    if (!value_is_floats(want)) return;
    if (!value_is_floats(have) || !value_same_shape(want, have) || want->dtype != DTYPE_FLOAT ||
        have->dtype != DTYPE_FLOAT)
        sums->broken = true;
    else
        add_floats(sums, want->data, have->data, value_count(want));
}

void value_sums_join(ValueSums *sums, const ValueSums *other) {
    sums->signal += other->signal;
    sums->noise += other->noise;
    sums->product += other->product;
    sums->size += other->size;
    sums->most = fmax(sums->most, other->most);
    sums->largest = fmax(sums->largest, other->largest);
    sums->broken = sums->broken || other->broken;
}

double value_sums_noise(const ValueSums *sums) {
    if (sums->broken) return INFINITY;
    if (sums->noise == 0) return 0;
    const double noise = sums->noise / sums->signal;
    return isnan(noise) ? INFINITY : noise;
}
