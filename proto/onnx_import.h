// SPDX-License-Identifier: Apache-2.0
/* From an ONNX file to a Model.
 *
 * Nothing is lost: for every message the modeled fields are taken over and cleared, and what then
 * remains, unknown fields included, is packed into the object's `rest`. Large weights stay in the
 * file. The model counts no edits. Two things of invalid files are normalized when a changed model
 * is written: an absent name of an input, output or initializer becomes an empty one, and empty
 * entries follow protobuf's rules for non-canonical files.
 *
 * Refused with ERR_MODEL: what wire_guard refuses; a file without ir_version, opset_import or graph
 * (a cut-off file often parses); a name defined twice in one graph; external data that
 * external_data.h refuses. Operators, types and the sizes of tensors are not checked here.
 */
#ifndef DEMI_ONNX_IMPORT_H
#define DEMI_ONNX_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "compare.h"
#include "external_data.h"
#include "graph.h"

typedef struct ImportOptions {
    const char *data_root;  /* folder that external data is confined to; NULL: the model file's own,
                               or none where the model is not a file */
    bool allow_hardlinks;   /* of external data files */
    ExternalReader data;    /* external data that the caller gives; without functions: files */
    uint64_t memory_budget; /* as in GuardInput; 0: the default */
} ImportOptions;

/* Reads a model; `options` may be NULL. The model owns all it needs, open files too; later
 * allocations go to `trap`. On error everything is freed and NULL returned; memory running out is
 * an error (ERR_ENV) as well and does not jump. */
Model *onnx_import_file(const char *path, const ImportOptions *options, MemTrap *trap, Err *err);

typedef struct ImportBytes {
    const void *bytes; /* outlive the model: weights are read from them */
    uint64_t size;
    const char *name; /* for messages */
} ImportBytes;

Model *onnx_import_memory(const ImportBytes *input, const ImportOptions *options, MemTrap *trap,
                          Err *err);

typedef struct WrittenFile {
    const char *path;      /* its folder is where external data lies */
    const char *data_name; /* NULL, or data that the model names, and what the file is called yet */
    const char *data_file;
    Source *source; /* the file, where it is open, perhaps still being written (source_growing);
                         NULL: it is opened */
} WrittenFile;

/* True where the file reads as `model`: as model_compare of what onnx_import_file reads, but in
 * parts, so that little memory is needed beside the model's own. The model's names must be unique,
 * as model_verify demands. ERR_MODEL names the first difference, or why the file can't be read. */
bool onnx_compare_file(const Model *model, const WrittenFile *file, const CompareOptions *options,
                       Err *err);

#endif
