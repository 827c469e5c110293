// SPDX-License-Identifier: Apache-2.0
/* Packing and threads of byte_channels.h. */
#include "byte_channels.h"

#include <string.h>

#include "kernel_parts.h"

enum { PIXELS = 32, ALIGN = 64 }; /* outputs whose addresses are looked up at once */

#define SIMD_OFFERS byte_channels_isas
#include "simd_offers.inc"

const ByteChannelsIsa *byte_channels_isa(IsaSet cpu) {
    return isa_pick(byte_channels_isas_offers, cpu);
}

static uint64_t div_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

/* ---- packing --------------------------------------------------------------------------------- */

static uint64_t blocks_of(const ByteChannelsIsa *isa, uint64_t channels) {
    return div_up(channels, isa->block);
}

uint64_t byte_channels_size(const ByteChannelsIsa *isa, uint64_t channels, uint64_t taps) {
    return blocks_of(isa, channels) * div_up(taps, isa->taps) * isa->block * sizeof(uint32_t);
}

/* Taps [t, t + those of a word) of one channel. */
static uint32_t word_of(const ByteChannelsIsa *isa, const int8_t *data, uint64_t t, uint64_t taps) {
    const uint32_t bits = 32 / isa->taps;
    uint32_t word = 0;
    for (uint32_t i = 0; i < isa->taps && t + i < taps; i++) {
        const uint32_t each = isa->taps == 4 ? (uint8_t)data[t + i] : (uint16_t)data[t + i];
        word |= each << bits * i;
    }
    return word;
}

void byte_channels_pack(const ByteChannelsIsa *isa, void *to, const int8_t *data, uint64_t channels,
                        uint64_t taps) {
    const uint64_t lanes = 4 * (uint64_t)isa->parts;
    uint32_t *word = to;
    for (uint64_t c = 0; c < channels; c += isa->block) {
        const uint64_t width = byte_channels_width(isa, channels - c);
        for (uint64_t t = 0; t < taps; t += isa->taps)
            for (uint64_t i = 0; i < isa->block; i++) {
                const uint64_t k = c + byte_channels_place(isa, width, i / lanes, i % lanes);
                *word++ = k < channels ? word_of(isa, data + k * taps, t, taps) : 0;
            }
    }
}

/* An array of channels in the order of sums; what there is no channel for is 0. */
static void *in_order(KernelCall *call, const ByteChannelsIsa *isa, const void *from,
                      uint64_t channels) {
    const uint64_t lanes = 4 * (uint64_t)isa->parts;
    const size_t size = sizeof(uint32_t);
    char *to = kernel_workspace(call, blocks_of(isa, channels) * isa->block * size), *at = to;
    for (uint64_t c = 0; to && c < channels; c += isa->block) {
        const uint64_t width = byte_channels_width(isa, channels - c);
        for (uint64_t i = 0; i < isa->block; i += 4, at += 4 * size) {
            const uint64_t k = c + byte_channels_place(isa, width, i / lanes, i % lanes);
            const uint64_t count = k >= channels ? 0 : channels - k < 4 ? channels - k : 4;
            memcpy(at, (const char *)from + (count ? k : 0) * size, count * size);
            memset(at + count * size, 0, (4 - count) * size);
        }
    }
    return to;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct Job {
    const Igemm *g;
    const ByteChannelsIsa *isa;
    BytePixels pixels;
    size_t element;      /* bytes of one of y's */
    const void **tables; /* [lanes][table] */
    uint64_t table;
} Job;

static void run_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Job *job = data;
    const Igemm *g = job->g;
    const void **table = job->tables + lane * job->table;
    BytePixels pixels = job->pixels;
    pixels.rows = table;
    for (uint64_t row = first; row < end; row += pixels.count) {
        pixels.count = pixels.stride = end - row < PIXELS ? end - row : PIXELS;
        pixels.y = (char *)g->y + row * g->y_row * job->element;
        g->find(g->source, row, (uint32_t)pixels.count, table);
        job->isa->pixels(&pixels);
    }
}

bool byte_channels_run(KernelCall *call, const Igemm *g, const ByteChannelsIsa *isa) {
    Job job = {.g = g, .isa = isa};
    if (!g->rows || !g->columns) return true;
    job.pixels = (BytePixels){.taps = g->taps,
                              .channels = g->columns,
                              .weights = g->weights,
                              .factor = in_order(call, isa, g->scale->factor, g->columns),
                              .shift = in_order(call, isa, g->scale->shift, g->columns),
                              .offset = in_order(call, isa, g->scale->offset, g->columns),
                              .scale = *g->scale,
                              .is_signed = g->is_signed,
                              .y_row = g->y_row};
    if (!job.pixels.factor || !job.pixels.shift || !job.pixels.offset) return false;
    job.element = g->scale->to == DTYPE_FLOAT ? sizeof(float) : 1;
    igemm_bounds(g, &job.pixels.low, &job.pixels.high);
    job.table = kernel_lane_count(g->taps * PIXELS, sizeof *job.tables);
    job.tables = kernel_workspace(call, job.table * sizeof *job.tables * kernel_threads(call));
    if (!job.tables) return false;
    const double work = (double)g->rows * (double)g->columns * (double)g->taps / 4;
    const unsigned threads = kernel_work_threads(call, work, g->rows);
    kernel_run_parts(call->workers, kernel_cut(g->rows, PIXELS, threads, work), run_rows, &job);
    return true;
}
