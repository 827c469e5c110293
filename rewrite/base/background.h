// SPDX-License-Identifier: Apache-2.0
/* Background: runs one function asynchronously while its caller continues. For two long pieces of
 * work that share nothing but what neither changes; workers.h is for jobs of many short tasks. */
#ifndef DEMI_BASE_BACKGROUND_H
#define DEMI_BASE_BACKGROUND_H

#include "arena.h"

typedef struct Background Background;

/* Calls fn(data) in a thread of its own, in which signals are blocked. fn must not jump out nor use
 * an arena of the caller's. What was written before is seen by fn. NULL where this process has one
 * processor only, or no thread can be had: the caller then does the work itself. The Beside is the
 * arena's, but must be waited for before that is freed: arena_defer a function that does so, where
 * the caller may jump. */
Background *background_start(Arena *arena, void (*fn)(void *data), void *data);

/* Returns when fn has; what it wrote is seen by the caller. Any number of times. */
void background_wait(Background *beside);

#endif
