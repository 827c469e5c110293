// SPDX-License-Identifier: Apache-2.0
/* What steps of all kinds read and give, and how they fail; see exec.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "exec.h"

/* ---- messages -------------------------------------------------------------------------------- */

bool exec_name_step(Exec *exec, const LoadedStep *step) {
    if (!exec->err || exec->err->node[0]) return false;
    snprintf(exec->err->node, sizeof exec->err->node, "%s", step->name);
    snprintf(exec->err->op_type, sizeof exec->err->op_type, "%s", step->op);
    return false;
}

bool exec_fail(Exec *exec, const LoadedStep *step, const char *format, ...) {
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err_set(exec->err, ERR_MODEL, "%s", text);
    return exec_name_step(exec, step);
}

/* ---- operands -------------------------------------------------------------------------------- */

RtValue *exec_input(Exec *exec, const LoadedStep *step, uint32_t i) {
    if (i >= step->plan->inputs.count || step->inputs[i] == PLAN_NONE) return NULL;
    return &exec->values[step->inputs[i]];
}

void exec_output(Exec *exec, const LoadedStep *step, uint32_t i, RtValue value) {
    if (i >= step->plan->outputs.count || step->outputs[i] == PLAN_NONE)
        rt_value_clear(&value);
    else
        rt_value_set(&exec->values[step->outputs[i]], value);
}

RtTensor *exec_tensor(Exec *exec, const LoadedStep *step, uint32_t i) {
    RtValue *value = exec_input(exec, step, i);
    if (value && value->state == RT_TENSOR) return value->tensor;
    exec_fail(exec, step, "input %u is not a tensor", i);
    return NULL;
}

bool exec_scalar(Exec *exec, const LoadedStep *step, const RtTensor *tensor, int64_t *value) {
    KernelCall call = {.scratch = &exec->scratch, .err = exec->err};
    const int64_t *items = tensor->tensor.count ? kernel_ints(&call, &tensor->tensor) : NULL;
    if (!items) return exec_fail(exec, step, "an integer scalar is missing");
    *value = items[0];
    return true;
}

uint32_t exec_graph_attr(const LoadedStep *step, const char *name) {
    for (uint32_t i = 0; i < step->plan->attrs.count; i++)
        if (step->attrs[i].kind == PLAIN_GRAPH && step->attrs[i].name.size == strlen(name) &&
            memcmp(step->attrs[i].name.text, name, strlen(name)) == 0)
            return step->attrs[i].v.graph;
    return PLAN_NONE;
}

int64_t exec_int_attr(const LoadedStep *step, const char *name, int64_t otherwise) {
    for (uint32_t i = 0; i < step->plan->attrs.count; i++)
        if (step->attrs[i].kind == PLAIN_INT && step->attrs[i].name.size == strlen(name) &&
            memcmp(step->attrs[i].name.text, name, strlen(name)) == 0)
            return step->attrs[i].v.i;
    return otherwise;
}

RtValue exec_graph_output(Exec *exec, uint32_t graph, uint32_t i) {
    const Plan *plan = &exec->loaded->plan;
    uint32_t value = plan->operands[plan->graphs[graph].outputs.first + i];
    return rt_value_ref(exec->values[value]);
}
