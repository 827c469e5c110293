// SPDX-License-Identifier: Apache-2.0
/* Two options by a minimum cut; see solve_cut.h.
 *
 * With x of 0 on the source's side, a term is
 *
 *     cost00 + (cost10 - cost00) xa + (cost11 - cost10) xb + pull (1 - xa) xb
 *
 * pull being cost01 + cost10 - cost00 - cost11: arcs from the source, to the sink, and a -> b. */
#include "solve_cut.h"

#include <math.h>
#include <stdlib.h>

#include "max_flow.h"

typedef struct Cut {
    const CutProblem *problem;
    CutTerm *terms; /* one a pair, a < b */
    size_t term_count;
    uint32_t *parent; /* [count]: forest of those whose sides are bound to each other */
    uint8_t *swap;    /* [count]: x is the other option, if the parent's is not */
    double *tilt;     /* [count]: what x of 1 costs more than of 0 */
} Cut;

static double pull_of(const CutTerm *term) {
    return term->cost[0][1] + term->cost[1][0] - term->cost[0][0] - term->cost[1][1];
}

/* ---- one term a pair ------------------------------------------------------------------------- */

static int by_ends(const void *a, const void *b) {
    const CutTerm *left = a, *right = b;
    if (left->a != right->a) return left->a < right->a ? -1 : 1;
    return left->b < right->b ? -1 : left->b > right->b;
}

static void merge_terms(Cut *c, Arena *arena) {
    const CutProblem *p = c->problem;
    c->terms = ARENA_ARRAY(arena, CutTerm, p->term_count);
    for (size_t i = 0; i < p->term_count; i++) {
        const CutTerm *t = &p->terms[i];
        c->terms[i] = *t;
        if (t->a < t->b) continue;
        c->terms[i] =
            (CutTerm){t->b, t->a, {{t->cost[0][0], t->cost[1][0]}, {t->cost[0][1], t->cost[1][1]}}};
    }
    if (p->term_count) qsort(c->terms, p->term_count, sizeof *c->terms, by_ends);
    for (size_t i = 0; i < p->term_count; i++) {
        CutTerm *last = c->term_count ? &c->terms[c->term_count - 1] : NULL;
        if (!last || by_ends(last, &c->terms[i]) != 0) {
            c->terms[c->term_count++] = c->terms[i];
            continue;
        }
        for (int k = 0; k < 4; k++) last->cost[k / 2][k % 2] += c->terms[i].cost[k / 2][k % 2];
    }
}

/* ---- sides ----------------------------------------------------------------------------------- */

/* The root of one, whose side relative to it goes to *swap. */
static uint32_t root_of(Cut *c, uint32_t at, uint8_t *swap) {
    uint32_t root = at;
    *swap = 0;
    while (c->parent[root] != root) {
        *swap ^= c->swap[root];
        root = c->parent[root];
    }
    uint8_t rest = *swap;
    while (c->parent[at] != root && at != root) {
        const uint32_t next = c->parent[at];
        const uint8_t own = c->swap[at];
        c->parent[at] = root;
        c->swap[at] = rest;
        rest ^= own;
        at = next;
    }
    return root;
}

/* Binds both ends of each term to the same side, or to different ones; false where a ring of them
 * asks for both. */
static bool bind_sides(Cut *c) {
    for (size_t i = 0; i < c->term_count; i++) {
        const CutTerm *t = &c->terms[i];
        const double pull = pull_of(t);
        if (pull == 0) continue;
        uint8_t a, b;
        const uint32_t left = root_of(c, t->a, &a), right = root_of(c, t->b, &b);
        const uint8_t differ = pull < 0;
        if (left == right && (a ^ b) != differ) return false;
        if (left == right) continue;
        c->parent[right] = left;
        c->swap[right] = a ^ b ^ differ;
    }
    for (uint32_t i = 0; i < c->problem->count; i++) {
        uint8_t swap;
        root_of(c, i, &swap);
    }
    return true; /* every parent is a root now, and a root's own swap is 0 */
}

/* ---- the network ----------------------------------------------------------------------------- */

/* Linear parts into `tilt`; returns the sum of all capacities. */
static double tilt_all(Cut *c) {
    const CutProblem *p = c->problem;
    double total = 0;
    for (uint32_t i = 0; i < p->count; i++)
        c->tilt[i] = p->unary[i][!c->swap[i]] - p->unary[i][c->swap[i]];
    for (size_t i = 0; i < c->term_count; i++) {
        const CutTerm *t = &c->terms[i];
        const uint8_t a = c->swap[t->a], b = c->swap[t->b];
        c->tilt[t->a] += t->cost[!a][b] - t->cost[a][b];
        c->tilt[t->b] += t->cost[!a][!b] - t->cost[!a][b];
        total += fabs(pull_of(t));
    }
    for (uint32_t i = 0; i < p->count; i++) total += fabs(c->tilt[i]);
    return total;
}

static void solve_network(Cut *c, Arena *arena, uint8_t *choice) {
    const uint32_t count = c->problem->count, first = FLOW_SINK + 1;
    const double total = tilt_all(c), scale = total > 0 ? 0x1p60 / total : 0;
    FlowNetwork flow;
    flow_init(&flow, arena);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t node = flow_add_node(&flow);
        const int64_t tilt = (int64_t)(c->tilt[i] * scale);
        if (tilt > 0) flow_add_arc(&flow, FLOW_SOURCE, node, tilt, 0);
        if (tilt < 0) flow_add_arc(&flow, node, FLOW_SINK, -tilt, 0);
    }
    for (size_t i = 0; i < c->term_count; i++) {
        const CutTerm *t = &c->terms[i];
        const int64_t pull = (int64_t)(fabs(pull_of(t)) * scale);
        flow_add_arc(&flow, first + t->a, first + t->b, pull, 0);
    }
    flow_solve(&flow);
    for (uint32_t i = 0; i < count; i++)
        choice[i] = flow_on_source_side(&flow, first + i) ? c->swap[i] : !c->swap[i];
}

bool solve_cut(const CutProblem *problem, Arena *arena, uint8_t *choice) {
    Cut c = {.problem = problem};
    c.parent = ARENA_ARRAY(arena, uint32_t, problem->count);
    c.swap = ARENA_ARRAY(arena, uint8_t, problem->count);
    c.tilt = ARENA_ARRAY(arena, double, problem->count);
    for (uint32_t i = 0; i < problem->count; i++) c.parent[i] = i;
    merge_terms(&c, arena);
    if (!bind_sides(&c)) return false;
    solve_network(&c, arena, choice);
    return true;
}
