// SPDX-License-Identifier: Apache-2.0
/* Streams of the demi command; see console.h. */
#define _POSIX_C_SOURCE 200809L
#include "console.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "demi_front.h"
#include "outputs.h"
#include "progress_line.h"
#include "session.h"
#include "work_progress.h"

double console_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- errors ---------------------------------------------------------------------------------- */

bool console_has_color(const Program *program, FILE *stream) {
    const Parsed *parsed = program->parsed;
    const char *when =
        parsed && parsed_knows(parsed, "color") ? parsed_value(parsed, "color") : NULL;
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (when && strcmp(when, "auto") != 0) return strcmp(when, "always") == 0;
    return !(no_color && no_color[0]) && terminal && strcmp(terminal, "dumb") != 0 &&
           isatty(fileno(stream));
}

const char *console_paint(bool color, Paint paint) {
    static const char *const sequences[] = {[PAINT_PLAIN] = "\033[0m",
                                            [PAINT_BAD] = "\033[1;31m",
                                            [PAINT_GOOD] = "\033[32m",
                                            [PAINT_NOTE] = "\033[33m",
                                            [PAINT_HEAD] = "\033[1m"};
    return color ? sequences[paint] : "";
}

void console_print_error(bool color, const Err *err) {
    char line[4096];
    err_format(err, line, sizeof line);
    fprintf(stderr, "%sdemi:%s %s\n", console_paint(color, PAINT_BAD),
            console_paint(color, PAINT_PLAIN), line);
}

bool console_missing(const Parsed *parsed, const char *argument, Err *err) {
    err_set(err, ERR_USAGE, "'demi %s' needs %s", parsed->command->name, argument);
    err_hint(err, "usage: demi %s %s", parsed->command->name, parsed->command->usage);
    return false;
}

/* ---- standard output and error --------------------------------------------------------------- */

/* Has the reader of standard output gone? The stream only knows that some write failed. */
static bool reader_is_gone(void) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return errno == EPIPE || (poll(&output, 1, 0) == 1 && output.revents & (POLLERR | POLLHUP));
}

static void output_failed(Program *program) {
    if (program->output_error) return;
    program->output_error = reader_is_gone() ? EPIPE : errno ? errno : EIO;
}

bool console_write(void *data, const void *bytes, size_t size) {
    Program *program = data;
    progress_line_yield(true);
    if (!program->output_error && fwrite(bytes, 1, size, stdout) != size) output_failed(program);
    return !program->output_error || program->output_error == EPIPE;
}

bool console_write_error(void *program, const void *bytes, size_t size) {
    (void)program;
    progress_line_yield(false);
    return fwrite(bytes, 1, size, stderr) == size;
}

bool console_finish(Program *program, Err *err) {
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) output_failed(program);
    if (!program->output_error || program->output_error == EPIPE) return true;
    /* What the library said of it is only that its callback failed. */
    *err = (Err){.code = ERR_NONE};
    err_errno(err, program->output_error, "cannot write");
    err_file(err, "standard output");
    return false;
}

void console_progress(Program *program, const char *what, size_t done, size_t total) {
    if (!program->piece) program->piece = progress_begin(what, total, PROGRESS_STEPS);
    progress_turn(program->piece, what, done, total);
}

void console_progress_end(Program *program) {
    progress_end(program->piece);
    program->piece = 0;
    progress_line_clear();
}

/* ---- files that are read --------------------------------------------------------------------- */

static bool is_there(const char *path, Err *err) {
    struct stat status;
    if (strcmp(path, "-") == 0 || stat(path, &status) == 0) return true;
    if (errno != ENOENT && errno != ENOTDIR) return true; /* opening it will say more */
    err_set(err, ERR_USAGE, "no such file or folder");
    err_file(err, path);
    return false;
}

/* The path of NAME=PATH, where both may have '=' in them: the first one that is there. */
static const char *path_of_pair(const char *word) {
    const char *path = "-";
    for (const char *sign = strchr(word, '='); sign; sign = strchr(sign + 1, '=')) {
        path = sign + 1;
        if (access(path, F_OK) == 0) break;
    }
    return path;
}

static bool option_is_there(const Parsed *parsed, const char *name, Err *err) {
    bool pairs = strcmp(name, "input") == 0;
    const Words *words = parsed_knows(parsed, name) ? parsed_list(parsed, name) : NULL;
    for (size_t i = 0; words && i < words->count; i++) {
        const char *path = pairs ? path_of_pair(words->items[i]) : words->items[i];
        if (strcmp(path, "random") != 0 && !is_there(path, err)) return false;
    }
    return true;
}

/* That the second of two models is missing should not be noticed when the first has been run. */
static bool find_inputs(Program *program, Err *err) {
    static const char *const options[] = {"against", "data", "calibrate", "verify", "input"};
    const Parsed *parsed = program->parsed;
    if (program->inputs_found) return true;
    bool writes = strcmp(parsed->command->name, "convert") == 0 ||
                  strcmp(parsed->command->name, "simplify") == 0 ||
                  strcmp(parsed->command->name, "compile") == 0;
    size_t count = writes ? 1 : parsed->arguments.count;
    for (size_t i = 0; i < count; i++)
        if (!is_there(parsed->arguments.items[i], err)) return false;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!option_is_there(parsed, options[i], err)) return false;
    return program->inputs_found = true;
}

/* ---- models ---------------------------------------------------------------------------------- */

bool console_load(Program *program, const Parsed *parsed, const char *path, DemiModel **model,
                  Err *err) {
    if (!find_inputs(program, err)) return false;
    DemiError error = DEMI_ERROR_INIT;
    DemiLoadOptions options = DEMI_LOAD_OPTIONS_INIT;
    bool standard = strcmp(path, "-") == 0;
    options.data_root = parsed_value(parsed, "data-root");
    options.allow_hardlinks = parsed_flag(parsed, "allow-hardlinks");
    options.name = standard ? "standard input" : path;
    DemiStatus status = standard ? demi_load_fd(STDIN_FILENO, &options, model, &error)
                                 : demi_load_file(path, &options, model, &error);
    if (error_take(err, status, &error)) return true;
    if (!standard && session_is_plan(program->arena, path)) {
        *err = (Err){.code = ERR_NONE};
        err_set(err, ERR_MODEL, "this is an execution plan, not a model");
        err_hint(err, "'demi run', 'bench', 'compare', 'show' and 'check' take plans; "
                      "to convert one, use the model that it was compiled from");
    }
    err_file(err, options.name);
    return false;
}

static DemiStatus open_model(void *user, DemiModel **model, DemiError *error) {
    const ConsoleModel *wanted = user;
    Err err = {.code = ERR_NONE};
    console_load(wanted->program, wanted->parsed, wanted->path, model, &err);
    if (err.code != ERR_NONE) error_fill(error, (DemiStatus)err.code, &err);
    return (DemiStatus)err.code;
}

DemiSource console_source(ConsoleModel *model) {
    DemiSource source = DEMI_SOURCE_INIT;
    source.path = model->path;
    source.open = open_model;
    source.open_user = model;
    return source;
}

bool console_load_passes(const Parsed *parsed, DemiPasses **passes, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    const Words *files = parsed_list(parsed, "load-pass");
    if (files->count == 0) return true;
    DemiStatus status = demi_passes_new(passes, &error);
    for (size_t i = 0; i < files->count && status == DEMI_OK; i++)
        status = demi_passes_load(*passes, files->items[i], &error);
    return error_take(err, status, &error);
}

OutFile *console_open_model(Program *program, const char *path, Err *err) {
    if (strcmp(path, "-") != 0 || !isatty(STDOUT_FILENO))
        return outputs_open(program, "output", path, err);
    err_set(err, ERR_USAGE, "refusing to write a model to a terminal");
    err_hint(err, "redirect standard output, or name a file with -o");
    return NULL;
}

static bool is_text_name(const char *path) {
    static const char ending[] = ".onnxtxt";
    size_t length = strlen(path), wanted = sizeof ending - 1;
    return length >= wanted && strcmp(path + length - wanted, ending) == 0;
}

bool console_write_model(Program *program, DemiModel *model, OutFile *file, ModelSave **save,
                         Err *err) {
    *save = NULL;
    if (is_text_name(file->path)) {
        DemiError error = DEMI_ERROR_INIT;
        OutputFile output = {file, err};
        DemiStatus status = demi_print(model, true, outputs_write, &output, &error);
        return error_take(err, status, &error);
    }
    Arena *arena = arena_child(program->arena); /* its end waits for who still reads the file */
    *save = outputs_save(program, model, file, arena, err);
    if (!*save) arena_free(arena); /* who reads it reads the model, too, which may go before */
    return *save != NULL;
}
