// SPDX-License-Identifier: Apache-2.0
/* freeze-inputs: inputs that have defaults become constants.
 *
 * Before IR version 4 every initializer had to be an input, too, and no runtime lets callers give another
 * value for it; from there on one that is an input is a default. What may be fed can be neither folded nor
 * lowered nor quantized, so weights of such models would stay as they are. The model then has IR version 4,
 * which the older ones' rule does not hold for.
 *
 *   g (float[3] x, float[3] w) <float[3] w = {1, 2, 3}>   ->   g (float[3] x) <float[3] w = {1, 2, 3}>
 */
#include <stddef.h>
#include <string.h>

#include "passes.h"

enum { IR_DEFAULTS = 4 };

typedef struct FreezeOptions {
    bool all;
    PassStrings fed;
} FreezeOptions;

static const PassOption options_table[] = {
    {"all", OPTION_BOOL, offsetof(FreezeOptions, all), NULL, NULL,
     "also from IR version 4 on, where constants are default values"},
    {"fed", OPTION_STRINGS, offsetof(FreezeOptions, fed), NULL, NULL,
     "names of inputs that callers provide: they stay inputs"},
    {0},
};

/* By an input's place: it is among the names. NULL, with an error, where a name is no input's. */
static const bool *find_named(PassCtx *ctx, const PassStrings *names, Err *err) {
    const Graph *graph = ctx->model->graph;
    const SymTable *syms = &ctx->model->syms;
    uint32_t *place = ARENA_ARRAY(ctx->scratch, uint32_t, syms->count + 1); /* + 1, by number */
    bool *named = ARENA_ARRAY(ctx->scratch, bool, graph->inputs.count + 1);
    for (size_t i = graph->inputs.count; i-- > 0;)
        place[graph->inputs.items[i]->name->number] = (uint32_t)i + 1;
    for (size_t i = 0; i < names->count; i++) {
        const Sym name = sym_find(syms, names->items[i], strlen(names->items[i]));
        if (!name || !place[name->number])
            return err_set(err, ERR_USAGE, "the model has no input '%s' for callers to provide",
                           names->items[i]),
                   NULL;
        named[place[name->number] - 1] = true;
    }
    return named;
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const FreezeOptions *options = opts;
    Model *model = ctx->model;
    Graph *graph = model->graph;
    const bool old = model->ir_version < IR_DEFAULTS;
    size_t kept = 0, frozen = 0;
    const bool *fed = find_named(ctx, &options->fed, err);
    if (!fed) return false;
    for (size_t i = 0; (old || options->all) && i < graph->inputs.count; i++) {
        Value *value = graph->inputs.items[i];
        const bool stays = !value->init || fed[i];
        if (stays) graph->inputs.items[kept++] = value;
        if (!stays) value->input = NULL;
        frozen += !stays;
    }
    if (!frozen) return true;
    graph->inputs.count = kept;
    if (old) {
        model->ir_version = IR_DEFAULTS;
        model->has_ir_version = true;
    }
    model_touch(model);
    ctx->counts->rewrites += frozen;
    pass_remark(
        ctx->counts, &model->arena,
        arena_printf(&model->arena, "%zu input%s with %s became %s%s", frozen,
                     frozen == 1 ? "" : "s", frozen == 1 ? "a default" : "defaults",
                     frozen == 1 ? "a constant" : "constants",
                     old ? ", as runtimes treat them before IR version 4, which it now has" : ""));
    return true;
}

const PassInfo freeze_inputs_pass = {
    .name = "freeze-inputs",
    .summary = "turn inputs with default values into constants, before IR version 4",
    .options = options_table,
    .options_size = sizeof(FreezeOptions),
    .idempotent = true,
    .keeps_shapes = true,
    .run = run,
};
