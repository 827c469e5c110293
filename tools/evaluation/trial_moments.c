// SPDX-License-Identifier: Apache-2.0
/* See trial_moments.h. */
#include "trial_moments.h"

#include <math.h>
#include <string.h>

#include "demi_front.h"
#include "error_fill.h"
#include "model_source.h"
#include "moment_watch.h"
#include "trial_memory.h"

/* Moments that are measured at once take no more of the memory than one part of so many. */
enum { MOMENTS_PART = 2 };

/* Sums of floats depend on their order: those of blocks of sets are made on their own, by any process, and then
 * added up in the order of blocks. */
enum { BLOCKS_MOST = 16, BLOCK_SETS = 8 };

static const char MEASURING[] = "measuring inputs of weights";

/* What is asked for, and who asks. */
typedef struct Asked {
    Trials *t;
    const MomentRequest *requests;
    size_t count;
    MomentTake *take;
    void *data;
} Asked;

/* ---- the runs -------------------------------------------------------------------------------- */

static bool is_bad(const Trials *t, const MomentWatch *watch, size_t set, Err *err) {
    if (!watch->bad) return false;
    err_set(err, ERR_MODEL,
            "'%s' has NaN or infinite numbers on the calibration data, so weights cannot be "
            "rounded by it",
            watch->bad);
    session_blame_data(t->sets[set].from.title, err);
    err_hint(err, "remove this set, or use --rounding nearest, which needs no data");
    return true;
}

static bool run_set(Trials *t, size_t i, MomentWatch *watch, Arena *within, Err *err) {
    Session *s = t->reference;
    trials_turn_reference(t);
    if (!trials_prepare(t, i, within, s, err)) return false;
    moment_watch_begin(watch);
    s->data = t->sets[i].from.title;
    const bool ok = session_run(s, err) && (!watch->failed || err_out_of_memory(err)) &&
                    !is_bad(t, watch, i, err) && trials_see_outputs(t, i, s, err);
    trials_take(t, i, s, false);
    return ok;
}

/* How far all runs are, of which there are several over the sets. */
typedef struct Pace {
    size_t done, rounds;
} Pace;

static size_t blocks_of(const Trials *t) {
    const size_t blocks = (t->count + BLOCK_SETS - 1) / BLOCK_SETS;
    return blocks < 1 ? 1 : blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST;
}

static bool run_block(Trials *t, size_t block, MomentWatch *watch, Pace pace, Err *err) {
    const size_t blocks = blocks_of(t), end = t->count * (block + 1) / blocks;
    bool ok = true;
    for (size_t i = t->count * block / blocks; ok && i < end; i++) {
        Arena *within = arena_child(t->arena);
        ok = progress_tell(&t->progress, MEASURING, pace.done * t->count + i,
                           pace.rounds * t->count, err) &&
             run_set(t, i, watch, within, err);
        arena_free(within);
    }
    return ok;
}

/* Whether sums of blocks are added up; else there is one block, whose sums are all. */
static bool has_totals(const Trials *t) {
    return blocks_of(t) > 1 || !share_is_alone(&t->share);
}

static uint64_t elements_of(const MomentSums *sums) {
    return sums->groups * sums->size * sums->size;
}

/* Adds to `total` what process `from` has, a piece at a time. */
static bool add_sums(const Share *share, size_t from, const MomentSums *sums, float *total,
                     Err *err) {
    enum { PIECE = 1 << 15 };
    const uint64_t all = elements_of(sums), most = 2 * PIECE;
    union {
        uint64_t words[PIECE];
        float items[2 * PIECE];
    } piece;
    if (share_is_alone(share)) {
        for (uint64_t i = 0; i < all; i++) total[i] += sums->sums[i];
        return true;
    }
    for (uint64_t at = 0, count; at < all; at += count) {
        count = all - at < most ? all - at : most;
        memset(&piece, 0, sizeof piece);
        if (from == share->part) memcpy(piece.items, sums->sums + at, count * sizeof *total);
        if (!share_words(share, piece.words, (size_t)(count + 1) / 2, err)) return false;
        for (uint64_t i = 0; i < count; i++) total[at + i] += piece.items[i];
    }
    return true;
}

/* Sums of all blocks. */
typedef struct Totals {
    float **sums; /* [requests]; NULL: see has_totals */
} Totals;

/* A block of each process, of which the last rounds may have none. */
static bool run_blocks(Trials *t, size_t first, MomentWatch *watch, const Totals *totals, Pace pace,
                       Err *err) {
    const Share *share = &t->share;
    const size_t blocks = blocks_of(t), parts = share_is_alone(share) ? 1 : share->parts;
    const size_t mine = first + (parts == 1 ? 0 : share->part);
    if (mine < blocks && !run_block(t, mine, watch, pace, err)) return false;
    for (size_t k = 0; k < parts && first + k < blocks; k++)
        for (size_t i = 0; totals->sums && i < watch->count; i++)
            if (!add_sums(share, k, &watch->sums[i], totals->sums[i], err)) return false;
    for (size_t i = 0; totals->sums && i < watch->count; i++)
        memset(watch->sums[i].sums, 0, elements_of(&watch->sums[i]) * sizeof(float));
    return true;
}

/* How many vectors there were, and which values had another form, of all processes. */
static bool share_counts(const Trials *t, MomentWatch *watch, Err *err) {
    const Share *share = &t->share;
    if (share_is_alone(share)) return true;
    Arena *within = arena_child(t->arena);
    const size_t all = watch->count * (share->parts + 1);
    uint64_t *words = ARENA_ARRAY(within, uint64_t, all + 1);
    for (size_t i = 0; i < watch->count; i++) {
        words[i] = watch->odd[i];
        words[(share->part + 1) * watch->count + i] = watch->sums[i].vectors;
    }
    const bool ok = share_words(share, words, all, err);
    for (size_t i = 0; ok && i < watch->count; i++) {
        watch->odd[i] = words[i] != 0;
        watch->sums[i].vectors = 0;
        for (size_t k = 0; k < share->parts; k++)
            watch->sums[i].vectors += words[(k + 1) * watch->count + i];
    }
    arena_free(within);
    return ok;
}

static bool run_sets(Trials *t, MomentWatch *watch, const Totals *totals, Pace pace, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    const size_t parts = share_is_alone(&t->share) ? 1 : t->share.parts;
    const DemiStatus status =
        demi_context_watch(t->reference->context, moment_watch_step, watch, &error);
    bool ok = error_take(err, status, &error);
    for (size_t first = 0; ok && first < blocks_of(t); first += parts)
        ok = run_blocks(t, first, watch, totals, pace, err);
    demi_context_watch(t->reference->context, NULL, NULL, NULL);
    return ok && share_counts(t, watch, err);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static uint64_t most_bytes(const Asked *a) {
    return a->t->memory / MOMENTS_PART;
}

/* Of sums, and of a block's where there are several. While weights are rounded by moments, four times the bytes
 * of sums are needed for the factor. */
static uint64_t bytes_of(const Trials *t, const MomentRequest *request) {
    return moment_watch_bytes(request) * (has_totals(t) ? 2 : 1);
}

/* How many of the requests from `first` on are measured at once. */
static size_t count_at_once(const Asked *a, size_t first) {
    uint64_t bytes = 0, largest = 0;
    size_t count = 0;
    for (; first + count < a->count; count++) {
        const MomentRequest *request = &a->requests[first + count];
        const uint64_t more = bytes_of(a->t, request);
        const uint64_t factor = 4 * moment_watch_bytes(request) / request->groups;
        largest = factor > largest ? factor : largest;
        bytes += more;
        if (bytes + largest > most_bytes(a)) break;
    }
    return count;
}

static bool too_large(const Asked *a, size_t i, Err *err) {
    const MomentRequest *request = &a->requests[i];
    err_set(
        err, ERR_ENV,
        "rounding the weights that '%s' is multiplied by needs %llu MB, more than half of the "
        "memory limit",
        request->rows->value,
        (unsigned long long)((4 * moment_watch_bytes(request) + bytes_of(a->t, request)) >> 20) +
            1);
    err_hint(err, "raise --memory, or use --rounding nearest, which needs no data");
    return false;
}

static size_t rounds_of(const Asked *a) {
    size_t rounds = 0;
    for (size_t at = 0, count; at < a->count; at += count, rounds++) {
        count = count_at_once(a, at);
        if (!count) return 0;
    }
    return rounds;
}

/* Measured moments whose value was large beyond squares are none. */
static bool hand_over(const Asked *a, size_t number, const MomentWatch *watch, size_t i, Err *err) {
    const MomentSums *sums = &watch->sums[i];
    bool known = sums->vectors && !watch->odd[i];
    if (known) moment_sums_end(sums);
    for (uint64_t k = 0; known && k < sums->groups * sums->size; k++)
        known = isfinite(sums->sums[k * sums->size + k % sums->size]);
    const Moments moments = {known ? sums->sums : NULL, sums->vectors};
    return a->take(a->data, number, &moments, err);
}

static Totals totals_new(const Trials *t, const MomentWatch *watch, Arena *arena) {
    Totals totals = {NULL};
    if (!has_totals(t)) return totals;
    totals.sums = ARENA_ARRAY(arena, float *, watch->count + 1);
    for (size_t i = 0; i < watch->count; i++)
        totals.sums[i] = ARENA_ARRAY(arena, float, elements_of(&watch->sums[i]));
    return totals;
}

static void take_totals(MomentWatch *watch, const Totals *totals) {
    for (size_t i = 0; totals->sums && i < watch->count; i++) watch->sums[i].sums = totals->sums[i];
}

static bool measure_some(const Asked *a, size_t first, size_t count, Pace pace, Err *err) {
    Trials *t = a->t;
    Arena *within = arena_child(t->arena);
    Workers *workers = workers_new(within, t->reference->threads);
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += bytes_of(t, &a->requests[first + i]);
    t->reference->reserved = bytes;
    MomentWatch watch = moment_watch_new(a->requests + first, count, workers, within);
    const Totals totals = totals_new(t, &watch, within);
    bool ok = run_sets(t, &watch, &totals, pace, err);
    take_totals(&watch, &totals);
    for (size_t i = 0; ok && i < count; i++)
        ok = progress_tell(&t->progress, MEASURING, (pace.done + 1) * t->count,
                           pace.rounds * t->count, err) &&
             hand_over(a, first + i, &watch, i, err);
    t->reference->reserved = 0;
    arena_free(within);
    return ok;
}

static bool measure_all(const Asked *a, Err *err) {
    Pace pace = {.rounds = rounds_of(a)};
    for (size_t at = 0, count; at < a->count; at += count, pace.done++) {
        count = count_at_once(a, at);
        if (!count) return too_large(a, at, err);
        if (!measure_some(a, at, count, pace, err)) return false;
    }
    return true;
}

/* ---- the conversion -------------------------------------------------------------------------- */

/* Its own trap: a conversion is under way, which is to end by itself where memory runs out. */
static bool measure(void *user, const MomentRequest *requests, size_t count, MomentTake *take,
                    void *data, Err *err) {
    Trials *t = user;
    const Asked asked = {t, requests, count, take, data};
    MemTrap trap, *outer = t->arena->trap;
    if (setjmp(trap.env)) {
        trials_lend(t, outer);
        return err_out_of_memory(err);
    }
    trials_lend(t, &trap);
    const bool ok = measure_all(&asked, err);
    const bool cancelled = t->progress.cancelled;
    trials_lend(t, outer);
    t->progress.cancelled = cancelled;
    return ok;
}

bool trials_round(Trials *t, const DemiConvertOptions *options, DemiRoundedWeights *weights,
                  Err *err) {
    Arena *within = arena_child(t->arena);
    DemiModel **model = model_hold(within);
    DemiError error = DEMI_ERROR_INIT;
    DemiConvertOptions quiet = *options;
    DemiRunOptions run = options->run ? *options->run : (DemiRunOptions)DEMI_RUN_OPTIONS_INIT;
    MemTrap *trap = t->arena->trap;
    const MomentSource source = {measure, t};
    run.text = NULL;
    run.progress = NULL;
    run.rounded = weights;
    quiet.run = &run;
    weights->rounding.source = &source;
    bool ok = model_open(&t->source, model, err) &&
              error_take(err, demi_convert(*model, &quiet, NULL, &error), &error);
    weights->rounding.source = NULL;
    weights->arena.trap = trap;
    if (!ok && err->code != ERR_CANCELLED) err_file(err, t->path);
    model_drop(model);
    arena_free(within);
    return ok;
}
