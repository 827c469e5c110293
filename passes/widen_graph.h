// SPDX-License-Identifier: Apache-2.0
/* Making values float: what widen-values does for plans, and to-float32 for files. */
#ifndef DEMI_WIDEN_GRAPH_H
#define DEMI_WIDEN_GRAPH_H

#include "pass.h"

typedef struct WidenRequest {
    uint64_t types; /* bit 1 << Dtype: values of these types become float */
    bool io;        /* the model's inputs and outputs do, too; else casts are next to them */
    /* The result is a file, not a plan: constants keep their names where nobody needs the old type; tables
     * that rows are picked from and what follows from constants become float as well, and so does what an
     * author rounded to widen it again. */
    bool file;
    Dtype
        stored; /* constants of that type stay that a cast of demi's own makes float, as store-weights leaves them;
                     UNDEFINED: none do */
} WidenRequest;

/* Types must be exact, and are afterwards. In the main graph and those inside it; calls of functions keep the
 * types of their operands, behind casts. A model with sequences or optionals of such values stays as it is.
 * Doubles past the range of float become its largest number, which is counted as a loss. ERR_MODEL or ERR_ENV
 * where types contradict or data can't be read. */
bool widen_graph(PassCtx *ctx, const WidenRequest *request, Err *err);

#endif
