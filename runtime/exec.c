// SPDX-License-Identifier: Apache-2.0
/* The executor: one step after the other; see exec.h. exec_kernel.c runs the steps that have
 * kernels, others handle whole values. */
#define _DEFAULT_SOURCE /* clock_gettime */
#include "exec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exec_memory.h"
#include "step_form.h"

enum { DEPTH_LIMIT = 128 };

/* ---- contexts -------------------------------------------------------------------------------- */

/* Constants are values that are always set. */
static bool set_constants(Exec *exec) {
    const LoadedPlan *loaded = exec->loaded;
    for (uint32_t i = 0; i < loaded->plan.value_count; i++) {
        if (!loaded->constants[i].present) continue;
        RtTensor *tensor = rt_tensor_borrow(&exec->pool, &loaded->constants[i], exec->err);
        if (!tensor) return false;
        exec->values[i] = (RtValue){.state = RT_TENSOR, .tensor = tensor};
    }
    return true;
}

/* True where the sizes that the plan tells of a value fit the budget, or are not all known. */
static bool value_fits(const Exec *exec, const PlanValue *value) {
    const int64_t *dims = exec->loaded->plan.numbers + value->dims;
    uint64_t size = kernel_element_size((Dtype)value->dtype);
    if (value->kind != PLAN_TENSOR || value->rank == PLAN_NONE) return true;
    for (uint32_t i = 0; i < value->rank; i++)
        if (dims[i] <= 0) return true; /* open, or no elements */
    for (uint32_t i = 0; i < value->rank; i++)
        if (__builtin_mul_overflow(size, (uint64_t)dims[i], &size)) return false;
    return size <= exec->pool.budget;
}

/* What the steps of the main graph give is made in every run: where one result alone is too large,
 * that is told before the others take time and memory. */
static bool check_sizes(Exec *exec) {
    const Plan *plan = &exec->loaded->plan;
    PlanSpan steps = plan->graph_count ? plan->graphs[0].steps : (PlanSpan){0, 0};
    for (uint32_t i = steps.first; i < steps.first + steps.count; i++) {
        const LoadedStep *step = &exec->loaded->steps[i];
        for (uint32_t k = 0; k < step->plan->outputs.count; k++) {
            if (step->outputs[k] == PLAN_NONE ||
                value_fits(exec, &plan->values[step->outputs[k]]))
                continue;
            err_set(exec->err, ERR_ENV,
                    "more memory is needed than the budget of %llu bytes allows",
                    (unsigned long long)exec->pool.budget);
            return exec_name_step(exec, step);
        }
    }
    return true;
}

bool exec_init(Exec *exec, const LoadedPlan *loaded, uint64_t budget, Arena *arena, Err *err) {
    const Plan *plan = &loaded->plan;
    *exec = (Exec){.loaded = loaded, .step_limit = UINT64_MAX, .err = err};
    exec->faithful = plan->header && plan->header->numerics == PLAN_FAITHFUL;
    pool_init(&exec->pool, budget);
    arena_init(&exec->scratch, arena->trap);
    exec->values = ARENA_ARRAY(arena, RtValue, plan->value_count);
    exec->placed = ARENA_ARRAY(arena, Buffer, plan->value_count);
    exec->memos = ARENA_ARRAY(arena, StepMemo, plan->step_count);
    return set_constants(exec) && (budget == UINT64_MAX || check_sizes(exec));
}

void exec_free(Exec *exec) {
    if (exec->loaded) {
        exec_drop_results(exec);
        step_form_drop(exec);
    }
    for (uint32_t i = 0; exec->memos && i < exec->loaded->plan.step_count; i++)
        step_memo_free(exec, &exec->memos[i]);
    exec_memory_free(exec);
    pool_free(&exec->pool);
    arena_free(&exec->scratch);
}

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
        rt_value_clear(&exec->pool, &value);
    else
        rt_value_set(&exec->pool, &exec->values[step->outputs[i]], value);
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

/* ---- graphs ---------------------------------------------------------------------------------- */

double exec_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool may_go_on(Exec *exec) {
    if (exec->steps++ >= exec->step_limit)
        return err_set(exec->err, ERR_ENV, "more than %llu steps",
                       (unsigned long long)exec->step_limit);
    if (exec->deadline != 0 && exec_now() > exec->deadline)
        return err_set(exec->err, ERR_ENV, "the run takes longer than it may");
    return true;
}

static bool run_step(Exec *exec, const LoadedStep *step) {
    if (!may_go_on(exec)) return exec_name_step(exec, step);
    double start = exec->after ? exec_now() : 0;
    bool ok = step->exec ? step->exec(exec, step) : exec_kernel(exec, step);
    if (!ok) return false;
    if (exec->after) exec->after(exec->after_data, step, start, exec_now() - start);
    if (exec->depth == 1) exec_memory_note(exec, step);
    for (uint32_t i = 0; i < step->dead_count; i++)
        rt_value_clear(&exec->pool, &exec->values[step->dead[i]]);
    return true;
}

bool exec_graph(Exec *exec, uint32_t graph) {
    const PlanGraph *plan = &exec->loaded->plan.graphs[graph];
    if (exec->depth == DEPTH_LIMIT)
        return err_set(exec->err, ERR_MODEL, "graphs are nested more than %d deep", DEPTH_LIMIT);
    exec->depth++;
    bool ok = plan->steps.count || may_go_on(exec);
    if (!plan->steps.count) arena_reset(&exec->scratch);
    for (uint32_t i = 0; ok && i < plan->steps.count; i++) {
        ok = run_step(exec, &exec->loaded->steps[plan->steps.first + i]);
        arena_reset(&exec->scratch);
    }
    exec->depth--;
    return ok;
}

RtValue exec_graph_output(Exec *exec, uint32_t graph, uint32_t i) {
    const Plan *plan = &exec->loaded->plan;
    uint32_t value = plan->operands[plan->graphs[graph].outputs.first + i];
    return rt_value_ref(exec->values[value]);
}
