// SPDX-License-Identifier: Apache-2.0
/* Sums over assignments; see solve_problem.h. */
#include "solve_problem.h"

#include <math.h>

bool solve_allowed(const SolveProblem *p, uint32_t group, uint8_t candidate) {
    return !p->allowed || p->allowed[solve_at(p, group, candidate)];
}

uint8_t solve_first(const SolveProblem *p, uint32_t group) {
    for (uint8_t c = 0; c < p->candidates; c++)
        if (solve_allowed(p, group, c)) return c;
    return 0;
}

bool solve_usable(const SolveProblem *p, uint32_t group, uint8_t candidate) {
    if (!solve_allowed(p, group, candidate)) return false;
    return isfinite(p->noise[solve_at(p, group, candidate)]) || candidate == solve_first(p, group);
}

double solve_noise_of(const SolveProblem *p, uint32_t group, uint8_t candidate) {
    const double noise = p->noise[solve_at(p, group, candidate)];
    return isfinite(noise) ? noise : 0;
}

void solve_uniform(const SolveProblem *p, uint8_t candidate, uint8_t *assignment) {
    for (uint32_t g = 0; g < p->groups; g++)
        assignment[g] = solve_allowed(p, g, candidate) ? candidate : solve_first(p, g);
}

static double sum_of(const SolveProblem *p, const double *table, const uint8_t *assignment) {
    double sum = 0;
    for (uint32_t g = 0; g < p->groups; g++) sum += table[solve_at(p, g, assignment[g])];
    return sum;
}

double solve_cost(const SolveProblem *p, const uint8_t *assignment) {
    double sum = sum_of(p, p->cost, assignment);
    for (size_t i = 0; i < p->pair_count; i++) {
        const SolvePair *pair = &p->pairs[i];
        sum += pair->cost[(size_t)assignment[pair->a] * p->candidates + assignment[pair->b]];
    }
    return sum;
}

double solve_second(const SolveProblem *p, const uint8_t *assignment) {
    return p->second ? sum_of(p, p->second, assignment) : 0;
}

double solve_noise(const SolveProblem *p, const uint8_t *assignment) {
    double sum = 0;
    for (uint32_t g = 0; g < p->groups; g++) {
        if (!solve_usable(p, g, assignment[g])) return INFINITY;
        sum += solve_noise_of(p, g, assignment[g]);
    }
    return sum;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool check_tables(const SolveProblem *p, Err *err) {
    const size_t count = (size_t)p->groups * p->candidates;
    for (size_t i = 0; i < count; i++) {
        const uint32_t group = (uint32_t)(i / p->candidates);
        if (!isfinite(p->cost[i]) || (p->second && !isfinite(p->second[i])))
            return err_set(err, ERR_USAGE, "group %u has a cost that is not finite", group);
        if (p->noise[i] < 0) return err_set(err, ERR_USAGE, "group %u has negative noise", group);
    }
    for (uint32_t g = 0; g < p->groups; g++)
        if (!solve_allowed(p, g, solve_first(p, g)))
            return err_set(err, ERR_USAGE, "group %u supports none of the candidates", g);
    return true;
}

bool solve_problem_check(const SolveProblem *p, Err *err) {
    if (p->candidates == 0 || p->candidates > SOLVE_CANDIDATES)
        return err_set(err, ERR_USAGE, "%u candidates: 1 to %d are supported", p->candidates,
                       SOLVE_CANDIDATES);
    for (size_t i = 0; i < p->pair_count; i++) {
        const SolvePair *pair = &p->pairs[i];
        if (pair->a >= p->groups || pair->b >= p->groups || pair->a == pair->b)
            return err_set(err, ERR_USAGE, "pair %zu does not consist of two groups", i);
        for (size_t k = 0; k < (size_t)p->candidates * p->candidates; k++)
            if (!isfinite(pair->cost[k]))
                return err_set(err, ERR_USAGE, "pair %zu has a cost that is not finite", i);
    }
    return check_tables(p, err);
}
