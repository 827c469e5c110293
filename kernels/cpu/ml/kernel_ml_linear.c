// SPDX-License-Identifier: Apache-2.0
/* ai.onnx.ml: linear and support vector predictors. Probabilities of support vector machines couple
 * pairs of classes as Wu, Lin and Weng (2004) do. */
#include <math.h>
#include <string.h>

#include "kernel_functions.h"
#include "kernel_ml.h"

/* Of what is done to the sum of a kernel, in multiply-adds. */
enum { KERNEL_WORK = 16 };

/* ---- linear ---------------------------------------------------------------------------------- */

static void linear_row(const MlLinearAttrs *attrs, const double *x, uint64_t features,
                       uint64_t targets, double *scores) {
    for (uint64_t t = 0; t < targets; t++) {
        double sum = t < attrs->intercepts.count ? (double)attrs->intercepts.items[t] : 0;
        for (uint64_t i = 0; i < features; i++)
            sum += x[i] * (double)attrs->coefficients.items[t * features + i];
        scores[t] = sum;
    }
}

static bool linear_check(KernelCall *call, uint64_t targets, uint64_t features) {
    const MlLinearAttrs *attrs = call->attrs;
    uint64_t needed;
    if (attrs->transform < 0) return kernel_fail(call, "post_transform is unknown");
    if (targets < 1 || __builtin_mul_overflow(targets, features, &needed) ||
        needed != attrs->coefficients.count ||
        (attrs->intercepts.count && attrs->intercepts.count != targets))
        return kernel_fail(call,
                           "%u coefficients and %u intercepts for %llu scores of %llu features",
                           attrs->coefficients.count, attrs->intercepts.count,
                           (unsigned long long)targets, (unsigned long long)features);
    return true;
}

bool kernel_linear_regressor(KernelCall *call) {
    const MlLinearAttrs *attrs = call->attrs;
    MlRows rows;
    if (!ml_rows(call, &rows)) return false;
    uint64_t targets = attrs->targets > 0 ? (uint64_t)attrs->targets : 0;
    if (!linear_check(call, targets, rows.features)) return false;
    if (!ml_make_scores(call, 0, rows.count, targets)) return false;
    double *x = ARENA_ARRAY(call->scratch, double, rows.features);
    double *scores = ARENA_ARRAY(call->scratch, double, targets);
    for (uint64_t row = 0; row < rows.count; row++) {
        ml_row(&rows, row, x);
        linear_row(attrs, x, rows.features, targets, scores);
        kernel_pace(&rows.pace, targets * (rows.features + 1));
        ml_transform((MlTransform)attrs->transform, scores, targets);
        ml_set_scores(call, 0, row, scores);
    }
    return true;
}

/* One score and two labels: the scores are -s and s. One score and one label: it or nothing. */
bool kernel_linear_classifier(KernelCall *call) {
    const MlLinearAttrs *attrs = call->attrs;
    MlRows rows;
    if (!ml_rows(call, &rows)) return false;
    uint64_t labels = ml_label_count(&attrs->labels);
    uint64_t targets = rows.features ? attrs->coefficients.count / rows.features : 0;
    if (!linear_check(call, targets, rows.features)) return false;
    bool two = targets == 1 && labels == 2;
    uint64_t columns = two ? 2 : targets;
    if (!ml_make_labels(call, &attrs->labels, rows.count) ||
        !ml_make_scores(call, 1, rows.count, columns))
        return false;
    double *x = ARENA_ARRAY(call->scratch, double, rows.features);
    double *scores = ARENA_ARRAY(call->scratch, double, columns);
    for (uint64_t row = 0; row < rows.count; row++) {
        ml_row(&rows, row, x);
        linear_row(attrs, x, rows.features, targets, scores);
        kernel_pace(&rows.pace, targets * (rows.features + 1));
        if (two) scores[1] = scores[0];
        if (two) scores[0] = -scores[1];
        ml_transform((MlTransform)attrs->transform, scores, columns);
        ml_set_scores(call, 1, row, scores);
        double threshold = attrs->transform == ML_NONE ? 0 : 0.5;
        int64_t class = columns > 1              ? (int64_t)ml_largest(scores, columns)
                        : scores[0] >= threshold ? (labels ? 0 : 1)
                        : labels                 ? -1
                                                 : 0;
        ml_set_label(call, &attrs->labels, row, class);
    }
    return true;
}

/* ---- support vectors ------------------------------------------------------------------------- */

static double svm_kernel(const SvmAttrs *attrs, int64_t kind, const double *x, const float *vector,
                         uint64_t features) {
    double p[3] = {0}, sum = 0;
    for (uint32_t i = 0; i < 3 && i < attrs->parameters.count; i++)
        p[i] = (double)attrs->parameters.items[i];
    for (uint64_t i = 0; i < features; i++) {
        double v = (double)vector[i], d = x[i] - v;
        sum += kind == SVM_RBF ? d * d : x[i] * v;
    }
    if (kind == SVM_POLY) return pow(sum * p[0] + p[1], trunc(p[2]));
    if (kind == SVM_SIGMOID) return tanh(sum * p[0] + p[1]);
    return kind == SVM_RBF ? exp(-p[0] * sum) : sum;
}

static bool svm_check(KernelCall *call, uint64_t vectors, uint64_t features) {
    const SvmAttrs *attrs = call->attrs;
    uint64_t needed;
    if (attrs->kernel < 0 || attrs->transform < 0)
        return kernel_fail(call, "the kernel or the transform is unknown");
    if (__builtin_mul_overflow(vectors, features, &needed) ||
        (vectors && needed != attrs->vectors.count) || attrs->rho.count == 0)
        return kernel_fail(call, "%u numbers for %llu support vectors of %llu features, %u rho",
                           attrs->vectors.count, (unsigned long long)vectors,
                           (unsigned long long)features, attrs->rho.count);
    return true;
}

bool kernel_svm_regressor(KernelCall *call) {
    const SvmAttrs *attrs = call->attrs;
    MlRows rows;
    if (!ml_rows(call, &rows)) return false;
    uint64_t vectors = attrs->supports > 0 ? (uint64_t)attrs->supports : 0;
    if (!svm_check(call, vectors, rows.features)) return false;
    if (attrs->coefficients.count != (vectors ? vectors : rows.features))
        return kernel_fail(call, "%u coefficients", attrs->coefficients.count);
    if (!ml_make_scores(call, 0, rows.count, 1)) return false;
    double *x = ARENA_ARRAY(call->scratch, double, rows.features);
    for (uint64_t row = 0; row < rows.count; row++) {
        double sum = (double)attrs->rho.items[0];
        ml_row(&rows, row, x);
        for (uint64_t i = 0; i < vectors; i++) {
            sum += (double)attrs->coefficients.items[i] *
                   svm_kernel(attrs, attrs->kernel, x, attrs->vectors.items + i * rows.features,
                              rows.features);
            kernel_pace(&rows.pace, rows.features + KERNEL_WORK);
        }
        if (!vectors)
            sum += svm_kernel(attrs, SVM_LINEAR, x, attrs->coefficients.items, rows.features);
        if (attrs->one_class) sum = sum > 0 ? 1 : -1;
        ml_transform((MlTransform)attrs->transform, &sum, 1);
        ml_set_scores(call, 0, row, &sum);
    }
    return true;
}

/* ---- SVMClassifier --------------------------------------------------------------------------- */

/* A classifier at work on one row. */
typedef struct Svm {
    const SvmAttrs *attrs;
    uint64_t classes, vectors, pairs, features;
    uint64_t *start;                      /* [classes]: the first support vector of each */
    double *x, *kernels, *votes, *scores; /* scores: [columns] */
    double *pair, *coupling;              /* [classes * classes] */
    bool coupled;                         /* probabilities */
    KernelPace *pace;
} Svm;

static bool svm_init(KernelCall *call, Svm *svm, const MlRows *rows) {
    const SvmAttrs *attrs = call->attrs;
    uint64_t labels = ml_label_count(&attrs->labels), needed = 0;
    *svm = (Svm){.attrs = attrs, .classes = labels ? labels : 1, .features = rows->features};
    for (uint32_t i = 0; i < attrs->per_class.count; i++) {
        int64_t count = attrs->per_class.items[i];
        if (count < 0 || count > UINT32_MAX)
            return kernel_fail(call, "class %u has %lld vectors", i, (long long)count);
        svm->vectors += (uint64_t)count;
    }
    if (!svm_check(call, svm->vectors, rows->features)) return false;
    uint64_t wide = svm->vectors ? svm->vectors : rows->features;
    uint64_t high = svm->vectors ? svm->classes - 1 : svm->classes;
    bool fits = !__builtin_mul_overflow(wide, high, &needed) && high > 0 &&
                needed <= attrs->coefficients.count;
    svm->pairs = svm->classes * (svm->classes - 1) / 2;
    if (!fits ||
        (svm->vectors && (attrs->per_class.count != svm->classes || attrs->rho.count < svm->pairs)))
        return kernel_fail(call, "%u coefficients, %u rho and %u counts for %llu classes",
                           attrs->coefficients.count, attrs->rho.count, attrs->per_class.count,
                           (unsigned long long)svm->classes);
    svm->coupled = attrs->prob_a.count > 0 && svm->vectors;
    if (svm->coupled && (attrs->prob_a.count < svm->pairs || attrs->prob_b.count < svm->pairs))
        return kernel_fail(call, "%u probabilities for %llu pairs", attrs->prob_a.count,
                           (unsigned long long)svm->pairs);
    uint64_t most = svm->pairs > svm->classes ? svm->pairs : svm->classes;
    svm->start = ARENA_ARRAY(call->scratch, uint64_t, svm->classes);
    for (uint64_t i = 1; svm->vectors && i < svm->classes; i++)
        svm->start[i] = svm->start[i - 1] + (uint64_t)attrs->per_class.items[i - 1];
    svm->x = ARENA_ARRAY(call->scratch, double, svm->features);
    svm->kernels = ARENA_ARRAY(call->scratch, double, svm->vectors);
    svm->votes = ARENA_ARRAY(call->scratch, double, svm->classes);
    svm->scores = ARENA_ARRAY(call->scratch, double, most + 2);
    uint64_t square = svm->coupled ? svm->classes : 0;
    svm->pair = arena_array(call->scratch, square, svm->classes * sizeof(double));
    svm->coupling = arena_array(call->scratch, square + 1, svm->classes * sizeof(double));
    return true;
}

/* The decision between classes i and j, for i where positive. */
static double svm_pair(const Svm *svm, uint64_t i, uint64_t j, uint64_t number) {
    const SvmAttrs *attrs = svm->attrs;
    double sum = (double)attrs->rho.items[number];
    const float *of_i = attrs->coefficients.items + (j - 1) * svm->vectors;
    const float *of_j = attrs->coefficients.items + i * svm->vectors;
    uint64_t end_i = svm->start[i] + (uint64_t)attrs->per_class.items[i];
    uint64_t end_j = svm->start[j] + (uint64_t)attrs->per_class.items[j];
    for (uint64_t k = svm->start[i]; k < end_i; k++) sum += (double)of_i[k] * svm->kernels[k];
    for (uint64_t k = svm->start[j]; k < end_j; k++) sum += (double)of_j[k] * svm->kernels[k];
    return sum;
}

static void svm_decide(Svm *svm) {
    uint64_t number = 0;
    for (uint64_t i = 0; i < svm->vectors; i++) {
        svm->kernels[i] = svm_kernel(svm->attrs, svm->attrs->kernel, svm->x,
                                     svm->attrs->vectors.items + i * svm->features, svm->features);
        kernel_pace(svm->pace, svm->features + KERNEL_WORK);
    }
    memset(svm->votes, 0, svm->classes * sizeof *svm->votes);
    for (uint64_t i = 0; i < svm->classes; i++)
        for (uint64_t j = i + 1; j < svm->classes; j++, number++) {
            svm->scores[number] = svm_pair(svm, i, j, number);
            kernel_pace(svm->pace, 2 * svm->vectors / svm->classes + 1);
            svm->votes[svm->scores[number] > 0 ? i : j]++;
        }
}

/* One round of the fixed-point iteration; true where it is done. */
static bool couple_step(uint64_t k, const double *q, double *p, double *qp) {
    double total = 0, worst = 0;
    for (uint64_t t = 0; t < k; t++) {
        qp[t] = 0;
        for (uint64_t j = 0; j < k; j++) qp[t] += q[t * k + j] * p[j];
        total += p[t] * qp[t];
    }
    for (uint64_t t = 0; t < k; t++) worst = fmax(worst, fabs(qp[t] - total));
    if (worst < 0.005 / (double)k) return true;
    for (uint64_t t = 0; t < k; t++) {
        double diagonal = q[t * k + t], diff = (total - qp[t]) / diagonal;
        p[t] += diff;
        total = (total + diff * (diff * diagonal + 2 * qp[t])) / (1 + diff) / (1 + diff);
        for (uint64_t j = 0; j < k; j++) {
            qp[j] = (qp[j] + diff * q[t * k + j]) / (1 + diff);
            p[j] /= 1 + diff;
        }
    }
    return false;
}

/* The scores of pairs become probabilities of classes. */
static void svm_couple(Svm *svm) {
    uint64_t k = svm->classes, number = 0;
    double *r = svm->pair, *q = svm->coupling, *qp = svm->coupling + k * k;
    for (uint64_t i = 0; i < k; i++)
        for (uint64_t j = i + 1; j < k; j++, number++) {
            double a = (double)svm->attrs->prob_a.items[number];
            double b = (double)svm->attrs->prob_b.items[number];
            double p = 1 - ml_logistic(svm->scores[number] * a + b);
            p = fmin(fmax(p, 1e-7), 1 - 1e-7);
            r[i * k + j] = p;
            r[j * k + i] = 1 - p;
        }
    for (uint64_t i = 0; i < k; i++) {
        svm->scores[i] = 1 / (double)k;
        q[i * k + i] = 0;
        for (uint64_t j = 0; j < k; j++) {
            if (j == i) continue;
            q[i * k + i] += r[j * k + i] * r[j * k + i];
            q[i * k + j] = -r[j * k + i] * r[i * k + j];
        }
    }
    uint64_t rounds = k > 100 ? k : 100;
    for (uint64_t i = 0; i < rounds; i++) {
        kernel_pace(svm->pace, 2 * k * k);
        if (couple_step(k, q, svm->scores, qp)) return;
    }
}

/* Scores of one row in svm->scores, the class as the result. */
static uint64_t svm_classify(Svm *svm) {
    if (!svm->vectors) {
        for (uint64_t i = 0; i < svm->classes; i++)
            svm->scores[i] =
                (double)svm->attrs->rho.items[0] +
                svm_kernel(svm->attrs, SVM_LINEAR, svm->x,
                           svm->attrs->coefficients.items + i * svm->features, svm->features);
        return ml_largest(svm->scores, svm->classes);
    }
    svm_decide(svm);
    uint64_t best = ml_largest(svm->votes, svm->classes);
    if (svm->coupled) svm_couple(svm);
    return best;
}

bool kernel_svm_classifier(KernelCall *call) {
    const SvmAttrs *attrs = call->attrs;
    MlRows rows;
    Svm svm;
    if (!ml_rows(call, &rows) || !svm_init(call, &svm, &rows)) return false;
    svm.pace = &rows.pace;
    uint64_t labels = ml_label_count(&attrs->labels);
    uint64_t given = svm.vectors && !svm.coupled ? svm.pairs : svm.classes;
    bool two = given == 1 && labels == 2; /* -s and s */
    uint64_t columns = two ? 2 : given;
    if (!ml_make_labels(call, &attrs->labels, rows.count) ||
        !ml_make_scores(call, 1, rows.count, columns))
        return false;
    for (uint64_t row = 0; row < rows.count; row++) {
        ml_row(&rows, row, svm.x);
        int64_t class = (int64_t)svm_classify(&svm);
        if (two) svm.scores[1] = svm.scores[0];
        if (two) svm.scores[0] = -svm.scores[1];
        if (given == 1 && !two) class = svm.scores[0] > 0 ? (labels ? 0 : 1) : labels ? -1 : 0;
        ml_transform((MlTransform)attrs->transform, svm.scores, columns);
        ml_set_label(call, &attrs->labels, row, class);
        ml_set_scores(call, 1, row, svm.scores);
    }
    return true;
}
