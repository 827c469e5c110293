// SPDX-License-Identifier: Apache-2.0
/* What demi's own tools may see behind demi.h's handles; not installed. */
#ifndef DEMI_FRONT_H
#define DEMI_FRONT_H

#include "demi.h"
#include "graph.h"

/* The model behind the handle, owned by it; read-only for tools that print more than demi.h tells.
 */
const Model *demi_front_model(const DemiModel *model);

#endif
