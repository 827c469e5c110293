// SPDX-License-Identifier: Apache-2.0
/* RNN, GRU and LSTM with every attribute: directions, layouts, activations, clip, lengths of the
 * sequences, initial states, peepholes, coupled gates, linear_before_reset. And com.microsoft's
 * DynamicQuantizeLSTM, whose weights are bytes (recurrent_bytes.h) and lie the other way round.
 *
 * A direction is one pass over the steps with the whole batch side by side. The backward direction
 * of a sequence begins at its own last element. Beyond a sequence's length Y is 0 and the state
 * stays. Sums of products are made in the data's type, in lanes.
 */
#include <math.h>
#include <string.h>

#include "checked.h"
#include "gemm.h"
#include "igemm.h"
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_math.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "kernel_rows.h"
#include "quick_rows.h"
#include "recurrent_bytes.h"
#include "recurrent_layer.h"
#include "split_product.h"

enum {
    DOT_ROWS = 16,
    DOT_CHUNK = 8, /* blocks of so many rows, in ascending order for whoever fetches ahead */
    /* Floats of recurrent weights that a processor's second-level cache keeps beside what else there is,
     * so that each step finds them there: half of 1 or 2 MiB. */
    CACHED_WEIGHTS = 1 << 18,
};

/* Weights packed, by direction; NULL: they are read as they are. The recurrent ones in two parts
 * where a step multiplies by them at two times, which a GRU does. */
typedef struct PackedWeights {
    const void *w[2], *r[2][2];
    bool bfloat; /* w are for split products */
} PackedWeights;

/* Weights of bytes: how they are packed, and one direction's of this call. */
typedef struct PackedBytes {
    ByteWeights w, r;
} PackedBytes;
typedef struct ByteMatrices {
    ByteMatrix w, r;
} ByteMatrices;

/* One direction. Pointers to reals are of the call's type, and NULL where the operand is absent. */
typedef struct Recurrent {
    RecurrentKind kind;
    uint64_t length, batch, input, hidden, directions;
    uint64_t width; /* gates * hidden */
    size_t element; /* bytes of a real */
    uint64_t direction;
    bool backward, batch_first;
    uint64_t step;   /* every other one reads the recurrent weights from their end on */
    bool couple;     /* LSTM: forget = 1 - input */
    bool bias_apart; /* GRU: the last gate's recurrent bias is added before the reset */
    double clip;     /* 0: none */
    GateActivation activations[3];
    const int64_t *lengths;       /* [batch], or NULL */
    const void *x;                /* of all directions, as is y */
    const void *w, *r, *bias, *p; /* [width][input], [width][hidden], [2 * width], [3 * hidden] */
    Dtype narrow;                 /* of r, where that is 16-bit floats: widened as they are read */
    const PackedWeights *packed;  /* NULL: nothing is */
    const PackedBytes *bytes;     /* NULL: weights are real */
    const ByteMatrices *matrices; /* of bytes, else NULL */
    void *y;
    void *space;    /* [batch][width], of a step */
    void *products; /* [length * batch][width]: all inputs times w, with biases; NULL: too many to
                       keep. A step's are overwritten by its gates */
    KernelCall *call;
    RunEnd *end; /* the call's; `own`: this is the run's own thread */
    bool own;
} Recurrent;

/* to[b * width + j] += row j of the matrix . vector b, of `count` elements each, first <= j < last
 */
typedef struct Dots {
    const void *matrix, *vectors;
    Dtype narrow;            /* of the matrix, else it is of the call's type */
    const void *packed;      /* those rows, or NULL */
    const ByteMatrix *bytes; /* all columns, or NULL */
    uint64_t count, vector_count, first, last;
    void *to;
} Dots;

/* What a step does between two times at which threads meet: a thread has units, gates [first, last) of which
 * meet the vectors, and then what follows from that. */
typedef struct GateProduct {
    uint64_t first, last;
    const void *vectors; /* [batch][hidden] */
    void *to;            /* [batch][width], added to */
} GateProduct;
typedef struct Phase Phase;
typedef void PhaseFunction(const Phase *phase, uint64_t first, uint64_t end); /* units */
struct Phase {
    const Recurrent *job;
    GateProduct products[2];
    unsigned count; /* of products */
    PhaseFunction *then;
    void *gates;      /* [batch][width] */
    const void *h;    /* [batch][hidden], the state before the step */
    void *next_h, *c; /* the one after it, and the cell, which becomes the one after it */
};

static uint64_t sequence_length(const Recurrent *job, uint64_t b) {
    return job->lengths ? (uint64_t)job->lengths[b] : job->length;
}

static bool recurrent_active(const Recurrent *job, uint64_t b, uint64_t s) {
    return s < sequence_length(job, b);
}

/* The time of sequence b at step s, which is active. */
static uint64_t recurrent_time(const Recurrent *job, uint64_t b, uint64_t s) {
    return job->backward ? sequence_length(job, b) - 1 - s : s;
}

static uint64_t recurrent_x(const Recurrent *job, uint64_t b, uint64_t s) {
    uint64_t t = recurrent_time(job, b, s);
    return (job->batch_first ? b * job->length + t : t * job->batch + b) * job->input;
}

static uint64_t recurrent_y(const Recurrent *job, uint64_t b, uint64_t s) {
    uint64_t t = recurrent_time(job, b, s), d = job->direction, n = job->directions;
    uint64_t row = job->batch_first ? (b * job->length + t) * n + d : (t * n + d) * job->batch + b;
    return row * job->hidden;
}

/* What rows of a matrix are multiplied by. */
typedef struct RowLoop {
    GemmVectorFunction *loop;
    size_t element; /* bytes of the matrix's */
} RowLoop;

static RowLoop row_loop(Dtype narrow) {
    const GemmLoops *loops = gemm_loops(isa_here());
    return (RowLoop){narrow == DTYPE_FLOAT16    ? loops->half_dots
                     : narrow == DTYPE_BFLOAT16 ? loops->bfloat_dots
                                                : loops->dots,
                     narrow ? sizeof(uint16_t) : sizeof(float)};
}

/* Rows from j on, at most so many, which stay in the first-level cache while all vectors meet them. */
static void dots_of_rows(const Recurrent *job, const Dots *dots, RowLoop rows, uint64_t j,
                         uint64_t most) {
    const uint64_t count = dots->last - j < most ? dots->last - j : most;
    for (uint64_t b = 0; b < dots->vector_count; b++)
        rows.loop((float *)dots->to + b * job->width + j,
                  (const char *)dots->matrix + j * dots->count * rows.element, dots->count,
                  (const float *)dots->vectors + b * dots->count, count, dots->count);
}

/* All of its rows, in the calling thread. Every other step goes through the chunks the other way round: what
 * the step before read last is still in a cache that has not room for all of them. */
static void add_rows_float(const Recurrent *job, const Dots *dots) {
    const RowLoop rows = row_loop(dots->narrow);
    const uint64_t most = DOT_CHUNK * DOT_ROWS, each = dots->vector_count == 1 ? most : DOT_ROWS;
    const uint64_t chunks = (dots->last - dots->first + most - 1) / most;
    for (uint64_t i = 0; i < chunks; i++) {
        const uint64_t begin = dots->first + (job->step % 2 ? chunks - 1 - i : i) * most;
        for (uint64_t j = begin; j < dots->last && j < begin + most; j += each)
            dots_of_rows(job, dots, rows, j, each);
    }
}

typedef struct DotsJob {
    const Recurrent *recurrent;
    const Dots *dots;
} DotsJob;

static void dots_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const DotsJob *job = data;
    Dots some = *job->dots;
    (void)lane;
    some.first = job->dots->first + first;
    some.last = job->dots->first + end;
    add_rows_float(job->recurrent, &some);
}

typedef struct Rows {
    const float *first;
    uint64_t width;
} Rows;

static void find_rows(const void *source, uint64_t first, uint32_t count, const void **to) {
    const Rows *rows = source;
    for (uint32_t i = 0; i < count; i++) to[i] = rows->first + (first + i) * rows->width;
}

/* The same by rows that are packed. */
static bool add_packed(const Recurrent *recurrent, const Dots *dots) {
    const Rows source = {dots->vectors, dots->count};
    float *to = (float *)dots->to + dots->first;
    const Epilogue onto = {.residual = to, .residual_row = recurrent->width};
    const Igemm product = {.rows = dots->vector_count,
                           .taps = 1,
                           .depth = dots->count,
                           .columns = dots->last - dots->first,
                           .find = find_rows,
                           .source = &source,
                           .weights = dots->packed,
                           .y = to,
                           .y_row = recurrent->width,
                           .epilogue = &onto};
    return igemm_run(recurrent->call, &product, isa_here());
}

static bool add_bytes(const Recurrent *recurrent, const Dots *dots) {
    const RecurrentProduct product = {dots->vectors, dots->vector_count, dots->to,
                                      recurrent->width};
    return byte_matrix_add(recurrent->call, dots->bytes, &product);
}

/* Of units, each with so many weights. Parts are whole where a thread's cache has not room for its own: what
 * another one takes comes from afar, and rows would not be read the other way round. */
static KernelCut cut_of_units(const Recurrent *job, uint64_t weights) {
    const uint64_t units = job->hidden, size = job->narrow ? sizeof(uint16_t) : job->element;
    const double work = (double)units * (double)weights * (double)job->batch;
    const unsigned threads =
        kernel_work_threads(job->call, work, (units + DOT_ROWS - 1) / DOT_ROWS);
    const bool fits = units * weights * size / threads <= CACHED_WEIGHTS * sizeof(float);
    KernelCut cut = kernel_cut(units, DOT_ROWS, threads, work);
    if (!fits) cut.chunk = 0;
    return cut;
}

static bool add_dots_float(const Recurrent *recurrent, const Dots *dots) {
    if (dots->bytes) return add_bytes(recurrent, dots);
    if (dots->packed) return add_packed(recurrent, dots);
    const DotsJob job = {recurrent, dots};
    const uint64_t rows = dots->last - dots->first, blocks = (rows + DOT_ROWS - 1) / DOT_ROWS;
    const double work = (double)rows * (double)dots->count * (double)dots->vector_count;
    KernelCut cut =
        kernel_cut(rows, DOT_ROWS, kernel_work_threads(recurrent->call, work, blocks), work);
    cut.chunk = 0;
    kernel_run_parts(recurrent->call->workers, cut, dots_part, &job);
    return true;
}

#include "real_float.inc"
#include "kernel_recurrent_body.inc"
#include "real_end.inc"
#include "real_double.inc"
#include "real_dot.inc"

KERNEL_CLONES
static void add_rows_double(const Recurrent *job, const Dots *dots) {
    const double *matrix = dots->matrix, *vectors = dots->vectors;
    for (uint64_t j = dots->first; j < dots->last; j++)
        for (uint64_t b = 0; b < dots->vector_count; b++)
            ((double *)dots->to)[b * job->width + j] +=
                dot_double(matrix + j * dots->count, vectors + b * dots->count, dots->count);
}

static bool add_dots_double(const Recurrent *job, const Dots *dots) {
    add_rows_double(job, dots);
    return true;
}

#include "kernel_recurrent_body.inc"
#include "real_end.inc"

/* ---- operands -------------------------------------------------------------------------------- */

static bool find_sizes(KernelCall *call, Recurrent *job) {
    RecurrentSizes sizes;
    if (!recurrent_sizes(call, job->kind, job->bytes != NULL, &sizes)) return false;
    job->directions = sizes.directions;
    job->batch_first = sizes.batch_first;
    job->length = sizes.length;
    job->batch = sizes.batch;
    job->input = sizes.input;
    job->hidden = sizes.hidden;
    job->width = sizes.width;
    return true;
}

static bool find_lengths(KernelCall *call, Recurrent *job) {
    const KernelTensor *lengths = kernel_input(call, 4);
    if (!lengths) return true;
    if (!kernel_want_count(call, lengths, job->batch, "sequence_lens")) return false;
    job->lengths = kernel_ints(call, lengths);
    for (uint64_t b = 0; job->lengths && b < job->batch; b++)
        if (job->lengths[b] < 0 || (uint64_t)job->lengths[b] > job->length)
            return kernel_fail(call, "a sequence of %lld in %llu steps", (long long)job->lengths[b],
                               (unsigned long long)job->length);
    return job->lengths != NULL;
}

/* Copies one direction's state between its array [batch][hidden] and a tensor's elements; where
 * `state` is NULL there is nothing to copy. */
static void move_state(const Recurrent *job, void *state, void *all, bool out) {
    size_t size = job->element;
    for (uint64_t b = 0; all && state && b < job->batch; b++) {
        uint64_t d = job->direction;
        uint64_t row = job->batch_first ? b * job->directions + d : d * job->batch + b;
        char *mine = (char *)state + b * job->hidden * size;
        char *theirs = (char *)all + row * job->hidden * size;
        memcpy(out ? theirs : mine, out ? mine : theirs, job->hidden * size);
    }
}

typedef struct RecurrentData {
    const void *w, *r, *bias, *p;
    void *first[2]; /* initial h and c, read only */
    void *last[2];
    GateActivation activations[6];
} RecurrentData;

static bool input_reals(KernelCall *call, uint32_t i, const void **data) {
    const KernelTensor *t = kernel_input(call, i);
    if (!t) return true;
    *data = kernel_reals(call, t, kernel_reals_dtype(call));
    return *data != NULL;
}

static bool output_reals(KernelCall *call, uint32_t i, uint64_t count, void **data) {
    const KernelTensor *t = kernel_result(call, i);
    if (!t) return true;
    if (!kernel_want_count(call, t, count, "an output")) return false;
    *data = kernel_reals_for(call, t, kernel_reals_dtype(call));
    return *data != NULL;
}

static bool find_data(KernelCall *call, Recurrent *job, RecurrentData *data) {
    uint64_t state = job->directions * job->batch * job->hidden;
    bool lstm = job->kind == RECURRENT_LSTM;
    const void *first[2] = {NULL, NULL};
    for (uint32_t i = 5; i < (lstm ? 7 : 6); i++)
        if (kernel_input(call, i) &&
            !kernel_want_count(call, &call->inputs[i], state, "an initial state"))
            return false;
    const PackedWeights *packed = job->packed; /* then the host keeps no others */
    const bool has_w = job->bytes || (packed && packed->w[0]);
    const bool has_r = job->bytes || (packed && packed->r[0][0]);
    job->narrow = has_r ? DTYPE_UNDEFINED : gemm_narrow(&call->inputs[2]);
    if (job->narrow) data->r = call->inputs[2].data;
    if (!input_reals(call, 0, &job->x) || (!has_w && !input_reals(call, 1, &data->w)) ||
        (!has_r && !job->narrow && !input_reals(call, 2, &data->r)) ||
        !input_reals(call, 3, &data->bias) || !input_reals(call, 5, &first[0]) ||
        (lstm && !input_reals(call, 6, &first[1])) || (lstm && !input_reals(call, 7, &data->p)))
        return false;
    data->first[0] = (void *)(uintptr_t)first[0];
    data->first[1] = (void *)(uintptr_t)first[1];
    return output_reals(call, 0, job->length * state, &job->y) &&
           output_reals(call, 1, state, &data->last[0]) &&
           (!lstm || output_reals(call, 2, state, &data->last[1]));
}

static const void *part(const void *all, uint64_t elements, size_t size) {
    return all ? (const char *)all + elements * size : NULL;
}

enum { PRODUCTS_MOST = 1 << 24 }; /* elements */

/* All inputs, if there is room for the products of all with w; else 0. */
static uint64_t inputs_at_once(const Recurrent *job) {
    uint64_t rows, count;
    const bool fits = job->element == sizeof(float) &&
                      checked_mul(job->length, job->batch, &rows) &&
                      checked_mul(rows, job->width, &count) && count <= PRODUCTS_MOST;
    return fits ? rows : 0;
}

static bool multiply_floats(KernelCall *call, const Recurrent *job, uint64_t rows,
                            float *products) {
    const bool packs = job->packed && !job->packed->bfloat;
    const Dots all = {.packed = packs ? job->packed->w[job->direction] : NULL,
                      .bytes = job->matrices ? &job->matrices->w : NULL,
                      .vectors = job->x,
                      .vector_count = rows,
                      .count = job->input,
                      .to = products,
                      .last = job->width};
    const GemmMatrices g = {.batches = 1,
                            .m = rows,
                            .n = job->width,
                            .k = job->input,
                            .a = {job->x, NULL, job->input, 1, DTYPE_UNDEFINED},
                            .b = {job->w, NULL, 1, job->input, DTYPE_UNDEFINED},
                            .c = products};
    const bool adds = all.packed || all.bytes;
    if (adds) memset(products, 0, rows * job->width * sizeof *products);
    return adds ? add_dots_float(job, &all) : gemm_matrices(call, &g);
}

/* By weights of bfloat16, and with biases. Where that gives NaN the weights are widened, and job->w is
 * set. */
static bool multiply_bfloat(KernelCall *call, Recurrent *job, uint64_t rows, float *products) {
    const float *bias = NULL;
    if (job->bias) {
        float *sums = ARENA_ARRAY(call->scratch, float, job->width); /* which are 0 */
        add_bias_float(job, sums);
        bias = sums;
    }
    const SplitProduct product = {.x = job->x,
                                  .rows = rows,
                                  .depth = job->input,
                                  .columns = job->width,
                                  .weights = job->packed->w[job->direction],
                                  .bias = bias,
                                  .y = products};
    bool sound;
    if (!split_product_run(call, &product, isa_here(), &sound)) return false;
    if (sound) return true;
    const KernelTensor *w = kernel_constant(call, 1);
    const float *wide = w ? kernel_reals(call, w, DTYPE_FLOAT) : NULL;
    job->w = part(wide, job->direction * job->width * job->input, sizeof *wide);
    return wide;
}

/* All inputs times w in one product, as far as there is room for that. */
static bool multiply_inputs(KernelCall *call, Recurrent *job) {
    const uint64_t rows = inputs_at_once(job), count = rows * job->width;
    const bool bfloat = job->packed && job->packed->bfloat;
    job->products = NULL;
    if (!rows) return !bfloat || kernel_fail(call, "its inputs' products do not fit memory");
    float *products = kernel_workspace(call, count * sizeof(float));
    if (!products) return false;
    job->products = products;
    job->w = bfloat ? NULL : job->w;
    if (bfloat && !multiply_bfloat(call, job, rows, products)) return false;
    if (bfloat && !job->w) return true;
    if (!multiply_floats(call, job, rows, products)) return false;
    for (uint64_t i = 0; job->bias && i < rows; i++) add_bias_float(job, products + i * job->width);
    return true;
}
/* The direction's weights of bytes. */
static bool begin_bytes(KernelCall *call, Recurrent *job, ByteMatrices *matrices) {
    const uint64_t rows = inputs_at_once(job);
    job->matrices = matrices;
    return byte_matrix_begin(call, &job->bytes->w, job->direction, rows ? rows : 1, &matrices->w) &&
           byte_matrix_begin(call, &job->bytes->r, job->direction, job->batch, &matrices->r);
}

/* A direction with its memory, ready for its steps. */
typedef struct Direction {
    Recurrent job;
    void *state[2], *spare; /* [batch][hidden], h and c; another h */
    void *gates;            /* [batch][width] */
    bool done;
} Direction;

/* [batch][hidden] of zeros, such that units of two threads are in cache lines of their own. NULL with the
 * error set past the memory budget. */
static void *new_state(KernelCall *call, const Recurrent *job) {
    uint64_t count, size;
    if (!checked_mul(job->batch, job->hidden, &count) || count > UINT64_MAX / 16) {
        kernel_fail(call, "a state is larger than the address space");
        return NULL;
    }
    size = count * job->element;
    void *state = kernel_workspace(call, size + 1);
    return state ? memset(state, 0, size) : NULL;
}

static bool begin_direction(KernelCall *call, Direction *direction, const RecurrentData *data,
                            uint64_t d) {
    Recurrent *job = &direction->job;
    const size_t size = job->element;
    const RecurrentAttrs *attrs = call->attrs;
    direction->gates = arena_array(call->scratch, job->batch * job->width, size);
    job->space = arena_array(call->scratch, job->batch * job->width, size);
    job->direction = d;
    job->backward = attrs->direction == 1 || d == 1;
    job->w = part(data->w, d * job->width * job->input, size);
    job->r = part(data->r, d * job->width * job->hidden, job->narrow ? sizeof(uint16_t) : size);
    job->bias = part(data->bias, d * 2 * job->width, size);
    job->p = part(data->p, d * 3 * job->hidden, size);
    memcpy(job->activations, &data->activations[3 * d], sizeof job->activations);
    for (uint32_t i = 0; i < (job->kind == RECURRENT_LSTM ? 2 : 1); i++) {
        if (!(direction->state[i] = new_state(call, job))) return false;
        move_state(job, direction->state[i], data->first[i], false);
    }
    if (!(direction->spare = new_state(call, job))) return false;
    if (job->bytes) {
        ByteMatrices *matrices = ARENA_NEW(call->scratch, ByteMatrices);
        if (!begin_bytes(call, job, matrices)) return false;
    }
    return multiply_inputs(call, job);
}

static bool run_steps(Direction *direction) {
    Recurrent *job = &direction->job;
    void *const *state = direction->state;
    return job->element == sizeof(float)
               ? run_direction_float(job, state, direction->spare, direction->gates)
               : run_direction_double(job, state, direction->spare, direction->gates);
}

static void end_direction(const Direction *direction, const RecurrentData *data) {
    for (int i = 0; i < 2; i++)
        move_state(&direction->job, direction->state[i], data->last[i], true);
}

/* Whether a thread is to have a direction for itself: threads that share each step meet at its end. Not where
 * one's cache has no room for a direction's weights, which two threads then read half of each, nor where a step
 * gains from more than two; and what a step does is to need no memory of the call's. */
static bool side_by_side(const KernelCall *call, const Recurrent *job) {
    const uint64_t rows = inputs_at_once(job);
    const double step = (double)job->width * (double)job->hidden * (double)job->batch;
    const bool plain = !job->bytes && !(job->packed && job->packed->r[0][0]) &&
                       job->width * job->hidden <= CACHED_WEIGHTS;
    return job->directions == 2 && plain && rows && rows * job->width <= PRODUCTS_MOST / 2 &&
           kernel_work_threads(call, step, job->width / DOT_ROWS) <= 2 &&
           kernel_work_threads(call, 2 * step * (double)job->length, 2) == 2;
}

static void run_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    Direction *const *directions = data;
    for (uint64_t d = first; d < end; d++) {
        directions[d]->job.own = lane == 0;
        directions[d]->done = run_steps(directions[d]);
    }
}

static bool run_side_by_side(KernelCall *call, const Recurrent *job, const RecurrentData *data) {
    KernelCall alone = *call;
    alone.workers = NULL;
    alone.end = NULL; /* lanes ask themselves */
    Direction both[2] = {{.job = *job}, {.job = *job}}, *const each[2] = {&both[0], &both[1]};
    for (uint64_t d = 0; d < 2; d++) {
        if (!begin_direction(call, &both[d], data, d)) return false;
        both[d].job.call = &alone;
    }
    kernel_run_parts(call->workers, (KernelCut){2, 1, 2, 0, 0}, run_part, each);
    for (int d = 0; d < 2; d++) end_direction(&both[d], data);
    return both[0].done && both[1].done;
}

static bool run_one_by_one(KernelCall *call, const Recurrent *job, const RecurrentData *data) {
    for (uint64_t d = 0; d < job->directions; d++) {
        Direction one = {.job = *job};
        if (!begin_direction(call, &one, data, d) || !run_steps(&one)) return false;
        end_direction(&one, data);
    }
    return true;
}

static bool recurrent(KernelCall *call, RecurrentKind kind, const PackedBytes *bytes) {
    const RecurrentAttrs *attrs = call->attrs;
    Recurrent job = {.kind = kind,
                     .call = call,
                     .end = call->end,
                     .own = true,
                     .packed = bytes ? NULL : call->prepared,
                     .bytes = bytes,
                     .couple = attrs->input_forget != 0,
                     .bias_apart = kind == RECURRENT_GRU && attrs->linear_before_reset != 0,
                     .clip = attrs->clip.count ? (double)attrs->clip.items[0] : 0};
    RecurrentData data = {.w = NULL};
    if (!find_sizes(call, &job) || !find_lengths(call, &job) || !find_data(call, &job, &data) ||
        !recurrent_activations(call, kind, job.directions, data.activations))
        return false;
    const size_t size = job.element = kernel_element_size(kernel_reals_dtype(call));
    if (job.y) memset(job.y, 0, job.length * job.directions * job.batch * job.hidden * size);
    if (!(side_by_side(call, &job) ? run_side_by_side : run_one_by_one)(call, &job, &data))
        return false;
    void *made[] = {job.y, data.last[0], data.last[1]};
    for (uint32_t i = 0; i < 3; i++)
        if (made[i]) kernel_reals_done(&call->outputs[i], made[i], kernel_reals_dtype(call));
    return true;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Which rows of one direction's weights: of all gates, of a GRU's first two, of its last. */
typedef enum WeightRows { ROWS_ALL, ROWS_GATES, ROWS_CANDIDATE } WeightRows;

/* A pack's variant. */
static uint64_t variant_of(uint64_t direction, WeightRows which) {
    return direction << 40 | (uint64_t)which << 32 | isa_here();
}

static IgemmWeights weight_rows(const KernelTensor *t, uint64_t direction, WeightRows which) {
    const uint64_t width = (uint64_t)t->dims[1], depth = (uint64_t)t->dims[2];
    const uint64_t first = which == ROWS_CANDIDATE ? width / 3 * 2 : 0;
    const uint64_t last = which == ROWS_GATES ? width / 3 * 2 : width;
    const float *data = t->data;
    if (data) data += (direction * width + first) * depth;
    return (IgemmWeights){.data = data,
                          .taps = 1,
                          .depth = depth,
                          .columns = last - first,
                          .row = 1,
                          .column = depth};
}

static bool pack_rows(KernelCall *call, const KernelPackJob *job) {
    const WeightRows which = (WeightRows)(job->variant >> 32 & 255);
    const IgemmWeights rows = weight_rows(job->from, job->variant >> 40, which);
    (void)call;
    igemm_pack(job->to, &rows, (IsaSet)job->variant);
    return true;
}

static const void *share_rows(KernelCall *call, uint32_t i, uint64_t direction, WeightRows which) {
    const KernelTensor *t = &call->inputs[i];
    const IgemmWeights rows = weight_rows(&(KernelTensor){.dims = t->dims}, direction, which);
    return kernel_share(call, i, pack_rows, variant_of(direction, which),
                        igemm_packed_size(&rows, isa_here()));
}

static bool is_matrices(const KernelCall *call, uint32_t i, uint64_t directions) {
    const KernelTensor *t = kernel_input(call, i);
    return t && kernel_is_constant(call, i) && t->dtype == DTYPE_FLOAT && t->rank == 3 &&
           (uint64_t)t->dims[0] == directions && t->count;
}

/* A single sequence reads rows as fast as they lie, with less to do before each step. */
static bool packs_states(const KernelCall *call) {
    const RecurrentAttrs *attrs = call->attrs;
    return call->inputs[0].dims[attrs->layout ? 0 : 1] > 1;
}

/* Of bfloat16, as the plan stores them, if all inputs are multiplied at once: a layout for both directions. */
static bool pack_bfloat(KernelCall *call, PackedWeights *packed, uint64_t directions) {
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1];
    const uint64_t rows = (uint64_t)x->dims[0] * (uint64_t)x->dims[1];
    const uint64_t width = (uint64_t)w->dims[1], depth = (uint64_t)w->dims[2];
    const IsaSet cpu = kernel_cpu(call);
    if (!split_product_suits(cpu, rows, depth) || rows > PRODUCTS_MOST / width) return false;
    const IgemmWeights weights = split_product_weights(depth, width);
    WeightLayout layout = igemm_layout(&weights, cpu);
    layout.groups = directions;
    layout.group = width * depth;
    const char *all = kernel_weights(call, 1, &layout);
    for (uint64_t d = 0; all && d < directions; d++)
        packed->w[d] = all + d * weight_layout_group(&layout);
    if (all) kernel_set_unread(call, 1);
    return packed->bfloat = all;
}

static void pack_inputs(KernelCall *call, PackedWeights *packed, uint64_t directions) {
    bool all = true;
    if (pack_bfloat(call, packed, directions)) return;
    for (uint64_t d = 0; d < directions; d++)
        all = (packed->w[d] = share_rows(call, 1, d, ROWS_ALL)) && all;
    if (all)
        kernel_set_unread(call, 1);
    else
        memset(packed->w, 0, sizeof packed->w);
}

static void pack_states(KernelCall *call, PackedWeights *packed, uint64_t directions) {
    const bool apart = call->inputs[2].dims[1] == 3 * call->inputs[2].dims[2]; /* a GRU's */
    bool all = true;
    for (uint64_t d = 0; d < directions; d++) {
        packed->r[d][0] = share_rows(call, 2, d, apart ? ROWS_GATES : ROWS_ALL);
        if (apart) packed->r[d][1] = share_rows(call, 2, d, ROWS_CANDIDATE);
        all = all && packed->r[d][0] && (!apart || packed->r[d][1]);
    }
    if (all)
        kernel_set_unread(call, 2);
    else
        memset(packed->r, 0, sizeof packed->r);
}

/* Faithful plans add in another order: the one that their results were always in. */
static KernelReady make_recurrent(KernelCall *call) {
    const RecurrentAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    const uint64_t directions = attrs->direction == 2 ? 2 : 1;
    const bool good = !call->faithful && x->dtype == DTYPE_FLOAT && x->rank == 3 &&
                      is_matrices(call, 1, directions) && is_matrices(call, 2, directions);
    if (!good) return KERNEL_READY;
    PackedWeights *packed = kernel_keep(call, sizeof *packed);
    call->prepared = packed;
    if (!packed) return KERNEL_READY;
    if (x->dims[0] > 1 || x->dims[1] > 1) pack_inputs(call, packed, directions);
    if (packs_states(call))
        pack_states(call, packed, directions);
    else if (call->inputs[2].count / directions > CACHED_WEIGHTS) /* half as many bytes of 16 bit */
        kernel_take_stored(call, 2);
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_recurrent = {make_recurrent, NULL, 0};

enum { BYTES_DEPTH_MOST = INT32_MAX / (UINT8_MAX * 128) }; /* so that sums are within int32 */

static KernelReady make_bytes(KernelCall *call) {
    const KernelTensor *w = &call->inputs[1], *r = &call->inputs[2];
    PackedBytes *bytes = kernel_keep(call, sizeof *bytes);
    if (!bytes) return KERNEL_DECLINED;
    call->prepared = bytes;
    if (w->rank != 3 || r->rank != 3 || w->dims[1] > BYTES_DEPTH_MOST ||
        r->dims[1] > BYTES_DEPTH_MOST) {
        kernel_fail(call, "weights do not have rank 3, or are too large for one unit");
        return KERNEL_FAILED;
    }
    bytes->w = (ByteWeights){.input = 1, .scale = 8, .zero = 9};
    bytes->r = (ByteWeights){.input = 2, .scale = 10, .zero = 11};
    byte_weights_make(call, &bytes->w, kernel_cpu(call));
    byte_weights_make(call, &bytes->r, kernel_cpu(call));
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_recurrent_bytes = {make_bytes, NULL, 0};

bool kernel_rnn(KernelCall *call) {
    return recurrent(call, RECURRENT_RNN, NULL);
}
bool kernel_gru(KernelCall *call) {
    return recurrent(call, RECURRENT_GRU, NULL);
}
bool kernel_lstm(KernelCall *call) {
    return recurrent(call, RECURRENT_LSTM, NULL);
}
bool kernel_dynamic_quantize_lstm(KernelCall *call) {
    return recurrent(call, RECURRENT_LSTM, call->prepared);
}
