// SPDX-License-Identifier: Apache-2.0
/* The library's front as a C program sees it: errors, options of other versions, callbacks,
 * reports. What a conversion does to a model is tested with the passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demi.h"
#include "unit_test.h"
#include "work_progress.h"

static const char model_text[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                                 "g (float[N,3] x) => (float[N,3] y)\n"
                                 "<float[3,3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}>\n"
                                 "{\n"
                                 "    [mm] h = MatMul (x, w)\n"
                                 "    [sm] y = Softmax (h)\n"
                                 "}\n";

static DemiModel *load_text(const char *text) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    DemiStatus status = demi_load_memory(text, strlen(text), NULL, &model, &error);
    if (status != DEMI_OK) print_error("%s\n", error.message);
    assert_int_equal(status, DEMI_OK);
    return model;
}

typedef struct Buffer {
    unsigned char bytes[1 << 16];
    size_t size, most; /* most: what it takes before it fails */
} Buffer;

static bool buffer_write(void *user, const void *bytes, size_t size) {
    Buffer *buffer = user;
    if (size > buffer->most - buffer->size) return false;
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
    return true;
}

static Buffer *buffer_new(size_t most) {
    Buffer *buffer = calloc(1, sizeof *buffer);
    buffer->most = most;
    return buffer;
}

TEST(errors_are_filled_once) {
    DemiModel *model = (DemiModel *)&model; /* must become NULL */
    DemiError error = DEMI_ERROR_INIT;
    DemiLoadOptions options = DEMI_LOAD_OPTIONS_INIT;
    options.name = "first";
    assert_int_equal(demi_load_memory("\xff", 1, &options, &model, &error), DEMI_ERR_MODEL);
    assert_null(model);
    assert_int_equal(error.status, DEMI_ERR_MODEL);
    assert_string_equal(error.file, "first");
    assert_non_null(strstr(error.message, "first: "));
    assert_null(strchr(error.message, '\n'));
    options.name = "second";
    assert_int_equal(demi_load_memory("\xff", 1, &options, &model, &error), DEMI_ERR_MODEL);
    assert_string_equal(error.file, "first");
    assert_int_equal(demi_load_memory("\xff", 1, &options, &model, NULL), DEMI_ERR_MODEL);
    assert_int_equal(demi_load_file("/nowhere/at/all", NULL, &model, NULL), DEMI_ERR_USAGE);
}

/* A program built when DemiError ended earlier: nothing is written beyond its size. */
TEST(errors_of_older_headers) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    error.size = offsetof(DemiError, file);
    memset(error.file, 'x', sizeof error.file);
    assert_int_equal(demi_load_memory("\xff", 1, NULL, &model, &error), DEMI_ERR_MODEL);
    assert_int_equal(error.status, DEMI_ERR_MODEL);
    assert_true(error.message[0]);
    assert_int_equal(error.file[0], 'x');
    assert_int_equal(error.size, offsetof(DemiError, file));
}

TEST(options_of_other_headers) {
    struct {
        DemiConvertOptions known;
        uint64_t later;
    } newer = {.known = DEMI_CONVERT_OPTIONS_INIT};
    DemiError error = DEMI_ERROR_INIT;
    DemiModel *model = load_text(model_text);
    newer.known.size = sizeof newer;
    assert_int_equal(demi_convert(model, &newer.known, NULL, &error), DEMI_OK);
    newer.later = 1;
    assert_int_equal(demi_convert(model, &newer.known, NULL, &error), DEMI_ERR_USAGE);
    newer.known.size = 0;
    assert_int_equal(demi_convert(model, &newer.known, NULL, NULL), DEMI_ERR_USAGE);
    /* An older one, without the fields after io: they have their defaults. */
    DemiConvertOptions older = DEMI_CONVERT_OPTIONS_INIT;
    const char *keep[] = {"nothing"};
    older.size = offsetof(DemiConvertOptions, keep);
    older.keep = keep;
    older.keep_count = 1;
    assert_int_equal(demi_convert(model, &older, NULL, NULL), DEMI_OK);
    demi_free(model);
}

typedef struct Slices {
    const char *text;
    size_t left;
    bool fails;
} Slices;

static int64_t read_slice(void *user, void *buffer, size_t size) {
    Slices *slices = user;
    size_t count = slices->left < 7 ? slices->left : 7;
    if (slices->fails && slices->left < 50) return -1;
    if (count > size) count = size;
    memcpy(buffer, slices->text, count);
    slices->text += count;
    slices->left -= count;
    return (int64_t)count;
}

TEST(callbacks_read_and_write) {
    Slices slices = {.text = model_text, .left = strlen(model_text)};
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    Buffer *onnx = buffer_new(sizeof onnx->bytes), *text = buffer_new(sizeof text->bytes);
    assert_int_equal(demi_load_callback(read_slice, &slices, NULL, &model, &error), DEMI_OK);
    assert_int_equal(demi_save_callback(model, buffer_write, onnx, NULL, &error), DEMI_OK);
    demi_free(model);
    /* Protobuf and back to text: nothing but the layout of the text may change. */
    assert_int_equal(demi_load_memory(onnx->bytes, onnx->size, NULL, &model, &error), DEMI_OK);
    assert_int_equal(demi_print(model, true, buffer_write, text, &error), DEMI_OK);
    assert_non_null(strstr((char *)text->bytes, "MatMul (x, w)"));
    text->most = 10;
    text->size = 0;
    assert_int_equal(demi_print(model, true, buffer_write, text, NULL), DEMI_ERR_ENV);
    onnx->most = 10;
    onnx->size = 0;
    DemiModel *edited = load_text(model_text);
    assert_int_equal(demi_save_callback(edited, buffer_write, onnx, NULL, NULL), DEMI_ERR_ENV);
    demi_free(edited);
    demi_free(model);
    slices = (Slices){.text = model_text, .left = strlen(model_text), .fails = true};
    assert_int_equal(demi_load_callback(read_slice, &slices, NULL, &model, NULL), DEMI_ERR_ENV);
    assert_null(model);
    free(onnx);
    free(text);
}

TEST(convert_is_its_pipeline) {
    char pipeline[512];
    const char *keep[] = {"s*"};
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    options.io = DEMI_IO_LOW;
    options.keep = keep;
    options.keep_count = 1;
    Buffer *a = buffer_new(sizeof a->bytes), *b = buffer_new(sizeof b->bytes);
    size_t length = demi_convert_pipeline(&options, pipeline, sizeof pipeline, NULL);
    assert_int_equal(length, strlen(pipeline));
    DemiModel *first = load_text(model_text), *second = load_text(model_text);
    assert_int_equal(demi_convert(first, &options, NULL, NULL), DEMI_OK);
    assert_int_equal(demi_run_pipeline(second, pipeline, NULL, NULL, NULL), DEMI_OK);
    assert_int_equal(demi_save_callback(first, buffer_write, a, NULL, NULL), DEMI_OK);
    assert_int_equal(demi_save_callback(second, buffer_write, b, NULL, NULL), DEMI_OK);
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->bytes, b->bytes, a->size);
    demi_free(first);
    demi_free(second);
    free(a);
    free(b);
}

TEST(pipeline_text_is_cut) {
    char whole[512], cut[16];
    size_t length = demi_convert_pipeline(NULL, whole, sizeof whole, NULL);
    assert_int_equal(demi_convert_pipeline(NULL, NULL, 0, NULL), length);
    memset(cut, 'x', sizeof cut);
    assert_int_equal(demi_convert_pipeline(NULL, cut, 8, NULL), length);
    assert_memory_equal(cut, whole, 7);
    assert_int_equal(cut[7], '\0');
    assert_int_equal(cut[8], 'x');
}

TEST(reports_outlive_models) {
    DemiReport *report = NULL;
    DemiModel *model = load_text(model_text);
    assert_int_equal(demi_convert(model, NULL, &report, NULL), DEMI_OK);
    demi_free(model);
    const DemiReportTotals *totals = demi_report_totals(report);
    assert_int_equal(totals->bytes_before, 36);
    assert_int_equal(totals->bytes_after, 18);
    assert_int_equal(totals->nodes_before, 2);
    assert_int_equal(totals->nodes_after, totals->nodes_before + totals->casts_remaining);
    assert_int_equal(demi_report_node_count(report), 2);
    const DemiReportNode *softmax = demi_report_node(report, 1);
    assert_string_equal(softmax->name, "sm");
    assert_string_equal(softmax->dtype, "float");
    assert_true(softmax->reason[0]);
    assert_string_equal(demi_report_node(report, 0)->dtype, "float16");
    assert_null(demi_report_node(report, 2));
    assert_string_equal(demi_report_row(report, DEMI_REPORT_INPUTS, 0)->text_after, "float[N,3]");
    assert_int_equal(demi_report_row(report, DEMI_REPORT_OPSETS, 0)->after, 17);
    assert_null(demi_report_row(report, (DemiReportList)99, 0));
    demi_report_free(report);
    demi_report_free(NULL);
    demi_free(NULL);
}

/* Sizes that tensor cores have to pad: not of single columns, depthwise filters or pictures' channels. */
TEST(reports_say_uneven) {
    static const char text[] =
        "<ir_version: 8, opset_import: [\"\" : 17]>\n"
        "g (float[N,3,8,8] x, float[N,12] v, float[16,3,3,3] c, float[16,1,3,3] d, float[16,8] a, "
        "float[8,12] b, float[8,1] one, float[N,N] s) => (y, z, p, q) <float[2] w = {1, 2}>\n"
        "{\n"
        "  [first] f = Conv (x, c)\n"
        "  [deep] y = Conv <group = 16> (f, d)\n"
        "  [gemm] h = Gemm <transB = 1> (v, b)\n"
        "  [even] z = Gemm <transB = 1> (h, a)\n"
        "  [column] p = MatMul (h, one)\n"
        "  [open] q = MatMul (s, v)\n"
        "}\n"
        "@training <algorithm: t (int64[N] labels) => (float loss) { loss = ReduceSum <keepdims = "
        "0> (z) },"
        " update_binding: [\"w\": \"loss\"]>\n";
    DemiReport *report = NULL;
    DemiModel *model = load_text(text);
    assert_int_equal(demi_convert(model, NULL, &report, NULL), DEMI_OK);
    assert_int_equal(demi_report_row_count(report, DEMI_REPORT_UNEVEN), 1);
    const DemiReportRow *row = demi_report_row(report, DEMI_REPORT_UNEVEN, 0);
    assert_string_equal(row->name, "gemm");
    assert_string_equal(row->text_after, "float16[8,12]");
    static const char *const rows[][3] = {{"labels", "input", "int64[N]"},
                                          {"loss", "output", "float[]"},
                                          {"w", "update", "float[2]"}};
    assert_int_equal(demi_report_row_count(report, DEMI_REPORT_TRAINING), 3);
    for (size_t i = 0; i < 3; i++) {
        row = demi_report_row(report, DEMI_REPORT_TRAINING, i);
        assert_string_equal(row->name, rows[i][0]);
        assert_string_equal(row->text_before, rows[i][1]);
        assert_string_equal(row->text_after, rows[i][2]);
    }
    demi_report_free(report);
    demi_free(model);
}

/* Whether advice names --fold, for a normalization behind a convolution. */
static bool names_fold(DemiTarget to, bool fold) {
    static const char text[] =
        "<ir_version: 8, opset_import: [\"\" : 17]>\n"
        "g (float[N,2,4,4] x) => (y) <float[2,2,1,1] c = {1, 2, 3, 4}, float[2] s = {1, 2}, "
        "float[2] b = "
        "{3, 4}, float[2] m = {5, 6}, float[2] v = {7, 8}>\n"
        "{\n  f = Conv (x, c)\n  n = BatchNormalization (f, s, b, m, v)\n  y = Conv (n, c)\n}\n";
    DemiReport *report = NULL;
    DemiModel *model = load_text(text);
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    options.to = to;
    options.fold = fold;
    assert_int_equal(demi_convert(model, &options, &report, NULL), DEMI_OK);
    bool named = false;
    for (size_t i = 0; i < demi_report_row_count(report, DEMI_REPORT_ADVICE); i++)
        named |= strncmp(demi_report_row(report, DEMI_REPORT_ADVICE, i)->name,
                         "--fold folds 1 normalization into the preceding convolution,", 60) == 0;
    demi_report_free(report);
    demi_free(model);
    return named;
}

TEST(reports_say_what_fold_would_do) {
    assert_true(names_fold(DEMI_TO_BFLOAT16, false));
    assert_false(names_fold(DEMI_TO_BFLOAT16, true));
    assert_false(names_fold(DEMI_TO_FLOAT16, false));
}

static bool stop_at_second(void *user, const char *pass, size_t done, size_t total) {
    assert_non_null(pass);
    assert_true(done <= total);
    ++*(size_t *)user;
    return done < 2;
}

static bool drop_bytes(void *user, const void *bytes, size_t size) {
    (void)user, (void)bytes, (void)size;
    return true;
}

/* Nothing but demi_free is left of such a model: every other call says why. */
static void assert_gone(DemiModel *model, const char *why) {
    DemiReport *report = NULL;
    for (int i = 0; i < 9; i++) {
        DemiError error = DEMI_ERROR_INIT;
        switch (i) {
        case 0: demi_check(model, &error); break;
        case 1: demi_convert(model, NULL, &report, &error); break;
        case 2: demi_simplify(model, NULL, &report, &error); break;
        case 3: demi_run_pipeline(model, "", NULL, &report, &error); break;
        case 4: demi_compile(model, NULL, drop_bytes, NULL, &error); break;
        case 5: demi_describe(model, &report, &error); break;
        case 6: demi_print(model, true, drop_bytes, NULL, &error); break;
        case 7: demi_save_file(model, "/nowhere/m.onnx", NULL, &error); break;
        case 8: demi_save_callback(model, drop_bytes, NULL, NULL, &error); break;
        }
        assert_int_equal(error.status, DEMI_ERR_USAGE);
        assert_non_null(strstr(error.message, why));
        assert_non_null(strstr(error.hint, "load it again"));
        assert_null(report);
    }
}

TEST(half_rewritten_models_are_refused) {
    size_t calls = 0;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    run.progress = stop_at_second;
    run.progress_user = &calls;
    DemiModel *model = load_text(model_text);
    assert_int_equal(demi_run_pipeline(model, "nothing", &run, NULL, NULL), DEMI_ERR_USAGE);
    assert_int_equal(demi_check(model, NULL), DEMI_OK); /* no pass has run */
    assert_int_equal(
        demi_run_pipeline(model, "infer-dtypes,infer-shapes,infer-dtypes", &run, NULL, NULL),
        DEMI_ERR_CANCELLED);
    assert_gone(model, "half rewritten");
    demi_free(model);
    model = load_text(model_text); /* a pass that fails */
    assert_int_equal(demi_run_pipeline(model, "infer-dtypes,set-shapes{shapes=[\"nobody=3\"]}",
                                       NULL, NULL, NULL),
                     DEMI_ERR_USAGE);
    assert_gone(model, "half rewritten");
    demi_free(model);
    model = load_text(model_text);
    assert_int_equal(demi_compile(model, NULL, drop_bytes, NULL, NULL), DEMI_OK);
    assert_gone(model, "compiled");
    demi_free(model);
    model = load_text("<ir_version: 8, opset_import: [\"\" : 17]>\n"
                      "g (float[3] x) => (float[3] y) { y = Relu (x, x) }\n");
    assert_int_equal(demi_run_pipeline(model, "infer-dtypes", NULL, NULL, NULL), DEMI_ERR_MODEL);
    assert_int_equal(demi_print(model, true, drop_bytes, NULL, NULL), DEMI_OK); /* refused before */
    demi_free(model);
}

/* A DemiProgressFn: what is under way is the pass that has just run. */
static bool see_pass(void *user, const char *pass, size_t done, size_t total) {
    ProgressPiece pieces[PROGRESS_DEPTH];
    size_t *calls = user;
    assert_true(progress_pieces(pieces) >= 1);
    assert_string_equal(pieces[0].what, pass);
    assert_true(pieces[0].done + 1 == done && pieces[0].total == total);
    ++*calls;
    return true;
}

static void be_idle(void *user) {
    ++*(size_t *)user;
}

TEST(passes_report_progress) {
    size_t calls = 0, idle = 0;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    run.progress = see_pass;
    run.progress_user = &calls;
    progress_listen(be_idle, &idle);
    DemiModel *model = load_text(model_text);
    assert_int_equal(demi_run_pipeline(model, "infer-dtypes,infer-shapes", &run, NULL, NULL),
                     DEMI_OK);
    demi_free(model);
    progress_listen(NULL, NULL);
    assert_int_equal(calls, 2);
    assert_true(idle >= 2); /* behind the passes, and the checks around them */
}

/* Ifs in each other around what the innermost one computes of x. */
static size_t put_nest(char *text, size_t size, const char *prefix, const char *innermost) {
    enum { DEEP = 20 };
    size_t at = 0;
    for (int i = 0; i < DEEP; i++)
        at +=
            (size_t)snprintf(text + at, size - at, "%s%d = If (c) <then_branch = t () => (%s%d) { ",
                             prefix, i, prefix, i + 1);
    at += (size_t)snprintf(text + at, size - at, "%s%d = %s ", prefix, DEEP, innermost);
    for (int i = DEEP; i-- > 0;)
        at += (size_t)snprintf(text + at, size - at,
                               "}, else_branch = e () => (%se%d) { %se%d = Exp (x) }> ", prefix, i,
                               prefix, i);
    return at;
}

/* Whether the model is to be written or not: inlined bodies nest as deeply as both do, in a model of operators
 * that demi does not know, too. */
TEST(nests_of_inlined_bodies_are_refused) {
    static const char *const operators[] = {"Relu (x)", "own.Op (x)"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        char text[1 << 14];
        size_t at = (size_t)snprintf(text, sizeof text,
                                     "<ir_version: 10, opset_import: [\"\" : 21, \"f\" : 1, "
                                     "\"own\" : 1]>\ng (float[2] x, bool c) => (float[2] y0) { ");
        at += put_nest(text + at, sizeof text - at, "y", "f.F (x, c)");
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "}\n<domain: \"f\", opset_import: [\"\" : 21, \"own\" : 1]>\n"
                               "F (x, c) => (z0) { ");
        at += put_nest(text + at, sizeof text - at, "z", operators[i]);
        snprintf(text + at, sizeof text - at, "}\n");
        DemiModel *model = load_text(text);
        DemiError error = DEMI_ERROR_INIT;
        assert_int_equal(demi_run_pipeline(model, "infer-dtypes,inline-calls", NULL, NULL, &error),
                         DEMI_ERR_MODEL);
        if (!strstr(error.message, "node 'y0' (If): graphs are nested more than 31 deep"))
            fail_msg("%s", error.message);
        demi_free(model);
    }
}

TEST(progress_can_cancel) {
    size_t calls = 0;
    DemiReport *report = NULL;
    DemiError error = DEMI_ERROR_INIT;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    run.progress = stop_at_second;
    run.progress_user = &calls;
    options.run = &run;
    DemiModel *model = load_text(model_text);
    assert_int_equal(demi_convert(model, &options, &report, &error), DEMI_ERR_CANCELLED);
    assert_int_equal(error.status, DEMI_ERR_CANCELLED);
    assert_int_equal(calls, 2);
    assert_null(report);
    demi_free(model);
}

TEST(newer_models_are_refused) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel *model = load_text("<ir_version: 8, opset_import: [\"\" : 99]>\n"
                                 "g (float[3] x) => (float[3] y) { y = Relu (x) }\n");
    assert_int_equal(demi_convert(model, NULL, NULL, &error), DEMI_ERR_MODEL);
    assert_non_null(strstr(error.message, "99"));
    assert_non_null(strstr(error.message, "28"));
    demi_free(model);
}

TEST(passes_are_listed) {
    DemiPassOption option = DEMI_PASS_OPTION_INIT;
    size_t i = 0;
    while (i < demi_pass_count(NULL) && strcmp(demi_pass_name(NULL, i), "insert-casts") != 0) i++;
    assert_true(i < demi_pass_count(NULL));
    assert_true(demi_pass_option(NULL, i, 0, &option));
    assert_string_equal(option.name, "to");
    assert_string_equal(option.takes, "float16|bfloat16");
    assert_false(demi_pass_option(NULL, i, 1000, &option));
    assert_null(demi_pass_name(NULL, demi_pass_count(NULL)));
}
