// SPDX-License-Identifier: Apache-2.0
/* Saving a model so that nothing can go wrong unnoticed.
 *
 * The model goes to a temporary file (outfile.h), which is read again through the importer and
 * compared with the model in memory: the structure wholly, the data of tensors by checksums taken
 * while it was written. That goes on while the file is written, and while the system moves it to
 * the device: what reading back gives are the same pages before and after. Only when it is the same
 * and synced it replaces the destination.
 *
 * External data goes to one file beside the model, named by its content, `OUT.onnx.<16 hex>.data`,
 * so that an old model and its data stay a pair until the new model is in place: data first, then
 * the model, then data files with names of this form are deleted that no model beside it has in it: the
 * old model's, unless it was copied, and what was left by a process that was killed between the two.
 * No other file is ever deleted, and none overwritten but one of equal content. A lock on the
 * folder keeps two processes that save to one name from deleting each other's data.
 *
 * Data that a caller names lose the first of this: between the two renames the old model is beside the new
 * data. What has that name is overwritten where it is equal, or the old model's and no other's; else it is
 * an error.
 */
#ifndef DEMI_MODEL_SAVE_H
#define DEMI_MODEL_SAVE_H

#include "graph.h"
#include "outfile.h"

typedef struct SaveInfo {
    uint64_t model_bytes, data_bytes;
    char data_name[256]; /* empty: no data file */
    bool copied;         /* the model was unchanged: its own bytes were written */
} SaveInfo;

/* Where weights of 1 KiB and more go. */
typedef enum SavePlace {
    SAVE_AS_IT_WAS =
        0, /* outside where the model had some there, or passes 2^31 - 1 bytes; else inside */
    SAVE_OUTSIDE = 1,
    SAVE_INSIDE = 2, /* ERR_ENV where the model passes that */
} SavePlace;

typedef struct SaveOptions {
    SavePlace place;
    const char
        *data_name; /* what external data are called, beside the model; NULL: by their content */
    SaveInfo *info; /* filled on success; may be NULL */
    uint64_t memory_budget; /* most bytes of scratch memory, beside the model read back; 0: any */
} SaveOptions;

/* Saves to path: a file, a symlink to one, a device or FIFO, '-' for standard output. What is
 * streamed is not read again and can't have external data: it is written inside the model, and a
 * model of more than 2^31 - 1 bytes is an ERR_ENV. options may be NULL.
 *
 * On error the old file is as it was and nothing else is left, except where the error says that
 * only syncing the folder failed. Codes: those of outfile_create, onnx_export_plan, and of reading
 * the weights; ERR_ENV also where the written file does not read back as the model. Memory running
 * out is an error and does not jump. */
bool model_save(const Model *model, const char *path, const SaveOptions *options, Err *err);

/* The same in two halves, for who has more to do before the model may appear: writing other files
 * that have to appear with it, or nothing to. */
typedef struct ModelSave ModelSave;

/* True of what may be a file's name in a folder; data_name has to be. */
bool model_save_is_name(const char *name);

/* Writes the model to `out`, which outfile_create gave, and reads it back; of the options place and
 * data_name count. Nothing is in place then. All memory is of `arena`, which must live until the commit or the end without one; memory running
 * out jumps to its trap. NULL on error. */
ModelSave *model_save_write(const Model *model, OutFile *out, const SaveOptions *options,
                            Arena *arena, Err *err);

/* Puts these other files (NULL: none), the data and the model in place, all or none, as
 * outfile_commit_all, and deletes data files of that name that no model there names any more. */
bool model_save_commit(ModelSave *save, const OutFileList *with, Err *err);

/* What was written, and to where; valid as long as the save's arena. */
const OutFile *model_save_out(const ModelSave *save);

#endif
