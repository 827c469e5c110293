// SPDX-License-Identifier: Apache-2.0
/* Convolutions of the fake cuDNN: pixel by pixel, sums in float over what a pixel sees. */
#include <stdlib.h>
#include <string.h>

#include "fake_dnn.h"

/* Where a tensor lies, all of it. */
static uint8_t *data_of(const DnnRun *run, const DnnTensor *t, bool writes) {
    uint64_t last = 0;
    for (int64_t i = 0; i < t->axes; i++)
        last += (uint64_t)(t->dims[i] - 1) * (uint64_t)t->strides[i];
    for (int64_t i = 0; i < run->count; i++) {
        if (run->ids[i] != t->id) continue;
        if (run->at[i] % (uint64_t)t->alignment) {
            fake_complain(0, "a convolution of cuDNN: tensor %lld is not aligned to %lld bytes",
                          (long long)t->id, (long long)t->alignment);
            return NULL;
        }
        return fake_memory(run->at[i], (last + 1) * fake_size(t->type),
                           writes ? FAKE_MAKES : FAKE_READS, "a convolution of cuDNN");
    }
    fake_complain(0, "a convolution of cuDNN: tensor %lld has no data", (long long)t->id);
    return NULL;
}

/* Weights as [channel of the group, taps][filter], so that filters are side by side. */
static float *turn_weights(const DnnGraph *g, const uint8_t *w, int64_t depth) {
    const int64_t filters = g->w.dims[0];
    float *to = malloc((size_t)(depth * filters) * sizeof *to);
    if (!to) abort();
    for (int64_t d = 0; d < depth; d++) {
        int64_t at = 0, rest = d;
        for (int64_t axis = g->w.axes - 1; axis > 0; axis--) {
            at += rest % g->w.dims[axis] * g->w.strides[axis];
            rest /= g->w.dims[axis];
        }
        for (int64_t f = 0; f < filters; f++) {
            const float x = (float)fake_get(g->w.type, w, (uint64_t)(at + f * g->w.strides[0]));
            to[d * filters + f] = g->tf32 ? fake_tf32(x) : x;
        }
    }
    return to;
}

/* Element d of what the pixel sees of its group; 0 beyond the edges. */
static float seen(const DnnGraph *g, const uint8_t *x, const int64_t *pixel, int64_t group,
                  int64_t d) {
    int64_t at = pixel[0] * g->x.strides[0], rest = d;
    for (int64_t axis = g->x.axes - 1; axis > 1; axis--) {
        const int64_t s = axis - 2, tap = rest % g->w.dims[axis];
        const int64_t i = pixel[axis] * g->strides[s] + tap * g->dilations[s] - g->begins[s];
        rest /= g->w.dims[axis];
        if (i < 0 || i >= g->x.dims[axis]) return 0;
        at += i * g->x.strides[axis];
    }
    at += (group * g->w.dims[1] + rest) * g->x.strides[1];
    const float value = (float)fake_get(g->x.type, x, (uint64_t)at);
    return g->tf32 ? fake_tf32(value) : value;
}

static uint64_t place(const DnnTensor *t, const int64_t *pixel, int64_t channel) {
    int64_t at = t->dims[1] == 1 ? 0 : channel * t->strides[1];
    for (int64_t axis = 0; axis < t->axes; axis++)
        if (axis != 1 && t->dims[axis] != 1) at += pixel[axis] * t->strides[axis];
    return (uint64_t)at;
}

typedef struct Data {
    uint8_t *x, *y, *steps[DNN_MOST_OPERATIONS];
    float *weights, *sums;
    int64_t depth;
} Data;

static void compute_pixel(const DnnGraph *g, const Data *data, const int64_t *pixel) {
    const int64_t filters = g->w.dims[0], groups = g->x.dims[1] / g->w.dims[1];
    const int64_t share = filters / groups;
    for (int64_t group = 0; group < groups; group++) {
        float *sums = data->sums + group * share;
        for (int64_t f = 0; f < share; f++) sums[f] = 0;
        for (int64_t d = 0; d < data->depth; d++) {
            const float x = seen(g, data->x, pixel, group, d);
            const float *w = data->weights + d * filters + group * share;
            for (int64_t f = 0; f < share; f++) sums[f] += x * w[f];
        }
    }
    for (int64_t s = 0; s < g->step_count; s++)
        for (int64_t f = 0; f < filters; f++) {
            const DnnStep *step = &g->steps[s];
            float *x = &data->sums[f];
            if (step->relu)
                *x = *x > 0 || *x != *x ? *x : 0;
            else
                *x += (float)fake_get(step->b.type, data->steps[s], place(&step->b, pixel, f));
        }
    for (int64_t f = 0; f < filters; f++)
        fake_set(g->y.type, data->y, place(&g->y, pixel, f), (double)data->sums[f]);
}

static void compute_pixels(const DnnGraph *g, const Data *data) {
    int64_t pixels = 1;
    for (int64_t axis = 0; axis < g->y.axes; axis++) pixels *= axis == 1 ? 1 : g->y.dims[axis];
    for (int64_t p = 0; p < pixels; p++) {
        int64_t pixel[DNN_MOST_AXES] = {0}, rest = p;
        for (int64_t axis = g->y.axes - 1; axis >= 0; axis--) {
            if (axis == 1) continue;
            pixel[axis] = rest % g->y.dims[axis];
            rest /= g->y.dims[axis];
        }
        compute_pixel(g, data, pixel);
    }
}

bool dnn_compute(const void *from) {
    const DnnRun *run = from;
    const DnnGraph *g = &run->graph;
    Data data = {.x = data_of(run, &g->x, false)};
    const uint8_t *w = data.x ? data_of(run, &g->w, false) : NULL;
    if (!w) return false;
    for (int64_t s = 0; s < g->step_count; s++)
        if (!g->steps[s].relu && !(data.steps[s] = data_of(run, &g->steps[s].b, false)))
            return false;
    if (run->workspace_size) {
        uint8_t *workspace = fake_memory(run->workspace, run->workspace_size, FAKE_MAKES,
                                         "the workspace of a convolution of cuDNN");
        if (!workspace) return false;
        memset(workspace, 0xff, run->workspace_size);
    }
    if (!(data.y = data_of(run, &g->y, true))) return false;
    data.depth = 1;
    for (int64_t axis = 1; axis < g->w.axes; axis++) data.depth *= g->w.dims[axis];
    data.weights = turn_weights(g, w, data.depth);
    data.sums = malloc((size_t)g->w.dims[0] * sizeof *data.sums);
    if (!data.sums) abort();
    compute_pixels(g, &data);
    free(data.weights);
    free(data.sums);
    return true;
}
