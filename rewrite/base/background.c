// SPDX-License-Identifier: Apache-2.0
/* A thread for one call; see background.h. */
#include "background.h"

#include <pthread.h>
#include <stdbool.h>

#include "processors.h"
#include "thread_start.h"

struct Background {
    pthread_t thread;
    bool joined;
    void (*fn)(void *data);
    void *data;
};

static void *thread_main(void *data) {
    const Background *beside = data;
    beside->fn(beside->data);
    return NULL;
}

Background *background_start(Arena *arena, void (*fn)(void *data), void *data) {
    if (processors_usable() < 2) return NULL;
    Background *beside = ARENA_NEW(arena, Background);
    *beside = (Background){.fn = fn, .data = data};
    return thread_start(&beside->thread, thread_main, beside) ? beside : NULL;
}

void background_wait(Background *beside) {
    if (!beside->joined) pthread_join(beside->thread, NULL);
    beside->joined = true;
}
