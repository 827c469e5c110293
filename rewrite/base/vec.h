// SPDX-License-Identifier: Apache-2.0
/* Growable arrays in an arena.
 *
 *     VEC(Node *) nodes = {0};
 *     VEC_PUSH(arena, &nodes, node);
 *     for (size_t i = 0; i < nodes.count; i++) use(nodes.items[i]);
 *
 * A vector that grows moves: pointers to its items end then. A large one moves without a copy left
 * behind; small ones leave theirs in the arena, at most as much again as they hold. Items beyond
 * `count` are undefined.
 */
#ifndef DEMI_BASE_VEC_H
#define DEMI_BASE_VEC_H

#include <string.h>

#include "arena.h"

#define VEC(Type)                                                                                  \
    struct {                                                                                       \
        Type *items;                                                                               \
        size_t count, capacity;                                                                    \
    }

#define VEC_PUSH(arena, vec, item)                                                                 \
    do {                                                                                           \
        if ((vec)->count == (vec)->capacity)                                                       \
            (vec)->items =                                                                         \
                vec_grow((arena), (vec)->items, &(vec)->capacity, sizeof *(vec)->items);           \
        (vec)->items[(vec)->count++] = (item);                                                     \
    } while (0)

/* Memory for the first items of an empty vector, so that `items` is not NULL: for tables that are
 * pointed into by an offset, which is 0 where there is nothing. */
#define VEC_BEGIN(arena, vec)                                                                      \
    (vec)->items = vec_grow((arena), (vec)->items, &(vec)->capacity, sizeof *(vec)->items)

static inline void *vec_grow(Arena *arena, void *items, size_t *capacity, size_t size) {
    size_t wanted = *capacity ? *capacity * 2 : 8;
    if (wanted > SIZE_MAX / size) arena_exhausted(arena);
    void *grown = arena_resize(arena, items, *capacity * size, wanted * size);
    *capacity = wanted;
    return grown;
}

typedef VEC(const char *) Words;

/* Bytes that someone else owns; what holds a Bytes says who. */
typedef struct Bytes {
    const unsigned char *data;
    size_t size;
} Bytes;

#endif
