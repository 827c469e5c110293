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
