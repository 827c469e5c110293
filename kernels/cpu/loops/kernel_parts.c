// SPDX-License-Identifier: Apache-2.0
/* Parts as tasks of workers; see kernel_parts.h. */
#include "kernel_parts.h"

#include <stdalign.h>
#include <stdatomic.h>

/* Multiply-adds; waking a thread costs microseconds. */
static const double WORK_PER_THREAD = 60000;
/* What is worth taking from another thread: some two microseconds' work. */
static const double WORK_PER_CHUNK = 60000;
/* What is worth asking behind whether the run has ended: a tenth of a millisecond, or some. */
static const double CHUNKS_PER_PIECE = 64;

unsigned kernel_work_threads(const KernelCall *call, double work, uint64_t tasks) {
    double most = work / WORK_PER_THREAD;
    unsigned threads = kernel_threads(call);
    if (threads > most) threads = most < 1 ? 1 : (unsigned)most;
    return threads > tasks ? (tasks ? (unsigned)tasks : 1) : threads;
}

/* A chunk that is worth being taken by another thread, of `count` items of together so much work: a
 * multiple of `unit`. */
static uint64_t work_chunk(double work, uint64_t count, uint64_t unit) {
    const double items =
        work > WORK_PER_CHUNK ? (double)count * (WORK_PER_CHUNK / work) : (double)count;
    const uint64_t units = (uint64_t)(items / (double)unit) + 1;
    return units * unit;
}

KernelCut kernel_cut(uint64_t count, uint64_t grain, unsigned parts, double work) {
    const uint64_t chunk = work_chunk(work, count, grain);
    const uint64_t piece = work_chunk(work / CHUNKS_PER_PIECE, count, chunk);
    return (KernelCut){count, grain, parts, chunk, piece};
}

KernelCut kernel_work_cut(const KernelCall *call, double work, uint64_t tasks) {
    return kernel_cut(tasks, 1, kernel_work_threads(call, work, tasks), work);
}

KernelCut kernel_element_cut(uint64_t count, uint64_t grain, unsigned parts, uint64_t elements) {
    const double work = WORK_PER_CHUNK / KERNEL_PART_LEAST * (double)elements;
    return kernel_cut(count, grain, parts, work);
}

/* What nobody has begun of a part: items [first, end) of the part, in one word that threads compare and
 * swap. Its thread takes from the front, others from the back. */
typedef struct PartRest {
    alignas(KERNEL_LANE_ALIGN) _Atomic uint64_t range; /* first << 32 | end */
} PartRest;

typedef struct PartsJob {
    const Workers *workers;
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

/* What comes next of a part: half of its rest, a piece at most, of whole chunks from the part's beginning
 * on. */
static bool take_chunk(const PartsJob *job, unsigned part, bool own, uint64_t *first,
                       uint64_t *end) {
    _Atomic uint64_t *at = &job->rests[part].range;
    const uint64_t unit = job->cut.chunk;
    const uint64_t most = job->cut.piece ? (job->cut.piece + unit - 1) / unit : UINT64_MAX;
    uint64_t range = atomic_load_explicit(at, memory_order_relaxed), left;
    do {
        *first = range >> 32;
        *end = (uint32_t)range;
        const uint64_t rest = *end - *first, units = rest / unit + (rest % unit != 0);
        if (!rest) return false;
        const uint64_t half = (units + 1) / 2, wanted = own ? half : units - half;
        const uint64_t taken = wanted < most ? wanted : most;
        if (own && units > 1) *end = *first + taken * unit;
        if (!own && units > 1) *first += (units - taken) * unit;
        left = own ? *end << 32 | (uint32_t)range : (range >> 32) << 32 | *first;
    } while (!atomic_compare_exchange_weak_explicit(at, &range, left, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* Whether the run has ended, asked behind so many items: of jobs that are less than a piece, never. */
static bool ended_behind(const PartsJob *job, uint64_t items, unsigned lane) {
    return job->cut.piece && items >= job->cut.piece && workers_ended(job->workers, lane);
}

/* Numbers of tasks, and of lanes, say no more than who has which part first. */
static void run_shared(const PartsJob *job, unsigned task, unsigned lane) {
    const KernelCut *cut = &job->cut;
    for (unsigned i = 0; i < cut->parts && i < VICTIMS; i++) {
        const unsigned part = (task + i) % cut->parts;
        const uint64_t base = part_first(cut, part);
        uint64_t first, end;
        while (take_chunk(job, part, i == 0, &first, &end)) {
            job->part(job->data, base + first, base + end, lane);
            if (ended_behind(job, end - first, lane)) return;
        }
    }
}

/* A whole part, a piece at a time, until the run ends. */
static void run_pieces(const PartsJob *job, uint64_t first, uint64_t end, unsigned lane) {
    const uint64_t piece = job->cut.piece ? job->cut.piece : UINT64_MAX;
    for (uint64_t next; first < end; first = next) {
        next = end - first > piece ? first + piece : end;
        job->part(job->data, first, next, lane);
        if (next < end && ended_behind(job, next - first, lane)) return;
    }
}

static void run_task(void *data, unsigned task, unsigned lane) {
    const PartsJob *job = data;
    if (job->rests) {
        run_shared(job, task, lane);
        return;
    }
    const uint64_t first = part_first(&job->cut, task), end = part_first(&job->cut, task + 1);
    run_pieces(job, first, end, lane);
}

/* Whether a part is more than one chunk. */
static bool is_shared(const KernelCut *cut) {
    return cut->chunk && cut->parts <= PARTS_SHARED && cut->count / cut->parts > cut->chunk &&
           cut->count <= UINT32_MAX;
}

void kernel_run_parts(Workers *workers, KernelCut cut, KernelPart *part, const void *data) {
    if (cut.count == 0) return;
    if (!workers || (cut.parts <= 1 && (!cut.piece || cut.count <= cut.piece))) {
        part(data, 0, cut.count, 0);
        if (workers) workers_leave_ended(workers);
        return;
    }
    if (cut.parts == 0) cut.parts = 1;
    PartRest rests[PARTS_SHARED];
    PartsJob job = {workers, cut, part, data, cut.parts > 1 && is_shared(&cut) ? rests : NULL};
    for (unsigned i = 0; job.rests && i < cut.parts; i++)
        atomic_init(&rests[i].range, part_first(&cut, i + 1) - part_first(&cut, i));
    workers_run(workers, cut.parts, run_task, &job);
}
