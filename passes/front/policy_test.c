// SPDX-License-Identifier: Apache-2.0
/* Policies as JSON: what is read and written is the same, broken text is refused and never more
 * than that. The words of single errors are tested through the command (tools/suites/cli_test.py).
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "convert_target.h"
#include "policy.h"
#include "quantized_format.h"
#include "test_locale.h"
#include "unit_test.h"

static const char whole[] =
    "{\"policy\": \"fast\", \"to\": \"bfloat16\", \"opset\": 25, \"low\": {\"add\": [\"Softmax\"]},"
    " \"fp32\": {\"add\": [\"Relu\"]}, \"follow\": {\"remove\": [\"Abs\"]}, \"widest\": [\"Add\"],"
    " \"conditional\": [{\"operator\": \"Softmax\", \"attribute\": \"axis\", \"values\": [1, -1]}],"
    " \"keep\": [\"a*\", \"\\u00e4\"], \"keep_ops\": [\"Sin\"], \"only\": [\"re:.*\"],"
    " \"inputs\": {\"x\": \"float\"}, \"io\": {\"inputs\": [\"x\"], \"outputs\": []},"
    " \"placement\": \"greedy\", \"ranges\": {\"h=1\": 3e4, \"k\": 7}, \"range_margin\": 4,"
    " \"parameters\": \"both\", \"overflow\": \"error\", \"allow_unmatched\": true,"
    " \"schemas\": [\"com.x.Op(T, int64?, T...) -> (T, float); T = float|float16\"]}";

static const char int8_policy[] =
    "{\"to\": \"int8\", \"activations\": \"int16\", \"symmetric\": true, \"block\": 64,"
    " \"keep\": [\"a*\"], \"only\": [\"b\"], \"keep_ops\": [\"Conv\"], \"allow_unmatched\": true,"
    " \"ranges\": {\"h=1\": [-0.1, 3e4], \"k\": 7}}";

static const char *pipeline_of(const char *json, Arena *arena, Err *err) {
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    ConvertPolicy policy;
    options.policy = json;
    return policy_from_options(&policy, &options, arena, err) ? policy_pipeline(&policy) : NULL;
}

TEST(test_written_policies_read_back) {
    Err err = {0};
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    ConvertPolicy policy;
    options.policy = whole;
    assert_true(policy_from_options(&policy, &options, &test_arena, &err));
    const char *json = policy_write_json(&policy, &err);
    assert_non_null(json);
    assert_string_equal(pipeline_of(json, &test_arena, &err), policy_pipeline(&policy));
    assert_non_null(strstr(policy_pipeline(&policy), "\"Softmax.axis=-1\""));
    assert_non_null(strstr(policy_pipeline(&policy), "overflow=error"));
    assert_non_null(strstr(policy_pipeline(&policy), "placement=greedy"));
    assert_non_null(
        strstr(policy_pipeline(&policy), "ranges=[\"h=1=30000\",\"k=7\"],range-margin=4"));
    assert_non_null(strstr(policy_pipeline(&policy), "low-inputs=[\"x\"]"));
}

/* Numbers of conditions, as JSON and as options, where a program has set a locale with a comma. */
TEST(test_another_locale) {
    Err err = {0};
    test_locale_set(",");
    const char *text = pipeline_of("{\"conditional\": [{\"operator\": \"LeakyRelu\", "
                                   "\"attribute\": \"alpha\", \"values\": [0.25, [1.5, 2]]}],"
                                   "\"ranges\": {\"h\": 0.5}}",
                                   &test_arena, &err);
    assert_non_null(text);
    assert_non_null(strstr(text, "\"LeakyRelu.alpha=0.25\",\"LeakyRelu.alpha=1.5,2\""));
    assert_non_null(strstr(text, "\"h=0.5\""));
    test_locale_reset();
}

/* What is said of quantized models comes back, with the numbers of ranges to the bit; what another
 * target heeds is refused. */
TEST(test_quantized) {
    Err err = {0};
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    ConvertPolicy policy;
    options.policy = int8_policy;
    assert_true(policy_from_options(&policy, &options, &test_arena, &err));
    assert_string_equal(
        policy_pipeline(&policy),
        "upgrade-opset{for=int8,activations=int16,block=64,keep=[\"a*\"],keep-ops=[\"Conv\"],"
        "only=[\"b\"],allow-unmatched=true},infer-dtypes,to-float32{keep=reduced},infer-shapes,"
        "strip-qdq{products=true,keep=[\"a*\"],keep-ops=[\"Conv\"],only=[\"b\"]},"
        "fold-constants{weights=true,keep=[\"a*\"],keep-ops=[\"Conv\"],only=[\"b\"]},"
        "fold-batch-norm{store=true},"
        "insert-qdq{activations=int16,weights=int8,symmetric=true,block=64,keep=[\"a*\"],"
        "keep-ops=[\"Conv\"],only=[\"b\"],ranges=[\"h=1=-0.1:30000\",\"k=7\"],"
        "allow-unmatched=true}");
    assert_string_equal(pipeline_of(policy_write_json(&policy, &err), &test_arena, &err),
                        policy_pipeline(&policy));
    const char *means =
        "insert-qdq{activations=uint8,weights=int8,ranges=[\"h=-1:2:-1:0.5,-3,1e-05:0,1,-2\"]}";
    const char *const texts[] = {"h=-1:2:-1:0.5,-3,1e-05:0,1,-2"};
    DemiConvertOptions measured = DEMI_CONVERT_OPTIONS_INIT;
    measured.to = DEMI_TO_INT8;
    measured.ranges = texts;
    measured.range_count = 1;
    assert_true(policy_from_options(&policy, &measured, &test_arena, &err));
    assert_non_null(strstr(policy_pipeline(&policy), means));
    assert_non_null(
        strstr(pipeline_of(policy_write_json(&policy, &err), &test_arena, &err), means));
    const char *named = pipeline_of("{\"values\": {\"h\": \"int8\"}, \"ranges\": {\"h\": 1}, "
                                    "\"weights\": {\"w\": \"int4\"}}",
                                    &test_arena, &err);
    assert_non_null(strstr(named, "insert-qdq{ranges=[\"h=1\"],values=[\"h=int8\"],"
                                  "weights-of=[\"w=int4\"]},insert-casts{"));
    const char *rows =
        pipeline_of("{\"to\": \"int8-dynamic\", \"keep\": [\"h\"]}", &test_arena, &err);
    assert_non_null(strstr(rows, "insert-qdq{weights=int8,keep=[\"h\"]},"
                                 "quantize-rows{keep=[\"h\"],allow-unmatched=true}"));
    assert_null(pipeline_of("{\"to\": \"int8\", \"io\": \"low\"}", &test_arena, &err));
    assert_string_equal(err.what, "'io' only has an effect for float16 and bfloat16");
    err = (Err){0};
    assert_null(
        pipeline_of("{\"to\": \"int8-weights\", \"activations\": \"int8\"}", &test_arena, &err));
    assert_string_equal(err.what, "'activations' only has an effect for int8 and fp8");
    assert_null(pipeline_of("{\"ranges\": {\"h\": [2, 1]}}", &test_arena, &err));
    assert_null(pipeline_of("{\"ranges\": {\"h\": [1]}}", &test_arena, &err));
    assert_null(pipeline_of("{\"ranges\": {\"h\": [1, 2, 1]}}", &test_arena, &err));
    assert_null(pipeline_of("{\"ranges\": {\"h\": [1, 2, 1, 1]}}", &test_arena, &err));
    assert_null(pipeline_of("{\"ranges\": {\"h\": [1, 2, 1, []]}}", &test_arena, &err));
    assert_null(pipeline_of("{\"ranges\": {\"h\": [1, 2, 0.5, [1]]}}", &test_arena, &err));
    assert_null(pipeline_of("{\"ranges\": {\"h\": [1, 2, 1, [1], [1, 2]]}}", &test_arena, &err));
    assert_non_null(pipeline_of("{\"ranges\": {\"h\": [1, 2, 1, [1, 2]]}}", &test_arena, &err));
    assert_null(pipeline_of("{\"ranges\": {\"h\": [1, 2, 1, [\"a\"]]}}", &test_arena, &err));
    assert_null(pipeline_of("{\"block\": -1}", &test_arena, &err));
}

/* A shipped list says its type; an operator without floats is not an unknown one. */
TEST(test_shipped_lists) {
    Err err = {0};
    const char *bfloat16 = pipeline_of("bfloat16", &test_arena, &err);
    assert_non_null(bfloat16);
    assert_string_equal(bfloat16, pipeline_of("{\"to\": \"bfloat16\"}", &test_arena, &err));
    const char *both =
        pipeline_of("{\"policy\": \"bfloat16\", \"to\": \"float16\"}", &test_arena, &err);
    assert_non_null(strstr(both, "to=float16"));
    assert_null(pipeline_of("{\"low\": {\"add\": [\"MatMulInteger\"]}}", &test_arena, &err));
    assert_string_equal(
        err.what,
        "low-ops: 'MatMulInteger' has no class, because it has no floating-point operands");
}

/* Numbers that a program made up, or that a later demi.h has. */
TEST(test_no_choice) {
    for (SettingId id = 0; id < SETTING_COUNT; id++) {
        if (!policy_settings[id].choices || policy_settings[id].kind == KIND_BASE) continue;
        for (int number = -1; number < 100; number += 100) {
            DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
            ConvertPolicy policy;
            Err err = {0};
            setting_put_number(&policy_settings[id], &options, number);
            assert_false(policy_from_options(&policy, &options, &test_arena, &err));
            assert_int_equal(err.code, ERR_USAGE);
            assert_non_null(strstr(err.what, policy_settings[id].key));
        }
    }
}

TEST(test_empty_is_the_default) {
    Err err = {0};
    const char *usual = pipeline_of(NULL, &test_arena, &err);
    assert_string_equal(pipeline_of("{}", &test_arena, &err), usual);
    assert_string_equal(pipeline_of("float16", &test_arena, &err), usual);
    assert_null(pipeline_of("[]", &test_arena, &err));
    assert_int_equal(err.code, ERR_USAGE);
}

/* Every prefix, and bytes changed at random: refused with ERR_USAGE, or understood. */
TEST(test_broken_text) {
    srand(1);
    for (size_t i = 1; i < 4 * sizeof whole; i++) {
        char text[sizeof whole];
        Err err = {0};
        memcpy(text, whole, sizeof whole);
        if (i < sizeof whole)
            text[i - 1] = '\0';
        else
            text[(size_t)rand() % (sizeof whole - 1)] = "{}[]\",:x1\\+-*."[rand() % 14];
        const char *pipeline = pipeline_of(text, &test_arena, &err);
        assert_true(pipeline ? err.code == ERR_NONE : err.code == ERR_USAGE);
        assert_true(!pipeline || i >= sizeof whole);
        arena_free(&test_arena);
    }
}

/* Something that a setting can be told: each is `turn` of them, until there is none. */
static bool tell(const Setting *setting, int turn, DemiConvertOptions *options, const char **word) {
    static const char *const words[] = {
        [KIND_CLASS] = "-*",       [KIND_NAMES] = "com.x.Op(T) -> T; T = float|float16",
        [KIND_OPERATORS] = "Sin",  [KIND_CONDITIONS] = "Resize.mode=cubic",
        [KIND_DTYPES] = "x=float", [KIND_RANGES] = "h=3",
        [KIND_PART] = "x",
    };
    int last = 0;
    bool quantizes = setting == &policy_settings[SETTING_ACTIVATIONS] ||
                     setting == &policy_settings[SETTING_SYMMETRIC] ||
                     setting == &policy_settings[SETTING_REST] ||
                     setting == &policy_settings[SETTING_RUNTIME] ||
                     setting == &policy_settings[SETTING_BLOCK];
    if (quantizes) options->to = DEMI_TO_INT8;
    if (setting == &policy_settings[SETTING_ACTIVATIONS] && turn == DEMI_ACTIVATIONS_FP8)
        options->to = DEMI_TO_FP8; /* the usual of it */
    if (setting == &policy_settings[SETTING_REST])
        options->to = DEMI_TO_INT4_WEIGHTS;        /* takes all */
    static const char *const scales[] = {"h=0,1"}; /* what is never heeded must be there */
    if (setting == &policy_settings[SETTING_EQUALIZE]) {
        options->channel_scales = scales;
        options->channel_scale_count = 1;
    }
    if (setting == &policy_settings[SETTING_ROUNDING]) options->to = DEMI_TO_INT4_WEIGHTS;
    while (setting->choices && setting->choices[last + 1].word) last++;
    if (turn > (last ? last : 1)) return false;
    *word = last ? setting->choices[turn].word : setting->key;
    if (setting->kind == KIND_BASE) {
        options->policy = *word;
    } else if (setting_is_list(setting)) {
        *word = words[setting->kind];
        setting_put_words(setting, options, (SettingWords){word, 1});
    } else {
        setting_put_number(setting, options, last ? turn : setting->kind == KIND_FLAG ? 1 : 7);
    }
    return true;
}

/* Of a target, with nothing else said. */
static const char *usual_pipeline(DemiTarget to) {
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    ConvertPolicy policy;
    Err err = {0};
    options.to = to;
    assert_true(policy_from_options(&policy, &options, &test_arena, &err));
    return policy_pipeline(&policy);
}

/* Options, the pipeline and the written policy mean the same, for every setting and choice; what is
 * not the default is heeded. Policies are written in the order of the rows. */
TEST(test_every_setting) {
    Err err = {0};
    for (SettingId id = 0; id < SETTING_COUNT; id++) {
        const Setting *setting = &policy_settings[id];
        const char *word;
        int same = 0;
        for (int turn = 1;; turn++) {
            DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
            ConvertPolicy policy;
            if (!tell(setting, turn, &options, &word)) break;
            const char *usual = usual_pipeline(id == SETTING_TO ? DEMI_TO_DEFAULT : options.to);
            assert_true(policy_from_options(&policy, &options, &test_arena, &err));
            const char *json = policy_write_json(&policy, &err),
                       *pipeline = policy_pipeline(&policy);
            assert_non_null(json);
            assert_non_null(strstr(json, arena_printf(&test_arena, "\"%s\": ", setting->key)));
            assert_string_equal(pipeline_of(json, &test_arena, &err), pipeline);
            same += strcmp(pipeline, usual) == 0;
        }
        const int usual = id == SETTING_ACTIVATIONS ? 2 : setting->choices ? 1 : 0;
        if (same > usual) fail_msg("%s is not heeded", setting->key);
    }
}

/* Options have the types of formats.def, in its order. */
TEST(test_types_of_choices) {
    const Setting *values = &policy_settings[SETTING_ACTIVATIONS];
    for (uint32_t i = 1; i < quantized_value_type_count; i++)
        assert_string_equal(values->choices[i].word,
                            quantized_format(quantized_value_types[i])->word);
    assert_null(values->choices[quantized_value_type_count].word);
    for (uint32_t i = 1; quantized_weight_words[i]; i++)
        assert_string_equal(quantized_weight_words[i],
                            quantized_format_named(quantized_weight_words[i], true)->word);
    assert_null(quantized_format_named("uint8", true));
    assert_null(quantized_format_named("int4", false));
    assert_ptr_equal(quantized_format_named("float8e4m3fn", true),
                     quantized_format_named("fp8", true));
    const QuantizedFormat *with = quantized_format_named("uint2", true);
    assert_string_equal(quantized_format_without_zeros(with)->word, "int2");
    with = quantized_format_named("nvfp4", true);
    assert_ptr_equal(quantized_format_without_zeros(with), with);
}

TEST(test_targets) {
    assert_int_equal(convert_target(DEMI_TO_FLOAT16)->dtype, DTYPE_FLOAT16);
    assert_int_equal(convert_target(DEMI_TO_INT8)->kind, TARGET_VALUES);
    assert_int_equal(convert_target(DEMI_TO_FP8_WEIGHTS)->kind, TARGET_WEIGHTS);
    for (int64_t to = 1; to <= DEMI_TO_INT2_WEIGHTS; to++) {
        const ConvertTarget *target = convert_target(to);
        const bool quantizes = convert_target_quantizes(target);
        assert_int_equal(quantizes, convert_target_format(target) != NULL);
        assert_int_equal(quantizes, target->dtype == DTYPE_UNDEFINED);
    }
    assert_int_equal(convert_target_of(DTYPE_BFLOAT16), DEMI_TO_BFLOAT16);
    assert_int_equal(convert_target_of(DTYPE_INT8), 0);
}
