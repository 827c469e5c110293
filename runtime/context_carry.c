// SPDX-License-Identifier: Apache-2.0
/* Declaring what goes from run to run, and handing it on; see demi_context_carry, and carry.h for
 * what grows in place. */
#include <setjmp.h>
#include <string.h>

#include "carry.h"
#include "context.h"
#include "exec_memory.h"

static ContextCarry *find_carry(DemiContext *context, const char *input) {
    const DemiPlan *plan = context->plan;
    for (size_t i = 0; i < context->carries.items.count; i++) {
        ContextCarry *carry = &context->carries.items.items[i];
        if (strcmp(plan->inputs[carry->input].name, input) == 0) return carry;
    }
    return NULL;
}

/* ---- declaring ------------------------------------------------------------------------------- */

static bool types_fit(const DemiPlanIo *output, const DemiPlanIo *input, Err *err) {
    if (output->dtype == DEMI_STRING) return err_set(err, ERR_USAGE, "strings cannot be state");
    if (output->kind == input->kind && output->dtype == input->dtype &&
        (input->optional || !output->optional))
        return true;
    err_set(err, ERR_USAGE, "its type is not that of the input '%s'", input->name);
    err_expected(err, "%s", dtype_name((Dtype)input->dtype));
    err_actual(err, "%s", dtype_name((Dtype)output->dtype));
    return false;
}

static bool find_pair(DemiContext *context, const char *output, const char *input,
                      ContextCarry *pair, Err *err) {
    const DemiPlan *plan = context->plan;
    *pair = (ContextCarry){.output = (uint32_t)plan_find_output(plan, output),
                           .input = (uint32_t)plan_find_input(plan, input)};
    if (pair->input == plan->input_count) {
        err_set(err, ERR_USAGE, "the model has no such input");
        err_operand(err, "input '%s'", input);
        return false;
    }
    if (pair->output == plan->output_count)
        return err_set(err, ERR_USAGE, "the model has no such output");
    for (size_t i = 0; i < context->carries.items.count; i++) {
        const ContextCarry *other = &context->carries.items.items[i];
        if (other->output != pair->output && other->input != pair->input) continue;
        return err_set(err, ERR_USAGE, "'%s' is already the state for '%s'",
                       plan->outputs[other->output].name, plan->inputs[other->input].name);
    }
    if (context_is_there(context, pair->output))
        return err_set(err, ERR_USAGE, "it is bound to the device's memory");
    return types_fit(&plan->outputs[pair->output], &plan->inputs[pair->input], err);
}

static void add_pair(DemiContext *context, ContextCarry pair) {
    ContextCarries *carries = &context->carries;
    const LoadedPlan *loaded = context->exec.loaded;
    const PlanGraph *main = &loaded->plan.graphs[0];
    const uint32_t from = loaded->plan.operands[main->inputs.first + pair.input];
    const uint32_t to = loaded->plan.operands[main->outputs.first + pair.output];
    if (!carries->grows) {
        carries->grows = ARENA_ARRAY(&context->arena, uint8_t, loaded->plan.step_count + 1);
        context->exec.carry = (ExecCarry){carries->grows};
    }
    const uint32_t step = loaded->device ? PLAN_NONE : carry_step(loaded, from, to);
    pair.grows = step != PLAN_NONE;
    VEC_PUSH(&context->arena, &carries->items, pair);
    for (uint32_t i = 0; pair.grows && i < loaded->steps[step].plan->outputs.count; i++)
        if (loaded->steps[step].outputs[i] == to) carries->grows[step] |= (uint8_t)(1u << i);
    context_let_last(context, to);
}

DemiStatus demi_context_carry(DemiContext *context, const char *output, const char *input,
                              DemiError *error) {
    Err err = {0};
    MemTrap trap;
    ContextCarry pair;
    if (!find_pair(context, output, input, &pair, &err)) {
        if (!err.operand[0]) err_operand(&err, "output '%s'", output);
        return context_end(&err, error);
    }
    if (setjmp(trap.env)) {
        err_out_of_memory(&err);
        return context_end(&err, error);
    }
    context->arena.trap = &trap;
    add_pair(context, pair);
    return DEMI_OK;
}

DemiStatus demi_context_cut(DemiContext *context, const char *input, uint32_t axis, int64_t length,
                            DemiError *error) {
    Err err = {0};
    const ContextCarry *carry = find_carry(context, input);
    RtValue *value = carry ? &context->inputs[carry->input] : NULL;
    if (!value)
        err_set(&err, ERR_USAGE, "it is not an input with state");
    else if (value->state != RT_TENSOR)
        err_set(&err, ERR_USAGE, "it is not set, or is not a tensor");
    else if (axis >= value->tensor->tensor.rank)
        err_set(&err, ERR_USAGE, "it has no axis %u", axis);
    else if (length < 0 || length > value->tensor->tensor.dims[axis])
        err_set(&err, ERR_USAGE, "%lld slices of %lld are requested", (long long)length,
                (long long)value->tensor->tensor.dims[axis]);
    if (err.code != ERR_NONE) {
        err_operand(&err, "input '%s'", input);
        return context_end(&err, error);
    }
    Pool *pool = &context->exec.pool;
    RtTensor *cut = carry_cut(pool, value->tensor, axis, length, &err);
    if (cut) rt_value_set(value, (RtValue){.state = RT_TENSOR, .tensor = cut});
    return context_end(&err, error);
}

/* ---- handing on ------------------------------------------------------------------------------ */

/* What only steps that grow may see is made plain for others. */
static RtValue next_value(DemiContext *context, const ContextCarry *carry) {
    const Plan *plan = &context->exec.loaded->plan;
    Exec *exec = &context->exec;
    const uint32_t number = plan->operands[plan->graphs[0].outputs.first + carry->output];
    const RtValue *value = &exec->values[number];
    if (carry->grows || value->state != RT_TENSOR || !value->tensor->tensor.room)
        return carry_keep(exec, value, &context->err);
    RtTensor *plain = carry_plain(&exec->pool, value->tensor, &context->err);
    return (RtValue){.state = plain ? RT_TENSOR : RT_UNSET, .tensor = plain};
}

bool context_carry_on(DemiContext *context) {
    ContextCarry *items = context->carries.items.items;
    size_t count = context->carries.items.count, made = 0;
    while (made < count && (items[made].next = next_value(context, &items[made])).state != RT_UNSET)
        made++;
    for (size_t i = 0; i < made; i++) {
        if (made == count)
            rt_value_set(&context->inputs[items[i].input], rt_value_ref(items[i].next));
        rt_value_clear(&items[i].next);
    }
    return made == count;
}

bool context_carried_fit(DemiContext *context) {
    for (size_t i = 0; i < context->carries.items.count; i++) {
        const uint32_t input = context->carries.items.items[i].input;
        const DemiPlanIo *io = &context->plan->inputs[input];
        const RtValue *value = &context->inputs[input];
        if (value->state != RT_TENSOR) continue;
        const DemiData data = context_give(&context->result, value);
        if (context_fits(io, &data, &context->err)) continue;
        err_operand(&context->err, "input '%s'", io->name);
        return false;
    }
    return true;
}
