// SPDX-License-Identifier: Apache-2.0
/* Arena allocation in chunks that double up to 1 MiB; larger requests get a chunk of their own. */
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

enum { FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20, ALIGN = _Alignof(max_align_t) };

void arena_init(Arena *arena, MemTrap *trap) {
    *arena = (Arena){.trap = trap, .budget = UINT64_MAX};
}

void arena_free(Arena *arena) {
    ArenaDefer *defer = arena->defers;
    arena->defers = NULL; /* a deferred call never sees itself again */
    for (; defer; defer = defer->older) defer->fn(defer->data);
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

static void arena_grow(Arena *arena, size_t size) {
    size_t chunk_size = FIRST_CHUNK;
    if (arena->chunks) {
        chunk_size = arena->chunks->size * 2;
        if (chunk_size > LARGEST_CHUNK) chunk_size = LARGEST_CHUNK;
        if (chunk_size < FIRST_CHUNK) chunk_size = FIRST_CHUNK;
    }
    if (size > chunk_size) chunk_size = size;
    if (chunk_size > SIZE_MAX - sizeof(ArenaChunk)) arena_exhausted(arena);
    if (arena->used > arena->budget || chunk_size > arena->budget - arena->used)
        arena_exhausted(arena);
    ArenaChunk *chunk = malloc(sizeof *chunk + chunk_size);
    if (!chunk) arena_exhausted(arena);
    chunk->size = chunk_size;
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    arena->used += chunk_size;
    arena->next = chunk->bytes;
    arena->end = chunk->bytes + chunk_size;
}

void *arena_alloc(Arena *arena, size_t size) {
    if (size > SIZE_MAX - ALIGN) arena_exhausted(arena);
    size = size == 0 ? ALIGN : (size + ALIGN - 1) / ALIGN * ALIGN;
    if (size > (size_t)(arena->end - arena->next)) arena_grow(arena, size);
    void *result = arena->next;
    arena->next += size;
    return memset(result, 0, size);
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
