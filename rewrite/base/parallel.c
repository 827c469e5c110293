// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
/* Threads that live for one job: it is hundreds of microseconds long, making one takes about ten. */
#include "parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "processors.h"

typedef struct Job {
    void (*work)(void *data, unsigned part);
    void *data;
    unsigned part;
} Job;

unsigned parallel_parts(void) {
    unsigned count = processors_usable();
    return count < PARALLEL_MOST ? count : PARALLEL_MOST;
}

static void *run_job(void *data) {
    const Job *job = data;
    job->work(job->data, job->part);
    return NULL;
}

void parallel_run(void (*work)(void *data, unsigned part), void *data, unsigned parts) {
    pthread_t threads[PARALLEL_MOST];
    bool made[PARALLEL_MOST] = {false};
    Job jobs[PARALLEL_MOST];
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &kept); /* signals are the caller's: threads inherit the mask */
    for (unsigned i = 1; i < parts; i++) {
        jobs[i] = (Job){work, data, i};
        made[i] = pthread_create(&threads[i], NULL, run_job, &jobs[i]) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    work(data, 0);
    for (unsigned i = 1; i < parts; i++) {
        if (made[i]) pthread_join(threads[i], NULL);
        else work(data, i);
    }
}
