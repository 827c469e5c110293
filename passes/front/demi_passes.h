// SPDX-License-Identifier: Apache-2.0
/* What is behind a DemiPasses: the passes of the library and those of plug-ins, as one table. */
#ifndef DEMI_PASSES_HANDLE_H
#define DEMI_PASSES_HANDLE_H

#include "demi.h"
#include "pass.h"

/* The table that a handle stands for; NULL: the library's own. */
const PassTable *demi_passes_table(const DemiPasses *passes);

#endif
