// SPDX-License-Identifier: Apache-2.0
/* make-training: gives a model a training_info: what a step computes, and what it updates.
 *
 *   make-training{loss=cross-entropy,optimizer=adam,rate="0.001"}
 *
 * The algorithm has an input `labels` (cross-entropy: int64, of the scores' shape without the classes'
 * axis; mse: of the output's type and shape), the loss of the model's output, a Gradient of it with
 * respect to the parameters, and the optimizer. Parameters are initializers of floats that products,
 * normalizations, recurrent layers, tables and sums read, or what moves data to these, in branches and
 * bodies, too, from which they move to the model's graph: training_parameters.h. They and the optimizer's state, which begins with 0,
 * have update_bindings; so has the number of steps.
 *
 * cross-entropy is that of scores before a Softmax: where the output is one's, of what it reads, along
 * its axis; else of the output, whose classes are along axis 1.
 *
 * Where the model has batch normalizations or dropouts the algorithm has nodes of its own from the
 * inputs to the output, in training mode: statistics are the batch's, and running ones are updated.
 * The model's graph stays as it was, for inference. In branches and bodies they are as they are in
 * inference.
 */
#include <stddef.h>
#include <string.h>

#include "clone_nodes.h"
#include "gradient.h"
#include "passes.h"
#include "real_text.h"
#include "training_nodes.h"
#include "training_parameters.h"

enum { LOSS_CROSS_ENTROPY, LOSS_MSE };
static const char *const loss_names[] = {"cross-entropy", "mse", NULL};
static const char *const optimizer_names[] = {"sgd", "momentum", "adam", "adagrad", NULL};

typedef struct MakeTrainingOptions {
    int loss, optimizer;
    const char *output, *rate, *momentum, *decay;
    PassStrings freeze;
} MakeTrainingOptions;

static const PassOption options_table[] = {
    {"loss", OPTION_CHOICE, offsetof(MakeTrainingOptions, loss), loss_names, "cross-entropy",
     "loss of the output: cross-entropy of class indices, or the mean squared error"},
    {"optimizer", OPTION_CHOICE, offsetof(MakeTrainingOptions, optimizer), optimizer_names, "sgd",
     "optimizer"},
    {"output", OPTION_STRING, offsetof(MakeTrainingOptions, output), NULL, NULL,
     "the output to compute the loss from, if there are several"},
    {"rate", OPTION_STRING, offsetof(MakeTrainingOptions, rate), NULL, "0.01",
     "learning rate, stored as the initializer 'learning_rate'"},
    {"momentum", OPTION_STRING, offsetof(MakeTrainingOptions, momentum), NULL, "0.9",
     "momentum of the optimizer"},
    {"decay", OPTION_STRING, offsetof(MakeTrainingOptions, decay), NULL, "0",
     "weight decay: the share of a parameter that is added to its gradient"},
    {"freeze", OPTION_STRINGS, offsetof(MakeTrainingOptions, freeze), NULL, NULL,
     "names of parameters that are not trained"},
    {0},
};

typedef struct Making {
    TrainingNodes nodes;
    PassCtx *ctx;
    const MakeTrainingOptions *options;
    double momentum, decay, rate;
    Value *scores; /* what the loss is of, or logits */
    int64_t axis;  /* of classes */
    TrainingParameters parameters;
    TrainingInfo *info;
} Making;

/* ---- what it is of --------------------------------------------------------------------------- */

static bool read_number(const char *text, const char *what, double *number, Err *err) {
    if (real_read(text, strlen(text), number) && *number >= 0 && *number < 1e30) return true;
    return err_set(err, ERR_USAGE, "make-training: %s=%s is not a number of at least 0", what,
                   text);
}

static Value *find_output(const Making *m, Err *err) {
    const Graph *graph = m->ctx->model->graph;
    const char *name = m->options->output;
    if (!name && graph->outputs.count > 1) {
        err_set(err, ERR_USAGE,
                "make-training: the model has %zu outputs; choose one with output=NAME, or --of",
                graph->outputs.count);
        err_hint(err, "the first one is '%s'", sym_text(graph->outputs.items[0]->use.value->name));
        return NULL;
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        Value *value = graph->outputs.items[i]->use.value;
        if (!name || sym_equals(value->name, name)) return value;
    }
    err_set(err, name ? ERR_USAGE : ERR_MODEL,
            name ? "the model has no output '%s'" : "the model has no output", name);
    return NULL;
}

/* Types that a pass was not given, or wrongly, may differ along a Softmax. */
static bool is_alike(const Node *softmax, const Type *type) {
    const Value *input = softmax->input_count ? softmax->inputs[0].value : NULL;
    const Type *before = input ? value_shaped_type(input) : NULL;
    return before && before->rank == type->rank && type_dtype(before) == type_dtype(type);
}

/* Scores before a Softmax, which the loss has inside. */
static bool find_scores(Making *m, Value *output, Err *err) {
    const Type *type = value_shaped_type(output);
    m->scores = output;
    m->axis = 1;
    if (!type || (type_dtype(type) != DTYPE_FLOAT && type_dtype(type) != DTYPE_DOUBLE))
        return err_set(err, ERR_MODEL,
                       "output '%s' is not a tensor of float or double with a known rank",
                       sym_text(output->name));
    if (m->options->loss == LOSS_MSE) return true;
    Node *node = output->producer;
    if (node && sym_equals(node->op_type, "Softmax") && domain_is_default(node->domain) &&
        m->nodes.opset >= 13 && is_alike(node, type)) {
        m->scores = node->inputs[0].value;
        m->axis = node_attr_int(node, "axis", -1);
        if (m->axis < 0) m->axis += type->rank;
    }
    if (m->axis < 1 || m->axis >= (int64_t)type->rank)
        return err_set(err, ERR_MODEL,
                       "output '%s' has only one axis, and no classes: use the loss mse",
                       sym_text(output->name));
    return true;
}

/* ---- the forward part ------------------------------------------------------------------------ */

/* True where a node is to be another one in training. */
static bool is_other(const Node *node) {
    return domain_is_default(node->domain) && (sym_equals(node->op_type, "BatchNormalization") ||
                                               sym_equals(node->op_type, "Dropout"));
}

/* A normalization's running statistics, which operands 3 and 4 are, become its further results. */
static void train_norm(Making *m, Node *node) {
    static const char *const stems[] = {"mean", "var"};
    node_set_attr_int(node, "training_mode", 1);
    node_resize_outputs(node, 3);
    for (uint32_t i = 0; i < 2; i++) {
        Value *old = node->inputs[3 + i].value;
        Value *made = training_value(
            &m->nodes,
            arena_printf(m->ctx->scratch, "%s_%s", sym_text(node->outputs[0]->name), stems[i]),
            old->type);
        node_set_output(node, 1 + i, made);
        if (old->init) training_bind(m->info, old, made);
    }
}

static void train_dropout(Making *m, Node *node) {
    static const uint8_t yes = 1;
    if (node->input_count < 3) node_resize_inputs(node, 3);
    node_set_input(node, 2, training_constant(&m->nodes, "training", DTYPE_BOOL, &yes));
}

static bool check_other(const Making *m, const Node *node, Err *err) {
    const bool norm = sym_equals(node->op_type, "BatchNormalization");
    const uint32_t operands = norm ? 5 : 1;
    bool whole = node->input_count >= operands && node->output_count && node->outputs[0];
    for (uint32_t i = 0; whole && i < operands; i++) whole = node->inputs[i].value;
    if (!whole) return node_error(node, err, ERR_MODEL, "it lacks an operand or its output");
    if (m->nodes.opset >= (norm ? 14 : 12)) return true;
    return node_error(node, err, ERR_MODEL,
                      "before opset %d it has no training mode (upgrade-opset)", norm ? 14 : 12);
}

/* The algorithm's own nodes up to the scores, where any is another one in training. */
static bool copy_forward(Making *m, Err *err) {
    const GradientAsk ask = {.at = m->scores->producer, .ys = &m->scores, .y_count = 1};
    if (!ask.at) return true;
    const GradientNodes nodes = gradient_nodes(&ask, m->ctx->scratch);
    CloneNodes clone = clone_begin(m->ctx->model, m->ctx->scratch);
    bool any = false;
    for (size_t i = 0; i < nodes.count; i++) {
        if (!is_other(nodes.items[i])) continue;
        if (!check_other(m, nodes.items[i], err)) return false;
        any = true;
    }
    for (size_t i = 0; any && i < nodes.count; i++) {
        Node *made = clone_node(&clone, nodes.items[i], m->nodes.graph, NULL);
        if (!is_other(made)) continue;
        if (sym_equals(made->op_type, "Dropout"))
            train_dropout(m, made);
        else
            train_norm(m, made);
    }
    m->scores = clone_value(&clone, m->scores);
    return true;
}

/* ---- the loss -------------------------------------------------------------------------------- */

/* The scores with their classes along axis 1, as the loss has them. */
static Value *classes_second(Making *m) {
    const Type *type = value_shaped_type(m->scores);
    if (m->axis == 1) return m->scores;
    int64_t *order = ARENA_ARRAY(m->ctx->scratch, int64_t, type->rank);
    Dim *dims = ARENA_ARRAY(&m->ctx->model->arena, Dim, type->rank);
    for (uint32_t i = 0, from = 0; i < type->rank; i++) {
        if (from == m->axis) from++;
        order[i] = i == 1 ? m->axis : from++;
        dims[i] = type->dims[order[i]];
    }
    Node *turn = training_node(&m->nodes, "Transpose", NULL, 1);
    node_set_input(turn, 0, m->scores);
    node_set_attr_ints(turn, "perm", order, type->rank);
    return training_output(
        &m->nodes, turn, "scores",
        type_new_shaped(&m->ctx->model->arena, type_dtype(type), dims, type->rank));
}

static Value *cross_entropy(Making *m, Value **labels) {
    Arena *arena = &m->ctx->model->arena;
    Value *scores = classes_second(m);
    const Type *type = value_shaped_type(scores);
    Dim *dims = ARENA_ARRAY(arena, Dim, type->rank);
    for (uint32_t i = 0, k = 0; i < type->rank; i++)
        if (i != 1) dims[k++] = type->dims[i];
    *labels = training_input(&m->nodes, "labels",
                             type_new_shaped(arena, DTYPE_INT64, dims, type->rank - 1));
    Node *loss = training_node(&m->nodes, "SoftmaxCrossEntropyLoss", NULL, 2);
    node_set_input(loss, 0, scores);
    node_set_input(loss, 1, *labels);
    return training_output(&m->nodes, loss, "loss",
                           type_new_shaped(arena, type_dtype(type), NULL, 0));
}

static Value *squares(Making *m, Value **labels) {
    const Type *type = value_shaped_type(m->scores);
    *labels = training_input(&m->nodes, "labels", type);
    Value *off = training_op(&m->nodes, "Sub", (Value *[]){m->scores, *labels}, 2, type);
    Value *square = training_op(&m->nodes, "Mul", (Value *[]){off, off}, 2, type);
    Node *mean = training_node(&m->nodes, "ReduceMean", NULL, 1);
    node_set_input(mean, 0, square);
    node_set_attr_int(mean, "keepdims", 0);
    return training_output(&m->nodes, mean, "loss",
                           type_new_shaped(&m->ctx->model->arena, type_dtype(type), NULL, 0));
}

/* Outputs of a Gradient with respect to all parameters, the model's inputs and labels given. */
static Value **gradients_of(Making *m, Value *loss, Value *labels) {
    const Graph *main = m->ctx->model->graph;
    Arena *scratch = m->ctx->scratch;
    const uint32_t count = (uint32_t)m->parameters.count;
    const char **xs = ARENA_ARRAY(scratch, const char *, count);
    const char **zs = ARENA_ARRAY(scratch, const char *, main->inputs.count + 1);
    Value **gradients = ARENA_ARRAY(scratch, Value *, count);
    uint32_t given = 0;
    Node *node = training_node(&m->nodes, "Gradient", m->nodes.training_domain,
                               count + (uint32_t)main->inputs.count + 1);
    for (uint32_t i = 0; i < count; i++) {
        node_set_input(node, i, m->parameters.items[i]);
        xs[i] = sym_text(m->parameters.items[i]->name);
    }
    for (size_t i = 0; i < main->inputs.count; i++) {
        if (main->inputs.items[i]->init) continue;
        node_set_input(node, count + given, main->inputs.items[i]);
        zs[given++] = sym_text(main->inputs.items[i]->name);
    }
    node_set_input(node, count + given, labels);
    zs[given++] = sym_text(labels->name);
    node_resize_inputs(node, count + given);
    node_set_attr_strings(node, "xs", xs, count);
    node_set_attr_strings(node, "zs", zs, given);
    node_set_attr_string(node, "y", sym_text(loss->name));
    for (uint32_t i = 0; i < count; i++)
        gradients[i] = training_output(&m->nodes, node, arena_printf(scratch, "%s_gradient", xs[i]),
                                       m->parameters.items[i]->type);
    return gradients;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void update(Making *m, Value *const *gradients) {
    const TrainingUpdate update = {.optimizer = (TrainingOptimizer)m->options->optimizer,
                                   .rate = (float)m->rate,
                                   .momentum = (float)m->momentum,
                                   .decay = (float)m->decay,
                                   .parameters = m->parameters.items,
                                   .gradients = gradients,
                                   .count = (uint32_t)m->parameters.count};
    TrainingPairs pairs = training_update(&m->nodes, &update);
    for (size_t i = 0; i < pairs.count; i++)
        training_bind(m->info, pairs.items[i].key, pairs.items[i].value);
}

static bool prepare(Making *m, Err *err) {
    const MakeTrainingOptions *o = m->options;
    if (!read_number(o->rate, "rate", &m->rate, err) ||
        !read_number(o->momentum, "momentum", &m->momentum, err) ||
        !read_number(o->decay, "decay", &m->decay, err))
        return false;
    if (m->ctx->model->training.count)
        return err_set(err, ERR_MODEL, "the model has a training_info");
    if (o->loss == LOSS_CROSS_ENTROPY && m->nodes.opset < 12)
        return err_set(err, ERR_MODEL,
                       "before opset 12, there is no loss operator (upgrade-opset)");
    Value *output = find_output(m, err);
    return output && find_scores(m, output, err);
}

static bool run(PassCtx *ctx, const void *given, Err *err) {
    Making m = {.nodes = training_nodes(ctx), .ctx = ctx, .options = given};
    if (!prepare(&m, err)) return false;
    m.info = ARENA_NEW(&ctx->model->arena, TrainingInfo);
    m.info->algorithm = m.nodes.graph;
    const TrainingAsk ask = {.of = m.scores, .freeze = &m.options->freeze};
    if (!training_parameters(ctx, &ask, &m.parameters, err) || !copy_forward(&m, err)) return false;
    Value *labels;
    Value *loss = m.options->loss == LOSS_MSE ? squares(&m, &labels) : cross_entropy(&m, &labels);
    ValueDecl *decl = ARENA_NEW(&ctx->model->arena, ValueDecl);
    decl->type = loss->type;
    graph_add_output(m.nodes.graph, loss, decl);
    loss->referenced = true; /* the Gradient names it */
    update(&m, gradients_of(&m, loss, labels));
    VEC_PUSH(&ctx->model->arena, &ctx->model->training, m.info);
    model_import_opset(ctx->model, &ctx->model->opsets, m.nodes.training_domain, 1);
    model_touch(ctx->model);
    ctx->counts->rewrites++;
    return true;
}

const PassInfo make_training_pass = {
    .name = "make-training",
    .summary = "add a training_info to a model: a loss, its gradient, and an optimizer",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(MakeTrainingOptions),
    .run = run,
};
