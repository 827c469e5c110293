// SPDX-License-Identifier: Apache-2.0
/* Streaming JSON; see json_write.h. Outer objects and arrays are broken into lines, inner ones are
 * written on one line each: readable, and small for long lists. */
#include "json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "escaped.h"

/* Depths down to which each is broken: the nodes of a graph get a line each. */
enum { BROKEN_OBJECTS = 2, BROKEN_ARRAYS = 3 };

static void flush(JsonWriter *json) {
    if (json->used && !json->failed)
        json->failed = !json->write(json->user, json->buffer, json->used);
    json->used = 0;
}

static void put(JsonWriter *json, const char *text, size_t size) {
    if (size > sizeof json->buffer - json->used) flush(json);
    memcpy(json->buffer + json->used, text, size); /* callers pass a few bytes at a time */
    json->used += size;
}

static void puts_json(JsonWriter *json, const char *text) {
    put(json, text, strlen(text));
}

static void break_line(JsonWriter *json) {
    put(json, "\n", 1);
    for (unsigned i = 0; i < json->depth; i++) put(json, "  ", 2);
}

/* What a terminal should not get as it is is escaped: see escaped.h. */
static void put_escape(JsonWriter *json, unsigned code) {
    char escape[SHOWN_ESCAPE_MOST];
    put(json, escape, escaped_escape(code, escape));
}

static void put_string(JsonWriter *json, const char *text, size_t length) {
    put(json, "\"", 1);
    for (size_t i = 0, size; i < length; i += size) {
        const char *at = text + i;
        if (escaped_plain(at, length - i, &size)) {
            if (*at == '"' || *at == '\\') put(json, "\\", 1);
            put(json, at, size);
        } else {
            bool is_utf8 = size > 1 || (unsigned char)*at < 0x80;
            put_escape(json, is_utf8 ? utf8_code(at, size) : 0xfffd);
        }
    }
    put(json, "\"", 1);
}

/* True where the innermost open object or array has a line for each item. */
static bool is_broken(const JsonWriter *json) {
    return json->depth && json->depth <= JSON_BROKEN && json->broken[json->depth - 1];
}

static void begin_item(JsonWriter *json, const char *key) {
    if (json->comma) put(json, ",", 1);
    if (is_broken(json))
        break_line(json);
    else if (json->comma)
        put(json, " ", 1);
    json->comma = true;
    if (!key) return;
    put_string(json, key, strlen(key));
    put(json, ": ", 2);
}

void json_start(JsonWriter *json, DemiWriteFn write, void *user) {
    json->write = write;
    json->user = user;
    json->used = 0;
    json->depth = 0;
    json->comma = json->failed = false;
    memset(json->broken, 0, sizeof json->broken);
}

bool json_finish(JsonWriter *json) {
    put(json, "\n", 1);
    flush(json);
    return !json->failed;
}

void json_open(JsonWriter *json, const char *key, char bracket) {
    begin_item(json, key);
    put(json, &bracket, 1);
    unsigned most = bracket == '[' ? BROKEN_ARRAYS : BROKEN_OBJECTS;
    if (json->depth < JSON_BROKEN) json->broken[json->depth] = json->depth < most;
    json->depth++;
    json->comma = false;
}

void json_close(JsonWriter *json, char bracket) {
    bool broken = json->comma && is_broken(json);
    json->depth--;
    if (broken) break_line(json);
    put(json, &bracket, 1);
    json->comma = true;
}

void json_bytes(JsonWriter *json, const char *key, const char *value, size_t length) {
    begin_item(json, key);
    put_string(json, length ? value : "", length); /* no bytes may lie nowhere */
}

void json_text(JsonWriter *json, const char *key, const char *value) {
    json_bytes(json, key, value, strlen(value));
}

void json_signed(JsonWriter *json, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    begin_item(json, key);
    puts_json(json, text);
}

void json_unsigned(JsonWriter *json, const char *key, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    begin_item(json, key);
    puts_json(json, text);
}

void json_number(JsonWriter *json, const char *key, double value) {
    char text[40];
    if (isfinite(value))
        snprintf(text, sizeof text, "%.9g", value);
    else
        snprintf(text, sizeof text, "null");
    begin_item(json, key);
    puts_json(json, text);
}

void json_boolean(JsonWriter *json, const char *key, bool value) {
    begin_item(json, key);
    puts_json(json, value ? "true" : "false");
}
