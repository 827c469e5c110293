// SPDX-License-Identifier: Apache-2.0
/* A kernel step: its form (which kernel, what dims), memory for the outputs, the call. What the
 * kernel does not take is widened before and results are rounded once after, so a float kernel
 * serves 16-bit types as a GPU with float accumulation would. */
#include <string.h>

#include "carry.h"
#include "element_convert.h"
#include "exec_device.h"
#include "exec_memory.h"
#include "step_specialization.h"
#include "step_share.h"

/* ---- the host's side of a call --------------------------------------------------------------- */

/* Memory for output i: the result's own, or wider memory to round from. Its dims are the form's, or
 * with KERNEL_SIZES the result's. */
static bool new_output(StepCall *s, uint32_t i, uint32_t rank, const int64_t *dims) {
    StepSpecialization *form = s->form;
    KernelTensor *out = &form->outputs[i];
    uint32_t value = s->step->outputs[i];
    if (value == PLAN_NONE) return exec_fail(s->exec, s->step, "output %u is not used", i);
    Dtype dtype = (Dtype)s->exec->loaded->plan.values[value].dtype;
    if (form->results[i]) return exec_fail(s->exec, s->step, "output %u is computed twice", i);
    KernelTensor shape = {.present = true, .dtype = dtype, .rank = rank, .dims = dims};
    RtTensor *result = s->grows >> i & 1 ? carry_cache(s->exec, s->step, i, &shape)
                                         : exec_new_tensor(s->exec, value, &shape);
    if (!result) return exec_name_step(s->exec, s->step);
    form->results[i] = result;
    out->rank = rank;
    out->dims = form->row->flags & KERNEL_SIZES ? result->tensor.dims : dims;
    out->count = result->tensor.count;
    out->data = result->tensor.data;
    out->room = result->tensor.room;
    out->grown = result->tensor.grown;
    if (out->dtype == dtype) return true;
    out->data = step_workspace(&s->call, out->count * kernel_element_size(out->dtype));
    return out->data || exec_name_step(s->exec, s->step);
}

static bool host_output(KernelCall *call, uint32_t i, uint32_t rank, const int64_t *dims) {
    return new_output(step_call_of(call), i, rank, dims);
}

/* Many texts share a buffer, which are few where a run makes much text. */
static char *host_chars(KernelCall *call, uint64_t size) {
    enum { LEAST = 1 << 12, MOST = 1 << 20 };
    Exec *exec = step_call_of(call)->exec;
    Buffer *buffer = exec->text.newest;
    if (!buffer || size > buffer->size - exec->text.used) {
        uint64_t room = !buffer ? LEAST : buffer->size < MOST / 2 ? 2 * buffer->size : MOST;
        Err ignored = {0};
        buffer = buffer_new(&exec->pool, size > room ? size : room, &ignored);
        if (!buffer) buffer = buffer_new(&exec->pool, size, &ignored); /* the budget's last bytes */
        if (!buffer) arena_exhausted(&exec->scratch);
        buffer->sibling = exec->text.newest;
        exec->text.newest = buffer;
        exec->text.used = 0;
    }
    char *chars = (char *)buffer_data(buffer) + exec->text.used;
    exec->text.used += size;
    return memset(chars, 0, size);
}

void exec_text_free(Exec *exec) {
    buffer_unref_all(exec->text.newest);
    exec->text.newest = NULL;
    exec->text.used = 0;
}

static const KernelHost running = {
    .output = host_output,
    .chars = host_chars,
    .workspace = step_workspace,
    .constant = step_constant,
};

/* ---- operands -------------------------------------------------------------------------------- */

static bool set_inputs(StepCall *s) {
    const LoadedStep *step = s->step;
    StepSpecialization *form = s->form;
    for (uint32_t k = 0; k < step->varying_count; k++) {
        uint32_t i = step->varying[k];
        const KernelTensor *from = &s->exec->values[step->inputs[i]].tensor->tensor;
        form->inputs[i].data = from->data;
        if (!(form->row->flags & (KERNEL_ROOM | KERNEL_CACHES))) continue;
        form->inputs[i].room = from->room;
        form->inputs[i].grown = from->grown;
    }
    for (uint32_t i = 0; form->widens && i < s->call.input_count; i++) {
        KernelTensor *to = &form->inputs[i];
        if (!form->late[i]) continue;
        const uint32_t value = step->inputs[i];
        const KernelTensor *from = &s->exec->values[value].tensor->tensor;
        to->data = step_workspace(&s->call, to->count * kernel_element_size(to->dtype));
        if (!to->data) return exec_name_step(s->exec, s->step);
        if (s->exec->loaded->layouts[value]) {
            if (!step_write_plain(s->exec->loaded, value, to->dtype, to->data))
                return exec_fail(s->exec, step, "cannot widen input %u", i);
            continue;
        }
        element_convert(to->dtype, to->data, from->dtype, from->data, from->count);
    }
    return true;
}

/* Output 0 in the tensor of an input that ends here and that nobody else holds. */
static bool take_place(StepCall *s) {
    StepSpecialization *form = s->form;
    if (form->in_place == PLAN_NONE || s->exec->options.keeps_values) return false;
    RtValue *value = &s->exec->values[s->step->inputs[form->in_place]];
    RtTensor *tensor = value->tensor;
    if (tensor->refs != 1 || !tensor->buffer || tensor->buffer->refs != 1) return false;
    *value = (RtValue){.state = RT_UNSET};
    form->results[0] = tensor;
    return true;
}

static bool set_outputs(StepCall *s) {
    StepSpecialization *form = s->form;
    bool placed = take_place(s);
    for (uint32_t i = 0; i < s->call.output_count; i++) {
        KernelTensor *out = &form->outputs[i];
        if (!out->present) continue;
        if (i == 0 && placed) {
            bool as_is = out->dtype == form->results[0]->tensor.dtype;
            out->data =
                as_is ? form->results[0]->tensor.data
                      : step_workspace(&s->call, out->count * kernel_element_size(out->dtype));
            if (!out->data) return exec_name_step(s->exec, s->step);
        } else if (!new_output(s, i, out->rank, out->dims)) {
            return false;
        }
    }
    return true;
}

/* KERNEL_SIZES: the kernel gives the dims by kernel_output. */
static void clear_outputs(StepCall *s) {
    for (uint32_t i = 0; i < s->call.output_count; i++) {
        KernelTensor *out = &s->form->outputs[i];
        *out = (KernelTensor){.present = out->present, .dtype = out->dtype};
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

void exec_drop_results(Exec *exec) {
    StepSpecialization *form = exec->call.running;
    exec->call.running = NULL;
    for (uint32_t i = 0; form && i < exec->call.result_count; i++) {
        RtValue value = {.state = RT_TENSOR, .tensor = form->results[i]};
        if (form->results[i]) rt_value_clear(&value);
        form->results[i] = NULL;
    }
    step_workspace_free(exec);
}

static void give_results(StepCall *s) {
    StepSpecialization *form = s->form;
    for (uint32_t i = 0; i < s->call.output_count; i++) {
        RtTensor *result = form->results[i];
        const KernelTensor *out = &form->outputs[i];
        if (!result) continue;
        form->results[i] = NULL;
        if (out->dtype != result->tensor.dtype)
            element_convert(result->tensor.dtype, result->tensor.data, out->dtype, out->data,
                            out->count);
        exec_output(s->exec, s->step, i, (RtValue){.state = RT_TENSOR, .tensor = result});
    }
}

static bool call_row(StepCall *s) {
    bool sizes = s->form->row->flags & KERNEL_SIZES;
    if (sizes) clear_outputs(s);
    bool ok = set_inputs(s) && (sizes || set_outputs(s)) && s->form->row->run(&s->call);
    if (s->call.declined) return false;
    if (s->call.end && run_end_seen(s->call.end)) /* what was computed may be in part */
        return run_end_fail(s->call.end, s->exec->err);
    if (!ok && s->exec->err->code == ERR_NONE) /* or else the run would seem to go well */
        return exec_fail(s->exec, s->step, "its kernel failed without a reason");
    if (!ok) return exec_name_step(s->exec, s->step);
    for (uint32_t i = 0; sizes && i < s->call.output_count; i++)
        if (s->form->outputs[i].present && !s->form->results[i])
            return exec_fail(s->exec, s->step, "output %u was not computed", i);
    return true;
}

/* Output 0 is input 0 under another shape: nothing is copied. */
static bool run_view(Exec *exec, const LoadedStep *step, const StepSpecialization *form) {
    RtTensor *source = exec->values[step->inputs[0]].tensor;
    const KernelTensor *out = &form->outputs[0];
    RtTensor *view = rt_tensor_view(&exec->pool, source, out->rank, out->dims, exec->err);
    if (!view) return exec_name_step(exec, step);
    exec_output(exec, step, 0, (RtValue){.state = RT_TENSOR, .tensor = view});
    return true;
}

/* The device's row has changed nothing: output 0 gives back the input that it lies in. */
static bool run_here(StepCall *s) {
    Exec *exec = s->exec;
    StepSpecialization *form = s->form;
    RtValue *placed =
        form->in_place == PLAN_NONE ? NULL : &exec->values[s->step->inputs[form->in_place]];
    if (placed && placed->state == RT_UNSET && form->results[0]) {
        *placed = (RtValue){.state = RT_TENSOR, .tensor = form->results[0]};
        form->results[0] = NULL;
    }
    form->declined = s->call.declined;
    exec_drop_results(exec);
    return exec->device.declined->run(exec, s->step, s->call.seed);
}

bool exec_kernel(Exec *exec, const LoadedStep *step) {
    uint64_t seed = exec->progress.seed++;
    const uint8_t grows = exec->carry.grows ? exec->carry.grows[step - exec->loaded->steps] : 0;
    if (grows && step->rows->flags & KERNEL_JOINS) return carry_append(exec, step);
    StepSpecialization *form = step_specialization_get(exec, step);
    if (!form) return exec_name_step(exec, step);
    exec->progress.row = form->row;
    if (form->is_view) return run_view(exec, step, form);
    if (form->declined) return exec->device.declined->run(exec, step, seed);
    StepCall s;
    step_call_init(&s, exec, step, form, &running);
    s.call.seed = seed;
    s.grows = grows;
    exec->call.running = form;
    exec->call.result_count = s.call.output_count;
    bool ok = call_row(&s);
    if (s.call.declined) return run_here(&s);
    if (ok && step->device) exec_device_count(exec, form, step);
    if (ok) give_results(&s);
    exec_drop_results(exec);
    return ok;
}
