// SPDX-License-Identifier: Apache-2.0
/* strip-training: takes away what make-training gave, and demi_train left: training_info, and the
 * marks in the metadata. What is left is the model for inference. */
#include "passes.h"
#include "training_marks.h"
#include "training_nodes.h"
#include "value_names.h"

static bool run(PassCtx *ctx, const void *options, Err *err) {
    Model *model = ctx->model;
    (void)options;
    (void)err;
    ctx->counts->rewrites += model->training.count;
    if (model->training.count) model_touch(model);
    model_mark_trained(model, false);
    model->training.count = 0;
    for (const KeyValue *entry = model->metadata, *next; entry; entry = next) {
        next = entry->next;
        if (sym_equals(entry->key, TRAINING_STEPS_KEY) ||
            sym_equals(entry->key, TRAINING_RUN_KEY) || sym_equals(entry->key, TRAINING_FROM_KEY))
            model_take_mark(model, NULL, sym_text(entry->key), sym_text(entry->value));
    }
    training_forget_domain(model, ctx->scratch);
    return true;
}

const PassInfo strip_training_pass = {
    .name = "strip-training",
    .summary = "remove the training_info, which leaves the inference model",
    .idempotent = true,
    .run = run,
};
