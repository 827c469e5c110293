// SPDX-License-Identifier: Apache-2.0
/* See qdq_drift.h. At the borders of a convolution some weights multiply padding, which is 0: means are
 * less there by the share of such places, where the sizes are known. */
#include "qdq_drift.h"

#include <math.h>
#include <string.h>

#include "op_record.h"
#include "op_types.h"
#include "qdq_plan.h"

bool qdq_operand_channels(const Node *product, uint32_t weights_rank, int32_t *axis) {
    const OpRecord *record = node_record(product);
    if (!record || record->quantized != QUANTIZED_PRODUCT) return false;
    switch ((OpChannels)record->channels) {
    case CHANNELS_FIRST: *axis = 1; return true;
    case CHANNELS_LAST: *axis = -1; return weights_rank == 2;
    case CHANNELS_TRANS_B:
        *axis = node_attr_int(product, "transA", 0) ? 0 : -1;
        return weights_rank == 2;
    case CHANNELS_NONE:
    case CHANNELS_EQUATION:
    case CHANNELS_SECOND: break;
    }
    return false;
}

/* ---- padding --------------------------------------------------------------------------------- */

/* One spatial axis of a convolution. */
typedef struct Window {
    int64_t size, out, kernel, stride, dilation, begin;
} Window;

static bool pads_as(const Node *conv, const char *kind) {
    Bytes text;
    return attr_string(node_attr(conv, "auto_pad"), &text) && text.size == strlen(kind) &&
           memcmp(text.data, kind, text.size) == 0;
}

static int64_t item_of(const Node *node, const char *name, uint32_t i, int64_t otherwise) {
    uint32_t count = 0;
    const int64_t *items = attr_ints(node_attr(node, name), &count);
    return items && i < count ? items[i] : otherwise;
}

/* False where its sizes are not known. */
static bool find_window(const Node *conv, uint32_t axis, int64_t kernel, Window *w) {
    const bool same = pads_as(conv, "SAME_UPPER") || pads_as(conv, "SAME_LOWER");
    *w = (Window){.size = qdq_dim(conv->inputs[0].value, axis + 2),
                  .out = qdq_dim(conv->outputs[0], axis + 2),
                  .kernel = kernel,
                  .stride = item_of(conv, "strides", axis, 1),
                  .dilation = item_of(conv, "dilations", axis, 1),
                  .begin = item_of(conv, "pads", axis, 0)};
    if (w->size <= 0 || w->out <= 0 || w->stride <= 0 || w->dilation <= 0) return false;
    if (!same) return true;
    const int64_t all = (w->out - 1) * w->stride + (kernel - 1) * w->dilation + 1 - w->size;
    w->begin = all <= 0 ? 0 : pads_as(conv, "SAME_LOWER") ? (all + 1) / 2 : all / 2;
    return true;
}

/* In how many of its places, by all, a weight meets no padding. */
static double share_inside(const Window *w, int64_t tap) {
    int64_t inside = 0;
    for (int64_t o = 0; o < w->out; o++) {
        const int64_t at = o * w->stride + tap * w->dilation - w->begin;
        inside += at >= 0 && at < w->size;
    }
    return (double)inside / (double)w->out;
}

/* Of the taps of a convolution's kernel: [taps]. */
static double *tap_shares(const Node *conv, const Tensor *weights, Arena *arena, uint64_t *taps) {
    *taps = 1;
    for (uint32_t i = 2; i < weights->rank; i++) *taps *= (uint64_t)weights->dims[i];
    double *shares = ARENA_ARRAY(arena, double, *taps);
    for (uint64_t t = 0; t < *taps; t++) shares[t] = 1;
    uint64_t after = *taps;
    for (uint32_t axis = 0; axis + 2 < weights->rank; axis++) {
        const int64_t kernel = weights->dims[axis + 2];
        Window window;
        after /= (uint64_t)kernel;
        if (!find_window(conv, axis, kernel, &window)) continue;
        double *inside = ARENA_ARRAY(arena, double, (size_t)kernel);
        for (int64_t k = 0; k < kernel; k++) inside[k] = share_inside(&window, k);
        for (uint64_t t = 0; t < *taps; t++) shares[t] *= inside[t / after % (uint64_t)kernel];
    }
    return shares;
}

/* ---- factors --------------------------------------------------------------------------------- */

/* Of a convolution's weights, [channels of results, channels of a group, taps...]: what a channel's number
 * is where it meets no padding, by tap. */
static void of_convolution(const Node *conv, const Tensor *weights, const double *channels,
                           uint64_t groups, Arena *arena, double *factors) {
    const uint64_t depth = (uint64_t)weights->dims[1];
    uint64_t taps;
    const double *shares = tap_shares(conv, weights, arena, &taps);
    for (uint64_t c = 0; c < groups * depth; c++)
        for (uint64_t t = 0; t < taps; t++) factors[c * taps + t] = channels[c] * shares[t];
}

static double most_of(const double *numbers, uint64_t count) {
    double most = 0;
    for (uint64_t i = 0; i < count; i++) most = fmax(most, fabs(numbers[i]));
    return most;
}

static const float *in_units(const double *numbers, uint64_t count, double unit, Arena *arena) {
    float *items = ARENA_ARRAY(arena, float, count);
    for (uint64_t i = 0; i < count; i++) items[i] = (float)(numbers[i] / unit);
    return items;
}

/* Whether the range's means are of the channels that the product sums over. */
static bool fits(const Node *product, const Tensor *tensor, int32_t axis, const RangeRow *range,
                 uint64_t *groups) {
    const bool convolution = node_record(product)->channels == CHANNELS_FIRST;
    const int64_t asked = convolution ? node_attr_int(product, "group", 1) : 1;
    const uint64_t depth = (uint64_t)tensor->dims[convolution ? 1 : 1 - axis];
    *groups = (uint64_t)asked;
    return asked >= 1 && tensor->dims[convolution ? 0 : axis] % asked == 0 &&
           !(convolution && axis) && depth <= range->mean_count &&
           depth * *groups == range->mean_count;
}

bool qdq_drift_begin(const Node *product, const Tensor *tensor, int32_t axis, const RangeRow *range,
                     bool own_scale, Arena *arena, QdqDrift *drift) {
    int32_t channels;
    *drift = (QdqDrift){.product = product};
    if (!range || !range->mean_count || axis < 0 || tensor->rank < 2 ||
        !qdq_operand_channels(product, tensor->rank, &channels) || channels != range->axis ||
        !fits(product, tensor, axis, range, &drift->groups))
        return false;
    const uint64_t count = tensor_count(tensor) / (uint64_t)tensor->dims[axis] * drift->groups;
    const double *channel[2] = {range->errors, range->means};
    double *factors[2];
    for (int i = 0; i < 2; i++) {
        factors[i] = ARENA_ARRAY(arena, double, count + 1);
        if (node_record(product)->channels == CHANNELS_FIRST)
            of_convolution(product, tensor, channel[i], drift->groups, arena, factors[i]);
        else
            for (uint64_t k = 0; k < count; k++) factors[i][k] = channel[i][k];
    }
    for (uint64_t k = 0; k < count; k++) { /* stored weights multiply what is quantized */
        if (!own_scale) factors[0][k] = 0;
        factors[1][k] += factors[0][k];
    }
    drift->unit = fmax(most_of(factors[0], count), most_of(factors[1], count));
    if (!(drift->unit > 0) || !isfinite(drift->unit)) return false;
    drift->weights = in_units(factors[0], count, drift->unit, arena);
    drift->growths = in_units(factors[1], count, drift->unit, arena);
    return true;
}
