// SPDX-License-Identifier: Apache-2.0
/* Which opset a conversion needs: the first one at which the operators that are worth converting
 * may take the target type. */
#ifndef DEMI_LEAST_OPSET_H
#define DEMI_LEAST_OPSET_H

#include "node_choice.h"

/* The least opset, from the model's own on, at which every float node of class LOW that is not
 * excluded may have `target` on its first input; nodes that never may do not count. 0 where all may
 * at the opset that their graph has: nothing is to be raised. Functions count with their bodies and
 * their own imports. Types of inputs should be known (infer-dtypes): unknown ones count as float.
 */
int64_t least_opset_for(const Model *model, Dtype target, const ChosenNodes *chosen,
                        Arena *scratch);

#endif
