// SPDX-License-Identifier: Apache-2.0
/* Parts as tasks of workers; see kernel_parts.h. */
#include "kernel_parts.h"

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
