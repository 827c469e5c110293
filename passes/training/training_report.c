// SPDX-License-Identifier: Apache-2.0
/* What is trained, and why the rest is not; see training_report.h. */
#include "training_report.h"

/* ---- what gradients reach -------------------------------------------------------------------- */

static void reach(const TrainingReach *r, const Value *value) {
    const Dtype dtype = type_dtype(value->type);
    if (dtype == DTYPE_UNDEFINED || dtype_is_float(dtype)) r->reached[value->id] = true;
}

static void stop(const TrainingReach *r, const Value *value, const Node *node) {
    if (!r->stopped[value->id]) r->stopped[value->id] = node;
}

static bool is_reached(const TrainingReach *r, const Node *node, const Node **by) {
    bool any = false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (!value) continue;
        any = any || r->reached[value->id];
        if (!*by) *by = r->stopped[value->id];
    }
    return any;
}

TrainingReach training_reach(PassCtx *ctx, Value *of) {
    Arena *scratch = ctx->scratch;
    const size_t values = ctx->model->value_count;
    const TrainingReach r = {ARENA_ARRAY(scratch, bool, values + 1),
                             ARENA_ARRAY(scratch, const Node *, values + 1)};
    const GradientAsk ask = {.at = of->producer, .ys = &of, .y_count = 1};
    if (!of->producer) return r;
    const GradientNodes nodes = gradient_nodes(&ask, scratch);
    r.reached[of->id] = true;
    for (size_t n = nodes.count; n-- > 0;) {
        const Node *node = nodes.items[n], *by = NULL;
        const bool any = is_reached(&r, node, &by), whole = node_holds_graph(node);
        uint32_t count;
        Value **reads = gradient_reads(node, scratch, &count);
        for (uint32_t i = 0; i < count && whole && any; i++) reach(&r, reads[i]);
        for (uint32_t i = 0; i < node->input_count && !(whole && any); i++) {
            const Value *value = node->inputs[i].value;
            if (!value) continue;
            if (any && gradient_flows(node, i, false))
                reach(&r, value);
            else
                stop(&r, value, any ? node : by);
        }
    }
    return r;
}

/* ---- why not --------------------------------------------------------------------------------- */

/* In the order in which they are told. */
typedef enum Why {
    WHY_TRAINED,
    WHY_STATISTIC,
    WHY_FROZEN,
    WHY_STOPPED,
    WHY_NUMBER,
    WHY_MASK,
    WHY_UNREAD,
    WHY_ELSEWHERE,
    WHY_INNER,
    WHY_INTEGER,
    WHY_COUNT,
} Why;

/* Tensors that the same holds of. */
typedef struct Told {
    Why why;
    const Node *node; /* of WHY_STOPPED and WHY_ELSEWHERE: one of that operator */
    uint64_t tensors, elements;
    const char *names;
} Told;

typedef struct Telling {
    PassCtx *ctx;
    const TrainingReport *report;
    bool *parameter, *statistic; /* by value: there is such a place */
    bool *among;                 /* by node */
    VEC(Told) list;
} Telling;

/* What reads the value's elements, moved or not; NULL where nothing does that `of` is computed by. */
static const Node *reader_of(const Telling *t, const Value *value) {
    enum { MOST = 64 };
    for (unsigned steps = 0; steps < MOST; steps++) {
        const Node *node = NULL;
        uint32_t index = 0;
        for (const Use *use = value->uses; use; use = use->next) {
            if (!use->node || !t->among[use->node->id]) continue;
            if (node && node->id < use->node->id) continue;
            node = use->node;
            index = use->index;
        }
        if (!node || !training_moves_operand(node, index) || !node->outputs[0]) return node;
        value = node->outputs[0];
    }
    return NULL;
}

static Why why(const Telling *t, const Value *value, const Node **node) {
    const TrainingReport *report = t->report;
    const uint32_t id = value->id;
    *node = NULL;
    if (!dtype_is_float((Dtype)value->init->dtype)) return WHY_INTEGER;
    if (report->trained[id]) return WHY_TRAINED;
    if (t->statistic[id]) return WHY_STATISTIC;
    if (report->frozen[id]) return WHY_FROZEN;
    const Node *reader = reader_of(t, value);
    if (!reader) return WHY_UNREAD;
    if (t->parameter[id]) {
        *node = report->reach->stopped[id];
        return *node ? WHY_STOPPED : WHY_UNREAD;
    }
    if (value->graph->parent) return WHY_INNER;
    if (!tensor_check(value->init, NULL)) return WHY_ELSEWHERE;
    if (tensor_count(value->init) <= 1) return WHY_NUMBER;
    if (training_row(reader) && training_is_mask(value->init)) return WHY_MASK;
    *node = reader;
    return WHY_ELSEWHERE;
}

static Told *told_of(Telling *t, Why reason, const Node *node) {
    for (size_t i = 0; i < t->list.count; i++) {
        Told *told = &t->list.items[i];
        if (told->why == reason && (!node || (told->node && told->node->op_type == node->op_type)))
            return told;
    }
    VEC_PUSH(t->ctx->scratch, &t->list, ((Told){.why = reason, .node = node, .names = ""}));
    return &t->list.items[t->list.count - 1];
}

static void take(Telling *t, const Value *value) {
    enum { NAMED = 3 };
    const Node *node;
    const Why reason = why(t, value, &node);
    Told *told = told_of(t, reason, node);
    if (tensor_check(value->init, NULL)) told->elements += tensor_count(value->init);
    if (told->tensors++ < NAMED && reason != WHY_TRAINED)
        told->names = arena_printf(t->ctx->scratch, "%s%s'%s'", told->names,
                                   *told->names ? ", " : "", sym_text(value->name));
    else if (told->tensors == NAMED + 1 && reason != WHY_TRAINED)
        told->names = arena_printf(t->ctx->scratch, "%s and more", told->names);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static const char *reason_text(const Telling *t, const Told *told) {
    Arena *scratch = t->ctx->scratch;
    switch (told->why) {
    case WHY_TRAINED: return "";
    case WHY_STATISTIC: return "running statistics, which follow the batches";
    case WHY_FROZEN: return "frozen";
    case WHY_STOPPED:
        return arena_printf(scratch, "'%s' (%s) has no gradient", node_label(told->node),
                            sym_text(told->node->op_type));
    case WHY_NUMBER: return "single numbers in a formula";
    case WHY_MASK: return "a mask";
    case WHY_UNREAD:
        return arena_printf(scratch, "'%s' is not computed from them",
                            sym_text(t->report->of->name));
    case WHY_ELSEWHERE:
        if (!told->node) return "without the data for their shape";
        return arena_printf(scratch, "%s takes no parameters there", sym_text(told->node->op_type));
    case WHY_INNER: return "constants of a branch or a body";
    case WHY_INTEGER: return "not floating-point";
    case WHY_COUNT: break;
    }
    return "";
}

static const char *told_text(const Telling *t, const Told *told) {
    Arena *arena = &t->ctx->model->arena;
    const char *tensors = told->tensors == 1 ? "tensor" : "tensors";
    const char *elements = told->elements == 1 ? "element" : "elements";
    const unsigned long long many = told->tensors, all = told->elements;
    if (told->why == WHY_TRAINED)
        return arena_printf(arena, "trained: %llu %s, %llu %s", many, tensors, all, elements);
    return arena_printf(arena, "not trained: %llu %s, %llu %s (%s): %s", many, tensors, all,
                        elements, reason_text(t, told), told->names);
}

void training_tell(PassCtx *ctx, const TrainingReport *report) {
    Arena *scratch = ctx->scratch;
    Telling t = {.ctx = ctx,
                 .report = report,
                 .parameter = ARENA_ARRAY(scratch, bool, report->value_count + 1),
                 .statistic = ARENA_ARRAY(scratch, bool, report->value_count + 1),
                 .among = ARENA_ARRAY(scratch, bool, ctx->model->node_count + 1)};
    for (size_t i = 0; i < report->places->count; i++) {
        const TrainingPlace *place = &report->places->items[i];
        (place->statistic ? t.statistic : t.parameter)[place->source->id] = true;
    }
    for (size_t i = 0; i < report->nodes->count; i++) t.among[report->nodes->items[i]->id] = true;
    const GraphList graphs = model_graphs(ctx->model, scratch);
    for (size_t g = 0; g < graphs.count; g++)
        for (size_t i = 0; i < graphs.items[g]->initializers.count; i++)
            take(&t, graphs.items[g]->initializers.items[i]);
    for (int reason = WHY_COUNT; reason-- > 0;) /* the newest is told first */
        for (size_t i = t.list.count; i-- > 0;)
            if ((int)t.list.items[i].why == reason)
                pass_remark(ctx->counts, &ctx->model->arena, told_text(&t, &t.list.items[i]));
}
