// SPDX-License-Identifier: Apache-2.0
/* The passes that simplify a model, in their order. What one of them leaves may be work for an
 * earlier one: a branch that is inlined has sizes that are known then, a constant that is computed
 * is a condition. Two rounds are enough for all models that were looked at; a third would find
 * nothing (tools/suites/judges/simplify.py simplifies twice and compares). */
#include "simplify_text.h"

#define FOLDED "fold-shapes,inline-branches,fold-shapes,inline-branches,fold-shapes,fold-constants"
#define ROUND  "lift-constants," FOLDED ",remove-identities,fuse-casts,merge-equal,eliminate-dead"

void simplify_put_exact(PipelineText *text) {
    pipeline_put_pass(text,
                      "infer-dtypes,infer-shapes," ROUND "," ROUND ",infer-shapes,correct-shapes");
}

void simplify_put(PipelineText *text, const DemiSimplifyOptions *options) {
    if (options->shape_count || options->dim_count) {
        pipeline_put_pass(text, "set-shapes");
        pipeline_put_list(text, "shapes", options->shapes, options->shape_count);
        pipeline_put_list(text, "dims", options->dims, options->dim_count);
        pipeline_end_pass(text);
    }
    simplify_put_exact(text);
    if (options->inexact)
        pipeline_put_pass(text, "infer-shapes,fold-affine{store=true},join-gemm,"
                                "fold-constants{inexact=true},remove-identities,merge-equal,"
                                "eliminate-dead");
    if (options->strip_notes) pipeline_put_pass(text, "strip-notes");
}
