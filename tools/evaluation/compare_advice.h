// SPDX-License-Identifier: Apache-2.0
/* Which nodes are to be kept in float for a mixed model to come near enough to its float model.
 *
 * They are those whose own computation in 16 bits brings the error: the error of what such a node
 * makes is far above that of what it reads, and outputs that are beyond the bound follow from it.
 * Where both models are at hand the advice is tried: the float model is converted anew with these
 * nodes kept, and what is then still beyond adds to the advice; where no such node is left, the
 * nodes are searched for by trial (keep_search.h).
 */
#ifndef DEMI_COMPARE_ADVICE_H
#define DEMI_COMPARE_ADVICE_H

#include "compare_runs.h"
#include "progress.h"

typedef struct ComparisonAdvice {
    DemiAdvice found;
    Words keep;                 /* patterns, as DemiConvertOptions.keep takes them */
    DemiConvertOptions options; /* of a conversion with these kept */
} ComparisonAdvice;

typedef struct AdviceCase {
    Comparison *comparison; /* of both models, judged */
    Session *reference, *other;
    const DemiSource *source; /* of the reference */
    bool may_try;             /* both are models */
    bool beyond;              /* an output or pick is; else there is nothing to keep */
    const DemiLimit *limit;
    Progress *progress;
} AdviceCase;

/* What the comparison has found stays. Where the caller cancels, the advice is what was found by
 * then, and the progress says so. */
void compare_advise(const AdviceCase *ac, ComparisonAdvice *advice);

#endif
