// SPDX-License-Identifier: Apache-2.0
/* Broadcasting plans against an element-by-element walk over random shapes; shapes that do not fit;
 * alignments before version 7; ranks and sizes at the edges. */
#include "kernel_case_test.h"

#include "kernel_broadcast.h"
#include "kernel_rows.h"

enum { MOST_RANK = 6 };

static uint32_t random_number(uint32_t *state, uint32_t below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

/* Where the operand's element for the output's element `at` lies. */
static uint64_t naive_place(const KernelTensor *out, const KernelTensor *in, uint64_t at,
                            uint32_t trailing) {
    uint64_t place = 0, stride = 1;
    for (uint32_t k = out->rank; k-- > 0;) {
        uint64_t index = at % (uint64_t)out->dims[k];
        at /= (uint64_t)out->dims[k];
        uint32_t first = out->rank - in->rank - trailing;
        if (k < first || k >= first + in->rank) continue;
        int64_t dim = in->dims[k - first];
        place += dim == 1 ? 0 : index * stride;
        stride *= (uint64_t)dim;
    }
    return place;
}

static void check_add(KernelCase *c, uint32_t trailing) {
    const KernelTensor *a = &c->inputs[0], *b = &c->inputs[1], *out = &c->outputs[0];
    assert_true(case_run(c));
    for (uint64_t i = 0; i < out->count; i++) {
        int32_t x = ((const int32_t *)a->data)[naive_place(out, a, i, 0)];
        int32_t y = ((const int32_t *)b->data)[naive_place(out, b, i, trailing)];
        assert_int_equal(((const int32_t *)out->data)[i], x + y);
    }
}

static void number(KernelTensor *tensor, int32_t base) {
    for (uint64_t i = 0; i < tensor->count; i++) ((int32_t *)tensor->data)[i] = base + (int32_t)i;
}

TEST(test_random) {
    uint32_t seed = 7;
    for (int round = 0; round < 4000; round++) {
        int64_t out[MOST_RANK], dims[2][MOST_RANK];
        uint32_t rank = random_number(&seed, MOST_RANK + 1), ranks[2];
        for (uint32_t k = 0; k < rank; k++) out[k] = 1 + (int64_t)random_number(&seed, 4);
        if (rank && random_number(&seed, 20) == 0) out[0] = 0;
        KernelCase c;
        case_begin(&c, "Add", 14);
        for (int i = 0; i < 2; i++) {
            ranks[i] = i == 0 ? rank : random_number(&seed, rank + 1);
            for (uint32_t k = 0; k < ranks[i]; k++) {
                bool repeat = random_number(&seed, 3) == 0;
                dims[i][k] = repeat ? 1 : out[rank - ranks[i] + k];
            }
            case_in(&c, DTYPE_INT32, ranks[i], dims[i], NULL);
            number(&c.inputs[i], i ? 1000000 : 0);
        }
        case_out(&c, DTYPE_INT32, rank, out);
        check_add(&c, 0);
        case_end(&c);
    }
}

/* Rows that see the same row, some of which are joined, and a rest; of one tile and of several. */
TEST(test_short_rows) {
    const int64_t columns[] = {2, 3, 8, 31, 200, 512, 1023, 1500}, rows[] = {2, 5, 129, 1100};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
            for (uint32_t tiles = 1; tiles <= 3; tiles++) {
                const int64_t a[] = {tiles, rows[j], columns[i]}, b[] = {tiles, 1, columns[i]};
                KernelCase c;
                case_begin(&c, "Add", 14);
                case_in(&c, DTYPE_INT32, 3, a, NULL);
                case_in(&c, DTYPE_INT32, 3, b, NULL);
                number(&c.inputs[0], 0);
                number(&c.inputs[1], 10000000);
                case_out(&c, DTYPE_INT32, 3, a);
                check_add(&c, 0);
                case_end(&c);
            }
        }
    }
}

TEST(test_before_version_7) {
    const int64_t a[] = {2, 3, 4, 5}, b[] = {3, 4};
    for (int64_t axis = -3; axis <= 3; axis++) {
        KernelCase c;
        case_begin(&c, "Add", 6);
        case_int(&c, "axis", axis);
        case_int(&c, "broadcast", 1);
        case_in(&c, DTYPE_INT32, 4, a, NULL);
        case_in(&c, DTYPE_INT32, 2, b, NULL);
        case_out(&c, DTYPE_INT32, 4, a);
        number(&c.inputs[0], 0);
        number(&c.inputs[1], 1000000);
        if (axis == 1 || axis == -3)
            check_add(&c, 1);
        else
            assert_false(case_run(&c));
        case_end(&c);
    }
}

static void refuse(const int64_t *a, uint32_t a_rank, const int64_t *b, uint32_t b_rank) {
    KernelCase c;
    case_begin(&c, "Add", 14);
    case_in(&c, DTYPE_INT32, a_rank, a, NULL);
    case_in(&c, DTYPE_INT32, b_rank, b, NULL);
    case_out(&c, DTYPE_INT32, a_rank, a);
    assert_false(case_run(&c));
    case_end(&c);
}

TEST(test_refusals) {
    refuse(CASE_DIMS(2, 3), 2, CASE_DIMS(2), 1);
    refuse(CASE_DIMS(3), 1, CASE_DIMS(1, 3), 2);
    refuse(CASE_DIMS(0), 1, CASE_DIMS(2), 1);
    refuse(CASE_DIMS(1), 1, CASE_DIMS(0), 1);
    KernelCase c; /* inputs of two types; a result of another */
    case_begin(&c, "Add", 14);
    case_in(&c, DTYPE_INT32, 0, NULL, NULL);
    case_in(&c, DTYPE_INT64, 0, NULL, NULL);
    case_out(&c, DTYPE_INT32, 0, NULL);
    assert_false(case_run(&c));
    c.inputs[1].dtype = DTYPE_INT32;
    assert_true(case_run(&c));
    c.outputs[0].dtype = DTYPE_INT8;
    assert_false(case_run(&c));
    c.outputs[0].dtype = DTYPE_INT32;
    c.call.input_count = 1;
    assert_false(case_run(&c));
    case_end(&c);
}

TEST(test_high_rank) {
    enum { RANK = 1000 };
    int64_t a[RANK], b[RANK];
    for (uint32_t k = 0; k < RANK; k++) a[k] = k % 100 == 7 ? 2 : 1, b[k] = k % 200 == 7 ? 2 : 1;
    KernelCase c;
    case_begin(&c, "Add", 14);
    case_in(&c, DTYPE_INT32, RANK, a, NULL);
    case_in(&c, DTYPE_INT32, RANK, b, NULL);
    case_out(&c, DTYPE_INT32, RANK, a);
    number(&c.inputs[0], 0);
    number(&c.inputs[1], 5000);
    check_add(&c, 0);
    case_end(&c);
}
