// SPDX-License-Identifier: Apache-2.0
/* The table and its door: order and versions, meeting of operands, and every function called with
 * random operands and hostile attributes: it must return, with dims no valid model lacks. */
#include "shape_case_test.h"

static const int64_t nasty[] = {0,  1,         2,         3,         -1,        -2,        7,
                                64, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 1LL << 40, -7};

static uint64_t random_next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint32_t random_below(uint64_t *state, uint32_t limit) {
    return (uint32_t)(random_next(state) >> 33) % limit;
}

static int64_t random_nasty(uint64_t *state) {
    return nasty[random_below(state, sizeof nasty / sizeof *nasty)];
}

static ShapeNum random_num(uint64_t *state, bool negative) {
    ShapeNum num = {.kind = SHAPE_UNKNOWN};
    uint32_t pick = random_below(state, 8);
    if (pick == 0) return num;
    num.kind = pick == 1 ? SHAPE_SYMBOL : SHAPE_KNOWN;
    num.value = pick == 1 ? random_below(state, 3) : random_nasty(state);
    if (pick > 5) num.value = random_below(state, 9);
    if (!negative && num.kind == SHAPE_KNOWN && num.value < 0) num.value = 4;
    return num;
}

static ShapeOperand random_operand(uint64_t *state, Arena *arena) {
    ShapeOperand operand = {.present = random_below(state, 12) != 0};
    operand.wrapped = random_below(state, 20) == 0;
    if (!operand.present || random_below(state, 10) == 0) return operand;
    operand.has_rank = true;
    bool vector = random_below(state, 3) == 0;
    operand.rank = vector ? 1 : random_below(state, 6);
    ShapeNum *dims = ARENA_ARRAY(arena, ShapeNum, operand.rank);
    for (uint32_t i = 0; i < operand.rank; i++) dims[i] = random_num(state, false);
    operand.dims = dims;
    uint64_t count = random_below(state, 6);
    if (vector)
        dims[0] = (ShapeNum){SHAPE_KNOWN, {(int64_t)count}};
    else if (!shape_count(&operand, &count) || count > 64)
        return operand;
    ShapeNum *items = ARENA_ARRAY(arena, ShapeNum, count);
    bool real = random_below(state, 4) == 0;
    for (uint64_t i = 0; i < count; i++) {
        items[i] = random_num(state, true);
        if (real) items[i] = (ShapeNum){.kind = SHAPE_REAL, .real = (double)items[i].value};
    }
    operand.items = items;
    operand.item_count = (uint32_t)count;
    operand.dtype = real ? DTYPE_FLOAT : random_below(state, 5) ? DTYPE_INT64 : DTYPE_INT8;
    return operand;
}

static void random_field(uint64_t *state, Arena *arena, char *attrs, const AttrField *field) {
    static const char *const equations[] = {"ij,jk->ik", "...i->i...", "i", "->", "..", "a->,"};
    void *place = attrs + field->offset;
    uint32_t count = random_below(state, 7);
    int64_t *ints = ARENA_ARRAY(arena, int64_t, count);
    float *floats = ARENA_ARRAY(arena, float, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        ints[i] = random_below(state, 2) ? random_nasty(state) : random_below(state, 4);
        floats[i] = (float)ints[i] / 4;
    }
    switch (field->kind) {
    case ATTR_FIELD_INT: *(int64_t *)place = random_nasty(state); break;
    case ATTR_FIELD_INTS: *(AttrInts *)place = (AttrInts){true, count, ints}; break;
    case ATTR_FIELD_FLOAT: *(AttrFloats *)place = (AttrFloats){true, 1, floats}; break;
    case ATTR_FIELD_FLOATS: *(AttrFloats *)place = (AttrFloats){true, count, floats}; break;
    case ATTR_FIELD_TEXT: {
        const char *text = equations[random_below(state, 6)];
        *(AttrText *)place = (AttrText){true, (uint32_t)strlen(text), text};
        break;
    }
    case ATTR_FIELD_CHOICE: *(int64_t *)place = (int64_t)random_below(state, 4) - 1; break;
    case ATTR_FIELD_TEXTS: *(AttrTexts *)place = (AttrTexts){true, count, NULL}; break;
    case ATTR_FIELD_TENSOR: {
        const ShapeOperand operand = random_operand(state, arena);
        ((AttrTensor *)place)->shape = arena_copy(arena, &operand, sizeof operand);
        break;
    }
    case ATTR_FIELD_REAL: *(float *)place = (float)random_nasty(state); break;
    case ATTR_FIELD_VALUES: break;
    }
}

static void check_output(const char *name, const ShapeOperand *output) {
    uint64_t count;
    if (!output->has_rank) {
        assert_null(output->items);
        return;
    }
    assert_in_range(output->rank, 0, SHAPE_RANK_LIMIT);
    for (uint32_t i = 0; i < output->rank; i++) {
        ShapeNum dim = output->dims[i];
        if (dim.kind == SHAPE_REAL || (dim.kind == SHAPE_KNOWN && dim.value < 0))
            fail_msg("%s gives dim %lld", name, (long long)dim.value);
    }
    if (!output->items) return;
    assert_true(shape_count(output, &count));
    assert_int_equal(count, output->item_count);
}

/* Some of the attributes that shapes depend on, or of the others. */
static void random_fields(uint64_t *state, Arena *arena, char *attrs, const ShapeRow *row,
                          bool shape) {
    for (const AttrField *field = row->layout->fields; field->name; field++)
        if (*field->name && attr_layout_is_shape(row->layout, field) == shape &&
            random_below(state, 3) == 0)
            random_field(state, arena, attrs, field);
}

static bool call_randomly(uint64_t *state, Arena *arena, const char *name, const ShapeRow *row) {
    ShapeOperand inputs[8], outputs[4];
    uint32_t input_count = random_below(state, 7), output_count = random_below(state, 5);
    char *attrs = attr_layout_new(row->layout, arena);
    random_fields(state, arena, attrs, row, true);
    for (uint32_t i = 0; i < input_count; i++) inputs[i] = random_operand(state, arena);
    for (uint32_t i = 0; i < output_count; i++)
        outputs[i] = (ShapeOperand){.present = random_below(state, 9) != 0};
    ShapeCall call = {.arena = arena,
                      .attrs = attrs,
                      .inputs = inputs,
                      .outputs = outputs,
                      .input_count = input_count,
                      .output_count = output_count,
                      .strict = output_count % 2};
    bool valid = shape_infer(row, &call);
    if (!valid) assert_true(call.reason[0]);
    for (uint32_t i = 0; i < output_count; i++) check_output(name, &outputs[i]);
    ShapeOperand again[4];
    memcpy(again, outputs, sizeof again);
    random_fields(state, arena, attrs, row, false);
    call.outputs = again;
    assert_int_equal(shape_infer(row, &call), valid);
    for (uint32_t i = 0; i < output_count; i++)
        if (!case_matches(&again[i], &outputs[i]))
            fail_msg("%s: an attribute behind VALUES changes output %u", name, i);
    return valid;
}

TEST(test_hostile) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    uint32_t valid = 0, calls = 0;
    for (int op = OP_NONE; op < OP_ID_COUNT; op++) {
        size_t count;
        const ShapeRow *rows = shape_rows((OpId)op, &count);
        for (size_t i = 0; i < count; i++) {
            for (int k = 0; k < 1500; k++, calls++)
                valid += call_randomly(&state, &test_arena, op_name((OpId)op), &rows[i]);
            arena_free(&test_arena);
        }
    }
    assert_in_range(valid, calls / 10, calls - calls / 10); /* both ways out are taken */
}

TEST(test_table) {
    for (int op = OP_NONE; op < OP_ID_COUNT; op++) {
        size_t count;
        const ShapeRow *rows = shape_rows((OpId)op, &count);
        for (size_t i = 1; i < count; i++)
            if (rows[i - 1].since >= rows[i].since)
                fail_msg("%s %d after %d", op_name((OpId)op), rows[i].since, rows[i - 1].since);
    }
    assert_null(shape_find("", "NoSuchOperator", 13));
    assert_null(shape_find("com.example", "Relu", 13));
    assert_null(shape_find("", "Resize", 9));
    assert_int_equal(shape_find("", "Resize", 10)->since, 10);
    assert_int_equal(shape_find("", "Resize", 12)->since, 11);
    assert_int_equal(shape_find("", "Slice", 9)->since, 1);
    assert_int_equal(shape_find("ai.onnx.ml", "TreeEnsemble", 5)->since, 5);
}

TEST(test_meet) {
    static const char *const rows[][3] = {
        {"2,N,3", "2,N,4", "2,N,?"},
        {"2,N", "2,N", "2,N"},
        {"N", "M", "?"},
        {"N", "3", "?"},
        {"2,3", "2", "*"},
        {"*", "2", "*"},
        {".", ".", "."},
        {"=1,2", "=1,3", "=1,?"},
        {"=1,2", "=1", "?"},
        {"=1,2", "2", "2"},
        {"0", "0", "0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ShapeOperand a = case_operand(&test_arena, rows[i][0]),
                     b = case_operand(&test_arena, rows[i][1]);
        ShapeOperand want = case_operand(&test_arena, rows[i][2]);
        ShapeOperand ab = shape_meet(&test_arena, &a, &b), ba = shape_meet(&test_arena, &b, &a);
        if (!case_matches(&ab, &want) || !case_matches(&ba, &want)) fail_msg("row %zu", i);
    }
}

/* Rank is bounded, however it grows. */
TEST(test_rank_limit) {
    ShapeNum *dims = ARENA_ARRAY(&test_arena, ShapeNum, SHAPE_RANK_LIMIT + 1);
    ShapeOperand inputs[2] = {{.present = true, .has_rank = true, .rank = 600, .dims = dims},
                              {.present = true, .has_rank = true, .rank = 600, .dims = dims}};
    ShapeOperand output = {.present = true};
    const ShapeRow *row = shape_find("", "Gather", 13);
    ShapeCall call = {.arena = &test_arena,
                      .attrs = attr_layout_new(row->layout, &test_arena),
                      .inputs = inputs,
                      .outputs = &output,
                      .input_count = 2,
                      .output_count = 1};
    assert_false(shape_infer(row, &call));
    assert_false(output.has_rank);
    inputs[0].rank = inputs[1].rank = 400;
    assert_true(shape_infer(row, &call));
    assert_int_equal(output.rank, 799);
    inputs[0].rank = SHAPE_RANK_LIMIT + 1;
    assert_false(shape_infer(row, &call));
}
