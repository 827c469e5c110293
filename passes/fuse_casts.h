// SPDX-License-Identifier: Apache-2.0
/* Cast fusion for passes that make casts. */
#ifndef DEMI_FUSE_CASTS_H
#define DEMI_FUSE_CASTS_H

#include "pass.h"

typedef enum FuseRules {
    FUSE_ALL,   /* every cast that changes nothing goes, and chains of demi's own */
    FUSE_OWN,   /* of these, only casts that demi inserted */
    FUSE_EXACT, /* FUSE_OWN without chains of demi's own that round */
} FuseRules;

/* What the pass fuse-casts does. True where something changed. */
bool fuse_casts(PassCtx *ctx, FuseRules rules);

#endif
