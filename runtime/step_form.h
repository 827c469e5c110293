// SPDX-License-Identifier: Apache-2.0
/* A step as it is for operands of given dtypes and dims: which kernel, what it got ready, which
 * dims its outputs have, what is to be widened. It is found once and kept for the next run: of each
 * step a context keeps the forms that were used last.
 *
 * A form may be used where the operands that are not constants have the dtypes and dims it was made
 * for. Where output dims depend on what small operands hold (the target of a Reshape), it was made
 * for their contents, too: shape functions are asked without contents first, and only if dims stay
 * open with them. So a form is never stale.
 */
#ifndef DEMI_STEP_FORM_H
#define DEMI_STEP_FORM_H

#include "exec.h"

enum { STEP_FORM_LIMIT = 8 }; /* of each step in each context */

/* Which contents of operands shape functions are told, besides those of constants. */
typedef enum FormContents { FORM_NONE, FORM_INTEGERS, FORM_ALL } FormContents;

struct StepForm {
    StepForm *next;
    Buffer *self;     /* where this and its arrays lie */
    Buffer *kept;     /* kernel_keep's, by sibling */
    const KernelRow *row;
    void *prepared;
    FormContents contents;
    bool is_view;                   /* output 0 is input 0 under these dims */
    bool widens;                    /* some operand is converted at each call */
    KernelTensor *inputs, *outputs; /* as the row sees them; of inputs, constants have data */
    bool *late;                     /* [inputs]: to be widened at each call */
    bool *unread;                   /* [inputs]: see kernel_set_unread */
    bool *stored;                   /* [inputs]: see kernel_take_stored */
    RtTensor **results;             /* [outputs]: of the call in progress, in the plan's dtypes */
    uint32_t in_place;              /* the input that output 0 may lie in, PLAN_NONE: in none */
    uint64_t *key; /* of step->varying, see value_key.h; with contents behind each */
};

/* The form for the operands' present values, made if need be; NULL with the error set. */
StepForm *step_form_get(Exec *exec, const LoadedStep *step);
/* Forgets all forms of a step. */
void step_memo_free(Exec *exec, StepMemo *memo);
/* Ends the form that was in the making when a run was jumped out of, if there is one. */
void step_form_drop(Exec *exec);

/* Fills in the outputs' ranks and dims (in scratch), given inputs with data. False with the error
 * set, or
 * (*open) where they depend on contents that were not looked at. */
bool step_shapes(Exec *exec, const LoadedStep *step, KernelCall *call, FormContents contents,
                 bool *open);
/* True where a shape function is told what the tensor holds. */
bool step_shapes_looks(const KernelTensor *tensor, FormContents contents);

/* What the row takes instead of the dtype. */
Dtype step_given(const KernelRow *row, Dtype dtype);

/* ---- calls (exec_kernel.c) ------------------------------------------------------------------- */

/* A call of a kernel, or of what gets it ready. */
struct StepCall {
    KernelCall call; /* without a host */
    Exec *exec;
    const LoadedStep *step;
    StepForm *form;
};

static inline StepCall *step_call_of(KernelCall *call) {
    return (StepCall *)((char *)call - offsetof(StepCall, call));
}
void step_call_init(StepCall *s, Exec *exec, const LoadedStep *step, StepForm *form);
/* kernel_workspace's; and the end of all that a step had. */
void *step_workspace(KernelCall *call, uint64_t size);
void step_workspace_free(Exec *exec);

#endif
