// SPDX-License-Identifier: Apache-2.0
/* widen-values: 16-bit values become float between nodes, for plans of processors that do not
 * compute in 16 bit.
 *
 *   y = Add(x, w), all float16  ->  y = Cast(Add(Cast(x, float), w'), float16)
 *
 * x and y being the model's own input and output, w' the constant w widened; of a chain of nodes
 * only its ends have casts, and those that rounded inside are gone. A kernel that widens what it
 * reads and rounds what it gives, once in every step, is slower than one of float. Nothing rounds
 * between nodes then, so the results are nearer to those of the float model; faithful plans do
 * without. What an author rounds to widen it again stays rounded.
 *
 * What stays in 16 bit: inputs and outputs of the model; operands of operators that take no float
 * there, that look at bits, of functions (their bodies have some call's types) and of unknown ones;
 * constant tables that rows are picked from; and what follows from constants alone and is no larger
 * than they are, which is computed once, when compiling. Whatever else reads such a value reads it
 * behind a cast. Casts of constants are not executed either: plan_fold stores what they give in
 * 16 bit, as lower-plan does constants. Models with sequences or optionals of 16-bit values are
 * left as they are.
 */
#include <stddef.h>

#include "isa.h"
#include "passes.h"
#include "widen_graph.h"

typedef enum Bfloat16 { BFLOAT16_MACHINE, BFLOAT16_WIDEN, BFLOAT16_KEEP } Bfloat16;
static const char *const bfloat16_names[] = {"machine", "widen", "keep", NULL};

typedef struct WidenOptions {
    int bfloat16;
} WidenOptions;

static const PassOption options_table[] = {
    {"bfloat16", OPTION_CHOICE, offsetof(WidenOptions, bfloat16), bfloat16_names, "machine",
     "what becomes of bfloat16; machine: kept if this CPU computes in it, else widened"},
    {0},
};

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const WidenOptions *options = opts;
    WidenRequest request = {.types = UINT64_C(1) << DTYPE_FLOAT16};
    if (options->bfloat16 == BFLOAT16_WIDEN ||
        (options->bfloat16 == BFLOAT16_MACHINE && !isa_has_bfloat16()))
        request.types |= UINT64_C(1) << DTYPE_BFLOAT16;
    return widen_graph(ctx, &request, err);
}

const PassInfo widen_values_pass = {
    .name = "widen-values",
    .summary =
        "widen 16-bit values to float32 between nodes, for plans for CPUs that compute in float32",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(WidenOptions),
    .idempotent = true,
    .run = run,
};
