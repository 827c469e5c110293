// SPDX-License-Identifier: Apache-2.0
/* Rows and scales of products of bytes; see byte_rows.h. */
#include "byte_rows.h"

#include <math.h>
#include <string.h>

#include "byte_operands.h"
#include "kernel_parts.h"
#include "kernel_rows.h"
#include "kernel_strided.h"

enum { SLACK = 8, Y_ZERO = 3, FACTOR, SHIFT, LOW, HIGH, FLIP = 128 };

/* ---- rows ------------------------------------------------------------------------------------ */

int32_t byte_rows_zero(const ByteRows *rows) {
    if (rows->kind == IGEMM_PAIRS) return 0;
    return rows->dtype == DTYPE_INT8 ? rows->zero + FLIP : rows->zero;
}

void byte_rows_fill(const ByteRows *rows, void *to, uint64_t size) {
    memset(to, byte_rows_zero(rows), size);
}

ROW_CLONES static void copy_flipped(uint8_t *to, const uint8_t *from, uint64_t n) {
    ROW_LOOP
    for (uint64_t i = 0; i < n; i++) to[i] = from[i] ^ FLIP;
}
ROW_CLONES static void widen_signed(int16_t *to, const int8_t *from, uint64_t n, int32_t zero) {
    ROW_LOOP
    for (uint64_t i = 0; i < n; i++) to[i] = (int16_t)(from[i] - zero);
}
ROW_CLONES static void widen_unsigned(int16_t *to, const uint8_t *from, uint64_t n, int32_t zero) {
    ROW_LOOP
    for (uint64_t i = 0; i < n; i++) to[i] = (int16_t)(from[i] - zero);
}

typedef struct RowsJob {
    const ByteRows *rows;
    char *to;
} RowsJob;

static void make_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const RowsJob *job = data;
    const ByteRows *rows = job->rows;
    const size_t size = byte_rows_element(rows->kind);
    const uint64_t before = rows->begin * size, row = rows->padded * size;
    const uint64_t behind = row - before - rows->length * size;
    (void)lane;
    for (uint64_t r = first; r < end; r++) {
        char *to = job->to + r * row;
        const void *from = (const char *)rows->from + r * rows->length;
        byte_rows_fill(rows, to, before);
        if (rows->kind == IGEMM_PAIRS && rows->dtype == DTYPE_INT8)
            widen_signed((int16_t *)(void *)(to + before), from, rows->length, rows->zero);
        else if (rows->kind == IGEMM_PAIRS)
            widen_unsigned((int16_t *)(void *)(to + before), from, rows->length, rows->zero);
        else if (rows->dtype == DTYPE_INT8)
            copy_flipped((uint8_t *)to + before, from, rows->length);
        else
            memcpy(to + before, from, rows->length);
        byte_rows_fill(rows, to + row - behind, behind);
    }
}

const void *byte_rows_make(KernelCall *call, const ByteRows *rows) {
    const bool as_is = rows->kind == IGEMM_QUADS && rows->dtype == DTYPE_UINT8;
    if (as_is && rows->padded == rows->length) return rows->from;
    const uint64_t size = rows->rows * rows->padded * byte_rows_element(rows->kind);
    RowsJob job = {rows, kernel_workspace(call, size + SLACK)};
    if (!job.to) return NULL;
    memset(job.to + size, 0, SLACK);
    kernel_run_parts(
        call->workers,
        kernel_work_cut(call, (double)rows->rows * (double)rows->padded / 4, rows->rows), make_rows,
        &job);
    return job.to;
}

void byte_rows_turn(KernelCall *call, void *to, const void *from, const uint64_t dims[3],
                    size_t size) {
    StridedWalk walk = strided_new(call, 3);
    const int64_t images = (int64_t)dims[0], rows = (int64_t)dims[1], columns = (int64_t)dims[2];
    walk.axes[0] = (StridedAxis){images, rows * columns, rows * columns};
    walk.axes[1] = (StridedAxis){columns, rows, 1};
    walk.axes[2] = (StridedAxis){rows, 1, columns};
    strided_copy(&walk, to, from, size);
}

/* ---- scales ---------------------------------------------------------------------------------- */

const float *byte_by_column(KernelCall *call, uint32_t i, uint64_t count, float otherwise) {
    const KernelTensor *tensor = kernel_input(call, i);
    if (tensor &&
        (tensor->dtype != DTYPE_FLOAT || (tensor->count != 1 && tensor->count != count))) {
        kernel_fail(call, "operand %u has %llu elements for %llu columns", i,
                    (unsigned long long)tensor->count, (unsigned long long)count);
        return NULL;
    }
    if (tensor && tensor->count == count) return tensor->data;
    float *each = kernel_workspace(call, (count + 1) * sizeof *each);
    if (tensor) otherwise = *(const float *)tensor->data;
    for (uint64_t n = 0; each && n < count; n++) each[n] = otherwise;
    return each;
}

bool byte_scale_make(KernelCall *call, const int32_t *sums, int32_t zero, uint64_t count,
                     ByteScale *made) {
    const KernelTensor *y = &call->outputs[0], *y_zero = kernel_input(call, Y_ZERO);
    const Dtype to = y_zero ? y_zero->dtype : DTYPE_FLOAT;
    *made = (ByteScale){.scale.to = to,
                        .bounds = {.activation = ACTIVATION_CLIP, .p = -HUGE_VALF, .q = HUGE_VALF}};
    if (y->dtype != to || (y_zero && to == DTYPE_FLOAT))
        return kernel_fail(call, "the result is %s", dtype_name(y->dtype));
    if (!byte_zero(call, Y_ZERO, to, &made->scale.zero) ||
        !byte_number(call, LOW, &made->bounds.p) || !byte_number(call, HIGH, &made->bounds.q))
        return false;
    if (!(made->bounds.p <= made->bounds.q)) return kernel_fail(call, "Low is above High");
    made->scale.factor = byte_by_column(call, FACTOR, count, 1);
    made->scale.shift = made->scale.factor ? byte_by_column(call, SHIFT, count, 0) : NULL;
    if (!made->scale.shift) return false;
    int32_t *offset = kernel_workspace(call, (count + 1) * sizeof *offset);
    for (uint64_t n = 0; offset && n < count; n++)
        offset[n] = (int32_t)(0 - (uint32_t)zero * (uint32_t)sums[n]);
    made->scale.offset = offset;
    return offset;
}
