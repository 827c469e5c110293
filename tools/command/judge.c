// SPDX-License-Identifier: Apache-2.0
/* Judging runs; see judge.h. */
#include "judge.h"

#include <math.h>
#include <string.h>

#include "report_out.h"

/* ---- one run --------------------------------------------------------------------------------- */

static void sum_up(Judgement *j) {
    j->error = picks_margin(&j->picks);
    for (size_t i = 0; i < j->outputs.count; i++) {
        const ValueDiff *diff = &j->outputs.items[i].diff;
        double error = diff->mismatch || diff->special ? INFINITY : diff->error;
        if (!(error <= j->error)) j->error = error;
        j->broken = j->broken || diff->broken;
    }
}

/* Once more, with the reference's picks. Where none differs, outputs are off for other reasons. */
static bool run_with_picks(const Judge *judge, Session *session, Judgement *judgement, Err *err) {
    Judgement with = {.broken = judgement->broken};
    if (!picks_run(judge->picks, session, &with.picks, err)) return false;
    if (with.picks.count == 0) return true;
    if (!output_errors(judge->arena, &judge->reference, session, &with.outputs, err)) return false;
    sum_up(&with);
    judgement->broken = with.broken;
    if (with.error < judgement->error) *judgement = with;
    return true;
}

bool judge_run(const Judge *judge, Session *session, Judgement *judgement, Err *err) {
    *judgement = (Judgement){.error = 0};
    if (!session_run(session, err) ||
        !output_errors(judge->arena, &judge->reference, session, &judgement->outputs, err))
        return false;
    sum_up(judgement);
    if (judgement->error <= judge->enough || !judge->picks || judgement->broken) return true;
    return run_with_picks(judge, session, judgement, err);
}

/* ---- several --------------------------------------------------------------------------------- */

static const char *text_copy(Arena *arena, const char *text) {
    return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

void picks_add(Arena *arena, PickRows *rows, const PickRow *other) {
    for (size_t i = 0; i < rows->count; i++) {
        PickRow *row = &rows->items[i];
        if (strcmp(row->node, other->node) != 0) continue;
        row->count += other->count;
        row->same += other->same;
        row->margin = fmax(row->margin, other->margin);
        return;
    }
    PickRow row = *other;
    row.node = text_copy(arena, row.node);
    row.op_type = text_copy(arena, row.op_type);
    VEC_PUSH(arena, rows, row);
}

void judgement_add(Arena *arena, Judgement *worst, const Judgement *other) {
    for (size_t i = 0; i < other->outputs.count; i++) {
        OutputError row = other->outputs.items[i];
        bool first = i >= worst->outputs.count;
        if (!first && !output_error_is_worse(&row.diff, &worst->outputs.items[i].diff)) continue;
        row.output = text_copy(arena, row.output);
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

/* ---- saying it ------------------------------------------------------------------------------- */

bool pick_beyond(const Limit *limit, const PickRow *row) {
    return !(row->margin <= limit->error);
}

void pick_print(const PickRow *row, FILE *out) {
    fprintf(out, "%s '", row->op_type);
    report_put(out, row->node, strlen(row->node));
    fprintf(out, "': %llu of %llu picked the same, the others ", (unsigned long long)row->same,
            (unsigned long long)row->count);
    if (isfinite(row->margin))
        fprintf(out, "within %.2g of a tie", row->margin);
    else
        fputs("without a tie", out);
}

void picks_json(JsonWriter *json, const PickRows *rows, const Limit *limit) {
    if (rows->count == 0) return;
    json_open(json, "picks", '[');
    for (size_t i = 0; i < rows->count; i++) {
        const PickRow *row = &rows->items[i];
        json_open(json, NULL, '{');
        json_text(json, "node", row->node);
        json_text(json, "op_type", row->op_type);
        json_unsigned(json, "count", row->count);
        json_unsigned(json, "same", row->same);
        json_number(json, "margin", row->margin);
        json_boolean(json, "beyond", pick_beyond(limit, row));
        json_close(json, '}');
    }
    json_close(json, ']');
}
