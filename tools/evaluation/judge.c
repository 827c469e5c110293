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

/* ---- other processes ------------------------------------------------------------------------- */

void judgment_pack(ByteBuffer *bytes, const Judgment *j) {
    const uint64_t counts[] = {j->outputs.count, j->picks.count, j->broken};
    share_pack(bytes, counts, sizeof counts);
    share_pack(bytes, &j->error, sizeof j->error);
    for (size_t i = 0; i < j->outputs.count; i++) {
        const DemiOutputError *row = &j->outputs.items[i];
        share_pack_text(bytes, row->name);
        share_pack_text(bytes, row->diff.mismatch);
        share_pack(bytes, &row->diff, sizeof row->diff);
    }
    for (size_t i = 0; i < j->picks.count; i++) {
        const DemiPick *row = &j->picks.items[i];
        share_pack_text(bytes, row->node);
        share_pack_text(bytes, row->op_type);
        share_pack(bytes, row, sizeof *row);
    }
}

static DemiOutputError unpack_output(ShareBytes *bytes, Arena *arena) {
    DemiOutputError row = {.name = share_unpack_text(bytes, arena), .set = ""};
    const char *mismatch = share_unpack_text(bytes, arena);
    share_unpack(bytes, &row.diff, sizeof row.diff);
    row.diff.mismatch = mismatch;
    return row;
}

static DemiPick unpack_pick(ShareBytes *bytes, Arena *arena) {
    const char *node = share_unpack_text(bytes, arena), *op = share_unpack_text(bytes, arena);
    DemiPick row;
    share_unpack(bytes, &row, sizeof row);
    row.node = node;
    row.op_type = op;
    return row;
}

void judgment_unpack(ShareBytes *bytes, Judgment *j, Arena *arena) {
    uint64_t counts[3];
    *j = (Judgment){.error = 0};
    share_unpack(bytes, counts, sizeof counts);
    share_unpack(bytes, &j->error, sizeof j->error);
    j->broken = counts[2] != 0;
    for (uint64_t i = 0; i < counts[0] && !bytes->cut; i++)
        VEC_PUSH(arena, &j->outputs, unpack_output(bytes, arena));
    for (uint64_t i = 0; i < counts[1] && !bytes->cut; i++)
        VEC_PUSH(arena, &j->picks, unpack_pick(bytes, arena));
}

bool demi_pick_beyond(const DemiLimit *limit, const DemiPick *pick) {
    return !(pick->margin <= limit->error);
}
