// SPDX-License-Identifier: Apache-2.0
/* "Did you mean": the candidate nearest to a misspelt name, by Levenshtein distance. Names are
 * compared by at most their first 64 bytes, ignoring case; nothing nearer than about a third of the
 * name's length counts as unlike. */
#ifndef DEMI_BASE_TEXT_DISTANCE_H
#define DEMI_BASE_TEXT_DISTANCE_H

#include <stddef.h>

typedef struct NearestName {
    const char *wanted;
    const char *best; /* borrowed from the candidates; NULL while none is near */
    size_t distance;
} NearestName;

NearestName nearest_name_of(const char *wanted);
void nearest_name_try(NearestName *nearest, const char *candidate);

#endif
