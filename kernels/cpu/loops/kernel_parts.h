// SPDX-License-Identifier: Apache-2.0
/* Work of a kernel in parts of neighboring items, one a thread. Where the parts begin depends on
 * nothing but the number of items and of parts, and the caller has the first, so that two threads
 * find in their caches what the step before left there. Which other thread does which part is found
 * out as they are done (workers.h): nobody waits for a thread that has not begun.
 *
 * A thread does its part from the front on, half of what is left of it at a time. One that is done
 * takes from the back of others' parts what they have not begun. So a processor that is slower for a
 * while, as one of a machine that others use may be, has less to do, while none is asked for anything
 * as long as all are as fast: one that is done then finds at most a last chunk begun.
 */
#ifndef DEMI_KERNEL_PARTS_H
#define DEMI_KERNEL_PARTS_H

#include "kernel.h"

/* Elements that are worth a thread: some microseconds' work, as waking one costs a few. */
enum { KERNEL_PART_LEAST = 16384, KERNEL_PART_GRAIN = 16 };

/* Items [first, end) of a job, which is what `data` says. `lane` is below kernel_threads: buffers
 * can be kept by it, as no two parts have the same one at a time. */
typedef void KernelPart(const void *data, uint64_t first, uint64_t end, unsigned lane);

/* How work is cut: `count` items, in groups of `grain`, into so many parts, of which threads take
 * multiples of `chunk` items; 0: parts are whole. */
typedef struct KernelCut {
    uint64_t count, grain;
    unsigned parts;
    uint64_t chunk;
    uint64_t piece; /* items behind which a thread asks whether the run has ended; 0: none */
} KernelCut;

/* Calls part(data, first, end, lane) for ranges that make up all items, each once, none empty. The
 * calling thread begins with the first part. Where the run ends, not all are made and it does not
 * return (kernel_checkpoint). */
void kernel_run_parts(Workers *workers, KernelCut cut, KernelPart *part, const void *data);

/* Elements of `size` bytes, a power of two, that lie between the memory of two lanes which have `count` of
 * them each: at least as many, and such that no lane writes where another one's are, in a cache line or in
 * the one that is fetched beside it. Otherwise each write would wait for the other's processor. */
enum { KERNEL_LANE_ALIGN = 128 };
static inline uint64_t kernel_lane_count(uint64_t count, uint64_t size) {
    const uint64_t unit = KERNEL_LANE_ALIGN / size;
    return count / unit * unit + (count % unit ? unit : 0);
}

/* Threads worth using for `work` multiply-adds, or what takes as long, in `tasks` parts: 1 or more.
 */
unsigned kernel_work_threads(const KernelCall *call, double work, uint64_t tasks);

/* The cut of `count` items of together so much work, in groups of `grain`. */
KernelCut kernel_cut(uint64_t count, uint64_t grain, unsigned parts, double work);

/* The cut of `tasks` tasks of together so much work, for the threads worth using. */
KernelCut kernel_work_cut(const KernelCall *call, double work, uint64_t tasks);

/* Parts to cut work on so many elements into, at least 1; `weight` times the work that adding two
 * numbers is. */
static inline unsigned kernel_parts(unsigned threads, uint64_t elements, unsigned weight) {
    uint64_t most = elements / KERNEL_PART_LEAST * weight;
    if (threads > most) threads = (unsigned)most;
    return threads ? threads : 1;
}

/* The cut of `count` items, in groups of `grain`, that are so many elements in all. */
KernelCut kernel_element_cut(uint64_t count, uint64_t grain, unsigned parts, uint64_t elements);

/* Where part `part` of `parts` begins, of `count` items in groups of `grain`; that of part `parts`
 * is the end. */
static inline uint64_t kernel_part_begin(uint64_t count, uint64_t grain, unsigned part,
                                         unsigned parts) {
    uint64_t groups = count / grain + (count % grain != 0);
    uint64_t begin = groups / parts * part + groups % parts * part / parts;
    return begin * grain < count ? begin * grain : count;
}

#endif
