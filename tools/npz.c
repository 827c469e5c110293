// SPDX-License-Identifier: Apache-2.0
/* Reading of .npz: a ZIP archive (APPNOTE.TXT 4.3, with the 64-bit extension that NumPy writes)
 * whose members are .npy files. Only its directory and stored members are read; every offset is
 * checked against the file's size by source_read. */
#include <string.h>

#include "npy.h"

enum {
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR_SIZE = 20,
    ENTRY_SIZE = 46,
    LOCAL_SIZE = 30,
    MOST_COMMENT = 65535,
    MOST_MEMBERS = 1 << 16,
};

static uint64_t get(const unsigned char *p, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)p[i] << 8 * i;
    return value;
}

static bool broken(Err *err) {
    return err_set(err, ERR_MODEL, "this is no .npz archive, or damaged");
}

typedef struct Directory {
    uint64_t offset, size, count;
} Directory;

/* The 64-bit record stands before the plain one, where a field of that is full. */
static bool find_wide(const Source *source, uint64_t end, Directory *d, Err *err) {
    unsigned char locator[LOCATOR_SIZE], wide[END64_SIZE];
    if (end < LOCATOR_SIZE) return true;
    if (!source_read(source, end - LOCATOR_SIZE, locator, sizeof locator, err)) return false;
    if (memcmp(locator, "PK\x06\x07", 4) != 0) return true;
    uint64_t at = get(locator + 8, 8);
    if (at > source->size || source->size - at < END64_SIZE) return broken(err);
    if (!source_read(source, at, wide, sizeof wide, err)) return false;
    if (memcmp(wide, "PK\x06\x06", 4) != 0) return broken(err);
    *d = (Directory){get(wide + 48, 8), get(wide + 40, 8), get(wide + 32, 8)};
    return true;
}

static bool find_directory(Arena *arena, const Source *source, Directory *d, Err *err) {
    uint64_t most = END_SIZE + MOST_COMMENT;
    size_t size = (size_t)(source->size < most ? source->size : most);
    unsigned char *tail = arena_alloc(arena, size + 1);
    if (size < END_SIZE) return broken(err);
    if (!source_read(source, source->size - size, tail, size, err)) return false;
    size_t at = size - END_SIZE + 1;
    while (at-- > 0)
        if (memcmp(tail + at, "PK\x05\x06", 4) == 0) break;
    if (at == SIZE_MAX) return broken(err);
    *d = (Directory){get(tail + at + 16, 4), get(tail + at + 12, 4), get(tail + at + 10, 2)};
    return find_wide(source, source->size - size + at, d, err);
}

/* Fields that are full stand in the extra field, in this order: size, compressed size, offset. */
static void widen(const unsigned char *extra, size_t length, uint64_t *fields[3]) {
    for (size_t at = 0; at + 4 <= length;) {
        size_t size = (size_t)get(extra + at + 2, 2), next = at + 4;
        if (size > length - next) return;
        for (int i = 0; get(extra + at, 2) == 1 && i < 3; i++) {
            if (*fields[i] != UINT32_MAX || next + 8 > at + 4 + size) continue;
            *fields[i] = get(extra + next, 8);
            next += 8;
        }
        at += 4 + size;
    }
}

bool npz_list(Arena *arena, const Source *source, NpzMembers *members, Err *err) {
    Directory d = {0};
    if (!find_directory(arena, source, &d, err)) return false;
    if (d.offset > source->size || d.size > source->size - d.offset || d.count > MOST_MEMBERS)
        return broken(err);
    unsigned char *bytes = arena_alloc(arena, (size_t)d.size + 1);
    if (!source_read(source, d.offset, bytes, d.size, err)) return false;
    size_t at = 0, size = (size_t)d.size;
    for (uint64_t i = 0; i < d.count; i++) {
        const unsigned char *entry = bytes + at;
        if (size - at < ENTRY_SIZE || memcmp(entry, "PK\x01\x02", 4) != 0) return broken(err);
        size_t name = (size_t)get(entry + 28, 2), extra = (size_t)get(entry + 30, 2);
        size_t whole = ENTRY_SIZE + name + extra + (size_t)get(entry + 32, 2);
        if (whole > size - at) return broken(err);
        uint64_t packed = get(entry + 20, 4), full = get(entry + 24, 4), local = get(entry + 42, 4);
        widen(entry + ENTRY_SIZE + name, extra, (uint64_t *[3]){&full, &packed, &local});
        char *text = arena_copy(arena, entry + ENTRY_SIZE, name);
        if (name > 4 && memcmp(text + name - 4, ".npy", 4) == 0) text[name - 4] = '\0';
        NpzMember member = {text, local, full, get(entry + 10, 2) == 0 && packed == full};
        VEC_PUSH(arena, members, member);
        at += whole;
    }
    return true;
}

bool npz_read(Arena *arena, const Source *source, const NpzMember *member, Bytes *bytes, Err *err) {
    unsigned char local[LOCAL_SIZE];
    if (!member->stored) {
        err_set(err, ERR_MODEL, "the archive's '%s' is compressed", member->name);
        err_hint(err, "demi reads archives of numpy.savez, not of savez_compressed");
        return false;
    }
    if (member->header > source->size || source->size - member->header < LOCAL_SIZE)
        return broken(err);
    if (!source_read(source, member->header, local, sizeof local, err)) return false;
    uint64_t start = member->header + LOCAL_SIZE + get(local + 26, 2) + get(local + 28, 2);
    if (memcmp(local, "PK\x03\x04", 4) != 0 || start > source->size ||
        member->size > source->size - start)
        return broken(err);
    unsigned char *data = arena_alloc(arena, (size_t)member->size + 1);
    *bytes = (Bytes){data, (size_t)member->size};
    return source_read(source, start, data, member->size, err);
}
