// SPDX-License-Identifier: Apache-2.0
/* What kernels of attention.cu take; C and C++. */
#ifndef DEMI_ATTENTION_ARGS_H
#define DEMI_ATTENTION_ARGS_H

#include <stdint.h>

enum {
    ATTENTION_SIZE = 256, /* most elements of a head */
    ATTENTION_WARPS = 4,  /* rows of a block, where each warp has one */
    FEW_WARPS = 8,        /* of a block, where keys are dealt out */
    TILE_PAD = 8,         /* elements behind each row in shared memory */
    TILE_THREADS = 128    /* 16 rows a warp */
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
    /* Which keys a row sees at all: those that are no padding, and of them so many before its place and
     * behind it. Places end with the last key. */
    const int64_t *lengths; /* [batches]: keys that are no padding; NULL: all are none */
    int64_t past;           /* the first row's place; with lengths it follows from these */
    int64_t left, right;    /* -1: all of them */
    float softcap;          /* c tanh(score / c) before masks, but of tiles; 0: none */
    int32_t excludes;       /* rows that see no key are 0; else NaN */
} AttentionArgs;

enum ScoreMode { SCORES_RAW, SCORES_CAPPED, SCORES_BIASED, SCORES_PROBABILITY };

/* What Attention shows of its scores: (batches, heads, rows, all), 0 or -inf where a row sees no key. */
typedef struct ScoresArgs {
    AttentionArgs of;
    void *y;
    int64_t all; /* keys, with those behind a mask's end */
    int32_t type, mode;
} ScoresArgs;

/* y = the rows of the past, (batch, head, row, element), and behind them those of now, by steps. */
typedef struct JoinArgs {
    const void *past, *now;
    void *y;
    int64_t count, past_rows, rows, size;
    int64_t batch, head, row;
    int32_t heads;
} JoinArgs;

/* y: heads of rows x, whose first 2 half elements are pairs that are turned by the angles of a row of
 * cosines and sines; x and y lie alike, by steps. */
typedef struct RotaryArgs {
    const void *x, *cosines, *sines;
    const int64_t *positions; /* a row for each token; NULL: they have one each, in order */
    void *y;
    int64_t count, rows, size, half, places; /* rows that there are; what is none of them is 0 */
    int64_t batch, head, row;
    int32_t heads, first; /* there is one position, that of all sequences' first token */
    int32_t interleaved;  /* pairs lie side by side; else `half` apart */
    int32_t x_type, cosine_type, sine_type, y_type;
} RotaryArgs;

/* y = x c + rotated(x) s, rotated(x) = (-second half, first half) of each row; by strides. */
typedef struct RotateArgs {
    const void *x, *c, *s;
    void *y;
    int64_t count, half;
    int64_t sizes[6], c_strides[6], s_strides[6];
    int32_t rank, x_type, c_type, s_type, y_type;
} RotateArgs;

#endif
