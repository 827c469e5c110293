// SPDX-License-Identifier: Apache-2.0
/* Finding parameters; see training_parameters.h. A single number that is multiplied with, or added
 * to what is no layer of one output, is part of a formula, no parameter. */
#include "training_parameters.h"

#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "simplify_graph.h"
#include "training_report.h"
#include "training_ties.h"

/* One number that is added to a product of one column: a bias, as a layer with one output has. */
static bool is_bias_of_one(const Node *node, uint32_t operand) {
    const Value *other = node->input_count == 2 ? node->inputs[1 - operand].value : NULL;
    const Type *type = other ? value_shaped_type(other) : NULL;
    return (sym_equals(node->op_type, "Add") || sym_equals(node->op_type, "Sub")) && type &&
           type->rank && other->producer && domain_is_default(other->producer->domain) &&
           sym_equals(other->producer->op_type, "MatMul") &&
           type->dims[type->rank - 1].kind == DIM_KNOWN && type->dims[type->rank - 1].size == 1;
}

static bool is_one(const Value *value) {
    const Type *type = value_shaped_type(value);
    for (uint32_t i = 0; type && i < type->rank; i++)
        if (type->dims[i].kind != DIM_KNOWN || type->dims[i].size != 1) return false;
    return type != NULL;
}

static bool is_elementwise(const Node *node) {
    const OpRecord *record = node_record(node);
    return record && record->layout == LAYOUT_EACH;
}

/* True where this tensor, which the place's source holds, is a parameter there. */
static bool is_parameter(const TrainingPlace *place, const Tensor *tensor) {
    const TrainingRow *row = training_row(place->node);
    const Value *value = place->node->inputs[place->operand].value;
    if (!tensor || tensor->rank == 0) return false;
    if (!tensor_check(tensor, NULL)) return true; /* and an error, when it is taken */
    const uint64_t count = tensor_count(tensor);
    if (count == 1 && place->source != value && !is_one(value)) return false; /* it fills */
    if (count < row->least) return count && is_bias_of_one(place->node, place->operand);
    return !is_elementwise(place->node) || !training_is_mask(tensor);
}

/* ---- where they lie -------------------------------------------------------------------------- */

typedef struct Reached {
    Arena *scratch;
    GradientNodes nodes;
} Reached;

static void add_node(Reached *reached, Node *node);

static void add_graph(Graph *graph, void *data) {
    for (Node *node = graph->first; node; node = node->next) add_node(data, node);
}

static void add_node(Reached *reached, Node *node) {
    VEC_PUSH(reached->scratch, &reached->nodes, node);
    node_each_graph(node, add_graph, reached);
}

/* The nodes that `of` is computed by, those in branches and bodies among them. */
static GradientNodes nodes_of(PassCtx *ctx, Value *of) {
    const GradientAsk ask = {.at = of->producer, .ys = &of, .y_count = 1};
    Reached reached = {.scratch = ctx->scratch};
    if (!of->producer) return reached.nodes;
    const GradientNodes nodes = gradient_nodes(&ask, ctx->scratch);
    for (size_t i = 0; i < nodes.count; i++) add_node(&reached, nodes.items[i]);
    return reached.nodes;
}

static bool may_move_out(const TrainingPlace *place) {
    const Value *value = place->source;
    return value->init && value->graph->parent && !value->input && is_parameter(place, value->init);
}

/* By value: what a graph gives out. */
static const bool *graph_outputs(PassCtx *ctx) {
    const GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    bool *given = ARENA_ARRAY(ctx->scratch, bool, ctx->model->value_count + 1);
    for (size_t g = 0; g < graphs.count; g++)
        for (size_t i = 0; i < graphs.items[g]->outputs.count; i++)
            given[graphs.items[g]->outputs.items[i]->use.value->id] = true;
    return given;
}

typedef struct Moving {
    Value *value;
    const Tensor *tensor;
} Moving;

typedef VEC(Moving) MovingList;

/* Takes initializers of branches and bodies out of their graphs. */
static MovingList take_out(PassCtx *ctx, const TrainingPlaces *places) {
    const bool *given = graph_outputs(ctx);
    MovingList moving = {0};
    model_batch_removals(ctx->model);
    for (size_t i = 0; i < places->count; i++) {
        Value *value = places->items[i].source;
        if (!may_move_out(&places->items[i]) || given[value->id]) continue;
        VEC_PUSH(ctx->scratch, &moving, ((Moving){value, value->init}));
        value_remove_info(value);
        value_set_init(value, NULL);
    }
    model_sweep(ctx->model, ctx->scratch);
    return moving;
}

/* To the model's graph, which alone has parameters. */
static void move_out(PassCtx *ctx, const NameCounts *names, const Moving *moving) {
    Value *value = moving->value;
    if (!name_is_single(names, value))
        value_rename(value, sym_fresh(&ctx->model->syms, sym_text(value->name)));
    value->graph = ctx->model->graph;
    value_set_init(value, moving->tensor);
    ctx->counts->rewrites++;
}

/* Makes an initializer of a Constant node that is where a parameter is; outside of branches and bodies
 * if `all` is said. */
static bool lift_constant(PassCtx *ctx, const TrainingPlace *place, bool all) {
    Node *made_by = place->source->producer;
    if (!made_by || !(all || made_by->graph->parent) || !simplify_is(made_by, "Constant") ||
        !node_may_become_constant(made_by))
        return false;
    const Tensor *tensor = constant_tensor(place->source, &ctx->model->arena);
    if (!tensor || !dtype_is_float((Dtype)tensor->dtype) || !tensor_check(tensor, NULL) ||
        !is_parameter(place, tensor))
        return false;
    node_become_constant(ctx, made_by, &tensor);
    return true;
}

/* Tensors where parameters may be, whatever they are. */
static TrainingPlaces tensors_of(PassCtx *ctx, const GradientNodes *nodes) {
    TrainingMoves moves = training_moves(ctx);
    TrainingPlaces places = {0};
    for (size_t n = 0; n < nodes->count; n++) {
        Node *node = nodes->items[n];
        const TrainingRow *row = training_row(node);
        for (uint32_t i = 0; row && i < node->input_count; i++) {
            if (!training_row_has(row, i)) continue;
            training_walk(&moves, node->inputs[i].value);
            for (size_t k = 0; k < moves.list.count; k++) {
                const TrainingPlace place = {
                    .node = node, .operand = i, .source = moves.list.items[k]};
                VEC_PUSH(ctx->scratch, &places, place);
            }
        }
    }
    return places;
}

/* Brings what parameters are among the model's initializers: initializers and Constant nodes of branches
 * and bodies, and, where `all` is said, all Constant nodes. False where there is nothing to be brought. */
static bool lift(PassCtx *ctx, const GradientNodes *nodes, bool all) {
    bool any = false;
    if (!model_has_free_initializers(ctx->model)) return false;
    TrainingPlaces places = tensors_of(ctx, nodes);
    bool *done = ARENA_ARRAY(ctx->scratch, bool, ctx->model->value_count + 1);
    for (size_t i = 0; i < places.count; i++) {
        const uint32_t id = places.items[i].source->id;
        if (done[id] || !lift_constant(ctx, &places.items[i], all)) continue;
        done[id] = any = true; /* and the value may be gone */
    }
    for (size_t i = 0; any && i < places.count; i++) graph_sweep(places.items[i].source->graph);
    const NameCounts names = names_count(ctx);
    places = tensors_of(ctx, nodes);
    const MovingList moving = take_out(ctx, &places);
    for (size_t i = 0; i < moving.count; i++) move_out(ctx, &names, &moving.items[i]);
    return any || moving.count;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The initializer that a normalization's running statistic is, and not by way of an Identity, which
 * exporters write where two have the same numbers. */
static Value *statistic(PassCtx *ctx, Node *node, uint32_t operand) {
    Value *value = node->inputs[operand].value;
    while (value && value->producer && simplify_is(value->producer, "Identity"))
        value = value->producer->inputs[0].value;
    if (!value || !value->init || value->graph != ctx->model->graph) return NULL;
    if (value != node->inputs[operand].value) {
        node_set_input(node, operand, value);
        ctx->counts->rewrites++;
    }
    return value;
}

static void find_statistics(PassCtx *ctx, Node *node, TrainingPlaces *places) {
    if (node->graph != ctx->model->graph || !simplify_is(node, "BatchNormalization")) return;
    for (uint32_t i = 3; i < 5 && i < node->input_count; i++) {
        Value *value = statistic(ctx, node, i);
        const TrainingPlace place = {
            .node = node, .operand = i, .source = value, .statistic = true};
        if (value) VEC_PUSH(ctx->scratch, places, place);
    }
}

/* False where there are statistics alone. */
static bool find_places(PassCtx *ctx, const GradientNodes *nodes, TrainingPlaces *places) {
    const TrainingPlaces all = tensors_of(ctx, nodes);
    places->count = 0;
    for (size_t i = 0; i < all.count; i++) {
        const Value *source = all.items[i].source;
        if (source->init && !source->graph->parent && is_parameter(&all.items[i], source->init))
            VEC_PUSH(ctx->scratch, places, all.items[i]);
    }
    const bool any = places->count;
    for (size_t n = 0; n < nodes->count; n++) find_statistics(ctx, nodes->items[n], places);
    return any;
}

typedef struct Finding {
    PassCtx *ctx;
    const TrainingAsk *ask;
    size_t name_count;
    bool *left_out, *met; /* by a name's number: it is to be left out; there is such a parameter */
    GradientNodes nodes;
    TrainingPlaces places;
} Finding;

/* By value: which parameters are to be left out. */
static bool *frozen_of(Finding *f) {
    bool *frozen = ARENA_ARRAY(f->ctx->scratch, bool, f->ctx->model->value_count + 1);
    for (size_t i = 0; i < f->places.count; i++) {
        const TrainingPlace *place = &f->places.items[i];
        const size_t number = place->source->name->number;
        if (place->statistic || number >= f->name_count || !f->left_out[number]) continue;
        f->met[number] = frozen[place->source->id] = true;
    }
    return frozen;
}

/* All places, each of a layer of its own. The names to be left out are those that the model had. */
static const bool *find_all(Finding *f) {
    PassCtx *ctx = f->ctx;
    f->nodes = nodes_of(ctx, f->ask->of);
    lift(ctx, &f->nodes, false);
    if (!find_places(ctx, &f->nodes, &f->places) && lift(ctx, &f->nodes, true)) {
        f->nodes = nodes_of(ctx, f->ask->of);
        find_places(ctx, &f->nodes, &f->places);
    }
    const bool *frozen = frozen_of(f);
    const TrainingTies ties = {&f->places, &f->nodes, frozen};
    if (!training_untie(ctx, &ties)) return frozen;
    f->nodes = nodes_of(ctx, f->ask->of);
    find_places(ctx, &f->nodes, &f->places);
    return frozen_of(f);
}

static bool check(const TrainingPlace *place, Err *err) {
    const Value *value = place->source;
    const Dtype dtype = (Dtype)value->init->dtype;
    if (!tensor_check(value->init, NULL))
        return node_error(place->node, err, ERR_MODEL,
                          "parameter '%s' does not have the data for its shape",
                          sym_text(value->name));
    if (dtype == DTYPE_FLOAT || dtype == DTYPE_DOUBLE) return true;
    return node_error(
        place->node, err, ERR_MODEL,
        "parameter '%s' is %s: add training to the float32 model, and convert it afterward",
        sym_text(value->name), dtype_name(dtype));
}

static bool take_all(Finding *f, const bool *frozen, TrainingParameters *parameters, Err *err) {
    const TrainingReach reach = training_reach(f->ctx, f->ask->of);
    bool *taken = ARENA_ARRAY(f->ctx->scratch, bool, f->ctx->model->value_count + 1);
    for (size_t i = 0; i < f->places.count; i++) {
        const TrainingPlace *place = &f->places.items[i];
        const uint32_t id = place->source->id;
        if (place->statistic || taken[id] || frozen[id] || !reach.reached[id]) continue;
        if (!check(place, err)) return false;
        taken[id] = true;
        VEC_PUSH(f->ctx->scratch, parameters, place->source);
    }
    const TrainingReport report = {.of = f->ask->of,
                                   .places = &f->places,
                                   .nodes = &f->nodes,
                                   .reach = &reach,
                                   .trained = taken,
                                   .frozen = frozen,
                                   .value_count = f->ctx->model->value_count};
    training_tell(f->ctx, &report);
    return true;
}

static Finding finding_new(PassCtx *ctx, const TrainingAsk *ask) {
    const SymTable *syms = &ctx->model->syms;
    Finding f = {.ctx = ctx, .ask = ask, .name_count = syms->count};
    f.left_out = ARENA_ARRAY(ctx->scratch, bool, syms->count + 1);
    f.met = ARENA_ARRAY(ctx->scratch, bool, syms->count + 1);
    for (size_t i = 0; i < ask->freeze->count; i++) {
        const char *name = ask->freeze->items[i];
        const Sym sym = sym_find(syms, name, strlen(name));
        if (sym) f.left_out[sym->number] = true;
    }
    return f;
}

/* Names to be left out of which there is no parameter. */
static bool check_freeze(const Finding *f, Err *err) {
    for (size_t i = 0; i < f->ask->freeze->count; i++) {
        const char *name = f->ask->freeze->items[i];
        const Sym sym = sym_find(&f->ctx->model->syms, name, strlen(name));
        if (!sym || sym->number >= f->name_count || !f->met[sym->number])
            return err_set(err, ERR_USAGE, "make-training: unknown parameter '%s'", name);
    }
    return true;
}

bool training_parameters(PassCtx *ctx, const TrainingAsk *ask, TrainingParameters *parameters,
                         Err *err) {
    Finding f = finding_new(ctx, ask);
    const bool *frozen = find_all(&f);
    if (!take_all(&f, frozen, parameters, err) || !check_freeze(&f, err)) return false;
    if (parameters->count) return true;
    err_set(err, ERR_MODEL, "'%s' is computed from no parameters", sym_text(ask->of->name));
    if (ask->of->graph->model->functions.count)
        err_hint(err, "run the pass inline-calls first, which inlines the model's functions");
    return false;
}
