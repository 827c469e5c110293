// SPDX-License-Identifier: Apache-2.0
/* A thread for one call; see beside.h. */
#include "beside.h"

#include <pthread.h>
#include <stdbool.h>

#include "processors.h"
#include "thread_start.h"

struct Beside {
    pthread_t thread;
    bool joined;
    void (*fn)(void *data);
    void *data;
};

static void *thread_main(void *data) {
    const Beside *beside = data;
    beside->fn(beside->data);
    return NULL;
}

Beside *beside_start(Arena *arena, void (*fn)(void *data), void *data) {
    if (processors_usable() < 2) return NULL;
    Beside *beside = ARENA_NEW(arena, Beside);
    *beside = (Beside){.fn = fn, .data = data};
    return thread_start(&beside->thread, thread_main, beside) ? beside : NULL;
}

void beside_wait(Beside *beside) {
    if (!beside->joined) pthread_join(beside->thread, NULL);
    beside->joined = true;
}
