// SPDX-License-Identifier: Apache-2.0
/* All that can be known of a model's validity without running it. */
#ifndef DEMI_STRICT_CHECK_H
#define DEMI_STRICT_CHECK_H

#include "graph.h"

enum {
    STRICT_SHAPES = 1, /* shapes, too: not where nothing has changed since they were checked */
    STRICT_FORMAL =
        2, /* what no reader needs: inputs and outputs declare types with shapes, and no operator
                          is deprecated at its opset */
    STRICT_ALL = STRICT_SHAPES | STRICT_FORMAL,
};

/* Structure, form, operators against their definitions, types and shapes: all `parts` are what ONNX's full
 * check with strict inference has. The model stays as it is. ERR_MODEL names the first fault. */
bool strict_check(Model *model, unsigned parts, Arena *scratch, Err *err);

#endif
