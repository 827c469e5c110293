// SPDX-License-Identifier: Apache-2.0
/* Judging runs; see judge.h. */
#include "judge.h"

#include <math.h>
#include <string.h>

/* ---- one run --------------------------------------------------------------------------------- */

static void sum_up(Judgment *j) {
    j->error = picks_margin(&j->picks);
    for (size_t i = 0; i < j->outputs.count; i++) {
        const DemiDistance *diff = &j->outputs.items[i].diff;
        double error = diff->mismatch || diff->special ? INFINITY : diff->error;
        if (!(error <= j->error)) j->error = error;
        j->broken = j->broken || diff->broken;
    }
}

/* Once more, with the reference's picks. Where none differs, outputs are off for other reasons. */
static bool run_with_picks(const Judge *judge, Session *session, Judgment *judgment, Err *err) {
    Judgment with = {.broken = judgment->broken};
    if (!picks_run(judge->picks, session, &with.picks, err)) return false;
    if (with.picks.count == 0) return true;
    if (!output_errors(judge->arena, &judge->reference, session, &with.outputs, err)) return false;
    sum_up(&with);
    judgment->broken = with.broken;
    if (with.error < judgment->error) *judgment = with;
    return true;
}

bool judge_run(const Judge *judge, Session *session, Judgment *judgment, Err *err) {
    *judgment = (Judgment){.error = 0};
    if (!session_run(session, err) ||
        !output_errors(judge->arena, &judge->reference, session, &judgment->outputs, err))
        return false;
    sum_up(judgment);
    if (judgment->error <= judge->enough || !judge->picks || judgment->broken) return true;
    return run_with_picks(judge, session, judgment, err);
}

/* ---- several --------------------------------------------------------------------------------- */

static const char *text_copy(Arena *arena, const char *text) {
    return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

/* Adds a pick to those of other runs. */
static void picks_add(Arena *arena, PickRows *rows, const DemiPick *other) {
    for (size_t i = 0; i < rows->count; i++) {
        DemiPick *row = &rows->items[i];
        if (strcmp(row->node, other->node) != 0) continue;
        row->count += other->count;
        row->same += other->same;
        row->margin = fmax(row->margin, other->margin);
        return;
    }
    DemiPick row = *other;
    row.node = text_copy(arena, row.node);
    row.op_type = text_copy(arena, row.op_type);
    VEC_PUSH(arena, rows, row);
}

void judgment_add(Arena *arena, Judgment *worst, const Judgment *other, const char *set) {
    for (size_t i = 0; i < other->outputs.count; i++) {
        DemiOutputError row = other->outputs.items[i];
        bool first = i >= worst->outputs.count;
        if (!first && !output_error_is_worse(&row.diff, &worst->outputs.items[i].diff)) continue;
        row.name = text_copy(arena, row.name);
        row.set = set;
        row.diff.mismatch = text_copy(arena, row.diff.mismatch);
        if (first)
            VEC_PUSH(arena, &worst->outputs, row);
        else
            worst->outputs.items[i] = row;
    }
    for (size_t i = 0; i < other->picks.count; i++)
        picks_add(arena, &worst->picks, &other->picks.items[i]);
    if (!(other->error <= worst->error)) worst->error = other->error;
    worst->broken = worst->broken || other->broken;
}

bool demi_pick_beyond(const DemiLimit *limit, const DemiPick *pick) {
    return !(pick->margin <= limit->error);
}
