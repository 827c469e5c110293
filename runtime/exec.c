// SPDX-License-Identifier: Apache-2.0
/* The executor: one step after the other; see exec.h. exec_kernel.c runs the steps that have
 * kernels, others handle whole values. */
#include "exec.h"

#include "exec_device.h"
#include "exec_memory.h"
#include "step_specialization.h"
#include "work_progress.h"

enum { DEPTH_LIMIT = 128 };

/* ---- contexts -------------------------------------------------------------------------------- */

/* Constants are values that are always set. */
static bool set_constants(Exec *exec) {
    const LoadedPlan *loaded = exec->loaded;
    return rt_tensors_borrow(&exec->pool, loaded->constants, loaded->plan.value_count, exec->values,
                             exec->err);
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
            if (step->outputs[k] == PLAN_NONE || value_fits(exec, &plan->values[step->outputs[k]]))
                continue;
            err_set(exec->err, ERR_ENV, "the run needs more memory than the limit of %llu bytes",
                    (unsigned long long)exec->pool.budget);
            return exec_name_step(exec, step);
        }
    }
    return true;
}

bool exec_init(Exec *exec, const LoadedPlan *loaded, const PoolFrom *from, Arena *arena, Err *err) {
    const Plan *plan = &loaded->plan;
    *exec = (Exec){.loaded = loaded, .err = err, .options.step_limit = UINT64_MAX};
    exec->options.faithful = plan->header && plan->header->numerics == PLAN_FAITHFUL;
    pool_init(&exec->pool, NULL, from);
    arena_init(&exec->scratch, arena->trap);
    exec->values = ARENA_ARRAY(arena, RtValue, plan->value_count);
    exec->forms.memos = ARENA_ARRAY(arena, StepMemo, plan->step_count);
    return set_constants(exec) && (from->budget == UINT64_MAX || check_sizes(exec));
}

void exec_free(Exec *exec) {
    if (exec_device_works(exec)) exec_device_wait(exec);
    if (exec->loaded) {
        exec_drop_results(exec);
        step_specialization_drop(exec);
    }
    for (uint32_t i = 0; exec->forms.memos && i < exec->loaded->plan.step_count; i++)
        step_memo_free(&exec->forms.memos[i]);
    exec_memory_free(exec);
    exec_device_free(exec);
    pool_free(&exec->pool);
    arena_free(&exec->scratch);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool may_go_on(Exec *exec) {
    if (exec->progress.steps++ >= exec->options.step_limit)
        return err_set(exec->err, ERR_ENV, "more than %llu steps",
                       (unsigned long long)exec->options.step_limit);
    RunEnd *end = exec->options.end;
    return !end || !run_end_came(end, true) || run_end_fail(end, exec->err);
}

static bool run_step(Exec *exec, const LoadedStep *step) {
    exec->progress.step = step;
    if (!may_go_on(exec)) return exec_name_step(exec, step);
    if (exec->device.queue && !exec_device_before(exec, step)) return exec_name_step(exec, step);
    double start = exec->options.after ? exec_now() : 0;
    bool ok = step->exec ? step->exec(exec, step) : exec_kernel(exec, step);
    if (!ok) return false;
    if (exec->options.after && exec->device.queue && !exec_device_wait(exec))
        return exec_name_step(exec, step);
    if (exec->options.after)
        exec->options.after(exec->options.after_data, step, start, exec_now() - start);
    if (exec->progress.depth == 1) exec_memory_note(exec, step);
    for (uint32_t i = 0; i < step->dead_count; i++) rt_value_clear(&exec->values[step->dead[i]]);
    return true;
}

static bool run_again(Exec *exec, const LoadedStep *step) {
    const ExecAgain *again = exec->again;
    return !again->before(again->data, step) ||
           (run_step(exec, step) && again->after(again->data, step));
}

bool exec_graph(Exec *exec, uint32_t graph) {
    const PlanGraph *plan = &exec->loaded->plan.graphs[graph];
    const bool again = exec->again && exec->progress.depth == 0;
    if (exec->progress.depth == DEPTH_LIMIT)
        return err_set(exec->err, ERR_MODEL, "graphs are nested more than %d deep", DEPTH_LIMIT);
    exec->progress.depth++;
    bool ok = plan->steps.count || may_go_on(exec);
    if (!plan->steps.count) arena_reset(&exec->scratch);
    const bool shown = exec->progress.depth == 1 && plan->steps.count > 1;
    const unsigned piece = shown ? progress_begin("running", plan->steps.count, PROGRESS_STEPS) : 0;
    for (uint32_t i = 0; ok && i < plan->steps.count; i++) {
        progress_at(piece, i);
        const LoadedStep *step = &exec->loaded->steps[plan->steps.first + i];
        ok = again ? run_again(exec, step) : run_step(exec, step);
        arena_reset(&exec->scratch);
    }
    progress_end(piece);
    exec->progress.depth--;
    if (exec->device.pending && exec->progress.depth > 0)
        ok = exec_device_wait(exec) && ok; /* what runs a graph reads its outputs */
    return ok;
}
