// SPDX-License-Identifier: Apache-2.0
/* fold-constants: what depends on constants alone is computed now, by the runtime's kernels.
 *
 *   Transpose (W), of a constant W that nothing else reads  ->  a constant
 *
 * Without inexact=true, only what every engine computes to the same bits: operators that move data,
 * those of integers, those that round once as IEEE 754 has it (OP_SAME_BITS), and ranges of floats
 * that round nothing. Nothing is stored
 * that takes more bytes than the constants that go with it and SIMPLIFY_GROW: a transposed copy of
 * what others still read is not made, nor a large constant of a small one. With weights=true, of
 * anything that products read as their weights, as a norm of them (g v / |v|) is. Nodes with graphs, random
 * ones, operators that demi does not know, and calls of functions stay.
 */
#include <stddef.h>

#include "checked.h"
#include "constants.h"
#include "exact_range.h"
#include "lower_plan.h"
#include "node_exclude.h"
#include "op_facts.h"
#include "op_types.h"
#include "passes.h"
#include "fuse_graph.h"
#include "simplify_graph.h"

typedef struct FoldConstantsOptions {
    bool inexact, weights, matrices;
    PassStrings keep, keep_ops, only;
} FoldConstantsOptions;

static const PassOption options_table[] = {
    {"inexact", OPTION_BOOL, offsetof(FoldConstantsOptions, inexact), NULL, NULL,
     "also fold what other engines may round differently"},
    {"weights", OPTION_BOOL, offsetof(FoldConstantsOptions, weights), NULL, NULL,
     "fold only weights of products, even if rounding may differ"},
    {"matrices", OPTION_BOOL, offsetof(FoldConstantsOptions, matrices), NULL, NULL,
     "with weights: of those stored in another floating-point type, only matrices"},
    {"keep", OPTION_STRINGS, offsetof(FoldConstantsOptions, keep), NULL, NULL,
     "with weights: nodes to skip, with their inputs, by PATTERN"},
    {"keep-ops", OPTION_STRINGS, offsetof(FoldConstantsOptions, keep_ops), NULL, NULL,
     "with weights: operators to skip, with their inputs"},
    {"only", OPTION_STRINGS, offsetof(FoldConstantsOptions, only), NULL, NULL,
     "with weights: the products whose weights to fold, by PATTERN"},
    {0},
};

typedef struct Fold {
    PassCtx *ctx;
    bool inexact, weights, matrices;
    bool again;      /* what is computed now tells whether more may be */
    uint32_t values; /* that there were when the pass began */
    bool *constant;  /* [values]: a constant, or what a node gives that may be executed */
    bool *chosen;    /* [model's nodes]: may be executed */
    const char **kept, **excluded; /* [model's nodes]: why it stays as it is, why its weights do */
    VEC(Node *) nodes;             /* those, in order */
} Fold;

/* ---- what may be executed -------------------------------------------------------------------- */

static bool has_floats(const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && dtype_is_float(type_dtype(node->inputs[i].value->type)))
            return true;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && dtype_is_float(type_dtype(node->outputs[i]->type))) return true;
    return false;
}

/* What a float out of range becomes as an integer, or in 8 bit, is not said. */
static bool is_open_cast(const Node *node) {
    if (!node_is_cast(node)) return false;
    Dtype from = type_dtype(node->inputs[0].value->type), to = type_dtype(node->outputs[0]->type);
    if (!dtype_is_float(from)) return dtype_is_float(to) && dtype_bits(to) <= 8;
    return dtype_is_integer(to) || dtype_bits(to) <= 8;
}

/* Engines add operands from the first to the last; in 16 bit they round sums of three differently. */
static bool is_open_sum(const Node *node) {
    return simplify_is(node, "Sum") && node->input_count > 2 &&
           dtype_bits(type_dtype(node->outputs[0]->type)) == 16;
}

/* A Range of floats depends on its numbers. Where they are computed in this run, it has to be looked at
 * once more behind it. */
static bool is_exact_range(Fold *fold, const Node *range) {
    Arena *arena = &fold->ctx->model->arena;
    int64_t count;
    for (uint32_t i = 0; i < range->input_count; i++)
        if (range->inputs[i].value && !value_is_constant(range->inputs[i].value))
            fold->again = true;
    if (!range_is_exact(fold->ctx, range, &count)) return false;
    Dim *dim = ARENA_ARRAY(arena, Dim, 1);
    *dim = (Dim){.kind = DIM_KNOWN, .size = count};
    value_set_type(range->outputs[0],
                   type_new_shaped(arena, type_dtype(range->outputs[0]->type), dim, 1));
    return true;
}

static bool is_exact(Fold *fold, const Node *node, const OpRecord *record) {
    const OpSchema *schema = node_schema(node);
    if (!has_floats(node)) return true;
    if (simplify_is(node, "Range")) return is_exact_range(fold, node);
    if (is_open_sum(node)) return false;
    if (op_has_flags(schema, OP_MOVES) || op_has_flags(schema, OP_SHAPE_ONLY)) return true;
    return op_record_has(record, OP_SAME_BITS) && !is_open_cast(node);
}

static bool gives_tensors(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (!value) continue;
        Dtype dtype = type_dtype(value->type);
        if (value_type(value)->kind != TYPE_TENSOR || dtype == DTYPE_STRING ||
            dtype_bits(dtype) < 8)
            return false;
    }
    return true;
}

/* Weights that are stored in another float type than their products compute in: what quantizes them stores
 * them anew. Matrices alone, where no others are quantized. */
static bool is_stored_float(const Fold *fold, const Node *node) {
    const Type *to = node_is_cast(node) ? value_shaped_type(node->outputs[0]) : NULL;
    return to && type_dtype(to) == DTYPE_FLOAT &&
           dtype_is_float(type_dtype(node->inputs[0].value->type)) &&
           (!fold->matrices || to->rank == 2);
}

/* What says how weights are stored, or what a product's kernel reads through, stays. */
static bool keeps_form(const Fold *fold, const Node *node) {
    const Value *x = node->input_count ? node->inputs[0].value : NULL;
    if (simplify_is(node, "QuantizeLinear") || simplify_is(node, "DequantizeLinear")) return true;
    if (is_stored_float(fold, node)) return false;
    return (simplify_is(node, "Transpose") || simplify_is(node, "Identity") ||
            node_is_cast(node)) &&
           x && value_is_constant(x);
}

static bool may_execute(Fold *fold, const Node *node) {
    const OpRecord *record = node_record(node);
    if (!record || !node_schema(node) || model_find_function(fold->ctx->model, node) ||
        op_record_has(record, OP_RANDOM) || op_record_has(record, OP_RANDOM_TRAINING) ||
        !node_may_become_constant(node) || !gives_tensors(node) || !lower_plan_has(node))
        return false;
    if (fold->weights && (keeps_form(fold, node) || fold->kept[node->id])) return false;
    return !node_holds_graph(node) && (fold->inexact || is_exact(fold, node, record));
}

static bool is_constant(const Fold *fold, const Value *value) {
    return value->producer ? fold->constant[value->id] : value_is_constant(value);
}

/* A Constant is lowered like the others, where they read it; it is nothing to execute by itself. */
static void choose(PassCtx *ctx, Node *node, void *data) {
    Fold *fold = data;
    bool constant = simplify_is(node, "Constant");
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && !is_constant(fold, node->inputs[i].value)) return;
    if (constant ? node->output_count != 1 || !value_is_constant(node->outputs[0]) ||
                       !gives_tensors(node)
                 : !may_execute(fold, node))
        return;
    fold->chosen[node->id] = !constant;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) fold->constant[node->outputs[i]->id] = true;
    VEC_PUSH(ctx->scratch, &fold->nodes, node);
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool is_weights(const Fold *fold, const Use *use) {
    if (!use->node) return false;
    if (fold->chosen[use->node->id]) return true;
    if (fold->excluded[use->node->id]) return false;
    const OpRecord *record = node_schema(use->node) ? node_record(use->node) : NULL;
    return record &&
           (record->quantized == QUANTIZED_PRODUCT || record->quantized == QUANTIZED_WEIGHTS) &&
           use->index == record->weights;
}

static bool gives_weights(const Fold *fold, const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        for (const Use *use = value ? value->uses : NULL; use; use = use->next)
            if (!is_weights(fold, use)) return false;
        if (value && value->referenced) return false;
    }
    return true;
}

/* ---- what is worth its bytes ----------------------------------------------------------------- */

static uint64_t bytes_of_type(const Value *value) {
    const Type *type = value_shaped_type(value);
    uint64_t count = 1;
    if (!type) return UINT64_MAX;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dims[i].kind != DIM_KNOWN || type->dims[i].size < 0 ||
            !checked_mul(count, (uint64_t)type->dims[i].size, &count))
            return UINT64_MAX;
    uint64_t each = dtype_bits(type_dtype(type)) / 8, bytes;
    return checked_mul(count, each, &bytes) ? bytes : UINT64_MAX;
}

static uint64_t bytes_of_constant(const Value *value, Arena *scratch) {
    if (value->producer && !value_is_constant(value)) return bytes_of_type(value);
    const Tensor *tensor = constant_tensor(value, scratch);
    return tensor && tensor_check(tensor, NULL) ? tensor_raw_size(tensor) : 0;
}

static bool is_read_by_chosen(const Fold *fold, const Value *value) {
    if (value->referenced) return false;
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node || !fold->chosen[use->node->id]) return false;
    return true;
}

/* Bytes of a constant that go if the chosen nodes do, for each of its readers; 0 where one stays. */
static uint64_t share_of(const Fold *fold, const Value *value) {
    if (!is_read_by_chosen(fold, value)) return 0;
    return bytes_of_constant(value, fold->ctx->scratch) / value->use_count;
}

/* Bytes of what others than chosen nodes read of the node's outputs, or of all that is read. */
static uint64_t bytes_made(const Fold *fold, const Node *node, bool all) {
    uint64_t made = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (!value || !value->uses || (!all && is_read_by_chosen(fold, value))) continue;
        uint64_t bytes = bytes_of_type(value);
        made = bytes > UINT64_MAX - made ? UINT64_MAX : made + bytes;
    }
    return made;
}

static bool is_worth_it(const Fold *fold, const Node *node) {
    uint64_t gone = SIMPLIFY_GROW;
    if (fold->weights && is_stored_float(fold, node)) return true;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value) gone += share_of(fold, node->inputs[i].value);
    return bytes_made(fold, node, true) <= gone;
}

static bool reads_constants(const Fold *fold, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && !is_constant(fold, node->inputs[i].value)) return false;
    return true;
}

/* Chosen nodes that have constants or results in common are a group: some of them may make more of
 * a constant than their share, if others make less. */
typedef struct Groups {
    uint32_t *of_node;  /* [model's nodes]: another one of the group, by id, or itself */
    uint32_t *of_value; /* [values]: a node of the group that reads or makes it; UINT32_MAX: none */
    uint64_t *made, *gone; /* [model's nodes]: bytes, by the group's first */
} Groups;

static uint32_t group_of(const Groups *groups, uint32_t node) {
    while (groups->of_node[node] != node)
        node = groups->of_node[node] = groups->of_node[groups->of_node[node]];
    return node;
}

static void join(const Groups *groups, const Value *value, uint32_t node) {
    uint32_t *other = &groups->of_value[value->id];
    if (*other == UINT32_MAX)
        *other = node;
    else
        groups->of_node[group_of(groups, node)] = group_of(groups, *other);
}

static void find_groups(const Fold *fold, Groups *groups, size_t nodes) {
    Arena *scratch = fold->ctx->scratch;
    groups->of_node = ARENA_ARRAY(scratch, uint32_t, nodes + 1);
    groups->of_value = ARENA_ARRAY(scratch, uint32_t, fold->values + 1);
    groups->made = ARENA_ARRAY(scratch, uint64_t, nodes + 1);
    groups->gone = ARENA_ARRAY(scratch, uint64_t, nodes + 1);
    for (uint32_t i = 0; i < nodes; i++) groups->of_node[i] = i;
    for (uint32_t i = 0; i < fold->values; i++) groups->of_value[i] = UINT32_MAX;
    for (size_t i = 0; i < fold->nodes.count; i++) {
        const Node *node = fold->nodes.items[i];
        if (!fold->chosen[node->id]) continue;
        for (uint32_t k = 0; k < node->input_count; k++)
            if (node->inputs[k].value) join(groups, node->inputs[k].value, node->id);
        for (uint32_t k = 0; k < node->output_count; k++)
            if (node->outputs[k]) join(groups, node->outputs[k], node->id);
    }
    for (size_t i = 0; i < fold->nodes.count; i++) {
        const Node *node = fold->nodes.items[i];
        if (!fold->chosen[node->id]) continue;
        uint32_t group = group_of(groups, node->id);
        uint64_t made = bytes_made(fold, node, false);
        groups->made[group] =
            made > UINT64_MAX - groups->made[group] ? UINT64_MAX : groups->made[group] + made;
        groups->gone[group] += SIMPLIFY_GROW;
        for (uint32_t k = 0; k < node->input_count; k++) {
            const Value *value = node->inputs[k].value;
            bool given = value && value->producer && fold->chosen[value->producer->id];
            if (value && !given) groups->gone[group] += share_of(fold, value);
        }
    }
}

static void drop(Fold *fold, const Node *node) {
    fold->chosen[node->id] = false;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) fold->constant[node->outputs[i]->id] = false;
}

/* Leaves those that make weights. What reads one that is dropped is dropped by drop_costly. */
static void drop_others(Fold *fold) {
    for (size_t i = fold->nodes.count; i-- > 0;) {
        const Node *node = fold->nodes.items[i];
        if (fold->chosen[node->id] && !gives_weights(fold, node)) drop(fold, node);
    }
}

/* Drops nodes that are not worth it, where their group is not, and those that read them, until all
 * are: one that stays keeps its operands, which may have been what made others worth it. Where that
 * takes many rounds, the whole group goes. */
static void drop_costly(Fold *fold) {
    enum { ROUNDS = 16 };
    bool again = true;
    for (unsigned round = 0; again; round++) {
        Groups groups;
        again = false;
        find_groups(fold, &groups, fold->ctx->model->node_count);
        for (size_t i = 0; i < fold->nodes.count; i++) {
            const Node *node = fold->nodes.items[i];
            if (!fold->chosen[node->id]) continue;
            uint32_t group = group_of(&groups, node->id);
            bool worth = groups.made[group] <= groups.gone[group] ||
                         (round < ROUNDS && is_worth_it(fold, node));
            if (worth && reads_constants(fold, node)) continue;
            drop(fold, node);
            again = true;
        }
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* What others than the chosen nodes read of what they give. */
static void list_wanted(Fold *fold, LoweredNodes *list) {
    VEC(Value *) wanted = {0};
    for (size_t i = 0; i < list->count; i++) {
        const Node *node = list->nodes[i];
        for (uint32_t k = 0; fold->chosen[node->id] && k < node->output_count; k++)
            if (node->outputs[k] && !is_read_by_chosen(fold, node->outputs[k]))
                VEC_PUSH(fold->ctx->scratch, &wanted, node->outputs[k]);
    }
    list->wanted = wanted.items;
    list->wanted_count = wanted.count;
}

/* Constants that a chosen node reads come along. */
static LoweredNodes list_chosen(Fold *fold) {
    Node **nodes = ARENA_ARRAY(fold->ctx->scratch, Node *, fold->nodes.count + 1);
    LoweredNodes list = {.nodes = nodes};
    bool any = false;
    for (size_t i = 0; i < fold->nodes.count; i++) {
        Node *node = fold->nodes.items[i];
        bool read = false;
        if (simplify_is(node, "Constant"))
            for (const Use *use = node->outputs[0]->uses; use && !read; use = use->next)
                read = use->node && fold->chosen[use->node->id];
        if (fold->chosen[node->id] || read) nodes[list.count++] = node;
        any = any || fold->chosen[node->id];
    }
    if (!any) list.count = 0;
    list_wanted(fold, &list);
    return list;
}

static bool is_known(const Node *node, const Tensor *const *results, const Tensor **tensors) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (!value || !value->uses) continue;
        tensors[i] = results[value->id];
        if (!tensors[i]) return false;
    }
    return true;
}

/* A plan reads 16-bit constants through their casts: it has no others. NULL where it can't be read. */
static const Tensor *widened(PassCtx *ctx, const Node *node) {
    if (!node_is_cast(node) || type_dtype(node->outputs[0]->type) != DTYPE_FLOAT) return NULL;
    const Tensor *from = constant_tensor(node->inputs[0].value, ctx->scratch);
    if (!from || !dtype_is_float((Dtype)from->dtype) || !tensor_check(from, NULL)) return NULL;
    const uint64_t count = tensor_count(from);
    float *items = arena_alloc_raw(&ctx->model->arena, count * sizeof(float) + 1);
    if (!tensor_read_floats(from, 0, count, items, NULL)) return NULL;
    return tensor_new_raw(&ctx->model->arena, DTYPE_FLOAT, from->dims, from->rank, items,
                          count * sizeof(float));
}

/* What only nodes read that are gone by now is stored nowhere. */
static void settle(PassCtx *ctx, Node *node, const Tensor **results) {
    Value *only = node->output_count == 1 ? node->outputs[0] : NULL;
    if (only && only->uses && !results[only->id]) results[only->id] = widened(ctx, node);
    bool read = false;
    const Tensor **tensors = ARENA_ARRAY(ctx->scratch, const Tensor *, node->output_count + 1);
    for (uint32_t i = 0; i < node->output_count; i++)
        read = read || (node->outputs[i] && node->outputs[i]->uses);
    if (read && is_known(node, results, tensors)) node_become_constant(ctx, node, tensors);
    if (read) return;
    node_remove_unswept(node);
    ctx->counts->rewrites++;
}

/* Initializers that the chosen nodes read, each once. */
static Value **list_operands(const Fold *fold, const LoweredNodes *list, size_t *count) {
    VEC(Value *) operands = {0};
    bool *seen = ARENA_ARRAY(fold->ctx->scratch, bool, fold->values + 1);
    for (size_t i = 0; i < list->count; i++) {
        const Node *node = list->nodes[i];
        for (uint32_t k = 0; fold->chosen[node->id] && k < node->input_count; k++) {
            Value *value = node->inputs[k].value;
            if (!value || seen[value->id] || value->producer) continue;
            seen[value->id] = true;
            VEC_PUSH(fold->ctx->scratch, &operands, value);
        }
    }
    *count = operands.count;
    return operands.items;
}

/* What nothing reads any more is stored no more. */
static void drop_unread(Value **initializers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        Value *value = initializers[i];
        if (!value->uses && !value->referenced && value_is_constant(value))
            graph_remove_initializer(value);
    }
}

/* What matches nothing here is said where weights are stored. */
static bool find_kept(Fold *fold, const FoldConstantsOptions *options, Err *err) {
    const NodePatterns kept = {
        .keep = options->keep, .keep_ops = options->keep_ops, .allow_unmatched = true};
    NodePatterns all = kept;
    all.only = options->only;
    fold->kept = node_exclusions(fold->ctx->model, &kept, fold->ctx->scratch, err);
    fold->excluded =
        fold->kept ? node_exclusions(fold->ctx->model, &all, fold->ctx->scratch, err) : NULL;
    return fold->excluded;
}

static bool fold_once(PassCtx *ctx, const FoldConstantsOptions *options, bool *again, Err *err) {
    const uint32_t values = ctx->model->value_count;
    Fold fold = {.ctx = ctx,
                 .inexact = options->inexact || options->weights,
                 .weights = options->weights,
                 .matrices = options->matrices,
                 .values = values};
    if (fold.weights && !find_kept(&fold, options, err)) return false;
    fold.constant = ARENA_ARRAY(ctx->scratch, bool, values + 1);
    fold.chosen = ARENA_ARRAY(ctx->scratch, bool, ctx->model->node_count + 1);
    each_node(ctx, choose, &fold);
    if (fold.weights) drop_others(&fold);
    drop_costly(&fold);
    const LoweredNodes list = list_chosen(&fold);
    if (list.count == 0) return true;
    *again = fold.again;
    const Tensor **results = ARENA_ARRAY(ctx->scratch, const Tensor *, values + 1);
    if (!lower_plan_execute(ctx, &list, results, err)) return false;
    size_t read;
    Value **initializers = list_operands(&fold, &list, &read);
    for (size_t i = list.count; i-- > 0;)
        if (fold.chosen[list.nodes[i]->id]) settle(ctx, list.nodes[i], results);
    model_batch_removals(ctx->model);
    if (fold.weights) drop_unread(initializers, read);
    model_sweep(ctx->model, ctx->scratch);
    return true;
}

static bool run(PassCtx *ctx, const void *data, Err *err) {
    bool again = true;
    while (again) {
        again = false;
        if (!fold_once(ctx, data, &again, err)) return false;
    }
    return true;
}

const PassInfo fold_constants_pass = {
    .name = "fold-constants",
    .summary = "constant folding: compute what depends only on constants",
    .needs = FACT_DTYPES | FACT_SHAPES,
    .gives = FACT_DTYPES | FACT_SHAPES,
    .options = options_table,
    .options_size = sizeof(FoldConstantsOptions),
    .idempotent = true,
    .run = run,
};
