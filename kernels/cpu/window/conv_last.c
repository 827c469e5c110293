// SPDX-License-Identifier: Apache-2.0
/* Addresses of windows in channels-last data; see conv_last.h. */
#include "conv_last.h"

#include "half.h"

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Outputs next to each other in a row: `count` from place `first` on of a table `stride` wide. */
typedef struct Run {
    int64_t x; /* the first output */
    uint32_t first, count, stride;
} Run;

/* Their taps in one row of the input, NULL where all of that is padding. */
static void find_row(const ConvPixels *p, const WindowAxis *x, const char *row, const Run *run,
                     const void **to) {
    const int64_t step = x->stride * (int64_t)p->pixel, count = run->count;
    for (int64_t t = 0; t < x->taps; t++, to += run->stride) {
        const int64_t at =
            run->x * x->stride - x->begin + t * x->dilation; /* of the first output */
        int64_t begin = at < 0 ? (-at + x->stride - 1) / x->stride : 0;
        int64_t end = at < x->in ? (x->in - 1 - at) / x->stride + 1 : 0;
        begin = row ? least(begin, count) : count;
        end = most(begin, least(end, count));
        const void **slot = to + run->first;
        for (int64_t i = 0; i < begin; i++) slot[i] = p->zero;
        if (begin < end) {
            const char *from = row + (at + begin * x->stride) * (int64_t)p->pixel;
            for (int64_t i = begin; i < end; i++, from += step) slot[i] = from;
        }
        for (int64_t i = end; i < count; i++) slot[i] = p->zero;
    }
}

static const WindowAxis one_row = {.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};

void conv_pixels_find(const void *source, uint64_t first, uint32_t count, const void **to) {
    const ConvPixels *p = source;
    const Window *w = p->window;
    const WindowAxis *y = w->rank == 2 ? &w->axes[0] : &one_row, *x = &w->axes[w->rank - 1];
    const uint64_t rest = first % w->out, row = (uint64_t)x->in * p->pixel;
    uint64_t image = first / w->out;
    int64_t oy = (int64_t)rest / x->out;
    Run run = {.x = (int64_t)rest % x->out, .stride = count};
    while (run.first < count) {
        const char *from = p->x + image * w->in * p->pixel;
        const int64_t top = oy * y->stride - y->begin;
        run.count = (uint32_t)least(x->out - run.x, count - run.first);
        for (int64_t t = 0; t < y->taps; t++) {
            const int64_t iy = top + t * y->dilation;
            const bool inside = iy >= 0 && iy < y->in;
            find_row(p, x, inside ? from + (uint64_t)iy * row : NULL, &run,
                     to + (uint64_t)(t * x->taps) * count);
        }
        run.first += run.count;
        run.x = 0;
        if (++oy < y->out) continue;
        oy = 0;
        image++;
    }
}

/* For igemm.h's lines, which are those of the last axis: of output `first` on, all in its line, the
 * pixels from the first that it sees, to[r * columns + j] for each row r of taps; dilation 1. */
static void conv_line_find(const void *source, uint64_t first, uint32_t columns, const void **to) {
    const ConvPixels *p = source;
    const Window *w = p->window;
    const WindowAxis *y = w->rank == 2 ? &w->axes[0] : &one_row, *x = &w->axes[w->rank - 1];
    const uint64_t rest = first % w->out, row = (uint64_t)x->in * p->pixel;
    const char *image = p->x + first / w->out * w->in * p->pixel;
    const int64_t top = (int64_t)(rest / (uint64_t)x->out) * y->stride - y->begin;
    const int64_t left = (int64_t)(rest % (uint64_t)x->out) * x->stride - x->begin;
    const int64_t begin = least(left < 0 ? -left : 0, columns);
    const int64_t end = most(begin, least(x->in - left, columns));
    for (int64_t t = 0; t < y->taps; t++, to += columns) {
        const int64_t iy = top + t * y->dilation;
        const bool inside = iy >= 0 && iy < y->in && begin < end;
        int64_t j = 0;
        if (inside) {
            const char *from = image + (uint64_t)iy * row + (left + begin) * (int64_t)p->pixel;
            for (; j < begin; j++) to[j] = p->zero;
            for (; j < end; j++, from += p->pixel) to[j] = from;
        }
        for (; j < columns; j++) to[j] = p->zero;
    }
}

bool conv_lines(const WindowAxis *x, IgemmLines *lines) {
    if (x->dilation != 1 || x->taps > IGEMM_LINE_TAPS || x->stride > x->taps) return false;
    *lines = (IgemmLines){.outputs = (uint64_t)x->out,
                          .steps = {(uint32_t)x->taps, (uint32_t)x->stride},
                          .find = conv_line_find};
    return igemm_has_lines(lines->steps);
}

/* KernelPack: bfloat16 weights of depthwise filters as igemm_channels_layout has floats. */
static bool pack_channels(KernelCall *call, const KernelPackJob *job) {
    const uint64_t channels = (uint64_t)job->from->dims[0], taps = job->from->count / channels;
    const uint16_t *from = job->from->data;
    float *to = job->to;
    (void)call;
    for (uint64_t t = 0; t < taps; t++)
        for (uint64_t c = 0; c < channels; c++) *to++ = bfloat_to_float(from[c * taps + t]);
    return true;
}

const void *conv_share_channels(KernelCall *call, uint32_t input, const WeightLayout *layout) {
    const void *shared = kernel_share(call, input, pack_channels, 0, weight_layout_size(layout));
    if (shared) kernel_set_unread(call, input);
    return shared;
}
