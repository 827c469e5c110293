// SPDX-License-Identifier: Apache-2.0
/* See share.h. All of it is made of one operation, the bitwise or of words: each process has its own
 * numbers in places of its own, and zeros elsewhere. */
#include "share.h"

#include <stdlib.h>
#include <string.h>

bool share_check(const Share *share, Err *err) {
    if (share_is_alone(share) || (share->combine && share->part < share->parts)) return true;
    return err_set(err, ERR_USAGE, "cannot combine part %zu of %zu", share->part, share->parts);
}

bool share_words(const Share *share, uint64_t *words, size_t count, Err *err) {
    if (share_is_alone(share) || !count || share->combine(share->user, words, count)) return true;
    return err_set(err, ERR_ENV, "cannot get the results of other processes");
}

bool share_each(const Share *share, uint64_t mine, uint64_t *words, Err *err) {
    memset(words, 0, share->parts * sizeof *words);
    words[share->part] = mine;
    return share_words(share, words, share->parts, err);
}

bool share_spread(const Share *share, size_t from, ByteBuffer *bytes, Err *err) {
    uint64_t size = bytes->bytes.count;
    if (!share_words(share, &size, 1, err)) return false;
    Arena *within = arena_child(bytes->arena);
    const size_t count = (size_t)(size + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    uint64_t *words = ARENA_ARRAY(within, uint64_t, count + 1);
    if (share->part == from && size) memcpy(words, bytes->bytes.items, size);
    const bool ok = share_words(share, words, count, err);
    if (ok && share->part != from) share_pack(bytes, words, size);
    arena_free(within);
    return ok;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void share_pack(ByteBuffer *bytes, const void *from, size_t size) {
    if (size) byte_buffer_write(bytes, from, size);
    byte_buffer_end(bytes);
}

void share_pack_text(ByteBuffer *bytes, const char *text) {
    const uint64_t size = text ? strlen(text) + 1 : 0;
    share_pack(bytes, &size, sizeof size);
    share_pack(bytes, text, size);
}

void share_unpack(ShareBytes *bytes, void *to, size_t size) {
    if (size > bytes->left) {
        bytes->cut = true;
        bytes->left = 0;
        memset(to, 0, size);
        return;
    }
    if (size) memcpy(to, bytes->at, size);
    bytes->at += size;
    bytes->left -= size;
}

const char *share_unpack_text(ShareBytes *bytes, Arena *arena) {
    uint64_t size;
    share_unpack(bytes, &size, sizeof size);
    if (!size) return NULL;
    if (size > bytes->left) {
        bytes->cut = true;
        return NULL;
    }
    const char *text = arena_copy(arena, bytes->at, (size_t)size - 1);
    bytes->at += size;
    bytes->left -= (size_t)size;
    return text;
}

bool share_unpacked(const ShareBytes *bytes, Err *err) {
    if (!bytes->cut && !bytes->left) return true;
    return err_set(err, ERR_ENV, "the processes run different versions of demi");
}

/* ---- a record of each set -------------------------------------------------------------------- */

typedef struct RecordHead {
    uint64_t set, size; /* of what follows */
} RecordHead;

size_t share_record_begin(ByteBuffer *bytes, uint64_t set) {
    const RecordHead head = {set, 0};
    share_pack(bytes, &head, sizeof head);
    return bytes->bytes.count;
}

void share_record_end(ByteBuffer *bytes, size_t begun) {
    const uint64_t size = bytes->bytes.count - begun;
    memcpy(bytes->bytes.items + begun - sizeof size, &size, sizeof size);
}

void share_record_drop(ByteBuffer *bytes, size_t begun) {
    bytes->bytes.count = begun - sizeof(RecordHead);
}

typedef struct Record {
    uint64_t set;
    ShareBytes bytes;
} Record;

typedef VEC(Record) RecordList;

static int by_set(const void *a, const void *b) {
    const Record *x = a, *y = b;
    return (x->set > y->set) - (x->set < y->set);
}

static bool list_records(const ByteBuffer *bytes, Arena *arena, RecordList *list, Err *err) {
    ShareBytes all = {bytes->bytes.items, bytes->bytes.count, false};
    while (all.left) {
        RecordHead head;
        share_unpack(&all, &head, sizeof head);
        if (all.cut || head.size > all.left) {
            all.cut = true;
            break;
        }
        const Record record = {head.set, {all.at, (size_t)head.size, false}};
        VEC_PUSH(arena, list, record);
        all.at += head.size;
        all.left -= (size_t)head.size;
    }
    return share_unpacked(&all, err);
}

bool share_records(const Share *share, const ByteBuffer *mine, ShareRecordFn take, void *user,
                   Err *err) {
    Arena *within = arena_child(mine->arena);
    RecordList list = {0};
    bool ok = true;
    for (size_t from = 0; ok && from < share->parts; from++) {
        ByteBuffer *bytes = ARENA_NEW(within, ByteBuffer);
        bytes->arena = within;
        if (from == share->part) share_pack(bytes, mine->bytes.items, mine->bytes.count);
        ok = share_spread(share, from, bytes, err) && list_records(bytes, within, &list, err);
    }
    if (ok && list.count) qsort(list.items, list.count, sizeof *list.items, by_set);
    for (size_t i = 0; ok && i < list.count; i++)
        ok = take(user, list.items[i].set, &list.items[i].bytes, err) &&
             share_unpacked(&list.items[i].bytes, err);
    arena_free(within);
    return ok;
}
