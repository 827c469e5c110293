// SPDX-License-Identifier: Apache-2.0
/* plan_fold: a cast to float of 16-bit constants costs a plan nothing; what only folded steps read
 * is gone, and does not count against the bound of what they may make. */
#include "plan_make_test.h"

#include "attr_layout.h"
#include "half.h"

enum { ROWS = 512, COLUMNS = 1024, COUNT = ROWS * COLUMNS, CHAIN = 12 };

static uint16_t halves[COUNT];
static float two = 2;

typedef struct Bench {
    Arena arena;
    PlanBuilder b;
    Err err;
} Bench;

static void begin(Bench *t) {
    memset(t, 0, sizeof *t);
    arena_init(&t->arena, &test_trap);
    plan_builder_init(&t->b, &t->arena);
    for (int i = 0; i < COUNT; i++) halves[i] = half_from_float((float)(i % 100));
}

static const int64_t open[] = {-1, -1}, square[] = {ROWS, COLUMNS};

static uint32_t add_constant(PlanBuilder *b) {
    uint32_t value = add_value(b, "c", DTYPE_FLOAT16, square, 2);
    plan_set_data(b, value, sizeof halves, read_memory, halves);
    return value;
}

/* A cast of `value`, its own dims unknown. */
static uint32_t add_cast(PlanBuilder *b, uint32_t value, Dtype to) {
    uint32_t result = add_value(b, "cast", to, open, 2);
    const PlanAttr attr = {.name = plan_add_text(b, "to", 2), .kind = PLAIN_INT, .value = to};
    VEC_PUSH(b->arena, &b->attrs, attr);
    add_step(b, "Cast", one(b, value), one(b, result), (PlanSpan){(uint32_t)b->attrs.count - 1, 1});
    return result;
}

static uint32_t add_binary(PlanBuilder *b, const char *op, uint32_t x, uint32_t y) {
    uint32_t result = add_value(b, op, b->values.items[x].dtype, open, 2);
    add_step(b, op, plan_add_operands(b, (uint32_t[]){x, y}, 2), one(b, result), (PlanSpan){0});
    return result;
}

static void add_graph(PlanBuilder *b, uint32_t x, const uint32_t *outputs, uint32_t count) {
    PlanGraph graph = {.inputs = one(b, x),
                       .outputs = plan_add_operands(b, outputs, count),
                       .steps = {0, (uint32_t)b->steps.count}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

/* Operand i of step s. */
static const PlanValue *operand(const PlanBuilder *b, uint32_t s, uint32_t i) {
    return &b->values.items[b->operands.items[b->steps.items[s].inputs.first + i]];
}

/* x + cast, of the constant as it is, and of what is computed with it: the cast is the constant. */
TEST(test_casts_share) {
    Bench t;
    begin(&t);
    PlanBuilder *b = &t.b;
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, open, 2), c = add_constant(b);
    uint32_t low = add_value(b, "low", DTYPE_FLOAT16, open, 2);
    uint32_t number = add_value(b, "two", DTYPE_FLOAT, NULL, 0);
    plan_set_data(b, number, sizeof two, read_memory, &two);
    uint32_t wide = add_cast(b, c, DTYPE_FLOAT);
    uint32_t doubled =
        add_cast(b, add_cast(b, add_binary(b, "Mul", wide, number), DTYPE_FLOAT16), DTYPE_FLOAT);
    uint32_t y[] = {add_binary(b, "Add", x, wide), add_binary(b, "Add", x, doubled), 0};
    add_step(b, "Neg", one(b, c), one(b, low), (PlanSpan){0});
    y[2] = add_cast(b, low, DTYPE_FLOAT);
    add_graph(b, x, y, 3);
    if (!plan_fold(b, &t.err)) fail_msg("%s", t.err.what);
    assert_int_equal(b->steps.count, 2);
    for (uint32_t s = 0; s < 2; s++) {
        const PlanValue *value = operand(b, s, 1);
        assert_int_equal(value->dtype, DTYPE_FLOAT);
        assert_int_equal(value->stored, DTYPE_FLOAT16);
        assert_int_equal(value->size, sizeof halves);
        assert_int_equal(value->rank, 2);
        assert_int_equal(b->numbers.items[value->dims + 1], COLUMNS);
    }
    assert_int_equal(b->data_size, 3 * sizeof halves); /* c, 2 c and -c */
    uint16_t first[3];
    const PlanConstant *data = b->constants.items;
    for (size_t i = 0; i < b->constants.count; i++)
        if (data[i].offset == operand(b, 1, 1)->data)
            assert_true(data[i].read(data[i].data, 0, first, sizeof first, &t.err));
    assert_int_equal(first[1], half_from_float(2));
    assert_int_equal(first[2], half_from_float(4));
    arena_free(&t.arena);
}

/* Each link of a chain is as large as the constant: together they are far beyond the bound. */
TEST(test_chain) {
    Bench t;
    begin(&t);
    PlanBuilder *b = &t.b;
    uint32_t x = add_value(b, "x", DTYPE_FLOAT16, open, 2), last = add_constant(b);
    for (int i = 0; i < CHAIN; i++) {
        uint32_t next = add_value(b, "n", DTYPE_FLOAT16, open, 2);
        add_step(b, "Neg", one(b, last), one(b, next), (PlanSpan){0});
        last = next;
    }
    uint32_t y = add_binary(b, "Add", x, last);
    add_graph(b, x, &y, 1);
    if (!plan_fold(b, &t.err)) fail_msg("%s", t.err.what);
    assert_int_equal(b->steps.count, 1);
    assert_int_equal(b->data_size, sizeof halves);
    arena_free(&t.arena);
}

/* The determinant of a constant, as what it takes is at most its elements' number squared. */
static void fold_det(int64_t side, bool folds) {
    static float elements[1024 * 1024];
    Bench t;
    begin(&t);
    PlanBuilder *b = &t.b;
    const int64_t dims[] = {side, side};
    for (int64_t i = 0; i < side; i++) elements[i * side + i] = 1;
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, NULL, 0),
             c = add_value(b, "c", DTYPE_FLOAT, dims, 2);
    uint32_t det = add_value(b, "d", DTYPE_FLOAT, NULL, 0);
    plan_set_data(b, c, (uint64_t)(side * side) * sizeof *elements, read_memory, elements);
    add_step(b, "Det", one(b, c), one(b, det), (PlanSpan){0});
    uint32_t y = add_binary(b, "Add", x, det);
    add_graph(b, x, &y, 1);
    if (!plan_fold(b, &t.err)) fail_msg("%s", t.err.what);
    assert_int_equal(b->steps.count, folds ? 1 : 2);
    arena_free(&t.arena);
    memset(elements, 0, sizeof elements);
}

/* However small a model is, making its plan takes seconds at most. */
TEST(test_work_is_bounded) {
    fold_det(64, true);
    fold_det(1024, false);
}

/* What training draws differs from run to run; an input's default is read though a step that reads it is
 * folded. */
TEST(test_what_stays) {
    static unsigned char yes = 1;
    Bench t;
    begin(&t);
    PlanBuilder *b = &t.b;
    uint32_t x = add_value(b, "x", DTYPE_FLOAT16, open, 2), c = add_constant(b);
    uint32_t number = add_value(b, "two", DTYPE_FLOAT, NULL, 0);
    uint32_t trains = add_value(b, "trains", DTYPE_BOOL, NULL, 0);
    plan_set_data(b, number, sizeof two, read_memory, &two);
    plan_set_data(b, trains, 1, read_memory, &yes);
    uint32_t negative = add_value(b, "n", DTYPE_FLOAT16, open, 2);
    uint32_t y[] = {0, add_value(b, "dropped", DTYPE_FLOAT, NULL, 0)};
    add_step(b, "Neg", one(b, c), one(b, negative), (PlanSpan){0});
    y[0] = add_binary(b, "Add", x, negative);
    add_step(b, "Dropout", plan_add_operands(b, (uint32_t[]){number, PLAN_NONE, trains}, 3),
             one(b, y[1]), (PlanSpan){0});
    add_graph(b, x, y, 2);
    b->graphs.items[0].defaults = one(b, c);
    if (!plan_fold(b, &t.err)) fail_msg("%s", t.err.what);
    assert_int_equal(b->steps.count, 2);            /* Add and Dropout */
    assert_true(b->data_size >= 2 * sizeof halves); /* c and -c */
    arena_free(&t.arena);
}

/* The attribute of a step that is folded names a value whose number another one has then, here that of
 * weights: they are packed all the same. */
TEST(test_attributes_of_folded_steps) {
    static const int64_t sizes[] = {2, 1};
    static float seven = 7, weights[64 * 64];
    const int64_t one_item[] = {1}, two_items[] = {2}, side[] = {64, 64};
    Bench t;
    begin(&t);
    PlanBuilder *b = &t.b;
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, open, 2);
    uint32_t shape = add_value(b, "shape", DTYPE_INT64, two_items, 1);
    uint32_t value = add_value(b, "value", DTYPE_FLOAT, one_item, 1);
    uint32_t filled = add_value(b, "filled", DTYPE_FLOAT, open, 2);
    uint32_t w = add_value(b, "w", DTYPE_FLOAT, side, 2);
    plan_set_data(b, shape, sizeof sizes, read_memory, (void *)(uintptr_t)sizes);
    plan_set_data(b, value, sizeof seven, read_memory, &seven);
    plan_set_data(b, w, sizeof weights, read_memory, weights);
    const PlanAttr attr = {
        .name = plan_add_text(b, "value", 5), .kind = PLAIN_TENSOR, .value = value};
    VEC_PUSH(b->arena, &b->attrs, attr);
    add_step(b, "ConstantOfShape", one(b, shape), one(b, filled), (PlanSpan){0, 1});
    uint32_t product = add_binary(b, "MatMul", x, w), y = add_binary(b, "Add", product, filled);
    add_graph(b, x, &y, 1);
    if (!plan_fold(b, &t.err)) fail_msg("%s", t.err.what);
    assert_int_equal(b->steps.count, 2);
    assert_true(operand(b, 0, 1) == &b->values.items[value]); /* the weights */
    b->isa = PLAN_ISA_PORTABLE;
    if (!plan_pack(b, &t.err)) fail_msg("%s", t.err.what);
    assert_true(b->packs.count > 0);
    arena_free(&t.arena);
}

/* Steps are executed a part after the other: of as many as make several, what each gives is there, and a chain
 * through all of them is one. */
TEST(test_many_steps) {
    enum { MANY = 5000 };
    Bench t;
    begin(&t);
    PlanBuilder *b = &t.b;
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, NULL, 0);
    uint32_t number = add_value(b, "two", DTYPE_FLOAT, NULL, 0), sum = number;
    uint32_t *y = ARENA_ARRAY(b->arena, uint32_t, MANY + 1);
    plan_set_data(b, number, sizeof two, read_memory, &two);
    for (uint32_t i = 0; i <= MANY; i++) {
        static float numbers[MANY + 1];
        const bool chained = i > MANY / 2; /* then each reads what the one before gave */
        uint32_t other = add_value(b, "c", DTYPE_FLOAT, NULL, 0);
        numbers[i] = chained ? 1 : (float)i;
        plan_set_data(b, other, sizeof *numbers, read_memory, &numbers[i]);
        const uint32_t operands[] = {chained ? sum : number, other};
        sum = add_value(b, "sum", DTYPE_FLOAT, NULL, 0);
        add_step(b, "Add", plan_add_operands(b, operands, 2), one(b, sum), (PlanSpan){0});
        y[i] = add_binary(b, "Mul", x, sum);
    }
    add_graph(b, x, y, MANY + 1);
    if (!plan_fold(b, &t.err)) fail_msg("%s", t.err.what);
    assert_int_equal(b->steps.count, MANY + 1);
    for (uint32_t i = 0; i <= MANY; i++) {
        float found;
        const PlanConstant *data = plan_constant_of(b, operand(b, i, 1));
        assert_true(data->read(data->data, 0, &found, sizeof found, &t.err));
        assert_true(found == (float)(i > MANY / 2 ? MANY / 2 + 2 + (i - MANY / 2) : i + 2));
    }
    arena_free(&t.arena);
}
