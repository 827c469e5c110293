// SPDX-License-Identifier: Apache-2.0
/* Beside: one function at work while its caller goes on with something else. For two long pieces of
 * work that share nothing but what neither changes; workers.h is for jobs of many short tasks. */
#ifndef DEMI_BASE_BESIDE_H
#define DEMI_BASE_BESIDE_H

#include "arena.h"

typedef struct Beside Beside;

/* Calls fn(data) in a thread of its own, in which signals are blocked. fn must not jump out nor use
 * an arena of the caller's. What was written before is seen by fn. NULL where this process has one
 * processor only, or no thread can be had: the caller then does the work itself. The Beside is the
 * arena's, but must be waited for before that is freed: arena_defer a function that does so, where
 * the caller may jump. */
Beside *beside_start(Arena *arena, void (*fn)(void *data), void *data);

/* Returns when fn has; what it wrote is seen by the caller. Any number of times. */
void beside_wait(Beside *beside);

#endif
