// SPDX-License-Identifier: Apache-2.0
/* OutFile: a file that appears whole or not at all.
 *
 * Bytes go to a temporary file in the destination's own folder; outfile_commit renames it over the
 * destination. Until then the old file is untouched, and whatever ends the work (an error, memory
 * running out, the arena being freed) removes the temporary.
 *
 * A symlink as destination is followed, also a dangling one: its target is replaced, the link
 * stays. A device, FIFO or '-' (standard output) can't be replaced: bytes are written through at
 * once
 * (`streaming`). Reading the old file under the same name meanwhile is fine: it is another inode.
 *
 * Several files are put in place together by outfile_commit_all: all or none.
 *
 * A process that is ended by a signal runs none of its cleanup, so live temporaries are also noted
 * in a table that outfile_end_by reads. What a process leaves that is killed outright is removed by
 * the next that puts a file into the same folder: temporaries are locked (flock) as long as their
 * process lives, and only what has their form of name and no lock goes.
 */
#ifndef DEMI_BASE_OUTFILE_H
#define DEMI_BASE_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "err.h"
#include "source.h"
#include "vec.h"

typedef struct LiveTemp LiveTemp; /* an entry of that table */

/* What outfile_commit_all did with a file, for taking it back. */
typedef enum OutFilePlaced {
    OUTFILE_NOT_PLACED,
    OUTFILE_NEW,      /* there was none of its name */
    OUTFILE_SWAPPED,  /* the old file has the temporary's name now */
    OUTFILE_REPLACED, /* the old file is gone */
} OutFilePlaced;

typedef struct OutFile {
    const char *path; /* as given, for messages */
    const char *name; /* last component of the file that commit replaces; NULL when streaming */
    const char *folder_path; /* of that file; NULL when streaming */
    int folder;              /* descriptor of the folder both files lie in; -1 when streaming */
    uint64_t folder_device, folder_inode; /* its identity */
    int fd;   /* read and write; write only when streaming; -1 once committed or aborted */
    int lock; /* keeps the temporary locked once fd is closed; -1: none */
    LiveTemp *live;
    uint64_t size;    /* bytes that outfile_write appended so far */
    uint64_t started; /* bytes that are on their way to the device, or there */
    bool streaming;
    bool synced;   /* nothing was written since outfile_sync */
    bool first;    /* to be on the device in its place before files after it are put in theirs */
    bool locked;   /* holds its folder's lock */
    bool in_place; /* renamed over the destination */
    OutFilePlaced placed;
    char temp[40]; /* name of the temporary file; empty when streaming */
} OutFile;

typedef VEC(OutFile *) OutFileList;

/* Makes the temporary file, with the mode (and, where allowed, the owner) of the file it is to
 * replace, else 0666 less the umask. NULL on error: ERR_USAGE where path is empty, a folder, or in
 * a folder that does not exist; ERR_ENV where the folder or the old file may not be written. The
 * arena owns the OutFile and aborts it if it is still open then. */
OutFile *outfile_create(Arena *arena, const char *path, Err *err);

/* Appends. ERR_ENV, with what == OUTFILE_GONE where the reader of a pipe has gone. */
bool outfile_write(OutFile *file, const void *bytes, size_t size, Err *err);

/* Copies `size` bytes of a source from `offset` on to the end, inside the kernel where it can. */
bool outfile_copy(OutFile *file, const Source *source, uint64_t offset, uint64_t size, Err *err);

/* Has the system begin to move what was appended so far to the device, without waiting: what is
 * done meanwhile then costs no time of its own. Large files do so by themselves as they grow. */
void outfile_start_sync(OutFile *file);

/* Flushes the bytes to the device; nothing to do when streaming. */
bool outfile_sync(OutFile *file, Err *err);

/* What was written so far, readable through a descriptor of its own. NULL on error; not when
 * streaming. `name` is what messages call it. */
Source *outfile_reopen(const OutFile *file, Arena *arena, const char *name, Err *err);

/* All that is going to be written, `size` bytes, readable meanwhile: see source_growing. The caller
 * tells it what outfile_write wrote. */
Source *outfile_follow(const OutFile *file, Arena *arena, const char *name, uint64_t size,
                       Err *err);

/* Changes the last component of the destination, before commit: for files named by content. Not
 * when streaming. The name is copied into the arena and must not hold a '/'. */
void outfile_set_name(OutFile *file, Arena *arena, const char *name);

/* Syncs, renames the temporary over the destination and syncs the folder. When it fails the old
 * file is untouched and the temporary gone, except where only syncing the folder failed: the new
 * file is then in place, but may not survive a power cut. When streaming, only closes. */
bool outfile_commit(OutFile *file, Err *err);

/* True where the new file has replaced the old one: also after a commit that failed late. */
bool outfile_is_in_place(const OutFile *file);

/* Flushes, syncs and closes: what is left to a commit is to rename. */
bool outfile_finish(OutFile *file, Err *err);

/* Commits all of these, in this order, or none: all are finished first, and where one can't be
 * renamed those before it are taken back. So after an error every destination is as it was, but
 * - what was streamed (to a pipe, a device) is written;
 * - where only syncing a folder failed at the end, all are in place;
 * - on a file system that can't swap two names (NFS, FAT) a file that replaced another one stays
 *   (the hint names it): the most important one comes last.
 * Who is killed outright, or loses power, between two renames leaves those before in place. */
bool outfile_commit_all(OutFile *const *files, size_t count, Err *err);

/* Locks (flock) the folders that these lie in until the files are committed or aborted: for who
 * looks what is there before a commit. outfile_commit_all of several does it itself. */
void outfile_lock_folders(OutFile *const *files, size_t count);

/* Removes the temporary; does nothing after commit or abort. */
void outfile_abort(OutFile *file);

/* For the handler of a signal that ends the process afterwards; async-signal-safe. Removes the
 * temporary of every open OutFile. False while files are being put in place, on whatever thread:
 * the handler must return then, and the signal is raised again when they are. */
bool outfile_end_by(int signal_number);

/* The removing alone: for handlers of faults, and for an end that could not free its arenas. */
void outfile_remove_all(void);

/* What an error says when the reader of a pipe has gone; commands then end quietly. They must
 * ignore SIGPIPE (and SIGXFSZ, so that a file size limit is an error, too). */
#define OUTFILE_GONE "the reader of the output closed it"

/* True for that error. */
bool outfile_is_gone(const Err *err);

#endif
