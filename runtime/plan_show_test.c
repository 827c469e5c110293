// SPDX-License-Identifier: Apache-2.0
/* plan_show: a small plan of everything that has a form of its own, and its whole text. */
#include <string.h>

#include "attr_layout.h"
#include "kernel.h"
#include "plan.h"
#include "unit_test.h"

typedef struct Text {
    Arena *arena;
    VEC(char) chars;
} Text;

static void collect(void *data, const char *text, size_t size) {
    Text *to = data;
    for (size_t i = 0; i < size; i++) VEC_PUSH(to->arena, &to->chars, text[i]);
}

static bool collect_plan(void *data, const void *bytes, size_t size, Err *err) {
    (void)err;
    collect(data, bytes, size);
    return true;
}

static bool read_data(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    (void)err;
    memcpy(buffer, (const char *)data + offset, size);
    return true;
}

static uint32_t text_of(PlanBuilder *b, const char *text) {
    return plan_add_text(b, text, strlen(text));
}

static uint32_t add_value(PlanBuilder *b, const char *name, PlanKind kind, Dtype dtype) {
    PlanValue value = {.name = text_of(b, name),
                       .kind = (uint8_t)kind,
                       .dtype = (uint8_t)dtype,
                       .rank = PLAN_NONE,
                       .data = PLAN_NO_DATA};
    VEC_PUSH(b->arena, &b->values, value);
    return (uint32_t)b->values.count - 1;
}

static void set_dims(PlanBuilder *b, uint32_t value, const int64_t *dims, uint32_t rank) {
    b->values.items[value].rank = rank;
    b->values.items[value].dims = plan_add_numbers(b, dims, rank);
}

static PlanAttr attr_of(PlanBuilder *b, const char *name, PlainAttrKind kind, int64_t value,
                        uint32_t count) {
    return (PlanAttr){.name = text_of(b, name), .kind = kind, .count = count, .value = value};
}

static void fill(PlanBuilder *b) {
    static float floats[] = {1.5f, -2, 1e30f};
    static uint32_t texts[2];
    static char many[80];
    const int64_t open[] = {-2 - (int64_t)text_of(b, "N"), -1, 3}, three = 3, two = 2, much = 20;
    uint32_t x = add_value(b, "x", PLAN_TENSOR, DTYPE_FLOAT);
    set_dims(b, x, open, 3);
    uint32_t s = add_value(b, "s\"\n", PLAN_OPTIONAL_SEQUENCE, DTYPE_INT64);
    uint32_t w = add_value(b, "w", PLAN_TENSOR, DTYPE_FLOAT);
    set_dims(b, w, &three, 1);
    plan_set_data(b, w, sizeof floats, read_data, floats);
    uint32_t names = add_value(b, "names", PLAN_TENSOR, DTYPE_STRING);
    set_dims(b, names, &two, 1);
    texts[0] = text_of(b, "one"), texts[1] = text_of(b, "t\"wo");
    plan_set_data(b, names, sizeof texts, read_data, texts);
    uint32_t big = add_value(b, "big", PLAN_TENSOR, DTYPE_FLOAT);
    set_dims(b, big, &much, 1);
    plan_set_data(b, big, sizeof many / 2, read_data, many);
    b->values.items[big].stored = DTYPE_FLOAT16;
    uint32_t y = add_value(b, "y", PLAN_TENSOR, DTYPE_FLOAT), z = add_value(b, "z", 0, DTYPE_BOOL);
    const int64_t axes[] = {0, -1};
    const float scales[] = {0.5f, 2};
    float alpha = 0.1f;
    uint32_t bits;
    memcpy(&bits, &alpha, sizeof bits);
    PlanAttr attrs[] = {attr_of(b, "axes", PLAIN_INTS, plan_add_numbers(b, axes, 2), 2),
                        attr_of(b, "scales", PLAIN_FLOATS, plan_add_floats(b, scales, 2), 2),
                        attr_of(b, "alpha", PLAIN_FLOAT, bits, 0),
                        attr_of(b, "mode", PLAIN_TEXT, text_of(b, "linear"), 0),
                        attr_of(b, "value", PLAIN_TENSOR, w, 0),
                        attr_of(b, "body", PLAIN_GRAPH, 1, 0)};
    PlanStep step = {.op = plan_add_op(b, "demi.test", "Op", 7),
                     .name = text_of(b, "/node"),
                     .inputs = plan_add_operands(b, (uint32_t[]){x, PLAN_NONE, big}, 3),
                     .outputs = plan_add_operands(b, (uint32_t[]){y, PLAN_NONE}, 2),
                     .attrs = {0, 6}};
    PlanStep inner = {.op = plan_add_op(b, "", "Not", 1),
                      .name = text_of(b, "z"),
                      .inputs = plan_add_operands(b, &x, 1),
                      .outputs = plan_add_operands(b, &z, 1)};
    for (size_t i = 0; i < 6; i++) VEC_PUSH(b->arena, &b->attrs, attrs[i]);
    VEC_PUSH(b->arena, &b->steps, step);
    VEC_PUSH(b->arena, &b->steps, inner);
    PlanGraph outer = {.name = text_of(b, "g"),
                       .steps = {0, 1},
                       .inputs = plan_add_operands(b, (uint32_t[]){x, s}, 2),
                       .defaults = plan_add_operands(b, (uint32_t[]){w, PLAN_NONE}, 2),
                       .outputs = plan_add_operands(b, &y, 1)};
    PlanGraph body = {
        .name = text_of(b, "body"), .steps = {1, 1}, .outputs = plan_add_operands(b, &z, 1)};
    VEC_PUSH(b->arena, &b->graphs, outer);
    VEC_PUSH(b->arena, &b->graphs, body);
    static const PlanChoice choices[] = {
        {0, 2, 2, 0, 0, 7}, {0, 1, 0, 1, 0, 255}, {1, 0, 0, 1, 0, 1}, {1, 255, 255, 0, 0, 2}};
    for (size_t i = 0; i < 4; i++) VEC_PUSH(b->arena, &b->choices, choices[i]);
    b->tuned = PLAN_ISA_AVX2;
    b->threads = 3;
}

static const char expected[] =
    "plan version 5, faithful, 7 values, 2 steps, 2 graphs, 192 bytes of constants\n"
    "tuned on avx2 for 3 threads: 4 choices\n"
    "source 00000000000000010000000000000002\n"
    "values\n"
    "    %0 \"x\" float[N,?,3]\n"
    "    %1 \"s\\\"\\u000a\" optional sequence of int64\n"
    "    %2 \"w\" float[3] = {1.5, -2, 1.00000002e+30}\n"
    "    %3 \"names\" string[2] = {\"one\", \"t\\\"wo\"}\n"
    "    %4 \"big\" float[20], stored as float16 = 40 bytes at 128\n"
    "    %5 \"y\" float\n"
    "    %6 \"z\" bool\n"
    "graph 0 \"g\" (%0, %1) => (%5)\n"
    "    default of %0: %2\n"
    "    %5, _ = demi.test.Op-7(%0, _, %4) \"/node\"\n"
    "      axes = [0, -1]\n"
    "      scales = [0.5, 2]\n"
    "      alpha = 0.100000001f\n"
    "      mode = \"linear\"\n"
    "      value = %2\n"
    "      body = graph 1\n"
    "      chosen for 0000000000000007: kernel 1, choice 2\n"
    "      chosen for 00000000000000ff: kernel 0, choice 0, one thread\n"
    "graph 1 \"body\" () => (%6)\n"
    "    %6 = Not-1(%0) \"z\"\n"
    "      chosen for 0000000000000001: one thread\n"
    "      chosen for 0000000000000002: kernel 254, choice 255\n";

TEST(test_text) {
    PlanBuilder builder;
    Err err = {0};
    Text bytes = {.arena = &test_arena}, text = {.arena = &test_arena};
    plan_builder_init(&builder, &test_arena);
    builder.source[0] = 1, builder.source[1] = 2;
    builder.numerics = PLAN_FAITHFUL;
    fill(&builder);
    assert_true(plan_write(&builder, collect_plan, &bytes, &err));
    Plan plan;
    bool ok = plan_check(&plan, bytes.chars.items, bytes.chars.count, &test_arena, &err);
    assert_string_equal(err.what, "");
    assert_true(ok);
    PlanSink sink = {collect, &text};
    plan_show(&plan, &sink);
    VEC_PUSH(&test_arena, &text.chars, '\0');
    assert_string_equal(text.chars.items, expected);
}
