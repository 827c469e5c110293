// SPDX-License-Identifier: Apache-2.0
/* Threads have room on the stack where the C library would give little, and no signals but faults. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "thread_start.h"
#include "unit_test.h"

/* Most of the stack: with less, the process ends by a fault. */
static void *fill_stack(void *data) {
    volatile char bytes[THREAD_STACK - (1 << 20)];
    for (size_t i = 0; i < sizeof bytes; i += 512) bytes[i] = (char)i;
    *(char *)data = bytes[512];
    return data;
}

TEST(test_stack) {
    pthread_attr_t little;
    pthread_t thread;
    char seen = 1;
    void *gave = NULL;
    pthread_attr_init(&little);
    assert_int_equal(pthread_attr_setstacksize(&little, 128 << 10), 0); /* as musl's is */
    assert_int_equal(pthread_setattr_default_np(&little), 0);
    pthread_attr_destroy(&little);
    assert_true(thread_start(&thread, fill_stack, &seen));
    pthread_join(thread, &gave);
    assert_ptr_equal(gave, &seen);
    assert_int_equal(seen, 0);
}

static void *tell_mask(void *data) {
    pthread_sigmask(SIG_SETMASK, NULL, data);
    return data;
}

TEST(test_signals) {
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t mask, own;
    pthread_t thread;
    assert_true(thread_start(&thread, tell_mask, &mask));
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    assert_int_equal(sigismember(&mask, SIGINT), 1);
    assert_int_equal(sigismember(&mask, SIGTERM), 1);
    assert_int_equal(sigismember(&own, SIGINT), 0);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        assert_int_equal(sigismember(&mask, faults[i]), 0);
}
