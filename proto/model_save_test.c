// SPDX-License-Identifier: Apache-2.0
/* Saving: the new file equals the model, a failure leaves the old one, data files come and go with
 * the model that names them. */
#define _GNU_SOURCE
#include "model_save.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"
#include "onnx_import.h"
#include "outfile.h"
#include "test_folder.h"
#include "unit_test.h"

typedef struct Fixture {
    char folder[64];
    Err err;
    SaveInfo info;
} Fixture;

static int setup(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_place(f->folder, sizeof f->folder, "model_save_test.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    Fixture *f = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    int rc = system(command);
    free(f);
    return rc;
}
TEST_FIXTURE(setup, teardown);

static const char *at(Fixture *f, const char *name) {
    return arena_printf(&test_arena, "%s/%s", f->folder, name);
}

static int entries(Fixture *f) {
    DIR *dir = opendir(f->folder);
    assert_non_null(dir);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) count++;
    closedir(dir);
    return count;
}

static bool exists(Fixture *f, const char *name) {
    return access(at(f, name), F_OK) == 0;
}

/* One MatMul with weights of count floats that begin with `first`; half: as a lazy cast. */
static Model *make(float first, bool half) {
    Model *model = model_new(&test_trap);
    enum { COUNT = 300000 };
    float *data = ARENA_ARRAY(&test_arena, float, COUNT);
    for (int i = 0; i < COUNT; i++) data[i] = first + (float)(i % 1000);
    const int64_t dims[] = {COUNT};
    model->has_ir_version = true;
    model->ir_version = 8;
    model_import_opset(model, &model->opsets, sym_intern_cstr(&model->syms, ""), 17);
    Value *w = value_new(model->graph, sym_intern_cstr(&model->syms, "w"));
    Tensor *tensor =
        tensor_new_raw(&model->arena, DTYPE_FLOAT, dims, 1, data, COUNT * sizeof *data);
    value_set_init(w, half ? tensor_new_cast(&model->arena, tensor, DTYPE_FLOAT16) : tensor);
    Node *node = node_new(model->graph, NULL, sym_intern_cstr(&model->syms, "Neg"), NULL);
    node_resize_inputs(node, 1);
    node_set_input(node, 0, w);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value_new(model->graph, sym_intern_cstr(&model->syms, "y")));
    ValueDecl *decl = ARENA_NEW(&model->arena, ValueDecl);
    decl->type = type_plain_tensor(half ? DTYPE_FLOAT16 : DTYPE_FLOAT);
    graph_add_output(model->graph, node->outputs[0], decl);
    return model;
}

static void save_ok(Fixture *f, const Model *model, const char *name, bool external) {
    const SaveOptions options = {.place = external ? SAVE_OUTSIDE : SAVE_AS_IT_WAS,
                                 .info = &f->info};
    char line[1024];
    if (model_save(model, at(f, name), &options, &f->err)) return;
    err_format(&f->err, line, sizeof line);
    fail_msg("%s", line);
}

static Model *load(Fixture *f, const char *name) {
    Model *model = onnx_import_file(at(f, name), NULL, &test_trap, &f->err);
    if (!model) fail_msg("%s", f->err.what);
    return model;
}

static void expect_saved(Fixture *f, const Model *model, const char *name) {
    Model *again = load(f, name);
    if (!model_compare(model, again, NULL, &f->err)) fail_msg("%s", f->err.what);
    model_free(again);
}

TEST_WITH(test_saved_equals_model, Fixture *f) {
    for (int half = 0; half < 2; half++) {
        Model *model = make(0, half);
        save_ok(f, model, "m.onnx", false);
        expect_saved(f, model, "m.onnx");
        assert_int_equal(entries(f), 1);
        assert_true(f->info.model_bytes > (half ? 600000 : 1200000));
        assert_int_equal(f->info.data_bytes, 0);
        model_free(model);
    }
}

TEST_WITH(test_unchanged_is_copied, Fixture *f) {
    /* ir_version in three bytes, then the opset import before the graph: valid, not canonical. */
    static const char odd[] = "\x08\x88\x80\x00\x42\x02\x10\x11\x3a\x00";
    FILE *file = fopen(at(f, "in.onnx"), "w");
    fwrite(odd, 1, sizeof odd - 1, file);
    fclose(file);
    Model *model = load(f, "in.onnx");
    save_ok(f, model, "out.onnx", false);
    assert_true(f->info.copied);
    save_ok(f, model, "in.onnx", false); /* IN = OUT */
    const char *names[] = {"in.onnx", "out.onnx"};
    for (int i = 0; i < 2; i++) {
        char bytes[64];
        file = fopen(at(f, names[i]), "r");
        assert_int_equal(fread(bytes, 1, sizeof bytes, file), sizeof odd - 1);
        fclose(file);
        assert_memory_equal(bytes, odd, sizeof odd - 1);
    }
    model_touch(model);
    save_ok(f, model, "out.onnx", false);
    assert_false(f->info.copied);
    expect_saved(f, model, "out.onnx");
    model_free(model);
}

TEST_WITH(test_external_pair, Fixture *f) {
    Model *first = make(0, false), *second = make(7, true);
    save_ok(f, first, "m.onnx", true);
    char first_data[256];
    strcpy(first_data, f->info.data_name);
    assert_int_equal(strncmp(first_data, "m.onnx.", 7), 0);
    assert_int_equal(strlen(first_data), strlen("m.onnx.0123456789abcdef.data"));
    assert_true(exists(f, first_data));
    assert_int_equal(entries(f), 2);
    expect_saved(f, first, "m.onnx");

    save_ok(f, first, "m.onnx", true); /* the same content: the same name, still there */
    assert_string_equal(first_data, f->info.data_name);
    assert_int_equal(entries(f), 2);

    save_ok(f, second, "m.onnx", true); /* the old data goes with the old model */
    assert_string_not_equal(first_data, f->info.data_name);
    assert_false(exists(f, first_data));
    assert_int_equal(entries(f), 2);
    expect_saved(f, second, "m.onnx");

    save_ok(f, first, "m.onnx", false); /* no data file any more */
    assert_int_equal(entries(f), 1);
    model_free(first);
    model_free(second);
}

TEST_WITH(test_external_stays_external, Fixture *f) {
    Model *model = make(3, false);
    save_ok(f, model, "m.onnx", true);
    model_free(model);
    model = load(f, "m.onnx");
    save_ok(f, model, "m.onnx", false); /* implied; unchanged, IN = OUT */
    assert_true(f->info.data_bytes > 0);
    assert_int_equal(entries(f), 2);
    expect_saved(f, model, "m.onnx");
    save_ok(f, model, "other.onnx", false); /* data of its own, the input's stays */
    assert_int_equal(entries(f), 4);
    expect_saved(f, model, "other.onnx");
    expect_saved(f, model, "m.onnx");
    model_free(model);
}

TEST_WITH(test_other_files_stay, Fixture *f) {
    const char *others[] = {"m.onnx.0123456789abcdee.data", "m.onnx.data",
                            "m.onnx.0123456789abcdeg.data", "n.onnx.0123456789abcdef.data"};
    const char *orphan = "m.onnx.0123456789abcdef.data";
    for (int i = 0; i < 4; i++) fclose(fopen(at(f, others[i]), "w"));
    fclose(fopen(at(f, orphan), "w"));
    FILE *copy = fopen(at(f, "copy.onnx"), "w"); /* another model names the first one's data */
    fputs(others[0], copy);
    fclose(copy);
    Model *first = make(0, false), *second = make(1, false);
    save_ok(f, first, "m.onnx", true);
    save_ok(f, second, "m.onnx", true);
    for (int i = 0; i < 4; i++) assert_true(exists(f, others[i]));
    assert_false(exists(f, orphan)); /* which no model names */
    assert_int_equal(entries(f), 7);
    model_free(first);
    model_free(second);
}

TEST_WITH(test_data_of_a_copy_stay, Fixture *f) {
    Model *first = make(0, false), *second = make(1, false);
    save_ok(f, first, "m.onnx", true);
    char data[256];
    strcpy(data, f->info.data_name);
    assert_int_equal(link(at(f, "m.onnx"), at(f, "copy.onnx")), 0);
    assert_int_equal(symlink("m.onnx", at(f, "same.onnx")), 0);
    save_ok(f, second, "m.onnx", true);
    assert_true(exists(f, data));
    expect_saved(f, first, "copy.onnx");
    assert_int_equal(remove(at(f, "copy.onnx")), 0);
    save_ok(f, first, "n.onnx", false);
    save_ok(f, second, "m.onnx", true); /* the next save finds that nobody names them */
    assert_false(exists(f, data));
    model_free(first);
    model_free(second);
}

TEST_WITH(test_symlink_keeps_pair_with_target, Fixture *f) {
    assert_int_equal(mkdir(at(f, "real"), 0755), 0);
    assert_int_equal(symlink("real/m.onnx", at(f, "link.onnx")), 0);
    Model *model = make(0, false);
    save_ok(f, model, "link.onnx", true);
    assert_int_equal(entries(f), 2);
    assert_true(exists(f, arena_printf(&test_arena, "real/%s", f->info.data_name)));
    expect_saved(f, model, "real/m.onnx");
    model_free(model);
}

/* With files limited to `limit` bytes; the old model must survive every failure. */
static void fail_at(Fixture *f, const Model *model, rlim_t limit, bool external) {
    struct rlimit old, small;
    Err err = {0};
    const SaveOptions options = {.place = external ? SAVE_OUTSIDE : SAVE_AS_IT_WAS};
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){.rlim_cur = limit, .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    bool ok = model_save(model, at(f, "m.onnx"), &options, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_false(ok);
    assert_int_equal(err.code, ERR_ENV);
    assert_string_equal(err.file, at(f, "m.onnx"));
}

TEST_WITH(test_failure_leaves_the_old_pair, Fixture *f) {
    signal(SIGXFSZ, SIG_IGN);
    Model *first = make(0, false), *second = make(7, true);
    save_ok(f, first, "m.onnx", true);
    const rlim_t limits[] = {0, 10, 4096, 100000};
    for (int i = 0; i < 4; i++) fail_at(f, second, limits[i], false);
    for (int i = 0; i < 4; i++) fail_at(f, second, limits[i], true);
    assert_int_equal(entries(f), 2);
    expect_saved(f, first, "m.onnx");
    model_free(first);
    model_free(second);
}

/* The data file is in place when the model fails: it must go again. */
TEST_WITH(test_failing_model_takes_its_data_back, Fixture *f) {
    Model *model = make(0, false);
    save_ok(f, model, "m.onnx", true);
    Model *broken = make(9, false);
    value_rename(broken->graph->first->outputs[0], sym_intern_cstr(&broken->syms, "w"));
    Err err = {0}; /* two values of one name: written, but it cannot be read back */
    assert_false(model_save(broken, at(f, "m.onnx"), &(SaveOptions){.place = SAVE_OUTSIDE}, &err));
    assert_int_equal(err.code, ERR_ENV);
    assert_non_null(strstr(err.what, "read back"));
    assert_int_equal(entries(f), 2);
    expect_saved(f, model, "m.onnx");
    model_free(model);
    model_free(broken);
}

/* Memory runs out at one point after the other, until there is enough. */
TEST_WITH(test_out_of_memory_is_an_error, Fixture *f) {
    Model *model = make(0, false), *other = make(1, true);
    save_ok(f, model, "m.onnx", true);
    SaveOptions options = {.place = SAVE_OUTSIDE, .memory_budget = 64};
    int failures = 0;
    for (;; options.memory_budget += options.memory_budget / 8) {
        Err err = {0};
        if (model_save(other, at(f, "m.onnx"), &options, &err)) break;
        assert_int_equal(err.code, ERR_ENV);
        assert_string_equal(err.what, "out of memory");
        assert_int_equal(entries(f), 2);
        expect_saved(f, model, "m.onnx");
        failures++;
    }
    assert_true(failures > 20);
    expect_saved(f, other, "m.onnx");
    assert_int_equal(entries(f), 2);
    model_free(model);
    model_free(other);
}

TEST_WITH(test_many_savers_of_one_name, Fixture *f) {
    enum { SAVERS = 12 };
    Model *models[SAVERS];
    for (int i = 0; i < SAVERS; i++) models[i] = make((float)(i % 4), false);
    for (int i = 0; i < SAVERS; i++) {
        if (fork() != 0) continue;
        Err err = {0};
        const SaveOptions options = {.place = i % 3 ? SAVE_OUTSIDE : SAVE_AS_IT_WAS};
        _exit(model_save(models[i], at(f, "m.onnx"), &options, &err) ? 0 : 1);
    }
    for (int i = 0; i < SAVERS; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    Model *last = load(f, "m.onnx");
    int equal = 0;
    for (int i = 0; i < SAVERS; i++) equal += model_compare(models[i], last, NULL, NULL);
    assert_true(equal > 0);
    assert_true(entries(f) <= 2);
    model_free(last);
    for (int i = 0; i < SAVERS; i++) model_free(models[i]);
}

TEST_WITH(test_streams, Fixture *f) {
    Model *model = make(0, false);
    assert_true(model_save(model, "/dev/null", &(SaveOptions){.place = SAVE_OUTSIDE}, &f->err));
    assert_false(model_save(model, "/dev/full", NULL, &f->err));
    assert_int_equal(f->err.code, ERR_ENV);
    assert_int_equal(entries(f), 0);
    model_free(model);
}

TEST_WITH(test_destination_errors, Fixture *f) {
    Model *model = make(0, false);
    assert_false(model_save(model, f->folder, NULL, &f->err));
    assert_int_equal(f->err.code, ERR_USAGE);
    assert_false(model_save(model, at(f, "no/m.onnx"), NULL, NULL));
    assert_int_equal(entries(f), 0);
    model_free(model);
}
