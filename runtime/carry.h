// SPDX-License-Identifier: Apache-2.0
/* What goes from one run to the next: a recurrent state, or the keys and values that a language
 * model has seen. An output that the caller declares to be carried is an input of the next run.
 *
 * Where the output is the input with something appended (a Concat whose first operand is the input, or a cache to
 * which attention adds rows: KERNEL_CACHES), and all who read either find their elements by strides (KERNEL_ROOM), it grows in place: memory
 * has room for more slices than there are, the step writes the new ones behind the others, and a
 * run copies what it adds rather than all. Such tensors have KernelTensor.room; nobody but those
 * steps sees them, as what is given out is made plain.
 */
#ifndef DEMI_CARRY_H
#define DEMI_CARRY_H

#include "exec.h"

/* The step of the main graph that appends to `from`, one of its inputs, and thereby gives `to`, one
 * of its outputs; PLAN_NONE where there is none whose result can grow in place. */
uint32_t carry_step(const LoadedPlan *loaded, uint32_t from, uint32_t to);

/* Runs that step, which is a Concat. Its first operand is as it was then, also after a failure. */
bool carry_append(Exec *exec, const LoadedStep *step);

/* Output 1 or 2 of such a step with KERNEL_CACHES, of that shape: in the memory of its input where that has room, and
 * then all of its rows are there; else in memory of its own, with room for later runs. One reference; NULL with the
 * error set past the budget. */
RtTensor *carry_cache(Exec *exec, const LoadedStep *step, uint32_t output,
                      const KernelTensor *shape);

/* The value as the next run may have it: of memory that lasts, the context's own. One reference;
 * RT_UNSET with the error set past the budget. Strings are not for it: their text ends. */
RtValue carry_keep(Exec *exec, const RtValue *value, Err *err);

/* The tensor without room: itself, or a copy. One reference; NULL with the error set past the
 * budget. */
RtTensor *carry_plain(Pool *pool, RtTensor *tensor, Err *err);
/* The same elements row-major, to memory for all of them. */
void carry_copy(void *to, const KernelTensor *tensor);

/* The first `length` slices of the axis, at most all. One reference; NULL with the error set past
 * the budget. */
RtTensor *carry_cut(Pool *pool, RtTensor *tensor, uint32_t axis, int64_t length, Err *err);

#endif
