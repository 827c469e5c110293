// SPDX-License-Identifier: Apache-2.0
/* All that can be known of a model's validity without running it. */
#ifndef DEMI_STRICT_CHECK_H
#define DEMI_STRICT_CHECK_H

#include "graph.h"

/* Structure, form, operators against their definitions, types and shapes, as ONNX's full check with
 * strict inference has them. The model stays as it is. ERR_MODEL names the first fault. */
bool strict_check(Model *model, Arena *scratch, Err *err);

#endif
