// SPDX-License-Identifier: Apache-2.0
/* Counting in a run that is watched; see costs.h. */
#include "costs.h"

#include <string.h>

#include "error_fill.h"
#include "step_cost.h"
#include "sym.h"
#include "value_io.h"
#include "weight_storage.h"

typedef struct Counting {
    Costs *costs;
    SymTable names;      /* of what nodes make, and of inputs */
    VEC(uint32_t) group; /* by name: the group that it is a value of, or GROUP_NONE */
    VEC(uint32_t) work;  /* by name: 1 + the work whose node makes it first */
} Counting;

static void add_name(Counting *c, Arena *arena, const char *name, uint32_t group, uint32_t work) {
    const Sym sym = sym_intern_cstr(&c->names, name);
    while (c->group.count <= sym->number) {
        VEC_PUSH(arena, &c->group, GROUP_NONE);
        VEC_PUSH(arena, &c->work, 0);
    }
    if (group != GROUP_NONE) c->group.items[sym->number] = group;
    if (work) c->work.items[sym->number] = work;
}

static const char *first_output(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) return node->outputs[i]->name->text;
    return NULL;
}

static void list_names(Counting *c, const Groups *groups, Arena *arena) {
    for (uint32_t g = 0; g < groups->count; g++)
        for (size_t i = 0; i < groups->items[g].values.count; i++)
            add_name(c, arena, groups->items[g].values.items[i]->name->text, g, 0);
    for (uint32_t w = 0; w < groups->works.count; w++) {
        const char *name = first_output(groups->works.items[w].node);
        if (name) add_name(c, arena, name, GROUP_NONE, w + 1);
    }
}

static void count_value(Counting *c, const char *name, const DemiData *value) {
    const Sym sym = sym_find(&c->names, name, strlen(name));
    if (!sym || c->group.items[sym->number] == GROUP_NONE) return;
    if (value->kind == DEMI_DATA_TENSOR_KIND)
        c->costs->elements[c->group.items[sym->number]] += (double)value_count(value);
}

static void count_step(void *user, const DemiStep *step) {
    Counting *c = user;
    bool counted = false;
    if (step->depth) return;
    for (size_t i = 0; i < step->output_count; i++) {
        const char *name = step->output_names[i];
        const Sym sym = name[0] ? sym_find(&c->names, name, strlen(name)) : NULL;
        if (!sym) continue;
        count_value(c, name, &step->outputs[i]);
        const uint32_t work = c->work.items[sym->number];
        if (!work || counted) continue;
        c->costs->multiplications[work - 1] = step_cost(step).flops / 2;
        counted = true;
    }
}

static void count_inputs(Counting *c, const Trials *trials) {
    const Session *s = trials->reference;
    for (size_t i = 0; i < s->input_count; i++)
        if (s->given[i]) count_value(c, s->inputs[i].name, &s->values[i]);
}

static double elements_of(const Value *value) {
    const Type *type = value_shaped_type(value);
    double count = 1;
    for (uint32_t i = 0; type && i < type->rank; i++) count *= (double)type->dims[i].size;
    return type ? count : 0;
}

bool costs_measure(Costs *costs, const MeasuredModel *model, Trials *trials, Arena *arena,
                   Err *err) {
    const Groups *groups = &model->groups;
    Counting c = {.costs = costs};
    DemiError error = DEMI_ERROR_INIT;
    *costs = (Costs){.model = model,
                     .groups = groups,
                     .multiplications = ARENA_ARRAY(arena, double, groups->works.count),
                     .elements = ARENA_ARRAY(arena, double, groups->count),
                     .weight_elements = ARENA_ARRAY(arena, double, groups->count)};
    Arena *within = arena_child(arena);
    sym_table_init(&c.names, within);
    list_names(&c, groups, within);
    DemiContext *context = trials->reference->context;
    bool ok = trials_bind(trials, 0, err) &&
              error_take(err, demi_context_watch(context, count_step, &c, &error), &error) &&
              session_run(trials->reference, err);
    demi_context_watch(context, NULL, NULL, NULL);
    if (ok) count_inputs(&c, trials);
    arena_free(within);
    if (ok) trials_end_set(trials, 0);
    for (uint32_t g = 0; g < groups->count; g++)
        for (size_t i = 0; i < groups->items[g].weights.count; i++)
            costs->weight_elements[g] += elements_of(groups->items[g].weights.items[i]);
    return ok;
}

Dtype costs_activations(const Costs *costs, uint32_t group, const Candidate *candidate) {
    const bool kept =
        group != GROUP_NONE && costs->groups->items[group].keeps_values && candidate->value_format;
    return kept ? DTYPE_FLOAT : candidate->activations;
}

double costs_of_work(const Costs *costs, size_t number, const Candidate *left,
                     const Candidate *right) {
    const GroupWork *work = &costs->groups->works.items[number];
    const double bits = candidate_bits(costs_activations(costs, work->left, left));
    const double other =
        candidate_bits(work->weights ? weight_storage_type(costs->model, work->weights, left)
                                     : costs_activations(costs, work->right, right));
    return costs->multiplications[number] * bits * other;
}

double costs_weight_bytes(const Costs *costs, uint32_t group, const Candidate *candidate) {
    const GroupValues *weights = &costs->groups->items[group].weights;
    double bits = 0;
    for (size_t i = 0; i < weights->count; i++)
        bits +=
            elements_of(weights->items[i]) *
            candidate_stored_bits(weight_storage_type(costs->model, weights->items[i], candidate));
    return bits / 8;
}

Cost costs_of(const Costs *costs, const Candidate *const *candidates, const uint8_t *assignment) {
    Cost cost = {0};
    for (size_t w = 0; w < costs->groups->works.count; w++) {
        const GroupWork *work = &costs->groups->works.items[w];
        const Candidate *right =
            work->right == GROUP_NONE ? candidate_plain() : candidates[assignment[work->right]];
        cost.bitops += costs_of_work(costs, w, candidates[assignment[work->left]], right);
    }
    for (uint32_t g = 0; g < costs->groups->count; g++) {
        const Candidate *candidate = candidates[assignment[g]];
        cost.activation_bytes +=
            costs->elements[g] * candidate_stored_bits(costs_activations(costs, g, candidate)) / 8;
        cost.weight_bytes += costs_weight_bytes(costs, g, candidate);
    }
    return cost;
}
