// SPDX-License-Identifier: Apache-2.0
/* Calls of kernels; see step_call.h. */
#include "step_call.h"

void *step_workspace(KernelCall *call, uint64_t size) {
    Exec *exec = step_call_of(call)->exec;
    Buffer *buffer = buffer_new(&exec->pool, size, call->err);
    if (!buffer) return NULL;
    buffer->sibling = exec->call.workspace;
    exec->call.workspace = buffer;
    return buffer_data(buffer);
}

void step_workspace_free(Exec *exec) {
    buffer_unref_all(&exec->pool, exec->call.workspace);
    exec->call.workspace = NULL;
}

void step_call_init(StepCall *s, Exec *exec, const LoadedStep *step, StepForm *form,
                    const KernelHost *host) {
    s->exec = exec;
    s->step = step;
    s->form = form;
    s->call = (KernelCall){.row = form->row,
                           .attrs = step->kernel_attrs,
                           .inputs = form->inputs,
                           .outputs = form->outputs,
                           .input_count = step->plan->inputs.count,
                           .output_count = step->plan->outputs.count,
                           .opset = step->opset,
                           .workers = exec->options.workers,
                           .provider = exec->options.provider,
                           .faithful = exec->options.faithful,
                           .scratch = &exec->scratch,
                           .err = exec->err,
                           .prepared = form->prepared,
                           .constant = step->constant,
                           .host = host};
}
