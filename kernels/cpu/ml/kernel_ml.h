// SPDX-License-Identifier: Apache-2.0
/* What the operators of ai.onnx.ml share: rows of features, transforms of scores, class labels.
 * Everything is computed in double and rounded when it is stored. */
#ifndef DEMI_KERNEL_ML_H
#define DEMI_KERNEL_ML_H

#include "kernel_pace.h"
#include "op_attrs.h"

/* Transforms a row of scores in place. PROBIT uses Winitzki's approximation of the inverse error
 * function. */
void ml_transform(MlTransform how, double *scores, uint64_t count);
double ml_logistic(double x);

/* X as rows of features: [N, F], or [F] as one row. */
typedef struct MlRows {
    const KernelTensor *x;
    uint64_t count, features;
    KernelPace pace; /* for what each row, and each vector or tree, takes */
} MlRows;
bool ml_rows(KernelCall *call, MlRows *rows);
/* One row as doubles; to has rows->features numbers. */
void ml_row(const MlRows *rows, uint64_t row, double *to);

/* How many classes have a label of their own. */
uint64_t ml_label_count(const MlLabels *labels);

/* Makes output 0, [rows], of the labels' type. False with the error set. */
bool ml_make_labels(KernelCall *call, const MlLabels *labels, uint64_t rows);
/* Sets label `row` of output 0 to that of the class; -1, or a class without label, is 0 or "". */
void ml_set_label(KernelCall *call, const MlLabels *labels, uint64_t row, int64_t class);

/* Makes output i, [rows, columns]. False with the error set; where nobody wants it, data is NULL.
 */
bool ml_make_scores(KernelCall *call, uint32_t i, uint64_t rows, uint64_t columns);
/* Stores a row of it, where it is wanted. */
void ml_set_scores(KernelCall *call, uint32_t i, uint64_t row, const double *scores);

/* The index of the first largest number. */
uint64_t ml_largest(const double *scores, uint64_t count);

#endif
