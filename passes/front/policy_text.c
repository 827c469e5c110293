// SPDX-License-Identifier: Apache-2.0
/* A policy from options, and as the text of its pipeline. `convert` is nothing more than this text
 * being run: each setting is an option of the pass that it concerns. */
#include "op_signature.h"
#include "policy.h"

#include <string.h>

#include "shown.h"

const char *const policy_bases[] = {"", "float16", "bfloat16", "fast", NULL};
const char *const policy_targets[] = {"", "float16", "bfloat16", NULL};
const char *const policy_ios[] = {"", "keep", "low", NULL};
const char *const policy_parameters[] = {"", "offline", "runtime", "both", NULL};
const char *const policy_placements[] = {"", "mincut", "greedy", NULL};
const char *const policy_overflows[] = {"", "pin", "clamp", "inf", "error", NULL};

enum { DEFAULT_MARGIN = 2 }; /* insert-casts' own */

/* ---- from options ---------------------------------------------------------------------------- */

static bool read_named(ConvertPolicy *policy, const char *text, Err *err) {
    for (int i = 1; text && policy_bases[i]; i++) {
        if (strcmp(policy_bases[i], text) != 0) continue;
        policy->base = i;
        return true;
    }
    return !text || policy_read_json(policy, text, err);
}

static void take(ConvertPolicy *policy, PolicyList list, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) VEC_PUSH(policy->arena, &policy->lists[list], names[i]);
}

static void take_lists(ConvertPolicy *policy, const DemiConvertOptions *o) {
    take(policy, LIST_KEEP, o->keep, o->keep_count);
    take(policy, LIST_KEEP_OPS, o->keep_ops, o->keep_op_count);
    take(policy, LIST_INPUT_DTYPES, o->input_dtypes, o->input_dtype_count);
    take(policy, LIST_ONLY, o->only, o->only_count);
    take(policy, LIST_LOW, o->low_ops, o->low_op_count);
    take(policy, LIST_FP32, o->fp32_ops, o->fp32_op_count);
    take(policy, LIST_FOLLOW, o->follow_ops, o->follow_op_count);
    take(policy, LIST_WIDEST, o->widest_ops, o->widest_op_count);
    take(policy, LIST_CONDITIONAL, o->fp32_when, o->fp32_when_count);
    take(policy, LIST_LOW_INPUTS, o->low_inputs, o->low_input_count);
    take(policy, LIST_LOW_OUTPUTS, o->low_outputs, o->low_output_count);
    take(policy, LIST_RANGES, o->ranges, o->range_count);
    take(policy, LIST_DECLARED, o->declared_ops, o->declared_op_count);
}

/* Last what is said counts; what nobody said gets its default. */
static void settle(int *choice, int option, int otherwise) {
    if (option) *choice = option;
    if (!*choice) *choice = otherwise;
}

static PassStrings strings_of(const ConvertPolicy *policy, PolicyList list) {
    return (PassStrings){policy->lists[list].items, policy->lists[list].count};
}

static void put_back(ConvertPolicy *policy, PolicyList list, PassStrings names) {
    policy->lists[list].items = names.items;
    policy->lists[list].count = policy->lists[list].capacity = names.count;
}

const OpClasses *policy_classes(const ConvertPolicy *policy, Err *err) {
    OpSignatures declared;
    PassStrings texts = strings_of(policy, LIST_DECLARED);
    if (!op_signatures_parse(&texts, policy->arena, &declared, err)) return NULL;
    OpClassLists lists = {.low = strings_of(policy, LIST_LOW),
                          .fp32 = strings_of(policy, LIST_FP32),
                          .follow = strings_of(policy, LIST_FOLLOW),
                          .widest = strings_of(policy, LIST_WIDEST),
                          .fp32_when = strings_of(policy, LIST_CONDITIONAL),
                          .declared = declared.items,
                          .declared_count = declared.count};
    return op_classes_new((Policy)(policy->base - 1), &lists, policy->arena, err);
}

static bool reduce_lists(ConvertPolicy *policy, Err *err) {
    const OpClasses *classes = policy_classes(policy, err);
    if (!classes) return false;
    OpClassLists changes = op_classes_changes(classes, policy->arena);
    put_back(policy, LIST_LOW, changes.low);
    put_back(policy, LIST_FP32, changes.fp32);
    put_back(policy, LIST_FOLLOW, changes.follow);
    put_back(policy, LIST_WIDEST, changes.widest);
    return true;
}

static bool check_conflicts(const ConvertPolicy *policy, Err *err) {
    bool named = policy->lists[LIST_LOW_INPUTS].count || policy->lists[LIST_LOW_OUTPUTS].count;
    if (policy->overflow == DEMI_OVERFLOW_CLAMP && policy->parameters == DEMI_PARAMETERS_RUNTIME) {
        err_set(err, ERR_USAGE, "overflow 'clamp' needs parameters 'offline' or 'both'");
        err_hint(err, "a cast at run time does not clamp");
        return false;
    }
    if (!named || policy->io != DEMI_IO_LOW) return true;
    return err_set(err, ERR_USAGE,
                   "io 'low' and a list of inputs or outputs to lower exclude "
                   "each other");
}

bool policy_from_options(ConvertPolicy *policy, const DemiConvertOptions *options, Arena *arena,
                         Err *err) {
    *policy = (ConvertPolicy){.arena = arena};
    if (!read_named(policy, options->policy, err)) return false;
    take_lists(policy, options);
    bool bfloat16 = policy->base == DEMI_TO_BFLOAT16; /* the list that is made for it */
    settle(&policy->to, (int)options->to, bfloat16 ? DEMI_TO_BFLOAT16 : DEMI_TO_FLOAT16);
    settle(&policy->base, 0, policy->to);
    settle(&policy->io, (int)options->io, DEMI_IO_KEEP);
    settle(&policy->parameters, (int)options->parameters, DEMI_PARAMETERS_OFFLINE);
    settle(&policy->placement, (int)options->placement, DEMI_PLACEMENT_MINCUT);
    settle(&policy->overflow, (int)options->overflow, DEMI_OVERFLOW_PIN);
    if (options->opset != DEMI_OPSET_DEFAULT) policy->opset = options->opset;
    if (policy->opset == DEMI_OPSET_DEFAULT)
        policy->opset = policy->to == DEMI_TO_BFLOAT16 ? DEMI_OPSET_AUTO : DEMI_OPSET_KEEP;
    if (options->range_margin) policy->range_margin = options->range_margin;
    if (!policy->range_margin) policy->range_margin = DEFAULT_MARGIN;
    policy->allow_unmatched |= options->allow_unmatched;
    return check_conflicts(policy, err) && reduce_lists(policy, err);
}

/* ---- as a pipeline --------------------------------------------------------------------------- */

typedef struct Text {
    Arena *arena;
    VEC(char) out;
    bool options; /* of the pass being written: one was */
} Text;

static void put(Text *text, const char *string) {
    for (; *string; string++) VEC_PUSH(text->arena, &text->out, *string);
}

/* A JSON string, so that a pattern may hold any character. */
static void put_quoted(Text *text, const char *string) {
    put(text, "\"");
    for (size_t left = strlen(string), size; left; string += size, left -= size) {
        bool plain = shown_plain(string, left, &size);
        unsigned code = utf8_code(string, size);
        if (!plain && code <= 0xffff && (size > 1 || code < 0x80)) {
            put(text, arena_printf(text->arena, "\\u%04x", code));
            continue;
        }
        if (*string == '"' || *string == '\\') put(text, "\\");
        for (size_t i = 0; i < size; i++) VEC_PUSH(text->arena, &text->out, string[i]);
    }
    put(text, "\"");
}

static void put_key(Text *text, const char *key) {
    put(text, text->options ? "," : "{");
    put(text, key);
    put(text, "=");
    text->options = true;
}

static void put_choice(Text *text, const char *key, const char *value) {
    put_key(text, key);
    put(text, value);
}

static void put_list(Text *text, const char *key, const PolicyNames *names) {
    if (names->count == 0) return;
    put_key(text, key);
    for (size_t i = 0; i < names->count; i++) {
        put(text, i ? "," : "[");
        put_quoted(text, names->items[i]);
    }
    put(text, "]");
}

static void put_pass(Text *text, const char *name) {
    if (text->out.count) put(text, ",");
    put(text, name);
    text->options = false;
}

static void end_pass(Text *text) {
    if (text->options) put(text, "}");
}

/* Which nodes count: options of every pass that chooses among them (node_choice.h). */
static void put_nodes(Text *text, const ConvertPolicy *policy) {
    static const struct {
        const char *key;
        PolicyList list;
    } keys[] = {
        {"low-ops", LIST_LOW},       {"fp32-ops", LIST_FP32},         {"follow-ops", LIST_FOLLOW},
        {"widest-ops", LIST_WIDEST}, {"fp32-when", LIST_CONDITIONAL}, {"only", LIST_ONLY},
        {"keep", LIST_KEEP},         {"keep-ops", LIST_KEEP_OPS}};
    if (policy->base != policy->to) put_choice(text, "policy", policy_bases[policy->base]);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put_list(text, keys[i].key, &policy->lists[keys[i].list]);
    if (policy->allow_unmatched) put_choice(text, "allow-unmatched", "true");
}

static void put_insert_casts(Text *text, const ConvertPolicy *policy) {
    put_pass(text, "insert-casts");
    put_choice(text, "to", policy_targets[policy->to]);
    put_choice(text, "io", policy_ios[policy->io]);
    if (policy->placement != DEMI_PLACEMENT_MINCUT)
        put_choice(text, "placement", policy_placements[policy->placement]);
    if (policy->overflow != DEMI_OVERFLOW_PIN)
        put_choice(text, "overflow", policy_overflows[policy->overflow]);
    put_list(text, "ranges", &policy->lists[LIST_RANGES]);
    if (policy->range_margin != DEFAULT_MARGIN)
        put_choice(text, "range-margin",
                   arena_printf(text->arena, "%lld", (long long)policy->range_margin));
    put_list(text, "low-inputs", &policy->lists[LIST_LOW_INPUTS]);
    put_list(text, "low-outputs", &policy->lists[LIST_LOW_OUTPUTS]);
    if (policy->io == DEMI_IO_LOW && policy->parameters == DEMI_PARAMETERS_RUNTIME)
        put_choice(text, "keep-defaults", "true");
    if (policy->parameters != DEMI_PARAMETERS_RUNTIME) put_choice(text, "store", "true");
    put_nodes(text, policy);
    end_pass(text);
}

static void put_cast_params(Text *text, const ConvertPolicy *policy) {
    if (policy->parameters == DEMI_PARAMETERS_RUNTIME) return;
    put_pass(text, "cast-params");
    put_choice(text, "own", "true");
    if (policy->parameters == DEMI_PARAMETERS_BOTH) put_choice(text, "both", "true");
    if (policy->overflow == DEMI_OVERFLOW_CLAMP) put_choice(text, "overflow", "clamp");
    end_pass(text);
}

/* Before anything is inferred for good, so that all that sees the opset that the model will have.
 */
static void put_upgrade(Text *text, const ConvertPolicy *policy) {
    if (policy->opset == DEMI_OPSET_KEEP) return;
    put_pass(text, "upgrade-opset");
    if (policy->opset == DEMI_OPSET_AUTO) {
        put_choice(text, "for", policy_targets[policy->to]);
        put_list(text, "inputs", &policy->lists[LIST_INPUT_DTYPES]);
        put_nodes(text, policy);
    } else {
        put_choice(text, "to", arena_printf(text->arena, "%lld", (long long)policy->opset));
    }
    end_pass(text);
}

const char *policy_pipeline(const ConvertPolicy *policy) {
    Text text = {.arena = policy->arena};
    if (policy->lists[LIST_DECLARED].count) {
        put_pass(&text, "declare-ops");
        put_list(&text, "ops", &policy->lists[LIST_DECLARED]);
        end_pass(&text);
    }
    put_upgrade(&text, policy);
    put_pass(&text, "infer-dtypes");
    put_list(&text, "inputs", &policy->lists[LIST_INPUT_DTYPES]);
    end_pass(&text);
    put_pass(&text, "infer-shapes");
    put_insert_casts(&text, policy);
    put(&text, ",move-casts");
    put_cast_params(&text, policy);
    put(&text, ",fuse-casts{own=true}");
    VEC_PUSH(text.arena, &text.out, '\0');
    return text.out.items;
}
