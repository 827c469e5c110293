// SPDX-License-Identifier: Apache-2.0
/* Pipelines as text; see pipeline_put.h. */
#include "pipeline_put.h"

#include <string.h>

#include "shown.h"

void pipeline_put(PipelineText *text, const char *string) {
    for (; *string; string++) VEC_PUSH(text->arena, &text->out, *string);
}

static void put_quoted(PipelineText *text, const char *string) {
    pipeline_put(text, "\"");
    for (size_t left = strlen(string), size; left; string += size, left -= size) {
        bool plain = shown_plain(string, left, &size);
        unsigned code = utf8_code(string, size);
        if (!plain && code <= 0xffff && (size > 1 || code < 0x80)) {
            pipeline_put(text, arena_printf(text->arena, "\\u%04x", code));
            continue;
        }
        if (*string == '"' || *string == '\\') pipeline_put(text, "\\");
        for (size_t i = 0; i < size; i++) VEC_PUSH(text->arena, &text->out, string[i]);
    }
    pipeline_put(text, "\"");
}

void pipeline_put_pass(PipelineText *text, const char *name) {
    if (text->out.count) pipeline_put(text, ",");
    pipeline_put(text, name);
    text->options = false;
}

void pipeline_end_pass(PipelineText *text) {
    if (text->options) pipeline_put(text, "}");
    text->options = false;
}

void pipeline_put_key(PipelineText *text, const char *key) {
    pipeline_put(text, text->options ? "," : "{");
    pipeline_put(text, key);
    pipeline_put(text, "=");
    text->options = true;
}

void pipeline_put_choice(PipelineText *text, const char *key, const char *value) {
    pipeline_put_key(text, key);
    pipeline_put(text, value);
}

void pipeline_put_list(PipelineText *text, const char *key, const char *const *items,
                       size_t count) {
    if (count == 0) return;
    pipeline_put_key(text, key);
    for (size_t i = 0; i < count; i++) {
        pipeline_put(text, i ? "," : "[");
        put_quoted(text, items[i]);
    }
    pipeline_put(text, "]");
}

const char *pipeline_text(PipelineText *text) {
    VEC_PUSH(text->arena, &text->out, '\0');
    return text->out.items;
}
