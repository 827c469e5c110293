// SPDX-License-Identifier: Apache-2.0
/* Arena allocation in chunks that double up to 1 MiB. A request of more than a quarter of that gets
 * a chunk of its own, which can be given back or moved; how large an allocation was tells which
 * kind it is. Memory is never reused within an arena, so that zeroing it is left to calloc, which
 * gets large chunks from the system zeroed.
 */
#include "arena.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ArenaChunk {
    ArenaChunk *older;
    ArenaChunk *newer; /* of large chunks only */
    size_t size;
    char bytes[];
};

struct ArenaDefer {
    ArenaDefer *older;
    void (*fn)(void *data);
    void *data;
};

enum {
    FIRST_CHUNK = 4096,
    LARGEST_CHUNK = 1 << 20,
    LARGEST_SHARED = LARGEST_CHUNK / 4,
    FIRST_BLOCK = 512, /* of a pool */
    LARGEST_BLOCK = 8192,
    LARGEST_POOLED = FIRST_BLOCK,
    ALIGN = 8
};

_Static_assert(offsetof(ArenaChunk, bytes) % ALIGN == 0, "a chunk's bytes are aligned");

void arena_init(Arena *arena, MemTrap *trap) {
    *arena = (Arena){.trap = trap, .budget = UINT64_MAX};
}

static void chunks_free(ArenaChunk *chunk) {
    while (chunk) {
        ArenaChunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
}

void arena_free(Arena *arena) {
    while (arena->defers) {
        /* taken off first: a call may defer others, or run out of memory and end up here again */
        ArenaDefer *defer = arena->defers;
        arena->defers = defer->older;
        defer->fn(defer->data);
    }
    chunks_free(arena->chunks);
    chunks_free(arena->large);
    *arena = (Arena){.trap = arena->trap, .budget = arena->budget};
}

/* With the address sanitizer nothing is kept, so that it sees who uses what was given back. */
#ifdef __SANITIZE_ADDRESS__
enum { KEEPS = 0 };
#else
enum { KEEPS = 1 };
#endif

void arena_reset(Arena *arena) {
    ArenaChunk *kept = arena->chunks;
    if (!KEEPS || !kept || kept->size > LARGEST_SHARED || arena->defers) {
        arena_free(arena);
        return;
    }
    chunks_free(kept->older);
    chunks_free(arena->large);
    kept->older = NULL;
    arena->large = NULL;
    memset(kept->bytes, 0, (size_t)(arena->next - kept->bytes));
    arena->next = kept->bytes;
    arena->used = kept->size;
}

_Noreturn void arena_exhausted(Arena *arena) {
    if (!arena->trap) abort(); /* a programming error: allocation outside the library's front */
    longjmp(arena->trap->env, 1);
}

/* Counts `size` bytes more, if the budget has them. */
static void charge(Arena *arena, size_t size) {
    if (arena->used > arena->budget || size > arena->budget - arena->used) arena_exhausted(arena);
    if (size > SIZE_MAX - sizeof(ArenaChunk)) arena_exhausted(arena);
    arena->used += size;
}

/* A chunk, counted but not yet in the arena's list. */
static ArenaChunk *chunk_new(Arena *arena, size_t size, bool zeroed) {
    charge(arena, size);
    ArenaChunk *chunk = zeroed ? calloc(1, sizeof *chunk + size) : malloc(sizeof *chunk + size);
    if (!chunk) {
        arena->used -= size;
        arena_exhausted(arena);
    }
    chunk->size = size;
    return chunk;
}

/* ---- large allocations ----------------------------------------------------------------------- */

static size_t rounded(Arena *arena, size_t size) {
    if (size > SIZE_MAX - ALIGN) arena_exhausted(arena);
    return size == 0 ? ALIGN : (size + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t room(const Arena *arena) {
    return arena->next ? (size_t)(arena->end - arena->next) : 0;
}

static bool is_large(size_t rounded_size) {
    return rounded_size > LARGEST_SHARED;
}

static ArenaChunk *chunk_of(void *bytes) {
    return (ArenaChunk *)(void *)((char *)bytes - offsetof(ArenaChunk, bytes));
}

static void large_link(Arena *arena, ArenaChunk *chunk) {
    chunk->newer = NULL;
    chunk->older = arena->large;
    if (chunk->older) chunk->older->newer = chunk;
    arena->large = chunk;
}

static void large_unlink(Arena *arena, ArenaChunk *chunk) {
    if (chunk->newer)
        chunk->newer->older = chunk->older;
    else
        arena->large = chunk->older;
    if (chunk->older) chunk->older->newer = chunk->newer;
}

static void *alloc_large(Arena *arena, size_t size, bool zeroed) {
    ArenaChunk *chunk = chunk_new(arena, size, zeroed);
    large_link(arena, chunk);
    return chunk->bytes;
}

void arena_release(Arena *arena, void *bytes, size_t size) {
    if (!bytes || !is_large(rounded(arena, size))) return;
    ArenaChunk *chunk = chunk_of(bytes);
    large_unlink(arena, chunk);
    arena->used -= chunk->size;
    free(chunk);
}

void *arena_resize(Arena *arena, void *bytes, size_t old_size, size_t size) {
    size_t now = rounded(arena, size);
    if (!bytes || !is_large(rounded(arena, old_size)) || now < rounded(arena, old_size)) {
        void *copy = arena_alloc_raw(arena, size);
        if (bytes) memcpy(copy, bytes, old_size < size ? old_size : size);
        arena_release(arena, bytes, old_size);
        return copy;
    }
    ArenaChunk *chunk = chunk_of(bytes);
    size_t more = now - chunk->size;
    charge(arena, more);
    large_unlink(arena, chunk); /* its neighbors must not see it move */
    ArenaChunk *moved = realloc(chunk, sizeof *chunk + now);
    if (!moved) {
        arena->used -= more;
        large_link(arena, chunk);
        arena_exhausted(arena);
    }
    moved->size = now;
    large_link(arena, moved);
    return moved->bytes;
}

/* ---- small allocations ----------------------------------------------------------------------- */

/* A new newest chunk with room for `size` bytes. */
static void arena_grow(Arena *arena, size_t size) {
    size_t chunk_size = FIRST_CHUNK;
    if (arena->next) chunk_size = arena->chunks->size * 2;
    if (chunk_size > LARGEST_CHUNK) chunk_size = LARGEST_CHUNK;
    uint64_t left = arena->used < arena->budget ? arena->budget - arena->used : 0;
    if (chunk_size > left) chunk_size = (size_t)left / ALIGN * ALIGN; /* the budget's last bytes */
    if (chunk_size < size) chunk_size = size;
    ArenaChunk *chunk = chunk_new(arena, chunk_size, true);
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    arena->next = chunk->bytes;
    arena->end = chunk->bytes + chunk_size;
}

void *arena_alloc(Arena *arena, size_t size) {
    size = rounded(arena, size);
    if (is_large(size)) return alloc_large(arena, size, true);
    if (size > room(arena)) arena_grow(arena, size);
    void *result = arena->next;
    arena->next += size;
    return result;
}

void *arena_alloc_raw(Arena *arena, size_t size) {
    size = rounded(arena, size);
    return is_large(size) ? alloc_large(arena, size, false) : arena_alloc(arena, size);
}

void *arena_array(Arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) arena_exhausted(arena);
    return arena_alloc(arena, bytes);
}

void *arena_pool_alloc(Arena *arena, ArenaPool *pool, size_t size) {
    size = rounded(arena, size);
    if (size > LARGEST_POOLED) return arena_alloc(arena, size);
    if (size > pool->left) {
        size_t block = pool->block ? pool->block * 2 : FIRST_BLOCK;
        if (block > LARGEST_BLOCK) block = LARGEST_BLOCK;
        pool->next = arena_alloc(arena, block);
        pool->left = pool->block = block;
    }
    void *result = pool->next;
    pool->next += size;
    pool->left -= size;
    return result;
}

void *arena_pool_array(Arena *arena, ArenaPool *pool, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) arena_exhausted(arena);
    return arena_pool_alloc(arena, pool, bytes);
}

void *arena_copy(Arena *arena, const void *bytes, size_t size) {
    if (size == SIZE_MAX) arena_exhausted(arena);
    char *copy = arena_alloc(arena, size + 1);
    if (size) memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

/* Most text fits into what the newest chunk has left and is formatted in place; what is large has memory of
 * its own, wherever it would fit. */
char *arena_vprintf(Arena *arena, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    size_t left = room(arena);
    int length = vsnprintf(arena->next, left, format, args);
    if (length < 0) arena_exhausted(arena);
    size_t size = (size_t)length + 1;
    char *text = NULL;
    if (size <= left && !is_large(rounded(arena, size))) {
        text = arena_alloc(arena, size);
    } else {
        if (left) memset(arena->next, 0, size < left ? size : left);
        text = arena_alloc(arena, size);
        vsnprintf(text, size, format, again);
    }
    va_end(again);
    return text;
}

char *arena_printf(Arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

void arena_defer(Arena *arena, void (*fn)(void *data), void *data) {
    ArenaDefer *defer = ARENA_NEW(arena, ArenaDefer);
    *defer = (ArenaDefer){.older = arena->defers, .fn = fn, .data = data};
    arena->defers = defer;
}

static void free_child(void *child) {
    arena_free(child);
}

Arena *arena_child(Arena *owner) {
    Arena *child = ARENA_NEW(owner, Arena);
    arena_init(child, owner->trap);
    child->budget = owner->budget;
    arena_defer(owner, free_child, child);
    return child;
}
