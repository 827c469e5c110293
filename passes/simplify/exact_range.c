// SPDX-License-Identifier: Apache-2.0
/* Ranges that round nothing; see exact_range.h. All operands are multiples of one power of two, and
 * all sums so small a multiple of it that they have no more digits than the type holds. */
#include "exact_range.h"

#include <math.h>
#include <stdlib.h>

#include "constants.h"
#include "op_types.h"

enum { START, LIMIT, DELTA, OPERANDS };

static bool read_number(PassCtx *ctx, const Value *value, double *number) {
    const Tensor *tensor =
        value && value_is_constant(value) ? constant_tensor(value, ctx->scratch) : NULL;
    float single;
    if (!tensor || !tensor_check(tensor, NULL) || tensor_count(tensor) != 1) return false;
    if (tensor->dtype == DTYPE_DOUBLE)
        return tensor_read_raw(tensor, 0, number, sizeof *number, NULL);
    if (!constant_scalar(value, &single)) return false;
    *number = (double)single;
    return true;
}

/* The exponent of the lowest digit that is not 0. */
static int lowest_digit(double number) {
    enum { DIGITS = 53 };
    int exponent, zeros = 0;
    uint64_t digits = (uint64_t)ldexp(frexp(fabs(number), &exponent), DIGITS);
    while (!(digits >> zeros & 1)) zeros++;
    return exponent - DIGITS + zeros;
}

bool range_is_exact(PassCtx *ctx, const Node *range, int64_t *count) {
    const Dtype dtype = type_dtype(range->outputs[0]->type);
    const int digits = dtype == DTYPE_DOUBLE ? 53 : dtype == DTYPE_FLOAT ? 24 : 0;
    double items[OPERANDS];
    int unit = INT32_MAX;
    if (range->input_count != OPERANDS || !digits) return false;
    for (uint32_t i = 0; i < OPERANDS; i++) {
        if (!read_number(ctx, range->inputs[i].value, &items[i]) || !isfinite(items[i]))
            return false;
        if (items[i] != 0 && lowest_digit(items[i]) < unit) unit = lowest_digit(items[i]);
    }
    if (items[DELTA] == 0) return false;
    const double most = ldexp(1, unit + digits), reach = fabs(items[LIMIT]) + fabs(items[DELTA]);
    if (!(reach + fabs(items[START]) <= most)) return false;
    const double whole = ceil((items[LIMIT] - items[START]) / items[DELTA]);
    *count = whole > 0 ? (int64_t)whole : 0;
    return whole < ldexp(1, digits);
}
