// SPDX-License-Identifier: Apache-2.0
/* What every subcommand does with files and streams: load, save, print, report failure.
 *
 * Results go to standard output, messages and progress to standard error. Where the model itself
 * goes to standard output, every report moves to standard error. All writing to standard output
 * passes console_write or the stream console_report gives, so that a full disk or a reader that has
 * gone is noticed once, in console_finish.
 */
#ifndef DEMI_CONSOLE_H
#define DEMI_CONSOLE_H

#include <stdbool.h>
#include <stdio.h>

#include "arena.h"
#include "demi_trials.h"
#include "err.h"
#include "error_fill.h"
#include "model_save.h"
#include "options.h"
#include "outfile.h"
#include "ranks.h"

struct Program {
    Arena *arena; /* lives as long as the command */
    const CommandTable *commands;
    const Parsed *parsed;    /* its words; NULL before they are parsed */
    struct Outputs *outputs; /* the files it writes: outputs.h */
    int output_error;        /* errno of the first write to standard output that failed, else 0 */
    int exit_code;           /* of a command that succeeded: diff's answer */
    bool inputs_found;       /* all files that the words name were there */
    unsigned piece;          /* console_progress's, of work_progress.h */
    double started;          /* seconds, console_seconds' clock */
    Ranks ranks;             /* of a command that is shared; else 0 of 1 */
};

/* Seconds of a clock that only runs forward. */
double console_seconds(void);

/* A DemiWriteFn to standard output; user is the Program. */
bool console_write(void *program, const void *bytes, size_t size);

/* A DemiWriteFn to standard error. */
bool console_write_error(void *program, const void *bytes, size_t size);

/* Says what the command is at, on the progress line: so many of the total are done, which take much the
 * same each. */
void console_progress(Program *program, const char *what, size_t done, size_t total);
/* That it has ended. */
void console_progress_end(Program *program);

/* Colors, which say nothing that the words do not. */
typedef enum Paint { PAINT_PLAIN, PAINT_BAD, PAINT_GOOD, PAINT_NOTE, PAINT_HEAD } Paint;

/* True where text on the stream is to have colors: by --color, else on a terminal where neither
 * NO_COLOR is set nor TERM is dumb. */
bool console_has_color(const Program *program, FILE *stream);

/* The sequence that begins a color, or ends it (PAINT_PLAIN); "" where `color` is false. */
const char *console_paint(bool color, Paint paint);

/* Prints "demi: ..." and the hint to standard error. */
void console_print_error(bool color, const Err *err);

/* Flushes standard output and turns what failed there into an error. A reader that has gone is not
 * one: nobody misses the text. */
bool console_finish(Program *program, Err *err);

/* Loads a model by path, '-' being standard input, with the options --data-root and
 * --allow-hardlinks of the command. */
bool console_load(Program *program, const Parsed *parsed, const char *path, DemiModel **model,
                  Err *err);

/* A model that the library opens for itself, as console_load does; `path` is not a stream where it
 * is opened several times. */
typedef struct ConsoleModel {
    Program *program;
    const Parsed *parsed;
    const char *path;
} ConsoleModel;
/* *model must live as long as the source is used. */
DemiSource console_source(ConsoleModel *model);

/* The passes with those of --load-pass, to be freed with demi_passes_free; *passes stays NULL where
 * the option is not given. */
bool console_load_passes(const Parsed *parsed, DemiPasses **passes, Err *err);

/* Opens what -o names, '-' being standard output, if that is not a terminal: see outputs_open. */
OutFile *console_open_model(Program *program, const char *path, Err *err);

/* Writes the model there: as text where it is called .onnxtxt, then *save is NULL. What is written
 * appears with outputs_commit(program, *save, err). */
bool console_write_model(Program *program, DemiModel *model, OutFile *file, ModelSave **save,
                         Err *err);

/* ERR_USAGE naming the missing argument, with the usage line as hint. */
bool console_missing(const Parsed *parsed, const char *argument, Err *err);

#endif
