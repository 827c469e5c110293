// SPDX-License-Identifier: Apache-2.0
/* scale-loss: gradients that are computed in float16 are scaled up, so that small ones are not lost.
 *
 *   g = Gradient {y = "loss"} (w, …);  w1 = Sub (w, …g…);  w := w1
 *     ->  loss_scaled = Mul (loss, loss_scale)
 *         s = Gradient {y = "loss_scaled"} (w, …);  g = Mul (s, 1 / loss_scale)
 *         w1 = …;  w := Where (all of the s are finite, w1, w)
 *
 * What is divided by the scale is float: masters are, and so are their gradients. A step whose gradients
 * are not finite updates nothing: every update is chosen by Where. With scale=dynamic the scale is
 * state of the training, as loss_scale: such a step halves it, down to 1, and as many steps in a row as
 * `interval` without one double it, up to 2^24. After MXNet's guide to float16 and Micikevicius et al.
 * (2018). bfloat16 has float's range, and needs none of it.
 */
#include <stddef.h>
#include <string.h>

#include "passes.h"
#include "real_text.h"
#include "training_nodes.h"
#include "value_names.h"

typedef struct ScaleOptions {
    const char *scale, *first;
    int64_t interval;
} ScaleOptions;

static const PassOption options_table[] = {
    {"scale", OPTION_STRING, offsetof(ScaleOptions, scale), NULL, "dynamic",
     "dynamic: adjusted during training; or a number"},
    {"first", OPTION_STRING, offsetof(ScaleOptions, first), NULL, "65536",
     "initial value of a dynamic scale"},
    {"interval", OPTION_INT, offsetof(ScaleOptions, interval), NULL, "2000",
     "consecutive steps with finite gradients after which a dynamic scale doubles"},
    {0},
};

enum { MOST_SCALE = 1 << 24 };

typedef struct Scaling {
    TrainingNodes nodes;
    PassCtx *ctx;
    TrainingInfo *info;
    Node *gradient;
    const Type *number, *count, *truth; /* of one float, int64, bool */
    float scale;
    bool dynamic;
    int64_t interval;
    Value *scaled_by, *finite;
} Scaling;

/* ---- what is scaled -------------------------------------------------------------------------- */

static bool find_gradient(Scaling *s, Err *err) {
    const Model *model = s->ctx->model;
    if (model->training.count != 1 || !model->training.items[0]->algorithm)
        return err_set(err, ERR_MODEL,
                       model->training.count
                           ? "it does not have exactly one training_info with an algorithm"
                           : "it has no training_info");
    s->info = model->training.items[0];
    for (Node *node = s->info->algorithm->first; node; node = node_after(node)) {
        if (!node_names_values(node)) continue;
        if (s->gradient) return node_error(node, err, ERR_MODEL, "it is the second Gradient");
        s->gradient = node;
    }
    return s->gradient || err_set(err, ERR_MODEL, "its algorithm has no Gradient");
}

static bool read_scale(Scaling *s, const ScaleOptions *options, Err *err) {
    s->dynamic = strcmp(options->scale, "dynamic") == 0;
    s->interval = options->interval;
    const char *text = s->dynamic ? options->first : options->scale;
    if (!real_read_float(text, strlen(text), &s->scale) || !(s->scale >= 1) ||
        !(s->scale <= (float)MOST_SCALE))
        return err_set(err, ERR_USAGE, "scale-loss: '%s' is not a scale from 1 to 2^24", text);
    return s->interval >= 1 || err_set(err, ERR_USAGE, "scale-loss: interval is less than 1");
}

static bool check_types(const Scaling *s, const Value *loss, Err *err) {
    if (type_dtype(loss->type) != DTYPE_FLOAT)
        return node_error(s->gradient, err, ERR_MODEL, "its y is not floating-point");
    bool any = false;
    for (uint32_t i = 0; i < s->gradient->output_count; i++) {
        const Value *output = s->gradient->outputs[i];
        any = any || output;
        if (output && type_dtype(output->type) != DTYPE_FLOAT)
            return node_error(s->gradient, err, ERR_MODEL, "gradient '%s' is not floating-point",
                              sym_text(output->name));
    }
    return any || node_error(s->gradient, err, ERR_MODEL, "it has no output");
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static Value *number(const Scaling *s, const char *name, float value) {
    return training_constant(&s->nodes, name, DTYPE_FLOAT, &value);
}

static Value *op(const Scaling *s, const char *name, Value *a, Value *b, const Type *type) {
    return training_op(&s->nodes, name, (Value *[]){a, b}, b ? 2 : 1, type);
}

static Value *choose(const Scaling *s, Value *yes, Value *no, const Type *type) {
    return training_op(&s->nodes, "Where", (Value *[]){s->finite, yes, no}, 3, type);
}

/* A value that the Gradient names. */
static void scale_loss(Scaling *s, Value *loss) {
    Node *node = training_node(&s->nodes, "Mul", NULL, 2);
    node_set_input(node, 0, loss);
    node_set_input(node, 1, s->scaled_by);
    Value *scaled = training_output(&s->nodes, node, "loss_scaled", loss->type);
    node_move_before(node, s->gradient);
    scaled->referenced = true;
    node_set_attr_string(s->gradient, "y", sym_text(scaled->name));
}

/* What read the gradients reads them divided by the scale. */
static void unscale(Scaling *s) {
    Node *behind = s->gradient->next;
    Value *by = op(s, "Reciprocal", s->scaled_by, NULL, s->number);
    node_move_before(by->producer, behind);
    for (uint32_t i = 0; i < s->gradient->output_count; i++) {
        Value *gradient = s->gradient->outputs[i];
        if (!gradient) continue;
        Node *node = training_node(&s->nodes, "Mul", NULL, 2);
        Value *own = training_output(&s->nodes, node, "training_unscaled", gradient->type);
        value_replace_uses(gradient, own);
        node_set_input(node, 0, gradient);
        node_set_input(node, 1, by);
        node_move_before(node, behind);
    }
}

/* Sums of zeros are 0 where nothing was infinite or NaN, whatever the sizes. */
static void ask_finite(Scaling *s) {
    Value *zero = number(s, "training_zero", 0), *all = NULL;
    for (uint32_t i = 0; i < s->gradient->output_count; i++) {
        Value *gradient = s->gradient->outputs[i];
        if (!gradient) continue;
        Value *none = op(s, "Mul", gradient, zero, gradient->type);
        Node *node = training_node(&s->nodes, "ReduceSum", NULL, 1);
        node_set_input(node, 0, none);
        node_set_attr_int(node, "keepdims", 0);
        Value *sum = training_output(&s->nodes, node, "training_sum", s->number);
        all = all ? op(s, "Add", all, sum, s->number) : sum;
    }
    s->finite = op(s, "Equal", all, zero, s->truth);
}

static void skip_updates(Scaling *s) {
    for (size_t i = 0; i < s->info->update_bindings.count; i++) {
        TrainingBinding *binding = &s->info->update_bindings.items[i];
        Value *key = binding->key.value, *value = binding->value.value;
        if (!key || !value) continue;
        Value *chosen = choose(s, value, key, key->type);
        chosen->referenced = true;
        binding->value = (NameRef){.name = chosen->name, .value = chosen};
    }
}

/* The scale of the next step, and how many there were in a row. */
static void follow_scale(Scaling *s) {
    static const int64_t none = 0, one = 1;
    const int64_t interval = s->interval;
    Value *clean = training_constant(&s->nodes, "clean_steps", DTYPE_INT64, &none);
    Value *zero = training_constant(&s->nodes, "training_none", DTYPE_INT64, &none);
    Value *step = training_constant(&s->nodes, "training_one", DTYPE_INT64, &one);
    Value *enough = training_constant(&s->nodes, "scale_interval", DTYPE_INT64, &interval);
    Value *more = op(s, "Add", clean, step, s->count);
    Value *grows = op(s, "Equal", more, enough, s->truth);
    Value *twice = op(s, "Min", op(s, "Mul", s->scaled_by, number(s, "training_two", 2), s->number),
                      number(s, "scale_most", (float)MOST_SCALE), s->number);
    Value *half =
        op(s, "Max", op(s, "Mul", s->scaled_by, number(s, "training_half", 0.5F), s->number),
           number(s, "scale_least", 1), s->number);
    Value *up =
        training_op(&s->nodes, "Where", (Value *[]){grows, twice, s->scaled_by}, 3, s->number);
    Value *counted = training_op(&s->nodes, "Where", (Value *[]){grows, zero, more}, 3, s->count);
    training_bind(s->info, s->scaled_by, choose(s, up, half, s->number));
    training_bind(s->info, clean, choose(s, counted, zero, s->count));
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    Arena *arena = &ctx->model->arena;
    Scaling s = {.ctx = ctx};
    if (!read_scale(&s, options, err) || !find_gradient(&s, err)) return false;
    s.nodes = training_nodes_in(ctx, s.info->algorithm);
    s.number = type_new_shaped(arena, DTYPE_FLOAT, NULL, 0);
    s.count = type_new_shaped(arena, DTYPE_INT64, NULL, 0);
    s.truth = type_new_shaped(arena, DTYPE_BOOL, NULL, 0);
    Bytes name = {0};
    attr_string(node_attr(s.gradient, "y"), &name);
    Value *loss = value_named(s.info->algorithm, name);
    if (!loss)
        return node_error(s.gradient, err, ERR_MODEL, "its y names '%.*s', which does not exist",
                          (int)name.size, name.size ? (const char *)name.data : "");
    if (!check_types(&s, loss, err)) return false;
    s.scaled_by = number(&s, "loss_scale", s.scale);
    scale_loss(&s, loss);
    unscale(&s);
    ask_finite(&s);
    skip_updates(&s);
    if (s.dynamic) follow_scale(&s);
    model_touch(ctx->model);
    ctx->counts->rewrites++;
    return true;
}

const PassInfo scale_loss_pass = {
    .name = "scale-loss",
    .summary =
        "loss scaling: scale the training loss, and skip steps whose gradients are not finite",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(ScaleOptions),
    .run = run,
};
