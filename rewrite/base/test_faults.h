// SPDX-License-Identifier: Apache-2.0
/* For tests in which memory runs out: `faults` says which allocation fails. A program that includes
 * this, once, is linked with --wrap for malloc, calloc, realloc and the arena's functions
 * (CMakeLists.txt). Few calls reach malloc, since arenas take large chunks: so
 * the calls of arenas may fail in its place. */
#ifndef DEMI_TEST_FAULTS_H
#define DEMI_TEST_FAULTS_H

#include <stdbool.h>
#include <stdlib.h>

#include "arena.h"

/* The linker's names of malloc and its kin. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static struct Faults {
    bool armed, for_good;
    bool arenas;   /* calls of arenas count, not those of malloc */
    unsigned left; /* allocations that still succeed */
    unsigned failed;
} faults;

/* How many allocations further a test goes each time, of a kind of which there are many: every one fails
 * in release builds and at night (tools/test --nightly sets DEMI_WHOLE); with sanitizers, which take
 * ten times as long, every `step`th. */
static inline unsigned faults_step(unsigned step) {
#ifdef DEMI_SANITIZED
    return getenv("DEMI_WHOLE") ? 1 : step;
#else
    (void)step;
    return 1;
#endif
}

static bool fails(void) {
    if (!faults.armed) return false;
    if (faults.left) {
        faults.left--;
        return false;
    }
    faults.failed++;
    if (!faults.for_good) faults.armed = false;
    return true;
}

void *__wrap_malloc(size_t size) {
    return !faults.arenas && fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return !faults.arenas && fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return !faults.arenas && fails() ? NULL : __real_realloc(memory, size);
}

/* What other files call of the arena; a failure jumps, as it does where malloc fails. */
void *__real_arena_alloc(Arena *arena, size_t size);
void *__real_arena_array(Arena *arena, size_t count, size_t size);
void *__real_arena_copy(Arena *arena, const void *bytes, size_t size);
void *__real_arena_resize(Arena *arena, void *memory, size_t was, size_t now);
void *__wrap_arena_alloc(Arena *arena, size_t size);
void *__wrap_arena_array(Arena *arena, size_t count, size_t size);
void *__wrap_arena_copy(Arena *arena, const void *bytes, size_t size);
void *__wrap_arena_resize(Arena *arena, void *memory, size_t was, size_t now);

static void arena_fault(Arena *arena) {
    if (faults.arenas && fails()) arena_exhausted(arena);
}

void *__wrap_arena_alloc(Arena *arena, size_t size) {
    arena_fault(arena);
    return __real_arena_alloc(arena, size);
}

void *__wrap_arena_array(Arena *arena, size_t count, size_t size) {
    arena_fault(arena);
    return __real_arena_array(arena, count, size);
}

void *__wrap_arena_copy(Arena *arena, const void *bytes, size_t size) {
    arena_fault(arena);
    return __real_arena_copy(arena, bytes, size);
}

void *__wrap_arena_resize(Arena *arena, void *memory, size_t was, size_t now) {
    arena_fault(arena);
    return __real_arena_resize(arena, memory, was, now);
}

#endif
