// SPDX-License-Identifier: Apache-2.0
/* From the parsed words of `demi convert` to DemiConvertOptions; see convert_options.h. Lists go
 * over as they are; the library judges what is in them. */
#include "convert_options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

enum { MOST_POLICY = 16 << 20 };

/* Options that may be repeated: where the list and its length go. */
static const struct ListOption {
    const char *name;
    size_t list, count;
} lists[] = {
#define LIST(name, field, number)                                                                  \
    {name, offsetof(DemiConvertOptions, field), offsetof(DemiConvertOptions, number)}
    LIST("keep", keep, keep_count),
    LIST("input-dtype", input_dtypes, input_dtype_count),
    LIST("only", only, only_count),
    LIST("low-ops", low_ops, low_op_count),
    LIST("fp32-ops", fp32_ops, fp32_op_count),
    LIST("follow-ops", follow_ops, follow_op_count),
    LIST("widest-ops", widest_ops, widest_op_count),
    LIST("fp32-when", fp32_when, fp32_when_count),
    LIST("low-input", low_inputs, low_input_count),
    LIST("low-output", low_outputs, low_output_count),
    LIST("range", ranges, range_count),
    LIST("declare-op", declared_ops, declared_op_count),
#undef LIST
};

static void fill_lists(const Parsed *parsed, DemiConvertOptions *options) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const Words *words = parsed_list(parsed, lists[i].name);
        const char *const *items = words->items;
        memcpy((char *)options + lists[i].list, &items, sizeof items);
        memcpy((char *)options + lists[i].count, &words->count, sizeof words->count);
    }
}

/* --keep-ops alone takes several operators in one word, separated by commas. */
static void split_operators(Arena *arena, const Parsed *parsed, DemiConvertOptions *options) {
    const Words *given = parsed_list(parsed, "keep-ops");
    Words split = {0};
    for (size_t i = 0; i < given->count; i++) {
        for (const char *at = given->items[i]; *at;) {
            size_t length = strcspn(at, ",");
            if (length) VEC_PUSH(arena, &split, arena_copy(arena, at, length));
            at += length + (at[length] == ',');
        }
    }
    options->keep_ops = split.items;
    options->keep_op_count = split.count;
}

/* The index of the word in a list of names; 0 where it was not given. The table has checked it. */
static int choice_of(const Parsed *parsed, const char *name, const char *const *names) {
    const char *word = parsed_value(parsed, name);
    int i = 1;
    if (!word) return 0;
    while (names[i] && strcmp(names[i], word) != 0) i++;
    return names[i] ? i : 0;
}

static DemiTarget target_of(const Parsed *parsed) {
    const char *to = parsed_value(parsed, "to");
    if (!to) return DEMI_TO_DEFAULT;
    return to[0] == 'b' ? DEMI_TO_BFLOAT16 : DEMI_TO_FLOAT16;
}

static bool is_shipped(const char *name) {
    return !strcmp(name, "float16") || !strcmp(name, "bfloat16") || !strcmp(name, "fast");
}

bool convert_options_policy(Arena *arena, const Parsed *parsed, DemiConvertOptions *options,
                            Err *err) {
    const char *path = parsed_value(parsed, "policy");
    options->policy = path;
    if (!path || is_shipped(path)) return true;
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
    return ok;
}

static bool read_opset(const Parsed *parsed, int64_t *opset, Err *err) {
    const char *text = parsed_value(parsed, "opset");
    char *end;
    *opset = DEMI_OPSET_DEFAULT;
    if (!text) return true;
    *opset = strcmp(text, "auto") == 0 ? DEMI_OPSET_AUTO : DEMI_OPSET_KEEP;
    if (*opset == DEMI_OPSET_AUTO || strcmp(text, "keep") == 0) return true;
    long number = strtol(text, &end, 10);
    *opset = number;
    if (*text && !*end && number >= 1 && number <= demi_newest_opset()) return true;
    err_set(err, ERR_USAGE, "'%s' is not a value of '--opset'", text);
    err_expected(err, "keep, auto, or 1 to %lld", (long long)demi_newest_opset());
    return false;
}

bool convert_options_fill(Arena *arena, const Parsed *parsed, DemiConvertOptions *options,
                          Err *err) {
    static const char *const ios[] = {"", "keep", "low", NULL};
    static const char *const parameters[] = {"", "offline", "runtime", "both", NULL};
    static const char *const placements[] = {"", "mincut", "greedy", NULL};
    static const char *const overflows[] = {"", "pin", "clamp", "inf", "error", NULL};
    *options = (DemiConvertOptions)DEMI_CONVERT_OPTIONS_INIT;
    options->to = target_of(parsed);
    options->io = (DemiIo)choice_of(parsed, "io", ios);
    options->parameters = (DemiParameters)choice_of(parsed, "parameters", parameters);
    options->placement = (DemiPlacement)choice_of(parsed, "placement", placements);
    options->overflow = (DemiOverflow)choice_of(parsed, "overflow", overflows);
    options->allow_unmatched = parsed_flag(parsed, "allow-unmatched");
    fill_lists(parsed, options);
    split_operators(arena, parsed, options);
    return read_opset(parsed, &options->opset, err) &&
           convert_options_policy(arena, parsed, options, err);
}
