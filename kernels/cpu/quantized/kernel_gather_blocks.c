// SPDX-License-Identifier: Apache-2.0
/* com.microsoft's GatherBlockQuantized: rows of a table of 2, 4 or 8 bits, picked by index, as floats.
 * What an index out of range picks is zeros. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_index.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "table_blocks.h"

/* And what is read, and where it goes. */
typedef struct Job {
    TableBlocks blocks;
    const uint8_t *data, *zeros;
    const float *scales;
    const int64_t *index;
    float *y;
} Job;

/* ---- reading --------------------------------------------------------------------------------- */

/* Element i of a line of which each has whole bytes. */
static int packed_at(const TableBlocks *b, const uint8_t *line, uint64_t i) {
    const uint32_t each = 8 / b->bits, at = (uint32_t)(i % each) * b->bits;
    return line[i / each] >> at & ((1 << b->bits) - 1);
}

/* One of a byte of its own; of 4 bits, the lower ones are. */
static int plain_at(const TableBlocks *b, const uint8_t *data, uint64_t i) {
    if (b->bits > 4) return data[i];
    return b->is_signed ? ((data[i] & 15) ^ 8) - 8 : data[i] & 15;
}

static float zero_of(const Job *job, uint64_t outer, uint64_t block, uint64_t inner) {
    const TableBlocks *b = &job->blocks;
    if (!job->zeros) return b->middle;
    if (!b->packed)
        return (float)plain_at(b, job->zeros, (outer * b->blocks + block) * b->inner + inner);
    const uint64_t each = 8 / b->bits, bytes = b->blocks / each + (b->blocks % each != 0);
    return (float)packed_at(b, job->zeros + outer * bytes, block);
}

static float element_of(const Job *job, uint64_t i) {
    const TableBlocks *b = &job->blocks;
    const uint64_t inner = i % b->inner, at = i / b->inner % b->along,
                   outer = i / b->inner / b->along, block = at / b->block;
    const int number = b->packed ? packed_at(b, job->data, i) : plain_at(b, job->data, i);
    const float scale = job->scales[(outer * b->blocks + block) * b->inner + inner];
    return ((float)number - zero_of(job, outer, block, inner)) * scale;
}

static void gather_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Job *job = data;
    const TableBlocks *b = &job->blocks;
    (void)lane;
    for (uint64_t n = first; n < end; n++) {
        int64_t index = job->index[n % b->picks];
        float *to = job->y + n * b->row;
        if (index < 0) index += (int64_t)b->axis;
        if (index < 0 || (uint64_t)index >= b->axis) {
            memset(to, 0, b->row * sizeof *to);
            continue;
        }
        const uint64_t from = (n / b->picks * b->axis + (uint64_t)index) * b->row;
        for (uint64_t i = 0; i < b->row; i++) to[i] = element_of(job, from + i);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

bool kernel_gather_blocks(KernelCall *call) {
    const KernelTensor *zeros = kernel_input(call, TABLE_ZEROS), *y = &call->outputs[0];
    Job job = {.data = call->inputs[TABLE_NUMBERS].data,
               .scales = call->inputs[TABLE_SCALES].data,
               .zeros = zeros ? zeros->data : NULL,
               .y = y->data};
    if (!table_blocks_find(call, &job.blocks)) return false;
    if (!(job.index = kernel_ints(call, &call->inputs[TABLE_INDICES]))) return false;
    if (y->count == 0) return true;
    const uint64_t rows = y->count / job.blocks.row;
    kernel_run_parts(call->workers, kernel_work_cut(call, 4 * (double)y->count, rows), gather_part,
                     &job);
    return true;
}
