// SPDX-License-Identifier: Apache-2.0
/* "Did you mean": the candidate nearest to a misspelt name, by Levenshtein distance. Names are
 * compared ignoring case, by at most the first 64 bytes of what lies between the beginning and the
 * end that they share; what is further than about a third of the name's length counts as unlike. */
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

/* The same where the wanted name is a glob: '*' is like any text, '?' like any character. */
void nearest_name_try_glob(NearestName *nearest, const char *candidate);

#endif
