// SPDX-License-Identifier: Apache-2.0
/* What a step has of its constants: as the plan stores them, widened, or packed for its kernel;
 * in place where the plan's file has that, else made once for all contexts (plan_share.h). */
#ifndef DEMI_STEP_SHARE_H
#define DEMI_STEP_SHARE_H

#include "step_call.h"

/* Hosts' functions of these names; see kernel.h. Without `pack`, the elements in the call's type. */
const void *step_share(KernelCall *call, uint32_t i, KernelPack pack, uint64_t variant,
                       uint64_t size);
const void *step_weights(KernelCall *call, uint32_t i, const WeightLayout *layout);
const void *step_stored_weights(KernelCall *call, uint32_t i, const WeightLayout *layout);
const KernelTensor *step_constant(KernelCall *call, uint32_t i);

/* True where what the row takes as float is 16 bit in the plan. */
bool step_stored_narrow(const StepCall *s, uint32_t i);

/* Writes the elements of a constant, in the dtype, which is its own or a wider one. */
bool step_write_plain(const LoadedPlan *loaded, uint32_t value, Dtype dtype, void *to);

/* The elements of a constant that the plan has packed, for those who watch; counted in no budget.
 * NULL out of memory. */
const void *step_plain(const LoadedPlan *loaded, uint32_t value);

#endif
