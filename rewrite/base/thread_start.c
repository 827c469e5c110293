// SPDX-License-Identifier: Apache-2.0
/* Attributes and signals of demi's threads; see thread_start.h. */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "thread_start.h"

#include <signal.h>

static bool has_room(pthread_attr_t *attributes) {
    size_t stack = 0;
    if (pthread_attr_getstacksize(attributes, &stack) != 0) return false;
    return stack >= THREAD_STACK || pthread_attr_setstacksize(attributes, THREAD_STACK) == 0;
}

bool thread_start(pthread_t *thread, void *(*main)(void *data), void *data) {
    pthread_attr_t attributes;
    sigset_t blocked, kept;
    if (pthread_attr_init(&attributes) != 0) return false;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGILL);
    pthread_sigmask(SIG_BLOCK, &blocked, &kept); /* a thread inherits it */
    const bool made = has_room(&attributes) && pthread_create(thread, &attributes, main, data) == 0;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    pthread_attr_destroy(&attributes);
    return made;
}
