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

static void *make_elements(Arena *arena, Dtype dtype, uint64_t key, uint64_t count) {
    bool complex = dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128;
    if (complex) { /* real and imaginary parts in turn */
        dtype = dtype == DTYPE_COMPLEX64 ? DTYPE_FLOAT : DTYPE_DOUBLE;
        count *= 2;
    }
    size_t size = kernel_element_size(dtype);
    unsigned char *data = arena_array(arena, count + 1, size);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = element(dtype, mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15)));
        memcpy(data + i * size, &bits, size);
    }
    return data;
}

/* A shape is the file's: what the machine has no memory for is refused before any is touched. */
static bool is_affordable(uint64_t bytes) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
    return pages <= 0 || size <= 0 || bytes < (uint64_t)pages * (uint64_t)size / 2;
}

static bool random_tensor(Arena *arena, uint64_t key, const DemiPlanIo *io, DemiData *value,
                          Err *err) {
    Dtype dtype = (Dtype)io->dtype;
    uint64_t count, bytes;
    int64_t *dims = arena_copy(arena, io->dims, io->rank * sizeof *dims);
    for (uint32_t i = 0; i < io->rank; i++)
        if (dims[i] < 0) dims[i] = 1;
    if (!kernel_element_size(dtype)) return err_set(err, ERR_USAGE, "its type is not known");
    if (!checked_count(dims, io->rank, &count) ||
        !checked_mul(count, kernel_element_size(dtype), &bytes) || !is_affordable(bytes))
        return err_set(err, ERR_USAGE, "its shape is too large for this machine's memory");
    void *data = dtype == DTYPE_STRING ? make_strings(arena, key, count)
                                       : make_elements(arena, dtype, key, count);
    DemiData made = DEMI_DATA_TENSOR(io->dtype, io->rank, dims, data);
    *value = made;
    return true;
}

bool random_value(Arena *arena, uint64_t seed, const DemiPlanIo *io, DemiData *value, Err *err) {
    if (!io->has_rank) {
        err_set(err, ERR_USAGE, "its shape is not known");
        err_hint(err, "give it with --shape %s=...", io->name);
        return false;
    }
    if (io->kind != DEMI_DATA_SEQUENCE_KIND)
        return random_tensor(arena, key_of(seed, io->name), io, value, err);
    DemiData *items = ARENA_ARRAY(arena, DemiData, SEQUENCE_ITEMS);
    for (int i = 0; i < SEQUENCE_ITEMS; i++) {
        uint64_t key = key_of(seed, arena_printf(arena, "%s[%d]", io->name, i));
        if (!random_tensor(arena, key, io, &items[i], err)) return false;
    }
    DemiData made = DEMI_DATA_SEQUENCE(SEQUENCE_ITEMS, items);
    *value = made;
    return true;
}
