// SPDX-License-Identifier: Apache-2.0
/* Rows that say KERNEL_INPLACE: with output 0 in the memory of an input of its dims and dtype, they
 * give the bits that they give apart; for every type that they take, and other operands of several
 * shapes. */
#include "kernel_case_test.h"

enum { MOST_ELEMENTS = 60, SHAPES = 6 };

static const struct {
    uint32_t rank;
    int64_t dims[3];
} shapes[SHAPES] = {{3, {3, 4, 5}}, {0, {0}},       {1, {5}},
                    {2, {4, 1}},    {3, {3, 1, 5}}, {3, {1, 1, 1}}};

/* Bits that are numbers of the dtype, the same each time for one seed. */
static void fill(KernelTensor *tensor, uint64_t seed) {
    size_t size = kernel_element_size(tensor->dtype);
    memset(tensor->data, 0, tensor->count * size);
    for (uint64_t i = 0; i < tensor->count; i++) {
        double value =
            (double)((i * 7 + seed * 5) % 23) - (dtype_is_float(tensor->dtype) ? 9.5 : 3);
        if (tensor->dtype == DTYPE_BOOL)
            ((uint8_t *)tensor->data)[i] = (i * 7 + seed) % 3 == 0;
        else if (tensor->dtype != DTYPE_STRING)
            kernel_set_real(tensor, i, value);
    }
}

/* The dtypes of the inputs for a type of 'A', by the signature; how many there are, 0 for none
 * such. */
static uint32_t read_inputs(OpId op, const KernelRow *row, Dtype a, Dtype *dtypes) {
    uint32_t count = 0;
    for (const char *at = kernel_signature_find(op_domain(op), op_name(op), row->since); *at != '>';
         at++) {
        if (*at == ':') continue;
        dtypes[count++] = *at >= 'a' && *at <= 'z' ? (Dtype)(*at - 'a') : a;
    }
    return count;
}

typedef struct Try {
    OpId op;
    const KernelRow *row;
    Dtype dtypes[8];
    uint32_t count;
    uint32_t place; /* the input that output 0 lies in */
    int other;      /* the shape of the other inputs */
    int64_t dims[3];
    uint32_t rank;
} Try;

/* Runs a try apart or in place; the bytes of the result go to `result`. */
static bool run(const Try *t, bool in_place, unsigned char *result) {
    KernelCase c;
    case_begin_in(&c, op_domain(t->op), op_name(t->op), t->row->since);
    c.call.row = t->row;
    for (uint32_t i = 0; i < t->count; i++) {
        bool large = i == t->place;
        case_in(&c, t->dtypes[i], large ? t->rank : shapes[t->other].rank,
                large ? t->dims : shapes[t->other].dims, NULL);
        fill(&c.inputs[i], i);
    }
    case_out(&c, t->dtypes[t->place], t->rank, t->dims);
    if (in_place) c.outputs[0].data = c.inputs[t->place].data;
    if (t->row->layout == &op_attrs_broadcast) case_int(&c, "broadcast", 1);
    if (attr_layout_find(t->row->layout, "direction", 9)) case_text(&c, "direction", "LEFT");
    bool ok = case_run(&c);
    if (ok)
        memcpy(result, c.outputs[0].data,
               c.outputs[0].count * kernel_element_size(c.outputs[0].dtype));
    case_end(&c);
    return ok;
}

static bool compare(const Try *t) {
    static unsigned char apart[MOST_ELEMENTS * 16], together[MOST_ELEMENTS * 16];
    memset(apart, 0, sizeof apart);
    memset(together, 0, sizeof together);
    if (!run(t, false, apart)) return false;
    assert_true(run(t, true, together));
    if (memcmp(apart, together, sizeof apart) != 0)
        fail_msg("%s of %s over input %u, others of shape %d: another result in place",
                 op_name(t->op), dtype_name(t->dtypes[t->place]), t->place, t->other);
    return true;
}

static uint32_t try_row(OpId op, const KernelRow *row, Dtype dtype) {
    uint32_t done = 0;
    Try t = {.op = op, .row = row};
    t.count = read_inputs(op, row, dtype, t.dtypes);
    for (t.place = 0; t.place < t.count; t.place++)
        for (t.other = 0; t.other < SHAPES; t.other++)
            for (int small = 0; small < 2; small++) {
                int shape = small ? SHAPES - 1 : 0;
                t.rank = shapes[shape].rank;
                memcpy(t.dims, shapes[shape].dims, sizeof t.dims);
                done += compare(&t);
            }
    return done;
}

static bool try_types(OpId op, const KernelRow *row) {
    uint32_t done = 0;
    for (Dtype dtype = 1; dtype < DTYPE_COUNT; dtype++)
        if (row->types >> dtype & 1 && kernel_element_size(dtype)) done += try_row(op, row, dtype);
    return done > 0;
}

TEST(test_in_place) {
    uint32_t tried = 0;
    for (int op = OP_NONE; op < OP_ID_COUNT; op++) {
        size_t count;
        const KernelRow *rows = kernel_rows((OpId)op, &count);
        for (size_t i = 0; i < count; i++) {
            if (!(rows[i].flags & KERNEL_INPLACE)) continue;
            if (!try_types((OpId)op, &rows[i]))
                fail_msg("%s since %d never ran", op_name((OpId)op), rows[i].since);
            tried++;
        }
    }
    assert_true(tried > 60);
}
