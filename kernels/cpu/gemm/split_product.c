// SPDX-License-Identifier: Apache-2.0
/* Rows as three of bfloat16; see split_product.h. */
#include "split_product.h"

#include <stdatomic.h>
#include <string.h>

#include "kernel_clones.h"
#include "kernel_parts.h"

enum {
    PARTS = 3,
    LEAST_ROWS = 16, /* of a tile: fewer take as long */
};

bool split_product_suits(IsaSet cpu, uint64_t rows, uint64_t depth) {
    return rows >= LEAST_ROWS && depth && depth % 2 == 0 && igemm_has_bfloats(cpu) &&
           !(cpu & ~isa_here()) && igemm_isa_for(IGEMM_BFLOATS, cpu, rows)->whole;
}

IgemmWeights split_product_weights(uint64_t depth, uint64_t columns) {
    return (IgemmWeights){.kind = IGEMM_BFLOATS,
                          .taps = 1,
                          .depth = depth,
                          .columns = columns,
                          .row = 1,
                          .column = depth};
}

typedef struct Split {
    const float *x;
    uint16_t *parts; /* [PARTS][count], the smallest first */
    uint64_t count, depth;
} Split;

/* A float's first bits, which are what is left where the others are 0: NaN stays one, and behind it or an
 * infinity nothing is left. */
ROW_CLONES
static void split_floats(const float *restrict x, uint16_t *restrict low, uint16_t *restrict mid,
                         uint16_t *restrict high, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits, first, second, third;
        memcpy(&bits, &x[i], sizeof bits);
        const bool finite = (bits & 0x7f800000) != 0x7f800000,
                   nan = (bits & 0x7fffffff) > 0x7f800000;
        float a, b, rest;
        first = (bits & 0xffff0000) | (nan ? 0x400000 : 0);
        memcpy(&a, &first, sizeof a);
        rest = finite ? x[i] - a : 0;
        memcpy(&second, &rest, sizeof second);
        second &= 0xffff0000;
        memcpy(&b, &second, sizeof b);
        rest -= b;
        memcpy(&third, &rest, sizeof third);
        high[i] = (uint16_t)(first >> 16);
        mid[i] = (uint16_t)(second >> 16);
        low[i] = (uint16_t)(third >> 16);
    }
}

static void split_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Split *split = data;
    uint16_t *to = split->parts + first;
    (void)lane;
    split_floats(split->x + first, to, to + split->count, to + 2 * split->count, end - first);
}

/* A row's parts are its taps. */
static void find_parts(const void *source, uint64_t first, uint32_t count, const void **to) {
    const Split *split = source;
    for (uint64_t t = 0; t < PARTS; t++)
        for (uint64_t i = 0; i < count; i++)
            to[t * count + i] = split->parts + t * split->count + (first + i) * split->depth;
}

typedef struct Results {
    const float *y;
    atomic_bool *sound;
} Results;

ROW_CLONES
static bool has_nan(const float *x, uint64_t n) {
    uint32_t found = 0;
    for (uint64_t i = 0; i < n; i++) found |= x[i] != x[i];
    return found;
}

static void check_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Results *results = data;
    (void)lane;
    if (has_nan(results->y + first, end - first)) atomic_store(results->sound, false);
}

static void run_elements(KernelCall *call, uint64_t count, KernelPart *part, const void *job) {
    const unsigned parts = kernel_parts(kernel_threads(call), count, 1);
    kernel_run_parts(call->workers, kernel_element_cut(count, KERNEL_PART_GRAIN, parts, count),
                     part, job);
}

bool split_product_run(KernelCall *call, const SplitProduct *p, IsaSet cpu, bool *sound) {
    Split split = {.x = p->x, .count = p->rows * p->depth, .depth = p->depth};
    split.parts = kernel_workspace(call, PARTS * split.count * sizeof *split.parts);
    if (!split.parts) return false;
    run_elements(call, split.count, split_part, &split);
    const Epilogue epilogue = {.bias = p->bias};
    const Igemm product = {.kind = IGEMM_BFLOATS,
                           .rows = p->rows,
                           .taps = PARTS,
                           .repeats = true,
                           .depth = igemm_words(IGEMM_BFLOATS, p->depth),
                           .columns = p->columns,
                           .find = find_parts,
                           .source = &split,
                           .weights = p->weights,
                           .y = p->y,
                           .y_row = p->columns,
                           .epilogue = &epilogue,
                           .wide = true};
    if (!igemm_run(call, &product, cpu)) return false;
    atomic_bool all_sound;
    atomic_init(&all_sound, true);
    run_elements(call, p->rows * p->columns, check_part, &(Results){p->y, &all_sound});
    *sound = atomic_load(&all_sound);
    return true;
}
