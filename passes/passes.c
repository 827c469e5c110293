// SPDX-License-Identifier: Apache-2.0
/* The table of the passes that demi ships, made of passes.def. */
#include "passes.h"

#define X(symbol) &symbol##_pass,
static const PassInfo *const all_passes[] = {
#include "passes.def"
};
#undef X

#define FORMERLY(former, name) {former, name},
static const FormerName former_names[] = {
#include "former_names.def"
};

const PassTable demi_passes = {.passes = all_passes,
                               .count = sizeof all_passes / sizeof *all_passes,
                               .former = former_names,
                               .former_count = sizeof former_names / sizeof *former_names};
