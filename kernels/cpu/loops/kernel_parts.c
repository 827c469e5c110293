// SPDX-License-Identifier: Apache-2.0
/* Parts as tasks of workers; see kernel_parts.h. */
#include "kernel_parts.h"

#include <stdalign.h>
#include <stdatomic.h>

/* Multiply-adds; waking a thread costs microseconds. */
static const double WORK_PER_THREAD = 60000;
/* What is worth taking from another thread: some two microseconds' work. */
static const double WORK_PER_CHUNK = 60000;

unsigned kernel_work_threads(const KernelCall *call, double work, uint64_t tasks) {
    double most = work / WORK_PER_THREAD;
    unsigned threads = kernel_threads(call);
    if (threads > most) threads = most < 1 ? 1 : (unsigned)most;
    return threads > tasks ? (tasks ? (unsigned)tasks : 1) : threads;
}

uint64_t kernel_work_chunk(double work, uint64_t count, uint64_t unit) {
    const double items =
        work > WORK_PER_CHUNK ? (double)count * (WORK_PER_CHUNK / work) : (double)count;
    const uint64_t units = (uint64_t)(items / (double)unit) + 1;
    return units * unit;
}

KernelCut kernel_work_cut(const KernelCall *call, double work, uint64_t tasks) {
    return (KernelCut){tasks, 1, kernel_work_threads(call, work, tasks),
                       kernel_work_chunk(work, tasks, 1)};
}

KernelCut kernel_element_cut(uint64_t count, uint64_t grain, unsigned parts, uint64_t elements) {
    const double work = WORK_PER_CHUNK / KERNEL_PART_LEAST * (double)elements;
    return (KernelCut){count, grain, parts, kernel_work_chunk(work, count, grain)};
}

/* What nobody has begun of a part: items [first, end) of the part, in one word that threads compare and
 * swap. Its thread takes from the front, others from the back. */
typedef struct PartRest {
    alignas(KERNEL_LANE_ALIGN) _Atomic uint64_t range; /* first << 32 | end */
} PartRest;

typedef struct PartsJob {
    KernelCut cut;
    KernelPart *part;
    const void *data;
    PartRest *rests; /* [parts], or NULL: parts are whole */
} PartsJob;

enum {
    PARTS_SHARED = 32, /* most parts of which threads take from each other */
    VICTIMS = 8        /* parts that a thread looks at when it is done with its own */
};

static uint64_t part_first(const KernelCut *cut, unsigned part) {
    return kernel_part_begin(cut->count, cut->grain, part, cut->parts);
}

/* The next chunk of a part: half of its rest, of whole chunks from the part's beginning on. */
static bool take_chunk(const PartsJob *job, unsigned part, bool own, uint64_t *first,
                       uint64_t *end) {
    _Atomic uint64_t *at = &job->rests[part].range;
    const uint64_t unit = job->cut.chunk;
    uint64_t range = atomic_load_explicit(at, memory_order_relaxed), left;
    do {
        *first = range >> 32;
        *end = (uint32_t)range;
        const uint64_t rest = *end - *first, units = rest / unit + (rest % unit != 0);
        if (!rest) return false;
        if (own && units > 1) *end = *first + (units + 1) / 2 * unit;
        if (!own && units > 1) *first += (units + 1) / 2 * unit;
        left = own ? *end << 32 | (uint32_t)range : (range >> 32) << 32 | *first;
    } while (!atomic_compare_exchange_weak_explicit(at, &range, left, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* Numbers of tasks, and of lanes, say no more than who has which part first. */
static void run_shared(const PartsJob *job, unsigned task, unsigned lane) {
    const KernelCut *cut = &job->cut;
    for (unsigned i = 0; i < cut->parts && i < VICTIMS; i++) {
        const unsigned part = (task + i) % cut->parts;
        const uint64_t base = part_first(cut, part);
        uint64_t first, end;
        while (take_chunk(job, part, i == 0, &first, &end))
            job->part(job->data, base + first, base + end, lane);
    }
}

static void run_task(void *data, unsigned task, unsigned lane) {
    const PartsJob *job = data;
    if (job->rests) {
        run_shared(job, task, lane);
        return;
    }
    const uint64_t first = part_first(&job->cut, task), end = part_first(&job->cut, task + 1);
    if (end > first) job->part(job->data, first, end, lane);
}

/* Whether a part is more than one chunk. */
static bool is_shared(const KernelCut *cut) {
    return cut->chunk && cut->parts <= PARTS_SHARED && cut->count / cut->parts > cut->chunk &&
           cut->count <= UINT32_MAX;
}

void kernel_run_parts(Workers *workers, KernelCut cut, KernelPart *part, const void *data) {
    if (cut.count == 0) return;
    if (!workers || cut.parts <= 1) {
        part(data, 0, cut.count, 0);
        return;
    }
    PartRest rests[PARTS_SHARED];
    PartsJob job = {cut, part, data, is_shared(&cut) ? rests : NULL};
    for (unsigned i = 0; job.rests && i < cut.parts; i++)
        atomic_init(&rests[i].range, part_first(&cut, i + 1) - part_first(&cut, i));
    workers_run(workers, cut.parts, run_task, &job);
}
