// SPDX-License-Identifier: Apache-2.0
/* join-training: a step of training as a model of its own, which any runtime can execute.
 *
 *   g (x) => (y) { y = MatMul (x, w) }, w an initializer;
 *   algorithm (t) => (loss) { loss = …; w1 = … }, update w := w1
 *     ->  g (x, t, w = what it was) => (loss, w1) { y = MatMul (x, w)  loss = …  w1 = … }
 *
 * ONNX defines an algorithm as what the model's graph and the algorithm's are together. Of that this
 * keeps what the algorithm's outputs and updates need. What a binding updates becomes an input whose
 * default is what it was, and the update an output: who runs the model gives each step the updates of
 * the one before. Outputs are the algorithm's, then the updates in the order of their bindings; inputs
 * the model's that are read, the algorithm's, then what is updated, in that order, too. With
 * part=initialization it is the same of the initialization, whose bindings are outputs alone.
 *
 * Several trainings are one step, one after another, as ONNX has them: what reads an initializer that
 * an earlier one updates reads the update, and what the model's graph computes from it is computed
 * again. Inputs of one name are one input.
 *
 * Names stay; a Gradient's names find what they did. Behind it the model has no training any more.
 */
#include <stddef.h>

#include "clone_nodes.h"
#include "gradient.h"
#include "passes.h"
#include "training_nodes.h"
#include "value_names.h"

enum { PART_ALGORITHM, PART_INITIALIZATION };
static const char *const part_names[] = {"algorithm", "initialization", NULL};

typedef struct JoinOptions {
    int part;
    int64_t index;
} JoinOptions;

static const PassOption options_table[] = {
    {"part", OPTION_CHOICE, offsetof(JoinOptions, part), part_names, "algorithm",
     "algorithm: a training step; initialization: what runs before the first step"},
    {"index", OPTION_INT, offsetof(JoinOptions, index), NULL, "-1",
     "which training_info to use, if there are several; -1: all, in order"},
    {0},
};

/* An initializer that is bound, in the model's graph, and what it is now. */
typedef struct Bound {
    Value *key, *now;
} Bound;

/* An output of a part. */
typedef struct Given {
    Value *value;
    const Type *type;
} Given;

typedef struct Join {
    PassCtx *ctx;
    Model *model;
    Graph *graph; /* the model's */
    CloneNodes clone;
    bool updates;            /* else bindings are an initialization's */
    VEC(const Node *) nodes; /* the model's own */
    VEC(Bound) bound;        /* in the order of bindings */
    VEC(Value *) inputs;     /* of parts, in the model's graph */
    VEC(Given) outputs;      /* of parts, in the model's graph */
} Join;

/* One training's part. */
typedef struct Part {
    const Graph *graph;
    const TrainingBinding *bindings;
    size_t binding_count;
} Part;

typedef VEC(Part) Parts;

/* ---- what is joined -------------------------------------------------------------------------- */

static Part part_of(const TrainingInfo *info, bool algorithm) {
    if (algorithm)
        return (Part){info->algorithm, info->update_bindings.items, info->update_bindings.count};
    return (Part){info->initialization, info->initialization_bindings.items,
                  info->initialization_bindings.count};
}

/* A training without that part does nothing in it, where another one has one. */
static bool find_parts(Join *join, const JoinOptions *options, Parts *parts, Err *err) {
    const size_t count = join->model->training.count, index = (size_t)options->index;
    const bool all = options->index == -1;
    join->updates = options->part == PART_ALGORITHM;
    if (!count) return err_set(err, ERR_MODEL, "it has no training_info");
    if (!all && (options->index < 0 || index >= count))
        return err_set(err, ERR_MODEL, "it has %zu training_infos, and none with index %lld", count,
                       (long long)options->index);
    for (size_t i = all ? 0 : index; i < (all ? count : index + 1); i++) {
        const Part part = part_of(join->model->training.items[i], join->updates);
        if (part.graph) VEC_PUSH(join->ctx->scratch, parts, part);
    }
    return parts->count ||
           err_set(err, ERR_MODEL, "its training has no %s", part_names[options->part]);
}

static bool check_binding(const Join *join, const TrainingBinding *binding, Err *err) {
    const NameRef *key = &binding->key, *value = &binding->value;
    const char *what = join->updates ? "update_binding" : "initialization_binding";
    if (!key->value || !key->value->init)
        return err_set(err, ERR_MODEL, "%s of '%s', which is not an initializer", what,
                       key->name ? sym_text(key->name) : "");
    if (!value->value)
        return err_set(err, ERR_MODEL, "%s of '%s' to '%s', which does not exist", what,
                       sym_text(key->name), value->name ? sym_text(value->name) : "");
    return true;
}

static bool check_bindings(const Join *join, const Part *part, Err *err) {
    bool *seen = ARENA_ARRAY(join->ctx->scratch, bool, join->model->value_count + 1);
    for (size_t i = 0; i < part->binding_count; i++) {
        const TrainingBinding *binding = &part->bindings[i];
        if (!check_binding(join, binding, err)) return false;
        const uint32_t id = binding->key.value->id;
        if (seen[id])
            return err_set(err, ERR_MODEL, "'%s' is bound twice", sym_text(binding->key.name));
        seen[id] = true;
    }
    return true;
}

/* Names would find what the first one reads. */
static bool check_names(const Part *part, Err *err) {
    for (const Node *node = part->graph->first; node; node = node_after(node))
        if (node_names_values(node))
            return node_error(
                node, err, ERR_MODEL,
                "it belongs to a training_info after another one (run expand-gradient first)");
    return true;
}

/* ---- joining --------------------------------------------------------------------------------- */

static ValueDecl *declare(const Join *join, const Type *type) {
    ValueDecl *decl = ARENA_NEW(&join->model->arena, ValueDecl);
    decl->type = type;
    return decl;
}

static void add_input(Join *join, Value *value, ValueDecl *decl) {
    if (value->input) return;
    value->input = decl;
    VEC_PUSH(&join->model->arena, &join->graph->inputs, value);
    model_touch(join->model);
}

/* The name that it has in the part: the two graphs' are different ones, by ONNX's definition, and
 * where they are not the copy keeps its own. */
static void take_name(const Join *join, const bool *taken, const Value *from) {
    Value *to = clone_value(&join->clone, (Value *)(uintptr_t)from);
    if (to != from && !taken[from->name->number]) value_rename(to, from->name);
}

/* Which names the model's graph uses, by their numbers. */
static bool *names_taken(const Join *join) {
    bool *taken = ARENA_ARRAY(join->ctx->scratch, bool, join->model->syms.count + 1);
    const Graph *graph = join->graph;
    for (size_t i = 0; i < graph->inputs.count; i++)
        taken[graph->inputs.items[i]->name->number] = true;
    for (size_t i = 0; i < graph->initializers.count; i++)
        taken[graph->initializers.items[i]->name->number] = true;
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) taken[node->outputs[i]->name->number] = true;
    return taken;
}

static Value *copy_value(Join *join, const Value *from) {
    Value *to = value_new(join->graph, sym_fresh(&join->model->syms, sym_text(from->name)));
    value_set_type(to, from->type);
    clone_map(&join->clone, from, to);
    return to;
}

/* The earlier part's input of that name. */
static Value *same_input(const Join *join, const Value *input) {
    for (size_t i = 0; i < join->inputs.count; i++)
        if (join->inputs.items[i]->name == input->name) return join->inputs.items[i];
    return NULL;
}

static void copy_input(Join *join, Value *from) {
    Value *same = same_input(join, from), *to = clone_value(&join->clone, from);
    if (same) {
        clone_map(&join->clone, from, same);
        return;
    }
    if (to == from) to = copy_value(join, from);
    add_input(join, to, declare(join, from->input->type));
    VEC_PUSH(join->ctx->scratch, &join->inputs, to);
}

/* Copies of all that the part defines, in the model's graph behind what is there. */
static void copy_part(Join *join, const Graph *part) {
    const bool *taken = names_taken(join);
    for (size_t i = 0; i < part->initializers.count; i++) {
        const Value *from = part->initializers.items[i];
        value_set_init(copy_value(join, from), from->init);
    }
    for (size_t i = 0; i < part->inputs.count; i++) copy_input(join, part->inputs.items[i]);
    for (const Node *node = part->first; node; node = node_after(node))
        clone_node(&join->clone, node, join->graph, NULL);
    for (size_t i = 0; i < part->initializers.count; i++)
        take_name(join, taken, part->initializers.items[i]);
    for (size_t i = 0; i < part->inputs.count; i++)
        if (!part->inputs.items[i]->init) take_name(join, taken, part->inputs.items[i]);
    for (const Node *node = part->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) take_name(join, taken, node->outputs[i]);
}

/* What the model's graph computes from initializers that are others by now. */
static void compute_again(Join *join) {
    for (size_t i = 0; i < join->bound.count; i++)
        clone_map(&join->clone, join->bound.items[i].key, join->bound.items[i].now);
    for (size_t i = 0; join->bound.count && i < join->nodes.count; i++) {
        const Node *node = join->nodes.items[i];
        uint32_t count;
        Value **reads = gradient_reads(node, join->ctx->scratch, &count);
        bool depends = false;
        for (uint32_t k = 0; k < count; k++)
            depends = depends || clone_value(&join->clone, reads[k]) != reads[k];
        if (depends) clone_node(&join->clone, node, join->graph, NULL);
    }
}

/* The key in the model's graph: of what a part has for itself, its copy. */
static Value *key_of(const Join *join, Value *key) {
    return key->graph == join->graph ? key : clone_value(&join->clone, key);
}

static void take_bindings(Join *join, const Part *part) {
    const size_t before = join->bound.count;
    for (size_t i = 0; i < part->binding_count; i++) {
        const TrainingBinding *binding = &part->bindings[i];
        const Bound made = {key_of(join, binding->key.value),
                            clone_value(&join->clone, binding->value.value)};
        size_t at = 0;
        while (at < before && join->bound.items[at].key != made.key) at++;
        if (at < before)
            join->bound.items[at].now = made.now;
        else
            VEC_PUSH(join->ctx->scratch, &join->bound, made);
    }
}

static bool join_part(Join *join, const Part *part, Err *err) {
    if (!check_bindings(join, part, err) || (join->bound.count && !check_names(part, err)))
        return false;
    join->clone = clone_begin(join->model, join->ctx->scratch);
    compute_again(join);
    copy_part(join, part->graph);
    for (size_t i = 0; join->updates && i < part->graph->outputs.count; i++) {
        const GraphOutput *output = part->graph->outputs.items[i];
        const Given given = {clone_value(&join->clone, output->use.value), output->decl->type};
        VEC_PUSH(join->ctx->scratch, &join->outputs, given);
    }
    take_bindings(join, part);
    return true;
}

static bool is_output(const Graph *graph, const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node && use_graph(use) == graph) return true;
    return false;
}

/* An update as an output: one that another binding has, or that no node makes, under a name of its
 * own. */
static void add_update(Join *join, Value *value) {
    if (!value->producer || is_output(join->graph, value)) {
        Model *model = join->model;
        Node *copy = node_new(join->graph, NULL, sym_intern_cstr(&model->syms, "Identity"), NULL);
        node_resize_inputs(copy, 1);
        node_set_input(copy, 0, value);
        node_resize_outputs(copy, 1);
        node_set_output(copy, 0, copy_value(join, value));
        value = copy->outputs[0];
    }
    graph_add_output(join->graph, value, declare(join, value->type));
}

static void set_outputs(Join *join) {
    graph_clear_outputs(join->graph);
    for (size_t i = 0; i < join->outputs.count; i++) {
        const Given *given = &join->outputs.items[i];
        graph_add_output(join->graph, given->value, declare(join, given->type));
    }
    for (size_t i = 0; i < join->bound.count; i++) add_update(join, join->bound.items[i].now);
}

/* Last, also one that was an input by itself. */
static void set_input(Join *join, Value *value) {
    Graph *graph = join->graph;
    size_t kept = 0;
    for (size_t i = 0; value->input && i < graph->inputs.count; i++)
        if (graph->inputs.items[i] != value) graph->inputs.items[kept++] = graph->inputs.items[i];
    if (value->input) graph->inputs.count = kept;
    value->input = NULL;
    add_input(join, value, declare(join, value->type));
}

/* ---- what nothing needs ---------------------------------------------------------------------- */

static bool is_idle(const Value *value) {
    return !value || (!value->uses && !value->referenced);
}

static void drop_nodes(Graph *graph) {
    for (Node *node = graph->last, *before; node; node = before) {
        before = node->prev;
        bool idle = true;
        for (uint32_t i = 0; i < node->output_count; i++) idle = idle && is_idle(node->outputs[i]);
        if (idle) node_remove_unswept(node);
    }
    graph_sweep(graph);
}

/* The model's own inputs and weights that no part reads; the `kept` last inputs stay. */
static void drop_operands(Join *join, size_t kept) {
    Graph *graph = join->graph;
    Value **idle = ARENA_ARRAY(join->ctx->scratch, Value *, graph->initializers.count + 1);
    size_t count = 0, inputs = 0;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        Value *value = graph->inputs.items[i];
        if (is_idle(value) && i + kept < graph->inputs.count)
            value->input = NULL;
        else
            graph->inputs.items[inputs++] = value;
    }
    graph->inputs.count = inputs;
    for (size_t i = 0; i < graph->initializers.count; i++) {
        Value *value = graph->initializers.items[i];
        if (is_idle(value) && !value->input) idle[count++] = value;
    }
    graph_remove_initializers(graph, idle, count);
}

static void refer_annotations(const Graph *graph) {
    for (size_t i = 0; i < graph->annotations.count; i++) {
        const QuantAnnotation *annotation = &graph->annotations.items[i];
        if (annotation->tensor.value) annotation->tensor.value->referenced = true;
        for (uint32_t k = 0; k < annotation->param_count; k++)
            if (annotation->params[k].value) annotation->params[k].value->referenced = true;
    }
}

/* What was copied reads nothing any more. */
static void drop_trainings(Join *join) {
    model_mark_trained(join->model, false);
    for (size_t i = 0; i < join->model->training.count; i++) {
        Graph *const graphs[] = {join->model->training.items[i]->initialization,
                                 join->model->training.items[i]->algorithm};
        for (size_t k = 0; k < 2; k++) {
            if (!graphs[k]) continue;
            graph_clear_outputs(graphs[k]);
            while (graphs[k]->last) node_remove_unswept(graphs[k]->last);
            graph_sweep(graphs[k]);
        }
    }
    join->model->training.count = 0;
}

/* What bindings and Gradients that are gone named need not stay. */
static void forget_names(Join *join) {
    const GraphList graphs = model_graphs(join->model, join->ctx->scratch);
    for (size_t g = 0; g < graphs.count; g++) {
        const Graph *graph = graphs.items[g];
        for (size_t i = 0; i < graph->inputs.count; i++) graph->inputs.items[i]->referenced = false;
        for (size_t i = 0; i < graph->initializers.count; i++)
            graph->initializers.items[i]->referenced = false;
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i]) node->outputs[i]->referenced = false;
    }
    for (size_t g = 0; g < graphs.count; g++) refer_annotations(graphs.items[g]);
    model_refer_named(join->model, join->ctx->scratch);
}

static bool is_bound(const Join *join, const Value *value) {
    bool bound = false;
    for (size_t i = 0; join->updates && i < join->bound.count; i++)
        bound = bound || join->bound.items[i].key == value;
    return bound;
}

static bool run(PassCtx *ctx, const void *given, Err *err) {
    Join join = {.ctx = ctx, .model = ctx->model, .graph = ctx->model->graph};
    Parts parts = {0};
    if (!find_parts(&join, given, &parts, err)) return false;
    for (const Node *node = join.graph->first; node; node = node_after(node))
        VEC_PUSH(ctx->scratch, &join.nodes, node);
    for (size_t i = 0; i < parts.count; i++)
        if (!join_part(&join, &parts.items[i], err)) return false;
    set_outputs(&join);
    size_t kept = 0;
    for (size_t i = 0; i < join.inputs.count; i++) kept += !is_bound(&join, join.inputs.items[i]);
    for (size_t i = 0; join.updates && i < join.bound.count; i++, kept++)
        set_input(&join, join.bound.items[i].key);
    drop_trainings(&join);
    forget_names(&join);
    drop_nodes(join.graph);
    drop_operands(&join, kept);
    training_forget_domain(ctx->model, ctx->scratch);
    model_touch(ctx->model);
    ctx->counts->rewrites++;
    return true;
}

const PassInfo join_training_pass = {
    .name = "join-training",
    .summary = "build a training step: the model's graph, the algorithm, and the updates",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(JoinOptions),
    .run = run,
};
