// SPDX-License-Identifier: Apache-2.0
/* Opening and running of models and plans; see session.h. Their inputs are in session_inputs.c. */
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plan.h"
#include "processors.h"
#include "value_io.h"

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct PlanBytes {
    Arena *arena;
    VEC(char) bytes;
} PlanBytes;

static bool take_plan(void *user, const void *bytes, size_t size) {
    PlanBytes *plan = user;
    while (plan->bytes.capacity - plan->bytes.count < size + PLAN_ALIGN)
        plan->bytes.items = vec_grow(plan->arena, plan->bytes.items, &plan->bytes.capacity, 1);
    memcpy(plan->bytes.items + plan->bytes.count, bytes, size);
    plan->bytes.count += size;
    return true;
}

static bool compile(DemiModel *model, const Parsed *parsed, bool judges, SessionSink sink,
                    Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiCompileOptions options = DEMI_COMPILE_OPTIONS_INIT;
    const char *numerics =
        parsed_knows(parsed, "numerics") ? parsed_value(parsed, "numerics") : NULL;
    bool faithful = numerics ? strcmp(numerics, "faithful") == 0 : judges;
    options.numerics = faithful ? DEMI_NUMERICS_FAITHFUL : DEMI_NUMERICS_FAST;
    options.keep_values = faithful && judges;
    if (parsed_knows(parsed, "memory") &&
        !session_bytes(parsed, "memory", &options.memory_budget, err))
        return false;
    DemiStatus status = demi_compile(model, &options, sink.write, sink.user, &error);
    return console_check(status, &error, err);
}

bool session_compile(Program *program, const Parsed *parsed, const char *path, bool judges,
                     SessionSink sink, Err *err) {
    DemiModel *model = NULL;
    if (!console_load(program, parsed, path, &model, err)) return false;
    bool ok = compile(model, parsed, judges, sink, err);
    if (!ok) err_file(err, path);
    demi_free(model);
    return ok;
}

static bool make_plan(Session *s, Program *program, const Parsed *parsed, DemiModel *model,
                      Err *err) {
    PlanBytes plan = {.arena = program->arena};
    DemiError error = DEMI_ERROR_INIT;
    if (!compile(model, parsed, s->judges, (SessionSink){take_plan, &plan}, err)) return false;
    char *start = plan.bytes.items;
    size_t gap = (size_t)(-(uintptr_t)start % PLAN_ALIGN);
    if (gap) memmove(start + gap, start, plan.bytes.count);
    DemiStatus status = demi_plan_from_memory(start + gap, plan.bytes.count, &s->plan, &error);
    return console_check(status, &error, err);
}

bool session_is_plan(Arena *arena, const char *path) {
    char magic[sizeof PLAN_MAGIC - 1];
    Err ignored = {.code = ERR_NONE};
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false; /* a pipe is read once */
    Source *source = source_open(arena, path, 0, &ignored);
    return source && source->size >= sizeof magic &&
           source_read(source, 0, magic, sizeof magic, &ignored) &&
           memcmp(magic, PLAN_MAGIC, sizeof magic) == 0;
}

static void find_ios(Session *s, Arena *arena) {
    s->input_count = demi_plan_input_count(s->plan);
    s->output_count = demi_plan_output_count(s->plan);
    s->inputs = ARENA_ARRAY(arena, DemiPlanIo, s->input_count + 1);
    s->outputs = ARENA_ARRAY(arena, DemiPlanIo, s->output_count + 1);
    s->values = ARENA_ARRAY(arena, DemiData, s->input_count + 1);
    s->given = ARENA_ARRAY(arena, bool, s->input_count + 1);
    for (size_t i = 0; i < s->input_count; i++) {
        s->inputs[i] = (DemiPlanIo)DEMI_PLAN_IO_INIT;
        demi_plan_input(s->plan, i, &s->inputs[i]);
    }
    s->declared = arena_copy(arena, s->inputs, s->input_count * sizeof *s->inputs);
    s->uses = input_uses(s->plan, arena);
    input_sizes_find(&s->sizes, s->declared, s->input_count, arena);
    for (size_t i = 0; i < s->output_count; i++) {
        s->outputs[i] = (DemiPlanIo)DEMI_PLAN_IO_INIT;
        demi_plan_output(s->plan, i, &s->outputs[i]);
    }
}

/* A word of --kernels. Where oneDNN is asked for and can't be had, a line says so, and demi's own
 * run. */
static DemiKernels kernels_of(const Parsed *parsed) {
    const char *word = parsed_knows(parsed, "kernels") ? parsed_value(parsed, "kernels") : NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (!word || strcmp(word, "auto") == 0) return DEMI_KERNELS_AUTO;
    if (strcmp(word, "own") == 0) return DEMI_KERNELS_OWN;
    if (!demi_onednn_version(&error))
        fprintf(stderr, "demi: oneDNN can't be used, demi's own kernels run: %s\n", error.message);
    return DEMI_KERNELS_ONEDNN;
}

static bool make_context(Session *s, Program *program, const Parsed *parsed, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    uint64_t threads, memory = 0;
    if (!session_number(parsed, "threads", 1, &threads, processors_usable(), err) ||
        (parsed_knows(parsed, "memory") && !session_bytes(parsed, "memory", &memory, err)))
        return false;
    s->threads = options.threads = (unsigned)(threads < 1024 ? threads : 1024);
    options.kernels = kernels_of(parsed);
    options.memory_budget = memory;
    if (parsed_knows(parsed, "time") && !session_real(parsed, "time", &options.time_limit, 0, err))
        return false;
    s->options = options;
    s->takes_files = parsed_knows(parsed, "input");
    find_ios(s, program->arena);
    return console_check(demi_context_new(s->plan, &options, &s->context, &error), &error, err);
}

bool session_open_model(Session *s, Program *program, const Parsed *parsed, DemiModel *model,
                        Err *err) {
    bool ok = make_plan(s, program, parsed, model, err) && make_context(s, program, parsed, err);
    if (!ok) err_file(err, s->path);
    return ok;
}

bool session_open(Session *s, Program *program, const Parsed *parsed, const char *path, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel *model = NULL;
    *s = (Session){.path = path, .judges = s->judges};
    s->is_plan = session_is_plan(program->arena, path);
    if (!s->is_plan) {
        bool ok = console_load(program, parsed, path, &model, err) &&
                  session_open_model(s, program, parsed, model, err);
        demi_free(model);
        return ok;
    }
    bool ok = console_check(demi_plan_load(path, &s->plan, &error), &error, err) &&
              make_context(s, program, parsed, err);
    if (!ok) err_file(err, path);
    return ok;
}

void session_close(Session *s) {
    demi_context_free(s->context);
    demi_plan_free(s->plan);
    s->context = NULL;
    s->plan = NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

bool session_bind(Session *s, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    for (size_t i = 0; i < s->input_count; i++) {
        if (!s->given[i]) continue;
        DemiStatus status =
            demi_context_set_input(s->context, s->inputs[i].name, &s->values[i], &error);
        if (console_check(status, &error, err)) continue;
        err_file(err, s->path);
        return false;
    }
    return true;
}

const char *session_assumed(const Session *s) {
    const char *text = input_sizes_text(&s->sizes, s->declared);
    return text[0] ? arena_printf(s->sizes.arena, "; sizes assumed: %s", text) : "";
}

bool session_probe(const Session *s) {
    DemiError ignored = DEMI_ERROR_INIT;
    DemiContext *context = NULL;
    bool ok = demi_context_new(s->plan, &s->options, &context, &ignored) == DEMI_OK;
    for (size_t i = 0; ok && i < s->input_count; i++)
        ok = !s->given[i] || demi_context_borrow_input(context, s->inputs[i].name, &s->values[i],
                                                       &ignored) == DEMI_OK;
    ok = ok && demi_context_run(context, &ignored) == DEMI_OK;
    demi_context_free(context);
    return ok;
}

/* A model that can't work with what was drawn for it: which inputs that concerns, and what gives
 * them values of one's own. */
static void hint_at_inputs(const Session *s, Err *err) {
    enum { MOST = 3 };
    size_t found[MOST], count;
    Arena *arena = s->sizes.arena;
    const char *names = "", *assumed = input_sizes_text(&s->sizes, s->inputs);
    count = input_use_of_step(s->plan, err->node, arena, found, MOST);
    for (size_t i = 0; i < count; i++)
        names = arena_printf(arena, "%s%s'%s' (%s)", names, i ? ", " : "",
                             s->inputs[found[i]].name,
                             value_io_text(arena, &s->inputs[found[i]]));
    const char *first = count ? s->inputs[found[0]].name : "NAME";
    const char *file = s->takes_files ? arena_printf(arena, "give it with --input %s=FILE", first)
                                      : "give inputs of your own, --verify DIR";
    if (assumed[0])
        err_hint(err, "sizes were assumed, %s: --dim NAME=N says them; its random inputs: %s; %s",
                 assumed, names[0] ? names : "see --help", file);
    else
        err_hint(err, "its inputs were random: %s; %s", names[0] ? names : "all", file);
}

bool session_run(Session *s, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    if (console_check(demi_context_run(s->context, &error), &error, err)) return true;
    err_file(err, s->path);
    if (s->made && err->code == ERR_MODEL) hint_at_inputs(s, err);
    return false;
}

/* ---- numbers of options ---------------------------------------------------------------------- */

bool session_number(const Parsed *parsed, const char *option, uint64_t least, uint64_t *number,
                    uint64_t otherwise, Err *err) {
    const char *text = parsed_value(parsed, option);
    char *end;
    *number = otherwise;
    if (!text) return true;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *number = value;
    if (text[0] >= '0' && text[0] <= '9' && !*end && !errno && value >= least) return true;
    err_set(err, ERR_USAGE, "bad value of option '--%s'", option);
    err_expected(err, "a whole number from %llu on", (unsigned long long)least);
    err_actual(err, "'%s'", text);
    return false;
}

bool session_bytes(const Parsed *parsed, const char *option, uint64_t *bytes, Err *err) {
    static const char units[] = "KMG";
    const char *text = parsed_value(parsed, option);
    char *end;
    *bytes = 0;
    if (!text) return true;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    *bytes = (uint64_t)value << shift;
    if (text[0] >= '0' && text[0] <= '9' && !end[unit != NULL] && !errno && value &&
        *bytes >> shift == value)
        return true;
    err_set(err, ERR_USAGE, "bad value of option '--%s'", option);
    err_expected(err, "a number of bytes, as 500M or 2G");
    err_actual(err, "'%s'", text);
    return false;
}

bool session_real(const Parsed *parsed, const char *option, double *number, double otherwise,
                  Err *err) {
    const char *text = parsed_value(parsed, option);
    char *end;
    *number = otherwise;
    if (!text) return true;
    *number = strtod(text, &end);
    if (*text && !*end && *number >= 0) return true; /* not of NaN */
    err_set(err, ERR_USAGE, "bad value of option '--%s'", option);
    err_expected(err, "a number that is not negative");
    err_actual(err, "'%s'", text);
    return false;
}

const char *session_list(Arena *arena, const DemiPlanIo *ios, size_t count) {
    const char *text = count ? "" : "none";
    for (size_t i = 0; i < count && strlen(text) < 2000; i++)
        text = arena_printf(arena, "%s%s%s %s", text, i ? ", " : "", ios[i].name,
                            value_io_text(arena, &ios[i]));
    return text;
}
