// SPDX-License-Identifier: Apache-2.0
/* Arena: where demi's libraries take their memory from.
 *
 * An arena hands out memory that lives until the whole arena is freed. Only large allocations can
 * end earlier or move: arena_release and arena_resize are for tables that were outgrown.
 * A model owns one arena, a pass gets a scratch arena that ends with it. What is not an arena's:
 * what has to be let go one by one as a run goes on or is shared by threads (value_store.c,
 * exec_memory.c, plan_share.c), handles of the public interface, mapped files, and the list of files
 * that a signal removes (outfile_live.c); their own code checks for NULL.
 *
 * Out of memory (malloc failed, or the arena's budget is spent) does not return: it jumps to the
 * MemTrap the arena was given. Traps are set where a call comes in (demi.c, demi_call.c,
 * demi_runtime.c, the command, tests), and by the few functions that own what an error must not
 * leave half made or locked: making a model or a source, parsing, reading, rereading and saving a
 * file, packing a constant that other threads wait for. Everything else is written as if allocation
 * always succeeds, and whatever must be undone on the way out (a file descriptor, a temporary file)
 * is registered with arena_defer.
 *
 *     MemTrap trap;
 *     Arena a;
 *     if (setjmp(trap.env)) { arena_free(&a); return err_out_of_memory(err); }
 *     arena_init(&a, &trap);
 */
#ifndef DEMI_BASE_ARENA_H
#define DEMI_BASE_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct MemTrap {
    jmp_buf env; /* where to go when memory runs out: setjmp(trap.env) before first use */
} MemTrap;

typedef struct ArenaChunk ArenaChunk;
typedef struct ArenaDefer ArenaDefer;

typedef struct Arena {
    char *next, *end; /* free bytes of the newest chunk */
    ArenaChunk *chunks;
    ArenaChunk *large; /* chunks that hold one large allocation each */
    ArenaDefer *defers;
    MemTrap *trap;
    uint64_t used;   /* bytes handed out or reserved in chunks */
    uint64_t budget; /* most bytes `used` may reach; UINT64_MAX by default */
} Arena;

/* Makes an empty arena; allocates nothing yet. `trap` is borrowed and must outlive every
 * allocation; a long-lived arena's trap is exchanged at each entry of the library. */
void arena_init(Arena *arena, MemTrap *trap);

/* Runs the deferred calls, newest first, then frees all memory. The arena is empty and usable
 * again. Safe on a zeroed arena. */
void arena_free(Arena *arena);

/* The same, but keeps a small chunk, zeroed again, for what comes next: for arenas that are emptied
 * all the time. Costs next to nothing where little was used. */
void arena_reset(Arena *arena);

/* `size` zeroed bytes aligned to 8, so for any object but a long double. Never NULL; size 0 gives a
 * valid unique pointer. */
void *arena_alloc(Arena *arena, size_t size);

/* The same, but what is large is not zeroed: for who fills it at once. */
void *arena_alloc_raw(Arena *arena, size_t size);

/* An array of `count` zeroed elements of `size` bytes; a product that overflows is out of
 * memory. */
void *arena_array(Arena *arena, size_t count, size_t size);

/* Objects of one kind that lie side by side in an arena, apart from all others: who goes through
 * them in the order they were made reads memory from front to back. Starts as {0}. */
typedef struct ArenaPool {
    char *next;
    size_t left, block; /* bytes: of the block at hand, and all of it */
} ArenaPool;

/* As arena_alloc and arena_array, beside what came from this pool before. */
void *arena_pool_alloc(Arena *arena, ArenaPool *pool, size_t size);
void *arena_pool_array(Arena *arena, ArenaPool *pool, size_t count, size_t size);

/* Gives back an allocation of `size` bytes before the arena ends. Small ones stay until then all
 * the same. NULL with size 0 is fine. */
void arena_release(Arena *arena, void *bytes, size_t size);

/* Makes an allocation of `old_size` bytes `size` bytes long, perhaps elsewhere: the old pointer is
 * no longer valid. What lies behind the old bytes is undefined. NULL with old_size 0 is fine. */
void *arena_resize(Arena *arena, void *bytes, size_t old_size, size_t size);

/* A copy of `size` bytes. The copy is followed by a NUL so that text can be used as a C string. */
void *arena_copy(Arena *arena, const void *bytes, size_t size);

/* printf into the arena; NUL-terminated. */
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *arena, const char *format, va_list args);

/* Calls fn(data) when the arena is freed, also when that happens because memory ran out. */
void arena_defer(Arena *arena, void (*fn)(void *data), void *data);

/* An arena of its own, with the owner's trap and budget, that is freed with the owner if not
 * before. */
Arena *arena_child(Arena *owner);

/* Jumps to the arena's trap, as a failed allocation does. */
_Noreturn void arena_exhausted(Arena *arena);

#define ARENA_NEW(arena, Type)          ((Type *)arena_alloc((arena), sizeof(Type)))
#define ARENA_ARRAY(arena, Type, count) ((Type *)arena_array((arena), (count), sizeof(Type)))

#endif
