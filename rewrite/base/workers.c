// SPDX-License-Identifier: Apache-2.0
/* The job at hand is one number that all threads compare and swap, the ticket: which job it is, and
 * how many of its tasks nobody has taken. The number of the job is what makes it safe to read what
 * to call before the swap: where the swap succeeds, it is still that job. */
#define _DEFAULT_SOURCE /* clock_gettime */
#include "workers.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "processors.h"
#include "thread_start.h"

enum {
    CACHE_LINE = 64,
    APART = 64,     /* lanes that are kept from each other's processors: the first ones */
    SPINS = 1 << 11 /* looks at the ticket before a thread sleeps: some 30 us */
};

typedef struct Lane {
    Workers *workers;
    unsigned number;
    pthread_t thread;
    pthread_cond_t news;
    atomic_int processor;  /* that it was on when it last slept or woke up; -1: none is known */
    bool sleeps, confined; /* under the lock; confined: to less than `may_use`, until it is awake */
    ProcessorSet may_use;
} Lane;

struct Workers {
    unsigned lanes; /* wanted, the caller's among them */
    unsigned made;  /* threads that are there: of lanes 1 .. made */
    bool started;
    Lane *lane;  /* [lanes] */
    RunEnd *end; /* of the run that jobs are part of; NULL: none */

    /* The job. Written while no task of the last one is left, read before a task is taken. */
    _Atomic(WorkersTask *) task;
    _Atomic(void *) data;
    atomic_uint count;

    alignas(CACHE_LINE) _Atomic uint64_t ticket; /* job << 32 | tasks that nobody has taken */
    alignas(CACHE_LINE) atomic_uint unfinished;  /* tasks that have not returned */

    /* Sleeping: who is about to says so and then looks again; who has news looks for sleepers. */
    alignas(CACHE_LINE) atomic_uint sleepers;
    atomic_bool caller_sleeps, ending;
    pthread_mutex_t lock;
    pthread_cond_t done;
};

static inline void spin(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_task(const Workers *w) {
    return (uint32_t)atomic_load(&w->ticket) != 0;
}

static void wake_caller(Workers *w) {
    if (!atomic_load(&w->caller_sleeps)) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->lock);
}

/* Does the next task, if there is one that nobody has. */
static bool do_task(Workers *w, unsigned lane) {
    uint64_t ticket = atomic_load(&w->ticket);
    WorkersTask *task;
    void *data;
    unsigned count;
    do {
        if ((uint32_t)ticket == 0) return false;
        task = atomic_load_explicit(&w->task, memory_order_relaxed);
        data = atomic_load_explicit(&w->data, memory_order_relaxed);
        count = atomic_load_explicit(&w->count, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&w->ticket, &ticket, ticket - 1));
    if (!workers_ended(w, lane)) task(data, count - (uint32_t)ticket, lane);
    if (atomic_fetch_sub(&w->unfinished, 1) == 1 && lane != 0) wake_caller(w);
    return true;
}

/* ---- the threads ----------------------------------------------------------------------------- */

/* Where the lane may run, without the processors of the others, or at least the caller's. */
static bool place_lane(const Lane *lane, ProcessorSet *set) {
    const Workers *w = lane->workers;
    const unsigned count = w->lanes < APART ? w->lanes : APART;
    int others[APART];
    for (unsigned i = 0; i < count; i++)
        others[i] = i == lane->number ? -1 : atomic_load(&w->lane[i].processor);
    return processors_without(set, others, count) || processors_without(set, others, 1);
}

/* Of a lane that sleeps; under the lock. */
static void wake_apart(Lane *lane) {
    if (!lane->confined && !processors_of(lane->thread, &lane->may_use)) return;
    ProcessorSet set = lane->may_use;
    if (place_lane(lane, &set) && processors_confine(lane->thread, &set)) lane->confined = true;
}

/* Of the thread itself, which the system likes to start where its maker runs. */
static void begin_apart(Lane *lane) {
    if (!processors_of(pthread_self(), &lane->may_use)) return;
    ProcessorSet set = lane->may_use;
    lane->confined = place_lane(lane, &set) && processors_confine(pthread_self(), &set);
}

/* Awake, it may go where it might before. */
static void set_free(Lane *lane) {
    if (lane->confined) processors_confine(pthread_self(), &lane->may_use);
    lane->confined = false;
    atomic_store(&lane->processor, processors_here());
}

static void sleep_until_news(Lane *lane) {
    Workers *w = lane->workers;
    pthread_mutex_lock(&w->lock);
    lane->sleeps = true;
    atomic_fetch_add(&w->sleepers, 1);
    while (!has_task(w) && !atomic_load(&w->ending)) pthread_cond_wait(&lane->news, &w->lock);
    atomic_fetch_sub(&w->sleepers, 1);
    lane->sleeps = false;
    set_free(lane);
    pthread_mutex_unlock(&w->lock);
}

static void *thread_main(void *data) {
    Lane *lane = data;
    Workers *w = lane->workers;
    begin_apart(lane);
    set_free(lane);
    while (!atomic_load(&w->ending)) {
        unsigned spins = 0;
        while (do_task(w, lane->number)) continue;
        while (spins < SPINS && !has_task(w) && !atomic_load(&w->ending)) spins++, spin();
        if (spins == SPINS) sleep_until_news(lane);
    }
    return NULL;
}

static void end_threads(void *data) {
    Workers *w = data;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->ending, true);
    for (unsigned i = 1; i <= w->made; i++) pthread_cond_signal(&w->lane[i].news);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 1; i <= w->made; i++) pthread_join(w->lane[i].thread, NULL);
    pthread_cond_destroy(&w->done);
    for (unsigned i = 0; i < w->lanes; i++) pthread_cond_destroy(&w->lane[i].news);
    pthread_mutex_destroy(&w->lock);
}

/* As many as can be had: with none, the caller does it all. */
static void start_threads(Workers *w) {
    w->started = true;
    if (w->lanes == 1) return;
    atomic_store(&w->lane[0].processor, processors_here());
    while (w->made + 1 < w->lanes) {
        Lane *lane = &w->lane[w->made + 1];
        if (!thread_start(&lane->thread, thread_main, lane)) break;
        w->made++;
    }
}

/* ---- the caller's side ----------------------------------------------------------------------- */

static Workers *workers_alloc(Arena *arena, unsigned lanes) {
    /* aligned by hand: an arena knows no more than 8 */
    char *bytes = arena_alloc(arena, sizeof(Workers) + CACHE_LINE);
    Workers *w = (Workers *)(void *)(bytes + (CACHE_LINE - (uintptr_t)bytes % CACHE_LINE));
    w->lanes = lanes ? lanes : 1;
    return w;
}

Workers *workers_new(Arena *arena, unsigned lanes) {
    Workers *w = workers_alloc(arena, lanes);
    w->lane = ARENA_ARRAY(arena, Lane, w->lanes);
    for (unsigned i = 0; i < w->lanes; i++) {
        w->lane[i] = (Lane){.workers = w, .number = i};
        atomic_init(&w->lane[i].processor, -1);
        pthread_cond_init(&w->lane[i].news, NULL);
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->done, NULL);
    arena_defer(arena, end_threads, w);
    return w;
}

Workers *workers_new_streaming(Arena *arena) {
    unsigned count = processors_usable();
    return workers_new(arena, count < WORKERS_STREAMING ? count : WORKERS_STREAMING);
}

void workers_set_end(Workers *workers, RunEnd *end) {
    workers->end = end;
}

bool workers_ended(const Workers *workers, unsigned lane) {
    return workers->end && run_end_came(workers->end, lane == 0);
}

unsigned workers_lanes(const Workers *workers) {
    return workers->lanes;
}

static void wake_sleepers(Workers *w, unsigned wanted) {
    if (atomic_load(&w->sleepers) == 0) return;
    atomic_store(&w->lane[0].processor, processors_here());
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 1; i <= w->made && wanted; i++) {
        Lane *lane = &w->lane[i];
        if (!lane->sleeps) continue;
        wake_apart(lane);
        pthread_cond_signal(&lane->news);
        wanted--;
    }
    pthread_mutex_unlock(&w->lock);
}

/* Until the last task is done; or, where the caller's go_on is to be asked, a while. Under the lock. */
static void wait_a_while(Workers *w) {
    enum { WHILE_NS = 50000000, SECOND_NS = 1000000000 };
    if (!w->end || !w->end->go_on) {
        pthread_cond_wait(&w->done, &w->lock);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME,
                  &until); /* the condition's clock: a leap of it is a longer while */
    until.tv_nsec += WHILE_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_cond_timedwait(&w->done, &w->lock, &until);
}

static void wait_for_others(Workers *w) {
    for (unsigned spins = 0; spins < SPINS; spins++, spin())
        if (atomic_load(&w->unfinished) == 0) return;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->caller_sleeps, true);
    while (atomic_load(&w->unfinished) != 0) {
        wait_a_while(w);
        if (!w->end || !w->end->go_on || atomic_load(&w->unfinished) == 0) continue;
        pthread_mutex_unlock(&w->lock); /* go_on may take its time */
        workers_ended(w, 0);
        pthread_mutex_lock(&w->lock);
    }
    atomic_store(&w->caller_sleeps, false);
    pthread_mutex_unlock(&w->lock);
}

void workers_leave_ended(const Workers *w) {
    if (w->end && run_end_seen(w->end)) run_end_leave(w->end);
}

void workers_run(Workers *w, unsigned count, WorkersTask *task, void *data) {
    if (count > 1 && !w->started) start_threads(w);
    if (count <= 1 || w->made == 0) {
        for (unsigned i = 0; i < count && !workers_ended(w, 0); i++) task(data, i, 0);
        workers_leave_ended(w);
        return;
    }
    atomic_store_explicit(&w->task, task, memory_order_relaxed);
    atomic_store_explicit(&w->data, data, memory_order_relaxed);
    atomic_store_explicit(&w->count, count, memory_order_relaxed);
    atomic_store_explicit(&w->unfinished, count - 1, memory_order_relaxed);
    uint64_t job = (atomic_load_explicit(&w->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store(&w->ticket, job << 32 | (count - 1));
    wake_sleepers(w, count - 1);
    if (!workers_ended(w, 0)) task(data, 0, 0);
    while (do_task(w, 0)) continue;
    wait_for_others(w);
    workers_leave_ended(w);
}
