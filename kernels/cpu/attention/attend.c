// SPDX-License-Identifier: Apache-2.0
/* Attention in blocks; see attend.h.
 *
 * A task is some queries of the heads that share a head of keys: they are rows of one matrix. For
 * each block of keys their scores are a product with the keys, packed so that vectors are along
 * keys; what becomes of them (masks, exponentials) is done row by row while they are in the cache;
 * and their sum of values is a product with the values. Of fewer rows than a tile is worth packing
 * for, a query at a time runs over keys and values where they lie. Blocks that no query of the task
 * sees are skipped. Results do not depend on the number of threads.
 *
 * In fast plans operands of bfloat16 are multiplied as they are, where the processor does so: scores are
 * scaled then, and exponentials are rounded for their product with the values.
 */
#include "attend.h"

#include <math.h>
#include <string.h>

#include "attend_bfloat.h"
#include "half_pieces.h"
#include "igemm.h"
#include "kernel_clones.h"
#include "kernel_math.h"
#include "kernel_parts.h"
#include "kernel_rows.h"
#include "quick_lanes.h"

enum { QUERIES = 128, KEYS = 128, FEW_ROWS = 4, ALIGN = 16 };

/* Buffers of a thread, in floats. */
typedef struct Buffers {
    float *q, *scores, *sums, *keys, *values, *top, *total, *weights;
} Buffers; /* of bfloats q and weights are such, and keys and values words of two */

typedef struct Runner {
    const Attend *job;
    const GemmIsa *isa;
    const GemmLoops *loops;
    uint64_t rows;           /* of a head of keys: group * rows */
    uint64_t queries, keys;  /* of a block, at most */
    uint64_t score_row;      /* floats from a row of scores to the next */
    uint64_t blocks;         /* of queries, for a head of keys */
    uint32_t width;          /* of packed panels */
    bool bfloats;            /* operands are multiplied as such */
    uint64_t sizes[8], size; /* of Buffers, and of all of them */
    float *memory;
} Runner;

/* Some queries and the keys they meet. */
typedef struct Task {
    const Runner *runner;
    Buffers at;
    uint64_t batch, head, row; /* of keys' heads; the first row */
    uint64_t rows, key, keys;
    const AttendOperand *k, *v; /* where these keys and values are, */
    uint64_t lane;              /* from that row of them on */
    bool few;                   /* a query at a time */
    bool bfloats;               /* else operands are widened */
} Task;

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t rounded(uint64_t count, uint64_t unit) {
    return (count + unit - 1) / unit * unit;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* A row of scores of neighboring keys, and what is done to it. Behind them there is room for whole
 * QUICK_LANES, which become scores that nobody sees. */
typedef struct ScoreRow {
    float *score;
    uint64_t count; /* a multiple of QUICK_LANES */
    const uint8_t *keep;
    const float *bias;
    uint64_t keep_step, bias_step, from, to; /* keys [from, to) are seen */
    float scale, softcap, fill;
} ScoreRow;

/* A mask may end before the keys do, where the range does. */
ROW_CLONES
static void mask_row(const ScoreRow *row) {
    const uint64_t from = row->from, n = row->to - from;
    float *score = row->score + from;
    const float scale = row->scale, cap = row->softcap, fill = row->fill;
    if (scale != 1) ROW_EACH(n, score[i] *= scale)
    if (cap > 0) ROW_EACH(n, score[i] = cap * math_tanh(score[i] / cap))
    if (row->keep && row->keep_step) {
        const uint8_t *keep = row->keep + from;
        ROW_EACH(n, score[i] = keep[i] ? score[i] : fill)
    } else if (row->keep && !*row->keep) {
        ROW_EACH(n, score[i] = fill)
    }
    if (row->bias && row->bias_step) {
        const float *bias = row->bias + from;
        ROW_EACH(n, score[i] = bias[i] == -INFINITY ? -INFINITY : score[i] + bias[i])
    } else if (row->bias) {
        const float bias = *row->bias;
        ROW_EACH(n, score[i] = bias == -INFINITY ? -INFINITY : score[i] + bias)
    }
    for (uint64_t i = 0; i < from; i++) row->score[i] = -INFINITY;
    for (uint64_t i = row->to; i < row->count; i++) row->score[i] = -INFINITY;
}

/* The larger of the row and `top`. NaN is for the exponentials to find. */
ROW_CLONES
static float row_top(const float *x, uint64_t n, float top) {
    return quick_top(x, n, top);
}

/* x = exp(x - top); returns the sum. */
ROW_CLONES
static float row_exp(float *x, uint64_t n, float top) {
    ROW_EACH(n, x[i] = math_exp(x[i] - top))
    return quick_sum(x, n);
}

ROW_CLONES
static void scale_row(float *x, uint64_t n, float factor) {
    ROW_EACH(n, x[i] *= factor)
}

/* ---- rows of a task -------------------------------------------------------------------------- */

/* A row's head and its place among that head's queries. */
typedef struct Place {
    uint64_t head, row;
} Place;

static Place place_of(const Task *task, uint64_t row) {
    const Attend *job = task->runner->job;
    row += task->row;
    return (Place){task->head * job->group + row / job->rows, row % job->rows};
}

static uint64_t mask_at(const Task *task, const AttendMask *mask, Place place) {
    return task->batch * mask->batch + place.head * mask->head + place.row * mask->row +
           task->key * mask->key;
}

/* What row `row` of the task does with its block of keys. */
static ScoreRow score_row(const Task *task, uint64_t row) {
    const Attend *job = task->runner->job;
    const Place place = place_of(task, row);
    ScoreRow made = {.score = task->at.scores + row * task->runner->score_row,
                     .count = rounded(task->keys, QUICK_LANES),
                     .to = task->keys,
                     .keep_step = job->keep.key,
                     .bias_step = job->bias.key,
                     .scale = task->bfloats ? job->scale : 1,
                     .softcap = job->softcap,
                     .fill = job->fill};
    if (job->keep.data)
        made.keep = (const uint8_t *)job->keep.data + mask_at(task, &job->keep, place);
    if (job->bias.data)
        made.bias = (const float *)job->bias.data + mask_at(task, &job->bias, place);
    if (!job->range) return made;
    uint64_t range[2];
    job->range(job->context, task->batch, place.row, range);
    made.from = range[0] > task->key ? least(range[0] - task->key, task->keys) : 0;
    made.to = range[1] > task->key ? least(range[1] - task->key, task->keys) : 0;
    if (made.from > made.to) made.from = made.to;
    return made;
}

/* True where all that the row sees is -Inf, as its masks say alone. */
static bool row_is_hidden(const ScoreRow *row) {
    const bool filled = row->keep && row->fill == -INFINITY;
    for (uint64_t i = row->from; i < row->to; i++) {
        bool kept = !filled || row->keep[i * row->keep_step];
        if (kept && (!row->bias || row->bias[i * row->bias_step] != -INFINITY)) return false;
    }
    return true;
}

/* The same of the task's block of keys. Masks mostly tell by their first element. */
static bool block_is_hidden(const Task *task) {
    const Attend *job = task->runner->job;
    if (!job->range && !job->bias.data && !(job->keep.data && job->fill == -INFINITY)) return false;
    for (uint64_t r = task->rows; r-- > 0;) { /* of a causal mask, the last row sees most */
        const ScoreRow row = score_row(task, r);
        if (!row_is_hidden(&row)) return false;
    }
    return true;
}

/* Scores become powers, and what was summed before is corrected. True where any is above 0. */
static bool soften(const Task *task, uint64_t r) {
    const ScoreRow row = score_row(task, r);
    float *top = &task->at.top[r], *total = &task->at.total[r];
    mask_row(&row);
    const float before = *top;
    *top = row_top(row.score, row.count, before);
    const float base = *top == -INFINITY ? 0 : *top;
    if (before != *top && before != -INFINITY) {
        const float factor = math_exp(before - base);
        *total *= factor;
        scale_row(task->at.sums + r * task->runner->job->value, task->runner->job->value, factor);
    }
    const float sum = row_exp(row.score, row.count, base);
    *total += sum;
    return sum != 0;
}

/* ---- products -------------------------------------------------------------------------------- */

static GemmMatrix matrix_of(const AttendOperand *operand, const uint64_t *start) {
    return (GemmMatrix){.data = operand->data,
                        .offsets = start,
                        .row = operand->row,
                        .column = operand->element,
                        .narrow = operand->narrow};
}

/* C[rows, columns] of panels that are packed. */
static void run_tiles(const Task *task, GemmTile tile, float *c, uint64_t columns) {
    const Runner *runner = task->runner;
    const GemmIsa *isa = runner->isa;
    const float *a = tile.a, *b = tile.b;
    for (uint64_t i = 0; i < task->rows; i += isa->rows) {
        tile.rows = (uint32_t)least(task->rows - i, isa->rows);
        tile.a = a + i * tile.a_row;
        for (uint64_t j = 0; j < columns; j += runner->width) {
            tile.columns = (uint32_t)least(columns - j, runner->width);
            tile.b = b + j * tile.depth;
            tile.c = c + i * tile.c_row + j;
            isa->tiles[tile.rows - 1][(tile.columns - 1) / isa->lanes](&tile);
        }
    }
}

/* Rows of a matrix whose elements lie side by side, one behind the other. */
static void join_rows(const GemmMatrix *matrix, const GemmBlock *all, float *to) {
    const char *from = (const char *)gemm_start(matrix, 0) +
                       all->lane * matrix->row * (matrix->narrow ? sizeof(uint16_t) : sizeof *to);
    if (matrix->narrow) {
        half_widen(to, matrix->narrow,
                   (HalfRows){(void *)from, all->lanes, all->depth, matrix->row});
        return;
    }
    for (uint64_t r = 0; r < all->lanes; r++, to += all->depth)
        memcpy(to, (const float *)(const void *)from + r * matrix->row, all->depth * sizeof *to);
}

/* Rows of a matrix side by side, from the block's lane on. */
static void copy_rows(const Runner *runner, const GemmMatrix *matrix, const GemmBlock *all,
                      float *to) {
    GemmBlock block = *all; /* gemm_copy_rows takes no more rows than tiles have */
    block.loops = runner->loops;
    if (matrix->column == 1) {
        join_rows(matrix, all, to);
        return;
    }
    for (uint64_t i = 0; i < all->lanes; i += block.lanes, to += block.lanes * block.depth) {
        block.lane = all->lane + i;
        block.lanes = least(all->lanes - i, runner->isa->rows);
        gemm_copy_rows(matrix, &block, to);
    }
}

/* Takes the keys from task->key on that make a block: they lie in one place. */
static void take_keys(Task *task) {
    const Attend *job = task->runner->job;
    const bool past = task->key < job->past;
    task->keys = least((past ? job->past : job->keys) - task->key, task->runner->keys);
    task->k = past ? &job->k_past : &job->k;
    task->v = past ? &job->v_past : &job->v;
    task->lane = past ? task->key : task->key - job->past;
}

/* Where the keys or values of the task's head begin. */
static uint64_t head_start(const Task *task, const AttendOperand *operand) {
    const uint64_t share =
        operand == task->k ? task->runner->job->k_share : task->runner->job->v_share;
    return task->batch * operand->batch + task->head / (share ? share : 1) * operand->head;
}

/* Keys or values of the block, one after the other: where they are, or copied to `to`. */
static const float *block_rows(const Task *task, const AttendOperand *operand, uint64_t size,
                               float *to, uint64_t *step) {
    const uint64_t start = head_start(task, operand);
    const GemmMatrix matrix = matrix_of(operand, &start);
    *step = operand->row;
    if (!operand->narrow && operand->element == 1)
        return (const float *)operand->data + start + task->lane * operand->row;
    const GemmBlock block = {.depth = size, .lane = task->lane, .lanes = task->keys};
    copy_rows(task->runner, &matrix, &block, to);
    *step = size;
    return to;
}

static void few_scores(const Task *task) {
    const Runner *runner = task->runner;
    const uint64_t size = runner->job->size;
    uint64_t step;
    const float *keys = block_rows(task, task->k, size, task->at.keys, &step);
    for (uint64_t r = 0; r < task->rows; r++) {
        float *score = task->at.scores + r * runner->score_row;
        memset(score, 0, task->keys * sizeof *score);
        runner->loops->dots(score, keys, step, task->at.q + r * size, task->keys, size);
    }
}

static void bfloat_scores(const Task *task) {
    const Runner *runner = task->runner;
    const AttendOperand *k = task->k;
    const uint64_t words = bfloat_words(runner->job->size);
    const BfloatMatrix keys = {.data = (const uint16_t *)k->data + head_start(task, k) +
                                       task->lane * k->row,
                               .step = k->element,
                               .lane_step = k->row,
                               .depth = runner->job->size,
                               .lanes = task->keys};
    uint32_t *panels = (uint32_t *)(void *)task->at.keys;
    bfloat_pack(&keys, runner->loops, panels);
    bfloat_multiply(&(BfloatProduct){.rows = (const uint16_t *)(const void *)task->at.q,
                                     .row = 2 * words,
                                     .count = task->rows,
                                     .words = words,
                                     .columns = task->keys,
                                     .panels = panels,
                                     .y = task->at.scores,
                                     .y_row = runner->score_row});
}

static void many_scores(const Task *task) {
    const Runner *runner = task->runner;
    const AttendOperand *k = task->k;
    const uint64_t start = head_start(task, k);
    GemmMatrix matrix = matrix_of(k, &start); /* turned: its columns are keys */
    matrix.row = k->element;
    matrix.column = k->row;
    const GemmBlock block = {.depth = runner->job->size,
                             .lane = task->lane,
                             .lanes = task->keys,
                             .width = runner->width,
                             .loops = runner->loops};
    gemm_pack_columns(&matrix, &block, task->at.keys);
    const GemmTile tile = {.depth = block.depth,
                           .a = task->at.q,
                           .b = task->at.keys,
                           .a_row = block.depth,
                           .c_row = runner->score_row};
    run_tiles(task, tile, task->at.scores, task->keys);
}

/* Values of weight 0 are left out where they have no say. */
static void few_values(const Task *task) {
    const Runner *runner = task->runner;
    const uint64_t value = runner->job->value, n = task->keys;
    uint64_t step;
    const float *values = block_rows(task, task->v, value, task->at.values, &step);
    for (uint64_t r = 0; r < task->rows; r++) {
        const float *weight = task->at.scores + r * runner->score_row;
        float *sum = task->at.sums + r * value;
        if (!runner->job->excludes) {
            runner->loops->gemv(sum, values, step, weight, n, value);
            continue;
        }
        for (uint64_t j = 0, end; j < n; j = end) {
            for (; j < n && weight[j] == 0; j++) continue;
            for (end = j; end < n && weight[end] != 0; end++) continue;
            if (end > j)
                runner->loops->gemv(sum, values + j * step, step, weight + j, end - j, value);
        }
    }
}

static void bfloat_values(const Task *task) {
    const Runner *runner = task->runner;
    const AttendOperand *v = task->v;
    const uint64_t words = bfloat_words(task->keys);
    const BfloatMatrix values = {.data = (const uint16_t *)v->data + head_start(task, v) +
                                         task->lane * v->row,
                                 .step = v->row,
                                 .lane_step = v->element,
                                 .depth = task->keys,
                                 .lanes = runner->job->value};
    uint32_t *panels = (uint32_t *)(void *)task->at.values;
    uint16_t *weights = (uint16_t *)(void *)task->at.weights;
    for (uint64_t r = 0; r < task->rows; r++)
        bfloat_convert_from_float(weights + r * runner->score_row,
                                  task->at.scores + r * runner->score_row, 2 * words);
    bfloat_pack(&values, runner->loops, panels);
    bfloat_multiply(&(BfloatProduct){.rows = weights,
                                     .row = runner->score_row,
                                     .count = task->rows,
                                     .words = words,
                                     .columns = values.lanes,
                                     .panels = panels,
                                     .y = task->at.sums,
                                     .y_row = values.lanes,
                                     .add = true});
}

static void many_values(const Task *task) {
    const Runner *runner = task->runner;
    const AttendOperand *v = task->v;
    const uint64_t start = head_start(task, v);
    const GemmMatrix matrix = matrix_of(v, &start);
    const GemmBlock block = {.k = task->lane,
                             .depth = task->keys,
                             .lanes = runner->job->value,
                             .width = runner->width,
                             .loops = runner->loops};
    gemm_pack_columns(&matrix, &block, task->at.values);
    const GemmTile tile = {.depth = block.depth,
                           .a = task->at.scores,
                           .b = task->at.values,
                           .a_row = runner->score_row,
                           .c_row = block.lanes,
                           .add = true};
    run_tiles(task, tile, task->at.sums, block.lanes);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Where a row of Q or Y begins. */
static uint64_t row_start(const Task *task, const AttendOperand *operand, uint64_t row) {
    const Place place = place_of(task, row);
    return task->batch * operand->batch + place.head * operand->head + place.row * operand->row;
}

/* Row r of Q, in whole words. */
static void take_bfloats(const Task *task, uint64_t r) {
    const Attend *job = task->runner->job;
    const uint64_t whole = 2 * bfloat_words(job->size), step = job->q.element;
    const uint16_t *from = (const uint16_t *)job->q.data + row_start(task, &job->q, r);
    uint16_t *to = (uint16_t *)(void *)task->at.q + r * whole;
    if (step == 1)
        memcpy(to, from, job->size * sizeof *to);
    else
        for (uint64_t i = 0; i < job->size; i++) to[i] = from[i * step];
    if (whole > job->size) to[job->size] = 0;
}

static void take_floats(const Task *task, uint64_t r) {
    const Runner *runner = task->runner;
    const Attend *job = runner->job;
    const uint64_t start = row_start(task, &job->q, r);
    const GemmMatrix matrix = matrix_of(&job->q, &start);
    const GemmBlock block = {.depth = job->size, .lanes = 1};
    float *to = task->at.q + r * job->size;
    copy_rows(runner, &matrix, &block, to);
    scale_row(to, job->size, job->scale);
}

static void begin(const Task *task) {
    const Attend *job = task->runner->job;
    for (uint64_t r = 0; r < task->rows; r++) {
        if (task->bfloats)
            take_bfloats(task, r);
        else
            take_floats(task, r);
        task->at.top[r] = -INFINITY;
        task->at.total[r] = 0;
    }
    memset(task->at.sums, 0, task->rows * job->value * sizeof(float));
}

static void store(const Task *task, uint64_t row) {
    const Attend *job = task->runner->job;
    const AttendOperand *y = &job->y;
    const uint64_t start = row_start(task, y, row), n = job->value;
    float *sum = task->at.sums + row * n, total = task->at.total[row];
    const bool none = total == 0 || (job->blank && total != total);
    if (job->keys) scale_row(sum, n, none && job->excludes ? 0 : 1 / total);
    if (none && job->keys && (job->blank || !job->excludes))
        for (uint64_t e = 0; e < n; e++) sum[e] = job->blank ? 0 : NAN;
    const uint64_t run = y->element == 1 ? n : 1;
    for (uint64_t e = 0; e < n; e += run) {
        const uint64_t at = start + e * y->element;
        if (y->narrow)
            reduced_convert_from_float(y->narrow, (uint16_t *)y->data + at, sum + e, run);
        else
            memcpy((float *)y->data + at, sum + e, run * sizeof *sum);
    }
}

static void attend(Task *task) {
    const Attend *job = task->runner->job;
    begin(task);
    for (task->key = 0; task->key < job->keys; task->key += task->keys) {
        take_keys(task);
        if (block_is_hidden(task)) continue;
        if (task->few)
            few_scores(task);
        else if (task->bfloats)
            bfloat_scores(task);
        else
            many_scores(task);
        bool any = false;
        for (uint64_t r = 0; r < task->rows; r++) any = soften(task, r) || any;
        if (!any) continue;
        if (task->few)
            few_values(task);
        else if (task->bfloats)
            bfloat_values(task);
        else
            many_values(task);
    }
}

static bool has_nan(const float *x, uint64_t n) {
    bool any = false;
    for (uint64_t i = 0; i < n; i++) any |= x[i] != x[i];
    return any;
}

/* Rows that came out as NaN, perhaps by a value that they exclude, a second time. */
static void attend_again(const Task *task) {
    const uint64_t value = task->runner->job->value;
    for (uint64_t r = 0; r < task->rows; r++) {
        if (!has_nan(task->at.sums + r * value, value)) continue;
        Task alone = *task;
        alone.row += r;
        alone.rows = 1;
        alone.few = true;
        alone.bfloats = false;
        alone.at.q += r * task->runner->job->size;
        alone.at.scores += r * task->runner->score_row;
        alone.at.sums += r * value;
        alone.at.top += r;
        alone.at.total += r;
        attend(&alone);
    }
}

static void run_task(const Runner *runner, uint64_t n, unsigned lane) {
    float *memory = runner->memory + lane * runner->size;
    Task task = {.runner = runner};
    float **const buffers[] = {&task.at.q,      &task.at.scores, &task.at.sums,  &task.at.keys,
                               &task.at.values, &task.at.top,    &task.at.total, &task.at.weights};
    for (uint32_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        *buffers[i] = memory;
        memory += runner->sizes[i];
    }
    const uint64_t heads = runner->job->heads / runner->job->group;
    task.row = n % runner->blocks * runner->queries;
    task.rows = least(runner->rows - task.row, runner->queries);
    task.head = n / runner->blocks % heads;
    task.batch = n / runner->blocks / heads;
    task.few = runner->rows < FEW_ROWS;
    task.bfloats = runner->bfloats && !task.few;
    attend(&task);
    if (runner->job->excludes && !task.few) attend_again(&task);
    for (uint64_t r = 0; r < task.rows; r++) store(&task, r);
}

static void run_tasks(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    for (uint64_t n = first; n < end; n++) run_task(data, n, lane);
}

/* Queries of a block: many, as each packs its keys anew, but so that each thread has about two, or a few
 * tiles are all there is of one. */
static uint64_t query_block(const Runner *runner, uint64_t heads, unsigned threads) {
    const uint64_t tile = runner->isa->rows, tasks = threads > 1 ? 2 * threads : 1;
    const uint64_t blocks = (tasks + heads - 1) / heads;
    const uint64_t rows = rounded((runner->rows + blocks - 1) / blocks, tile);
    return least(least(rows > 2 * tile ? rows : 2 * tile, QUERIES), runner->rows);
}

static void size_buffers(Runner *runner) {
    const Attend *job = runner->job;
    runner->sizes[0] = runner->queries * job->size;
    runner->sizes[1] = runner->queries * runner->score_row;
    runner->sizes[2] = runner->queries * job->value;
    runner->sizes[3] = runner->keys * job->size;
    runner->sizes[4] = rounded(job->value, runner->width) * runner->keys;
    runner->sizes[5] = runner->sizes[6] = runner->queries;
    if (runner->bfloats) runner->sizes[7] = runner->sizes[1] / 2;
    for (uint32_t i = 0; i < sizeof runner->sizes / sizeof *runner->sizes; i++)
        runner->size += runner->sizes[i] = rounded(runner->sizes[i] + GEMM_SLACK, ALIGN);
}

static bool are_bfloats(const AttendOperand *k, const AttendOperand *v) {
    return k->narrow == DTYPE_BFLOAT16 && v->narrow == DTYPE_BFLOAT16;
}

static bool has_bfloats(const KernelCall *call, const Attend *job, IsaSet cpu) {
    return !call->faithful && igemm_has_bfloats(cpu) && job->q.narrow == DTYPE_BFLOAT16 &&
           are_bfloats(&job->k, &job->v) && (!job->past || are_bfloats(&job->k_past, &job->v_past));
}

bool attend_run_on(KernelCall *call, const Attend *job, IsaSet cpu) {
    Runner runner = {.job = job, .isa = gemm_isa(GEMM_FLOAT, cpu), .loops = gemm_loops(cpu)};
    if (!job->batches || !job->heads || !job->rows || !job->value) return true;
    const uint64_t heads = job->batches * (job->heads / job->group);
    const unsigned threads = kernel_threads(call);
    runner.rows = job->group * job->rows;
    runner.width = runner.isa->vecs * runner.isa->lanes;
    runner.keys = rounded(least(KEYS, job->keys + 1), runner.width);
    runner.score_row = rounded(runner.keys, QUICK_LANES);
    runner.queries = query_block(&runner, heads, threads);
    runner.blocks = (runner.rows + runner.queries - 1) / runner.queries;
    runner.bfloats = has_bfloats(call, job, cpu);
    size_buffers(&runner);
    runner.memory = kernel_workspace(call, threads * runner.size * sizeof(float));
    if (!runner.memory) return false;
    const double work =
        (double)(heads * runner.rows) * (double)job->keys * (double)(job->size + job->value);
    kernel_run_parts(call->workers, kernel_work_cut(call, work, heads * runner.blocks), run_tasks,
                     &runner);
    return true;
}

bool attend_run(KernelCall *call, const Attend *job) {
    return attend_run_on(call, job, isa_here());
}
