// SPDX-License-Identifier: Apache-2.0
/* Operands of Attention and RotaryEmbedding as heads of rows: what any backend's kernels find out of
 * their dims, and refuse. */
#ifndef DEMI_HEAD_VIEW_H
#define DEMI_HEAD_VIEW_H

#include "kernel.h"

/* Q, K, V or Y as (batch, heads, rows, size), by steps in elements; size is contiguous. */
typedef struct HeadView {
    const void *data;
    uint64_t batches, heads, rows, size;
    uint64_t batch, head, row; /* steps */
} HeadView;

/* Rank 4 is (batch, heads, rows, size), rank 3 (batch, rows, heads * size). False with the error set,
 * here and below. */
bool head_view(KernelCall *call, const KernelTensor *tensor, int64_t heads, HeadView *view);

/* Attention's inputs. */
typedef struct HeadShapes {
    HeadView q, k, v;
    uint64_t group;       /* query heads of a key head */
    uint64_t past, total; /* keys of the past, and with the new ones */
} HeadShapes;
bool head_shapes(KernelCall *call, HeadShapes *shapes);

/* How far elements of a mask are apart that is broadcast to (batch, heads, rows, keys), of which it may
 * have fewer keys; its dims are aligned at the right. */
bool head_mask_steps(KernelCall *call, const KernelTensor *mask, const uint64_t want[4],
                     uint64_t steps[4]);

/* RotaryEmbedding's, ai.onnx's and com.microsoft's. */
typedef struct HeadRotary {
    HeadView x;
    const KernelTensor *caches[2]; /* cosines and sines, `half` a row */
    const KernelTensor *positions; /* of each token its row; NULL: tokens have a row each */
    bool first;                    /* one position, that of all sequences' first token */
    uint64_t half;                 /* pairs that are rotated */
    bool interleaved;
} HeadRotary;
bool head_rotary(KernelCall *call, HeadRotary *rotary);
bool head_rotary_by_position(KernelCall *call, HeadRotary *rotary);

#endif
