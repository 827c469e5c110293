// SPDX-License-Identifier: Apache-2.0
/* Memory runs out at every allocation in turn, once and for good, in everything libdemi does with a
 * model: each time the answer is "out of memory" or success, the old output or the whole new one is
 * in place with nothing beside it, and nothing leaks. Few calls reach malloc, since arenas take
 * large chunks: so the calls of arenas fail in turn, too. Linked with --wrap for both. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stdio.h>

#define DEMI_EXPERIMENTAL
#include "demi_plugin.h"
#include "test_faults.h"
#include "test_folder.h"
#include "unit_test.h"

typedef struct Job {
    const char *input, *output;
    DemiTarget to;
    DemiError error;
} Job;

static bool drop(void *user, const void *bytes, size_t size) {
    (void)bytes;
    *(size_t *)user += size;
    return true;
}

static int plugin_frames; /* of plugin_run that have not returned */

/* What a plug-in's pass may allocate: each call must come back, so that nothing of its own is
 * lost. */
static bool plugin_run(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    static const float one = 1;
    plugin_frames++;
    const DemiTensor *tensor = api->tensor_new(run, DEMI_FLOAT, NULL, 0, &one);
    DemiValue *made = api->initializer_new(run, graph, "made", tensor);
    DemiNewNode of = {DEMI_NEW_NODE_INIT, .op_type = "Abs", .inputs = &made, .input_count = 1,
                      .output_count = 1};
    DemiNode *node = made ? api->node_new(run, graph, &of) : NULL;
    api->value_set_type(run, api->node_output(node, 0),
                        api->type_tensor(run, DEMI_FLOAT, NULL, NULL, 0));
    api->node_set_string(run, node, "made.by", "test");
    api->value_rename(run, api->node_output(node, 0), "renamed");
    api->value_replace(run, api->node_output(node, 0), made);
    api->node_remove(run, node);
    api->print(run, "%s", api->node_label(node));
    bool allocated = api->alloc(run, 1 << 10) != NULL;
    assert_true(allocated != api->failed(run));
    plugin_frames--;
    return true;
}

static const DemiPlugin *plugin_entry(const DemiApi *api) {
    static const DemiPluginPass pass = {DEMI_PLUGIN_PASS_INIT, .name = "test-pass",
                                        .run = plugin_run};
    static const DemiPlugin plugin = {DEMI_PLUGIN_INIT, .passes = &pass, .pass_count = 1};
    (void)api;
    return &plugin;
}

/* Load, check, describe, convert, print, save: as long as all goes well. */
static DemiStatus run(Job *job) {
    size_t printed = 0;
    DemiModel *model = NULL;
    DemiPasses *passes = NULL;
    DemiReport *before = NULL, *report = NULL;
    DemiRunOptions options = DEMI_RUN_OPTIONS_INIT;
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    const char *const keep_ops[] = {"Softmax"};
    options.text = drop;
    options.text_user = &printed;
    convert.to = job->to;
    convert.keep_ops = keep_ops;
    convert.keep_op_count = 1;
    convert.allow_unmatched = true;
    convert.run = &options;
    convert.before = "test-pass";
    DemiStatus status = demi_passes_new(&passes, &job->error);
    if (!status) status = demi_passes_add(passes, plugin_entry, &job->error);
    options.passes = passes;
    if (!status) status = demi_load_file(job->input, NULL, &model, &job->error);
    if (!status) status = demi_check(model, &job->error);
    if (!status) status = demi_describe(model, &before, &job->error);
    if (!status) status = demi_convert(model, &convert, &report, &job->error);
    if (!status) status = demi_print(model, true, drop, &printed, &job->error);
    if (!status) status = demi_save_file(model, job->output, NULL, &job->error);
    demi_report_free(before);
    demi_report_free(report);
    demi_free(model);
    demi_passes_free(passes);
    return status;
}

static void write_old(const char *path) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs("old", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static bool is_old(const char *path) {
    char bytes[4] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return size == 3 && memcmp(bytes, "old", 3) == 0;
}

static unsigned count_files(const char *folder) {
    unsigned count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(dir);
    return count;
}

/* Every point of one kind of failure; returns their number. */
static unsigned fail_everywhere(Job *job, const char *folder, bool for_good, bool arenas) {
    for (unsigned point = 0;; point += faults_step(5)) {
        write_old(job->output);
        job->error = (DemiError)DEMI_ERROR_INIT;
        faults =
            (struct Faults){.armed = true, .for_good = for_good, .arenas = arenas, .left = point};
        DemiStatus status = run(job);
        unsigned failed = faults.failed;
        assert_int_equal(plugin_frames, 0);
        faults.armed = false;
        if (!failed && status) fail_msg("%s: %s", job->input, job->error.message);
        if (status && (status != DEMI_ERR_ENV || !strstr(job->error.message, "out of memory")))
            fail_msg("%s, allocation %u: status %d, '%s'", job->input, point, (int)status,
                     job->error.message);
        assert_int_equal(is_old(job->output), status != DEMI_OK);
        assert_int_equal(count_files(folder), 1);
        if (!failed) return point;
        assert_true(point < 100000);
    }
}

static const char *const models[] = {"conv_net", "loop_if", "low_precision", "odd_parts",
                                     "split_parts"};

/* Each model in both types and, for each, both kinds of failure. */
static void fail_all_models(bool arenas, unsigned least) {
    char folder[200], input[512], output[256];
    test_place(folder, sizeof folder, "demi_memory_XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(output, sizeof output, "%s/out.onnx", folder);
    for (size_t i = 0; i < 4 * sizeof models / sizeof *models; i++) {
        Job job = {.input = input, .output = output, .to = (DemiTarget)(i % 2)};
        snprintf(input, sizeof input, "%s/models/%s.onnx", DEMI_TESTDATA, models[i / 4]);
        unsigned points = fail_everywhere(&job, folder, i / 2 % 2, arenas);
        print_message("%s: %u allocations\n", models[i / 4], points);
        assert_true(points > least);
    }
    unlink(output);
    assert_int_equal(rmdir(folder), 0);
}

TEST(test_every_allocation) {
    fail_all_models(false, 20);
}

TEST(test_every_arena_call) {
    fail_all_models(true, 150);
}

/* Load and compile, fast: all fusions, and constants computed. */
static DemiStatus compile(Job *job) {
    size_t written = 0;
    DemiModel *model = NULL;
    DemiStatus status = demi_load_file(job->input, NULL, &model, &job->error);
    if (!status) status = demi_compile(model, NULL, drop, &written, &job->error);
    demi_free(model);
    return status;
}

static void fail_compile(Job *job, bool for_good, bool arenas) {
    for (unsigned point = 0, failed = 1; failed; point++) {
        job->error = (DemiError)DEMI_ERROR_INIT;
        faults =
            (struct Faults){.armed = true, .for_good = for_good, .arenas = arenas, .left = point};
        DemiStatus status = compile(job);
        failed = faults.failed;
        faults.armed = false;
        if (!failed && status) fail_msg("%s: %s", job->input, job->error.message);
        if (status && (status != DEMI_ERR_ENV || !strstr(job->error.message, "out of memory")))
            fail_msg("%s, allocation %u: status %d, '%s'", job->input, point, (int)status,
                     job->error.message);
        assert_true(point < 100000);
    }
}

TEST(test_compile) {
    static const char *const compiled[] = {"conv_net", "loop_if"};
    for (size_t i = 0; i < 4 * sizeof compiled / sizeof *compiled; i++) {
        char input[512];
        Job job = {.input = input};
        snprintf(input, sizeof input, "%s/models/%s.onnx", DEMI_TESTDATA, compiled[i / 4]);
        fail_compile(&job, i % 2, i / 2 % 2);
    }
}
