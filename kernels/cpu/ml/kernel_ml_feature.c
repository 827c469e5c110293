// SPDX-License-Identifier: Apache-2.0
/* ai.onnx.ml: what prepares features. ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer,
 * Normalizer, OneHotEncoder, Scaler. */
#include <math.h>
#include <string.h>

#include "kernel_functions.h"
#include "kernel_index.h"
#include "kernel_order.h"
#include "kernel_strided.h"

/* Picks along the last axis. */
bool kernel_array_feature(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0], *indices = &call->inputs[1];
    KernelTensor *out = &call->outputs[0];
    if (in->rank == 0) return kernel_fail(call, "a scalar has no features");
    uint64_t features = (uint64_t)in->dims[in->rank - 1];
    const int64_t *index = index_read(call, indices, (int64_t)features);
    size_t size = kernel_element_size(in->dtype);
    if (!index) return false;
    for (uint64_t i = 0; i < out->count; i++) {
        uint64_t from = i / indices->count * features + (uint64_t)index[i % indices->count];
        memcpy((char *)out->data + i * size, (const char *)in->data + from * size, size);
    }
    return true;
}

bool kernel_binarizer(KernelCall *call) {
    const FeatureAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    for (uint64_t i = 0; i < in->count; i++)
        kernel_set_real(&call->outputs[0], i,
                        kernel_number(in, i) > (double)attrs->threshold ? 1 : 0);
    return true;
}

/* (X - offset) * scale, each one number or one a feature. */
bool kernel_scaler(KernelCall *call) {
    const FeatureAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    uint64_t features = in->rank ? (uint64_t)in->dims[in->rank - 1] : 1;
    uint32_t offsets = attrs->offset.count, scales = attrs->scale.count;
    if ((offsets > 1 && offsets != features) || (scales > 1 && scales != features))
        return kernel_fail(call, "%u offsets and %u scales for %llu features", offsets, scales,
                           (unsigned long long)features);
    for (uint64_t i = 0; i < in->count; i++) {
        uint64_t k = i % features;
        double offset = offsets ? (double)attrs->offset.items[offsets > 1 ? k : 0] : 0;
        double scale = scales ? (double)attrs->scale.items[scales > 1 ? k : 0] : 1;
        kernel_set_real(&call->outputs[0], i, (kernel_number(in, i) - offset) * scale);
    }
    return true;
}

static double norm_of(const KernelTensor *in, uint64_t first, uint64_t count, int64_t norm) {
    double total = norm == NORM_MAX ? -INFINITY : 0;
    for (uint64_t i = first; i < first + count; i++) {
        double x = kernel_number(in, i);
        if (norm == NORM_MAX)
            total = x > total || x != x ? x : total;
        else
            total += norm == NORM_L1 ? fabs(x) : x * x;
    }
    return norm == NORM_L2 ? sqrt(total) : total;
}

/* Each row divided by its largest value, the sum of the absolute ones, or the root of the sum of
 * squares. */
bool kernel_normalizer(KernelCall *call) {
    const FeatureAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    uint64_t width = in->rank ? (uint64_t)in->dims[in->rank - 1] : 1;
    if (attrs->norm < 0) return kernel_fail(call, "the norm is unknown");
    for (uint64_t first = 0; first < in->count; first += width) {
        double norm = norm_of(in, first, width, attrs->norm);
        for (uint64_t i = first; i < first + width; i++)
            kernel_set_real(&call->outputs[0], i,
                            norm == 0 ? kernel_number(in, i) : kernel_number(in, i) / norm);
    }
    return true;
}

bool kernel_imputer(KernelCall *call) {
    const FeatureAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    bool real = attrs->imputed_reals.count > 0;
    uint64_t given = real ? attrs->imputed_reals.count : attrs->imputed_ints.count;
    uint64_t features = in->rank ? (uint64_t)in->dims[in->rank - 1] : 1;
    if (given != 1 && given != features)
        return kernel_fail(call, "%llu imputed values for %llu features", (unsigned long long)given,
                           (unsigned long long)features);
    if (in->dtype != out->dtype) return kernel_fail(call, "the output has a different type");
    if (in->count) memcpy(out->data, in->data, in->count * kernel_element_size(in->dtype));
    double wanted = real ? (double)attrs->replaced_real : (double)attrs->replaced_int;
    for (uint64_t i = 0; i < in->count; i++) {
        double x = kernel_number(in, i);
        bool match = x == wanted || (x != x && wanted != wanted);
        uint64_t k = given > 1 ? i % features : 0;
        if (match && in->dtype == DTYPE_INT64 && !real)
            ((int64_t *)out->data)[i] = attrs->imputed_ints.items[k];
        else if (match)
            kernel_set_real(out, i,
                            real ? (double)attrs->imputed_reals.items[k]
                                 : (double)attrs->imputed_ints.items[k]);
    }
    return true;
}

/* Inputs [N, C] or [C] side by side; each is cut or filled with zeros to its given size. */
bool kernel_feature_vectorizer(KernelCall *call) {
    const FeatureAttrs *attrs = call->attrs;
    int64_t dims[2] = {0, 0}, at = 0;
    if (attrs->sizes.present && attrs->sizes.count != call->input_count)
        return kernel_fail(call, "%u sizes for %u inputs", attrs->sizes.count, call->input_count);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const KernelTensor *in = &call->inputs[i];
        if (in->rank < 1 || in->rank > 2)
            return kernel_fail(call, "input %u is neither [N, C] nor [C]", i);
        int64_t rows = in->rank == 2 ? in->dims[0] : 1, columns = in->dims[in->rank - 1];
        if (attrs->sizes.present) columns = attrs->sizes.items[i];
        if (i && rows != dims[0])
            return kernel_fail(call, "input %u has a different number of rows", i);
        dims[0] = rows;
        if (columns < 0 || __builtin_add_overflow(dims[1], columns, &dims[1]))
            return kernel_fail(call, "input %u must have %lld columns", i, (long long)columns);
    }
    if (!kernel_output(call, 0, 2, dims)) return false;
    KernelTensor *out = &call->outputs[0];
    strided_fill(out, NULL);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const KernelTensor *in = &call->inputs[i];
        int64_t own = in->dims[in->rank - 1];
        int64_t columns = attrs->sizes.present ? attrs->sizes.items[i] : own;
        int64_t used = own < columns ? own : columns;
        for (int64_t k = 0; k < dims[0] * used; k++)
            kernel_set_real(out, (uint64_t)(k / used * dims[1] + at + k % used),
                            kernel_number(in, (uint64_t)(k / used * own + k % used)));
        at += columns;
    }
    return true;
}

/* The category an element is; -1 for none. Numbers are cut to integers. */
static int64_t category_of(const FeatureAttrs *attrs, const KernelTensor *in, uint64_t i) {
    if (in->dtype == DTYPE_STRING) {
        for (uint32_t k = 0; k < attrs->texts.count; k++) {
            KernelString name = {attrs->texts.items[k].size, attrs->texts.items[k].text};
            if (order_strings(&name, &((const KernelString *)in->data)[i]) == 0) return k;
        }
        return -1;
    }
    double x = trunc(kernel_number(in, i));
    bool exact = in->dtype == DTYPE_INT64;
    for (uint32_t k = 0; k < attrs->ints.count; k++)
        if (exact ? ((const int64_t *)in->data)[i] == attrs->ints.items[k]
                  : x == (double)attrs->ints.items[k])
            return k;
    return -1;
}

bool kernel_one_hot_encoder(KernelCall *call) {
    const FeatureAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    bool text = in->dtype == DTYPE_STRING;
    uint64_t width = text ? attrs->texts.count : attrs->ints.count;
    if ((text ? attrs->ints.present : attrs->texts.present) || out->count != in->count * width)
        return kernel_fail(call, "the types of the categories and the data differ");
    strided_fill(out, NULL);
    for (uint64_t i = 0; i < in->count; i++) {
        int64_t category = category_of(attrs, in, i);
        if (category >= 0)
            kernel_set_real(out, i * width + (uint64_t)category, 1);
        else if (!attrs->zeros)
            return kernel_fail(call, "element %llu belongs to no category", (unsigned long long)i);
    }
    return true;
}
