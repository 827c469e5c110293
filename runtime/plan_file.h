// SPDX-License-Identifier: Apache-2.0
/* A plan's bytes from a file: what tables and constants refer to each other by is read into memory
 * of the process, weights are mapped.
 *
 * Plans are checked once, so nothing that was checked may change: whoever writes to the file later
 * reaches weights alone, whose values may be anything. Where the file becomes shorter they are gone
 * (SIGBUS). Small files are read whole.
 */
#ifndef DEMI_PLAN_FILE_H
#define DEMI_PLAN_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "source.h"

enum { PLAN_FILE_SMALL = 4 << 20 };

typedef struct PlanFile {
    void *bytes;         /* page-aligned; NULL: nothing is open */
    size_t size, mapped; /* of all; behind the first size - mapped, which were read */
} PlanFile;

/* Reads the file, all of it where `copy`. ERR_MODEL where there is none, or it is not a plan by its
 * first bytes; ERR_ENV where it can't be read. */
bool plan_file_open(PlanFile *file, const char *path, bool copy, Err *err);
void plan_file_close(PlanFile *file);

/* A plan that is written piece by piece into memory of the process, as a file that is read whole
 * lies there, and files of weights behind it, which are mapped as those of a plan file are. All 0 at
 * first; `file` is closed also after a failure. */
typedef struct PlanRoom {
    PlanFile file;
    size_t room, written; /* bytes that there is memory for, and that were put into it */
    bool exhausted;       /* memory ran out */
} PlanRoom;
/* A DemiWriteFn of a PlanRoom: false where memory runs out. */
bool plan_room_write(void *room, const void *bytes, size_t size);
/* An ArtifactSink's `map` of a PlanRoom. ERR_MODEL where a file became shorter since its source was opened,
 * ERR_ENV where it can't be mapped. */
bool plan_room_map(void *room, uint64_t size, const MappedFile *files, size_t count, Err *err);

/* Says that bytes of the file are not wanted for now: whole pages of them that are mapped leave the
 * process's memory, and come again where they are read. */
void plan_file_forget(const PlanFile *file, const void *bytes, size_t size);

#endif
