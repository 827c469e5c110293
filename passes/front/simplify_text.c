// SPDX-License-Identifier: Apache-2.0
/* The passes that simplify a model, in their order. What one of them leaves may be work for an
 * earlier one: a branch that is inlined has sizes that are known then, a constant that is computed
 * is a condition. Two rounds are enough for all models that were looked at; a third would find
 * nothing (tools/suites/judges/simplify.py simplifies twice and compares). */
#include "simplify_text.h"

#define ROUND(constants)                                                                           \
    "lift-constants,fold-shapes,inline-branches,fold-shapes,inline-branches,fold-shapes,"          \
    "fold-constants" constants                                                                     \
    ",remove-identities,fold-pads,fuse-casts,merge-equal,eliminate-dead"
#define BOTH(round) "infer-dtypes,infer-shapes," round "," round ",infer-shapes,correct-shapes"

/* Inexact folding comes in the rounds, too: what it computes may be a condition. */
#define EXACT   BOTH(ROUND(""))
#define INEXACT BOTH(ROUND("{inexact=true}"))

void simplify_put_exact(PipelineText *text) {
    pipeline_put_pass(text, EXACT);
}

bool freeze_can(const Model *model) {
    const Graph *graph = model->graph;
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.items[i]->init) return true;
    return false;
}

void freeze_put(PipelineText *text, const Model *model, const Freeze *freeze) {
    if (!freeze->fed_count && (!freeze_can(model) || (model->ir_version >= 4 && !freeze->all)))
        return;
    pipeline_put_pass(text, "freeze-inputs");
    if (freeze->all) pipeline_put_choice(text, "all", "true");
    pipeline_put_list(text, "fed", freeze->fed, freeze->fed_count);
    pipeline_end_pass(text);
}

void simplify_put(PipelineText *text, const DemiSimplifyOptions *options) {
    if (options->shape_count || options->dim_count) {
        pipeline_put_pass(text, "set-shapes");
        pipeline_put_list(text, "shapes", options->shapes, options->shape_count);
        pipeline_put_list(text, "dims", options->dims, options->dim_count);
        pipeline_end_pass(text);
    }
    if (options->inexact)
        pipeline_put_pass(text, INEXACT ",infer-shapes,fold-affine{store=true},join-gemm,"
                                        "fold-constants{inexact=true},remove-identities,"
                                        "merge-equal,eliminate-dead");
    else
        simplify_put_exact(text);
    if (options->strip_notes) pipeline_put_pass(text, "strip-notes");
}
