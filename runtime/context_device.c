// SPDX-License-Identifier: Apache-2.0
/* Inputs and outputs that lie in the memory of a context's device, and the end of its runs.
 *
 * Inputs and outputs of plans are the processor's, with copies behind and in front of what the device
 * reads and gives (step_place.h). Those copies look here first: an Upload takes the caller's memory for
 * its result, and what a Download would have copied is written to the caller's memory, by the step that
 * makes it where it can be. Where the processor reads such an input or output itself, it has a copy of
 * its own. */
#include <setjmp.h>
#include <string.h>

#include "checked.h"
#include "context.h"
#include "exec_device.h"
#include "exec_memory.h"
#include "step_place.h"

static const DeviceKind *kind_of(const Exec *exec) {
    return exec->loaded->device->kind;
}

static uint64_t bytes_of(const KernelTensor *tensor) {
    return tensor->count * kernel_element_size(tensor->dtype);
}

static uint32_t input_value(const DemiContext *context, size_t i) {
    const Plan *plan = &context->exec.loaded->plan;
    return plan->operands[plan->graphs[0].inputs.first + i];
}

static bool is_copy(const LoadedStep *step, const char *op) {
    return step->reason == PLACE_COPY && strcmp(step->op, op) == 0;
}

/* Whether the step reads the elements of its inputs on the processor, wherever they are. */
static bool looks(const LoadedStep *step) {
    const bool sizes =
        !*step->domain && (strcmp(step->op, "Shape") == 0 || strcmp(step->op, "Size") == 0);
    return !sizes && !is_copy(step, "Upload");
}

/* Whether the processor reads the value; its being an output of graphs from `first` on counts, too. */
static bool is_read(const Exec *exec, uint32_t value, uint32_t first) {
    const Plan *plan = &exec->loaded->plan;
    for (uint32_t s = 0; s < plan->step_count; s++)
        for (uint32_t i = 0; i < plan->steps[s].inputs.count; i++)
            if (exec->loaded->steps[s].inputs[i] == value && looks(&exec->loaded->steps[s]))
                return true;
    for (uint32_t g = first; g < plan->graph_count; g++)
        for (uint32_t i = 0; i < plan->graphs[g].outputs.count; i++)
            if (plan->operands[plan->graphs[g].outputs.first + i] == value) return true;
    return false;
}

static bool has_device(const DemiContext *context, Err *err) {
    return context->exec.device.queue || err_set(err, ERR_USAGE, "the context has no device");
}

static bool is_aligned(const void *data, Dtype dtype) {
    return (uintptr_t)data % kernel_element_size(dtype) == 0;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

bool context_device_may_give(const DemiContext *context, const DemiData *value, Err *err) {
    if (!has_device(context, err)) return false;
    if (value->kind != DEMI_DATA_TENSOR_KIND || value->dtype == DEMI_STRING)
        return err_set(err, ERR_USAGE, "only numeric tensors can be on a device");
    uint64_t count;
    if (!kernel_element_size((Dtype)value->dtype) ||
        !checked_count(value->dims, value->rank, &count))
        return err_set(err, ERR_USAGE, "a tensor with an invalid type or shape");
    if (!count) return true;
    if (!value->data) return err_set(err, ERR_USAGE, "a tensor without memory");
    if (!is_aligned(value->data, (Dtype)value->dtype))
        return err_set(err, ERR_USAGE, "the memory is not aligned to the element size");
    return kind_of(&context->exec)->reaches(context->exec.device.queue, value->data, err);
}

/* The tables for it; false without memory for them. */
static bool make_tables(DemiContext *context) {
    Exec *exec = &context->exec;
    MemTrap trap;
    if (exec->device.given) return true;
    if (setjmp(trap.env)) return false;
    context->arena.trap = &trap;
    context->reads = ARENA_ARRAY(&context->arena, uint8_t, context->plan->input_count + 1);
    exec->device.given =
        ARENA_ARRAY(&context->arena, const void *, exec->loaded->plan.value_count + 1);
    return true;
}

bool context_device_give(DemiContext *context, size_t i, const void *data) {
    Exec *exec = &context->exec;
    if (!data && !exec->device.given) return true;
    if (!make_tables(context)) return false;
    const void **given = &exec->device.given[input_value(context, i)];
    if (*given != data) exec->device.moves++;
    *given = data;
    return true;
}

enum { ASK, READ, NOT_READ }; /* DemiContext.reads */

bool context_device_fetch(DemiContext *context, size_t i) {
    Exec *exec = &context->exec;
    const uint32_t number = input_value(context, i);
    const void *there = exec->device.given ? exec->device.given[number] : NULL;
    if (!there) return true;
    if (context->reads[i] == ASK) context->reads[i] = is_read(exec, number, 0) ? READ : NOT_READ;
    if (context->reads[i] == NOT_READ && !exec->options.after) return true;
    const KernelTensor *from = &exec->values[number].tensor->tensor;
    RtTensor *to = rt_tensor_new(&exec->pool, from->dtype, from->rank, from->dims, exec->err);
    if (!to) return false;
    const bool ok = kind_of(exec)->download(exec->device.queue, to->tensor.data, there,
                                            bytes_of(from), exec->err) &&
                    exec_device_wait(exec);
    rt_value_set(&exec->values[number], (RtValue){.state = RT_TENSOR, .tensor = to});
    return ok;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static bool may_bind(const DemiContext *context, size_t i, const void *data, Err *err) {
    const DemiPlanIo *io = &context->plan->outputs[i];
    if (io->kind != DEMI_DATA_TENSOR_KIND || io->dtype == DEMI_STRING)
        return err_set(err, ERR_USAGE, "only numeric tensors can be bound");
    if (!is_aligned(data, (Dtype)io->dtype))
        return err_set(err, ERR_USAGE, "the memory is not aligned to the element size");
    for (size_t k = 0; k < context->carries.items.count; k++)
        if (context->carries.items.items[k].output == i)
            return err_set(err, ERR_USAGE, "it is the state for an input");
    return kind_of(&context->exec)->reaches(context->exec.device.queue, data, err);
}

/* The value that the step copies to output i; PLAN_NONE where no step does. */
static uint32_t source_of(const DemiContext *context, size_t i) {
    const LoadedPlan *loaded = context->exec.loaded;
    for (uint32_t s = 0; s < loaded->plan.step_count; s++) {
        const LoadedStep *step = &loaded->steps[s];
        if (is_copy(step, "Download") && step->outputs[0] == context_output_value(context, i))
            return step->inputs[0];
    }
    return PLAN_NONE;
}

/* The tables for it; false without memory for them. */
static bool make_bindings(DemiContext *context) {
    ContextOwned *owned = &context->owned;
    MemTrap trap;
    if (owned->given_there) return true;
    if (setjmp(trap.env)) return false;
    context->arena.trap = &trap;
    owned->there =
        ARENA_ARRAY(&context->arena, struct OwnMemory, context->exec.loaded->plan.value_count + 1);
    owned->given_there =
        ARENA_ARRAY(&context->arena, struct OwnMemory, context->plan->output_count + 1);
    return true;
}

static bool bind(DemiContext *context, size_t i, struct OwnMemory memory) {
    ContextOwned *owned = &context->owned;
    Exec *exec = &context->exec;
    const uint32_t value = context_output_value(context, i), source = source_of(context, i);
    if (!make_bindings(context)) return false;
    exec->device.moves += owned->given_there[i].data != memory.data;
    if (!owned->given_there[i].data != !memory.data)
        exec_memory_forget(exec); /* its place is not needed */
    owned->given_there[i] = memory;
    exec->owned.there = owned->there;
    if (source == PLAN_NONE || is_read(exec, value, 1)) return true; /* put there behind the run */
    owned->there[value] = memory;
    const bool direct = (uintptr_t)memory.data % DEVICE_ALIGN == 0;
    owned->there[source] = direct ? memory : (struct OwnMemory){NULL, 0};
    return true;
}

DemiStatus demi_context_bind_device_output(DemiContext *context, const char *name, void *data,
                                           uint64_t size, DemiError *error) {
    const DemiPlan *plan = context->plan;
    const size_t i = plan_find_output(plan, name);
    Err err = {0};
    if (!has_device(context, &err))
        ;
    else if (i == plan->output_count)
        err_set(&err, ERR_USAGE, "the model has no such output");
    else if (data)
        may_bind(context, i, data, &err);
    if (err.code == ERR_NONE && !bind(context, i, (struct OwnMemory){data, data ? size : 0}))
        err_out_of_memory(&err);
    if (err.code != ERR_NONE) err_operand(&err, "output '%s'", name);
    return context_end(&err, error);
}

/* Puts output i where it is bound to, unless it is there. */
static bool put(DemiContext *context, size_t i) {
    Exec *exec = &context->exec;
    const struct OwnMemory *to = &context->owned.given_there[i];
    const uint32_t number = context_output_value(context, i);
    const RtValue *value = &exec->values[number];
    if (!to->data || value->state != RT_TENSOR) return true;
    const KernelTensor *from = &value->tensor->tensor;
    const uint64_t size = bytes_of(from);
    if (size > to->size) {
        err_set(exec->err, ERR_USAGE, "it is larger than the memory that it is bound to");
        err_operand(exec->err, "output '%s'", context->plan->outputs[i].name);
        err_expected(exec->err, "at most %llu bytes", (unsigned long long)to->size);
        err_actual(exec->err, "%llu", (unsigned long long)size);
        return false;
    }
    if (from->data == to->data || !size) return true;
    if (exec->owned.there[number].data) /* another output's memory */
        return kind_of(exec)->copy(exec->device.queue, to->data, from->data, size, exec->err);
    if (exec->device.pending && !exec_device_wait(exec)) return false;
    return kind_of(exec)->upload(exec->device.queue, to->data, from->data, size, exec->err);
}

/* ---- the end of a run ------------------------------------------------------------------------ */

bool context_device_end(DemiContext *context, bool ok) {
    Exec *exec = &context->exec;
    for (size_t i = 0; ok && context->owned.given_there && i < context->plan->output_count; i++)
        ok = put(context, i);
    if (ok && context->starts) return exec->device.flies = true;
    return exec_device_wait(exec) && ok;
}
