// SPDX-License-Identifier: Apache-2.0
/* Shared parts of ai.onnx.ml; see kernel_ml.h. */
#include "kernel_ml.h"

#include <math.h>

double ml_logistic(double x) {
    double y = 1 / (1 + exp(-fabs(x)));
    return x < 0 ? 1 - y : y;
}

/* sqrt(2) * erf^-1(2 p - 1) */
static double probit(double p) {
    double x = 2 * p - 1, left = (1 - x) * (1 + x);
    if (left == 0) return 0;
    double logarithm = log(left), a = 0.147, pi = 3.14159265358979323846;
    double v = 2 / (pi * a) + 0.5 * logarithm;
    double root = sqrt(sqrt(v * v - logarithm / a) - v);
    return 1.41421356 * (x < 0 ? -root : root);
}

/* Zeros stay (nearly) zero in SOFTMAX_ZERO: they are scaled instead. */
static void softmax(double *scores, uint64_t count, bool keep_zeros) {
    double most = -INFINITY, sum = 0;
    for (uint64_t i = 0; i < count; i++)
        if (scores[i] > most) most = scores[i];
    for (uint64_t i = 0; i < count; i++) {
        bool zero = keep_zeros && fabs(scores[i]) <= 1e-7;
        scores[i] = zero ? scores[i] * exp(-most) : exp(scores[i] - most);
        sum += scores[i];
    }
    for (uint64_t i = 0; i < count; i++) scores[i] = sum == 0 ? 0.5 : scores[i] / sum;
}

void ml_transform(MlTransform how, double *scores, uint64_t count) {
    if (how == ML_SOFTMAX || how == ML_SOFTMAX_ZERO) softmax(scores, count, how == ML_SOFTMAX_ZERO);
    for (uint64_t i = 0; how == ML_LOGISTIC && i < count; i++) scores[i] = ml_logistic(scores[i]);
    for (uint64_t i = 0; how == ML_PROBIT && i < count; i++) scores[i] = probit(scores[i]);
}

bool ml_rows(KernelCall *call, MlRows *rows) {
    const KernelTensor *x = &call->inputs[0];
    if (x->rank != 1 && x->rank != 2) return kernel_fail(call, "X has rank %u", x->rank);
    if (!(KERNEL_NUMBERS >> x->dtype & 1))
        return kernel_fail(call, "X is %s", dtype_name(x->dtype));
    *rows = (MlRows){
        x, x->rank == 2 ? (uint64_t)x->dims[0] : 1, (uint64_t)x->dims[x->rank - 1], {call, 0}};
    return true;
}

void ml_row(const MlRows *rows, uint64_t row, double *to) {
    for (uint64_t i = 0; i < rows->features; i++)
        to[i] = kernel_number(rows->x, row * rows->features + i);
}

/* ---- labels and scores ----------------------------------------------------------------------- */

uint64_t ml_label_count(const MlLabels *labels) {
    return labels->texts.count ? labels->texts.count : labels->ints.count;
}

bool ml_make_labels(KernelCall *call, const MlLabels *labels, uint64_t rows) {
    const int64_t dim = (int64_t)rows;
    Dtype dtype = labels->texts.count ? DTYPE_STRING : DTYPE_INT64;
    if (!kernel_result(call, 0)) return true;
    if (!kernel_output(call, 0, 1, &dim)) return false;
    return call->outputs[0].dtype == dtype ||
           kernel_fail(call, "the labels are %s, the output %s", dtype_name(dtype),
                       dtype_name(call->outputs[0].dtype));
}

void ml_set_label(KernelCall *call, const MlLabels *labels, uint64_t row, int64_t class) {
    KernelTensor *out = kernel_result(call, 0);
    bool known = class >= 0 && (uint64_t) class < ml_label_count(labels);
    if (!out) return;
    if (labels->texts.count) {
        const AttrText *text = known ? &labels->texts.items[class] : NULL;
        ((KernelString *)out->data)[row] =
            text ? (KernelString){text->size, text->text} : (KernelString){0, ""};
    } else {
        bool numbered = !labels->ints.count && class >= 0;
        ((int64_t *)out->data)[row] = known ? labels->ints.items[class] : numbered ? class : 0;
    }
}

bool ml_make_scores(KernelCall *call, uint32_t i, uint64_t rows, uint64_t columns) {
    const int64_t dims[] = {(int64_t)rows, (int64_t)columns};
    if (!kernel_result(call, i)) return true;
    if (columns > INT64_MAX) return kernel_fail(call, "there are too many scores");
    if (!kernel_output(call, i, 2, dims)) return false;
    return (KERNEL_FLOATS >> call->outputs[i].dtype & 1) ||
           kernel_fail(call, "the scores must be %s", dtype_name(call->outputs[i].dtype));
}

void ml_set_scores(KernelCall *call, uint32_t i, uint64_t row, const double *scores) {
    KernelTensor *out = kernel_result(call, i);
    uint64_t columns = out ? (uint64_t)out->dims[1] : 0;
    for (uint64_t k = 0; k < columns; k++) kernel_set_real(out, row * columns + k, scores[k]);
}

uint64_t ml_largest(const double *scores, uint64_t count) {
    uint64_t best = 0;
    for (uint64_t i = 1; i < count; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}
