// SPDX-License-Identifier: Apache-2.0
/* decompose-optimizer: Adam, Adagrad and Momentum of ai.onnx.preview.training become the operators of
 * ai.onnx that their definitions are made of, which any runtime has.
 *
 *   w1, v1 = Momentum {mode = standard} (rate, steps, w, g, v)
 *     ->  v1 = Add (Mul (alpha, v), Mul (Where (steps > 0, beta, 1), g));  w1 = Sub (w, Mul (rate, v1))
 *
 * The definitions are ONNX's, of version 1 of the operators. demi's own kernels compute a step in double,
 * tensor by tensor: this is for what is to run elsewhere (behind expand-gradient and join-training).
 */
#include <stddef.h>

#include "default_import.h"
#include "make_node.h"
#include "op_types.h"
#include "passes.h"
#include "training_nodes.h"

typedef struct Decompose {
    Make make;
    Node *node;
    Dtype dtype;         /* of the rate, and of all numbers */
    Value *rate, *steps; /* of rank 0 */
    Value *norm;         /* NULL where nothing of x is added to g */
    Value *epsilon, *alpha, *beta, *rest_alpha, *rest_beta, *post; /* as the operator has them */
    bool nesterov;
} Decompose;

/* One tensor's, and what becomes of it. */
typedef struct Slot {
    Value *x, *g, *v, *h;
    Value *new_x, *new_v, *new_h;
} Slot;

typedef void DecomposeSlot(Decompose *s, Slot *slot);

/* ---- making ---------------------------------------------------------------------------------- */

static bool is_scalar(const Value *value) {
    const Type *type = value_shaped_type(value);
    return type && !type->rank;
}

/* An operand of one number, whatever its rank. */
static Value *scalar(const Decompose *s, uint32_t i) {
    Value *value = s->node->inputs[i].value;
    if (is_scalar(value)) return value;
    Value *made = make_op(&s->make, "Squeeze", &value, 1, type_dtype(value->type));
    value_set_type(made,
                   type_new_shaped(&s->make.ctx->model->arena, type_dtype(value->type), NULL, 0));
    return made;
}

static Value *number(const Decompose *s, double value) {
    uint64_t bits = 0, size = 0;
    unsigned char bytes[8];
    dtype_from_double(s->dtype, value, &bits);
    dtype_bytes(s->dtype, 1, &size);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(bits >> (8 * i));
    return make_constant(
        &s->make, tensor_new_raw(&s->make.ctx->model->arena, s->dtype, NULL, 0, bytes, size));
}

/* Of two values one is a single number, or both are of a shape. */
static Value *op(const Decompose *s, const char *name, Value *a, Value *b) {
    Value *made = make_op(&s->make, name, (Value *[]){a, b}, b ? 2 : 1, s->dtype);
    value_set_type(made, b && is_scalar(a) ? b->type : a->type);
    return made;
}

/* What the node says, or the definition. */
static double attr(const Decompose *s, const char *name) {
    float number;
    if (attr_float(node_attr(s->node, name), &number)) return (double)number;
    const OpSchema *schema = node_schema(s->node);
    const OpAttr *formal = schema ? op_schema_attr(schema, name) : NULL;
    return formal && formal->has_default ? (double)(float)formal->value.f : 0;
}

static Value *times(const Decompose *s, Value *a, Value *b) {
    return op(s, "Mul", a, b);
}

/* The gradient, and a part of x. */
static Value *regularized(const Decompose *s, const Slot *slot) {
    return s->norm ? op(s, "Add", times(s, s->norm, slot->x), slot->g) : slot->g;
}

/* `yes` where there were steps before. */
static Value *choose(const Decompose *s, Value *yes, Value *no) {
    static const int64_t none = 0;
    Arena *arena = &s->make.ctx->model->arena;
    Value *zero =
        make_constant(&s->make, tensor_new_raw(arena, DTYPE_INT64, NULL, 0, &none, sizeof none));
    Value *begun = make_op(&s->make, "Greater", (Value *[]){s->steps, zero}, 2, DTYPE_BOOL);
    value_set_type(begun, type_new_shaped(arena, DTYPE_BOOL, NULL, 0));
    Value *made = make_op(&s->make, "Where", (Value *[]){begun, yes, no}, 3, s->dtype);
    value_set_type(made, yes->type);
    return made;
}

/* ---- the definitions ------------------------------------------------------------------------- */

static void adagrad(Decompose *s, Slot *slot) {
    Value *g = regularized(s, slot);
    slot->new_v = op(s, "Add", slot->v, times(s, g, g));
    Value *size = op(s, "Add", op(s, "Sqrt", slot->new_v, NULL), s->epsilon);
    slot->new_x = op(s, "Sub", slot->x, op(s, "Div", times(s, s->rate, g), size));
}

static void adam(Decompose *s, Slot *slot) {
    Value *g = regularized(s, slot);
    slot->new_v = op(s, "Add", times(s, s->alpha, slot->v), times(s, s->rest_alpha, g));
    slot->new_h = op(s, "Add", times(s, s->beta, slot->h), times(s, s->rest_beta, times(s, g, g)));
    Value *size = op(s, "Add", op(s, "Sqrt", slot->new_h, NULL), s->epsilon);
    slot->new_x = op(s, "Sub", slot->x, op(s, "Div", times(s, s->rate, slot->new_v), size));
    if (s->post) slot->new_x = times(s, s->post, slot->new_x);
}

static void momentum(Decompose *s, Slot *slot) {
    Value *g = regularized(s, slot);
    slot->new_v = op(s, "Add", times(s, s->alpha, slot->v), times(s, s->beta, g));
    Value *along = s->nesterov ? op(s, "Add", g, times(s, s->alpha, slot->new_v)) : slot->new_v;
    slot->new_x = op(s, "Sub", slot->x, times(s, s->rate, along));
}

/* ---- what all tensors share ------------------------------------------------------------------ */

static Value *steps_real(const Decompose *s) {
    Value *real = make_op(&s->make, "Cast", (Value *[]){s->steps}, 1, s->dtype);
    node_set_attr_int(real->producer, "to", s->dtype);
    value_set_type(real, s->rate->type);
    return real;
}

static void begin_adagrad(Decompose *s) {
    const double decay = attr(s, "decay_factor");
    s->epsilon = number(s, attr(s, "epsilon"));
    if (decay != 0)
        s->rate = op(s, "Div", s->rate,
                     op(s, "Add", number(s, 1), times(s, steps_real(s), number(s, decay))));
}

/* The rate, corrected for the moments' beginning with 0: R Sqrt(1 - beta^T) / (1 - alpha^T). */
static void begin_adam(Decompose *s) {
    const double alpha = attr(s, "alpha"), beta = attr(s, "beta");
    const double post = attr(s, "norm_coefficient_post");
    Value *steps = steps_real(s);
    s->alpha = number(s, alpha), s->rest_alpha = number(s, 1 - alpha);
    s->beta = number(s, beta), s->rest_beta = number(s, 1 - beta);
    s->epsilon = number(s, attr(s, "epsilon"));
    s->post = post != 0 ? number(s, 1 - post) : NULL;
    Value *one = number(s, 1);
    Value *of_beta = op(s, "Sub", one, op(s, "Pow", s->beta, steps));
    Value *of_alpha = op(s, "Sub", one, op(s, "Pow", s->alpha, steps));
    Value *first = op(s, "Sqrt", of_beta, NULL);
    s->rate = choose(s, op(s, "Div", times(s, s->rate, first), of_alpha), s->rate);
}

static bool begin_momentum(Decompose *s, Err *err) {
    const Attr *mode = node_attr(s->node, "mode");
    s->nesterov = attr_is_text(mode, "nesterov");
    s->alpha = number(s, attr(s, "alpha"));
    s->beta = choose(s, number(s, attr(s, "beta")), number(s, 1));
    return s->nesterov || attr_is_text(mode, "standard") ||
           node_error(s->node, err, ERR_MODEL, "its mode is neither nesterov nor standard");
}

/* ---- a node ---------------------------------------------------------------------------------- */

typedef struct Kind {
    const char *op;
    uint32_t groups;
    DecomposeSlot *slot;
} Kind;

static const Kind kinds[] = {
#define OPTIMIZER(op, groups, function) {op, groups, function},
#include "optimizers.def"
};

static const Kind *kind_of(const Node *node) {
    if (!node->domain || !sym_equals(node->domain, "ai.onnx.preview.training")) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (sym_equals(node->op_type, kinds[i].op)) return &kinds[i];
    return NULL;
}

/* All are of the rate's type; in the definition they may be of others, which nobody writes. */
static bool check_node(const Node *node, const Kind *kind, Err *err) {
    const uint32_t given = node->input_count;
    if (given < 2 + kind->groups || (given - 2) % kind->groups ||
        node->output_count > (given - 2) / kind->groups * (kind->groups - 1))
        return node_error(node, err, ERR_MODEL, "its tensors are not in groups of %u",
                          kind->groups);
    for (uint32_t i = 0; i < given; i++) {
        const Value *value = node->inputs[i].value, *rate = node->inputs[0].value;
        if (!value) return node_error(node, err, ERR_MODEL, "input %u is omitted", i);
        const Dtype dtype = type_dtype(value->type);
        if (i != 1 && (dtype != type_dtype(rate->type) || !dtype_is_float(dtype)))
            return node_error(node, err, ERR_MODEL,
                              "the type of '%s' differs from that of the rate",
                              sym_text(value->name));
    }
    return true;
}

static bool begin(Decompose *s, const Kind *kind, Err *err) {
    const double norm = attr(s, "norm_coefficient");
    s->rate = scalar(s, 0);
    s->steps = scalar(s, 1);
    s->norm = norm != 0 ? number(s, norm) : NULL;
    if (kind->slot == momentum) return begin_momentum(s, err);
    if (kind->slot == adam) begin_adam(s);
    if (kind->slot == adagrad) begin_adagrad(s);
    return true;
}

/* Output i is what `made` is. */
static void put(const Decompose *s, uint32_t i, Value *made) {
    Value *result = i < s->node->output_count ? s->node->outputs[i] : NULL;
    if (!result) return;
    Node *from = made->producer;
    node_set_output(s->node, i, NULL);
    node_set_output(from, 0, result);
    value_replace_uses(made, result);
}

/* A model of optimizers alone need not import what they are decomposed into. Where is the newest of it. */
static bool check_opset(PassCtx *ctx, const Node *node, Err *err) {
    default_import_for_cast(ctx, node->graph);
    return opset_version(node->graph->opsets, NULL) >= 9 ||
           node_error(node, err, ERR_MODEL, "before opset 9 there is no Where (upgrade-opset)");
}

static bool decompose(PassCtx *ctx, Node *node, const Kind *kind, Err *err) {
    if (!check_node(node, kind, err) || !check_opset(ctx, node, err)) return false;
    const uint32_t k = (node->input_count - 2) / kind->groups;
    Decompose s = {.make = {ctx, node, kind->op}, .node = node};
    s.dtype = type_dtype(node->inputs[0].value->type);
    if (!begin(&s, kind, err)) return false;
    for (uint32_t i = 0; i < k; i++) {
        const Use *from = &node->inputs[2 + i];
        Slot slot = {.x = from[0].value, .g = from[k].value, .v = from[2 * k].value};
        if (kind->groups == 4) slot.h = from[3 * k].value;
        s.make.stem = sym_text(slot.x->name);
        kind->slot(&s, &slot);
        put(&s, i, slot.new_x);
        put(&s, k + i, slot.new_v);
        if (slot.new_h) put(&s, 2 * k + i, slot.new_h);
    }
    node_remove(node);
    ctx->counts->rewrites++;
    return true;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    const GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (Node *node = graphs.items[i]->first, *next; node; node = next) {
            next = node_after(node);
            const Kind *kind = kind_of(node);
            if (kind && !decompose(ctx, node, kind, err)) return false;
        }
    training_forget_domain(ctx->model, ctx->scratch);
    return true;
}

const PassInfo decompose_optimizer_pass = {
    .name = "decompose-optimizer",
    .summary = "decompose optimizers into standard operators",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .idempotent = true,
    .run = run,
};
