// SPDX-License-Identifier: Apache-2.0
/* Estimates typical magnitudes and pins the impossible; see value_magnitude.h.
 *
 * A magnitude is a root mean square, carried forward through the graph. It begins at
 * normalizations, whose scale and shift say what comes out whatever goes in, and at activations
 * with bounds; inputs of the model are unknown, and so is what is computed of them before. A
 * product with a matrix of weights multiplies it by the weights' own and by the root of the sum's
 * length, as for uncorrelated terms. It is rough, and rougher with each such step: after DEEPEST of
 * them nothing is said. It is to find the value of 300,000 (scores before they are scaled by
 * 1/sqrt(d)), not that of 60,000, which takes a measurement (--calibrate). What is 16 bit already
 * counts as it is, so that a model that was converted is judged as before.
 *
 * Weights are sampled: at most SAMPLES numbers of each.
 */
#include "value_magnitude.h"

#include <math.h>

#include "constants.h"
#include "op_facts.h"
#include "op_record.h"
#include "op_types.h"

enum { RUN = 64, RUNS = 32, SAMPLES = RUN * RUNS };
enum { DEEPEST = 2 }; /* products since the last normalization; constant factors do not count */

/* Constants beyond this are masks, not weights: nothing is estimated of them. */
static const double LARGEST_WEIGHT = 4096;

/* What an operator may do besides: it only moves data; or it was not looked up yet. */
enum { MAGNITUDE_MOVES = UINT8_MAX - 1, MAGNITUDE_UNASKED = UINT8_MAX };

typedef struct Magnitudes {
    Placement *p;
    double *of;      /* [value_count]: NAN where unknown */
    uint8_t *depth;  /* [value_count]: products it is of */
    bool *deviation; /* [value_count]: a root of what was computed; dividing by it normalizes */
    bool *inverse;   /* [value_count]: one over such */
    bool *shares;    /* [value_count]: of a softmax: a product with it is a mean */
    uint8_t *rules;  /* [ops_count()]: OpMagnitude, MAGNITUDE_MOVES or MAGNITUDE_UNASKED */
    Err *err;
    bool failed;
} Magnitudes;

/* ---- constants ------------------------------------------------------------------------------- */

static double sampled(Magnitudes *m, const Tensor *tensor) {
    uint64_t count = tensor_count(tensor), stride = count / RUNS;
    double sum = 0;
    uint64_t taken = 0;
    for (uint64_t at = 0; at<count; at += stride> RUN ? stride : RUN) {
        float numbers[RUN];
        uint64_t some = count - at < RUN ? count - at : RUN;
        if (!tensor_read_floats(tensor, at, some, numbers, m->err)) {
            m->failed = true;
            return NAN;
        }
        for (uint64_t i = 0; i < some; i++) sum += (double)numbers[i] * (double)numbers[i];
        taken += some;
    }
    double magnitude = taken ? sqrt(sum / (double)taken) : NAN;
    return magnitude <= LARGEST_WEIGHT ? magnitude : NAN;
}

static bool is_real(Dtype dtype) {
    return dtype_is_working(dtype);
}

static double magnitude_of(Magnitudes *m, const Value *value) {
    if (!value) return NAN;
    if (!value_is_constant(value)) return m->of[value->id];
    if (m->of[value->id] >= 0 || m->failed) return m->of[value->id];
    const Tensor *tensor = constant_tensor(value, &m->p->model->arena);
    if (!tensor || !is_real((Dtype)tensor->dtype) || !tensor_check(tensor, NULL)) return NAN;
    return m->of[value->id] = sampled(m, tensor);
}

/* ---- operators ------------------------------------------------------------------------------- */

static uint8_t rule_of(Magnitudes *m, const Node *node) {
    const OpSchema *schema = node_schema(node);
    size_t place = schema ? (size_t)(schema - ops_at(0)) : ops_count();
    if (!schema || schema < ops_at(0) || place >= ops_count()) return MAGNITUDE_UNKNOWN;
    if (m->rules[place] != MAGNITUDE_UNASKED) return m->rules[place];
    const OpRecord *record = op_record_find(schema->domain, schema->name);
    uint8_t found = record ? record->magnitude : (uint8_t)MAGNITUDE_UNKNOWN;
    if (found <= MAGNITUDE_UNKNOWN && op_has_flags(schema, OP_MOVES)) found = MAGNITUDE_MOVES;
    return m->rules[place] = found;
}

static const Value *input_of(const Node *node, uint32_t i) {
    return i < node->input_count ? node->inputs[i].value : NULL;
}

static double input_magnitude(Magnitudes *m, const Node *node, uint32_t i) {
    return magnitude_of(m, input_of(node, i));
}

/* The largest of what is moved; unknown where one is. */
static double moved(Magnitudes *m, const Node *node) {
    const OpSchema *schema = node_schema(node);
    const OpFlags *flags = op_flags(schema);
    double most = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const OpParam *param = op_schema_input(schema, i);
        if (!param || !(flags->moved >> (param - schema->inputs) & 1)) continue;
        if (!input_of(node, i) || !is_real(type_dtype(input_of(node, i)->type))) continue;
        double own = input_magnitude(m, node, i);
        if (!(own <= most)) most = own;
        if (isnan(own)) return NAN;
    }
    return most;
}

static double sum_of(Magnitudes *m, const Node *node) {
    double squares = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        double own = input_magnitude(m, node, i);
        squares += own * own;
    }
    return sqrt(squares);
}

static double product_of(Magnitudes *m, const Node *node) {
    const Value *a = input_of(node, 0), *b = input_of(node, 1);
    if ((a && m->inverse[a->id]) || (b && m->inverse[b->id])) return 1;
    return input_magnitude(m, node, 0) * input_magnitude(m, node, 1);
}

static double quotient_of(Magnitudes *m, const Node *node) {
    const Value *by = input_of(node, 1);
    if (!by) return NAN;
    if (m->deviation[by->id]) return 1;
    if (!value_is_constant(by)) return NAN;
    double divisor = magnitude_of(m, by);
    return divisor > 0 ? input_magnitude(m, node, 0) / divisor : NAN;
}

static int64_t dim_of(const Value *value, uint32_t i) {
    const Type *type = value ? value->type : NULL;
    if (!type || type->kind != TYPE_TENSOR || !type->has_shape || i >= type->rank) return 0;
    return type->dims[i].kind == DIM_KNOWN ? type->dims[i].size : 0;
}

static uint32_t rank_of(const Value *value) {
    const Type *type = value ? value->type : NULL;
    return type && type->kind == TYPE_TENSOR && type->has_shape ? type->rank : 0;
}

/* How many products a sum has; 0 where unknown. */
static double sum_length(const Node *node) {
    const Value *a = input_of(node, 0), *w = input_of(node, 1);
    const OpRecord *record = node_record(node);
    if (record && record->work == WORK_MATMUL) {
        uint32_t rank = rank_of(w), rank_a = rank_of(a);
        int64_t length = rank ? dim_of(w, rank > 1 ? rank - 2 : 0) : 0;
        return (double)(length || !rank_a ? length : dim_of(a, rank_a - 1));
    }
    if (record && record->work == WORK_GEMM)
        return (double)dim_of(w, node_attr_int(node, "transB", 0) ? 1 : 0);
    bool forward = record && record->work == WORK_CONV;
    double length = forward ? (double)dim_of(w, 1) : (double)dim_of(w, 0);
    for (uint32_t i = 2; i < rank_of(w); i++) length *= (double)dim_of(w, i);
    return length;
}

static double dot_of(Magnitudes *m, const Node *node) {
    const Value *a = input_of(node, 0);
    if (a && m->shares[a->id]) return input_magnitude(m, node, 1);
    double length = sum_length(node), shift = input_magnitude(m, node, 2);
    if (!(length > 0)) return NAN;
    double dot = input_magnitude(m, node, 0) * input_magnitude(m, node, 1) * sqrt(length);
    return shift > 0 ? hypot(dot, shift) : dot;
}

static double norm_of(Magnitudes *m, const Node *node) {
    double scale = input_of(node, 1) ? input_magnitude(m, node, 1) : 1;
    double shift = input_of(node, 2) ? input_magnitude(m, node, 2) : 0;
    return hypot(scale, isnan(shift) ? 0 : shift);
}

static double square_of(Magnitudes *m, const Node *node) {
    float exponent;
    const Value *power = input_of(node, 1);
    double own = input_magnitude(m, node, 0);
    if (!power || !value_is_constant(power) || !constant_scalar(power, &exponent)) return NAN;
    return exponent == 2.0f ? own * own : NAN;
}

/* An end of Clip's range, operand i or, before opset 11, an attribute; Inf where it is open. */
static double clip_end(const Node *node, uint32_t i, const char *name) {
    float end;
    const Value *value = input_of(node, i);
    if (value)
        return value_is_constant(value) && constant_scalar(value, &end) ? (double)end : INFINITY;
    return attr_float(node_attr(node, name), &end) ? (double)end : INFINITY;
}

static double clip_of(Magnitudes *m, const Node *node) {
    double low = fabs(clip_end(node, 1, "min")), high = fabs(clip_end(node, 2, "max"));
    double own = input_magnitude(m, node, 0), most = fmax(low, high);
    return isfinite(most) ? fmin(isnan(own) ? most : own, most) : own;
}

static bool is_constant(const Node *node, uint32_t i) {
    const Value *value = input_of(node, i);
    return value && value_is_constant(value);
}

/* Bounded values are of no product, scaled ones of no further; a sum is of its terms' deepest. */
static uint8_t depth_of(const Magnitudes *m, const Node *node, uint8_t rule) {
    uint8_t depth = 0;
    if (rule == MAGNITUDE_UNIT || rule == MAGNITUDE_SHARES || rule == MAGNITUDE_NORM) return 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (value && m->depth[value->id] > depth) depth = m->depth[value->id];
    }
    bool scales = rule == MAGNITUDE_PRODUCT && (is_constant(node, 0) || is_constant(node, 1));
    bool deeper =
        rule == MAGNITUDE_DOT || (rule == MAGNITUDE_PRODUCT && !scales) || rule == MAGNITUDE_SQUARE;
    return deeper && depth < UINT8_MAX ? depth + 1 : depth;
}

static double result_of(Magnitudes *m, const Node *node, uint8_t rule) {
    if (rule == MAGNITUDE_MOVES) return moved(m, node);
    switch ((OpMagnitude)rule) {
    case MAGNITUDE_SAME: return input_magnitude(m, node, 0);
    case MAGNITUDE_CLIP: return clip_of(m, node);
    case MAGNITUDE_UNIT:
    case MAGNITUDE_SHARES: return 1;
    case MAGNITUDE_SUM: return sum_of(m, node);
    case MAGNITUDE_PRODUCT: return product_of(m, node);
    case MAGNITUDE_QUOTIENT: return quotient_of(m, node);
    case MAGNITUDE_SQUARE: return square_of(m, node);
    case MAGNITUDE_ROOT: return sqrt(input_magnitude(m, node, 0));
    case MAGNITUDE_DOT: return dot_of(m, node);
    case MAGNITUDE_NORM: return norm_of(m, node);
    case MAGNITUDE_WEIGHTED: return input_magnitude(m, node, 2);
    case MAGNITUDE_INVERSE:
    case MAGNITUDE_UNSAID:
    case MAGNITUDE_UNKNOWN: break;
    }
    return NAN;
}

static void visit(Magnitudes *m, const Node *node) {
    const Value *out = node->output_count ? node->outputs[0] : NULL;
    if (!out || !is_real(type_dtype(out->type)) || value_is_constant(out)) return;
    if (model_find_function(node->graph->model, node)) return;
    uint8_t rule = rule_of(m, node);
    const Value *in = input_of(node, 0);
    m->deviation[out->id] = rule == MAGNITUDE_ROOT && in && !value_is_constant(in);
    m->inverse[out->id] = rule == MAGNITUDE_INVERSE && in && m->deviation[in->id];
    m->shares[out->id] =
        rule == MAGNITUDE_SHARES || (rule == MAGNITUDE_MOVES && in && m->shares[in->id]);
    uint8_t depth = depth_of(m, node, rule);
    double result = depth > DEEPEST ? NAN : result_of(m, node, rule);
    for (uint32_t i = 0; i < (rule == MAGNITUDE_MOVES ? node->output_count : 1); i++) {
        if (!node->outputs[i]) continue;
        m->of[node->outputs[i]->id] = result;
        m->depth[node->outputs[i]->id] = depth;
    }
}

/* ---- what follows ---------------------------------------------------------------------------- */

static void pin(Placement *p, const Value *value, double peak) {
    const char *reason =
        arena_printf(&p->model->arena, "its weights make '%s' about %.2g, beyond %s's range",
                     sym_text(value->name), peak, dtype_name(p->request.target));
    placement_pin(p, p->value_vars[value->id], NOTE_VALUE, reason);
    for (const Use *use = value->uses; use; use = use->next)
        placement_pin(p, placement_use_var(p, use), NOTE_VALUE, reason);
}

bool value_magnitudes_pin(Placement *p, Err *err) {
    const bool reaches = dtype_largest(p->request.target) > dtype_largest(DTYPE_FLOAT) / 2;
    if (reaches) return true; /* as far as float */
    Magnitudes m = {.p = p, .err = err};
    m.of = ARENA_ARRAY(p->scratch, double, p->value_count);
    m.depth = ARENA_ARRAY(p->scratch, uint8_t, p->value_count);
    m.deviation = ARENA_ARRAY(p->scratch, bool, p->value_count);
    m.inverse = ARENA_ARRAY(p->scratch, bool, p->value_count);
    m.shares = ARENA_ARRAY(p->scratch, bool, p->value_count);
    m.rules = ARENA_ARRAY(p->scratch, uint8_t, ops_count());
    for (uint32_t i = 0; i < p->value_count; i++) m.of[i] = NAN;
    for (size_t i = 0; i < ops_count(); i++) m.rules[i] = MAGNITUDE_UNASKED;
    for (size_t g = 0; g < p->graphs.count && !m.failed; g++)
        for (const Node *node = p->graphs.items[g]->first; node; node = node_after(node))
            visit(&m, node);
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = p->values[id];
        double peak = m.of[id] * MAGNITUDE_PEAK;
        if (value && !value_is_constant(value) && peak > dtype_largest(p->request.target))
            pin(p, value, peak);
    }
    return !m.failed;
}
