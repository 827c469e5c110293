// SPDX-License-Identifier: Apache-2.0
/* The words of commands that run something, as the options of the library; see run_options.h. */
#include "run_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"

/* The option's value; NULL where the command does not have it. */
static const char *value_of(const Parsed *parsed, const char *option) {
    return parsed_knows(parsed, option) ? parsed_value(parsed, option) : NULL;
}

static const char *const *list_of(const Parsed *parsed, const char *option, size_t *count) {
    const Words *words = parsed_knows(parsed, option) ? parsed_list(parsed, option) : NULL;
    *count = words ? words->count : 0;
    return words ? words->items : NULL;
}

/* Bytes: a whole number from 1 on, with K, M or G for powers of 1024. */
static bool read_size(const char *text, uint64_t *bytes) {
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    *bytes = (uint64_t)value << shift;
    return text[0] >= '0' && text[0] <= '9' && !end[unit != NULL] && !errno && value &&
           *bytes >> shift == value;
}

/* What --memory says: `small`, and bytes; 0 where none are given. */
static bool memory_of(const Parsed *parsed, bool *small, uint64_t *bytes, Err *err) {
    static const char word[] = "small";
    const char *given = value_of(parsed, "memory"), *text = given;
    *bytes = 0;
    *small = given && strncmp(given, word, sizeof word - 1) == 0;
    if (*small) text += sizeof word - 1;
    if (!text || (*small && !*text)) return true;
    text += *small && *text == ',' ? 1 : *small ? strlen(text) : 0; /* else no number */
    if (read_size(text, bytes)) return true;
    err_set(err, ERR_USAGE, "bad value of option '--memory'");
    err_expected(err, "a number of bytes such as 500M or 2G, 'small', or both: 'small,2G'");
    err_actual(err, "'%s'", given);
    return false;
}

static bool device_memory_of(const Parsed *parsed, uint64_t *bytes, Err *err) {
    const char *given = value_of(parsed, "device-memory");
    *bytes = 0;
    if (!given || read_size(given, bytes)) return true;
    err_set(err, ERR_USAGE, "bad value of option '--device-memory'");
    err_expected(err, "a number of bytes such as 500M or 2G");
    err_actual(err, "'%s'", given);
    return false;
}

const char *run_options_device(const Parsed *parsed) {
    const char *device = value_of(parsed, "device");
    return device && strcmp(device, "cpu") != 0 ? device : NULL;
}

static bool on_device(const Parsed *parsed) {
    return run_options_device(parsed);
}

bool run_options_compile(const Parsed *parsed, bool judged, DemiCompileOptions *options, Err *err) {
    static const DemiCompileOptions plain = DEMI_COMPILE_OPTIONS_INIT;
    const char *numerics = value_of(parsed, "numerics");
    bool faithful = numerics ? strcmp(numerics, "faithful") == 0 : judged;
    *options = plain;
    if (parsed_knows(parsed, "isa")) options->isa = (DemiIsa)parsed_choice(parsed, "isa");
    options->numerics = faithful ? DEMI_NUMERICS_FAITHFUL : DEMI_NUMERICS_FAST;
    options->keep_values = faithful && judged;
    if (!memory_of(parsed, &options->small, &options->memory_budget, err)) return false;
    options->for_device = on_device(parsed);
    return true;
}

/* A word of --kernels. */
static DemiKernels kernels_of(const Parsed *parsed) {
    const char *word = value_of(parsed, "kernels");
    DemiError error = DEMI_ERROR_INIT;
    if (!word || strcmp(word, "auto") == 0) return DEMI_KERNELS_AUTO;
    if (strcmp(word, "own") == 0) return DEMI_KERNELS_OWN;
    if (!demi_onednn_version(&error))
        fprintf(stderr, "demi: cannot use oneDNN, running demi's own kernels instead: %s\n",
                error.message);
    return DEMI_KERNELS_ONEDNN;
}

bool run_options_context(const Parsed *parsed, DemiContextOptions *options, Err *err) {
    static const DemiContextOptions plain = DEMI_CONTEXT_OPTIONS_INIT;
    uint64_t threads;
    *options = plain;
    const char *tf32 = value_of(parsed, "tf32");
    options->tf32 = tf32 && strcmp(tf32, "on") == 0;
    const char *graph = value_of(parsed, "device-graph");
    options->device_steps = graph && strcmp(graph, "off") == 0;
    if (!parsed_number(parsed, "threads", 1, &threads, 0, err) ||
        !device_memory_of(parsed, &options->device_memory, err) ||
        !memory_of(parsed, &options->small, &options->memory_budget, err))
        return false;
    options->threads = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX;
    options->kernels = kernels_of(parsed);
    options->device = value_of(parsed, "device");
    if (on_device(parsed)) options->small = false; /* of the host's memory */
    return !parsed_knows(parsed, "time") ||
           parsed_real(parsed, "time", &options->time_limit, 0, err);
}

static bool fill_inputs(const Parsed *parsed, DemiInputOptions *options, Err *err) {
    static const DemiInputOptions plain = DEMI_INPUT_OPTIONS_INIT;
    *options = plain;
    options->data = value_of(parsed, "data");
    options->files = list_of(parsed, "input", &options->file_count);
    options->shapes = list_of(parsed, "shape", &options->shape_count);
    options->dims = list_of(parsed, "dim", &options->dim_count);
    options->random = parsed_flag(parsed, "random");
    options->hint = parsed_knows(parsed, "input") ? "give it with --input NAME=FILE"
                                                  : "provide your own inputs with --verify DIR";
    return parsed_number(parsed, "random", 0, &options->seed, 0, err);
}

bool run_options_fill(const ConsoleModel *model, bool judged, SessionOptions *options, Err *err) {
    const Parsed *parsed = model->parsed;
    options->carries = list_of(parsed, "carry", &options->carry_count);
    if (run_options_compile(parsed, judged, &options->compile, err) &&
        run_options_context(parsed, &options->context, err))
        return fill_inputs(parsed, &options->inputs, err);
    err_file(err, model->path);
    return false;
}

bool run_progress(void *user, const char *what, size_t done, size_t total) {
    RunProgress *progress = user;
    bool searches = strcmp(what, "finding nodes to keep") == 0;
    /* several processes would not end at the same trial */
    if (searches && !progress->holds && progress->program->ranks.parts < 2)
        progress->holds = interrupt_hold();
    if (progress->holds && interrupt_came()) return false;
    console_progress(progress->program, what, done, total);
    return true;
}

void run_progress_end(RunProgress *progress) {
    if (progress->holds) interrupt_release();
    progress->holds = false;
    console_progress_end(progress->program);
}

DemiSource run_source(ConsoleModel *model) {
    DemiSource source = console_source(model);
    if (session_is_plan(model->program->arena, model->path)) source.open = NULL;
    return source;
}

/* ---- numbers of options ---------------------------------------------------------------------- */

bool parsed_number(const Parsed *parsed, const char *option, uint64_t least, uint64_t *number,
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
    err_expected(err, "an integer of at least %llu", (unsigned long long)least);
    err_actual(err, "'%s'", text);
    return false;
}

bool parsed_real(const Parsed *parsed, const char *option, double *number, double otherwise,
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

bool parsed_limit(const Parsed *parsed, DemiLimit *limit, Err *err) {
    static const DemiLimit by_types = DEMI_LIMIT_INIT;
    *limit = by_types;
    return parsed_real(parsed, "max-error", &limit->error, by_types.error, err) &&
           parsed_real(parsed, "atol", &limit->least, by_types.least, err);
}
