// SPDX-License-Identifier: Apache-2.0
/* declare-ops: tells the passes after it what types an operator of the user's own takes and gives.
 *
 * Without it nothing is known of what a custom operator gives, and it keeps all its types. The
 * model itself is not changed: the knowledge ends with the run.
 */
#include <stddef.h>

#include "op_signature.h"
#include "passes.h"
#include "setting_names.h"

typedef struct DeclareOpsOptions {
    PassStrings ops;
} DeclareOpsOptions;

#define OF_DECLARE_OPS(kind, name, member, choices, otherwise, help)                               \
    {name, OPTION_##kind, offsetof(DeclareOpsOptions, member), choices, otherwise, help},
static const PassOption options_table[] = {
#include "policy.def"
    {0},
};

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const DeclareOpsOptions *options = opts;
    OpSignatures signatures;
    if (!op_signatures_parse(&options->ops, &ctx->model->arena, &signatures, err)) return false;
    ctx->model->declared_ops = signatures.items;
    ctx->model->declared_op_count = signatures.count;
    return true;
}

const PassInfo declare_ops_pass = {
    .name = "declare-ops",
    .summary = "declare the input and output types of custom operators",
    .options = options_table,
    .options_size = sizeof(DeclareOpsOptions),
    .idempotent = true,
    .run = run,
};
