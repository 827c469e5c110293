// SPDX-License-Identifier: Apache-2.0
/* Reading supported_kernels; see supported.h. */
#include "supported.h"

#include <jansson.h>
#include <string.h>

typedef struct Precision {
    uint32_t bits; /* 0: any */
    bool is_float;
} Precision;

typedef struct KernelPrecisions {
    Precision activations, weights;
} KernelPrecisions;

typedef struct KernelList {
    const char *op_type; /* NULL: the defaults */
    VEC(KernelPrecisions) kernels;
} KernelList;

struct Supported {
    VEC(KernelList) lists; /* the defaults first, where there are some */
};

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct Reading {
    Supported *supported;
    Arena *arena;
    Err *err;
} Reading;

static void free_json(void *json) {
    json_decref(json);
}

static bool refuse(const Reading *r, const char *where, const char *why) {
    err_set(r->err, ERR_USAGE, "supported_kernels of %s: %s", where, why);
    err_hint(r->err, "a kernel is {\"activation\": {\"bitwidth\": 8, \"dtype\": \"int\"}, "
                     "\"param\": {\"bitwidth\": 8, \"dtype\": \"int\"}}");
    return false;
}

static bool read_precision(const Reading *r, const char *where, const json_t *json,
                           Precision *found) {
    const json_t *bits = json_object_get(json, "bitwidth");
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    if (!json_is_integer(bits) || json_integer_value(bits) < 1 || json_integer_value(bits) > 32)
        return refuse(r, where, "\"bitwidth\" must be a number from 1 to 32");
    if (!dtype || (strcmp(dtype, "int") != 0 && strcmp(dtype, "float") != 0))
        return refuse(r, where, "\"dtype\" must be \"int\" or \"float\"");
    *found = (Precision){(uint32_t)json_integer_value(bits), strcmp(dtype, "float") == 0};
    return true;
}

static bool read_list(const Reading *r, const char *op_type, const json_t *section) {
    const json_t *json = json_object_get(section, "supported_kernels"), *kernel;
    const char *where = op_type ? op_type : "defaults";
    KernelList list = {.op_type = op_type};
    size_t i;
    if (!json) return true;
    if (!json_is_array(json)) return refuse(r, where, "it must be a list");
    json_array_foreach(json, i, kernel) {
        const json_t *weights = json_object_get(kernel, "param");
        KernelPrecisions found = {{0, false}, {0, false}};
        if (!read_precision(r, where, json_object_get(kernel, "activation"), &found.activations) ||
            (weights && !read_precision(r, where, weights, &found.weights)))
            return false;
        VEC_PUSH(r->arena, &list.kernels, found);
    }
    VEC_PUSH(r->arena, &r->supported->lists, list);
    return true;
}

static bool read_all(const Reading *r, json_t *json) {
    json_t *ops = json_object_get(json, "op_type"), *section;
    const char *name;
    if (!json_is_object(json)) return refuse(r, "this file", "it must be an object");
    if (ops && !json_is_object(ops)) return refuse(r, "op_type", "it must be an object");
    if (!read_list(r, NULL, json_object_get(json, "defaults"))) return false;
    json_object_foreach(ops, name, section) {
        if (!read_list(r, arena_copy(r->arena, name, strlen(name) + 1), section)) return false;
    }
    return true;
}

Supported *supported_read(const char *text, Arena *arena, Err *err) {
    const Reading r = {ARENA_NEW(arena, Supported), arena, err};
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json) {
        err_set(err, ERR_USAGE, "supported_kernels: line %d: %s", error.line, error.text);
        return NULL;
    }
    Arena *within = arena_child(arena);
    arena_defer(within, free_json, json);
    const bool ok = read_all(&r, json);
    arena_free(within);
    return ok ? r.supported : NULL;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const KernelList *list_of(const Supported *supported, const char *op_type) {
    const KernelList *found = NULL;
    for (size_t i = 0; i < supported->lists.count; i++) {
        const KernelList *list = &supported->lists.items[i];
        if (!list->op_type) found = list;
        if (list->op_type && strcmp(list->op_type, op_type) == 0) return list;
    }
    return found;
}

static bool is_precision(Dtype dtype, Precision precision) {
    return !precision.bits ||
           (dtype_bits(dtype) == precision.bits && dtype_is_float(dtype) == precision.is_float);
}

static bool takes(const Supported *supported, const Node *node, const Candidate *candidate,
                  bool weights) {
    const KernelList *list = list_of(supported, node->op_type->text);
    for (size_t i = 0; list && i < list->kernels.count; i++) {
        const KernelPrecisions *kernel = &list->kernels.items[i];
        if (is_precision(candidate->activations, kernel->activations) &&
            (!weights || is_precision(candidate->weights, kernel->weights)))
            return true;
    }
    return !list;
}

static bool reads_weights(const Groups *groups, const Node *node) {
    for (size_t w = 0; w < groups->works.count; w++)
        if (groups->works.items[w].node == node && groups->works.items[w].weights) return true;
    return false;
}

const Node *supported_refusal(const Supported *supported, const Groups *groups, uint32_t number,
                              const Candidate *candidate) {
    const Group *group = &groups->items[number];
    if (!supported) return NULL;
    for (size_t i = 0; i < group->values.count; i++) {
        const Node *node = group->values.items[i]->producer;
        if (node && !takes(supported, node, candidate, false)) return node;
    }
    for (size_t i = 0; i < group->readers.count; i++) {
        const Node *node = group->readers.items[i];
        if (!takes(supported, node, candidate, reads_weights(groups, node))) return node;
    }
    return NULL;
}
