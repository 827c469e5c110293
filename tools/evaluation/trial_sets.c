// SPDX-License-Identifier: Apache-2.0
/* Which sets trials have, on which processes agree that share them, and what is said of sizes that were assumed;
 * see trial.h. */
#include <inttypes.h>
#include <string.h>

#include "hash64.h"
#include "trial.h"

/* ---- opening --------------------------------------------------------------------------------- */

static bool find_sets(Trials *t, Err *err) {
    SessionSetList sets;
    const size_t parts = t->parts ? t->parts : 1;
    if (!session_input_sets(t->reference, t->arena, &t->how.inputs, parts, &sets, err))
        return false;
    t->count = sets.count;
    t->sets = ARENA_ARRAY(t->arena, TrialSet, t->count);
    for (size_t i = 0; i < t->count; i++)
        t->sets[i] = (TrialSet){.from = sets.items[i], .number = i};
    return true;
}

/* Of what sets are called, which is what processes on several machines have in common. */
static uint64_t hash_sets(const Trials *t) {
    uint64_t hash = t->count;
    Arena *within = arena_child(t->arena);
    for (size_t i = 0; i < t->count; i++) {
        const SessionSet *set = &t->sets[i].from;
        const char *name = set->path ? session_set_name(within, set->path) : "";
        hash = hash64_bytes(name, strlen(name), hash);
        hash = hash64_bytes(&set->rows, sizeof set->rows, hash);
    }
    arena_free(within);
    return hash;
}

static bool refuse_sets(const Trials *t, const uint64_t *counts, size_t other, Err *err) {
    err_set(err, ERR_USAGE, "process %zu found other sets of inputs than process 0", other);
    if (counts[other] != counts[0]) {
        err_expected(err, "%" PRIu64, counts[0]);
        err_actual(err, "%" PRIu64, counts[other]);
    }
    if (t->how.inputs.data) err_file(err, t->how.inputs.data);
    err_hint(err, "all processes need the same model, options, and data");
    return false;
}

/* What processes must agree on: which sets there are, and how much memory is used, as that says how often
 * the sets are run. */
static bool agree(Trials *t, Err *err) {
    const Share *share = &t->share;
    if (share_is_alone(share)) return true;
    uint64_t *counts = ARENA_ARRAY(t->arena, uint64_t, share->parts);
    uint64_t *words = ARENA_ARRAY(t->arena, uint64_t, share->parts);
    if (!share_each(share, t->count, counts, err) || !share_each(share, hash_sets(t), words, err))
        return false;
    for (size_t i = 1; i < share->parts; i++)
        if (counts[i] != counts[0] || words[i] != words[0]) return refuse_sets(t, counts, i, err);
    if (!share_each(share, t->memory, words, err)) return false;
    for (size_t i = 0; i < share->parts; i++)
        if (words[i] < t->memory) t->memory = words[i];
    return true;
}

/* The first set's random values settle which sizes the model takes, for the sets that follow. */
static bool begin_sizes(Trials *t, Err *err) {
    if (share_is_alone(&t->share) || !t->share.part || !t->sets[0].from.random) return true;
    Arena *within = arena_child(t->arena);
    const bool ok = trials_prepare(t, 0, within, t->reference, err);
    if (ok) trials_take(t, 0, t->reference, false);
    arena_free(within);
    return ok;
}

bool trials_open(Trials *t, Err *err) {
    t->path = t->source.path ? t->source.path : "model";
    t->measured = t->source;
    t->own = t->reference = session_new(t->arena, &t->how);
    if (!share_check(&t->share, err) || !session_open(t->reference, t->arena, &t->source, err) ||
        !find_sets(t, err))
        return false;
    t->picks = picks_are_made(t->reference);
    if (!t->held) t->held = ARENA_NEW(t->arena, uint64_t);
    t->memory = demi_context_budget(t->reference->context);
    return agree(t, err) && begin_sizes(t, err);
}

void trials_select(const Trials *t, const size_t *places, size_t count, Trials *selected) {
    *selected = *t;
    selected->count = count;
    selected->sets = ARENA_ARRAY(t->arena, TrialSet, count + 1);
    for (size_t i = 0; i < count; i++) {
        const TrialSet *from = &t->sets[places[i]];
        selected->sets[i] = (TrialSet){.from = from->from, .number = from->number};
    }
}

/* ---- sizes that were assumed ------------------------------------------------------------------ */

bool trials_share_assumed(Trials *t, Err *err) {
    const size_t sizes = t->reference->sizes.items.count, all = t->count * sizes;
    if (share_is_alone(&t->share) || !sizes) return true;
    Arena *within = arena_child(t->arena);
    uint64_t *words = ARENA_ARRAY(within, uint64_t, all + 1); /* 2 more: 0 is for not known */
    for (size_t i = 0; i < all; i++)
        if (t->sets[i / sizes].assumed)
            words[i] = (uint64_t)(t->sets[i / sizes].assumed[i % sizes] + 2);
    const bool ok = share_words(&t->share, words, all, err);
    for (size_t i = 0; ok && i < all; i++) {
        TrialSet *set = &t->sets[i / sizes];
        if (!set->assumed) set->assumed = ARENA_ARRAY(t->arena, int64_t, sizes + 1);
        set->assumed[i % sizes] = words[i] ? (int64_t)words[i] - 2 : -1;
    }
    arena_free(within);
    return ok;
}

/* One size over the sets: "16", or "16, 24, 7, 33" where they differ; NULL where it was given. */
static const char *size_text(const Trials *t, Arena *arena, size_t size) {
    const char *all = NULL;
    bool same = true;
    int64_t first = -1;
    for (size_t i = 0; i < t->count; i++) {
        int64_t assumed = t->sets[i].assumed ? t->sets[i].assumed[size] : -1;
        if (assumed < 0) continue;
        same = same && (first < 0 || first == assumed);
        first = first < 0 ? assumed : first;
        all = arena_printf(arena, "%s%s%" PRId64, all ? all : "", all ? ", " : "", assumed);
    }
    return all && same ? arena_printf(arena, "%" PRId64, first) : all;
}

const char *trials_assumed(const Trials *t, Arena *arena) {
    const InputSizes *sizes = &t->reference->sizes;
    const char *text = "";
    for (size_t k = 0; k < sizes->items.count; k++) {
        const InputSize *size = &sizes->items.items[k];
        const char *is = size_text(t, arena, k);
        if (!is) continue;
        const char *name = size->name[0] ? size->name
                                         : arena_printf(arena, "axis %u of %s", size->axis,
                                                        t->reference->declared[size->input].name);
        text = arena_printf(arena, "%s%s%s %s", text, text[0] ? "; " : "", name, is);
    }
    return text;
}
