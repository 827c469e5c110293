// SPDX-License-Identifier: Apache-2.0
/* From a checked plan to what runs: kernels and shape functions are looked up, attributes become
 * structs, and each step learns which values end with it. Linear in the plan's size. */
#include <string.h>

#include "checked.h"
#include "element_convert.h"
#include "exec.h"
#include "exec_device.h"
#include "exec_record.h"
#include "step_choice.h"

typedef struct Loader {
    LoadedPlan *loaded;
    Arena *arena, *scratch; /* scratch: of what only loading needs */
    Err *err;
    const AttrText *text_views; /* [TEXTS] */
} Loader;

static AttrText view_of(const Plan *plan, uint32_t text) {
    PlanSpan span = plan->texts[text];
    return (AttrText){true, span.count, plan->chars + span.first};
}

/* What is known of an operator in use. */
typedef struct FoundOp {
    const char *domain, *name;
    ExecFunction exec;
    const char *types;
    const KernelRow *rows;
    size_t row_count;
    const ShapeRow *shape;
} FoundOp;

/* ---- constants ------------------------------------------------------------------------------- */

static void load_strings(Loader *l, const PlanValue *value, KernelTensor *tensor) {
    const Plan *plan = &l->loaded->plan;
    KernelString *strings = ARENA_ARRAY(l->arena, KernelString, tensor->count);
    for (uint64_t i = 0; i < tensor->count; i++) {
        AttrText text = view_of(plan, plan_data_text(plan, value, i));
        strings[i] = (KernelString){text.size, text.text};
    }
    tensor->data = strings;
}

/* True for what kernels look up other things by, and all that is small. Of weights that change
 * while they are read, results are wrong and no more. */
static bool is_index(const PlanValue *value) {
    bool narrow = dtype_bits((Dtype)value->dtype) <= 8 && value->dtype != DTYPE_BOOL;
    return value->size <= PLAN_SMALL || !(narrow || dtype_is_float((Dtype)value->dtype));
}

static void *copy_data(Loader *l, const void *data, uint64_t size) {
    char *copy = arena_alloc(l->arena, (size_t)size + PLAN_ALIGN);
    copy += -(uintptr_t)copy % PLAN_ALIGN;
    if (size) memcpy(copy, data, (size_t)size);
    return copy;
}

/* Notes the values of a span. */
static void note_span(const Plan *plan, PlanSpan span, bool *noted) {
    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t value = plan->operands[span.first + i];
        if (value != PLAN_NONE) noted[value] = true;
    }
}

/* Values that something else than a kernel reads, which knows of no stored type or layout. */
static bool *find_plain(Loader *l, const FoundOp *ops) {
    const Plan *plan = &l->loaded->plan;
    bool *plain = ARENA_ARRAY(l->scratch, bool, plan->value_count);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const PlanStep *step = &plan->steps[s];
        const FoundOp *op = &ops[step->op];
        if (op->exec || op->rows->flags & KERNEL_VIEW) note_span(plan, step->inputs, plain);
        for (uint32_t i = 0; i < step->attrs.count; i++) {
            const PlanAttr *attr = &plan->attrs[step->attrs.first + i];
            if (attr->kind == PLAIN_TENSOR) plain[attr->value] = true;
        }
    }
    for (uint32_t g = 0; g < plan->graph_count; g++) {
        note_span(plan, plan->graphs[g].outputs, plain);
        note_span(plan, plan->graphs[g].defaults, plain);
    }
    return plain;
}

/* The constant's elements one after the other, of one that is packed. */
static void unpack_constant(Loader *l, const WeightLayout *layout, KernelTensor *tensor) {
    uint64_t size = tensor->count * kernel_element_size(tensor->dtype);
    char *elements = arena_alloc(l->arena, (size_t)size + PLAN_ALIGN);
    elements += -(uintptr_t)elements % PLAN_ALIGN;
    weight_layout_unpack(layout, tensor->data, elements);
    tensor->data = elements;
}

/* What lies beside constants; and packed ones, which stay so where kernels alone read them and nothing is looked up by them. */
static void load_packs(Loader *l, const bool *plain) {
    const Plan *plan = &l->loaded->plan;
    l->loaded->layouts = ARENA_ARRAY(l->arena, const WeightLayout *, plan->value_count);
    l->loaded->beside = ARENA_ARRAY(l->arena, const PlanPack *, plan->value_count);
    for (uint32_t i = 0; i < plan->pack_count; i++) {
        const PlanPack *pack = &plan->packs[i];
        KernelTensor *tensor = &l->loaded->constants[pack->value];
        if (weight_layout_loses(&pack->layout)) {
            l->loaded->beside[pack->value] = pack;
            continue;
        }
        tensor->data = (void *)(uintptr_t)(plan->data + plan->values[pack->value].data);
        if (plain[pack->value] ||
            tensor->count * kernel_element_size(tensor->dtype) <= PLAN_SMALL) {
            unpack_constant(l, &pack->layout, tensor);
        } else {
            l->loaded->layouts[pack->value] = &pack->layout;
            tensor->data = NULL;
        }
    }
}

/* The constant in the type that it is declared to be. */
static void widen_constant(Loader *l, KernelTensor *tensor) {
    uint64_t size = tensor->count * kernel_element_size(DTYPE_FLOAT); /* twice what the file has */
    char *wide = arena_alloc(l->arena, (size_t)size + PLAN_ALIGN);
    wide += -(uintptr_t)wide % PLAN_ALIGN;
    element_convert(DTYPE_FLOAT, wide, tensor->dtype, tensor->data, tensor->count);
    tensor->dtype = DTYPE_FLOAT;
    tensor->data = wide;
}

/* Constants as they are stored; what is small, so that shapes may follow from it, and what kernels
 * are not alone to read, as it is declared. */
static void load_constants(Loader *l, const FoundOp *ops) {
    const Plan *plan = &l->loaded->plan;
    const bool *plain = find_plain(l, ops);
    l->loaded->constants = ARENA_ARRAY(l->arena, KernelTensor, plan->value_count);
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const PlanValue *value = &plan->values[i];
        KernelTensor *tensor = &l->loaded->constants[i];
        if (value->data == PLAN_NO_DATA) continue;
        *tensor = (KernelTensor){.present = true,
                                 .dtype = plan_stored(value),
                                 .rank = value->rank,
                                 .dims = plan->numbers + value->dims};
        checked_count(tensor->dims, tensor->rank, &tensor->count); /* plan_check has */
        if (value->packed) continue;                               /* below */
        if (value->dtype == DTYPE_STRING)
            load_strings(l, value, tensor);
        else
            tensor->data = (void *)(uintptr_t)(plan->data + value->data); /* kernels only read */
        if (l->loaded->changes && value->dtype != DTYPE_STRING && is_index(value))
            tensor->data = copy_data(l, tensor->data, value->size);
        if (value->stored && (plain[i] || value->size <= PLAN_SMALL)) widen_constant(l, tensor);
    }
    load_packs(l, plain);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static ShapeOperand *shape_of(Loader *l, const KernelTensor *tensor) {
    ShapeOperand *operand = ARENA_NEW(l->arena, ShapeOperand);
    ShapeNum *dims = ARENA_ARRAY(l->arena, ShapeNum, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[i] = (ShapeNum){SHAPE_KNOWN, {tensor->dims[i]}};
    *operand = (ShapeOperand){.present = true,
                              .has_rank = true,
                              .dtype = tensor->dtype,
                              .rank = tensor->rank,
                              .dims = dims};
    return operand;
}

static void load_attr(Loader *l, const PlanAttr *from, PlainAttr *to) {
    const Plan *plan = &l->loaded->plan;
    uint32_t at = (uint32_t)from->value, bits = at;
    *to = (PlainAttr){
        .name = view_of(plan, from->name), .kind = (PlainAttrKind)from->kind, .count = from->count};
    switch (to->kind) {
    case PLAIN_INT: to->v.i = from->value; break;
    case PLAIN_FLOAT: memcpy(&to->v.f, &bits, sizeof bits); break;
    case PLAIN_TEXT: to->v.text = view_of(plan, at); break;
    case PLAIN_INTS: to->v.ints = plan->numbers + at; break;
    case PLAIN_FLOATS: to->v.floats = plan->floats + at; break;
    case PLAIN_TEXTS: {
        AttrText *texts = ARENA_ARRAY(l->arena, AttrText, from->count);
        for (uint32_t i = 0; i < from->count; i++) texts[i] = view_of(plan, plan->operands[at + i]);
        to->v.texts = texts;
        break;
    }
    case PLAIN_TENSOR:
        to->v.tensor.data = &l->loaded->constants[at];
        to->v.tensor.shape = shape_of(l, to->v.tensor.data);
        break;
    case PLAIN_GRAPH: to->v.graph = at; break;
    case PLAIN_KIND_COUNT: break;
    }
}

static const void *fill(Loader *l, const AttrLayout *layout, const LoadedStep *step) {
    void *attrs = attr_layout_new(layout, l->arena);
    for (uint32_t i = 0; i < step->plan->attrs.count; i++) {
        const PlainAttr *attr = &step->attrs[i];
        const AttrField *field = attr_layout_find(layout, attr->name.text, attr->name.size);
        if (field) attr_layout_fill(attrs, field, attr, l->arena);
    }
    return attrs;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static FoundOp *find_ops(Loader *l) {
    const Plan *plan = &l->loaded->plan;
    FoundOp *found = ARENA_ARRAY(l->arena, FoundOp, plan->op_count);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const PlanOp *op = &plan->ops[i];
        FoundOp *to = &found[i];
        to->domain = plan_text(plan, op->domain, l->arena);
        to->name = plan_text(plan, op->name, l->arena);
        to->exec = exec_find(to->domain, to->name);
        if (l->loaded->device && !to->exec) to->exec = exec_record_find(to->domain, to->name);
        to->rows = kernel_find(to->domain, to->name, op->opset, &to->row_count);
        to->types = kernel_signature_find(to->domain, to->name, op->opset);
        to->shape = shape_find(to->domain, to->name, op->opset);
        if (to->exec || to->rows) continue;
        err_set(l->err, ERR_MODEL, "demi has no kernel for the operator %s%s%s at opset %lld",
                to->domain, *to->domain ? "." : "", to->name, (long long)op->opset);
        return NULL;
    }
    return found;
}

static void load_operands(Loader *l, LoadedStep *step) {
    uint32_t count = step->plan->inputs.count, varying = 0;
    bool *constant = ARENA_ARRAY(l->arena, bool, count);
    uint32_t *list = ARENA_ARRAY(l->arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++) {
        if (step->inputs[i] == PLAN_NONE) continue;
        constant[i] = l->loaded->constants[step->inputs[i]].present;
        if (!constant[i]) list[varying++] = i;
    }
    step->constant = constant;
    step->varying = list;
    step->varying_count = varying;
}

static void load_step(Loader *l, const FoundOp *ops, uint32_t number) {
    const Plan *plan = &l->loaded->plan;
    LoadedStep *step = &l->loaded->steps[number];
    step->plan = &plan->steps[number];
    const FoundOp *op = &ops[step->plan->op];
    step->op = op->name;
    step->domain = op->domain;
    step->name = plan_text(plan, step->plan->name, l->arena);
    step->opset = plan->ops[step->plan->op].opset;
    step->exec = op->exec;
    step->types = op->types;
    step->rows = op->rows;
    step->row_count = op->row_count;
    if (l->loaded->device) exec_device_rows(l->loaded, step);
    step->shape = op->shape;
    step->inputs = plan->operands + step->plan->inputs.first;
    step->outputs = plan->operands + step->plan->outputs.first;
    PlainAttr *attrs = ARENA_ARRAY(l->arena, PlainAttr, step->plan->attrs.count);
    for (uint32_t i = 0; i < step->plan->attrs.count; i++)
        load_attr(l, &plan->attrs[step->plan->attrs.first + i], &attrs[i]);
    step->attrs = attrs;
    load_operands(l, step);
    if (step->rows) step->kernel_attrs = fill(l, step->rows->layout, step);
    if (step->shape) step->shape_attrs = fill(l, step->shape->layout, step);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

/* The last step of a value's own graph that reads it, itself or in a graph it holds. A body of a
 * loop reads an outer value each time, so the use counts where the loop is. */
typedef struct Lifetimes {
    uint32_t *graph_of;       /* [value_count] */
    uint32_t *last;           /* [value_count]: PLAN_NONE where nobody reads it */
    uint32_t *parent, *owner; /* [graph_count]: the graph around, and the step that holds it */
} Lifetimes;

static void place_span(const Plan *plan, Lifetimes *t, PlanSpan span, uint32_t graph) {
    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t value = plan->operands[span.first + i];
        if (value != PLAN_NONE) t->graph_of[value] = graph;
    }
}

static void place_values(const Plan *plan, Lifetimes *t) {
    for (uint32_t g = 0; g < plan->graph_count; g++) {
        place_span(plan, t, plan->graphs[g].inputs, g);
        for (uint32_t s = 0; s < plan->graphs[g].steps.count; s++) {
            uint32_t number = plan->graphs[g].steps.first + s;
            const PlanStep *step = &plan->steps[number];
            place_span(plan, t, step->outputs, g);
            for (uint32_t a = 0; a < step->attrs.count; a++) {
                const PlanAttr *attr = &plan->attrs[step->attrs.first + a];
                if (attr->kind != PLAIN_GRAPH) continue;
                t->parent[attr->value] = g;
                t->owner[attr->value] = number;
            }
        }
    }
}

static void note_use(Lifetimes *t, uint32_t value, uint32_t graph, uint32_t step) {
    while (graph != t->graph_of[value]) { /* out to the value's own graph */
        if (t->parent[graph] == PLAN_NONE) return;
        step = t->owner[graph];
        graph = t->parent[graph];
    }
    if (t->last[value] == PLAN_NONE || t->last[value] < step) t->last[value] = step;
}

static void find_lifetimes(Loader *l, Lifetimes *t) {
    const Plan *plan = &l->loaded->plan;
    for (uint32_t g = 0; g < plan->graph_count; g++) {
        PlanSpan steps = plan->graphs[g].steps, outputs = plan->graphs[g].outputs;
        for (uint32_t s = steps.first; s < steps.first + steps.count; s++)
            for (uint32_t i = 0; i < plan->steps[s].inputs.count; i++) {
                uint32_t value = plan->operands[plan->steps[s].inputs.first + i];
                if (value != PLAN_NONE && t->graph_of[value] != PLAN_NONE) note_use(t, value, g, s);
            }
        for (uint32_t i = 0; i < outputs.count; i++) {
            uint32_t value = plan->operands[outputs.first + i];
            if (t->graph_of[value] == g)
                l->loaded->kept[value] = true;
            else if (t->graph_of[value] != PLAN_NONE && t->parent[g] != PLAN_NONE)
                note_use(t, value, t->parent[g], t->owner[g]);
        }
    }
}

/* Which of a step's inputs it drops, in time by their count: a Sum may read thousands. */
static void note_ends(Loader *l, const Lifetimes *t, uint32_t number) {
    LoadedStep *step = &l->loaded->steps[number];
    uint32_t count = step->plan->inputs.count;
    bool *ends = ARENA_ARRAY(l->arena, bool, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = step->inputs[i];
        ends[i] = value != PLAN_NONE && t->last[value] == number && !l->loaded->kept[value];
    }
    step->ends = ends;
}

/* A result that nobody reads ends with the step that makes it, but for the caller's. */
static void note_unread(LoadedPlan *loaded, Lifetimes *t) {
    const Plan *plan = &loaded->plan;
    for (uint32_t s = 0; s < plan->step_count; s++)
        for (uint32_t i = 0; i < plan->steps[s].outputs.count; i++) {
            uint32_t value = plan->operands[plan->steps[s].outputs.first + i];
            if (value == PLAN_NONE || t->last[value] != PLAN_NONE) continue;
            t->last[value] = s;
            loaded->steps[s].unread |= i == 0 && loaded->kept[value] && t->graph_of[value] == 0;
        }
}

static void load_lifetimes(Loader *l) {
    const Plan *plan = &l->loaded->plan;
    Lifetimes t = {.graph_of = ARENA_ARRAY(l->scratch, uint32_t, plan->value_count),
                   .last = ARENA_ARRAY(l->arena, uint32_t, plan->value_count),
                   .parent = ARENA_ARRAY(l->scratch, uint32_t, plan->graph_count),
                   .owner = ARENA_ARRAY(l->scratch, uint32_t, plan->graph_count)};
    for (uint32_t i = 0; i < plan->value_count; i++) t.graph_of[i] = t.last[i] = PLAN_NONE;
    for (uint32_t i = 0; i < plan->graph_count; i++) t.parent[i] = PLAN_NONE;
    l->loaded->kept = ARENA_ARRAY(l->arena, bool, plan->value_count);
    place_values(plan, &t);
    find_lifetimes(l, &t);
    note_unread(l->loaded, &t);
    uint32_t *counts = ARENA_ARRAY(l->scratch, uint32_t, plan->step_count);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < plan->value_count; i++) {
            if (t.last[i] == PLAN_NONE || l->loaded->kept[i]) continue;
            LoadedStep *step = &l->loaded->steps[t.last[i]];
            if (round == 0) {
                counts[t.last[i]]++;
                continue;
            }
            if (!step->dead) step->dead = ARENA_ARRAY(l->arena, uint32_t, counts[t.last[i]]);
            ((uint32_t *)(uintptr_t)step->dead)[step->dead_count++] = i;
        }
    for (uint32_t i = 0; i < plan->step_count; i++) note_ends(l, &t, i);
    l->loaded->last = t.last;
    for (uint32_t i = 0; i < plan->value_count; i++)
        if (t.last[i] == PLAN_NONE || l->loaded->kept[i]) t.last[i] = plan->step_count;
}

/* Gives each step its choices, which are in the steps' order. */
static bool load_choices(Loader *l) {
    const Plan *plan = &l->loaded->plan;
    for (uint32_t i = 0; i < plan->choice_count; i++) {
        const PlanChoice *choice = &plan->choices[i];
        LoadedStep *step = &l->loaded->steps[choice->step];
        if (!step_choice_fits(step, choice)) {
            err_set(l->err, ERR_MODEL, "the plan is damaged: choice %u", i);
            err_hint(l->err, "compile it again");
            return false;
        }
        if (!step->choice_count++) step->choices = choice;
    }
    return true;
}

bool plan_load(LoadedPlan *loaded, Arena *arena, Err *err) {
    Loader l = {.loaded = loaded, .arena = arena, .scratch = arena_child(arena), .err = err};
    const FoundOp *ops = find_ops(&l);
    if (!ops) return false;
    load_constants(&l, ops);
    loaded->steps = ARENA_ARRAY(arena, LoadedStep, loaded->plan.step_count);
    for (uint32_t i = 0; i < loaded->plan.step_count; i++) load_step(&l, ops, i);
    load_lifetimes(&l);
    arena_free(l.scratch);
    return load_choices(&l);
}

bool plan_has_operator(const char *domain, const char *op, int64_t opset) {
    size_t count;
    return exec_find(domain, op) || kernel_find(domain, op, opset, &count);
}
