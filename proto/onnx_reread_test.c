// SPDX-License-Identifier: Apache-2.0
/* Reading back in parts: a file of many parts equals the model it was written from, and nothing
 * that differs in any of them goes unseen. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "model_save.h"
#include "onnx_import.h"
#include "test_folder.h"
#include "test_model.h"

enum { REPEATS = 4000 }; /* a chain; every tenth node is an If whose branches capture */

typedef struct Fixture {
    Model *model;
    char path[64];
} Fixture;

/* Nodes, constants, subgraphs and value_info entries: more than one part of each. */
static Model *make(void) {
    char *text = NULL, name[32];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fprintf(out, TEST_HEADER "g (float[N] y0, bool b) => (float[N] y%d)\n<float[N] y1",
            REPEATS - 1);
    for (int i = 1; i < REPEATS; i++) fprintf(out, ", float[1] c%d = {%d}", i, i);
    fprintf(out, ">\n{\n");
    for (int i = 1; i < REPEATS; i++)
        fprintf(out,
                i % 10 ? "[n%1$d] y%1$d = Sub(y%2$d, c%1$d)\n"
                       : "[n%1$d] y%1$d = If(b) <"
                         "else_branch = e () => (float[N] z%1$d) { z%1$d = Abs(y%2$d) }, "
                         "then_branch = t () => (float[N] u%1$d) { u%1$d = Neg(c%1$d) }>\n",
                i, i - 1);
    fprintf(out, "}\n");
    fclose(out);
    Err err = {0};
    Model *model = text_parse_model(text, size, &test_trap, &err);
    free(text);
    if (!model) fail_msg("%s", err.what);
    for (int i = 1; i < REPEATS; i += 7) {
        snprintf(name, sizeof name, "y%d", i);
        value_add_info(test_value(model->graph, name));
    }
    return model;
}

static int setup(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_place(f->path, sizeof f->path, "onnx_reread_test.XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    f->model = make();
    Err err = {0};
    if (!model_save(f->model, f->path, NULL, &err)) fail_msg("%s", err.what);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    Fixture *f = *state;
    unlink(f->path);
    model_free(f->model);
    free(f);
    return 0;
}
TEST_FIXTURE(setup, teardown);

static void expect_same(Fixture *f) {
    Err err = {0};
    if (!onnx_compare_file(f->model, &(WrittenFile){.path = f->path}, NULL, &err))
        fail_msg("%s", err.what);
}

static void expect_different(Fixture *f, const char *what) {
    Err err = {0};
    if (onnx_compare_file(f->model, &(WrittenFile){.path = f->path}, NULL, &err))
        fail_msg("not seen: %s", what);
    assert_int_equal(err.code, ERR_MODEL);
    if (strcmp(err.what, what)) fail_msg("'%s' instead of '%s'", err.what, what);
}

static Node *node_at(const Fixture *f, int i) {
    Node *node = f->model->graph->first;
    while (i-- > 1) node = node->next;
    return node;
}

TEST_WITH(test_same, Fixture *f) {
    expect_same(f);
}

TEST_WITH(test_nodes, Fixture *f) {
    static const int places[] = {1, 2, 1999, 3998, 3999};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        Node *node = node_at(f, places[i]);
        Sym name = node->name;
        node->name = test_name(f->model, "other");
        expect_different(f, "node name differs");
        node->name = name;
        node_add_metadata(node, "key", "value");
        expect_different(f, "metadata differs");
        node->metadata = NULL;
    }
    expect_same(f);
    Node *node = node_at(f, 2500), *neighbor = node->next;
    node_move_before(neighbor, node);
    expect_different(f, "node name differs");
    node_move_before(node, neighbor);
    expect_same(f);
}

TEST_WITH(test_inputs, Fixture *f) {
    Node *node = node_at(f, 3001);
    Value *value = node->inputs[1].value;
    node_set_input(node, 1, node_at(f, 17)->inputs[1].value); /* of another part */
    expect_different(f, "input differs");
    node_set_input(node, 1, value);
    node = node_at(f, 3000);
    Node *inner = test_body(node, "then_branch")->first;
    value = inner->inputs[0].value;
    node_set_input(inner, 0, node_at(f, 18)->inputs[1].value);
    expect_different(f, "input differs");
    node_set_input(inner, 0, value);
    expect_same(f);
}

TEST_WITH(test_lists, Fixture *f) {
    Graph *graph = f->model->graph;
    Sym doc = graph->doc;
    graph->doc = test_name(f->model, "doc");
    expect_different(f, "doc string of a graph differs");
    graph->doc = doc;
    graph->initializers.count--;
    expect_different(f, "number of initializers differs");
    graph->initializers.count++;
    graph->infos.count--;
    expect_different(f, "number of value_info entries differs");
    graph->infos.count++;
    expect_same(f);
    Value *extra = value_new(graph, test_name(f->model, "extra"));
    value_set_init(extra, tensor_new_float_scalar(&f->model->arena, 1));
    expect_different(f, "number of initializers differs");
    value_set_init(extra, NULL);
    node_resize_outputs(node_new(graph, NULL, test_name(f->model, "Neg"), NULL), 0);
    expect_different(f, "number of nodes differs");
    node_remove(graph->last);
    value_remove_info(node_at(f, 8)->outputs[0]);
    expect_different(f, "number of value_info entries differs");
}

TEST_WITH(test_data, Fixture *f) {
    Value *value = node_at(f, 3999)->inputs[1].value;
    const Tensor *tensor = value->init;
    const float other = 0.5f;
    value->init = tensor_new_raw(&f->model->arena, DTYPE_FLOAT, tensor->dims, 1, &other, 4);
    Err err = {0};
    assert_false(onnx_compare_file(f->model, &(WrittenFile){.path = f->path}, NULL, &err));
    value->init = tensor;
    expect_same(f);
}

/* A byte changed anywhere makes the file unreadable or another model. */
TEST_WITH(test_bytes, Fixture *f) {
    FILE *file = fopen(f->path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    for (long at = 100; at < size; at += size / 37) {
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        int byte = fgetc(file);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(fseek(file, at, SEEK_SET), 0);
            assert_true(fputc(byte ^ (i == 0), file) >= 0);
            assert_int_equal(fflush(file), 0);
            if (i == 0)
                assert_false(
                    onnx_compare_file(f->model, &(WrittenFile){.path = f->path}, NULL, NULL));
        }
    }
    fclose(file);
    expect_same(f);
}

TEST_WITH(test_no_file, Fixture *f) {
    Err err = {0};
    assert_false(
        onnx_compare_file(f->model, &(WrittenFile){.path = "/nowhere/at/all"}, NULL, &err));
    assert_int_equal(err.code, ERR_USAGE);
}

/* The linker gives arenas this calloc: one of its calls fails. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static unsigned allocations, failing = UINT32_MAX;

void *__wrap_calloc(size_t count, size_t size) {
    return allocations++ == failing ? NULL : __real_calloc(count, size);
}

/* Wherever memory runs out, it is an error, nothing stays open, and the next try succeeds. */
TEST_WITH(test_out_of_memory, Fixture *f) {
    enum { TRIES = 30 };
    allocations = 0;
    expect_same(f);
    unsigned all = allocations;
    assert_in_range(all, TRIES, 100000);
    int free_before = dup(0);
    close(free_before);
    for (unsigned i = 0; i < TRIES; i++) {
        Err err = {0};
        allocations = 0;
        failing = i * all / TRIES;
        assert_false(onnx_compare_file(f->model, &(WrittenFile){.path = f->path}, NULL, &err));
        failing = UINT32_MAX;
        assert_int_equal(err.code, ERR_ENV);
        int free_after = dup(0);
        close(free_after);
        assert_int_equal(free_after, free_before);
    }
    expect_same(f);
}
