// SPDX-License-Identifier: Apache-2.0
/* Workers: each task once, in its lane, and seen by the caller; jobs that follow one another
 * closely and with pauses; more threads than processors; which of these a thread may use stays as it
 * was. */
#define _GNU_SOURCE /* gettid */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "processors.h"
#include "unit_test.h"
#include "workers.h"

enum { TASKS = 300, LANES = 7 };

typedef struct Job {
    unsigned times[TASKS]; /* plain: a task that two threads ran is a race that TSan sees */
    atomic_bool busy[LANES];
    atomic_uint shared_lanes, wrong_thread;
    pthread_t caller;
    unsigned spin; /* work of a task */
} Job;

static void take_note(void *data, unsigned task, unsigned lane) {
    Job *job = data;
    if (atomic_exchange(&job->busy[lane], true)) job->shared_lanes++;
    job->times[task]++;
    for (volatile unsigned i = 0; i < job->spin * (task % 5); i = i + 1) continue;
    bool is_caller = pthread_equal(pthread_self(), job->caller) != 0;
    if (is_caller != (lane == 0) || (task == 0 && lane != 0)) job->wrong_thread++;
    atomic_store(&job->busy[lane], false);
}

static void check_job(Workers *workers, unsigned count, unsigned spin) {
    Job job = {.caller = pthread_self(), .spin = spin};
    workers_run(workers, count, take_note, &job);
    for (unsigned i = 0; i < TASKS; i++) assert_int_equal(job.times[i], i < count);
    assert_int_equal(job.shared_lanes, 0);
    assert_int_equal(job.wrong_thread, 0);
}

SET_UP {
    alarm(300); /* a hang is a failure */
}

TEST(test_each_task_once) {
    for (unsigned lanes = 0; lanes <= LANES; lanes++) {
        Workers *workers = workers_new(&test_arena, lanes);
        assert_int_equal(workers_lanes(workers), lanes ? lanes : 1);
        for (unsigned count = 0; count < TASKS; count += 1 + count / 8)
            for (unsigned spin = 0; spin < 300; spin += 100) check_job(workers, count, spin);
        arena_free(&test_arena);
    }
}

/* Whether a thread of this process is asleep: S in its line of `stat`, behind the name. */
static bool is_asleep(const char *thread) {
    char path[300], line[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", thread);
    FILE *file = fopen(path, "r");
    if (!file) return true; /* it has ended */
    if (!fgets(line, sizeof line, file)) line[0] = 0;
    fclose(file);
    const char *end = strrchr(line, ')');
    return end && end[1] == ' ' && end[2] == 'S';
}

/* Waits until all other threads are. */
static void wait_until_asleep(void) {
    bool all = false;
    while (!all) {
        DIR *threads = opendir("/proc/self/task");
        assert_non_null(threads);
        all = true;
        for (struct dirent *item; all && (item = readdir(threads));)
            if (item->d_name[0] != '.' && atoi(item->d_name) != gettid())
                all = is_asleep(item->d_name);
        closedir(threads);
        sched_yield();
    }
}

TEST(test_jobs_after_pauses) {
    Workers *workers = workers_new(&test_arena, 3);
    for (unsigned i = 0; i < 100; i++) { /* about where a thread goes to sleep, and beyond */
        for (volatile unsigned turns = 0; turns < i % 10 * 20000; turns = turns + 1) continue;
        if (i % 10 == 0) wait_until_asleep();
        check_job(workers, 2 + i % 9, i * 20);
    }
}

typedef struct Small {
    atomic_uint calls;
    unsigned answers[3];
} Small;

static void take_small(void *data, unsigned task, unsigned lane) {
    Small *small = data;
    (void)lane;
    small->calls++;
    small->answers[task]++;
}

/* Jobs so short that a thread may still be looking at the last one, of as many tasks. */
TEST(test_jobs_in_a_row) {
    enum { JOBS = 200000 };
    Workers *workers = workers_new(&test_arena, 4);
    Small *jobs = ARENA_ARRAY(&test_arena, Small, JOBS);
    for (unsigned i = 0; i < JOBS; i++) {
        workers_run(workers, 3, take_small, &jobs[i]);
        assert_int_equal(jobs[i].calls, 3);
    }
    for (unsigned i = 0; i < JOBS; i++)
        for (unsigned task = 0; task < 3; task++) assert_int_equal(jobs[i].answers[task], 1);
}

typedef struct Places {
    ProcessorSet may_use[3];
    atomic_uint begun;
} Places;

/* Each in a thread of its own. */
static void take_place(void *data, unsigned task, unsigned lane) {
    Places *places = data;
    (void)lane;
    processors_of(pthread_self(), &places->may_use[task]);
    atomic_fetch_add(&places->begun, 1);
    while (atomic_load(&places->begun) < 3) sched_yield();
}

/* Who wakes a thread up chooses where, but not where it may go then. */
TEST(test_processors) {
    ProcessorSet mine, none = {{0}};
    Workers *workers = workers_new(&test_arena, 3);
    assert_true(processors_of(pthread_self(), &mine));
    for (int i = 0; i < 20; i++) {
        Places places = {.begun = 0};
        workers_run(workers, 3, take_place, &places);
        for (int task = 0; task < 3; task++)
            assert_memory_equal(&places.may_use[task], &mine, sizeof mine);
        if (i % 2) wait_until_asleep();
    }
    arena_free(&test_arena);
    const int here = processors_here();
    assert_true(here >= 0);
    ProcessorSet rest = mine, without = mine;
    without.words[here / 64] &= ~(1ul << (unsigned)here % 64);
    const bool others = memcmp(&without, &none, sizeof none) != 0;
    assert_int_equal(processors_without(&rest, &here, 1), others);
    assert_memory_equal(&rest, others ? &without : &mine, sizeof rest);
    assert_false(processors_without(&none, NULL, 0));
}

/* Task 0 waits for task 1: another thread has to wake up for it. One that does not is a hang. */
static void wait_for_another(void *data, unsigned task, unsigned lane) {
    atomic_bool *came = data;
    (void)lane;
    if (task == 1) atomic_store(came, true);
    while (!atomic_load(came)) sched_yield();
}

TEST(test_sleepers_wake_up) {
    Workers *workers = workers_new(&test_arena, 2);
    for (int i = 0; i < 20; i++) {
        atomic_bool came = false;
        wait_until_asleep();
        workers_run(workers, 2, wait_for_another, &came);
    }
}

/* Never asked for anything, or just asked: ending must not hang. */
TEST(test_ends_at_once) {
    for (unsigned i = 0; i < 200; i++) {
        Workers *workers = workers_new(&test_arena, 4);
        if (i % 3) check_job(workers, i % 7, i % 2 * 100);
        arena_free(&test_arena);
    }
}
