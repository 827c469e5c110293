// SPDX-License-Identifier: Apache-2.0
/* A policy from options, and as the text of its pipeline. `convert` is nothing more than this text
 * being run: each setting is an option of the pass that it concerns. */
#include "convert_target.h"
#include "op_signature.h"
#include "pipeline_put.h"
#include "policy.h"
#include "policy_rules.h"
#include "quantized_format.h"
#include "runtime_rules.h"

#include <string.h>

#include "setting_names.h"
#include "simplify_text.h"

/* ---- from options ---------------------------------------------------------------------------- */

static bool read_named(ConvertPolicy *policy, const char *text, Err *err) {
    const Setting *base = &policy_settings[SETTING_BASE];
    if (text) policy->values[SETTING_BASE] = setting_choice(base, text, false);
    return !text || policy->values[SETTING_BASE] || policy_read_json(policy, text, err);
}

static bool is_choice(const Setting *setting, int64_t number) {
    int64_t last = 0;
    while (setting->choices[last + 1].word) last++;
    return number >= 1 && number <= last;
}

static bool take_number(ConvertPolicy *policy, SettingId id, int64_t number, Err *err) {
    const Setting *setting = &policy_settings[id];
    if (setting->choices && !is_choice(setting, number)) {
        err_set(err, ERR_USAGE, "options: '%s' is %lld", setting->key, (long long)number);
        err_expected(err, "a constant of demi.h");
        return false;
    }
    policy->values[id] = number;
    return true;
}

static const ConvertTarget *target_of(const ConvertPolicy *policy) {
    return convert_target(policy->values[SETTING_TO]);
}

/* NULL where nothing is quantized. */
static const QuantizedFormat *format_of(const ConvertPolicy *policy) {
    return convert_target_format(target_of(policy));
}

static bool quantizes(const ConvertPolicy *policy) {
    return convert_target_quantizes(target_of(policy));
}

/* What is quantized is named. */
static bool is_named(const ConvertPolicy *policy) {
    return policy->lists[SETTING_VALUES].count || policy->lists[SETTING_WEIGHTS].count;
}

/* The reduced type that nodes are to compute in; UNDEFINED where there is none. */
static Dtype reduced_of(const ConvertPolicy *policy) {
    _Static_assert(CHOICE_COUNT(REST) == 5, "what each means is said here");
    if (target_of(policy)->kind == TARGET_REDUCED) return target_of(policy)->dtype;
    switch (policy->values[SETTING_REST]) {
    case DEMI_REST_FLOAT16: return DTYPE_FLOAT16;
    case DEMI_REST_BFLOAT16: return DTYPE_BFLOAT16;
    default: return DTYPE_UNDEFINED;
    }
}

/* Lists grow; of others what was said last counts. */
static bool take_options(ConvertPolicy *policy, const DemiConvertOptions *options, Err *err) {
    for (SettingId id = 0; id < SETTING_COUNT; id++) {
        const Setting *setting = &policy_settings[id];
        if (setting_is_list(setting)) {
            SettingWords words = setting_words(setting, options);
            for (size_t i = 0; i < words.count; i++)
                VEC_PUSH(policy->arena, &policy->lists[id], words.items[i]);
            continue;
        }
        int64_t number = setting_number(setting, options);
        if (number && !take_number(policy, id, number, err)) return false;
    }
    return true;
}

/* The lists of the type, which those that are quantized do without. */
static int64_t usual_base(const ConvertPolicy *policy) {
    return reduced_of(policy) ? convert_target_of(reduced_of(policy)) : DEMI_TO_FLOAT16;
}

static bool needs_blocks(const ConvertPolicy *policy) {
    return quantizes(policy) && format_of(policy)->block;
}

/* What nobody said: a list that is made for a type says that type, and a type has a list. */
static void settle(ConvertPolicy *policy) {
    int64_t *values = policy->values;
    if (!values[SETTING_TO] && values[SETTING_BASE] == DEMI_TO_BFLOAT16)
        values[SETTING_TO] = DEMI_TO_BFLOAT16;
    if (!values[SETTING_TO]) values[SETTING_TO] = policy_settings[SETTING_TO].otherwise;
    if (!values[SETTING_RUNTIME])
        values[SETTING_RUNTIME] = policy_settings[SETTING_RUNTIME].otherwise;
    policy_settle_rules(policy);
    if (!values[SETTING_REST] && needs_blocks(policy))
        values[SETTING_REST] = DEMI_REST_INT8_WEIGHTS;
    for (SettingId id = 0; id < SETTING_COUNT; id++)
        if (!values[id]) values[id] = policy_settings[id].otherwise;
    if (!values[SETTING_BASE]) values[SETTING_BASE] = usual_base(policy);
    if (values[SETTING_OPSET] == DEMI_OPSET_DEFAULT)
        values[SETTING_OPSET] =
            values[SETTING_TO] == DEMI_TO_FLOAT16 || target_of(policy)->kind == TARGET_FULL
                ? DEMI_OPSET_KEEP
                : DEMI_OPSET_AUTO;
}

static PassStrings strings_of(const ConvertPolicy *policy, SettingId list) {
    return (PassStrings){policy->lists[list].items, policy->lists[list].count};
}

static void put_back(ConvertPolicy *policy, SettingId list, PassStrings names) {
    policy->lists[list].items = names.items;
    policy->lists[list].count = policy->lists[list].capacity = names.count;
}

const OpClasses *policy_classes(const ConvertPolicy *policy, Err *err) {
    OpSignatures declared;
    PassStrings texts = strings_of(policy, SETTING_SCHEMAS);
    if (!op_signatures_parse(&texts, policy->arena, &declared, err)) return NULL;
    OpClassLists lists = {.low = strings_of(policy, SETTING_LOW),
                          .fp32 = strings_of(policy, SETTING_FP32),
                          .follow = strings_of(policy, SETTING_FOLLOW),
                          .widest = strings_of(policy, SETTING_WIDEST),
                          .fp32_when = strings_of(policy, SETTING_CONDITIONAL),
                          .declared = declared.items,
                          .declared_count = declared.count};
    return op_classes_new((Policy)(policy->values[SETTING_BASE] - 1), &lists, policy->arena, err);
}

static bool reduce_lists(ConvertPolicy *policy, Err *err) {
    const OpClasses *classes = policy_classes(policy, err);
    if (!classes) return false;
    OpClassLists changes = op_classes_changes(classes, policy->arena);
    put_back(policy, SETTING_LOW, changes.low);
    put_back(policy, SETTING_FP32, changes.fp32);
    put_back(policy, SETTING_FOLLOW, changes.follow);
    put_back(policy, SETTING_WIDEST, changes.widest);
    return true;
}

static bool is_said(const ConvertPolicy *policy, SettingId id) {
    if (setting_is_list(&policy_settings[id])) return policy->lists[id].count;
    return policy->values[id] != policy_settings[id].otherwise;
}

/* What another target alone heeds. */
static bool check_targets(const ConvertPolicy *policy, Err *err) {
    static const SettingId sixteen[] = {SETTING_LOW,        SETTING_FP32,        SETTING_FOLLOW,
                                        SETTING_WIDEST,     SETTING_CONDITIONAL, SETTING_IO,
                                        SETTING_LOW_INPUTS, SETTING_LOW_OUTPUTS, SETTING_PLACEMENT,
                                        SETTING_PARAMETERS, SETTING_OVERFLOW};
    const bool of_values = target_of(policy)->kind == TARGET_VALUES;
    const bool full = target_of(policy)->kind == TARGET_FULL;
    for (size_t i = 0; !reduced_of(policy) && i < sizeof sixteen / sizeof *sixteen; i++)
        if (is_said(policy, sixteen[i]) && !(full && sixteen[i] == SETTING_IO))
            return err_set(err, ERR_USAGE, "'%s' only has an effect for float16 and bfloat16",
                           policy_settings[sixteen[i]].key);
    const bool integers = of_values && dtype_is_integer(format_of(policy)->dtype);
    if (!of_values && is_said(policy, SETTING_ACTIVATIONS))
        return err_set(err, ERR_USAGE, "'activations' only has an effect for int8 and fp8");
    if (!integers && is_said(policy, SETTING_SYMMETRIC) && !policy->lists[SETTING_VALUES].count)
        return err_set(err, ERR_USAGE, "'symmetric' only has an effect for int8");
    if (!quantizes(policy) && is_said(policy, SETTING_REST))
        return err_set(err, ERR_USAGE, "'rest' only has an effect with quantization");
    if (policy->values[SETTING_REST] == DEMI_REST_INT8_WEIGHTS && !needs_blocks(policy) &&
        !of_values)
        return err_set(
            err, ERR_USAGE,
            "rest 'int8-weights' only has an effect for int8, fp8, and weights that have "
            "blocks, such as int4-weights");
    if (!quantizes(policy) && is_said(policy, SETTING_BLOCK) &&
        !policy->lists[SETTING_WEIGHTS].count)
        return err_set(err, ERR_USAGE, "'block' only has an effect for quantized weights");
    if (quantizes(policy) && is_said(policy, SETTING_BLOCK) && format_of(policy)->scales)
        return err_set(err, ERR_USAGE, "'block' has no effect for %s, whose blocks are of %u",
                       format_of(policy)->word, (unsigned)format_of(policy)->block);
    if (target_of(policy)->kind == TARGET_ROWS && is_said(policy, SETTING_BLOCK))
        return err_set(
            err, ERR_USAGE,
            "'block' has no effect for int8-dynamic, whose weights have one scale per channel");
    if (!convert_target_has_weights_alone(target_of(policy)) && is_said(policy, SETTING_ROUNDING) &&
        !policy->lists[SETTING_WEIGHTS].count)
        return err_set(err, ERR_USAGE,
                       "'rounding' only has an effect for weight-only quantization");
    return true;
}

static bool check_rules(const ConvertPolicy *policy, Err *err) {
    if (!quantizes(policy) && !is_named(policy) && is_said(policy, SETTING_RUNTIME) &&
        !(reduced_of(policy) && *policy_rules(policy)->casts))
        return err_set(err, ERR_USAGE, "'runtime' %s only has an effect with quantization",
                       policy_runtime(policy));
    return policy_check_rules(policy, err);
}

static bool check_conflicts(const ConvertPolicy *policy, Err *err) {
    bool named =
        policy->lists[SETTING_LOW_INPUTS].count || policy->lists[SETTING_LOW_OUTPUTS].count;
    if (policy->values[SETTING_OVERFLOW] == DEMI_OVERFLOW_CLAMP &&
        policy->values[SETTING_PARAMETERS] == DEMI_PARAMETERS_RUNTIME) {
        err_set(err, ERR_USAGE, "overflow 'clamp' needs parameters 'offline' or 'both'");
        err_hint(err, "a cast at run time does not clamp");
        return false;
    }
    if (!check_targets(policy, err) || !check_rules(policy, err)) return false;
    if (!named || policy->values[SETTING_IO] != DEMI_IO_LOW) return true;
    return err_set(err, ERR_USAGE, "give io 'low' or a list of inputs or outputs, not both");
}

bool policy_read_options(ConvertPolicy *policy, const DemiConvertOptions *options, Arena *arena,
                         Err *err) {
    *policy = (ConvertPolicy){.arena = arena};
    return read_named(policy, options->policy, err) && take_options(policy, options, err);
}

bool policy_from_options(ConvertPolicy *policy, const DemiConvertOptions *options, Arena *arena,
                         Err *err) {
    if (!policy_read_options(policy, options, arena, err)) return false;
    for (SettingId id = 0; id < SETTING_COUNT; id++) policy->given[id] = policy->values[id];
    settle(policy);
    return reduce_lists(policy, err) && check_conflicts(policy, err);
}

/* ---- as a pipeline --------------------------------------------------------------------------- */

/* True where a pipeline says nothing of it: it is what the pass does anyway. */
static bool is_silent(const ConvertPolicy *policy, SettingId id) {
    switch (policy_settings[id].kind) {
    case KIND_TARGET:
    case KIND_IO: return false;
    case KIND_BASE: return policy->values[id] == usual_base(policy);
    case KIND_OPSET:
        return policy->values[id] == DEMI_OPSET_AUTO || policy->values[id] == DEMI_OPSET_KEEP;
    case KIND_CHOICE:
    case KIND_NUMBER:
    case KIND_COUNT:
    case KIND_FLAG: return policy->values[id] == policy_settings[id].otherwise;
    case KIND_CLASS:
    case KIND_NAMES:
    case KIND_OPERATORS:
    case KIND_CONDITIONS:
    case KIND_DTYPES:
    case KIND_RANGES:
    case KIND_PART: break;
    }
    return policy->lists[id].count == 0;
}

static void put_setting(PipelineText *text, const ConvertPolicy *policy, SettingId id,
                        const char *key) {
    const Setting *setting = &policy_settings[id];
    if (!key || is_silent(policy, id)) return;
    if (setting_is_list(setting))
        pipeline_put_list(text, key, policy->lists[id].items, policy->lists[id].count);
    else if (setting->choices)
        pipeline_put_choice(text, key, setting->choices[policy->values[id]].word);
    else if (setting->kind == KIND_FLAG)
        pipeline_put_choice(text, key, "true");
    else
        pipeline_put_choice(text, key,
                            arena_printf(text->arena, "%lld", (long long)policy->values[id]));
}

/* Settings that are options of a pass: what is always said, choices, then all others. */
static void put_settings(PipelineText *text, const ConvertPolicy *policy, SettingPass pass) {
    for (int turn = 0; turn < 3; turn++)
        for (SettingId id = 0; id < SETTING_COUNT; id++) {
            SettingKind kind = policy_settings[id].kind;
            bool always = kind == KIND_TARGET || kind == KIND_IO;
            if (turn == (always ? 0 : kind == KIND_CHOICE ? 1 : 2))
                put_setting(text, policy, id, policy_settings[id].passes[pass]);
        }
}

/* ---- options of the passes, but what others say of them ---------------------------------------- */

static void say_schemas(PipelineText *text, const ConvertPolicy *policy) {
    put_settings(text, policy, SETTINGS_OF_DECLARE_OPS);
}

static void say_inputs(PipelineText *text, const ConvertPolicy *policy) {
    put_settings(text, policy, SETTINGS_OF_INFER_DTYPES);
}

static void say_opset_needed(PipelineText *text, const ConvertPolicy *policy) {
    put_settings(text, policy, SETTINGS_OF_UPGRADE_OPSET);
    put_settings(text, policy, SETTINGS_OF_NODES);
}

static void say_opset_given(PipelineText *text, const ConvertPolicy *policy) {
    put_setting(text, policy, SETTING_OPSET, "to");
}

/* What becomes float32 first: what is neither the target's type nor to stay. */
static void say_sources(PipelineText *text, const ConvertPolicy *policy) {
    const Dtype reduced = reduced_of(policy);
    const bool stays =
        quantizes(policy) && (policy->values[SETTING_REST] == DEMI_REST_KEEP ||
                              policy->values[SETTING_REST] == DEMI_REST_INT8_WEIGHTS);
    if (stays) pipeline_put_choice(text, "keep", "reduced");
    if (reduced) pipeline_put_choice(text, "keep", dtype_name(reduced));
    if (target_of(policy)->kind == TARGET_FULL) pipeline_put_choice(text, "double", "always");
    if (target_of(policy)->kind == TARGET_HALVED)
        pipeline_put_choice(text, "stored", dtype_name(target_of(policy)->dtype));
    if (policy->values[SETTING_IO] == DEMI_IO_LOW) pipeline_put_choice(text, "io", "low");
}

static void say_halved(PipelineText *text, const ConvertPolicy *policy) {
    pipeline_put_choice(text, "to", dtype_name(target_of(policy)->dtype));
}

static void say_formats(PipelineText *text, const ConvertPolicy *policy) {
    pipeline_put_choice(text, "weights", quantizes(policy) ? format_of(policy)->word : "none");
    if (policy->values[SETTING_REST] == DEMI_REST_INT8_WEIGHTS)
        pipeline_put_choice(text, "others", "int8");
}

static void say_all(PipelineText *text, const ConvertPolicy *policy) {
    (void)policy;
    pipeline_put_choice(text, "all", "true");
}

static void say_chosen(PipelineText *text, const ConvertPolicy *policy) {
    put_setting(text, policy, SETTING_KEEP, "keep");
    put_setting(text, policy, SETTING_KEEP_OPS, "keep-ops");
    put_setting(text, policy, SETTING_ONLY, "only");
}

static void say_products(PipelineText *text, const ConvertPolicy *policy) {
    pipeline_put_choice(text, "products", "true");
    say_chosen(text, policy);
}

/* Which weights stay is for what stores them to say: its formats and blocks. */
static void say_stored_otherwise(PipelineText *text, const ConvertPolicy *policy) {
    PipelineText insert = {.arena = text->arena};
    pipeline_put_choice(text, "products", "true");
    pipeline_put_pass(&insert, "insert-qdq");
    say_formats(&insert, policy);
    put_setting(&insert, policy, SETTING_BLOCK, "block");
    pipeline_put_options(&insert, policy_rules(policy)->passes);
    pipeline_end_pass(&insert);
    pipeline_put_string(text, "insert", pipeline_text(&insert));
    if (target_of(policy)->kind == TARGET_WEIGHTS) pipeline_put_choice(text, "rows", "true");
    say_chosen(text, policy);
}

static void say_weights_folded(PipelineText *text, const ConvertPolicy *policy) {
    pipeline_put_choice(text, "weights", "true");
    if (needs_blocks(policy)) pipeline_put_choice(text, "matrices", "true");
    say_chosen(text, policy);
}

/* Of 16 bits, where that is what values have. */
static void say_levels(PipelineText *text, const ConvertPolicy *policy) {
    const Dtype dtype = quantized_value_types[policy->values[SETTING_ACTIVATIONS]];
    if (dtype_bits(dtype) == 16) pipeline_put_choice(text, "levels", "65536");
    if (policy->values[SETTING_EQUALIZE] == DEMI_EQUALIZE_ALL)
        pipeline_put_choice(text, "convolutions", "true");
    put_settings(text, policy, SETTINGS_OF_EQUALIZE);
}

static void say_stored(PipelineText *text, const ConvertPolicy *policy) {
    (void)policy;
    pipeline_put_choice(text, "store", "true");
}

static void say_own(PipelineText *text, const ConvertPolicy *policy) {
    (void)policy;
    pipeline_put_choice(text, "own", "true");
}

static void put_simplified(PipelineText *text, const ConvertPolicy *policy) {
    (void)policy;
    simplify_put_exact(text);
}

/* Whether a Concat between quantized values would have scales of 16 bits, which ONNX Runtime does not take. */
static bool joins_in_16_bits(const ConvertPolicy *policy) {
    const int64_t runtime = policy->values[SETTING_RUNTIME];
    return target_of(policy)->kind == TARGET_VALUES && reduced_of(policy) &&
           (runtime == DEMI_RUNTIME_ANY || runtime == DEMI_RUNTIME_ONNXRUNTIME);
}

static void say_quantized(PipelineText *text, const ConvertPolicy *policy) {
    const Setting *setting = &policy_settings[SETTING_ACTIVATIONS];
    if (target_of(policy)->kind == TARGET_VALUES && !is_named(policy))
        pipeline_put_choice(text, "activations",
                            setting->choices[policy->values[SETTING_ACTIVATIONS]].word);
    if (!is_named(policy)) {
        say_formats(text, policy);
        if (joins_in_16_bits(policy)) pipeline_put_choice(text, "joins", "float");
    }
    put_settings(text, policy, SETTINGS_OF_INSERT_QDQ);
    pipeline_put_options(text, policy_rules(policy)->passes);
}

static void say_rows(PipelineText *text, const ConvertPolicy *policy) {
    put_setting(text, policy, SETTING_KEEP, "keep");
    put_setting(text, policy, SETTING_KEEP_OPS, "keep-ops");
    put_setting(text, policy, SETTING_ONLY, "only");
    /* they were matched when weights were quantized */
    pipeline_put_choice(text, "allow-unmatched", "true");
}

static void say_casts(PipelineText *text, const ConvertPolicy *policy) {
    bool runtime = policy->values[SETTING_PARAMETERS] == DEMI_PARAMETERS_RUNTIME;
    pipeline_put_choice(text, "to", dtype_name(reduced_of(policy)));
    put_settings(text, policy, SETTINGS_OF_INSERT_CASTS);
    if (runtime && policy->values[SETTING_IO] == DEMI_IO_LOW)
        pipeline_put_choice(text, "keep-defaults", "true");
    if (!runtime) pipeline_put_choice(text, "store", "true");
    pipeline_put_options(text, policy_rules(policy)->casts);
    put_settings(text, policy, SETTINGS_OF_NODES);
    /* what was measured may have been folded since; patterns were matched when weights were quantized */
    if (quantizes(policy) && !is_said(policy, SETTING_ALLOW_UNMATCHED))
        pipeline_put_choice(text, "allow-unmatched", "true");
}

static void say_parameters(PipelineText *text, const ConvertPolicy *policy) {
    _Static_assert(CHOICE_COUNT(PARAMETERS) == 3, "what each means is said here");
    pipeline_put_choice(text, "own", "true");
    if (policy->values[SETTING_PARAMETERS] == DEMI_PARAMETERS_BOTH)
        pipeline_put_choice(text, "both", "true");
    if (policy->values[SETTING_OVERFLOW] == DEMI_OVERFLOW_CLAMP)
        pipeline_put_choice(text, "overflow", "clamp");
    put_settings(text, policy, SETTINGS_OF_CAST_PARAMS);
}

/* ---- the passes -------------------------------------------------------------------------------- */

enum {
    ALWAYS = 0,
    SCHEMAS = 1 << 0,
    SIMPLIFIED = 1 << 1,
    OPSET_NEEDED = 1 << 2, /* the first at which the target is legal */
    OPSET_GIVEN = 1 << 3,
    QDQ = 1 << 4,
    WHOLE = 1 << 5,
    FOLDED = 1 << 6,
    CASTS = 1 << 7,
    STORED = 1 << 8,
    SOURCES = 1 << 9,      /* types that the model may be in besides float32 */
    UNQUANTIZED = 1 << 10, /* what is quantized is not to be */
    HALVED = 1 << 11,      /* weights take 16 bits, nodes 32 */
    EQUALIZED = 1 << 12,   /* channels are scaled so that they can share a scale */
    VALUES = 1 << 13,      /* activations are quantized, too */
    ROWS = 1 << 14,        /* rows are quantized when the model runs */
    WEIGHTS = 1 << 15,     /* weights alone are quantized in the file */
};

PolicyEqualizes policy_equalizes(const ConvertPolicy *policy) {
    _Static_assert(CHOICE_COUNT(EQUALIZE) == 4, "what each means is said here");
    const int64_t choice = policy->values[SETTING_EQUALIZE];
    const bool of_values = target_of(policy)->kind == TARGET_VALUES && !is_named(policy) &&
                           dtype_is_integer(format_of(policy)->dtype);
    if (choice == DEMI_EQUALIZE_NEVER) return POLICY_EQUALIZES_NOT;
    if (choice == DEMI_EQUALIZE_WEIGHTS || policy->lists[SETTING_CHANNEL_SCALES].count)
        return POLICY_EQUALIZES;
    return of_values ? POLICY_EQUALIZES_BY_DATA : POLICY_EQUALIZES_NOT;
}

static unsigned conditions(const ConvertPolicy *policy) {
    const int64_t *values = policy->values, opset = values[SETTING_OPSET];
    const bool whole = !is_named(policy), of_values = target_of(policy)->kind == TARGET_VALUES;
    unsigned holds = policy->lists[SETTING_SCHEMAS].count ? SCHEMAS : 0;
    if (values[SETTING_SIMPLIFY]) holds |= SIMPLIFIED;
    if (opset != DEMI_OPSET_KEEP) holds |= opset == DEMI_OPSET_AUTO ? OPSET_NEEDED : OPSET_GIVEN;
    if (!whole || quantizes(policy)) holds |= QDQ;
    if (whole) holds |= of_values ? WHOLE | VALUES : WHOLE;
    if (whole && values[SETTING_SOURCE] == DEMI_SOURCE_ANY) holds |= SOURCES;
    if (target_of(policy)->kind == TARGET_FULL) holds |= UNQUANTIZED;
    if (target_of(policy)->kind == TARGET_ROWS && whole) holds |= ROWS;
    if (convert_target_has_weights_alone(target_of(policy))) holds |= WEIGHTS;
    if (target_of(policy)->kind == TARGET_HALVED) holds |= HALVED;
    /* of what is named, names are those of the model as it is */
    if ((whole && of_values) || values[SETTING_FOLD]) holds |= FOLDED;
    const PolicyEqualizes equalizes = policy_equalizes(policy);
    if (equalizes == POLICY_EQUALIZES || (equalizes && policy->measures)) holds |= EQUALIZED;
    if (reduced_of(policy)) holds |= CASTS;
    if (values[SETTING_PARAMETERS] != DEMI_PARAMETERS_RUNTIME) holds |= STORED;
    return holds;
}

const char *policy_remark(const ConvertPolicy *policy) {
    const Setting *activations = &policy_settings[SETTING_ACTIVATIONS];
    const bool values = target_of(policy)->kind == TARGET_VALUES;
    const bool by_rows = target_of(policy)->kind == TARGET_ROWS;
    if (!quantizes(policy) || is_named(policy) || is_said(policy, SETTING_RUNTIME)) return NULL;
    const char *runtimes =
        runtimes_of(values ? activations->choices[policy->values[SETTING_ACTIVATIONS]].word : NULL,
                    format_of(policy), by_rows, policy->arena);
    const char *what = by_rows
                           ? policy_settings[SETTING_TO].choices[policy->values[SETTING_TO]].word
                           : format_of(policy)->word;
    return runtimes ? arena_printf(policy->arena, "runtimes that take %s%s: %s", what,
                                   values || by_rows ? "" : " weights", runtimes)
                    : NULL;
}

typedef struct ConvertPass {
    const char *name;
    unsigned when;
    void (*options)(PipelineText *text, const ConvertPolicy *policy);
} ConvertPass;

static const ConvertPass passes[] = {
#define PASS(name, when, options) {name, when, options},
#include "convert_passes.def"
};

const char *policy_quantizer(const ConvertPolicy *policy) {
    PipelineText text = {.arena = policy->arena};
    pipeline_put_pass(&text, "insert-qdq");
    say_quantized(&text, policy);
    pipeline_end_pass(&text);
    return pipeline_text(&text);
}

const char *policy_pipeline(const ConvertPolicy *policy) {
    const unsigned holds = conditions(policy);
    PipelineText text = {.arena = policy->arena};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i].when & ~holds) continue;
        if (passes[i].name) pipeline_put_pass(&text, passes[i].name);
        if (!passes[i].options) continue;
        passes[i].options(&text, policy);
        pipeline_end_pass(&text);
    }
    return pipeline_text(&text);
}
