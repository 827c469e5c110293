// SPDX-License-Identifier: Apache-2.0
/* print: writes the model as text to the pipeline's sink, and changes nothing. */
#include <stddef.h>

#include "passes.h"
#include "text.h"

typedef struct PrintOptions {
    int detail;
} PrintOptions;

static const char *const detail_names[] = {"short", "full", NULL};

static const PassOption options_table[] = {
    {"detail", OPTION_CHOICE, offsetof(PrintOptions, detail), detail_names, NULL,
     "short omits tensors of more than 16 elements"},
    {0},
};

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const PrintOptions *options = opts;
    if (!ctx->text) return true;
    return text_print_model(ctx->model, options->detail ? TEXT_FULL : TEXT_SHORT, ctx->text, err);
}

const PassInfo print_pass = {
    .name = "print",
    .summary = "write the model as text",
    .options = options_table,
    .options_size = sizeof(PrintOptions),
    .idempotent = true,
    .run = run,
};
