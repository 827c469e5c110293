// SPDX-License-Identifier: Apache-2.0
/* External data through callbacks: read where no file is, written where no file may be, and as much of
 * it as one message of protobuf could not hold. */
#include <stdio.h>
#include <stdlib.h>

#include "demi.h"
#include "unit_test.h"
#include "wire_build.h"

enum { FLOAT = 1, EXTERNAL = 1 };

/* Element i of the weights, which lie nowhere. */
static float element(uint64_t i) {
    return (float)(i % 1021) / 8;
}

typedef struct Weights {
    uint64_t size; /* bytes */
    unsigned reads;
    bool fails;
} Weights;

static int64_t weights_size(void *user, const char *location) {
    const Weights *weights = user;
    return strcmp(location, "any/../where") == 0 ? (int64_t)weights->size : -1;
}

static bool weights_read(void *user, const char *location, uint64_t offset, void *buffer,
                         uint64_t size) {
    Weights *weights = user;
    assert_string_equal(location, "any/../where");
    assert_true(offset + size <= weights->size);
    __atomic_add_fetch(&weights->reads, 1, __ATOMIC_RELAXED);
    for (uint64_t i = 0; i < size; i++) {
        const float value = element((offset + i) / sizeof value);
        ((unsigned char *)buffer)[i] = ((const unsigned char *)&value)[(offset + i) % sizeof value];
        if ((offset + i) % sizeof value || size - i < sizeof value) continue;
        memcpy((char *)buffer + i, &value, sizeof value);
        i += sizeof value - 1;
    }
    return !weights->fails;
}

static void build_entry(Wire *tensor, const char *key, const char *value) {
    Wire entry = {.arena = tensor->arena};
    build_text(&entry, 1, key);
    build_text(&entry, 2, value);
    build_message(tensor, 13, &entry);
}

static void build_value(Wire *graph, uint32_t field, const char *name, int64_t columns) {
    Wire dims[2] = {{.arena = graph->arena}, {.arena = graph->arena}},
         shape = {.arena = graph->arena}, tensor = {.arena = graph->arena},
         type = {.arena = graph->arena}, value = {.arena = graph->arena};
    build_text(&dims[0], 2, "N");
    build_int(&dims[1], 1, (uint64_t)columns);
    for (int i = 0; i < 2; i++) build_message(&shape, 1, &dims[i]);
    build_int(&tensor, 1, FLOAT);
    build_message(&tensor, 2, &shape);
    build_message(&type, 1, &tensor);
    build_text(&value, 1, name);
    build_message(&value, 2, &type);
    build_message(graph, field, &value);
}

/* y = MatMul(x, w), w[rows, columns] being external. */
static Wire build_model(Arena *arena, int64_t rows, int64_t columns) {
    Wire node = {.arena = arena}, weight = {.arena = arena}, graph = {.arena = arena},
         opset = {.arena = arena}, model = {.arena = arena};
    build_text(&node, 1, "x");
    build_text(&node, 1, "w");
    build_text(&node, 2, "y");
    build_text(&node, 3, "product");
    build_text(&node, 4, "MatMul");
    build_int(&weight, 1, (uint64_t)rows);
    build_int(&weight, 1, (uint64_t)columns);
    build_int(&weight, 2, FLOAT);
    build_text(&weight, 8, "w");
    build_entry(&weight, "location", "any/../where");
    build_int(&weight, 14, EXTERNAL);
    build_message(&graph, 1, &node);
    build_text(&graph, 2, "g");
    build_message(&graph, 5, &weight);
    build_value(&graph, 11, "x", rows);
    build_value(&graph, 12, "y", columns);
    build_int(&opset, 2, 17);
    build_int(&model, 1, 8);
    build_message(&model, 7, &graph);
    build_message(&model, 8, &opset);
    return model;
}

static DemiStatus open_model(const Wire *bytes, Weights *weights, DemiModel **model,
                             DemiError *error) {
    DemiLoadOptions options = DEMI_LOAD_OPTIONS_INIT;
    options.data_size = weights_size;
    options.data_read = weights_read;
    options.data_user = weights;
    return demi_load_memory(bytes->items, bytes->count, &options, model, error);
}

/* What is written: the beginning is kept, the rest counted. */
typedef struct Written {
    uint64_t size, kept;
    unsigned char *bytes; /* [room] */
    uint64_t room;
    bool fails;
} Written;

static bool take(void *user, const void *bytes, size_t size) {
    Written *to = user;
    const uint64_t left = to->room - to->kept, now = size < left ? size : left;
    memcpy(to->bytes + to->kept, bytes, now);
    to->kept += now;
    to->size += size;
    return !to->fails;
}

/* The data that was written, given as files are. */
static int64_t written_size(void *user, const char *location) {
    return strcmp(location, "parts") == 0 ? (int64_t)((const Written *)user)->size : -1;
}
static bool written_read(void *user, const char *location, uint64_t offset, void *buffer,
                         uint64_t size) {
    (void)location;
    memcpy(buffer, ((const Written *)user)->bytes + offset, size);
    return true;
}

typedef struct Fixture {
    Arena arena;
    Wire bytes;
    Weights weights;
    Written model, data;
} Fixture;

static void begin(Fixture *f, int64_t rows, int64_t columns) {
    *f = (Fixture){0};
    arena_init(&f->arena, NULL);
    f->bytes = build_model(&f->arena, rows, columns);
    f->weights.size = (uint64_t)(rows * columns) * sizeof(float);
    f->model = (Written){.bytes = arena_alloc(&f->arena, 1 << 16), .room = 1 << 16};
    f->data = (Written){.bytes = arena_alloc(&f->arena, 1 << 16), .room = 1 << 16};
}

static DemiStatus save(Fixture *f, DemiModel *model, DemiError *error) {
    DemiSaveOptions options = DEMI_SAVE_OPTIONS_INIT;
    options.data_name = "parts";
    options.data = take;
    options.data_user = &f->data;
    return demi_save_callback(model, take, &f->model, &options, error);
}

/* Out and in again: the same model, of float16 weights, in two parts. */
TEST(test_round) {
    enum { ROWS = 40, COLUMNS = 70 };
    Fixture f;
    DemiModel *model = NULL, *again = NULL;
    DemiError error = DEMI_ERROR_INIT;
    begin(&f, ROWS, COLUMNS);
    assert_int_equal(open_model(&f.bytes, &f.weights, &model, &error), DEMI_OK);
    assert_int_equal(demi_convert(model, NULL, NULL, &error), DEMI_OK);
    assert_int_equal(save(&f, model, &error), DEMI_OK);
    assert_int_equal(f.data.size, ROWS * COLUMNS * 2);
    assert_true(f.weights.reads > 0);
    DemiLoadOptions options = DEMI_LOAD_OPTIONS_INIT;
    options.data_size = written_size;
    options.data_read = written_read;
    options.data_user = &f.data;
    assert_int_equal(demi_load_memory(f.model.bytes, f.model.size, &options, &again, &error),
                     DEMI_OK);
    Written texts[2] = {{.bytes = arena_alloc(&f.arena, 1 << 16), .room = 1 << 16},
                        {.bytes = arena_alloc(&f.arena, 1 << 16), .room = 1 << 16}};
    DemiModel *both[] = {model, again};
    for (int i = 0; i < 2; i++)
        assert_int_equal(demi_save_callback(both[i], take, &texts[i], NULL, &error), DEMI_OK);
    assert_int_equal(texts[0].size, texts[1].size);
    assert_memory_equal(texts[0].bytes, texts[1].bytes, texts[0].kept);
    demi_free(model);
    demi_free(again);
    arena_free(&f.arena);
}

TEST(test_failures) {
    Fixture f;
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    begin(&f, 40, 70);
    f.weights.size--;
    assert_int_equal(open_model(&f.bytes, &f.weights, &model, &error), DEMI_OK);
    assert_int_equal(demi_check(model, &error), DEMI_ERR_MODEL);
    demi_free(model);
    f.weights.size = UINT64_MAX; /* none */
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(open_model(&f.bytes, &f.weights, &model, &error), DEMI_ERR_MODEL);
    assert_string_equal(error.what,
                        "external data 'any/../where': the callback does not provide it");
    f.weights.size = 40 * 70 * sizeof(float);
    f.weights.fails = true;
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(open_model(&f.bytes, &f.weights, &model, &error), DEMI_OK);
    assert_int_equal(save(&f, model, &error), DEMI_ERR_ENV);
    assert_string_equal(error.what, "the callback that reads external data failed");
    f.weights.fails = false;
    f.data.fails = true;
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(save(&f, model, &error), DEMI_ERR_ENV);
    assert_string_equal(error.what, "the write callback failed");
    DemiSaveOptions options = DEMI_SAVE_OPTIONS_INIT;
    options.data_name = "parts";
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(demi_save_callback(model, take, &f.model, &options, &error), DEMI_ERR_USAGE);
    demi_free(model);
    arena_free(&f.arena);
}

/* More than 2 GB of weights, which fit neither a message nor this program's memory budget. */
TEST(test_large) {
#ifdef DEMI_SANITIZED
    enum { ROWS = 1 << 12 };
#else
    enum { ROWS = 600 << 10 };
#endif
    enum { COLUMNS = 1 << 10 };
    Fixture f;
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    begin(&f, ROWS, COLUMNS);
    assert_int_equal(open_model(&f.bytes, &f.weights, &model, &error), DEMI_OK);
    assert_int_equal(demi_convert(model, NULL, NULL, &error), DEMI_OK);
    assert_int_equal(save(&f, model, &error), DEMI_OK);
    assert_int_equal(f.data.size, (uint64_t)ROWS * COLUMNS * 2);
    const uint16_t *halves = (const uint16_t *)f.data.bytes;
    assert_int_equal(halves[8], 0x3c00); /* element 8 is 1 */
    assert_true(f.model.size < 1 << 16);
    demi_free(model);
    arena_free(&f.arena);
}
