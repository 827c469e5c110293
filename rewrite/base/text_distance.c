// SPDX-License-Identifier: Apache-2.0
/* Levenshtein distance with one row; see text_distance.h. */
#include "text_distance.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool same(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* `a` may hold wildcards where `glob`. */
static size_t distance(const char *a, size_t la, const char *b, size_t lb, bool glob) {
    size_t row[LONGEST + 1];
    for (size_t j = 0; j <= lb; j++) row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        bool star = glob && a[i - 1] == '*', any = glob && a[i - 1] == '?';
        size_t diagonal = row[0];
        row[0] += !star;
        for (size_t j = 1; j <= lb; j++) {
            size_t above = row[j], best = diagonal + !(any || same(a[i - 1], b[j - 1]));
            best = least(best, least(above + 1, row[j - 1] + 1));
            row[j] = star ? least(above, row[j - 1]) : best;
            diagonal = above;
        }
    }
    return row[lb];
}

NearestName nearest_name_of(const char *wanted) {
    return (NearestName){.wanted = wanted, .distance = least(strlen(wanted), LONGEST) / 3 + 2};
}

static void take(NearestName *nearest, const char *candidate, size_t d) {
    if (d >= nearest->distance) return;
    nearest->distance = d;
    nearest->best = candidate;
}

/* What both begin and end with says nothing: names in a model may share most of what they have. */
void nearest_name_try(NearestName *nearest, const char *candidate) {
    const char *a = nearest->wanted, *b = candidate;
    while (*a && *b && same(*a, *b)) a++, b++;
    size_t la = strlen(a), lb = strlen(b);
    while (la && lb && same(a[la - 1], b[lb - 1])) la--, lb--;
    take(nearest, candidate, distance(a, least(la, LONGEST), b, least(lb, LONGEST), false));
}

void nearest_name_try_glob(NearestName *nearest, const char *candidate) {
    const char *a = nearest->wanted, *b = candidate;
    while (*a && *a != '*' && *a != '?' && *b && same(*a, *b)) a++, b++;
    take(nearest, candidate,
         distance(a, least(strlen(a), LONGEST), b, least(strlen(b), LONGEST), true));
}
