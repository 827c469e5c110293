// SPDX-License-Identifier: Apache-2.0
/* correct-shapes: declared shapes become what operators give, where the two contradict each other.
 *
 * For models of which passes made more known than a checker could infer before: a shape that was wrong
 * all along, and that nobody could tell to be, would make them invalid now.
 *
 *   y : float[3], declared        ->  y : float[2]
 *   y = Squeeze (x, axes)             y = Squeeze (x, axes)      axes are constant by now
 */
#include "passes.h"
#include "wrong_shapes.h"

static bool run(PassCtx *ctx, const void *options, Err *err) {
    const GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    WrongShapes found = {0};
    (void)options;
    (void)err;
    wrong_shapes_find(ctx, &graphs, &found);
    wrong_shapes_correct(ctx, &found, "what is known by now");
    ctx->counts->rewrites += found.count;
    return true;
}

const PassInfo correct_shapes_pass = {
    .name = "correct-shapes",
    .summary = "correct declared shapes that contradict the operators",
    .needs = FACT_SHAPES,
    .idempotent = true,
    .run = run,
};
