// SPDX-License-Identifier: Apache-2.0
/* For tests: models from text, and their parts by name. Everything fails the running cmocka test
 * where it can't do what it says. A test file includes this after its own system headers. */
#ifndef DEMI_TEST_MODEL_H
#define DEMI_TEST_MODEL_H

#include <stdio.h>
#include <string.h>

#include "graph.h"
#include "text.h"
#include "unit_test.h"
#include "verify.h"

#define TEST_HEADER "<ir_version: 10, opset_import: [\"\" : 21, \"com.x\" : 1]>\n"

/* A model of opset 21, or of its own header; `text` is its graph. Freed with model_free. */
static inline Model *test_model(const char *text) {
    Err err = {0};
    char whole[8192], line[1024];
    size_t size =
        (size_t)snprintf(whole, sizeof whole, "%s%s", *text == '<' ? "" : TEST_HEADER, text);
    assert_true(size < sizeof whole);
    Model *model = text_parse_model(whole, size, &test_trap, &err);
    err_format(&err, line, sizeof line);
    if (!model) fail_msg("%s", line);
    return model;
}

static inline Sym test_name(Model *model, const char *text) {
    return sym_intern_cstr(&model->syms, text);
}

/* The value of that name that the graph defines, or NULL. */
static inline Value *test_find(const Graph *graph, const char *name) {
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (sym_equals(graph->inputs.items[i]->name, name)) return graph->inputs.items[i];
    for (size_t i = 0; i < graph->initializers.count; i++)
        if (sym_equals(graph->initializers.items[i]->name, name))
            return graph->initializers.items[i];
    for (const Node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] && sym_equals(node->outputs[i]->name, name))
                return node->outputs[i];
    return NULL;
}

static inline Value *test_value(const Graph *graph, const char *name) {
    Value *value = test_find(graph, name);
    if (!value) fail_msg("no value %s", name);
    return value;
}

/* The producer of that value. */
static inline Node *test_node(const Graph *graph, const char *output) {
    Node *node = test_value(graph, output)->producer;
    if (!node) fail_msg("%s has no producer", output);
    return node;
}

/* The graph that the attribute of the node holds. */
static inline Graph *test_body(const Node *node, const char *attr) {
    const Attr *found = node_attr(node, attr);
    if (!found || found->type != ATTR_GRAPH) fail_msg("no graph %s", attr);
    return found->v.g;
}

static inline void test_verify(const Model *model) {
    Err err = {0};
    char line[1024];
    Arena scratch;
    arena_init(&scratch, model->arena.trap);
    bool ok = model_verify(model, &scratch, &err);
    arena_free(&scratch);
    err_format(&err, line, sizeof line);
    if (!ok) fail_msg("%s", line);
}

/* xorshift64*: the same numbers on every machine. *state must not be 0. */
static inline uint32_t test_random(uint64_t *state, uint32_t below) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(2685821657736338717)) >> 33) % below;
}

#endif
