// SPDX-License-Identifier: Apache-2.0
/* A thread for one call; see beside.h. */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "beside.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "processors.h"

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
    sigset_t all, kept;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* see workers.c */
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_BLOCK, &all, &kept); /* signals are the caller's: a thread inherits it */
    bool made = pthread_create(&beside->thread, NULL, thread_main, beside) == 0;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return made ? beside : NULL;
}

void beside_wait(Beside *beside) {
    if (!beside->joined) pthread_join(beside->thread, NULL);
    beside->joined = true;
}
