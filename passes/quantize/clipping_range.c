// SPDX-License-Identifier: Apache-2.0
/* Functions of one value, followed through the graph and tried on its range; see clipping_range.h. */
#include "clipping_range.h"

#include <math.h>

#include "constants.h"
#include "scalar_function.h"

enum { MOST = 16, POINTS = 512 }; /* values of a function; numbers that are tried */

/* A value that is a function of the first one. */
typedef struct Step {
    const Value *value;
    const Node *node; /* NULL: the first */
    ScalarFunction function;
    int operands[SCALAR_OPERANDS]; /* steps; -1: the number in `numbers` */
    double numbers[SCALAR_OPERANDS];
    bool seen;    /* what is no part of the function reads it */
    double slack; /* which of its differences are none */
} Step;

typedef struct ValueFunction {
    Step steps[MOST];
    int count;
    ClippingRange ends;
} ValueFunction;

static int find(const ValueFunction *f, const Value *value) {
    for (int i = 0; i < f->count; i++)
        if (f->steps[i].value == value) return i;
    return -1;
}

/* False where it reads what is neither a number nor a step. */
static bool take_operands(const ValueFunction *f, const Node *node, Step *step) {
    for (uint32_t i = 0; i < SCALAR_OPERANDS; i++) {
        const Value *value = i < node->input_count ? node->inputs[i].value : NULL;
        float number;
        step->operands[i] = value ? find(f, value) : -1;
        step->numbers[i] = step->function.otherwise[i];
        if (!value || step->operands[i] >= 0) continue;
        if (!constant_scalar(value, &number)) return false;
        step->numbers[i] = (double)number;
    }
    return true;
}

/* Whether the node is a part of the function; adds what it gives. */
static bool take_node(ValueFunction *f, const Node *node) {
    Step step = {.node = node};
    if (node->graph != f->steps[0].value->graph || !scalar_function_of(node, &step.function))
        return false;
    if (find(f, node->outputs[0]) >= 0) return true;
    if (f->count == MOST || !take_operands(f, node, &step)) return false;
    step.value = node->outputs[0];
    f->steps[f->count++] = step;
    return true;
}

/* A node that reads two steps is one when both are there: until nothing comes any more. */
static void follow(ValueFunction *f) {
    for (int before = 0; before < f->count;) {
        before = f->count;
        for (int i = 0; i < f->count; i++) {
            const Value *value = f->steps[i].value;
            f->steps[i].seen = value->referenced || !value->uses;
            for (const Use *use = value->uses; use; use = use->next)
                f->steps[i].seen |= !use->node || !take_node(f, use->node);
        }
    }
}

static void evaluate(const ValueFunction *f, double x, double results[MOST]) {
    results[0] = x;
    for (int i = 1; i < f->count; i++) {
        const Step *step = &f->steps[i];
        double operands[SCALAR_OPERANDS];
        for (int k = 0; k < SCALAR_OPERANDS; k++)
            operands[k] = step->operands[k] < 0 ? step->numbers[k] : results[step->operands[k]];
        results[i] = scalar_function_at(&step->function, operands);
    }
}

static double point(const ValueFunction *f, int i) {
    return f->ends.low + (f->ends.high - f->ends.low) * i / POINTS;
}

/* How many points from one end on give what the end gives. */
static int same_points(const ValueFunction *f, bool from_high) {
    double least[MOST], most[MOST], results[MOST];
    for (int n = 0; n <= POINTS; n++) {
        evaluate(f, point(f, from_high ? POINTS - n : n), results);
        for (int i = 0; i < f->count; i++) {
            const Step *step = &f->steps[i];
            least[i] = n ? fmin(least[i], results[i]) : results[i];
            most[i] = n ? fmax(most[i], results[i]) : results[i];
            const bool same = !isnan(results[i]) && most[i] - least[i] <= step->slack;
            if (step->seen && !same) return n;
        }
    }
    return POINTS + 1;
}

void clipping_range(const UsefulQuestion *question, const Value *value, ClippingRange *ends) {
    ValueFunction f = {.steps = {{.value = value}}, .count = 1, .ends = *ends};
    ClippingRange reached;
    follow(&f);
    if (f.steps[0].seen || !(ends->low < ends->high)) return;
    for (int i = 1; i < f.count; i++)
        if (question->ends_of(question->user, f.steps[i].value, &reached))
            f.steps[i].slack = (reached.high - reached.low) / question->levels / 4;
    const int low = same_points(&f, false), high = same_points(&f, true);
    if (low + high > POINTS) return; /* a constant */
    if (low > 1) ends->low = point(&f, low - 1);
    if (high > 1) ends->high = point(&f, POINTS - high + 1);
}
