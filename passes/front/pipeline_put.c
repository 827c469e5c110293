// SPDX-License-Identifier: Apache-2.0
/* Pipelines as text; see pipeline_put.h. */
#include "pipeline_put.h"

#include <string.h>

#include "escaped.h"

static void put(PipelineText *text, const char *string) {
    for (; *string; string++) VEC_PUSH(text->arena, &text->out, *string);
}

static void put_quoted(PipelineText *text, const char *string) {
    put(text, "\"");
    for (size_t left = strlen(string), size; left; string += size, left -= size) {
        bool plain = escaped_plain(string, left, &size);
        unsigned code = utf8_code(string, size);
        if (!plain && (size > 1 || code < 0x80)) {
            char escape[SHOWN_ESCAPE_MOST];
            escaped_escape(code, escape);
            put(text, escape);
            continue;
        }
        if (*string == '"' || *string == '\\') put(text, "\\");
        for (size_t i = 0; i < size; i++) VEC_PUSH(text->arena, &text->out, string[i]);
    }
    put(text, "\"");
}

void pipeline_put_pass(PipelineText *text, const char *name) {
    if (text->out.count) put(text, ",");
    put(text, name);
    text->options = false;
}

void pipeline_end_pass(PipelineText *text) {
    if (text->options) put(text, "}");
    text->options = false;
}

static void put_key(PipelineText *text, const char *key) {
    put(text, text->options ? "," : "{");
    put(text, key);
    put(text, "=");
    text->options = true;
}

void pipeline_put_choice(PipelineText *text, const char *key, const char *value) {
    put_key(text, key);
    put(text, value);
}

void pipeline_put_string(PipelineText *text, const char *key, const char *value) {
    put_key(text, key);
    put_quoted(text, value);
}

void pipeline_put_options(PipelineText *text, const char *options) {
    if (!*options) return;
    put(text, text->options ? "," : "{");
    text->options = true;
    put(text, options);
}

void pipeline_put_list(PipelineText *text, const char *key, const char *const *items,
                       size_t count) {
    if (count == 0) return;
    put_key(text, key);
    for (size_t i = 0; i < count; i++) {
        put(text, i ? "," : "[");
        put_quoted(text, items[i]);
    }
    put(text, "]");
}

const char *pipeline_text(PipelineText *text) {
    VEC_PUSH(text->arena, &text->out, '\0');
    return text->out.items;
}
