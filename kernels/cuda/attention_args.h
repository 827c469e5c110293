// SPDX-License-Identifier: Apache-2.0
/* What kernels of attention.cu take; C and C++. */
#ifndef DEMI_ATTENTION_ARGS_H
#define DEMI_ATTENTION_ARGS_H

#include <stdint.h>

enum {
    ATTENTION_SIZE = 256, /* most elements of a head */
    ATTENTION_WARPS = 4,  /* rows of a block, where each warp has one */
    FEW_WARPS = 8,        /* of a block, where keys are dealt out */
    TILE_KEYS = 64,       /* keys in shared memory at a time, and elements behind each */
    TILE_PAD = 8,
    TILE_THREADS = 128 /* 16 rows a warp */
};

/* A tensor by how far its batches, heads, rows and elements are apart. */
typedef struct HeadOperand {
    const void *data;
    int64_t batch, head, row, element;
    int32_t type; /* a DemiDtype of a float; of a mask, also bool */
} HeadOperand;

/* y = softmax(s) v, s = scale q k', where keep is false `fill`, plus bias. */
typedef struct AttentionArgs {
    HeadOperand q, k, v, y, keep, bias; /* of masks: an element is a key; data NULL: none */
    int64_t rows, keys;
    int32_t batches, heads, size, value;
    int32_t k_share, v_share; /* heads of q that a head of k, of v serves */
    float scale, fill;
} AttentionArgs;

/* y = x c + rotated(x) s, rotated(x) = (-second half, first half) of each row; by strides. */
typedef struct RotateArgs {
    const void *x, *c, *s;
    void *y;
    int64_t count, half;
    int64_t sizes[6], c_strides[6], s_strides[6];
    int32_t rank, x_type, c_type, s_type, y_type;
} RotateArgs;

#endif
