// SPDX-License-Identifier: Apache-2.0
/* Levenshtein distance with one row; see text_distance.h. */
#include "text_distance.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 64 };

static size_t length_of(const char *text) {
    size_t length = strlen(text);
    return length < LONGEST ? length : LONGEST;
}

static size_t distance(const char *a, const char *b) {
    size_t row[LONGEST + 1], la = length_of(a), lb = length_of(b);
    for (size_t j = 0; j <= lb; j++) row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            int same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            size_t best = diagonal + (same ? 0 : 1);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[lb];
}

NearestName nearest_name_of(const char *wanted) {
    return (NearestName){.wanted = wanted, .distance = length_of(wanted) / 3 + 2};
}

void nearest_name_try(NearestName *nearest, const char *candidate) {
    size_t d = distance(nearest->wanted, candidate);
    if (d >= nearest->distance) return;
    nearest->distance = d;
    nearest->best = candidate;
}
