// SPDX-License-Identifier: Apache-2.0
/* Source: random-access bytes a model or its weights are read from: an open file, memory, what a
 * caller's function gives, or what is made as it is read.
 *
 * Files are read with pread, not mapped: a file that shrinks while we work gives an error, not a
 * signal. Reading is safe from several threads at once. Who runs a model maps its weights (MappedFile).
 */
#ifndef DEMI_BASE_SOURCE_H
#define DEMI_BASE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "arena.h"
#include "err.h"

typedef struct SourceWindow SourceWindow;
typedef struct SourceGrowth SourceGrowth;

/* A caller's bytes. It may be called in several threads at once; false: they can't be read. */
typedef struct SourceReader {
    bool (*read)(void *user, const char *name, uint64_t offset, void *buffer, uint64_t size);
    void *user;
} SourceReader;

/* Makes bytes [offset, offset + size), the same each time. It may be called in several threads at once;
 * false with *err set where they can't be made. */
typedef bool SourceMaker(void *user, uint64_t offset, void *buffer, uint64_t size, Err *err);

typedef struct Source {
    const char *name;            /* path for messages, owned by the arena */
    uint64_t size;               /* bytes, as found when opened */
    const unsigned char *memory; /* the bytes, or NULL where fd is read */
    int fd;                      /* -1 where there is no file; closed by the arena that made it */
    SourceReader reader;         /* without a function where there is memory or a file */
    SourceMaker *make;           /* NULL where bytes are there already */
    void *maker;                 /* for it */
    uint64_t device, inode;      /* of a file, to recognize the same file under two names; else 0 */
    SourceWindow *window;        /* what was read ahead; NULL: nothing ever is */
    SourceGrowth *growth;        /* of a file that is being written; else NULL */
} Source;

/* For a program that must not write over what it reads: called with every regular file that is opened for
 * reading, here and by all who tell (source_tell), from any thread. False with *err set: it must not be
 * opened. Set before there are threads; NULL ends it. */
typedef bool (*SourceWatch)(void *user, const struct stat *file, const char *path, Err *err);
void source_watch(SourceWatch watch, void *user);

/* Tells of a file that is opened otherwise than by a Source. */
bool source_tell(const struct stat *file, const char *path, Err *err);

/* Opens a regular file for reading; the arena owns Source and descriptor. NULL on error: ERR_USAGE
 * where the path does not exist or is a directory, ERR_ENV where it can't be read. A pipe or
 * character device is read whole into memory, at most `limit` bytes. */
Source *source_open(Arena *arena, const char *path, uint64_t limit, Err *err);

/* Reads everything from a descriptor (stdin) into memory, at most `limit` bytes. NULL on error. */
Source *source_read_all(Arena *arena, int fd, const char *name, uint64_t limit, Err *err);

/* Takes an open descriptor of a regular file: closed with the arena, or at once where memory runs
 * out before the arena has it. NULL on error. */
Source *source_from_fd(Arena *arena, int fd, const char *name, Err *err);

/* As source_from_fd, of a file that another thread is writing from front to back: it will have
 * `size` bytes, and reading waits for those that are not there yet. The writer says what is there,
 * and at last that it has ended, also where it failed: reading beyond that is an ERR_MODEL. */
Source *source_growing(Arena *arena, int fd, const char *name, uint64_t size, Err *err);
void source_has(Source *source, uint64_t size);
void source_ended(Source *source);

/* Borrowed memory that outlives the arena's use of it. */
Source *source_from_memory(Arena *arena, const void *bytes, uint64_t size, const char *name);

/* The reader's bytes of that name, which it must be able to give as long as the arena lives. */
Source *source_from_reader(Arena *arena, const SourceReader *reader, uint64_t size,
                           const char *name);

/* Bytes that are made as they are read, from what lives as long as the arena. */
Source *source_from_maker(Arena *arena, SourceMaker *make, void *maker, uint64_t size,
                          const char *name);

/* Has small reads of a file that follow one another, as of a model's many small weights, be served
 * from a window of 64 KiB that is read at once. Before the first read; does nothing to memory. */
void source_read_ahead(Source *source, Arena *arena);

/* Reads exactly `size` bytes at `offset`. False with ERR_MODEL where the range lies outside or the
 * file has shrunk, ERR_ENV where reading fails. */
bool source_read(const Source *source, uint64_t offset, void *buffer, uint64_t size, Err *err);

/* Whether its bytes are a file's that is not being written: what may be mapped, by its descriptor. */
bool source_is_file(const Source *source);

/* A file that lies in memory as it is, at that distance from what else is there. */
typedef struct MappedFile {
    const Source *source;
    uint64_t at;
} MappedFile;

/* Two hash64 of all bytes, of seeds 0 and 1: what a plan knows its model by. Large sources are read and
 * hashed by several threads, which end with `scratch`. */
bool source_hash(const Source *source, Arena *scratch, uint64_t hash[2], Err *err);

#endif
