// SPDX-License-Identifier: Apache-2.0
/* Attention in blocks, on every instruction set that this machine has, beside a plain computation
 * in double: shapes about the sizes of blocks and tiles, operands in any order of axes and type,
 * masks that broadcast, hide whole rows or whole blocks, keys and values in two places, values that are NaN
 * where nobody looks. */
#include <math.h>

#include "attend.h"
#include "kernel_case_test.h"

enum { AXES = 4, MOST = 1 << 20, CASES = 300 };

static uint32_t seed;

static uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}
static float draw_real(void) {
    return (float)draw(2001) / 1000 - 1;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* A tensor of (batch, heads, rows, size) whose axes lie in some order. */
typedef struct Side {
    uint64_t dims[AXES], steps[AXES], count;
    float *wide; /* what the elements are, as float */
    AttendOperand at;
} Side;

static Side make_side(Arena *arena, const uint64_t dims[AXES], bool shuffled) {
    Side side = {.count = 1};
    uint32_t order[AXES] = {0, 1, 2, 3};
    for (uint32_t i = AXES; shuffled && i-- > 1;) {
        uint32_t k = draw(i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    for (uint32_t i = AXES; i-- > 0;) {
        side.dims[order[i]] = dims[order[i]];
        side.steps[order[i]] = dims[order[i]] == 1 ? 0 : side.count;
        side.count *= dims[order[i]];
    }
    if (dims[3] == 1) side.steps[3] = 1;
    assert_true(side.count < MOST);
    side.wide = ARENA_ARRAY(arena, float, side.count + 16);
    for (uint64_t i = 0; i < side.count; i++) side.wide[i] = draw_real();
    side.at = (AttendOperand){.data = side.wide,
                              .batch = side.steps[0],
                              .head = side.steps[1],
                              .row = side.steps[2],
                              .element = side.steps[3]};
    return side;
}

static void narrow_side(Arena *arena, Side *side, Dtype narrow) {
    if (!narrow) return;
    uint16_t *data = ARENA_ARRAY(arena, uint16_t, side->count + 16);
    if (narrow == DTYPE_FLOAT16) {
        half_convert_from_float(data, side->wide, side->count);
        half_convert_to_float(side->wide, data, side->count);
    } else {
        bfloat_convert_from_float(data, side->wide, side->count);
        bfloat_convert_to_float(side->wide, data, side->count);
    }
    side->at.data = data;
    side->at.narrow = narrow;
}

static float *element(const Side *side, const uint64_t at[AXES]) {
    uint64_t i = 0;
    for (uint32_t k = 0; k < AXES; k++) i += at[k] * side->steps[k];
    return &side->wide[i];
}

/* ---- masks ----------------------------------------------------------------------------------- */

typedef struct Band {
    uint64_t first, width, shift, keys;
} Band;

/* Keys that move along with the query; some see none. */
static void band_range(const void *context, uint64_t batch, uint64_t row, uint64_t range[2]) {
    const Band *band = context;
    range[0] = band->first + (row + batch) * band->shift;
    range[1] = range[0] + band->width;
    if (range[1] > band->keys) range[1] = band->keys;
    if (range[0] > range[1]) range[0] = range[1];
}

static AttendMask make_mask(Arena *arena, const Attend *job, bool bytes, int hidden) {
    const uint64_t want[] = {job->batches, job->heads, job->rows, job->keys};
    uint64_t steps[AXES], count = 1;
    for (uint32_t i = AXES; i-- > 0;) {
        bool whole = want[i] > 1 && draw(3);
        steps[i] = whole ? count : 0;
        count *= whole ? want[i] : 1;
    }
    assert_true(count < MOST);
    char *data = arena_alloc(arena, (count + 16) * sizeof(float));
    for (uint64_t i = 0; i < count; i++) {
        bool hides = hidden == 1 ? draw(3) == 0 : hidden == 2 ? i % 300 < 200 : false;
        if (bytes)
            data[i] = !hides;
        else
            ((float *)(void *)data)[i] = hides ? -INFINITY : draw_real();
    }
    return (AttendMask){data, steps[0], steps[1], steps[2], steps[3]};
}

static uint64_t mask_index(const AttendMask *mask, const uint64_t at[AXES]) {
    return at[0] * mask->batch + at[1] * mask->head + at[2] * mask->row + at[3] * mask->key;
}

/* ---- plainly --------------------------------------------------------------------------------- */

static double plain_score(const Attend *job, const Side sides[3], const uint64_t at[AXES]) {
    double sum = 0;
    for (uint64_t d = 0; d < job->size; d++)
        sum += (double)*element(&sides[0], (uint64_t[]){at[0], at[1], at[2], d}) *
               (double)*element(&sides[1],
                                (uint64_t[]){at[0], at[1] / job->group / job->k_share, at[3], d});
    sum *= (double)job->scale;
    if (job->softcap > 0) sum = (double)job->softcap * tanh(sum / (double)job->softcap);
    uint64_t range[2] = {0, job->keys};
    if (job->range) job->range(job->context, at[0], at[2], range);
    if (at[3] < range[0] || at[3] >= range[1]) return -INFINITY;
    if (job->keep.data && !((const uint8_t *)job->keep.data)[mask_index(&job->keep, at)])
        sum = (double)job->fill;
    if (!job->bias.data) return sum;
    float bias = ((const float *)job->bias.data)[mask_index(&job->bias, at)];
    if (bias == -INFINITY) return -INFINITY;
    return sum == (double)job->fill ? (double)(job->fill + bias) : sum + (double)bias; /* rounded */
}

/* One query's result into y[value]. */
static void plain_query(const Attend *job, const Side sides[3], const uint64_t query[3],
                        double *score, double *y) {
    double top = -INFINITY, sum = 0;
    uint64_t at[AXES] = {query[0], query[1], query[2], 0};
    for (; at[3] < job->keys; at[3]++) {
        score[at[3]] = plain_score(job, sides, at);
        if (score[at[3]] > top) top = score[at[3]];
    }
    for (uint64_t j = 0; j < job->keys; j++)
        sum += score[j] = top == -INFINITY ? 0 : exp(score[j] - top);
    for (uint64_t e = 0; e < job->value; e++) {
        y[e] = 0;
        for (uint64_t j = 0; j < job->keys; j++) {
            if (job->excludes && score[j] == 0) continue;
            uint64_t place[] = {query[0], query[1] / job->group / job->v_share, j, e};
            y[e] += score[j] * (double)*element(&sides[2], place);
        }
        if (sum > 0) y[e] /= sum;
        if (job->keys && sum == 0) y[e] = job->excludes ? 0 : NAN;
    }
}

static void compare(const Attend *job, const Side sides[3], const Side *y, double slack) {
    double score[512], want[128];
    assert_true(job->keys <= 512 && job->value <= 128);
    for (uint64_t n = 0; n < job->batches * job->heads * job->rows; n++) {
        const uint64_t at[] = {n / job->rows / job->heads, n / job->rows % job->heads,
                               n % job->rows};
        plain_query(job, sides, at, score, want);
        for (uint64_t e = 0; e < job->value; e++) {
            double have = (double)*element(y, (uint64_t[]){at[0], at[1], at[2], e});
            if (isnan(want[e]) ? !isnan(have) : !(fabs(have - want[e]) <= slack))
                fail_msg("query %llu, element %llu: %g, not %g", (unsigned long long)n,
                         (unsigned long long)e, have, want[e]);
        }
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const uint64_t some_rows[] = {1, 1, 2, 3, 5, 31, 67},
                      some_keys[] = {1, 7, 127, 128, 160, 300}, some_sizes[] = {1, 4, 17, 64},
                      some_values[] = {1, 8, 48, 70};
static const Dtype some_types[] = {DTYPE_UNDEFINED, DTYPE_UNDEFINED, DTYPE_FLOAT16, DTYPE_BFLOAT16};

#define PICK(list) list[draw(sizeof list / sizeof *list)]

/* NaN where nobody may look: keys and values that a mask of bytes for all queries hides. */
static void spoil_hidden(Arena *arena, Attend *job, Side sides[3]) {
    uint8_t *seen = arena_alloc(arena, job->keys);
    for (uint64_t j = 0; j < job->keys; j++) seen[j] = draw(4) != 0;
    for (uint64_t n = 0; n < sides[2].dims[0] * sides[2].dims[1] * job->keys; n++) {
        const uint64_t j = n % job->keys, h = n / job->keys % sides[2].dims[1],
                       b = n / job->keys / sides[2].dims[1];
        if (seen[j]) continue;
        *element(&sides[1], (uint64_t[]){b, job->k_share > 1 ? 0 : h, j, 0}) = NAN;
        *element(&sides[2], (uint64_t[]){b, h, j, draw((uint32_t)job->value)}) = NAN;
    }
    job->keep = (AttendMask){.data = seen, .key = job->keys > 1};
    job->fill = -INFINITY;
}

static void mask_case(Arena *arena, Attend *job, const Band *band) {
    if (draw(2)) {
        const float fills[] = {-INFINITY, -1e4F, -3.4028234e38F, 0.25F};
        job->keep = make_mask(arena, job, true, 1 + (int)draw(2));
        job->fill = PICK(fills);
    }
    if (draw(2)) job->bias = make_mask(arena, job, false, (int)draw(3));
    if (draw(4) == 0) job->range = band_range;
    job->context = band;
}

/* The first keys and values are in another place, perhaps of another type. */
static void cut_past(Attend *job, const Side sides[3]) {
    AttendOperand *const now[] = {&job->k, &job->v}, *const past[] = {&job->k_past, &job->v_past};
    job->past = draw((uint32_t)job->keys + 1);
    for (uint32_t i = 0; i < 2; i++) {
        const AttendOperand all = *past[i] = *now[i];
        const uint64_t skipped =
            job->past * all.row * (all.narrow ? sizeof(uint16_t) : sizeof(float));
        now[i]->data = (char *)all.data + skipped;
        if (draw(3)) continue;
        past[i]->data = sides[i + 1].wide;
        past[i]->narrow = DTYPE_UNDEFINED;
    }
}

static void run_case(KernelCase *c, IsaSet cpu) {
    Arena *arena = &c->arena;
    const uint64_t batches = 1 + draw(2), groups = 1 + draw(2), keys = PICK(some_keys);
    Attend job = {.batches = batches, .rows = PICK(some_rows), .keys = keys, .group = 1 + draw(3)};
    job.heads = groups * job.group;
    job.k_share = draw(2) ? groups : 1;
    job.v_share = draw(2) ? groups : 1;
    job.size = PICK(some_sizes);
    job.value = PICK(some_values);
    job.scale = (1 + (float)draw(8)) / 8;
    job.softcap = draw(4) ? 0 : 2;
    job.excludes = draw(2);
    const bool shuffled = draw(2);
    Side sides[] = {
        make_side(arena, (uint64_t[]){batches, job.heads, job.rows, job.size}, shuffled),
        make_side(arena, (uint64_t[]){draw(3) ? batches : 1, groups / job.k_share, keys, job.size},
                  shuffled),
        make_side(arena, (uint64_t[]){draw(3) ? batches : 1, groups / job.v_share, keys, job.value},
                  shuffled)};
    Side y = make_side(arena, (uint64_t[]){batches, job.heads, job.rows, job.value}, shuffled);
    const Band band = {draw(200), 1 + draw(200), draw(3), keys};
    if (job.excludes && draw(2) && sides[1].dims[0] == batches && sides[2].dims[0] == batches)
        spoil_hidden(arena, &job, sides);
    else
        mask_case(arena, &job, &band);
    const bool all = draw(3) == 0;
    bool bfloats = true;
    for (uint32_t i = 0; i < 3; i++) {
        narrow_side(arena, &sides[i], all ? DTYPE_BFLOAT16 : PICK(some_types));
        bfloats = bfloats && sides[i].at.narrow == DTYPE_BFLOAT16;
    }
    c->call.faithful = bfloats && draw(4) == 0;
    Dtype to = PICK(some_types);
    narrow_side(arena, &y, to);
    job.q = sides[0].at;
    job.k = sides[1].at;
    job.v = sides[2].at;
    job.y = y.at;
    if (draw(2)) cut_past(&job, sides);
    assert_true(attend_run_on(&c->call, &job, cpu));
    if (to == DTYPE_FLOAT16) half_convert_to_float(y.wide, y.at.data, y.count);
    if (to == DTYPE_BFLOAT16) bfloat_convert_to_float(y.wide, y.at.data, y.count);
    /* weights of values below 1 may be rounded to 8 bits */
    const double rounding = bfloats && !c->call.faithful ? 0x1p-9 : 0;
    compare(&job, sides, &y, rounding + (to == DTYPE_BFLOAT16 ? 8e-3 : to ? 1e-3 : 1e-5));
}

TEST(test_random_cases) {
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_runs(isa, isa_here())) continue;
        seed = 1;
        for (int i = 0; i < CASES; i += case_step()) {
            KernelCase c;
            case_begin(&c, "Attention", 23);
            run_case(&c, isa_needs(isa));
            case_end(&c);
        }
    }
}

/* ---- what is large --------------------------------------------------------------------------- */

/* Scores that leave exp's range one way and the other, the largest in the last block. */
TEST(test_wide_scores) {
    enum { KEYS = 300 };
    for (uint64_t rows = 1; rows <= 9; rows += 8) {
        KernelCase c;
        case_begin(&c, "Attention", 23);
        const uint64_t q[] = {1, 1, rows, 1}, k[] = {1, 1, KEYS, 1}, v[] = {1, 1, KEYS, 2};
        Side sides[] = {make_side(&c.arena, q, false), make_side(&c.arena, k, false),
                        make_side(&c.arena, v, false)};
        const uint64_t out[] = {1, 1, rows, 2};
        Side y = make_side(&c.arena, out, false);
        for (uint64_t r = 0; r < rows; r++) sides[0].wide[r] = r % 2 ? -1 : 1;
        for (uint64_t j = 0; j < KEYS; j++) sides[1].wide[j] = (float)j * 3 - 450;
        Attend job = {.batches = 1,
                      .heads = 1,
                      .rows = rows,
                      .keys = KEYS,
                      .size = 1,
                      .value = 2,
                      .group = 1,
                      .k_share = 1,
                      .v_share = 1,
                      .scale = 1,
                      .q = sides[0].at,
                      .k = sides[1].at,
                      .v = sides[2].at,
                      .y = y.at};
        assert_true(attend_run(&c.call, &job));
        compare(&job, sides, &y, 1e-5);
        sides[1].wide[130] = NAN; /* which all see, now */
        assert_true(attend_run(&c.call, &job));
        for (uint64_t i = 0; i < 2 * rows; i++) assert_true(isnan(y.wide[i]));
        case_end(&c);
    }
}

/* No keys: sums of nothing. */
TEST(test_no_keys) {
    KernelCase c;
    case_begin(&c, "Attention", 23);
    const uint64_t out[] = {1, 2, 3, 4};
    Side q = make_side(&c.arena, out, false), y = make_side(&c.arena, out, false);
    Attend job = {.batches = 1,
                  .heads = 2,
                  .rows = 3,
                  .size = 4,
                  .value = 4,
                  .group = 1,
                  .k_share = 1,
                  .v_share = 1,
                  .scale = 1,
                  .q = q.at,
                  .k = q.at,
                  .v = q.at,
                  .y = y.at};
    assert_true(attend_run(&c.call, &job));
    for (uint64_t i = 0; i < y.count; i++) assert_true(y.wide[i] == 0);
    case_end(&c);
}

static uint64_t asked;
static void *count_workspace(KernelCall *call, uint64_t size) {
    asked = size;
    return arena_alloc(call->scratch, size);
}

/* Memory does not grow with the square of the context, nor with its length. */
TEST(test_long_context) {
    uint64_t before = 0;
    for (uint64_t rows = 2048; rows <= 4096; rows *= 2) {
        KernelCase c;
        case_begin(&c, "Attention", 23);
        c.host.workspace = count_workspace;
        const uint64_t dims[] = {1, 1, rows, 8};
        Side x = make_side(&c.arena, dims, false), y = make_side(&c.arena, dims, false);
        for (uint64_t i = 0; i < x.count; i++) x.wide[i] = 0.5F;
        Attend job = {.batches = 1,
                      .heads = 1,
                      .rows = rows,
                      .keys = rows,
                      .size = 8,
                      .value = 8,
                      .group = 1,
                      .k_share = 1,
                      .v_share = 1,
                      .scale = 1,
                      .q = x.at,
                      .k = x.at,
                      .v = x.at,
                      .y = y.at};
        assert_true(attend_run(&c.call, &job));
        for (uint64_t i = 0; i < y.count; i++) assert_true(fabsf(y.wide[i] - 0.5F) < 1e-5F);
        assert_true(before == 0 || asked == before);
        before = asked;
        case_end(&c);
    }
}

/* Threads change nothing. */
TEST(test_threads) {
    KernelCase c;
    case_begin(&c, "Attention", 23);
    const uint64_t dims[] = {2, 4, 150, 16};
    Side x = make_side(&c.arena, dims, true), one = make_side(&c.arena, dims, false),
         many = make_side(&c.arena, dims, false);
    Attend job = {.batches = 2,
                  .heads = 4,
                  .rows = 150,
                  .keys = 150,
                  .size = 16,
                  .value = 16,
                  .group = 1,
                  .k_share = 1,
                  .v_share = 1,
                  .scale = 1,
                  .q = x.at,
                  .k = x.at,
                  .v = x.at,
                  .y = one.at};
    assert_true(attend_run(&c.call, &job));
    c.call.workers = workers_new(&c.arena, 4);
    job.y = many.at;
    assert_true(attend_run(&c.call, &job));
    compare(&job, (const Side[]){x, x, x}, &one, 1e-5); /* blocks of many queries */
    assert_memory_equal(one.wide, many.wide, one.count * sizeof(float));
    case_end(&c);
}
