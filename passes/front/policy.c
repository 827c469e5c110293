// SPDX-License-Identifier: Apache-2.0
/* Policies as JSON; policy.h has the form. This file alone sees jansson. Its trees are freed with
 * the policy's arena, also when memory runs out half way. */
#include "policy.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "real_text.h"
#include "shown.h"
#include "text_distance.h"
#include "text_words.h"

typedef struct Reader {
    ConvertPolicy *policy;
    Arena *arena;
    Err *err;
} Reader;

static const struct ListKey {
    const char *key;
    PolicyList list;
} class_keys[] = {{"low", LIST_LOW}, {"fp32", LIST_FP32}, {"follow", LIST_FOLLOW},
                  {"widest", LIST_WIDEST}},
  plain_keys[] = {{"keep", LIST_KEEP}, {"keep_ops", LIST_KEEP_OPS}, {"only", LIST_ONLY},
                  {"schemas", LIST_DECLARED}};

enum {
    CLASS_KEYS = sizeof class_keys / sizeof *class_keys,
    PLAIN_KEYS = sizeof plain_keys / sizeof *plain_keys
};

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

/* Only these keys may be there. */
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

static void push(Reader *r, PolicyList list, const char *sign, const char *name) {
    VEC_PUSH(r->arena, &r->policy->lists[list], arena_printf(r->arena, "%s%s", sign, name));
}

/* Appends an array of strings, each with a sign before it. Absent is empty. */
static bool read_names(Reader *r, const char *key, json_t *array, PolicyList list,
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

static bool read_class(Reader *r, const char *key, json_t *value, PolicyList list) {
    static const char *const known[] = {"add", "remove", NULL};
    if (json_is_array(value) && json_array_size(value) == 0) push(r, list, "-", "*");
    if (!json_is_object(value)) return read_names(r, key, value, list, "");
    return check_keys(r, value, known) &&
           read_names(r, "add", json_object_get(value, "add"), list, "+") &&
           read_names(r, "remove", json_object_get(value, "remove"), list, "-");
}

/* One of the choices; the index is the number. */
static bool read_choice(Reader *r, json_t *object, const char *key, const char *const *choices,
                        int *out) {
    json_t *value = json_object_get(object, key);
    if (!value) return true;
    const char *all = "";
    for (int i = 1; choices[i]; i++) {
        if (json_is_string(value) && strcmp(json_string_value(value), choices[i]) == 0) {
            *out = i;
            return true;
        }
        all = arena_printf(r->arena, "%s%s%s", all, i > 1 ? " or " : "", choices[i]);
    }
    wrong(r, key, all);
    if (json_is_string(value)) err_actual(r->err, "'%s'", json_string_value(value));
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
        push(r, LIST_CONDITIONAL, arena_printf(r->arena, "%s.%s=", op, attr), text);
    }
    return true;
}

static bool read_conditional(Reader *r, json_t *rows) {
    if (!rows) return true;
    if (!json_is_array(rows)) return wrong(r, "conditional", "a list");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!read_condition(r, json_array_get(rows, i))) return false;
    return true;
}

static bool read_inputs(Reader *r, json_t *inputs) {
    const char *name;
    json_t *dtype;
    if (!inputs) return true;
    if (!json_is_object(inputs)) return wrong(r, "inputs", "an object of input names and dtypes");
    json_object_foreach(inputs, name, dtype) {
        if (!json_is_string(dtype)) return wrong(r, "inputs", "dtypes as strings");
        push(r, LIST_INPUT_DTYPES, arena_printf(r->arena, "%s=", name), json_string_value(dtype));
    }
    return true;
}

static bool read_io(Reader *r, json_t *root) {
    static const char *const known[] = {"inputs", "outputs", NULL};
    json_t *io = json_object_get(root, "io");
    if (!json_is_object(io)) return read_choice(r, root, "io", policy_ios, &r->policy->io);
    return check_keys(r, io, known) &&
           read_names(r, "inputs", json_object_get(io, "inputs"), LIST_LOW_INPUTS, "") &&
           read_names(r, "outputs", json_object_get(io, "outputs"), LIST_LOW_OUTPUTS, "");
}

static bool read_opset(Reader *r, json_t *value) {
    if (!value) return true;
    const char *text = json_string_value(value);
    bool automatic = text && strcmp(text, "auto") == 0, keep = text && strcmp(text, "keep") == 0;
    json_int_t number = json_integer_value(value);
    if (!automatic && !keep && (number < 1 || number > OPS_OPSET_ONNX))
        return wrong(r, "opset", arena_printf(r->arena, "keep, auto, or 1 to %d", OPS_OPSET_ONNX));
    r->policy->opset = automatic ? DEMI_OPSET_AUTO : keep ? DEMI_OPSET_KEEP : number;
    return true;
}

static bool read_ranges(Reader *r, json_t *root) {
    json_t *ranges = json_object_get(root, "ranges"), *reached;
    json_t *margin = json_object_get(root, "range_margin");
    const char *name;
    if (margin && (!json_is_integer(margin) || json_integer_value(margin) < 1))
        return wrong(r, "range_margin", "1 or more");
    if (margin) r->policy->range_margin = json_integer_value(margin);
    if (!ranges) return true;
    if (!json_is_object(ranges))
        return wrong(r, "ranges", "an object of value names and magnitudes");
    json_object_foreach(ranges, name, reached) {
        if (!json_is_number(reached) || json_number_value(reached) < 0)
            return wrong(r, "ranges", "magnitudes as numbers");
        char number[TEXT_NUMBER];
        number[text_format_double(number, json_number_value(reached))] = '\0';
        push(r, LIST_RANGES, arena_printf(r->arena, "%s=", name), number);
    }
    return true;
}

static bool read_allow_unmatched(Reader *r, json_t *value) {
    if (!value) return true;
    if (!json_is_boolean(value)) return wrong(r, "allow_unmatched", "true or false");
    r->policy->allow_unmatched = json_is_true(value);
    return true;
}

static bool read_root(Reader *r, json_t *root) {
    static const char *const known[] = {
        "policy", "to",     "low", "fp32",       "follow",   "widest",  "conditional",     "keep",
        "keep_ops", "only", "io",  "parameters", "overflow", "schemas", "allow_unmatched", "inputs",
        "opset",    "placement", "ranges", "range_margin", NULL};
    ConvertPolicy *policy = r->policy;
    if (!json_is_object(root)) return wrong(r, "policy", "an object");
    if (!check_keys(r, root, known)) return false;
    for (size_t i = 0; i < CLASS_KEYS; i++) {
        const struct ListKey *row = &class_keys[i];
        if (!read_class(r, row->key, json_object_get(root, row->key), row->list)) return false;
    }
    for (size_t i = 0; i < PLAIN_KEYS; i++) {
        const struct ListKey *row = &plain_keys[i];
        if (!read_names(r, row->key, json_object_get(root, row->key), row->list, ""))
            return false;
    }
    return read_choice(r, root, "policy", policy_bases, &policy->base) &&
           read_choice(r, root, "to", policy_targets, &policy->to) &&
           read_choice(r, root, "placement", policy_placements, &policy->placement) &&
           read_choice(r, root, "parameters", policy_parameters, &policy->parameters) &&
           read_choice(r, root, "overflow", policy_overflows, &policy->overflow) &&
           read_opset(r, json_object_get(root, "opset")) && read_io(r, root) &&
           read_conditional(r, json_object_get(root, "conditional")) &&
           read_inputs(r, json_object_get(root, "inputs")) && read_ranges(r, root) &&
           read_allow_unmatched(r, json_object_get(root, "allow_unmatched"));
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

static json_t *names_json(const char *const *names, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(array, json_string(names[i]));
    return array;
}

static void write_list(json_t *root, const char *key, const ConvertPolicy *policy,
                       PolicyList list) {
    const PolicyNames *names = &policy->lists[list];
    json_object_set_new(root, key, names_json(names->items, names->count));
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

static void write_conditional(json_t *root, const ConvertPolicy *policy) {
    const PolicyNames *names = &policy->lists[LIST_CONDITIONAL];
    json_t *rows = json_array();
    for (size_t i = 0; i < names->count; i++)
        json_array_append_new(rows, condition_json(policy->arena, names->items[i]));
    json_object_set_new(root, "conditional", rows);
}

static void write_inputs(json_t *root, const ConvertPolicy *policy) {
    const PolicyNames *names = &policy->lists[LIST_INPUT_DTYPES];
    json_t *inputs = json_object();
    for (size_t i = 0; i < names->count; i++) {
        const char *split = strrchr(names->items[i], '=');
        size_t length = split ? (size_t)(split - names->items[i]) : strlen(names->items[i]);
        const char *name = arena_copy(policy->arena, names->items[i], length);
        json_object_set_new(inputs, name, json_string(split ? split + 1 : ""));
    }
    json_object_set_new(root, "inputs", inputs);
}

static bool write_ranges(json_t *root, const ConvertPolicy *policy, Err *err) {
    const PolicyNames *names = &policy->lists[LIST_RANGES];
    json_t *ranges = json_object();
    json_object_set_new(root, "ranges", ranges);
    for (size_t i = 0; i < names->count; i++) {
        const char *text = names->items[i], *split = strrchr(text, '=');
        double reached;
        if (!split || !text_read_double(split + 1, strlen(split + 1), &reached))
            return err_set(err, ERR_USAGE, "range '%s' can't be read", text);
        const char *name = arena_copy(policy->arena, text, (size_t)(split - text));
        json_object_set_new(ranges, name, json_real(reached));
    }
    json_object_set_new(root, "range_margin", json_integer(policy->range_margin));
    return true;
}

static void write_io(json_t *root, const ConvertPolicy *policy) {
    const PolicyNames *in = &policy->lists[LIST_LOW_INPUTS];
    const PolicyNames *out = &policy->lists[LIST_LOW_OUTPUTS];
    bool named = in->count || out->count;
    json_t *io = named ? json_object() : json_string(policy_ios[policy->io]);
    if (named) {
        json_object_set_new(io, "inputs", names_json(in->items, in->count));
        json_object_set_new(io, "outputs", names_json(out->items, out->count));
    }
    json_object_set_new(root, "io", io);
}

static json_t *opset_json(const ConvertPolicy *policy) {
    if (policy->opset == DEMI_OPSET_AUTO) return json_string("auto");
    return policy->opset == DEMI_OPSET_KEEP ? json_string("keep") : json_integer(policy->opset);
}

static void write_classes(json_t *root, const ConvertPolicy *policy, const OpClasses *classes) {
    static const OpClass order[] = {CLASS_LOW, CLASS_FP32, CLASS_FOLLOW, CLASS_WIDEST};
    for (size_t i = 0; i < CLASS_KEYS; i++) {
        PassStrings names = op_classes_list(classes, order[i], policy->arena);
        json_object_set_new(root, class_keys[i].key, names_json(names.items, names.count));
    }
}

/* Within the strings, what a terminal should not get as it is: jansson escapes C0 alone. Outside of
 * them there are but line breaks. */
static const char *escape_hidden(Arena *arena, const char *text) {
    VEC(char) out = {0};
    for (size_t left = strlen(text), size; left; text += size, left -= size) {
        char escape[SHOWN_MOST];
        bool plain = shown_plain(text, left, &size) || *text == '\n';
        unsigned code = utf8_code(text, size);
        plain = plain || code > 0xffff;
        size_t length = plain ? size : (size_t)snprintf(escape, sizeof escape, "\\u%04x", code);
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
    json_object_set_new(root, "policy", json_string(policy_bases[policy->base]));
    json_object_set_new(root, "to", json_string(policy_targets[policy->to]));
    json_object_set_new(root, "opset", opset_json(policy));
    json_object_set_new(root, "placement", json_string(policy_placements[policy->placement]));
    write_classes(root, policy, classes);
    write_conditional(root, policy);
    for (size_t i = 0; i < PLAIN_KEYS; i++)
        write_list(root, plain_keys[i].key, policy, plain_keys[i].list);
    write_inputs(root, policy);
    if (!write_ranges(root, policy, err)) return NULL;
    write_io(root, policy);
    json_object_set_new(root, "parameters", json_string(policy_parameters[policy->parameters]));
    json_object_set_new(root, "overflow", json_string(policy_overflows[policy->overflow]));
    json_object_set_new(root, "allow_unmatched", json_boolean(policy->allow_unmatched));
    char *text = json_dumps(root, JSON_INDENT(2));
    if (!text) arena_exhausted(policy->arena);
    arena_defer(policy->arena, free, text);
    return escape_hidden(policy->arena, text);
}
