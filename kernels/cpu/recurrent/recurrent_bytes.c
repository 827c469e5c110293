// SPDX-License-Identifier: Apache-2.0
/* See recurrent_bytes.h.
 *
 * With rows a, of zero point z, and weights w, of zero points u, a product is
 *
 *     sum (a - z)(w - u) = sum a w - z sum w - u (sum a - depth z)
 *
 * The second term is the product's offset by column, the third is taken off afterwards where there
 * is such a u: weights that are stored as int8 have none, mostly.
 */
#include "recurrent_bytes.h"

#include <string.h>

#include "dynamic_bytes.h"
#include "kernel_rows.h"

enum { FLIP = 128, SLACK = 8, PIECE = 64 /* rows that are multiplied at once */ };

static uint64_t element_of(IgemmKind kind) {
    return kind == IGEMM_QUADS ? 1 : sizeof(int16_t);
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool pack_to(KernelCall *call, const WeightLayout *layout, const KernelTensor *from,
                    void *to) {
    const uint8_t *bytes = from->data;
    if (from->dtype == DTYPE_UINT8) {
        uint8_t *flipped = kernel_workspace(call, from->count + 1);
        if (!flipped) return false;
        for (uint64_t i = 0; i < from->count; i++) flipped[i] = bytes[i] ^ FLIP;
        bytes = flipped;
    }
    weight_layout_pack(layout, bytes, to);
    return true;
}

static WeightLayout layout_of(const ByteWeights *w, IsaSet cpu) {
    const IgemmWeights weights = {.kind = igemm_bytes_kind(cpu),
                                  .taps = 1,
                                  .depth = w->depth,
                                  .columns = w->columns,
                                  .row = w->columns,
                                  .column = 1};
    WeightLayout layout = igemm_layout(&weights, cpu);
    layout.groups = w->directions;
    layout.group = w->depth * w->columns;
    layout.has_sums = 1;
    return layout;
}

/* A pack of uint8; the variant is the processor. */
static bool pack_flipped(KernelCall *call, const KernelPackJob *job) {
    const ByteWeights w = {.directions = (uint64_t)job->from->dims[0],
                           .depth = (uint64_t)job->from->dims[1],
                           .columns = (uint64_t)job->from->dims[2]};
    const WeightLayout layout = layout_of(&w, (IsaSet)job->variant);
    return pack_to(call, &layout, job->from, job->to);
}

void byte_weights_make(KernelCall *call, ByteWeights *w, IsaSet cpu) {
    const KernelTensor *t = &call->inputs[w->input];
    w->directions = (uint64_t)t->dims[0];
    w->depth = (uint64_t)t->dims[1];
    w->columns = (uint64_t)t->dims[2];
    w->dtype = t->dtype;
    if (!t->count) return;
    w->layout = layout_of(w, cpu);
    if (!kernel_is_constant(call, w->input)) return;
    w->packed = t->dtype == DTYPE_INT8 ? kernel_weights(call, w->input, &w->layout)
                                       : kernel_share(call, w->input, pack_flipped, cpu,
                                                      weight_layout_size(&w->layout));
    if (w->packed) kernel_set_unread(call, w->input);
}

static const char *packed_of(KernelCall *call, const ByteWeights *w) {
    if (w->packed) return w->packed;
    char *packed = kernel_workspace(call, weight_layout_size(&w->layout));
    return packed && pack_to(call, &w->layout, &call->inputs[w->input], packed) ? packed : NULL;
}

/* Scales and zero points of a direction, one for each column. */
static bool read_factors(KernelCall *call, const ByteWeights *w, uint64_t direction,
                         ByteMatrix *m) {
    const KernelTensor *scale = &call->inputs[w->scale], *zero = &call->inputs[w->zero];
    const uint64_t all = w->directions * w->columns, n = w->columns;
    float *scales = ARENA_ARRAY(call->scratch, float, n);
    int32_t *zeros = ARENA_ARRAY(call->scratch, int32_t, n);
    bool any = false;
    for (uint32_t k = 0; k < 2; k++) {
        const KernelTensor *t = k ? zero : scale;
        if ((t->count != w->directions && t->count != all) || (k && t->dtype != w->dtype))
            return kernel_fail(call, "scales or zero points do not fit the weights");
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t s = scale->count == all ? direction * n + i : direction;
        const uint64_t z = zero->count == all ? direction * n + i : direction;
        scales[i] = ((const float *)scale->data)[s];
        zeros[i] = w->dtype == DTYPE_INT8 ? ((const int8_t *)zero->data)[z]
                                          : ((const uint8_t *)zero->data)[z] - FLIP;
        any = any || zeros[i];
    }
    m->scales = scales;
    m->zeros = any ? zeros : NULL;
    return true;
}

bool byte_matrix_begin(KernelCall *call, const ByteWeights *w, uint64_t direction,
                       uint64_t rows_most, ByteMatrix *m) {
    const IgemmKind kind = w->layout.word == WEIGHT_QUADS ? IGEMM_QUADS : IGEMM_PAIRS;
    const uint64_t padded = igemm_words(kind, w->depth) * (sizeof(uint32_t) / element_of(kind));
    const uint64_t bytes = rows_most * padded + SLACK, n = w->columns;
    *m = (ByteMatrix){.depth = w->depth, .columns = n, .padded = padded, .kind = kind};
    m->cpu = kernel_cpu(call);
    if (!read_factors(call, w, direction, m)) return false;
    const char *packed = packed_of(call, w);
    if (!packed) return false;
    m->weights = packed + direction * weight_layout_group(&w->layout);
    m->sums =
        (const int32_t *)(const void *)(packed + weight_layout_sums(&w->layout)) + direction * n;
    m->factors = ARENA_ARRAY(call->scratch, float, n);
    m->no_shift = ARENA_ARRAY(call->scratch, float, n);
    m->offsets = ARENA_ARRAY(call->scratch, int32_t, n);
    m->bytes = kernel_workspace(call, bytes);
    const uint64_t piece = rows_most < PIECE ? rows_most : PIECE;
    m->products = rows_most > 1 ? kernel_workspace(call, piece * n * sizeof(float)) : m->factors;
    if (m->bytes && kind == IGEMM_PAIRS) m->pairs = kernel_workspace(call, bytes * sizeof(int16_t));
    if (!m->bytes || !m->products || (kind == IGEMM_PAIRS && !m->pairs)) return false;
    memset(m->bytes, 0, bytes);
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

ROW_CLONES static void scale_columns(const ByteMatrix *m, float scale, int32_t zero) {
    float *restrict factors = m->factors;
    int32_t *restrict offsets = m->offsets;
    for (uint64_t i = 0; i < m->columns; i++) factors[i] = scale * m->scales[i];
    for (uint64_t i = 0; i < m->columns; i++)
        offsets[i] = (int32_t)(0 - (uint32_t)zero * (uint32_t)m->sums[i]);
}

ROW_CLONES static void widen(int16_t *restrict to, const uint8_t *restrict from, uint64_t n,
                             int32_t zero) {
    for (uint64_t i = 0; i < n; i++) to[i] = (int16_t)(from[i] - zero);
}

ROW_CLONES static int64_t sum_of(const uint8_t *x, uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n;) {
        uint32_t part = 0;
        for (const uint64_t end = n - i < 65536 ? n : i + 65536; i < end; i++) part += x[i];
        sum += part;
    }
    return (int64_t)sum;
}

ROW_CLONES static void add_row(float *restrict to, const float *restrict from, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) to[i] += from[i];
}

/* to -= factor u (sum a - depth z) */
ROW_CLONES static void take_zeros(const ByteMatrix *m, float *restrict to, float moved) {
    for (uint64_t i = 0; i < m->columns; i++) to[i] -= m->factors[i] * (float)m->zeros[i] * moved;
}

typedef struct Rows {
    const char *first;
    uint64_t step;
} Rows;

static void find(const void *source, uint64_t first, uint32_t count, const void **to) {
    const Rows *rows = source;
    for (uint32_t i = 0; i < count; i++) to[i] = rows->first + (first + i) * rows->step;
}

/* The rows as bytes, all by one scale. */
static Rows quantize(const ByteMatrix *m, const RecurrentProduct *p, DynamicScale *by) {
    *by = dynamic_scale(dynamic_range(p->x, p->rows * m->depth));
    for (uint64_t r = 0; r < p->rows; r++)
        dynamic_bytes(m->bytes + r * m->padded, p->x + r * m->depth, m->depth, *by);
    if (m->kind == IGEMM_QUADS) return (Rows){(const char *)m->bytes, m->padded};
    widen(m->pairs, m->bytes, p->rows * m->padded, by->zero);
    return (Rows){(const char *)m->pairs, m->padded * sizeof(int16_t)};
}

/* The rows of `piece`, to its y, plus `shift`. */
static bool multiply(KernelCall *call, const ByteMatrix *m, const Igemm *piece,
                     const float *shift) {
    const IgemmScale scale = {
        .factor = m->factors, .shift = shift, .offset = m->offsets, .to = DTYPE_FLOAT};
    Igemm product = *piece;
    product.kind = m->kind;
    product.taps = 1;
    product.depth = igemm_words(m->kind, m->depth);
    product.columns = product.y_row = m->columns;
    product.find = find;
    product.weights = m->weights;
    product.scale = &scale;
    return igemm_run(call, &product, m->cpu);
}

static bool add_pieces(KernelCall *call, const ByteMatrix *m, const RecurrentProduct *p,
                       Rows rows) {
    for (uint64_t r = 0, count; r < p->rows; r += count, rows.first += count * rows.step) {
        count = p->rows - r < PIECE ? p->rows - r : PIECE;
        const Igemm piece = {.rows = count, .source = &rows, .y = m->products};
        if (!multiply(call, m, &piece, m->no_shift)) return false;
        for (uint64_t i = 0; i < count; i++)
            add_row(p->to + (r + i) * p->to_row, m->products + i * m->columns, m->columns);
    }
    return true;
}

bool byte_matrix_add(KernelCall *call, const ByteMatrix *m, const RecurrentProduct *p) {
    DynamicScale by;
    const Rows rows = quantize(m, p, &by);
    const Igemm one = {.rows = 1, .source = &rows, .y = p->to};
    scale_columns(m, by.scale, m->kind == IGEMM_QUADS ? by.zero : 0);
    /* one row's shift is what is there already */
    if (!(p->rows == 1 ? multiply(call, m, &one, p->to) : add_pieces(call, m, p, rows)))
        return false;
    for (uint64_t r = 0; m->zeros && r < p->rows; r++) {
        const int64_t sum = sum_of(m->bytes + r * m->padded, m->depth);
        take_zeros(m, p->to + r * p->to_row, (float)(sum - (int64_t)m->depth * by.zero));
    }
    return true;
}
