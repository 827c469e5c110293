// SPDX-License-Identifier: Apache-2.0
/* Where a list of scores crosses a target: AIMET's three ways of looking, which ask for a score at a
 * place only when they need it. */
#ifndef DEMI_AIMET_SEARCH_H
#define DEMI_AIMET_SEARCH_H

#include "arena.h"

#include <stdbool.h>

typedef enum AimetSearch {
    AIMET_BINARY,
    AIMET_INTERPOLATION,
    AIMET_BRUTE_FORCE,
} AimetSearch;

/* Scores by place. */
typedef struct AimetValues {
    size_t count; /* one at least */
    bool rising;  /* they are thought to rise; otherwise to fall */
    bool (*value)(void *user, size_t place, double *value); /* false ends the search; never NaN */
    /* Asked as the search goes on: the result is one of these places; false ends it. NULL: always */
    bool (*worthwhile)(void *user, size_t first, size_t last);
    void *user;
} AimetValues;

/* The last place, as long as scores fall, at which the score reaches the target; the first one where
 * none does. Of rising ones the first that reaches it, or the last. No score is asked for twice. False
 * where the search was ended. `arena` holds what is asked. */
bool aimet_search(AimetSearch search, const AimetValues *values, double target, Arena *arena,
                  size_t *place);

#endif
