// SPDX-License-Identifier: Apache-2.0
/* Plans and runs broadcasting loops; see kernel_broadcast.h. */
#include "kernel_broadcast.h"

#include <string.h>

#include "half_pieces.h"
#include "kernel_functions.h"
#include "kernel_parts.h"

/* The operand's strides for each of the output's dims. */
static bool align(KernelCall *call, const KernelTensor *out, const BroadcastOperand *operand,
                  uint64_t *strides) {
    const KernelTensor *tensor = operand->tensor;
    if (tensor->rank > out->rank || operand->trailing > out->rank - tensor->rank)
        return kernel_fail(call, "cannot broadcast a tensor of rank %u to rank %u", tensor->rank,
                           out->rank);
    uint32_t first = out->rank - tensor->rank - operand->trailing;
    uint64_t stride = 1;
    for (uint32_t k = tensor->rank; k-- > 0;) {
        int64_t dim = tensor->dims[k], wanted = out->dims[first + k];
        if (dim != wanted && dim != 1)
            return kernel_fail(call, "cannot broadcast dim %u of size %lld to %lld", k,
                               (long long)dim, (long long)wanted);
        strides[first + k] = dim == 1 ? 0 : stride;
        stride *= (uint64_t)dim;
    }
    return true;
}

/* True where dim `inner` continues dim `outer` in every operand. */
static bool continues(uint64_t *const *strides, uint32_t count, uint32_t outer, uint32_t inner,
                      uint64_t size) {
    for (uint32_t i = 0; i < count; i++)
        if (strides[i][outer] != strides[i][inner] * size) return false;
    return true;
}

/* Leaves dims larger than 1, neighbors merged where they can be; returns how many. Dims from
 * `first` on are used; there are two unused ones before them. */
static uint32_t collapse(uint64_t *dims, uint64_t *const *strides, uint32_t count, uint32_t rank) {
    uint32_t kept = 0;
    for (uint32_t k = 0; k < rank; k++) {
        if (dims[k] == 1) continue;
        bool merge = kept && continues(strides, count, kept - 1, k, dims[k]);
        uint32_t to = merge ? kept - 1 : kept++;
        dims[to] = merge ? dims[to] * dims[k] : dims[k];
        for (uint32_t i = 0; i < count; i++) strides[i][to] = strides[i][k];
    }
    return kept;
}

bool kernel_broadcast_plan(KernelCall *call, const BroadcastOperand *operands, uint32_t count,
                           Broadcast *plan) {
    const KernelTensor *out = operands[0].tensor;
    /* two dims more, in front, for outputs of rank 0 and 1 */
    uint64_t *dims = ARENA_ARRAY(call->scratch, uint64_t, (size_t)out->rank + 2);
    uint64_t *strides[BROADCAST_OPERANDS];
    *plan = (Broadcast){.count = count, .tiles = out->count ? 1 : 0, .workers = call->workers};
    dims[0] = dims[1] = 1;
    for (uint32_t i = 0; i < count; i++) {
        strides[i] = ARENA_ARRAY(call->scratch, uint64_t, (size_t)out->rank + 2);
        if (!align(call, out, &operands[i], strides[i] + 2)) return false;
        strides[i] += 2;
        plan->data[i] = operands[i].tensor->data;
        plan->dtype[i] = operands[i].tensor->dtype;
        plan->size[i] = kernel_element_size(plan->dtype[i]);
    }
    for (uint32_t k = 0; k < out->rank; k++) dims[2 + k] = (uint64_t)out->dims[k];
    uint32_t kept = out->count ? collapse(dims + 2, strides, count, out->rank) : 0;
    uint32_t front = kept < 2 ? 2 - kept : 0; /* dims of 1 to have two */
    plan->rank = kept + front;
    plan->dims = dims + 2 - front;
    for (uint32_t i = 0; i < count; i++) plan->strides[i] = strides[i] - front;
    for (uint32_t k = 0; plan->tiles && k + 2 < plan->rank; k++) plan->tiles *= plan->dims[k];
    return true;
}

/* ---- short rows ------------------------------------------------------------------------------ */

/* Of the copies of a row. */
enum { COPIES_BYTES = 4096 };

/* Whether all rows see the same row of operand i. */
static bool sees_one_row(const BroadcastTile *tile, uint32_t i) {
    return tile->step[i] && !tile->row_step[i];
}

/* How many of a tile's rows are one, where copies of the row that all of them see lie one behind the
 * other; 1 where other operands do not. */
static uint64_t rows_joined(const Broadcast *plan, const BroadcastTile *tile) {
    uint64_t most = tile->rows;
    for (uint32_t i = 0; i < plan->count; i++) {
        const bool follows = tile->step[i] && tile->row_step[i] == tile->columns;
        const bool is_one = !tile->step[i] && !tile->row_step[i];
        const uint64_t fit = COPIES_BYTES / (plan->size[i] * tile->columns);
        if (!follows && !is_one && !sees_one_row(tile, i)) return 1;
        if (sees_one_row(tile, i) && fit < most) most = fit;
    }
    return most > 1 ? most : 1;
}

/* What a loop costs before and behind whole vectors is more than a short row takes, such as a pixel's
 * channels: some rows are computed as one. */
static void run_tile(const Broadcast *plan, const BroadcastTile *tile, BroadcastFunction function,
                     const void *context) {
    char copies[BROADCAST_OPERANDS][COPIES_BYTES];
    const uint64_t joined = rows_joined(plan, tile), rest = tile->rows % joined;
    BroadcastTile rows = *tile;
    rows.rows = tile->rows / joined;
    rows.columns = tile->columns * joined;
    for (uint32_t i = 0; joined > 1 && i < plan->count; i++) {
        const uint64_t bytes = tile->columns * plan->size[i];
        rows.row_step[i] = tile->row_step[i] * joined;
        if (!sees_one_row(tile, i)) continue;
        for (uint64_t r = 0; r < joined; r++) memcpy(copies[i] + r * bytes, tile->at[i], bytes);
        rows.at[i] = copies[i];
    }
    function(&rows, context);
    if (rest == 0) return;
    for (uint32_t i = 0; i < plan->count; i++)
        rows.at[i] = (char *)rows.at[i] + rows.rows * rows.row_step[i] * plan->size[i];
    rows.rows = 1;
    rows.columns = tile->columns * rest;
    function(&rows, context);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Rows of all tiles, and their columns. */
typedef struct BroadcastPart {
    uint64_t row, row_end, column, column_end;
} BroadcastPart;

static void run_part(const Broadcast *plan, BroadcastPart part, BroadcastFunction function,
                     const void *context) {
    const uint32_t outer = plan->rank - 2;
    const uint64_t rows = plan->dims[outer];
    BroadcastTile tile = {.columns = part.column_end - part.column};
    for (uint32_t i = 0; i < plan->count; i++) {
        tile.row_step[i] = plan->strides[i][outer];
        tile.step[i] = plan->strides[i][outer + 1];
    }
    for (; part.row < part.row_end; part.row += tile.rows) {
        uint64_t place[BROADCAST_OPERANDS], rest = part.row / rows, first = part.row % rows;
        tile.rows = rows - first;
        if (tile.rows > part.row_end - part.row) tile.rows = part.row_end - part.row;
        for (uint32_t i = 0; i < plan->count; i++)
            place[i] = first * tile.row_step[i] + part.column * tile.step[i];
        for (uint32_t k = outer; k-- > 0; rest /= plan->dims[k])
            for (uint32_t i = 0; i < plan->count; i++)
                place[i] += rest % plan->dims[k] * plan->strides[i][k];
        for (uint32_t i = 0; i < plan->count; i++)
            tile.at[i] = plan->data[i] + place[i] * plan->size[i];
        run_tile(plan, &tile, function, context);
    }
}

typedef struct BroadcastJob {
    const Broadcast *plan;
    BroadcastFunction function;
    const void *context;
    uint64_t rows, columns;
    bool by_rows; /* parts are of rows, else of columns */
} BroadcastJob;

static void broadcast_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const BroadcastJob *job = data;
    (void)lane;
    const BroadcastPart part = job->by_rows ? (BroadcastPart){first, end, 0, job->columns}
                                            : (BroadcastPart){0, job->rows, first, end};
    run_part(job->plan, part, job->function, job->context);
}

void kernel_broadcast_run(const Broadcast *plan, BroadcastFunction function, const void *context) {
    const uint64_t rows = plan->tiles * plan->dims[plan->rank - 2];
    const uint64_t columns = plan->dims[plan->rank - 1];
    if (!plan->tiles) return;
    const unsigned threads = plan->workers ? workers_lanes(plan->workers) : 1;
    const unsigned parts = kernel_parts(threads, rows * columns, 1);
    const bool by_rows = rows >= parts;
    const BroadcastJob job = {plan, function, context, rows, columns, by_rows};
    const KernelCut cut = {.count = by_rows ? rows : columns,
                           .grain = by_rows ? 1 : KERNEL_PART_GRAIN,
                           .parts = parts};
    kernel_run_parts(plan->workers, cut, broadcast_part, &job);
}

/* ---- 16-bit floats --------------------------------------------------------------------------- */

/* What tiles of 16-bit floats are computed with. */
typedef struct HalfTiles {
    const Broadcast *plan;
    BroadcastFunction function; /* of floats */
} HalfTiles;

/* Rows and columns of a tile, from (row, column) on. */
typedef struct TilePiece {
    uint64_t row, rows, column, columns;
} TilePiece;

static char *piece_at(const HalfTiles *job, const BroadcastTile *tile, const TilePiece *piece,
                      uint32_t i) {
    const uint64_t element = piece->row * tile->row_step[i] + piece->column * tile->step[i];
    return (char *)tile->at[i] + element * job->plan->size[i];
}

/* Operand i of a piece: where it lies, or widened in `floats`. What is repeated is widened once. */
static void widen_operand(const HalfTiles *job, const BroadcastTile *tile, const TilePiece *piece,
                          uint32_t i, float *floats, BroadcastTile *to) {
    const uint64_t rows = tile->row_step[i] ? piece->rows : 1;
    const uint64_t columns = tile->step[i] ? piece->columns : 1;
    const char *from = piece_at(job, tile, piece, i);
    to->step[i] = tile->step[i];
    to->row_step[i] = tile->row_step[i];
    to->at[i] = (char *)from;
    if (!half_is(job->plan->dtype[i])) return;
    half_widen(floats, job->plan->dtype[i],
               (HalfRows){(void *)from, rows, columns, tile->row_step[i]});
    to->at[i] = floats;
    to->row_step[i] = tile->row_step[i] ? columns : 0;
}

static void run_piece(const HalfTiles *job, const BroadcastTile *tile, const TilePiece *piece) {
    float floats[BROADCAST_OPERANDS][HALF_PIECE];
    BroadcastTile wide = {.rows = piece->rows, .columns = piece->columns};
    for (uint32_t i = 1; i < job->plan->count; i++)
        widen_operand(job, tile, piece, i, floats[i], &wide);
    void *to = piece_at(job, tile, piece, 0);
    const bool narrow = half_is(job->plan->dtype[0]);
    wide.at[0] = narrow ? (void *)floats[0] : to;
    wide.step[0] = tile->step[0];
    wide.row_step[0] = narrow ? piece->columns : tile->row_step[0];
    job->function(&wide, NULL);
    if (narrow)
        half_narrow((HalfRows){to, piece->rows, piece->columns, tile->row_step[0]},
                    job->plan->dtype[0], floats[0]);
}

static void run_half_tile(const BroadcastTile *tile, const void *context) {
    const uint64_t width = tile->columns < HALF_PIECE ? tile->columns : HALF_PIECE;
    const uint64_t height = HALF_PIECE / width;
    TilePiece piece;
    for (piece.row = 0; piece.row < tile->rows; piece.row += piece.rows) {
        const uint64_t rows = tile->rows - piece.row;
        piece.rows = rows < height ? rows : height;
        for (piece.column = 0; piece.column < tile->columns; piece.column += piece.columns) {
            const uint64_t columns = tile->columns - piece.column;
            piece.columns = columns < width ? columns : width;
            run_piece(context, tile, &piece);
        }
    }
}

bool kernel_broadcast_by_dtype(KernelCall *call, const Broadcast *plan,
                               const BroadcastFunction functions[DTYPE_COUNT], Dtype dtype) {
    const HalfTiles halves = {plan, functions[DTYPE_FLOAT]};
    if (functions[dtype])
        kernel_broadcast_run(plan, functions[dtype], NULL);
    else if (half_is(dtype) && halves.function)
        kernel_broadcast_run(plan, run_half_tile, &halves);
    else
        return kernel_fail(call, "it is not defined for %s", dtype_name(dtype));
    return true;
}

bool kernel_broadcast_trailing(KernelCall *call, uint32_t *trailing) {
    *trailing = 0;
    if (call->row->layout != &op_attrs_broadcast) return true;
    const BroadcastAttrs *attrs = call->attrs;
    uint32_t rank = call->inputs[0].rank, inner = call->inputs[1].rank;
    if (attrs->axis == ATTR_ABSENT || !attrs->broadcast) return true;
    int64_t axis = attrs->axis < 0 ? attrs->axis + (int64_t)rank : attrs->axis;
    if (axis < 0 || inner > rank || axis > (int64_t)(rank - inner))
        return kernel_fail(call, "axis %lld for an operand of rank %u in one of rank %u",
                           (long long)attrs->axis, inner, rank);
    *trailing = rank - inner - (uint32_t)axis;
    return true;
}

bool kernel_broadcast_binary(KernelCall *call, const BroadcastFunction functions[DTYPE_COUNT]) {
    uint32_t trailing;
    if (!kernel_broadcast_trailing(call, &trailing)) return false;
    const KernelTensor *a = &call->inputs[0];
    BroadcastOperand operands[] = {{&call->outputs[0], 0}, {a, 0}, {&call->inputs[1], trailing}};
    Broadcast plan;
    if (!kernel_broadcast_plan(call, operands, 3, &plan)) return false;
    return kernel_broadcast_by_dtype(call, &plan, functions, a->dtype);
}
