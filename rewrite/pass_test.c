// SPDX-License-Identifier: Apache-2.0
/* Pipelines: text to steps and back (also for thousands of generated ones), every error with its
 * line, what passes need of each other, and what running them does. */
#include <stdio.h>

#include "pass.h"
#include "test_model.h"

/* ---- a table of its own ---------------------------------------------------------------------- */

typedef struct Options {
    int64_t number;
    const char *text;
    PassStrings list;
    int choice, other;
    bool on, off;
} Options;

static const char *const choices[] = {"red", "green", "blue", NULL};
static const PassOption option_rows[] = {
    {"on", OPTION_BOOL, offsetof(Options, on), NULL, "true", "a switch"},
    {"off", OPTION_BOOL, offsetof(Options, off), NULL, NULL, "another"},
    {"number", OPTION_INT, offsetof(Options, number), NULL, "42", "a number"},
    {"text-of-it", OPTION_STRING, offsetof(Options, text), NULL, NULL, "text"},
    {"list", OPTION_STRINGS, offsetof(Options, list), NULL, NULL, "texts"},
    {"choice", OPTION_CHOICE, offsetof(Options, choice), choices, "green", "one of three"},
    {"other", OPTION_CHOICE, offsetof(Options, other), choices, NULL, "one of three"},
    {0},
};

static bool run_count(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    arena_alloc(ctx->scratch, 100);
    ctx->counts->rewrites += 3;
    model_touch(ctx->model);
    return true;
}

static bool run_fail(PassCtx *ctx, const void *options, Err *err) {
    (void)ctx;
    (void)options;
    return err_set(err, ERR_MODEL, "it went wrong");
}

static bool run_break(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    ctx->model->graph->node_count++;
    return true;
}

static const PassInfo full = {
    .name = "full-pass", .options = option_rows, .run = run_count, .options_size = sizeof(Options)};
static const PassInfo types = {.name = "types", .gives = FACT_DTYPES, .run = run_count};
static const PassInfo shapes = {
    .name = "shapes", .needs = FACT_DTYPES, .gives = FACT_SHAPES, .run = run_count};
static const PassInfo user = {.name = "user", .needs = FACT_DTYPES | FACT_SHAPES, .run = run_count};
static const PassInfo breaker = {.name = "breaker", .breaks = FACT_SHAPES, .run = run_count};
static const PassInfo failing = {.name = "failing", .run = run_fail};
static const PassInfo wrecker = {.name = "wrecker", .run = run_break};
static const PassInfo *const rows[] = {&full, &types, &shapes, &user, &breaker, &failing, &wrecker};
static const FormerName former_names[] = {{"dtypes", "types"}, {"gone", "no-such-pass"}};
static const PassTable table = {.passes = rows,
                                .count = sizeof rows / sizeof *rows,
                                .former = former_names,
                                .former_count = sizeof former_names / sizeof *former_names};

/* ---- parsing and printing -------------------------------------------------------------------- */

static void prints(const char *text, const char *expected) {
    Err err = {0};
    Pipeline pipeline;
    if (!pipeline_parse(&table, &test_arena, text, &pipeline, &err))
        fail_msg("%s: %s", text, err.what);
    assert_string_equal(pipeline_print(&pipeline, &test_arena), expected);
}

TEST(test_prints) {
    prints("", "");
    prints("  \n", "");
    prints("types", "types");
    prints(" types ,\tshapes\n", "types,shapes");
    prints("full-pass{}", "full-pass");
    prints("full-pass { on = true , number=42,choice=green,list=[] }", "full-pass");
    prints("full-pass{on=false,off=true,number=-7}", "full-pass{on=false,off=true,number=-7}");
    prints("full-pass{number=0}", "full-pass{number=0}");
    prints("full-pass{number=9223372036854775807}", "full-pass{number=9223372036854775807}");
    prints("full-pass{choice=red,other=red}", "full-pass{choice=red}");
    prints("full-pass{text_of_it=a}", "full-pass{text-of-it=a}");
    prints("full-pass{text-of-it=\"\"}", "full-pass{text-of-it=\"\"}");
    prints("full-pass{list=one}", "full-pass{list=[one]}");
    prints("full-pass{list=[\"a b\",\"c,d\",/e*]}", "full-pass{list=[\"a b\",\"c,d\",/e*]}");
    prints("full-pass{list=[\"\\u00e4\\u20ac\\n\\\"\\\\\\/\"]}",
           "full-pass{list=[\"\xc3\xa4\xe2\x82\xac\\u000a\\\"\\\\/\"]}");
    prints("full-pass{list=[\"\\ud83d\\ude00 \\ud800\\udc00\\udbff\\udfff\"]}",
           "full-pass{list=[\"\xf0\x9f\x98\x80 \xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"]}");
    prints("full-pass{list=[\"\\udb40\\udc41 \\uffff\"]}",
           "full-pass{list=[\"\\udb40\\udc41 \xef\xbf\xbf\"]}");
}

TEST(test_values) {
    Pipeline pipeline;
    assert_true(pipeline_parse(&table, &test_arena, "full-pass,full-pass{choice=blue,list=[a,b]}",
                               &pipeline, NULL));
    const Options *plain = pipeline.steps.items[0].options, *set = pipeline.steps.items[1].options;
    assert_true(plain->on && !plain->off && plain->number == 42 && !plain->text);
    assert_int_equal(plain->choice, 1);
    assert_int_equal(plain->other, 0);
    assert_int_equal(plain->list.count, 0);
    assert_int_equal(set->choice, 2);
    assert_int_equal(set->list.count, 2);
    assert_string_equal(set->list.items[1], "b");
}

static const char *const mistakes[][2] = {
    {",", "character 1: pipeline: expected the name of a pass"},
    {"types,", "character 7: pipeline: expected the name of a pass"},
    {"types shapes", "character 7: pipeline: expected ',' between passes"},
    {"types}", "character 6: pipeline: expected ',' between passes"},
    {"typos", "pipeline: unknown pass 'typos'; hint: did you mean 'types'?"},
    {"nothing-like-it", "pipeline: unknown pass 'nothing-like-it'"},
    {"full-pass{", "pipeline: pass 'full-pass' has no option ''"},
    {"full-pass{number}", "character 17: pipeline: expected '=' after an option's name"},
    {"full-pass{numbr=1}",
     "pipeline: pass 'full-pass' has no option 'numbr'; hint: did you mean 'number'?"},
    {"full-pass{number=1", "character 19: pipeline: expected ',' or '}' after an option"},
    {"full-pass{number=}", "character 18: pipeline: a value is missing"},
    {"full-pass{number=1x}",
     "pipeline: option 'number' has a wrong value: expected an integer, got '1x'"},
    {"full-pass{number=9223372036854775808}",
     "pipeline: option 'number' has a wrong value: expected an integer, got '9223372036854775808'"},
    {"full-pass{on=yes}",
     "pipeline: option 'on' has a wrong value: expected true or false, got 'yes'"},
    {"full-pass{choice=pink}",
     "pipeline: option 'choice' has a wrong value: expected red or green or "
     "blue, got 'pink'"},
    {"full-pass{list=[a b]}", "character 19: pipeline: expected ',' or ']' in a list"},
    {"full-pass{list=[a,]}", "character 19: pipeline: a value is missing"},
    {"full-pass{list=[\"a]}", "character 21: pipeline: a string is not closed"},
    {"full-pass{list=[\"\\x\"]}", "character 20: pipeline: unknown escape in a string"},
    {"full-pass{list=[\"\\u12\"]}", "character 22: pipeline: \\u needs four hexadecimal digits"},
    {"full-pass{list=[\"\\u0000\"]}", "character 24: pipeline: a string cannot contain NUL"},
    {"full-pass{list=[\"\\udc00\"]}",
     "character 24: pipeline: a string has an incomplete character"},
    {"full-pass{list=[\"\\udc00\\udc00\"]}",
     "character 24: pipeline: a string has an incomplete character"},
    {"full-pass{list=[\"\\ud83d\"]}",
     "character 24: pipeline: a string has an incomplete character"},
    {"full-pass{list=[\"\\ud83d\\u0041\"]}",
     "character 30: pipeline: a string has an incomplete character"},
    {"full-pass{list=[\"\\", "character 19: pipeline: unknown escape in a string"},
    {"full-pass{number=1,number=2}", "pipeline: option 'number' is given twice"},
    {"types{on=true}", "pipeline: pass 'types' has no option 'on'"},
};

TEST(test_mistakes) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        Err err = {0};
        Pipeline pipeline;
        char line[1024];
        if (pipeline_parse(&table, &test_arena, mistakes[i][0], &pipeline, &err))
            fail_msg("accepted: %s", mistakes[i][0]);
        err_format(&err, line, sizeof line);
        if (strcmp(line, mistakes[i][1]) != 0)
            fail_msg("%s: '%s' instead of '%s'", mistakes[i][0], line, mistakes[i][1]);
        assert_int_equal(err.code, ERR_USAGE);
    }
}

/* ---- generated pipelines --------------------------------------------------------------------- */

static const char *some_text(uint64_t *random) {
    static const char letters[] = "ab/*?.,{}[]=\" \t\n\\\x01\x7f\xc3\xa4\xff:0-_";
    char *text = arena_alloc(&test_arena, 12);
    uint32_t length = test_random(random, 11);
    for (uint32_t i = 0; i < length; i++)
        text[i] = letters[test_random(random, sizeof letters - 1)];
    return text;
}

static PassStrings some_texts(uint64_t *random) {
    PassStrings list = {.count = test_random(random, 4)};
    list.items = ARENA_ARRAY(&test_arena, const char *, list.count);
    for (size_t i = 0; i < list.count; i++) list.items[i] = some_text(random);
    return list;
}

static Options some_options(uint64_t *random) {
    static const int64_t numbers[] = {0, 42, -1, INT64_MAX, INT64_MIN};
    Options options = {.on = test_random(random, 2),
                       .off = test_random(random, 2),
                       .number = numbers[test_random(random, 5)],
                       .choice = (int)test_random(random, 3),
                       .other = (int)test_random(random, 3)};
    options.text = test_random(random, 2) ? some_text(random) : NULL;
    options.list = some_texts(random);
    return options;
}

static void same_options(const Options *a, const Options *b) {
    assert_true(a->on == b->on && a->off == b->off && a->number == b->number);
    assert_true(a->choice == b->choice && a->other == b->other);
    assert_int_equal(a->text != NULL, b->text != NULL);
    if (a->text) assert_string_equal(a->text, b->text);
    assert_int_equal(a->list.count, b->list.count);
    for (size_t i = 0; i < a->list.count; i++)
        assert_string_equal(a->list.items[i], b->list.items[i]);
}

TEST(test_generated) {
    enum { ROUNDS = 5000, STEPS = 4 };
    static uint64_t random = 7;
    static Options options[STEPS];
    for (int round = 0; round < ROUNDS; round++) {
        Err err = {0};
        Pipeline made = {0}, read;
        uint32_t count = test_random(&random, STEPS + 1);
        for (uint32_t i = 0; i < count; i++) {
            options[i] = some_options(&random);
            const PassInfo *info = rows[test_random(&random, 3)];
            PassStep step = {.info = info, .options = &options[i]};
            VEC_PUSH(&test_arena, &made.steps, step);
        }
        const char *text = pipeline_print(&made, &test_arena);
        if (!pipeline_parse(&table, &test_arena, text, &read, &err))
            fail_msg("%s: %s", text, err.what);
        assert_int_equal(read.steps.count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_ptr_equal(read.steps.items[i].info, made.steps.items[i].info);
            if (read.steps.items[i].info == &full)
                same_options(read.steps.items[i].options, &options[i]);
        }
        assert_string_equal(pipeline_print(&read, &test_arena), text);
        arena_free(&test_arena);
    }
}

/* ---- facts and running ----------------------------------------------------------------------- */

TEST(test_facts) {
    static const char *const cases[][2] = {
        {"", NULL},
        {"types,shapes,user", NULL},
        {"types,shapes,breaker,shapes,user", NULL},
        {"shapes",
         "pass 'shapes' needs dtypes, which no earlier pass provides; hint: put infer-dtypes "
         "before it"},
        {"types,user",
         "pass 'user' needs shapes, which no earlier pass provides; hint: put infer-shapes "
         "before it"},
        {"types,shapes,breaker,user", "pass 'user' needs shapes, which an earlier pass has "
                                      "invalidated; hint: put infer-shapes before it"},
        {"types,breaker,user",
         "pass 'user' needs shapes, which no earlier pass provides; hint: put "
         "infer-shapes before it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Err err = {0};
        char line[1024];
        Pipeline pipeline;
        assert_true(pipeline_parse(&table, &test_arena, cases[i][0], &pipeline, NULL));
        assert_int_equal(pipeline_check(&pipeline, &err), cases[i][1] == NULL);
        err_format(&err, line, sizeof line);
        assert_string_equal(line, cases[i][1] ? cases[i][1] : "");
        assert_int_equal(err.code, cases[i][1] ? ERR_USAGE : ERR_NONE);
    }
}

typedef struct Log {
    char names[100];
    uint64_t rewrites;
} Log;

static void after(void *data, const PassStep *step, const PassCounts *counts, double seconds) {
    Log *log = data;
    strcat(log->names, step->info->name);
    strcat(log->names, " ");
    log->rewrites = counts->rewrites;
    assert_true(seconds >= 0);
}

static bool run(const char *text, Log *log, bool verify_each, Err *err) {
    Arena scratch;
    Pipeline pipeline;
    PassCounts counts = {0};
    Model *model = test_model("g (float x) => (float y) { y = Relu (x) }\n");
    arena_init(&scratch, &test_trap);
    PassCtx ctx = {.model = model, .scratch = &scratch, .counts = &counts};
    PipelineOptions options = {.verify_each = verify_each, .after = after, .data = log};
    assert_true(pipeline_parse(&table, &test_arena, text, &pipeline, err));
    bool ok = pipeline_run(&pipeline, &ctx, &options, err);
    assert_null(scratch.chunks); /* freed whatever happened */
    model_free(model);
    return ok;
}

TEST(test_runs) {
    Log log = {.names = ""};
    Err err = {0};
    char line[1024];
    assert_true(run("types,full-pass", &log, true, &err));
    assert_string_equal(log.names, "types full-pass ");
    assert_int_equal(log.rewrites, 3); /* of one pass, not of both */
    log.names[0] = '\0';
    assert_false(run("user,types", &log, false, &err)); /* nothing runs before all is checked */
    assert_string_equal(log.names, "");
    err = (Err){0};
    assert_false(run("types,failing,types", &log, false, &err));
    assert_string_equal(log.names, "types ");
    assert_string_equal(err.what, "it went wrong");
    err = (Err){0};
    log.names[0] = '\0';
    assert_true(run("wrecker,types", &log, false, &err));
    assert_false(run("wrecker,types", &log, true, &err));
    err_format(&err, line, sizeof line);
    assert_non_null(strstr(line, "pass 'wrecker' left the model invalid"));
}

TEST(test_pass_find) {
    assert_ptr_equal(pass_find(&table, "types", 5), &types);
    assert_ptr_equal(pass_find(&table, "types{", 5), &types);
    assert_ptr_equal(pass_find(&table, "dtypes", 6), &types); /* a former name */
    assert_null(pass_find(&table, "gone", 4));
    assert_null(pass_find(&table, "type", 4));
    assert_null(pass_find(&table, "", 0));
}
