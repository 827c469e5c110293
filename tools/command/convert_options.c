// SPDX-License-Identifier: Apache-2.0
/* From the parsed words of `demi convert` to DemiConvertOptions; see convert_options.h. Lists go
 * over as they are; the library judges what is in them. */
#include "convert_options.h"

#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "policy_settings.h"
#include "source.h"

enum { MOST_POLICY = 16 << 20 };

/* Words that may be several operators each, separated by commas. */
static Words split_operators(Arena *arena, const Words *given) {
    Words split = {0};
    for (size_t i = 0; i < given->count; i++) {
        for (const char *at = given->items[i]; *at;) {
            size_t length = strcspn(at, ",");
            if (length) VEC_PUSH(arena, &split, arena_copy(arena, at, length));
            at += length + (at[length] == ',');
        }
    }
    return split;
}

/* What is wrong with it is told of the file, not of the model. */
static bool check_policy(Arena *arena, const char *path, const char *text, Err *err) {
    DemiConvertOptions alone = DEMI_CONVERT_OPTIONS_INIT;
    ConvertPolicy policy;
    alone.policy = text;
    if (policy_read_options(&policy, &alone, arena, err)) return true;
    err_file(err, path);
    return false;
}

bool convert_options_policy(Arena *arena, const Parsed *parsed, DemiConvertOptions *options,
                            Err *err) {
    const char *path = parsed_value(parsed, "policy");
    options->policy = path;
    if (!path || setting_choice(&policy_settings[SETTING_BASE], path, false)) return true;
    Source *source = source_open(arena, path, MOST_POLICY, err);
    if (source && source->size > MOST_POLICY)
        err_set(err, ERR_USAGE, "a policy of more than %d bytes", MOST_POLICY);
    bool ok = source && source->size <= MOST_POLICY;
    size_t size = ok ? (size_t)source->size : 0;
    char *text = arena_alloc(arena, size + 1);
    ok = ok && source_read(source, 0, text, size, err);
    if (!ok) {
        if (err->code == ERR_MODEL) err->code = ERR_USAGE; /* it is an option that is wrong */
        err_file(err, path);
        err_hint(err, "--policy takes a file, or float16, bfloat16 or fast");
    }
    options->policy = text;
    return ok && check_policy(arena, path, text, err);
}

static bool read_opset(const char *text, int64_t *opset, Err *err) {
    char *end;
    *opset = strcmp(text, "auto") == 0 ? DEMI_OPSET_AUTO : DEMI_OPSET_KEEP;
    if (*opset == DEMI_OPSET_AUTO || strcmp(text, "keep") == 0) return true;
    long number = strtol(text, &end, 10);
    *opset = number;
    if (*text && !*end && number >= 1 && number <= demi_newest_opset()) return true;
    err_set(err, ERR_USAGE, "'%s' is not a value of '--opset'", text);
    err_expected(err, "keep, auto, or 1 to %lld", (long long)demi_newest_opset());
    return false;
}

/* A number from `least` on. */
static bool read_number(const Setting *setting, const char *text, int64_t *number, Err *err) {
    char *end;
    const int least = setting->kind == KIND_NUMBER;
    *number = strtoll(text, &end, 10);
    if (*text && !*end && *number >= least) return true;
    err_set(err, ERR_USAGE, "'%s' is not a value of '--%s'", text, setting->option);
    err_expected(err, "%d or more", least);
    return false;
}

/* The option was given; the command's table has checked choices. */
static bool read_value(const Setting *setting, const char *text, int64_t *number, Err *err) {
    switch (setting->kind) {
    case KIND_OPSET: return read_opset(text, number, err);
    case KIND_COUNT:
    case KIND_NUMBER: return read_number(setting, text, number, err);
    case KIND_FLAG: *number = true; return true;
    case KIND_TARGET:
    case KIND_CHOICE:
    case KIND_IO: *number = setting_choice(setting, text, true); return true;
    case KIND_BASE: /* convert_options_policy reads it */
    case KIND_CLASS:
    case KIND_NAMES:
    case KIND_OPERATORS:
    case KIND_CONDITIONS:
    case KIND_DTYPES:
    case KIND_RANGES:
    case KIND_PART: break;
    }
    *number = 0;
    return true;
}

bool convert_options_fill(Arena *arena, const Parsed *parsed, DemiConvertOptions *options,
                          Err *err) {
    *options = (DemiConvertOptions)DEMI_CONVERT_OPTIONS_INIT;
    for (SettingId id = 0; id < SETTING_COUNT; id++) {
        const Setting *setting = &policy_settings[id];
        if (!setting->option || !parsed_knows(parsed, setting->option)) continue;
        const Words *words = parsed_list(parsed, setting->option);
        int64_t number;
        if (setting_is_list(setting)) {
            const bool operators = setting->kind == KIND_OPERATORS || setting->kind == KIND_CLASS;
            Words list = operators ? split_operators(arena, words) : *words;
            setting_put_words(setting, options, (SettingWords){list.items, list.count});
        } else if (words->count) {
            if (!read_value(setting, words->items[words->count - 1], &number, err)) return false;
            setting_put_number(setting, options, number);
        }
    }
    return convert_options_policy(arena, parsed, options, err);
}
