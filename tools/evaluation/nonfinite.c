// SPDX-License-Identifier: Apache-2.0
/* See nonfinite.h. Both models are run and watched; of the reference only counts are kept. Then the
 * outputs that broke are followed back through values that broke: what comes last is the first that
 * did, and what else is infinite but leads to no output is not blamed (a mask that became -Inf). */
#include "nonfinite.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "error_fill.h"
#include "sym.h"
#include "value_compare.h"
#include "value_io.h"

typedef struct Seen {
    bool reference;            /* the reference has it */
    double most;               /* its largest finite magnitude there */
    uint64_t nan, inf;         /* there, at most */
    uint64_t own_nan, own_inf; /* in the other run, at most */
    int32_t dtype;
    bool bad, wanted;
} Seen;

typedef struct SeenStep {
    const char *name, *op_type;
    const uint32_t *inputs, *outputs; /* names */
    size_t input_count, output_count;
    uint32_t depth;
} SeenStep;

typedef struct Search {
    Arena *arena;
    SymTable names;
    VEC(Seen) seen; /* by name */
    VEC(SeenStep) steps;
} Search;

static Seen *seen_of(Search *s, const char *name, uint32_t *number) {
    *number = sym_intern_cstr(&s->names, name)->number;
    while (s->seen.count <= *number) VEC_PUSH(s->arena, &s->seen, (Seen){.most = NAN});
    return &s->seen.items[*number];
}

static void stats_of(const DemiData *value, ValueStats *stats) {
    *stats = (ValueStats){.min = NAN, .max = NAN};
    if (value->kind == DEMI_DATA_TENSOR_KIND && dtype_is_float((Dtype)value->dtype))
        value_stats(value, stats);
}

/* ---- the reference --------------------------------------------------------------------------- */

static void note_value(Search *s, const char *name, const DemiData *value) {
    ValueStats stats;
    uint32_t number;
    if (!name[0]) return;
    Seen *seen = seen_of(s, name, &number);
    stats_of(value, &stats);
    seen->reference = true;
    if (stats.nan > seen->nan) seen->nan = stats.nan;
    if (stats.inf > seen->inf) seen->inf = stats.inf;
    seen->most = fmax(seen->most, fmax(fabs(stats.min), fabs(stats.max)));
}

static void note_step(void *user, const DemiStep *step) {
    for (size_t i = 0; i < step->output_count; i++)
        note_value(user, step->output_names[i], &step->outputs[i]);
}

/* ---- the other run --------------------------------------------------------------------------- */

static const uint32_t *numbers_of(Search *s, const char *const *names, size_t count) {
    uint32_t *numbers = ARENA_ARRAY(s->arena, uint32_t, count + 1);
    for (size_t i = 0; i < count; i++) seen_of(s, names[i], &numbers[i]);
    return numbers;
}

static void look(void *user, const DemiStep *step) {
    Search *s = user;
    SeenStep row = {.name = arena_copy(s->arena, step->name, strlen(step->name)),
                    .op_type = arena_copy(s->arena, step->op_type, strlen(step->op_type)),
                    .inputs = numbers_of(s, step->input_names, step->input_count),
                    .outputs = numbers_of(s, step->output_names, step->output_count),
                    .input_count = step->input_count,
                    .output_count = step->output_count,
                    .depth = step->depth};
    for (size_t i = 0; i < step->output_count; i++) {
        Seen *seen = &s->seen.items[row.outputs[i]];
        ValueStats stats;
        stats_of(&step->outputs[i], &stats);
        if (stats.nan > seen->own_nan) seen->own_nan = stats.nan;
        if (stats.inf > seen->own_inf) seen->own_inf = stats.inf;
        seen->dtype = step->outputs[i].dtype;
    }
    VEC_PUSH(s->arena, &s->steps, row);
}

/* A conversion casts values, and leaves a value to a Cast and calls what the node makes otherwise:
 * what is on both sides of a Cast has one reference. */
static void share_references(Search *s) {
    for (size_t i = 0; i < s->steps.count; i++) {
        const SeenStep *step = &s->steps.items[i];
        if (strcmp(step->op_type, "Cast") != 0 || !step->input_count || !step->output_count)
            continue;
        Seen *from = &s->seen.items[step->inputs[0]], *to = &s->seen.items[step->outputs[0]];
        Seen *without = from->reference ? to : from, *with = from->reference ? from : to;
        if (without->reference || !with->reference) continue;
        without->most = with->most;
        without->nan = with->nan;
        without->inf = with->inf;
    }
}

static void mark_bad(Search *s) {
    share_references(s);
    for (size_t i = 0; i < s->seen.count; i++) {
        Seen *seen = &s->seen.items[i];
        seen->bad =
            seen->own_nan > seen->nan || seen->own_nan + seen->own_inf > seen->nan + seen->inf;
    }
}

/* ---- following back -------------------------------------------------------------------------- */

static void want_outputs(Search *s, const Session *session) {
    for (size_t i = 0; i < session->output_count; i++) {
        uint32_t number;
        Seen *seen = seen_of(s, session->outputs[i].name, &number);
        seen->wanted = seen->bad;
    }
}

/* What a body made is not named by the step that holds it. */
static void want_bodies(Search *s, size_t at) {
    uint32_t depth = s->steps.items[at].depth;
    while (at-- > 0 && s->steps.items[at].depth > depth)
        for (size_t i = 0; i < s->steps.items[at].output_count; i++) {
            Seen *seen = &s->seen.items[s->steps.items[at].outputs[i]];
            seen->wanted = seen->wanted || seen->bad;
        }
}

/* The output that is wanted; NULL where none of them is. */
static const uint32_t *wanted_output(const Search *s, const SeenStep *step) {
    for (size_t i = 0; i < step->output_count; i++)
        if (s->seen.items[step->outputs[i]].wanted) return &step->outputs[i];
    return NULL;
}

static const SeenStep *follow(Search *s) {
    const SeenStep *first = NULL;
    for (size_t at = s->steps.count; at-- > 0;) {
        const SeenStep *step = &s->steps.items[at];
        bool led = false;
        if (!wanted_output(s, step)) continue;
        first = step;
        for (size_t i = 0; i < step->input_count; i++) {
            Seen *seen = &s->seen.items[step->inputs[i]];
            led = led || seen->bad;
            seen->wanted = seen->wanted || seen->bad;
        }
        if (!led) want_bodies(s, at);
    }
    return first;
}

/* What the source calls it: the other side of the Cast behind it. */
static uint32_t source_of(const Search *s, uint32_t name) {
    for (size_t i = 0; i < s->steps.count && !s->seen.items[name].reference; i++) {
        const SeenStep *step = &s->steps.items[i];
        if (strcmp(step->op_type, "Cast") == 0 && step->input_count && step->output_count &&
            step->inputs[0] == name)
            return step->outputs[0];
    }
    return name;
}

/* "its output 't' is infinite in float16, where the source reaches 1e+06". */
static const char *phrase_of(Arena *arena, const DemiBroken *found) {
    const char *type = dtype_name((Dtype)found->dtype);
    const char *reached =
        isfinite(found->reached)
            ? arena_printf(arena, ", where the source reaches %.3g", found->reached)
            : "";
    if (found->cast)
        return arena_printf(arena, "'%s' does not fit %s%s", found->value, type, reached);
    return arena_printf(arena, "its output '%s' is %s in %s%s", found->value,
                        found->nan ? "NaN" : "infinite", type, reached);
}

static void describe(Search *s, const SeenStep *step, DemiBroken *found) {
    uint32_t made = *wanted_output(s, step);
    const Seen *seen = &s->seen.items[made];
    bool cast = strcmp(step->op_type, "Cast") == 0 && !seen->reference && step->input_count;
    uint32_t name = cast ? step->inputs[0] : source_of(s, made);
    *found = (DemiBroken){.node = step->name,
                          .op_type = step->op_type,
                          .value = s->names.names[name]->text,
                          .dtype = seen->dtype,
                          .nan = seen->own_nan > seen->nan,
                          .reached = seen->most,
                          .cast = cast};
    found->text = phrase_of(s->arena, found);
}

static bool watched_run(Search *s, Session *session, DemiStepFn step, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    bool ok = error_take(err, demi_context_watch(session->context, step, s, &error), &error) &&
              session_run(session, err);
    demi_context_watch(session->context, NULL, NULL, &error);
    return ok;
}

bool nonfinite_find(Arena *arena, Session *reference, Session *session, DemiBroken *found,
                    Err *err) {
    Search s = {.arena = arena};
    *found = (DemiBroken){.node = NULL};
    sym_table_init(&s.names, arena);
    for (size_t i = 0; i < reference->input_count; i++)
        if (reference->given[i]) note_value(&s, reference->inputs[i].name, &reference->values[i]);
    if (!watched_run(&s, reference, note_step, err) || !watched_run(&s, session, look, err))
        return false;
    mark_bad(&s);
    want_outputs(&s, session);
    const SeenStep *step = follow(&s);
    if (step) describe(&s, step, found);
    return true;
}

void nonfinite_copy(Arena *arena, const DemiBroken *found, DemiBroken *copy) {
    *copy = *found;
    const char **texts[] = {&copy->node, &copy->op_type, &copy->value, &copy->text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = arena_copy(arena, *texts[i], strlen(*texts[i]));
}
