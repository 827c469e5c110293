// SPDX-License-Identifier: Apache-2.0
/* A second executor, of the plan as it was before it was placed, whose values are set for one step and
 * cleared behind it; see exec_here.h. */
#include "exec_here.h"

#include <stdlib.h>

#include "element_convert.h"
#include "exec_device.h"
#include "exec_memory.h"
#include "step_specialization.h"

typedef struct ExecHere {
    Exec exec; /* of loaded->here */
    Arena arena;
    bool ready;       /* it was made to its end */
    bool busy;        /* a step is under way, failed, or was jumped out of */
    uint64_t charged; /* bytes of its pool that count in the context's */
} ExecHere;

static const DeviceKind *kind_of(const Exec *exec) {
    return exec->loaded->device->kind;
}

static uint64_t bytes_of(const KernelTensor *tensor) {
    return tensor->count * kernel_element_size(tensor->dtype);
}

/* ---- the second executor --------------------------------------------------------------------- */

static void clear(Exec *here, const LoadedStep *step) {
    const PlanSpan spans[] = {step->plan->inputs, step->plan->outputs};
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < spans[k].count; i++) {
            const uint32_t value = here->loaded->plan.operands[spans[k].first + i];
            if (value != PLAN_NONE && !here->loaded->constants[value].present)
                rt_value_clear(&here->values[value]);
        }
}

static void clear_all(Exec *here) {
    for (uint32_t s = 0; here->values && s < here->loaded->plan.step_count; s++)
        clear(here, &here->loaded->steps[s]);
}

static void free_here(Exec *exec) {
    ExecHere *here = exec->device.here;
    if (!here) return;
    exec->device.here = NULL;
    clear_all(&here->exec);
    exec_free(&here->exec);
    arena_free(&here->arena);
    free(here);
}

static ExecHere *make(Exec *exec) {
    ExecHere *here = calloc(1, sizeof *here);
    if (!here) {
        err_out_of_memory(exec->err);
        return NULL;
    }
    exec->device.here = here;
    arena_init(&here->arena, exec->scratch.trap);
    const PoolFrom from = {UINT64_MAX, exec->pool.allocator}; /* results were looked at before */
    here->ready = exec_init(&here->exec, exec->loaded->here, &from, &here->arena, exec->err);
    return here->ready ? here : NULL;
}

/* What it may use is what the context has left. */
static ExecHere *begin(Exec *exec) {
    ExecHere *here = exec->device.here;
    if (here && !here->ready) {
        free_here(exec);
        here = NULL;
    }
    if (!here && !(here = make(exec))) return NULL;
    if (here->busy) {
        step_specialization_drop(&here->exec);
        exec_drop_results(&here->exec);
        clear_all(&here->exec);
    }
    here->busy = true;
    pool_discharge(&exec->pool, here->charged);
    here->charged = 0;
    Exec *own = &here->exec;
    own->pool.budget = exec->pool.budget - exec->pool.used;
    own->pool.peak = own->pool.used;
    own->scratch.trap = exec->scratch.trap;
    own->scratch.budget = exec->scratch.budget;
    own->err = exec->err;
    own->options = exec->options;
    own->options.after = NULL; /* the context's own is called behind the step */
    return here;
}

/* Where the step failed, operands may be on their way still, which the run's end waits for: they stay
 * until the next step begins. */
static bool end(Exec *exec, ExecHere *here, const LoadedStep *step, bool ok) {
    Pool *pool = &here->exec.pool;
    if (ok) clear(&here->exec, step);
    arena_free(&here->exec.scratch);
    here->busy = !ok;
    if (exec->pool.used + pool->peak > exec->pool.peak)
        exec->pool.peak = exec->pool.used + pool->peak;
    pool_trim(pool);
    if (pool_charge(&exec->pool, pool->used)) {
        here->charged = pool->used;
        return true;
    }
    return err_set(exec->err, ERR_ENV, "the run needs more memory than the limit of %llu bytes",
                   (unsigned long long)exec->pool.budget);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The tensor in that type, which takes over its reference; NULL with the error set. */
static RtTensor *converted(Exec *here, RtTensor *tensor, Dtype dtype) {
    const KernelTensor *from = &tensor->tensor;
    if (from->dtype == dtype) return tensor;
    RtTensor *to = rt_tensor_new(&here->pool, dtype, from->rank, from->dims, here->err);
    if (to && from->count)
        element_convert(dtype, to->tensor.data, from->dtype, from->data, from->count);
    RtValue value = {.state = RT_TENSOR, .tensor = tensor};
    rt_value_clear(&value);
    return to;
}

/* Operand i, as it is, or on its way from the device. */
static bool fetch(Exec *exec, Exec *here, const LoadedStep *step, uint32_t i, RtValue *to) {
    const RtValue *value = &exec->values[step->inputs[i]];
    if (value->state != RT_TENSOR || !exec_is_remote(exec, step->inputs[i])) {
        *to = rt_value_ref(*value);
        return true;
    }
    const KernelTensor *from = &value->tensor->tensor;
    RtTensor *tensor = rt_tensor_new(&here->pool, from->dtype, from->rank, from->dims, here->err);
    if (!tensor) return false;
    *to = (RtValue){.state = RT_TENSOR, .tensor = tensor};
    return kind_of(exec)->download(exec->device.queue, tensor->tensor.data, from->data,
                                   bytes_of(from), exec->err);
}

/* Whether the processor's step has operand i to be set: it is there, and no constant. */
static bool is_set_here(const Exec *here, const LoadedStep *step, uint32_t i) {
    return step->inputs[i] != PLAN_NONE && !here->loaded->constants[step->inputs[i]].present;
}

/* Casts that the device does as it loads (step_casts.h) are done here. */
static bool set_inputs(Exec *exec, Exec *here, const LoadedStep *step, const LoadedStep *plain) {
    const uint32_t count = plain->plan->inputs.count;
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++) {
        RtValue *to = is_set_here(here, plain, i) ? &here->values[plain->inputs[i]] : NULL;
        if (to && to->state == RT_UNSET) ok = fetch(exec, here, step, i, to);
    }
    ok = exec_device_wait(exec) && ok;
    for (uint32_t i = 0; ok && i < count; i++) {
        RtValue *to = is_set_here(here, plain, i) ? &here->values[plain->inputs[i]] : NULL;
        if (!to || to->state != RT_TENSOR) continue;
        const Dtype wanted = (Dtype)here->loaded->plan.values[plain->inputs[i]].dtype;
        to->tensor = converted(here, to->tensor, wanted);
        ok = to->tensor;
        if (!ok) to->state = RT_UNSET;
    }
    return ok;
}

/* And those that it does as it stores. */
static bool give_output(Exec *exec, Exec *here, const LoadedStep *step, uint32_t i, RtValue *made) {
    const uint32_t value = step->outputs[i];
    if (made->state != RT_TENSOR) return exec_fail(exec, step, "output %u was not computed", i);
    made->tensor = converted(here, made->tensor, (Dtype)exec->loaded->plan.values[value].dtype);
    if (!made->tensor) {
        made->state = RT_UNSET;
        return false;
    }
    const KernelTensor *from = &made->tensor->tensor;
    RtTensor *to = exec_new_tensor(exec, value, from);
    if (!to) return false;
    exec_output(exec, step, i, (RtValue){.state = RT_TENSOR, .tensor = to});
    return kind_of(exec)->upload(exec->device.queue, to->tensor.data, from->data, bytes_of(from),
                                 exec->err);
}

/* ---- the step -------------------------------------------------------------------------------- */

static bool run(Exec *exec, Exec *here, const LoadedStep *step, const LoadedStep *plain) {
    if (!set_inputs(exec, here, step, plain) || !exec_kernel(here, plain)) return false;
    for (uint32_t i = 0; i < plain->plan->outputs.count; i++)
        if (step->outputs[i] != PLAN_NONE && plain->outputs[i] != PLAN_NONE &&
            !give_output(exec, here, step, i, &here->values[plain->outputs[i]]))
            return false;
    return true;
}

static bool run_here(Exec *exec, const LoadedStep *step, uint64_t seed) {
    const LoadedPlan *loaded = exec->loaded;
    const LoadedStep *plain = &loaded->here->steps[loaded->origins[step - loaded->steps]];
    if (exec->device.record) return exec_fail(exec, step, "steps on the CPU cannot be recorded");
    ExecHere *here = begin(exec);
    if (!here) return exec_name_step(exec, step);
    here->exec.progress.seed = seed;
    bool ok = run(exec, &here->exec, step, plain);
    ok = end(exec, here, plain, ok) && ok;
    exec->progress.row = here->exec.progress.row;
    exec->device.queue->counts.declined++;
    return ok || exec_name_step(exec, step);
}

const DeclinedSteps exec_here = {run_here, free_here};
