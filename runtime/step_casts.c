// SPDX-License-Identifier: Apache-2.0
/* Leaves casts to the steps around them; see step_casts.h. */
#include "step_casts.h"

#include "vec.h"

/* Of a value. */
typedef struct Reads {
    uint32_t count; /* by steps, or as outputs of graphs */
    bool mixed;     /* all by steps that mix types, in the device's memory */
} Reads;

typedef struct Dropper {
    const StepCasts *c;
    VEC(uint32_t)
    operands;        /* of the new plan: steps' own are behind those of the old one's graphs */
    PlanStep *steps; /* [step_count] */
    Reads *reads;    /* [value_count] */
    uint32_t *maker; /* [value_count]: the step whose output 0 it is; PLAN_NONE */
    uint32_t *graph; /* [step_count] */
    uint32_t *other; /* [value_count]: what is read instead; PLAN_NONE: itself */
    bool *stores;    /* [step_count]: a cast was left to it */
} Dropper;

static bool is_float(const Dropper *d, uint32_t value) {
    const PlanValue *v = &d->c->plan->values[value];
    return v->kind == PLAN_TENSOR && v->data == PLAN_NO_DATA && dtype_is_working(v->dtype);
}

static bool mixes(const Dropper *d, uint32_t step) {
    const KernelRow *row = d->c->rows[step];
    return row && row->flags & KERNEL_MIXES;
}

static void note(Dropper *d, uint32_t value, bool mixed) {
    if (value == PLAN_NONE) return;
    Reads *reads = &d->reads[value];
    reads->mixed = mixed && (!reads->count || reads->mixed);
    reads->count++;
}

static void look(Dropper *d) {
    const Plan *plan = d->c->plan;
    for (uint32_t i = 0; i < plan->value_count; i++) d->maker[i] = d->other[i] = PLAN_NONE;
    for (uint32_t g = 0; g < plan->graph_count; g++) {
        const PlanGraph *graph = &plan->graphs[g];
        for (uint32_t i = 0; i < graph->outputs.count; i++)
            note(d, plan->operands[graph->outputs.first + i], false);
        for (uint32_t i = 0; i < graph->steps.count; i++) d->graph[graph->steps.first + i] = g;
    }
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const PlanStep *step = &d->steps[s];
        for (uint32_t i = 0; i < step->inputs.count; i++)
            note(d, d->operands.items[step->inputs.first + i],
                 mixes(d, s) && !(i < 32 && d->c->rows[s]->host >> i & 1));
        const uint32_t y = step->outputs.count ? d->operands.items[step->outputs.first] : PLAN_NONE;
        if (y != PLAN_NONE) d->maker[y] = s;
    }
}

/* The step that makes the cast's operand gives its result instead. */
static bool drop_behind(Dropper *d, uint32_t number, uint32_t x, uint32_t y) {
    const uint32_t maker = d->maker[x];
    const bool rounded = d->c->plan->values[x].dtype != DTYPE_FLOAT;
    if (rounded && d->c->plan->header->numerics == PLAN_FAITHFUL) return false;
    if (maker == PLAN_NONE || !mixes(d, maker) || d->stores[maker] || d->reads[x].count != 1 ||
        d->graph[maker] != d->graph[number])
        return false;
    d->operands.items[d->steps[maker].outputs.first] = y;
    d->maker[y] = maker;
    d->stores[maker] = true;
    return true;
}

/* Those who read the result read the operand. */
static bool drop_before(Dropper *d, uint32_t x, uint32_t y) {
    if (d->c->plan->values[y].dtype != DTYPE_FLOAT || !d->reads[y].count || !d->reads[y].mixed)
        return false;
    d->other[y] = x;
    return true;
}

static void cover(uint32_t *end, PlanSpan span) {
    if (*end < span.first + span.count) *end = span.first + span.count;
}

static PlanSpan own(Dropper *d, PlanSpan span) {
    const PlanSpan made = {(uint32_t)d->operands.count, span.count};
    for (uint32_t i = 0; i < span.count; i++)
        VEC_PUSH(d->c->arena, &d->operands, d->c->plan->operands[span.first + i]);
    return made;
}

/* Operands that no two steps share, as spans of a file may. What graphs and attributes have stays where
 * it is. */
static void copy_operands(Dropper *d) {
    const Plan *plan = d->c->plan;
    uint32_t end = 0;
    for (uint32_t g = 0; g < plan->graph_count; g++) {
        cover(&end, plan->graphs[g].inputs);
        cover(&end, plan->graphs[g].outputs);
        cover(&end, plan->graphs[g].defaults);
    }
    for (uint32_t s = 0; s < plan->step_count; s++)
        for (uint32_t i = 0; i < plan->steps[s].attrs.count; i++) {
            const PlanAttr *attr = &plan->attrs[plan->steps[s].attrs.first + i];
            if (attr->kind == PLAIN_TEXTS)
                cover(&end, (PlanSpan){(uint32_t)attr->value, attr->count});
        }
    own(d, (PlanSpan){0, end});
    d->steps = arena_copy(d->c->arena, plan->steps, plan->step_count * sizeof *plan->steps);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        d->steps[s].inputs = own(d, plan->steps[s].inputs);
        d->steps[s].outputs = own(d, plan->steps[s].outputs);
    }
}

static void visit(Dropper *d, uint32_t number) {
    const PlanStep *step = &d->steps[number];
    if (!d->c->rows[number] || !d->c->casts[step->op] || step->inputs.count != 1 ||
        step->outputs.count != 1)
        return;
    const uint32_t x = d->operands.items[step->inputs.first];
    const uint32_t y = d->operands.items[step->outputs.first];
    if (x == PLAN_NONE || y == PLAN_NONE || !is_float(d, x) || !is_float(d, y)) return;
    d->c->gone[number] = drop_before(d, x, y) || drop_behind(d, number, x, y);
}

void step_casts_drop(const StepCasts *casts, Plan *without) {
    const Plan *plan = casts->plan;
    Dropper d = {.c = casts,
                 .reads = ARENA_ARRAY(casts->arena, Reads, plan->value_count),
                 .maker = ARENA_ARRAY(casts->arena, uint32_t, plan->value_count),
                 .graph = ARENA_ARRAY(casts->arena, uint32_t, plan->step_count),
                 .other = ARENA_ARRAY(casts->arena, uint32_t, plan->value_count),
                 .stores = ARENA_ARRAY(casts->arena, bool, plan->step_count)};
    copy_operands(&d);
    look(&d);
    for (uint32_t s = 0; s < plan->step_count; s++) visit(&d, s);
    for (uint32_t s = 0; s < plan->step_count; s++)
        for (uint32_t i = 0; i < d.steps[s].inputs.count; i++) {
            uint32_t *operand = &d.operands.items[d.steps[s].inputs.first + i];
            if (*operand != PLAN_NONE && d.other[*operand] != PLAN_NONE)
                *operand = d.other[*operand];
        }
    *without = *plan;
    without->operands = d.operands.items;
    without->steps = d.steps;
}
