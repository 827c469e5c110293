// SPDX-License-Identifier: Apache-2.0
/* Arena allocation in chunks that double up to 1 MiB. A request of more than a quarter of that gets
 * a chunk of its own, behind the newest, whose free bytes stay in use. Memory is never reused within
 * an arena, so that zeroing it is left to calloc, which gets large chunks from the system zeroed.
 */
#include "arena.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ArenaChunk {
    ArenaChunk *older;
    size_t size;
    _Alignas(max_align_t) char bytes[];
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
    ALIGN = _Alignof(max_align_t)
};

void arena_init(Arena *arena, MemTrap *trap) {
    *arena = (Arena){.trap = trap, .budget = UINT64_MAX};
}

void arena_free(Arena *arena) {
    while (arena->defers) {
        /* taken off first: a call may defer others, or run out of memory and end up here again */
        ArenaDefer *defer = arena->defers;
        arena->defers = defer->older;
        defer->fn(defer->data);
    }
    for (ArenaChunk *chunk = arena->chunks; chunk;) {
        ArenaChunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    *arena = (Arena){.trap = arena->trap, .budget = arena->budget};
}

_Noreturn void arena_exhausted(Arena *arena) {
    if (!arena->trap) abort(); /* a programming error: allocation outside the library's front */
    longjmp(arena->trap->env, 1);
}

/* A zeroed chunk, counted but not yet in the arena's list. */
static ArenaChunk *chunk_new(Arena *arena, size_t size) {
    if (arena->used > arena->budget || size > arena->budget - arena->used) arena_exhausted(arena);
    if (size > SIZE_MAX - sizeof(ArenaChunk)) arena_exhausted(arena);
    ArenaChunk *chunk = calloc(1, sizeof *chunk + size);
    if (!chunk) arena_exhausted(arena);
    chunk->size = size;
    arena->used += size;
    return chunk;
}

/* A chunk of its own for a large request. */
static void *alloc_large(Arena *arena, size_t size) {
    ArenaChunk *chunk = chunk_new(arena, size);
    ArenaChunk **place = arena->chunks ? &arena->chunks->older : &arena->chunks;
    chunk->older = *place;
    *place = chunk;
    return chunk->bytes;
}

/* A new newest chunk with room for `size` bytes. */
static void arena_grow(Arena *arena, size_t size) {
    size_t chunk_size = FIRST_CHUNK;
    if (arena->next) chunk_size = arena->chunks->size * 2;
    if (chunk_size > LARGEST_CHUNK) chunk_size = LARGEST_CHUNK;
    uint64_t left = arena->used < arena->budget ? arena->budget - arena->used : 0;
    if (chunk_size > left) chunk_size = (size_t)left / ALIGN * ALIGN; /* the budget's last bytes */
    if (chunk_size < size) chunk_size = size;
    ArenaChunk *chunk = chunk_new(arena, chunk_size);
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    arena->next = chunk->bytes;
    arena->end = chunk->bytes + chunk_size;
}

void *arena_alloc(Arena *arena, size_t size) {
    if (size > SIZE_MAX - ALIGN) arena_exhausted(arena);
    size = size == 0 ? ALIGN : (size + ALIGN - 1) / ALIGN * ALIGN;
    size_t left = arena->next ? (size_t)(arena->end - arena->next) : 0;
    if (size > left && size > LARGEST_SHARED) return alloc_large(arena, size);
    if (size > left) arena_grow(arena, size);
    void *result = arena->next;
    arena->next += size;
    return result;
}

void *arena_array(Arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) arena_exhausted(arena);
    return arena_alloc(arena, bytes);
}

void *arena_copy(Arena *arena, const void *bytes, size_t size) {
    if (size == SIZE_MAX) arena_exhausted(arena);
    char *copy = arena_alloc(arena, size + 1);
    if (size) memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

char *arena_vprintf(Arena *arena, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) arena_exhausted(arena);
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, args);
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
