// SPDX-License-Identifier: Apache-2.0
/* The passes demi ships: passes.def lists them, one file each. */
#ifndef DEMI_PASSES_H
#define DEMI_PASSES_H

#include "pass.h"

#define X(symbol) extern const PassInfo symbol##_pass;
#include "passes.def"
#undef X

/* All of them, in the order of passes.def. */
extern const PassTable demi_passes;

#endif
