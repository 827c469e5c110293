// SPDX-License-Identifier: Apache-2.0
/* Products of rows, wherever they lie, by weights that were packed once, of float, bfloat16 or bytes:
 *
 *     Y[r, n] = act(sum over t, k of X(r, t)[k] * W[t, k, n] + bias[n] + Z[r, n])
 *
 * X(r, t) is an address: what a tap of a channels-last convolution sees for output r (a pixel's
 * channels, or zeros where that is padding), or a row of a matrix with one tap. So no window is
 * ever copied. This is the indirect convolution of Dukhan (2019), and a plain product by packed
 * weights at once; with one row it reads the weights as fast as memory gives them.
 *
 * Weights are packed as panels of columns, a few vectors wide: [panel][tap][k][columns of it], the
 * last vector filled up with 0. A micro-kernel keeps a tile of sums, some rows by one panel, in
 * registers while it runs through all taps and k, and finishes it there. Every sum is of one thread
 * and in ascending order, so results do not depend on the number of threads; instruction sets
 * differ in rounding (with and without fused multiply-add).
 */
#ifndef DEMI_IGEMM_H
#define DEMI_IGEMM_H

#include "epilogue.h"
#include "isa.h"
#include "kernel.h"
#include "weight_layout.h"

enum {
    IGEMM_ROWS_MOST = 16,
    IGEMM_VECS_MOST = 4,
    IGEMM_PIXELS = 4, /* that are computed together by channel, and whose addresses are found so */
    IGEMM_PIXELS_FOUND = 64,
    IGEMM_LINE = 8, /* that are computed together in a line, and most of its taps */
    IGEMM_LINE_TAPS = 9,
    IGEMM_TWIN_ROWS = 2, /* at most, of which two panels are read at once */
};

/* What a word of 4 bytes is, of which rows and packed weights are made: depth counts them. */
typedef enum IgemmKind {
    IGEMM_FLOAT, /* a float */
    IGEMM_QUADS, /* four bytes of neighboring k: uint8 in rows, int8 in weights; sums are int32 */
    IGEMM_PAIRS, /* two int16 */
    IGEMM_BFLOATS, /* two bfloat16, of an even depth: what fills a word up may be NaN in rows. Sums are
                      float, of pairs; subnormals are taken for 0, and so are results */
    IGEMM_KIND_COUNT
} IgemmKind;

/* How a product is cut, where a caller knows better than the rule; sums have the same bits. */
typedef enum IgemmWay {
    IGEMM_BY_RULE,
    IGEMM_SMALL_BLOCKS, /* of half as many rows, that stay in a smaller cache */
    IGEMM_LARGE_BLOCKS, /* of four times as many: weights are read less often */
    IGEMM_NARROW,       /* panels of half as many columns, and tiles of more rows */
    IGEMM_OTHER_SHARES, /* threads share panels where the rule says rows, or rows for panels */
    IGEMM_WAY_COUNT
} IgemmWay;

/* How the bytes of products are computed: by quads where the processor has such sums, else by pairs. */
IgemmKind igemm_bytes_kind(IsaSet cpu);

/* Whether there are products of IGEMM_BFLOATS; by AMX where that is there, too. */
bool igemm_has_bfloats(IsaSet cpu);

/* From int32 sums to a result: v = factor * (sum + offset) + shift, within the bounds; of `to` FLOAT
 * that is it, of INT8 and UINT8 it is rounded to nearest, ties to even, and zero is added. Where rows
 * have scales of their own, which is of `to` FLOAT alone, NaN among them is what their results are:
 *
 *     v = row_factor * factor * (sum + offset) + row_shift * column_shift + shift
 */
typedef struct IgemmScale {
    const float *factor, *shift; /* [columns] */
    const int32_t *offset;       /* [columns] */
    int32_t zero;
    Dtype to;
    const struct IgemmByteSum *sum;      /* or NULL */
    const float *row_factor, *row_shift; /* [rows], or NULL: 1 and 0 for all */
    const float *column_shift;           /* [columns], where row_shift is there */
} IgemmScale;

/* Bytes that are added to a result of bytes: v above is rounded within bounds of its own, and what
 * is bounded by the product's, rounded and moved by zero is
 *
 *     u = v_factor * v + z_factor * Z[r, n] + shift
 */
typedef struct IgemmByteSum {
    const void *z; /* int8 or uint8, of y's shape */
    uint64_t z_row;
    bool is_signed;
    float v_factor, z_factor, shift;
    float low, high; /* of v */
} IgemmByteSum;

/* One call of a micro-kernel. */
typedef struct IgemmTile {
    const void *const
        *rows; /* [taps][row_step]: addresses of [depth] elements, a tile's rows first */
    uint64_t row_step, taps, depth;
    uint64_t skip;             /* elements of each row before those that the call is for */
    const void *weights;       /* [taps][depth][vectors * lanes] */
    const void *twin;          /* those of the panel behind, where two are computed */
    const char *ahead;         /* what is wanted next, fetched while sums are made: */
    uint64_t ahead_step;       /* so many bytes for every k, 0 where there is nothing */
    uint32_t columns;          /* of the result, at most the panel's */
    bool goes_on;              /* sums begin with what `sums` holds, else with 0 */
    bool ends;                 /* the rest is for this call; otherwise sums are only stored */
    float *sums;               /* [rows][vectors * lanes]; of bytes, int32 */
    void *y;                   /* float, or of bytes what `scale` says */
    uint64_t y_row;            /* elements between rows */
    IgemmScale scale;          /* of bytes, from the first column on; then bias and z are NULL */
    const char *z_bytes;       /* of scale.sum */
    const uint16_t *z_bfloats; /* the residual's of bfloats, or NULL */
    bool narrow;               /* of bfloats: y is bfloat16 */
    const float *bias;         /* [columns], or NULL */
    const float *z;            /* the residual's, or NULL */
    uint64_t z_row;
    float low, high; /* bounds of the result */
    bool swish;      /* of float and bfloats: HardSwish of it is what is stored */
} IgemmTile;

typedef void IgemmTileFunction(const IgemmTile *tile);

/* What is so many columns further; not of bytes. */
static inline IgemmTile igemm_tile_behind(const IgemmTile *tile, uint32_t columns) {
    IgemmTile behind = *tile;
    behind.columns -= columns;
    behind.y = (char *)tile->y + columns * (tile->narrow ? sizeof(uint16_t) : sizeof(float));
    if (tile->bias) behind.bias += columns;
    if (tile->z) behind.z += columns;
    if (tile->z_bfloats) behind.z_bfloats += columns;
    return behind;
}

/* The same by channel, which depthwise convolutions are: up to IGEMM_PIXELS rows of
 * y[r][c] = bounded(sum over t of rows[t][r][c / spread] * weights[t][c] + bias[c] + z[r][c]). */
typedef struct IgemmPixels {
    const void *const *rows; /* [taps][row_step]: these rows first */
    uint64_t row_step, taps, channels, spread;
    uint32_t count;
    const void *weights; /* [taps][channels] */
    void *y;
    uint64_t y_row;
    const float *bias; /* or NULL */
    const void *z;     /* or NULL; as rows are: float, or of bfloats bfloat16 */
    uint64_t z_row;
    float low, high;
    bool swish; /* HardSwish of what is within the bounds is stored */
    bool wide;  /* of bfloats: y is float */
} IgemmPixels;

/* How taps lie in a line of pixels: `taps` side by side, those of the next output `step` further. */
typedef struct IgemmSteps {
    uint32_t taps, step;
} IgemmSteps;

/* What an instruction set has. A tile of v vectors has at most most[v - 1] rows, and there are
 * panels of up to `vecs` vectors. */
typedef struct IgemmIsa {
    uint32_t lanes, vecs;
    uint32_t most[IGEMM_VECS_MOST];
    IgemmTileFunction *const *tiles[IGEMM_VECS_MOST]; /* [vectors - 1][rows - 1] */
    void (*pixels)(const IgemmPixels *pixels);
    /* The same of up to IGEMM_LINE outputs in a line. For each row of taps, rows has the addresses of
     * (IGEMM_LINE - 1) * step + taps pixels, whatever the count. Of 3, 5, 7 or 9 taps and steps of 1 or 2. */
    void (*line)(const IgemmPixels *pixels, IgemmSteps steps);
    /* Of up to IGEMM_TWIN_ROWS rows, [rows - 1]: two panels of `vecs` vectors at once, whole products. So few
     * rows wait for weights, and memory gives two streams sooner than one. NULL: none. */
    IgemmTileFunction *const *twins;
    bool whole; /* tiles have all their rows, but for the last one: others would take as long */
    /* What a thread does before tiles of so many words of depth, and after them; NULL: nothing. */
    void (*begin)(uint64_t depth);
    void (*end)(void);
} IgemmIsa;

/* What vectors of a processor with these features have. */
const IgemmIsa *igemm_isa_by_vectors(IgemmKind kind, IsaSet cpu);
/* By AMX's tiles, of quads and bfloats, for a processor that has them; NULL where the system gives them not. */
const IgemmIsa *igemm_isa_by_tiles(IgemmKind kind);
/* The fastest of a processor with these features for products of so many rows. */
const IgemmIsa *igemm_isa_for(IgemmKind kind, IsaSet cpu, uint64_t rows);

/* Rows of floats `width` apart to bfloat16 that lie y_row elements apart, rounded to nearest, ties to
 * even, subnormals to 0. Where there are products of IGEMM_BFLOATS. */
typedef struct IgemmNarrow {
    uint16_t *y;
    uint64_t y_row;
    uint32_t rows, columns, width;
} IgemmNarrow;
typedef struct IgemmRound {
    void (*rows)(const IgemmNarrow *rows, const float *from);
} IgemmRound;
void igemm_round_rows(const IgemmNarrow *rows, const float *from);

/* ---- weights --------------------------------------------------------------------------------- */

/* Weights of one group: element (t, k, n) is data[t * tap + k * row + n * column], float or int8. */
typedef struct IgemmWeights {
    IgemmKind kind;
    const void *data;
    uint64_t taps, depth, columns;
    uint64_t tap, row, column;
    IgemmWay way; /* of the products that read them */
} IgemmWeights;

/* Words that `depth` elements of a row are: the last is filled up with 0 in weights, and rows may
 * have anything there. */
uint64_t igemm_words(IgemmKind kind, uint64_t depth);

/* Whether a product of so many rows by these weights, with the call's threads, is cut otherwise by
 * that way than by the rule. */
bool igemm_has_way(const KernelCall *call, const IgemmWeights *weights, uint64_t rows, IsaSet cpu);

/* How they are packed, for any processor; those of igemm_channels, element (t, n) of which is
 * data[n * taps + t]. */
WeightLayout igemm_layout(const IgemmWeights *weights, IsaSet cpu);
WeightLayout igemm_channels_layout(uint64_t taps, uint64_t channels);

/* Bytes that they take packed. */
uint64_t igemm_packed_size(const IgemmWeights *weights, IsaSet cpu);
/* `to` is 64-byte aligned. */
void igemm_pack(void *to, const IgemmWeights *weights, IsaSet cpu);

/* ---- running --------------------------------------------------------------------------------- */

/* Where rows [first, first + count) lie: to[t * count + i], for all taps. */
typedef void IgemmFind(const void *source, uint64_t first, uint32_t count, const void **to);

/* Outputs side by side: each `outputs` are a line, and see lines of pixels. `find` gives what those
 * from `first` on in a line see: to[r * columns + j], columns as in IgemmIsa.line, for each row r of
 * taps. */
typedef struct IgemmLines {
    uint64_t outputs;
    IgemmSteps steps;
    void (*find)(const void *source, uint64_t first, uint32_t columns, const void **to);
} IgemmLines;

/* Whether there are kernels for such lines. */
bool igemm_has_lines(IgemmSteps steps);

typedef struct Igemm {
    IgemmKind kind;
    uint64_t rows, taps, depth, columns; /* taps and depth (in words) at least 1 */
    IgemmFind *find;
    const void *source;
    const void *weights; /* packed for the processor */
    void *y;
    uint64_t y_row;
    const Epilogue *epilogue; /* NULL: nothing. Its bias is of columns, its residual of y's shape.
                                 Of bytes: bounds alone; of bfloats `z` for a residual */
    const IgemmScale *scale;  /* of bytes */
    bool is_signed;           /* rows are int8, where that is for who reads them to know */
    const IgemmLines *lines;  /* by channel: how outputs lie in lines; NULL: anyhow */
    IgemmWay way;             /* that the weights are packed for; of igemm_run alone */
    const uint16_t *z;        /* of bfloats: what is added, of y's shape and rows; or NULL */
    bool wide;                /* of bfloats: y is float, and so is the epilogue's residual */
    bool repeats;             /* of igemm_run: all taps meet the weights of one */
    uint64_t spread; /* by channel: columns that see one of x's, beside each other; 0: one */
    /* Of igemm_run: several products of the same rows, each of the next `depth` words of them, to the
     * next `columns` of y and what is added; weights of each lie so many bytes apart. 0: one */
    uint64_t groups, group_weights;
} Igemm;

/* Runs it with the call's threads and the kernels for features that this processor has. False with
 * the error set past the memory budget. */
bool igemm_run(KernelCall *call, const Igemm *igemm, IsaSet cpu);

enum { IGEMM_BLOCK_ROWS = 96, IGEMM_BLOCK_DEPTH = 1024 };

/* A product in the calling thread: y [rows, columns] of x [rows, depth] and packed weights of one tap; at
 * most IGEMM_BLOCK_ROWS rows and IGEMM_BLOCK_DEPTH words deep, without a gap between rows. Of floats or
 * bfloats, whose y is bfloat16. */
typedef struct IgemmBlock {
    IgemmKind kind;
    uint64_t rows, depth, columns; /* depth in words */
    const void *x;
    const void *weights;
    void *y;
    const Epilogue *epilogue; /* as Igemm's; NULL: nothing */
    const uint16_t *z;        /* of bfloats: what is added, of y's shape */
} IgemmBlock;

/* By the kernels that igemm_isa_for gives. */
void igemm_multiply(const IgemmBlock *block, const IgemmIsa *isa);

/* By channel, of float or of bfloats: depth is 1, columns are channels, and weights float [taps][columns];
 * column n is of what lies n / spread elements behind a row's address; without a spread outputs may be in
 * lines. Of bfloats y is bfloat16. */
bool igemm_channels(KernelCall *call, const Igemm *igemm, IsaSet cpu);

/* The same of all its rows in the calling thread; `table` has room for so many addresses, `rest` for so
 * many floats. */
uint64_t igemm_channels_table(const Igemm *igemm);
uint64_t igemm_channels_rest(const Igemm *igemm);
void igemm_channels_block(const Igemm *igemm, IsaSet cpu, const void **table, float *rest);

/* The epilogue's bounds; of bytes they are within the type less its zero point. */
void igemm_bounds(const Igemm *igemm, float *low, float *high);

#endif
