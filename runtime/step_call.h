// SPDX-License-Identifier: Apache-2.0
/* A step's form and the call of its kernel: what gets forms ready (step_specialization.h) and what runs steps
 * (exec_kernel.c) have in common. */
#ifndef DEMI_STEP_CALL_H
#define DEMI_STEP_CALL_H

#include "exec.h"

/* Which contents of operands shape functions are told, besides those of constants. */
typedef enum FormContents { FORM_NONE, FORM_INTEGERS, FORM_ALL } FormContents;

struct StepSpecialization {
    StepSpecialization *next;
    Buffer *self; /* where this and its arrays lie */
    Buffer *kept; /* kernel_keep's, by sibling */
    const KernelRow *row;
    void *prepared;
    FormContents contents;
    const char *declined;           /* by the device, why (kernel_decline); NULL: it was not */
    bool is_view;                   /* output 0 is input 0 under these dims */
    bool widens;                    /* some operand is converted at each call */
    KernelTensor *inputs, *outputs; /* as the row sees them; of inputs, constants have data */
    bool *late;                     /* [inputs]: to be widened at each call */
    bool *unread;                   /* [inputs]: see kernel_set_unread */
    bool *stored;                   /* [inputs]: see kernel_take_stored */
    RtTensor **results;             /* [outputs]: of the call in progress, in the plan's dtypes */
    uint32_t in_place;              /* the input that output 0 may lie in, PLAN_NONE: in none */
    StepWay way;                    /* all 0 but `kind` where it was not to be had */
    uint64_t *key; /* of step->varying, see value_key.h; with contents behind each */
};

/* A call of a kernel, or of what gets it ready. */
struct StepCall {
    KernelCall call;
    Exec *exec;
    const LoadedStep *step;
    StepSpecialization *form;
    uint8_t grows; /* ExecCarry's, of the step */
};

static inline StepCall *step_call_of(KernelCall *call) {
    return (StepCall *)((char *)call - offsetof(StepCall, call));
}

/* The memory that the step computes in. */
static inline Pool *step_pool(StepCall *s) {
    return s->step->device ? &s->exec->device.pool : &s->exec->pool;
}

/* kernel_workspace's; the same of the host's memory, wherever the step runs; and the end of all that a step had. */
void *step_workspace(KernelCall *call, uint64_t size);
void *step_host_workspace(KernelCall *call, uint64_t size);
static inline void step_workspace_free(Exec *exec) {
    if (exec->call.workspace) buffer_unref_all(exec->call.workspace);
    exec->call.workspace = NULL;
}

/* The call of the form's row; what it may ask of `host` is the caller's to say. Inline, as the line
 * above: models of small steps have little else to do. */
static inline void step_call_init(StepCall *s, Exec *exec, const LoadedStep *step,
                                  StepSpecialization *form, const KernelHost *host) {
    s->exec = exec;
    s->step = step;
    s->form = form;
    s->grows = 0;
    s->call = (KernelCall){.row = form->row,
                           .attrs = step->kernel_attrs,
                           .inputs = form->inputs,
                           .outputs = form->outputs,
                           .input_count = step->plan->inputs.count,
                           .output_count = step->plan->outputs.count,
                           .opset = step->opset,
                           .workers = form->way.alone ? NULL : exec->options.workers,
                           .choice = form->way.choice,
                           .provider = exec->options.provider,
                           .faithful = exec->options.faithful,
                           .small = exec->options.small,
                           .unread = step->unread,
                           .cpu = exec->options.notes ? &exec->options.notes->cpu : NULL,
                           .scratch = &exec->scratch,
                           .err = exec->err,
                           .prepared = form->prepared,
                           .constant = step->constant,
                           .host = host,
                           .end = exec->options.end,
                           .queue = step->device ? exec->device.queue : NULL};
}

#endif
