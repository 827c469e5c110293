// SPDX-License-Identifier: Apache-2.0
/* store-weights: constants are stored in 16 bits, and read through a cast to float32.
 *
 * Before: y = MatMul(x, w)                       w float32
 * After:  y = MatMul(x, Cast(w, float))          w float16
 *
 * The file is half as large, and every node computes as before, of weights that are rounded. Runtimes that fold
 * constants make them float32 once, when they load the model. Constants of few elements stay: a cast is larger.
 * So do those with numbers past the type's range, which a remark names, and those that something else than a node
 * reads. One cast serves all readers in the constant's graph and those inside it. */
#include <stddef.h>

#include "cast_node.h"
#include "constant_store.h"
#include "constants.h"
#include "op_types.h"
#include "passes.h"
#include "tensor_statistics.h"

enum { LEAST = 64 }; /* elements */

typedef struct StoreWeightsOptions {
    int to;
} StoreWeightsOptions;

static const Dtype types[] = {DTYPE_FLOAT16, DTYPE_BFLOAT16};
static const char *const names[] = {"float16", "bfloat16", NULL}; /* theirs */

static const PassOption options_table[] = {
    {"to", OPTION_CHOICE, offsetof(StoreWeightsOptions, to), names, NULL, "the 16-bit type"},
    {0},
};

typedef struct Store {
    PassCtx *ctx;
    Dtype to;
    ConstantStore store;
    const Value *beyond; /* the first constant with numbers past the range; NULL: none */
    size_t beyond_count;
} Store;

/* The tensor of a constant that is to be stored anew; NULL where it stays. */
static const Tensor *taken(const Value *value) {
    const Tensor *tensor = value->trained ? NULL : constant_storable(value);
    if (!tensor || tensor->dtype != DTYPE_FLOAT || tensor_count(tensor) < LEAST || !value->uses)
        return NULL;
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node) return NULL;
    return tensor;
}

/* *fits: no finite number is past the type's range. False where the data can't be read. */
static bool look(Store *s, const Value *value, const Tensor *tensor, bool *fits, Err *err) {
    ValueStatistics statistics;
    if (!tensor_statistics(s->ctx->statistics, tensor, s->to, &statistics, err)) return false;
    *fits = !statistics.overflow;
    if (*fits) return true;
    if (!s->beyond) s->beyond = value;
    s->beyond_count++;
    return true;
}

/* The constant is stored, and what a cast makes of it is what its readers read. */
static bool put(Store *s, Value *value, const Tensor *tensor, Err *err) {
    const Type *type = value->type;
    if (!constant_count_loss(&s->store, value, tensor, s->to, err)) return false;
    constant_store(&s->store, value, tensor, s->to);
    Value *wide = cast_insert(s->ctx, value, type, NULL);
    for (Use *use = value->uses, *next; use; use = next) {
        next = use->next;
        if (use->node != wide->producer) use_set(use, wide);
    }
    return true;
}

static bool visit(Store *s, Value *value, Err *err) {
    const Tensor *tensor = value ? taken(value) : NULL;
    bool fits;
    if (!tensor) return true;
    if (!look(s, value, tensor, &fits, err)) return false;
    return !fits || put(s, value, tensor, err);
}

static bool visit_graph(Store *s, Graph *graph, Err *err) {
    for (size_t i = 0, count = graph->initializers.count; i < count; i++)
        if (!visit(s, graph->initializers.items[i], err)) return false;
    for (Node *node = graph->first; node; node = node_after(node))
        if (!node->input_count && node->output_count == 1 && !visit(s, node->outputs[0], err))
            return false;
    return true;
}

static void remark(const Store *s) {
    Arena *arena = &s->ctx->model->arena;
    if (!s->beyond) return;
    pass_remark(s->ctx->counts, arena,
                arena_printf(
                    arena, "%zu constant%s in float32, such as '%s': numbers are beyond %s's range",
                    s->beyond_count, s->beyond_count == 1 ? " stays" : "s stay",
                    sym_text(s->beyond->name), dtype_name(s->to)));
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const StoreWeightsOptions *options = opts;
    Store s = {.ctx = ctx, .to = types[options->to], .store = {.ctx = ctx}};
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t g = 0; g < graphs.count; g++)
        if (!graphs.items[g]->function && !visit_graph(&s, graphs.items[g], err)) return false;
    remark(&s);
    return true;
}

const PassInfo store_weights_pass = {
    .name = "store-weights",
    .summary = "store constants in 16 bits, behind casts to float32",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(StoreWeightsOptions),
    .idempotent = true,
    .keeps_shapes = true,
    .run = run,
};
