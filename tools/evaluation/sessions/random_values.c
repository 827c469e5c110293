// SPDX-License-Identifier: Apache-2.0
/* See random_values.h, which is also what makes others' copies of this generator agree. */
#define _DEFAULT_SOURCE /* sysconf */
#include "random_values.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "checked.h"
#include "dtype.h"
#include "kernel.h"

enum { SEQUENCE_ITEMS = 2, RANDOM_STRINGS = 10 };

static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t key_of(uint64_t seed, const char *name) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return mix(seed + hash);
}

static double normal(uint64_t h) {
    uint64_t sum = (h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48);
    return ((double)sum - 131070.0) / 37837.227;
}

static uint64_t element(Dtype dtype, uint64_t h) {
    uint64_t bits = 0;
    unsigned width = dtype_bits(dtype);
    if (dtype == DTYPE_FLOAT8E8M0)
        dtype_from_double(dtype, ldexp(1, (int)floor(normal(h))), &bits);
    else if (dtype_is_float(dtype))
        dtype_from_double(dtype, normal(h), &bits);
    else if (dtype == DTYPE_BOOL)
        bits = h & 1;
    else if (width <= 8)
        bits = h & ((1u << width) - 1);
    else
        bits = h % 3;
    return bits;
}

static void *make_strings(Arena *arena, uint64_t key, uint64_t count) {
    DemiString *strings = ARENA_ARRAY(arena, DemiString, count + 1);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t h = mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
        strings[i] = (DemiString){2, arena_printf(arena, "s%u", (unsigned)(h % RANDOM_STRINGS))};
    }
    return strings;
}

/* ---- what readers ask for -------------------------------------------------------------------- */

/* The whole numbers that a type holds, within what a reader takes. */
static void limits(Dtype dtype, const InputUse *use, int64_t *low, int64_t *high) {
    unsigned width = dtype_bits(dtype);
    bool is_signed = dtype_is_float(dtype) || dtype == DTYPE_INT8 || dtype == DTYPE_INT16 ||
                     dtype == DTYPE_INT32 || dtype == DTYPE_INT64 || dtype == DTYPE_INT4 ||
                     dtype == DTYPE_INT2;
    int64_t most = width >= 63 ? INT64_MAX : (INT64_C(1) << (is_signed ? width - 1 : width)) - 1;
    if (dtype == DTYPE_BOOL) most = 1;
    int64_t least = is_signed ? -most - 1 : 0;
    *low = use->low > least ? use->low : least;
    *high = use->high < most ? use->high : most;
    if (*low > *high) *low = *high;
}

typedef struct Draw {
    const InputUse *use;
    Dtype dtype;
    uint64_t count, last; /* elements, of the last axis */
    int64_t low, high;
} Draw;

static int64_t within(const Draw *d, double value) {
    return value <= (double)d->low ? d->low : value >= (double)d->high ? d->high : (int64_t)value;
}

static int64_t number(const Draw *d, uint64_t i, uint64_t h) {
    const InputUse *use = d->use;
    int64_t low = use->low == INT64_MIN ? within(d, 0) : d->low;
    int64_t high = use->high == INT64_MAX ? within(d, (double)low + 2) : d->high;
    int64_t parts = (int64_t)d->count, made = 0;
    switch (use->kind) {
    case INPUT_ANY:
    case INPUT_RANGE:
        made = low + (int64_t)(h % ((uint64_t)high - (uint64_t)low + 1));
        if (use->avoids && made == use->avoided) made = made < high ? made + 1 : low;
        break;
    case INPUT_FILL: made = within(d, use->fill); break;
    case INPUT_ASCENDING:
        made = (int64_t)(d->last ? i % d->last : 0);
        if (made > d->high) made = d->high < 0 ? d->high : made % (d->high + 1);
        break;
    case INPUT_RESHAPE: made = i ? 1 : -1; break;
    case INPUT_PARTS: made = d->high / parts + (i + 1 == d->count ? d->high % parts : 0); break;
    }
    return made;
}

/* The bits of element i where its reader asks for something; false where anything will do. */
static bool asked(const Draw *d, uint64_t i, uint64_t h, uint64_t *bits) {
    const InputUse *use = d->use;
    if (use->kind == INPUT_ANY && !use->avoids) return false;
    if (!dtype_is_integer(d->dtype) && d->dtype != DTYPE_BOOL) {
        double value = use->kind == INPUT_RANGE ? (double)number(d, i, h) : use->fill;
        return (use->kind == INPUT_FILL || use->kind == INPUT_RANGE) &&
               dtype_from_double(d->dtype, value, bits);
    }
    if (use->kind == INPUT_ANY && dtype_bits(d->dtype) <= 8) return false;
    unsigned width = dtype_bits(d->dtype);
    *bits = (uint64_t)number(d, i, h);
    if (width < 64) *bits &= (UINT64_C(1) << width) - 1;
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void *make_elements(Arena *arena, Draw draw, uint64_t key) {
    bool complex = draw.dtype == DTYPE_COMPLEX64 || draw.dtype == DTYPE_COMPLEX128;
    if (complex) { /* real and imaginary parts in turn */
        draw.dtype = draw.dtype == DTYPE_COMPLEX64 ? DTYPE_FLOAT : DTYPE_DOUBLE;
        draw.count *= 2;
    }
    size_t size = kernel_element_size(draw.dtype);
    unsigned char *data = arena_array(arena, draw.count + 1, size);
    limits(draw.dtype, draw.use, &draw.low, &draw.high);
    for (uint64_t i = 0; i < draw.count; i++) {
        uint64_t h = mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15)), bits = 0;
        if (!asked(&draw, i, h, &bits)) bits = element(draw.dtype, h);
        memcpy(data + i * size, &bits, size);
    }
    return data;
}

/* A shape is the file's: what the machine has no memory for is refused before any is touched. */
static bool is_affordable(uint64_t bytes) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
    return pages <= 0 || size <= 0 || bytes < (uint64_t)pages * (uint64_t)size / 2;
}

static bool random_tensor(Arena *arena, uint64_t key, const RandomInput *input, DemiData *value,
                          Err *err) {
    const DemiPlanIo *io = input->io;
    Draw draw = {.use = &input->use, .dtype = (Dtype)io->dtype, .last = 1};
    uint64_t bytes;
    int64_t *dims = arena_copy(arena, io->dims, io->rank * sizeof *dims);
    for (uint32_t i = 0; i < io->rank; i++)
        if (dims[i] < 0) dims[i] = 1;
    if (io->rank) draw.last = (uint64_t)dims[io->rank - 1];
    if (!kernel_element_size(draw.dtype)) return err_set(err, ERR_USAGE, "its type is not known");
    if (!checked_count(dims, io->rank, &draw.count) ||
        !checked_mul(draw.count, kernel_element_size(draw.dtype), &bytes) || !is_affordable(bytes))
        return err_set(err, ERR_USAGE, "its shape is too large for this machine's memory");
    void *data = draw.dtype == DTYPE_STRING ? make_strings(arena, key, draw.count)
                                            : make_elements(arena, draw, key);
    DemiData made = DEMI_DATA_TENSOR(io->dtype, io->rank, dims, data);
    *value = made;
    return true;
}

bool random_value(Arena *arena, const RandomInput *input, DemiData *value, Err *err) {
    const DemiPlanIo *io = input->io;
    if (!io->has_rank) {
        err_set(err, ERR_USAGE, "its shape is not known");
        err_hint(err, "give it with --shape %s=...", io->name);
        return false;
    }
    if (io->kind != DEMI_DATA_SEQUENCE_KIND)
        return random_tensor(arena, key_of(input->seed, io->name), input, value, err);
    DemiData *items = ARENA_ARRAY(arena, DemiData, SEQUENCE_ITEMS);
    for (int i = 0; i < SEQUENCE_ITEMS; i++) {
        uint64_t key = key_of(input->seed, arena_printf(arena, "%s[%d]", io->name, i));
        if (!random_tensor(arena, key, input, &items[i], err)) return false;
    }
    DemiData made = DEMI_DATA_SEQUENCE(SEQUENCE_ITEMS, items);
    *value = made;
    return true;
}
