// SPDX-License-Identifier: Apache-2.0
/* The table of the passes that demi ships, made of passes.def. */
#include "passes.h"

#define X(symbol) &symbol##_pass,
static const PassInfo *const all_passes[] = {
#include "passes.def"
};
#undef X

const PassTable demi_passes = {all_passes, sizeof all_passes / sizeof *all_passes};
