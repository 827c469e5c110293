// SPDX-License-Identifier: Apache-2.0
/* Reading of .npz: a ZIP archive (APPNOTE.TXT 4.3, with the 64-bit extension that NumPy writes)
 * whose members are .npy files, stored or deflated. Every offset is checked against the file's size
 * by source_read. What a deflated member claims to become is not believed: it must be no more than
 * deflate can make of its bytes, and where it is large, than data that is worth the name shrinks
 * to.
 */
#include <string.h>
#include <zlib.h>

#include "npy.h"

enum {
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR_SIZE = 20,
    ENTRY_SIZE = 46,
    LOCAL_SIZE = 30,
    MOST_COMMENT = 65535,
    MOST_MEMBERS = 1 << 16,
    STORED = 0, /* methods */
    DEFLATED = 8,
    MOST_RATIO = 1032,       /* no byte of deflate becomes more */
    SMALL_MEMBER = 64 << 20, /* up to that any ratio is fine */
    MOST_LARGE_RATIO = 100,
    CHUNK = 64 << 10,
};

static uint64_t get(const unsigned char *p, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)p[i] << 8 * i;
    return value;
}

static bool broken(Err *err) {
    return err_set(err, ERR_MODEL, "not an .npz archive, or damaged");
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
        NpzMember member = {.name = text,
                            .header = local,
                            .size = full,
                            .packed = packed,
                            .method = (uint32_t)get(entry + 10, 2),
                            .crc = (uint32_t)get(entry + 16, 4)};
        VEC_PUSH(arena, members, member);
        at += whole;
    }
    return true;
}

/* ---- members --------------------------------------------------------------------------------- */

/* A deflated member, as bytes that are made as they are read: forward from where it is, or once more from
 * the beginning. So nobody needs all of a large one in memory. */
typedef struct Inflater {
    Arena *arena, *stream_arena; /* of the stream, from each beginning on */
    const Source *source;
    NpzMember member;
    uint64_t start; /* of its bytes in the archive */
    z_stream stream;
    uint32_t crc;      /* of what came out so far */
    bool begun, whole; /* the end was reached, and what it says is right */
    unsigned char chunk[CHUNK];
} Inflater;

static void *take_memory(void *arena, unsigned count, unsigned size) {
    return arena_array(arena, count, size);
}

/* The arena's end frees it. */
static void keep_memory(void *arena, void *memory) {
    (void)arena;
    (void)memory;
}

static bool begin(Inflater *f, Err *err) {
    if (f->stream_arena) arena_free(f->stream_arena);
    f->stream_arena = arena_child(f->arena);
    f->stream = (z_stream){.zalloc = take_memory, .zfree = keep_memory, .opaque = f->stream_arena};
    f->crc = (uint32_t)crc32(0, NULL, 0);
    f->whole = false;
    f->begun = inflateInit2(&f->stream, -MAX_WBITS) == Z_OK; /* without zlib's own header */
    return f->begun || err_set(err, ERR_ENV, "zlib does not work: %s", zlibVersion());
}

/* Gives the stream the next bytes of the member. */
static bool feed(Inflater *f, Err *err) {
    const uint64_t left = f->member.packed - f->stream.total_in;
    if (f->stream.avail_in || !left) return true;
    f->stream.avail_in = (uInt)(left < CHUNK ? left : CHUNK);
    f->stream.next_in = f->chunk;
    return source_read(f->source, f->start + f->stream.total_in, f->chunk, f->stream.avail_in, err);
}

/* The next bytes, up to CHUNK. What it says of its size and contents is checked at its end. */
static bool inflate_some(Inflater *f, unsigned char *out, uint64_t size, Err *err) {
    f->stream.next_out = out;
    f->stream.avail_out = (uInt)size;
    while (f->stream.avail_out) {
        const unsigned room = f->stream.avail_out;
        if (!feed(f, err)) return false;
        const unsigned before = f->stream.avail_in;
        const int status = inflate(&f->stream, Z_NO_FLUSH);
        f->whole = f->whole || status == Z_STREAM_END;
        if (status == Z_STREAM_END) break;
        /* less than it said, or nonsense */
        if (status != Z_OK || (f->stream.avail_in == before && f->stream.avail_out == room))
            return broken(err);
    }
    f->crc = (uint32_t)crc32(f->crc, out, (uInt)size);
    return !f->stream.avail_out || broken(err);
}

/* After the last byte: nothing may follow. */
static bool check_end(Inflater *f, Err *err) {
    unsigned char more;
    f->stream.next_out = &more;
    f->stream.avail_out = 1;
    while (!f->whole) {
        if (!feed(f, err)) return false;
        const unsigned before = f->stream.avail_in;
        const int status = inflate(&f->stream, Z_NO_FLUSH);
        if ((status != Z_OK && status != Z_STREAM_END) || !f->stream.avail_out) return broken(err);
        f->whole = status == Z_STREAM_END;
        if (!f->whole && f->stream.avail_in == before) return broken(err);
    }
    return f->crc == f->member.crc || broken(err);
}

static bool make_bytes(void *user, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    Inflater *f = user;
    unsigned char skipped[CHUNK / 4], *out = buffer;
    if ((!f->begun || offset < f->stream.total_out) && !begin(f, err)) return false;
    while (f->stream.total_out < offset) {
        const uint64_t left = offset - f->stream.total_out;
        if (!inflate_some(f, skipped, left < sizeof skipped ? left : sizeof skipped, err))
            return false;
    }
    for (uint64_t done = 0; done < size;) {
        const uint64_t n = size - done < CHUNK ? size - done : CHUNK;
        if (!inflate_some(f, out + done, n, err)) return false;
        done += n;
    }
    return f->stream.total_out < f->member.size || check_end(f, err);
}

/* What it claims to become is not believed. */
static bool is_plausible(const NpzMember *member, Err *err) {
    if (member->size / MOST_RATIO > member->packed) return broken(err);
    if (member->size <= SMALL_MEMBER || member->size / MOST_LARGE_RATIO <= member->packed)
        return true;
    err_set(err, ERR_MODEL, "'%s' in the archive would expand more than %d times", member->name,
            MOST_LARGE_RATIO);
    err_hint(err, "numpy.savez stores it uncompressed");
    return false;
}

static bool open_deflated(Arena *arena, const Source *source, uint64_t start,
                          const NpzMember *member, NpyBytes *bytes, Err *err) {
    if (!is_plausible(member, err)) return false;
    Inflater *f = ARENA_NEW(arena, Inflater);
    f->arena = arena;
    f->source = source;
    f->member = *member;
    f->start = start;
    *bytes = (NpyBytes){source_from_maker(arena, make_bytes, f, member->size, source->name), 0,
                        member->size};
    return true;
}

bool npz_open(Arena *arena, const Source *source, const NpzMember *member, NpyBytes *bytes,
              Err *err) {
    unsigned char local[LOCAL_SIZE];
    if (member->header > source->size || source->size - member->header < LOCAL_SIZE)
        return broken(err);
    if (!source_read(source, member->header, local, sizeof local, err)) return false;
    uint64_t start = member->header + LOCAL_SIZE + get(local + 26, 2) + get(local + 28, 2);
    if (memcmp(local, "PK\x03\x04", 4) != 0 || start > source->size ||
        member->packed > source->size - start)
        return broken(err);
    if (member->method == DEFLATED) return open_deflated(arena, source, start, member, bytes, err);
    if (member->method != STORED) {
        err_set(err, ERR_MODEL, "'%s' in the archive uses compression method %u", member->name,
                member->method);
        err_hint(err, "demi reads what numpy.savez and savez_compressed write");
        return false;
    }
    *bytes = (NpyBytes){source, start, member->size};
    return member->packed == member->size || broken(err);
}
