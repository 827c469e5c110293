// SPDX-License-Identifier: Apache-2.0
/* Packing of windows; see conv_columns.h.
 *
 * The columns of a block are cut into segments that are neighbors along the last axis and lie in
 * one panel. For each segment and tap the part that lies in the input is computed once and used for
 * all channels.
 */
#include "conv_columns.h"

#include <string.h>

ConvColumns conv_columns_make(KernelCall *call, const Window *window, const void *x,
                              uint64_t channels) {
    int64_t *taps = ARENA_ARRAY(call->scratch, int64_t, window->taps * window->rank + 1);
    int64_t *index = ARENA_ARRAY(call->scratch, int64_t, window->rank + 1);
    for (uint64_t t = 0; t < window->taps; t++, window_next_tap(window, index))
        for (uint32_t i = 0; i < window->rank; i++)
            taps[t * window->rank + i] =
                index[i] * window->axes[i].dilation - window->axes[i].begin;
    return (ConvColumns){window, x, channels, taps, tap_loops(isa_here())};
}

bool conv_is_plain(const Window *window) {
    for (uint32_t i = 0; i < window->rank; i++) {
        const WindowAxis *axis = &window->axes[i];
        if (axis->taps != 1 || axis->stride != 1 || axis->begin || axis->in != axis->out)
            return false;
    }
    return true;
}

/* Neighboring outputs along the last axis. */
typedef struct Segment {
    uint64_t output; /* the first */
    int64_t length;
    int64_t position; /* its place along the last axis, times stride */
    int64_t stride, in;
} Segment;

/* What tap t of a segment reads. */
typedef struct Reach {
    int64_t first, last; /* of the segment's outputs, those inside */
    int64_t offset;      /* in a channel, of output 0 of the segment (which may be outside) */
} Reach;

static Reach reach_of(const ConvColumns *columns, const Segment *segment, uint64_t tap) {
    const Window *w = columns->window;
    Reach reach = {0, 0, 0};
    if (w->rank == 0) return (Reach){0, 1, 0};
    const int64_t *delta = columns->taps + tap * w->rank;
    uint64_t rest = segment->output, size = 1;
    uint32_t last = w->rank - 1;
    rest /= (uint64_t)w->axes[last].out;
    size = (uint64_t)w->axes[last].in;
    for (uint32_t i = last; i-- > 0;) {
        const WindowAxis *axis = &w->axes[i];
        int64_t at = (int64_t)(rest % (uint64_t)axis->out) * axis->stride + delta[i];
        rest /= (uint64_t)axis->out;
        if (at < 0 || at >= axis->in) return reach;
        reach.offset += at * (int64_t)size;
        size *= (uint64_t)axis->in;
    }
    int64_t at = segment->position + delta[last], stride = segment->stride;
    reach.offset += at;
    reach.first = at >= 0 ? 0 : (-at - 1) / stride + 1;
    reach.last = at >= segment->in ? 0 : (segment->in - 1 - at) / stride + 1;
    if (reach.last > segment->length) reach.last = segment->length;
    if (reach.first > reach.last) reach.first = reach.last;
    return reach;
}

/* to[2 * i], i < length: one half of each pair. */
static inline void copy_halves(int16_t *to, const int16_t *from, const Segment *s, const Reach *r) {
    for (int64_t i = 0; i < r->first; i++) to[2 * i] = 0;
    if (s->stride == 1)
        for (int64_t i = r->first; i < r->last; i++) to[2 * i] = from[r->offset + i];
    else
        for (int64_t i = r->first; i < r->last; i++) to[2 * i] = from[r->offset + i * s->stride];
    for (int64_t i = r->last; i < s->length; i++) to[2 * i] = 0;
}

/* A part of the matrix to pack, its rows in single elements. */
typedef struct Part {
    const ConvColumns *columns;
    uint64_t row, rows, depth; /* depth: of the panel, in packed elements */
    uint32_t width;
    bool pairs;
    const void *x; /* the batch's first channel */
    void (*copy)(float *to, const float *from, const TapRow *row);
} Part;

/* All rows of one segment; `to` is its first lane in the panel. */
static void pack_segment(const Part *part, const Segment *segment, uint32_t *to) {
    const Window *w = part->columns->window;
    uint64_t end = part->row + part->rows;
    for (uint64_t tap = 0; tap < w->taps; tap++) {
        uint64_t channel = part->row <= tap ? 0 : (part->row - tap - 1) / w->taps + 1;
        if (channel * w->taps + tap >= end) continue;
        const Reach reach = reach_of(part->columns, segment, tap);
        uint64_t first = channel * w->taps + tap;
        if (!part->pairs) {
            const TapRow row = {segment->length,
                                reach.first,
                                reach.last,
                                reach.offset,
                                segment->stride,
                                (end - first - 1) / w->taps + 1,
                                w->taps * part->width,
                                w->in};
            part->copy((float *)(to + (first - part->row) * part->width),
                       (const float *)part->x + channel * w->in, &row);
            continue;
        }
        for (uint64_t i = first; i < end; i += w->taps, channel++) {
            uint64_t at = i - part->row;
            copy_halves((int16_t *)(to + at / 2 * part->width) + at % 2,
                        (const int16_t *)part->x + channel * w->in, segment, &reach);
        }
    }
}

static void pack(const Part *part, const GemmBlock *block, uint32_t *to) {
    const Window *w = part->columns->window;
    const WindowAxis point = {.in = 1, .out = 1, .stride = 1};
    const WindowAxis *last = w->rank ? &w->axes[w->rank - 1] : &point;
    for (uint64_t j = 0; j < block->lanes;) {
        uint64_t output = block->lane + j, place = output % (uint64_t)last->out;
        uint64_t length = (uint64_t)last->out - place, room = block->width - j % block->width;
        if (length > room) length = room;
        if (length > block->lanes - j) length = block->lanes - j;
        const Segment segment = {output, (int64_t)length, (int64_t)place * last->stride,
                                 last->stride, last->in};
        uint32_t *panel = to + j / block->width * block->depth * block->width;
        pack_segment(part, &segment, panel + j % block->width);
        j += length;
    }
}

void conv_pack_floats(const void *source, const GemmBlock *block, void *to) {
    const ConvColumns *c = source;
    const Part part = {.columns = c,
                       .row = block->k,
                       .rows = block->depth,
                       .depth = block->depth,
                       .width = block->width,
                       .copy = c->loops->row,
                       .x = (const float *)c->x + block->batch * c->channels * c->window->in};
    pack(&part, block, to);
}

void conv_pack_pairs(const void *source, const GemmBlock *block, void *to) {
    const ConvColumns *c = source;
    uint64_t all = c->channels * c->window->taps, row = 2 * block->k, rows = 2 * block->depth;
    if (rows > all - row) {
        rows = all - row;
        for (uint64_t j = 0; j < block->lanes; j += block->width) /* the partner of the last row */
            memset((uint32_t *)to + (j + block->width) * block->depth - block->width, 0,
                   block->width * sizeof(uint32_t));
    }
    const Part part = {.columns = c,
                       .row = row,
                       .rows = rows,
                       .depth = block->depth,
                       .width = block->width,
                       .pairs = true,
                       .x = (const int16_t *)c->x + block->batch * c->channels * c->window->in};
    pack(&part, block, to);
}
