// SPDX-License-Identifier: Apache-2.0
/* The loops of tap_loops.h in plain C: what other processors run, and what tests compare the others
 * with. */
#include "tap_loops.h"

#include <string.h>

static void copy_one(float *to, const float *from, const TapRow *row) {
    for (int64_t i = 0; i < row->first; i++) to[i] = 0;
    if (row->stride == 1 && row->last > row->first)
        memcpy(to + row->first, from + (row->offset + row->first),
               (size_t)(row->last - row->first) * sizeof *to);
    else if (row->stride == 2)
        for (int64_t i = row->first; i < row->last; i++) to[i] = from[row->offset + 2 * i];
    else
        for (int64_t i = row->first; i < row->last; i++)
            to[i] = from[row->offset + i * row->stride];
    for (int64_t i = row->last; i < row->length; i++) to[i] = 0;
}

void tap_row_portable(float *to, const float *from, const TapRow *row) {
    for (uint64_t c = 0; c < row->copies; c++)
        copy_one(to + c * row->to_step, from + c * row->from_step, row);
}

void tap_pad_portable(float *to, const TapPlane *p) {
    uint64_t left = p->left < p->width ? p->left : p->width;
    uint64_t count = p->width - left < p->in_width ? p->width - left : p->in_width;
    for (uint64_t row = 0; row < p->height; row++, to += p->width) {
        bool inside = row >= p->top && row - p->top < p->in_height;
        uint64_t right = inside ? left + count : 0;
        for (uint64_t i = 0; i < left && inside; i++) to[i] = p->value;
        if (inside) memcpy(to + left, p->from + (row - p->top) * p->in_width, count * sizeof *to);
        for (uint64_t i = right; i < p->width; i++) to[i] = p->value;
    }
}

static void line_taps(float *to, const Taps *t, const float *row) {
    const float *w = t->weights;
    for (uint64_t i = 0; i < t->count && !t->add; i++) to[i] = t->bias;
    for (uint32_t r = 0; r < t->rows; r++, row += t->row)
        for (uint32_t k = 0; k < t->taps; k++, w++)
            for (uint64_t i = 0; i < t->count; i++) to[i] += *w * row[i * t->stride + k * t->step];
}

static void taps(float *to, const Taps *t) {
    for (uint64_t line = 0; line < t->lines; line++)
        line_taps(to + line * t->count, t, t->from + line * t->line);
}

static void line_largest(float *to, const Taps *t, const float *row) {
    for (uint64_t i = 0; i < t->count; i++) to[i] = -__builtin_inff();
    for (uint32_t r = 0; r < t->rows; r++, row += t->row)
        for (uint32_t k = 0; k < t->taps; k++)
            for (uint64_t i = 0; i < t->count; i++) {
                float x = row[i * t->stride + k * t->step];
                to[i] = x > to[i] || x != x ? x : to[i];
            }
}

static void largest(float *to, const Taps *t) {
    for (uint64_t line = 0; line < t->lines; line++)
        line_largest(to + line * t->count, t, t->from + line * t->line);
}

const TapLoops *tap_loops_portable(void) {
    static const TapLoops table = {tap_row_portable, tap_pad_portable, taps, NULL, largest};
    return &table;
}
