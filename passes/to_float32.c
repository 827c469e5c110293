// SPDX-License-Identifier: Apache-2.0
/* to-float32: makes a model compute in float32 that was exported in another floating-point type, so that what
 * follows can choose precisions.
 *
 * Before: y = MatMul(x, w)                                  x, w, y float16
 * After:  y = Cast(MatMul(Cast(x), w), float16)             w float32, x and y as they were
 *
 * Values between nodes, constants and attributes become float32; casts that change nothing any more go. Inputs
 * and outputs keep their types, or with io=low become float32, too. `keep` names a 16-bit type that stays:
 * that of the conversion that follows. Doubles are narrowed where a model computes in nothing else
 * (double=only), everywhere (always) or nowhere (never); numbers past float32's range become its largest.
 *
 * What stays: operands of operators that take no float32 there or look at bits, and of calls of the
 * model's own functions; a remark names the first. Models with sequences or optionals of such values stay as
 * they are. */
#include <stddef.h>

#include "op_types.h"
#include "passes.h"
#include "widen_graph.h"

typedef enum Keep { KEEPS_NONE, KEEPS_FLOAT16, KEEPS_BFLOAT16, KEEPS_REDUCED } Keep;
static const char *const keep_names[] = {"none", "float16", "bfloat16", "reduced", NULL};

typedef enum Doubles { DOUBLE_ONLY, DOUBLE_ALWAYS, DOUBLE_NEVER } Doubles;
static const char *const double_names[] = {"only", "always", "never", NULL};

static const char *const io_names[] = {"keep", "low", NULL};

static const Dtype stored[] = {DTYPE_UNDEFINED, DTYPE_FLOAT16, DTYPE_BFLOAT16};
static const char *const stored_names[] = {"none", "float16", "bfloat16", NULL};

typedef struct ToFloat32Options {
    int keep, doubles, io, stored;
} ToFloat32Options;

static const PassOption options_table[] = {
    {"keep", OPTION_CHOICE, offsetof(ToFloat32Options, keep), keep_names, "none",
     "16-bit types that stay; reduced: both"},
    {"double", OPTION_CHOICE, offsetof(ToFloat32Options, doubles), double_names, "only",
     "narrow double; only: if the model has no other floating-point values"},
    {"io", OPTION_CHOICE, offsetof(ToFloat32Options, io), io_names, "keep",
     "inputs and outputs; low: they become float32, too"},
    {"stored", OPTION_CHOICE, offsetof(ToFloat32Options, stored), stored_names, "none",
     "constants of this type stay that store-weights put behind casts"},
    {0},
};

#define TYPE(name) (UINT64_C(1) << DTYPE_##name)
static const uint64_t kept[] = {
    [KEEPS_NONE] = 0,
    [KEEPS_FLOAT16] = TYPE(FLOAT16),
    [KEEPS_BFLOAT16] = TYPE(BFLOAT16),
    [KEEPS_REDUCED] = TYPE(FLOAT16) | TYPE(BFLOAT16),
};

/* What a walk over all values finds. */
typedef struct Survey {
    uint64_t types;      /* of any value */
    const Node *remains; /* the first node that computes in one of `wanted`; NULL: none */
    size_t count;        /* of such nodes */
    uint64_t wanted;
} Survey;

static uint64_t type_of(const Value *value) {
    const Dtype dtype = value ? type_dtype(value->type) : DTYPE_UNDEFINED;
    return dtype ? UINT64_C(1) << dtype : 0;
}

/* Casts to and from inputs and outputs are no computation. */
static void survey_node(Survey *s, const Node *node) {
    uint64_t types = 0;
    for (uint32_t i = 0; i < node->output_count; i++) types |= type_of(node->outputs[i]);
    s->types |= types;
    if (!(types & s->wanted) || !node->input_count || node_is_cast(node)) return;
    if (!s->remains) s->remains = node;
    s->count++;
}

static void survey(const PassCtx *ctx, Survey *s) {
    const GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t g = 0; g < graphs.count; g++) {
        const Graph *graph = graphs.items[g];
        if (graph->function) continue; /* types there are some call's */
        for (size_t i = 0; i < graph->inputs.count; i++)
            s->types |= type_of(graph->inputs.items[i]);
        for (size_t i = 0; i < graph->initializers.count; i++)
            s->types |= type_of(graph->initializers.items[i]);
        for (const Node *node = graph->first; node; node = node_after(node)) survey_node(s, node);
    }
}

static void remark(const PassCtx *ctx, const Survey *s) {
    Arena *arena = &ctx->model->arena;
    if (!s->remains) return;
    pass_remark(ctx->counts, arena,
                arena_printf(arena, "%zu node%s %s type, such as '%s' (%s): %s", s->count,
                             s->count == 1 ? "" : "s", s->count == 1 ? "keeps its" : "keep their",
                             node_label(s->remains), sym_text(s->remains->op_type),
                             model_find_function(ctx->model, s->remains)
                                 ? "it calls a function of the model, which --before inline-calls "
                                   "replaces by its nodes"
                                 : "it has no float32 form"));
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    static const uint64_t floats = TYPE(FLOAT) | TYPE(FLOAT16) | TYPE(BFLOAT16);
    const ToFloat32Options *options = opts;
    WidenRequest request = {.types = kept[KEEPS_REDUCED] & ~kept[options->keep],
                            .io = options->io == 1,
                            .file = true,
                            .stored = stored[options->stored]};
    Survey before = {0};
    survey(ctx, &before);
    const bool narrows = options->doubles == DOUBLE_ALWAYS ||
                         (options->doubles == DOUBLE_ONLY && !(before.types & floats));
    if (narrows) request.types |= TYPE(DOUBLE);
    if (!(before.types & request.types)) return true;
    if (!widen_graph(ctx, &request, err)) return false;
    Survey after = {.wanted = request.types};
    survey(ctx, &after);
    remark(ctx, &after);
    return true;
}

const PassInfo to_float32_pass = {
    .name = "to-float32",
    .summary =
        "make float16, bfloat16, and double values float32, for what converts the model next",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(ToFloat32Options),
    .idempotent = true,
    .run = run,
};
