// SPDX-License-Identifier: Apache-2.0
/* Running it; see score_command.h. */
#define _DEFAULT_SOURCE /* popen */
#include "score_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "error_fill.h"
#include "outputs.h"

static const char *temporary_folder(void) {
    const char *folder = getenv("TMPDIR");
    return folder && folder[0] ? folder : "/tmp";
}

/* As one word of a shell. */
static const char *quoted(Arena *arena, const char *path) {
    const char *text = "'";
    for (const char *quote; (quote = strchr(path, '\'')); path = quote + 1)
        text = arena_printf(arena, "%s%.*s'\\''", text, (int)(quote - path), path);
    return arena_printf(arena, "%s%s'", text, path);
}

/* The last word of what was printed. */
static bool read_score(FILE *out, double *score) {
    char word[128], last[128] = "";
    char *end;
    while (fscanf(out, "%127s", word) == 1) memcpy(last, word, sizeof last);
    *score = strtod(last, &end);
    return last[0] && !*end;
}

static bool ask(const ScoreCommand *c, const char *path, double *score, Err *err) {
    const char *line = arena_printf(c->arena, "%s %s", c->words, quoted(c->arena, path));
    fflush(stdout);
    FILE *out = popen(line, "r");
    if (!out) return err_errno(err, errno, "cannot start the command of '--%s'", c->option);
    const bool read = read_score(out, score);
    const int status = pclose(out);
    if (status == 0 && read) return true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        err_set(err, ERR_USAGE, "the command of '--%s' printed no number", c->option);
    else if (WIFEXITED(status))
        err_set(err, ERR_USAGE, "the command of '--%s' failed with exit code %d", c->option,
                WEXITSTATUS(status));
    else
        err_set(err, ERR_USAGE, "the command of '--%s' was ended by a signal", c->option);
    err_hint(err,
             "it gets the path of a model as its last argument, and must print a score as its last "
             "word: %s",
             c->words);
    return false;
}

static bool write_model(DemiModel *model, OutFile *file, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    OutputFile output = {file, err};
    return error_take(err, demi_save_callback(model, outputs_write, &output, NULL, &error), &error);
}

DemiStatus score_command_run(void *command, DemiModel *model, double *score, DemiError *error) {
    ScoreCommand *c = command;
    Err err = {0};
    Arena *within = arena_child(c->arena);
    const ScoreCommand here = {within, c->option, c->words};
    OutFile *file =
        outfile_create(within, arena_printf(within, "%s/demi-eval.onnx", temporary_folder()), &err);
    bool ok = file && write_model(model, file, &err);
    demi_free(model);
    ok =
        ok && ask(&here, arena_printf(within, "%s/%s", file->folder_path, file->temp), score, &err);
    arena_free(within); /* the file goes with it */
    if (ok) return DEMI_OK;
    error_fill(error, (DemiStatus)err.code, &err);
    return (DemiStatus)err.code;
}
