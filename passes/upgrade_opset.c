// SPDX-License-Identifier: Apache-2.0
/* upgrade-opset: raises the default domain's opset and rewrites every node whose operator changed.
 *
 * Before: opset 11: y = Squeeze<axes=[0]>(x)
 * After:  opset 13: y = Squeeze(x, y_axes)      y_axes = {0}
 *
 * A node goes from version to version of its operator, each step as UPGRADE rows say. All steps
 * of all nodes are checked before the first is applied, so a model that can't be upgraded is left
 * as it is. Function bodies have imports of their own and are raised with the model's; ones that
 * are already past the wanted opset stay. The IR version is raised to the first one that was
 * published with the new opset, where it is lower.
 */
#include <stddef.h>

#include "convert_target.h"
#include "infer_dtypes.h"
#include "least_opset.h"
#include "op_types.h"
#include "passes.h"
#include "qdq_plan.h"
#include "row_form.h"
#include "setting_names.h"
#include "upgrade.h"
#include "wide_weights.h"

typedef struct UpgradeOptions {
    int64_t to;
    int target;      /* a DemiTarget; 0: none */
    int activations; /* a DemiActivations, less 1 */
    int rest;        /* a DemiRest, less 1 */
    int64_t block;
    PassStrings inputs;
    NodeChoice nodes;
} UpgradeOptions;

#define ROW(kind, name, member, choices, otherwise, help)                                          \
    {name, OPTION_##kind, offsetof(UpgradeOptions, member), choices, otherwise, help},
static const PassOption options_table[] = {
#define OF_UPGRADE_OPSET ROW
#include "policy.def"
#define OF_NODES(kind, name, member, ...) ROW(kind, name, nodes.member, __VA_ARGS__)
#include "policy.def"
    {0},
};

/* IR version published with each opset, by opset. */
static int64_t ir_of_opset(int64_t opset) {
    static const int8_t versions[] = {3, 3, 3, 3, 3, 3, 3,  3,  3,  4,  5,  6,  7,  7, 7,
                                      8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 13, 14};
    int64_t last = (int64_t)sizeof versions - 1;
    return versions[opset > last ? last : opset];
}

/* ---- one node -------------------------------------------------------------------------------- */

/* The first opset after `from`, up to `to`, with another version of the operator; 0 where none. */
static int64_t next_step(const char *op, int64_t from, int64_t to) {
    const OpSchema *schema = ops_find("", op, from);
    return schema && schema->until < to ? schema->until + 1 : 0;
}

static bool check_types(Upgrade *upgrade, const Node *node, const OpSchema *older,
                        const OpSchema *newer, Err *err) {
    if (opset_step_keeps_types(older, newer)) return true;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const OpParam *before = op_schema_input(older, i), *after = op_schema_input(newer, i);
        OpType type;
        if (!before || !after || !op_type_from(upgrade_input_type(upgrade, node, i), &type))
            continue;
        if (type_set_holds(op_param_types(older, before), type) &&
            !type_set_holds(op_param_types(newer, after), type))
            return upgrade_refuse(upgrade, node, err, "'%s' cannot be %s from opset %d on",
                                  after->name, dtype_name(type.dtype), (int)newer->since);
    }
    return true;
}

static bool misses_operand(const Node *node, const OpSchema *schema, const char **name) {
    for (uint32_t i = 0; i < schema->input_count; i++) {
        *name = schema->inputs[i].name;
        if (op_schema_input_is_required(schema, i) && !upgrade_input(node, i)) return true;
    }
    for (uint32_t i = 0; i < schema->output_count; i++) {
        *name = schema->outputs[i].name;
        bool there = i < node->output_count && node->outputs[i];
        if (op_schema_output_is_required(schema, i) && !there) return true;
    }
    return false;
}

static bool misses_attr(const Node *node, const OpSchema *schema, const char **name) {
    for (uint32_t i = 0; i < schema->attr_count; i++) {
        const OpAttr *formal = &schema->attrs[i];
        const Attr *attr = node_attr(node, formal->name);
        *name = formal->name;
        if (attr ? (int)attr->type != formal->type : formal->required) return true;
    }
    return false;
}

/* What rows rely on: required operands and attributes are there, attributes have their types. */
static bool check_form(const Upgrade *upgrade, const Node *node, const OpSchema *schema, Err *err) {
    const char *name;
    if (!misses_operand(node, schema, &name) && !misses_attr(node, schema, &name)) return true;
    return upgrade_refuse(upgrade, node, err, "'%s' is missing or of another type", name);
}

static bool check_node(Upgrade *upgrade, const Node *node, int64_t from, Err *err) {
    const char *op = sym_text(node->op_type);
    bool formed = false;
    if (!ops_find_sym(NULL, node->op_type, from)) {
        if (ops_exists("", op))
            return upgrade_refuse(upgrade, node, err,
                                  "the operator does not exist at that opset yet");
        return upgrade_refuse(upgrade, node, err, "the operator is unknown");
    }
    for (int64_t at; (at = next_step(op, from, upgrade->to)); from = at) {
        const OpSchema *older = ops_find("", op, from);
        size_t count;
        const OpsetStep *rows = opset_step_rows(op, at, &count);
        if (count && !formed && !check_form(upgrade, node, older, err)) return false;
        formed |= count != 0;
        for (size_t i = 0; i < count; i++) {
            if (!upgrade_check_row(upgrade, node, &rows[i], older, err)) return false;
            if (rows[i].kind == STEP_OPERATOR) op = rows[i].text;
        }
        if (!check_types(upgrade, node, older, ops_find("", op, at), err)) return false;
    }
    return true;
}

static void apply_node(Upgrade *upgrade, Node *node, int64_t from) {
    bool changed = false;
    for (int64_t at; (at = next_step(sym_text(node->op_type), from, upgrade->to)); from = at) {
        size_t count;
        const OpsetStep *rows = opset_step_rows(sym_text(node->op_type), at, &count);
        uint64_t edits = upgrade->model->edits;
        for (size_t i = 0; i < count; i++) upgrade_apply_row(upgrade, node, &rows[i]);
        changed |= upgrade->model->edits != edits;
    }
    upgrade->ctx->counts->rewrites += changed;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* The node's own operator is the default domain's, and no function of the model's. */
static bool is_ours(const Model *model, const Node *node) {
    if (!domain_is_default(node->domain)) return false;
    return !model->functions.count || !model_find_function(model, node);
}

/* The opset from which a graph's nodes are to be raised; 0 where they stay. */
static int64_t raised_from(const Upgrade *upgrade, const OpsetImports *opsets) {
    int64_t opset = opset_version(opsets, NULL);
    return opset > 0 && opset < upgrade->to ? opset : 0;
}

/* ---- all nodes ------------------------------------------------------------------------------- */

/* Checks all nodes; ERR_MODEL naming the first that can't go to upgrade->to. */
static bool upgrade_check(Upgrade *upgrade, Err *err) {
    GraphList graphs = model_graphs(upgrade->model, upgrade->ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++) {
        int64_t from = raised_from(upgrade, graphs.items[i]->opsets);
        if (!from) continue;
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (is_ours(upgrade->model, node) && !check_node(upgrade, node, from, err))
                return false;
    }
    if (raised_from(upgrade, &upgrade->model->opsets)) {
        upgrade_infer(upgrade);
        wrong_shapes_find(upgrade->ctx, &graphs, &upgrade->wrong);
    }
    return true;
}

static void raise_imports(Upgrade *upgrade, OpsetImports *opsets) {
    if (!raised_from(upgrade, opsets)) return;
    model_import_opset(upgrade->model, opsets, sym_intern_cstr(&upgrade->model->syms, ""),
                       upgrade->to);
    upgrade->ctx->counts->rewrites++;
}

/* Before nodes are rewritten, since the form of new constants depends on it. */
static void raise_ir(Upgrade *upgrade) {
    Model *model = upgrade->model;
    bool raised = raised_from(upgrade, &model->opsets);
    for (size_t i = 0; i < model->functions.count; i++)
        raised |= raised_from(upgrade, &model->functions.items[i]->opsets) != 0;
    int64_t least = ir_of_opset(upgrade->to);
    if (!raised || (model->has_ir_version && model->ir_version >= least)) return;
    model->ir_version = least;
    model->has_ir_version = true;
    model_touch(model);
}

/* Rewrites all nodes and raises imports and IR version. upgrade_check must have agreed. */
static void upgrade_apply(Upgrade *upgrade) {
    Model *model = upgrade->model;
    upgrade->applying = true;
    wrong_shapes_correct(upgrade->ctx, &upgrade->wrong, "raising the opset");
    raise_ir(upgrade);
    GraphList graphs = model_graphs(model, upgrade->ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++) {
        int64_t from = raised_from(upgrade, graphs.items[i]->opsets);
        if (!from) continue;
        for (Node *node = graphs.items[i]->first, *next; node; node = next) {
            next = node->next;
            if (is_ours(model, node)) apply_node(upgrade, node, from);
        }
    }
    for (size_t i = 0; i < upgrade->added.count; i++)
        apply_node(upgrade, upgrade->added.items[i].node, upgrade->added.items[i].opset);
    raise_imports(upgrade, &model->opsets);
    for (size_t i = 0; i < model->functions.count; i++)
        raise_imports(upgrade, &model->functions.items[i]->opsets);
}

static bool check_options(const Model *model, const UpgradeOptions *options, Err *err) {
    int64_t now = opset_version(&model->opsets, NULL);
    if ((options->to != 0) == (options->target != 0))
        return err_set(err, ERR_USAGE, "give upgrade-opset 'to' or 'for', not both");
    if (options->target) return true;
    if (options->to < 1 || options->to > OPS_OPSET_ONNX) {
        err_set(err, ERR_USAGE, "unknown opset %lld", (long long)options->to);
        err_expected(err, "1 to %d", OPS_OPSET_ONNX);
        return false;
    }
    if (now <= options->to) return true;
    err_set(err, ERR_USAGE, "the model is at opset %lld, past %lld", (long long)now,
            (long long)options->to);
    err_hint(err, "opsets can only be raised");
    return false;
}

/* What --rest names, in the order of its choices; UNDEFINED: what it is. */
static const Dtype rests[] = {DTYPE_UNDEFINED, DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16,
                              DTYPE_UNDEFINED};
_Static_assert(sizeof rests / sizeof *rests == CHOICE_COUNT(REST), "a type a choice");

/* The type of the scales of what the product reads, as they will be. */
static Dtype scales_of(const UpgradeOptions *options, const Node *product) {
    const Value *x = product->input_count ? product->inputs[0].value : NULL;
    const Dtype own = x ? type_dtype(x->type) : DTYPE_UNDEFINED;
    if (rests[options->rest]) return rests[options->rest];
    return dtype_is_reduced(own) ? own : DTYPE_FLOAT;
}

/* Products with quantized weights, or of rows that are quantized when the model runs, are made plain ones first. */
static bool is_quantized(Node *node, const ChosenNodes *chosen) {
    RowProduct of_rows;
    const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
    return record && !chosen->excluded[node->id] &&
           (record->quantized == QUANTIZED_PRODUCT || record->quantized == QUANTIZED_WEIGHTS ||
            wide_weights_are_of_product(node) || row_product_find(node, &of_rows));
}

/* The opset that what is inserted needs, where there are products to quantize; 0 where that is no
 * later one. */
static int64_t quantized_opset(const PassCtx *ctx, const UpgradeOptions *options,
                               const ChosenNodes *chosen) {
    const ConvertTarget *target = convert_target(options->target);
    const QuantizedFormat *format = convert_target_format(target);
    int64_t least = 0, all = 0;
    if (target->kind == TARGET_VALUES)
        least = qdq_opset_of(quantized_value_types[1 + options->activations], false, false);
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++) {
        const int64_t own = opset_version(graphs.items[i]->opsets, NULL);
        if (own <= 0 || graphs.items[i]->function) continue;
        for (Node *node = graphs.items[i]->first; node; node = node_after(node)) {
            if (!is_quantized(node, chosen)) continue;
            const int64_t of_weights = qdq_opset_of_weights(format, scales_of(options, node), true,
                                                            options->block || format->block);
            const int64_t need = of_weights > least ? of_weights : least;
            if (need > own && need > all) all = need;
        }
    }
    return all;
}

/* The opset at which Cast knows the type; 0 where that is no later one. */
static int64_t cast_opset(const Model *model, Dtype dtype) {
    const int64_t own = opset_version(&model->opsets, NULL);
    const OpSchema *schema = ops_find("", "Cast", own);
    while (schema && schema->until < OPS_OPSET_ONNX &&
           !type_set_has(op_param_types(schema, &schema->inputs[0]), OPTYPE_TENSOR, dtype))
        schema = ops_find("", "Cast", (int64_t)schema->until + 1);
    return schema && schema->since > own ? schema->since : 0;
}

/* The opset that the chosen nodes need; inference is best effort, unknown types count as float. */
static bool find_opset(Upgrade *upgrade, const UpgradeOptions *options, Err *err) {
    PassCtx *ctx = upgrade->ctx;
    const ConvertTarget *chosen_for = convert_target(options->target);
    const bool quantizes = convert_target_quantizes(chosen_for);
    if (chosen_for->kind == TARGET_FULL) return true; /* every opset has it */
    if (chosen_for->kind == TARGET_HALVED) {
        upgrade->to = cast_opset(ctx->model, chosen_for->dtype);
        return true;
    }
    const Dtype computed = quantizes ? rests[options->rest] : chosen_for->dtype;
    const bool reduces = dtype_is_reduced(computed);
    const Dtype target = reduces ? computed : DTYPE_FLOAT16;
    ChosenNodes chosen;
    if (!node_choice_resolve(&options->nodes, ctx->model, target, ctx->scratch, &chosen, err))
        return false;
    if (options->inputs.count && !infer_dtypes_given(ctx, &options->inputs, err)) return false;
    upgrade_infer(upgrade);
    if (reduces) upgrade->to = least_opset_for(ctx->model, target, &chosen, ctx->scratch);
    const int64_t quantized = quantizes ? quantized_opset(ctx, options, &chosen) : 0;
    if (quantized > upgrade->to) upgrade->to = quantized;
    return true;
}

/* A model that can't be raised is converted at its own opset, and its user told why. */
static void remark_refusal(PassCtx *ctx, const Err *refusal) {
    Arena *arena = &ctx->model->arena;
    const char *node = refusal->node;
    pass_remark(ctx->counts, arena,
                arena_printf(arena, "the opset was not raised: %s%s%s%s", refusal->what,
                             *node ? " (node '" : "", node, *node ? "')" : ""));
}

static bool run(PassCtx *ctx, const void *data, Err *err) {
    const UpgradeOptions *options = data;
    if (!check_options(ctx->model, options, err)) return false;
    Upgrade upgrade = {.ctx = ctx, .model = ctx->model, .to = options->to};
    if (options->target) {
        Err refusal = {0};
        if (!find_opset(&upgrade, options, err)) return false;
        if (!upgrade.to) return true; /* and functions at an older opset may stay there */
        if (!upgrade_check(&upgrade, &refusal)) {
            remark_refusal(ctx, &refusal);
            return true;
        }
    } else if (!upgrade_check(&upgrade, err)) {
        return false;
    }
    model_batch_removals(ctx->model);
    upgrade_apply(&upgrade);
    model_sweep(ctx->model, ctx->scratch);
    return true;
}

const PassInfo upgrade_opset_pass = {
    .name = "upgrade-opset",
    .summary = "raise the opset of the default domain, and rewrite operators that changed",
    .breaks = FACT_DTYPES | FACT_SHAPES,
    .options = options_table,
    .options_size = sizeof(UpgradeOptions),
    .idempotent = true,
    .run = run,
};
