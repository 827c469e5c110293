// SPDX-License-Identifier: Apache-2.0
/* See interrupt.h: the kernel remembers what is blocked, so there is no handler and no state. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

static void only_interrupt(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
}

bool interrupt_hold(void) {
    struct sigaction now;
    sigset_t set, before;
    if (sigaction(SIGINT, NULL, &now) != 0 || now.sa_handler == SIG_IGN) return false;
    only_interrupt(&set);
    return sigprocmask(SIG_BLOCK, &set, &before) == 0 && !sigismember(&before, SIGINT);
}

bool interrupt_came(void) {
    sigset_t waiting;
    return sigpending(&waiting) == 0 && sigismember(&waiting, SIGINT) == 1;
}

void interrupt_release(void) {
    static const struct timespec now = {0, 0};
    sigset_t set;
    only_interrupt(&set);
    while (interrupt_came() && sigtimedwait(&set, NULL, &now) > 0) continue;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}
