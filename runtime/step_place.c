// SPDX-License-Identifier: Apache-2.0
/* Placing steps; see step_place.h. First where each runs, then who reads what from where, then the
 * tables anew with copies between. */
#include "step_place.h"

#include <string.h>

#include "attr_layout.h"
#include "exec.h"
#include "step_casts.h"
#include "vec.h"

enum { FEW = 64 }; /* elements of a float that shapes may follow from */

typedef struct Placer {
    const Plan *from;
    StepPlacement *to;
    const DeviceKind *kind;
    Arena *arena;
    const char **domains, **names; /* [op_count] */
    uint32_t *producer;            /* [value_count]: the step that makes it, PLAN_NONE: none does */
    const KernelRow **rows;        /* [step_count]: the device's; NULL where there is none */
    uint8_t *reasons;              /* [step_count] */
    bool *gone;                    /* [step_count]: a cast that others do */
    bool *shapes;                  /* [step_count]: shapes follow from it */
    bool *needed;                  /* [value_count]: the processor wants it at once */
    bool *remote;                  /* [value_count] */
    bool *read;                    /* [value_count]: from the other side */
    bool **ends;         /* [graph_count], of each its outputs: it is wanted on the device */
    uint32_t *other;     /* [value_count]: the copy, PLAN_NONE: there is none */
    bool *of_input;      /* [value_count]: follows from what an input holds */
    VEC(uint32_t) queue; /* of values that are needed, whose producers are to be looked at */
} Placer;

const char *place_reason(PlaceReason reason) {
    static const char *const texts[PLACE_REASON_COUNT] = {
        [PLACE_DEVICE] = "",
        [PLACE_COPY] = "copy",
        [PLACE_NO_KERNEL] = "the device has no kernel for it",
        [PLACE_NO_TYPE] = "the device has no kernel for it with these types",
        [PLACE_CONTROL] = "control flow",
        [PLACE_SHAPE] = "shapes depend on it",
        [PLACE_CONSTANT] = "it reads only constants",
        [PLACE_FOLLOWS] = "its data is in host memory",
    };
    return texts[reason];
}

static bool is_constant(const Placer *p, uint32_t value) {
    return p->from->values[value].data != PLAN_NO_DATA;
}

static bool is_named(const Placer *p, const PlanStep *step, const char *name) {
    return !*p->domains[step->op] && strcmp(p->names[step->op], name) == 0;
}

/* True where the step looks at dims alone. */
static bool reads_sizes(const Placer *p, const PlanStep *step) {
    return is_named(p, step, "Shape") || is_named(p, step, "Size");
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* `host`: those that the processor reads are of any type. */
static bool row_takes(const Placer *p, const KernelRow *row, PlanSpan span, uint32_t host) {
    for (uint32_t i = 0; i < span.count; i++) {
        if (i < 32 && host >> i & 1) continue;
        const uint32_t number = p->from->operands[span.first + i];
        if (number == PLAN_NONE) continue;
        const PlanValue *value = &p->from->values[number];
        const Dtype dtype = (Dtype)value->dtype;
        if (value->kind != PLAN_TENSOR || dtype == DTYPE_STRING || !kernel_element_size(dtype))
            return false;
        if (!(row->flags & KERNEL_BYTES) && !(row->types >> dtype & 1)) return false;
    }
    return true;
}

/* Whether the row gives all outputs that are wanted. */
static bool gives_all(const Placer *p, const KernelRow *row, const PlanStep *step) {
    for (uint32_t i = 1; row->flags & KERNEL_FIRST && i < step->outputs.count; i++)
        if (p->from->operands[step->outputs.first + i] != PLAN_NONE) return false;
    return true;
}

/* Whether all inputs are constants, and there is one. */
static bool reads_constants(const Placer *p, const PlanStep *step) {
    uint32_t constants = 0, others = 0;
    for (uint32_t i = 0; i < step->inputs.count; i++) {
        const uint32_t value = p->from->operands[step->inputs.first + i];
        if (value == PLAN_NONE) continue;
        if (is_constant(p, value))
            constants++;
        else
            others++;
    }
    return constants && !others;
}

/* Whether the value may be part of the arithmetic of shapes: integers, and few floats. */
static bool is_shape_like(const Placer *p, uint32_t number) {
    const PlanValue *value = &p->from->values[number];
    if (value->kind != PLAN_TENSOR) return false;
    if (dtype_is_integer((Dtype)value->dtype) || value->dtype == DTYPE_BOOL) return true;
    if (value->rank == PLAN_NONE || value->rank > 1) return false;
    const int64_t size = value->rank ? p->from->numbers[value->dims] : 1;
    return size >= 0 && size <= FEW;
}

/* Whether all that it makes may be that. */
static bool stays(const Placer *p, const PlanStep *step) {
    for (uint32_t i = 0; i < step->outputs.count; i++) {
        const uint32_t value = p->from->operands[step->outputs.first + i];
        if (value != PLAN_NONE && !is_shape_like(p, value)) return false;
    }
    return true;
}

static PlaceReason find_row(Placer *p, const PlanStep *step, const KernelRow **found) {
    size_t count = 0;
    const char *domain = p->domains[step->op], *name = p->names[step->op];
    if (exec_find(domain, name)) return PLACE_CONTROL;
    const KernelRow *rows = p->kind->find(domain, name, p->from->ops[step->op].opset, &count);
    if (!rows) return reads_sizes(p, step) ? PLACE_SHAPE : PLACE_NO_KERNEL;
    if (reads_constants(p, step) && stays(p, step)) return PLACE_CONSTANT;
    for (size_t i = 0; i < count; i++) {
        if (!row_takes(p, &rows[i], step->inputs, rows[i].host) ||
            !row_takes(p, &rows[i], step->outputs, 0) || !gives_all(p, &rows[i], step))
            continue;
        *found = &rows[i];
        return PLACE_DEVICE;
    }
    return PLACE_NO_TYPE;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void need(Placer *p, uint32_t value) {
    if (value == PLAN_NONE || is_constant(p, value) || p->needed[value]) return;
    p->needed[value] = true;
    VEC_PUSH(p->arena, &p->queue, value);
}

/* Output i of each branch of an If; PLAN_NONE where that has none. `at` counts the branches. */
static bool next_branch(const Placer *p, const PlanStep *step, uint32_t *at, uint32_t *graph) {
    while (*at < step->attrs.count) {
        const PlanAttr *attr = &p->from->attrs[step->attrs.first + (*at)++];
        if (attr->kind != PLAIN_GRAPH) continue;
        *graph = (uint32_t)attr->value;
        return true;
    }
    return false;
}
static uint32_t branch_output(const Placer *p, uint32_t graph, uint32_t i) {
    const PlanSpan outputs = p->from->graphs[graph].outputs;
    return i < outputs.count ? p->from->operands[outputs.first + i] : PLAN_NONE;
}

/* How a Loop's or Scan's operands and results are those of its body: states go from one turn to the next,
 * the body's outputs behind them are collected, and of a Scan the operands behind them taken apart. */
typedef struct Turns {
    uint32_t body;
    uint32_t operand, input,
        output; /* of the first state: the step's, the body's, and its next value */
    uint32_t states, slices, collected;
    bool slices_first, collected_first; /* they are along axis 0: of others copies were many */
} Turns;

static bool is_attr(const Placer *p, const PlanAttr *attr, const char *name) {
    const PlanSpan text = p->from->texts[attr->name];
    return text.count == strlen(name) && memcmp(p->from->chars + text.first, name, text.count) == 0;
}

static bool all_zero(const Placer *p, const PlanAttr *attr) {
    for (uint32_t k = 0; k < attr->count; k++)
        if (p->from->numbers[(uint32_t)attr->value + k] != 0) return false;
    return true;
}

static void read_scan(const Placer *p, const PlanStep *step, Turns *t) {
    for (uint32_t i = 0; i < step->attrs.count; i++) {
        const PlanAttr *attr = &p->from->attrs[step->attrs.first + i];
        if (attr->kind == PLAIN_INT && is_attr(p, attr, "num_scan_inputs") && attr->value > 0)
            t->slices = (uint32_t)attr->value;
        if (attr->kind == PLAIN_INTS && is_attr(p, attr, "scan_input_axes"))
            t->slices_first = all_zero(p, attr);
        if (attr->kind == PLAIN_INTS && is_attr(p, attr, "scan_output_axes"))
            t->collected_first = all_zero(p, attr);
    }
}

/* False where it is none, or one whose parts do not fit, which its run will say. */
static bool read_turns(const Placer *p, uint32_t number, Turns *t) {
    const PlanStep *step = &p->from->steps[number];
    uint32_t at = 0;
    if (p->reasons[number] != PLACE_CONTROL || !next_branch(p, step, &at, &t->body)) return false;
    const PlanGraph *body = &p->from->graphs[t->body];
    *t = (Turns){.body = t->body, .slices_first = true, .collected_first = true};
    if (is_named(p, step, "Loop")) {
        t->operand = t->input = 2;
        t->output = 1;
    } else if (is_named(p, step, "Scan") && p->from->ops[step->op].opset >= 9) {
        read_scan(p, step, t);
    } else {
        return false;
    }
    if (body->inputs.count < t->input + t->slices || body->inputs.count != step->inputs.count)
        return false;
    t->states = body->inputs.count - t->input - t->slices;
    if (body->outputs.count < t->output + t->states) return false;
    t->collected = body->outputs.count - t->output - t->states;
    return true;
}

/* The body's value that operand i becomes, as it is or a slice of it; PLAN_NONE: none. */
static uint32_t body_input(const Placer *p, uint32_t number, uint32_t i) {
    Turns t;
    if (!read_turns(p, number, &t) || i < t.operand) return PLAN_NONE;
    return p->from->operands[p->from->graphs[t.body].inputs.first + t.input + i - t.operand];
}

/* What hands a value on is followed to who made it. */
static void follow_control(Placer *p, const PlanStep *step, uint32_t value) {
    if (is_named(p, step, "Identity")) need(p, p->from->operands[step->inputs.first]);
    for (uint32_t i = 0; is_named(p, step, "If") && i < step->outputs.count; i++) {
        if (p->from->operands[step->outputs.first + i] != value) continue;
        for (uint32_t at = 0, graph; next_branch(p, step, &at, &graph);)
            need(p, branch_output(p, graph, i));
    }
}

/* Whether the processor, too, would only compute with whole numbers to make it. */
static bool is_counting(const Placer *p, uint32_t value) {
    const uint32_t number = p->producer[value];
    if (number == PLAN_NONE) return true;
    const PlanSpan inputs = p->from->steps[number].inputs;
    for (uint32_t i = 0; i < inputs.count; i++) {
        const uint32_t from = p->from->operands[inputs.first + i];
        if (from == PLAN_NONE) continue;
        const Dtype dtype = (Dtype)p->from->values[from].dtype;
        if (!dtype_is_integer(dtype) && dtype != DTYPE_BOOL) return false;
    }
    return true;
}

/* What is needed is computed by the processor, back to where only sizes are read. */
static void follow_needs(Placer *p) {
    for (size_t at = 0; at < p->queue.count; at++) {
        const uint32_t number = p->producer[p->queue.items[at]];
        if (number == PLAN_NONE || p->shapes[number]) continue;
        if (p->reasons[number] == PLACE_CONTROL)
            follow_control(p, &p->from->steps[number], p->queue.items[at]);
        if (!p->rows[number]) continue;
        const PlanStep *step = &p->from->steps[number];
        if (!stays(p, step)) continue;
        p->shapes[number] = true;
        p->reasons[number] = PLACE_SHAPE;
        for (uint32_t i = 0; i < step->inputs.count; i++)
            need(p, p->from->operands[step->inputs.first + i]);
    }
}

static void note_needs(Placer *p, uint32_t number) {
    const PlanStep *step = &p->from->steps[number];
    uint32_t host = p->rows[number] ? p->rows[number]->host : 0;
    if (p->reasons[number] == PLACE_CONTROL && is_named(p, step, "If")) host = 1;
    if (p->reasons[number] == PLACE_CONTROL && is_named(p, step, "Loop")) host = 3;
    for (uint32_t i = 0; i < step->inputs.count && i < 32; i++)
        if (host >> i & 1) need(p, p->from->operands[step->inputs.first + i]);
    Turns t;
    const bool loops = read_turns(p, number, &t) && t.output; /* the body says whether it goes on */
    const uint32_t on = loops ? branch_output(p, t.body, 0) : PLAN_NONE;
    if (on != PLAN_NONE && is_counting(p, on)) need(p, on);
}

/* ---- where steps run ------------------------------------------------------------------------- */

static void decide_graph(Placer *p, uint32_t graph);

/* Where the data of input 0 is: what steps follow that only pass it on. */
static bool follows(const Placer *p, const PlanStep *step) {
    const uint32_t value = step->inputs.count ? p->from->operands[step->inputs.first] : PLAN_NONE;
    return value != PLAN_NONE && p->remote[value];
}

/* Whether the processor makes input 0 in a run. */
static bool is_made_here(const Placer *p, const PlanStep *step) {
    const uint32_t value = p->from->operands[step->inputs.first];
    return !p->remote[value] && p->producer[value] != PLAN_NONE;
}

static bool is_of_device(const Placer *p, uint32_t number) {
    const PlanValue *value = &p->from->values[number];
    return value->kind == PLAN_TENSOR && value->dtype != DTYPE_STRING &&
           kernel_element_size((Dtype)value->dtype);
}

/* What a branch leaves on the device stays there, unless the processor wants it: then the other
 * branches give theirs there, too. */
static void decide_if(Placer *p, const PlanStep *step) {
    for (uint32_t i = 0; i < step->outputs.count; i++) {
        const uint32_t value = p->from->operands[step->outputs.first + i];
        bool there = false, may = value != PLAN_NONE && !p->needed[value] && is_of_device(p, value);
        for (uint32_t at = 0, graph; may && next_branch(p, step, &at, &graph);) {
            const uint32_t from = branch_output(p, graph, i);
            may = from != PLAN_NONE && is_of_device(p, from);
            there |= may && p->remote[from];
        }
        if (!may || !there) continue;
        p->remote[value] = true;
        for (uint32_t at = 0, graph; next_branch(p, step, &at, &graph);) p->ends[graph][i] = true;
    }
}

/* Whether the value will be on the device once its graph is decided, as far as that shows; where it then
 * is not, it is copied there. */
static bool will_be_remote(const Placer *p, uint32_t value) {
    for (;;) {
        const uint32_t number = value == PLAN_NONE ? PLAN_NONE : p->producer[value];
        if (number == PLAN_NONE) return value != PLAN_NONE && p->remote[value];
        const PlanStep *step = &p->from->steps[number];
        const bool control = p->reasons[number] == PLACE_CONTROL,
                   same = is_named(p, step, "Identity");
        const bool view = p->rows[number] && p->rows[number]->flags & KERNEL_VIEW;
        if (!control && (!p->rows[number] || p->shapes[number])) return false;
        if (!control && !view) return true;
        if (control && !same) break;
        value = p->from->operands[step->inputs.first]; /* handed on */
    }
    const uint32_t number = p->producer[value];
    const PlanStep *step = &p->from->steps[number];
    Turns t;
    const bool turns = read_turns(p, number, &t);
    if (!turns && !is_named(p, step, "If")) return false;
    for (uint32_t i = 0; i < step->outputs.count; i++) {
        if (p->from->operands[step->outputs.first + i] != value) continue;
        for (uint32_t at = 0, graph; next_branch(p, step, &at, &graph);)
            if (will_be_remote(p, branch_output(p, graph, (turns ? t.output : 0) + i))) return true;
    }
    return false;
}

/* Whether a step of the graph reads the value on the device. */
static bool reads_there(const Placer *p, uint32_t graph, uint32_t value) {
    const PlanSpan steps = p->from->graphs[graph].steps;
    for (uint32_t s = steps.first; s < steps.first + steps.count; s++) {
        const PlanSpan inputs = p->from->steps[s].inputs;
        for (uint32_t i = 0; p->rows[s] && !p->shapes[s] && i < inputs.count; i++)
            if (p->from->operands[inputs.first + i] == value &&
                !(i < 32 && p->rows[s]->host >> i & 1))
                return true;
    }
    return false;
}

/* Whether both are tensors that may be on the device; the second one may miss. */
static bool may_be_there(const Placer *p, uint32_t value, uint32_t other) {
    return value != PLAN_NONE && is_of_device(p, value) && !p->needed[value] &&
           (other == PLAN_NONE || (is_of_device(p, other) && !p->needed[other]));
}

static uint32_t step_output(const Placer *p, const PlanStep *step, uint32_t i) {
    return i < step->outputs.count ? p->from->operands[step->outputs.first + i] : PLAN_NONE;
}

/* States that the device makes stay there from turn to turn; what it takes apart is there whole. */
static void begin_turns(Placer *p, uint32_t number, const Turns *t) {
    const PlanStep *step = &p->from->steps[number];
    const uint32_t *inputs = p->from->operands + p->from->graphs[t->body].inputs.first + t->input;
    for (uint32_t i = 0; i < t->states; i++) {
        const uint32_t next = branch_output(p, t->body, t->output + i);
        const uint32_t result = step_output(p, step, i);
        if (!may_be_there(p, inputs[i], next) || !may_be_there(p, inputs[i], result) ||
            !will_be_remote(p, next))
            continue;
        p->remote[inputs[i]] = p->ends[t->body][t->output + i] = true;
        if (result != PLAN_NONE) p->remote[result] = true;
    }
    for (uint32_t i = t->states; t->slices_first && i < t->states + t->slices; i++)
        if (may_be_there(p, inputs[i], PLAN_NONE) && reads_there(p, t->body, inputs[i]))
            p->remote[inputs[i]] = true;
}

/* And so does what is collected of what it makes. */
static void end_turns(Placer *p, uint32_t number, const Turns *t) {
    for (uint32_t i = t->states; t->collected_first && i < t->states + t->collected; i++) {
        const uint32_t from = branch_output(p, t->body, t->output + i);
        const uint32_t result = step_output(p, &p->from->steps[number], i);
        if (result == PLAN_NONE || !may_be_there(p, from, result) || !p->remote[from]) continue;
        p->remote[result] = p->ends[t->body][t->output + i] = true;
    }
}

static void decide(Placer *p, uint32_t number) {
    const PlanStep *step = &p->from->steps[number];
    Turns t;
    const bool turns = read_turns(p, number, &t);
    if (turns) begin_turns(p, number, &t);
    for (uint32_t i = 0; i < step->attrs.count; i++) {
        const PlanAttr *attr = &p->from->attrs[step->attrs.first + i];
        if (attr->kind == PLAIN_GRAPH) decide_graph(p, (uint32_t)attr->value);
    }
    const KernelRow *row = p->rows[number];
    bool device = row && !p->shapes[number];
    if (device && row->flags & KERNEL_VIEW && is_made_here(p, step)) {
        device = false;
        p->reasons[number] = PLACE_FOLLOWS;
    }
    if (p->reasons[number] == PLACE_CONTROL && is_named(p, step, "Identity"))
        device = follows(p, step);
    if (p->reasons[number] == PLACE_CONTROL && is_named(p, step, "If")) decide_if(p, step);
    if (turns) end_turns(p, number, &t);
    for (uint32_t i = 0; device && i < step->outputs.count; i++) {
        const uint32_t value = p->from->operands[step->outputs.first + i];
        if (value != PLAN_NONE) p->remote[value] = true;
    }
}

static void decide_graph(Placer *p, uint32_t graph) {
    const PlanSpan steps = p->from->graphs[graph].steps;
    for (uint32_t s = steps.first; s < steps.first + steps.count; s++) decide(p, s);
}

/* ---- who reads what -------------------------------------------------------------------------- */

/* Whether operand i of the step is read where it is, whatever side that is. */
static bool takes_any(const Placer *p, const PlanStep *step) {
    return reads_sizes(p, step) || (is_named(p, step, "Identity") && exec_find("", "Identity"));
}

static bool wants_remote(const Placer *p, uint32_t number, uint32_t i) {
    const KernelRow *row = p->rows[number];
    if (p->reasons[number] != PLACE_CONTROL)
        return p->reasons[number] == PLACE_DEVICE && !(i < 32 && row->host >> i & 1);
    const uint32_t within = body_input(p, number, i);
    return within != PLAN_NONE && p->remote[within];
}

/* A constant is where it is read, but for those that become values of a body. */
static bool is_everywhere(const Placer *p, uint32_t number, uint32_t value) {
    return is_constant(p, value) && p->reasons[number] != PLACE_CONTROL;
}

static bool is_crossing(const Placer *p, uint32_t number, uint32_t i) {
    const PlanStep *step = &p->from->steps[number];
    const uint32_t value = p->from->operands[step->inputs.first + i];
    return value != PLAN_NONE && !is_everywhere(p, number, value) && !takes_any(p, step) &&
           wants_remote(p, number, i) != p->remote[value];
}

/* Whether output i of the graph is wanted on the other side of where it is. */
static bool is_end_crossing(const Placer *p, uint32_t g, uint32_t i) {
    const uint32_t value = branch_output(p, g, i);
    return value != PLAN_NONE && p->ends[g][i] != p->remote[value];
}

static bool is_made_in(const Placer *p, const PlanGraph *graph, uint32_t value) {
    return p->producer[value] != PLAN_NONE && p->producer[value] >= graph->steps.first &&
           p->producer[value] - graph->steps.first < graph->steps.count;
}

/* What a graph gives that it has not made itself is copied where that is made: others give it, too. */
static void find_crossings(Placer *p) {
    for (uint32_t s = 0; s < p->from->step_count; s++)
        for (uint32_t i = 0; i < p->from->steps[s].inputs.count; i++)
            if (is_crossing(p, s, i))
                p->read[p->from->operands[p->from->steps[s].inputs.first + i]] = true;
    for (uint32_t g = 0; g < p->from->graph_count; g++) {
        const PlanGraph *graph = &p->from->graphs[g];
        for (uint32_t i = 0; i < graph->outputs.count; i++) {
            if (!is_end_crossing(p, g, i)) continue;
            const uint32_t value = p->from->operands[graph->outputs.first + i];
            if (!is_constant(p, value) && !is_made_in(p, graph, value)) p->read[value] = true;
        }
    }
}

/* Whether the step's results differ from run to run. */
static bool draws(const Placer *p, const PlanStep *step) {
    const char *name = p->names[step->op];
    return strncmp(name, "Random", 6) == 0 || strcmp(name, "Bernoulli") == 0 ||
           strcmp(name, "Multinomial") == 0 || strcmp(name, "Dropout") == 0;
}

/* What of the step's outputs is an input of the model that it hands on. */
static void note_handed(Placer *p, const PlanStep *step) {
    for (uint32_t i = 0; i < step->outputs.count; i++) {
        const uint32_t value = p->from->operands[step->outputs.first + i];
        if (value == PLAN_NONE) continue;
        const uint32_t source =
            is_named(p, step, "Identity") ? p->from->operands[step->inputs.first] : PLAN_NONE;
        if (source != PLAN_NONE) p->of_input[value] = p->of_input[source];
        for (uint32_t at = 0, graph;
             is_named(p, step, "If") && next_branch(p, step, &at, &graph);) {
            const uint32_t from = branch_output(p, graph, i);
            if (from != PLAN_NONE && !p->remote[value] && p->of_input[from])
                p->of_input[value] = true;
        }
    }
}

static bool graph_repeats(Placer *p, uint32_t graph);

/* Branches that sizes alone decide between are as good as one, and so are turns that they count; what an
 * If hands on is none of the inputs that a repeated run looks at. */
static bool graphs_repeat(Placer *p, const PlanStep *step) {
    for (uint32_t at = 0, graph; next_branch(p, step, &at, &graph);) {
        if (!graph_repeats(p, graph)) return false;
        for (uint32_t i = 0; i < p->from->graphs[graph].outputs.count; i++) {
            const uint32_t value = branch_output(p, graph, i);
            if (value == PLAN_NONE) return false;
            if (!p->ends[graph][i] && (p->remote[value] || p->of_input[value])) return false;
        }
    }
    return true;
}

static bool step_repeats(Placer *p, uint32_t number) {
    const PlanStep *step = &p->from->steps[number];
    Turns t;
    const bool graphs = is_named(p, step, "If") || read_turns(p, number, &t);
    if (p->reasons[number] == PLACE_CONTROL && !is_named(p, step, "Identity") &&
        !(graphs && graphs_repeat(p, step)))
        return false;
    if (p->reasons[number] != PLACE_DEVICE && draws(p, step)) return false;
    for (uint32_t i = 0; i < step->inputs.count; i++) {
        const uint32_t value = p->from->operands[step->inputs.first + i];
        if (value == PLAN_NONE || is_constant(p, value) || takes_any(p, step) ||
            wants_remote(p, number, i))
            continue;
        if (p->remote[value] || p->of_input[value]) return false;
    }
    note_handed(p, step);
    return true;
}

static bool graph_repeats(Placer *p, uint32_t graph) {
    const PlanSpan steps = p->from->graphs[graph].steps;
    for (uint32_t s = steps.first; s < steps.first + steps.count; s++)
        if (!step_repeats(p, s)) return false;
    return true;
}

/* Whether the processor's part of a run is the same whenever sizes are: no step of it reads what an
 * input of the model holds, or what the device made. */
static bool repeats(Placer *p) {
    const PlanGraph *main = &p->from->graphs[0];
    for (uint32_t i = 0; i < main->inputs.count; i++)
        p->of_input[p->from->operands[main->inputs.first + i]] = true;
    if (!graph_repeats(p, 0)) return false;
    for (uint32_t i = 0; i < main->outputs.count; i++) {
        const uint32_t value = p->from->operands[main->outputs.first + i];
        if (!p->remote[value] && p->producer[value] != PLAN_NONE) return false;
    }
    return true;
}

/* ---- the tables anew ------------------------------------------------------------------------- */

typedef struct Tables {
    VEC(PlanStep) steps;
    VEC(PlanValue) values;
    VEC(uint32_t) operands;
    VEC(uint8_t) reasons;
    VEC(uint32_t) origins;
    VEC(bool) remote;
    uint32_t upload, download; /* operators */
} Tables;

static PlanSpan push_operands(const Placer *p, Tables *t, const uint32_t *items, uint32_t count) {
    const PlanSpan span = {(uint32_t)t->operands.count, count};
    for (uint32_t i = 0; i < count; i++) VEC_PUSH(p->arena, &t->operands, items[i]);
    return span;
}

/* What the processor's Identities hand on, before them: what a repeated run gives anew are the model's
 * inputs themselves. */
static uint32_t handed_on(const Placer *p, uint32_t value) {
    for (uint32_t number; !p->remote[value] && (number = p->producer[value]) != PLAN_NONE;) {
        const PlanStep *step = &p->from->steps[number];
        const uint32_t from = p->from->operands[step->inputs.first];
        if (!is_named(p, step, "Identity") || from == PLAN_NONE || p->remote[from]) break;
        value = from;
    }
    return value;
}

/* The value on the other side, and the step that copies it. */
static void push_copy(Placer *p, Tables *t, uint32_t value) {
    const uint32_t source = handed_on(p, value), copy = (uint32_t)t->values.count;
    PlanValue like = p->from->values[value];
    PlanStep step = {.op = p->remote[value] ? t->download : t->upload, .name = like.name};
    p->other[value] = copy;
    like.data = PLAN_NO_DATA; /* also of a constant */
    like.size = like.packed = like.stored = 0;
    VEC_PUSH(p->arena, &t->values, like);
    VEC_PUSH(p->arena, &t->remote, !p->remote[value]);
    step.inputs = push_operands(p, t, &source, 1);
    step.outputs = push_operands(p, t, &copy, 1);
    VEC_PUSH(p->arena, &t->steps, step);
    VEC_PUSH(p->arena, &t->reasons, PLACE_COPY);
    VEC_PUSH(p->arena, &t->origins, PLAN_NONE);
}

/* Of those that are read. */
static void push_copies(Placer *p, Tables *t, PlanSpan span) {
    for (uint32_t i = 0; i < span.count; i++) {
        const uint32_t value = p->from->operands[span.first + i];
        if (value != PLAN_NONE && p->read[value] && p->other[value] == PLAN_NONE)
            push_copy(p, t, value);
    }
}

static void push_step(Placer *p, Tables *t, uint32_t number) {
    PlanStep step = p->from->steps[number];
    const uint32_t *inputs = p->from->operands + step.inputs.first;
    for (uint32_t i = 0; i < step.inputs.count; i++) /* a constant's copy is this step's alone */
        if (is_crossing(p, number, i) && is_constant(p, inputs[i])) push_copy(p, t, inputs[i]);
    const uint32_t first = (uint32_t)t->operands.count;
    for (uint32_t i = 0; i < step.inputs.count; i++)
        VEC_PUSH(p->arena, &t->operands,
                 is_crossing(p, number, i) ? p->other[inputs[i]] : inputs[i]);
    step.inputs.first = first;
    const PlanSpan outputs = step.outputs;
    step.outputs = push_operands(p, t, p->from->operands + outputs.first, outputs.count);
    VEC_PUSH(p->arena, &t->steps, step);
    VEC_PUSH(p->arena, &t->reasons, p->reasons[number]);
    VEC_PUSH(p->arena, &t->origins, number);
    for (uint32_t i = 0; i < step.inputs.count; i++)
        if (inputs[i] != PLAN_NONE && is_constant(p, inputs[i])) p->other[inputs[i]] = PLAN_NONE;
    push_copies(p, t, outputs);
}

/* Outputs are copied last, so that the device is waited for once. */
static void push_graph(Placer *p, Tables *t, uint32_t number, PlanGraph *graph) {
    const PlanGraph from = *graph;
    const PlanSpan none = {0, 0};
    graph->steps.first = (uint32_t)t->steps.count;
    push_copies(p, t, from.inputs);
    for (uint32_t s = from.steps.first; s < from.steps.first + from.steps.count; s++)
        if (!p->gone[s]) push_step(p, t, s);
    for (uint32_t i = 0; i < from.outputs.count; i++) {
        const uint32_t value = p->from->operands[from.outputs.first + i];
        if (is_end_crossing(p, number, i) && p->other[value] == PLAN_NONE) push_copy(p, t, value);
    }
    graph->steps.count = (uint32_t)t->steps.count - graph->steps.first;
    graph->inputs = push_operands(p, t, p->from->operands + from.inputs.first, from.inputs.count);
    graph->defaults =
        from.defaults.count
            ? push_operands(p, t, p->from->operands + from.defaults.first, from.defaults.count)
            : none;
    graph->outputs.first = (uint32_t)t->operands.count;
    for (uint32_t i = 0; i < from.outputs.count; i++) {
        const uint32_t value = p->from->operands[from.outputs.first + i];
        VEC_PUSH(p->arena, &t->operands, is_end_crossing(p, number, i) ? p->other[value] : value);
    }
    for (uint32_t i = 0; i < from.outputs.count;
         i++) { /* a constant's copy is this graph's alone */
        const uint32_t value = p->from->operands[from.outputs.first + i];
        if (value != PLAN_NONE && is_constant(p, value)) p->other[value] = PLAN_NONE;
    }
}

/* Attributes that are lists of texts refer to operands, too: those stay where they are, in front. */
static void keep_operands(const Placer *p, Tables *t) {
    uint32_t end = 0;
    for (uint32_t s = 0; s < p->from->step_count; s++) {
        const PlanStep *step = &p->from->steps[s];
        for (uint32_t i = 0; i < step->attrs.count; i++) {
            const PlanAttr *attr = &p->from->attrs[step->attrs.first + i];
            if (attr->kind == PLAIN_TEXTS && end < (uint32_t)attr->value + attr->count)
                end = (uint32_t)attr->value + attr->count;
        }
    }
    push_operands(p, t, p->from->operands, end);
}

/* The copies' operators, whose names lie behind the plan's characters. */
static void add_operators(Placer *p, Tables *t, Plan *plan) {
    static const char text[] = PLACE_DOMAIN "UploadDownload";
    enum { DOMAIN_SIZE = sizeof PLACE_DOMAIN - 1, UP = 6, DOWN = 8 };
    const Plan *from = p->from;
    uint32_t chars = 0;
    for (uint32_t i = 0; i < from->text_count; i++)
        if (chars < from->texts[i].first + from->texts[i].count)
            chars = from->texts[i].first + from->texts[i].count;
    char *all = ARENA_ARRAY(p->arena, char, chars + sizeof text);
    if (chars) memcpy(all, from->chars, chars);
    memcpy(all + chars, text, sizeof text);
    PlanSpan *texts = ARENA_ARRAY(p->arena, PlanSpan, from->text_count + 3);
    memcpy(texts, from->texts, from->text_count * sizeof *texts);
    texts[from->text_count] = (PlanSpan){chars, DOMAIN_SIZE};
    texts[from->text_count + 1] = (PlanSpan){chars + DOMAIN_SIZE, UP};
    texts[from->text_count + 2] = (PlanSpan){chars + DOMAIN_SIZE + UP, DOWN};
    PlanOp *ops = ARENA_ARRAY(p->arena, PlanOp, from->op_count + 2);
    memcpy(ops, from->ops, from->op_count * sizeof *ops);
    t->upload = from->op_count;
    t->download = from->op_count + 1;
    ops[t->upload] = (PlanOp){from->text_count, from->text_count + 1, 1};
    ops[t->download] = (PlanOp){from->text_count, from->text_count + 2, 1};
    plan->chars = all;
    plan->texts = texts;
    plan->text_count += 3;
    plan->ops = ops;
    plan->op_count += 2;
}

static void make_tables(Placer *p) {
    Tables t = {.upload = 0};
    Plan *plan = &p->to->plan;
    *plan = *p->from;
    add_operators(p, &t, plan);
    keep_operands(p, &t);
    for (uint32_t i = 0; i < p->from->value_count; i++) {
        VEC_PUSH(p->arena, &t.values, p->from->values[i]);
        VEC_PUSH(p->arena, &t.remote, p->remote[i]);
    }
    PlanGraph *graphs =
        arena_copy(p->arena, p->from->graphs, p->from->graph_count * sizeof *graphs);
    for (uint32_t g = 0; g < p->from->graph_count; g++) push_graph(p, &t, g, &graphs[g]);
    plan->graphs = graphs;
    plan->steps = t.steps.items;
    plan->step_count = (uint32_t)t.steps.count;
    plan->values = t.values.items;
    plan->value_count = (uint32_t)t.values.count;
    plan->operands = t.operands.items;
    plan->choice_count = 0;
    p->to->reasons = t.reasons.items;
    p->to->origins = t.origins.items;
    p->to->remote = t.remote.items;
}

/* ---- placing --------------------------------------------------------------------------------- */

static void note_producers(Placer *p) {
    for (uint32_t i = 0; i < p->from->value_count; i++) p->producer[i] = p->other[i] = PLAN_NONE;
    for (uint32_t s = 0; s < p->from->step_count; s++) {
        const PlanSpan outputs = p->from->steps[s].outputs;
        for (uint32_t i = 0; i < outputs.count && !p->gone[s]; i++)
            if (p->from->operands[outputs.first + i] != PLAN_NONE)
                p->producer[p->from->operands[outputs.first + i]] = s;
    }
}

/* The plan without the casts that steps of the device do; what is placed stays where it is. */
static void drop_casts(Placer *p, Plan *without) {
    const Plan *plan = p->from;
    const KernelRow **there = ARENA_ARRAY(p->arena, const KernelRow *, plan->step_count);
    bool *casts = ARENA_ARRAY(p->arena, bool, plan->op_count);
    for (uint32_t s = 0; s < plan->step_count; s++)
        if (p->reasons[s] == PLACE_DEVICE) there[s] = p->rows[s];
    for (uint32_t i = 0; i < plan->op_count; i++)
        casts[i] = !*p->domains[i] && strcmp(p->names[i], "Cast") == 0;
    step_casts_drop(&(StepCasts){plan, there, casts, p->gone, p->arena}, without);
    p->from = without;
    note_producers(p);
}

void step_place(const Plan *plan, const DeviceKind *kind, StepPlacement *placement, Arena *arena) {
    Placer p = {.from = plan,
                .to = placement,
                .kind = kind,
                .arena = arena,
                .domains = ARENA_ARRAY(arena, const char *, plan->op_count),
                .names = ARENA_ARRAY(arena, const char *, plan->op_count),
                .producer = ARENA_ARRAY(arena, uint32_t, plan->value_count),
                .rows = ARENA_ARRAY(arena, const KernelRow *, plan->step_count),
                .reasons = ARENA_ARRAY(arena, uint8_t, plan->step_count),
                .gone = ARENA_ARRAY(arena, bool, plan->step_count),
                .shapes = ARENA_ARRAY(arena, bool, plan->step_count),
                .needed = ARENA_ARRAY(arena, bool, plan->value_count),
                .remote = ARENA_ARRAY(arena, bool, plan->value_count),
                .read = ARENA_ARRAY(arena, bool, plan->value_count),
                .ends = ARENA_ARRAY(arena, bool *, plan->graph_count),
                .of_input = ARENA_ARRAY(arena, bool, plan->value_count),
                .other = ARENA_ARRAY(arena, uint32_t, plan->value_count)};
    for (uint32_t i = 0; i < plan->op_count; i++) {
        p.domains[i] = plan_text(plan, plan->ops[i].domain, arena);
        p.names[i] = plan_text(plan, plan->ops[i].name, arena);
    }
    for (uint32_t g = 0; g < plan->graph_count; g++)
        p.ends[g] = ARENA_ARRAY(arena, bool, plan->graphs[g].outputs.count);
    note_producers(&p);
    for (uint32_t s = 0; s < plan->step_count; s++)
        p.reasons[s] = (uint8_t)find_row(&p, &plan->steps[s], &p.rows[s]);
    for (uint32_t s = 0; s < plan->step_count; s++) note_needs(&p, s);
    follow_needs(&p);
    if (plan->graph_count) decide_graph(&p, 0);
    Plan without;
    drop_casts(&p, &without);
    find_crossings(&p);
    placement->repeats = plan->graph_count && repeats(&p);
    make_tables(&p);
}
