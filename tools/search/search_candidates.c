// SPDX-License-Identifier: Apache-2.0
/* See search_candidates.h. */
#include "search_candidates.h"

#include <stdio.h>
#include <string.h>

#include "policy.h"
#include "runtime_rules.h"

enum { MOST = 8 };

typedef struct Finding {
    Arena *arena;
    Err *err;
    ConvertPolicy said; /* that the caller said, and nothing else */
    CandidateRules rules;
    DemiConvertOptions *convert;
    SearchCandidates *found;
} Finding;

/* ---- what is said ---------------------------------------------------------------------------- */

/* All that is said, as options. */
static void put_back(const ConvertPolicy *said, DemiConvertOptions *options) {
    const Setting *base = &policy_settings[SETTING_BASE];
    for (SettingId id = 0; id < SETTING_COUNT; id++) {
        const Setting *setting = &policy_settings[id];
        const SettingWords words = {said->lists[id].items, said->lists[id].count};
        if (setting_is_list(setting))
            setting_put_words(setting, options, words);
        else if (id != SETTING_BASE)
            setting_put_number(setting, options, said->values[id]);
    }
    const int64_t policy = said->values[SETTING_BASE];
    options->policy = policy ? base->choices[policy].word : NULL;
}

static bool read_said(Finding *f) {
    ConvertPolicy *said = &f->said;
    SearchQuantization *q = &f->found->quantization;
    if (!policy_read_options(said, f->convert, f->arena, f->err)) return false;
    put_back(said, f->convert);
    const int64_t runtime = said->values[SETTING_RUNTIME];
    *q = (SearchQuantization){.runtime = (DemiRuntimeRules)(runtime ? runtime : DEMI_RUNTIME_ANY),
                              .symmetric = said->values[SETTING_SYMMETRIC],
                              .block = said->values[SETTING_BLOCK],
                              .rounding = (DemiRounding)said->values[SETTING_ROUNDING]};
    said->values[SETTING_RUNTIME] = q->runtime;
    q->of_halves = *runtime_rules(q->runtime)->casts;
    f->convert->runtime = DEMI_RUNTIME_DEFAULT;
    f->convert->symmetric = false;
    f->convert->block = 0;
    f->convert->rounding = DEMI_ROUNDING_DEFAULT;
    f->convert->activations = DEMI_ACTIVATIONS_DEFAULT;
    f->convert->rest = DEMI_REST_DEFAULT;
    f->convert->to = DEMI_TO_DEFAULT;
    return true;
}

/* The types of values, those that are said first. */
static void list_values(Finding *f) {
    const ConvertPolicy *said = &f->said;
    const int64_t first = said->values[SETTING_ACTIVATIONS], rest = said->values[SETTING_REST];
    const char *words = runtime_rules(said->values[SETTING_RUNTIME])->activations, *word;
    VEC(Dtype) types = {0};
    if (first) VEC_PUSH(f->arena, &types, quantized_value_types[first]);
    while ((word = runtime_next_word(&words, f->arena)))
        VEC_PUSH(f->arena, &types, quantized_format_named(word, false)->dtype);
    f->rules = (CandidateRules){
        .runtime = policy_settings[SETTING_RUNTIME].choices[said->values[SETTING_RUNTIME]].word,
        .values = types.items,
        .count = types.count,
        .other_weights = rest == DEMI_REST_INT8_WEIGHTS ? quantized_format(DTYPE_INT8) : NULL};
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* What is not quantized, by `rest`. */
static Dtype rest_of(const Finding *f) {
    switch (f->said.values[SETTING_REST]) {
    case DEMI_REST_FLOAT16: return DTYPE_FLOAT16;
    case DEMI_REST_BFLOAT16: return DTYPE_BFLOAT16;
    default: return DTYPE_FLOAT;
    }
}

/* As a name that says which type the rest has. */
static const char *with_rest(const Finding *f, const Candidate *c) {
    const Dtype rest = rest_of(f);
    if (rest == DTYPE_FLOAT || c->activations != DTYPE_FLOAT) return c->name;
    return c->weight_format
               ? arena_printf(f->arena, "%s:%s", dtype_name(rest), c->weight_format->word)
               : dtype_name(rest);
}

static bool same(const Candidate *a, const Candidate *b) {
    return a->activations == b->activations && a->weights == b->weights &&
           a->weight_format == b->weight_format;
}

static bool read_names(Finding *f, const char *const *names, size_t count) {
    const Candidate **items = ARENA_ARRAY(f->arena, const Candidate *, count + 1);
    if (count < 2 || count > MOST)
        return err_set(f->err, ERR_USAGE, "a search needs 2 to 8 candidates, not %zu", count);
    for (size_t i = 0; i < count; i++) {
        items[i] = candidate_read(names[i], &f->rules, f->arena, f->err);
        if (items[i])
            items[i] = candidate_read(with_rest(f, items[i]), &f->rules, f->arena, f->err);
        if (!items[i]) return false;
        for (size_t k = 0; k < i; k++)
            if (same(items[k], items[i]))
                return err_set(f->err, ERR_USAGE, "duplicate candidate '%s'", names[i]);
    }
    f->found->items = items;
    f->found->count = count;
    return true;
}

/* ---- what conversions take of them ----------------------------------------------------------- */

void search_quantization_apply(const SearchQuantization *q, bool values, bool weights,
                               DemiConvertOptions *options) {
    options->symmetric = values && q->symmetric;
    options->block = weights ? q->block : 0;
    options->rounding = weights ? q->rounding : DEMI_ROUNDING_DEFAULT;
    if (values || weights || (q->of_halves && options->to != DEMI_TO_INT8))
        options->runtime = q->runtime;
}

/* A conversion of some value and weights to it, which is asked for its rules; and how they are stored. */
static bool try_candidate(Finding *f, const Candidate *c) {
    static const char *const any[] = {"x"};
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    ConvertPolicy policy;
    const char *value[] = {
        c->value_format ? arena_printf(f->arena, "%s=%s", any[0], c->value_format->word) : NULL};
    const char *weights[] = {
        c->weight_format ? arena_printf(f->arena, "%s=%s", any[0], c->weight_format->word) : NULL};
    if (!*value && !*weights) return true;
    options.to = DEMI_TO_INT8;
    options.values = value;
    options.value_count = *value ? 1 : 0;
    options.weights = weights;
    options.weight_count = *weights ? 1 : 0;
    search_quantization_apply(&f->found->quantization, *value, *weights, &options);
    if (policy_from_options(&policy, &options, f->arena, f->err))
        return qdq_request_read(policy_quantizer(&policy), f->arena, &f->found->request, f->err);
    const char *why = arena_printf(f->arena, "%s", f->err->what);
    snprintf(f->err->what, sizeof f->err->what, "candidate '%s': %s", c->name, why);
    return false;
}

typedef struct Seen {
    bool values, weights, blocks, floats, asked;
} Seen;

static Seen look(const Finding *f) {
    const int64_t asked = f->said.values[SETTING_ACTIVATIONS];
    Seen seen = {.asked = !asked};
    for (size_t i = 0; i < f->found->count; i++) {
        const Candidate *c = f->found->items[i];
        seen.values = seen.values || c->value_format;
        seen.weights = seen.weights || c->weight_format;
        seen.blocks = seen.blocks || (c->weight_format && c->weight_format->block);
        seen.floats = seen.floats || c->activations == rest_of(f);
        seen.asked = seen.asked || c->activations == quantized_value_types[asked];
    }
    return seen;
}

static bool no_effect(const Finding *f, SettingId id, const char *why) {
    return err_set(f->err, ERR_USAGE, "'%s' has no effect: no candidate %s",
                   policy_settings[id].key, why);
}

/* Options that no candidate heeds. */
static bool check_said(const Finding *f) {
    const SearchQuantization *q = &f->found->quantization;
    const Seen seen = look(f);
    const bool half = rest_of(f) != DTYPE_FLOAT;
    if (!seen.asked) return no_effect(f, SETTING_ACTIVATIONS, "has activations of this type");
    if (q->symmetric && !seen.values)
        return no_effect(f, SETTING_SYMMETRIC, "quantizes activations");
    if (q->block && !seen.weights) return no_effect(f, SETTING_BLOCK, "quantizes weights");
    if (q->rounding == DEMI_ROUNDING_GPTQ && !seen.weights)
        return no_effect(f, SETTING_ROUNDING, "quantizes weights");
    if (f->rules.other_weights && !seen.blocks)
        return no_effect(f, SETTING_REST, "has weights that need blocks");
    if (half && !seen.floats) return no_effect(f, SETTING_REST, "is in floating point");
    if (q->runtime != DEMI_RUNTIME_ANY && !q->of_halves && !seen.values && !seen.weights)
        return no_effect(f, SETTING_RUNTIME, "is quantized");
    return true;
}

bool search_candidates_find(const char *const *names, size_t count, DemiConvertOptions *convert,
                            SearchCandidates *found, Arena *arena, Err *err) {
    static const char *const usual[] = {"float", "float16", "a8w8"};
    Finding f = {.arena = arena, .err = err, .convert = convert, .found = found};
    if (!read_said(&f)) return false;
    list_values(&f);
    const bool half = rest_of(&f) != DTYPE_FLOAT;
    if (!names && !read_names(&f, half ? usual + 1 : usual, half ? 2 : 3)) return false;
    if (names && !read_names(&f, names, count)) return false;
    for (size_t i = 0; i < found->count; i++)
        if (!try_candidate(&f, found->items[i])) return false;
    return check_said(&f);
}
