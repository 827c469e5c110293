// SPDX-License-Identifier: Apache-2.0
/* Shape specialization of a step: which kernel computes it for operands of given dtypes and dims, what the kernel
 * prepared, the dims of its outputs, and which operands are widened. It is found once and kept for the next run: each
 * context keeps the specializations of a step that were used last.
 *
 * A specialization is valid for operands with the same dtypes and dims, constants aside. If output dims depend on the
 * contents of small operands (the target of a Reshape), it is specialized for these contents, too: shape functions are
 * first asked without contents, and again with contents if dims stay unknown. A specialization is therefore never stale.
 */
#ifndef DEMI_STEP_SPECIALIZATION_H
#define DEMI_STEP_SPECIALIZATION_H

#include "step_call.h"

enum { STEP_SPECIALIZATION_LIMIT = 8 }; /* of each step in each context */

/* The specialization for the operands' present values, made if necessary; NULL with the error set. */
StepSpecialization *step_specialization_get(Exec *exec, const LoadedStep *step);
/* A new specialization, not kept. With options.notes, only by the operands' dtypes and dims. */
StepSpecialization *step_specialization_make(Exec *exec, const LoadedStep *step);
void step_specialization_free(StepSpecialization *specialization);
/* Frees all specializations of a step. */
void step_memo_free(StepMemo *memo);
/* Frees the specialization that was being made when a run was jumped out of, if any. */
void step_specialization_drop(Exec *exec);

/* Fills in the outputs' ranks and dims (in scratch), given inputs with data. False with the error
 * set, or
 * (*open) where they depend on contents that were not looked at. */
bool step_shapes(Exec *exec, const LoadedStep *step, KernelCall *call, FormContents contents,
                 bool *open);
/* True where a shape function is told what the tensor holds. */
bool step_shapes_looks(const KernelTensor *tensor, FormContents contents);

#endif
