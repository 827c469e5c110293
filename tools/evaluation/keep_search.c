// SPDX-License-Identifier: Apache-2.0
/* Nodes to keep, as a problem of the solvers; see keep_search.h. */
#include "keep_search.h"

#include <math.h>
#include <string.h>

#include "choose.h"
#include "node_pattern.h"

enum { FLOAT, LOW, CANDIDATES };
enum { BLOCKS = 16 };

/* Of NaN, infinity and what can't be compared: far beyond any bound, though finite, as some nodes of a
 * block may be innocent. */
static const double worst_noise = 1e100;

/* Neighbors in the model's order, which are decided about together. */
typedef struct Block {
    size_t first, end;
    double noise; /* what lowering them alone does, as far as it is known */
} Block;

/* What was tried: the trace's scores come from here. */
typedef struct Tried {
    const bool *kept; /* [low.count] */
    TrialResult result;
} Tried;

typedef struct Search {
    Trials *trials;
    Arena *arena;
    const DemiConvertOptions *base;
    double most;
    Words low; /* patterns of nodes that may be low, each of one name, in the model's order */
    VEC(Tried) tried;
    VEC(Block) blocks;
    SolveProblem problem; /* groups: the blocks */
    SolveTrace trace;
    size_t before; /* trials that were run before this search */
    DemiConvertOptions options;
    Err *err;
} Search;

/* ---- trials ---------------------------------------------------------------------------------- */

static const bool *kept_by(const Search *s, const uint8_t *assignment) {
    bool *kept = ARENA_ARRAY(s->arena, bool, s->low.count + 1);
    for (uint32_t b = 0; b < s->problem.groups; b++)
        for (size_t n = s->blocks.items[b].first; n < s->blocks.items[b].end; n++)
            kept[n] = assignment[b] == FLOAT;
    return kept;
}

/* The base's patterns and the nodes that are kept. */
static void set_keep(Search *s, const bool *kept) {
    Words keep = {0};
    for (size_t i = 0; i < s->base->keep_count; i++) VEC_PUSH(s->arena, &keep, s->base->keep[i]);
    for (size_t n = 0; n < s->low.count; n++)
        if (kept[n]) VEC_PUSH(s->arena, &keep, s->low.items[n]);
    s->options.keep = keep.items;
    s->options.keep_count = keep.count;
}

static const Tried *find_tried(const Search *s, const bool *kept) {
    for (size_t i = 0; i < s->tried.count; i++)
        if (memcmp(s->tried.items[i].kept, kept, s->low.count * sizeof *kept) == 0)
            return &s->tried.items[i];
    return NULL;
}

static bool try_kept(Search *s, const bool *kept, Err *err) {
    const size_t done = s->trials->done - s->before;
    TrialResult result = {.arena = s->arena};
    set_keep(s, kept);
    if (!progress_tell(&s->trials->progress, "finding nodes to keep", done, KEEP_TRIALS, err) ||
        !trials_run(s->trials, &s->options, &result, err))
        return false;
    VEC_PUSH(s->arena, &s->tried, ((Tried){kept, result}));
    return true;
}

static bool evaluate(void *user, const uint8_t *assignment, double *score, Err *err) {
    Search *s = user;
    const bool *kept = kept_by(s, assignment);
    if (!find_tried(s, kept) && !try_kept(s, kept, err)) return false;
    *score = -find_tried(s, kept)->result.judgment.error;
    return true;
}

static bool stop(void *user) {
    const Search *s = user;
    return s->trials->done - s->before >= KEEP_TRIALS;
}

/* ---- the problem ----------------------------------------------------------------------------- */

/* What is to be least is the number of nodes that are kept. */
static void pose(Search *s) {
    const SolveOracle oracle = {.evaluate = evaluate, .stop = stop, .user = s};
    const uint32_t count = (uint32_t)s->blocks.count;
    double *noise = ARENA_ARRAY(s->arena, double, count *CANDIDATES + 1);
    double *cost = ARENA_ARRAY(s->arena, double, count *CANDIDATES + 1);
    s->problem =
        (SolveProblem){.groups = count, .candidates = CANDIDATES, .noise = noise, .cost = cost};
    for (uint32_t b = 0; b < count; b++) {
        const Block *block = &s->blocks.items[b];
        cost[solve_at(&s->problem, b, FLOAT)] = (double)(block->end - block->first);
        noise[solve_at(&s->problem, b, LOW)] = block->noise;
    }
    solve_trace_init(&s->trace, &s->problem, &oracle, s->arena, s->err);
}

static bool score(Search *s, const uint8_t *assignment, double *value) {
    size_t point;
    if (!solve_trace_score(&s->trace, assignment, &point)) return false;
    *value = solve_value(&s->trace, point);
    return true;
}

static bool score_uniform(Search *s, uint8_t candidate, double *value) {
    uint8_t *assignment = ARENA_ARRAY(s->arena, uint8_t, s->problem.groups + 1);
    solve_uniform(&s->problem, candidate, assignment);
    return score(s, assignment, value);
}

/* Errors are largest differences: what several bring adds up about as its square. */
static bool measure_blocks(Search *s) {
    for (uint32_t b = 0; b < s->problem.groups; b++) {
        uint8_t *assignment = ARENA_ARRAY(s->arena, uint8_t, s->problem.groups);
        double value;
        solve_uniform(&s->problem, FLOAT, assignment);
        assignment[b] = LOW;
        if (!score(s, assignment, &value)) return false;
        s->blocks.items[b].noise = fmin(value * value, worst_noise);
    }
    return true;
}

/* ---- searching ------------------------------------------------------------------------------- */

static bool refuse(const Search *s, double least) {
    err_set(s->err, ERR_MODEL, "no set of nodes to keep brings the outputs' error down to %g",
            s->most);
    err_actual(s->err, "%.3g with every node in float32", -least);
    err_file(s->err, s->trials->path);
    return false;
}

/* The best that was tried: the fewest nodes that are enough. */
static const Tried *best_tried(const Search *s) {
    const Tried *best = NULL;
    size_t least = 0;
    for (size_t i = 0; i < s->tried.count; i++) {
        const Tried *tried = &s->tried.items[i];
        size_t count = 0;
        for (size_t n = 0; n < s->low.count; n++) count += tried->kept[n];
        if (!(tried->result.judgment.error <= s->most) || (best && count >= least)) continue;
        best = tried;
        least = count;
    }
    return best;
}

/* Halves what stayed float, and each half is thought to bring as much. False where that is single nodes. */
static bool split(Search *s) {
    const size_t best = solve_cheapest(&s->trace, -s->most);
    const uint8_t *assignment = solve_point(&s->trace, best)->assignment;
    VEC(Block) blocks = {0};
    bool some = false;
    for (size_t b = 0; b < s->blocks.count; b++) {
        Block block = s->blocks.items[b];
        const size_t half = (block.end - block.first) / 2;
        if (assignment[b] == FLOAT && half > 0) {
            some = true;
            block.noise /= 2;
            VEC_PUSH(s->arena, &blocks, ((Block){block.first, block.first + half, block.noise}));
            block.first += half;
        }
        VEC_PUSH(s->arena, &blocks, block);
    }
    s->blocks.items = blocks.items;
    s->blocks.count = blocks.count;
    return some;
}

/* The blocks' assignment that keeps what the best one does: that was tried. */
static bool score_best(Search *s) {
    uint8_t *assignment = ARENA_ARRAY(s->arena, uint8_t, s->problem.groups + 1);
    const Tried *best = best_tried(s);
    double value;
    for (uint32_t b = 0; b < s->problem.groups; b++)
        assignment[b] = best->kept[s->blocks.items[b].first] ? FLOAT : LOW;
    return score(s, assignment, &value);
}

/* What stayed float is lowered in ever smaller parts, at last with others raised for it. */
static bool refine(Search *s) {
    static const ChooseEffort parts = {.lowering = KEEP_TRIALS, .thorough = true};
    static const ChooseEffort nodes = {
        .lowering = KEEP_TRIALS, .repairs = KEEP_TRIALS, .thorough = true};
    for (bool halved = true; halved && !stop(s);) {
        halved = split(s);
        pose(s);
        if (!score_best(s) || !choose_repair(&s->trace, -s->most, halved ? &parts : &nodes))
            return false;
    }
    return true;
}

static bool search(Search *s) {
    static const ChooseOptions blocks = {.effort = {.halvings = 5}};
    ChooseOutcome outcome;
    double lowest, widest;
    if (!score_uniform(s, LOW, &lowest) || !score_uniform(s, FLOAT, &widest)) return false;
    if (!(widest >= -s->most)) return refuse(s, widest);
    if (!measure_blocks(s)) return false;
    pose(s); /* with what was measured */
    return choose_search(&s->trace, -s->most, &blocks, &outcome) && refine(s);
}

/* What was good enough stays where the search was stopped; false where nothing was. */
static bool settle(Search *s, bool ok, KeptNodes *kept) {
    Progress *progress = &s->trials->progress;
    const Tried *best = best_tried(s);
    if (!ok && s->err->code != ERR_CANCELLED) return false;
    if (!ok && !best) {
        err_hint(s->err, "no set of nodes to keep was sufficient by then");
        return false;
    }
    kept->stopped = !ok;
    progress->cancelled = false;
    if (!ok) *s->err = (Err){.code = ERR_NONE};
    for (size_t n = 0; n < s->low.count; n++)
        if (best->kept[n]) VEC_PUSH(s->arena, &kept->nodes, s->tried.items[0].result.low.items[n]);
    set_keep(s, best->kept);
    kept->result = best->result;
    return true;
}

static bool begin(Search *s, KeptNodes *kept) {
    const Words *low = &kept->result.low;
    const size_t count = low->count < BLOCKS ? low->count : BLOCKS;
    for (size_t i = 0; i < low->count; i++)
        VEC_PUSH(s->arena, &s->low, node_pattern_exact(low->items[i], s->arena));
    for (size_t b = 0; b < count; b++)
        VEC_PUSH(s->arena, &s->blocks,
                 ((Block){low->count * b / count, low->count * (b + 1) / count, 0}));
    /* What options name was there, or the trial had failed. A node that raising the opset made is
     * not, where nothing is left to raise it for. */
    s->options.allow_unmatched = true;
    s->trials->enough = s->most;
    s->trials->searching = true;
    VEC_PUSH(s->arena, &s->tried,
             ((Tried){ARENA_ARRAY(s->arena, bool, low->count + 1), kept->result}));
    pose(s);
    bool ok = settle(s, search(s), kept);
    s->trials->searching = false;
    s->trials->enough = 0;
    return ok;
}

bool keep_search(Trials *trials, DemiConvertOptions *options, double most, KeptNodes *kept,
                 Err *err) {
    Search s = {.trials = trials,
                .arena = kept->result.arena,
                .base = options,
                .most = most,
                .before = trials->done,
                .options = *options,
                .err = err};
    TrialResult *result = &kept->result;
    *kept = (KeptNodes){.result = {.arena = s.arena, .nodes = true}};
    if (!trials_run(trials, options, result, err)) return false;
    if (result->judgment.error <= most) return true;
    if (!begin(&s, kept)) return false;
    *options = s.options;
    return true;
}
