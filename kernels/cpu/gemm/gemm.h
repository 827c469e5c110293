// SPDX-License-Identifier: Apache-2.0
/* Products of matrices, C = A * B, for everything that comes down to them: MatMul, Gemm,
 * convolutions.
 *
 * Blocked as is usual: panels of B (a few vectors of columns) are packed so that the micro-kernel
 * reads them in order, and keeps its tile of C in registers. A's rows are read where they are: of
 * each of its few the micro-kernel wants one element after the other. The source of B is a pack
 * function, so a convolution's B, whose rows are shifted images, is never built as a whole.
 *
 * Elements are of 4 bytes: float, or two int16 of neighboring k (GEMM_PAIRS) whose products are
 * summed to int32, modulo 2^32. Every element of C is computed by one thread, over k in ascending
 * order with blocks of GEMM_DEPTH, so results do not depend on the number of threads; instruction
 * sets differ in rounding (with and without fused multiply-add).
 */
#ifndef DEMI_GEMM_H
#define DEMI_GEMM_H

#include "epilogue.h"
#include "half.h"
#include "isa.h"
#include "kernel.h"

typedef enum GemmKind { GEMM_FLOAT, GEMM_PAIRS, GEMM_KIND_COUNT } GemmKind;

enum { GEMM_DEPTH = 512, GEMM_ROWS_MOST = 8, GEMM_VECS_MOST = 3, GEMM_SLACK = 16 };

/* One call of a micro-kernel: C[rows, columns] of some rows of A and a packed panel of B. */
typedef struct GemmTile {
    uint64_t depth;
    const void *a, *b;
    uint64_t a_row;    /* elements between rows of A */
    uint64_t b_column; /* `transposed` only: elements between columns of b, each [depth] */
    void *c;
    uint64_t c_row;   /* elements between rows of C */
    uint32_t columns; /* at most the kernel's vectors' lanes */
    uint32_t rows;    /* used by `transposed` only */
    bool add;         /* C += A * B; otherwise C = bias + A * B */
    const void *bias; /* [rows], or NULL for 0 */
} GemmTile;

typedef void GemmTileFunction(const GemmTile *tile);

/* What an instruction set has for one kind. A tile has at most `rows` rows, B's panels vecs * lanes
 * columns. */
typedef struct GemmIsa {
    uint32_t rows, vecs, lanes;
    GemmTileFunction *tiles[GEMM_ROWS_MOST][GEMM_VECS_MOST]; /* [rows - 1][vectors - 1] */
    /* For a last vector of few columns, up to transposed_most: vectors are along k then. NULL where
     * there is none. */
    GemmTileFunction *transposed;
    uint32_t transposed_most;
} GemmIsa;

typedef struct GemmBlock GemmBlock;

/* A vector of floats and a matrix of rows `row` elements apart, of each of which `columns` count. */
typedef void GemmVectorFunction(float *y, const void *matrix, uint64_t row, const float *x,
                                uint64_t rows, uint64_t columns);

/* Loops over floats that the instruction sets have. */
typedef struct GemmLoops {
    /* to[c * to_row + r] = from[r * from_row + c], r < rows, c < columns. Where to_row == rows, 7
     * elements past the last may be written too. */
    void (*transpose)(float *to, uint64_t to_row, const float *from, uint64_t from_row,
                      uint64_t rows, uint64_t columns);
    /* Packs the block (see GemmPack) of rows of B that lie `row` apart, the first at `from`. */
    void (*panels)(float *to, const float *from, uint64_t row, const GemmBlock *block);
    /* y[r] += dot(matrix + r * row, x): summed in double or by many lanes */
    GemmVectorFunction *dots;
    /* y[column] += x[k] * matrix[k * row + column], over the rows k in order */
    GemmVectorFunction *gemv;
    /* The same of float16 (half) and of bfloat16 matrices, widened as they are read: the
     * bits that their elements as floats would give. */
    GemmVectorFunction *half_dots, *half_gemv, *bfloat_dots, *bfloat_gemv;
} GemmLoops;

/* The best for a processor that has these features. */
const GemmIsa *gemm_isa(GemmKind kind, IsaSet cpu);
const GemmLoops *gemm_loops(IsaSet cpu);

/* ---- any sources ----------------------------------------------------------------------------- */

/* A part of B to pack; lanes are columns. */
struct GemmBlock {
    uint64_t batch;
    uint64_t k, depth;    /* elements [k, k + depth) of the inner dimension */
    uint64_t lane, lanes; /* columns [lane, lane + lanes) */
    uint32_t width;       /* of a panel */
    const GemmLoops *loops;
};

/* Writes to[(j / width * depth + i) * width + j % width] for inner index k + i and lane lane + j;
 * what a panel has past its last lane may be anything. GEMM_SLACK elements past the end may be
 * written. */
typedef void GemmPack(const void *source, const GemmBlock *block, void *to);

/* Element (i, j) of batch b: data[(offsets ? offsets[b] : 0) + i * row + j * column]; row or column
 * is 1, or one of the sizes is. 16-bit elements are widened where they are read, block by block, so
 * that memory has them in 16 bits alone; the product is that of widened matrices, to the bit. */
typedef struct GemmMatrix {
    const void *data;        /* pairs of GEMM_PAIRS travel as floats do */
    const uint64_t *offsets; /* [batches] or NULL */
    uint64_t row, column;
    Dtype narrow; /* FLOAT16 or BFLOAT16; else elements are of 4 bytes */
} GemmMatrix;

/* What `narrow` is for a tensor's elements. */
static inline Dtype gemm_narrow(const KernelTensor *tensor) {
    bool is = dtype_is_reduced(tensor->dtype);
    return is ? tensor->dtype : DTYPE_UNDEFINED;
}

static inline size_t gemm_element(const GemmMatrix *m) {
    return m->narrow ? sizeof(uint16_t) : sizeof(float);
}

/* Where batch b's first element is. */
static inline const char *gemm_start(const GemmMatrix *m, uint64_t batch) {
    return (const char *)m->data + (m->offsets ? m->offsets[batch] : 0) * gemm_element(m);
}

/* `count` 16-bit elements as float. */
static inline void gemm_widen(const GemmMatrix *m, float *to, const void *from, uint64_t count) {
    reduced_convert_to_float(m->narrow, to, from, count);
}

typedef struct Gemm {
    GemmKind kind;
    uint64_t batches, m, n, k; /* k: in elements, so in pairs for GEMM_PAIRS */
    const GemmMatrix *a;
    GemmPack *pack_b;
    const void *b; /* its source */
    const GemmMatrix
        *b_matrix; /* the same where it is one, whose memory is fetched ahead; or NULL */
    void *c;       /* [batches, m, n], float or int32 */
    bool add;      /* onto what C holds */
    const void
        *bias; /* [bias_batches, m] of C's type, or NULL: batch b has bias b % bias_batches */
    uint64_t bias_batches;
    /* Of float, or NULL: what is done to C in the end, tile by tile. Its bias, if any, is of
     * columns; its residual is of C's shape. */
    const Epilogue *epilogue;
} Gemm;

/* Runs it with the call's threads. False with the error set past the memory budget. */
bool gemm_run(KernelCall *call, const Gemm *gemm);

/* The same by the kernels for a processor with these features, which this one has. */
bool gemm_run_on(KernelCall *call, const Gemm *gemm, IsaSet cpu);

/* ---- matrices in memory ---------------------------------------------------------------------- */

typedef struct GemmMatrices {
    uint64_t batches, m, n, k;
    GemmMatrix a, b;
    float *c;
    bool add;
    const float *bias; /* as Gemm's */
    uint64_t bias_batches;
    const Epilogue *epilogue; /* as Gemm's */
} GemmMatrices;

/* Products of float matrices; vectors and outer products too, each its own way. As gemm_run. */
bool gemm_matrices(KernelCall *call, const GemmMatrices *matrices);

/* The pack function of a GemmMatrix as B. */
GemmPack gemm_pack_columns;

/* Rows [row, row + rows) of a matrix, its columns [k, k + depth), side by side: to[i * depth + j].
 */
void gemm_copy_rows(const GemmMatrix *matrix, const GemmBlock *block, float *to);

#endif
