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

#include "step_call.h"

enum { STEP_FORM_LIMIT = 8 }; /* of each step in each context */

/* The form for the operands' present values, made if need be; NULL with the error set. */
StepForm *step_form_get(Exec *exec, const LoadedStep *step);
/* A new form, not kept. With options.notes, only by the operands' dtypes and dims. */
StepForm *step_form_make(Exec *exec, const LoadedStep *step);
void step_form_free(StepForm *form);
/* Forgets all forms of a step. */
void step_memo_free(StepMemo *memo);
/* Ends the form that was in the making when a run was jumped out of, if there is one. */
void step_form_drop(Exec *exec);

/* Fills in the outputs' ranks and dims (in scratch), given inputs with data. False with the error
 * set, or
 * (*open) where they depend on contents that were not looked at. */
bool step_shapes(Exec *exec, const LoadedStep *step, KernelCall *call, FormContents contents,
                 bool *open);
/* True where a shape function is told what the tensor holds. */
bool step_shapes_looks(const KernelTensor *tensor, FormContents contents);

#endif
