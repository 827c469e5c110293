// SPDX-License-Identifier: Apache-2.0
/* Opening and running of models and plans; see session.h. Their inputs are in session_inputs.c. */
#include "session.h"

#include <string.h>
#include <sys/stat.h>

#include "device.h"
#include "error_fill.h"
#include "model_plan.h"
#include "model_source.h"
#include "plan.h"
#include "processors.h"
#include "source.h"
#include "value_io.h"

/* ---- opening --------------------------------------------------------------------------------- */

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
    s->carried = ARENA_ARRAY(arena, bool, s->input_count + 1);
    for (size_t i = 0; i < s->input_count; i++) {
        s->inputs[i] = (DemiPlanIo)DEMI_PLAN_IO_INIT;
        demi_plan_input(s->plan, i, &s->inputs[i]);
    }
    s->declared = arena_copy(arena, s->inputs, s->input_count * sizeof *s->inputs);
    if (!s->uses) s->uses = input_uses(s->plan, arena);
    input_sizes_find(&s->sizes, s->declared, s->input_count, arena);
    for (size_t i = 0; i < s->output_count; i++) {
        s->outputs[i] = (DemiPlanIo)DEMI_PLAN_IO_INIT;
        demi_plan_output(s->plan, i, &s->outputs[i]);
    }
}

/* ---- what goes from run to run --------------------------------------------------------------- */

size_t session_find_io(const DemiPlanIo *list, size_t count, const char *name, size_t first) {
    for (size_t k = 0; k < count; k++) {
        const size_t i = (first + k) % count;
        if (strcmp(list[i].name, name) == 0) return i;
    }
    return count;
}

size_t session_input(const Session *s, const char *name) {
    return session_find_io(s->inputs, s->input_count, name, 0);
}

/* What '*' of the pattern stands for in the text; "" where there is none and they are equal. NULL:
 * they do not match. */
static const char *star_of(Arena *arena, const char *pattern, size_t size, const char *text) {
    const char *star = memchr(pattern, '*', size);
    const size_t before = star ? (size_t)(star - pattern) : size,
                 behind = star ? size - before - 1 : 0;
    const size_t length = strlen(text);
    if (length < before + behind || (!star && length != size) ||
        memcmp(pattern, text, before) != 0 ||
        memcmp(pattern + size - behind, text + length - behind, behind) != 0)
        return NULL;
    return arena_copy(arena, text + before, length - before - behind);
}

/* The input that is the pattern with that text for '*'; input_count where there is none. */
static size_t starred_input(const Session *s, const char *pattern, const char *middle,
                            Arena *arena) {
    const char *star = strchr(pattern, '*');
    if (!star) return session_input(s, pattern);
    return session_input(
        s, arena_printf(arena, "%.*s%s%s", (int)(star - pattern), pattern, middle, star + 1));
}

/* A pair, at the '=' that both names are around. */
static bool carry_at(Session *s, Arena *arena, const char *word, size_t size, size_t *count,
                     Err *err) {
    const bool stars = !memchr(word, '*', size) == !strchr(word + size, '*'); /* in both or none */
    for (size_t i = 0; i < s->output_count; i++) {
        DemiError error = DEMI_ERROR_INIT;
        const char *middle = stars ? star_of(arena, word, size, s->outputs[i].name) : NULL;
        const size_t input =
            middle ? starred_input(s, word + size + 1, middle, arena) : s->input_count;
        if (input == s->input_count) continue;
        DemiStatus status =
            demi_context_carry(s->context, s->outputs[i].name, s->inputs[input].name, &error);
        if (!error_take(err, status, &error)) return false;
        s->carried[input] = true;
        ++*count;
    }
    return true;
}

static bool carry(Session *s, Arena *arena, const char *word, Err *err) {
    size_t count = 0;
    for (const char *end = strchr(word, '='); end && !count; end = strchr(end + 1, '='))
        if (!carry_at(s, arena, word, (size_t)(end - word), &count, err)) return false;
    if (count) return true;
    err_set(err, ERR_USAGE, "'%s' of '--carry' does not match an output and an input", word);
    err_hint(err,
             "use --carry OUTPUT=INPUT, or 'present.*=past.*' for several names; the outputs are: "
             "%s; the inputs are: %s",
             session_list(arena, s->outputs, s->output_count),
             session_list(arena, s->inputs, s->input_count));
    return false;
}

static bool carry_all(Session *s, Arena *arena, Err *err) {
    for (size_t i = 0; i < s->how->carry_count; i++)
        if (!carry(s, arena, s->how->carries[i], err)) return false;
    return true;
}

static bool make_context(Session *s, Arena *arena, Err *err) {
    enum { MOST_THREADS = 1024 };
    DemiError error = DEMI_ERROR_INIT;
    uint32_t threads = s->how->context.threads;
    if (!threads) threads = processors_usable();
    s->options = s->how->context;
    s->threads = s->options.threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    DemiStatus status = demi_context_new(s->plan, &s->options, &s->context, &error);
    if (!error_take(err, status, &error)) return false;
    find_ios(s, arena);
    return carry_all(s, arena, err);
}

static void close_session(void *session) {
    session_close(session);
}

Session *session_new(Arena *arena, const SessionOptions *how) {
    Session *s = ARENA_NEW(arena, Session);
    s->how = how;
    arena_defer(arena, close_session, s);
    return s;
}

/* The device of that name, if it is one: what it lacks is said before a model is compiled for it, which
 * can take long. */
static bool hold_device(const char *name, Device **device, Err *err) {
    unsigned number;
    if (!name || strcmp(name, "cpu") == 0) return true;
    const DeviceKind *kind = device_kind(name, &number, err);
    return kind && (*device = kind->open(number, err)) != NULL;
}

bool session_open_model(Session *s, Arena *arena, DemiModel **model, Err *err) {
    Device *device = NULL;
    DemiError error = DEMI_ERROR_INIT;
    bool ok = hold_device(s->how->context.device, &device, err) &&
              error_take(err, model_plan(model, &s->how->compile, &s->plan, &error), &error) &&
              make_context(s, arena, err);
    if (!ok && s->path) err_file(err, s->path);
    if (device) device->kind->close(device); /* who runs on it has it, too */
    return ok;
}

static bool open_model(Session *s, Arena *arena, const DemiSource *source, Err *err) {
    DemiModel **model = model_hold(arena);
    bool ok = model_open(source, model, err) && session_open_model(s, arena, model, err);
    model_drop(model);
    return ok;
}

bool session_open(Session *s, Arena *arena, const DemiSource *source, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    *s = (Session){.path = source->path ? source->path : "model", .how = s->how};
    s->is_plan = !source->open && source->path && session_is_plan(arena, source->path);
    if (!s->is_plan) return open_model(s, arena, source, err);
    bool ok = error_take(err, demi_plan_load(s->path, &s->plan, &error), &error) &&
              make_context(s, arena, err);
    if (!ok) err_file(err, s->path);
    return ok;
}

Session *session_twin(const Session *of, Arena *arena, const SessionOptions *how, Err *err) {
    Session *s = session_new(arena, how);
    s->path = of->path;
    s->is_plan = of->is_plan;
    s->twin = true;
    s->plan = of->plan;
    s->uses = of->uses;
    return make_context(s, arena, err) ? s : NULL;
}

void session_close(Session *s) {
    demi_context_free(s->context);
    if (!s->twin) demi_plan_free(s->plan);
    s->context = NULL;
    s->plan = NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

bool session_bind(Session *s, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    for (size_t i = 0; i < s->input_count; i++) {
        if (!s->given[i] || (s->ran && s->carried[i])) continue;
        DemiStatus status =
            demi_context_set_input(s->context, s->inputs[i].name, &s->values[i], &error);
        if (error_take(err, status, &error)) continue;
        err_file(err, s->path);
        return false;
    }
    return true;
}

uint64_t session_budget(const Session *s) {
    return demi_context_budget(s->context) + s->reserved;
}

bool session_reserve(Session *s, uint64_t bytes) {
    const uint64_t budget = demi_context_budget(s->context);
    s->reserved += bytes;
    demi_context_set_budget(s->context, bytes < budget ? budget - bytes : 1);
    return bytes < budget && demi_context_held(s->context) <= budget - bytes;
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

/* The options' way to give inputs, with an input's name for the word NAME. */
static const char *way_to_give(const Session *s, const char *input) {
    const char *way = s->how->inputs.hint ? s->how->inputs.hint : "provide your own inputs";
    const char *name = strstr(way, "NAME");
    if (!name) return way;
    return arena_printf(s->sizes.arena, "%.*s%s%s", (int)(name - way), way, input, name + 4);
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
        names = arena_printf(arena, "%s%s'%s' (%s)", names, i ? ", " : "", s->inputs[found[i]].name,
                             value_io_text(arena, &s->inputs[found[i]]));
    const char *way = way_to_give(s, count ? s->inputs[found[0]].name : "NAME");
    if (assumed[0])
        err_hint(err,
                 "sizes were assumed, %s; set them with --dim NAME=N; its random inputs: %s; %s",
                 assumed, names[0] ? names : "see --help", way);
    else
        err_hint(err, "its inputs were random: %s; %s", names[0] ? names : "all", way);
}

void session_blame_data(const char *data, Err *err) {
    if (data && err->code == ERR_MODEL) err_hint(err, "its inputs are those of '%s'", data);
}

bool session_run(Session *s, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    s->ran = error_take(err, demi_context_run(s->context, &error), &error);
    if (s->ran) return true;
    err_file(err, s->path);
    session_blame_data(s->data, err);
    if (s->made && err->code == ERR_MODEL) hint_at_inputs(s, err);
    if (s->reserved && err->code == ERR_ENV)
        err_hint(err, "cached values use %llu bytes of the limit", (unsigned long long)s->reserved);
    return false;
}

/* No axis but the one along which it grew has more slices, or fewer: that error means nothing. */
const DemiData *session_output(const Session *session, const char *name, size_t first) {
    const size_t i = session_find_io(session->outputs, session->output_count, name, first);
    return i < session->output_count ? demi_context_output(session->context, i) : NULL;
}

void session_rewind(Session *s) {
    for (size_t i = 0; i < s->input_count; i++) {
        if (!s->carried[i] || !s->given[i] || s->values[i].kind != DEMI_DATA_TENSOR_KIND) continue;
        for (uint32_t k = 0; k < s->values[i].rank; k++)
            demi_context_cut(s->context, s->inputs[i].name, k, s->values[i].dims[k], NULL);
    }
}

const char *session_list(Arena *arena, const DemiPlanIo *ios, size_t count) {
    const char *text = count ? "" : "none";
    for (size_t i = 0; i < count && strlen(text) < 2000; i++)
        text = arena_printf(arena, "%s%s%s %s", text, i ? ", " : "", ios[i].name,
                            value_io_text(arena, &ios[i]));
    return text;
}
