// SPDX-License-Identifier: Apache-2.0
/* Calls of kernels; see step_call.h. */
#include "step_call.h"

static void *workspace_of(Pool *pool, KernelCall *call, uint64_t size) {
    Exec *exec = step_call_of(call)->exec;
    Buffer *buffer = buffer_new(pool, size, call->err);
    if (!buffer) return NULL;
    buffer->sibling = exec->call.workspace;
    exec->call.workspace = buffer;
    return buffer_data(buffer);
}

void *step_workspace(KernelCall *call, uint64_t size) {
    return workspace_of(step_pool(step_call_of(call)), call, size);
}

void *step_host_workspace(KernelCall *call, uint64_t size) {
    return workspace_of(&step_call_of(call)->exec->pool, call, size);
}
