// SPDX-License-Identifier: Apache-2.0
/* Products of matrices, C = A * B, for everything that comes down to them: MatMul, Gemm,
 * convolutions.
 *
 * Blocked as is usual: panels of A (a few rows) and B (a few vectors of columns) are packed so that
 * the micro-kernel reads both in order, and keeps its tile of C in registers. The sources of A and
 * B are pack functions, so a convolution's B, whose rows are shifted images, is never built as a
 * whole.
 *
 * Elements are of 4 bytes: float, or two int16 of neighbouring k (GEMM_PAIRS) whose products are
 * summed to int32, modulo 2^32. Every element of C is computed by one thread, over k in ascending
 * order with blocks of GEMM_DEPTH, so results do not depend on the number of threads; instruction
 * sets differ in rounding (with and without fused multiply-add).
 */
#ifndef DEMI_GEMM_H
#define DEMI_GEMM_H

#include "isa.h"
#include "kernel.h"

typedef enum GemmKind { GEMM_FLOAT, GEMM_PAIRS, GEMM_KIND_COUNT } GemmKind;

enum { GEMM_DEPTH = 256, GEMM_ROWS_MOST = 8, GEMM_VECS_MOST = 3, GEMM_SLACK = 16 };

/* One call of a micro-kernel: C[rows, columns] of a packed panel each. */
typedef struct GemmTile {
    uint64_t depth;
    const void *a, *b;
    void *c;
    uint64_t c_row;   /* elements between rows of C */
    uint32_t columns; /* at most the kernel's vectors' lanes */
    uint32_t rows;    /* used by `turned` only */
    bool add;         /* C += A * B; otherwise C = bias + A * B */
    const void *bias; /* [rows], or NULL for 0 */
} GemmTile;

typedef void GemmTileFunction(const GemmTile *tile);

/* What an instruction set has for one kind. A's panels have `rows` rows, B's vecs * lanes columns.
 */
typedef struct GemmIsa {
    uint32_t rows, vecs, lanes;
    GemmTileFunction *tiles[GEMM_ROWS_MOST][GEMM_VECS_MOST]; /* [rows - 1][vectors - 1] */
    /* For a last vector of few columns: vectors are along rows then, and sums over k in parts. Up
     * to turned_most columns; NULL where there is none. */
    GemmTileFunction *turned;
    uint32_t turned_most;
} GemmIsa;

typedef struct GemmTaps GemmTaps;
typedef struct GemmPlane GemmPlane;

typedef struct GemmRow {
    int64_t length, first, last, offset, stride;
    uint64_t copies, to_step, from_step;
} GemmRow;

/* Loops over floats that the instruction sets have. */
typedef struct GemmLoops {
    /* to[c * to_row + r] = from[r * from_row + c], r < rows, c < columns. Where to_row == rows, 7
     * elements past the last may be written too. */
    void (*transpose)(float *to, uint64_t to_row, const float *from, uint64_t from_row,
                      uint64_t rows, uint64_t columns);
    /* y[r] += dot(matrix + r * row, x): `count` long, summed in double or by many lanes */
    void (*dots)(float *y, const float *matrix, uint64_t row, const float *x, uint64_t rows,
                 uint64_t count);
    /* y[0, columns) += x[k] * matrix[k * row + column], over k < depth in order */
    void (*sweep)(float *y, const float *matrix, uint64_t row, const float *x, uint64_t depth,
                  uint64_t columns);
    /* to[c * to_step + i] = from[c * from_step + offset + i * stride] for first <= i < last, 0 for
     * other i < length; c < copies */
    void (*row)(float *to, const float *from, const GemmRow *row);
    /* A plane with its padding; see GemmPlane. */
    void (*pad)(float *to, const GemmPlane *plane);
    /* to[l][i] (+)= sum over r < rows, t < taps of w[r * taps + t] * from[l][r][i * stride + t *
     * step] */
    void (*taps)(float *to, const GemmTaps *taps);
    /* to[l][i] = the largest of those elements; NaN where one is */
    void (*largest)(float *to, const GemmTaps *taps);
} GemmLoops;

/* Copies a plane of in_height rows of in_width into one of height rows of width at (top, left), and
 * fills the rest with `value`; what does not fit is left out. */
struct GemmPlane {
    const float *from;
    uint64_t in_height, in_width, top, left, height, width;
    float value;
};

/* Windows over a padded plane: the inner loops of direct convolutions and pools. Line l of outputs,
 * of `count`, is at to + l * count; from[l][r] at from + l * line + r * row. */
struct GemmTaps {
    const float *from;
    uint64_t lines, line, count, row;
    const float *weights; /* [rows, taps] */
    uint32_t rows, taps;
    uint64_t stride, step;
    bool add; /* to += ; otherwise to = bias + */
    float bias;
};

/* NULL where this processor can't run the level; levels between have the next lower one's. */
const GemmIsa *gemm_isa(GemmKind kind, IsaLevel level);
const GemmLoops *gemm_loops(IsaLevel level);

const GemmIsa *gemm_isa_portable(GemmKind kind);
const GemmLoops *gemm_loops_portable(void);
void gemm_row_portable(float *to, const float *from, const GemmRow *row);
void gemm_pad_portable(float *to, const GemmPlane *plane);
const GemmIsa *gemm_isa_avx2(GemmKind kind);
const GemmLoops *gemm_loops_avx2(void);
void gemm_transpose_avx2(float *to, uint64_t to_row, const float *from, uint64_t from_row,
                         uint64_t rows, uint64_t columns);
void gemm_turned_8(const GemmTile *tile); /* of panels of 8 rows and 48 columns, in AVX2 */
const GemmIsa *gemm_isa_avx512(GemmKind kind);
const GemmLoops *gemm_loops_avx512(void);

/* ---- any sources -------------------------------------------------------------------------------
 */

/* A part of A (lanes are rows) or B (lanes are columns) to pack. */
typedef struct GemmBlock {
    uint64_t batch;
    uint64_t k, depth;    /* elements [k, k + depth) of the inner dimension */
    uint64_t lane, lanes; /* rows or columns [lane, lane + lanes) */
    uint32_t width;       /* of a panel */
    const GemmLoops *loops;
} GemmBlock;

/* Writes to[(j / width * depth + i) * width + j % width] for inner index k + i and lane lane + j;
 * what a panel has past its last lane may be anything. GEMM_SLACK elements past the end may be
 * written. */
typedef void GemmPack(const void *source, const GemmBlock *block, void *to);

typedef struct Gemm {
    GemmKind kind;
    uint64_t batches, m, n, k; /* k: in elements, so in pairs for GEMM_PAIRS */
    GemmPack *pack_a, *pack_b;
    const void *a, *b; /* their sources */
    void *c;           /* [batches, m, n], float or int32 */
    bool add;          /* onto what C holds */
    const void
        *bias; /* [bias_batches, m] of C's type, or NULL: batch b has bias b % bias_batches */
    uint64_t bias_batches;
} Gemm;

/* Runs it with at most call->threads threads; buffers are from call->scratch. */
void gemm_run(KernelCall *call, const Gemm *gemm);

/* The same with a level's kernels, for tests; false where this machine can't run it. */
bool gemm_run_level(KernelCall *call, const Gemm *gemm, IsaLevel level);

/* ---- matrices in memory ------------------------------------------------------------------------
 */

/* Element (i, j) of batch b: data[(offsets ? offsets[b] : 0) + i * row + j * column]; row or column
 * is 1, or one of the sizes is. */
typedef struct GemmMatrix {
    const float *data;
    const uint64_t *offsets; /* [batches] or NULL */
    uint64_t row, column;
} GemmMatrix;

typedef struct GemmMatrices {
    uint64_t batches, m, n, k;
    GemmMatrix a, b;
    float *c;
    bool add;
    const float *bias; /* as Gemm's */
    uint64_t bias_batches;
} GemmMatrices;

/* Products of float matrices; vectors and outer products too, each its own way. */
void gemm_matrices(KernelCall *call, const GemmMatrices *matrices);

/* Pack functions of GemmMatrix, for Gemm.pack_a and pack_b. */
GemmPack gemm_pack_rows, gemm_pack_columns;

/* Threads worth using for `work` multiply-adds in `tasks` parts. */
unsigned gemm_threads(const KernelCall *call, double work, uint64_t tasks);

#endif
