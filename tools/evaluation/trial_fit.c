// SPDX-License-Identifier: Apache-2.0
/* See trial_fit.h. */
#include "trial_fit.h"

#include <math.h>

#include "demi_front.h"
#include "error_fill.h"
#include "model_source.h"
#include "real_text.h"
#include "value_sums.h"

/* With commas between them. */
static const char *numbers_text(Arena *arena, const double *numbers, const DemiRange *range) {
    char *text = arena_alloc(arena, range->mean_count * (REAL_TEXT + 1));
    size_t size = 0;
    for (size_t i = 0; i < range->mean_count; i++) {
        if (i) text[size++] = ',';
        size += real_format(text + size, 6, numbers[i]);
    }
    return text;
}

const char *range_text(Arena *arena, const DemiRange *range, bool ends) {
    char low[REAL_TEXT], high[REAL_TEXT];
    if (!ends) return arena_printf(arena, "%s=%.9g", range->name, range->most);
    real_format(low, 9, range->low);
    real_format(high, 9, range->high);
    if (!range->mean_count) return arena_printf(arena, "%s=%s:%s", range->name, low, high);
    const char *text = arena_printf(arena, "%s=%s:%s:%d:%s", range->name, low, high,
                                    (int)range->axis, numbers_text(arena, range->means, range));
    if (!range->errors) return text;
    return arena_printf(arena, "%s:%s", text, numbers_text(arena, range->errors, range));
}

/* ---- the conversion, as a source ------------------------------------------------------------- */

typedef struct Fitting {
    const Trials *trials;
    DemiConvertOptions options;
    DemiRunOptions run;
} Fitting;

static DemiStatus open_fitting(void *user, DemiModel **model, DemiError *error) {
    const Fitting *f = user;
    DemiStatus status = demi_source_open(&f->trials->source, model, error);
    if (status == DEMI_OK) status = demi_convert(*model, &f->options, NULL, error);
    return status;
}

static DemiConvertOptions with_ranges(const DemiConvertOptions *options, const RangeList *ranges,
                                      Arena *arena) {
    DemiConvertOptions all = *options;
    const size_t given = options->range_count;
    const char **texts = ARENA_ARRAY(arena, const char *, given + ranges->count + 1);
    for (size_t i = 0; i < given; i++) texts[i] = options->ranges[i];
    for (size_t i = 0; i < ranges->count; i++)
        texts[given + i] = range_text(arena, &ranges->items[i], true);
    all.ranges = texts;
    all.range_count = given + ranges->count;
    return all;
}

static Fitting fitting(const Trials *t, const DemiConvertOptions *options, const RangeList *ranges,
                       Arena *arena) {
    Fitting f = {t, with_ranges(options, ranges, arena), DEMI_RUN_OPTIONS_INIT};
    if (options->run) f.run = *options->run;
    f.run.text = NULL;
    f.run.unchecked = true; /* the conversion itself is checked */
    f.run.progress = NULL;
    return f;
}

bool trials_sketch(const Trials *t, const DemiConvertOptions *options, const RangeList *ranges,
                   DemiModel *model, Err *err) {
    Arena *within = arena_child(t->arena);
    DemiError error = DEMI_ERROR_INIT;
    Fitting f = fitting(t, options, ranges, within);
    f.options.run = &f.run;
    const bool ok = error_take(err, demi_front_sketch(model, &f.options, &error), &error);
    arena_free(within);
    return ok;
}

/* ---- the runs -------------------------------------------------------------------------------- */

typedef struct Visiting {
    const Session *reference;
    ValueSums *outputs; /* [output_count] */
} Visiting;

/* Sums of each set are made on their own, whichever process has it. */
static bool visit(void *user, const TrialSet *set, const Session *session, ByteBuffer *record,
                  Err *err) {
    const Visiting *v = user;
    for (size_t i = 0; i < v->reference->output_count; i++) {
        const DemiData *have = session_output(session, v->reference->outputs[i].name, i);
        if (!have)
            return err_set(err, ERR_MODEL, "the conversion has no output '%s'",
                           v->reference->outputs[i].name);
        ValueSums sums = {0};
        value_sums_add(&sums, &set->outputs[i], have);
        if (record)
            share_pack(record, &sums, sizeof sums);
        else
            value_sums_join(&v->outputs[i], &sums);
    }
    return true;
}

static bool take(void *user, uint64_t set, ShareBytes *bytes, Err *err) {
    const Visiting *v = user;
    (void)set;
    for (size_t i = 0; i < v->reference->output_count; i++) {
        ValueSums sums;
        share_unpack(bytes, &sums, sizeof sums);
        value_sums_join(&v->outputs[i], &sums);
    }
    return share_unpacked(bytes, err);
}

bool trials_fit(Trials *t, const DemiConvertOptions *options, const RangeList *ranges,
                double *noise, Err *err) {
    Arena *within = arena_child(t->arena);
    const size_t count = t->reference->output_count;
    Visiting v = {t->reference, ARENA_ARRAY(within, ValueSums, count)};
    Fitting f = fitting(t, options, ranges, within);
    f.options.run = &f.run;
    DemiSource source = DEMI_SOURCE_INIT;
    source.path = t->path;
    source.open = open_fitting;
    source.open_user = &f;
    SessionOptions how = t->how;
    how.compile.keep_values = false; /* nobody watches */
    how.compile.numerics = DEMI_NUMERICS_FAST;
    const bool ok = trials_visit(t, &source, &how, visit, take, &v, err);
    *noise = 0;
    for (size_t i = 0; ok && i < count; i++) *noise += value_sums_noise(&v.outputs[i]);
    arena_free(within);
    return ok;
}
