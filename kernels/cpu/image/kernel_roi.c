// SPDX-License-Identifier: Apache-2.0
/* Regions of interest: RoiAlign (He et al., Mask R-CNN), MaxRoiPool (Girshick, Fast R-CNN) and
 * NonMaxSuppression. Coordinates are data: each is brought into the map before it becomes an index,
 * and regions far outside cost no more than the map has elements. */
#include <math.h>
#include <string.h>

#include "kernel_functions.h"
#include "kernel_order.h"
#include "kernel_pace.h"

/* ---- RoiAlign -------------------------------------------------------------------------------- */

/* A sample along one axis: between two elements. */
typedef struct RoiSample {
    int64_t low, high;
    double low_weight, high_weight;
} RoiSample;

/* The samples along one axis of a region: those of bin b are [first[b], first[b + 1]). Samples
 * outside of the map count, as zeros, but are not listed. */
typedef struct RoiAxis {
    uint64_t *first; /* [bins + 1] */
    RoiSample *samples;
    double grid;       /* samples a bin */
    bool *has_outside; /* [bins] */
} RoiAxis;

static RoiSample sample_at(double x, int64_t size) {
    double at = x < 0 ? 0 : x;
    int64_t low = (int64_t)at;
    if (low >= size - 1) return (RoiSample){size - 1, size - 1, 1, 0};
    return (RoiSample){low, low + 1, 1 - (at - (double)low), at - (double)low};
}

/* Puts the samples of one bin, [0, grid) of them, behind those of the bins before: `start` is that
 * of the bin, `step` their distance. */
static bool bin_samples(KernelCall *call, RoiAxis *axis, uint64_t bin, const double span[2],
                        int64_t size) {
    enum { MOST = 1 << 20 };
    double start = span[0], step = span[1];
    double low = step > 0 ? ceil((-1 - start) / step - 0.5) : 0;
    double high = step > 0 ? floor(((double)size - start) / step - 0.5) : axis->grid - 1;
    low = low > 0 ? low - 1 : 0; /* one more: the test below decides */
    high = high + 1 < axis->grid ? high + 1 : axis->grid - 1;
    axis->first[bin + 1] = axis->first[bin];
    axis->has_outside[bin] = low > 0 || high < axis->grid - 1;
    if (!(high - low < MOST)) return kernel_fail(call, "a bin would need over %d samples", MOST);
    for (double i = low; i <= high; i++) {
        double x = start + (i + 0.5) * step;
        if (!(x >= -1 && x <= (double)size)) {
            axis->has_outside[bin] = true;
            continue;
        }
        axis->samples[axis->first[bin + 1]++] = sample_at(x, size);
    }
    return true;
}

/* Samples of all bins of a region [from, to) along an axis of `size` elements. */
static bool roi_axis(KernelCall *call, const double region[2], int64_t size, uint64_t bins,
                     RoiAxis *axis) {
    const RoiAttrs *attrs = call->attrs;
    double length = region[1] - region[0];
    if (attrs->coordinates == ROI_OUTPUT_HALF_PIXEL && !(length > 1)) length = 1;
    double bin = length / (double)bins;
    axis->grid = attrs->sampling_ratio > 0 ? (double)attrs->sampling_ratio : ceil(bin);
    if (!isfinite(region[0]) || !isfinite(length)) return kernel_fail(call, "a region is infinite");
    if (!(axis->grid > 0)) axis->grid = 0;
    axis->first = ARENA_ARRAY(call->scratch, uint64_t, bins + 1);
    axis->has_outside = ARENA_ARRAY(call->scratch, bool, bins);
    double step = axis->grid > 0 ? bin / axis->grid : 0;
    double most = step > 0 ? ((double)size + 1) / step + 4 : axis->grid; /* in the map, per bin */
    if (most > axis->grid) most = axis->grid;
    if (!(most < 0x1p20)) return kernel_fail(call, "a region would need %g samples", most);
    axis->samples = arena_array(call->scratch, ((size_t)most + 4) * bins, sizeof(RoiSample));
    for (uint64_t b = 0; b < bins && axis->grid > 0; b++) {
        const double span[2] = {region[0] + (double)b * bin, step};
        if (!bin_samples(call, axis, b, span, size)) return false;
    }
    return true;
}

static uint64_t bin_size(const RoiAxis *axis, uint64_t bin) {
    return axis->first[bin + 1] - axis->first[bin];
}

static double pool_bin(const KernelTensor *in, uint64_t base, const RoiAxis axes[2],
                       const uint64_t bin[2], bool most) {
    const RoiAxis *rows = &axes[0], *columns = &axes[1];
    bool found = most && (rows->has_outside[bin[0]] || columns->has_outside[bin[1]]);
    double total = 0;
    for (uint64_t r = rows->first[bin[0]]; r < rows->first[bin[0] + 1]; r++)
        for (uint64_t c = columns->first[bin[1]]; c < columns->first[bin[1] + 1]; c++) {
            RoiSample y = rows->samples[r], x = columns->samples[c];
            uint64_t low = base + (uint64_t)(y.low * in->dims[3]);
            uint64_t high = base + (uint64_t)(y.high * in->dims[3]);
            double a = y.low_weight * x.low_weight * kernel_number(in, low + (uint64_t)x.low);
            double b = y.low_weight * x.high_weight * kernel_number(in, low + (uint64_t)x.high);
            double d = y.high_weight * x.low_weight * kernel_number(in, high + (uint64_t)x.low);
            double e = y.high_weight * x.high_weight * kernel_number(in, high + (uint64_t)x.high);
            double value = most ? fmax(fmax(a, b), fmax(d, e)) : a + b + d + e;
            total = !most ? total + value : found ? fmax(total, value) : value;
            found = true;
        }
    double count = rows->grid * columns->grid;
    return most || !(count > 1) ? total : total / count;
}

/* A sampling_ratio may ask for any number of samples: a bin takes no more than a few for each
 * element of the map. */
static bool check_samples(KernelCall *call, const RoiAxis axes[2], const uint64_t bins[2],
                          uint64_t area) {
    double samples = (double)axes[0].first[bins[0]] * (double)axes[1].first[bins[1]];
    double most = (double)bins[0] * (double)bins[1] * (16 * (double)area + 0x1p16);
    return samples <= most || kernel_fail(call, "a region would need %g samples", samples);
}

static bool align_region(KernelCall *call, uint64_t roi, uint64_t image) {
    const RoiAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *rois = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    double scale = (double)attrs->scale;
    double offset = attrs->coordinates == ROI_HALF_PIXEL ? 0.5 : 0;
    double corner[4];
    for (uint64_t i = 0; i < 4; i++) corner[i] = kernel_real(rois, roi * 4 + i) * scale - offset;
    uint64_t high = (uint64_t)out->dims[2], wide = (uint64_t)out->dims[3];
    uint64_t channels = (uint64_t)in->dims[1], area = kernel_span(in, 2, 4);
    RoiAxis axes[2];
    if (!roi_axis(call, (const double[]){corner[1], corner[3]}, in->dims[2], high, &axes[0]) ||
        !roi_axis(call, (const double[]){corner[0], corner[2]}, in->dims[3], wide, &axes[1]) ||
        !check_samples(call, axes, (const uint64_t[]){high, wide}, area))
        return false;
    KernelPace pace = {call, 0};
    for (uint64_t c = 0; c < channels; c++)
        for (uint64_t i = 0; i < high * wide; i++) {
            const uint64_t bin[2] = {i / wide, i % wide};
            kernel_pace(&pace, 16 + 16 * bin_size(&axes[0], bin[0]) * bin_size(&axes[1], bin[1]));
            double value =
                pool_bin(in, (image * channels + c) * area, axes, bin, attrs->mode == ROI_MAX);
            kernel_set_real(out, (roi * channels + c) * high * wide + i, value);
        }
    return true;
}

bool kernel_roi_align(KernelCall *call) {
    const RoiAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *rois = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    if (attrs->mode < 0 || attrs->coordinates < 0) return kernel_fail(call, "a mode is unknown");
    if (rois->dims[1] != 4)
        return kernel_fail(call, "regions of %lld numbers", (long long)rois->dims[1]);
    const int64_t *images = kernel_ints(call, &call->inputs[2]);
    if (!images || out->count == 0) return images != NULL;
    if (in->dims[2] == 0 || in->dims[3] == 0) return kernel_fail(call, "the map is empty");
    for (uint64_t i = 0; i < (uint64_t)rois->dims[0]; i++) {
        if (images[i] < 0 || images[i] >= in->dims[0])
            return kernel_fail(call, "batch index %lld of %lld", (long long)images[i],
                               (long long)in->dims[0]);
        if (!align_region(call, i, (uint64_t)images[i])) return false;
    }
    return true;
}

/* ---- MaxRoiPool ------------------------------------------------------------------------------ */

/* Elements [range[0], range[1]) of bin b of `bins`, of a region from `start` on, `length` long. */
static void pool_range(double start, double length, int64_t b, int64_t bins, int64_t size,
                       int64_t range[2]) {
    double low = floor((double)b * length / (double)bins) + start;
    double high = ceil((double)(b + 1) * length / (double)bins) + start;
    range[0] = !(low > 0) ? 0 : low > (double)size ? size : (int64_t)low;
    range[1] = !(high > 0) ? 0 : high > (double)size ? size : (int64_t)high;
}

static double largest(const KernelTensor *in, uint64_t base, const int64_t rows[2],
                      const int64_t columns[2]) {
    double best = 0;
    bool found = false;
    for (int64_t y = rows[0]; y < rows[1]; y++)
        for (int64_t x = columns[0]; x < columns[1]; x++) {
            double value = kernel_number(in, base + (uint64_t)(y * in->dims[3] + x));
            if (!found || value > best || value != value) best = value;
            found = true;
        }
    return best;
}

bool kernel_max_roi_pool(KernelCall *call) {
    const RoiAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *rois = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    int64_t high = out->dims[2], wide = out->dims[3];
    uint64_t channels = (uint64_t)in->dims[1], area = kernel_span(in, 2, 4);
    if (rois->dims[1] != 5)
        return kernel_fail(call, "regions of %lld numbers", (long long)rois->dims[1]);
    KernelPace pace = {call, 0};
    for (uint64_t at = 0; at < out->count; at++) {
        uint64_t roi = at / (channels * (uint64_t)(high * wide));
        uint64_t c = at / (uint64_t)(high * wide) % channels;
        double image = kernel_real(rois, roi * 5), corner[4];
        if (!(image >= 0 && image < (double)in->dims[0]))
            return kernel_fail(call, "batch index %g of %lld", image, (long long)in->dims[0]);
        for (uint64_t i = 0; i < 4; i++)
            corner[i] = round(kernel_real(rois, roi * 5 + 1 + i) * (double)attrs->scale);
        int64_t y = (int64_t)(at / (uint64_t)wide) % high, x = (int64_t)(at % (uint64_t)wide);
        int64_t rows[2], columns[2];
        pool_range(corner[1], fmax(corner[3] - corner[1] + 1, 1), y, high, in->dims[2], rows);
        pool_range(corner[0], fmax(corner[2] - corner[0] + 1, 1), x, wide, in->dims[3], columns);
        kernel_pace(&pace, 16 + 4 * (uint64_t)((rows[1] - rows[0]) * (columns[1] - columns[0])));
        kernel_set_real(out, at,
                        largest(in, ((uint64_t)image * channels + c) * area, rows, columns));
    }
    return true;
}

/* ---- NonMaxSuppression ----------------------------------------------------------------------- */

typedef struct Box {
    float low[2], high[2], area;
} Box;

static Box box_of(const float *numbers, bool center) {
    Box box;
    for (int i = 0; i < 2; i++) {
        float a = numbers[i], b = numbers[i + 2];
        box.low[i] = center ? a - b / 2 : fminf(a, b);
        box.high[i] = center ? a + b / 2 : fmaxf(a, b);
    }
    box.area = (box.high[0] - box.low[0]) * (box.high[1] - box.low[1]);
    return box;
}

static bool overlap(const Box *a, const Box *b, float threshold) {
    float common = 1;
    for (int i = 0; i < 2; i++) {
        float low = fmaxf(a->low[i], b->low[i]), high = fminf(a->high[i], b->high[i]);
        if (!(high > low)) return false;
        common *= high - low;
    }
    float both = a->area + b->area - common;
    return a->area > 0 && b->area > 0 && both > 0 && common / both > threshold;
}

/* A class' scores, and the boxes whose score suffices. */
typedef struct Candidates {
    const float *scores;
    uint64_t *boxes;
} Candidates;

static int compare_scores(const void *context, uint64_t a, uint64_t b) {
    const Candidates *candidates = context;
    float left = candidates->scores[candidates->boxes[a]];
    float right = candidates->scores[candidates->boxes[b]];
    return (left < right) - (left > right);
}

/* What holds for all classes; the numbers chosen so far. */
typedef struct Nms {
    KernelCall *call;
    Box *boxes; /* [batches * count] */
    uint64_t count, most, found;
    float overlap, score;
    bool has_score;
    int64_t *chosen;      /* [found * 3] */
    uint64_t *candidates; /* [count] */
    KernelPace pace;
} Nms;

static void nms_class(Nms *nms, const float *scores, uint64_t batch, uint64_t class) {
    const Box *boxes = nms->boxes + batch * nms->count;
    Candidates candidates = {scores, nms->candidates};
    uint64_t first = nms->found, count = 0;
    kernel_pace(&nms->pace, nms->count);
    for (uint64_t i = 0; i < nms->count; i++)
        if (!nms->has_score || scores[i] > nms->score) candidates.boxes[count++] = i;
    const uint64_t *order = order_sort(nms->call, count, compare_scores, &candidates);
    for (uint64_t i = 0; i < count && nms->found - first < nms->most; i++) {
        uint64_t candidate = candidates.boxes[order[i]];
        bool keep = true;
        kernel_pace(&nms->pace, 4 * (nms->found - first) + 1);
        for (uint64_t k = first; keep && k < nms->found; k++)
            keep = !overlap(&boxes[candidate], &boxes[nms->chosen[3 * k + 2]], nms->overlap);
        if (!keep) continue;
        int64_t *row = &nms->chosen[3 * nms->found++];
        row[0] = (int64_t)batch;
        row[1] = (int64_t) class;
        row[2] = (int64_t)candidate;
    }
}

static bool nms_init(KernelCall *call, Nms *nms) {
    const NmsAttrs *attrs = call->attrs;
    const KernelTensor *boxes = &call->inputs[0], *scores = &call->inputs[1];
    const KernelTensor *most = kernel_input(call, 2), *iou = kernel_input(call, 3);
    const KernelTensor *score = kernel_input(call, 4);
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 ||
        boxes->dims[0] != scores->dims[0] || boxes->dims[1] != scores->dims[2])
        return kernel_fail(call, "boxes are not (N, B, 4) or scores not (N, C, B)");
    *nms = (Nms){.call = call,
                 .count = (uint64_t)boxes->dims[1],
                 .has_score = score && score->count,
                 .pace = {call, 0}};
    if (most && most->count) {
        const int64_t *items = kernel_ints(call, most);
        if (!items) return false;
        nms->most = items[0] > 0 ? (uint64_t)items[0] : 0;
    }
    if (nms->most > nms->count) nms->most = nms->count;
    nms->overlap = iou && iou->count ? (float)kernel_real(iou, 0) : 0;
    nms->score = nms->has_score ? (float)kernel_real(score, 0) : 0;
    uint64_t total = boxes->count / 4;
    nms->boxes = ARENA_ARRAY(call->scratch, Box, total);
    for (uint64_t i = 0; i < total; i++)
        nms->boxes[i] = box_of((const float *)boxes->data + 4 * i, attrs->center != 0);
    uint64_t classes = kernel_span(scores, 0, 2);
    nms->candidates = ARENA_ARRAY(call->scratch, uint64_t, nms->count);
    nms->chosen = arena_array(call->scratch, classes * nms->most, 3 * sizeof(int64_t));
    return true;
}

bool kernel_nms(KernelCall *call) {
    const KernelTensor *scores = &call->inputs[1];
    Nms nms = {0};
    if (call->inputs[0].dtype != DTYPE_FLOAT || scores->dtype != DTYPE_FLOAT)
        return kernel_fail(call, "boxes and scores are not floating-point");
    if (!nms_init(call, &nms)) return false;
    uint64_t classes = (uint64_t)scores->dims[1];
    for (uint64_t i = 0; nms.most && i < (uint64_t)scores->dims[0] * classes; i++)
        nms_class(&nms, (const float *)scores->data + i * nms.count, i / classes, i % classes);
    const int64_t dims[] = {(int64_t)nms.found, 3};
    if (!kernel_output(call, 0, 2, dims)) return false;
    if (call->outputs[0].dtype != DTYPE_INT64) return kernel_fail(call, "the output is not int64");
    if (nms.found) memcpy(call->outputs[0].data, nms.chosen, nms.found * 3 * sizeof *nms.chosen);
    return true;
}
