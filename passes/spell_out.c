// SPDX-License-Identifier: Apache-2.0
/* spell-out: operators of ONNX Runtime become those that have kernels, for plans.
 *
 *   com.microsoft.BiasGelu(A, B)  ->  demi.fused.Gelu(Add(A, B))
 *   com.microsoft.QLinearAdd(…)   ->  QuantizeLinear(Add(DequantizeLinear(A), DequantizeLinear(B)))
 *
 * and so on: spell.h has the list, passes/spell/ the recipes. What a recipe can't spell is refused
 * with the operator's name. Operators that have kernels of their own stay. Ranks are asked of shapes, so
 * infer-shapes comes first; what is new has none, so it is run again where there is anything new.
 *
 * Products of bytes are integers' in faithful plans. In others they are those of the numbers that the
 * bytes stand for, which fuse-quantized makes faster ones of integers of.
 */
#include <string.h>

#include "infer_shapes.h"
#include "op_types.h"
#include "passes.h"
#include "spell.h"

static const struct Recipe {
    const char *domain, *op;
    SpellRecipe *spell;
} recipes[] = {
#define X(domain, op, name) {domain, op, spell_##name},
    SPELL_RECIPES(X)
#undef X
};

typedef struct SpellRun {
    const FuseOptions *options;
    Err *err;
    bool failed;
} SpellRun;

static const struct Recipe *recipe_of(const Node *node) {
    const OpRecord *record = node_record(node);
    if (!op_record_has(record, OP_SPELT) || model_find_function(node->graph->model, node))
        return NULL;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (strcmp(recipes[i].op, record->name) == 0 &&
            strcmp(recipes[i].domain, record->domain) == 0)
            return &recipes[i];
    return NULL;
}

/* A later version of the runtime may have more of an operator, which would be left out unseen. */
static bool is_as_defined(Spell *spell) {
    const Node *node = spell->node;
    const OpSchema *schema = node_schema(node);
    if (!schema) return spell_refuse(spell, "of this version");
    if (node->input_count > schema->max_input || node->output_count > schema->max_output)
        return spell_refuse(spell, "with %u inputs and %u outputs", node->input_count,
                            node->output_count);
    for (uint32_t i = 0; i < schema->input_count; i++)
        if (op_schema_input_is_required(schema, i) && !fuse_input(node, i))
            return spell_refuse(spell, "without input %u", i);
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (!op_schema_attr(schema, sym_text(attr->name)))
            return spell_refuse(spell, "with an attribute '%s'", sym_text(attr->name));
    return true;
}

static void visit(PassCtx *ctx, Node *node, void *data) {
    SpellRun *run = data;
    const struct Recipe *recipe = run->failed ? NULL : recipe_of(node);
    if (!recipe) return;
    Spell spell = {.fuse = {ctx, run->options->numerics == 1, run->options},
                   .node = node,
                   .err = run->err,
                   .opset = fuse_opset(node)};
    if (!is_as_defined(&spell) || !recipe->spell(&spell)) {
        run->failed = true;
        return;
    }
    node_remove_unswept(node);
    ctx->counts->rewrites++;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    SpellRun spelt = {.options = options, .err = err};
    const uint64_t before = ctx->counts->rewrites;
    each_node(ctx, visit, &spelt);
    if (spelt.failed) return false;
    if (ctx->counts->rewrites == before) return true;
    const uint64_t made = ctx->counts->rewrites;
    const void *defaults = arena_alloc(ctx->scratch, infer_shapes_pass.options_size);
    const bool inferred = infer_shapes_pass.run(ctx, defaults, err);
    ctx->counts->rewrites = made;
    return inferred;
}

const PassInfo spell_out_pass = {
    .name = "spell-out",
    .summary = "spell operators of com.microsoft in those that have kernels, for plans",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = fuse_options,
    .options_size = sizeof(FuseOptions),
    .idempotent = true,
    .run = run,
};
