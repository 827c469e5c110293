// SPDX-License-Identifier: Apache-2.0
/* Threads as demi's are: with room on the stack, and signals left to the program's own threads. */
#ifndef DEMI_BASE_THREAD_START_H
#define DEMI_BASE_THREAD_START_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define THREAD_STACK ((size_t)8 << 20) /* bytes; what glibc gives where nobody says otherwise */

/* Runs main(data) in a thread that is to be joined. It has THREAD_STACK bytes of stack at least, which
 * kernels and walks over models take for granted and not every C library gives (musl: 128 KiB). It is
 * asked for no signals but faults: those are a thread's own, and where one is blocked the system ends
 * the program without asking the program's handler. False where there can be no thread. */
bool thread_start(pthread_t *thread, void *(*main)(void *data), void *data);

#endif
