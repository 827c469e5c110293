// SPDX-License-Identifier: Apache-2.0
/* Policies as JSON; policy.h has the form. Jansson's trees are freed with
 * the policy's arena, also when memory runs out half way. */
#include "policy.h"

#include <math.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "range_table.h"
#include "real_text.h"
#include "escaped.h"
#include "text_distance.h"
#include "text_words.h"

typedef struct Reader {
    ConvertPolicy *policy;
    Arena *arena;
    Err *err;
} Reader;

static bool wrong(Reader *r, const char *key, const char *expected) {
    err_set(r->err, ERR_USAGE, "policy: '%s' has a wrong value", key);
    err_expected(r->err, "%s", expected);
    return false;
}

static bool unknown_key(Reader *r, const char *key, const char *const *known) {
    err_set(r->err, ERR_USAGE, "policy: unknown key '%s'", key);
    NearestName nearest = nearest_name_of(key);
    for (; *known; known++) nearest_name_try(&nearest, *known);
    if (nearest.best) err_hint(r->err, "did you mean '%s'?", nearest.best);
    return false;
}

/* Only these keys may be there: known ends with NULL. */
static bool check_keys(Reader *r, json_t *object, const char *const *known) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        bool found = false;
        for (const char *const *k = known; *k && !found; k++) found = strcmp(key, *k) == 0;
        if (!found) return unknown_key(r, key, known);
    }
    return true;
}

static void push(Reader *r, SettingId list, const char *sign, const char *name) {
    VEC_PUSH(r->arena, &r->policy->lists[list], arena_printf(r->arena, "%s%s", sign, name));
}

/* Appends an array of strings, each with a sign before it. Absent is empty. */
static bool read_names(Reader *r, const char *key, json_t *array, SettingId list,
                       const char *sign) {
    size_t i;
    json_t *item;
    if (!array) return true;
    if (!json_is_array(array)) return wrong(r, key, "a list of strings");
    json_array_foreach(array, i, item) {
        if (!json_is_string(item)) return wrong(r, key, "a list of strings");
        push(r, list, sign, json_string_value(item));
    }
    return true;
}

static bool read_class(Reader *r, const char *key, json_t *value, SettingId list) {
    static const char *const known[] = {"add", "remove", NULL};
    if (json_is_array(value) && json_array_size(value) == 0) push(r, list, "-", "*");
    if (!json_is_object(value)) return read_names(r, key, value, list, "");
    return check_keys(r, value, known) &&
           read_names(r, "add", json_object_get(value, "add"), list, "+") &&
           read_names(r, "remove", json_object_get(value, "remove"), list, "-");
}

static bool read_choice(Reader *r, json_t *value, SettingId id) {
    const Setting *setting = &policy_settings[id];
    const char *word = json_string_value(value), *all = "";
    int choice = word ? setting_choice(setting, word, false) : 0;
    if (choice) {
        r->policy->values[id] = choice;
        return true;
    }
    for (int i = 1; setting->choices[i].word; i++)
        all = arena_printf(r->arena, "%s%s%s", all, i > 1 ? " or " : "", setting->choices[i].word);
    wrong(r, setting->key, all);
    if (word) err_actual(r->err, "'%s'", word);
    return false;
}

/* A value of a condition as text: numbers as they are written in ONNX attributes. */
static const char *value_text(Reader *r, json_t *value) {
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_integer(value))
        return arena_printf(r->arena, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) {
        char number[REAL_TEXT];
        real_format(number, 9, json_real_value(value));
        return arena_printf(r->arena, "%s", number);
    }
    if (!json_is_array(value)) return NULL;
    const char *text = "";
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *item = json_array_get(value, i);
        const char *number = json_is_number(item) ? value_text(r, item) : NULL;
        if (!number) return NULL;
        text = arena_printf(r->arena, "%s%s%s", text, i ? "," : "", number);
    }
    return text;
}

static bool read_condition(Reader *r, json_t *row) {
    static const char *const known[] = {"operator", "attribute", "values", NULL};
    static const char *const form = "a list of {operator, attribute, values: [...]}";
    if (!json_is_object(row)) return wrong(r, "conditional", form);
    if (!check_keys(r, row, known)) return false;
    const char *op = json_string_value(json_object_get(row, "operator"));
    const char *attr = json_string_value(json_object_get(row, "attribute"));
    json_t *values = json_object_get(row, "values");
    if (!op || !attr || !json_is_array(values)) return wrong(r, "conditional", form);
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *text = value_text(r, json_array_get(values, i));
        if (!text) return wrong(r, "values", "numbers, strings, or lists of numbers");
        push(r, SETTING_CONDITIONAL, arena_printf(r->arena, "%s.%s=", op, attr), text);
    }
    return true;
}

static bool read_conditions(Reader *r, json_t *rows) {
    if (!json_is_array(rows)) return wrong(r, "conditional", "a list");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!read_condition(r, json_array_get(rows, i))) return false;
    return true;
}

static bool read_dtypes(Reader *r, json_t *inputs, SettingId id) {
    const char *name;
    json_t *dtype;
    const char *key = policy_settings[id].key;
    if (!json_is_object(inputs)) return wrong(r, key, "an object of names and dtypes");
    json_object_foreach(inputs, name, dtype) {
        if (!json_is_string(dtype)) return wrong(r, key, "dtypes as strings");
        push(r, id, arena_printf(r->arena, "%s=", name), json_string_value(dtype));
    }
    return true;
}

static bool read_io(Reader *r, json_t *io, SettingId id) {
    static const char *const known[] = {"inputs", "outputs", NULL};
    if (!json_is_object(io)) return read_choice(r, io, id);
    return check_keys(r, io, known) &&
           read_names(r, "inputs", json_object_get(io, "inputs"), SETTING_LOW_INPUTS, "") &&
           read_names(r, "outputs", json_object_get(io, "outputs"), SETTING_LOW_OUTPUTS, "");
}

static bool read_opset(Reader *r, json_t *value, SettingId id) {
    const char *text = json_string_value(value);
    bool automatic = text && strcmp(text, "auto") == 0, keep = text && strcmp(text, "keep") == 0;
    json_int_t number = json_integer_value(value);
    if (!automatic && !keep && (number < 1 || number > OPS_OPSET_ONNX))
        return wrong(r, policy_settings[id].key,
                     arena_printf(r->arena, "keep, auto, or 1 to %d", OPS_OPSET_ONNX));
    r->policy->values[id] = automatic ? DEMI_OPSET_AUTO : keep ? DEMI_OPSET_KEEP : number;
    return true;
}

/* `text`, the separator and the number; NULL where it is none. */
static const char *with_number(Reader *r, const char *text, char separator, json_t *number) {
    char digits[TEXT_NUMBER];
    if (!text || !json_is_number(number)) return NULL;
    digits[text_format_double(digits, json_number_value(number))] = '\0';
    return arena_printf(r->arena, "%s%c%s", text, separator, digits);
}

static const char *with_numbers(Reader *r, const char *text, json_t *numbers) {
    const size_t before = strlen(text), count = json_array_size(numbers);
    char *all = arena_alloc(r->arena, before + count * (TEXT_NUMBER + 1) + 1);
    memcpy(all, text, before);
    for (size_t i = 0, at = before; i < count; i++) {
        json_t *number = json_array_get(numbers, i);
        if (!json_is_number(number)) return NULL;
        all[at++] = i ? ',' : ':';
        at += text_format_double(all + at, json_number_value(number));
        all[at] = '\0';
    }
    return all;
}

/* "NAME=MAX", or of a list "NAME=MIN:MAX" and "NAME=MIN:MAX:AXIS:MEAN,...:ERROR,...". */
static const char *range_text(Reader *r, const char *name, json_t *reached) {
    if (!json_is_array(reached)) return with_number(r, name, '=', reached);
    const size_t count = json_array_size(reached);
    const char *text = name;
    if (count < 2 || count == 3 || count > 5) return NULL;
    for (size_t i = 0; i < count && text; i++)
        text = i < 3 ? with_number(r, text, i ? ':' : '=', json_array_get(reached, i))
                     : with_numbers(r, text, json_array_get(reached, i));
    RangeText range;
    return text && range_text_read(text, &range) ? text : NULL;
}

static bool read_ranges(Reader *r, json_t *ranges, SettingId id) {
    json_t *reached;
    const char *name, *key = policy_settings[id].key;
    if (!json_is_object(ranges)) return wrong(r, key, "an object of value names and magnitudes");
    json_object_foreach(ranges, name, reached) {
        const char *text = range_text(r, name, reached);
        if (!text)
            return wrong(r, key,
                         "magnitudes as numbers, or lists of minimum, maximum, axis, and means and "
                         "errors along it");
        push(r, id, "", text);
    }
    return true;
}

static bool read_number(Reader *r, json_t *value, SettingId id) {
    const bool positive = policy_settings[id].kind == KIND_NUMBER;
    if (!json_is_integer(value) || json_integer_value(value) < positive)
        return wrong(r, policy_settings[id].key, positive ? "at least 1" : "at least 0");
    r->policy->values[id] = json_integer_value(value);
    return true;
}

static bool read_flag(Reader *r, json_t *value, SettingId id) {
    if (!json_is_boolean(value)) return wrong(r, policy_settings[id].key, "true or false");
    r->policy->values[id] = json_is_true(value);
    return true;
}

static bool read_setting(Reader *r, json_t *value, SettingId id) {
    const char *key = policy_settings[id].key;
    switch (policy_settings[id].kind) {
    case KIND_BASE:
    case KIND_TARGET:
    case KIND_CHOICE: return read_choice(r, value, id);
    case KIND_OPSET: return read_opset(r, value, id);
    case KIND_COUNT:
    case KIND_NUMBER: return read_number(r, value, id);
    case KIND_FLAG: return read_flag(r, value, id);
    case KIND_CLASS: return read_class(r, key, value, id);
    case KIND_NAMES:
    case KIND_OPERATORS: return read_names(r, key, value, id, "");
    case KIND_CONDITIONS: return read_conditions(r, value);
    case KIND_DTYPES: return read_dtypes(r, value, id);
    case KIND_RANGES: return read_ranges(r, value, id);
    case KIND_IO: return read_io(r, value, id);
    case KIND_PART: break; /* of the object that KIND_IO reads */
    }
    return true;
}

static bool read_root(Reader *r, json_t *root) {
    const char *known[SETTING_COUNT + 1] = {NULL};
    size_t count = 0;
    if (!json_is_object(root)) return wrong(r, "policy", "an object");
    for (SettingId id = 0; id < SETTING_COUNT; id++)
        if (policy_settings[id].kind != KIND_PART) known[count++] = policy_settings[id].key;
    if (!check_keys(r, root, known)) return false;
    for (SettingId id = 0; id < SETTING_COUNT; id++) {
        bool whole = policy_settings[id].kind != KIND_PART;
        json_t *value = whole ? json_object_get(root, policy_settings[id].key) : NULL;
        if (value && !read_setting(r, value, id)) return false;
    }
    return true;
}

static void free_json(void *root) {
    json_decref(root);
}

bool policy_read_json(ConvertPolicy *policy, const char *text, Err *err) {
    Reader r = {.policy = policy, .arena = policy->arena, .err = err};
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        err_set(err, ERR_USAGE, "policy: not valid JSON: %s", error.text);
        err_actual(err, "line %d, column %d", error.line, error.column);
        return false;
    }
    arena_defer(policy->arena, free_json, root);
    return read_root(&r, root);
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *names_json(const PolicyNames *names) {
    json_t *array = json_array();
    for (size_t i = 0; i < names->count; i++)
        json_array_append_new(array, json_string(names->items[i]));
    return array;
}

/* "com.x.Op.attr=value" as a row; texts that read back the same, whatever the value's type was. */
static json_t *condition_json(Arena *arena, const char *text) {
    const char *equals = strchr(text, '=');
    char *name = arena_copy(arena, text, (size_t)(equals - text));
    char *dot = strrchr(name, '.');
    *dot = '\0';
    return json_pack("{s:s,s:s,s:[s]}", "operator", name, "attribute", dot + 1, "values",
                     equals + 1);
}

static json_t *conditions_json(Arena *arena, const PolicyNames *names) {
    json_t *rows = json_array();
    for (size_t i = 0; i < names->count; i++)
        json_array_append_new(rows, condition_json(arena, names->items[i]));
    return rows;
}

static json_t *dtypes_json(Arena *arena, const PolicyNames *names) {
    json_t *inputs = json_object();
    for (size_t i = 0; i < names->count; i++) {
        const char *split = strrchr(names->items[i], '=');
        size_t length = split ? (size_t)(split - names->items[i]) : strlen(names->items[i]);
        const char *name = arena_copy(arena, names->items[i], length);
        json_object_set_new(inputs, name, json_string(split ? split + 1 : ""));
    }
    return inputs;
}

static json_t *numbers_json(Arena *arena, const RangeText *range, const char *text) {
    json_t *all = json_array();
    double *numbers = ARENA_ARRAY(arena, double, range->mean_count);
    range_text_numbers(range, text, numbers);
    for (size_t i = 0; i < range->mean_count; i++)
        json_array_append_new(all, json_real(numbers[i]));
    return all;
}

/* NULL with *err set where an option's text is not a range. */
static json_t *ranges_json(Arena *arena, const PolicyNames *names, Err *err) {
    json_t *ranges = json_object();
    arena_defer(arena, free_json, json_incref(ranges));
    for (size_t i = 0; i < names->count; i++) {
        const char *text = names->items[i];
        RangeText range;
        if (!range_text_read(text, &range)) {
            err_set(err, ERR_USAGE, "cannot parse range '%s'", text);
            json_decref(ranges);
            return NULL;
        }
        const char *name = arena_copy(arena, text, range.name_length);
        json_t *reached =
            range.ends ? json_pack("[f,f]", range.low, range.high) : json_real(range.high);
        if (range.mean_count) {
            json_array_append_new(reached, json_integer(range.axis));
            json_array_append_new(reached, numbers_json(arena, &range, range.means));
            if (range.errors)
                json_array_append_new(reached, numbers_json(arena, &range, range.errors));
        }
        json_object_set_new(ranges, name, reached);
    }
    return ranges;
}

static json_t *choice_json(const ConvertPolicy *policy, SettingId id) {
    return json_string(policy_settings[id].choices[policy->values[id]].word);
}

static json_t *io_json(const ConvertPolicy *policy) {
    const PolicyNames *in = &policy->lists[SETTING_LOW_INPUTS];
    const PolicyNames *out = &policy->lists[SETTING_LOW_OUTPUTS];
    if (!in->count && !out->count) return choice_json(policy, SETTING_IO);
    json_t *io = json_object();
    json_object_set_new(io, "inputs", names_json(in));
    json_object_set_new(io, "outputs", names_json(out));
    return io;
}

static json_t *opset_json(int64_t opset) {
    if (opset == DEMI_OPSET_AUTO) return json_string("auto");
    return opset == DEMI_OPSET_KEEP ? json_string("keep") : json_integer(opset);
}

static json_t *class_json(Arena *arena, const OpClasses *classes, SettingId id) {
    static const OpClass of[SETTING_COUNT] = {[SETTING_LOW] = CLASS_LOW,
                                              [SETTING_FP32] = CLASS_FP32,
                                              [SETTING_FOLLOW] = CLASS_FOLLOW,
                                              [SETTING_WIDEST] = CLASS_WIDEST};
    PassStrings list = op_classes_list(classes, of[id], arena);
    PolicyNames names = {.items = list.items, .count = list.count};
    return names_json(&names);
}

/* NULL for what is written as part of another key, and with *err set. */
static json_t *setting_json(const ConvertPolicy *policy, const OpClasses *classes, SettingId id,
                            Err *err) {
    const PolicyNames *names = &policy->lists[id];
    switch (policy_settings[id].kind) {
    case KIND_BASE:
    case KIND_TARGET:
    case KIND_CHOICE: return choice_json(policy, id);
    case KIND_OPSET: return opset_json(policy->values[id]);
    case KIND_COUNT:
    case KIND_NUMBER: return json_integer(policy->values[id]);
    case KIND_FLAG: return json_boolean(policy->values[id]);
    case KIND_CLASS: return class_json(policy->arena, classes, id);
    case KIND_NAMES:
    case KIND_OPERATORS: return names_json(names);
    case KIND_CONDITIONS: return conditions_json(policy->arena, names);
    case KIND_DTYPES: return dtypes_json(policy->arena, names);
    case KIND_RANGES: return ranges_json(policy->arena, names, err);
    case KIND_IO: return io_json(policy);
    case KIND_PART: break;
    }
    return NULL;
}

/* Within the strings, what a terminal should not get as it is: jansson escapes C0 alone. Outside of
 * them there are but line breaks. */
static const char *escape_hidden(Arena *arena, const char *text) {
    VEC(char) out = {0};
    for (size_t left = strlen(text), size; left; text += size, left -= size) {
        char escape[SHOWN_ESCAPE_MOST];
        bool plain = escaped_plain(text, left, &size) || *text == '\n';
        size_t length = plain ? size : escaped_escape(utf8_code(text, size), escape);
        for (size_t i = 0; i < length; i++) VEC_PUSH(arena, &out, plain ? text[i] : escape[i]);
    }
    VEC_PUSH(arena, &out, '\0');
    return out.items;
}

const char *policy_write_json(const ConvertPolicy *policy, Err *err) {
    const OpClasses *classes = policy_classes(policy, err);
    if (!classes) return NULL;
    json_t *root = json_object();
    arena_defer(policy->arena, free_json, root);
    for (SettingId id = 0; id < SETTING_COUNT; id++) {
        json_t *value = setting_json(policy, classes, id, err);
        if (err->code != ERR_NONE) return NULL;
        if (value) json_object_set_new(root, policy_settings[id].key, value);
    }
    char *text = json_dumps(root, JSON_INDENT(2));
    if (!text) arena_exhausted(policy->arena);
    arena_defer(policy->arena, free, text);
    return escape_hidden(policy->arena, text);
}
