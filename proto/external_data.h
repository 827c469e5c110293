// SPDX-License-Identifier: Apache-2.0
/* External tensor data, reading side: from the entries of a TensorProto to a range of an open file.
 *
 * A file may only name data in its own folder. The path is resolved beneath that folder (openat2,
 * else component by component without following links) and the open file is what is checked:
 * regular, one hard link, the range inside it. A symbolic link is followed where its target lies in
 * the folder, or in the folder of the model's own real path: download caches keep a folder of links
 * beside one of files. Nothing is ever opened by a path that was only looked at before.
 */
#ifndef DEMI_EXTERNAL_DATA_H
#define DEMI_EXTERNAL_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "graph.h"

typedef struct ExternalData ExternalData;

/* Data that a caller's functions give instead of files, called by their locations, which may then be
 * any text. */
typedef struct ExternalReader {
    int64_t (*size)(void *user, const char *location); /* bytes; below 0: there is none */
    SourceReader reader;
} ExternalReader;

typedef struct ExternalOptions {
    ExternalReader from;    /* without functions: files */
    const char *folder;     /* data lies in here; NULL: there is no folder, all data is refused */
    const char *model_path; /* whose real path's folder links may lead to; NULL: `folder` alone */
    bool allow_hardlinks;
    const char *written;    /* NULL, or a location whose file is still called `written_as` */
    const char *written_as; /* a name in `folder` */
    bool without_openat2;   /* resolve component by component, as on kernels before 5.6 */
} ExternalOptions;

typedef struct ExternalRange {
    const Source *source;  /* owned by the arena; one per location */
    uint64_t offset, size; /* a range inside the source */
} ExternalRange;

/* The files of one model. Strings are borrowed; folders are opened with the first tensor. Open
 * descriptors belong to the arena. */
ExternalData *external_data_new(Arena *arena, const ExternalOptions *options);

/* The range that the tensor's `external` entries name: location, offset (0), length (to the end);
 * other keys mean nothing here. ERR_MODEL names tensor and location; ERR_ENV for what a system
 * call can't do. Whether the size fits the tensor is tensor_check's to say. */
bool external_data_find(ExternalData *external, const Tensor *tensor, ExternalRange *range,
                        Err *err);

/* Adds the files that were opened to the model's data_files. */
void external_data_list(const ExternalData *external, Model *model);

#endif
