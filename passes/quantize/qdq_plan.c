// SPDX-License-Identifier: Apache-2.0
/* Deciding by operators' classes; see qdq_plan.h. Once forwards, for what could be computed with
 * integers, and once backwards, for what of it somebody wants. */
#include "qdq_plan.h"

#include <math.h>

#include "constants.h"
#include "op_types.h"

enum { STEPS_MOST = 12 }; /* of a function that is looked up: longer ones are cut */

/* ---- questions ------------------------------------------------------------------------------- */

static QdqValue *entry(const QdqPlan *plan, const Value *value) {
    return &plan->values[value->id];
}

/* The only node that reads the value, in its own graph; NULL where it is not the only one. */
static Node *only_reader(const Value *value) {
    if (value->use_count != 1 || value->referenced || !value->uses->node) return NULL;
    return value->uses->node->graph == value->graph ? value->uses->node : NULL;
}

/* A constant of one element that adds no axis to `out`. */
static bool is_number(const Value *value, const Value *out) {
    const int64_t rank = qdq_rank(value);
    if (!value_is_constant(value) || rank < 0 || rank > qdq_rank(out)) return false;
    for (int64_t i = 0; i < rank; i++)
        if (qdq_dim(value, i) != 1) return false;
    return true;
}

/* ---- reasons --------------------------------------------------------------------------------- */

static void blame(QdqPlan *plan, const Node *node, NoteKind kind, const char *reason) {
    QdqNode *at = &plan->nodes[node->id];
    if (at->kind == NOTE_NONE) *at = (QdqNode){.kind = kind, .reason = reason};
}

static void blame_range(QdqPlan *plan, const Node *node, const Value *value) {
    const RangeRow *range = entry(plan, value)->range;
    const int64_t opset = opset_version(value->graph->opsets, NULL),
                  least = qdq_opset_of(plan->request.activations, false, false);
    Arena *arena = &plan->model->arena;
    if (opset < least)
        blame(plan, node, NOTE_ILLEGAL,
              arena_printf(arena,
                           "%s is illegal for QuantizeLinear at opset %d; legal from opset "
                           "%d",
                           dtype_name(plan->request.activations), (int)opset, (int)least));
    else if (value_is_constant(value))
        blame(plan, node, NOTE_POLICY, "what it multiplies is a constant");
    else
        blame(plan, node, NOTE_VALUE,
              arena_printf(arena,
                           range ? "'%s' was not finite during calibration"
                                 : "the range of '%s' is not known",
                           sym_text(value->name)));
}

/* ---- forwards -------------------------------------------------------------------------------- */

static void set_role(QdqPlan *plan, const Node *node, QdqRole role) {
    plan->nodes[node->id].role = role;
}

/* What the node gives can be quantized on its own. */
static void make_ready(const QdqPlan *plan, const Value *value) {
    QdqValue *at = entry(plan, value);
    at->ready = at->traced = qdq_can(plan, value);
}

static bool is_ready(const QdqPlan *plan, const Value *value) {
    return value && entry(plan, value)->ready;
}

/* False, with a reason, where the product stays float as a whole. */
static bool take_product(QdqPlan *plan, Node *node, const OpRecord *record) {
    const char *why = NULL;
    Value *x = qdq_input(node, 0), *w = qdq_input(node, record->weights);
    if (!qdq_is_float(x) || !qdq_is_float(w) || !qdq_is_float(node->outputs[0])) {
        blame(plan, node, NOTE_NO_FLOAT, "it has no float32 values");
        return false;
    }
    const bool activations = plan->request.activations;
    if (activations && !qdq_can(plan, x)) {
        blame_range(plan, node, x);
        return false;
    }
    if (plan->request.weights && qdq_weight_take(plan, node, plan->request.weights, &why))
        return true;
    if (!plan->request.weights && value_is_constant(w)) return activations;
    blame(plan, node, NOTE_POLICY, why ? why : "its weights are computed");
    return false;
}

/* What computes in float whatever is quantized, and may have weights to store. */
static void take_weights(QdqPlan *plan, Node *node, const OpRecord *record) {
    const char *why = NULL;
    const Value *w = qdq_input(node, qdq_weights_operand(node, record));
    if (!w || !value_is_constant(w) || !qdq_is_float(w) || qdq_rank(w) < 2 ||
        !qdq_is_float(node->outputs[0]) || !plan->request.weights)
        return;
    if (!qdq_weight_take(plan, node, plan->request.weights, &why) && why)
        blame(plan, node, NOTE_POLICY, why);
}

/* A constant, or one that is only reshaped. */
static bool is_still(const QdqPlan *plan, const Value *value) {
    if (value_is_constant(value)) return true;
    const OpRecord *record = value->producer ? qdq_record(plan, value->producer) : NULL;
    const Value *from = record ? qdq_input(value->producer, 0) : NULL;
    return from && record->quantized == QUANTIZED_MOVE && value_is_constant(from);
}

/* One number, or one for each place of one axis. */
static bool is_channels(const QdqPlan *plan, const Value *value, const Value *of) {
    const int64_t rank = qdq_rank(value);
    unsigned axes = 0;
    if (rank < 0 || rank > qdq_rank(of) || !is_still(plan, value)) return false;
    for (int64_t i = 0; i < rank; i++) axes += qdq_dim(value, i) != 1;
    return axes <= 1;
}

/* A sum with a constant for each channel, as a product's bias is. */
static bool is_bias(const QdqPlan *plan, const Node *node, const OpRecord *record) {
    if (record->quantized != QUANTIZED_PAIR || !op_record_has(record, OP_LINEAR | OP_STEADY) ||
        node->input_count != 2)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const Value *sum = node->inputs[i].value, *bias = node->inputs[1 - i].value;
        if (!sum || !bias || !sum->producer || !is_channels(plan, bias, sum)) continue;
        const OpRecord *made = qdq_record(plan, sum->producer);
        if (plan->nodes[sum->producer->id].role == QDQ_PRODUCT && made &&
            made->quantized == QUANTIZED_PRODUCT && only_reader(sum) == node)
            return true;
    }
    return false;
}

/* True where bounds behind the node are those of its result. */
static bool takes_bounds(const QdqPlan *plan, const Node *node) {
    const OpRecord *record = qdq_record(plan, node);
    const QdqRole role = plan->nodes[node->id].role;
    if (!record || record->quantized == QUANTIZED_BOUND) return false;
    if (role == QDQ_PRODUCT || role == QDQ_FOLDED) return true;
    return role == QDQ_FLOW && record->quantized == QUANTIZED_PAIR;
}

static bool is_folded(const QdqPlan *plan, const Node *node, const OpRecord *record) {
    const Value *x = qdq_input(node, 0);
    if (!plan->request.activations) return false;
    if (is_bias(plan, node, record)) return true;
    if (record->quantized != QUANTIZED_BOUND || !x || !x->producer) return false;
    for (uint32_t i = 1; i < node->input_count; i++)
        if (node->inputs[i].value && !is_number(node->inputs[i].value, x)) return false;
    return only_reader(x) == node && takes_bounds(plan, x->producer);
}

static void fold(QdqPlan *plan, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        Value *value = node->inputs[i].value;
        if (value && !is_still(plan, value)) entry(plan, value)->folded = true;
    }
    set_role(plan, node, QDQ_FOLDED);
    make_ready(plan, node->outputs[0]);
}

/* The values that an elementwise node is computed of, constants apart: at most two. */
typedef struct Sources {
    Value *items[2];
    uint32_t count;
    bool others; /* there are more, or constants that are no numbers */
} Sources;

static Sources sources_of(const Node *node) {
    Sources s = {.count = 0};
    for (uint32_t i = 0; i < node->input_count; i++) {
        Value *value = node->inputs[i].value;
        if (!value || is_number(value, node->outputs[0])) continue;
        s.others |= s.count == 2 || value_is_constant(value);
        if (s.count < 2) s.items[s.count++] = value;
    }
    return s;
}

/* Of one quantized value, itself or computed of it; adds a step. All have one shape, as constants
 * add none. */
static bool take_step(QdqPlan *plan, const Node *node, const OpRecord *record, const Sources *s) {
    Value *out = node->outputs[0];
    const QdqValue *first = entry(plan, s->items[0]);
    unsigned steps = 1;
    for (uint32_t i = 0; i < s->count; i++) {
        const QdqValue *at = entry(plan, s->items[i]);
        if (!at->traced || at->root != first->root) return false;
        steps += at->steps;
    }
    if (steps > STEPS_MOST) return false;
    QdqValue *made = entry(plan, out);
    made->root = first->root;
    made->steps = (uint8_t)steps;
    made->traced = true;
    made->ready = record->quantized != QUANTIZED_NOT && qdq_can(plan, out);
    set_role(plan, node, QDQ_STEP);
    return true;
}

static void take_elementwise(QdqPlan *plan, const Node *node, const OpRecord *record) {
    const Sources s = sources_of(node);
    if (s.others || s.count == 0 || take_step(plan, node, record, &s)) return;
    if (record->quantized == QUANTIZED_PAIR && s.count == 2 && is_ready(plan, s.items[0]) &&
        is_ready(plan, s.items[1])) {
        set_role(plan, node, QDQ_FLOW);
        make_ready(plan, node->outputs[0]);
    }
}

static bool fills_with_zero(const Node *node) {
    const Value *fill = qdq_input(node, 2);
    float number;
    if (opset_version(node->graph->opsets, NULL) < 11) {
        const Attr *attr = node_attr(node, "value");
        return !attr || (attr_float(attr, &number) && number == 0);
    }
    return !fill || (constant_scalar(fill, &number) && number == 0);
}

static bool all_ready(const QdqPlan *plan, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!is_ready(plan, node->inputs[i].value)) return false;
    return node->input_count > 0;
}

/* ONNX Runtime makes a QLinearConcat of one between quantizers, and then refuses the scales unless they are float32. */
static bool may_join(const QdqPlan *plan, const Node *node) {
    return !plan->request.float_joins && type_dtype(node->outputs[0]->type) == DTYPE_FLOAT;
}

static bool flows(const QdqPlan *plan, const Node *node, const OpRecord *record) {
    switch ((OpQuantized)record->quantized) {
    case QUANTIZED_MOVE:
    case QUANTIZED_RESIZE:
    case QUANTIZED_MEAN: return is_ready(plan, qdq_input(node, 0));
    case QUANTIZED_PAD: return is_ready(plan, qdq_input(node, 0)) && fills_with_zero(node);
    case QUANTIZED_JOIN: return may_join(plan, node) && all_ready(plan, node);
    case QUANTIZED_NOT:
    case QUANTIZED_PRODUCT:
    case QUANTIZED_WEIGHTS:
    case QUANTIZED_PAIR:
    case QUANTIZED_TABLE:
    case QUANTIZED_BOUND: break;
    }
    return false;
}

/* Floats alone, as many as the definition has: not MaxPool's places. */
static bool gives_floats(const Node *node, const OpRecord *record) {
    const bool parts = record->quantized == QUANTIZED_MOVE && record->layout == LAYOUT_AXIS;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && ((i > 0 && !parts) || !qdq_is_float(node->outputs[i])))
            return false;
    return node->output_count > 0 && node->outputs[0];
}

/* What raising the opset or to-float32 put in has no range of its own. */
static void take_range(QdqPlan *plan, const Node *node, const OpRecord *record) {
    const Value *from = qdq_input(node, 0);
    if ((record->quantized != QUANTIZED_MOVE && !node_is_cast(node)) || !from) return;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && !entry(plan, node->outputs[i])->range)
            entry(plan, node->outputs[i])->range = entry(plan, from)->range;
}

/* Nothing but products computes with float8. */
static bool products_alone(const QdqPlan *plan) {
    return dtype_is_float(plan->request.activations);
}

static void visit(QdqPlan *plan, Node *node) {
    const OpRecord *record = qdq_record(plan, node);
    if (!record || !gives_floats(node, record)) return;
    take_range(plan, node, record);
    const bool elementwise = record->layout == LAYOUT_EACH && !op_record_has(record, OP_RANDOM) &&
                             !op_record_has(record, OP_RANDOM_TRAINING);
    if (record->quantized == QUANTIZED_WEIGHTS) {
        take_weights(plan, node, record);
    } else if (record->quantized == QUANTIZED_PRODUCT) {
        if (!qdq_input(node, 0) || !qdq_input(node, record->weights) ||
            !take_product(plan, node, record) || !plan->request.activations)
            return;
        set_role(plan, node, QDQ_PRODUCT);
        if (!products_alone(plan)) make_ready(plan, node->outputs[0]);
    } else if (qdq_reads_table(node)) {
        qdq_table_take(plan, node);
    } else if (products_alone(plan)) {
        return;
    } else if (is_folded(plan, node, record)) {
        fold(plan, node);
    } else if (flows(plan, node, record)) {
        set_role(plan, node, QDQ_FLOW);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) make_ready(plan, node->outputs[i]);
    } else if (elementwise) {
        take_elementwise(plan, node, record);
    }
}

/* ---- backwards ------------------------------------------------------------------------------- */

/* Somebody reads it quantized. */
static void want(QdqPlan *plan, const Value *value) {
    QdqValue *at = entry(plan, value);
    if (at->wanted || value_is_constant(value)) return;
    at->wanted = true;
    if (at->steps && at->ready) plan->values[at->root].wanted = true;
}

static void want_all(QdqPlan *plan, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && qdq_can(plan, node->inputs[i].value))
            want(plan, node->inputs[i].value);
}

static bool gives_wanted(const QdqPlan *plan, const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && entry(plan, node->outputs[i])->wanted) return true;
    return false;
}

static void visit_back(QdqPlan *plan, const Node *node) {
    QdqNode *at = &plan->nodes[node->id];
    switch (at->role) {
    case QDQ_FLOAT: break;
    case QDQ_STEP: break;
    case QDQ_PRODUCT: want(plan, qdq_input(node, 0)); break;
    case QDQ_FOLDED: /* what it is part of is wanted where it is */
        if (gives_wanted(plan, node)) want_all(plan, node);
        break;
    case QDQ_FLOW:
        if (gives_wanted(plan, node))
            want_all(plan, node);
        else
            at->role = QDQ_FLOAT;
        break;
    }
}

/* ---- what comes of it ------------------------------------------------------------------------ */

static void settle(QdqPlan *plan) {
    for (uint32_t id = 0; id < plan->value_count; id++) {
        QdqValue *at = &plan->values[id];
        if (!at->value || !at->wanted || at->folded) continue;
        at->dtype = plan->request.activations;
        at->for_all = at->ready;
    }
}

/* A step, or a part of a node before it, computes in float where its result is not quantized. */
static void settle_roles(QdqPlan *plan) {
    for (size_t g = plan->graphs.count; g-- > 0;)
        for (const Node *node = plan->graphs.items[g]->last; node; node = node->prev) {
            QdqNode *at = &plan->nodes[node->id];
            if (at->role != QDQ_STEP) continue;
            const QdqValue *made = entry(plan, node->outputs[0]);
            bool used = made->dtype != DTYPE_UNDEFINED;
            for (const Use *use = made->value->uses; use && !used; use = use->next)
                used = use->node && plan->nodes[use->node->id].role == QDQ_STEP;
            if (!used) at->role = QDQ_FLOAT;
        }
}

void qdq_plan_by_class(QdqPlan *plan) {
    qdq_skip_copies(plan);
    qdq_keep_picks(plan);
    for (size_t g = 0; g < plan->graphs.count; g++)
        for (Node *node = plan->graphs.items[g]->first; node; node = node_after(node))
            visit(plan, node);
    for (size_t g = plan->graphs.count; g-- > 0;)
        for (const Node *node = plan->graphs.items[g]->last; node; node = node->prev)
            visit_back(plan, node);
    settle(plan);
    settle_roles(plan);
    qdq_plan_link(plan);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void take_value(QdqPlan *plan, Value *value) {
    QdqValue *at = entry(plan, value);
    at->value = value;
    at->range = range_table_find(&plan->ranges, value->name);
}

static void take_graph(QdqPlan *plan, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++) take_value(plan, graph->inputs.items[i]);
    for (size_t i = 0; i < graph->initializers.count; i++)
        take_value(plan, graph->initializers.items[i]);
    for (const Node *node = graph->first; node; node = node_after(node)) {
        const char *excluded = plan->request.excluded[node->id];
        const char *precise = plan->request.precise ? plan->request.precise[node->id] : NULL;
        if (excluded) blame(plan, node, NOTE_EXCLUDED, excluded);
        if (precise) blame(plan, node, NOTE_PRECISE, precise);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) take_value(plan, node->outputs[i]);
    }
}

bool qdq_plan_begin(QdqPlan *plan, const PassStrings *ranges, Err *err) {
    plan->value_count = plan->model->value_count;
    plan->node_count = plan->model->node_count;
    plan->values = ARENA_ARRAY(plan->scratch, QdqValue, plan->value_count);
    plan->nodes = ARENA_ARRAY(plan->scratch, QdqNode, plan->node_count);
    if (!range_table_read(plan->model, ranges, plan->scratch, &plan->ranges, err)) return false;
    for (uint32_t id = 0; id < plan->value_count; id++)
        plan->values[id].root = plan->values[id].like = id;
    GraphList all = model_graphs(plan->model, plan->scratch);
    for (size_t g = 0; g < all.count; g++) {
        take_graph(plan, all.items[g]);
        /* types in a function's body are those of some call */
        if (!all.items[g]->function) VEC_PUSH(plan->scratch, &plan->graphs, all.items[g]);
    }
    return true;
}
