// SPDX-License-Identifier: Apache-2.0
/* Searching lists of scores; see aimet_search.h. Falling ones are read backwards, as rising. */
#include "aimet_search.h"

#include <math.h>

typedef struct Reading {
    const AimetValues *values;
    double *held; /* [count], by place */
    bool *known;
} Reading;

static size_t place_of(const Reading *r, size_t rank) {
    return r->values->rising ? rank : r->values->count - 1 - rank;
}

static bool read_place(Reading *r, size_t place, double *value) {
    if (!r->known[place] && !r->values->value(r->values->user, place, &r->held[place]))
        return false;
    r->known[place] = true;
    *value = r->held[place];
    return true;
}

/* Ranks are places in rising order. */
static bool is_worthwhile(const Reading *r, size_t first, size_t last) {
    if (!r->values->worthwhile) return true;
    const size_t a = place_of(r, first), b = place_of(r, last);
    return r->values->worthwhile(r->values->user, a < b ? a : b, a < b ? b : a);
}

/* Where to look between two ranks, of which the lower one's score is too low and the upper one's
 * reaches the target. */
static size_t between(AimetSearch search, size_t left, size_t right, const double target[3]) {
    double share = 0.5;
    if (search == AIMET_INTERPOLATION) {
        share = (target[0] - target[1]) / (target[2] - target[1]);
        if (!isfinite(share)) share = 0.5;
    }
    const double rank = (double)left + (double)(right - left) * share;
    if (rank <= (double)(left + 1)) return left + 1;
    return rank >= (double)(right - 1) ? right - 1 : (size_t)rank;
}

/* Narrows the bracket until the two are neighbors. */
static bool narrow(AimetSearch search, Reading *r, double target, size_t *rank) {
    size_t left = 0, right = r->values->count - 1;
    double low, high;
    if (!is_worthwhile(r, left, right) || !read_place(r, place_of(r, left), &low)) return false;
    *rank = left;
    if (target <= low) return true;
    *rank = right;
    if (!read_place(r, place_of(r, right), &high)) return false;
    if (target >= high) return true;
    while (right - left > 1) {
        const double at[3] = {target, low, high};
        const size_t middle = between(search, left, right, at);
        double value;
        if (!is_worthwhile(r, left + 1, right)) return false;
        if (!read_place(r, place_of(r, middle), &value)) return false;
        if (value <= target) {
            left = middle;
            low = value;
        }
        if (value >= target) {
            right = middle;
            high = value;
        }
    }
    *rank = right;
    return true;
}

/* One by one, from the first place. */
static bool scan(Reading *r, double target, size_t *place) {
    const size_t count = r->values->count;
    const bool rising = r->values->rising;
    for (size_t i = 0; i < count; i++) {
        double value;
        *place = i;
        if (r->values->worthwhile &&
            !r->values->worthwhile(r->values->user, i && !rising ? i - 1 : i, count - 1))
            return false;
        if (!read_place(r, i, &value)) return false;
        if (rising ? value >= target : value == target) return true;
        if (!rising && value < target) {
            *place = i ? i - 1 : 0;
            return true;
        }
    }
    return true;
}

bool aimet_search(AimetSearch search, const AimetValues *values, double target, Arena *arena,
                  size_t *place) {
    Reading r = {.values = values};
    r.held = ARENA_ARRAY(arena, double, values->count);
    r.known = ARENA_ARRAY(arena, bool, values->count);
    if (search == AIMET_BRUTE_FORCE) return scan(&r, target, place);
    size_t rank;
    if (!narrow(search, &r, target, &rank)) return false;
    *place = place_of(&r, rank);
    return true;
}
