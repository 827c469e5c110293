// SPDX-License-Identifier: Apache-2.0
/* Beside: both sides see what the other wrote, and each has its own signals. */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "background.h"
#include "processors.h"
#include "unit_test.h"

typedef struct Work {
    unsigned given, done; /* plain: TSan sees where one side reads too early */
    bool signals_blocked;
    pthread_t thread;
} Work;

static bool interrupts_are_blocked(void) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    return sigismember(&mask, SIGINT) == 1;
}

static void work(void *data) {
    Work *w = data;
    w->thread = pthread_self();
    w->signals_blocked = interrupts_are_blocked();
    w->done = w->given + 1;
}

TEST(test_runs_beside) {
    for (unsigned i = 0; i < 100; i++) {
        Work w = {.given = i};
        Background *beside = background_start(&test_arena, work, &w);
        if (!beside) {
            assert_int_equal(processors_usable(), 1);
            break;
        }
        background_wait(beside);
        background_wait(beside);
        assert_int_equal(w.done, i + 1);
        assert_true(w.signals_blocked);
        assert_false(interrupts_are_blocked());
        assert_false(pthread_equal(w.thread, pthread_self()));
    }
}
