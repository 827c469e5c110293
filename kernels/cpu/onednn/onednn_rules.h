// SPDX-License-Identifier: Apache-2.0
/* When a row of oneDNN's is used rather than demi's own, in one place: what was measured.
 *
 * A row first asks whether it may at all (the caller's choice, the library, the numerics); then,
 * unless the caller chose oneDNN, whether it is the better one for the work at hand. Better means
 * faster by 10 % or more with one thread and with two, of what tools/bench/bench_kernels measures,
 * changes of layout included; where two machines disagree a row is not used.
 */
#ifndef DEMI_ONEDNN_RULES_H
#define DEMI_ONEDNN_RULES_H

#include "kernel.h"
#include "onednn_load.h"

typedef enum OnednnFamily {
    ONEDNN_CONV,       /* of float or bfloat16 */
    ONEDNN_DECONV,     /* ConvTranspose of these */
    ONEDNN_CONV_BYTES, /* ConvInteger, QLinearConv */
    ONEDNN_MATMUL,
    ONEDNN_MATMUL_BYTES, /* MatMulInteger, QLinearMatMul */
    ONEDNN_FAMILY_COUNT
} OnednnFamily;

/* What a rule looks at. A convolution has rows (filters of a group), columns (outputs of an image)
 * and depth (channels of a group times taps), as the product of matrices that it is; of a transposed
 * one columns are inputs of an image. */
typedef struct OnednnWork {
    OnednnFamily family;
    Dtype dtype; /* of the operands */
    uint64_t batches, groups, rows, columns, depth;
    bool constant; /* the weights, or the second matrix, are packed once */
} OnednnWork;

/* False where it is not to be used for such operands, whatever their sizes: decline. Loads nothing.
 */
bool onednn_allowed(const KernelCall *call, OnednnFamily family, Dtype dtype);

/* The library, loaded now if need be, where it is allowed, preferred for that work (or, by choice, not
 * preferred) and able to do it well on this processor; NULL: decline. */
const Onednn *onednn_for(const KernelCall *call, const OnednnWork *work);

#endif
