// SPDX-License-Identifier: Apache-2.0
/* The files that a command writes: all of them appear, or none.
 *
 * A destination is opened before the work begins, as a temporary file beside it: that it can't be
 * written is known at once, and not when the work is done. It is refused where it is the same file
 * as another output, or as one that the command reads, whoever in it does: a model (convert's,
 * simplify's and opt's OUT may be IN), its external data, sets of inputs, a policy, a journal. When everything has been written, text on standard
 * output too, outputs_commit puts all in place. What outfile_commit_all says of that holds here.
 */
#ifndef DEMI_OUTPUTS_H
#define DEMI_OUTPUTS_H

#include "console.h"
#include "model_save.h"
#include "outfile.h"

typedef struct Outputs Outputs;

/* From now on it knows of every file that the program reads (source_watch). */
Outputs *outputs_new(const Program *program);

/* Opens a destination; `option` is who names it, without dashes. NULL with ERR_USAGE where it is
 * refused, or as outfile_create. */
OutFile *outputs_open(Program *program, const char *option, const char *path, Err *err);

/* Gives up a destination that was opened: what is there stays. */
void outputs_drop(Program *program, OutFile *file);

/* Tries one that is only written where something fails: by the same rules, and leaves nothing. */
bool outputs_try(Program *program, const char *option, const char *path, Err *err);

/* Makes a folder unless it is there. One that was made goes again where nothing is committed. */
bool outputs_make_folder(Program *program, const char *path, Err *err);

/* A DemiWriteFn: user is an OutputFile. */
typedef struct OutputFile {
    OutFile *file;
    Err *err;
} OutputFile;
bool outputs_write(void *output_file, const void *bytes, size_t size);

/* Where weights of models go: into the file, or beside it, into one of that name where it is not NULL; as
 * they were where none of these is asked for. */
bool outputs_place(Program *program, bool inside, bool outside, const char *name, Err *err);

/* model_save_write, which reads what is there to know what goes with it. */
ModelSave *outputs_save(Program *program, const DemiModel *model, OutFile *file, Arena *arena,
                        Err *err);

/* Flushes standard output, then puts all files in place, a saved model (NULL: none) last. After
 * that more may be opened. ERR_ENV where standard output, or anything else, can't be written; that
 * its reader has gone is not an error. */
bool outputs_commit(Program *program, ModelSave *save, Err *err);

#endif
