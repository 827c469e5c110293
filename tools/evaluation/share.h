// SPDX-License-Identifier: Apache-2.0
/* Work that several processes share, each of which runs some of the sets of inputs. What a set gives is
 * brought together in the order of sets, so that no bit of a result depends on the number of processes.
 *
 * All processes come to the same calls of this file, in the same order. */
#ifndef DEMI_SHARE_H
#define DEMI_SHARE_H

#include "byte_buffer.h"
#include "demi_trials.h"
#include "err.h"

typedef struct Share {
    size_t part, parts; /* of this process; parts 0 or 1: it is alone */
    DemiCombineFn combine;
    void *user;
} Share;

static inline bool share_is_alone(const Share *share) {
    return share->parts < 2;
}

/* ERR_USAGE where the caller's numbers or callback are wrong. */
bool share_check(const Share *share, Err *err);

/* Bitwise or of all processes' words, in all of them; nothing changes where this one is alone. False with
 * ERR_ENV where another process has come to an end. */
bool share_words(const Share *share, uint64_t *words, size_t count, Err *err);

/* A word of each process, in all of them: words[parts]. */
bool share_each(const Share *share, uint64_t mine, uint64_t *words, Err *err);

/* What process `from` has in `bytes`, in all of them; the others' are empty before. */
bool share_spread(const Share *share, size_t from, ByteBuffer *bytes, Err *err);

/* ---- bytes ----------------------------------------------------------------------------------- */

void share_pack(ByteBuffer *bytes, const void *from, size_t size);
/* NULL comes back as NULL. */
void share_pack_text(ByteBuffer *bytes, const char *text);

/* Bytes that are read; `cut`: there were fewer, and what was read is zeros. */
typedef struct ShareBytes {
    const char *at;
    size_t left;
    bool cut;
} ShareBytes;

void share_unpack(ShareBytes *bytes, void *to, size_t size);
const char *share_unpack_text(ShareBytes *bytes, Arena *arena);
/* False with the error set where bytes were cut, or are left: processes are of different versions. */
bool share_unpacked(const ShareBytes *bytes, Err *err);

/* ---- a record of each set -------------------------------------------------------------------- */

/* Begins a record in this process's bytes, and ends or forgets it. */
size_t share_record_begin(ByteBuffer *bytes, uint64_t set);
void share_record_end(ByteBuffer *bytes, size_t begun);
void share_record_drop(ByteBuffer *bytes, size_t begun);

/* Called with each record, in the order of sets; false with the error set ends it. */
typedef bool (*ShareRecordFn)(void *user, uint64_t set, ShareBytes *bytes, Err *err);

/* Brings the records of all processes together. */
bool share_records(const Share *share, const ByteBuffer *mine, ShareRecordFn take, void *user,
                   Err *err);

#endif
