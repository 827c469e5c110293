// SPDX-License-Identifier: Apache-2.0
/* External data in a folder of links, devices and lies; each case with openat2 and without. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "external_data.h"
#include "test_folder.h"
#include "unit_test.h"

typedef struct Fixture {
    SymTable syms;
    char root[64]; /* holds model/, real/ and outside */
    Err err;
} Fixture;

static char *path_of(Fixture *fixture, const char *name) {
    return arena_printf(&test_arena, "%s/%s", fixture->root, name);
}

static void write_file(Fixture *fixture, const char *name) {
    FILE *file = fopen(path_of(fixture, name), "wb");
    assert_non_null(file);
    fputs("0123456789", file);
    fclose(file);
}

static void link_to(Fixture *fixture, const char *target, const char *name) {
    assert_int_equal(symlink(target, path_of(fixture, name)), 0);
}

static int set_up(void **state) {
    static Fixture fixture;
    fixture = (Fixture){0};
    sym_table_init(&fixture.syms, &test_arena);
    test_place(fixture.root, sizeof fixture.root, "demi_external_XXXXXX");
    assert_non_null(mkdtemp(fixture.root));
    const char *folders[] = {"model", "model/sub", "model-2", "real", "real/sub", "real-2"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        assert_int_equal(mkdir(path_of(&fixture, folders[i]), 0700), 0);
    const char *files[] = {"model/data",      "model/sub/data", "model-2/data",
                           "real/model.onnx", "real/blob",      "real/sub/blob",
                           "outside",         "model/.data",    "real-2/blob"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) write_file(&fixture, files[i]);
    link_to(&fixture, "../real/model.onnx", "model/model.onnx");
    link_to(&fixture, "../real/blob", "model/to_real");
    link_to(&fixture, "../real/sub/blob", "model/to_real_sub");
    link_to(&fixture, "../real-2/blob", "model/to_sibling");
    link_to(&fixture, "../outside", "model/to_outside");
    link_to(&fixture, "/etc/passwd", "model/to_absolute");
    link_to(&fixture, "../model-2", "model/folder_link");
    link_to(&fixture, "/proc/self/root/etc/passwd", "model/to_magic");
    link_to(&fixture, "to_loop", "model/to_loop");
    assert_int_equal(mkfifo(path_of(&fixture, "model/fifo"), 0600), 0);
    assert_int_equal(link(path_of(&fixture, "outside"), path_of(&fixture, "model/hard")), 0);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state) {
    Fixture *fixture = *state;
    char *command = arena_printf(&test_arena, "rm -rf '%s'", fixture->root);
    assert_int_equal(system(command), 0);
    return 0;
}
TEST_FIXTURE(set_up, tear_down);

static KeyValue *entry(Fixture *fixture, const char *key, const char *value, KeyValue *next) {
    KeyValue *result = ARENA_NEW(&test_arena, KeyValue);
    result->key = sym_intern_cstr(&fixture->syms, key);
    result->value = value ? sym_intern_cstr(&fixture->syms, value) : NULL;
    result->next = next;
    return result;
}

static ExternalOptions options_of(Fixture *fixture) {
    return (ExternalOptions){.folder = path_of(fixture, "model"),
                             .model_path = path_of(fixture, "model/model.onnx")};
}

static bool find_entries(Fixture *fixture, ExternalOptions options, const KeyValue *entries,
                         ExternalRange *range) {
    Tensor tensor = {.name = sym_intern_cstr(&fixture->syms, "W"), .external = entries};
    fixture->err = (Err){0};
    ExternalData *external = external_data_new(&test_arena, &options);
    return external_data_find(external, &tensor, range, &fixture->err);
}

static bool find(Fixture *fixture, ExternalOptions options, const char *location) {
    ExternalRange range;
    if (!find_entries(fixture, options, entry(fixture, "location", location, NULL), &range)) {
        assert_string_equal(fixture->err.operand, "tensor 'W'");
        assert_true(fixture->err.what[0] != '\0');
        return false;
    }
    assert_int_equal(range.offset, 0);
    assert_int_equal(range.size, 10);
    return true;
}

static const char *const inside[] = {"data",       "sub/data", "./data", "sub//data",
                                     "sub/./data", "to_real",  ".data",  "to_real_sub"};
static const char *const refused[] = {"",
                                      ".",
                                      "./",
                                      "..",
                                      "../outside",
                                      "sub/../../outside",
                                      "sub/../data",
                                      "/etc/passwd",
                                      "/",
                                      "to_outside",
                                      "to_absolute",
                                      "folder_link/data",
                                      "to_magic",
                                      "to_loop",
                                      "fifo",
                                      "sub",
                                      "hard",
                                      "missing",
                                      "data/x",
                                      "../model-2/data",
                                      "../model/data",
                                      "to_sibling"};

static void check_paths(Fixture *fixture, bool without_openat2) {
    ExternalOptions options = options_of(fixture);
    options.without_openat2 = without_openat2;
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
        if (!find(fixture, options, inside[i])) fail_msg("'%s': %s", inside[i], fixture->err.what);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (find(fixture, options, refused[i])) fail_msg("'%s' was opened", refused[i]);
        assert_int_equal(fixture->err.code, ERR_MODEL);
    }
}

TEST_WITH(test_paths, Fixture *fixture) {
    check_paths(fixture, false);
}

TEST_WITH(test_paths_without_openat2, Fixture *fixture) {
    check_paths(fixture, true);
}

TEST_WITH(test_name_with_nul, Fixture *fixture) {
    KeyValue *location = entry(fixture, "location", "data", NULL);
    location->value = sym_intern(&fixture->syms, "data\0x", 6);
    ExternalRange range;
    assert_false(find_entries(fixture, options_of(fixture), location, &range));
}

/* A model that is not a link has its own folder only. */
TEST_WITH(test_links_of_a_plain_model, Fixture *fixture) {
    ExternalOptions options = options_of(fixture);
    options.model_path = path_of(fixture, "model/data");
    assert_true(find(fixture, options, "data"));
    assert_false(find(fixture, options, "to_real"));
    options.model_path = NULL; /* --data-root */
    assert_true(find(fixture, options, "data"));
    assert_false(find(fixture, options, "to_real"));
    options.folder = NULL; /* a model from stdin */
    assert_false(find(fixture, options, "data"));
    assert_non_null(strstr(fixture->err.hint, "--data-root"));
}

TEST_WITH(test_hard_links, Fixture *fixture) {
    ExternalOptions options = options_of(fixture);
    assert_false(find(fixture, options, "hard"));
    assert_string_equal(fixture->err.hint, "--allow-hardlinks");
    options.allow_hardlinks = true;
    assert_true(find(fixture, options, "hard"));
}

static bool find_range(Fixture *fixture, const char *offset, const char *length,
                       ExternalRange *range) {
    KeyValue *entries = entry(fixture, "location", "data", NULL);
    if (offset) entries = entry(fixture, "offset", offset, entries);
    if (length) entries = entry(fixture, "length", length, entries);
    return find_entries(fixture, options_of(fixture), entries, range);
}

TEST_WITH(test_ranges, Fixture *fixture) {
    ExternalRange range;
    assert_true(find_range(fixture, "3", NULL, &range));
    assert_int_equal(range.offset, 3);
    assert_int_equal(range.size, 7);
    assert_true(find_range(fixture, "3", "7", &range));
    assert_true(find_range(fixture, "10", "0", &range));
    assert_true(find_range(fixture, NULL, "4", &range));
    assert_int_equal(range.size, 4);
    const char *bad[][2] = {{"3", "8"},
                            {"11", NULL},
                            {"11", "0"},
                            {"-1", NULL},
                            {"0", "-1"},
                            {"", NULL},
                            {"0x1", NULL},
                            {" 1", NULL},
                            {"1 ", NULL},
                            {"+1", NULL},
                            {"1e0", NULL},
                            {"9223372036854775807", "9223372036854775807"},
                            {"18446744073709551615", "2"},
                            {"9223372036854775808", NULL},
                            {"18446744073709551617", NULL},
                            {"99999999999999999999999999", NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (find_range(fixture, bad[i][0], bad[i][1], &range))
            fail_msg("offset '%s', length '%s'", bad[i][0], bad[i][1] ? bad[i][1] : "-");
        assert_int_equal(fixture->err.code, ERR_MODEL);
    }
}

/* Without a length, a tensor that says its size reads that much; the rest where there is less. */
TEST_WITH(test_size_of_the_tensor, Fixture *fixture) {
    ExternalOptions options = options_of(fixture);
    ExternalData *external = external_data_new(&test_arena, &options);
    KeyValue *entries = entry(fixture, "location", "data", NULL);
    const struct {
        int64_t dims[2];
        int32_t dtype;
        uint64_t size;
    } cases[] = {{{2, 1}, DTYPE_FLOAT, 8}, {{0, 4}, DTYPE_FLOAT, 0},   {{2, 2}, DTYPE_FLOAT, 10},
                 {{2, 2}, DTYPE_INT4, 2},  {{2, 2}, DTYPE_STRING, 10}, {{-1, 2}, DTYPE_FLOAT, 10},
                 {{1, 1}, 999, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Tensor tensor = {
            .external = entries, .dtype = cases[i].dtype, .rank = 2, .dims = cases[i].dims};
        ExternalRange range;
        assert_true(external_data_find(external, &tensor, &range, &fixture->err));
        assert_int_equal(range.size, cases[i].size);
    }
}

TEST_WITH(test_entries, Fixture *fixture) {
    ExternalRange range;
    ExternalOptions options = options_of(fixture);
    KeyValue *location = entry(fixture, "location", "data", NULL);
    assert_true(find_entries(fixture, options, entry(fixture, "checksum", "x", location), &range));
    assert_false(
        find_entries(fixture, options, entry(fixture, "location", "data", location), &range));
    assert_false(find_entries(fixture, options, entry(fixture, "offset", NULL, location), &range));
    assert_false(find_entries(fixture, options, entry(fixture, "offset", "0", NULL), &range));
    assert_false(find_entries(fixture, options, NULL, &range));
}

TEST_WITH(test_one_source_for_a_file, Fixture *fixture) {
    ExternalOptions options = options_of(fixture);
    ExternalData *external = external_data_new(&test_arena, &options);
    Tensor tensor = {.external = entry(fixture, "location", "data", NULL)};
    ExternalRange first, second;
    assert_true(external_data_find(external, &tensor, &first, &fixture->err));
    assert_true(external_data_find(external, &tensor, &second, &fixture->err));
    assert_ptr_equal(first.source, second.source);
}
