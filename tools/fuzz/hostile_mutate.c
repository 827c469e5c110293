// SPDX-License-Identifier: Apache-2.0
/* Changing plans in place; see hostile_mutate.h. A plan's tables are found by plan_check, which
 * takes the bytes for constant: they are ours, so writing to them is fine. */
#include "hostile_mutate.h"

#include <string.h>

#include "attr_layout.h"
#include "kernel.h"
#include "plan.h"

static void *writable(const void *table) {
    return (void *)(uintptr_t)table;
}

static void change_attr(const Plan *plan, Rng *rng) {
    uint64_t count = plan->header->sections[PLAN_ATTRS].count;
    if (!count) return;
    PlanAttr *attr = (PlanAttr *)writable(plan->attrs) + rng_below(rng, count);
    int64_t *ints = (int64_t *)writable(plan->numbers) + attr->value;
    float *floats = (float *)writable(plan->floats) + attr->value;
    float number = hostile_float(rng);
    uint32_t bits;
    switch ((PlainAttrKind)attr->kind) {
    case PLAIN_INT: attr->value = hostile_int(rng, "axis", 2); return;
    case PLAIN_FLOAT: memcpy(&bits, &number, sizeof bits), attr->value = bits; return;
    case PLAIN_INTS:
        if (attr->count && rng_chance(rng, 75))
            ints[rng_below(rng, attr->count)] = hostile_int(rng, "", 2);
        else if (attr->count)
            attr->count--;
        return;
    case PLAIN_FLOATS:
        if (attr->count && rng_chance(rng, 75))
            floats[rng_below(rng, attr->count)] = number;
        else if (attr->count)
            attr->count--;
        return;
    case PLAIN_TEXT:
    case PLAIN_TEXTS:
    case PLAIN_TENSOR:
    case PLAIN_GRAPH:
    case PLAIN_KIND_COUNT: attr->name = 0; return; /* nobody knows it then: it is missing */
    }
}

static void change_operand(const Plan *plan, Rng *rng) {
    if (!plan->step_count) return;
    PlanStep *step = (PlanStep *)writable(plan->steps) + rng_below(rng, plan->step_count);
    PlanSpan *span = rng_chance(rng, 80) ? &step->inputs : &step->outputs;
    uint32_t *operands = (uint32_t *)writable(plan->operands);
    if (!span->count) return;
    uint32_t at = span->first + (uint32_t)rng_below(rng, span->count);
    if (rng_chance(rng, 30))
        span->count--;
    else if (rng_chance(rng, 60) || span == &step->outputs)
        operands[at] = PLAN_NONE;
    else
        operands[at] = operands[span->first + rng_below(rng, span->count)];
}

/* Of one element of a constant, or of the declared dims of some value. */
static void change_value(const Plan *plan, Rng *rng) {
    if (!plan->value_count) return;
    PlanValue *value = (PlanValue *)writable(plan->values) + rng_below(rng, plan->value_count);
    if (value->data == PLAN_NO_DATA) {
        int64_t *dims = (int64_t *)writable(plan->numbers) + value->dims;
        if (value->rank != PLAN_NONE && value->rank && rng_chance(rng, 70))
            dims[rng_below(rng, value->rank)] = (int64_t)rng_below(rng, 5) - 1;
        else
            value->rank = PLAN_NONE;
        return;
    }
    size_t size = kernel_element_size((Dtype)value->dtype);
    if (value->dtype == DTYPE_STRING || !size || value->size < size) return;
    uint64_t element[4] = {0};
    bool real = dtype_is_float((Dtype)value->dtype);
    int64_t number = hostile_int(rng, "axis", 2);
    if (real)
        dtype_from_double((Dtype)value->dtype, (double)hostile_float(rng), element);
    else
        memcpy(element, &number, sizeof number);
    unsigned char *data = (unsigned char *)writable(plan->data) + value->data;
    memcpy(data + rng_below(rng, value->size / size) * size, element, size);
}

bool hostile_mutate(Arena *scratch, Rng *rng, void *bytes, uint64_t size) {
    Plan plan;
    Err err = {.code = ERR_NONE};
    if (!plan_check(&plan, bytes, size, scratch, &err)) return false;
    for (uint64_t i = rng_below(rng, 4); i > 0; i--) {
        uint64_t what = rng_below(rng, 10);
        if (what < 6)
            change_attr(&plan, rng);
        else if (what < 8)
            change_value(&plan, rng);
        else
            change_operand(&plan, rng);
    }
    return true;
}
