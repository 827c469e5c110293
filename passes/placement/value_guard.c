// SPDX-License-Identifier: Apache-2.0
/* The value guard: a constant that the target type can't hold keeps its readers in fp32.
 *
 * "Can't hold" is a finite value that would become infinite, in a tensor of any size, or a non-zero
 * value that would become zero in a tensor of one element (an epsilon). Weights that lose a few
 * tiny elements to zero are ordinary and only counted. A value that merely moves a guarded
 * constant's elements (Reshape, Expand, Where, …), or casts them, is guarded too, or the loss would
 * come one node later.
 */
#include "constants.h"
#include "op_facts.h"
#include "op_types.h"
#include "placement.h"

typedef struct Guard {
    Placement *p;
    const char **why; /* [value_count]: the reason a value is guarded, or NULL */
    bool *overflows;  /* [value_count]: some of its own elements would */
    Err *err;
} Guard;

/* True where some reader could still go low, so that the constant's values matter. */
static bool is_wanted(const Guard *g, const Value *value) {
    for (const Use *use = value->uses; use; use = use->next) {
        VarId var = placement_use_var(g->p, use);
        if (var == VAR_NONE) continue;
        if (!g->p->vars.items[placement_root(g->p, var)].pinned) return true;
    }
    return false;
}

static const char *bad_value_reason(const Guard *g, const char *name,
                                    const ValueStatistics *statistics) {
    const char *target = dtype_name(g->p->request.target);
    Arena *arena = &g->p->model->arena;
    if (statistics->overflow)
        return arena_printf(arena, "constant '%s' holds %.6g, beyond %s's range", name,
                            (double)statistics->max_abs, target);
    if (statistics->underflow && statistics->count == 1)
        return arena_printf(arena, "constant '%s' is %.6g, zero in %s", name,
                            (double)statistics->min_abs, target);
    return NULL;
}

/* What overflows and is read as it is can be stored clamped; what a name outside refers to can't,
 * nor what is zero then. */
static bool is_clamped(const Guard *g, const Value *value) {
    return g->p->request.guard == GUARD_CLAMP && g->p->constant[value->id] && !value->referenced &&
           g->overflows[value->id];
}

static bool look_at(Guard *g, const Value *value, const char *name, const Tensor *tensor) {
    if (!tensor || tensor->dtype != DTYPE_FLOAT || !tensor_check(tensor, NULL)) return true;
    ValueStatistics statistics;
    if (!tensor_statistics(g->p->statistics, tensor, g->p->request.target, &statistics, g->err))
        return false;
    g->why[value->id] = bad_value_reason(g, name, &statistics);
    g->overflows[value->id] = statistics.overflow > 0;
    g->p->unharmed[value->id] = !statistics_loses(&statistics);
    if (g->why[value->id] && g->p->request.guard != GUARD_LOOK && !is_clamped(g, value))
        pass_note_loss(g->p->counts, &g->p->model->arena,
                       (TensorLoss){.name = name, .fate = LOSS_KEPT, .statistics = statistics});
    return true;
}

static bool look_at_constants(Guard *g) {
    for (uint32_t id = 0; id < g->p->value_count; id++) {
        const Value *value = placement_value(g->p, id);
        if (!value || !value_holds_float(value) || !is_wanted(g, value)) continue;
        const Tensor *tensor = NULL;
        if (g->p->constant[id])
            tensor = constant_tensor(value, &g->p->model->arena);
        else if (value->input)
            tensor = value->init; /* a default that a caller may override */
        if (!look_at(g, value, sym_text(value->name), tensor)) return false;
    }
    return true;
}

/* The tensor that fills a ConstantOfShape. */
static bool look_at_fill(Guard *g, const Node *node) {
    if (!sym_equals(node->op_type, "ConstantOfShape") || !domain_is_default(node->domain) ||
        node->output_count == 0 || !node->outputs[0])
        return true;
    return look_at(g, node->outputs[0], "value", attr_tensor(node_attr(node, "value")));
}

static bool is_cast(const Node *node) {
    return domain_is_default(node->domain) && node->input_count > 0 && node->inputs[0].value &&
           (sym_equals(node->op_type, "Cast") || sym_equals(node->op_type, "CastLike"));
}

static const char *moved_reason(const Guard *g, const Node *node) {
    if (is_cast(node)) return g->why[node->inputs[0].value->id];
    const OpSchema *schema = node_schema(node);
    const OpFlags *flags = schema ? op_flags(schema) : NULL;
    if (!flags || !(flags->flags & OP_MOVES)) return NULL;
    if (flags->unless_attr && node_attr(node, flags->unless_attr)) return NULL;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const OpParam *param = op_schema_input(schema, i);
        const Value *value = node->inputs[i].value;
        if (!param || !value || !(flags->moved >> (param - schema->inputs) & 1)) continue;
        if (g->why[value->id]) return g->why[value->id];
    }
    return NULL;
}

static bool follow_moves(Guard *g, const Graph *graph) {
    for (const Node *node = graph->first; node; node = node_after(node)) {
        if (!look_at_fill(g, node)) return false;
        const char *why = moved_reason(g, node);
        for (uint32_t i = 0; why && i < node->output_count; i++)
            if (value_holds_float(node->outputs[i])) g->why[node->outputs[i]->id] = why;
    }
    return true;
}

static void pin_readers(Guard *g, const Value *value) {
    Placement *p = g->p;
    if (!p->constant[value->id])
        placement_pin(p, p->value_vars[value->id], NOTE_VALUE, g->why[value->id]);
    for (const Use *use = value->uses; use; use = use->next)
        placement_pin(p, placement_use_var(p, use), NOTE_VALUE, g->why[value->id]);
}

bool placement_guard_values(Placement *p, Err *err) {
    Guard g = {.p = p, .err = err};
    g.why = p->guarded = ARENA_ARRAY(p->scratch, const char *, p->value_count);
    g.overflows = ARENA_ARRAY(p->scratch, bool, p->value_count);
    p->unharmed = ARENA_ARRAY(p->scratch, bool, p->value_count);
    if (!look_at_constants(&g)) return false;
    for (size_t i = 0; i < p->graphs.count; i++)
        if (!follow_moves(&g, p->graphs.items[i])) return false;
    for (uint32_t id = 0; p->request.guard != GUARD_LOOK && id < p->value_count; id++)
        if (g.why[id] && !is_clamped(&g, p->values[id])) pin_readers(&g, p->values[id]);
    return true;
}

static bool refuse(const Value *value, const Use *use, const char *why, Err *err) {
    if (use && use->node)
        node_error(use->node, err, ERR_MODEL, "%s", why);
    else
        err_set(err, ERR_MODEL, "%s", why);
    err_operand(err, "value '%s'", sym_text(value->name));
    err_hint(err, "--overflow pin keeps its readers in float32");
    return false;
}

bool placement_guard_refuse(Placement *p, Err *err) {
    if (p->request.guard != GUARD_LOOK) return true;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!p->guarded[id]) continue;
        if (placement_is_low(p, p->value_vars[id]))
            return refuse(p->values[id], NULL, p->guarded[id], err);
        for (const Use *use = p->values[id]->uses; use; use = use->next)
            if (placement_is_low(p, placement_use_var(p, use)))
                return refuse(p->values[id], use, p->guarded[id], err);
    }
    return true;
}
