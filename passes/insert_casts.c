// SPDX-License-Identifier: Apache-2.0
/* insert-casts: decides which nodes run in 16 bit and puts casts where precisions meet.
 *
 * Before: y = Conv(x, w); z = Exp(y)            all float
 * After:  x1 = Cast(x); w1 = Cast(w); y1 = Conv(x1, w1); y = Cast(y1); z = Exp(y)
 *
 * The decision is placement.h's; this file turns options into a request, and the decision into
 * casts, types and attributes. One cast serves all uses of a value, in all subgraphs. Graph inputs
 * and outputs keep their names and, with io=keep, their types. Weights are read through casts here;
 * cast-params folds those. With store=true, a weight that is read in 16 bit only is stored so at
 * once: models have more weights than other casts. So is a large weight of a product that itself
 * stays fp32 (an LSTM in bfloat16), behind a cast to float: all but the product's own arithmetic is
 * as if it was low; and so is what weights are computed of in fp32 (g v / |v|). Every node gets a note: its
 * precision and the reason.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cast_node.h"
#include "constant_store.h"
#include "node_choice.h"
#include "node_exclude.h"
#include "op_facts.h"
#include "op_types.h"
#include "passes.h"
#include "placement.h"
#include "setting_names.h"
#include "value_ranges.h"
#include "weight_note.h"

typedef struct InsertCastsOptions {
    int to, placement, io, overflow; /* demi.h's constants, less 1 */
    PassStrings low_inputs, low_outputs;
    ValueRanges ranges;
    NodeChoice nodes;
    bool keep_defaults, store, uniform;
} InsertCastsOptions;

static const Dtype float_types[] = {DTYPE_FLOAT16, DTYPE_BFLOAT16};
static const char *const float_names[] = {"float16", "bfloat16", NULL}; /* theirs */

#define ROW(kind, name, member, choices, otherwise, help)                                          \
    {name, OPTION_##kind, offsetof(InsertCastsOptions, member), choices, otherwise, help},
static const PassOption options_table[] = {
    {"to", OPTION_CHOICE, offsetof(InsertCastsOptions, to), float_names, NULL, "the 16-bit type"},
#define OF_INSERT_CASTS ROW
#include "policy.def"
    {"keep-defaults", OPTION_BOOL, offsetof(InsertCastsOptions, keep_defaults), NULL, NULL,
     "with io=low: do not convert inputs with default values, which are parameters"},
    {"store", OPTION_BOOL, offsetof(InsertCastsOptions, store), NULL, NULL,
     "store constants that are only read in the 16-bit type in that type, as cast-params does"},
    {"uniform", OPTION_BOOL, offsetof(InsertCastsOptions, uniform), NULL, NULL,
     "all floating-point operands of a BatchNormalization have one type, as OpenVINO requires"},
#define OF_NODES(kind, name, member, ...) ROW(kind, name, nodes.member, __VA_ARGS__)
#include "policy.def"
    {0},
};

typedef struct Realize {
    PassCtx *ctx;
    Placement *p;
    Dtype target;
    TypeMemo types;
    ConstantStore store;
    const bool *makers;        /* [node_count]: they compute weights */
    Node *last_cast[2];        /* to float and to the target: others share its attributes */
    const NodeNote *notes[64]; /* some of those given last, by reason */
} Realize;

/* ---- casts ----------------------------------------------------------------------------------- */

/* The outputs of the main graph and of functions have names that others know. */
static bool is_named_output(const Use *use) {
    return !use->node && !use_graph(use)->owner;
}

static Value *insert_cast(Realize *r, Value *value, Dtype to) {
    Arena *arena = &value->graph->model->arena;
    return cast_insert(r->ctx, value, type_memo_with_dtype(&r->types, arena, value->type, to),
                       &r->last_cast[to == r->target]);
}

/* Gives every use of value that needs the other precision one shared cast. */
static void realize_value(Realize *r, uint32_t id) {
    Value *value = r->p->values[id];
    bool low = placement_is_low(r->p, r->p->value_vars[id]);
    Value *cast = NULL;
    bool named = false;
    for (Use *use = value->uses, *next; use; use = next) {
        next = use->next;
        VarId var = placement_use_var(r->p, use);
        if (placement_is_low(r->p, var) == low) continue;
        if (use->node && var == VAR_NONE) continue;
        if (!cast) cast = insert_cast(r, value, low ? DTYPE_FLOAT : r->target);
        if (use->node == cast->producer) continue; /* the cast's own */
        named |= is_named_output(use);
        use_set(use, cast);
    }
    if (named) cast_name_output(r->ctx, value, cast);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* In which precisions nodes read a constant. */
typedef enum ReadIn { READ_OTHER, READ_LOW, READ_AS_WEIGHT } ReadIn;

static ReadIn read_in(const Realize *r, const Value *value) {
    ReadIn all = value->uses ? READ_LOW : READ_OTHER;
    for (const Use *use = value->uses; use; use = use->next) {
        VarId var = placement_use_var(r->p, use);
        if (!use->node || var == VAR_NONE) return READ_OTHER;
        if (placement_is_low(r->p, var)) continue;
        const bool weighs = r->makers[use->node->id] &&
                            placement_elements(value) >= PLACEMENT_LEAST_WEIGHT &&
                            placement_casts_are_legal(r->p, value->graph);
        if (!weighs && !placement_reads_weight(r->p, use)) return READ_OTHER;
        all = READ_AS_WEIGHT;
    }
    return all;
}

/* Counts as one cast, inserted and folded. A weight that is read in fp32 gets its cast with the
 * other values, since it is low now. */
static bool store_constants(Realize *r, Err *err) {
    Placement *p = r->p;
    VarId low = placement_new_var(p, NULL);
    p->vars.items[low].low = true;
    for (uint32_t id = 0; id < p->value_count; id++) {
        Value *value = placement_value(p, id);
        if (!value || !p->constant[id] || p->value_vars[id] == VAR_NONE) continue;
        ReadIn read = read_in(r, value);
        if (read == READ_OTHER) continue;
        const Tensor *tensor = constant_storable(value);
        if (!tensor || tensor->dtype != DTYPE_FLOAT) continue;
        bool loses = !p->unharmed || !p->unharmed[id];
        if (loses && !constant_count_loss(&r->store, value, tensor, r->target, err)) return false;
        constant_store(&r->store, value, tensor, r->target);
        p->value_vars[id] = read == READ_LOW ? VAR_NONE /* needs no cast */ : low;
        r->ctx->counts->casts_added++;
        r->ctx->counts->casts_removed++;
        r->ctx->counts->rewrites++;
    }
    return true;
}

/* ---- types and attributes -------------------------------------------------------------------- */

/* strip-casts reads it; of formals it knows the types without. */
static void mark_interface(const Graph *graph, ValueDecl *decl) {
    if (graph == graph->model->graph) decl_add_metadata(graph->model, decl, "demi.was", "float");
}

static void lower_value(Realize *r, Value *value) {
    Arena *arena = &value->graph->model->arena;
    value_set_type(value, type_memo_with_dtype(&r->types, arena, value->type, r->target));
    r->ctx->counts->rewrites++;
    if (value->input) {
        value_declare_input(value, r->target);
        mark_interface(value->graph, value->input);
        if (value->init) value_set_init(value, tensor_new_cast(arena, value->init, r->target));
    }
}

/* strip-casts reads demi.was: the attribute, followed by "=" where the node did not have it. */
static const char *without(const Realize *r, const char *attr) {
    return arena_printf(r->ctx->scratch, "%s=", attr);
}

/* A number that is rounded is written down: #BITS where it lies in raw_data, ~BITS in
 * float_data. */
static const char *with_number(const Realize *r, const char *name, const Attr *attr) {
    const Tensor *tensor = attr_tensor(attr);
    float number;
    uint32_t bits;
    if (!tensor || tensor->dtype != DTYPE_FLOAT || !tensor_check(tensor, NULL) ||
        (tensor->storage != TENSOR_RAW && tensor->storage != TENSOR_FLOATS) ||
        tensor_count(tensor) != 1 || !tensor_read_floats(tensor, 0, 1, &number, NULL))
        return name;
    memcpy(&bits, &number, sizeof bits);
    char storage = tensor->storage == TENSOR_RAW ? '#' : '~';
    return arena_printf(r->ctx->scratch, "%s%c%08" PRIx32, name, storage, bits);
}

/* Rewrites the attribute that says the type of output `i`, where one does. */
static void realize_output_type(Realize *r, Node *node, const OpSchema *schema, uint32_t i) {
    VarId var = r->p->value_vars[node->outputs[i]->id];
    const OpParam *param = op_schema_output(schema, i);
    if (var == VAR_NONE || var == VAR_FP32 || !param) return;
    const OpOutputRule *rule = op_output_rewritable(schema, (size_t)(param - schema->outputs));
    if (!rule) return;
    Arena *arena = &node->graph->model->arena;
    bool low = placement_is_low(r->p, var);
    Dtype dtype = low ? r->target : DTYPE_FLOAT;
    const Attr *attr = node_attr(node, rule->attr);
    if (attr && attr->ref) return;
    /* Without the attribute, the output is as its first operand is, or float. */
    bool low_input = node->input_count && placement_is_low(r->p, *placement_node_vars(r->p, node));
    if (!attr && low == low_input) return;
    if (!attr && (rule->given || rule->from == OP_FROM_TYPE_ATTR))
        return; /* the input says the type */
    if (low || !attr)
        node_add_metadata(node, "demi.was",
                          attr ? with_number(r, rule->attr, attr) : without(r, rule->attr));
    if (rule->from == OP_FROM_DTYPE_ATTR) {
        if (sym_equals(node->op_type, "Cast"))
            cast_set_to(node, dtype);
        else if (node_attr_int(node, rule->attr, DTYPE_UNDEFINED) != (int64_t)dtype)
            node_set_attr_int(node, rule->attr, dtype);
    } else if (rule->from == OP_FROM_TENSOR_ATTR && low) {
        const int64_t one = 1;
        const float zero = 0;
        const Tensor *fill = attr_tensor(attr);
        if (!fill) fill = tensor_new_raw(arena, DTYPE_FLOAT, &one, 1, &zero, sizeof zero);
        node_set_attr_tensor(node, rule->attr, tensor_new_cast(arena, fill, dtype));
    } else if (rule->from == OP_FROM_TYPE_ATTR && low && attr_type(attr)) {
        node_set_attr_type(node, rule->attr, type_with_dtype(arena, attr_type(attr), dtype));
    }
}

static void realize_node(Realize *r, Node *node) {
    const OpSchema *schema = node_schema(node);
    if (!schema || model_find_function(node->graph->model, node)) return;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && !r->p->constant[node->outputs[i]->id])
            realize_output_type(r, node, schema, i);
    /* Scores of a low Attention are summed over long rows: its softmax keeps fp32, but where the
     * policy leaves that to the kernels. */
    bool attention = r->p->request.policy != POLICY_FAST &&
                     sym_equals(node->op_type, "Attention") && node->input_count > 0 &&
                     placement_is_low(r->p, *placement_node_vars(r->p, node));
    if (attention && op_schema_attr(schema, "softmax_precision") &&
        !node_attr(node, "softmax_precision")) {
        node_set_attr_int(node, "softmax_precision", DTYPE_FLOAT);
        node_add_metadata(node, "demi.was", without(r, "softmax_precision"));
    }
}

static void declare_outputs(Realize *r, Graph *graph) {
    for (size_t i = 0; i < graph->outputs.count; i++)
        if (placement_is_low(r->p, *placement_output_var(r->p, graph, i))) {
            graph_declare_output(graph, (uint32_t)i, r->target);
            mark_interface(graph, graph->outputs.items[i]->decl);
        }
}

static bool realize(Realize *r, bool store, Err *err) {
    Placement *p = r->p;
    for (size_t i = 0; i < p->graphs.count; i++)
        for (Node *node = p->graphs.items[i]->first; node; node = node_after(node))
            realize_node(r, node);
    for (uint32_t id = 0; id < p->value_count; id++) {
        Value *value = placement_value(p, id);
        if (value && placement_is_low(p, p->value_vars[id])) lower_value(r, value);
        if (value) value_sync_info(value);
    }
    if (store && !store_constants(r, err)) return false;
    /* Each cast goes right behind its producer, or first in the graph: backwards, casts of several
     * inputs or outputs end up in their order. */
    for (uint32_t id = p->value_count; id-- > 0;)
        if (p->values[id] && p->value_vars[id] != VAR_NONE) realize_value(r, id);
    for (size_t i = 0; i < p->graphs.count; i++) declare_outputs(r, p->graphs.items[i]);
    return true;
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* True where no class, exclusion or law decided the variable: it followed its surroundings. */
static bool is_free(Realize *r, VarId var) {
    if (var == VAR_NONE || var == VAR_FP32) return false;
    const PlaceVar *own = &r->p->vars.items[var],
                   *root = &r->p->vars.items[placement_root(r->p, var)];
    return !own->pinned && !root->pinned && !root->wants_low;
}

static bool is_settled(Realize *r, const Node *node) {
    const VarId *uses = placement_node_vars(r->p, node);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (is_free(r, uses[i])) return false;
    return true;
}

/* The note in the model's memory: most nodes share theirs. */
static const NodeNote *kept_note(Realize *r, const NodeNote *note) {
    uint64_t hash = ((uint64_t)(uintptr_t)note->reason ^ (uint64_t)note->kind << 48) *
                    UINT64_C(0x9e3779b97f4a7c15);
    const NodeNote **at = &r->notes[hash >> 58];
    const NodeNote *last = *at;
    if (!last || last->reason != note->reason || last->dtype != note->dtype ||
        last->kind != note->kind || last->subject != note->subject || last->cost != note->cost ||
        last->label != note->label || last->settled != note->settled)
        *at = arena_copy(&r->p->model->arena, note, sizeof *note);
    return *at;
}

static void note_nodes(Realize *r, bool mincut) {
    PlacementReasons *reasons = placement_reasons_new(r->p, mincut);
    for (size_t i = 0; i < r->p->graphs.count; i++)
        for (Node *node = r->p->graphs.items[i]->first; node; node = node_after(node)) {
            NodeNote note = placement_note(reasons, node);
            note.settled = is_settled(r, node);
            /* Syms live as long as the model */
            note.label = sym_is_empty(node->name) ? node_label(node) : NULL;
            node->note = kept_note(r, &note);
        }
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void note_integers(PassCtx *ctx, const ChosenNodes *chosen) {
    Arena *arena = &ctx->model->arena;
    pass_remark(
        ctx->counts, arena,
        arena_printf(arena,
                     "already int8: %zu of %zu products with weights multiply integers; 16-bit "
                     "values between them would gain nothing, so they are kept in float32",
                     chosen->products.integers, chosen->products.all));
}

static bool make_request(PassCtx *ctx, const InsertCastsOptions *options, PlacementRequest *request,
                         Err *err) {
    static const PlacementGuard guards[] = {GUARD_PIN, GUARD_CLAMP, GUARD_NONE, GUARD_LOOK};
    _Static_assert(sizeof guards / sizeof *guards == CHOICE_COUNT(OVERFLOW), "a guard a choice");
    _Static_assert(CHOICE_COUNT(IO) == 2, "all that is asked below");
    Model *model = ctx->model;
    const Dtype target = float_types[options->to];
    ChosenNodes chosen;
    if (!node_choice_resolve(&options->nodes, model, target, ctx->scratch, &chosen, err))
        return false;
    if (chosen.is_integer) note_integers(ctx, &chosen);
    *request = (PlacementRequest){
        .target = target,
        .policy = chosen.policy,
        .classes = chosen.classes,
        .io_low = options->io == 1,
        .excluded = chosen.excluded,
        .is_integer = chosen.is_integer,
        .keep_defaults = options->keep_defaults,
        .uniform = options->uniform,
        .guard = guards[options->overflow],
        /* float16's 11 bits of mantissa lose nothing there; the fast policy and the greedy placement,
         * which is MXNet's, mean what they say. */
        .keep_streams =
            target == DTYPE_BFLOAT16 && chosen.policy == POLICY_BFLOAT16 && options->placement == 0,
    };
    request->low_inputs = node_named_io(model, &options->low_inputs, false, ctx->scratch, err);
    if (!request->low_inputs) return false;
    request->low_outputs = node_named_io(model, &options->low_outputs, true, ctx->scratch, err);
    return request->low_outputs;
}

static bool pin_ranges(Placement *p, const InsertCastsOptions *options, Err *err) {
    ValueRanges ranges = options->ranges;
    ranges.allow_unmatched = options->nodes.allow_unmatched;
    if (ranges.margin >= 1) return value_ranges_pin(p, &ranges, err);
    err_set(err, ERR_USAGE, "range-margin is %lld", (long long)ranges.margin);
    err_expected(err, "at least 1");
    return false;
}

static void solve(Placement *p, const InsertCastsOptions *options) {
    _Static_assert(CHOICE_COUNT(PLACEMENT) == 2, "a solver a choice");
    Arena *scratch = p->scratch;
    p->scratch = arena_child(scratch); /* what a solver needs is gone before casts come */
    if (options->placement == 0)
        placement_solve_mincut(p);
    else
        placement_solve_greedy(p);
    arena_free(p->scratch);
    p->scratch = scratch;
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const InsertCastsOptions *options = opts;
    Placement p = {.model = ctx->model,
                   .scratch = ctx->scratch,
                   .counts = ctx->counts,
                   .statistics = ctx->statistics};
    if (!make_request(ctx, options, &p.request, err) || !placement_build(&p, err) ||
        !pin_ranges(&p, options, err))
        return false;
    solve(&p, options);
    if (!placement_guard_refuse(&p, err)) return false;
    Realize r = {.ctx = ctx,
                 .p = &p,
                 .target = p.request.target,
                 .store = {.ctx = ctx, .clamp = p.request.guard == GUARD_CLAMP}};
    note_nodes(&r, options->placement == 0);
    if (options->store) r.makers = placement_weight_makers(&p);
    bool any = false;
    for (VarId v = 0; v < p.vars.count && !any; v++) any = placement_is_low(&p, v);
    if (any && !realize(&r, options->store, err)) return false;
    if (options->store && !p.request.is_integer) weight_note(&p, ctx->counts);
    return true;
}

const PassInfo insert_casts_pass = {
    .name = "insert-casts",
    .summary = "choose the precision of each node, and insert casts where precisions meet",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(InsertCastsOptions),
    .idempotent = false, /* a second run sees 16-bit islands and their casts, and may extend them */
    .keeps_shapes = true,
    .run = run,
};
