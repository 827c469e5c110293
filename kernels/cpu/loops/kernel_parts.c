// SPDX-License-Identifier: Apache-2.0
/* Parts as tasks of workers; see kernel_parts.h. */
#include "kernel_parts.h"

/* Multiply-adds; waking a thread costs microseconds. */
static const double WORK_PER_THREAD = 60000;

unsigned kernel_work_threads(const KernelCall *call, double work, uint64_t tasks) {
    double most = work / WORK_PER_THREAD;
    unsigned threads = kernel_threads(call);
    if (threads > most) threads = most < 1 ? 1 : (unsigned)most;
    return threads > tasks ? (tasks ? (unsigned)tasks : 1) : threads;
}

KernelCut kernel_work_cut(const KernelCall *call, double work, uint64_t tasks) {
    return (KernelCut){tasks, 1, kernel_work_threads(call, work, tasks)};
}

typedef struct PartsJob {
    KernelCut cut;
    KernelPart *part;
    const void *data;
} PartsJob;

static void run_task(void *data, unsigned task, unsigned lane) {
    const PartsJob *job = data;
    const KernelCut *cut = &job->cut;
    uint64_t first = kernel_part_begin(cut->count, cut->grain, task, cut->parts);
    uint64_t end = kernel_part_begin(cut->count, cut->grain, task + 1, cut->parts);
    if (end > first) job->part(job->data, first, end, lane);
}

void kernel_run_parts(Workers *workers, KernelCut cut, KernelPart *part, const void *data) {
    if (cut.count == 0) return;
    if (!workers || cut.parts <= 1) {
        part(data, 0, cut.count, 0);
        return;
    }
    PartsJob job = {cut, part, data};
    workers_run(workers, cut.parts, run_task, &job);
}
