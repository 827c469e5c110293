// SPDX-License-Identifier: Apache-2.0
/* What scores of a value beside its reference are made of. Sums are made in double in the order of
 * elements, so they do not depend on threads. */
#ifndef DEMI_VALUE_SUMS_H
#define DEMI_VALUE_SUMS_H

#include <stdbool.h>

#include "demi_runtime.h"

typedef struct ValueSums {
    double signal, noise, product, size; /* sums of y^2, (y' - y)^2, y' y and y'^2 */
    double most, largest;                /* of |y' - y| and of |y| */
    bool broken;                         /* not finite where y is, or of another shape */
} ValueSums;

/* Adds a value, and a sequence's items; what is not of floats does not count. */
void value_sums_add(ValueSums *sums, const DemiData *want, const DemiData *have);

/* Adds what another one has. */
void value_sums_join(ValueSums *sums, const ValueSums *other);

/* Noise by signal: what adds up where precisions of several parts are lowered. Infinite where it is
 * broken. */
double value_sums_noise(const ValueSums *sums);

/* A tensor of any floats; two of them of one shape. */
bool value_is_floats(const DemiData *value);
/* Adds the elements of a tensor of float32, and how many of them are finite. False where it is none. */
bool value_count_finite(const DemiData *value, uint64_t *all, uint64_t *finite);
bool value_same_shape(const DemiData *a, const DemiData *b);

#endif
